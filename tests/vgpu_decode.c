/* The decoder against LLVM 19's disassembler for gfx1151: accept or reject, length, mnemonic,
 * operands and modifiers, over every opcode of every encoding with seeded random fields.
 *
 * VGPU_DECODE_N=n sets how many words are tried per opcode (default 60). */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/decode.h"

/* ---- LLVM ---------------------------------------------------------------- */

static void *ctx_default, *ctx_true16;
static size_t (*disasm)(void *, uint8_t *, uint64_t, uint64_t, char *, size_t);

static bool llvm_open(void)
{
	static const char *const names[] = {"libLLVM-19.so.1", "libLLVM.so.19.1",
					    "/usr/lib/llvm-19/lib/libLLVM.so.19.1"};
	static const char *const init[] = {"LLVMInitializeAMDGPUTargetInfo",
					   "LLVMInitializeAMDGPUTargetMC",
					   "LLVMInitializeAMDGPUDisassembler"};
	void *(*create)(const char *, const char *, const char *, void *, int, void *, void *);
	void *so = NULL;

	if (ctx_default)
		return true;
	for (unsigned i = 0; !so && i < 3; i++)
		so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return false;
	for (unsigned i = 0; i < 3; i++) {
		void (*f)(void) = (void (*)(void))dlsym(so, init[i]);

		if (!f)
			return false;
		f();
	}
	create = (__typeof__(create))dlsym(so, "LLVMCreateDisasmCPUFeatures");
	disasm = (__typeof__(disasm))dlsym(so, "LLVMDisasmInstruction");
	if (!create || !disasm)
		return false;
	ctx_default = create("amdgcn-amd-amdhsa", "gfx1151", "", NULL, 0, NULL, NULL);
	ctx_true16 = create("amdgcn-amd-amdhsa", "gfx1151", "+real-true16", NULL, 0, NULL, NULL);
	return ctx_default && ctx_true16;
}

/* Length in bytes, 0 if LLVM refuses or says an operand is invalid. */
static unsigned llvm(void *ctx, const uint32_t w[4], char *text, size_t n)
{
	char raw[600];
	unsigned len = disasm(ctx, (uint8_t *)w, 16, 0, raw, sizeof(raw));
	char *s = raw, *e;

	if (!len || strstr(raw, "/*Invalid") || strstr(raw, "is not supported") ||
	    strstr(raw, "/* Invalid")) {
		snprintf(text, n, "%s", len ? raw : "");
		return 0;
	}
	e = strstr(raw, " ; Warning"); /* misaligned SGPR tuples: rounded down, as here */
	if (e)
		*e = 0;
	e = strstr(raw, " ; 0");
	if (e)
		*e = 0;
	while (*s == '\t' || *s == ' ')
		s++;
	snprintf(text, n, "%s", s);
	return len;
}

/* ---- a normal form for LLVM's text --------------------------------------- */

struct norm {
	char op[64];     /* mnemonic without _e32, _e64, _dpp */
	char args[300];  /* operands: registers, small integers, K for other constants */
	uint8_t pre[12]; /* operand by operand: 1 negated, 2 absolute */
	unsigned npre;
	char mods[300]; /* sorted modifiers */
	char sel[4]
		[24]; /* op_sel, op_sel_hi, neg_lo, neg_hi: bits in order, empty if not printed */
};

static const char *const sel_names[4] = {"op_sel:[", "op_sel_hi:[", "neg_lo:[", "neg_hi:["};

static void add(char *to, size_t n, const char *s)
{
	size_t l = strlen(to);

	snprintf(to + l, n - l, "%s%s", l ? " " : "", s);
}

static void strip_suffix(char *s)
{
	static const char *const suffix[] = {"_dpp8", "_dpp", "_e32", "_e64"};

	for (unsigned again = 0; again < 2; again++)
		for (unsigned i = 0; i < 4; i++) {
			size_t l = strlen(s), m = strlen(suffix[i]);

			if (l > m && !strcmp(s + l - m, suffix[i]))
				s[l - m] = 0;
		}
}

static void add_arg(struct norm *o, const char *s, unsigned pre)
{
	add(o->args, sizeof(o->args), s);
	if (o->npre < 12)
		o->pre[o->npre++] = pre;
}

