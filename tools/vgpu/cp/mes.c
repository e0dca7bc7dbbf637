/* The scheduler: which of the added queues are on the hardware.
 *
 * There are eight compute HQDs and eight VMIDs for user processes. As long as the added queues fit,
 * each keeps its place. When they do not, those that have nothing to do make room at once, the
 * others take turns: a gang (a queue) of 1 ms, a process of 10 ms, of the device's clock
 * (kfd_device_queue_manager.c:add_queue_mes). Within a process the higher priority goes first; what
 * has waited for a process quantum gains a level, so nothing waits for ever. A queue that leaves is
 * preempted and saved like any other. SDMA queues have places of their own. On a device that
 * several processes share, places and turns are the daemon's (tools/vgpud/places.c), by the same
 * rules; here queues are put on and taken off as it says.
 *
 * M.lock is taken before any queue's lock and E.scan. The CP thread switches; it never waits for
 * a trap handler that takes its time, nor touches a queue that is configured to hang.
 */
#include <errno.h>
#include <string.h>

#include "cp/internal.h"
#include "device.h"
#include "share/share.h"

enum { HQDS = 8, VMIDS = 8, FIRST_VMID = 8 };

#define GANG_QUANTUM_NS    1000000u
#define PROCESS_QUANTUM_NS 10000000u
/* A queue's waves run at least once before it leaves, on however slow a host; unless nothing of it
 * can run because the machine is full. */
#define PATIENCE_NS 1000000000u

static struct {
	pthread_mutex_t lock;
	struct cp_queue *list; /* added compute queues, on the hardware or not */
	struct cp_queue *hqd[HQDS];
	struct {
		const struct vm *vm; /* a process, to the hardware; NULL: free */
		uint64_t since;
		unsigned queues; /* on the hardware */
	} vmid[VMIDS];
	unsigned waiting; /* atomic: added but not on the hardware */
} M = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cp_mes_reset(void)
{
	memset(&M, 0, sizeof(M));
	pthread_mutex_init(&M.lock, NULL);
}

/* ---- places ---------------------------------------------------------------- */

static int free_hqd(void)
{
	for (int i = 0; i < HQDS; i++)
		if (!M.hqd[i])
			return i;
	return -EBUSY;
}

/* The VMID of vm's process, or a free one. */
static int vmid_for(const struct vm *vm)
{
	int spare = -EBUSY;

	for (int i = 0; i < VMIDS; i++) {
		if (M.vmid[i].vm == vm)
			return i;
		if (!M.vmid[i].vm && spare < 0)
			spare = i;
	}
	return spare;
}

static void go_on(struct cp_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->resident = true;
	/* MES polls the write pointer in memory when it maps a queue: what was rung while the
	 * queue was away counts. */
	q->rung = true;
	/* A queue that faulted or failed stays down, as the kernel leaves it. */
	if (!q->failed) {
		cp_cwsr_restore(q);
		__atomic_store_n(&q->preempt, q->failed, __ATOMIC_RELEASE);
		if (!q->failed)
			cp_sched_resume(q);
	}
	pthread_mutex_unlock(&q->lock);
}

static uint64_t elapsed(uint64_t now, uint64_t since)
{
	return now > since ? now - since : 0;
}

/* Priority, and a level for every process quantum of waiting. */
static uint64_t rank(const struct cp_queue *q, uint64_t now)
{
	return q->mqd.priority + elapsed(now, q->since) / PROCESS_QUANTUM_NS;
}

static void load(struct cp_queue *q, int hqd, int vmid)
{
	uint64_t now = vgpu_clock_ns();

	q->level = rank(q, now);
	M.hqd[hqd] = q;
	if (!M.vmid[vmid].queues++) {
		M.vmid[vmid].vm = q->mqd.vm;
		M.vmid[vmid].since = now;
	}
	q->hqd = (uint8_t)hqd;
	q->vmid = (uint8_t)(FIRST_VMID + vmid);
	q->since = now;
	q->turns_before = __atomic_load_n(&q->turns, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&M.waiting, 1, __ATOMIC_RELAXED);
	go_on(q);
}

