/* Buffer ioctls (amdgpu_amdkfd_gpuvm.c) and the limits' door. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "carry.h"
#include "drm/drm_file.h"
#include "share/share.h"
#include "vm/rawsys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE_UP(x) (((x) + 4095) & ~4095ull)

/* kmalloc() refuses more than this (KMALLOC_MAX_SIZE). */
#define KMALLOC_MAX (4u << 20)

/* ---- limits --------------------------------------------------------------- */

int kfd_mem_reserve(uint32_t flags, uint64_t size)
{
	struct kfd_charge c = kfd_limits_charge(flags, size, vgpu_props.vram_is_gtt);
	const char *why = "";
	char text[64] = "";
	int err;

	if (share_active()) {
		uint64_t a[SHARE_ARGS] = {flags, size};
		size_t n = sizeof(text) - 1;

		err = share_call_data(SHARE_RESERVE, a, -1, NULL, 0, text, &n);
		why = text;
	} else {
		pthread_mutex_lock(&kfd_device.lock);
		err = kfd_limits_reserve(&kfd_device.limits, &c, &why);
		pthread_mutex_unlock(&kfd_device.lock);
	}
	if (err)
		vgpu_log("amdgpu: Insufficient memory: %llu bytes with flags 0x%x exceed the %s",
			 (unsigned long long)size, flags, why);
	return err;
}

void kfd_mem_unreserve(uint32_t flags, uint64_t size)
{
	struct kfd_charge c = kfd_limits_charge(flags, size, vgpu_props.vram_is_gtt);

	if (share_active()) {
		uint64_t a[SHARE_ARGS] = {flags, size};

		share_call(SHARE_UNRESERVE, a);
		return;
	}
	pthread_mutex_lock(&kfd_device.lock);
	kfd_limits_release(&kfd_device.limits, &c);
	pthread_mutex_unlock(&kfd_device.lock);
}

void kfd_mem_placed(int domain, int64_t delta)
{
	uint64_t *used = domain == GEM_VRAM      ? &kfd_device.vram_placed
			 : domain == GEM_PREEMPT ? &kfd_device.preempt_used
			 : domain == GEM_GTT     ? &kfd_device.gtt_used
						 : NULL;

	if (used && share_active()) {
		uint64_t a[SHARE_ARGS] = {(uint64_t)domain, (uint64_t)delta};

		share_call(SHARE_PLACED, a);
		return;
	}
	if (used)
		__atomic_fetch_add(used, (uint64_t)delta, __ATOMIC_RELAXED);
}

/* ---- look-ups ------------------------------------------------------------- */

struct kfd_bo *kfd_bo_by_handle(struct kfd_pdd *pdd, uint64_t handle)
{
	return idr_find(&pdd->bos, (uint32_t)handle);
}

struct kfd_bo *kfd_bo_mapped_at(struct kfd_pdd *pdd, uint64_t va, uint64_t *start, uint64_t *size)
{
	for (struct kfd_bo *bo = pdd->bo_list; bo; bo = bo->next) {
		uint64_t total = bo->size * (bo->aql ? 2 : 1);

		if (!bo->mapped || va < bo->va || va - bo->va >= total)
			continue;
		*start = va - bo->va < bo->size ? bo->va : bo->va + bo->size;
		*size = bo->size;
		return bo;
	}
	return NULL;
}

bool kfd_bo_overlaps(struct kfd_pdd *pdd, uint64_t va, uint64_t size)
{
	for (struct kfd_bo *bo = pdd->bo_list; bo; bo = bo->next) {
		uint64_t total = bo->size * (bo->aql ? 2 : 1);

		if (bo->mapped && va < bo->va + total && bo->va < va + size)
			return true;
	}
	return false;
}

