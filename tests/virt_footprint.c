/* A run's bytes: the ledger is the plan, the kernel's own counters differ from it by what the plan
 * says, nearly everything is touched, and no prompt length makes a second copy. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/draft.h"
#include "engine/exec.h"
#include "engine/footprint.h"
#include "memory/tables.h"

#define DEMO       "data/demo/story-4m-q8_0.gguf"
#define MIB        (1ull << 20)
#define TRAP_BYTES 8192u /* the kernel's own: its trap handler's pages */
#define MES_PAGE   4096u /* and MES's, of the process and of each queue */

static char err[512];
static struct bw_device dev;
static struct gguf *gguf;
static struct model *model;
static struct engine *engine;

/* BOs alive, for looking at their pages. */
static struct {
	uint64_t va, size;
	char owner[64];
} bos[256];
static unsigned n_bos;

/* The kernel's counters against what the ledger and the addresses in it say. */
static struct {
	struct mem_tables *tables;
	uint64_t tables_peak, pages; /* bytes of page tables; MES's pages */
	bool page_seen, page_adopted;
	int64_t gtt_off, vram_off; /* the largest disagreement */
	unsigned samples;
} kern;

/* Weights that lie somewhere, and whether anything may still be made. */
static uint64_t placed[1024];
static unsigned n_placed, twice, late;
static bool running;

static void differ(int64_t *most, uint64_t is, uint64_t wanted)
{
	int64_t d = (int64_t)(is - wanted);

	if (llabs(d) > llabs(*most))
		*most = d;
}

/* Exactly: what is in the ledger, and the event page until it is entered there, are GTT with the
 * kernel's own pages; page tables are VRAM, as is nothing else where VRAM is asked for in vain. */
static void compare(void)
{
	struct kfd_event_page page;
	uint64_t unentered = 0;
	struct kfd_heaps h;

	cr_assert_eq(kfd_heaps_get(dev.kfd, &h), 0);
	if (kfd_event_page_get(dev.kfd, &page)) {
		if (!kern.page_seen)
			cr_assert_eq(mem_tables_map(kern.tables, page.va, page.bytes), 0);
		kern.page_seen = true;
		unentered = kern.page_adopted ? 0 : page.bytes;
	}
	differ(&kern.gtt_off, h.gtt_used,
	       memory_live(dev.memory) + unentered + TRAP_BYTES + kern.pages * MES_PAGE);
	differ(&kern.vram_off, h.vram_used, mem_tables_bytes(kern.tables));
	if (h.vram_used > kern.tables_peak)
		kern.tables_peak = h.vram_used;
	kern.samples++;
}

static void watch(void *ctx, const struct ledger_record *r)
{
	(void)ctx;
	late += running;
	switch (r->kind) {
	case LEDGER_ALLOC:
		bos[n_bos].va = r->va;
		bos[n_bos].size = r->host ? r->size : 0;
		snprintf(bos[n_bos++].owner, sizeof(bos[0].owner), "%s", r->owner);
		return; /* mapped as well: its entry comes next */
	case LEDGER_MAP:
		cr_assert_eq(mem_tables_map(kern.tables, r->va, r->size), 0);
		break;
	case LEDGER_UNMAP:
		mem_tables_unmap(kern.tables, r->va, r->size);
		return;
	case LEDGER_FREE:
		for (unsigned i = 0; i < n_bos; i++)
			if (bos[i].va == r->va)
				bos[i] = bos[--n_bos];
		break;
	case LEDGER_ADOPT:
		kern.page_adopted = true;
		return; /* the sum follows the entry */
	case LEDGER_PLACE:
		for (unsigned i = 0; i < n_placed; i++)
			twice += placed[i] == r->identity;
		cr_assert_lt(n_placed, sizeof(placed) / sizeof(placed[0]));
		placed[n_placed++] = r->identity;
		return;
	default:
		return;
	}
	compare();
}

