/* Vector integer and bit operations on 32 and 64 bits. */
#include "isa/valu.h"

/* ---- moves and bits --------------------------------------------------------- */

VALU_SEM(V_NOP)
{
	(void)x;
	(void)in;
}

VALU_SEM(V_PIPEFLUSH)
{
	(void)x;
	(void)in;
}

/* neg and abs are good on moves of floats (RDNA3.5 ISA, "Input operand modifiers"). */
static inline void move(struct isa_exec *x, const struct isa_insn *in)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_INT, 0, 0);
	valu_out(&v, K_B32, *valu_src(&v, 0, K_M32));
}

VALU_SEM(V_MOV_B32)
{
	move(x, in);
}

VOP_B32(V_NOT_B32, 1, ~a)
VOP_B32(V_BFREV_B32, 1, __builtin_elementwise_bitreverse(a))
VOP_B32(V_AND_B32, 2, a &b)
VOP_B32(V_OR_B32, 2, a | b)
VOP_B32(V_XOR_B32, 2, a ^ b)
VOP_B32(V_XNOR_B32, 2, ~(a ^ b))
VOP_B32(V_LSHLREV_B32, 2, b << (a & 31u))
VOP_B32(V_LSHRREV_B32, 2, b >> (a & 31u))
VOP_B32(V_ASHRREV_I32, 2, S(b) >> S(a & 31u))
VOP_B32(V_XOR3_B32, 3, a ^ b ^ c)
VOP_B32(V_OR3_B32, 3, a | b | c)
VOP_B32(V_AND_OR_B32, 3, (a & b) | c)
VOP_B32(V_LSHL_OR_B32, 3, (a << (b & 31u)) | c)
VOP_B32(V_BFI_B32, 3, (a & b) | (~a & c))
VOP_B32(V_BFM_B32, 2, ((splat(1) << (a & 31u)) - 1u) << (b & 31u))

static inline v32u popcount(v32u a)
{
	a = a - (a >> 1 & 0x55555555u);
	a = (a & 0x33333333u) + (a >> 2 & 0x33333333u);
	a = (a + (a >> 4)) & 0x0f0f0f0fu;
	return (a * 0x01010101u) >> 24;
}

VOP_B32(V_BCNT_U32_B32, 2, popcount(a) + b)

/* Leading zeros of a non-zero value: spread the top bit down and count what is above. */
static inline v32u leading_zeros(v32u a)
{
	a |= a >> 1;
	a |= a >> 2;
	a |= a >> 4;
	a |= a >> 8;
	a |= a >> 16;
	return 32u - popcount(a);
}

VOP_B32(V_CLZ_I32_U32, 1, usel(a == 0u, splat(~0u), leading_zeros(a)))
VOP_B32(V_CTZ_I32_B32, 1, usel(a == 0u, splat(~0u), popcount((a & -a) - 1u)))

static inline v32u sign_bits(v32u a)
{
	v32u t = a ^ U(S(a) >> 31);

	return usel(t == 0u, splat(~0u), leading_zeros(t));
}

VOP_B32(V_CLS_I32, 1, sign_bits(a))

static inline v32u bfe_u32(v32u a, v32u off, v32u w)
{
	return (a >> (off & 31u)) & ((splat(1) << (w & 31u)) - 1u);
}

static inline v32u bfe_i32(v32u a, v32u off, v32u w)
{
	v32u up = (0u - w) & 31u;
	v32u t = U(S(a) >> S(off & 31u));

	return usel((w & 31u) == 0u, splat(0), U(S(t << up) >> S(up)));
}

VOP_B32(V_BFE_U32, 3, bfe_u32(a, b, c))
VOP_B32(V_BFE_I32, 3, bfe_i32(a, b, c))

/* Low dword of {a, b} >> n, n in 0..31. */
static inline v32u funnel(v32u a, v32u b, v32u n)
{
	return (b >> n) | (a << 1 << (31u - n));
}

/* The count is a 16-bit source: op_sel[2] picks its half. */
#define VOP_FUNNEL(NAME, COUNT)                                                                    \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_INT16, 0, 0);                                           \
		const v32u a = *valu_src(&v, 0, K_B32);                                            \
		const v32u b = *valu_src(&v, 1, K_B32);                                            \
		const v32u c = *valu_src(&v, 2, K_B16);                                            \
		valu_out(&v, K_B32, funnel(a, b, COUNT));                                          \
	}

