/* What a debugger and the process it debugs share.
 *
 * The kernel keeps it in the debugged process's kfd_process. Here every process has a device of its
 * own, so it lies in a memfd that both map: made by whoever comes first, the process itself when it
 * opens /dev/kfd, or a debugger that attaches to a process that has not done so yet.
 */
#ifndef VGPU_KFD_DBG_H
#define VGPU_KFD_DBG_H

#include "internal.h"

/* What a debugger has the debugged process's own device do, where its queues and events are. */
enum dbg_call_op {
	DBG_CALL_SUSPEND,
	DBG_CALL_RESUME,
	DBG_CALL_FAULT,     /* the kept memory violation is passed on */
	DBG_CALL_EXCEPTION, /* of queue ids[0], to the runtime */
};
enum { DBG_CALL_IDLE, DBG_CALL_ASKED, DBG_CALL_TAKEN, DBG_CALL_DONE };

struct dbg_call {
	uint32_t state; /* atomic, a futex */
	pid_t server;   /* the thread that serves; 0: nobody does */
	uint32_t op;
	bool all; /* no array of ids was given */
	int result;
	uint32_t n, ids[KFD_MAX_QUEUES_PER_PROCESS];
	uint64_t mask;
};

struct dbg_state {
	pthread_mutex_t lock; /* shared between processes, robust; the kernel's event_mutex */
	pid_t subject;        /* the debugged process */
	uint32_t devices;     /* its GPUs; 0 before it opened /dev/kfd */
	bool enabled;
	bool gws; /* a queue of the process has GWS */
	pid_t debugger;
	pid_t allowed;   /* who may debug without tracing: the kernel's debugger_process */
	int event_fd;    /* a number in the debugger's table */
	uint64_t wanted; /* exceptions the debugger subscribed to */
	uint64_t process, device;
	bool fault_known;
	struct kfd_hsa_memory_exception_data fault;
	struct kfd_runtime_info runtime;
	struct cp_debug device_sees; /* how waves of the process begin, what is watched */
	uint32_t points;             /* watch points of the device that are the process's */
	uint32_t flags;              /* SET_FLAGS */
	uint32_t releases;           /* runtime_enable_sema; a futex */
	bool retry;                  /* the wait for it was interrupted */
	uint64_t births;             /* of queues */
	struct {
		bool live;
		uint64_t born; /* which of them it was, from 1 */
		struct kfd_queue_snapshot_entry s;
	} queue[KFD_MAX_QUEUES_PER_PROCESS];
	struct dbg_call call;
};

/* dbg_state_open() of internal.h makes or adopts the calling process's own: 0 or -errno. */
/* Another process's, of which pid is a thread: *out is mapped until dbg_state_close(). create: also
 * when that process has none yet, if the calling thread traces pid. -ESRCH no such process or nothing
 * to debug, -EPERM neither traced by the calling thread nor debugged by this process already. */
int dbg_state_find(pid_t pid, bool create, struct dbg_state **out);

/* The kernel's lists of queues begin with the newest. The id of the newest that is older than *born,
 * which becomes its own (~0: none before), or -1. Locked. */
int dbg_next_queue(const struct dbg_state *d, uint64_t *born);

/* Reads /proc/<pid>/<name> into buf[n], with a 0 behind it: the length, or -errno. */
long dbg_read_proc(pid_t pid, const char *name, char *buf, size_t n);

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
/* p NULL: of another process. The count, or -errno. */
int dbg_suspend_queues(struct kfd_process *p, struct dbg_state *d,
		       const struct kfd_ioctl_dbg_trap_args *a);
int dbg_resume_queues(struct kfd_process *p, struct dbg_state *d,
		      const struct kfd_ioctl_dbg_trap_args *a);
/* What both do where the queues are. ids[n] come with the invalid bit and lose it; NULL: all. */
int dbg_suspend(struct kfd_process *p, struct dbg_state *d, uint32_t *ids, uint32_t n,
		uint64_t clear);
int dbg_resume(struct kfd_process *p, uint32_t *ids, uint32_t n);
/* -ENODEV of another GPU, -ENOMEM when the device's points are all taken; to take back: -EINVAL. */
int dbg_watch_set(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a);
int dbg_watch_clear(struct dbg_state *d, const struct kfd_ioctl_dbg_trap_args *a);

/* ---- the other process's half (dbg_call.c) --------------------------------- */

/* Starts the thread that does for a debugger what only this process can. */
int dbg_serve(struct kfd_process *p);
/* Has the debugged process do op: what it answers, with ids as it leaves them (NULL: none were given).
 * Both locks held. p NULL: d is another's, whose lock is given up meanwhile; -EIO: nobody there could,
 * which the log says why. */
int dbg_call(struct kfd_process *p, struct dbg_state *d, enum dbg_call_op op, uint32_t *ids,
	     uint32_t n, uint64_t mask);
/* The debugger has ended, reaped or not. */
bool dbg_is_gone(pid_t pid);
/* Ends the session of a debugger that has ended without a word (kfd_process_notifier_release): true if
 * there was one. p NULL: of another process. Both locks held. */
bool dbg_abandoned(struct kfd_process *p, struct dbg_state *d);

#endif
