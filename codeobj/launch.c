/* What a dispatch passes beside the explicit arguments. Pure.
 * Source: AMDGPUUsage, "AMDHSA Code Object V5 Kernel Argument Metadata Map" (hidden kinds). */
#include <errno.h>
#include <string.h>

#include "codeobj/codeobj_internal.h"

#define MAX_GROUP_ITEMS 1024  /* gfx11: 32 waves of 32 per workgroup */
#define MAX_GROUP_LDS   65536 /* per workgroup; RDNA3 ISA 12.1 */

static uint64_t hidden_value(enum co_arg_kind kind, const struct co_launch *l)
{
	switch (kind) {
	case CO_ARG_HIDDEN_BLOCK_COUNT_X:
	case CO_ARG_HIDDEN_BLOCK_COUNT_Y:
	case CO_ARG_HIDDEN_BLOCK_COUNT_Z: {
		/* complete workgroups only; the partial one shows in the remainder */
		unsigned d = kind - CO_ARG_HIDDEN_BLOCK_COUNT_X;

		return l->group[d] ? l->grid[d] / l->group[d] : 0;
	}
	case CO_ARG_HIDDEN_GROUP_SIZE_X:
	case CO_ARG_HIDDEN_GROUP_SIZE_Y:
	case CO_ARG_HIDDEN_GROUP_SIZE_Z:
		return l->group[kind - CO_ARG_HIDDEN_GROUP_SIZE_X];
	case CO_ARG_HIDDEN_REMAINDER_X:
	case CO_ARG_HIDDEN_REMAINDER_Y:
	case CO_ARG_HIDDEN_REMAINDER_Z: {
		unsigned d = kind - CO_ARG_HIDDEN_REMAINDER_X;

		return l->group[d] ? l->grid[d] % l->group[d] : 0;
	}
	case CO_ARG_HIDDEN_GRID_DIMS:
		return l->dims;
	case CO_ARG_HIDDEN_DYNAMIC_LDS_SIZE:
		return l->dynamic_lds;
	case CO_ARG_HIDDEN_PRIVATE_BASE: /* 32 bits: the upper half of the aperture base */
		return l->private_base >> 32;
	case CO_ARG_HIDDEN_SHARED_BASE:
		return l->shared_base >> 32;
	case CO_ARG_HIDDEN_QUEUE_PTR:
		return l->queue_ptr;
	default: /* global offsets are zero: AQL grids start at the origin */
		return 0;
	}
}

void co_fill_hidden(const struct co_kernel *k, const struct co_launch *l, void *kernarg)
{
	for (uint32_t i = 0; i < k->n_args; i++) {
		const struct co_arg *a = &k->args[i];
		uint64_t v;

		if (a->kind < CO_ARG_HIDDEN_BLOCK_COUNT_X)
			continue;
		v = hidden_value(a->kind, l);
		memset((char *)kernarg + a->offset, 0, a->size);
		memcpy((char *)kernarg + a->offset, &v, a->size < 8 ? a->size : 8);
	}
}

int co_check_launch(const struct co_kernel *k, const struct co_launch *l, char *err, size_t errlen)
{
	const struct co_err e = {err, errlen};
	uint64_t items = 1, lds = (uint64_t)k->group_bytes + l->dynamic_lds;
	uint32_t max =
		k->max_group && k->max_group < MAX_GROUP_ITEMS ? k->max_group : MAX_GROUP_ITEMS;

	for (unsigned d = 0; d < 3; d++) {
		if (!l->grid[d] || !l->group[d])
			return co_refuse(&e, -EINVAL,
					 "%s: grid[%u] %u group[%u] %u, wanted at least 1", k->name,
					 d, l->grid[d], d, l->group[d]);
		items *= l->group[d];
	}
	if (items > max)
		return co_refuse(&e, -EINVAL,
				 "%s: workgroup of %llu work-items, wanted at most %u (%s)",
				 k->name, (unsigned long long)items, max,
				 max == MAX_GROUP_ITEMS ? "gfx11" : ".max_flat_workgroup_size");
	if (lds > MAX_GROUP_LDS)
		return co_refuse(&e, -EINVAL, "%s: LDS %llu bytes, wanted at most %u (gfx11)",
				 k->name, (unsigned long long)lds, MAX_GROUP_LDS);
	return 0;
}
