/* The VA manager: placement, merging, exhaustion, and a random walk against a plain model. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "memory/va.h"

#define BASE 0x200000000000ull
#define K4   4096ull
#define G1   (1ull << 30)

static struct va_space *space(uint64_t size)
{
	struct va_space *s = NULL;

	cr_assert_eq(va_space_create(BASE, size, &s), 0);
	return s;
}

Test(va, bad_window)
{
	struct va_space *s = (void *)1;

	cr_expect_eq(va_space_create(BASE, 0, &s), -EINVAL);
	cr_expect_eq(va_space_create(BASE + 1, K4, &s), -EINVAL);
	cr_expect_eq(va_space_create(BASE, K4 + 1, &s), -EINVAL);
	cr_expect_eq(va_space_create(~0ull - K4 + 1, 2 * K4, &s), -EINVAL);
	cr_expect_eq(s, (void *)1, "output touched on failure");
}

Test(va, bad_arguments)
{
	struct va_space *s = space(G1);
	uint64_t at = 7;

	cr_expect_eq(va_alloc(s, 0, K4, &at), -EINVAL);
	cr_expect_eq(va_alloc(s, K4 - 1, K4, &at), -EINVAL);
	cr_expect_eq(va_alloc(s, K4, 2048, &at), -EINVAL);
	cr_expect_eq(va_alloc(s, K4, 3 * K4, &at), -EINVAL);
	cr_expect_eq(va_alloc(s, K4, 2 * G1, &at), -EINVAL);
	cr_expect_eq(at, 7);
	cr_expect_eq(va_alloc_at(s, BASE + 1, K4), -EINVAL);
	cr_expect_eq(va_alloc_at(s, BASE - K4, K4), -ERANGE);
	cr_expect_eq(va_alloc_at(s, BASE + G1, K4), -ERANGE);
	cr_expect_eq(va_alloc_at(s, BASE + G1 - K4, 2 * K4), -ERANGE);
	cr_expect_eq(va_free(s, BASE), -EINVAL);
	cr_expect_eq(va_free_bytes(s), G1);
	va_space_destroy(s);
}

Test(va, alignments)
{
	struct va_space *s = space(64 * G1);

	for (uint64_t align = K4; align <= G1; align *= 2) {
		uint64_t at;

		cr_assert_eq(va_alloc(s, K4, align, &at), 0);
		cr_expect_eq(at & (align - 1), 0, "align 0x%llx gave 0x%llx",
			     (unsigned long long)align, (unsigned long long)at);
	}
	va_space_destroy(s);
}

Test(va, alignment_padding_stays_free)
{
	struct va_space *s = space(4 * G1);
	uint64_t a, b, c;

	cr_assert_eq(va_alloc(s, K4, K4, &a), 0);
	cr_assert_eq(va_alloc(s, K4, G1, &b), 0);
	cr_expect_eq(b, BASE + G1);
	/* The hole before the aligned range is used next. */
	cr_assert_eq(va_alloc(s, K4, K4, &c), 0);
	cr_expect_eq(c, BASE + K4);
	va_space_destroy(s);
}

Test(va, exhaustion_and_full_merge)
{
	struct va_space *s = space(64 * K4);
	uint64_t at[64], none = 7;

	for (unsigned i = 0; i < 64; i++)
		cr_assert_eq(va_alloc(s, K4, K4, &at[i]), 0);
	cr_expect_eq(va_free_bytes(s), 0);
	cr_expect_eq(va_hole_count(s), 0);
	cr_expect_eq(va_alloc(s, K4, K4, &none), -ENOSPC);
	cr_expect_eq(none, 7);
	/* Every second one: half is free, but no two pages together. */
	for (unsigned i = 0; i < 64; i += 2)
		cr_assert_eq(va_free(s, at[i]), 0);
	cr_expect_eq(va_hole_count(s), 32);
	cr_expect_eq(va_largest_hole(s), K4);
	cr_expect_eq(va_alloc(s, 2 * K4, K4, &none), -ENOSPC);
	for (unsigned i = 1; i < 64; i += 2)
		cr_assert_eq(va_free(s, at[i]), 0);
	cr_expect_eq(va_hole_count(s), 1);
	cr_expect_eq(va_largest_hole(s), 64 * K4);
	cr_expect_eq(va_free(s, at[0]), -EINVAL, "double free taken");
	va_space_destroy(s);
}

