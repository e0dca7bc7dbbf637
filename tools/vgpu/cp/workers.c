/* Workers: threads that run workgroups.
 *
 * A workgroup belongs to one worker while it runs and to nobody else; its waves take turns of a
 * quantum of instructions. A worker holds one workgroup as long as workgroups end by themselves.
 * One that does not (it may be spinning on what another workgroup will do) stays resident while
 * the worker takes further ones, up to what the machine itself could hold, and visits them in
 * turn: so whatever makes progress with all of a dispatch resident on the hardware makes progress
 * here, on any number of cores.
 *
 * A worker whose waves all poll naps between its rounds, an eighth of the time they have polled so
 * far, up to NAP_MAX_NS: what they wait for may need the core.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cp/internal.h"
#include "device.h"
#include "isa/delay.h"
#include "share/share.h"

#define QUANTUM      2048u /* instructions of one wave between two looks at the preempt flag */
#define SPIN_TURN    128u  /* of a wave that only polls */
#define VISIT        (8 * QUANTUM) /* instructions of one workgroup before the next one's turn */
#define NAP_MIN_NS   4000u
#define NAP_MAX_NS   200000u
#define MAX_RESIDENT 512
#define CROWDED_NS   200000u /* between two looks for a place that another process may leave */

struct worker {
	pthread_t thread;
	unsigned id;
	uint64_t rng;
	struct vm_port vmem, smem, imem;
	struct cp_watcher watcher;
	bool watching; /* vmem is watched */
	struct isa_exec x;
	unsigned n, grow;
	uint64_t polls_since; /* 0: something else than polling was done in the last round */
	struct isa_group *resident[MAX_RESIDENT];
};

static struct worker *workers;
static unsigned nworkers;

/* ---- running ------------------------------------------------------------- */

static unsigned quantum(struct worker *k)
{
	if (!vgpu_config.deterministic)
		return QUANTUM;
	/* Seeded lengths: the same seed gives the same interleaving. */
	k->rng = k->rng * 6364136223846793005u + 1442695040888963407u;
	return 1 + (unsigned)(k->rng >> 33) % (2 * QUANTUM);
}

enum outcome { DONE, AGAIN, POLLS, ASLEEP, STUCK, PREEMPTED };

/* Whether a turn of n instructions was a poll loop's: hardly an access but to the word it had
 * just read. Such a wave gets short turns, so that what it waits for happens soon. */
static bool spun(const struct worker *k, uint64_t accesses, uint64_t repeats, uint64_t n)
{
	accesses = k->vmem.accesses + k->smem.accesses - accesses;
	repeats = k->vmem.repeats + k->smem.repeats - repeats;
	return n && accesses >= 4 && repeats * 8 >= accesses * 5 && n < accesses * 64;
}

/* w met a debugger's watch points. */
static void watched(struct worker *k, const struct cp_dispatch *d, struct isa_wave *w)
{
	if (__builtin_expect(k->watcher.hit, 0)) {
		cp_trap_watched(d, w, k->watcher.hit);
		k->watcher.hit = 0;
	}
}

/* What is due for a wave of delayed memory that does not run, or, at its leave, everything. */
static void delayed(struct worker *k, struct isa_group *g, struct isa_wave *w, bool leaves)
{
	/* Instructions that others of its group would have run meanwhile. */
	enum { A_ROUND = 64 };
	uint8_t before = w->state;

	k->vmem.fault.lanes = k->smem.fault.lanes = k->imem.fault.lanes = 0;
	if (leaves)
		isa_delay_drain(&k->x, w, __atomic_load_n(&g->d->q->killed, __ATOMIC_RELAXED));
	else
		isa_delay_tick(&k->x, w, A_ROUND);
	watched(k, g->d, w);
	if (w->state == WAVE_HALTED && before != WAVE_HALTED)
		cp_wave_stopped(&k->x, g, w);
}

static bool in_handler(const struct isa_wave *w)
{
	return w->priv && (w->state == WAVE_RUN || w->state == WAVE_SLEEP);
}

/* Runs g for one visit. ASLEEP: every wave that could run sleeps until *until at least; POLLS: every
 * one that does not sleep polls. */
static enum outcome visit(struct worker *k, struct isa_group *g, uint64_t *until)
{
	struct cp_dispatch *d = g->d;
	struct isa_exec *x = &k->x;
	/* The first visit is longer: most workgroups end in it. */
	uint64_t budget = (g->visits++ ? VISIT : 4 * VISIT) * (jit_ready(d->jit) ? 32 : 1);
	/* From the next visit on, and one instruction at a time: the wave is to trap behind it. */
	bool watching = cp_watching(d);
	struct jit_kernel *jit = watching ? NULL : d->jit;

