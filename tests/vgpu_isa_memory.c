/* LDS, flat, global and scratch instructions, against the ISA manual's rules. */
#include "isa_machine.h"

static void setup(void)
{
	m_init(false);
}

TestSuite(vgpu_isa_memory, .init = setup, .fini = m_fini);

/* v[r] of lane l = base + l * step */
static void ramp(unsigned r, uint32_t base, uint32_t step)
{
	for (unsigned l = 0; l < 32; l++)
		m_v(r)[l] = base + l * step;
}

static void lds_fill(void)
{
	for (unsigned i = 0; i < M_LDS_BYTES; i++)
		M.lds[i] = (uint8_t)(i * 7 + i / 256 * 3);
}

static uint32_t lds_bytes(unsigned off, unsigned n)
{
	uint32_t v = 0;

	memcpy(&v, M.lds + off, n);
	return v;
}

/* ---- LDS ----------------------------------------------------------------- */

Test(vgpu_isa_memory, ds_loads)
{
	lds_fill();
	ramp(0, 3, 12); /* misaligned on purpose */
	ramp(1, 0, 4);
	ramp(40, 100, 4);
	for (unsigned r = 20; r < 40; r++)
		ramp(r, 0xaaaa5555, 0);
	e_ds(ISA_DS_LOAD_B32, 10, 0, 0, 0, 5);
	e_ds(ISA_DS_LOAD_B96, 12, 0, 0, 0, 0);
	e_ds(ISA_DS_LOAD_B128, 16, 0, 0, 0, 4);
	e_ds(ISA_DS_LOAD_U8, 3, 1, 0, 0, 1);
	e_ds(ISA_DS_LOAD_I8, 4, 1, 0, 0, 1);
	e_ds(ISA_DS_LOAD_I16, 5, 1, 0, 0, 1);
	e_ds(ISA_DS_LOAD_U16_D16, 20, 1, 0, 0, 0);
	e_ds(ISA_DS_LOAD_U16_D16_HI, 21, 1, 0, 0, 0);
	e_ds(ISA_DS_LOAD_I8_D16, 22, 1, 0, 0, 1);
	e_ds(ISA_DS_LOAD_U8_D16_HI, 23, 1, 0, 0, 1);
	e_ds(ISA_DS_LOAD_B64, 40, 40, 0, 0, 8); /* address register is a destination */
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		unsigned a = 3 + 12 * l, b = 4 * l;

		cr_assert(m_v(10)[l] == lds_bytes(a + 5, 4));
		for (unsigned c = 0; c < 3; c++)
			cr_assert(m_v(12 + c)[l] == lds_bytes(a + 4 * c, 4));
		for (unsigned c = 0; c < 4; c++)
			cr_assert(m_v(16 + c)[l] == lds_bytes(a + 4 + 4 * c, 4));
		cr_assert(m_v(3)[l] == lds_bytes(b + 1, 1));
		cr_assert(m_v(4)[l] == (uint32_t)(int8_t)lds_bytes(b + 1, 1));
		cr_assert(m_v(5)[l] == (uint32_t)(int16_t)lds_bytes(b + 1, 2));
		cr_assert(m_v(20)[l] == (0xaaaa0000 | lds_bytes(b, 2)));
		cr_assert(m_v(21)[l] == (0x5555 | lds_bytes(b, 2) << 16));
		cr_assert(m_v(22)[l] ==
			  (0xaaaa0000 | (uint16_t)(int16_t)(int8_t)lds_bytes(b + 1, 1)));
		cr_assert(m_v(23)[l] == (0x5555 | lds_bytes(b + 1, 1) << 16));
		cr_assert(m_v(40)[l] == lds_bytes(100 + b + 8, 4));
		cr_assert(m_v(41)[l] == lds_bytes(100 + b + 12, 4));
	}
}

