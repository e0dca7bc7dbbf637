/* Preemption through the save area: its layout as a debugger reads it, edits that are taken, one
 * planted defect per saved block, barriers, halted waves, trap handlers.
 *
 * The reader here is written from what ROCm's debugger library does (ROCdbgapi, architecture.cpp,
 * gfx10 and gfx11), not from the device's own code.
 */
#include "vgpu_cp_client.h"
#include "cp/internal.h"

/* out[0]: go. Sets up every kind of state, waits, stores what is left of it: out + 64 + 32 t =
 * {m0, exec, mode, trapsts, v15, lds, scratch, s40 + vcc}
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_and_b32 v0, 0x3ff, v0;  s_waitcnt lgkmcnt(0)
 *	v_lshlrev_b32 v1, 2, v0;  v_mul_u32_u24 v2, 7, v0;  ds_store_b32 v1, v2
 *	scratch_store_b32 off, v2, off offset:8;  s_waitcnt lgkmcnt(0);  s_waitcnt_vscnt null, 0x0
 *	v_add_nc_u32 v15, 0x1234, v0;  s_movk_i32 s40, 0x77;  s_mov_b32 vcc_lo, 0x5a5a5a5a
 *	s_mov_b32 m0, 0x4321;  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5
 *	s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 6), 9;  s_mov_b32 exec_lo, 0xfffffff;  s_barrier
 * L:	s_load_b32 s6, s[4:5], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  s_mov_b32 s20, m0;  s_mov_b32 s21, exec_lo
 *	s_getreg_b32 s22, hwreg(HW_REG_MODE, 0, 4);  s_getreg_b32 s23, hwreg(HW_REG_TRAPSTS, 0, 6)
 *	s_mov_b32 exec_lo, -1;  ds_load_b32 v4, v1;  scratch_load_b32 v5, off, off offset:8
 *	s_waitcnt vmcnt(0) lgkmcnt(0);  v_lshlrev_b32 v6, 5, v0;  v_mov_b32 v7, s20
 *	v_mov_b32 v8, s21;  v_mov_b32 v9, s22;  v_mov_b32 v10, s23;  v_mov_b32 v11, s40
 *	v_mov_b32 v12, vcc_lo;  global_store_b128 v6, v[7:10], s[4:5] offset:64
 *	v_mov_b32 v7, v15;  v_mov_b32 v8, v4;  v_mov_b32 v9, v5;  v_add_nc_u32 v10, v11, v12
 *	global_store_b128 v6, v[7:10], s[4:5] offset:80;  s_endpgm */
static const uint32_t P_ALL[] = {
	0xf4040100, 0xf8000000, 0x360000ff, 0x000003ff, 0xbf89fc07, 0x30020082, 0x16040087,
	0xd8340000, 0x00000201, 0xdc690008, 0x007c0200, 0xbf89fc07, 0xbc7c0000, 0x4a1e00ff,
	0x00001234, 0xb0280077, 0xbeea00ff, 0x5a5a5a5a, 0xbefd00ff, 0x00004321, 0xb9801801,
	0x00000005, 0xb9802803, 0x00000009, 0xbefe00ff, 0x0fffffff, 0xbfbd0000, 0xf4004182,
	0xf8000000, 0xbf89fc07, 0xbf068006, 0xbfa2fffb, 0xbe94007d, 0xbe95007e, 0xb8961801,
	0xb8972803, 0xbefe00c1, 0xd8d80000, 0x04000001, 0xdc510008, 0x057c0000, 0xbf890007,
	0x300c0085, 0x7e0e0214, 0x7e100215, 0x7e120216, 0x7e140217, 0x7e160228, 0x7e18026a,
	0xdc760040, 0x00040706, 0x7e0e030f, 0x7e100304, 0x7e120305, 0x4a14190b, 0xdc760050,
	0x00040706, 0xbfb00000,
};
/* waits with SCC = 1, in a loop that does not touch it; out[2] = SCC ? 1 : 2
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_mov_b32 v1, 0;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 0, 0
 * L:	s_load_b32 vcc_lo, s[4:5], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cbranch_vccz L
 *	s_cselect_b32 s6, 1, 2;  v_mov_b32 v2, s6;  global_store_b32 v1, v2, s[4:5] offset:8
 *	s_endpgm */
