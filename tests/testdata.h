/* Finds test data: tests/data first, then $BAREWAVE_SHARED_DATA, then ../shared/data beside the
 * clone. */
#ifndef TESTDATA_H
#define TESTDATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A path valid until the next call of the same thread, or NULL when the file is nowhere. */
static inline const char *testdata(const char *name)
{
	static _Thread_local char path[4096];
	const char *env = getenv("BAREWAVE_SHARED_DATA");

	snprintf(path, sizeof(path), "tests/data/%s", name);
	if (access(path, R_OK) == 0)
		return path;
	if (env) {
		snprintf(path, sizeof(path), "%s/%s", env, name);
		if (access(path, R_OK) == 0)
			return path;
	}
	snprintf(path, sizeof(path), "../shared/data/%s", name);
	return access(path, R_OK) == 0 ? path : NULL;
}

#endif
