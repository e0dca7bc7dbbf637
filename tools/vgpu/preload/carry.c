/* Descriptors that outlive this program image.
 *
 * The kernel's files survive exec; the device here lives in the image. So the hooks of exec and
 * spawn (hooks_exec.c) leave a list of what the inheritable descriptors refer to in a memory file at
 * a known number, and the next image begins by making those objects again (carry.h). It is written
 * only when there is such a descriptor.
 *
 * Descriptors that come through a socket from a process that was not there to be inherited from carry
 * a mark: the signal number and the owner of asynchronous input, which no client of the device uses,
 * tell kind and maker; a dma-buf's file begins with a description of its memory.
 */
#include "carry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "drm/drm_file.h"
#include "drm/gem.h"
#include "ownfd.h"
#include "preload.h"
#include "share/share.h"
#include "vm/rawsys.h"

#define LAST_FD 963
#define MAGIC   0x3174706b75706776ull /* "vgpukpt1" */

struct head {
	uint64_t magic, words, drms, kfds, files, descriptors; /* where each part begins */
	uint64_t n_gems, n_drms, n_kfds, n_files, n_fds;
	int32_t fds[CARRY_FDS]; /* what comes with it and is the device's own */
};

/* ---- writing -------------------------------------------------------------- */

static void put_file(struct carry *c, struct vfile *v)
{
	carry_put(c, v->kind);
	carry_put(c, (unsigned)v->oflags);
	carry_put(c, (unsigned)v->path_only | (unsigned)v->primary << 1);
	switch (v->kind) {
	case VFILE_KFD:
		carry_put(c, carry_number(c, CARRY_KFD, v->path_only ? NULL : v->kfd));
		break;
	case VFILE_DRM:
		carry_put(c, carry_number(c, CARRY_DRM, v->path_only ? NULL : v->drm));
		break;
	case VFILE_SMI:
		smi_carry_out(c, v->smi);
		break;
	case VFILE_DMABUF:
		carry_put(c, carry_number(c, CARRY_GEM, v->gem));
		break;
	}
}

struct kept_list {
	struct vfile *file[256];
	int fd[256];
	unsigned n;
};