	if (k->vmem.vm != d->vm || k->watching != watching) {
		k->watching = watching;
		vm_port_init(&k->vmem, d->vm, VM_CLIENT_TCP);
		vm_port_init(&k->smem, d->vm, VM_CLIENT_SQC_DATA);
		vm_port_init(&k->imem, d->vm, VM_CLIENT_SQC_INST);
		if (x->count) {
			k->vmem.watch = k->smem.watch = k->imem.watch = count_watch(x->count);
		} else if (!check_on) {
			if (!watching)
				vm_port_bind(&k->vmem);
			vm_port_bind(&k->smem);
		}
		if (watching)
			cp_watcher_put(&k->watcher, &k->vmem);
	}
	k->watcher.debug = d->q->mqd.debug;
	k->watcher.hit = 0;
	__atomic_fetch_add(&d->q->turns, 1, __ATOMIC_RELAXED);
	x->lds = g->lds;
	x->lds_size = d->lds_bytes;
	x->shared_base = d->lds_aperture;
	x->private_base = d->scratch_aperture;
	x->group = g;
	for (;;) {
		unsigned ran = 0, barrier = 0, asleep = 0, halted = 0, spinning = 0, held = 0;
		uint64_t now = 0;
		bool stop = false;

		for (unsigned i = 0; i < g->nwaves; i++) {
			struct isa_wave *w = group_wave(g, i);
			uint64_t n, turn, accesses, repeats;
			bool step, traps;

			if (w->delayed && w->state != WAVE_RUN && w->state != WAVE_ENDED)
				delayed(k, g, w, false);
			if (w->state == WAVE_SLEEP) {
				if (!now)
					now = vgpu_clock_ns();
				if (w->sleep_until <= now || vgpu_config.clock_virtual)
					w->state = WAVE_RUN;
			}
			if (!stop && __atomic_load_n(&d->q->preempt, __ATOMIC_ACQUIRE))
				stop = true;
			/* A trap handler is not interrupted: its wave is saved once it returns. */
			if (stop && in_handler(w))
				held++;
			else if (stop)
				continue;
			if (w->state == WAVE_RUN) {
				x->w = w;
				x->half = 0;
				k->vmem.fault.lanes = k->smem.fault.lanes = k->imem.fault.lanes = 0;
				turn = quantum(k);
				if (jit_ready(d->jit))
					turn *= 32;
				if (g->spinning >> i & 1 && turn > SPIN_TURN)
					turn = SPIN_TURN;
				accesses = k->vmem.accesses + k->smem.accesses;
				repeats = k->vmem.repeats + k->smem.repeats;
				/* The handler too, so that its return is seen. */
				step = __builtin_expect(d->debug != 0, 0) && cp_trap_steps(w);
				traps = step && !w->priv;
				n = jit_run(jit, x, w, step || watching ? 1 : turn);
				if (traps && n)
					cp_trap_after_step(d, w);
				watched(k, d, w);
				if (w->state == WAVE_RUN && spun(k, accesses, repeats, n)) {
					g->spinning |= 1u << i;
					spinning++;
				} else {
					g->spinning &= ~(1u << i);
				}
				g->insns += n;
				budget = budget > n ? budget - n : 0;
				ran++;
				if (w->state == WAVE_HALTED && cp_wave_stopped(x, g, w))
					continue;
				if (w->state == WAVE_ENDED && !cp_trap_at_end(d, w))
					g->live--;
			}
			if (w->state == WAVE_BARRIER)
				barrier++;
			else if (w->state == WAVE_HALTED)
				halted++;
			else if (w->state == WAVE_SLEEP) {
				asleep++;
				if (w->sleep_until < *until)
					*until = w->sleep_until;
			}
		}
		if (!g->live)
			return DONE;
		if (stop) {
			if (!held || __atomic_load_n(&d->q->killed, __ATOMIC_RELAXED))
				return PREEMPTED;
			__atomic_store_n(&d->q->in_handler, true, __ATOMIC_RELAXED);
			return AGAIN;
		}
		if (barrier && barrier == g->live) {
			for (unsigned i = 0; i < g->nwaves; i++)
				if (group_wave(g, i)->state == WAVE_BARRIER)
					group_wave(g, i)->state = WAVE_RUN;
			if (budget)
				continue;
		}
		if (!budget)
			return AGAIN;
		if (!ran)
			return asleep ? ASLEEP : STUCK;
		if (barrier + halted + asleep == g->live && asleep)
			return ASLEEP;
		if (barrier + halted + asleep + spinning == g->live && spinning)
			return POLLS;
	}
}

/* How long to nap after a round in which nothing was done but to poll; 0: not yet. */
static uint64_t poll_nap(struct worker *k)
{
	uint64_t now = cp_now(), nap;

	if (!k->polls_since)
		k->polls_since = now;
	nap = (now - k->polls_since) / 8;
	return nap < NAP_MIN_NS ? 0 : nap < NAP_MAX_NS ? nap : NAP_MAX_NS;
}

/* Tells the waves where they are; makes them, the first time. */
static int seat(struct isa_group *g, bool fresh)
{
	if (fresh)
		return cp_group_init(g, g->d, g->index);
	for (unsigned i = 0; i < g->nwaves; i++)
		cp_place_wave(g, i, group_wave(g, i));
	return 0;
}

