/* Workers: threads that run workgroups.
 *
 * A workgroup belongs to one worker while it runs and to nobody else; its waves take turns of a
 * quantum of instructions. A worker holds one workgroup as long as workgroups end by themselves.
 * One that does not (it may be spinning on what another workgroup will do) stays resident while
 * the worker takes further ones, up to what the machine itself could hold, and visits them in
 * turn: so whatever makes progress with all of a dispatch resident on the hardware makes progress
 * here, on any number of cores.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "cp/internal.h"
#include "device.h"
#include "isa/delay.h"
#include "share/share.h"

#define QUANTUM      2048u /* instructions of one wave between two looks at the preempt flag */
#define SPIN_TURN    128u  /* of a wave that only polls */
#define VISIT        (8 * QUANTUM) /* instructions of one workgroup before the next one's turn */
#define SPIN_NS      40000u        /* an idle worker looks for work this long before it sleeps */
#define MAX_RESIDENT 512
#define CROWDED_NS   200000u /* between two looks for a place that another process may leave */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;    /* something to run, or to put away */
	pthread_cond_t settled; /* some queue's running count fell to 0 */
	struct cp_dispatch
		*list; /* dispatches with workgroups to hand out, by priority, then age */
	uint64_t seq;  /* atomic: bumped with every reason to wake a worker */
	unsigned asleep;
	bool stop; /* atomic */
	struct isa_group *spare;
} S = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.settled = PTHREAD_COND_INITIALIZER,
};

struct worker {
	pthread_t thread;
	unsigned id;
	uint64_t rng;
	struct vm_port vmem, smem, imem;
	struct cp_watcher watcher;
	bool watching; /* vmem is watched */
	struct isa_exec x;
	unsigned n, grow;
	struct isa_group *resident[MAX_RESIDENT];
};

static struct worker *workers;
static unsigned nworkers;

/* ---- handing out --------------------------------------------------------- */

static void wake(unsigned groups)
{
	__atomic_add_fetch(&S.seq, 1, __ATOMIC_RELEASE);
	if (S.asleep)
		groups > 1 ? pthread_cond_broadcast(&S.work) : pthread_cond_signal(&S.work);
}

static void list_add(struct cp_dispatch *d)
{
	struct cp_dispatch **p = &S.list;

	if (d->listed)
		return;
	while (*p && (*p)->q->mqd.priority >= d->q->mqd.priority)
		p = &(*p)->link;
	d->link = *p;
	*p = d;
	d->listed = true;
}

static void list_remove(struct cp_dispatch *d)
{
	struct cp_dispatch **p;

	if (!d->listed)
		return;
	for (p = &S.list; *p != d; p = &(*p)->link)
		;
	*p = d->link;
	d->listed = false;
}

static void count_begin(struct cp_dispatch *d)
{
	struct count_launch l = {
		.port = &d->q->port,
		.kernel_object = d->kernel_object,
		.entry = d->entry,
		.rsrc1 = d->rsrc1,
		.rsrc2 = d->rsrc2,
		.rsrc3 = d->rsrc3,
		.nvgpr = d->nvgpr,
		.lds_bytes = d->lds_bytes,
		.queue = d->q->mqd.queue_id,
		.wave64 = d->wave64,
		.grid = {d->grid[0], d->grid[1], d->grid[2]},
		.wg = {d->wg[0], d->wg[1], d->wg[2]},
		.index = d->index,
		.waves_full = d->waves_full,
	};

	d->count = count_dispatch_begin(&l);
}

static void check_work(struct cp_dispatch *d)
{
	struct check_launch l = {
		.kind = d->packet ? CHECK_AQL : CHECK_PM4,
		.vm = d->vm,
		.queue = d->q->mqd.queue_id,
		.index = d->index,
		.kernel_object = d->kernel_object,
		.entry = d->entry,
	};

	d->check = check_begin(&d->q->check, &l);
}

/* Whether every wave begins with all of its lanes on. */
static bool waves_whole(const struct cp_dispatch *d)
{
	uint32_t items = d->wg[0] * d->wg[1] * d->wg[2];

	for (unsigned i = 0; i < 3; i++)
		if (d->grid[i] % d->wg[i])
			return false;
	return items % (d->wave64 ? 64 : 32) == 0;
}

void cp_sched_add(struct cp_dispatch *d)
{
	struct jit_shape shape = {
		.nvgpr = d->nvgpr,
		.mode = cp_wave_mode(d),
		.wave64 = d->wave64,
		.whole = waves_whole(d),
	};

	d->jit = jit_kernel_get(&d->q->port, d->entry, &shape,
				vgpu_config.deterministic || count_on || check_on || d->debug ||
						cp_delayed()
					? JIT_OFF
					: (enum jit_mode)vgpu_config.jit);
	if (check_on)
		check_work(d);
	d->count = NULL;
	if (count_on)
		count_begin(d);
	pthread_mutex_lock(&S.lock);
	list_add(d);
	wake(d->total > 1 ? 2 : 1);
	pthread_mutex_unlock(&S.lock);
}

