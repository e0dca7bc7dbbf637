/* A trapped call: is it the device's? Then the hook of the same meaning answers, the one that the
 * preloaded library has. Else it is sent on as it is. */
#include "trap/trap.h"

#include <errno.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/preload.h"
#include "ownfd.h"
#include "share/share.h"
#include "vm/rawsys.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

long user_string(char *out, size_t n, uint64_t from)
{
	size_t at = 0;

	while (at < n) {
		size_t part = 4096 - ((from + at) & 4095), room = n - at;

		/* Most names are short, and a page may be the last one. */
		if (part > 256)
			part = 256;
		if (part > room)
			part = room;
		if (user_read(out + at, from + at, part))
			return -EFAULT;
		for (size_t i = at; i < at + part; i++) {
			if (!out[i])
				return (long)i;
		}
		at += part;
	}
	return -ENAMETOOLONG;
}

static long hook(struct call *c)
{
	long r;

	errno = 0;
	r = vgpu_syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
	return r == -1 && errno ? -errno : r;
}

/* ---- paths ---------------------------------------------------------------- */

/* /proc/self/exe is this loader; the client means itself. */
static bool names_exe(const char *path)
{
	int pid, n = 0;

	if (strncmp(path, "/proc/", 6))
		return false;
	return !strcmp(path, "/proc/self/exe") || !strcmp(path, "/proc/thread-self/exe") ||
	       (sscanf(path, "/proc/%d/exe%n", &pid, &n) == 1 && n && !path[n] && pid == getpid());
}

