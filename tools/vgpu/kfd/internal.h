/* Shared by the files of the virtual kernel driver only.
 *
 * Locks, outermost first: kfd_process.lock (the kernel's process mutex), kfd_device.lock (its
 * dqm and limit locks), kfd_process.event_lock, then timers. The interrupt thread takes them in
 * the same order; nobody sleeps in WAIT_EVENTS with one held.
 */
#ifndef VGPU_KFD_INTERNAL_H
#define VGPU_KFD_INTERNAL_H

#include "vkfd.h"
#include "idr.h"
#include "vm/vm.h"
#include "cp/cp.h"
#include "drm/gem.h"

/* ---- device --------------------------------------------------------------- */

enum {
	KFD_MAX_QUEUES_PER_PROCESS = 1024,
	KFD_MAX_QUEUES_PER_PDD = 127,     /* "HWS limit", pqm_create_queue */
	KFD_MAX_QUEUES_PER_DEVICE = 4096, /* amdgpu.max_num_of_queues_per_device */
	KFD_DOORBELL_SLICE = 8192,
	KFD_DOORBELLS = 1024,
	KFD_SDMA_QUEUES = 8, /* per engine, of which the first two are the kernel's */
	KFD_SDMA_RESERVED = 2,
	KFD_CWSR_TBA_TMA_SIZE = 2 * 4096,
	KFD_MES_CTX_SIZE = 4096, /* AMDGPU_MES_PROC_CTX_SIZE, AMDGPU_MES_GANG_CTX_SIZE */
};

struct kfd_device {
	pthread_mutex_t lock;
	uint64_t mm; /* address space that initialised it; another one means we were forked */
	uint32_t sdma_used; /* bit per SDMA queue id */
	uint32_t queue_count;
	uint32_t next_pasid;
	struct kfd_limits {
		uint64_t sys_max, ttm_max;              /* computed once */
		uint64_t sys_used, ttm_used, vram_used; /* bytes reserved */
		uint64_t vram_used_aligned;             /* VRAM-flag bytes of this device */
	} limits;
	uint64_t gtt_used, vram_placed, preempt_used; /* by placement */
	struct smi_client *smi;
	uint32_t reset_seq;
	struct kfd_process *profiler; /* who holds the performance counters */
	struct vgpu_stats stats;      /* the parts nobody else counts */
};
extern struct kfd_device kfd_device;

/* ---- process -------------------------------------------------------------- */

struct kfd_queue;
struct dbg_state;
struct kfd_event;
struct kfd_bo;

/* One GPU of one process (the kernel's kfd_process_device and qcm_process_device). */
struct kfd_pdd {
	struct drm_file *drm; /* NULL until ACQUIRE_VM: "not bound" */
	struct vm *vm;
	struct idr bos; /* handle -> struct kfd_bo */
	uint64_t vram_usage;
	struct cp_doorbells *doorbells;
	int doorbell_fd;
	uint64_t doorbell_off;
	void *doorbell_alias; /* for GPU-mapped doorbell buffers */
	bool doorbell_watched;
	uint32_t doorbell_bitmap[KFD_DOORBELLS / 32];
	uint32_t queue_count;
	uint32_t evicted;     /* nesting count */
	uint64_t evict_start; /* ns */
	uint64_t evicted_ms, sdma_past;
	uint64_t scratch_va;
	uint64_t tba, tma;
	uint32_t default_policy, alternate_policy;
	bool gws;
	bool has_reset_queue;    /* its queues cannot be changed any more */
	struct gem *cwsr_kernel; /* first-level trap handler pages */
	struct gem *proc_ctx;    /* MES's page for the process, from its first queue on */
	struct kfd_bo *bo_list;  /* all BOs of the process, newest first */
};

struct kfd_process {
	pthread_mutex_t lock;     /* the kernel's process mutex */
	struct kfd_process *next; /* of the same address space, the primary first */
	uint16_t context;         /* KFD_CONTEXT_PRIMARY, or a secondary one's id */
	bool outlived;            /* its address space is gone, a kept descriptor is not */
	uint32_t files;           /* secondary: descriptions and mappings that keep it */
	pid_t lead;
	uint64_t mm;
	uint32_t pasid;
	char comm[16];
	pid_t acquire_tid; /* thread that called ACQUIRE_VM: named in fault reports */
	char acquire_comm[16];
	uint32_t n_pdds;
	struct kfd_pdd pdd;

