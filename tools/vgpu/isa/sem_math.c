/* Reciprocals, roots, exponentials, logarithms and sines.
 *
 * The manual gives no algorithm and hardware is not correctly rounded here; every execution counts
 * in isa_exec.approximated. Results, evaluated in f64 and rounded once:
 *
 *	op			here			hardware, as compilers assume (LLVM, ACO)
 *	rcp rsq sqrt f32	correctly rounded	1 ulp
 *	exp f32			within 0.51 ulp		1 ulp
 *	log f32			within 0.51 ulp		1 ulp
 *	sin cos f32		within 0.51 ulp		absolute error 2^-20 or so
 *	all of f16		correctly rounded	1 ulp (rcp, sqrt: 0.51)
 *	rcp rsq sqrt f64	correctly rounded	about 2^-26 relative, to be refined
 *				(rsq: 1 ulp)
 *
 * f32 forms of all but sin and cos flush denormal inputs and results whatever MODE says (RDNA3.5
 * ISA, notes on each): LLVM and Mesa rescale around them where denormals matter. sin and cos take
 * revolutions, any number of them.
 */
#include "isa/valu.h"

static inline v32d to_d(v32f a)
{
	return __builtin_convertvector(a, v32d);
}

static inline v32f to_f(v32d a)
{
	return __builtin_convertvector(a, v32f);
}

static inline v32d fma_d(v32d a, v32d b, v32d c)
{
	return __builtin_elementwise_fma(a, b, c);
}

static inline v32f flush(v32f a)
{
	return F(usel((U(a) & 0x7f800000u) == 0u, U(a) & 0x80000000u, U(a)));
}

static const uint32_t qnan = 0xffc00000u;

/* ---- kernels ------------------------------------------------------------------------- */

/* 2^f for |f| <= 1/2: Taylor in f ln 2, error below 1e-11. */
static inline v32d exp2_frac(v32d f)
{
	v32d z = f * 0.693147180559945309417, p = (v32d)(1.0 / 39916800);

	p = fma_d(p, z, (v32d)(1.0 / 3628800));
	p = fma_d(p, z, (v32d)(1.0 / 362880));
	p = fma_d(p, z, (v32d)(1.0 / 40320));
	p = fma_d(p, z, (v32d)(1.0 / 5040));
	p = fma_d(p, z, (v32d)(1.0 / 720));
	p = fma_d(p, z, (v32d)(1.0 / 120));
	p = fma_d(p, z, (v32d)(1.0 / 24));
	p = fma_d(p, z, (v32d)(1.0 / 6));
	p = fma_d(p, z, (v32d)0.5);
	p = fma_d(p, z, (v32d)1.0);
	return fma_d(p, z, (v32d)1.0);
}

static inline v32f exp2_f(v32f a)
{
	/* Beyond +-200 f32 has overflowed or vanished; NaN passes through the select. */
	v32f in = fsel(a > 200.0f, splatf(200.0f), fsel(a < -200.0f, splatf(-200.0f), a));
	v32f n = __builtin_elementwise_roundeven(in);
	v32d f = to_d(in) - to_d(n);
	v32i e = __builtin_convertvector(fsel(a == a, n, splatf(0.0f)), v32i);
	v32d k = (v32d)(to_q(U(e + 1023)) << 52);

	return to_f(exp2_frac(f) * k);
}

/* log2 of a positive number: a = 2^e m with m around 1, log m = 2 artanh((m - 1) / (m + 1)). */
static inline v32f log2_f(v32f a)
{
	const v32q half_bits = (v32q)0x3fe6a09e667f3bcdull; /* sqrt(1/2) */
	v32q t = (v32q)to_d(a) - half_bits;
	v32l e = (v32l)t >> 52;
	v32d m = (v32d)((v32q)to_d(a) - ((v32q)e << 52));
	v32d s = (m - 1.0) / (m + 1.0), z = s * s, p = (v32d)(1.0 / 15);
	v32d ed = to_d(__builtin_convertvector(__builtin_convertvector(e, v32i), v32f));
	v32f r;

	p = fma_d(p, z, (v32d)(1.0 / 13));
	p = fma_d(p, z, (v32d)(1.0 / 11));
	p = fma_d(p, z, (v32d)(1.0 / 9));
	p = fma_d(p, z, (v32d)(1.0 / 7));
	p = fma_d(p, z, (v32d)(1.0 / 5));
	p = fma_d(p, z, (v32d)(1.0 / 3));
	p = fma_d(p, z, (v32d)1.0);
	r = to_f(fma_d(p * s, (v32d)2.88539008177792681472, ed));
	r = fsel(a == __builtin_inff(), a, r);
	r = fsel(a == 0.0f, splatf(-__builtin_inff()), r);
	return fsel((a < 0.0f) | (a != a), fsel(a != a, a, F(splat(qnan))), r);
}

