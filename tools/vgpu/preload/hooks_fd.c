/* Hooks that take a file descriptor. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/dma-buf.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "drm/drm_file.h"
#include "drm/gem.h"
#include "ownfd.h"
#include "share/share.h"

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);

/* ioctls that the VFS answers before a driver sees them (fs/ioctl.c:do_vfs_ioctl). */
static bool vfs_ioctl(unsigned cmd)
{
	switch (cmd) {
	case FIOCLEX:
	case FIONCLEX:
	case FIONBIO:
	case FIOASYNC:
	case FIOQSIZE:
	case FIGETBSZ:
	case FS_IOC_FIEMAP:
	case FICLONE:
	case FICLONERANGE:
	case FIDEDUPERANGE:
		return true;
	}
	return false;
}

/* Calls that change what an outsider sees: buffers, their mappings, queues. */
static bool changes(const struct vfile *v, unsigned cmd)
{
	if (v->kind == VFILE_DRM)
		return true;
	switch (cmd) {
	case AMDKFD_IOC_ACQUIRE_VM:
	case AMDKFD_IOC_ALLOC_MEMORY_OF_GPU:
	case AMDKFD_IOC_FREE_MEMORY_OF_GPU:
	case AMDKFD_IOC_MAP_MEMORY_TO_GPU:
	case AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU:
	case AMDKFD_IOC_IMPORT_DMABUF:
	case AMDKFD_IOC_SVM:
	case AMDKFD_IOC_CREATE_QUEUE:
	case AMDKFD_IOC_DESTROY_QUEUE:
		return true;
	}
	return false;
}

/* drivers/dma-buf/dma-buf.c:dma_buf_ioctl. Nothing is ever in flight between CPU and GPU here. */
static long dmabuf_ioctl(unsigned cmd, void *arg)
{
	struct dma_buf_sync sync;
	char name[32];

	switch (cmd) {
	case DMA_BUF_IOCTL_SYNC:
		if (user_read(&sync, (uintptr_t)arg, sizeof(sync)))
			return -EFAULT;
		return sync.flags & ~(uint64_t)DMA_BUF_SYNC_VALID_FLAGS_MASK ||
				       !(sync.flags & DMA_BUF_SYNC_RW)
			       ? -EINVAL
			       : 0;
	case DMA_BUF_SET_NAME_A:
	case DMA_BUF_SET_NAME_B:
		for (unsigned i = 0; i < sizeof(name); i++) {
			if (user_read(&name[i], (uintptr_t)arg + i, 1))
				return -EFAULT;
			if (!name[i])
				return 0;
		}
		return -EINVAL;
	}
	return -ENOTTY;
}

static long device_ioctl(struct vfile *v, unsigned cmd, void *arg)
{
	if (v->path_only)
		return -EBADF;
	switch (v->kind) {
	case VFILE_KFD:
		return kfd_ioctl(&v->kfd, cmd, arg);
	case VFILE_DRM:
		drm_inherited(v->drm);
		return drm_ioctl(v->drm, cmd, arg);
	case VFILE_DMABUF:
		return dmabuf_ioctl(cmd, arg);
	case VFILE_SMI:
		return -ENOTTY;
	}
	return -ENOTTY;
}

HOOK int ioctl(int fd, unsigned long cmd, ...)
{
	struct vfile *v;
	va_list ap;
	void *arg;
	long r;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	v = vfd_find(fd);
	if (__builtin_expect(!v, 1))
		return REAL(ioctl)(fd, cmd, arg);
	if (vfs_ioctl((unsigned)cmd)) {
		vfile_put(v);
		return REAL(ioctl)(fd, cmd, arg);
	}
	r = device_ioctl(v, (unsigned)cmd, arg);
	if (r >= 0 && changes(v, (unsigned)cmd))
		vgpu_changed();
	trace_ioctl(v, (unsigned)cmd, arg, r);
	log_refused_ioctl(v, (unsigned)cmd, arg, r);
	vfile_put(v);
	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return (int)r;
}