	struct kfd_queue *queues[KFD_MAX_QUEUES_PER_PROCESS];
	uint32_t n_queues;

	pthread_mutex_t event_lock;
	struct idr signal_events;    /* ids are slots; 0 is never given out */
	struct idr other_events;     /* id - KFD_FIRST_NONSIGNAL_EVENT_ID */
	uint32_t signal_event_count; /* starts at 1: id 0 is reserved */
	uint64_t *signal_page;
	uint64_t signal_mapped_size, signal_handle;
	struct gem *signal_gem;
	int signal_fd; /* kernel-allocated page, or -1 */

	struct svm_range *svm; /* sorted by address */

	uint32_t evicted_bos; /* invalid userptr BOs and SVM ranges since the last restore */
	bool restore_pending;

	struct dbg_state *dbg;     /* runtime and debugger */
	uint32_t resumes;          /* changes when queues are resumed; a futex */
	bool criu_paused, pressed; /* pressed: stopped by evict.c */
	bool pressed_again;        /* while it was being restored */
	bool lent;                 /* its lock, see shared.c */
};
#define KFD_CONTEXT_PRIMARY 0xffffu

/* The mapped VA ranges of a BO are recorded here, sorted, for overlap and queue checks. */
struct kfd_bo {
	struct kfd_bo *next;
	struct gem *gem;
	uint64_t va, size; /* size of one mapping, page aligned */
	uint32_t flags;    /* KFD_IOC_ALLOC_MEM_FLAGS_* as given */
	uint32_t handle;   /* idr part */
	bool imported, aql, mapped;
	bool attached; /* mapped once: in the VM's books until freed */
	uint32_t queue_refs;
	uint64_t user_addr; /* USERPTR */
	uint32_t invalid;   /* MMU notifications since the last restore */
	bool dead;          /* the user pages are gone: PTEs cleared */
};

/* ---- process objects (context.c) ------------------------------------------ */

/* The primary process of the calling mm, or NULL. */
struct kfd_process *kfd_process_current(void);
/* An object that belongs to no list yet, without a debugger's state. */
int kfd_process_new(struct kfd_process **out);
void kfd_contexts_begin(struct kfd_process *primary);
void kfd_contexts_after_fork(void);
/* CREATE_PROCESS: *file, which is p, becomes a new secondary process. */
long kfd_create_secondary(struct kfd_process *p, struct kfd_process **file);
static inline bool kfd_is_secondary(const struct kfd_process *p)
{
	return p->context != KFD_CONTEXT_PRIMARY;
}
/* Calls fn for all of them, none of which ends meanwhile. Without locks. */
void kfd_process_each(void (*fn)(struct kfd_process *p, void *ctx), void *ctx);
/* The same for one, if it still exists. */
bool kfd_process_with(struct kfd_process *it, void (*fn)(struct kfd_process *p, void *ctx),
		      void *ctx);

/* The pdd for a gpu_id, or NULL; bind says whether ACQUIRE_VM happened. */
struct kfd_pdd *kfd_pdd_by_id(struct kfd_process *p, uint32_t gpu_id);
static inline bool kfd_pdd_bound(const struct kfd_pdd *pdd)
{
	return pdd->drm != NULL;
}

/* What a handler returns to be called again, with the arguments as they then are. */
#define KFD_ERESTARTSYS 512

/* ---- ioctl handlers: args are the kernel's copy --------------------------- */

