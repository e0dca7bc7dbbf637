/* y = W x: W in Q8_0 as the engine keeps it (a row of k int8, then k/32 f16 scales), x quantised
 * the same way. A wave takes four rows, as the engine's own kernels do, so that it reads x once for
 * them, and 512 weights of each at a time, 16 per lane. */
#include "kernels/device.h"

#define ROWS 4

KERNEL q8_stream(GLOBAL const u8 *w, GLOBAL const u8 *x, GLOBAL float *y, u32 k)
{
	u32 lane = LANE, row = (GIDX * 4 + WAVE) * ROWS, bytes = k + k / 16;
	GLOBAL const u8 *r = w + (u64)row * bytes;
	float acc[ROWS] = {0};

	for (u32 c = 0; c < k; c += 512) {
		u4 b = LOAD(u4, x + c, lane * 16);
		float d = (float)LOAD(f16, x + k + c / 16, lane / 2 * 2);

		for (int i = 0; i < ROWS; i++) {
			GLOBAL const u8 *p = r + (u64)i * bytes;
			u4 a = LOAD(u4, p + c, lane * 16);
			float e = (float)LOAD(f16, p + k + c / 16, lane / 2 * 2) * d;
			i32 dot = 0;

			for (int j = 0; j < 4; j++)
				dot = __builtin_amdgcn_sudot4(1, (i32)a[j], 1, (i32)b[j], dot, 0);
			acc[i] = __builtin_fmaf((float)dot, e, acc[i]);
		}
	}
	acc[0] = wave_sum4(acc, lane);
	if (lane < ROWS)
		y[row + lane] = acc[0];
}
