/* MES over several processes: which queues of which clients are on the hardware.
 *
 * The rules are those of one process (tools/vgpu/cp/mes.c), over all clients: eight compute places,
 * eight VMIDs, a quantum of 1 ms for a queue and of 10 ms for a process. Clients report what their
 * queues have to do while somebody waits, and take off and put on what the answer says; nobody is
 * asked anything while all queues have places.
 */
#include "vgpud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { HQDS = 8, VMIDS = 8, FIRST_VMID = 8 };

#define GANG_QUANTUM_NS    1000000u
#define PROCESS_QUANTUM_NS 10000000u
#define PATIENCE_NS        1000000000u
/* A process that does not answer (halted by a debugger) loses its place: its waves stand still. */
#define LEAVE_NS 5000000000ull

static struct queue *queues;
static struct queue *hqd[HQDS];
static struct {
	const struct client *client; /* NULL: free */
	uint64_t vm, since;
	unsigned queues;
} vmid[VMIDS];

unsigned places_count(unsigned *resident)
{
	unsigned n = 0;

	*resident = 0;
	for (struct queue *q = queues; q; q = q->next) {
		n++;
		*resident += q->resident;
	}
	return n;
}

static uint64_t elapsed(uint64_t now, uint64_t since)
{
	return now > since ? now - since : 0;
}

size_t places_json(char *buf, size_t n)
{
	size_t at = 0;

	for (struct queue *q = queues; q && at + 200 < n; q = q->next)
		at += (size_t)snprintf(
			buf + at, n - at,
			"%s{\"pid\": %d, \"queue\": %u, \"need\": %u, \"on\": %s, \"leaving\": %s, "
			"\"told\": %s, \"turned\": %s, \"since_ms\": %llu}",
			at ? ", " : "", (int)q->client->pid, q->id, q->need,
			q->resident ? "true" : "false", q->leaving ? "true" : "false",
			q->told ? "true" : "false", q->turned ? "true" : "false",
			(unsigned long long)(elapsed(now_ns(), q->since) / 1000000));
	return at;
}

static struct queue *find(const struct client *c, uint32_t id)
{
	struct queue *q = queues;

	while (q && (q->client != c || q->id != id))
		q = q->next;
	return q;
}

static int free_hqd(void)
{
	for (int i = 0; i < HQDS; i++)
		if (!hqd[i])
			return i;
	return -EBUSY;
}

static int vmid_for(const struct queue *q)
{
	int spare = -EBUSY;

	for (int i = 0; i < VMIDS; i++) {
		if (vmid[i].client == q->client && vmid[i].vm == q->vm)
			return i;
		if (!vmid[i].client && spare < 0)
			spare = i;
	}
	return spare;
}

static uint64_t rank(const struct queue *q, uint64_t now)
{
	return q->priority + elapsed(now, q->since) / PROCESS_QUANTUM_NS;
}

static void enter(struct queue *q, int h, int v)
{
	uint64_t now = now_ns();

	q->level = rank(q, now);
	hqd[h] = q;
	if (!vmid[v].queues++) {
		vmid[v].client = q->client;
		vmid[v].vm = q->vm;
		vmid[v].since = now;
	}
	q->hqd = (uint8_t)h;
	q->vmid = (uint8_t)(FIRST_VMID + v);
	q->since = now;
	q->resident = true;
	q->told = q->turned = q->leaving = false;
	page->mes_waiting--;
}

static void leave(struct queue *q)
{
	unsigned v = q->vmid - FIRST_VMID;

	hqd[q->hqd] = NULL;
	if (!--vmid[v].queues)
		vmid[v].client = NULL;
	q->since = now_ns();
	q->resident = q->leaving = false;
	page->mes_waiting++;
}

/* Whether q has had its turn. */
static bool expired(const struct queue *q, uint64_t now)
{
	uint64_t had = elapsed(now, q->since);

	if (!q->told)
		return had >= LEAVE_NS;
	if (had < GANG_QUANTUM_NS)
		return false;
	return q->need < 2 || had >= PATIENCE_NS || q->turned;
}

