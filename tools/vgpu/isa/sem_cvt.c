/* Conversions. To integers: truncated and saturated, NaN gives zero. */
#include "isa/valu.h"

#define MIN __builtin_elementwise_min
#define MAX __builtin_elementwise_max

/* ---- f32 -> integers -------------------------------------------------------------- */

/* The host's truncating conversion gives 0x80000000 for what does not fit. */
static inline v32i f32_to_i32(v32f a)
{
	v32i r =
		S(usel((a >= 0x1p31f), splat(0x7fffffffu),
		       U(__builtin_convertvector(
			       fsel((a < 0x1p31f) & (a >= -0x1p31f), a, splatf(-0x1p31f)), v32i))));

	return S(usel(a != a, splat(0), U(r)));
}

static inline v32u f32_to_u32(v32f a)
{
	/* Above 2^31 the rest is converted; values there are whole numbers. */
	v32i big = a >= 0x1p31f;
	v32f in = fsel((a > 0.0f) & (a < 0x1p32f), a, splatf(0.0f));
	v32u r = U(__builtin_convertvector(fsel(big, in - 0x1p31f, in), v32i)) ^
		 (U(big) & 0x80000000u);

	return usel(a >= 0x1p32f, splat(~0u), usel(a > 0.0f, r, splat(0)));
}

/* Source f32, result of bits that no output modifier touches. */
#define CVT_FROM_F32(NAME, KOUT, E)                                                                \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0);                                 \
		const v32f a = F(*valu_src(&v, 0, K_F32));                                         \
		valu_out(&v, KOUT, U(E));                                                          \
	}

CVT_FROM_F32(V_CVT_I32_F32, K_B32, f32_to_i32(a))
CVT_FROM_F32(V_CVT_U32_F32, K_B32, f32_to_u32(a))
CVT_FROM_F32(V_CVT_FLOOR_I32_F32, K_B32, f32_to_i32(__builtin_elementwise_floor(a)))

/* floor(a + 0.5), the sum unrounded: what is below a half goes down even where f32 cannot tell. */
static inline v32f half_up(v32f a)
{
	v32f fl = __builtin_elementwise_floor(a);

	return fsel(a - fl >= 0.5f, fl + 1.0f, fl);
}

CVT_FROM_F32(V_CVT_NEAREST_I32_F32, K_B32, f32_to_i32(half_up(a)))

/* ---- integers -> f32 --------------------------------------------------------------- */

#define CVT_TO_F32(NAME, E)                                                                        \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_F32, MODE_F32, 32);                                     \
		const v32u a = *valu_src(&v, 0, K_B32);                                            \
		valu_out(&v, K_F32, U(E));                                                         \
	}

#define TO_F(v) __builtin_convertvector(v, v32f)

CVT_TO_F32(V_CVT_F32_I32, TO_F(S(a)))
/* Compilers convert by way of a difference, which is -0 for 0 when rounding down. */
CVT_TO_F32(V_CVT_F32_U32, fsel(a == 0u, splatf(0.0f), TO_F(a)))
CVT_TO_F32(V_CVT_F32_UBYTE0, TO_F(S(a & 0xffu)))
CVT_TO_F32(V_CVT_F32_UBYTE1, TO_F(S(a >> 8 & 0xffu)))
CVT_TO_F32(V_CVT_F32_UBYTE2, TO_F(S(a >> 16 & 0xffu)))
CVT_TO_F32(V_CVT_F32_UBYTE3, TO_F(S(a >> 24)))
/* A signed nibble in sixteenths. */
CVT_TO_F32(V_CVT_OFF_F32_I4, TO_F(S(a << 28) >> 28) * 0.0625f)

/* ---- f64 ---------------------------------------------------------------------------- */

#define TO_D(v) __builtin_convertvector(v, v32d)

static inline v32u f64_to_i32(v32d a)
{
	v32d in = a > 2147483647.0 ? (v32d)2147483647.0 : a;

	in = in < -2147483648.0 ? (v32d)-2147483648.0 : in;
	in = a != a ? (v32d)0.0 : in;
	return U(__builtin_convertvector(in, v32i));
}

/* Through the signed range, which the host converts. */
static inline v32u f64_to_u32(v32d a)
{
	v32d in = a < 4294967295.0 ? a : (v32d)4294967295.0;

	in = a > 0.0 ? in : (v32d)0.0;
	in = __builtin_elementwise_trunc(in);
	return U(__builtin_convertvector(in - 2147483648.0, v32i)) ^ 0x80000000u;
}