static bool is_mod(const char *t)
{
	static const char *const words[] = {"clamp", "glc", "slc", "dlc", "offen",
					    "idxen", "tfe", "gds", "lds", "sve"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(t, words[i]))
			return true;
	return strchr(t, ':') && !strchr("vst[-|", t[0]);
}

static bool is_mod_colon(const char *t)
{
	static const char *const heads[] = {
		"op_sel",   "neg_",      "mul:",       "div:",  "offset", "quad_perm",
		"row_",     "bank_mask", "bound_ctrl", "fi:",   "dpp8",   "format:",
		"row_mask", "wait_",     "dim:",       "dmask:"};

	for (unsigned i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		if (!strncmp(t, heads[i], strlen(heads[i])))
			return true;
	return false;
}

/* A constant operand as a small decimal integer or K. */
static void norm_const(const char *t, char *out, size_t n)
{
	char *end;
	long v = strtol(t, &end, 0);

	if (*end || v < -16 || v > 64)
		snprintf(out, n, "K");
	else
		snprintf(out, n, "%ld", v);
}

static bool is_reg(const char *t)
{
	if ((t[0] == 'v' || t[0] == 's') && (isdigit(t[1]) || t[1] == '['))
		return true;
	return !strncmp(t, "ttmp", 4) || !strncmp(t, "vcc", 3) || !strncmp(t, "exec", 4) ||
	       !strcmp(t, "m0") || !strcmp(t, "null") || !strncmp(t, "src_", 4) ||
	       !strcmp(t, "off");
}

static int cmp_str(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_mods(char *mods, size_t n)
{
	char buf[300], *tok[32], *p = buf, *save;
	unsigned k = 0;

	snprintf(buf, sizeof(buf), "%s", mods);
	for (p = strtok_r(buf, " ", &save); p && k < 32; p = strtok_r(NULL, " ", &save))
		tok[k++] = p;
	qsort(tok, k, sizeof(*tok), cmp_str);
	mods[0] = 0;
	for (unsigned i = 0; i < k; i++)
		add(mods, n, tok[i]);
}

static void norm_text(const char *text, struct norm *o)
{
	char buf[600], *p = buf, *save;
	bool first = true;

	memset(o, 0, sizeof(*o));
	snprintf(buf, sizeof(buf), "%s", text);
	/* split at blanks and commas outside brackets */
	for (int depth = 0; *p; p++) {
		depth += (*p == '[' || *p == '(') - (*p == ']' || *p == ')');
		if (*p == ',' && !depth)
			*p = ' ';
		if (*p == ' ' && depth)
			*p = '_';
	}
	for (p = strtok_r(buf, " \t", &save); p; p = strtok_r(NULL, " \t", &save)) {
		char t[64], *q = p;
		unsigned sel, pre = 0;
		size_t l;

		if (first) {
			snprintf(o->op, sizeof(o->op), "%s", p);
			strip_suffix(o->op);
			first = false;
			continue;
		}
		if (!strcmp(p, "::")) {
			add(o->args, sizeof(o->args), "::");
			continue;
		}
		if (!strncmp(p, "v_dual", 6)) {
			add(o->args, sizeof(o->args), p);
			continue;
		}
		for (sel = 0; sel < 4; sel++)
			if (!strncmp(p, sel_names[sel], strlen(sel_names[sel])))
				break;
		if (sel < 4) {
			for (q = p + strlen(sel_names[sel]); *q; q++)
				if (isdigit(*q))
					snprintf(o->sel[sel] + strlen(o->sel[sel]), 2, "%c", *q);
			continue;
		}
		if (!strncmp(p, "format:", 7)) /* a name; tests of MTBUF read the number */
			continue;
		if (is_mod_colon(p) || is_mod(p)) {
			if (!strncmp(p, "offset:", 7)) {
				snprintf(t, sizeof(t), "offset:%ld", strtol(p + 7, NULL, 0));
				p = t;
			}
			add(o->mods, sizeof(o->mods), p);
			continue;
		}
		if (!strncmp(q, "sext(", 5)) { /* the same bit on an integer operand */
			pre |= 1;
			q += 5;
		} else if (!strncmp(q, "neg(", 4)) {
			pre |= 1;
			q += 4;
		} else if (*q == '-' && (is_reg(q + 1) || q[1] == '|')) {
			pre |= 1;
			q++;
		}
		if (*q == '|') {
			pre |= 2;
			q++;
		}
		snprintf(t, sizeof(t), "%s", q);
		for (l = strlen(t); l && (t[l - 1] == '|' || t[l - 1] == ')'); l--)
			t[l - 1] = 0;
		if (!is_reg(t)) {
			char k[16];

			norm_const(t, k, sizeof(k));
			snprintf(t, sizeof(t), "%s", k);
		}
		add_arg(o, t, pre);
	}
	sort_mods(o->mods, sizeof(o->mods));
}

/* ---- our decode in the same form ----------------------------------------- */

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

/* ---- known differences ---------------------------------------------------- */

enum known {
	K_NONE,
	K_HALF,    /* upper halves of 16-bit operands */
	K_SPECIAL, /* special registers where only a VGPR or a lane mask can be */
	K_LDSDIR,  /* source 254 */
	K_SOFFLIT, /* literal as buffer soffset */
	K_DPPLIT,  /* literal behind a DPP dword */
	K_IMAGE,   /* image operands */
	K_WMMALIT, /* WMMA with a literal */
	K_INTERP,  /* interpolation's operands */
	K_UNUSED,  /* fields an opcode does not use */
	K_FLATOFF, /* bit 12 of a flat offset */
	K_COUNT
};

static const char *const known_why[K_COUNT] = {
	[K_HALF] =
		"LLVM 19 without real-true16 has no upper halves of 16-bit operands; the hardware "
		"and later LLVM have (compared on the lower halves)",
	[K_SPECIAL] = "LLVM's printer checks the operand class of SGPRs and constants, but not of "
		      "null, src_* and apertures; the hardware has no such operand there",
	[K_LDSDIR] = "source 254 (lds_direct) was removed in gfx11; LLVM still prints it",
	[K_SOFFLIT] = "a buffer soffset has no literal; LLVM reads one",
	[K_DPPLIT] = "there is no literal beside a DPP dword; LLVM reads a fourth dword",
	[K_IMAGE] = "image instructions only stop the wave: their operand fields are not checked",
	[K_WMMALIT] = "WMMA's C is a VGPR or an inline constant; LLVM's disassembler reads a "
		      "literal, its "
		      "assembler refuses one",
	[K_INTERP] = "interpolation sources have the nine bits of VOP3; LLVM knows VGPRs alone",
	[K_UNUSED] =
		"fields an opcode does not use are not looked at; LLVM wants zeros (compared with "
		"them zeroed)",
	[K_FLATOFF] = "a flat offset has 12 bits; LLVM prints the 13th, which the hardware ignores",
};

/* Zeroes the fields the opcode does not use. Whether that changed anything. */
static bool canonical(const struct isa_insn *in, uint32_t w[4])
{
	const struct isa_shape *sh = &isa_shapes[in->op];
	uint32_t old[2] = {w[0], w[1]};

	switch (in->fmt) {
	case ISA_DS:
		for (unsigned i = 0; i < 3; i++)
			if (!sh->src[i])
				w[1] &= ~(255u << (8 * i));
		if (!sh->dst)
			w[1] &= 0xffffff;
		break;
	case ISA_VOP3SD:
		w[1] &= ~((uint32_t)(sh->fixed & 31) << 27);
		break;
	case ISA_VOP3:
	case ISA_VOP3P:
	case ISA_VINTERP:
		w[1] &= ~((uint32_t)(sh->fixed & 31) << 27);
		w[0] &= ~((uint32_t)(sh->fixed >> 5) << 8);
		break;
	default:
		return false;
	}
	if (in->fmt == ISA_VOP3 || in->fmt == ISA_VOP3SD || in->fmt == ISA_VOP3P) {
		for (unsigned i = 0; i < 3; i++)
			if (!sh->src[i] || (i == 2 && tied(in->op)))
				w[1] &= ~(511u << (9 * i));
		if (!sh->dst && isa_home[in->op] != ISA_VOPC)
			w[0] &= ~255u;
	}
	return w[0] != old[0] || w[1] != old[1];
}

/* Clears the half bits of 16-bit operands in a 32-bit form. Whether there were any. */
static bool lower_halves(const struct isa_insn *in, uint32_t w[4])
{
	unsigned m = in->op_sel & isa_shapes[in->op].half;
	uint32_t old[2] = {w[0], w[1]};
	bool fmamk = in->op == ISA_V_FMAMK_F16;

	if (!m || (in->fmt != ISA_VOP1 && in->fmt != ISA_VOP2 && in->fmt != ISA_VOPC))
		return false;
	if (m & 1)
		w[in->dpp_kind ? 1 : 0] &= ~0x80u;
	if (m & (fmamk ? 4 : 2))
		w[0] &= ~(0x80u << 9);
	if (m & 8)
		w[0] &= ~(0x80u << 17);
	return w[0] != old[0] || w[1] != old[1];
}

/* Why ours and LLVM may differ on this word; K_NONE if they must agree. */
static enum known known(const uint32_t w[4], int mine, const struct isa_insn *in, unsigned len,
			const char *raw)
{
	char t[600];

	if (w[0] >> 26 == 0x3c)
		return K_IMAGE;
	if (w[0] >> 24 == 0xcd)
		return K_INTERP;
	if (mine > 0 && !len) {
		/* v_mov_b16's VOP3 form exists with true16 alone. */
		if (in->op == ISA_V_MOV_B16 && llvm(ctx_true16, w, t, sizeof(t)))
			return K_HALF;
		return K_NONE;
	}
	if (mine < 0 && len) {
		if (strstr(raw, "src_lds_direct"))
			return K_LDSDIR;
		if (strstr(raw, "dpp") && len > 12)
			return K_DPPLIT;
		if ((w[0] >> 26 == 0x38 || w[0] >> 26 == 0x3a) && w[1] >> 24 == 255)
			return K_SOFFLIT;
		if (strstr(raw, "v_wmma") && len == 12)
			return K_WMMALIT;
		if (strstr(raw, "src_") || strstr(raw, "null"))
			return K_SPECIAL;
	}
	return K_NONE;
}

/* ---- words to try --------------------------------------------------------- */

static uint64_t rng;

static uint32_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 16);
}

