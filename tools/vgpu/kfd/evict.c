/* Evictions that other users of the memory cause (kfd_process.c:evict_process_worker).
 *
 * In one process nobody else competes for GTT, so the pressure is configured: evict_ms = N lets
 * another DRM client want the process's buffers every N milliseconds. On a shared device the others
 * are there, and the daemon says when. What follows is the kernel's: not within 10 ms of the last
 * restore, queues stopped with trigger TTM, buffers moved out and back, queues restored 100 ms
 * later, or as many times later as there is no room.
 */
#include "internal.h"

#include <errno.h>
#include <time.h>

#include "share/share.h"

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
	bool borrowed = kfd_lock_borrow(p);
	int err = 0;

	(void)ctx;
	/* A restore is under way already: it is not for what is wanted now. */
	if (p->pressed)
		p->pressed_again = true;
	else
		err = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_TRIGGER_TTM);
	p->pressed = true;
	kfd_lock_return(p, borrowed);
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

void kfd_evict_wanted(void)
{
	uint64_t last = __atomic_load_n(&last_restore, __ATOMIC_RELAXED);
	uint64_t due = last + PROCESS_ACTIVE_TIME_NS, now = vgpu_clock_ns();

	if (last && now < due) {
		struct timespec ts = {.tv_nsec = (long)(due - now)};

		if (vgpu_config.clock_virtual)
			vgpu_clock_advance(due);
		else
			nanosleep(&ts, NULL);
	}
	evict_work(NULL);
}

/* ctx: whether one was wanted again meanwhile. */
static void restore_one(struct kfd_process *p, void *ctx)
{
	bool borrowed = kfd_lock_borrow(p);

	if (p->pressed_again) {
		*(bool *)ctx = true;
		p->pressed_again = false;
	} else if (p->pressed) {
		kfd_process_restore_queues(p);
		p->pressed = false;
	}
	kfd_lock_return(p, borrowed);
}

static void restore_work(struct kfd_timer *t)
{
	uint64_t a[SHARE_ARGS] = {0}, next;
	bool again = false;

	(void)t;
	__atomic_store_n(&last_restore, vgpu_clock_ns(), __ATOMIC_RELAXED);
	/* The buffers where they belong; -ENOMEM: there is no room for them yet. */
	if (share_active() && share_call(SHARE_VALIDATE, a) == -ENOMEM)
		again = true;
	else
		kfd_process_each(restore_one, &again);
	if (again) {
		timer_arm(&restore_timer, last_restore + PROCESS_RESTORE_TIME_NS);
		return;
	}
	if (!vgpu_config.evict_ms)
		return;
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
	last_restore = 0;
	evict_timer.armed = restore_timer.armed = false;
}
