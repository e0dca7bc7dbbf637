/* Evictions that other users of the memory cause (kfd_process.c:evict_process_worker).
 *
 * In one process nobody else competes for GTT, so the pressure is configured: evict_ms = N lets
 * another DRM client want the process's buffers every N milliseconds. What follows is the
 * kernel's: not within 10 ms of the last restore, queues stopped with trigger TTM, buffers moved
 * out and back, queues restored 100 ms later.
 */
#include "internal.h"

#define PROCESS_ACTIVE_TIME_NS  (10 * 1000000ull)
#define PROCESS_RESTORE_TIME_NS (100 * 1000000ull)

static void evict_work(struct kfd_timer *t);
static void restore_work(struct kfd_timer *t);

/* A clock that runs ahead skips the time in which nothing can run, not the time between. */
static struct kfd_timer evict_timer = {.fn = evict_work};
static struct kfd_timer restore_timer = {.fn = restore_work, .jump = true};
static bool pressed; /* the schedule runs */
static uint64_t last_restore;

static void evict_one(struct kfd_process *p, void *ctx)
{
	int err;

	(void)ctx;
	pthread_mutex_lock(&p->lock);
	err = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_TRIGGER_TTM);
	p->pressed = true;
	pthread_mutex_unlock(&p->lock);
	if (err)
		vgpu_log("amdgpu: Failed to evict queues of process pid %d: %d", p->lead, err);
}

static void evict_work(struct kfd_timer *t)
{
	(void)t;
	kfd_process_each(evict_one, NULL);
	/* The mover gets its memory only once the queues stand still; they come back later. */
	timer_arm(&restore_timer, vgpu_clock_ns() + PROCESS_RESTORE_TIME_NS);
}

static void restore_one(struct kfd_process *p, void *ctx)
{
	(void)ctx;
	pthread_mutex_lock(&p->lock);
	if (p->pressed)
		kfd_process_restore_queues(p);
	p->pressed = false;
	pthread_mutex_unlock(&p->lock);
}

static void restore_work(struct kfd_timer *t)
{
	uint64_t next;

	(void)t;
	last_restore = vgpu_clock_ns();
	kfd_process_each(restore_one, NULL);
	next = vgpu_config.evict_ms * 1000000ull;
	if (next < PROCESS_ACTIVE_TIME_NS)
		next = PROCESS_ACTIVE_TIME_NS;
	timer_arm(&evict_timer, last_restore + next);
}

void kfd_pressure_start(void)
{
	if (!vgpu_config.evict_ms || __atomic_exchange_n(&pressed, true, __ATOMIC_ACQ_REL))
		return;
	timer_arm(&evict_timer, vgpu_clock_ns() + vgpu_config.evict_ms * 1000000ull);
}

void kfd_pressure_after_fork(void)
{
	pressed = false;
	evict_timer.armed = restore_timer.armed = false;
}
