/* The debug build's assertions on plain pointers. Built with -DBAREWAVE_DEBUG, and memory/ with it;
 * otherwise a tests/virt_*.c like any other. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/exec.h"
#include "engine/gguf.h"
#include "tests/virt_device.h"

#define DEMO "data/demo/story-4m-q8_0.gguf"
#define RUNS 12

static struct bo *make(const char *owner, uint64_t size)
{
	struct bo *b = NULL;

	cr_assert_eq(bo_create(dev.memory,
			       &(struct bo_desc){.owner = owner, .size = size, .host = true}, &b),
		     0);
	return b;
}

/* Does it in a child; true when that was ended by the assertion, whose sentence is then in said. */
static bool caught(void (*what)(void *), void *arg, char said[1024])
{
	int fd[2], status;
	ssize_t n;
	pid_t pid;

	cr_assert_eq(pipe(fd), 0);
	fflush(NULL);
	pid = fork();
	cr_assert(pid >= 0);
	if (!pid) {
		dup2(fd[1], 2);
		what(arg);
		_exit(0);
	}
	close(fd[1]);
	n = read(fd[0], said, 1023);
	said[n > 0 ? n : 0] = '\0';
	close(fd[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

struct touch {
	unsigned seed;
	bool write, reads;
	int done; /* 1: after publication; 2: beside what is read */
};

/* Each child opens the device for itself: its own is not inherited. */
static void touch(void *arg)
{
	const struct bo_work work = {.what = "matmul_q8_0", .number = 7};
	const struct touch *t = arg;
	volatile uint32_t *p;
	struct bo *b;

	open_device();
	b = make("kv", 16384);
	p = bo_host(b);
	if (t->reads)
		bo_device_reads(b, 0, 8192, &work);
	else
		bo_device_writes(b, &work);
	if (t->done == 1)
		bo_publish(b);
	p += t->seed * 2654435761u % 2048 + (t->done == 2 ? 2048 : 0);
	if (t->write)
		*p = 5;
	else
		(void)*p;
}

Test(guard, plain_pointers_are_caught_by_name)
{
	static const struct {
		struct touch t;
		bool wrong;
		const char *words[4];
	} cases[] = {
		{{.write = false}, true, {"host read of 0x", "may be writing", "then read"}},
		{{.write = true}, true, {"host write of 0x", "may be writing", "then write"}},
		{{.write = true, .reads = true}, true, {"host write of 0x", "the device reads it"}},
		{{.write = false, .reads = true}, false, {0}},
		{{.write = false, .done = 1}, false, {0}},
		{{.write = true, .done = 1}, false, {0}},
		{{.write = true, .reads = true, .done = 1}, false, {0}},
		{{.write = true, .reads = true, .done = 2}, false, {0}},
	};
	unsigned found = 0, wanted = 0;
	char said[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned seed = 0; seed < RUNS; seed++) {
			struct touch t = cases[i].t;
			bool ok;

			t.seed = seed;
			ok = caught(touch, &t, said);
			cr_expect_eq(ok, cases[i].wrong, "case %zu, seed %u: %s", i, seed, said);
			wanted += cases[i].wrong;
			found += cases[i].wrong && ok;
			for (unsigned w = 0; ok && w < 4 && cases[i].words[w]; w++)
				cr_expect(strstr(said, cases[i].words[w]), "%s", said);
			if (ok)
				cr_expect(strstr(said, "of \"kv\" (number ") &&
						  strstr(said, "\"matmul_q8_0\" 7") &&
						  strstr(said, "bo_publish()"),
					  "%s", said);
		}
	printf("debug build: early accesses caught: %u of %u; correct ones: none\n", found, wanted);
}

/* Every wait for a signal comes here first (--wrap): after the doorbell, before publication. */
static const float *peek;
int __real_signal_wait(struct queue *q, struct signal *s, int64_t below, uint64_t timeout_ns,
		       struct queue_fault *f);
int __wrap_signal_wait(struct queue *q, struct signal *s, int64_t below, uint64_t timeout_ns,
		       struct queue_fault *f);

int __wrap_signal_wait(struct queue *q, struct signal *s, int64_t below, uint64_t timeout_ns,
		       struct queue_fault *f)
{
	if (peek)
		(void)*(volatile const float *)peek;
	return __real_signal_wait(q, s, below, timeout_ns, f);
}

/* The engine, held to its own rules: nothing it does is too early. Whoever looks at the last step's
 * logits while the next one runs is. */
static void demo(void *arg)
{
	const bool early = arg != NULL;
	const int32_t ids[2] = {1, 5};
	struct engine_opts o = {.n_ctx = 16, .load = {.copy = LOAD_SDMA, .staging = 1 << 20}};
	const float *logits = NULL;
	struct gguf *g = NULL;
	struct model *m = NULL;
	struct engine *e = NULL;
	char why[512] = "";

	open_device();
	if (gguf_open(DEMO, &g, why, sizeof(why)) || model_load(g, &m, why, sizeof(why)) ||
	    engine_create(&dev, m, &o, &e, why, sizeof(why)) ||
	    engine_step(e, ids, 2, 0, &logits, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		_exit(3);
	}
	peek = early ? logits : NULL;
	if (engine_step(e, ids, 1, 2, &logits, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		_exit(3);
	}
	engine_destroy(e);
	model_free(m);
	gguf_close(g);
	close_device();
	fprintf(stderr, "done\n");
}

Test(guard, the_engine_keeps_its_own_rules, .timeout = 300)
{
	char said[1024];

	cr_expect(!caught(demo, NULL, said), "%s", said);
	cr_expect(strstr(said, "done"), "%s", said);
	cr_expect(caught(demo, said, said), "%s", said);
	cr_expect(strstr(said, "host read of 0x") && strstr(said, "of \"io\" (number ") &&
			  strstr(said, "by \"finish\" 2;"),
		  "%s", said);
}

/* A segmentation fault that is none of ours goes where it went before. */
static void stray(void *arg)
{
	struct bo *b;

	(void)arg;
	open_device();
	b = make("kv", 4096);
	bo_device_writes(b, NULL);
	signal(SIGABRT, SIG_IGN);
	*(volatile int *)16 = 1;
}

Test(guard, other_faults_are_left_alone)
{
	char said[1024];

	cr_expect(!caught(stray, NULL, said));
	cr_expect(!strstr(said, "assertion"), "%s", said);
}

/* What page protection cannot say: a system call fails, and says nothing. */
static void call(void *arg)
{
	struct bo *b;
	int fd[2];

	(void)arg;
	open_device();
	b = make("kv", 4096);
	bo_device_writes(b, NULL);
	if (pipe(fd) || write(fd[1], bo_host(b), 4) >= 0)
		_exit(1);
	perror("call");
}

Test(guard, system_calls_fail)
{
	char said[1024];

	cr_expect(!caught(call, NULL, said));
	cr_expect(strstr(said, "Bad address"), "%s", said);
}
