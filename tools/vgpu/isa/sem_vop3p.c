/* Packed 16-bit operations, dot products, mixed-precision fma. */
#include "isa/valu.h"

#define MIN __builtin_elementwise_min
#define MAX __builtin_elementwise_max

#define MODS_PK_INT MOD_DPP
#define MODS_PK_FLT (MOD_NEG | MOD_NEG_HI | MOD_CLAMP | MOD_DPP)

/* ---- packed integers --------------------------------------------------------------- */

/* The half of a source that feeds the low (hi = 0) or high result, in bits 15:0 (rubbish above). */
static inline v32u pick(const struct isa_insn *in, v32u raw, unsigned i, unsigned hi)
{
	return ((hi ? in->op_sel_hi : in->op_sel) >> i & 1) ? raw >> 16 : raw;
}

#define VOP_PK_INT(NAME, N, ...)                                                                   \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
		v32u r[2];                                                                         \
                                                                                                   \
		valu_begin(&v, x, in, MODS_PK_INT, 0, 0);                                          \
		const v32u s0 = *valu_src(&v, 0, K_P16);                                           \
		const v32u s1 = *valu_src(&v, 1, K_P16);                                           \
		const v32u s2 = (N) > 2 ? *valu_src(&v, 2, K_P16) : s0;                            \
		for (unsigned h = 0; h < 2; h++) {                                                 \
			const v32u a = pick(in, s0, 0, h), b = pick(in, s1, 1, h);                 \
			const v32u c = (N) > 2 ? pick(in, s2, 2, h) : a;                           \
                                                                                                   \
			(void)c;                                                                   \
			r[h] = U(__VA_ARGS__);                                                     \
		}                                                                                  \
		valu_out(&v, K_P16, zext16(r[0]) | r[1] << 16);                                    \
	}

static inline v32u sat_i(v32i r, bool clamp)
{
	return U(clamp ? MAX(MIN(r, (v32i)0x7fff), (v32i)-0x8000) : r);
}

static inline v32u sat_u(v32u r, bool clamp)
{
	return clamp ? MIN(r, splat(0xffff)) : r;
}

static inline v32u floor0(v32u a, v32u b, bool clamp)
{
	return clamp ? (a - b) & U(a >= b) : a - b;
}

VOP_PK_INT(V_PK_ADD_I16, 2, sat_i(sext16(a) + sext16(b), in->clamp))
VOP_PK_INT(V_PK_SUB_I16, 2, sat_i(sext16(a) - sext16(b), in->clamp))
VOP_PK_INT(V_PK_ADD_U16, 2, sat_u(zext16(a) + zext16(b), in->clamp))
VOP_PK_INT(V_PK_SUB_U16, 2, floor0(zext16(a), zext16(b), in->clamp))
VOP_PK_INT(V_PK_MUL_LO_U16, 2, a *b)
VOP_PK_INT(V_PK_MAD_I16, 3, sat_i(sext16(a) * sext16(b) + sext16(c), in->clamp))
VOP_PK_INT(V_PK_MAD_U16, 3, sat_u(zext16(a) * zext16(b) + zext16(c), in->clamp))
VOP_PK_INT(V_PK_LSHLREV_B16, 2, b << (a & 15u))
VOP_PK_INT(V_PK_LSHRREV_B16, 2, zext16(b) >> (a & 15u))
VOP_PK_INT(V_PK_ASHRREV_I16, 2, sext16(b) >> S(a & 15u))
VOP_PK_INT(V_PK_MAX_I16, 2, MAX(sext16(a), sext16(b)))
VOP_PK_INT(V_PK_MIN_I16, 2, MIN(sext16(a), sext16(b)))
VOP_PK_INT(V_PK_MAX_U16, 2, MAX(zext16(a), zext16(b)))
VOP_PK_INT(V_PK_MIN_U16, 2, MIN(zext16(a), zext16(b)))

/* ---- packed f16 ----------------------------------------------------------------------- */

static inline v32u flush16(v32u h)
{
	return usel((h & 0x7c00u) == 0u, h & 0x8000u, h);
}

/* The dot products that have no op_sel of their own find an inline constant in both halves. */
static inline v32u both_halves(const struct isa_insn *in, unsigned i, v32u raw)
{
	bool constant = in->src[i] >= OPR_ZERO && in->src[i] < OPR_LITERAL;

	return constant ? (raw & 0xffffu) | raw << 16 : raw;
}

/* One half of a source with its sign and denormal control, as f16 bits in 15:0. */
static inline v32u pick_f16(const struct valu *v, v32u raw, unsigned i, unsigned sel, unsigned neg)
{
	v32u h = (sel >> i & 1) ? raw >> 16 : raw & 0xffffu;

	if (valu_unlikely(!v->plain)) {
		if (neg >> i & 1)
			h ^= 0x8000u;
		if (!(valu_denorm64(v->x) & 1))
			h = flush16(h);
	}
	return h;
}

