/* Vector integer, float and conversion semantics against scalar C, lane by lane. */
#include "valu_wave.h"

TestSuite(valu);

/* ---- integers: name, sources, expected value of lane (a, b, c) ------------------------- */

static uint32_t sat_s32(int64_t v)
{
	return (uint32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

static int32_t s24(uint32_t a)
{
	return (int32_t)(a << 8) >> 8;
}

static uint32_t ref_bfe_i32(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t off = b & 31, n = c & 31, r = 0;
	uint32_t t = (uint32_t)((int32_t)a >> off);

	if (!n)
		return 0;
	for (unsigned i = 0; i < 32; i++)
		r |= (t >> (i < n ? i : n - 1) & 1) << i;
	return r;
}

static uint32_t ref_perm(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t d = (uint64_t)a << 32 | b;
	uint32_t r = 0;

	for (unsigned k = 0; k < 4; k++) {
		unsigned s = c >> 8 * k & 0xff;
		unsigned v = s >= 13   ? 0xff
			     : s == 12 ? 0
			     : s >= 8  ? (d >> (16 * (s - 8) + 15) & 1 ? 0xff : 0)
				       : d >> 8 * s & 0xff;

		r |= v << 8 * k;
	}
	return r;
}

static uint32_t ref_sad(uint32_t a, uint32_t b, bool masked)
{
	uint32_t r = 0;

	for (unsigned k = 0; k < 32; k += 8) {
		int p = a >> k & 255, q = b >> k & 255;

		if (!masked || q)
			r += (uint32_t)abs(p - q);
	}
	return r;
}

static uint32_t ref_lerp(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t r = 0;

	for (unsigned k = 0; k < 32; k += 8)
		r |= ((a >> k & 255) + (b >> k & 255) + (c >> k & 1)) / 2 << k;
	return r;
}

static uint32_t ref_rev(uint32_t a)
{
	uint32_t r = 0;

	for (unsigned i = 0; i < 32; i++)
		r |= (a >> i & 1) << (31 - i);
	return r;
}

static uint32_t ref_cls(uint32_t a)
{
	for (unsigned i = 1; i < 32; i++)
		if ((a >> (31 - i) & 1) != a >> 31)
			return i;
	return ~0u;
}

static uint32_t med(int64_t a, int64_t b, int64_t c)
{
	int64_t lo = a < b ? a : b, hi = a < b ? b : a;

	return (uint32_t)(c < lo ? lo : c > hi ? hi : c);
}

static uint32_t ref_dot4(uint32_t a, uint32_t b, bool sa, bool sb)
{
	int32_t r = 0;

	for (unsigned k = 0; k < 32; k += 8)
		r += (sa ? (int8_t)(a >> k) : (int)(a >> k & 255)) *
		     (sb ? (int8_t)(b >> k) : (int)(b >> k & 255));
	return (uint32_t)r;
}

static uint32_t ref_dot8(uint32_t a, uint32_t b, bool sa, bool sb)
{
	int32_t r = 0;

	for (unsigned k = 0; k < 32; k += 4) {
		int p = a >> k & 15, q = b >> k & 15;

		r += (sa && p > 7 ? p - 16 : p) * (sb && q > 7 ? q - 16 : q);
	}
	return (uint32_t)r;
}

#define SA(v) ((int32_t)(v))
#define INT_OPS(I)                                                                                 \
	I(V_MOV_B32, a)                                                                            \
	I(V_NOT_B32, ~a)                                                                           \
	I(V_BFREV_B32, ref_rev(a))                                                                 \
	I(V_AND_B32, a &b)                                                                         \
	I(V_OR_B32, a | b)                                                                         \
	I(V_XOR_B32, a ^ b)                                                                        \
	I(V_XNOR_B32, ~(a ^ b))                                                                    \
	I(V_XOR3_B32, a ^ b ^ c)                                                                   \
	I(V_OR3_B32, a | b | c)                                                                    \
	I(V_AND_OR_B32, (a & b) | c)                                                               \
	I(V_LSHL_OR_B32, a << (b & 31) | c)                                                        \
	I(V_BFI_B32, (a & b) | (~a & c))                                                           \
	I(V_BFM_B32, ((1u << (a & 31)) - 1) << (b & 31))                                           \
	I(V_LSHLREV_B32, b << (a & 31))                                                            \
	I(V_LSHRREV_B32, b >> (a & 31))                                                            \
	I(V_ASHRREV_I32, (uint32_t)(SA(b) >> (a & 31)))                                            \
	I(V_BCNT_U32_B32, (uint32_t)__builtin_popcount(a) + b)                                     \
	I(V_CLZ_I32_U32, a ? (uint32_t)__builtin_clz(a) : ~0u)                                     \
	I(V_CTZ_I32_B32, a ? (uint32_t)__builtin_ctz(a) : ~0u)                                     \
	I(V_CLS_I32, ref_cls(a))                                                                   \
	I(V_BFE_U32, a >> (b & 31) & ((1u << (c & 31)) - 1))                                       \
	I(V_BFE_I32, ref_bfe_i32(a, b, c))                                                         \
	I(V_ALIGNBIT_B32, (uint32_t)(((uint64_t)a << 32 | b) >> (c & 31)))                         \
	I(V_ALIGNBYTE_B32, (uint32_t)(((uint64_t)a << 32 | b) >> 8 * (c & 3)))                     \
	I(V_PERM_B32, ref_perm(a, b, c))                                                           \
	I(V_ADD_NC_U32, a + b)                                                                     \
	I(V_SUB_NC_U32, a - b)                                                                     \
	I(V_SUBREV_NC_U32, b - a)                                                                  \
	I(V_ADD_NC_I32, a + b)                                                                     \
	I(V_SUB_NC_I32, a - b)                                                                     \
	I(V_ADD3_U32, a + b + c)                                                                   \
	I(V_XAD_U32, (a ^ b) + c)                                                                  \
	I(V_LSHL_ADD_U32, (a << (b & 31)) + c)                                                     \
	I(V_ADD_LSHL_U32, (a + b) << (c & 31))                                                     \
	I(V_MIN_U32, a < b ? a : b)                                                                \
	I(V_MAX_U32, a > b ? a : b)                                                                \
	I(V_MIN_I32, SA(a) < SA(b) ? a : b)                                                        \
	I(V_MAX_I32, SA(a) > SA(b) ? a : b)                                                        \
	I(V_MED3_U32, med(a, b, c))                                                                \
	I(V_MED3_I32, med(SA(a), SA(b), SA(c)))                                                    \
	I(V_MUL_LO_U32, a *b)                                                                      \
	I(V_MUL_HI_U32, (uint32_t)((uint64_t)a * b >> 32))                                         \
	I(V_MUL_HI_I32, (uint32_t)((uint64_t)((int64_t)SA(a) * SA(b)) >> 32))                      \
	I(V_MUL_U32_U24, (a & 0xffffff) * (b & 0xffffff))                                          \
	I(V_MUL_HI_U32_U24, (uint32_t)((uint64_t)(a & 0xffffff) * (b & 0xffffff) >> 32))           \
	I(V_MUL_I32_I24, (uint32_t)((int64_t)s24(a) * s24(b)))                                     \
	I(V_MUL_HI_I32_I24, (uint32_t)((uint64_t)((int64_t)s24(a) * s24(b)) >> 32))                \
	I(V_MAD_U32_U24, (a & 0xffffff) * (b & 0xffffff) + c)                                      \
	I(V_MAD_I32_I24, (uint32_t)((int64_t)s24(a) * s24(b)) + c)                                 \
	I(V_SAD_U8, ref_sad(a, b, false) + c)                                                      \
	I(V_SAD_HI_U8, (ref_sad(a, b, false) << 16) + c)                                           \
	I(V_SAD_U32, (a > b ? a - b : b - a) + c)                                                  \
	I(V_MSAD_U8, ref_sad(a, b, true) + c)                                                      \
	I(V_LERP_U8, ref_lerp(a, b, c))                                                            \
	I(V_DOT4_U32_U8, ref_dot4(a, b, false, false) + c)                                         \
	I(V_DOT8_U32_U4, ref_dot8(a, b, false, false) + c)                                         \
	I(V_DOT4_I32_IU8, ref_dot4(a, b, false, false) + c)                                        \
	I(V_DOT8_I32_IU4, ref_dot8(a, b, false, false) + c)                                        \
	I(V_CVT_PK_U16_U32, (a > 65535 ? 65535 : a) | (b > 65535 ? 65535u : b) << 16)              \
	I(V_CVT_F32_I32, bits((float)SA(a)))                                                       \
	I(V_CVT_F32_U32, bits((float)a))                                                           \
	I(V_CVT_F32_UBYTE0, bits((float)(a & 255)))                                                \
	I(V_CVT_F32_UBYTE3, bits((float)(a >> 24)))

/* The same with the clamp bit. */
#define CLAMP_OPS(I)                                                                               \
	I(V_ADD_NC_U32, a + b < a ? ~0u : a + b)                                                   \
	I(V_SUB_NC_U32, a < b ? 0 : a - b)                                                         \
	I(V_SUBREV_NC_U32, b < a ? 0 : b - a)                                                      \
	I(V_ADD_NC_I32, sat_s32((int64_t)SA(a) + SA(b)))                                           \
	I(V_SUB_NC_I32, sat_s32((int64_t)SA(a) - SA(b)))                                           \
	I(V_MAD_I32_I24, sat_s32((int64_t)s24(a) * s24(b) + SA(c)))                                \
	I(V_DOT4_I32_IU8, sat_s32((int64_t)SA(ref_dot4(a, b, false, false)) + SA(c)))              \
	I(V_DOT8_I32_IU4, sat_s32((int64_t)SA(ref_dot8(a, b, false, false)) + SA(c)))

typedef uint32_t ref_fn(uint32_t a, uint32_t b, uint32_t c);

#define INT_REF(NAME, E)                                                                           \
	extern isa_sem sem_##NAME;                                                                 \
	static uint32_t ref_##NAME(uint32_t a, uint32_t b, uint32_t c)                             \
	{                                                                                          \
		(void)b;                                                                           \
		(void)c;                                                                           \
		return E;                                                                          \
	}
INT_OPS(INT_REF)
#define CLAMP_REF(NAME, E)                                                                         \
	static uint32_t clamped_##NAME(uint32_t a, uint32_t b, uint32_t c)                         \
	{                                                                                          \
		(void)c;                                                                           \
		return E;                                                                          \
	}
CLAMP_OPS(CLAMP_REF)

struct int_case {
	const char *name;
	isa_sem *sem;
	ref_fn *ref;
};

#define INT_ROW(NAME, E) {#NAME, sem_##NAME, ref_##NAME},
static const struct int_case int_cases[] = {INT_OPS(INT_ROW)};
#define CLAMP_ROW(NAME, E) {#NAME, sem_##NAME, clamped_##NAME},
static const struct int_case clamp_cases[] = {CLAMP_OPS(CLAMP_ROW)};

static void check_int(const struct int_case *c, bool clamp)
{
	struct isa_insn in = vop(40);

	in.clamp = clamp;
	for (unsigned pass = 0; pass < 8; pass++) {
		uint64_t exec = pass & 1 ? rnd() | (uint64_t)rnd() << 32 : ~0ull;

		fill_regs(10, 1, rnd_int);
		fill_regs(20, 1, rnd_int);
		fill_regs(30, 1, rnd_int);
		fill_regs(40, 1, rnd);
		uint32_t old[2][32];
		for (unsigned h = 0; h < 2; h++)
			memcpy(old[h], vreg(h, 40), 128);
		W->exec = exec;
		run(c->sem, &in);
		for (unsigned l = 0; l < 64; l++) {
			unsigned h = l / 32, i = l % 32;
			uint32_t a = vreg(h, 10)[i], b = vreg(h, 20)[i], d = vreg(h, 30)[i];
			uint32_t want = exec >> l & 1 ? c->ref(a, b, d) : old[h][i];

			cr_assert_eq(vreg(h, 40)[i], want,
				     "%s%s lane %u: (%#x, %#x, %#x): %#x, not %#x", c->name,
				     clamp ? " clamp" : "", l, a, b, d, vreg(h, 40)[i], want);
		}
	}
}

Test(valu, integers)
{
	setup_wave(true);
	for (unsigned i = 0; i < sizeof(int_cases) / sizeof(*int_cases); i++)
		check_int(&int_cases[i], false);
	for (unsigned i = 0; i < sizeof(clamp_cases) / sizeof(*clamp_cases); i++)
		check_int(&clamp_cases[i], true);
}

Test(valu, dot_signs)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	fill_regs(10, 1, rnd_int);
	fill_regs(20, 1, rnd_int);
	fill_regs(30, 1, rnd_int);
	for (unsigned neg = 0; neg < 4; neg++) {
		in.neg = (uint8_t)neg;
		for (unsigned four = 0; four < 2; four++) {
			run(four ? sem_V_DOT8_I32_IU4 : sem_V_DOT4_I32_IU8, &in);
			for (unsigned l = 0; l < 32; l++) {
				uint32_t a = vreg(0, 10)[l], b = vreg(0, 20)[l];
				uint32_t p = (four ? ref_dot8 : ref_dot4)(a, b, neg & 1, neg & 2);

				cr_assert_eq(vreg(0, 40)[l], p + vreg(0, 30)[l]);
			}
		}
	}
}

/* ---- carries --------------------------------------------------------------------------- */

extern isa_sem sem_V_ADD_CO_U32, sem_V_ADD_CO_CI_U32, sem_V_SUB_CO_U32, sem_V_SUB_CO_CI_U32,
	sem_V_SUBREV_CO_CI_U32, sem_V_MAD_U64_U32, sem_V_MAD_I64_I32;

/* 96-bit sums and differences over a wave64, carries in SGPR pairs, some lanes inactive. */
Test(valu, carry_chains)
{
	for (unsigned sub = 0; sub < 2; sub++) {
		uint64_t exec = 0xfedcba9876543210ull;

		setup_wave(true);
		W->exec = exec;
		W->s[6] = W->s[7] = ~0u;
		fill_regs(10, 3, rnd_int);
		fill_regs(20, 3, rnd_int);
		for (unsigned k = 0; k < 3; k++) {
			struct isa_insn in = vop(40 + k);

			in.src[0] = (uint16_t)(OPR_VGPR0 + 10 + k);
			in.src[1] = (uint16_t)(OPR_VGPR0 + 20 + k);
			in.src[2] = k ? 6 : OPR_NONE;
			in.sdst = 6;
			run(k ? (sub ? sem_V_SUB_CO_CI_U32 : sem_V_ADD_CO_CI_U32)
			      : (sub ? sem_V_SUB_CO_U32 : sem_V_ADD_CO_U32),
			    &in);
		}
		for (unsigned l = 0; l < 64; l++) {
			unsigned h = l / 32, i = l % 32;
			unsigned __int128 a = 0, b = 0, r;
			uint32_t got = W->s[6 + h] >> i & 1;

			for (unsigned k = 0; k < 3; k++) {
				a |= (unsigned __int128)vreg(h, 10 + k)[i] << 32 * k;
				b |= (unsigned __int128)vreg(h, 20 + k)[i] << 32 * k;
			}
			r = sub ? a - b : a + b;
			if (!(exec >> l & 1)) {
				cr_assert_eq(got, 0, "inactive lanes carry nothing");
				continue;
			}
			for (unsigned k = 0; k < 3; k++)
				cr_assert_eq(vreg(h, 40 + k)[i], (uint32_t)(r >> 32 * k));
			cr_assert_eq(got, (uint32_t)(r >> 96) & 1);
		}
	}
}

Test(valu, mad64)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	in.sdst = OPR_VCC_LO;
	for (unsigned pass = 0; pass < 50; pass++) {
		fill_regs(10, 1, rnd_int);
		fill_regs(20, 1, rnd_int);
		fill_regs(30, 2, rnd_int);
		for (unsigned sign = 0; sign < 2; sign++) {
			run(sign ? sem_V_MAD_I64_I32 : sem_V_MAD_U64_U32, &in);
			for (unsigned l = 0; l < 32; l++) {
				uint64_t c = vreg(0, 30)[l] | (uint64_t)vreg(0, 31)[l] << 32;
				uint32_t a = vreg(0, 10)[l], b = vreg(0, 20)[l];
				unsigned __int128 r =
					sign ? (unsigned __int128)((__int128)SA(a) * SA(b) +
								   (__int128)(int64_t)c)
					     : (unsigned __int128)((uint64_t)a * b) + c;

				cr_assert_eq(vreg(0, 40)[l], (uint32_t)r);
				cr_assert_eq(vreg(0, 41)[l], (uint32_t)(r >> 32));
				cr_assert_eq(W->s[OPR_VCC_LO] >> l & 1, (uint32_t)(r >> 64) & 1);
			}
		}
	}
}

