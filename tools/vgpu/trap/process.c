/* Calls that make and end threads, processes and images; and brk, of which there is one for two
 * libcs. */
#include "trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/preload.h"
#include "vm/rawsys.h"

/* Held over fork(): a child must not inherit it from a thread that it does not have. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif

/* ---- clone ---------------------------------------------------------------- */

void thread_failed(struct block *child)
{
	if (!child->other)
		__atomic_sub_fetch(&trap_threads, 1, __ATOMIC_RELAXED);
	block_give(child);
}

static long start_thread(struct call *c, uint64_t flags)
{
	uint64_t ret = (uint64_t)c->r[REG_RIP];
	struct block *child = block_take();
	struct post *p;

	if (!child)
		return -EAGAIN;
	child->other = !(flags & CLONE_THREAD);
	child->foreign = child->other && !(flags & CLONE_FILES);
	child->sys_blocked = c->b->sys_blocked;
	/* Counted before it can end. */
	if (!child->other)
		__atomic_add_fetch(&trap_threads, 1, __ATOMIC_RELAXED);
	p = call_post(c, POST_CLONE);
	p->child = child;
	c->r[REG_RIP] = (greg_t)gate_start(child, ret, (uint64_t)c->r[REG_RIP]);
	return CALL_DONE;
}

struct clone_request {
	uint64_t flags, parent_tid, child_tid, stack, tls, pidfd;
	int exit_signal;
};

/* A copy of the address space. libc's fork() brings the device's handlers along; what it sets up
 * for itself in the child is replaced by what the client asked for. */
static long copy_process(struct call *c, const struct clone_request *q)
{
	const uint64_t known =
		CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID | CLONE_SETTLS;
	int tid;
	long pid;

	pthread_mutex_lock(&lock);
	if (q->exit_signal == SIGCHLD && !(q->flags & ~known)) {
		pid = fork();
		if (pid < 0)
			pid = -errno;
	} else {
		/* The device finds out for itself that it is in a copy. */
		pid = rawsys6(SYS_clone,
			      q->flags & ~(uint64_t)(CLONE_SETTLS | CLONE_CHILD_SETTID |
						     CLONE_CHILD_CLEARTID) |
				      (uint64_t)q->exit_signal,
			      0, q->flags & CLONE_PIDFD ? q->pidfd : q->parent_tid, 0, 0, 0);
	}
	pthread_mutex_unlock(&lock);
	if (pid < 0)
		return pid;
	if (pid) {
		tid = (int)pid;
		if (q->flags & CLONE_PARENT_SETTID)
			user_write(q->parent_tid, &tid, sizeof(tid));
		return pid;
	}
	gate_forked();
	blocks_forked(c->b);
	tid = (int)rawsys0(SYS_gettid);
	if (q->flags & CLONE_CHILD_SETTID)
		user_write(q->child_tid, &tid, sizeof(tid));
	if (q->flags & CLONE_PARENT_SETTID)
		user_write(q->parent_tid, &tid, sizeof(tid));
	rawsys1(SYS_set_tid_address, q->flags & CLONE_CHILD_CLEARTID ? q->child_tid : 0);
	rawsys2(SYS_set_robust_list, 0, 24);
	c->b->other = c->b->foreign = false;
	if (q->flags & CLONE_SETTLS)
		c->b->client_fs = q->tls;
	if (q->stack)
		c->r[REG_RSP] = (greg_t)q->stack;
	return 0;
}

long call_clone(struct call *c)
{
	struct clone_request q = {.exit_signal = SIGCHLD};
	struct clone_args a = {0};
	size_t n = (size_t)c->a[1];

	switch (c->nr) {
	case SYS_vfork:
		q.flags = CLONE_VM | CLONE_VFORK;
		break;
	case SYS_clone:
		q = (struct clone_request){
			.flags = (uint64_t)c->a[0] & ~(uint64_t)CSIGNAL,
			.exit_signal = (int)(c->a[0] & CSIGNAL),
			.stack = (uint64_t)c->a[1],
			.parent_tid = (uint64_t)c->a[2],
			.pidfd = (uint64_t)c->a[2],
			.child_tid = (uint64_t)c->a[3],
			.tls = (uint64_t)c->a[4],
		};
		break;
	case SYS_clone3:
		if (n < CLONE_ARGS_SIZE_VER0)
			return -EINVAL;
		if (n > sizeof(a))
			n = sizeof(a);
		if (user_read(&a, (uint64_t)c->a[0], n))
			return -EFAULT;
		/* These reset the handler with the client's, or want more of a copy than fork()
		 * has. libc goes on with clone(). */
		if ((a.flags & CLONE_CLEAR_SIGHAND) ||
		    (!(a.flags & CLONE_VM) && (a.set_tid_size || a.cgroup)))
			return -ENOSYS;
		q = (struct clone_request){
			.flags = a.flags,
			.exit_signal = (int)a.exit_signal,
			.stack = a.stack ? a.stack + a.stack_size : 0,
			.parent_tid = a.parent_tid,
			.pidfd = a.pidfd,
			.child_tid = a.child_tid,
			.tls = a.tls,
		};
		break;
	}
	if (!(q.flags & CLONE_VM))
		return copy_process(c, &q);
	if (q.flags & CLONE_VFORK) {
		/* The child comes with an id of its own and no block. */
		if (!blocks_expect(1))
			return -EAGAIN;
		call_post(c, POST_VFORK);
		return CALL_DONE;
	}
	return start_thread(c, q.flags);
}