typedef long (*kfd_handler)(struct kfd_process *p, void *args);
#define KFD_HANDLER(name) long kfd_ioctl_##name(struct kfd_process *p, void *args)
KFD_HANDLER(get_version);
KFD_HANDLER(create_queue);
KFD_HANDLER(destroy_queue);
KFD_HANDLER(set_memory_policy);
KFD_HANDLER(get_clock_counters);
KFD_HANDLER(get_process_apertures);
KFD_HANDLER(update_queue);
KFD_HANDLER(create_event);
KFD_HANDLER(destroy_event);
KFD_HANDLER(set_event);
KFD_HANDLER(reset_event);
KFD_HANDLER(wait_events);
KFD_HANDLER(dbg_deprecated);
KFD_HANDLER(set_scratch_backing_va);
KFD_HANDLER(get_tile_config);
KFD_HANDLER(set_trap_handler);
KFD_HANDLER(get_process_apertures_new);
KFD_HANDLER(acquire_vm);
KFD_HANDLER(alloc_memory_of_gpu);
KFD_HANDLER(free_memory_of_gpu);
KFD_HANDLER(map_memory_to_gpu);
KFD_HANDLER(unmap_memory_from_gpu);
KFD_HANDLER(set_cu_mask);
KFD_HANDLER(get_queue_wave_state);
KFD_HANDLER(get_dmabuf_info);
KFD_HANDLER(import_dmabuf);
KFD_HANDLER(alloc_queue_gws);
KFD_HANDLER(smi_events);
KFD_HANDLER(svm);
KFD_HANDLER(set_xnack_mode);
KFD_HANDLER(criu_op);
KFD_HANDLER(available_memory);
KFD_HANDLER(export_dmabuf);
KFD_HANDLER(runtime_enable);
KFD_HANDLER(dbg_trap);
KFD_HANDLER(profiler);

struct carry;

/* ---- memory --------------------------------------------------------------- */

struct kfd_bo *kfd_bo_by_handle(struct kfd_pdd *pdd, uint64_t handle);
/* The BO whose first or second mapping contains va, and that mapping's bounds. NULL if none. */
struct kfd_bo *kfd_bo_mapped_at(struct kfd_pdd *pdd, uint64_t va, uint64_t *start, uint64_t *size);
bool kfd_bo_overlaps(struct kfd_pdd *pdd, uint64_t va, uint64_t size);
int kfd_pdd_doorbells(struct kfd_pdd *pdd); /* allocates the page on first use */
void kfd_bos_carry_out(struct carry *c, struct kfd_process *p);
void kfd_bos_carry_in(struct carry *c, struct kfd_process *p);
void kfd_bos_free(struct kfd_process *p);                 /* all; process lock held */
int kfd_bo_unmap(struct kfd_pdd *pdd, struct kfd_bo *bo); /* -EINVAL not mapped, -EBUSY */
void kfd_stats_bo(int count, int64_t bytes);
/* The set of watched client ranges (userptr, SVM) changed. Process lock held. */
void kfd_mm_watch(struct kfd_process *p);

/* ---- limits (limits.c, pure) ---------------------------------------------- */

void kfd_limits_init(struct kfd_limits *l, uint64_t ram, uint64_t ttm);
/* What a flag word with size bytes (page aligned) is charged. */
struct kfd_charge {
	uint64_t sys, ttm, vram;
};
struct kfd_charge kfd_limits_charge(uint32_t alloc_flags, uint64_t size, bool vram_is_gtt);
/* 0 or -ENOMEM; why names the limit. */
int kfd_limits_reserve(struct kfd_limits *l, const struct kfd_charge *c, const char **why);
void kfd_limits_release(struct kfd_limits *l, const struct kfd_charge *c);
uint64_t kfd_limits_available(const struct kfd_limits *l);

/* ---- events --------------------------------------------------------------- */

#define KFD_FIRST_NONSIGNAL_EVENT_ID 0x40000000u
#define UNSIGNALED_EVENT_SLOT        UINT64_MAX

void kfd_event_signal_interrupt(struct kfd_process *p, uint32_t id, unsigned valid_bits);
/* To every MEMORY (or HW_EXCEPTION) event of the process. */
void kfd_event_memory_exception(struct kfd_process *p,
				const struct kfd_hsa_memory_exception_data *data);