/* libc asks with TCGETS, number 1: GET_VERSION to /dev/kfd, which says yes. */
HOOK int isatty(int fd)
{
	struct vfile *v = vfd_find(fd);
	bool kfd;

	if (!v)
		return REAL(isatty)(fd);
	kfd = v->kind == VFILE_KFD && !v->path_only;
	vfile_put(v);
	return kfd ? 1 : REAL(isatty)(fd);
}

/* A client knows nothing of the device's own descriptors, and goes on when it has closed all it does
 * not know. */
static bool refuses_close(int fd)
{
	if (__builtin_expect(!own_fd_is(fd), 1))
		return false;
	errno = EBADF;
	return true;
}

HOOK int close(int fd)
{
	if (refuses_close(fd))
		return -1;
	if (__builtin_expect(vfd_live, 0)) {
		struct vfile *v = vfd_get(fd);

		if (v) {
			trace_line("close %s", trace_file(v));
			if (!vgpu_mm_borrowed())
				vfd_forget(fd);
			vfile_put(v);
		}
	}
	return REAL(close)(fd);
}

HOOK int close_range(unsigned first, unsigned last, int flags)
{
	int own, r;

	if (!(flags & CLOSE_RANGE_CLOEXEC))
		vfd_forget_range(first, last);
	/* Around what is the device's own. */
	while (first <= last && (own = own_fd_next(first)) >= 0 && (unsigned)own <= last) {
		if ((unsigned)own > first) {
			r = REAL(close_range)(first, (unsigned)own - 1, flags);
			if (r)
				return r;
		}
		first = (unsigned)own + 1;
		if (first > last)
			return 0;
	}
	return REAL(close_range)(first, last, flags);
}

HOOK void closefrom(int first)
{
	unsigned from = first < 0 ? 0 : (unsigned)first;

	vfd_forget_range(from, ~0u);
	/* A kernel without close_range leaves libc to list them. */
	if (own_fd_next(from) < 0 || close_range(from, ~0u, 0))
		REAL(closefrom)(first);
}

HOOK int dup(int fd)
{
	int r = REAL(dup)(fd);

	if (r >= 0 && vfd_live)
		vfd_duplicated(fd, r);
	return r;
}

/* As for a number that another open() is about to get. */
static bool refuses_target(int to)
{
	if (!own_fd_is(to))
		return false;
	errno = EBUSY;
	return true;
}

HOOK int dup2(int fd, int to)
{
	int r;

	if (refuses_target(to))
		return -1;
	r = REAL(dup2)(fd, to);

	if (r >= 0 && vfd_live)
		vfd_duplicated(fd, r);
	return r;
}

HOOK int dup3(int fd, int to, int flags)
{
	int r;

	if (refuses_target(to))
		return -1;
	r = REAL(dup3)(fd, to, flags);

	if (r >= 0 && vfd_live)
		vfd_duplicated(fd, r);
	return r;
}

/* fs/fcntl.c:f_getown_ex, f_setown_ex: libc asks so for F_GETOWN, too. */
static int owner_ex(struct vfile *v, int cmd, void *arg)
{
	struct f_owner_ex o = {.type = F_OWNER_TID};
	int kind;

	if (cmd == F_GETOWN_EX) {
		if (v->owner)
			o = (struct f_owner_ex){v->owner < 0 ? F_OWNER_PGRP : v->owner_kind,
						v->owner < 0 ? -v->owner : v->owner};
		return user_write((uintptr_t)arg, &o, sizeof(o));
	}
	if (user_read(&o, (uintptr_t)arg, sizeof(o)))
		return -EFAULT;
	kind = (int)o.type;
	if (kind != F_OWNER_TID && kind != F_OWNER_PID && kind != F_OWNER_PGRP)
		return -EINVAL;
	if (o.pid < 0 ||
	    (o.pid && kill(kind == F_OWNER_PGRP ? -o.pid : o.pid, 0) && errno == ESRCH))
		return -ESRCH;
	v->owner = kind == F_OWNER_PGRP ? -o.pid : o.pid;
	v->owner_kind = kind;
	return 0;
}

