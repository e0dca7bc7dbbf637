/* Our decode of an instruction in the normal form of decode_llvm.h. */
#ifndef TESTS_DECODE_OURS_H
#define TESTS_DECODE_OURS_H

#include <stdarg.h>

#include "isa/decode.h"
#include "tests/decode_llvm.h"

static void reg_name(unsigned code, unsigned w, char *s, size_t n)
{
	static const struct {
		unsigned code;
		const char *one, *two;
	} named[] = {
		{OPR_VCC_LO, "vcc_lo", "vcc"},
		{OPR_VCC_HI, "vcc_hi", "vcc_hi"},
		{OPR_NULL, "null", "null"},
		{OPR_M0, "m0", "m0"},
		{OPR_EXEC_LO, "exec_lo", "exec"},
		{OPR_EXEC_HI, "exec_hi", "exec_hi"},
		{235, "src_shared_base", "src_shared_base"},
		{236, "src_shared_limit", "src_shared_limit"},
		{237, "src_private_base", "src_private_base"},
		{238, "src_private_limit", "src_private_limit"},
		{239, "src_pops_exiting_wave_id", "src_pops_exiting_wave_id"},
		{251, "src_vccz", "src_vccz"},
		{252, "src_execz", "src_execz"},
		{253, "src_scc", "src_scc"},
	};
	const char *p = "s";

	for (unsigned i = 0; i < sizeof(named) / sizeof(*named); i++)
		if (named[i].code == code) {
			snprintf(s, n, "%s", w > 1 ? named[i].two : named[i].one);
			return;
		}
	if (code >= OPR_VGPR0) {
		p = "v";
		code -= OPR_VGPR0;
	} else if (code >= OPR_TTMP0 && code < OPR_NULL) {
		p = "ttmp";
		code -= OPR_TTMP0;
	}
	if (w <= 1)
		snprintf(s, n, "%s%u", p, code);
	else
		snprintf(s, n, "%s[%u:%u]", p, code, code + w - 1);
}

/* LLVM shows the low half of a 16-bit operand's literal, and which operands are so wide is not in
 * the shapes of VOP3: the comparison tries both. */
static bool literal16;

static const char *small(int32_t v)
{
	static char s[16];

	if (v >= -16 && v <= 64)
		snprintf(s, sizeof(s), "%d", v);
	else
		snprintf(s, sizeof(s), "K");
	return s;
}

static void put_arg(struct norm *o, const struct isa_insn *in, unsigned code, unsigned w, bool neg,
		    bool abs)
{
	char s[48];

	if (code == OPR_LITERAL) {
		snprintf(s, sizeof(s), "%s",
			 small(literal16 ? (int16_t)in->literal : (int32_t)in->literal));
	} else if (code >= 128 && code <= 192) {
		snprintf(s, sizeof(s), "%u", code - 128);
	} else if (code > 192 && code <= 208) {
		snprintf(s, sizeof(s), "-%u", code - 192);
	} else if (code >= 240 && code <= 248) {
		snprintf(s, sizeof(s), "K");
	} else {
		reg_name(code, w, s, sizeof(s));
	}
	if (in->op == ISA_V_MOV_B16 && code >= OPR_VGPR0) /* LLVM 19's one true16 opcode */
		strcat(s, in->op_sel & (code == in->dst && !o->args[0] ? 8 : 1) ? ".h" : ".l");
	add_arg(o, s, (neg ? 1 : 0) | (abs ? 2 : 0));
}

static void put_mod(struct norm *o, const char *fmt, ...)
{
	char s[80];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof(s), fmt, ap);
	va_end(ap);
	add(o->mods, sizeof(o->mods), s);
}

static void put_dpp(struct norm *o, const struct isa_insn *in)
{
	unsigned c = in->dpp_ctrl;

	if (in->dpp_kind == DPP_DPP8) {
		unsigned v = in->dpp8_sel;

		put_mod(o, "dpp8:[%u,%u,%u,%u,%u,%u,%u,%u]", v & 7, v >> 3 & 7, v >> 6 & 7,
			v >> 9 & 7, v >> 12 & 7, v >> 15 & 7, v >> 18 & 7, v >> 21 & 7);
	} else {
		if (c < 0x100)
			put_mod(o, "quad_perm:[%u,%u,%u,%u]", c & 3, c >> 2 & 3, c >> 4 & 3,
				c >> 6 & 3);
		else if (c > 0x100 && c <= 0x10f)
			put_mod(o, "row_shl:%u", c & 15);
		else if (c > 0x110 && c <= 0x11f)
			put_mod(o, "row_shr:%u", c & 15);
		else if (c > 0x120 && c <= 0x12f)
			put_mod(o, "row_ror:%u", c & 15);
		else if (c == 0x140)
			put_mod(o, "row_mirror");
		else if (c == 0x141)
			put_mod(o, "row_half_mirror");
		else if (c >= 0x150 && c <= 0x15f)
			put_mod(o, "row_share:%u", c & 15);
		else if (c >= 0x160 && c <= 0x16f)
			put_mod(o, "row_xmask:%u", c & 15);
		put_mod(o, "row_mask:0x%x", in->dpp_row_mask);
		put_mod(o, "bank_mask:0x%x", in->dpp_bank_mask);
		if (in->dpp_bound_ctrl)
			put_mod(o, "bound_ctrl:1");
	}
	if (in->dpp_fi)
		put_mod(o, "fi:1");
}

