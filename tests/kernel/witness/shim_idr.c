/* Ids in a sorted array. */
#include "shim.h"

void idr_init(struct idr *i)
{
	memset(i, 0, sizeof(*i));
}

void idr_destroy(struct idr *i)
{
	free(i->slots);
	idr_init(i);
}

/* The first slot whose id is at least id. */
static unsigned position(const struct idr *i, long id)
{
	unsigned lo = 0, hi = i->n;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (i->slots[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int idr_alloc(struct idr *i, void *ptr, int start, int end, gfp_t gfp)
{
	unsigned at = position(i, start);
	long id = start, last = end > 0 ? end - 1 : INT_MAX;

	(void)gfp;
	while (at < i->n && i->slots[at].id == id) {
		at++;
		id++;
	}
	if (id > last)
		return -ENOSPC;
	if (i->n == i->cap) {
		unsigned cap = i->cap ? 2 * i->cap : 64;
		struct idr_slot *s = realloc(i->slots, cap * sizeof(*s));

		if (!s)
			return -ENOMEM;
		i->slots = s;
		i->cap = cap;
	}
	memmove(i->slots + at + 1, i->slots + at, (i->n - at) * sizeof(i->slots[0]));
	i->slots[at] = (struct idr_slot){(int)id, ptr};
	i->n++;
	return (int)id;
}

static bool found(const struct idr *i, unsigned long id, unsigned *at)
{
	if (id > INT_MAX)
		return false;
	*at = position(i, (long)id);
	return *at < i->n && i->slots[*at].id == (int)id;
}

void *idr_find(const struct idr *i, unsigned long id)
{
	unsigned at;

	return found(i, id, &at) ? i->slots[at].ptr : NULL;
}

void *idr_remove(struct idr *i, unsigned long id)
{
	unsigned at;
	void *ptr;

	if (!found(i, id, &at))
		return NULL;
	ptr = i->slots[at].ptr;
	memmove(i->slots + at, i->slots + at + 1, (i->n - at - 1) * sizeof(i->slots[0]));
	i->n--;
	return ptr;
}

void *idr_get_next(const struct idr *i, u32 *id)
{
	for (unsigned at = position(i, *id); at < i->n; at++) {
		if (i->slots[at].ptr) {
			*id = (u32)i->slots[at].id;
			return i->slots[at].ptr;
		}
	}
	return NULL;
}
