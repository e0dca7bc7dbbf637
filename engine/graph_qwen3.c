/* Qwen3, dense: pre-norm transformer, grouped-query attention with normalised heads, SwiGLU.
 *
 *	x = E[ids]
 *	for each layer:
 *		h = rmsnorm(x);	 q, k, v = Wq h, Wk h, Wv h
 *		q, k = rope(headnorm(q)), rope(headnorm(k));  cache k, v
 *		x += Wo attention(q, K, V)
 *		h = rmsnorm(x);	 x += Wdown (silu(Wgate h) * Wup h)
 *	logits = Wout rmsnorm(x)
 *
 * d = n_embd, qw = n_head*head_dim, kvw = n_head_kv*head_dim, n = tokens of the step.
 */
#include "engine/graph_internal.h"

/* Ids and positions: what every block reads. */
struct step {
	struct graph_builder *b;
	uint32_t n;
	int ids, pos;
};

static int activation(const struct step *s, uint64_t width, const char *name, int layer)
{
	if (layer < 0)
		return graph_add(s->b, TENSOR_ACTIVATION, TYPE_F32, width, s->n, "%s.out", name);
	return graph_add(s->b, TENSOR_ACTIVATION, TYPE_F32, width, s->n, "blk.%d.%s.out", layer,
			 name);
}

/* [d,n] -> [d,n] */
static int rmsnorm(const struct step *s, int x, const struct gguf_tensor *w, const char *name,
		   int layer)
{
	int wt = graph_weight(s->b, w), dst = activation(s, w->ne[0], name, layer);
	struct node *n;

	if (layer < 0)
		n = graph_node(s->b, OP_RMSNORM, dst, GRAPH_SRC(x, wt), "%s", name);
	else
		n = graph_node(s->b, OP_RMSNORM, dst, GRAPH_SRC(x, wt), "blk.%d.%s", layer, name);
	n->f[0] = s->b->m->hp.rms_eps;
	return dst;
}

/* W [k,rows], x [k,n] -> [rows,n] */
static int matmul(const struct step *s, const struct gguf_tensor *w, int x, const char *name,
		  int layer)
{
	int wt = graph_weight(s->b, w), dst = activation(s, w->ne[1], name, layer);

	graph_node(s->b, OP_MATMUL, dst, GRAPH_SRC(wt, x), "blk.%d.%s", layer, name);
	return dst;
}

/* [heads*hd,n] -> [heads*hd,n] */
static int headnorm_rope(const struct step *s, int x, const struct gguf_tensor *w, uint32_t heads,
			 const char *name, int layer)
{
	const struct model_hparams *hp = &s->b->m->hp;
	int wt = graph_weight(s->b, w);
	int dst = activation(s, (uint64_t)heads * hp->head_dim, name, layer);
	struct node *n = graph_node(s->b, OP_HEADNORM_ROPE, dst, GRAPH_SRC(x, wt, s->pos),
				    "blk.%d.%s", layer, name);

	n->u[0] = heads;
	n->u[1] = hp->head_dim;
	n->f[0] = hp->rms_eps;
	n->f[1] = hp->rope_theta;
	return dst;
}

/* [kvw,n] into the layer's cache [kvw,ctx]; returns the cache. */
static int kv_store(const struct step *s, int x, const char *name, int layer)
{
	const struct model_hparams *hp = &s->b->m->hp;
	int cache = graph_add(s->b, TENSOR_KV, TYPE_F32, (uint64_t)hp->n_head_kv * hp->head_dim,
			      s->b->g->n_ctx, "blk.%d.%s", layer, name);

	graph_node(s->b, OP_KV_STORE, cache, GRAPH_SRC(x, s->pos), "blk.%d.%s_store", layer, name);
	return cache;
}

/* a, b [w,n] -> [w,n] */
static int binary(const struct step *s, enum graph_op op, int x, int y, uint64_t width,
		  const char *name, int layer)
{
	int dst = activation(s, width, name, layer);

	graph_node(s->b, op, dst, GRAPH_SRC(x, y), "blk.%d.%s", layer, name);
	return dst;
}

/* x [d,n] -> x + attention [d,n] */
static int attention(const struct step *s, int x, int i)
{
	const struct model_hparams *hp = &s->b->m->hp;
	const struct model_layer *w = &s->b->m->layers[i];
	int h = rmsnorm(s, x, w->attn_norm, "attn_norm", i);
	int q = matmul(s, w->attn_q, h, "attn_q", i);
	int k = matmul(s, w->attn_k, h, "attn_k", i);
	int v = matmul(s, w->attn_v, h, "attn_v", i);
	int kc, vc, o;
	struct node *n;

	q = headnorm_rope(s, q, w->attn_q_norm, hp->n_head, "attn_q_rope", i);
	k = headnorm_rope(s, k, w->attn_k_norm, hp->n_head_kv, "attn_k_rope", i);
	kc = kv_store(s, k, "cache_k", i);
	vc = kv_store(s, v, "cache_v", i);
	o = activation(s, (uint64_t)hp->n_head * hp->head_dim, "attn", i);
	n = graph_node(s->b, OP_ATTN, o, GRAPH_SRC(q, kc, vc, s->pos), "blk.%d.attn", i);
	n->u[0] = hp->n_head;
	n->u[1] = hp->n_head_kv;
	n->u[2] = hp->head_dim;
	o = matmul(s, w->attn_output, o, "attn_output", i);
	return binary(s, OP_ADD, x, o, hp->n_embd, "attn_residual", i);
}

/* x [d,n] -> x + feed-forward [d,n] */
static int feed_forward(const struct step *s, int x, int i)
{
	const struct model_hparams *hp = &s->b->m->hp;
	const struct model_layer *w = &s->b->m->layers[i];
	int h = rmsnorm(s, x, w->ffn_norm, "ffn_norm", i);
	int gate = matmul(s, w->ffn_gate, h, "ffn_gate", i);
	int up = matmul(s, w->ffn_up, h, "ffn_up", i);

	h = binary(s, OP_SILU_MUL, gate, up, hp->n_ff, "ffn_act", i);
	h = matmul(s, w->ffn_down, h, "ffn_down", i);
	return binary(s, OP_ADD, x, h, hp->n_embd, "ffn_residual", i);
}

void graph_build_qwen3(struct graph_builder *b)
{
	const struct model *m = b->m;
	struct graph *g = b->g;
	struct step s = {.b = b, .n = g->n_tokens};
	int x, table;

	s.ids = g->t_ids = graph_add(b, TENSOR_INPUT, TYPE_I32, s.n, 1, "ids");
	s.pos = g->t_pos = graph_add(b, TENSOR_INPUT, TYPE_I32, s.n, 1, "pos");
	table = graph_weight(b, m->token_embd);
	x = activation(&s, m->hp.n_embd, "token_embd", -1);
	graph_node(b, OP_EMBED, x, GRAPH_SRC(table, s.ids), "token_embd");
	for (uint32_t i = 0; i < m->hp.n_layer; i++) {
		x = attention(&s, x, (int)i);
		x = feed_forward(&s, x, (int)i);
	}
	x = rmsnorm(&s, x, m->output_norm, "output_norm", -1);
	table = graph_weight(b, m->output);
	g->t_logits = graph_add(b, TENSOR_OUTPUT, TYPE_F32, m->hp.n_vocab, s.n, "logits");
	graph_node(b, OP_MATMUL, g->t_logits, GRAPH_SRC(table, x), "output");
}
