/* Waiters in other threads, events that go away under them, and waits that a signal interrupts. */
#include "probe.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct waiter {
	int fd;
	uint32_t ids[4], n, all, timeout;
	struct waited result;
	pthread_t thread;
};

static volatile int running;

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	__sync_fetch_and_add(&running, 1);
	w->result = wait_ids(w->fd, w->ids, w->n, w->all, w->timeout);
	return NULL;
}

/* Starts n waiters and gives them time to be asleep in the kernel. */
static void start(struct waiter *w, int n)
{
	running = 0;
	for (int i = 0; i < n; i++)
		if (pthread_create(&w[i].thread, NULL, wait_thread, &w[i]))
			probe_die("pthread_create");
	while (running < n)
		usleep(1000);
	usleep(100000);
}

static void join(struct waiter *w, const char *input)
{
	pthread_join(w->thread, NULL);
	observe_wait(input, w->result);
}

static void *other_thread(void *arg)
{
	struct kfd_ioctl_get_version_args v;
	int fd;

	TRY("GET_VERSION", *(int *)arg, AMDKFD_IOC_GET_VERSION, &v, "from another thread");
	errno = 0;
	fd = open("/dev/kfd", O_RDWR);
	observe("open", "from another thread", fd < 0 ? -1 : 0, errno, "%s", "");
	close(fd);
	return NULL;
}

static void three_waiters(int fd, bool auto_reset)
{
	const char *kind = auto_reset ? "auto" : "manual";
	uint32_t id = event_new(fd, auto_reset);
	struct waiter w[3];

	for (int i = 0; i < 3; i++)
		w[i] = (struct waiter){.fd = fd, .ids = {id}, .n = 1, .timeout = 3000};
	start(w, 3);
	observe("SET_EVENT", text("%s, three waiters", kind), event_set(fd, id), errno, "%s", "");
	for (int i = 0; i < 3; i++)
		join(&w[i], text("waiter %d of 3 on one %s event", i, kind));
	observe_wait("  then that event", wait_one(fd, id, 0));
}

void section_thread(void)
{
	int fd = kfd_open(), second;
	uint32_t id, id2, id3;
	struct waiter w;
	pthread_t t;

	if (pthread_create(&t, NULL, other_thread, &fd))
		probe_die("pthread_create");
	pthread_join(t, NULL);
	three_waiters(fd, false);
	three_waiters(fd, true);

	id = event_new(fd, false);
	id2 = event_new(fd, false);
	w = (struct waiter){.fd = fd, .ids = {id, id2}, .n = 2, .timeout = 0xffffffff};
	start(&w, 1);
	observe("DESTROY_EVENT", "with a waiter", event_destroy(fd, id2), errno, "%s", "");
	join(&w, "any {A, B} for ever, B destroyed");

	id2 = event_new(fd, false);
	id = event_new(fd, false);
	w = (struct waiter){.fd = fd, .ids = {id}, .n = 1, .timeout = 0xffffffff};
	start(&w, 1);
	event_set(fd, id);
	join(&w, "for ever, set");

	event_reset(fd, id);
	w = (struct waiter){.fd = fd, .ids = {id, id2}, .n = 2, .all = 1, .timeout = 3000};
	start(&w, 1);
	event_set(fd, id);
	event_reset(fd, id);
	event_set(fd, id2);
	join(&w, "all {A, B}, A set and reset, B set");

	/* A waiter leaves an event's list when it is woken: what is set after that stays. */
	id3 = event_new(fd, true);
	w = (struct waiter){.fd = fd, .ids = {id3, id2}, .n = 2, .all = 1, .timeout = 3000};
	event_reset(fd, id2);
	start(&w, 1);
	event_set(fd, id3);
	event_set(fd, id3);
	event_set(fd, id2);
	join(&w, "all {auto A, B}, A set twice, B set");
	observe_wait("  then A", wait_one(fd, id3, 0));
	event_reset(fd, id2);
	start(&w, 1);
	event_set(fd, id3);
	event_reset(fd, id3);
	event_set(fd, id2);
	join(&w, "all {auto A, B}, A set and reset, B set");
	observe_wait("  then A", wait_one(fd, id3, 0));

	event_reset(fd, id);
	second = kfd_open();
	w = (struct waiter){.fd = second, .ids = {id}, .n = 1, .timeout = 300};
	start(&w, 1);
	close(second);
	join(&w, "300 ms, descriptor closed meanwhile");
	close(fd);
}

static int handler_fd;
static uint32_t handler_id;

static void ignore_it(int sig)
{
	(void)sig;
}

static void set_it(int sig)
{
	(void)sig;
	event_set(handler_fd, handler_id);
}

static void interrupted(int fd, uint32_t id, int flags)
{
	struct sigaction sa = {.sa_handler = ignore_it, .sa_flags = flags};
	const char *how = flags ? "SA_RESTART" : "no SA_RESTART";
	uint32_t both[2] = {event_new(fd, true), id};

	sigaction(SIGALRM, &sa, NULL);
	ualarm(60000, 0);
	observe_wait(text("SIGALRM at 60 ms, %s, 200 ms", how), wait_one(fd, id, 200));
	event_set(fd, both[0]);
	ualarm(60000, 0);
	observe_wait(text("all {auto set, unset}, SIGALRM, %s", how),
		     wait_ids(fd, both, 2, 1, 200));
	observe_wait("  then the auto event", wait_one(fd, both[0], 0));
	ualarm(0, 0);
	if (flags)
		return;
	ualarm(60000, 0);
	observe_wait("SIGALRM at 60 ms, no SA_RESTART, for ever", wait_one(fd, id, 0xffffffff));
}

void section_signal(void)
{
	struct sigaction sa = {.sa_handler = set_it};
	int fd = kfd_open();
	uint32_t id = event_new(fd, false);

	interrupted(fd, id, 0);
	interrupted(fd, id, SA_RESTART);
	handler_fd = fd;
	handler_id = id;
	for (int i = 0; i < 2; i++) {
		sa.sa_flags = i ? SA_RESTART : 0;
		sigaction(SIGALRM, &sa, NULL);
		event_reset(fd, id);
		ualarm(60000, 0);
		observe_wait(
			text("the handler sets the event, %s", i ? "SA_RESTART" : "no SA_RESTART"),
			wait_one(fd, id, 3000));
		observe_wait("  then that event", wait_one(fd, id, 0));
	}
	close(fd);
}