static struct isa_group *group_new(void)
{
	struct isa_group *g = S.spare;

	if (g) {
		S.spare = g->next;
		g->next = NULL;
		return g;
	}
	return calloc(1, sizeof(*g));
}

static void group_free(struct isa_group *g)
{
	g->next = S.spare;
	S.spare = g;
}

static bool scratch_take(struct isa_group *g, struct cp_dispatch *d)
{
	uint64_t *map = d->q->scratch_map;
	unsigned got = 0;

	for (unsigned i = 0; i < d->scratch_slots && got < d->waves_full; i++)
		if (!(map[i / 64] >> i % 64 & 1)) {
			map[i / 64] |= 1ull << i % 64;
			g->scratch_slot[got++] = (uint16_t)i;
		}
	if (got == d->waves_full)
		return true;
	while (got--)
		map[g->scratch_slot[got] / 64] &= ~(1ull << g->scratch_slot[got] % 64);
	return false;
}

static void scratch_give(struct isa_group *g, struct cp_dispatch *d)
{
	if (!d->scratch_wave_bytes)
		return;
	for (unsigned i = 0; i < d->waves_full; i++)
		d->q->scratch_map[g->scratch_slot[i] / 64] &= ~(1ull << g->scratch_slot[i] % 64);
}

/* A workgroup to run, not yet initialised if *fresh. *crowded: there is one without a place. */
static struct isa_group *take(bool *fresh, bool *crowded)
{
	struct isa_group *g = NULL;

	*crowded = false;
	pthread_mutex_lock(&S.lock);
	for (struct cp_dispatch *d = S.list; d; d = d->link) {
		if (d->saved) {
			g = d->saved;
			if (!cp_place_take(g)) {
				*crowded = true;
				g = NULL;
				continue;
			}
			d->saved = g->next;
			g->next = NULL;
			*fresh = false;
		} else if (d->next < d->total) {
			g = group_new();
			if (!g)
				continue;
			g->d = d;
			/* Room and slots come back when resident ones end. */
			if (d->scratch_wave_bytes && !scratch_take(g, d)) {
				group_free(g);
				g = NULL;
				continue;
			}
			if (!cp_place_take(g)) {
				*crowded = true;
				scratch_give(g, d);
				group_free(g);
				g = NULL;
				continue;
			}
			g->index = d->next++;
			g->visits = 0;
			*fresh = true;
		} else {
			continue;
		}
		d->q->waves += d->waves_full;
		d->q->running++;
		if (!d->saved && d->next == d->total)
			list_remove(d);
		break;
	}
	pthread_mutex_unlock(&S.lock);
	return g;
}

/* ---- putting away -------------------------------------------------------- */

static void not_running(struct cp_queue *q)
{
	if (!--q->running)
		pthread_cond_broadcast(&S.settled);
}

/* Takes g off this worker, keeping it as data. */
static void put_away(struct isa_group *g, bool stuck)
{
	struct cp_dispatch *d = g->d;

	pthread_mutex_lock(&S.lock);
	d->q->waves -= d->waves_full;
	cp_place_give(g);
	if (stuck) {
		g->next = d->stuck;
		d->stuck = g;
	} else {
		g->next = d->saved;
		d->saved = g;
		if (!__atomic_load_n(&d->q->preempt, __ATOMIC_RELAXED)) {
			list_add(d);
			wake(1);
		}
	}
	not_running(d->q);
	pthread_mutex_unlock(&S.lock);
}

static void ended(struct isa_group *g)
{
	struct cp_dispatch *d = g->d;
	struct cp_queue *q = d->q;
	bool last, polls;

	CP_COUNT(groups, 1);
	CP_COUNT(waves, g->nwaves);
	CP_COUNT(insns, g->insns);
	pthread_mutex_lock(&S.lock);
	d->q->waves -= d->waves_full;
	cp_place_give(g);
	scratch_give(g, d);
	group_free(g);
	last = ++d->done == d->total;
	if (!last)
		not_running(q);
	else if (d->listed)
		list_remove(d);
	pthread_mutex_unlock(&S.lock);
	if (!last)
		return;
	/* The dispatch is over: this thread completes it and runs the queue on. It still counts
	 * as running, so an unmap waits for this too. */
	if (d->count)
		count_dispatch_end(d->count);
	pthread_mutex_lock(&q->lock);
	cp_dispatch_complete(d);
	cp_queue_run(q);
	/* Being taken off just now: what comes behind the dispatch waits for the queue's next turn,
	 * and nothing but this says that it wants one. */
	q->rung |= !q->resident;
	polls = q->poll || !q->resident;
	pthread_mutex_unlock(&q->lock);
	pthread_mutex_lock(&S.lock);
	not_running(q);
	pthread_mutex_unlock(&S.lock);
	/* This queue may have come to a packet that polls memory, which is the CP thread's job;
	 * another that does so may have waited for exactly this dispatch. */
	if (polls || cp_pollers())
		cp_kick();
}