int kfd_pdd_doorbells(struct kfd_pdd *pdd)
{
	long alias;
	int err;

	if (pdd->doorbells)
		return 0;
	err = cp_doorbells_create(pdd->vm, &pdd->doorbells, &pdd->doorbell_fd, &pdd->doorbell_off);
	if (err) {
		pdd->doorbells = NULL;
		return -ENOMEM;
	}
	alias = rawsys6(SYS_mmap, 0, KFD_DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED,
			pdd->doorbell_fd, pdd->doorbell_off);
	if (alias > 0)
		pdd->doorbell_alias = (void *)alias;
	return 0;
}

/* The HDP-flush page: a register page whose only effect here is none, for there is no HDP. */
static void *mmio_page(void)
{
	static void *page;

	if (!page) {
		long addr = rawsys6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (addr > 0)
			page = (void *)addr;
	}
	return page;
}

/* ---- ALLOC, FREE ---------------------------------------------------------- */

/* Faults the client's pages in for writing, as the kernel does even for read-only buffers: a
 * hole, a read-only mapping or a device mapping in the range is EFAULT. */
static int fault_user_pages(uint64_t addr, uint64_t size)
{
	long r;

	if (!user_range_ok(addr, size) || vgpu_files.vma_device(addr, size))
		return -EFAULT;
	r = rawsys3(SYS_madvise, addr, size, MADV_POPULATE_WRITE);
	if (!r)
		return 0;
	if (r == -EINVAL && rawsys3(SYS_madvise, addr, 0, MADV_POPULATE_WRITE) == -EINVAL) {
		/* A host kernel before 5.14: touch every page. */
		for (uint64_t a = addr; a < addr + size; a += 4096) {
			uint8_t b;

			if (user_read(&b, a, 1) || user_write(a, &b, 1))
				return -EFAULT;
		}
		return 0;
	}
	return r == -EAGAIN ? -EAGAIN : r == -EINTR ? -EINTR : -EFAULT;
}

static int create_backing(struct kfd_pdd *pdd, const struct kfd_ioctl_alloc_memory_of_gpu_args *a,
			  uint64_t size, struct gem **out)
{
	uint64_t user = a->mmap_offset & ~4095ull;

	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		return gem_create(vgpu_props.vram_is_gtt ? GEM_GTT : GEM_VRAM, size, out);
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT)
		return gem_create(GEM_GTT, size, out);
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		int err = fault_user_pages(user, size);

		return err ? err : gem_create_user(GEM_PREEMPT, user, size, out);
	}
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		/* Waves and engines will ring through this mapping. */
		if (!pdd->doorbell_watched)
			cp_doorbells_device_mapped(pdd->doorbells, pdd->doorbell_alias,
						   KFD_DOORBELL_SLICE);
		pdd->doorbell_watched = true;
		return gem_create_user(GEM_DOORBELL, (uintptr_t)pdd->doorbell_alias, size, out);
	}
	return gem_create_user(GEM_DOORBELL, (uintptr_t)mmio_page(), size, out);
}

