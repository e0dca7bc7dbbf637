/* The compiler as a process of its own: spoken to, started, let go.
 *
 * LLVM stays out of the client's process: its hundred megabytes, its exit handlers, and its
 * symbols, of which the client may have another version. The compiler is no child of the client's,
 * which neither gets a SIGCHLD nor finds it in wait(): an exit signal of none would last until execve
 * only (execve(2)), so it is cloned by a child that ends at once. It runs at low priority, finishes
 * what it was asked for even if the client is gone (the objects go to the disk cache), as far as its
 * bounds let it, and ends when the socket does.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "isa/jit_internal.h"
#include "isa/jit_server.h"
#include "ownfd.h"
#include "vm/rawsys.h"

static struct {
	int fd;
	pid_t client; /* the process whose compiler it is: a forked child starts another */
	bool dead;    /* it could not be started, or broke: no more tries */
	bool leaving; /* atomic: jit_server_interrupt() */
	pthread_mutex_t sending; /* requests are whole */
} server = {.fd = -1, .sending = PTHREAD_MUTEX_INITIALIZER};

const char *jit_server_via;

/* Beside libvgpu.so, or one folder up (a test program with the device linked in). */
static int find(char *path, size_t n, struct stat *st)
{
	static const char *const where[] = {"%.*svgpu-jitc", "%.*s../vgpu-jitc"};
	const char *env = getenv("VGPU_JITC"), *slash;
	char self[3072];
	Dl_info info;
	ssize_t len;

	if (env) {
		snprintf(path, n, "%s", env);
		return stat(path, st) ? -errno : 0;
	}
	info.dli_fname = jit_server_via;
	if (!jit_server_via && (!dladdr((void *)find, &info) || !info.dli_fname))
		return -ENOENT;
	snprintf(self, sizeof(self), "%s", info.dli_fname);
	if (!strchr(self, '/')) {
		len = readlink("/proc/self/exe", self, sizeof(self) - 1);
		if (len < 0)
			return -errno;
		self[len] = 0;
	}
	slash = strrchr(self, '/');
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, n, where[i], (int)(slash - self + 1), self);
		if (!stat(path, st))
			return 0;
	}
	return -ENOENT;
}

int jit_server_identity(uint64_t out[4])
{
	char path[4096];
	struct stat st;
	int r = find(path, sizeof(path), &st);

	if (r)
		return r;
	out[0] = (uint64_t)st.st_size;
	out[1] = (uint64_t)st.st_mtim.tv_sec;
	out[2] = (uint64_t)st.st_mtim.tv_nsec;
	out[3] = (uint64_t)st.st_ino;
	return 0;
}

struct child {
	const char *path;
	char **env;
	int fd;
	char *stack; /* its end */
	int pid;
};

/* In the cloned children, which share memory until they execute or end: system calls only. Signals
 * stay blocked, as they are on the thread that starts them: the client's handlers are still set, and
 * would run here, on its memory. vgpu-jitc unblocks them. But for SIGSYS, which is how what starts it
 * by jit_server_via gets to see its calls. */
static int child_main(void *arg)
{
	struct child *c = arg;
	char *direct[] = {(char *)c->path, NULL};
	char *via[] = {(char *)jit_server_via, (char *)c->path, (char *)c->path, NULL};
	uint64_t blocked = ~(1ull << (SIGSYS - 1));
	/* Out of the way of what is put below: where the client has closed some of these numbers, the
	 * socket has one. */
	long sock = rawsys3(SYS_fcntl, c->fd, F_DUPFD, JIT_SERVER_FD + 1), null;

	null = rawsys4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
	/* It may outlive the client: whoever reads the client's output must not wait for it. */
	for (int fd = 0; fd < 3; fd++)
		if (null < 0)
			rawsys1(SYS_close, fd);
		else if (null != fd)
			rawsys3(SYS_dup3, null, fd, 0);
	rawsys4(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, 0, 8);
	rawsys0(SYS_setsid);
	/* The call itself says 20 less the priority: do not raise that of a client who is nicer. */
	if (rawsys2(SYS_getpriority, PRIO_PROCESS, 0) > 10)
		rawsys3(SYS_setpriority, PRIO_PROCESS, 0, 10);
	rawsys3(SYS_dup3, sock, JIT_SERVER_FD, 0);
	rawsys3(SYS_close_range, JIT_SERVER_FD + 1, ~0u, 0);
	if (jit_server_via)
		rawsys3(SYS_execve, jit_server_via, via, c->env);
	else
		rawsys3(SYS_execve, c->path, direct, c->env);
	rawsys1(SYS_exit_group, 127);
	return 127;
}

/* glibc's clone() by its other name: a client under ThreadSanitizer has a clone() that takes the
 * child for a thread it should know. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/* The child between, whose death leaves the compiler to init. */
static int between_main(void *arg)
{
	struct child *c = arg;

	c->pid = __clone(child_main, c->stack, CLONE_VM | CLONE_VFORK, c);
	rawsys1(SYS_exit_group, 0);
	return 0;
}

/* The client's environment without the preloads: the compiler is no client. */
static char **clean_environment(void)
{
	size_t n = 0, k = 0;
	char **env;

	while (environ && environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11))
			env[k++] = environ[i];
	return env;
}

