/* DPP, lane permutations, comparisons and masks, in wave32 and wave64. */
#include "valu_wave.h"

TestSuite(valu_lane);

extern isa_sem sem_V_SUBREV_NC_U32, sem_V_SUBREV_CO_U32, sem_V_SUBREV_F32, sem_V_LSHLREV_B32;
extern isa_sem sem_V_MOV_B32, sem_V_ADD_NC_U32, sem_V_ADD_F32, sem_V_FMA_F32, sem_V_MOV_B16;

/* ---- DPP --------------------------------------------------------------------------------- */

/* Lane `l` of 64 reads which lane, -1: none. Written from the manual's table of dpp_ctrl. */
static int dpp_source(unsigned ctrl, int l)
{
	int row = l / 16 * 16, i = l % 16, n = (int)ctrl % 16;

	if (ctrl <= 0xff) {
		int quad[4] = {ctrl & 3, ctrl >> 2 & 3, ctrl >> 4 & 3, ctrl >> 6 & 3};

		return l / 4 * 4 + quad[l % 4];
	}
	if (ctrl > 0x100 && ctrl <= 0x10f)
		return i + n > 15 ? -1 : l + n;
	if (ctrl > 0x110 && ctrl <= 0x11f)
		return i - n < 0 ? -1 : l - n;
	if (ctrl > 0x120 && ctrl <= 0x12f)
		return row + (i + 16 - n) % 16;
	if (ctrl == 0x140)
		return row + 15 - i;
	if (ctrl == 0x141)
		return l / 8 * 8 + 7 - l % 8;
	if (ctrl == 0x142 || ctrl == 0x143)
		return row; /* not the manual's */
	if (ctrl >= 0x150 && ctrl <= 0x15f)
		return row + n;
	return row + (i ^ n);
}

static unsigned rnd_ctrl(void)
{
	static const uint16_t base[] = {0x100, 0x110, 0x120, 0x150, 0x160};

	switch (rnd() % 3) {
	case 0:
		return rnd() & 0xff;
	case 1:
		return 0x140 + (rnd() & 3);
	}
	return base[rnd() % 5] + 1 + rnd() % 15;
}

/* add v40, dpp(v10), SGPR or VGPR: EXEC, masks, bound_ctrl and fi at random. */
Test(valu_lane, dpp16)
{
	for (unsigned pass = 0; pass < 4000; pass++) {
		bool wave64 = pass & 1, sgpr = pass & 2;
		struct isa_insn in = vop(40);
		uint32_t old[2][32];

		if (pass % 500 < 2)
			setup_wave(wave64);
		W->wave64 = wave64;
		W->exec = pass & 4 ? ~0ull : rnd() | (uint64_t)rnd() << 32;
		W->exec &= wave64 ? ~0ull : 0xffffffff;
		W->s[9] = rnd();
		fill_regs(10, 1, rnd);
		fill_regs(20, 1, rnd);
		fill_regs(40, 1, rnd);
		memcpy(old[0], vreg(0, 40), 128);
		memcpy(old[1], vreg(1, 40), 128);
		in.fmt = ISA_VOP3;
		in.dpp_kind = DPP_DPP16;
		in.dpp_ctrl = (uint16_t)rnd_ctrl();
		in.dpp_row_mask = pass & 8 ? 15 : rnd() & 15;
		in.dpp_bank_mask = pass & 8 ? 15 : rnd() & 15;
		in.dpp_bound_ctrl = rnd() & 1;
		in.dpp_fi = rnd() & 1;
		if (sgpr)
			in.src[1] = 9;
		run(sem_V_ADD_NC_U32, &in);
		for (int l = 0; l < (wave64 ? 64 : 32); l++) {
			int k = dpp_source(in.dpp_ctrl, l);
			bool valid = k >= 0 && (in.dpp_fi || (W->exec >> k & 1));
			bool write = (W->exec >> l & 1) && (in.dpp_row_mask >> l / 16 & 1) &&
				     (in.dpp_bank_mask >> l / 4 % 4 & 1) &&
				     (valid || in.dpp_bound_ctrl);
			uint32_t a = valid ? vreg((unsigned)k / 32, 10)[k % 32] : 0;
			uint32_t b = sgpr ? W->s[9] : vreg((unsigned)l / 32, 20)[l % 32];
			uint32_t want = write ? a + b : old[l / 32][l % 32];

			cr_assert_eq(vreg((unsigned)l / 32, 40)[l % 32], want,
				     "ctrl %#x lane %d fi %d bc %d", in.dpp_ctrl, l, in.dpp_fi,
				     in.dpp_bound_ctrl);
		}
	}
}