Test(va, wanted_base)
{
	struct va_space *s = space(16 * K4);
	uint64_t at;

	cr_assert_eq(va_alloc_at(s, BASE + 4 * K4, 4 * K4), 0);
	cr_expect_eq(va_alloc_at(s, BASE + 4 * K4, K4), -EADDRINUSE);
	cr_expect_eq(va_alloc_at(s, BASE + 7 * K4, 2 * K4), -EADDRINUSE);
	cr_expect_eq(va_alloc_at(s, BASE + 3 * K4, 2 * K4), -EADDRINUSE);
	cr_assert_eq(va_alloc_at(s, BASE + 8 * K4, K4), 0);
	cr_assert_eq(va_alloc(s, 4 * K4, K4, &at), 0);
	cr_expect_eq(at, BASE);
	cr_assert_eq(va_alloc(s, 7 * K4, K4, &at), 0);
	cr_expect_eq(at, BASE + 9 * K4);
	cr_expect_eq(va_alloc_at(s, BASE, K4), -EADDRINUSE);
	va_space_destroy(s);
}

static uint64_t rng_state = 0x9e3779b97f4a7c15ull;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

/* Holes and live ranges tile the window, in order, no two holes touching. */
static void check_tiling(const struct va_space *s, uint64_t base, uint64_t size)
{
	unsigned h = 0, l = 0;
	uint64_t at = base, holes = 0;
	int last_hole = 0;

	while (at < base + size) {
		const struct va_range *hole = va_hole(s, h), *live = va_live(s, l);

		if (hole && hole->start == at) {
			cr_assert(!last_hole, "two holes meet at 0x%llx", (unsigned long long)at);
			at += hole->size;
			holes += hole->size;
			last_hole = 1;
			h++;
		} else {
			cr_assert(live && live->start == at, "nothing starts at 0x%llx",
				  (unsigned long long)at);
			at += live->size;
			last_hole = 0;
			l++;
		}
	}
	cr_assert_eq(at, base + size);
	cr_assert_eq(h, va_hole_count(s));
	cr_assert_eq(l, va_live_count(s));
	cr_assert_eq(holes, va_free_bytes(s));
}

#define PAGES (1u << 18) /* 1 GiB of pages, one byte of model each */

/* VA_OPS sets another number. */
Test(va, random_operations, .timeout = 300)
{
	const char *env = getenv("VA_OPS");
	uint64_t ops = env ? strtoull(env, NULL, 0) : 1000000, failed = 0, at_ops = 0;
	unsigned char *used = calloc(PAGES, 1);
	struct {
		uint64_t start, size;
	} *live = calloc(ops + 1, sizeof(*live));
	uint64_t nlive = 0;
	struct va_space *s = space(PAGES * K4);

	for (uint64_t i = 0; i < ops; i++) {
		uint64_t r = rng();

		/* Fills up in one half of the walk and drains in the other. */
		if (nlive && r % 100 < (i / 8192 % 2 ? 65 : 35)) {
			uint64_t k = rng() % nlive, first = (live[k].start - BASE) / K4;

			cr_assert_eq(va_free(s, live[k].start), 0);
			for (uint64_t p = 0; p < live[k].size / K4; p++)
				used[first + p] = 0;
			live[k] = live[--nlive];
		} else {
			uint64_t size = (1 + rng() % (r % 16 ? 64 : 4096)) * K4;
			uint64_t align = K4 << (rng() % (r % 8 ? 4 : 19)), start = 0;
			int rc;

			if (r % 10 == 9) {
				start = BASE + rng() % PAGES * K4;
				rc = va_alloc_at(s, start, size);
				at_ops++;
				align = K4;
			} else {
				rc = va_alloc(s, size, align, &start);
			}
			if (rc < 0) {
				failed++;
				/* What was refused really did not fit. */
				if (rc == -EADDRINUSE) {
					unsigned char any = 0;

					for (uint64_t p = 0; p < size / K4; p++)
						any |= used[(start - BASE) / K4 + p];
					cr_assert(any, "a free range was refused");
				} else if (rc == -ENOSPC) {
					cr_assert(align > K4 || va_largest_hole(s) < size,
						  "0x%llx bytes refused with a hole of 0x%llx",
						  (unsigned long long)size,
						  (unsigned long long)va_largest_hole(s));
				} else {
					cr_assert_eq(rc, -ERANGE);
				}
				continue;
			}
			cr_assert_eq(start & (align - 1), 0);
			cr_assert(start >= BASE && start + size <= BASE + PAGES * K4);
			for (uint64_t p = 0; p < size / K4; p++) {
				cr_assert_eq(used[(start - BASE) / K4 + p], 0, "overlap");
				used[(start - BASE) / K4 + p] = 1;
			}
			live[nlive].start = start;
			live[nlive++].size = size;
		}
		if (i % 4096 == 0)
			check_tiling(s, BASE, PAGES * K4);
	}
	check_tiling(s, BASE, PAGES * K4);
	cr_expect(failed > 0 && at_ops > 0, "the walk never met a full window");
	while (nlive)
		cr_assert_eq(va_free(s, live[--nlive].start), 0);
	cr_expect_eq(va_hole_count(s), 1);
	cr_expect_eq(va_free_bytes(s), PAGES * K4);
	va_space_destroy(s);
	free(live);
	free(used);
}