static long alloc_locked(struct kfd_process *p, struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	struct kfd_pdd *pdd = kfd_pdd_by_id(p, a->gpu_id);
	uint64_t size = a->size;
	struct kfd_bo *bo;
	int err, id;

	if (!pdd)
		return -EINVAL;
	if (!kfd_pdd_bound(pdd))
		return -ENODEV;
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		if (a->size != KFD_DOORBELL_SLICE)
			return -EINVAL;
		if (kfd_pdd_doorbells(pdd) || !pdd->doorbell_alias)
			return -ENOMEM;
	} else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
		if (a->size != 4096)
			return -EINVAL;
		if (!mmio_page())
			return -ENOMEM;
	}
	if (!(a->flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT |
			  KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL |
			  KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)))
		return -EINVAL;
	if (!(a->flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)) &&
	    (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) && !a->mmap_offset)
		return -EINVAL;
	/* AQL queue memory appears twice in the address space: half of it is real. */
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM)
		size >>= 1;
	size = PAGE_UP(size);
	if (!size)
		return -EINVAL;
	bo = calloc(1, sizeof(*bo));
	if (!bo)
		return -ENOMEM;
	err = kfd_mem_reserve(a->flags, size);
	if (err)
		goto out_free;
	/* The target manager must be strictly larger than the buffer (amdgpu_bo_validate_size). */
	if ((a->flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)) &&
	    size >= (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM && !vgpu_props.vram_is_gtt
			     ? vgpu_config.vram_bytes
			     : vgpu_config.gtt_bytes)) {
		err = -ENOMEM;
		goto out_unreserve;
	}
	kfd_lock_lend(p);
	err = create_backing(pdd, a, size, &bo->gem);
	kfd_lock_reclaim(p);
	if (err)
		goto out_unreserve;
	err = gem_allow(bo->gem, pdd->drm);
	if (err)
		goto out_unref;
	id = idr_alloc(&pdd->bos, bo, INT32_MAX);
	if (id < 0) {
		err = -EFAULT;
		goto out_unref;
	}
	gem_charge(bo->gem, a->flags);
	bo->gem->cpu_access = a->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
	bo->handle = (uint32_t)id;
	bo->va = a->va_addr;
	bo->size = size;
	bo->flags = a->flags;
	bo->aql = a->flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;
	if (bo->gem->domain == GEM_PREEMPT)
		bo->user_addr = a->mmap_offset & ~4095ull;
	bo->next = pdd->bo_list;
	pdd->bo_list = bo;
	if (bo->user_addr)
		kfd_mm_watch(p);
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		pdd->vram_usage += size;
	a->handle = (uint64_t)a->gpu_id << 32 | (uint32_t)id;
	a->mmap_offset = a->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP
				 ? KFD_MMAP_TYPE_MMIO | KFD_MMAP_GPU_ID(a->gpu_id)
				 : gem_mmap_offset(bo->gem);
	kfd_stats_bo(1, (int64_t)size);
	return 0;

out_unref:
	gem_unref(bo->gem);
out_unreserve:
	kfd_mem_unreserve(a->flags, size);
out_free:
	free(bo);
	return err;
}

KFD_HANDLER(alloc_memory_of_gpu)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *a = args;
	long err = 0;

	if (!a->size)
		return -EINVAL;
	/* Its pages would be watched for the primary process alone. */
	if (kfd_is_secondary(p) && a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&p->lock);
	/* Before the gpu_id is even looked at. */
	if (!(!a->va_addr && (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)) &&
	    svm_overlaps(p, a->va_addr, a->size))
		err = -EADDRINUSE;
	else if ((a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) &&
		 svm_overlaps(p, a->mmap_offset, a->size))
		err = -EADDRINUSE;
	if (!err)
		err = alloc_locked(p, a);
	pthread_mutex_unlock(&p->lock);
	return err;
}

static void bo_remove(struct kfd_process *p, struct kfd_pdd *pdd, struct kfd_bo *bo)
{
	struct kfd_bo **pos = &pdd->bo_list;

	while (*pos != bo)
		pos = &(*pos)->next;
	*pos = bo->next;
	idr_remove(&pdd->bos, bo->handle);
	kfd_stats_bo(-1, -(int64_t)bo->size);
	gem_revoke(bo->gem, pdd->drm);
	gem_unref(bo->gem);
	/* What an exec left over is watched by nobody. */
	if (bo->user_addr && !p->outlived)
		kfd_mm_watch(p);
	free(bo);
}

static int bo_map(struct kfd_pdd *pdd, struct kfd_bo *bo);

/* Doorbells and the like do not go along. Buffers over user pages do, but their pages were the old
 * image's and never come back (amdgpu_ttm_tt_get_user_pages: -ESRCH without the notifier's mm). */
static bool bo_stays(const struct kfd_bo *bo)
{
	uint64_t off;

	return bo->user_addr || gem_file(bo->gem, &off) >= 0;
}