static void put_cache(struct norm *o, const struct isa_insn *in)
{
	if (in->cache & VM_GLC)
		put_mod(o, "glc");
	if (in->cache & VM_SLC)
		put_mod(o, "slc");
	if (in->cache & VM_DLC)
		put_mod(o, "dlc");
}

static bool tied(unsigned op)
{
	return op == ISA_V_FMAC_F32 || op == ISA_V_FMAC_F16 || op == ISA_V_FMAC_DX9_ZERO_F32 ||
	       op == ISA_V_DOT2ACC_F32_F16 || op == ISA_V_PK_FMAC_F16 || op == ISA_S_FMAC_F32 ||
	       op == ISA_S_FMAC_F16;
}

static void ours_vector(const struct isa_insn *in, struct norm *o)
{
	const struct isa_shape *sh = &isa_shapes[in->op];
	/* v_fma_mix's absolute values are where other VOP3P have neg_hi. */
	unsigned abs = in->fmt == ISA_VOP3P ? in->neg_hi : in->abs;

	if (in->dst != OPR_NONE)
		put_arg(o, in, in->dst, in->dst < OPR_VGPR0 ? 1 : sh->dst, false, false);
	if (in->sdst != OPR_NONE)
		put_arg(o, in, in->sdst, 1, false, false);
	for (unsigned i = 0; i < 3; i++) {
		if (in->src[i] == OPR_NONE || (i == 2 && tied(in->op)))
			continue;
		put_arg(o, in, in->src[i], sh->src[i], in->neg >> i & 1, abs >> i & 1);
	}
	if (in->clamp)
		put_mod(o, "clamp");
	if (in->omod)
		put_mod(o, "%s", in->omod == 1 ? "mul:2" : in->omod == 2 ? "mul:4" : "div:2");
	if (in->dpp_kind)
		put_dpp(o, in);
}

static void ours_vopd(const struct isa_insn *in, struct norm *o)
{
	snprintf(o->op, sizeof(o->op), "v_dual%s", isa_op_name(in->op) + 1);
	put_arg(o, in, in->dst, 1, false, false);
	for (unsigned i = 0; i < 3; i++)
		if (in->src[i] != OPR_NONE &&
		    !(i == 2 && (tied(in->op) || in->src[2] == OPR_VCC_LO)))
			put_arg(o, in, in->src[i], 1, false, false);
	add(o->args, sizeof(o->args), "::");
	add(o->args, sizeof(o->args), "v_dual");
	strcat(o->args, isa_op_name(in->y_op) + 1);
	put_arg(o, in, in->y_dst, 1, false, false);
	for (unsigned i = 0; i < 3; i++)
		if (in->y_src[i] != OPR_NONE &&
		    !(i == 2 && (tied(in->y_op) || in->y_src[2] == OPR_VCC_LO)))
			put_arg(o, in, in->y_src[i], 1, false, false);
}

static void ours_memory(const struct isa_insn *in, struct norm *o)
{
	const struct isa_shape *sh = &isa_shapes[in->op];
	const char *name = isa_op_name(in->op);

	switch (in->fmt) {
	case ISA_SMEM:
		if (sh->src[0]) {
			if (in->dst != OPR_NONE)
				put_arg(o, in, in->dst, sh->dst, false, false);
			else
				add(o->args, sizeof(o->args), small((int32_t)in->literal));
			put_arg(o, in, in->src[0], sh->src[0], false, false);
			if (in->saddr != OPR_NULL)
				put_arg(o, in, in->saddr, 1, false, false);
			else
				add(o->args, sizeof(o->args), small(in->imm));
			if (in->saddr != OPR_NULL && in->imm)
				put_mod(o, "offset:%d", in->imm);
			put_cache(o, in);
		}
		break;
	case ISA_DS:
		if (in->dst != OPR_NONE)
			put_arg(o, in, in->dst, sh->dst, false, false);
		for (unsigned i = 0; i < 3; i++)
			if (in->src[i] != OPR_NONE)
				put_arg(o, in, in->src[i], sh->src[i], false, false);
		if (strstr(name, "2addr")) {
			if (in->imm & 255)
				put_mod(o, "offset0:%u", in->imm & 255);
			if (in->imm >> 8)
				put_mod(o, "offset1:%u", in->imm >> 8);
		} else if (in->imm && in->op != ISA_DS_SWIZZLE_B32) {
			put_mod(o, "offset:%u", in->imm);
		}
		if (in->gds)
			put_mod(o, "gds");
		break;
	case ISA_FLAT:
	case ISA_GLOBAL:
	case ISA_SCRATCH:
		if (in->dst != OPR_NONE)
			put_arg(o, in, in->dst, sh->dst, false, false);
		if (in->vaddr != OPR_NONE)
			put_arg(o, in, in->vaddr,
				in->fmt == ISA_SCRATCH || in->saddr != OPR_NONE ? 1 : 2, false,
				false);
		else if (in->fmt == ISA_SCRATCH)
			add(o->args, sizeof(o->args), "off");
		if (sh->src[1])
			put_arg(o, in, in->vdata, sh->src[1], false, false);
		if (in->saddr != OPR_NONE)
			put_arg(o, in, in->saddr, in->fmt == ISA_SCRATCH ? 1 : 2, false, false);
		else if (in->fmt != ISA_FLAT)
			add(o->args, sizeof(o->args), "off");
		if (in->imm)
			put_mod(o, "offset:%d", in->imm);
		put_cache(o, in);
		break;
	default: /* MUBUF, MTBUF */
		if (sh->forms & F_BARE)
			break;
		if (in->vdata != OPR_NONE)
			put_arg(o, in, in->vdata, (sh->src[1] ? sh->src[1] : sh->dst) + in->tfe,
				false, false);
		if (in->vaddr != OPR_NONE)
			put_arg(o, in, in->vaddr, in->offen + in->idxen, false, false);
		else
			add(o->args, sizeof(o->args), "off");
		put_arg(o, in, in->src[0], 4, false, false);
		put_arg(o, in, in->saddr, 1, false, false);
		if (in->imm)
			put_mod(o, "offset:%d", in->imm);
		if (in->offen)
			put_mod(o, "offen");
		if (in->idxen)
			put_mod(o, "idxen");
		if (in->tfe)
			put_mod(o, "tfe");
		put_cache(o, in);
	}
}

