/* gfx1151 instructions and wave state, shared by decoder, interpreter and JIT.
 *
 * Rules:
 *  - One meaning per opcode: each opcode has one function of type isa_sem that applies its
 *    effect to a wave. It is named sem_<NAME> and found by name (a weak symbol): an opcode
 *    without one stops the wave with its disassembly and PC.
 *  - struct isa_wave is plain data without pointers: it can be copied, stored and restored
 *    between any two instructions.
 *  - E32, E64, DPP and VOP3SD forms of one mnemonic are one isa_op; struct isa_insn has the
 *    operands already normalised, so a sem function does not know the encoding.
 */
#ifndef VGPU_ISA_H
#define VGPU_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/vm.h"

/* ---- opcodes ------------------------------------------------------------- */

enum isa_fmt {
	ISA_SOP1,
	ISA_SOP2,
	ISA_SOPK,
	ISA_SOPC,
	ISA_SOPP,
	ISA_SMEM,
	ISA_VOP1,
	ISA_VOP2,
	ISA_VOPC,
	ISA_VOP3,
	ISA_VOP3SD,
	ISA_VOP3P,
	ISA_VOPD,
	ISA_VINTERP,
	ISA_DS,
	ISA_FLAT,
	ISA_GLOBAL,
	ISA_SCRATCH,
	ISA_MUBUF,
	ISA_MTBUF,
	ISA_MIMG,
	ISA_EXP,
	ISA_LDSDIR,
	ISA_FMT_COUNT
};

/* isa/ops.def holds OP(NAME, FMT, opcode, flags) rows, one per (mnemonic, home encoding);
 * NAME is the mnemonic in capitals without _e32/_e64. VOP1/VOP2/VOPC rows imply their VOP3
 * form (opcode + 0x180, + 0x100, + 0). Rows that exist only in VOP3 use FMT VOP3/VOP3SD. */
enum isa_op {
	ISA_INVALID,
#define OP(name, fmt, opcode, flags) ISA_##name,
#include "isa/ops.def"
#undef OP
	ISA_OP_COUNT
};

/* Flags in ops.def. */
enum {
	OPF_BRANCH = 1u << 0, /* may change PC other than to the next instruction */
	OPF_MEM = 1u << 1,    /* touches memory outside the wave and LDS */
	OPF_LDS = 1u << 2,
	OPF_STOP = 1u << 3,   /* decodes to a name only: image, export, interpolation, ... */
	OPF_GFX115 = 1u << 4, /* gfx1100 refuses it */
	OPF_64 = 1u << 5,     /* 64-bit operands (see the decoder for which) */
	OPF_CMPX = 1u << 6,   /* writes EXEC */
	OPF_SDST = 1u << 7,   /* VOP3SD: second, scalar destination */
	OPF_F16 = 1u << 8,    /* 16-bit operands: op_sel picks halves */
	OPF_ONCE = 1u << 9,   /* wave64: called once for both halves (x->half is 0) */
};

/* ---- operands ------------------------------------------------------------ */

/* Operand codes: 0..255 as the 8/9-bit scalar source field encodes them (0-105 SGPR, 106 VCC_LO,
 * 107 VCC_HI, 108-123 TTMP, 124 NULL, 125 M0, 126 EXEC_LO, 127 EXEC_HI, 128-208 inline integers,
 * 235-238 apertures, 240-248 inline floats, 253 SCC, 255 literal), 256..511 VGPR 0..255. */
enum {
	OPR_VCC_LO = 106,
	OPR_VCC_HI = 107,
	OPR_TTMP0 = 108,
	OPR_NULL = 124,
	OPR_M0 = 125,
	OPR_EXEC_LO = 126,
	OPR_EXEC_HI = 127,
	OPR_ZERO = 128,
	OPR_SHARED_BASE = 235,
	OPR_SHARED_LIMIT = 236,
	OPR_PRIVATE_BASE = 237,
	OPR_PRIVATE_LIMIT = 238,
	OPR_SCC = 253,
	OPR_LITERAL = 255,
	OPR_VGPR0 = 256,
	OPR_NONE = 0xffff,
};

struct isa_exec;
struct isa_insn;
struct delay_missing;
typedef void isa_sem(struct isa_exec *x, const struct isa_insn *in);

