/* Queues: validation, creation, update, destruction (kfd_queue.c,
 * kfd_process_queue_manager.c, kfd_device_queue_manager.c). */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "share/share.h"
#include "vm/rawsys.h"

#define PAGE_UP(x) (((x) + 4095) & ~4095ull)

struct kfd_queue *kfd_queue_by_id(struct kfd_process *p, uint32_t id)
{
	return id < KFD_MAX_QUEUES_PER_PROCESS ? p->queues[id] : NULL;
}

struct kfd_queue *kfd_queue_next(const struct kfd_process *p, unsigned *at)
{
	while (*at < KFD_MAX_QUEUES_PER_PROCESS) {
		struct kfd_queue *q = p->queues[(*at)++];

		if (q)
			return q;
	}
	return NULL;
}

static bool is_pow2(uint32_t v)
{
	return v && !(v & (v - 1));
}

/* ---- checks --------------------------------------------------------------- */

static int check_properties(struct kfd_ioctl_create_queue_args *a)
{
	if ((a->queue_percentage & 0xff) > KFD_MAX_QUEUE_PERCENTAGE)
		return -EINVAL;
	if (a->queue_priority > KFD_MAX_QUEUE_PRIORITY)
		return -EINVAL;
	if (a->ring_base_address && !user_address_ok(a->ring_base_address))
		return -EFAULT;
	if (a->ring_size && !is_pow2(a->ring_size))
		return -EINVAL;
	if (a->ring_size < KFD_MIN_QUEUE_RING_SIZE)
		a->ring_size = KFD_MIN_QUEUE_RING_SIZE;
	if (vgpu_kernel()->ring_counts_metadata && a->metadata_ring_size &&
	    !is_pow2(a->metadata_ring_size))
		return -EINVAL;
	if (!user_address_ok(a->read_pointer_address) || !user_address_ok(a->write_pointer_address))
		return -EFAULT;
	if (a->eop_buffer_address && !user_address_ok(a->eop_buffer_address))
		return -EFAULT;
	if (a->ctx_save_restore_address && !user_address_ok(a->ctx_save_restore_address))
		return -EFAULT;
	if (a->queue_type > KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID)
		return -KFD_ENOTSUPP;
	return 0;
}

static bool is_sdma(uint32_t type)
{
	return type == KFD_IOC_QUEUE_TYPE_SDMA || type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI ||
	       type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
}

/* The mapping that holds addr must start on its page and, for sizes of a page and more, have
 * exactly the expected size. rule off: any mapping that contains the address will do. */
static int buffer_get(struct kfd_pdd *pdd, enum vgpu_rule rule, uint64_t addr, uint64_t expected,
		      struct kfd_bo **out)
{
	uint64_t start, size;
	struct kfd_bo *bo = kfd_bo_mapped_at(pdd, addr, &start, &size);

	if (!bo)
		return -EINVAL;
	if (vgpu_rule(rule) &&
	    (addr >> 12 != start >> 12 || (expected >> 12 && expected >> 12 != size >> 12))) {
		vgpu_log("amdgpu: queue buffer 0x%llx: expected 0x%llx bytes, mapping 0x%llx has "
			 "0x%llx (rule %s)",
			 (unsigned long long)addr, (unsigned long long)expected,
			 (unsigned long long)start, (unsigned long long)size, vgpu_rule_name(rule));
		return -EINVAL;
	}
	bo->queue_refs++;
	gem_ref(bo->gem);
	*out = bo;
	return 0;
}

static void buffer_put(struct kfd_bo **bo)
{
	if (!*bo)
		return;
	(*bo)->queue_refs--;
	gem_unref((*bo)->gem);
	*bo = NULL;
}

static void release_buffers(struct kfd_queue *q)
{
	if (q->wptr_bo)
		gem_pin(q->wptr_bo->gem, -1);
	buffer_put(&q->wptr_bo);
	buffer_put(&q->rptr_bo);
	buffer_put(&q->ring_bo);
	buffer_put(&q->eop_bo);
	buffer_put(&q->cwsr_bo);
	if (q->cwsr_svm)
		svm_queue_put(q->process, q->cwsr_va, q->cwsr_total);
	q->cwsr_svm = false;
}

