/* Vector f32 arithmetic, and the f32 operations that only look at bits. */
#include "isa/valu.h"

#define IEEE valu_ieee(x)

VOP_F32(V_ADD_F32, 2, a + b)
VOP_F32(V_SUB_F32, 2, a - b)
VOP_F32(V_SUBREV_F32, 2, b - a)
VOP_F32(V_MUL_F32, 2, a *b)
VOP_F32(V_FMA_F32, 3, valu_fma(a, b, c))
VOP_F32(V_FMAC_F32, 3, valu_fma(a, b, c))
VOP_F32(V_FMAMK_F32, 3, valu_fma(a, b, c))
VOP_F32(V_FMAAK_F32, 3, valu_fma(a, b, c))

/* DX9 rule: zero times anything is zero. */
static inline v32i either_zero(v32f a, v32f b)
{
	return (a == 0.0f) | (b == 0.0f);
}

VOP_F32(V_MUL_DX9_ZERO_F32, 2, fsel(either_zero(a, b), splatf(0.0f), a *b))
VOP_F32(V_FMA_DX9_ZERO_F32, 3, fsel(either_zero(a, b), c, valu_fma(a, b, c)))
VOP_F32(V_FMAC_DX9_ZERO_F32, 3, fsel(either_zero(a, b), c, valu_fma(a, b, c)))

VOP_F32_PICK(V_MIN_F32, 2, f32_min(a, b, IEEE))
VOP_F32_PICK(V_MAX_F32, 2, f32_max(a, b, IEEE))
VOP_F32_PICK(V_MIN3_F32, 3, f32_min(f32_min(a, b, IEEE), c, IEEE))
VOP_F32_PICK(V_MAX3_F32, 3, f32_max(f32_max(a, b, IEEE), c, IEEE))
VOP_F32_PICK(V_MED3_F32, 3, f32_med3(a, b, c, IEEE))
VOP_F32_PICK(V_MAXMIN_F32, 3, f32_min(f32_max(a, b, IEEE), c, IEEE))
VOP_F32_PICK(V_MINMAX_F32, 3, f32_max(f32_min(a, b, IEEE), c, IEEE))

VOP_F32(V_TRUNC_F32, 1, __builtin_elementwise_trunc(a))
VOP_F32(V_CEIL_F32, 1, __builtin_elementwise_ceil(a))
VOP_F32(V_FLOOR_F32, 1, __builtin_elementwise_floor(a))
VOP_F32(V_RNDNE_F32, 1, __builtin_elementwise_roundeven(a))

/* Never 1.0: the largest value below it bounds the difference (what LLVM matches fract to). */
static inline v32f fract(v32f a)
{
	v32f r = a - __builtin_elementwise_floor(a), top = splatf(0x1.fffffep-1f);

	return fsel(r > top, top, r);
}

VOP_F32(V_FRACT_F32, 1, fract(a))

/* ---- exponents --------------------------------------------------------------- */

static inline v32i is_finite_nonzero(v32f a)
{
	return (a != 0.0f) & ((U(a) & 0x7f800000u) != 0x7f800000u);
}

/* Through f64, where every f32 is normal. */
static inline v32u frexp_exp(v32f a)
{
	v32q d = (v32q) __builtin_convertvector(a, v32d);

	return usel(is_finite_nonzero(a), q_lo((d >> 52) & 0x7ffull) - 1022u, splat(0));
}

static inline v32f frexp_mant(v32f a)
{
	v32q d = (v32q) __builtin_convertvector(a, v32d);
	v32d m = (v32d)((d & 0x800fffffffffffffull) | 1022ull << 52);

	return fsel(is_finite_nonzero(a), __builtin_convertvector(m, v32f), a);
}

VALU_SEM(V_FREXP_EXP_I32_F32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0);
	const v32f a = F(*valu_src(&v, 0, K_F32));
	valu_out(&v, K_B32, frexp_exp(a));
}

VOP_F32(V_FREXP_MANT_F32, 1, frexp_mant(a))

/* a * 2^e, rounded once: exact in f64, whose exponent range e is first brought into. */
static inline v32f ldexp32(v32f a, v32i e)
{
	v32i lim = __builtin_elementwise_max(__builtin_elementwise_min(e, (v32i)400), (v32i)-400);
	v32d k = (v32d)(to_q(U(lim + 1023)) << 52);

	return __builtin_convertvector(__builtin_convertvector(a, v32d) * k, v32f);
}

VALU_SEM(V_LDEXP_F32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_F32, MODE_F32, 32);
	const v32f a = F(*valu_src(&v, 0, K_F32));
	const v32i e = S(*valu_src(&v, 1, K_B32));
	valu_out(&v, K_F32, U(ldexp32(a, e)));
}

