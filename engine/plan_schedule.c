/* Activations, barriers and segments of one graph, in one walk over its nodes.
 *
 * A packet without the barrier bit may run beside those before it. It needs the bit when it
 *   reads what one of them writes (RAW), writes what one reads (WAR) or writes (WAW),
 * where "them" are the packets since the last barrier. Storage is given out again only at a
 * barrier, so a dst never lands on something a running packet still touches.
 *
 * A node on the CPU ends a segment: the packets before it are waited for, those after it start
 * with nothing in flight. So does one that reads weights of the next block in the slot.
 */
#include "engine/plan_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct range {
	uint64_t start, end;
};

/* A growing list of ranges or accesses. */
struct list {
	struct access {
		int32_t bo;
		struct range r;
		bool write;
	} *a;
	uint32_t n, cap;
};

struct walk {
	struct plan *p;
	struct plan_graph *pg;
	struct list flight; /* touched since the last barrier */
	struct list limbo;  /* activations dead since then: free at the next */
	struct list holes;  /* free storage, sorted, merged */
	uint64_t end;       /* bytes of activations so far */
	int32_t block;      /* in the slot by now; -1: unknown */
};

static int list_add(struct list *l, int32_t bo, uint64_t start, uint64_t end, bool write)
{
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 32;
		void *a = realloc(l->a, cap * sizeof(*l->a));

		if (!a)
			return -ENOMEM;
		l->a = a;
		l->cap = cap;
	}
	l->a[l->n++] = (struct access){bo, {start, end}, write};
	return 0;
}

/* ---- storage -------------------------------------------------------------------- */

static int hole_add(struct walk *w, struct range r)
{
	struct list *h = &w->holes;
	uint32_t i;
	int ret = list_add(h, PLAN_ACTIVATIONS, r.start, r.end, false);

	if (ret < 0)
		return ret;
	for (i = h->n - 1; i && h->a[i - 1].r.start > r.start; i--) {
		struct access t = h->a[i - 1];

		h->a[i - 1] = h->a[i];
		h->a[i] = t;
	}
	for (i = 0; i + 1 < h->n;) {
		if (h->a[i].r.end == h->a[i + 1].r.start) {
			h->a[i].r.end = h->a[i + 1].r.end;
			memmove(&h->a[i + 1], &h->a[i + 2], (h->n - i - 2) * sizeof(*h->a));
			h->n--;
		} else {
			i++;
		}
	}
	return 0;
}

/* Where in [start, end) size bytes fit with their alignment; UINT64_MAX when they do not. */
static uint64_t fits_at(uint64_t start, uint64_t end, uint64_t size, uint64_t align)
{
	uint64_t at = (start + align - 1) & ~(align - 1);

	return at < start || at > end || end - at < size ? UINT64_MAX : at;
}

/* The smallest hole that fits, else new storage at the end. */
static int storage_take(struct walk *w, uint64_t bytes, const struct plan_fit *f, uint64_t *offset)
{
	uint64_t size = (bytes + f->round - 1) & ~(f->round - 1), at;
	struct list *h = &w->holes;
	struct access *best = NULL;
	struct range hole;

	if (size < bytes || w->end + f->align + size + 2 * f->zone < size)
		return -EOVERFLOW;
	for (uint32_t i = 0; i < h->n; i++) {
		struct access *a = &h->a[i];

		if (fits_at(a->r.start, a->r.end, size, f->align) != UINT64_MAX &&
		    (!best || a->r.end - a->r.start < best->r.end - best->r.start))
			best = a;
	}
	/* With red zones there are no holes: see bury(). */
	if (!best) {
		at = (w->end + f->zone + f->align - 1) & ~(f->align - 1);
		hole = (struct range){w->end, at - f->zone};
		*offset = at;
		w->end = at + size + f->zone;
		return hole.start < hole.end && !f->zone ? hole_add(w, hole) : 0;
	}
	hole = best->r;
	at = fits_at(hole.start, hole.end, size, f->align);
	memmove(best, best + 1, (size_t)(h->a + h->n - best - 1) * sizeof(*best));
	h->n--;
	*offset = at;
	if (hole.start < at) {
		int ret = hole_add(w, (struct range){hole.start, at});

		if (ret < 0)
			return ret;
	}
	return at + size < hole.end ? hole_add(w, (struct range){at + size, hole.end}) : 0;
}

