/* Preemption: the waves of a queue that leaves the hardware go to its save area and come back from
 * there, not from a copy. What the device keeps by itself is what the packet processor and SPI
 * hold: which dispatch and workgroup a wave belongs to, its resources, its place in the group.
 *
 * Runs with q->lock held and nothing of q on a worker: the groups in the dispatches' lists are
 * nobody else's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cp/cwsr.h"
#include "cp/internal.h"
#include "device.h"

enum {
	EC_PREEMPTION = 30, /* EC_QUEUE_PREEMPTION_ERROR */
	STATUS_HALT = 1u << 13,
	STATUS_NO_VGPRS = 1u << 24,
};

struct area {
	struct cp_queue *q;
	struct vm_port port; /* the handler's stores are the waves' own */
	struct isa_group **groups;
	unsigned ngroups, nwaves;
	uint8_t *block;
	uint32_t *stack;
	unsigned words; /* of stack */
	uint32_t state[2];
	uint64_t bytes; /* of wave blocks */
};

static bool lives(const struct isa_wave *w)
{
	return w->state != WAVE_ENDED;
}

/* ---- which waves ---------------------------------------------------------- */

static unsigned list_groups(struct isa_group *g, struct isa_group **out, unsigned n)
{
	for (; g; g = g->next) {
		if (out)
			out[n] = g;
		n++;
	}
	return n;
}

/* Groups in the order they are launched again: older dispatches first. */
static unsigned all_groups(struct cp_queue *q, struct isa_group **out)
{
	struct cp_dispatch *order[CP_WINDOW] = {NULL}, *d;
	unsigned nd = 0, n = 0;

	for (unsigned i = 0; i < CP_WINDOW; i++) {
		unsigned at = nd;

		d = &q->dispatch[i];
		if (!d->saved && !d->stuck)
			continue;
		while (at && order[at - 1]->index > d->index) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = d;
		nd++;
	}
	for (unsigned i = 0; i < nd; i++) {
		n = list_groups(order[i]->saved, out, n);
		n = list_groups(order[i]->stuck, out, n);
	}
	return n;
}

/* The first and the last of g that still live; false if none does. */
static bool ends(const struct isa_group *g, unsigned *first, unsigned *last)
{
	bool any = false;

	for (unsigned i = 0; i < g->nwaves; i++) {
		if (!lives(group_wave(g, i)))
			continue;
		if (!any)
			*first = i;
		*last = i;
		any = true;
	}
	return any;
}

static void relaunch_of(const struct isa_group *g, unsigned i, unsigned first, unsigned last,
			struct cwsr_relaunch *r)
{
	const struct cp_dispatch *d = g->d;
	const struct isa_wave *w = group_wave(g, i);

	*r = (struct cwsr_relaunch){
		.nvgpr = w->nvgpr,
		.lds_bytes = w->lds_size,
		.wave64 = w->wave64,
		.first = i == first,
		.last = i == last,
		.se = w->hw_id1 >> 18 & 7,
	};
	/* The debugger finds a wave's scratch by engine and slot within its share. */
	if (d->scratch_wave_bytes) {
		r->scratch = true;
		r->se = g->scratch_slot[i] / d->scratch_per_se;
		r->scratch_slot = g->scratch_slot[i] % d->scratch_per_se;
	}
}

static void close_area(struct area *a)
{
	free(a->groups);
	free(a->block);
	free(a->stack);
}

