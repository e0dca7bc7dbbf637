/* GEM objects: lifetime, placement counters, fake offsets. */
#include "gem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "carry.h"
#include "fence.h"
#include "kfd/vkfd.h"
#include "share/share.h"
#include "vm/rawsys.h"

/* drm_vma_manager.h: fake offsets begin above 32 bits of pages' worth of real ones. */
#define DRM_FILE_PAGE_OFFSET (1ull << 32)
/* On a shared device buffers lie at DRM_FILE_PAGE_OFFSET plus their place in its memory, which no
 * other process's has; objects of this process alone come behind all of them. */
#define OWN_OFFSETS (1ull << 44)

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
	if (!g->bo->shared)
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

int gem_create_file(enum gem_domain domain, int fd, uint64_t off, uint64_t size, struct gem **out)
{
	long at = rawsys6(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off);
	int err;

	if (at < 0 && at > -4096)
		return (int)at;
	rawsys3(SYS_madvise, at, size, MADV_DONTFORK);
	rawsys3(SYS_madvise, at, size, MADV_DONTDUMP);
	err = gem_create_user(domain, (uint64_t)at, size, out);
	if (err) {
		rawsys2(SYS_munmap, at, size);
		return err;
	}
	(*out)->foreign = true;
	(*out)->file_fd = fd;
	(*out)->file_off = off;
	return 0;
}

int gem_file(const struct gem *g, uint64_t *off)
{
	bool inherited = g->generation != generation;

	*off = 0;
	if (g->foreign) {
		*off = g->file_off;
		return g->file_fd;
	}
	if (!g->bo || g->bo->kind != VM_BACK_POOL)
		return -1;
	*off = g->bo->pool_off;
	return inherited ? vm_pools_parent_fd() : vm_pools_fd();
}

bool gem_is_inherited(const struct gem *g)
{
	return g->generation != generation;
}

static void describe(struct gem *to, const struct gem *from)
{
	to->kfd_flags = 0; /* charged where it was allocated */
	to->cpu_access = from->cpu_access;
	to->by_ioctl = from->by_ioctl;
	to->create_flags = from->create_flags;
	to->create_domains = from->create_domains;
	to->alignment = from->alignment;
	to->metadata_flags = from->metadata_flags;
	to->tiling = from->tiling;
	to->metadata_size = from->metadata_size;
	memcpy(to->metadata, from->metadata, sizeof(to->metadata));
}

struct gem *gem_inherited(struct gem *g)
{
	uint64_t off;
	int fd;

	if (g->heir && g->heir->generation == generation) {
		gem_ref(g->heir);
		return g->heir;
	}
	fd = gem_file(g, &off);
	if (fd < 0 || gem_create_file(g->domain, fd, off, g->size, &g->heir))
		return NULL;
	describe(g->heir, g);
	/* The copy is reached from several places of this process: its heir outlives them. */
	gem_ref(g->heir);
	return g->heir;
}

void gem_carry_out(struct carry *c, const struct gem *g)
{
	uint64_t off;
	int fd = gem_file(g, &off);

	carry_put(c, (uint64_t)(int64_t)(fd < 0 ? -1 : carry_fd(c, fd)));
	carry_put(c, off);
	carry_put(c, g->size);
	carry_put(c, g->domain);
	carry_put(c, g->mmap_offset);
	carry_put(c, g->cpu_access);
	carry_put(c, g->metadata_flags);
	carry_put(c, g->tiling);
	carry_put(c, g->metadata_size);
	carry_put_bytes(c, g->metadata, sizeof(g->metadata));
}

struct gem *gem_carry_in(struct carry *c)
{
	int fd = (int)(int64_t)carry_get(c);
	uint64_t off = carry_get(c), size = carry_get(c);
	enum gem_domain domain = carry_get(c) == GEM_VRAM ? GEM_VRAM : GEM_GTT;
	struct gem from = {.mmap_offset = carry_get(c)}, *g = NULL;

	from.cpu_access = carry_get(c) != 0;
	from.metadata_flags = carry_get(c);
	from.tiling = carry_get(c);
	from.metadata_size = (uint32_t)carry_get(c);
	carry_get_bytes(c, from.metadata, sizeof(from.metadata));
	if (c->bad || fd < 0 || gem_create_file(domain, fd, off, size, &g))
		return NULL;
	describe(g, &from);
	pthread_mutex_lock(&lock);
	g->mmap_offset = from.mmap_offset;
	if (g->mmap_offset && next_offset < g->mmap_offset + size)
		next_offset = g->mmap_offset + size;
	pthread_mutex_unlock(&lock);
	return g;
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
	if (!g->bo->shared) {
		kfd_mem_placed((int)g->domain, -(int64_t)g->size);
		if (g->kfd_flags)
			kfd_mem_unreserve(g->kfd_flags, g->size);
	}
	if (g->fences.at) {
		drm_lock();
		fences_drop(&g->fences);
		drm_unlock();
	}
	if (g->foreign)
		rawsys2(SYS_munmap, g->bo->user_addr, g->size);
	vm_bo_unref(g->bo);
	free(g);
}

