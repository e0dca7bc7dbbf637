/* How tensors lie inside their buffer: alignment, rounding, red zones. */
#include "engine/plan_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Kernels load 16 bytes at a time; no rule can go below. */
#define ALIGN_MIN 16u

static const char *prefix(enum plan_bo_id bo)
{
	return bo == PLAN_WEIGHTS || bo == PLAN_SLOT ? "weights"
	       : bo == PLAN_KV                       ? "kv"
						     : "transient";
}

void plan_part_name(enum plan_bo_id bo, const char *tensor, char *out, size_t len)
{
	snprintf(out, len, "%s:%s", prefix(bo), tensor);
}

struct plan_fit plan_fit(struct plan *p, enum plan_bo_id bo, const char *tensor)
{
	struct plan_fit f = {.align = LAYOUT_ALIGN};
	char owner[PLAN_NAME_MAX];
	uint64_t v;

	plan_part_name(bo, tensor, owner, sizeof(owner));
	/* Whole pages given to the buffer's name are about the buffer itself. */
	v = bo_rules_align(p->rules, p->bo[bo].owner, 0);
	if (v && v < PLAN_PAGE)
		f.align = v;
	f.align = bo_rules_align_inside(p->rules, owner, f.align);
	if (f.align < ALIGN_MIN)
		f.align = ALIGN_MIN;
	f.round = f.align < LAYOUT_ALIGN ? f.align : LAYOUT_ALIGN;
	f.zone = bo_rules_redzone(p->rules, owner);
	if (!f.zone)
		f.zone = bo_rules_redzone(p->rules, p->bo[bo].owner);
	if (f.align > p->bo[bo].align)
		p->bo[bo].align = f.align;
	if (f.align > p->bo[bo].grain)
		p->bo[bo].grain = f.align < PLAN_PAGE ? f.align : PLAN_PAGE;
	return f;
}

int plan_append(struct plan_bo *bo, uint64_t bytes, uint64_t align, uint64_t *offset)
{
	uint64_t at, end;

	if (__builtin_add_overflow(bo->bytes, align - 1, &at))
		return -EOVERFLOW;
	at &= ~(align - 1);
	if (__builtin_add_overflow(at, bytes, &end))
		return -EOVERFLOW;
	bo->bytes = end;
	*offset = at;
	return 0;
}

static int zone_add(struct plan *p, const struct plan_zone *z)
{
	struct plan_zone *zones;

	/* Doubles at every power of two. */
	if (!(p->n_zones & (p->n_zones - 1))) {
		zones = realloc(p->zones, (p->n_zones ? 2 * p->n_zones : 1) * sizeof(*zones));
		if (!zones)
			return -ENOMEM;
		p->zones = zones;
	}
	p->zones[p->n_zones++] = *z;
	return 0;
}

int plan_zones(struct plan *p, enum plan_bo_id bo, int32_t graph, const char *tensor,
	       const struct plan_fit *fit, uint64_t offset, uint64_t bytes)
{
	struct plan_zone z = {.bo = bo, .graph = graph, .tensor = tensor};
	int ret;

	if (!fit->zone)
		return 0;
	z.offset = offset - fit->zone;
	z.bytes = fit->zone;
	ret = zone_add(p, &z);
	if (ret < 0)
		return ret;
	/* To the byte: the padding after the tensor belongs to nobody either. */
	z.offset = offset + bytes;
	z.bytes = fit->zone + ((bytes + fit->round - 1) & ~(fit->round - 1)) - bytes;
	return zone_add(p, &z);
}

int plan_append_tensor(struct plan *p, enum plan_bo_id bo, const char *tensor, uint64_t bytes,
		       uint64_t *offset)
{
	const struct plan_fit f = plan_fit(p, bo, tensor);
	uint64_t at = p->bo[bo].bytes, end;
	int ret;

	if (!f.zone)
		return plan_append(&p->bo[bo], bytes, f.align, offset);
	at = (at + f.zone + f.align - 1) & ~(f.align - 1);
	if (__builtin_add_overflow(at, bytes + f.round + f.zone, &end))
		return -EOVERFLOW;
	ret = plan_zones(p, bo, -1, tensor, &f, at, bytes);
	if (ret < 0)
		return ret;
	p->bo[bo].bytes = ((at + bytes + f.round - 1) & ~(f.round - 1)) + f.zone;
	*offset = at;
	return 0;
}
