/* The executor on whole models: golden logits, greedy ids, fallback, footprint, teardown. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "codeobj/codeobj.h"
#include "engine/exec.h"
#include "kernels/kernels.h"
#include "tests/golden.h"
#include "tests/json_file.h"

#define TOLERANCE 1e-3 /* of an engine that accumulates in F32, against the float64 forward */

static char err[512];

struct run {
	struct bw_device dev;
	struct gguf *gguf;
	struct model *m;
	struct engine *e;
};

static void open_model(struct run *r, const char *path)
{
	memset(r, 0, sizeof(*r));
	cr_assert_eq(gguf_open(path, &r->gguf, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(r->gguf, &r->m, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(bw_device_open(NULL, &r->dev, err, sizeof(err)), 0, "%s", err);
}

static void open_run(struct run *r, const char *path, const struct engine_opts *o)
{
	open_model(r, path);
	cr_assert_eq(engine_create(&r->dev, r->m, o, &r->e, err, sizeof(err)), 0, "%s", err);
}

static void close_run(struct run *r)
{
	struct bw_teardown t;

	engine_destroy(r->e);
	cr_assert_eq(bw_device_close(&r->dev, &t), 0);
	cr_assert(!t.bos && !t.bytes && !t.queues, "left behind: %llu BOs, %llu bytes, %llu queues",
		  (unsigned long long)t.bos, (unsigned long long)t.bytes,
		  (unsigned long long)t.queues);
	model_free(r->m);
	gguf_close(r->gguf);
}

/* Largest difference of the logits of a prompt, in steps of at most `step` tokens. */
static double distance(struct run *r, const char *gold, const int32_t *ids, uint32_t n,
		       uint32_t step)
{
	uint32_t vocab = r->m->hp.n_vocab;
	float *want = golden(gold, (size_t)n * vocab);
	double worst = 0.0;

	for (uint32_t at = 0; at < n; at += step) {
		uint32_t k = n - at < step ? n - at : step;
		const float *got;

		cr_assert_eq(engine_step(r->e, ids + at, k, at, &got, err, sizeof(err)), 0, "%s",
			     err);
		for (uint32_t i = 0; i < k * vocab; i++) {
			double d = fabs((double)got[i] - (double)want[(size_t)at * vocab + i]);

			if (!(d <= worst))
				worst = d;
		}
	}
	free(want);
	return worst;
}

static const char *const demo[] = {"story-4m-f16", "story-4m-q8_0", "story-4m-q4_k_m"};

Test(engine, demo_logits_equal_the_float64_forward, .timeout = 600)
{
	json_t *j = json_testdata("models/demo/prompts.json");
	struct engine_opts o = {.n_ctx = 64, .all_logits = true};
	char path[128], gold[128];
	size_t n8, n40;
	int32_t *p8, *p40;

	cr_assert(j);
	p8 = json_ids(json_object_get(j, "prompt8"), &n8);
	p40 = json_ids(json_object_get(j, "prompt40"), &n40);
	for (int i = 0; i < 3; i++) {
		struct engine_census c;
		double d8, d40, d1;
		struct run r;

		snprintf(path, sizeof(path), "data/demo/%s.gguf", demo[i]);
		open_run(&r, path, &o);
		engine_census(r.e, &c);
		cr_assert_eq(c.cpu, 0, "%u nodes on the CPU", c.cpu);
		snprintf(gold, sizeof(gold), "models/demo/%s.np8.f32", demo[i]);
		d8 = distance(&r, gold, p8, (uint32_t)n8, 8);
		d1 = distance(&r, gold, p8, (uint32_t)n8, 1);
		snprintf(gold, sizeof(gold), "models/demo/%s.np40.f32", demo[i]);
		d40 = distance(&r, gold, p40, (uint32_t)n40, 16);
		fprintf(stderr,
			"%s: max abs difference %.3g (8), %.3g (8 one by one), %.3g (40 by 16)\n",
			demo[i], d8, d1, d40);
		cr_assert(d8 <= TOLERANCE && d1 <= TOLERANCE && d40 <= TOLERANCE, "%s", demo[i]);
		close_run(&r);
	}
	free(p8);
	free(p40);
	json_decref(j);
}

Test(engine, random_models_of_every_type, .timeout = 600)
{
	json_t *j = json_testdata("models/tiny/manifest.json"), *m;
	struct engine_opts o = {.n_ctx = 64, .all_logits = true};
	unsigned ran = 0;
	size_t i;

	if (!j)
		SKIP("engine.random_models_of_every_type", "models/tiny is not here");
	json_array_foreach(json_object_get(j, "models"), i, m)
	{
		const char *name = json_string_value(json_object_get(m, "name"));
		char file[256], gold[256], path[4096];
		size_t n40;
		int32_t *p40;
		struct run r;
		double d;

		if (strcmp(json_string_value(json_object_get(m, "arch")), "qwen3"))
			continue;
		snprintf(file, sizeof(file), "models/tiny/%s.gguf", name);
		snprintf(gold, sizeof(gold), "models/tiny/%s.np40.f32", name);
		cr_assert(testdata(file));
		snprintf(path, sizeof(path), "%s", testdata(file));
		p40 = json_ids(json_object_get(m, "prompt40"), &n40);
		open_run(&r, path, &o);
		d = distance(&r, gold, p40, (uint32_t)n40, 16);
		fprintf(stderr, "%s: max abs difference %.3g\n", name, d);
		cr_assert(d <= TOLERANCE, "%s: %g", name, d);
		close_run(&r);
		free(p40);
		ran++;
	}
	cr_assert(ran >= 6, "only %u models", ran);
	json_decref(j);
}

/* ---- greedy text -------------------------------------------------------------------------- */

static int32_t argmax(const float *l, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++)
		if (l[i] > l[best])
			best = i;
	return (int32_t)best;
}

/* n ids after the prompt. */
static void greedy(struct run *r, const int32_t *prompt, uint32_t n_prompt, uint32_t n,
		   int32_t *out)
{
	const float *logits = NULL;

	for (uint32_t at = 0; at < n_prompt;) {
		uint32_t k =
			n_prompt - at < engine_batch(r->e) ? n_prompt - at : engine_batch(r->e);

		cr_assert_eq(engine_step(r->e, prompt + at, k, at, &logits, err, sizeof(err)), 0,
			     "%s", err);
		at += k;
	}
	cr_assert_not_null(logits);
	for (uint32_t i = 0; i < n; i++) {
		out[i] = argmax(logits, r->m->hp.n_vocab);
		if (i + 1 < n)
			cr_assert_eq(engine_step(r->e, &out[i], 1, n_prompt + i, &logits, err,
						 sizeof(err)),
				     0, "%s", err);
	}
}

static void check_greedy(const char *name, const struct engine_opts *o, uint32_t n,
			 uint32_t want_cpu)
{
	json_t *j = json_testdata("models/demo/greedy64.json");
	json_t *m = json_object_get(json_object_get(j, "models"), name);
	struct engine_decline lines[64];
	struct engine_census c;
	size_t n_prompt, n_ids;
	int32_t *prompt = json_ids(json_object_get(j, "prompt_ids"), &n_prompt);
	int32_t *ids = json_ids(json_object_get(m, "ids"), &n_ids), got[64];
	char path[128];
	struct run r;

	cr_assert(n <= n_ids && n <= 64);
	snprintf(path, sizeof(path), "data/demo/%s.gguf", name);
	open_run(&r, path, o);
	engine_census(r.e, &c);
	cr_assert_eq(c.cpu, want_cpu, "%u nodes on the CPU", c.cpu);
	cr_assert_eq(engine_declines(r.e, lines, 64), want_cpu);
	for (unsigned i = 0; i < want_cpu && i < 64; i++)
		cr_assert(strstr(lines[i].reason, "disabled"), "%s: %s", lines[i].node,
			  lines[i].reason);
	greedy(&r, prompt, (uint32_t)n_prompt, n, got);
	/* Ids may differ only where the top two logits are nearer than the tolerance: nowhere. */
	cr_assert(json_real_value(json_object_get(m, "min_gap")) > TOLERANCE);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(got[i], ids[i], "%s: id %u is %d, not %d", name, i, got[i], ids[i]);
	close_run(&r);
	free(prompt);
	free(ids);
	json_decref(j);
}

Test(engine, greedy_ids_equal_the_float64_forward, .timeout = 600)
{
	struct engine_opts o = {.n_ctx = 128};

	for (int i = 0; i < 3; i++)
		check_greedy(demo[i], &o, 64, 0);
}

/* Steps of a batch that is not 16, and a batch of one. */
Test(engine, batch_size_does_not_matter, .timeout = 600)
{
	struct engine_opts o = {.n_ctx = 128, .batch = 5};

	check_greedy(demo[1], &o, 16, 0);
	o.batch = 1;
	check_greedy(demo[1], &o, 16, 0);
}

Test(engine, disabled_kernels_fall_back_to_the_cpu, .timeout = 600)
{
	static const struct {
		const char *name[3];
		uint32_t n, cpu;
	} sets[] = {
		{{"matmul_q6_k"}, 1, 7}, /* some matmuls: device and host in turns */
		{{"rmsnorm", "attn"}, 2, 16},
		{{"add", "silu_mul", "kv_store"}, 3, 25},
		{{"embed", "headnorm_rope"}, 2, 11},
		{{"finish"}, 1, 0},          /* the host says itself that the step is done */
		{{"matmul_q4_k_x16"}, 1, 0}, /* four columns at a time */
		{{"matmul_q4_k_x16", "matmul_q4_k_x4"}, 2, 0}, /* one column */
	};

	for (unsigned i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		struct engine_opts o = {
			.n_ctx = 128, .disabled = sets[i].name, .n_disabled = sets[i].n};

		check_greedy("story-4m-q4_k_m", &o, 16, sets[i].cpu);
	}
}

/* ---- footprint ------------------------------------------------------------------------------ */

Test(engine, ledger_equals_the_plan, .timeout = 300)
{
	static const char *const some[] = {"matmul_q4_k", "embed"};
	struct engine_opts o = {.n_ctx = 96, .all_logits = true};

	for (int k = 0; k < 4; k++) {
		struct memory_usage use[64];
		unsigned n, matched = 0;
		char path[128];
		const struct plan *p;
		struct run r;

		snprintf(path, sizeof(path), "data/demo/%s.gguf", demo[k < 3 ? k : 2]);
		o.disabled = some;
		o.n_disabled = k < 3 ? 0 : 2;
		open_run(&r, path, &o);
		p = engine_plan(r.e);
		n = memory_usage(r.dev.memory, use, 64);
		for (unsigned i = 0; i < n; i++) {
			const struct plan_row *row = NULL;

			for (uint32_t j = 0; j < p->n_rows; j++)
				if (!strcmp(p->rows[j].owner, use[i].owner))
					row = &p->rows[j];
			cr_assert(row, "\"%s\" is not in the plan", use[i].owner);
			cr_assert(use[i].peak == row->granted && use[i].live == row->granted &&
					  use[i].count == row->count,
				  "%s: planned %llu in %u, ledger has %llu (peak %llu) in %llu",
				  row->owner, (unsigned long long)row->granted, row->count,
				  (unsigned long long)use[i].live, (unsigned long long)use[i].peak,
				  (unsigned long long)use[i].count);
			matched++;
		}
		cr_assert_eq(matched, p->n_rows, "planned owners that never appeared");
		cr_assert_eq(memory_peak(r.dev.memory), p->total);
		close_run(&r);
	}
}

/* ---- what goes wrong ---------------------------------------------------------------------------
 */

Test(engine, bad_steps_are_refused_and_run_nothing, .timeout = 300)
{
	struct engine_opts o = {.n_ctx = 32, .batch = 16};
	const float *logits = NULL;
	int32_t ids[17] = {1, 2, 3}, bad = 2048, negative = -1;
	struct run r;

	open_run(&r, "data/demo/story-4m-q8_0.gguf", &o);
	cr_assert_eq(engine_step(r.e, ids, 0, 0, &logits, err, sizeof(err)), -EINVAL);
	cr_assert_eq(engine_step(r.e, ids, 17, 0, &logits, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "17"), "%s", err);
	cr_assert_eq(engine_step(r.e, ids, 3, 30, &logits, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "32 slots"), "%s", err);
	cr_assert_eq(engine_step(r.e, &bad, 1, 0, &logits, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "2048") && strstr(err, "2047"), "%s", err);
	cr_assert_eq(engine_step(r.e, &negative, 1, 0, &logits, err, sizeof(err)), -EINVAL);
	cr_assert_null(logits);
	/* And it still works. */
	cr_assert_eq(engine_step(r.e, ids, 3, 0, &logits, err, sizeof(err)), 0, "%s", err);
	cr_assert_not_null(logits);
	close_run(&r);
}

static void write_file(const char *dir, const char *name, const void *p, size_t n)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.co", dir, name);
	f = fopen(path, "wb");
	cr_assert(f);
	cr_assert_eq(fwrite(p, 1, n, f), n);
	cr_assert_eq(fclose(f), 0);
}

/* The embedded code object `name` with the first instruction of one kernel replaced by word. */
static void write_patched(const char *dir, const char *name, const char *kernel, uint32_t word)
{
	const struct kernels_embedded *k = kernels_embedded;
	const struct co_kernel *ck;
	struct codeobj *co;
	size_t n;
	char *copy;

	while (k->name && strcmp(k->name, name))
		k++;
	cr_assert(k->name);
	n = (size_t)((const char *)k->end - (const char *)k->begin);
	copy = malloc(n);
	memcpy(copy, k->begin, n);
	cr_assert_eq(co_parse(copy, n, &co, err, sizeof(err)), 0, "%s", err);
	ck = co_find(co, kernel);
	cr_assert(ck);
	for (uint32_t i = 0; i < co->n_segments; i++) {
		const struct co_segment *s = &co->segments[i];

		if (ck->entry_vaddr >= s->vaddr && ck->entry_vaddr < s->vaddr + s->filesz)
			memcpy(copy + s->offset + (ck->entry_vaddr - s->vaddr), &word, 4);
	}
	co_free(co);
	write_file(dir, name, copy, n);
	free(copy);
}

#define S_ENDPGM 0xbfb00000u
#define S_TRAP_2 0xbf900002u /* what clang emits for __builtin_trap() */

static void expect_step(const char *dir, int want, const char *text)
{
	struct engine_opts o = {.n_ctx = 32, .kernels_dir = dir};
	const float *logits = NULL;
	int32_t ids[4] = {1, 2, 3, 4};
	struct run r;
	int ret;

	open_run(&r, "data/demo/story-4m-q8_0.gguf", &o);
	ret = engine_step(r.e, ids, 4, 0, &logits, err, sizeof(err));
	cr_assert_eq(ret, want, "%s, not %s: %s", strerror(-ret), strerror(-want), err);
	cr_assert(!text || strstr(err, text), "%s", err);
	if (want < 0) {
		cr_assert_null(logits);
		cr_assert_eq(engine_step(r.e, ids, 4, 0, &logits, err, sizeof(err)), -EIO);
	}
	close_run(&r);
}

static void remove_dir(const char *dir)
{
	char path[512];
	struct dirent *e;
	DIR *d = opendir(dir);

	cr_assert(d);
	while ((e = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	closedir(d);
	rmdir(dir);
}

/* Kernels that do nothing must be noticed, and kernels from a folder must be the ones that run. */
Test(engine, kernels_from_a_folder, .timeout = 600)
{
	char dir[] = "/tmp/barewave-kernels-XXXXXX";
	struct engine_opts o = {.kernels_dir = dir};
	const struct kernels_embedded *k = kernels_embedded;
	struct run r;

	cr_assert(mkdtemp(dir));
	open_model(&r, "data/demo/story-4m-q8_0.gguf");
	cr_assert_eq(engine_create(&r.dev, r.m, &o, &r.e, err, sizeof(err)), -ENOENT);
	cr_assert(strstr(err, dir), "%s", err);
	write_file(dir, "rmsnorm", "no ELF at all", 13);
	cr_assert(engine_create(&r.dev, r.m, &o, &r.e, err, sizeof(err)) < 0);
	cr_assert(strstr(err, "rmsnorm.co"), "%s", err);
	close_run(&r);

	for (; k->name; k++)
		if (strcmp(k->name, "trap"))
			write_file(dir, k->name, k->begin,
				   (size_t)((const char *)k->end - (const char *)k->begin));
	expect_step(dir, 0, NULL);
	write_patched(dir, "finish", "finish", S_ENDPGM);
	expect_step(dir, -EBADMSG, "published step 0");
	write_patched(dir, "pointwise", "silu_mul", S_TRAP_2);
	expect_step(dir, -EFAULT, NULL);
	remove_dir(dir);
}

static void *file_image(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	void *p;

	cr_assert(f && fstat(fileno(f), &st) == 0);
	*n = (size_t)st.st_size;
	p = malloc(*n);
	cr_assert_eq(fread(p, 1, *n, f), *n);
	fclose(f);
	return p;
}

/* One weight that is no number, and no logits come out. */
Test(engine, nan_in_the_logits_is_an_error, .timeout = 300)
{
	struct engine_opts o = {.n_ctx = 32};
	const float *logits = NULL;
	const struct gguf_tensor *t;
	const int32_t ids[2] = {5, 6};
	struct run r = {0};
	size_t n;
	char *image = file_image("data/demo/story-4m-q8_0.gguf", &n);
	const float nan = NAN;

	cr_assert_eq(gguf_parse(image, n, "patched", &r.gguf, err, sizeof(err)), 0, "%s", err);
	t = gguf_tensor(r.gguf, "output_norm.weight");
	cr_assert(t);
	memcpy(image + t->offset + 40, &nan, sizeof(nan));
	cr_assert_eq(model_load(r.gguf, &r.m, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(bw_device_open(NULL, &r.dev, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(engine_create(&r.dev, r.m, &o, &r.e, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(engine_step(r.e, ids, 2, 0, &logits, err, sizeof(err)), -EDOM);
	cr_assert(strstr(err, "of token 1 is") && strstr(err, "nan"), "%s", err);
	cr_assert_null(logits);
	close_run(&r);
	free(image);
}