static void leave(struct cp_queue *q)
{
	unsigned v = q->vmid - FIRST_VMID;

	M.hqd[q->hqd] = NULL;
	if (!--M.vmid[v].queues)
		M.vmid[v].vm = NULL;
	q->since = vgpu_clock_ns();
	__atomic_fetch_add(&M.waiting, 1, __ATOMIC_RELAXED);
}

/* Off the hardware. False: it does not come off, and goes on where it is. */
static bool take_off(struct cp_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->resident = false;
	/* Pairs with the workers' load between two quanta. */
	__atomic_store_n(&q->preempt, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&q->lock);
	if (!cp_sched_stop(q, false)) {
		pthread_mutex_lock(&q->lock);
		q->resident = true;
		q->since = vgpu_clock_ns();
		__atomic_store_n(&q->preempt, q->failed, __ATOMIC_RELEASE);
		if (!q->failed)
			cp_sched_resume(q);
		pthread_mutex_unlock(&q->lock);
		return false;
	}
	pthread_mutex_lock(&q->lock);
	cp_cwsr_save(q);
	pthread_mutex_unlock(&q->lock);
	CP_COUNT(switches, 1);
	return true;
}

static bool unload(struct cp_queue *q)
{
	if (!take_off(q))
		return false;
	leave(q);
	return true;
}

/* ---- places of a shared device --------------------------------------------- */

static unsigned need(struct cp_queue *q);

static void put_on(struct cp_queue *q, uint64_t hqd, uint64_t vmid)
{
	q->hqd = (uint8_t)hqd;
	q->vmid = (uint8_t)vmid;
	q->since = vgpu_clock_ns();
	q->turns_before = __atomic_load_n(&q->turns, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&M.waiting, 1, __ATOMIC_RELAXED);
	go_on(q);
}

static void shared_add(struct cp_queue *q)
{
	static uint32_t last_id; /* M.lock */
	uint64_t a[SHARE_ARGS] = {++last_id, (uintptr_t)q->mqd.vm, q->mqd.priority, q->mqd.hangs};

	q->mes_id = last_id;
	if (!share_call(SHARE_MES_ADD, a) && a[0] == SHARE_ENTER)
		put_on(q, a[1], a[2]);
}

static struct cp_queue *by_id(uint32_t id)
{
	struct cp_queue *q = M.list;

	while (q && q->mes_id != id)
		q = q->mes_link;
	return q;
}

static void shared_turn(const struct share_turn *t)
{
	struct cp_queue *q = by_id(t->queue);
	uint64_t a[SHARE_ARGS] = {t->queue, 1};

	if (!q)
		return;
	if (t->act == SHARE_ENTER && !q->resident) {
		put_on(q, t->hqd, t->vmid);
	} else if (t->act == SHARE_LEAVE) {
		if (q->resident) {
			a[1] = take_off(q);
			if (a[1])
				__atomic_fetch_add(&M.waiting, 1, __ATOMIC_RELAXED);
		}
		share_call(SHARE_MES_LEFT, a);
	}
}

