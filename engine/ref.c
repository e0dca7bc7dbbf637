/* Each op below is the formula, written out. Tensors are dense, ne[0] fastest: x[w,n] is n rows of
 * w floats. A sum runs in double and is rounded to float once. */
#include "engine/ref.h"
#include "engine/gguf_internal.h"
#include "engine/quant.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ref {
	const struct graph *g;
	void **buf; /* per tensor; NULL for weights */
	void *scratch;
};

/* One node with its tensors looked up. */
struct op {
	const struct tensor *dst, *src[5];
	void *out;
	const void *in[5]; /* file bytes for weights */
	const struct node *node;
	uint32_t n; /* tokens */
	void *scratch;
};

/* dst[d,n]: row ids[i] of table[d,vocab] */
static int op_embed(const struct op *o)
{
	const struct tensor *table = o->src[0];
	uint64_t d = table->ne[0], row_bytes;
	const int32_t *ids = o->in[1];
	float *dst = o->out;
	int ret = quant_bytes(table->type, d, &row_bytes);

	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < o->n; i++) {
		if (ids[i] < 0 || (uint64_t)ids[i] >= table->ne[1])
			return -EINVAL;
		ret = quant_dequant(table->type,
				    (const char *)o->in[0] + (uint64_t)ids[i] * row_bytes,
				    dst + i * d, d);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* y[w] = x / sqrt(mean(x^2) + eps) * weight */
static void norm_row(const float *x, const float *weight, float *y, uint64_t w, double eps)
{
	double sum = 0.0, scale;

	for (uint64_t i = 0; i < w; i++)
		sum += (double)x[i] * (double)x[i];
	scale = 1.0 / sqrt(sum / (double)w + eps);
	for (uint64_t i = 0; i < w; i++)
		y[i] = (float)((double)x[i] * scale * (double)weight[i]);
}

/* dst[w,n] = rmsnorm of each row of x[w,n], times weight[w] */
static int op_rmsnorm(const struct op *o)
{
	uint64_t w = o->src[0]->ne[0];
	const float *x = o->in[0], *weight = o->in[1];
	float *dst = o->out;

	if (o->src[1]->type != TYPE_F32)
		return -ENOTSUP;
	for (uint32_t i = 0; i < o->n; i++)
		norm_row(x + i * w, weight, dst + i * w, w, (double)o->node->f[0]);
	return 0;
}

/* dst[rows,n] = W[k,rows] x[k,n]: dst[r,i] = sum over k of W[k,r] * x[k,i] */
static int op_matmul(const struct op *o)
{
	const struct tensor *weight = o->src[0];
	uint64_t k = weight->ne[0], rows = weight->ne[1], row_bytes;
	const float *x = o->in[1];
	float *dst = o->out, *w = o->scratch;
	int ret = quant_bytes(weight->type, k, &row_bytes);

	for (uint64_t r = 0; ret >= 0 && r < rows; r++) {
		ret = quant_dequant(weight->type, (const char *)o->in[0] + r * row_bytes, w, k);
		for (uint32_t i = 0; ret >= 0 && i < o->n; i++) {
			double sum = 0.0;

			for (uint64_t j = 0; j < k; j++)
				sum += (double)w[j] * (double)x[i * k + j];
			dst[i * rows + r] = (float)sum;
		}
	}
	return ret;
}

/* dst[heads*hd,n]: each head of x[heads*hd,n] normalised with weight[hd] (if there is one), then
 * the pairs (j, j + hd/2) rotated by the angle pos * theta^(-2j/hd) */
static int op_headnorm_rope(const struct op *o)
{
	uint32_t heads = o->node->u[0], hd = o->node->u[1], half = hd / 2;
	double eps = (double)o->node->f[0], theta = (double)o->node->f[1];
	const float *x = o->in[0], *weight = o->in[1];
	const int32_t *pos = o->in[2];

	if (weight && o->src[1]->type != TYPE_F32)
		return -ENOTSUP;
	for (uint32_t i = 0; i < o->n; i++) {
		for (uint32_t h = 0; h < heads; h++) {
			const float *src = x + ((uint64_t)i * heads + h) * hd;
			float *dst = (float *)o->out + ((uint64_t)i * heads + h) * hd;

			if (weight)
				norm_row(src, weight, dst, hd, eps);
			else
				memcpy(dst, src, hd * sizeof(float));
			for (uint32_t j = 0; j < half; j++) {
				double angle = pos[i] * pow(theta, -2.0 * j / hd);
				double c = cos(angle), s = sin(angle);
				double a = (double)dst[j], b = (double)dst[j + half];

				dst[j] = (float)(a * c - b * s);
				dst[j + half] = (float)(a * s + b * c);
			}
		}
	}
	return 0;
}

/* cache[kvw,ctx]: row pos[i] = row i of x[kvw,n] */
static int op_kv_store(const struct op *o)
{
	uint64_t kvw = o->dst->ne[0];
	const int32_t *pos = o->in[1];
	const float *x = o->in[0];
	float *cache = o->out;

	for (uint32_t i = 0; i < o->n; i++) {
		if (pos[i] < 0 || (uint64_t)pos[i] >= o->dst->ne[1])
			return -EINVAL;
		memcpy(cache + (uint64_t)pos[i] * kvw, x + i * kvw, kvw * sizeof(float));
	}
	return 0;
}

/* One query head over t = 0 .. len-1 cached rows, stride floats apart:
 * p = softmax(q.K[t] / sqrt(hd)), out[hd] = sum over t of p[t] * V[t] */
static void attend(const float *q, const float *keys, const float *values, uint64_t stride,
		   uint64_t len, uint32_t hd, double *p, float *out)
{
	double max = -HUGE_VAL, sum = 0.0;

	for (uint64_t t = 0; t < len; t++) {
		double dot = 0.0;

		for (uint32_t j = 0; j < hd; j++)
			dot += (double)q[j] * (double)keys[t * stride + j];
		p[t] = dot / sqrt((double)hd);
		max = fmax(max, p[t]);
	}
	for (uint64_t t = 0; t < len; t++) {
		p[t] = exp(p[t] - max);
		sum += p[t];
	}
	for (uint32_t j = 0; j < hd; j++) {
		double acc = 0.0;

		for (uint64_t t = 0; t < len; t++)
			acc += p[t] * (double)values[t * stride + j];
		out[j] = (float)(acc / sum);
	}
}

/* dst[h*hd,n] from q[h*hd,n] and the caches K, V [kvw,ctx]: token i sees rows 0 .. pos[i]; query
 * head h reads key/value head h / (heads/kv_heads) */
static int op_attn(const struct op *o)
{
	uint32_t heads = o->node->u[0], kv_heads = o->node->u[1], hd = o->node->u[2];
	uint64_t kvw = o->src[1]->ne[0];
	const float *q = o->in[0], *keys = o->in[1], *values = o->in[2];
	const int32_t *pos = o->in[3];
	float *dst = o->out;

	for (uint32_t i = 0; i < o->n; i++) {
		if (pos[i] < 0 || (uint64_t)pos[i] >= o->src[1]->ne[1])
			return -EINVAL;
		for (uint32_t h = 0; h < heads; h++) {
			uint64_t at = ((uint64_t)i * heads + h) * hd;
			uint64_t kv = (uint64_t)(h / (heads / kv_heads)) * hd;

			attend(q + at, keys + kv, values + kv, kvw, (uint64_t)pos[i] + 1, hd,
			       o->scratch, dst + at);
		}
	}
	return 0;
}

/* dst = a + b, all [w,n] */
static int op_add(const struct op *o)
{
	const float *a = o->in[0], *b = o->in[1];
	float *dst = o->out;

	for (uint64_t i = 0; i < o->dst->ne[0] * o->n; i++)
		dst[i] = a[i] + b[i];
	return 0;
}

/* dst = silu(a) * b, all [w,n]; silu(x) = x / (1 + exp(-x)) */
static int op_silu_mul(const struct op *o)
{
	const float *a = o->in[0], *b = o->in[1];
	float *dst = o->out;

	for (uint64_t i = 0; i < o->dst->ne[0] * o->n; i++)
		dst[i] = (float)((double)a[i] / (1.0 + exp(-(double)a[i])) * (double)b[i]);
	return 0;
}

static int (*const ops[OP_COUNT])(const struct op *o) = {
	[OP_EMBED] = op_embed,       [OP_RMSNORM] = op_rmsnorm,
	[OP_MATMUL] = op_matmul,     [OP_HEADNORM_ROPE] = op_headnorm_rope,
	[OP_KV_STORE] = op_kv_store, [OP_ATTN] = op_attn,
	[OP_ADD] = op_add,           [OP_SILU_MUL] = op_silu_mul,
};

size_t ref_scratch_bytes(const struct graph *g)
{
	/* A dequantised weight row, or the attention weights of one head. */
	size_t bytes = g->n_ctx * sizeof(double);

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];

		if (t->kind == TENSOR_WEIGHT && t->ne[0] * sizeof(float) > bytes)
			bytes = t->ne[0] * sizeof(float);
	}
	return bytes;
}

