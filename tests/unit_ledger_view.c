/* Reading a ledger: the account it gives, duplicates, and inputs that are no ledger. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/ledger_view.h"

static struct {
	struct ledger_header h;
	char pad[LEDGER_HEADER_BYTES - sizeof(struct ledger_header)];
	struct ledger_entry e[64];
} image;
static struct ledger_view *v;
static char why[256];

static void start(void)
{
	memcpy(image.h.magic, LEDGER_MAGIC, 8);
	image.h.version = LEDGER_VERSION;
	image.h.header_bytes = LEDGER_HEADER_BYTES;
	image.h.entry_bytes = sizeof(struct ledger_entry);
	image.h.start_ns = 1000;
}

TestSuite(view, .init = start);

static struct ledger_entry *put(uint32_t kind, uint32_t owner)
{
	struct ledger_entry *e = &image.e[image.h.count++];

	e->kind = kind;
	e->owner = owner;
	return e;
}

static void name(uint32_t owner, const char *s)
{
	strncpy(put(LEDGER_OWNER, owner)->name, s, LEDGER_NAME_BYTES - 1);
}

static struct ledger_entry *bo(uint32_t kind, uint32_t owner, uint32_t generation, uint64_t va,
			       uint64_t size)
{
	struct ledger_entry *e = put(kind, owner);

	e->generation = generation;
	e->va = va;
	e->size = size;
	e->ns = 1000 + image.h.count * 10;
	return e;
}

static int parse(void)
{
	return ledger_view_parse(&image, sizeof(image), &v, why, sizeof(why));
}

Test(view, accounts_and_the_curve)
{
	name(0, "kv");
	bo(LEDGER_ALLOC, 0, 1, 0x10000, 4096);
	bo(LEDGER_MAP, 0, 1, 0x10000, 4096);
	name(1, "a name that is longer than fifty-six bytes, so it goes on i");
	memset(image.e[3].name, 'n', LEDGER_NAME_BYTES);
	strcpy(put(LEDGER_MORE, 1)->name, "tail");
	bo(LEDGER_ALLOC, 1, 2, 0x20000, 8192);
	bo(LEDGER_FREE, 0, 1, 0x10000, 4096);
	bo(LEDGER_IMPORT, 0, 3, 0x10000, 4096);
	cr_assert_eq(parse(), 0, "%s", why);
	cr_assert_eq(v->n_usage, 2);
	cr_expect_eq(strlen(v->usage[1].owner), LEDGER_NAME_BYTES + 4);
	cr_expect(v->usage[0].live == 4096 && v->usage[0].peak == 4096 && v->usage[0].count == 1 &&
		  v->usage[0].allocs == 2);
	cr_expect_eq(v->live, 12288);
	cr_expect_eq(v->peak, 12288);
	cr_assert_eq(v->n_bos, 3);
	cr_expect(v->bos[0].died_ns && !v->bos[1].died_ns && v->bos[2].imported);
	cr_assert_eq(v->n_points, 4);
	cr_expect_eq(v->points[2].live, 8192);
	cr_expect_eq(v->points[0].ns, 20);
	ledger_view_free(v);
}

Test(view, resident_twice)
{
	struct view_duplicate d[4];

	name(0, "weights");
	name(1, "blk.0.attn_q");
	name(2, "blk.0.attn_k");
	bo(LEDGER_ALLOC, 0, 1, 0x10000, 8192);
	bo(LEDGER_ALLOC, 0, 2, 0x20000, 8192);
	bo(LEDGER_ALLOC, 0, 3, 0x30000, 8192);
	bo(LEDGER_PLACE, 1, 1, 0x10000, 64)->identity = 7;
	bo(LEDGER_PLACE, 2, 1, 0x10100, 64)->identity = 8;
	bo(LEDGER_PLACE, 1, 2, 0x20000, 64)->identity = 7;
	bo(LEDGER_PLACE, 1, 2, 0x20000, 64)->identity = 7; /* the same place, said again */
	bo(LEDGER_PLACE, 2, 3, 0x30000, 64)->identity = 8;
	bo(LEDGER_FREE, 0, 3, 0x30000, 8192);              /* gone: no duplicate any more */
	bo(LEDGER_PLACE, 1, 1, 0x11000, 64)->identity = 0; /* no identity, no duplicate */
	bo(LEDGER_PLACE, 1, 1, 0x11100, 64)->identity = 0;
	cr_assert_eq(parse(), 0, "%s", why);
	cr_assert_eq(ledger_view_duplicates(v, d, 4), 1);
	cr_expect_str_eq(v->usage[d[0].first->name].owner, "blk.0.attn_q");
	cr_expect_eq(d[0].first->va, 0x10000);
	cr_expect_eq(d[0].again->va, 0x20000);
	ledger_view_free(v);
}