void kfd_bos_carry_out(struct carry *c, struct kfd_process *p)
{
	uint64_t n = 0;

	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next)
		n += bo_stays(bo);
	carry_put(c, n);
	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next) {
		if (!bo_stays(bo))
			continue;
		carry_put(c, bo->handle);
		carry_put(c, bo->va);
		carry_put(c, bo->size);
		carry_put(c, bo->flags);
		carry_put(c, (unsigned)bo->imported | (unsigned)bo->aql << 1 |
				     (unsigned)bo->mapped << 2);
		carry_put(c, bo->gem->kfd_flags);
		carry_put(c, bo->user_addr);
		carry_put(c, bo->user_addr ? 0 : carry_number(c, CARRY_GEM, bo->gem));
	}
}

void kfd_bos_carry_in(struct carry *c, struct kfd_process *p)
{
	for (uint64_t n = carry_get(c); n && !c->bad; n--) {
		struct kfd_bo in = {.handle = (uint32_t)carry_get(c)}, *bo;
		uint32_t bits, charged;
		uint64_t number;

		in.va = carry_get(c);
		in.size = carry_get(c);
		in.flags = (uint32_t)carry_get(c);
		bits = (uint32_t)carry_get(c);
		in.imported = bits & 1;
		in.aql = bits >> 1 & 1;
		charged = (uint32_t)carry_get(c);
		in.user_addr = carry_get(c);
		number = carry_get(c);
		in.dead = in.user_addr;
		if (!in.user_addr)
			in.gem = carry_item(c, CARRY_GEM, number);
		else if (gem_create_user(GEM_PREEMPT, in.user_addr, in.size, &in.gem))
			in.gem = NULL;
		bo = in.gem ? malloc(sizeof(*bo)) : NULL;
		if (!bo)
			continue;
		*bo = in;
		if (!bo->user_addr)
			gem_ref(bo->gem);
		if (gem_allow(bo->gem, p->pdd.drm) || idr_set(&p->pdd.bos, bo, bo->handle)) {
			gem_unref(bo->gem);
			free(bo);
			continue;
		}
		bo->gem->kfd_flags = charged && !kfd_mem_reserve(charged, bo->size) ? charged : 0;
		bo->next = p->pdd.bo_list;
		p->pdd.bo_list = bo;
		kfd_stats_bo(1, (int64_t)bo->size);
		if (bits >> 2 & 1)
			bo_map(&p->pdd, bo);
	}
}

void kfd_bos_free(struct kfd_process *p)
{
	while (p->pdd.bo_list) {
		struct kfd_bo *bo = p->pdd.bo_list;

		bo->queue_refs = 0;
		kfd_bo_unmap(&p->pdd, bo);
		bo_remove(p, &p->pdd, bo);
	}
}

