/* Queues that have to stand still: evicted with their process, or suspended by a debugger
 * (kfd_device_queue_manager.c). */
#include "internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "vm/rawsys.h"

/* ---- eviction ------------------------------------------------------------- */

static int evict_device(struct kfd_process *p, struct kfd_pdd *pdd)
{
	uint64_t start = vgpu_clock_ns();
	struct kfd_queue *q;
	int err = 0;

	if (pdd->evicted++)
		return 0;
	for (unsigned i = 0; (q = kfd_queue_next(p, &i));) {
		int r;

		q->is_evicted = true;
		r = kfd_queue_unmap(q);
		if (r) {
			vgpu_log("amdgpu: Failed to evict queue %u", q->id);
			err = r;
			if (vgpu_kernel()->evict_stops_at_first)
				break;
		}
	}
	pdd->evict_start = vgpu_kernel()->evicted_ms_from_start ? start : vgpu_clock_ns();
	return err;
}

static int restore_device(struct kfd_process *p, struct kfd_pdd *pdd)
{
	struct kfd_queue *q;
	int err = 0;

	if (!pdd->evicted || --pdd->evicted)
		return 0;
	for (unsigned i = 0; (q = kfd_queue_next(p, &i));) {
		int r;

		q->is_evicted = false;
		r = kfd_queue_map(q);
		if (r && !err)
			err = r;
	}
	pdd->evicted_ms += (vgpu_clock_ns() - pdd->evict_start) / 1000000u;
	return err;
}

int kfd_process_evict_queues(struct kfd_process *p, int trigger)
{
	if (!p->n_pdds)
		return 0;
	/* Counted before it is said: who hears of it may leave at once. */
	if (!p->pdd.evicted)
		__atomic_fetch_add(&kfd_device.stats.evictions, 1, __ATOMIC_RELAXED);
	/* Before the act, and also when the process is evicted already. */
	if (trigger >= 0)
		smi_event(p->lead, KFD_SMI_EVENT_QUEUE_EVICTION, "%lld -%d %x %d\n",
			  (long long)kfd_boottime_ns(), p->lead, vgpu_props.gpu_id, trigger);
	return evict_device(p, &p->pdd);
}

int kfd_process_restore_queues(struct kfd_process *p)
{
	if (!p->n_pdds)
		return 0;
	smi_event(p->lead, KFD_SMI_EVENT_QUEUE_RESTORE, "%lld -%d %x %c\n",
		  (long long)kfd_boottime_ns(), p->lead, vgpu_props.gpu_id, '0');
	return restore_device(p, &p->pdd);
}

/* ---- a debugger ------------------------------------------------------------ */

int kfd_queue_suspend(struct kfd_queue *q, bool is_new)
{
	if (q->is_suspended)
		return 0;
	if (is_new || q->is_being_destroyed)
		return -EBUSY;
	q->is_suspended = true;
	return kfd_queue_unmap(q);
}

int kfd_queue_resume(struct kfd_queue *q)
{
	struct kfd_process *p = q->process;
	int err;

	if (!q->is_suspended)
		return 0;
	q->is_suspended = false;
	err = kfd_queue_map(q);
	__atomic_fetch_add(&p->resumes, 1, __ATOMIC_RELEASE);
	rawsys3(SYS_futex, &p->resumes, FUTEX_WAKE_PRIVATE, INT_MAX);
	return err;
}
