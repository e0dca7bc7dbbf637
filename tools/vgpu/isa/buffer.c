/* Buffer data formats. Numbers as LLVM 19 names them for gfx11 (format:[BUF_FMT_...]). */
#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "isa/buffer.h"

#define F(i, k, ...)                                                                               \
	[i] = {.n = sizeof((uint8_t[]){__VA_ARGS__}), .bits = {__VA_ARGS__}, .kind = BUF_##k}
#define SIX(i, ...)                                                                                \
	F(i, UNORM, __VA_ARGS__), F(i + 1, SNORM, __VA_ARGS__), F(i + 2, USCALED, __VA_ARGS__),    \
		F(i + 3, SSCALED, __VA_ARGS__), F(i + 4, UINT, __VA_ARGS__),                       \
		F(i + 5, SINT, __VA_ARGS__)
#define THREE(i, ...)                                                                              \
	F(i, UINT, __VA_ARGS__), F(i + 1, SINT, __VA_ARGS__), F(i + 2, FLOAT, __VA_ARGS__)

static const struct buf_format formats[64] = {
	SIX(1, 8),
	SIX(7, 16),
	F(13, FLOAT, 16),
	SIX(14, 8, 8),
	THREE(20, 32),
	SIX(23, 16, 16),
	F(29, FLOAT, 16, 16),
	/* Names list the components from the top: 10_11_11 has 11 bits lowest. */
	F(30, FLOAT, 11, 11, 10),
	F(31, FLOAT, 10, 11, 11),
	F(32, UNORM, 2, 10, 10, 10),
	F(33, SNORM, 2, 10, 10, 10),
	F(34, UINT, 2, 10, 10, 10),
	F(35, SINT, 2, 10, 10, 10),
	SIX(36, 10, 10, 10, 2),
	SIX(42, 8, 8, 8, 8),
	THREE(48, 32, 32),
	SIX(51, 16, 16, 16, 16),
	F(57, FLOAT, 16, 16, 16, 16),
	THREE(58, 32, 32, 32),
	THREE(61, 32, 32, 32, 32),
};

const struct buf_format *buf_format(unsigned number)
{
	return number < 64 && formats[number].n ? &formats[number] : NULL;
}

unsigned buf_bytes(const struct buf_format *f)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < f->n; i++)
		bits += f->bits[i];
	return bits / 8;
}

static uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static float float_of(uint32_t u)
{
	float f;

	memcpy(&f, &u, 4);
	return f;
}

uint32_t buf_one(const struct buf_format *f)
{
	return f->kind == BUF_UINT || f->kind == BUF_SINT ? 1 : bits_of(1.0f);
}

/* Unsigned small floats: five exponent bits, 6 (of 11) or 5 (of 10) of mantissa: an f16 without
 * its low bits and sign. */
static uint32_t small_float(uint32_t v, unsigned bits)
{
	return bits_of(_cvtsh_ss((unsigned short)(v << (15 - bits))));
}

static uint32_t to_small(float f, unsigned bits)
{
	uint32_t h;

	if (isnan(f))
		return (1u << bits) - 1;
	if (!(f > 0))
		return 0;
	h = _cvtss_sh(f, _MM_FROUND_TO_ZERO);
	return h >> (15 - bits);
}

static uint32_t decode(enum buf_kind kind, uint32_t v, unsigned bits)
{
	int32_t s = (int32_t)(v << (32 - bits)) >> (32 - bits);
	double top = ldexp(1, (int)bits) - 1, half = ldexp(1, (int)bits - 1) - 1;

	switch (kind) {
	case BUF_UNORM:
		return bits_of((float)(v / top));
	case BUF_SNORM:
		return bits_of(s < -half ? -1.0f : (float)(s / half));
	case BUF_USCALED:
		return bits_of((float)v);
	case BUF_SSCALED:
		return bits_of((float)s);
	case BUF_SINT:
		return (uint32_t)s;
	case BUF_FLOAT:
		if (bits == 32)
			return v;
		return bits == 16 ? bits_of(_cvtsh_ss((unsigned short)v)) : small_float(v, bits);
	case BUF_UINT:
		break;
	}
	return v;
}

static double clamp(double v, double lo, double hi)
{
	if (!(v > lo)) /* a NaN is the lower bound's, 0 for unsigned */
		return isnan(v) ? 0 : lo;
	return v > hi ? hi : v;
}

static uint32_t encode(enum buf_kind kind, uint32_t v, unsigned bits)
{
	uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
	double f = (double)float_of(v);
	double top = ldexp(1, (int)bits) - 1, half = ldexp(1, (int)bits - 1) - 1;
	int64_t lo = -(1ll << (bits - 1)), hi = (1ll << (bits - 1)) - 1;

	switch (kind) {
	case BUF_UNORM:
		return (uint32_t)rint(clamp(f, 0, 1) * top);
	case BUF_SNORM:
		return (uint32_t)(int32_t)rint(clamp(f, -1, 1) * half) & mask;
	case BUF_USCALED:
		return (uint32_t)clamp(f, 0, top);
	case BUF_SSCALED:
		return (uint32_t)(int32_t)clamp(f, (double)lo, (double)hi) & mask;
	case BUF_UINT:
		return v > mask ? mask : v;
	case BUF_SINT: {
		int64_t s = (int32_t)v;

		return (uint32_t)(s < lo ? lo : s > hi ? hi : s) & mask;
	}
	case BUF_FLOAT:
		if (bits == 16)
			return _cvtss_sh((float)f, _MM_FROUND_TO_NEAREST_INT);
		if (bits != 32)
			return to_small((float)f, bits);
		break;
	}
	return v;
}

void buf_unpack(const struct buf_format *f, const uint32_t raw[4], uint32_t c[4])
{
	unsigned at = 0;

	c[0] = c[1] = c[2] = 0;
	c[3] = buf_one(f);
	for (unsigned i = 0; i < f->n; at += f->bits[i++]) {
		uint64_t two = raw[at / 32] | (uint64_t)(at / 32 < 3 ? raw[at / 32 + 1] : 0) << 32;
		uint32_t v = (uint32_t)(two >> (at % 32));

		if (f->bits[i] < 32)
			v &= (1u << f->bits[i]) - 1;
		c[i] = decode(f->kind, v, f->bits[i]);
	}
}

void buf_pack(const struct buf_format *f, const uint32_t c[4], uint32_t raw[4])
{
	unsigned at = 0;

	memset(raw, 0, 16);
	for (unsigned i = 0; i < f->n; at += f->bits[i++])
		raw[at / 32] |= encode(f->kind, c[i], f->bits[i]) << (at % 32);
}

uint16_t buf_narrow(const struct buf_format *f, uint32_t v)
{
	if (f->kind == BUF_UINT || f->kind == BUF_SINT)
		return (uint16_t)v;
	/* f32 is cut off, the rest rounded (RDNA3.5 ISA, "D16 instructions") */
	if (f->kind == BUF_FLOAT && f->bits[0] == 32)
		return _cvtss_sh(float_of(v), _MM_FROUND_TO_ZERO);
	return _cvtss_sh(float_of(v), _MM_FROUND_TO_NEAREST_INT);
}

uint32_t buf_widen(const struct buf_format *f, uint16_t v)
{
	if (f->kind == BUF_UINT)
		return v;
	if (f->kind == BUF_SINT)
		return (uint32_t)(int32_t)(int16_t)v;
	return bits_of(_cvtsh_ss(v));
}