extern isa_sem sem_V_LSHLREV_B64, sem_V_LSHRREV_B64, sem_V_ASHRREV_I64;

Test(valu, shift64)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	fill_regs(10, 1, rnd_int);
	fill_regs(20, 2, rnd_int);
	for (unsigned k = 0; k < 3; k++) {
		run(k == 0   ? sem_V_LSHLREV_B64
		    : k == 1 ? sem_V_LSHRREV_B64
			     : sem_V_ASHRREV_I64,
		    &in);
		for (unsigned l = 0; l < 32; l++) {
			uint64_t b = vreg(0, 20)[l] | (uint64_t)vreg(0, 21)[l] << 32;
			unsigned n = vreg(0, 10)[l] & 63;
			uint64_t want = k == 0   ? b << n
					: k == 1 ? b >> n
						 : (uint64_t)((int64_t)b >> n);

			cr_assert_eq(vreg(0, 40)[l] | (uint64_t)vreg(0, 41)[l] << 32, want);
		}
	}
}

/* ---- f32 --------------------------------------------------------------------------------- */

static float fl(float a, bool keep)
{
	return !keep && fabsf(a) < 0x1p-126f ? copysignf(0, a) : a;
}

static float ref_max(float a, float b, bool min)
{
	/* MODE.ieee set: a signalling NaN comes out quiet. */
	if (nan32(bits(a)) && !(bits(a) & 0x400000))
		return NAN;
	if (nan32(bits(b)) && !(bits(b) & 0x400000))
		return NAN;
	if (b != b)
		return a;
	if (a != a)
		return b;
	if (a == b)
		return (signbit(a) != 0) == min ? a : b;
	return (a < b) == min ? a : b;
}

