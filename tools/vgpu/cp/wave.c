/* What waves do to the world outside themselves, and what becomes of one that stops. */
#include <stdio.h>
#include <string.h>

#include "cp/internal.h"
#include "device.h"

/* ---- side effects of waves ----------------------------------------------- */

void cp_insn_text(struct isa_exec *x, uint64_t pc, char *buf, unsigned len)
{
	uint32_t words[4];
	unsigned n = 4;

	while (n && vm_read(x->imem, VM_FETCH, gva(pc), words, 4 * n, 0))
		n--;
	if (n)
		isa_disasm(words, n, pc, buf, len);
	else
		snprintf(buf, len, "unreadable");
}

void cp_wave_describe(struct isa_exec *x, struct isa_group *g, struct isa_wave *w, uint64_t pc,
		      char *buf, unsigned len)
{
	char text[128];

	cp_insn_text(x, pc, text, sizeof(text));
	snprintf(buf, len, "PC 0x%lx (kernel 0x%lx %+ld): %s; group %u,%u,%u wave %u", pc,
		 g->d->kernel_object, (long)(pc - g->d->entry), text, w->group_id[0],
		 w->group_id[1], w->group_id[2], w->wave_in_group);
}

static void on_sendmsg(struct isa_exec *x, uint32_t simm, uint32_t m0)
{
	enum { MSG_INTERRUPT = 1, MSG_DEALLOC_VGPRS = 3, STATUS_NO_VGPRS = 1u << 24 };
	struct cp_dispatch *d = x->group->d;
	uint32_t id = m0 & 0xffffff; /* kfd_int_process_v11.c: WAVE_CTXID0.DATA */
	struct cp_irq irq = {
		.process = d->q->mqd.process,
		.queue_id = d->q->mqd.queue_id,
	};
	char where[180];

	if ((simm & 0xff) == MSG_DEALLOC_VGPRS)
		x->w->status |= STATUS_NO_VGPRS;
	if ((simm & 0xff) != MSG_INTERRUPT)
		return;
	if (!x->w->priv) {
		irq.kind = CP_IRQ_EVENT;
		irq.event_id = id;
		cp_irq_post(&irq);
		return;
	}
	/* From a trap handler the message is doorbell [9:0] and a mask of exceptions [23:10]. */
	irq.kind = CP_IRQ_QUEUE_ERROR;
	cp_wave_describe(x, x->group, x->w,
			 x->w->s[OPR_TTMP0] | (uint64_t)(x->w->s[OPR_TTMP0 + 1] & 0xffff) << 32,
			 where, sizeof(where));
	for (unsigned bit = 0; bit < 14; bit++) {
		if (!(id >> (10 + bit) & 1))
			continue;
		irq.code = bit + 1;
		snprintf(irq.text, sizeof(irq.text), "trap handler reports %s (exception %u) at %s",
			 cp_exception_name(irq.code), irq.code, where);
		cp_queue_say(d->q, irq.text);
		cp_irq_post(&irq);
	}
}

static uint64_t on_msg_rtn(struct isa_exec *x, uint32_t msg)
{
	enum { GET_DOORBELL = 0x80, GET_DDID, GET_TMA, GET_REALTIME, SAVE_WAVE, GET_TBA };
	struct cp_dispatch *d = ((struct isa_group *)x->group)->d;

	switch (msg & 0xff) {
	case GET_DOORBELL:
		return d->q->mqd.doorbell;
	case GET_TMA:
		return x->w->tma >> 8;
	case GET_TBA:
		return x->w->tba >> 8;
	case GET_REALTIME:
		return vgpu_clock_gpu();
	}
	return 0;
}

static uint64_t on_realtime(struct isa_exec *x)
{
	(void)x;
	return vgpu_clock_gpu();
}

void cp_wave_hooks(struct isa_exec *x)
{
	x->sendmsg = on_sendmsg;
	x->msg_rtn = on_msg_rtn;
	x->realtime = on_realtime;
	x->missing = cp_missing_wait;
}

/* ---- a wave stops -------------------------------------------------------- */

static void count_stop(struct isa_exec *x, struct isa_wave *w)
{
	struct isa_insn in = {0};
	uint32_t words[5];
	unsigned n = 5;

	if (!x->count)
		return;
	while (n && vm_read(x->imem, VM_FETCH, gva(w->pc), words, 4 * n, 0))
		n--;
	if (n && isa_decode(words, n, &in) > 0)
		count_refused(x->count, in.op);
}

/* Deals with a halted wave. True: it runs on (in its trap handler). */
bool cp_wave_stopped(struct isa_exec *x, struct isa_group *g, struct isa_wave *w)
{
	enum {
		TRAPSTS_MEM_VIOL = 1u << 8,
		TRAPSTS_ILLEGAL_INST = 1u << 11,
		TRAPSTS_XNACK_ERROR = 1u << 28,
	};
	struct cp_queue *q = g->d->q;
	struct vm_fault f;
	char where[180];
	bool on = false;

	switch ((enum isa_stop)w->stop) {
	case STOP_NONE: /* s_sethalt: waits for a debugger */
		return false;
	case STOP_TRAP:
		return cp_trap_enter(g->d, w, w->trap_id);
	case STOP_MEM_FAULT:
	case STOP_FETCH_FAULT:
		f = x->vmem->fault.lanes   ? x->vmem->fault
		    : x->smem->fault.lanes ? x->smem->fault
					   : x->imem->fault;
		cp_wave_describe(x, g, w, w->pc, where, sizeof(where));
		w->trapsts |= TRAPSTS_MEM_VIOL;
		if (f.misaligned) {
			/* The memory pipeline refuses it; no page table was asked, none faults. */
			if (cp_trap_enter(g->d, w, 0))
				return true;
			pthread_mutex_lock(&q->lock);
			cp_queue_fail(q, EC_WAVE_APERTURE, 0, "atomic on 0x%lx, not aligned, at %s",
				      f.va.a, where);
			break;
		}
		w->trapsts |= TRAPSTS_XNACK_ERROR; /* translation failed */
		if (w->stop == STOP_MEM_FAULT)
			on = cp_trap_enter(g->d, w, 0);
		pthread_mutex_lock(&q->lock);
		cp_queue_fault(q, &f, "%s", where);
		break;
	case STOP_ILLEGAL:
		cp_wave_describe(x, g, w, w->pc, where, sizeof(where));
		w->trapsts |= TRAPSTS_ILLEGAL_INST;
		if (cp_trap_enter(g->d, w, 0))
			return true;
		pthread_mutex_lock(&q->lock);
		cp_queue_fail(q, EC_WAVE_ILLEGAL, 0, "illegal instruction at %s", where);
		break;
	case STOP_DIFFERS:
		pthread_mutex_lock(&q->lock);
		cp_queue_fail(q, EC_WAVE_ILLEGAL, 0,
			      "compiled code and interpreter differ: %s; group %u,%u,%u wave %u",
			      jit_difference(), w->group_id[0], w->group_id[1], w->group_id[2],
			      w->wave_in_group);
		break;
	case STOP_UNSUPPORTED:
	default:
		cp_wave_describe(x, g, w, w->pc, where, sizeof(where));
		CP_COUNT(unsupported, 1);
		count_stop(x, w);
		pthread_mutex_lock(&q->lock);
		cp_queue_fail(q, EC_WAVE_ILLEGAL, 0,
			      "the virtual device does not implement the instruction at %s", where);
		break;
	}
	/* Nothing new starts from this queue, and without a handler nothing of it goes on. */
	if (!on)
		__atomic_store_n(&q->preempt, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&q->lock);
	cp_sched_unlist(q);
	return on;
}