/* ---- exit ----------------------------------------------------------------- */

long call_exit(struct call *c)
{
	if (c->b->other)
		return CALL_PASS;
	/* Threads of ours do not keep a process alive that the client has left. */
	if (!__atomic_sub_fetch(&trap_threads, 1, __ATOMIC_ACQ_REL))
		return call_exit_group(c);
	c->b->leaving = true;
	/* Nothing of the client's may run here any more, least of all on this stack. */
	*(kernel_sigset *)&c->uc->uc_sigmask = ~SIGBIT(SIGSYS);
	return CALL_PASS;
}

long call_exit_group(struct call *c)
{
	if (!c->b->other)
		preload_finish();
	rawsys1(SYS_exit_group, c->a[0] & 0xff);
	return -EINVAL;
}

/* ---- execve --------------------------------------------------------------- */

#define MAX_SCRIPTS 5 /* fs/exec.c: interpreters that are scripts */

struct exec_request {
	char path[4096];
	char lines[MAX_SCRIPTS][256];
	const char *front[2 * MAX_SCRIPTS + 2];
	unsigned n_front; /* words in front of the client's arguments */
	bool script;      /* the client's own argv[0] goes */
	int fd;           /* what path names, if nothing else does; -1 */
};

static int resolve(struct exec_request *q, char scripts[MAX_SCRIPTS][4096])
{
	for (unsigned depth = 0;; depth++) {
		const char *interp = NULL, *arg = NULL;
		int kind, err;

		if (depth == MAX_SCRIPTS)
			return -ELOOP;
		kind = image_probe(q->path, q->lines[depth], sizeof(q->lines[depth]));
		if (kind != IMAGE_SCRIPT)
			return kind;
		err = image_script(q->lines[depth], &interp, &arg);
		if (err)
			return err;
		snprintf(scripts[depth], sizeof(scripts[depth]), "%s", q->path);
		/* In front of what is there: a script's interpreter may be a script. */
		if (depth)
			q->front[0] = scripts[depth];
		else
			q->front[q->n_front++] = scripts[0];
		memmove(&q->front[arg ? 2 : 1], &q->front[0], q->n_front * sizeof(q->front[0]));
		q->front[0] = interp;
		if (arg)
			q->front[1] = arg;
		q->n_front += arg ? 2 : 1;
		q->script = true;
		snprintf(q->path, sizeof(q->path), "%s", interp);
	}
}

