/* gfx1151 decoder: vector ALU encodings (VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P, VOPD, DPP). */
#include <errno.h>

#include "isa/decode.h"

enum { SRC_DPP8 = 233, SRC_DPP8_FI = 234, SRC_DPP16 = 250 };

static bool is_dpp(unsigned code)
{
	return code == SRC_DPP8 || code == SRC_DPP8_FI || code == SRC_DPP16;
}

/* The implicit sources: see operands.h. */
static void tie(struct isa_insn *in)
{
	switch (in->op) {
	case ISA_V_FMAC_F32:
	case ISA_V_FMAC_DX9_ZERO_F32:
	case ISA_V_DOT2ACC_F32_F16:
	case ISA_V_PK_FMAC_F16:
		in->src[2] = in->dst;
		break;
	case ISA_V_FMAC_F16:
		in->src[2] = in->dst;
		in->op_sel = (in->op_sel & ~4u) | (in->op_sel & 8 ? 4 : 0);
		break;
	}
}

/* One 9-bit source of class cls and w dwords. */
static int vsrc(struct isa_dec *d, unsigned code, unsigned w, unsigned cls, uint16_t *out)
{
	bool konst = (code >= 128 && code <= 208) || (code >= 240 && code <= 248);

	if (code >= OPR_VGPR0) {
		if (cls == ICL_S || cls == ICL_M || code + w > OPR_VGPR0 + 256)
			return -EILSEQ;
		*out = code;
		return 0;
	}
	switch (cls) {
	case ICL_V:
		return -EILSEQ;
	case ICL_C:
		if (!konst)
			return -EILSEQ;
		*out = code;
		return 0;
	case ICL_M:
		if (code > OPR_M0)
			return -EILSEQ;
		break;
	}
	return isa_dec_ssrc(d, code, w, out);
}

static bool dpp_ctrl_ok(unsigned c)
{
	if (c < 0x100 || (c >= 0x140 && c <= 0x143))
		return true; /* quad_perm, row_mirror, row_half_mirror, and what was row_bcast */
	if (c >= 0x150 && c <= 0x16f)
		return true;        /* row_share, row_xmask */
	return c < 0x130 && c & 15; /* row_shl, row_shr, row_ror by 1..15 */
}

/* The DPP dword. src0 replaces the source that named it. */
static int dpp(struct isa_dec *d, unsigned kind, bool e64, uint16_t *src0)
{
	struct isa_insn *in = d->in;
	uint32_t w;
	int err = isa_dec_word(d, &w);

	if (err)
		return err;
	*src0 = OPR_VGPR0 + (w & 255);
	if (kind != SRC_DPP16) {
		in->dpp_kind = DPP_DPP8;
		in->dpp_fi = kind == SRC_DPP8_FI;
		in->dpp8_sel = w >> 8;
		return 0;
	}
	in->dpp_kind = DPP_DPP16;
	in->dpp_ctrl = w >> 8 & 0x1ff;
	in->dpp_fi = w >> 18 & 1;
	in->dpp_bound_ctrl = w >> 19 & 1;
	in->dpp_bank_mask = w >> 24 & 15;
	in->dpp_row_mask = w >> 28;
	if (!dpp_ctrl_ok(in->dpp_ctrl))
		return -EILSEQ;
	if (!e64) {
		in->neg = (w >> 20 & 1) | (w >> 22 & 1) << 1;
		in->abs = (w >> 21 & 1) | (w >> 23 & 1) << 1;
	}
	return 0;
}

/* A 32-bit form's source modifiers live in the DPP dword; which exist is VOP3's business. */
static bool dpp32_mods_ok(const struct isa_insn *in, const struct isa_shape *sh)
{
	unsigned neg_fixed = sh->fixed >> 2 & 7, abs_fixed = sh->fixed >> 5 & 7;

	if (isa_flags[in->op] & OPF_SDST) /* VOP3SD has no absolute values */
		abs_fixed = 7;
	return !(in->neg & neg_fixed) && !(in->abs & abs_fixed);
}

/* 16-bit operands of 32-bit forms: bit 7 of the register number is the half. */
static void split_half(struct isa_insn *in, const struct isa_shape *sh)
{
	for (unsigned i = 0; i < 3; i++) {
		if (!(sh->half >> i & 1) || in->src[i] < OPR_VGPR0 || in->src[i] == OPR_NONE)
			continue;
		if (in->src[i] & 0x80)
			in->op_sel |= 1u << i;
		in->src[i] &= ~0x80;
	}
	if (sh->half & 8 && in->dst != OPR_NONE) {
		if (in->dst & 0x80)
			in->op_sel |= 8;
		in->dst &= ~0x80;
	}
}

