/* A parsed code object on the device: one BO, because rodata, code and data refer to each other
 * by distance. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "codeobj/codeobj_internal.h"
#include "memory/memory.h"

struct co_program {
	const struct codeobj *co;
	struct bo *bo;
};

int co_load(struct memory *m, const struct codeobj *co, const char *owner, struct co_program **out,
	    char *err, size_t errlen)
{
	const struct co_err e = {err, errlen};
	const struct bo_desc d = {
		.owner = owner,
		.size = co->vaddr_end,
		.placement = BO_GTT,
		.coherence = BO_COARSE,
		.executable = true,
		.grain = 4096, /* segments keep their places in a page */
		.host = true,
		/* Whether a program has data of its own that it writes is not asked. */
		.uses = BO_HOST_WRITES | BO_DEVICE_READS | BO_HOST_DECLARED,
	};
	struct co_program *p = calloc(1, sizeof(*p));
	uint8_t *mem;
	int rc;

	if (!p)
		return co_refuse(&e, -ENOMEM, "out of memory");
	p->co = co;
	rc = bo_create(m, &d, &p->bo);
	if (rc) {
		rc = co_refuse(&e, rc, "%s: executable BO of %llu bytes: %s", owner,
			       (unsigned long long)d.size, strerror(-rc));
		goto out;
	}
	mem = bo_host(p->bo);
	/* the kernel hands out cleared pages, but bss is a promise of ours, not of its */
	memset(mem, 0, bo_size(p->bo));
	for (uint32_t i = 0; i < co->n_segments; i++) {
		const struct co_segment *s = &co->segments[i];

		memcpy(mem + s->vaddr, (const uint8_t *)co->image + s->offset, s->filesz);
	}
	rc = co_relocate(co, bo_va(p->bo), mem, err, errlen);
	if (rc)
		goto out;
	/* Code before the packet that names it: pairs with the release store of the packet header
	 * in queue_dispatch() and the acquire fence of that packet, which drops the I-cache. */
	atomic_thread_fence(memory_order_seq_cst);
	*out = p;
	return 0;
out:
	bo_retire(p->bo);
	free(p);
	return rc;
}

void co_unload(struct co_program *p)
{
	if (!p)
		return;
	bo_retire(p->bo);
	free(p);
}

uint64_t co_kernel_object(const struct co_program *p, const char *kernel)
{
	const struct co_kernel *k = co_find(p->co, kernel);

	return k ? bo_va(p->bo) + k->kd_vaddr : 0;
}

uint64_t co_program_base(const struct co_program *p)
{
	return bo_va(p->bo);
}

uint64_t co_program_bytes(const struct co_program *p)
{
	return bo_size(p->bo);
}