/* Room before and after belongs to the range; nobody else gets any of it. */
Test(va, guards_are_part_of_the_range)
{
	struct va_space *s = space(64 * K4);
	struct va_want w = {.size = 2 * K4, .align = 8 * K4, .before = K4, .after = 3 * K4};
	uint64_t a, b;

	cr_assert_eq(va_alloc_placed(s, &w, NULL, &a), 0);
	cr_expect_eq(a, BASE + 8 * K4, "the lowest multiple with a page before it");
	cr_expect_eq(va_live(s, 0)->start, a - K4);
	cr_expect_eq(va_live(s, 0)->size, 6 * K4);
	cr_expect_eq(va_alloc_at(s, a - K4, K4), -EADDRINUSE);
	cr_expect_eq(va_alloc_at(s, a + 4 * K4, K4), -EADDRINUSE);
	cr_expect_eq(va_free(s, a), -EINVAL);
	cr_assert_eq(va_free(s, a - K4), 0);
	cr_expect_eq(va_hole_count(s), 1);
	w.before = 62 * K4;
	cr_expect_eq(va_alloc_placed(s, &w, NULL, &b), -ENOSPC);
	w.before = UINT64_MAX - K4 + 1;
	cr_expect_eq(va_alloc_placed(s, &w, NULL, &b), -ENOSPC, "an overflow is no room");
	va_space_destroy(s);
}

/* Every aligned address is drawn, about equally often, whatever hole it lies in. */
Test(va, random_is_uniform_over_the_aligned_addresses)
{
	enum { SLOTS = 16, DRAWS = 16000 };
	struct va_space *s = space(SLOTS * 4 * K4);
	unsigned hits[SLOTS] = {0}, possible = 0;
	uint64_t rng = 1, at;

	/* Two holes and something between them. */
	cr_assert_eq(va_alloc_at(s, BASE + 20 * K4, 7 * K4), 0);
	for (int i = 0; i < DRAWS; i++) {
		cr_assert_eq(va_alloc_placed(s, &(struct va_want){.size = K4, .align = 4 * K4},
					     &rng, &at),
			     0);
		cr_assert_eq(at & (4 * K4 - 1), 0);
		hits[(at - BASE) / (4 * K4)]++;
		cr_assert_eq(va_free(s, at), 0);
	}
	for (int i = 0; i < SLOTS; i++)
		possible += hits[i] != 0;
	cr_expect_eq(possible, SLOTS - 2);
	for (int i = 0; i < SLOTS; i++)
		if (hits[i])
			cr_expect(hits[i] > DRAWS / 14 * 8 / 10 && hits[i] < DRAWS / 14 * 12 / 10,
				  "slot %d: %u", i, hits[i]);
	va_space_destroy(s);
}
