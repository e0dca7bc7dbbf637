/* The generated tree: real files in a private directory, made when first needed.
 *
 * The directory is held by a lock on a file in it, so that trees of processes that were killed or
 * replaced by exec can be told from live ones and swept by the next process.
 */
#include "preload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "drm/sysfs.h"
#include "ownfd.h"
#include "share/share.h"
#include "vm/rawsys.h"

#define PREFIX "vgpu-tree."

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[256];
static uint64_t owner; /* address space it was made in */
static int lock_fd = -1;
static bool have[SYSFS_GROUPS];
static struct {
	uint64_t dev, ino;
	enum path_kind kind;
} nodes[3];
static unsigned n_nodes;

/* All file work here enters the kernel directly: the hooks must not meet themselves. */
static long sys_open(const char *path, int flags, int mode)
{
	return rawsys4(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

/* From the inside out, until one is there or could be made: few are missing at a time. */
static void make_parents(char *path)
{
	char *end = strrchr(path, '/');

	if (!end || end <= path + strlen(root))
		return;
	*end = 0;
	if (rawsys2(SYS_mkdir, path, 0755) == -ENOENT) {
		make_parents(path);
		rawsys2(SYS_mkdir, path, 0755);
	}
	*end = '/';
}

static int write_file(const char *rel, const char *text, size_t len)
{
	char path[sizeof(root) + 512];
	long fd;

	snprintf(path, sizeof(path), "%s/%s", root, rel);
	fd = sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0444);
	if (fd == -ENOENT) {
		make_parents(path);
		fd = sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0444);
	} else if (fd == -EACCES) {
		/* Read-only as in sysfs, and we are not root: a new file in its place. */
		rawsys3(SYS_unlinkat, AT_FDCWD, path, 0);
		fd = sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0444);
	}
	if (fd < 0)
		return (int)fd;
	if (len)
		rawsys3(SYS_write, fd, text, len);
	rawsys1(SYS_close, fd);
	return 0;
}

static void note_node(const char *rel)
{
	char path[sizeof(root) + 64];
	enum path_kind kind;
	struct stat st = {0};

	if (!strcmp(rel, "dev/kfd"))
		kind = PATH_KFD;
	else if (!strcmp(rel, "dev/dri/card0"))
		kind = PATH_CARD;
	else if (!strncmp(rel, "dev/dri/renderD", 15))
		kind = PATH_RENDER;
	else
		return;
	snprintf(path, sizeof(path), "%s/%s", root, rel);
	rawsys4(SYS_fchmodat, AT_FDCWD, path, 0666, 0);
	if (n_nodes < 3 && !rawsys4(SYS_newfstatat, AT_FDCWD, path, &st, 0)) {
		nodes[n_nodes].dev = st.st_dev;
		nodes[n_nodes].ino = st.st_ino;
		nodes[n_nodes++].kind = kind;
	}
}

static void emit(void *ctx, enum sysfs_kind kind, const char *rel, const char *text, size_t len)
{
	char path[sizeof(root) + 512];

	(void)ctx;
	snprintf(path, sizeof(path), "%s/%s", root, rel);
	switch (kind) {
	case SYSFS_FILE:
		write_file(rel, text, len);
		note_node(rel);
		break;
	case SYSFS_DIR:
		if (rawsys2(SYS_mkdir, path, 0755) == -ENOENT) {
			make_parents(path);
			rawsys2(SYS_mkdir, path, 0755);
		}
		break;
	case SYSFS_LINK:
		if (rawsys2(SYS_symlink, text, path) == -ENOENT) {
			make_parents(path);
			rawsys2(SYS_symlink, text, path);
		}
		break;
	}
}

struct linux_dirent64 {
	uint64_t d_ino;
	int64_t d_off;
	uint16_t d_reclen;
	uint8_t d_type;
	char d_name[];
};

