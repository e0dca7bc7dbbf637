/* rmsnorm: y[i, t] = x[i, t] * w[i] / sqrt(mean over i of x^2 + eps).
 *
 * Inputs: x, w, f32. One group per token, a.threads work-items, four elements each per turn.
 * Writer of y[i, t]: work-item (i / 4) % threads of group t, once.
 * Barriers: one, between each wave's partial sum in LDS and everybody reading all of them.
 */
#include "kernels/device.h"

LDS float partial[8];

KERNEL rmsnorm(struct ka_rmsnorm a)
{
	u32 tid = TID, tok = GIDY, n4 = a.d / 4, waves = a.threads / 32;
	GLOBAL const f4 *x;
	GLOBAL f4 *y;
	float s = 0.0f, r;

	if (tok >= a.step->n)
		return;
	x = (GLOBAL const f4 *)(a.x + (u64)tok * a.d);
	y = (GLOBAL f4 *)(a.y + (u64)tok * a.d);
	for (u32 i = tid; i < n4; i += a.threads) {
		f4 v = x[i];

		for (int j = 0; j < 4; j++)
			s = __builtin_fmaf(v[j], v[j], s);
	}
	s = wave_sum(s);
	if (waves > 1) {
		if ((tid & 31) == 0)
			partial[tid >> 5] = s;
		barrier();
		s = 0.0f;
		for (u32 i = 0; i < waves; i++)
			s += partial[i];
	}
	r = __builtin_amdgcn_rsqf(__builtin_fmaf(s, a.inv_d, a.eps));
	for (u32 i = tid; i < n4; i += a.threads)
		y[i] = x[i] * r * ((GLOBAL const f4 *)a.w)[i];
}
