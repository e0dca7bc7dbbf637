/* Qwen3, dense: tensor names and shapes as the Qwen3 report and the GGUF converters define them. */
#include "engine/model_internal.h"
#include "engine/gguf_internal.h"

#include <errno.h>
#include <stdlib.h>

/* Far above any published model; keeps every product of two of them inside 64 bits. */
#define MAX_LAYERS 1024
#define MAX_WIDTH  (1u << 20)
#define MAX_HEADS  4096
#define MAX_CTX    (1u << 28)
#define MAX_VOCAB  (1u << 24)

static int load_hparams(struct model_loader *l)
{
	struct model_hparams *hp = &l->m->hp;
	const struct gguf_tensor *embd;
	const struct gguf_kv *tokens;
	uint32_t v;
	int ret;

	if ((ret = model_key_u32(l, "context_length", 1, MAX_CTX, &hp->n_ctx)) < 0 ||
	    (ret = model_key_u32(l, "embedding_length", 1, MAX_WIDTH, &hp->n_embd)) < 0 ||
	    (ret = model_key_u32(l, "block_count", 1, MAX_LAYERS, &hp->n_layer)) < 0 ||
	    (ret = model_key_u32(l, "feed_forward_length", 1, MAX_WIDTH, &hp->n_ff)) < 0 ||
	    (ret = model_key_u32(l, "attention.head_count", 1, MAX_HEADS, &hp->n_head)) < 0 ||
	    (ret = model_key_f32(l, "attention.layer_norm_rms_epsilon", &hp->rms_eps)) < 0)
		return ret;
	hp->n_head_kv = hp->n_head;
	hp->head_dim = hp->n_embd / hp->n_head;
	hp->rope_theta = 10000.0f;
	if ((ret = model_key_u32_opt(l, "attention.head_count_kv", 1, MAX_HEADS, &hp->n_head_kv)) <
		    0 ||
	    (ret = model_key_u32_opt(l, "attention.key_length", 2, MAX_HEADS, &hp->head_dim)) < 0)
		return ret;
	if (model_has_key(l, "rope.freq_base")) {
		ret = model_key_f32(l, "rope.freq_base", &hp->rope_theta);
		if (ret < 0)
			return ret;
	}
	if (hp->n_head % hp->n_head_kv) {
		gguf_fail(
			l->err, l->errlen,
			"%s: qwen3.attention.head_count_kv is %u, want a divisor of head_count %u",
			l->g->name, hp->n_head_kv, hp->n_head);
		return -EINVAL;
	}
	if (!hp->head_dim || hp->head_dim % 2) {
		gguf_fail(l->err, l->errlen,
			  "%s: qwen3.attention.key_length is %u; rotary pairs want an even number",
			  l->g->name, hp->head_dim);
		return -EINVAL;
	}
	/* One head width, rotated whole. */
	v = hp->head_dim;
	if ((ret = model_key_u32_opt(l, "attention.value_length", hp->head_dim, hp->head_dim, &v)) <
		    0 ||
	    (ret = model_key_u32_opt(l, "rope.dimension_count", hp->head_dim, hp->head_dim, &v)) <
		    0)
		return ret;
	if (model_has_key(l, "rope.scaling.type")) {
		struct gguf_str s;

		ret = gguf_string(l->g, "qwen3.rope.scaling.type", &s, l->err, l->errlen);
		if (ret < 0)
			return ret;
		if (!gguf_str_eq(s, "none")) {
			gguf_fail(l->err, l->errlen,
				  "%s: qwen3.rope.scaling.type asks for rotary scaling; only "
				  "\"none\" is computed here",
				  l->g->name);
			return -ENOTSUP;
		}
	}
	embd = gguf_tensor(l->g, "token_embd.weight");
	if (!embd) {
		gguf_fail(l->err, l->errlen,
			  "%s: tensor token_embd.weight is missing; qwen3 needs it", l->g->name);
		return -EINVAL;
	}
	if (embd->ne[1] > MAX_VOCAB) {
		gguf_fail(l->err, l->errlen,
			  "%s: token_embd.weight has %llu rows; at most %u are read", l->g->name,
			  (unsigned long long)embd->ne[1], MAX_VOCAB);
		return -EINVAL;
	}
	hp->n_vocab = (uint32_t)embd->ne[1];
	v = hp->n_vocab;
	ret = model_key_u32_opt(l, "vocab_size", hp->n_vocab, hp->n_vocab, &v);
	if (ret < 0)
		return ret;
	if (gguf_find(l->g, "tokenizer.ggml.tokens")) {
		ret = gguf_array(l->g, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, l->err,
				 l->errlen);
		if (ret < 0)
			return ret;
		if (tokens->count > hp->n_vocab) {
			gguf_fail(l->err, l->errlen,
				  "%s: tokenizer.ggml.tokens has %llu entries; token_embd.weight "
				  "has %u rows for them",
				  l->g->name, (unsigned long long)tokens->count, hp->n_vocab);
			return -EINVAL;
		}
	}
	return 0;
}