static uint64_t ring_bytes(uint32_t ring, uint32_t metadata)
{
	return ring + (vgpu_kernel()->ring_counts_metadata ? (uint64_t)metadata : 0);
}

/* What a new ring's mapping must have. 6.12 takes the size as it is: below a page, any mapping that
 * starts there will do (kfd_queue.c:kfd_queue_acquire_buffers). */
static uint64_t new_ring_bytes(uint32_t ring, uint32_t metadata)
{
	uint64_t n = ring_bytes(ring, metadata);

	return vgpu_kernel()->ring_counts_metadata ? PAGE_UP(n) : n;
}

static int acquire_compute_buffers(struct kfd_queue *q, struct kfd_pdd *pdd,
				   const struct kfd_ioctl_create_queue_args *a)
{
	const struct vgpu_props *n = &vgpu_props;
	int err;

	if (a->eop_buffer_address) {
		/* The kernel keeps the size in 32 bits. */
		uint32_t eop = (uint32_t)a->eop_buffer_size;

		if (vgpu_rule(RULE_queue_eop_size) && eop < n->eop_size)
			return -EINVAL;
		err = buffer_get(pdd, RULE_queue_eop_mapping, a->eop_buffer_address,
				 PAGE_UP((uint64_t)eop), &q->eop_bo);
		if (err)
			return err;
	}
	if (vgpu_rule(RULE_queue_ctl_stack_size) && a->ctl_stack_size != n->ctl_stack_size)
		return -EINVAL;
	if (vgpu_rule(RULE_queue_cwsr_size) && a->ctx_save_restore_size < n->cwsr_size)
		return -EINVAL;
	q->cwsr_total = PAGE_UP((uint64_t)a->ctx_save_restore_size + n->debug_memory_size);
	err = buffer_get(pdd, RULE_queue_cwsr_mapping, a->ctx_save_restore_address, q->cwsr_total,
			 &q->cwsr_bo);
	if (!err)
		return 0;
	err = svm_queue_get(q->process, a->ctx_save_restore_address, q->cwsr_total);
	q->cwsr_svm = !err;
	return err;
}

static int acquire_buffers(struct kfd_queue *q, struct kfd_pdd *pdd,
			   const struct kfd_ioctl_create_queue_args *a)
{
	int err;

	err = buffer_get(pdd, RULE_queue_wptr_mapping, a->write_pointer_address, 4096, &q->wptr_bo);
	if (!err)
		err = buffer_get(pdd, RULE_queue_rptr_mapping, a->read_pointer_address, 4096,
				 &q->rptr_bo);
	if (!err)
		err = buffer_get(pdd, RULE_queue_ring_mapping, a->ring_base_address,
				 new_ring_bytes(a->ring_size, a->metadata_ring_size), &q->ring_bo);
	/* MES looks at the write pointer by itself (amdgpu_amdkfd_map_gtt_bo_to_gart). */
	if (!err)
		gem_pin(q->wptr_bo->gem, 1);
	/* Only compute queues have EOP buffers and save areas. */
	if (!err && !q->sdma)
		err = acquire_compute_buffers(q, pdd, a);
	if (err)
		release_buffers(q);
	return err;
}

/* ---- ids ------------------------------------------------------------------ */

static int find_queue_id(struct kfd_process *p)
{
	for (int i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++) {
		if (!p->queues[i])
			return i;
	}
	return -ENOMEM;
}

