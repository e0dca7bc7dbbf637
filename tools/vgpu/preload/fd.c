/* Which fds are the device's.
 *
 * Every one is backed by a real fd, so that numbers, flags, dup, poll, inheritance and SCM_RIGHTS
 * behave by themselves: /dev/null for the nodes (a character device without read side, which polls
 * as always ready, exactly as /dev/kfd does), a pipe for SMI streams, a memfd for dma-bufs.
 *
 * On a shared device files go from process to process, which have nothing but the kernel's inode
 * to know them by: nodes are memfds there, and a dma-buf is one end of a socket pair, whose other
 * end tells the daemon when the last copy is closed.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drm/drm_file.h"
#include "drm/gem.h"
#include "share/share.h"
#include "vm/rawsys.h"

#define MAX_FD 65536

uint32_t vfd_live;
void (*vfd_installed)(int fd);

static struct vfile *table[MAX_FD];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t serials[4];

static void lock_prepare(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_release(void)
{
	pthread_mutex_unlock(&lock);
}

struct vfile *vfile_new(enum vfile_kind kind)
{
	struct vfile *v = calloc(1, sizeof(*v));

	if (v) {
		v->refs = 1;
		v->kind = kind;
		v->serial = __atomic_fetch_add(&serials[kind], 1, __ATOMIC_RELAXED);
	}
	return v;
}

void vfile_put(struct vfile *v)
{
	uint64_t a[SHARE_ARGS] = {v->ino};

	if (__atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (v->named)
		share_call(SHARE_FILE_PUT, a);
	switch (v->kind) {
	case VFILE_KFD:
		if (v->kfd) { /* a primary lives as long as the address space */
			kfd_process_file_put(v->kfd);
			kfd_release(v->kfd);
		}
		break;
	case VFILE_DRM:
		if (v->drm)
			drm_put(v->drm);
		break;
	case VFILE_SMI:
		smi_release(v->smi);
		break;
	case VFILE_DMABUF:
		vgpu_count_dmabuf(-1);
		gem_unref(v->gem);
		break;
	}
	free(v);
}

static bool same_file(int fd, const struct vfile *v)
{
	struct stat st = {0};

	return !rawsys2(SYS_fstat, fd, &st) && st.st_ino == v->ino && st.st_dev == v->dev;
}

struct vfile *vfd_get(int fd)
{
	struct vfile *v;

