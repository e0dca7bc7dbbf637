/* Vector 16-bit integer and f16 operations. A 16-bit result goes into one half of its register
 * and leaves the other alone. */
#include "isa/valu.h"

#define MIN __builtin_elementwise_min
#define MAX __builtin_elementwise_max

/* Two halves change places, perhaps within one register. */
VALU_SEM(V_SWAP_B16)
{
	v32u *d = isa_vgpr(x, in->dst), *s = isa_vgpr(x, in->src[0]);
	const unsigned dh = in->op_sel & 8 ? 16 : 0, sh = in->op_sel & 1 ? 16 : 0;
	const v32u dv = *d >> dh & 0xffffu, sv = *s >> sh & 0xffffu;
	uint32_t m = isa_exec_mask(x);

	valu_write(d, m, (*d & ~(0xffffu << dh)) | sv << dh);
	valu_write(s, m, (*s & ~(0xffffu << sh)) | dv << sh);
}

/* ---- integers and bits --------------------------------------------------------- */

/* neg and abs are good on moves of floats. */
VALU_SEM(V_MOV_B16)
{
	struct valu v;

	valu_begin(&v, x, in, MOD_NEG | MOD_ABS | MODS_INT16, 0, 0);
	valu_out(&v, K_B16, *valu_src(&v, 0, K_M16));
}

VOP_B16(V_NOT_B16, 1, ~a)
VOP_B16(V_AND_B16, 2, a &b)
VOP_B16(V_OR_B16, 2, a | b)
VOP_B16(V_XOR_B16, 2, a ^ b)
VOP_B16(V_LSHLREV_B16, 2, b << (a & 15u))
VOP_B16(V_LSHRREV_B16, 2, zext16(b) >> (a & 15u))
VOP_B16(V_ASHRREV_I16, 2, sext16(b) >> S(a & 15u))

static inline v32i sat_i16(v32i r)
{
	return MAX(MIN(r, (v32i)0x7fff), (v32i)-0x8000);
}

static inline v32u sat_u16(v32u r)
{
	return MIN(r, splat(0xffff));
}

static inline v32u add_u16(v32u a, v32u b, bool clamp)
{
	return clamp ? sat_u16(zext16(a) + zext16(b)) : a + b;
}

static inline v32u sub_u16(v32u a, v32u b, bool clamp)
{
	v32u za = zext16(a), zb = zext16(b);

	return clamp ? (za - zb) & U(za >= zb) : a - b;
}

static inline v32u add_i16(v32u a, v32u b, bool clamp)
{
	return clamp ? U(sat_i16(sext16(a) + sext16(b))) : a + b;
}

static inline v32u sub_i16(v32u a, v32u b, bool clamp)
{
	return clamp ? U(sat_i16(sext16(a) - sext16(b))) : a - b;
}

/* 0xffff * 0xffff + 0xffff fits in 32 bits. */
static inline v32u mad_u16(v32u a, v32u b, v32u c, bool clamp)
{
	v32u r = zext16(a) * zext16(b) + zext16(c);

	return clamp ? sat_u16(r) : r;
}

static inline v32u mad_i16(v32u a, v32u b, v32u c, bool clamp)
{
	v32i r = sext16(a) * sext16(b) + sext16(c);

	return U(clamp ? sat_i16(r) : r);
}

VOP_B16(V_ADD_NC_U16, 2, add_u16(a, b, in->clamp))
VOP_B16(V_SUB_NC_U16, 2, sub_u16(a, b, in->clamp))
VOP_B16(V_ADD_NC_I16, 2, add_i16(a, b, in->clamp))
VOP_B16(V_SUB_NC_I16, 2, sub_i16(a, b, in->clamp))
VOP_B16(V_MUL_LO_U16, 2, in->clamp ? sat_u16(zext16(a) * zext16(b)) : a *b)
VOP_B16(V_MAD_U16, 3, mad_u16(a, b, c, in->clamp))
VOP_B16(V_MAD_I16, 3, mad_i16(a, b, c, in->clamp))

