/* What the files of queues/ share. */
#ifndef QUEUES_INTERNAL_H
#define QUEUES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kfd/kfd.h"
#include "memory/memory.h"
#include "queues/layout.h"
#include "queues/packet.h"
#include "queues/queues.h"

/* What all queues of one open device share. Made for the first queue, gone with the last queue and
 * the last signal. */
struct queue_context {
	struct queue_context *next;
	struct kfd *kfd;
	struct memory *memory;
	unsigned refs; /* queues and signals */
	struct kfd_event memory_event,
		hw_event; /* manual reset: a fault is for good, everybody sees it */
	bool have_memory_event, have_hw_event, runtime, trap;
	struct bo *trap_bo;
	void *doorbells;      /* the process's 8 KiB, mapped with the first queue */
	pthread_mutex_t lock; /* signal slabs */
	struct signal_slab *slabs;
};

int queue_context_get(struct kfd *kfd, struct memory *m, struct queue_context **out);
void queue_context_ref(struct queue_context *c);
void queue_context_put(struct queue_context *c);
int queue_context_doorbells(struct queue_context *c, uint64_t doorbell_offset);

/* The .text of an amdgpu code object without relocations. Pure. -EINVAL when it is not that. */
int trap_text(const void *image, size_t size, const void **text, size_t *len);

struct queue {
	struct queue_context *ctx;
	struct queue_plan plan;
	struct bo *ring_bo, *eop_bo, *area_bo, *page_bo, *scratch_bo;
	struct aql_packet *ring;
	struct queue_page *page;
	uint32_t *first_dword; /* per slot, kept out of the ring until commit */
	volatile uint64_t *doorbell;
	uint32_t mask;     /* packets - 1 */
	uint64_t reserved; /* packets handed out by queue_begin */
	uint32_t id;
	struct kfd_event error_event; /* the kernel sets it with the error word */
	struct kfd_event
		inactive_event; /* the command processor sets it with the inactive signal */
	bool have_error_event, have_inactive_event, live;
	pthread_mutex_t scratch_lock;
	/* Scratch that was replaced while packets up to `until` may still use it. */
	struct {
		struct bo *bo;
		uint64_t until;
	} old_scratch[16];
};

/* Answers what the command processor asked through the inactive signal. 0: nothing asked, or
 * scratch given; -EFAULT: it reported an error; -errno: scratch could not be had. fault filled on
 * failure. */
int queue_inactive_service(struct queue *q, struct queue_fault *fault);
int queue_scratch_give(struct queue *q, uint32_t lane_bytes, uint32_t lanes);

struct signal {
	struct queue_context *ctx;
	struct signal_slab *slab;
	struct amd_signal *s;
	struct kfd_event event;
	_Atomic uint64_t age; /* of the event, as last seen */
};

/* The signal value is written by the command processor: every access is atomic. */
static inline int64_t signal_value_acquire(const struct amd_signal *s)
{
	/* pairs with the command processor's release at packet completion */
	return __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
}

#endif
