/* Shared by the files of cp/ only.
 *
 * Who runs what
 *   CP thread   watches doorbells, polls what blocked queues wait for, runs queues.
 *   workers     run workgroups; the one that ends a dispatch completes it and runs the queue on,
 *               so a chain of dispatches needs no hand-over between threads.
 * A queue's packet state belongs to whoever holds q->lock. The run list and the counters marked
 * [S] belong to the scheduler's lock, taken inside q->lock, never around it.
 */
#ifndef VGPU_CP_INTERNAL_H
#define VGPU_CP_INTERNAL_H

#include <pthread.h>

#include "check/check.h"
#include "count/count.h"
#include "cp/cp.h"
#include "device.h"
#include "isa/isa.h"
#include "isa/jit.h"

/* KFD exception codes (kfd_ioctl.h: kfd_dbg_trap_exception_code). */
enum {
	EC_WAVE_ILLEGAL = 4,
	EC_WAVE_APERTURE = 6,
	EC_DIM_INVALID = 16,
	EC_GROUP_SEGMENT = 17,
	EC_CODE_INVALID = 18,
	EC_PACKET_RESERVED = 19,
	EC_PACKET_UNSUPPORTED = 20,
	EC_GROUP_SIZE = 21,
	EC_REGISTER = 22,
	EC_VENDOR_UNSUPPORTED = 23,
};

/* Dispatches of one queue that may be in flight at once, and packets that may wait for their
 * turn to retire. */
#define CP_WINDOW         16
#define CP_MES_TIMEOUT_NS 2100000000ull /* amdgpu/mes_v11_0.c: 2.1 s */
#define CP_MAX_WAVES      32            /* 1024 work-items in wave32 */
#define CP_LDS_BYTES      (64u << 10)   /* of a CU */
#define CP_DOORBELL_IDLE  (~0ull)

/* Where a workgroup is in the machine (place.c) [S]. */
struct cp_place {
	bool held, shared; /* shared: in the books of several processes */
	uint8_t wgp, half, wg;
	uint8_t seat[CP_MAX_WAVES]; /* SIMD [5:4], wave slot [3:0] */
};

struct isa_group {
	struct isa_group *next;
	struct cp_dispatch *d;
	uint64_t index;        /* linear workgroup number */
	unsigned nwaves, live; /* live: not ended */
	unsigned visits;
	uint32_t spinning; /* waves whose last turn did little but read one word again and again */
	uint64_t insns;
	uint8_t *lds, *waves; /* arenas, kept from group to group */
	size_t lds_cap, waves_cap, stride;
	uint16_t scratch_slot[CP_MAX_WAVES];
	struct cp_place at;
	struct count_wave count[CP_MAX_WAVES];
};

static inline struct isa_wave *group_wave(const struct isa_group *g, unsigned i)
{
	return (struct isa_wave *)(g->waves + i * g->stride);
}

/* One dispatch: everything its workgroups need, copied out of packet and descriptor. */
struct cp_dispatch {
	struct cp_queue *q;
	struct vm *vm;
	uint64_t index;         /* packet index; AQL's dispatch id */
	uint64_t packet;        /* VA of the packet */
	uint64_t kernel_object; /* 0: PM4 */
	uint64_t entry, kernarg, signal;
	bool release_system;
	uint32_t grid[3], ngroups[3];
	uint32_t wg[3];
	uint32_t rsrc1, rsrc2, rsrc3;
	bool wave64, ttmp_setup;
	uint32_t debug; /* CP_DBG_*, as of its begin */
	uint32_t nvgpr, lds_bytes;
	uint32_t waves_full; /* of a whole workgroup */
	uint32_t regs;       /* of a SIMD's file, by one wave */
	bool wgp_mode;
	uint64_t tba, tma, lds_aperture, scratch_aperture;
	uint32_t user_sgprs;
	uint32_t user[32];
	/* scratch: wave_bytes 0 = none */
	uint64_t scratch_base;
	uint32_t scratch_wave_bytes, scratch_slots, scratch_per_se;
	uint64_t start_ts;
	struct jit_kernel *jit; /* NULL: interpret */
	struct count_dispatch *count;
	uint32_t check; /* its number there, 0 none */
	bool active;
	/* [S] */
	bool listed;
	struct cp_dispatch *link;
	uint64_t total, next, done;
	struct isa_group *saved; /* preempted, can run on */
	struct isa_group *stuck; /* every live wave is halted */
};