static void collect(int fd, struct vfile *v, void *ctx)
{
	struct kept_list *l = ctx;

	if (l->n == 256 || rawsys2(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC)
		return;
	__atomic_fetch_add(&v->refs, 1, __ATOMIC_RELAXED);
	l->file[l->n] = v;
	l->fd[l->n++] = fd;
}

static unsigned index_of(const struct kept_list *l, unsigned i)
{
	unsigned at = 0;

	while (l->file[at] != l->file[i])
		at++;
	return at;
}

/* Files first, then what they refer to, then what that refers to: each part may add numbers to the
 * later ones, and is read after them. */
static void write_list(struct carry *c, const struct kept_list *l, struct head *h)
{
	h->files = c->n;
	h->n_files = l->n;
	for (unsigned i = 0; i < l->n; i++) {
		carry_put(c, index_of(l, i));
		if (index_of(l, i) == i)
			put_file(c, l->file[i]);
	}
	h->descriptors = c->n;
	for (unsigned i = 0; i < l->n; i++) {
		carry_put(c, (unsigned)l->fd[i]);
		carry_put(c, l->file[i]->ino);
	}
	h->kfds = c->n;
	for (size_t i = 0; i < c->items[CARRY_KFD]; i++)
		kfd_carry_out(c, c->item[CARRY_KFD][i]);
	h->n_kfds = c->items[CARRY_KFD];
	h->drms = c->n;
	for (size_t i = 0; i < c->items[CARRY_DRM]; i++)
		drm_carry_out(c, c->item[CARRY_DRM][i]);
	h->n_drms = c->items[CARRY_DRM];
	h->words = c->n;
	for (size_t i = 0; i < c->items[CARRY_GEM]; i++)
		gem_carry_out(c, c->item[CARRY_GEM][i]);
	h->n_gems = c->items[CARRY_GEM];
	h->n_fds = c->n_fds;
	memcpy(h->fds, c->to, sizeof(h->fds));
}

static void carry_free(struct carry *c)
{
	for (unsigned i = 0; i < 3; i++)
		free(c->item[i]);
	free(c->w);
}

bool kept_begin(struct kept *k, bool in_place)
{
	struct kept_list l = {.n = 0};
	struct carry c = {.in_place = in_place};
	struct head h = {.magic = MAGIC};
	int saved = errno;
	long fd, at;

	k->n = 0;
	/* The daemon of a shared device knows whose file is what. */
	if (!__atomic_load_n(&vfd_live, __ATOMIC_RELAXED) || share_on())
		return false;
	vfd_each_locked(collect, &l);
	if (!l.n)
		return false;
	fd = rawsys2(SYS_memfd_create, "vgpu-kept", MFD_CLOEXEC);
	at = fd < 0 ? fd : rawsys3(SYS_fcntl, fd, F_DUPFD, CARRY_FIRST_FD);
	if (fd >= 0)
		rawsys1(SYS_close, fd);
	if (at >= 0)
		k->fd[k->n++] = (int)at;
	if (at >= 0 && at <= LAST_FD)
		write_list(&c, &l, &h);
	for (unsigned i = 0; i < c.n_fds; i++)
		k->fd[k->n++] = c.to[i];
	if (at >= 0 && at <= LAST_FD && !c.bad) {
		rawsys4(SYS_pwrite64, at, &h, sizeof(h), 0);
		rawsys4(SYS_pwrite64, at, c.w, c.n * 8, sizeof(h));
	} else {
		kept_end(k);
	}
	for (unsigned i = 0; i < l.n; i++)
		vfile_put(l.file[i]);
	carry_free(&c);
	errno = saved;
	return k->n != 0;
}

void kept_end(struct kept *k)
{
	while (k->n)
		rawsys1(SYS_close, k->fd[--k->n]);
}

/* ---- reading -------------------------------------------------------------- */

static struct vfile *get_file(struct carry *c, int fd)
{
	enum vfile_kind kind = (enum vfile_kind)carry_get(c);
	int oflags = (int)carry_get(c);
	uint32_t bits = (uint32_t)carry_get(c);
	struct vfile *v;
	bool ok = true;

	if (kind > VFILE_DMABUF)
		return NULL;
	v = vfile_new(kind);
	if (!v) {
		c->bad = true;
		return NULL;
	}
	v->oflags = oflags;
	v->path_only = bits & 1;
	v->primary = bits >> 1 & 1;
	switch (kind) {
	case VFILE_KFD:
		v->kfd = carry_item(c, CARRY_KFD, carry_get(c));
		ok = v->kfd || v->path_only;
		break;
	case VFILE_DRM:
		v->drm = carry_item(c, CARRY_DRM, carry_get(c));
		ok = v->drm || v->path_only;
		if (v->drm)
			drm_get(v->drm);
		break;
	case VFILE_SMI:
		v->smi = smi_carry_in(c, fd);
		ok = v->smi;
		break;
	case VFILE_DMABUF:
		v->gem = carry_item(c, CARRY_GEM, carry_get(c));
		ok = v->gem;
		if (v->gem) {
			gem_ref(v->gem);
			vgpu_count_dmabuf(1);
		}
		break;
	}
	if (ok)
		return v;
	free(v);
	return NULL;
}

static bool make_table(struct carry *c, int kind, uint64_t n)
{
	c->item[kind] = calloc(n + 1, sizeof(void *));
	c->items[kind] = c->item[kind] ? n : 0;
	return c->item[kind];
}

static void read_list(struct carry *c, const struct head *h)
{
	struct vfile *files[256] = {0};
	size_t next = h->files;

	if (h->n_gems > c->n || h->n_drms > c->n || h->n_kfds > c->n || h->n_files > 256 ||
	    !make_table(c, CARRY_GEM, h->n_gems) || !make_table(c, CARRY_DRM, h->n_drms) ||
	    !make_table(c, CARRY_KFD, h->n_kfds))
		return;
	c->at = h->words;
	for (uint64_t i = 0; i < h->n_gems; i++)
		c->item[CARRY_GEM][i] = gem_carry_in(c);
	c->at = h->drms;
	for (uint64_t i = 0; i < h->n_drms; i++)
		c->item[CARRY_DRM][i] = drm_carry_in(c);
	c->at = h->kfds;
	for (uint64_t i = 0; i < h->n_kfds; i++)
		c->item[CARRY_KFD][i] = kfd_carry_in(c);
	for (uint64_t i = 0; i < h->n_files && !c->bad; i++) {
		uint64_t fd, ino, same;
		struct stat st = {0};

		c->at = h->descriptors + 2 * i;
		fd = carry_get(c);
		ino = carry_get(c);
		c->at = next;
		same = carry_get(c);
		if (same < i)
			files[i] = files[same];
		else
			files[i] = get_file(c, (int)fd);
		next = c->at;
		/* The number may be another file by now: file actions of a spawn. */
		if (!files[i] || rawsys2(SYS_fstat, fd, &st) || st.st_ino != ino)
			continue;
		if (same < i)
			__atomic_fetch_add(&files[i]->refs, 1, __ATOMIC_RELAXED);
		if (vfd_install((int)fd, files[i]))
			vfile_put(files[i]);
	}
	/* The tables' own references. */
	for (uint64_t i = 0; i < h->n_gems; i++) {
		if (c->item[CARRY_GEM][i])
			gem_unref(c->item[CARRY_GEM][i]);
	}
	for (uint64_t i = 0; i < h->n_drms; i++) {
		if (c->item[CARRY_DRM][i])
			drm_put(c->item[CARRY_DRM][i]);
	}
}

static void read_kept(int fd, const struct head *h)
{
	struct carry c = {0};
	struct stat st = {0};

	if (rawsys2(SYS_fstat, fd, &st) || (uint64_t)st.st_size < sizeof(*h))
		return;
	c.n = ((size_t)st.st_size - sizeof(*h)) / 8;
	c.w = malloc(c.n * 8 + 8);
	preload_started();
	if (c.w && rawsys4(SYS_pread64, fd, c.w, c.n * 8, sizeof(*h)) == (long)(c.n * 8) &&
	    !vgpu_device_init())
		read_list(&c, h);
	carry_free(&c);
}

/* What keeps the daemon of a shared device alive as long as a program that was run with it. */
static void keep_hold(void)
{
	const char *hold = getenv("VGPU_SHARED_HOLD");
	struct stat st = {0};
	int fd = hold ? atoi(hold) : -1;

	if (fd >= OWN_FD_FIRST && !rawsys2(SYS_fstat, fd, &st) && S_ISSOCK(st.st_mode))
		own_fd_mark(fd);
}

/* Before a child of its own can ask, which would be taken for the owner of the memory. */
static void copied(void)
{
	vgpu_mm_generation();
}

void kept_attach(void)
{
	struct head h = {0};

	copied();
	pthread_atfork(NULL, NULL, copied);
	keep_hold();
	if (share_on()) {
		vfd_adopt_all();
		return;
	}
	for (int fd = CARRY_FIRST_FD; fd <= LAST_FD; fd++) {
		if (rawsys4(SYS_pread64, fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != MAGIC)
			continue;
		read_kept(fd, &h);
		rawsys1(SYS_close, fd);
		for (uint64_t i = 0; i < h.n_fds && i < CARRY_FDS; i++)
			rawsys3(SYS_fcntl, h.fds[i], F_SETFD, FD_CLOEXEC);
		return;
	}
}

#ifndef VGPU_TRAP
/* Before the program: nobody else has opened anything yet. */
__attribute__((constructor)) static void image_begins(void)
{
	kept_attach();
}
#endif

/* ---- marks ---------------------------------------------------------------- */

#define MARK 53 /* + kind: a signal number, which nobody is ever sent */

struct dmabuf_head {
	uint64_t magic;
	int64_t owner, fd; /* the file in the owner's table that has the memory */
	uint64_t off, size, domain, cpu_access, metadata_flags, tiling, metadata_size;
	uint32_t metadata[64];
};
#define DMABUF_MAGIC 0x6675626d64677076ull

void vfd_mark(int fd, const struct vfile *v)
{
	struct dmabuf_head h = {.magic = DMABUF_MAGIC, .owner = getpid()};

	if (share_on())
		return;
	rawsys3(SYS_fcntl, fd, F_SETOWN, getpid());
	rawsys3(SYS_fcntl, fd, F_SETSIG, MARK + v->kind);
	if (v->kind != VFILE_DMABUF)
		return;
	h.fd = gem_file(v->gem, &h.off);
	h.size = v->gem->size;
	h.domain = v->gem->domain;
	h.cpu_access = v->gem->cpu_access;
	h.metadata_flags = v->gem->metadata_flags;
	h.tiling = v->gem->tiling;
	h.metadata_size = v->gem->metadata_size;
	memcpy(h.metadata, v->gem->metadata, sizeof(h.metadata));
	rawsys4(SYS_pwrite64, fd, &h, sizeof(h), 0);
}

/* A descriptor of another process's table, here. */
static int take_fd(int64_t pid, int64_t fd)
{
	char path[64];
	long got;

	snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)pid, (long long)fd);
	got = rawsys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	if (got < 0)
		return (int)got;
	return own_fd(got);
}

