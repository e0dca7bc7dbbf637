/* A client of the command processor for tests: device memory, an AQL queue set up by hand, kernels,
 * packets, and a thread that collects interrupts.
 *
 * Programs are gfx1151 machine code; the assembly each comes from stands above it
 * (llvm-mc-19 -triple=amdgcn -mcpu=gfx1151).
 */
#ifndef VGPU_CP_CLIENT_H
#define VGPU_CP_CLIENT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cp/cp.h"
#include "device.h"

/* out[i] = group << 16 | v0, with i = group * kernarg[8] + x
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_load_b32 s6, s[0:1], 0x8;  s_waitcnt lgkmcnt(0)
 *	s_mul_i32 s7, s2, s6;  v_and_b32 v1, 0x3ff, v0;  v_add_nc_u32 v2, s7, v1
 *	v_lshlrev_b32 v2, 2, v2;  s_lshl_b32 s8, s2, 16;  v_or_b32 v3, s8, v0
 *	global_store_b32 v2, v3, s[4:5];  s_endpgm */
static const uint32_t P_IDS[] = {
	0xf4040100, 0xf8000000, 0xf4000180, 0xf8000008, 0xbf89fc07,
	0x96070602, 0x360200ff, 0x000003ff, 0x4a040207, 0x30040482,
	0x84089002, 0x38060008, 0xdc6a0000, 0x00040302, 0xbfb00000,
};
/* every lane adds 1 to *out
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_mov_b32 v1, 0;  v_mov_b32 v2, 1;  s_waitcnt lgkmcnt(0)
 *	global_atomic_add_u32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_COUNT[] = {
	0xf4040100, 0xf8000000, 0x7e020280, 0x7e040281,
	0xbf89fc07, 0xdcd60000, 0x00040201, 0xbfb00000,
};
/* spins until out[2] is not 0, then like P_COUNT
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_waitcnt lgkmcnt(0)
 * L:	s_load_b32 s6, s[4:5], 0x8 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  v_mov_b32 v1, 0;  v_mov_b32 v2, 1
 *	global_atomic_add_u32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_SPIN[] = {
	0xf4040100, 0xf8000000, 0xbf89fc07, 0xf4004182, 0xf8000008, 0xbf89fc07, 0xbf068006,
	0xbfa2fffb, 0x7e020280, 0x7e040281, 0xdcd60000, 0x00040201, 0xbfb00000,
};
/* one lane of each group adds 1 to out[0], spins until it reads kernarg[8], adds 1 to out[1]
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_load_b32 s6, s[0:1], 0x8;  v_mov_b32 v1, 0
 *	v_mov_b32 v2, 1;  s_mov_b32 exec_lo, 1;  s_waitcnt lgkmcnt(0)
 *	global_atomic_add_u32 v1, v2, s[4:5]
 * L:	s_load_b32 s7, s[4:5], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_lg_u32 s7, s6
 *	s_cbranch_scc1 L;  global_atomic_add_u32 v1, v2, s[4:5] offset:4;  s_endpgm */
static const uint32_t P_GRID[] = {
	0xf4040100, 0xf8000000, 0xf4000180, 0xf8000008, 0x7e020280, 0x7e040281,
	0xbefe0081, 0xbf89fc07, 0xdcd60000, 0x00040201, 0xf40041c2, 0xf8000000,
	0xbf89fc07, 0xbf070607, 0xbfa2fffb, 0xdcd60004, 0x00040201, 0xbfb00000,
};
/* groups of 128: lds[t] = 3t; barrier; out[t] = lds[127 - t]
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_and_b32 v0, 0x3ff, v0;  v_lshlrev_b32 v1, 2, v0
 *	v_mul_u32_u24 v2, 3, v0;  ds_store_b32 v1, v2;  s_waitcnt lgkmcnt(0);  s_barrier
 *	v_sub_nc_u32 v3, 0x1fc, v1;  ds_load_b32 v4, v3;  s_waitcnt lgkmcnt(0)
 *	global_store_b32 v1, v4, s[4:5];  s_endpgm */