/* Integer reverse subtractions permute source 1; those of floats and reverse shifts source 0. */
Test(valu_lane, dpp_of_reversed)
{
	static isa_sem *const sems[] = {sem_V_SUBREV_NC_U32, sem_V_SUBREV_CO_U32, sem_V_SUBREV_F32,
					sem_V_LSHLREV_B32};
	static const uint16_t ops[] = {ISA_V_SUBREV_NC_U32, ISA_V_SUBREV_CO_U32, ISA_V_SUBREV_F32,
				       ISA_V_LSHLREV_B32};

	setup_wave(false);
	for (unsigned k = 0; k < 8; k++) {
		struct isa_insn in = vop(40);
		bool dpp8 = k & 4;

		in.op = ops[k & 3];

		for (uint32_t l = 0; l < 32; l++) {
			vreg(0, 10)[l] = (k & 3) == 2 ? bits((float)l) : l;
			vreg(0, 20)[l] = (k & 3) == 2 ? bits((float)(100 * l)) : 100 * l;
		}
		in.dpp_kind = dpp8 ? DPP_DPP8 : DPP_DPP16;
		in.dpp_ctrl = 0x140; /* row_mirror */
		in.dpp8_sel = 0;     /* lane 0 of each eight */
		in.dpp_row_mask = in.dpp_bank_mask = 15;
		in.sdst = OPR_VCC_LO;
		run(sems[k & 3], &in);
		for (uint32_t l = 0; l < 32; l++) {
			uint32_t at = dpp8 ? l & ~7u : (l & 16) + 15 - (l & 15), want;

			if ((k & 3) < 2)
				want = 100 * at - l;
			else if ((k & 3) == 2)
				want = bits((float)(100 * l) - (float)at);
			else
				want = 100 * l << at;
			cr_assert_eq(vreg(0, 40)[l], want, "%u: lane %u: %#x, not %#x", k, l,
				     vreg(0, 40)[l], want);
		}
	}
}

/* DPP8 has no bound_ctrl: an inactive source reads as zero without fi. */
Test(valu_lane, dpp8)
{
	setup_wave(false);
	for (unsigned pass = 0; pass < 200; pass++) {
		struct isa_insn in = vop(40);

		fill_regs(10, 1, rnd);
		fill_regs(20, 1, rnd);
		fill_regs(40, 1, rnd);
		uint32_t old[32];
		memcpy(old, vreg(0, 40), 128);
		W->exec = pass & 1 ? 0xffffffff : rnd();
		in.dpp_kind = DPP_DPP8;
		in.dpp8_sel = rnd() & 0xffffff;
		in.dpp_fi = pass & 2;
		run(sem_V_ADD_NC_U32, &in);
		for (unsigned l = 0; l < 32; l++) {
			unsigned k = l / 8 * 8 + (in.dpp8_sel >> 3 * (l % 8) & 7);
			uint32_t a = in.dpp_fi || (W->exec >> k & 1) ? vreg(0, 10)[k] : 0;

			cr_assert_eq(vreg(0, 40)[l],
				     W->exec >> l & 1 ? a + vreg(0, 20)[l] : old[l]);
		}
	}
}

