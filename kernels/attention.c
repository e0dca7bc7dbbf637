/* attn_hHD: causal attention of one query token and head over the cached K and V.
 *
 * Inputs: q[heads * HD, n]; K and V caches [kv_stride, ctx], rows 0 .. pos[t] written; pos.
 * One group of four waves per (head, token). Waves take tiles of 32 keys in turn: a lane scores
 * one key, then the wave adds the 32 weighted rows of V, a lane owning HD/32 neighbouring
 * elements. Each wave keeps its own running maximum, sum and output (online softmax); they are
 * joined at the end through LDS.
 * Writer of y[h * HD + i, t]: work-item i of the group, once.
 * Barriers: one, between the waves' partial results in LDS and their sum.
 */
#include "kernels/device.h"

#define WAVES KA_ATTN_WAVES

LDS float part_max[WAVES], part_sum[WAVES];
LDS float part_out[WAVES][128];

/* acc += (p of lane j) * row, lane by lane. */
INLINE void add_value(const u32 per, float *acc, float p, u32 j, GLOBAL const float *row)
{
	i32 bits = __builtin_amdgcn_readlane(__builtin_bit_cast(i32, p), (i32)j);
	float pj = __builtin_bit_cast(float, bits);

	if (per == 2) {
		f2 v = LOAD(f2, row, LANE * 8);

		acc[0] = __builtin_fmaf(pj, v[0], acc[0]);
		acc[1] = __builtin_fmaf(pj, v[1], acc[1]);
	} else {
		f4 v = LOAD(f4, row, LANE * 16);

		for (u32 e = 0; e < 4; e++)
			acc[e] = __builtin_fmaf(pj, v[e], acc[e]);
	}
}

INLINE void attn(const u32 hd, const struct ka_attn *a)
{
	const u32 per = hd / 32;
	u32 tid = TID, lane = tid & 31, wave = WAVE, tok = GIDZ;
	u32 head = GIDY * a->per_kv + GIDX;
	float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
	float m = NEG_INF, l = 0.0f;
	GLOBAL const float *q, *kc, *vc;
	u32 len, row_bytes = a->kv_stride * 4;

	if (tok >= a->step->n)
		return;
	len = (u32)a->pos[tok] + 1;
	q = a->q + (u64)tok * a->q_stride + head * hd;
	kc = a->kc + GIDY * hd;
	vc = a->vc + GIDY * hd;
	for (u32 base = wave * 32; base < len; base += WAVES * 32) {
		u32 key = base + lane, live = len - base < 32 ? len - base : 32, j = 0;
		/* Lanes past the end read the last key again: no row beyond len is touched. */
		u32 off = (key < len ? key : len - 1) * row_bytes;
		float s = 0.0f, top, fix, p;

		/* Kept as a loop: q unrolled whole would not fit the scalar registers. */
#pragma clang loop unroll(disable)
		for (u32 i = 0; i < hd; i += 32)
			for (u32 j = 0; j < 32; j += 4) {
				f4 kv = LOAD(f4, kc + i, off + j * 4);

				for (u32 e = 0; e < 4; e++)
					s = __builtin_fmaf(kv[e], q[i + j + e], s);
			}
		s = key < len ? s * a->scale_log2e : NEG_INF;
		top = __builtin_fmaxf(m, wave_max(s));
		fix = __builtin_amdgcn_exp2f(m - top); /* 0 for the first tile: m is -inf */
		p = __builtin_amdgcn_exp2f(s - top);
		l = __builtin_fmaf(l, fix, p);
		m = top;
		for (u32 e = 0; e < per; e++)
			acc[e] *= fix;
		for (; j + 8 <= live; j += 8)
			for (u32 i = 0; i < 8; i++)
				add_value(per, acc, p, j + i,
					  vc + (u64)(base + j + i) * a->kv_stride);
		for (; j < live; j++)
			add_value(per, acc, p, j, vc + (u64)(base + j) * a->kv_stride);
	}
	l = wave_sum(l);
	if (lane == 0) {
		part_max[wave] = m;
		part_sum[wave] = l;
	}
	for (u32 e = 0; e < per; e++)
		part_out[wave][lane * per + e] = acc[e];
	barrier();
	if (tid < hd) {
		float top = part_max[0], sum = 0.0f, out = 0.0f;

		for (u32 w = 1; w < WAVES; w++)
			top = __builtin_fmaxf(top, part_max[w]);
		for (u32 w = 0; w < WAVES; w++) {
			/* A wave without keys has maximum -inf and weighs nothing. */
			float f = __builtin_amdgcn_exp2f(part_max[w] - top);

			sum = __builtin_fmaf(f, part_sum[w], sum);
			out = __builtin_fmaf(f, part_out[w][tid], out);
		}
		(a->y + (u64)tok * a->q_stride + head * hd)[tid] = out * __builtin_amdgcn_rcpf(sum);
	}
}

KERNEL attn_h64(struct ka_attn a)
{
	attn(64, &a);
}

KERNEL attn_h128(struct ka_attn a)
{
	attn(128, &a);
}