Test(vgpu_isa_memory, ds_exec_and_bounds)
{
	lds_fill();
	ramp(0, M_LDS_BYTES - 64, 4); /* lanes 16.. are outside */
	ramp(1, 0x11111111, 0);
	ramp(2, 0x77777777, 0);
	M.w->exec = 0xffff00ff;
	e_ds(ISA_DS_LOAD_B32, 1, 0, 0, 0, 0);
	e_ds(ISA_DS_STORE_B32, 0, 0, 2, 0, 0);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		if (l >= 8 && l < 16)
			cr_assert(m_v(1)[l] == 0x11111111, "inactive lanes keep their value");
		else if (l >= 16)
			cr_assert(m_v(1)[l] == 0, "outside reads 0");
	}
	cr_assert(m_lds32(M_LDS_BYTES - 64) == 0x77777777);
	cr_assert(m_lds32(M_LDS_BYTES - 64 + 32) != 0x77777777);
	/* the last dword of a wide load may be outside alone */
	ramp(0, M_LDS_BYTES - 12, 0);
	M.w->exec = 1;
	e_ds(ISA_DS_LOAD_B128, 4, 0, 0, 0, 0);
	m_run_ok();
	cr_assert(m_v(6)[0] == m_lds32(M_LDS_BYTES - 4) && m_v(7)[0] == 0);
}

Test(vgpu_isa_memory, ds_two_addresses)
{
	ramp(0, 0, 8);
	ramp(1, 0x100, 1);
	ramp(2, 0x200, 1);
	e_ds(ISA_DS_STORE_2ADDR_B32, 0, 0, 1, 2, 0 | 1 << 8);
	e_ds(ISA_DS_LOAD_2ADDR_B32, 4, 0, 0, 0, 1 | 0 << 8);
	e_ds(ISA_DS_STORE_2ADDR_STRIDE64_B32, 0, 0, 2, 1, 2 | 4 << 8);
	e_ds(ISA_DS_LOAD_2ADDR_STRIDE64_B32, 6, 0, 0, 0, 4 | 2 << 8);
	e_ds(ISA_DS_STOREXCHG_2ADDR_RTN_B32, 8, 0, 2, 1, 0 | 1 << 8);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		cr_assert(m_v(4)[l] == 0x200 + l && m_v(5)[l] == 0x100 + l);
		cr_assert(m_v(6)[l] == 0x100 + l && m_v(7)[l] == 0x200 + l);
		cr_assert(m_lds32(512 + 8 * l) == 0x200 + l && m_lds32(1024 + 8 * l) == 0x100 + l);
		cr_assert(m_v(8)[l] == 0x100 + l && m_v(9)[l] == 0x200 + l);
		cr_assert(m_lds32(8 * l) == 0x200 + l && m_lds32(8 * l + 4) == 0x100 + l);
	}
}