struct enc {
	const char *name;
	uint32_t base;
	unsigned shift, bits, dwords;
	uint32_t mask; /* of encoding and opcode */
};

static const struct enc encs[] = {
	{"SOP1", 0xbe800000, 8, 8, 1, 0xff80ff00},
	{"SOPC", 0xbf000000, 16, 7, 1, 0xffff0000},
	{"SOPP", 0xbf800000, 16, 7, 1, 0xffff0000},
	{"SOPK", 0xb0000000, 23, 5, 1, 0xff800000},
	{"SOP2", 0x80000000, 23, 7, 1, 0xff800000},
	{"SMEM", 0xf4000000, 18, 8, 2, 0xfffc0000},
	{"VOP1", 0x7e000000, 9, 8, 1, 0xfe01fe00},
	{"VOPC", 0x7c000000, 17, 8, 1, 0xfffe0000},
	{"VOP2", 0x00000000, 25, 6, 1, 0xfe000000},
	{"VOP3", 0xd4000000, 16, 10, 2, 0xffff0000},
	{"VOP3P", 0xcc000000, 16, 8, 2, 0xffff0000},
	{"VINTERP", 0xcd000000, 16, 8, 2, 0xffff0000},
	{"LDSDIR", 0xce000000, 20, 4, 1, 0xfff00000},
	{"VOPD", 0xc8000000, 17, 9, 2, 0xfffe0000},
	{"DS", 0xd8000000, 18, 8, 2, 0xfffc0000},
	{"FLAT", 0xdc000000, 16, 10, 2, 0xffff0000},
	{"MUBUF", 0xe0000000, 18, 8, 2, 0xfffc0000},
	{"MTBUF", 0xe8000000, 15, 4, 2, 0xfc078000},
	{"MIMG", 0xf0000000, 18, 8, 2, 0xfffc0000},
	{"EXP", 0xf8000000, 0, 0, 2, 0xfc000000},
	{"none34", 0xd0000000, 16, 10, 2, 0xffff0000},
	{"none39", 0xe4000000, 16, 10, 2, 0xffff0000},
	{"none3b", 0xec000000, 16, 10, 2, 0xffff0000},
	{"none3f", 0xfc000000, 16, 10, 2, 0xffff0000},
	{"none33", 0xcf000000, 16, 8, 2, 0xffff0000},
};