static const uint32_t P_SCC[] = {
	0xf4040100, 0xf8000000, 0x7e020280, 0xbf89fc07, 0xbf068080, 0xf4005a82, 0xf8000000,
	0xbf89fc07, 0xbfa3fffc, 0x98068281, 0x7e040206, 0xdc6a0008, 0x00040201, 0xbfb00000,
};
/* lds[t] = t; the first wave waits for out[0], the others at the barrier; out[16 + t] = lds[127 -
 *t] s_load_b64 s[4:5], s[0:1], 0x0;  v_and_b32 v0, 0x3ff, v0;  v_lshlrev_b32 v1, 2, v0 ds_store_b32
 *v1, v0;  s_waitcnt lgkmcnt(0);  v_readfirstlane_b32 s6, v0 s_cmp_lg_u32 s6, 0;  s_cbranch_scc1 B
 * L:	s_load_b32 s7, s[4:5], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s7, 0
 *	s_cbranch_scc1 L
 * B:	s_barrier;  v_sub_nc_u32 v3, 0x1fc, v1;  ds_load_b32 v4, v3;  s_waitcnt lgkmcnt(0)
 *	global_store_b32 v1, v4, s[4:5] offset:64;  s_endpgm */
static const uint32_t P_WAIT_AT_BARRIER[] = {
	0xf4040100, 0xf8000000, 0x360000ff, 0x000003ff, 0x30020082, 0xd8340000, 0x00000001,
	0xbf89fc07, 0x7e0c0500, 0xbf078006, 0xbfa20005, 0xf40041c2, 0xf8000000, 0xbf89fc07,
	0xbf068007, 0xbfa2fffb, 0xbfbd0000, 0x4c0602ff, 0x000001fc, 0xd8d80000, 0x04000003,
	0xbf89fc07, 0xdc6a0040, 0x00040401, 0xbfb00000,
};
/* s_load_b64 s[4:5], s[0:1], 0x0;  v_mov_b32 v1, 0;  v_mov_b32 v2, 9;  s_waitcnt lgkmcnt(0)
 * s_sethalt 1;  global_store_b32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_HALT[] = {
	0xf4040100, 0xf8000000, 0x7e020280, 0x7e040289, 0xbf89fc07,
	0xbf820001, 0xdc6a0000, 0x00040201, 0xbfb00000,
};
/* L: s_branch L, as a trap handler */
static const uint32_t P_NEVER[] = {0xbfa0ffff};
/* A handler that takes until tma[0] is not 0, then steps over the trap
 * L:	s_load_b32 ttmp4, ttmp[14:15], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 ttmp4, 0
 *	s_cbranch_scc1 L;  s_add_u32 ttmp0, ttmp0, 4;  s_addc_u32 ttmp1, ttmp1, 0
 *	s_and_b32 ttmp1, ttmp1, 0xffff;  s_rfe_b64 ttmp[0:1] */
static const uint32_t P_SLOW_HANDLER[] = {
	0xf4005c3d, 0xf8000000, 0xbf89fc07, 0xbf068070, 0xbfa2fffb,
	0x806c846c, 0x826d806d, 0x8b6dff6d, 0x0000ffff, 0xbe804a6c,
};
/* v_mov_b32 v1, 0;  v_mov_b32 v2, 9;  s_load_b64 s[4:5], s[0:1], 0x0;  s_trap 3
 * s_waitcnt lgkmcnt(0);  global_store_b32 v1, v2, s[4:5] offset:128;  s_endpgm */
static const uint32_t P_TRAP_THEN_STORE[] = {
	0x7e020280, 0x7e040289, 0xf4040100, 0xf8000000, 0xbf900003,
	0xbf89fc07, 0xdc6a0080, 0x00040201, 0xbfb00000,
};
/* the third group waits for out[0], then traps
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_cmp_lg_u32 s2, 2;  s_cbranch_scc1 E
 *	s_waitcnt lgkmcnt(0)
 * L:	s_load_b32 s6, s[4:5], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  s_trap 3
 * E:	s_endpgm */