Test(view, uses)
{
	static const struct {
		uint32_t uses;
		enum view_use use;
	} want[] = {
		{0, VIEW_UNKNOWN},
		{LEDGER_USE_HOST_WRITES, VIEW_UNKNOWN},
		{LEDGER_USE_HOST_WRITES | LEDGER_USE_HOST_DECLARED, VIEW_UNKNOWN},
		/* read and written, whatever else happens */
		{LEDGER_USE_HOST_WRITES | LEDGER_USE_DEVICE_READS, VIEW_USED},
		{LEDGER_USE_HOST_WRITES | 48, VIEW_NEVER_READ},
		{LEDGER_USE_DEVICE_WRITES | 48, VIEW_NEVER_READ},
		{LEDGER_USE_DEVICE_READS | 48, VIEW_NEVER_WRITTEN},
		{48, VIEW_UNTOUCHED},
	};
	const uint32_t n = sizeof(want) / sizeof(want[0]);

	name(0, "kv");
	for (uint32_t i = 0; i < n; i++) {
		bo(LEDGER_ALLOC, 0, i + 1, 0x10000 * (i + 1), 4096);
		/* said in two parts: both count */
		bo(LEDGER_USE, 0, i + 1, 0x10000 * (i + 1), 4096)->uses = want[i].uses & 48;
		bo(LEDGER_USE, 0, i + 1, 0x10000 * (i + 1), 4096)->uses = want[i].uses & 15;
	}
	bo(LEDGER_EXPORT, 0, n, 0x10000 * n, 4096); /* others may do anything with it */
	image.h.version = 2;
	cr_assert_eq(parse(), 0, "%s", why);
	for (uint32_t i = 0; i < n - 1; i++)
		cr_expect_eq(ledger_view_use(&v->bos[i]), want[i].use, "%u", i);
	cr_expect_eq(ledger_view_use(&v->bos[n - 1]), VIEW_UNKNOWN);
	v->bos[n - 1].exports = 0;
	cr_expect_eq(ledger_view_use(&v->bos[n - 1]), want[n - 1].use);
	ledger_view_free(v);
	/* Version 1 has no such entries, and version 2 no such bits. */
	image.h.version = 1;
	cr_expect_eq(parse(), -EINVAL);
	cr_expect(strstr(why, "in version 2"), "%s", why);
	image.h.version = 2;
	bo(LEDGER_USE, 0, 1, 0x10000, 4096)->uses = 64;
	cr_expect_eq(parse(), -EINVAL);
}

/* Version 3: where the bytes asked for begin, and when the copy was taken. */
Test(view, the_first_byte_and_the_end)
{
	name(0, "kv");
	bo(LEDGER_ALLOC, 0, 1, 0x1000, 0x2000)->first = 0xf00;
	image.h.saved_ns = 9000;
	cr_assert_eq(parse(), 0, "%s", why);
	cr_expect_eq(v->bos[0].first, 0xf00);
	cr_expect_eq(v->end_ns, 8000);
	ledger_view_free(v);
	image.h.version = 2;
	cr_assert_eq(parse(), 0, "%s", why);
	cr_expect_eq(v->bos[0].first, 0, "nothing was there in version 2");
	cr_expect_eq(v->end_ns, 20);
	ledger_view_free(v);
	image.h.version = 3;
	image.e[1].first = 0x2000;
	cr_expect_eq(parse(), -EINVAL);
	cr_expect(strstr(why, "first byte 8192; wanted: an offset inside"), "%s", why);
}

Test(view, refusals)
{
	cr_expect_eq(ledger_view_parse(&image, 10, &v, why, sizeof(why)), -EINVAL);
	image.h.count = 65;
	cr_expect_eq(parse(), -EINVAL);
	cr_expect(strstr(why, "65 entries; the file has room for 64"), "%s", why);
	image.h.count = 0;
	image.h.version = 4;
	cr_expect_eq(parse(), -EINVAL);
	image.h.version = 1;
	image.h.entry_bytes = 32;
	cr_expect_eq(parse(), -EINVAL);
	image.h.entry_bytes = 64;
	image.h.magic[0] = 'X';
	cr_expect_eq(parse(), -EINVAL);
	image.h.magic[0] = 'B';

	bo(LEDGER_ALLOC, 0, 1, 0x1000, 4096);
	cr_expect_eq(parse(), -EINVAL, "an owner nobody defined");
	image.h.count = 0;
	name(0, "x");
	bo(LEDGER_FREE, 0, 1, 0x1000, 4096);
	cr_expect_eq(parse(), -EINVAL, "a free of nothing");
	cr_expect(strstr(why, "entry 1: generation 1"), "%s", why);
	image.h.count = 1;
	bo(LEDGER_ALLOC, 0, 1, 0x1000, 4096);
	bo(LEDGER_ALLOC, 0, 1, 0x2000, 4096);
	cr_expect_eq(parse(), -EINVAL, "a generation twice");
	image.h.count = 2;
	bo(LEDGER_FREE, 0, 1, 0x1000, 4096);
	bo(LEDGER_FREE, 0, 1, 0x1000, 4096);
	cr_expect_eq(parse(), -EINVAL, "freed twice");
	image.h.count = 1;
	bo(LEDGER_ALLOC, 0, 1, 0x1000, 1ull << 63);
	bo(LEDGER_FREE, 0, 1, 0x1000, 1ull << 63);
	cr_expect_eq(parse(), -EINVAL, "half of all there is");
	cr_expect(strstr(why, "size 9223372036854775808; wanted: one that fits"), "%s", why);
	image.h.count = 1;
	bo(77, 0, 1, 0, 0);
	cr_expect_eq(parse(), -EINVAL);
}

/* Whatever is in the file, the reader ends with a view or a refusal. */
Test(view, random_bytes)
{
	unsigned parsed = 0;
	uint64_t s = 1;

	name(0, "kv");
	name(1, "x");
	for (uint32_t i = 1; i <= 20; i++)
		bo(i & 1 ? LEDGER_ALLOC : LEDGER_PLACE, i & 1, (i + 1) / 2, i * 4096, 4096);
	for (int round = 0; round < 20000; round++) {
		uint8_t *p = (uint8_t *)&image.e[0];
		uint64_t r = s = s * 6364136223846793005u + 1442695040888963407u;
		size_t at = (r >> 33) % (22 * 64);
		uint8_t old = p[at];

		p[at] = (uint8_t)(r >> 24);
		if (parse() == 0) {
			ledger_view_duplicates(v, NULL, 0);
			ledger_view_free(v);
			parsed++;
		}
		if (round % 3)
			p[at] = old;
		if (round % 500 == 0)
			image.h.count = 22;
	}
	cr_expect(parsed > 0);
}
