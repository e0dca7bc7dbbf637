/* Timers on the device's clock, run by one thread that exists only once a timer was armed.
 *
 * The thread serves what jiffies and workqueues serve in the kernel: wait timeouts and the
 * restore workers. All signals are blocked in it.
 */
#include "internal.h"

#include <signal.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static struct kfd_timer *timers; /* sorted by deadline */
static bool running, stopping, cond_ready;
static pthread_t thread;

static void unlink_timer(struct kfd_timer *t)
{
	struct kfd_timer **p = &timers;

	while (*p && *p != t)
		p = &(*p)->next;
	if (*p)
		*p = t->next;
	t->armed = false;
}

static void sleep_until(uint64_t deadline)
{
	uint64_t now = vgpu_clock_ns(), ns;
	struct timespec ts;

	if (deadline <= now)
		return;
	ns = deadline - now;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ns += (uint64_t)ts.tv_nsec;
	ts.tv_sec += (time_t)(ns / 1000000000u);
	ts.tv_nsec = (long)(ns % 1000000000u);
	pthread_cond_timedwait(&wake, &lock, &ts);
}

static void *timer_main(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (!stopping) {
		struct kfd_timer *t = timers;

		if (!t) {
			pthread_cond_wait(&wake, &lock);
			continue;
		}
		if (t->deadline > vgpu_clock_ns()) {
			if (t->jump && vgpu_config.clock_virtual)
				vgpu_clock_advance(t->deadline);
			else
				sleep_until(t->deadline);
			continue;
		}
		unlink_timer(t);
		if (t->locked) {
			t->fn(t);
			continue;
		}
		pthread_mutex_unlock(&lock);
		t->fn(t);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int start(void)
{
	sigset_t all, old;
	int err;

	if (running)
		return 0;
	if (!cond_ready) {
		pthread_condattr_t attr;

		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&wake, &attr);
		pthread_condattr_destroy(&attr);
		cond_ready = true;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, timer_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	pthread_setname_np(thread, "kfd-timer");
	running = true;
	return 0;
}

int timer_arm(struct kfd_timer *t, uint64_t deadline)
{
	struct kfd_timer **p = &timers;
	int err;

	pthread_mutex_lock(&lock);
	err = start();
	if (err)
		goto out;
	if (t->armed)
		unlink_timer(t);
	t->deadline = deadline;
	while (*p && (*p)->deadline <= deadline)
		p = &(*p)->next;
	t->next = *p;
	t->armed = true;
	*p = t;
	if (timers == t)
		pthread_cond_signal(&wake);
out:
	pthread_mutex_unlock(&lock);
	return err;
}

void timer_cancel(struct kfd_timer *t)
{
	pthread_mutex_lock(&lock);
	if (t->armed)
		unlink_timer(t);
	pthread_mutex_unlock(&lock);
}

void timers_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	timers = NULL;
	running = stopping = cond_ready = false;
}

void timers_stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	if (running)
		pthread_cond_signal(&wake);
	pthread_mutex_unlock(&lock);
	/* A restore worker may wait for a lock that the exiting thread never gives back. */
	if (running)
		pthread_detach(thread);
	running = false;
}
