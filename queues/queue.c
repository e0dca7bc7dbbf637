/* Making and destroying a queue: the plan, executed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queues/internal.h"

static _Atomic uint64_t next_queue_number;

/* Host and device work on these. */
#define SHARED (BO_HOST_READS | BO_HOST_WRITES | BO_DEVICE_READS | BO_DEVICE_WRITES)

/* Mapped for the host where it uses it at all. */
static int buffer(struct queue *q, const char *owner, uint64_t bytes, enum bo_placement placement,
		  enum bo_coherence coherence, unsigned uses, struct bo **out)
{
	/* Each its own BO of exactly this size: the kernel compares mappings, not contents. */
	return bo_create(q->ctx->memory,
			 &(struct bo_desc){.owner = owner,
					   .size = bytes,
					   .placement = placement,
					   .coherence = coherence,
					   /* the kernel takes ring and EOP in units of 256 */
					   .grain = 256,
					   .host = uses & (BO_HOST_READS | BO_HOST_WRITES),
					   .uses = uses},
			 out);
}

static int plan(struct queue *q, const struct queue_opts *o)
{
	const struct topology_node *n = kfd_node(q->ctx->kfd);
	struct queue_plan_in in = {
		.gfx_target_version = (uint32_t)n->gfx_target_version,
		.simd_count = (uint32_t)n->simd_count,
		.simd_per_cu = (uint32_t)n->simd_per_cu,
		.num_xcc = topology_known(n, TOPOLOGY_num_xcc) ? (uint32_t)n->num_xcc : 1,
		.cwsr_size = n->cwsr_size,
		.ctl_stack_size = n->ctl_stack_size,
		.ring_packets = o->ring_packets ? o->ring_packets : 1024,
	};
	int rc = queue_plan_compute(&in, &q->plan);

	if (rc < 0)
		kfd_reason_set(
			"queue refused: gfx_target_version %u, simd_count %u, simd_per_cu %u, "
			"ring_packets %u; wanted: gfx10.1 to gfx12.4, at least one CU, a power of "
			"two "
			"from 64 to 1048576 packets",
			in.gfx_target_version, in.simd_count, in.simd_per_cu, in.ring_packets);
	return rc;
}

static void fill_page(struct queue *q)
{
	const struct topology_node *n = kfd_node(q->ctx->kfd);
	const struct kfd_process_device_apertures *a = kfd_apertures(q->ctx->kfd);

	queue_layout_fill(
		q->page, &(struct queue_layout){
				 .va = bo_va(q->page_bo),
				 .ring = bo_va(q->ring_bo),
				 .packets = q->mask + 1,
				 .id = atomic_fetch_add(&next_queue_number, 1),
				 .lds_base = a->lds_base,
				 .scratch_base = a->scratch_base,
				 .cus = q->plan.cus,
				 .waves_per_simd = (uint32_t)n->max_waves_per_simd,
				 .simd_per_cu = (uint32_t)n->simd_per_cu,
				 .inactive_mailbox = (uint64_t)(uintptr_t)q->inactive_event.mailbox,
				 .inactive_event = q->inactive_event.trigger,
			 });
}

static void fill_area(struct queue *q)
{
	struct kfd_context_save_area_header *h = bo_host(q->area_bo);

	*h = (struct kfd_context_save_area_header){
		.debug_offset = (uint32_t)q->plan.cwsr_bytes,
		.debug_size = (uint32_t)q->plan.debug_bytes,
		.err_payload_addr = bo_va(q->page_bo) + offsetof(struct queue_page, error),
		.err_event_id = q->error_event.id,
	};
}

static void queue_free(struct queue *q)
{
	for (size_t i = 0; i < sizeof(q->old_scratch) / sizeof(q->old_scratch[0]); i++)
		bo_retire(q->old_scratch[i].bo);
	bo_retire(q->scratch_bo);
	bo_retire(q->page_bo);
	bo_retire(q->area_bo);
	bo_retire(q->eop_bo);
	bo_retire(q->ring_bo);
	if (q->have_inactive_event)
		kfd_event_destroy(q->ctx->kfd, q->inactive_event.id);
	if (q->have_error_event)
		kfd_event_destroy(q->ctx->kfd, q->error_event.id);
	if (q->ctx)
		queue_context_put(q->ctx);
	pthread_mutex_destroy(&q->scratch_lock);
	free(q->first_dword);
	free(q);
}

static int adopt_event_page(struct queue_context *c)
{
	struct kfd_event_page page;

	if (!kfd_event_page_get(c->kfd, &page))
		return 0;
	return memory_adopt(c->memory, "event page", page.va, page.bytes, page.handle);
}

int queue_create(struct kfd *kfd, struct memory *m, const struct queue_opts *opts,
		 struct queue **out)
{
	static const struct queue_opts defaults;
	const struct queue_opts *o = opts ? opts : &defaults;
	struct kfd_ioctl_create_queue_args a = {0};
	struct queue *q;
	int rc;