struct fence *gem_busy(struct gem *g)
{
	struct fences *all = &g->fences;

	for (uint32_t i = 0; i < all->n;) {
		if (fence_signaled(all->at[i])) {
			fence_put(all->at[i]);
			all->at[i] = all->at[--all->n];
		} else {
			i++;
		}
	}
	return all->n ? all->at[0] : NULL;
}

int gem_add_fence(struct gem *g, struct fence *f)
{
	struct fences *all = &g->fences;

	gem_busy(g);
	for (uint32_t i = 0; i < all->n; i++) {
		if (all->at[i]->context != f->context)
			continue;
		fence_put(all->at[i]);
		all->at[i] = fence_get(f);
		return 0;
	}
	return fences_add(all, f);
}

uint64_t gem_mmap_offset(struct gem *g)
{
	pthread_mutex_lock(&lock);
	if (!g->mmap_offset && g->bo->shared) {
		g->mmap_offset = DRM_FILE_PAGE_OFFSET + g->bo->pool_off;
	} else if (!g->mmap_offset) {
		if (share_active() && next_offset < OWN_OFFSETS)
			next_offset = OWN_OFFSETS;
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

int gem_mmap(struct gem *g, uint64_t len, uint64_t off, struct vma_backing *out)
{
	uint64_t at;
	int fd;

	if (len > g->size || off > g->size - len)
		return -EINVAL;
	fd = gem_file(g, &at);
	if (g->domain == GEM_PREEMPT || fd < 0)
		return -EPERM;
	gem_ref(g);
	*out = (struct vma_backing){
		.kind = VMA_BO,
		.fd = fd,
		.off = at + off,
		.dontexpand = true,
		.gem = g,
	};
	return 0;
}

/* ---- a shared device ------------------------------------------------------ */

void gem_charge(struct gem *g, uint32_t kfd_flags)
{
	g->kfd_flags = kfd_flags;
	if (g->bo->shared) {
		uint64_t a[SHARE_ARGS] = {g->bo->shared, kfd_flags};

		share_call(SHARE_BO_CHARGE, a);
	}
}

void gem_used_by_queues(struct gem *g)
{
	uint64_t a[SHARE_ARGS] = {g->bo->shared};

	if (g->bo->shared)
		share_call(SHARE_BO_KFD, a);
}

void gem_pin(struct gem *g, int n)
{
	uint64_t a[SHARE_ARGS] = {g->bo->shared, (uint64_t)(int64_t)n};

	if (g->bo->shared)
		share_call(SHARE_BO_PIN, a);
}

static struct gem *by_number(uint64_t number)
{
	struct gem *g;

	pthread_mutex_lock(&lock);
	for (g = objects; g && g->bo->shared != number; g = g->next)
		;
	if (g)
		__atomic_fetch_add(&g->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	return g;
}

struct gem *gem_import(const struct share_bo *b)
{
	struct gem *g = by_number(b->number);

	if (g) {
		/* One hold per object. */
		share_bo_put(b->number);
		return g;
	}
	g = calloc(1, sizeof(*g));
	if (!g || vm_bo_adopt(b->domain == GEM_VRAM ? VM_POOL_VRAM : VM_POOL_GTT, b->number,
			      b->offset, b->size, &g->bo)) {
		free(g);
		share_bo_put(b->number);
		return NULL;
	}
	g->kfd_flags = b->kfd_flags;
	g->cpu_access = b->cpu_access;
	adopt(g, (enum gem_domain)b->domain, b->size, &g);
	gem_refresh(g);
	return g;
}

void gem_publish(struct gem *g)
{
	uint64_t a[SHARE_ARGS] = {g->bo->shared, g->cpu_access, g->metadata_flags, g->tiling};

	if (g->bo->shared)
		share_call_data(SHARE_BO_SET, a, -1, g->metadata, g->metadata_size, NULL, NULL);
}

void gem_refresh(struct gem *g)
{
	uint64_t a[SHARE_ARGS] = {g->bo->shared};
	uint32_t meta[64];
	size_t n = sizeof(meta);

	if (!g->bo->shared || share_call_data(SHARE_BO_GET, a, -1, NULL, 0, meta, &n))
		return;
	g->cpu_access = a[1];
	g->metadata_flags = a[2];
	g->tiling = a[3];
	g->metadata_size = (uint32_t)n;
	memcpy(g->metadata, meta, n);
}

bool gem_elsewhere(uint64_t offset)
{
	uint64_t a[SHARE_ARGS] = {offset - DRM_FILE_PAGE_OFFSET};

	return share_active() && offset >= DRM_FILE_PAGE_OFFSET && offset < OWN_OFFSETS &&
	       !share_call(SHARE_BO_AT, a);
}
