/* What passes the door: which dispatch last read and wrote each dword. */
#include "check/internal.h"
#include "vm/internal.h"

#define SEEN 4u

#define MINE static __thread __attribute__((tls_model("initial-exec")))

MINE uint32_t current, current_ring;
MINE bool acquires; /* the current work is one that has to */
/* Translations this thread has used. */
MINE struct {
	const struct vm *vm;
	uint64_t generation;
	unsigned turn;
	struct vm_tlbe e[SEEN];
} tlb;

void check_enter(uint32_t work)
{
	const struct check_item *w;

	if (work && work != current) {
		pthread_mutex_lock(&check.lock);
		w = check_item(work);
		current_ring = w ? w->ring : check.ring;
		acquires = w && w->l.kind == CHECK_AQL;
		pthread_mutex_unlock(&check.lock);
	}
	current = work;
}

/* Where in the pool va lies, and how far it goes on. False: not there, or the client's own memory. */
static bool find(const struct vm_port *p, uint64_t va, uint64_t *off, uint64_t *room)
{
	uint64_t generation = vm_generation(p->vm);
	const struct vm_tlbe *e = NULL;

	if (tlb.vm != p->vm || tlb.generation != generation) {
		for (unsigned i = 0; i < SEEN; i++)
			tlb.e[i].start = tlb.e[i].end = 0;
		tlb.vm = p->vm;
		tlb.generation = generation;
	}
	for (unsigned i = 0; i < SEEN; i++)
		if (va - tlb.e[i].start < tlb.e[i].end - tlb.e[i].start)
			e = &tlb.e[i];
	if (!e) {
		struct vm_tlbe *mine = &tlb.e[tlb.turn++ % SEEN];

		if (!vm_walk(p->vm, va, mine)) {
			mine->start = mine->end = 0;
			return false;
		}
		e = mine;
	}
	*off = (uint64_t)(e->host + (va - e->start) - check.alias);
	*room = e->end - va;
	return (uint64_t)(e->host - check.alias) < check.bytes;
}

static bool uncached(uint64_t off)
{
	return __atomic_load_n(&check.page[off / VM_PAGE].uncached, __ATOMIC_RELAXED);
}

/* ---- waves ---------------------------------------------------------------- */

static void by_whom(struct check_finding *f)
{
	uint64_t oldest = check.n_writers > CHECK_WRITERS ? check.n_writers - CHECK_WRITERS : 0;

	for (uint64_t i = check.n_writers; i-- > oldest;) {
		const struct check_writer *w = &check.writer[i % CHECK_WRITERS];

		if (f->pool_off - w->off >= VM_PAGE)
			continue;
		f->addr = w->addr + (f->pool_off - w->off);
		f->pc = w->pc;
		f->syscall = w->syscall;
		f->tid = w->tid;
		return;
	}
}

