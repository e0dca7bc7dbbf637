/* The page tables of a plan: its buffers are placed as bo_create() will place them, one after the
 * other, and the addresses say which tables the kernel needs. */
#include "engine/plan.h"
#include "engine/plan_internal.h"
#include "memory/tables.h"
#include "memory/va.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The event page is not in the window: kfd/ puts it wherever Linux maps files, at a multiple of its
 * size. Nothing else is near. */
#define EVENT_PAGE "event page"
#define ELSEWHERE  0x7f0000000000ull

/* When a buffer is made: the queue's come first, in this order; then the engine's and its code;
 * then signals; and what a load needs for a while. */
static unsigned rank(const struct plan_buffer *b)
{
	static const char *const first[] = {EVENT_PAGE, "trap handler", "ring",
					    "eop",      "save area",    "queue"};
	static const char *const last[] = {"signals", "staging", "sdma ring", "sdma queue"};
	const unsigned n = sizeof(first) / sizeof(first[0]);

	for (unsigned i = 0; i < n; i++)
		if (!strcmp(b->owner, first[i]))
			return i;
	for (unsigned i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		if (!strcmp(b->owner, last[i]))
			return n + 1 + i;
	return n;
}

static int by_rank(const void *x, const void *y)
{
	const struct plan_buffer *const *a = x, *const *b = y;
	unsigned ra = rank(*a), rb = rank(*b);

	if (ra != rb)
		return ra < rb ? -1 : 1;
	return *a < *b ? -1 : *a > *b; /* as they were added */
}

static int place(struct va_space *va, const struct bo_rules *rules, const struct plan_buffer *b,
		 uint64_t *rng, uint64_t *at, uint64_t *size)
{
	struct bo_desc d = {.owner = b->owner, .size = b->bytes, .align = b->align};
	struct va_want w;
	int ret;

	if (!strcmp(b->owner, EVENT_PAGE)) {
		*at = ELSEWHERE;
		*size = b->bytes;
		return 0;
	}
	if (rules)
		bo_rules_apply(rules, &d);
	bo_want(&d, &w);
	*size = w.size;
	if (!d.va)
		return va_alloc_placed(va, &w, d.random ? rng : NULL, at);
	ret = va_alloc_at(va, d.va - w.before, w.before + w.size + w.after);
	*at = d.va;
	return ret;
}

static int walk(struct plan_buffer *const *order, uint32_t n, const struct bo_rules *rules,
		uint64_t piece, uint64_t *bytes)
{
	uint64_t rng = rules ? rules->seed : 0, at, size;
	struct mem_tables *t = NULL;
	struct va_space *va = NULL;
	int ret = va_space_create(MEM_WINDOW, MEM_WINDOW_BYTES, &va);

	if (ret >= 0)
		ret = mem_tables_create(piece, &t);
	for (uint32_t i = 0; i < n && ret >= 0; i++) {
		ret = place(va, rules, order[i], &rng, &at, &size);
		if (ret >= 0)
			ret = mem_tables_map(t, at, size);
	}
	if (ret >= 0)
		*bytes = mem_tables_bytes(t);
	mem_tables_destroy(t);
	va_space_destroy(va);
	return ret;
}

int plan_tables(struct plan *p)
{
	struct plan_buffer **order = calloc(p->n_buffers + 1, sizeof(struct plan_buffer *));
	uint64_t least = 0, most = 0;
	int ret;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_buffers; i++)
		order[i] = &p->buffers[i];
	qsort(order, p->n_buffers, sizeof(struct plan_buffer *), by_rank);
	ret = walk(order, p->n_buffers, p->rules, MEM_PIECE_LARGEST, &least);
	if (ret >= 0)
		ret = walk(order, p->n_buffers, p->rules, MEM_PIECE_LEAST, &most);
	free(order);
	if (ret < 0)
		return ret;
	p->tables_least = least;
	p->tables_most = most;
	return 0;
}