/* Calls fn(dirfd, name, is_dir) for each entry. */
static void each_entry(long dirfd, void (*fn)(long dirfd, const char *name, bool dir, void *ctx),
		       void *ctx)
{
	_Alignas(8) char buf[4096] = {0};
	long n;

	while ((n = rawsys3(SYS_getdents64, dirfd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			struct linux_dirent64 *d = (struct linux_dirent64 *)(buf + at);

			at += d->d_reclen;
			if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
				fn(dirfd, d->d_name, d->d_type == DT_DIR, ctx);
		}
	}
}

static void remove_entry(long dirfd, const char *name, bool dir, void *ctx)
{
	if (dir) {
		long sub = rawsys4(SYS_openat, dirfd, name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

		if (sub >= 0) {
			each_entry(sub, remove_entry, ctx);
			rawsys1(SYS_close, sub);
		}
	}
	rawsys3(SYS_unlinkat, dirfd, name, dir ? AT_REMOVEDIR : 0);
}

static void remove_tree(const char *path)
{
	long fd = sys_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (fd < 0)
		return;
	each_entry(fd, remove_entry, NULL);
	rawsys1(SYS_close, fd);
	rawsys3(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

#define NO_LOCK_S 60 /* a tree is without its lock for a moment at its start and end */

static void sweep_entry(long dirfd, const char *name, bool dir, void *ctx)
{
	char path[sizeof(root) + 300];
	struct stat st = {0};
	long fd;

	if (!dir || strncmp(name, PREFIX, strlen(PREFIX)))
		return;
	if (rawsys4(SYS_newfstatat, dirfd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    st.st_uid != (uid_t)rawsys0(SYS_getuid))
		return;
	snprintf(path, sizeof(path), "%s/%s/lock", (const char *)ctx, name);
	fd = sys_open(path, O_RDWR | O_NOFOLLOW, 0);
	/* Killed before it was made, or behind its removal; who is not slow but dead. */
	if (fd == -ENOENT && st.st_mtim.tv_sec + NO_LOCK_S < time(NULL)) {
		*strrchr(path, '/') = 0;
		remove_tree(path);
	}
	if (fd < 0)
		return;
	if (!rawsys2(SYS_flock, fd, LOCK_EX | LOCK_NB)) {
		*strrchr(path, '/') = 0;
		remove_tree(path);
	}
	rawsys1(SYS_close, fd);
}

/* Locks the new tree's lock file. A sweeper may have opened it before it was locked, and taken the
 * tree for a dead one: then it is waited for here, and there is no tree any more. */
static bool hold_root(void)
{
	char path[sizeof(root) + 8];
	struct stat st = {0};
	long fd;

	snprintf(path, sizeof(path), "%s/lock", root);
	fd = sys_open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		return false;
	while (rawsys2(SYS_flock, fd, LOCK_EX) == -EINTR)
		;
	if (rawsys2(SYS_fstat, fd, &st) || !st.st_nlink) {
		rawsys1(SYS_close, fd);
		return false;
	}
	lock_fd = own_fd(fd);
	return true;
}

static bool make_root(const char *base)
{
	for (unsigned i = 0; i < 100; i++) {
		snprintf(root, sizeof(root), "%s/" PREFIX "%d.%llx", base, (int)getpid(),
			 (unsigned long long)(vgpu_clock_ns() + i));
		if (!rawsys2(SYS_mkdir, root, 0700) && hold_root())
			return true;
	}
	root[0] = 0;
	return false;
}

static bool create_root(void)
{
	const char *tmp = getenv("TMPDIR");
	const char *bases[] = {"/dev/shm", tmp && tmp[0] == '/' ? tmp : "/tmp", "/tmp"};

	for (unsigned i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		long fd = sys_open(bases[i], O_RDONLY | O_DIRECTORY, 0);

		if (fd < 0)
			continue;
		each_entry(fd, sweep_entry, (void *)bases[i]);
		rawsys1(SYS_close, fd);
		if (make_root(bases[i]))
			return true;
	}
	return false;
}

const char *tree_root(int group)
{
	int saved = errno;
	const char *r = NULL;

	pthread_mutex_lock(&lock);
	/* A forked child makes its own: the parent's goes when the parent goes. */
	if (owner != vgpu_mm_generation()) {
		root[0] = 0;
		n_nodes = 0;
		memset(have, 0, sizeof(have));
		own_fd_close(lock_fd);
		lock_fd = -1;
		if (vgpu_device_describe() || !create_root())
			goto out;
		owner = vgpu_mm_generation();
		preload_started();
	}
	if (group >= 0 && group < SYSFS_GROUPS && !have[group]) {
		have[group] = true;
		sysfs_generate((enum sysfs_group)group, emit, NULL);
	}
	r = root;
out:
	pthread_mutex_unlock(&lock);
	errno = saved;
	return r;
}

const char *tree_root_now(void)
{
	return root[0] && owner == vgpu_mm_generation() ? root : NULL;
}

int tree_write(const char *rel, const char *text, size_t len)
{
	int err;

	pthread_mutex_lock(&lock);
	err = root[0] ? write_file(rel, text, len) : -ENOENT;
	pthread_mutex_unlock(&lock);
	return err;
}

#define PROC_DIR "sys/devices/virtual/kfd/kfd/proc"

static void refresh_attr(void *ctx, const char *name)
{
	char rel[160], text[64];
	int n = kfd_proc_attr(name, text, sizeof(text));

	snprintf(rel, sizeof(rel), PROC_DIR "/%d/%s", (int)kfd_process_pid(), name);
	(void)ctx;
	if (n >= 0)
		write_file(rel, text, (size_t)n);
}

/* ctx: "" or "context_<id>/" */
static void stale_queue(long dirfd, const char *name, bool dir, void *ctx)
{
	char attr[96], text[64];

	snprintf(attr, sizeof(attr), "%squeues/%s/size", (const char *)ctx, name);
	if (kfd_proc_attr(attr, text, sizeof(text)) < 0)
		remove_entry(dirfd, name, dir, NULL);
}

static void refresh_queues(const char *proc, const char *prefix)
{
	char path[sizeof(root) + 128];
	long fd;

	snprintf(path, sizeof(path), "%s/%squeues", proc, prefix);
	rawsys2(SYS_mkdir, path, 0755);
	fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return;
	each_entry(fd, stale_queue, (void *)(uintptr_t)prefix);
	rawsys1(SYS_close, fd);
}

/* ctx: the directory of the process */
static void refresh_context(long dirfd, const char *name, bool dir, void *ctx)
{
	char attr[64], text[64];

	if (!dir || strncmp(name, "context_", 8))
		return;
	snprintf(attr, sizeof(attr), "%s/pasid", name);
	if (kfd_proc_attr(attr, text, sizeof(text)) < 0) {
		remove_entry(dirfd, name, dir, NULL);
		return;
	}
	snprintf(attr, sizeof(attr), "%s/", name);
	refresh_queues(ctx, attr);
}

/* Another process of a shared device, in its own words: names and values. */
static void write_other(pid_t pid)
{
	static char text[SHARE_DATA_MAX]; /* lock */
	uint64_t a[SHARE_ARGS] = {(uint64_t)pid, SHARE_ABOUT_KFD};
	char rel[160], path[sizeof(root) + 96];
	size_t n = sizeof(text), at = 0;
	long fd;

	if (share_call_data(SHARE_PROC, a, -1, NULL, 0, text, &n))
		return;
	/* As a whole: queues that are gone must not stay. */
	snprintf(path, sizeof(path), "%s/" PROC_DIR "/%d", root, (int)pid);
	fd = sys_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd >= 0) {
		each_entry(fd, remove_entry, NULL);
		rawsys1(SYS_close, fd);
	}
	while (at < n) {
		const char *name = text + at, *value = name + strlen(name) + 1;

		snprintf(rel, sizeof(rel), PROC_DIR "/%d/%s", (int)pid, name);
		write_file(rel, value, strlen(value));
		at = (size_t)(value + strlen(value) + 1 - text);
	}
	snprintf(path, sizeof(path), "%s/" PROC_DIR "/%d/queues", root, (int)pid);
	rawsys2(SYS_mkdir, path, 0755);
}

struct pids {
	pid_t pid[1024];
	size_t n;
};

static void stale_process(long dirfd, const char *name, bool dir, void *ctx)
{
	const struct pids *p = ctx;
	pid_t pid = (pid_t)strtol(name, NULL, 10);

	if (pid == getpid())
		return;
	for (size_t i = 0; i < p->n; i++) {
		if (p->pid[i] == pid)
			return;
	}
	remove_entry(dirfd, name, dir, ctx);
}

static void refresh_others(void)
{
	static struct pids p; /* lock */
	uint64_t a[SHARE_ARGS] = {0};
	size_t n = sizeof(p.pid);
	char path[sizeof(root) + 64];
	long fd;

	if (!share_active() || share_call_data(SHARE_PROCS, a, -1, NULL, 0, p.pid, &n))
		return;
	p.n = n / sizeof(p.pid[0]);
	for (size_t i = 0; i < p.n; i++) {
		if (p.pid[i] != getpid())
			write_other(p.pid[i]);
	}
	snprintf(path, sizeof(path), "%s/" PROC_DIR, root);
	fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0) {
		each_entry(fd, stale_process, &p);
		rawsys1(SYS_close, fd);
	}
}

void tree_refresh_proc(void)
{
	char path[sizeof(root) + 96];
	long fd;

	if (!kfd_process_exists() && !share_active())
		return;
	pthread_mutex_lock(&lock);
	if (!root[0])
		goto out;
	refresh_others();
	if (!kfd_process_exists())
		goto out;
	kfd_proc_list(refresh_attr, NULL);
	snprintf(path, sizeof(path), "%s/" PROC_DIR "/%d", root, (int)kfd_process_pid());
	refresh_queues(path, "");
	fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0) {
		each_entry(fd, refresh_context, path);
		rawsys1(SYS_close, fd);
	}
out:
	pthread_mutex_unlock(&lock);
}

bool tree_is_node(uint64_t ino)
{
	for (unsigned i = 0; i < n_nodes; i++) {
		if (nodes[i].ino == ino)
			return true;
	}
	return false;
}

enum tree_place tree_place_of(const char *path)
{
	const char *r = tree_root_now();
	size_t n = r ? strlen(r) : 0;

	if (!n || strncmp(path, r, n) || path[n] != '/')
		return TREE_NOT;
	path += n + 1;
	return !strncmp(path, "sys", 3)    ? TREE_SYS
	       : !strncmp(path, "proc", 4) ? TREE_PROC
					   : TREE_DEV;
}

enum path_kind tree_node_of(uint64_t dev, uint64_t ino)
{
	for (unsigned i = 0; i < n_nodes; i++) {
		if (nodes[i].ino == ino && nodes[i].dev == dev)
			return nodes[i].kind;
	}
	return PATH_OTHER;
}

void tree_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

static unsigned outside; /* how often it was written */

int tree_outside_write(const char *rel, const char *text, size_t len)
{
	char path[256];

	snprintf(path, sizeof(path), "outside.%u/%s", outside, rel);
	return write_file(path, text, len);
}

void tree_outside(void (*fill)(void))
{
	char path[sizeof(root) + 64], name[32], made[sizeof(root) + 64];

	pthread_mutex_lock(&lock);
	if (!root[0] || owner != vgpu_mm_generation())
		goto out;
	outside++;
	fill();
	/* A link to a directory, so that a reader has one state or the next; the one before stays
	 * for whoever is in it. */
	snprintf(name, sizeof(name), "outside.%u", outside);
	snprintf(made, sizeof(made), "%s/outside.new", root);
	snprintf(path, sizeof(path), "%s/outside", root);
	rawsys2(SYS_symlink, name, made);
	rawsys4(SYS_renameat, AT_FDCWD, made, AT_FDCWD, path);
	if (outside > 2) {
		snprintf(path, sizeof(path), "%s/outside.%u", root, outside - 2);
		remove_tree(path);
	}
out:
	pthread_mutex_unlock(&lock);
}

void tree_remove(void)
{
	struct timespec t;
	bool locked;

	if (!tree_root_now())
		return;
	/* The timers' thread may be writing. Not for ever: who leaves from a signal handler may have
	 * the lock itself. (ThreadSanitizer does not know pthread_mutex_clocklock.) */
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec++;
	locked = !pthread_mutex_timedlock(&lock, &t);
	remove_tree(root);
	root[0] = 0;
	if (locked)
		pthread_mutex_unlock(&lock);
}
