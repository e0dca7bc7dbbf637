/* The ledger: accounts by owner, and names for addresses, alive or dead. */
#include <criterion/criterion.h>
#include <string.h>

#include "memory/ledger.h"

static struct ledger *l;
static uint32_t generation;

static void setup(void)
{
	cr_assert_eq(ledger_create(0, &l), 0);
	generation = 0;
}

static void teardown(void)
{
	ledger_destroy(l);
}

TestSuite(ledger, .init = setup, .fini = teardown);

static struct ledger_record enter(const char *owner, uint64_t va, uint64_t size)
{
	struct ledger_record r = {
		.va = va, .size = size, .kind = LEDGER_ALLOC, .generation = ++generation};

	cr_assert_eq(ledger_reserve(l, 4), 0);
	r.owner = ledger_owner(l, owner);
	cr_assert_not_null(r.owner);
	ledger_enter(l, &r);
	r.kind = LEDGER_MAP;
	ledger_enter(l, &r);
	return r;
}

static void leave(struct ledger_record r)
{
	r.kind = LEDGER_UNMAP;
	ledger_enter(l, &r);
	r.kind = LEDGER_FREE;
	ledger_enter(l, &r);
}

Test(ledger, live_and_peak_by_owner)
{
	struct ledger_record a = enter("kv", 0x1000, 0x1000), b = enter("kv", 0x4000, 0x2000), c;
	struct memory_usage u[4];

	leave(a);
	c = enter("ring", 0x1000, 0x4000);
	cr_expect_eq(ledger_usage(l, u, 4), 2);
	cr_expect_str_eq(u[0].owner, "kv");
	cr_expect_eq(u[0].live, 0x2000);
	cr_expect_eq(u[0].peak, 0x3000);
	cr_expect_eq(u[0].count, 1);
	cr_expect_eq(u[1].live, 0x4000);
	cr_expect_eq(ledger_live(l), 0x6000);
	cr_expect_eq(ledger_peak(l), 0x6000);
	leave(b);
	leave(c);
	cr_expect_eq(ledger_live(l), 0);
	cr_expect_eq(ledger_peak(l), 0x6000);
	/* Owners stay, for their peaks. */
	cr_expect_eq(ledger_usage(l, NULL, 0), 2);
}

Test(ledger, owner_names_are_copies)
{
	char name[] = "weights";
	struct ledger_record a = enter(name, 0x1000, 0x1000);
	struct ledger_hit h;

	memset(name, 'x', 7);
	cr_expect_str_eq(a.owner, "weights");
	cr_assert(ledger_find(l, 0x1000, false, &h));
	cr_expect_str_eq(h.owner, "weights");
	cr_expect_eq(ledger_owner(l, "weights"), a.owner, "the same name twice");
}

Test(ledger, addresses)
{
	struct ledger_record old = enter("old", 0x10000, 0x8000);
	struct ledger_hit h = {.owner = "untouched"};

	leave(old);
	enter("new", 0x10000, 0x1000);
	enter("other", 0x40000, 0x1000);
	cr_assert(ledger_find(l, 0x10fff, false, &h));
	cr_expect(h.alive && !strcmp(h.owner, "new") && h.offset == 0xfff);
	cr_assert(ledger_find(l, 0x11000, false, &h));
	cr_expect(!h.alive && !strcmp(h.owner, "old") && h.offset == 0x1000 && h.generation == 1);
	h.owner = "untouched";
	cr_expect_not(ledger_find(l, 0x18000, false, &h));
	cr_expect_not(ledger_find(l, 0xffff, false, &h));
	cr_expect_not(ledger_find(l, 0xffff, true, &h), "nothing lies below");
	cr_expect_str_eq(h.owner, "untouched");
	/* Past an end: the closest end below. */
	cr_assert(ledger_find(l, 0x18000, true, &h));
	cr_expect(!strcmp(h.owner, "old") && h.offset == h.size);
	cr_assert(ledger_find(l, 0x50000, true, &h));
	cr_expect(!strcmp(h.owner, "other") && h.offset - h.size == 0xf000);
	/* A name for an address inside beats any neighbour. */
	cr_assert(ledger_find(l, 0x40800, true, &h));
	cr_expect(!strcmp(h.owner, "other") && h.alive);
}

Test(ledger, the_last_life_counts)
{
	struct ledger_hit h;

	for (int i = 0; i < 5; i++)
		leave(enter(i == 4 ? "last" : "earlier", 0x10000, 0x1000));
	cr_assert(ledger_find(l, 0x10000, false, &h));
	cr_expect_str_eq(h.owner, "last");
	cr_expect_eq(h.generation, 5);
}

Test(ledger, never_forgets)
{
	enum { N = 3000 };
	struct ledger_record r[8];
	struct ledger_hit h;

	for (uint64_t i = 0; i < N; i++)
		leave(enter("transient", 0x100000 + i * 0x1000, 0x1000));
	cr_expect_eq(ledger_read(l, 0, NULL, 0), 4 * N);
	cr_expect_eq(ledger_read(l, 4 * N - 3, r, 8), 4 * N);
	cr_expect_eq(r[0].kind, LEDGER_MAP);
	cr_expect_eq(r[1].kind, LEDGER_UNMAP);
	cr_expect_eq(r[2].kind, LEDGER_FREE);
	cr_expect_eq(r[2].va, 0x100000 + (N - 1) * 0x1000);
	cr_assert(ledger_find(l, 0x100000 + 7 * 0x1000 + 5, false, &h));
	cr_expect_eq(h.generation, 8);
	cr_expect_eq(ledger_read(l, 4 * N + 10, r, 8), 4 * N);
}
