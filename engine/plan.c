#include "engine/plan.h"
#include "engine/plan_internal.h"
#include "engine/refuse.h"
#include "kernels/kernargs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNARG_ALIGN 64u /* no two dispatches' arguments share a cache line */

static const struct plan_bo bo_kinds[PLAN_BO_COUNT] = {
	[PLAN_WEIGHTS] = {.owner = "weights", .coherence = BO_COARSE, .readonly = true},
	[PLAN_SLOT] = {.owner = "weights slot", .coherence = BO_COARSE, .readonly = true},
	[PLAN_KV] = {.owner = "kv", .coherence = BO_COARSE},
	[PLAN_ACTIVATIONS] = {.owner = "transient:activations", .coherence = BO_COARSE},
	[PLAN_IO] = {.owner = "io", .coherence = BO_UNCACHED, .grain = LAYOUT_ALIGN},
	[PLAN_KERNARGS] = {.owner = "kernargs",
			   .coherence = BO_UNCACHED,
			   .readonly = true,
			   .grain = KERNARG_ALIGN},
	[PLAN_TABLES] = {.owner = "tables",
			 .coherence = BO_COARSE,
			 .readonly = true,
			 .grain = LAYOUT_ALIGN},
};

/* ---- what runs where -------------------------------------------------------- */

static int claim_graph(struct plan *p, struct plan_graph *pg, const struct claim_kernels *k)
{
	const struct graph *g = pg->g;

	for (uint32_t i = 0; i <= g->n_nodes; i++) {
		const struct node *n = i < g->n_nodes ? &g->nodes[i] : NULL;
		struct plan_node *pn = &pg->node[i];

		claim_node(g, n, k, &pn->claim);
		pn->device = pn->claim.kernel[0] != 0;
		pn->table = -1;
		pn->refill = -1;
		pg->packets += pn->device;
		if (n && pn->device)
			pg->device_nodes++;
		else if (n)
			pg->cpu_nodes++;
		for (uint32_t s = 0; pn->device && s < PLAN_SLOTS; s++) {
			int ret = plan_append(&p->bo[PLAN_KERNARGS], pn->claim.kernarg_bytes,
					      KERNARG_ALIGN, &pn->kernarg[s]);

			if (ret < 0)
				return ret;
		}
	}
	return 0;
}

static int add_table(struct plan *p, struct plan_node *pn, uint32_t hd, float theta)
{
	struct plan_table *t;

	for (uint32_t i = 0; i < p->n_tables; i++) {
		if (p->tables[i].hd == hd && p->tables[i].theta == theta) {
			pn->table = (int32_t)i;
			return 0;
		}
	}
	t = realloc(p->tables, (p->n_tables + 1) * sizeof(*t));
	if (!t)
		return -ENOMEM;
	p->tables = t;
	t += p->n_tables;
	t->hd = hd;
	t->theta = theta;
	t->bytes = hd / 2 * sizeof(uint64_t);
	pn->table = (int32_t)p->n_tables++;
	return plan_append(&p->bo[PLAN_TABLES], t->bytes, LAYOUT_ALIGN, &t->offset);
}

static int add_tables(struct plan *p, struct plan_graph *pg)
{
	int ret = 0;

	for (uint32_t i = 0; i < pg->g->n_nodes && ret >= 0; i++) {
		const struct node *n = &pg->g->nodes[i];

		if (n->op == OP_HEADNORM_ROPE && pg->node[i].device)
			ret = add_table(p, &pg->node[i], n->u[1], n->f[1]);
	}
	return ret;
}

/* ---- what lives for the whole context ---------------------------------------- */

/* The place an earlier graph gave to the same weight (by its bytes in the file) or cache (by
 * name), NULL if none did. */
static const struct plan_place *placed_before(const struct plan *p, const struct plan_graph *pg,
					      const struct tensor *t)
{
	for (const struct plan_graph *o = p->graphs; o < pg; o++) {
		for (uint32_t i = 0; i < o->g->n_tensors; i++) {
			const struct tensor *u = &o->g->tensors[i];

			if (o->place[i].bo < 0 || u->kind != t->kind)
				continue;
			if (t->kind == TENSOR_WEIGHT ? u->file == t->file
						     : !strcmp(u->name, t->name))
				return &o->place[i];
		}
	}
	return NULL;
}

static bool device_reads(const struct plan_graph *pg, int tensor)
{
	for (uint32_t i = 0; i < pg->g->n_nodes; i++)
		for (int s = 0; pg->node[i].device && s < 5; s++)
			if (pg->g->nodes[i].src[s] == tensor)
				return true;
	return false;
}

static int place_weight(struct plan *p, struct plan_graph *pg, const struct tensor *t,
			struct plan_place *pl)
{
	int ret;

