/* Who reads and writes which buffer: the same declarations that barriers come from (plan_schedule.c),
 * summed over all steps. */
#include "engine/plan_internal.h"
#include "memory/memory.h"

static unsigned of_tensor(const struct plan_graph *pg, enum plan_bo_id id, int t, unsigned use)
{
	return t >= 0 && pg->place[t].bo == (int32_t)id ? use : 0;
}

static unsigned of_graph(const struct plan *p, const struct plan_graph *pg, enum plan_bo_id id)
{
	const struct graph *g = pg->g;
	unsigned uses = 0;

	for (uint32_t i = 0; i <= g->n_nodes; i++) {
		const struct plan_node *pn = &pg->node[i];
		const bool d = pn->device;

		/* Step block and arguments are read by every kernel, tables by some. */
		if (d &&
		    (id == PLAN_IO || id == PLAN_KERNARGS || (id == PLAN_TABLES && pn->table >= 0)))
			uses |= BO_DEVICE_READS;
		if (i == g->n_nodes) {
			/* The step's number beside the logits. */
			if (id == PLAN_IO)
				uses |= d ? BO_DEVICE_WRITES : BO_HOST_WRITES;
			continue;
		}
		for (int s = 0; s < 5; s++) {
			const int t = g->nodes[i].src[s];

			/* On the CPU weights come from the file. */
			if (d || t < 0 || g->tensors[t].kind != TENSOR_WEIGHT)
				uses |= of_tensor(pg, id, t, d ? BO_DEVICE_READS : BO_HOST_READS);
		}
		uses |= of_tensor(pg, id, g->nodes[i].dst, d ? BO_DEVICE_WRITES : BO_HOST_WRITES);
	}
	/* Red zones are written before a step and looked at after it. */
	for (uint32_t i = 0; i < p->n_zones; i++)
		if (p->zones[i].bo == id)
			uses |= BO_HOST_READS | BO_HOST_WRITES;
	return uses;
}

unsigned plan_uses(const struct plan *p, enum plan_bo_id id, bool device_copies)
{
	unsigned uses = BO_DECLARED;

	for (uint32_t i = 0; i < p->n_graphs; i++)
		uses |= of_graph(p, &p->graphs[i], id);
	switch (id) {
	case PLAN_WEIGHTS:
	case PLAN_SLOT:
		return uses | (device_copies ? BO_DEVICE_WRITES : BO_HOST_WRITES);
	case PLAN_IO: /* ids and positions; logits */
		return uses | BO_HOST_WRITES | BO_HOST_READS;
	case PLAN_KERNARGS:
	case PLAN_TABLES:
		return uses | BO_HOST_WRITES;
	case PLAN_KV:
	case PLAN_ACTIVATIONS:
	case PLAN_BO_COUNT:
		break;
	}
	return uses;
}