static const uint32_t P_WAIT_AND_TRAP[] = {
	0xf4040100, 0xf8000000, 0xbf078202, 0xbfa20007, 0xbf89fc07, 0xf4004182,
	0xf8000000, 0xbf89fc07, 0xbf068006, 0xbfa2fffb, 0xbf900003, 0xbfb00000,
};
/* A handler: tma[2] = ttmp6, tma[3] = ttmp8, steps over the trap
 *	v_mov_b32 v10, 0;  v_mov_b32 v11, ttmp6;  global_store_b32 v10, v11, ttmp[14:15] offset:8
 *	v_mov_b32 v11, ttmp8;  global_store_b32 v10, v11, ttmp[14:15] offset:12
 *	s_add_u32 ttmp0, ttmp0, 4;  s_addc_u32 ttmp1, ttmp1, 0;  s_and_b32 ttmp1, ttmp1, 0xffff
 *	s_rfe_b64 ttmp[0:1] */
static const uint32_t P_TTMP_HANDLER[] = {
	0x7e140280, 0x7e160272, 0xdc6a0008, 0x007a0b0a, 0x7e160274, 0xdc6a000c,
	0x007a0b0a, 0x806c846c, 0x826d806d, 0x8b6dff6d, 0x0000ffff, 0xbe804a6c,
};
/* x = 1, then kernarg[8] times x = x * 0x19660d + t + 0x3c6ef35f; out[32 group + t] = x
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

/* Loads v15 and stores v0 without ever waiting for either, then waits for out[0]
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_and_b32 v0, 0x3ff, v0;  v_lshlrev_b32 v1, 2, v0
 *	v_mov_b32 v15, 0;  s_waitcnt lgkmcnt(0);  global_load_b32 v15, v1, s[4:5] offset:256
 *	global_store_b32 v1, v0, s[4:5] offset:512
 * L:	s_load_b32 s6, s[4:5], 0x0 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  s_endpgm */
static const uint32_t P_NO_WAIT[] = {
	0xf4040100, 0xf8000000, 0x360000ff, 0x000003ff, 0x30020082, 0x7e1e0280,
	0xbf89fc07, 0xdc520100, 0x0f040001, 0xdc6a0200, 0x00040001, 0xf4004182,
	0xf8000000, 0xbf89fc07, 0xbf068006, 0xbfa2fffb, 0xbfb00000,
};

enum {
	AREA = 0x20000000,
	CTL = 0x4000,
	AREA_BYTES = 4 << 20,
	LDS_512 = 1 << 15, /* rsrc2: granulated LDS size, which the packet overrides */
};

static struct vm_bo *area_bo;
static uint8_t *area;

static void start_cwsr(void)
{
	open_device();
	area = map_bo(&area_bo, AREA, AREA_BYTES, VM_W);
	mqd.cwsr = gva(AREA);
	mqd.cwsr_bytes = AREA_BYTES;
	mqd.ctl_stack_bytes = CTL;
	mqd.ttmp_setup = true;
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
}

static void stop_cwsr(void)
{
	vm_bo_unref(area_bo);
	stop();
}

TestSuite(vgpu_cwsr, .init = start_cwsr, .fini = stop_cwsr, .timeout = 600);

/* ---- the debugger's reading ----------------------------------------------- */

struct saved {
	uint32_t relaunch, state;
	bool first, last, w64;
	uint32_t nvgpr, lds_bytes, se, slot;
	uint8_t *vgprs, *lds;
	uint32_t *sgprs, *hwregs, *ttmps;
};

enum { M0, PC_LO, PC_HI, EXEC_LO, EXEC_HI, STATUS, TRAPSTS, XNACK, MODE, FLAT_LO, FLAT_HI };

static struct saved waves[512];

static struct cp_wave_state take_off(void)
{
	struct cp_wave_state ws;

	cr_assert_eq(cp_queue_unmap(queue), 0);
	cr_assert_eq(cp_queue_wave_state(queue, &ws), 0);
	return ws;
}

