/* Page tables: a sorted array of mappings per address space, and the grace period that makes an
 * unmap final.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>

#include "vm/internal.h"
#include "vm/rawsys.h"
#include "vm/tables.h"

#define VA_LIMIT (1ull << 48)

/* ---- grace periods ------------------------------------------------------- */

static struct vm_reader *readers; /* grows only; slots are reused */
static __thread struct vm_reader *self __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;
bool vm_reader_fences;

static void reader_drop(void *p)
{
	struct vm_reader *r = p;

	self = NULL;
	__atomic_store_n(&r->taken, 0, __ATOMIC_RELEASE);
}

static void reader_once(void)
{
	pthread_key_create(&self_key, reader_drop);
	if (rawsys2(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) < 0)
		vm_reader_fences = true;
}

struct vm_reader *vm_reader_self(void)
{
	struct vm_reader *r;

	if (__builtin_expect(self != NULL, 1))
		return self;
	pthread_once(&self_once, reader_once);
	for (r = __atomic_load_n(&readers, __ATOMIC_ACQUIRE); r; r = r->next) {
		uint32_t zero = 0;

		if (__atomic_compare_exchange_n(&r->taken, &zero, 1, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			break;
	}
	if (!r) {
		r = aligned_alloc(64, sizeof(*r));
		if (!r)
			abort(); /* a thread that cannot be waited for must not pass */
		memset(r, 0, sizeof(*r));
		r->taken = 1;
		r->next = __atomic_load_n(&readers, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&readers, &r->next, r, false, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED))
			;
	}
	self = r;
	pthread_setspecific(self_key, r);
	return r;
}

void vm_grace(void)
{
	/* Pairs with the compiler barrier (or fence) in port.c:door_enter(): afterwards every
	 * thread either shows an odd seq here or sees the new generation there. */
	if (vm_reader_fences)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	else
		rawsys2(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
	for (struct vm_reader *r = __atomic_load_n(&readers, __ATOMIC_ACQUIRE); r; r = r->next) {
		uint64_t seq = __atomic_load_n(&r->seq, __ATOMIC_ACQUIRE);

		if (!(seq & 1))
			continue;
		for (unsigned tries = 0; __atomic_load_n(&r->seq, __ATOMIC_ACQUIRE) == seq;)
			raw_nap(&tries);
	}
}

void vm_readers_forked(void)
{
	/* Only the forking thread lives on; the others may have been inside an access. */
	for (struct vm_reader *r = readers; r; r = r->next) {
		if (r == self)
			continue;
		r->seq = 0;
		r->taken = 0;
	}
	/* A child does not inherit the registration. */
	if (rawsys2(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) < 0)
		vm_reader_fences = true;
}

/* ---- tables -------------------------------------------------------------- */

static uint64_t spaces;
bool vm_fragmented;
uint64_t vm_tables_limit = UINT64_MAX;

int vm_create(struct vm **out)
{
	pthread_mutexattr_t attr;
	struct vm *vm = calloc(1, sizeof(*vm));

	if (!vm)
		return -ENOMEM;
	if (vm_tables_create(&vm->tables)) {
		free(vm);
		return -ENOMEM;
	}
	pthread_once(&self_once, reader_once);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&vm->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_init(&vm->pt, NULL);
	/* Unique among all address spaces ever made: a port left over from a dead one can never
	 * take this one's translations for its own, and 0 (a fresh port) is never valid. */
	vm->generation = __atomic_add_fetch(&spaces, 1, __ATOMIC_RELAXED) << 32;
	*out = vm;
	return 0;
}

void vm_lock(struct vm *vm)
{
	pthread_mutex_lock(&vm->lock);
}

void vm_unlock(struct vm *vm)
{
	pthread_mutex_unlock(&vm->lock);
}

uint64_t vm_generation(struct vm *vm)
{
	return __atomic_load_n(&vm->generation, __ATOMIC_ACQUIRE);
}

/* Index of the first mapping that ends after va. */
static size_t lower(const struct vm *vm, uint64_t va)
{
	size_t lo = 0, hi = vm->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct vm_mapping *m = vm->map[mid];

		if (m->start.a + m->size <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void withdraw(struct vm *vm)
{
	/* Release: an access that still sees the old generation finished its look-up before. */
	__atomic_add_fetch(&vm->generation, 1, __ATOMIC_RELEASE);
}

static void watch_mapped(struct vm *vm, const struct vm_mapping *m)
{
	for (struct vm_watch *w = vm_watch_all; w; w = w->next)
		if (w->mapped)
			w->mapped(w, vm, m);
}

static void watch_unmapped(struct vm *vm, const struct vm_mapping *m)
{
	for (struct vm_watch *w = vm_watch_all; w; w = w->next)
		if (w->unmapped)
			w->unmapped(w, vm, m);
}

void vm_destroy(struct vm *vm)
{
	vm_lock(vm);
	pthread_mutex_lock(&vm->pt);
	withdraw(vm);
	size_t n = vm->n;
	vm->n = 0;
	pthread_mutex_unlock(&vm->pt);
	vm_grace();
	for (size_t i = 0; i < n; i++) {
		watch_unmapped(vm, vm->map[i]);
		vm_bo_unref(vm->map[i]->bo);
		free(vm->map[i]);
	}
	vm_tables_destroy(vm->tables);
	vm_unlock(vm);
	pthread_mutex_destroy(&vm->pt);
	pthread_mutex_destroy(&vm->lock);
	free(vm->map);
	free(vm);
}

/* An unbroken machine gives pieces of 4 MiB, the largest that its page allocator has
 * (MAX_PAGE_ORDER). A client's own pages lie anywhere. */
static uint64_t piece_of(const struct vm_bo *bo)
{
	return vm_fragmented || bo->kind == VM_BACK_USER ? VM_PAGE : 1024ull * VM_PAGE;
}

int vm_tables_reserve(struct vm *vm, uint64_t va, uint64_t size)
{
	int r;

	vm_lock(vm);
	r = vm_tables_map(vm->tables, va, size, vm_fragmented ? VM_PAGE : 1024ull * VM_PAGE);
	vm_unlock(vm);
	return r;
}

uint64_t vm_tables_of(struct vm *vm)
{
	uint64_t bytes;

	vm_lock(vm);
	bytes = vm_tables_bytes(vm->tables);
	vm_unlock(vm);
	return bytes;
}

/* For one mapping more. With the vm locked. */
static int make_room(struct vm *vm)
{
	size_t cap = vm->cap ? vm->cap * 2 : 32;
	struct vm_mapping **t;

	if (vm->n < vm->cap)
		return 0;
	pthread_mutex_lock(&vm->pt);
	t = realloc(vm->map, cap * sizeof(*t));
	if (t) {
		vm->map = t;
		vm->cap = cap;
	}
	pthread_mutex_unlock(&vm->pt);
	return t ? 0 : -ENOMEM;
}

int vm_map(struct vm *vm, gva_t va, uint64_t size, struct vm_bo *bo, uint64_t bo_off, unsigned perm,
	   enum vm_mtype mtype)
{
	struct vm_mapping *m;
	size_t at;
	int r = 0;

	if (!size || (va.a | size | bo_off) % VM_PAGE || va.a >= VA_LIMIT ||
	    size > VA_LIMIT - va.a || bo_off > bo->size || size > bo->size - bo_off)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	*m = (struct vm_mapping){
		.start = va,
		.size = size,
		.bo = bo,
		.bo_off = bo_off,
		.perm = perm,
		.mtype = mtype,
		.valid = true,
	};
	vm_lock(vm);
	at = lower(vm, va.a);
	if (at < vm->n && vm->map[at]->start.a < va.a + size) {
		r = -EINVAL;
		goto out;
	}
	r = make_room(vm);
	if (r)
		goto out;
	/* Last of what can fail: tables once made are not taken back. */
	r = vm_tables_map(vm->tables, va.a, size, piece_of(bo));
	if (r)
		goto out;
	pthread_mutex_lock(&vm->pt);
	memmove(&vm->map[at + 1], &vm->map[at], (vm->n - at) * sizeof(*vm->map));
	vm->map[at] = m;
	vm->n++;
	vm_bo_ref(bo);
	watch_mapped(vm, m);
	pthread_mutex_unlock(&vm->pt);
out:
	vm_unlock(vm);
	if (r)
		free(m);
	return r;
}

static int unmap(struct vm *vm, gva_t va, bool leaves)
{
	struct vm_mapping *m = NULL;
	size_t at;

	vm_lock(vm);
	at = lower(vm, va.a);
	if (at < vm->n && vm->map[at]->start.a == va.a) {
		m = vm->map[at];
		pthread_mutex_lock(&vm->pt);
		vm->n--;
		memmove(&vm->map[at], &vm->map[at + 1], (vm->n - at) * sizeof(*vm->map));
		withdraw(vm);
		pthread_mutex_unlock(&vm->pt);
		if (!leaves)
			vm_tables_unmap(vm->tables, m->start.a, m->size);
	}
	vm_unlock(vm);
	if (!m)
		return -EINVAL;
	vm_grace();
	watch_unmapped(vm, m);
	vm_bo_unref(m->bo);
	free(m);
	return 0;
}

int vm_unmap(struct vm *vm, gva_t va)
{
	return unmap(vm, va, false);
}

int vm_unmap_leaves(struct vm *vm, gva_t va)
{
	return unmap(vm, va, true);
}

struct vm_mapping *vm_find(struct vm *vm, gva_t va)
{
	size_t at = lower(vm, va.a);

	if (at < vm->n && vm->map[at]->start.a <= va.a)
		return vm->map[at];
	return NULL;
}

unsigned vm_user_invalidate(struct vm *vm, uint64_t addr, uint64_t size, bool valid)
{
	unsigned changed = 0;

	vm_lock(vm);
	pthread_mutex_lock(&vm->pt);
	for (size_t i = 0; i < vm->n; i++) {
		struct vm_mapping *m = vm->map[i];
		uint64_t a = m->bo->user_addr + m->bo_off;

		if (m->bo->kind != VM_BACK_USER || m->valid == valid)
			continue;
		if (a + m->size <= addr || a >= addr + size)
			continue;
		m->valid = valid;
		changed++;
	}
	if (changed && !valid)
		withdraw(vm);
	pthread_mutex_unlock(&vm->pt);
	vm_unlock(vm);
	if (changed && !valid)
		vm_grace();
	return changed;
}

bool vm_walk(struct vm *vm, uint64_t va, struct vm_tlbe *e)
{
	bool found = false;
	size_t at;

	pthread_mutex_lock(&vm->pt);
	at = lower(vm, va);
	if (at < vm->n) {
		const struct vm_mapping *m = vm->map[at];

		if (m->start.a <= va && m->valid) {
			e->start = m->start.a;
			e->end = m->start.a + m->size;
			e->host = (uint8_t *)vm_bo_kmap(m->bo) + m->bo_off;
			e->perm = m->perm;
			found = true;
		}
	}
	pthread_mutex_unlock(&vm->pt);
	return found;
}
