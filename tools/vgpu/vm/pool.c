/* Backing memory: one sparse memfd that holds VRAM and GTT one after the other.
 *
 * The device maps all of it once, privately to itself (the alias); clients map pieces of the same
 * file through the render node. Freed ranges are punched out, so memory goes back to the system
 * at once and the next owner finds zeroes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ownfd.h"
#include "share/share.h"
#include "vm/internal.h"
#include "vm/rawsys.h"

#define ALIGN_BIG (2ull << 20)

struct hole {
	uint64_t off, len;
};

struct pool {
	uint64_t start, size, used;
	struct hole *holes; /* sorted by offset, never adjacent */
	size_t n, cap;
};

static struct {
	pthread_mutex_t lock;
	int fd;
	uint8_t *alias;
	uint64_t size;
	uint32_t next_id;
	uint64_t tables; /* bytes of page tables, all of them in VRAM */
	struct pool pool[VM_POOL_COUNT];
	int parent_fd;
} P = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .parent_fd = -1};

static bool keep_parent;

static void pools_release(void)
{
	if (P.alias)
		rawsys2(SYS_munmap, P.alias, P.size);
	own_fd_close(P.fd);
	for (int i = 0; i < VM_POOL_COUNT; i++)
		free(P.pool[i].holes);
	memset(P.pool, 0, sizeof(P.pool));
	P.alias = NULL;
	P.fd = -1;
	P.size = 0;
}

/* A forked child has none of the parent's device: its GPU mappings, its alias (MADV_DONTFORK)
 * and its pools are gone, and it starts with vm_pools_init() like a new process. */
static void forked(void)
{
	pthread_mutex_init(&P.lock, NULL);
	P.alias = NULL;
	P.tables = 0;
	if (P.fd >= 0 && keep_parent) {
		own_fd_close(P.parent_fd);
		P.parent_fd = P.fd;
		P.fd = -1;
	}
	pools_release();
	vm_readers_forked();
}

int vm_pools_parent_fd(void)
{
	return P.parent_fd;
}

void vm_pools_keep_parent(bool keep)
{
	keep_parent = keep;
	if (keep || P.parent_fd < 0)
		return;
	own_fd_close(P.parent_fd);
	P.parent_fd = -1;
}

static int hole_insert(struct pool *p, size_t at, uint64_t off, uint64_t len)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct hole *h = realloc(p->holes, cap * sizeof(*h));

		if (!h)
			return -ENOMEM;
		p->holes = h;
		p->cap = cap;
	}
	memmove(&p->holes[at + 1], &p->holes[at], (p->n - at) * sizeof(*p->holes));
	p->holes[at] = (struct hole){off, len};
	p->n++;
	return 0;
}

static void hole_remove(struct pool *p, size_t at)
{
	p->n--;
	memmove(&p->holes[at], &p->holes[at + 1], (p->n - at) * sizeof(*p->holes));
}

/* First fit at the wanted alignment. */
static int pool_take(struct pool *p, uint64_t size, uint64_t align, uint64_t *out)
{
	for (size_t i = 0; i < p->n; i++) {
		struct hole *h = &p->holes[i];
		uint64_t off = (h->off + align - 1) & ~(align - 1);
		uint64_t head = off - h->off;
		uint64_t tail;

		if (h->len < size || h->len - size < head)
			continue;
		tail = h->len - head - size;
		if (head && tail) {
			int r = hole_insert(p, i + 1, off + size, tail);

			if (r)
				return r;
			p->holes[i].len = head;
		} else if (head) {
			h->len = head;
		} else if (tail) {
			h->off += size;
			h->len = tail;
		} else {
			hole_remove(p, i);
		}
		p->used += size;
		*out = off;
		return 0;
	}
	return -ENOMEM;
}

static void pool_give(struct pool *p, uint64_t off, uint64_t size)
{
	size_t i = 0;

	while (i < p->n && p->holes[i].off < off)
		i++;
	p->used -= size;
	if (i > 0 && p->holes[i - 1].off + p->holes[i - 1].len == off) {
		p->holes[i - 1].len += size;
		if (i < p->n && off + size == p->holes[i].off) {
			p->holes[i - 1].len += p->holes[i].len;
			hole_remove(p, i);
		}
	} else if (i < p->n && off + size == p->holes[i].off) {
		p->holes[i].off = off;
		p->holes[i].len += size;
	} else {
		/* Without memory for a new hole the range stays unusable: a leak of address
		 * space in the pool, never of bytes (they were punched). */
		(void)hole_insert(p, i, off, size);
	}
}

