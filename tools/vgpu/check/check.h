/* The visibility checker: host accesses that come before publication, by name.
 *
 * On with check = visibility (VGPU_SET). Then every wave is interpreted and every access takes the
 * long way through the door, where a watch notes per dword which dispatch last read and wrote it.
 * The client's mappings of buffers are registered with a userfaultfd: whenever a doorbell rings,
 * all of them are closed while the ringing thread stands still in its store, so the first access
 * to each page after that stops in the kernel and is looked at, with its address and instruction.
 * docs/virtual-device.md says what is found, what cannot be, and how fine it looks.
 *
 * Time is counted in rings of doorbells. A dispatch is submitted at a ring, completes when its last
 * workgroup has ended, and is seen when the host reads a page that the command processor has
 * written since then (a signal, a read pointer, a fence, an event slot), or is told by WAIT_EVENTS.
 */
#ifndef VGPU_CHECK_H
#define VGPU_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/vm.h"

extern bool check_on;
/* Looks at the configuration; once, before any address space exists, after count_init(). */
void check_init(void);
/* Forgets everything: the parent's work is the parent's. */
void check_forked(void);
/* Lets everybody go and writes the report (VGPU_CHECK=FILE). */
void check_finish(void);

/* ---- the client's mappings ----------------------------------------------- */

/* [addr, addr + len) of the client now shows the pool's memfd from pool_off on. */
void check_mapped(uint64_t addr, uint64_t len, uint64_t pool_off);
void check_unmapped(uint64_t addr, uint64_t len);
/* The kernel side reads what the client has at addr, past its mappings: a page that opens for it is open
 * to the client too, who may see there what nobody sees it look at. False: it is none of theirs. */
bool check_read(uint64_t addr, void *to, size_t n);

/* ---- submission ---------------------------------------------------------- */

#define CHECK_RINGS 64u
/* Which packets came with which ring; of one queue, under its lock. */
struct check_queue {
	uint64_t wptr[CHECK_RINGS];
	uint32_t ring[CHECK_RINGS];
	unsigned n; /* ever */
};
/* A doorbell is being rung: the thread that rings waits. Closes all pages. */
void check_ring(void);
/* The queue's write pointer at a ring. */
void check_submitted(struct check_queue *q, uint64_t wptr);
/* The same whenever the device looks. What came without a ring that stopped is a ring now. */
void check_looked(struct check_queue *q, uint64_t wptr);

/* ---- work ---------------------------------------------------------------- */

enum check_work_kind { CHECK_AQL, CHECK_PM4, CHECK_SDMA };
struct check_launch {
	enum check_work_kind kind;
	struct vm *vm;
	uint32_t queue;
	uint64_t index;                /* packet; PM4: dword, SDMA: byte of the ring */
	uint64_t kernel_object, entry; /* 0: none */
	const char *packet;            /* SDMA: its name, static */
};
/* Numbers the work from 1; 0 without memory (then it is not checked). */
uint32_t check_begin(const struct check_queue *q, const struct check_launch *l);
/* What the calling thread does from now on, it does for this work; 0: for itself. */
void check_enter(uint32_t work);
/* All its accesses are done, and nobody was told yet. */
void check_complete(uint32_t work, bool release_system);
/* A packet's fences of system scope. */
void check_acquire(const struct check_queue *q, uint64_t index);
void check_release(void);
/* A queue is gone: what it had under way never completes, and touches nothing any more. */
void check_queue_gone(uint32_t queue);

/* The command processor raises an event; WAIT_EVENTS returned because of it. */
void check_event(uint32_t id);
void check_event_seen(uint32_t id);

#endif
