/* What the notes and chapters of the RDNA3.5 manual say beside its pseudocode: modifiers, denormals,
 * NaNs, inline constants, registers out of range. Whole instructions through the decoder. */
#include "isa_machine.h"

static void setup(void)
{
	m_init(false);
}

TestSuite(vgpu_manual, .init = setup, .fini = m_fini);

#define V(n) (256u + (n))

/* VOP3: flags are bits 15:8 of the first dword and 31:27 of the second. */
static void e_vop3(unsigned opcode, unsigned d, unsigned a, unsigned b, unsigned c, unsigned flags,
		   unsigned flags1)
{
	m_put(0xd4000000 | opcode << 16 | flags << 8 | d);
	m_put(flags1 << 27 | c << 18 | b << 9 | a);
}

static void e_vop3p(unsigned opcode, unsigned d, unsigned a, unsigned b, unsigned c,
		    unsigned op_sel, unsigned op_sel_hi)
{
	m_put(0xcc000000 | opcode << 16 | (op_sel_hi >> 2 & 1) << 14 | op_sel << 11 | d);
	m_put((op_sel_hi & 3) << 27 | c << 18 | b << 9 | a);
}

enum { NEG0 = 4, NEG1 = 8, ABS0 = 1, CLAMP = 128, SEL0 = 8, SEL2 = 32, SEL_D = 64 };

static void all(unsigned r, uint32_t v)
{
	for (unsigned l = 0; l < 32; l++)
		m_v(r)[l] = v;
}

static void is(unsigned r, uint32_t want)
{
	for (unsigned l = 0; l < 32; l++)
		cr_assert_eq(m_v(r)[l], want, "v%u lane %u: %#x, not %#x", r, l, m_v(r)[l], want);
}

Test(vgpu_manual, moves_take_signs)
{
	all(1, 0x3f800000);
	all(2, 0xc0400000);
	all(5, 0x1111aaaa);
	M.w->s[OPR_M0] = 1;
	e_vop3(0x180 + m_opcode(ISA_V_MOV_B32), 3, V(1), 0, 0, 0, NEG0);
	e_vop3(0x180 + m_opcode(ISA_V_MOV_B32), 4, V(2), 0, 0, ABS0, 0);
	e_vop3(0x180 + m_opcode(ISA_V_MOV_B16), 5, V(1), 0, 0, SEL0 | SEL_D, NEG0);
	e_vop3(0x180 + m_opcode(ISA_V_MOVRELS_B32), 6, V(1), 0, 0, ABS0, NEG0);
	e_vop3(0x180 + m_opcode(ISA_V_MOVRELD_B32), 7, V(2), 0, 0, 0, NEG0);
	m_run_ok();
	is(3, 0xbf800000);
	is(4, 0x40400000);
	is(5, 0xbf80aaaa);
	is(6, 0xc0400000); /* v2 by way of M0 */
	is(8, 0x40400000);
}

/* A relative move with DPP: quad_perm 3,2,1,0 on the register that M0 leads to. */
Test(vgpu_manual, relative_moves_permute)
{
	for (unsigned l = 0; l < 32; l++)
		m_v(2)[l] = l;
	M.w->s[OPR_M0] = 1;
	m_put(0x7e000000 | 4 << 17 | m_opcode(ISA_V_MOVRELS_B32) << 9 | 0xfa);
	m_put(1 | 0x1b << 8 | 0xffu << 24);
	m_put(0x7e000000 | 5 << 17 | m_opcode(ISA_V_MOVRELD_B32) << 9 | 0xfa);
	m_put(2 | 0x1b << 8 | 0xffu << 24);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++)
		cr_assert(m_v(4)[l] == (l ^ 3) && m_v(6)[l] == (l ^ 3));
}