KFD_HANDLER(free_memory_of_gpu)
{
	struct kfd_ioctl_free_memory_of_gpu_args *a = args;
	struct kfd_pdd *pdd;
	struct kfd_bo *bo;
	long err = 0;

	kfd_gpu_reset_wait();
	pthread_mutex_lock(&p->lock);
	if (vgpu_rule(RULE_free_event_page_eperm) && p->signal_handle &&
	    p->signal_handle == a->handle) {
		err = -EPERM;
		goto out;
	}
	pdd = kfd_pdd_by_id(p, (uint32_t)(a->handle >> 32));
	bo = pdd ? kfd_bo_by_handle(pdd, a->handle) : NULL;
	if (!bo) {
		err = -EINVAL;
		goto out;
	}
	if (bo->mapped) {
		if (vgpu_rule(RULE_free_mapped_busy)) {
			err = -EBUSY;
			goto out;
		}
		kfd_bo_unmap(pdd, bo);
	}
	if (!bo->imported && ((bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) ||
			      (vgpu_kernel()->free_lowers_vram_usage && !bo->user_addr)))
		pdd->vram_usage -= bo->size;
	bo_remove(p, pdd, bo);
out:
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* ---- MAP, UNMAP ----------------------------------------------------------- */

static int bo_map(struct kfd_pdd *pdd, struct kfd_bo *bo)
{
	unsigned perm = (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? VM_W : 0) |
			(bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE ? VM_X : 0);
	bool uc = bo->flags & (KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED |
			       KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT);
	enum vm_mtype mtype = uc ? VM_MTYPE_UC : VM_MTYPE_NC;
	int err;

	if (bo->mapped)
		return 0;
	if (!bo->va)
		return -EINVAL;
	err = vm_map(pdd->vm, gva(bo->va), bo->size, bo->gem->bo, 0, perm, mtype);
	if (!err && bo->aql) {
		err = vm_map(pdd->vm, gva(bo->va + bo->size), bo->size, bo->gem->bo, 0, perm,
			     mtype);
		if (err)
			vm_unmap(pdd->vm, gva(bo->va));
	}
	if (err) {
		vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: bo va 0x%llx-0x%llx cannot be mapped: "
			 "misaligned, out of range, or in conflict with a mapping",
			 vgpu_config.pci_bus, (unsigned long long)bo->va,
			 (unsigned long long)(bo->va + bo->size * (bo->aql ? 2 : 1)));
		return err;
	}
	bo->mapped = bo->attached = true;
	if (bo->user_addr && (bo->invalid || bo->dead))
		vm_user_invalidate(pdd->vm, bo->user_addr, bo->size, false);
	return 0;
}

int kfd_bo_unmap(struct kfd_pdd *pdd, struct kfd_bo *bo)
{
	if (!bo->mapped)
		return -EINVAL;
	if (bo->queue_refs && vgpu_rule(RULE_unmap_queue_busy))
		return -EBUSY;
	vm_unmap(pdd->vm, gva(bo->va));
	if (bo->aql)
		vm_unmap(pdd->vm, gva(bo->va + bo->size));
	bo->mapped = false;
	return 0;
}

static long map_unmap(struct kfd_process *p, struct kfd_ioctl_map_memory_to_gpu_args *a, bool map)
{
	struct kfd_pdd *pdd;
	struct kfd_bo *bo;
	uint32_t *ids;
	long err;

	if (!a->n_devices || a->n_success > a->n_devices)
		return -EINVAL;
	if (a->n_devices > KMALLOC_MAX / sizeof(*ids))
		return -ENOMEM;
	ids = malloc(a->n_devices * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	err = user_read(ids, a->device_ids_array_ptr, a->n_devices * sizeof(*ids));
	if (err)
		goto out_free;
	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, (uint32_t)(a->handle >> 32));
	if (!pdd) {
		err = -EINVAL;
		goto out;
	}
	if (map && !kfd_pdd_bound(pdd)) {
		err = -ENODEV;
		goto out;
	}
	bo = kfd_bo_by_handle(pdd, a->handle);
	if (!bo) {
		err = -ENOMEM;
		goto out;
	}
	for (uint32_t i = a->n_success; i < a->n_devices; i++) {
		if (!kfd_pdd_by_id(p, ids[i])) {
			err = -EINVAL;
			break;
		}
		err = map ? bo_map(pdd, bo) : kfd_bo_unmap(pdd, bo);
		if (err)
			break;
		a->n_success = i + 1;
	}
out:
	pthread_mutex_unlock(&p->lock);
out_free:
	free(ids);
	return err;
}

KFD_HANDLER(map_memory_to_gpu)
{
	return map_unmap(p, args, true);
}

KFD_HANDLER(unmap_memory_from_gpu)
{
	return map_unmap(p, args, false);
}

/* ---- dma-buf -------------------------------------------------------------- */

