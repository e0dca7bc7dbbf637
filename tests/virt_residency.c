/* Bounded residency: weights that take turns in one buffer give the same results, in the bytes that were
 * planned, also when the file they come from goes wrong in between.
 *
 * This program's own definitions of pread, madvise and ioctl come before the C library's and the device's:
 * what the driver asks for fails or waits as a test wants it.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/exec.h"
#include "kfd/uapi.h"
#include "tests/virt_model.h"

#define STEPS 4

/* ---- what goes wrong ---------------------------------------------------------------------- */

static _Atomic int fail_in;       /* reads of the file until one fails; 0: none will */
static _Atomic int reads;         /* so far */
static _Atomic bool held;         /* reads wait */
static _Atomic int waits_to_fail; /* of the copy engine */

static void *real(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

static bool due(_Atomic int *in)
{
	int n = atomic_load(in);

	while (n > 0 && !atomic_compare_exchange_weak(in, &n, n - 1))
		;
	return n == 1;
}

/* True when the read is to fail. */
static bool note_read(void)
{
	atomic_fetch_add(&reads, 1);
	while (atomic_load(&held))
		usleep(1000);
	if (!due(&fail_in))
		return false;
	errno = EIO;
	return true;
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	ssize_t (*next)(int, void *, size_t, off_t) =
		(ssize_t(*)(int, void *, size_t, off_t))real("pread");

	return note_read() ? -1 : next(fd, buf, n, off);
}

int madvise(void *at, size_t n, int advice)
{
	int (*next)(void *, size_t, int) = (int (*)(void *, size_t, int))real("madvise");

	/* What the kernel says of a page it could not read. */
	if (advice == MADV_POPULATE_READ && note_read()) {
		errno = EFAULT;
		return -1;
	}
	return next(at, n, advice);
}

int ioctl(int fd, unsigned long cmd, ...)
{
	int (*next)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))real("ioctl");
	const struct kfd_ioctl_wait_events_args *w;
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	w = arg;
	/* The engine's own waits are for more events. */
	if (cmd == AMDKFD_IOC_WAIT_EVENTS && w->num_events == 2 && atomic_load(&waits_to_fail)) {
		atomic_fetch_sub(&waits_to_fail, 1);
		errno = ENOMEM;
		return -1;
	}
	return next(fd, cmd, arg);
}

/* ---- runs --------------------------------------------------------------------------------- */

/* What a load has had by the time the engine is there, unless the slot needs it again. */
static uint64_t gone_after_load(const struct plan *p)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < p->n_rows && !p->refilled; i++)
		if (!strcmp(p->rows[i].owner, "staging") || !strncmp(p->rows[i].owner, "sdma ", 5))
			bytes += p->rows[i].granted;
	return bytes;
}

/* A prompt of 20 in steps of 16 and 4, then single tokens: logits of each of STEPS + 2 steps. */
static float *run(const struct engine_opts *o, uint64_t *total)
{
	const size_t vocab = model->hp.n_vocab;
	float *out = malloc((STEPS + 2) * vocab * sizeof(float));
	int32_t ids[20 + STEPS];
	const float *logits;
	struct engine *e;
	uint64_t entries, live;
	uint32_t pos = 0;

	for (int i = 0; i < 20 + STEPS; i++)
		ids[i] = 37 * i % (int32_t)vocab;
	cr_assert_eq(engine_create(&dev, model, o, &e, err, sizeof(err)), 0, "%s", err);
	entries = memory_ledger(dev.memory, 0, NULL, 0);
	live = memory_live(dev.memory);
	*total = engine_plan(e)->total;
	cr_expect_eq(live + gone_after_load(engine_plan(e)), *total, "ledger and plan differ");
	for (unsigned s = 0; s < STEPS + 2; s++) {
		uint32_t n = s == 0 ? 16 : s == 1 ? 4 : 1;

		cr_assert_eq(engine_step(e, ids + pos, n, pos, &logits, err, sizeof(err)), 0, "%s",
			     err);
		memcpy(out + s * vocab, logits, vocab * sizeof(float));
		pos += n;
	}
	cr_expect_eq(memory_ledger(dev.memory, 0, NULL, 0), entries, "a step entered something");
	engine_destroy(e);
	cr_assert_eq(memory_limit(dev.memory, NULL, 0), 0);
	return out;
}

