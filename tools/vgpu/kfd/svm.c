/* SVM ranges as far as this part has them (kfd_svm.c): no VRAM, no retry faults. A registered
 * range that the GPU may access is mapped at once; the pages stay the client's. */
#include "internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "vm/rawsys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define SVM_DEFAULT_GRANULARITY 9 /* amdgpu.svm_default_granularity: 2 MiB */

struct svm_attrs {
	uint32_t preferred, prefetch, flags;
	uint8_t granularity;
	bool access, in_place;
};

struct svm_range {
	struct svm_range *next; /* sorted, disjoint */
	uint64_t start, size;
	struct svm_attrs a;
	bool mapped;
	uint32_t queue_refs;
};

static const struct svm_attrs defaults = {
	.preferred = (uint32_t)KFD_IOCTL_SVM_LOCATION_UNDEFINED,
	.prefetch = (uint32_t)KFD_IOCTL_SVM_LOCATION_UNDEFINED,
	.flags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT,
	.granularity = SVM_DEFAULT_GRANULARITY,
};

bool svm_overlaps(struct kfd_process *p, uint64_t addr, uint64_t size)
{
	uint64_t first = addr & ~4095ull, last = (addr + size - 1) | 4095;

	for (struct svm_range *r = p->svm; r; r = r->next) {
		if (r->start <= last && first <= r->start + r->size - 1)
			return true;
	}
	return false;
}

uint32_t svm_range_count(const struct kfd_process *p)
{
	uint32_t n = 0;

	for (const struct svm_range *r = p->svm; r; r = r->next)
		n++;
	return n;
}

/* ---- checks --------------------------------------------------------------- */

static bool gpu_known(struct kfd_process *p, uint32_t id)
{
	return kfd_pdd_by_id(p, id) && vgpu_props.svm;
}

static int check_attrs(struct kfd_process *p, uint32_t n, const struct kfd_ioctl_svm_attribute *a)
{
	for (uint32_t i = 0; i < n; i++) {
		bool gpu = false;

		switch (a[i].type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			gpu = a[i].value != (uint32_t)KFD_IOCTL_SVM_LOCATION_SYSMEM &&
			      a[i].value != (uint32_t)KFD_IOCTL_SVM_LOCATION_UNDEFINED;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			gpu = a[i].value != (uint32_t)KFD_IOCTL_SVM_LOCATION_SYSMEM;
			break;
		case KFD_IOCTL_SVM_ATTR_ACCESS:
		case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
		case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
			gpu = true;
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			break;
		default:
			return -EINVAL;
		}
		if (gpu && !gpu_known(p, a[i].value))
			return -EINVAL;
	}
	return 0;
}

/* Every page has a VMA, none of a device; no buffer is mapped there. */
static int check_range(struct kfd_process *p, uint64_t start, uint64_t size)
{
	unsigned char vec[512];

	if (start + size < start)
		return -EOVERFLOW;
	if (!user_range_ok(start, size) || vgpu_files.vma_device(start, size))
		return -EFAULT;
	for (uint64_t a = start; a < start + size; a += sizeof(vec) * 4096) {
		uint64_t n = start + size - a;

		if (n > sizeof(vec) * 4096)
			n = sizeof(vec) * 4096;
		if (rawsys3(SYS_mincore, a, n, vec))
			return -EFAULT;
	}
	return kfd_bo_overlaps(&p->pdd, start, size) ? -EADDRINUSE : 0;
}

/* ---- ranges --------------------------------------------------------------- */

static void range_unmap(struct kfd_process *p, struct svm_range *r)
{
	if (r->mapped)
		vm_unmap_leaves(p->pdd.vm, gva(r->start));
	r->mapped = false;
}

/* -EINVAL: the mapping forbids it. A host kernel that does not know the advice allows all. */
static long populate(uint64_t addr, uint64_t size, int advice)
{
	long err = rawsys3(SYS_madvise, addr, size, advice);

	return err == -EINVAL && rawsys3(SYS_madvise, addr, 0, advice) == -EINVAL ? 0 : err;
}

/* How much of the range, from its start on, the client may write (*writable) or not: its VMAs may
 * differ. */
