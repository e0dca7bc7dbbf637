/* Debug builds: the host's mapping of a BO is closed while the device works on it.
 *
 * mprotect() of a mapping of the render node changes the process's page table alone; the GPU's is
 * its own. User memory is left alone: its protection is the device's too (an MMU notifier takes
 * the pages away from the GPU and stops the queues).
 */
#include "memory/memory_internal.h"

#if BO_DEBUG
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Part of a BO that is closed. A signal handler looks through all of them, so they stay in place. */
static struct guard {
	_Atomic(const struct bo *) bo; /* NULL: free */
	uint64_t start, end;           /* whole pages */
	bool readable;
	struct bo_work by;
} guards[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

#define GUARDS (sizeof(guards) / sizeof(guards[0]))

static void say(const struct guard *g, const struct bo *b, uint64_t at, uint64_t pc, bool write)
{
	const char *what = write ? "write" : "read";
	Dl_info where = {0};

	dladdr((void *)(uintptr_t)pc, &where);
	fprintf(stderr,
		"barewave: assertion failed: host %s of 0x%" PRIx64 ", offset 0x%" PRIx64
		" of \"%s\" (number %u, 0x%" PRIx64 " bytes at 0x%" PRIx64 "), by 0x%" PRIx64
		" in %s: %s by \"%s\" %" PRIu64 "; wait for its completion (signal_wait), call "
		"bo_publish(), then %s\n",
		what, at, at - b->base - b->shift, b->owner, b->generation, b->size, b->base, pc,
		where.dli_sname   ? where.dli_sname
		: where.dli_fname ? where.dli_fname
				  : "an unknown file",
		g->readable ? "the device reads it," : "the device may be writing it,",
		g->by.what ? g->by.what : "unnamed work", g->by.number, what);
}

static void handler(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	uint64_t at = (uintptr_t)info->si_addr;

	for (unsigned i = 0; i < GUARDS; i++) {
		/* pairs with the release in bo_guard_close() */
		const struct bo *b = atomic_load_explicit(&guards[i].bo, memory_order_acquire);

		if (!b || at < guards[i].start || at >= guards[i].end)
			continue;
		say(&guards[i], b, at, (uint64_t)u->uc_mcontext.gregs[REG_RIP],
		    u->uc_mcontext.gregs[REG_ERR] & 2);
		abort();
	}
	/* Somebody else's: the instruction runs again, and finds who was there before. */
	sigaction(sig, &before, NULL);
}

static void install(void)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &sa, &before);
}

void bo_guard_close(struct bo *b, uint64_t offset, uint64_t bytes, bool readable,
		    const struct bo_work *by)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t start = b->base + offset, end = start + bytes;

	start = (start + BO_PAGE - 1) & ~(BO_PAGE - 1);
	end &= ~(BO_PAGE - 1);
	if (!b->cpu_mapped || b->placement == BO_DOORBELL || start >= end)
		return;
	pthread_once(&once, install);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < GUARDS; i++) {
		struct guard *g = &guards[i];

		if (g->bo)
			continue;
		g->start = start;
		g->end = end;
		g->readable = readable;
		g->by = by ? *by : (struct bo_work){0};
		/* pairs with the acquire in handler() */
		atomic_store_explicit(&g->bo, b, memory_order_release);
		mprotect((void *)(uintptr_t)start, end - start, readable ? PROT_READ : PROT_NONE);
		break;
	}
	pthread_mutex_unlock(&lock);
}

void bo_guard_open(struct bo *b)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < GUARDS; i++) {
		struct guard *g = &guards[i];

		if (g->bo != b)
			continue;
		mprotect((void *)(uintptr_t)g->start, g->end - g->start, PROT_READ | PROT_WRITE);
		g->bo = NULL;
	}
	pthread_mutex_unlock(&lock);
}
#endif
