/* Delayed memory: loads write their registers late and stores reach memory late, unless the wave
 * has waited for them by the right counter. For finding code that does not wait.
 *
 * What is promised, and therefore kept (GC 11):
 *  - vmcnt counts loads and atomics with return, vscnt stores and atomics without; each comes down
 *    in the order of issue (AMDGPUUsage: compute_pgm_rsrc1.MEM_ORDERED, and "Memory Model
 *    GFX10-GFX11": completion is reported in execution order).
 *  - lgkmcnt counts LDS, in order among themselves; scalar loads and messages, in any order among
 *    all (RDNA3.5 ISA, "Data dependency resolution"), so that only 0 says anything about them.
 *  - A flat instruction counts in both, in order in each (LLVM GCNSubtarget.h:
 *    hasFlatLgkmVMemCountInOrder), whatever it turns out to access: lanes in LDS are there when
 *    lgkmcnt says so, the others when vmcnt or vscnt does.
 *  - expcnt counts nothing that a compute wave does: since GC 7 a store has taken its data when the
 *    wave goes on (LLVM GCNSubtarget.h: vmemWriteNeedsExpWaitcnt), so that it may overwrite it.
 *  - Accesses of one wave to the same bytes by the same path (vector memory, or LDS) happen in the
 *    order of issue: one vector cache serves a wave. The scalar path is another one.
 *  - s_barrier and branches wait for nothing. s_endpgm neither; stores complete all the same, and
 *    the dispatch does not end before.
 * Nothing else is: vector accesses to different bytes happen in any order, a result comes any time
 * up to `most` instructions after its issue. Nothing stays away for longer, waited for or not.
 *
 * What is on its way is data behind the wave's registers, bounded, with a random sequence of its own:
 * the same seed gives the same run of a wave. Such waves are interpreted.
 */
#ifndef VGPU_ISA_DELAY_H
#define VGPU_ISA_DELAY_H

#include "isa/isa.h"

enum {
	DELAY_OPS = 64,    /* of one wave at a time; the oldest is made to end when more come */
	DELAY_SOURCES = 6, /* VGPRs: two of address, four of data */
	DELAY_RESULTS = 5, /* VGPRs: four, and TFE's */
	DELAY_SCALARS = 8,
};

/* In which order results come: in that of issue within a class, but for DELAY_ANY. */
enum delay_class { DELAY_VM, DELAY_VS, DELAY_LDS, DELAY_ANY, DELAY_CLASSES };

/* By which way memory is reached. */
enum delay_path { DELAY_VMEM, DELAY_DS, DELAY_SMEM, DELAY_NOWHERE };

enum delay_stage {
	DELAY_ISSUED, /* memory knows nothing of it */
	DELAY_DONE,   /* memory does, the registers do not */
	DELAY_KNOWN,  /* both do, but the wave cannot know (kept for reports) */
};

struct delay_op {
	struct isa_insn in; /* its meaning is looked up again: no pointer */
	uint64_t pc, exec, flat_scratch;
	uint64_t lo, hi;      /* no byte outside [lo, hi) is touched */
	uint64_t effect, end; /* when memory is accessed, when the result comes at the latest */
	uint64_t seq;         /* of its class */
	uint32_t m0;
	uint8_t klass, path, stage;
	bool told;                           /* reported */
	uint8_t nscalars, nsources, nresult; /* results: SGPRs from in.dst on, or VGPRs */
	uint16_t scalar[DELAY_SCALARS], source[DELAY_SOURCES];
	uint32_t scalar_value[DELAY_SCALARS], scalar_result[16];
	v32u source_value[2][DELAY_SOURCES], result_value[2][DELAY_RESULTS];
};

struct isa_delay {
	uint64_t now;  /* instructions so far, and time spent waiting for others */
	uint64_t next; /* when something is due */
	uint64_t rng;
	uint64_t issued[DELAY_CLASSES];
	uint64_t end[DELAY_CLASSES]; /* when the last one issued ends */
	uint32_t most;               /* instructions; 0: all at once */
	bool report;
	uint8_t n, order[DELAY_OPS]; /* in order of issue */
	struct delay_op op[DELAY_OPS];
};

/* A wave that uses a register before it has waited for what writes it. */
struct delay_missing {
	uint64_t pc, writer_pc;
	struct isa_insn in, writer;
	uint16_t code; /* the register */
	bool write;    /* it is overwritten, not read */
	bool lgkm;     /* the counter: lgkmcnt, else vmcnt */
	unsigned most; /* its value that would do */
};

/* What to allocate behind isa_wave_bytes(), rounded up to 128. */
static inline struct isa_delay *isa_delay_of(struct isa_wave *w)
{
	size_t at = (isa_wave_bytes(w->nvgpr, w->wave64) + 127) & ~127ul;

	return (struct isa_delay *)(void *)((uint8_t *)w + at);
}

/* Makes w, otherwise initialised, such a wave. report: x->missing is called. */
void isa_delay_init(struct isa_wave *w, uint64_t seed, uint32_t most, bool report);

/* For the interpreter, before each instruction, PC behind it. */
enum delay_step {
	DELAY_RUN,   /* run it */
	DELAY_TAKEN, /* it has been issued */
	DELAY_YIELD, /* not now: the wave stopped, or ends when its stores have */
};
enum delay_step isa_delay_step(struct isa_exec *x, const struct isa_insn *in, bool runs);

/* s_waitcnt: counters is a set of enum isa_counter. */
void isa_delay_wait(struct isa_exec *x, unsigned counters, unsigned limit);

/* What is outstanding, as HW_REG_IB_STS has it: expcnt [2:0], lgkmcnt [9:4], vmcnt [15:10], vscnt
 * [31:26] (gc_11_5_0_sh_mask.h). */
uint32_t isa_delay_status(struct isa_wave *w);

/* Time for a wave that does not run: what is due happens. May halt it (a memory fault). */
void isa_delay_tick(struct isa_exec *x, struct isa_wave *w, unsigned instructions);
/* All that is on its way arrives, or with drop, vanishes. May halt it. */
void isa_delay_drain(struct isa_exec *x, struct isa_wave *w, bool drop);

#endif
