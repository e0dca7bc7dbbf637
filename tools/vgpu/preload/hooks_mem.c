/* Hooks of memory mappings: device memory, and user memory that the device uses. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "drm/drm_file.h"
#include "drm/gem.h"

#define PAGE_UP(x) (((x) + 4095) & ~4095ull)

/* [addr, addr+len) is about to lose what it maps. */
static bool range_goes(void *addr, size_t len)
{
	uint64_t a = (uintptr_t)addr, n = PAGE_UP((uint64_t)len);
	bool watched = kfd_mm_watched(a, n);

	if (watched)
		kfd_mm_changing(a, n, true);
	if (vma_any(a, n)) {
		if (trace_on())
			trace_line("munmap %s 0x%llx", trace_addr(a), (unsigned long long)n);
		vma_remove(a, n);
	}
	return watched;
}

/* drivers/dma-buf/dma-buf.c:dma_buf_mmap_internal */
static int dmabuf_mmap(struct vfile *v, uint64_t len, uint64_t off, struct vma_backing *b)
{
	struct gem *g = vfile_gem(v);
	int err;

	if (!g)
		return -ENOMEM;
	err = gem_mmap(g, PAGE_UP(len), off, b);
	gem_unref(g);
	return err;
}

static void *device_mmap(struct vfile *v, void *addr, size_t len, int prot, int flags, off_t off)
{
	struct vma_backing b;
	uint64_t n = PAGE_UP((uint64_t)len);
	bool watched = false;
	void *p;
	int err;

	if (v->path_only) {
		errno = EBADF;
		return MAP_FAILED;
	}
	if (!len || (off & 4095)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	/* The VFS wants write access for shared writable and read access for all mappings. */
	if ((v->oflags & O_ACCMODE) == O_WRONLY ||
	    ((v->oflags & O_ACCMODE) == O_RDONLY && (prot & PROT_WRITE) &&
	     (flags & MAP_TYPE) != MAP_PRIVATE)) {
		errno = EACCES;
		return MAP_FAILED;
	}
	if (v->kind == VFILE_DRM)
		drm_inherited(v->drm);
	err = v->kind == VFILE_KFD   ? kfd_mmap(v->kfd, len, (uint64_t)off, &b)
	      : v->kind == VFILE_DRM ? drm_mmap(v->drm, len, (uint64_t)off, &b)
				     : dmabuf_mmap(v, len, (uint64_t)off, &b);
	/* TTM refuses copy-on-write mappings of buffers. */
	if (!err && b.kind == VMA_BO && (flags & MAP_TYPE) == MAP_PRIVATE && (prot & PROT_WRITE)) {
		vma_dropped(&b);
		err = -EINVAL;
	}
	if (err) {
		errno = -err;
		return MAP_FAILED;
	}
	if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED)
		watched = range_goes(addr, len);
	p = REAL(mmap)(addr, len, prot, flags, b.fd, (off_t)b.off);
	if (watched)
		kfd_mm_changed();
	if (p == MAP_FAILED) {
		int saved = errno;

		vma_dropped(&b);
		errno = saved;
		return p;
	}
	if (b.dontcopy)
		REAL(madvise)(p, len, MADV_DONTFORK);
	REAL(madvise)(p, len, MADV_DONTDUMP);
	vma_add(&b, (uintptr_t)p, n);
	return p;
}

static void *any_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct vfile *v = flags & MAP_ANONYMOUS ? NULL : vfd_find(fd);
	bool watched = false;
	int saved;
	void *p;

	if (__builtin_expect(v != NULL, 0)) {
		if (v->kind != VFILE_SMI) {
			p = device_mmap(v, addr, len, prot, flags, off);
			saved = errno;
			if (trace_on())
				trace_line("mmap %s len=0x%zx prot=%d %s off=0x%llx = %s",
					   trace_file(v), len, prot,
					   flags & MAP_FIXED ? "fixed" : "",
					   (unsigned long long)off,
					   p == MAP_FAILED ? trace_result(-saved)
							   : trace_addr((uintptr_t)p));
			if (p == MAP_FAILED)
				log_refused_mmap(v, len, prot, off, saved);
			errno = saved;
			vfile_put(v);
			return p;
		}
		vfile_put(v);
	}
	if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED)
		watched = range_goes(addr, len);
	p = REAL(mmap)(addr, len, prot, flags, fd, off);
	if (watched)
		kfd_mm_changed();
	return p;
}

