/* f16, packed, dot, matrix and transcendental semantics. f16 sums are computed here in fixed
 * point: every f16 is a multiple of 2^-24, every product of 2^-48, and 128 bits hold them all. */
#include "valu_wave.h"

TestSuite(valu_pk);

/* ---- an f16 of its own ------------------------------------------------------------------- */

static bool h_nan(uint32_t h)
{
	return (h & 0x7fff) > 0x7c00;
}

static bool h_inf(uint32_t h)
{
	return (h & 0x7fff) == 0x7c00;
}

static uint32_t h_flush(uint32_t h, bool keep)
{
	return !keep && !(h & 0x7c00) ? h & 0x8000 : h & 0xffff;
}

/* In units of 2^-24. */
static int64_t h_fixed(uint32_t h)
{
	int64_t m = h & 0x3ff, e = h >> 10 & 31;

	m = e ? (m | 0x400) << (e - 1) : m;
	return h & 0x8000 ? -m : m;
}

/* v * 2^-48 to f16; rnd as in MODE. zero_sign: the sign of an exact zero. */
static uint32_t h_round(__int128 v, unsigned rnd_mode, uint32_t zero_sign)
{
	uint32_t s = v < 0 ? 0x8000 : 0, e = 0, h;
	unsigned __int128 m = (unsigned __int128)(v < 0 ? -v : v), rest, half;
	bool up;

	if (!v)
		return zero_sign;
	/* Units of the last place: 2^-24 for the smallest exponent. */
	while (m >> (24 + e) >= 0x800)
		e++;
	h = (uint32_t)(m >> (24 + e));
	rest = m & (((unsigned __int128)1 << (24 + e)) - 1);
	half = (unsigned __int128)1 << (23 + e);
	up = rnd_mode == 0   ? rest > half || (rest == half && (h & 1))
	     : rnd_mode == 1 ? rest && !s
	     : rnd_mode == 2 ? rest && s
			     : false;
	h += up;
	if (h == 0x800 && e) {
		h = 0x400;
		e++;
	}
	/* The implicit bit carries into the exponent field. */
	h = h + (e << 10);
	if (h >= 0x7c00)
		h = rnd_mode == 0 || (rnd_mode == 1 && !s) || (rnd_mode == 2 && s) ? 0x7c00
										   : 0x7bff;
	return s | h;
}

/* a * b + c. */
static uint32_t h_fma(uint32_t a, uint32_t b, uint32_t c, unsigned rnd_mode)
{
	uint32_t ps = (a ^ b) & 0x8000, zs;

	if (h_nan(a) || h_nan(b) || h_nan(c))
		return 0x7e00;
	if (h_inf(a) || h_inf(b)) {
		if (!(a & 0x7fff) || !(b & 0x7fff) || (h_inf(c) && (c & 0x8000) != ps))
			return 0x7e00;
		return ps | 0x7c00;
	}
	if (h_inf(c))
		return c;
	zs = ps == (c & 0x8000) && !((a & 0x7fff) && (b & 0x7fff)) && !(c & 0x7fff) ? ps
	     : rnd_mode == 2                                                        ? 0x8000
										    : 0;
	return h_round((__int128)h_fixed(a) * h_fixed(b) + (__int128)h_fixed(c) * (1 << 24),
		       rnd_mode, zs);
}

#define H_ONE 0x3c00u

extern isa_sem sem_V_FMA_F16, sem_V_ADD_F16, sem_V_SUB_F16, sem_V_MUL_F16, sem_V_FMAC_F16;