#define CVT_FROM_F64(NAME, KOUT, RND, MODE, E)                                                     \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT, MODE_F64_KEEP | (MODE), RND);                      \
		const v32d a = (v32d)valu_src64(&v, 0, true);                                      \
		valu_out(&v, KOUT, U(E));                                                          \
	}

CVT_FROM_F64(V_CVT_I32_F64, K_B32, 0, 0, f64_to_i32(a))
CVT_FROM_F64(V_CVT_U32_F64, K_B32, 0, 0, f64_to_u32(a))
CVT_FROM_F64(V_CVT_F32_F64, K_F32, 32, MODE_F32, TO_F(a))

#define CVT_TO_F64(NAME, KIN, E)                                                                   \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP | MODE_F64, 64);                     \
		const v32u a = *valu_src(&v, 0, KIN);                                              \
		valu_out64(&v, true, (v32q)(E));                                                   \
	}

CVT_TO_F64(V_CVT_F64_I32, K_B32, TO_D(S(a)))
/* Biased so that the host's signed conversion does it. */
CVT_TO_F64(V_CVT_F64_U32, K_B32,
	   __builtin_convertvector(a == 0u, v32l) ? (v32d)0.0
						  : TO_D(S(a ^ 0x80000000u)) + 2147483648.0)
CVT_TO_F64(V_CVT_F64_F32, K_F32, TO_D(F(a)))

/* ---- f16 ---------------------------------------------------------------------------- */

VALU_SEM(V_CVT_F16_F32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F32_KEEP | MODE_F64, 0);
	const v32f a = F(*valu_src(&v, 0, K_F32));
	valu_out_f16(&v, a);
}

/* No f16 becomes a denormal f32: MODE's f32 control has nothing to do. */
VALU_SEM(V_CVT_F32_F16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F64_KEEP, 0);
	const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16));
	valu_out(&v, K_F32, U(a));
}

VALU_SEM(V_CVT_F16_U16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);
	const v32u a = zext16(*valu_src(&v, 0, K_B16));
	valu_out_f16(&v, TO_F(S(a)));
}

VALU_SEM(V_CVT_F16_I16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);
	const v32i a = sext16(*valu_src(&v, 0, K_B16));
	valu_out_f16(&v, TO_F(a));
}

/* Saturating, truncating; the bounds are whole numbers. NaN fails every comparison. */
static inline v32i to_range(v32f a, float lo, float hi)
{
	v32f in = fsel(a > lo, fsel(a < hi, a, splatf(hi)), splatf(lo));

	return __builtin_convertvector(fsel(a != a, splatf(0.0f), in), v32i);
}

static inline v32i to_i16(v32f a)
{
	return to_range(a, -32768.0f, 32767.0f);
}

static inline v32i to_u16(v32f a)
{
	return to_range(a, 0.0f, 65535.0f);
}

/* a * k to the nearest whole number; the product is exact in f64. */
static inline v32f scaled(v32f a, double k)
{
	return TO_F(__builtin_elementwise_roundeven(TO_D(a) * k));
}

/* [-1, 1] to +-32767, [0, 1] to 65535. */
static inline v32i to_snorm(v32f a)
{
	return to_range(scaled(a, 32767.0), -32767.0f, 32767.0f);
}

static inline v32i to_unorm(v32f a)
{
	return to_range(scaled(a, 65535.0), 0.0f, 65535.0f);
}

#define CVT_FROM_F16(NAME, E)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT16, MODE_F64_KEEP, 0);                               \
		const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16));                                \
		valu_out(&v, K_B16, U(E));                                                         \
	}

CVT_FROM_F16(V_CVT_U16_F16, to_u16(a))
CVT_FROM_F16(V_CVT_I16_F16, to_i16(a))
CVT_FROM_F16(V_CVT_NORM_I16_F16, to_snorm(a))
CVT_FROM_F16(V_CVT_NORM_U16_F16, to_unorm(a))

/* ---- 16-bit integers ------------------------------------------------------------------ */

VALU_SEM(V_CVT_I32_I16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_INT16, 0, 0);
	valu_out(&v, K_B32, U(sext16(*valu_src(&v, 0, K_B16))));
}

