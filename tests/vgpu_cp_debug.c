/* What a debugger asks of waves: traps at their first and last moment and behind each instruction,
 * halted launches, exception enables. */
#include "vgpu_cp_client.h"

TestSuite(vgpu_cp_debug, .init = start, .fini = stop, .timeout = 600);

/* A handler: tma[0] += 1 for each active lane, tma[1..3] = TRAPSTS, ttmp11, ttmp0; returns there
 *	v_mov_b32 v10, 0;  v_mov_b32 v11, 1;  s_getreg_b32 ttmp4, hwreg(HW_REG_TRAPSTS)
 *	v_mov_b32 v12, ttmp4;  v_mov_b32 v13, ttmp11;  v_mov_b32 v14, ttmp0
 *	global_store_b32 v10, v12, ttmp[14:15] offset:4
 *	global_store_b32 v10, v13, ttmp[14:15] offset:8
 *	global_store_b32 v10, v14, ttmp[14:15] offset:12
 *	global_atomic_add_u32 v10, v11, ttmp[14:15];  s_and_b32 ttmp1, ttmp1, 0xffff
 *	s_rfe_b64 ttmp[0:1] */
static const uint32_t P_OBSERVER[] = {
	0x7e140280, 0x7e160281, 0xb8f0f803, 0x7e180270, 0x7e1a0277, 0x7e1c026c,
	0xdc6a0004, 0x007a0c0a, 0xdc6a0008, 0x007a0d0a, 0xdc6a000c, 0x007a0e0a,
	0xdcd60000, 0x007a0b0a, 0x8b6dff6d, 0x0000ffff, 0xbe804a6c,
};
/* *out = MODE
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_getreg_b32 s6, hwreg(HW_REG_MODE);  v_mov_b32 v1, 0
 *	v_mov_b32 v2, s6;  s_waitcnt lgkmcnt(0);  global_store_b32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_MODE[] = {
	0xf4040100, 0xf8000000, 0xb886f801, 0x7e020280, 0x7e040206,
	0xbf89fc07, 0xdc6a0000, 0x00040201, 0xbfb00000,
};

enum { COUNT = 1024, TRAPSTS, TTMP11, PC };
static struct cp_debug wish;

/* A queue whose process has a debugger that wishes so, and the handler. */
static void debugged(uint32_t debug)
{
	wish = (struct cp_debug){.waves = debug};
	cr_assert_eq(cp_queue_unmap(queue), 0);
	mqd.debug = &wish;
	mqd.tba = KERNEL(P_OBSERVER) + 256;
	mqd.tma = DATA + 4 * COUNT;
	cr_assert_eq(cp_queue_update(queue, &mqd), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	kernargs(DATA, 0);
}

static uint64_t run(uint64_t kernel)
{
	struct packet p = packet(kernel, 32, 32, sig(0, 1));

	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0), "%u traps", data[COUNT]);
	return kernel + 256;
}

Test(vgpu_cp_debug, nothing_asked_nothing_trapped)
{
	debugged(CP_DBG_ATTACHED);
	run(KERNEL(P_STORE));
	cr_assert_eq(data[0], 7);
	cr_assert_eq(data[COUNT], 0);
}

Test(vgpu_cp_debug, trap_before_the_first_instruction)
{
	uint64_t entry;

	debugged(CP_DBG_TRAP_ON_START | CP_DBG_ATTACHED);
	entry = run(KERNEL(P_STORE));
	cr_assert_eq(data[0], 7);
	cr_assert_eq(data[COUNT], 32, "once, with all lanes still on");
	cr_assert_eq(data[TRAPSTS], 1u << 17);
	cr_assert_eq(data[PC], (uint32_t)entry);
	cr_assert(data[TTMP11] & 1u << 23, "the handler knows of the debugger");
}

