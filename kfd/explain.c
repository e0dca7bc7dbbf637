/* Written reasons for the kernel's refusals. Pure.
 *
 * Rules are tried in the kernel's own order, so that the first that matches is the one the kernel
 * stumbled over. What no rule of ours explains is said to be unexplained.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kfd/kfd.h"

#define NR(cmd) ((cmd) & 0xff)

struct say {
	char *text;
	size_t len, at;
	bool said;
};

static void say(struct say *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct say *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(s->text + s->at, s->len - s->at, fmt, ap);
	va_end(ap);
	s->at = s->at + (size_t)n < s->len ? s->at + (size_t)n : s->len - 1;
	s->said = true;
}

static const char *call_name(uint32_t nr)
{
	static const char *const names[] = {
		[0x01] = "GET_VERSION",
		[0x02] = "CREATE_QUEUE",
		[0x03] = "DESTROY_QUEUE",
		[0x04] = "SET_MEMORY_POLICY",
		[0x05] = "GET_CLOCK_COUNTERS",
		[0x07] = "UPDATE_QUEUE",
		[0x08] = "CREATE_EVENT",
		[0x09] = "DESTROY_EVENT",
		[0x0a] = "SET_EVENT",
		[0x0b] = "RESET_EVENT",
		[0x0c] = "WAIT_EVENTS",
		[0x11] = "SET_SCRATCH_BACKING_VA",
		[0x13] = "SET_TRAP_HANDLER",
		[0x14] = "GET_PROCESS_APERTURES_NEW",
		[0x15] = "ACQUIRE_VM",
		[0x16] = "ALLOC_MEMORY_OF_GPU",
		[0x17] = "FREE_MEMORY_OF_GPU",
		[0x18] = "MAP_MEMORY_TO_GPU",
		[0x19] = "UNMAP_MEMORY_FROM_GPU",
		[0x1b] = "GET_QUEUE_WAVE_STATE",
		[0x1f] = "SMI_EVENTS",
		[0x23] = "AVAILABLE_MEMORY",
		[0x25] = "RUNTIME_ENABLE",
	};

	return nr < sizeof(names) / sizeof(names[0]) && names[nr] ? names[nr] : "ioctl";
}

static bool power_of_two(uint64_t v)
{
	return v && !(v & (v - 1));
}

static bool wrong_gpu(struct say *s, const struct kfd_facts *f, uint32_t gpu_id)
{
	if (!f->gpu_id || gpu_id == f->gpu_id)
		return false;
	say(s, "gpu_id is %u; wanted: %u, the gpu_id of the topology", gpu_id, f->gpu_id);
	return true;
}

static bool wrong_handle(struct say *s, const struct kfd_facts *f, uint64_t handle)
{
	if (!f->gpu_id || handle >> 32 == f->gpu_id)
		return false;
	say(s,
	    "handle is 0x%" PRIx64
	    ", which names gpu_id %u in its upper half; wanted: a handle of GPU "
	    "%u (kfd_priv.h:GET_GPU_ID)",
	    handle, (uint32_t)(handle >> 32), f->gpu_id);
	return true;
}

static void not_bound(struct say *s)
{
	say(s, "the device has no VM yet; wanted: ACQUIRE_VM with a render node file first");
}

/* kfd_queue.c:kfd_queue_buffer_get: the mapping starts at the address's page and, from 4 KiB on,
 * has exactly the expected size. True when this buffer breaks the rule. */
static bool wrong_buffer(struct say *s, const struct kfd_facts *f, const char *field, uint64_t va,
			 uint64_t want)
{
	uint64_t start, size;

	if (!f->lookup)
		return false;
	if (!f->lookup(f->lookup_ctx, va, &start, &size)) {
		say(s,
		    "%s is 0x%" PRIx64 ", where nothing is mapped; wanted: its own mapping of "
		    "exactly 0x%" PRIx64 " bytes (kfd_queue.c:kfd_queue_buffer_get)",
		    field, va, want);
		return true;
	}
	if (start >> 12 != va >> 12 || (want >= 4096 && size != want)) {
		say(s,
		    "%s is 0x%" PRIx64 ", in a mapping of 0x%" PRIx64 " bytes at 0x%" PRIx64
		    "; wanted: a mapping of exactly 0x%" PRIx64 " bytes that starts in its page "
		    "(kfd_queue.c:kfd_queue_buffer_get)",
		    field, va, size, start, want);
		return true;
	}
	return false;
}

