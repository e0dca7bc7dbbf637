/* The command processor: queues mapped on the (virtual) hardware, AQL packets, dispatch of
 * workgroups to workers, signals, interrupts.
 *
 * cp/ knows nothing of ioctls. kfd/ maps and unmaps queues here; cp/ reports back only through
 * the interrupt ring (cp_irq_next), drained by kfd/'s own thread, so cp/ never takes kfd/'s locks.
 */
#ifndef VGPU_CP_H
#define VGPU_CP_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/vm.h"

enum cp_queue_type { CP_PM4, CP_SDMA, CP_AQL };

/* What a debugger has set for a process's waves. It may lie in memory that the debugger shares; every
 * word is atomic by itself. */
#define CP_WATCH_POINTS 4 /* of the device (kfd_debug.c: MAX_WATCH_ADDRESSES) */
struct cp_debug {
	uint32_t waves;    /* CP_DBG_*: how they begin; read at each dispatch */
	uint32_t watching; /* bit i: point i is on */
	struct cp_watch_point {
		uint64_t addr; /* TCP_WATCHi_ADDR_H and _L */
		uint32_t cntl; /* TCP_WATCHi_CNTL */
		uint32_t pad;
	} watch[CP_WATCH_POINTS];
};
/* TCP_WATCHi_CNTL (gc_11_0_0_sh_mask.h), as amdgpu_amdkfd_gfx_v11.c fills it: the mask chooses which
 * of the address bits 29 to 7 are compared; those above are, those below are not. */
#define CP_WATCH_MASK       0x7fffffu
#define CP_WATCH_MASK_SHIFT 7
#define CP_WATCH_MODE_SHIFT 29
#define CP_WATCH_VALID      (1u << 31)
enum { CP_WATCH_READ, CP_WATCH_NONREAD, CP_WATCH_ATOMIC, CP_WATCH_ALL };

/* What the MQD carries: everything the hardware knows of a queue. */
struct cp_mqd {
	enum cp_queue_type type;
	struct vm *vm;
	void *process;     /* kfd/'s process, opaque here */
	uint32_t queue_id; /* per process */
	uint32_t doorbell; /* index (8-byte units) in the process's doorbell page */
	gva_t ring;
	uint32_t ring_bytes;
	gva_t rptr, wptr; /* addresses given at CREATE_QUEUE */
	gva_t eop;
	uint32_t eop_bytes;
	gva_t cwsr; /* save area */
	uint32_t cwsr_bytes, ctl_stack_bytes;
	uint32_t priority;
	bool masked; /* SET_CU_MASK: bit k of wgp_mask is the k-th WGP as the kernel deals them */
	uint32_t wgp_mask;
	uint64_t tba, tma; /* second-level trap handler, read at wave launch and at a trap */
	bool hangs;        /* configured: cannot be taken off */
	bool ttmp_setup;   /* RUNTIME_ENABLE: TTMPs carry dispatch information */
	uint64_t lds_base, scratch_base; /* apertures of the process */
	const struct cp_debug *debug;    /* what a debugger wants of its waves; NULL: nothing */
};

/* SPI_GDBG_PER_VMID_CNTL's fields (gc_11_0_0_sh_mask.h), as amdgpu_amdkfd_gfx_v11.c sets them, and
 * the flag that the kernel leaves in the first-level handler's memory (kfd_process.c:
 * kfd_process_set_trap_debug_flag). Read at each dispatch. */
enum {
	CP_DBG_LAUNCH_MODE_SHIFT = 1,   /* 2 bits: 0 normal, 1 halted, 3 stepping */
	CP_DBG_EXCP_EN_SHIFT = 4,       /* 9 bits: MODE.EXCP_EN */
	CP_DBG_EXCP_REPLACE = 1u << 13, /* instead of the kernel's own enables, not besides */
	CP_DBG_TRAP_ON_START = 1u << 14,
	CP_DBG_TRAP_ON_END = 1u << 15,
	CP_DBG_ATTACHED = 1u << 31,
};

struct cp_queue;

/* The process's doorbell page: 8 KiB the client stores to, device side. */
struct cp_doorbells;
int cp_doorbells_create(struct vm *vm, struct cp_doorbells **out, int *memfd, uint64_t *memfd_off);
void cp_doorbells_destroy(struct cp_doorbells *d);
/* The client mapped the page at addr (size bytes): arms the write watch on it. */
void cp_doorbells_mapped(struct cp_doorbells *d, void *addr, uint64_t size);
/* The page was mapped for the GPU, which reaches it at addr. Not watched: the thread that stores may
 * be the one that a watch would have to wake. Such rings are found by polling, with back-off. */
void cp_doorbells_device_mapped(struct cp_doorbells *d, void *addr, uint64_t size);
void cp_doorbells_unmapped(struct cp_doorbells *d, void *addr, uint64_t size);

int cp_queue_create(const struct cp_mqd *mqd, struct cp_doorbells *d, struct cp_queue **out);
void cp_queue_destroy(struct cp_queue *q); /* must be unmapped */
/* ADD_QUEUE / REMOVE_QUEUE of MES. Unmap returns when no wave of the queue runs; a dispatch in
 * flight continues at the next map, from what the save area holds then. 0 or -errno; -ETIMEDOUT: MES
 * gave up after 2.1 s of the device's clock, because a wave does not leave its trap handler or the
 * configuration says so. */
