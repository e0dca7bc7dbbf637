/* embed_TYPE: y[d, n] = row ids[t] of the table w.
 *
 * Inputs: ids (the host has checked them against the vocabulary), w in the layout of blocks.h.
 * Writer of y[i, t]: work-item i of row t of the grid, once. No barriers.
 */
#include "kernels/blocks.h"

INLINE void embed(enum wtype t, const struct ka_embed *a)
{
	u32 i = GIDX * 128 + TID, tok = GIDY;
	GLOBAL const u8 *row;

	if (tok >= a->step->n || i >= a->d)
		return;
	row = a->w + (u64)(u32)a->ids[tok] * a->row_bytes;
	(a->y + (u64)tok * a->d)[i] = weight_at(t, row, a->d, i);
}

#define EMBED(type, t)                                                                             \
	KERNEL embed_##type(struct ka_embed a)                                                     \
	{                                                                                          \
		embed(t, &a);                                                                      \
	}

EACH_WTYPE(EMBED)