static int bind_layer(struct model_loader *l, int i)
{
	const struct model_hparams *hp = &l->m->hp;
	struct model_layer *y = &l->m->layers[i];
	uint64_t d = hp->n_embd, ff = hp->n_ff, hd = hp->head_dim;
	uint64_t qw = hp->n_head * hd, kvw = hp->n_head_kv * hd;
	int ret;

	if ((ret = model_bind_vector(l, i, "attn_norm.weight", d, &y->attn_norm)) < 0 ||
	    (ret = model_bind_matrix(l, i, "attn_q.weight", d, qw, &y->attn_q)) < 0 ||
	    (ret = model_bind_matrix(l, i, "attn_k.weight", d, kvw, &y->attn_k)) < 0 ||
	    (ret = model_bind_matrix(l, i, "attn_v.weight", d, kvw, &y->attn_v)) < 0 ||
	    (ret = model_bind_matrix(l, i, "attn_output.weight", qw, d, &y->attn_output)) < 0 ||
	    (ret = model_bind_vector(l, i, "attn_q_norm.weight", hd, &y->attn_q_norm)) < 0 ||
	    (ret = model_bind_vector(l, i, "attn_k_norm.weight", hd, &y->attn_k_norm)) < 0 ||
	    (ret = model_bind_vector(l, i, "ffn_norm.weight", d, &y->ffn_norm)) < 0 ||
	    (ret = model_bind_matrix(l, i, "ffn_gate.weight", d, ff, &y->ffn_gate)) < 0 ||
	    (ret = model_bind_matrix(l, i, "ffn_up.weight", d, ff, &y->ffn_up)) < 0 ||
	    (ret = model_bind_matrix(l, i, "ffn_down.weight", ff, d, &y->ffn_down)) < 0)
		return ret;
	return 0;
}

int model_load_qwen3(struct model_loader *l)
{
	struct model *m = l->m;
	const struct model_hparams *hp = &m->hp;
	int ret;

	ret = load_hparams(l);
	if (ret < 0)
		return ret;
	m->layers = calloc(hp->n_layer, sizeof(*m->layers));
	if (!m->layers) {
		gguf_fail(l->err, l->errlen, "%s: out of memory", l->g->name);
		return -ENOMEM;
	}
	if ((ret = model_bind_matrix(l, -1, "token_embd.weight", hp->n_embd, hp->n_vocab,
				     &m->token_embd)) < 0 ||
	    (ret = model_bind_vector(l, -1, "output_norm.weight", hp->n_embd, &m->output_norm)) < 0)
		return ret;
	/* Without output.weight the embedding table is the output matrix: one tensor, one copy. */
	m->tied = !gguf_tensor(l->g, "output.weight");
	m->output = m->token_embd;
	if (!m->tied) {
		ret = model_bind_matrix(l, -1, "output.weight", hp->n_embd, hp->n_vocab,
					&m->output);
		if (ret < 0)
			return ret;
	}
	for (uint32_t i = 0; i < hp->n_layer; i++) {
		ret = bind_layer(l, (int)i);
		if (ret < 0)
			return ret;
	}
	return 0;
}