static int open_area(struct area *a, struct cp_queue *q)
{
	unsigned first, last;
	uint32_t largest = 0;

	memset(a, 0, sizeof(*a));
	a->q = q;
	vm_port_init(&a->port, q->mqd.vm, VM_CLIENT_TCP);
	a->ngroups = all_groups(q, NULL);
	if (!a->ngroups)
		return 0;
	a->groups = calloc(a->ngroups, sizeof(struct isa_group *));
	if (!a->groups)
		return -ENOMEM;
	all_groups(q, a->groups);
	for (unsigned i = 0; i < a->ngroups; i++) {
		struct isa_group *g = a->groups[i];

		if (!ends(g, &first, &last))
			continue;
		for (unsigned k = first; k <= last; k++) {
			const struct isa_wave *w = group_wave(g, k);
			uint32_t n = cwsr_wave_bytes(w, k == first);

			if (!lives(w))
				continue;
			a->nwaves++;
			a->bytes += n;
			if (n > largest)
				largest = n;
		}
	}
	if (!a->nwaves)
		return 0;
	a->block = malloc(largest);
	a->stack = malloc((CWSR_STACK_HEAD + 3ul * a->nwaves) * 4);
	return a->block && a->stack ? 0 : -ENOMEM;
}

static uint64_t blocks_end(const struct area *a)
{
	return a->q->mqd.cwsr.a + a->q->mqd.ctl_stack_bytes + a->bytes;
}

/* ---- save ----------------------------------------------------------------- */

/* Brings a wave to where its handler would find it. */
static void settle(struct isa_group *g)
{
	for (unsigned i = 0; i < g->nwaves; i++) {
		struct isa_wave *w = group_wave(g, i);

		switch (w->state) {
		case WAVE_BARRIER:
			/* It has not passed: all of the group are saved, all arrive again. */
			w->pc -= 4;
			w->state = WAVE_RUN;
			break;
		case WAVE_SLEEP: /* the save wakes it */
			w->state = WAVE_RUN;
			break;
		case WAVE_HALTED:
			w->status |= STATUS_HALT;
			break;
		}
		/* Without registers there is nothing left of the program but its end. */
		if (w->state == WAVE_RUN && w->status & STATUS_NO_VGPRS) {
			w->state = WAVE_ENDED;
			g->live--;
		}
	}
}

/* Writes what the rules leave of the block in runs as long as they can be. */
static int write_block(struct area *a, uint64_t va, const struct isa_wave *w, bool lds)
{
	const uint32_t v = cwsr_vgpr_bytes(w), hw = v + CWSR_HWREGS;
	const struct {
		enum vgpu_rule rule;
		uint32_t off, len;
	} part[] = {
		{RULE_cwsr_save_vgprs, 0, v},
		{RULE_cwsr_save_sgprs, v, CWSR_HWREGS},
		{RULE_cwsr_save_m0, hw + 4 * CWSR_M0, 4},
		{RULE_cwsr_save_pc, hw + 4 * CWSR_PC_LO, 8},
		{RULE_cwsr_save_exec, hw + 4 * CWSR_EXEC_LO, 8},
		{RULE_cwsr_save_status, hw + 4 * CWSR_STATUS, 4},
		{RULE_cwsr_save_trapsts, hw + 4 * CWSR_TRAPSTS, 8},
		{RULE_cwsr_save_mode, hw + 4 * CWSR_MODE, 4},
		{RULE_cwsr_save_flat_scratch, hw + 4 * CWSR_FLAT_SCRATCH_LO, 8},
		{RULE_cwsr_save_ttmps, hw + 44, 20 + CWSR_TTMP_BYTES},
		{RULE_cwsr_save_lds, v + CWSR_LDS, lds ? w->lds_size : 0},
	};
	uint32_t from = 0, to = 0;

	for (unsigned i = 0; i < sizeof(part) / sizeof(*part); i++) {
		if (!vgpu_rule(part[i].rule) || !part[i].len)
			continue;
		if (part[i].off != to) {
			if (to > from &&
			    vm_write(&a->port, gva(va + from), a->block + from, to - from, 0))
				return -EFAULT;
			from = part[i].off;
		}
		to = part[i].off + part[i].len;
	}
	if (to > from && vm_write(&a->port, gva(va + from), a->block + from, to - from, 0))
		return -EFAULT;
	return 0;
}

