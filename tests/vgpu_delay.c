/* Delayed memory: programs that wait enough are right at every seed, programs that do not are wrong
 * at a rate that is printed. */
#include "delay_programs.h"

static void setup(void)
{
	wave(false);
}

TestSuite(vgpu_delay, .init = setup, .fini = m_fini);

static void setup64(void)
{
	wave(true);
}

TestSuite(vgpu_delay64, .init = setup64, .fini = m_fini);

/* ---- rates --------------------------------------------------------------- */

/* Runs emit(how) at every seed; how many are wrong, by the first lane's value of v10. */
static unsigned wrong(void (*emit)(unsigned how), unsigned how, uint32_t want)
{
	unsigned bad = 0;

	emit(how);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(M.w->state == WAVE_ENDED, "state %u stop %u", M.w->state, M.w->stop);
		bad += m_v(10)[0] != want;
	}
	return bad;
}

/* right: variants 0..right-1 wait enough; the others, to n, do not. */
static void rates(const char *what, void (*emit)(unsigned how), unsigned right, unsigned n,
		  uint32_t want, unsigned least)
{
	for (unsigned how = 0; how < n; how++) {
		unsigned bad = wrong(emit, how, want);

		printf("%s, %s wait %u: %u of %u seeds wrong\n", what,
		       how < right ? "sufficient" : "insufficient", how, bad, SEEDS);
		if (how < right)
			cr_assert(bad == 0, "%s: %u of %u wrong", what, bad, SEEDS);
		else
			cr_assert(bad >= least, "%s: only %u of %u wrong", what, bad, SEEDS);
	}
	fflush(stdout);
}

/* ---- vmcnt --------------------------------------------------------------- */

Test(vgpu_delay, vmcnt)
{
	rates("a load", one_load, 3, 9, 1000, SEEDS * 9 / 10);
}

Test(vgpu_delay, vmcnt_in_order)
{
	rates("the first of three loads", loads_in_order, 1, 2, 1000, SEEDS * 8 / 10);
}

Test(vgpu_delay, vmcnt_counts_empty_loads)
{
	rates("a load before an empty one", empty_load, 1, 2, 1000, SEEDS * 8 / 10);
}

Test(vgpu_delay, vmcnt_counts_atomics_that_return)
{
	rates("an atomic with return", returning_atomic, 1, 2, 1000, SEEDS * 9 / 10);
}

Test(vgpu_delay, vmcnt_counts_buffers)
{
	rates("a buffer load", typed_load, 1, 2, 1000, SEEDS * 9 / 10);
}

Test(vgpu_delay, write_after_write)
{
	unsigned late = 0;

	rates("a register written while it is loaded", overwritten, 1, 1, 0x77, 0);
	overwritten(1);
	for (unsigned i = 0; i < MOST; i++)
		e_sopp(ISA_S_NOP, 0);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(m_v(10)[0] == 0x77 || m_v(10)[0] == 1000);
		late += m_v(10)[0] == 1000;
	}
	printf("a register written while it is loaded, no wait: %u of %u seeds wrong\n", late,
	       SEEDS);
	cr_assert(late >= SEEDS * 9 / 10);
}

/* ---- vscnt --------------------------------------------------------------- */

Test(vgpu_delay, vscnt)
{
	rates("a store", store_seen, 2, 6, 0x77, SEEDS * 3 / 10);
}

Test(vgpu_delay, vscnt_in_order)
{
	rates("the first of three stores", stores_in_order, 1, 2, 0x77, SEEDS * 2 / 10);
}

Test(vgpu_delay, vscnt_counts_atomics_without_return)
{
	rates("an atomic without return", silent_atomic, 1, 2, 0x77, SEEDS * 3 / 10);
}

Test(vgpu_delay, no_wait_needed)
{
	rates("store data overwritten", store_data, 1, 1, 0x77, 0);
	rates("own accesses to the same bytes", same_address, 4, 4, 0x77, 0);
}

/* ---- lgkmcnt ------------------------------------------------------------- */

Test(vgpu_delay, lgkmcnt_lds)
{
	rates("an LDS load", lds_load, 2, 5, 1000, SEEDS * 9 / 10);
	rates("the first of two LDS loads", lds_in_order, 1, 2, 1000, SEEDS * 8 / 10);
	rates("a lane exchange", lds_exchange, 1, 2, 0x77, SEEDS * 9 / 10);
}

