/* Hooks that take a path. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "drm/gem.h"
#include "share/share.h"
#include "vm/rawsys.h"

/* glibc's own entry points that its headers do not declare to everybody. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
int __xstat(int ver, const char *path, struct stat *st);
int __xstat64(int ver, const char *path, struct stat64 *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __lxstat64(int ver, const char *path, struct stat64 *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstat64(int ver, int fd, struct stat64 *st);
int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags);
int __fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags);
char *__realpath_chk(const char *path, char *resolved, size_t n);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t buflen);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t len, size_t buflen);

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "x86-64: one struct stat");

#define KFD_MAJOR 240
#define DRM_MAJOR 226

/* ---- open ----------------------------------------------------------------- */

static int open_node(enum path_kind kind, const char *path, int flags)
{
	int fd = kind == PATH_KFD ? dev_open(VFILE_KFD, false, flags)
				  : dev_open(VFILE_DRM, kind == PATH_CARD, flags);

	if (trace_on()) {
		int saved = errno;
		struct vfile *v = fd >= 0 ? vfd_get(fd) : NULL;

		trace_line("open %s%s = %s", path, flags & O_CLOEXEC ? " cloexec" : "",
			   v ? trace_file(v) : trace_result(-saved));
		if (v)
			vfile_put(v);
		errno = saved;
	}
	return fd;
}

/* A relative open may have reached a placeholder through a directory of the tree. */
static int check_placeholder(int fd, const char *path, int flags)
{
	enum path_kind kind;
	struct stat st;

	if (fd < 0 || !path || path[0] == '/' || !tree_root_now() || REAL(fstat)(fd, &st))
		return fd;
	kind = tree_node_of(st.st_dev, st.st_ino);
	if (kind == PATH_OTHER)
		return fd;
	REAL(close)(fd);
	return open_node(kind, path, flags);
}