Test(vgpu_isa_memory, ds_atomics)
{
	static const struct {
		unsigned op;
		uint64_t mem, d0, d1, want;
		bool wide;
	} rows[] = {
		{ISA_DS_ADD_RTN_U32, 5, 7, 0, 12, false},
		{ISA_DS_SUB_RTN_U32, 5, 7, 0, 0xfffffffe, false},
		{ISA_DS_RSUB_RTN_U32, 5, 7, 0, 2, false},
		{ISA_DS_INC_RTN_U32, 5, 7, 0, 6, false},
		{ISA_DS_INC_RTN_U32, 7, 7, 0, 0, false},
		{ISA_DS_DEC_RTN_U32, 0, 7, 0, 7, false},
		{ISA_DS_DEC_RTN_U32, 8, 7, 0, 7, false},
		{ISA_DS_DEC_RTN_U32, 3, 7, 0, 2, false},
		{ISA_DS_MIN_RTN_I32, 5, 0xffffffff, 0, 0xffffffff, false},
		{ISA_DS_MAX_RTN_I32, 5, 0xffffffff, 0, 5, false},
		{ISA_DS_MIN_RTN_U32, 5, 0xffffffff, 0, 5, false},
		{ISA_DS_MAX_RTN_U32, 5, 0xffffffff, 0, 0xffffffff, false},
		{ISA_DS_XOR_RTN_B32, 0xff, 0x0f, 0, 0xf0, false},
		{ISA_DS_MSKOR_RTN_B32, 0x1234, 0x00f0, 0x0050, 0x1254, false},
		{ISA_DS_CMPSTORE_RTN_B32, 5, 9, 5, 9, false},
		{ISA_DS_CMPSTORE_RTN_B32, 5, 9, 6, 5, false},
		{ISA_DS_CMPSTORE_RTN_F32, 0x80000000, 9, 0, 9, false},
		{ISA_DS_STOREXCHG_RTN_B32, 5, 9, 0, 9, false},
		{ISA_DS_WRAP_RTN_B32, 9, 7, 100, 2, false},
		{ISA_DS_WRAP_RTN_B32, 3, 7, 100, 103, false},
		{ISA_DS_ADD_RTN_F32, 0x3f800000, 0x40000000, 0, 0x40400000, false},
		{ISA_DS_MIN_RTN_F32, 0x3f800000, 0xbf800000, 0, 0xbf800000, false},
		{ISA_DS_MAX_RTN_F32, 0x3f800000, 0xbf800000, 0, 0x3f800000, false},
		{ISA_DS_ADD_RTN_U64, 0xffffffff, 1, 0, 0x100000000, true},
		{ISA_DS_MIN_RTN_I64, 1, ~0ull, 0, ~0ull, true},
		{ISA_DS_CMPSTORE_RTN_B64, 1ull << 40, 3, 1ull << 40, 3, true},
		{ISA_DS_MSKOR_RTN_B64, 0xffull << 32, 0xfull << 32, 0x5ull << 32, 0xf5ull << 32,
		 true},
		{ISA_DS_MAX_RTN_F64, 0x3ff0000000000000, 0x4000000000000000, 0, 0x4000000000000000,
		 true},
		{ISA_DS_CONDXCHG32_RTN_B64, 0x1111111122222222, 0x8000000500000006, 0,
		 0x0000000522222222, true},
	};

	M.w->exec = 2; /* one lane, not the first */
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t got = 0, old;

		memset(M.lds, 0, 64);
		memcpy(M.lds + 16, &rows[i].mem, 8);
		m_v(0)[1] = 12;
		m_v(2)[1] = (uint32_t)rows[i].d0;
		m_v(3)[1] = (uint32_t)(rows[i].d0 >> 32);
		m_v(4)[1] = (uint32_t)rows[i].d1;
		m_v(5)[1] = (uint32_t)(rows[i].d1 >> 32);
		e_ds(rows[i].op, 6, 0, 2, 4, 4);
		m_run_ok();
		memcpy(&got, M.lds + 16, rows[i].wide ? 8 : 4);
		cr_assert(got == rows[i].want, "%s: got 0x%llx", isa_op_name(rows[i].op),
			  (unsigned long long)got);
		old = m_v(6)[1] | (rows[i].wide ? (uint64_t)m_v(7)[1] << 32 : 0);
		cr_assert(old == (rows[i].wide ? rows[i].mem : (uint32_t)rows[i].mem),
			  "%s returns the value before", isa_op_name(rows[i].op));
	}
}

Test(vgpu_isa_memory, ds_atomic_lanes_in_order)
{
	ramp(0, 64, 0);
	ramp(1, 1, 0);
	M.w->exec = 0xf0f0f0f0;
	e_ds(ISA_DS_ADD_RTN_U32, 2, 0, 1, 0, 0);
	m_run_ok();
	cr_assert(m_lds32(64) == 16);
	cr_assert(m_v(2)[4] == 0 && m_v(2)[5] == 1 && m_v(2)[31] == 15);
}