VOP_FUNNEL(V_ALIGNBIT_B32, c & 31u)
VOP_FUNNEL(V_ALIGNBYTE_B32, (c & 3u) << 3)

/* Byte k of v_perm_b32's result: selectors 0-3 take b's bytes, 4-7 a's, 8-11 the sign of byte
 * 1, 3, 5, 7 of {a, b}, 12 zero, above 0xff. */
static inline v32u perm_byte(v32u a, v32u b, v32u sel)
{
	v32u word = usel((sel & 4u) != 0u, a, b);
	v32u plain = word >> ((sel & 3u) << 3) & 0xffu;
	v32u sword = usel(sel >= 10u, a, b);
	v32u sign = U(S(usel((sel & 1u) != 0u, sword, sword << 16)) >> 31) & 0xffu;

	return usel(sel < 8u, plain,
		    usel(sel < 12u, sign, usel(sel == 12u, splat(0), splat(0xff))));
}

static inline v32u perm(v32u a, v32u b, v32u s)
{
	return perm_byte(a, b, s & 0xffu) | perm_byte(a, b, s >> 8 & 0xffu) << 8 |
	       perm_byte(a, b, s >> 16 & 0xffu) << 16 | perm_byte(a, b, s >> 24) << 24;
}

VOP_B32(V_PERM_B32, 3, perm(a, b, c))

VALU_SEM(V_CNDMASK_B32)
{
	struct valu v;
	v32i m = isa_spread(isa_smask(x, in, in->src[2]));

	valu_begin(&v, x, in, MODS_INT, 0, 0);
	const v32u a = *valu_src(&v, 0, K_M32);
	const v32u b = *valu_src(&v, 1, K_M32);
	valu_out(&v, K_B32, usel(m, b, a));
}

VALU_SEM(V_SWAP_B32)
{
	v32u *d = isa_vgpr(x, in->dst), *s = isa_vgpr(x, in->src[0]);
	v32u dv = *d, sv = *s;
	uint32_t m = isa_exec_mask(x);

	valu_write(d, m, sv);
	valu_write(s, m, dv);
}

/* Register numbers moved by M0; what is past the allocation stays there. */
static inline uint16_t relative(unsigned code, uint32_t by)
{
	uint64_t r = (uint64_t)code + by;

	return r < OPR_NONE ? (uint16_t)r : OPR_NONE;
}

static inline void move_relative(struct isa_exec *x, const struct isa_insn *in, uint32_t src,
				 uint32_t dst)
{
	struct isa_insn t = *in;

	t.dst = relative(in->dst, dst);
	t.src[0] = in->src[0] < OPR_VGPR0 ? in->src[0] : relative(in->src[0], src);
	move(x, &t);
}

VALU_SEM(V_MOVRELS_B32)
{
	move_relative(x, in, x->w->s[OPR_M0], 0);
}

VALU_SEM(V_MOVRELD_B32)
{
	move_relative(x, in, 0, x->w->s[OPR_M0]);
}

VALU_SEM(V_MOVRELSD_B32)
{
	move_relative(x, in, x->w->s[OPR_M0], x->w->s[OPR_M0]);
}

VALU_SEM(V_MOVRELSD_2_B32)
{
	move_relative(x, in, x->w->s[OPR_M0] & 0x3ff, x->w->s[OPR_M0] >> 16 & 0x3ff);
}

VALU_SEM(V_SWAPREL_B32)
{
	uint32_t m0 = x->w->s[OPR_M0], m = isa_exec_mask(x);
	v32u *s = isa_vgpr(x, in->src[0] + (m0 & 0x3ff));
	v32u *d = isa_vgpr(x, in->dst + (m0 >> 16 & 0x3ff));
	v32u dv = *d, sv = *s;

	valu_write(d, m, sv);
	valu_write(s, m, dv);
}

/* ---- add, subtract ---------------------------------------------------------- */

static inline v32u add_u32(v32u a, v32u b, bool clamp)
{
	v32u r = a + b;

	return clamp ? r | U(r < a) : r;
}

static inline v32u sub_u32(v32u a, v32u b, bool clamp)
{
	v32u r = a - b;

	return clamp ? r & U(a >= b) : r;
}

/* Where the signed result r of a +- b overflowed, the bound on a's side. */
static inline v32u sat_i32(v32u a, v32u r, v32u overflow)
{
	return usel(S(overflow) < 0, U(S(a) >> 31) ^ 0x7fffffffu, r);
}

