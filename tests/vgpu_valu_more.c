/* Vector opcodes of the rarer kinds: 16-bit integers, f64, f16 odds and ends, packing, graphics
 * helpers, moves through M0. */
#include "valu_wave.h"

TestSuite(valu_more);

/* ---- 16-bit integers and moves: the low half of v40, the upper one kept -------------------- */

static int32_t s16(uint32_t v)
{
	return (int16_t)v;
}

static uint32_t u16(uint32_t v)
{
	return v & 0xffff;
}

static int32_t lim(int32_t v, int32_t lo, int32_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static int32_t med3(int32_t a, int32_t b, int32_t c)
{
	return lim(c, a < b ? a : b, a < b ? b : a);
}

static int32_t min2(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static int32_t max2(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

#define UA (int32_t)u16(a)
#define UB (int32_t)u16(b)
#define UC (int32_t)u16(c)
#define OPS16(I)                                                                                   \
	I(V_MOV_B16, 0, a)                                                                         \
	I(V_NOT_B16, 0, ~a)                                                                        \
	I(V_AND_B16, 0, a &b)                                                                      \
	I(V_OR_B16, 0, a | b)                                                                      \
	I(V_XOR_B16, 0, a ^ b)                                                                     \
	I(V_LSHLREV_B16, 0, u16(b) << (a & 15))                                                    \
	I(V_LSHRREV_B16, 0, u16(b) >> (a & 15))                                                    \
	I(V_ASHRREV_I16, 0, s16(b) >> (a & 15))                                                    \
	I(V_ADD_NC_U16, 0, a + b)                                                                  \
	I(V_SUB_NC_U16, 0, a - b)                                                                  \
	I(V_ADD_NC_U16, 1, lim(UA + UB, 0, 65535))                                                 \
	I(V_SUB_NC_U16, 1, lim(UA - UB, 0, 65535))                                                 \
	I(V_ADD_NC_I16, 1, lim(s16(a) + s16(b), -32768, 32767))                                    \
	I(V_SUB_NC_I16, 1, lim(s16(a) - s16(b), -32768, 32767))                                    \
	I(V_MUL_LO_U16, 0, u16(a) * u16(b))                                                        \
	I(V_MAD_U16, 0, u16(a) * u16(b) + u16(c))                                                  \
	I(V_MAD_U16, 1, u16(a) * u16(b) + u16(c) > 65535 ? 65535 : u16(a) * u16(b) + u16(c))       \
	I(V_MAD_I16, 1, lim(s16(a) * s16(b) + s16(c), -32768, 32767))                              \
	I(V_MIN_U16, 0, min2(UA, UB))                                                              \
	I(V_MAX_U16, 0, max2(UA, UB))                                                              \
	I(V_MIN_I16, 0, min2(s16(a), s16(b)))                                                      \
	I(V_MAX_I16, 0, max2(s16(a), s16(b)))                                                      \
	I(V_MIN3_U16, 0, min2(min2(UA, UB), UC))                                                   \
	I(V_MAX3_U16, 0, max2(max2(UA, UB), UC))                                                   \
	I(V_MIN3_I16, 0, min2(min2(s16(a), s16(b)), s16(c)))                                       \
	I(V_MAX3_I16, 0, max2(max2(s16(a), s16(b)), s16(c)))                                       \
	I(V_MED3_U16, 0, med3(UA, UB, UC))                                                         \
	I(V_MED3_I16, 0, med3(s16(a), s16(b), s16(c)))                                             \
	I(V_SAT_PK_U8_I16, 0, lim(s16(a), 0, 255) | lim(s16(a >> 16), 0, 255) << 8)

/* The whole of v40. */
#define OPS32(I)                                                                                   \
	I(V_CVT_I32_I16, 0, s16(a))                                                                \
	I(V_CVT_U32_U16, 0, u16(a))                                                                \
	I(V_MAD_U32_U16, 0, u16(a) * u16(b) + c)                                                   \
	I(V_MAD_I32_I16, 0, (uint32_t)(s16(a) * s16(b)) + c)                                       \
	I(V_PACK_B32_F16, 0, u16(a) | b << 16)                                                     \
	I(V_SAD_U16, 0,                                                                            \
	  (uint32_t)(abs(UA - UB) + abs((int32_t)(a >> 16) - (int32_t)(b >> 16))) + c)             \
	I(V_CVT_PK_I16_I32, 0,                                                                     \
	  u16((uint32_t)lim((int32_t)a, -32768, 32767)) | (uint32_t)lim((int32_t)b, -32768, 32767) \
								  << 16)                           \
	I(V_MIN3_U32, 0, (a < b ? a : b) < c ? (a < b ? a : b) : c)                                \
	I(V_MAX3_U32, 0, (a > b ? a : b) > c ? (a > b ? a : b) : c)                                \
	I(V_MIN3_I32, 0, min2(min2((int32_t)a, (int32_t)b), (int32_t)c))                           \
	I(V_MAX3_I32, 0, max2(max2((int32_t)a, (int32_t)b), (int32_t)c))                           \
	I(V_MAXMIN_U32, 0, (a > b ? a : b) < c ? (a > b ? a : b) : c)                              \
	I(V_MINMAX_U32, 0, (a < b ? a : b) > c ? (a < b ? a : b) : c)                              \
	I(V_MAXMIN_I32, 0, min2(max2((int32_t)a, (int32_t)b), (int32_t)c))                         \
	I(V_MINMAX_I32, 0, max2(min2((int32_t)a, (int32_t)b), (int32_t)c))                         \
	I(V_MAD_U32_U24, 1,                                                                        \
	  (uint64_t)(a & 0xffffff) * (b & 0xffffff) + c > UINT32_MAX                               \
		  ? UINT32_MAX                                                                     \
		  : (a & 0xffffff) * (b & 0xffffff) + c)                                           \
	I(V_CVT_F32_UBYTE1, 0, bits((float)(a >> 8 & 255)))                                        \
	I(V_CVT_F32_UBYTE2, 0, bits((float)(a >> 16 & 255)))

#define REF(NAME, CLAMP, E)                                                                        \
	extern isa_sem sem_##NAME;                                                                 \
	static uint32_t ref##CLAMP##_##NAME(uint32_t a, uint32_t b, uint32_t c)                    \
	{                                                                                          \
		(void)b;                                                                           \
		(void)c;                                                                           \
		return (uint32_t)(E);                                                              \
	}
OPS16(REF)
OPS32(REF)

static const struct {
	const char *name;
	isa_sem *sem;
	uint32_t (*ref)(uint32_t a, uint32_t b, uint32_t c);
	bool clamp, half;
} ops[] = {
#define ROW16(NAME, CLAMP, E) {#NAME, sem_##NAME, ref##CLAMP##_##NAME, CLAMP, true},
#define ROW32(NAME, CLAMP, E) {#NAME, sem_##NAME, ref##CLAMP##_##NAME, CLAMP, false},
	OPS16(ROW16) OPS32(ROW32)};

Test(valu_more, integers)
{
	setup_wave(false);
	for (unsigned t = 0; t < sizeof(ops) / sizeof(*ops) * 8; t++) {
		unsigned k = t / 8;
		struct isa_insn in = vop(40);
		uint32_t old[32];

		in.clamp = ops[k].clamp;
		for (unsigned r = 10; r <= 40; r += 10)
			fill_regs(r, 1, rnd_int);
		memcpy(old, vreg(0, 40), 128);
		run(ops[k].sem, &in);
		for (unsigned l = 0; l < 32; l++) {
			uint32_t a = vreg(0, 10)[l], b = vreg(0, 20)[l], c = vreg(0, 30)[l];
			uint32_t want = ops[k].ref(a, b, c);

			if (ops[k].half)
				want = (old[l] & 0xffff0000) | u16(want);
			cr_assert_eq(vreg(0, 40)[l], want, "%s (%#x, %#x, %#x): %#x, not %#x",
				     ops[k].name, a, b, c, vreg(0, 40)[l], want);
		}
	}
}

extern isa_sem sem_V_QSAD_PK_U16_U8, sem_V_MQSAD_PK_U16_U8, sem_V_MQSAD_U32_U8, sem_V_CNDMASK_B16;

static uint32_t window_sad(uint64_t a, uint32_t b, unsigned at, bool masked)
{
	uint32_t r = 0;

	for (unsigned k = 0; k < 4; k++) {
		int p = (int)(a >> 8 * (at + k) & 255), q = (int)(b >> 8 * k & 255);

		r += !masked || q ? (uint32_t)abs(p - q) : 0;
	}
	return r;
}

Test(valu_more, sliding_sums)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned pass = 0; pass < 60; pass++) {
		fill_regs(10, 2, rnd_int);
		fill_regs(20, 1, rnd_int);
		fill_regs(30, 4, rnd_int);
		in.clamp = pass & 1;
		for (unsigned op = 0; op < 3; op++) {
			run(op == 0   ? sem_V_QSAD_PK_U16_U8
			    : op == 1 ? sem_V_MQSAD_PK_U16_U8
				      : sem_V_MQSAD_U32_U8,
			    &in);
			for (unsigned l = 0; l < 32; l++) {
				uint64_t a = vreg(0, 10)[l] | (uint64_t)vreg(0, 11)[l] << 32;

				for (unsigned k = 0; k < 4; k++) {
					uint64_t s = window_sad(a, vreg(0, 20)[l], k, op);
					uint32_t got;

					if (op == 2) {
						s += vreg(0, 30 + k)[l];
						s = in.clamp && s > UINT32_MAX ? UINT32_MAX : s;
						cr_assert_eq(vreg(0, 40 + k)[l], (uint32_t)s);
						continue;
					}
					s += u16(vreg(0, 30 + k / 2)[l] >> 16 * (k % 2));
					s = in.clamp && s > 65535 ? 65535 : s;
					got = u16(vreg(0, 40 + k / 2)[l] >> 16 * (k % 2));
					cr_assert_eq(got, u16((uint32_t)s));
				}
			}
		}
	}
}

/* ---- f64
 * ------------------------------------------------------------------------------------------ */

static double dmax(double a, double b, bool min)
{
	uint64_t q = 1ull << 51, ua, ub;

	memcpy(&ua, &a, 8);
	memcpy(&ub, &b, 8);
	if ((a != a && !(ua & q)) || (b != b && !(ub & q)))
		return NAN;
	if (b != b)
		return a;
	if (a != a)
		return b;
	if (a == b)
		return (signbit(a) != 0) == min ? a : b;
	return (a < b) == min ? a : b;
}

static double dfract(double a)
{
	double r = a - floor(a);

	return r >= 1 ? 0x1.fffffffffffffp-1 : r;
}

#define OPS64(I)                                                                                   \
	I(V_ADD_F64, a + b)                                                                        \
	I(V_MUL_F64, a *b)                                                                         \
	I(V_FMA_F64, fma(a, b, c))                                                                 \
	I(V_MIN_F64, dmax(a, b, true))                                                             \
	I(V_MAX_F64, dmax(a, b, false))                                                            \
	I(V_FLOOR_F64, floor(a))                                                                   \
	I(V_CEIL_F64, ceil(a))                                                                     \
	I(V_TRUNC_F64, trunc(a))                                                                   \
	I(V_RNDNE_F64, nearbyint(a))                                                               \
	I(V_FRACT_F64, dfract(a))                                                                  \
	I(V_RCP_F64, 1 / a)                                                                        \
	I(V_SQRT_F64, sqrt(a))

#define REF64(NAME, E)                                                                             \
	extern isa_sem sem_##NAME;                                                                 \
	static double dref_##NAME(double a, double b, double c)                                    \
	{                                                                                          \
		(void)b;                                                                           \
		(void)c;                                                                           \
		return E;                                                                          \
	}
OPS64(REF64)

static const struct {
	const char *name;
	isa_sem *sem;
	double (*ref)(double a, double b, double c);
} ops64[] = {
#define ROW64(NAME, E) {#NAME, sem_##NAME, dref_##NAME},
	OPS64(ROW64)};

static double dflush(double a, bool keep)
{
	return !keep && fabs(a) < 0x1p-1022 ? copysign(0, a) : a;
}

Test(valu_more, f64)
{
	setup_wave(false);
	for (unsigned t = 0; t < sizeof(ops64) / sizeof(*ops64) * 80; t++) {
		unsigned k = t / 80;
		struct isa_insn in = vop(40);
		bool keep = t % 3;

		W->mode = keep ? MODE_KEEP : MODE_KEEP & ~0xc0u;
		in.neg = t & 4 ? rnd() & 7 : 0;
		in.abs = t & 8 ? rnd() & 7 : 0;
		for (unsigned r = 10; r <= 30; r += 10)
			fill_regs(r, 2, rnd_f32);
		for (unsigned l = 0; l < 32; l += 4) /* of like size, denormal, round */
			for (unsigned r = 10; r <= 30; r += 10) {
				vreg(0, r + 1)[l] = 0x40000000 | (rnd() & 0x803fffff);
				vreg(0, r + 1)[l + 1] = rnd() & 0x800fffff;
				vreg(0, r)[l + 2] = 0;
			}
		run(ops64[k].sem, &in);
		for (unsigned l = 0; l < 32; l++) {
			double s[3], want, got = f64(vreg(0, 40)[l], vreg(0, 41)[l]);

			for (unsigned i = 0; i < 3; i++) {
				s[i] = f64(vreg(0, 10 + 10 * i)[l], vreg(0, 11 + 10 * i)[l]);
				s[i] = in.abs >> i & 1 ? fabs(s[i]) : s[i];
				s[i] = dflush(in.neg >> i & 1 ? -s[i] : s[i], keep);
			}
			want = dflush(ops64[k].ref(s[0], s[1], s[2]), keep);
			if (want != want)
				cr_assert(got != got, "%s", ops64[k].name);
			else
				cr_assert(got == want && signbit(got) == signbit(want),
					  "%s (%a, %a, %a): %a, not %a", ops64[k].name, s[0], s[1],
					  s[2], got, want);
		}
	}
}

extern isa_sem sem_V_LDEXP_F64, sem_V_TRIG_PREOP_F64, sem_V_DIV_FIXUP_F64;

Test(valu_more, ldexp_f64)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned pass = 0; pass < 100; pass++) {
		fill_regs(10, 2, rnd_f32);
		for (unsigned l = 0; l < 32; l++)
			vreg(0, 20)[l] = pass & 1 ? rnd_int() : rnd() % 4400 - 2200;
		run(sem_V_LDEXP_F64, &in);
		for (unsigned l = 0; l < 32; l++) {
			double a = f64(vreg(0, 10)[l], vreg(0, 11)[l]);
			double want = ldexp(a, (int)vreg(0, 20)[l]);
			double got = f64(vreg(0, 40)[l], vreg(0, 41)[l]);

			cr_assert((want != want && got != got) || got == want);
		}
	}
}