static struct gem *gem_behind(int fd)
{
	struct dmabuf_head h = {0};
	struct gem *g = NULL;
	int memory;

	if (rawsys4(SYS_pread64, fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != DMABUF_MAGIC ||
	    vgpu_device_init())
		return NULL;
	memory = take_fd(h.owner, h.fd);
	if (memory < 0) {
		vgpu_report(
			"descriptor %d: a dma-buf of process %lld, whose memory is gone with it; "
			"wanted a living exporter",
			fd, (long long)h.owner);
		return NULL;
	}
	if (gem_create_file((enum gem_domain)h.domain, memory, h.off, h.size, &g)) {
		own_fd_close(memory);
		return NULL;
	}
	g->cpu_access = h.cpu_access != 0;
	g->metadata_flags = h.metadata_flags;
	g->tiling = h.tiling;
	g->metadata_size = (uint32_t)h.metadata_size;
	memcpy(g->metadata, h.metadata, sizeof(g->metadata));
	return g;
}

static bool is_kind(int fd, enum vfile_kind kind)
{
	struct stat st = {0};

	if (rawsys2(SYS_fstat, fd, &st))
		return false;
	switch (kind) {
	case VFILE_KFD:
	case VFILE_DRM:
		return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
	case VFILE_SMI:
		return S_ISFIFO(st.st_mode);
	case VFILE_DMABUF:
		return S_ISREG(st.st_mode);
	}
	return false;
}

struct vfile *vfile_from_mark(int fd)
{
	long sig = rawsys2(SYS_fcntl, fd, F_GETSIG), owner;
	enum vfile_kind kind;
	struct vfile *v;
	bool ok = false;