struct cp_window {
	bool used, done;
};

/* What a ring of the driver's own has besides (ring.c), under the queue's lock. */
struct cp_ring {
	const char *name;
	struct cp_job *jobs, **tail; /* the first is being executed */
	struct cp_job *over, **over_tail;
	uint32_t number; /* of the job that began last */
	bool open;       /* SDMA: in the middle of a buffer */
	bool stuck;      /* the packet processor has met what it cannot do */
};

struct cp_queue {
	pthread_mutex_t lock;
	struct cp_queue *link; /* engine's list of all queues */
	struct cp_mqd mqd;
	struct cp_doorbells *db;
	struct vm_port port; /* CPF, or the SDMA engine */
	bool mapped, failed;
	bool preempt;               /* atomic: workers put this queue's groups away */
	bool killed;                /* atomic: by a reset; not even trap handlers go on */
	bool in_handler;            /* atomic: only trap handlers keep it from being taken off */
	bool in_area;               /* waves are in the save area, not here */
	struct cp_wave_state saved; /* where, as of the last time the queue was taken off */
	bool rung;                  /* doorbell seen (or just mapped): write pointer wants a look */
	bool poll;                  /* waits for memory to change */
	uint32_t poll_ns;           /* current back-off */
	uint64_t next, rptr, wptr;  /* packets (AQL), dwords (PM4), bytes (SDMA) */
	struct check_queue check;
	struct cp_window window[CP_WINDOW];
	struct cp_dispatch dispatch[CP_WINDOW];
	unsigned in_flight; /* active dispatches */
	unsigned running;   /* [S] groups on workers, completions included */
	/* AQL */
	uint64_t amd_queue; /* VA of amd_queue_t once its fields were checked, else 0 */
	uint32_t properties;
	uint64_t inactive_signal;
	unsigned reports; /* atomic: errors described in the log, the first also on the terminal */
	bool scratch_wait;
	/* scratch slots in use by resident waves of this queue [S] */
	uint64_t scratch_map[64];
	unsigned waves; /* resident */
	/* mes.c, under its lock but for resident, which is written under both */
	bool resident; /* on the hardware */
	uint8_t hqd, vmid;
	uint64_t turns, turns_before; /* atomic: visits of its groups; those before it came on */
	uint64_t level;               /* priority, with what it had gained by waiting */
	uint64_t since;               /* on the hardware, or waiting for it */
	struct cp_queue *mes_link;
	uint32_t mes_id; /* shared device: what the daemon calls it */
	/* PM4: shader registers and where the packet stream stands */
	struct cp_pm4 *pm4;
	struct cp_ring *ring; /* NULL: KFD's queue */
};

/* What a dispatch takes from its queue: the handler, the apertures, a debugger's wishes. */
void cp_dispatch_inherit(struct cp_dispatch *d);
/* MODE of a dispatch's waves at launch. */
uint32_t cp_wave_mode(const struct cp_dispatch *d);

/* ---- irq.c */
void cp_irq_post(const struct cp_irq *irq);
void cp_irq_open(void);
void cp_irq_close(void);
void cp_irq_reset(void);

/* ---- engine.c */
void cp_kick(void);                    /* CP thread: look again */
void cp_queue_run(struct cp_queue *q); /* q->lock held: as far as it goes */
bool cp_doorbell_take(struct cp_queue *q);
unsigned cp_pollers(void); /* queues that poll memory */
uint64_t cp_now(void);     /* real monotonic ns, for back-off only */
void cp_engine_add(struct cp_queue *q);
void cp_engine_remove(struct cp_queue *q);

/* ---- doorbell.c */
uint64_t *cp_doorbell_slot(struct cp_doorbells *d, uint32_t index);
bool cp_doorbell_is_mapped_at(struct cp_doorbells *d, uint64_t addr, uint32_t index);
int cp_watch_open(void); /* the userfaultfd, or negative: poll */
void cp_watch_close(void);
void cp_watch_drain(void); /* lets faulted writers go on; their pages are open then */
void cp_watch_arm(void);   /* closes the watched pages */
bool cp_watch_blind(void); /* some pages only polling sees */
bool cp_watch_armed(void);
void cp_watch_reset(void);

