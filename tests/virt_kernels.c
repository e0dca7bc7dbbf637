/* Every kernel against its op of the CPU reference, on random inputs, through a real queue. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "codeobj/codeobj.h"
#include "engine/claim.h"
#include "engine/layout.h"
#include "engine/quant.h"
#include "engine/ref.h"
#include "kernels/kernargs.h"
#include "kernels/kernels.h"
#include "queues/device.h"
#include "tests/json_file.h"

#define MAX_TENSORS 6
#define CANARY      0x7fc0beefu /* a NaN no kernel computes */
#define GUARD       64u         /* floats behind each destination that must stay as they were */

static char err[512];

/* ---- one node on the device ---------------------------------------------------------- */

struct rig {
	struct bw_device dev;
	struct signal *signal;
	struct graph g;
	struct tensor t[MAX_TENSORS];
	struct node node;
	struct bo *bo[MAX_TENSORS];
	void *host[MAX_TENSORS]; /* copies the reference works on; NULL for weights */
	struct bo *step, *kernarg, *freq;
	uint32_t live, first;
};

static void rig_up(struct rig *r, uint32_t n_tokens, uint32_t n_ctx)
{
	memset(r, 0, sizeof(*r));
	cr_assert_eq(bw_device_open(NULL, &r->dev, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(signal_create(r->dev.queue, 0, &r->signal), 0, "%s", kfd_reason());
	r->g = (struct graph){.tensors = r->t,
			      .nodes = &r->node,
			      .n_nodes = 1,
			      .n_tokens = n_tokens,
			      .n_ctx = n_ctx,
			      .t_ids = -1,
			      .t_pos = -1,
			      .t_logits = -1};
	r->live = n_tokens;
	memset(r->node.src, -1, sizeof(r->node.src));
}

static struct bo *buffer(struct rig *r, const char *owner, uint64_t bytes, enum bo_coherence c)
{
	struct bo_desc d = {
		.owner = owner, .size = bytes, .placement = BO_GTT, .coherence = c, .host = true};
	struct bo *bo;

	cr_assert_eq(bo_create(r->dev.memory, &d, &bo), 0, "%s: %s", owner, kfd_reason());
	return bo;
}

static int add_tensor(struct rig *r, enum tensor_kind kind, enum ggml_type type, uint64_t ne0,
		      uint64_t ne1, const void *file)
{
	int i = (int)r->g.n_tensors++;
	struct tensor *t = &r->t[i];
	uint64_t bytes = ne0 * ne1 * 4;

	*t = (struct tensor){.kind = kind,
			     .type = type,
			     .ne = {ne0, ne1, 1, 1},
			     .bytes = bytes,
			     .file = file,
			     .alias_of = -1,
			     .index = i};
	snprintf(t->name, sizeof(t->name), "tensor%d", i);
	if (kind == TENSOR_WEIGHT) {
		const struct layout *l = layout_of(type);

		cr_assert_eq(layout_bytes(l, ne0, ne1, &bytes), 0);
		r->bo[i] = buffer(r, t->name, bytes, BO_COARSE);
		layout_store(l, file, bo_host(r->bo[i]), ne0, ne1);
		return i;
	}
	r->bo[i] = buffer(r, t->name, bytes + GUARD * 4, BO_COARSE);
	r->host[i] = malloc(bytes + GUARD * 4);
	for (uint64_t k = 0; k < bytes / 4 + GUARD; k++)
		((uint32_t *)r->host[i])[k] = CANARY;
	memcpy(bo_host(r->bo[i]), r->host[i], bytes + GUARD * 4);
	return i;
}

/* Sets a tensor's contents on both sides. */
static void fill(struct rig *r, int i, const void *data, uint64_t bytes)
{
	memcpy(r->host[i], data, bytes);
	memcpy(bo_host(r->bo[i]), data, bytes);
}

static void dispatch(struct rig *r, const struct claim *c, const char *want_kernel)
{
	const struct kernels_embedded *k = kernels_embedded;
	const struct co_kernel *ck = NULL;
	struct codeobj *co = NULL;
	struct co_program *prog;
	struct aql_dispatch d;
	struct queue_batch b;
	struct queue_fault fault;
	uint64_t va[MAX_TENSORS];
	struct claim_env env = {.va = va};
	struct ka_step *step;
	int ret;

	cr_assert_str_eq(c->kernel, want_kernel, "%s", c->reason);
	for (; k->name; k++) {
		if (!strcmp(k->name, "trap"))
			continue;
		cr_assert_eq(co_parse(k->begin,
				      (size_t)((const char *)k->end - (const char *)k->begin), &co,
				      err, sizeof(err)),
			     0, "%s: %s", k->name, err);
		ck = co_find(co, c->kernel);
		if (ck)
			break;
		co_free(co);
	}
	cr_assert(ck, "no kernel %s is embedded", c->kernel);
	cr_assert_eq(ck->kernarg_bytes, c->kernarg_bytes, "%s", c->kernel);
	cr_assert_eq(ck->private_bytes, 0, "%s uses scratch", c->kernel);
	cr_assert_eq(co_load(r->dev.memory, co, "code", &prog, err, sizeof(err)), 0, "%s", err);
	for (uint32_t i = 0; i < r->g.n_tensors; i++)
		va[i] = bo_va(r->bo[i]);
	r->step = buffer(r, "step", 4096, BO_UNCACHED);
	r->kernarg = buffer(r, "kernarg", 4096, BO_UNCACHED);
	step = bo_host(r->step);
	*step = (struct ka_step){.step = 0x1234567890ull, .n = r->live, .first = r->first};
	env.step = bo_va(r->step);
	env.done = bo_va(r->step) + 2048;
	if (r->freq)
		env.freq = bo_va(r->freq);
	claim_kernargs(&r->g, r->g.n_nodes ? &r->node : NULL, c, &env, bo_host(r->kernarg));
	d = (struct aql_dispatch){
		.kernel_object = co_kernel_object(prog, c->kernel),
		.kernarg = bo_va(r->kernarg),
		.grid = {c->grid[0], c->grid[1], c->grid[2]},
		.group = {c->group[0], c->group[1], c->group[2]},
		.group_bytes = ck->group_bytes,
		.completion = r->signal,
		.acquire_system = true,
		.release_system = true,
	};
	signal_set(r->signal, 1);
	cr_assert_eq(queue_begin(r->dev.queue, 1, &b), 0);
	queue_dispatch(&b, &d);
	queue_commit(&b);
	ret = signal_wait(r->dev.queue, r->signal, 1, 100000000000ull, &fault);
	cr_assert_eq(ret, 0, "%s: %s: %s", c->kernel, strerror(-ret),
		     ret == -EFAULT ? fault.text : "");
	co_unload(prog);
	co_free(co);
}

static void rig_down(struct rig *r)
{
	struct bw_teardown t;

	for (int i = 0; i < MAX_TENSORS; i++) {
		bo_destroy(r->bo[i]);
		free(r->host[i]);
	}
	bo_destroy(r->step);
	bo_destroy(r->kernarg);
	bo_destroy(r->freq);
	signal_destroy(r->signal);
	cr_assert_eq(bw_device_close(&r->dev, &t), 0);
	cr_assert(!t.bos && !t.bytes && !t.queues);
}

/* Runs the node on both and compares dst: |device - reference| <= scale[i] * tol (scale NULL: 1).
 * Rows of tokens beyond r->live, and the guard, must be untouched. */
static void check(struct rig *r, const char *kernel, const float *scale, double tol)
{
	struct claim_kernels all = {0};
	uint64_t scratch_bytes = ref_scratch_bytes(&r->g);
	void *scratch = malloc(scratch_bytes);
	uint64_t n = r->t[r->node.dst].bytes / 4 + GUARD;
	const float *got, *want;
	double worst = 0.0;
	struct claim c;

	claim_node(&r->g, &r->node, &all, &c);
	dispatch(r, &c, kernel);
	cr_assert_eq(ref_op(&r->g, &r->node, r->host, r->live, scratch), 0);
	got = bo_host(r->bo[r->node.dst]);
	want = r->host[r->node.dst];
	for (uint64_t i = 0; i < n; i++) {
		double s = scale ? (double)scale[i] : 1.0,
		       d = fabs((double)got[i] - (double)want[i]);

		if (((const uint32_t *)want)[i] == CANARY) {
			cr_assert_eq(((const uint32_t *)got)[i], CANARY,
				     "%s wrote element %llu, which is not its to write", kernel,
				     (unsigned long long)i);
			continue;
		}
		cr_assert(d <= s * tol, "%s element %llu: %.9g, not %.9g", kernel,
			  (unsigned long long)i, (double)got[i], (double)want[i]);
		if (d / s > worst)
			worst = d / s;
	}
	fprintf(stderr, "%s: worst difference %.2g of %.2g allowed\n", kernel, worst, tol);
	free(scratch);
}

/* ---- inputs ----------------------------------------------------------------------------- */

static uint64_t rng_state;

static uint32_t rng(void)
{
	rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(rng_state >> 33);
}

static float uniform(float limit)
{
	return ((float)(rng() & 0xffffff) / 8388608.0f - 1.0f) * limit;
}

static float *random_floats(uint64_t n, float limit)
{
	float *f = malloc(n * sizeof(*f));

	for (uint64_t i = 0; i < n; i++)
		f[i] = uniform(limit);
	return f;
}

static void fill_random(struct rig *r, int i, float limit)
{
	uint64_t n = r->t[i].bytes / 4;
	float *f = random_floats(n, limit);

	fill(r, i, f, n * 4);
	free(f);
}

/* Blocks of random bytes with modest scales. */
static uint8_t *random_weights(enum ggml_type type, uint64_t n)
{
	const struct quant_type *q = quant_type(type);
	uint8_t *w = malloc(n / q->block * q->bytes), *p = w;

	for (uint64_t b = 0; b < n / q->block; b++, p += q->bytes) {
		uint16_t d = quant_f32_to_f16((float)(rng() % 1000 + 1) / 65536.0f);
		float f = uniform(2.0f);
		uint16_t h = type == TYPE_F16 ? quant_f32_to_f16(f) : quant_f32_to_bf16(f);

		for (uint32_t i = 0; i < q->bytes; i++)
			p[i] = (uint8_t)rng();
		if (type == TYPE_F32)
			memcpy(p, &f, 4);
		else if (type == TYPE_F16 || type == TYPE_BF16)
			memcpy(p, &h, 2);
		else
			memcpy(p + (type == TYPE_Q6_K ? 208 : 0), &d, 2);
		if (type == TYPE_Q4_K || type == TYPE_Q5_K)
			memcpy(p + 2, &d, 2);
	}
	return w;
}

static const enum ggml_type types[] = {
	TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_Q8_0, TYPE_Q4_0, TYPE_Q4_K, TYPE_Q5_K, TYPE_Q6_K,
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

/* ---- the kernels ---------------------------------------------------------------------------- */

Test(kernels, embed, .timeout = 600)
{
	static const int32_t ids[4] = {6, 0, 3, 99}; /* the last is beyond the live tokens */

	for (unsigned i = 0; i < N_TYPES; i++) {
		char name[32];
		uint8_t *w;
		struct rig r;

		rng_state = i + 1;
		w = random_weights(types[i], 768 * 7);
		rig_up(&r, 4, 8);
		r.live = 3;
		r.node.op = OP_EMBED;
		r.node.src[0] = add_tensor(&r, TENSOR_WEIGHT, types[i], 768, 7, w);
		r.node.src[1] = add_tensor(&r, TENSOR_INPUT, TYPE_I32, 4, 1, NULL);
		fill(&r, r.node.src[1], ids, sizeof(ids));
		r.node.dst = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, 768, 4, NULL);
		snprintf(name, sizeof(name), "embed_%s", layout_of(types[i])->name);
		check(&r, name, NULL, 1e-5);
		rig_down(&r);
		free(w);
	}
}

/* Sum of |w * x| for each output: what a rounding error is relative to. */
static float *magnitudes(const struct rig *r, enum ggml_type type, const uint8_t *file, uint64_t k,
			 uint64_t rows, const float *x, uint64_t n)
{
	float *w = malloc(k * rows * sizeof(*w)), *m = calloc(rows * n + GUARD, sizeof(*m));

	(void)r;
	cr_assert_eq(quant_dequant(type, file, w, k * rows), 0);
	for (uint64_t c = 0; c < n; c++)
		for (uint64_t i = 0; i < rows; i++)
			for (uint64_t j = 0; j < k; j++)
				m[c * rows + i] += fabsf(w[i * k + j] * x[c * k + j]);
	free(w);
	return m;
}

static void matmul(enum ggml_type type, uint32_t k, uint32_t rows, uint32_t n, uint32_t live)
{
	uint8_t *w = random_weights(type, (uint64_t)k * rows);
	float *mag;
	char name[32];
	struct rig r;

	rig_up(&r, n, 64);
	r.live = live;
	r.node.op = OP_MATMUL;
	r.node.src[0] = add_tensor(&r, TENSOR_WEIGHT, type, k, rows, w);
	r.node.src[1] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, k, n, NULL);
	fill_random(&r, r.node.src[1], 1.0f);
	r.node.dst = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, rows, n, NULL);
	mag = magnitudes(&r, type, w, k, rows, r.host[r.node.src[1]], n);
	snprintf(name, sizeof(name), "matmul_%s%s", layout_of(type)->name,
		 n > KA_MATMUL_COLUMNS ? "_x16"
		 : n > 1               ? "_x4"
				       : "");
	check(&r, name, mag, 2e-6);
	rig_down(&r);
	free(mag);
	free(w);
}