static float ref_med(float a, float b, float c)
{
	if (a != a || b != b || c != c)
		return ref_max(ref_max(a, b, true), c, true);
	/* the larger of what is left when the first maximum is gone; zeros are equal there */
	if (ref_max(ref_max(a, b, false), c, false) == a)
		return ref_max(b, c, false);
	if (ref_max(ref_max(a, b, false), c, false) == b)
		return ref_max(a, c, false);
	return ref_max(a, b, false);
}

static float ref_fract(float a)
{
	float r = a - floorf(a);

	return r >= 1.0f ? 0x1.fffffep-1f : r;
}

#define F32_OPS(I)                                                                                 \
	I(V_ADD_F32, a + b)                                                                        \
	I(V_SUB_F32, a - b)                                                                        \
	I(V_SUBREV_F32, b - a)                                                                     \
	I(V_MUL_F32, a *b)                                                                         \
	I(V_FMA_F32, fmaf(a, b, c))                                                                \
	I(V_MIN_F32, ref_max(a, b, true))                                                          \
	I(V_MAX_F32, ref_max(a, b, false))                                                         \
	I(V_MIN3_F32, ref_max(ref_max(a, b, true), c, true))                                       \
	I(V_MAX3_F32, ref_max(ref_max(a, b, false), c, false))                                     \
	I(V_MED3_F32, ref_med(a, b, c))                                                            \
	I(V_MAXMIN_F32, ref_max(ref_max(a, b, false), c, true))                                    \
	I(V_MUL_DX9_ZERO_F32, a == 0 || b == 0 ? 0.0f : a * b)                                     \
	I(V_FMA_DX9_ZERO_F32, a == 0 || b == 0 ? c : fmaf(a, b, c))                                \
	I(V_FLOOR_F32, floorf(a))                                                                  \
	I(V_CEIL_F32, ceilf(a))                                                                    \
	I(V_TRUNC_F32, truncf(a))                                                                  \
	I(V_RNDNE_F32, nearbyintf(a))                                                              \
	I(V_FRACT_F32, ref_fract(a))                                                               \
	I(V_FREXP_MANT_F32, isfinite(a) ? frexpf(a, &e) : a)