/* Returns how many waves; everything must add up. */
static unsigned read_area(const struct cp_wave_state *ws)
{
	uint32_t *stack = (uint32_t *)(void *)(area + ws->control_stack_offset);
	uint8_t *top = area + ws->wave_state_offset;
	uint32_t state = 0;
	unsigned n = 0;

	cr_assert_eq(ws->control_stack_offset + ws->control_stack_size, CTL);
	cr_assert_eq(ws->wave_state_offset - ws->wave_state_size, CTL);
	for (unsigned i = 2; i < ws->control_stack_size / 4; i++) {
		uint32_t w = stack[i];
		struct saved *s = &waves[n];

		if (w >> 30 & 1)
			continue;
		if (w >> 31) {
			state = w;
			i++;
			continue;
		}
		cr_assert(state, "a wave before its state");
		s->relaunch = w;
		s->state = state;
		s->first = w >> 12 & 1;
		s->last = w >> 29 & 1;
		s->se = w >> 24 & 7;
		s->slot = w & 0x3ff;
		s->w64 = !(state >> 24 & 1);
		s->nvgpr = ((state & 63) + 1) * (s->w64 ? 4 : 8);
		s->lds_bytes = (state >> 10 & 0xff) * 512;
		if (s->first)
			top -= s->lds_bytes;
		s->lds = s->first ? top : NULL;
		s->ttmps = (uint32_t *)(void *)(top - 64);
		s->hwregs = s->ttmps - 16;
		s->sgprs = s->hwregs - 128;
		s->vgprs = (uint8_t *)s->sgprs - s->nvgpr * (s->w64 ? 256 : 128);
		top = s->vgprs;
		n++;
	}
	cr_assert_eq(top, area + CTL, "control stack and wave area disagree by %ld bytes",
		     top - area - CTL);
	return n;
}

static uint32_t vgpr(const struct saved *s, unsigned r, unsigned lane)
{
	uint32_t v;

	memcpy(&v, s->vgprs + (r * (s->w64 ? 64 : 32) + lane) * 4, 4);
	return v;
}

static uint64_t pc(const struct saved *s)
{
	return s->hwregs[PC_LO] | (uint64_t)s->hwregs[PC_HI] << 32;
}

/* Until waves wait in the loop at dword `at` of kernel k; then the queue is off. It is on for longer and
 * longer: waves may have to wait for a core. */
static struct cp_wave_state off_at(uint64_t k, unsigned from, unsigned to, unsigned n)
{
	useconds_t on = 100;

	for (uint64_t end = now_ns() + 60000000000u; now_ns() < end;) {
		struct cp_wave_state ws = take_off();
		unsigned got = ws.saved_waves ? read_area(&ws) : 0, there = 0;

		for (unsigned i = 0; i < got; i++)
			there += pc(&waves[i]) >= k + 256 + 4 * from &&
				 pc(&waves[i]) < k + 256 + 4 * to;
		if (there == n && got == n)
			return ws;
		cr_assert_eq(cp_queue_map(queue), 0);
		usleep(on);
		on += on / 4;
	}
	cr_assert_fail("the waves never get there: %s", nirqs ? irqs[0].text : "no interrupt");
	return (struct cp_wave_state){0};
}

/* A worker's second visit finds a wave where its first one left it: spinning in its handler. */
static void wait_for_handler(void)
{
	cr_assert(WAIT_FOR(__atomic_load_n(&queue->turns, __ATOMIC_RELAXED) > 2));
}

/* ---- the area -------------------------------------------------------------- */

Test(vgpu_cwsr, nothing_saved)
{
	struct cp_wave_state ws = take_off();

	cr_assert_eq(ws.control_stack_offset, CTL);
	cr_assert_eq(ws.control_stack_size, 0);
	cr_assert_eq(ws.wave_state_offset, CTL);
	cr_assert_eq(ws.wave_state_size, 0);
}

static void give_scratch(void)
{
	const uint32_t per_wave = 1024, per_se = 8;

	U32(0x8c) = per_se | per_wave / 256 << 12;
	U32(0x90) = SCRATCH;
	U32(0x98) = 2 * per_se * per_wave;
	U32(0xb0) = per_wave / 64;
	U64(0xa0) = SCRATCH;
	U64(0xa8) = 2 * per_se * per_wave;
}

static struct packet all_packet(uint64_t k, uint64_t s)
{
	struct packet p = packet(k, 128, 64, s);

	p.group_bytes = 512;
	p.private_bytes = 32;
	return p;
}

