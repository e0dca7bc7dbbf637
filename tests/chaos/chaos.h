/* Schedule chaos: a build in which no thread is ever on time.
 *
 * `make CHAOS=1` includes this file ahead of everything. Locks, condition variables, thread starts,
 * atomics and raw system calls become points at which a thread may give its core away or sleep,
 * and waits may end without a reason, as POSIX and futex(2) allow. What is correct stays correct;
 * what relied on one thread being faster than another fails. The sources say nothing of it.
 *
 * The environment decides, once per process (VGPU_CHAOS, comma separated; unset: nothing happens):
 *
 *   seed=N        which schedule
 *   every=N       points between two naps, on average (default 60; an atomic is a tenth of one)
 *   us=N          a nap sleeps up to so many microseconds, or only yields (default 200)
 *   late=CLASS    threads of this class are late on top of that: each nap lasts up to late_ms.
 *                 A class is the thread's start routine (irq_main, cp_main, worker_main, news_main,
 *                 timer_main, ...), "client" for every thread that somebody else started, or the
 *                 program: "vgpud", "vgpu-jitc"
 *   late_ms=N     default 20
 *   report=FILE   one line per process, appended at exit: program, points, naps, early wake-ups
 *
 * A thread's naps depend on the seed, its class, which one of its class it is, and on how many
 * points it has passed: as reproducible as threads are.
 */
#ifndef TESTS_CHAOS_H
#define TESTS_CHAOS_H

#if defined(CHAOS) && !defined(ISA_JIT) && !defined(__ASSEMBLER__)

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "tools/vgpu/vm/rawsys.h"

#define CHAOS_API __attribute__((visibility("hidden")))

/* Costs of points, in tenths. */
enum { CHAOS_ATOMIC = 1, CHAOS_POINT = 10 };

extern CHAOS_API __thread int chaos_left __attribute__((tls_model("initial-exec")));

CHAOS_API void chaos_nap(void);
CHAOS_API int chaos_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
			   const char *name);
CHAOS_API bool chaos_early(void);
CHAOS_API long chaos_rawsys(long nr, long a, long b, long c, long d, long e, long f);

static inline void chaos_point(int cost)
{
	chaos_left -= cost;
	if (__builtin_expect(chaos_left < 0, 0))
		chaos_nap();
}

/* A wait that ends at once, for no reason; the lock is given up in between. */
static inline bool chaos_wait(pthread_mutex_t *m)
{
	chaos_point(CHAOS_POINT);
	if (!chaos_early())
		return false;
	pthread_mutex_unlock(m);
	chaos_nap();
	pthread_mutex_lock(m);
	return true;
}

#define CHAOS_BESIDE(call)                                                                         \
	__extension__({                                                                            \
		chaos_point(CHAOS_POINT);                                                          \
		__typeof__(call) chaos_ret = (call);                                               \
		chaos_point(CHAOS_POINT);                                                          \
		chaos_ret;                                                                         \
	})

#ifndef CHAOS_NONE

#define pthread_mutex_lock(m)       CHAOS_BESIDE(pthread_mutex_lock(m))
#define pthread_mutex_unlock(m)     CHAOS_BESIDE(pthread_mutex_unlock(m))
#define pthread_mutex_trylock(m)    CHAOS_BESIDE(pthread_mutex_trylock(m))
#define pthread_rwlock_rdlock(m)    CHAOS_BESIDE(pthread_rwlock_rdlock(m))
#define pthread_rwlock_wrlock(m)    CHAOS_BESIDE(pthread_rwlock_wrlock(m))
#define pthread_rwlock_unlock(m)    CHAOS_BESIDE(pthread_rwlock_unlock(m))
#define pthread_cond_signal(c)      CHAOS_BESIDE(pthread_cond_signal(c))
#define pthread_cond_broadcast(c)   CHAOS_BESIDE(pthread_cond_broadcast(c))
#define pthread_join(t, r)          CHAOS_BESIDE(pthread_join(t, r))
#define pthread_barrier_wait(b)     CHAOS_BESIDE(pthread_barrier_wait(b))
#define pthread_cond_wait(c, m)     (chaos_wait(m) ? 0 : CHAOS_BESIDE(pthread_cond_wait(c, m)))
#define pthread_create(t, a, fn, p) chaos_create(t, a, fn, p, #fn)
#define pthread_cond_timedwait(c, m, until)                                                        \
	(chaos_wait(m) ? 0 : CHAOS_BESIDE(pthread_cond_timedwait(c, m, until)))
#define pthread_cond_clockwait(c, m, clock, until)                                                 \
	(chaos_wait(m) ? 0 : CHAOS_BESIDE(pthread_cond_clockwait(c, m, clock, until)))

#define rawsys(nr, a, b, c, d, e, f) chaos_rawsys(nr, a, b, c, d, e, f)

/* Before an atomic only: what is between two of them is between one and the point of the next. */
#define CHAOS_BEFORE(call) (chaos_point(CHAOS_ATOMIC), call)

#define __atomic_load_n(...)             CHAOS_BEFORE(__atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...)            CHAOS_BEFORE(__atomic_store_n(__VA_ARGS__))
#define __atomic_exchange_n(...)         CHAOS_BEFORE(__atomic_exchange_n(__VA_ARGS__))
#define __atomic_fetch_add(...)          CHAOS_BEFORE(__atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_sub(...)          CHAOS_BEFORE(__atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_or(...)           CHAOS_BEFORE(__atomic_fetch_or(__VA_ARGS__))
#define __atomic_fetch_and(...)          CHAOS_BEFORE(__atomic_fetch_and(__VA_ARGS__))
#define __atomic_add_fetch(...)          CHAOS_BEFORE(__atomic_add_fetch(__VA_ARGS__))
#define __atomic_sub_fetch(...)          CHAOS_BEFORE(__atomic_sub_fetch(__VA_ARGS__))
#define __atomic_thread_fence(...)       CHAOS_BEFORE(__atomic_thread_fence(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) CHAOS_BEFORE(__atomic_compare_exchange_n(__VA_ARGS__))

#endif
#endif
#endif
