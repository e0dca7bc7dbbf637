/* Vector comparisons: v_cmp writes a lane mask, v_cmpx EXEC. */
#include "isa/valu.h"

/* A comparison's bits for the lanes that are active; the others are written as zero. */
static inline void cmp_out(struct valu *v, uint32_t bits)
{
	isa_set_smask(v->x, v->in->sdst, bits & v->exec);
}

static inline void cmpx_out(struct valu *v, uint32_t bits)
{
	isa_set_exec(v->x, bits & v->exec);
}

static inline void cmp_dpp(struct valu *v)
{
	if (v->in->dpp_kind != DPP_NONE)
		valu_src(v, 0, K_B32);
}

/* One comparison as v_cmp and v_cmpx. BITS: 32 bits, after the operands a and b. */
#define CMP_PAIR(OP, TYPE, BEGIN, A, B, BITS)                                                      \
	VALU_SEM(V_CMP_##OP##_##TYPE)                                                              \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		BEGIN;                                                                             \
		A;                                                                                 \
		B;                                                                                 \
		cmp_out(&v, BITS);                                                                 \
	}                                                                                          \
	VALU_SEM(V_CMPX_##OP##_##TYPE)                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		BEGIN;                                                                             \
		A;                                                                                 \
		B;                                                                                 \
		cmpx_out(&v, BITS);                                                                \
	}

static inline uint32_t bits32(v32i m)
{
	return isa_gather(m);
}

static inline uint32_t bits64(v32l m)
{
	return isa_gather(__builtin_convertvector(m, v32i));
}

/* ---- integers ----------------------------------------------------------------- */

#define BEGIN_INT   valu_begin(&v, x, in, MODS_INT, 0, 0)
#define BEGIN_INT16 valu_begin(&v, x, in, MODS_INT16, 0, 0)
#define BEGIN_64    valu_begin(&v, x, in, 0, 0, 0)

#define CMP_U32(OP, E)                                                                             \
	CMP_PAIR(OP, U32, BEGIN_INT, const v32u a = *valu_src(&v, 0, K_B32),                       \
		 const v32u b = *valu_src(&v, 1, K_B32), bits32(E))
#define CMP_I32(OP, E)                                                                             \
	CMP_PAIR(OP, I32, BEGIN_INT, const v32i a = S(*valu_src(&v, 0, K_B32)),                    \
		 const v32i b = S(*valu_src(&v, 1, K_B32)), bits32(E))
#define CMP_U16(OP, E)                                                                             \
	CMP_PAIR(OP, U16, BEGIN_INT16, const v32u a = zext16(*valu_src(&v, 0, K_B16)),             \
		 const v32u b = zext16(*valu_src(&v, 1, K_B16)), bits32(E))
#define CMP_I16(OP, E)                                                                             \
	CMP_PAIR(OP, I16, BEGIN_INT16, const v32i a = sext16(*valu_src(&v, 0, K_B16)),             \
		 const v32i b = sext16(*valu_src(&v, 1, K_B16)), bits32(E))
#define CMP_U64(OP, E)                                                                             \
	CMP_PAIR(OP, U64, BEGIN_64, const v32q a = valu_src64(&v, 0, false),                       \
		 const v32q b = valu_src64(&v, 1, false), bits64(E))
#define CMP_I64(OP, E)                                                                             \
	CMP_PAIR(OP, I64, BEGIN_64, const v32l a = valu_src64_signed(&v, 0),                       \
		 const v32l b = valu_src64_signed(&v, 1), bits64(E))

/* The operands do not matter, but where DPP lets the lane be written. */
#define CMP_CONST(TYPE, BEGIN, OP, BITS) CMP_PAIR(OP, TYPE, BEGIN, (void)0, cmp_dpp(&v), BITS)

#define CMP_ORDER(CMP)                                                                             \
	CMP(LT, a < b)                                                                             \
	CMP(EQ, a == b)                                                                            \
	CMP(LE, a <= b)                                                                            \
	CMP(GT, a > b)                                                                             \
	CMP(NE, a != b)                                                                            \
	CMP(GE, a >= b)

CMP_ORDER(CMP_U32)
CMP_ORDER(CMP_I32)
CMP_ORDER(CMP_U16)
CMP_ORDER(CMP_I16)
CMP_ORDER(CMP_U64)
CMP_ORDER(CMP_I64)

CMP_CONST(U32, BEGIN_INT, F, 0)
CMP_CONST(U32, BEGIN_INT, T, ~0u)
CMP_CONST(I32, BEGIN_INT, F, 0)
CMP_CONST(I32, BEGIN_INT, T, ~0u)
CMP_CONST(U64, BEGIN_64, F, 0)
CMP_CONST(U64, BEGIN_64, T, ~0u)
CMP_CONST(I64, BEGIN_64, F, 0)
CMP_CONST(I64, BEGIN_64, T, ~0u)

/* ---- floats -------------------------------------------------------------------- */

