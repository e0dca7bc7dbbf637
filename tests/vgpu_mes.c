/* More queues and processes than the hardware has places for, priorities, and CU masks.
 *
 * Every queue has a ring, a page and a save area of its own.
 */
#include "vgpu_cp_client.h"

/* out[group] = HW_ID1 of its wave, out[1024 + group] = HW_ID2; then waits for out[2048]
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_getreg_b32 s6, hwreg(HW_REG_HW_ID1)
 *	s_getreg_b32 s7, hwreg(HW_REG_HW_ID2);  s_lshl_b32 s8, s2, 2;  v_mov_b32 v1, s8
 *	v_mov_b32 v2, s6;  v_mov_b32 v3, s7;  s_waitcnt lgkmcnt(0)
 *	s_add_u32 s10, s4, 0x1000;  s_addc_u32 s11, s5, 0;  s_add_u32 s12, s4, 0x2000
 *	s_addc_u32 s13, s5, 0;  global_store_b32 v1, v2, s[4:5];  global_store_b32 v1, v3, s[10:11]
 * L:	s_load_b32 s9, s[12:13], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s9, 0
 *	s_cbranch_scc1 L;  s_endpgm */
static const uint32_t P_WHERE[] = {
	0xf4040100, 0xf8000000, 0xb886f817, 0xb887f818, 0x84088202, 0x7e020208, 0x7e040206,
	0x7e060207, 0xbf89fc07, 0x800aff04, 0x00001000, 0x820b8005, 0x800cff04, 0x00002000,
	0x820d8005, 0xdc6a0000, 0x00040201, 0xdc6a0000, 0x000a0301, 0xf4004246, 0xf8000000,
	0xbf89fc07, 0xbf068009, 0xbfa2fffb, 0xbfb00000,
};
/* x = 1, then kernarg[8] steps; out[t] = x (see vgpu_cwsr.c)
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_load_b32 s6, s[0:1], 0x8;  v_and_b32 v0, 0x3ff, v0
 *	v_mov_b32 v1, 1;  s_waitcnt lgkmcnt(0)
 * L:	v_mul_lo_u32 v1, v1, 0x19660d;  v_add3_u32 v1, v1, v0, 0x3c6ef35f;  s_sub_u32 s6, s6, 1
 *	s_cmp_lg_u32 s6, 0;  s_cbranch_scc1 L;  s_lshl_b32 s7, s2, 7;  v_lshlrev_b32 v2, 2, v0
 *	v_add_nc_u32 v2, s7, v2;  global_store_b32 v2, v1, s[4:5];  s_endpgm */
static const uint32_t P_LONG[] = {
	0xf4040100, 0xf8000000, 0xf4000180, 0xf8000008, 0x360000ff, 0x000003ff,
	0x7e020281, 0xbf89fc07, 0xd72c0001, 0x0001ff01, 0x0019660d, 0xd6550001,
	0x03fe0101, 0x3c6ef35f, 0x80868106, 0xbf078006, 0xbfa2fff7, 0x84078702,
	0x30040082, 0x4a040407, 0xdc6a0000, 0x00040102, 0xbfb00000,
};

enum {
	BASE = 0x40000000,
	STEP = 0x1000000,
	O_PAGE = 0x10000,
	O_ARGS = 0x20000,
	O_AREA = 0x100000,
	AREA_BYTES = 1 << 20,
	CTL = 0x4000,
	MAX_QUEUES = 24,
	SIGNAL = 0x300,
	FIRST_BELL = 16,
};

struct client {
	struct cp_queue *q;
	struct cp_mqd mqd;
	struct vm *vm;
	uint64_t base;
	uint8_t *ring, *page, *args, *area;
	struct vm_bo *bo[4];
	unsigned bell;
	uint64_t next;
};

static struct client clients[MAX_QUEUES];

static void *map_in(struct vm *v, struct vm_bo **bo, uint64_t va, uint64_t size)
{
	cr_assert_eq(vm_bo_alloc(VM_POOL_GTT, size, bo), 0);
	cr_assert_eq(vm_map(v, gva(va), size, *bo, 0, VM_W, VM_MTYPE_NC), 0);
	return vm_bo_kmap(*bo);
}

#define P32(off) (*(uint32_t *)(void *)(c->page + (off)))
#define P64(off) (*(uint64_t *)(void *)(c->page + (off)))

