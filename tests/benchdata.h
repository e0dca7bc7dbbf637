/* Inputs and exact outputs of the bench kernels (tests/data/bench-kernels), from their recipe:
 * x = x*1664525 + 1013904223 mod 2^32, one step per element, value taken after the step. All
 * sums are integers (or dyadic fractions) that f32 holds exactly, so no order of summation
 * matters. The CRC-32 of every buffer is stated beside it; whoever uses them checks it first. */
#ifndef TESTS_BENCHDATA_H
#define TESTS_BENCHDATA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BENCH_VECADD_N = 1 << 20, BENCH_N = 256, BENCH_ROWS = 512, BENCH_BLOCKS = 64 };

struct bench_buffer {
	const char *name;
	uint32_t crc;
	size_t bytes;
	void *data;
};

static inline uint32_t bench_crc32(const void *data, size_t n)
{
	const uint8_t *p = data;
	uint32_t c = ~0u;

	while (n--) {
		c ^= *p++;
		for (int i = 0; i < 8; i++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

static inline uint32_t bench_step(uint32_t *x)
{
	return *x = *x * 1664525u + 1013904223u;
}

static inline int bench_small(uint32_t *x)
{
	return (int)(bench_step(x) >> 24) % 9 - 4;
}

static inline void *bench_alloc(size_t n)
{
	void *p = calloc(1, n);

	if (!p)
		abort();
	return p;
}

static inline float *bench_floats(uint32_t seed)
{
	float *v = bench_alloc(BENCH_VECADD_N * sizeof(*v));

	for (int i = 0; i < BENCH_VECADD_N; i++)
		v[i] = (float)(((double)(bench_step(&seed) >> 8) - 8388608.0) / 1048576.0);
	return v;
}

static inline int *bench_ints(uint32_t seed)
{
	int *v = bench_alloc(BENCH_N * BENCH_N * sizeof(*v));

	for (int i = 0; i < BENCH_N * BENCH_N; i++)
		v[i] = bench_small(&seed);
	return v;
}

/* c[m][n] = sum over k of a[m][k] * b at (k, n), b given by its strides. */
static inline float *bench_product(const int *a, const int *b, int k_stride, int n_stride)
{
	float *c = bench_alloc(BENCH_N * BENCH_N * sizeof(*c));

	for (int m = 0; m < BENCH_N; m++)
		for (int n = 0; n < BENCH_N; n++) {
			int s = 0;

			for (int k = 0; k < BENCH_N; k++)
				s += a[m * BENCH_N + k] * b[k * k_stride + n * n_stride];
			c[m * BENCH_N + n] = (float)s;
		}
	return c;
}

static inline void *bench_as_float(const int *v)
{
	float *f = bench_alloc(BENCH_N * BENCH_N * sizeof(*f));

	for (int i = 0; i < BENCH_N * BENCH_N; i++)
		f[i] = (float)v[i];
	return f;
}

/* -4 .. 4 as IEEE binary16. */
static inline void *bench_as_half(const int *v)
{
	static const uint16_t half[] = {0xc400, 0xc200, 0xc000, 0xbc00, 0,
					0x3c00, 0x4000, 0x4200, 0x4400};
	uint16_t *h = bench_alloc(BENCH_N * BENCH_N * sizeof(*h));

	for (int i = 0; i < BENCH_N * BENCH_N; i++)
		h[i] = half[v[i] + 4];
	return h;
}

/* n Q8_0 blocks: a power of two as f16, 32 bytes of -15 .. 15. d gets the scale's exponent. */
static inline uint8_t *bench_q8(uint32_t seed, int n, int *exponent)
{
	uint8_t *q = bench_alloc((size_t)n * 34);

	for (int b = 0; b < n; b++) {
		int e = 4 + (int)(bench_step(&seed) >> 24 & 1);
		uint16_t h = (uint16_t)((15 - e) << 10);

		exponent[b] = e;
		memcpy(q + b * 34, &h, 2);
		for (int i = 0; i < 32; i++)
			q[b * 34 + 2 + i] = (uint8_t)((int)(bench_step(&seed) >> 24) % 31 - 15);
	}
	return q;
}

static inline float *bench_q8dot(const uint8_t *w, const int *we, const uint8_t *x, const int *xe)
{
	float *y = bench_alloc(BENCH_ROWS * sizeof(*y));

	for (int r = 0; r < BENCH_ROWS; r++) {
		int64_t s = 0; /* in units of 2^-10: exponents add to 8, 9 or 10 */

		for (int b = 0; b < BENCH_BLOCKS; b++) {
			int at = r * BENCH_BLOCKS + b, dot = 0;

			for (int i = 0; i < 32; i++)
				dot += (int8_t)w[at * 34 + 2 + i] * (int8_t)x[b * 34 + 2 + i];
			s += (int64_t)dot << (10 - we[at] - xe[b]);
		}
		y[r] = (float)((double)s / 1024.0);
	}
	return y;
}

struct bench {
	const char *file, *kernel;
	unsigned grid[2], block;
	struct bench_buffer a, b, want;
	unsigned scalars; /* how many u32 follow the three buffers */
	uint32_t scalar;  /* all have this value */
};

/* The five: 0 vecadd, 1 sgemm, 2 sgemm_cu, 3 q8dot, 4 wmma. */
#define BENCH_COUNT 5
static inline void bench_make(int which, struct bench *out)
{
	const size_t n2 = BENCH_N * BENCH_N;

	switch (which) {
	case 0: {
		float *a = bench_floats(1), *b = bench_floats(2);
		float *c = bench_alloc(BENCH_VECADD_N * sizeof(*c));

		for (int i = 0; i < BENCH_VECADD_N; i++)
			c[i] = a[i] + b[i];
		*out = (struct bench){"vecadd.co",
				      "vecadd",
				      {4096, 1},
				      256,
				      {"vecadd.a", 0x3a00ec27, 4194304, a},
				      {"vecadd.b", 0x3f2614fd, 4194304, b},
				      {"vecadd.c", 0x920dcf6b, 4194304, c},
				      1,
				      BENCH_VECADD_N};
		return;
	}
	case 1:
	case 2: {
		int *a = bench_ints(3), *b = bench_ints(4);

		*out = (struct bench){
			which == 1 ? "sgemm.co" : "sgemm_cu.co",
			"sgemm",
			{4, 4},
			256,
			{"sgemm.A", 0xac7452bd, n2 * 4, bench_as_float(a)},
			{"sgemm.B", 0xd613d63d, n2 * 4, bench_as_float(b)},
			{"sgemm.C", 0xe1bbcf26, n2 * 4, bench_product(a, b, BENCH_N, 1)},
			3,
			BENCH_N};
		free(a);
		free(b);
		return;
	}
	case 3: {
		int *we = bench_alloc(BENCH_ROWS * BENCH_BLOCKS * sizeof(*we));
		int *xe = bench_alloc(BENCH_BLOCKS * sizeof(*xe));
		uint8_t *w = bench_q8(5, BENCH_ROWS * BENCH_BLOCKS, we);
		uint8_t *x = bench_q8(6, BENCH_BLOCKS, xe);

		*out = (struct bench){"q8dot.co",
				      "q8dot",
				      {128, 1},
				      128,
				      {"q8dot.W", 0x2b42f83b, 1114112, w},
				      {"q8dot.X", 0x2f05b211, 2176, x},
				      {"q8dot.y", 0xb37c465e, 2048, bench_q8dot(w, we, x, xe)},
				      1,
				      BENCH_BLOCKS};
		free(we);
		free(xe);
		return;
	}
	default: {
		int *a = bench_ints(7), *bt = bench_ints(8);

		*out = (struct bench){
			"wmma.co",
			"wmma_gemm",
			{4, 4},
			128,
			{"wmma.A", 0xf0ff1f8c, n2 * 2, bench_as_half(a)},
			{"wmma.Bt", 0x53618dff, n2 * 2, bench_as_half(bt)},
			{"wmma.C", 0x0318a28c, n2 * 4, bench_product(a, bt, 1, BENCH_N)},
			3,
			BENCH_N};
		free(a);
		free(bt);
		return;
	}
	}
}

static inline void bench_free(struct bench *b)
{
	free(b->a.data);
	free(b->b.data);
	free(b->want.data);
}

#endif