/* Halves picked, all rounding modes, both denormal modes, the other half kept. */
Test(valu_pk, f16_arithmetic)
{
	isa_sem *const sem[] = {sem_V_FMA_F16, sem_V_ADD_F16, sem_V_SUB_F16, sem_V_MUL_F16,
				sem_V_FMAC_F16};

	setup_wave(false);
	for (unsigned pass = 0; pass < 2000; pass++) {
		struct isa_insn in = vop(40);
		unsigned op = pass % 5, m = pass / 5 % 4;
		bool keep = pass / 20 % 4 != 3;
		uint32_t old[32];

		W->mode = (keep ? MODE_KEEP : MODE_KEEP & ~0xc0u) | m << 2;
		in.op_sel = op == 4 && m ? 0 : rnd() & 15;
		fill_regs(10, 1, rnd_f16);
		fill_regs(20, 1, rnd_f16);
		fill_regs(30, 1, rnd_f16);
		fill_regs(40, 1, rnd_f16);
		memcpy(old, vreg(0, 40), 128);
		if (op == 4)
			in.src[2] = in.dst;
		run(sem[op], &in);
		for (unsigned l = 0; l < 32; l++) {
			uint32_t a = h_flush(vreg(0, 10)[l] >> (in.op_sel & 1 ? 16 : 0), keep);
			uint32_t b = h_flush(vreg(0, 20)[l] >> (in.op_sel & 2 ? 16 : 0), keep);
			uint32_t c = h_flush(vreg(0, 30)[l] >> (in.op_sel & 4 ? 16 : 0), keep);
			uint32_t d = h_flush(old[l] >> (in.op_sel & 8 ? 16 : 0), keep);
			uint32_t got = vreg(0, 40)[l] >> (in.op_sel & 8 ? 16 : 0), want, other;

			want = op == 0   ? h_fma(a, b, c, m)
			       : op == 1 ? h_fma(a, H_ONE, b, m)
			       : op == 2 ? h_fma(a, H_ONE, b ^ 0x8000, m)
			       : op == 3 ? h_fma(a, b, (a ^ b) & 0x8000, m)
					 : h_fma(a, b, d, m);
			want = h_flush(want, keep);
			cr_assert(same_f16(got, want),
				  "op %u mode %#x (%#x, %#x, %#x): %#x, not %#x", op, W->mode, a, b,
				  op == 4 ? d : c, got & 0xffff, want);
			other = in.op_sel & 8 ? 0xffff : 0xffff0000;
			cr_assert_eq(vreg(0, 40)[l] & other, old[l] & other);
		}
	}
}

/* ---- packed --------------------------------------------------------------------------------- */

extern isa_sem sem_V_PK_FMA_F16, sem_V_PK_ADD_F16, sem_V_PK_MUL_F16, sem_V_PK_ADD_U16,
	sem_V_PK_MAD_I16, sem_V_PK_LSHLREV_B16, sem_V_PK_ASHRREV_I16, sem_V_PK_SUB_I16,
	sem_V_PK_MAX_I16, sem_V_PK_MIN_U16, sem_V_PK_FMAC_F16;

static uint32_t half_of(uint32_t v, unsigned hi)
{
	return v >> (hi ? 16 : 0) & 0xffff;
}

Test(valu_pk, packed_f16)
{
	isa_sem *const sem[] = {sem_V_PK_FMA_F16, sem_V_PK_ADD_F16, sem_V_PK_MUL_F16};

	setup_wave(false);
	for (unsigned pass = 0; pass < 1500; pass++) {
		struct isa_insn in = vop(40);
		unsigned op = pass % 3, m = pass % 4;

		W->mode = MODE_KEEP | m << 2;
		in.op_sel = rnd() & 7;
		in.op_sel_hi = rnd() & 7;
		in.neg = pass & 8 ? rnd() & 7 : 0;
		in.neg_hi = pass & 8 ? rnd() & 7 : 0;
		for (unsigned r = 10; r <= 30; r += 10)
			fill_regs(r, 1, rnd_f16);
		run(sem[op], &in);
		for (unsigned l = 0; l < 32; l++)
			for (unsigned h = 0; h < 2; h++) {
				uint32_t s[3], want;

				for (unsigned i = 0; i < 3; i++) {
					s[i] = half_of(vreg(0, 10 + 10 * i)[l],
						       (h ? in.op_sel_hi : in.op_sel) >> i & 1);
					if ((h ? in.neg_hi : in.neg) >> i & 1)
						s[i] ^= 0x8000;
				}
				want = op == 0   ? h_fma(s[0], s[1], s[2], m)
				       : op == 1 ? h_fma(s[0], H_ONE, s[1], m)
						 : h_fma(s[0], s[1], (s[0] ^ s[1]) & 0x8000, m);
				cr_assert(same_f16(half_of(vreg(0, 40)[l], h), want),
					  "op %u half %u (%#x, %#x, %#x): %#x, not %#x", op, h,
					  s[0], s[1], s[2], half_of(vreg(0, 40)[l], h), want);
			}
	}
}

