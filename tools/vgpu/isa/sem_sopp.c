/* Program flow, messages, hardware registers, and hints.
 *
 * Sources: AMD "RDNA3.5 Instruction Set Architecture", chapters SOPP and SOPK, "Hardware
 * registers"; register numbers also LLVM's AMDGPU SIDefines.h. */
#include "isa/delay.h"
#include "isa/sem.h"

#define HINT(name)                                                                                 \
	SEM(name)                                                                                  \
	{                                                                                          \
		(void)x;                                                                           \
		(void)in;                                                                          \
	}
HINT(S_NOP)
HINT(S_SET_INST_PREFETCH_DISTANCE)
HINT(S_CLAUSE)
HINT(S_DELAY_ALU)
HINT(S_WAITCNT_DEPCTR)
HINT(S_SINGLEUSE_VDST)
HINT(S_SETPRIO)
HINT(S_INCPERFLEVEL)
HINT(S_DECPERFLEVEL)
HINT(S_TTRACEDATA)
HINT(S_TTRACEDATA_IMM)
HINT(S_WAKEUP)     /* waves sleep by the clock alone: they wake up soon enough */
HINT(S_WAIT_EVENT) /* export-ready: compute waves do not export */

/* ---- waits --------------------------------------------------------------- */

void isa_wait(struct isa_exec *x, unsigned counters, unsigned limit)
{
#ifndef ISA_JIT
	if (x->w->delayed)
		isa_delay_wait(x, counters, limit);
#else
	(void)x;
	(void)counters;
	(void)limit;
#endif
}

void isa_cache_inv(struct isa_exec *x, unsigned caches)
{
	(void)x;
	(void)caches;
}

SEM(S_WAITCNT)
{
	/* gfx11: expcnt [2:0], lgkmcnt [9:4], vmcnt [15:10] */
	isa_wait(x, CNT_EXP, in->imm & 7);
	isa_wait(x, CNT_LGKM, in->imm >> 4 & 63);
	isa_wait(x, CNT_VM, in->imm >> 10 & 63);
}

#define WAIT_ONE(name, counter)                                                                    \
	SEM(name)                                                                                  \
	{                                                                                          \
		isa_wait(x, counter, (isa_sread(x, in, in->src[0]) + (uint16_t)in->imm) & 63);     \
	}
WAIT_ONE(S_WAITCNT_VSCNT, CNT_VS)
WAIT_ONE(S_WAITCNT_VMCNT, CNT_VM)
WAIT_ONE(S_WAITCNT_EXPCNT, CNT_EXP)
WAIT_ONE(S_WAITCNT_LGKMCNT, CNT_LGKM)

SEM(S_WAIT_IDLE)
{
	(void)in;
	isa_wait(x, CNT_VM | CNT_VS | CNT_LGKM | CNT_EXP, 0);
}

SEM(S_ICACHE_INV)
{
	(void)x;
	(void)in;
	isa_icache_invalidate();
}

/* ---- program flow -------------------------------------------------------- */

static void jump(struct isa_exec *x, const struct isa_insn *in)
{
	x->w->pc += (uint64_t)((int64_t)in->imm * 4);
}

static uint64_t live(const struct isa_wave *w, uint64_t mask)
{
	return w->wave64 ? mask : (uint32_t)mask;
}

static uint64_t vcc(const struct isa_wave *w)
{
	return live(w, w->s[OPR_VCC_LO] | (uint64_t)w->s[OPR_VCC_HI] << 32);
}

SEM(S_BRANCH)
{
	jump(x, in);
}

#define CBRANCH(name, condition)                                                                   \
	SEM(name)                                                                                  \
	{                                                                                          \
		if (condition)                                                                     \
			jump(x, in);                                                               \
	}
