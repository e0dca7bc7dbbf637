/* Vector f64 arithmetic. */
#include <math.h>

#include "isa/valu.h"

VOP_F64(V_ADD_F64, 2, a + b)
VOP_F64(V_MUL_F64, 2, a *b)
VOP_F64(V_FMA_F64, 3, __builtin_elementwise_fma(a, b, c))

/* The rules of f32_min() and f32_max() in 64 bits. */
static inline v32d minmax64(v32d a, v32d b, v32d r, bool ieee)
{
	const v32q quiet = (v32q)0x8000000000000ull;
	v32l an = a != a, bn = b != b;

	r = an ? b : r;
	r = bn ? a : r;
	if (ieee) {
		v32l as = an & (((v32q)a & quiet) == 0ull), bs = bn & (((v32q)b & quiet) == 0ull);

		r = bs ? (v32d)((v32q)b | quiet) : r;
		r = as ? (v32d)((v32q)a | quiet) : r;
	}
	return r;
}

static inline v32d f64_min(v32d a, v32d b, bool ieee)
{
	v32d z = (v32d)((v32q)a | (v32q)b), n = a < b ? a : b;

	return minmax64(a, b, a == b ? z : n, ieee);
}

static inline v32d f64_max(v32d a, v32d b, bool ieee)
{
	v32d z = (v32d)((v32q)a & (v32q)b), n = a > b ? a : b;

	return minmax64(a, b, a == b ? z : n, ieee);
}

#define PICK64(NAME, FN)                                                                           \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT, MODE_F64, 0);                                      \
		v.selects = true;                                                                  \
		const v32d a = (v32d)valu_src64(&v, 0, true);                                      \
		const v32d b = (v32d)valu_src64(&v, 1, true);                                      \
		valu_out64(&v, true, (v32q)FN(a, b, valu_ieee(x)));                                \
	}

PICK64(V_MIN_F64, f64_min)
PICK64(V_MAX_F64, f64_max)

VOP_F64(V_TRUNC_F64, 1, __builtin_elementwise_trunc(a))
VOP_F64(V_CEIL_F64, 1, __builtin_elementwise_ceil(a))
VOP_F64(V_FLOOR_F64, 1, __builtin_elementwise_floor(a))
VOP_F64(V_RNDNE_F64, 1, __builtin_elementwise_roundeven(a))

static inline v32d fract64(v32d a)
{
	v32d r = a - __builtin_elementwise_floor(a), top = (v32d)0x1.fffffffffffffp-1;

	return r > top ? top : r;
}

VOP_F64(V_FRACT_F64, 1, fract64(a))

/* ---- exponents -------------------------------------------------------------------- */

static inline v32u expo64(v32d a)
{
	return q_hi((v32q)a) >> 20 & 0x7ffu;
}

/* Denormals made normal by 2^64; *adj: what that adds to the exponent. */
static inline v32d normalise(v32d a, v32u *adj)
{
	v32i den = expo64(a) == 0u;

	*adj = U(den) & 64u;
	return __builtin_convertvector(den, v32l) ? a * 0x1p64 : a;
}

static inline v32i finite_nonzero64(v32d a)
{
	return (expo64(a) != 0x7ffu) & __builtin_convertvector(a != 0.0, v32i);
}

VALU_SEM(V_FREXP_EXP_I32_F64)
{
	struct valu v;
	v32u adj;

	valu_begin(&v, x, in, MODS_FLT, MODE_F64_KEEP, 0);
	const v32d a = (v32d)valu_src64(&v, 0, true);
	const v32d n = normalise(a, &adj);
	valu_out(&v, K_B32, usel(finite_nonzero64(a), expo64(n) - 1022u - adj, splat(0)));
}

static inline v32d frexp_mant64(v32d a)
{
	v32u adj;
	v32q n = (v32q)normalise(a, &adj);

	n = (n & 0x800fffffffffffffull) | 1022ull << 52;
	return __builtin_convertvector(finite_nonzero64(a), v32l) ? (v32d)n : a;
}