static void carry_mask(struct isa_insn *in)
{
	switch (in->op) {
	case ISA_V_ADD_CO_CI_U32:
	case ISA_V_SUB_CO_CI_U32:
	case ISA_V_SUBREV_CO_CI_U32:
		in->sdst = OPR_VCC_LO;
		in->src[2] = OPR_VCC_LO;
		break;
	case ISA_V_CNDMASK_B32:
		in->src[2] = OPR_VCC_LO;
		break;
	}
}

int isa_dec_vop12c(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	unsigned src0 = w0 & 511, vdst = w0 >> 17 & 255, vsrc1 = w0 >> 9 & 255, sel = w0 >> 25;
	int err;

	in->fmt = sel == 0x3f ? ISA_VOP1 : sel == 0x3e ? ISA_VOPC : ISA_VOP2;
	in->op = isa_by_opcode[in->fmt][sel == 0x3f ? vsrc1 : sel == 0x3e ? vdst : sel];
	if (in->op == ISA_INVALID)
		return -EILSEQ;
	sh = &isa_shapes[in->op];
	if (in->op == ISA_V_ILLEGAL)
		return w0 ? -EILSEQ : 0;
	if (is_dpp(src0) && sh->src[0]) {
		if (!(sh->forms & F_DPP32))
			return -EILSEQ;
		err = dpp(d, src0, false, &in->src[0]);
		if (!err && !dpp32_mods_ok(in, sh))
			return -EILSEQ;
	} else if (sh->src[0]) {
		err = vsrc(d, src0, sh->src[0], sh->cls[0], &in->src[0]);
	} else { /* v_nop, v_pipeflush: nothing reads the source field */
		return vdst ? -EILSEQ : 0;
	}
	if (err)
		return err;
	if (in->fmt != ISA_VOP1 && isa_dec_vgpr(vsrc1, sh->src[1], &in->src[1]))
		return -EILSEQ;
	if (in->fmt == ISA_VOPC) {
		if (!(isa_flags[in->op] & OPF_CMPX))
			in->sdst = OPR_VCC_LO;
		split_half(in, sh);
		return 0;
	}
	if (in->op == ISA_V_READFIRSTLANE_B32) {
		in->dst = vdst;
		return vdst > 127 ? -EILSEQ : 0;
	}
	if (sh->dst && isa_dec_vgpr(vdst, sh->dst, &in->dst))
		return -EILSEQ;
	switch (in->op) {
	case ISA_V_FMAAK_F32:
	case ISA_V_FMAAK_F16:
		in->src[2] = OPR_LITERAL;
		err = isa_dec_literal(d);
		break;
	case ISA_V_FMAMK_F32:
	case ISA_V_FMAMK_F16:
		in->src[2] = in->src[1];
		in->src[1] = OPR_LITERAL;
		err = isa_dec_literal(d);
		break;
	}
	split_half(in, sh);
	tie(in);
	carry_mask(in);
	return err;
}

/* VOP3's opcode space holds the VOP1, VOP2 and VOPC rows that have such a form. */
static unsigned vop3_op(unsigned opcode)
{
	unsigned op;

	if (opcode < 0x100)
		op = isa_by_opcode[ISA_VOPC][opcode];
	else if (opcode < 0x140)
		op = isa_by_opcode[ISA_VOP2][opcode - 0x100];
	else if (opcode >= 0x180 && opcode < 0x200)
		op = isa_by_opcode[ISA_VOP1][opcode - 0x180];
	else
		return isa_by_opcode[ISA_VOP3][opcode] ? isa_by_opcode[ISA_VOP3][opcode]
						       : isa_by_opcode[ISA_VOP3SD][opcode];
	return op && isa_shapes[op].forms & F_E64 ? op : ISA_INVALID;
}

static int e64_sources(struct isa_dec *d, const struct isa_shape *sh, uint32_t w1, bool tied)
{
	struct isa_insn *in = d->in;
	unsigned src0 = w1 & 511;
	int err = 0;

	for (unsigned i = 0; !err && i < 3; i++) {
		unsigned code = w1 >> (9 * i) & 511;

		if (!sh->src[i] || (i == 2 && tied))
			continue; /* fields the opcode does not use are not looked at */
		if (i || !is_dpp(src0)) {
			err = vsrc(d, code, sh->src[i], sh->cls[i], &in->src[i]);
		}
	}
	if (err || !is_dpp(src0))
		return err;
	if (!(sh->forms & F_DPP64) || d->has_literal)
		return -EILSEQ;
	return dpp(d, src0, true, &in->src[0]);
}