KFD_HANDLER(export_dmabuf)
{
	struct kfd_ioctl_export_dmabuf_args *a = args;
	struct gem *g = NULL;
	struct kfd_pdd *pdd;
	struct kfd_bo *bo;
	int err = 0, fd, mode = 0;

	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, (uint32_t)(a->handle >> 32));
	bo = pdd ? kfd_bo_by_handle(pdd, a->handle) : NULL;
	if (!bo) {
		err = -EINVAL;
	} else if (bo->gem->domain == GEM_PREEMPT) {
		err = -EPERM;
	} else {
		g = bo->gem;
		gem_ref(g);
		mode = bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? O_RDWR : O_RDONLY;
	}
	pthread_mutex_unlock(&p->lock);
	if (err)
		return err;
	fd = vgpu_files.install_dmabuf(g, ((int)a->flags & O_CLOEXEC) | mode);
	gem_unref(g);
	if (fd < 0)
		return fd;
	a->dmabuf_fd = (uint32_t)fd;
	return 0;
}

KFD_HANDLER(import_dmabuf)
{
	struct kfd_ioctl_import_dmabuf_args *a = args;
	struct kfd_bo *bo = NULL;
	struct gem *g = NULL;
	struct kfd_pdd *pdd;
	long err = 0;
	int id;

	pthread_mutex_lock(&p->lock);
	pdd = kfd_pdd_by_id(p, a->gpu_id);
	if (!pdd) {
		err = -EINVAL;
		goto out;
	}
	if (!kfd_pdd_bound(pdd)) {
		err = -ENODEV;
		goto out;
	}
	g = vgpu_files.dmabuf_gem((int)a->dmabuf_fd);
	if (!g) {
		err = vgpu_files.fd_valid((int)a->dmabuf_fd) ? -EINVAL : -EBADF;
		goto out;
	}
	if (g->domain != GEM_VRAM && g->domain != GEM_GTT) {
		err = -EINVAL;
		goto out;
	}
	bo = calloc(1, sizeof(*bo));
	err = bo ? gem_allow(g, pdd->drm) : -ENOMEM;
	if (err)
		goto out;
	id = idr_alloc(&pdd->bos, bo, INT32_MAX);
	if (id < 0) {
		gem_revoke(g, pdd->drm);
		err = -EFAULT;
		goto out;
	}
	gem_used_by_queues(g);
	bo->gem = g;
	bo->handle = (uint32_t)id;
	bo->va = a->va_addr;
	bo->size = g->size;
	bo->imported = true;
	bo->flags = (g->domain == GEM_VRAM ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM
					   : KFD_IOC_ALLOC_MEM_FLAGS_GTT) |
		    KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
	bo->next = pdd->bo_list;
	pdd->bo_list = bo;
	kfd_stats_bo(1, (int64_t)bo->size);
	a->handle = (uint64_t)a->gpu_id << 32 | (uint32_t)id;
	g = NULL;
	bo = NULL;
out:
	pthread_mutex_unlock(&p->lock);
	if (g)
		gem_unref(g);
	free(bo);
	return err;
}

KFD_HANDLER(get_dmabuf_info)
{
	struct kfd_ioctl_get_dmabuf_info_args *a = args;
	struct gem *g;
	long err = 0;

	if (!p->n_pdds)
		return -EINVAL;
	g = vgpu_files.dmabuf_gem((int)a->dmabuf_fd);
	if (!g)
		return vgpu_files.fd_valid((int)a->dmabuf_fd) ? -EINVAL : -EBADF;
	if (g->domain != GEM_VRAM && g->domain != GEM_GTT) {
		err = -EINVAL;
		goto out;
	}
	gem_refresh(g);
	a->size = g->size;
	/* The size is compared whether there is a buffer or not, and comes back either way. */
	err = g->metadata_size > a->metadata_size ? -EINVAL : 0;
	a->metadata_size = g->metadata_size;
	if (err)
		goto out;
	a->gpu_id = vgpu_props.gpu_id;
	a->flags =
		g->domain == GEM_VRAM ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM : KFD_IOC_ALLOC_MEM_FLAGS_GTT;
	if (g->cpu_access)
		a->flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
	if (g->metadata_size && a->metadata_ptr)
		err = user_write(a->metadata_ptr, g->metadata, g->metadata_size);
out:
	gem_unref(g);
	return err;
}