static int take_sdma(struct kfd_queue *q, uint32_t type)
{
	int err = -ENOMEM;

	/* There are no XGMI engines. */
	if (type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI) {
		vgpu_log("amdgpu: No more XGMI SDMA queue to allocate");
		return -ENOMEM;
	}
	if (share_active()) {
		uint64_t id[SHARE_ARGS] = {~0ull};

		err = share_call(SHARE_SDMA, id);
		q->sdma_id = (uint32_t)id[0];
		goto out;
	}
	pthread_mutex_lock(&kfd_device.lock);
	for (uint32_t i = KFD_SDMA_RESERVED; i < KFD_SDMA_QUEUES; i++) {
		if (!(kfd_device.sdma_used & 1u << i) || !vgpu_rule(RULE_queue_sdma_limit)) {
			kfd_device.sdma_used |= 1u << i;
			q->sdma_id = i;
			err = 0;
			break;
		}
	}
	pthread_mutex_unlock(&kfd_device.lock);
out:
	if (err)
		vgpu_log(type == KFD_IOC_QUEUE_TYPE_SDMA
				 ? "amdgpu: No more SDMA queue to allocate"
				 : "amdgpu: No more SDMA queue to allocate for target ID 0");
	return err;
}

static void give_sdma(struct kfd_queue *q)
{
	uint64_t a[SHARE_ARGS] = {q->sdma_id};

	if (share_active()) {
		share_call(SHARE_SDMA, a);
		return;
	}
	pthread_mutex_lock(&kfd_device.lock);
	kfd_device.sdma_used &= ~(1u << q->sdma_id);
	pthread_mutex_unlock(&kfd_device.lock);
}

/* Of all processes' queues. */
static int count_queue(int n)
{
	uint64_t a[SHARE_ARGS] = {(uint64_t)(int64_t)n};

	if (share_active())
		return share_call(SHARE_QUEUES, a);
	if (n > 0 && kfd_device.queue_count >= KFD_MAX_QUEUES_PER_DEVICE)
		return -EPERM;
	kfd_device.queue_count += (uint32_t)n;
	return 0;
}

static int take_doorbell(struct kfd_queue *q, struct kfd_pdd *pdd)
{
	/* SDMA0's range begins at 0x100; even and odd queues are 512 apart (soc21.c). */
	if (q->sdma) {
		q->mqd.doorbell = 0x100 + (q->sdma_id & 1) * 512 + (q->sdma_id >> 1);
		return 0;
	}
	for (uint32_t i = 0; i < KFD_DOORBELLS; i++) {
		if (!(pdd->doorbell_bitmap[i / 32] & 1u << i % 32)) {
			pdd->doorbell_bitmap[i / 32] |= 1u << i % 32;
			q->mqd.doorbell = i;
			return 0;
		}
	}
	return -EBUSY;
}

static void give_doorbell(struct kfd_queue *q, struct kfd_pdd *pdd)
{
	if (!q->sdma)
		pdd->doorbell_bitmap[q->mqd.doorbell / 32] &= ~(1u << q->mqd.doorbell % 32);
}

/* ---- running -------------------------------------------------------------- */

static bool should_run(const struct kfd_queue *q)
{
	return q->ring_size && q->ring_va && q->percent && !q->is_evicted && !q->is_suspended &&
	       !q->is_reset;
}

int kfd_queue_map(struct kfd_queue *q)
{
	int err;

	if (q->is_active || !should_run(q))
		return 0;
	if (kfd_gpu_in_reset())
		return -EIO;
	err = kfd_mes_silent("ADD_QUEUE");
	if (!err)
		err = cp_queue_map(q->cp);
	if (!err)
		q->is_active = true;
	return err;
}

int kfd_queue_unmap(struct kfd_queue *q)
{
	int err;

	if (!q->is_active)
		return 0;
	err = kfd_gpu_in_reset() ? -EIO : kfd_mes_silent("REMOVE_QUEUE");
	if (!err) {
		err = cp_queue_unmap(q->cp);
		if (err == -ETIMEDOUT)
			err = kfd_hws_hang(q);
	}
	/* What MES did not take off counts as off: the reset sees to it. */
	if (!err || err == -ETIMEDOUT || err == -EIO)
		q->is_active = false;
	return err;
}