static bool in_tree(int dirfd)
{
	const char *root = tree_root_now();
	char link[40] = "/proc/self/cwd", at[512];
	size_t n = strlen(root);
	long len;

	if (dirfd != AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	len = rawsys4(SYS_readlinkat, AT_FDCWD, link, at, sizeof(at));
	return len >= (long)n && !memcmp(at, root, n);
}

static bool concerns(int dirfd, const char *path)
{
	char buf[PATH_BUF];

	if (path_map_at(dirfd, path, buf) != PATH_OTHER)
		return true;
	if (!*path)
		return vfd_live || tree_root_now();
	if (vfd_live && (path_of_fd(path, buf) != PATH_OTHER ||
			 (!strncmp(path, "/proc/", 6) && strstr(path, "/fd/"))))
		return true;
	return path[0] != '/' && tree_root_now() && in_tree(dirfd);
}

static long path_call(struct call *c, int dirfd, unsigned arg)
{
	char path[4096];

	if (user_string(path, sizeof(path), (uint64_t)c->a[arg]) < 0)
		return CALL_PASS; /* which says what is wrong with it */
	if (names_exe(path)) {
		size_t n = strlen(trap_exe);

		if (c->nr == SYS_lstat ||
		    (c->nr == SYS_newfstatat && (c->a[3] & AT_SYMLINK_NOFOLLOW)))
			return CALL_PASS;
		if (c->nr == SYS_readlink || c->nr == SYS_readlinkat) {
			long room = c->a[arg + 2];

			if (room <= 0)
				return CALL_PASS;
			if (n > (size_t)room)
				n = (size_t)room;
			return user_write((uint64_t)c->a[arg + 1], trap_exe, n) ? -EFAULT : (long)n;
		}
		c->a[arg] = (long)trap_exe;
		return rawsys(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
	}
	if (!concerns(dirfd, path))
		return CALL_PASS;
	if (c->nr == SYS_openat2) {
		struct open_how how = {0};

		if (c->a[3] < (long)sizeof(how) || user_read(&how, (uint64_t)c->a[2], sizeof(how)))
			return CALL_PASS;
		c->nr = SYS_openat;
		c->a[2] = (long)how.flags;
		c->a[3] = (long)how.mode;
	}
	c->a[arg] = (long)path;
	return hook(c);
}

/* ---- descriptors ---------------------------------------------------------- */

static long vector_call(struct call *c)
{
	struct iovec iov[1024];
	long n = c->a[2];

	if (n < 0 || n > 1024)
		return -EINVAL;
	if (user_read(iov, (uint64_t)c->a[1], (size_t)n * sizeof(iov[0])))
		return -EFAULT;
	/* With flags: the offset -1 is the file's own. */
	if (c->nr == SYS_preadv2)
		c->nr = c->a[3] == -1 ? SYS_readv : SYS_preadv;
	else if (c->nr == SYS_pwritev2)
		c->nr = c->a[3] == -1 ? SYS_writev : SYS_pwritev;
	c->a[1] = (long)iov;
	return hook(c);
}

static long fd_call(struct call *c)
{
	struct vfile *v = vfd_find((int)c->a[0]);
	long r;

	if (!v)
		return c->nr == SYS_close && own_fd_is((int)c->a[0]) ? -EBADF : CALL_PASS;
	vfile_put(v);
	switch (c->nr) {
	/* The table of descriptors in this memory is the parent's. */
	case SYS_close:
	case SYS_dup:
	case SYS_fcntl:
		if (c->b->foreign)
			return CALL_PASS;
		break;
	case SYS_readv:
	case SYS_writev:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2:
		return vector_call(c);
	}
	r = hook(c);
	/* A wait that a signal ended: the frame returns to it, as the kernel's would. */
	if (r == -EINTR && c->nr == SYS_ioctl && signal_restarts(c)) {
		c->r[REG_RIP] -= 2;
		return CALL_DONE;
	}
	return r;
}

/* ---- all of them ---------------------------------------------------------- */

static long seccomp_call(struct call *c)
{
	if (c->nr == SYS_seccomp)
		return c->a[0] == SECCOMP_SET_MODE_FILTER
			       ? filter_client((unsigned)c->a[1], (uint64_t)c->a[2])
			       : CALL_PASS;
	return c->a[0] == PR_SET_SECCOMP && c->a[1] == SECCOMP_MODE_FILTER
		       ? filter_client(0, (uint64_t)c->a[2])
		       : CALL_PASS;
}

long call_dispatch(struct call *c)
{
	signal_client_mask(c->uc);
	switch (c->nr) {
	case SYS_rt_sigaction:
		return call_sigaction(c);
	case SYS_rt_sigprocmask:
		return call_sigprocmask(c);
	case SYS_sigaltstack:
		return call_sigaltstack(c);
	case SYS_rt_sigsuspend:
		return call_with_mask(c, 0);
	case SYS_ppoll:
		return call_with_mask(c, 3);
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return call_with_mask(c, 4);
	case SYS_pselect6:
		return call_pselect(c);
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
		return call_clone(c);
	case SYS_execve:
		return call_exec(c, AT_FDCWD, (uint64_t)c->a[0], (uint64_t)c->a[1],
				 (uint64_t)c->a[2], 0);
	case SYS_execveat:
		return call_exec(c, (int)c->a[0], (uint64_t)c->a[1], (uint64_t)c->a[2],
				 (uint64_t)c->a[3], (int)c->a[4]);
	case SYS_exit:
		return call_exit(c);
	case SYS_exit_group:
		return call_exit_group(c);
	case SYS_brk:
		return call_brk(c);
	case SYS_prctl:
	case SYS_seccomp:
		return seccomp_call(c);
	case SYS_open:
	case SYS_creat:
	case SYS_stat:
	case SYS_lstat:
	case SYS_access:
	case SYS_truncate:
	case SYS_statfs:
	case SYS_chdir:
	case SYS_readlink:
	case SYS_getxattr:
	case SYS_lgetxattr:
	case SYS_listxattr:
	case SYS_llistxattr:
		return path_call(c, AT_FDCWD, 0);
	case SYS_openat:
	case SYS_openat2:
	case SYS_newfstatat:
	case SYS_readlinkat:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_statx:
		return path_call(c, (int)c->a[0], 1);
	case SYS_getdents64:
	case SYS_fstatfs:
		return tree_root_now() && in_tree((int)c->a[0]) ? hook(c) : CALL_PASS;
	case SYS_getcwd:
		return tree_root_now() ? hook(c) : CALL_PASS;
	case SYS_recvmsg:
		if (c->b->foreign)
			return CALL_PASS;
		call_post(c, POST_RECVMSG);
		return CALL_DONE;
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_madvise:
	case SYS_msync:
	case SYS_mremap:
		return hook(c);
	case SYS_dup2:
	case SYS_dup3:
		return c->b->foreign ? CALL_PASS : hook(c);
	case SYS_close_range:
		return hook(c);
	}
	return fd_call(c);
}