/* The memory of a shared device: its daemon deals it out. */
static long pools_share(void)
{
	uint64_t total;
	long fd = own_fd_copy(share_memory_fd(&total)), r;

	if (fd < 0)
		return fd;
	r = rawsys6(SYS_mmap, 0, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (r < 0 && r > -4096) {
		own_fd_close((int)fd);
		return r;
	}
	P.alias = (uint8_t *)r;
	P.size = total;
	P.fd = (int)fd;
	return 0;
}

int vm_pools_init(uint64_t vram_bytes, uint64_t gtt_bytes)
{
	static bool atfork;
	const uint64_t want[VM_POOL_COUNT] = {vram_bytes, gtt_bytes};
	uint64_t total = 0;
	long r, fd = -1;

	if (!vram_bytes || !gtt_bytes || vram_bytes % VM_PAGE || gtt_bytes % VM_PAGE)
		return -EINVAL;
	pthread_mutex_lock(&P.lock);
	if (P.fd >= 0) {
		r = -EBUSY;
		goto out;
	}
	if (share_active()) {
		r = pools_share();
		if (r)
			goto out;
		goto ready;
	}
	r = rawsys2(SYS_memfd_create, "vgpu-memory", MFD_CLOEXEC);
	if (r < 0)
		goto out;
	fd = own_fd(r);
	for (int i = 0; i < VM_POOL_COUNT; i++) {
		struct pool *p = &P.pool[i];

		p->start = total;
		p->size = want[i];
		total += (want[i] + ALIGN_BIG - 1) & ~(ALIGN_BIG - 1);
		r = hole_insert(p, 0, p->start, p->size);
		if (r)
			goto out;
	}
	r = rawsys2(SYS_ftruncate, fd, total);
	if (r < 0)
		goto out;
	r = rawsys6(SYS_mmap, 0, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (r < 0 && r > -4096)
		goto out;
	P.alias = (uint8_t *)r;
	P.size = total;
	P.fd = (int)fd;
ready:
	rawsys3(SYS_madvise, P.alias, P.size, MADV_DONTFORK);
	rawsys3(SYS_madvise, P.alias, P.size, MADV_DONTDUMP);
	if (!atfork) {
		pthread_atfork(NULL, NULL, forked);
		atfork = true;
	}
	r = 0;
out:
	if (r && r != -EBUSY) {
		if (P.fd < 0)
			own_fd_close((int)fd);
		pools_release();
	}
	pthread_mutex_unlock(&P.lock);
	return (int)r;
}

void vm_pools_fini(void)
{
	pthread_mutex_lock(&P.lock);
	pools_release();
	pthread_mutex_unlock(&P.lock);
}

uint8_t *vm_pools_alias(uint64_t *bytes)
{
	*bytes = P.size;
	return P.alias;
}

int vm_pools_fd(void)
{
	return P.fd;
}

/* With the lock held. */
static bool vram_has(uint64_t size)
{
	const struct pool *p = &P.pool[VM_POOL_VRAM];

	return p->used + P.tables <= p->size && size <= p->size - p->used - P.tables;
}

bool vm_table_take(void)
{
	uint64_t a[SHARE_ARGS] = {4, VM_PAGE}; /* AMDGPU_GEM_DOMAIN_VRAM */
	bool ok;

	if (vm_tables_used() >= vm_tables_limit)
		return false;
	if (share_active() && share_call(SHARE_PLACED, a))
		return false;
	pthread_mutex_lock(&P.lock);
	ok = P.fd < 0 || share_active() || vram_has(VM_PAGE);
	if (ok)
		P.tables += VM_PAGE;
	pthread_mutex_unlock(&P.lock);
	return ok;
}

void vm_table_give(void)
{
	uint64_t a[SHARE_ARGS] = {4, (uint64_t)-(int64_t)VM_PAGE};

	if (share_active())
		share_call(SHARE_PLACED, a);
	pthread_mutex_lock(&P.lock);
	P.tables -= VM_PAGE;
	pthread_mutex_unlock(&P.lock);
}

uint64_t vm_tables_used(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&P.lock);
	bytes = P.tables;
	pthread_mutex_unlock(&P.lock);
	return bytes;
}

int vm_bo_alloc(enum vm_pool_id id, uint64_t size, struct vm_bo **out)
{
	struct pool *p = &P.pool[id];
	struct vm_bo *bo;
	uint64_t off;
	int r = -ENOMEM;

	if (!size || size % VM_PAGE)
		return -EINVAL;
	if (share_active()) {
		uint64_t number;

		r = share_bo_alloc(id == VM_POOL_VRAM ? 4 : 2, size, &number, &off);
		if (r)
			return r;
		r = vm_bo_adopt(id, number, off, size, out);
		if (r)
			share_bo_put(number);
		return r;
	}
	bo = calloc(1, sizeof(*bo));
	if (!bo)
		return -ENOMEM;
	pthread_mutex_lock(&P.lock);
	if (id == VM_POOL_VRAM && !vram_has(size))
		goto out;
	if (size >= ALIGN_BIG)
		r = pool_take(p, size, ALIGN_BIG, &off);
	if (r)
		r = pool_take(p, size, VM_PAGE, &off);
	if (!r)
		bo->id = ++P.next_id;
out:
	pthread_mutex_unlock(&P.lock);
	if (r) {
		free(bo);
		return r;
	}
	bo->kind = VM_BACK_POOL;
	bo->size = size;
	bo->pool = id;
	bo->pool_off = off;
	bo->refs = 1;
	*out = bo;
	return 0;
}

int vm_bo_adopt(enum vm_pool_id id, uint64_t number, uint64_t offset, uint64_t size,
		struct vm_bo **out)
{
	struct vm_bo *bo = calloc(1, sizeof(*bo));

	if (!bo)
		return -ENOMEM;
	bo->kind = VM_BACK_POOL;
	bo->size = size;
	bo->pool = id;
	bo->pool_off = offset;
	bo->refs = 1;
	bo->shared = number;
	bo->id = __atomic_add_fetch(&P.next_id, 1, __ATOMIC_RELAXED);
	*out = bo;
	return 0;
}

int vm_bo_user(uint64_t user_addr, uint64_t size, struct vm_bo **out)
{
	struct vm_bo *bo;

	if (!size || size % VM_PAGE || user_addr % VM_PAGE)
		return -EINVAL;
	bo = calloc(1, sizeof(*bo));
	if (!bo)
		return -ENOMEM;
	bo->kind = VM_BACK_USER;
	bo->size = size;
	bo->user_addr = user_addr;
	bo->refs = 1;
	bo->id = __atomic_add_fetch(&P.next_id, 1, __ATOMIC_RELAXED);
	*out = bo;
	return 0;
}

void vm_bo_ref(struct vm_bo *bo)
{
	__atomic_add_fetch(&bo->refs, 1, __ATOMIC_RELAXED);
}

void vm_bo_unref(struct vm_bo *bo)
{
	if (__atomic_sub_fetch(&bo->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (bo->shared) {
		share_bo_put(bo->shared);
	} else if (bo->kind == VM_BACK_POOL && P.fd >= 0) {
		/* Punch before the range can be handed out again. */
		rawsys4(SYS_fallocate, P.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			bo->pool_off, bo->size);
		pthread_mutex_lock(&P.lock);
		pool_give(&P.pool[bo->pool], bo->pool_off, bo->size);
		pthread_mutex_unlock(&P.lock);
	}
	free(bo);
}

uint64_t vm_pool_used(enum vm_pool_id id)
{
	uint64_t used;

	pthread_mutex_lock(&P.lock);
	used = P.pool[id].used;
	pthread_mutex_unlock(&P.lock);
	return used;
}

void *vm_bo_kmap(struct vm_bo *bo)
{
	if (bo->kind == VM_BACK_USER)
		return (void *)bo->user_addr;
	return P.alias + bo->pool_off;
}