static const uint32_t P_BARRIER[] = {
	0xf4040100, 0xf8000000, 0x360000ff, 0x000003ff, 0x30020082, 0x16040083,
	0xd8340000, 0x00000201, 0xbf89fc07, 0xbfbd0000, 0x4c0602ff, 0x000001fc,
	0xd8d80000, 0x04000003, 0xbf89fc07, 0xdc6a0000, 0x00040401, 0xbfb00000,
};
/* lane 5 stores 7 to *out
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_mov_b32 exec_lo, 0x20;  v_mov_b32 v1, 0
 *	v_mov_b32 v2, 7;  s_waitcnt lgkmcnt(0);  global_store_b32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_STORE[] = {
	0xf4040100, 0xf8000000, 0xbefe00a0, 0x7e020280, 0x7e040287,
	0xbf89fc07, 0xdc6a0000, 0x00040201, 0xbfb00000,
};
/* s_trap 3 before *out = 9
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_mov_b32 v1, 0;  v_mov_b32 v2, 9;  s_trap 3
 *	s_waitcnt lgkmcnt(0);  global_store_b32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_TRAP[] = {
	0xf4040100, 0xf8000000, 0x7e020280, 0x7e040289, 0xbf900003,
	0xbf89fc07, 0xdc6a0000, 0x00040201, 0xbfb00000,
};
/* A second-level handler: tma[0] = ttmp1, tma[1] = doorbell, reports exception 2, returns
 *	v_mov_b32 v10, 0;  v_mov_b32 v11, ttmp1;  global_store_b32 v10, v11, ttmp[14:15]
 *	s_sendmsg_rtn_b32 ttmp4, sendmsg(MSG_RTN_GET_DOORBELL);  s_waitcnt lgkmcnt(0)
 *	v_mov_b32 v11, ttmp4;  global_store_b32 v10, v11, ttmp[14:15] offset:4
 *	s_mov_b32 ttmp4, m0;  s_mov_b32 m0, 0x807;  s_nop 0;  s_sendmsg sendmsg(MSG_INTERRUPT)
 *	s_mov_b32 m0, ttmp4;  s_add_u32 ttmp0, ttmp0, 4;  s_addc_u32 ttmp1, ttmp1, 0
 *	s_and_b32 ttmp1, ttmp1, 0xffff;  s_rfe_b64 ttmp[0:1] */
static const uint32_t P_HANDLER[] = {
	0x7e140280, 0x7e16026d, 0xdc6a0000, 0x007a0b0a, 0xbef04c80, 0xbf89fc07, 0x7e160270,
	0xdc6a0004, 0x007a0b0a, 0xbef0007d, 0xbefd00ff, 0x00000807, 0xbf800000, 0xbfb60001,
	0xbefd0070, 0x806c846c, 0x826d806d, 0x8b6dff6d, 0x0000ffff, 0xbe804a6c,
};
/* s_nop 0;  no such instruction */
static const uint32_t P_ILLEGAL[] = {0xbf800000, 0xbfff0000, 0xbfb00000};
/* s_nop 0;  exp mrt0 v0, v0, v0, v0 done;  s_endpgm */
static const uint32_t P_EXPORT[] = {0xbf800000, 0xf800080f, 0x00000000, 0xbfb00000};
/* out[32 * group + x] = 5x, by way of scratch
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_and_b32 v0, 0x3ff, v0;  v_mul_u32_u24 v1, 5, v0
 *	scratch_store_b32 off, v1, off offset:16;  s_waitcnt_vscnt null, 0x0
 *	scratch_load_b32 v2, off, off offset:16;  v_lshlrev_b32 v3, 2, v0
 *	s_waitcnt vmcnt(0) lgkmcnt(0);  s_lshl_b32 s6, s2, 8;  v_add_nc_u32 v3, s6, v3
 *	global_store_b32 v3, v2, s[4:5];  s_endpgm */
static const uint32_t P_SCRATCH[] = {
	0xf4040100, 0xf8000000, 0x360000ff, 0x000003ff, 0x16020085, 0xdc690010,
	0x007c0100, 0xbc7c0000, 0xdc510010, 0x027c0000, 0x30060082, 0xbf890007,
	0x84068802, 0x4a060606, 0xdc6a0000, 0x00040203, 0xbfb00000,
};
/* s_mov_b32 m0, 5;  s_nop 0;  s_sendmsg sendmsg(MSG_INTERRUPT);  s_endpgm */
static const uint32_t P_MSG[] = {0xbefd0085, 0xbf800000, 0xbfb60001, 0xbfb00000};
/* sleeps until out[2] is not 0
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_waitcnt lgkmcnt(0)
 * L:	s_sleep 10;  s_load_b32 s6, s[4:5], 0x8 glc;  s_waitcnt lgkmcnt(0)
 *	s_cmp_eq_u32 s6, 0;  s_cbranch_scc1 L;  s_endpgm */
static const uint32_t P_SLEEP[] = {
	0xf4040100, 0xf8000000, 0xbf89fc07, 0xbf83000a, 0xf4004182,
	0xf8000008, 0xbf89fc07, 0xbf068006, 0xbfa2fffa, 0xbfb00000,
};

/* ---- a client ------------------------------------------------------------ */

enum {
	RING = 0x100000,
	PAGE = 0x110000, /* amd_queue_t, signals */
	CODE = 0x200000,
	ARGS = 0x300000,
	DATA = 0x400000,
	SCRATCH = 0x10000000,
	RING_BYTES = 4096,
	DATA_BYTES = 1 << 20,
	SCRATCH_BYTES = 4 << 20,
	INACTIVE = 0x200, /* offsets in PAGE */
	DOORBELL = 0x240,
	SIGNALS = 0x300,
	MAILBOX = 0xe00,
	BELL = 3,
};