/* f32 (exact or odd-rounded) -> f16 bits with clamp, MODE's rounding and flush. */
static inline v32u pk_half(const struct valu *v, v32f r)
{
	v32u h;

	if (valu_likely(v->plain))
		return f32_to_f16_rne(r);
	if (v->in->clamp)
		r = valu_clamp01(v, r);
	h = f32_to_f16_rnd(&r, valu_round64(v->x));
	return v->selects || valu_denorm64(v->x) & 2 ? h : flush16(h);
}

/* SEL(0/1), NEG(0/1): op_sel-like and neg-like bits of the low and high half. */
#define PK_F16(NAME, N, PICKS, CONV, SEL0, SEL1, NEG0, NEG1, ...)                                  \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
		v32u r[2];                                                                         \
                                                                                                   \
		valu_begin(&v, x, in, MODS_PK_FLT, MODE_F64, 0);                                   \
		v.selects = PICKS;                                                                 \
		const v32u s0 = *valu_src(&v, 0, K_PF16);                                          \
		const v32u s1 = *valu_src(&v, 1, K_PF16);                                          \
		const v32u s2 = (N) > 2 ? *valu_src(&v, 2, K_PF16) : s0;                           \
		for (unsigned h = 0; h < 2; h++) {                                                 \
			const unsigned sel = h ? SEL1 : SEL0, neg = h ? NEG1 : NEG0;               \
			const v32f a = CONV(pick_f16(&v, s0, 0, sel, neg));                        \
			const v32f b = CONV(pick_f16(&v, s1, 1, sel, neg));                        \
			const v32f c = (N) > 2 ? CONV(pick_f16(&v, s2, 2, sel, neg)) : a;          \
                                                                                                   \
			(void)c;                                                                   \
			r[h] = pk_half(&v, __VA_ARGS__);                                           \
		}                                                                                  \
		valu_out(&v, K_PF16, r[0] | r[1] << 16);                                           \
	}

#define VOP_PK_F16(NAME, N, PICKS, CONV, ...)                                                      \
	PK_F16(NAME, N, PICKS, CONV, in->op_sel, in->op_sel_hi, in->neg, in->neg_hi, __VA_ARGS__)

VOP_PK_F16(V_PK_ADD_F16, 2, false, f16_to_f32, v.plain ? a + b : f16_sum(a, b, valu_down16(&v)))
VOP_PK_F16(V_PK_MUL_F16, 2, false, f16_to_f32, a *b)
VOP_PK_F16(V_PK_FMA_F16, 3, false, f16_to_f32, f16_fma(a, b, c, valu_down16(&v)))
VOP_PK_F16(V_PK_MIN_F16, 2, true, f16_widen, f32_min(a, b, valu_ieee(x)))
VOP_PK_F16(V_PK_MAX_F16, 2, true, f16_widen, f32_max(a, b, valu_ieee(x)))
/* A VOP2: low halves make the low result, high halves the high one. Since gfx11 a float constant
 * stands in both (measured on gfx1100: LLVM's issue 94116). */
static inline unsigned fmac_high(const struct isa_insn *in)
{
	return in->src[0] >= 240 && in->src[0] <= 248 ? 6 : 7;
}

PK_F16(V_PK_FMAC_F16, 3, false, f16_to_f32, 0, fmac_high(in), in->neg, in->neg,
       f16_fma(a, b, c, valu_down16(&v)))

/* ---- mixed fma -------------------------------------------------------------------------- */

/* op_sel_hi[i] set: source i is f16, the half op_sel[i] says; else f32. neg_hi is abs here. */
static inline v32f mix_src(struct valu *v, unsigned i)
{
	const struct isa_insn *in = v->in;
	bool is16 = in->op_sel_hi >> i & 1;
	v32u r = *(is16 ? valu_src(v, i, K_PF16) : valu_src(v, i, K_P16));
	v32f f;

	if (is16) {
		r = in->op_sel >> i & 1 ? r >> 16 : r & 0xffffu;
		if (!(valu_denorm64(v->x) & 1))
			r = flush16(r);
		f = f16_to_f32(r);
	} else {
		if (!(valu_denorm32(v->x) & 1))
			r = usel((r & 0x7f800000u) == 0u, r & 0x80000000u, r);
		f = F(r);
	}
	if (in->neg_hi >> i & 1)
		f = F(U(f) & 0x7fffffffu);
	if (in->neg >> i & 1)
		f = -f;
	return f;
}

