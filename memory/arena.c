#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/arena.h"
#include "memory/rules.h"
#include "memory/va.h"

struct part {
	char *owner;
	uint64_t va, bytes;
	uint64_t start, size; /* with padding and red zones */
	uint32_t generation;
	uint64_t died; /* order of death while in quarantine, else 0 */
	bool alive;
};

struct arena {
	struct va_space *va;
	uint64_t base, size;
	uint8_t *host;
	struct arena_opts o;
	struct part *parts; /* in order of allocation, dead ones too */
	uint32_t n, cap;
	uint64_t deaths;
	uint64_t rng, used, taken, quarantined;
	unsigned alive;
};

void zone_fill(void *host, uint64_t va, uint64_t bytes)
{
	uint8_t *p = host;

	for (uint64_t i = 0; i < bytes; i++)
		p[i] = zone_byte(va + i);
}

uint64_t zone_check(const void *host, uint64_t va, uint64_t bytes, uint64_t *changed)
{
	const uint8_t *p = host;
	uint64_t first = bytes, n = 0;

	for (uint64_t i = 0; i < bytes; i++) {
		if (p[i] == zone_byte(va + i))
			continue;
		if (!n++)
			first = i;
	}
	if (changed)
		*changed = n;
	return first;
}

int arena_create(uint64_t va, uint64_t size, void *host, const struct arena_opts *opts,
		 struct arena **out)
{
	struct arena *a;
	int rc;

	if (opts && (opts->redzone & (ARENA_GRANULE - 1) || opts->align & (opts->align - 1) ||
		     (opts->align && (opts->align < ARENA_GRANULE || opts->align > VA_ALIGN_MAX))))
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	if (opts)
		a->o = *opts;
	if (!a->o.align)
		a->o.align = ARENA_ALIGN;
	a->base = va;
	a->size = size;
	a->host = host;
	a->rng = a->o.rules ? a->o.rules->seed : 0;
	rc = va_space_create_granule(va, size, ARENA_GRANULE, &a->va);
	if (rc < 0) {
		free(a);
		return rc;
	}
	*out = a;
	return 0;
}

void arena_destroy(struct arena *a)
{
	if (!a)
		return;
	for (uint32_t i = 0; i < a->n; i++)
		free(a->parts[i].owner);
	free(a->parts);
	va_space_destroy(a->va);
	free(a);
}

static uint8_t *host_of(const struct arena *a, uint64_t va)
{
	return a->host + (va - a->base);
}

/* Gives dead parts' places back, the longest dead first, down to the limit. */
static void release(struct arena *a, uint64_t limit)
{
	while (a->quarantined > limit) {
		struct part *oldest = NULL;

		for (struct part *p = a->parts; p < a->parts + a->n; p++)
			if (p->died && (!oldest || p->died < oldest->died))
				oldest = p;
		assert(oldest); /* quarantined is their sum */
		oldest->died = 0;
		a->quarantined -= oldest->size;
		va_free(a->va, oldest->start);
	}
}

static int grow(struct arena *a)
{
	uint32_t cap = a->cap ? a->cap * 2 : 16;
	struct part *p;

	if (a->n < a->cap)
		return 0;
	p = realloc(a->parts, cap * sizeof(*p));
	if (!p)
		return -ENOMEM;
	a->parts = p;
	a->cap = cap;
	return 0;
}

/* at 0: anywhere. */
static int try_take(struct arena *a, const struct va_want *w, uint64_t at, bool random,
		    uint64_t *va)
{
	int rc;

	if (!at)
		return va_alloc_placed(a->va, w, random ? &a->rng : NULL, va);
	if (at & (w->align - 1))
		return -EINVAL;
	if (at - a->base > a->size || at - a->base < w->before)
		return -ERANGE;
	rc = va_alloc_at(a->va, at - w->before, w->before + w->size + w->after);
	if (rc == 0)
		*va = at;
	return rc;
}

static int take(struct arena *a, const struct va_want *w, uint64_t at, bool random, uint64_t *va)
{
	int rc = try_take(a, w, at, random, va);

	if ((rc == -ENOSPC || rc == -EADDRINUSE) && a->quarantined) {
		release(a, 0);
		rc = try_take(a, w, at, random, va);
	}
	return rc;
}