HOOK void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return any_mmap(addr, len, prot, flags, fd, off);
}

HOOK void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t off)
{
	return any_mmap(addr, len, prot, flags, fd, off);
}

HOOK int munmap(void *addr, size_t len)
{
	bool watched = false;
	int r;

	/* A call that the kernel will refuse changes nothing. */
	if (len && !((uintptr_t)addr & 4095))
		watched = range_goes(addr, len);
	r = REAL(munmap)(addr, len);
	if (watched)
		kfd_mm_changed();
	return r;
}

/* The pages stay mapped but change: protection, content. */
static bool range_changes(void *addr, size_t len)
{
	uint64_t a = (uintptr_t)addr;

	if (!kfd_mm_watched(a, PAGE_UP((uint64_t)len)))
		return false;
	kfd_mm_changing(a, PAGE_UP((uint64_t)len), false);
	return true;
}

HOOK int mprotect(void *addr, size_t len, int prot)
{
	bool watched = range_changes(addr, len);
	int r = REAL(mprotect)(addr, len, prot);

	if (watched)
		kfd_mm_changed();
	return r;
}

/* What the kernel refuses on mappings that have no pages of its own (VM_IO | VM_PFNMAP |
 * VM_DONTEXPAND), which all of the device's are (mm/madvise.c). */
static bool advice_wants_pages(int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
	case MADV_REMOVE:
	case MADV_DOFORK:
	case MADV_DODUMP:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
		return true;
	}
	return false;
}

HOOK int madvise(void *addr, size_t len, int advice)
{
	bool watched = false;
	int r;

	if (advice_wants_pages(advice) && len && vma_any((uintptr_t)addr, PAGE_UP((uint64_t)len))) {
		errno = EINVAL;
		return -1;
	}
	if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
	    advice == MADV_PAGEOUT)
		watched = range_changes(addr, len);
	r = REAL(madvise)(addr, len, advice);
	if (watched)
		kfd_mm_changed();
	return r;
}

/* Neither node has an fsync operation, so a synchronous one of its mappings fails. */
HOOK int msync(void *addr, size_t len, int flags)
{
	if (flags & MS_SYNC && len && vma_any((uintptr_t)addr, PAGE_UP((uint64_t)len))) {
		errno = EINVAL;
		return -1;
	}
	return REAL(msync)(addr, len, flags);
}

HOOK void *mremap(void *addr, size_t len, size_t new_len, int flags, ...)
{
	uint64_t a = (uintptr_t)addr, n = PAGE_UP((uint64_t)len);
	bool device = vma_any(a, n), watched = kfd_mm_watched(a, n);
	void *to, *p;
	va_list ap;

	va_start(ap, flags);
	to = va_arg(ap, void *);
	va_end(ap);
	if (device && PAGE_UP((uint64_t)new_len) > n) {
		errno = EFAULT; /* VM_DONTEXPAND */
		return MAP_FAILED;
	}
	if (flags & MREMAP_FIXED)
		watched |= range_goes(to, new_len);
	if (watched)
		kfd_mm_changing(a, n, true);
	p = REAL(mremap)(addr, len, new_len, flags, to);
	if (watched)
		kfd_mm_changed();
	if (device && p != MAP_FAILED) {
		uint64_t keep = PAGE_UP((uint64_t)new_len);

		if (keep < n)
			vma_remove(a + keep, n - keep);
		if (p != addr)
			vma_move(a, (uintptr_t)p, keep);
	}
	return p;
}