VOP_B16(V_MIN_U16, 2, MIN(zext16(a), zext16(b)))
VOP_B16(V_MAX_U16, 2, MAX(zext16(a), zext16(b)))
VOP_B16(V_MIN_I16, 2, MIN(sext16(a), sext16(b)))
VOP_B16(V_MAX_I16, 2, MAX(sext16(a), sext16(b)))
VOP_B16(V_MIN3_U16, 3, MIN(MIN(zext16(a), zext16(b)), zext16(c)))
VOP_B16(V_MAX3_U16, 3, MAX(MAX(zext16(a), zext16(b)), zext16(c)))
VOP_B16(V_MIN3_I16, 3, MIN(MIN(sext16(a), sext16(b)), sext16(c)))
VOP_B16(V_MAX3_I16, 3, MAX(MAX(sext16(a), sext16(b)), sext16(c)))

static inline v32u med_u(v32u a, v32u b, v32u c)
{
	return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

static inline v32i med_i(v32i a, v32i b, v32i c)
{
	return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

VOP_B16(V_MED3_U16, 3, med_u(zext16(a), zext16(b), zext16(c)))
VOP_B16(V_MED3_I16, 3, med_i(sext16(a), sext16(b), sext16(c)))

/* 16 x 16 + 32. */
#define VOP_MAD32(NAME, PRODUCT, SAT)                                                              \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_INT16, 0, 0);                                           \
		const v32u a = *valu_src(&v, 0, K_B16);                                            \
		const v32u b = *valu_src(&v, 1, K_B16);                                            \
		const v32u c = *valu_src(&v, 2, K_B32);                                            \
		const v32u p = U(PRODUCT);                                                         \
		v32u r = p + c;                                                                    \
                                                                                                   \
		if (in->clamp)                                                                     \
			r = SAT;                                                                   \
		valu_out(&v, K_B32, r);                                                            \
	}

VOP_MAD32(V_MAD_U32_U16, zext16(a) * zext16(b), r | U(r < c))
VOP_MAD32(V_MAD_I32_I16, sext16(a) * sext16(b),
	  usel(S(~(p ^ c) & (p ^ r)) < 0, U(S(c) >> 31) ^ 0x7fffffffu, r))

VALU_SEM(V_CNDMASK_B16)
{
	struct valu v;
	v32i m = isa_spread(isa_smask(x, in, in->src[2]));

	valu_begin(&v, x, in, MOD_NEG | MOD_ABS | MODS_INT16, 0, 0);
	const v32u a = *valu_src(&v, 0, K_M16);
	const v32u b = *valu_src(&v, 1, K_M16);
	valu_out(&v, K_B16, usel(m, b, a));
}

VALU_SEM(V_SAT_PK_U8_I16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_INT16, 0, 0);
	const v32u a = *valu_src(&v, 0, K_B32);
	v32i lo = MAX(MIN(sext16(a), (v32i)255), (v32i)0);
	v32i hi = MAX(MIN(S(a) >> 16, (v32i)255), (v32i)0);
	valu_out(&v, K_B16, U(lo | hi << 8));
}

/* Bits pass unchanged but for neg and abs. */
VALU_SEM(V_PACK_B32_F16)
{
	struct valu v;

	valu_begin(&v, x, in, MOD_NEG | MOD_ABS | MODS_INT16, 0, 0);
	const v32u a = *valu_src(&v, 0, K_M16);
	const v32u b = *valu_src(&v, 1, K_M16);
	valu_out(&v, K_B32, zext16(a) | b << 16);
}

/* ---- f16 arithmetic --------------------------------------------------------------- */

/* In the plain path rounding is to nearest, where f32's 24 bits make rounding twice harmless for
 * a sum of two f16; other directions need the sum rounded to odd. */
#define ADD16(p, q) (v.plain ? (p) + (q) : f16_sum(p, q, valu_down16(&v)))

VOP_F16(V_ADD_F16, 2, ADD16(a, b))
VOP_F16(V_SUB_F16, 2, ADD16(a, -b))
VOP_F16(V_SUBREV_F16, 2, ADD16(b, -a))
VOP_F16(V_MUL_F16, 2, a *b)
VOP_F16(V_FMA_F16, 3, f16_fma(a, b, c, valu_down16(&v)))
VOP_F16(V_FMAMK_F16, 3, f16_fma(a, b, c, valu_down16(&v)))
VOP_F16(V_FMAAK_F16, 3, f16_fma(a, b, c, valu_down16(&v)))