Test(vgpu_manual, sixteen_bits)
{
	all(1, 0x00030100);
	all(2, 0x00020200);
	all(3, 0x77778888);
	e_vop3(m_opcode(ISA_V_MUL_LO_U16), 3, V(1), V(2), 0, CLAMP, 0);
	all(4, 0x00080010);
	all(5, 0x11112222);
	all(6, 0x33334444);
	e_vop3(m_opcode(ISA_V_ALIGNBIT_B32), 7, V(5), V(6), V(4), SEL2, 0);
	e_vop3(m_opcode(ISA_V_ALIGNBIT_B32), 8, V(5), V(6), V(4), 0, 0);
	/* v5.h with v6.l: bit 7 of a register number is the half */
	m_put(0x7e000000 | (5 | 128) << 17 | m_opcode(ISA_V_SWAP_B16) << 9 | V(6));
	m_run_ok();
	is(3, 0x7777ffff);
	is(7, 0x22333344);
	is(8, 0x22223333);
	is(5, 0x44442222);
	is(6, 0x33331111);
}

/* The examples of V_SIN_F32, V_COS_F32 and their f16 forms. */
Test(vgpu_manual, sines)
{
	static const struct {
		unsigned op;
		uint32_t in, out;
	} rows[] = {
		{ISA_V_SIN_F32, 0xff7fffff, 0},
		{ISA_V_SIN_F32, 0x80000000, 0x80000000},
		{ISA_V_SIN_F32, 0x3e800000, 0x3f800000},
		{ISA_V_SIN_F32, 0xff800000, 0xffc00000},
		{ISA_V_SIN_F32, 0x7f800000, 0xffc00000},
		{ISA_V_SIN_F32, 0xbf800000, 0},
		{ISA_V_SIN_F32, 0x00000010, 0x00000065},
		{ISA_V_COS_F32, 0xff7fffff, 0x3f800000},
		{ISA_V_COS_F32, 0x3e800000, 0},
		{ISA_V_COS_F32, 0x7f800000, 0xffc00000},
		{ISA_V_COS_F32, 0x80000000, 0x3f800000},
		{ISA_V_SIN_F16, 0xfbff, 0},
		{ISA_V_SIN_F16, 0x7bff, 0},
		{ISA_V_SIN_F16, 0x8000, 0x8000},
		{ISA_V_SIN_F16, 0x3400, 0x3c00},
		{ISA_V_SIN_F16, 0xfc00, 0xfe00},
		{ISA_V_COS_F16, 0xfbff, 0x3c00},
		{ISA_V_COS_F16, 0x3400, 0},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		all(1, rows[i].in);
		all(2, 0);
		e_vop1(rows[i].op, 2, V(1));
		m_run_ok();
		cr_assert_eq(m_v(2)[0], rows[i].out, "%s(%#x): %#x, not %#x",
			     isa_op_name(rows[i].op), rows[i].in, m_v(2)[0], rows[i].out);
	}
}

/* Zero from an unsigned integer is +0 in every rounding mode. */
Test(vgpu_manual, zero_is_positive)
{
	M.w->mode = 0x3fa; /* down */
	e_vop1(ISA_V_CVT_F32_U32, 2, 128);
	e_vop1(ISA_V_CVT_F64_U32, 4, 128);
	e_vop1(ISA_V_CVT_F32_I32, 6, 128);
	M.w->s[0] = 0xc000;
	e_sop2(ISA_S_ADD_F16, 2, 244, 0); /* 2 - 2 is -0 then */
	e_sop2(ISA_S_ADD_F16, 3, 128, 128);
	m_run_ok();
	is(2, 0);
	is(4, 0);
	is(5, 0);
	is(6, 0);
	cr_assert(M.w->s[2] == 0x8000 && M.w->s[3] == 0);
}

/* The second-largest of -0, +0 and -1 is +0: zeros are equal while the largest is looked for. */
Test(vgpu_manual, median_of_zeros)
{
	all(1, 0x80000000);
	all(2, 0);
	all(3, 0xbf800000);
	e_vop3(m_opcode(ISA_V_MED3_F32), 4, V(1), V(2), V(3), 0, 0);
	m_run_ok();
	is(4, 0);
}