Test(vgpu_cwsr, the_area_as_a_debugger_reads_it)
{
	uint64_t k = KERNEL(P_ALL), s = sig(0, 1);
	struct packet p = all_packet(k, s);
	struct cp_wave_state ws;
	unsigned leaders = 0, groups = 0;

	give_scratch();
	kernargs(DATA, 0);
	submit(&p);
	ws = off_at(k, 27, 32, 4);
	cr_assert_eq(ws.saved_waves, 4);
	cr_assert_eq(ws.control_stack_size, (2 + 2 + 4) * 4, "one state for all");
	cr_assert_eq(ws.wave_state_size, 4 * (16 * 128 + 640) + 2 * 512);
	for (unsigned i = 0; i < 4; i++) {
		struct saved *w = &waves[i];
		unsigned wave = w->ttmps[11] & 63, group = w->ttmps[8];

		cr_assert_eq(w->w64, false);
		cr_assert_eq(w->nvgpr, 16);
		cr_assert_eq(w->lds_bytes, 512);
		cr_assert_eq(w->first, wave == 0, "the leader is the first wave");
		cr_assert_eq(w->last, wave == 1);
		cr_assert_eq(w->relaunch >> 11 & 1, 1, "scratch is on");
		leaders += w->first;
		groups |= 1u << group;
		for (unsigned l = 0; l < 32; l++) {
			unsigned t = 32 * wave + l;

			cr_assert_eq(vgpr(w, 0, l), t);
			cr_assert_eq(vgpr(w, 15, l), t + 0x1234);
			if (w->first) {
				cr_assert_eq(((uint32_t *)(void *)w->lds)[t], 7 * t);
				cr_assert_eq(((uint32_t *)(void *)w->lds)[t + 32], 7 * (t + 32));
			}
			/* What the wave stored to scratch is where the debugger looks. */
			cr_assert_eq(*(uint32_t *)(void *)(scratch + (8 * w->se + w->slot) * 1024 +
							   2 * 128 + 4 * l),
				     7 * t);
		}
		cr_assert_eq(w->sgprs[0], ARGS);
		cr_assert_eq(w->sgprs[2], group);
		cr_assert_eq(w->sgprs[40], 0x77);
		cr_assert_eq(w->sgprs[106], 0x5a5a5a5a, "VCC");
		for (unsigned r = 108; r < 128; r++)
			cr_assert_eq(w->sgprs[r], 0);
		cr_assert_eq(w->hwregs[M0], 0x4321);
		cr_assert_eq(w->hwregs[EXEC_LO], 0x0fffffff);
		cr_assert_eq(w->hwregs[EXEC_HI], 0);
		cr_assert_eq(w->hwregs[STATUS] & (1u << 16 | 1u << 5), 1u << 16 | 1u << 5,
			     "valid; read in the handler");
		cr_assert_eq(w->hwregs[STATUS] >> 13 & 1, 0, "not halted");
		cr_assert_eq(w->hwregs[TRAPSTS], 9);
		cr_assert_eq(w->hwregs[MODE] & 15, 5);
		cr_assert_eq(w->hwregs[FLAT_LO], SCRATCH + (8 * w->se + w->slot) * 1024);
		cr_assert_eq(w->ttmps[6], 0, "first packet");
	}
	cr_assert_eq(leaders, 2);
	cr_assert_eq(groups, 3);
	data[0] = 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* Puts the queue back on and takes it off by a save that leaves a block out. What is in the area
 * of earlier saves is wiped. */
static void once_without(const char *rule)
{
	if (!rule)
		return;
	cr_assert_eq(cp_queue_map(queue), 0);
	memset(area, 0, AREA_BYTES);
	cr_assert_eq(vgpu_rule_set(rule, false), 0);
	cr_assert_eq(cp_queue_unmap(queue), 0);
	cr_assert_eq(vgpu_rule_set(rule, true), 0);
}

static unsigned wrong_results(void)
{
	unsigned bad = 0;

	for (unsigned t = 0; t < 64; t++) {
		const volatile uint32_t *o = data + 16 + 8 * t;
		const uint32_t want[8] = {0x4321,     0x0fffffff, 5,     9,
					  t + 0x1234, 7 * t,      7 * t, 0x77 + 0x5a5a5a5a};

		for (unsigned i = 0; i < 8; i++)
			bad += o[i] != want[i];
	}
	return bad;
}

/* One preemption of P_ALL, without a block if one is named; how many of the results are wrong. */
static unsigned run_all(uint64_t k, const char *rule)
{
	struct packet p = all_packet(k, sig(0, 1));
	uint64_t end;

	memset((void *)(uintptr_t)data, 0, 4096);
	memset(area, 0, AREA_BYTES);
	submit(&p);
	off_at(k, 27, 32, 4);
	once_without(rule);
	data[0] = 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	/* With a defect it may never end. */
	end = now_ns() + (rule ? 2000000000u : 60000000000u);
	while (value(0) && now_ns() < end && !nirqs)
		usleep(100);
	return value(0) ? ~0u : wrong_results();
}

Test(vgpu_cwsr, all_state_survives)
{
	uint64_t k = KERNEL(P_ALL);

	give_scratch();
	kernargs(DATA, 0);
	for (unsigned i = 0; i < 20; i++)
		cr_assert_eq(run_all(k, NULL), 0);
}

#define DEFECT(block)                                                                              \
	Test(vgpu_cwsr, without_##block)                                                           \
	{                                                                                          \
		uint64_t k = KERNEL(P_ALL);                                                        \
                                                                                                   \
		give_scratch();                                                                    \
		kernargs(DATA, 0);                                                                 \
		cr_assert_neq(run_all(k, "cwsr_save_" #block), 0,                                  \
			      "a save without " #block " goes unnoticed");                         \
	}
DEFECT(vgprs)
DEFECT(sgprs)
DEFECT(m0)
DEFECT(pc)
DEFECT(exec)
DEFECT(trapsts)
DEFECT(mode)
DEFECT(flat_scratch)
DEFECT(lds)

/* STATUS carries SCC. */
static uint32_t run_scc(const char *rule)
{
	uint64_t k = KERNEL(P_SCC);
	struct packet p = packet(k, 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	data[0] = 0;
	submit(&p);
	off_at(k, 5, 9, 1);
	once_without(rule);
	data[0] = 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	return data[2];
}

Test(vgpu_cwsr, scc_survives)
{
	cr_assert_eq(run_scc(NULL), 1);
}

Test(vgpu_cwsr, without_status)
{
	cr_assert_eq(run_scc("cwsr_save_status"), 2);
}

static uint32_t run_ttmps(const char *rule)
{
	static uint64_t handler;
	uint64_t k = KERNEL(P_WAIT_AND_TRAP);
	struct packet p = packet(k, 96, 32, sig(0, 1));

	if (!handler)
		handler = KERNEL(P_TTMP_HANDLER);
	cp_queue_set_trap_handler(queue, handler + 256, DATA + 64);
	kernargs(DATA, 0);
	data[0] = 0;
	submit(&p);
	off_at(k, 5, 10, 1);
	once_without(rule);
	data[0] = 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	return data[16 + 3];
}

Test(vgpu_cwsr, ttmps_survive)
{
	cr_assert_eq(run_ttmps(NULL), 2, "the workgroup's number");
	cr_assert_eq(data[16 + 2], 0);
	cr_assert_eq(run_ttmps(NULL), 2);
	cr_assert_eq(data[16 + 2], 1, "the packet's");
}

Test(vgpu_cwsr, without_ttmps)
{
	cr_assert_neq(run_ttmps("cwsr_save_ttmps"), 2);
}

/* ---- edits ------------------------------------------------------------------ */

Test(vgpu_cwsr, an_edit_is_taken)
{
	uint64_t k = KERNEL(P_ALL);
	struct packet p = all_packet(k, sig(0, 1));

	give_scratch();
	kernargs(DATA, 0);
	submit(&p);
	off_at(k, 27, 32, 4);
	for (unsigned i = 0; i < 4; i++) {
		struct saved *w = &waves[i];
		uint32_t v = 0xabc;

		w->hwregs[PC_LO] = (uint32_t)(k + 256 + 4 * 32); /* behind the loop */
		w->hwregs[M0] = 77;
		w->sgprs[40] = 1;
		w->sgprs[106] = 2;
		memcpy(w->vgprs + (15 * 32 + 3) * 4, &v, 4);
		if (w->first)
			((uint32_t *)(void *)w->lds)[5] = 55;
	}
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0), "nobody said go; the PC did");
	cr_assert_eq(data[16], 77);
	cr_assert_eq(data[16 + 7], 3);
	cr_assert_eq(data[16 + 8 * 3 + 4], 0xabc);
	cr_assert_eq(data[16 + 8 * 4 + 4], 4 + 0x1234);
	cr_assert_eq(data[16 + 8 * 5 + 5], 55);
}

Test(vgpu_cwsr, a_broken_control_stack_is_refused)
{
	uint64_t k = KERNEL(P_ALL);
	struct packet p = all_packet(k, sig(0, 1));
	struct cp_wave_state ws;

	give_scratch();
	kernargs(DATA, 0);
	submit(&p);
	ws = off_at(k, 27, 32, 4);
	((uint32_t *)(void *)(area + ws.control_stack_offset))[2] ^= 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 30);
	cr_assert(strstr(irq(0)->text, "control stack, word 5: 8 VGPRs"), "%s", irq(0)->text);
}

Test(vgpu_cwsr, an_area_that_is_gone_faults)
{
	uint64_t k = KERNEL(P_SPIN);
	struct packet p = packet(k, 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	submit(&p);
	off_at(k, 3, 8, 1);
	cr_assert_eq(vm_unmap(vm, gva(AREA)), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.va.a & ~4095ull, AREA + CTL - 4096);
	cr_assert(strstr(irq(0)->text, "control stack of queue 1"), "%s", irq(0)->text);
}

Test(vgpu_cwsr, wave64)
{
	uint64_t k = kernel_at(P_SPIN, sizeof(P_SPIN), 0, 8);
	struct packet p = packet(k, 128, 128, sig(0, 1));
	struct cp_wave_state ws;

	kernargs(DATA, 0);
	submit(&p);
	ws = off_at(k, 3, 8, 2);
	cr_assert_eq(ws.wave_state_size, 2 * (8 * 256 + 640));
	for (unsigned i = 0; i < 2; i++) {
		cr_assert(waves[i].w64);
		cr_assert_eq(waves[i].hwregs[EXEC_HI], ~0u);
		for (unsigned l = 0; l < 64; l++)
			cr_assert_eq(vgpr(&waves[i], 0, l), 64 * (waves[i].ttmps[11] & 63) + l);
	}
	data[2] = 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 128);
}

/* ---- where waves can be ----------------------------------------------------- */

Test(vgpu_cwsr, waves_at_a_barrier_arrive_again)
{
	uint64_t k = KERNEL(P_WAIT_AT_BARRIER);
	struct packet p = packet(k, 128, 128, sig(0, 1));
	unsigned arrived = 0;

	p.group_bytes = 512;
	kernargs(DATA, 0);
	submit(&p);
	for (uint64_t end = now_ns() + 60000000000u; arrived < 5 && now_ns() < end;) {
		unsigned at = 0;

		off_at(k, 11, 17, 4);
		for (unsigned w = 0; w < 4; w++)
			at += pc(&waves[w]) == k + 256 + 4 * 16;
		cr_assert_leq(at, 3);
		arrived += at == 3;
		if (arrived == 5)
			data[0] = 1;
		cr_assert_eq(cp_queue_map(queue), 0);
		usleep(1000);
	}
	cr_assert_eq(arrived, 5, "their PC is the barrier's");
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned t = 0; t < 128; t++)
		cr_assert_eq(data[16 + t], 127 - t);
}

Test(vgpu_cwsr, a_halted_wave_is_resumed_by_who_clears_the_bit)
{
	uint64_t k = KERNEL(P_HALT);
	struct packet p = packet(k, 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	submit(&p);
	for (unsigned i = 0; i < 3; i++) {
		off_at(k, 6, 7, 1);
		cr_assert_eq(waves[0].hwregs[STATUS] >> 13 & 1, 1);
		cr_assert_eq(value(0), 1);
		if (i == 2)
			waves[0].hwregs[STATUS] &= ~(1u << 13);
		cr_assert_eq(cp_queue_map(queue), 0);
	}
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 9);
}

static void *let_go(void *arg)
{
	usleep(50000);
	*(volatile uint32_t *)arg = 1;
	return NULL;
}

Test(vgpu_cwsr, a_trap_handler_is_not_interrupted)
{
	uint64_t h = KERNEL(P_SLOW_HANDLER), k = KERNEL(P_TRAP_THEN_STORE);
	struct packet p = packet(k, 32, 32, sig(0, 1));
	pthread_t t;

	cp_queue_set_trap_handler(queue, h + 256, DATA);
	kernargs(DATA, 0);
	submit(&p);
	wait_for_handler();
	pthread_create(&t, NULL, let_go, (void *)(uintptr_t)data);
	cr_assert_eq(cp_queue_unmap(queue), 0, "the handler returns, then the wave is saved");
	cr_assert_eq(data[0], 1, "not before it could");
	pthread_join(t, NULL);
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[32], 9);
}

