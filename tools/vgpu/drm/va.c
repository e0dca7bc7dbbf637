/* Mappings that a render node's client makes itself: GEM_VA (amdgpu_gem.c:amdgpu_gem_va_ioctl,
 * amdgpu_vm.c). What KFD maps into the same address space is not among them. */
#include <amdgpu_drm.h>
#include <errno.h>
#include <stdlib.h>

#include "drm_file.h"
#include "gem.h"
#include "kfd/vkfd.h"

#ifndef AMDGPU_VM_PAGE_NOALLOC
#define AMDGPU_VM_PAGE_NOALLOC (1 << 9)
#endif

#define VA_BOTTOM  0x10000ull                /* AMDGPU_VA_RESERVED_BOTTOM */
#define VA_TOP     ((1ull << 48) - 0x410000) /* below AMDGPU_VA_RESERVED_TOP */
#define HOLE_START 0x0000800000000000ull
#define HOLE_END   0xffff800000000000ull
#define HOLE_MASK  0x0000ffffffffffffull

void drm_va_remove(struct drm_file *f, struct gem_va *v)
{
	struct gem_va **pos = &f->vas;

	while (*pos != v)
		pos = &(*pos)->next;
	*pos = v->next;
	vm_unmap(f->vm, gva(v->va));
	gem_unref(v->gem);
	free(v);
}

/* Maps what w says, which stays the caller's. */
static int map(struct drm_file *f, const struct gem_va *w)
{
	struct gem_va *v = malloc(sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	err = vm_map(f->vm, gva(w->va), w->size, w->gem->bo, w->off, w->perm, w->mtype);
	if (err) {
		free(v);
		return err;
	}
	*v = *w;
	gem_ref(v->gem);
	v->next = f->vas;
	f->vas = v;
	return 0;
}

/* Takes [va, va + size) out of all mappings; what is left of one on either side stays. */
static int clear(struct drm_file *f, uint64_t va, uint64_t size)
{
	uint64_t end = va + size;
	int err = 0;

	for (struct gem_va *v = f->vas; v && !err;) {
		struct gem_va old = *v, part;

		if (v->va >= end || v->va + v->size <= va) {
			v = v->next;
			continue;
		}
		gem_ref(old.gem);
		drm_va_remove(f, v);
		if (old.va < va) {
			part = old;
			part.size = va - old.va;
			err = map(f, &part);
		}
		if (!err && old.va + old.size > end) {
			part = old;
			part.va = end;
			part.size = old.va + old.size - end;
			part.off = old.off + (end - old.va);
			err = map(f, &part);
		}
		gem_unref(old.gem);
		v = f->vas; /* the parts are new in it */
	}
	return err;
}

/* amdgpu_vm_verify_parameters */
static bool fits(const struct drm_amdgpu_gem_va *a, uint64_t off, const struct gem *g)
{
	uint64_t va = a->va_address, size = a->map_size;

	return !((va | off | size) & 4095) && va + size > va && off + size > off &&
	       (!g || off + size <= g->size);
}

static int unmap(struct drm_file *f, uint64_t va, const struct gem *g)
{
	for (struct gem_va *v = f->vas; v; v = v->next) {
		if (v->va == (va & ~4095ull) && v->gem == g) {
			drm_va_remove(f, v);
			return 0;
		}
	}
	return -ENOENT;
}

long drm_va_ioctl(struct drm_file *f, struct drm_amdgpu_gem_va *a, struct gem *g)
{
	const uint32_t valid = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE |
			       AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE |
			       AMDGPU_VM_MTYPE_MASK | AMDGPU_VM_PAGE_NOALLOC;
	const uint32_t sparse = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT;
	const struct gem_va new = {
		.va = a->va_address & HOLE_MASK,
		.size = a->map_size,
		.off = a->offset_in_bo,
		.perm = (a->flags & AMDGPU_VM_PAGE_WRITEABLE ? VM_W : 0) |
			(a->flags & AMDGPU_VM_PAGE_EXECUTABLE ? VM_X : 0),
		.mtype = (a->flags & AMDGPU_VM_MTYPE_MASK) == AMDGPU_VM_MTYPE_UC ? VM_MTYPE_UC
										 : VM_MTYPE_NC,
		.gem = g,
	};
	int err = 0;

	if (a->va_address < VA_BOTTOM)
		return -EINVAL;
	if (a->va_address >= HOLE_START && a->va_address < HOLE_END)
		return -EINVAL;
	/* It comes back without its upper bits. */
	a->va_address &= HOLE_MASK;
	if (a->va_address + a->map_size > VA_TOP)
		return -EINVAL;
	if (a->flags & ~valid && a->flags & ~sparse)
		return -EINVAL;
	if (a->operation < AMDGPU_VA_OP_MAP || a->operation > AMDGPU_VA_OP_REPLACE)
		return -EINVAL;
	if (a->operation == AMDGPU_VA_OP_CLEAR)
		return fits(a, 0, NULL) ? clear(f, a->va_address, a->map_size) : -EINVAL;
	if (a->flags & AMDGPU_VM_PAGE_PRT) {
		vgpu_log("vgpu: GEM_VA: sparse mappings (AMDGPU_VM_PAGE_PRT) are not modelled");
		return a->operation == AMDGPU_VA_OP_UNMAP ? -ENOENT : -EINVAL;
	}
	if (!g)
		return -ENOENT;
	if (a->operation == AMDGPU_VA_OP_UNMAP)
		return unmap(f, a->va_address, g);
	if (!fits(a, a->offset_in_bo, g))
		return -EINVAL;
	if (a->operation == AMDGPU_VA_OP_REPLACE)
		err = clear(f, a->va_address, a->map_size);
	return err ? err : map(f, &new);
}
