/* Queues: mapping, errors, events, signals. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cp/internal.h"
#include "device.h"

struct cp_stats cp_stat;

static void take_mqd(struct cp_queue *q, const struct cp_mqd *mqd)
{
	q->mqd = *mqd;
	vm_port_init(&q->port, mqd->vm, mqd->type == CP_SDMA ? VM_CLIENT_SDMA0 : VM_CLIENT_CPF);
	q->amd_queue = 0;
}

int cp_queue_create(const struct cp_mqd *mqd, struct cp_doorbells *d, struct cp_queue **out)
{
	struct cp_queue *q;
	uint64_t *slot = cp_doorbell_slot(d, mqd->doorbell);
	int r;

	if (!slot)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	pthread_mutex_init(&q->lock, NULL);
	take_mqd(q, mqd);
	q->db = d;
	q->saved.control_stack_offset = q->saved.wave_state_offset = mqd->ctl_stack_bytes;
	for (unsigned i = 0; i < CP_WINDOW; i++)
		q->dispatch[i].q = q;
	r = mqd->type == CP_SDMA ? 0 : cp_pm4_open(q);
	if (r) {
		free(q);
		return r;
	}
	/* A number left by an earlier owner of this doorbell is no ring of this queue's. */
	__atomic_store_n(slot, CP_DOORBELL_IDLE, __ATOMIC_RELAXED);
	*out = q;
	return 0;
}

void cp_queue_destroy(struct cp_queue *q)
{
	if (check_on)
		check_queue_gone(q->mqd.queue_id);
	cp_sched_discard(q);
	pthread_mutex_destroy(&q->lock);
	free(q->pm4);
	free(q);
}

int cp_queue_map(struct cp_queue *q)
{
	int r = cp_start(vgpu_config.workers);

	if (r)
		return r;
	pthread_mutex_lock(&q->lock);
	if (q->mapped) {
		pthread_mutex_unlock(&q->lock);
		return -EBUSY;
	}
	q->mapped = true;
	pthread_mutex_unlock(&q->lock);
	cp_mes_add(q);
	cp_engine_add(q);
	cp_kick();
	return 0;
}

/* MES does not answer: its time passes, nothing else happens. */
static int no_answer(struct cp_queue *q)
{
	uint64_t end = vgpu_clock_ns() + CP_MES_TIMEOUT_NS, now;

	if (vgpu_config.clock_virtual)
		vgpu_clock_advance(end);
	while ((now = vgpu_clock_ns()) < end) {
		struct timespec ts = vgpu_timespec(end - now);

		nanosleep(&ts, NULL);
	}
	vgpu_log("vgpu: queue %u cannot be taken off (%s)", q->mqd.queue_id,
		 q->mqd.hangs ? "hang = queue" : "rule.mes_remove_queue");
	return -ETIMEDOUT;
}

int cp_queue_unmap(struct cp_queue *q)
{
	int r = 0;

	pthread_mutex_lock(&q->lock);
	if (!q->mapped)
		r = -EINVAL;
	else if (q->mqd.hangs || !vgpu_rule(RULE_mes_remove_queue))
		r = -ETIMEDOUT;
	if (!r)
		q->mapped = false;
	pthread_mutex_unlock(&q->lock);
	if (r)
		return r == -ETIMEDOUT ? no_answer(q) : r;
	cp_engine_remove(q);
	if (cp_mes_remove(q, false))
		return 0;
	vgpu_log("vgpu: queue %u cannot be taken off (a trap handler does not return)",
		 q->mqd.queue_id);
	return -ETIMEDOUT;
}

void cp_queue_reset(struct cp_queue *q)
{
	bool mapped;

	pthread_mutex_lock(&q->lock);
	mapped = q->mapped;
	q->mapped = false;
	q->failed = true;
	__atomic_store_n(&q->killed, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&q->lock);
	if (mapped)
		cp_engine_remove(q);
	cp_mes_remove(q, true);
	cp_sched_discard(q);
	q->in_area = false;
}

bool cp_queue_mapped(const struct cp_queue *q)
{
	return __atomic_load_n(&q->mapped, __ATOMIC_RELAXED);
}

int cp_queue_update(struct cp_queue *q, const struct cp_mqd *mqd)
{
	int r = 0;

	pthread_mutex_lock(&q->lock);
	if (q->mapped || mqd->type != q->mqd.type)
		r = -EINVAL;
	else
		take_mqd(q, mqd);
	pthread_mutex_unlock(&q->lock);
	return r;
}

void cp_queue_set_trap_handler(struct cp_queue *q, uint64_t tba, uint64_t tma)
{
	pthread_mutex_lock(&q->lock);
	q->mqd.tba = tba;
	q->mqd.tma = tma;
	pthread_mutex_unlock(&q->lock);
}

int cp_queue_wave_state(struct cp_queue *q, struct cp_wave_state *out)
{
	int r = 0;

	pthread_mutex_lock(&q->lock);
	if (q->mapped || q->mqd.type == CP_SDMA) {
		r = -EINVAL;
		goto out;
	}
	*out = q->saved;
out:
	pthread_mutex_unlock(&q->lock);
	return r;
}

unsigned cp_queue_waves(struct cp_queue *q)
{
	return cp_sched_waves(q);
}

/* ---- errors -------------------------------------------------------------- */

/* Whose interrupt it is: of a ring, which job's, because the next one may have begun when it is served. */
static uint32_t irq_number(const struct cp_queue *q)
{
	return q->ring ? q->ring->number : q->mqd.queue_id;
}

