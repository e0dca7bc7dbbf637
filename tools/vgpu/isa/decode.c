/* gfx1151 decoder: scalar and memory encodings, and the way in. Field layouts are those of the
 * public RDNA3 ISA manual, chapter "Microcode formats"; what is accepted follows LLVM 19
 * (tests/vgpu_decode.c compares the two and lists where and why they differ). */
#include <errno.h>
#include <string.h>

#include "isa/decode.h"

static unsigned bits(uint32_t w, unsigned hi, unsigned lo)
{
	return w >> lo & ((2u << (hi - lo)) - 1);
}

static int32_t sext(uint32_t v, unsigned n)
{
	return (int32_t)(v << (32 - n)) >> (32 - n);
}

int isa_dec_word(struct isa_dec *d, uint32_t *w)
{
	if (d->used >= d->n)
		return -ENODATA;
	*w = d->words[d->used++];
	return 0;
}

int isa_dec_literal(struct isa_dec *d)
{
	if (d->has_literal)
		return 0;
	d->has_literal = true;
	return isa_dec_word(d, &d->in->literal);
}

/* Register tuples are aligned (pairs to 2, longer ones to 4); the low bits of a misaligned number
 * are ignored. */
static int tuple(unsigned code, unsigned w, uint16_t *out)
{
	unsigned align = w == 1 ? 1 : w == 2 ? 2 : 4;

	if (code == OPR_NULL) {
		*out = code;
		return 0;
	}
	if (code < OPR_VCC_LO) {
		code &= ~(align - 1);
		if (code + w > OPR_VCC_LO)
			return -EILSEQ;
	} else if (code >= OPR_TTMP0 && code < OPR_NULL) {
		code = OPR_TTMP0 + ((code - OPR_TTMP0) & ~(align - 1));
		if (code + w > OPR_NULL)
			return -EILSEQ;
	} else if (w > 2 || (w == 2 && code != OPR_VCC_LO && code != OPR_EXEC_LO)) {
		return -EILSEQ;
	}
	*out = code;
	return 0;
}

int isa_dec_sdst(unsigned code, unsigned w, uint16_t *out)
{
	return tuple(code, w ? w : 1, out);
}

int isa_dec_ssrc(struct isa_dec *d, unsigned code, unsigned w, uint16_t *out)
{
	if (code < 128)
		return tuple(code, w, out);
	if (code == OPR_LITERAL) {
		*out = code;
		return isa_dec_literal(d);
	}
	if ((code > 208 && code < 235) || code == 249 || code == 250 || code == 254)
		return -EILSEQ;
	*out = code;
	return 0;
}

int isa_dec_vgpr(unsigned reg, unsigned w, uint16_t *out)
{
	if (w && reg + w > 256)
		return -EILSEQ;
	*out = OPR_VGPR0 + reg;
	return 0;
}

static int set_op(struct isa_dec *d, enum isa_fmt fmt, unsigned opcode, const struct isa_shape **sh)
{
	unsigned op = isa_by_opcode[fmt][opcode];

	if (op == ISA_INVALID)
		return -EILSEQ;
	d->in->op = op;
	d->in->fmt = fmt;
	*sh = &isa_shapes[op];
	return 0;
}

static bool is_inline(unsigned code)
{
	return (code >= 128 && code <= 208) || (code >= 240 && code <= 248) || code == OPR_LITERAL;
}

/* SOP1, SOP2, SOPC: up to two sources and a destination; v is where they are. */
static int dec_sop(struct isa_dec *d, const struct isa_shape *sh, uint32_t w0, bool has_dst)
{
	struct isa_insn *in = d->in;
	int err = 0;

	if (has_dst && sh->dst)
		err = isa_dec_sdst(bits(w0, 22, 16), sh->dst, &in->dst);
	for (unsigned i = 0; !err && i < 2; i++) {
		unsigned code = w0 >> (8 * i) & 255;

		if (!sh->src[i] || (i && in->fmt == ISA_SOP1))
			continue;
		if (sh->cls[i] == ICL_R && is_inline(code))
			return -EILSEQ;
		err = isa_dec_ssrc(d, code, sh->src[i], &in->src[i]);
	}
	if (err)
		return err;
	switch (in->op) {
	case ISA_S_SENDMSG_RTN_B32:
	case ISA_S_SENDMSG_RTN_B64:
		in->imm = w0 & 255;
		break;
	case ISA_S_FMAC_F32:
	case ISA_S_FMAC_F16:
		in->src[2] = in->dst;
		break;
	case ISA_S_FMAAK_F32:
		in->src[2] = OPR_LITERAL;
		return isa_dec_literal(d);
	case ISA_S_FMAMK_F32:
		in->src[2] = in->src[1];
		in->src[1] = OPR_LITERAL;
		return isa_dec_literal(d);
	}
	return 0;
}