/* The segments for an argument near 1 add up to 2/pi; bits known from any table of it. */
Test(valu_more, trig_preop)
{
	struct isa_insn in = vop(40);
	long double sum = 0;

	setup_wave(false);
	vreg(0, 10)[0] = 0;
	vreg(0, 11)[0] = 0x3ff00000;
	for (unsigned k = 0; k < 3; k++) {
		vreg(0, 20)[0] = k;
		run(sem_V_TRIG_PREOP_F64, &in);
		sum += (long double)f64(vreg(0, 40)[0], vreg(0, 41)[0]);
		if (!k)
			cr_assert_eq((vreg(0, 40)[0] | (uint64_t)vreg(0, 41)[0] << 32),
				     0x3fe45f306dc9c882ull);
	}
	cr_assert(fabsl(sum - 0.636619772367581343075535L) < 1e-19L);
}

/* ---- f16 odds and ends
 * ------------------------------------------------------------------------------- */

extern isa_sem sem_V_CVT_F32_F16, sem_V_LDEXP_F16, sem_V_FREXP_EXP_I16_F16, sem_V_FREXP_MANT_F16,
	sem_V_FLOOR_F16, sem_V_RNDNE_F16, sem_V_FRACT_F16, sem_V_MAX_F16, sem_V_MIN_F16,
	sem_V_MED3_F16, sem_V_CVT_U16_F16, sem_V_CVT_I16_F16, sem_V_CVT_F16_U16, sem_V_CVT_F16_I16,
	sem_V_CVT_NORM_I16_F16, sem_V_CVT_NORM_U16_F16, sem_V_CVT_PK_RTZ_F16_F32,
	sem_V_CVT_PK_U8_F32, sem_V_DIV_FIXUP_F16, sem_V_CVT_PK_NORM_U16_F32, sem_V_DOT2_F16_F16,
	sem_V_DOT2_BF16_BF16, sem_V_DOT2ACC_F32_F16;