	if (!device_reads(pg, t->index))
		return 0; /* the CPU reads it from the file */
	pl->layout = layout_of(t->type);
	ret = layout_bytes(pl->layout, t->ne[0], t->ne[1] * t->ne[2] * t->ne[3], &pl->bytes);
	if (ret < 0)
		return ret;
	if (plan_slot_holds(p, t))
		return plan_slot_append(p, t, pl);
	ret = plan_append_tensor(p, PLAN_WEIGHTS, t->name, pl->bytes, &pl->offset);
	if (ret >= 0)
		pl->bo = PLAN_WEIGHTS;
	return ret;
}

static int place_lasting(struct plan *p, struct plan_graph *pg)
{
	const struct graph *g = pg->g;

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		struct plan_place *pl = &pg->place[i];
		const struct plan_place *before;
		int ret = 0;

		if (t->alias_of >= 0)
			continue;
		switch (t->kind) {
		case TENSOR_WEIGHT:
		case TENSOR_KV:
			before = placed_before(p, pg, t);
			if (before) {
				pl->bo = before->bo;
				pl->offset = before->offset;
				pl->bytes = before->bytes;
				pl->layout = before->layout;
			} else if (t->kind == TENSOR_WEIGHT) {
				ret = place_weight(p, pg, t, pl);
			} else {
				pl->bytes = t->bytes;
				pl->bo = PLAN_KV;
				ret = plan_append_tensor(p, PLAN_KV, t->name, t->bytes,
							 &pl->offset);
			}
			break;
		case TENSOR_INPUT:
			/* The offset is that in slot 0; the other slot is the same further on. */
			pl->bo = PLAN_IO;
			pl->bytes = t->bytes;
			pl->offset = p->slot[0] + ((int)i == g->t_ids ? p->ids : p->pos);
			break;
		case TENSOR_OUTPUT:
			pl->bo = PLAN_IO;
			pl->bytes = t->ne[0] * 4 * (p->all_logits ? g->n_tokens : 1);
			pl->offset = p->logits;
			break;
		case TENSOR_ACTIVATION:
			break;
		}
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Step blocks, then what the device writes. */
static int lay_out_io(struct plan *p, const struct graph *const *graphs, uint32_t n)
{
	uint64_t tokens = 0, logits = 0, slot;
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		const struct graph *g = graphs[i];
		uint64_t cols = p->all_logits ? g->n_tokens : 1;
		uint64_t bytes = g->tensors[g->t_logits].ne[0] * 4 * cols;

		if (g->n_tokens > tokens)
			tokens = g->n_tokens;
		if (bytes > logits)
			logits = bytes;
	}
	p->ids = sizeof(struct ka_step);
	p->pos = (p->ids + tokens * 4 + 15) & ~15ull;
	slot = p->pos + tokens * 4;
	for (uint32_t s = 0; s < PLAN_SLOTS; s++) {
		ret = plan_append(&p->bo[PLAN_IO], slot, LAYOUT_ALIGN, &p->slot[s]);
		if (ret < 0)
			return ret;
	}
	ret = plan_append(&p->bo[PLAN_IO], sizeof(struct ka_done), LAYOUT_ALIGN, &p->done);
	if (ret < 0)
		return ret;
	return plan_append(&p->bo[PLAN_IO], logits, LAYOUT_ALIGN, &p->logits);
}

/* ---- the whole ----------------------------------------------------------------- */

static int check_graph(const struct graph *g, char *err, size_t errlen)
{
	const char *bad = NULL;

	if (g->t_ids < 0 || g->t_pos < 0 || g->t_logits < 0)
		bad = "has no ids, positions or logits";
	for (uint32_t i = 0; i < g->n_tensors && !bad; i++) {
		const struct tensor *t = &g->tensors[i];

		if (t->kind == TENSOR_INPUT && (int)i != g->t_ids && (int)i != g->t_pos)
			bad = "has an input that is neither ids nor positions";
		if (t->kind == TENSOR_OUTPUT && (int)i != g->t_logits)
			bad = "has an output that is not the logits";
		if (t->alias_of >= (int)i)
			bad = "has an alias before its owner";
		if (bad)
			return refuse(err, errlen, -EINVAL, "plan: graph of %u tokens %s: %s",
				      g->n_tokens, bad, t->name);
	}
	return bad ? refuse(err, errlen, -EINVAL, "plan: graph of %u tokens %s", g->n_tokens, bad)
		   : 0;
}

/* Doubles at every power of two. */
static int add_buffers(struct plan *p, const struct plan_buffer *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!(p->n_buffers & (p->n_buffers - 1))) {
			uint32_t cap = p->n_buffers ? 2 * p->n_buffers : 1;
			struct plan_buffer *all = realloc(p->buffers, cap * sizeof(*all));

			if (!all)
				return -ENOMEM;
			p->buffers = all;
		}
		p->buffers[p->n_buffers++] = *b;
	}
	return 0;
}

