/* copy_b128: moves n times 16 bytes.
 *
 * Inputs: src, n. Writer of dst[i]: work-item i of the grid, once; dst and src do not overlap. No
 * barriers.
 */
#include "kernels/device.h"

KERNEL copy_b128(struct ka_copy a)
{
	u64 i = (u64)GIDX * KA_COPY_GROUP + TID;

	if (i < a.n)
		((GLOBAL u4 *)a.dst)[i] = ((GLOBAL const u4 *)a.src)[i];
}
