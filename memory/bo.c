/* Buffer objects: made, placed, shared, given back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/memory_internal.h"

static int refuse(const struct bo_desc *d, const char *rule)
{
	kfd_reason_set("buffer \"%s\" (size 0x%" PRIx64 ", align 0x%" PRIx64 ", va 0x%" PRIx64
		       ", userptr %p) refused: %s",
		       d->owner ? d->owner : "", d->size, d->align, d->va, d->userptr, rule);
	return -EINVAL;
}

static int check_desc(const struct bo_desc *d)
{
	uint64_t align = d->align ? d->align : BO_PAGE;

	if (!d->owner || !d->owner[0])
		return refuse(d, "wanted: an owner");
	if (!d->size || d->size > 1ull << 47)
		return refuse(d, "wanted: a size of 1 byte to 128 TiB");
	if (align & (align - 1) || align < VA_ALIGN_MIN || align > VA_ALIGN_MAX)
		return refuse(d, "wanted: an alignment that is a power of two, 4 KiB to 1 GiB");
	if (d->grain & (d->grain - 1) || d->grain > BO_PAGE)
		return refuse(d, "wanted: a grain that is a power of two up to 4 KiB");
	if (d->guard_bytes & (BO_PAGE - 1) || d->guard_bytes > 1ull << 40)
		return refuse(d, "wanted: guards of whole pages up to 1 TiB");
	if (d->va & (align - 1))
		return refuse(d, "wanted: a VA that is a multiple of the alignment");
	if (d->userptr && d->placement != BO_USERPTR)
		return refuse(d, "wanted: userptr with placement BO_USERPTR, and only then");
	if (d->userptr && ((uintptr_t)d->userptr & (BO_PAGE - 1) || d->size & (BO_PAGE - 1)))
		return refuse(d, "wanted: userptr and size in whole pages");
	/* The memory is at its address already; the GPU sees it there too. */
	if (d->userptr && d->va && d->va != (uintptr_t)d->userptr)
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

void bo_enter(const struct bo *b, enum ledger_kind kind)
{
	memory_enter(b->m,
		     &(struct ledger_record){
			     .ns = memory_now_ns(),
			     .va = b->base,
			     .size = b->size,
			     .asked = b->asked,
			     .first = kind == LEDGER_ALLOC || kind == LEDGER_IMPORT ? b->shift : 0,
			     .handle = b->handle,
			     .owner = b->owner,
			     .generation = b->generation,
			     .kind = kind,
			     .placement = (uint8_t)b->placement,
			     .coherence = (uint8_t)b->coherence,
			     .scope = (uint8_t)mem_scope_kind_of(b->scope),
			     .readonly = b->readonly,
			     .executable = b->executable,
			     .host = b->host != NULL,
			     .uses = kind == LEDGER_USE ? (uint8_t)b->uses_known : 0,
		     });
}

void bo_enter_uses(struct bo *b)
{
	unsigned uses = atomic_load_explicit(&b->uses, memory_order_relaxed);

	if (uses == b->uses_known)
		return;
	b->uses_known = uses;
	bo_enter(b, LEDGER_USE);
}

/* ---- address space -------------------------------------------------------------- */

static int window_take(struct memory *m, const struct bo_desc *d, const struct va_want *w,
		       struct bo *b)
{
	uint64_t total = w->before + w->size + w->after;
	int rc;

	if (d->va) {
		rc = va_alloc_at(m->va, d->va - w->before, total);
		b->base = d->va;
	} else {
		rc = va_alloc_placed(m->va, w, d->random ? &m->rng : NULL, &b->base);
	}
	if (rc < 0)
		return rc;
	b->range = b->base - w->before;
	b->range_size = total;
	return 0;
}