static struct queue *candidate(uint64_t now)
{
	struct queue *best = NULL;

	for (struct queue *q = queues; q; q = q->next) {
		if (q->resident || !q->need)
			continue;
		if (!best || rank(q, now) > rank(best, now) ||
		    (rank(q, now) == rank(best, now) && q->since < best->since))
			best = q;
	}
	return best;
}

static bool same_process(const struct queue *a, const struct queue *b)
{
	return a->client == b->client && a->vm == b->vm;
}

/* As mes.c:victim(). */
static struct queue *victim(const struct queue *c, uint64_t now)
{
	struct queue *best = NULL;
	uint64_t best_key = ~0ull;

	for (unsigned i = 0; i < HQDS; i++) {
		struct queue *q = hqd[i];
		uint64_t key;
		bool over;

		if (!q || q->hangs)
			continue;
		over = expired(q, now);
		if (q->need && !over && (!same_process(q, c) || q->level >= c->priority))
			continue;
		if (q->need && same_process(q, c) && q->priority > rank(c, now))
			continue;
		key = (uint64_t)q->need << 62 | q->priority << 56 | (q->since & ((1ull << 56) - 1));
		if (key < best_key) {
			best_key = key;
			best = q;
		}
	}
	return best;
}

static void ask_to_leave(struct queue *q, uint64_t now)
{
	static const uint64_t none[2];

	if (q->leaving)
		return;
	q->leaving = true;
	q->asked = now;
	tell(q->client, SHARE_NEWS_MES, none, NULL, 0);
}

/* As mes.c:free_vmid(). */
static void free_vmid(uint64_t now)
{
	int best = -1;

	for (int v = 0; v < VMIDS; v++) {
		bool idle = true, over = true, stays = false;

		for (unsigned i = 0; i < HQDS; i++) {
			struct queue *q = hqd[i];

			if (!q || q->vmid != FIRST_VMID + v)
				continue;
			idle = idle && !q->need && !q->hangs;
			over = over && expired(q, now);
			stays |= q->hangs;
		}
		if (idle) {
			best = v;
			break;
		}
		if (over && !stays && elapsed(now, vmid[v].since) >= PROCESS_QUANTUM_NS &&
		    (best < 0 || vmid[v].since < vmid[best].since))
			best = v;
	}
	for (unsigned i = 0; best >= 0 && i < HQDS; i++) {
		if (hqd[i] && hqd[i]->vmid == FIRST_VMID + best)
			ask_to_leave(hqd[i], now);
	}
}

/* All who could make room report, now and again. */
static void rouse(uint64_t now)
{
	static const uint64_t none[2];
	static uint64_t last;

	if (elapsed(now, last) < GANG_QUANTUM_NS)
		return;
	last = now;
	for (unsigned i = 0; i < HQDS; i++) {
		bool first = hqd[i] != NULL;

		for (unsigned k = 0; first && k < i; k++)
			first = !hqd[k] || hqd[k]->client != hqd[i]->client;
		if (first)
			tell(hqd[i]->client, SHARE_NEWS_MES, none, NULL, 0);
	}
}

static void schedule(void)
{
	for (unsigned i = 0; i < HQDS; i++) {
		uint64_t now = now_ns();
		struct queue *c = candidate(now), *v;
		bool leaving = false;
		int h, m;

		if (!c)
			return;
		for (unsigned k = 0; k < HQDS; k++) {
			struct queue *q = hqd[k];

			if (!q || !q->leaving)
				continue;
			if (elapsed(now, q->asked) < LEAVE_NS) {
				leaving = true;
				continue;
			}
			leave(q);
			q->need = 0; /* until it reports again */
		}
		h = free_hqd();
		m = vmid_for(c);
		if (h >= 0 && m >= 0) {
			static const uint64_t none[2];

			enter(c, h, m);
			tell(c->client, SHARE_NEWS_MES, none, NULL, 0);
			continue;
		}
		rouse(now);
		if (leaving)
			return;
		if (m < 0) {
			free_vmid(now);
			return;
		}
		v = victim(c, now);
		if (v)
			ask_to_leave(v, now);
		return;
	}
}

