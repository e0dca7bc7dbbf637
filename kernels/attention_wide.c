/* attn_hHD_x8: causal attention of eight query tokens of one head over the cached K and V.
 *
 * Inputs: q[heads * HD, n]; K and V caches [kv_stride, ctx], rows 0 .. pos[t] written; pos.
 * One group of four waves per (head, eight tokens). Waves take tiles of 32 keys in turn: a lane
 * scores one key for all eight queries, whose elements are the same in all lanes and come through
 * scalar loads; then the wave adds the 32 rows of V, weighted for each query, a lane owning HD/32
 * neighbouring elements. So K and V are read an eighth as often as by attn_hHD. Each wave keeps its
 * own running maximum, sum and output per query (online softmax); they are joined at the end
 * through LDS.
 * Writer of y[h * HD + i, t]: work-item i of the group, once.
 * Barriers: one, between the waves' partial results in LDS and their sum.
 */
#include "kernels/device.h"

#define WAVES KA_ATTN_WAVES
#define T     KA_ATTN_WIDE

/* What a query that has seen no key has as its maximum: less than any score, and finite, so that
 * the difference of two of them is a number. */
#define LEAST (-3.0e38f)

typedef float f8 __attribute__((ext_vector_type(8), aligned(16)));

LDS float part_max[WAVES][T], part_sum[WAVES][T];
LDS float part_out[WAVES][T][128];

/* s of each query += q . k over all of a head. */
INLINE void score(const u32 hd, float s[T], GLOBAL const float *q, u32 q_bytes, u32 left,
		  GLOBAL const float *kc, u32 off)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < hd; i += 8) {
		f4 k0 = LOAD(f4, kc + i, off), k1 = LOAD(f4, kc + i, off + 16);

		for (u32 t = 0; t < T; t++) {
			f8 v = LOAD(f8, q + i, (t < left ? t : left - 1) * q_bytes);

			for (u32 e = 0; e < 4; e++)
				s[t] = __builtin_fmaf(k0[e], v[e], s[t]);
			for (u32 e = 0; e < 4; e++)
				s[t] = __builtin_fmaf(k1[e], v[4 + e], s[t]);
		}
	}
}

/* acc of each query += (its p of lane j) * row, lane by lane. */
INLINE void add_value(const u32 per, float acc[T][4], const float p[T], u32 j, GLOBAL const u8 *row)
{
	f4 v = {0.0f, 0.0f, 0.0f, 0.0f};

	if (per == 2) {
		f2 h = LOAD(f2, row, LANE * 8);

		v[0] = h[0];
		v[1] = h[1];
	} else {
		v = LOAD(f4, row, LANE * 16);
	}
	for (u32 t = 0; t < T; t++) {
		i32 bits = __builtin_amdgcn_readlane(__builtin_bit_cast(i32, p[t]), (i32)j);

		for (u32 e = 0; e < per; e++)
			acc[t][e] =
				__builtin_fmaf(__builtin_bit_cast(float, bits), v[e], acc[t][e]);
	}
}

INLINE void attn_wide(const u32 hd, const struct ka_attn *a)
{
	const u32 per = hd / 32;
	u32 tid = TID, lane = tid & 31, wave = WAVE, tok0 = GIDZ * T, left;
	u32 head = GIDY * a->per_kv + GIDX, row_bytes = a->kv_stride * 4, most = 0, len[T];
	float acc[T][4], m[T], l[T];
	GLOBAL const float *q, *kc;
	GLOBAL const u8 *vc;

	if (tok0 >= a->step->n)
		return;
	left = a->step->n - tok0;
	left = left < T ? left : T;
	q = a->q + (u64)tok0 * a->q_stride + head * hd;
	kc = a->kc + GIDY * hd;
	vc = (GLOBAL const u8 *)(a->vc + GIDY * hd);
	for (u32 t = 0; t < T; t++) {
		/* Tokens past the end repeat the last one; only real ones are stored. */
		len[t] = (u32)a->pos[tok0 + (t < left ? t : left - 1)] + 1;
		most = len[t] > most ? len[t] : most;
		m[t] = LEAST;
		l[t] = 0.0f;
		for (u32 e = 0; e < 4; e++)
			acc[t][e] = 0.0f;
	}
#pragma clang loop unroll(disable)
	for (u32 base = wave * 32; base < most; base += WAVES * 32) {
		u32 key = base + lane, live = most - base < 32 ? most - base : 32;
		/* Lanes past the end read the last key again: no row beyond any query's is
		 * touched. */
		u32 off = (key < most ? key : most - 1) * row_bytes;
		float s[T];

		for (u32 t = 0; t < T; t++)
			s[t] = 0.0f;
		score(hd, s, q, a->q_stride * 4, left, kc, off);
		for (u32 t = 0; t < T; t++) {
			float top, fix;

			s[t] = key < len[t] ? s[t] * a->scale_log2e : NEG_INF;
			top = __builtin_fmaxf(m[t], wave_max(s[t]));
			fix = __builtin_amdgcn_exp2f(m[t] - top);
			s[t] = __builtin_amdgcn_exp2f(s[t] - top);
			l[t] = __builtin_fmaf(l[t], fix, s[t]);
			m[t] = top;
			for (u32 e = 0; e < per; e++)
				acc[t][e] *= fix;
		}
#pragma clang loop unroll(disable)
		for (u32 j = 0; j < live; j += 4)
			for (u32 i = j; i < j + 4; i++) {
				/* Past the end the weight is 0. */
				u32 row = i < live ? base + i : most - 1;

				add_value(per, acc, s, i, vc + (u64)row * row_bytes);
			}
	}
	for (u32 t = 0; t < T; t++) {
		float sum = wave_sum(l[t]);

		if (lane == 0) {
			part_max[wave][t] = m[t];
			part_sum[wave][t] = sum;
		}
		for (u32 e = 0; e < per; e++)
			part_out[wave][t][lane * per + e] = acc[t][e];
	}
	barrier();
	if (tid >= hd)
		return;
#pragma clang loop unroll(disable)
	for (u32 t = 0; t < left; t++) {
		float top = part_max[0][t], sum = 0.0f, out = 0.0f;

		for (u32 w = 1; w < WAVES; w++)
			top = __builtin_fmaxf(top, part_max[w][t]);
		for (u32 w = 0; w < WAVES; w++) {
			/* A wave without keys weighs nothing: every query has one in some wave. */
			float f = __builtin_amdgcn_exp2f(part_max[w][t] - top);

			sum = __builtin_fmaf(f, part_sum[w][t], sum);
			out = __builtin_fmaf(f, part_out[w][t][tid], out);
		}
		(a->y + (u64)(tok0 + t) * a->q_stride + head * hd)[tid] =
			out * __builtin_amdgcn_rcpf(sum);
	}
}

KERNEL attn_h64_x8(struct ka_attn a)
{
	attn_wide(64, &a);
}

KERNEL attn_h128_x8(struct ka_attn a)
{
	attn_wide(128, &a);
}
