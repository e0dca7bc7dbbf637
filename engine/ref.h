/* The CPU reference: every graph op in plain C, slow and close to the truth.
 *
 * Activations are F32 as in the graph; every sum (dot products, means, softmax) is accumulated in
 * double and rounded once. Device kernels are compared with it op by op, and a node the device
 * declines runs on it.
 */
#ifndef ENGINE_REF_H
#define ENGINE_REF_H

#include "engine/graph.h"

#include <stddef.h>

/* Scratch bytes that ref_op() needs for any node of g. */
size_t ref_scratch_bytes(const struct graph *g);

/* Run one node over its first n tokens (1 <= n <= g->n_tokens). buf[i] is the host storage of
 * tensor i in the dense layout graph.h states; weights are read from tensor.file (file layout), buf
 * of a weight is ignored and may be NULL. dst may share storage with a source only for the
 * element-wise ops (ADD, SILU_MUL). No allocation. -EINVAL: a token id or position out of range;
 * -ENOTSUP: a weight type with no dequantiser. dst is unspecified after a failure. */
int ref_op(const struct graph *g, const struct node *node, void *const *buf, uint32_t n,
	   void *scratch);

struct ref;

/* Storage for every tensor of g that is no weight. g must outlive the reference. -ENOMEM. */
int ref_create(const struct graph *g, struct ref **out, char *err, size_t errlen);
void ref_free(struct ref *r);
/* One step: n tokens (1 <= n <= g->n_tokens) at positions pos0 .. pos0+n-1. logits gets
 * [n][n_vocab] F32 (may be NULL). Earlier positions must have been stepped before.
 * -EINVAL with one line in err: n, pos0+n > n_ctx, or a token id out of range. */
int ref_step(struct ref *r, const int32_t *ids, uint32_t n, uint32_t pos0, float *logits, char *err,
	     size_t errlen);
/* Storage of tensor i after a step: taps for comparison. Owned by r; NULL for weights. */
void *ref_buffer(const struct ref *r, int tensor);

#endif
