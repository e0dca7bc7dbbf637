/* What goes between the virtual device and its compiler, vgpu-jitc, over a socket. */
#ifndef VGPU_JIT_SERVER_H
#define VGPU_JIT_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "isa/jit.h"

#define JIT_SERVER_FD 3
/* Both sides must have been built from the same state: format, layout of what compiled code reaches,
 * numbering of opcodes. A compiler of another build hangs up, and kernels stay interpreted. */
#define JIT_SERVER_MAGIC                                                                           \
	(0x6a697463u ^ (uint32_t)sizeof(struct isa_exec) * 0x01000193u ^                           \
	 (uint32_t)sizeof(struct isa_wave) * 0x00010003u ^                                         \
	 (uint32_t)sizeof(struct isa_insn) * 0x00001021u ^                                         \
	 (uint32_t)sizeof(struct vm_port) * 0x00000101u ^                                          \
	 (uint32_t)offsetof(struct isa_exec, vmem) << 8 ^ (uint32_t)ISA_OP_COUNT)

/* The program that starts the compiler, NULL: the kernel does. The trap backend's processes cannot
 * execute anything by themselves (trap/layout.h). */
extern const char *jit_server_via;

struct jit_request {
	uint32_t magic, bytes; /* code bytes that follow */
	uint32_t path_bytes;   /* then a path to keep the object at; 0: nowhere */
	struct jit_shape shape;
	uint64_t base;
};

struct jit_reply {
	int32_t result; /* 0 or -errno */
	uint32_t bytes; /* object bytes that follow */
	char why[120];
};

#endif