/* Every f16, widened by arithmetic on its fields. */
static double h_value(uint32_t h)
{
	int e = h >> 10 & 31, m = h & 0x3ff;
	double v = e ? ldexp(m | 0x400, e - 25) : ldexp(m, -24);

	if (e == 31)
		v = m ? NAN : INFINITY;
	return h & 0x8000 ? -v : v;
}

static uint32_t out16(unsigned l)
{
	return u16(vreg(0, 40)[l]);
}

Test(valu_more, every_f16)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned h0 = 0; h0 < 65536; h0 += 32) {
		for (unsigned l = 0; l < 32; l++)
			vreg(0, 10)[l] = h0 + l;
		for (unsigned op = 0; op < 11; op++) {
			static isa_sem *const sem[] = {
				sem_V_CVT_F32_F16,      sem_V_FLOOR_F16,
				sem_V_RNDNE_F16,        sem_V_FRACT_F16,
				sem_V_FREXP_MANT_F16,   sem_V_FREXP_EXP_I16_F16,
				sem_V_CVT_U16_F16,      sem_V_CVT_I16_F16,
				sem_V_CVT_NORM_I16_F16, sem_V_CVT_NORM_U16_F16,
				sem_V_CVT_F16_I16};

			run(sem[op], &in);
			for (unsigned l = 0; l < 32; l++) {
				double a = h_value(h0 + l), want = 0, got = h_value(out16(l));
				int e = 0, i = s16(out16(l));

				switch (op) {
				case 0:
					got = f32(vreg(0, 40)[l]);
					want = a;
					break;
				case 1:
					want = floor(a);
					break;
				case 2:
					want = nearbyint(a);
					break;
				case 3: /* rounded to f16: at most 0x3bff */
					want = a - floor(a);
					if (isfinite(a) && fabs(got - want) <= 0x1p-11 && got < 1)
						want = got;
					break;
				case 4:
					want = isfinite(a) ? frexp(a, &e) : a;
					break;
				case 5:
					if (isfinite(a))
						frexp(a, &e);
					got = i;
					want = e;
					break;
				case 6:
					got = out16(l);
					want = a != a ? 0 : trunc(fmin(fmax(a, 0), 65535));
					break;
				case 7:
					got = i;
					want = a != a ? 0 : trunc(fmin(fmax(a, -32768), 32767));
					break;
				case 8:
					got = i;
					want = a != a ? 0
						      : fmin(fmax(nearbyint(a * 32767), -32767),
							     32767);
					break;
				case 9:
					got = out16(l);
					want = a != a ? 0
						      : fmin(fmax(nearbyint(a * 65535), 0), 65535);
					break;
				case 10:
					want = s16(h0 + l);
					if (fabs(got - want) <=
					    ldexp(1, ilogb(fmax(fabs(want), 1)) - 11))
						want = got;
					break;
				}
				cr_assert((got != got && want != want) || got == want,
					  "op %u of %#x: %a, not %a", op, h0 + l, got, want);
			}
		}
	}
}

