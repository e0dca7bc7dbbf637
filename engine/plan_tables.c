/* The page tables of a plan: its buffers are placed as bo_create() will place them, one after the
 * other, and the addresses say which tables the kernel needs. */
#include "engine/plan.h"
#include "engine/plan_internal.h"
#include "engine/refuse.h"
#include "memory/tables.h"
#include "memory/va.h"

#include <errno.h>
#include <inttypes.h>
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

bool plan_placed(const struct plan_buffer *b)
{
	return strcmp(b->owner, EVENT_PAGE) != 0;
}

static const char *cause(int ret)
{
	switch (ret) {
	case -ERANGE:
		return "that is outside the window";
	case -EADDRINUSE:
		return "something else is there by then";
	case -EINVAL:
		return "it is no multiple of its alignment";
	default:
		return "no room is left";
	}
}

static int place(struct va_space *va, const struct bo_rules *rules, const struct plan_buffer *b,
		 uint64_t *rng, uint64_t *at, uint64_t *size, char *err, size_t errlen)
{
	struct bo_desc d = {.owner = b->owner, .size = b->bytes, .align = b->align};
	struct va_want w;
	int ret;

	if (!plan_placed(b)) {
		*at = ELSEWHERE;
		*size = b->bytes;
		return 0;
	}
	if (rules)
		bo_rules_apply(rules, &d);
	bo_want(&d, &w);
	*size = w.size;
	if (!d.va)
		ret = va_alloc_placed(va, &w, d.random ? rng : NULL, at);
	else if (d.va & (w.align - 1))
		ret = -EINVAL;
	else
		ret = va_alloc_at(va, d.va - w.before, w.before + w.size + w.after);
	if (d.va)
		*at = d.va;
	if (ret < 0 && ret != -ENOMEM)
		refuse(err, errlen, ret,
		       "buffer \"%s\" of 0x%" PRIx64 " bytes (alignment 0x%" PRIx64
		       ", guards 0x%" PRIx64 " + 0x%" PRIx64 ") at %s0x%" PRIx64
		       " of the window 0x%" PRIx64 " + 0x%" PRIx64 ": %s",
		       b->owner, w.size, w.align, w.before, w.after,
		       d.va ? "" : "any address from ", d.va ? d.va : (uint64_t)MEM_WINDOW,
		       (uint64_t)MEM_WINDOW, (uint64_t)MEM_WINDOW_BYTES, cause(ret));
	return ret;
}

static int walk(struct plan_buffer *const *order, uint32_t n, const struct bo_rules *rules,
		uint64_t piece, uint64_t *bytes, char *err, size_t errlen)
{
	uint64_t rng = rules ? rules->seed : 0, at, size;
	struct mem_tables *t = NULL;
	struct va_space *va = NULL;
	int ret = va_space_create(MEM_WINDOW, MEM_WINDOW_BYTES, &va);

	if (ret >= 0)
		ret = mem_tables_create(piece, &t);
	for (uint32_t i = 0; i < n && ret >= 0; i++) {
		ret = place(va, rules, order[i], &rng, &at, &size, err, errlen);
		if (ret >= 0)
			ret = mem_tables_map(t, at, size);
		if (ret >= 0)
			order[i]->va = plan_placed(order[i]) ? at : 0;
	}
	if (ret >= 0)
		*bytes = mem_tables_bytes(t);
	mem_tables_destroy(t);
	va_space_destroy(va);
	return ret;
}

int plan_tables(struct plan *p, char *err, size_t errlen)
{
	struct plan_buffer **order = calloc(p->n_buffers + 1, sizeof(struct plan_buffer *));
	uint64_t least = 0, most = 0;
	int ret;

	refuse(err, errlen, 0, "out of memory");
	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_buffers; i++)
		order[i] = &p->buffers[i];
	qsort(order, p->n_buffers, sizeof(struct plan_buffer *), by_rank);
	ret = walk(order, p->n_buffers, p->rules, MEM_PIECE_LARGEST, &least, err, errlen);
	if (ret >= 0)
		ret = walk(order, p->n_buffers, p->rules, MEM_PIECE_LEAST, &most, err, errlen);
	free(order);
	if (ret < 0)
		return ret;
	p->tables_least = least;
	p->tables_most = most;
	return 0;
}
