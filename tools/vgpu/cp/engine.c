/* The CP thread: notices doorbells, polls what blocked queues wait for, runs queues. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cp/internal.h"
#include "device.h"
#include "ownfd.h"
#include "vm/rawsys.h"

/* How long the pages stay open after the last ring before they are protected again: longer than
 * the gap between the stores of one batch, shorter than anybody's patience. */
#define LINGER_NS 30000u
/* A writer that was let go must get to its store before the pages close, or it would stop a second
 * time; on a busy machine it may have to wait for a core. */
#define EXPECT_NS            2000000u
#define NAP_MIN_NS           1000u
#define NAP_MAX_NS           16000u
#define POLL_MIN_NS          5000u
#define POLL_MAX_NS          2000000u
#define DOORBELL_POLL_MIN_NS 50000u
#define SWITCH_NS            500000u /* between two looks at who waits for a place */

static struct {
	pthread_mutex_t lock; /* list, start and stop */
	struct cp_queue *list;
	pthread_t thread;
	bool running;
	bool stop;            /* atomic */
	int wake;             /* eventfd */
	bool kicked;          /* atomic: a wake-up is under way */
	pthread_mutex_t scan; /* held while the CP thread walks the list */
	unsigned pollers;     /* atomic: queues that polled memory at the last look */
} E = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1, .scan = PTHREAD_MUTEX_INITIALIZER};

uint64_t cp_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cp_kick(void)
{
	uint64_t one = 1;

	if (E.wake < 0 || __atomic_exchange_n(&E.kicked, true, __ATOMIC_SEQ_CST))
		return;
	rawsys3(SYS_write, E.wake, &one, 8);
}

unsigned cp_pollers(void)
{
	return __atomic_load_n(&E.pollers, __ATOMIC_RELAXED);
}

bool cp_doorbell_take(struct cp_queue *q)
{
	uint64_t *slot;

	if (q->ring) /* the driver's own, which says so */
		return false;
	slot = cp_doorbell_slot(q->db, q->mqd.doorbell);
	if (__atomic_load_n(slot, __ATOMIC_RELAXED) == CP_DOORBELL_IDLE)
		return false;
	/* Acquire: pairs with the client's release of packet and write pointer before it rang. */
	return __atomic_exchange_n(slot, CP_DOORBELL_IDLE, __ATOMIC_ACQ_REL) != CP_DOORBELL_IDLE;
}

void cp_queue_run(struct cp_queue *q)
{
	if (!q->resident || q->failed)
		return;
	if (q->ring) {
		cp_ring_run(q);
		return;
	}
	if (cp_doorbell_take(q))
		q->rung = true;
	switch (q->mqd.type) {
	case CP_AQL:
		cp_aql_run(q);
		break;
	case CP_PM4:
		cp_pm4_run(q);
		break;
	case CP_SDMA:
		cp_sdma_run(q);
		break;
	}
}

void cp_engine_add(struct cp_queue *q)
{
	pthread_mutex_lock(&E.scan);
	q->link = E.list;
	E.list = q;
	pthread_mutex_unlock(&E.scan);
}

void cp_engine_remove(struct cp_queue *q)
{
	struct cp_queue **p;

	pthread_mutex_lock(&E.scan);
	for (p = &E.list; *p && *p != q; p = &(*p)->link)
		;
	if (*p)
		*p = q->link;
	pthread_mutex_unlock(&E.scan);
}

/* One look at every mapped queue. Returns whether a doorbell had rung; *wait is lowered to the
 * shortest back-off of a queue that polls memory, *busy says that workgroups are running. */
