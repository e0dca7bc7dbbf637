/* The plan's red zones, filled and looked at. Neither allocates nor enters the kernel; both do
 * nothing when the plan has none. */
#ifndef ENGINE_ZONES_H
#define ENGINE_ZONES_H

#include "engine/plan.h"

/* Those of one graph's activations, or (graph -1) of weights and KV. bo: by enum plan_bo_id. */
void zones_fill(const struct plan *p, int32_t graph, struct bo *const *bo);
/* Those of a graph and the lasting ones: 0, or -EBADF with the tensor, the byte and what it holds
 * in err. */
int zones_check(const struct plan *p, int32_t graph, struct bo *const *bo, char *err,
		size_t errlen);

#endif