/* Takes a workgroup more, if there is room and one to take. *crowded: there is one without a place. */
static bool one_more(struct worker *k, bool *crowded)
{
	struct isa_group *g;
	bool fresh;

	if (k->n == MAX_RESIDENT)
		return false;
	k->grow = 0;
	g = cp_sched_take(&fresh, crowded);
	if (!g)
		return false;
	if (seat(g, fresh)) {
		cp_sched_put_away(g, true); /* no memory: reported there */
		return false;
	}
	k->resident[k->n++] = g;
	return true;
}

static void drop(struct worker *k, unsigned i)
{
	memmove(&k->resident[i], &k->resident[i + 1], (k->n - i - 1) * sizeof(*k->resident));
	k->n--;
}

static void *worker_main(void *arg)
{
	struct worker *k = arg;
	uint64_t seen;

	prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0); /* s_sleep is short */
	k->x.vmem = &k->vmem;
	k->x.smem = &k->smem;
	k->x.imem = &k->imem;
	cp_wave_hooks(&k->x);
	k->x.owner = k;
	k->x.count = count_on ? count_ctx_new() : NULL;
	while (cp_sched_open(&seen)) {
		uint64_t until = ~0ull;
		bool idle = true, crowded = false, polls = false;

		if (!k->n || k->grow)
			one_more(k, &crowded);
		for (unsigned i = 0; i < k->n;) {
			struct isa_group *g = k->resident[i];
			uint64_t approx = k->x.approximated;
			enum outcome o;

			if (k->x.count) {
				count_enter(k->x.count, g->d->count, g->count);
				if (!g->visits)
					count_group(k->x.count, g->nwaves);
			}
			if (check_on)
				check_enter(g->d->check);
			o = visit(k, g, &until);
			if (check_on)
				check_enter(0);
			if (k->x.count)
				count_leave(k->x.count);

			if (k->x.approximated != approx)
				CP_COUNT(approximated, k->x.approximated - approx);
			switch (o) {
			case DONE:
				drop(k, i);
				cp_sched_ended(g);
				idle = false;
				continue;
			case PREEMPTED:
			case STUCK:
				for (unsigned j = 0; cp_delayed() && j < g->nwaves; j++)
					delayed(k, g, group_wave(g, j), true);
				drop(k, i);
				cp_sched_put_away(g, o == STUCK);
				idle = false;
				continue;
			case AGAIN:
				idle = false;
				/* Spinners wait for others, which must be let in; what just
				 * takes long does not, unless all else fails. */
				k->grow |= g->spinning || g->visits % 64 == 0;
				break;
			case POLLS:
				polls = true;
				k->grow = 1;
				break;
			case ASLEEP:
				k->grow = 1;
				break;
			}
			i++;
		}
		if (!idle || !polls)
			k->polls_since = 0;
		if (!idle)
			continue;
		/* Nothing but sleepers, or nothing at all. Another workgroup may be waiting. */
		if (k->grow && one_more(k, &crowded))
			continue;
		if (polls) {
			uint64_t nap = poll_nap(k);

			if (!nap)
				continue;
			if (vgpu_clock_ns() + nap < until)
				until = vgpu_clock_ns() + nap;
		}
		/* Another process does not say when it leaves a place. */
		if (crowded && share_active() && vgpu_clock_ns() + CROWDED_NS < until)
			until = vgpu_clock_ns() + CROWDED_NS;
		else if (!k->n)
			until = ~0ull;
		cp_sched_rest(seen, until, k->n);
	}
	/* Kept as data, should the device start again. */
	while (k->n)
		cp_sched_put_away(k->resident[--k->n], false);
	isa_exec_fini(&k->x);
	count_ctx_free(k->x.count);
	return NULL;
}

int cp_workers_start(unsigned n)
{
	cp_sched_start();
	workers = aligned_alloc(128, n * ((sizeof(*workers) + 127) & ~127ul));
	if (!workers)
		return -ENOMEM;
	memset(workers, 0, n * sizeof(*workers));
	for (nworkers = 0; nworkers < n; nworkers++) {
		struct worker *k = &workers[nworkers];
		char name[16];
		int r;

		k->id = nworkers;
		k->rng = vgpu_config.seed ^ 0x9e3779b97f4a7c15u * (nworkers + 1);
		r = pthread_create(&k->thread, NULL, worker_main, k);
		if (r) {
			cp_workers_stop();
			return -r;
		}
		snprintf(name, sizeof(name), "vgpu-w%u", nworkers);
		pthread_setname_np(k->thread, name);
	}
	return 0;
}

void cp_workers_stop(void)
{
	cp_sched_close();
	for (unsigned i = 0; i < nworkers; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	workers = NULL;
	nworkers = 0;
	cp_sched_free();
}

void cp_workers_reset(void)
{
	cp_sched_reset();
	workers = NULL;
	nworkers = 0;
}