enum isa_dpp_kind { DPP_NONE, DPP_DPP8, DPP_DPP16 };

struct isa_insn {
	isa_sem *sem;     /* NULL: decoded for its name only, stops the wave (OPF_STOP) */
	uint16_t op;      /* enum isa_op */
	uint8_t fmt;      /* enum isa_fmt as encoded (a VOP2 op in VOP3 form says ISA_VOP3) */
	uint8_t len;      /* bytes: 4, 8, 12, 16 */
	uint16_t dst;     /* operand code of the vector or scalar destination */
	uint16_t sdst;    /* VOP3SD/VOPC scalar destination; OPR_NONE if none */
	uint16_t src[4];  /* operand codes; OPR_NONE where absent */
	uint32_t literal; /* value of OPR_LITERAL operands */
	uint8_t neg, abs; /* bit i: source i */
	uint8_t neg_hi;   /* VOP3P */
	uint8_t op_sel; /* bits 0-2 sources, bit 3 destination; for true16 E32 forms the decoder sets them too */
	uint8_t op_sel_hi;
	uint8_t omod; /* 0 none, 1 *2, 2 *4, 3 /2 */
	bool clamp;
	uint8_t dpp_kind; /* enum isa_dpp_kind; DPP applies to source 0 */
	uint8_t dpp_row_mask, dpp_bank_mask;
	bool dpp_bound_ctrl, dpp_fi;
	uint16_t dpp_ctrl; /* DPP16 */
	uint32_t dpp8_sel; /* 8 x 3 bits */
	/* scalar and memory */
	int32_t imm;    /* simm16 sign-extended, SMEM/FLAT offset, DS offset0 | offset1 << 8, ... */
	uint8_t cache;  /* VM_GLC | VM_SLC | VM_DLC */
	uint16_t saddr; /* FLAT/GLOBAL/SCRATCH saddr, SMEM soffset, MUBUF soffset */
	uint16_t vaddr; /* VGPR operand code, OPR_NONE if off */
	uint16_t vdata; /* VGPR operand code of store data */
	bool offen, idxen, lds, gds, tfe, sve;
	uint8_t format; /* MTBUF */
	/* VOPD: the second half, decoded like an instruction of its own. op/dst/src above are X. */
	uint16_t y_op, y_dst, y_src[3];
	isa_sem *y_sem;
};

/* Decodes one instruction from words (n dwords available). Returns its length in bytes, or
 * -EILSEQ (no such instruction on gfx1151) or -ENODATA (needs more dwords). Pure. */
int isa_decode(const uint32_t *words, unsigned n, struct isa_insn *out);
const char *isa_op_name(unsigned op); /* "v_add_f32" */
/* Textual form through LLVM when it can be loaded, else name and raw words. Pure, slow. */
void isa_disasm(const uint32_t *words, unsigned n, uint64_t pc, char *buf, unsigned len);

/* ---- wave state ---------------------------------------------------------- */

/* 32 lanes of one register. */
typedef uint32_t v32u __attribute__((ext_vector_type(32)));
typedef int32_t v32i __attribute__((ext_vector_type(32)));
typedef float v32f __attribute__((ext_vector_type(32)));

#define ISA_SGPRS 128 /* 0-105 SGPR, 106/107 VCC, 108-123 TTMP, 124 NULL (reads 0), 125 M0 */

/* A lane mask's register: of 64 lanes a pair, whose number's low bit is ignored. The decoder, which
 * does not know how many lanes a wave has, left it. */
static inline unsigned isa_mask_reg(unsigned reg, bool wave64)
{
	return wave64 && reg < ISA_SGPRS ? reg & ~1u : reg;
}

enum isa_wave_state {
	WAVE_RUN,
	WAVE_BARRIER,
	WAVE_SLEEP,
	WAVE_ENDED,
	WAVE_HALTED /* fault, trap, unsupported */
};

/* Why a wave halted. */
enum isa_stop {
	STOP_NONE,
	STOP_UNSUPPORTED,
	STOP_ILLEGAL,
	STOP_MEM_FAULT,
	STOP_FETCH_FAULT,
	STOP_TRAP,
	STOP_DIFFERS, /* lock step: compiled code and interpreter do not agree */
};