Test(kernels, matmul_one_column, .timeout = 600)
{
	for (unsigned i = 0; i < N_TYPES; i++) {
		rng_state = 100 + i;
		matmul(types[i], 768, 37, 1, 1); /* rows that fill no group */
		if (quant_type(types[i])->block < 256)
			matmul(types[i], 352, 5, 1, 1); /* and a last chunk that fills no wave */
	}
}

Test(kernels, matmul_columns, .timeout = 600)
{
	for (unsigned i = 0; i < N_TYPES; i++) {
		rng_state = 200 + i;
		matmul(types[i], 512, 18, 4, 3); /* a column that is not live, groups not full */
		matmul(types[i], 512, 18, 7, 6);
		matmul(types[i], 512, 35, 35, 33);
		matmul(types[i], 1024, 131, 17, 17); /* several groups both ways */
		for (uint32_t live = 1; live <= 16; live += 5)
			matmul(types[i], 256, 5, 16, live);
		if (quant_type(types[i])->block < 256) {
			matmul(types[i], 288, 16, 4, 4);
			matmul(types[i], 288, 16, 8, 8);
		}
	}
}

/* Logits of the last columns only land at the start of the output. */
Test(kernels, matmul_of_logits_starts_at_first, .timeout = 300)
{
	const uint32_t k = 256, rows = 20, n = 7;
	struct claim_kernels all = {0};
	struct claim c;
	struct rig r;
	float *w, *x;
	const float *y;

	rng_state = 300;
	w = random_floats(k * rows, 1.0f);
	x = random_floats(k * n, 1.0f);
	rig_up(&r, n, 64);
	r.live = 6;
	r.first = 5;
	r.node.op = OP_MATMUL;
	r.node.src[0] = add_tensor(&r, TENSOR_WEIGHT, TYPE_F32, k, rows, w);
	r.node.src[1] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, k, n, NULL);
	fill(&r, r.node.src[1], x, k * n * 4);
	r.node.dst = r.g.t_logits = add_tensor(&r, TENSOR_OUTPUT, TYPE_F32, rows, n, NULL);
	claim_node(&r.g, &r.node, &all, &c);
	dispatch(&r, &c, "matmul_f32_x16");
	y = bo_host(r.bo[r.node.dst]);
	for (uint32_t i = 0; i < rows * n; i++) {
		double sum = 0.0;

		if (i >= rows) {
			cr_assert_eq(((const uint32_t *)y)[i], CANARY, "element %u was written", i);
			continue;
		}
		for (uint32_t j = 0; j < k; j++)
			sum += (double)w[i * k + j] * (double)x[5 * k + j];
		cr_assert_float_eq((double)y[i], sum, 1e-4, "row %u: %g, not %g", i, (double)y[i],
				   sum);
	}
	rig_down(&r);
	free(w);
	free(x);
}