Test(vgpu_cp_debug, trap_at_the_end)
{
	uint64_t entry;

	debugged(CP_DBG_TRAP_ON_END);
	entry = run(KERNEL(P_STORE));
	cr_assert_eq(data[0], 7);
	cr_assert_eq(data[COUNT], 1, "once, with lane 5 alone");
	cr_assert_eq(data[TRAPSTS], 1u << 18);
	cr_assert_eq(data[PC], (uint32_t)entry + 4 * 8, "at s_endpgm");
	cr_assert(!(data[TTMP11] & 1u << 23));
	/* What is asked now holds for waves that begin now. */
	__atomic_store_n(&wish.waves, 0, __ATOMIC_RELEASE);
	run(KERNEL(P_STORE));
	cr_assert_eq(data[COUNT], 1);
}

Test(vgpu_cp_debug, trap_behind_each_instruction)
{
	uint64_t entry;

	debugged(3u << CP_DBG_LAUNCH_MODE_SHIFT);
	entry = run(KERNEL(P_STORE));
	cr_assert_eq(data[0], 7);
	cr_assert_eq(data[COUNT], 32 + 5, "%u, wanted six instructions, then s_endpgm",
		     data[COUNT]);
	cr_assert_eq(data[TRAPSTS], 1u << 20);
	cr_assert_eq(data[PC], (uint32_t)entry + 4 * 8);
}

Test(vgpu_cp_debug, halted_at_launch)
{
	struct packet p;

	debugged(0);
	run(KERNEL(P_COUNT));
	cr_assert_eq(data[0], 32);
	__atomic_store_n(&wish.waves, 1u << CP_DBG_LAUNCH_MODE_SHIFT, __ATOMIC_RELEASE);
	p = packet(KERNEL(P_STORE), 32, 32, sig(0, 1));
	submit(&p);
	usleep(100000);
	cr_assert_eq(value(0), 1);
	cr_assert_eq(data[0], 32, "not an instruction of it has run");
	cr_assert_eq(cp_queue_unmap(queue), 0);
}

/* As the kernel's first level does it: the wave halts, and nothing is reported. */
Test(vgpu_cp_debug, without_a_handler_it_halts)
{
	struct packet p;

	debugged(CP_DBG_TRAP_ON_START);
	cp_queue_set_trap_handler(queue, 0, 0);
	p = packet(KERNEL(P_STORE), 32, 32, sig(0, 1));
	submit(&p);
	usleep(100000);
	cr_assert_eq(value(0), 1);
	cr_assert_eq(data[0], 0);
	cr_assert_eq(nirqs, 0);
}

Test(vgpu_cp_debug, exception_enables)
{
	uint64_t k = kernel_at(P_MODE, sizeof(P_MODE), 1u << 24, 0x400 | 8);

	debugged(0x104u << CP_DBG_EXCP_EN_SHIFT);
	run(k);
	cr_assert_eq(data[0] >> 12 & 0x1ff, 0x105, "besides the kernel's own");
	__atomic_store_n(&wish.waves, 0x104u << CP_DBG_EXCP_EN_SHIFT | CP_DBG_EXCP_REPLACE,
			 __ATOMIC_RELEASE);
	run(k);
	cr_assert_eq(data[0] >> 12 & 0x1ff, 0x104, "instead of them");
}

/* ---- watch points ---------------------------------------------------------- */

/* *out = 1, then out[n] is loaded, then added to, each behind the other's end; n = kernarg[8] / 4
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_load_b32 s6, s[0:1], 0x8;  v_mov_b32 v2, 1
 *	s_mov_b32 exec_lo, 1;  s_waitcnt lgkmcnt(0);  v_mov_b32 v1, s6;  v_mov_b32 v4, 0
 *	global_store_b32 v4, v2, s[4:5];  s_waitcnt_vscnt null, 0x0
 *	global_load_b32 v3, v1, s[4:5];  s_waitcnt vmcnt(0)
 *	global_atomic_add_u32 v1, v2, s[4:5];  s_waitcnt_vscnt null, 0x0;  s_endpgm */
static const uint32_t P_THREE[] = {
	0xf4040100, 0xf8000000, 0xf4000180, 0xf8000008, 0x7e040281, 0xbefe0081, 0xbf89fc07,
	0x7e020206, 0x7e080280, 0xdc6a0000, 0x00040204, 0xbc7c0000, 0xdc520000, 0x03040001,
	0xbf8903f7, 0xdcd60000, 0x00040201, 0xbc7c0000, 0xbfb00000,
};
enum { AFTER_LOAD = 4 * 14, AFTER_ATOMIC = 4 * 17 };
#define EXCP_EN_WATCH (1u << (CP_DBG_EXCP_EN_SHIFT + 7))

