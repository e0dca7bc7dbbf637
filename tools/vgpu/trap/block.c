/* What each of the client's threads needs for the handler: a stack, and a thread pointer of our
 * libc's.
 *
 * Thread pointers are lent: for each block a thread of ours is started that does nothing but sleep,
 * and whoever runs with its pointer is that thread for libc. Only code with a thread pointer of ours
 * can start one, so blocks are kept in store for the children of vfork(), which have ids of their own
 * and take one before they have anything.
 */
#include "trap/trap.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/rawsys.h"

#define STACK_BYTES (1u << 20)
#define ALT_BYTES   (64u << 10)
#define STORE       4 /* blocks ready for threads that appear unannounced */

_Static_assert(offsetof(struct block, fs) == 0 && offsetof(struct block, stack_top) == 8 &&
		       offsetof(struct block, client_fs) == 16 && offsetof(struct block, tid) == 48,
	       "offsets in entry.S");
_Static_assert(sizeof(stack_t) == 24, "the kernel's stack_t");

struct block **trap_blocks;
int trap_threads = 1;

static struct block *free_blocks, *cold_blocks; /* cold: without a thread pointer */
static unsigned n_free;
static int expected; /* children on their way */
static struct block *all[TRAP_STUB_BYTES / TRAP_STUB];
static unsigned n_all;
static int lock; /* held for a few instructions, with all signals blocked */

static void take_lock(void)
{
	for (unsigned tries = 0; __atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE);)
		raw_nap(&tries);
}