#define F32_REF(NAME, E)                                                                           \
	extern isa_sem sem_##NAME;                                                                 \
	static float fref_##NAME(float a, float b, float c)                                        \
	{                                                                                          \
		int e;                                                                             \
                                                                                                   \
		(void)b;                                                                           \
		(void)c;                                                                           \
		(void)e;                                                                           \
		return E;                                                                          \
	}
F32_OPS(F32_REF)

static const struct f32_case {
	const char *name;
	isa_sem *sem;
	float (*ref)(float a, float b, float c);
} f32_cases[] = {
#define F32_ROW(NAME, E) {#NAME, sem_##NAME, fref_##NAME},
	F32_OPS(F32_ROW)};

/* Both denormal modes, with and without signs on the operands. */
Test(valu, floats)
{
	setup_wave(false);
	for (unsigned t = 0; t < sizeof(f32_cases) / sizeof(*f32_cases) * 60; t++) {
		const struct f32_case *c = &f32_cases[t / 60];
		struct isa_insn in = vop(40);
		bool keep = t & 1;

		W->mode = keep ? MODE_KEEP : MODE_FLUSH;
		in.neg = t % 5 == 0 ? rnd() & 7 : 0;
		in.abs = t % 7 == 0 ? rnd() & 7 : 0;
		for (unsigned r = 10; r <= 30; r += 10)
			fill_regs(r, 1, rnd_f32);
		run(c->sem, &in);
		for (unsigned l = 0; l < 32; l++) {
			float s[3];
			uint32_t want;

			for (unsigned i = 0; i < 3; i++) {
				uint32_t u = vreg(0, 10 + 10 * i)[l];

				u &= in.abs >> i & 1 ? 0x7fffffff : ~0u;
				u ^= (uint32_t)(in.neg >> i & 1) << 31;
				s[i] = fl(f32(u), keep);
			}
			want = bits(fl(c->ref(s[0], s[1], s[2]), keep));
			cr_assert(same_f32(vreg(0, 40)[l], want),
				  "%s mode %#x neg %u abs %u (%#x, %#x, %#x): %#x, not %#x",
				  c->name, W->mode, in.neg, in.abs, bits(s[0]), bits(s[1]),
				  bits(s[2]), vreg(0, 40)[l], want);
		}
	}
}