#define MIX_SRCS                                                                                   \
	struct valu v;                                                                             \
                                                                                                   \
	valu_begin(&v, x, in, MOD_CLAMP | MOD_DPP, MODE_F32 | MODE_F64, 32);                       \
	const v32f a = mix_src(&v, 0);                                                             \
	const v32f b = mix_src(&v, 1);                                                             \
	const v32f c = mix_src(&v, 2)

VALU_SEM(V_FMA_MIX_F32)
{
	MIX_SRCS;
	valu_out(&v, K_F32, U(valu_fma(a, b, c)));
}

/* The fma is rounded to f32 first, then to f16. */
static void mix_out16(struct valu *v, v32f r, unsigned hi)
{
	v32u *d = valu_dst(v), h;

	valu_reset_round(v);
	h = pk_half(v, r);
	valu_write(d, v->exec, hi ? (*d & 0xffffu) | h << 16 : (*d & 0xffff0000u) | h);
}

VALU_SEM(V_FMA_MIXLO_F16)
{
	MIX_SRCS;
	mix_out16(&v, valu_fma(a, b, c), 0);
}

VALU_SEM(V_FMA_MIXHI_F16)
{
	MIX_SRCS;
	mix_out16(&v, valu_fma(a, b, c), 1);
}

/* ---- integer dot products ---------------------------------------------------------------- */

/* Sum of the four byte products of a dword, each side signed or not. The bytes become 16-bit
 * pairs, even and odd, which the host multiplies and adds in one instruction. */
static inline v32u dot4(v32u a, v32u b, bool sa, bool sb)
{
	typedef int16_t v64s __attribute__((ext_vector_type(64)));
	union {
		v32u v;
		__m256i q[4];
	} ae, ao, be, bo, r;

	ae.v = sa ? (v32u)((v64s)(v32u)((v64s)a << 8) >> 8) : a & 0x00ff00ffu;
	be.v = sb ? (v32u)((v64s)(v32u)((v64s)b << 8) >> 8) : b & 0x00ff00ffu;
	ao.v = sa ? (v32u)((v64s)a >> 8) : a >> 8 & 0x00ff00ffu;
	bo.v = sb ? (v32u)((v64s)b >> 8) : b >> 8 & 0x00ff00ffu;
	for (unsigned k = 0; k < 4; k++)
		r.q[k] = _mm256_add_epi32(_mm256_madd_epi16(ae.q[k], be.q[k]),
					  _mm256_madd_epi16(ao.q[k], bo.q[k]));
	return r.v;
}

/* Nibbles, even or odd ones, as bytes. */
static inline v32u nibbles(v32u a, unsigned odd, bool sign)
{
	v32u n = a >> (4 * odd) & 0x0f0f0f0fu;
	v32u s = n & 0x08080808u;

	/* s * 2 - ... : a byte of 8..15 gets its upper nibble set. */
	return sign ? n | s * 30u : n;
}

static inline v32u dot8(v32u a, v32u b, bool sa, bool sb)
{
	return dot4(nibbles(a, 0, sa), nibbles(b, 0, sb), sa, sb) +
	       dot4(nibbles(a, 1, sa), nibbles(b, 1, sb), sa, sb);
}

static inline v32u add_sat_i(v32u p, v32u c, bool clamp)
{
	v32u r = p + c;

	return clamp ? usel(S(~(p ^ c) & (p ^ r)) < 0, U(S(c) >> 31) ^ 0x7fffffffu, r) : r;
}

static inline v32u add_sat_u(v32u p, v32u c, bool clamp)
{
	v32u r = p + c;

	return clamp ? r | U(r < c) : r;
}

/* neg[0], neg[1] say that a side is signed. */
VOP_B32(V_DOT4_I32_IU8, 3, add_sat_i(dot4(a, b, in->neg & 1, in->neg & 2), c, in->clamp))
VOP_B32(V_DOT8_I32_IU4, 3, add_sat_i(dot8(a, b, in->neg & 1, in->neg & 2), c, in->clamp))
VOP_B32(V_DOT4_U32_U8, 3, add_sat_u(dot4(a, b, false, false), c, in->clamp))
VOP_B32(V_DOT8_U32_U4, 3, add_sat_u(dot8(a, b, false, false), c, in->clamp))

/* ---- float dot products -------------------------------------------------------------------- */

static inline v32f bf16_to_f32(v32u h)
{
	return F(h << 16);
}

/* To nearest even; NaN stays NaN. */
static inline v32u f32_to_bf16(v32f f)
{
	v32u u = U(f), r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;

	return usel(f != f, u >> 16 | 0x40u, r);
}

static inline v32u pick_bf16(const struct valu *v, v32u raw, unsigned i, unsigned sel, unsigned neg)
{
	v32u h = (sel >> i & 1) ? raw >> 16 : raw & 0xffffu;

	(void)v;
	return neg >> i & 1 ? h ^ 0x8000u : h;
}