/* A 9-bit source that is often legal. */
static uint32_t src9(void)
{
	static const uint16_t odd[] = {124, 106, 126, 129, 193, 208, 240, 248, 255, 253, 250,
				       233, 234, 107, 125, 127, 235, 254, 209, 105, 108};
	unsigned k = rnd() & 15;

	if (k < 8)
		return 256 + (rnd() & 255);
	if (k < 11)
		return rnd() % 106;
	if (k < 14)
		return odd[rnd() % (sizeof(odd) / sizeof(*odd))];
	return rnd() & 511;
}

static void make_word(const struct enc *e, unsigned opcode, uint32_t w[4])
{
	unsigned k = rnd() & 15;

	for (unsigned i = 0; i < 4; i++)
		w[i] = rnd();
	if (e->dwords == 2 && e->base >> 26 >= 0x32 && e->base >> 26 <= 0x35 && e->bits != 9) {
		/* VOP3 kinds: fewer sources and modifiers than the fields allow are the rule */
		uint32_t n = k & 3;

		w[1] = src9() | (n > 0 ? src9() << 9 : 0) | (n > 1 ? src9() << 18 : 0);
		if (k & 4)
			w[1] |= (rnd() & rnd() & 31) << 27;
		w[0] &= k & 8 ? 0xff | (rnd() & rnd() & 0xff00) : 0xff;
	} else if (k < 4) {
		w[0] = 0;
		w[1] = 0;
	} else if (k < 8) {
		w[0] &= rnd() & rnd();
		w[1] &= rnd() & rnd();
	} else if (k < 10 && e->dwords == 2) {
		w[1] &= k == 8 ? 0x0000ffff : 0xff0000ff;
		w[0] &= 0xffff;
	} else if (k < 12 && e->dwords == 2) {
		w[1] = (w[1] & ~0x7f0000u) | 0x7c0000; /* saddr null */
		if (k == 11)
			w[1] = (w[1] & 0xffffff) | 0x7c000000; /* soffset null */
	} else if (e->dwords == 1 && k & 1) {
		w[0] = (w[0] & ~511u) | src9();
	}
	w[0] = (w[0] & ~e->mask) | e->base | (uint32_t)opcode << e->shift;
}