Test(residency, any_number_of_blocks_in_turn, .timeout = 600)
{
	uint64_t total, before = 0;
	size_t bytes;
	float *want;

	open_all(DEMO);
	bytes = (STEPS + 2) * model->hp.n_vocab * sizeof(float);
	want = run(&(struct engine_opts){.n_ctx = 32, .strict = true}, &total);
	for (uint32_t n = 1; n <= model->hp.n_layer; n++) {
		struct engine_opts o = {.n_ctx = 32, .strict = true, .refilled = n};
		float *got = run(&o, &total);

		cr_expect_eq(memcmp(got, want, bytes), 0, "%u blocks in turn", n);
		free(got);
		cr_expect(n == 1 || total < before, "%u blocks in turn save nothing", n);
		before = total;
	}
	free(want);
	close_all();
}

Test(residency, any_way_from_the_file, .timeout = 600)
{
	uint64_t total;
	size_t bytes;
	float *want;

	open_all(DEMO);
	bytes = (STEPS + 2) * model->hp.n_vocab * sizeof(float);
	want = run(&(struct engine_opts){.n_ctx = 32}, &total);
	for (int source = 0; source < 3; source++) {
		for (int copy = 0; copy < 3; copy++) {
			struct engine_opts o = {.n_ctx = 32, .strict = true, .refilled = 4};
			float *got;

			o.load.source = (enum load_source)source;
			o.load.copy = (enum load_copy)copy;
			o.load.staging = LOAD_STAGING_MIN;
			got = run(&o, &total);
			cr_expect_eq(memcmp(got, want, bytes), 0, "source %d, copy %d", source,
				     copy);
			free(got);
		}
	}
	free(want);
	close_all();
}

/* ---- what fails costs the step it fails in ------------------------------------------------- */

#define N_STEPS (STEPS + 2u)

struct course {
	struct engine *e;
	int32_t ids[20 + STEPS];
	float *want; /* of each step */
	size_t row;  /* bytes of one */
	const float *logits;
};

static void course_begin(struct course *c, const char *path, const struct engine_opts *o)
{
	const struct engine_opts all = {.n_ctx = 32};
	uint64_t total;

	open_all(path);
	for (int i = 0; i < 20 + STEPS; i++)
		c->ids[i] = 37 * i % (int32_t)model->hp.n_vocab;
	c->row = model->hp.n_vocab * sizeof(float);
	c->want = run(&all, &total);
	c->logits = NULL;
	cr_assert_eq(engine_create(&dev, model, o, &c->e, err, sizeof(err)), 0, "%s", err);
}

/* As run() does them: 16, 4, then single tokens. */
static int course_step(struct course *c, unsigned s)
{
	const uint32_t pos = s == 0 ? 0 : s == 1 ? 16 : 18 + s;

	return engine_step(c->e, c->ids + pos,
			   s == 0   ? 16
			   : s == 1 ? 4
				    : 1,
			   pos, &c->logits, err, sizeof(err));
}

static void course_check(const struct course *c, unsigned s, const char *what)
{
	cr_expect_eq(memcmp(c->logits, c->want + s * c->row / sizeof(float), c->row), 0,
		     "%s: step %u differs", what, s);
}

/* A step that fails hands out nothing, and leaves what the one before it handed out. */
static void course_fail(struct course *c, unsigned s, int rc, const char *words)
{
	const float *before = c->logits;
	float *copy = before ? malloc(c->row) : NULL;
	int got;

	if (copy)
		memcpy(copy, before, c->row);
	got = course_step(c, s);
	cr_assert_eq(got, rc, "step %u: %d: %s", s, got, err);
	cr_expect(strstr(err, words), "%s", err);
	cr_expect(strstr(err, "refilling the slot with block "), "%s", err);
	cr_expect_null(strchr(err, '\n'), "%s", err);
	cr_expect_eq(c->logits, before);
	cr_expect(!copy || !memcmp(copy, before, c->row), "step %u wrote logits", s);
	free(copy);
}

static void course_end(struct course *c)
{
	engine_destroy(c->e);
	free(c->want);
	close_all();
}

/* Every way from the file, every way to the slot; the failure comes with the first read of a step, with
 * one in the middle, with one near its end. With one block in turn it is read in the first step alone,
 * unless what a failure left were taken for it. */