/* c + lo * lo + hi * hi, one after the other and each rounded to f32 (products are exact). The
 * manual leaves the order and the inner precision open: counted as approximated. */
#define DOT2_F32(NAME, KIND, PICK, CONV, HALVES, SEL0, SEL1, NEG1)                                 \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_PK_FLT, MODE_F32 | MODE_F64, 32);                       \
		const v32u s0 = HALVES(in, 0, *valu_src(&v, 0, KIND));                             \
		const v32u s1 = HALVES(in, 1, *valu_src(&v, 1, KIND));                             \
		const v32f c = F(*valu_src(&v, 2, K_F32));                                         \
		const unsigned sel0 = SEL0, sel1 = SEL1, neg0 = in->neg, neg1 = NEG1;              \
		v32f r = valu_fma(CONV(PICK(&v, s0, 0, sel0, neg0)),                               \
				  CONV(PICK(&v, s1, 1, sel0, neg0)), c);                           \
                                                                                                   \
		r = valu_fma(CONV(PICK(&v, s0, 0, sel1, neg1)), CONV(PICK(&v, s1, 1, sel1, neg1)), \
			     r);                                                                   \
		x->approximated++;                                                                 \
		valu_out(&v, K_F32, U(r));                                                         \
	}

#define AS_IT_IS(in, i, raw) (raw)

/* Inline constants (RDNA3.5 ISA, "Inline constants with packed math"): v_dot2_f32_f16 reads the f32
 * pattern and picks its halves; the others have the 16-bit value in both. */
DOT2_F32(V_DOT2_F32_F16, K_P16, pick_f16, f16_to_f32, AS_IT_IS, in->op_sel, in->op_sel_hi,
	 in->neg_hi)
DOT2_F32(V_DOT2_F32_BF16, K_PBF16, pick_bf16, bf16_to_f32, both_halves, in->op_sel, in->op_sel_hi,
	 in->neg_hi)
DOT2_F32(V_DOT2ACC_F32_F16, K_PF16, pick_f16, f16_to_f32, both_halves, 0, 7, in->neg)

/* VOP3 forms with a 16-bit addend and result, whose halves op_sel picks; neg and abs act on both
 * halves of sources 0 and 1. */
static inline v32u abs_pair(const struct isa_insn *in, v32u raw, unsigned i)
{
	return in->abs >> i & 1 ? raw & 0x7fff7fffu : raw;
}

/* Rounds to nearest and keeps denormals whatever MODE says (RDNA3.5 ISA, "Round and denormal modes").
 * No output modifier but clamp. */
VALU_SEM(V_DOT2_F16_F16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, 0, 0);
	const v32u s0 = abs_pair(in, both_halves(in, 0, *valu_src(&v, 0, K_PF16)), 0);
	const v32u s1 = abs_pair(in, both_halves(in, 1, *valu_src(&v, 1, K_PF16)), 1);
	v32f r = f16_to_f32(*valu_src(&v, 2, K_M16));

	for (unsigned h = 0; h < 2; h++)
		r = valu_fma(f16_to_f32(pick_bf16(&v, s0, 0, h ? 7 : 0, in->neg)),
			     f16_to_f32(pick_bf16(&v, s1, 1, h ? 7 : 0, in->neg)), r);
	x->approximated++;
	if (in->clamp)
		r = valu_clamp01(&v, r);
	valu_out(&v, K_B16, f32_to_f16_rne(r));
}

static inline v32u flush_bf16(v32u h)
{
	return usel((h & 0x7f80u) == 0u, h & 0x8000u, h);
}

/* Rounds to nearest and knows no denormals. */
VALU_SEM(V_DOT2_BF16_BF16)
{
	struct valu v;

	valu_begin(&v, x, in, MODS_FLT16, 0, 0);
	const v32u s0 = abs_pair(in, both_halves(in, 0, *valu_src(&v, 0, K_PBF16)), 0);
	const v32u s1 = abs_pair(in, both_halves(in, 1, *valu_src(&v, 1, K_PBF16)), 1);
	v32f r = bf16_to_f32(flush_bf16(*valu_src(&v, 2, K_BF16) & 0xffffu));

	for (unsigned h = 0; h < 2; h++)
		r = valu_fma(bf16_to_f32(flush_bf16(pick_bf16(&v, s0, 0, h ? 7 : 0, in->neg))),
			     bf16_to_f32(flush_bf16(pick_bf16(&v, s1, 1, h ? 7 : 0, in->neg))), r);
	x->approximated++;
	if (in->clamp)
		r = valu_clamp01(&v, r);
	valu_out(&v, K_B16, flush_bf16(f32_to_bf16(r)));
}