/* VOP3 with DPP: three sources, signs after the permutation. */
Test(valu_lane, dpp_fma_with_modifiers)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned l = 0; l < 32; l++) {
		vreg(0, 10)[l] = bits(-(float)l);
		vreg(0, 20)[l] = bits(2.0f);
		vreg(0, 30)[l] = bits(100.0f);
	}
	in.dpp_kind = DPP_DPP16;
	in.dpp_ctrl = 0x140;
	in.dpp_row_mask = in.dpp_bank_mask = 15;
	in.abs = 1;
	in.neg = 5;
	run(sem_V_FMA_F32, &in);
	for (unsigned l = 0; l < 32; l++) {
		unsigned from = l / 16 * 16 + 15 - l % 16;

		cr_assert_eq(f32(vreg(0, 40)[l]), -(float)from * 2.0f - 100.0f);
	}
}

/* ---- lanes ------------------------------------------------------------------------------------
 */

extern isa_sem sem_V_READLANE_B32, sem_V_READFIRSTLANE_B32, sem_V_WRITELANE_B32,
	sem_V_PERMLANE16_B32, sem_V_PERMLANEX16_B32, sem_V_PERMLANE64_B32, sem_V_MBCNT_LO_U32_B32,
	sem_V_MBCNT_HI_U32_B32;

Test(valu_lane, read_and_write_lane)
{
	struct isa_insn in = vop(40);

	setup_wave(true);
	fill_regs(10, 1, rnd);
	in.dst = 5;
	in.src[1] = 6;
	W->exec = 0;
	for (unsigned l = 0; l < 64; l++) {
		W->s[6] = l + 64 * (l & 1); /* only the low bits count */
		run_once(sem_V_READLANE_B32, &in);
		cr_assert_eq(W->s[5], vreg(l / 32, 10)[l % 32]);
	}
	run_once(sem_V_READFIRSTLANE_B32, &in);
	cr_assert_eq(W->s[5], vreg(0, 10)[0], "no lane active: lane 0");
	W->exec = 1ull << 45 | 1ull << 60;
	run_once(sem_V_READFIRSTLANE_B32, &in);
	cr_assert_eq(W->s[5], vreg(1, 10)[13]);
	in = vop(40);
	in.src[0] = 5;
	in.src[1] = 6;
	W->s[6] = 33;
	W->exec = 0;
	run_once(sem_V_WRITELANE_B32, &in);
	cr_assert_eq(vreg(1, 40)[1], W->s[5], "EXEC does not matter");
	cr_assert_eq(vreg(0, 40)[1], 0u);
	W->wave64 = 0;
	run_once(sem_V_WRITELANE_B32, &in);
	cr_assert_eq(vreg(0, 40)[1], W->s[5], "33 is lane 1 of a wave32");
}

Test(valu_lane, permlane)
{
	for (unsigned pass = 0; pass < 400; pass++) {
		struct isa_insn in = vop(40);
		bool cross = pass & 1;
		uint32_t old[2][32];

		if (!pass)
			setup_wave(true);
		W->exec = pass & 2 ? ~0ull : rnd() | (uint64_t)rnd() << 32;
		fill_regs(10, 1, rnd);
		fill_regs(40, 1, rnd);
		memcpy(old[0], vreg(0, 40), 128);
		memcpy(old[1], vreg(1, 40), 128);
		W->s[2] = rnd();
		W->s[3] = rnd();
		in.src[1] = 2;
		in.src[2] = 3;
		in.op_sel = (uint8_t)(rnd() & 3);
		run(cross ? sem_V_PERMLANEX16_B32 : sem_V_PERMLANE16_B32, &in);
		for (unsigned l = 0; l < 64; l++) {
			unsigned row = l / 16 ^ (cross ? 1 : 0);
			unsigned k = row * 16 + (W->s[l % 16 < 8 ? 2 : 3] >> 4 * (l % 8) & 15);
			bool valid = (in.op_sel & 1) || (W->exec >> k & 1);
			bool write = (W->exec >> l & 1) && (valid || (in.op_sel & 2));
			uint32_t want = !write  ? old[l / 32][l % 32]
					: valid ? vreg(k / 32, 10)[k % 32]
						: 0;

			cr_assert_eq(vreg(l / 32, 40)[l % 32], want);
		}
	}
}

