/* What a debugger asks of another process's queues and events, done by that process.
 *
 * The kernel reaches every process's queues by itself. Here they, and the waves on them, are in the
 * process that made them, so it has a thread for this: it sleeps on a word of the memory that both
 * share. A debugger that stops this thread like all others of the process (gdb does) has stopped the
 * waves too, but their state is where it was: it is told that the queues could not be preempted.
 */
#include "dbg.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vm/rawsys.h"

#define SLICE_NS   50000000 /* between two looks at whether the other process can answer */
#define PATIENCE   200      /* slices: MES itself gives up after 2.1 s */
#define DEBUGGER_S 1        /* between two looks at whether the debugger is still there */

static uint32_t load(const struct dbg_call *c)
{
	return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
}

static bool swap(struct dbg_call *c, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&c->state, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void wake(struct dbg_call *c)
{
	rawsys3(SYS_futex, &c->state, FUTEX_WAKE, 2);
}

static void sleep_on(struct dbg_call *c, uint32_t seen, time_t s, long ns)
{
	const struct timespec ts = {s, ns};

	rawsys4(SYS_futex, &c->state, FUTEX_WAIT, (long)seen, &ts);
}

bool dbg_is_gone(pid_t pid)
{
	long fd = rawsys2(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = (int)fd, .events = POLLIN};
	bool gone;

	if (fd < 0)
		return fd == -ESRCH;
	gone = rawsys3(SYS_poll, &p, 1, 0) == 1;
	rawsys1(SYS_close, fd);
	return gone;
}

/* ---- the debugged process -------------------------------------------------- */

static pid_t serving; /* the process whose thread runs; a forked child has another number */

static int act(struct kfd_process *p, struct dbg_state *d, enum dbg_call_op op, uint32_t *ids,
	       uint32_t n, uint64_t mask)
{
	const struct kfd_queue *q;

	switch (op) {
	case DBG_CALL_SUSPEND:
		return dbg_suspend(p, d, ids, n, mask);
	case DBG_CALL_RESUME:
		return dbg_resume(p, ids, n);
	case DBG_CALL_FAULT:
		kfd_process_evict_queues(p, -1);
		kfd_event_memory_exception(p, &d->fault);
		return 0;
	case DBG_CALL_EXCEPTION:
		/* One that is not there is no error. */
		q = ids ? kfd_queue_by_id(p, ids[0]) : NULL;
		if (q)
			kfd_exception_to_runtime(p, q, mask);
		return 0;
	}
	return -EINVAL;
}

static void answer(struct kfd_process *p, void *ctx)
{
	struct dbg_state *d = p->dbg;
	struct dbg_call *c = &d->call;

	(void)ctx;
	pthread_mutex_lock(&p->lock);
	dbg_lock(d);
	c->result = act(p, d, (enum dbg_call_op)c->op, c->all ? NULL : c->ids, c->n, c->mask);
	dbg_unlock(d);
	pthread_mutex_unlock(&p->lock);
}

static void look_at_debugger(struct kfd_process *p, void *ctx)
{
	struct dbg_state *d = p->dbg;

	(void)ctx;
	pthread_mutex_lock(&p->lock);
	dbg_lock(d);
	dbg_abandoned(p, d);
	dbg_unlock(d);
	pthread_mutex_unlock(&p->lock);
}

static void *serve(void *arg)
{
	struct kfd_process *p = arg;
	struct dbg_state *d = p->dbg;
	struct dbg_call *c = &d->call;

	__atomic_store_n(&c->server, (pid_t)rawsys0(SYS_gettid), __ATOMIC_RELEASE);
	for (;;) {
		uint32_t state = load(c);

		if (state != DBG_CALL_ASKED) {
			sleep_on(c, state, DEBUGGER_S, 0);
			if (dbg_enabled(p) && d->debugger != p->lead)
				kfd_process_with(p, look_at_debugger, NULL);
			continue;
		}
		if (!swap(c, DBG_CALL_ASKED, DBG_CALL_TAKEN))
			continue;
		kfd_process_with(p, answer, NULL);
		/* Nobody waits any more if it took too long. */
		swap(c, DBG_CALL_TAKEN, DBG_CALL_DONE);
		wake(c);
	}
	return NULL;
}

int dbg_serve(struct kfd_process *p)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	/* Only the one that other processes find. */
	if (kfd_is_secondary(p) || p->outlived || serving == p->lead)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&thread, NULL, serve, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;
	pthread_setname_np(thread, "kfd-debug");
	pthread_detach(thread);
	serving = p->lead;
	return 0;
}

/* ---- the debugger ---------------------------------------------------------- */

/* Why d's process does not answer, NULL if it may yet. */
static const char *obstacle(const struct dbg_state *d, pid_t server)
{
	char name[32], stat[256], *end;

	if (!server)
		return "it has not enabled its runtime";
	snprintf(name, sizeof(name), "task/%d/stat", server);
	if (dbg_read_proc(d->subject, name, stat, sizeof(stat)) <= 0)
		return "it has ended";
	end = strrchr(stat, ')');
	if (!end || !end[1])
		return NULL;
	switch (end[2]) {
	case 't':
	case 'T':
		return "all its threads are stopped, the virtual device's too";
	case 'Z':
	case 'X':
		return "it has ended";
	}
	return NULL;
}

int dbg_call(struct kfd_process *p, struct dbg_state *d, enum dbg_call_op op, uint32_t *ids,
	     uint32_t n, uint64_t mask)
{
	struct dbg_call *c = &d->call;
	uint32_t before = load(c);
	const char *why = "it is busy with the debugger's last wish";
	bool done = false;

	if (p)
		return act(p, d, op, ids, n, mask);
	if (before == DBG_CALL_ASKED || before == DBG_CALL_TAKEN)
		goto out;
	c->op = op;
	c->all = !ids;
	c->n = n;
	c->mask = mask;
	if (ids)
		memcpy(c->ids, ids, n * sizeof(*ids));
	__atomic_store_n(&c->state, DBG_CALL_ASKED, __ATOMIC_RELEASE);
	wake(c);
	dbg_unlock(d);
	for (unsigned i = 0; !done && i < PATIENCE; i++) {
		uint32_t state = load(c);

		if (state == DBG_CALL_DONE)
			break;
		why = obstacle(d, __atomic_load_n(&c->server, __ATOMIC_ACQUIRE));
		/* What is taken may stop half way; it is finished when it goes on. */
		if (why) {
			done = swap(c, DBG_CALL_ASKED, DBG_CALL_IDLE) || state == DBG_CALL_TAKEN;
			continue;
		}
		sleep_on(c, state, 0, SLICE_NS);
	}
	dbg_lock(d);
	if (swap(c, DBG_CALL_DONE, DBG_CALL_IDLE)) {
		if (ids)
			memcpy(ids, c->ids, n * sizeof(*ids));
		return c->result;
	}
	swap(c, DBG_CALL_ASKED, DBG_CALL_IDLE);
out:
	vgpu_log("vgpu: process %d does not do what its debugger asks of its queues: %s",
		 d->subject, why ? why : "it does not answer");
	return -EIO;
}
