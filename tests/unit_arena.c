/* Arenas: placement, red zones, poison, quarantine. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/arena.h"
#include "memory/rules.h"

#define BASE 0x200000000000ull
#define SIZE 65536u

static uint8_t host[SIZE];
static struct bo_rules rules;
static struct arena *a;

static void make(const struct arena_opts *o)
{
	cr_assert_eq(arena_create(BASE, SIZE, host, o, &a), 0);
}

static uint64_t take(const char *owner, uint64_t bytes, uint64_t align)
{
	uint64_t va = 0;

	cr_assert_eq(arena_alloc(a, owner, bytes, align, &va), 0, "%s", owner);
	return va;
}

static uint8_t *at(uint64_t va)
{
	return host + (va - BASE);
}

static void rule(const char *option, const char *value)
{
	char why[256];

	cr_assert_eq(bo_rules_add(&rules, option, value, why, sizeof(why)), 0, "%s", why);
}

Test(arena, alignment_and_accounts)
{
	uint64_t x, y, z;

	make(NULL);
	x = take("x", 100, 0);
	y = take("y", 1, 4096);
	z = take("z", 1, 1);
	cr_expect_eq(x, BASE);
	cr_expect_eq(y, BASE + 4096);
	cr_expect_eq(z, BASE + 112, "lowest place at a multiple of 16");
	cr_expect_eq(arena_used(a), 102);
	cr_expect_eq(arena_taken(a), 112 + 16 + 16);
	cr_expect_eq(arena_count(a), 3);
	cr_expect_eq(arena_free(a, y + 1), -EINVAL);
	cr_expect_eq(arena_free(a, x) | arena_free(a, y) | arena_free(a, z), 0);
	cr_expect_eq(arena_free(a, x), -EINVAL, "twice");
	cr_expect_eq(arena_taken(a), 0);
	cr_expect_eq(take("all", SIZE, 0), BASE, "everything has merged again");
	cr_expect_eq(arena_alloc(a, "more", 1, 0, &x), -ENOSPC);
	arena_destroy(a);
}

Test(arena, bad_arguments)
{
	uint64_t va = 7;

	cr_expect_eq(arena_create(BASE + 1, SIZE, host, NULL, &a), -EINVAL);
	cr_expect_eq(arena_create(BASE, SIZE, host, &(struct arena_opts){.align = 24}, &a),
		     -EINVAL);
	cr_expect_eq(arena_create(BASE, SIZE, host, &(struct arena_opts){.redzone = 8}, &a),
		     -EINVAL);
	make(NULL);
	cr_expect_eq(arena_alloc(a, "none", 0, 0, &va), -EINVAL);
	cr_expect_eq(arena_alloc(a, "big", SIZE + 1, 0, &va), -ENOSPC);
	cr_expect_eq(va, 7, "untouched on failure");
	arena_destroy(a);
}

Test(arena, a_write_one_byte_past_or_before_is_found)
{
	const struct arena_opts o = {.redzone = 64};
	struct arena_damage d;
	uint64_t x, y;

	make(&o);
	x = take("x", 100, 0);
	y = take("y", 256, 0);
	memset(at(x), 0, 100);
	memset(at(y), 0, 256);
	cr_expect_eq(arena_check(a, &d), 0);
	*at(x + 100) ^= 1;
	cr_assert_eq(arena_check(a, &d), 1);
	cr_expect_str_eq(d.owner, "x");
	cr_expect_eq(d.at, x + 100);
	cr_expect_eq(d.found, d.wanted ^ 1);
	cr_expect_eq(d.changed, 1);
	*at(x + 100) ^= 1;
	*at(y - 1) ^= 0x80;
	*at(y + 256 + 63) ^= 0x80;
	cr_assert_eq(arena_check(a, &d), 1);
	cr_expect_str_eq(d.owner, "y");
	cr_expect_eq(d.at, y - 1);
	cr_expect_eq(d.changed, 2);
	/* A freed part's surroundings are nobody's business any more. */
	cr_expect_eq(arena_free(a, y), 0);
	cr_expect_eq(arena_check(a, NULL), 0);
	arena_destroy(a);
}

