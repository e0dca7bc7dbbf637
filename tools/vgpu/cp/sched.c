/* The schedule: which workgroups there are to run, which rest as data, and who waits for that.
 *
 * Dispatches with workgroups to hand out stand in one list, by priority, then age. Workers (workers.c)
 * take workgroups out and give them back; queues put their dispatches in and take them off. All of it
 * under one lock, which nothing holds while a wave runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cp/internal.h"
#include "device.h"

#define SPIN_NS 40000u /* an idle worker looks for work this long before it sleeps */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work;    /* something to run, or to put away */
	pthread_cond_t settled; /* some queue's running count fell to 0 */
	struct cp_dispatch *list;
	uint64_t seq; /* atomic: bumped with every reason to wake a worker */
	unsigned asleep;
	bool stop; /* atomic */
	struct isa_group *spare;
} S = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.settled = PTHREAD_COND_INITIALIZER,
};

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
	d->check = 0;
	/* A ring's results are known by fences, which the checker does not see. */
	if (check_on && !d->q->ring)
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

struct isa_group *cp_sched_take(bool *fresh, bool *crowded)
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

void cp_sched_put_away(struct isa_group *g, bool stuck)
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

void cp_sched_ended(struct isa_group *g)
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
		struct timespec until = vgpu_timespec(cp_now() + slice);

		__atomic_store_n(&q->in_handler, false, __ATOMIC_RELAXED);
		while (q->running && pthread_cond_clockwait(&S.settled, &S.lock, CLOCK_MONOTONIC,
							    &until) != ETIMEDOUT)
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

/* ---- waiting for work ----------------------------------------------------- */

bool cp_sched_open(uint64_t *seen)
{
	*seen = __atomic_load_n(&S.seq, __ATOMIC_ACQUIRE);
	return !__atomic_load_n(&S.stop, __ATOMIC_ACQUIRE);
}

void cp_sched_rest(uint64_t seen, uint64_t until, bool holds)
{
	uint64_t start = cp_now();

	while (!holds && cp_now() - start < SPIN_NS) {
		for (unsigned i = 0; i < 32; i++)
			__builtin_ia32_pause();
		if (__atomic_load_n(&S.seq, __ATOMIC_ACQUIRE) != seen)
			return;
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
			ts = vgpu_timespec(cp_now() + wait);
			pthread_cond_timedwait(&S.work, &S.lock, &ts);
		}
		S.asleep--;
	}
	pthread_mutex_unlock(&S.lock);
}

/* ---- life ------------------------------------------------------------------ */

void cp_sched_start(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&S.work, &attr);
	pthread_condattr_destroy(&attr);
	S.stop = false;
}

void cp_sched_close(void)
{
	pthread_mutex_lock(&S.lock);
	__atomic_store_n(&S.stop, true, __ATOMIC_RELEASE);
	__atomic_add_fetch(&S.seq, 1, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&S.work);
	pthread_mutex_unlock(&S.lock);
}

void cp_sched_free(void)
{
	while (S.spare) {
		struct isa_group *g = S.spare;

		S.spare = g->next;
		free(g->lds);
		free(g->waves);
		free(g);
	}
}

void cp_sched_reset(void)
{
	pthread_mutex_init(&S.lock, NULL);
	pthread_cond_init(&S.settled, NULL);
	S.list = NULL;
	S.asleep = 0;
	S.spare = NULL;
	cp_place_reset();
}
