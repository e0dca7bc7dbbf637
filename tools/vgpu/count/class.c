/* What an opcode is, for counting. By name and home encoding: the names are the ISA's. */
#include <string.h>

#include "count/internal.h"
#include "isa/isa.h"
#include "isa/shape.h"

const char *const count_class_name[CC_COUNT] = {
#define CLASS(name, json, text) [CC_##name] = json,
#include "count/classes.def"
#undef CLASS
};

static bool has(const char *name, const char *part)
{
	return strstr(name, part) != NULL;
}

static bool starts(const char *name, const char *part)
{
	return !strncmp(name, part, strlen(part));
}

static bool any(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (starts(name, *list))
			return true;
	return false;
}

static enum count_class class_sopp(const char *n)
{
	static const char *const branch[] = {"s_branch", "s_cbranch", "s_endpgm", "s_code_end",
					     NULL};
	static const char *const hint[] = {"s_nop",       "s_set_inst", "s_clause",  "s_delay_alu",
					   "s_singleuse", "s_setprio",  "s_incperf", "s_decperf",
					   "s_ttrace",    "s_wakeup",   NULL};
	static const char *const alu[] = {"s_round_mode", "s_denorm_mode", NULL};

	if (any(n, branch))
		return CC_BRANCH;
	if (starts(n, "s_wait"))
		return CC_WAITCNT;
	if (starts(n, "s_barrier"))
		return CC_BARRIER;
	if (starts(n, "s_icache_inv"))
		return CC_CACHE;
	if (any(n, hint))
		return CC_HINT;
	if (any(n, alu))
		return CC_SALU;
	return CC_CONTROL;
}

static enum count_class class_scalar(unsigned fmt, const char *n)
{
	static const char *const pc[] = {"s_getpc", "s_setpc",     "s_swappc", "s_rfe",
					 "s_call",  "s_subvector", NULL};

	if (fmt == ISA_SOPP)
		return class_sopp(n);
	if (fmt == ISA_SMEM)
		return has(n, "_inv") ? CC_CACHE : CC_SMEM;
	if (any(n, pc))
		return CC_BRANCH;
	if (starts(n, "s_waitcnt"))
		return CC_WAITCNT;
	if (starts(n, "s_sendmsg"))
		return CC_CONTROL;
	return CC_SALU;
}

static enum count_class class_lds(const char *n)
{
	if (has(n, "permute") || has(n, "swizzle"))
		return CC_LDS_LANE;
	if (starts(n, "ds_nop"))
		return CC_HINT;
	if (starts(n, "ds_load"))
		return CC_LDS_LOAD;
	if (starts(n, "ds_store") && !starts(n, "ds_storexchg"))
		return CC_LDS_STORE;
	return CC_LDS_ATOMIC;
}

static enum count_class class_memory(unsigned fmt, const char *n)
{
	if (has(n, "_inv"))
		return CC_CACHE;
	if (has(n, "atomic"))
		return CC_VMEM_ATOMIC;
	if (fmt == ISA_SCRATCH)
		return has(n, "store") ? CC_SCRATCH_STORE : CC_SCRATCH_LOAD;
	return has(n, "store") ? CC_VMEM_STORE : CC_VMEM_LOAD;
}

static bool is_trans(const char *n)
{
	static const char *const list[] = {"v_exp_f",  "v_log_f", "v_rcp_",  "v_rsq_f",
					   "v_sqrt_f", "v_sin_f", "v_cos_f", NULL};

	return any(n, list);
}

static bool is_16(unsigned op, const char *n)
{
	return isa_flags[op] & OPF_F16 || starts(n, "v_pk_") || has(n, "_f16") || has(n, "_b16") ||
	       has(n, "_u16") || has(n, "_i16") || has(n, "_mix");
}

static bool is_64(unsigned op, const char *n)
{
	return isa_flags[op] & OPF_64 || has(n, "_f64");
}

enum count_class count_class_of(unsigned op)
{
	const char *n = isa_op_name(op);
	unsigned fmt = isa_home[op];

	switch (fmt) {
	case ISA_SOP1:
	case ISA_SOP2:
	case ISA_SOPK:
	case ISA_SOPC:
	case ISA_SOPP:
	case ISA_SMEM:
		return class_scalar(fmt, n);
	case ISA_DS:
		return class_lds(n);
	case ISA_FLAT:
	case ISA_GLOBAL:
	case ISA_SCRATCH:
	case ISA_MUBUF:
	case ISA_MTBUF:
		return class_memory(fmt, n);
	default:
		break;
	}
	if (has(n, "wmma"))
		return CC_WMMA;
	if (has(n, "_dot"))
		return CC_DOT;
	if (is_trans(n))
		return CC_TRANS;
	if (is_64(op, n))
		return CC_VALU64;
	return is_16(op, n) ? CC_VALU16 : CC_VALU;
}

unsigned count_cycles_of(unsigned op)
{
	const char *n = isa_op_name(op);

	switch (count_class_of(op)) {
	case CC_WMMA:
		/* Per wave, not per 32 lanes: GPUOpen's article on RDNA 3 WMMA states 512
		 * operations per clock and CU for f16, bf16 and iu8, 1024 for iu4; 16*16*16*2 of
		 * them here, on one of a CU's two SIMDs. */
		return has(n, "iu4") ? 16 : 32;
	case CC_TRANS:
		return has(n, "f64") ? 32 : 4; /* a quarter of the lanes per clock */
	case CC_VALU64:
		return has(n, "f64") ? 16 : 4; /* f64: a sixteenth of f32 */
	case CC_VALU:
		return has(n, "v_mul_lo_u32") || has(n, "v_mul_hi_") ? 4 : 1;
	case CC_VALU16:
	case CC_DUAL:
	case CC_DOT:
		return 1;
	default:
		return 0;
	}
}
