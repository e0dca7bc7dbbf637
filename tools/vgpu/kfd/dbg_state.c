/* The state that a debugger and its process share: where it lies, how it is found. */
#include "dbg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "ownfd.h"
#include "vm/rawsys.h"

/* How a debugger finds the memfd: it reads this from the other process, at the place where its own
 * copy of the library has it. A forked child's copy still names the parent. */
static struct anchor {
	uint64_t magic;
	pid_t subject; /* whose state; 0: none yet */
	pid_t owner;   /* in whose table */
	int fd;
} anchor = {.magic = 0x7667707564626731};

#define STATE_BYTES ((sizeof(struct dbg_state) + 4095) & ~4095ul)

static int map(int fd, struct dbg_state **out)
{
	long a = rawsys6(SYS_mmap, 0, STATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (a < 0 && a > -4096)
		return (int)a;
	*out = (struct dbg_state *)a;
	return 0;
}

void dbg_state_close(struct dbg_state *d)
{
	rawsys2(SYS_munmap, d, STATE_BYTES);
}

static int create(pid_t subject, struct anchor *where, struct dbg_state **out)
{
	pthread_mutexattr_t attr;
	int fd = own_fd(rawsys2(SYS_memfd_create, "vgpu-debug", MFD_CLOEXEC)), err;

	if (fd < 0)
		return fd;
	err = (int)rawsys2(SYS_ftruncate, fd, STATE_BYTES);
	if (!err)
		err = map(fd, out);
	if (err) {
		own_fd_close(fd);
		return err;
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&(*out)->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	(*out)->subject = subject;
	where->subject = subject;
	where->owner = getpid();
	where->fd = fd;
	return 0;
}

/* Maps what an anchor names, through its owner's table. */
static int map_named(const struct anchor *a, struct dbg_state **out)
{
	char path[64];
	long fd;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", a->owner, a->fd);
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	err = map((int)fd, out);
	rawsys1(SYS_close, fd);
	if (!err && (*out)->subject != a->subject) {
		dbg_state_close(*out);
		err = -ESRCH;
	}
	return err;
}

int dbg_state_open(struct kfd_process *p)
{
	int err = -ESRCH;

	/* A debugger was here before. */
	if (anchor.subject == p->lead && anchor.owner != p->lead)
		err = map_named(&anchor, &p->dbg);
	if (err)
		err = create(p->lead, &anchor, &p->dbg);
	if (!err)
		p->dbg->devices = p->n_pdds;
	return err;
}

int dbg_state_private(struct kfd_process *p)
{
	struct anchor own;
	int err = create(p->lead, &own, &p->dbg);

	if (err)
		return err;
	own_fd_close(own.fd);
	p->dbg->devices = p->n_pdds;
	return 0;
}

/* ---- another process ------------------------------------------------------ */

long dbg_read_proc(pid_t pid, const char *name, char *buf, size_t n)
{
	size_t used = 0;
	char path[64];
	long fd, got;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	while ((got = rawsys3(SYS_read, fd, buf + used, n - 1 - used)) > 0)
		used += (size_t)got;
	rawsys1(SYS_close, fd);
	buf[used] = 0;
	return (long)used;
}

/* Start of the mapping of this library (or of the trap backend), by its file name; 0 if it is not
 * mapped. */
static uint64_t library(pid_t pid)
{
	static const size_t room = 1 << 20;
	unsigned long start = 0;
	char *maps = malloc(room), *line;

	if (!maps)
		return 0;
	if (dbg_read_proc(pid, "maps", maps, room) > 0) {
		line = strstr(maps, "/libvgpu.so");
		if (!line)
			line = strstr(maps, "/vgpu-trap");
		while (line && line > maps && line[-1] != '\n')
			line--;
		if (line && sscanf(line, "%lx", &start) != 1)
			start = 0;
	}
	free(maps);
	return start;
}

/* The process that pid is a thread of, and who traces that thread (0: nobody). */
static bool read_task(pid_t pid, pid_t *process, pid_t *tracer)
{
	char status[4096], *tgid, *traced;

	if (dbg_read_proc(pid, "status", status, sizeof(status)) <= 0)
		return false;
	tgid = strstr(status, "\nTgid:");
	traced = strstr(status, "\nTracerPid:");
	return tgid && traced && sscanf(tgid, "\nTgid: %d", process) == 1 &&
	       sscanf(traced, "\nTracerPid: %d", tracer) == 1;
}

/* What the process lead says about itself: 1, or 0 if it says nothing. */
static int ask(pid_t lead, bool set, struct anchor *a)
{
	uint64_t theirs = library(lead), ours = library(getpid());
	struct iovec local = {a, sizeof(*a)}, remote;

	if (!theirs || !ours)
		return -ESRCH;
	remote.iov_base = (void *)(theirs + ((uintptr_t)&anchor - ours));
	remote.iov_len = sizeof(*a);
	return rawsys6(set ? SYS_process_vm_writev : SYS_process_vm_readv, lead, (long)&local, 1,
		       (long)&remote, 1, 0) == (long)sizeof(*a);
}

int dbg_state_find(pid_t pid, bool make, struct dbg_state **out)
{
	const pid_t self = (pid_t)rawsys0(SYS_gettid);
	pid_t lead, tracer, lead_tracer;
	struct anchor a = {0};
	bool traced;
	int err;

	if (!read_task(pid, &lead, &tracer) || !read_task(lead, &lead, &lead_tracer))
		return -ESRCH;
	traced = lead_tracer == self;
	err = ask(lead, false, &a);
	if (err < 0)
		return err;
	if (!err || a.magic != anchor.magic)
		return traced ? -ESRCH : -EPERM;
	if (a.subject == lead) {
		err = map_named(&a, out);
		if (!err && !traced && (*out)->allowed != getpid()) {
			dbg_state_close(*out);
			err = -EPERM;
		}
		return err;
	}
	if (!make || tracer != self)
		return -ESRCH;
	if (!traced)
		return -EPERM;
	err = create(lead, &a, out);
	if (err)
		return err;
	if (ask(lead, true, &a) <= 0) {
		dbg_state_close(*out);
		own_fd_close(a.fd);
		return -ESRCH;
	}
	return 0;
}

/* ---- using it ------------------------------------------------------------- */

void dbg_lock(struct dbg_state *d)
{
	/* Whoever died with it left whole words behind. */
	if (pthread_mutex_lock(&d->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&d->lock);
}

void dbg_unlock(struct dbg_state *d)
{
	pthread_mutex_unlock(&d->lock);
}

void dbg_wake(const struct dbg_state *d)
{
	char path[64];
	long fd;

	if (d->debugger == getpid()) {
		rawsys3(SYS_write, d->event_fd, ".", 1);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", d->debugger, d->event_fd);
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	rawsys3(SYS_write, fd, ".", 1);
	rawsys1(SYS_close, fd);
}

int dbg_wait_release(struct dbg_state *d)
{
	const struct timespec second = {1, 0};

	for (;;) {
		uint32_t n = __atomic_load_n(&d->releases, __ATOMIC_ACQUIRE);
		long err;

		if (n) {
			if (__atomic_compare_exchange_n(&d->releases, &n, n - 1, false,
							__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				return 0;
			continue;
		}
		err = rawsys4(SYS_futex, &d->releases, FUTEX_WAIT, 0, &second);
		if (err == -EINTR)
			return -EINTR;
		if (!d->debugger || dbg_is_gone(d->debugger))
			return 0;
	}
}

void dbg_release(struct dbg_state *d)
{
	__atomic_fetch_add(&d->releases, 1, __ATOMIC_ACQ_REL);
	rawsys3(SYS_futex, &d->releases, FUTEX_WAKE, 1);
}
