/* The decoder against LLVM 19's disassembler for gfx1151: accept or reject, length, mnemonic,
 * operands and modifiers, over every opcode of every encoding with seeded random fields.
 *
 * VGPU_DECODE_N=n sets how many words are tried per opcode (default 60), VGPU_DECODE_SEED which. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/decode.h"
#include "tests/decode_ours.h"

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
	K_BCAST,   /* row_bcast */
	K_MANUAL,  /* in the manual, not in LLVM 19 */
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
	[K_BCAST] = "DPP's row_bcast is in no table since gfx10, and LLVM refuses it; a field's "
		    "undefined value is no illegal instruction",
	[K_MANUAL] =
		"the RDNA3.5 manual gives moves float modifiers, v_mul_lo_u16 saturation, and has "
		"v_swap_b16; LLVM 19 does not (but for the last compared without)",
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
	case ISA_VOPD:
		if (in->op == ISA_V_MOV_B32)
			w[0] &= ~(255u << 9);
		if (in->y_op == ISA_V_MOV_B32)
			w[1] &= ~(255u << 9);
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

/* Clears what the manual has and LLVM 19 has not. Whether that was anything. */
static bool manual_only(const struct isa_insn *in, uint32_t w[4])
{
	uint32_t old[2] = {w[0], w[1]};

	switch (in->op) {
	case ISA_V_MOV_B32:
	case ISA_V_MOVRELD_B32:
	case ISA_V_MOVRELS_B32:
	case ISA_V_MOVRELSD_B32:
	case ISA_V_MOVRELSD_2_B32:
		if (in->fmt == ISA_VOP3) {
			w[0] &= ~0x100u;
			w[1] &= ~0x20000000u;
		} else if (in->dpp_kind == DPP_DPP16) {
			w[1] &= ~0x300000u;
		}
		break;
	case ISA_V_MUL_LO_U16:
		w[0] &= ~0x8000u;
		break;
	}
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
		if (in->op == ISA_V_SWAP_B16)
			return K_MANUAL;
		if (in->dpp_kind == DPP_DPP16 && (in->dpp_ctrl & ~1u) == 0x142)
			return K_BCAST;
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
	if (mine > 0 && !len && manual_only(&in, w)) {
		was = in;
		was.neg = was.abs = 0;
		was.clamp = false;
		mine = isa_decode(w, 4, &in);
		cr_assert(mine > 0 && !memcmp(&was, &in, sizeof(in)),
			  "%08x %08x: modifiers change more than themselves", words[0], words[1]);
		len = llvm(ctx_default, w, raw, sizeof(raw));
		known_count[K_MANUAL]++;
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
	const char *env = getenv("VGPU_DECODE_N"), *seed = getenv("VGPU_DECODE_SEED");
	unsigned n = env ? (unsigned)atoi(env) : 60;

	if (!llvm_open()) {
		fprintf(stderr, "SKIP: vgpu_decode: libLLVM 19 is not installed\n");
		cr_skip_test("no LLVM");
	}
	rng = seed ? strtoull(seed, NULL, 0) | 1 : 0x9e3779b97f4a7c15ull;
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
