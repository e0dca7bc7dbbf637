/* Hooks that look at directories and at the file systems that files are in. */
#include "preload.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "vm/rawsys.h"

/* ---- entries: the placeholder of a node is a regular file, the node is not --------------------- */

static void show_node(int fd, uint64_t ino, unsigned char *type)
{
	struct stat st = {0};

	if (*type == DT_REG && tree_root_now() && tree_is_node(ino) &&
	    !rawsys2(SYS_fstat, fd, &st) && tree_node_of(st.st_dev, ino) != PATH_OTHER)
		*type = DT_CHR;
}

HOOK DIR *opendir(const char *path)
{
	char buf[PATH_BUF];

	return REAL(opendir)(path_mapped(path, buf));
}

HOOK struct dirent *readdir(DIR *d)
{
	struct dirent *e = REAL(readdir)(d);

	if (e)
		show_node(dirfd(d), e->d_ino, &e->d_type);
	return e;
}

HOOK struct dirent64 *readdir64(DIR *d)
{
	struct dirent64 *e = REAL(readdir64)(d);

	if (e)
		show_node(dirfd(d), e->d_ino, &e->d_type);
	return e;
}

/* libc's function and the system call. */
HOOK ssize_t getdents64(int fd, void *buf, size_t n)
{
	long r = rawsys3(SYS_getdents64, fd, buf, n);

	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	for (long at = 0; tree_root_now() && at < r;) {
		struct dirent64 *e = (struct dirent64 *)(void *)((char *)buf + at);

		show_node(fd, e->d_ino, &e->d_type);
		at += e->d_reclen;
	}
	return r;
}

HOOK int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
		 int (*compare)(const struct dirent **, const struct dirent **))
{
	char buf[PATH_BUF];
	const char *at = path_mapped(path, buf);
	int n = REAL(scandir)(at, list, filter, compare);

	for (int i = 0; at == buf && i < n; i++)
		if (tree_is_node((*list)[i]->d_ino))
			(*list)[i]->d_type = DT_CHR;
	return n;
}

HOOK int scandir64(const char *path, struct dirent64 ***list,
		   int (*filter)(const struct dirent64 *),
		   int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	char buf[PATH_BUF];
	const char *at = path_mapped(path, buf);
	int n = REAL(scandir64)(at, list, filter, compare);

	for (int i = 0; at == buf && i < n; i++)
		if (tree_is_node((*list)[i]->d_ino))
			(*list)[i]->d_type = DT_CHR;
	return n;
}

/* libc's glob() opens directories by itself, and is given the hooks instead. */
static void *glob_opendir(const char *path)
{
	return opendir(path);
}

static void glob_closedir(void *d)
{
	closedir(d);
}

static struct dirent *glob_readdir(void *d)
{
	return readdir(d);
}

/* May the pattern name something of the device's? */
static bool glob_ours(const char *pattern)
{
	__asm__("" : "+r"(pattern)); /* declared nonnull */
	return pattern && (pattern[0] != '/' || !strncmp(pattern, "/dev", 4) ||
			   !strncmp(pattern, "/sys", 4) || strcspn(pattern, "*?[{") < 5);
}

HOOK int glob(const char *restrict pattern, int flags, int (*errfn)(const char *, int),
	      glob_t *restrict g)
{
	glob_t was = *g;
	int r;

	if ((flags & GLOB_ALTDIRFUNC) || !glob_ours(pattern))
		return REAL(glob)(pattern, flags, errfn, g);
	g->gl_opendir = glob_opendir;
	g->gl_readdir = glob_readdir;
	g->gl_closedir = glob_closedir;
	g->gl_stat = stat;
	g->gl_lstat = lstat;
	r = REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, errfn, g);
	g->gl_flags &= ~GLOB_ALTDIRFUNC;
	g->gl_opendir = was.gl_opendir;
	g->gl_readdir = was.gl_readdir;
	g->gl_closedir = was.gl_closedir;
	g->gl_stat = was.gl_stat;
	g->gl_lstat = was.gl_lstat;
	return r;
}

_Static_assert(sizeof(glob_t) == sizeof(glob64_t), "x86-64: one glob_t");

HOOK int glob64(const char *restrict pattern, int flags, int (*errfn)(const char *, int),
		glob64_t *restrict g)
{
	return glob(pattern, flags, errfn, (glob_t *)g);
}

/* ---- file systems ------------------------------------------------------------------------------- */

/* fs/libfs.c:simple_statfs, for files of the tree that the kernel has in sysfs and procfs. */
static void show_fs(const char *at, struct statfs *s)
{
	enum tree_place place = tree_place_of(at);

	if (place == TREE_SYS || place == TREE_PROC)
		*s = (struct statfs){.f_type = place == TREE_SYS ? SYSFS_MAGIC : PROC_SUPER_MAGIC,
				     .f_bsize = 4096,
				     .f_frsize = 4096,
				     .f_namelen = 255,
				     .f_flags = s->f_flags};
}

HOOK int statfs(const char *path, struct statfs *s)
{
	char buf[PATH_BUF];
	const char *at = path_mapped(path, buf);
	int r = REAL(statfs)(at, s);

	if (!r && at == buf)
		show_fs(buf, s);
	return r;
}

HOOK int statfs64(const char *path, struct statfs64 *s)
{
	return statfs(path, (struct statfs *)s);
}

HOOK int fstatfs(int fd, struct statfs *s)
{
	char link[40], at[PATH_BUF];
	int r = REAL(fstatfs)(fd, s);
	long n;

	if (r || !tree_root_now())
		return r;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = rawsys4(SYS_readlinkat, AT_FDCWD, link, at, sizeof(at) - 1);
	if (n > 0) {
		at[n] = 0;
		show_fs(at, s);
	}
	return r;
}

HOOK int fstatfs64(int fd, struct statfs64 *s)
{
	return fstatfs(fd, (struct statfs *)s);
}

HOOK int statvfs(const char *restrict path, struct statvfs *restrict s)
{
	char buf[PATH_BUF];
	const char *at = path_mapped(path, buf);
	int r = REAL(statvfs)(at, s);

	if (!r && at == buf && tree_place_of(buf) != TREE_DEV)
		s->f_blocks = s->f_bfree = s->f_bavail = s->f_files = s->f_ffree = s->f_favail = 0;
	return r;
}

HOOK int statvfs64(const char *restrict path, struct statvfs64 *restrict s)
{
	return statvfs(path, (struct statvfs *)s);
}