static int dec_sopk(struct isa_dec *d, const struct isa_shape *sh, uint32_t w0)
{
	struct isa_insn *in = d->in;
	unsigned reg = bits(w0, 22, 16);

	in->imm = (int16_t)w0;
	if (in->op == ISA_S_SETREG_IMM32_B32) {
		in->src[0] = OPR_LITERAL;
		return isa_dec_literal(d);
	}
	if (sh->src[0]) /* s_cmpk, s_setreg, s_waitcnt_*: the register is read */
		return isa_dec_sdst(reg, sh->src[0], &in->src[0]);
	if (sh->dst) {
		in->src[0] = reg; /* s_addk, s_mulk, s_cmovk: read, too */
		return isa_dec_sdst(reg, sh->dst, &in->dst);
	}
	return 0;
}

static uint8_t cache_bits(uint32_t w, unsigned glc, unsigned slc, unsigned dlc)
{
	return (w >> glc & 1 ? VM_GLC : 0) | (slc < 32 && w >> slc & 1 ? VM_SLC : 0) |
	       (w >> dlc & 1 ? VM_DLC : 0);
}

static int dec_smem(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	err = set_op(d, ISA_SMEM, bits(w0, 25, 18), &sh);
	if (err)
		return err;
	if (!sh->dst && (w0 & 0x6000))
		return -EILSEQ;
	in->cache = cache_bits(w0, 14, 32, 13);
	in->imm = sext(w1 & 0x1fffff, 21);
	if (!sh->src[0])
		return 0;
	err = tuple(bits(w0, 5, 0) * 2, sh->src[0], &in->src[0]);
	if (err)
		return err;
	in->saddr = w1 >> 25;
	if (!sh->dst) { /* s_atc_probe: the field is a plain number */
		in->literal = bits(w0, 12, 6);
		return 0;
	}
	if (bits(w0, 12, 6) > OPR_NULL)
		return -EILSEQ;
	return isa_dec_sdst(bits(w0, 12, 6), sh->dst, &in->dst);
}

static int dec_ds(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	err = set_op(d, ISA_DS, bits(w0, 25, 18), &sh);
	if (err)
		return err;
	in->gds = w0 >> 17 & 1;
	in->imm = w0 & 0xffff;
	if ((sh->forms & F_GDS && !in->gds) || (sh->forms & F_NOGDS && in->gds) ||
	    (sh->forms & F_BARE && in->imm))
		return -EILSEQ;
	for (unsigned i = 0; i < 3; i++) {
		unsigned reg = w1 >> (8 * i) & 255;

		/* fields the opcode does not use are not looked at */
		if (sh->src[i] && isa_dec_vgpr(reg, sh->src[i], &in->src[i]))
			return -EILSEQ;
	}
	in->vaddr = in->src[0];
	in->vdata = in->src[1];
	return sh->dst ? isa_dec_vgpr(w1 >> 24, sh->dst, &in->dst) : 0;
}

