/* headnorm_rope: per head, RMS norm with weight w (none when w is 0), then NEOX rotation: the
 * pair (i, i + hd/2) turns by pos * theta^(-2i/hd).
 *
 * Inputs: x, w, pos, and freq: for each pair, the turn per position in revolutions as a 64-bit
 * binary fraction. pos * freq modulo one revolution is then integer arithmetic and exact, so the
 * angle does not lose digits as the position grows.
 * One wave per (head, token). Writer of both elements of pair i: lane i % 32, once. No barriers.
 */
#include "kernels/device.h"

/* sin and cos of 2 pi turn / 2^32, to about 1e-7. */
INLINE void sincos_turn(u32 turn, float *sin, float *cos)
{
	u32 quarter = (turn + 0x20000000u) >> 30; /* nearest multiple of a quarter turn */
	float x = (float)(i32)(turn - (quarter << 30)) * 1.46291807926715968e-9f; /* 2 pi / 2^32 */
	float z = x * x;
	float s = __builtin_fmaf(z, 2.75573192e-6f, -1.98412698e-4f);
	float c = __builtin_fmaf(z, 2.48015873e-5f, -1.38888889e-3f);
	float a, b;

	s = __builtin_fmaf(z, s, 8.33333333e-3f);
	s = __builtin_fmaf(z, s, -1.66666667e-1f);
	s = __builtin_fmaf(x * z, s, x);
	c = __builtin_fmaf(z, c, 4.16666667e-2f);
	c = __builtin_fmaf(z, c, -0.5f);
	c = __builtin_fmaf(z, c, 1.0f);
	a = quarter & 1 ? c : s;
	b = quarter & 1 ? s : c;
	*sin = quarter & 2 ? -a : a;
	*cos = (quarter + 1) & 2 ? -b : b;
}

KERNEL headnorm_rope(struct ka_headnorm_rope a)
{
	u32 lane = TID, tok = GIDY, half = a.hd / 2;
	GLOBAL const float *x;
	GLOBAL float *y;
	float r = 1.0f;
	u32 pos;

	if (tok >= a.step->n)
		return;
	x = a.x + (u64)tok * a.stride + GIDX * a.hd;
	y = a.y + (u64)tok * a.stride + GIDX * a.hd;
	pos = (u32)a.pos[tok];
	if (a.w) {
		float s = 0.0f;

		for (u32 i = lane; i < half; i += 32) {
			s = __builtin_fmaf(x[i], x[i], s);
			s = __builtin_fmaf(x[i + half], x[i + half], s);
		}
		s = wave_sum(s);
		r = __builtin_amdgcn_rsqf(__builtin_fmaf(s, a.inv_hd, a.eps));
	}
	for (u32 i = lane; i < half; i += 32) {
		u2 f = ((GLOBAL const u2 *)a.freq)[i];
		u32 turn = pos * f[1] + (u32)((u64)pos * f[0] >> 32);
		float p = x[i] * r, q = x[i + half] * r, sn, cs;

		if (a.w) {
			p *= a.w[i];
			q *= a.w[i + half];
		}
		sincos_turn(turn, &sn, &cs);
		y[i] = p * cs - q * sn;
		y[i + half] = p * sn + q * cs;
	}
}