Test(valu_lane, permlane64_and_mbcnt)
{
	struct isa_insn in = vop(10);
	uint32_t lo[32], hi[32];

	setup_wave(true);
	fill_regs(10, 1, rnd);
	memcpy(lo, vreg(0, 10), 128);
	memcpy(hi, vreg(1, 10), 128);
	run_once(sem_V_PERMLANE64_B32, &in); /* onto itself */
	cr_assert_arr_eq(vreg(0, 10), hi, 128);
	cr_assert_arr_eq(vreg(1, 10), lo, 128);
	in = vop(40);
	W->s[2] = 0x80f0ff01;
	W->s[3] = 0x7;
	in.src[0] = 2;
	in.src[1] = OPR_ZERO;
	run(sem_V_MBCNT_LO_U32_B32, &in);
	in.src[0] = 3;
	in.src[1] = OPR_VGPR0 + 40;
	run(sem_V_MBCNT_HI_U32_B32, &in);
	for (unsigned l = 0; l < 64; l++) {
		uint64_t m = (W->s[2] | (uint64_t)W->s[3] << 32) & ((1ull << l) - 1);

		cr_assert_eq(vreg(l / 32, 40)[l % 32], (uint32_t)__builtin_popcountll(m));
	}
}

/* ---- comparisons ---------------------------------------------------------------------------- */

#define CMPS(I)                                                                                    \
	I(V_CMP_LT_F32, rnd_f32, f32(a) < f32(b))                                                  \
	I(V_CMP_LG_F32, rnd_f32, f32(a) < f32(b) || f32(a) > f32(b))                               \
	I(V_CMP_NEQ_F32, rnd_f32, f32(a) != f32(b))                                                \
	I(V_CMP_NGE_F32, rnd_f32, !(f32(a) >= f32(b)))                                             \
	I(V_CMP_NLT_F32, rnd_f32, !(f32(a) < f32(b)))                                              \
	I(V_CMP_NLG_F32, rnd_f32, !(f32(a) < f32(b) || f32(a) > f32(b)))                           \
	I(V_CMP_O_F32, rnd_f32, f32(a) == f32(a) && f32(b) == f32(b))                              \
	I(V_CMP_U_F32, rnd_f32, f32(a) != f32(a) || f32(b) != f32(b))                              \
	I(V_CMP_GT_U32, rnd_int, a > b)                                                            \
	I(V_CMP_LE_I32, rnd_int, (int32_t)a <= (int32_t)b)                                         \
	I(V_CMP_NE_U32, rnd_int, a != b)                                                           \
	I(V_CMP_GE_U16, rnd_int, (uint16_t)a >= (uint16_t)b)                                       \
	I(V_CMP_LT_I16, rnd_int, (int16_t)a < (int16_t)b)                                          \
	I(V_CMP_T_U32, rnd_int, true)                                                              \
	I(V_CMP_F_I32, rnd_int, false)

#define CMP_DECL(NAME, GEN, E)                                                                     \
	extern isa_sem sem_##NAME;                                                                 \
	static bool cref_##NAME(uint32_t a, uint32_t b)                                            \
	{                                                                                          \
		(void)a;                                                                           \
		(void)b;                                                                           \
		return E;                                                                          \
	}
CMPS(CMP_DECL)

