/* Counters: what waves executed and which memory they touched, per dispatch, kernel and buffer.
 *
 * On when the environment variable VGPU_COUNTERS or VGPU_FIDELITY names a file. Then every wave is
 * interpreted (compiled code does not count) and every access takes the long way through the door,
 * where a watch sees it; counts are exact. Off, the cost is one predictable branch per turn of a
 * wave and per access that is not inlined.
 *
 * A worker counts into a context of its own between count_enter() and count_leave(), which adds to
 * the dispatch. Buffers are the device's mappings; docs/prof.md says what each figure means.
 */
#ifndef VGPU_COUNT_H
#define VGPU_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/vm.h"

struct isa_insn;
struct isa_wave;

/* Each wave instruction belongs to one class. */
enum count_class {
#define CLASS(name, json, text) CC_##name,
#include "count/classes.def"
#undef CLASS
	CC_COUNT
};
extern const char *const count_class_name[CC_COUNT]; /* as in JSON: "valu16" */
/* Pure: the class of an opcode (enum isa_op), and how many clocks it occupies its SIMD's vector
 * unit per 32 lanes (0 for everything that is not a vector operation). */
enum count_class count_class_of(unsigned op);
unsigned count_cycles_of(unsigned op);

/* Sums. All members are uint64_t: sets are added member by member. */
struct count_set {
	uint64_t insns[CC_COUNT];  /* wave instructions (a wave64 one counts once) */
	uint64_t lanes[CC_COUNT];  /* of vector and memory instructions: active lanes */
	uint64_t passes[CC_COUNT]; /* of the same: 32-lane halves (1 or 2 per instruction) */
	uint64_t waves, groups;
	uint64_t vector_cycles; /* clocks of the vector unit, by count_cycles_of() */
	/* vector memory: bytes that active lanes asked for; an atomic reads and writes */
	uint64_t vmem_read, vmem_written, atomics /* lanes */;
	uint64_t smem_read;
	/* lines touched, each once per access of 32 lanes (or per scalar load) */
	uint64_t lines64, lines128;
	/* distinct 128-byte lines within the dispatch */
	uint64_t unique_read, unique_written;
	/* LDS, excluding lane exchanges */
	uint64_t lds_read, lds_written, lds_atomics;
	uint64_t lds_cycles;    /* clocks of its banks */
	uint64_t lds_conflicts; /* of these, more than one per pass */
	/* waits that had something to wait for (s_waitcnt with more outstanding than it allows) */
	uint64_t vmem_waits, smem_waits, lds_waits, store_waits;
};

/* What a wave has outstanding. Kept by whoever owns the wave, zero at its start. */
struct count_wave {
	uint8_t loads, stores, smem, lds;
};

extern bool count_on;
/* Reads the environment; once, before any address space exists. */
void count_init(void);
/* Forgets everything: the parent's counts are the parent's. */
void count_forked(void);
/* Writes the files. Nothing may be running. */
void count_finish(void);
/* The whole report as one JSON object with a newline at its end; free() it. */
char *count_json(void);

/* ---- dispatches ---------------------------------------------------------- */

struct count_dispatch;
struct count_launch {
	struct vm_port *port; /* to read the code with */
	uint64_t kernel_object, entry;
	uint32_t rsrc1, rsrc2, rsrc3, nvgpr, lds_bytes, queue;
	bool wave64;
	uint32_t grid[3], wg[3];
	uint64_t index;      /* packet */
	uint32_t waves_full; /* of a whole workgroup */
};
/* What tells a kernel from others wherever it is loaded: a hash of the bytes that its branches
 * reach, which start at entry + offset. bytes 0: unknown. */
struct count_code {
	uint64_t hash;
	uint32_t bytes;
	int32_t offset;
};
struct count_code count_code(struct vm *vm, uint64_t entry);
/* NULL without memory (then it is not counted). */
struct count_dispatch *count_dispatch_begin(const struct count_launch *l);
void count_dispatch_end(struct count_dispatch *d);

/* ---- contexts: one per thread that runs waves ---------------------------- */

struct count_ctx;
struct count_ctx *count_ctx_new(void);
void count_ctx_free(struct count_ctx *c); /* its totals stay */
struct vm_watch *count_watch(struct count_ctx *c);
void count_enter(struct count_ctx *c, struct count_dispatch *d, struct count_wave *waves);
void count_leave(struct count_ctx *c);
void count_group(struct count_ctx *c, unsigned waves); /* a workgroup starts */

/* One instruction that has executed; exec is EXEC before it. approximated: how many of its results
 * may differ from the hardware's. */
void count_insn(struct count_ctx *c, const struct isa_wave *w, const struct isa_insn *in,
		uint64_t exec, uint64_t approximated);
/* One LDS access of up to 32 lanes at byte offsets. */
void count_lds(struct count_ctx *c, enum vm_op op, const uint32_t *off, uint32_t mask,
	       unsigned size);
/* A wave stopped at an instruction that has no meaning here. */
void count_refused(struct count_ctx *c, unsigned op);

#endif