static mode_t open_mode(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

/* Opening follows the links of /proc/self/fd. */
static enum path_kind open_map(int dirfd, const char *path, char *buf)
{
	enum path_kind kind = path_map_at(dirfd, path, buf);

	if (kind == PATH_MAPPED)
		path_opening(buf);
	return kind == PATH_OTHER ? path_of_fd(path, buf) : kind;
}

/* What the device has in sysfs and procfs is read only: fs/namei.c:may_open for most, for root
 * fs/kernfs/file.c:kernfs_fop_open. Directories there take no new files. True: errno says it. */
static bool refuses_write(const char *file, int *flags)
{
	struct stat st = {0};
	long r;

	if (!(*flags & (O_ACCMODE | O_TRUNC | O_CREAT)) || (*flags & O_PATH))
		return false;
	r = rawsys4(SYS_newfstatat, AT_FDCWD, file, &st, 0);
	if (r == -ENOENT && (*flags & O_CREAT)) {
		errno = EACCES;
		return true;
	}
	if (r || !S_ISREG(st.st_mode) || (*flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return false;
	if (*flags & O_ACCMODE) {
		errno = rawsys0(SYS_geteuid) ? EACCES : EINVAL;
		return true;
	}
	*flags &= ~(O_TRUNC | O_CREAT);
	return false;
}

#define OPEN_BODY(dir, call_mapped, call_plain)                                                    \
	char buf[PATH_BUF];                                                                        \
	enum path_kind kind = open_map(dir, path, buf);                                            \
                                                                                                   \
	switch (kind) {                                                                            \
	case PATH_OTHER:                                                                           \
		return call_plain;                                                                 \
	case PATH_MAPPED:                                                                          \
		if (refuses_write(buf, &flags))                                                    \
			return -1;                                                                 \
		return call_mapped;                                                                \
	default:                                                                                   \
		return open_node(kind, path, flags);                                               \
	}

HOOK int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = open_mode(flags, ap);
	va_end(ap);
	OPEN_BODY(AT_FDCWD, REAL(open)(buf, flags, mode), REAL(open)(path, flags, mode))
}

HOOK int open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = open_mode(flags, ap);
	va_end(ap);
	OPEN_BODY(AT_FDCWD, REAL(open64)(buf, flags, mode), REAL(open64)(path, flags, mode))
}

HOOK int openat(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = open_mode(flags, ap);
	va_end(ap);
	OPEN_BODY(dirfd, REAL(openat)(dirfd, buf, flags, mode),
		  check_placeholder(REAL(openat)(dirfd, path, flags, mode), path, flags))
}

HOOK int openat64(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = open_mode(flags, ap);
	va_end(ap);
	OPEN_BODY(dirfd, REAL(openat64)(dirfd, buf, flags, mode),
		  check_placeholder(REAL(openat64)(dirfd, path, flags, mode), path, flags))
}

HOOK int __open_2(const char *path, int flags){
	OPEN_BODY(AT_FDCWD, REAL(open)(buf, flags), REAL(__open_2)(path, flags))}

HOOK int __open64_2(const char *path, int flags){
	OPEN_BODY(AT_FDCWD, REAL(open64)(buf, flags), REAL(__open64_2)(path, flags))}

HOOK int __openat_2(int dirfd, const char *path, int flags){
	OPEN_BODY(dirfd, REAL(openat)(dirfd, buf, flags),
		  check_placeholder(REAL(__openat_2)(dirfd, path, flags), path, flags))}

HOOK int __openat64_2(int dirfd, const char *path, int flags){
	OPEN_BODY(dirfd, REAL(openat64)(dirfd, buf, flags),
		  check_placeholder(REAL(__openat64_2)(dirfd, path, flags), path, flags))}

HOOK int creat(const char *path, mode_t mode)
{
	int flags = O_CREAT | O_WRONLY | O_TRUNC;

	OPEN_BODY(AT_FDCWD, REAL(creat)(buf, mode), REAL(creat)(path, mode))
}

HOOK int creat64(const char *path, mode_t mode)
{
	int flags = O_CREAT | O_WRONLY | O_TRUNC;

	OPEN_BODY(AT_FDCWD, REAL(creat64)(buf, mode), REAL(creat64)(path, mode))
}

static int fopen_flags(const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;

	return flags | (mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT : 0);
}

static FILE *fopen_node(enum path_kind kind, const char *path, const char *mode)
{
	int flags = fopen_flags(mode) & O_ACCMODE;
	int fd = open_node(kind, path, flags | (strchr(mode, 'e') ? O_CLOEXEC : 0));

	return fd < 0 ? NULL : fdopen(fd, mode);
}

HOOK FILE *fopen(const char *path, const char *mode)
{
	char buf[PATH_BUF];
	enum path_kind kind = open_map(AT_FDCWD, path, buf);
	int flags;

	if (kind > PATH_MAPPED)
		return fopen_node(kind, path, mode);
	flags = kind == PATH_MAPPED ? fopen_flags(mode) : 0;
	if (refuses_write(buf, &flags))
		return NULL;
	return REAL(fopen)(kind == PATH_MAPPED ? buf : path, mode);
}

HOOK FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}

/* ---- links, permissions ---------------------------------------------------- */

static const char *mapped_at(int dirfd, const char *path, char *buf)
{
	return path_map_at(dirfd, path, buf) == PATH_OTHER ? path : buf;
}

/* Only regular files have a length to set. */
static bool truncates_node(const char *path, char *buf)
{
	return path_map(path, buf) > PATH_MAPPED;
}

HOOK int truncate(const char *path, off_t len)
{
	char buf[PATH_BUF];

	if (truncates_node(path, buf)) {
		errno = EINVAL;
		return -1;
	}
	return REAL(truncate)(path_mapped(path, buf), len);
}

HOOK int truncate64(const char *path, off64_t len)
{
	return truncate(path, len);
}

HOOK int access(const char *path, int mode)
{
	char buf[PATH_BUF];

	return REAL(access)(path_mapped(path, buf), mode);
}

HOOK int euidaccess(const char *path, int mode)
{
	char buf[PATH_BUF];

	return REAL(euidaccess)(path_mapped(path, buf), mode);
}

