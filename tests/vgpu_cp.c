/* The command processor: queues, packets, workgroups, errors, driven without the kernel side.
 *
 * Programs are gfx1151 machine code; the assembly each comes from stands above it
 * (llvm-mc-19 -triple=amdgcn -mcpu=gfx1151).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

static void *collect(void *arg)
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

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Waits up to five seconds for cond. */
#define WAIT_FOR(cond)                                                                             \
	({                                                                                         \
		uint64_t end_ = now_ns() + 5000000000u;                                            \
		bool ok_;                                                                          \
		while (!(ok_ = (cond)) && now_ns() < end_)                                         \
			usleep(50);                                                                \
		ok_;                                                                               \
	})

static const struct cp_irq *irq(unsigned i)
{
	cr_assert(WAIT_FOR(__atomic_load_n(&nirqs, __ATOMIC_ACQUIRE) > i),
		  "interrupt %u is missing", i);
	return &irqs[i];
}

static void *map_bo(struct vm_bo **bo, uint64_t va, uint64_t size, unsigned perm)
{
	cr_assert_eq(vm_bo_alloc(VM_POOL_GTT, size, bo), 0);
	cr_assert_eq(vm_map(vm, gva(va), size, *bo, 0, perm, VM_MTYPE_NC), 0);
	return vm_bo_kmap(*bo);
}

#define U32(off) (*(uint32_t *)(page + (off)))
#define U64(off) (*(uint64_t *)(page + (off)))

static void fill_amd_queue(void)
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

static void open_device(void)
{
	uint64_t off;
	int fd;

	vgpu_config.cus = 40;
	vgpu_config.isa = true;
	vgpu_config.workers = 2;
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

static void start(void)
{
	open_device();
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
}

static void stop(void)
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

TestSuite(vgpu_cp, .init = start, .fini = stop, .timeout = 60);

/* Places a kernel: descriptor and code. Two user SGPRs hold the kernel arguments' address, s2 the
 * workgroup's x. Returns the kernel object. */
#define KERNEL(p) kernel_at(p, sizeof(p), 0, 0x400 | 8)
static uint64_t kernel_at(const uint32_t *words, size_t bytes, uint32_t rsrc2, uint16_t properties)
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

static struct packet packet(uint64_t kernel, uint32_t grid, uint16_t wg, uint64_t signal)
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

static uint64_t sig(unsigned i, int64_t value)
{
	int64_t *s = (int64_t *)(page + SIGNALS + 64 * i);

	s[0] = 1;
	s[1] = value;
	return PAGE + SIGNALS + 64 * i;
}

static int64_t value(unsigned i)
{
	return __atomic_load_n((int64_t *)(page + SIGNALS + 64 * i + 8), __ATOMIC_ACQUIRE);
}

static void write_packet(uint64_t index, const void *p)
{
	uint8_t *slot = ring + index % (RING_BYTES / 64) * 64;
	uint32_t first;

	memcpy(slot + 4, (const uint8_t *)p + 4, 60);
	memcpy(&first, p, 4);
	__atomic_store_n((uint32_t *)slot, first, __ATOMIC_RELEASE);
}

static void ring_bell(uint64_t v)
{
	__atomic_store_n((uint64_t *)&bell_page[BELL], v, __ATOMIC_RELEASE);
}

static void submit(const void *p)
{
	write_packet(next_packet, p);
	next_packet++;
	__atomic_store_n(&U64(0x38), next_packet, __ATOMIC_RELEASE);
	ring_bell(next_packet - 1);
}

static uint64_t read_index(void)
{
	return __atomic_load_n(&U64(0x80), __ATOMIC_ACQUIRE);
}

static void kernargs(uint64_t out, uint32_t n)
{
	*(uint64_t *)args = out;
	*(uint32_t *)(args + 8) = n;
}

/* ---- dispatch ------------------------------------------------------------ */

Test(vgpu_cp, a_dispatch_completes)
{
	struct packet p = packet(KERNEL(P_IDS), 1000, 64, sig(0, 1));
	struct cp_stats st;

	kernargs(DATA, 64);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned i = 0; i < 1000; i++)
		cr_assert_eq(data[i], (i / 64) << 16 | i % 64, "item %u is 0x%x", i, data[i]);
	cr_assert_eq(data[1000], 0, "the last workgroup is cut off at the grid's edge");
	cr_assert_eq(read_index(), 1);
	cr_assert_eq(*(uint16_t *)ring, 1, "a consumed header is INVALID");
	cp_stats(&st);
	cr_assert_eq(st.packets, 1);
	cr_assert_eq(st.dispatches, 1);
	cr_assert_eq(st.groups, 16);
	cr_assert_eq(st.waves, 32, "16 groups of 2, the last one of 40 items");
	cr_assert_eq(st.insns, 32 * 11);
	cr_assert_eq(nirqs, 0, "no mailbox, no interrupt");
}