static void fill_mqd(struct kfd_queue *q, struct kfd_pdd *pdd,
		     const struct kfd_ioctl_create_queue_args *a)
{
	struct cp_mqd *m = &q->mqd;

	m->type = q->sdma ? CP_SDMA : a->queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE ? CP_PM4 : CP_AQL;
	m->vm = pdd->vm;
	m->process = q->process;
	m->queue_id = q->id;
	m->ring = gva(a->ring_base_address);
	m->ring_bytes = a->ring_size;
	m->rptr = gva(a->read_pointer_address);
	m->wptr = gva(a->write_pointer_address);
	m->priority = a->queue_priority;
	if (!q->sdma) {
		m->eop = gva(a->eop_buffer_address);
		m->eop_bytes = a->eop_buffer_address ? (uint32_t)a->eop_buffer_size : 0;
		m->cwsr = gva(a->ctx_save_restore_address);
		m->cwsr_bytes = a->ctx_save_restore_size;
		m->ctl_stack_bytes = a->ctl_stack_size;
	}
	m->tba = pdd->tba;
	m->tma = pdd->tma;
	m->ttmp_setup = kfd_runtime_ttmps(q->process);
	m->debug = dbg_device_sees(q->process);
	m->lds_base = vgpu_props.lds_base;
	m->scratch_base = vgpu_props.scratch_base;
}

/* Pages of system memory that MES keeps state in: one for the process, with its first queue and for
 * good, and one for each queue (kfd_process_queue_manager.c:pqm_create_queue, init_user_queue). They
 * are mapped for the kernel alone: charged against no limit, and in no address space of a client.
 * The MQD comes out of memory that the driver took at boot (kfd_gtt_sa_allocate). */
static int take_mes_pages(struct kfd_queue *q, struct kfd_pdd *pdd)
{
	int err = 0;

	kfd_lock_lend(q->process);
	if (!pdd->proc_ctx)
		err = gem_create(GEM_GTT, KFD_MES_CTX_SIZE, &pdd->proc_ctx);
	if (!err)
		err = gem_create(GEM_GTT, KFD_MES_CTX_SIZE, &q->gang_ctx);
	kfd_lock_reclaim(q->process);
	if (!err) {
		gem_pin(pdd->proc_ctx, 1);
		gem_pin(q->gang_ctx, 1);
	}
	if (err)
		vgpu_log("amdgpu: failed to allocate %s context bo",
			 pdd->proc_ctx ? "gang" : "process");
	return err;
}

static void give_gang_page(struct kfd_queue *q)
{
	if (q->gang_ctx)
		gem_unref(q->gang_ctx);
	q->gang_ctx = NULL;
}

static int create_locked(struct kfd_process *p, struct kfd_queue *q,
			 struct kfd_ioctl_create_queue_args *a)
{
	struct kfd_pdd *pdd = kfd_pdd_by_id(p, a->gpu_id);
	uint32_t limit = KFD_MAX_QUEUES_PER_PDD;
	int err;

	if (!pdd)
		return -EINVAL;
	if (!kfd_pdd_bound(pdd))
		return -ESRCH;
	/* One engine: id 0 is the only one. */
	if (a->queue_type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID && a->sdma_engine_id > 0)
		return -EINVAL;
	err = kfd_pdd_doorbells(pdd);
	if (err)
		return err;
	err = acquire_buffers(q, pdd, a);
	if (err)
		return err;
	if (vgpu_rule(RULE_queue_per_process_limit) && pdd->queue_count >= limit) {
		err = -ENOSPC;
		goto out_buffers;
	}
	err = find_queue_id(p);
	if (err < 0)
		goto out_buffers;
	q->id = (uint32_t)err;
	err = take_mes_pages(q, pdd);
	if (err)
		goto out_buffers;
	/* The write pointer's buffer is pinned for MES; user pages cannot be. */
	if (q->wptr_bo->gem->domain == GEM_PREEMPT && vgpu_rule(RULE_queue_wptr_pinned)) {
		err = -EPERM;
		goto out_buffers;
	}
	err = count_queue(1);
	if (err)
		goto out_buffers;
	if (q->sdma) {
		err = take_sdma(q, a->queue_type);
		if (err)
			goto out_count;
	}
	err = take_doorbell(q, pdd);
	if (err)
		goto out_sdma;
	err = kfd_irq_start();
	if (err)
		goto out_doorbell;
	q->percent = a->queue_percentage & 0xff;
	q->priority = a->queue_priority;
	q->ring_va = a->ring_base_address;
	q->ring_size = a->ring_size;
	q->metadata_ring_size = a->metadata_ring_size;
	q->cwsr_va = a->ctx_save_restore_address;
	q->cwsr_size = a->ctx_save_restore_size;
	q->is_evicted = pdd->evicted != 0;
	q->mqd.hangs = vgpu_config.hang_queue == q->id;
	fill_mqd(q, pdd, a);
	err = cp_queue_create(&q->mqd, pdd->doorbells, &q->cp);
	if (err)
		goto out_doorbell;
	err = kfd_queue_map(q);
	if (err)
		goto out_cp;
	p->queues[q->id] = q;
	p->n_queues++;
	pdd->queue_count++;
	dbg_queue_changed(p, q);
	kfd_pressure_start();
	return 0;

out_cp:
	cp_queue_destroy(q->cp);
out_doorbell:
	give_doorbell(q, pdd);
out_sdma:
	if (q->sdma)
		give_sdma(q);
out_count:
	count_queue(-1);
out_buffers:
	give_gang_page(q);
	release_buffers(q);
	return err;
}

