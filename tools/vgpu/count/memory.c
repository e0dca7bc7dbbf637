/* Which buffers there are, and what passes the door to them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "count/internal.h"

/* ---- buffers ------------------------------------------------------------- */

/* Index of the first live buffer of vm that ends after va (or of a later address space). */
static size_t lower(const struct vm *vm, uint64_t va)
{
	size_t lo = 0, hi = count_state.n_live;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct count_buffer *b = count_state.live[mid];

		if (b->vm < vm || (b->vm == vm && b->va + b->size <= va))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct count_buffer *find(const struct vm *vm, uint64_t va)
{
	size_t i = lower(vm, va);
	struct count_buffer *b = i < count_state.n_live ? count_state.live[i] : NULL;

	return b && b->vm == vm && b->va <= va ? b : NULL;
}

struct count_buffer *count_buffer_at(const struct vm *vm, uint64_t va)
{
	struct count_buffer *b;

	pthread_mutex_lock(&count_state.lock);
	b = find(vm, va);
	pthread_mutex_unlock(&count_state.lock);
	return b;
}

static void mapped(struct vm_watch *w, struct vm *vm, const struct vm_mapping *m)
{
	struct count_state *s = &count_state;
	struct count_buffer *b;
	struct timespec t;
	size_t i;

	(void)w;
	pthread_mutex_lock(&s->lock);
	/* A BO that comes back to where it was (eviction) is the same buffer. */
	for (b = s->buffers; b; b = b->next)
		if (!b->live && b->vm == vm && b->va == m->start.a && b->size == m->size &&
		    b->bo == m->bo->id)
			break;
	if (s->n_live == s->cap_live) {
		size_t cap = s->cap_live ? 2 * s->cap_live : 64;
		struct count_buffer **p = realloc(s->live, cap * sizeof(*p));

		if (!p)
			goto out;
		s->live = p;
		s->cap_live = cap;
	}
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b)
			goto out;
		clock_gettime(CLOCK_MONOTONIC, &t);
		b->map_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
		b->vm = vm;
		b->va = m->start.a;
		b->size = m->size;
		b->bo = m->bo->id;
		b->pool = m->bo->pool;
		b->user = m->bo->kind == VM_BACK_USER;
		*s->buffers_end = b;
		s->buffers_end = &b->next;
	}
	b->writable = m->perm & VM_W;
	b->executable = m->perm & VM_X;
	b->live = true;
	i = lower(vm, b->va);
	memmove(&s->live[i + 1], &s->live[i], (s->n_live - i) * sizeof(*s->live));
	s->live[i] = b;
	s->n_live++;
out:
	pthread_mutex_unlock(&s->lock);
}

static void unmapped(struct vm_watch *w, struct vm *vm, const struct vm_mapping *m)
{
	struct count_state *s = &count_state;
	size_t i;

	(void)w;
	pthread_mutex_lock(&s->lock);
	i = lower(vm, m->start.a);
	if (i < s->n_live && s->live[i]->vm == vm && s->live[i]->va == m->start.a) {
		s->live[i]->live = false;
		s->n_live--;
		memmove(&s->live[i], &s->live[i + 1], (s->n_live - i) * sizeof(*s->live));
	}
	pthread_mutex_unlock(&s->lock);
}