int ref_op(const struct graph *g, const struct node *node, void *const *buf, uint32_t n,
	   void *scratch)
{
	struct op o = {.node = node, .n = n, .scratch = scratch};

	if ((unsigned)node->op >= OP_COUNT || !ops[node->op])
		return -ENOTSUP;
	if (!n || n > g->n_tokens)
		return -EINVAL;
	o.dst = &g->tensors[node->dst];
	o.out = buf[node->dst];
	for (int i = 0; i < 5; i++) {
		if (node->src[i] < 0)
			continue;
		o.src[i] = &g->tensors[node->src[i]];
		o.in[i] = o.src[i]->kind == TENSOR_WEIGHT ? o.src[i]->file : buf[node->src[i]];
	}
	return ops[node->op](&o);
}

int ref_create(const struct graph *g, struct ref **out, char *err, size_t errlen)
{
	struct ref *r = calloc(1, sizeof(*r));

	if (!r)
		goto nomem;
	r->g = g;
	r->buf = calloc(g->n_tensors, sizeof(*r->buf));
	r->scratch = malloc(ref_scratch_bytes(g));
	if (!r->buf || !r->scratch)
		goto nomem;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		if (g->tensors[i].kind == TENSOR_WEIGHT)
			continue;
		if (g->tensors[i].alias_of >= 0) /* owners precede their aliases */
			continue;
		r->buf[i] = calloc(1, g->tensors[i].bytes);
		if (!r->buf[i])
			goto nomem;
	}
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (g->tensors[i].alias_of >= 0)
			r->buf[i] = r->buf[g->tensors[i].alias_of];
	*out = r;
	return 0;
