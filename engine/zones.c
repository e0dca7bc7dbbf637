#include "engine/zones.h"
#include "memory/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

void zones_fill(const struct plan *p, int32_t graph, struct bo *const *bo)
{
	for (uint32_t i = 0; i < p->n_zones; i++) {
		const struct plan_zone *z = &p->zones[i];

		if (z->graph == graph)
			zone_fill(bo_write(bo[z->bo], z->offset), bo_va(bo[z->bo]) + z->offset,
				  z->bytes);
	}
}

int zones_check(const struct plan *p, int32_t graph, struct bo *const *bo, char *err, size_t errlen)
{
	for (uint32_t i = 0; i < p->n_zones; i++) {
		const struct plan_zone *z = &p->zones[i];
		const uint8_t *host;
		uint64_t va, at, changed;

		if (z->graph >= 0 && z->graph != graph)
			continue;
		host = bo_read(bo[z->bo], z->offset);
		va = bo_va(bo[z->bo]) + z->offset;
		at = zone_check(host, va, z->bytes, &changed);
		if (at == z->bytes)
			continue;
		snprintf(err, errlen,
			 "red zone beside tensor %s of \"%s\": %" PRIu64 " of %" PRIu64
			 " bytes were written, the first at 0x%" PRIx64 " (offset 0x%" PRIx64
			 " of the buffer): 0x%02x, wanted 0x%02x",
			 z->tensor, p->bo[z->bo].owner, changed, z->bytes, va + at, z->offset + at,
			 host[at], zone_byte(va + at));
		return -EBADF;
	}
	return 0;
}
