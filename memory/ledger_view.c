#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/ledger_view.h"

#define USES                                                                                       \
	(LEDGER_USE_DEVICE_READS | LEDGER_USE_DEVICE_WRITES | LEDGER_USE_HOST_READS |              \
	 LEDGER_USE_HOST_WRITES | LEDGER_USE_DEVICE_DECLARED | LEDGER_USE_HOST_DECLARED)

struct parse {
	struct ledger_view *v;
	uint64_t entries, at;    /* which one is looked at */
	uint32_t *by_generation; /* BO index + 1 */
	uint32_t generations;
	char *why;
	size_t why_len;
};

static int bad(const struct parse *p, const char *what, uint64_t value, const char *wanted)
{
	snprintf(p->why, p->why_len, "ledger entry %" PRIu64 ": %s %" PRIu64 "; wanted: %s", p->at,
		 what, value, wanted);
	return -EINVAL;
}

/* Text that is safe to print whatever it held. */
static void clean(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 32 || *s == 127)
			*s = '?';
}

static int name_begin(struct parse *p, const struct ledger_entry *e)
{
	struct ledger_view *v = p->v;

	if (e->owner != v->n_usage)
		return bad(p, "defines owner", e->owner, "the next number");
	v->usage[v->n_usage].owner = strndup(e->name, sizeof(e->name));
	if (!v->usage[v->n_usage].owner)
		return -ENOMEM;
	clean(v->usage[v->n_usage++].owner);
	return 0;
}

static int name_more(struct parse *p, const struct ledger_entry *e)
{
	struct ledger_view *v = p->v;
	char *more, *whole = NULL;

	if (!v->n_usage || e->owner != v->n_usage - 1)
		return bad(p, "goes on with owner", e->owner, "the one defined last");
	more = strndup(e->name, sizeof(e->name));
	if (!more)
		return -ENOMEM;
	clean(more);
	if (asprintf(&whole, "%s%s", v->usage[e->owner].owner, more) < 0)
		whole = NULL;
	free(more);
	if (!whole)
		return -ENOMEM;
	free(v->usage[e->owner].owner);
	v->usage[e->owner].owner = whole;
	return 0;
}

static void point(struct parse *p, uint64_t ns, uint32_t owner, int64_t change)
{
	p->v->points[p->v->n_points++] = (struct view_point){ns, p->v->live, owner, change};
}

static int birth(struct parse *p, const struct ledger_entry *e, uint64_t ns)
{
	struct ledger_view *v = p->v;
	struct view_usage *u = &v->usage[e->owner];

	if (!e->generation || e->generation > p->entries)
		return bad(p, "generation", e->generation, "1 to the number of entries");
	if (p->by_generation[e->generation])
		return bad(p, "generation", e->generation, "one that was not used before");
	/* Changes of what is alive have a sign. */
	if (e->size > INT64_MAX || e->va + e->size < e->va || v->live + e->size < v->live)
		return bad(p, "size", e->size, "one that fits behind its address");
	if (v->header.version >= 3 && e->first >= e->size && e->first)
		return bad(p, "first byte", e->first, "an offset inside the mapping");
	v->bos[v->n_bos] = (struct view_bo){
		.owner = e->owner,
		.generation = e->generation,
		.va = e->va,
		.size = e->size,
		.asked = e->asked,
		.first = v->header.version >= 3 ? e->first : 0,
		.handle = e->handle,
		.born_ns = ns,
		.placement = e->placement,
		.coherence = e->coherence,
		.scope = e->scope,
		.flags = e->flags,
		.imported = e->kind == LEDGER_IMPORT,
		.adopted = e->kind == LEDGER_ADOPT,
	};
	p->by_generation[e->generation] = ++v->n_bos;
	u->is_owner = true;
	u->allocs++;
	u->count++;
	u->live += e->size;
	if (u->live > u->peak)
		u->peak = u->live;
	v->live += e->size;
	if (v->live > v->peak)
		v->peak = v->live;
	point(p, ns, e->owner, (int64_t)e->size);
	return 0;
}