/* Whether args and mods are comparable text for this instruction. */
static bool ours(const struct isa_insn *in, struct norm *o)
{
	const struct isa_shape *sh = &isa_shapes[in->op];

	memset(o, 0, sizeof(*o));
	snprintf(o->op, sizeof(o->op), "%s", isa_op_name(in->op));
	switch (in->fmt) {
	case ISA_SOP1:
	case ISA_SOP2:
	case ISA_SOPC:
		if (in->dst != OPR_NONE)
			put_arg(o, in, in->dst, sh->dst, false, false);
		for (unsigned i = 0; i < 3; i++)
			if (in->src[i] != OPR_NONE && !(i == 2 && tied(in->op)))
				put_arg(o, in, in->src[i], sh->src[i], false, false);
		return in->op != ISA_S_SENDMSG_RTN_B32 && in->op != ISA_S_SENDMSG_RTN_B64;
	case ISA_SOPK: /* the immediate has many spellings; compare() looks for the register */
		if (in->dst != OPR_NONE)
			put_arg(o, in, in->dst, sh->dst, false, false);
		else if (in->src[0] != OPR_NONE && in->src[0] != OPR_LITERAL)
			put_arg(o, in, in->src[0], sh->src[0], false, false);
		return false;
	case ISA_SOPP:
	case ISA_MIMG:
	case ISA_EXP:
	case ISA_LDSDIR:
	case ISA_VINTERP:
		return false;
	case ISA_VOPD:
		ours_vopd(in, o);
		break;
	case ISA_SMEM:
	case ISA_DS:
	case ISA_FLAT:
	case ISA_GLOBAL:
	case ISA_SCRATCH:
	case ISA_MUBUF:
	case ISA_MTBUF:
		ours_memory(in, o);
		break;
	default:
		ours_vector(in, o);
	}
	sort_mods(o->mods, sizeof(o->mods));
	return true;
}

/* Negation, absolute value, op_sel and its like: what LLVM prints must be the bits decoded here
 * (it prints none for opcodes that ignore them). */
static bool bits_agree(const struct isa_insn *in, const struct norm *a, const struct norm *b)
{
	unsigned nsrc = 0;

	while (nsrc < 3 && isa_shapes[in->op].src[nsrc])
		nsrc++;
	for (unsigned i = 0; i < b->npre; i++)
		if (b->pre[i] & ~a->pre[i])
			return false;
	for (unsigned k = 0; k < 4; k++) {
		unsigned have = k == 0   ? in->op_sel
				: k == 1 ? in->op_sel_hi
				: k == 2 ? in->neg
					 : in->neg_hi;
		unsigned n = strlen(b->sel[k]);

		for (unsigned i = 0; i < n; i++) {
			unsigned bit = i == nsrc && in->fmt != ISA_VOP3P ? 3 : i;

			/* packed sources have no half to select; LLVM drops the bit */
			if (i < 2 &&
			    (in->op == ISA_V_DOT2_BF16_BF16 || in->op == ISA_V_DOT2_F16_F16))
				continue;
			/* v_fmac reads its destination: the half is the destination's */
			if (i == 2 && in->op == ISA_V_FMAC_F16)
				continue;
			if ((have >> bit & 1) != (unsigned)(b->sel[k][i] - '0'))
				return false;
		}
	}
	return true;
}

#endif
