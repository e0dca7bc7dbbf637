/* The kernel boundary: one typed function per KFD ioctl.
 *
 * Every function returns 0 (or a positive value where said) or -errno, and leaves its outputs
 * untouched on failure. After a failure kfd_reason() gives, for this thread, the written reason:
 * field, value given, value wanted, the kernel's rule. All of it enters the kernel; nothing here
 * is on the per-token path.
 *
 * The kernel keeps one KFD process per address space: it outlives close(), and so do the VM bound
 * to the first render node file and the event page (amdkfd/kfd_chardev.c:kfd_release). The driver
 * therefore keeps those two for the life of the process and takes them up again at the next
 * kfd_open(). After fork the child starts anew.
 */
#ifndef KFD_H
#define KFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kfd/topology.h"
#include "kfd/uapi.h"

struct kfd;

/* ---- open ----------------------------------------------------------------- */

struct kfd_open_opts {
	const char *device;   /* NULL: /dev/kfd */
	const char *topology; /* NULL: /sys/class/kfd/kfd/topology */
	const char *render;   /* NULL: /dev/dri/renderD<drm_render_minor> */
	uint32_t gpu_id;      /* 0: the first GPU node */
};

/* Opens the device, reads the topology, binds the render node's VM, reads the apertures.
 * -errno with one sentence in why (what is missing: node, permission, group, module, version).
 * opts NULL: all defaults. */
int kfd_open(const struct kfd_open_opts *opts, struct kfd **out, char *why, size_t why_len);
/* NULL is fine. Queues, BOs and events must be gone: the kernel keeps them, not the fd. */
void kfd_close(struct kfd *k);

int kfd_fd(const struct kfd *k);        /* /dev/kfd */
int kfd_render_fd(const struct kfd *k); /* the file whose VM was acquired: mmap BOs on it */
uint32_t kfd_gpu_id(const struct kfd *k);
uint32_t kfd_minor(const struct kfd *k); /* interface 1.minor */
const struct topology_node *kfd_node(const struct kfd *k);
const struct topology *kfd_topology(const struct kfd *k);
const struct kfd_process_device_apertures *kfd_apertures(const struct kfd *k);

/* The reason of this thread's last failure; "" when there was none. */
const char *kfd_reason(void);
/* For refusals of our own, made before the kernel is asked. */
void kfd_reason_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- version, clocks, policy ------------------------------------------------ */

int kfd_version_get(int fd, uint32_t *major, uint32_t *minor);

struct kfd_clocks {
	uint64_t gpu;       /* ticks of the GPU's counter (100 MHz on gfx1151) */
	uint64_t cpu_ns;    /* CLOCK_MONOTONIC_RAW */
	uint64_t system_ns; /* CLOCK_BOOTTIME */
	uint64_t system_hz;
};
int kfd_clocks_get(struct kfd *k, struct kfd_clocks *out);
/* Fills up to n; returns the number of devices the kernel reports. */
int kfd_apertures_get(int fd, struct kfd_process_device_apertures *out, uint32_t n);
int kfd_vm_acquire(int fd, int render_fd, uint32_t gpu_id);
int kfd_memory_policy_set(struct kfd *k, uint32_t default_policy, uint32_t alternate_policy,
			  uint64_t alternate_base, uint64_t alternate_size);
int kfd_scratch_backing_set(struct kfd *k, uint64_t va);
/* tba: 256-byte aligned handler; tma: passed to it. 0, 0 removes it. Takes effect at once. */
int kfd_trap_handler_set(struct kfd *k, uint64_t tba, uint64_t tma);
/* Before the first queue of the process (-EEXIST after). ttmp_save: waves carry dispatch data. */
int kfd_runtime_enable(struct kfd *k, bool ttmp_save);
int kfd_runtime_disable(struct kfd *k);

/* ---- memory ------------------------------------------------------------------ */

/* flags: KFD_IOC_ALLOC_MEM_FLAGS_*. userptr is read only with USERPTR. mmap_offset is for the
 * render node (for DOORBELL and MMIO_REMAP: for /dev/kfd). */
int kfd_memory_alloc(struct kfd *k, uint64_t va, uint64_t size, uint32_t flags, void *userptr,
		     uint64_t *handle, uint64_t *mmap_offset);
