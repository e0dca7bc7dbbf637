/* Block formats against an independent implementation's values; half precision both ways. */
#include <criterion/criterion.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "engine/quant.h"
#include "tests/testdata.h"

static size_t slurp(const char *name, void *buf, size_t cap)
{
	const char *path = testdata(name);
	FILE *f;
	size_t n;

	cr_assert(path, "%s is missing", name);
	f = fopen(path, "rb");
	cr_assert(f);
	n = fread(buf, 1, cap, f);
	cr_assert(feof(f) || n < cap);
	fclose(f);
	return n;
}

static uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

Test(quant, dequantise_equals_the_format)
{
	static const struct {
		const char *file;
		uint32_t type, n;
	} cases[] = {
		{"f32", 0, 1024},  {"f16", 1, 1032},   {"bf16", 30, 1032}, {"q8_0", 8, 2048},
		{"q4_0", 2, 2048}, {"q4_k", 12, 2048}, {"q5_k", 13, 2048}, {"q6_k", 14, 2048},
	};
	static unsigned char raw[1 << 16];
	static float want[1 << 12], got[1 << 12];
	char name[64];

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		uint64_t bytes;
		size_t n;

		snprintf(name, sizeof(name), "quant/%s.bin", cases[c].file);
		n = slurp(name, raw, sizeof(raw));
		cr_assert_eq(quant_bytes(cases[c].type, cases[c].n, &bytes), 0);
		cr_assert_eq(bytes, n, "%s: %zu bytes", name, n);
		snprintf(name, sizeof(name), "quant/%s.f32", cases[c].file);
		cr_assert_eq(slurp(name, want, sizeof(want)), 4ul * cases[c].n);
		memset(got, 0xff, sizeof(got));
		cr_assert_eq(quant_dequant(cases[c].type, raw, got, cases[c].n), 0);
		for (uint32_t i = 0; i < cases[c].n; i++)
			cr_assert_eq(bits_of(got[i]), bits_of(want[i]), "%s[%u] is %a, want %a",
				     cases[c].file, i, (double)got[i], (double)want[i]);
		cr_assert(isnan(got[cases[c].n]), "%s: wrote past the end", cases[c].file);
	}
}

Test(quant, sizes_and_refusals)
{
	uint64_t b = 7;
	float x[256];

	cr_assert_eq(quant_bytes(12, 128, &b), -EINVAL);
	cr_assert_eq(quant_bytes(99, 1, &b), -ENOTSUP);
	cr_assert_eq(quant_bytes(5, 1, &b), -ENOTSUP);
	cr_assert_eq(quant_bytes(28, UINT64_MAX, &b), -EOVERFLOW);
	cr_assert_eq(b, 7, "output touched");
	cr_assert(!quant_bytes(14, 512, &b) && b == 420);
	cr_assert(!quant_bytes(39, 64, &b) && b == 34);
	cr_assert_eq(quant_dequant(39, x, x, 32), -ENOTSUP);
	cr_assert_eq(quant_dequant(8, x, x, 33), -EINVAL);
	cr_assert(quant_supported(12) && !quant_supported(3) && !quant_supported(1000));
	cr_assert_str_eq(quant_name(13), "Q5_K");
	cr_assert_str_eq(quant_name(4), "unknown");
	cr_assert_null(quant_type(UINT32_MAX));
}

/* The compiler's own half type is the judge (native or compiler-rt, both IEEE). */
Test(quant, every_half)
{
	for (uint32_t h = 0; h < 0x10000; h++) {
		uint16_t bits = (uint16_t)h, back;
		_Float16 f;
		float got = quant_f16_to_f32(bits);

		memcpy(&f, &bits, 2);
		if ((h & 0x7fff) > 0x7c00) {
			cr_assert(isnan(got), "%04x", h);
			cr_assert((quant_f32_to_f16(got) & 0x7fff) > 0x7c00, "%04x", h);
			continue;
		}
		cr_assert(got == (float)f && signbit(got) == (h >> 15 ? 1 : 0), "%04x is %a", h,
			  (double)got);
		back = quant_f32_to_f16(got);
		cr_assert_eq(back, bits, "%04x came back as %04x", h, back);
	}
}

Test(quant, rounds_to_nearest_even)
{
	uint32_t bits = 1;

	/* Every exponent, with significands around every rounding edge. */
	for (uint32_t exp = 80; exp < 160; exp++) {
		for (uint32_t i = 0; i < 3000; i++) {
			uint32_t u, half;
			uint16_t want, got;
			_Float16 h;
			float f;

			bits = bits * 1664525 + 1013904223;
			u = exp << 23 | bits >> 9 | (i & 1) << 31;
			half = i % 3 ? 0x1000 : 0x800;
			if (i % 4)
				u = (u & ~0x1fffu) | half;
			if (i % 4 == 2)
				u ^= 1;
			memcpy(&f, &u, 4);
			h = (_Float16)f;
			memcpy(&want, &h, 2);
			got = quant_f32_to_f16(f);
			cr_assert_eq(got, want, "%a: %04x, want %04x", (double)f, got, want);
		}
	}
	cr_assert_eq(quant_f32_to_f16(65519.996f), 0x7bff);
	cr_assert_eq(quant_f32_to_f16(65520.0f), 0x7c00);
	cr_assert_eq(quant_f32_to_f16(-HUGE_VALF), 0xfc00);
	cr_assert_eq(quant_f32_to_bf16(1.0f), 0x3f80);
	cr_assert_eq(quant_f32_to_bf16(0x1.01p0f), 0x3f80); /* tie to even: down */
	cr_assert_eq(quant_f32_to_bf16(0x1.03p0f), 0x3f82); /* tie to even: up */
	cr_assert_eq(quant_f32_to_bf16(0x1.fffffep127f), 0x7f80);
	cr_assert(isnan(quant_bf16_to_f32(quant_f32_to_bf16(NAN))));
	cr_assert_eq(quant_bf16_to_f32(0xbf80), -1.0f);
}