static int save_group(struct area *a, struct isa_group *g, uint64_t *top)
{
	unsigned first, last;

	if (!ends(g, &first, &last))
		return 0;
	for (unsigned i = first; i <= last; i++) {
		struct isa_wave *w = group_wave(g, i);
		const uint8_t *lds = i == first ? g->lds : NULL;
		struct cwsr_relaunch r;
		uint32_t state[2];

		if (!lives(w))
			continue;
		relaunch_of(g, i, first, last, &r);
		cwsr_state_words(&r, state);
		if (memcmp(state, a->state, sizeof(state))) {
			memcpy(a->state, state, sizeof(state));
			memcpy(a->stack + a->words, state, sizeof(state));
			a->words += 2;
		}
		a->stack[a->words++] = cwsr_wave_word(&r);
		*top -= cwsr_wave_bytes(w, lds);
		cwsr_pack(w, lds, *top, a->block);
		if (write_block(a, *top, w, lds))
			return -EFAULT;
	}
	return 0;
}

static int save_all(struct area *a)
{
	const struct cp_mqd *m = &a->q->mqd;
	uint64_t top = blocks_end(a);
	int r = 0;

	if ((CWSR_STACK_HEAD + 3ull * a->nwaves) * 4 > m->ctl_stack_bytes ||
	    a->bytes + m->ctl_stack_bytes > m->cwsr_bytes) {
		/* The machine cannot hold more waves than its area: this would be our mistake. */
		vgpu_report("queue %u: %u waves with %lu bytes do not fit a save area of %u bytes "
			    "with a control stack of %u",
			    m->queue_id, a->nwaves, a->bytes, m->cwsr_bytes, m->ctl_stack_bytes);
		return -ENOSPC;
	}
	a->words = CWSR_STACK_HEAD;
	for (unsigned i = 0; i < a->ngroups && !r; i++)
		r = save_group(a, a->groups[i], &top);
	if (r)
		return r;
	cwsr_head_words(a->words - CWSR_STACK_HEAD, a->stack);
	return vm_write(&a->port, gva(m->cwsr.a + m->ctl_stack_bytes - 4ull * a->words), a->stack,
			4ull * a->words, 0);
}

void cp_cwsr_save(struct cp_queue *q)
{
	struct area a;
	int r;

	q->saved = (struct cp_wave_state){
		.control_stack_offset = q->mqd.ctl_stack_bytes,
		.wave_state_offset = q->mqd.ctl_stack_bytes,
	};
	q->in_area = false;
	if (q->mqd.type == CP_SDMA)
		return;
	for (unsigned i = 0; i < CP_WINDOW; i++) {
		for (struct isa_group *g = q->dispatch[i].saved; g; g = g->next)
			settle(g);
		for (struct isa_group *g = q->dispatch[i].stuck; g; g = g->next)
			settle(g);
	}
	r = open_area(&a, q);
	q->saved.saved_waves = a.nwaves;
	/* Without an area (amdgpu.cwsr_enable=0, or whoever drives this part alone) the waves stay
	 * what they are. */
	if (r || !a.nwaves || !q->mqd.cwsr.a)
		goto out;
	r = save_all(&a);
	if (r == -EFAULT && !q->failed)
		cp_queue_fault(q, &a.port.fault, "save area of queue %u", q->mqd.queue_id);
	if (r)
		goto out;
	q->saved.control_stack_offset -= 4 * a.words;
	q->saved.control_stack_size = 4 * a.words;
	q->saved.wave_state_offset += (uint32_t)a.bytes;
	q->saved.wave_state_size = (uint32_t)a.bytes;
	q->in_area = true;
	/* The registers go to others now. */
	for (unsigned i = 0; i < a.ngroups; i++)
		for (unsigned k = 0; k < a.groups[i]->nwaves; k++)
			if (lives(group_wave(a.groups[i], k)))
				cwsr_scrub(group_wave(a.groups[i], k), a.groups[i]->lds);
	CP_COUNT(saved_waves, a.nwaves);
out:
	if (r == -ENOMEM)
		vgpu_report("queue %u: no host memory to save its waves", q->mqd.queue_id);
	close_area(&a);
}

