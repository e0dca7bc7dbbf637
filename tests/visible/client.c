/* A client that looks too early, writes too early, or does neither: for tests/e2e_visible.c.
 *
 *	visible_client CASE SEED
 *
 * One kernel (c[i] = a[i] + b[i] of vecadd.co) and one copy; the cases differ in what the host does
 * between the doorbell and the wait. SEED chooses how long it dallies before, and which word. Prints
 * the address of what it touched wrongly, or 0. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codeobj/codeobj.h"
#include "memory/memory.h"
#include "queues/device.h"
#include "queues/sdma.h"

#define WORDS  4096u
#define LIVE   4000u /* of them the kernel is given */
#define KERNEL "tests/data/bench-kernels/vecadd.co"

static struct {
	struct bw_device dev;
	struct codeobj *co;
	struct co_program *program;
	struct kernarg_pool args;
	struct signal *done;
	struct bo *a, *b, *c;
	struct sdma *sdma;
	unsigned word, dally;
} V;

static void check(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, strerror(-rc), kfd_reason());
	exit(3);
}

static struct bo *buffer(const char *owner, enum bo_coherence coherence)
{
	const struct bo_desc d = {
		.owner = owner,
		.size = WORDS * 4,
		.placement = BO_GTT,
		.coherence = coherence,
		.host = true,
	};
	struct bo *bo = NULL;

	check(bo_create(V.dev.memory, &d, &bo), owner);
	return bo;
}

static float *host(const struct bo *bo)
{
	return bo_host(bo);
}

static void start(bool uncached)
{
	enum bo_coherence kind = uncached ? BO_UNCACHED : BO_COARSE;
	static char image[65536];
	char why[512] = "";
	FILE *f = fopen(KERNEL, "rb");
	size_t n = f ? fread(image, 1, sizeof(image), f) : 0;

	if (f)
		fclose(f);
	check(bw_device_open(NULL, &V.dev, why, sizeof(why)), why);
	check(co_parse(image, n, &V.co, why, sizeof(why)), why);
	check(co_load(V.dev.memory, V.co, "code", &V.program, why, sizeof(why)), why);
	check(kernarg_pool_create(V.dev.memory, 4096, &V.args), "kernel arguments");
	check(signal_create(V.dev.queue, 0, &V.done), "signal");
	check(sdma_create(V.dev.kfd, V.dev.memory, 0, &V.sdma), "sdma");
	V.a = buffer("left", kind);
	V.b = buffer("right", kind);
	V.c = buffer("sum", kind);
	for (unsigned i = 0; i < WORDS; i++) {
		host(V.a)[i] = (float)i;
		host(V.b)[i] = 1;
	}
}

static void stop(void)
{
	bo_destroy(V.a);
	bo_destroy(V.b);
	bo_destroy(V.c);
	sdma_destroy(V.sdma);
	signal_destroy(V.done);
	kernarg_pool_destroy(&V.args);
	co_unload(V.program);
	co_free(V.co);
	check(bw_device_close(&V.dev, NULL), "close");
}

static void submit(bool acquire, bool release)
{
	const struct co_kernel *k = co_find(V.co, "vecadd");
	struct {
		uint64_t a, b, c;
		uint32_t n;
	} *args = kernarg_alloc(&V.args, k->kernarg_bytes, 64);
	struct queue_batch batch;

	memset(args, 0, k->kernarg_bytes);
	args->a = bo_va(V.a);
	args->b = bo_va(V.b);
	args->c = bo_va(V.c);
	args->n = LIVE;
	check(queue_begin(V.dev.queue, 1, &batch), "queue");
	signal_set(V.done, 1);
	queue_dispatch(&batch, &(struct aql_dispatch){
				       .kernel_object = co_kernel_object(V.program, "vecadd"),
				       .kernarg = (uint64_t)(uintptr_t)args,
				       .grid = {WORDS, 1, 1},
				       .group = {256, 1, 1},
				       .private_bytes = k->private_bytes,
				       .group_bytes = k->group_bytes,
				       .completion = V.done,
				       .barrier = true,
				       .acquire_system = acquire,
				       .release_system = release,
			       });
	queue_commit(&batch);
}

static void wait_for_it(void)
{
	check(signal_wait(V.dev.queue, V.done, 1, 100000000000u, NULL), "wait");
}

/* Between nothing and long after the device is done. */
static void dally(void)
{
	struct timespec t = {.tv_nsec = V.dally * 1000};

	if (V.dally)
		nanosleep(&t, NULL);
}

/* Out of line, so that a report can name it. */
static __attribute__((noinline)) float look(const float *p)
{
	return *(const volatile float *)p;
}

static __attribute__((noinline)) void put(float *p, float v)
{
	*(volatile float *)p = v;
}

/* ---- cases: each returns what was touched wrongly ------------------------------- */

static const void *right(void)
{
	for (unsigned i = 0; i < 3; i++) {
		put(&host(V.a)[V.word], (float)i);
		submit(true, true);
		dally();
		wait_for_it();
		if (look(&host(V.c)[V.word]) != (float)i + 1)
			exit(4);
		memcpy(&host(V.b)[LIVE], host(V.c), 64);
	}
	return NULL;
}

/* Completion seen through the read index alone. */
static const void *right_index(void)
{
	submit(true, true);
	while (!queue_idle(V.dev.queue))
		dally();
	if (look(&host(V.c)[V.word]) != (float)V.word + 1)
		exit(4);
	return NULL;
}