Test(residency, a_read_that_fails_costs_one_step, .timeout = 1200)
{
	static const uint32_t turns[] = {1, 5};
	unsigned failures = 0;

	for (int source = 0; source < 3; source++) {
		for (int copy = 0; copy < 3; copy++) {
			for (unsigned t = 0; t < 2; t++) {
				struct engine_opts o = {
					.n_ctx = 32, .strict = true, .refilled = turns[t]};
				char what[64];
				struct course c;
				uint64_t entries, live;
				int in_step;

				snprintf(what, sizeof(what), "source %d, copy %d, %u blocks",
					 source, copy, turns[t]);
				o.load.source = (enum load_source)source;
				o.load.copy = (enum load_copy)copy;
				o.load.staging = LOAD_STAGING_MIN;
				course_begin(&c, DEMO, &o);
				entries = memory_ledger(dev.memory, 0, NULL, 0);
				live = memory_live(dev.memory);
				in_step = atomic_load(&reads);
				for (unsigned s = 0; s < N_STEPS; s++) {
					const int at[] = {1, in_step / 2, in_step - 1};

					for (unsigned k = 0; k < 3 && (s == 0 || t == 1); k++) {
						/* How many a step has is known after the first. */
						atomic_store(&fail_in, s ? at[k] : 1 + 4 * (int)k);
						course_fail(&c, s, -EIO, "reading ");
						cr_expect(strstr(err, " bytes at offset ") &&
								  strstr(err, ", got ") &&
								  strstr(err, strerror(EIO)) &&
								  strstr(err, "(" DEMO ")"),
							  "%s", err);
						failures++;
					}
					atomic_store(&fail_in, 0);
					atomic_store(&reads, 0);
					cr_assert_eq(course_step(&c, s), 0, "%s: step %u: %s", what,
						     s, err);
					course_check(&c, s, what);
					if (s == 0)
						in_step = atomic_load(&reads);
					cr_expect_eq(atomic_load(&reads) > 0, s == 0 || t == 1,
						     "%s", what);
				}
				cr_expect_eq(memory_ledger(dev.memory, 0, NULL, 0), entries);
				cr_expect_eq(memory_live(dev.memory), live);
				course_end(&c);
			}
		}
	}
	fprintf(stderr, "%u steps met a read that fails, all of them could be done again\n",
		failures);
}

/* While it stalls every step is given up; when it wakes the next one runs. */
Test(residency, a_file_that_stalls_costs_the_steps_meanwhile, .timeout = 600)
{
	for (int source = 0; source < 2; source++) {
		struct engine_opts o = {.n_ctx = 32, .strict = true, .refilled = 5};
		struct course c;

		o.load.source = source ? LOAD_PREAD : LOAD_MMAP;
		o.load.copy = source ? LOAD_SDMA : LOAD_HOST;
		o.load.stall_ns = 200000000;
		course_begin(&c, DEMO, &o);
		for (unsigned s = 0; s < N_STEPS; s++) {
			atomic_store(&held, s & 1);
			for (unsigned again = 0; again < 2 && s & 1; again++)
				course_fail(&c, s, -ETIMEDOUT, "no byte of the file at offset ");
			atomic_store(&held, false);
			/* The machine may be slower than that, too. */
			for (int rc = -ETIMEDOUT; rc == -ETIMEDOUT;) {
				rc = course_step(&c, s);
				cr_assert(rc == 0 || rc == -ETIMEDOUT, "%s", err);
			}
			course_check(&c, s, "after a stall");
		}
		course_end(&c);
	}
}

/* The file is needed as long as the engine lives. Where it becomes shorter the step says so, however it
 * is read, and also where it ends in the middle of a page, of which a mapping has the rest as zeros; when
 * the file is whole again, so is the engine. */
Test(residency, a_file_that_becomes_shorter, .timeout = 600)
{
	for (int source = 0; source < 2; source++) {
		char path[] = "/tmp/barewave-turn-XXXXXX", cmd[128];
		struct engine_opts o = {.n_ctx = 32, .refilled = 5};
		uint64_t cut = 0;
		struct course c;
		int fd;

		o.load.source = source ? LOAD_PREAD : LOAD_MMAP;
		o.load.copy = source ? LOAD_KERNEL : LOAD_HOST;
		cr_assert(mkstemp(path) >= 0);
		snprintf(cmd, sizeof(cmd), "env -u LD_PRELOAD cp " DEMO " %s", path);
		cr_assert_eq(system(cmd), 0);
		course_begin(&c, path, &o);
		for (uint32_t i = 0; i < gguf->n_tensors; i++) {
			const struct gguf_tensor *t = &gguf->tensors[i];

			if (!memcmp(t->name.p, "blk.", 4) && t->offset + t->bytes > cut)
				cut = t->offset + t->bytes;
		}
		for (unsigned s = 0; s < N_STEPS; s++) {
			cr_assert_eq(truncate(path, (off_t)(s & 1 ? gguf->size / 2 : cut - 3)), 0);
			course_fail(&c, s, -ENODATA, "the file ends there");
			course_fail(&c, s, -ENODATA, path);
			snprintf(cmd, sizeof(cmd),
				 "env -u LD_PRELOAD dd if=" DEMO " of=%s conv=notrunc status=none",
				 path);
			cr_assert_eq(system(cmd), 0);
			cr_assert_eq(course_step(&c, s), 0, "%s", err);
			course_check(&c, s, "after the file was short");
		}
		course_end(&c);
		fd = unlink(path);
		cr_expect_eq(fd, 0);
	}
}

