/* Which kernel takes a node, with what shape, and what its arguments are.
 *
 * A kernel claims a node by operation, layout and shape, or declines it with a reason; a declined
 * node runs on the CPU reference. Pure code.
 */
#ifndef ENGINE_CLAIM_H
#define ENGINE_CLAIM_H

#include "engine/graph.h"

#include <stdbool.h>
#include <stddef.h>

struct claim {
	char kernel[32];  /* empty: declined */
	char reason[96];  /* why declined */
	uint32_t grid[3]; /* work-items */
	uint16_t group[3];
	uint32_t kernarg_bytes;
};

/* What is known of the kernels at hand. */
struct claim_kernels {
	/* Names switched off: a kernel ("matmul_q8_0") or an operation ("matmul"). */
	const char *const *disabled;
	unsigned n_disabled;
	/* Argument bytes of a kernel that can be loaded, 0 if there is none of that name.
	 * NULL: all kernels exist. */
	uint32_t (*kernarg_bytes)(void *ctx, const char *kernel);
	void *ctx;
};

/* node NULL: the kernel that ends a step. */
void claim_node(const struct graph *g, const struct node *node, const struct claim_kernels *k,
		struct claim *out);
/* The name the end of a step goes by. */
#define CLAIM_FINISH "finish"

/* Addresses a node's arguments are made of. */
struct claim_env {
	const uint64_t *va; /* per tensor of the graph: device address */
	uint64_t step;      /* struct ka_step */
	uint64_t done;      /* struct ka_done */
	uint64_t freq;      /* rotary table of this node */
};
/* Writes claim->kernarg_bytes bytes. */
void claim_kernargs(const struct graph *g, const struct node *node, const struct claim *claim,
		    const struct claim_env *env, void *out);

/* Rotary table for (hd, theta): hd/2 turns per position, as fractions of 2^64, low word first. */
void claim_rope_table(uint32_t hd, double theta, uint64_t *out);

#endif
