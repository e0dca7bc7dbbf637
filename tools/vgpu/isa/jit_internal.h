/* Shared by the JIT's parts. */
#ifndef VGPU_JIT_INTERNAL_H
#define VGPU_JIT_INTERNAL_H

#include <stddef.h>

#include "isa/jit.h"

/* Runs w from w->pc; returns instructions executed. Leaves as jit_run() says, and also when PC
 * is not the start of a compiled block (then it has executed nothing). */
typedef uint64_t jit_fn(struct isa_exec *x, struct isa_wave *w, uint64_t base, uint64_t budget);

/* ---- control flow (pure) ------------------------------------------------- */

struct jit_insn {
	struct isa_insn in;
	uint32_t off; /* byte offset from the kernel's lowest reachable PC */
};

struct jit_block {
	uint32_t off;      /* of its first instruction */
	uint32_t first, n; /* instructions */
	int32_t next[2];   /* block numbers: fall-through and taken; -1: none or outside */
	bool entry;        /* waves may resume here: the start, behind a stop, loop heads */
};

struct jit_cfg {
	uint64_t base;  /* PC of offset 0 */
	uint32_t bytes; /* code bytes covered */
	struct jit_insn *insns;
	uint32_t n_insns;
	struct jit_block *blocks;
	uint32_t n_blocks;
	uint8_t *code;    /* the bytes, for hashing */
	char refusal[96]; /* set when it must stay interpreted */
};

/* Instructions that hand the context to code outside (messages, clocks) or change what code is
 * specialised on (MODE): they end their block, and waves resume behind them. */
bool jit_leaves_the_wave(unsigned op);
/* Reads code through fetch (returns 0 or -errno) and finds everything reachable from entry. */
int jit_cfg_build(int (*fetch)(void *ctx, uint64_t pc, void *dst, size_t n), void *ctx,
		  uint64_t entry, struct jit_cfg *out);
void jit_cfg_free(struct jit_cfg *cfg);

/* ---- code generation ----------------------------------------------------- */

/* Compiles cfg for waves of that shape, as a function of that name, unique in the process.
 * object: the relocatable object it was made into, for the disk cache (malloc'd).
 * 0 or -errno with why filled. */
int jit_llvm_compile(const struct jit_cfg *cfg, const char *name, const struct jit_shape *shape,
		     jit_fn **fn, void **object, size_t *object_bytes, char *why, size_t whylen);
/* The same from a cached object. */
int jit_llvm_load(const void *object, size_t bytes, const char *name, jit_fn **fn, char *why,
		  size_t whylen);
/* "znver4 +avx512f,...": what object files are good for. "" when LLVM cannot be loaded. */
const char *jit_llvm_target(void);

/* LLVM bitcode of every sem function, embedded. */
extern const unsigned char jit_sem_bitcode[], jit_sem_bitcode_end[];

#endif