/* Work w reads a dword that the host wrote: after w was submitted, or without an acquire since. */
static void host_wrote(uint32_t w, uint64_t off, uint32_t ring)
{
	struct check_finding f = {.pool_off = off, .syscall = -2};
	struct check_item *item;

	pthread_mutex_lock(&check.lock);
	item = check_item(w);
	if (item) {
		f.kind = ring > item->ring ? WRITE_EARLY : UNACQUIRED;
		f.work = *item;
		by_whom(&f);
		check_found(&f);
		/* Said once of each dword. */
		__atomic_store_n(&check.host[off / 4], 0, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&check.lock);
}

static void reads(uint32_t w, uint64_t off, uint64_t n)
{
	for (uint64_t i = off / 4; i <= (off + n - 1) / 4; i++) {
		uint32_t ring = __atomic_load_n(&check.host[i], __ATOMIC_RELAXED);

		__atomic_store_n(&check.read[i], w, __ATOMIC_RELAXED);
		/* Uncached memory needs no acquire. */
		if (ring > current_ring ||
		    (ring > __atomic_load_n(&check.acquired, __ATOMIC_RELAXED) && acquires &&
		     !uncached(off)))
			host_wrote(w, 4 * i, ring);
	}
}

static void writes(uint32_t w, uint64_t off, uint64_t n)
{
	for (uint64_t i = off / 4; i <= (off + n - 1) / 4; i++) {
		__atomic_store_n(&check.wrote[i], w, __ATOMIC_RELAXED);
		__atomic_store_n(&check.host[i], 0, __ATOMIC_RELAXED);
	}
}

/* A word by which a wave may tell the host something while it runs. */
static void flag(uint32_t w, uint64_t off)
{
	struct check_page *p = &check.page[off / VM_PAGE];
	uint16_t dword = (uint16_t)(off % VM_PAGE / 4);

	if (__atomic_load_n(&p->flag, __ATOMIC_RELAXED) == w && p->flag_dword == dword &&
	    !__atomic_load_n(&p->open, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&check.lock);
	p->flag_dword = dword;
	__atomic_store_n(&p->flag, w, __ATOMIC_RELAXED);
	check_shut_page(off & ~(VM_PAGE - 1ull));
	pthread_mutex_unlock(&check.lock);
}

static void piece(const struct vm_port *p, enum vm_op op, uint64_t va, uint64_t n, bool flags)
{
	uint64_t off, room;

	while (n && find(p, va, &off, &room)) {
		uint64_t part = n < room ? n : room;

		if (op == VM_LOAD) {
			if (!flags || !uncached(off))
				reads(current, off, part);
		} else if (flags && uncached(off)) {
			flag(current, off);
		} else {
			if (op != VM_STORE)
				reads(current, off, part);
			writes(current, off, part);
		}
		va += part;
		n -= part;
	}
}

static void lanes(struct vm_watch *w, const struct vm_port *p, enum vm_op op, const uint64_t *addr,
		  uint32_t mask, unsigned size, unsigned cache)
{
	/* Loads past the caches are how a wave looks for what the host may change; atomics, and
	 * words that one lane stores by itself, how it tells the host. */
	bool flags = op > VM_FETCH || (op == VM_LOAD && cache & VM_GLC) ||
		     (op == VM_STORE && !(mask & (mask - 1)) && size <= 8);
	uint64_t start = 0, end = 0;

	(void)w;
	if (!current || !__atomic_load_n(&check.ready, __ATOMIC_ACQUIRE))
		return;
	for (uint32_t m = mask; m; m &= m - 1) {
		uint64_t a = addr[__builtin_ctz(m)];

		if (!flags && a == end) {
			end += size;
			continue;
		}
		if (start != end)
			piece(p, op, start, end - start, flags);
		start = a;
		end = a + size;
	}
	if (start != end)
		piece(p, op, start, end - start, flags);
}

/* ---- everybody else --------------------------------------------------------- */

/* The command processor writes a word that the host may wait for: whoever looks at it next sees
 * what is complete now. */
static void tells(const struct vm_port *p, uint64_t va)
{
	uint64_t off, room;
	bool pool = find(p, va, &off, &room);
	struct check_page *page;

	pthread_mutex_lock(&check.lock);
	if (!pool) {
		/* The client's own memory: nobody sees it looking. */
		check_observe(check.complete, check.released);
		goto out;
	}
	page = &check.page[off / VM_PAGE];
	page->complete = check.complete;
	page->released = check.released;
	check_shut_page(off & ~(VM_PAGE - 1ull));
	if (check_unseen(off))
		check_observe(check.complete, check.released);
out:
	pthread_mutex_unlock(&check.lock);
}

static void span(struct vm_watch *w, const struct vm_port *p, enum vm_op op, uint64_t va, size_t n,
		 unsigned cache)
{
	(void)w;
	if (op == VM_FETCH || !n || !__atomic_load_n(&check.ready, __ATOMIC_ACQUIRE))
		return;
	if (current)
		piece(p, op, va, n, op == VM_LOAD && cache & VM_GLC);
	else if (op != VM_LOAD && p->client != VM_CLIENT_TCP)
		tells(p, va);
}

static void mapped(struct vm_watch *w, struct vm *vm, const struct vm_mapping *m)
{
	(void)w;
	check_map_add(vm, m);
}

static void unmapped(struct vm_watch *w, struct vm *vm, const struct vm_mapping *m)
{
	(void)w;
	check_map_remove(vm, m);
}

struct vm_watch check_watch = {
	.lanes = lanes,
	.span = span,
	.mapped = mapped,
	.unmapped = unmapped,
};
