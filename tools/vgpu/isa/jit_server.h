/* What goes between the virtual device and its compiler, vgpu-jitc, over a socket. */
#ifndef VGPU_JIT_SERVER_H
#define VGPU_JIT_SERVER_H

#include <stdint.h>

#include "isa/jit.h"

#define JIT_SERVER_FD    3
#define JIT_SERVER_MAGIC 0x6a697463u /* changes with the format */

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
