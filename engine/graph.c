#include "engine/graph_internal.h"
#include "engine/gguf_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*const builders[MODEL_ARCH_COUNT])(struct graph_builder *b) = {
	[MODEL_QWEN3] = graph_build_qwen3,
};

static const char *const op_names[OP_COUNT] = {
	[OP_EMBED] = "embed",       [OP_RMSNORM] = "rmsnorm",
	[OP_MATMUL] = "matmul",     [OP_HEADNORM_ROPE] = "headnorm_rope",
	[OP_KV_STORE] = "kv_store", [OP_ATTN] = "attn",
	[OP_ADD] = "add",           [OP_SILU_MUL] = "silu_mul",
};

const char *graph_op_name(enum graph_op op)
{
	return (unsigned)op < OP_COUNT ? op_names[op] : "unknown";
}

static int grow(void **array, uint32_t used, uint32_t *cap, size_t size)
{
	uint32_t want = *cap ? *cap * 2 : 64;
	void *p;

	if (used < *cap)
		return 0;
	p = realloc(*array, want * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*cap = want;
	return 0;
}

static struct tensor *new_tensor(struct graph_builder *b)
{
	struct tensor *t;

	if (!b->failed)
		b->failed =
			grow((void **)&b->g->tensors, b->g->n_tensors, &b->cap_tensors, sizeof(*t));
	if (b->failed)
		return NULL;
	t = &b->g->tensors[b->g->n_tensors];
	memset(t, 0, sizeof(*t));
	t->index = (int)b->g->n_tensors++;
	t->alias_of = -1;
	for (int i = 0; i < 4; i++)
		t->ne[i] = 1;
	return t;
}

int graph_add(struct graph_builder *b, enum tensor_kind kind, enum ggml_type type, uint64_t ne0,
	      uint64_t ne1, const char *fmt, ...)
{
	struct tensor *t = new_tensor(b);
	va_list ap;

	if (!t)
		return -1;
	va_start(ap, fmt);
	vsnprintf(t->name, sizeof(t->name), fmt, ap);
	va_end(ap);
	t->kind = kind;
	t->type = type;
	t->ne[0] = ne0;
	t->ne[1] = ne1;
	/* ne0 <= 2^32 and ne1 <= 2^28 by the limits of the model loader and graph_build(). */
	t->bytes = ne0 * ne1 * 4;
	return t->index;
}

int graph_weight(struct graph_builder *b, const struct gguf_tensor *w)
{
	struct tensor *t;

	for (uint32_t i = 0; i < b->g->n_tensors; i++) {
		t = &b->g->tensors[i];
		if (t->kind == TENSOR_WEIGHT && t->file == w->data)
			return (int)i;
	}
	t = new_tensor(b);
	if (!t)
		return -1;
	snprintf(t->name, sizeof(t->name), "%.*s", (int)w->name.n, w->name.p);
	t->kind = TENSOR_WEIGHT;
	t->type = (enum ggml_type)w->type;
	memcpy(t->ne, w->ne, sizeof(t->ne));
	t->bytes = w->bytes;
	t->file = w->data;
	return t->index;
}

struct node *graph_node(struct graph_builder *b, enum graph_op op, int dst, const int *src,
			const char *fmt, ...)
{
	static _Thread_local struct node scrap;
	struct node *n;
	va_list ap;
	int i;

	if (!b->failed)
		b->failed = grow((void **)&b->g->nodes, b->g->n_nodes, &b->cap_nodes, sizeof(*n));
	if (b->failed)
		return &scrap;
	n = &b->g->nodes[b->g->n_nodes++];
	memset(n, 0, sizeof(*n));
	va_start(ap, fmt);
	vsnprintf(n->name, sizeof(n->name), fmt, ap);
	va_end(ap);
	n->op = op;
	n->dst = dst;
	for (i = 0; src[i] != GRAPH_END; i++)
		n->src[i] = src[i];
	for (; i < 5; i++)
		n->src[i] = -1;
	return n;
}

int graph_build(const struct model *m, uint32_t n_tokens, uint32_t n_ctx, struct graph **out,
		char *err, unsigned errlen)
{
	struct graph_builder b = {.m = m};
	int ret;

	if (!n_ctx || n_ctx > m->hp.n_ctx) {
		gguf_fail(err, errlen,
			  "context of %u tokens asked; the model was trained for 1 to %u", n_ctx,
			  m->hp.n_ctx);
		return -EINVAL;
	}
	if (!n_tokens || n_tokens > n_ctx) {
		gguf_fail(err, errlen, "batch of %u tokens asked; a context of %u takes 1 to %u",
			  n_tokens, n_ctx, n_ctx);
		return -EINVAL;
	}
	if ((unsigned)m->arch >= MODEL_ARCH_COUNT || !builders[m->arch]) {
		gguf_fail(err, errlen, "architecture \"%s\" has no graph", m->arch_name);
		return -ENOTSUP;
	}
	b.g = calloc(1, sizeof(*b.g));
	if (!b.g) {
		ret = -ENOMEM;
		goto out;
	}
	b.g->n_tokens = n_tokens;
	b.g->n_ctx = n_ctx;
	builders[m->arch](&b);
	ret = b.failed;
	if (ret < 0)
		goto out;
	*out = b.g;
	return 0;
out:
	gguf_fail(err, errlen, "cannot build the graph: %s", strerror(-ret));
	graph_free(b.g);
	return ret;
}

void graph_free(struct graph *g)
{
	if (!g)
		return;
	free(g->tensors);
	free(g->nodes);
	free(g);
}