Test(valu, nan_rules_follow_ieee_bit)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	vreg(0, 10)[0] = 0x7fa00001; /* signalling */
	vreg(0, 20)[0] = bits(3.0f);
	vreg(0, 10)[1] = 0x7fc00000;
	vreg(0, 20)[1] = bits(3.0f);
	run(sem_V_MAX_F32, &in);
	cr_assert_eq(vreg(0, 40)[0], 0x7fe00001);
	cr_assert_eq(vreg(0, 40)[1], bits(3.0f));
	W->mode &= ~0x200u;
	run(sem_V_MAX_F32, &in);
	cr_assert_eq(vreg(0, 40)[0], bits(3.0f));
}

/* Directed rounding, by the neighbours of the exact value. */
extern isa_sem sem_V_ADD_F64, sem_V_CVT_F16_F32, sem_V_ADD_F16;

Test(valu, rounding_modes)
{
	static const float up[4] = {1.0f, 0x1.000002p0f, 1.0f, 1.0f};
	static const float down[4] = {1.0f, 1.0f, 0x1.fffffep-1f, 0x1.fffffep-1f};
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned m = 0; m < 4; m++) {
		W->mode = MODE_KEEP | m;
		for (unsigned l = 0; l < 32; l++) {
			vreg(0, 10)[l] = bits(1.0f);
			vreg(0, 20)[l] = bits(l & 1 ? -0x1p-40f : 0x1p-40f);
		}
		run(sem_V_ADD_F32, &in);
		cr_assert_eq(vreg(0, 40)[0], bits(up[m]), "mode %u", m);
		cr_assert_eq(vreg(0, 40)[1], bits(down[m]), "mode %u", m);
		/* The f64/f16 field leaves f32 alone and the other way round. */
		W->mode = MODE_KEEP | m << 2;
		run(sem_V_ADD_F32, &in);
		cr_assert_eq(vreg(0, 40)[0], bits(1.0f));
		vreg(0, 10)[0] = vreg(0, 20)[0] = 0;
		vreg(0, 11)[0] = 0x3ff00000;
		vreg(0, 21)[0] = 0x3c000000; /* 2^-63 */
		run(sem_V_ADD_F64, &in);
		cr_assert_eq(vreg(0, 40)[0], m == 1, "f64 mode %u", m);
		/* 1 + 2^-24 in f16: one rounding, though f32 could not hold much more. */
		vreg(0, 10)[0] = 0x3c00;
		vreg(0, 20)[0] = 0x0001;
		vreg(0, 40)[0] = 0;
		run(sem_V_ADD_F16, &in);
		cr_assert_eq(vreg(0, 40)[0], m == 1 ? 0x3c01 : 0x3c00, "f16 mode %u", m);
		vreg(0, 10)[0] = bits(-0x1.00002p0f);
		run(sem_V_CVT_F16_F32, &in);
		cr_assert_eq(vreg(0, 40)[0] & 0xffff, m == 2 ? 0xbc01 : 0xbc00, "cvt mode %u", m);
	}
	cr_assert_eq(__builtin_ia32_stmxcsr() & 0x6000u, 0u, "the host's rounding is back");
}

