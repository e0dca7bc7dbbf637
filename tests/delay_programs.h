/* A one-wave machine with delayed memory (isa/delay.h), and programs that wait, or do not. */
#ifndef TESTS_DELAY_PROGRAMS_H
#define TESTS_DELAY_PROGRAMS_H

#include "isa/delay.h"

#include <stdio.h>

#include "isa_machine.h"

enum { SEEDS = 200, MOST = 64, REPORTS = 16 };

static struct {
	unsigned n;
	struct delay_missing m[REPORTS];
} told;

static inline void on_missing(struct isa_exec *x, const struct delay_missing *m)
{
	(void)x;
	if (told.n < REPORTS)
		told.m[told.n] = *m;
	told.n++;
}

static inline uint64_t on_message(struct isa_exec *x, uint32_t msg)
{
	(void)x;
	return 0x5a5a0000u + msg;
}

static inline void wave(bool wave64)
{
	size_t n = (isa_wave_bytes(M_NVGPR, wave64) + 127) & ~127ul;

	m_init(wave64);
	free(M.w);
	M.w = aligned_alloc(128, (n + sizeof(struct isa_delay) + 127) & ~127ul);
	M.x.missing = on_missing;
	M.x.msg_rtn = on_message;
	memset(&told, 0, sizeof(told));
}

/* A fresh wave: v0 the lane's offset, s[4:5] memory, v[2:3] its address per lane, v6 old values; in
 * memory and LDS, dword i is 1000 + i. */
static inline void fresh(bool wave64, uint64_t seed, uint32_t most, bool report)
{
	memset(M.w, 0, isa_wave_bytes(M_NVGPR, wave64));
	M.w->wave64 = wave64;
	M.w->exec = wave64 ? ~0ull : 0xffffffffull;
	M.w->nvgpr = M_NVGPR;
	M.w->mode = 0x3f0;
	M.w->flat_scratch = M_SCRATCH;
	M.w->scratch_lane_bytes = M_LANE_BYTES;
	M.w->lds_size = M_LDS_BYTES;
	M.w->pc = M_CODE;
	isa_delay_init(M.w, seed, most, report);
	m_set64(4, M_MEM);
	for (unsigned h = 0; h < (wave64 ? 2 : 1); h++)
		for (unsigned l = 0; l < 32; l++) {
			v32u *v = M.w->v + h * M_NVGPR;

			v[0][l] = 4 * (32 * h + l);
			v[2][l] = (uint32_t)M_MEM + v[0][l];
			v[3][l] = (uint32_t)(M_MEM >> 32);
			v[7][l] = 0x77;
		}
	for (unsigned i = 0; i < M_LDS_BYTES / 4; i++) {
		uint32_t v = 1000 + i;

		memcpy(M.mem + 4 * i, &v, 4);
		memcpy(M.lds + 4 * i, &v, 4);
	}
}

/* To the end, as a dispatcher does: it comes back as often as the wave lets others run. */
static inline void finish(void)
{
	for (unsigned i = 0; i < 1000 && M.w->state == WAVE_RUN; i++)
		isa_run(&M.x, M.w, 10000);
}

static inline unsigned end_code(void)
{
	unsigned n;

	e_sopp(ISA_S_ENDPGM, 0);
	n = M.n;
	M.n = 0;
	isa_icache_invalidate();
	return n;
}

static inline unsigned waits(unsigned vm, unsigned lgkm, unsigned exp)
{
	return exp | lgkm << 4 | vm << 10;
}

enum { VM_ANY = 63, LGKM_ANY = 63, EXP_ANY = 7 };

static inline void wait_vm(unsigned n)
{
	e_sopp(ISA_S_WAITCNT, waits(n, LGKM_ANY, EXP_ANY));
}

static inline void wait_lgkm(unsigned n)
{
	e_sopp(ISA_S_WAITCNT, waits(VM_ANY, n, EXP_ANY));
}

static inline void wait_vs(unsigned n)
{
	e_sopk(ISA_S_WAITCNT_VSCNT, M_NULL, n);
}

static inline void load(unsigned d, unsigned at)
{
	e_flat(ISA_GLOBAL_LOAD_B32, 2, d, 0, 0, 4, (int)at, false);
}

