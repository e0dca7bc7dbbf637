#include "engine/quant.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* The same bits on every host: no fused multiply-add behind our back. */
#pragma STDC FP_CONTRACT OFF

float quant_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 0x1f, man = h & 0x3ff, bits;
	float f;

	if (exp == 0x1f) {
		bits = sign | 0x7f800000 | man << 13;
	} else if (exp) {
		bits = sign | (exp + 112) << 23 | man << 13;
	} else {
		/* Zero and subnormals: man * 2^-24 is exact in F32. */
		f = (float)man * 0x1p-24f;
		return sign ? -f : f;
	}
	memcpy(&f, &bits, sizeof(f));
	return f;
}

uint16_t quant_f32_to_f16(float f)
{
	uint32_t bits, abs, round;
	uint16_t sign;

	memcpy(&bits, &f, sizeof(bits));
	sign = (uint16_t)(bits >> 16 & 0x8000);
	abs = bits & 0x7fffffff;
	if (abs > 0x7f800000)
		return sign | 0x7e00;
	if (abs >= 0x477ff000) /* 65520 and above round to infinity */
		return sign | 0x7c00;
	if (abs < 0x38800000) {
		/* Below 2^-14: adding 0.5 leaves the value in units of 2^-24 at the bottom of the
		 * significand, rounded to nearest even by the addition itself. */
		float a;

		memcpy(&a, &abs, sizeof(a));
		a += 0.5f;
		memcpy(&abs, &a, sizeof(abs));
		return sign | (uint16_t)(abs - 0x3f000000);
	}
	round = 0xfff + (abs >> 13 & 1);
	return sign | (uint16_t)((abs - 0x38000000 + round) >> 13);
}

float quant_bf16_to_f32(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

uint16_t quant_f32_to_bf16(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t load16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static void dequant_f32(const void *src, float *dst, uint64_t n)
{
	memcpy(dst, src, n * sizeof(float));
}

static void dequant_f16(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t i = 0; i < n; i++)
		dst[i] = quant_f16_to_f32(load16(p + 2 * i));
}

static void dequant_bf16(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t i = 0; i < n; i++)
		dst[i] = quant_bf16_to_f32(load16(p + 2 * i));
}

/* Q8_0: f16 d, 32 x int8; x = d*q */
static void dequant_q8_0(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t b = 0; b < n / 32; b++, p += 34, dst += 32) {
		float d = quant_f16_to_f32(load16(p));

		for (int i = 0; i < 32; i++)
			dst[i] = d * (float)(int8_t)p[2 + i];
	}
}

/* Q4_0: f16 d, 16 bytes; byte i holds elements i (low nibble) and i+16; x = d*(q-8) */
static void dequant_q4_0(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t b = 0; b < n / 32; b++, p += 18, dst += 32) {
		float d = quant_f16_to_f32(load16(p));

		for (int i = 0; i < 16; i++) {
			dst[i] = d * (float)((p[2 + i] & 15) - 8);
			dst[i + 16] = d * (float)((p[2 + i] >> 4) - 8);
		}
	}
}

/* The 8 six-bit scales and 8 six-bit minimums of Q4_K and Q5_K in 12 bytes: the first four of each
 * in the low six bits of bytes 0..3 and 4..7; the last four in the nibbles of bytes 8..11, their
 * top two bits in the top two bits of bytes 0..3 and 4..7. */
static void k_scale_min(const uint8_t *s, int j, uint8_t *scale, uint8_t *min)
{
	if (j < 4) {
		*scale = s[j] & 63;
		*min = s[j + 4] & 63;
	} else {
		*scale = (uint8_t)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
		*min = (uint8_t)((s[j + 4] >> 4) | (s[j] >> 6) << 4);
	}
}

/* Q4_K: f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles. Eight groups of 32; groups 2k
 * and 2k+1 are the low and high nibbles of bytes 32k..32k+31; x = d*scale*q - dmin*min */
static void dequant_q4_k(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t b = 0; b < n / 256; b++, p += 144) {
		float d = quant_f16_to_f32(load16(p)), dmin = quant_f16_to_f32(load16(p + 2));
		const uint8_t *qs = p + 16;

		for (int j = 0; j < 8; j++) {
			uint8_t sc, mn;

			k_scale_min(p + 4, j, &sc, &mn);
			for (int i = 0; i < 32; i++) {
				int q = qs[32 * (j / 2) + i] >> 4 * (j & 1) & 15;

				*dst++ = d * (float)sc * (float)q - dmin * (float)mn;
			}
		}
	}
}

/* Q5_K: as Q4_K with 32 bytes of fifth bits before the nibbles; bit j of byte i belongs to element
 * i of group j. */