/* The mark of a descriptor is not for its client to see or to spoil. True: *out is the answer. */
static bool async_owner(int fd, int cmd, void *arg, int *out)
{
	int value = (int)(intptr_t)arg;
	struct vfile *v;

	if (cmd != F_GETSIG && cmd != F_SETSIG && cmd != F_GETOWN && cmd != F_SETOWN &&
	    cmd != F_GETOWN_EX && cmd != F_SETOWN_EX)
		return false;
	v = vfd_find(fd);
	if (!v)
		return false;
	*out = 0;
	if (v->path_only) {
		errno = EBADF;
		*out = -1;
	} else if (cmd == F_GETOWN_EX || cmd == F_SETOWN_EX) {
		int err = owner_ex(v, cmd, arg);

		if (err) {
			errno = -err;
			*out = -1;
		}
	} else if (cmd == F_GETSIG) {
		*out = v->sig;
	} else if (cmd == F_GETOWN) {
		*out = v->owner;
	} else if (cmd == F_SETSIG && (value < 0 || value > 64)) {
		errno = EINVAL;
		*out = -1;
	} else if (cmd == F_SETSIG) {
		v->sig = value;
	} else if (value && kill(value, 0) && errno == ESRCH) {
		*out = -1;
	} else {
		v->owner = value;
		v->owner_kind = F_OWNER_PID;
	}
	vfile_put(v);
	return true;
}

/* On a shared device a render node is a socket, which is open for both directions. */
static int status_flags(int fd, int cmd, int r)
{
	struct vfile *v = cmd == F_GETFL && r >= 0 && share_active() ? vfd_find(fd) : NULL;

	if (!v)
		return r;
	if (v->kind == VFILE_DRM)
		r = (r & ~O_ACCMODE) | (v->oflags & O_ACCMODE);
	vfile_put(v);
	return r;
}

HOOK int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;
	int r;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (async_owner(fd, cmd, arg, &r))
		return r;
	r = REAL(fcntl)(fd, cmd, arg);
	if (r >= 0 && vfd_live && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))
		vfd_duplicated(fd, r);
	return status_flags(fd, cmd, r);
}

HOOK int fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;
	int r;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (async_owner(fd, cmd, arg, &r))
		return r;
	r = REAL(fcntl64)(fd, cmd, arg);
	if (r >= 0 && vfd_live && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))
		vfd_duplicated(fd, r);
	return status_flags(fd, cmd, r);
}

/* Neither node has a read or write side. Returns false for fds that are not ours. */
static bool device_io(int fd, bool wr, void *buf, size_t n, ssize_t *out)
{
	int closed = wr ? O_RDONLY : O_WRONLY; /* opened without this direction */
	struct vfile *v = vfd_find(fd);
	ssize_t r;

	if (__builtin_expect(!v, 1))
		return false;
	switch (v->kind) {
	case VFILE_SMI:
		r = wr ? smi_write(v->smi, buf, n) : smi_read(v->smi, buf, n);
		break;
	default:
		r = v->path_only || (v->oflags & O_ACCMODE) == closed ? -EBADF : -EINVAL;
		break;
	}
	vfile_put(v);
	if (r < 0) {
		errno = (int)-r;
		r = -1;
	}
	*out = r;
	return true;
}

HOOK ssize_t read(int fd, void *buf, size_t n)
{
	ssize_t r;

	return device_io(fd, false, buf, n, &r) ? r : REAL(read)(fd, buf, n);
}

HOOK ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	ssize_t r;

	return device_io(fd, false, buf, n, &r) ? r : REAL(__read_chk)(fd, buf, n, room);
}

HOOK ssize_t write(int fd, const void *buf, size_t n)
{
	ssize_t r;

	return device_io(fd, true, (void *)(uintptr_t)buf, n, &r) ? r : REAL(write)(fd, buf, n);
}

