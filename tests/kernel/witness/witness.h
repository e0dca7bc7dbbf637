/* The kernel's own code as a witness: what its queue, event and aperture files answer.
 *
 * On one side of this interface are kfd_queue.c, kfd_events.c and kfd_flat_memory.c of Debian's
 * kernel source, compiled at test time over the small environment of shim.h; on the other a
 * program that gives the virtual device the same calls. Only plain types cross it, because both
 * sides have their own definitions of the same structures. Errors are the kernel's, negative.
 */
#ifndef TESTS_KERNEL_WITNESS_H
#define TESTS_KERNEL_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

/* ---- sizes and apertures ------------------------------------------------------------------ */

struct witness_sizes {
	uint32_t cwsr, ctl_stack, debug_memory, eop; /* bytes */
};
void witness_sizes(uint32_t cus, struct witness_sizes *out); /* of GC 11.5.1 */

struct witness_apertures {
	uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
};
/* gpuvm_size is the one input: the bytes of address space user mappings may use. */
int witness_apertures(uint64_t gpuvm_size, struct witness_apertures *out);

/* ---- queue buffers ------------------------------------------------------------------------ */

enum { WITNESS_BUFFERS = 16 };

/* A buffer mapped at va, once or (AQL) twice in a row. */
void witness_vm_clear(void);
void witness_vm_map(unsigned buffer, uint64_t va, uint64_t bytes, bool twice);

struct witness_queue {
	bool sdma, aql;
	uint64_t ring, wptr, rptr, eop, cwsr;
	uint32_t ring_bytes, eop_bytes, cwsr_bytes, ctl_stack_bytes;
};
/* Holds the buffers on success, for one queue at a time. */
int witness_queue_acquire(const struct witness_queue *q, uint32_t cus);
void witness_queue_release(void);
uint32_t witness_queue_refs(unsigned buffer);

/* ---- events ------------------------------------------------------------------------------- */

struct witness_event {
	uint64_t page_offset;
	uint32_t trigger, id, slot;
};
/* A new process; bytes is the size of the buffer that page_handle will mean, at page. */
int witness_events_start(void *page, uint64_t bytes);
uint64_t *witness_event_page(void); /* the slots, or NULL while there are none */
int witness_event_create(uint64_t page_handle, uint32_t type, bool auto_reset,
			 struct witness_event *out);
int witness_event_destroy(uint32_t id);
int witness_event_set(uint32_t id);
int witness_event_reset(uint32_t id);
/* data: n times struct kfd_event_data. Never sleeps: a wait that would has timed out. */
int witness_event_wait(void *data, uint32_t n, bool all, uint32_t *timeout_ms, uint32_t *result);
void witness_event_interrupt(uint32_t id, uint32_t valid_bits);
/* data: struct kfd_hsa_memory_exception_data */
void witness_event_vm_fault(const void *data);
void witness_event_gpu_reset(uint32_t gpu_id);

/* ---- SMI streams -------------------------------------------------------------------------- */

/* Every time in a message is this one. */
void witness_smi_time(uint64_t ns);
int witness_smi_open(int pid, bool admin); /* a client's number, or -errno */
long witness_smi_write(int client, const void *buf, unsigned long n);
long witness_smi_read(int client, void *buf, unsigned long n);
bool witness_smi_readable(int client); /* poll */
void witness_smi_close(int client);
void witness_smi_vmfault(int pid, int tgid, const char *name);
void witness_smi_evict(int pid, uint32_t gpu_id, uint32_t trigger);
void witness_smi_restore(int pid, uint32_t gpu_id);

#endif
