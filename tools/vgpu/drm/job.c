/* Jobs: from a context's queue to a ring, and what becomes of those that do not end
 * (scheduler/sched_main.c and sched_entity.c; amdgpu_job.c).
 *
 * Lock order: drm_lock(), then cp/'s. Completions come from cp/ as interrupts, so it never waits for
 * what is locked here; timeouts and resets run on the timer thread.
 */
#include <amdgpu_drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "drm_file.h"
#include "gem.h"
#include "kfd/internal.h"
#include "submit.h"

/* amdgpu.sched_hw_submission: jobs that a ring has at a time. */
#define HW_SUBMISSION 2
/* amdgpu.lockup_timeout: how long a ring may take for a job. */
#define COMPUTE_TIMEOUT_MS 60000u
#define SDMA_TIMEOUT_MS    10000u
/* gmc_v11_0.c:gmc_v11_0_vram_gtt_location's apertures, which SH_MEM_BASES of the driver's own VMIDs
 * have; KFD's are others. */
#define PRIVATE_APERTURE 0x1000000000000000ull
#define SHARED_APERTURE  0x2000000000000000ull
/* How often waves are killed until a ring counts as hung: the kernel tries for 10 ms
 * (amdgpu_ring.c:amdgpu_ring_soft_recovery). */
#define SOFT_TRIES 10
/* MAX_WAIT_SCHED_ENTITY_Q_EMPTY, the patience of a process that ends with its own jobs. */
#define CLOSE_PATIENCE_NS 1000000000ull

struct drm_ring {
	const char *name;
	enum cp_queue_type type;
	struct cp_queue *cp;
	struct drm_job *on, **tail; /* with the ring, oldest first */
	unsigned n, score;          /* score: jobs of entities that have chosen it */
	struct drm_job *stopped;    /* by a reset of the GPU, until it is over */
	bool paused;                /* gets no jobs: it is being recovered */
	bool fault;                 /* it has said by an interrupt that it is hung */
	uint64_t deadline;          /* of the oldest job, vgpu_clock_ns() */
	struct kfd_timer timer;
};

static void timed_out(struct kfd_timer *t);

/* me.pipe.queue, as amdgpu_gfx.c deals them. */
static struct drm_ring rings[DRM_COMPUTE_RINGS + DRM_SDMA_RINGS] = {
	{.name = "comp_1.0.0", .type = CP_PM4, .timer = {.fn = timed_out}},
	{.name = "comp_1.1.0", .type = CP_PM4, .timer = {.fn = timed_out}},
	{.name = "comp_1.2.0", .type = CP_PM4, .timer = {.fn = timed_out}},
	{.name = "comp_1.3.0", .type = CP_PM4, .timer = {.fn = timed_out}},
	{.name = "sdma0", .type = CP_SDMA, .timer = {.fn = timed_out}},
};
#define RINGS (sizeof(rings) / sizeof(rings[0]))

static struct drm_entity *waiting; /* entities with jobs queued */
static uint64_t last_order;
static bool open, stopped;     /* stopped: the GPU is being reset */
static struct cs_ctx *culprit; /* whose job is the reason, with a reference */

/* ---- jobs ------------------------------------------------------------------ */

struct drm_job *drm_job_new(struct drm_file *f, struct drm_entity *e, unsigned max_ibs)
{
	struct drm_job *j = calloc(1, sizeof(*j) + max_ibs * sizeof(j->ib[0]));

	if (!j)
		return NULL;
	j->finished = fence_new(e->context);
	if (j->finished)
		j->finished->scheduled = fence_new(e->context);
	if (!j->finished || !j->finished->scheduled) {
		fence_put(j->finished);
		free(j);
		return NULL;
	}
	j->finished->owner = f->client_id;
	j->entity = e;
	j->ctx = e->ctx;
	j->ctx->refs++;
	j->file = f;
	j->max_ibs = max_ibs;
	j->cp.vm = f->vm;
	j->cp.ib = j->ib;
	return j;
}

void drm_job_free(struct drm_job *j)
{
	fences_drop(&j->deps);
	fence_put(j->finished);
	drm_ctx_unref(j->ctx);
	if (j->uf)
		gem_unref(j->uf);
	free(j);
}

int drm_job_depend(struct drm_job *j, struct fence *f)
{
	/* What it is queued behind, and what has been, is not waited for. */
	if (fence_signaled(f) || f->context == j->entity->context)
		return 0;
	return fences_add(&j->deps, f);
}

static void finish(struct drm_job *j, int err)
{
	fence_signal(j->finished, err);
	drm_job_free(j);
}

/* ---- rings ----------------------------------------------------------------- */