Test(valu_more, f16_pairs)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned pass = 0; pass < 400; pass++) {
		for (unsigned r = 10; r <= 30; r += 10)
			fill_regs(r, 1, rnd_f16);
		run(sem_V_MAX_F16, &in);
		for (unsigned l = 0; l < 32; l++) {
			uint32_t a = u16(vreg(0, 10)[l]), b = u16(vreg(0, 20)[l]);
			bool an = h_value(a) != h_value(a), bn = h_value(b) != h_value(b);
			bool snan = (an && !(a & 0x200)) || (bn && !(b & 0x200));

			if (snan || (an && bn))
				cr_assert(h_value(out16(l)) != h_value(out16(l)));
			else if (an || bn)
				cr_assert_eq(out16(l), an ? b : a);
			else if (h_value(a) == 0 && h_value(b) == 0)
				cr_assert_eq(out16(l), a & b);
			else
				cr_assert_eq(h_value(out16(l)), fmax(h_value(a), h_value(b)));
		}
		run(sem_V_MED3_F16, &in);
		for (unsigned l = 0; l < 32; l++) {
			double a = h_value(vreg(0, 10)[l] & 0xffff),
			       b = h_value(u16(vreg(0, 20)[l]));
			double c = h_value(u16(vreg(0, 30)[l]));

			if (a == a && b == b && c == c)
				cr_assert_eq(h_value(out16(l)),
					     fmax(fmin(a, b), fmin(fmax(a, b), c)));
		}
		for (unsigned l = 0; l < 32; l++)
			vreg(0, 20)[l] = (rnd() & 0xffff0000) | u16(rnd() % 80 - 40);
		run(sem_V_LDEXP_F16, &in);
		for (unsigned l = 0; l < 32; l++) {
			double a = h_value(u16(vreg(0, 10)[l])), got = h_value(out16(l));
			double want = ldexp(a, s16(vreg(0, 20)[l]));

			if (a != a)
				cr_assert(got != got);
			else if (fabs(want) >= 65520)
				cr_assert(isinf(got));
			else if (want != got) /* lost bits below 2^-24 */
				cr_assert(fabs(want) < 0x1p-14 && fabs(want - got) <= 0x1p-25);
		}
	}
}