static void open_model(const char *path, bool fragmented)
{
	const struct bw_device_opts o = {.no_queue = true};
	const char *set = getenv("VGPU_SET");
	char text[256];

	/* Of the device that this process is about to open. */
	snprintf(text, sizeof(text), "%s%sfragmented=%d", set ? set : "", set && *set ? "," : "",
		 fragmented);
	setenv("VGPU_SET", text, 1);
	cr_assert_eq(gguf_open(path, &gguf, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(gguf, &model, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(bw_device_open(&o, &dev, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(
		mem_tables_create(fragmented ? MEM_PIECE_LEAST : MEM_PIECE_LARGEST, &kern.tables),
		0);
	compare();
	memory_watch(dev.memory, watch, NULL);
	cr_assert_eq(queue_create(dev.kfd, dev.memory, NULL, &dev.queue), 0, "%s", kfd_reason());
	kern.pages = 2;
	compare();
}

static void close_model(void)
{
	struct bw_teardown t;

	/* The queue goes first, and its page with it; the process's stays. */
	kern.pages = 1;
	cr_assert_eq(bw_device_close(&dev, &t), 0);
	cr_assert(!t.bos && !t.bytes && !t.queues);
	mem_tables_destroy(kern.tables);
	model_free(model);
	gguf_close(gguf);
}

/* Pages of a host-mapped BO that nobody, host or device, ever wrote or read: the virtual device's
 * memory is a file, and a page that was never touched is not in it. */
static uint64_t untouched(uint64_t va, uint64_t size)
{
	static unsigned char in[1 << 20];
	uint64_t n = 0;

	for (uint64_t at = 0; at < size; at += sizeof(in) * 4096) {
		uint64_t part = size - at < sizeof(in) * 4096 ? size - at : sizeof(in) * 4096;

		cr_assert_eq(mincore((void *)(uintptr_t)(va + at), part, in), 0);
		for (uint64_t i = 0; i < part / 4096; i++)
			n += !(in[i] & 1);
	}
	return n * 4096;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check_ledger(const struct plan *p)
{
	struct memory_usage u[64];
	unsigned n = memory_usage(dev.memory, u, 64);

	for (uint32_t i = 0; i < p->n_rows; i++) {
		bool found = false;

		for (unsigned j = 0; j < n; j++) {
			if (strcmp(u[j].owner, p->rows[i].owner))
				continue;
			found = true;
			cr_expect_eq(u[j].peak, p->rows[i].granted, "%s: %llu, planned %llu",
				     u[j].owner, (unsigned long long)u[j].peak,
				     (unsigned long long)p->rows[i].granted);
		}
		cr_expect(found, "%s was planned and never made", p->rows[i].owner);
	}
	for (unsigned j = 0; j < n; j++) {
		bool found = false;

		for (uint32_t i = 0; i < p->n_rows; i++)
			found |= !strcmp(u[j].owner, p->rows[i].owner);
		cr_expect(found, "%s is outside the plan", u[j].owner);
	}
	cr_expect_eq(memory_peak(dev.memory), p->total);
}

struct job {
	char model[48];  /* a file, or a shape that make_model knows */
	uint32_t n, ctx; /* a prompt of n tokens and one more; slots */
	bool fragmented;
};

/* Steps through the prompt and one more token; returns how many were evaluated. */
static uint32_t evaluate(const struct job *j, uint32_t batch)
{
	int32_t ids[ENGINE_BATCH];
	const float *logits;
	uint32_t at = 0;

	while (at < j->n + 1) {
		uint32_t k = at < j->n ? (j->n - at < batch ? j->n - at : batch) : 1;

		for (uint32_t i = 0; i < k; i++)
			ids[i] = (int32_t)((at + i) * 7 % model->hp.n_vocab);
		cr_assert_eq(engine_step(engine, ids, k, at, &logits, err, sizeof(err)), 0, "%s",
			     err);
		at += k;
	}
	return at;
}

/* Bytes of the buffers that nobody ever touched, of how many. Not looked at: the save area, which is
 * the kernel's to fill when it preempts a queue, and slots for what has not come yet. */
static void look(bool kv, uint64_t *lost, uint64_t *looked)
{
	*lost = *looked = 0;
	for (unsigned i = 0; i < n_bos; i++) {
		if (!bos[i].size || !strcmp(bos[i].owner, "save area") ||
		    (!kv && !strcmp(bos[i].owner, "kv")))
			continue;
		*looked += bos[i].size;
		*lost += untouched(bos[i].va, bos[i].size);
	}
}

static void check_kernel(const struct plan *p, bool fragmented)
{
	static const struct footprint_machine unknown;
	static const struct footprint_host nothing;
	struct footprint f;

	footprint_compute(p, &unknown, &nothing, 0, &f);
	cr_expect_gt(kern.samples, 20);
	cr_expect(!kern.gtt_off && !kern.vram_off,
		  "counters differ from the ledger and the page tables of its addresses by %lld "
		  "(GTT) and %lld (VRAM)",
		  (long long)kern.gtt_off, (long long)kern.vram_off);
	cr_expect_eq(kern.tables_peak, fragmented ? f.page_tables : f.page_tables_least);
	cr_expect_eq(TRAP_BYTES + kern.pages * MES_PAGE, f.kernel);
}

static void prompt(const struct job *j, const char *path)
{
	struct engine_opts o = {.n_ctx = j->ctx,
				.batch = j->n < ENGINE_BATCH ? j->n : ENGINE_BATCH,
				.timeout_ns = 3000000000000,
				.strict = true};
	const struct plan *p;
	uint64_t lost, looked, bound;
	double start = seconds(), ready;
	uint32_t done;

	open_model(path, j->fragmented);
	cr_assert_eq(engine_create(&dev, model, &o, &engine, err, sizeof(err)), 0, "%s", err);
	ready = seconds() - start;
	running = true;
	done = evaluate(j, o.batch);
	running = false;
	p = engine_plan(engine);
	check_ledger(p);
	check_kernel(p, j->fragmented);
	/* One layout, whatever the length: each weight has one place, and no step makes anything. */
	cr_expect(n_placed >= model->gguf->n_tensors && !twice,
		  "%u places for %llu tensors, %u of them again", n_placed,
		  (unsigned long long)model->gguf->n_tensors, twice);
	cr_expect_eq(late, 0, "%u entries in the ledger after the engine was ready", late);
	bound = (uint64_t)(1.02 * (double)(p->bo[PLAN_WEIGHTS].granted + p->bo[PLAN_KV].granted)) +
		64 * MIB;
	cr_expect(memory_peak(dev.memory) <= bound, "peak %llu, bound %llu",
		  (unsigned long long)memory_peak(dev.memory), (unsigned long long)bound);
	cr_expect_eq(done, j->n + 1);
	look(done == j->ctx, &lost, &looked);
	cr_expect(lost * 100 <= looked, "%llu of %llu bytes were never touched",
		  (unsigned long long)lost, (unsigned long long)looked);
	fprintf(stderr,
		"%s, prompt %u, context %u: peak %.1f MiB of at most %.1f; never touched %.3f %%; "
		"page tables %.0f KiB%s; %u samples equal; ready in %.1f s; evaluated in %.1f s\n",
		strchr(j->model, '/') ? strrchr(j->model, '/') + 1 : j->model, j->n, j->ctx,
		(double)memory_peak(dev.memory) / MIB, (double)bound / MIB,
		looked ? 100.0 * (double)lost / (double)looked : 0.0,
		(double)kern.tables_peak / 1024, j->fragmented ? " (fragmented)" : "", kern.samples,
		ready, seconds() - start - ready);
	engine_destroy(engine);
	close_model();
	cr_expect(!kern.gtt_off && !kern.vram_off, "after the end: %lld, %lld",
		  (long long)kern.gtt_off, (long long)kern.vram_off);
}

static void generate(const char *shape, char *path)
{
	char cmd[256];

	strcpy(path, "/tmp/barewave-shape-XXXXXX");
	cr_assert(mkstemp(path) >= 0);
	/* its own process, without the device */
	snprintf(cmd, sizeof(cmd), "env -u LD_PRELOAD build/tests/make_model %s %s >/dev/null",
		 shape, path);
	cr_assert_eq(system(cmd), 0, "%s", cmd);
}

/* The measure itself: of a buffer of which half was written, half was never touched. */
Test(footprint, what_nobody_touches_is_seen)
{
	const struct bo_desc d = {.owner = "half", .size = 4 * MIB, .host = true};
	struct bo *b;

	open_model(DEMO, false);
	cr_assert_eq(bo_create(dev.memory, &d, &b), 0, "%s", kfd_reason());
	cr_expect_eq(untouched(bo_va(b), d.size), d.size);
	memset(bo_host(b), 1, d.size / 2);
	cr_expect_eq(untouched(bo_va(b), d.size), d.size / 2);
	cr_assert_eq(bo_destroy(b), 0);
	close_model();
}

/* ---- page tables alone ----------------------------------------------------------------- */

static uint64_t rng = 88172645463325252u;

static uint64_t any(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % below;
}

/* Sizes from a page to beyond the 1 GiB of a directory, most of them odd. */
static uint64_t any_size(void)
{
	static const uint64_t most[] = {64 << 10, 8 << 20, 8 << 20, 64 << 20, 3ull << 30};
	uint64_t size = 4096 * (1 + any(most[any(5)] / 4096));

	return any(3) ? size : (size + (2 << 20)) & ~((2ull << 20) - 1);
}

/* Buffers come and go at all alignments; after each the kernel has as many tables as the addresses
 * say. Nobody touches them: they take no memory. */
static void churn(bool fragmented)
{
	struct bo *live[24] = {0};
	unsigned made = 0, kept;

	open_model(DEMO, fragmented);
	for (unsigned i = 0; i < 1500; i++) {
		struct bo **b = &live[any(24)];
		struct bo_desc d = {.owner = "any",
				    .size = any_size(),
				    .align = any(2) ? 4096ull << any(19) : 0};

		if (*b) {
			cr_assert_eq(bo_destroy(*b), 0);
			*b = NULL;
			continue;
		}
		if (bo_create(dev.memory, &d, b) == 0)
			made++;
		cr_assert(!kern.gtt_off && !kern.vram_off, "step %u: 0x%llx bytes: %lld, %lld", i,
			  (unsigned long long)d.size, (long long)kern.gtt_off,
			  (long long)kern.vram_off);
	}
	cr_expect_gt(made, 500);
	for (unsigned i = 0; i < 24; i++)
		cr_assert_eq(bo_destroy(live[i]), 0);
	kept = (unsigned)(mem_tables_bytes(kern.tables) / 4096);
	fprintf(stderr, "%u buffers%s, %u samples equal: at most %llu page tables, %u at the end\n",
		made, fragmented ? " of single pages" : "", kern.samples,
		(unsigned long long)(kern.tables_peak / 4096), kept);
	close_model();
	cr_expect(!kern.gtt_off && !kern.vram_off, "%lld, %lld", (long long)kern.gtt_off,
		  (long long)kern.vram_off);
}

Test(footprint, page_tables_of_an_unbroken_machine, .timeout = 600)
{
	churn(false);
}

Test(footprint, page_tables_of_a_fragmented_machine, .timeout = 600)
{
	churn(true);
}

/* ---- models ---------------------------------------------------------------------------- */

static void run(const struct job *j)
{
	char path[64];

	if (strchr(j->model, '/')) {
		prompt(j, j->model);
		return;
	}
	generate(j->model, path);
	prompt(j, path);
	unlink(path);
}

/* Every job in a process of its own: its counters begin at nothing. Around the kernels' 16 columns and
 * the batch of 32; the demo was trained for 512 positions. */
ParameterizedTestParameters(footprint, demo)
{
	static struct job jobs[] = {
		{DEMO, 1, 2, false},   {DEMO, 5, 6, false},     {DEMO, 13, 14, false},
		{DEMO, 15, 16, false}, {DEMO, 16, 17, false},   {DEMO, 17, 18, false},
		{DEMO, 21, 22, true},  {DEMO, 31, 32, false},   {DEMO, 32, 33, false},
		{DEMO, 33, 34, false}, {DEMO, 500, 501, false}, {DEMO, 511, 512, true},
	};

	return cr_make_param_array(struct job, jobs, sizeof(jobs) / sizeof(jobs[0]));
}

ParameterizedTest(struct job *j, footprint, demo, .timeout = 900)
{
	run(j);
}

/* 1,300 tokens do not fit the demo, and it says so instead of guessing at rotations it never saw. */
Test(footprint, the_demo_refuses_a_context_it_was_not_trained_for)
{
	struct engine_opts o = {.n_ctx = 1301};

	open_model(DEMO, false);
	cr_expect_eq(engine_create(&dev, model, &o, &engine, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "1301") && strstr(err, "512"), "%s", err);
	close_model();
}

/* 1,300 tokens, on a small model of the same architecture too. */
ParameterizedTestParameters(footprint, shapes)
{
	static struct job jobs[] = {
		{"qwen3-mini", 13, 14, false}, {"qwen3-mini", 1300, 1301, false},
		{"qwen3-0.6b", 5, 6, false},   {"qwen3-0.6b", 13, 14, true},
		{"qwen3-0.6b", 21, 22, false}, {"qwen3-0.6b", 1300, 1301, false},
	};

	return cr_make_param_array(struct job, jobs, sizeof(jobs) / sizeof(jobs[0]));
}

ParameterizedTest(struct job *j, footprint, shapes, .timeout = 3600)
{
	run(j);
}

/* make check-memory */
ParameterizedTestParameters(footprint, qwen3_4b)
{
	static struct job jobs[] = {
		{"qwen3-4b", 5, 256, false},     {"qwen3-4b", 13, 256, false},
		{"qwen3-4b", 21, 256, true},     {"qwen3-4b", 255, 256, false},
		{"qwen3-4b", 1300, 1301, false},
	};

	return cr_make_param_array(struct job, jobs,
				   getenv("CHECK_MEMORY") ? sizeof(jobs) / sizeof(jobs[0]) : 0);
}

ParameterizedTest(struct job *j, footprint, qwen3_4b, .timeout = 14400)
{
	run(j);
}

Test(footprint, qwen3_4b_is_for_check_memory)
{
	if (!getenv("CHECK_MEMORY"))
		fprintf(stderr,
			"SKIP: footprint.qwen3_4b: 2.4 GB and minutes; make check-memory\n");
}
