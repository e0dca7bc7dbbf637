/* AQL compute queues, signals, and the submit path.
 *
 * Creation executes a queue_plan (pure data from topology). The submit path writes 64-byte
 * packets: body, then header with release, then write index with release, then one doorbell
 * store per batch; it neither allocates, locks nor enters the kernel.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kfd;
struct memory;
struct queue;
struct signal;

/* Sizes the kernel demands, all in bytes (kfd_queue.c). queue_plan_compute() is pure. */
struct queue_plan_in {
	uint32_t gfx_target_version; /* 110501 */
	uint32_t simd_count, simd_per_cu, num_xcc;
	uint64_t cwsr_size, ctl_stack_size; /* from topology; 0 = the kernel does not say */
	uint32_t ring_packets;              /* power of two, >= 64 */
};
struct queue_plan {
	uint64_t ring_bytes, eop_bytes, ctl_stack_bytes, wg_data_bytes, cwsr_bytes, debug_bytes,
		area_bytes;
	uint32_t cus, waves;
	bool from_topology;     /* cwsr/ctl sizes are the kernel's own */
	bool formula_disagrees; /* both known and different: report both */
	uint64_t formula_cwsr, formula_ctl;
};
int queue_plan_compute(const struct queue_plan_in *in, struct queue_plan *out);

struct queue_opts {
	uint32_t ring_packets;       /* 0 = 1024 */
	uint32_t priority;           /* 0..15, 0 = 7 */
	uint32_t scratch_lane_bytes; /* static scratch for the worst kernel; 0 = handshake on demand
				      */
};
/* Also, with the first queue of a device: fault events, RUNTIME_ENABLE, the trap handler. On
 * failure nothing remains; kfd_reason() says why. o NULL: all defaults. */
int queue_create(struct kfd *kfd, struct memory *m, const struct queue_opts *o, struct queue **out);
/* 0; a negative value for which queue_gone() holds: the hardware did not answer, the queue is gone
 * all the same; any other: the queue is still there. NULL is fine. */
int queue_destroy(struct queue *q);
bool queue_gone(int rc);

/* 64 bytes in UC memory and one interrupt event. Signals may outlive their queue; all must be
 * destroyed before memory_destroy(). */
int signal_create(struct queue *q, int64_t initial, struct signal **out);
void signal_destroy(struct signal *s);
void signal_set(struct signal *s, int64_t value); /* host, before submission */
int64_t signal_load(const struct signal *s);      /* acquire */

/* Why a wait ended early. */
enum queue_fault_kind {
	QUEUE_FAULT_NONE,
	QUEUE_FAULT_MEMORY, /* the GPU touched an address it may not */
	QUEUE_FAULT_HW,     /* the GPU was reset */
	QUEUE_FAULT_PACKET, /* the command processor refused a packet */
	QUEUE_FAULT_WAVE,   /* a wave stopped: trap, abort, illegal instruction */
};
struct queue_fault {
	enum queue_fault_kind kind;
	uint64_t va; /* MEMORY: page address */
	bool not_present, read_only;
	uint64_t reason; /* PACKET, WAVE: the queue error word, bit (exception code - 1) */
	char text[256];  /* one line for a person: buffer, offset, direction */
};

/* Waits until the signal's value is < `below`: a short bounded spin, then KFD WAIT_EVENTS on the
 * signal's event together with the memory- and hardware-exception events and the queue's error
 * event. 0; -ETIMEDOUT; -EFAULT when the queue faulted (fault filled), also when the signal is
 * below all the same. timeout_ns 0 = for ever.
 * Returning 0 is the acquire that publishes device writes to the host. */
int signal_wait(struct queue *q, struct signal *s, int64_t below, uint64_t timeout_ns,
		struct queue_fault *fault);

/* One producer per queue: begin, dispatch, barrier and commit of one queue are not for several
 * threads at once. Waiting is.
 *
 * A batch of packets written into the ring but not yet visible; commit rings once. */
struct queue_batch {
	struct queue *q;
	uint64_t first, next; /* packet indices */
	uint64_t end;         /* as many as queue_begin was asked for */
};
struct aql_dispatch {
	uint64_t kernel_object; /* VA of the kernel descriptor */
	uint64_t kernarg;       /* VA */
	uint32_t grid[3];       /* work-items */
	uint16_t group[3];
	uint32_t private_bytes, group_bytes;
	struct signal *completion;           /* NULL: none */
	bool barrier;                        /* wait for earlier packets */
	bool acquire_system, release_system; /* else agent scope */
};
/* -ENOSPC when fewer than n free slots (never blocks). The batch may hold fewer than n packets at
 * commit. */
int queue_begin(struct queue *q, uint32_t n, struct queue_batch *b);
void queue_dispatch(struct queue_batch *b, const struct aql_dispatch *d);
/* Barrier-AND packet on up to five signals. */
void queue_barrier(struct queue_batch *b, struct signal *const deps[5], struct signal *completion);
void queue_commit(struct queue_batch *b);

uint32_t queue_id(const struct queue *q);
uint64_t queue_va(const struct queue *q); /* of its amd_queue_t: hidden_queue_ptr */
const struct queue_plan *queue_plan_of(const struct queue *q);
uint64_t queue_read_index(const struct queue *q);  /* acquire; packets consumed */
uint64_t queue_write_index(const struct queue *q); /* packets submitted */
/* Whether traps and aborts of waves are reported; false with firmware that cannot. */
bool queue_traps_reported(const struct queue *q);
bool queue_idle(const struct queue *q);     /* everything submitted was consumed */
uint64_t signal_va(const struct signal *s); /* the amd_signal_t, for packets built by hand */

#endif