nomem:
	gguf_fail(err, errlen, "reference: out of memory");
	ref_free(r);
	return -ENOMEM;
}

void ref_free(struct ref *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; r->buf && i < r->g->n_tensors; i++)
		if (r->g->tensors[i].alias_of < 0)
			free(r->buf[i]);
	free(r->buf);
	free(r->scratch);
	free(r);
}

void *ref_buffer(const struct ref *r, int tensor)
{
	return r->buf[tensor];
}

int ref_step(struct ref *r, const int32_t *ids, uint32_t n, uint32_t pos0, float *logits, char *err,
	     size_t errlen)
{
	const struct graph *g = r->g;
	const struct tensor *out = &g->tensors[g->t_logits];
	int32_t *pos = r->buf[g->t_pos];
	int ret;

	if (!n || n > g->n_tokens) {
		gguf_fail(err, errlen, "reference: step of %u tokens; the graph takes 1 to %u", n,
			  g->n_tokens);
		return -EINVAL;
	}
	if (pos0 > g->n_ctx || n > g->n_ctx - pos0) {
		gguf_fail(err, errlen, "reference: positions %u to %llu; the context has %u slots",
			  pos0, (unsigned long long)pos0 + n - 1, g->n_ctx);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (ids[i] < 0 || (uint64_t)ids[i] >= out->ne[0]) {
			gguf_fail(err, errlen,
				  "reference: token id %d; the vocabulary has 0 to %llu", ids[i],
				  (unsigned long long)out->ne[0] - 1);
			return -EINVAL;
		}
		pos[i] = (int32_t)(pos0 + i);
	}
	memcpy(r->buf[g->t_ids], ids, n * sizeof(*ids));
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		ret = ref_op(g, &g->nodes[i], r->buf, n, r->scratch);
		if (ret < 0) {
			gguf_fail(err, errlen, "reference: node %s (%s) failed: %s",
				  g->nodes[i].name, graph_op_name(g->nodes[i].op), strerror(-ret));
			return ret;
		}
	}
	if (logits)
		memcpy(logits, r->buf[g->t_logits], n * out->ne[0] * sizeof(float));
	return 0;
}