static const struct {
	const char *name;
	isa_sem *sem;
	uint32_t (*gen)(void);
	bool (*ref)(uint32_t a, uint32_t b);
} cmps[] = {
#define CMP_ROW(NAME, GEN, E) {#NAME, sem_##NAME, GEN, cref_##NAME},
	CMPS(CMP_ROW)};

Test(valu_lane, compare_masks)
{
	setup_wave(true);
	for (unsigned t = 0; t < sizeof(cmps) / sizeof(*cmps) * 10; t++) {
		unsigned k = t / 10;
		struct isa_insn in = vop(40);

		in.dst = OPR_NONE;
		in.sdst = 10;
		fill_regs(10, 1, cmps[k].gen);
		fill_regs(20, 1, cmps[k].gen);
		for (unsigned l = 0; l < 32; l += 3)
			vreg(1, 20)[l] = vreg(1, 10)[l];
		W->exec = rnd() | (uint64_t)rnd() << 32;
		W->s[10] = W->s[11] = rnd();
		run(cmps[k].sem, &in);
		for (unsigned l = 0; l < 64; l++) {
			bool want = (W->exec >> l & 1) &&
				    cmps[k].ref(vreg(l / 32, 10)[l % 32], vreg(l / 32, 20)[l % 32]);

			cr_assert_eq(W->s[10 + l / 32] >> (l % 32) & 1, want, "%s lane %u",
				     cmps[k].name, l);
		}
	}
}

extern isa_sem sem_V_CMPX_LT_U32, sem_V_CMPX_CLASS_F32, sem_V_CMP_CLASS_F32, sem_V_CMP_CLASS_F16,
	sem_V_CMP_CLASS_F64, sem_V_CNDMASK_B32, sem_V_CMP_EQ_U64, sem_V_CMP_LT_F64,
	sem_V_CMP_EQ_F16;

Test(valu_lane, cmpx)
{
	struct isa_insn in = vop(40);
	uint64_t before = 0xf0f0f0f00ff0ff0full, want = 0;

	setup_wave(true);
	in.dst = OPR_NONE;
	fill_regs(10, 1, rnd);
	fill_regs(20, 1, rnd);
	W->exec = before;
	W->s[OPR_VCC_LO] = 77;
	for (unsigned l = 0; l < 64; l++)
		if ((before >> l & 1) && vreg(l / 32, 10)[l % 32] < vreg(l / 32, 20)[l % 32])
			want |= 1ull << l;
	run(sem_V_CMPX_LT_U32, &in);
	cr_assert_eq(W->exec, want);
	cr_assert_eq(W->s[OPR_VCC_LO], 77u, "v_cmpx writes EXEC alone");
}

/* Comparisons flush under MODE, v_cmp_class does not. */
Test(valu_lane, class_and_denormals)
{
	static const uint32_t v32[10] = {0x7f800001, 0x7fc00000, 0xff800000, 0xbf800000,
					 0x80000001, 0x80000000, 0,          1,
					 0x3f800000, 0x7f800000};
	static const uint16_t v16[10] = {0x7c01, 0x7e00, 0xfc00, 0xbc00, 0x8001,
					 0x8000, 0,      1,      0x3c00, 0x7c00};
	struct isa_insn in = vop(40);

	setup_wave(false);
	W->mode = MODE_FLUSH;
	in.dst = OPR_NONE;
	in.sdst = 10;
	for (unsigned l = 0; l < 10; l++) {
		vreg(0, 10)[l] = v32[l];
		vreg(0, 12)[l] = v16[l] | 0xffff0000u;
		vreg(0, 13)[l] = (uint32_t)v16[l] << 16;
	}
	for (unsigned b = 0; b < 10; b++) {
		for (unsigned l = 0; l < 32; l++)
			vreg(0, 20)[l] = 1u << b;
		in.src[0] = OPR_VGPR0 + 10;
		run(sem_V_CMP_CLASS_F32, &in);
		cr_assert_eq(W->s[10] & 0x3ff, 1u << b);
		in.src[0] = OPR_VGPR0 + 12;
		run(sem_V_CMP_CLASS_F16, &in);
		cr_assert_eq(W->s[10] & 0x3ff, 1u << b);
		in.src[0] = OPR_VGPR0 + 13;
		in.op_sel = 1;
		run(sem_V_CMP_CLASS_F16, &in);
		cr_assert_eq(W->s[10] & 0x3ff, 1u << b);
		in.op_sel = 0;
	}
	/* The smallest denormal: zero under 0xc0, not under 0xf0. */
	in.src[0] = OPR_VGPR0 + 10;
	in.src[1] = OPR_ZERO;
	extern isa_sem sem_V_CMP_EQ_F32;
	run(sem_V_CMP_EQ_F32, &in);
	cr_assert_eq(W->s[10] & 0x3ff, 0xf0u);
	W->mode = MODE_KEEP;
	run(sem_V_CMP_EQ_F32, &in);
	cr_assert_eq(W->s[10] & 0x3ff, 0x60u);
}