/* sin(2 pi r) for |r| <= 1/4. */
static inline v32d sin_quarter(v32d r)
{
	v32d z = r * 6.28318530717958647693, y = z * z, p = (v32d)(1.0 / 355687428096000.0);

	p = fma_d(p, y, (v32d)(-1.0 / 1307674368000.0));
	p = fma_d(p, y, (v32d)(1.0 / 6227020800.0));
	p = fma_d(p, y, (v32d)(-1.0 / 39916800));
	p = fma_d(p, y, (v32d)(1.0 / 362880));
	p = fma_d(p, y, (v32d)(-1.0 / 5040));
	p = fma_d(p, y, (v32d)(1.0 / 120));
	p = fma_d(p, y, (v32d)(-1.0 / 6));
	return fma_d(p * y, z, z);
}

/* What is left of a whole number of revolutions, -1/2..1/2; exact. */
static inline v32d revolve(v32f a)
{
	return to_d(a) - to_d(__builtin_elementwise_roundeven(a));
}

static inline v32f no_inf(v32f a, v32f r)
{
	return fsel((U(a) & 0x7fffffffu) == 0x7f800000u, F(splat(qnan)), r);
}

static inline v32f sin_f(v32f a)
{
	v32d r = revolve(a), half = r < 0.0 ? (v32d)-0.5 : (v32d)0.5;
	v32d in = ((r > 0.25) | (r < -0.25)) ? half - r : r;
	v32f s = to_f(sin_quarter(in));

	/* -0 stays; where other values have a whole number of half turns the sine is +0 (RDNA3.5
	 * ISA, examples of V_SIN_F32). */
	return no_inf(a, fsel(a == 0.0f, a, fsel(s == 0.0f, splatf(0.0f), s)));
}

static inline v32f cos_f(v32f a)
{
	v32d r = revolve(a), m = r < 0.0 ? -r : r;

	return no_inf(a, to_f(sin_quarter(0.25 - m)));
}

static inline v32f rcp_f(v32f a)
{
	return 1.0f / a;
}

static inline v32f sqrt_f(v32f a)
{
	return __builtin_elementwise_sqrt(a);
}

static inline v32f rsq_f(v32f a)
{
	return to_f(1.0 / __builtin_elementwise_sqrt(to_d(a)));
}

/* ---- f32 ------------------------------------------------------------------------------ */

#define MATH_F32(NAME, FN, DENORM)                                                                 \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0);                                 \
		const v32f a = DENORM(F(*valu_src(&v, 0, K_F32)));                                 \
		x->approximated++;                                                                 \
		valu_out(&v, K_F32, U(DENORM(FN(a))));                                             \
	}

MATH_F32(V_EXP_F32, exp2_f, flush)
MATH_F32(V_LOG_F32, log2_f, flush)
MATH_F32(V_RCP_F32, rcp_f, flush)
MATH_F32(V_RCP_IFLAG_F32, rcp_f, flush)
MATH_F32(V_RSQ_F32, rsq_f, flush)
MATH_F32(V_SQRT_F32, sqrt_f, flush)
MATH_F32(V_SIN_F32, sin_f, F)
MATH_F32(V_COS_F32, cos_f, F)

/* ---- f16: the f32 result, rounded as MODE says ------------------------------------------ */

#define MATH_F16(NAME, FN)                                                                         \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);                                    \
		const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16));                                \
		x->approximated++;                                                                 \
		valu_out_f16(&v, FN(a));                                                           \
	}

MATH_F16(V_EXP_F16, exp2_f)
MATH_F16(V_LOG_F16, log2_f)
MATH_F16(V_RCP_F16, rcp_f)
MATH_F16(V_RSQ_F16, rsq_f)
MATH_F16(V_SQRT_F16, sqrt_f)
MATH_F16(V_SIN_F16, sin_f)
MATH_F16(V_COS_F16, cos_f)

/* ---- f64 -------------------------------------------------------------------------------- */

#define MATH_F64(NAME, E)                                                                          \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT, MODE_F64, 64);                                     \
		const v32d a = (v32d)valu_src64(&v, 0, true);                                      \
		x->approximated++;                                                                 \
		valu_out64(&v, true, (v32q)(E));                                                   \
	}

MATH_F64(V_RCP_F64, 1.0 / a)
MATH_F64(V_RSQ_F64, 1.0 / __builtin_elementwise_sqrt(a))
MATH_F64(V_SQRT_F64, __builtin_elementwise_sqrt(a))