static uint64_t same_protection(const struct svm_range *r, bool *writable)
{
	uint64_t n = r->size, lo = 4096;

	if (populate(r->start, n, MADV_POPULATE_WRITE) != -EINVAL) {
		*writable = true;
		return n;
	}
	*writable = populate(r->start, 4096, MADV_POPULATE_WRITE) != -EINVAL;
	if (!*writable) {
		/* Read-only page by page until one is not: these are small and rare. */
		while (lo < n && populate(r->start + lo, 4096, MADV_POPULATE_WRITE) == -EINVAL)
			lo += 4096;
		return lo;
	}
	while (n - lo > 4096) {
		uint64_t half = lo + ((n - lo) / 2 & ~4095ull);

		if (populate(r->start + lo, half - lo, MADV_POPULATE_WRITE) == -EINVAL)
			n = half;
		else
			lo = half;
	}
	return lo;
}

static int range_split(struct kfd_process *p, uint64_t at);

/* Where the client itself may only read, so may the GPU (kfd_svm.c:svm_range_validate_and_map);
 * a range over mappings of both kinds falls apart. */
static int range_map(struct kfd_process *p, struct svm_range *r)
{
	unsigned perm = (r->a.flags & KFD_IOCTL_SVM_FLAG_GPU_RO ? 0 : VM_W) |
			(r->a.flags & KFD_IOCTL_SVM_FLAG_GPU_EXEC ? VM_X : 0);
	enum vm_mtype mtype =
		r->a.flags & (KFD_IOCTL_SVM_FLAG_COHERENT | KFD_IOCTL_SVM_FLAG_EXT_COHERENT)
			? VM_MTYPE_UC
			: VM_MTYPE_NC;
	uint64_t whole = r->size, same = whole;
	struct vm_bo *bo;
	bool writable;
	long err;

	range_unmap(p, r);
	if (!r->a.access && !r->a.in_place)
		return 0;
	if (perm & VM_W)
		same = same_protection(r, &writable);
	if (perm & VM_W && !writable)
		perm &= ~(unsigned)VM_W;
	if (same < whole) {
		err = range_split(p, r->start + same);
		if (err)
			return (int)err;
	}
	err = populate(r->start, r->size, perm & VM_W ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	if (err == -EFAULT || err == -ENOMEM || err == -EINVAL)
		return -EFAULT;
	err = vm_bo_user(r->start, r->size, &bo);
	if (err)
		return (int)err;
	err = vm_map(p->pdd.vm, gva(r->start), r->size, bo, 0, perm, mtype);
	vm_bo_unref(bo);
	r->mapped = !err;
	if (!err && same < whole)
		err = range_map(p, r->next);
	return (int)err;
}

/* Cuts so that no range crosses at; the halves share everything. -ENOMEM. */
static int range_split(struct kfd_process *p, uint64_t at)
{
	for (struct svm_range *r = p->svm; r; r = r->next) {
		struct svm_range *tail;
		bool mapped = r->mapped;

		if (at <= r->start || at >= r->start + r->size)
			continue;
		tail = malloc(sizeof(*tail));
		if (!tail)
			return -ENOMEM;
		range_unmap(p, r);
		*tail = *r;
		tail->start = at;
		tail->size = r->start + r->size - at;
		r->size = at - r->start;
		r->next = tail;
		if (mapped) {
			int err = range_map(p, r);

			return err ? err : range_map(p, tail);
		}
		return 0;
	}
	return 0;
}

static void range_remove(struct kfd_process *p, struct svm_range *r)
{
	struct svm_range **pos = &p->svm;

	while (*pos != r)
		pos = &(*pos)->next;
	*pos = r->next;
	range_unmap(p, r);
	kfd_mem_unreserve(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, r->size);
	free(r);
}

/* Makes ranges for every hole of [start, start+size). Counted like userptr: xnack is off. */
static int fill_holes(struct kfd_process *p, uint64_t start, uint64_t size)
{
	uint64_t at = start, end = start + size;
	struct svm_range **pos = &p->svm;

	while (at < end) {
		struct svm_range *r;
		uint64_t stop;
		int err;

		while (*pos && (*pos)->start + (*pos)->size <= at)
			pos = &(*pos)->next;
		if (*pos && (*pos)->start <= at) {
			at = (*pos)->start + (*pos)->size;
			continue;
		}
		stop = *pos && (*pos)->start < end ? (*pos)->start : end;
		err = kfd_mem_reserve(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, stop - at);
		if (err)
			return err;
		r = calloc(1, sizeof(*r));
		if (!r) {
			kfd_mem_unreserve(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, stop - at);
			return -ENOMEM;
		}
		r->start = at;
		r->size = stop - at;
		r->a = defaults;
		r->next = *pos;
		*pos = r;
		at = stop;
	}
	return 0;
}

static void apply(struct svm_attrs *s, uint32_t n, const struct kfd_ioctl_svm_attribute *a)
{
	for (uint32_t i = 0; i < n; i++) {
		switch (a[i].type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			s->preferred = a[i].value;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			s->prefetch = a[i].value;
			break;
		case KFD_IOCTL_SVM_ATTR_ACCESS:
			s->access = true;
			s->in_place = false;
			break;
		case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
			s->access = false;
			s->in_place = true;
			break;
		case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
			s->access = s->in_place = false;
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
			s->flags |= a[i].value;
			break;
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
			s->flags &= ~a[i].value;
			break;
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			s->granularity = a[i].value < 0x3f ? (uint8_t)a[i].value : 0x3f;
			break;
		}
	}
}

static long set_attr(struct kfd_process *p, const struct kfd_ioctl_svm_args *a)
{
	uint64_t end = a->start_addr + a->size;
	long err, last = 0;

	err = check_attrs(p, a->nattr, a->attrs);
	if (err)
		return err;
	if (!p->n_pdds || !kfd_pdd_bound(&p->pdd))
		return -EINVAL;
	err = check_range(p, a->start_addr, a->size);
	if (!err)
		err = range_split(p, a->start_addr);
	if (!err)
		err = range_split(p, end);
	if (!err)
		err = fill_holes(p, a->start_addr, a->size);
	if (err)
		return err;
	/* From here on the attributes stay even if mapping fails. */
	for (struct svm_range *r = p->svm; r; r = r->next) {
		struct svm_attrs before = r->a;
		int e;

		if (r->start < a->start_addr || r->start >= end)
			continue;
		apply(&r->a, a->nattr, a->attrs);
		if (r->mapped && before.access == r->a.access && before.in_place == r->a.in_place &&
		    before.flags == r->a.flags)
			continue;
		e = range_map(p, r);
		if (e)
			last = e;
	}
	kfd_mm_watch(p);
	return last;
}

static long get_attr(struct kfd_process *p, struct kfd_ioctl_svm_args *a)
{
	struct svm_attrs sum = defaults;
	uint32_t flags_and = 0xffffffff, flags_or = 0;
	bool any = false;
	long err = check_range(p, a->start_addr, a->size);

	if (err)
		return err;
	for (uint32_t i = 0; i < a->nattr; i++) {
		if (a->attrs[i].type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE ||
		    a->attrs[i].type == KFD_IOCTL_SVM_ATTR_NO_ACCESS ||
		    a->attrs[i].type > KFD_IOCTL_SVM_ATTR_GRANULARITY)
			return -EINVAL;
	}
	for (struct svm_range *r = p->svm; r; r = r->next) {
		if (r->start >= a->start_addr + a->size || r->start + r->size <= a->start_addr)
			continue;
		if (!any) {
			sum = r->a;
		} else {
			if (sum.preferred != r->a.preferred)
				sum.preferred = (uint32_t)KFD_IOCTL_SVM_LOCATION_UNDEFINED;
			if (sum.prefetch != r->a.prefetch)
				sum.prefetch = (uint32_t)KFD_IOCTL_SVM_LOCATION_UNDEFINED;
			sum.access = sum.access && r->a.access;
			sum.in_place = sum.in_place && r->a.in_place;
			if (r->a.granularity < sum.granularity)
				sum.granularity = r->a.granularity;
		}
		flags_and &= r->a.flags;
		flags_or |= r->a.flags;
		any = true;
	}
	if (!any)
		flags_and = flags_or = sum.flags;
	for (uint32_t i = 0; i < a->nattr; i++) {
		struct kfd_ioctl_svm_attribute *at = &a->attrs[i];

		switch (at->type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			at->value = sum.preferred;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			at->value = sum.prefetch;
			break;
		case KFD_IOCTL_SVM_ATTR_ACCESS:
			if (!kfd_pdd_by_id(p, at->value))
				return -EINVAL;
			at->type = sum.access     ? KFD_IOCTL_SVM_ATTR_ACCESS
				   : sum.in_place ? KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
						  : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
			at->value = flags_and;
			break;
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
			at->value = ~flags_or;
			break;
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			at->value = sum.granularity;
			break;
		}
	}
	return 0;
}

KFD_HANDLER(svm)
{
	struct kfd_ioctl_svm_args *a = args;
	long err;

	if (!vgpu_rule(RULE_svm_api))
		return -EPERM;
	if (kfd_is_secondary(p))
		return -EOPNOTSUPP;
	if ((a->start_addr | a->size) & 4095)
		return -EINVAL;
	if (!a->start_addr || !a->size)
		return -EINVAL;
	if (a->op > KFD_IOCTL_SVM_OP_GET_ATTR)
		return -EINVAL;
	pthread_mutex_lock(&p->lock);
	err = a->op == KFD_IOCTL_SVM_OP_SET_ATTR ? set_attr(p, a) : get_attr(p, a);
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* ---- queues and the MMU notifier ------------------------------------------ */

int svm_queue_get(struct kfd_process *p, uint64_t addr, uint64_t size)
{
	uint64_t at = addr & ~4095ull, end = at + (size & ~4095ull);

	for (int pass = 0; pass < 2; pass++) {
		uint64_t pos = at;

		for (struct svm_range *r = p->svm; r && pos < end; r = r->next) {
			if (pos < r->start || pos >= r->start + r->size)
				continue;
			if (!r->mapped || (!r->a.access && !r->a.in_place) ||
			    !(r->a.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED))
				return -EINVAL;
			if (pass)
				r->queue_refs++;
			pos = r->start + r->size;
		}
		if (pos < end)
			return -EINVAL;
	}
	return 0;
}

void svm_queue_put(struct kfd_process *p, uint64_t addr, uint64_t size)
{
	for (struct svm_range *r = p->svm; r; r = r->next) {
		if (r->start < addr + size && addr < r->start + r->size && r->queue_refs)
			r->queue_refs--;
	}
}

bool svm_mm_unmap(struct kfd_process *p, uint64_t addr, uint64_t len)
{
	struct svm_range *next;
	bool vital = false;

	if (!svm_overlaps(p, addr, len) || range_split(p, addr) || range_split(p, addr + len))
		return false;
	for (struct svm_range *r = p->svm; r; r = next) {
		next = r->next;
		if (r->start < addr || r->start >= addr + len)
			continue;
		if (r->queue_refs) {
			vital = true;
			vgpu_log("amdgpu: Freeing queue vital buffer 0x%llx, queue evicted",
				 (unsigned long long)r->start);
		}
		smi_event(p->lead, KFD_SMI_EVENT_UNMAP_FROM_GPU, "%lld -%d @%llx(%llx) %x %d\n",
			  (long long)kfd_boottime_ns(), p->lead,
			  (unsigned long long)(r->start >> 12), (unsigned long long)(r->size >> 12),
			  vgpu_props.gpu_id, 2);
		range_remove(p, r);
	}
	return vital;
}

void svm_watch(struct kfd_process *p, void (*fn)(void *ctx, uint64_t addr, uint64_t len), void *ctx)
{
	for (struct svm_range *r = p->svm; r; r = r->next)
		fn(ctx, r->start, r->size);
}

bool svm_mapped_at(struct kfd_process *p, uint64_t addr, uint64_t len)
{
	for (struct svm_range *r = p->svm; r; r = r->next) {
		if (r->mapped && r->start < addr + len && addr < r->start + r->size)
			return true;
	}
	return false;
}
