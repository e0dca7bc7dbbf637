/* matmul_TYPE, _x4: y[rows, n] = W[rows, k] x[k, n], W in the layout of blocks.h.
 *
 * Inputs: x, f32, column per token; W. A wave computes four rows of one column (of 4): it walks
 * k in chunks of 256, eight weights per lane, and sums over the lanes at the end.
 * Writer of y[row, col]: lane row%4 of the wave that owns the four rows, once. No barriers.
 * Columns >= step->n do nothing; columns < *first are skipped and y starts at *first.
 */
#include "kernels/blocks.h"

#define R KA_MATMUL_WAVE_ROWS

INLINE void matmul_chunk(enum wtype t, const u32 nc, float acc[][R], GLOBAL const u8 *const *w,
			 GLOBAL const float *const *x, u32 k, u32 c, u32 lane)
{
	u32 o0 = frag_off0(t, lane) * 4, o1 = frag_off1(t, lane) * 4;
	f4 x0[KA_MATMUL_COLUMNS], x1[KA_MATMUL_COLUMNS];
	float s0[KA_MATMUL_COLUMNS], s1[KA_MATMUL_COLUMNS];

	for (u32 j = 0; j < nc; j++) {
		x0[j] = LOAD(f4, x[j] + c, o0);
		x1[j] = LOAD(f4, x[j] + c, o1);
		/* Offsets of the weights meet the sum of x: shared by the rows. */
		s0[j] = x0[j][0] + x0[j][1] + x0[j][2] + x0[j][3];
		s1[j] = x1[j][0] + x1[j][1] + x1[j][2] + x1[j][3];
	}
	for (u32 r = 0; r < R; r++) {
		struct frag f = frag_load(t, w[r], k, c, lane);

		for (u32 j = 0; j < nc; j++) {
			float p, q;

			if (!frag_scaled(t)) {
				for (int i = 0; i < 4; i++) {
					acc[j][r] = __builtin_fmaf(f.w[i], x0[j][i], acc[j][r]);
					acc[j][r] = __builtin_fmaf(f.w[4 + i], x1[j][i], acc[j][r]);
				}
				continue;
			}
			p = f.w[0] * x0[j][0];
			q = f.w[4] * x1[j][0];
			for (int i = 1; i < 4; i++) {
				p = __builtin_fmaf(f.w[i], x0[j][i], p);
				q = __builtin_fmaf(f.w[4 + i], x1[j][i], q);
			}
			acc[j][r] = __builtin_fmaf(f.a0, p, acc[j][r]);
			acc[j][r] = __builtin_fmaf(f.a1, q, acc[j][r]);
			acc[j][r] = __builtin_fmaf(f.b0, s0[j], acc[j][r]);
			acc[j][r] = __builtin_fmaf(f.b1, s1[j], acc[j][r]);
		}
	}
}

INLINE void matmul(enum wtype t, const u32 nc, const struct ka_matmul *a)
{
	u32 lane = LANE, row0 = (GIDX * KA_MATMUL_WAVES + WAVE) * R;
	u32 first = *a->first, col0 = first + GIDY * nc, n = a->step->n, c = 0;
	GLOBAL const u8 *w[R];
	GLOBAL const float *x[KA_MATMUL_COLUMNS];
	float acc[KA_MATMUL_COLUMNS][R];

	if (col0 >= n || row0 >= a->rows)
		return;
	for (u32 r = 0; r < R; r++) {
		/* Rows and columns past the end repeat the last one; only real ones are stored. */
		u32 row = row0 + r < a->rows ? row0 + r : a->rows - 1;

		w[r] = a->w + (u64)row * a->row_bytes;
	}
	for (u32 j = 0; j < nc; j++) {
		u32 col = col0 + j < n ? col0 + j : n - 1;

		x[j] = a->x + (u64)col * a->k;
		for (u32 r = 0; r < R; r++)
			acc[j][r] = 0.0f;
	}
	for (; c + CHUNK <= a->k; c += CHUNK)
		matmul_chunk(t, nc, acc, w, x, a->k, c, lane);
	/* Blocks of 256 leave no rest. */
	if (t != W_Q4_K && t != W_Q5_K && t != W_Q6_K && c + frag_off0(t, lane) < a->k)
		matmul_chunk(t, nc, acc, w, x, a->k, c, lane);
	for (u32 j = 0; j < nc; j++) {
		float s = wave_sum4(acc[j], lane);

		if (lane < R && row0 + lane < a->rows && col0 + j < n)
			(a->y + (u64)(col0 - first + j) * a->rows)[row0 + lane] = s;
	}
}

#define MATMUL(type, t)                                                                            \
	KERNEL matmul_##type(struct ka_matmul a)                                                   \
	{                                                                                          \
		matmul(t, 1, &a);                                                                  \
	}                                                                                          \
	KERNEL matmul_##type##_x4(struct ka_matmul a)                                              \
	{                                                                                          \
		matmul(t, KA_MATMUL_COLUMNS, &a);                                                  \
	}

EACH_WTYPE(MATMUL)