void kfd_event_hw_exception(struct kfd_process *p, const struct kfd_hsa_hw_exception_data *data);
/* Sets a SIGNAL event as the kernel does for the runtime. -EINVAL if there is none. */
int kfd_event_set(struct kfd_process *p, uint32_t id);
/* mmap type 2 of the kernel's own page (older kernels): fills fd; the usable slots follow. */
int kfd_event_mmap(struct kfd_process *p, uint64_t len, int *fd);
struct carry;
void kfd_events_carry_out(struct carry *c, struct kfd_process *p);
void kfd_events_carry_in(struct carry *c, struct kfd_process *p);
void kfd_events_free(struct kfd_process *p); /* nobody waits for them */
uint32_t kfd_event_count(struct kfd_process *p);
void kfd_event_process_init(struct kfd_process *p);

/* ---- queues --------------------------------------------------------------- */

struct kfd_queue {
	struct kfd_process *process;
	struct cp_queue *cp;
	struct cp_mqd mqd;
	uint32_t id;
	uint32_t user_type; /* KFD_IOC_QUEUE_TYPE_* as given */
	bool sdma;
	uint32_t sdma_id;
	uint32_t percent, priority;
	uint64_t ring_va;
	uint32_t ring_size, metadata_ring_size;
	uint64_t cwsr_va;
	uint32_t cwsr_size;
	struct kfd_bo *wptr_bo, *rptr_bo, *ring_bo, *eop_bo, *cwsr_bo;
	bool cwsr_svm;
	struct gem *gang_ctx; /* MES's page for the queue */
	uint64_t cwsr_total;
	bool is_active; /* wants to run and may */
	bool is_evicted;
	bool is_suspended; /* by a debugger */
	bool is_being_destroyed;
	bool is_reset;
	bool is_gone; /* DESTROY_QUEUE failed with the device's part already done */
	bool gws;
	uint32_t cu_mask[32];
	uint32_t cu_mask_bits;
};

void kfd_queues_destroy(struct kfd_process *p); /* all; process lock held */
struct kfd_queue *kfd_queue_by_id(struct kfd_process *p, uint32_t id);
/* The first queue whose number is *at or more; *at becomes the number behind it. NULL: no more. */
struct kfd_queue *kfd_queue_next(const struct kfd_process *p, unsigned *at);
/* Evict counts; only 0 -> 1 acts. SMI messages are the caller's trigger; -1: silent (VM fault). */
int kfd_process_evict_queues(struct kfd_process *p, int trigger);
int kfd_process_restore_queues(struct kfd_process *p);
/* ADD_QUEUE and REMOVE_QUEUE of MES, as far as the queue may run at all. Process lock held. */
int kfd_queue_map(struct kfd_queue *q);
int kfd_queue_unmap(struct kfd_queue *q);
/* A debugger's: -EBUSY for one that is new to it, or MES's error. */
int kfd_queue_suspend(struct kfd_queue *q, bool is_new);
int kfd_queue_resume(struct kfd_queue *q);
void kfd_queues_set_trap_handler(struct kfd_process *p);
uint64_t kfd_queue_sdma_counter(const struct kfd_queue *q);

/* ---- SVM ------------------------------------------------------------------ */

bool svm_overlaps(struct kfd_process *p, uint64_t addr, uint64_t size);
int svm_queue_get(struct kfd_process *p, uint64_t addr, uint64_t size);
void svm_queue_put(struct kfd_process *p, uint64_t addr, uint64_t size);
uint32_t svm_range_count(const struct kfd_process *p);
/* The client unmaps [addr, addr+len): ranges there end. True if a queue cannot live without. */
bool svm_mm_unmap(struct kfd_process *p, uint64_t addr, uint64_t len);
bool svm_mapped_at(struct kfd_process *p, uint64_t addr, uint64_t len);
void svm_watch(struct kfd_process *p, void (*fn)(void *ctx, uint64_t addr, uint64_t len),
	       void *ctx);

/* ---- SMI ------------------------------------------------------------------ */