static uint64_t page_align(uint64_t v)
{
	return (v + 4095) & ~4095ull;
}

static bool wrong_ring_args(struct say *s, uint32_t percentage, uint32_t mask, uint32_t priority,
			    uint64_t ring, uint32_t ring_size, int err)
{
	if (err == EINVAL && (percentage & mask) > 100)
		say(s, "queue_percentage is %u; wanted: 0..100", percentage & mask);
	else if (err == EINVAL && priority > 15)
		say(s, "queue_priority is %u; wanted: 0..15 (KFD_MAX_QUEUE_PRIORITY)", priority);
	else if (err == EFAULT && ring >> 47)
		say(s, "ring_base_address is 0x%" PRIx64 "; wanted: a user address, below 1 << 47",
		    ring);
	else if (err == EINVAL && ring_size && !power_of_two(ring_size))
		say(s, "ring_size is %u; wanted: 0 or a power of two, in bytes", ring_size);
	return s->said;
}

static void explain_create_queue(struct say *s, const struct kfd_ioctl_create_queue_args *a,
				 int err, const struct kfd_facts *f)
{
	uint64_t ring = a->ring_size < 1024 ? 1024 : a->ring_size, area;

	if (wrong_ring_args(s, a->queue_percentage, 0xff, a->queue_priority, a->ring_base_address,
			    a->ring_size, err))
		return;
	if (err == EFAULT) {
		const struct {
			const char *name;
			uint64_t va;
		} p[] = {
			{"read_pointer_address", a->read_pointer_address},
			{"write_pointer_address", a->write_pointer_address},
			{"eop_buffer_address", a->eop_buffer_address},
			{"ctx_save_restore_address", a->ctx_save_restore_address},
		};

		for (size_t i = 0; i < 4; i++) {
			if (p[i].va >> 47) {
				say(s, "%s is 0x%" PRIx64 "; wanted: a user address, below 1 << 47",
				    p[i].name, p[i].va);
				return;
			}
		}
	}
	if (err == 524) {
		say(s,
		    "queue_type is %u; wanted: 0 (PM4), 1 (SDMA), 2 (AQL), 3 (SDMA over xGMI) or 4 "
		    "(SDMA by engine)",
		    a->queue_type);
		return;
	}
	if (err == EINVAL && wrong_gpu(s, f, a->gpu_id))
		return;
	if (err == ESRCH) {
		not_bound(s);
		return;
	}
	if (err == EINVAL && a->queue_type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID &&
	    f->sdma_engines && a->sdma_engine_id > f->sdma_engines - 1) {
		say(s, "sdma_engine_id is %u; wanted: below the %u engines of the topology",
		    a->sdma_engine_id, f->sdma_engines);
		return;
	}
	if (err == EINVAL) {
		if (wrong_buffer(s, f, "write_pointer_address", a->write_pointer_address, 4096) ||
		    wrong_buffer(s, f, "read_pointer_address", a->read_pointer_address, 4096) ||
		    /* the kernel compares whole pages; a ring below one page only has to start
		       there */
		    wrong_buffer(s, f, "ring_base_address", a->ring_base_address,
				 f->minor >= 22 ? page_align(ring + a->metadata_ring_size)
						: ring & ~4095ull))
			return;
		if (a->queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE &&
		    a->queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
			return;
		if (a->eop_buffer_address) {
			if (f->eop_size && a->eop_buffer_size < f->eop_size) {
				say(s,
				    "eop_buffer_size is %" PRIu64 "; wanted: at least %" PRIu64
				    " (kfd_queue.c)",
				    (uint64_t)a->eop_buffer_size, f->eop_size);
				return;
			}
			if (wrong_buffer(s, f, "eop_buffer_address", a->eop_buffer_address,
					 page_align(a->eop_buffer_size)))
				return;
		}
		if (f->ctl_stack_size && a->ctl_stack_size != f->ctl_stack_size) {
			say(s,
			    "ctl_stack_size is %u; wanted: exactly %" PRIu64
			    ", the ctl_stack_size of the topology (kfd_queue.c)",
			    a->ctl_stack_size, f->ctl_stack_size);
			return;
		}
		if (f->cwsr_size && a->ctx_save_restore_size < f->cwsr_size) {
			say(s,
			    "ctx_save_restore_size is %u; wanted: at least %" PRIu64
			    ", the cwsr_size of the topology (kfd_queue.c)",
			    a->ctx_save_restore_size, f->cwsr_size);
			return;
		}
		if (!a->ctx_save_restore_address) {
			say(s, "ctx_save_restore_address is 0; wanted: a save area, which every "
			       "compute "
			       "queue needs (kfd_queue.c)");
			return;
		}
		area = page_align((uint64_t)a->ctx_save_restore_size + f->debug_size);
		if (f->debug_size && wrong_buffer(s, f, "ctx_save_restore_address",
						  a->ctx_save_restore_address, area))
			return;
	}
	switch (err) {
	case ENOSPC:
		say(s, "this process has 127 queues on the device; wanted: fewer "
		       "(kfd_process_queue_manager.c:pqm_create_queue)");
		break;
	case EPERM:
		say(s,
		    "either write_pointer_address 0x%" PRIx64 " lies in userptr memory, which the "
		    "kernel cannot pin (wanted: a GTT buffer), or the device is at "
		    "amdgpu.max_num_of_queues_per_device",
		    (uint64_t)a->write_pointer_address);
		break;
	case EBUSY:
		say(s, "no doorbell is left for this process");
		break;
	case ENOMEM:
		say(s, "no queue id, SDMA queue or kernel memory is left (dmesg says which)");
		break;
	case EIO:
	case ETIME:
		say(s, "the scheduler (MES) did not take the queue; the kernel now resets the GPU");
		break;
	}
}

static void explain_update_queue(struct say *s, const struct kfd_ioctl_update_queue_args *a,
				 int err, const struct kfd_facts *f)
{
	uint64_t ring = a->ring_size < 1024 ? 1024 : a->ring_size;

	if (wrong_ring_args(s, a->queue_percentage, ~0u, a->queue_priority, a->ring_base_address,
			    a->ring_size, err))
		return;
	if (err == EFAULT && a->ring_base_address &&
	    wrong_buffer(s, f, "ring_base_address", a->ring_base_address, ring & ~4095ull))
		return;
	if (err == EFAULT)
		say(s,
		    "queue_id is %u; wanted: a live queue of this process, or the ring's mapping "
		    "is "
		    "not exactly %" PRIu64 " bytes",
		    a->queue_id, page_align(ring));
	else if (err == EACCES)
		say(s, "a queue of this process was reset on the device; wanted: none "
		       "(its queues cannot run again)");
}

static void explain_alloc(struct say *s, const struct kfd_ioctl_alloc_memory_of_gpu_args *a,
			  int err, const struct kfd_facts *f)
{
	const uint32_t types = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT |
			       KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL |
			       KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;

	switch (err) {
	case EINVAL:
		if (a->size == 0)
			say(s, "size is 0; wanted: at least 1 byte");
		else if (wrong_gpu(s, f, a->gpu_id))
			return;
		else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL &&
			 a->size != KFD_DOORBELL_BYTES)
			say(s,
			    "size is %" PRIu64
			    " with flag DOORBELL; wanted: exactly %u, the doorbell "
			    "slice of a process",
			    (uint64_t)a->size, KFD_DOORBELL_BYTES);
		else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP && a->size != 4096)
			say(s, "size is %" PRIu64 " with flag MMIO_REMAP; wanted: exactly 4096",
			    (uint64_t)a->size);
		else if (!(a->flags & types))
			say(s,
			    "flags is 0x%x, which names no kind of memory; wanted: one of VRAM, "
			    "GTT, "
			    "USERPTR, DOORBELL, MMIO_REMAP",
			    a->flags);
		else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR && !a->mmap_offset)
			say(s, "mmap_offset is 0 with flag USERPTR; wanted: the user pointer");
		else if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM && a->size < 2)
			say(s, "size is 1 with flag AQL_QUEUE_MEM; wanted: twice the bytes to map");
		break;
	case EADDRINUSE:
		say(s,
		    "va_addr 0x%" PRIx64 " + 0x%" PRIx64
		    " overlaps a range registered with the SVM "
		    "ioctl; wanted: a free range",
		    (uint64_t)a->va_addr, (uint64_t)a->size);
		break;
	case ENODEV:
		not_bound(s);
		break;
	case EFAULT:
		if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
			say(s,
			    "mmap_offset 0x%" PRIx64 " + 0x%" PRIx64
			    " is not wholly writable memory of "
			    "this process; wanted: no hole, no read-only page, no device mapping",
			    (uint64_t)a->mmap_offset, (uint64_t)a->size);
		break;
	case EOPNOTSUPP:
		say(s, "flag USERPTR in a secondary KFD process; wanted: the primary one");
		break;
	case ENOMEM:
		say(s,
		    "%" PRIu64
		    " bytes of %s exceed what is left under the kernel's limits (system, "
		    "TTM pages_limit, GTT size; AVAILABLE_MEMORY gives the tightest)",
		    (uint64_t)a->size,
		    a->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM  ? "VRAM"
		    : a->flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT ? "GTT"
							     : "memory");
		break;
	}
}