static void drop_lock(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static struct block *block_map(void)
{
	size_t bytes = 4096 + STACK_BYTES + ALT_BYTES + 4096;
	long at = rawsys6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct block *b;

	if (at < 0 && at > -4096)
		return NULL;
	/* guard, handler's stack, alternate stack, block */
	rawsys3(SYS_mprotect, at, 4096, PROT_NONE);
	b = (struct block *)(at + 4096 + STACK_BYTES + ALT_BYTES);
	_Static_assert(sizeof(struct block) <= 4096, "a page");
	b->stack_top = (uint64_t)at + 4096 + STACK_BYTES;
	b->alt = (stack_t){.ss_sp = (void *)b->stack_top, .ss_size = ALT_BYTES};
	take_lock();
	if (n_all < sizeof(all) / sizeof(all[0])) {
		b->index = n_all;
		all[n_all++] = b;
	} else {
		rawsys2(SYS_munmap, at, bytes);
		b = NULL;
	}
	drop_lock();
	return b;
}

static void *lender(void *arg)
{
	uint64_t *fs = arg;
	uint32_t never = 0;
	kernel_sigset block = ~0ull;

	/* libc leaves two of its own open. */
	rawsys4(SYS_rt_sigprocmask, SIG_SETMASK, &block, 0, sizeof(block));
	__atomic_store_n(fs, trap_get_fs(), __ATOMIC_RELEASE);
	rawsys6(SYS_futex, fs, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	for (;;)
		rawsys6(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	return NULL;
}

/* Called with all signals blocked, which the sleeper inherits. */
static int borrow_fs(struct block *b)
{
	uint64_t fs = 0;
	pthread_attr_t attr;
	pthread_t t;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, lender, &fs);
	pthread_attr_destroy(&attr);
	if (err)
		return -err;
	while (!__atomic_load_n(&fs, __ATOMIC_ACQUIRE))
		rawsys6(SYS_futex, &fs, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	b->fs = fs;
	return 0;
}

static void reset(struct block *b)
{
	b->tid = 0;
	b->leaving = b->other = b->foreign = b->sys_blocked = false;
	for (unsigned i = 0; i < TRAP_POSTS; i++)
		b->posts[i].used = false;
	if (b->exec_mem)
		rawsys2(SYS_munmap, b->exec_mem, b->exec_bytes);
	b->exec_mem = NULL;
}

void block_give(struct block *b)
{
	if (b->tid > 0)
		__atomic_store_n(&trap_blocks[b->tid], NULL, __ATOMIC_RELEASE);
	reset(b);
	take_lock();
	b->next = free_blocks;
	free_blocks = b;
	n_free++;
	drop_lock();
}

static struct block *pop(void)
{
	struct block *b;

	take_lock();
	b = free_blocks;
	if (b) {
		free_blocks = b->next;
		n_free--;
	}
	drop_lock();
	return b;
}

/* Takes back what belonged to threads that are gone. */
static void sweep(void)
{
	long pid = rawsys0(SYS_getpid);

	for (unsigned i = 0; i < __atomic_load_n(&n_all, __ATOMIC_ACQUIRE); i++) {
		struct block *b = all[i];

		if (b->leaving && rawsys3(SYS_tgkill, pid, b->tid, 0) == -ESRCH)
			block_give(b);
	}
}

static struct block *make(void)
{
	struct block *b;

	take_lock();
	b = cold_blocks;
	if (b)
		cold_blocks = b->next;
	drop_lock();
	if (!b)
		b = block_map();
	if (!b || !borrow_fs(b))
		return b;
	take_lock();
	b->next = cold_blocks;
	cold_blocks = b;
	drop_lock();
	return NULL;
}

struct block *block_take(void)
{
	struct block *b = NULL;

	/* Those in store are spoken for. */
	if ((int)__atomic_load_n(&n_free, __ATOMIC_RELAXED) <=
	    __atomic_load_n(&expected, __ATOMIC_RELAXED))
		sweep();
	if ((int)__atomic_load_n(&n_free, __ATOMIC_RELAXED) >
	    __atomic_load_n(&expected, __ATOMIC_RELAXED))
		b = pop();
	return b ? b : make();
}

bool blocks_expect(int n)
{
	int want = __atomic_add_fetch(&expected, n, __ATOMIC_RELAXED);

	if (n < 0)
		return true;
	sweep();
	while ((int)__atomic_load_n(&n_free, __ATOMIC_RELAXED) < want) {
		struct block *b = make();

		if (!b) {
			__atomic_sub_fetch(&expected, n, __ATOMIC_RELAXED);
			return false;
		}
		block_give(b);
	}
	return true;
}

struct block *block_by_index(unsigned i)
{
	return all[i];
}

struct block *block_adopt(long tid)
{
	struct block *b = pop();

	/* Another's child was faster: its parent is about to make room. */
	for (unsigned tries = 0; !b;) {
		static const char text[] = "vgpu-trap: no memory for another thread\n";

		if (tries == 10000) {
			rawsys3(SYS_write, STDERR_FILENO, text, sizeof(text) - 1);
			rawsys1(SYS_exit_group, 127);
		}
		raw_nap(&tries);
		b = pop();
	}
	b->tid = (int)tid;
	/* The first thread of a process that shares our memory. */
	b->other = b->foreign = rawsys0(SYS_getpid) == tid;
	__atomic_store_n(&trap_blocks[tid], b, __ATOMIC_RELEASE);
	return b;
}

void blocks_forked(struct block *me)
{
	long tid = rawsys0(SYS_gettid);

	lock = 0;
	expected = 0;
	free_blocks = cold_blocks = NULL;
	n_free = 0;
	for (unsigned i = 0; i < n_all; i++) {
		struct block *b = all[i];

		if (b->tid)
			trap_blocks[b->tid] = NULL;
		if (b == me)
			continue;
		/* The others' lenders are not here: libc may give their memory to new threads. */
		reset(b);
		b->next = cold_blocks;
		cold_blocks = b;
	}
	me->tid = (int)tid;
	trap_blocks[tid] = me;
	trap_threads = 1;
}

int blocks_init(void)
{
	long at = rawsys6(SYS_mmap, 0, TRAP_TIDS * sizeof(*trap_blocks), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct block *b;

	if (at < 0 && at > -4096)
		return (int)at;
	trap_blocks = (struct block **)at;
	b = block_map();
	if (!b)
		return -ENOMEM;
	b->fs = trap_get_fs();
	b->tid = (int)rawsys0(SYS_gettid);
	trap_blocks[b->tid] = b;
	return 0;
}
