/* A run's bytes: the ledger is the plan, the kernel's own counters differ from it by what the plan
 * says, nearly everything is touched, and no prompt length makes a second copy. */
#include <criterion/criterion.h>
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

#define DEMO "data/demo/story-4m-q8_0.gguf"
#define MIB  (1ull << 20)

static char err[512];
static struct bw_device dev;
static struct gguf *gguf;
static struct model *model;
static struct engine *engine;

/* BOs alive, for looking at their pages; the largest disagreement with the kernel. */
static struct {
	uint64_t va, size;
	char owner[64];
} bos[256];
static unsigned n_bos;
static uint64_t heap_start;
static int64_t lowest, highest;
static unsigned samples;

static uint64_t heap_used(void)
{
	struct kfd_heaps h;

	cr_assert_eq(kfd_heaps_get(dev.kfd, &h), 0);
	return h.gtt_used + h.vram_used;
}

static void watch(void *ctx, const struct ledger_record *r)
{
	int64_t d;

	(void)ctx;
	if (r->kind == LEDGER_ALLOC) {
		bos[n_bos].va = r->va;
		bos[n_bos].size = r->host ? r->size : 0;
		snprintf(bos[n_bos++].owner, sizeof(bos[0].owner), "%s", r->owner);
	} else if (r->kind == LEDGER_FREE) {
		for (unsigned i = 0; i < n_bos; i++)
			if (bos[i].va == r->va)
				bos[i] = bos[--n_bos];
	}
	/* The event page is the kernel's from its event on, before it is entered. */
	if (r->kind != LEDGER_ALLOC && r->kind != LEDGER_FREE)
		return;
	d = (int64_t)(heap_used() - heap_start) - (int64_t)memory_live(dev.memory);
	if (d < lowest)
		lowest = d;
	if (d > highest)
		highest = d;
	samples++;
}

static void open_model(const char *path)
{
	const struct bw_device_opts o = {.no_queue = true};

	cr_assert_eq(gguf_open(path, &gguf, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(gguf, &model, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(bw_device_open(&o, &dev, err, sizeof(err)), 0, "%s", err);
	heap_start = heap_used();
	memory_watch(dev.memory, watch, NULL);
	cr_assert_eq(queue_create(dev.kfd, dev.memory, NULL, &dev.queue), 0, "%s", kfd_reason());
}

static void close_model(void)
{
	struct bw_teardown t;

	cr_assert_eq(bw_device_close(&dev, &t), 0);
	cr_assert(!t.bos && !t.bytes && !t.queues);
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

/* A prompt of n tokens and one more, in a context that they fill. all: evaluate it, else load only.
 */
static void prompt(const char *path, uint32_t n, uint32_t ctx, bool all)
{
	struct engine_opts o = {.n_ctx = ctx,
				.batch = n < ENGINE_BATCH ? n : ENGINE_BATCH,
				.timeout_ns = 3000000000000,
				.strict = true};
	const float *logits;
	static const struct footprint_machine unknown;
	static const struct footprint_host nothing;
	struct footprint f;
	const struct plan *p;
	uint64_t lost = 0, looked = 0, bound;
	int32_t ids[ENGINE_BATCH];
	double start = seconds();

	n_bos = 0, samples = 0, lowest = highest = 0;
	open_model(path);
	cr_assert_eq(engine_create(&dev, model, &o, &engine, err, sizeof(err)), 0, "%s", err);
	for (uint32_t at = 0; all && at < n + 1;) {
		uint32_t k = at < n ? (n - at < o.batch ? n - at : o.batch) : 1;

		for (uint32_t i = 0; i < k; i++)
			ids[i] = (int32_t)((at + i) * 7 % model->hp.n_vocab);
		cr_assert_eq(engine_step(engine, ids, k, at, &logits, err, sizeof(err)), 0, "%s",
			     err);
		at += k;
	}
	p = engine_plan(engine);
	check_ledger(p);
	footprint_compute(p, &unknown, &nothing, 0, &f);
	cr_expect_gt(samples, 10);
	cr_expect(lowest >= -32768 && highest <= (int64_t)(f.page_tables + f.kernel),
		  "the kernel's counters differ from the ledger by %lld to %lld; predicted at most "
		  "%llu",
		  (long long)lowest, (long long)highest,
		  (unsigned long long)(f.page_tables + f.kernel));
	bound = (uint64_t)(1.02 * (double)(p->bo[PLAN_WEIGHTS].granted + p->bo[PLAN_KV].granted)) +
		64 * MIB;
	cr_expect(memory_peak(dev.memory) <= bound, "peak %llu, bound %llu",
		  (unsigned long long)memory_peak(dev.memory), (unsigned long long)bound);
	/* The save area is the kernel's to fill, when a queue is preempted; slots of a context that is
	 * not full are there for what comes. */
	for (unsigned i = 0; i < n_bos; i++) {
		if (!bos[i].size || !strcmp(bos[i].owner, "save area") ||
		    (ctx > n + 1 && !strcmp(bos[i].owner, "kv")))
			continue;
		looked += bos[i].size;
		lost += untouched(bos[i].va, bos[i].size);
	}
	if (all)
		cr_expect(lost * 100 <= looked, "%llu of %llu bytes were never touched",
			  (unsigned long long)lost, (unsigned long long)looked);
	fprintf(stderr,
		"%s, prompt %u, context %u: peak %.1f MiB of at most %.1f; never touched %.3f %%; "
		"kernel "
		"beyond the ledger %lld to %lld bytes; %.1f s%s\n",
		strrchr(path, '/') + 1, n, ctx, (double)memory_peak(dev.memory) / MIB,
		(double)bound / MIB, looked ? 100.0 * (double)lost / (double)looked : 0.0,
		(long long)lowest, (long long)highest, seconds() - start,
		all ? "" : " (loaded, not evaluated)");
	engine_destroy(engine);
	close_model();
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

Test(footprint, demo, .timeout = 300)
{
	static const uint32_t lengths[] = {1, 5, 13, 21, 500};

	/* The demo was trained for 512 positions. */
	for (int i = 0; i < 5; i++)
		prompt(DEMO, lengths[i], lengths[i] + 1, true);
}

/* 1,300 tokens need a longer context than the demo has: a small model of the same architecture. */
Test(footprint, a_long_prompt, .timeout = 300)
{
	char path[64];

	generate("qwen3-mini", path);
	prompt(path, 13, 14, true);
	prompt(path, 1300, 1301, true);
	unlink(path);
}

Test(footprint, qwen3_0_6b, .timeout = 600)
{
	bool all = getenv("CHECK_MEMORY") != NULL;
	char path[64];

	generate("qwen3-0.6b", path);
	prompt(path, 5, 6, true);
	prompt(path, 13, 14, all);
	prompt(path, 21, 22, all);
	prompt(path, 1300, 1301, false);
	unlink(path);
}

/* make check-memory */
Test(footprint, qwen3_4b, .timeout = 3000)
{
	const char *want = getenv("CHECK_MEMORY");
	char path[64];

	if (!want) {
		fprintf(stderr,
			"SKIP: footprint.qwen3_4b: 2.4 GB and minutes; make check-memory\n");
		return;
	}
	generate("qwen3-4b", path);
	prompt(path, 5, 256, true);
	prompt(path, 13, 256, true);
	prompt(path, 21, 256, true);
	prompt(path, 255, 256, false);
	unlink(path);
}