void smi_event(pid_t pid, enum kfd_smi_event event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void smi_vmfault(struct kfd_process *p);
void smi_after_fork(void);
uint64_t kfd_boottime_ns(void);

/* ---- interrupts, timers --------------------------------------------------- */

int kfd_irq_start(void); /* starts the device's threads; once */
void kfd_irq_after_fork(void);
void kfd_irq_stop(void);
void kfd_irq_drain(void);

struct kfd_timer {
	struct kfd_timer *next;
	uint64_t deadline; /* vgpu_clock_ns() */
	void (*fn)(struct kfd_timer *t);
	bool armed;
	bool locked; /* fn runs under the timer lock and must not block: it may live on a stack */
	bool jump;   /* a virtual clock may jump to it */
};
int timer_arm(struct kfd_timer *t, uint64_t deadline);
void timer_cancel(struct kfd_timer *t);
void timers_after_fork(void);
void timers_stop(void);

/* Raises exceptions for a debugger that subscribed to one of them; true if it took them. q NULL: of
 * the device (fault: what kind of memory violation) or the process. Process lock held. */
bool dbg_raise(struct kfd_process *p, const struct kfd_queue *q, uint64_t mask,
	       const struct kfd_hsa_memory_exception_data *fault);
/* A queue is new, or has another ring. Process lock held. */
void dbg_queue_changed(struct kfd_process *p, const struct kfd_queue *q);
void dbg_queue_gone(struct kfd_process *p, const struct kfd_queue *q);
int dbg_state_open(struct kfd_process *p);
int dbg_state_private(struct kfd_process *p); /* which no other process finds */
void dbg_state_close(struct dbg_state *d);
void kfd_profiler_drop(struct kfd_process *p); /* gives its locks back */
/* Through the word and the event that the queue's save area names. Process lock held. */
void kfd_exception_to_runtime(struct kfd_process *p, const struct kfd_queue *q, uint64_t reason);
bool dbg_enabled(const struct kfd_process *p); /* a debugger is attached */
void dbg_gws(struct kfd_process *p, bool has);
const struct cp_debug *dbg_device_sees(const struct kfd_process *p);
bool kfd_runtime_enabled(const struct kfd_process *p);
bool kfd_runtime_ttmps(const struct kfd_process *p);

/* Memory pressure as configured (evict.c): begins with the first queue. */
void kfd_pressure_start(void);
void kfd_pressure_after_fork(void);

/* ---- a device that several processes share (shared.c) --------------------- */

int kfd_shared_join(void);
void kfd_shared_after_fork(void);
uint32_t kfd_shared_pasid(void);
long kfd_shared_available(uint64_t *out);
/* f's VM becomes a compute VM (nonzero if it is one, in whatever process), or is none any more. */
int kfd_shared_compute(struct drm_file *f, bool on);
/* A thread that holds p->lock and waits for the daemon lends it to the news thread, which the daemon
 * may be waiting for: queues may be stopped meanwhile, nothing else changes. */
void kfd_lock_lend(struct kfd_process *p);
void kfd_lock_reclaim(struct kfd_process *p);
/* p->lock, or the loan of it; say what you got when you give it back. Not shared: p->lock. */
bool kfd_lock_borrow(struct kfd_process *p);
void kfd_lock_return(struct kfd_process *p, bool borrowed);
/* What the daemon's news do (evict.c, reset.c, smi.c). */
void kfd_evict_wanted(void);
void kfd_reset_begun(int source, uint32_t seq);
void kfd_reset_ended(uint32_t count);
void kfd_device_lost(void);
void smi_news(pid_t pid, int event, const char *text, size_t len);

/* ---- reset (reset.c) ------------------------------------------------------ */

enum kfd_reset_source { KFD_RESET_MES, KFD_RESET_USER, KFD_RESET_JOB };
/* MES did not take q off. Schedules the reset and returns -ETIMEDOUT, or resets q alone and returns
 * 0. Process lock held. */
int kfd_hws_hang(struct kfd_queue *q);
bool kfd_gpu_in_reset(void);
/* The same for who opens /dev/kfd: what it sees comes after the suspension of all processes. */
bool kfd_is_locked(void);
void kfd_gpu_reset_wait(void); /* without locks */
/* -ETIMEDOUT if MES answers nothing any more, which is logged with what it was asked; else 0. */
int kfd_mes_silent(const char *msg);
void kfd_reset_after_fork(void);

void kfd_mm_after_fork(void);
/* After fork: nothing of the parent's device is ours. */
void kfd_after_fork(void);

#endif
