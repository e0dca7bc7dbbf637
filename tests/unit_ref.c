/* The CPU reference against the float64 forward, and each op against its formula. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "engine/model.h"
#include "engine/ref.h"
#include "tests/golden.h"
#include "tests/json_file.h"

/* What an engine that accumulates in F32 is allowed; double sums stay far inside. */
#define TOLERANCE 1e-3

static char err[512];

struct engine {
	struct gguf *g;
	struct model *m;
	struct graph *gr;
	struct ref *r;
};

static struct engine open_engine(const char *path, uint32_t n_tokens, uint32_t n_ctx)
{
	struct engine e = {0};

	cr_assert_eq(gguf_open(path, &e.g, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(e.g, &e.m, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(graph_build(e.m, n_tokens, n_ctx, &e.gr, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(ref_create(e.gr, &e.r, err, sizeof(err)), 0, "%s", err);
	return e;
}

static void close_engine(struct engine *e)
{
	ref_free(e->r);
	graph_free(e->gr);
	model_free(e->m);
	gguf_close(e->g);
}

/* Logits of a prompt in steps of at most step tokens; returns the distance from the golden file. */
static double distance(const char *gguf, const char *gold, const int32_t *ids, uint32_t n,
		       uint32_t step)
{
	struct engine e = open_engine(gguf, step, n);
	size_t vocab = e.m->hp.n_vocab;
	float *want = golden(gold, n * vocab), *got = malloc(n * vocab * sizeof(*got));
	double d;

	for (uint32_t at = 0; at < n; at += step) {
		uint32_t k = n - at < step ? n - at : step;

		cr_assert_eq(ref_step(e.r, ids + at, k, at, got + at * vocab, err, sizeof(err)), 0,
			     "%s", err);
	}
	d = max_diff(got, want, n * vocab);
	free(got);
	free(want);
	close_engine(&e);
	return d;
}

static const char *const demo[] = {"story-4m-f16", "story-4m-q8_0", "story-4m-q4_k_m"};

Test(ref, demo_logits_equal_the_float64_forward, .timeout = 600)
{
	json_t *j = json_testdata("models/demo/prompts.json");
	char gguf[128], gold[128];
	size_t n8, n40;
	int32_t *p8, *p40;

	cr_assert(j);
	p8 = json_ids(json_object_get(j, "prompt8"), &n8);
	p40 = json_ids(json_object_get(j, "prompt40"), &n40);
	cr_assert(n8 == 8 && n40 == 40);
	for (int i = 0; i < 3; i++) {
		double d8, d40, steps;

		snprintf(gguf, sizeof(gguf), "data/demo/%s.gguf", demo[i]);
		snprintf(gold, sizeof(gold), "models/demo/%s.np8.f32", demo[i]);
		d8 = distance(gguf, gold, p8, 8, 8);
		/* Token by token through the cache must be the same as all at once. */
		steps = distance(gguf, gold, p8, 8, 1);
		snprintf(gold, sizeof(gold), "models/demo/%s.np40.f32", demo[i]);
		d40 = distance(gguf, gold, p40, 40, 40);
		steps = fmax(steps, distance(gguf, gold, p40, 40, 7));
		fprintf(stderr,
			"%s: max abs difference %.3g (8 tokens), %.3g (40), %.3g (in steps)\n",
			demo[i], d8, d40, steps);
		cr_assert(d8 <= TOLERANCE && d40 <= TOLERANCE && steps <= TOLERANCE, "%s", demo[i]);
	}
	free(p8);
	free(p40);
	json_decref(j);
}

Test(ref, random_models_of_every_type, .timeout = 600)
{
	json_t *j = json_testdata("models/tiny/manifest.json"), *m;
	char gguf[256], gold[256];
	unsigned ran = 0;
	size_t i;

	if (!j)
		SKIP("ref.random_models_of_every_type", "models/tiny is not here");
	json_array_foreach(json_object_get(j, "models"), i, m)
	{
		const char *name = json_string_value(json_object_get(m, "name"));
		const char *arch = json_string_value(json_object_get(m, "arch"));
		size_t n8, n40;
		int32_t *p8, *p40;
		double d8, d40;

		if (strcmp(arch, "qwen3"))
			continue;
		snprintf(gold, sizeof(gold), "models/tiny/%s.gguf", name);
		cr_assert(testdata(gold), "%s is missing", gold);
		snprintf(gguf, sizeof(gguf), "%s", testdata(gold));
		p8 = json_ids(json_object_get(m, "prompt8"), &n8);
		p40 = json_ids(json_object_get(m, "prompt40"), &n40);
		snprintf(gold, sizeof(gold), "models/tiny/%s.np8.f32", name);
		d8 = distance(gguf, gold, p8, (uint32_t)n8, (uint32_t)n8);
		snprintf(gold, sizeof(gold), "models/tiny/%s.np40.f32", name);
		d40 = distance(gguf, gold, p40, (uint32_t)n40, (uint32_t)n40);
		fprintf(stderr, "%s: max abs difference %.3g (8 tokens), %.3g (40)\n", name, d8,
			d40);
		cr_assert(d8 <= TOLERANCE && d40 <= TOLERANCE, "%s", name);
		ran++;
		free(p8);
		free(p40);
	}
	cr_assert_eq(ran, 7);
	json_decref(j);
}

Test(ref, greedy_ids_equal_the_float64_forward, .timeout = 600)
{
	json_t *j = json_testdata("models/demo/greedy64.json");
	size_t n_prompt, n_want;
	int32_t *prompt, *want;
	char path[128];

	cr_assert(j);
	prompt = json_ids(json_object_get(j, "prompt_ids"), &n_prompt);
	for (int i = 0; i < 3; i++) {
		json_t *m = json_object_get(json_object_get(j, "models"), demo[i]);
		double gap = json_number_value(json_object_get(m, "min_gap"));
		uint32_t pos = 0, vocab;
		struct engine e;
		double min = HUGE_VAL;
		float *logits;

		want = json_ids(json_object_get(m, "ids"), &n_want);
		cr_assert_eq(n_want, 64);
		snprintf(path, sizeof(path), "data/demo/%s.gguf", demo[i]);
		e = open_engine(path, (uint32_t)n_prompt, 128);
		vocab = e.m->hp.n_vocab;
		logits = malloc(n_prompt * vocab * sizeof(*logits));
		cr_assert_eq(ref_step(e.r, prompt, (uint32_t)n_prompt, 0, logits, err, sizeof(err)),
			     0, "%s", err);
		memmove(logits, logits + (n_prompt - 1) * vocab, vocab * sizeof(*logits));
		pos = (uint32_t)n_prompt;
		for (size_t k = 0; k < 64; k++) {
			int32_t best = 0, second = -1;

			for (uint32_t t = 1; t < vocab; t++) {
				if (logits[t] > logits[best]) {
					second = best;
					best = (int32_t)t;
				} else if (second < 0 || logits[t] > logits[second]) {
					second = (int32_t)t;
				}
			}
			cr_assert_eq(best, want[k], "%s: token %zu is %d, want %d", demo[i], k,
				     best, want[k]);
			min = fmin(min, (double)logits[best] - (double)logits[second]);
			cr_assert_eq(ref_step(e.r, &best, 1, pos++, logits, err, sizeof(err)), 0);
		}
		/* The nearest tie is where the float64 forward says, and no closer. */
		cr_assert_float_eq(min, gap, 1e-4, "%s: smallest gap %g, want %g", demo[i], min,
				   gap);
		free(logits);
		free(want);
		close_engine(&e);
	}
	free(prompt);
	json_decref(j);
}

/* A graph of one node over tensors given by width and rows. */
struct bench {
	struct tensor t[8];
	struct node n;
	struct graph g;
	void *buf[8];
	double scratch[64];
};

static void bench_tensor(struct bench *b, int i, enum tensor_kind kind, enum ggml_type type,
			 uint64_t ne0, uint64_t ne1, void *data)
{
	b->t[i] = (struct tensor){
		.kind = kind, .type = type, .ne = {ne0, ne1, 1, 1}, .alias_of = -1, .index = i};
	if (kind == TENSOR_WEIGHT)
		b->t[i].file = data;
	else
		b->buf[i] = data;
}

/* Tensor 0 is dst; sources follow in order, up to n_src. */
static int bench_run(struct bench *b, enum graph_op op, int n_src, uint32_t tokens)
{
	b->n.op = op;
	b->n.dst = 0;
	for (int i = 0; i < 5; i++)
		b->n.src[i] = i < n_src ? i + 1 : -1;
	b->g = (struct graph){.tensors = b->t,
			      .n_tensors = 8,
			      .nodes = &b->n,
			      .n_nodes = 1,
			      .n_tokens = 4,
			      .n_ctx = 16};
	return ref_op(&b->g, &b->n, b->buf, tokens, b->scratch);
}

static void near(const float *got, const float *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cr_assert_float_eq(got[i], want[i], 2e-7f * fmaxf(1.0f, fabsf(want[i])),
				   "[%zu] is %.9g, want %.9g", i, (double)got[i], (double)want[i]);
}

Test(ops, embed)
{
	float table[] = {1, 2, 3, 4, 5, 6}, out[4] = {0};
	int32_t ids[] = {2, 0, 3};
	struct bench b = {0};

	bench_tensor(&b, 0, TENSOR_ACTIVATION, TYPE_F32, 2, 4, out);
	bench_tensor(&b, 1, TENSOR_WEIGHT, TYPE_F32, 2, 3, table);
	bench_tensor(&b, 2, TENSOR_INPUT, TYPE_I32, 4, 1, ids);
	cr_assert_eq(bench_run(&b, OP_EMBED, 2, 2), 0);
	near(out, (float[]){5, 6, 1, 2}, 4);
	cr_assert_eq(bench_run(&b, OP_EMBED, 2, 3), -EINVAL); /* id 3 of 0 to 2 */
	ids[0] = -1;
	cr_assert_eq(bench_run(&b, OP_EMBED, 2, 1), -EINVAL);
	b.t[1].type = TYPE_I32;
	ids[0] = 0;
	cr_assert_eq(bench_run(&b, OP_EMBED, 2, 1), -ENOTSUP);
}

Test(ops, rmsnorm)
{
	float x[] = {3, 4, 0, 0}, w[] = {1, 2}, out[4];
	float r = sqrtf(12.5f);
	struct bench b = {0};

	bench_tensor(&b, 0, TENSOR_ACTIVATION, TYPE_F32, 2, 4, out);
	bench_tensor(&b, 1, TENSOR_ACTIVATION, TYPE_F32, 2, 4, x);
	bench_tensor(&b, 2, TENSOR_WEIGHT, TYPE_F32, 2, 1, w);
	b.n.f[0] = 0.0f;
	cr_assert_eq(bench_run(&b, OP_RMSNORM, 2, 1), 0);
	near(out, (float[]){3 / r, 8 / r}, 2);
	b.n.f[0] = 12.5f; /* eps counts: sqrt(25) */
	cr_assert_eq(bench_run(&b, OP_RMSNORM, 2, 2), 0);
	near(out, (float[]){0.6f, 1.6f, 0, 0}, 4);
}

Test(ops, matmul)
{
	float w[] = {1, 2, 3, 4, 5, 6}, x[] = {1, 10, 0, -1}, out[6];
	struct bench b = {0};

	bench_tensor(&b, 0, TENSOR_ACTIVATION, TYPE_F32, 3, 4, out);
	bench_tensor(&b, 1, TENSOR_WEIGHT, TYPE_F32, 2, 3, w);
	bench_tensor(&b, 2, TENSOR_ACTIVATION, TYPE_F32, 2, 4, x);
	cr_assert_eq(bench_run(&b, OP_MATMUL, 2, 2), 0);
	near(out, (float[]){21, 43, 65, -2, -4, -6}, 6);
	b.t[1].type = TYPE_MXFP4;
	cr_assert_lt(bench_run(&b, OP_MATMUL, 2, 2), 0);
}

Test(ops, headnorm_rope)
{
	/* Two heads of four, at positions 0 and 2; theta 16: angles pos and pos/4. */
	float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0, 0, 0, 1}, out[16], w[] = {1, 1, 1, 2};
	float c1 = cosf(2.0f), s1 = sinf(2.0f), c2 = cosf(0.5f), s2 = sinf(0.5f);
	int32_t pos[] = {0, 2};
	struct bench b = {0};

	bench_tensor(&b, 0, TENSOR_ACTIVATION, TYPE_F32, 8, 4, out);
	bench_tensor(&b, 1, TENSOR_ACTIVATION, TYPE_F32, 8, 4, x);
	bench_tensor(&b, 2, TENSOR_WEIGHT, TYPE_F32, 4, 1, w);
	bench_tensor(&b, 3, TENSOR_INPUT, TYPE_I32, 4, 1, pos);
	b.n.u[0] = 2;
	b.n.u[1] = 4;
	b.n.f[1] = 16.0f;
	cr_assert_eq(bench_run(&b, OP_HEADNORM_ROPE, 3, 2), 0);
	/* rms of 1 0 0 0 is 1/2 */
	near(out + 8, (float[]){2 * c1, 0, 2 * s1, 0, 0, -4 * s2, 0, 4 * c2}, 8);
	near(out, (float[]){1 / sqrtf(7.5f), 2 / sqrtf(7.5f), 3 / sqrtf(7.5f), 8 / sqrtf(7.5f)}, 4);
	/* No weight: no norm either. */
	b.n.src[1] = -1;
	cr_assert_eq(ref_op(&b.g, &b.n, b.buf, 2, b.scratch), 0);
	near(out, x, 8);
	near(out + 8, (float[]){c1, 0, s1, 0, 0, -s2, 0, c2}, 8);
}

Test(ops, kv_store)
{
	float cache[32], x[] = {1, 2, 3, 4};
	int32_t pos[] = {5, 15};
	struct bench b = {0};

	memset(cache, 0, sizeof(cache));
	bench_tensor(&b, 0, TENSOR_KV, TYPE_F32, 2, 16, cache);
	bench_tensor(&b, 1, TENSOR_ACTIVATION, TYPE_F32, 2, 4, x);
	bench_tensor(&b, 2, TENSOR_INPUT, TYPE_I32, 4, 1, pos);
	cr_assert_eq(bench_run(&b, OP_KV_STORE, 2, 2), 0);
	for (int i = 0; i < 32; i++)
		cr_assert_eq(cache[i], (i / 2 == 5 ? x[i % 2] : i / 2 == 15 ? x[2 + i % 2] : 0.0f));
	pos[0] = 16;
	cr_assert_eq(bench_run(&b, OP_KV_STORE, 2, 1), -EINVAL);
	pos[0] = -1;
	cr_assert_eq(bench_run(&b, OP_KV_STORE, 2, 1), -EINVAL);
}

Test(ops, attn)
{
	/* Four query heads over two cached ones, head width 1. Row 2 must stay unseen at pos 1. */
	float q[] = {0, 1, 2, 0}, k[] = {1, 1, 2, 3, 99, 99}, v[] = {10, 20, 30, 40, 1e9f, 1e9f};
	float out[4];
	int32_t pos[] = {1};
	double e = exp(1.0), e4 = exp(4.0);
	struct bench b = {0};

	bench_tensor(&b, 0, TENSOR_ACTIVATION, TYPE_F32, 4, 4, out);
	bench_tensor(&b, 1, TENSOR_ACTIVATION, TYPE_F32, 4, 4, q);
	bench_tensor(&b, 2, TENSOR_KV, TYPE_F32, 2, 3, k);
	bench_tensor(&b, 3, TENSOR_KV, TYPE_F32, 2, 3, v);
	bench_tensor(&b, 4, TENSOR_INPUT, TYPE_I32, 4, 1, pos);
	b.n.u[0] = 4;
	b.n.u[1] = 2;
	b.n.u[2] = 1;
	cr_assert_eq(bench_run(&b, OP_ATTN, 4, 1), 0);
	near(out,
	     (float[]){20, (float)((10 + 30 * e) / (1 + e)), (float)((20 + 40 * e4) / (1 + e4)),
		       30},
	     4);
	pos[0] = 3;
	cr_assert_eq(bench_run(&b, OP_ATTN, 4, 1), -EINVAL);
	/* The scale is 1/sqrt(hd): one head of two, scores 0 and sqrt(2). */
	pos[0] = 1;
	bench_tensor(&b, 1, TENSOR_ACTIVATION, TYPE_F32, 2, 4, (float[]){1, 1});
	bench_tensor(&b, 2, TENSOR_KV, TYPE_F32, 2, 3, (float[]){0, 0, 1, 1, 0, 0});
	bench_tensor(&b, 3, TENSOR_KV, TYPE_F32, 2, 3, (float[]){0, 2, 1, 3, 0, 0});
	b.n.u[0] = b.n.u[1] = 1;
	b.n.u[2] = 2;
	cr_assert_eq(bench_run(&b, OP_ATTN, 4, 1), 0);
	e = exp(sqrt(2.0)) / (1 + exp(sqrt(2.0)));
	near(out, (float[]){(float)e, (float)(2 + e)}, 2);
}

Test(ops, elementwise)
{
	float a[] = {1, -2, 0, 88}, c[] = {10, 20, 30, -1}, out[4];
	struct bench b = {0};

	bench_tensor(&b, 0, TENSOR_ACTIVATION, TYPE_F32, 2, 4, out);
	bench_tensor(&b, 1, TENSOR_ACTIVATION, TYPE_F32, 2, 4, a);
	bench_tensor(&b, 2, TENSOR_ACTIVATION, TYPE_F32, 2, 4, c);
	cr_assert_eq(bench_run(&b, OP_ADD, 2, 2), 0);
	near(out, (float[]){11, 18, 30, 87}, 4);
	cr_assert_eq(bench_run(&b, OP_SILU_MUL, 2, 2), 0);
	near(out, (float[]){(float)(10 / (1 + exp(-1.0))), (float)(-40 / (1 + exp(2.0))), 0, -88},
	     4);
	/* dst may be a source. */
	b.buf[0] = a;
	cr_assert_eq(bench_run(&b, OP_ADD, 2, 2), 0);
	near(a, (float[]){11, 18, 30, 87}, 4);
	/* -1e4 would overflow exp(1e4): silu is 0 there, not NaN. */
	a[0] = -1e4f;
	b.buf[0] = out;
	cr_assert_eq(bench_run(&b, OP_SILU_MUL, 2, 1), 0);
	cr_assert_eq(out[0], 0.0f);
	cr_assert_eq(bench_run(&b, OP_COUNT, 2, 1), -ENOTSUP);
	cr_assert_eq(bench_run(&b, OP_ADD, 2, 5), -EINVAL);
	cr_assert_eq(bench_run(&b, OP_ADD, 2, 0), -EINVAL);
}

Test(ref, steps_are_checked)
{
	struct engine e = open_engine("data/demo/story-4m-q4_k_m.gguf", 2, 4);
	int32_t ids[] = {1, 2048};
	float logits = 7.0f;

	cr_assert_eq(ref_step(e.r, ids, 3, 0, &logits, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "3 tokens") && strstr(err, "1 to 2"), "%s", err);
	cr_assert_eq(ref_step(e.r, ids, 2, 3, &logits, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "3 to 4") && strstr(err, "4 slots"), "%s", err);
	cr_assert_eq(ref_step(e.r, ids, 2, 0, &logits, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "2048") && strstr(err, "2047"), "%s", err);
	cr_assert_eq(ref_step(e.r, ids, 1, UINT32_MAX, &logits, err, sizeof(err)), -EINVAL);
	cr_assert_eq(logits, 7.0f, "output touched");
	close_engine(&e);
}

Test(graph, shape_of_the_demo)
{
	struct engine e = open_engine("data/demo/story-4m-f16.gguf", 3, 64);
	const struct graph *g = e.gr;
	unsigned weights = 0, kv = 0, count[OP_COUNT] = {0};
	uint64_t weight_bytes = 0;

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];

		cr_assert(t->index == (int)i && t->name[0]);
		weights += t->kind == TENSOR_WEIGHT;
		weight_bytes += t->kind == TENSOR_WEIGHT ? t->bytes : 0;
		if (t->kind == TENSOR_KV) {
			kv++;
			cr_assert(t->ne[0] == 128 && t->ne[1] == 64 && t->bytes == 128 * 64 * 4);
		}
	}
	/* Each tensor of the file once: the tied embedding is one weight. */
	cr_assert_eq(weights, e.g->n_tensors);
	cr_assert_eq(weight_bytes, e.m->weight_bytes);
	cr_assert_eq(kv, 10);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];

		count[n->op]++;
		cr_assert(n->name[0] && n->dst >= 0 && n->dst < (int)g->n_tensors);
	}
	/* Per layer: 2 norms, 7 matmuls, 2 head norms, 2 stores, 1 attention, 2 adds, 1 silu. */
	cr_assert(count[OP_EMBED] == 1 && count[OP_RMSNORM] == 11 && count[OP_MATMUL] == 36);
	cr_assert(count[OP_HEADNORM_ROPE] == 10 && count[OP_KV_STORE] == 10 && count[OP_ATTN] == 5);
	cr_assert(count[OP_ADD] == 10 && count[OP_SILU_MUL] == 5);
	cr_assert_eq(g->tensors[g->t_logits].kind, TENSOR_OUTPUT);
	cr_assert(g->tensors[g->t_logits].ne[0] == 2048 && g->tensors[g->t_logits].ne[1] == 3);
	cr_assert_eq(g->nodes[g->n_nodes - 1].dst, g->t_logits);
	cr_assert_str_eq(graph_op_name(OP_ATTN), "attn");
	cr_assert_str_eq(graph_op_name(OP_COUNT), "unknown");
	close_engine(&e);
}
