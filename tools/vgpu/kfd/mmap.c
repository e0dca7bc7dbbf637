/* mmap of /dev/kfd, and the life of device mappings. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/check.h"
#include "ownfd.h"
#include "vm/rawsys.h"

/* One page behind every MMIO mapping of the process: the HDP flush registers read as zero. */
static int mmio_fd(void)
{
	static int fd = -1;

	if (fd < 0) {
		int f = own_fd(rawsys2(SYS_memfd_create, "kfd-mmio", MFD_CLOEXEC));

		if (f < 0)
			return -ENOMEM;
		if (rawsys2(SYS_ftruncate, f, 4096)) {
			own_fd_close(f);
			return -ENOMEM;
		}
		fd = f;
	}
	return fd;
}

static int doorbell_mmap(struct kfd_process *p, uint64_t len, struct vma_backing *out)
{
	int err = 0;

	if (vgpu_rule(RULE_doorbell_mmap_size) && len != KFD_DOORBELL_SLICE)
		return -EINVAL;
	pthread_mutex_lock(&p->lock);
	/* The page is the process's, not the VM's: there is one before ACQUIRE_VM too. */
	err = kfd_pdd_doorbells(&p->pdd);
	if (!err)
		*out = (struct vma_backing){
			.kind = VMA_DOORBELL,
			.fd = p->pdd.doorbell_fd,
			.off = p->pdd.doorbell_off,
			.dontcopy = true,
			.dontexpand = true,
			.process = p,
		};
	pthread_mutex_unlock(&p->lock);
	return err;
}

int kfd_mmap(struct kfd_process *p, uint64_t len, uint64_t off, struct vma_backing *out)
{
	uint32_t gpu = KFD_MMAP_GET_GPU_ID(off);
	int fd, err;

	if (vgpu_kernel()->mmap_by_mm) {
		p = kfd_process_current();
		if (!p)
			return -EINVAL;
	} else if (p->mm != vgpu_mm_generation() || p->lead != getpid()) {
		return -EBADF;
	}
	len = (len + 4095) & ~4095ull;
	switch (off & KFD_MMAP_TYPE_MASK) {
	case KFD_MMAP_TYPE_DOORBELL:
		return kfd_pdd_by_id(p, gpu) ? doorbell_mmap(p, len, out) : -ENODEV;
	case KFD_MMAP_TYPE_EVENTS:
		if (!vgpu_kernel()->event_page_mmap)
			return -EINVAL;
		pthread_mutex_lock(&p->event_lock);
		err = kfd_event_mmap(p, len, &fd);
		pthread_mutex_unlock(&p->event_lock);
		if (err)
			return err;
		*out = (struct vma_backing){VMA_EVENTS, fd, 0, true, true, NULL, p};
		return 0;
	case KFD_MMAP_TYPE_RESERVED_MEM:
		if (!vgpu_kernel()->event_page_mmap)
			return -EINVAL;
		/* For APUs with an IOMMU of the old kind only: this one has its area elsewhere. */
		return kfd_pdd_by_id(p, gpu) ? -EINVAL : -ENODEV;
	default:
		if (!kfd_pdd_by_id(p, gpu))
			return -ENODEV;
		if (len != 4096)
			return -EINVAL;
		fd = mmio_fd();
		if (fd < 0)
			return fd;
		*out = (struct vma_backing){VMA_MMIO, fd, 0, true, true, NULL, p};
		return 0;
	}
}

static void count(const struct vma_backing *b, int n)
{
	uint64_t *c = b->kind == VMA_DOORBELL ? &kfd_device.stats.doorbell_maps
		      : b->kind == VMA_BO     ? &kfd_device.stats.bo_maps
					      : NULL;

	if (c)
		__atomic_fetch_add(c, (uint64_t)(int64_t)n, __ATOMIC_RELAXED);
}

void vma_opened(const struct vma_backing *b, void *addr, uint64_t len)
{
	count(b, 1);
	if (b->process)
		kfd_process_file_get(b->process);
	if (b->kind == VMA_DOORBELL && b->process)
		cp_doorbells_mapped(b->process->pdd.doorbells, addr, len);
	/* Of a parent's memory, in a forked child, nothing is known here. */
	if (check_on && b->kind == VMA_BO && b->fd == vm_pools_fd())
		check_mapped((uintptr_t)addr, len, b->off);
}

void kfd_vma_uncount(const struct vma_backing *b)
{
	count(b, -1);
	if (b->process)
		kfd_process_file_put(b->process);
}

void vma_split(const struct vma_backing *b)
{
	count(b, 1);
	if (b->process)
		kfd_process_file_get(b->process);
	if (b->gem)
		gem_ref(b->gem);
}

void vma_closed(const struct vma_backing *b, void *addr, uint64_t len)
{
	count(b, -1);
	if (b->kind == VMA_DOORBELL)
		cp_doorbells_unmapped(b->process->pdd.doorbells, addr, len);
	if (b->gem)
		gem_unref(b->gem);
	if (b->process)
		kfd_process_file_put(b->process);
}

void vma_dropped(const struct vma_backing *b)
{
	if (b->gem)
		gem_unref(b->gem);
}
