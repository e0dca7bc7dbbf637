/* Which buffer a byte of the pool belongs to, and the arrays per dword and page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check/internal.h"
#include "vm/internal.h"
#include "vm/rawsys.h"

static struct {
	pthread_mutex_t lock;
	struct map {
		const struct vm *vm;
		uint64_t va, size, off;
	} *map;
	size_t n, cap;
} M = {.lock = PTHREAD_MUTEX_INITIALIZER};

void check_map_forked(void)
{
	pthread_mutex_init(&M.lock, NULL);
	M.n = 0;
}

/* Zeros that cost memory only where they are touched. */
static void *array(uint64_t bytes)
{
	long r = rawsys6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (r < 0 && r > -4096)
		return NULL;
	rawsys3(SYS_madvise, r, bytes, MADV_DONTDUMP);
	rawsys3(SYS_madvise, r, bytes, MADV_DONTFORK);
	return (void *)r;
}

bool check_arrays(void)
{
	struct check_state *s = &check;

	if (s->ready)
		return true;
	s->alias = vm_pools_alias(&s->bytes);
	if (!s->alias)
		return false;
	s->wrote = array(s->bytes);
	s->read = array(s->bytes);
	s->host = array(s->bytes);
	s->page = array(s->bytes / VM_PAGE * sizeof(*s->page));
	/* Release: the watch looks at ready before it looks at the arrays. */
	__atomic_store_n(&s->ready, s->wrote && s->read && s->host && s->page, __ATOMIC_RELEASE);
	return s->ready;
}

static void forget(uint32_t *a, uint64_t off, uint64_t size)
{
	rawsys3(SYS_madvise, (uint8_t *)a + off, size, MADV_DONTNEED);
}

void check_map_add(const struct vm *vm, const struct vm_mapping *m)
{
	uint64_t off = m->bo->pool_off + m->bo_off;

	if (m->bo->kind != VM_BACK_POOL)
		return;
	pthread_mutex_lock(&M.lock);
	if (!check_arrays())
		goto out;
	for (uint64_t p = off / VM_PAGE; p < (off + m->size) / VM_PAGE; p++)
		__atomic_store_n(&check.page[p].uncached, m->mtype == VM_MTYPE_UC,
				 __ATOMIC_RELAXED);
	if (M.n == M.cap) {
		size_t cap = M.cap ? 2 * M.cap : 64;
		struct map *p = realloc(M.map, cap * sizeof(*p));

		if (!p)
			goto out; /* it stays without a name */
		M.map = p;
		M.cap = cap;
	}
	M.map[M.n++] = (struct map){vm, m->start.a, m->size, off};
out:
	pthread_mutex_unlock(&M.lock);
}

void check_map_remove(const struct vm *vm, const struct vm_mapping *m)
{
	bool again = false;

	if (m->bo->kind != VM_BACK_POOL || !check.ready)
		return;
	pthread_mutex_lock(&M.lock);
	for (size_t i = 0; i < M.n; i++)
		if (M.map[i].vm == vm && M.map[i].va == m->start.a) {
			M.map[i] = M.map[--M.n];
			break;
		}
	/* The memory may be another buffer's next: what was done to it is over. */
	for (size_t i = 0; i < M.n; i++)
		again |= M.map[i].off == m->bo->pool_off + m->bo_off;
	if (!again) {
		forget(check.wrote, m->bo->pool_off + m->bo_off, m->size);
		forget(check.read, m->bo->pool_off + m->bo_off, m->size);
	}
	pthread_mutex_unlock(&M.lock);
}

bool check_map_find(uint64_t off, uint64_t *va, uint64_t *start, uint64_t *bytes)
{
	bool found = false;

	pthread_mutex_lock(&M.lock);
	for (size_t i = 0; i < M.n && !found; i++) {
		const struct map *p = &M.map[i];

		if (off - p->off >= p->size)
			continue;
		*va = p->va + (off - p->off);
		*start = p->va;
		*bytes = p->size;
		found = true;
	}
	pthread_mutex_unlock(&M.lock);
	return found;
}
