/* How a sem function reads and writes its operands. Shared by every sem_*.c.
 *
 * Calling convention
 *  - isa_run() calls a scalar op once; a vector op once per 32-lane half that the wave has
 *    (x->half 0, then 1), an OPF_ONCE op once with x->half 0 and both halves its own business.
 *  - PC already points behind the instruction when the sem runs (SALU branches are relative to
 *    that); a sem that stops the wave calls isa_halt(), which puts PC back.
 *  - A vector op whose only effect is on VGPRs or memory is not called for a half with no active
 *    lane; one with a scalar destination (OPF_SDST, VOPC, OPF_ONCE) is.
 *  - in->src[i] and in->dst are operand codes. A 64-bit operand is named by its low register and
 *    takes the next one too. Sources are in the order of the manual: v_fmamk is src0, K, src1
 *    (src[1] == OPR_LITERAL); v_fmaak is src0, src1, K (src[2] == OPR_LITERAL). The implicit third
 *    source of v_fmac/v_dot2acc/v_pk_fmac is src[2] == dst. v_cndmask_b32 has its selector, and
 *    v_*_co_ci_u32 its carry-in, in src[2] (VCC in the E32 and DPP forms, VOP3's src2 otherwise),
 *    always a scalar code of a lane mask: read it with isa_smask(). v_div_fmas reads VCC without
 *    naming it.
 *  - VOPC: the destination mask is in->sdst (VCC in E32, any SGPR in E64); v_cmpx writes EXEC and
 *    has sdst == OPR_NONE; in->dst is OPR_NONE for all of them. Write masks with isa_set_smask().
 *  - VOP3SD and E32 v_*_co_ci_u32: carry-out in in->sdst.
 *  - v_readlane/v_readfirstlane: in->dst is a scalar code.
 *  - op_sel bits: set for 16-bit sources and destinations also in E32 forms, where they come from
 *    bit 7 of the VGPR number; the register codes here never carry that bit.
 *  - VOPD: the two halves run as two instructions on operands read before either writes; sem code
 *    for a half is called with an isa_insn of its own (isa_run splits it), so nothing to do.
 *  - DPP: in->dpp_kind != DPP_NONE; source 0 is a VGPR then. The vector sems permute it, or source 1
 *    of an integer reverse subtraction.
 */
#ifndef VGPU_OPERANDS_H
#define VGPU_OPERANDS_H

#include <string.h>

#include "isa/isa.h"

/* 32-lane vectors are passed and returned by inlined functions only, so their calling
 * convention (which differs with AVX-512) never matters. */
#pragma clang diagnostic ignored "-Wpsabi"

/* This file and the sem functions are built twice: for the interpreter, and as bitcode that the
 * JIT inlines (ISA_JIT), where the mask of a write is a constant or is blended without asking, and
 * where registers are values that nothing can point to. */
#ifdef ISA_JIT
#define ISA_COMPILED 1
#else
#define ISA_COMPILED 0
#endif

/* The wave's VGPR count and MODE. Compiled code is specialised on them (struct jit_shape) and has
 * them as constants beside the wave, where nothing can seem to change them. */
static inline unsigned isa_nvgpr(const struct isa_exec *x)
{
	return ISA_COMPILED ? x->nvgpr : x->w->nvgpr;
}

static inline uint32_t isa_mode(const struct isa_exec *x)
{
	return ISA_COMPILED ? x->mode : x->w->mode;
}

/* Stops the wave: PC goes back to the instruction. */
static inline void isa_halt(struct isa_exec *x, const struct isa_insn *in, enum isa_stop why)
{
	x->w->state = WAVE_HALTED;
	x->w->stop = why;
	x->w->pc -= in->len;
}

/* ---- scalars ------------------------------------------------------------- */

/* Inline float constants 240..248: 0.5 -0.5 1 -1 2 -2 4 -4 1/(2*pi). */
extern const uint32_t isa_inline_f32[9];
extern const uint16_t isa_inline_f16[9];
extern const uint64_t isa_inline_f64[9];

uint32_t isa_sread_slow(const struct isa_exec *x, unsigned code, uint32_t literal);
uint64_t isa_sread64_slow(const struct isa_exec *x, unsigned code, uint32_t literal);

/* 32-bit value of a scalar operand code (not a VGPR); inline floats as f32. */
static inline uint32_t isa_sread(const struct isa_exec *x, const struct isa_insn *in, unsigned code)
{
	if (code < 124 || code == OPR_M0)
		return x->w->s[code];
	if (code == OPR_LITERAL)
		return in->literal;
	if (code >= 128 && code <= 192)
		return code - 128;
	return isa_sread_slow(x, code, in->literal);
}

/* The same for a 16-bit operand: inline floats as f16 in the low half. */
static inline uint32_t isa_sread16(const struct isa_exec *x, const struct isa_insn *in,
				   unsigned code)
{
	if (code >= 240 && code <= 248)
		return isa_inline_f16[code - 240];
	return isa_sread(x, in, code);
}

/* 64-bit integer operand: SGPR pair, inline integer sign-extended, inline float as f64,
 * literal zero-extended. */
static inline uint64_t isa_sread64(const struct isa_exec *x, const struct isa_insn *in,
				   unsigned code)
{
	if (code < 123)
		return x->w->s[code] | (uint64_t)x->w->s[code + 1] << 32;
	return isa_sread64_slow(x, code, in->literal);
}

/* The same for f64: a literal is the high half. */
static inline uint64_t isa_sread_f64(const struct isa_exec *x, const struct isa_insn *in,
				     unsigned code)
{
	if (code == OPR_LITERAL)
		return (uint64_t)in->literal << 32;
	return isa_sread64(x, in, code);
}

