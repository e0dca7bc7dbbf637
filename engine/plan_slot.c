/* Bounded residency: weights that do not stay. Those of the last blocks share one buffer, in which each
 * block lies as if it were alone; the executor refills it from the file whenever the next block's
 * turn comes, with nothing in flight. */
#include "engine/plan_internal.h"
#include "engine/refuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int32_t plan_block_of(const char *weight)
{
	char *end;
	unsigned long n;

	if (strncmp(weight, "blk.", 4) || weight[4] < '0' || weight[4] > '9')
		return -1;
	n = strtoul(weight + 4, &end, 10);
	return *end == '.' && n < INT32_MAX ? (int32_t)n : -1;
}

int plan_slot_init(struct plan *p, const struct graph *const *graphs, uint32_t n, uint32_t refilled,
		   char *err, size_t errlen)
{
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t t = 0; t < graphs[i]->n_tensors; t++) {
			const struct tensor *w = &graphs[i]->tensors[t];
			int32_t block = w->kind == TENSOR_WEIGHT ? plan_block_of(w->name) : -1;

			if (block >= (int32_t)p->n_blocks)
				p->n_blocks = (uint32_t)block + 1;
		}
	}
	if (refilled > p->n_blocks)
		return refuse(err, errlen, -EINVAL,
			      "weights of %u blocks to be refilled; the model has %u", refilled,
			      p->n_blocks);
	p->refilled = refilled;
	p->slot_used = calloc(p->n_blocks + 1, sizeof(*p->slot_used));
	return p->slot_used ? 0 : refuse(err, errlen, -ENOMEM, "out of memory");
}

bool plan_slot_holds(const struct plan *p, const struct tensor *t)
{
	int32_t block = plan_block_of(t->name);

	return block >= 0 && (uint32_t)block >= p->n_blocks - p->refilled;
}

int plan_slot_append(struct plan *p, const struct tensor *t, struct plan_place *pl)
{
	const struct plan_fit f = plan_fit(p, PLAN_SLOT, t->name);
	uint64_t *used = &p->slot_used[plan_block_of(t->name)];
	struct plan_bo block = {.bytes = *used};
	int ret;

	/* The next block's weights would lie on the zones of this one's. */
	if (f.zone)
		return -ENOTSUP;
	ret = plan_append(&block, pl->bytes, f.align, &pl->offset);
	if (ret < 0)
		return ret;
	*used = block.bytes;
	if (*used > p->bo[PLAN_SLOT].bytes)
		p->bo[PLAN_SLOT].bytes = *used;
	p->refill_bytes += t->bytes; /* rows on the device may be longer */
	pl->bo = PLAN_SLOT;
	return 0;
}

int32_t plan_slot_of(const struct plan_graph *pg, const struct node *n)
{
	for (int s = 0; n && s < 5; s++) {
		int t = n->src[s];

		if (t >= 0 && pg->place[t].bo == PLAN_SLOT)
			return plan_block_of(pg->g->tensors[t].name);
	}
	return -1;
}
