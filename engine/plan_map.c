/* What a plan puts where, by the names that rules have for it. */
#include "engine/plan.h"
#include "engine/plan_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool inside(enum plan_bo_id bo)
{
	return bo == PLAN_WEIGHTS || bo == PLAN_SLOT || bo == PLAN_KV || bo == PLAN_ACTIVATIONS;
}

/* The same tensor in another graph: weights by their bytes in the file, caches by name. */
static bool same(const struct tensor *t, const struct tensor *u)
{
	if (t->kind != u->kind)
		return false;
	return t->kind == TENSOR_WEIGHT ? t->file == u->file : !strcmp(t->name, u->name);
}

/* A tensor that lies there because of graph i, and not of an earlier one. */
static bool placed_by(const struct plan *p, uint32_t i, uint32_t t)
{
	const struct plan_graph *pg = &p->graphs[i];
	const struct plan_place *pl = &pg->place[t];

	if (pl->bo < 0 || !inside((enum plan_bo_id)pl->bo) || pg->g->tensors[t].alias_of >= 0)
		return false;
	if (pl->bo == PLAN_ACTIVATIONS)
		return true;
	for (uint32_t j = 0; j < i; j++)
		for (uint32_t u = 0; u < p->graphs[j].g->n_tensors; u++)
			if (p->graphs[j].place[u].bo == pl->bo &&
			    same(&pg->g->tensors[t], &p->graphs[j].g->tensors[u]))
				return false;
	return true;
}

static int by_place(const void *x, const void *y)
{
	const struct plan_part *a = x, *b = y;

	if (a->bo != b->bo)
		return a->bo < b->bo ? -1 : 1;
	if (a->tokens != b->tokens)
		return a->tokens < b->tokens ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

int plan_parts(const struct plan *p, struct plan_part **out, uint32_t *n)
{
	struct plan_part *parts;
	uint32_t most = 0, count = 0;

	for (uint32_t i = 0; i < p->n_graphs; i++)
		most += p->graphs[i].g->n_tensors;
	parts = calloc(most + 1, sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_graphs; i++) {
		const struct plan_graph *pg = &p->graphs[i];

		for (uint32_t t = 0; t < pg->g->n_tensors; t++) {
			const struct plan_place *pl = &pg->place[t];
			struct plan_part *a = &parts[count];

			if (!placed_by(p, i, t))
				continue;
			*a = (struct plan_part){
				.bo = (enum plan_bo_id)pl->bo,
				.tokens = pl->bo == PLAN_ACTIVATIONS ? pg->g->n_tokens : 0,
				.offset = pl->offset,
				.bytes = pl->bytes,
				.layout = pl->layout,
				.tensor = &pg->g->tensors[t],
			};
			plan_part_name(a->bo, pg->g->tensors[t].name, a->name, sizeof(a->name));
			count++;
		}
	}
	qsort(parts, count, sizeof(*parts), by_place);
	*out = parts;
	*n = count;
	return 0;
}

int plan_rules_seen(const struct plan *p, struct bo_rules_seen *out)
{
	struct bo_rules_seen seen = {0};
	struct plan_part *parts;
	uint32_t n;
	int ret = plan_parts(p, &parts, &n);

	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		bo_rules_see(p->rules, parts[i].name, BO_TAKES_PART, &seen);
	free(parts);
	for (uint32_t i = 0; i < p->n_buffers; i++)
		bo_rules_see(p->rules, p->buffers[i].owner,
			     plan_placed(&p->buffers[i]) ? BO_TAKES_BUFFER : 0, &seen);
	/* A buffer's name stands for all that is in it. */
	for (unsigned i = 0; i < PLAN_BO_COUNT; i++)
		if (p->bo[i].bytes && inside((enum plan_bo_id)i))
			bo_rules_see(p->rules, p->bo[i].owner, BO_TAKES_PART, &seen);
	*out = seen;
	return 0;
}

uint64_t plan_asked(const struct plan *p, enum bo_placement placement)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < p->n_buffers; i++) {
		const struct plan_buffer *b = &p->buffers[i];
		struct bo_desc d = {
			.owner = b->owner,
			.placement = strcmp(b->owner, "eop") ? BO_GTT : BO_VRAM,
		};

		if (!plan_placed(b))
			continue;
		bo_rules_apply(p->rules, &d);
		if (d.placement == placement)
			bytes += (b->bytes + PLAN_PAGE - 1) & ~(uint64_t)(PLAN_PAGE - 1);
	}
	return bytes;
}
