/* The submit path: neither allocates, locks nor enters the kernel. One producer per queue. */
#include <assert.h>
#include <errno.h>

#include "queues/internal.h"

uint64_t queue_read_index(const struct queue *q)
{
	/* pairs with the command processor's release when it gives slots back: a slot seen free
	 * here is no longer read there */
	return __atomic_load_n(&q->page->queue.read_dispatch_id, __ATOMIC_ACQUIRE);
}

uint64_t queue_write_index(const struct queue *q)
{
	return __atomic_load_n(&q->page->queue.write_dispatch_id, __ATOMIC_RELAXED);
}

bool queue_idle(const struct queue *q)
{
	return queue_read_index(q) >= queue_write_index(q);
}

int queue_begin(struct queue *q, uint32_t n, struct queue_batch *b)
{
	uint64_t used = q->reserved - queue_read_index(q);

	if (n > q->mask + 1 - used)
		return -ENOSPC;
	*b = (struct queue_batch){
		.q = q, .first = q->reserved, .next = q->reserved, .end = q->reserved + n};
	return 0;
}

void queue_dispatch(struct queue_batch *b, const struct aql_dispatch *d)
{
	struct queue *q = b->q;
	uint32_t slot = (uint32_t)b->next++ & q->mask;

	assert(b->next <= b->end);
	q->first_dword[slot] = aql_encode_dispatch(
		&q->ring[slot], &(struct aql_dispatch_fields){
					.kernel_object = d->kernel_object,
					.kernarg = d->kernarg,
					.completion = d->completion ? signal_va(d->completion) : 0,
					.grid = {d->grid[0], d->grid[1], d->grid[2]},
					.group = {d->group[0], d->group[1], d->group[2]},
					.private_bytes = d->private_bytes,
					.group_bytes = d->group_bytes,
					.barrier = d->barrier,
					.acquire_system = d->acquire_system,
					.release_system = d->release_system,
				});
}

void queue_barrier(struct queue_batch *b, struct signal *const deps[5], struct signal *completion)
{
	struct queue *q = b->q;
	uint32_t slot = (uint32_t)b->next++ & q->mask;
	uint64_t dep[5] = {0};

	assert(b->next <= b->end);
	for (unsigned i = 0; deps && i < 5; i++)
		dep[i] = deps[i] ? signal_va(deps[i]) : 0;
	q->first_dword[slot] =
		aql_encode_barrier_and(&q->ring[slot], dep, completion ? signal_va(completion) : 0);
}

void queue_commit(struct queue_batch *b)
{
	struct queue *q = b->q;

	if (b->next == b->first)
		return;
	/* pairs with the command processor's acquire of the header: whoever sees a header other
	 * than INVALID sees the body, and what the host wrote for the kernel before it */
	for (uint64_t i = b->first; i < b->next; i++) {
		uint32_t slot = (uint32_t)i & q->mask;

		__atomic_store_n(&q->ring[slot].dword[0], q->first_dword[slot], __ATOMIC_RELEASE);
	}
	q->reserved = b->next;
	/* pairs with the command processor's acquire of the write index after a doorbell or a
	 * re-map: all packets below it are complete */
	__atomic_store_n(&q->page->queue.write_dispatch_id, b->next, __ATOMIC_RELEASE);
	/* The doorbell is device memory, mapped uncached: it must leave after everything above. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*q->doorbell = b->next - 1;
	b->first = b->next;
}