/* ---- the comparison ------------------------------------------------------- */

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
		if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return true;
	return false;
}

static unsigned compared, accepted, texts, differences, known_count[K_COUNT];

static void report(const char *what, const uint32_t w[4], const struct norm *a, const char *raw)
{
	static char last[64];
	char key[64];

	differences++;
	sscanf(a->op[0] ? a->op : raw, " %63s", key);
	if (differences > 200 || !strcmp(last, key))
		return; /* one line per opcode is enough to go by */
	strcpy(last, key);
	fprintf(stderr, "decode: %s: %08x %08x %08x: here \"%s %s %s\", LLVM \"%s\"\n", what, w[0],
		w[1], w[2], a->op, a->args, a->mods, raw);
}

static void compare(const uint32_t words[4])
{
	uint32_t w[4] = {words[0], words[1], words[2], words[3]};
	struct isa_insn in, was;
	struct norm a = {0}, b;
	char raw[600];
	int mine = isa_decode(w, 4, &in);
	unsigned len = llvm(ctx_default, w, raw, sizeof(raw));
	enum known k;
	bool text;

	compared++;
	if (mine > 0 && !len && canonical(&in, w)) {
		was = in;
		mine = isa_decode(w, 4, &in);
		cr_assert(mine > 0 && !memcmp(&was, &in, sizeof(in)),
			  "%08x %08x: unused fields change the decode", words[0], words[1]);
		len = llvm(ctx_default, w, raw, sizeof(raw));
		known_count[K_UNUSED]++;
	}
	if (mine > 0 && !len && lower_halves(&in, w)) {
		/* the same instruction on the lower halves must be LLVM's, too */
		was = in;
		mine = isa_decode(w, 4, &in);
		was.op_sel &= ~isa_shapes[in.op].half;
		cr_assert(mine > 0 && !memcmp(&was, &in, sizeof(in)),
			  "%08x %08x: half bits change more than op_sel", words[0], words[1]);
		len = llvm(ctx_default, w, raw, sizeof(raw));
		known_count[K_HALF]++;
	}
	if (mine > 0)
		snprintf(a.op, sizeof(a.op), "%s", isa_op_name(in.op));
	if ((mine > 0) != (len > 0)) {
		k = known(w, mine, &in, len, raw);
		known_count[k]++;
		if (k == K_NONE)
			report(mine > 0 ? "accepted here only" : "refused here only", w, &a, raw);
		return;
	}
	if (mine < 0)
		return;
	accepted++;
	text = ours(&in, &a);
	norm_text(raw, &b);
	if ((unsigned)mine != len) {
		report("length", w, &a, raw);
	} else if (strcmp(a.op, b.op)) {
		report("mnemonic", w, &a, raw);
	} else if (in.fmt == ISA_SOPK) {
		texts++;
		if (a.args[0] && !has_word(b.args, a.args))
			report("register", w, &a, raw);
	} else if (text) {
		texts++;
		if (strcmp(a.args, b.args)) {
			literal16 = true;
			ours(&in, &a);
			literal16 = false;
		}
		if (strcmp(a.args, b.args))
			report("operands", w, &a, raw);
		else if (in.fmt == ISA_FLAT && w[0] & 0x1000)
			known_count[K_FLATOFF]++;
		else if (in.op != ISA_DS_SWIZZLE_B32 && strcmp(a.mods, b.mods))
			report("modifiers", w, &a, raw);
		else if (!bits_agree(&in, &a, &b))
			report("modifier bits", w, &a, raw);
	}
}

