/* Waiting, and why a wait ends early. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "queues/internal.h"

/* A dispatch of a few microseconds is met by spinning; the interrupt costs about as much again. */
#define SPIN_NS 20000u
/* Interrupts can be lost when the kernel's fifo overflows (kfd_interrupt.c); look again now and
 * then. One wake-up a second is no load. */
#define RECHECK_MS 1000u
/* A wave's memory violation arrives before the kernel's own fault event, which has the address. */
#define FAULT_GRACE_MS 200u

enum { EV_SIGNAL, EV_MEMORY, EV_HW, EV_ERROR, EV_INACTIVE, EV_COUNT };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Where the address lies: in a buffer, alive or dead, or beyond the end of one. */
static void describe_address(struct queue *q, uint64_t va, char *text, size_t len)
{
	struct ledger_hit h;

	if (!memory_near(q->ctx->memory, va, &h))
		snprintf(text, len, "no buffer ever lived at or below it");
	else if (h.offset < h.size)
		snprintf(text, len,
			 "offset 0x%" PRIx64 " of \"%.40s\" (0x%" PRIx64 " bytes at 0x%" PRIx64
			 ", number %u%s)",
			 h.offset, h.owner, h.size, h.va, h.generation, h.alive ? "" : ", freed");
	else
		snprintf(text, len,
			 "0x%" PRIx64 " bytes past the end of \"%.40s\" (0x%" PRIx64
			 " bytes at 0x%" PRIx64 ", number %u%s)",
			 h.offset - h.size, h.owner, h.size, h.va, h.generation,
			 h.alive ? "" : ", freed");
}

static void memory_fault(struct queue *q, const struct kfd_event_data *e, struct queue_fault *f)
{
	struct kfd_fault_status st;
	char where[160];
	uint64_t page;
	uint32_t status;
	const char *access = "access to";

	memset(f, 0, sizeof(*f));
	f->kind = QUEUE_FAULT_MEMORY;
	f->va = e->memory.va;
	f->not_present = e->memory.not_present;
	f->read_only = e->memory.read_only;
	f->reason = __atomic_load_n(&q->page->error, __ATOMIC_ACQUIRE);
	describe_address(q, f->va, where, sizeof(where));
	/* The status register says the direction, where the kernel hands it on. */
	if (kfd_fault_last(q->ctx->kfd, &page, &status) == 0 && page == f->va && status) {
		kfd_fault_status_decode(status, &st);
		access = st.atomic ? "atomic on" : st.write ? "write to" : "read of";
	} else if (f->read_only) {
		access = "write to";
	}
	snprintf(f->text, sizeof(f->text), "memory fault: %s page 0x%" PRIx64 " (%s): %s", access,
		 f->va,
		 f->not_present ? "not mapped"
		 : f->read_only ? "read-only"
				: "cause unknown",
		 where);
}

static void hw_fault(const struct kfd_event_data *e, struct queue_fault *f)
{
	memset(f, 0, sizeof(*f));
	f->kind = QUEUE_FAULT_HW;
	snprintf(f->text, sizeof(f->text),
		 "GPU reset (%s)%s; this process's queues cannot run again",
		 e->hw.reset_cause == 0 ? "hang" : "ECC error",
		 e->hw.memory_lost ? ", VRAM contents lost" : "");
}

static void error_fault(struct queue *q, uint64_t word, struct queue_fault *f)
{
	int n;

	memset(f, 0, sizeof(*f));
	f->reason = word;
	f->kind = word & (KFD_EC_MASK(EC_QUEUE_PACKET_DISPATCH_DIM_INVALID) - 1)
			  ? QUEUE_FAULT_WAVE
			  : QUEUE_FAULT_PACKET;
	n = snprintf(f->text, sizeof(f->text), "queue %u stopped at packet %" PRIu64 ": ", q->id,
		     queue_read_index(q));
	kfd_exception_names(word, f->text + n, sizeof(f->text) - (size_t)n);
}

/* Polls the sticky events; grace_ms waits for one of the two fault events alone. True and *f filled
 * when one of them fired. */
static bool fault_events(struct queue *q, uint32_t grace_ms, struct queue_fault *f)
{
	struct kfd_event_data e[2] = {{.event_id = q->ctx->memory_event.id},
				      {.event_id = q->ctx->hw_event.id}};

	if (kfd_events_wait(q->ctx->kfd, e, 2, false, grace_ms, NULL) != 0)
		return false;
	if (e[0].memory.gpu_id) {
		memory_fault(q, &e[0], f);
		return true;
	}
	if (e[1].hw.gpu_id) {
		hw_fault(&e[1], f);
		return true;
	}
	return false;
}