VOP_F64(V_FREXP_MANT_F64, 1, frexp_mant64(a))

VALU_SEM(V_LDEXP_F64)
{
	struct valu v;
	double r[32];
	int e[32];
	v32q q;

	valu_begin(&v, x, in, MODS_FLT, MODE_F64, 64);
	q = valu_src64(&v, 0, true);
	memcpy(r, &q, sizeof(r));
	memcpy(e, valu_src(&v, 1, K_B32), sizeof(e));
	for (unsigned l = 0; l < 32; l++)
		r[l] = ldexp(r[l], e[l] > 5000 ? 5000 : e[l] < -5000 ? -5000 : e[l]);
	memcpy(&q, r, sizeof(q));
	valu_out64(&v, true, q);
}

/* ---- division ------------------------------------------------------------------------ */

/* As V_DIV_SCALE_F32, which explains the conditions. */
VALU_SEM(V_DIV_SCALE_F64)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT, MODE_F64, 64);
	const v32d a = (v32d)valu_src64(&v, 0, true);
	const v32d b = (v32d)valu_src64(&v, 1, true); /* denominator */
	const v32d c = (v32d)valu_src64(&v, 2, true); /* numerator */
	const v32l zero = (b == 0.0) | (c == 0.0);
	const v32i eb = S(expo64(b)), ec = S(expo64(c));
	const v32l huge = __builtin_convertvector(ec - eb >= 768, v32l);
	const v32l bden = __builtin_convertvector(eb == 0, v32l);
	const v32l rden = __builtin_convertvector(eb >= 2045, v32l);
	const v32l qden = __builtin_convertvector(ec - eb <= -1022, v32l);
	const v32l tiny = __builtin_convertvector(ec <= 53, v32l);
	const v32d up = a * 0x1p128, down = a * 0x1p-128;
	const v32d is_b = a == b ? up : a, is_c = a == c ? up : a, not_b = a == b ? down : a;
	const v32l both = rden & qden, vcc = zero | huge | (~bden & qden);
	v32d r = tiny ? up : a;

	r = qden ? is_c : r;
	r = rden ? down : r;
	r = both ? not_b : r;
	r = bden ? up : r;
	r = huge ? is_b : r;
	r = zero ? (v32d)((v32q)0x7ff8000000000000ull) : r;
	isa_set_smask(x, in->sdst, isa_gather(__builtin_convertvector(vcc, v32i)) & v.exec);
	valu_out64(&v, true, (v32q)r);
}

/* a * b + c - r for r = fma(a, b, c) to nearest (Boldo and Muller): only its sign is used. */
static inline v32d fma_error(v32d a, v32d b, v32d c, v32d r)
{
	v32d p = a * b, low = __builtin_elementwise_fma(a, b, -p), t, s, e1, e2, u;

	s = c + low;
	t = s - c;
	e1 = (c - (s - t)) + (low - t);
	u = p + s;
	t = u - p;
	e2 = (p - (u - t)) + (s - t);
	return ((u - r) + e2) + e1;
}

/* r * 2^-128 where r was rounded to nearest and is off by error: one rounding in all. They differ
 * from two where r is half way between two denormals and was not before. */
static inline v32d scale_down_once(v32d r, v32d error)
{
	v32d once = r * 0x1p-128, left = r - once * 0x1p128;
	v32l tie = __builtin_elementwise_abs(left) == 0x1p-947;
	v32l beyond = (v32l)((v32q)error ^ (v32q)r) >= 0; /* the exact value is the larger one */
	v32l cut = (v32l)((v32q)left ^ (v32q)r) >= 0;     /* once is the smaller one */

	tie &= error != 0.0;
	return (v32d)((v32l)once + (tie & cut & beyond & 1) - (tie & ~cut & ~beyond & 1));
}