static inline void store(unsigned data, unsigned at)
{
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 0, data, 4, (int)at, false);
}

/* ---- programs ------------------------------------------------------------ */

/* Each leaves its result in v10. how: 0 waits enough; what others do is said. */

static inline void one_load(unsigned how)
{
	load(8, 0);
	switch (how) {
	case 0:
		wait_vm(0);
		break;
	case 1:
		e_sopk(ISA_S_WAITCNT_VMCNT, M_NULL, 0);
		break;
	case 2:
		e_sopp(ISA_S_WAIT_IDLE, 0);
		break;
	case 3: /* nothing */
		break;
	case 4: /* one too weak */
		wait_vm(1);
		break;
	case 5: /* another's */
		wait_lgkm(0);
		break;
	case 6:
		wait_vs(0);
		break;
	case 7:
		e_sopk(ISA_S_WAITCNT_EXPCNT, M_NULL, 0);
		break;
	case 8: /* what the ALUs are up to; memory is not among it */
		e_sopp(ISA_S_WAITCNT_DEPCTR, 0);
		break;
	}
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

/* Loads come back in order: the first of three is there at vmcnt(2). */
static inline void loads_in_order(unsigned how)
{
	load(8, 0);
	load(9, 256);
	load(12, 512);
	wait_vm(2 + how);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

/* A load whose lanes are all off counts like any other. */
static inline void empty_load(unsigned how)
{
	load(8, 0);
	e_sop1(ISA_S_MOV_B32, 20, OPR_EXEC_LO);
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, 128);
	load(9, 0);
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, 20);
	wait_vm(how ? 2 : 1);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void returning_atomic(unsigned how)
{
	e_flat(ISA_GLOBAL_ATOMIC_ADD_U32, 2, 8, 0, 7, 4, 0, true);
	if (how == 0)
		wait_vm(0);
	else
		wait_vs(0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void typed_load(unsigned how)
{
	e_sop1(ISA_S_MOV_B32, 8, 4);
	e_sop1(ISA_S_MOV_B32, 9, 5);
	e_sop1(ISA_S_MOV_B32, 10, M_LIT);
	m_put(4096);
	e_sop1(ISA_S_MOV_B32, 11, M_LIT);
	m_put(3u << 28 | 22u << 12 | 0xfac); /* raw, of 32-bit numbers */
	e_mubuf(ISA_BUFFER_LOAD_B32, 8, 0, 8, 128, 0, E_OFFEN, false);
	if (how == 0)
		wait_vm(0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

/* A late result overwrites what was written meanwhile. */
static inline void overwritten(unsigned how)
{
	load(10, 0);
	if (how == 0)
		wait_vm(0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 7);
}

/* What the scalar path sees of a store. */
static inline void store_seen(unsigned how)
{
	store(7, 0);
	switch (how) {
	case 0:
		wait_vs(0);
		break;
	case 1:
		e_sopp(ISA_S_WAIT_IDLE, 0);
		break;
	case 2:
		break;
	case 3:
		wait_vs(1);
		break;
	case 4:
		wait_vm(0);
		break;
	case 5:
		e_sopk(ISA_S_WAITCNT_EXPCNT, M_NULL, 0);
		break;
	}
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

static inline void stores_in_order(unsigned how)
{
	store(7, 0);
	store(7, 512);
	store(7, 1024);
	wait_vs(2 + how);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

static inline void silent_atomic(unsigned how)
{
	e_flat(ISA_GLOBAL_ATOMIC_SWAP_B32, 2, 0, 0, 7, 4, 0, false);
	if (how == 0)
		wait_vs(0);
	else
		wait_vm(0);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

/* The data of a store has been taken: no wait before it is overwritten. */
static inline void store_data(unsigned how)
{
	(void)how;
	store(7, 0);
	e_vop1(ISA_V_MOV_B32, 7, 128);
	e_vop1(ISA_V_MOV_B32, 0, 128);
	e_sop1(ISA_S_MOV_B32, 21, 4);
	e_sop1(ISA_S_MOV_B32, 4, 128);
	wait_vs(0);
	e_sop1(ISA_S_MOV_B32, 4, 21);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

/* One wave's own accesses to the same bytes by the same path keep their order. */
static inline void same_address(unsigned how)
{
	switch (how) {
	case 0:
		store(7, 0);
		load(8, 0);
		wait_vm(0);
		break;
	case 1:
		e_ds(ISA_DS_STORE_B32, 0, 0, 7, 0, 0);
		e_ds(ISA_DS_LOAD_B32, 8, 0, 0, 0, 0);
		wait_lgkm(0);
		break;
	case 2:
		e_scratch(ISA_SCRATCH_STORE_B32, 0, 0, 7, M_NULL, 16, false);
		e_scratch(ISA_SCRATCH_LOAD_B32, 8, 0, 0, M_NULL, 16, false);
		wait_vm(0);
		break;
	case 3: /* a load does not see what is stored behind it */
		load(9, 0);
		store(7, 0);
		wait_vm(0);
		e_vop2(ISA_V_ADD_NC_U32, 8, M_LIT, 9);
		m_put(0x77 - 1000);
		break;
	}
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void lds_load(unsigned how)
{
	e_ds(ISA_DS_LOAD_B32, 8, 0, 0, 0, 0);
	switch (how) {
	case 0:
		wait_lgkm(0);
		break;
	case 1:
		e_sopk(ISA_S_WAITCNT_LGKMCNT, M_NULL, 0);
		break;
	case 2:
		break;
	case 3:
		wait_lgkm(1);
		break;
	case 4:
		wait_vm(0);
		break;
	}
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void lds_in_order(unsigned how)
{
	e_ds(ISA_DS_LOAD_B32, 8, 0, 0, 0, 0);
	e_ds(ISA_DS_LOAD_B32, 9, 0, 0, 0, 256);
	wait_lgkm(1 + how);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void lds_exchange(unsigned how)
{
	e_ds(ISA_DS_SWIZZLE_B32, 8, 7, 0, 0, 0x801f);
	if (how == 0)
		wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void scalar_load(unsigned how)
{
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	if (how == 0)
		wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

/* Scalar loads come in any order: lgkmcnt(1) of two says nothing. */
static inline void scalar_loads(unsigned how)
{
	e_smem(ISA_S_LOAD_B64, 20, 4, M_NULL, 0);
	e_smem(ISA_S_LOAD_B128, 24, 4, M_NULL, 64);
	wait_lgkm(how);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

static inline void lds_and_scalar(unsigned how)
{
	e_ds(ISA_DS_LOAD_B32, 8, 0, 0, 0, 0);
	e_smem(ISA_S_LOAD_B32, 20, 4, M_NULL, 0);
	wait_lgkm(how);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

static inline void message(unsigned how)
{
	e_sop1(ISA_S_SENDMSG_RTN_B32, 20, 0x80);
	if (how == 0)
		wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 20);
}

static inline void flat_wait(unsigned how)
{
	if (how == 0)
		e_sopp(ISA_S_WAITCNT, waits(0, 0, EXP_ANY));
	else if (how == 1)
		wait_vm(0);
	else if (how == 2)
		wait_lgkm(0);
	e_vop1(ISA_V_MOV_B32, 10, 256 + 8);
}

/* To memory: vmcnt has it. */
static inline void flat_memory(unsigned how)
{
	e_flat(ISA_FLAT_LOAD_B32, 0, 8, 2, 0, M_NULL, 0, false);
	flat_wait(how);
}

/* To LDS: lgkmcnt has it. */
static inline void flat_lds(unsigned how)
{
	e_vop1(ISA_V_MOV_B32, 3, M_LIT);
	m_put((uint32_t)(M_SHARED >> 32));
	e_vop1(ISA_V_MOV_B32, 2, 256);
	e_flat(ISA_FLAT_LOAD_B32, 0, 8, 2, 0, M_NULL, 0, false);
	flat_wait(how == 1 ? 2 : how == 2 ? 1 : how);
}

/* Addresses and store data count as reads, and a use of one register of many. */
static inline void used_as_address(unsigned how)
{
	e_flat(ISA_GLOBAL_LOAD_B128, 2, 20, 0, 0, 4, 0, false);
	if (how == 0)
		store(22, 0);
	else if (how == 1)
		e_ds(ISA_DS_LOAD_B32, 8, 23, 0, 0, 0);
	else
		e_vop1(ISA_V_READFIRSTLANE_B32, 20, 256 + 21);
}

#endif