/* Everything in flight is done: its storage may be used again. */
static int settle(struct walk *w)
{
	int ret = 0;

	w->flight.n = 0;
	for (uint32_t i = 0; i < w->limbo.n && ret >= 0; i++)
		ret = hole_add(w, w->limbo.a[i].r);
	w->limbo.n = 0;
	return ret;
}

/* ---- hazards ---------------------------------------------------------------------- */

static int root(const struct graph *g, int t)
{
	while (t >= 0 && g->tensors[t].alias_of >= 0)
		t = g->tensors[t].alias_of;
	return t;
}

/* Weights and inputs are written by the host alone. */
static bool can_conflict(const struct graph *g, int t)
{
	return t >= 0 && g->tensors[t].kind != TENSOR_WEIGHT && g->tensors[t].kind != TENSOR_INPUT;
}

static bool conflicts(const struct walk *w, const struct plan_place *p, bool write)
{
	if (p->bo < 0)
		return false; /* not placed yet: nobody has touched it */
	for (uint32_t i = 0; i < w->flight.n; i++) {
		const struct access *a = &w->flight.a[i];

		if ((a->write || write) && a->bo == p->bo && a->r.start < p->offset + p->bytes &&
		    p->offset < a->r.end)
			return true;
	}
	return false;
}

static bool node_conflicts(const struct walk *w, const struct node *n)
{
	const struct graph *g = w->pg->g;

	for (int s = 0; s < 5; s++) {
		int t = root(g, n->src[s]);

		if (can_conflict(g, t) && conflicts(w, &w->pg->place[t], false))
			return true;
	}
	return conflicts(w, &w->pg->place[root(g, n->dst)], true);
}

static int note(struct walk *w, int t, bool write)
{
	const struct plan_place *p;

	t = root(w->pg->g, t);
	if (!can_conflict(w->pg->g, t))
		return 0;
	p = &w->pg->place[t];
	return list_add(&w->flight, p->bo, p->offset, p->offset + p->bytes, write);
}

static int note_node(struct walk *w, const struct node *n)
{
	int ret = note(w, n->dst, true);

	for (int s = 0; s < 5 && ret >= 0; s++)
		ret = note(w, n->src[s], false);
	return ret;
}

/* ---- the walk ----------------------------------------------------------------------- */

static void find_lifetimes(struct plan_graph *pg)
{
	const struct graph *g = pg->g;

	for (uint32_t t = 0; t < g->n_tensors; t++)
		pg->place[t].first = UINT32_MAX;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		int touched[6] = {n->dst, n->src[0], n->src[1], n->src[2], n->src[3], n->src[4]};

		for (int k = 0; k < 6; k++) {
			int t = root(g, touched[k]);

			if (t < 0)
				continue;
			if (pg->place[t].first == UINT32_MAX)
				pg->place[t].first = i;
			pg->place[t].last = i;
		}
	}
}

static int place_dst(struct walk *w, const struct node *n)
{
	int t = root(w->pg->g, n->dst);
	struct plan_place *p = &w->pg->place[t];
	struct plan_fit f;
	int ret;

	if (w->pg->g->tensors[t].kind != TENSOR_ACTIVATION || p->bo >= 0)
		return 0;
	p->bytes = w->pg->g->tensors[t].bytes;
	f = plan_fit(w->p, PLAN_ACTIVATIONS, w->pg->g->tensors[t].name);
	ret = storage_take(w, p->bytes, &f, &p->offset);
	if (ret < 0)
		return ret;
	p->bo = PLAN_ACTIVATIONS;
	return plan_zones(w->p, PLAN_ACTIVATIONS, (int32_t)(w->pg - w->p->graphs),
			  w->pg->g->tensors[t].name, &f, p->offset, p->bytes);
}