KFD_HANDLER(create_queue)
{
	struct kfd_ioctl_create_queue_args *a = args;
	struct kfd_queue *q;
	int err;

	err = check_properties(a);
	if (err)
		return err;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->process = p;
	/* An engine that was named by its number is one of its kind (allocate_sdma_queue). */
	q->user_type = is_sdma(a->queue_type) ? KFD_IOC_QUEUE_TYPE_SDMA : a->queue_type;
	q->sdma = is_sdma(a->queue_type);
	pthread_mutex_lock(&p->lock);
	err = create_locked(p, q, a);
	pthread_mutex_unlock(&p->lock);
	if (err) {
		free(q);
		return err;
	}
	a->queue_id = q->id;
	a->doorbell_offset =
		KFD_MMAP_TYPE_DOORBELL | KFD_MMAP_GPU_ID(a->gpu_id) | q->mqd.doorbell * 8ull;
	return 0;
}

/* Behind the read pointer's word the engine keeps its activity counter. */
uint64_t kfd_queue_sdma_counter(const struct kfd_queue *q)
{
	uint64_t v = 0;

	if (user_read(&v, q->mqd.rptr.a + 8, sizeof(v)))
		return 0;
	return v;
}

/* What the queue manager takes back whether or not MES takes it off (destroy_queue_cpsch). */
static void queue_leave(struct kfd_process *p, struct kfd_queue *q)
{
	if (q->sdma) {
		p->pdd.sdma_past += kfd_queue_sdma_counter(q);
		give_sdma(q);
	}
	give_doorbell(q, &p->pdd);
	p->pdd.queue_count--;
	count_queue(-1);
}

/* lost: MES did not take it off. */
static void queue_free(struct kfd_process *p, struct kfd_queue *q, bool lost)
{
	if (lost)
		cp_queue_reset(q->cp);
	if (!q->is_gone)
		queue_leave(p, q);
	p->queues[q->id] = NULL;
	dbg_queue_gone(p, q);
	p->n_queues--;
	if (q->gws) {
		p->pdd.gws = false;
		dbg_gws(p, false);
	}
	if (cp_queue_reports(q->cp) > 1)
		vgpu_log("queue %u: %u exceptions in all", q->id, cp_queue_reports(q->cp));
	cp_queue_destroy(q->cp);
	give_gang_page(q);
	release_buffers(q);
	free(q);
}

void kfd_queues_destroy(struct kfd_process *p)
{
	struct kfd_queue *q;

	for (unsigned i = 0; (q = kfd_queue_next(p, &i));)
		queue_free(p, q, kfd_queue_unmap(q) != 0 || q->is_gone);
}

/* What a debugger has suspended is not pulled from under it: until it resumes the queue, or a
 * signal comes. NULL: there is no such queue, any more. Process lock held, given up meanwhile. */