VALU_SEM(V_DIV_FMAS_F64)
{
	struct valu v;
	uint32_t vcc = x->w->s[OPR_VCC_LO + x->half];

	valu_begin(&v, x, in, MODS_FLT, MODE_F64, 64);
	const v32d a = (v32d)valu_src64_bits(&v, 0);
	const v32d b = (v32d)valu_src64_bits(&v, 1);
	const v32d c = (v32d)valu_src64_bits(&v, 2);
	v32d r = __builtin_elementwise_fma(a, b, c);

	/* 2^128 up or down by the size of S2, where the manual says 2^64. */
	if (vcc & v.exec) {
		v32l large = __builtin_convertvector(S(expo64(c)) > 1023, v32l);
		v32d down = r * 0x1p-128;

		/* Rounding twice in the same direction is rounding once. */
		if (!v.csr_set)
			down = scale_down_once(r, fma_error(a, b, c, r));
		r = __builtin_convertvector(isa_spread(vcc), v32l) ? (large ? r * 0x1p128 : down)
								   : r;
	}
	valu_out64(&v, true, (v32q)r);
}

/* a: quotient, b: denominator, c: numerator; see div_fixup() for f32. */
static inline v32d div_fixup64(v32d a, v32d b, v32d c)
{
	const v32q abs = (v32q)0x7fffffffffffffffull, inf = (v32q)0x7ff0000000000000ull;
	const v32q sign = ((v32q)b ^ (v32q)c) & ~abs;
	const v32l binf = ((v32q)b & abs) == inf, cinf = ((v32q)c & abs) == inf;
	const v32l b0 = b == 0.0, c0 = c == 0.0, an = a != a, bn = b != b, cn = c != c;
	const v32l far = __builtin_convertvector(S(expo64(c)) - S(expo64(b)) < -1075, v32l);
	const v32l to0 = binf | c0, toinf = b0 | cinf, nan = (binf & cinf) | (b0 & c0);
	v32q r = an ? inf : (v32q)a & abs;

	r = far ? (v32q)0ull : r;
	r = to0 ? (v32q)0ull : r;
	r = toinf ? inf : r;
	r |= sign;
	r = nan ? (v32q)0xfff8000000000000ull : r;
	r = bn ? (v32q)b | 0x8000000000000ull : r;
	r = cn ? (v32q)c | 0x8000000000000ull : r;
	return (v32d)r;
}

VOP_F64(V_DIV_FIXUP_F64, 3, div_fixup64(a, b, c))

/* ---- 2/pi ------------------------------------------------------------------------------ */

/* The binary fraction of 2/pi, 64 bits a word, most significant first (1201 bits and zeros). */
static const uint64_t two_over_pi[19] = {
	0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
	0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
	0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
	0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
	0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b0000ull,
};

/* Bits [at, at + 53) of the fraction. */
static uint64_t pi_bits(unsigned at)
{
	unsigned w = at / 64, s = at % 64;
	uint64_t hi = w < 19 ? two_over_pi[w] : 0, lo = w + 1 < 19 ? two_over_pi[w + 1] : 0;

	return (s ? hi << s | lo >> (64 - s) : hi) >> 11;
}

/* Segment S1 of 2/pi for an argument of S0's size. The manual counts a fraction of 1201 bits,
 * of which the topmost is bit 1200. */
VALU_SEM(V_TRIG_PREOP_F64)
{
	struct valu v;
	uint32_t seg[32];
	uint64_t q[32];
	v32q r;

	valu_begin(&v, x, in, MODS_FLT, MODE_F64, 64);
	r = valu_src64(&v, 0, true);
	memcpy(q, &r, sizeof(q));
	memcpy(seg, valu_src(&v, 1, K_B32), sizeof(seg));
	for (unsigned l = 0; l < 32; l++) {
		int e = (int)(q[l] >> 52 & 0x7ff), shift = (int)(seg[l] & 31) * 53;
		double d;

		if (e > 1077)
			shift += e - 1077;
		d = ldexp((double)pi_bits((unsigned)shift), -53 - shift + (e >= 1968 ? 128 : 0));
		memcpy(&q[l], &d, sizeof(d));
	}
	memcpy(&r, q, sizeof(r));
	valu_out64(&v, true, r);
}