static int death(struct parse *p, struct view_bo *b, uint64_t ns)
{
	struct view_usage *u = &p->v->usage[b->owner];

	if (b->died_ns)
		return bad(p, "frees generation", b->generation, "one that is alive");
	b->died_ns = ns ? ns : 1;
	u->live -= b->size;
	u->count--;
	p->v->live -= b->size;
	point(p, ns, b->owner, -(int64_t)b->size);
	return 0;
}

static int step(struct parse *p, const struct ledger_entry *e)
{
	struct ledger_view *v = p->v;
	struct view_bo *b;
	uint64_t ns;

	if (e->kind == LEDGER_OWNER)
		return name_begin(p, e);
	if (e->kind == LEDGER_MORE)
		return name_more(p, e);
	if (e->owner >= v->n_usage)
		return bad(p, "owner", e->owner, "one that was defined");
	ns = e->ns > v->header.start_ns ? e->ns - v->header.start_ns : 0;
	v->end_ns = ns;
	if (e->kind == LEDGER_ALLOC || e->kind == LEDGER_IMPORT || e->kind == LEDGER_ADOPT)
		return birth(p, e, ns);
	if (!e->generation || e->generation > p->entries || !p->by_generation[e->generation])
		return bad(p, "generation", e->generation, "one that was allocated");
	b = &v->bos[p->by_generation[e->generation] - 1];
	switch (e->kind) {
	case LEDGER_MAP:
		b->maps++;
		return 0;
	case LEDGER_UNMAP:
		return 0;
	case LEDGER_EXPORT:
		b->exports++;
		return 0;
	case LEDGER_USE:
		if (v->header.version < 2 || e->uses & ~(uint64_t)USES)
			return bad(p, "uses", e->uses, "bits of LEDGER_USE_*, in version 2");
		b->uses |= (uint32_t)e->uses;
		return 0;
	case LEDGER_FREE:
		return death(p, b, ns);
	case LEDGER_PLACE:
		v->things[v->n_things++] = (struct view_thing){
			e->owner, p->by_generation[e->generation] - 1, e->va, e->size, e->identity};
		return 0;
	}
	return bad(p, "kind", e->kind, "one of 0 to 9 and 255");
}

