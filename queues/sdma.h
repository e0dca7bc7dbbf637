/* A queue of the copy engine: copy, fill, timestamp, fence.
 *
 * Commands are put into the ring by the first three and run when sdma_submit() rings. One producer;
 * waiting is for everybody. The engine may reorder nothing: commands complete in order.
 */
#ifndef QUEUES_SDMA_H
#define QUEUES_SDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"

struct kfd;
struct sdma;

#define SDMA_RING_BYTES 65536u /* unless asked otherwise */
#define SDMA_PAGE_BYTES 4096u  /* read and write pointers, fence, timestamps */

/* ring_bytes: a power of two, 4 KiB to 16 MiB; 0: SDMA_RING_BYTES. Buffers "sdma ring" and "sdma
 * queue". -EINVAL, -ENOMEM (the device has no SDMA queue left, or no memory), or the kernel's
 * errno; kfd_reason() says why. */
int sdma_create(struct kfd *kfd, struct memory *m, uint32_t ring_bytes, struct sdma **out);
/* As queue_destroy(). NULL is fine. */
int sdma_destroy(struct sdma *s);

/* Any alignment, any length; split at 2 MiB. -EAGAIN when the ring cannot hold all of it: nothing
 * was put; submit, wait, and put it again. -EINVAL: a fill that is not whole dwords. */
int sdma_copy(struct sdma *s, uint64_t dst, uint64_t src, uint64_t bytes);
int sdma_fill(struct sdma *s, uint64_t dst, uint32_t value, uint64_t bytes);
/* The GPU's counter when the commands before it are done, in one of two slots. */
int sdma_timestamp(struct sdma *s, unsigned slot);
uint64_t sdma_timestamp_get(const struct sdma *s, unsigned slot);

/* Fence, interrupt, doorbell. Returns a number that sdma_wait() takes; -EAGAIN as above. */
int64_t sdma_submit(struct sdma *s);
bool sdma_done(const struct sdma *s, int64_t submission);
/* 0: everything up to that submission is visible to the host. -ETIMEDOUT; -EFAULT: the engine met a
 * memory fault (why filled). timeout_ns 0: for ever. */
int sdma_wait(struct sdma *s, int64_t submission, uint64_t timeout_ns, char *why, size_t why_len);

#endif