HOOK int eaccess(const char *path, int mode)
{
	char buf[PATH_BUF];

	return REAL(eaccess)(path_mapped(path, buf), mode);
}

HOOK int faccessat(int dirfd, const char *path, int mode, int flags)
{
	char buf[PATH_BUF];

	return REAL(faccessat)(dirfd, mapped_at(dirfd, path, buf), mode, flags);
}

/* ls and friends look for access lists of everything they show. */
HOOK ssize_t getxattr(const char *path, const char *name, void *value, size_t n)
{
	char buf[PATH_BUF];

	return REAL(getxattr)(path_mapped(path, buf), name, value, n);
}

HOOK ssize_t lgetxattr(const char *path, const char *name, void *value, size_t n)
{
	char buf[PATH_BUF];

	return REAL(lgetxattr)(path_mapped(path, buf), name, value, n);
}

HOOK ssize_t listxattr(const char *path, char *list, size_t n)
{
	char buf[PATH_BUF];

	return REAL(listxattr)(path_mapped(path, buf), list, n);
}

HOOK ssize_t llistxattr(const char *path, char *list, size_t n)
{
	char buf[PATH_BUF];

	return REAL(llistxattr)(path_mapped(path, buf), list, n);
}

HOOK int chdir(const char *path)
{
	char buf[PATH_BUF];

	return REAL(chdir)(path_mapped(path, buf));
}

HOOK char *getcwd(char *buf, size_t size)
{
	char *r = REAL(getcwd)(buf, size);

	return r && tree_root_now() ? path_unmap(r) : r;
}

HOOK char *realpath(const char *restrict path, char *restrict resolved)
{
	char buf[PATH_BUF];
	char *r = REAL(realpath)(path_mapped(path, buf), resolved);

	return r && tree_root_now() ? path_unmap(r) : r;
}

HOOK char *__realpath_chk(const char *path, char *resolved, size_t n)
{
	char buf[PATH_BUF];
	char *r = REAL(__realpath_chk)(path_mapped(path, buf), resolved, n);

	return r && tree_root_now() ? path_unmap(r) : r;
}

HOOK char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

/* /proc/<pid>/fd/N of another client of a shared device. */
static ssize_t other_fd_link(const char *path, char *name, size_t size)
{
	int pid, fd, used = 0;
	struct stat st = {0};

	if (sscanf(path, "/proc/%d/fd/%d%n", &pid, &fd, &used) != 2 || path[used] ||
	    pid == getpid() || rawsys4(SYS_newfstatat, AT_FDCWD, path, &st, 0))
		return -1;
	switch (share_file_kind(share_inode(S_ISSOCK(st.st_mode), st.st_ino))) {
	case SHARE_NO_FILE:
		break;
	case SHARE_KFD_FILE:
		return snprintf(name, size, "/dev/kfd");
	case SHARE_DRM_FILE:
		return snprintf(name, size, "/dev/dri/renderD%u", vgpu_config.render_minor);
	case SHARE_DMABUF:
		return snprintf(name, size, "/dmabuf:");
	}
	return -1;
}

/* /proc/self/fd/N of one of ours says what the client opened, not what is behind it. */
static ssize_t fd_link(const char *path, char *name, size_t size)
{
	int fd, used = 0, saved = errno;
	ssize_t n = -1;
	struct vfile *v;

	if (path && share_on() && (n = other_fd_link(path, name, size)) >= 0)
		return n;
	if (!vfd_live || !path || sscanf(path, "/proc/self/fd/%d%n", &fd, &used) != 1 || path[used])
		return -1;
	v = vfd_get(fd);
	if (!v)
		return -1;
	switch (v->kind) {
	case VFILE_KFD:
		n = snprintf(name, size, "/dev/kfd");
		break;
	case VFILE_DRM:
		n = snprintf(name, size, v->primary ? "/dev/dri/card%u" : "/dev/dri/renderD%u",
			     v->primary ? 0 : vgpu_config.render_minor);
		break;
	case VFILE_SMI:
		n = snprintf(name, size, "anon_inode:kfd_smi_ev");
		break;
	case VFILE_DMABUF:
		n = snprintf(name, size, "/dmabuf:");
		break;
	}
	vfile_put(v);
	errno = saved;
	return n;
}

