/* GEM objects: lifetime, placement counters, fake offsets. */
#include "gem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "kfd/vkfd.h"

/* drm_vma_manager.h: fake offsets begin above 32 bits of pages' worth of real ones. */
#define DRM_FILE_PAGE_OFFSET (1ull << 32)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gem *objects;
static uint32_t generation; /* of this process: a fork begins a new one */
static uint64_t next_offset = DRM_FILE_PAGE_OFFSET;

void gem_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	/* The parent's objects: their backing is not here. */
	objects = NULL;
	generation++;
}

static void link_object(struct gem *g)
{
	pthread_mutex_lock(&lock);
	g->generation = generation;
	g->next = objects;
	g->prev = &objects;
	if (objects)
		objects->prev = &g->next;
	objects = g;
	pthread_mutex_unlock(&lock);
	kfd_mem_placed((int)g->domain, (int64_t)g->size);
}

static void adopt(struct gem *g, enum gem_domain domain, uint64_t size, struct gem **out)
{
	g->refs = 1;
	g->domain = domain;
	g->size = size;
	link_object(g);
	*out = g;
}

int gem_create(enum gem_domain domain, uint64_t size, struct gem **out)
{
	struct gem *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	err = vm_bo_alloc(domain == GEM_VRAM ? VM_POOL_VRAM : VM_POOL_GTT, size, &g->bo);
	if (err)
		free(g);
	else
		adopt(g, domain, size, out);
	return err;
}

int gem_create_user(enum gem_domain domain, uint64_t addr, uint64_t size, struct gem **out)
{
	struct gem *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	err = vm_bo_user(addr, size, &g->bo);
	if (err)
		free(g);
	else
		adopt(g, domain, size, out);
	return err;
}

void gem_ref(struct gem *g)
{
	__atomic_fetch_add(&g->refs, 1, __ATOMIC_RELAXED);
}

void gem_unref(struct gem *g)
{
	if (g->generation != generation)
		return;
	pthread_mutex_lock(&lock);
	if (__atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL)) {
		pthread_mutex_unlock(&lock);
		return;
	}
	*g->prev = g->next;
	if (g->next)
		g->next->prev = g->prev;
	pthread_mutex_unlock(&lock);
	kfd_mem_placed((int)g->domain, -(int64_t)g->size);
	if (g->kfd_flags)
		kfd_mem_unreserve(g->kfd_flags, g->size);
	vm_bo_unref(g->bo);
	free(g);
}

uint64_t gem_mmap_offset(struct gem *g)
{
	pthread_mutex_lock(&lock);
	if (!g->mmap_offset) {
		g->mmap_offset = next_offset;
		next_offset += g->size;
	}
	pthread_mutex_unlock(&lock);
	return g->mmap_offset;
}

int gem_allow(struct gem *g, struct drm_file *f)
{
	struct gem_allow *hole = NULL;
	int err = -ENOMEM;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < sizeof(g->allow) / sizeof(g->allow[0]); i++) {
		if (g->allow[i].file == f) {
			hole = &g->allow[i];
			break;
		}
		if (!g->allow[i].file && !hole)
			hole = &g->allow[i];
	}
	if (hole) {
		hole->file = f;
		hole->count++;
		err = 0;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void gem_revoke(struct gem *g, struct drm_file *f)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < sizeof(g->allow) / sizeof(g->allow[0]); i++) {
		if (g->allow[i].file == f && !--g->allow[i].count)
			g->allow[i].file = NULL;
	}
	pthread_mutex_unlock(&lock);
}

bool gem_allowed(const struct gem *g, const struct drm_file *f)
{
	for (unsigned i = 0; i < sizeof(g->allow) / sizeof(g->allow[0]); i++) {
		if (g->allow[i].file == f)
			return true;
	}
	return false;
}

struct gem *gem_by_offset(uint64_t offset, uint64_t *start)
{
	struct gem *found = NULL;

	pthread_mutex_lock(&lock);
	for (struct gem *g = objects; g; g = g->next) {
		if (g->mmap_offset && offset >= g->mmap_offset &&
		    offset - g->mmap_offset < g->size) {
			found = g;
			__atomic_fetch_add(&g->refs, 1, __ATOMIC_RELAXED);
			*start = g->mmap_offset;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}
