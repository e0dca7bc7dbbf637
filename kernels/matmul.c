/* matmul_TYPE, _x4, _x16: y[rows, n] = W[rows, k] x[k, n], W in the layout of blocks.h.
 *
 * Inputs: x, f32, column per token; W. A wave computes four rows of one column (of 4, of 16): it
 * walks k in chunks of 256, eight weights per lane, and sums over the lanes at the end.
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

/* Scale and offset go into the weights: once per weight here, not once per weight and column. */
INLINE void frag_apply(enum wtype t, struct frag *f)
{
	if (!frag_scaled(t))
		return;
	for (int i = 0; i < 4; i++) {
		f->w[i] = __builtin_fmaf(f->w[i], f->a0, f->b0);
		f->w[4 + i] = __builtin_fmaf(f->w[4 + i], f->a1, f->b1);
	}
}

/* acc of four columns += f times x. Columns past the end repeat the last one. */
INLINE void wide_columns(u32 left, u32 j0, float acc[][R], const struct frag *f,
			 GLOBAL const float *x, u32 k, u32 o0, u32 o1)
{
	for (u32 j = j0; j < j0 + KA_MATMUL_COLUMNS; j++) {
		GLOBAL const float *col = x + (u64)(j < left ? j : left - 1) * k;
		f4 x0 = LOAD(f4, col, o0), x1 = LOAD(f4, col, o1);

		for (u32 r = 0; r < R; r++)
			for (int i = 0; i < 4; i++) {
				acc[j][r] = __builtin_fmaf(f[r].w[i], x0[i], acc[j][r]);
				acc[j][r] = __builtin_fmaf(f[r].w[4 + i], x1[i], acc[j][r]);
			}
	}
}

/* The weights of a chunk stay in registers while the columns pass, four at a time: the last ones of
 * a prompt are rarely sixteen. */
INLINE void wide_chunk(enum wtype t, u32 left, float acc[][R], GLOBAL const u8 *const *w,
		       GLOBAL const float *x, u32 k, u32 c, u32 lane)
{
	u32 o0 = frag_off0(t, lane) * 4, o1 = frag_off1(t, lane) * 4;
	struct frag f[R];

	for (u32 r = 0; r < R; r++) {
		f[r] = frag_load(t, w[r], k, c, lane);
		frag_apply(t, &f[r]);
	}
	wide_columns(left, 0, acc, f, x + c, k, o0, o1);
	if (left > 4)
		wide_columns(left, 4, acc, f, x + c, k, o0, o1);
	if (left > 8)
		wide_columns(left, 8, acc, f, x + c, k, o0, o1);
	if (left > 12)
		wide_columns(left, 12, acc, f, x + c, k, o0, o1);
}

INLINE void matmul_wide(enum wtype t, const struct ka_matmul *a)
{
	u32 lane = LANE, row0 = (GIDX * KA_MATMUL_WAVES + WAVE) * R;
	u32 first = *a->first, col0 = first + GIDY * KA_MATMUL_WIDE, n = a->step->n, c = 0, left;
	GLOBAL const u8 *w[R];
	GLOBAL const float *x;
	float acc[KA_MATMUL_WIDE][R];

	if (col0 >= n || row0 >= a->rows)
		return;
	left = n - col0;
	x = a->x + (u64)col0 * a->k;
	for (u32 r = 0; r < R; r++)
		w[r] = a->w + (u64)(row0 + r < a->rows ? row0 + r : a->rows - 1) * a->row_bytes;
	for (u32 j = 0; j < KA_MATMUL_WIDE; j++)
		for (u32 r = 0; r < R; r++)
			acc[j][r] = 0.0f;
	for (; c + CHUNK <= a->k; c += CHUNK)
		wide_chunk(t, left, acc, w, x, a->k, c, lane);
	if (t != W_Q4_K && t != W_Q5_K && t != W_Q6_K && c + frag_off0(t, lane) < a->k)
		wide_chunk(t, left, acc, w, x, a->k, c, lane);
#pragma clang loop unroll(full)
	for (u32 j = 0; j < KA_MATMUL_WIDE; j++) {
		float s = wave_sum4(acc[j], lane);

		if (lane < R && row0 + lane < a->rows && j < left)
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
	}                                                                                          \
	KERNEL matmul_##type##_x16(struct ka_matmul a)                                             \
	{                                                                                          \
		matmul_wide(t, &a);                                                                \
	}

MATMUL(f32, W_F32)
MATMUL(f16, W_F16)
MATMUL(bf16, W_BF16)
MATMUL(q8_0, W_Q8_0)
MATMUL(q4_0, W_Q4_0)
MATMUL(q4_k, W_Q4_K)
MATMUL(q5_k, W_Q5_K)
MATMUL(q6_k, W_Q6_K)
