/* What a debugger and the process it debugs share.
 *
 * The kernel keeps it in the debugged process's kfd_process. Here every process has a device of its
 * own, so it lies in a memfd that both map: made by whoever comes first, the process itself when it
 * opens /dev/kfd, or a debugger that attaches to a process that has not done so yet.
 */
#ifndef VGPU_KFD_DBG_H
#define VGPU_KFD_DBG_H

#include "internal.h"

/* struct kfd_queue_snapshot_entry */
struct dbg_queue_snapshot {
	uint64_t exception_status, ring_base_address, write_pointer_address, read_pointer_address,
		ctx_save_restore_address;
	uint32_t queue_id, gpu_id, ring_size, queue_type, ctx_save_restore_area_size, reserved;
};
_Static_assert(sizeof(struct dbg_queue_snapshot) == 64, "kfd_queue_snapshot_entry");

struct dbg_state {
	pthread_mutex_t lock; /* shared between processes, robust; the kernel's event_mutex */
	pid_t subject;        /* the debugged process */
	uint32_t devices;     /* its GPUs; 0 before it opened /dev/kfd */
	bool enabled;
	bool gws; /* a queue of the process has GWS */
	pid_t debugger;
	int event_fd;    /* a number in the debugger's table */
	uint64_t wanted; /* exceptions the debugger subscribed to */
	uint64_t process, device;
	bool fault_known;
	struct kfd_hsa_memory_exception_data fault;
	struct kfd_runtime_info runtime;
	uint32_t waves; /* atomic, CP_DBG_*: how waves of the process begin; the device reads it */
	uint32_t flags; /* SET_FLAGS */
	uint32_t releases; /* runtime_enable_sema; a futex */
	bool retry;        /* the wait for it was interrupted */
	struct {
		bool live;
		struct dbg_queue_snapshot s;
	} queue[KFD_MAX_QUEUES_PER_PROCESS];
};

/* dbg_state_open() of internal.h makes or adopts the calling process's own: 0 or -errno. */
/* Another process's, for a debugger that traces it: *out is mapped until dbg_state_close(). create:
 * also when that process has none yet. -ESRCH no such process or nothing to debug, -EPERM not
 * traced by the calling thread. */
int dbg_state_find(pid_t pid, bool create, struct dbg_state **out);

void dbg_lock(struct dbg_state *d);
void dbg_unlock(struct dbg_state *d);
/* Writes the byte that wakes the debugger. Locked. */
void dbg_wake(const struct dbg_state *d);
/* Sleeps until the debugger releases the process: 0, or -EINTR. A debugger that is gone does not
 * hold it. */
int dbg_wait_release(struct dbg_state *d);
void dbg_release(struct dbg_state *d);

/* ---- waves and queues (dbg_waves.c), all locked ---------------------------- */

/* Debugger and runtime are both there, or no longer (kfd_dbg_trap_activate, _deactivate). */
void dbg_activate(struct dbg_state *d);
void dbg_deactivate(struct kfd_process *p, struct dbg_state *d); /* p NULL: another's */
int dbg_launch_override(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a);
int dbg_launch_mode(struct dbg_state *d, uint32_t mode);
int dbg_set_flags(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a);
/* p NULL: of another process, whose queues are out of reach. The count, or -errno. */
int dbg_suspend_queues(struct kfd_process *p, struct dbg_state *d,
		       const struct kfd_ioctl_dbg_trap_args *a);
int dbg_resume_queues(struct kfd_process *p, struct dbg_state *d,
		      const struct kfd_ioctl_dbg_trap_args *a);
/* The hardware has no watch point to give: -ENODEV of another GPU, -ENOMEM; to take back: -EINVAL. */
int dbg_address_watch(const struct dbg_state *d, uint32_t gpu_id, bool set);

#endif