/* Read into a buffer of our own: what is longer than the answer must not reach the caller's. */
static ssize_t read_link(int dirfd, const char *path, char *out, size_t len)
{
	const char *root = tree_root_now();
	char buf[PATH_BUF], link[PATH_MAX];
	ssize_t n = len ? fd_link(path, link, sizeof(link)) : -1;

	if (n < 0) {
		const char *real = mapped_at(dirfd, path, buf);
		size_t m = root ? strlen(root) : 0;

		if (!root || !len)
			return REAL(readlinkat)(dirfd, real, out, len);
		n = REAL(readlinkat)(dirfd, real, link, sizeof(link));
		if (n < 0)
			return n;
		if ((size_t)n > m && !memcmp(link, root, m) && link[m] == '/') {
			memmove(link, link + m, (size_t)n - m);
			n -= (ssize_t)m;
		}
	}
	if ((size_t)n > len)
		n = (ssize_t)len;
	if (user_write((uintptr_t)out, link, (size_t)n)) {
		errno = EFAULT;
		return -1;
	}
	return n;
}

HOOK ssize_t readlink(const char *restrict path, char *restrict out, size_t len)
{
	return read_link(AT_FDCWD, path, out, len);
}

HOOK ssize_t readlinkat(int dirfd, const char *restrict path, char *restrict out, size_t len)
{
	return read_link(dirfd, path, out, len);
}

HOOK ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t room)
{
	return len > room ? REAL(__readlink_chk)(path, out, len, room)
			  : read_link(AT_FDCWD, path, out, len);
}

HOOK ssize_t __readlinkat_chk(int dirfd, const char *path, char *out, size_t len, size_t room)
{
	return len > room ? REAL(__readlinkat_chk)(dirfd, path, out, len, room)
			  : read_link(dirfd, path, out, len);
}

/* ---- stat ----------------------------------------------------------------- */

static void make_node(struct stat *st, unsigned major, unsigned minor)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = makedev(major, minor);
	st->st_size = 0;
	st->st_blocks = 0;
}

static bool node_numbers(enum path_kind kind, unsigned *major, unsigned *minor)
{
	*major = kind == PATH_KFD ? KFD_MAJOR : DRM_MAJOR;
	*minor = kind == PATH_RENDER ? vgpu_config.render_minor : 0;
	return kind > PATH_MAPPED;
}

/* Results that show a placeholder become the node. */
static int stat_fixup(int r, struct stat *st)
{
	unsigned major, minor;

	if (!r && tree_root_now() &&
	    node_numbers(tree_node_of(st->st_dev, st->st_ino), &major, &minor))
		make_node(st, major, minor);
	return r;
}

static int fstat_fixup(int fd, int r, struct stat *st)
{
	struct vfile *v;

	if (r || !vfd_live)
		return r;
	v = vfd_get(fd);
	if (!v)
		return r;
	if (v->kind == VFILE_KFD)
		make_node(st, KFD_MAJOR, 0);
	else if (v->kind == VFILE_DRM)
		make_node(st, DRM_MAJOR, v->primary ? 0 : vgpu_config.render_minor);
	else if (v->kind == VFILE_DMABUF) {
		st->st_mode = S_IFREG | 0600;
		st->st_size = (off_t)v->gem->size;
	}
	vfile_put(v);
	return r;
}

HOOK int stat(const char *restrict path, struct stat *restrict st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(stat)(path_mapped(path, buf), st), st);
}

HOOK int stat64(const char *restrict path, struct stat64 *restrict st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(stat64)(path_mapped(path, buf), st), (struct stat *)st);
}

HOOK int lstat(const char *restrict path, struct stat *restrict st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(lstat)(path_mapped(path, buf), st), st);
}

HOOK int lstat64(const char *restrict path, struct stat64 *restrict st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(lstat64)(path_mapped(path, buf), st), (struct stat *)st);
}