VALU_SEM(V_CVT_U32_U16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_INT16, 0, 0);
	valu_out(&v, K_B32, zext16(*valu_src(&v, 0, K_B16)));
}

/* ---- pairs ------------------------------------------------------------------------------ */

static inline v32u pair(v32i lo, v32i hi)
{
	return zext16(U(lo)) | U(hi) << 16;
}

#define CVT_PK(NAME, BEGIN, A, B, E)                                                               \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		BEGIN;                                                                             \
		const A;                                                                           \
		const B;                                                                           \
		valu_out(&v, K_B32, U(E));                                                         \
	}

#define PK_F32(NAME, E)                                                                            \
	CVT_PK(NAME, valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0),                            \
	       v32f a = F(*valu_src(&v, 0, K_F32)), v32f b = F(*valu_src(&v, 1, K_F32)), E)
#define PK_F16(NAME, E)                                                                            \
	CVT_PK(NAME, valu_begin(&v, x, in, MODS_FLT16, MODE_F64_KEEP, 0),                          \
	       v32f a = f16_to_f32(*valu_src(&v, 0, K_F16)),                                       \
	       v32f b = f16_to_f32(*valu_src(&v, 1, K_F16)), E)
#define PK_B32(NAME, E)                                                                            \
	CVT_PK(NAME, valu_begin(&v, x, in, MODS_INT, 0, 0), v32u a = *valu_src(&v, 0, K_B32),      \
	       v32u b = *valu_src(&v, 1, K_B32), E)

PK_F32(V_CVT_PK_I16_F32, pair(to_i16(a), to_i16(b)))
PK_F32(V_CVT_PK_U16_F32, pair(to_u16(a), to_u16(b)))
PK_F32(V_CVT_PK_NORM_I16_F32, pair(to_snorm(a), to_snorm(b)))
PK_F32(V_CVT_PK_NORM_U16_F32, pair(to_unorm(a), to_unorm(b)))
PK_F16(V_CVT_PK_NORM_I16_F16, pair(to_snorm(a), to_snorm(b)))
PK_F16(V_CVT_PK_NORM_U16_F16, pair(to_unorm(a), to_unorm(b)))
PK_B32(V_CVT_PK_U16_U32, pair(S(MIN(a, splat(0xffff))), S(MIN(b, splat(0xffff)))))
PK_B32(V_CVT_PK_I16_I32, pair(MAX(MIN(S(a), (v32i)0x7fff), (v32i)-0x8000),
			      MAX(MIN(S(b), (v32i)0x7fff), (v32i)-0x8000)))

/* Towards zero whatever MODE says; f16 denormals obey MODE. */
static inline v32u rtz16(const struct valu *v, v32f a)
{
	v32u h = f32_to_f16_rtz(a);

	if (!(valu_denorm64(v->x) & 2))
		h = usel((h & 0x7c00u) == 0u, h & 0x8000u, h);
	return h;
}

VALU_SEM(V_CVT_PK_RTZ_F16_F32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0);
	const v32f a = F(*valu_src(&v, 0, K_F32));
	const v32f b = F(*valu_src(&v, 1, K_F32));
	const v32f lo = in->clamp ? valu_clamp01(&v, a) : a,
		   hi = in->clamp ? valu_clamp01(&v, b) : b;
	valu_out(&v, K_B32, rtz16(&v, lo) | rtz16(&v, hi) << 16);
}

static inline v32f rounded(v32f a, unsigned rnd)
{
	switch (rnd) {
	case 0:
		return __builtin_elementwise_roundeven(a);
	case 1:
		return __builtin_elementwise_ceil(a);
	case 2:
		return __builtin_elementwise_floor(a);
	}
	return __builtin_elementwise_trunc(a);
}

/* Byte S1[1:0] of S2 becomes the saturated value of S0. Unlike every other conversion to integers
 * it obeys MODE's rounding (measured: Mesa's errata to the manuals). */
VALU_SEM(V_CVT_PK_U8_F32)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0);
	const v32f a = F(*valu_src(&v, 0, K_F32));
	const v32u s = (*valu_src(&v, 1, K_B32) & 3u) << 3;
	const v32u c = *valu_src(&v, 2, K_B32);
	const v32f r = rounded(a, valu_round32(x));
	valu_out(&v, K_B32, (c & ~(splat(0xff) << s)) | U(to_range(r, 0.0f, 255.0f)) << s);
}