/* Activations nobody touches after node i. */
static int bury(struct walk *w, uint32_t i)
{
	const struct node *n = &w->pg->g->nodes[i];
	int touched[6] = {n->dst, n->src[0], n->src[1], n->src[2], n->src[3], n->src[4]};
	int ret = 0;

	/* What lies on top of a former tensor would overwrite its red zones. */
	if (bo_rules_zoned(w->p->rules))
		return 0;
	for (int k = 0; k < 6 && ret >= 0; k++) {
		int t = root(w->pg->g, touched[k]);
		const struct plan_place *p = t < 0 ? NULL : &w->pg->place[t];
		bool again = false;
		struct plan_fit f;

		for (int j = 0; j < k; j++)
			again |= root(w->pg->g, touched[j]) == t;
		if (!p || again || p->bo != PLAN_ACTIVATIONS || p->last != i)
			continue;
		f = plan_fit(w->p, PLAN_ACTIVATIONS, w->pg->g->tensors[t].name);
		ret = list_add(&w->limbo, p->bo, p->offset,
			       p->offset + ((p->bytes + f.round - 1) & ~(f.round - 1)), false);
	}
	return ret;
}

/* The segment's signal says that all of it is done, so its last packet waits for the others. */
static void segment_close(struct walk *w, int last)
{
	struct plan_node *pn = last < 0 ? NULL : &w->pg->node[last];

	if (!pn)
		return;
	pn->segment_last = true;
	if (!pn->segment_first && !pn->barrier) {
		pn->barrier = true;
		w->pg->barriers++;
	}
}

static int walk_nodes(struct walk *w)
{
	const struct graph *g = w->pg->g;
	int last = -1; /* packet of the open segment */
	int ret = 0;

	for (uint32_t i = 0; i <= g->n_nodes && ret >= 0; i++) {
		const struct node *n = i < g->n_nodes ? &g->nodes[i] : NULL;
		struct plan_node *pn = &w->pg->node[i];
		int32_t block = pn->device ? plan_slot_of(w->pg, n) : -1;

		if (block >= 0 && block != w->block) {
			segment_close(w, last);
			last = -1;
			ret = settle(w);
			if (ret < 0)
				break;
			w->block = block;
			pn->refill = block;
		}
		if (!pn->device) {
			segment_close(w, last);
			last = -1;
			ret = settle(w);
		} else {
			pn->segment_first = last < 0;
			/* The end of the step says that everything before it is done. */
			if (last >= 0 && (!n || node_conflicts(w, n))) {
				pn->barrier = true;
				w->pg->barriers++;
				ret = settle(w);
			}
			last = (int)i;
		}
		if (!n || ret < 0)
			break;
		ret = place_dst(w, n);
		if (ret >= 0 && pn->device)
			ret = note_node(w, n);
		if (ret >= 0)
			ret = bury(w, i);
	}
	segment_close(w, last);
	return ret;
}

int plan_schedule(struct plan *p, struct plan_graph *pg)
{
	struct walk w = {.p = p, .pg = pg, .block = -1};
	int ret;

	find_lifetimes(pg);
	ret = walk_nodes(&w);
	free(w.flight.a);
	free(w.limbo.a);
	free(w.holes.a);
	if (ret < 0)
		return ret;
	for (uint32_t t = 0; t < pg->g->n_tensors; t++) {
		int r = root(pg->g, (int)t);

		if (r != (int)t) {
			pg->place[t].bo = pg->place[r].bo;
			pg->place[t].offset = pg->place[r].offset;
			pg->place[t].bytes = pg->place[r].bytes;
		}
	}
	/* Graphs never run at the same time: they share the storage. */
	if (w.end > p->bo[PLAN_ACTIVATIONS].bytes)
		p->bo[PLAN_ACTIVATIONS].bytes = w.end;
	return 0;
}
