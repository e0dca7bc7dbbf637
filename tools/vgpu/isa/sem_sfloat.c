/* Scalar float, new in gfx11.5: SOP1, SOP2 and SOPC on f32 and f16.
 *
 * Source: AMD "RDNA3.5 Instruction Set Architecture", SOP1, SOP2 and SOPC chapters. MODE governs
 * rounding and denormals as for vector ops of the same width; NaNs follow the IEEE bit. */
#include <immintrin.h>
#include <math.h>

#include "isa/sem.h"

enum { MODE_IEEE = 1u << 9 };

/* ---- modes --------------------------------------------------------------- */

static unsigned denorm(const struct isa_exec *x, unsigned bits)
{
	return x->w->mode >> (bits == 32 ? 4 : 6) & 3;
}

/* Host rounding for MODE's field of this width; nearest outside. */
static void round_begin(const struct isa_exec *x, unsigned bits)
{
	static const unsigned rc[4] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN,
				       _MM_ROUND_TOWARD_ZERO};
	unsigned m = x->w->mode >> (bits == 32 ? 0 : 2) & 3;

	if (m)
		_mm_setcsr((_mm_getcsr() & ~_MM_ROUND_MASK) | rc[m]);
}

static void round_end(const struct isa_exec *x)
{
	if (x->w->mode & 15)
		_mm_setcsr(_mm_getcsr() & ~_MM_ROUND_MASK);
}

static float as_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static uint32_t as_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static uint32_t flush32(uint32_t u)
{
	return (u & 0x7f800000) ? u : u & 0x80000000;
}

static uint32_t flush16(uint32_t u)
{
	return (u & 0x7c00) ? u & 0xffff : u & 0x8000;
}

static uint32_t in32(const struct isa_exec *x, uint32_t u)
{
	return denorm(x, 32) & 1 ? u : flush32(u);
}

static uint32_t out32(const struct isa_exec *x, uint32_t u)
{
	return denorm(x, 32) & 2 ? u : flush32(u);
}

static float half(const struct isa_exec *x, uint32_t u)
{
	if (!(denorm(x, 16) & 1))
		u = flush16(u);
	return _cvtsh_ss((unsigned short)u);
}

/* f32 to f16, rounded as MODE says. */
static uint32_t to_half(const struct isa_exec *x, float f)
{
	uint32_t u;

	switch (x->w->mode >> 2 & 3) {
	case 1:
		u = _cvtss_sh(f, _MM_FROUND_TO_POS_INF);
		break;
	case 2:
		u = _cvtss_sh(f, _MM_FROUND_TO_NEG_INF);
		break;
	case 3:
		u = _cvtss_sh(f, _MM_FROUND_TO_ZERO);
		break;
	default:
		u = _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
	}
	return denorm(x, 16) & 2 ? u : flush16(u);
}

#define S0 isa_sread(x, in, in->src[0])
#define S1 isa_sread(x, in, in->src[1])
#define S2 isa_sread(x, in, in->src[2])
#define H0 isa_sread16(x, in, in->src[0])
#define H1 isa_sread16(x, in, in->src[1])

/* ---- arithmetic ---------------------------------------------------------- */

/* volatile keeps the operation between the rounding switches. */
#define ARITH32(name, expr)                                                                        \
	SEM(name)                                                                                  \
	{                                                                                          \
		volatile float a = as_float(in32(x, S0)), b = as_float(in32(x, S1)), r;            \
                                                                                                   \
		round_begin(x, 32);                                                                \
		r = (expr);                                                                        \
		round_end(x);                                                                      \
		isa_swrite(x, in->dst, out32(x, as_bits(r)));                                      \
	}
ARITH32(S_ADD_F32, a + b)
ARITH32(S_SUB_F32, a - b)
ARITH32(S_MUL_F32, a *b)

/* f16 through f64: exact sums and products, so one rounding; f64 to f16 in two steps would round
 * twice, hence round to odd at f32 first. */
static float odd(double d)
{
	float f = (float)d;
	uint32_t u = as_bits(f);

	if ((double)f == d || !(fabs(d) < 1e30))
		return f;
	if (fabs((double)f) > fabs(d)) /* step back towards zero, then mark inexact */
		u--;
	return as_float(u | 1);
}