/* The VOP2 has no op_sel: low with low, high with high, whatever the fields hold. */
Test(valu_pk, packed_fmac)
{
	struct isa_insn in = vop(30);

	setup_wave(false);
	for (unsigned r = 10; r <= 30; r += 10)
		fill_regs(r, 1, rnd_f16);
	uint32_t old[32];
	memcpy(old, vreg(0, 30), 128);
	run(sem_V_PK_FMAC_F16, &in);
	for (unsigned l = 0; l < 32; l++)
		for (unsigned h = 0; h < 2; h++)
			cr_assert(
				same_f16(half_of(vreg(0, 30)[l], h),
					 h_fma(half_of(vreg(0, 10)[l], h),
					       half_of(vreg(0, 20)[l], h), half_of(old[l], h), 0)));
	/* a float constant in both halves, an integer as it is */
	static const struct {
		uint16_t code, half[2];
	} c[] = {{240, {0x3800, 0x3800}},
		 {243, {0xbc00, 0xbc00}},
		 {248, {0x3118, 0x3118}},
		 {129, {1, 0}}};

	for (unsigned k = 0; k < 4; k++) {
		in.src[0] = c[k].code;
		memcpy(vreg(0, 30), old, 128);
		run(sem_V_PK_FMAC_F16, &in);
		for (unsigned l = 0; l < 32; l++)
			for (unsigned h = 0; h < 2; h++)
				cr_assert(same_f16(half_of(vreg(0, 30)[l], h),
						   h_fma(c[k].half[h], half_of(vreg(0, 20)[l], h),
							 half_of(old[l], h), 0)),
					  "constant %u", c[k].code);
	}
}

static int32_t s16(uint32_t v)
{
	return (int16_t)v;
}

static uint32_t clamp_s16(int32_t v)
{
	return (uint32_t)(v > 32767 ? 32767 : v < -32768 ? -32768 : v) & 0xffff;
}

static uint32_t pk_ref(unsigned op, uint32_t a, uint32_t b, uint32_t c, bool clamp)
{
	switch (op) {
	case 0:
		return clamp && a + b > 0xffff ? 0xffff : (a + b) & 0xffff;
	case 1:
		return clamp ? clamp_s16(s16(a) * s16(b) + s16(c)) : (a * b + c) & 0xffff;
	case 2:
		return b << (a & 15) & 0xffff;
	case 3:
		return (uint32_t)(s16(b) >> (a & 15)) & 0xffff;
	case 4:
		return clamp ? clamp_s16(s16(a) - s16(b)) : (a - b) & 0xffff;
	case 5:
		return s16(a) > s16(b) ? a : b;
	}
	return a < b ? a : b;
}

Test(valu_pk, packed_integers)
{
	isa_sem *const sem[] = {sem_V_PK_ADD_U16,     sem_V_PK_MAD_I16, sem_V_PK_LSHLREV_B16,
				sem_V_PK_ASHRREV_I16, sem_V_PK_SUB_I16, sem_V_PK_MAX_I16,
				sem_V_PK_MIN_U16};

	setup_wave(false);
	for (unsigned pass = 0; pass < 700; pass++) {
		struct isa_insn in = vop(40);
		unsigned op = pass % 7;

		in.op_sel = rnd() & 7;
		in.op_sel_hi = rnd() & 7;
		in.clamp = op < 2 || op == 4 ? rnd() & 1 : 0;
		for (unsigned r = 10; r <= 30; r += 10)
			fill_regs(r, 1, rnd_int);
		run(sem[op], &in);
		for (unsigned l = 0; l < 32; l++)
			for (unsigned h = 0; h < 2; h++) {
				unsigned sel = h ? in.op_sel_hi : in.op_sel;
				uint32_t want =
					pk_ref(op, half_of(vreg(0, 10)[l], sel & 1),
					       half_of(vreg(0, 20)[l], sel >> 1 & 1),
					       half_of(vreg(0, 30)[l], sel >> 2 & 1), in.clamp);

				cr_assert_eq(half_of(vreg(0, 40)[l], h), want, "op %u clamp %d", op,
					     in.clamp);
			}
	}
}