int drm_rings_open(void)
{
	int err = open ? 0 : vgpu_device_start();

	for (unsigned i = 0; i < RINGS && !open && !err; i++) {
		const struct cp_mqd mqd = {
			.type = rings[i].type,
			.lds_base = SHARED_APERTURE,
			.scratch_base = PRIVATE_APERTURE,
		};

		rings[i].tail = &rings[i].on;
		if (!rings[i].cp)
			err = cp_ring_create(&mqd, rings[i].name, &rings[i].cp);
	}
	open = open || !err;
	return err;
}

static struct drm_ring *ring_of(const struct cp_queue *q)
{
	for (unsigned i = 0; i < RINGS; i++) {
		if (rings[i].cp == q)
			return &rings[i];
	}
	return NULL;
}

static uint64_t patience(const struct drm_ring *r)
{
	uint64_t ms = vgpu_config.lockup_ms ? vgpu_config.lockup_ms
		      : r->type == CP_SDMA  ? SDMA_TIMEOUT_MS
					    : COMPUTE_TIMEOUT_MS;

	return ms * 1000000u;
}

/* The oldest job of the ring is another one. */
static void restart_timer(struct drm_ring *r)
{
	r->fault = false;
	if (!r->on) {
		timer_cancel(&r->timer);
		return;
	}
	r->deadline = vgpu_clock_ns() + patience(r);
	timer_arm(&r->timer, r->deadline);
}

static void forget(struct drm_ring *r)
{
	r->on = NULL;
	r->tail = &r->on;
	r->n = 0;
	restart_timer(r);
}

/* Jobs that the ring is through with are over. */
static void reap(struct drm_ring *r)
{
	while (r->cp && cp_ring_reap(r->cp)) {
		struct drm_job *j = r->on; /* in order, so it is the oldest */

		r->on = j->next;
		if (!r->on)
			r->tail = &r->on;
		r->n--;
		r->score--;
		restart_timer(r);
		finish(j, j->error);
	}
}

/* ---- scheduling ------------------------------------------------------------ */

/* drm_sched_pick_best, where the entity is free to choose. */
static void choose_ring(struct drm_entity *e)
{
	struct drm_ring *best = NULL;

	if (e->queue || (e->last && !e->last->signaled))
		return;
	for (unsigned i = 0; i < RINGS; i++) {
		if ((rings[i].type == CP_SDMA) != (e->ip == AMDGPU_HW_IP_DMA))
			continue;
		if (!best || rings[i].score < best->score)
			best = &rings[i];
	}
	e->ring = best;
}

static int rank(const struct drm_entity *e)
{
	return e->ctx->priority > AMDGPU_CTX_PRIORITY_NORMAL   ? 2
	       : e->ctx->priority < AMDGPU_CTX_PRIORITY_NORMAL ? 0
							       : 1;
}

static bool ready(struct drm_job *j)
{
	for (uint32_t i = 0; i < j->deps.n; i++) {
		if (!fence_signaled(j->deps.at[i]))
			return false;
	}
	return true;
}

/* The entity whose job is next on r: by priority, then in the order of submission. */
static struct drm_entity *next_for(const struct drm_ring *r)
{
	struct drm_entity *best = NULL;

	for (struct drm_entity *e = waiting; e; e = e->link) {
		if (e->ring != r || !ready(e->queue))
			continue;
		if (!best || rank(e) > rank(best) ||
		    (rank(e) == rank(best) && e->queue->order < best->queue->order))
			best = e;
	}
	return best;
}

static void leave_waiting(struct drm_entity *e)
{
	struct drm_entity **p = &waiting;

	while (*p != e)
		p = &(*p)->link;
	*p = e->link;
}

static struct drm_job *pop(struct drm_entity *e)
{
	struct drm_job *j = e->queue;

	e->queue = j->next;
	if (!e->queue) {
		e->tail = &e->queue;
		leave_waiting(e);
	}
	j->next = NULL;
	j->entity = NULL;
	fence_put(e->last);
	e->last = fence_get(j->finished);
	return j;
}

static void run(struct drm_ring *r, struct drm_job *j)
{
	int err = j->ctx->guilty ? -ECANCELED : 0;

	/* Compute rings have no encrypted memory (gfx_v11_0_ring_funcs_compute). */
	if (!err && j->secure && r->type != CP_SDMA)
		err = -EINVAL;
	fence_signal(j->finished->scheduled, 0);
	if (err) {
		r->score--;
		finish(j, err);
		return;
	}
	j->finished->begun = vgpu_clock_ns();
	j->cp.n_ibs = j->n_ibs;
	j->cp.number = (uint32_t)j->order;
	*r->tail = j;
	r->tail = &j->next;
	if (!r->n++)
		restart_timer(r);
	cp_ring_submit(r->cp, &j->cp);
}