	if (o->priority > 15) {
		kfd_reason_set("queue refused: priority is %u; wanted: 0..15", o->priority);
		return -EINVAL;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	pthread_mutex_init(&q->scratch_lock, NULL);
	rc = queue_context_get(kfd, m, &q->ctx);
	if (rc < 0)
		goto out;
	rc = plan(q, o);
	if (rc < 0)
		goto out;
	q->mask = (uint32_t)(q->plan.ring_bytes / 64 - 1);
	q->first_dword = calloc(q->mask + 1, sizeof(*q->first_dword));
	if (!q->first_dword) {
		rc = -ENOMEM;
		goto out;
	}

	/* Manual reset: an error stays, every waiter finds it. */
	rc = kfd_event_create(kfd, KFD_IOC_EVENT_SIGNAL, false, &q->error_event);
	if (rc < 0)
		goto out;
	q->have_error_event = true;
	rc = kfd_event_create(kfd, KFD_IOC_EVENT_SIGNAL, true, &q->inactive_event);
	if (rc < 0)
		goto out;
	q->have_inactive_event = true;
	rc = adopt_event_page(q->ctx);
	if (rc < 0)
		goto out;

	rc = buffer(q, "ring", q->plan.ring_bytes, BO_GTT, BO_UNCACHED, SHARED | BO_DECLARED,
		    &q->ring_bo);
	if (rc < 0)
		goto out;
	/* What the device does with this one and the next, and when, is between it and MES. */
	rc = buffer(q, "eop", q->plan.eop_bytes, BO_VRAM, BO_COARSE, BO_HOST_DECLARED, &q->eop_bo);
	if (rc < 0)
		goto out;
	rc = buffer(q, "save area", q->plan.area_bytes, BO_GTT, BO_UNCACHED,
		    BO_HOST_WRITES | BO_HOST_DECLARED, &q->area_bo);
	if (rc < 0)
		goto out;
	/* MES wants it in system memory; one queue per page (the kernel pins it for the GART). */
	rc = buffer(q, "queue", 4096, BO_GTT, BO_UNCACHED, SHARED | BO_DECLARED, &q->page_bo);
	if (rc < 0)
		goto out;
	q->ring = bo_host(q->ring_bo);
	q->page = bo_host(q->page_bo);
	memset(q->ring, 0, q->plan.ring_bytes);
	for (uint32_t i = 0; i <= q->mask; i++)
		q->ring[i].dispatch.header = AQL_INVALID;
	fill_page(q);
	fill_area(q);
	if (o->scratch_lane_bytes) {
		rc = queue_scratch_give(q, o->scratch_lane_bytes, 32);
		if (rc < 0)
			goto out;
	}

	a.ring_base_address = bo_va(q->ring_bo);
	a.ring_size = (uint32_t)q->plan.ring_bytes;
	a.write_pointer_address = bo_va(q->page_bo) + offsetof(struct amd_queue, write_dispatch_id);
	a.read_pointer_address = bo_va(q->page_bo) + offsetof(struct amd_queue, read_dispatch_id);
	a.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	a.queue_percentage = 100;
	a.queue_priority = o->priority ? o->priority : 7;
	a.eop_buffer_address = bo_va(q->eop_bo);
	a.eop_buffer_size = q->plan.eop_bytes;
	a.ctx_save_restore_address = bo_va(q->area_bo);
	a.ctx_save_restore_size = (uint32_t)q->plan.cwsr_bytes;
	a.ctl_stack_size = (uint32_t)q->plan.ctl_stack_bytes;
	rc = kfd_queue_create(kfd, &a);
	if (rc < 0)
		goto out;
	q->live = true;
	q->id = a.queue_id;
	rc = queue_context_doorbells(q->ctx, a.doorbell_offset);
	if (rc < 0)
		goto out;
	q->doorbell = (volatile uint64_t *)((char *)q->ctx->doorbells +
					    (a.doorbell_offset & (KFD_DOORBELL_BYTES - 1)));
	q->page->doorbell.doorbell = (uint64_t)(uintptr_t)q->doorbell;
	*out = q;
	return 0;
out:
	if (q->live)
		kfd_queue_destroy(kfd, q->id, NULL);
	queue_free(q);
	return rc;
}

int queue_destroy(struct queue *q)
{
	bool consumed;
	int rc;

	if (!q)
		return 0;
	rc = kfd_queue_destroy(q->ctx->kfd, q->id, &consumed);
	if (!consumed)
		return rc;
	queue_free(q);
	return rc;
}

bool queue_gone(int rc)
{
	return rc == -ETIME || rc == -ETIMEDOUT || rc == -EIO;
}

uint32_t queue_id(const struct queue *q)
{
	return q->id;
}

uint64_t queue_va(const struct queue *q)
{
	return bo_va(q->page_bo) + offsetof(struct queue_page, queue);
}

const struct queue_plan *queue_plan_of(const struct queue *q)
{
	return &q->plan;
}

bool queue_traps_reported(const struct queue *q)
{
	return q->ctx->trap;
}