/* What the queues have to do, for what the daemon makes of it. */
static bool shared_tick(void)
{
	static struct share_need in[1024]; /* M.lock */
	static struct share_turn out[1024];
	uint64_t a[SHARE_ARGS] = {0};
	size_t n = 0, len = sizeof(out);
	bool wants = false;

	/* Ours may have been given places that they do not know of yet. */
	if ((!__atomic_load_n(&share_page->mes_waiting, __ATOMIC_RELAXED) &&
	     !__atomic_load_n(&M.waiting, __ATOMIC_RELAXED)) ||
	    share_lost())
		return false;
	pthread_mutex_lock(&M.lock);
	for (struct cp_queue *q = M.list; q && n < 1024; q = q->mes_link) {
		unsigned k = need(q);

		in[n++] = (struct share_need){
			.queue = q->mes_id,
			.need = (uint8_t)k,
			.turned = __atomic_load_n(&q->turns, __ATOMIC_RELAXED) != q->turns_before,
			.on = q->resident,
		};
		wants |= k != 0;
	}
	if (!n || share_call_data(SHARE_MES_TICK, a, -1, in, n * sizeof(in[0]), out, &len))
		len = 0;
	for (size_t i = 0; i < len / sizeof(out[0]); i++)
		shared_turn(&out[i]);
	pthread_mutex_unlock(&M.lock);
	return wants;
}

void cp_mes_look(void)
{
	cp_kick();
}

/* ---- added and removed ----------------------------------------------------- */

void cp_mes_add(struct cp_queue *q)
{
	int hqd, vmid;

	if (q->mqd.type == CP_SDMA || q->ring) {
		go_on(q);
		return;
	}
	pthread_mutex_lock(&q->lock);
	q->rung = true; /* its write pointer wants a look, here or at its turn */
	pthread_mutex_unlock(&q->lock);
	pthread_mutex_lock(&M.lock);
	q->mes_link = M.list;
	M.list = q;
	q->since = vgpu_clock_ns();
	__atomic_fetch_add(&M.waiting, 1, __ATOMIC_RELAXED);
	if (share_active()) {
		shared_add(q);
		pthread_mutex_unlock(&M.lock);
		return;
	}
	hqd = free_hqd();
	vmid = vmid_for(q->mqd.vm);
	if (hqd >= 0 && vmid >= 0)
		load(q, hqd, vmid);
	pthread_mutex_unlock(&M.lock);
}

/* With M.lock held. */
static void forget(struct cp_queue *q, bool resident)
{
	uint64_t a[SHARE_ARGS] = {q->mes_id};
	struct cp_queue **p;

	for (p = &M.list; *p && *p != q; p = &(*p)->mes_link)
		;
	if (!*p)
		return;
	*p = q->mes_link;
	if (share_active()) {
		share_call(SHARE_MES_REMOVE, a);
		if (!resident)
			__atomic_fetch_sub(&M.waiting, 1, __ATOMIC_RELAXED);
		return;
	}
	if (M.hqd[q->hqd] == q)
		leave(q);
	__atomic_fetch_sub(&M.waiting, 1, __ATOMIC_RELAXED);
}

bool cp_mes_remove(struct cp_queue *q, bool kill)
{
	bool off, resident;

	if (q->mqd.type != CP_SDMA)
		pthread_mutex_lock(&M.lock);
	pthread_mutex_lock(&q->lock);
	resident = q->resident;
	q->resident = false;
	__atomic_store_n(&q->preempt, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&q->lock);
	off = cp_sched_stop(q, true);
	if (off && resident && !kill) {
		pthread_mutex_lock(&q->lock);
		cp_cwsr_save(q);
		pthread_mutex_unlock(&q->lock);
	}
	if (q->mqd.type != CP_SDMA) {
		forget(q, resident);
		pthread_mutex_unlock(&M.lock);
	}
	return off;
}

/* ---- turns ----------------------------------------------------------------- */

/* What a queue has to do: 0 nothing, 1 it waits for memory to change, 2 work. */
static unsigned need(struct cp_queue *q)
{
	bool ring = cp_doorbell_take(q);
	unsigned n;

	pthread_mutex_lock(&q->lock);
	q->rung |= ring;
	n = q->failed ? 0 : q->rung || q->in_flight ? 2 : q->poll ? 1 : 0;
	pthread_mutex_unlock(&q->lock);
	return n;
}