void cp_event(struct cp_queue *q, uint32_t event_id)
{
	struct cp_irq irq = {
		.kind = CP_IRQ_EVENT,
		.process = q->mqd.process,
		.ring = q->ring ? q : NULL,
		.queue_id = irq_number(q),
		.event_id = event_id,
	};

	/* Ahead of the interrupt: whoever it wakes knows. */
	if (check_on)
		check_event(event_id);
	cp_irq_post(&irq);
}

/* Hundreds of waves die of one mistake: one line for the terminal, all of them in the log. Said here
 * and not by who serves the interrupt: a client that sees the error in memory may be gone by then. */
void cp_queue_say(struct cp_queue *q, const char *text)
{
	char name[32];

	if (q->ring)
		snprintf(name, sizeof(name), "ring %s", q->ring->name);
	else
		snprintf(name, sizeof(name), "queue %u", q->mqd.queue_id);
	if (__atomic_fetch_add(&q->reports, 1, __ATOMIC_RELAXED))
		vgpu_log("%s: %s", name, text);
	else
		vgpu_report("%s: %s", name, text);
}

unsigned cp_queue_reports(const struct cp_queue *q)
{
	return __atomic_load_n(&q->reports, __ATOMIC_RELAXED);
}

void cp_queue_fault(struct cp_queue *q, const struct vm_fault *f, const char *fmt, ...)
{
	struct cp_irq irq = {
		.kind = CP_IRQ_VM_FAULT,
		.process = q->mqd.process,
		.ring = q->ring ? q : NULL,
		.queue_id = irq_number(q),
		.fault = *f,
	};
	va_list ap;
	int n;

	n = snprintf(irq.text, sizeof(irq.text), "%s at 0x%lx %s: ", f->write ? "store" : "load",
		     f->va.a,
		     f->misaligned    ? "is not aligned for an atomic"
		     : f->not_present ? "hits no mapping"
		     : f->no_exec     ? "hits memory that is not executable"
				      : "hits read-only memory");
	va_start(ap, fmt);
	vsnprintf(irq.text + n, sizeof(irq.text) - (size_t)n, fmt, ap);
	va_end(ap);
	q->failed = true;
	CP_COUNT(faults, 1);
	cp_irq_post(&irq);
}

bool cp_queue_more(struct cp_queue *q)
{
	static const char *const what[] = {
		[CP_PM4] = "PM4 write pointer",
		[CP_SDMA] = "SDMA write pointer",
		[CP_AQL] = "write_dispatch_id",
	};

	if (q->next != q->wptr)
		return true;
	if (!q->rung || q->ring)
		return false;
	q->rung = false;
	/* Acquire: pairs with the client's release store before its ring. */
	if (vm_load64(&q->port, q->mqd.wptr, &q->wptr)) {
		cp_queue_fault(q, &q->port.fault, "%s", what[q->mqd.type]);
		return false;
	}
	if (check_on)
		check_looked(&q->check, q->wptr);
	if (q->wptr < q->next)
		q->wptr = q->next;
	return q->wptr > q->next;
}

void cp_queue_fail(struct cp_queue *q, unsigned ec, uint64_t inactive, const char *fmt, ...)
{
	struct cp_irq irq = {
		.kind = CP_IRQ_QUEUE_ERROR,
		.process = q->mqd.process,
		.ring = q->ring ? q : NULL,
		.queue_id = irq_number(q),
		.code = ec,
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(irq.text, sizeof(irq.text), fmt, ap);
	va_end(ap);
	q->failed = true;
	cp_queue_say(q, irq.text);
	/* AQL: the queue's inactive signal carries the packet processor's own error word. */
	if (inactive && q->inactive_signal)
		cp_signal_store(q, q->inactive_signal, (int64_t)inactive);
	cp_irq_post(&irq);
}

/* ---- signals (amd_signal_t, clients.md 4.4: value +8, mailbox +0x10, event id +0x18,
 *      start and end timestamps +0x20 and +0x28) */

static bool signal_event(struct cp_queue *q, uint64_t handle)
{
	uint64_t mailbox;
	uint32_t id;

	if (vm_load64(&q->port, gva(handle + 0x10), &mailbox) ||
	    vm_load32(&q->port, gva(handle + 0x18), &id))
		goto fault;
	if (!mailbox)
		return true;
	if (vm_store64(&q->port, gva(mailbox), id))
		goto fault;
	cp_event(q, id);
	return true;
fault:
	cp_queue_fault(q, &q->port.fault, "mailbox of signal 0x%lx", handle);
	return false;
}

bool cp_signal_store(struct cp_queue *q, uint64_t handle, int64_t value)
{
	if (vm_store64(&q->port, gva(handle + 8), (uint64_t)value)) {
		cp_queue_fault(q, &q->port.fault, "value of signal 0x%lx", handle);
		return false;
	}
	return signal_event(q, handle);
}

bool cp_signal_done(struct cp_queue *q, uint64_t handle, uint64_t start_ts)
{
	enum { PROFILING = 1u << 3 };

	if (!handle)
		return true;
	/* Firmware writes the times only where the queue asks for profiling. They precede the
	 * value: whoever sees the value may read them. */
	if (q->properties & PROFILING &&
	    (vm_store64(&q->port, gva(handle + 0x20), start_ts) ||
	     vm_store64(&q->port, gva(handle + 0x28), vgpu_clock_gpu())))
		goto fault;
	if (vm_add64(&q->port, gva(handle + 8), -1, NULL))
		goto fault;
	return signal_event(q, handle);
fault:
	cp_queue_fault(q, &q->port.fault, "completion signal 0x%lx", handle);
	return false;
}

/* ---- window -------------------------------------------------------------- */

struct cp_dispatch *cp_dispatch_get(struct cp_queue *q)
{
	for (unsigned i = 0; i < CP_WINDOW; i++)
		if (!q->dispatch[i].active)
			return &q->dispatch[i];
	return NULL;
}
