/* What a running engine costs the host: no system call and no allocation per token, no CPU while it
 * waits, and a load that takes little longer than reading the file and touching the destination.
 *
 * This program's own definitions of malloc and its kin and of ioctl come before the C library's and
 * the device's, so that it sees every call that the driver makes. A tracer counts the system calls
 * of the stepping thread; what the virtual device does inside an ioctl is bracketed out by marked
 * calls.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/exec.h"
#include "kfd/uapi.h"

#define DEMO   "data/demo/story-4m-q8_0.gguf"
#define WARM   8
#define STEPS  64          /* of those that refill, which enter the kernel, an eighth */
#define MARK   0x6d61726bl /* second argument of the calls that mark */
#define WINDOW 1
#define IOCTL  2

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

static char err[512];
static _Thread_local bool window, inside;
static unsigned long allocations, ioctls, other_ioctls;

static long mark(long what, long on)
{
	long r;

	/* getppid with arguments it does not look at; by hand, past every hook */
	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_getppid), "D"(MARK), "S"(what), "d"(on)
			 : "rcx", "r11", "memory");
	return r;
}

void *malloc(size_t n)
{
	allocations += window && !inside;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocations += window && !inside;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	allocations += window && !inside;
	return __libc_realloc(p, n);
}

int ioctl(int fd, unsigned long cmd, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list ap;
	void *arg;
	int r;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!real)
		real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	if (!window)
		return real(fd, cmd, arg);
	ioctls++;
	other_ioctls += cmd != AMDKFD_IOC_WAIT_EVENTS;
	inside = true;
	mark(IOCTL, 1);
	r = real(fd, cmd, arg);
	mark(IOCTL, 0);
	inside = false;
	return r;
}

struct counts {
	unsigned long allocations, ioctls, other_ioctls, syscalls, marked;
};

/* The traced side: warm up, then STEPS steps inside the window. planted: and one allocation and one
 * system call that no step makes. */
static void step_many(int report, const struct engine_opts *how, bool planted)
{
	char *volatile kept; /* so that the allocation is made */
	struct engine_opts o = *how;
	const uint32_t steps = o.refilled ? STEPS / 8 : STEPS;
	struct bw_device dev;
	struct counts c = {0};
	const float *logits;
	struct gguf *g;
	struct model *m;
	struct engine *e;
	int32_t id = 1;

	o.n_ctx = WARM + steps;
	if (gguf_open(DEMO, &g, err, sizeof(err)) || model_load(g, &m, err, sizeof(err)) ||
	    bw_device_open(NULL, &dev, err, sizeof(err)) ||
	    engine_create(&dev, m, &o, &e, err, sizeof(err)))
		_exit(2);
	raise(SIGSTOP); /* the tracer takes over */
	for (uint32_t i = 0; i < WARM + steps; i++) {
		if (i == WARM) {
			window = true;
			mark(WINDOW, 1);
		}
		if (engine_step(e, &id, 1, i, &logits, err, sizeof(err)))
			_exit(3);
	}
	if (planted) {
		kept = malloc(1);
		kept[0] = 1;
		getppid();
	}
	mark(WINDOW, 0);
	window = false;
	c.allocations = allocations;
	c.ioctls = ioctls;
	c.other_ioctls = other_ioctls;
	if (write(report, &c, sizeof(c)) != sizeof(c))
		_exit(4);
	engine_destroy(e);
	_exit(bw_device_close(&dev, NULL) ? 5 : 0);
}

static int trace(pid_t child, struct counts *c)
{
	bool in_window = false, in_ioctl = false, entry = true;
	int st;

	while (waitpid(child, &st, 0) == child) {
		int sig = 0;

		if (WIFEXITED(st) || WIFSIGNALED(st))
			return st;
		if (WSTOPSIG(st) == (SIGTRAP | 0x80)) {
			struct user_regs_struct r;

			ptrace(PTRACE_GETREGS, child, NULL, &r);
			if (entry && r.orig_rax == SYS_getppid && r.rdi == MARK) {
				c->marked++;
				if (r.rsi == WINDOW)
					in_window = r.rdx;
				else
					in_ioctl = r.rdx;
			} else if (entry && in_window && !in_ioctl) {
				if (c->syscalls++ < 8)
					fprintf(stderr, "system call %llu in a step\n", r.orig_rax);
			}
			entry = !entry;
		} else if (WSTOPSIG(st) != SIGTRAP && WSTOPSIG(st) != SIGSTOP) {
			sig = WSTOPSIG(st);
		}
		ptrace(PTRACE_SYSCALL, child, NULL, (void *)(intptr_t)sig);
	}
	return -1;
}