Test(vgpu_cp, work_item_ids_of_three_dimensions)
{
	struct packet p = packet(KERNEL(P_IDS), 5, 4, sig(0, 1));

	/* 5 x 3 x 2 items in groups of 4 x 2 x 2: the cut-off ones are packed as they are. */
	p.setup = 3;
	p.grid[1] = 3, p.grid[2] = 2;
	p.wg[1] = p.wg[2] = 2;
	kernargs(DATA, 16);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	/* P_IDS stores by x alone: item x of the last lane that has it wins. Group 0,*: x 0..3. */
	for (unsigned x = 0; x < 4; x++)
		cr_assert_eq(data[x] & 0x3ff, x);
	cr_assert_eq(data[16] >> 16 & 15, 1, "group 1 has one column, x 0");
	cr_assert_eq(data[16] & 0x3ff, 0);
	cr_assert_eq(data[17], 0);
	cr_assert_eq(data[0] >> 20 & 0x3ff, 1, "z of the last lane");
}

Test(vgpu_cp, wave64)
{
	struct packet p = packet(kernel_at(P_COUNT, sizeof(P_COUNT), 0, 8), 100, 100, sig(0, 1));
	struct cp_stats st;

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 100);
	cp_stats(&st);
	cr_assert_eq(st.waves, 2);
}

Test(vgpu_cp, barrier_and_lds)
{
	struct packet p = packet(KERNEL(P_BARRIER), 128, 128, sig(0, 1));

	p.group_bytes = 512;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned i = 0; i < 128; i++)
		cr_assert_eq(data[i], 3 * (127 - i));
}

Test(vgpu_cp, many_packets_wrap_the_ring)
{
	uint64_t k = KERNEL(P_COUNT);

	kernargs(DATA, 0);
	sig(0, 500);
	for (unsigned i = 0; i < 500; i++) {
		struct packet p = packet(k, 64, 64, PAGE + SIGNALS);

		if (i % 3)
			p.header &= (uint16_t) ~(1u << 8);
		cr_assert(WAIT_FOR(next_packet - read_index() < RING_BYTES / 64));
		submit(&p);
	}
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 500 * 64);
	cr_assert(WAIT_FOR(read_index() == 500));
	for (unsigned i = 0; i < RING_BYTES; i += 64)
		cr_assert_eq(*(uint16_t *)(ring + i), 1);
}

Test(vgpu_cp, one_bell_for_a_batch)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, 0);

	kernargs(DATA, 0);
	/* Mapping looks at the write pointer once: let that be over. */
	p.signal = sig(0, 1);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	p.signal = 0;
	for (unsigned i = 1; i < 10; i++)
		write_packet(i, &p);
	p.signal = sig(0, 1);
	write_packet(10, &p);
	__atomic_store_n(&U64(0x38), 11, __ATOMIC_RELEASE);
	usleep(20000);
	cr_assert_eq(data[0], 64, "nothing starts without a doorbell");
	ring_bell(10);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 11 * 64);
}

Test(vgpu_cp, unwritten_packets_are_waited_for)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, sig(0, 2));

	/* Packet 1 is there and rung first; packet 0's producer is late. */
	kernargs(DATA, 0);
	write_packet(1, &p);
	__atomic_store_n(&U64(0x38), 2, __ATOMIC_RELEASE);
	ring_bell(1);
	usleep(20000);
	cr_assert_eq(value(0), 2);
	write_packet(0, &p);
	cr_assert(WAIT_FOR(value(0) == 0), "the header is polled: no second ring is needed");
	cr_assert_eq(data[0], 128);
}

Test(vgpu_cp, a_grid_may_spin_on_itself)
{
	/* More workgroups than workers, each waiting for all: they must all become resident. */
	struct packet p = packet(KERNEL(P_GRID), 32 * 100, 32, sig(0, 1));

	kernargs(DATA, 100);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 100);
	cr_assert_eq(data[1], 100);
}