#define BEGIN_F32 valu_begin(&v, x, in, MODS_F32, MODE_F32_KEEP, 0)
#define BEGIN_F16 valu_begin(&v, x, in, MODS_FLT16, MODE_F64_KEEP, 0)
#define BEGIN_F64 valu_begin(&v, x, in, MODS_FLT, MODE_F64_KEEP, 0)

#define CMP_F32(OP, E)                                                                             \
	CMP_PAIR(OP, F32, BEGIN_F32, const v32f a = F(*valu_src(&v, 0, K_F32)),                    \
		 const v32f b = F(*valu_src(&v, 1, K_F32)), bits32(E))
#define CMP_F16(OP, E)                                                                             \
	CMP_PAIR(OP, F16, BEGIN_F16, const v32f a = f16_to_f32(*valu_src(&v, 0, K_F16)),           \
		 const v32f b = f16_to_f32(*valu_src(&v, 1, K_F16)), bits32(E))
#define CMP_F64(OP, E)                                                                             \
	CMP_PAIR(OP, F64, BEGIN_F64, const v32d a = (v32d)valu_src64(&v, 0, true),                 \
		 const v32d b = (v32d)valu_src64(&v, 1, true), bits64(E))

#define UNORD ((a != a) | (b != b))

#define CMP_FLOAT(CMP)                                                                             \
	CMP(LT, a < b)                                                                             \
	CMP(EQ, a == b)                                                                            \
	CMP(LE, a <= b)                                                                            \
	CMP(GT, a > b)                                                                             \
	CMP(LG, (a < b) | (a > b))                                                                 \
	CMP(GE, a >= b)                                                                            \
	CMP(O, ~UNORD)                                                                             \
	CMP(U, UNORD)                                                                              \
	CMP(NGE, ~(a >= b))                                                                        \
	CMP(NLG, ~((a < b) | (a > b)))                                                             \
	CMP(NGT, ~(a > b))                                                                         \
	CMP(NLE, ~(a <= b))                                                                        \
	CMP(NEQ, a != b)                                                                           \
	CMP(NLT, ~(a < b))

CMP_FLOAT(CMP_F32)
CMP_FLOAT(CMP_F16)
CMP_FLOAT(CMP_F64)

CMP_CONST(F32, BEGIN_F32, F, 0)
CMP_CONST(F32, BEGIN_F32, T, ~0u)
CMP_CONST(F16, BEGIN_F16, F, 0)
CMP_CONST(F16, BEGIN_F16, T, ~0u)
CMP_CONST(F64, BEGIN_F64, F, 0)
CMP_CONST(F64, BEGIN_F64, T, ~0u)

/* ---- class ---------------------------------------------------------------------- */

/* The bit of the class mask that a value selects: 0 signalling NaN, 1 quiet NaN, then -inf,
 * -normal, -denormal, -0, +0, +denormal, +normal, +inf. Bits are looked at as they are: MODE's
 * denormal control does not apply. */
static inline v32u class_bit(v32u sign, v32u exp, v32u exp_max, v32u mant, v32u quiet)
{
	v32u special = usel(mant != 0u, usel(quiet != 0u, splat(1), splat(0)),
			    usel(sign != 0u, splat(2), splat(9)));
	v32u small = usel(mant != 0u, usel(sign != 0u, splat(4), splat(7)),
			  usel(sign != 0u, splat(5), splat(6)));

	return usel(exp == exp_max, special,
		    usel(exp == 0u, small, usel(sign != 0u, splat(3), splat(8))));
}

static inline uint32_t class_bits(v32u bit, v32u mask)
{
	return isa_gather(S(mask << (31u - bit)));
}

static inline uint32_t class32(v32u a, v32u mask)
{
	return class_bits(
		class_bit(a >> 31, a >> 23 & 0xffu, splat(0xff), a & 0x7fffffu, a & 0x400000u),
		mask);
}

static inline uint32_t class16(v32u a, v32u mask)
{
	return class_bits(
		class_bit(a >> 15 & 1u, a >> 10 & 0x1fu, splat(0x1f), a & 0x3ffu, a & 0x200u),
		mask);
}

static inline uint32_t class64(v32q a, v32u mask)
{
	v32u hi = q_hi(a);

	return class_bits(class_bit(hi >> 31, hi >> 20 & 0x7ffu, splat(0x7ff),
				    (hi & 0xfffffu) | q_lo(a), hi & 0x80000u),
			  mask);
}

CMP_PAIR(CLASS, F32, valu_begin(&v, x, in, MODS_F32, 0, 0), const v32u a = *valu_src(&v, 0, K_M32),
	 const v32u b = *valu_src(&v, 1, K_B32), class32(a, b))
CMP_PAIR(CLASS, F16, valu_begin(&v, x, in, MODS_FLT16, 0, 0),
	 const v32u a = *valu_src(&v, 0, K_M16), const v32u b = *valu_src(&v, 1, K_B16),
	 class16(a, b))
CMP_PAIR(CLASS, F64, valu_begin(&v, x, in, MODS_FLT, MODE_F64_KEEP, 0),
	 const v32q a = valu_src64_bits(&v, 0), const v32u b = *valu_src(&v, 1, K_B32),
	 class64(a, b))