static inline v32u add_i32(v32u a, v32u b, bool clamp)
{
	v32u r = a + b;

	return clamp ? sat_i32(a, r, ~(a ^ b) & (a ^ r)) : r;
}

static inline v32u sub_i32(v32u a, v32u b, bool clamp)
{
	v32u r = a - b;

	return clamp ? sat_i32(a, r, (a ^ b) & (a ^ r)) : r;
}

VOP_B32(V_ADD_NC_U32, 2, add_u32(a, b, in->clamp))
VOP_B32(V_SUB_NC_U32, 2, sub_u32(a, b, in->clamp))
VOP_B32(V_SUBREV_NC_U32, 2, sub_u32(b, a, in->clamp))
VOP_B32(V_ADD_NC_I32, 2, add_i32(a, b, in->clamp))
VOP_B32(V_SUB_NC_I32, 2, sub_i32(a, b, in->clamp))
VOP_B32(V_ADD3_U32, 3, a + b + c)
VOP_B32(V_XAD_U32, 3, (a ^ b) + c)
VOP_B32(V_LSHL_ADD_U32, 3, (a << (b & 31u)) + c)
VOP_B32(V_ADD_LSHL_U32, 3, (a + b) << (c & 31u))

/* Carry chains. CI: carry-in mask; R: the sum; CO: carry-out as a lane mask. */
#define VOP_CARRY(NAME, CI, R, CO, SATURATED)                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_INT, 0, 0);                                             \
		const v32u a = *valu_src(&v, 0, K_B32);                                            \
		const v32u b = *valu_src(&v, 1, K_B32);                                            \
		const v32u ci = CI; /* -1 where set */                                             \
		v32u r = R;                                                                        \
		const v32i co = CO;                                                                \
		uint32_t m = isa_gather(co) & v.exec;                                              \
                                                                                                   \
		(void)ci;                                                                          \
		if (in->clamp)                                                                     \
			r = usel(co, splat(SATURATED), r);                                         \
		valu_out(&v, K_B32, r);                                                            \
		isa_set_smask(x, in->sdst, m);                                                     \
	}

#define NO_CARRY splat(0)
#define CARRY_IN U(isa_spread(isa_smask(x, in, in->src[2])))

VOP_CARRY(V_ADD_CO_U32, NO_CARRY, a + b, r < a, ~0u)
VOP_CARRY(V_SUB_CO_U32, NO_CARRY, a - b, a < b, 0)
VOP_CARRY(V_SUBREV_CO_U32, NO_CARRY, b - a, b < a, 0)
VOP_CARRY(V_ADD_CO_CI_U32, CARRY_IN, a + b - ci, (r < a) | ((r == a) & S(ci)), ~0u)
VOP_CARRY(V_SUB_CO_CI_U32, CARRY_IN, a - b + ci, (a < b) | ((a == b) & S(ci)), 0)
VOP_CARRY(V_SUBREV_CO_CI_U32, CARRY_IN, b - a + ci, (b < a) | ((a == b) & S(ci)), 0)

/* ---- min, max --------------------------------------------------------------- */

#define MIN __builtin_elementwise_min
#define MAX __builtin_elementwise_max

VOP_B32(V_MIN_U32, 2, MIN(a, b))
VOP_B32(V_MAX_U32, 2, MAX(a, b))
VOP_B32(V_MIN_I32, 2, MIN(S(a), S(b)))
VOP_B32(V_MAX_I32, 2, MAX(S(a), S(b)))
VOP_B32(V_MIN3_U32, 3, MIN(MIN(a, b), c))
VOP_B32(V_MAX3_U32, 3, MAX(MAX(a, b), c))
VOP_B32(V_MIN3_I32, 3, MIN(MIN(S(a), S(b)), S(c)))
VOP_B32(V_MAX3_I32, 3, MAX(MAX(S(a), S(b)), S(c)))
VOP_B32(V_MED3_U32, 3, MAX(MIN(a, b), MIN(MAX(a, b), c)))
VOP_B32(V_MED3_I32, 3, MAX(MIN(S(a), S(b)), MIN(MAX(S(a), S(b)), S(c))))
VOP_B32(V_MAXMIN_U32, 3, MIN(MAX(a, b), c))
VOP_B32(V_MINMAX_U32, 3, MAX(MIN(a, b), c))
VOP_B32(V_MAXMIN_I32, 3, MIN(MAX(S(a), S(b)), S(c)))
VOP_B32(V_MINMAX_I32, 3, MAX(MIN(S(a), S(b)), S(c)))