Test(vgpu_delay, lgkmcnt_in_any_order)
{
	rates("a scalar load", scalar_load, 1, 2, 1000, SEEDS * 9 / 10);
	rates("the first of two scalar loads", scalar_loads, 1, 2, 1000, SEEDS * 3 / 10);
	rates("an LDS load before a scalar one", lds_and_scalar, 1, 2, 1000, SEEDS * 3 / 10);
	rates("a message's answer", message, 1, 2, 0x5a5a0080, SEEDS * 9 / 10);
}

/* ---- flat ---------------------------------------------------------------- */

Test(vgpu_delay, flat)
{
	rates("a flat load from memory", flat_memory, 2, 4, 1000, SEEDS * 9 / 10);
	rates("a flat load from LDS", flat_lds, 2, 4, 1000, SEEDS * 9 / 10);
}

/* Lanes of both kinds: each needs its own counter. */
Test(vgpu_delay, flat_lanes)
{
	for (unsigned how = 0; how < 3; how++) {
		unsigned memory = 0, lds = 0;

		e_flat(ISA_FLAT_LOAD_B32, 0, 8, 2, 0, M_NULL, 0, false);
		flat_wait(how);
		end_code();
		for (unsigned seed = 0; seed < SEEDS; seed++) {
			fresh(false, seed, MOST, false);
			for (unsigned l = 0; l < 32; l += 2) {
				m_v(2)[l] = 4 * l + 512;
				m_v(3)[l] = (uint32_t)(M_SHARED >> 32);
			}
			finish();
			memory += m_v(10)[1] != 1001;
			lds += m_v(10)[0] != 1000 + 128;
		}
		printf("flat lanes, wait %u: %u wrong in memory, %u in LDS, of %u seeds\n", how,
		       memory, lds, SEEDS);
		cr_assert(how == 2 ? memory > SEEDS * 9 / 10 : memory == 0);
		cr_assert(how == 1 ? lds > SEEDS * 9 / 10 : lds == 0);
	}
}

/* ---- between waves ------------------------------------------------------- */

/* A flag stored behind the data overtakes it, unless vscnt was waited for. */
Test(vgpu_delay, flag_and_data)
{
	for (unsigned how = 0; how < 2; how++) {
		unsigned early = 0;

		store(7, 0);
		if (!how)
			wait_vs(0);
		store(7, 2048);
		for (unsigned i = 0; i < MOST + 4; i++)
			e_sopp(ISA_S_NOP, 0);
		end_code();
		for (unsigned seed = 0; seed < SEEDS; seed++) {
			bool seen = false;

			fresh(false, seed, MOST, false);
			while (M.w->state == WAVE_RUN) {
				isa_run(&M.x, M.w, 1);
				seen |= m_mem32(2048) == 0x77 && m_mem32(0) != 0x77;
			}
			cr_assert(m_mem32(2048) == 0x77 && m_mem32(0) == 0x77);
			early += seen;
		}
		printf("a flag %s its data: early at %u of %u seeds\n",
		       how ? "right behind" : "vscnt(0) behind", early, SEEDS);
		cr_assert(how ? early > SEEDS / 4 : early == 0);
	}
}

/* ---- what stays as it is ------------------------------------------------- */

/* Nothing is late for ever, and nothing is lost: with no wait at all. */
Test(vgpu_delay, bounded)
{
	load(8, 0);
	store(7, 1024);
	e_ds(ISA_DS_ADD_U32, 0, 0, 7, 0, 0);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	for (unsigned i = 0; i < MOST; i++)
		e_sopp(ISA_S_NOP, 0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
	e_sop1(ISA_S_MOV_B32, 21, 20);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(m_v(10)[0] == 1000 && M.w->s[21] == 1000);
		cr_assert(m_mem32(1024) == 0x77 && m_lds32(0) == 1000 + 0x77);
	}
}

/* The end of a program waits for nothing, but lets stores complete; meanwhile others run. */
Test(vgpu_delay, end_of_program)
{
	unsigned late = 0;

	for (unsigned i = 0; i < 8; i++)
		store(7, 512 * i);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, 1000, false);
		isa_run(&M.x, M.w, 1000);
		late += M.w->state == WAVE_RUN && m_mem32(7 * 512) != 0x77;
		finish();
		cr_assert(M.w->state == WAVE_ENDED && M.w->insns == 9, "%u, %lu instructions",
			  M.w->state, M.w->insns);
		for (unsigned i = 0; i < 8; i++)
			cr_assert(m_mem32(512 * i) == 0x77 && m_mem32(512 * i + 124) == 0x77);
	}
	cr_assert(late > SEEDS / 2, "only %u late", late);
}