/* Inline floats: f16 with an empty high half for f16 ops, the f32 pattern for integer ones. */
Test(valu_pk, packed_constants)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	vreg(0, 10)[0] = 0x44004200;
	in.src[1] = 244; /* 2.0 */
	in.op_sel_hi = 7;
	run(sem_V_PK_MUL_F16, &in);
	cr_assert_eq(vreg(0, 40)[0], 0x00004600u);
	in.op_sel_hi = 5;
	run(sem_V_PK_MUL_F16, &in);
	cr_assert_eq(vreg(0, 40)[0], 0x48004600u);
	in.op_sel_hi = 7;
	vreg(0, 10)[0] = 0x00030005;
	run(sem_V_PK_ADD_U16, &in);
	cr_assert_eq(vreg(0, 40)[0], 0x40030005u);
}

/* ---- mixed precision ------------------------------------------------------------------------ */

extern isa_sem sem_V_FMA_MIX_F32, sem_V_FMA_MIXLO_F16, sem_V_FMA_MIXHI_F16, sem_V_DOT2_F32_F16,
	sem_V_DOT2_F32_BF16, sem_V_CVT_F32_F16;

static float h_float(uint32_t h)
{
	uint32_t s = (h & 0x8000) << 16;

	if (h_nan(h))
		return f32(s | 0x7fc00000);
	if (h_inf(h))
		return f32(s | 0x7f800000);
	return copysignf((float)llabs(h_fixed(h)) * 0x1p-24f, f32(s | 0x3f800000));
}

Test(valu_pk, fma_mix)
{
	setup_wave(false);
	for (unsigned pass = 0; pass < 500; pass++) {
		struct isa_insn in = vop(40);
		uint32_t old[32];

		in.op_sel = rnd() & 7;
		in.op_sel_hi = rnd() & 7;
		in.neg = rnd() & 7;
		in.neg_hi = rnd() & 7; /* abs */
		for (unsigned i = 0; i < 3; i++)
			fill_regs(10 + 10 * i, 1, in.op_sel_hi >> i & 1 ? rnd_f16 : rnd_f32);
		fill_regs(40, 1, rnd);
		memcpy(old, vreg(0, 40), 128);
		run(pass & 1 ? sem_V_FMA_MIX_F32 : sem_V_FMA_MIXHI_F16, &in);
		for (unsigned l = 0; l < 32; l++) {
			float s[3], want;

			for (unsigned i = 0; i < 3; i++) {
				uint32_t v = vreg(0, 10 + 10 * i)[l];

				s[i] = in.op_sel_hi >> i & 1
					       ? h_float(half_of(v, in.op_sel >> i & 1))
					       : f32(v);
				if (in.neg_hi >> i & 1)
					s[i] = fabsf(s[i]);
				if (in.neg >> i & 1)
					s[i] = -s[i];
			}
			want = fmaf(s[0], s[1], s[2]);
			if (pass & 1) {
				cr_assert(same_f32(vreg(0, 40)[l], bits(want)));
				continue;
			}
			cr_assert_eq(vreg(0, 40)[l] & 0xffff, old[l] & 0xffff);
			if (want != want)
				cr_assert(h_nan(vreg(0, 40)[l] >> 16));
			else if (fabsf(want) < 0x1p17f) /* fixed point reaches that far */
				cr_assert_eq(vreg(0, 40)[l] >> 16,
					     h_round((__int128)((double)want * 0x1p48), 0,
						     bits(want) >> 16 & 0x8000) |
						     (bits(want) >> 16 & 0x8000));
		}
	}
}