Test(vgpu_cwsr, a_trap_handler_that_never_returns_hangs_the_scheduler)
{
	uint64_t h = KERNEL(P_NEVER), k = KERNEL(P_TRAP_THEN_STORE);
	struct packet p = packet(k, 32, 32, sig(0, 1));
	uint64_t before = vgpu_clock_ns();

	vgpu_config.clock_virtual = true;
	cp_queue_set_trap_handler(queue, h + 256, DATA);
	kernargs(DATA, 0);
	submit(&p);
	wait_for_handler();
	cr_assert_eq(cp_queue_unmap(queue), -ETIMEDOUT);
	cr_assert_geq(vgpu_clock_ns() - before, 2100000000u, "MES waits 2.1 s");
	cp_queue_reset(queue);
	cr_assert_eq(value(0), 1);
	cr_assert_not(cp_queue_mapped(queue));
	vgpu_config.clock_virtual = false;
}

Test(vgpu_cwsr, without_an_answer_from_mes)
{
	vgpu_config.clock_virtual = true;
	cr_assert_eq(vgpu_rule_set("mes_remove_queue", false), 0);
	cr_assert_eq(cp_queue_unmap(queue), -ETIMEDOUT);
	cr_assert(cp_queue_mapped(queue), "it is still there");
	cr_assert_eq(vgpu_rule_set("mes_remove_queue", true), 0);
	vgpu_config.clock_virtual = false;
}

