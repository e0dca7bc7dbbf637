/* Weights of the layouts of blocks.h, as a lane that owns whole rows takes them: eight consecutive
 * ones at a time, scaled.
 *
 * A row is units of strip_unit() weights that share what scales them; a unit is strip_steps() loads,
 * and a load is strip_count() strips of eight. All but the bytes is uniform: where a strip lies in
 * its row is the same in every lane.
 */
#ifndef KERNELS_STRIPS_H
#define KERNELS_STRIPS_H

#include "kernels/blocks.h"

struct strip {
	u32 q[8], h[4];   /* as loaded; the next strip's first */
	u32 scale[2];     /* Q6_K: int8 scales of the unit's sixteens */
	float d;          /* and what they are multiplied with */
	float a[2], b[2]; /* of the lower and the upper strips of a load: q * a + b */
};

INLINE u32 strip_unit(enum wtype t)
{
	return t == W_Q6_K ? 128 : t == W_Q4_K || t == W_Q5_K ? 64 : 32;
}

/* Types of less than a byte per weight: a load has strips from two places. */
INLINE int strip_split(enum wtype t)
{
	return t == W_Q4_0 || t == W_Q4_K || t == W_Q5_K || t == W_Q6_K;
}

INLINE u32 strip_steps(enum wtype t)
{
	return t == W_Q4_0 ? 1 : t == W_Q8_0 || t == W_Q4_K || t == W_Q5_K ? 2 : 4;
}

INLINE u32 strip_count(enum wtype t)
{
	return strip_split(t) ? 4 : t == W_Q8_0 ? 2 : 1;
}

/* First weight of strip i of a load, from its unit's first. */
INLINE u32 strip_at(enum wtype t, u32 step, u32 i)
{
	switch (t) {
	case W_Q8_0:
		return step * 16 + i * 8;
	case W_Q4_0:
		return i * 8;
	case W_Q4_K:
	case W_Q5_K:
		return step * 16 + (i & 1) * 8 + (i >> 1) * 32;
	case W_Q6_K:
		return (step >> 1) * 32 + (step & 1) * 16 + (i & 1) * 8 + (i >> 1) * 64;
	default:
		return step * 8;
	}
}

/* What is one for a unit. row is uniform, off the lane's row from there in bytes. */
INLINE void strip_unit_load(enum wtype t, GLOBAL const u8 *row, u32 off, u32 k, u32 unit,
			    struct strip *s)
{
	switch (t) {
	case W_Q8_0:
	case W_Q4_0:
		s->a[0] = s->a[1] = half_at(row + (t == W_Q8_0 ? k : k / 2) + unit * 2, off);
		s->b[0] = s->b[1] = s->a[0] * (t == W_Q8_0 ? -128.0f : -8.0f);
		break;
	case W_Q4_K:
	case W_Q5_K: {
		u4 head = LOAD(u4, row + (unit >> 2) * (t == W_Q4_K ? 144 : 176), off);
		/* Scales and minima of sub-blocks 0-3 and 4-7, a byte each; two of them are ours. */
		u32 sh = (unit & 1) * 16, upper = 0u - (unit >> 1 & 1);
		u32 s_lo = head[1] & 0x3f3f3f3fu, m_lo = head[2] & 0x3f3f3f3fu;
		u32 s_hi = (head[3] & 0x0f0f0f0fu) | (head[1] >> 2 & 0x30303030u);
		u32 m_hi = (head[3] >> 4 & 0x0f0f0f0fu) | (head[2] >> 2 & 0x30303030u);
		/* A mask, because a choice would become a branch. */
		u32 sc = opaque((s_lo ^ ((s_lo ^ s_hi) & upper)) >> sh);
		u32 mn = opaque((m_lo ^ ((m_lo ^ m_hi) & upper)) >> sh);
		float d = (float)__builtin_bit_cast(f16, (u16)head[0]);
		float dmin = -(float)__builtin_bit_cast(f16, (u16)(head[0] >> 16));

		s->a[0] = d * (float)(sc & 255);
		s->a[1] = d * (float)(sc >> 8 & 255);
		s->b[0] = dmin * (float)(mn & 255);
		s->b[1] = dmin * (float)(mn >> 8 & 255);
		break;
	}
	case W_Q6_K: {
		u32 nb = k >> 8;
		u2 sc = LOAD(u2, row + nb * 192 + unit * 8, off);

		s->scale[0] = sc[0];
		s->scale[1] = sc[1];
		s->d = half_at(row + nb * 208 + (unit >> 1) * 2, off);
		break;
	}
	default:
		break;
	}
}