void cp_sched_unlist(struct cp_queue *q)
{
	pthread_mutex_lock(&S.lock);
	for (unsigned i = 0; i < CP_WINDOW; i++)
		list_remove(&q->dispatch[i]);
	pthread_mutex_unlock(&S.lock);
}

/* Waits until nothing of q runs. Only trap handlers can keep it: then MES waits its time, which a
 * clock that runs ahead spends in a moment. What counts of it are slices in which a worker had a look
 * and found a wave in its handler, whoever else was busy or late. False: it gave up. With S.lock
 * held. */
static bool settle(struct cp_queue *q, bool patient)
{
	const uint64_t slice = 10000000u, patience = 20; /* ns; slices */
	uint64_t start = vgpu_clock_ns(), held = 0;

	while (q->running) {
		uint64_t until = cp_now() + slice;
		struct timespec ts = {.tv_sec = (time_t)(until / 1000000000u),
				      .tv_nsec = (long)(until % 1000000000u)};

		__atomic_store_n(&q->in_handler, false, __ATOMIC_RELAXED);
		while (q->running && pthread_cond_clockwait(&S.settled, &S.lock, CLOCK_MONOTONIC,
							    &ts) != ETIMEDOUT)
			;
		if (!q->running || !__atomic_load_n(&q->in_handler, __ATOMIC_RELAXED))
			continue;
		if (!patient)
			return false;
		held++;
		if (vgpu_config.clock_virtual && held == patience) {
			vgpu_clock_advance(start + CP_MES_TIMEOUT_NS);
			return false;
		}
		if (held * slice >= CP_MES_TIMEOUT_NS)
			return false;
	}
	return true;
}

bool cp_sched_stop(struct cp_queue *q, bool patient)
{
	bool stopped;

	pthread_mutex_lock(&S.lock);
	for (unsigned i = 0; i < CP_WINDOW; i++)
		list_remove(&q->dispatch[i]);
	/* Sleeping workers hold resident groups too. */
	wake(2);
	stopped = settle(q, patient);
	for (unsigned i = 0; i < CP_WINDOW; i++)
		list_remove(&q->dispatch[i]);
	pthread_mutex_unlock(&S.lock);
	return stopped;
}

unsigned cp_sched_waves(struct cp_queue *q)
{
	unsigned n;

	pthread_mutex_lock(&S.lock);
	n = q->waves;
	pthread_mutex_unlock(&S.lock);
	return n;
}

void cp_sched_resume(struct cp_queue *q)
{
	pthread_mutex_lock(&S.lock);
	for (unsigned i = 0; i < CP_WINDOW; i++) {
		struct cp_dispatch *d = &q->dispatch[i];

		if (d->active && (d->saved || d->next < d->total))
			list_add(d);
	}
	wake(2);
	pthread_mutex_unlock(&S.lock);
}

void cp_sched_discard(struct cp_queue *q)
{
	pthread_mutex_lock(&S.lock);
	for (unsigned i = 0; i < CP_WINDOW; i++) {
		struct cp_dispatch *d = &q->dispatch[i];
		struct isa_group *g;

		list_remove(d);
		while ((g = d->saved)) {
			d->saved = g->next;
			group_free(g);
		}
		while ((g = d->stuck)) {
			d->stuck = g->next;
			group_free(g);
		}
	}
	pthread_mutex_unlock(&S.lock);
}

/* ---- running ------------------------------------------------------------- */

static unsigned quantum(struct worker *k)
{
	if (!vgpu_config.deterministic)
		return QUANTUM;
	/* Seeded lengths: the same seed gives the same interleaving. */
	k->rng = k->rng * 6364136223846793005u + 1442695040888963407u;
	return 1 + (unsigned)(k->rng >> 33) % (2 * QUANTUM);
}

enum outcome { DONE, AGAIN, ASLEEP, STUCK, PREEMPTED };

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

/* Runs g for one visit. ASLEEP: every wave that could run sleeps until *until at least. */
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
			return AGAIN;
	}
}

