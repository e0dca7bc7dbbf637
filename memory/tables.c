#include "memory/tables.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PAGE   4096ull
#define LEVELS 3 /* below the root: tables for 2 MiB, directories for 1 GiB and 512 GiB */

struct mem_tables {
	uint64_t piece;
	/* Which there are: address / span, sorted. */
	struct set {
		uint64_t *v;
		size_t n, cap;
	} set[LEVELS];
};

static unsigned shift_of(unsigned level)
{
	return 21 + 9 * level;
}

static size_t lower(const struct set *s, uint64_t v)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->v[mid] < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int set_add(struct set *s, uint64_t v)
{
	size_t at = lower(s, v);

	if (at < s->n && s->v[at] == v)
		return 0;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		uint64_t *p = realloc(s->v, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		s->v = p;
		s->cap = cap;
	}
	memmove(&s->v[at + 1], &s->v[at], (s->n - at) * sizeof(*s->v));
	s->v[at] = v;
	s->n++;
	return 0;
}

/* Those in [from, to). */
static void set_drop(struct set *s, uint64_t from, uint64_t to)
{
	size_t a = lower(s, from), b = lower(s, to);

	if (a == b)
		return; /* perhaps there is no array at all */
	memmove(&s->v[a], &s->v[b], (s->n - b) * sizeof(*s->v));
	s->n -= b - a;
}

/* Whether [at, at + 2 MiB) of size bytes lies in one piece. */
static bool unbroken(const struct mem_tables *t, uint64_t size, uint64_t at)
{
	uint64_t start = 0;

	while (size - start >= MEM_TABLE_SPAN) {
		uint64_t piece = t->piece;

		while (piece > size - start)
			piece >>= 1;
		/* All of the largest size at once. */
		if (piece == t->piece && at >= start + piece) {
			uint64_t left = (size - start) / piece * piece, into = at - start;

			start += into < left ? into / piece * piece : left;
			continue;
		}
		if (at < start + piece)
			return at >= start && at + MEM_TABLE_SPAN <= start + piece;
		start += piece;
	}
	return false;
}

int mem_tables_map(struct mem_tables *t, uint64_t va, uint64_t size)
{
	uint64_t end = va + size;
	int rc = 0;

	for (unsigned l = LEVELS - 1; l > 0; l--)
		for (uint64_t i = va >> shift_of(l); i <= (end - 1) >> shift_of(l) && !rc; i++)
			rc = set_add(&t->set[l], i);
	for (uint64_t i = va >> shift_of(0); i <= (end - 1) >> shift_of(0) && !rc; i++) {
		uint64_t span = i << shift_of(0);

		if (span >= va && span + MEM_TABLE_SPAN <= end && unbroken(t, size, span - va))
			set_drop(&t->set[0], i, i + 1);
		else
			rc = set_add(&t->set[0], i);
	}
	return rc;
}

void mem_tables_unmap(struct mem_tables *t, uint64_t va, uint64_t size)
{
	for (unsigned l = 0; l < LEVELS; l++) {
		uint64_t span = 1ull << shift_of(l);
		uint64_t from = (va + span - 1) >> shift_of(l), to = (va + size) >> shift_of(l);

		if (from < to)
			set_drop(&t->set[l], from, to);
	}
}

uint64_t mem_tables_bytes(const struct mem_tables *t)
{
	return (1 + t->set[0].n + t->set[1].n + t->set[2].n) * PAGE;
}

int mem_tables_create(uint64_t piece, struct mem_tables **out)
{
	struct mem_tables *t;
	int rc;

	if (piece < PAGE || piece & (piece - 1))
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->piece = piece;
	rc = mem_tables_map(t, MEM_TOP_SEQ64, MEM_TOP_SEQ64_BYTES);
	if (rc == 0)
		rc = mem_tables_map(t, MEM_TOP_TRAP, MEM_TOP_TRAP_BYTES);
	if (rc < 0)
		mem_tables_destroy(t);
	else
		*out = t;
	return rc;
}

void mem_tables_destroy(struct mem_tables *t)
{
	if (!t)
		return;
	for (unsigned l = 0; l < LEVELS; l++)
		free(t->set[l].v);
	free(t);
}
