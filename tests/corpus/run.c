/* Runs generated kernels (gen.c) on the device and on the host and compares what they
 * write: corpus_run HOST.so DEVICE.co...
 *
 * HOST.so and each DEVICE.co are the same kernels for the host and for gfx1151. Prints the kernels
 * that differ and closes with "N passed, N failed". Exit status 1 if any failed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codeobj/codeobj.h"
#include "queues/device.h"

/* As in tests/corpus/corpus.h. */
enum { ITEMS = 64, GROUPS = 2, IN = 1024, OUT = 16, COUNTS = 16 };
enum { OUT_DWORDS = ITEMS * GROUPS * OUT, TIMEOUT_S = 600 };

struct corpus_kernel {
	const char *name;
	void (*run)(const uint32_t *in, uint32_t *out, uint32_t *counts);
};

static struct {
	struct bw_device dev;
	struct signal *signal;
	struct bo *in, *out, *kernarg;
	uint32_t want[OUT_DWORDS + COUNTS];
} R;

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "corpus: %s: %s\n", what, why);
	return 2;
}

static struct bo *buffer(uint64_t bytes)
{
	struct bo_desc d = {.owner = "corpus",
			    .size = bytes,
			    .placement = BO_GTT,
			    .coherence = BO_UNCACHED,
			    .host = true};
	struct bo *bo = NULL;

	return bo_create(R.dev.memory, &d, &bo) ? NULL : bo;
}

static void fill_in(uint32_t *p)
{
	static const uint32_t odd[] = {0,          1,          0xffffffff, 0x80000000,
				       0x7fffffff, 0x3f800000, 0x7f800000, 0xff7fffff,
				       0x00000001, 0x3c003c00, 64,         255};
	uint64_t x = 88172645463325252u;

	for (unsigned i = 0; i < IN; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = x >> 60 < 3 ? odd[(x >> 32) % 12] : (uint32_t)(x >> 20);
	}
}

static int device_up(void)
{
	static char why[512];
	struct bw_device_opts o = {.queue.scratch_lane_bytes = 16384};
	int r = bw_device_open(&o, &R.dev, why, sizeof(why));

	if (r)
		return fail("device", why);
	R.in = buffer(4 * IN);
	R.out = buffer(4 * (OUT_DWORDS + COUNTS));
	R.kernarg = buffer(4096);
	if (!R.in || !R.out || !R.kernarg || signal_create(R.dev.queue, 1, &R.signal))
		return fail("buffers", kfd_reason());
	fill_in(bo_host(R.in));
	return 0;
}

static void device_down(void)
{
	bo_destroy(R.in);
	bo_destroy(R.out);
	bo_destroy(R.kernarg);
	signal_destroy(R.signal);
	bw_device_close(&R.dev, NULL);
}

/* The order of items never matters to counters, so start each with what its operation keeps. */
static void start_counts(uint32_t *c)
{
	for (unsigned i = 0; i < COUNTS; i++)
		c[i] = 0x01010101u * i;
}

/* NULL, or why the dispatch did not end. */
static const char *dispatch(const struct co_program *prog, const struct co_kernel *k)
{
	static struct queue_fault fault;
	struct aql_dispatch d = {
		.kernel_object = co_kernel_object(prog, k->name),
		.kernarg = bo_va(R.kernarg),
		.grid = {ITEMS * GROUPS, 1, 1},
		.group = {ITEMS, 1, 1},
		.private_bytes = k->private_bytes,
		.group_bytes = k->group_bytes,
		.completion = R.signal,
		.acquire_system = true,
		.release_system = true,
	};
	struct co_launch launch = {
		.grid = {ITEMS * GROUPS, 1, 1}, .group = {ITEMS, 1, 1}, .dims = 1};
	uint64_t args[3] = {bo_va(R.in), bo_va(R.out), bo_va(R.out) + 4 * OUT_DWORDS};
	struct queue_batch b;
	int r;

	if (k->dynamic_stack && d.private_bytes < 8192)
		d.private_bytes = 8192; /* calls the compiler could not bound */
	memset(bo_host(R.kernarg), 0, 4096);
	co_fill_hidden(k, &launch, bo_host(R.kernarg));
	memcpy(bo_host(R.kernarg), args, sizeof(args));
	signal_set(R.signal, 1);
	if (queue_begin(R.dev.queue, 1, &b))
		return "queue full";
	queue_dispatch(&b, &d);
	queue_commit(&b);
	r = signal_wait(R.dev.queue, R.signal, 1, TIMEOUT_S * 1000000000ull, &fault);
	if (!r)
		return NULL;
	return fault.text[0] ? fault.text : strerror(-r);
}