Test(valu, clamp_and_omod)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	vreg(0, 10)[0] = bits(0.75f);
	vreg(0, 10)[1] = bits(-3.0f);
	vreg(0, 10)[2] = 0x7fc00000;
	vreg(0, 10)[3] = bits(0.25f);
	in.clamp = true;
	in.src[1] = in.src[0];
	run(sem_V_ADD_F32, &in);
	cr_assert_eq(vreg(0, 40)[0], bits(1.0f));
	cr_assert_eq(vreg(0, 40)[1], 0u);
	cr_assert_eq(vreg(0, 40)[2], 0u, "DX10_CLAMP turns NaN into zero");
	cr_assert_eq(vreg(0, 40)[3], bits(0.5f));
	W->mode &= ~0x100u;
	run(sem_V_ADD_F32, &in);
	cr_assert(nan32(vreg(0, 40)[2]));
	in.clamp = false;
	in.omod = 2;
	W->mode = MODE_KEEP;
	run(sem_V_ADD_F32, &in);
	cr_assert_eq(vreg(0, 40)[0], bits(1.5f), "no omod where denormals are kept");
	W->mode = MODE_FLUSH;
	run(sem_V_ADD_F32, &in);
	cr_assert_eq(vreg(0, 40)[0], bits(1.5f), "nor with MODE.ieee");
	W->mode = MODE_FLUSH & ~0x200u;
	run(sem_V_ADD_F32, &in);
	cr_assert_eq(vreg(0, 40)[0], bits(6.0f));
}

