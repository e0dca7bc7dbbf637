/* The decoder's tables, from ops.def and shapes.def. */
#include <pthread.h>
#include <string.h>

#include "isa/decode.h"
#include "isa/shape.h"

/* An opcode's meaning is found by name: a weak reference, NULL where nobody wrote it. */
#define OP(name, fmt, opcode, flags) extern isa_sem sem_##name __attribute__((weak));
#include "isa/ops.def"
#undef OP

isa_sem *const isa_sems[ISA_OP_COUNT] = {
#define OP(name, fmt, opcode, flags) [ISA_##name] = sem_##name,
#include "isa/ops.def"
#undef OP
};

const uint16_t isa_flags[ISA_OP_COUNT] = {
#define OP(name, fmt, opcode, flags) [ISA_##name] = flags,
#include "isa/ops.def"
#undef OP
};

const uint8_t isa_home[ISA_OP_COUNT] = {
#define OP(name, fmt, opcode, flags) [ISA_##name] = ISA_##fmt,
#include "isa/ops.def"
#undef OP
};

const uint16_t isa_by_opcode[ISA_FMT_COUNT][1024] = {
#define OP(name, fmt, opcode, flags) [ISA_##fmt][opcode] = ISA_##name,
#include "isa/ops.def"
#undef OP
};

enum {
	AAA = 0,
	VAA = ICL_V,
	SSA = ICL_S | ICL_S << 4,
	VSA = ICL_V | ICL_S << 4,
	VSS = ICL_V | ICL_S << 4 | ICL_S << 8,
	VVC = ICL_V | ICL_V << 4 | ICL_C << 8,
	VVV = ICL_V | ICL_V << 4 | ICL_V << 8,
	AAM = ICL_M << 8,
	AAV = ICL_V << 8,
	RAA = ICL_R,
};

const struct isa_shape isa_shapes[ISA_OP_COUNT] = {
#define SHAPE(name, d, s0, s1, s2, c, h, fix, f)                                                   \
	[ISA_##name] = {.dst = d,                                                                  \
			.src = {s0, s1, s2},                                                       \
			.cls = {(c) & 15, (c) >> 4 & 15, (c) >> 8},                                \
			.half = h,                                                                 \
			.fixed = fix,                                                              \
			.forms = f},
#include "isa/shapes.def"
#undef SHAPE
};

static const char *const op_names[ISA_OP_COUNT] = {
#define OP(name, fmt, opcode, flags) [ISA_##name] = #name,
#include "isa/ops.def"
#undef OP
};

/* VOPD: what each half's opcode stands for; X has the first 13. */
const uint16_t isa_vopd[19] = {
	ISA_V_FMAC_F32,
	ISA_V_FMAAK_F32,
	ISA_V_FMAMK_F32,
	ISA_V_MUL_F32,
	ISA_V_ADD_F32,
	ISA_V_SUB_F32,
	ISA_V_SUBREV_F32,
	ISA_V_MUL_DX9_ZERO_F32,
	ISA_V_MOV_B32,
	ISA_V_CNDMASK_B32,
	ISA_V_MAX_F32,
	ISA_V_MIN_F32,
	ISA_V_DOT2ACC_F32_F16,
	0,
	0,
	0,
	ISA_V_ADD_NC_U32,
	ISA_V_LSHLREV_B32,
	ISA_V_AND_B32,
};

static char lower[ISA_OP_COUNT][40];

static void lower_names(void)
{
	for (unsigned i = 1; i < ISA_OP_COUNT; i++) {
		const char *s = i == ISA_EXPORT ? "exp" : op_names[i];

		for (unsigned j = 0; s[j]; j++)
			lower[i][j] = s[j] >= 'A' && s[j] <= 'Z' ? s[j] + 32 : s[j];
	}
}

const char *isa_op_name(unsigned op)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (op == ISA_INVALID || op >= ISA_OP_COUNT)
		return "invalid";
	pthread_once(&once, lower_names);
	return lower[op];
}

int isa_mask_dst(const struct isa_insn *in)
{
	if (isa_home[in->op] == ISA_VOPC && in->sdst == OPR_NONE)
		return OPR_EXEC_LO; /* v_cmpx */
	return in->sdst < ISA_SGPRS ? (int)isa_mask_reg(in->sdst, true) : -1;
}