static const void *right_copy(void)
{
	check(sdma_copy(V.sdma, bo_va(V.c), bo_va(V.a), WORDS * 4), "copy");
	check(sdma_wait(V.sdma, sdma_submit(V.sdma), 100000000000u, NULL, 0), "copy");
	if (look(&host(V.c)[V.word]) != (float)V.word)
		exit(4);
	put(&host(V.a)[V.word], 2);
	return NULL;
}

/* What the kernel reads for a file of its own, from the page where the fence is too, opens it to nobody. */
static const void *right_counter(void)
{
	char path[96], text[32];
	int64_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/sdma_%u", getpid(),
		 kfd_gpu_id(V.dev.kfd));
	check(sdma_copy(V.sdma, bo_va(V.c), bo_va(V.a), WORDS * 4), "copy");
	n = sdma_submit(V.sdma);
	usleep(50000); /* it is over by now, mostly */
	f = fopen(path, "re");
	check(f && fgets(text, sizeof(text), f) ? 0 : -ENOENT, path);
	fclose(f);
	check(sdma_wait(V.sdma, n, 100000000000u, NULL, 0), "copy");
	if (look(&host(V.c)[V.word]) != (float)V.word)
		exit(4);
	put(&host(V.a)[V.word], 2);
	return NULL;
}

/* What it does not use may be touched at any time. */
static const void *right_beside(void)
{
	submit(true, true);
	dally();
	put(&host(V.a)[LIVE + V.word % 96], 5);
	look(&host(V.c)[LIVE + V.word % 96]);
	look(&host(V.a)[V.word]);
	wait_for_it();
	return NULL;
}

/* Starts where nothing was written: what it reads further on is not seen. */
static const void *read_beside(void)
{
	check(sdma_copy(V.sdma, bo_va(V.c) + 32, bo_va(V.a), 64), "copy");
	check(sdma_submit(V.sdma) < 0 ? -1 : 0, "copy");
	dally();
	look(host(V.c));
	check(sdma_wait(V.sdma, 1, 100000000000u, NULL, 0), "copy");
	return NULL;
}

static const void *early_read(void)
{
	submit(true, true);
	dally();
	look(&host(V.c)[V.word]);
	wait_for_it();
	return &host(V.c)[V.word];
}

static const void *early_read_system_call(void)
{
	int fd[2];

	check(pipe(fd), "pipe");
	submit(true, true);
	dally();
	if (write(fd[1], &host(V.c)[V.word], 4) != 4)
		exit(4);
	wait_for_it();
	return &host(V.c)[V.word];
}

static const void *early_read_copy(void)
{
	int64_t n;

	check(sdma_copy(V.sdma, bo_va(V.c), bo_va(V.a), WORDS * 4), "copy");
	n = sdma_submit(V.sdma);
	dally();
	look(&host(V.c)[V.word]);
	check(sdma_wait(V.sdma, n, 100000000000u, NULL, 0), "copy");
	return &host(V.c)[V.word];
}

static const void *early_write(void)
{
	submit(true, true);
	dally();
	put(&host(V.a)[V.word], -1);
	wait_for_it();
	return &host(V.a)[V.word];
}

/* Behind a write to the same page that is allowed. */
static const void *early_write_second(void)
{
	submit(true, true);
	dally();
	put(&host(V.a)[LIVE + 1], -1);
	put(&host(V.a)[3072 + V.word % 900], -1);
	wait_for_it();
	return &host(V.a)[3072 + V.word % 900];
}

static const void *no_release(void)
{
	submit(true, false);
	wait_for_it();
	dally();
	look(&host(V.c)[V.word]);
	return &host(V.c)[V.word];
}

static const void *no_acquire(void)
{
	submit(true, true);
	wait_for_it();
	dally();
	put(&host(V.a)[V.word], -1);
	submit(false, true);
	wait_for_it();
	return &host(V.a)[V.word];
}

static const struct {
	const char *name;
	const void *(*run)(void);
	bool uncached;
} cases[] = {
	{"right", right, false},
	{"right-uncached", right, true},
	{"right-index", right_index, false},
	{"right-copy", right_copy, false},
	{"right-counter", right_counter, false},
	{"right-beside", right_beside, false},
	{"read-beside", read_beside, false},
	{"early-read", early_read, false},
	{"early-read-uncached", early_read, true},
	{"early-read-system-call", early_read_system_call, false},
	{"early-read-copy", early_read_copy, false},
	{"early-write", early_write, false},
	{"early-write-uncached", early_write, true},
	{"early-write-second", early_write_second, false},
	{"no-release", no_release, false},
	/* past the caches: no release is needed */
	{"no-release-uncached", no_release, true},
	{"no-acquire", no_acquire, false},
};

int main(int argc, char **argv)
{
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 0;

	V.word = seed * 2654435761u % LIVE;
	V.dally = seed % 4 ? seed % 4 * seed % 8 * 1000 : 0; /* us */
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		const void *p;

		if (strcmp(cases[i].name, argv[1]))
			continue;
		start(cases[i].uncached);
		p = cases[i].run();
		printf("0x%lx\n", (unsigned long)(uintptr_t)p);
		stop();
		return 0;
	}
	fprintf(stderr, "Usage: visible_client CASE SEED, CASE one of");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fprintf(stderr, " %s", cases[i].name);
	fprintf(stderr, "\n");
	return 2;
}
