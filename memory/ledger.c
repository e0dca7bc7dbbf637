#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/ledger.h"

struct owner {
	char *name;
	uint64_t live, peak, count;
};

/* One BO, alive or dead: what a fault is looked up in. */
struct life {
	const char *owner;
	uint64_t va, size, handle;
	uint32_t generation;
	bool alive;
};

struct ledger {
	struct ledger_record *records;
	uint64_t n, cap;
	struct life *lives; /* indexed by generation - 1 */
	uint64_t nlives, lives_cap;
	struct owner *owners;
	unsigned nowners, owners_cap;
	uint64_t live, peak;
};

int ledger_create(struct ledger **out)
{
	struct ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	*out = l;
	return 0;
}

void ledger_destroy(struct ledger *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < l->nowners; i++)
		free(l->owners[i].name);
	free(l->owners);
	free(l->lives);
	free(l->records);
	free(l);
}

static int grow(void **p, uint64_t *cap, uint64_t want, size_t size)
{
	uint64_t c = *cap ? *cap : 64;
	void *v;

	if (want <= *cap)
		return 0;
	while (c < want)
		c *= 2;
	v = realloc(*p, c * size);
	if (!v)
		return -ENOMEM;
	*p = v;
	*cap = c;
	return 0;
}

int ledger_reserve(struct ledger *l, unsigned n)
{
	int rc = grow((void **)&l->records, &l->cap, l->n + n, sizeof(*l->records));

	return rc < 0 ? rc
		      : grow((void **)&l->lives, &l->lives_cap, l->nlives + 1, sizeof(*l->lives));
}

const char *ledger_owner(struct ledger *l, const char *name)
{
	struct owner *o;

	for (unsigned i = 0; i < l->nowners; i++)
		if (!strcmp(l->owners[i].name, name))
			return l->owners[i].name;
	if (l->nowners == l->owners_cap) {
		unsigned cap = l->owners_cap ? l->owners_cap * 2 : 16;

		o = realloc(l->owners, cap * sizeof(*o));
		if (!o)
			return NULL;
		l->owners = o;
		l->owners_cap = cap;
	}
	o = &l->owners[l->nowners];
	*o = (struct owner){.name = strdup(name)};
	if (!o->name)
		return NULL;
	l->nowners++;
	return o->name;
}

static struct owner *owner_of(const struct ledger *l, const char *name)
{
	for (unsigned i = 0; i < l->nowners; i++)
		if (l->owners[i].name == name)
			return &l->owners[i];
	return NULL;
}

void ledger_enter(struct ledger *l, const struct ledger_record *r)
{
	struct owner *o = owner_of(l, r->owner);

	l->records[l->n++] = *r;
	switch (r->kind) {
	case LEDGER_ALLOC:
	case LEDGER_ADOPT:
		l->lives[l->nlives++] =
			(struct life){r->owner, r->va, r->size, r->handle, r->generation, true};
		l->live += r->size;
		if (l->live > l->peak)
			l->peak = l->live;
		o->live += r->size;
		o->count++;
		if (o->live > o->peak)
			o->peak = o->live;
		break;
	case LEDGER_FREE:
		l->lives[r->generation - 1].alive = false;
		l->live -= r->size;
		o->live -= r->size;
		o->count--;
		break;
	case LEDGER_MAP:
	case LEDGER_UNMAP:
		break;
	}
}

uint64_t ledger_read(const struct ledger *l, uint64_t first, struct ledger_record *out, uint64_t n)
{
	if (first < l->n && out)
		memcpy(out, l->records + first,
		       (n < l->n - first ? n : l->n - first) * sizeof(*out));
	return l->n;
}

unsigned ledger_usage(const struct ledger *l, struct memory_usage *rows, unsigned n)
{
	for (unsigned i = 0; i < l->nowners && i < n; i++)
		rows[i] = (struct memory_usage){l->owners[i].name, l->owners[i].live,
						l->owners[i].peak, l->owners[i].count};
	return l->nowners;
}

uint64_t ledger_live(const struct ledger *l)
{
	return l->live;
}

uint64_t ledger_peak(const struct ledger *l)
{
	return l->peak;
}

bool ledger_find(const struct ledger *l, uint64_t va, bool near, struct ledger_hit *out)
{
	const struct life *best = NULL;
	bool inside;

	/* Newest first: the same address may have had several lives, the last one counts. */
	for (uint64_t i = l->nlives; i-- > 0;) {
		const struct life *f = &l->lives[i];

		if (va < f->va || va - f->va >= f->size)
			continue;
		if (!best || (f->alive && !best->alive))
			best = f;
	}
	inside = best != NULL;
	for (uint64_t i = l->nlives; !inside && near && i-- > 0;) {
		const struct life *f = &l->lives[i];

		if (va < f->va)
			continue;
		/* The closest end below va; of equally close ones the living. */
		if (!best || f->va + f->size > best->va + best->size ||
		    (f->va + f->size == best->va + best->size && f->alive && !best->alive))
			best = f;
	}
	if (!best)
		return false;
	*out = (struct ledger_hit){
		.owner = best->owner,
		.va = best->va,
		.size = best->size,
		.offset = va - best->va,
		.alive = best->alive,
		.generation = best->generation,
	};
	return true;
}
