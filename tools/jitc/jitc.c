/* vgpu-jitc: the virtual device's compiler. Reads kernels from the socket it was given and answers
 * with x86-64 objects. Started by libvgpu.so (tools/vgpu/isa/jit_server.c); nothing for people.
 *
 * Each kernel is compiled in a child, with a bound on its processor time: one that LLVM takes too
 * long over stays interpreted, and does not keep the next from being compiled. Where objects are
 * kept, one lock for the folder lets one compile run at a time: many short processes that want the
 * same kernels get them compiled once, not once each. A client that ends takes its compile along,
 * unless the compile has the lock: that one is finished for those who come next, and so is what the
 * client left in the socket, for LEFT_SECONDS and as long as nobody else compiles for the folder. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "isa/jit_internal.h"
#include "isa/jit_server.h"

#define CPU_SECONDS  60u
#define LEFT_SECONDS 300

struct code {
	uint64_t base;
	uint32_t bytes;
	uint8_t *p;
};

static int fetch(void *ctx, uint64_t pc, void *dst, size_t n)
{
	const struct code *c = ctx;
	uint64_t off = pc - c->base;
	size_t have;

	if (off >= c->bytes)
		return -EFAULT;
	have = c->bytes - off < n ? c->bytes - off : n;
	memcpy(dst, c->p + off, have);
	/* Behind what is reachable is no code: all ones are no instruction. */
	memset((uint8_t *)dst + have, 0xff, n - have);
	return 0;
}

static bool take(void *buf, size_t n)
{
	uint8_t *b = buf;

	while (n) {
		ssize_t k = read(JIT_SERVER_FD, b, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		b += k;
		n -= (size_t)k;
	}
	return true;
}

static bool give(const void *buf, size_t n)
{
	const uint8_t *b = buf;

	while (n) {
		ssize_t k = write(JIT_SERVER_FD, b, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		b += k;
		n -= (size_t)k;
	}
	return true;
}

/* Written beside and renamed: a reader sees a whole file or none. */
static void keep(const char *path, const void *object, size_t bytes)
{
	char tmp[4200];
	int fd;

	snprintf(tmp, sizeof(tmp), "%s.%ld", path, (long)getpid());
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write(fd, object, bytes) != (ssize_t)bytes || close(fd) || rename(tmp, path))
		unlink(tmp);
}

/* Shared with the child: it has the folder's lock, or needs none and is worth finishing. */
static int *has_lock;

/* Whether the client has hung up. What it sent before can still be read. */
static bool is_gone(void)
{
	struct pollfd p = {.fd = JIT_SERVER_FD, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Waits until nobody else compiles for this folder, or with left, ends instead: they may well be at
 * the same. The lock goes with the process. */
static void lock(const char *path, bool left)
{
	const char *slash = strrchr(path, '/');
	char name[4200];
	int fd;

	snprintf(name, sizeof(name), "%.*s/lock", (int)(slash - path), path);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && !flock(fd, LOCK_EX | (left ? LOCK_NB : 0)))
		__atomic_store_n(has_lock, 1, __ATOMIC_RELEASE);
	else if (left)
		_exit(1);
}

/* What another process kept meanwhile. */
static bool kept(const char *path, void **object, size_t *bytes)
{
	struct stat st;
	bool ok = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && st.st_size > 0 && st.st_size <= 64 << 20) {
		*bytes = (size_t)st.st_size;
		*object = malloc(*bytes);
		ok = *object && read(fd, *object, *bytes) == (ssize_t)*bytes;
	}
	close(fd);
	return ok;
}

static void make_folder(char *path)
{
	for (char *s = path + 1; *s; s++)
		if (*s == '/') {
			*s = 0;
			mkdir(path, 0755);
			*s = '/';
		}
}

/* In the child: answers and ends. */
static void compile(const struct jit_request *q, struct code *c, char *path, bool left)
{
	struct rlimit cpu = {.rlim_cur = CPU_SECONDS, .rlim_max = CPU_SECONDS + 1};
	struct jit_reply a = {0};
	struct jit_cfg cfg = {0};
	void *object = NULL;
	size_t bytes = 0;

	if (path[0] && strchr(path, '/')) {
		make_folder(path);
		lock(path, left);
	} else if (left) {
		_exit(1); /* nobody to give it to */
	}
	if (!path[0] || !kept(path, &object, &bytes)) {
		setrlimit(RLIMIT_CPU, &cpu);
		a.result = jit_cfg_build(fetch, c, q->base, &cfg);
		if (!a.result && cfg.bytes != q->bytes) {
			a.result = -EILSEQ;
			snprintf(a.why, sizeof(a.why), "%u bytes of code, %u of them reachable",
				 q->bytes, cfg.bytes);
		}
		if (!a.result)
			a.result = jit_llvm_compile(&cfg, &q->shape, &object, &bytes, a.why,
						    sizeof(a.why));
		/* Before the answer: the client may be gone by now, the next one will want it. */
		if (!a.result && path[0])
			keep(path, object, bytes);
	}
	a.bytes = a.result ? 0 : (uint32_t)bytes;
	_exit(give(&a, sizeof(a)) && (a.result || give(object, bytes)) ? 0 : 1);
}

/* Waits for the child. Ends it when the client has gone and nobody would have the result; left: it
 * had gone before. */
static bool await(pid_t pid, int *status, bool left)
{
	struct pollfd p = {.fd = JIT_SERVER_FD, .events = POLLRDHUP};

	if (left)
		return waitpid(pid, status, 0) == pid;

	for (;;) {
		pid_t r = waitpid(pid, status, p.revents ? 0 : WNOHANG);

		if (r)
			return r == pid;
		if (poll(&p, 1, 10) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR) &&
		    !__atomic_load_n(has_lock, __ATOMIC_ACQUIRE))
			kill(pid, SIGKILL);
	}
}

