/* Weights as the device stores them, one row after the other (engine/layout.c writes them):
 *
 *   F32, F16, BF16   as in the file
 *   Q4_K, Q5_K       as in the file: blocks of 256 (144 and 176 bytes, 16-byte aligned)
 *   Q8_0             row of k int8, then k/32 f16 scales
 *   Q4_0             row of k/2 nibble pairs, then k/32 f16 scales
 *   Q6_K             row of ql (128 per block), then qh (64), then int8 scales (16), then f16 d
 *
 * Rows are padded to 16 bytes. The planar forms exist because blocks of 34, 18 and 210 bytes
 * leave nothing aligned.
 *
 * A wave takes 256 consecutive weights of a row at a time; frag_load() gives each lane eight of
 * them, for the elements off0 .. off0+3 and off1 .. off1+3 of the 256.
 */
#ifndef KERNELS_BLOCKS_H
#define KERNELS_BLOCKS_H

#include "kernels/device.h"

enum wtype { W_F32, W_F16, W_BF16, W_Q8_0, W_Q4_0, W_Q4_K, W_Q5_K, W_Q6_K };

/* A kernel for each, as its name has it. */
#define EACH_WTYPE(X)                                                                              \
	X(f32, W_F32)                                                                              \
	X(f16, W_F16)                                                                              \
	X(bf16, W_BF16)                                                                            \
	X(q8_0, W_Q8_0)                                                                            \
	X(q4_0, W_Q4_0)                                                                            \
	X(q4_k, W_Q4_K)                                                                            \
	X(q5_k, W_Q5_K)                                                                            \
	X(q6_k, W_Q6_K)

#define CHUNK 256

INLINE float half_at(GLOBAL const u8 *p, u32 byte)
{
	return (float)LOAD(f16, p, byte);
}

/* ---- one element: for the embedding row ---------------------------------- */

/* Scale and minimum of sub-block s (0..7) of a Q4_K/Q5_K block; sc points to its 12 bytes. */
INLINE void k_scale(GLOBAL const u8 *sc, u32 s, float *scale, float *min)
{
	u32 a, b;

	if (s < 4) {
		a = sc[s] & 63;
		b = sc[s + 4] & 63;
	} else {
		a = (sc[s + 4] & 15u) | (u32)(sc[s - 4] >> 6) << 4;
		b = (u32)(sc[s + 4] >> 4) | (u32)(sc[s] >> 6) << 4;
	}
	*scale = (float)a;
	*min = (float)b;
}

INLINE float weight_at(enum wtype t, GLOBAL const u8 *row, u32 k, u32 i)
{
	switch (t) {
	case W_F32:
		return LOAD(float, row, 4 * i);
	case W_F16:
		return half_at(row, 2 * i);
	case W_BF16:
		return __builtin_bit_cast(float, (u32)LOAD(u16, row, 2 * i) << 16);
	case W_Q8_0:
		return (float)(signed char)row[i] * half_at(row, k + (i >> 5) * 2);
	case W_Q4_0: {
		u32 j = i & 31, q = row[(i >> 5) * 16 + (j & 15)];

		q = j < 16 ? q & 15 : q >> 4;
		return ((float)q - 8.0f) * half_at(row, k / 2 + (i >> 5) * 2);
	}
	case W_Q4_K:
	case W_Q5_K: {
		GLOBAL const u8 *b = row + (i >> 8) * (t == W_Q4_K ? 144 : 176);
		u32 e = i & 255, s = e >> 5, l = e & 31;
		u32 q = b[(t == W_Q4_K ? 16 : 48) + (s >> 1) * 32 + l];
		float sc, mn;

		q = s & 1 ? q >> 4 : q & 15;
		if (t == W_Q5_K)
			q |= (b[16 + l] >> s & 1u) << 4;
		k_scale(b + 4, s, &sc, &mn);
		return half_at(b, 0) * sc * (float)q - half_at(b, 2) * mn;
	}
	case W_Q6_K: {
		u32 nb = k >> 8, blk = i >> 8, e = i & 255;
		u32 half = e >> 7, r = e & 127, part = r >> 5, l = r & 31;
		u32 ql = row[blk * 128 + half * 64 + (part & 1) * 32 + l];
		u32 qh = row[nb * 128 + blk * 64 + half * 32 + l];
		i32 q = (i32)((part < 2 ? ql & 15 : ql >> 4) | (qh >> (2 * part) & 3) << 4) - 32;
		signed char sc = (signed char)row[nb * 192 + blk * 16 + (e >> 4)];

		return half_at(row, nb * 208 + blk * 2) * (float)sc * (float)q;
	}
	}
	return 0.0f;
}