INLINE void strip_bytes(u32 *to, GLOBAL const u8 *p, u32 off)
{
	u4 q = LOAD(u4, p, off);

	for (u32 i = 0; i < 4; i++)
		to[i] = q[i];
}

/* The bytes of a load, sixteen or thirty-two per lane. */
INLINE void strip_load(enum wtype t, GLOBAL const u8 *row, u32 off, u32 k, u32 unit, u32 step,
		       struct strip *s)
{
	GLOBAL const u8 *b = row + (unit >> 2) * (t == W_Q4_K ? 144 : 176);

	switch (t) {
	case W_F32:
		strip_bytes(s->q, row + unit * 128 + step * 32, off);
		strip_bytes(s->q + 4, row + unit * 128 + step * 32 + 16, off);
		break;
	case W_F16:
	case W_BF16:
		strip_bytes(s->q, row + unit * 64 + step * 16, off);
		break;
	case W_Q8_0:
		strip_bytes(s->q, row + unit * 32 + step * 16, off);
		break;
	case W_Q4_0:
		strip_bytes(s->q, row + unit * 16, off);
		break;
	case W_Q4_K:
		strip_bytes(s->q, b + 16 + (unit & 3) * 32 + step * 16, off);
		break;
	case W_Q5_K:
		strip_bytes(s->q, b + 48 + (unit & 3) * 32 + step * 16, off);
		strip_bytes(s->h, b + 16 + step * 16, off);
		for (u32 i = 0; i < 4; i++)
			s->h[i] >>= (unit & 3) * 2;
		break;
	case W_Q6_K:
		strip_bytes(s->q, row + unit * 64 + step * 16, off);
		strip_bytes(s->h, row + (k >> 8) * 128 + unit * 32 + (step & 1) * 16, off);
		for (u32 i = 0; i < 4; i++)
			s->h[i] >>= (step >> 1) * 2;
		for (u32 i = 0; i < 2; i++) {
			s->a[i] = s->d * (float)(i32)(signed char)(s->scale[i] >> step * 8);
			s->b[i] = s->a[i] * -32.0f;
		}
		break;
	}
}

/* Strip i of a load: eight weights, scale and offset applied. In turn, 0 first. */
INLINE void strip_next(enum wtype t, u32 i, struct strip *s, float w[8])
{
	float a, b;

	switch (t) {
	case W_F32:
		for (u32 e = 0; e < 8; e++)
			w[e] = __builtin_bit_cast(float, s->q[e]);
		return;
	case W_F16:
		for (u32 e = 0; e < 4; e++) {
			w[2 * e] = (float)__builtin_bit_cast(f16, (u16)s->q[e]);
			w[2 * e + 1] = (float)__builtin_bit_cast(f16, (u16)(s->q[e] >> 16));
		}
		return;
	case W_BF16:
		for (u32 e = 0; e < 4; e++) {
			w[2 * e] = __builtin_bit_cast(float, s->q[e] << 16);
			w[2 * e + 1] = __builtin_bit_cast(float, s->q[e] & 0xffff0000u);
		}
		return;
	default:
		break;
	}
	for (u32 e = 0; e < 2; e++) {
		u32 q = s->q[e], h = s->h[e];

		if (t == W_Q8_0) /* There is no conversion from a signed byte: bias by 128. */
			bytes_to_float(w + 4 * e, q ^ 0x80808080u);
		else if (t == W_Q5_K)
			bytes_to_float(w + 4 * e, (q & 0x0f0f0f0fu) | (h & 0x01010101u) << 4);
		else if (t == W_Q6_K)
			bytes_to_float(w + 4 * e, (q & 0x0f0f0f0fu) | (h & 0x03030303u) << 4);
		else
			bytes_to_float(w + 4 * e, q & 0x0f0f0f0fu);
		/* What is left of these bytes comes after the others'. */
		s->q[e] = s->q[2 + e];
		s->h[e] = s->h[2 + e];
		s->q[2 + e] = q >> 4;
		s->h[2 + e] = h >> (t == W_Q5_K ? 1 : 4);
	}
	a = strip_split(t) && i > 1 ? s->a[1] : s->a[0];
	b = strip_split(t) && i > 1 ? s->b[1] : s->b[0];
	for (u32 e = 0; e < 8; e++)
		w[e] = __builtin_fmaf(w[e], a, b);
}

#endif