Test(valu_pk, dot2)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	/* Small integers: exact in any order. */
	for (unsigned l = 0; l < 32; l++) {
		vreg(0, 10)[l] = 0x40003c00; /* (1, 2) */
		vreg(0, 20)[l] = 0x44004200; /* (3, 4) */
		vreg(0, 30)[l] = bits((float)l);
		vreg(0, 11)[l] = 0x40003f80; /* bf16 (1, 2) */
		vreg(0, 21)[l] = 0x40804040; /* (3, 4) */
	}
	in.op_sel_hi = 7;
	run(sem_V_DOT2_F32_F16, &in);
	for (unsigned l = 0; l < 32; l++)
		cr_assert_eq(f32(vreg(0, 40)[l]), 11.0f + (float)l);
	in.neg = 1; /* low product */
	run(sem_V_DOT2_F32_F16, &in);
	cr_assert_eq(f32(vreg(0, 40)[3]), -3.0f + 8.0f + 3.0f);
	in.neg = 0;
	in.op_sel = 1; /* low product takes a's high half */
	run(sem_V_DOT2_F32_F16, &in);
	cr_assert_eq(f32(vreg(0, 40)[0]), 6.0f + 8.0f);
	in.op_sel = 0;
	in.src[0] = OPR_VGPR0 + 11;
	in.src[1] = OPR_VGPR0 + 21;
	run(sem_V_DOT2_F32_BF16, &in);
	for (unsigned l = 0; l < 32; l++)
		cr_assert_eq(f32(vreg(0, 40)[l]), 11.0f + (float)l);
}

/* ---- matrices ----------------------------------------------------------------------------------
 */

extern isa_sem sem_V_WMMA_F32_16X16X16_F16, sem_V_WMMA_F32_16X16X16_BF16,
	sem_V_WMMA_F16_16X16X16_F16, sem_V_WMMA_BF16_16X16X16_BF16, sem_V_WMMA_I32_16X16X16_IU8,
	sem_V_WMMA_I32_16X16X16_IU4;

/* The inverse of the manual's layout tables: register and lane of an element. */
static void put_ab(unsigned base, unsigned lane, unsigned k, unsigned bits_each, uint32_t v)
{
	unsigned per = 32 / bits_each, shift = k % per * bits_each;
	uint32_t mask = (bits_each == 16 ? 0xffffu : (1u << bits_each) - 1) << shift;

	for (unsigned copy = 0; copy < 4; copy++) {
		uint32_t *p = &vreg(copy / 2, base + k / per)[lane + copy % 2 * 16];

		*p = (*p & ~mask) | (v << shift & mask);
	}
}

static uint32_t *at_cd(unsigned base, unsigned row, unsigned col)
{
	if (W->wave64)
		return &vreg(row % 4 / 2, base + row / 4)[row % 2 * 16 + col];
	return &vreg(0, base + row / 2)[row % 2 * 16 + col];
}

static int small(void)
{
	return (int)(rnd() % 17) - 8;
}

static uint32_t to_half(int v)
{
	return h_round((__int128)v * ((__int128)1 << 48), 0, 0);
}

static uint32_t to_bf(int v)
{
	return bits((float)v) >> 16; /* small integers fit */
}