static int place(struct memory *m, const struct bo_desc *d, struct bo *b)
{
	struct va_want w;
	int rc;

	if (d->userptr) {
		b->base = (uintptr_t)d->userptr;
		b->host = d->userptr;
		return 0;
	}
	bo_want(d, &w);
	memory_quarantine_release(m, memory_now_ns());
	rc = window_take(m, d, &w, b);
	/* The quarantine is a courtesy: it ends where it would make an allocation fail. */
	while ((rc == -ENOSPC || rc == -EADDRINUSE) && m->quarantine) {
		memory_quarantine_release(m, UINT64_MAX);
		rc = window_take(m, d, &w, b);
	}
	if (rc < 0)
		kfd_reason_set("buffer \"%s\": no room for 0x%" PRIx64 " bytes at 0x%" PRIx64
			       " in the window 0x%" PRIx64 " + 0x%" PRIx64 " (%s); free 0x%" PRIx64
			       ", largest hole 0x%" PRIx64,
			       d->owner, b->size, d->va, m->window, m->window_size, strerror(-rc),
			       va_free_bytes(m->va), va_largest_hole(m->va));
	return rc;
}

void memory_quarantine_release(struct memory *m, uint64_t now)
{
	const struct bo_rules *r = m->rules;
	struct bo *b;

	while ((b = m->quarantine)) {
		bool due = now == UINT64_MAX || !r ||
			   (r->quarantine_bytes && m->quarantined > r->quarantine_bytes) ||
			   (r->quarantine_ns && now - b->freed_ns > r->quarantine_ns);

		if (!due && (r->quarantine_bytes || r->quarantine_ns))
			return;
		m->quarantine = b->next;
		if (!m->quarantine)
			m->quarantine_end = &m->quarantine;
		m->quarantined -= b->range_size;
		va_free(m->va, b->range);
		free(b);
	}
}

/* The BO is gone; its address range goes back now or later, and b with it. Needs no memory. */
static void range_return(struct bo *b)
{
	struct memory *m = b->m;

	if (!b->range_size) {
		free(b);
		return;
	}
	b->next = NULL;
	b->freed_ns = memory_now_ns();
	*m->quarantine_end = b;
	m->quarantine_end = &b->next;
	m->quarantined += b->range_size;
	memory_quarantine_release(m, b->freed_ns);
}

/* ---- the CPU's view --------------------------------------------------------------- */

/* Something that the CPU sees at the GPU's address, in place of the reservation. */
static int map_at_base(const struct bo *b, int flags, int fd, uint64_t offset)
{
	void *p = mmap((void *)(uintptr_t)b->base, b->size, PROT_READ | PROT_WRITE,
		       flags | MAP_FIXED, fd, (off_t)offset);

	if (p == MAP_FAILED) {
		int rc = -errno;

		kfd_reason_set("buffer \"%s\": mmap of 0x%" PRIx64 " bytes at 0x%" PRIx64
			       " failed: %s",
			       b->owner, b->size, b->base, strerror(-rc));
		return rc;
	}
	/* A child must neither see nor copy-on-write what the GPU works on. */
	if (b->placement != BO_DOORBELL)
		madvise(p, b->size, MADV_DONTFORK);
	return 0;
}

static int map_cpu(struct memory *m, struct bo *b, uint64_t offset)
{
	bool doorbell = b->placement == BO_DOORBELL;
	int fd = doorbell ? kfd_fd(m->kfd) : kfd_render_fd(m->kfd), rc;

	if (doorbell)
		offset = KFD_OFFSET_TYPE_DOORBELL | (uint64_t)kfd_gpu_id(m->kfd)
							    << KFD_OFFSET_GPU_ID_SHIFT;
	rc = map_at_base(b, MAP_SHARED, fd, offset);
	if (rc < 0)
		return rc;
	b->host = (void *)(uintptr_t)b->base;
	b->cpu_mapped = true;
	return 0;
}