/* ---- restore -------------------------------------------------------------- */

static int restore_group(struct area *a, struct isa_group *g, unsigned *at, uint64_t *top)
{
	unsigned first, last;
	bool runs = false;

	if (!ends(g, &first, &last))
		return 1;
	for (unsigned i = first; i <= last; i++) {
		struct isa_wave *w = group_wave(g, i);
		uint8_t *lds = i == first ? g->lds : NULL;
		struct cwsr_relaunch want, got = {0};
		uint32_t n;

		if (!lives(w))
			continue;
		relaunch_of(g, i, first, last, &want);
		if (cwsr_next(a->stack, a->words, at, a->state, &got) <= 0 ||
		    got.nvgpr != want.nvgpr || got.lds_bytes != want.lds_bytes ||
		    got.wave64 != want.wave64 || got.first != want.first || got.last != want.last) {
			cp_queue_fail(
				a->q, EC_PREEMPTION, 0,
				"control stack, word %u: %u VGPRs, %u bytes of LDS, wave%u%s%s;"
				" wanted %u, %u, wave%u%s%s as saved",
				*at, got.nvgpr, got.lds_bytes, got.wave64 ? 64 : 32,
				got.first ? ", first" : "", got.last ? ", last" : "", want.nvgpr,
				want.lds_bytes, want.wave64 ? 64 : 32, want.first ? ", first" : "",
				want.last ? ", last" : "");
			return -EINVAL;
		}
		n = cwsr_wave_bytes(w, lds);
		*top -= n;
		if (vm_read(&a->port, VM_LOAD, gva(*top), a->block, n, 0)) {
			cp_queue_fault(a->q, &a->port.fault, "save area of queue %u",
				       a->q->mqd.queue_id);
			return -EFAULT;
		}
		cwsr_unpack(w, lds, a->block);
		runs |= w->state == WAVE_RUN;
	}
	return runs;
}

/* Groups that were halted as a whole and are no longer go back to those that run. */
static void unstick(struct cp_dispatch *d)
{
	struct isa_group **p = &d->stuck, *g;

	while ((g = *p)) {
		bool runs = false;

		for (unsigned i = 0; i < g->nwaves; i++)
			runs |= group_wave(g, i)->state == WAVE_RUN;
		if (!runs) {
			p = &g->next;
			continue;
		}
		*p = g->next;
		g->next = d->saved;
		d->saved = g;
	}
}

void cp_cwsr_restore(struct cp_queue *q)
{
	unsigned at = CWSR_STACK_HEAD;
	struct area a;
	uint64_t top;
	int r;

	if (!q->in_area)
		return;
	q->in_area = false;
	r = open_area(&a, q);
	if (r)
		goto out;
	a.words = q->saved.control_stack_size / 4;
	if (vm_read(&a.port, VM_LOAD, gva(q->mqd.cwsr.a + q->mqd.ctl_stack_bytes - 4ull * a.words),
		    a.stack, 4ull * a.words, 0)) {
		cp_queue_fault(q, &a.port.fault, "control stack of queue %u", q->mqd.queue_id);
		goto out;
	}
	top = blocks_end(&a);
	for (unsigned i = 0; i < a.ngroups; i++) {
		if (restore_group(&a, a.groups[i], &at, &top) < 0)
			goto out;
	}
	for (unsigned i = 0; i < CP_WINDOW; i++)
		unstick(&q->dispatch[i]);
out:
	if (r) {
		cp_queue_fail(q, EC_PREEMPTION, 0, "no host memory to restore %u waves",
			      q->saved.saved_waves);
	}
	close_area(&a);
}