Test(kernels, rmsnorm, .timeout = 300)
{
	static const uint32_t widths[] = {64, 256, 768, 2560, 5120};

	for (unsigned i = 0; i < 5; i++) {
		float *w;
		struct rig r;

		rng_state = 400 + i;
		w = random_floats(widths[i], 2.0f);
		rig_up(&r, 3, 8);
		r.live = 2;
		r.node.op = OP_RMSNORM;
		r.node.f[0] = 1e-6f;
		r.node.src[0] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, widths[i], 3, NULL);
		fill_random(&r, r.node.src[0], 3.0f);
		r.node.src[1] = add_tensor(&r, TENSOR_WEIGHT, TYPE_F32, widths[i], 1, w);
		r.node.dst = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, widths[i], 3, NULL);
		check(&r, "rmsnorm", NULL, 4e-6);
		rig_down(&r);
		free(w);
	}
}

Test(kernels, headnorm_rope, .timeout = 300)
{
	static const int32_t pos[5] = {0, 1, 511, 40959, 1000000};

	for (unsigned i = 0; i < 4; i++) {
		uint32_t hd = i & 1 ? 128 : 64, heads = 3;
		bool norm = i & 2;
		uint64_t table[64];
		float *w;
		struct rig r;

		rng_state = 500 + i;
		w = random_floats(hd, 2.0f);
		rig_up(&r, 5, 1 << 20);
		r.node.op = OP_HEADNORM_ROPE;
		r.node.u[0] = heads;
		r.node.u[1] = hd;
		r.node.f[0] = 1e-6f;
		r.node.f[1] = 1e6f;
		r.node.src[0] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, heads * hd, 5, NULL);
		fill_random(&r, r.node.src[0], 2.0f);
		if (norm)
			r.node.src[1] = add_tensor(&r, TENSOR_WEIGHT, TYPE_F32, hd, 1, w);
		r.node.src[2] = add_tensor(&r, TENSOR_INPUT, TYPE_I32, 5, 1, NULL);
		fill(&r, r.node.src[2], pos, sizeof(pos));
		r.node.dst = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, heads * hd, 5, NULL);
		r.freq = buffer(&r, "freq", 4096, BO_COARSE);
		claim_rope_table(hd, 1e6, table);
		memcpy(bo_host(r.freq), table, hd / 2 * sizeof(uint64_t));
		check(&r, "headnorm_rope", NULL, 4e-6);
		rig_down(&r);
		free(w);
	}
}