Test(valu_lane, compare_64)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	in.dst = OPR_NONE;
	in.sdst = OPR_VCC_LO;
	for (unsigned pass = 0; pass < 50; pass++) {
		uint32_t eq = 0, lt = 0;

		fill_regs(10, 2, rnd_int);
		fill_regs(20, 2, rnd_int);
		for (unsigned l = 0; l < 32; l++) {
			if (l % 3 == 0)
				memcpy(&vreg(0, 21)[l], &vreg(0, 11)[l], 4);
			if (l % 6 == 0)
				memcpy(&vreg(0, 20)[l], &vreg(0, 10)[l], 4);
			eq |= (uint32_t)(vreg(0, 10)[l] == vreg(0, 20)[l] &&
					 vreg(0, 11)[l] == vreg(0, 21)[l])
			      << l;
			lt |= (uint32_t)(f64(vreg(0, 10)[l], vreg(0, 11)[l]) <
					 f64(vreg(0, 20)[l], vreg(0, 21)[l]))
			      << l;
		}
		run(sem_V_CMP_EQ_U64, &in);
		cr_assert_eq(W->s[OPR_VCC_LO], eq);
		run(sem_V_CMP_LT_F64, &in);
		cr_assert_eq(W->s[OPR_VCC_LO], lt);
	}
}

/* The selector is an SGPR pair's own half; neg and abs act on the sign bit alone. */
Test(valu_lane, cndmask)
{
	struct isa_insn in = vop(40);

	setup_wave(true);
	fill_regs(10, 1, rnd_f32);
	fill_regs(20, 1, rnd_f32);
	W->mode = MODE_FLUSH;
	W->s[8] = 0x12345678;
	W->s[9] = 0x9abcdef0;
	in.src[2] = 8;
	in.neg = 1;
	in.abs = 2;
	run(sem_V_CNDMASK_B32, &in);
	for (unsigned l = 0; l < 64; l++) {
		uint32_t a = vreg(l / 32, 10)[l % 32] ^ 0x80000000;
		uint32_t b = vreg(l / 32, 20)[l % 32] & 0x7fffffff;

		cr_assert_eq(vreg(l / 32, 40)[l % 32], W->s[8 + l / 32] >> (l % 32) & 1 ? b : a);
	}
}

/* A 16-bit result leaves the other half of its register. */
Test(valu_lane, halves)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned sel = 0; sel < 4; sel++) {
		vreg(0, 10)[0] = 0x11112222;
		vreg(0, 40)[0] = 0xaaaabbbb;
		in.op_sel = (uint8_t)((sel & 1) | (sel & 2) << 2);
		run(sem_V_MOV_B16, &in);
		uint32_t h = sel & 1 ? 0x1111 : 0x2222;
		cr_assert_eq(vreg(0, 40)[0], sel & 2 ? h << 16 | 0xbbbb : 0xaaaa0000 | h);
	}
}