/* When what a client left behind is not worth more time; 0: it is here. */
static time_t left_until;

static bool serve(void)
{
	char path[4096] = "";
	struct jit_request q;
	struct code c = {0};
	bool on = false, left;
	int status;
	pid_t pid;

	if (!take(&q, sizeof(q)) || q.magic != JIT_SERVER_MAGIC || q.bytes > 1u << 20 ||
	    q.path_bytes >= sizeof(path))
		return false;
	c.base = q.base;
	c.bytes = q.bytes;
	c.p = malloc(q.bytes + 1);
	if (!c.p || !take(c.p, q.bytes) || !take(path, q.path_bytes))
		goto out;
	left = is_gone();
	if (left && !left_until)
		left_until = time(NULL) + LEFT_SECONDS;
	if (left && time(NULL) >= left_until)
		goto out;
	*has_lock = 0;
	pid = fork();
	if (!pid)
		compile(&q, &c, path, left);
	if (pid < 0 || !await(pid, &status, left))
		goto out;
	if (WIFSIGNALED(status)) {
		struct jit_reply a = {.result = -ETIME};

		if (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)
			snprintf(a.why, sizeof(a.why), "takes more than %u s to compile",
				 CPU_SECONDS);
		else
			snprintf(a.why, sizeof(a.why), "the compiler died of signal %d",
				 WTERMSIG(status));
		on = give(&a, sizeof(a));
	} else {
		on = WEXITSTATUS(status) == 0;
	}
	/* Nobody takes the answers any more, but there may be requests. */
	on |= is_gone();
out:
	free(c.p);
	return on;
}

/* What the client ignored is ignored still, and what was sent to its group while this was on its way
 * waits to be delivered: neither is ours. Then signals are let in. */
static void own_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++) {
		/* Ignored, what waits is gone. SIGSYS is what this may run by (trap/); other handlers
		 * are a sanitizer's. */
		sighandler_t old = i == SIGSYS ? SIG_ERR : signal(i, SIG_IGN);

		if (old != SIG_ERR)
			signal(i, old == SIG_IGN ? SIG_DFL : old);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(void)
{
	char why[160];

	own_signals();
	has_lock = mmap(NULL, sizeof(*has_lock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (has_lock == MAP_FAILED)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is one that is not kept */
	/* Once, before the first child: they all share it. Its absence is each request's answer. */
	jit_llvm_prepare(why, sizeof(why));
	while (serve())
		;
	return 0;
}