Test(kernels, kv_store, .timeout = 300)
{
	static const int32_t pos[3] = {9, 2, 1};
	struct rig r;

	rng_state = 600;
	rig_up(&r, 3, 10);
	r.live = 2; /* row 1 of the cache stays as it was */
	r.node.op = OP_KV_STORE;
	r.node.src[0] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, 640, 3, NULL);
	fill_random(&r, r.node.src[0], 1.0f);
	r.node.src[1] = add_tensor(&r, TENSOR_INPUT, TYPE_I32, 3, 1, NULL);
	fill(&r, r.node.src[1], pos, sizeof(pos));
	r.node.dst = add_tensor(&r, TENSOR_KV, TYPE_F32, 640, 10, NULL);
	check(&r, "kv_store", NULL, 0.0);
	rig_down(&r);
}

/* Positions around the tile of 32 keys and the round of four tiles; rows beyond are never read:
 * they hold NaN. */
static void attention(unsigned i, uint32_t n, uint32_t live, const int32_t *pos)
{
	uint32_t hd = i & 1 ? 128 : 64, kv = 2, heads = i & 2 ? 6 : 2;
	char name[32];
	struct rig r;

	rng_state = 700 + i;
	rig_up(&r, n, 304);
	r.live = live;
	r.node.op = OP_ATTN;
	r.node.u[0] = heads;
	r.node.u[1] = kv;
	r.node.u[2] = hd;
	r.node.src[0] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, heads * hd, n, NULL);
	fill_random(&r, r.node.src[0], i & 2 ? 6.0f : 1.0f);
	for (int k = 1; k < 3; k++) {
		float *f = random_floats(300 * kv * hd, 1.0f);

		r.node.src[k] = add_tensor(&r, TENSOR_KV, TYPE_F32, kv * hd, 304, NULL);
		fill(&r, r.node.src[k], f, 300 * kv * hd * 4);
		free(f);
	}
	r.node.src[3] = add_tensor(&r, TENSOR_INPUT, TYPE_I32, n, 1, NULL);
	fill(&r, r.node.src[3], pos, live * sizeof(*pos));
	r.node.dst = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, heads * hd, n, NULL);
	snprintf(name, sizeof(name), "attn_h%u%s", hd, n > 1 ? "_x8" : "");
	check(&r, name, NULL, 1e-5);
	rig_down(&r);
}