int cp_queue_map(struct cp_queue *q);
int cp_queue_unmap(struct cp_queue *q);
/* What a reset of the GPU does to a queue, mapped or not: its waves are gone and it never runs
 * again. Whoever got -ETIMEDOUT from an unmap calls this before the queue is destroyed. */
void cp_queue_reset(struct cp_queue *q);
bool cp_queue_mapped(const struct cp_queue *q);
/* Changes ring, size or priority of an unmapped queue. */
int cp_queue_update(struct cp_queue *q, const struct cp_mqd *mqd);
void cp_queue_set_trap_handler(struct cp_queue *q, uint64_t tba, uint64_t tma);
/* The four words that GET_QUEUE_WAVE_STATE reports of an unmapped compute queue: where its save
 * area holds control stack and waves (cp/cwsr.h), and how many those are. A queue without an area
 * reports an empty one. -EINVAL for a mapped queue and for SDMA. */
struct cp_wave_state {
	uint32_t control_stack_offset, control_stack_size, wave_state_offset, wave_state_size;
	uint32_t saved_waves;
};
int cp_queue_wave_state(struct cp_queue *q, struct cp_wave_state *out);

/* Waves of q that are in the machine now. */
unsigned cp_queue_waves(struct cp_queue *q);
/* Errors of this queue's packets and waves that the log describes. */
unsigned cp_queue_reports(const struct cp_queue *q);

/* ---- rings of the driver's own (ring.c) ----------------------------------- */

/* Addresses are the client's; a buffer without dwords is none. */
struct cp_ib {
	uint64_t va;
	uint32_t dwords;
};
/* Indirect buffers that are executed one after the other in one address space. The memory is the
 * caller's, who leaves it alone until it comes back from cp_ring_reap(), or until it is taken off. */
struct cp_job {
	struct cp_job *next;
	struct vm *vm;
	uint32_t number; /* queue_id of its interrupts */
	const struct cp_ib *ib;
	unsigned n_ibs;
	uint64_t *fence; /* written behind all of the job's waves, as the device sees it; or NULL */
	uint64_t fence_value;
	/* the ring's */
	unsigned at;
	bool begun;
};

/* A ring of mqd's type (CP_PM4 or CP_SDMA) and priority, for good. It needs no place among KFD's
 * queues: its own was taken before those were counted. */
int cp_ring_create(const struct cp_mqd *mqd, const char *name, struct cp_queue **out);
void cp_ring_submit(struct cp_queue *q, struct cp_job *job);
/* A job that is through, oldest first, or NULL. CP_IRQ_RING says that there may be one. */
struct cp_job *cp_ring_reap(struct cp_queue *q);
/* Ends all waves of the ring, and lets the packet processor go on. False: it stands, because of what it
 * cannot do or because it waits for memory to change. */
bool cp_ring_kill_waves(struct cp_queue *q);
/* What a reset does: jobs that are not through are the caller's again, and nothing runs until
 * cp_ring_start(). */
void cp_ring_stop(struct cp_queue *q);
void cp_ring_start(struct cp_queue *q);
/* The same for the jobs of one address space; the others go on. */
void cp_ring_drop(struct cp_queue *q, const struct vm *vm);

/* On a shared device: somebody waits for a place, or has got one. */
void cp_mes_look(void);

/* ---- interrupts ---------------------------------------------------------- */

enum cp_irq_kind {
	CP_IRQ_EVENT, /* end of pipe, s_sendmsg(INTERRUPT), SDMA trap: event id */
	CP_IRQ_VM_FAULT,
	CP_IRQ_QUEUE_ERROR, /* packet or wave exception: code = KFD exception code (EC_*) */
	CP_IRQ_RING,        /* a job of a ring is through */
};

struct cp_irq {
	enum cp_irq_kind kind;
	void *process;
	struct cp_queue *ring; /* of the driver's own; then there is no process */
	uint32_t queue_id;
	uint32_t event_id;     /* EVENT */
	uint32_t code;         /* QUEUE_ERROR */
	struct vm_fault fault; /* VM_FAULT */
	char text[240];        /* human report: disassembly, PC, packet dump; may be empty */
};

/* Blocks until an interrupt is there; false once cp_stop() was called. */
bool cp_irq_next(struct cp_irq *out);
/* Waits until what was posted before the call is served: the thread that took it out asked for the
 * next one, or for the end. False: not within patience, in ns. */
bool cp_irq_drain(uint64_t patience);
/* What waits there for a process that ends is nobody's. */
void cp_irq_forget(const void *process);

/* Starts/stops the device's threads (one CP thread, workers). Lazy: the first mapped queue
 * starts them. All signals are blocked in them. After fork, the child starts its own. */
int cp_start(unsigned workers);
void cp_stop(void);

/* What ran, for the fidelity report and for tests. */
struct cp_stats {
	uint64_t packets, dispatches, groups, waves, insns, approximated, faults, unsupported;
	uint64_t missing_waits; /* times that a wave used a register before it waited for it */
	uint64_t switches;      /* of queues that share places */
	uint64_t saved_waves;   /* by preemption, each time it was */
};
void cp_stats(struct cp_stats *out);

#endif
