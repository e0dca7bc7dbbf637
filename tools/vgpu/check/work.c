/* Works: submitted, complete, seen, published. */
#include <stdlib.h>
#include <string.h>

#include "check/internal.h"
#include "device.h"

/* So many works nobody waits for are remembered. */
#define WORKS_MAX (1u << 20)

bool check_on;
struct check_state check = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.base = 1,
	.findings_end = &check.findings,
};

void check_init(void)
{
	check_on = vgpu_config.check_visibility;
	if (!check_on || vm_watch_all == &check_watch)
		return;
	/* Behind the counters', which is not for waves. */
	if (vm_watch_all)
		vm_watch_all->next = &check_watch;
	else
		vm_watch_all = &check_watch;
}

void check_forked(void)
{
	/* The parent's records stay where they are: its lock may be held. The arrays are not in
	 * this process, nor are the mappings and the thread that looked after them. */
	memset(&check, 0, sizeof(check));
	pthread_mutex_init(&check.lock, NULL);
	check.base = 1;
	check.findings_end = &check.findings;
	check_map_forked();
	check_report_forked();
	check_pages_forked();
	check_enter(0);
}

/* ---- submission ------------------------------------------------------------- */

void check_ring(void)
{
	pthread_mutex_lock(&check.lock);
	check_shut_all(true);
	__atomic_store_n(&check.ring, check.ring + 1, __ATOMIC_RELAXED);
	check.rings++;
	pthread_mutex_unlock(&check.lock);
}

void check_submitted(struct check_queue *q, uint64_t wptr)
{
	uint32_t ring = __atomic_load_n(&check.ring, __ATOMIC_RELAXED);
	unsigned last = (q->n - 1) % CHECK_RINGS;

	if (q->n && wptr <= q->wptr[last])
		return;
	q->wptr[q->n % CHECK_RINGS] = wptr;
	q->ring[q->n++ % CHECK_RINGS] = ring;
}

void check_looked(struct check_queue *q, uint64_t wptr)
{
	if (q->n ? wptr <= q->wptr[(q->n - 1) % CHECK_RINGS] : !wptr)
		return;
	check_ring();
	check_submitted(q, wptr);
	__atomic_add_fetch(&check.late, 1, __ATOMIC_RELAXED);
}

/* The ring that submitted a packet. */
static uint32_t ring_of(const struct check_queue *q, uint64_t index)
{
	unsigned oldest = q->n > CHECK_RINGS ? q->n - CHECK_RINGS : 0;

	for (unsigned i = oldest; i < q->n; i++)
		if (q->wptr[i % CHECK_RINGS] > index)
			return q->ring[i % CHECK_RINGS];
	return __atomic_load_n(&check.ring, __ATOMIC_RELAXED);
}

/* ---- works -------------------------------------------------------------------- */

struct check_item *check_item(uint32_t number)
{
	struct check_state *s = &check;

	/* Unsigned: below base is far beyond n. */
	if (number - s->base >= s->n)
		return NULL;
	return &s->work[(s->first + (number - s->base)) & (s->cap - 1)];
}

uint32_t check_running(void)
{
	struct check_state *s = &check;

	if (s->oldest < s->base)
		s->oldest = s->base;
	while (s->oldest < s->base + s->n && check_item(s->oldest)->state != RUNNING)
		s->oldest++;
	return s->oldest;
}

static bool published(const struct check_item *w)
{
	if (w->state != COMPLETE)
		return w->state == GONE;
	return w->order <= check.seen_released ||
	       (w->l.kind == CHECK_SDMA && w->order <= check.seen_complete);
}

static void drop(void)
{
	struct check_state *s = &check;

	s->first = (s->first + 1) & (s->cap - 1);
	s->base++;
	s->n--;
}

static bool grow(void)
{
	struct check_state *s = &check;
	uint32_t cap = s->cap ? 2 * s->cap : 256;
	struct check_item *p;

	if (s->cap == WORKS_MAX) {
		drop();
		return true;
	}
	p = malloc(cap * sizeof(*p));
	if (!p)
		return false;
	for (uint32_t i = 0; i < s->n; i++)
		p[i] = s->work[(s->first + i) & (s->cap - 1)];
	free(s->work);
	s->work = p;
	s->first = 0;
	s->cap = cap;
	return true;
}

uint32_t check_begin(const struct check_queue *q, const struct check_launch *l)
{
	struct check_state *s = &check;
	uint32_t number = 0;

	pthread_mutex_lock(&s->lock);
	/* Numbers do not come again: after four thousand million works, no more are checked. */
	if (s->base + s->n != UINT32_MAX && (s->n < s->cap || grow())) {
		number = s->base + s->n++;
		*check_item(number) = (struct check_item){
			.l = *l,
			.number = number,
			.ring = ring_of(q, l->index),
			.state = RUNNING,
		};
		s->works++;
	}
	pthread_mutex_unlock(&s->lock);
	return number;
}

void check_complete(uint32_t number, bool release_system)
{
	struct check_state *s = &check;
	struct check_item *w;

	pthread_mutex_lock(&s->lock);
	w = check_item(number);
	if (w && w->state == RUNNING) {
		w->state = COMPLETE;
		w->order = ++s->complete;
		if (release_system)
			s->released = s->complete;
		check_accesses_against(w);
		/* What the host looked at while it ran has changed: it shall be seen again. */
		check_shut_all(false);
	}
	pthread_mutex_unlock(&s->lock);
}

void check_observe(uint32_t complete, uint32_t released)
{
	struct check_state *s = &check;

	if (complete <= s->seen_complete && released <= s->seen_released)
		return;
	/* Up to here the host did not know. */
	for (struct check_open *e = s->open; e; e = e->next)
		if (e->copied)
			check_settle(e, false);
	if (complete > s->seen_complete)
		s->seen_complete = complete;
	if (released > s->seen_released)
		s->seen_released = released;
	while (s->n && published(check_item(s->base)))
		drop();
}

void check_acquire(const struct check_queue *q, uint64_t index)
{
	uint32_t ring = ring_of(q, index);

	pthread_mutex_lock(&check.lock);
	if (ring > check.acquired)
		__atomic_store_n(&check.acquired, ring, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&check.lock);
}

void check_release(void)
{
	pthread_mutex_lock(&check.lock);
	check.released = check.complete;
	pthread_mutex_unlock(&check.lock);
}

void check_queue_gone(uint32_t queue)
{
	struct check_state *s = &check;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->n; i++) {
		struct check_item *w = check_item(s->base + i);

		if (w->l.queue == queue)
			w->state = GONE;
	}
	while (s->n && published(check_item(s->base)))
		drop();
	pthread_mutex_unlock(&s->lock);
}

/* ---- events --------------------------------------------------------------------- */

void check_event(uint32_t id)
{
	pthread_mutex_lock(&check.lock);
	if (id < CHECK_EVENTS) {
		check.event[id].complete = check.complete;
		check.event[id].released = check.released;
	}
	pthread_mutex_unlock(&check.lock);
}

void check_event_seen(uint32_t id)
{
	pthread_mutex_lock(&check.lock);
	if (id < CHECK_EVENTS)
		check_observe(check.event[id].complete, check.event[id].released);
	pthread_mutex_unlock(&check.lock);
}