Test(vgpu_decode, every_opcode_as_llvm)
{
	const char *env = getenv("VGPU_DECODE_N");
	unsigned n = env ? (unsigned)atoi(env) : 60;

	if (!llvm_open()) {
		fprintf(stderr, "SKIP: vgpu_decode: libLLVM 19 is not installed\n");
		cr_skip_test("no LLVM");
	}
	rng = 0x9e3779b97f4a7c15ull;
	for (unsigned i = 0; i < sizeof(encs) / sizeof(*encs); i++)
		for (unsigned op = 0; op < 1u << encs[i].bits; op++)
			for (unsigned j = 0; j < n; j++) {
				uint32_t w[4];

				make_word(&encs[i], op, w);
				compare(w);
			}
	for (unsigned j = 0; j < 1000 * n; j++) {
		uint32_t w[4] = {rnd(), rnd(), rnd(), rnd()};

		compare(w);
	}
	printf("decode: %u words, %u accepted by both, %u with operands compared\n", compared,
	       accepted, texts);
	for (unsigned k = 1; k < K_COUNT; k++)
		printf("decode: %u known differences: %s\n", known_count[k], known_why[k]);
	cr_assert(accepted > compared / 20, "only %u of %u words accepted: the generator is off",
		  accepted, compared);
	cr_assert(differences == 0, "%u differences from LLVM", differences);
}

Test(vgpu_decode, short_input)
{
	const uint32_t literal[2] = {0xbe8000ff, 0x12345678}, smem[2] = {0xf4000000, 0xf8000000};
	struct isa_insn in;

	cr_assert(isa_decode(literal, 0, &in) == -ENODATA);
	cr_assert(isa_decode(literal, 1, &in) == -ENODATA);
	cr_assert(isa_decode(literal, 2, &in) == 8);
	cr_assert(in.op == ISA_S_MOV_B32 && in.literal == 0x12345678);
	cr_assert(isa_decode(smem, 1, &in) == -ENODATA);
	cr_assert(isa_decode(smem, 2, &in) == 8);
}