Test(vgpu_isa_memory, ds_wave_address)
{
	uint32_t v = 40;

	memcpy(M.lds + 100 + 8, &v, 4);
	M.w->s[OPR_M0] = 100;
	M.w->exec = 0xff00ff;
	e_ds(ISA_DS_APPEND, 1, 0, 0, 0, 8);
	e_ds(ISA_DS_APPEND, 2, 0, 0, 0, 8);
	e_ds(ISA_DS_CONSUME, 3, 0, 0, 0, 8);
	m_run_ok();
	cr_assert(m_v(1)[0] == 40 && m_v(2)[20] == 56 && m_v(3)[0] == 72 && m_lds32(108) == 56);
	cr_assert(m_v(1)[10] == 0, "inactive");
	M.w->exec = 0xffffffff;
	ramp(4, 0x900, 1);
	e_ds(ISA_DS_STORE_ADDTID_B32, 0, 0, 4, 0, 24);
	e_ds(ISA_DS_LOAD_ADDTID_B32, 5, 0, 0, 0, 28);
	m_run_ok();
	cr_assert(m_lds32(124 + 4 * 31) == 0x900 + 31);
	cr_assert(m_v(5)[3] == 0x904);
}

Test(vgpu_isa_memory, ds_lane_exchange)
{
	ramp(0, 0x1000, 1);
	for (unsigned l = 0; l < 32; l++)
		m_v(1)[l] = 4 * ((l + 5) & 31);
	M.w->exec = ~(1u << 7);
	e_ds(ISA_DS_BPERMUTE_B32, 2, 1, 0, 0, 0);
	e_ds(ISA_DS_PERMUTE_B32, 3, 1, 0, 0, 0);
	e_ds(ISA_DS_SWIZZLE_B32, 4, 0, 0, 0, 0x8000 | 0x1b);     /* quad reversed */
	e_ds(ISA_DS_SWIZZLE_B32, 5, 0, 0, 0, 0x1f | 0x10 << 10); /* xor 16 */
	e_ds(ISA_DS_SWIZZLE_B32, 6, 0, 0, 0, 0xc000 | 1 << 5);   /* rotate by one */
	e_ds(ISA_DS_SWIZZLE_B32, 8, 0, 0, 0, 0xe000);            /* bit reversal */
	m_run_ok();
	cr_assert(m_v(2)[0] == 0x1005 && m_v(2)[31] == 0x1004);
	cr_assert(m_v(2)[2] == 0, "from an inactive lane");
	cr_assert(m_v(3)[5] == 0x1000 && m_v(3)[0] == 0x101b);
	cr_assert(m_v(3)[12] == 0, "nobody sent");
	cr_assert(m_v(4)[0] == 0x1003 && m_v(4)[3] == 0x1000 && m_v(4)[4] == 0);
	cr_assert(m_v(5)[0] == 0x1010 && m_v(5)[31] == 0x100f);
	cr_assert(m_v(6)[0] == 0x1001 && m_v(6)[31] == 0x1000);
	cr_assert(m_v(8)[1] == 0x1010 && m_v(8)[3] == 0x1018);
}

/* ---- global and flat ------------------------------------------------------ */

static void addr64(unsigned r, uint64_t base, uint64_t step)
{
	for (unsigned l = 0; l < 32; l++) {
		uint64_t a = base + l * step;

		m_v(r)[l] = (uint32_t)a;
		m_v(r + 1)[l] = (uint32_t)(a >> 32);
	}
}