static int add(struct plan *p, const char *owner, uint64_t bytes, uint64_t align, uint32_t count)
{
	uint64_t granted = (bytes + PLAN_PAGE - 1) & ~(uint64_t)(PLAN_PAGE - 1);
	struct plan_row *r = p->rows;

	while (r < p->rows + p->n_rows && strcmp(r->owner, owner))
		r++;
	if (r == p->rows + PLAN_MAX_ROWS)
		return -ENOSPC;
	if (r == p->rows + p->n_rows) {
		p->n_rows++;
		memset(r, 0, sizeof(*r));
		r->owner = owner;
	}
	r->bytes += bytes * count;
	r->granted += granted * count;
	r->count += count;
	p->total += granted * count;
	return add_buffers(p, &(struct plan_buffer){.owner = owner, .bytes = bytes, .align = align},
			   count);
}

int plan_add(struct plan *p, const char *owner, uint64_t bytes, uint32_t count)
{
	return add(p, owner, bytes, 0, count);
}

int plan_add_queue(struct plan *p, const struct queue_plan *q)
{
	/* Owners as queues/ names them. A page holds 64 signals; 32 KiB of event slots is the
	 * kernel's own rule (KFD_SIGNAL_EVENT_LIMIT slots of 8 bytes). */
	const struct {
		const char *owner;
		uint64_t bytes;
	} parts[] = {
		{"ring", q->ring_bytes},     {"eop", q->eop_bytes},  {"save area", q->area_bytes},
		{"queue", PLAN_PAGE},        {"signals", PLAN_PAGE}, {"trap handler", PLAN_PAGE},
		{"event page", 4096 * 8ull},
	};
	int ret = 0;

	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]) && ret >= 0; i++)
		ret = plan_add(p, parts[i].owner, parts[i].bytes, 1);
	return ret;
}

static int plan_graph_fill(struct plan *p, struct plan_graph *pg, const struct plan_opts *o)
{
	int ret = claim_graph(p, pg, &o->kernels);

	if (ret >= 0)
		ret = add_tables(p, pg);
	if (ret >= 0)
		ret = place_lasting(p, pg);
	if (ret >= 0)
		ret = plan_schedule(p, pg);
	return ret;
}

int plan_create(const struct graph *const *graphs, uint32_t n_graphs, const struct plan_opts *o,
		struct plan **out, char *err, size_t errlen)
{
	struct plan *p;
	int ret;

	if (!n_graphs)
		return refuse(err, errlen, -EINVAL, "plan: no graph given");
	for (uint32_t i = 0; i < n_graphs; i++) {
		ret = check_graph(graphs[i], err, errlen);
		if (ret < 0)
			return ret;
	}
	p = calloc(1, sizeof(*p));
	ret = -ENOMEM;
	if (!p)
		goto out;
	p->all_logits = o->all_logits;
	p->rules = o->rules;
	memcpy(p->bo, bo_kinds, sizeof(p->bo));
	for (unsigned i = 0; i < PLAN_BO_COUNT; i++)
		p->bo[i].align = PLAN_PAGE;
	p->graphs = calloc(n_graphs, sizeof(*p->graphs));
	if (!p->graphs)
		goto out;
	ret = plan_slot_init(p, graphs, n_graphs, o->refilled, err, errlen);
	if (ret < 0) {
		plan_free(p);
		return ret;
	}
	ret = lay_out_io(p, graphs, n_graphs);
	for (uint32_t i = 0; i < n_graphs && ret >= 0; i++) {
		struct plan_graph *pg = &p->graphs[p->n_graphs++];

		pg->g = graphs[i];
		pg->place = calloc(pg->g->n_tensors, sizeof(*pg->place));
		pg->node = calloc(pg->g->n_nodes + 1, sizeof(*pg->node));
		if (!pg->place || !pg->node) {
			ret = -ENOMEM;
			goto out;
		}
		for (uint32_t t = 0; t < pg->g->n_tensors; t++)
			pg->place[t].bo = -1;
		ret = plan_graph_fill(p, pg, o);
	}
	for (unsigned i = 0; i < PLAN_BO_COUNT && ret >= 0; i++) {
		struct plan_bo *b = &p->bo[i];

		b->granted = (b->bytes + PLAN_PAGE - 1) & ~(uint64_t)(PLAN_PAGE - 1);
		if (b->granted >= PLAN_BIG && b->align < PLAN_BIG)
			b->align = PLAN_BIG;
		if (b->bytes)
			ret = add(p, b->owner, b->bytes, b->align, 1);
	}
	if (ret < 0)
		goto out;
	*out = p;
	return 0;
out:
	plan_free(p);
	if (ret == -ENOTSUP)
		return refuse(err, errlen, ret,
			      "red zones around weights that take turns in one place; wanted: none "
			      "of these blocks (--redzone), or room for all weights");
	return refuse(err, errlen, ret, "plan: %s", strerror(-ret));
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; p->graphs && i < p->n_graphs; i++) {
		free(p->graphs[i].place);
		free(p->graphs[i].node);
	}
	free(p->graphs);
	free(p->tables);
	free(p->zones);
	free(p->slot_used);
	free(p->buffers);
	free(p);
}