extern isa_sem sem_V_LDEXP_F32, sem_V_FREXP_EXP_I32_F32, sem_V_LDEXP_F64, sem_V_FREXP_EXP_I32_F64,
	sem_V_FREXP_MANT_F64;

Test(valu, exponents)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned pass = 0; pass < 200; pass++) {
		fill_regs(10, 2, rnd_f32);
		for (unsigned l = 0; l < 32; l++)
			vreg(0, 20)[l] = pass & 1 ? rnd_int() : rnd() % 300 - 150;
		run(sem_V_LDEXP_F32, &in);
		for (unsigned l = 0; l < 32; l++) {
			int e = (int)vreg(0, 20)[l];
			float a = f32(vreg(0, 10)[l]);

			cr_assert(same_f32(vreg(0, 40)[l], bits(ldexpf(a, e))), "%a * 2^%d: %a", a,
				  e, f32(vreg(0, 40)[l]));
		}
		run(sem_V_FREXP_EXP_I32_F32, &in);
		for (unsigned l = 0; l < 32; l++) {
			float a = f32(vreg(0, 10)[l]);
			int e = 0;

			if (isfinite(a))
				frexpf(a, &e);
			cr_assert_eq((int)vreg(0, 40)[l], e);
		}
		run(sem_V_FREXP_EXP_I32_F64, &in);
		for (unsigned l = 0; l < 32; l++) {
			double a = f64(vreg(0, 10)[l], vreg(0, 11)[l]);
			int e = 0;

			if (isfinite(a))
				frexp(a, &e);
			cr_assert_eq((int)vreg(0, 40)[l], e);
		}
		run(sem_V_FREXP_MANT_F64, &in);
		for (unsigned l = 0; l < 32; l++) {
			double a = f64(vreg(0, 10)[l], vreg(0, 11)[l]);
			int e;

			if (isfinite(a))
				cr_assert_eq(f64(vreg(0, 40)[l], vreg(0, 41)[l]), frexp(a, &e));
		}
	}
}

/* ---- division as compilers write it --------------------------------------------------------- */

extern isa_sem sem_V_DIV_SCALE_F32, sem_V_DIV_FMAS_F32, sem_V_DIV_FIXUP_F32, sem_V_RCP_F32,
	sem_V_DIV_SCALE_F64, sem_V_DIV_FMAS_F64, sem_V_DIV_FIXUP_F64, sem_V_RCP_F64, sem_V_FMA_F64,
	sem_V_MUL_F64;

static void vop3(isa_sem *f, unsigned d, unsigned a, unsigned b, unsigned c, unsigned neg)
{
	struct isa_insn in = vop(d);

	in.src[0] = (uint16_t)(OPR_VGPR0 + a);
	in.src[1] = (uint16_t)(OPR_VGPR0 + b);
	in.src[2] = (uint16_t)(OPR_VGPR0 + c);
	in.sdst = OPR_VCC_LO;
	in.neg = (uint8_t)neg;
	run(f, &in);
}

/* v10 / v20 -> v60 by the sequence LLVM emits for an IEEE division. */
static void divide32(void)
{
	for (unsigned l = 0; l < 32; l++)
		vreg(0, 50)[l] = bits(1.0f);
	vop3(sem_V_DIV_SCALE_F32, 42, 20, 20, 10, 0);
	vop3(sem_V_RCP_F32, 44, 42, 42, 42, 0);
	vop3(sem_V_DIV_SCALE_F32, 46, 10, 20, 10, 0);
	vop3(sem_V_FMA_F32, 48, 42, 44, 50, 1);
	vop3(sem_V_FMA_F32, 44, 48, 44, 44, 0);
	vop3(sem_V_MUL_F32, 48, 46, 44, 44, 0);
	vop3(sem_V_FMA_F32, 52, 42, 48, 46, 1);
	vop3(sem_V_FMA_F32, 48, 52, 44, 48, 0);
	vop3(sem_V_FMA_F32, 52, 42, 48, 46, 1);
	vop3(sem_V_DIV_FMAS_F32, 54, 52, 44, 48, 0);
	vop3(sem_V_DIV_FIXUP_F32, 60, 54, 20, 10, 0);
}