static struct kfd_queue *queue_to_destroy(struct kfd_process *p, uint32_t id, long *err)
{
	struct kfd_queue *q = kfd_queue_by_id(p, id);

	if (q && q->is_being_destroyed) {
		*err = -EBUSY;
		return q;
	}
	/* Once and for all: a queue that MES does not take off stays like this. */
	if (q)
		q->is_being_destroyed = true;
	while (q && q->is_suspended && dbg_enabled(p) && !*err) {
		uint32_t seen = __atomic_load_n(&p->resumes, __ATOMIC_ACQUIRE);

		pthread_mutex_unlock(&p->lock);
		if (rawsys6(SYS_futex, &p->resumes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0) ==
		    -EINTR)
			*err = -EINTR;
		pthread_mutex_lock(&p->lock);
		q = kfd_queue_by_id(p, id);
	}
	if (q && *err)
		q->is_being_destroyed = false;
	return q;
}

KFD_HANDLER(destroy_queue)
{
	struct kfd_ioctl_destroy_queue_args *a = args;
	struct kfd_queue *q;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	q = queue_to_destroy(p, a->queue_id, &err);
	if (!q)
		err = -EINVAL;
	if (err)
		goto out;
	err = kfd_queue_unmap(q);
	if (err)
		vgpu_log("amdgpu: Pasid 0x%x destroy queue %u failed, ret %ld", p->pasid, q->id,
			 err);
	/* EIO (a reset is on): destroyed all the same, and the error is returned. MES's own error is
	 * none that pqm_destroy_queue() expects: the id stays, what it held goes. */
	if (err && err != -ETIME && err != -EIO) {
		release_buffers(q);
		queue_leave(p, q);
		q->is_gone = true;
	} else {
		queue_free(p, q, err);
	}
	dbg_raise(p, NULL, KFD_EC_MASK(EC_DEVICE_QUEUE_DELETE), NULL);
out:
	pthread_mutex_unlock(&p->lock);
	return err;
}

static long update_locked(struct kfd_process *p, const struct kfd_ioctl_update_queue_args *a)
{
	struct kfd_queue *q = kfd_queue_by_id(p, a->queue_id);
	int err;

	if (!q)
		return -EFAULT;
	if (a->ring_base_address) {
		struct kfd_bo *ring;

		if (buffer_get(&p->pdd, RULE_queue_ring_mapping, a->ring_base_address,
			       ring_bytes(a->ring_size, q->metadata_ring_size), &ring))
			return -EFAULT;
		buffer_put(&q->ring_bo);
		q->ring_bo = ring;
	}
	/* The properties change even when the scheduler then refuses. */
	q->ring_va = a->ring_base_address;
	q->ring_size = a->ring_size;
	q->percent = a->queue_percentage & 0xff;
	q->priority = a->queue_priority;
	dbg_queue_changed(p, q);
	err = kfd_queue_unmap(q);
	if (p->pdd.has_reset_queue)
		return -EACCES;
	if (err)
		return err;
	if (q->ring_va)
		q->mqd.ring = gva(q->ring_va);
	q->mqd.ring_bytes = q->ring_size;
	q->mqd.priority = q->priority;
	err = cp_queue_update(q->cp, &q->mqd);
	if (err)
		return err;
	return kfd_queue_map(q);
}

