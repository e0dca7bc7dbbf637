/* The address window, buffer objects, and their accounts. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kfd/kfd.h"
#include "memory/ledger.h"
#include "memory/memory.h"
#include "memory/va.h"

/* Where BOs live, for the CPU as for the GPU: far from where Linux puts anything (mmap grows down
 * from 0x7f..., PIE at 0x55..., ASan's shadow below 0x1100_0000_0000), in the lower half that the
 * GPU can map, 1 GiB aligned. Address space only, no memory. */
#define WINDOW_BASE  0x200000000000ull
#define WINDOW_STEP  0x020000000000ull
#define WINDOW_TRIES 16

#define PAGE 4096ull

struct bo {
	struct memory *m;
	struct bo *prev, *next;
	const char *owner; /* the ledger's copy */
	uint64_t va, size, handle;
	void *host;
	uint32_t generation;
	enum bo_placement placement;
	bool in_window; /* va came from the window */
	bool cpu_mapped;
	bool gpu_mapped;
};

struct memory {
	struct kfd *kfd;
	pthread_mutex_t lock;
	struct va_space *va;
	struct ledger *ledger;
	uint64_t window, window_size;
	struct bo *bos; /* alive */
	unsigned nbos;
	uint32_t generation;
	uint64_t adopted[8];
	unsigned nadopted;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The lock is not part of what a caller sees as constant. */
static void lock(const struct memory *m)
{
	pthread_mutex_lock(&((struct memory *)(uintptr_t)m)->lock);
}

static void unlock(const struct memory *m)
{
	pthread_mutex_unlock(&((struct memory *)(uintptr_t)m)->lock);
}

/* For kfd_explain(): what the GPU has mapped at va. Also called from within bo_create() and
 * bo_destroy(), when the kernel refuses them; hence the recursive lock. */
static bool lookup(const void *ctx, uint64_t va, uint64_t *start, uint64_t *size)
{
	const struct memory *m = ctx;
	bool found = false;

	lock(m);
	for (const struct bo *b = m->bos; b && !found; b = b->next) {
		if (b->gpu_mapped && va >= b->va && va - b->va < b->size) {
			*start = b->va;
			*size = b->size;
			found = true;
		}
	}
	unlock(m);
	return found;
}

static void *reserve_cpu(uint64_t va, uint64_t size, int how)
{
	return mmap((void *)(uintptr_t)va, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
}

/* The largest window to be had: 1 TiB, less where RLIMIT_AS or the kernel says no. */
static int window_reserve(struct memory *m)
{
	for (uint64_t size = 1ull << 40; size >= 1ull << 33; size >>= 1) {
		for (unsigned i = 0; i < WINDOW_TRIES; i++) {
			uint64_t base = WINDOW_BASE + i * WINDOW_STEP;
			void *p = reserve_cpu(base, size, MAP_FIXED_NOREPLACE);

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
	rc = ledger_create(&m->ledger);
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
	pthread_mutex_lock(&m->lock);
	for (const struct bo *b = m->bos; b; b = b->next)
		fprintf(stderr, "memory: still alive: %s, %" PRIu64 " bytes at 0x%" PRIx64 "\n",
			b->owner, b->size, b->va);
	if (m->bos) {
		pthread_mutex_unlock(&m->lock);
		return -EBUSY;
	}
	pthread_mutex_unlock(&m->lock);
	kfd_lookup_set(m->kfd, NULL, NULL);
	munmap((void *)(uintptr_t)m->window, m->window_size);
	ledger_destroy(m->ledger);
	va_space_destroy(m->va);
	pthread_mutex_destroy(&m->lock);
	free(m);
	return 0;
}

static int refuse(const struct bo_desc *d, const char *rule)
{
	kfd_reason_set("buffer \"%s\" (size 0x%" PRIx64 ", align 0x%" PRIx64 ", va 0x%" PRIx64
		       ", userptr %p) refused: %s",
		       d->owner ? d->owner : "", d->size, d->align, d->va, d->userptr, rule);
	return -EINVAL;
}

static int check_desc(const struct bo_desc *d)
{
	uint64_t align = d->align ? d->align : PAGE;

	if (!d->owner || !d->owner[0])
		return refuse(d, "wanted: an owner");
	if (!d->size || d->size > 1ull << 47)
		return refuse(d, "wanted: a size of 1 byte to 128 TiB");
	if (align & (align - 1) || align < VA_ALIGN_MIN || align > VA_ALIGN_MAX)
		return refuse(d, "wanted: an alignment that is a power of two, 4 KiB to 1 GiB");
	if (d->va & (align - 1))
		return refuse(d, "wanted: a VA that is a multiple of the alignment");
	if ((d->placement == BO_USERPTR) != (d->userptr != NULL))
		return refuse(d, "wanted: userptr with placement BO_USERPTR, and only then");
	if (d->placement == BO_USERPTR &&
	    ((uintptr_t)d->userptr & (PAGE - 1) || d->size & (PAGE - 1)))
		return refuse(d, "wanted: userptr and size in whole pages");
	/* The memory is at its address already; the GPU sees it there too. */
	if (d->placement == BO_USERPTR && d->va && d->va != (uintptr_t)d->userptr)
		return refuse(d, "wanted: the VA of user memory to be its own address, or 0");
	if (d->placement == BO_DOORBELL && d->size != KFD_DOORBELL_BYTES)
		return refuse(d, "wanted: 8192 bytes, the doorbell slice of a process");
	return 0;
}

static uint32_t alloc_flags(const struct bo_desc *d)
{
	uint32_t f = 0;

	switch (d->placement) {
	case BO_GTT:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_GTT;
		break;
	case BO_VRAM:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
		if (d->host)
			f |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
		break;
	case BO_USERPTR:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
		break;
	case BO_DOORBELL:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL;
		break;
	}
	switch (d->coherence) {
	case BO_COARSE:
		break;
	case BO_UNCACHED:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
		break;
	case BO_FINE:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
		break;
	}
	if (!d->readonly)
		f |= KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	if (d->executable)
		f |= KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
	return f | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;
}

static void enter(struct memory *m, const struct bo *b, enum ledger_kind kind)
{
	ledger_enter(m->ledger, &(struct ledger_record){
					.ns = now_ns(),
					.va = b->va,
					.size = b->size,
					.handle = b->handle,
					.owner = b->owner,
					.generation = b->generation,
					.kind = kind,
				});
}

/* The CPU's view of a BO, at the GPU's address. */
static int map_cpu(struct memory *m, struct bo *b, uint64_t offset)
{
	bool doorbell = b->placement == BO_DOORBELL;
	int fd = doorbell ? kfd_fd(m->kfd) : kfd_render_fd(m->kfd);
	void *p;

	if (doorbell)
		offset = KFD_OFFSET_TYPE_DOORBELL | (uint64_t)kfd_gpu_id(m->kfd)
							    << KFD_OFFSET_GPU_ID_SHIFT;
	p = mmap((void *)(uintptr_t)b->va, b->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd, (off_t)offset);
	if (p == MAP_FAILED) {
		int rc = -errno;

		kfd_reason_set("buffer \"%s\": mmap of 0x%" PRIx64 " bytes at 0x%" PRIx64
			       " failed: %s",
			       b->owner, b->size, b->va, strerror(-rc));
		return rc;
	}
	/* A child must neither see nor copy-on-write what the GPU works on. */
	if (!doorbell)
		madvise(p, b->size, MADV_DONTFORK);
	b->host = p;
	b->cpu_mapped = true;
	return 0;
}

static void unmap_cpu(struct bo *b)
{
	void *p;

	if (!b->cpu_mapped)
		return;
	/* Back to bare reservation; only if even that fails is the address range let go. */
	p = reserve_cpu(b->va, b->size, MAP_FIXED);
	if (p == MAP_FAILED)
		munmap((void *)(uintptr_t)b->va, b->size);
	b->cpu_mapped = false;
	b->host = NULL;
}

int bo_create(struct memory *m, const struct bo_desc *d, struct bo **out)
{
	uint64_t offset = 0;
	struct bo *b;
	int rc;

	rc = check_desc(d);
	if (rc < 0)
		return rc;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->m = m;
	b->placement = d->placement;
	b->size = (d->size + PAGE - 1) & ~(PAGE - 1);

	pthread_mutex_lock(&m->lock);
	/* alloc, map, unmap, free: room for a whole life, so that giving back never fails. */
	rc = ledger_reserve(m->ledger, 4 * (m->nbos + 1));
	if (rc < 0)
		goto out_free;
	b->owner = ledger_owner(m->ledger, d->owner);
	if (!b->owner) {
		rc = -ENOMEM;
		goto out_free;
	}

	if (d->placement == BO_USERPTR) {
		b->va = (uintptr_t)d->userptr;
		b->host = d->userptr;
	} else {
		if (d->va) {
			b->va = d->va;
			rc = va_alloc_at(m->va, b->va, b->size);
		} else {
			rc = va_alloc(m->va, b->size, d->align ? d->align : PAGE, &b->va);
		}
		if (rc < 0) {
			kfd_reason_set("buffer \"%s\": no room for 0x%" PRIx64
				       " bytes at 0x%" PRIx64 " in the window 0x%" PRIx64
				       " + 0x%" PRIx64 " (%s); free 0x%" PRIx64
				       ", largest hole 0x%" PRIx64,
				       d->owner, b->size, d->va, m->window, m->window_size,
				       strerror(-rc), va_free_bytes(m->va), va_largest_hole(m->va));
			goto out_free;
		}
		b->in_window = true;
	}

	rc = kfd_memory_alloc(m->kfd, b->va, b->size, alloc_flags(d), d->userptr, &b->handle,
			      &offset);
	if (rc < 0)
		goto out_va;
	rc = kfd_memory_map(m->kfd, b->handle);
	if (rc < 0)
		goto out_kfd;
	if (d->host && d->placement != BO_USERPTR) {
		rc = map_cpu(m, b, offset);
		if (rc < 0)
			goto out_unmap;
	}
	b->gpu_mapped = true;
	b->generation = ++m->generation;
	enter(m, b, LEDGER_ALLOC);
	enter(m, b, LEDGER_MAP);
	b->next = m->bos;
	if (b->next)
		b->next->prev = b;
	m->bos = b;
	m->nbos++;
	pthread_mutex_unlock(&m->lock);
	*out = b;
	return 0;

out_unmap:
	kfd_memory_unmap(m->kfd, b->handle);
out_kfd:
	kfd_memory_free(m->kfd, b->handle);
out_va:
	if (b->in_window)
		va_free(m->va, b->va);
out_free:
	pthread_mutex_unlock(&m->lock);
	free(b);
	return rc;
}

int bo_destroy(struct bo *b)
{
	struct memory *m;
	int rc;

	if (!b)
		return 0;
	m = b->m;
	pthread_mutex_lock(&m->lock);
	if (b->gpu_mapped) {
		rc = kfd_memory_unmap(m->kfd, b->handle);
		if (rc < 0)
			goto out; /* -EBUSY: a queue holds it; nothing has changed */
		b->gpu_mapped = false;
		enter(m, b, LEDGER_UNMAP);
	}
	unmap_cpu(b);
	rc = kfd_memory_free(m->kfd, b->handle);
	if (rc < 0)
		goto out;
	enter(m, b, LEDGER_FREE);
	if (b->in_window)
		va_free(m->va, b->va);
	if (b->prev)
		b->prev->next = b->next;
	else
		m->bos = b->next;
	if (b->next)
		b->next->prev = b->prev;
	m->nbos--;
	free(b);
out:
	pthread_mutex_unlock(&m->lock);
	return rc;
}

int memory_adopt(struct memory *m, const char *owner, uint64_t va, uint64_t size, uint64_t handle)
{
	struct bo b = {.va = va, .size = size, .handle = handle};
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	for (unsigned i = 0; i < m->nadopted; i++)
		if (m->adopted[i] == handle)
			goto out;
	if (m->nadopted == sizeof(m->adopted) / sizeof(m->adopted[0])) {
		rc = -ENOSPC;
		goto out;
	}
	rc = ledger_reserve(m->ledger, 4 * (m->nbos + 1));
	if (rc < 0)
		goto out;
	b.owner = ledger_owner(m->ledger, owner);
	if (!b.owner) {
		rc = -ENOMEM;
		goto out;
	}
	b.generation = ++m->generation;
	enter(m, &b, LEDGER_ADOPT);
	m->adopted[m->nadopted++] = handle;
out:
	pthread_mutex_unlock(&m->lock);
	return rc;
}

uint64_t bo_va(const struct bo *b)
{
	return b->va;
}

uint64_t bo_size(const struct bo *b)
{
	return b->size;
}

void *bo_host(const struct bo *b)
{
	return b->host;
}

const char *bo_owner(const struct bo *b)
{
	return b->owner;
}

uint64_t bo_handle(const struct bo *b)
{
	return b->handle;
}

unsigned memory_usage(const struct memory *m, struct memory_usage *rows, unsigned n)
{
	unsigned count;

	lock(m);
	count = ledger_usage(m->ledger, rows, n);
	unlock(m);
	return count;
}

uint64_t memory_live(const struct memory *m)
{
	uint64_t v;

	lock(m);
	v = ledger_live(m->ledger);
	unlock(m);
	return v;
}

uint64_t memory_peak(const struct memory *m)
{
	uint64_t v;

	lock(m);
	v = ledger_peak(m->ledger);
	unlock(m);
	return v;
}

unsigned memory_live_count(const struct memory *m)
{
	unsigned n;

	lock(m);
	n = m->nbos;
	unlock(m);
	return n;
}

bool memory_who(const struct memory *m, uint64_t va, struct ledger_hit *out)
{
	bool found;

	lock(m);
	found = ledger_find(m->ledger, va, false, out);
	unlock(m);
	return found;
}

bool memory_near(const struct memory *m, uint64_t va, struct ledger_hit *out)
{
	bool found;

	lock(m);
	found = ledger_find(m->ledger, va, true, out);
	unlock(m);
	return found;
}

uint64_t memory_ledger(const struct memory *m, uint64_t first, struct ledger_record *out,
		       uint64_t n)
{
	uint64_t count;

	lock(m);
	count = ledger_read(m->ledger, first, out, n);
	unlock(m);
	return count;
}