Test(vgpu_cp, a_spinning_queue_does_not_stop_another)
{
	struct packet spin = packet(KERNEL(P_SPIN), 32 * 8, 32, sig(0, 1));
	struct packet count = packet(KERNEL(P_COUNT), 64, 64, sig(1, 1));

	/* Without the barrier bit the second dispatch may start while the first one spins. */
	kernargs(DATA, 0);
	count.header &= (uint16_t) ~(1u << 8);
	count.kernarg = ARGS + 64;
	*(uint64_t *)(args + 64) = DATA + 4096;
	submit(&spin);
	submit(&count);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(value(0), 1);
	cr_assert_eq(read_index(), 0, "slots come back in order");
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 8 * 32);
	cr_assert(WAIT_FOR(read_index() == 2));
}

Test(vgpu_cp, barrier_bit_orders)
{
	struct packet spin = packet(KERNEL(P_SPIN), 32, 32, sig(0, 1));
	struct packet count = packet(KERNEL(P_COUNT), 64, 64, sig(1, 1));

	kernargs(DATA, 0);
	submit(&spin);
	submit(&count);
	usleep(50000);
	cr_assert_eq(value(1), 1);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(value(0), 0);
}

Test(vgpu_cp, sleepers_wake)
{
	struct packet p = packet(KERNEL(P_SLEEP), 32 * 4, 32, sig(0, 1));

	kernargs(DATA, 0);
	submit(&p);
	usleep(20000);
	cr_assert_eq(value(0), 1);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* ---- barrier packets, signals, interrupts -------------------------------- */

struct barrier {
	uint16_t header, reserved0;
	uint32_t reserved1;
	uint64_t dep[5], reserved2, signal;
};

Test(vgpu_cp, barrier_and_waits_for_all)
{
	struct barrier b = {.header = 3, .dep = {sig(1, 1), 0, sig(2, 1)}, .signal = sig(0, 1)};

	submit(&b);
	usleep(10000);
	sig(1, 0);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	sig(2, 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(read_index(), 1);
}

Test(vgpu_cp, barrier_or_waits_for_one)
{
	struct barrier b = {.header = 5, .dep = {sig(1, 1), 0, sig(2, 1)}, .signal = sig(0, 1)};
	struct barrier none = {.header = 5, .signal = sig(3, 1)};

	submit(&b);
	submit(&none);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	sig(2, 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert(WAIT_FOR(value(3) == 0));
}

Test(vgpu_cp, barrier_on_a_value)
{
	struct {
		uint32_t header, reserved0;
		uint64_t signal;
		int64_t value, mask;
		uint32_t cond, reserved1;
		uint64_t reserved[2], completion;
	} b = {.header = 2u << 16,
	       .signal = sig(1, 5),
	       .value = 7,
	       .mask = 0xff,
	       .cond = 3,
	       .completion = sig(0, 1)};

	submit(&b);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	sig(1, 0x107);
	cr_assert(WAIT_FOR(value(0) == 0), "7 under the mask is not below 7");
}

Test(vgpu_cp, mailbox_raises_an_interrupt)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, sig(0, 1));

	kernargs(DATA, 0);
	*(uint64_t *)(page + SIGNALS + 0x10) = PAGE + MAILBOX;
	*(uint32_t *)(page + SIGNALS + 0x18) = 17;
	*(uint64_t *)(page + MAILBOX) = ~0ull;
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 17);
	cr_assert_eq(irq(0)->queue_id, 1);
	cr_assert_eq(value(0), 0, "the value is down before the interrupt");
	cr_assert_eq(*(uint64_t *)(page + MAILBOX), 17);
	cr_assert_eq(read_index(), 1);
	cr_assert_eq(*(uint64_t *)(page + SIGNALS + 0x20), 0, "times only where profiling is on");
}

Test(vgpu_cp, profiling_writes_times)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, sig(0, 1));
	uint64_t t = vgpu_clock_gpu(), *ts = (uint64_t *)(page + SIGNALS + 0x20);

	U32(0xb4) |= 8;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert(t <= ts[0] && ts[0] <= ts[1] && ts[1] <= vgpu_clock_gpu());
}

Test(vgpu_cp, waves_send_interrupts)
{
	struct packet p = packet(KERNEL(P_MSG), 32, 32, sig(0, 1));

	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 5);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* ---- amd_queue_t --------------------------------------------------------- */