/* The name as the new image will have to find it: descriptors may be gone by then. */
static long exec_name(struct exec_request *q, int dirfd, uint64_t path, int flags)
{
	char name[4096], dir[4096], link[40];
	long n = user_string(name, sizeof(name), path);

	if (n < 0)
		return n;
	if (!n && !(flags & AT_EMPTY_PATH))
		return -ENOENT;
	if (!strcmp(name, "/proc/self/exe") || !strcmp(name, "/proc/thread-self/exe")) {
		snprintf(q->path, sizeof(q->path), "%s", trap_exe);
		return 0;
	}
	if (n && (name[0] == '/' || dirfd == AT_FDCWD)) {
		int fd, used = 0;

		/* fexecve() where the kernel has no execveat. */
		if (sscanf(name, "/proc/self/fd/%d%n", &fd, &used) == 1 && !name[used]) {
			dirfd = fd;
			name[0] = 0;
		} else {
			memcpy(q->path, name, (size_t)n + 1);
			return 0;
		}
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	n = rawsys4(SYS_readlinkat, AT_FDCWD, link, dir, sizeof(dir) - 1);
	if (n < 0)
		return -EBADF;
	dir[n] = 0;
	if (snprintf(q->path, sizeof(q->path), name[0] ? "%s/%s" : "%s%s", dir, name) >=
	    (int)sizeof(q->path))
		return -ENAMETOOLONG;
	/* A file without a name: through the descriptor, which stays open over exec. */
	if (!name[0] && rawsys3(SYS_faccessat, AT_FDCWD, q->path, F_OK)) {
		long keep = rawsys3(SYS_fcntl, dirfd, F_DUPFD, 900);

		if (keep < 0)
			return keep;
		q->fd = (int)keep;
		snprintf(q->path, sizeof(q->path), "/proc/self/fd/%ld", keep);
	}
	return 0;
}

static long count_args(uint64_t argv)
{
	uint64_t p;
	long n = 0;

	for (; argv; n++, argv += 8) {
		if (user_read(&p, argv, sizeof(p)))
			return -EFAULT;
		if (!p)
			break;
	}
	return n;
}

/* Our own file, the client's name for its file, then its arguments: main.c takes the first two off.
 * Pointers first, then the strings that are ours. */
static long build(const struct exec_request *q, uint64_t argv, long argc, void **mem, size_t *bytes)
{
	size_t words = 2 + q->n_front + (size_t)argc + 2, text = 0;
	long at, skip = q->script && argc ? 1 : 0;
	const char **v;
	char *s;

	for (unsigned i = 0; i < q->n_front; i++)
		text += strlen(q->front[i]) + 1;
	text += strlen(q->path) + 1;
	*bytes = words * sizeof(*v) + text;
	at = rawsys6(SYS_mmap, 0, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if ((unsigned long)at > -4096ul)
		return at;
	*mem = (void *)at;
	v = *mem;
	s = (char *)(v + words);
	*v++ = q->fd >= 0 ? TRAP_CLOSE_FILE : trap_self;
	*v++ = strcpy(s, q->path);
	s += strlen(s) + 1;
	for (unsigned i = 0; i < q->n_front; i++) {
		*v++ = strcpy(s, q->front[i]);
		s += strlen(s) + 1;
	}
	if (user_read(v, argv + 8 * (uint64_t)skip, (size_t)(argc - skip) * sizeof(*v))) {
		rawsys2(SYS_munmap, *mem, *bytes);
		return -EFAULT;
	}
	v += argc - skip;
	if (!q->n_front && !argc)
		*v++ = ""; /* fs/exec.c: nobody starts without a name */
	*v = NULL;
	return 0;
}

long call_exec(struct call *c, int dirfd, uint64_t path, uint64_t argv, uint64_t envp, int flags)
{
	static char scripts[MAX_SCRIPTS][4096]; /* under the lock */
	struct exec_request q = {.fd = -1};
	long r = exec_name(&q, dirfd, path, flags), argc;
	size_t bytes = 0;
	void *mem = NULL;
	struct post *p;

	if (r)
		return r;
	argc = count_args(argv);
	pthread_mutex_lock(&lock);
	r = argc < 0 ? argc : resolve(&q, scripts);
	if (r == IMAGE_ELF)
		r = build(&q, argv, argc, &mem, &bytes);
	pthread_mutex_unlock(&lock);
	if (r && q.fd >= 0)
		rawsys1(SYS_close, q.fd);
	/* The filter knows one architecture: others run, and see no device. */
	if (r == IMAGE_OTHER_ARCH) {
		vgpu_log("exec %s: not x86-64, runs without the virtual device", q.path);
		return CALL_PASS;
	}
	if (r)
		return r;
	p = call_post(c, POST_EXEC);
	p->mem = mem;
	p->mem_bytes = bytes;
	p->fd = q.fd;
	/* In a vfork child nobody comes back to free it but the parent. */
	c->b->exec_mem = mem;
	c->b->exec_bytes = bytes;
	kept_begin(&c->b->kept, true);
	c->r[REG_RAX] = SYS_execve;
	c->r[REG_RDI] = (greg_t)trap_self;
	c->r[REG_RSI] = (greg_t)mem;
	c->r[REG_RDX] = (greg_t)envp;
	return CALL_DONE;
}

/* ---- brk ------------------------------------------------------------------ */

static uint64_t brk_start, brk_now;

#define PAGE_UP(x) (((x) + 4095) & ~4095ull)

void brk_init(uint64_t start)
{
	brk_start = brk_now = PAGE_UP(start);
}

/* The client's heap, behind its own image, as the kernel would have it. */
long call_brk(struct call *c)
{
	uint64_t to = (uint64_t)c->a[0], from, end;

	pthread_mutex_lock(&lock);
	from = PAGE_UP(brk_now);
	end = PAGE_UP(to);
	if (to < brk_start)
		goto out;
	if (end > from) {
		long r = rawsys6(SYS_mmap, from, end - from, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (r != (long)from) {
			if (r > 0 || r < -4095)
				rawsys2(SYS_munmap, r, end - from);
			goto out;
		}
	} else if (end < from) {
		struct call u = {.b = c->b, .nr = SYS_munmap, .a = {(long)end, (long)(from - end)}};

		/* As any memory that the device may have mapped. */
		if (vfd_live)
			vgpu_syscall(u.nr, u.a[0], u.a[1], 0, 0, 0, 0);
		else
			rawsys2(SYS_munmap, end, from - end);
	}
	brk_now = to;
out:
	to = brk_now;
	pthread_mutex_unlock(&lock);
	return (long)to;
}
