/* Relocation arithmetic. Pure. Source: AMDGPUUsage, "Relocation Records":
 * S symbol, A addend, P place, B base; every address is base + ELF virtual address. */
#include <errno.h>
#include <string.h>

#include "codeobj/codeobj_internal.h"

static int apply(const struct co_reloc *r, uint64_t base, uint8_t *field, const struct co_err *e)
{
	uint64_t s = base + r->sym_value + (uint64_t)r->addend;
	uint64_t rel = s - (base + r->offset);
	uint32_t w;

	switch (r->type) {
	case R_AMDGPU_RELATIVE64:
		s = base + (uint64_t)r->addend;
		memcpy(field, &s, 8);
		return 0;
	case R_AMDGPU_ABS64:
		memcpy(field, &s, 8);
		return 0;
	case R_AMDGPU_REL64:
		memcpy(field, &rel, 8);
		return 0;
	case R_AMDGPU_ABS32:
		if (s > UINT32_MAX)
			return co_refuse(e, -ERANGE,
					 "R_AMDGPU_ABS32 at 0x%llx: value 0x%llx, wanted 32 bits",
					 (unsigned long long)r->offset, (unsigned long long)s);
		w = (uint32_t)s;
		break;
	case R_AMDGPU_REL32:
		if ((int64_t)rel != (int32_t)rel)
			return co_refuse(e, -ERANGE,
					 "R_AMDGPU_REL32 at 0x%llx: distance %lld, wanted 32 bits",
					 (unsigned long long)r->offset, (long long)rel);
		w = (uint32_t)rel;
		break;
	case R_AMDGPU_ABS32_LO:
		w = (uint32_t)s;
		break;
	case R_AMDGPU_ABS32_HI:
		w = (uint32_t)(s >> 32);
		break;
	case R_AMDGPU_REL32_LO:
		w = (uint32_t)rel;
		break;
	case R_AMDGPU_REL32_HI:
		w = (uint32_t)(rel >> 32);
		break;
	default:
		return co_refuse(e, -ENOTSUP, "relocation type %u at 0x%llx is unknown", r->type,
				 (unsigned long long)r->offset);
	}
	memcpy(field, &w, 4);
	return 0;
}

int co_relocate(const struct codeobj *co, uint64_t base, void *mem, char *err, size_t errlen)
{
	const struct co_err e = {err, errlen};

	for (uint32_t i = 0; i < co->n_relocs; i++) {
		int rc = apply(&co->relocs[i], base, (uint8_t *)mem + co->relocs[i].offset, &e);

		if (rc)
			return rc;
	}
	return 0;
}