static void explain_map(struct say *s, uint64_t handle, uint32_t n_devices, uint32_t n_success,
			bool unmap, int err, const struct kfd_facts *f)
{
	if (err == EINVAL && n_devices == 0)
		say(s, "n_devices is 0; wanted: at least 1");
	else if (err == EINVAL && n_success > n_devices)
		say(s, "n_success is %u, more than n_devices %u; wanted: 0 in the first call",
		    n_success, n_devices);
	else if (err == EINVAL && wrong_handle(s, f, handle))
		return;
	else if (err == EINVAL && unmap)
		say(s, "the buffer 0x%" PRIx64 " is not mapped on this GPU; wanted: a mapped one",
		    handle);
	else if (err == EINVAL)
		say(s,
		    "the VA given at ALLOC is 0, not 4 KiB aligned, beyond 48 bits, or overlaps a "
		    "mapping of this VM (dmesg names the conflict)");
	else if (err == ENODEV)
		not_bound(s);
	else if (err == ENOMEM)
		say(s, "handle is 0x%" PRIx64 "; wanted: a live buffer%s", handle,
		    unmap ? "" : " (or no memory is left for page tables)");
	else if (err == EBUSY)
		say(s, "a queue uses the buffer; wanted: DESTROY_QUEUE first "
		       "(amdgpu_amdkfd_gpuvm.c: queue_refcount)");
}