/* Input denormals kept, outputs flushed: what only picks keeps them; division's last step reads them
 * in any mode. */
Test(vgpu_manual, denormals)
{
	M.w->mode = 0x350;
	all(1, 5);
	all(2, 0x3f800000);
	all(3, 0x03ff0001);
	all(8, 0);
	e_vop2(ISA_V_MIN_F32, 4, V(1), 2);
	e_vop2(ISA_V_ADD_F32, 5, V(1), 1);
	e_vop2(ISA_V_MAX_F16, 6, V(3), 3);
	e_vop3(m_opcode(ISA_V_MED3_F32), 7, V(1), V(2), V(8), 0, 0);
	M.w->s[0] = 7;
	e_sop2(ISA_S_MAX_F32, 1, 0, 128);
	e_sop2(ISA_S_MAX_F16, 2, 0, 128);
	m_run_ok();
	is(4, 5);
	is(5, 0);
	cr_assert((m_v(6)[0] & 0xffff) == 1);
	is(7, 5);
	cr_assert(M.w->s[1] == 7 && M.w->s[2] == 7);
	M.w->mode = 0x300;
	all(9, 0x4b000000); /* 2^23 */
	e_vop3(m_opcode(ISA_V_DIV_FMAS_F32), 10, V(1), V(9), V(8), 0, 0);
	m_run_ok();
	is(10, 0x01a00000); /* 5 * 2^-149 * 2^23 */
}

Test(vgpu_manual, dot_products)
{
	all(1, 0x40003c00); /* 1, 2 */
	all(2, 0);
	all(3, 0x3c004000); /* f16 2, 1 */
	all(4, 0x40003f80); /* bf16 1, 2 */
	all(5, 0);
	e_vop2(ISA_V_DOT2ACC_F32_F16, 5, 244, 1); /* 2 in both halves */
	e_vop3p(m_opcode(ISA_V_DOT2_F32_BF16), 6, 244, V(4), V(2), 0, 3);
	/* the f32 pattern of 1.0: f16 0 below, 0x3f80 above */
	e_vop3p(m_opcode(ISA_V_DOT2_F32_F16), 7, 242, V(1), V(2), 0, 3);
	e_vop3(m_opcode(ISA_V_DOT2_F16_F16), 8, 244, V(3), V(2), 0, 0);
	all(8, 0);
	m_run_ok();
	is(5, 0x40c00000);
	is(6, 0x40c00000);
	is(7, 0x40700000); /* 2 * 1.875 */
	is(8, 0x4600);
	/* to nearest whatever MODE says, with f16 denormals, without bf16's */
	M.w->mode = 0x30f;
	all(1, 0x00010001);
	all(2, 0x00003c00);
	all(3, 0);
	all(9, 0);
	all(10, 0);
	all(4, 0x00003f80);
	e_vop3(m_opcode(ISA_V_DOT2_F16_F16), 9, V(1), V(2), V(3), 0, 0);
	e_vop3(m_opcode(ISA_V_DOT2_BF16_BF16), 10, V(1), V(4), V(3), 0, 0);
	m_run_ok();
	is(9, 1);
	is(10, 0);
}

/* Past the allocation (64 registers here) reads v0 and writes nothing. */
Test(vgpu_manual, registers_out_of_range)
{
	all(0, 0x1234);
	all(1, 0x77);
	e_vop1(ISA_V_MOV_B32, 200, V(1));
	e_vop1(ISA_V_MOV_B32, 2, V(200));
	M.w->s[OPR_M0] = 100;
	e_vop1(ISA_V_MOVRELD_B32, 3, V(1));
	e_vop1(ISA_V_MOVRELS_B32, 4, V(1));
	e_ds(ISA_DS_LOAD_B32, 250, 1, 0, 0, 0);
	e_vop1(ISA_V_CVT_F64_I32, 100, V(1));
	m_run_ok();
	is(0, 0x1234);
	is(2, 0x1234);
	is(4, 0x1234);
}

