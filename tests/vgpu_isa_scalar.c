/* Scalar instructions: results and SCC against values worked out from the ISA manual. */
#include <math.h>

#include "isa_machine.h"

static void setup(void)
{
	m_init(false);
}

TestSuite(vgpu_isa_scalar, .init = setup, .fini = m_fini);

/* op s4, s0, s1 (or 64 bits: s[4:5], s[0:1], s[2:3]). */
struct row {
	unsigned op;
	uint64_t a, b, want;
	unsigned scc_in, scc; /* scc 2: must stay as it was */
};

static void check(const struct row *r, bool dst64, bool a64, bool b64, bool unary)
{
	uint64_t got;

	m_set64(0, r->a);
	m_set64(2, r->b);
	m_set64(4, 0xdeadbeefcafef00dull);
	M.w->scc = r->scc_in;
	if (!a64)
		M.w->s[1] = 0x55555555;
	if (unary)
		e_sop1(r->op, 4, 0);
	else
		e_sop2(r->op, 4, 0, 2);
	(void)b64;
	m_run_ok();
	got = M.w->s[4] | (uint64_t)M.w->s[5] << 32;
	if (!dst64)
		got &= 0xffffffff;
	cr_assert(got == r->want, "%s 0x%llx, 0x%llx: got 0x%llx, wanted 0x%llx",
		  isa_op_name(r->op), (unsigned long long)r->a, (unsigned long long)r->b,
		  (unsigned long long)got, (unsigned long long)r->want);
	cr_assert(M.w->scc == (r->scc == 2 ? r->scc_in : r->scc), "%s 0x%llx, 0x%llx: scc %u",
		  isa_op_name(r->op), (unsigned long long)r->a, (unsigned long long)r->b, M.w->scc);
}