/* Waits for work, at most until the clock shows `until`. */
static void rest(struct worker *k, uint64_t seen, uint64_t until)
{
	uint64_t start = cp_now();

	while (!k->n && cp_now() - start < SPIN_NS) {
		for (unsigned i = 0; i < 32; i++)
			__builtin_ia32_pause();
		if (__atomic_load_n(&S.seq, __ATOMIC_ACQUIRE) != seen)
			return;
		sched_yield(); /* the host may need this core to write the next packet */
	}
	pthread_mutex_lock(&S.lock);
	if (__atomic_load_n(&S.seq, __ATOMIC_RELAXED) == seen &&
	    !__atomic_load_n(&S.stop, __ATOMIC_RELAXED)) {
		S.asleep++;
		if (until == ~0ull) {
			pthread_cond_wait(&S.work, &S.lock);
		} else {
			uint64_t now = vgpu_clock_ns(), wait = until > now ? until - now : 0;
			struct timespec ts;

			/* A sleeping wave of one workgroup must not miss another's message for
			 * long: never rest longer than a millisecond at a time. */
			if (wait > 1000000)
				wait = 1000000;
			wait += cp_now();
			ts.tv_sec = (time_t)(wait / 1000000000u);
			ts.tv_nsec = (long)(wait % 1000000000u);
			pthread_cond_timedwait(&S.work, &S.lock, &ts);
		}
		S.asleep--;
	}
	pthread_mutex_unlock(&S.lock);
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

static void drop(struct worker *k, unsigned i)
{
	memmove(&k->resident[i], &k->resident[i + 1], (k->n - i - 1) * sizeof(*k->resident));
	k->n--;
}

static void *worker_main(void *arg)
{
	struct worker *k = arg;

	prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0); /* s_sleep is short */
	k->x.vmem = &k->vmem;
	k->x.smem = &k->smem;
	k->x.imem = &k->imem;
	cp_wave_hooks(&k->x);
	k->x.owner = k;
	k->x.count = count_on ? count_ctx_new() : NULL;
	while (!__atomic_load_n(&S.stop, __ATOMIC_ACQUIRE)) {
		uint64_t seen = __atomic_load_n(&S.seq, __ATOMIC_ACQUIRE), until = ~0ull;
		bool idle = true, fresh, crowded = false;

		if (!k->n || (k->grow && k->n < MAX_RESIDENT)) {
			struct isa_group *g = take(&fresh, &crowded);

			k->grow = 0;
			if (g && seat(g, fresh))
				put_away(g, true); /* no memory: reported there */
			else if (g)
				k->resident[k->n++] = g;
		}
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
				ended(g);
				idle = false;
				continue;
			case PREEMPTED:
			case STUCK:
				for (unsigned j = 0; cp_delayed() && j < g->nwaves; j++)
					delayed(k, g, group_wave(g, j), true);
				drop(k, i);
				put_away(g, o == STUCK);
				idle = false;
				continue;
			case AGAIN:
				idle = false;
				/* Spinners wait for others, which must be let in; what just
				 * takes long does not, unless all else fails. */
				k->grow |= g->spinning || g->visits % 64 == 0;
				break;
			case ASLEEP:
				k->grow = 1;
				break;
			}
			i++;
		}
		if (!idle)
			continue;
		/* Nothing but sleepers, or nothing at all. Another workgroup may be waiting. */
		if (k->grow && k->n < MAX_RESIDENT) {
			struct isa_group *g = take(&fresh, &crowded);

			k->grow = 0;
			if (g && seat(g, fresh))
				put_away(g, true);
			else if (g) {
				k->resident[k->n++] = g;
				continue;
			}
		}
		/* Another process does not say when it leaves a place. */
		if (crowded && share_active() && vgpu_clock_ns() + CROWDED_NS < until)
			until = vgpu_clock_ns() + CROWDED_NS;
		else if (!k->n)
			until = ~0ull;
		rest(k, seen, until);
	}
	/* Kept as data, should the device start again. */
	while (k->n)
		put_away(k->resident[--k->n], false);
	isa_exec_fini(&k->x);
	count_ctx_free(k->x.count);
	return NULL;
}

int cp_workers_start(unsigned n)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&S.work, &attr);
	pthread_condattr_destroy(&attr);
	S.stop = false;
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
	pthread_mutex_lock(&S.lock);
	__atomic_store_n(&S.stop, true, __ATOMIC_RELEASE);
	__atomic_add_fetch(&S.seq, 1, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&S.work);
	pthread_mutex_unlock(&S.lock);
	for (unsigned i = 0; i < nworkers; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	workers = NULL;
	nworkers = 0;
	while (S.spare) {
		struct isa_group *g = S.spare;

		S.spare = g->next;
		free(g->lds);
		free(g->waves);
		free(g);
	}
}

void cp_workers_reset(void)
{
	pthread_mutex_init(&S.lock, NULL);
	pthread_cond_init(&S.settled, NULL);
	S.list = NULL;
	S.asleep = 0;
	S.spare = NULL;
	cp_place_reset();
	workers = NULL;
	nworkers = 0;
}