CBRANCH(S_CBRANCH_SCC0, !x->w->scc)
CBRANCH(S_CBRANCH_SCC1, x->w->scc)
CBRANCH(S_CBRANCH_VCCZ, !vcc(x->w))
CBRANCH(S_CBRANCH_VCCNZ, vcc(x->w))
CBRANCH(S_CBRANCH_EXECZ, !live(x->w, x->w->exec))
CBRANCH(S_CBRANCH_EXECNZ, live(x->w, x->w->exec))
/* The conditional-debug bits of STATUS (20 user, 21 system). */
CBRANCH(S_CBRANCH_CDBGUSER, x->w->status >> 20 & 1)
CBRANCH(S_CBRANCH_CDBGSYS, x->w->status >> 21 & 1)
CBRANCH(S_CBRANCH_CDBGSYS_OR_USER, x->w->status >> 20 & 3)
CBRANCH(S_CBRANCH_CDBGSYS_AND_USER, (x->w->status >> 20 & 3) == 3)

SEM(S_GETPC_B64)
{
	isa_swrite64(x, in->dst, x->w->pc);
}

SEM(S_SETPC_B64)
{
	x->w->pc = isa_sread64(x, in, in->src[0]);
}

SEM(S_SWAPPC_B64)
{
	uint64_t to = isa_sread64(x, in, in->src[0]);

	isa_swrite64(x, in->dst, x->w->pc);
	x->w->pc = to;
}

SEM(S_CALL_B64)
{
	isa_swrite64(x, in->dst, x->w->pc);
	jump(x, in);
}

SEM(S_RFE_B64)
{
	/* A return from the trap handler is the handler's alone. */
	if (!x->w->priv) {
		isa_halt(x, in, STOP_ILLEGAL);
		return;
	}
	x->w->pc = isa_sread64(x, in, in->src[0]) & 0xffffffffffffull;
	x->w->priv = 0;
	x->w->status &= ~(1u << 5);
	/* HALT, set by the handler, holds only outside privileged mode: from here on. */
	if (x->w->status & 1u << 13) {
		x->w->state = WAVE_HALTED;
		x->w->stop = STOP_NONE;
	}
}

/* The two halves of wave64 one after the other, when a loop body wants it so. */
SEM(S_SUBVECTOR_LOOP_BEGIN)
{
	struct isa_wave *w = x->w;

	if (!w->exec) {
		jump(x, in);
	} else if (!(uint32_t)w->exec) {
		isa_swrite(x, in->dst, 0);
	} else {
		isa_swrite(x, in->dst, (uint32_t)(w->exec >> 32));
		w->exec = (uint32_t)w->exec;
	}
}

SEM(S_SUBVECTOR_LOOP_END)
{
	struct isa_wave *w = x->w;
	uint32_t saved = isa_sread(x, in, in->dst);

	if (w->exec >> 32) {
		w->exec = (w->exec & 0xffffffff00000000ull) | saved;
	} else if (saved) {
		isa_swrite(x, in->dst, (uint32_t)w->exec);
		w->exec = (uint64_t)saved << 32;
		jump(x, in);
	}
}

SEM(S_ENDPGM)
{
	(void)in;
	x->w->state = WAVE_ENDED;
}

SEM(S_ENDPGM_SAVED)
{
	(void)in;
	x->w->state = WAVE_ENDED;
}

SEM(S_SETKILL)
{
	if (in->imm & 1)
		x->w->state = WAVE_ENDED;
}

/* A wave that halts itself stays where it is until somebody outside resumes it. In the trap
 * handler the bit waits for the return. */
static void halt_self(struct isa_wave *w)
{
	w->status |= 1u << 13;
	if (!w->priv) {
		w->state = WAVE_HALTED;
		w->stop = STOP_NONE;
	}
}

SEM(S_SETHALT)
{
	if (in->imm & 1)
		halt_self(x->w);
	else
		x->w->status &= ~(1u << 13);
}

SEM(S_BARRIER)
{
	(void)in;
	x->w->state = WAVE_BARRIER;
}

SEM(S_SLEEP)
{
	/* 64 clocks a unit; at 2.9 GHz that is 22 ns. */
	uint64_t units = in->imm & 127;

	if (!units || !x->realtime)
		return;
	x->w->sleep_until = x->realtime(x) * 10 + units * 22;
	x->w->state = WAVE_SLEEP;
}

/* The dispatcher knows whether there is a trap handler to enter. */
SEM(S_TRAP)
{
	x->w->trap_id = in->imm & 255;
	isa_halt(x, in, STOP_TRAP);
}

