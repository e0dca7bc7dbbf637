/* A model: hyperparameters and named tensors of one GGUF file, checked against each other.
 *
 * Everything points into the gguf, which must outlive the model. After model_load() succeeded every
 * tensor below exists, has a type the engine computes with, and has the shape stated here.
 * Shapes are [ne0, ne1], ne0 fastest: a matmul weight is [inputs, outputs].
 */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/gguf.h"

enum model_arch { MODEL_QWEN3, MODEL_ARCH_COUNT };

struct model_hparams {
	uint32_t n_vocab; /* rows of token_embd */
	uint32_t n_ctx;   /* context length it was trained for, tokens */
	uint32_t n_embd;  /* d */
	uint32_t n_layer;
	uint32_t n_ff;
	uint32_t n_head;    /* query heads */
	uint32_t n_head_kv; /* divides n_head */
	uint32_t head_dim;  /* even */
	float rms_eps;
	float rope_theta;
};

struct model_layer {
	const struct gguf_tensor *attn_norm;   /* F32 [d] */
	const struct gguf_tensor *attn_q;      /* [d, n_head*head_dim] */
	const struct gguf_tensor *attn_k;      /* [d, n_head_kv*head_dim] */
	const struct gguf_tensor *attn_v;      /* [d, n_head_kv*head_dim] */
	const struct gguf_tensor *attn_output; /* [n_head*head_dim, d] */
	const struct gguf_tensor *attn_q_norm; /* F32 [head_dim] */
	const struct gguf_tensor *attn_k_norm; /* F32 [head_dim] */
	const struct gguf_tensor *ffn_norm;    /* F32 [d] */
	const struct gguf_tensor *ffn_gate;    /* [d, n_ff] */
	const struct gguf_tensor *ffn_up;      /* [d, n_ff] */
	const struct gguf_tensor *ffn_down;    /* [n_ff, d] */
};

struct model {
	const struct gguf *gguf;
	enum model_arch arch;
	const char *arch_name; /* "qwen3" */
	struct model_hparams hp;
	const struct gguf_tensor *token_embd;  /* [d, n_vocab] */
	const struct gguf_tensor *output_norm; /* F32 [d] */
	const struct gguf_tensor *output;      /* [d, n_vocab]; == token_embd when tied */
	bool tied;
	struct model_layer *layers; /* n_layer */
	uint64_t weight_bytes;      /* of all bound tensors, each once */
};

/* -ENOTSUP: an architecture or tensor type not computed here. -EINVAL: a key or tensor missing, of
 * the wrong type or shape, or out of range. -ENOMEM. err: one line with file, field, value. */
int model_load(const struct gguf *g, struct model **out, char *err, size_t errlen);
void model_free(struct model *m);

#endif
