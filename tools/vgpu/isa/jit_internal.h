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
	bool some;         /* a wave that began with all lanes on may come here with fewer */
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

/* The function every object has. */
#define JIT_ENTRY "kernel"

/* In vgpu-jitc: loads LLVM. */
int jit_llvm_prepare(char *why, size_t whylen);
/* In vgpu-jitc: compiles cfg for waves of that shape into an x86-64 relocatable object (malloc'd)
 * with one function, JIT_ENTRY, of type jit_fn. 0 or -errno with why filled. */
int jit_llvm_compile(const struct jit_cfg *cfg, const struct jit_shape *shape, void **object,
		     size_t *object_bytes, char *why, size_t whylen);
/* Has vgpu-jitc do it; keep: where it is to leave a copy, or "". One caller at a time. */
int jit_server_compile(const struct jit_cfg *cfg, const struct jit_shape *shape, const char *keep,
		       void **object, size_t *bytes, char *why, size_t whylen);
/* Makes a compile that is under way fail, from another thread; then lets the compiler go. */
void jit_server_interrupt(void);
/* At the end, or between the two: one more to compile, when nobody is here any more. Never waits; -errno when the
 * compiler takes no more. */
int jit_server_leave(const struct jit_cfg *cfg, const struct jit_shape *shape, const char *keep);
void jit_server_stop(void);
/* Which compiler it would be; -errno when there is none. */
int jit_server_identity(uint64_t out[4]);

/* Puts an object into executable memory, for good. 0 or -errno with why filled. */
int jit_elf_load(const void *object, size_t bytes, jit_fn **fn, char *why, size_t whylen);
/* What compiled code may call; NULL for other names. */
void *jit_export(const char *name);

/* ---- lock step ----------------------------------------------------------- */

/* As jit_run() of fn, entered at base, with the interpreter behind it block by block. On the first
 * difference halts the wave with STOP_DIFFERS; why says which instruction, register and lane, and
 * both values (else it is ""). *compiled: instructions run in compiled code. */
uint64_t jit_lockstep(jit_fn *fn, uint64_t base, struct isa_exec *x, struct isa_wave *w,
		      uint64_t budget, uint64_t *compiled, char *why, size_t whylen);

/* LLVM bitcode of every sem function, embedded in vgpu-jitc. */
extern const unsigned char jit_sem_bitcode[], jit_sem_bitcode_end[];

#endif