/* Floats in LDS: src data0, memory's value the other. */
Test(vgpu_manual, lds_float_atomics)
{
	static const struct {
		unsigned op;
		uint32_t mode, mem, data, cmp, want;
	} rows[] = {
		/* a number wins over a quiet NaN, on either side */
		{ISA_DS_MIN_F32, 0x3f0, 0x7fc00000, 0x40000000, 0, 0x40000000},
		{ISA_DS_MAX_F32, 0x3f0, 0x40000000, 0x7fc00000, 0, 0x40000000},
		/* a signalling one over everything, and becomes quiet */
		{ISA_DS_MIN_F32, 0x3f0, 0x3f800000, 0x7f800001, 0, 0x7fc00001},
		{ISA_DS_MAX_F32, 0x3f0, 0xff800001, 0x7f800001, 0, 0xffc00001},
		/* -0 < +0 */
		{ISA_DS_MIN_F32, 0x3f0, 0, 0x80000000, 0, 0x80000000},
		{ISA_DS_MAX_F32, 0x3f0, 0x80000000, 0, 0, 0},
		/* compared as zero, stored as it was */
		{ISA_DS_MAX_F32, 0x3c0, 0x00000005, 0x80000007, 0, 0x00000005},
		{ISA_DS_MAX_F32, 0x3f0, 0x00000005, 0x00000007, 0, 0x00000007},
		{ISA_DS_ADD_F32, 0x3c0, 0x00000005, 0x00000007, 0, 0},
		{ISA_DS_ADD_F32, 0x3f0, 0x00000005, 0x00000007, 0, 0x0000000c},
		{ISA_DS_ADD_F32, 0x3d0, 0x00000005, 0x00000007, 0, 0},
		/* to nearest in any rounding mode */
		{ISA_DS_ADD_F32, 0x3f5, 0x3f800000, 0x33000000, 0, 0x3f800000},
		{ISA_DS_CMPSTORE_F32, 0x3f0, 0x80000000, 0x40400000, 0, 0x40400000},
		{ISA_DS_CMPSTORE_F32, 0x3f0, 0x7fc00000, 0x40400000, 0x7fc00000, 0x7fc00000},
		{ISA_DS_CMPSTORE_F32, 0x3c0, 0x00000001, 0x40400000, 0x00000002, 0x40400000},
		{ISA_DS_CMPSTORE_F32, 0x3f0, 0x00000001, 0x40400000, 0x00000002, 0x00000001},
	};

	M.w->exec = 1;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		M.w->mode = rows[i].mode;
		memcpy(M.lds, &rows[i].mem, 4);
		all(1, 0);
		all(2, rows[i].data);
		all(3, rows[i].cmp);
		e_ds(rows[i].op, 0, 1, 2, 3, 0);
		m_run_ok();
		cr_assert_eq(m_lds32(0), rows[i].want, "row %u, %s: %#x, not %#x", i,
			     isa_op_name(rows[i].op), m_lds32(0), rows[i].want);
	}
}

/* The same of 64 bits. */
Test(vgpu_manual, lds_double_atomics)
{
	static const struct {
		unsigned op;
		uint64_t mem, data, want;
	} rows[] = {
		{ISA_DS_MIN_F64, 0x7ff8000000000000, 0x4000000000000000, 0x4000000000000000},
		{ISA_DS_MAX_F64, 0x3ff0000000000000, 0x7ff0000000000001, 0x7ff8000000000001},
		{ISA_DS_MIN_F64, 0, 0x8000000000000000, 0x8000000000000000},
		{ISA_DS_MAX_F64, 0xc000000000000000, 0xbff0000000000000, 0xbff0000000000000},
	};

	M.w->exec = 1;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t got;

		memcpy(M.lds, &rows[i].mem, 8);
		all(1, 0);
		all(2, (uint32_t)rows[i].data);
		all(3, (uint32_t)(rows[i].data >> 32));
		e_ds(rows[i].op, 0, 1, 2, 0, 0);
		m_run_ok();
		memcpy(&got, M.lds, 8);
		cr_assert_eq(got, rows[i].want, "row %u: %#llx", i, (unsigned long long)got);
	}
}