Test(vgpu_cp, every_queue_field_is_read)
{
	static const struct {
		unsigned off;
		uint32_t value;
		const char *name;
	} t[] = {
		{0x00, 3, "hsa_queue.type"},
		{0x04, 0, "hsa_queue.features"},
		{0x08, RING + 4096, "hsa_queue.base_address"},
		{0x10, 0, "hsa_queue.doorbell_signal"},
		{0x18, 32, "hsa_queue.size"},
		{0x1c, 1, "hsa_queue.reserved1"},
		{0x28, 2, "caps"},
		{0x30, 1, "reserved1"},
		{0x40, 0, "group_segment_aperture_base_hi"},
		{0x44, 0x10000, "private_segment_aperture_base_hi"},
		{0x48, 31, "max_cu_id"},
		{0x4c, 15, "max_wave_id"},
		{0x50, 1, "max_legacy_doorbell"},
		{0x58, 1, "legacy_doorbell_lock"},
		{0x60, 1, "reserved2"},
		{0x88, 0, "read_dispatch_id_field_base_byte_offset"},
		{0x8c, 1, "compute_tmpring_size"},
		{0xb0, 4, "scratch_wave64_lane_byte_size"},
		{0xb4, 0, "queue_properties"},
		{0xb4, 0x42, "queue_properties"},
		{0xc0, 0, "queue_inactive_signal"},
		{DOORBELL, 1, "doorbell_signal->kind"},
		{DOORBELL + 8, 0, "doorbell_signal->hardware_doorbell_ptr"},
		{DOORBELL + 0x30, 0, "doorbell_signal->queue_ptr"},
		{INACTIVE, 0, "queue_inactive_signal->kind"},
		{INACTIVE + 8, 1, "queue_inactive_signal->value"},
	};
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	write_packet(0, &p);
	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		memset(page, 0, SIGNALS);
		fill_amd_queue();
		U32(t[i].off) = t[i].value;
		U64(0x38) = 1;
		cp_queue_unmap(queue);
		cp_queue_destroy(queue);
		cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
		cr_assert_eq(cp_queue_map(queue), 0);
		ring_bell(0);
		cr_assert_eq(irq(i)->kind, CP_IRQ_QUEUE_ERROR);
		cr_assert_eq(irq(i)->code, 22);
		cr_assert_not_null(strstr(irq(i)->text, t[i].name), "row %u: %s", i, irq(i)->text);
		cr_assert_not_null(strstr(irq(i)->text, "wanted"));
		cr_assert_eq(value(0), 1);
	}
	/* And with all of them right the same packet runs. */
	memset(page, 0, SIGNALS);
	fill_amd_queue();
	U64(0x38) = 1;
	cp_queue_unmap(queue);
	cp_queue_destroy(queue);
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0), "mapping looks at the write pointer, without a ring");
}

/* ---- packets that are wrong ---------------------------------------------- */

Test(vgpu_cp, bad_packets)
{
	uint64_t k = KERNEL(P_COUNT), big = kernel_at(P_COUNT, sizeof(P_COUNT), 0, 0x408);
	uint64_t reserved = kernel_at(P_COUNT, sizeof(P_COUNT), 1 << 6, 0x408);
	struct {
		const char *what;
		uint32_t code;
		int64_t inactive;
		struct packet p;
	} t[] = {
		{"no dimensions", 16, 2, packet(k, 32, 32, 0)},
		{"empty grid", 16, 2, packet(k, 0, 32, 0)},
		{"empty group", 21, 64, packet(k, 32, 0, 0)},
		{"group of 1025", 21, 64, packet(k, 1025, 1025, 0)},
		{"group memory", 17, 4, packet(k, 32, 32, 0)},
		{"kernel 0", 18, 8, packet(0, 32, 32, 0)},
		{"kernel not aligned", 18, 8, packet(k + 4, 32, 32, 0)},
		{"VGPRs", 22, 128, packet(big, 32, 32, 0)},
		{"reserved rsrc2", 18, 8, packet(reserved, 32, 32, 0)},
		{"reserved header", 19, 32, packet(k, 32, 32, 0)},
		{"fence scope 3", 19, 32, packet(k, 32, 32, 0)},
		{"reserved field", 19, 32, packet(k, 32, 32, 0)},
		{"agent dispatch", 20, 256, packet(k, 32, 32, 0)},
		{"type 9", 19, 32, packet(k, 32, 32, 0)},
		{"vendor format", 23, 256, packet(k, 32, 32, 0)},
	};

	*(uint32_t *)(code + (big - CODE) + 48) |= 63;
	t[0].p.setup = 0;
	t[4].p.group_bytes = 65537;
	t[9].p.header |= 1 << 14;
	t[10].p.header |= 3 << 9;
	t[11].p.reserved2 = 1;
	t[12].p.header = 4;
	t[13].p.header = 9;
	t[14].p.header = 0;
	t[14].p.setup = 77;
	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		memset(page, 0, SIGNALS);
		fill_amd_queue();
		cp_queue_unmap(queue);
		cp_queue_destroy(queue);
		cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
		cr_assert_eq(cp_queue_map(queue), 0);
		next_packet = 0;
		submit(&t[i].p);
		cr_assert_eq(irq(i)->kind, CP_IRQ_QUEUE_ERROR);
		cr_assert_eq(irq(i)->code, t[i].code, "%s: code %u, %s", t[i].what, irq(i)->code,
			     irq(i)->text);
		cr_assert_eq(*(int64_t *)(page + INACTIVE + 8), t[i].inactive, "%s", t[i].what);
		/* The queue is down: a good packet behind it does not run. */
		cr_assert_eq(read_index(), 0);
	}
	cr_assert_eq(data[0], 0);
}

