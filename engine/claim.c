#include "engine/claim.h"
#include "engine/layout.h"
#include "engine/quant.h"
#include "kernels/kernargs.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LOG2E 1.44269504088896340736

static uint32_t round_up(uint64_t v, uint32_t to)
{
	return (uint32_t)((v + to - 1) / to * to);
}

static bool decline(struct claim *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool decline(struct claim *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, ap);
	va_end(ap);
	c->kernel[0] = 0;
	return false;
}

/* Takes the kernel unless it is switched off, missing, or wants other arguments. */
static bool take(struct claim *c, const struct claim_kernels *k, const char *op, uint32_t args,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static bool take(struct claim *c, const struct claim_kernels *k, const char *op, uint32_t args,
		 const char *fmt, ...)
{
	char name[sizeof(c->kernel)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	for (unsigned i = 0; i < k->n_disabled; i++)
		if (!strcmp(k->disabled[i], name) || !strcmp(k->disabled[i], op))
			return decline(c, "kernel %s is disabled", name);
	if (k->kernarg_bytes) {
		uint32_t has = k->kernarg_bytes(k->ctx, name);

		if (!has)
			return decline(c, "no kernel %s in the code objects", name);
		if (has != args)
			return decline(c, "kernel %s takes %u argument bytes; the engine passes %u",
				       name, has, args);
	}
	memcpy(c->kernel, name, sizeof(name));
	c->kernarg_bytes = args;
	return true;
}

static void shape(struct claim *c, uint32_t gx, uint32_t gy, uint32_t gz, uint16_t group)
{
	c->grid[0] = gx;
	c->grid[1] = gy;
	c->grid[2] = gz;
	c->group[0] = group;
	c->group[1] = c->group[2] = 1;
}

/* A two-dimensional weight with a device layout whose rows suit the kernels. */
static const struct layout *weight_layout(struct claim *c, const struct tensor *w)
{
	const struct layout *l = layout_of(w->type);
	uint64_t bytes;

	if (!l)
		decline(c, "%s: type %s has no device layout", w->name, quant_name(w->type));
	else if (w->ne[2] != 1 || w->ne[3] != 1)
		decline(c, "%s: more than two dimensions", w->name);
	else if (w->ne[0] % 8 || layout_bytes(l, w->ne[0], w->ne[1], &bytes) < 0)
		decline(c, "%s: rows of %llu are not whole groups of %u", w->name,
			(unsigned long long)w->ne[0], l->block > 8 ? l->block : 8);
	else if (w->ne[0] > UINT32_MAX / 4 || w->ne[1] > UINT32_MAX - KA_MATMUL_WIDE_ROWS)
		decline(c, "%s: larger than 32-bit indices", w->name);
	else
		return l;
	return NULL;
}

static bool vector_ok(struct claim *c, const struct tensor *w, uint64_t width)
{
	if (w && w->type != TYPE_F32)
		return decline(c, "%s: type %s, the kernel reads F32", w->name,
			       quant_name(w->type));
	if (width % 4 || width > UINT32_MAX / 4)
		return decline(c, "width %llu is not a multiple of 4", (unsigned long long)width);
	return true;
}

static uint16_t rmsnorm_threads(uint64_t d)
{
	/* Two turns of four elements, at least a wave, at most eight. */
	uint64_t t = round_up(d / 8, 32);

	return t < 32 ? 32 : t > 256 ? 256 : (uint16_t)t;
}

static void claim_embed(const struct graph *g, const struct node *n, const struct claim_kernels *k,
			struct claim *c)
{
	const struct tensor *w = &g->tensors[n->src[0]];
	const struct layout *l = weight_layout(c, w);

	if (l && take(c, k, "embed", sizeof(struct ka_embed), "embed_%s", l->name))
		shape(c, round_up(w->ne[0], 128), g->n_tokens, 1, 128);
}

static void claim_rmsnorm(const struct graph *g, const struct node *n,
			  const struct claim_kernels *k, struct claim *c)
{
	const struct tensor *w = &g->tensors[n->src[1]];
	uint16_t threads = rmsnorm_threads(w->ne[0]);

	if (vector_ok(c, w, w->ne[0]) &&
	    take(c, k, "rmsnorm", sizeof(struct ka_rmsnorm), "rmsnorm"))
		shape(c, threads, g->n_tokens, 1, threads);
}

static void claim_matmul(const struct graph *g, const struct node *n, const struct claim_kernels *k,
			 struct claim *c)
{
	const struct tensor *w = &g->tensors[n->src[0]];
	const struct layout *l = weight_layout(c, w);
	uint32_t cols = g->n_tokens, rows = KA_MATMUL_GROUP_ROWS;

	if (!l)
		return;
	/* Four, or sixteen, columns at a time read each weight so much more seldom. */
	if (g->n_tokens > KA_MATMUL_COLUMNS &&
	    take(c, k, "matmul", sizeof(struct ka_matmul), "matmul_%s_x16", l->name)) {
		cols = round_up(cols, KA_MATMUL_WIDE) / KA_MATMUL_WIDE;
		rows = KA_MATMUL_WIDE_ROWS;
	} else if (g->n_tokens > 1 &&
		   take(c, k, "matmul", sizeof(struct ka_matmul), "matmul_%s_x4", l->name))
		cols = round_up(cols, KA_MATMUL_COLUMNS) / KA_MATMUL_COLUMNS;
	else if (!take(c, k, "matmul", sizeof(struct ka_matmul), "matmul_%s", l->name))
		return;
	shape(c, round_up(w->ne[1], rows) / rows * 32 * KA_MATMUL_WAVES, cols, 1,
	      32 * KA_MATMUL_WAVES);
}

static void claim_headnorm_rope(const struct graph *g, const struct node *n,
				const struct claim_kernels *k, struct claim *c)
{
	const struct tensor *w = n->src[1] < 0 ? NULL : &g->tensors[n->src[1]];
	uint32_t heads = n->u[0], hd = n->u[1];

	if (hd % 2 || !heads)
		decline(c, "%u heads of %u: not pairs", heads, hd);
	else if (vector_ok(c, w, (uint64_t)heads * hd) &&
		 take(c, k, "headnorm_rope", sizeof(struct ka_headnorm_rope), "headnorm_rope"))
		shape(c, heads * 32, g->n_tokens, 1, 32);
}

static void claim_kv_store(const struct graph *g, const struct node *n,
			   const struct claim_kernels *k, struct claim *c)
{
	uint64_t w = g->tensors[n->dst].ne[0];

	if (vector_ok(c, &g->tensors[n->dst], w) &&
	    take(c, k, "kv_store", sizeof(struct ka_kv_store), "kv_store"))
		shape(c, round_up(w / 4, 128), g->n_tokens, 1, 128);
}

static void claim_attn(const struct graph *g, const struct node *n, const struct claim_kernels *k,
		       struct claim *c)
{
	const struct tensor *kc = &g->tensors[n->src[1]], *vc = &g->tensors[n->src[2]];
	uint32_t heads = n->u[0], kv = n->u[1], hd = n->u[2], tiles = g->n_tokens;

	if (hd != 64 && hd != 128)
		decline(c, "heads of %u: there are kernels for 64 and 128", hd);
	else if (!kv || heads % kv)
		decline(c, "%u heads over %u KV heads", heads, kv);
	else if (kc->bytes > UINT32_MAX || vc->bytes > UINT32_MAX)
		decline(c, "a cache of %llu bytes is beyond 32-bit offsets",
			(unsigned long long)kc->bytes);
	else if (!vector_ok(c, kc, kc->ne[0]) || !vector_ok(c, vc, vc->ne[0]))
		return;
	else if (g->n_tokens > 1 && take(c, k, "attn", sizeof(struct ka_attn), "attn_h%u_x8", hd))
		tiles = round_up(tiles, KA_ATTN_WIDE) / KA_ATTN_WIDE;
	else
		take(c, k, "attn", sizeof(struct ka_attn), "attn_h%u", hd);
	if (kv && c->kernel[0])
		shape(c, heads / kv * 32 * KA_ATTN_WAVES, kv, tiles, 32 * KA_ATTN_WAVES);
}

static void claim_binary(const struct graph *g, const struct node *n, const struct claim_kernels *k,
			 struct claim *c)
{
	const char *op = graph_op_name(n->op);
	uint64_t w = g->tensors[n->dst].ne[0];

	if (vector_ok(c, NULL, w) && take(c, k, op, sizeof(struct ka_binary), "%s", op))
		shape(c, round_up(w / 4, 128), g->n_tokens, 1, 128);
}

static void (*const claims[OP_COUNT])(const struct graph *g, const struct node *n,
				      const struct claim_kernels *k, struct claim *c) = {
	[OP_EMBED] = claim_embed,       [OP_RMSNORM] = claim_rmsnorm,
	[OP_MATMUL] = claim_matmul,     [OP_HEADNORM_ROPE] = claim_headnorm_rope,
	[OP_KV_STORE] = claim_kv_store, [OP_ATTN] = claim_attn,
	[OP_ADD] = claim_binary,        [OP_SILU_MUL] = claim_binary,
};

void claim_node(const struct graph *g, const struct node *node, const struct claim_kernels *k,
		struct claim *out)
{
	memset(out, 0, sizeof(*out));
	if (!node) {
		if (take(out, k, CLAIM_FINISH, sizeof(struct ka_finish), CLAIM_FINISH))
			shape(out, 32, 1, 1, 32);
	} else if ((unsigned)node->op >= OP_COUNT || !claims[node->op]) {
		decline(out, "no kernel computes this operation");
	} else {
		claims[node->op](g, node, k, out);
	}
}

void claim_kernargs(const struct graph *g, const struct node *node, const struct claim *claim,
		    const struct claim_env *env, void *out)
{
	const struct tensor *t = g->tensors;
	uint64_t va[5], y;
	union {
		struct ka_embed embed;
		struct ka_rmsnorm rmsnorm;
		struct ka_matmul matmul;
		struct ka_headnorm_rope rope;
		struct ka_kv_store kv_store;
		struct ka_attn attn;
		struct ka_binary binary;
		struct ka_finish finish;
	} a;

	memset(&a, 0, sizeof(a));
	if (!node) {
		a.finish = (struct ka_finish){.step = env->step, .done = env->done};
		memcpy(out, &a, claim->kernarg_bytes);
		return;
	}
	y = env->va[node->dst];
	for (int i = 0; i < 5; i++)
		va[i] = node->src[i] < 0 ? 0 : env->va[node->src[i]];
	switch (node->op) {
	case OP_EMBED: {
		const struct tensor *w = &t[node->src[0]];

		a.embed = (struct ka_embed){
			.step = env->step,
			.w = va[0],
			.ids = va[1],
			.y = y,
			.d = (uint32_t)w->ne[0],
			.row_bytes = (uint32_t)layout_row_bytes(layout_of(w->type), w->ne[0]),
		};
		break;
	}
	case OP_RMSNORM:
		a.rmsnorm = (struct ka_rmsnorm){
			.step = env->step,
			.x = va[0],
			.w = va[1],
			.y = y,
			.d = (uint32_t)t[node->dst].ne[0],
			.eps = node->f[0],
			.inv_d = (float)(1.0 / (double)t[node->dst].ne[0]),
			.threads = claim->group[0],
		};
		break;
	case OP_MATMUL: {
		const struct tensor *w = &t[node->src[0]];
		bool logits = node->dst == g->t_logits;

		a.matmul = (struct ka_matmul){
			.step = env->step,
			.first = env->step + (logits ? offsetof(struct ka_step, first)
						     : offsetof(struct ka_step, zero)),
			.w = va[0],
			.x = va[1],
			.y = y,
			.k = (uint32_t)w->ne[0],
			.rows = (uint32_t)w->ne[1],
			.row_bytes = (uint32_t)layout_row_bytes(layout_of(w->type), w->ne[0]),
		};
		break;
	}
	case OP_HEADNORM_ROPE:
		a.rope = (struct ka_headnorm_rope){
			.step = env->step,
			.x = va[0],
			.w = va[1],
			.pos = va[2],
			.y = y,
			.freq = env->freq,
			.hd = node->u[1],
			.stride = node->u[0] * node->u[1],
			.eps = node->f[0],
			.inv_hd = (float)(1.0 / node->u[1]),
		};
		break;
	case OP_KV_STORE:
		a.kv_store = (struct ka_kv_store){
			.step = env->step,
			.x = va[0],
			.pos = va[1],
			.cache = y,
			.width = (uint32_t)t[node->dst].ne[0],
		};
		break;
	case OP_ATTN:
		a.attn = (struct ka_attn){
			.step = env->step,
			.q = va[0],
			.kc = va[1],
			.vc = va[2],
			.pos = va[3],
			.y = y,
			.per_kv = node->u[0] / node->u[1],
			.q_stride = node->u[0] * node->u[2],
			.kv_stride = (uint32_t)t[node->src[1]].ne[0],
			.scale_log2e = (float)(LOG2E / sqrt((double)node->u[2])),
		};
		break;
	case OP_ADD:
	case OP_SILU_MUL:
		a.binary = (struct ka_binary){
			.step = env->step,
			.a = va[0],
			.b = va[1],
			.y = y,
			.width = (uint32_t)t[node->dst].ne[0],
		};
		break;
	case OP_COUNT:
		break;
	}
	memcpy(out, &a, claim->kernarg_bytes);
}

void claim_rope_table(uint32_t hd, double theta, uint64_t *out)
{
	const long double turn = 6.283185307179586476925286766559L;

	for (uint32_t i = 0; i < hd / 2; i++) {
		long double f = powl(theta, -2.0L * i / hd) / turn;

		out[i] = (uint64_t)ldexpl(f - floorl(f), 64);
	}
}