	if (sig < MARK || sig > MARK + VFILE_DMABUF || !is_kind(fd, (enum vfile_kind)(sig - MARK)))
		return NULL;
	owner = rawsys2(SYS_fcntl, fd, F_GETOWN);
	kind = (enum vfile_kind)(sig - MARK);
	preload_started();
	v = vfile_new(kind);
	if (!v)
		return NULL;
	v->oflags = (int)rawsys2(SYS_fcntl, fd, F_GETFL);
	switch (kind) {
	case VFILE_KFD:
		v->kfd = owner == kfd_process_pid() ? kfd_process_own()
						    : kfd_process_of_another((pid_t)owner);
		ok = v->kfd;
		break;
	case VFILE_DRM:
		/* Its handles are in the other process. */
		ok = !drm_open(false, &v->drm);
		break;
	case VFILE_SMI:
		/* What is in it can be read; its mask is in the other process. */
		v->smi = vgpu_device_init() ? NULL : smi_kept((pid_t)owner, false, -1, fd);
		ok = v->smi;
		break;
	case VFILE_DMABUF:
		v->gem = gem_behind(fd);
		ok = v->gem;
		if (ok)
			vgpu_count_dmabuf(1);
		break;
	}
	if (ok)
		return v;
	free(v);
	return NULL;
}