static void schedule(void)
{
	struct drm_entity *e;
	bool more = !stopped;

	/* A job that is over at once may be what another waits for. */
	while (more) {
		more = false;
		for (unsigned i = 0; i < RINGS; i++) {
			struct drm_ring *r = &rings[i];

			while (!r->paused && r->n < HW_SUBMISSION && (e = next_for(r))) {
				run(r, pop(e));
				more = true;
			}
		}
	}
	drm_news(); /* queues have become shorter */
}

void drm_job_push(struct drm_entity *e, struct drm_job *j)
{
	choose_ring(e);
	j->ring = e->ring;
	j->order = ++last_order;
	j->ring->score++;
	if (!e->queue) {
		e->link = waiting;
		waiting = e;
	}
	*e->tail = j;
	e->tail = &j->next;
	schedule();
}

void drm_entity_flush(struct drm_entity *e)
{
	while (e->queue)
		drm_sleep(DRM_FOREVER); /* signals do not end it */
}

/* ---- hung rings ------------------------------------------------------------ */

static void cancel(struct drm_job *jobs)
{
	while (jobs) {
		struct drm_job *j = jobs;

		jobs = j->next;
		j->ring->score--;
		finish(j, -ECANCELED);
	}
}

/* Kills waves until the ring goes on. With the lock, given up meanwhile. */
static bool soft_recovery(struct drm_ring *r, struct drm_job *j)
{
	bool goes_on = true;

	j->error = -ENODATA;
	for (unsigned i = 0; i < SOFT_TRIES && r->on == j && goes_on; i++) {
		struct timespec ms = {0, 1000000};

		goes_on = cp_ring_kill_waves(r->cp);
		reap(r);
		if (r->on != j || !goes_on)
			break;
		drm_unlock();
		nanosleep(&ms, NULL);
		drm_lock();
		reap(r);
	}
	return r->on != j;
}

static void recover(struct drm_ring *r)
{
	unsigned bus = vgpu_config.pci_bus;
	struct drm_job *j = r->on;

	if (vgpu_config.gpu_recovery && r->type != CP_SDMA && soft_recovery(r, j)) {
		vgpu_ring_was_reset();
		vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: ring %s timeout, but soft recovered", bus,
			 r->name);
		return;
	}
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: ring %s timeout", bus, r->name);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: Process information: process %s pid %d", bus,
		 program_invocation_short_name, (int)getpid());
	/* Not signaled yet; but its entity is in error. */
	j->finished->error = -ETIME;
	if (!vgpu_config.gpu_recovery)
		return;           /* it stays as it is */
	if (r->type != CP_SDMA) { /* gfx_v11_0.c:gfx_v11_0_reset_kcq */
		cp_ring_stop(r->cp);
		reap(r);
		j = r->on;
		forget(r);
		vgpu_ring_was_reset();
		cancel(j);
		cp_ring_start(r->cp);
		vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: ring %s reset succeeded", bus, r->name);
		return;
	}
	/* sdma_v6_0.c has nothing smaller than the GPU's. It is the job's fault. */
	if (!culprit) {
		culprit = j->ctx;
		culprit->refs++;
	}
	vgpu_reset_for_job(r->name);
}

static void timed_out(struct kfd_timer *t)
{
	struct drm_ring *r = (struct drm_ring *)((char *)t - offsetof(struct drm_ring, timer));

	drm_lock();
	reap(r);
	if (r->on && !stopped && (r->fault || vgpu_clock_ns() >= r->deadline)) {
		r->paused = true;
		recover(r);
		r->paused = false;
	}
	schedule();
	drm_unlock();
}

void drm_rings_stop(void)
{
	drm_lock();
	stopped = true;
	for (unsigned i = 0; i < RINGS; i++) {
		if (!rings[i].cp)
			continue;
		cp_ring_stop(rings[i].cp);
		reap(&rings[i]);
		rings[i].stopped = rings[i].on;
		forget(&rings[i]);
	}
	/* amdgpu_device_pre_asic_reset: drm_sched_increase_karma */
	if (culprit) {
		culprit->guilty = true;
		drm_ctx_unref(culprit);
		culprit = NULL;
	}
	drm_unlock();
}

void drm_rings_start(void)
{
	drm_lock();
	stopped = false;
	for (unsigned i = 0; i < RINGS; i++) {
		if (!rings[i].cp)
			continue;
		cancel(rings[i].stopped);
		rings[i].stopped = NULL;
		cp_ring_start(rings[i].cp);
	}
	schedule();
	drm_unlock();
}

/* ---- interrupts ------------------------------------------------------------ */