struct isa_wave {
	uint64_t pc;
	uint64_t exec;         /* wave32 uses the low half */
	uint32_t s[ISA_SGPRS]; /* VCC is s[106..107], M0 s[125] */
	uint32_t scc;          /* 0 or 1 */
	uint32_t mode;         /* MODE: round [3:0], denorm [7:4], dx10_clamp 8, ieee 9, ... */
	uint32_t status, trapsts;
	uint32_t hw_id1, hw_id2;
	uint64_t tba, tma;     /* second-level handler, 0 = none */
	uint64_t flat_scratch; /* this wave's scratch base (flat_scratch is a hwreg on gfx11) */
	uint32_t scratch_lane_bytes; /* bytes per lane */
	uint32_t lds_base, lds_size; /* within the workgroup's LDS allocation */
	uint8_t wave64;              /* 0: 32 lanes, 1: 64 */
	uint8_t state;               /* enum isa_wave_state */
	uint8_t stop;                /* enum isa_stop */
	uint8_t priv;                /* in the trap handler */
	uint8_t trap_id;             /* STOP_TRAP: the s_trap's number */
	uint8_t delayed;             /* memory is delayed: isa/delay.h */
	uint32_t wave_in_group;
	uint32_t group_id[3];
	uint32_t nvgpr;       /* allocated per lane */
	uint64_t insns;       /* executed so far */
	uint64_t sleep_until; /* WAVE_SLEEP: nanoseconds of x->realtime's clock */
	/* VGPRs follow: v[half * nvgpr + r], half 0 = lanes 0-31, half 1 = lanes 32-63 */
	v32u v[];
};

/* Bytes to allocate for a wave, aligned to 128 (aligned_alloc). */
static inline size_t isa_wave_bytes(unsigned nvgpr, bool wave64)
{
	return sizeof(struct isa_wave) + (size_t)nvgpr * (wave64 ? 2 : 1) * sizeof(v32u);
}

/* Everything a sem function may touch. One per worker thread, re-pointed per wave. */
struct isa_exec {
	struct isa_wave *w;
	uint8_t *lds; /* workgroup LDS, lds_size bytes valid */
	uint32_t lds_size;
	unsigned half;                      /* wave64: which half a vector op is working on */
	struct vm_port *vmem;               /* client TCP */
	struct vm_port *smem;               /* client SQC_DATA */
	struct vm_port *imem;               /* client SQC_INST; NULL: fetches go through smem */
	struct isa_icache *icache;          /* decoded code, isa_run()'s own; NULL at first */
	uint64_t shared_base, private_base; /* flat apertures: base; limit = base | 0xffffffff */
	struct isa_group *group;            /* barrier bookkeeping, owned by the runner */
	/* Side effects that leave the wave. */
	void (*sendmsg)(struct isa_exec *x, uint32_t simm, uint32_t m0);
	uint64_t (*msg_rtn)(struct isa_exec *x,
			    uint32_t msg); /* doorbell id, ddid, tma, realtime, ... */
	uint64_t (*realtime)(struct isa_exec *x);
	void *owner;             /* the dispatcher's */
	struct count_ctx *count; /* NULL: nothing is counted */
	uint32_t nvgpr, mode;    /* compiled code: the wave's, as constants */
	uint64_t compiled;       /* instructions run in compiled code */
	uint64_t approximated;   /* instructions executed inexactly (fidelity report) */
	/* Delayed memory (isa/delay.h): the wave that accesses run on, ours; who hears of waits that
	 * are missing, or NULL. */
	struct isa_wave *shadow;
	void (*missing)(struct isa_exec *x, const struct delay_missing *m);
};

/* Runs w until it ends, halts, sleeps, waits at a barrier, or budget instructions have run.
 * Returns the number executed. Never recursive; state lives in the wave alone. */
uint64_t isa_run(struct isa_exec *x, struct isa_wave *w, uint64_t budget);
/* Memory that holds code may have changed (a dispatch's acquire, s_icache_inv): every thread looks
 * at its decoded code again before using it. Mapping changes are noticed without this. */
void isa_icache_invalidate(void);
/* Changes with every call of it. */
uint64_t isa_code_epoch(void);
/* Frees the decode cache of x. */
void isa_exec_fini(struct isa_exec *x);

#endif