/* More than there is room for: the oldest are made to end. */
Test(vgpu_delay, many)
{
	for (unsigned i = 0; i < 200; i++)
		store(7, 4 * i);
	for (unsigned i = 0; i < 40; i++)
		load(20 + i, 128 + 4 * i);
	wait_vm(0);
	end_code();
	for (unsigned seed = 0; seed < 10; seed++) {
		fresh(false, seed, 100000, false);
		finish();
		for (unsigned i = 0; i < 40; i++)
			cr_assert(m_v(20 + i)[31] == 0x77);
	}
}

/* Two loads of halves of one register on their way at once. */
Test(vgpu_delay, halves)
{
	e_flat(ISA_GLOBAL_LOAD_D16_B16, 2, 7, 0, 0, 4, 4, false);
	e_flat(ISA_GLOBAL_LOAD_D16_HI_B16, 2, 7, 0, 0, 4, 8, false);
	wait_vm(0);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(m_v(7)[3] == (1004 | 1005 << 16));
	}
}

/* The odd one of three halves leaves the other half of its register alone, late as well. */
Test(vgpu_delay, three_halves)
{
	e_sop1(ISA_S_MOV_B32, 8, 4);
	e_sop1(ISA_S_MOV_B32, 9, 5);
	e_sop1(ISA_S_MOV_B32, 10, M_LIT);
	m_put(4096);
	e_sop1(ISA_S_MOV_B32, 11, M_LIT);
	m_put(3u << 28 | 22u << 12 | 0xfac);
	e_flat(ISA_GLOBAL_LOAD_D16_HI_B16, 2, 7, 0, 0, 4, 8, false);
	e_mtbuf(ISA_TBUFFER_LOAD_D16_FORMAT_XYZ, 6, 0, 8, 128, 0, E_OFFEN,
		57); /* 16_16_16_16_UINT */
	wait_vm(0);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(M.w->state == WAVE_ENDED);
		cr_assert(m_v(6)[3] == 1003 && m_v(7)[3] == (1004 | 1005 << 16), "%08x %08x",
			  m_v(6)[3], m_v(7)[3]);
	}
}

/* Lanes that are off when a load is issued keep their register, whatever EXEC is when it comes. */
Test(vgpu_delay, lanes)
{
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, M_LIT);
	m_put(0x0000ffff);
	load(7, 0);
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, M_LIT);
	m_put(0xffff0000);
	e_vop1(ISA_V_MOV_B32, 7, 128 + 5);
	wait_vm(0);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(m_v(7)[15] == 1015 && m_v(7)[16] == 5);
	}
}

Test(vgpu_delay64, all)
{
	load(8, 0);
	e_ds(ISA_DS_LOAD_B32, 9, 0, 0, 0, 0);
	e_smem(ISA_S_LOAD_B64, 20, 4, M_NULL, 0);
	e_sopp(ISA_S_WAITCNT, 0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
	e_vop1(ISA_V_MOV_B32, 11, 256 + 9);
	store(10, 1024);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(true, seed, MOST, false);
		finish();
		for (unsigned l = 0; l < 64; l++) {
			const v32u *v = M.w->v + l / 32 * M_NVGPR;

			cr_assert(v[10][l % 32] == 1000 + l && v[11][l % 32] == 1000 + l);
			cr_assert(m_mem32(1024 + 4 * l) == 1000 + l);
		}
		cr_assert(M.w->s[20] == 1000 && M.w->s[21] == 1001);
	}
}

/* A barrier does not wait for memory; time passes for a wave that waits in one. */
Test(vgpu_delay, barrier)
{
	unsigned early = 0;

	load(8, 0);
	e_sopp(ISA_S_BARRIER, 0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		isa_run(&M.x, M.w, 100);
		cr_assert(M.w->state == WAVE_BARRIER);
		early += m_v(8)[0] != 1000;
		isa_delay_tick(&M.x, M.w, MOST);
		cr_assert(M.w->state == WAVE_BARRIER && m_v(8)[0] == 1000);
		M.w->state = WAVE_RUN;
		finish();
		cr_assert(m_v(10)[0] == 1000);
	}
	cr_assert(early > SEEDS * 8 / 10);
}