static bool scan(uint64_t *wait, bool *busy)
{
	unsigned pollers = 0;
	bool rang = false;

	*busy = false;
	pthread_mutex_lock(&E.scan);
	for (struct cp_queue *q = E.list; q; q = q->link) {
		bool ring = cp_doorbell_take(q);
		uint64_t before;

		rang |= ring;
		pthread_mutex_lock(&q->lock);
		q->rung |= ring;
		before = q->rptr + q->next;
		if (q->rung || q->poll)
			cp_queue_run(q);
		if (!q->poll || !q->resident || q->failed) {
			q->poll_ns = 0;
		} else {
			/* Progress or news start the back-off anew. */
			if (ring || before != q->rptr + q->next || !q->poll_ns)
				q->poll_ns = POLL_MIN_NS;
			else if (q->poll_ns < POLL_MAX_NS)
				q->poll_ns += q->poll_ns / 2;
			if (q->poll_ns < *wait)
				*wait = q->poll_ns;
			pollers++;
		}
		*busy |= q->in_flight > 0;
		pthread_mutex_unlock(&q->lock);
	}
	__atomic_store_n(&E.pollers, pollers, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&E.scan);
	return rang;
}

/* A thread stands in its store to a doorbell. The checker shuts the client's pages, what was
 * submitted is noted, the store is let go, and the doorbells are closed again before anything of it
 * runs: so the next ring stops too, whenever it comes. */
static void rung_checked(void)
{
	const uint64_t patience = 20000000u; /* ns: the thread may have to wait for a core */
	uint64_t start = cp_now();
	unsigned tries = 0;
	bool landed = false;

	check_ring();
	pthread_mutex_lock(&E.scan);
	for (struct cp_queue *q = E.list; q; q = q->link) {
		uint64_t wptr;

		if (q->ring)
			continue;
		pthread_mutex_lock(&q->lock);
		if (!vm_load64(&q->port, q->mqd.wptr, &wptr))
			check_submitted(&q->check, wptr);
		pthread_mutex_unlock(&q->lock);
	}
	cp_watch_drain();
	while (!landed && cp_now() - start < patience) {
		for (struct cp_queue *q = E.list; q && !landed; q = q->link)
			landed = !q->ring &&
				 __atomic_load_n(cp_doorbell_slot(q->db, q->mqd.doorbell),
						 __ATOMIC_RELAXED) != CP_DOORBELL_IDLE;
		raw_nap(&tries);
	}
	cp_watch_arm();
	pthread_mutex_unlock(&E.scan);
}

static void *cp_main(void *arg)
{
	uint64_t open_until = 0, lag = DOORBELL_POLL_MIN_NS, nap = NAP_MIN_NS;
	bool expect = false;
	int uffd = cp_watch_open();

	(void)arg;
	prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
	while (!__atomic_load_n(&E.stop, __ATOMIC_ACQUIRE)) {
		struct pollfd fd[2] = {{.fd = E.wake, .events = POLLIN},
				       {.fd = uffd, .events = POLLIN}};
		struct timespec ts;
		uint64_t wait = ~0ull, drop;
		bool busy, open;

		if (scan(&wait, &busy)) {
			open_until = cp_now() + LINGER_NS;
			lag = DOORBELL_POLL_MIN_NS;
			nap = NAP_MIN_NS;
			expect = false;
		}
		/* More queues than places: those off the hardware have their turn. */
		if (cp_mes_tick() && wait > SWITCH_NS)
			wait = SWITCH_NS;
		/* The pages stay open for a while. Short naps, no spinning: the core may be the
		 * very one that the writer needs. With workgroups running there is no hurry to see
		 * the next ring, and none to close before an expected one. */
		open = (!busy || expect) && !cp_watch_armed() && cp_now() < open_until;
		if (open) {
			if (nap < wait)
				wait = nap;
			if (nap < NAP_MAX_NS)
				nap *= 2;
		} else {
			if (!cp_watch_armed() || uffd < 0) {
				cp_watch_arm();
				expect = false;
				/* A ring from before the pages closed has no message: look again. */
				if (scan(&wait, &busy)) {
					open_until = cp_now() + LINGER_NS;
					lag = DOORBELL_POLL_MIN_NS;
					/* A queue without a place wants one now. */
					wait = 0;
				}
			}
			/* Closed or not: some pages no watch covers. */
			if (cp_watch_blind()) {
				if (lag < wait)
					wait = lag;
				if (lag < POLL_MAX_NS)
					lag += lag / 4;
			}
		}
		ts = vgpu_timespec(wait);
		rawsys6(SYS_ppoll, fd, uffd >= 0 ? 2 : 1, wait == ~0ull ? NULL : &ts, NULL, 8, 0);
		/* Emptied first and unmarked then: the other way round, a kick in between would leave
		 * its mark without its write, and no later kick would write any more. Emptied also
		 * without a mark, when it was taken off between a kick's mark and its write: what is
		 * left in there would end every poll at once. What a kick is for is looked at after
		 * this. Pairs with the exchange of cp_kick(). */
		if (fd[0].revents & POLLIN || __atomic_load_n(&E.kicked, __ATOMIC_SEQ_CST)) {
			rawsys3(SYS_read, E.wake, &drop, 8);
			__atomic_exchange_n(&E.kicked, false, __ATOMIC_SEQ_CST);
		}
		if (fd[1].revents & POLLIN) {
			if (check_on)
				rung_checked();
			else
				cp_watch_drain();
			open_until = cp_now() + EXPECT_NS;
			nap = NAP_MIN_NS;
			expect = true;
		}
	}
	return NULL;
}