/* Small integers, so that every order of summation gives the same. */
Test(valu_pk, wmma_float)
{
	for (unsigned t = 0; t < 64; t++) {
		struct isa_insn in = vop(40);
		int a[16][16], b[16][16], c[16][16];
		bool bf = t & 1, out16 = t & 2, hi = t & 8, inline_c = t & 16, neg = t & 32;
		unsigned shift = hi ? 16 : 0;

		setup_wave(t & 4);
		W->exec = t & 16 ? 0 : ~0ull; /* of no consequence */
		for (unsigned i = 0; i < 16; i++)
			for (unsigned k = 0; k < 16; k++) {
				a[i][k] = small();
				b[k][i] = small();
				c[i][k] = inline_c ? -4 : small();
			}
		for (unsigned i = 0; i < 16; i++)
			for (unsigned k = 0; k < 16; k++) {
				put_ab(10, i, k, 16, bf ? to_bf(a[i][k]) : to_half(a[i][k]));
				put_ab(20, i, k, 16, bf ? to_bf(b[k][i]) : to_half(b[k][i]));
				*at_cd(30, i, k) = !out16 ? bits((float)c[i][k])
							  : (bf ? to_bf(c[i][k]) : to_half(c[i][k]))
									    << shift |
								    0x5555u << (16 - shift);
				*at_cd(40, i, k) = 0x12345678;
			}
		in.op_sel = out16 && hi ? 4 : 0;
		in.op_sel_hi = 7;
		if (inline_c)
			in.src[2] = 247; /* -4.0 */
		if (neg) {
			in.neg = 1 | 4;
			in.neg_hi = 1;
		}
		run_once(out16 ? (bf ? sem_V_WMMA_BF16_16X16X16_BF16 : sem_V_WMMA_F16_16X16X16_F16)
			       : (bf ? sem_V_WMMA_F32_16X16X16_BF16 : sem_V_WMMA_F32_16X16X16_F16),
			 &in);
		for (unsigned i = 0; i < 16; i++)
			for (unsigned j = 0; j < 16; j++) {
				uint32_t got = *at_cd(40, i, j), u;
				int sum = 0;

				for (unsigned k = 0; k < 16; k++)
					sum += a[i][k] * b[k][j];
				sum = neg ? -sum - c[i][j] : sum + c[i][j];
				if (!out16) {
					cr_assert_eq(f32(got), (float)sum, "t %u [%u][%u]", t, i,
						     j);
					continue;
				}
				u = bits((float)sum);
				cr_assert_eq(half_of(got, hi),
					     bf ? (u + 0x7fff + (u >> 16 & 1)) >> 16
						: to_half(sum));
				cr_assert_eq(half_of(got, !hi), hi ? 0x5678u : 0x1234u);
			}
	}
}

/* Signed and unsigned on either side, both widths, both wave sizes, saturation, constant C. */
Test(valu_pk, wmma_integer)
{
	for (unsigned t = 0; t < 128; t++) {
		struct isa_insn in = vop(40);
		unsigned w = t & 1 ? 4 : 8, sa = t >> 1 & 1, sb = t >> 2 & 1;
		bool clamp = t & 8, inline_c = t & 32;
		uint32_t a[16][16], b[16][16];

		setup_wave(t & 16);
		for (unsigned i = 0; i < 16; i++)
			for (unsigned k = 0; k < 16; k++) {
				put_ab(10, i, k, w, a[i][k] = rnd() & ((1u << w) - 1));
				put_ab(20, i, k, w, b[k][i] = rnd() & ((1u << w) - 1));
				*at_cd(30, i, k) = rnd_int();
			}
		in.neg = (uint8_t)(sa | sb << 1);
		in.clamp = clamp;
		if (inline_c)
			in.src[2] = 193 + 15; /* -16 */
		run_once(w == 4 ? sem_V_WMMA_I32_16X16X16_IU4 : sem_V_WMMA_I32_16X16X16_IU8, &in);
		for (unsigned i = 0; i < 16; i++)
			for (unsigned j = 0; j < 16; j++) {
				int64_t sum = inline_c ? -16 : (int32_t)*at_cd(30, i, j);

				for (unsigned k = 0; k < 16; k++) {
					int p = (int)a[i][k], q = (int)b[k][j];

					p -= sa && p >> (w - 1) ? 1 << w : 0;
					q -= sb && q >> (w - 1) ? 1 << w : 0;
					sum += p * q;
				}
				if (clamp)
					sum = sum > INT32_MAX   ? INT32_MAX
					      : sum < INT32_MIN ? INT32_MIN
								: sum;
				cr_assert_eq(*at_cd(40, i, j), (uint32_t)sum, "t %u", t);
			}
	}
}

/* ---- transcendentals
 * -------------------------------------------------------------------------------- */

extern isa_sem sem_V_EXP_F32, sem_V_LOG_F32, sem_V_RCP_F32, sem_V_RSQ_F32, sem_V_SQRT_F32,
	sem_V_SIN_F32, sem_V_COS_F32, sem_V_EXP_F16, sem_V_RCP_F16, sem_V_SIN_F16, sem_V_RSQ_F64,
	sem_V_LOG_F16, sem_V_RSQ_F16, sem_V_COS_F16, sem_V_SQRT_F16;

static double m_exp(double a)
{
	return exp2(a);
}

static double m_log(double a)
{
	return log2(a);
}

static double m_rcp(double a)
{
	return 1 / a;
}

