/* The client's mappings of device memory. */
#include "preload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"

static struct vma {
	uint64_t start, end;
	struct vma_backing b;
} *vmas; /* sorted, disjoint */
static size_t n_vmas, cap_vmas;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Envelope of all of them, read without the lock by every munmap() of the client. */
static uint64_t lowest = UINT64_MAX, highest;

static void envelope(void)
{
	__atomic_store_n(&lowest, n_vmas ? vmas[0].start : UINT64_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&highest, n_vmas ? vmas[n_vmas - 1].end : 0, __ATOMIC_RELAXED);
}

/* First one that ends behind addr. */
static size_t first_behind(uint64_t addr)
{
	size_t lo = 0, hi = n_vmas;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (vmas[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool vma_any(uint64_t addr, uint64_t len)
{
	bool hit;
	size_t i;

	if (addr >= __atomic_load_n(&highest, __ATOMIC_RELAXED) ||
	    addr + len <= __atomic_load_n(&lowest, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&lock);
	i = first_behind(addr);
	hit = i < n_vmas && vmas[i].start < addr + len;
	pthread_mutex_unlock(&lock);
	return hit;
}

bool vma_get(uint64_t addr, struct vma_backing *out)
{
	bool hit;
	size_t i;

	pthread_mutex_lock(&lock);
	i = first_behind(addr);
	hit = i < n_vmas && vmas[i].start <= addr;
	if (hit)
		*out = vmas[i].b;
	pthread_mutex_unlock(&lock);
	return hit;
}

static bool insert(size_t at, uint64_t start, uint64_t end, const struct vma_backing *b)
{
	if (n_vmas == cap_vmas) {
		size_t cap = cap_vmas ? cap_vmas * 2 : 64;
		struct vma *v = realloc(vmas, cap * sizeof(*v));

		if (!v)
			return false;
		vmas = v;
		cap_vmas = cap;
	}
	memmove(&vmas[at + 1], &vmas[at], (n_vmas - at) * sizeof(*vmas));
	vmas[at] = (struct vma){start, end, *b};
	n_vmas++;
	return true;
}

void vma_add(const struct vma_backing *b, uint64_t addr, uint64_t len)
{
	pthread_mutex_lock(&lock);
	insert(first_behind(addr), addr, addr + len, b);
	envelope();
	pthread_mutex_unlock(&lock);
	vma_opened(b, (void *)(uintptr_t)addr, len);
}

void vma_remove(uint64_t addr, uint64_t len)
{
	uint64_t end = addr + len;

	if (check_on)
		check_unmapped(addr, len);
	for (;;) {
		struct vma v;
		size_t i;

		pthread_mutex_lock(&lock);
		i = first_behind(addr);
		if (i >= n_vmas || vmas[i].start >= end) {
			pthread_mutex_unlock(&lock);
			return;
		}
		v = vmas[i];
		if (v.start < addr && v.end > end) {
			/* A hole in the middle: two mappings, two references. */
			vmas[i].end = addr;
			if (insert(i + 1, end, v.end, &v.b)) {
				vmas[i + 1].b.off += end - v.start;
				vma_split(&v.b);
			}
			envelope();
			pthread_mutex_unlock(&lock);
			return;
		}
		if (v.start < addr) {
			vmas[i].end = addr;
		} else if (v.end > end) {
			vmas[i].start = end;
			vmas[i].b.off += end - v.start;
			envelope();
			pthread_mutex_unlock(&lock);
			return;
		} else {
			memmove(&vmas[i], &vmas[i + 1], (n_vmas - i - 1) * sizeof(*vmas));
			n_vmas--;
		}
		envelope();
		pthread_mutex_unlock(&lock);
		if (v.start >= addr)
			vma_closed(&v.b, (void *)(uintptr_t)v.start, v.end - v.start);
	}
}

void vma_move(uint64_t from, uint64_t to, uint64_t len)
{
	struct vma_backing b;

	if (!vma_get(from, &b))
		return;
	/* The new one takes its reference before the old one gives its back. */
	vma_split(&b);
	pthread_mutex_lock(&lock);
	insert(first_behind(to), to, to + len, &b);
	envelope();
	pthread_mutex_unlock(&lock);
	vma_remove(from, len);
	if (check_on && b.kind == VMA_BO && b.fd == vm_pools_fd())
		check_mapped(to, len, b.off);
	if (b.kind == VMA_DOORBELL) {
		vma_opened(&b, (void *)(uintptr_t)to, len);
		kfd_vma_uncount(&b);
	}
}

void vma_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	n_vmas = 0;
	envelope();
}