static void client_make(unsigned i, struct vm *v, uint32_t priority)
{
	struct client *c = &clients[i];

	c->vm = v;
	c->base = BASE + (uint64_t)i * STEP;
	c->bell = FIRST_BELL + i;
	c->ring = map_in(v, &c->bo[0], c->base, 4096);
	c->page = map_in(v, &c->bo[1], c->base + O_PAGE, 4096);
	c->args = map_in(v, &c->bo[2], c->base + O_ARGS, 4096);
	c->area = map_in(v, &c->bo[3], c->base + O_AREA, AREA_BYTES);
	for (unsigned k = 0; k < 4096; k += 64)
		*(uint16_t *)(void *)(c->ring + k) = 1;
	memcpy(c->page, page, 0x200);
	P64(0x08) = c->base;
	P64(0x10) = c->base + O_PAGE + DOORBELL;
	P64(0x38) = P64(0x80) = 0;
	P64(0xc0) = c->base + O_PAGE + INACTIVE;
	memcpy(c->page + INACTIVE, page + INACTIVE, 0x100);
	*(uint64_t *)(void *)(c->page + DOORBELL + 8) = (uint64_t)(bell_page + c->bell);
	*(uint64_t *)(void *)(c->page + DOORBELL + 0x30) = c->base + O_PAGE;
	*(uint64_t *)(void *)(c->page + SIGNAL) = 1;
	c->mqd = mqd;
	c->mqd.vm = v;
	c->mqd.queue_id = i;
	c->mqd.doorbell = c->bell;
	c->mqd.ring = gva(c->base);
	c->mqd.rptr = gva(c->base + O_PAGE + 0x80);
	c->mqd.wptr = gva(c->base + O_PAGE + 0x38);
	c->mqd.cwsr = gva(c->base + O_AREA);
	c->mqd.cwsr_bytes = AREA_BYTES;
	c->mqd.ctl_stack_bytes = CTL;
	c->mqd.priority = priority;
	cr_assert_eq(cp_queue_create(&c->mqd, bells, &c->q), 0);
	cr_assert_eq(cp_queue_map(c->q), 0);
}

static void client_free(unsigned i)
{
	struct client *c = &clients[i];

	if (cp_queue_mapped(c->q))
		cr_assert_eq(cp_queue_unmap(c->q), 0);
	cp_queue_destroy(c->q);
	for (unsigned k = 0; k < 4; k++)
		vm_bo_unref(c->bo[k]);
}

static void client_submit(unsigned i, uint64_t kernel, uint32_t grid, uint16_t wg, uint64_t out,
			  uint32_t arg)
{
	struct client *c = &clients[i];
	struct packet p = packet(kernel, grid, wg, c->base + O_PAGE + SIGNAL);
	uint32_t first;

	*(int64_t *)(void *)(c->page + SIGNAL + 8) = 1;
	*(uint64_t *)(void *)c->args = out;
	*(uint32_t *)(void *)(c->args + 8) = arg;
	p.kernarg = c->base + O_ARGS;
	memcpy(c->ring + c->next % 64 * 64 + 4, (uint8_t *)&p + 4, 60);
	memcpy(&first, &p, 4);
	__atomic_store_n((uint32_t *)(void *)(c->ring + c->next % 64 * 64), first,
			 __ATOMIC_RELEASE);
	c->next++;
	__atomic_store_n(&P64(0x38), c->next, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)&bell_page[c->bell], c->next - 1, __ATOMIC_RELEASE);
}

static bool client_done(unsigned i)
{
	return __atomic_load_n((int64_t *)(void *)(clients[i].page + SIGNAL + 8),
			       __ATOMIC_ACQUIRE) == 0;
}

static unsigned all_done(unsigned n)
{
	unsigned done = 0;

	for (unsigned i = 0; i < n; i++)
		done += client_done(i);
	return done;
}

TestSuite(vgpu_mes, .init = start, .fini = stop, .timeout = 600);

/* ---- places ---------------------------------------------------------------- */

Test(vgpu_mes, eight_queues_never_switch)
{
	uint64_t k = KERNEL(P_GRID);
	struct cp_stats before, after;

	cp_stats(&before);
	cr_assert_eq(cp_queue_unmap(queue), 0);
	for (unsigned i = 0; i < 8; i++) {
		client_make(i, vm, 7);
		client_submit(i, k, 32, 32, DATA, 8);
	}
	cr_assert(WAIT_FOR(all_done(8) == 8));
	cr_assert_eq(data[1], 8);
	cp_stats(&after);
	cr_assert_eq(after.switches, before.switches);
	for (unsigned i = 0; i < 8; i++)
		client_free(i);
}

