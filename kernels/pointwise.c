/* add: y = a + b. silu_mul: y = a / (1 + exp(-a)) * b. kv_store: cache row pos[t] = x row t.
 *
 * Inputs: f32 rows, one per token, a multiple of four wide.
 * Writer of elements 4i .. 4i+3 of row t: work-item i of row t of the grid, once (kv_store: of
 * row pos[t]; the host gives every token of a step a position of its own). No barriers.
 */
#include "kernels/device.h"

KERNEL add(struct ka_binary a)
{
	u32 i = GIDX * 128 + TID, tok = GIDY, n4 = a.width / 4;
	u64 row = (u64)tok * a.width;

	if (tok >= a.step->n || i >= n4)
		return;
	((GLOBAL f4 *)(a.y + row))[i] =
		((GLOBAL const f4 *)(a.a + row))[i] + ((GLOBAL const f4 *)(a.b + row))[i];
}

KERNEL silu_mul(struct ka_binary a)
{
	u32 i = GIDX * 128 + TID, tok = GIDY, n4 = a.width / 4;
	u64 row = (u64)tok * a.width;
	f4 p, q, y;

	if (tok >= a.step->n || i >= n4)
		return;
	p = ((GLOBAL const f4 *)(a.a + row))[i];
	q = ((GLOBAL const f4 *)(a.b + row))[i];
	/* For large -p the exponential is infinite, its reciprocal 0: the limit of silu. */
	for (int j = 0; j < 4; j++)
		y[j] = p[j] * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(p[j] * -LOG2E)) *
		       q[j];
	((GLOBAL f4 *)(a.y + row))[i] = y;
}

KERNEL kv_store(struct ka_kv_store a)
{
	u32 i = GIDX * 128 + TID, tok = GIDY, n4 = a.width / 4;

	if (tok >= a.step->n || i >= n4)
		return;
	((GLOBAL f4 *)(a.cache + (u64)(u32)a.pos[tok] * a.width))[i] =
		((GLOBAL const f4 *)(a.x + (u64)tok * a.width))[i];
}