static int dec_flat(struct isa_dec *d, uint32_t w0)
{
	static const uint8_t fmts[4] = {ISA_FLAT, ISA_SCRATCH, ISA_GLOBAL, ISA_FMT_COUNT};
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	unsigned fmt = fmts[bits(w0, 17, 16)], aw, saddr;
	uint32_t w1;
	bool atomic;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	if (fmt == ISA_FMT_COUNT)
		return -EILSEQ;
	err = set_op(d, fmt, bits(w0, 24, 18), &sh);
	if (err)
		return err;
	in->imm = sext(w0 & 0x1fff, 13);
	in->cache = cache_bits(w0, 14, 15, 13);
	in->sve = w1 >> 23 & 1;
	saddr = bits(w1, 22, 16);
	if (fmt != ISA_SCRATCH && in->sve)
		return -EILSEQ;
	if (fmt == ISA_FLAT) {
		/* A flat offset has 12 bits; the sign bit is not part of it. */
		in->imm = w0 & 0xfff;
		if (saddr != OPR_NULL)
			return -EILSEQ;
		aw = 2;
	} else if (fmt == ISA_GLOBAL) {
		if (saddr != OPR_NULL && tuple(saddr, 2, &in->saddr))
			return -EILSEQ;
		aw = saddr == OPR_NULL ? 2 : 1;
	} else {
		if (saddr == OPR_EXEC_HI)
			return -EILSEQ;
		if (saddr != OPR_NULL)
			in->saddr = saddr;
		aw = in->sve;
	}
	if (!sh->src[0]) /* addtid: the lane makes the address */
		aw = 0;
	if (aw && isa_dec_vgpr(w1 & 255, aw, &in->vaddr))
		return -EILSEQ;
	if (sh->src[1] && isa_dec_vgpr(w1 >> 8 & 255, sh->src[1], &in->vdata))
		return -EILSEQ;
	atomic = sh->dst && sh->src[1];
	if (sh->dst && (!atomic || in->cache & VM_GLC))
		return isa_dec_vgpr(w1 >> 24, sh->dst, &in->dst);
	return 0;
}

static int dec_buf(struct isa_dec *d, uint32_t w0, enum isa_fmt fmt)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	unsigned opcode = fmt == ISA_MUBUF ? bits(w0, 25, 18) : bits(w0, 18, 15), w, soff;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	err = set_op(d, fmt, opcode, &sh);
	if (err)
		return err;
	in->imm = w0 & 0xfff;
	in->cache = cache_bits(w0, 14, 12, 13);
	in->format = fmt == ISA_MTBUF ? bits(w0, 25, 19) : 0;
	in->tfe = w1 >> 21 & 1;
	in->offen = w1 >> 22 & 1;
	in->idxen = w1 >> 23 & 1;
	if (sh->forms & F_BARE)
		return w0 & 0x6000 || in->tfe || in->offen || in->idxen ? -EILSEQ : 0;
	if (in->tfe && !(sh->forms & F_TFE))
		return -EILSEQ;
	if (tuple(bits(w1, 20, 16) * 4, 4, &in->src[0]))
		return -EILSEQ;
	soff = w1 >> 24;
	if (soff == OPR_LITERAL)
		return -EILSEQ;
	err = isa_dec_ssrc(d, soff, 1, &in->saddr);
	if (err)
		return err;
	w = in->offen + in->idxen;
	if (w && isa_dec_vgpr(w1 & 255, w, &in->vaddr))
		return -EILSEQ;
	w = sh->src[1] ? sh->src[1] : sh->dst;
	if (!w) /* to LDS */
		return 0;
	if (isa_dec_vgpr(w1 >> 8 & 255, w + in->tfe, &in->vdata))
		return -EILSEQ;
	if (sh->dst && (!sh->src[1] || in->cache & VM_GLC))
		in->dst = in->vdata;
	return 0;
}

/* Encodings that only stop the wave: the name and the length matter. */
static int dec_named(struct isa_dec *d, uint32_t w0, enum isa_fmt fmt, unsigned opcode,
		     unsigned dwords)
{
	const struct isa_shape *sh;
	uint32_t w1;
	int err;

	(void)w0;
	err = set_op(d, fmt, opcode, &sh);
	if (err)
		return err;
	for (unsigned i = 1; i < dwords; i++) {
		err = isa_dec_word(d, &w1);
		if (err)
			return err;
	}
	return 0;
}

