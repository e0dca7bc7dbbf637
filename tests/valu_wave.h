/* A wave to run vector semantics on without a decoder, and random operands for it. */
#ifndef TESTS_VALU_WAVE_H
#define TESTS_VALU_WAVE_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isa/operands.h"

#define NVGPR 96

#define MODE_KEEP  0x3f0u /* clang's: denormals kept, DX10_CLAMP, IEEE */
#define MODE_FLUSH 0x3c0u /* the assembler's: f32 denormals flushed */

static struct isa_wave *W;
static struct isa_exec X;

static void setup_wave(bool wave64)
{
	free(W);
	W = aligned_alloc(128, (isa_wave_bytes(NVGPR, true) + 127) & ~127ul);
	memset(W, 0, isa_wave_bytes(NVGPR, true));
	W->wave64 = wave64;
	W->nvgpr = NVGPR;
	W->mode = MODE_KEEP;
	W->exec = wave64 ? ~0ull : 0xffffffffull;
	memset(&X, 0, sizeof(X));
	X.w = W;
}

static inline uint32_t *vreg(unsigned half, unsigned r)
{
	return (uint32_t *)&W->v[half * NVGPR + r];
}

/* v<dst> = op v10, v20, v30 (64-bit operands take the next registers too). */
static inline struct isa_insn vop(unsigned dst)
{
	struct isa_insn in = {
		.len = 8,
		.dst = (uint16_t)(OPR_VGPR0 + dst),
		.sdst = OPR_NONE,
		.src = {OPR_VGPR0 + 10, OPR_VGPR0 + 20, OPR_VGPR0 + 30, OPR_NONE},
	};

	return in;
}

/* As isa_run() does: once per half. */
static inline void run(isa_sem *f, const struct isa_insn *in)
{
	for (X.half = 0; X.half < (W->wave64 ? 2u : 1u); X.half++)
		f(&X, in);
	X.half = 0;
}

static inline void run_once(isa_sem *f, const struct isa_insn *in)
{
	X.half = 0;
	f(&X, in);
}

static uint64_t rng_state = 88172645463325252ull;

static uint32_t rnd(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 16);
}

/* Integers near the corners now and then. */
static inline uint32_t rnd_int(void)
{
	static const uint32_t corner[] = {0,          1,         2,        31,       32,
					  0x7f,       0x80,      0xff,     0x7fff,   0x8000,
					  0xffff,     0x7fffff,  0x800000, 0xffffff, 0x7fffffff,
					  0x80000000, 0xffffffff};

	return rnd() % 3 ? rnd() : corner[rnd() % (sizeof(corner) / sizeof(*corner))];
}

static inline uint32_t rnd_f32(void)
{
	static const uint32_t corner[] = {
		0,          0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x7f800000, 0xff800000,
		0x7fc00000, 0x7fa00001, 0xffc12345, 1,          0x80000001, 0x007fffff, 0x00800000,
		0x7f7fffff, 0xcf000000, 0x4f000000, 0x4f800000, 0x3effffff, 0x40200000};

	switch (rnd() % 3) {
	case 0:
		return corner[rnd() % (sizeof(corner) / sizeof(*corner))];
	case 1: /* of moderate size */
		return (rnd() & 0x807fffff) | (120 + rnd() % 16) << 23;
	}
	return rnd();
}

static inline uint32_t rnd_f16(void)
{
	static const uint16_t corner[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00,
					  0x7d01, 1,      0x8001, 0x03ff, 0x0400, 0x7bff, 0x3bff};

	return (rnd() & 0xffff0000) |
	       (rnd() % 3 ? rnd() & 0xffff : corner[rnd() % (sizeof(corner) / sizeof(*corner))]);
}

static inline void fill_regs(unsigned r, unsigned n, uint32_t (*gen)(void))
{
	for (unsigned h = 0; h < 2; h++)
		for (unsigned i = 0; i < n; i++)
			for (unsigned l = 0; l < 32; l++)
				vreg(h, r + i)[l] = gen();
}

static inline float f32(uint32_t u)
{
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static inline uint32_t bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static inline double f64(uint32_t lo, uint32_t hi)
{
	uint64_t u = lo | (uint64_t)hi << 32;
	double d;

	memcpy(&d, &u, 8);
	return d;
}

static inline bool nan32(uint32_t u)
{
	return (u & 0x7fffffff) > 0x7f800000;
}

static inline bool same_f32(uint32_t got, uint32_t want)
{
	return got == want || (nan32(got) && nan32(want));
}

static inline bool same_f16(uint32_t got, uint32_t want)
{
	return (got & 0xffff) == (want & 0xffff) ||
	       ((got & 0x7fff) > 0x7c00 && (want & 0x7fff) > 0x7c00);
}

#endif