static double m_rsq(double a)
{
	return 1 / sqrt(a);
}

static double m_sqrt(double a)
{
	return sqrt(a);
}

static double m_sin(double a)
{
	return isinf(a) ? NAN : sin(6.283185307179586476925 * (a - nearbyint(a)));
}

static double m_cos(double a)
{
	return isinf(a) ? NAN : cos(6.283185307179586476925 * (a - nearbyint(a)));
}

static double ulp32(double v)
{
	int e;

	frexp(v, &e);
	return ldexp(1, (e < -125 ? -125 : e) - 24);
}

Test(valu_pk, transcendentals)
{
	static const struct {
		const char *name;
		isa_sem *sem;
		double (*ref)(double a);
		double abs; /* near zeros of the function, where the reference itself is not exact
			     */
	} f[] = {
		{"exp", sem_V_EXP_F32, m_exp, 0},     {"log", sem_V_LOG_F32, m_log, 0},
		{"rcp", sem_V_RCP_F32, m_rcp, 0},     {"rsq", sem_V_RSQ_F32, m_rsq, 0},
		{"sqrt", sem_V_SQRT_F32, m_sqrt, 0},  {"sin", sem_V_SIN_F32, m_sin, 1e-15},
		{"cos", sem_V_COS_F32, m_cos, 1e-15},
	};
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned t = 0; t < sizeof(f) / sizeof(*f) * 300; t++) {
		unsigned k = t / 300;
		uint64_t count = X.approximated;

		fill_regs(10, 1, rnd_f32);
		W->mode = t & 1 ? MODE_KEEP : MODE_FLUSH;
		run(f[k].sem, &in);
		cr_assert_eq(X.approximated, count + 1);
		for (unsigned l = 0; l < 32; l++) {
			float a = f32(vreg(0, 10)[l]), got = f32(vreg(0, 40)[l]);
			/* The f32 forms flush on both sides in either mode, but sin and cos obey it. */
			bool flushes = k < 5 || !(t & 1);
			double want =
				f[k].ref(flushes && fabsf(a) < 0x1p-126f ? copysignf(0, a) : a);

			if (want != want) {
				cr_assert(got != got, "%s(%a): %a", f[k].name, a, got);
			} else if (fabs(want) >= 0x1p128) {
				cr_assert_eq(got, copysign(INFINITY, want));
			} else if (flushes && fabs(want) < 0x1p-126 * (1 - 0x1p-24)) {
				cr_assert_eq(got, 0.0f, "%s(%a): %a", f[k].name, a, got);
			} else {
				cr_assert(fabs(got - want) <= 0.51 * ulp32(want) + f[k].abs,
					  "%s(%a): %a, not %a", f[k].name, a, got, want);
			}
		}
	}
}

Test(valu_pk, transcendentals_f16)
{
	static const struct {
		isa_sem *sem;
		double (*ref)(double a);
	} f[] = {{sem_V_EXP_F16, m_exp},  {sem_V_RCP_F16, m_rcp}, {sem_V_SIN_F16, m_sin},
		 {sem_V_LOG_F16, m_log},  {sem_V_RSQ_F16, m_rsq}, {sem_V_COS_F16, m_cos},
		 {sem_V_SQRT_F16, m_sqrt}};
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned k = 0; k < sizeof(f) / sizeof(*f); k++)
		for (unsigned h = 0; h < 65536; h += 32) {
			for (unsigned l = 0; l < 32; l++)
				vreg(0, 10)[l] = h + l;
			run(f[k].sem, &in);
			for (unsigned l = 0; l < 32; l++) {
				double want = f[k].ref(h_float(h + l));
				uint32_t got = vreg(0, 40)[l] & 0xffff;

				if (want != want)
					cr_assert(h_nan(got));
				else if (fabs(want) >= 65520)
					cr_assert_eq(got & 0x7fff, 0x7c00u);
				else
					cr_assert(
						fabs(h_float(got) - want) <=
							0.51 * fmax(ldexp(1, ilogb(fmax(fabs(want),
											0x1p-30)) -
										     10),
								    0x1p-24),
						"%u of %#x: %#x, not %a", k, h + l, got, want);
			}
		}
}