static void divide64(void)
{
	for (unsigned l = 0; l < 32; l++) {
		vreg(0, 50)[l] = 0;
		vreg(0, 51)[l] = 0x3ff00000;
	}
	vop3(sem_V_DIV_SCALE_F64, 42, 20, 20, 10, 0);
	vop3(sem_V_RCP_F64, 44, 42, 42, 42, 0);
	vop3(sem_V_FMA_F64, 46, 42, 44, 50, 1);
	vop3(sem_V_FMA_F64, 44, 44, 46, 44, 0);
	vop3(sem_V_FMA_F64, 46, 42, 44, 50, 1);
	vop3(sem_V_FMA_F64, 44, 44, 46, 44, 0);
	vop3(sem_V_DIV_SCALE_F64, 48, 10, 20, 10, 0);
	vop3(sem_V_MUL_F64, 52, 48, 44, 44, 0);
	vop3(sem_V_FMA_F64, 54, 42, 52, 48, 1);
	vop3(sem_V_DIV_FMAS_F64, 56, 54, 44, 52, 0);
	vop3(sem_V_DIV_FIXUP_F64, 60, 56, 20, 10, 0);
}

Test(valu, division_sequences)
{
	setup_wave(false);
	for (unsigned pass = 0; pass < 3000; pass++) {
		fill_regs(10, 2, rnd_f32);
		fill_regs(20, 2, rnd_f32);
		divide32();
		for (unsigned l = 0; l < 32; l++) {
			float n = f32(vreg(0, 10)[l]), d = f32(vreg(0, 20)[l]);

			cr_assert(same_f32(vreg(0, 60)[l], bits(n / d)), "%a / %a: %a, not %a", n,
				  d, f32(vreg(0, 60)[l]), n / d);
		}
		divide64();
		for (unsigned l = 0; l < 32; l++) {
			double n = f64(vreg(0, 10)[l], vreg(0, 11)[l]);
			double d = f64(vreg(0, 20)[l], vreg(0, 21)[l]), want = n / d;
			double got = f64(vreg(0, 60)[l], vreg(0, 61)[l]);

			if (want != want)
				cr_assert(got != got);
			else
				cr_assert_eq(got, want, "%a / %a: %a, not %a", n, d, got, want);
		}
	}
}

/* Quotients that are denormal: scaled up, divided, scaled down, rounded once. The first lane's lies
 * just below half way, so that two roundings would go up. */
Test(valu, division_to_denormals)
{
	setup_wave(false);
	for (unsigned pass = 0; pass < 20000; pass++) {
		for (unsigned l = 0; l < 32; l++) {
			vreg(0, 10)[l] = l ? rnd() : 0x4b3a1;
			vreg(0, 11)[l] = l ? (rnd() & 0x800fffff) >> rnd() % 20 : 0;
			vreg(0, 20)[l] = l ? rnd() & (rnd() % 2 ? ~0u : 15u << 28) : 0x8e7ebff0;
			vreg(0, 21)[l] =
				l ? (rnd() & 0xfffff) | (0x3feu + rnd() % 3) << 20 : 0x3ff0003b;
		}
		divide64();
		for (unsigned l = 0; l < 32; l++) {
			double n = f64(vreg(0, 10)[l], vreg(0, 11)[l]);
			double d = f64(vreg(0, 20)[l], vreg(0, 21)[l]), want = n / d;
			double got = f64(vreg(0, 60)[l], vreg(0, 61)[l]);

			cr_assert_eq(got, want, "%a / %a: %a, not %a", n, d, got, want);
		}
	}
}

/* ---- constants
 * ---------------------------------------------------------------------------------------- */

Test(valu, operands_by_kind)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	in.src[0] = 242; /* 1.0 */
	in.src[1] = 193; /* -1 */
	run(sem_V_ADD_F32, &in);
	cr_assert(nan32(vreg(0, 40)[0]), "an inline integer is its bits to a float op");
	in.src[1] = 248; /* 1 / (2 pi) */
	run(sem_V_ADD_F32, &in);
	cr_assert_eq(vreg(0, 40)[31], bits(1.0f + 0.15915494f));
	run(sem_V_ADD_F16, &in);
	cr_assert_eq(vreg(0, 40)[5] & 0xffff, 0x3ca3); /* 1 + 0x3118 */
	run(sem_V_ADD_F64, &in);
	cr_assert_eq(f64(vreg(0, 40)[5], vreg(0, 41)[5]), 1.0 + 0.15915494309189532);
	in.src[1] = OPR_LITERAL;
	in.literal = 0xc1f00000;
	run(sem_V_ADD_F64, &in);
	cr_assert_eq(f64(vreg(0, 40)[5], vreg(0, 41)[5]), 1.0 - 0x1p32, "the high half of an f64");
	W->s[4] = 7;
	in.src[0] = 4;
	in.src[1] = OPR_NULL;
	run(sem_V_ADD_NC_U32, &in);
	cr_assert_eq(vreg(0, 40)[9], 7u);
}