/* Whether q, which has so much to do, has had its turn. */
static bool expired(struct cp_queue *q, unsigned busy, uint64_t now)
{
	uint64_t had = elapsed(now, q->since);

	if (had < GANG_QUANTUM_NS)
		return false;
	return busy < 2 || had >= PATIENCE_NS ||
	       __atomic_load_n(&q->turns, __ATOMIC_RELAXED) != q->turns_before;
}

/* The queue that is to come on next, or NULL. */
static struct cp_queue *candidate(uint64_t now)
{
	struct cp_queue *best = NULL;

	for (struct cp_queue *q = M.list; q; q = q->mes_link) {
		if (q->resident || !need(q))
			continue;
		if (!best || rank(q, now) > rank(best, now) ||
		    (rank(q, now) == rank(best, now) && q->since < best->since))
			best = q;
	}
	return best;
}

/* A queue that makes room for c: one with less to do, else one of lower priority, else the one
 * that has been on longest, when its time is up. */
static struct cp_queue *victim(const struct cp_queue *c, uint64_t now)
{
	struct cp_queue *best = NULL;
	uint64_t best_key = ~0ull;

	for (unsigned i = 0; i < HQDS; i++) {
		struct cp_queue *q = M.hqd[i];
		bool over;
		unsigned busy;
		uint64_t key;

		if (!q || q->mqd.hangs)
			continue;
		busy = need(q);
		over = expired(q, busy, now);
		if (busy && !over && (q->mqd.vm != c->mqd.vm || q->level >= c->mqd.priority))
			continue;
		if (busy && q->mqd.vm == c->mqd.vm && q->mqd.priority > rank(c, now))
			continue;
		key = (uint64_t)busy << 62 | (uint64_t)q->mqd.priority << 56 |
		      (q->since & ((1ull << 56) - 1));
		if (key < best_key) {
			best_key = key;
			best = q;
		}
	}
	return best;
}

/* Frees a VMID for another process: of one that has nothing on or nothing to do, else of the one
 * whose time has been up longest. */
static bool free_vmid(uint64_t now)
{
	int best = -1;

	for (int v = 0; v < VMIDS; v++) {
		bool idle = true, over = true;

		for (unsigned i = 0; i < HQDS; i++) {
			struct cp_queue *q = M.hqd[i];
			unsigned busy;

			if (!q || q->vmid != FIRST_VMID + v)
				continue;
			busy = need(q);
			idle = idle && !busy && !q->mqd.hangs;
			over = over && expired(q, busy, now);
		}
		if (idle) {
			best = v;
			break;
		}
		if (over && elapsed(now, M.vmid[v].since) >= PROCESS_QUANTUM_NS &&
		    (best < 0 || M.vmid[v].since < M.vmid[best].since))
			best = v;
	}
	if (best < 0)
		return false;
	for (unsigned i = 0; i < HQDS; i++) {
		struct cp_queue *q = M.hqd[i];

		if (q && q->vmid == FIRST_VMID + best && (q->mqd.hangs || !unload(q)))
			return false;
	}
	return true;
}

bool cp_mes_tick(void)
{
	uint64_t now;
	bool wants = false;

	if (share_active())
		return shared_tick();
	if (!__atomic_load_n(&M.waiting, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&M.lock);
	for (unsigned i = 0; i < HQDS; i++) {
		struct cp_queue *c, *v;
		int hqd, vmid;

		now = vgpu_clock_ns();
		c = candidate(now);
		if (!c)
			break;
		wants = true;
		if (vmid_for(c->mqd.vm) < 0 && !free_vmid(now))
			break;
		hqd = free_hqd();
		if (hqd < 0) {
			v = victim(c, now);
			if (!v || !unload(v))
				break;
			hqd = free_hqd();
		}
		vmid = vmid_for(c->mqd.vm);
		if (hqd < 0 || vmid < 0)
			break;
		load(c, hqd, vmid);
	}
	pthread_mutex_unlock(&M.lock);
	return wants;
}