/* ---- division ----------------------------------------------------------------- */

static inline v32i expo(v32f a)
{
	return S(U(a) >> 23 & 0xffu);
}

/* Scaling before a division. What is tested is the exponents alone: the quotient, or 1/S1, counts
 * as denormal when the exponent difference says it may be (2^-126 / 1 already does on hardware,
 * by a public suite; so does VCC for a zero operand, both against the manual's pseudocode). Where
 * both are denormal the manual scales the denominator up, which overflows; down is what makes the
 * division come out. */
VALU_SEM(V_DIV_SCALE_F32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_F32, MODE_F32, 32);
	const v32f a = F(*valu_src(&v, 0, K_F32));
	const v32f b = F(*valu_src(&v, 1, K_F32)); /* denominator */
	const v32f c = F(*valu_src(&v, 2, K_F32)); /* numerator */
	const v32i zero = (b == 0.0f) | (c == 0.0f);
	const v32i diff = expo(c) - expo(b);
	const v32i huge = diff >= 96;
	const v32i bden = expo(b) == 0;
	const v32i rden = expo(b) >= 253;
	const v32i qden = diff <= -126;
	const v32i tiny = expo(c) <= 23;
	const v32f up = a * 0x1p64f, down = a * 0x1p-64f;
	const v32f is_b = fsel(a == b, up, a), is_c = fsel(a == c, up, a);
	v32f r = fsel(tiny, up, a);
	v32i vcc;

	r = fsel(qden, is_c, r);
	r = fsel(rden, down, r);
	r = fsel(rden & qden, fsel(a == b, down, a), r);
	r = fsel(bden, up, r);
	r = fsel(huge, is_b, r);
	r = fsel(zero, F(splat(0x7fc00000u)), r);
	vcc = zero | huge | (~bden & qden);
	isa_set_smask(x, in->sdst, isa_gather(vcc) & v.exec);
	valu_out(&v, K_F32, U(r));
}

/* fma(a, b, c) * 2^k with one rounding: the product is exact in f64 and the sum is rounded to
 * odd there, so scaling and the conversion do the only rounding. */
static v32f fma_scaled(v32f fa, v32f fb, v32f fc, v32d k)
{
	v32d p = __builtin_convertvector(fa, v32d) * __builtin_convertvector(fb, v32d);
	v32d q = __builtin_convertvector(fc, v32d), r = p + q;
	v32d t = r - p, e = (p - (r - t)) + (q - t);
	v32q rb = (v32q)r;
	v32l fix = (e != 0.0) & (e == e) & ((rb & 1ull) == 0ull);
	v32l away = ((v32l)((v32q)e ^ rb) >> 63) == 0;

	rb = fix ? (away ? rb + 1ull : rb - 1ull) : rb;
	return __builtin_convertvector((v32d)rb * k, v32f);
}

/* Denormal inputs are never flushed, results as MODE says. */
VALU_SEM(V_DIV_FMAS_F32)
{
	struct valu v;
	uint32_t vcc = x->w->s[OPR_VCC_LO + x->half];

	valu_begin(&v, x, in, MODS_F32, MODE_F32, 32);
	const v32f a = F(*valu_src(&v, 0, K_M32));
	const v32f b = F(*valu_src(&v, 1, K_M32));
	const v32f c = F(*valu_src(&v, 2, K_M32));
	v32f r = valu_fma(a, b, c);

	/* The manual says 2^32; hardware scales by 2^64, up or down by the size of S2. */
	if (valu_unlikely(vcc & v.exec)) {
		v32d k =
			__builtin_convertvector(expo(c) > 127, v32l) ? (v32d)0x1p64 : (v32d)0x1p-64;

		r = fsel(isa_spread(vcc), fma_scaled(a, b, c, k), r);
	}
	valu_out(&v, K_F32, U(r));
}

/* a: quotient, b: denominator, c: numerator. A NaN quotient of numbers means that the estimate
 * overflowed: infinity (hardware, by a public suite). */