/* False when this machine does not let a process be traced. */
static bool measure(const struct engine_opts *how, bool planted, struct counts *c,
		    struct counts *said)
{
	int report[2], st;
	pid_t child;

	cr_assert_eq(pipe(report), 0);
	child = fork();
	if (child == 0)
		step_many(report[1], how, planted);
	cr_assert(child > 0);
	cr_assert_eq(waitpid(child, &st, WUNTRACED), child);
	cr_assert(WIFSTOPPED(st), "status 0x%x before the first step", st);
	if (ptrace(PTRACE_SEIZE, child, NULL, (void *)PTRACE_O_TRACESYSGOOD)) {
		fprintf(stderr,
			"SKIP: steady.a_decode_step_enters_the_kernel_only_to_wait: ptrace: "
			"%s\n",
			strerror(errno));
		kill(child, SIGKILL);
		return false;
	}
	kill(child, SIGCONT);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	st = trace(child, c);
	cr_assert(WIFEXITED(st) && WEXITSTATUS(st) == 0, "status 0x%x", st);
	cr_assert_eq(read(report[0], said, sizeof(*said)), sizeof(*said));
	close(report[0]);
	close(report[1]);
	cr_expect_geq(c->marked, 2, "the window was not seen");
	cr_expect_eq(c->marked, 2 + 2 * said->ioctls);
	return true;
}

Test(steady, a_decode_step_enters_the_kernel_only_to_wait, .timeout = 600)
{
	const struct engine_opts how = {0};
	struct counts c = {0}, said = {0}, more = {0}, more_said = {0};

	if (!measure(&how, false, &c, &said))
		return;
	fprintf(stderr,
		"%d decode steps: %lu allocations, %lu system calls besides %lu waits, %lu other "
		"ioctls\n",
		STEPS, said.allocations, c.syscalls, said.ioctls - said.other_ioctls,
		said.other_ioctls);
	cr_expect_eq(said.allocations, 0);
	cr_expect_eq(said.other_ioctls, 0);
	cr_expect_eq(c.syscalls, 0);
	/* One of each, planted, is counted. */
	if (measure(&how, true, &more, &more_said)) {
		cr_expect_eq(more_said.allocations, 1);
		cr_expect_eq(more.syscalls, 1);
	}
}

/* Where weights take turns a step reads the file, which enters the kernel; what it reads into, and what
 * copies from there, has been there since the load. */
Test(steady, a_step_that_refills_allocates_nothing, .timeout = 600)
{
	for (int copy = 0; copy < 3; copy++) {
		struct engine_opts how = {.refilled = 5};
		struct counts c = {0}, said = {0};

		how.load.source = copy == LOAD_HOST ? LOAD_MMAP : LOAD_PREAD;
		how.load.copy = (enum load_copy)copy;
		how.load.staging = LOAD_STAGING_MIN;
		if (!measure(&how, false, &c, &said))
			return;
		fprintf(stderr,
			"%d decode steps that refill, copy %d: %lu allocations, %lu system calls "
			"besides %lu waits, %lu other ioctls\n",
			STEPS / 8, copy, said.allocations, c.syscalls,
			said.ioctls - said.other_ioctls, said.other_ioctls);
		cr_expect_eq(said.allocations, 0);
		cr_expect_eq(said.other_ioctls, 0);
	}
}

static double clock_s(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Doorbells are polled where neither is allowed (docs/virtual-device.md). */
static bool userfaultfd_refused(void)
{
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);

	if (fd < 0)
		fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close((int)fd);
	return fd < 0;
}