/* Writes an SGPR, VCC, TTMP, M0 or EXEC half; NULL drops. TTMPs need privilege: dropped without. */
static inline void isa_swrite(struct isa_exec *x, unsigned code, uint32_t v)
{
	struct isa_wave *w = x->w;

	if (code <= OPR_VCC_HI || code == OPR_M0)
		w->s[code] = v;
	else if (code == OPR_EXEC_LO)
		w->exec = (w->exec & ~0xffffffffull) | v;
	else if (code == OPR_EXEC_HI)
		w->exec = (w->exec & 0xffffffffull) | (uint64_t)v << 32;
	else if (code >= OPR_TTMP0 && code < OPR_NULL && w->priv)
		w->s[code] = v;
}

static inline void isa_swrite64(struct isa_exec *x, unsigned code, uint64_t v)
{
	if (code == OPR_EXEC_LO) {
		x->w->exec = v;
		return;
	}
	isa_swrite(x, code, (uint32_t)v);
	if (code != OPR_NULL)
		isa_swrite(x, code + 1, (uint32_t)(v >> 32));
}

/* ---- lane masks ---------------------------------------------------------- */

/* EXEC of the half being worked on. */
static inline uint32_t isa_exec_mask(const struct isa_exec *x)
{
	return (uint32_t)(x->w->exec >> (32 * x->half));
}

/* This half's 32 bits of the lane mask in a scalar operand (carry-in, v_cndmask selector). */
static inline uint32_t isa_smask(const struct isa_exec *x, const struct isa_insn *in, unsigned code)
{
	code = isa_mask_reg(code, x->w->wave64);
	if (code < 123)
		return x->w->s[code + x->half];
	if (code == OPR_EXEC_LO)
		return isa_exec_mask(x);
	return x->half ? (uint32_t)(isa_sread64(x, in, code) >> 32) : isa_sread(x, in, code);
}

/* Writes this half's 32 bits of a lane mask (VOPC, carry-out). Inactive lanes: pass 0 bits. */
static inline void isa_set_smask(struct isa_exec *x, unsigned code, uint32_t m)
{
	code = isa_mask_reg(code, x->w->wave64);
	if (code != OPR_NULL && code != OPR_NONE)
		isa_swrite(x, code + x->half, m);
}

/* EXEC of this half (v_cmpx). */
static inline void isa_set_exec(struct isa_exec *x, uint32_t m)
{
	uint64_t keep = x->half ? 0xffffffffull : 0xffffffff00000000ull;

	x->w->exec = (x->w->exec & keep) | (uint64_t)m << (32 * x->half);
}

/* All ones in lanes whose bit is set. */
static inline v32i isa_spread(uint32_t m)
{
	const v32u bit = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,
			  1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13,
			  1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
			  1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27,
			  1u << 28, 1u << 29, 1u << 30, 1u << 31};

	return (((v32u){} + m) & bit) == bit;
}

/* Top bit of each lane (a comparison result) as a bit mask. */
static inline uint32_t isa_gather(v32i m)
{
	typedef float v8f __attribute__((vector_size(32)));
	union {
		v32i v;
		v8f f[4];
	} u = {.v = m};
	uint32_t r = 0;

	for (unsigned i = 0; i < 4; i++)
		r |= (uint32_t)__builtin_ia32_movmskps256(u.f[i]) << (8 * i);
	return r;
}

/* ---- VGPRs --------------------------------------------------------------- */

/* Register r (an operand code, OPR_VGPR0 + n) of the half being worked on. A register past the
 * allocation reads v0; isa_vwrite() does not write one (RDNA3.5 ISA, "Out-of-range GPRs"). */
static inline v32u *isa_vgpr(const struct isa_exec *x, unsigned code)
{
	unsigned r = code - OPR_VGPR0, n = isa_nvgpr(x);

	return &x->w->v[x->half * n + (r < n ? r : 0)];
}

/* Any 32-bit source, without modifiers and without DPP; inline floats as f32. */
static inline v32u isa_vread(const struct isa_exec *x, const struct isa_insn *in, unsigned code)
{
	if (code >= OPR_VGPR0 && code != OPR_NONE)
		return *isa_vgpr(x, code);
	return (v32u){} + isa_sread(x, in, code);
}

/* The same for a 16-bit or packed 16-bit source: inline floats as f16 in the low half. */
static inline v32u isa_vread16(const struct isa_exec *x, const struct isa_insn *in, unsigned code)
{
	if (code >= OPR_VGPR0 && code != OPR_NONE)
		return *isa_vgpr(x, code);
	return (v32u){} + isa_sread16(x, in, code);
}

/* 64-bit sources: low and high dwords. f64: literals are the high half. */
static inline void isa_vread64(const struct isa_exec *x, const struct isa_insn *in, unsigned code,
			       bool f64, v32u *lo, v32u *hi)
{
	if (code >= OPR_VGPR0 && code != OPR_NONE) {
		*lo = *isa_vgpr(x, code);
		*hi = *isa_vgpr(x, code + 1);
	} else {
		uint64_t s = f64 ? isa_sread_f64(x, in, code) : isa_sread64(x, in, code);

		*lo = (v32u){} + (uint32_t)s;
		*hi = (v32u){} + (uint32_t)(s >> 32);
	}
}

/* Writes lanes of mask m. */
static inline void isa_vwrite(struct isa_exec *x, unsigned code, uint32_t m, v32u v)
{
	v32u *d = isa_vgpr(x, code);

	if (code - OPR_VGPR0 >= isa_nvgpr(x))
		return;
	if (!ISA_COMPILED && m == 0xffffffffu) {
		*d = v;
	} else {
		v32u k = (v32u)isa_spread(m);

		*d = (v & k) | (*d & ~k);
	}
}

#endif