static void explain_event(struct say *s, uint32_t nr, uint32_t id, int err)
{
	if (err != EINVAL)
		return;
	if (nr != NR(AMDKFD_IOC_DESTROY_EVENT) && id >= 0x40000000u)
		say(s,
		    "event_id is 0x%x, which is not a SIGNAL event (ids below 4096); wanted: one, "
		    "only "
		    "those can be set and reset",
		    id);
	else
		say(s, "event_id is %u; wanted: a live event of this process", id);
}

int kfd_explain(uint32_t nr, const void *args, int err, const struct kfd_facts *facts, char *text,
		size_t len)
{
	static const struct kfd_facts nothing;
	const struct kfd_facts *f = facts ? facts : &nothing;
	struct say s = {.text = text, .len = len};
	char code[32];

	if (!len)
		return 0;
	if (err == 524)
		snprintf(code, sizeof(code), "524 ENOTSUPP");
	else
		snprintf(code, sizeof(code), "%s",
			 strerrorname_np(err) ? strerrorname_np(err) : "?");
	say(&s, "%s refused (%s): ", call_name(nr), code);
	s.said = false;

	/* What every call answers alike (kfd_chardev.c:kfd_ioctl). */
	if (err == EBADF && nr != NR(AMDKFD_IOC_SMI_EVENTS)) {
		say(&s, "/dev/kfd was opened by another process (before a fork); wanted: an open "
			"of one's "
			"own");
		return (int)s.at;
	}
	if (err == ENOTTY) {
		say(&s,
		    "the kernel does not know this call; wanted: a newer KFD interface or a KFD "
		    "device at all");
		return (int)s.at;
	}

	switch (nr) {
	case NR(AMDKFD_IOC_CREATE_QUEUE):
		explain_create_queue(&s, args, err, f);
		break;
	case NR(AMDKFD_IOC_UPDATE_QUEUE):
		explain_update_queue(&s, args, err, f);
		break;
	case NR(AMDKFD_IOC_DESTROY_QUEUE): {
		const struct kfd_ioctl_destroy_queue_args *a = args;

		if (err == EINVAL)
			say(&s, "queue_id is %u; wanted: a live queue of this process",
			    a->queue_id);
		else if (err == EBUSY)
			say(&s, "a debugger holds queue %u suspended", a->queue_id);
		else if (err == ETIME || err == EIO || err == ETIMEDOUT)
			say(&s,
			    "the scheduler did not take queue %u off the hardware (hang or reset); "
			    "its "
			    "id is gone all the same",
			    a->queue_id);
		break;
	}
	case NR(AMDKFD_IOC_GET_QUEUE_WAVE_STATE): {
		const struct kfd_ioctl_get_queue_wave_state_args *a = args;

		if (err == EFAULT)
			say(&s,
			    "queue_id is %u, or ctl_stack_address 0x%" PRIx64
			    " is not writable; wanted: "
			    "a live queue and 16 writable bytes",
			    a->queue_id, (uint64_t)a->ctl_stack_address);
		else if (err == EINVAL)
			say(&s,
			    "queue %u is running, or is an SDMA queue, or context save is off; "
			    "wanted: a "
			    "stopped compute queue (UPDATE_QUEUE with queue_percentage 0)",
			    a->queue_id);
		break;
	}
	case NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU):
		explain_alloc(&s, args, err, f);
		break;
	case NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU): {
		const struct kfd_ioctl_free_memory_of_gpu_args *a = args;

		if (err == EPERM)
			say(&s,
			    "handle 0x%" PRIx64
			    " is the event page; wanted: any other, the kernel keeps "
			    "that one until the process ends",
			    (uint64_t)a->handle);
		else if (err == EBUSY)
			say(&s,
			    "buffer 0x%" PRIx64
			    " is still mapped; wanted: UNMAP_MEMORY_FROM_GPU first",
			    (uint64_t)a->handle);
		else if (err == EINVAL && !wrong_handle(&s, f, a->handle))
			say(&s, "handle is 0x%" PRIx64 "; wanted: a live buffer of this process",
			    (uint64_t)a->handle);
		break;
	}
	case NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU): {
		const struct kfd_ioctl_map_memory_to_gpu_args *a = args;

		explain_map(&s, a->handle, a->n_devices, a->n_success, false, err, f);
		break;
	}
	case NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU): {
		const struct kfd_ioctl_unmap_memory_from_gpu_args *a = args;

		explain_map(&s, a->handle, a->n_devices, a->n_success, true, err, f);
		break;
	}
	case NR(AMDKFD_IOC_ACQUIRE_VM): {
		const struct kfd_ioctl_acquire_vm_args *a = args;

		if (err == EBUSY)
			say(&s,
			    "this process already bound GPU %u to another open of the render node; "
			    "wanted: the same open file",
			    a->gpu_id);
		else if (err == EINVAL && !wrong_gpu(&s, f, a->gpu_id))
			say(&s,
			    "drm_fd %u is not an open amdgpu render node, or its VM belongs to "
			    "another KFD "
			    "process (inherited through fork?); wanted: a fresh open of the render "
			    "node",
			    a->drm_fd);
		break;
	}
	case NR(AMDKFD_IOC_CREATE_EVENT): {
		const struct kfd_ioctl_create_event_args *a = args;

		if (err == EINVAL && a->event_page_offset)
			say(&s,
			    "event_page_offset 0x%" PRIx64
			    "; wanted: the handle of a GTT buffer of at "
			    "least 32768 bytes, and no event page installed before",
			    (uint64_t)a->event_page_offset);
		else if (err == ENODEV)
			not_bound(&s);
		else if (err == ENOSPC)
			say(&s, "all 4095 signal events of the process are in use");
		else if (err == ENOMEM && a->event_type == KFD_IOC_EVENT_SIGNAL)
			say(&s, "no event page is installed, or no memory; wanted: the handle of a "
				"32 KiB GTT "
				"buffer with the first SIGNAL event");
		break;
	}
	case NR(AMDKFD_IOC_DESTROY_EVENT):
		explain_event(&s, nr, ((const struct kfd_ioctl_destroy_event_args *)args)->event_id,
			      err);
		break;
	case NR(AMDKFD_IOC_SET_EVENT):
		explain_event(&s, nr, ((const struct kfd_ioctl_set_event_args *)args)->event_id,
			      err);
		break;
	case NR(AMDKFD_IOC_RESET_EVENT):
		explain_event(&s, nr, ((const struct kfd_ioctl_reset_event_args *)args)->event_id,
			      err);
		break;
	case NR(AMDKFD_IOC_WAIT_EVENTS): {
		const struct kfd_ioctl_wait_events_args *a = args;

		if (err == ENOMEM && a->num_events > 4096)
			say(&s, "num_events is %u; wanted: at most 4096", a->num_events);
		else if (err == EINVAL)
			say(&s, "one of the %u event ids is not a live event of this process",
			    a->num_events);
		else if (err == EFAULT)
			say(&s,
			    "events_ptr 0x%" PRIx64
			    " is not %u readable and writable elements of 48 bytes",
			    (uint64_t)a->events_ptr, a->num_events);
		else if (err == EIO)
			say(&s, "an event was destroyed while being waited for");
		break;
	}
	case NR(AMDKFD_IOC_SET_MEMORY_POLICY): {
		const struct kfd_ioctl_set_memory_policy_args *a = args;

		if (err == EINVAL && a->default_policy > 1)
			say(&s, "default_policy is %u; wanted: 0 (coherent) or 1 (non-coherent)",
			    a->default_policy);
		else if (err == EINVAL && a->alternate_policy > 1)
			say(&s, "alternate_policy is %u; wanted: 0 (coherent) or 1 (non-coherent)",
			    a->alternate_policy);
		else if (err == EINVAL)
			wrong_gpu(&s, f, a->gpu_id);
		else if (err == ESRCH)
			not_bound(&s);
		break;
	}
	case NR(AMDKFD_IOC_SET_SCRATCH_BACKING_VA):
		if (err == EINVAL)
			wrong_gpu(&s, f,
				  ((const struct kfd_ioctl_set_scratch_backing_va_args *)args)
					  ->gpu_id);
		else if (err == ENODEV)
			not_bound(&s);
		break;
	case NR(AMDKFD_IOC_SET_TRAP_HANDLER):
		if (err == EINVAL)
			wrong_gpu(&s, f,
				  ((const struct kfd_ioctl_set_trap_handler_args *)args)->gpu_id);
		else if (err == ESRCH)
			not_bound(&s);
		break;
	case NR(AMDKFD_IOC_AVAILABLE_MEMORY):
		if (err == EINVAL)
			wrong_gpu(
				&s, f,
				((const struct kfd_ioctl_get_available_memory_args *)args)->gpu_id);
		break;
	case NR(AMDKFD_IOC_SMI_EVENTS):
		if (err == EINVAL)
			wrong_gpu(&s, f, ((const struct kfd_ioctl_smi_events_args *)args)->gpuid);
		else if (err == EMFILE)
			say(&s, "this process has no file descriptor left");
		break;
	case NR(AMDKFD_IOC_RUNTIME_ENABLE):
		if (err == EEXIST)
			say(&s, "this process already has queues; wanted: RUNTIME_ENABLE before "
				"the first");
		else if (err == EBUSY)
			say(&s, "the runtime is already enabled in this process; wanted: once, or "
				"disabled "
				"in between");
		break;
	case NR(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW): {
		const struct kfd_ioctl_get_process_apertures_new_args *a = args;

		if (err == EINVAL)
			say(&s, "num_of_nodes is %u; wanted: at most the number of topology nodes",
			    a->num_of_nodes);
		else if (err == EFAULT)
			say(&s,
			    "kfd_process_device_apertures_ptr 0x%" PRIx64 " is not writable for %u "
			    "elements of 56 bytes",
			    (uint64_t)a->kfd_process_device_apertures_ptr, a->num_of_nodes);
		break;
	}
	}
	if (!s.said)
		say(&s,
		    "%s; no rule known to this driver is broken by our arguments (dmesg may say "
		    "more)",
		    strerror(err));
	return (int)s.at;
}
