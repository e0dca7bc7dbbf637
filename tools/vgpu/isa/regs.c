/* Register footprints, from the operand shapes that the decoder has. */
#include "isa/regs.h"

#include <stdio.h>

#include "isa/shape.h"

struct list {
	struct isa_reg *r;
	unsigned n;
};

static void add(struct list *l, unsigned code, unsigned n, bool write)
{
	/* Constants, NULL and what is absent are no registers. */
	if (!n || code == OPR_NULL || (code >= OPR_ZERO && code < OPR_VGPR0) || code == OPR_NONE)
		return;
	l->r[l->n++] = (struct isa_reg){.code = (uint16_t)code, .n = (uint8_t)n, .write = write};
}

static bool is_wmma(unsigned op)
{
	return op >= ISA_V_WMMA_F32_16X16X16_F16 && op <= ISA_V_WMMA_I32_16X16X16_IU4;
}

/* Dwords of source i. */
static unsigned source_dwords(unsigned op, unsigned i, bool wave64)
{
	const struct isa_shape *sh = &isa_shapes[op];

	if (sh->cls[i] == ICL_M)
		return wave64 ? 2 : 1;
	if (is_wmma(op) && i == 2)
		return wave64 ? 4 : 8; /* a matrix over twice as many lanes */
	return sh->src[i] ? sh->src[i] : 1;
}

static unsigned result_dwords(unsigned op, bool wave64)
{
	if (is_wmma(op))
		return wave64 ? 4 : 8;
	return isa_shapes[op].dst ? isa_shapes[op].dst : 1;
}

static void alu_sources(struct list *l, unsigned op, const uint16_t *src, unsigned n, bool wave64)
{
	for (unsigned i = 0; i < n; i++)
		add(l, isa_shapes[op].cls[i] == ICL_M ? isa_mask_reg(src[i], wave64) : src[i],
		    source_dwords(op, i, wave64), false);
}

static void flat(struct list *l, const struct isa_insn *in)
{
	const struct isa_shape *sh = &isa_shapes[in->op];
	unsigned address = in->fmt == ISA_SCRATCH || in->saddr != OPR_NONE ? 1 : 2;

	add(l, in->vaddr, address, false);
	add(l, in->saddr, in->fmt == ISA_SCRATCH ? 1 : 2, false);
	add(l, in->vdata, sh->src[1], false);
	add(l, in->dst, sh->dst, true);
}

static void buffer(struct list *l, const struct isa_insn *in)
{
	const struct isa_shape *sh = &isa_shapes[in->op];

	add(l, in->src[0], 4, false);
	add(l, in->saddr, 1, false);
	add(l, in->vaddr, (unsigned)in->offen + in->idxen, false);
	add(l, in->vdata, sh->src[1], false);
	if (!sh->dst && !sh->src[1] && in->src[0] != OPR_NONE)
		add(l, OPR_M0, 1, false); /* to LDS */
	if (in->dst != OPR_NONE)
		add(l, in->dst, sh->dst + (unsigned)in->tfe, true);
}

static void implicit(struct list *l, const struct isa_insn *in, bool wave64)
{
	switch (in->op) {
	case ISA_V_DIV_FMAS_F32:
	case ISA_V_DIV_FMAS_F64:
		add(l, OPR_VCC_LO, wave64 ? 2 : 1, false);
		break;
	case ISA_S_CBRANCH_VCCZ:
	case ISA_S_CBRANCH_VCCNZ:
		add(l, OPR_VCC_LO, wave64 ? 2 : 1, false);
		break;
	case ISA_S_SENDMSG:
	case ISA_S_SENDMSGHALT:
	case ISA_S_MOVRELS_B32:
	case ISA_S_MOVRELS_B64:
	case ISA_S_MOVRELD_B32:
	case ISA_S_MOVRELD_B64:
	case ISA_S_MOVRELSD_2_B32:
	case ISA_V_MOVRELS_B32:
	case ISA_V_MOVRELD_B32:
	case ISA_V_MOVRELSD_B32:
	case ISA_V_MOVRELSD_2_B32:
	case ISA_V_SWAPREL_B32:
	case ISA_DS_APPEND:
	case ISA_DS_CONSUME:
	case ISA_DS_LOAD_ADDTID_B32:
	case ISA_DS_STORE_ADDTID_B32:
		add(l, OPR_M0, 1, false);
		break;
	}
}

unsigned isa_regs(const struct isa_insn *in, bool wave64, struct isa_reg out[ISA_REGS])
{
	const struct isa_shape *sh = &isa_shapes[in->op];
	struct list l = {.r = out};

	implicit(&l, in, wave64);
	switch (in->fmt) {
	case ISA_FLAT:
	case ISA_GLOBAL:
	case ISA_SCRATCH:
		flat(&l, in);
		return l.n;
	case ISA_MUBUF:
	case ISA_MTBUF:
		buffer(&l, in);
		return l.n;
	case ISA_SMEM:
		add(&l, in->src[0], sh->src[0], false);
		add(&l, in->saddr, 1, false);
		add(&l, in->dst, sh->dst, true);
		return l.n;
	case ISA_DS:
		for (unsigned i = 0; i < 3; i++)
			add(&l, in->src[i], sh->src[i], false);
		add(&l, in->dst, sh->dst, true);
		return l.n;
	case ISA_MIMG:
	case ISA_EXP:
	case ISA_LDSDIR:
	case ISA_VINTERP:
		return l.n; /* names only: they stop the wave */
	default:
		break;
	}
	alu_sources(&l, in->op, in->src, 3, wave64);
	if (in->fmt == ISA_VOPD)
		alu_sources(&l, in->y_op, in->y_src, 3, wave64);
	add(&l, in->dst, result_dwords(in->op, wave64), true);
	if (in->fmt == ISA_VOPD)
		add(&l, in->y_dst, 1, true);
	/* v_swap writes what it reads. */
	if (in->op == ISA_V_SWAP_B32 || in->op == ISA_V_SWAP_B16 || in->op == ISA_V_SWAPREL_B32) {
		add(&l, in->src[0], 1, true);
		add(&l, in->dst, 1, false);
	}
	add(&l, isa_mask_reg(in->sdst, wave64), wave64 ? 2 : 1, true);
	return l.n;
}

void isa_reg_name(unsigned code, unsigned n, char *buf, unsigned len)
{
	static const char *const special[] = {[OPR_VCC_LO] = "vcc_lo",
					      [OPR_VCC_HI] = "vcc_hi",
					      [OPR_M0] = "m0",
					      [OPR_EXEC_LO] = "exec_lo",
					      [OPR_EXEC_HI] = "exec_hi"};
	const char *kind = code >= OPR_VGPR0 ? "v" : code >= OPR_TTMP0 ? "ttmp" : "s";
	unsigned i = code >= OPR_VGPR0   ? code - OPR_VGPR0
		     : code >= OPR_TTMP0 ? code - OPR_TTMP0
					 : code;

	if (code < sizeof(special) / sizeof(*special) && special[code])
		snprintf(buf, len, "%s", special[code]);
	else if (n > 1)
		snprintf(buf, len, "%s[%u:%u]", kind, i, i + n - 1);
	else
		snprintf(buf, len, "%s%u", kind, i);
}
