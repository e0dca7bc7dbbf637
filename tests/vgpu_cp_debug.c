/* What a debugger asks of waves: traps at their first and last moment and behind each instruction,
 * halted launches, exception enables. */
#include "vgpu_cp_client.h"

TestSuite(vgpu_cp_debug, .init = start, .fini = stop, .timeout = 300);

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
static uint32_t word;

/* A queue whose process has the word, and the handler. */
static void debugged(uint32_t debug)
{
	word = debug;
	cr_assert_eq(cp_queue_unmap(queue), 0);
	mqd.debug = &word;
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
	__atomic_store_n(&word, 0, __ATOMIC_RELEASE);
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
	__atomic_store_n(&word, 1u << CP_DBG_LAUNCH_MODE_SHIFT, __ATOMIC_RELEASE);
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
	__atomic_store_n(&word, 0x104u << CP_DBG_EXCP_EN_SHIFT | CP_DBG_EXCP_REPLACE,
			 __ATOMIC_RELEASE);
	run(k);
	cr_assert_eq(data[0] >> 12 & 0x1ff, 0x104, "instead of them");
}