Test(vgpu_isa_memory, global)
{
	for (unsigned i = 0; i < M_MEM_BYTES / 4; i++) {
		uint32_t v = 0x80000000 | i * 0x10101;

		memcpy(M.mem + 4 * i, &v, 4);
	}
	addr64(0, M_MEM + 4096, 16);
	ramp(2, 8, 16);
	m_set64(0, M_MEM + 4096);
	ramp(20, 0x1234abcd, 0);
	e_flat(ISA_GLOBAL_LOAD_B128, 2, 4, 0, 0, M_NULL, -16, false);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 8, 2, 0, 0, 4, false);
	e_flat(ISA_GLOBAL_LOAD_I16, 2, 9, 2, 0, 0, 2, false);
	e_flat(ISA_GLOBAL_LOAD_D16_HI_U8, 2, 20, 2, 0, 0, 3, false);
	e_flat(ISA_GLOBAL_STORE_D16_HI_B16, 2, 0, 0, 20, M_NULL, 2000, false);
	e_flat(ISA_GLOBAL_STORE_B64, 2, 0, 0, 4, M_NULL, -2048, false);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		unsigned a = 4096 + 16 * l;

		for (unsigned c = 0; c < 4; c++)
			cr_assert(m_v(4 + c)[l] == m_mem32(a - 16 + 4 * c));
		cr_assert(m_v(8)[l] == m_mem32(a + 12));
		cr_assert(m_v(9)[l] == (uint32_t)(int32_t)(int16_t)(m_mem32(a + 8) >> 16));
		cr_assert(m_v(20)[l] == (0xabcd | m_mem32(a + 8) >> 24 << 16));
		cr_assert((uint16_t)m_mem32(a + 2000) == m_mem32(a + 8) >> 24);
		cr_assert(m_mem32(a - 2048) == m_v(4)[l] && m_mem32(a - 2044) == m_v(5)[l]);
	}
}

Test(vgpu_isa_memory, global_atomics)
{
	uint32_t five = 5;

	addr64(0, M_MEM + 256, 0);
	ramp(2, 10, 1);
	ramp(3, 5, 0);
	memcpy(M.mem + 256, &five, 4);
	M.w->exec = 3;
	e_flat(ISA_GLOBAL_ATOMIC_ADD_U32, 2, 6, 0, 2, M_NULL, 0, true);
	e_flat(ISA_GLOBAL_ATOMIC_ADD_U32, 2, 7, 0, 2, M_NULL, 0, false);
	m_run_ok();
	cr_assert(m_v(6)[0] == 5 && m_v(6)[1] == 15 && m_mem32(256) == 5 + 21 + 21);
	cr_assert(m_v(7)[0] == 0, "no return asked for");
	memcpy(M.mem + 256, &five, 4);
	e_flat(ISA_GLOBAL_ATOMIC_CMPSWAP_B32, 2, 6, 0, 2, M_NULL, 0, true); /* v2 new, v3 compare */
	m_run_ok();
	cr_assert(m_v(6)[0] == 5 && m_v(6)[1] == 10 && m_mem32(256) == 10);
	memcpy(M.mem + 256, &five, 4);
	e_flat(ISA_GLOBAL_ATOMIC_CSUB_U32, 2, 6, 0, 2, M_NULL, 0, true);
	m_run_ok();
	cr_assert(m_mem32(256) == 0, "clamped at 0");
}

Test(vgpu_isa_memory, addtid)
{
	ramp(4, 0x700, 1);
	m_set64(0, M_MEM + 512);
	e_flat(ISA_GLOBAL_STORE_ADDTID_B32, 2, 0, 0, 4, 0, 16, false);
	e_flat(ISA_GLOBAL_LOAD_ADDTID_B32, 2, 5, 0, 0, 0, 20, false);
	m_run_ok();
	cr_assert(m_mem32(528 + 4 * 31) == 0x700 + 31 && m_v(5)[0] == 0x701);
}

Test(vgpu_isa_memory, faults)
{
	addr64(0, M_MEM + M_MEM_BYTES - 64, 4); /* lanes 16.. are beyond the mapping */
	ramp(4, 0x11, 0);
	e_vop1(ISA_V_MOV_B32, 9, 129);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 4, 0, 0, M_NULL, 0, false);
	m_run();
	cr_assert(M.w->state == WAVE_HALTED && M.w->stop == STOP_MEM_FAULT);
	cr_assert(M.w->pc == M_CODE + 4, "PC stays at the instruction");
	cr_assert(M.vmem.fault.va.a == M_MEM + M_MEM_BYTES && M.vmem.fault.not_present);
	cr_assert(M.vmem.fault.lanes == 0xffff0000 && !M.vmem.fault.write);
	M.w->exec = 0xffff; /* lanes that would fault are off */
	m_put(0);
	M.n = 0;
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 0, 4, M_NULL, 0, false);
	m_run_ok();
	m_set64(0, 0x7000000000);
	e_smem(ISA_S_LOAD_B32, 4, 0, M_NULL, 4);
	m_run();
	cr_assert(M.w->stop == STOP_MEM_FAULT && M.smem.fault.va.a == 0x7000000004);
}