static int dec_vinterp(struct isa_dec *d, uint32_t w0)
{
	struct isa_insn *in = d->in;
	const struct isa_shape *sh;
	uint32_t w1;
	int err = isa_dec_word(d, &w1);

	if (err)
		return err;
	err = set_op(d, ISA_VINTERP, bits(w0, 22, 16), &sh);
	if (err)
		return err;
	in->clamp = w0 >> 15 & 1;
	in->op_sel = w0 >> 11 & 15 & ~(sh->fixed >> 8);
	in->imm = w0 >> 8 & 7; /* wait_exp */
	in->neg = w1 >> 29;
	in->dst = OPR_VGPR0 + (w0 & 255);
	for (unsigned i = 0; i < 3; i++) {
		unsigned code = w1 >> (9 * i) & 511;

		if (code >= OPR_VGPR0)
			in->src[i] = code;
		else if (code == OPR_LITERAL || isa_dec_ssrc(d, code, 1, &in->src[i]))
			return -EILSEQ;
	}
	return 0;
}

static int dec_scalar(struct isa_dec *d, uint32_t w0)
{
	const struct isa_shape *sh;
	int err;

	if (w0 >> 23 == 0x17d) {
		err = set_op(d, ISA_SOP1, bits(w0, 15, 8), &sh);
		return err ? err : dec_sop(d, sh, w0, true);
	}
	if (w0 >> 23 == 0x17e) {
		err = set_op(d, ISA_SOPC, bits(w0, 22, 16), &sh);
		return err ? err : dec_sop(d, sh, w0, false);
	}
	if (w0 >> 23 == 0x17f) {
		err = set_op(d, ISA_SOPP, bits(w0, 22, 16), &sh);
		d->in->imm = (int16_t)w0;
		if (!err && sh->forms & F_BARE && w0 & 0xffff)
			return -EILSEQ;
		return err;
	}
	if (w0 >> 28 == 0xb) {
		err = set_op(d, ISA_SOPK, bits(w0, 27, 23), &sh);
		return err ? err : dec_sopk(d, sh, w0);
	}
	err = set_op(d, ISA_SOP2, bits(w0, 29, 23), &sh);
	return err ? err : dec_sop(d, sh, w0, true);
}

static int dispatch(struct isa_dec *d, uint32_t w0)
{
	if (!(w0 >> 31))
		return isa_dec_vop12c(d, w0);
	if (w0 >> 30 == 2)
		return dec_scalar(d, w0);
	switch (w0 >> 26) {
	case 0x32:
		return isa_dec_vopd(d, w0);
	case 0x33:
		if (w0 >> 24 == 0xcc)
			return isa_dec_vop3p(d, w0);
		if (w0 >> 24 == 0xcd)
			return dec_vinterp(d, w0);
		if (w0 >> 24 == 0xce)
			return dec_named(d, w0, ISA_LDSDIR, bits(w0, 23, 20), 1);
		return -EILSEQ;
	case 0x35:
		return isa_dec_vop3(d, w0);
	case 0x36:
		return dec_ds(d, w0);
	case 0x37:
		return dec_flat(d, w0);
	case 0x38:
		return dec_buf(d, w0, ISA_MUBUF);
	case 0x3a:
		return dec_buf(d, w0, ISA_MTBUF);
	case 0x3c: /* bit 0: one more dword of address registers */
		return dec_named(d, w0, ISA_MIMG, bits(w0, 25, 18), 2 + (w0 & 1));
	case 0x3d:
		return dec_smem(d, w0);
	case 0x3e:
		return dec_named(d, w0, ISA_EXP, 0, 2);
	}
	return -EILSEQ;
}

int isa_decode(const uint32_t *words, unsigned n, struct isa_insn *out)
{
	struct isa_insn in;
	struct isa_dec d = {.words = words, .n = n, .in = &in};
	uint32_t w0;
	int err;

	memset(&in, 0, sizeof(in));
	in.dst = in.sdst = in.saddr = in.vaddr = in.vdata = in.y_dst = OPR_NONE;
	for (unsigned i = 0; i < 4; i++)
		in.src[i] = OPR_NONE;
	for (unsigned i = 0; i < 3; i++)
		in.y_src[i] = OPR_NONE;
	err = isa_dec_word(&d, &w0);
	if (!err)
		err = dispatch(&d, w0);
	if (err)
		return err;
	in.len = 4 * d.used;
	in.sem = isa_flags[in.op] & OPF_STOP ? NULL : isa_sems[in.op];
	if (in.y_op)
		in.y_sem = isa_sems[in.y_op];
	*out = in;
	return in.len;
}