Test(vgpu_cp, without_an_instruction_set_nothing_runs)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));

	vgpu_config.isa = false;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 4);
	cr_assert_not_null(strstr(irq(0)->text, "switched off"));
	cr_assert_eq(data[0], 0);
	cr_assert_eq(value(0), 1);
}

/* ---- waves that go wrong ------------------------------------------------- */

Test(vgpu_cp, memory_fault)
{
	struct packet p = packet(KERNEL(P_STORE), 32, 32, sig(0, 1));

	kernargs(0x7000001234, 0);
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.va.a, 0x7000001234);
	cr_assert_eq(irq(0)->fault.client, VM_CLIENT_TCP);
	cr_assert_eq(irq(0)->fault.lanes, 0x20);
	cr_assert(irq(0)->fault.write && irq(0)->fault.not_present);
	cr_assert_not_null(strstr(irq(0)->text, "global_store_b32"), "%s", irq(0)->text);
	cr_assert_eq(cp_queue_unmap(queue), 0, "a faulted queue can be taken off");
	cr_assert_eq(value(0), 1, "its dispatch never completes");
	cr_assert_eq(cp_queue_map(queue), 0);
	usleep(20000);
	cr_assert_eq(nirqs, 1, "and does not start again");
}

Test(vgpu_cp, fetch_fault)
{
	uint64_t k = KERNEL(P_COUNT);
	struct packet p = packet(k, 32, 32, sig(0, 1));

	*(int64_t *)(code + (k - CODE) + 16) = (int64_t)(DATA - k); /* not executable */
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.client, VM_CLIENT_SQC_INST);
	cr_assert(irq(0)->fault.no_exec);
	cr_assert_eq(irq(0)->fault.va.a, DATA);
}

Test(vgpu_cp, packet_processor_faults)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, 0x666000);

	kernargs(DATA, 0);
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.client, VM_CLIENT_CPF);
	cr_assert_eq(irq(0)->fault.va.a, 0x666008);
	cr_assert_eq(data[0], 32);
}

Test(vgpu_cp, illegal_and_unsupported)
{
	struct packet p = packet(KERNEL(P_ILLEGAL), 32, 32, sig(0, 1));

	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 4);
	cr_assert_not_null(strstr(irq(0)->text, "illegal instruction"), "%s", irq(0)->text);
	cp_queue_unmap(queue);
	cp_queue_destroy(queue);
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	memset(page, 0, SIGNALS);
	fill_amd_queue();
	cr_assert_eq(cp_queue_map(queue), 0);
	next_packet = 0;
	p = packet(KERNEL(P_EXPORT), 32, 32, sig(0, 1));
	submit(&p);
	cr_assert_eq(irq(1)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(1)->code, 4);
	cr_assert_not_null(strstr(irq(1)->text, "does not implement"), "%s", irq(1)->text);
	cr_assert_not_null(strstr(irq(1)->text, "exp"), "%s", irq(1)->text);
}

Test(vgpu_cp, trap_without_handler_is_stepped_over)
{
	struct packet p = packet(KERNEL(P_TRAP), 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 9);
}

