/* Code from which the client makes the calls that are not the device's.
 *
 * A slot belongs to the place in the client that was trapped and ends with a jump back to it, so it
 * needs no register, no stack and no thread pointer, may be used by any number of threads at once,
 * and a child of clone() or vfork() leaves it as it left the parent's system call.
 *
 * A call that has to come back to the handler belongs to the thread: it keeps its result and makes
 * the call that only our filter knows. That number traps from anywhere, so that the filter need not
 * look at where a call comes from unless its number is one of those it wants: the kernel finds out
 * once which are always allowed, and then runs no filter for them.
 */
#include "trap/trap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "vm/rawsys.h"

#define SLOTS  (TRAP_GATE_BYTES / TRAP_SLOT)
#define HASHED (2 * SLOTS)

struct slot {
	uint8_t code[8];
	uint64_t ret;
};
_Static_assert(sizeof(struct slot) == TRAP_SLOT, "a slot");

static const uint8_t slot_code[8] = {
	0x0f, 0x05,                         /* syscall */
	0xff, 0x25, 0x00, 0x00, 0x00, 0x00, /* jmp *ret(%rip) */
};

struct post_stub {
	uint8_t code[24];
	int64_t result;
};
_Static_assert(sizeof(struct post_stub) <= TRAP_POST_SIZE &&
		       TRAP_POST + TRAP_POSTS * TRAP_POST_SIZE <= TRAP_STUB,
	       "stubs of a thread");

#define CALLED  2  /* behind the client's call */
#define TRAPPED 16 /* behind the one that traps */

static const uint8_t post_code[24] = {
	0x0f,
	0x05, /* 0: syscall */
	0x48,
	0x89,
	0x05,
	0x0f,
	0x00,
	0x00,
	0x00, /* 2: mov %rax, result(%rip) */
	0xb8,
	TRAP_CALL_BACK & 0xff,
	TRAP_CALL_BACK >> 8 & 0xff,
	TRAP_CALL_BACK >> 16,
	0,
	0x0f,
	0x05, /* 14: syscall */
	0x0f,
	0x0b, /* 16: ud2 */
};

static struct slot *const slots = (struct slot *)TRAP_GATE;
static uint32_t hashed[HASHED]; /* slot + 1, by return address */
static uint32_t used;
static int lock;

static bool map_at(uint64_t at, size_t bytes)
{
	return rawsys6(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1,
		       0) == (long)at;
}

int gate_init(void)
{
	return map_at(TRAP_GATE, TRAP_GATE_BYTES) && map_at(TRAP_STUBS, TRAP_STUB_BYTES) ? 0
											 : -EEXIST;
}

static uint32_t hash(uint64_t ret)
{
	return (uint32_t)((ret * 0x9e3779b97f4a7c15ull) >> 40) % HASHED;
}

/* The slot, or where it would go. */
static uint64_t look_up(uint64_t ret, uint32_t *at)
{
	for (uint32_t h = hash(ret);; h = (h + 1) % HASHED) {
		uint32_t s = __atomic_load_n(&hashed[h], __ATOMIC_ACQUIRE);

		if (s && slots[s - 1].ret == ret)
			return (uint64_t)&slots[s - 1];
		if (!s) {
			*at = h;
			return 0;
		}
	}
}

uint64_t gate_slot(uint64_t ret)
{
	uint32_t at;
	uint64_t s = look_up(ret, &at);

	if (s)
		return s;
	for (unsigned tries = 0; __atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE);)
		raw_nap(&tries);
	s = look_up(ret, &at);
	if (!s && used < SLOTS) {
		struct slot *n = &slots[used++];

		memcpy(n->code, slot_code, sizeof(slot_code));
		n->ret = ret;
		/* Pairs with the acquire in look_up(): who finds the slot finds its code. */
		__atomic_store_n(&hashed[at], used, __ATOMIC_RELEASE);
		s = (uint64_t)n;
	}
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	return s;
}

void gate_forked(void)
{
	lock = 0;
}

static struct post_stub *post_stub(const struct block *b, unsigned i)
{
	return (struct post_stub *)(TRAP_STUBS + b->index * (uint64_t)TRAP_STUB + TRAP_POST +
				    (uint64_t)i * TRAP_POST_SIZE);
}

uint64_t gate_post(const struct block *b, unsigned i)
{
	struct post_stub *s = post_stub(b, i);

	memcpy(s->code, post_code, sizeof(post_code));
	return (uint64_t)s;
}

bool gate_posted(uint64_t ip, unsigned *block, unsigned *i, long *result)
{
	uint64_t at = ip - TRAPPED - TRAP_STUBS;

	if (at >= TRAP_STUB_BYTES)
		return false;
	*block = (unsigned)(at / TRAP_STUB);
	*i = (unsigned)(at % TRAP_STUB - TRAP_POST) / TRAP_POST_SIZE;
	*result = ((struct post_stub *)(ip - TRAPPED))->result;
	return *i < TRAP_POSTS;
}

uint64_t gate_start(const struct block *b, uint64_t ret, uint64_t failed)
{
	size_t code = (uintptr_t)trap_start_data - (uintptr_t)trap_start_code;
	uint64_t at = TRAP_STUBS + (uint64_t)b->index * TRAP_STUB;
	uint64_t *data = (uint64_t *)(at + code);

	memcpy((void *)at, trap_start_code, code);
	data[0] = ret;
	data[1] = failed + CALLED;
	data[4] = (uint64_t)&b->alt;
	data[5] = (uint64_t)trap_blocks;
	data[6] = (uint64_t)b;
	return at;
}