/* A wave that is put away has all of it; or, after a reset, none. */
Test(vgpu_delay, drain)
{
	load(8, 0);
	store(7, 1024);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	e_sopp(ISA_S_NOP, 0);
	end_code();
	for (unsigned gone = 0; gone < 2; gone++) {
		fresh(false, 5, 100000, false);
		isa_run(&M.x, M.w, 4);
		cr_assert(m_v(8)[0] != 1000 && m_mem32(1024) != 0x77 && M.w->s[20] != 1000);
		isa_delay_drain(&M.x, M.w, gone);
		cr_assert(isa_delay_of(M.w)->n == 0);
		cr_assert((m_v(8)[0] == 1000) == !gone && (M.w->s[20] == 1000) == !gone);
		cr_assert((m_mem32(1024) == 0x77) == !gone);
	}
}

/* HW_REG_IB_STS has the counters. */
Test(vgpu_delay, counters_can_be_read)
{
	enum { IB_STS = 7, ALL_BITS = 31 << 11 };

	for (unsigned i = 0; i < 3; i++)
		load(20 + i, 256 * i);
	for (unsigned i = 0; i < 2; i++)
		store(7, 256 * i);
	e_ds(ISA_DS_LOAD_B32, 8, 0, 0, 0, 0);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	e_flat(ISA_FLAT_LOAD_B32, 0, 9, 2, 0, M_NULL, 0, false);
	e_sopk(ISA_S_GETREG_B32, 30, IB_STS | ALL_BITS);
	wait_lgkm(1);
	e_sopk(ISA_S_GETREG_B32, 31, IB_STS | ALL_BITS);
	e_sopp(ISA_S_WAIT_IDLE, 0);
	e_sopk(ISA_S_GETREG_B32, 32, IB_STS | ALL_BITS);
	end_code();
	fresh(false, 5, 1000000, false);
	finish();
	cr_assert_eq(M.w->s[30], 3 << 4 | 4 << 10 | 2 << 26);
	cr_assert_eq(M.w->s[31], 1 << 4 | 4 << 10 | 2 << 26);
	cr_assert_eq(M.w->s[32], 0);
}

/* The same seed, the same course: at every instruction. */
Test(vgpu_delay, deterministic)
{
	static struct isa_wave *one;
	size_t n = isa_wave_bytes(M_NVGPR, false);
	unsigned differ = 0;

	one = aligned_alloc(128, (n + 127) & ~127ul);
	for (unsigned i = 0; i < 10; i++) {
		load(20 + i, 4 * i);
		e_ds(ISA_DS_LOAD_B32, 40 + i, 0, 0, 0, 4 * i);
		e_smem(ISA_S_LOAD_B32, 20 + i, 4, M_NULL, (int)(4 * i));
	}
	end_code();
	for (unsigned steps = 1; steps < 30; steps++) {
		fresh(false, 9, MOST, false);
		isa_run(&M.x, M.w, steps);
		memcpy(one, M.w, n);
		fresh(false, 9, MOST, false);
		isa_run(&M.x, M.w, steps);
		cr_assert(!memcmp(one, M.w, n));
		fresh(false, 10, MOST, false);
		isa_run(&M.x, M.w, steps);
		differ += memcmp(one, M.w, n) != 0;
	}
	cr_assert(differ > 20);
	free(one);
}

/* A fault comes late too; the wave stops, and its PC is that of the access. */
Test(vgpu_delay, fault)
{
	unsigned late = 0;

	e_sopp(ISA_S_NOP, 0);
	e_sop1(ISA_S_MOV_B32, 5, 128 + 7);
	load(8, 0);
	for (unsigned i = 0; i < MOST; i++)
		e_sopp(ISA_S_NOP, 0);
	end_code();
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		fresh(false, seed, MOST, false);
		finish();
		cr_assert(M.w->state == WAVE_HALTED && M.w->stop == STOP_MEM_FAULT);
		cr_assert(M.w->pc == M_CODE + 8, "pc +0x%llx", M.w->pc - M_CODE);
		late += M.w->insns > 4;
	}
	cr_assert(late > SEEDS / 2, "late %u times", late);
}