static void set1(unsigned r, uint32_t v)
{
	for (unsigned l = 0; l < 32; l++)
		vreg(0, r)[l] = v;
}

static uint32_t run1(isa_sem *f, const struct isa_insn *in)
{
	run(f, in);
	return vreg(0, 40)[7];
}

Test(valu_more, packing)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	W->mode = MODE_KEEP | 1 << 2; /* rounding up does not reach rtz */
	set1(10, bits(0x1.003fp0f));
	set1(20, bits(-0x1.003fp0f));
	cr_assert_eq(run1(sem_V_CVT_PK_RTZ_F16_F32, &in), 0xbc003c00u);
	set1(10, bits(70000.0f));
	cr_assert_eq(run1(sem_V_CVT_PK_RTZ_F16_F32, &in) & 0xffff, 0x7bffu, "never infinity");
	set1(10, bits(300.0f));
	set1(20, 2);
	set1(30, 0x11223344);
	cr_assert_eq(run1(sem_V_CVT_PK_U8_F32, &in), 0x11ff3344u);
	set1(10, bits(-4.0f));
	cr_assert_eq(run1(sem_V_CVT_PK_U8_F32, &in), 0x11003344u);
	/* by MODE's rounding: nearest even, up, down, to zero */
	static const struct {
		float a;
		uint8_t want[4];
	} u8[] = {{0.5f, {0, 1, 0, 0}},
		  {1.5f, {2, 2, 1, 1}},
		  {254.6f, {255, 255, 254, 254}},
		  {-0.4f, {0, 0, 0, 0}},
		  {0x1p-126f, {0, 1, 0, 0}},
		  {255.2f, {255, 255, 255, 255}},
		  {__builtin_nanf(""), {0, 0, 0, 0}}};

	for (unsigned k = 0; k < 7; k++)
		for (unsigned m = 0; m < 4; m++) {
			W->mode = MODE_KEEP | m;
			set1(10, bits(u8[k].a));
			cr_assert_eq(run1(sem_V_CVT_PK_U8_F32, &in),
				     0x11003344u | (uint32_t)u8[k].want[m] << 16, "%g by mode %u",
				     (double)u8[k].a, m);
		}
	W->mode = MODE_KEEP | 1 << 2;
	set1(10, bits(0.5f));
	set1(20, bits(2.0f));
	cr_assert_eq(run1(sem_V_CVT_PK_NORM_U16_F32, &in), 0xffff8000u);
	/* quotient, denominator, numerator */
	set1(10, 0x7e00);
	set1(20, 0xbc00);
	set1(30, 0x3c00);
	cr_assert_eq(run1(sem_V_DIV_FIXUP_F16, &in) & 0xffff, 0xfc00u);
	set1(20, 0);
	set1(30, 0x8000);
	cr_assert(h_value(run1(sem_V_DIV_FIXUP_F16, &in) & 0xffff) !=
		  h_value(vreg(0, 40)[7] & 0xffff));
}