/* Memory of the process's own where the BO will be. Before the kernel is asked: it takes what is there. */
static int make_user_memory(struct bo *b)
{
	int rc = map_at_base(b, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	b->own_memory = rc == 0;
	return rc;
}

/* Not what is the client's, nor doorbells. */
static void poison(struct bo *b, bool wanted, uint8_t byte)
{
	if (wanted && b->host && (b->cpu_mapped || b->own_memory) && b->placement != BO_DOORBELL)
		memset(b->host, byte, b->size);
}

static void unmap_cpu(struct bo *b)
{
	void *p;

	if (!b->cpu_mapped && !b->own_memory)
		return;
	/* Back to bare reservation; only if even that fails is the address range let go. */
	p = memory_reserve_cpu(b->base, b->size, MAP_FIXED);
	if (p == MAP_FAILED)
		munmap((void *)(uintptr_t)b->base, b->size);
	b->cpu_mapped = b->own_memory = false;
	b->host = NULL;
}

/* ---- making ------------------------------------------------------------------------- */

/* A BO with its owner, its account and its address; with the lock held. NULL and *rc. */
static struct bo *bo_new(struct memory *m, const struct bo_desc *d, int *rc)
{
	struct bo *b = calloc(1, sizeof(*b));
	uint64_t grain = d->grain ? d->grain : BO_PAGE;

	if (!b) {
		*rc = -ENOMEM;
		return NULL;
	}
	b->m = m;
	b->placement = d->placement;
	b->coherence = d->coherence;
	b->readonly = d->readonly;
	b->executable = d->executable;
	atomic_init(&b->uses, d->uses);
	b->asked = d->size;
	b->size = (d->size + BO_PAGE - 1) & ~(BO_PAGE - 1);
	if (d->guard & BO_GUARD_END)
		b->shift = (b->size - b->asked) & ~(grain - 1);
	/* alloc, map, uses, unmap, free: room for a whole life, so that giving back never fails. */
	*rc = memory_ledger_room(m, 0);
	if (*rc == 0) {
		b->owner = ledger_owner(m->ledger, d->owner);
		*rc = b->owner ? memory_limit_check(m, b->owner, b->size) : -ENOMEM;
	}
	if (*rc == 0)
		*rc = place(m, d, b);
	if (*rc == 0)
		return b;
	free(b);
	return NULL;
}

static void bo_live(struct bo *b, struct mem_scope *scope, enum ledger_kind kind)
{
	struct memory *m = b->m;

	b->scope = scope;
	b->gpu_mapped = true;
	b->generation = ++m->generation;
	bo_enter(b, kind);
	bo_enter(b, LEDGER_MAP);
	bo_enter_uses(b);
	b->next = m->bos;
	if (b->next)
		b->next->prev = b;
	m->bos = b;
	m->nbos++;
	if (scope)
		mem_scope_attach(scope, b);
}

static void bo_undo(struct bo *b)
{
	unmap_cpu(b);
	if (b->range_size)
		va_free(b->m->va, b->range);
	free(b);
}

int bo_create(struct memory *m, const struct bo_desc *want, struct bo **out)
{
	struct bo_desc d = *want;
	uint64_t offset = 0;
	struct bo *b;
	int rc;

	if (d.owner)
		bo_rules_apply(memory_rules(m), &d);
	rc = check_desc(&d);
	if (rc < 0)
		return rc;
	memory_lock(m);
	b = bo_new(m, &d, &rc);
	if (!b)
		goto out;
	if (d.placement == BO_USERPTR && !d.userptr) {
		rc = make_user_memory(b);
		if (rc < 0)
			goto out_bo;
		d.userptr = (void *)(uintptr_t)b->base;
		b->host = d.host ? d.userptr : NULL;
	}
	rc = kfd_memory_alloc(m->kfd, b->base, b->size, alloc_flags(&d), d.userptr, &b->handle,
			      &offset);
	if (rc < 0)
		goto out_bo;
	rc = kfd_memory_map(m->kfd, b->handle);
	if (rc < 0)
		goto out_kfd;
	if (d.host && d.placement != BO_USERPTR) {
		rc = map_cpu(m, b, offset);
		if (rc < 0)
			goto out_unmap;
	}
	if (m->rules)
		poison(b, m->rules->poison_alloc, m->rules->alloc_byte);
	bo_live(b, d.scope, LEDGER_ALLOC);
	*out = b;
	goto out;

out_unmap:
	kfd_memory_unmap(m->kfd, b->handle);
out_kfd:
	kfd_memory_free(m->kfd, b->handle);
out_bo:
	bo_undo(b);
out:
	memory_unlock(m);
	return rc;
}

int bo_destroy_locked(struct bo *b)
{
	struct memory *m = b->m;
	int rc;

	if (b->gpu_mapped) {
		rc = kfd_memory_unmap(m->kfd, b->handle);
		if (rc < 0)
			return rc; /* -EBUSY: a queue holds it; nothing has changed */
		b->gpu_mapped = false;
		bo_enter_uses(b);
		bo_enter(b, LEDGER_UNMAP);
	}
	if (BO_DEBUG)
		bo_guard_open(b);
	if (m->rules)
		poison(b, m->rules->poison_free, m->rules->free_byte);
	if (b->cpu_mapped)
		unmap_cpu(b);
	rc = kfd_memory_free(m->kfd, b->handle);
	if (rc < 0)
		return rc;
	/* After the kernel has let go of it. */
	unmap_cpu(b);
	bo_enter(b, LEDGER_FREE);
	mem_scope_detach(b);
	if (b->prev)
		b->prev->next = b->next;
	else
		m->bos = b->next;
	if (b->next)
		b->next->prev = b->prev;
	m->nbos--;
	range_return(b);
	return 0;
}

int bo_destroy(struct bo *b)
{
	struct memory *m;
	int rc;

	if (!b)
		return 0;
	m = b->m;
	memory_lock(m);
	rc = bo_destroy_locked(b);
	memory_unlock(m);
	return rc;
}

/* ---- sharing -------------------------------------------------------------------------- */

int bo_export(struct bo *b, int *fd)
{
	struct memory *m = b->m;
	int rc;

	memory_lock(m);
	rc = memory_ledger_room(m, 1);
	if (rc == 0)
		rc = kfd_memory_export(m->kfd, b->handle);
	if (rc >= 0) {
		bo_enter(b, LEDGER_EXPORT);
		*fd = rc;
		rc = 0;
	}
	memory_unlock(m);
	return rc;
}

int bo_import(struct memory *m, int fd, const struct bo_desc *want, struct bo **out)
{
	struct bo_desc d = *want;
	struct bo *b;
	int rc;

	d.placement = BO_GTT; /* where it is, its owner knows; the address is ours to choose */
	d.host = false;
	d.userptr = NULL;
	rc = kfd_dmabuf_size(m->kfd, fd, &d.size);
	if (rc < 0)
		return rc;
	if (d.owner)
		bo_rules_apply(memory_rules(m), &d);
	d.placement = BO_GTT; /* no rule moves it */
	rc = check_desc(&d);
	if (rc < 0)
		return rc;
	memory_lock(m);
	b = bo_new(m, &d, &rc);
	if (!b)
		goto out;
	rc = kfd_memory_import(m->kfd, fd, b->base, &b->handle);
	if (rc < 0)
		goto out_bo;
	rc = kfd_memory_map(m->kfd, b->handle);
	if (rc < 0)
		goto out_kfd;
	bo_live(b, d.scope, LEDGER_IMPORT);
	*out = b;
	goto out;

out_kfd:
	kfd_memory_free(m->kfd, b->handle);
out_bo:
	bo_undo(b);
out:
	memory_unlock(m);
	return rc;
}

/* ---- questions ------------------------------------------------------------------------ */

uint64_t bo_va(const struct bo *b)
{
	return b->base + b->shift;
}

uint64_t bo_base(const struct bo *b)
{
	return b->base;
}

uint64_t bo_size(const struct bo *b)
{
	return b->size - b->shift;
}

void *bo_host(const struct bo *b)
{
	return b->host ? (char *)b->host + b->shift : NULL;
}

const char *bo_owner(const struct bo *b)
{
	return b->owner;
}

uint64_t bo_handle(const struct bo *b)
{
	return b->handle;
}