static void add(uint64_t *to, uint64_t n)
{
	__atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

/* ---- waves --------------------------------------------------------------- */

static struct count_buffer *lookup(struct count_ctx *c, const struct vm_port *p, uint64_t va)
{
	uint64_t generation = vm_generation(p->vm);
	struct count_buffer *b;

	if (c->vm != p->vm || c->generation != generation) {
		memset(c->seen, 0, sizeof(c->seen));
		c->vm = p->vm;
		c->generation = generation;
	}
	for (unsigned i = 0; i < 8; i++)
		if (va - c->seen[i].start < c->seen[i].end - c->seen[i].start)
			return c->seen[i].b;
	b = count_buffer_at(p->vm, va);
	if (b) {
		unsigned i = c->turn++ % 8;

		c->seen[i].start = b->va;
		c->seen[i].end = b->va + b->size;
		c->seen[i].b = b;
	}
	return b;
}

/* The context's entry for b in this dispatch. */
static struct count_touch *touch(struct count_ctx *c, struct count_buffer *b)
{
	unsigned n = c->n_touch;

	for (unsigned i = 0; i < n; i++)
		if (c->touch[i].b == b)
			return &c->touch[i];
	if (n == COUNT_TOUCH) {
		/* full: hand over what there is */
		pthread_mutex_lock(&c->d->lock);
		for (unsigned i = 0; i < n; i++)
			count_touch_add(&c->d->touch, &c->d->n_touch, &c->d->cap_touch,
					&c->touch[i]);
		pthread_mutex_unlock(&c->d->lock);
		c->n_touch = n = 0;
	}
	c->touch[n] = (struct count_touch){.b = b};
	c->n_touch++;
	return &c->touch[n];
}

/* Whether this is the dispatch's first visit to a line. Of two workers that come at the same time
 * exactly one is the first. */
static bool first_visit(uint32_t **lines, const struct count_buffer *b, uint64_t line,
			uint32_t serial)
{
	uint32_t *l = __atomic_load_n(lines, __ATOMIC_ACQUIRE);

	if (!l) {
		pthread_mutex_lock(&count_state.lock);
		if (!*lines)
			__atomic_store_n(lines, calloc(b->size / COUNT_LINE + 1, 4),
					 __ATOMIC_RELEASE);
		l = *lines;
		pthread_mutex_unlock(&count_state.lock);
		if (!l)
			return false;
	}
	l += line - b->va / COUNT_LINE;
	return __atomic_load_n(l, __ATOMIC_RELAXED) != serial &&
	       __atomic_exchange_n(l, serial, __ATOMIC_RELAXED) != serial;
}

static void visit_line(struct count_ctx *c, const struct vm_port *p, enum vm_op op, uint64_t line)
{
	struct count_buffer *b = lookup(c, p, line * COUNT_LINE);
	uint32_t serial = c->d->serial;

	if (!b)
		return;
	if (op != VM_STORE)
		c->set.unique_read += first_visit(&b->line_read, b, line, serial);
	if (op != VM_LOAD)
		c->set.unique_written += first_visit(&b->line_written, b, line, serial);
}

static void bytes(struct count_ctx *c, const struct vm_port *p, enum vm_op op, uint64_t va,
		  uint64_t n)
{
	struct count_buffer *b = lookup(c, p, va);
	struct count_touch *t;

	if (!b)
		return;
	t = touch(c, b);
	if (op != VM_STORE) {
		t->read += n;
		add(&b->read, n);
	}
	if (op != VM_LOAD) {
		t->written += n;
		add(&b->written, n);
	}
	if (op > VM_FETCH)
		add(&b->atomics, 1);
}

/* The distinct lines of one access, at most n of them: a small open table. */
struct lines {
	uint64_t at[256];
	unsigned n;
};

static bool line_new(struct lines *t, uint64_t line)
{
	unsigned h = (unsigned)((line * 0x9e3779b97f4a7c15u) >> 56);

	line++; /* 0 marks a free place */
	for (;; h = (h + 1) % 256) {
		if (t->at[h] == line)
			return false;
		if (t->at[h])
			continue;
		/* 32 lanes of 16 bytes lie on 64 lines at most; bulk accesses on 128. */
		t->at[h] = line;
		t->n++;
		return true;
	}
}

static void lanes(struct vm_watch *w, const struct vm_port *p, enum vm_op op, const uint64_t *addr,
		  uint32_t mask, unsigned size, unsigned cache)
{
	struct count_ctx *c = (struct count_ctx *)w;
	uint64_t n = (uint64_t)__builtin_popcount(mask) * size, last = ~0ull, end = 0, start = 0;
	struct lines l64 = {.n = 0}, l128 = {.n = 0};
	uint64_t run = 0;

	(void)cache;
	if (!c->d)
		return;
	if (op != VM_STORE)
		c->set.vmem_read += n;
	if (op != VM_LOAD)
		c->set.vmem_written += n;
	if (op > VM_FETCH)
		c->set.atomics += (unsigned)__builtin_popcount(mask);
	for (uint32_t m = mask; m; m &= m - 1) {
		uint64_t a = addr[__builtin_ctz(m)];

		/* bytes: neighbours in one buffer are added together */
		if (op > VM_FETCH) {
			bytes(c, p, op, a, size);
		} else if (run && a == end && end - start < (1u << 12)) {
			end += size;
			run += size;
		} else {
			if (run)
				bytes(c, p, op, start, run);
			start = a;
			end = a + size;
			run = size;
		}
		for (uint64_t line = a / 64; line <= (a + size - 1) / 64; line++)
			if (line != last && line_new(&l64, last = line) &&
			    line_new(&l128, line / 2))
				visit_line(c, p, op, line / 2);
	}
	if (run)
		bytes(c, p, op, start, run);
	c->set.lines64 += l64.n;
	c->set.lines128 += l128.n;
}

static void scalar(struct vm_watch *w, const struct vm_port *p, enum vm_op op, uint64_t va,
		   size_t n, unsigned cache)
{
	struct count_ctx *c = (struct count_ctx *)w;

	(void)cache;
	if (!c->d || !n)
		return;
	if (op == VM_FETCH) {
		struct count_buffer *b = lookup(c, p, va);

		if (b)
			__atomic_store_n(&b->fetched, true, __ATOMIC_RELAXED);
		return;
	}
	c->set.smem_read += n;
	c->set.lines64 += (va + n - 1) / 64 - va / 64 + 1;
	c->set.lines128 += (va + n - 1) / 128 - va / 128 + 1;
	for (uint64_t line = va / COUNT_LINE; line <= (va + n - 1) / COUNT_LINE; line++)
		visit_line(c, p, op, line);
	bytes(c, p, op, va, n);
}

struct vm_watch *count_watch(struct count_ctx *c)
{
	c->watch = (struct vm_watch){
		.lanes = lanes,
		.span = scalar,
		/* Others that look at every port look at waves too. */
		.next = count_watch_others.next,
	};
	return &c->watch;
}

/* ---- everybody else ------------------------------------------------------ */

static void other(struct vm_watch *w, const struct vm_port *p, enum vm_op op, uint64_t va, size_t n,
		  unsigned cache)
{
	struct count_buffer *b = count_buffer_at(p->vm, va);

	(void)w;
	(void)cache;
	if (!b)
		return;
	if (op == VM_FETCH) {
		__atomic_store_n(&b->fetched, true, __ATOMIC_RELAXED);
		return;
	}
	if (op != VM_STORE)
		add(&b->other_read, n);
	if (op != VM_LOAD)
		add(&b->other_written, n);
}

struct vm_watch count_watch_others = {.span = other, .mapped = mapped, .unmapped = unmapped};