Test(vgpu_cp, trap_handler_runs)
{
	struct packet p = packet(KERNEL(P_TRAP), 32, 32, sig(0, 1));
	uint64_t h = KERNEL(P_HANDLER) + 256;

	kernargs(DATA, 0);
	cp_queue_set_trap_handler(queue, h, DATA + 4096);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 9, "the wave went on behind the trap");
	cr_assert_eq(data[1024], 3u << 16, "trap id 3, upper PC 0");
	cr_assert_eq(data[1025], BELL);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 2, "bit 1 of the exception mask");
}

/* ---- scratch ------------------------------------------------------------- */

static void give_scratch(uint32_t lane_bytes, unsigned waves_per_se)
{
	uint32_t wave = lane_bytes * 32;

	U32(0x8c) = waves_per_se | wave / 256 << 12;
	U32(0x90) = SCRATCH;
	U32(0x98) = wave * waves_per_se * 2;
	U64(0xa0) = SCRATCH;
	U64(0xa8) = (uint64_t)wave * waves_per_se * 2;
	U32(0xb0) = wave / 64;
}

Test(vgpu_cp, scratch_handshake)
{
	struct packet p = packet(KERNEL(P_SCRATCH), 32 * 200, 64, sig(0, 1));
	int64_t *inactive = (int64_t *)(page + INACTIVE + 8);

	p.wg[0] = 32;
	p.private_bytes = 260;
	*(uint64_t *)(page + INACTIVE + 0x10) = PAGE + MAILBOX;
	*(uint32_t *)(page + INACTIVE + 0x18) = 9;
	kernargs(DATA, 0);
	/* s_lshl_b32 s6, s2, 8 in P_SCRATCH strides by 64 items: fewer groups, same idea. */
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 9);
	cr_assert_eq(*inactive, 0x400, "a wave32 kernel asks with 0x400");
	cr_assert_eq(value(0), 1);
	give_scratch(264, 4);
	__atomic_store_n(inactive, 0, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned g = 0; g < 200; g++)
		for (unsigned i = 0; i < 32; i++)
			cr_assert_eq(data[g * 64 + i], 5 * i, "group %u lane %u", g, i);
	/* Offset 16 of every lane lies behind offsets 0..15 of all lanes. */
	cr_assert_eq(*(uint32_t *)(scratch + 16 * 32 + 4 * 31), 5 * 31);
	/* A second dispatch needs no handshake. */
	p.signal = sig(1, 1);
	submit(&p);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(nirqs, 1);
}

/* ---- map and unmap ------------------------------------------------------- */

Test(vgpu_cp, preempted_waves_go_on)
{
	struct packet p = packet(KERNEL(P_SPIN), 32 * 50, 32, sig(0, 1));
	struct cp_wave_state ws;
	struct cp_stats before, after;

	kernargs(DATA, 0);
	submit(&p);
	usleep(30000);
	cr_assert_eq(cp_queue_wave_state(queue, &ws), -EINVAL, "only of an unmapped queue");
	for (unsigned i = 0; i < 20; i++) {
		cr_assert_eq(cp_queue_unmap(queue), 0);
		cr_assert_eq(cp_queue_unmap(queue), -EINVAL);
		cr_assert_eq(cp_queue_wave_state(queue, &ws), 0);
		cr_assert_gt(ws.saved_waves, 0);
		cr_assert_eq(ws.control_stack_size, 0);
		cr_assert_eq(ws.control_stack_offset, 0x4000);
		cr_assert_eq(cp_queue_map(queue), 0);
		cr_assert_eq(cp_queue_map(queue), -EBUSY);
		usleep(2000);
	}
	cr_assert_eq(cp_queue_unmap(queue), 0);
	cp_stats(&before);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	usleep(20000);
	cp_stats(&after);
	cr_assert_eq(before.groups, after.groups);
	cr_assert_eq(data[0], 0, "nothing runs while the queue is away");
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 50 * 32);
}

Test(vgpu_cp, rung_while_unmapped)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	cr_assert_eq(cp_queue_unmap(queue), 0);
	submit(&p);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* ---- cost ---------------------------------------------------------------- */

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

Test(vgpu_cp, idle_costs_nothing)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));
	double t;

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	usleep(50000);
	t = cpu_seconds();
	usleep(1000000);
	t = cpu_seconds() - t;
	cr_assert_lt(t, 0.01, "an idle second cost %.4f s", t);
	/* And the next ring is noticed. */
	p.signal = sig(1, 1);
	submit(&p);
	cr_assert(WAIT_FOR(value(1) == 0));
}