/* Sums in memory flush denormal terms whatever MODE says. */
Test(vgpu_manual, memory_float_add)
{
	const uint32_t tiny = 5;

	memcpy(M.mem, &tiny, 4);
	all(1, (uint32_t)M_MEM);
	all(2, (uint32_t)(M_MEM >> 32));
	all(3, 0x00800000);
	M.w->exec = 1;
	e_flat(ISA_GLOBAL_ATOMIC_ADD_F32, 2, 4, 1, 3, M_NULL, 0, true);
	m_run_ok();
	cr_assert(m_mem32(0) == 0x00800000 && m_v(4)[0] == 5);
}

/* The low two bits of base, offset and register are dropped one by one. */
Test(vgpu_manual, scalar_addresses)
{
	for (uint32_t i = 0; i < 16; i++)
		memcpy(M.mem + 4 * i, &i, 4);
	m_set64(4, M_MEM + 3);
	M.w->s[8] = 11;
	e_smem(ISA_S_LOAD_B32, 0, 4, 8, 7); /* 0 + 8 + 4 */
	m_run_ok();
	cr_assert_eq(M.w->s[0], 3u);
}

/* A literal of a signed 64-bit source is sign-extended, of an unsigned one zero-extended, of a double
 * the upper half. */
Test(vgpu_manual, literals_of_64_bits)
{
	all(1, 4);
	all(2, 1);
	m_set64(4, 0xffffffff80000000);
	e_vop3(m_opcode(ISA_V_ASHRREV_I64), 4, V(1), M_LIT, 0, 0, 0);
	m_put(0x80000000);
	e_vop3(m_opcode(ISA_V_LSHRREV_B64), 6, V(1), M_LIT, 0, 0, 0);
	m_put(0x80000000);
	m_put(0xd4000000 | m_opcode(ISA_V_MAD_I64_I32) << 16 | M_NULL << 8 | 8);
	m_put((uint32_t)M_LIT << 18 | V(2) << 9 | V(1));
	m_put(0xfffffffd);
	e_vop3(m_opcode(ISA_V_CMP_EQ_I64), 10, 4, M_LIT, 0, 0, 0);
	m_put(0x80000000);
	e_vop3(m_opcode(ISA_V_CMP_EQ_U64), 11, 4, M_LIT, 0, 0, 0);
	m_put(0x80000000);
	e_vop3(m_opcode(ISA_V_ADD_F64), 12, M_LIT, 128, 0, 0, 0);
	m_put(0x40080000);
	m_run_ok();
	is(4, 0xf8000000);
	is(5, 0xffffffff);
	is(6, 0x08000000);
	is(7, 0);
	is(8, 1); /* 4 * 1 - 3 */
	is(9, 0);
	cr_assert(M.w->s[10] == 0xffffffff && M.w->s[11] == 0);
	is(12, 0);
	is(13, 0x40080000);
}