int kfd_memory_free(struct kfd *k, uint64_t handle);
/* Map and unmap on this GPU. A map that failed half-way is undone. */
int kfd_memory_map(struct kfd *k, uint64_t handle);
int kfd_memory_unmap(struct kfd *k, uint64_t handle);
/* Bytes the kernel would still give, of all processes (kfd-wide limits): a hint. */
int kfd_memory_available(struct kfd *k, uint64_t *bytes);
/* A dma-buf of the BO: an O_CLOEXEC fd, or -errno. */
int kfd_memory_export(struct kfd *k, uint64_t handle);
/* The size of a dma-buf that this GPU's driver made. */
int kfd_dmabuf_size(struct kfd *k, int fd, uint64_t *bytes);
int kfd_memory_import(struct kfd *k, int fd, uint64_t va, uint64_t *handle);

/* ---- queues ------------------------------------------------------------------- */

/* In and out as the kernel has it; gpu_id is filled in. *a is written only on success. */
int kfd_queue_create(struct kfd *k, struct kfd_ioctl_create_queue_args *a);
/* percentage 0 or ring 0 stops the queue, keeping it. */
int kfd_queue_update(struct kfd *k, uint32_t queue_id, uint64_t ring, uint32_t ring_size,
		     uint32_t percentage, uint32_t priority);
/* 0; -ETIMEDOUT/-ETIME/-EIO: the id is gone but the hardware did not answer (consumed true);
 * other errors keep the queue. */
int kfd_queue_destroy(struct kfd *k, uint32_t queue_id, bool *consumed);
/* Of a stopped queue. The kernel writes the first four words of a save-area header to *out. */
struct kfd_wave_state {
	uint32_t control_stack_offset, control_stack_size, wave_state_offset, wave_state_size;
};
int kfd_queue_wave_state(struct kfd *k, uint32_t queue_id, struct kfd_wave_state *out,
			 uint32_t *ctl_stack_used, uint32_t *save_area_used);

/* ---- events -------------------------------------------------------------------- */

struct kfd_event {
	uint32_t id;
	uint32_t trigger;  /* what the GPU sends with the interrupt */
	uint32_t slot;     /* index into the event page; SIGNAL only */
	uint64_t *mailbox; /* &page[slot], same address for CPU and GPU; SIGNAL only, else NULL */
};
/* type: KFD_IOC_EVENT_*. The first SIGNAL event makes the event page. */
int kfd_event_create(struct kfd *k, uint32_t type, bool auto_reset, struct kfd_event *out);
int kfd_event_destroy(struct kfd *k, uint32_t id);
int kfd_event_set(struct kfd *k, uint32_t id);   /* SIGNAL only */
int kfd_event_reset(struct kfd *k, uint32_t id); /* SIGNAL only */
/* 0 complete, 1 timed out, -EINTR (timeout_ms not consumed), -EIO an event was destroyed.
 * timeout_ms 0 polls, 0xffffffff waits for ever; *left (may be NULL) gets the remaining ms. */
int kfd_events_wait(struct kfd *k, struct kfd_event_data *ev, uint32_t n, bool all,
		    uint32_t timeout_ms, uint32_t *left);

/* The event page: the kernel pins it and keeps it until the process ends. 0 before the first
 * SIGNAL event. */
struct kfd_event_page {
	uint64_t va, handle, bytes;
};
bool kfd_event_page_get(const struct kfd *k, struct kfd_event_page *out);

/* ---- SMI ----------------------------------------------------------------------- */

enum kfd_smi_id {
	KFD_SMI_VMFAULT = 1,
	KFD_SMI_THERMAL = 2,
	KFD_SMI_PRE_RESET = 3,
	KFD_SMI_POST_RESET = 4,
	KFD_SMI_MIGRATE_START = 5,
	KFD_SMI_MIGRATE_END = 6,
	KFD_SMI_PAGE_FAULT_START = 7,
	KFD_SMI_PAGE_FAULT_END = 8,
	KFD_SMI_QUEUE_EVICTION = 9,
	KFD_SMI_QUEUE_RESTORE = 10,
	KFD_SMI_UNMAP = 11,
	KFD_SMI_PROCESS_START = 12,
	KFD_SMI_PROCESS_END = 13,
};