int arena_alloc(struct arena *a, const char *owner, uint64_t bytes, uint64_t align, uint64_t *va)
{
	uint64_t zone = a->o.redzone, ruled = bo_rules_redzone(a->o.rules, owner);
	struct bo_desc ruled_place = {.owner = owner, .random = a->o.random};
	struct va_want w;
	struct part p = {.bytes = bytes, .alive = true};
	int rc;

	if (!bytes || bytes > a->size)
		return bytes ? -ENOSPC : -EINVAL;
	if (ruled)
		zone = ruled;
	align = bo_rules_align(a->o.rules, owner, align ? align : a->o.align);
	w = (struct va_want){
		.size = (bytes + ARENA_GRANULE - 1) & ~(uint64_t)(ARENA_GRANULE - 1),
		.align = align < ARENA_GRANULE ? ARENA_GRANULE : align,
		.before = zone,
		.after = zone,
	};
	rc = grow(a);
	if (rc < 0)
		return rc;
	p.owner = strdup(owner);
	if (!p.owner)
		return -ENOMEM;
	bo_rules_apply(a->o.rules, &ruled_place);
	rc = take(a, &w, ruled_place.va, ruled_place.random, &p.va);
	if (rc < 0) {
		free(p.owner);
		return rc;
	}
	p.start = p.va - w.before;
	p.size = w.before + w.size + w.after;
	p.generation = a->n + 1;
	a->parts[a->n++] = p;
	a->used += bytes;
	a->taken += p.size;
	a->alive++;
	if (a->host) {
		zone_fill(host_of(a, p.start), p.start, w.before);
		zone_fill(host_of(a, p.va + bytes), p.va + bytes, p.start + p.size - p.va - bytes);
		if (a->o.rules && a->o.rules->poison_alloc)
			memset(host_of(a, p.va), a->o.rules->alloc_byte, bytes);
	}
	*va = p.va;
	return 0;
}

int arena_free(struct arena *a, uint64_t va)
{
	const struct bo_rules *r = a->o.rules;

	for (uint32_t i = a->n; i-- > 0;) {
		struct part *p = &a->parts[i];

		if (!p->alive || p->va != va)
			continue;
		if (a->host && r && r->poison_free)
			memset(host_of(a, va), r->free_byte, p->bytes);
		p->alive = false;
		p->died = ++a->deaths;
		a->used -= p->bytes;
		a->taken -= p->size;
		a->quarantined += p->size;
		a->alive--;
		release(a, r ? r->quarantine_bytes : 0);
		return 0;
	}
	return -EINVAL;
}

/* The bytes [start, end) around p, if changed, into *d; how many changed in *n. */
static void look(const struct arena *a, const struct part *p, uint64_t start, uint64_t end,
		 struct arena_damage *d)
{
	uint64_t changed, at = zone_check(host_of(a, start), start, end - start, &changed);

	if (changed && !d->changed) {
		d->owner = p->owner;
		d->va = p->va;
		d->bytes = p->bytes;
		d->at = start + at;
		d->found = *host_of(a, d->at);
		d->wanted = zone_byte(d->at);
	}
	d->changed += changed;
}

unsigned arena_check(const struct arena *a, struct arena_damage *out)
{
	struct arena_damage lowest = {0};
	unsigned damaged = 0;

	for (uint32_t i = 0; a->host && i < a->n; i++) {
		const struct part *p = &a->parts[i];
		struct arena_damage d = {0};

		if (!p->alive)
			continue;
		look(a, p, p->start, p->va, &d);
		look(a, p, p->va + p->bytes, p->start + p->size, &d);
		if (!d.changed)
			continue;
		if (!damaged++ || d.at < lowest.at)
			lowest = d;
	}
	if (damaged && out)
		*out = lowest;
	return damaged;
}

bool arena_who(const struct arena *a, uint64_t va, struct arena_part *out)
{
	const struct part *best = NULL;

	for (uint32_t i = a->n; i-- > 0;) {
		const struct part *p = &a->parts[i];

		if (va < p->va || va - p->va >= p->bytes)
			continue;
		if (!best || (p->alive && !best->alive))
			best = p;
	}
	if (!best)
		return false;
	*out = (struct arena_part){best->owner, best->va, best->bytes, best->alive,
				   best->generation};
	return true;
}

uint64_t arena_used(const struct arena *a)
{
	return a->used;
}

uint64_t arena_taken(const struct arena *a)
{
	return a->taken;
}

unsigned arena_count(const struct arena *a)
{
	return a->alive;
}