/* ---- start and stop ------------------------------------------------------ */

static void forked(void)
{
	/* None of the parent's threads or queues exist here. */
	pthread_mutex_init(&E.lock, NULL);
	pthread_mutex_init(&E.scan, NULL);
	own_fd_close(E.wake);
	E.wake = -1;
	E.list = NULL;
	E.running = false;
	E.kicked = false;
	cp_irq_reset();
	cp_workers_reset();
	cp_mes_reset();
	cp_watch_reset();
	memset(&cp_stat, 0, sizeof(cp_stat));
}

int cp_start(unsigned workers)
{
	static bool atfork;
	sigset_t all, old;
	long r = 0;

	pthread_mutex_lock(&E.lock);
	if (E.running)
		goto out;
	if (!atfork) {
		pthread_atfork(NULL, NULL, forked);
		atfork = true;
	}
	r = rawsys2(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r < 0)
		goto out;
	E.wake = own_fd(r);
	E.stop = E.kicked = false;
	if (vgpu_config.deterministic)
		workers = 1;
	if (!workers) {
		long n = sysconf(_SC_NPROCESSORS_ONLN);

		workers = n > 0 ? (unsigned)n : 1;
	}
	cp_irq_open();
	/* The client's signals are the client's: no thread of the device ever takes one. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* Before a queue is there to ring for. */
	if (check_on)
		cp_watch_open();
	r = cp_workers_start(workers);
	if (!r) {
		r = -pthread_create(&E.thread, NULL, cp_main, NULL);
		if (r)
			cp_workers_stop();
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		own_fd_close(E.wake);
		E.wake = -1;
		goto out;
	}
	pthread_setname_np(E.thread, "vgpu-cp");
	E.running = true;
out:
	pthread_mutex_unlock(&E.lock);
	return r < 0 ? (int)r : 0;
}

void cp_stop(void)
{
	pthread_mutex_lock(&E.lock);
	cp_irq_close();
	if (E.running) {
		__atomic_store_n(&E.stop, true, __ATOMIC_RELEASE);
		cp_kick();
		pthread_join(E.thread, NULL);
		cp_workers_stop();
		cp_watch_close();
		own_fd_close(E.wake);
		E.wake = -1;
		E.running = false;
	}
	pthread_mutex_unlock(&E.lock);
}

void cp_stats(struct cp_stats *out)
{
	const uint64_t *s = (const uint64_t *)&cp_stat;
	uint64_t *d = (uint64_t *)out;

	for (unsigned i = 0; i < sizeof(*out) / 8; i++)
		d[i] = __atomic_load_n(&s[i], __ATOMIC_RELAXED);
}
