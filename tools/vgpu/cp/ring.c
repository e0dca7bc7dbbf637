/* Rings of the driver's own (amdgpu_ring.c): what a render node's clients submit to. See cp.h.
 *
 * There is no ring buffer here: a job is what the driver's packets in one come to, which are a switch
 * of the address space, the indirect buffers one after the other, a fence behind all of their waves, and
 * the interrupt (amdgpu_ib.c:amdgpu_ib_schedule). The packets in the buffers are executed by the same
 * interpreters as those of KFD's queues.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cp/internal.h"
#include "device.h"

/* VMIDs below KFD's are the driver's (amdgpu_vm_manager: first_kfd_vmid is 8). */
#define DRIVER_VMID 1

static void ring_init(struct cp_queue *q, const struct cp_mqd *mqd, const char *name)
{
	pthread_mutex_init(&q->lock, NULL);
	q->mqd = *mqd;
	q->vmid = DRIVER_VMID;
	q->ring->name = name;
	q->ring->tail = &q->ring->jobs;
	q->ring->over_tail = &q->ring->over;
	for (unsigned i = 0; i < CP_WINDOW; i++)
		q->dispatch[i].q = q;
}

int cp_ring_create(const struct cp_mqd *mqd, const char *name, struct cp_queue **out)
{
	struct cp_queue *q = calloc(1, sizeof(*q));
	int err = -ENOMEM;

	if (!q)
		return err;
	q->ring = calloc(1, sizeof(*q->ring));
	if (!q->ring)
		goto out;
	ring_init(q, mqd, name);
	err = mqd->type == CP_SDMA ? 0 : cp_pm4_open(q);
	if (!err)
		err = cp_queue_map(q);
	if (err)
		goto out;
	*out = q;
	return 0;
out:
	free(q->pm4);
	free(q->ring);
	free(q);
	return err;
}

void cp_ring_submit(struct cp_queue *q, struct cp_job *job)
{
	job->next = NULL;
	job->at = 0;
	job->begun = false;
	pthread_mutex_lock(&q->lock);
	*q->ring->tail = job;
	q->ring->tail = &job->next;
	q->rung = true;
	pthread_mutex_unlock(&q->lock);
	cp_kick();
}

struct cp_job *cp_ring_reap(struct cp_queue *q)
{
	struct cp_ring *r = q->ring;
	struct cp_job *job;

	pthread_mutex_lock(&q->lock);
	job = r->over;
	if (job) {
		r->over = job->next;
		if (!r->over)
			r->over_tail = &r->over;
	}
	pthread_mutex_unlock(&q->lock);
	return job;
}

/* The job's buffers and waves are through: the fence, then the interrupt. */
static void retire(struct cp_queue *q)
{
	const struct cp_irq irq = {.kind = CP_IRQ_RING, .ring = q};
	struct cp_ring *r = q->ring;
	struct cp_job *job = r->jobs;

	r->jobs = job->next;
	if (!r->jobs)
		r->tail = &r->jobs;
	/* Release: what the job stored comes before. Pairs with the client's load of its fence. */
	if (job->fence)
		__atomic_store_n(job->fence, job->fence_value, __ATOMIC_RELEASE);
	job->next = NULL;
	*r->over_tail = job;
	r->over_tail = &job->next;
	cp_irq_post(&irq);
}

static void begin(struct cp_queue *q, struct cp_job *job)
{
	job->begun = true;
	q->ring->number = job->number;
	q->mqd.vm = job->vm;
	vm_port_init(&q->port, job->vm, q->mqd.type == CP_SDMA ? VM_CLIENT_SDMA0 : VM_CLIENT_CPC);
	/* Caches are invalidated with the switch (amdgpu_vm_flush). */
	isa_icache_invalidate();
	if (q->pm4)
		cp_pm4_forget(q);
}

void cp_ring_run(struct cp_queue *q)
{
	struct cp_ring *r = q->ring;

	q->poll = false;
	q->rung = false;
	while (r->jobs && !r->stuck) {
		struct cp_job *job = r->jobs;

		if (!job->begun)
			begin(q, job);
		for (; job->at < job->n_ibs; job->at++) {
			const struct cp_ib *ib = &job->ib[job->at];
			bool through = q->pm4 ? cp_pm4_buffer(q, ib->va, ib->dwords)
					      : cp_sdma_buffer(q, ib->va, ib->dwords);

			/* This thread has the lock, so it was no wave that failed: the packet
			 * processor itself stands in front of something that it cannot do. */
			r->stuck = q->failed;
			if (!through)
				return;
			CP_COUNT(packets, 1);
		}
		if (q->in_flight)
			return; /* the last dispatch to complete runs the ring on */
		retire(q);
	}
}

/* Nothing of the ring runs when this returns, and its dispatches are over without having ended. With
 * the lock, given up meanwhile: it is resident no more, so nobody begins anything. */
static void kill_waves(struct cp_queue *q)
{
	q->resident = false;
	__atomic_store_n(&q->killed, true, __ATOMIC_RELAXED);
	__atomic_store_n(&q->preempt, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&q->lock);
	cp_sched_stop(q, true);
	cp_sched_discard(q);
	pthread_mutex_lock(&q->lock);
	for (unsigned i = 0; i < CP_WINDOW; i++)
		q->dispatch[i].active = false;
	q->in_flight = 0;
	memset(q->scratch_map, 0, sizeof(q->scratch_map));
	__atomic_store_n(&q->killed, false, __ATOMIC_RELAXED);
	__atomic_store_n(&q->preempt, false, __ATOMIC_RELEASE);
}

/* The packet processor begins anew, with the job that is first then. */
static void reset(struct cp_queue *q)
{
	struct cp_ring *r = q->ring;

	r->stuck = false;
	r->open = false;
	q->poll = false;
	if (q->pm4)
		cp_pm4_forget(q);
}

static void go_on(struct cp_queue *q)
{
	q->failed = q->ring->stuck;
	q->resident = true;
	q->rung = true;
}

bool cp_ring_kill_waves(struct cp_queue *q)
{
	bool goes_on;

	pthread_mutex_lock(&q->lock);
	kill_waves(q);
	go_on(q);
	cp_queue_run(q);
	goes_on = !q->failed && !q->poll;
	pthread_mutex_unlock(&q->lock);
	return goes_on;
}

void cp_ring_stop(struct cp_queue *q)
{
	struct cp_ring *r = q->ring;

	pthread_mutex_lock(&q->lock);
	kill_waves(q);
	reset(q);
	r->jobs = NULL;
	r->tail = &r->jobs;
	pthread_mutex_unlock(&q->lock);
}

void cp_ring_start(struct cp_queue *q)
{
	pthread_mutex_lock(&q->lock);
	go_on(q);
	pthread_mutex_unlock(&q->lock);
	cp_kick();
}

void cp_ring_drop(struct cp_queue *q, const struct vm *vm)
{
	struct cp_ring *r = q->ring;
	struct cp_job **p = &r->jobs;

	pthread_mutex_lock(&q->lock);
	if (r->jobs && r->jobs->begun && r->jobs->vm == vm) {
		kill_waves(q);
		reset(q);
		r->jobs = r->jobs->next;
		go_on(q);
	}
	while (*p) {
		if ((*p)->vm == vm)
			*p = (*p)->next;
		else
			p = &(*p)->next;
	}
	r->tail = p;
	pthread_mutex_unlock(&q->lock);
	cp_kick();
}
