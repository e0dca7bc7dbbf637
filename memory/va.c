#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "memory/va.h"

/* A sorted array of disjoint ranges. */
struct ranges {
	struct va_range *v;
	unsigned n, cap;
};

struct va_space {
	uint64_t base, size, free_bytes, granule;
	struct ranges holes, live;
};

static int reserve(struct ranges *r, unsigned n)
{
	struct va_range *v;
	unsigned cap = r->cap ? r->cap : 16;

	if (n <= r->cap)
		return 0;
	while (cap < n)
		cap *= 2;
	v = realloc(r->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	r->v = v;
	r->cap = cap;
	return 0;
}

/* First range that starts beyond addr. */
static unsigned upper(const struct ranges *r, uint64_t addr)
{
	unsigned lo = 0, hi = r->n;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (r->v[mid].start > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static void insert(struct ranges *r, unsigned at, uint64_t start, uint64_t size)
{
	memmove(&r->v[at + 1], &r->v[at], (r->n - at) * sizeof(*r->v));
	r->v[at] = (struct va_range){start, size};
	r->n++;
}

static void erase(struct ranges *r, unsigned at)
{
	memmove(&r->v[at], &r->v[at + 1], (r->n - at - 1) * sizeof(*r->v));
	r->n--;
}

int va_space_create(uint64_t base, uint64_t size, struct va_space **out)
{
	return va_space_create_granule(base, size, VA_ALIGN_MIN, out);
}

int va_space_create_granule(uint64_t base, uint64_t size, uint64_t granule, struct va_space **out)
{
	struct va_space *s;

	if (!granule || granule & (granule - 1) || granule > VA_ALIGN_MIN)
		return -EINVAL;
	if (!size || (base | size) & (granule - 1) || base + size < base)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	if (reserve(&s->holes, 1) < 0) {
		free(s);
		return -ENOMEM;
	}
	s->base = base;
	s->granule = granule;
	s->size = s->free_bytes = size;
	insert(&s->holes, 0, base, size);
	*out = s;
	return 0;
}

void va_space_destroy(struct va_space *s)
{
	if (!s)
		return;
	free(s->holes.v);
	free(s->live.v);
	free(s);
}

/* n live ranges leave at most n + 1 holes, so with room for one more of each, neither this
 * allocation nor any later free needs memory. */
static int reserve_one(struct va_space *s)
{
	int rc = reserve(&s->live, s->live.n + 1);

	return rc < 0 ? rc : reserve(&s->holes, s->live.n + 2);
}

/* Takes [start, start + size) out of hole i, which contains it. */
static void take(struct va_space *s, unsigned i, uint64_t start, uint64_t size)
{
	struct va_range *h = &s->holes.v[i];
	uint64_t before = start - h->start, after = h->start + h->size - (start + size);

	if (before && after) {
		h->size = before;
		insert(&s->holes, i + 1, start + size, after);
	} else if (before) {
		h->size = before;
	} else if (after) {
		h->start = start + size;
		h->size = after;
	} else {
		erase(&s->holes, i);
	}
	insert(&s->live, upper(&s->live, start), start, size);
	s->free_bytes -= size;
}

/* The lowest address in h that has room for w, and how many aligned addresses have. */
static uint64_t slots(const struct va_range *h, const struct va_want *w, uint64_t *first)
{
	uint64_t start, room;

	if (h->size < w->before)
		return 0;
	start = (h->start + w->before + w->align - 1) & ~(w->align - 1);
	if (start < h->start || start - h->start > h->size)
		return 0;
	room = h->size - (start - h->start);
	if (room < w->after || room - w->after < w->size)
		return 0;
	*first = start;
	return (room - w->after - w->size) / w->align + 1;
}

uint64_t va_random(uint64_t *rng)
{
	uint64_t z = (*rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

int va_alloc_placed(struct va_space *s, const struct va_want *w, uint64_t *rng, uint64_t *out)
{
	uint64_t all = 0, pick = 0, first = 0, total;
	int rc;

	if (!w->size || (w->size | w->before | w->after) & (s->granule - 1) ||
	    w->align < s->granule || w->align > VA_ALIGN_MAX || w->align & (w->align - 1))
		return -EINVAL;
	if (__builtin_add_overflow(w->size, w->before, &total) ||
	    __builtin_add_overflow(total, w->after, &total))
		return -ENOSPC;
	rc = reserve_one(s);
	if (rc < 0)
		return rc;
	if (rng) {
		for (unsigned i = 0; i < s->holes.n; i++)
			all += slots(&s->holes.v[i], w, &first);
		pick = all ? va_random(rng) % all : 0;
	}
	for (unsigned i = 0; i < s->holes.n; i++) {
		uint64_t n = slots(&s->holes.v[i], w, &first);

		if (pick >= n) {
			pick -= n;
			continue;
		}
		first += pick * w->align;
		take(s, i, first - w->before, total);
		*out = first;
		return 0;
	}
	return -ENOSPC;
}

int va_alloc(struct va_space *s, uint64_t size, uint64_t align, uint64_t *out)
{
	return va_alloc_placed(s, &(struct va_want){.size = size, .align = align}, NULL, out);
}

int va_alloc_at(struct va_space *s, uint64_t start, uint64_t size)
{
	unsigned i;
	int rc;

	if (!size || (start | size) & (s->granule - 1))
		return -EINVAL;
	if (start < s->base || start - s->base > s->size || s->size - (start - s->base) < size)
		return -ERANGE;
	rc = reserve_one(s);
	if (rc < 0)
		return rc;
	i = upper(&s->holes, start);
	if (!i)
		return -EADDRINUSE;
	i--;
	if (start - s->holes.v[i].start >= s->holes.v[i].size ||
	    s->holes.v[i].size - (start - s->holes.v[i].start) < size)
		return -EADDRINUSE;
	take(s, i, start, size);
	return 0;
}

int va_free(struct va_space *s, uint64_t start)
{
	unsigned l = upper(&s->live, start), i;
	struct va_range *v = s->holes.v;
	bool left, right;
	uint64_t size;

	if (!l || s->live.v[l - 1].start != start)
		return -EINVAL;
	size = s->live.v[l - 1].size;
	erase(&s->live, l - 1);
	s->free_bytes += size;

	i = upper(&s->holes, start);
	left = i && v[i - 1].start + v[i - 1].size == start;
	right = i < s->holes.n && start + size == v[i].start;
	if (left && right) {
		v[i - 1].size += size + v[i].size;
		erase(&s->holes, i);
	} else if (left) {
		v[i - 1].size += size;
	} else if (right) {
		v[i].start = start;
		v[i].size += size;
	} else {
		insert(&s->holes, i, start, size);
	}
	return 0;
}

uint64_t va_free_bytes(const struct va_space *s)
{
	return s->free_bytes;
}

uint64_t va_largest_hole(const struct va_space *s)
{
	uint64_t max = 0;

	for (unsigned i = 0; i < s->holes.n; i++)
		if (s->holes.v[i].size > max)
			max = s->holes.v[i].size;
	return max;
}

unsigned va_live_count(const struct va_space *s)
{
	return s->live.n;
}

unsigned va_hole_count(const struct va_space *s)
{
	return s->holes.n;
}

const struct va_range *va_hole(const struct va_space *s, unsigned i)
{
	return i < s->holes.n ? &s->holes.v[i] : NULL;
}

const struct va_range *va_live(const struct va_space *s, unsigned i)
{
	return i < s->live.n ? &s->live.v[i] : NULL;
}