Test(vgpu_isa_scalar, sop2_32)
{
	static const struct row rows[] = {
		{ISA_S_ADD_U32, 0xffffffff, 1, 0, 0, 1},
		{ISA_S_ADD_U32, 5, 6, 11, 1, 0},
		{ISA_S_SUB_U32, 1, 2, 0xffffffff, 0, 1},
		{ISA_S_ADD_I32, 0x7fffffff, 1, 0x80000000, 0, 1},
		{ISA_S_ADD_I32, 0xffffffff, 1, 0, 0, 0},
		{ISA_S_SUB_I32, 0x80000000, 1, 0x7fffffff, 0, 1},
		{ISA_S_ADDC_U32, 0xffffffff, 0, 0, 1, 1},
		{ISA_S_ADDC_U32, 1, 2, 4, 1, 0},
		{ISA_S_SUBB_U32, 0, 0, 0xffffffff, 1, 1},
		{ISA_S_SUBB_U32, 5, 0xffffffff, 5, 1, 1},
		{ISA_S_ABSDIFF_I32, 3, 0xfffffffe, 5, 0, 1},
		{ISA_S_ABSDIFF_I32, 3, 3, 0, 1, 0},
		{ISA_S_ABSDIFF_I32, 0x80000000, 1, 0x7fffffff, 0, 1},
		{ISA_S_ABSDIFF_I32, 0x80000000, 0, 0x80000000, 0, 1},
		{ISA_S_LSHL1_ADD_U32, 0x80000000, 3, 3, 0, 1},
		{ISA_S_LSHL4_ADD_U32, 2, 3, 35, 1, 0},
		{ISA_S_MIN_I32, 0xffffffff, 1, 0xffffffff, 0, 1},
		{ISA_S_MIN_U32, 0xffffffff, 1, 1, 1, 0},
		{ISA_S_MAX_I32, 0xffffffff, 1, 1, 1, 0},
		{ISA_S_MAX_U32, 0xffffffff, 1, 0xffffffff, 0, 1},
		{ISA_S_LSHL_B32, 1, 33, 2, 0, 1},
		{ISA_S_LSHR_B32, 0x80000000, 31, 1, 0, 1},
		{ISA_S_ASHR_I32, 0x80000000, 31, 0xffffffff, 0, 1},
		{ISA_S_AND_B32, 0xf0, 0x0f, 0, 1, 0},
		{ISA_S_NAND_B32, 0xffffffff, 0xffffffff, 0, 1, 0},
		{ISA_S_XNOR_B32, 0xf0, 0xf0, 0xffffffff, 0, 1},
		{ISA_S_AND_NOT1_B32, 0xff, 0x0f, 0xf0, 0, 1},
		{ISA_S_OR_NOT1_B32, 0, 0xfffffff0, 15, 0, 1},
		{ISA_S_BFE_U32, 0xabcd1234, 8 | 8 << 16, 0x12, 0, 1},
		{ISA_S_BFE_U32, 0xabcd1234, 28 | 16 << 16, 0xa, 0, 1},
		{ISA_S_BFE_U32, 0xabcd1234, 8, 0, 1, 0},
		{ISA_S_BFE_I32, 0x00008000, 8 | 8 << 16, 0xffffff80, 0, 1},
		{ISA_S_BFE_I32, 0x80000000, 28 | 8 << 16, 0xfffffff8, 0, 1},
		{ISA_S_BFM_B32, 5, 3, 0xf8, 1, 2},
		{ISA_S_MUL_I32, 0xffffffff, 7, 0xfffffff9, 1, 2},
		{ISA_S_MUL_HI_U32, 0xffffffff, 0xffffffff, 0xfffffffe, 0, 2},
		{ISA_S_MUL_HI_I32, 0xffffffff, 7, 0xffffffff, 0, 2},
		{ISA_S_CSELECT_B32, 1, 2, 1, 1, 2},
		{ISA_S_CSELECT_B32, 1, 2, 2, 0, 2},
		{ISA_S_PACK_LL_B32_B16, 0x11112222, 0x33334444, 0x44442222, 0, 2},
		{ISA_S_PACK_LH_B32_B16, 0x11112222, 0x33334444, 0x33332222, 0, 2},
		{ISA_S_PACK_HH_B32_B16, 0x11112222, 0x33334444, 0x33331111, 0, 2},
		{ISA_S_PACK_HL_B32_B16, 0x11112222, 0x33334444, 0x44441111, 0, 2},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(&rows[i], false, false, false, false);
}

Test(vgpu_isa_scalar, sop2_64)
{
	static const struct row rows[] = {
		{ISA_S_AND_B64, 0xf0f0f0f0f0f0f0f0, 0xff00ff00ff00ff00, 0xf000f000f000f000, 0, 1},
		{ISA_S_NOR_B64, ~0ull, 0, 0, 1, 0},
		{ISA_S_CSELECT_B64, 1ull << 40, 2, 1ull << 40, 1, 2},
		{ISA_S_AND_NOT1_B64, ~0ull, 0xffffffff, 0xffffffff00000000, 0, 1},
	};
	static const struct row shifts[] = {
		{ISA_S_LSHL_B64, 1, 65, 2, 0, 1},
		{ISA_S_LSHR_B64, 1ull << 63, 63, 1, 0, 1},
		{ISA_S_ASHR_I64, 1ull << 63, 63, ~0ull, 0, 1},
		{ISA_S_BFE_U64, 0x123456789abcdef0, 16 | 16 << 16, 0x9abc, 0, 1},
		{ISA_S_BFE_I64, 0x00000000ff000000, 24 | 8 << 16, ~0ull, 0, 1},
		{ISA_S_BFE_I64, 1ull << 63, 60 | 8 << 16, 0xfffffffffffffff8, 0, 1},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(&rows[i], true, true, true, false);
	for (unsigned i = 0; i < sizeof(shifts) / sizeof(*shifts); i++)
		check(&shifts[i], true, true, false, false);
}

Test(vgpu_isa_scalar, sop1)
{
	static const struct row rows[] = {
		{ISA_S_BREV_B32, 1, 0, 0x80000000, 1, 2},
		{ISA_S_CTZ_I32_B32, 0x50, 0, 4, 1, 2},
		{ISA_S_CTZ_I32_B32, 0, 0, 0xffffffff, 1, 2},
		{ISA_S_CLZ_I32_U32, 0x00ff0000, 0, 8, 1, 2},
		{ISA_S_CLZ_I32_U32, 0, 0, 0xffffffff, 1, 2},
		{ISA_S_CLS_I32, 0xfffffff0, 0, 28, 1, 2},
		{ISA_S_CLS_I32, 0x40000000, 0, 1, 1, 2},
		{ISA_S_CLS_I32, 0, 0, 0xffffffff, 1, 2},
		{ISA_S_SEXT_I32_I8, 0x180, 0, 0xffffff80, 1, 2},
		{ISA_S_SEXT_I32_I16, 0x18000, 0, 0xffff8000, 1, 2},
		{ISA_S_BITSET0_B32, 0, 0, 0xcafef00c, 1, 2},
		{ISA_S_BITSET1_B32, 33, 0, 0xcafef00f, 1, 2},
		{ISA_S_ABS_I32, 0xfffffffb, 0, 5, 0, 1},
		{ISA_S_ABS_I32, 0x80000000, 0, 0x80000000, 0, 1},
		{ISA_S_BCNT0_I32_B32, 0xffffffff, 0, 0, 1, 0},
		{ISA_S_BCNT1_I32_B32, 0xf0f0, 0, 8, 0, 1},
		{ISA_S_NOT_B32, 0xffffffff, 0, 0, 1, 0},
		{ISA_S_QUADMASK_B32, 0x00f0000f, 0, 0x21, 0, 1},
		{ISA_S_WQM_B32, 0x00100001, 0, 0x00f0000f, 0, 1},
		{ISA_S_CMOV_B32, 7, 0, 7, 1, 2},
		{ISA_S_CMOV_B32, 7, 0, 0xcafef00d, 0, 2},
	};
	static const struct row wide[] = {
		{ISA_S_BREV_B64, 1, 0, 1ull << 63, 1, 2},
		{ISA_S_NOT_B64, 0, 0, ~0ull, 0, 1},
		{ISA_S_WQM_B64, 1ull << 63, 0, 0xfull << 60, 0, 1},
		{ISA_S_BITSET1_B64, 63, 0, 0xdeadbeefcafef00dull | 1ull << 63, 0, 2},
		{ISA_S_BITREPLICATE_B64_B32, 0x80000001, 0, 0xc000000000000003, 0, 2},
	};
	static const struct row narrow[] = {
		{ISA_S_CTZ_I32_B64, 1ull << 40, 0, 40, 1, 2},
		{ISA_S_CLZ_I32_U64, 1ull << 40, 0, 23, 1, 2},
		{ISA_S_CLS_I32_I64, 0xffff000000000000, 0, 16, 1, 2},
		{ISA_S_BCNT1_I32_B64, 0xf00000000000000f, 0, 8, 0, 1},
		{ISA_S_BCNT0_I32_B64, ~0ull, 0, 0, 1, 0},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(&rows[i], false, false, false, true);
	for (unsigned i = 0; i < sizeof(wide) / sizeof(*wide); i++)
		check(&wide[i], true, true, false, true);
	for (unsigned i = 0; i < sizeof(narrow) / sizeof(*narrow); i++)
		check(&narrow[i], false, true, false, true);
}

Test(vgpu_isa_scalar, saveexec)
{
	M.w->s[0] = 0x0000ffff;
	M.w->exec = 0x00ffff00;
	e_sop1(ISA_S_AND_SAVEEXEC_B32, 4, 0);
	m_run_ok();
	cr_assert(M.w->s[4] == 0x00ffff00 && (uint32_t)M.w->exec == 0xff00 && M.w->scc == 1);
	M.w->exec = 0x00ffff00;
	e_sop1(ISA_S_AND_NOT1_WREXEC_B32, 4, 0); /* s0 & ~exec */
	m_run_ok();
	cr_assert(M.w->s[4] == 0xff && (uint32_t)M.w->exec == 0xff);
	M.w->exec = 0x00ffff00;
	e_sop1(ISA_S_AND_NOT0_SAVEEXEC_B32, 4, 0); /* ~s0 & exec */
	m_run_ok();
	cr_assert((uint32_t)M.w->exec == 0x00ff0000);
}

Test(vgpu_isa_scalar, constants_and_literals)
{
	e_sop1(ISA_S_MOV_B64, 4, 193); /* -1 */
	e_sop1(ISA_S_MOV_B32, 6, 240); /* 0.5 */
	e_sop1(ISA_S_MOV_B64, 8, 242); /* 1.0 as f64 */
	e_sop2(ISA_S_AND_B64, 10, 4, M_LIT);
	m_put(0x80000001); /* zero-extended: an unsigned 64-bit operand */
	e_sop2(ISA_S_ASHR_I64, 12, M_LIT, 129);
	m_put(0x80000000); /* sign-extended: a signed one */
	e_sop1(ISA_S_MOV_B64, 14, OPR_SHARED_BASE);
	e_sop1(ISA_S_MOV_B64, 16, OPR_PRIVATE_LIMIT);
	m_run_ok();
	cr_assert(M.w->s[4] == ~0u && M.w->s[5] == ~0u);
	cr_assert(M.w->s[6] == 0x3f000000);
	cr_assert(M.w->s[8] == 0 && M.w->s[9] == 0x3ff00000);
	cr_assert(M.w->s[10] == 0x80000001 && M.w->s[11] == 0);
	cr_assert(M.w->s[12] == 0xc0000000 && M.w->s[13] == 0xffffffff);
	cr_assert(M.w->s[14] == 0 && M.w->s[15] == (uint32_t)(M_SHARED >> 32));
	cr_assert(M.w->s[16] == ~0u && M.w->s[17] == (uint32_t)(M_PRIVATE >> 32));
}

Test(vgpu_isa_scalar, compares)
{
	static const struct {
		unsigned op;
		uint32_t a, b;
		unsigned scc;
	} rows[] = {
		{ISA_S_CMP_LT_I32, 0xffffffff, 1, 1},  {ISA_S_CMP_LT_U32, 0xffffffff, 1, 0},
		{ISA_S_CMP_LG_U32, 1, 1, 0},           {ISA_S_BITCMP1_B32, 0x10, 36, 1},
		{ISA_S_BITCMP0_B32, 0x10, 4, 0},       {ISA_S_CMP_LT_F32, 0xbf800000, 0, 1},
		{ISA_S_CMP_EQ_F32, 0x80000000, 0, 1},  {ISA_S_CMP_NEQ_F32, 0x7fc00000, 0, 1},
		{ISA_S_CMP_U_F32, 0x7fc00000, 0, 1},   {ISA_S_CMP_LG_F32, 0x7fc00000, 0, 0},
		{ISA_S_CMP_NLG_F32, 0x7fc00000, 0, 1}, {ISA_S_CMP_GT_F16, 0x4000, 0x3c00, 1},
		{ISA_S_CMP_O_F16, 0x7e00, 0x3c00, 0},  {ISA_S_CMP_GE_F16, 0x3c00, 0x3c00, 1},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		M.w->s[0] = rows[i].a;
		M.w->s[1] = rows[i].b;
		e_sopc(rows[i].op, 0, 1);
		m_run_ok();
		cr_assert(M.w->scc == rows[i].scc, "%s", isa_op_name(rows[i].op));
	}
	M.w->s[0] = 0xffff8000;
	e_sopk(ISA_S_CMPK_EQ_I32, 0, 0x8000);
	m_run_ok();
	cr_assert(M.w->scc == 1, "the immediate of signed compares is sign-extended");
	e_sopk(ISA_S_CMPK_EQ_U32, 0, 0x8000);
	m_run_ok();
	cr_assert(M.w->scc == 0, "that of unsigned ones is not");
}

static uint32_t f(float v)
{
	uint32_t u;

	memcpy(&u, &v, 4);
	return u;
}

Test(vgpu_isa_scalar, float_gfx115)
{
	static const float third = 1.0f / 3.0f;
	struct row rows[] = {
		{ISA_S_ADD_F32, f(1.5f), f(2.25f), f(3.75f), 1, 2},
		{ISA_S_SUB_F32, f(1.5f), f(2.25f), f(-0.75f), 1, 2},
		{ISA_S_MUL_F32, f(third), f(3.0f), f(third * 3.0f), 1, 2},
		{ISA_S_MIN_F32, 0x80000000, 0, 0x80000000, 1, 2},
		{ISA_S_MAX_F32, 0x80000000, 0, 0, 1, 2},
		{ISA_S_MAX_F32, 0x7fc00000, f(1), f(1), 1, 2},
		{ISA_S_MAX_F32, 0x7f800001, f(1), 0x7fc00001, 1, 2},
		{ISA_S_MAX_F32, 0x7fc00001, 0x7fc00002, 0x7fc00001, 1, 2},
		{ISA_S_ADD_F16, 0x3c00, 0x4000, 0x4200, 1, 2},
		{ISA_S_MUL_F16, 0x3555, 0x4200, 0x3c00, 1, 2},
		{ISA_S_MIN_F16, 0xbc00, 0x3c00, 0xbc00, 1, 2},
		{ISA_S_CVT_PK_RTZ_F16_F32, f(1.0f), f(65535.0f), 0x7bff3c00, 1, 2},
	};
	struct row unary[] = {
		{ISA_S_CEIL_F32, f(1.2f), 0, f(2), 1, 2},
		{ISA_S_FLOOR_F32, f(-1.2f), 0, f(-2), 1, 2},
		{ISA_S_TRUNC_F32, f(-1.7f), 0, f(-1), 1, 2},
		{ISA_S_RNDNE_F32, f(2.5f), 0, f(2), 1, 2},
		{ISA_S_RNDNE_F16, 0x4300, 0, 0x4400, 1, 2}, /* 3.5 */
		{ISA_S_CVT_F32_I32, 0xffffffff, 0, f(-1), 1, 2},
		{ISA_S_CVT_F32_U32, 0xffffffff, 0, f(4294967296.0f), 1, 2},
		{ISA_S_CVT_I32_F32, f(-1.9f), 0, 0xffffffff, 1, 2},
		{ISA_S_CVT_I32_F32, f(1e20f), 0, 0x7fffffff, 1, 2},
		{ISA_S_CVT_I32_F32, 0x7fc00000, 0, 0, 1, 2},
		{ISA_S_CVT_U32_F32, f(-3.0f), 0, 0, 1, 2},
		{ISA_S_CVT_U32_F32, f(1e20f), 0, 0xffffffff, 1, 2},
		{ISA_S_CVT_F16_F32, f(65520.0f), 0, 0x7c00, 1, 2},
		{ISA_S_CVT_F32_F16, 0xc000, 0, f(-2), 1, 2},
		{ISA_S_CVT_HI_F32_F16, 0x3c000000, 0, f(1), 1, 2},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(&rows[i], false, false, false, false);
	for (unsigned i = 0; i < sizeof(unary) / sizeof(*unary); i++)
		check(&unary[i], false, false, false, true);
	M.w->s[0] = f(2);
	M.w->s[1] = f(3);
	M.w->s[4] = f(10);
	e_sop2(ISA_S_FMAC_F32, 4, 0, 1);
	e_sop2(ISA_S_FMAAK_F32, 5, 0, 1);
	m_put(f(100));
	e_sop2(ISA_S_FMAMK_F32, 6, 0, 1);
	m_put(f(100));
	m_run_ok();
	cr_assert(M.w->s[4] == f(16) && M.w->s[5] == f(106) && M.w->s[6] == f(203));
}

/* MODE: f32 denormals flushed with 0xc0, kept with 0xf0; rounding of each width on its own. */
Test(vgpu_isa_scalar, float_modes)
{
	M.w->s[0] = 1; /* smallest denormal */
	M.w->s[1] = f(1);
	e_sop2(ISA_S_MUL_F32, 4, 0, 1);
	m_run_ok();
	cr_assert(M.w->s[4] == 1);
	e_sopp(ISA_S_DENORM_MODE, 0xc);
	e_sop2(ISA_S_MUL_F32, 4, 0, 1);
	m_run_ok();
	cr_assert(M.w->s[4] == 0 && (M.w->mode & 0xff) == 0xc0);
	M.w->s[0] = f(1);
	M.w->s[1] = 0x33000000;      /* 2^-25 */
	e_sopp(ISA_S_ROUND_MODE, 1); /* f32 up */
	e_sop2(ISA_S_ADD_F32, 4, 0, 1);
	e_sopp(ISA_S_ROUND_MODE, 2); /* f32 down */
	e_sop2(ISA_S_ADD_F32, 5, 0, 1);
	e_sopp(ISA_S_ROUND_MODE, 4); /* f16 up, f32 nearest */
	e_sop2(ISA_S_ADD_F32, 6, 0, 1);
	m_run_ok();
	cr_assert(M.w->s[4] == f(1) + 1 && M.w->s[5] == f(1) && M.w->s[6] == f(1));
}

Test(vgpu_isa_scalar, memory)
{
	uint32_t v[16];

	for (unsigned i = 0; i < 16; i++)
		v[i] = 0x1000 + i;
	memcpy(M.mem + 64, v, sizeof(v));
	m_set64(0, M_MEM + 64);
	M.w->s[2] = 8;
	e_smem(ISA_S_LOAD_B32, 4, 0, M_NULL, 4);
	e_smem(ISA_S_LOAD_B64, 6, 0, 2, 8);
	e_smem(ISA_S_LOAD_B512, 16, 0, M_NULL, 0);
	e_smem(ISA_S_LOAD_B32, 5, 0, M_NULL, -64);
	m_run_ok();
	cr_assert(M.w->s[4] == 0x1001 && M.w->s[6] == 0x1004 && M.w->s[7] == 0x1005);
	cr_assert(!memcmp(&M.w->s[16], v, sizeof(v)) && M.w->s[5] == 0);
	/* a buffer ends where its records end */
	M.w->s[8] = (uint32_t)(M_MEM + 64);
	M.w->s[9] = (uint32_t)((M_MEM + 64) >> 32);
	M.w->s[10] = 12;
	M.w->s[11] = 0;
	e_smem(ISA_S_BUFFER_LOAD_B128, 16, 8, M_NULL, 0);
	m_run_ok();
	cr_assert(M.w->s[18] == 0x1002 && M.w->s[19] == 0, "past the end reads 0");
}

Test(vgpu_isa_scalar, movrel)
{
	M.w->s[OPR_M0] = 3;
	M.w->s[13] = 77;
	M.w->s[0] = 88;
	e_sop1(ISA_S_MOVRELS_B32, 4, 10);
	e_sop1(ISA_S_MOVRELD_B32, 20, 0);
	m_run_ok();
	cr_assert(M.w->s[4] == 77 && M.w->s[23] == 88);
	M.w->s[OPR_M0] = 2 | 5 << 16;
	M.w->s[12] = 99;
	e_sop1(ISA_S_MOVRELSD_2_B32, 20, 10);
	m_run_ok();
	cr_assert(M.w->s[25] == 99);
}

Test(vgpu_isa_scalar, hwregs)
{
	M.w->hw_id1 = 0x12345678;
	e_sopk(ISA_S_GETREG_B32, 4, 23 | 8 << 6 | 7 << 11);      /* HW_ID1, bits 15:8 */
	e_sopk(ISA_S_SETREG_IMM32_B32, 0, 1 | 4 << 6 | 3 << 11); /* MODE[7:4] */
	m_put(0xc);
	e_sopk(ISA_S_GETREG_B32, 5, 1 | 31 << 11);
	M.w->s[0] = 0xabcd0000;
	e_sopk(ISA_S_SETREG_B32, 0, 20 | 31 << 11); /* FLAT_SCR_LO */
	e_sopk(ISA_S_GETREG_B32, 6, 15 | 31 << 11);
	m_run_ok();
	cr_assert(M.w->s[4] == 0x56);
	cr_assert(M.w->s[5] == 0x3c0 && M.w->mode == 0x3c0);
	cr_assert((uint32_t)M.w->flat_scratch == 0xabcd0000);
	cr_assert(M.w->s[6] == (0x2 | 0x1 << 16), "private and shared aperture, bits 63:48");
	e_sopk(ISA_S_GETREG_B32, 4, 9 | 31 << 11); /* no such register */
	m_run();
	cr_assert(M.w->state == WAVE_HALTED && M.w->stop == STOP_UNSUPPORTED && M.w->pc == M_CODE);
}
