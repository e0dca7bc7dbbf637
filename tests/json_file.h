/* JSON test data, and how a test that lacks its data says so. */
#ifndef TESTS_JSON_FILE_H
#define TESTS_JSON_FILE_H

#include <criterion/criterion.h>
#include <jansson.h>

#include "tests/testdata.h"

/* Prints the line that tests/run.sh counts, and ends the test. */
#define SKIP(name, reason)                                                                         \
	do {                                                                                       \
		fprintf(stderr, "SKIP: %s: %s\n", name, reason);                                   \
		cr_skip_test("%s", reason);                                                        \
	} while (0)

/* The caller's reference, or NULL when the file is nowhere. */
static inline json_t *json_testdata(const char *name)
{
	const char *path = testdata(name);
	json_error_t e;
	json_t *j;

	if (!path)
		return NULL;
	j = json_load_file(path, JSON_ALLOW_NUL, &e);
	cr_assert(j, "%s:%d: %s", name, e.line, e.text);
	return j;
}

/* An array of integers; *n of them, to be freed. */
static inline int32_t *json_ids(const json_t *array, size_t *n)
{
	int32_t *ids;

	cr_assert(json_is_array(array));
	*n = json_array_size(array);
	ids = malloc((*n + 1) * sizeof(*ids));
	for (size_t i = 0; i < *n; i++)
		ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
	return ids;
}

#endif
