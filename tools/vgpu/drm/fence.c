/* Fences: see fence.h. */
#include "fence.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "kfd/vkfd.h"
#include "vm/rawsys.h"

/* Recursive, because the last reference on a buffer may go with a job's, and takes it for its fences. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static uint32_t news;     /* a futex */
static uint32_t sleeping; /* under the lock */
static uint64_t last_context, alive;
static struct fence past = {.refs = 1, .signaled = true};

void drm_lock(void)
{
	pthread_mutex_lock(&lock);
}

void drm_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void drm_fences_after_fork(void)
{
	lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	sleeping = 0;
	alive = 0;
	past.refs = 1;
}

uint64_t drm_fences_alive(void)
{
	return __atomic_load_n(&alive, __ATOMIC_RELAXED);
}

/* ---- objects --------------------------------------------------------------- */

uint64_t fence_context(void)
{
	return ++last_context;
}

struct fence *fence_new(uint64_t context)
{
	struct fence *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->refs = 1;
	f->context = context;
	__atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
	return f;
}

struct fence *fence_past(void)
{
	return fence_get(&past);
}

struct fence *fence_get(struct fence *f)
{
	if (f)
		f->refs++;
	return f;
}

void fence_put(struct fence *f)
{
	/* A timeline can be long: no recursion down its links. */
	while (f && !--f->refs) {
		struct fence *prev = f->prev;

		/* NOLINTBEGIN(clang-analyzer-unix.Malloc): no fence holds itself */
		fence_put(f->scheduled);
		fence_put(f->contained);
		free(f);
		/* NOLINTEND(clang-analyzer-unix.Malloc) */
		__atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
		f = prev;
	}
}

int fences_add(struct fences *all, struct fence *f)
{
	struct fence **at = realloc(all->at, (all->n + 1) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	all->at = at;
	at[all->n++] = fence_get(f);
	return 0;
}

void fences_drop(struct fences *all)
{
	while (all->n)
		fence_put(all->at[--all->n]);
	free(all->at);
	all->at = NULL;
}

void fence_signal(struct fence *f, int err)
{
	if (f->signaled)
		return;
	if (err)
		f->error = err;
	f->ended = vgpu_clock_ns();
	f->signaled = true;
	drm_news();
}

/* ---- waiting --------------------------------------------------------------- */

void drm_news(void)
{
	__atomic_fetch_add(&news, 1, __ATOMIC_RELEASE);
	if (sleeping)
		rawsys3(SYS_futex, &news, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

uint64_t drm_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t drm_deadline(uint64_t abs, unsigned extra)
{
	uint64_t now = drm_now(), jiffy = 1000000000u / vgpu_config.hz, jiffies;

	if ((int64_t)abs < 0 && !extra)
		return DRM_FOREVER;
	if ((int64_t)abs <= 0 || abs <= now)
		return 0;
	jiffies = (abs - now) / jiffy + extra;
	return jiffies ? now + jiffies * jiffy : 0;
}

int drm_sleep(uint64_t deadline)
{
	uint32_t seen = __atomic_load_n(&news, __ATOMIC_ACQUIRE);
	uint64_t now = drm_now(), most = 3600ull * 1000000000u, left;
	struct timespec ts;
	long r;

	if (deadline <= now)
		return -ETIME;
	left = deadline - now;
	ts = vgpu_timespec(left < most ? left : most);
	sleeping++;
	drm_unlock();
	if (vgpu_sleep)
		r = vgpu_sleep(&news, seen, left < most ? left : most);
	else
		r = rawsys6(SYS_futex, &news, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
	drm_lock();
	sleeping--;
	/* The arguments of a call that is made again are what they were: its times are absolute. */
	return r == -EINTR && (vgpu_sleep || !vgpu_restarts()) ? -EINTR : 0;
}