int ledger_view_parse(const void *image, size_t bytes, struct ledger_view **out, char *why,
		      size_t why_len)
{
	struct parse p = {.why = why, .why_len = why_len};
	struct ledger_header h;
	uint64_t room;
	int rc = -ENOMEM;

	if (bytes < sizeof(h)) {
		snprintf(why, why_len, "%zu bytes; wanted: a ledger of at least %zu", bytes,
			 sizeof(h));
		return -EINVAL;
	}
	memcpy(&h, image, sizeof(h));
	if (memcmp(h.magic, LEDGER_MAGIC, sizeof(h.magic))) {
		snprintf(why, why_len, "it does not start with \"" LEDGER_MAGIC "\"");
		return -EINVAL;
	}
	if (!h.version || h.version > LEDGER_VERSION || h.header_bytes < sizeof(h) ||
	    h.header_bytes > bytes || h.entry_bytes < sizeof(struct ledger_entry) ||
	    h.entry_bytes > 4096) {
		snprintf(why, why_len,
			 "ledger version %u, header of %u bytes, entries of %u; wanted: version 1 "
			 "to %u, "
			 "a header within the file, entries of 64 to 4096",
			 h.version, h.header_bytes, h.entry_bytes, LEDGER_VERSION);
		return -EINVAL;
	}
	room = (bytes - h.header_bytes) / h.entry_bytes;
	p.entries = h.count;
	if (h.count > room || h.count > UINT32_MAX / 2) {
		snprintf(why, why_len, "%" PRIu64 " entries; the file has room for %" PRIu64,
			 h.count, room);
		return -EINVAL;
	}
	p.v = calloc(1, sizeof(*p.v));
	if (!p.v)
		goto out;
	if (h.version < 3)
		h.saved_ns = 0;
	p.v->header = h;
	p.v->usage = calloc(h.count + 1, sizeof(*p.v->usage));
	p.v->bos = calloc(h.count + 1, sizeof(*p.v->bos));
	p.v->things = calloc(h.count + 1, sizeof(*p.v->things));
	p.v->points = calloc(h.count + 1, sizeof(*p.v->points));
	p.by_generation = calloc(h.count + 1, sizeof(*p.by_generation));
	if (!p.v->usage || !p.v->bos || !p.v->things || !p.v->points || !p.by_generation)
		goto out;
	rc = 0;
	for (; p.at < p.entries && rc == 0; p.at++) {
		struct ledger_entry e;

		memcpy(&e, (const char *)image + h.header_bytes + p.at * h.entry_bytes, sizeof(e));
		rc = step(&p, &e);
		if (rc < 0)
			break;
	}
	if (h.saved_ns > h.start_ns && h.saved_ns - h.start_ns > p.v->end_ns)
		p.v->end_ns = h.saved_ns - h.start_ns;
out:
	free(p.by_generation);
	if (rc < 0) {
		if (rc == -ENOMEM)
			snprintf(why, why_len, "out of memory");
		ledger_view_free(p.v);
		return rc;
	}
	*out = p.v;
	return 0;
}

void ledger_view_free(struct ledger_view *v)
{
	if (!v)
		return;
	for (uint32_t i = 0; v->usage && i < v->n_usage; i++)
		free(v->usage[i].owner);
	free(v->usage);
	free(v->bos);
	free(v->things);
	free(v->points);
	free(v);
}

static int by_identity(const void *a, const void *b)
{
	const struct view_thing *x = *(const struct view_thing *const *)a;
	const struct view_thing *y = *(const struct view_thing *const *)b;

	if (x->identity != y->identity)
		return x->identity < y->identity ? -1 : 1;
	return x->va < y->va ? -1 : x->va > y->va;
}

uint32_t ledger_view_duplicates(const struct ledger_view *v, struct view_duplicate *out, uint32_t n)
{
	const struct view_thing **live = calloc(v->n_things + 1, sizeof(const struct view_thing *));
	uint32_t n_live = 0, found = 0, first = 0;

	if (!live)
		return 0;
	for (uint32_t i = 0; i < v->n_things; i++)
		if (!v->bos[v->things[i].bo].died_ns && v->things[i].identity)
			live[n_live++] = &v->things[i];
	qsort(live, n_live, sizeof(*live), by_identity);
	for (uint32_t i = 1; i < n_live; i++) {
		if (live[i]->identity != live[first]->identity) {
			first = i;
			continue;
		}
		if (live[i]->va == live[i - 1]->va)
			continue; /* entered twice, not resident twice */
		if (found < n)
			out[found] = (struct view_duplicate){live[first], live[i]};
		found++;
	}
	free(live);
	return found;
}

enum view_use ledger_view_use(const struct view_bo *b)
{
	const uint32_t all = LEDGER_USE_DEVICE_DECLARED | LEDGER_USE_HOST_DECLARED;
	bool read = b->uses & (LEDGER_USE_DEVICE_READS | LEDGER_USE_HOST_READS);
	bool written = b->uses & (LEDGER_USE_DEVICE_WRITES | LEDGER_USE_HOST_WRITES);

	if (read && written)
		return VIEW_USED;
	if ((b->uses & all) != all || b->imported || b->exports)
		return VIEW_UNKNOWN;
	return written ? VIEW_NEVER_READ : read ? VIEW_NEVER_WRITTEN : VIEW_UNTOUCHED;
}