static inline v32f div_fixup(v32f a, v32f b, v32f c)
{
	const v32u sign = (U(b) ^ U(c)) & 0x80000000u;
	const v32f mb = F(U(b) & 0x7fffffffu), mc = F(U(c) & 0x7fffffffu);
	const v32f inf = splatf(__builtin_inff());
	v32u r = usel(a != a, splat(0x7f800000u), U(a) & 0x7fffffffu);
	v32f q;

	r = usel(expo(b) == 255, splat(0x7f800000u), r);
	r = usel(expo(c) - expo(b) < -150, splat(0), r);
	r = usel((mb == inf) | (c == 0.0f), splat(0), r);
	r = usel((b == 0.0f) | (mc == inf), splat(0x7f800000u), r);
	q = F(r | sign);
	q = fsel(((mb == inf) & (mc == inf)) | ((b == 0.0f) & (c == 0.0f)), F(splat(0xffc00000u)),
		 q);
	q = fsel(b != b, F(U(b) | 0x400000u), q);
	return fsel(c != c, F(U(c) | 0x400000u), q);
}

VOP_F32(V_DIV_FIXUP_F32, 3, div_fixup(a, b, c))

/* ---- graphics helpers --------------------------------------------------------- */

static inline v32f mullit(v32f a, v32f b, v32f c)
{
	const v32f low = splatf(-__FLT_MAX__);
	const v32i dark = (b == low) | (b == -__builtin_inff()) | (b != b) | (c <= 0.0f) | (c != c);

	return fsel(dark, low, a * b);
}

VOP_F32(V_MULLIT_F32, 3, mullit(a, b, c))

static inline v32f fabs32(v32f a)
{
	return F(U(a) & 0x7fffffffu);
}

/* a, b, c are x, y, z; the major axis is z before y before x. */
#define Z_MAJOR ((fabs32(c) >= fabs32(a)) & (fabs32(c) >= fabs32(b)))
#define Y_MAJOR (fabs32(b) >= fabs32(a))

static inline v32f face(v32f v, float pos, float neg)
{
	return fsel(v < 0.0f, splatf(neg), splatf(pos));
}

VOP_F32(V_CUBEID_F32, 3, fsel(Z_MAJOR, face(c, 4, 5), fsel(Y_MAJOR, face(b, 2, 3), face(a, 0, 1))))
VOP_F32(V_CUBESC_F32, 3,
	fsel(Z_MAJOR, fsel(c < 0.0f, -a, a), fsel(Y_MAJOR, a, fsel(a < 0.0f, c, -c))))
VOP_F32(V_CUBETC_F32, 3, fsel(Z_MAJOR, -b, fsel(Y_MAJOR, fsel(b < 0.0f, -c, c), -b)))
VOP_F32(V_CUBEMA_F32, 3, 2.0f * fsel(Z_MAJOR, c, fsel(Y_MAJOR, b, a)))

/* ---- interpolation ------------------------------------------------------------- */

/* Only the arithmetic on registers: source 0 and the P10 forms' source 2 come from the lanes of
 * the quad that hold P10/P20 and P0. */
static v32u quad_lane(v32u s, unsigned lane)
{
	uint32_t from[32], to[32];

	memcpy(from, &s, sizeof(from));
	for (unsigned l = 0; l < 32; l++)
		to[l] = from[(l & ~3u) + lane];
	memcpy(&s, to, sizeof(to));
	return s;
}

#define VINTERP(NAME, KIN, CONV, LANE0, SRC2, OUT)                                                 \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT16, MODE_F32 | MODE_F64, 32);                        \
		const v32f a = CONV(quad_lane(*valu_src(&v, 0, KIN), LANE0));                      \
		const v32f b = F(*valu_src(&v, 1, K_F32));                                         \
		const v32f c = SRC2;                                                               \
		OUT;                                                                               \
	}

#define INTERP_F32 valu_out(&v, K_F32, U(valu_fma(a, b, c)))
#define P0_F32     F(quad_lane(*valu_src(&v, 2, K_F32), 0))
#define P0_F16     f16_to_f32(quad_lane(*valu_src(&v, 2, K_F16), 0))
#define P2_F32     F(*valu_src(&v, 2, K_F32))

VINTERP(V_INTERP_P10_F32, K_F32, F, 1, P0_F32, INTERP_F32)
VINTERP(V_INTERP_P2_F32, K_F32, F, 2, P2_F32, INTERP_F32)
VINTERP(V_INTERP_P10_F16_F32, K_F16, f16_to_f32, 1, P0_F16, INTERP_F32)
VINTERP(V_INTERP_P10_RTZ_F16_F32, K_F16, f16_to_f32, 1, P0_F16, INTERP_F32)
VINTERP(V_INTERP_P2_F16_F32, K_F16, f16_to_f32, 2, P2_F32, valu_out_f16(&v, valu_fma(a, b, c)))
VINTERP(V_INTERP_P2_RTZ_F16_F32, K_F16, f16_to_f32, 2, P2_F32,
	valu_out_rtz16(&v, valu_fma(a, b, c)))