/* ---- multiply --------------------------------------------------------------- */

static inline v32i i24(v32u a)
{
	return S(a << 8) >> 8;
}

static inline v32u u24(v32u a)
{
	return a & 0xffffffu;
}

VOP_B32(V_MUL_LO_U32, 2, a *b)
VOP_B32(V_MUL_HI_U32, 2, q_hi(to_q(a) * to_q(b)))
VOP_B32(V_MUL_HI_I32, 2, q_hi((v32q)(to_l(S(a)) * to_l(S(b)))))
VOP_B32(V_MUL_U32_U24, 2, u24(a) * u24(b))
VOP_B32(V_MUL_I32_I24, 2, i24(a) * i24(b))
VOP_B32(V_MUL_HI_U32_U24, 2, q_hi(to_q(u24(a)) * to_q(u24(b))))
VOP_B32(V_MUL_HI_I32_I24, 2, q_hi((v32q)(to_l(i24(a)) * to_l(i24(b)))))

static inline v32u sat_u32(v32q w)
{
	return q_lo(MIN(w, (v32q)0xffffffffull));
}

static inline v32u sat_l32(v32l w)
{
	return q_lo((v32q)MAX(MIN(w, (v32l)0x7fffffffll), (v32l)-0x80000000ll));
}

static inline v32u mad_u24(v32u a, v32u b, v32u c, bool clamp)
{
	return clamp ? sat_u32(to_q(u24(a)) * to_q(u24(b)) + to_q(c)) : u24(a) * u24(b) + c;
}

static inline v32u mad_i24(v32u a, v32u b, v32u c, bool clamp)
{
	return clamp ? sat_l32(to_l(i24(a)) * to_l(i24(b)) + to_l(S(c))) : U(i24(a) * i24(b)) + c;
}

VOP_B32(V_MAD_U32_U24, 3, mad_u24(a, b, c, in->clamp))
VOP_B32(V_MAD_I32_I24, 3, mad_i24(a, b, c, in->clamp))

VALU_SEM(V_MAD_U64_U32)
{
	struct valu v;

	valu_begin(&v, x, in, 0, 0, 0);
	const v32u a = *valu_src(&v, 0, K_B32);
	const v32u b = *valu_src(&v, 1, K_B32);
	const v32q c = valu_src64(&v, 2, false);
	v32q r = to_q(a) * to_q(b) + c;
	v32l co = r < c;

	if (in->sdst != OPR_NULL || in->clamp) {
		isa_set_smask(x, in->sdst, isa_gather(__builtin_convertvector(co, v32i)) & v.exec);
		if (in->clamp)
			r |= (v32q)co;
	}
	valu_out64(&v, false, r);
}

VALU_SEM(V_MAD_I64_I32)
{
	struct valu v;

	valu_begin(&v, x, in, 0, 0, 0);
	const v32u a = *valu_src(&v, 0, K_B32);
	const v32u b = *valu_src(&v, 1, K_B32);
	const v32q c = (v32q)valu_src64_signed(&v, 2);
	v32q p = (v32q)(to_l(S(a)) * to_l(S(b))), r = p + c;
	/* Bit 64 of the exact sum is its sign: r's, turned round where 64 bits overflowed. */
	v32q over = ~(p ^ c) & (p ^ r);
	v32l co = (v32l)(r ^ over) >> 63;

	isa_set_smask(x, in->sdst, isa_gather(__builtin_convertvector(co, v32i)) & v.exec);
	if (in->clamp)
		r = (v32l)over < 0 ? (v32q)((v32l)p >> 63) ^ 0x7fffffffffffffffull : r;
	valu_out64(&v, false, r);
}

/* ---- 64-bit shifts ---------------------------------------------------------- */

#define VOP_SHIFT64(NAME, SRC, EXPR)                                                               \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, 0, 0, 0);                                                    \
		const v32q n = to_q(*valu_src(&v, 0, K_B32) & 63u);                                \
		const v32q q = SRC;                                                                \
		valu_out64(&v, false, (v32q)(EXPR));                                               \
	}

VOP_SHIFT64(V_LSHLREV_B64, valu_src64(&v, 1, false), q << n)
VOP_SHIFT64(V_LSHRREV_B64, valu_src64(&v, 1, false), q >> n)
VOP_SHIFT64(V_ASHRREV_I64, (v32q)valu_src64_signed(&v, 1), (v32l)q >> (v32l)n)