/* ---- scratch -------------------------------------------------------------- */

static uint32_t scratch32(unsigned lane, unsigned off)
{
	uint32_t v;

	/* dwords of the lanes are interleaved */
	memcpy(&v, M.scratch + off / 4 * 128 + lane * 4, 4);
	return v;
}

Test(vgpu_isa_memory, scratch)
{
	ramp(0, 16, 0);
	for (unsigned r = 4; r < 8; r++)
		ramp(r, 0x100 * r, 1);
	M.w->s[0] = 32;
	e_scratch(ISA_SCRATCH_STORE_B128, 0, 0, 4, M_NULL, 4, true);
	e_scratch(ISA_SCRATCH_STORE_B32, 0, 0, 4, 0, 8, false);
	e_scratch(ISA_SCRATCH_STORE_B8, 0, 0, 5, M_NULL, 61, false);
	e_scratch(ISA_SCRATCH_LOAD_B64, 10, 0, 0, 0, -8, true);       /* 32 + 16 - 8 */
	e_scratch(ISA_SCRATCH_LOAD_B32, 12, 0, 0, M_NULL, 22, false); /* misaligned */
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		for (unsigned c = 0; c < 4; c++)
			cr_assert(scratch32(l, 20 + 4 * c) == 0x100 * (4 + c) + l);
		cr_assert(scratch32(l, 40) == 0x400 + l);
		cr_assert(scratch32(l, 60) == ((0x500 + l) & 0xff) << 8);
		cr_assert(m_v(10)[l] == 0x400 + l && m_v(11)[l] == 0);
		cr_assert(m_v(12)[l] == (scratch32(l, 20) >> 16 | scratch32(l, 24) << 16));
	}
	e_scratch(ISA_SCRATCH_LOAD_B32, 12, 0, 0, M_NULL, M_LANE_BYTES, false);
	m_run();
	cr_assert(M.w->stop == STOP_MEM_FAULT, "beyond the lane's segment");
}

Test(vgpu_isa_memory, flat_apertures)
{
	/* lane 0 global, lane 1 LDS, lane 2 scratch */
	uint64_t a[3] = {M_MEM + 128, M_SHARED + 128, M_PRIVATE + 128};
	uint32_t v = 0x6e6e;

	memcpy(M.mem + 132, &v, 4);
	v = 0x1d51d5;
	memcpy(M.lds + 132, &v, 4);
	for (unsigned l = 0; l < 3; l++) {
		m_v(0)[l] = (uint32_t)a[l];
		m_v(1)[l] = (uint32_t)(a[l] >> 32);
	}
	ramp(2, 0x50, 1);
	M.w->exec = 7;
	e_flat(ISA_FLAT_STORE_B32, 0, 0, 0, 2, M_NULL, 0, false);
	e_flat(ISA_FLAT_LOAD_B64, 0, 4, 0, 0, M_NULL, 0, false);
	e_flat(ISA_FLAT_ATOMIC_ADD_U32, 0, 6, 0, 2, M_NULL, 0, true);
	m_run_ok();
	cr_assert(m_v(4)[0] == 0x50 && m_v(5)[0] == 0x6e6e);
	cr_assert(m_v(4)[1] == 0x51 && m_v(5)[1] == 0x1d51d5);
	cr_assert(m_v(4)[2] == 0x52 && m_v(5)[2] == 0);
	cr_assert(m_mem32(128) == 0xa0 && m_lds32(128) == 0xa2 && scratch32(2, 128) == 0xa4);
	cr_assert(m_v(6)[1] == 0x51 && m_v(6)[2] == 0x52);
}