/* The error word, if set: -EFAULT. */
static int check_error(struct queue *q, struct queue_fault *f)
{
	/* pairs with the kernel's store before it sets the error event
	 * (kfd_process.c:send_exception_work_handler) */
	uint64_t word = __atomic_load_n(&q->page->error, __ATOMIC_ACQUIRE);

	if (!word)
		return 0;
	if (word & (KFD_EC_MASK(EC_QUEUE_WAVE_MEMORY_VIOLATION) |
		    KFD_EC_MASK(EC_QUEUE_WAVE_APERTURE_VIOLATION)) &&
	    fault_events(q, FAULT_GRACE_MS, f))
		return -EFAULT;
	error_fault(q, word, f);
	return -EFAULT;
}

static void remember_age(struct signal *s, uint64_t age)
{
	uint64_t old = atomic_load_explicit(&s->age, memory_order_relaxed);

	while (age > old && !atomic_compare_exchange_weak_explicit(
				    &s->age, &old, age, memory_order_relaxed, memory_order_relaxed))
		;
}

/* 1: not yet; 0: complete, and nothing on this queue went wrong so far; -EFAULT. A packet can
 * complete beside or behind one whose waves died, and what it read is then anybody's guess. */
static int look(struct queue *q, struct signal *s, int64_t below, struct queue_fault *f)
{
	return signal_value_acquire(s->s) < below ? check_error(q, f) : 1;
}

int signal_wait(struct queue *q, struct signal *s, int64_t below, uint64_t timeout_ns,
		struct queue_fault *fault)
{
	struct queue_fault scrap = {0}, *f = fault ? fault : &scrap;
	uint64_t start, deadline, now;
	int rc;

	rc = look(q, s, below, f);
	if (rc <= 0)
		return rc;
	now = start = now_ns();
	deadline = timeout_ns && timeout_ns < UINT64_MAX - start ? start + timeout_ns : UINT64_MAX;
	while (now - start < SPIN_NS && now < deadline) {
		for (unsigned i = 0; i < 32; i++) {
			rc = look(q, s, below, f);
			if (rc <= 0)
				return rc;
			__builtin_ia32_pause();
		}
		now = now_ns();
	}

	for (;;) {
		/* The age is read before the value: a completion that falls between the two changes
		 * the age, and the kernel then returns at once. */
		struct kfd_event_data e[EV_COUNT] = {
			[EV_SIGNAL] = {.event_id = s->event.id,
				       .last_event_age = atomic_load(&s->age)},
			[EV_MEMORY] = {.event_id = q->ctx->memory_event.id},
			[EV_HW] = {.event_id = q->ctx->hw_event.id},
			[EV_ERROR] = {.event_id = q->error_event.id},
			[EV_INACTIVE] = {.event_id = q->inactive_event.id},
		};
		uint64_t age = e[EV_SIGNAL].last_event_age, left_ms;
		uint32_t ms = RECHECK_MS;

		rc = look(q, s, below, f);
		if (rc <= 0)
			return rc;
		rc = queue_inactive_service(q, f);
		if (rc < 0)
			return rc;
		rc = check_error(q, f);
		if (rc < 0)
			return rc;
		now = now_ns();
		if (now >= deadline)
			return -ETIMEDOUT;
		if (deadline != UINT64_MAX) {
			left_ms = (deadline - now + 999999) / 1000000;
			if (left_ms < ms)
				ms = (uint32_t)left_ms;
		}
		rc = kfd_events_wait(q->ctx->kfd, e, EV_COUNT, false, ms, NULL);
		if (rc < 0 && rc != -EINTR)
			return rc;
		if (rc != 0)
			continue; /* timed out or interrupted: look again */
		if (e[EV_SIGNAL].last_event_age != age)
			remember_age(s, e[EV_SIGNAL].last_event_age);
		/* Work that completed before a fault of another queue is complete. */
		rc = look(q, s, below, f);
		if (rc <= 0)
			return rc;
		if (e[EV_MEMORY].memory.gpu_id) {
			memory_fault(q, &e[EV_MEMORY], f);
			return -EFAULT;
		}
		if (e[EV_HW].hw.gpu_id) {
			hw_fault(&e[EV_HW], f);
			return -EFAULT;
		}
	}
}