KFD_HANDLER(update_queue)
{
	struct kfd_ioctl_update_queue_args *a = args;
	long err;

	if ((a->queue_percentage & 0xff) > KFD_MAX_QUEUE_PERCENTAGE)
		return -EINVAL;
	if (a->queue_priority > KFD_MAX_QUEUE_PRIORITY)
		return -EINVAL;
	if (a->ring_base_address && !user_address_ok(a->ring_base_address))
		return -EFAULT;
	if (a->ring_size && !is_pow2(a->ring_size))
		return -EINVAL;
	if (a->ring_size < KFD_MIN_QUEUE_RING_SIZE)
		a->ring_size = KFD_MIN_QUEUE_RING_SIZE;
	pthread_mutex_lock(&p->lock);
	err = update_locked(p, a);
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(set_cu_mask)
{
	struct kfd_ioctl_set_cu_mask_args *a = args;
	struct kfd_queue *q;
	uint32_t mask[32], count = a->num_cu_mask;
	long err = 0;

	if (count % 32 || !count)
		return -EINVAL;
	if (count > 1024)
		count = 1024;
	if (user_read(mask, a->cu_mask_ptr, count / 8))
		return -EFAULT;
	pthread_mutex_lock(&p->lock);
	q = kfd_queue_by_id(p, a->queue_id);
	if (!q) {
		err = -EFAULT;
		goto out;
	}
	/* Both CUs of a WGP or none. */
	for (uint32_t i = 0; i < count; i += 2) {
		uint32_t pair = mask[i / 32] >> i % 32 & 3;

		if (pair == 1 || pair == 2) {
			err = -EINVAL;
			goto out;
		}
	}
	memset(q->cu_mask, 0, sizeof(q->cu_mask));
	memcpy(q->cu_mask, mask, count / 8);
	q->cu_mask_bits = count;
	err = kfd_queue_unmap(q);
	if (p->pdd.has_reset_queue)
		err = -EACCES;
	if (err)
		goto out;
	/* Pair by pair; bits beyond the mask are off, those beyond the CUs mean nothing. */
	q->mqd.masked = true;
	q->mqd.wgp_mask = 0;
	for (uint32_t k = 0; 2 * k < count && 2 * k < vgpu_props.cus; k++)
		q->mqd.wgp_mask |= (q->cu_mask[k / 16] >> 2 * k % 32 & 1) << k;
	err = cp_queue_update(q->cp, &q->mqd);
	if (!err)
		err = kfd_queue_map(q);
out:
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(get_queue_wave_state)
{
	struct kfd_ioctl_get_queue_wave_state_args *a = args;
	struct cp_wave_state s;
	uint32_t header[4]; /* the first words of the save-area header */
	struct kfd_queue *q;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	q = kfd_queue_by_id(p, a->queue_id);
	if (!q) {
		err = -EFAULT;
		goto out;
	}
	if (q->sdma || q->is_active) {
		err = -EINVAL;
		goto out;
	}
	err = cp_queue_wave_state(q->cp, &s);
	if (err)
		goto out;
	a->ctl_stack_used_size = s.control_stack_size;
	a->save_area_used_size = s.wave_state_size;
	header[0] = s.control_stack_offset;
	header[1] = s.control_stack_size;
	header[2] = s.wave_state_offset;
	header[3] = s.wave_state_size;
	err = user_write(a->ctl_stack_address, header, sizeof(header));
out:
	pthread_mutex_unlock(&p->lock);
	return err;
}

KFD_HANDLER(alloc_queue_gws)
{
	struct kfd_ioctl_alloc_queue_gws_args *a = args;
	struct kfd_queue *q;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	q = kfd_queue_by_id(p, a->queue_id);
	if (!q)
		err = -EINVAL;
	else if (!vgpu_props.num_gws)
		err = -ENODEV;
	else if (dbg_enabled(p) || (a->num_gws && p->pdd.gws))
		err = -EBUSY;
	else if (!a->num_gws && !p->pdd.gws)
		err = -EINVAL;
	if (!err) {
		q->gws = p->pdd.gws = a->num_gws != 0;
		dbg_gws(p, p->pdd.gws);
	}
	/* Only the queue manager's own refusals leave it like success. */
	if (q && vgpu_props.num_gws && !dbg_enabled(p))
		a->first_gws = 0;
	pthread_mutex_unlock(&p->lock);
	return err;
}

void kfd_queues_set_trap_handler(struct kfd_process *p)
{
	struct kfd_queue *q;

	for (unsigned i = 0; (q = kfd_queue_next(p, &i));) {
		q->mqd.tba = p->pdd.tba;
		q->mqd.tma = p->pdd.tma;
		if (!q->sdma)
			cp_queue_set_trap_handler(q->cp, p->pdd.tba, p->pdd.tma);
	}
}
