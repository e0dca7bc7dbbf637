/* The MMU notifier: user memory that the GPU may use and the client changes.
 *
 * The kernel stops the process's queues inside the system call that changes the pages, and starts
 * them again from a worker about a millisecond later, when the pages are back or their PTEs are
 * gone (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_evict_userptr, kfd_svm.c).
 */
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

#define RESTORE_DELAY_NS 1000000u /* AMDGPU_USERPTR_RESTORE_DELAY_MS, SVM's is the same */

/* The watched ranges, exact and sorted by nothing: few. Readers are every munmap() of the client,
 * so an envelope is checked first, without the lock. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct range {
	uint64_t start, end;
} *ranges;
static size_t n_ranges, cap_ranges;
static uint64_t lowest = UINT64_MAX, highest;

static struct kfd_timer restore_timer;

static void add_range(void *ctx, uint64_t addr, uint64_t len)
{
	(void)ctx;
	if (n_ranges == cap_ranges) {
		size_t cap = cap_ranges ? cap_ranges * 2 : 64;
		struct range *r = realloc(ranges, cap * sizeof(*r));

		/* Without memory for the note the range stays unwatched. */
		if (!r)
			return;
		ranges = r;
		cap_ranges = cap;
	}
	ranges[n_ranges++] = (struct range){addr, addr + len};
	if (addr < lowest)
		lowest = addr;
	if (addr + len > highest)
		highest = addr + len;
}

void kfd_mm_watch(struct kfd_process *p)
{
	pthread_rwlock_wrlock(&lock);
	n_ranges = 0;
	lowest = UINT64_MAX;
	highest = 0;
	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next) {
		if (bo->user_addr)
			add_range(NULL, bo->user_addr, bo->size);
	}
	svm_watch(p, add_range, NULL);
	pthread_rwlock_unlock(&lock);
}

void kfd_mm_after_fork(void)
{
	pthread_rwlock_init(&lock, NULL);
	n_ranges = 0;
	lowest = UINT64_MAX;
	highest = 0;
	memset(&restore_timer, 0, sizeof(restore_timer));
}

bool kfd_mm_watched(uint64_t addr, uint64_t len)
{
	bool hit = false;

	if (addr >= __atomic_load_n(&highest, __ATOMIC_RELAXED) ||
	    addr + len <= __atomic_load_n(&lowest, __ATOMIC_RELAXED))
		return false;
	pthread_rwlock_rdlock(&lock);
	for (size_t i = 0; i < n_ranges && !hit; i++)
		hit = ranges[i].start < addr + len && addr < ranges[i].end;
	pthread_rwlock_unlock(&lock);
	return hit;
}

/* Faults the pages back in; pages that are gone leave cleared PTEs behind. False while some cannot
 * be had for writing, which is no bad address: the kernel tries again, the queues stay away. */
static bool revalidate(struct kfd_process *p)
{
	bool ok = true;

	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next) {
		long r;

		if (!bo->invalid)
			continue;
		r = rawsys3(SYS_madvise, bo->user_addr, bo->size, MADV_POPULATE_WRITE);
		/* Readable but not writable; what is neither is a bad address. */
		if (r == -EINVAL &&
		    !rawsys3(SYS_madvise, bo->user_addr, bo->size, MADV_POPULATE_READ)) {
			ok = false;
			continue;
		}
		bo->invalid = 0;
		bo->dead = r == -ENOMEM || r == -EFAULT ||
			   (r == -EINVAL &&
			    !rawsys3(SYS_madvise, bo->user_addr, 0, MADV_POPULATE_WRITE));
		if (bo->mapped)
			vm_user_invalidate(p->pdd.vm, bo->user_addr, bo->size, !bo->dead);
	}
	return ok;
}

static void restore_work(struct kfd_timer *t)
{
	struct kfd_process *p = kfd_process_current();

	(void)t;
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->restore_pending && !revalidate(p)) {
		timer_arm(&restore_timer, vgpu_clock_ns() + RESTORE_DELAY_NS);
	} else if (p->restore_pending) {
		p->restore_pending = false;
		p->evicted_bos = 0;
		kfd_process_restore_queues(p);
	}
	pthread_mutex_unlock(&p->lock);
}

void kfd_mm_changing(uint64_t addr, uint64_t len, bool unmap)
{
	struct kfd_process *p = kfd_process_current();
	bool hit = false, svm;

	if (!p || !vgpu_rule(RULE_userptr_invalidate))
		return;
	pthread_mutex_lock(&p->lock);
	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next) {
		if (!bo->user_addr || bo->user_addr >= addr + len ||
		    addr >= bo->user_addr + bo->size)
			continue;
		bo->invalid++;
		hit = true;
	}
	svm = svm_mapped_at(p, addr, len);
	if (svm && unmap) {
		/* Unmapped from the GPU here and now; only memory that a queue cannot live
		 * without stops the process, and then for good. */
		if (svm_mm_unmap(p, addr, len))
			kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_TRIGGER_SVM);
		kfd_mm_watch(p);
		svm = false;
	}
	if (hit || svm) {
		if (!p->evicted_bos++)
			kfd_process_evict_queues(p, hit ? KFD_QUEUE_EVICTION_TRIGGER_USERPTR
							: KFD_QUEUE_EVICTION_TRIGGER_SVM);
		p->restore_pending = true;
	}
	pthread_mutex_unlock(&p->lock);
}

void kfd_mm_forking(void)
{
	uint64_t from = __atomic_load_n(&lowest, __ATOMIC_RELAXED);
	uint64_t to = __atomic_load_n(&highest, __ATOMIC_RELAXED);

	if (from < to)
		kfd_mm_changing(from, to - from, false);
}

void kfd_mm_changed(void)
{
	struct kfd_process *p = kfd_process_current();

	if (!p || !p->restore_pending)
		return;
	restore_timer.fn = restore_work;
	restore_timer.jump = true;
	timer_arm(&restore_timer, vgpu_clock_ns() + RESTORE_DELAY_NS);
}