/* K is the literal: second factor of fmamk, addend of fmaak. */
Test(vgpu_manual, fma_with_a_literal)
{
	all(1, 0x7fff4200); /* f16 3 */
	all(2, 0x7fff4000); /* f16 2 */
	all(3, 0x40400000);
	all(4, 0x40000000);
	all(5, 0x77770000);
	all(6, 0x77770000);
	e_vop2(ISA_V_FMAAK_F16, 5, V(1), 2);
	m_put(0x3c00);
	e_vop2(ISA_V_FMAMK_F16, 6, V(1), 2);
	m_put(0x4400);
	e_vop2(ISA_V_FMAAK_F32, 7, V(3), 4);
	m_put(0x3f800000);
	e_vop2(ISA_V_FMAMK_F32, 8, V(3), 4);
	m_put(0x40800000);
	M.w->s[0] = 0x40400000;
	M.w->s[1] = 0x40000000;
	m_put(0x80000000 | m_opcode(ISA_S_FMAAK_F32) << 23 | 2 << 16 | 1 << 8 | 0);
	m_put(0x3f800000);
	m_put(0x80000000 | m_opcode(ISA_S_FMAMK_F32) << 23 | 3 << 16 | 1 << 8 | 0);
	m_put(0x40800000);
	m_run_ok();
	is(5, 0x77774700); /* 3 * 2 + 1 */
	is(6, 0x77774b00); /* 3 * 4 + 2 */
	is(7, 0x40e00000);
	is(8, 0x41600000);
	cr_assert(M.w->s[2] == 0x40e00000 && M.w->s[3] == 0x41600000);
}

