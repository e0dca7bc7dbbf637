/* Conversions of the vector ALU: name, source, expected value. */
#include "valu_wave.h"

TestSuite(valu_cvt);

extern isa_sem sem_V_CVT_I32_F32, sem_V_CVT_U32_F32, sem_V_CVT_I32_F64, sem_V_CVT_U32_F64,
	sem_V_CVT_F64_F32, sem_V_CVT_F32_F64, sem_V_CVT_F64_U32, sem_V_CVT_PK_I16_F32,
	sem_V_CVT_NEAREST_I32_F32, sem_V_CVT_OFF_F32_I4;

static int64_t sat(double d, double lo, double hi)
{
	return d != d ? 0 : d <= lo ? (int64_t)lo : d >= hi ? (int64_t)hi : (int64_t)d;
}

Test(valu_cvt, conversions)
{
	struct isa_insn in = vop(40);

	setup_wave(false);
	for (unsigned pass = 0; pass < 300; pass++) {
		for (unsigned l = 0; l < 32; l++)
			vreg(0, 11)[l] = 0;
		fill_regs(10, 1, rnd_f32);
		fill_regs(20, 1, rnd_f32);
#define CVT(NAME, WANT)                                                                            \
	run(sem_##NAME, &in);                                                                      \
	for (unsigned l = 0; l < 32; l++) {                                                        \
		float a = f32(vreg(0, 10)[l]), b = f32(vreg(0, 20)[l]);                            \
		uint32_t want = (uint32_t)(WANT);                                                  \
                                                                                                   \
		(void)b;                                                                           \
		cr_assert_eq(vreg(0, 40)[l], want, #NAME " of %a: %#x, not %#x", a,                \
			     vreg(0, 40)[l], want);                                                \
	}
		CVT(V_CVT_I32_F32, sat(a, INT32_MIN, INT32_MAX));
		CVT(V_CVT_U32_F32, sat(a, 0, UINT32_MAX));
		CVT(V_CVT_NEAREST_I32_F32, sat(floor((double)a + 0.5), INT32_MIN, INT32_MAX));
		CVT(V_CVT_PK_I16_F32,
		    (sat(a, -32768, 32767) & 0xffff) | (sat(b, -32768, 32767) & 0xffff) << 16);
		run(sem_V_CVT_F64_F32, &in);
		for (unsigned l = 0; l < 32; l++) {
			double d = f64(vreg(0, 40)[l], vreg(0, 41)[l]), a = f32(vreg(0, 10)[l]);

			cr_assert(d == a || (d != d && a != a));
			/* and on: a value between two f32, and one past every integer range */
			d = a * (1.0 + 0x1p-30) * (pass & 1 ? 1.0 : 0x1p20);
			memcpy(&vreg(0, 10)[l], &d, 4);
			memcpy(&vreg(0, 11)[l], (char *)&d + 4, 4);
		}
#define CVT64(NAME, SAME, WANT)                                                                    \
	run(sem_##NAME, &in);                                                                      \
	for (unsigned l = 0; l < 32; l++) {                                                        \
		double a = f64(vreg(0, 10)[l], vreg(0, 11)[l]);                                    \
		uint32_t want = (uint32_t)(WANT);                                                  \
                                                                                                   \
		cr_assert(SAME(vreg(0, 40)[l], want), #NAME " of %a: %#x, not %#x", a,             \
			  vreg(0, 40)[l], want);                                                   \
	}
#define EQ(a, b) ((a) == (b))
		CVT64(V_CVT_I32_F64, EQ, sat(a, INT32_MIN, INT32_MAX));
		CVT64(V_CVT_U32_F64, EQ, sat(a, 0, UINT32_MAX));
		CVT64(V_CVT_F32_F64, same_f32, bits((float)a));
		fill_regs(10, 1, rnd_int);
		run(sem_V_CVT_F64_U32, &in);
		for (unsigned l = 0; l < 32; l++)
			cr_assert_eq(f64(vreg(0, 40)[l], vreg(0, 41)[l]), vreg(0, 10)[l]);
	}
	for (unsigned l = 0; l < 32; l++)
		vreg(0, 10)[l] = l;
	run(sem_V_CVT_OFF_F32_I4, &in);
	cr_assert_eq(vreg(0, 40)[7], bits(0.4375f));
	cr_assert_eq(vreg(0, 40)[8], bits(-0.5f));
	cr_assert_eq(vreg(0, 40)[31], bits(-0.0625f));
}