#define ARITH16(name, expr)                                                                        \
	SEM(name)                                                                                  \
	{                                                                                          \
		double a = (double)half(x, H0), b = (double)half(x, H1);                           \
                                                                                                   \
		isa_swrite(x, in->dst, to_half(x, odd(expr)));                                     \
	}

/* A sum of exactly zero is -0 when rounding down, unless both terms are +0. */
static double zero16(const struct isa_exec *x, double a, double b, double sum)
{
	bool down = (x->w->mode >> 2 & 3) == 2;

	if (sum == 0 && down && (a != 0 || signbit(a) || signbit(b)))
		return -0.0;
	return sum;
}

ARITH16(S_ADD_F16, zero16(x, a, b, a + b))
ARITH16(S_SUB_F16, zero16(x, a, -b, a - b))
ARITH16(S_MUL_F16, a *b)

static void fma32(struct isa_exec *x, const struct isa_insn *in)
{
	volatile float a = as_float(in32(x, S0)), b = as_float(in32(x, S1)),
		       c = as_float(in32(x, S2)), r;

	round_begin(x, 32);
	r = __builtin_fmaf(a, b, c);
	round_end(x);
	isa_swrite(x, in->dst, out32(x, as_bits(r)));
}

SEM(S_FMAC_F32)
{
	fma32(x, in);
}

SEM(S_FMAAK_F32)
{
	fma32(x, in);
}

SEM(S_FMAMK_F32)
{
	fma32(x, in);
}

SEM(S_FMAC_F16)
{
	double a = (double)half(x, H0), b = (double)half(x, H1);
	double c = (double)half(x, isa_sread16(x, in, in->src[2]));
	/* a * b has 22 bits and is exact; the sum may not be, and is rounded to odd once more */
	double p = a * b, s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
	float f;
	uint64_t u;

	if (e != 0 && isfinite(s)) {
		memcpy(&u, &s, 8);
		if (!(u & 1))
			u = ((e > 0) == (s > 0)) ? u | 1 : u - 1;
		memcpy(&s, &u, 8);
	}
	f = odd(zero16(x, p, c, s));
	isa_swrite(x, in->dst, to_half(x, f));
}

/* ---- minimum, maximum, comparisons ---------------------------------------- */

static bool nan32(uint32_t u)
{
	return (u & 0x7fffffff) > 0x7f800000;
}

/* -0 < +0; a number wins against a NaN, a signalling NaN wins under the IEEE bit, quieted. Only the
 * control of denormal inputs counts. */
static uint32_t minmax(const struct isa_exec *x, uint32_t a, uint32_t b, bool max)
{
	bool ieee = x->w->mode & MODE_IEEE;
	float fa = as_float(a), fb = as_float(b);

	if (ieee && nan32(a) && !(a & 0x400000))
		return a | 0x400000;
	if (ieee && nan32(b) && !(b & 0x400000))
		return b | 0x400000;
	if (nan32(b))
		return a;
	if (nan32(a))
		return b;
	if (fa == fb)
		return max ? a & b : a | b; /* differ in the sign of zero at most */
	return (fa > fb) == max ? a : b;
}

SEM(S_MIN_F32)
{
	isa_swrite(x, in->dst, minmax(x, in32(x, S0), in32(x, S1), false));
}

SEM(S_MAX_F32)
{
	isa_swrite(x, in->dst, minmax(x, in32(x, S0), in32(x, S1), true));
}

/* An f16 as f32 bits, signalling NaNs kept so. */
static uint32_t widen(const struct isa_exec *x, uint32_t h)
{
	uint32_t f = as_bits(half(x, h));

	if ((h & 0x7fff) > 0x7c00 && !(h & 0x200))
		f &= ~0x400000u;
	return f;
}

static void minmax16(struct isa_exec *x, const struct isa_insn *in, bool max)
{
	uint32_t r = minmax(x, widen(x, H0), widen(x, H1), max);

	isa_swrite(x, in->dst, _cvtss_sh(as_float(r), _MM_FROUND_TO_ZERO)); /* exact */
}

SEM(S_MIN_F16)
{
	minmax16(x, in, false);
}

SEM(S_MAX_F16)
{
	minmax16(x, in, true);
}