static void fault(struct drm_file *f, const struct cp_irq *irq)
{
	unsigned bus = vgpu_config.pci_bus;

	f->fault_addr = irq->fault.va.a & ~4095ull;
	f->fault_status = vm_fault_status(&irq->fault, 1);
	f->fault_vmhub = 0;
	__atomic_fetch_add(&kfd_device.stats.vm_faults, 1, __ATOMIC_RELAXED);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:40 vmid:1 "
		 "pasid:%u)",
		 bus, f->pasid);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu:   in page starting at address 0x%016llx from "
		 "client 10",
		 bus, (unsigned long long)f->fault_addr);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x%08X", bus,
		 f->fault_status);
	if (irq->text[0])
		vgpu_log("vgpu: %s", irq->text);
}

void drm_ring_irq(const struct cp_irq *irq)
{
	struct drm_ring *r;
	bool meant;

	drm_lock();
	r = irq->ring ? ring_of(irq->ring) : NULL;
	/* Hundreds of waves may say the same; the job that they are of may be over. */
	meant = r && r->on && r->on->cp.number == irq->queue_id;
	switch (irq->kind) {
	case CP_IRQ_VM_FAULT:
		/* The driver writes it down, and does nothing: whether the job ends is the timer's. */
		if (meant)
			fault(r->on->file, irq);
		break;
	case CP_IRQ_QUEUE_ERROR:
		/* drm_sched_fault: the timeout is now. SDMA's interrupt is ignored
		 * (sdma_v6_0_process_illegal_inst_irq). */
		if (meant && !r->fault && r->type != CP_SDMA && !stopped) {
			vgpu_log("[drm:gfx_v11_0] *ERROR* Illegal opcode or instruction in command "
				 "stream");
			r->fault = true;
			timer_arm(&r->timer, vgpu_clock_ns());
		}
		break;
	case CP_IRQ_RING:
		for (unsigned i = 0; i < RINGS; i++)
			reap(&rings[i]);
		schedule();
		break;
	case CP_IRQ_EVENT: /* nobody's: fences are looked at when they are there */
		break;
	}
	drm_unlock();
}

/* ---- the end of a file ----------------------------------------------------- */

static bool busy(const struct drm_file *f)
{
	for (const struct drm_entity *e = waiting; e; e = e->link) {
		if (e->queue->file == f)
			return true;
	}
	for (unsigned i = 0; i < RINGS; i++) {
		for (const struct drm_job *j = rings[i].on; j; j = j->next) {
			if (j->file == f)
				return true;
		}
	}
	return false;
}

/* Takes f's jobs off a ring that does not get through them. */
static void drop(struct drm_ring *r, const struct drm_file *f)
{
	struct drm_job **p = &r->on, *gone = NULL, *j;

	cp_ring_drop(r->cp, f->vm);
	reap(r);
	while ((j = *p)) {
		if (j->file != f) {
			p = &j->next;
			continue;
		}
		*p = j->next;
		j->next = gone;
		gone = j;
		r->n--;
	}
	r->tail = p;
	restart_timer(r);
	cancel(gone);
}

/* The kernel waits for a second (amdgpu_flush). After that it lets the ring go on and keeps what it
 * uses; here the address space goes with the file, and the job with it. */
void drm_jobs_close(struct drm_file *f)
{
	uint64_t end = drm_now() + CLOSE_PATIENCE_NS;
	struct drm_entity *e, *link;

	while (busy(f) && drm_sleep(end) != -ETIME)
		;
	for (e = waiting; e; e = link) {
		link = e->link;
		while (e->queue && e->queue->file == f) {
			struct drm_job *j = pop(e);

			j->ring->score--;
			fence_signal(j->finished->scheduled, 0);
			finish(j, -ESRCH);
		}
	}
	for (unsigned i = 0; i < RINGS; i++) {
		if (!rings[i].cp)
			continue;
		drop(&rings[i], f);
	}
	schedule();
}

void drm_submissions_close(struct drm_file *f)
{
	drm_lock();
	drm_jobs_close(f);
	drm_ctxs_close(f);
	drm_lists_close(f);
	drm_syncobjs_close(f);
	drm_unlock();
}

void drm_jobs_after_fork(void)
{
	for (unsigned i = 0; i < RINGS; i++) {
		struct drm_ring *r = &rings[i];

		*r = (struct drm_ring){
			.name = r->name, .type = r->type, .timer = {.fn = timed_out}};
	}
	waiting = NULL;
	open = stopped = false;
	culprit = NULL;
}

void drm_submissions_after_fork(void)
{
	drm_fences_after_fork();
	drm_jobs_after_fork();
	drm_ctx_after_fork();
	drm_lists_after_fork();
	drm_syncobjs_after_fork();
}