Test(arena, rules_by_owner)
{
	const struct arena_opts o = {.rules = &rules};
	uint64_t x, y;

	rule("align", "partial_max=4096");
	rule("redzone", "partial_*=16");
	rule("poison", "0xcb");
	make(&o);
	memset(host, 0, sizeof(host));
	x = take("other", 48, 0);
	y = take("partial_max", 48, 256);
	cr_expect_eq(x, BASE);
	cr_expect_eq(y, BASE + 4096);
	cr_expect_eq(*at(x), 0xcb);
	cr_expect_eq(*at(x + 47), 0xcb);
	cr_expect_eq(*at(x + 48), 0);
	cr_expect_eq(*at(y - 16), zone_byte(y - 16));
	cr_expect_eq(arena_free(a, y), 0);
	cr_expect_eq(*at(y), 0x34);
	arena_destroy(a);
}

Test(arena, quarantine_delays_reuse_and_ends_before_failure)
{
	const struct arena_opts o = {.rules = &rules};
	struct arena_part p;
	uint64_t x, y;

	rule("quarantine", "4096");
	make(&o);
	x = take("first", 1024, 0);
	cr_expect_eq(arena_free(a, x), 0);
	y = take("second", 1024, 0);
	cr_expect_neq(y, x, "the place was given out again at once");
	cr_assert(arena_who(a, x + 5, &p));
	cr_expect(!p.alive && !strcmp(p.owner, "first") && p.generation == 1);
	cr_expect_eq(arena_free(a, y), 0);
	cr_expect_eq(take("all", SIZE, 0), BASE);
	arena_destroy(a);
}

Test(arena, random_places_repeat_with_their_seed_and_never_overlap)
{
	enum { N = 40 };
	const struct arena_opts o = {.rules = &rules, .random = true, .redzone = 16};
	uint64_t first[N], va[N];

	rule("va-seed", "3");
	for (int round = 0; round < 2; round++) {
		make(&o);
		for (int i = 0; i < N; i++) {
			va[i] = take("part", 300, 64);
			cr_expect_eq(va[i] & 63, 0);
			for (int j = 0; j < i; j++)
				cr_expect(va[i] + 300 + 16 <= va[j] || va[j] + 300 + 16 <= va[i]);
		}
		cr_expect_eq(arena_check(a, NULL), 0);
		arena_destroy(a);
		if (!round)
			memcpy(first, va, sizeof(va));
	}
	cr_expect_eq(memcmp(first, va, sizeof(va)), 0);
}

/* What rules say of one part's place holds inside an arena too. */
Test(arena, a_place_by_rule)
{
	static struct bo_rules r;
	struct arena_opts o = {.rules = &r, .redzone = 64};
	char why[128];
	uint64_t va;

	cr_assert_eq(bo_rules_add(&r, "place", "there=at:0x8000", why, sizeof(why)), 0);
	cr_assert_eq(bo_rules_add(&r, "place", "outside=at:0x100000", why, sizeof(why)), 0);
	cr_assert_eq(bo_rules_add(&r, "place", "edge=at:0x1000", why, sizeof(why)), 0);
	cr_assert_eq(bo_rules_add(&r, "place", "some=random", why, sizeof(why)), 0);
	r.seed = 9;
	cr_assert_eq(arena_create(0x1000, 0x10000, NULL, &o, &a), 0);
	cr_assert_eq(arena_alloc(a, "there", 100, 0, &va), 0);
	cr_expect_eq(va, 0x8000);
	cr_expect_eq(arena_alloc(a, "there", 100, 0, &va), -EADDRINUSE);
	cr_expect_eq(arena_alloc(a, "outside", 100, 0, &va), -ERANGE);
	cr_expect_eq(arena_alloc(a, "edge", 100, 0, &va), -ERANGE, "no room for its red zone");
	cr_assert_eq(arena_alloc(a, "lowest", 100, 0, &va), 0);
	cr_expect_eq(va, 0x1100);
	cr_assert_eq(arena_alloc(a, "some", 100, 0, &va), 0);
	cr_expect_neq(va, 0x1200, "random, with this seed");
}

Test(arena, no_host_no_canaries)
{
	const struct arena_opts o = {.redzone = 64};

	cr_assert_eq(arena_create(BASE, SIZE, NULL, &o, &a), 0);
	cr_expect_eq(take("x", 10, 0), BASE + 256);
	cr_expect_eq(arena_check(a, NULL), 0);
	arena_destroy(a);
}