static void dequant_q5_k(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t b = 0; b < n / 256; b++, p += 176) {
		float d = quant_f16_to_f32(load16(p)), dmin = quant_f16_to_f32(load16(p + 2));
		const uint8_t *qh = p + 16, *qs = p + 48;

		for (int j = 0; j < 8; j++) {
			uint8_t sc, mn;

			k_scale_min(p + 4, j, &sc, &mn);
			for (int i = 0; i < 32; i++) {
				int q = (qs[32 * (j / 2) + i] >> 4 * (j & 1) & 15) |
					(qh[i] >> j & 1) << 4;

				*dst++ = d * (float)sc * (float)q - dmin * (float)mn;
			}
		}
	}
}

/* Q6_K: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 x int8 scales, f16 d. Two halves
 * of 128 elements; in a half, element 32k+i has its low nibble in byte 32*(k&1)+i (high nibble of
 * it for k >= 2) and its high bits at 2k of byte i; a scale per 16 elements; x = d*scale*(q-32) */
static void dequant_q6_k(const void *src, float *dst, uint64_t n)
{
	const uint8_t *p = src;

	for (uint64_t b = 0; b < n / 256; b++, p += 210) {
		float d = quant_f16_to_f32(load16(p + 208));

		for (int e = 0; e < 256; e++) {
			int half = e / 128, k = e / 32 % 4, i = e % 32;
			int low = p[64 * half + 32 * (k & 1) + i] >> 4 * (k >> 1) & 15;
			int high = p[128 + 32 * half + i] >> 2 * k & 3;

			*dst++ = d * (float)(int8_t)p[192 + e / 16] *
				 (float)((low | high << 4) - 32);
		}
	}
}

/* Numbers, block and byte sizes: GGML's public type table (ggml.h enum ggml_type, ggml-common.h).
 * Numbers it retired (4, 5, 31-33, 36-38) are holes. */
static const struct quant_type types[] = {
	[0] = {"F32", 1, 4, dequant_f32},
	[1] = {"F16", 1, 2, dequant_f16},
	[2] = {"Q4_0", 32, 18, dequant_q4_0},
	[3] = {"Q4_1", 32, 20, NULL},
	[6] = {"Q5_0", 32, 22, NULL},
	[7] = {"Q5_1", 32, 24, NULL},
	[8] = {"Q8_0", 32, 34, dequant_q8_0},
	[9] = {"Q8_1", 32, 36, NULL},
	[10] = {"Q2_K", 256, 84, NULL},
	[11] = {"Q3_K", 256, 110, NULL},
	[12] = {"Q4_K", 256, 144, dequant_q4_k},
	[13] = {"Q5_K", 256, 176, dequant_q5_k},
	[14] = {"Q6_K", 256, 210, dequant_q6_k},
	[15] = {"Q8_K", 256, 292, NULL},
	[16] = {"IQ2_XXS", 256, 66, NULL},
	[17] = {"IQ2_XS", 256, 74, NULL},
	[18] = {"IQ3_XXS", 256, 98, NULL},
	[19] = {"IQ1_S", 256, 50, NULL},
	[20] = {"IQ4_NL", 32, 18, NULL},
	[21] = {"IQ3_S", 256, 110, NULL},
	[22] = {"IQ2_S", 256, 82, NULL},
	[23] = {"IQ4_XS", 256, 136, NULL},
	[24] = {"I8", 1, 1, NULL},
	[25] = {"I16", 1, 2, NULL},
	[26] = {"I32", 1, 4, NULL},
	[27] = {"I64", 1, 8, NULL},
	[28] = {"F64", 1, 8, NULL},
	[29] = {"IQ1_M", 256, 56, NULL},
	[30] = {"BF16", 1, 2, dequant_bf16},
	[34] = {"TQ1_0", 256, 54, NULL},
	[35] = {"TQ2_0", 256, 66, NULL},
	[39] = {"MXFP4", 32, 17, NULL},
};

const struct quant_type *quant_type(uint32_t type)
{
	if (type >= sizeof(types) / sizeof(types[0]) || !types[type].block)
		return NULL;
	return &types[type];
}

const char *quant_name(uint32_t type)
{
	const struct quant_type *t = quant_type(type);

	return t ? t->name : "unknown";
}

bool quant_supported(uint32_t type)
{
	const struct quant_type *t = quant_type(type);

	return t && t->dequant;
}

int quant_bytes(uint32_t type, uint64_t n, uint64_t *bytes)
{
	const struct quant_type *t = quant_type(type);
	uint64_t b;

	if (!t)
		return -ENOTSUP;
	if (n % t->block)
		return -EINVAL;
	if (__builtin_mul_overflow(n / t->block, (uint64_t)t->bytes, &b))
		return -EOVERFLOW;
	*bytes = b;
	return 0;
}

int quant_dequant(uint32_t type, const void *src, float *dst, uint64_t n)
{
	const struct quant_type *t = quant_type(type);

	if (!t || !t->dequant)
		return -ENOTSUP;
	if (n % t->block)
		return -EINVAL;
	t->dequant(src, dst, n);
	return 0;
}