/* Whether a copy ended is asked twice; then it is known, and the step may be tried again, or it is not, and
 * the engine ends: the copy may write to the slot at any time. */
Test(residency, a_copy_that_cannot_be_waited_for, .timeout = 600)
{
	struct engine_opts o = {.n_ctx = 32, .strict = true, .refilled = 5};
	unsigned survived = 0;
	struct course c;
	int rc = 0;

	o.load.copy = LOAD_SDMA;
	o.load.staging = LOAD_STAGING_MIN;
	course_begin(&c, DEMO, &o);
	for (unsigned s = 0; s < N_STEPS; s++) {
		/* A copy that is done when it is looked for needs no wait. */
		for (unsigned again = 0; again < 20 && !rc; again++) {
			atomic_store(&waits_to_fail, 1);
			rc = course_step(&c, s);
		}
		cr_assert_eq(rc, -ENOMEM, "step %u: no wait of 20 steps failed: %d %s", s, rc, err);
		cr_expect(strstr(err, "copying weights: "), "%s", err);
		survived++;
		atomic_store(&waits_to_fail, 0);
		rc = course_step(&c, s);
		cr_assert_eq(rc, 0, "%s", err);
		course_check(&c, s, "after a failed wait");
	}
	for (unsigned again = 0; again < 20 && !rc; again++) {
		atomic_store(&waits_to_fail, INT32_MAX);
		rc = course_step(&c, N_STEPS - 1);
	}
	atomic_store(&waits_to_fail, 0);
	cr_expect_eq(rc, -ENOMEM, "%s", err);
	cr_expect_eq(course_step(&c, N_STEPS - 1), -EIO);
	cr_expect(strstr(err, "of no further use"), "%s", err);
	cr_expect_eq(survived, N_STEPS);
	engine_destroy(c.e);
	cr_expect_null(dev.queue, "buffers were freed under a running queue");
	cr_expect_eq(memory_live_count(dev.memory), 0);
	free(c.want);
	close_all();
}

/* A file that is replaced stays in use: it is open. */
Test(residency, a_file_that_is_replaced, .timeout = 300)
{
	for (int source = 0; source < 3; source++) {
		char path[] = "/tmp/barewave-turn-XXXXXX", cmd[256];
		struct engine_opts o = {.n_ctx = 32, .refilled = 5};
		const int32_t ids[2] = {1, 2};
		const float *logits;
		struct engine *e;
		int fd = mkstemp(path);

		o.load.source = (enum load_source)source;
		cr_assert(fd >= 0);
		close(fd);
		snprintf(cmd, sizeof(cmd), "env -u LD_PRELOAD cp " DEMO " %s", path);
		cr_assert_eq(system(cmd), 0);
		open_all(path);
		if (engine_create(&dev, model, &o, &e, err, sizeof(err))) {
			cr_assert(source == LOAD_DIRECT && strstr(err, "knows no O_DIRECT"), "%s",
				  err);
			close_all();
			unlink(path);
			continue;
		}
		cr_assert_eq(engine_step(e, ids, 1, 0, &logits, err, sizeof(err)), 0, "%s", err);
		snprintf(cmd, sizeof(cmd),
			 "env -u LD_PRELOAD sh -c 'cp " DEMO " %s.new && mv %s.new %s'", path, path,
			 path);
		cr_assert_eq(system(cmd), 0);
		cr_expect_eq(engine_step(e, ids + 1, 1, 1, &logits, err, sizeof(err)), 0, "%s",
			     err);
		engine_destroy(e);
		close_all();
		unlink(path);
	}
}
