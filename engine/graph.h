/* The model as a list of nodes over tensors. Built once per (model, context); read like the paper.
 *
 * Shapes: ne[0] is the fastest-moving dimension. Activations are F32 [width, n_tokens]. A matmul
 * weight is [k, rows] as in GGUF. n_tokens is the batch: fixed when the graph is built.
 */
#ifndef ENGINE_GRAPH_H
#define ENGINE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

/* GGML type numbers as stored in GGUF. */
enum ggml_type {
	TYPE_F32 = 0,
	TYPE_F16 = 1,
	TYPE_Q4_0 = 2,
	TYPE_Q8_0 = 8,
	TYPE_Q4_K = 12,
	TYPE_Q5_K = 13,
	TYPE_Q6_K = 14,
	TYPE_I32 = 26,
	TYPE_BF16 = 30,
	TYPE_MXFP4 = 39,
};

enum tensor_kind {
	TENSOR_WEIGHT,     /* from the file, read-only, resident once */
	TENSOR_ACTIVATION, /* within one step */
	TENSOR_KV,         /* lives as long as the context */
	TENSOR_INPUT,      /* written by the host per step: token ids, positions */
	TENSOR_OUTPUT,     /* read by the host: logits */
};

struct tensor {
	char name[64];
	enum tensor_kind kind;
	enum ggml_type type;
	uint64_t ne[4];
	uint64_t bytes;   /* in file layout (weights) or dense (others) */
	const void *file; /* WEIGHT: bytes in the mapped GGUF */
	int alias_of;     /* index of the tensor whose storage it shares, -1 = own storage */
	int index;        /* in graph.tensors */
};

enum graph_op {
	/* dst[d,n] = dequant(row ids[i] of src0). src: table, ids(I32[n]) */
	OP_EMBED,
	/* dst = x / sqrt(mean(x^2)+eps) * w, per ne[0]. src: x, w; f[0]=eps */
	OP_RMSNORM,
	/* dst[rows,n] = W x. src: W, x */
	OP_MATMUL,
	/* Per head of head_dim: RMSNORM with w (may be absent: -1), then NEOX rotary.
	 * src: x[heads*hd,n], w[hd] or -1, pos(I32[n]); u[0]=heads u[1]=hd f[0]=eps f[1]=theta */
	OP_HEADNORM_ROPE,
	/* cache[pos[i]] = x row i. src: x[kvw,n], pos; dst: KV[kvw,ctx] */
	OP_KV_STORE,
	/* Causal attention over cached K and V, scale 1/sqrt(hd).
	 * src: q[h*hd,n], K[kvw,ctx], V[kvw,ctx], pos; u[0]=heads u[1]=kv_heads u[2]=hd */
	OP_ATTN,
	OP_ADD,      /* dst = a + b */
	OP_SILU_MUL, /* dst = silu(a) * b */
	OP_COUNT
};

struct node {
	enum graph_op op;
	char name[48]; /* "blk.0.attn_q" */
	int dst;       /* tensor index */
	int src[5];    /* -1 = absent */
	uint32_t u[4];
	float f[4];
};

struct graph {
	struct tensor *tensors;
	uint32_t n_tensors;
	struct node *nodes; /* in execution order */
	uint32_t n_nodes;
	uint32_t n_tokens, n_ctx;
	int t_ids, t_pos, t_logits; /* tensor indices: I32[n], I32[n], F32[vocab, n] */
};

struct model; /* engine/model.h */
/* Graph of one step over n_tokens tokens of a model with n_ctx context slots.
 * -ENOTSUP for an architecture there is no graph for (err says which). err does not name the file. */
int graph_build(const struct model *m, uint32_t n_tokens, uint32_t n_ctx, struct graph **out,
		char *err, unsigned errlen);
void graph_free(struct graph *g);
const char *graph_op_name(enum graph_op op);

#endif