HOOK int fstat(int fd, struct stat *st)
{
	return fstat_fixup(fd, stat_fixup(REAL(fstat)(fd, st), st), st);
}

HOOK int fstat64(int fd, struct stat64 *st)
{
	struct stat *s = (struct stat *)st;

	return fstat_fixup(fd, stat_fixup(REAL(fstat64)(fd, st), s), s);
}

static int statat_fixup(int dirfd, const char *path, int flags, int r, struct stat *st)
{
	r = stat_fixup(r, st);
	return (flags & AT_EMPTY_PATH) && path && !*path ? fstat_fixup(dirfd, r, st) : r;
}

HOOK int fstatat(int dirfd, const char *restrict path, struct stat *restrict st, int flags)
{
	char buf[PATH_BUF];

	return statat_fixup(dirfd, path, flags,
			    REAL(fstatat)(dirfd, mapped_at(dirfd, path, buf), st, flags), st);
}

HOOK int fstatat64(int dirfd, const char *restrict path, struct stat64 *restrict st, int flags)
{
	char buf[PATH_BUF];

	return statat_fixup(dirfd, path, flags,
			    REAL(fstatat64)(dirfd, mapped_at(dirfd, path, buf), st, flags),
			    (struct stat *)st);
}

HOOK int __xstat(int ver, const char *path, struct stat *st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(__xstat)(ver, path_mapped(path, buf), st), st);
}

HOOK int __xstat64(int ver, const char *path, struct stat64 *st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(__xstat64)(ver, path_mapped(path, buf), st), (struct stat *)st);
}

HOOK int __lxstat(int ver, const char *path, struct stat *st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(__lxstat)(ver, path_mapped(path, buf), st), st);
}

HOOK int __lxstat64(int ver, const char *path, struct stat64 *st)
{
	char buf[PATH_BUF];

	return stat_fixup(REAL(__lxstat64)(ver, path_mapped(path, buf), st), (struct stat *)st);
}

HOOK int __fxstat(int ver, int fd, struct stat *st)
{
	return fstat_fixup(fd, REAL(__fxstat)(ver, fd, st), st);
}

HOOK int __fxstat64(int ver, int fd, struct stat64 *st)
{
	return fstat_fixup(fd, REAL(__fxstat64)(ver, fd, st), (struct stat *)st);
}

HOOK int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags)
{
	char buf[PATH_BUF];

	return statat_fixup(dirfd, path, flags,
			    REAL(__fxstatat)(ver, dirfd, mapped_at(dirfd, path, buf), st, flags),
			    st);
}

HOOK int __fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags)
{
	char buf[PATH_BUF];

	return statat_fixup(dirfd, path, flags,
			    REAL(__fxstatat64)(ver, dirfd, mapped_at(dirfd, path, buf), st, flags),
			    (struct stat *)st);
}

HOOK int statx(int dirfd, const char *restrict path, int flags, unsigned mask,
	       struct statx *restrict stx)
{
	char buf[PATH_BUF];
	unsigned major = 0, minor = 0;
	bool node = false;
	int r = REAL(statx)(dirfd, mapped_at(dirfd, path, buf), flags, mask, stx);

	if (r || (!tree_root_now() && !vfd_live))
		return r;
	if (tree_root_now())
		node = node_numbers(
			tree_node_of(makedev(stx->stx_dev_major, stx->stx_dev_minor), stx->stx_ino),
			&major, &minor);
	if (!node && (flags & AT_EMPTY_PATH) && !*path) {
		struct vfile *v = vfd_find(dirfd);

		if (v) {
			node = v->kind == VFILE_KFD || v->kind == VFILE_DRM;
			major = v->kind == VFILE_KFD ? KFD_MAJOR : DRM_MAJOR;
			minor = v->kind == VFILE_KFD || v->primary ? 0 : vgpu_config.render_minor;
			vfile_put(v);
		}
	}
	if (node) {
		stx->stx_mode = S_IFCHR | 0666;
		stx->stx_rdev_major = major;
		stx->stx_rdev_minor = minor;
		stx->stx_size = 0;
		stx->stx_blocks = 0;
	}
	return r;
}