/* Each of 20 waits for all: without turns none would end. */
Test(vgpu_mes, twenty_queues_share_eight_places)
{
	uint64_t k = KERNEL(P_GRID);
	struct cp_stats s;

	for (unsigned i = 0; i < 20; i++) {
		client_make(i, vm, 7);
		client_submit(i, k, 32, 32, DATA, 20);
	}
	cr_assert(WAIT_FOR(all_done(20) == 20), "%u of 20", all_done(20));
	cr_assert_eq(data[0], 20);
	cr_assert_eq(data[1], 20);
	cp_stats(&s);
	cr_assert_geq(s.switches, 12);
	cr_assert_geq(s.saved_waves, 12);
	/* And again, while they come and go. */
	data[0] = data[1] = 0;
	for (unsigned i = 0; i < 20; i++)
		client_submit(i, k, 32, 32, DATA, 20);
	for (unsigned n = 0; n < 50; n++) {
		struct client *c = &clients[n * 7 % 20];

		cr_assert_eq(cp_queue_unmap(c->q), 0);
		usleep(200);
		cr_assert_eq(cp_queue_map(c->q), 0);
	}
	cr_assert(WAIT_FOR(all_done(20) == 20), "%u of 20", all_done(20));
	cr_assert_eq(data[1], 20);
	for (unsigned i = 0; i < 20; i++)
		client_free(i);
}

/* A queue that is taken off just when its dispatch ends still has what comes behind it to do. */
Test(vgpu_mes, what_follows_a_dispatch_has_its_turn)
{
	enum { QUEUES = 16, PACKETS = 40, ROUNDS = 30, STEPS = 20000 };
	uint64_t k = KERNEL(P_LONG);

	for (unsigned i = 0; i < QUEUES; i++)
		client_make(i, vm, 7);
	for (unsigned r = 0; r < ROUNDS; r++) {
		for (unsigned i = 0; i < QUEUES; i++) {
			struct client *c = &clients[i];

			*(int64_t *)(void *)(c->page + SIGNAL + 8) = 1;
			*(uint64_t *)(void *)c->args = DATA;
			*(uint32_t *)(void *)(c->args + 8) = STEPS;
			for (unsigned n = 0; n < PACKETS; n++) {
				bool last = n == PACKETS - 1;
				struct packet p =
					packet(k, 32, 32, last ? c->base + O_PAGE + SIGNAL : 0);

				p.kernarg = c->base + O_ARGS;
				memcpy(c->ring + c->next++ % 64 * 64, &p, 64);
			}
			/* One ring for all of them. */
			__atomic_store_n(&P64(0x38), c->next, __ATOMIC_RELEASE);
			__atomic_store_n((uint64_t *)&bell_page[c->bell], c->next - 1,
					 __ATOMIC_RELEASE);
		}
		cr_assert(WAIT_FOR(all_done(QUEUES) == QUEUES), "round %u: %u of %u", r,
			  all_done(QUEUES), (unsigned)QUEUES);
	}
	for (unsigned i = 0; i < QUEUES; i++)
		client_free(i);
}

/* Twelve processes of one queue: there are eight VMIDs. */
Test(vgpu_mes, twelve_processes_share_eight_vmids)
{
	struct vm *vms[12];
	uint64_t k = KERNEL(P_GRID);
	struct cp_stats s;

	for (unsigned i = 0; i < 12; i++) {
		cr_assert_eq(vm_create(&vms[i]), 0);
		cr_assert_eq(vm_map(vms[i], gva(CODE), 65536, code_bo, 0, VM_X, VM_MTYPE_NC), 0);
		cr_assert_eq(vm_map(vms[i], gva(DATA), DATA_BYTES, data_bo, 0, VM_W, VM_MTYPE_NC),
			     0);
		client_make(i, vms[i], 7);
		client_submit(i, k, 32, 32, DATA, 12);
	}
	cr_assert(WAIT_FOR(all_done(12) == 12), "%u of 12", all_done(12));
	cr_assert_eq(data[1], 12);
	cp_stats(&s);
	cr_assert_geq(s.switches, 4);
	for (unsigned i = 0; i < 12; i++) {
		client_free(i);
		vm_destroy(vms[i]);
	}
}

