/* Offload bundles: several code objects in one file, as clang writes them for more than one target.
 *
 * Source: Clang's documentation, "Clang Offload Bundler": bundled code object file layout, and the
 * compressed one ("CCOB", versions 1 to 3). Pure.
 */
#ifndef CODEOBJ_BUNDLE_H
#define CODEOBJ_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct co_bundle_entry {
	char id[128];      /* "hipv4-amdgcn-amd-amdhsa--gfx1151"; no control bytes */
	const void *image; /* within the file, or within plain */
	size_t bytes;
};

struct co_bundle {
	struct co_bundle_entry *entries;
	uint32_t n;
	void *plain; /* what a compressed one unpacks to, else NULL */
};

bool co_is_bundle(const void *file, size_t n);
/* Keeps pointers into file. -EILSEQ malformed, -ENOTSUP a version or method, -ENOMEM; err gets a line
 * with field, given and wanted value. Nothing is to be freed after a failure. */
int co_bundle_open(const void *file, size_t n, struct co_bundle *out, char *err, size_t errlen);
void co_bundle_free(struct co_bundle *b);
/* The entry for arch ("gfx1100"). NULL: for what this driver runs, gfx1151 or else gfx11-generic.
 * NULL if there is none. */
const struct co_bundle_entry *co_bundle_find(const struct co_bundle *b, const char *arch);
/* The ids, comma separated, cut to len. */
void co_bundle_ids(const struct co_bundle *b, char *text, size_t len);

#endif