Test(steady, waiting_costs_no_cpu, .timeout = 600)
{
	double bar = userfaultfd_refused() ? 0.05 : 0.01;
	struct bw_device dev;
	struct queue_fault f;
	struct signal *s;
	double wall, cpu;

	cr_assert_eq(bw_device_open(NULL, &dev, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(signal_create(dev.queue, 1, &s), 0);
	/* Again if it was too much: the device's threads may have had no core to go to sleep on. */
	for (unsigned i = 0; i < 5; i++) {
		wall = clock_s(CLOCK_MONOTONIC);
		cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
		cr_expect_eq(signal_wait(dev.queue, s, 1, 3000000000, &f), -ETIMEDOUT);
		wall = clock_s(CLOCK_MONOTONIC) - wall;
		cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		if (cpu < wall * bar)
			break;
	}
	fprintf(stderr,
		"waiting %.2f s cost %.4f s of CPU, %.3f %% of a core, the virtual device "
		"included\n",
		wall, cpu, 100 * cpu / wall);
	cr_expect(wall >= 3.0 && cpu < wall * bar);
	/* The meter: what spins is seen to. */
	wall = clock_s(CLOCK_MONOTONIC);
	cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	while (clock_s(CLOCK_MONOTONIC) - wall < 0.5)
		;
	cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	cr_expect_gt(cpu, 0.005 * 1.1);
	signal_destroy(s);
	cr_assert_eq(bw_device_close(&dev, NULL), 0);
}

/* ---- load time and host memory --------------------------------------------------------- */

static uint64_t rss_anon(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long kb = 0;

	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %lu", &kb) == 1)
			break;
	fclose(f);
	return kb * 1024;
}

static uint64_t anon_peak;

static void sample(void *ctx, uint64_t done, uint64_t total)
{
	uint64_t now = rss_anon();

	(void)ctx;
	(void)done;
	(void)total;
	if (now > anon_peak)
		anon_peak = now;
}

/* Reads the file from the page cache once and touches as many bytes of device memory once. */
static double baseline(struct bw_device *dev, const char *path, uint64_t bytes)
{
	struct bo_desc d = {.owner = "baseline", .size = bytes, .host = true};
	static char buf[1 << 20];
	int fd = open(path, O_RDONLY);
	struct bo *b;
	double t;

	cr_assert_eq(bo_create(dev->memory, &d, &b), 0, "%s", kfd_reason());
	t = clock_s(CLOCK_MONOTONIC);
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	memset(bo_host(b), 1, bytes);
	t = clock_s(CLOCK_MONOTONIC) - t;
	close(fd);
	cr_assert_eq(bo_destroy(b), 0);
	return t;
}

static double ready(struct bw_device *dev, const char *path, uint64_t *weights, uint64_t *grown)
{
	struct engine_opts o = {.n_ctx = 16, .load = {.progress = sample}};
	double t = clock_s(CLOCK_MONOTONIC);
	uint64_t before = rss_anon();
	struct gguf *g;
	struct model *m;
	struct engine *e;

	anon_peak = before;
	cr_assert_eq(gguf_open(path, &g, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(g, &m, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(engine_create(dev, m, &o, &e, err, sizeof(err)), 0, "%s", err);
	t = clock_s(CLOCK_MONOTONIC) - t;
	sample(NULL, 0, 0);
	*grown = anon_peak - before;
	*weights = engine_plan(e)->bo[PLAN_WEIGHTS].granted;
	engine_destroy(e);
	model_free(m);
	gguf_close(g);
	return t;
}

Test(steady, load_time_and_host_memory, .timeout = 600)
{
	char path[] = "/tmp/barewave-load-XXXXXX", cmd[256];
	double base = 1e9, load = 1e9;
	uint64_t weights = 0, grown = 0;
	struct bw_device dev;

	cr_assert(mkstemp(path) >= 0);
	snprintf(cmd, sizeof(cmd),
		 "env -u LD_PRELOAD build/tests/make_model qwen3-0.6b %s >/dev/null", path);
	cr_assert_eq(system(cmd), 0);
	cr_assert_eq(bw_device_open(NULL, &dev, err, sizeof(err)), 0, "%s", err);
	ready(&dev, path, &weights, &grown); /* the page cache is warm from here on */
	/* In turn, and the best of each: what else the machine does hits both alike. Rounds go on
	 * while the machine is too busy to tell. */
	for (int i = 0; i < 5 || (i < 15 && load > 1.3 * base); i++) {
		double t = baseline(&dev, path, weights);

		base = t < base ? t : base;
		t = ready(&dev, path, &weights, &grown);
		load = t < load ? t : load;
	}
	fprintf(stderr,
		"load %.3f s, reading and touching %.3f s: ratio %.2f; host memory beyond the page "
		"cache %.1f MiB\n",
		load, base, load / base, (double)grown / (1 << 20));
	cr_expect(load <= 1.3 * base);
	cr_expect(grown <= 128u << 20);
	cr_assert_eq(bw_device_close(&dev, NULL), 0);
	unlink(path);
}
