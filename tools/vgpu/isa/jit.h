/* Compiled kernels: the interpreter's opcode functions, inlined and specialised by LLVM.
 *
 * A kernel is what can be reached from an entry PC by direct branches. It starts interpreted; once
 * it has run long enough a background thread compiles it (or takes it from the disk cache), and
 * waves move over at their next quantum. No dispatch waits for the compiler. The interpreter stays
 * the reference: what cannot be compiled, or must be exact to the instruction, is interpreted.
 */
#ifndef VGPU_JIT_H
#define VGPU_JIT_H

#include "isa/isa.h"

struct jit_kernel;

/* What compiled code is specialised on besides the instructions. */
struct jit_shape {
	uint32_t nvgpr; /* allocated per lane */
	uint32_t mode;  /* MODE at launch; waves with another one are interpreted */
	bool wave64;
	bool whole; /* waves begin with all lanes on: until something writes EXEC, code for fewer
		     * need not exist. A wave that comes with fewer all the same is interpreted. */
};

enum jit_mode {
	JIT_OFF,      /* interpret everything */
	JIT_ON,       /* compile in the background what is hot */
	JIT_EAGER,    /* compile at first use, waiting for it: for tests and benchmarks */
	JIT_LOCKSTEP, /* the same, and interpret everything too, stopping where they differ */
};

/* The record of the kernel at entry, made at the first call; the same pointer afterwards as long
 * as the code bytes are the same. p is used to read the code (client SQC_INST). NULL when out of
 * memory or JIT_OFF: then call isa_run(). Thread-safe. */
struct jit_kernel *jit_kernel_get(struct vm_port *p, uint64_t entry, const struct jit_shape *shape,
				  enum jit_mode mode);

/* As isa_run(): runs w until it ends, halts, sleeps, waits at a barrier, or about budget
 * instructions have run (a compiled block is not left in the middle). k may be NULL. */
uint64_t jit_run(struct jit_kernel *k, struct isa_exec *x, struct isa_wave *w, uint64_t budget);

/* Whether jit_run() would run compiled code: longer turns cost nothing then. */
bool jit_ready(const struct jit_kernel *k);

/* At the process's end: leaves what is hot and not compiled yet to the compiler, which outlives it
 * for so long, for whoever comes next. Waits for nothing. */
void jit_leave(void);

/* Forgets every kernel, as jit_leave() does; waits for the compiler. Nobody may be in jit_run(). */
void jit_fini(void);

struct jit_stats {
	uint64_t compiled, cached, refused; /* kernels */
	uint64_t compile_ns;
	uint64_t insns; /* run in compiled code */
};
void jit_stats(struct jit_stats *out);
/* Why k is not compiled: "" while it is or may become so. */
const char *jit_refusal(const struct jit_kernel *k);
/* JIT_LOCKSTEP: what the first difference of all was, "" before there is one. */
const char *jit_difference(void);

#endif