int place_add(struct client *c, struct share_msg *m)
{
	struct share_turn turn = {.queue = (uint32_t)m->a[0], .act = SHARE_WAIT};
	struct queue *q;
	int h, v;

	if (find(c, turn.queue))
		return -EEXIST;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->client = c;
	q->id = turn.queue;
	q->vm = m->a[1];
	q->priority = m->a[2] & 15;
	q->hangs = m->a[3];
	q->since = now_ns();
	q->next = queues;
	queues = q;
	page->mes_waiting++;
	h = free_hqd();
	v = vmid_for(q);
	if (h >= 0 && v >= 0) {
		enter(q, h, v);
		q->told = true;
		turn = (struct share_turn){q->id, SHARE_ENTER, q->hqd, q->vmid};
	}
	m->a[0] = turn.act;
	m->a[1] = turn.hqd;
	m->a[2] = turn.vmid;
	return 0;
}

static void drop(struct queue *q)
{
	struct queue **pos = &queues;

	if (q->resident)
		leave(q);
	while (*pos != q)
		pos = &(*pos)->next;
	*pos = q->next;
	page->mes_waiting--;
	free(q);
}

int place_remove(struct client *c, uint32_t id)
{
	struct queue *q = find(c, id);

	if (!q)
		return -ENOENT;
	drop(q);
	schedule();
	return 0;
}

size_t place_tick(struct client *c, const struct share_need *in, size_t n, struct share_turn *out,
		  size_t max)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		struct queue *q = find(c, in[i].queue);

		if (!q)
			continue;
		q->need = in[i].need > 2 ? 2 : in[i].need;
		q->turned |= in[i].turned && q->told;
		q->on = in[i].on;
	}
	schedule();
	for (struct queue *q = queues; q && k < max; q = q->next) {
		if (q->client != c)
			continue;
		if (q->resident && !q->told) {
			q->told = true;
			q->since = now_ns();
			out[k++] = (struct share_turn){q->id, SHARE_ENTER, q->hqd, q->vmid};
		} else if (q->resident ? q->leaving : q->on) {
			out[k++] = (struct share_turn){q->id, SHARE_LEAVE, q->hqd, q->vmid};
		}
	}
	return k;
}

int place_left(struct client *c, uint32_t id, bool off)
{
	struct queue *q = find(c, id);

	if (!q)
		return -ENOENT;
	q->on = !off;
	if (!q->resident || !q->leaving)
		return 0;
	if (off) {
		leave(q);
	} else {
		/* A trap handler holds it: it has another turn. */
		q->leaving = false;
		q->since = now_ns();
	}
	schedule();
	return 0;
}

/* Release: pairs with the acquire of who finds the slot free. */
static void seats_drop(const struct client *c)
{
	uint64_t *seat = &page->seat[0][0][0];

	for (size_t i = 0; i < sizeof(page->seat) / sizeof(*seat); i++) {
		if ((uint32_t)__atomic_load_n(&seat[i], __ATOMIC_RELAXED) == c->number)
			__atomic_store_n(&seat[i], 0, __ATOMIC_RELEASE);
	}
}

unsigned seats_count(void)
{
	const uint64_t *seat = &page->seat[0][0][0];
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(page->seat) / sizeof(*seat); i++)
		n += __atomic_load_n(&seat[i], __ATOMIC_RELAXED) != 0;
	return n;
}

void places_drop(struct client *c)
{
	bool any = false;

	for (struct queue *q = queues, *next; q; q = next) {
		next = q->next;
		if (q->client != c)
			continue;
		drop(q);
		any = true;
	}
	seats_drop(c);
	if (any)
		schedule();
}
