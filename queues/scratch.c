/* Scratch on demand: the handshake through the inactive signal.
 *
 * The command processor meets a packet whose private_segment_size exceeds what the queue has, stops
 * before it, stores a request in queue_inactive_signal and interrupts. We give memory, describe it
 * in the amd_queue and store 0; it tries the packet again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "queues/internal.h"

#define INACTIVE_SCRATCH_WAVE64 0x1u
#define INACTIVE_SCRATCH_DROP   0x200u /* use-once scratch no longer needed */
#define INACTIVE_SCRATCH_WAVE32 0x400u

/* Error bits of the inactive signal, as exception codes. */
static const struct {
	uint32_t bit;
	uint32_t code;
} inactive_errors[] = {
	{0x2, EC_QUEUE_PACKET_DISPATCH_DIM_INVALID},
	{0x4, EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID},
	{0x8, EC_QUEUE_PACKET_DISPATCH_CODE_INVALID},
	{0x20, EC_QUEUE_PACKET_UNSUPPORTED},
	{0x40, EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID},
	{0x80, EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID},
	{0x100, EC_QUEUE_PACKET_VENDOR_UNSUPPORTED},
	{0x20000000, EC_QUEUE_WAVE_APERTURE_VIOLATION},
	{0x40000000, EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION},
	{0x80000000, EC_QUEUE_WAVE_TRAP},
};

/* Frees what no packet can use any more; a free slot, or -1. */
static int retire_slot(struct queue *q)
{
	uint64_t read = queue_read_index(q);
	int slot = -1;

	for (int i = (int)(sizeof(q->old_scratch) / sizeof(q->old_scratch[0])) - 1; i >= 0; i--) {
		if (q->old_scratch[i].bo && read >= q->old_scratch[i].until) {
			bo_retire(q->old_scratch[i].bo);
			q->old_scratch[i].bo = NULL;
		}
		if (!q->old_scratch[i].bo)
			slot = i;
	}
	return slot;
}

/* The packet that asked is at or behind the read index: earlier ones may still be running. What the
 * neediest of those waiting asks for serves them all. */
static uint32_t wanted_bytes(const struct queue *q)
{
	uint32_t max = 0;

	for (uint64_t i = queue_read_index(q), end = queue_write_index(q); i < end; i++) {
		const struct aql_packet *p = &q->ring[i & q->mask];

		if (aql_header_type(p->dispatch.header) == AQL_DISPATCH &&
		    p->dispatch.private_bytes > max)
			max = p->dispatch.private_bytes;
	}
	return max;
}

int queue_scratch_give(struct queue *q, uint32_t lane_bytes, uint32_t lanes)
{
	const struct topology_node *n = kfd_node(q->ctx->kfd);
	struct scratch_plan p;
	struct bo *bo = NULL;
	int rc = -ENOMEM, old;

	old = retire_slot(q);
	if (q->scratch_bo && old < 0) {
		kfd_reason_set(
			"scratch refused: %zu smaller ones are still in use by packets in flight",
			sizeof(q->old_scratch) / sizeof(q->old_scratch[0]));
		return -EBUSY;
	}
	/* All wave slots if there is memory for it, fewer otherwise: slower, but it runs. */
	for (uint32_t divide = 1; divide <= 32; divide *= 2) {
		rc = scratch_plan_compute(lane_bytes, lanes, q->plan.cus,
					  topology_shader_engines(n),
					  (uint32_t)n->max_slots_scratch_cu, divide, &p);
		if (rc < 0) {
			kfd_reason_set("scratch refused: %u bytes per work-item in waves of %u; "
				       "wanted: at most "
				       "8387584 bytes per wave",
				       lane_bytes, lanes);
			return rc;
		}
		rc = bo_create(q->ctx->memory,
			       &(struct bo_desc){.owner = "scratch",
						 .size = p.bytes,
						 .align = 65536,
						 .grain = 4096,
						 .placement = BO_VRAM,
						 .coherence = BO_COARSE,
						 .uses = BO_HOST_DECLARED},
			       &bo);
		if (rc != -ENOMEM)
			break;
	}
	if (rc < 0)
		return rc;
	rc = kfd_scratch_backing_set(q->ctx->kfd, bo_va(bo));
	if (rc < 0) {
		bo_retire(bo);
		return rc;
	}
	queue_layout_scratch(&q->page->queue, &p, bo_va(bo));
	if (q->scratch_bo) {
		q->old_scratch[old].bo = q->scratch_bo;
		q->old_scratch[old].until = queue_write_index(q);
	}
	q->scratch_bo = bo;
	return 0;
}

int queue_inactive_service(struct queue *q, struct queue_fault *fault)
{
	struct amd_signal *s = &q->page->inactive;
	uint64_t value = (uint64_t)signal_value_acquire(s), reason = 0;
	uint64_t strange = ~(uint64_t)(INACTIVE_SCRATCH_WAVE64 | INACTIVE_SCRATCH_DROP |
				       INACTIVE_SCRATCH_WAVE32);
	int rc = 0, n;

	if (!value)
		return 0;
	pthread_mutex_lock(&q->scratch_lock);
	/* Another waiter may have been faster. */
	value = (uint64_t)signal_value_acquire(s);
	for (size_t i = 0; i < sizeof(inactive_errors) / sizeof(inactive_errors[0]); i++) {
		strange &= ~(uint64_t)inactive_errors[i].bit;
		if (value & inactive_errors[i].bit)
			reason |= KFD_EC_MASK(inactive_errors[i].code);
	}
	if (value & strange) {
		/* Answered with 0 the queue would go on, past something nobody understood. */
		memset(fault, 0, sizeof(*fault));
		fault->kind = QUEUE_FAULT_PACKET;
		snprintf(fault->text, sizeof(fault->text),
			 "queue %u stopped at packet %" PRIu64
			 ": the command processor reports 0x%" PRIx64 ", which is not known here",
			 q->id, queue_read_index(q), value);
		rc = -EFAULT;
	} else if (reason) {
		memset(fault, 0, sizeof(*fault));
		fault->kind = reason >= KFD_EC_MASK(16) ? QUEUE_FAULT_PACKET : QUEUE_FAULT_WAVE;
		fault->reason = reason;
		n = snprintf(fault->text, sizeof(fault->text),
			     "queue %u stopped at packet %" PRIu64 ": ", q->id,
			     queue_read_index(q));
		kfd_exception_names(reason, fault->text + n, sizeof(fault->text) - (size_t)n);
		rc = -EFAULT;
	} else if (value & (INACTIVE_SCRATCH_WAVE64 | INACTIVE_SCRATCH_WAVE32)) {
		uint32_t bytes = wanted_bytes(q);
		uint32_t lanes = value & INACTIVE_SCRATCH_WAVE32 ? 32 : 64;

		rc = queue_scratch_give(q, bytes, lanes);
		if (rc < 0) {
			memset(fault, 0, sizeof(*fault));
			fault->kind = QUEUE_FAULT_PACKET;
			snprintf(fault->text, sizeof(fault->text),
				 "queue %u: a packet needs %u bytes of scratch per work-item, "
				 "which cannot be "
				 "had: %.140s",
				 q->id, bytes, kfd_reason());
		}
	}
	if (rc == 0)
		/* pairs with the command processor's acquire when it polls for 0: it then reads the
		 * scratch fields */
		__atomic_store_n(&s->value, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&q->scratch_lock);
	return rc;
}