/* One message. Fields a message does not carry are 0 and unmarked in `has`. */
enum {
	KFD_SMI_HAS_NS = 1,
	KFD_SMI_HAS_PID = 2,
	KFD_SMI_HAS_NODE = 4,
	KFD_SMI_HAS_TRIGGER = 8,
	KFD_SMI_HAS_RANGE = 16,
	KFD_SMI_HAS_SEQ = 32
};
struct kfd_smi_event {
	uint32_t id; /* also ids not in the table above */
	uint32_t has;
	uint64_t ns; /* CLOCK_BOOTTIME */
	int64_t pid;
	uint32_t node;      /* gpu_id */
	uint32_t trigger;   /* kfd_queue_eviction_trigger, ... */
	bool rescheduled;   /* QUEUE_RESTORE 'R' */
	uint64_t seq;       /* resets */
	uint64_t va, bytes; /* range of UNMAP, MIGRATE_*; va of PAGE_FAULT_* */
	char text[96];      /* the message after its id */
};
/* Opens a message stream; mask bit (id - 1). Returns an O_CLOEXEC fd, non-blocking reads. */
int kfd_smi_open(struct kfd *k, uint64_t mask);
/* Pure: one message from the bytes a read gave. Returns the bytes consumed, 0 when the text holds
 * no whole message; *ok false when a line was skipped as unreadable. */
size_t kfd_smi_parse(const char *text, size_t len, struct kfd_smi_event *out, bool *ok);

/* ---- render node ------------------------------------------------------------------ */

struct kfd_heaps { /* bytes, whole device, all processes */
	uint64_t vram_total, vram_used, gtt_total, gtt_used;
};
int kfd_heaps_get(struct kfd *k, struct kfd_heaps *out);
/* Last VM fault of our VM: page address and GCVM_L2_PROTECTION_FAULT_STATUS; -ENODATA when the
 * kernel has none, or its errno when it does not know the query. */
int kfd_fault_last(struct kfd *k, uint64_t *page, uint32_t *status);
const char *kfd_marketing_name(const struct kfd *k); /* NULL: unknown */

/* ---- reasons (pure) ------------------------------------------------------------------ */

/* What the rules need to know of the device and of our mappings. 0/NULL = unknown, except bound. */
struct kfd_facts {
	uint32_t gpu_id;
	uint32_t minor;
	bool bound; /* ACQUIRE_VM succeeded */
	uint64_t cwsr_size, ctl_stack_size, debug_size, eop_size;
	uint32_t sdma_engines;
	uint64_t gpuvm_base, gpuvm_limit;
	/* The mapping that contains va: false when there is none. NULL: not known. */
	bool (*lookup)(const void *ctx, uint64_t va, uint64_t *start, uint64_t *size);
	const void *lookup_ctx;
};
/* nr: ioctl number (AMDKFD_IOC_* & 0xff); args: its struct as passed (CREATE_QUEUE: struct
 * kfd_create_queue_args); err: positive errno. Writes one line; returns its length. */
int kfd_explain(uint32_t nr, const void *args, int err, const struct kfd_facts *f, char *text,
		size_t len);
/* memory/ tells what is mapped, so that reasons can name sizes. NULL takes it back. */
void kfd_lookup_set(struct kfd *k,
		    bool (*lookup)(const void *ctx, uint64_t va, uint64_t *start, uint64_t *size),
		    const void *ctx);

/* ---- fault words (pure) ------------------------------------------------------------- */

/* GCVM_L2_PROTECTION_FAULT_STATUS on gfx11 (amdgpu/gfxhub_v11_5_0.c). */
struct kfd_fault_status {
	bool more_faults;
	uint32_t walker_error, permission_faults;
	bool mapping_error, write, atomic;
	uint32_t client_id, vmid;
	const char *client; /* "TCP", ..., "unknown" */
};
void kfd_fault_status_decode(uint32_t status, struct kfd_fault_status *out);
/* The names of the exception bits of a queue error word ("wave trap, illegal instruction");
 * returns the length. Bits without a name are printed as numbers. */
int kfd_exception_names(uint64_t mask, char *text, size_t len);

#endif
