/* The address window, and the accounts of what lies in it. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "memory/memory_internal.h"

/* MEM_WINDOW is far from where Linux puts anything (mmap grows down
 * from 0x7f..., PIE at 0x55..., ASan's shadow below 0x1100_0000_0000), in the lower half that the
 * GPU can map, 1 GiB aligned. Address space only, no memory. */
#define WINDOW_STEP  0x020000000000ull
#define WINDOW_TRIES 16

uint64_t memory_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* For kfd_explain(): what the GPU has mapped at va. Also called from within bo_create() and
 * bo_destroy(), when the kernel refuses them; hence the recursive lock. */
static bool lookup(const void *ctx, uint64_t va, uint64_t *start, uint64_t *size)
{
	const struct memory *m = ctx;
	bool found = false;

	memory_lock(m);
	for (const struct bo *b = m->bos; b && !found; b = b->next) {
		if (b->gpu_mapped && va >= b->base && va - b->base < b->size) {
			*start = b->base;
			*size = b->size;
			found = true;
		}
	}
	memory_unlock(m);
	return found;
}

void *memory_reserve_cpu(uint64_t va, uint64_t size, int how)
{
	return mmap((void *)(uintptr_t)va, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
}

/* The largest window to be had: 1 TiB, less where RLIMIT_AS or the kernel says no. */
static int window_reserve(struct memory *m)
{
	for (uint64_t size = MEM_WINDOW_BYTES; size >= 1ull << 33; size >>= 1) {
		for (unsigned i = 0; i < WINDOW_TRIES; i++) {
			uint64_t base = MEM_WINDOW + i * WINDOW_STEP;
			void *p = memory_reserve_cpu(base, size, MAP_FIXED_NOREPLACE);

			if (p == MAP_FAILED)
				continue;
			/* Kernels before 4.17 take the flag for a hint. */
			if (p != (void *)(uintptr_t)base) {
				munmap(p, size);
				continue;
			}
			madvise(p, size, MADV_DONTDUMP);
			m->window = base;
			m->window_size = size;
			return 0;
		}
	}
	return -ENOMEM;
}

int memory_create(struct kfd *kfd, struct memory **out)
{
	struct memory *m = calloc(1, sizeof(*m));
	pthread_mutexattr_t attr;
	int rc;

	if (!m)
		return -ENOMEM;
	m->kfd = kfd;
	m->quarantine_end = &m->quarantine;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&m->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	rc = window_reserve(m);
	if (rc < 0)
		goto out;
	rc = va_space_create(m->window, m->window_size, &m->va);
	if (rc < 0)
		goto out;
	rc = ledger_create(kfd_gpu_id(kfd), &m->ledger);
	if (rc < 0)
		goto out;
	kfd_lookup_set(kfd, lookup, m);
	*out = m;
	return 0;
out:
	ledger_destroy(m->ledger);
	va_space_destroy(m->va);
	if (m->window)
		munmap((void *)(uintptr_t)m->window, m->window_size);
	pthread_mutex_destroy(&m->lock);
	free(m);
	return rc;
}

int memory_destroy(struct memory *m)
{
	if (!m)
		return 0;
	memory_reap(m);
	pthread_mutex_lock(&m->lock);
	for (const struct bo *b = m->bos; b; b = b->next)
		fprintf(stderr, "memory: still alive: %s, %" PRIu64 " bytes at 0x%" PRIx64 "%s\n",
			b->owner, b->size, b->base,
			b->retired ? ", given up but still in use by the device" : "");
	if (m->nscopes)
		fprintf(stderr, "memory: %u scopes are still open\n", m->nscopes);
	if (m->bos || m->nscopes) {
		pthread_mutex_unlock(&m->lock);
		return -EBUSY;
	}
	memory_quarantine_release(m, UINT64_MAX);
	pthread_mutex_unlock(&m->lock);
	kfd_lookup_set(m->kfd, NULL, NULL);
	munmap((void *)(uintptr_t)m->window, m->window_size);
	ledger_destroy(m->ledger);
	va_space_destroy(m->va);
	pthread_mutex_destroy(&m->lock);
	free(m->rules);
	free(m->limits);
	free(m);
	return 0;
}

int memory_rules_set(struct memory *m, const struct bo_rules *r)
{
	struct bo_rules *copy = NULL;

	if (r) {
		copy = malloc(sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		*copy = *r;
	}
	memory_lock(m);
	free(m->rules);
	m->rules = copy;
	m->rng = r ? r->seed : 0;
	memory_unlock(m);
	return 0;
}

const struct bo_rules *memory_rules(const struct memory *m)
{
	return m->rules;
}

int memory_limit(struct memory *m, const struct mem_limit *limits, unsigned n)
{
	struct mem_limit *copy = NULL;
	int rc = 0;

	memory_lock(m);
	if (n) {
		copy = calloc(n, sizeof(*copy));
		rc = copy ? 0 : -ENOMEM;
	}
	for (unsigned i = 0; i < n && rc == 0; i++) {
		rc = memory_ledger_room(m, 0);
		if (rc == 0)
			copy[i] = (struct mem_limit){ledger_owner(m->ledger, limits[i].owner),
						     limits[i].bytes};
		if (rc == 0 && !copy[i].owner)
			rc = -ENOMEM;
	}
	if (rc == 0) {
		free(m->limits);
		m->limits = copy;
		m->nlimits = n;
		copy = NULL;
	}
	memory_unlock(m);
	free(copy);
	return rc;
}

int memory_limit_check(const struct memory *m, const char *owner, uint64_t bytes)
{
	uint64_t live = ledger_live_of(m->ledger, owner), limit = 0;

	if (!m->nlimits)
		return 0;
	for (unsigned i = 0; i < m->nlimits; i++)
		if (m->limits[i].owner == owner)
			limit = m->limits[i].bytes;
	if (limit >= bytes && live <= limit - bytes)
		return 0;
	kfd_reason_set("buffer \"%s\" of %" PRIu64 " bytes is outside the plan: it has %" PRIu64
		       " bytes for that owner, %" PRIu64 " are taken",
		       owner, bytes, limit, live);
	return -EDQUOT;
}

int memory_ledger_room(struct memory *m, unsigned n)
{
	return ledger_reserve(m->ledger, 6 * (m->nbos + 1) + n);
}

int memory_adopt(struct memory *m, const char *owner, uint64_t va, uint64_t size, uint64_t handle)
{
	struct bo b = {.m = m, .base = va, .size = size, .asked = size, .handle = handle};
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	for (unsigned i = 0; i < m->nadopted; i++)
		if (m->adopted[i] == handle)
			goto out;
	if (m->nadopted == sizeof(m->adopted) / sizeof(m->adopted[0])) {
		rc = -ENOSPC;
		goto out;
	}
	rc = memory_ledger_room(m, 0);
	if (rc < 0)
		goto out;
	b.owner = ledger_owner(m->ledger, owner);
	if (!b.owner) {
		rc = -ENOMEM;
		goto out;
	}
	b.generation = ++m->generation;
	bo_enter(&b, LEDGER_ADOPT);
	m->adopted[m->nadopted++] = handle;
	m->adopted_bytes += size;
out:
	pthread_mutex_unlock(&m->lock);
	return rc;
}

unsigned memory_usage(const struct memory *m, struct memory_usage *rows, unsigned n)
{
	unsigned count;

	memory_lock(m);
	count = ledger_usage(m->ledger, rows, n);
	memory_unlock(m);
	return count;
}

uint64_t memory_live(const struct memory *m)
{
	uint64_t v;

	memory_lock(m);
	v = ledger_live(m->ledger);
	memory_unlock(m);
	return v;
}

uint64_t memory_peak(const struct memory *m)
{
	uint64_t v;

	memory_lock(m);
	v = ledger_peak(m->ledger);
	memory_unlock(m);
	return v;
}

unsigned memory_live_count(const struct memory *m)
{
	unsigned n;

	memory_lock(m);
	n = m->nbos;
	memory_unlock(m);
	return n;
}

bool memory_who(const struct memory *m, uint64_t va, struct ledger_hit *out)
{
	bool found;

	memory_lock(m);
	found = ledger_find(m->ledger, va, false, out);
	memory_unlock(m);
	return found;
}

bool memory_near(const struct memory *m, uint64_t va, struct ledger_hit *out)
{
	bool found;

	memory_lock(m);
	found = ledger_find(m->ledger, va, true, out);
	memory_unlock(m);
	return found;
}

uint64_t memory_ledger(const struct memory *m, uint64_t first, struct ledger_record *out,
		       uint64_t n)
{
	uint64_t count;

	memory_lock(m);
	count = ledger_read(m->ledger, first, out, n);
	memory_unlock(m);
	return count;
}

uint64_t memory_adopted(const struct memory *m)
{
	return m->adopted_bytes;
}

int memory_ledger_fd(const struct memory *m)
{
	return ledger_fd(m->ledger);
}

uint64_t memory_quarantined(const struct memory *m)
{
	uint64_t v;

	memory_lock(m);
	v = m->quarantined;
	memory_unlock(m);
	return v;
}

void memory_watch(struct memory *m, void (*fn)(void *ctx, const struct ledger_record *r), void *ctx)
{
	memory_lock(m);
	m->watch = fn;
	m->watch_ctx = ctx;
	memory_unlock(m);
}

void memory_enter(struct memory *m, const struct ledger_record *r)
{
	ledger_enter(m->ledger, r);
	if (m->watch)
		m->watch(m->watch_ctx, r);
}

int memory_place(struct bo *bo, const char *name, uint64_t va, uint64_t size, uint64_t identity)
{
	struct memory *m = bo->m;
	const char *owner;
	int rc;

	memory_lock(m);
	rc = memory_ledger_room(m, 1);
	if (rc < 0)
		goto out;
	owner = ledger_owner(m->ledger, name);
	if (!owner) {
		rc = -ENOMEM;
		goto out;
	}
	memory_enter(m, &(struct ledger_record){
				.ns = memory_now_ns(),
				.va = va,
				.size = size,
				.asked = size,
				.handle = bo->handle,
				.owner = owner,
				.generation = bo->generation,
				.kind = LEDGER_PLACE,
				.identity = identity,
			});
out:
	memory_unlock(m);
	return rc;
}