Test(vgpu_cp, no_ring_is_lost)
{
	struct packet p = packet(KERNEL(P_MSG), 32, 32, 0);

	/* Rings at all distances from the moment the pages are protected again. */
	for (unsigned i = 0; i < 400; i++) {
		uint64_t t = now_ns() + i * 331 % 120000;

		p.signal = sig(0, 1);
		submit(&p);
		cr_assert(WAIT_FOR(value(0) == 0), "ring %u", i);
		while (now_ns() < t)
			;
	}
}

/* ---- other queues -------------------------------------------------------- */

TestSuite(vgpu_cp_other, .init = open_device, .timeout = 60);

static void other(enum cp_queue_type type)
{
	mqd.type = type;
	mqd.rptr = gva(PAGE + 0x80);
	mqd.wptr = gva(PAGE + 0x38);
	memset(page, 0, 4096);
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
}

static void put(const uint32_t *w, unsigned dwords, unsigned unit)
{
	uint64_t at = U64(0x38) * unit / 4;

	for (unsigned i = 0; i < dwords; i++)
		((uint32_t *)ring)[(at + i) % (RING_BYTES / 4)] = w[i];
	__atomic_store_n(&U64(0x38), U64(0x38) + dwords * 4 / unit, __ATOMIC_RELEASE);
	ring_bell(U64(0x38));
}

#define PKT3(op, n) (0xc0000000u | ((n)-2u) << 16 | (op) << 8 | 2)

Test(vgpu_cp_other, pm4)
{
	uint64_t k = KERNEL(P_COUNT) + 256;
	uint32_t ib[] = {
		PKT3(0x76, 5),
		0x207,
		64,
		1,
		1, /* NUM_THREAD */
		PKT3(0x76, 4),
		0x20c,
		(uint32_t)(k >> 8),
		0, /* PGM */
		PKT3(0x76, 4),
		0x212,
		1 | 0xc0u << 12,
		2 << 1 | 1 << 7, /* RSRC1, 2 */
		PKT3(0x76, 4),
		0x240,
		ARGS,
		0, /* USER_DATA */
		PKT3(0x15, 5),
		256,
		1,
		1,
		0x8021, /* 256 threads */
		PKT3(0x10, 2),
		0,
	};
	uint32_t stream[] = {
		PKT3(0x58, 8),
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		PKT3(0x37, 5),
		5u << 8 | 1u << 20,
		DATA + 64,
		0,
		0x1234,
		PKT3(0x3f, 4),
		ARGS + 1024,
		0,
		sizeof(ib) / 4,
		0xffff1000u, /* one-dword NOP */
		PKT3(0x3c, 7),
		1u << 4 | 3,
		DATA + 128,
		0,
		1,
		0xffffffff,
		4,
		PKT3(0x49, 8),
		0x514,
		2u << 24 | 1u << 29,
		DATA + 32,
		0,
		77,
		0,
		11,
	};

	other(CP_PM4);
	kernargs(DATA, 0);
	memcpy(args + 1024, ib, sizeof(ib));
	put(stream, sizeof(stream) / 4, 4);
	cr_assert(WAIT_FOR(data[0] == 256), "the dispatch runs, the stream waits behind it");
	cr_assert_eq(data[16], 0x1234);
	usleep(10000);
	cr_assert_eq(data[8], 0, "WAIT_REG_MEM holds");
	__atomic_store_n(&data[32], 1, __ATOMIC_RELEASE);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 11);
	cr_assert_eq(data[8], 77);
	cr_assert_eq(U32(0x80), sizeof(stream) / 4, "read pointer in dwords, before the interrupt");
	/* Around the ring's end. */
	for (unsigned i = 0; i < 400; i++) {
		uint32_t w[] = {PKT3(0x37, 5), 5u << 8, DATA + 256, 0, i};

		cr_assert(WAIT_FOR((U64(0x38) - U32(0x80)) % (RING_BYTES / 4) < 1000));
		put(w, 5, 4);
	}
	cr_assert(WAIT_FOR(data[64] == 399));
	put((uint32_t[]){PKT3(0x77, 2), 0}, 2, 4);
	cr_assert_eq(irq(1)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(1)->code, 20);
	stop();
}

Test(vgpu_cp, vendor_packet_runs_pm4)
{
	uint32_t ib[] = {PKT3(0x37, 5), 5u << 8, DATA + 64, 0, 0x77};
	uint32_t w[16] = {1u << 16, PKT3(0x3f, 4), ARGS + 512, 0, 5, 10};
	uint64_t s = sig(0, 1);

	memcpy(args + 512, ib, sizeof(ib));
	memcpy(&w[14], &s, 8);
	submit(w);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[16], 0x77);
}