/* ---- queue.c */
/* Packets to read? Looks at the write pointer once a ring; a fault there stops the queue. */
bool cp_queue_more(struct cp_queue *q);
void cp_queue_say(struct cp_queue *q, const char *text);
void cp_queue_fail(struct cp_queue *q, unsigned ec, uint64_t inactive, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void cp_queue_fault(struct cp_queue *q, const struct vm_fault *f, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void cp_event(struct cp_queue *q, uint32_t event_id);
/* Each returns false after reporting the fault (queue has failed then). */
bool cp_signal_store(struct cp_queue *q, uint64_t handle, int64_t value);
bool cp_signal_done(struct cp_queue *q, uint64_t handle, uint64_t start_ts);
struct cp_dispatch *cp_dispatch_get(struct cp_queue *q);

/* ---- aql.c */
void cp_aql_run(struct cp_queue *q);
void cp_dispatch_complete(struct cp_dispatch *d); /* q->lock held */

/* ---- pm4.c, sdma.c */
int cp_pm4_open(struct cp_queue *q);
void cp_pm4_run(struct cp_queue *q);
/* Runs one INDIRECT_BUFFER packet from elsewhere (an AQL vendor packet) to its end. False: it
 * waits, call again with the same words, or the queue has failed. */
bool cp_pm4_ib(struct cp_queue *q, const uint32_t words[4]);
void cp_sdma_run(struct cp_queue *q);
/* Executes a buffer of a ring's job. False: it waits, call again with the same, or has failed. */
bool cp_pm4_buffer(struct cp_queue *q, uint64_t va, uint32_t dwords);
bool cp_sdma_buffer(struct cp_queue *q, uint64_t va, uint32_t dwords);
void cp_pm4_forget(struct cp_queue *q); /* registers and where it stands */

/* ---- ring.c */
void cp_ring_run(struct cp_queue *q); /* q->lock held */

/* ---- dispatch.c */
struct cp_packet { /* hsa_kernel_dispatch_packet_t */
	uint16_t header, setup, wg[3], reserved0;
	uint32_t grid[3];
	uint32_t private_bytes, group_bytes;
	uint64_t kernel_object, kernarg, reserved2, signal;
};
/* 1: ready; 0: needs more scratch; -1: the queue has failed and said why. */
int cp_dispatch_decode(struct cp_queue *q, const struct cp_packet *p, struct cp_dispatch *d);
/* Sizes that follow from grid, wg, nvgpr, lds_bytes and wave64. */
void cp_dispatch_sizes(struct cp_dispatch *d);
int cp_group_init(struct isa_group *g, struct cp_dispatch *d, uint64_t index);

/* ---- trap.c */
/* A wave that stopped with why enters the handler or stays halted. True: it runs on. */
bool cp_trap_enter(const struct cp_dispatch *d, struct isa_wave *w, unsigned trap_id);
/* Exceptions that a debugger asked for, none of which the wave has met: before its first
 * instruction, at s_endpgm, behind each instruction (MODE.DEBUG_EN). The wave runs or halts. */
void cp_trap_at_start(const struct cp_dispatch *d, struct isa_wave *w);
bool cp_trap_at_end(const struct cp_dispatch *d, struct isa_wave *w); /* false: it ends */
bool cp_trap_steps(const struct isa_wave *w); /* one instruction at a time, interpreted */
void cp_trap_after_step(const struct cp_dispatch *d, struct isa_wave *w);
/* An access met the points whose bits are set; the wave may enter its handler. */
void cp_trap_watched(const struct cp_dispatch *d, struct isa_wave *w, uint32_t points);
const char *cp_exception_name(unsigned code); /* of a wave, 1.. */

/* ---- watch.c: a debugger's watch points, as one worker's vector memory meets them */
struct cp_watcher {
	struct vm_watch watch; /* the port's, while points are on */
	const struct cp_debug *debug;
	uint32_t hit; /* points met since it was cleared */
};
/* Whether the process of d has points on. */
static inline bool cp_watching(const struct cp_dispatch *d)
{
	const struct cp_debug *debug = d->q->mqd.debug;

	return debug && __builtin_expect(__atomic_load_n(&debug->watching, __ATOMIC_ACQUIRE), 0);
}
void cp_watcher_put(struct cp_watcher *c, struct vm_port *port); /* in front of who looks already */

/* ---- wave.c */
void cp_wave_hooks(struct isa_exec *x); /* what x calls for messages and clocks */
/* Deals with a halted wave. True: it runs on (in its trap handler). */
bool cp_wave_stopped(struct isa_exec *x, struct isa_group *g, struct isa_wave *w);
/* The instruction at pc, and where in which wave it is, for a person. */
void cp_insn_text(struct isa_exec *x, uint64_t pc, char *buf, unsigned len);
void cp_wave_describe(struct isa_exec *x, struct isa_group *g, struct isa_wave *w, uint64_t pc,
		      char *buf, unsigned len);

/* ---- waits.c */
void cp_missing_wait(struct isa_exec *x, const struct delay_missing *m);
/* Whether waves have delayed memory (isa/delay.h). */
static inline bool cp_delayed(void)
{
	return vgpu_config.delay || vgpu_config.waits;
}

/* ---- workers.c */
int cp_workers_start(unsigned n);
void cp_workers_stop(void);
void cp_workers_reset(void);

/* ---- sched.c */
void cp_sched_add(struct cp_dispatch *d);
/* Takes q off and waits until nothing of it runs. False: a trap handler does not return; patient:
 * within the time that MES has. */
bool cp_sched_stop(struct cp_queue *q, bool patient);
void cp_sched_unlist(struct cp_queue *q); /* hands out nothing more of q */
void cp_sched_resume(struct cp_queue *q); /* puts its unfinished dispatches back */
void cp_sched_discard(struct cp_queue *q);
unsigned cp_sched_waves(struct cp_queue *q); /* resident */
/* For workers. A workgroup to run, not yet initialised if *fresh; NULL: none, and *crowded says that
 * there is one without a place. */
struct isa_group *cp_sched_take(bool *fresh, bool *crowded);
/* Back from a worker: kept as data to go on, or for good if stuck; or over. */
void cp_sched_put_away(struct isa_group *g, bool stuck);
void cp_sched_ended(struct isa_group *g);
/* False: workers are to end. *seen: what cp_sched_rest() compares with. */
bool cp_sched_open(uint64_t *seen);
/* Waits for work that came after *seen, at most until the clock shows `until`. holds: the worker has
 * workgroups, and sleeps without looking about first. */
void cp_sched_rest(uint64_t seen, uint64_t until, bool holds);
void cp_sched_start(void);
void cp_sched_close(void); /* tells the workers to end */
void cp_sched_free(void);  /* none are left */
void cp_sched_reset(void);

/* ---- cwsr.c: q->lock held, nothing of q running */
void cp_cwsr_save(struct cp_queue *q);
void cp_cwsr_restore(struct cp_queue *q);

/* ---- mes.c */
void cp_mes_add(struct cp_queue *q);
/* False: MES does not get it off. kill: its waves are not saved. */
bool cp_mes_remove(struct cp_queue *q, bool kill);
/* Gives waiting queues their turn. True: some have work and wait, come back in a quantum. CP thread
 * only, without locks. */
bool cp_mes_tick(void);
void cp_mes_reset(void);

/* ---- place.c: [S] */
void cp_place_reset(void);
unsigned cp_place_regs(unsigned nvgpr, bool wave64);
/* False: an empty machine has no room for a workgroup of d. */
bool cp_place_possible(const struct cp_dispatch *d);
bool cp_place_take(struct isa_group *g);
void cp_place_give(struct isa_group *g);
/* Sets wave i's HW_ID registers. */
void cp_place_wave(const struct isa_group *g, unsigned i, struct isa_wave *w);

/* ---- the comparison both kinds of engines poll memory with: PM4 WAIT_REG_MEM and SDMA POLL_REGMEM
 * number it alike (soc15d.h, sdma_v6_0_0_pkt_open.h). -1: no such function. */
static inline int cp_poll_compare(unsigned function, uint32_t v, uint32_t reference)
{
	switch (function) {
	case 0:
		return 1;
	case 1:
		return v < reference;
	case 2:
		return v <= reference;
	case 3:
		return v == reference;
	case 4:
		return v != reference;
	case 5:
		return v >= reference;
	case 6:
		return v > reference;
	default:
		return -1;
	}
}

/* ---- statistics (relaxed atomics) */
extern struct cp_stats cp_stat;
#define CP_COUNT(field, n) __atomic_fetch_add(&cp_stat.field, (n), __ATOMIC_RELAXED)

#endif