/* What follows the end of a program is not meant to run. */
SEM(S_CODE_END)
{
	isa_halt(x, in, STOP_ILLEGAL);
}

/* ---- messages ------------------------------------------------------------ */

SEM(S_SENDMSG)
{
	if (x->sendmsg)
		x->sendmsg(x, (uint16_t)in->imm, x->w->s[OPR_M0]);
}

SEM(S_SENDMSGHALT)
{
	if (x->sendmsg)
		x->sendmsg(x, (uint16_t)in->imm, x->w->s[OPR_M0]);
	halt_self(x->w);
}

enum { MSG_TMA = 0x82, MSG_REALTIME = 0x83, MSG_TBA = 0x85 };

static bool message(struct isa_exec *x, const struct isa_insn *in, uint64_t *v)
{
	switch (in->imm) {
	case MSG_TMA:
		*v = x->w->tma;
		return true;
	case MSG_TBA:
		*v = x->w->tba;
		return true;
	case MSG_REALTIME:
		if (x->realtime) {
			*v = x->realtime(x);
			return true;
		}
		break;
	}
	if (x->msg_rtn) {
		*v = x->msg_rtn(x, in->imm);
		return true;
	}
	isa_halt(x, in, STOP_UNSUPPORTED); /* nobody to answer */
	return false;
}

SEM(S_SENDMSG_RTN_B32)
{
	uint64_t v;

	if (message(x, in, &v))
		isa_swrite(x, in->dst, (uint32_t)v);
}

SEM(S_SENDMSG_RTN_B64)
{
	uint64_t v;

	if (message(x, in, &v))
		isa_swrite64(x, in->dst, v);
}

/* ---- hardware registers -------------------------------------------------- */

enum {
	HWREG_MODE = 1,
	HWREG_STATUS = 2,
	HWREG_TRAPSTS = 3,
	HWREG_GPR_ALLOC = 5,
	HWREG_LDS_ALLOC = 6,
	HWREG_IB_STS = 7,
	HWREG_SH_MEM_BASES = 15,
	HWREG_PERF_SNAPSHOT_PC_LO = 18,
	HWREG_PERF_SNAPSHOT_PC_HI = 19,
	HWREG_FLAT_SCR_LO = 20,
	HWREG_FLAT_SCR_HI = 21,
	HWREG_HW_ID1 = 23,
	HWREG_HW_ID2 = 24,
	HWREG_PERF_SNAPSHOT_DATA = 27,
	HWREG_IB_STS2 = 28,
	HWREG_SHADER_CYCLES = 29,
};

/* STATUS: bits that mirror state kept elsewhere. */
static uint32_t status(const struct isa_wave *w)
{
	uint32_t s = w->status & ~(1u | 1u << 5 | 1u << 9 | 1u << 10);

	s |= w->scc;
	s |= (uint32_t)(w->priv & 1) << 5;
	s |= (uint32_t)!live(w, w->exec) << 9;
	s |= (uint32_t)!vcc(w) << 10;
	return s;
}