static bool compare(const char *file, const char *name)
{
	const uint32_t *got = bo_host(R.out);

	for (unsigned i = 0; i < OUT_DWORDS + COUNTS; i++) {
		if (got[i] == R.want[i])
			continue;
		if (i < OUT_DWORDS)
			printf("%s %s: item %u dword %u is 0x%08x, on the host 0x%08x\n", file,
			       name, i / OUT, i % OUT, got[i], R.want[i]);
		else
			printf("%s %s: counter %u is 0x%08x, on the host 0x%08x\n", file, name,
			       i - OUT_DWORDS, got[i], R.want[i]);
		return false;
	}
	return true;
}

static void *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	void *p = NULL;
	long size;

	if (!f)
		return NULL;
	if (fseek(f, 0, SEEK_END) || (size = ftell(f)) <= 0 || fseek(f, 0, SEEK_SET))
		goto out;
	p = malloc((size_t)size);
	if (p && fread(p, 1, (size_t)size, f) != (size_t)size) {
		free(p);
		p = NULL;
	}
	*n = (size_t)size;
out:
	(void)fclose(f);
	return p;
}

static int run_file(const char *path, const struct corpus_kernel *host, unsigned *passed,
		    unsigned *failed)
{
	char err[512] = "cannot read";
	struct co_program *prog = NULL;
	struct codeobj *co = NULL;
	size_t n = 0;
	void *image = read_file(path, &n);
	int rc = 1; /* also: the queue is gone */

	if (!image || co_parse(image, n, &co, err, sizeof(err)) ||
	    co_load(R.dev.memory, co, "code", &prog, err, sizeof(err))) {
		rc = fail(path, err);
		goto out;
	}
	for (; host->name; host++) {
		const struct co_kernel *k = co_find(co, host->name);
		const char *why;

		if (!k) {
			rc = fail(path, host->name);
			goto out;
		}
		memset(R.want, 0, sizeof(R.want));
		start_counts(R.want + OUT_DWORDS);
		memcpy(bo_host(R.out), R.want, sizeof(R.want));
		host->run(bo_host(R.in), R.want, R.want + OUT_DWORDS);
		why = dispatch(prog, k);
		if (why) {
			printf("%s %s: %s\n", path, host->name, why);
			goto out;
		}
		if (compare(path, host->name))
			++*passed;
		else
			++*failed;
	}
	rc = 0;
out:
	co_unload(prog);
	co_free(co);
	free(image);
	return rc;
}

int main(int argc, char **argv)
{
	const struct corpus_kernel *host;
	unsigned passed = 0, failed = 0;
	void *so;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: corpus_run HOST.so DEVICE.co...\n");
		return 2;
	}
	so = dlopen(argv[1], RTLD_NOW);
	host = so ? dlsym(so, "corpus_kernels") : NULL;
	if (!host)
		return fail(argv[1], dlerror());
	r = device_up();
	for (int i = 2; i < argc && !r; i++)
		r = run_file(argv[i], host, &passed, &failed);
	if (r == 2)
		return r;
	if (r) {
		printf("%u passed, %u failed\n", passed, failed + 1);
		fflush(stdout);
		_Exit(1);
	}
	device_down();
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}
