/* A file that holds a code object, by itself or in an offload bundle. */
#ifndef TOOLS_CODE_FILE_H
#define TOOLS_CODE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "codeobj/bundle.h"

struct code_file {
	void *file;
	struct co_bundle bundle;
	const struct co_bundle_entry *entry; /* NULL: no bundle */
	const void *image;                   /* the code object */
	size_t bytes;
};

/* target: the arch to take out of a bundle; NULL: what this driver runs. any: for looking at, also the
 * only one there is. 0 or -errno with one line in err; free with code_file_free(). */
int code_file_read(const char *path, const char *target, bool any, struct code_file *out, char *err,
		   size_t errlen);
void code_file_free(struct code_file *c);

#endif