/* ---- eight elements per lane: for matmul ---------------------------------- */

INLINE u32 frag_off0(enum wtype t, u32 lane)
{
	switch (t) {
	case W_Q4_0:
		return (lane >> 2) * 32 + (lane & 3) * 4;
	case W_Q4_K:
	case W_Q5_K:
		return (lane >> 3) * 64 + (lane & 7) * 4;
	case W_Q6_K:
		return (lane >> 4) * 128 + (lane & 15) * 4;
	default:
		return lane * 8;
	}
}

INLINE u32 frag_off1(enum wtype t, u32 lane)
{
	switch (t) {
	case W_Q4_0:
		return frag_off0(t, lane) + 16;
	case W_Q4_K:
	case W_Q5_K:
		return frag_off0(t, lane) + 32;
	case W_Q6_K:
		return frag_off0(t, lane) + 64;
	default:
		return frag_off0(t, lane) + 4;
	}
}

/* What the weights of a fragment are: w[0..3] * a0 + b0 and w[4..7] * a1 + b1. */
struct frag {
	float w[8];
	float a0, a1, b0, b1;
};

/* Types whose fragments have scale and offset; the plain ones are w alone. */
INLINE int frag_scaled(enum wtype t)
{
	return t != W_F32 && t != W_F16 && t != W_BF16;
}

/* Each of these is one v_cvt_f32_ubyteN, as long as the compiler does not see how q was masked: it
 * would fold the mask into an extraction per element. */
INLINE void bytes_to_float(float *w, u32 q)
{
	q = opaque(q);
	w[0] = (float)(q & 255);
	w[1] = (float)(q >> 8 & 255);
	w[2] = (float)(q >> 16 & 255);
	w[3] = (float)(q >> 24);
}

