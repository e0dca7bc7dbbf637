/* Page tables by address. */
#include <criterion/criterion.h>

#include "memory/tables.h"

#define KIB  (1ull << 10)
#define MIB  (1ull << 20)
#define GIB  (1ull << 30)
#define HERE 0x200000000000ull /* a multiple of 512 GiB */

static struct mem_tables *t;
static uint64_t start;

static void make(uint64_t piece)
{
	cr_assert_eq(mem_tables_create(piece, &t), 0);
	start = mem_tables_bytes(t);
}

static void fini(void)
{
	mem_tables_destroy(t);
}

TestSuite(tables, .fini = fini);

static unsigned more(void)
{
	return (unsigned)((mem_tables_bytes(t) - start) / 4096);
}

static void map(uint64_t va, uint64_t size)
{
	cr_assert_eq(mem_tables_map(t, va, size), 0);
}

Test(tables, an_empty_address_space)
{
	/* Root, two directories, the trap handler's table; the sequence numbers are a whole 2 MiB. */
	make(MEM_PIECE_LARGEST);
	cr_expect_eq(start, 4 * 4096u);
	mem_tables_destroy(t);
	make(MEM_PIECE_LEAST);
	cr_expect_eq(start, 5 * 4096u);
}

Test(tables, single_pages)
{
	make(MEM_PIECE_LEAST);
	map(HERE, 4 * KIB);
	cr_expect_eq(more(), 3);
	map(HERE + MIB, MIB); /* beside it */
	cr_expect_eq(more(), 3);
	map(HERE + 2 * MIB, 4 * MIB);
	cr_expect_eq(more(), 5);
	map(HERE + GIB - 4 * KIB, 8 * KIB); /* both sides of 1 GiB */
	cr_expect_eq(more(), 8);
	map(HERE + 512 * GIB - 4 * KIB, 8 * KIB); /* and of 512 GiB */
	cr_expect_eq(more(), 8 + 2 + 3);
}

Test(tables, whole_2_mib_need_none)
{
	make(MEM_PIECE_LARGEST);
	map(HERE, 4 * MIB);
	cr_expect_eq(more(), 2, "two directories");
	/* 4 MiB + 2 MiB + 1 MiB + 512 KiB: the last two share a table. */
	map(HERE + 8 * MIB, 7 * MIB + 512 * KIB);
	cr_expect_eq(more(), 3);
	/* Shifted by a page, 4 MiB hold one whole 2 MiB and touch two others. */
	map(HERE + 64 * MIB + 4 * KIB, 4 * MIB);
	cr_expect_eq(more(), 5);
	/* Shifted pieces do not join: 8 MiB hold two of them, and three are cut. */
	map(HERE + 128 * MIB + 4 * KIB, 8 * MIB);
	cr_expect_eq(more(), 8);
	/* Pieces of 1 MiB and less hold none. */
	map(HERE + 256 * MIB, 2 * MIB - 4 * KIB);
	cr_expect_eq(more(), 9);
}

Test(tables, what_unmapping_gives_back)
{
	make(MEM_PIECE_LEAST);
	map(HERE, 4 * KIB);
	mem_tables_unmap(t, HERE, 4 * KIB);
	cr_expect_eq(more(), 3, "others might use it");
	map(HERE, 6 * MIB + 4 * KIB);
	cr_expect_eq(more(), 6);
	mem_tables_unmap(t, HERE, 6 * MIB + 4 * KIB);
	cr_expect_eq(more(), 3, "three were covered whole, the fourth was not");
	map(HERE + GIB, 2 * GIB);
	cr_expect_eq(more(), 3 + 2 + 1024);
	mem_tables_unmap(t, HERE + GIB, 2 * GIB);
	cr_expect_eq(more(), 3, "directories too");
}

Test(tables, an_entry_takes_the_place_of_a_table)
{
	make(MEM_PIECE_LARGEST);
	map(HERE, MIB);
	cr_expect_eq(more(), 3);
	mem_tables_unmap(t, HERE, MIB);
	map(HERE, 2 * MIB);
	cr_expect_eq(more(), 2);
	mem_tables_unmap(t, HERE, 2 * MIB);
	cr_expect_eq(more(), 2);
}