static struct vm *vm;
static struct vm_bo *ring_bo, *page_bo, *code_bo, *args_bo, *data_bo, *scratch_bo;
static uint8_t *ring, *page, *code, *args, *scratch;
static volatile uint32_t *data;
static struct cp_doorbells *bells;
static volatile uint64_t *bell_page;
static struct cp_queue *queue;
static struct cp_mqd mqd;
static uint64_t next_packet;
static uint32_t code_used;

static struct cp_irq irqs[64];
static unsigned nirqs;
static pthread_t irq_thread;

static inline void *collect(void *arg)
{
	struct cp_irq irq;

	(void)arg;
	while (cp_irq_next(&irq)) {
		unsigned n = __atomic_load_n(&nirqs, __ATOMIC_RELAXED);

		if (n < 64) {
			irqs[n] = irq;
			__atomic_store_n(&nirqs, n + 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Waits for cond: a minute, on a machine that has other things to do. */
#define WAIT_FOR(cond)                                                                             \
	({                                                                                         \
		uint64_t end_ = now_ns() + 60000000000u;                                           \
		bool ok_;                                                                          \
		while (!(ok_ = (cond)) && now_ns() < end_)                                         \
			usleep(50);                                                                \
		ok_;                                                                               \
	})

static inline const struct cp_irq *irq(unsigned i)
{
	cr_assert(WAIT_FOR(__atomic_load_n(&nirqs, __ATOMIC_ACQUIRE) > i),
		  "interrupt %u is missing", i);
	return &irqs[i];
}

static inline void *map_bo(struct vm_bo **bo, uint64_t va, uint64_t size, unsigned perm)
{
	cr_assert_eq(vm_bo_alloc(VM_POOL_GTT, size, bo), 0);
	cr_assert_eq(vm_map(vm, gva(va), size, *bo, 0, perm, VM_MTYPE_NC), 0);
	return vm_bo_kmap(*bo);
}

#define U32(off) (*(uint32_t *)(page + (off)))
#define U64(off) (*(uint64_t *)(page + (off)))

static inline void fill_amd_queue(void)
{
	U32(0x04) = 1;
	U64(0x08) = RING;
	U64(0x10) = PAGE + DOORBELL;
	U32(0x18) = RING_BYTES / 64;
	U64(0x20) = 1;
	U32(0x40) = 0x10000;
	U32(0x44) = 0x20000;
	U32(0x48) = 39;
	U32(0x4c) = 31;
	U32(0x88) = 0x80;
	U32(0x94) = 0x40000000;
	U32(0x9c) = 0x20814fac;
	U32(0xb4) = 2;
	U64(0xb8) = ~0ull;
	U64(0xc0) = PAGE + INACTIVE;
	U64(0xd0) = ~0ull;
	*(int64_t *)(page + INACTIVE) = 1;
	*(int64_t *)(page + DOORBELL) = -1;
	*(uint64_t *)(page + DOORBELL + 8) = (uint64_t)(bell_page + BELL);
	*(uint64_t *)(page + DOORBELL + 0x30) = PAGE;
}

static inline void open_device(void)
{
	const char *workers = getenv("TEST_WORKERS");
	uint64_t off;
	int fd;

	vgpu_config.cus = 40;
	vgpu_config.isa = true;
	vgpu_config.workers = workers ? (uint32_t)atoi(workers) : 2;
	cr_assert_eq(vm_pools_init(16 << 20, 64 << 20), 0);
	cr_assert_eq(vm_create(&vm), 0);
	ring = map_bo(&ring_bo, RING, RING_BYTES, VM_W | VM_X);
	page = map_bo(&page_bo, PAGE, 4096, VM_W);
	code = map_bo(&code_bo, CODE, 65536, VM_X);
	args = map_bo(&args_bo, ARGS, 4096, VM_W);
	data = map_bo(&data_bo, DATA, DATA_BYTES, VM_W);
	scratch = map_bo(&scratch_bo, SCRATCH, SCRATCH_BYTES, VM_W);
	for (unsigned i = 0; i < RING_BYTES; i += 64)
		*(uint16_t *)(ring + i) = 1;
	cr_assert_eq(cp_doorbells_create(vm, &bells, &fd, &off), 0);
	bell_page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)off);
	cr_assert_neq((void *)bell_page, MAP_FAILED);
	cp_doorbells_mapped(bells, (void *)bell_page, 8192);
	fill_amd_queue();
	mqd = (struct cp_mqd){
		.type = CP_AQL,
		.vm = vm,
		.queue_id = 1,
		.doorbell = BELL,
		.ring = gva(RING),
		.ring_bytes = RING_BYTES,
		.rptr = gva(PAGE + 0x80),
		.wptr = gva(PAGE + 0x38),
		.ctl_stack_bytes = 0x4000,
		.lds_base = 0x1000000000000,
		.scratch_base = 0x2000000000000,
	};
}

static inline void start(void)
{
	open_device();
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
}

static inline void stop(void)
{
	if (cp_queue_mapped(queue))
		cr_assert_eq(cp_queue_unmap(queue), 0);
	cp_queue_destroy(queue);
	cp_stop();
	pthread_join(irq_thread, NULL);
	cp_doorbells_unmapped(bells, (void *)bell_page, 8192);
	munmap((void *)bell_page, 8192);
	cp_doorbells_destroy(bells);
	vm_destroy(vm);
	vm_bo_unref(ring_bo);
	vm_bo_unref(page_bo);
	vm_bo_unref(code_bo);
	vm_bo_unref(args_bo);
	vm_bo_unref(data_bo);
	vm_bo_unref(scratch_bo);
	cr_assert_eq(vm_pool_used(VM_POOL_GTT), 0);
	vm_pools_fini();
}

/* Places a kernel: descriptor and code. Two user SGPRs hold the kernel arguments' address, s2 the
 * workgroup's x. Returns the kernel object. */
#define KERNEL(p) kernel_at(p, sizeof(p), 0, 0x400 | 8)
static inline uint64_t kernel_at(const uint32_t *words, size_t bytes, uint32_t rsrc2,
				 uint16_t properties)
{
	uint32_t at = code_used;

	memset(code + at, 0, 64);
	*(int64_t *)(code + at + 16) = 256;
	*(uint32_t *)(code + at + 48) = 1 | 0xc0u << 12 | 1u << 21 | 1u << 23; /* 16 VGPRs */
	*(uint32_t *)(code + at + 52) = 2 << 1 | 1 << 7 | 2 << 11 | rsrc2;
	*(uint16_t *)(code + at + 56) = properties;
	memcpy(code + at + 256, words, bytes);
	code_used += 256 + (uint32_t)((bytes + 511) & ~255ul);
	return CODE + at;
}

struct packet {
	uint16_t header, setup, wg[3], reserved0;
	uint32_t grid[3], private_bytes, group_bytes;
	uint64_t kernel, kernarg, reserved2, signal;
};

static inline struct packet packet(uint64_t kernel, uint32_t grid, uint16_t wg, uint64_t signal)
{
	return (struct packet){
		.header = 2 | 1 << 8 | 2 << 9 | 2 << 11,
		.setup = 1,
		.wg = {wg, 1, 1},
		.grid = {grid, 1, 1},
		.kernel = kernel,
		.kernarg = ARGS,
		.signal = signal,
	};
}

static inline uint64_t sig(unsigned i, int64_t value)
{
	int64_t *s = (int64_t *)(page + SIGNALS + 64 * i);

	s[0] = 1;
	s[1] = value;
	return PAGE + SIGNALS + 64 * i;
}

static inline int64_t value(unsigned i)
{
	return __atomic_load_n((int64_t *)(page + SIGNALS + 64 * i + 8), __ATOMIC_ACQUIRE);
}

static inline void write_packet(uint64_t index, const void *p)
{
	uint8_t *slot = ring + index % (RING_BYTES / 64) * 64;
	uint32_t first;

	memcpy(slot + 4, (const uint8_t *)p + 4, 60);
	memcpy(&first, p, 4);
	__atomic_store_n((uint32_t *)slot, first, __ATOMIC_RELEASE);
}

static inline void ring_bell(uint64_t v)
{
	__atomic_store_n((uint64_t *)&bell_page[BELL], v, __ATOMIC_RELEASE);
}

static inline void submit(const void *p)
{
	write_packet(next_packet, p);
	next_packet++;
	__atomic_store_n(&U64(0x38), next_packet, __ATOMIC_RELEASE);
	ring_bell(next_packet - 1);
}

static inline uint64_t read_index(void)
{
	return __atomic_load_n(&U64(0x80), __ATOMIC_ACQUIRE);
}

static inline void kernargs(uint64_t out, uint32_t n)
{
	*(uint64_t *)args = out;
	*(uint32_t *)(args + 8) = n;
}

static inline double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CPU time that a rest of so many microseconds costs. The least of some: a thread of the device that
 * had no core for a while still has to go to sleep when the first one begins. */
static inline double idle_cost(useconds_t us, double bar)
{
	double least = 1e9;

	for (unsigned i = 0; i < 10 && least >= bar; i++) {
		double t = cpu_seconds();

		usleep(us);
		t = cpu_seconds() - t;
		if (t < least)
			least = t;
	}
	return least;
}

#endif