static void point(unsigned i, uint64_t addr, uint32_t mask, uint32_t mode)
{
	wish.watch[i].addr = addr;
	__atomic_store_n(&wish.watch[i].cntl,
			 mask >> CP_WATCH_MASK_SHIFT | mode << CP_WATCH_MODE_SHIFT | CP_WATCH_VALID,
			 __ATOMIC_RELEASE);
	__atomic_fetch_or(&wish.watching, 1u << i, __ATOMIC_RELEASE);
}

/* Runs P_THREE at offset n: how often it trapped. */
static uint32_t three(uint32_t n, uint64_t *entry)
{
	uint32_t before = data[COUNT];

	kernargs(DATA, n);
	*entry = run(kernel_at(P_THREE, sizeof(P_THREE), 0, 0x400 | 8));
	return data[COUNT] - before;
}

Test(vgpu_cp_debug, watch_point_by_mode)
{
	static const struct {
		uint32_t mode, traps, pc;
	} want[] = {
		{CP_WATCH_READ, 1, AFTER_LOAD},
		{CP_WATCH_NONREAD, 2, AFTER_ATOMIC},
		{CP_WATCH_ATOMIC, 1, AFTER_ATOMIC},
		{CP_WATCH_ALL, 3, AFTER_ATOMIC},
	};
	uint64_t entry;

	debugged(EXCP_EN_WATCH | CP_DBG_ATTACHED);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t traps;

		point(0, DATA, ~0u, want[i].mode);
		traps = three(64, &entry);
		cr_assert_eq(traps, want[i].traps, "mode %u: %u traps, wanted %u", i, traps,
			     want[i].traps);
		cr_assert_eq(data[TRAPSTS], 1u << 7);
		cr_assert_eq(data[PC], (uint32_t)entry + want[i].pc, "mode %u: +0x%x", i,
			     data[PC] - (uint32_t)entry);
	}
	/* Taken away: nothing. */
	__atomic_store_n(&wish.watch[0].cntl, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&wish.watching, 0, __ATOMIC_RELEASE);
	cr_assert_eq(three(64, &entry), 0);
}

/* Lines of 128 bytes; the mask leaves address bits out; a bit of TRAPSTS for each point. */
Test(vgpu_cp_debug, watch_point_by_address)
{
	uint64_t entry;

	debugged(EXCP_EN_WATCH);
	point(1, DATA + 0x280, ~0u, CP_WATCH_READ);
	cr_assert_eq(three(0x27c, &entry), 0);
	cr_assert_eq(three(0x280, &entry), 1);
	cr_assert_eq(data[TRAPSTS], 1u << 12);
	cr_assert_eq(three(0x2fc, &entry), 1);
	cr_assert_eq(three(0x300, &entry), 0);
	point(1, DATA + 0x280, ~0x180u, CP_WATCH_READ);
	cr_assert_eq(three(0x200, &entry), 1);
	cr_assert_eq(three(0x3fc, &entry), 1);
	cr_assert_eq(three(0x400, &entry), 0);
	/* Two at once, and one that another address has. */
	point(3, DATA + 0x280, ~0u, CP_WATCH_ALL);
	point(2, DATA + (1ull << 32), ~0u, CP_WATCH_ALL);
	cr_assert_eq(three(0x280, &entry), 2);
	cr_assert_eq(data[TRAPSTS], 1u << 14 | 1u << 12, "0x%x", data[TRAPSTS]);
}

/* Not enabled in MODE: kept in TRAPSTS, for whoever looks, and no trap. */
Test(vgpu_cp_debug, watch_point_not_enabled)
{
	uint64_t entry;

	debugged(CP_DBG_TRAP_ON_END);
	point(0, DATA, ~0u, CP_WATCH_ALL);
	cr_assert_eq(three(64, &entry), 1);
	cr_assert_eq(data[TRAPSTS], 1u << 18 | 1u << 7);
}
