/* Small integer ids, lowest free first, like the kernel's idr_alloc(). Not thread-safe. */
#ifndef VGPU_IDR_H
#define VGPU_IDR_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct idr {
	void **slot;
	uint32_t n;    /* slots allocated */
	uint32_t hint; /* no free id below */
	uint32_t used;
};

/* The id, -ENOSPC at limit (exclusive), or -ENOMEM. */
static inline int idr_alloc(struct idr *i, void *ptr, uint32_t limit)
{
	uint32_t id = i->hint;

	while (id < i->n && i->slot[id])
		id++;
	i->hint = id;
	if (id >= limit)
		return -ENOSPC;
	if (id >= i->n) {
		uint32_t n = i->n ? i->n * 2 : 16;
		void **s = realloc(i->slot, n * sizeof(*s));

		if (!s)
			return -ENOMEM;
		memset(s + i->n, 0, (n - i->n) * sizeof(*s));
		i->slot = s;
		i->n = n;
	}
	i->slot[id] = ptr;
	i->hint = id + 1;
	i->used++;
	return (int)id;
}

/* ptr at an id that is free, as somebody else chose it. 0 or -ENOMEM. */
static inline int idr_set(struct idr *i, void *ptr, uint32_t id)
{
	if (id >= i->n) {
		uint32_t n = i->n ? i->n : 16;
		void **s;

		while (n <= id)
			n *= 2;
		s = realloc(i->slot, n * sizeof(*s));
		if (!s)
			return -ENOMEM;
		memset(s + i->n, 0, (n - i->n) * sizeof(*s));
		i->slot = s;
		i->n = n;
	}
	i->slot[id] = ptr;
	i->used++;
	return 0;
}

static inline void *idr_find(const struct idr *i, uint64_t id)
{
	return id < i->n ? i->slot[id] : NULL;
}

static inline void idr_remove(struct idr *i, uint32_t id)
{
	i->slot[id] = NULL;
	i->used--;
	if (id < i->hint)
		i->hint = id;
}

#endif