Test(valu_more, dot2_16)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	set1(10, 0x40003c00); /* f16 (1, 2) */
	set1(20, 0x44004200); /* (3, 4) */
	set1(30, 0x3c004500); /* 5; 1 above */
	set1(40, 0xabcd1234);
	cr_assert_eq(run1(sem_V_DOT2_F16_F16, &in), 0xabcd4c00u); /* 16 */
	in.op_sel = 4 | 8;
	cr_assert_eq(run1(sem_V_DOT2_F16_F16, &in), 0x4a004c00u); /* 12 into the high half */
	in.op_sel = 0;
	set1(10, 0x40003f80);                                       /* bf16 (1, 2) */
	set1(20, 0x40804040);                                       /* (3, 4) */
	set1(30, 0x40a0);                                           /* 5 */
	cr_assert_eq(run1(sem_V_DOT2_BF16_BF16, &in), 0x4a004180u); /* 16 */
	set1(10, 0x40003c00);
	set1(20, 0x44004200);
	set1(40, bits(100.0f));
	in.src[2] = in.dst;
	cr_assert_eq(run1(sem_V_DOT2ACC_F32_F16, &in), bits(111.0f));
}

/* ---- graphics helpers
 * ----------------------------------------------------------------------------------- */

extern isa_sem sem_V_CUBEID_F32, sem_V_CUBESC_F32, sem_V_CUBETC_F32, sem_V_CUBEMA_F32,
	sem_V_MULLIT_F32, sem_V_INTERP_P2_F32;

