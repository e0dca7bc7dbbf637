/* A device brought up for use: kernel interface, memory and one compute queue, with one way up
 * and one way down. Also kernel-argument pools.
 */
#ifndef QUEUES_DEVICE_H
#define QUEUES_DEVICE_H

#include "kfd/kfd.h"
#include "memory/memory.h"
#include "queues/queues.h"

struct bw_device_opts {
	struct kfd_open_opts kfd;
	struct queue_opts queue;
	bool no_queue;                /* memory only */
	const struct bo_rules *rules; /* placement of every buffer; NULL: none */
};

struct bw_device {
	struct kfd *kfd;
	struct memory *memory;
	struct queue *queue;        /* NULL with no_queue */
	uint64_t available_at_open; /* bytes AVAILABLE_MEMORY gave; 0 = unknown */
};

/* 0 or -errno with one sentence in why; nothing remains on failure. opts NULL: all defaults. */
int bw_device_open(const struct bw_device_opts *opts, struct bw_device *out, char *why,
		   size_t why_len);

/* What is still alive, all zero after a clean run. The event page is the kernel's until the process
 * ends and does not count. */
struct bw_teardown {
	uint64_t queues, bos, bytes;
};
/* Destroys the queue, then memory, then closes. -EBUSY while BOs or signals of the caller are alive
 * (or the queue could not be destroyed): *d stays open for another try, t (if given) counts what is
 * left. Otherwise zeroes *d; a negative value then is what the hardware did to the queue. */
int bw_device_close(struct bw_device *d, struct bw_teardown *t);

/* Kernel arguments: one UC, host-visible BO handed out from the front. kernarg_alloc neither
 * allocates nor enters the kernel. Not thread-safe. */
struct kernarg_pool {
	struct bo *bo;
	uint64_t used, size;
};
int kernarg_pool_create(struct memory *m, uint64_t bytes, struct kernarg_pool *out);
void kernarg_pool_destroy(struct kernarg_pool *p);
/* align: power of two (16 for kernel arguments, 64 keeps them in one line). NULL when full.
 * The pointer is the GPU address too. */
void *kernarg_alloc(struct kernarg_pool *p, uint64_t bytes, uint64_t align);
void kernarg_reset(struct kernarg_pool *p); /* everything handed out before is free again */

#endif
