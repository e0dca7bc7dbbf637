/* matmul_TYPE_x16: y[rows, n] = W[rows, k] x[k, n] for many columns, W in the layout of blocks.h.
 *
 * Inputs: x, f32, column per token; W. A group computes 64 rows of 16 columns. A lane owns two rows
 * and takes eight weights of each at a time (strips.h); they stay in registers while the columns
 * pass. What it multiplies them with is the same in all lanes and comes through scalar loads. The
 * waves of a group share k among them, unit by unit, and add up at the end through LDS.
 * Writer of y[row, col]: lane row % 32 of wave (col - first) % 4 of the group, once.
 * Barriers: one, between the waves' sums in LDS and adding them.
 * Columns >= step->n do nothing; columns < *first are skipped and y starts at *first.
 */
#include "kernels/strips.h"

#define R     (KA_MATMUL_WIDE_ROWS / 32)
#define T     KA_MATMUL_WIDE
#define WAVES KA_MATMUL_WAVES

typedef float f8 __attribute__((ext_vector_type(8), aligned(16)));

LDS float sums[WAVES][T][KA_MATMUL_WIDE_ROWS];

/* acc of four columns += w times x. Columns past the end repeat the last one. */
INLINE void columns(u32 left, u32 j0, float acc[][R], float w[R][8], GLOBAL const float *x, u32 k)
{
	for (u32 j = j0; j < j0 + 4; j++) {
		f8 v = LOAD(f8, x, (j < left ? j : left - 1) * (k * 4));

		for (u32 i = 0; i < 8; i++)
			for (u32 r = 0; r < R; r++)
				acc[j][r] = __builtin_fmaf(w[r][i], v[i], acc[j][r]);
	}
}

INLINE void unit_times(enum wtype t, u32 left, float acc[][R], GLOBAL const u8 *row,
		       const u32 off[R], GLOBAL const float *x, u32 k, u32 unit)
{
	u32 c = unit * strip_unit(t), steps = strip_steps(t);
	struct strip s[R] = {0};

	if (!frag_scaled(t) && (k - c) / 8 < steps)
		steps = (k - c) / 8;
	for (u32 r = 0; r < R; r++)
		strip_unit_load(t, row, off[r], k, unit, &s[r]);
	/* Loops, so that the code of one strip is all there is. */
#pragma clang loop unroll(disable)
	for (u32 step = 0; step < steps; step++) {
		for (u32 r = 0; r < R; r++)
			strip_load(t, row, off[r], k, unit, step, &s[r]);
#pragma clang loop unroll(disable)
		for (u32 i = 0; i < strip_count(t); i++) {
			GLOBAL const float *at = x + c + strip_at(t, step, i);
			float w[R][8];

			for (u32 r = 0; r < R; r++)
				strip_next(t, i, &s[r], w[r]);
			/* The last columns of a prompt are rarely sixteen. */
			columns(left, 0, acc, w, at, k);
			if (left > 4)
				columns(left, 4, acc, w, at, k);
			if (left > 8)
				columns(left, 8, acc, w, at, k);
			if (left > 12)
				columns(left, 12, acc, w, at, k);
		}
	}
}

INLINE void matmul_wide(enum wtype t, const struct ka_matmul *a)
{
	u32 lane = LANE, wave = WAVE, row0 = GIDX * KA_MATMUL_WIDE_ROWS, k = a->k;
	u32 first = *a->first, col0 = first + GIDY * T, n = a->step->n, left, off[R];
	GLOBAL const u8 *row = a->w + (u64)row0 * a->row_bytes;
	GLOBAL const float *x = a->x + (u64)col0 * k;
	float acc[T][R];

	if (col0 >= n || row0 >= a->rows)
		return;
	left = n - col0 < T ? n - col0 : T;
	/* Rows past the end repeat the last one; only real ones are stored. */
	for (u32 r = 0; r < R; r++) {
		u32 i = r * 32 + lane;

		off[r] = (row0 + i < a->rows ? i : a->rows - 1 - row0) * a->row_bytes;
	}
	for (u32 j = 0; j < T; j++)
		for (u32 r = 0; r < R; r++)
			acc[j][r] = 0.0f;
#pragma clang loop unroll(disable)
	for (u32 unit = wave; unit * strip_unit(t) < k; unit += WAVES)
		unit_times(t, left, acc, row, off, x, k, unit);
	for (u32 j = 0; j < T; j++)
		for (u32 r = 0; r < R; r++)
			sums[wave][j][r * 32 + lane] = acc[j][r];
	barrier();
#pragma clang loop unroll(disable)
	for (u32 j = wave; j < left; j += WAVES) {
		GLOBAL float *y = a->y + (u64)(col0 - first + j) * a->rows + row0;

		for (u32 r = 0; r < R; r++) {
			u32 i = r * 32 + lane;
			float s = 0.0f;

			for (u32 w = 0; w < WAVES; w++)
				s += sums[w][j][i];
			if (row0 + i < a->rows)
				y[i] = s;
		}
	}
}

#define MATMUL(type, t)                                                                            \
	KERNEL matmul_##type##_x16(struct ka_matmul a)                                             \
	{                                                                                          \
		matmul_wide(t, &a);                                                                \
	}

EACH_WTYPE(MATMUL)