	if (fd < 0 || fd >= MAX_FD || !__atomic_load_n(&table[fd], __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&lock);
	v = table[fd];
	if (v)
		__atomic_fetch_add(&v->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	/* Closed behind our back (a raw system call, libc's own closefrom), or by a child of vfork()? */
	if (v && !same_file(fd, v)) {
		if (!vgpu_mm_borrowed())
			vfd_forget(fd);
		vfile_put(v);
		v = NULL;
	}
	if (__builtin_expect(v && v->stale, 0)) {
		vfile_put(v);
		v = vfd_adopt(fd);
	}
	return v;
}

static void make_stale(int fd, struct vfile *v, void *ctx)
{
	(void)fd;
	(void)ctx;
	v->stale = v->kind == VFILE_DRM || v->kind == VFILE_DMABUF;
}

void vfd_inherited(void)
{
	vfd_each_locked(make_stale, NULL);
}

void vfd_adopt_all(void)
{
	_Alignas(8) char buf[4096] = {0};
	long dir, n;

	if (!share_file_kind(0))
		return;
	dir = rawsys4(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	while (dir >= 0 && (n = rawsys3(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n; at += *(uint16_t *)(void *)(buf + at + 16)) {
			struct stat st = {0};
			int fd = atoi(buf + at + 19); /* d_name of linux_dirent64 */

			if (!rawsys2(SYS_fstat, fd, &st) && S_ISSOCK(st.st_mode)) {
				struct vfile *v = vfd_adopt(fd);

				if (v)
					vfile_put(v);
			}
		}
	}
	if (dir >= 0)
		rawsys1(SYS_close, dir);
}

int vfd_install(int fd, struct vfile *v)
{
	struct stat st = {0};

	if (fd >= MAX_FD)
		return -EMFILE;
	if (!rawsys2(SYS_fstat, fd, &st)) {
		v->ino = st.st_ino;
		v->dev = st.st_dev;
	}
	vfd_forget(fd);
	pthread_mutex_lock(&lock);
	table[fd] = v;
	__atomic_fetch_add(&vfd_live, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	if (vfd_installed)
		vfd_installed(fd);
	return 0;
}

void vfd_forget(int fd)
{
	struct vfile *v;

	if (fd < 0 || fd >= MAX_FD || !__atomic_load_n(&table[fd], __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	v = table[fd];
	table[fd] = NULL;
	if (v)
		__atomic_fetch_sub(&vfd_live, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	if (v)
		vfile_put(v);
}

void vfd_forget_range(unsigned first, unsigned last)
{
	if (!__atomic_load_n(&vfd_live, __ATOMIC_RELAXED) || vgpu_mm_borrowed())
		return;
	for (unsigned fd = first; fd <= last && fd < MAX_FD; fd++)
		vfd_forget((int)fd);
}

void vfd_duplicated(int from, int to)
{
	struct vfile *v = vfd_get(from);

	if (from == to || vgpu_mm_borrowed()) {
		if (v)
			vfile_put(v);
		return;
	}
	vfd_forget(to);
	if (v && vfd_install(to, v))
		vfile_put(v);
}

void vfd_each_locked(void (*fn)(int fd, struct vfile *v, void *ctx), void *ctx)
{
	pthread_mutex_lock(&lock);
	for (uint32_t fd = 0, left = vfd_live; left && fd < MAX_FD; fd++) {
		if (!table[fd])
			continue;
		left--;
		fn((int)fd, table[fd], ctx);
	}
	pthread_mutex_unlock(&lock);
}

/* Another description of the same dma-buf: the same memory here. */
static struct gem *gem_of_file(uint64_t dev, uint64_t ino)
{
	struct gem *g = NULL;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0, left = vfd_live; left && i < MAX_FD && !g; i++) {
		struct vfile *v = table[i];

		left -= v != NULL;
		if (v && v->kind == VFILE_DMABUF && v->ino == ino && v->dev == dev) {
			g = v->gem;
			gem_ref(g);
		}
	}
	pthread_mutex_unlock(&lock);
	return g;
}

static void vfd_unknown(int fd, const struct stat *st)
{
	struct gem *g = gem_of_file(st->st_dev, st->st_ino);
	struct vfile *v = g ? vfile_new(VFILE_DMABUF) : vfile_from_mark(fd);

	if (g && v) {
		v->gem = g;
		vgpu_count_dmabuf(1);
	} else if (g) {
		gem_unref(g);
	}
	if (v && vfd_install(fd, v))
		vfile_put(v);
}

void vfd_received(int fd)
{
	struct stat st = {0}, other = {0};
	int from = -1;

	if (fd < 0 || rawsys2(SYS_fstat, fd, &st))
		return;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_FD && from < 0; i++) {
		struct vfile *v = table[i];

		/* The kernel's word: do both numbers mean one open file? */
		if (v && i != fd && v->ino == st.st_ino && v->dev == st.st_dev &&
		    !rawsys2(SYS_fstat, i, &other) &&
		    !rawsys6(SYS_kcmp, getpid(), getpid(), KCMP_FILE, i, fd, 0))
			from = i;
	}
	pthread_mutex_unlock(&lock);
	if (from >= 0) {
		vfd_duplicated(from, fd);
	} else if (share_on()) {
		struct vfile *v = vfd_adopt(fd);

		if (v)
			vfile_put(v);
	} else {
		vfd_unknown(fd, &st);
	}
}

/* ---- files of a shared device ---------------------------------------------- */

/* Tells the daemon whose inode this is; watch: our copy of its end, which it takes. */
static int name_file(struct vfile *v, enum share_kind kind, uint64_t object, int watch)
{
	uint64_t a[SHARE_ARGS] = {kind, share_inode(watch >= 0, v->ino), object,
				  (uint64_t)v->oflags};
	int err = share_call_data(SHARE_FILE_ADD, a, watch, NULL, 0, NULL, NULL);

	if (err)
		return err;
	v->named = kind == SHARE_KFD_FILE;
	if (kind == SHARE_DRM_FILE)
		drm_name(v->drm, a[2]);
	return 0;
}

/* A file of its own: /dev/kfd's opens as the client asked; a render node's tells the daemon, by its
 * other end, when nobody has it any more. */
static int node_file(enum vfile_kind kind, int flags, int *other)
{
	long fd, again;
	int sv[2] = {-1, -1};
	char path[40];

	if (kind == VFILE_DRM) {
		fd = rawsys4(SYS_socketpair, AF_UNIX,
			     SOCK_STREAM | (flags & (O_CLOEXEC | O_NONBLOCK)), 0, sv);
		if (fd < 0)
			return (int)fd;
		rawsys3(SYS_fcntl, sv[1], F_SETFD, FD_CLOEXEC);
		*other = sv[1];
		return sv[0];
	}
	fd = rawsys2(SYS_memfd_create, "vgpu-node", MFD_CLOEXEC);
	if (fd < 0)
		return (int)fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%ld", fd);
	again = rawsys4(SYS_openat, AT_FDCWD, path, flags, 0);
	rawsys1(SYS_close, fd);
	return (int)again;
}

struct vfile *vfd_adopt(int fd)
{
	struct stat st = {0};
	uint64_t a[SHARE_ARGS] = {0};
	struct vfile *v = NULL;
	struct share_bo b;
	size_t n = sizeof(b);
	int err;

	if (fd < 0 || fd >= MAX_FD || rawsys2(SYS_fstat, fd, &st) ||
	    !(S_ISSOCK(st.st_mode) || (S_ISREG(st.st_mode) && !st.st_nlink)))
		return NULL;
	/* A program that has nothing to do with the device does not join for a descriptor. */
	a[0] = share_inode(S_ISSOCK(st.st_mode), st.st_ino);
	if ((!share_active() && !share_file_kind(a[0])) || vgpu_device_init())
		return NULL;
	preload_started();
	if (share_call_data(SHARE_FILE_FIND, a, -1, NULL, 0, &b, &n))
		return NULL;
	v = vfile_new(a[0] == SHARE_KFD_FILE   ? VFILE_KFD
		      : a[0] == SHARE_DRM_FILE ? VFILE_DRM
					       : VFILE_DMABUF);
	err = v ? 0 : -ENOMEM;
	if (!err && v->kind == VFILE_DMABUF) {
		v->oflags = (int)a[3];
		v->gem = gem_import(&b);
		err = v->gem ? 0 : -ENOMEM;
		if (!err)
			vgpu_count_dmabuf(1);
	} else if (!err) {
		v->oflags = (int)a[3];
		err = v->kind == VFILE_KFD ? kfd_foreign((pid_t)a[2], &v->kfd)
					   : drm_open_shared(a[1], a[4], &v->drm);
		v->named = v->kind == VFILE_KFD;
		v->ino = st.st_ino;
	}
	if (err) {
		free(v);
		return NULL;
	}
	if (vfd_install(fd, v)) {
		vfile_put(v);
		return NULL;
	}
	return vfd_get(fd);
}

int dev_open(enum vfile_kind kind, bool primary, int flags)
{
	struct vfile *v = NULL;
	int fd, other = -1, err = 0;
	int keep = flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY);

	preload_started();
	if ((flags & O_DIRECTORY) && !(flags & O_CREAT)) {
		errno = ENOTDIR;
		return -1;
	}
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
		errno = EEXIST;
		return -1;
	}
	if (share_active() && share_lost()) {
		errno = ENODEV;
		return -1;
	}
	v = vfile_new(kind);
	if (!v) {
		errno = ENOMEM;
		return -1;
	}
	v->oflags = flags;
	v->primary = primary;
	v->path_only = flags & O_PATH;
	if (!v->path_only) {
		err = kind == VFILE_KFD ? kfd_open(&v->kfd) : drm_open(primary, &v->drm);
	}
	if (err) {
		free(v);
		errno = -err;
		return -1;
	}
	if (share_active() && !v->path_only) {
		fd = node_file(kind, keep, &other);
		errno = fd < 0 ? -fd : 0;
	} else {
		fd = REAL(open)("/dev/null", keep);
	}
	if (fd < 0 || vfd_install(fd, v)) {
		int saved = fd < 0 ? errno : EMFILE;

		if (fd >= 0)
			rawsys1(SYS_close, fd);
		if (other >= 0)
			rawsys1(SYS_close, other);
		vfile_put(v);
		errno = saved;
		return -1;
	}
	if (share_active() && !v->path_only) {
		err = name_file(v, kind == VFILE_KFD ? SHARE_KFD_FILE : SHARE_DRM_FILE, 0, other);
		if (other >= 0)
			rawsys1(SYS_close, other);
		if (err) {
			vfd_forget(fd);
			rawsys1(SYS_close, fd);
			errno = -err;
			return -1;
		}
	}
	if (!v->path_only)
		vfd_mark(fd, v);
	return fd;
}

/* ---- what the drivers ask of the surface ---------------------------------- */

static struct drm_file *files_drm(int fd)
{
	struct vfile *v = vfd_get(fd);
	struct drm_file *f = NULL;

	if (!v)
		return NULL;
	if (v->kind == VFILE_DRM && v->drm) {
		f = v->drm;
		drm_inherited(f);
		drm_get(f);
	}
	vfile_put(v);
	return f;
}

static bool files_valid(int fd)
{
	long flags = rawsys2(SYS_fcntl, fd, F_GETFL);

	/* fget() gives no files that only name something. */
	return flags >= 0 && !(flags & O_PATH);
}

static int files_smi(struct smi_client *c, int fd)
{
	struct vfile *v = vfile_new(VFILE_SMI);
	int err;

	if (!v)
		return -ENOMEM;
	v->smi = c;
	err = vfd_install(fd, v);
	if (err) {
		free(v);
		return err;
	}
	vfd_mark(fd, v);
	return fd;
}

/* A dma-buf that other processes can have: one end of a pair. */
static int shared_dmabuf(struct vfile *v, struct gem *g, int flags)
{
	int sv[2] = {-1, -1}, err;
	long fd;

	if (rawsys4(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv)) {
		free(v);
		return -EMFILE;
	}
	fd = sv[0];
	if (!(flags & O_CLOEXEC))
		rawsys3(SYS_fcntl, fd, F_SETFD, 0);
	gem_publish(g);
	gem_ref(g);
	v->gem = g;
	vgpu_count_dmabuf(1);
	err = vfd_install((int)fd, v) ? -EMFILE : name_file(v, SHARE_DMABUF, g->bo->shared, sv[1]);
	rawsys1(SYS_close, sv[1]);
	if (!err)
		return (int)fd;
	if (err != -EMFILE)
		vfd_forget((int)fd);
	else
		vfile_put(v);
	rawsys1(SYS_close, fd);
	return err;
}

static int files_dmabuf(struct gem *g, int flags)
{
	struct vfile *v = vfile_new(VFILE_DMABUF);
	long fd;

	if (!v)
		return -ENOMEM;
	v->oflags = flags & O_ACCMODE;
	if (g->bo->shared)
		return shared_dmabuf(v, g, flags);
	fd = rawsys2(SYS_memfd_create, "dmabuf", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (fd < 0) {
		free(v);
		return (int)fd;
	}
	/* lseek(SEEK_END) is how clients learn a dma-buf's size. */
	rawsys2(SYS_ftruncate, fd, g->size);
	gem_ref(g);
	v->gem = g;
	vfd_mark((int)fd, v);
	vgpu_count_dmabuf(1);
	if (vfd_install((int)fd, v)) {
		rawsys1(SYS_close, fd);
		vfile_put(v);
		return -EMFILE;
	}
	return (int)fd;
}

struct gem *vfile_gem(struct vfile *v)
{
	struct gem *g;

	pthread_mutex_lock(&lock);
	g = v->gem;
	if (!share_on() && gem_is_inherited(g)) {
		g = vgpu_device_init() ? NULL : gem_inherited(g);
		if (g)
			v->gem = g;
	}
	/* One for the file's own object, one for the caller. */
	if (g)
		gem_ref(g);
	pthread_mutex_unlock(&lock);
	return g;
}

static struct gem *files_gem(int fd)
{
	struct vfile *v = vfd_get(fd);
	struct gem *g = NULL;

	if (!v && share_active())
		v = vfd_adopt(fd);
	if (!v)
		return NULL;
	if (v->kind == VFILE_DMABUF)
		g = vfile_gem(v);
	vfile_put(v);
	return g;
}

/* What other processes read as /proc/<our pid>/fdinfo. */
static int files_fdinfos(char *buf, size_t n)
{
	size_t len = 0;

	for (int fd = 0; fd < MAX_FD; fd++) {
		struct vfile *v = vfd_get(fd);
		char text[4096];
		int w = v ? vfd_fdinfo(v, text, sizeof(text)) : -1;

		if (v)
			vfile_put(v);
		if (w < 0 || len + (size_t)w + 16 > n)
			continue;
		len += (size_t)snprintf(buf + len, n - len, "%d", fd) + 1;
		memcpy(buf + len, text, (size_t)w + 1);
		len += (size_t)w + 1;
	}
	return (int)len;
}

int vfd_fdinfo(struct vfile *v, char *buf, size_t n)
{
	int len;

	if (v->kind != VFILE_DRM || !v->drm)
		return -1;
	len = snprintf(buf, n, "pos:\t0\nflags:\t0%o\nmnt_id:\t27\nino:\t%llu\n",
		       (unsigned)v->oflags | 0100000, (unsigned long long)v->ino);
	return len + drm_fdinfo(v->drm, buf + len, n - (size_t)len);
}

void vfd_each(enum vfile_kind kind, void (*fn)(int fd, struct vfile *v, void *ctx), void *ctx)
{
	for (int fd = 0; fd < MAX_FD; fd++) {
		struct vfile *v = vfd_get(fd);

		if (v && v->kind == kind && (kind != VFILE_DRM || v->drm))
			fn(fd, v, ctx);
		if (v)
			vfile_put(v);
	}
}

void vfd_init(void)
{
	vgpu_files = (struct vgpu_files){
		.drm_file = files_drm,
		.drm_file_put = drm_put,
		.fd_valid = files_valid,
		.install_smi = files_smi,
		.install_dmabuf = files_dmabuf,
		.vma_device = vma_any,
		.dmabuf_gem = files_gem,
		.fdinfos = files_fdinfos,
		.publish = publish,
	};
	pthread_atfork(lock_prepare, lock_release, lock_release);
}
