/* How each weight type lies on the device: one table, applied once while loading.
 *
 * A kernel is chosen by (operation, layout); nothing else may assume anything about the bytes.
 * A type without a layout stays in the file and its nodes run on the CPU. Pure code.
 */
#ifndef ENGINE_LAYOUT_H
#define ENGINE_LAYOUT_H

#include "engine/graph.h"

#include <stdbool.h>

#define LAYOUT_ALIGN 256u /* of every tensor on the device: a whole number of cache lines */

struct layout {
	enum ggml_type type;
	const char *name;    /* the suffix of the kernels that read it: "q4_k" */
	uint32_t block;      /* elements; rows are whole blocks */
	uint32_t file_bytes; /* per block, in the file */
	bool identity;       /* device bytes of a row are the file's (then padding) */
	/* One row, k elements: file to device. NULL: a copy. */
	void (*row)(const uint8_t *file, uint8_t *dev, uint64_t k);
};

/* NULL when the type has no device layout. */
const struct layout *layout_of(enum ggml_type type);
/* Bytes of a device row: the blocks' bytes, padded to 16. k must be whole blocks. */
uint64_t layout_row_bytes(const struct layout *l, uint64_t k);
/* Bytes of a tensor of rows rows. -EINVAL when k is not whole blocks, -EOVERFLOW. */
int layout_bytes(const struct layout *l, uint64_t k, uint64_t rows, uint64_t *bytes);
/* Writes a whole tensor in its device layout, padding zeroed; dev has layout_bytes() bytes. */
void layout_store(const struct layout *l, const void *file, void *dev, uint64_t k, uint64_t rows);

#endif