Test(vgpu_cp_other, sdma)
{
	uint32_t stream[] = {
		0, /* NOP */
		2,
		DATA,
		0,
		1,
		0xaaaa,
		0xbbbb, /* WRITE 2 dwords */
		11 | 2u << 30,
		DATA + 64,
		0,
		0x01020304,
		63, /* CONST_FILL */
		1,
		4095,
		0,
		DATA,
		0,
		DATA + 8192,
		0, /* COPY 4 KiB */
		13 | 2u << 8,
		DATA + 16384,
		0, /* TIMESTAMP */
		8 | 3u << 28 | 1u << 31,
		DATA + 16392,
		0,
		5,
		0xffffffff,
		0, /* POLL == 5 */
		17,
		0,
		0,
		0,
		0, /* GCR */
		10 | 47u << 25,
		PAGE + 0x308,
		0,
		0xffffffff,
		0xffffffff,
		0,
		0,
		0, /* ADD -1 */
		5,
		DATA + 16400,
		0,
		99, /* FENCE */
		6,
		12, /* TRAP */
	};

	other(CP_SDMA);
	sig(0, 1);
	put(stream, sizeof(stream) / 4, 1);
	cr_assert(WAIT_FOR(data[4096] != 0));
	cr_assert_eq(data[2048], 0xaaaa);
	cr_assert_eq(data[2049], 0xbbbb);
	cr_assert_eq(data[2048 + 16], 0x01020304);
	cr_assert_eq(data[2048 + 31], 0x01020304);
	cr_assert_eq(data[2048 + 32], 0);
	cr_assert_eq(value(0), 1, "POLL_REGMEM holds");
	__atomic_store_n(&data[4098], 5, __ATOMIC_RELEASE);
	cr_assert_eq(irq(0)->event_id, 12);
	cr_assert_eq(value(0), 0);
	cr_assert_eq(data[4100], 99);
	cr_assert_eq(U64(0x80), sizeof(stream), "read pointer in bytes, before the trap");
	put((uint32_t[]){1, 63, 0, 0x99000000, 0, DATA, 0}, 7, 1);
	cr_assert_eq(irq(1)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(1)->fault.client, VM_CLIENT_SDMA0);
	stop();
}

Test(vgpu_cp_other, deterministic_mode)
{
	struct packet p = packet(0, 32 * 100, 32, 0);

	vgpu_config.deterministic = true;
	vgpu_config.seed = 5;
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
	p.kernel = KERNEL(P_GRID);
	p.signal = sig(0, 1);
	kernargs(DATA, 100);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[1], 100);
	stop();
}

/* From here on this process is refused userfaultfd(2), as in many containers. */
static void refuse_userfaultfd(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(f) / sizeof(*f), f};

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert_eq(syscall(SYS_userfaultfd, 0), -1);
	cr_assert_eq(errno, EPERM);
}

Test(vgpu_cp_other, without_userfaultfd_doorbells_are_polled)
{
	struct packet p = packet(0, 64, 64, 0);
	double t;

	refuse_userfaultfd();
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
	p.kernel = KERNEL(P_COUNT);
	kernargs(DATA, 0);
	for (unsigned i = 0; i < 20; i++) {
		p.signal = sig(0, 1);
		submit(&p);
		cr_assert(WAIT_FOR(value(0) == 0));
		usleep(i * 500);
	}
	cr_assert_eq(data[0], 20 * 64);
	usleep(100000);
	t = cpu_seconds();
	usleep(1000000);
	t = cpu_seconds() - t;
	cr_assert_lt(t, 0.015, "an idle second of polling cost %.4f s", t);
	stop();
}

Test(vgpu_cp_other, a_forked_child_starts_its_own)
{
	int status;
	pid_t pid;

	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
	pid = fork();
	if (!pid) {
		struct packet p = packet(0, 64, 64, 0);

		code_used = 0;
		next_packet = 0;
		open_device();
		if (cp_queue_create(&mqd, bells, &queue) || cp_queue_map(queue))
			_exit(2);
		p.kernel = KERNEL(P_COUNT);
		p.signal = sig(0, 1);
		kernargs(DATA, 0);
		submit(&p);
		_exit(WAIT_FOR(value(0) == 0) && data[0] == 64 ? 0 : 3);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	stop();
}