/* Source 0 of lane 1 or 2 of the quad, P0 of its lane 0. */
Test(vgpu_manual, interpolation)
{
	static const struct {
		unsigned op;
		bool half;
	} rows[] = {
		{ISA_V_INTERP_P10_F32, false},        {ISA_V_INTERP_P2_F32, false},
		{ISA_V_INTERP_P10_F16_F32, true},     {ISA_V_INTERP_P2_F16_F32, true},
		{ISA_V_INTERP_P10_RTZ_F16_F32, true}, {ISA_V_INTERP_P2_RTZ_F16_F32, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bool p2 = i & 1;

		/* sixteenths and whole numbers: exact in every format */
		for (unsigned l = 0; l < 32; l++) {
			float a = 1 + (float)(l & 15) / 16, b = 2, c = (float)l;
			_Float16 ha = (_Float16)a, hc = (_Float16)c;

			m_v(1)[l] = m_v(3)[l] = 0;
			memcpy(&m_v(1)[l], rows[i].half ? (void *)&ha : &a, rows[i].half ? 2 : 4);
			memcpy(&m_v(2)[l], &b, 4);
			memcpy(&m_v(3)[l], rows[i].half && !p2 ? (void *)&hc : &c,
			       rows[i].half && !p2 ? 2 : 4);
			m_v(4)[l] = 0x5555aaaa;
		}
		m_put(0xcd000000 | m_opcode(rows[i].op) << 16 | 4);
		m_put(V(3) << 18 | V(2) << 9 | V(1));
		m_run_ok();
		for (unsigned l = 0; l < 32; l++) {
			unsigned from = (l & ~3u) + (p2 ? 2 : 1), at0 = p2 ? l : l & ~3u;
			float want = (1 + (float)(from & 15) / 16) * 2 + (float)at0;
			uint32_t bits = 0x5555aaaa;
			_Float16 h = (_Float16)want;

			memcpy(&bits, p2 && rows[i].half ? (void *)&h : &want,
			       p2 && rows[i].half ? 2 : 4);
			cr_assert_eq(m_v(4)[l], bits, "%s lane %u: %#x, not %#x",
				     isa_op_name(rows[i].op), l, m_v(4)[l], bits);
		}
	}
	/* where it is not: cut off, or to nearest */
	all(1, 0x3c00);
	all(2, 0x3a000000); /* 2^-11 */
	all(3, 0x3f801000); /* 1 + 2^-11 */
	all(4, 0);
	all(5, 0);
	m_put(0xcd000000 | m_opcode(ISA_V_INTERP_P2_RTZ_F16_F32) << 16 | 4);
	m_put(V(3) << 18 | V(2) << 9 | V(1));
	all(3, 0x3f801800);
	m_put(0xcd000000 | m_opcode(ISA_V_INTERP_P2_F16_F32) << 16 | 5);
	m_put(V(3) << 18 | V(2) << 9 | V(1));
	m_run_ok();
	is(4, 0x3c01); /* 1 + 1.25 * 2^-10 */
	is(5, 0x3c01);
	all(3, 0x3f803000); /* 1 + 1.5 * 2^-10; the sum 1 + 2 * 2^-10 */
	all(2, 0x39c00000); /* 0.75 * 2^-11 */
	m_put(0xcd000000 | m_opcode(ISA_V_INTERP_P2_RTZ_F16_F32) << 16 | 4);
	m_put(V(3) << 18 | V(2) << 9 | V(1));
	m_put(0xcd000000 | m_opcode(ISA_V_INTERP_P2_F16_F32) << 16 | 5);
	m_put(V(3) << 18 | V(2) << 9 | V(1));
	m_run_ok();
	is(4, 0x3c01); /* 1.875 cut */
	is(5, 0x3c02);
}

/* Fields nothing reads, and a DPP control that the manual has no more: neither stops the wave. */
Test(vgpu_manual, fields_that_mean_nothing)
{
	all(0, 5);
	all(1, 10);
	for (unsigned l = 0; l < 32; l++)
		m_v(4)[l] = l;
	/* v_dual_mov_b32 v2, 100 :: v_dual_add_nc_u32 v3, v0, v1, and a second source of the move's */
	m_put(0xc8000000 | 8 << 22 | 16 << 17 | 77 << 9 | 255);
	m_put(2 << 24 | 1 << 17 | 1 << 9 | V(0));
	m_put(100);
	/* v_dual_add_nc_u32 is Y's alone: v_dual_add_f32 v5, 0, v0 :: v_dual_mov_b32 v6, v1 */
	m_put(0xc8000000 | 4 << 22 | 8 << 17 | 0 << 9 | 128);
	m_put(5 << 24 | 3 << 17 | 200 << 9 | V(1));
	/* v_cmp_eq_u32 vcc, v4, v4 row_bcast:15 and :31 */
	m_put(0x7c000000 | m_opcode(ISA_V_CMP_EQ_U32) << 17 | 4 << 9 | 250);
	m_put(0xff080000 | 0x142 << 8 | 4);
	e_sop1(ISA_S_MOV_B32, 10, OPR_VCC_LO);
	m_put(0x7c000000 | m_opcode(ISA_V_CMP_EQ_U32) << 17 | 4 << 9 | 250);
	m_put(0xff080000 | 0x143 << 8 | 4);
	m_run_ok();
	is(2, 100);
	is(3, 15);
	is(5, 5);
	is(6, 10);
	cr_assert_eq(M.w->s[10], 0x00010001);
	cr_assert_eq(M.w->s[OPR_VCC_LO], 0x00010001);
}

static void setup64(void)
{
	m_init(true);
}

TestSuite(vgpu_manual64, .init = setup64, .fini = m_fini);

/* v_dual_mov_b32 v1, v4 :: v_dual_mov_b32 v2, v5 */
Test(vgpu_manual64, dual_issue_is_skipped)
{
	all(4, 7);
	m_put(0xc8000000 | 8 << 22 | 8 << 17 | V(4));
	m_put(1 << 24 | 1 << 17 | V(5));
	e_vop1(ISA_V_MOV_B32, 3, V(4));
	m_run_ok();
	is(1, 0);
	is(2, 0);
	is(3, 7);
}

/* v_cmp_ne_u32_e64 s[11], v4, 7 and exec_hi: lane masks of 64 lanes lie in even pairs. */
Test(vgpu_manual64, mask_pairs_are_even)
{
	all(4, 7);
	m_v(4)[3] = 8;
	m_put(0xd44d000b);
	m_put((128 + 7) << 9 | V(4));
	m_put(0xd44d007f);
	m_put((128 + 7) << 9 | V(4));
	e_vop1(ISA_V_MOV_B32, 3, V(4));
	m_run_ok();
	cr_assert_eq(M.w->s[10], 8);
	cr_assert_eq(M.w->s[11], ~0u); /* zeroes there */
	cr_assert_eq(M.w->exec, 0xffffffff00000008);
}