static bool hwreg_read(struct isa_exec *x, unsigned id, uint32_t *v)
{
	const struct isa_wave *w = x->w;

	switch (id) {
	case HWREG_MODE:
		*v = w->mode;
		return true;
	case HWREG_STATUS:
		*v = status(w);
		return true;
	case HWREG_TRAPSTS:
		*v = w->trapsts;
		return true;
	/* Units as amdkfd's trap handler (cwsr_trap_handler_gfx10.asm) reads them. */
	case HWREG_GPR_ALLOC: /* VGPRs / 4 - 1 in [19:12] */
		*v = ((isa_nvgpr(x) + 3) / 4 - 1) << 12;
		return true;
	case HWREG_LDS_ALLOC: /* base [8:0] and size [20:12] in units of 256 bytes */
		*v = (w->lds_base / 256 & 0x1ff) | ((w->lds_size + 255) / 256 & 0x1ff) << 12;
		return true;
	case HWREG_IB_STS: /* the counters of what is outstanding */
		*v = 0;
#ifndef ISA_JIT
		if (w->delayed)
			*v = isa_delay_status(x->w);
#endif
		return true;
	case HWREG_IB_STS2: /* bit 11: wave64 */
		*v = (uint32_t)(w->wave64 ? 1 : 0) << 11;
		return true;
	case HWREG_SH_MEM_BASES: /* private [15:0], shared [31:16]: address bits 63:48 */
		*v = (uint32_t)(x->private_base >> 48) | (uint32_t)(x->shared_base >> 48) << 16;
		return true;
	case HWREG_FLAT_SCR_LO:
		*v = (uint32_t)w->flat_scratch;
		return true;
	case HWREG_FLAT_SCR_HI:
		*v = (uint32_t)(w->flat_scratch >> 32);
		return true;
	case HWREG_HW_ID1:
		*v = w->hw_id1;
		return true;
	case HWREG_HW_ID2:
		*v = w->hw_id2;
		return true;
	case HWREG_PERF_SNAPSHOT_PC_LO:
	case HWREG_PERF_SNAPSHOT_PC_HI:
	case HWREG_PERF_SNAPSHOT_DATA:
		*v = 0; /* no sampling is ever in progress */
		return true;
	case HWREG_SHADER_CYCLES: /* 20 bits; at the pace of one instruction a cycle */
		*v = (uint32_t)(x->realtime ? x->realtime(x) * 29 : w->insns) & 0xfffff;
		return true;
	}
	return false;
}

/* Where kernels may not write, the write is dropped, as the hardware does. */
static bool hwreg_write(struct isa_exec *x, unsigned id, uint32_t v)
{
	struct isa_wave *w = x->w;

	switch (id) {
	case HWREG_MODE:
		w->mode = v;
		return true;
	case HWREG_STATUS:
		if (w->priv) {
			w->status = v & ~(1u | 1u << 5 | 1u << 9 | 1u << 10);
			w->scc = v & 1;
		}
		return true;
	case HWREG_TRAPSTS:
		w->trapsts = v;
		return true;
	case HWREG_FLAT_SCR_LO:
		w->flat_scratch = (w->flat_scratch & 0xffffffff00000000ull) | v;
		return true;
	case HWREG_FLAT_SCR_HI:
		w->flat_scratch = (w->flat_scratch & 0xffffffffull) | (uint64_t)v << 32;
		return true;
	case HWREG_GPR_ALLOC:
	case HWREG_LDS_ALLOC:
	case HWREG_IB_STS:
	case HWREG_IB_STS2:
	case HWREG_SH_MEM_BASES:
	case HWREG_HW_ID1:
	case HWREG_HW_ID2:
		return true;
	}
	return false;
}

/* simm16: register [5:0], first bit [10:6], bits minus one [15:11]. */
static void hwreg_field(const struct isa_insn *in, unsigned *id, unsigned *off, uint32_t *mask)
{
	unsigned bits = (in->imm >> 11 & 31) + 1;

	*id = in->imm & 63;
	*off = in->imm >> 6 & 31;
	*mask = bits == 32 ? ~0u : (1u << bits) - 1;
}

SEM(S_GETREG_B32)
{
	unsigned id, off;
	uint32_t mask, v;

	hwreg_field(in, &id, &off, &mask);
	if (!hwreg_read(x, id, &v)) {
		isa_halt(x, in, STOP_UNSUPPORTED);
		return;
	}
	isa_swrite(x, in->dst, v >> off & mask);
}

static void setreg(struct isa_exec *x, const struct isa_insn *in, uint32_t value)
{
	unsigned id, off;
	uint32_t mask, v;

	hwreg_field(in, &id, &off, &mask);
	if (!hwreg_read(x, id, &v) ||
	    !hwreg_write(x, id, (v & ~(mask << off)) | (value & mask) << off))
		isa_halt(x, in, STOP_UNSUPPORTED);
}

SEM(S_SETREG_B32)
{
	setreg(x, in, isa_sread(x, in, in->src[0]));
}

SEM(S_SETREG_IMM32_B32)
{
	setreg(x, in, in->literal);
}

SEM(S_ROUND_MODE)
{
	x->w->mode = (x->w->mode & ~15u) | (in->imm & 15);
}

SEM(S_DENORM_MODE)
{
	x->w->mode = (x->w->mode & ~0xf0u) | (uint32_t)(in->imm & 15) << 4;
}