Test(vgpu_mes, idle_queues_cost_nobody_a_turn)
{
	enum { N = 20, STEPS = 20000 };
	uint64_t k = KERNEL(P_LONG);
	double cpu;

	for (unsigned i = 0; i < N; i++)
		client_make(i, vm, 7);
	cpu = idle_cost(300000, 0.01);
	cr_assert_lt(cpu, 0.01, "idle: %.4f s", cpu);
	for (unsigned i = 0; i < N; i++) {
		client_submit(i, k, 32, 32, DATA + 128 * i, STEPS);
		cr_assert(WAIT_FOR(client_done(i)));
	}
	for (unsigned i = 1; i < N; i++)
		for (unsigned t = 0; t < 32; t++)
			cr_assert_eq(data[32 * i + t], data[t]);
	for (unsigned i = 0; i < N; i++)
		client_free(i);
}

/* Eight of high priority keep their places while they have work; one of low priority waits. */
Test(vgpu_mes, priority_goes_first)
{
	uint64_t spin = KERNEL(P_SPIN), k = KERNEL(P_COUNT), from;
	bool done;

	cr_assert_eq(cp_queue_unmap(queue), 0);
	vgpu_config.clock_virtual = true;
	for (unsigned i = 0; i < 8; i++) {
		client_make(i, vm, 15);
		client_submit(i, spin, 32, 32, DATA, 0);
	}
	for (unsigned i = 0; i < 8; i++)
		cr_assert(WAIT_FOR(cp_queue_waves(clients[i].q) > 0));
	from = vgpu_clock_ns();
	client_make(8, vm, 0);
	client_submit(8, k, 32, 32, DATA + 64, 0);
	usleep(30000);
	done = client_done(8);
	/* A test that was late has nothing to say. */
	if (vgpu_clock_ns() - from < 150000000u)
		cr_assert_not(done, "15 levels of 10 ms each are to be waited for");
	client_make(9, vm, 15);
	client_submit(9, k, 32, 32, DATA + 128, 0);
	cr_assert(WAIT_FOR(client_done(9)), "an equal takes its turn");
	/* The clock runs; nothing waits for ever. */
	vgpu_clock_advance(vgpu_clock_ns() + 160000000u);
	cr_assert(WAIT_FOR(client_done(8)));
	data[2] = 1;
	cr_assert(WAIT_FOR(all_done(8) == 8));
	vgpu_config.clock_virtual = false;
	for (unsigned i = 0; i < 10; i++)
		client_free(i);
}

/* A trap handler that takes its time keeps its queue's place, not everybody's. */
Test(vgpu_mes, a_handler_is_not_waited_for)
{
	/* L: s_branch L */
	static const uint32_t never[] = {0xbfa0ffff};
	uint64_t h = KERNEL(never), t = KERNEL(P_TRAP), k = KERNEL(P_GRID);

	cr_assert_eq(cp_queue_unmap(queue), 0);
	for (unsigned i = 0; i < 12; i++)
		client_make(i, vm, 7);
	cp_queue_set_trap_handler(clients[0].q, h + 256, 0);
	client_submit(0, t, 32, 32, DATA + 64, 0);
	usleep(5000);
	for (unsigned i = 1; i < 12; i++)
		client_submit(i, k, 32, 32, DATA, 11);
	cr_assert(WAIT_FOR(all_done(12) == 11), "%u of 11", all_done(12));
	cr_assert_not(client_done(0));
	cp_queue_reset(clients[0].q);
	for (unsigned i = 0; i < 12; i++)
		client_free(i);
}

/* ---- CUs ------------------------------------------------------------------- */

struct where {
	unsigned wgp, simd, slot; /* wgp: as the kernel deals them */
};

static struct where where(unsigned group)
{
	uint32_t id1 = data[group], id2 = data[1024 + group];
	unsigned in_array = id1 >> 10 & 15, array = id1 >> 16 & 1, engine = id1 >> 18 & 7;

	cr_assert_lt(in_array, 5);
	cr_assert_lt(engine, 2);
	cr_assert_eq(id1 & 0xfff0f000 & ~(7u << 18) & ~(15u << 10), 0, "0x%x", id1);
	cr_assert_eq(id2 >> 8 & 3, 1, "the compute engine");
	cr_assert_eq(id2 >> 24 & 15, 8, "the first user VMID");
	return (struct where){in_array * 4 + array * 2 + engine, id1 >> 8 & 3, id1 & 31};
}

