/* Host visibility, and who uses what. */
#include <assert.h>

#include "memory/memory_internal.h"

/* Sticky: the ledger gets them at leisure. */
static void used(struct bo *b, unsigned how)
{
	if ((atomic_load_explicit(&b->uses, memory_order_relaxed) & how) != how)
		atomic_fetch_or_explicit(&b->uses, how, memory_order_relaxed);
}

void bo_device_writes(struct bo *b, const struct bo_work *by)
{
	used(b, BO_DEVICE_WRITES);
	atomic_store_explicit(&b->dirty, true, memory_order_relaxed);
	if (BO_DEBUG)
		bo_guard_close(b, 0, b->size, false, by);
}

void bo_device_reads(struct bo *b, uint64_t offset, uint64_t bytes, const struct bo_work *by)
{
	used(b, BO_DEVICE_READS);
	if (BO_DEBUG)
		bo_guard_close(b, b->shift + offset, bytes, true, by);
}

void bo_publish(struct bo *b)
{
	if (BO_DEBUG)
		bo_guard_open(b);
	/* The acquire that makes the device's stores readable was the wait's; on this APU nothing
	 * is left to invalidate. pairs with the load in bo_published() of whichever thread reads.
	 */
	atomic_store_explicit(&b->dirty, false, memory_order_release);
}

bool bo_published(const struct bo *b)
{
	return !atomic_load_explicit(&b->dirty, memory_order_acquire);
}

const void *bo_read(const struct bo *b, uint64_t offset)
{
	assert(bo_published(b) && "host read before bo_publish()");
	/* What was done is not part of what a caller sees as constant. */
	used((struct bo *)(uintptr_t)b, BO_HOST_READS);
	return (const char *)b->host + b->shift + offset;
}

void *bo_write(struct bo *b, uint64_t offset)
{
	assert(bo_published(b) && "host write before bo_publish()");
	used(b, BO_HOST_WRITES);
	return (char *)b->host + b->shift + offset;
}

int bo_declare(struct bo *b, unsigned uses)
{
	struct memory *m = b->m;
	int rc;

	memory_lock(m);
	rc = memory_ledger_room(m, 1);
	if (rc == 0) {
		used(b, uses);
		bo_enter_uses(b);
	}
	memory_unlock(m);
	return rc;
}

unsigned bo_uses(const struct bo *b)
{
	return atomic_load_explicit(&b->uses, memory_order_relaxed);
}

int memory_enter_uses(struct memory *m)
{
	int rc;

	memory_lock(m);
	rc = memory_ledger_room(m, m->nbos);
	for (struct bo *b = m->bos; b && rc == 0; b = b->next)
		bo_enter_uses(b);
	memory_unlock(m);
	return rc;
}