/* The addend is the half that the result goes to. */
VALU_SEM(V_FMAC_F16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);
	const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16));
	const v32f b = f16_to_f32(*valu_src(&v, 1, K_F16));
	const v32f c = f16_to_f32(*valu_src_sel(&v, 2, K_F16, 3));
	valu_out_f16(&v, f16_fma(a, b, c, valu_down16(&v)));
}

#define IEEE valu_ieee(x)

/* min, max and median look at signalling NaNs: operands widened with the quiet bit as it is. */
#define VOP_F16_NAN(NAME, N, ...)                                                                  \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);                                    \
		v.selects = true;                                                                  \
		VALU_SRCS(N, f16_widen, v32f, K_F16, K_F16, K_F16);                                \
		valu_out_f16(&v, __VA_ARGS__);                                                     \
	}

VOP_F16_NAN(V_MIN_F16, 2, f32_min(a, b, IEEE))
VOP_F16_NAN(V_MAX_F16, 2, f32_max(a, b, IEEE))
VOP_F16_NAN(V_MIN3_F16, 3, f32_min(f32_min(a, b, IEEE), c, IEEE))
VOP_F16_NAN(V_MAX3_F16, 3, f32_max(f32_max(a, b, IEEE), c, IEEE))
VOP_F16_NAN(V_MED3_F16, 3, f32_med3(a, b, c, IEEE))
VOP_F16_NAN(V_MAXMIN_F16, 3, f32_min(f32_max(a, b, IEEE), c, IEEE))
VOP_F16_NAN(V_MINMAX_F16, 3, f32_max(f32_min(a, b, IEEE), c, IEEE))

VOP_F16(V_TRUNC_F16, 1, __builtin_elementwise_trunc(a))
VOP_F16(V_CEIL_F16, 1, __builtin_elementwise_ceil(a))
VOP_F16(V_FLOOR_F16, 1, __builtin_elementwise_floor(a))
VOP_F16(V_RNDNE_F16, 1, __builtin_elementwise_roundeven(a))

/* 0x3bff bounds the difference. */
static inline v32f fract16(v32f a, bool down)
{
	v32f r = f16_sum(a, -__builtin_elementwise_floor(a), down), top = splatf(0x1.ffcp-1f);

	return fsel(r > top, top, r);
}

VOP_F16(V_FRACT_F16, 1, fract16(a, valu_down16(&v)))

/* Every f16 is normal in f32. */
static inline v32i finite_nonzero(v32f a)
{
	return (a != 0.0f) & ((U(a) & 0x7f800000u) != 0x7f800000u);
}

static inline v32f frexp_mant16(v32f a)
{
	return fsel(finite_nonzero(a), F((U(a) & 0x807fffffu) | 126u << 23), a);
}

VOP_F16(V_FREXP_MANT_F16, 1, frexp_mant16(a))

VALU_SEM(V_FREXP_EXP_I16_F16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F64_KEEP, 0);
	const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16));
	valu_out(&v, K_B16, usel(finite_nonzero(a), (U(a) >> 23 & 0xffu) - 126u, splat(0)));
}

/* 2^60 either way takes every f16 to overflow or to zero, and is exact in f32. */
VALU_SEM(V_LDEXP_F16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);
	const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16));
	const v32i e = MAX(MIN(sext16(*valu_src(&v, 1, K_B16)), (v32i)60), (v32i)-60);
	valu_out_f16(&v, a * F(U(e + 127) << 23));
}

/* a: quotient, b: denominator, c: numerator. */
static inline v32f div_fixup16(v32f a, v32f b, v32f c)
{
	const v32u sign = (U(b) ^ U(c)) & 0x80000000u, inf = splat(0x7f800000u);
	const v32i binf = (U(b) & 0x7fffffffu) == inf, cinf = (U(c) & 0x7fffffffu) == inf;
	v32u r = usel(a != a, inf, U(a) & 0x7fffffffu);
	v32f q;

	r = usel(binf | (c == 0.0f), splat(0), r);
	r = usel((b == 0.0f) | cinf, inf, r);
	q = F(r | sign);
	q = fsel((binf & cinf) | ((b == 0.0f) & (c == 0.0f)), F(splat(0xffc00000u)), q);
	q = fsel(b != b, b, q);
	return fsel(c != c, c, q);
}

VOP_F16(V_DIV_FIXUP_F16, 3, div_fixup16(a, b, c))