/* ---- sums of absolute differences ------------------------------------------- */

static inline v32u absdiff(v32u a, v32u b)
{
	return MAX(a, b) - MIN(a, b);
}

#define BYTE(v, k) ((v) >> (8 * (k)) & 0xffu)

static inline v32u sad_u8(v32u a, v32u b)
{
	v32u r = splat(0);

	for (unsigned k = 0; k < 4; k++)
		r += absdiff(BYTE(a, k), BYTE(b, k));
	return r;
}

/* Masked: bytes of b that are zero do not count. */
static inline v32u msad_u8(v32u a, v32u b)
{
	v32u r = splat(0);

	for (unsigned k = 0; k < 4; k++)
		r += absdiff(BYTE(a, k), BYTE(b, k)) & U(BYTE(b, k) != 0u);
	return r;
}

static inline v32u sad_u16(v32u a, v32u b)
{
	return absdiff(a & 0xffffu, b & 0xffffu) + absdiff(a >> 16, b >> 16);
}

VOP_B32(V_SAD_U8, 3, add_u32(sad_u8(a, b), c, in->clamp))
VOP_B32(V_SAD_HI_U8, 3, add_u32(sad_u8(a, b) << 16, c, in->clamp))
VOP_B32(V_SAD_U16, 3, add_u32(sad_u16(a, b), c, in->clamp))
VOP_B32(V_SAD_U32, 3, add_u32(absdiff(a, b), c, in->clamp))
VOP_B32(V_MSAD_U8, 3, add_u32(msad_u8(a, b), c, in->clamp))

static inline v32u lerp_u8(v32u a, v32u b, v32u c)
{
	v32u r = splat(0);

	for (unsigned k = 0; k < 4; k++)
		r |= (BYTE(a, k) + BYTE(b, k) + (BYTE(c, k) & 1u)) >> 1 << (8 * k);
	return r;
}

VOP_B32(V_LERP_U8, 3, lerp_u8(a, b, c))

/* Four sums over a window that slides through the 64 bits of source 0. */
static inline v32u window(v32q q, unsigned k)
{
	return q_lo(q >> (8 * k));
}

#define VOP_QSAD16(NAME, SAD)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, 0, 0, 0);                                                    \
		const v32q a = valu_src64(&v, 0, false);                                           \
		const v32u b = *valu_src(&v, 1, K_B32);                                            \
		const v32q c = valu_src64(&v, 2, false);                                           \
		v32q r = (v32q)0ull;                                                               \
                                                                                                   \
		for (unsigned k = 0; k < 4; k++) {                                                 \
			v32u s = SAD(window(a, k), b) + (q_lo(c >> (16 * k)) & 0xffffu);           \
                                                                                                   \
			if (in->clamp)                                                             \
				s = MIN(s, splat(0xffff));                                         \
			r |= to_q(s & 0xffffu) << (16 * k);                                        \
		}                                                                                  \
		valu_out64(&v, false, r);                                                          \
	}

VOP_QSAD16(V_QSAD_PK_U16_U8, sad_u8)
VOP_QSAD16(V_MQSAD_PK_U16_U8, msad_u8)

VALU_SEM(V_MQSAD_U32_U8)
{
	struct valu v;
	v32u r[4];

	valu_begin(&v, x, in, 0, 0, 0);
	const v32q a = valu_src64(&v, 0, false);
	const v32u b = *valu_src(&v, 1, K_B32);

	/* Unrolled: compiled code keeps registers out of memory only if no address is computed. */
	_Pragma("clang loop unroll(full)") for (unsigned k = 0; k < 4; k++)
	{
		/* Source 2 is four registers, or a constant in the lowest dword. */
		v32u c = in->src[2] >= OPR_VGPR0 ? *isa_vgpr(x, in->src[2] + k)
			 : in->src[2] < OPR_NULL ? splat(x->w->s[in->src[2] + k])
			 : k                     ? splat(0)
						 : splat(isa_sread(x, in, in->src[2]));

		r[k] = add_u32(msad_u8(window(a, k), b), c, in->clamp);
	}
	_Pragma("clang loop unroll(full)") for (unsigned k = 0; k < 4; k++)
		isa_vwrite(x, in->dst + k, v.exec, r[k]);
}