#define CMP(op, expr)                                                                              \
	SEM(S_CMP_##op##_F32)                                                                      \
	{                                                                                          \
		float a = as_float(in32(x, S0)), b = as_float(in32(x, S1));                        \
                                                                                                   \
		x->w->scc = (expr);                                                                \
	}                                                                                          \
	SEM(S_CMP_##op##_F16)                                                                      \
	{                                                                                          \
		float a = half(x, H0), b = half(x, H1);                                            \
                                                                                                   \
		x->w->scc = (expr);                                                                \
	}
CMP(LT, a < b)
CMP(EQ, a == b)
CMP(LE, a <= b)
CMP(GT, a > b)
CMP(LG, a<b || a> b)
CMP(GE, a >= b)
CMP(O, !isunordered(a, b))
CMP(U, isunordered(a, b))
CMP(NGE, !(a >= b))
CMP(NLG, !(a < b || a > b))
CMP(NGT, !(a > b))
CMP(NLE, !(a <= b))
CMP(NEQ, !(a == b))
CMP(NLT, !(a < b))

/* ---- rounding and conversion ---------------------------------------------- */

static float quiet(float f)
{
	uint32_t u = as_bits(f);

	return nan32(u) ? as_float(u | 0x400000) : f;
}

#define ROUND(op, fn)                                                                              \
	SEM(S_##op##_F32)                                                                          \
	{                                                                                          \
		float a = as_float(in32(x, S0));                                                   \
                                                                                                   \
		isa_swrite(x, in->dst, out32(x, as_bits(quiet(fn(a)))));                           \
	}                                                                                          \
	SEM(S_##op##_F16)                                                                          \
	{                                                                                          \
		isa_swrite(x, in->dst, to_half(x, quiet(fn(half(x, H0)))));                        \
	}
ROUND(CEIL, ceilf)
ROUND(FLOOR, floorf)
ROUND(TRUNC, truncf)
ROUND(RNDNE, rintf) /* MXCSR is at nearest even between instructions */

#define FROM_INT(name, type)                                                                       \
	SEM(name)                                                                                  \
	{                                                                                          \
		volatile type a = (type)S0;                                                        \
		volatile float r;                                                                  \
                                                                                                   \
		round_begin(x, 32);                                                                \
		r = (float)a;                                                                      \
		round_end(x);                                                                      \
		isa_swrite(x, in->dst, as_bits(r));                                                \
	}
FROM_INT(S_CVT_F32_I32, int32_t)

SEM(S_CVT_F32_U32)
{
	volatile int64_t a = S0; /* signed 64-bit, so that the host's rounding mode is honoured */
	volatile float r;

	round_begin(x, 32);
	r = (float)a;
	round_end(x);
	isa_swrite(x, in->dst, as_bits(r));
}

/* Towards zero, clamped to the type; NaN gives 0. */
SEM(S_CVT_I32_F32)
{
	float a = as_float(in32(x, S0));
	int32_t r = a != a ? 0 : a >= 0x1p31f ? INT32_MAX : a <= -0x1p31f ? INT32_MIN : (int32_t)a;

	isa_swrite(x, in->dst, (uint32_t)r);
}

SEM(S_CVT_U32_F32)
{
	float a = as_float(in32(x, S0));
	uint32_t r = !(a > 0) ? 0 : a >= 0x1p32f ? UINT32_MAX : (uint32_t)a;

	isa_swrite(x, in->dst, r);
}

SEM(S_CVT_F16_F32)
{
	isa_swrite(x, in->dst, to_half(x, as_float(in32(x, S0))));
}

SEM(S_CVT_F32_F16)
{
	isa_swrite(x, in->dst, out32(x, as_bits(half(x, H0))));
}

SEM(S_CVT_HI_F32_F16)
{
	isa_swrite(x, in->dst, out32(x, as_bits(half(x, S0 >> 16))));
}

SEM(S_CVT_PK_RTZ_F16_F32)
{
	uint32_t lo = _cvtss_sh(as_float(in32(x, S0)), _MM_FROUND_TO_ZERO);
	uint32_t hi = _cvtss_sh(as_float(in32(x, S1)), _MM_FROUND_TO_ZERO);

	if (!(denorm(x, 16) & 2)) {
		lo = flush16(lo);
		hi = flush16(hi);
	}
	isa_swrite(x, in->dst, lo | hi << 16);
}