static int start(void)
{
	struct child c;
	size_t stack = 64 << 10;
	char path[4096], *mem;
	struct stat st;
	int sv[2] = {-1, -1}, high, r;
	long pid;

	r = find(path, sizeof(path), &st);
	if (r)
		return r;
	if (rawsys4(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return -EMFILE;
	high = own_fd(sv[0]);
	mem = (char *)rawsys6(SYS_mmap, 0, stack, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	c = (struct child){.path = path,
			   .env = clean_environment(),
			   .fd = sv[1],
			   .stack = mem + stack / 2,
			   .pid = -1};
	pid = -1;
	if (high >= 0 && (uintptr_t)mem < (uintptr_t)-4096 && c.env)
		/* No exit signal: nobody is told, and wait() without __WCLONE passes it by. */
		pid = __clone(between_main, mem + stack, CLONE_VM | CLONE_VFORK, &c);
	if (pid > 0)
		while (rawsys4(SYS_wait4, pid, 0, __WCLONE, 0) == -EINTR)
			;
	pid = pid < 0 ? pid : c.pid;
	rawsys1(SYS_close, sv[1]);
	if ((uintptr_t)mem < (uintptr_t)-4096)
		rawsys2(SYS_munmap, mem, stack);
	free(c.env);
	if (pid < 0) {
		own_fd_close(high);
		return -EAGAIN;
	}
	server.fd = high;
	server.client = getpid();
	return 0;
}

static int move(bool out, void *buf, size_t n)
{
	uint8_t *b = buf;

	while (n) {
		/* MSG_NOSIGNAL: a compiler that died must not kill the client. */
		long k = out ? rawsys6(SYS_sendto, server.fd, b, n, MSG_NOSIGNAL, 0, 0)
			     : rawsys6(SYS_recvfrom, server.fd, b, n, 0, 0, 0);

		if (k == -EINTR)
			continue;
		if (k <= 0)
			return -EPIPE;
		b += k;
		n -= (size_t)k;
	}
	return 0;
}

static struct jit_request request(const struct jit_cfg *cfg, const struct jit_shape *shape,
				  const char *keep)
{
	return (struct jit_request){
		.magic = JIT_SERVER_MAGIC,
		.bytes = cfg->bytes,
		.path_bytes = (uint32_t)strlen(keep),
		.shape = *shape,
		.base = cfg->base,
	};
}

int jit_server_compile(const struct jit_cfg *cfg, const struct jit_shape *shape, const char *keep,
		       void **object, size_t *bytes, char *why, size_t whylen)
{
	struct jit_request q = request(cfg, shape, keep);
	struct jit_reply a = {0};
	int r = 0;

	if (server.client != getpid() && server.fd >= 0) {
		own_fd_close(server.fd); /* the parent's */
		server.fd = -1;
		server.dead = false;
	}
	if (server.fd < 0 && !server.dead) {
		r = start();
		server.dead = r != 0;
	}
	if (server.dead) {
		snprintf(why, whylen, "the compiler vgpu-jitc cannot be started");
		return -ENOENT;
	}
	pthread_mutex_lock(&server.sending);
	r = move(true, &q, sizeof(q));
	if (!r)
		r = move(true, cfg->code, cfg->bytes);
	if (!r)
		r = move(true, (char *)keep, q.path_bytes);
	pthread_mutex_unlock(&server.sending);
	if (!r)
		r = move(false, &a, sizeof(a));
	if (!r && !a.result) {
		*object = a.bytes <= 64u << 20 ? malloc(a.bytes) : NULL;
		*bytes = a.bytes;
		r = *object ? move(false, *object, a.bytes) : -EPIPE;
		if (r)
			free(*object);
	}
	if (r) {
		/* What is left may still be told to a compiler that is only not listened to. */
		if (!__atomic_load_n(&server.leaving, __ATOMIC_ACQUIRE)) {
			own_fd_close(server.fd);
			server.fd = -1;
			server.dead = true;
		}
		snprintf(why, whylen, "the compiler vgpu-jitc went away");
		return r;
	}
	if (a.result)
		snprintf(why, whylen, "%.*s", (int)sizeof(a.why), a.why);
	return a.result;
}

void jit_server_interrupt(void)
{
	__atomic_store_n(&server.leaving, true, __ATOMIC_RELEASE);
	if (server.fd >= 0 && server.client == getpid())
		rawsys2(SYS_shutdown, server.fd, SHUT_RD);
}

int jit_server_leave(const struct jit_cfg *cfg, const struct jit_shape *shape, const char *keep)
{
	struct jit_request q = request(cfg, shape, keep);
	struct iovec part[] = {
		{&q, sizeof(q)}, {cfg->code, cfg->bytes}, {(char *)(uintptr_t)keep, q.path_bytes}};
	struct msghdr m = {.msg_iov = part, .msg_iovlen = 3};
	size_t all = sizeof(q) + q.bytes + q.path_bytes;
	int r = 0;

	if (server.fd < 0 || server.client != getpid())
		return -ENOTCONN;
	/* Where one is being sent, the compiler has enough to do, or does not listen. */
	if (pthread_mutex_trylock(&server.sending))
		return -EAGAIN;
	/* A piece of a request is as good as none: the compiler ends there. */
	if (rawsys3(SYS_sendmsg, server.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != (long)all)
		r = -EAGAIN;
	pthread_mutex_unlock(&server.sending);
	return r;
}

void jit_server_stop(void)
{
	if (server.fd >= 0 && server.client == getpid())
		own_fd_close(server.fd);
	server.fd = -1;
	server.dead = false;
	server.leaving = false;
}