/* Segment by segment, as the kernel does for files that only have read and write. */
static bool device_iov(int fd, bool wr, const struct iovec *iov, int n, ssize_t *out)
{
	struct vfile *v = vfd_find(fd);
	ssize_t total = 0, r = 0;

	if (__builtin_expect(!v, 1))
		return false;
	vfile_put(v);
	for (int i = 0; i < n; i++) {
		if (!device_io(fd, wr, iov[i].iov_base, iov[i].iov_len, &r) || r < 0)
			break;
		total += r;
		if ((size_t)r != iov[i].iov_len)
			break;
	}
	*out = r < 0 && !total ? r : total;
	return true;
}

HOOK ssize_t readv(int fd, const struct iovec *iov, int n)
{
	ssize_t r;

	return device_iov(fd, false, iov, n, &r) ? r : REAL(readv)(fd, iov, n);
}

HOOK ssize_t writev(int fd, const struct iovec *iov, int n)
{
	ssize_t r;

	return device_iov(fd, true, iov, n, &r) ? r : REAL(writev)(fd, iov, n);
}

/* At an offset: the nodes allow it, an SMI stream has none. */
static bool device_io_at(int fd, bool wr, off_t off, ssize_t *out)
{
	struct vfile *v = vfd_find(fd);
	enum vfile_kind kind;

	if (__builtin_expect(!v, 1))
		return false;
	kind = v->kind;
	vfile_put(v);
	if (off >= 0 && kind != VFILE_SMI)
		return device_io(fd, wr, NULL, 0, out);
	errno = off < 0 ? EINVAL : ESPIPE;
	*out = -1;
	return true;
}

HOOK ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	ssize_t r;

	return device_io_at(fd, false, off, &r) ? r : REAL(pread)(fd, buf, n, off);
}

HOOK ssize_t pread64(int fd, void *buf, size_t n, off64_t off)
{
	return pread(fd, buf, n, off);
}

HOOK ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
	ssize_t r;

	return device_io_at(fd, true, off, &r) ? r : REAL(pwrite)(fd, buf, n, off);
}

HOOK ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off)
{
	return pwrite(fd, buf, n, off);
}

HOOK ssize_t preadv(int fd, const struct iovec *iov, int n, off_t off)
{
	ssize_t r;

	return device_io_at(fd, false, off, &r) ? r : REAL(preadv)(fd, iov, n, off);
}

HOOK ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t off)
{
	ssize_t r;

	return device_io_at(fd, true, off, &r) ? r : REAL(pwritev)(fd, iov, n, off);
}

/* Descriptors that arrive are ours if they are the same open file as one we know, or are marked. */
void fds_received(struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int got;

			memcpy(&got, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
			vfd_received(got);
		}
	}
}

HOOK ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t r = REAL(recvmsg)(fd, m, flags);
	int saved = errno;

	if (r < 0 || !m->msg_control || vgpu_mm_borrowed())
		return r;
	fds_received(m);
	errno = saved;
	return r;
}

/* A dma-buf knows its end and its beginning, nothing between (dma-buf.c:dma_buf_llseek). */
static off_t dmabuf_seek(const struct vfile *v, off_t off, int whence)
{
	if (!off && whence == SEEK_END)
		return (off_t)v->gem->size;
	if (!off && whence == SEEK_SET)
		return 0;
	errno = EINVAL;
	return -1;
}

static off_t device_seek(int fd, off_t off, int whence, bool *ours)
{
	struct vfile *v = vfd_find(fd);
	off_t r = -1;

	/* A render node has noop_llseek(), as /dev/null in effect; a socket has not. */
	*ours = v && (v->kind != VFILE_DRM || share_active());
	if (*ours && v->kind == VFILE_DMABUF)
		r = dmabuf_seek(v, off, whence);
	else if (*ours && v->kind == VFILE_DRM)
		r = 0;
	else if (*ours)
		errno = ESPIPE;
	if (v)
		vfile_put(v);
	return r;
}

HOOK off_t lseek(int fd, off_t off, int whence)
{
	bool ours;
	off_t r = device_seek(fd, off, whence, &ours);

	return ours ? r : REAL(lseek)(fd, off, whence);
}

HOOK off64_t lseek64(int fd, off64_t off, int whence)
{
	bool ours;
	off_t r = device_seek(fd, off, whence, &ours);

	return ours ? r : REAL(lseek64)(fd, off, whence);
}