/* row is uniform; c is the chunk's first element, a multiple of 256. */
INLINE struct frag frag_load(enum wtype t, GLOBAL const u8 *row, u32 k, u32 c, u32 lane)
{
	struct frag f;

	f.a0 = f.a1 = 1.0f;
	f.b0 = f.b1 = 0.0f;
	switch (t) {
	case W_F32: {
		f4 p = LOAD(f4, row + c * 4, lane * 32), q = LOAD(f4, row + c * 4, lane * 32 + 16);

		for (int i = 0; i < 4; i++) {
			f.w[i] = p[i];
			f.w[4 + i] = q[i];
		}
		break;
	}
	case W_F16: {
		h8 h = LOAD(h8, row + c * 2, lane * 16);

		for (int i = 0; i < 8; i++)
			f.w[i] = (float)h[i];
		break;
	}
	case W_BF16: {
		u4 h = LOAD(u4, row + c * 2, lane * 16);

		for (int i = 0; i < 4; i++) {
			f.w[2 * i] = __builtin_bit_cast(float, h[i] << 16);
			f.w[2 * i + 1] = __builtin_bit_cast(float, h[i] & 0xffff0000u);
		}
		break;
	}
	case W_Q8_0: {
		u2 q = LOAD(u2, row + c, lane * 8);

		/* There is no conversion from a signed byte: bias by 128. */
		bytes_to_float(f.w, q[0] ^ 0x80808080u);
		bytes_to_float(f.w + 4, q[1] ^ 0x80808080u);
		f.a0 = f.a1 = half_at(row + k + (c >> 5) * 2, (lane >> 2) * 2);
		f.b0 = f.b1 = f.a0 * -128.0f;
		break;
	}
	case W_Q4_0: {
		u32 q = LOAD(u32, row + c / 2, lane * 4);

		bytes_to_float(f.w, q & 0x0f0f0f0fu);
		bytes_to_float(f.w + 4, q >> 4 & 0x0f0f0f0fu);
		f.a0 = f.a1 = half_at(row + k / 2 + (c >> 5) * 2, (lane >> 2) * 2);
		f.b0 = f.b1 = f.a0 * -8.0f;
		break;
	}
	case W_Q4_K:
	case W_Q5_K: {
		GLOBAL const u8 *b = row + (c >> 8) * (t == W_Q4_K ? 144 : 176);
		u4 head = LOAD(u4, b, 0);
		u32 q = LOAD(u32, b, (t == W_Q4_K ? 16 : 48) + lane * 4);
		/* Scales and minima of sub-blocks 0-3 and 4-7, a byte each. */
		u32 s_lo = head[1] & 0x3f3f3f3fu, m_lo = head[2] & 0x3f3f3f3fu;
		u32 s_hi = (head[3] & 0x0f0f0f0fu) | (head[1] >> 2 & 0x30303030u);
		u32 m_hi = (head[3] >> 4 & 0x0f0f0f0fu) | (head[2] >> 2 & 0x30303030u);
		u32 sh = (lane >> 3 & 1) * 16;
		u32 s = opaque((lane < 16 ? s_lo : s_hi) >> sh);
		u32 m = opaque((lane < 16 ? m_lo : m_hi) >> sh);
		float d = (float)__builtin_bit_cast(f16, (u16)head[0]);
		float dmin = -(float)__builtin_bit_cast(f16, (u16)(head[0] >> 16));
		u32 lo = q & 0x0f0f0f0fu, hi = q >> 4 & 0x0f0f0f0fu;

		if (t == W_Q5_K) {
			u32 h = LOAD(u32, b, 16 + (lane & 7) * 4) >> (lane >> 3) * 2;

			lo |= (h & 0x01010101u) << 4;
			hi |= (h >> 1 & 0x01010101u) << 4;
		}
		bytes_to_float(f.w, lo);
		bytes_to_float(f.w + 4, hi);
		f.a0 = d * (float)(s & 255);
		f.a1 = d * (float)(s >> 8 & 255);
		f.b0 = dmin * (float)(m & 255);
		f.b1 = dmin * (float)(m >> 8 & 255);
		break;
	}
	case W_Q6_K: {
		u32 nb = k >> 8, blk = c >> 8, half = lane >> 4, b = (lane & 15) * 4;
		u32 ql = LOAD(u32, row + blk * 128, lane * 4);
		u32 qh = LOAD(u32, row + nb * 128 + blk * 64, half * 32 + (b & 31)) >> (b >> 5) * 2;
		GLOBAL const u8 *sc = row + nb * 192 + blk * 16;
		u32 is = half * 8 + (b >> 4);
		float d = half_at(row + nb * 208, blk * 2);

		bytes_to_float(f.w, (ql & 0x0f0f0f0fu) | (qh & 0x03030303u) << 4);
		bytes_to_float(f.w + 4, (ql >> 4 & 0x0f0f0f0fu) | (qh & 0x30303030u));
		f.a0 = d * (float)(signed char)sc[is];
		f.a1 = d * (float)(signed char)sc[is + 4];
		f.b0 = f.a0 * -32.0f;
		f.b1 = f.a1 * -32.0f;
		break;
	}
	}
	return f;
}

#endif