int isa_dec_vop3(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	unsigned vdst = w0 & 255, flags, home;
	bool sd, tied;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	in->op = vop3_op(w0 >> 16 & 0x3ff);
	if (in->op == ISA_INVALID)
		return -EILSEQ;
	sh = &isa_shapes[in->op];
	flags = isa_flags[in->op];
	home = isa_home[in->op];
	sd = flags & OPF_SDST;
	in->fmt = sd ? ISA_VOP3SD : ISA_VOP3;
	w1 &= ~((uint32_t)(sh->fixed & 31) << 27);
	if (sd) {
		in->clamp = w0 >> 15 & 1;
		if (isa_dec_sdst(w0 >> 8 & 127, 1, &in->sdst))
			return -EILSEQ;
	} else {
		w0 &= ~((uint32_t)(sh->fixed >> 5) << 8);
		in->clamp = w0 >> 15 & 1;
		in->op_sel = w0 >> 11 & 15;
		in->abs = w0 >> 8 & 7;
	}
	in->neg = w1 >> 29;
	in->omod = w1 >> 27 & 3;
	tied = in->op == ISA_V_FMAC_F32 || in->op == ISA_V_FMAC_F16 ||
	       in->op == ISA_V_FMAC_DX9_ZERO_F32;
	err = e64_sources(d, sh, w1, tied);
	if (err)
		return err;
	if (home == ISA_VOPC) {
		if (flags & OPF_CMPX)
			return 0;
		in->sdst = vdst;
		return vdst > 127 ? -EILSEQ : 0;
	}
	if (in->op == ISA_V_READLANE_B32) {
		in->dst = vdst;
		return vdst > 127 ? -EILSEQ : 0;
	}
	if (!sh->dst)
		return 0;
	if (isa_dec_vgpr(vdst, sh->dst, &in->dst))
		return -EILSEQ;
	tie(in);
	return 0;
}

int isa_dec_vop3p(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	in->op = w0 & 1u << 23 ? ISA_INVALID : isa_by_opcode[ISA_VOP3P][w0 >> 16 & 127];
	if (in->op == ISA_INVALID)
		return -EILSEQ;
	in->fmt = ISA_VOP3P;
	sh = &isa_shapes[in->op];
	w1 &= ~((uint32_t)(sh->fixed & 31) << 27);
	w0 &= ~((uint32_t)(sh->fixed >> 5) << 8);
	in->clamp = w0 >> 15 & 1;
	in->op_sel = w0 >> 11 & 7;
	in->op_sel_hi = (w1 >> 27 & 3) | (w0 >> 14 & 1) << 2;
	in->neg_hi = w0 >> 8 & 7;
	in->neg = w1 >> 29;
	err = e64_sources(d, sh, w1, false);
	if (err)
		return err;
	/* The mixes keep the older rule: no scalar source 1 beside DPP. */
	if (in->dpp_kind && in->op != ISA_V_DOT2_F32_F16 && in->src[1] < OPR_VGPR0)
		return -EILSEQ;
	return isa_dec_vgpr(w0 & 255, sh->dst, &in->dst) ? -EILSEQ : 0;
}

/* One half of a VOPD: at most three sources, the second a VGPR. */
static int vopd_half(struct isa_dec *d, unsigned op, unsigned src0, unsigned vsrc1, unsigned dst,
		     uint16_t *src)
{
	int err = vsrc(d, src0, 1, ICL_A, &src[0]);

	if (err)
		return err;
	if (op == ISA_V_MOV_B32)
		return 0; /* vsrc1 is not looked at */
	src[1] = OPR_VGPR0 + vsrc1;
	switch (op) {
	case ISA_V_FMAC_F32:
	case ISA_V_DOT2ACC_F32_F16:
		src[2] = dst;
		break;
	case ISA_V_CNDMASK_B32:
		src[2] = OPR_VCC_LO;
		break;
	case ISA_V_FMAAK_F32:
		src[2] = OPR_LITERAL;
		return isa_dec_literal(d);
	case ISA_V_FMAMK_F32:
		src[2] = src[1];
		src[1] = OPR_LITERAL;
		return isa_dec_literal(d);
	}
	return 0;
}

int isa_dec_vopd(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	unsigned x = w0 >> 22 & 15, y = w0 >> 17 & 31;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	if (x > 12 || y > 18 || !isa_vopd[y])
		return -EILSEQ;
	in->fmt = ISA_VOPD;
	in->op = isa_vopd[x];
	in->y_op = isa_vopd[y];
	in->dst = OPR_VGPR0 + (w1 >> 24);
	/* Two results leave through different banks: Y's low bit is the other one. */
	in->y_dst = OPR_VGPR0 + ((w1 >> 16 & 0xfe) | !(in->dst & 1));
	err = vopd_half(d, in->op, w0 & 511, w0 >> 9 & 255, in->dst, in->src);
	if (!err)
		err = vopd_half(d, in->y_op, w1 & 511, w1 >> 9 & 255, in->y_dst, in->y_src);
	return err;
}