static unsigned arrived(uint32_t groups)
{
	unsigned n = 0;

	for (unsigned g = 0; g < groups; g++)
		n += data[g] != ~0u && data[1024 + g] != ~0u;
	return n;
}

/* Groups of P_WHERE resident on queue 0 with a mask; they wait there until told to go. */
static unsigned resident(uint32_t groups, uint16_t wg, unsigned want, unsigned per_wgp[20])
{
	uint64_t k = KERNEL(P_WHERE);
	unsigned n;
	uint64_t seen[20][4] = {{0}};

	memset((void *)(uintptr_t)data, 0xff, 8192);
	data[2048] = 0;
	memset(per_wgp, 0, 20 * sizeof(*per_wgp));
	client_submit(0, k, groups * wg, wg, DATA, 0);
	cr_assert(WAIT_FOR(arrived(groups) >= want), "%u of %u", arrived(groups), want);
	/* And no more come. */
	usleep(300000);
	n = arrived(groups);
	for (unsigned g = 0; g < groups; g++) {
		struct where w;

		if (data[g] == ~0u)
			continue;
		w = where(g);
		per_wgp[w.wgp]++;
		cr_assert_lt(w.slot, 16);
		if (wg <= 32)
			cr_assert_not(seen[w.wgp][w.simd] >> w.slot & 1, "a seat taken twice");
		seen[w.wgp][w.simd] |= 1ull << w.slot;
	}
	data[2048] = 1;
	cr_assert(WAIT_FOR(client_done(0)));
	return n;
}

Test(vgpu_mes, workgroups_spread_over_the_machine)
{
	unsigned per[20];

	client_make(0, vm, 7);
	cr_assert_eq(resident(40, 32, 40, per), 40);
	for (unsigned i = 0; i < 20; i++)
		cr_assert_eq(per[i], 2, "WGP %u has %u", i, per[i]);
	client_free(0);
}

static void mask(uint32_t wgps)
{
	struct client *c = &clients[0];

	cr_assert_eq(cp_queue_unmap(c->q), 0);
	c->mqd.masked = true;
	c->mqd.wgp_mask = wgps;
	cr_assert_eq(cp_queue_update(c->q, &c->mqd), 0);
	cr_assert_eq(cp_queue_map(c->q), 0);
}

Test(vgpu_mes, a_mask_confines)
{
	unsigned per[20];

	client_make(0, vm, 7);
	mask(1u << 3 | 1u << 17);
	cr_assert_eq(resident(100, 32, 100, per), 100);
	cr_assert_eq(per[3] + per[17], 100);
	cr_assert_eq(per[3], 50);
	/* 16 slots on each of 4 SIMDs; the rest wait their turn. */
	mask(1u << 5);
	cr_assert_eq(resident(100, 32, 64, per), 64);
	cr_assert_eq(per[5], 64);
	/* Nothing at all: nothing runs, and the queue still comes off. */
	mask(0);
	data[2048] = 0;
	client_submit(0, KERNEL(P_COUNT), 32, 32, DATA, 0);
	usleep(50000);
	cr_assert_not(client_done(0));
	mask(~0u);
	cr_assert(WAIT_FOR(client_done(0)));
	/* The planted defect: masks that nobody looks at. */
	mask(1);
	cr_assert_eq(vgpu_rule_set("cu_mask", false), 0);
	cr_assert_eq(resident(40, 32, 40, per), 40);
	cr_assert_eq(per[0], 2);
	cr_assert_eq(vgpu_rule_set("cu_mask", true), 0);
	client_free(0);
}

/* A workgroup keeps to one CU, or uses its WGP, as its kernel says. */
Test(vgpu_mes, cu_mode_and_wgp_mode)
{
	uint64_t cu = KERNEL(P_COUNT), wgp;
	struct packet p;

	wgp = KERNEL(P_COUNT);
	*(uint32_t *)(void *)(code + (wgp - CODE) + 48) |= 1u << 29;
	p = packet(cu, 1024 * 100, 1024, sig(0, 1));
	p.group_bytes = 65536;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	p = packet(wgp, 1024 * 100, 1024, sig(1, 1));
	p.group_bytes = 65536;
	submit(&p);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(data[0], 2 * 102400);
}