/* One token, and eight at a time, of which some see keys that others do not. */
Test(kernels, attention, .timeout = 600)
{
	static const int32_t pos[9] = {0, 1, 30, 31, 32, 127, 128, 200, 299};
	static const int32_t last[3] = {297, 298, 299};

	for (unsigned i = 0; i < 4; i++) {
		attention(i, 10, 9, pos);
		attention(i, 3, 3, last);
		for (unsigned t = 0; t < 9; t++)
			attention(i, 1, 1, &pos[t]);
	}
}

Test(kernels, pointwise, .timeout = 300)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rig r;

		rng_state = 800 + i;
		rig_up(&r, 3, 8);
		r.live = 2;
		r.node.op = i ? OP_SILU_MUL : OP_ADD;
		r.node.src[0] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, 700, 3, NULL);
		fill_random(&r, r.node.src[0], 10.0f);
		/* The ends: silu(-200) is -0, silu(200) is 200. */
		((float *)r.host[r.node.src[0]])[0] = -200.0f;
		((float *)r.host[r.node.src[0]])[1] = 200.0f;
		memcpy(bo_host(r.bo[r.node.src[0]]), r.host[r.node.src[0]], 700 * 4);
		r.node.src[1] = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, 700, 3, NULL);
		fill_random(&r, r.node.src[1], 2.0f);
		r.node.dst = add_tensor(&r, TENSOR_ACTIVATION, TYPE_F32, 700, 3, NULL);
		check(&r, i ? "silu_mul" : "add", NULL, i ? 6e-5 : 0.0);
		rig_down(&r);
	}
}

Test(kernels, finish, .timeout = 300)
{
	struct claim_kernels all = {0};
	const struct ka_done *done;
	struct claim c;
	struct rig r;

	rig_up(&r, 5, 8);
	r.g.n_nodes = 0;
	claim_node(&r.g, NULL, &all, &c);
	dispatch(&r, &c, "finish");
	done = (const struct ka_done *)((const char *)bo_host(r.step) + 2048);
	cr_assert_eq(done->step, 0x1234567890ull);
	cr_assert_eq(done->n, 5);
	rig_down(&r);
}