/* What is on its way to a wave that is saved (isa/delay.h) arrives first: in the area, and in memory. */
Test(vgpu_cwsr, delayed_memory_arrives_before_the_save)
{
	uint64_t k = KERNEL(P_NO_WAIT);
	struct packet p = packet(k, 32, 32, sig(0, 1));

	vgpu_config.delay = 1000000;
	for (unsigned t = 0; t < 32; t++)
		data[64 + t] = 1000 + t;
	kernargs(DATA, 0);
	submit(&p);
	off_at(k, 11, 16, 1);
	for (unsigned t = 0; t < 32; t++) {
		cr_assert_eq(vgpr(&waves[0], 15, t), 1000 + t);
		cr_assert_eq(data[128 + t], t);
	}
	data[0] = 1;
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	vgpu_config.delay = 0;
}

/* ---- many ------------------------------------------------------------------- */

Test(vgpu_cwsr, many_preemptions_change_nothing)
{
	enum { GROUPS = 64, STEPS = 60000 };
	uint64_t k = KERNEL(P_LONG);
	struct packet p = packet(k, 32 * GROUPS, 32, sig(0, 1));
	unsigned times = 0, with = 0;

	kernargs(DATA, STEPS);
	/* Once, unless this thread has no core while the waves run. */
	for (unsigned rounds = 0; with <= 5 && rounds < 50; rounds++) {
		p.signal = sig(0, 1);
		submit(&p);
		for (useconds_t on = 200; value(0); on += on / 16) {
			struct cp_wave_state ws = take_off();

			times++;
			if (ws.saved_waves) {
				with++;
				read_area(&ws);
				for (unsigned i = 0; i < ws.saved_waves; i++)
					cr_assert_lt(waves[i].ttmps[8], (uint32_t)GROUPS);
			}
			cr_assert_eq(cp_queue_map(queue), 0);
			usleep(on);
			cr_assert_lt(times, 1000000u);
		}
	}
	cr_assert_gt(with, 5, "%u of %u preemptions had waves", with, times);
	for (unsigned t = 0; t < 32; t++) {
		uint32_t x = 1;

		for (unsigned i = 0; i < STEPS; i++)
			x = x * 0x19660d + t + 0x3c6ef35f;
		for (unsigned g = 0; g < GROUPS; g++)
			cr_assert_eq(data[32 * g + t], x, "group %u item %u", g, t);
	}
}