Test(valu_more, cube_and_lighting)
{
	/* x, y, z -> face, s, t, 2 * major axis */
	static const float c[][7] = {
		{3, 1, 2, 0, -2, -1, 6},  {-3, 1, 2, 1, 2, -1, -6}, {1, 3, 2, 2, 1, 2, 6},
		{1, -3, 2, 3, 1, -2, -6}, {1, 2, 3, 4, 1, -2, 6},   {1, 2, -3, 5, -1, -2, -6},
		{2, 2, 2, 4, 2, -2, 4},   {2, 2, 1, 2, 2, 1, 4},
	};
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned k = 0; k < sizeof(c) / sizeof(*c); k++) {
		set1(10, bits(c[k][0]));
		set1(20, bits(c[k][1]));
		set1(30, bits(c[k][2]));
		cr_assert_eq(f32(run1(sem_V_CUBEID_F32, &in)), c[k][3]);
		cr_assert_eq(f32(run1(sem_V_CUBESC_F32, &in)), c[k][4], "%u", k);
		cr_assert_eq(f32(run1(sem_V_CUBETC_F32, &in)), c[k][5], "%u", k);
		cr_assert_eq(f32(run1(sem_V_CUBEMA_F32, &in)), c[k][6]);
	}
	set1(10, bits(3.0f));
	set1(20, bits(4.0f));
	set1(30, bits(1.0f));
	cr_assert_eq(f32(run1(sem_V_MULLIT_F32, &in)), 12.0f);
	set1(30, bits(-1.0f));
	cr_assert_eq(f32(run1(sem_V_MULLIT_F32, &in)), -__FLT_MAX__);
}

/* ---- registers through M0
 * ---------------------------------------------------------------------------------- */

extern isa_sem sem_V_MOVRELS_B32, sem_V_MOVRELD_B32, sem_V_MOVRELSD_B32, sem_V_MOVRELSD_2_B32,
	sem_V_SWAPREL_B32, sem_V_SWAP_B32;

Test(valu_more, relative_registers)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned r = 0; r < NVGPR; r++)
		set1(r, 1000 + r);
	W->s[OPR_M0] = 3;
	W->exec = 0x0000ffff;
	run(sem_V_MOVRELS_B32, &in);
	cr_assert_eq(vreg(0, 40)[0], 1013u);
	cr_assert_eq(vreg(0, 40)[16], 1040u);
	run(sem_V_MOVRELD_B32, &in);
	cr_assert_eq(vreg(0, 43)[1], 1010u);
	W->s[OPR_M0] = 5;
	run(sem_V_MOVRELSD_B32, &in);
	cr_assert_eq(vreg(0, 45)[1], 1015u);
	W->s[OPR_M0] = 7 << 16 | 2;
	run(sem_V_MOVRELSD_2_B32, &in);
	cr_assert_eq(vreg(0, 47)[1], 1012u);
	W->s[OPR_M0] = 9 << 16 | 4;
	run(sem_V_SWAPREL_B32, &in);
	cr_assert_eq(vreg(0, 49)[1], 1014u);
	cr_assert_eq(vreg(0, 14)[1], 1049u);
	cr_assert_eq(vreg(0, 14)[20], 1014u, "an inactive lane keeps its own");
	in.dst = OPR_VGPR0 + 60;
	run(sem_V_SWAP_B32, &in);
	cr_assert_eq(vreg(0, 60)[1], 1010u);
	cr_assert_eq(vreg(0, 10)[1], 1060u);
	W->s[OPR_M0] = NVGPR;
	run(sem_V_MOVRELS_B32, &in);
	cr_assert_eq(vreg(0, 60)[1], 1000u, "past the allocation is v0");
}
