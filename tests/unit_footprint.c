/* The footprint's arithmetic: ceilings, what binds, refusals. */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/footprint.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct plan plan;
static struct footprint_machine m;
static struct footprint_host host = {{true, 10 * MIB}, 2 * MIB};
static struct footprint f;
static char text[768];

static void setup(void)
{
	plan.bo[PLAN_WEIGHTS].granted = 1000 * MIB;
	plan.bo[PLAN_KV].granted = 200 * MIB;
	cr_assert_eq(plan_add(&plan, "weights", 1000 * MIB, 1), 0);
	cr_assert_eq(plan_add(&plan, "kv", 200 * MIB, 1), 0);
	cr_assert_eq(plan_add(&plan, "eop", 4096, 1), 0);
	cr_assert_eq(plan_tables(&plan, text, sizeof(text)), 0, "%s", text);
}

TestSuite(footprint, .init = setup);

Test(footprint, nothing_is_known_nothing_binds)
{
	host.now.known = false;
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.device, 1200 * MIB + 4096);
	/* 600 tables of 2 MiB, two directories of 1 GiB, one of 512 GiB, the root; one table for the
	 * end-of-pipe buffer; and what the kernel maps at the top: two of each kind. */
	cr_expect_eq(f.page_tables, (600 + 2 + 1 + 1 + 1 + 2 + 1 + 1) * 4096);
	cr_expect_eq(f.page_tables_least, (0 + 2 + 1 + 1 + 1 + 1 + 1 + 1) * 4096);
	cr_expect_eq(f.binds, -1);
	cr_expect_eq(f.refuses, -1);
	cr_expect_not(f.process.known);
	/* The trap handler's pages, and MES's of the process and of one queue. */
	cr_expect_eq(f.kernel, (2 + 1 + 1) * 4096);
	cr_assert_eq(plan_add(&plan, "sdma queue", 4096, 1), 0);
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.kernel, (2 + 1 + 2) * 4096);
	/* A budget cannot be held by a process whose own memory is unknown. */
	footprint_compute(&plan, &m, &host, 1, &f);
	cr_expect_eq(f.refuses, -1);
	cr_expect_not(f.ceiling[CEILING_BUDGET].known);
}

Test(footprint, the_least_room_binds)
{
	m.gtt_total = (struct footprint_number){true, 64 * GIB};
	m.gtt_used = (struct footprint_number){true, 1 * GIB};
	m.pages_limit = (struct footprint_number){true, 32 * GIB};
	m.mem_total = (struct footprint_number){true, 128 * GIB};
	m.mem_available = (struct footprint_number){true, 8 * GIB};
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.binds, CEILING_RAM);
	cr_expect_eq(f.refuses, -1);
	cr_expect_eq(f.ceiling[CEILING_KFD].limit, 126 * GIB - 3 * GIB / 2);
	m.mem_available.v = 1202 * MIB;
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.refuses, CEILING_RAM);
	footprint_refusal(&plan, &f, text, sizeof(text));
	cr_expect(strstr(text, "MemAvailable has 1260388352 bytes") &&
			  strstr(text, "weights 1048576000 + kv 209715200"),
		  "%s", text);
	/* Blocks of 2 MiB are advice. */
	m.mem_available.v = 8 * GIB;
	m.huge_free = (struct footprint_number){true, 0};
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.refuses, -1);
	cr_expect_neq(f.binds, CEILING_HUGE);
}

Test(footprint, vram_requests_go_where_the_kernel_puts_them)
{
	m.vram_total = (struct footprint_number){true, GIB};
	m.vram_used = (struct footprint_number){true, GIB};
	m.gtt_total = (struct footprint_number){true, GIB / 2};
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.refuses, CEILING_VRAM, "a full carve-out, larger than GTT");
	cr_expect_eq(f.ceiling[CEILING_VRAM].need, f.page_tables + 4096);
	m.gtt_total.v = 64 * GIB;
	m.vram_used.v = GIB - f.page_tables;
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.refuses, -1, "with more GTT than VRAM it is served from GTT");
	m.vram_used.v += 4096;
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.refuses, CEILING_VRAM, "page tables are in VRAM all the same");
}

Test(footprint, the_smallest_budget_works)
{
	uint64_t smallest;
	const char *at;

	footprint_compute(&plan, &m, &host, 100 * MIB, &f);
	cr_assert_eq(f.refuses, CEILING_BUDGET);
	footprint_refusal(&plan, &f, text, sizeof(text));
	at = strstr(text, "the smallest budget that works with this context is ");
	cr_assert(at, "%s", text);
	smallest = strtoull(at + strlen("the smallest budget that works with this context is "),
			    NULL, 10);
	footprint_compute(&plan, &m, &host, smallest * MIB, &f);
	cr_expect_eq(f.refuses, -1);
	footprint_compute(&plan, &m, &host, (smallest - 1) * MIB, &f);
	cr_expect_eq(f.refuses, CEILING_BUDGET);
}

Test(footprint, kfd_limit)
{
	cr_expect_eq(footprint_kfd_limit(64 * GIB), 63 * GIB - 3 * GIB / 2);
	cr_expect_eq(footprint_kfd_limit(2 * GIB), (2 * GIB - GIB / 32) / 2);
}

Test(footprint, buddyinfo)
{
	uint64_t free_bytes = 7, largest = 7;

	cr_assert(footprint_buddyinfo("Node 0, zone      DMA      0 0 0 0 0 0 0 0 1 1 2\n"
				      "Node 0, zone   Normal    100 9 8 7 6 5 4 3 2 3 0\n",
				      &free_bytes, &largest));
	cr_expect_eq(free_bytes, (1 + 3) * 2 * MIB + 2 * 4 * MIB);
	cr_expect_eq(largest, 4 * MIB);
	cr_assert(footprint_buddyinfo("Node 0, zone Normal 5 0 0 0 0 0 0 0 0 0 0\n", &free_bytes,
				      &largest));
	cr_expect_eq(free_bytes, 0, "nothing but small blocks is a known nothing");
	free_bytes = 7;
	cr_expect_not(footprint_buddyinfo("", &free_bytes, &largest));
	cr_expect_not(footprint_buddyinfo("no such thing\n", &free_bytes, &largest));
	cr_expect_eq(free_bytes, 7);
}

/* What a rule asks for as VRAM counts against the carve-out, where that is what the kernel takes. */
Test(footprint, rules_move_bytes_to_the_carve_out)
{
	static struct bo_rules r;

	cr_assert_eq(bo_rules_add(&r, "place", "weights=vram", text, sizeof(text)), 0);
	plan.rules = &r;
	m.vram_total = (struct footprint_number){true, GIB / 2};
	m.vram_used = (struct footprint_number){true, 0};
	m.gtt_total = (struct footprint_number){true, GIB / 4};
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.ceiling[CEILING_VRAM].need, f.page_tables + 4096 + 1000 * MIB);
	cr_expect_eq(plan_asked(&plan, BO_VRAM), 4096 + 1000 * MIB);
	cr_assert_eq(bo_rules_add(&r, "place", "weights=userptr", text, sizeof(text)), 0);
	footprint_compute(&plan, &m, &host, 0, &f);
	cr_expect_eq(f.ceiling[CEILING_VRAM].need, f.page_tables + 4096);
	cr_expect_eq(f.ceiling[CEILING_TTM].need, f.device - 1000 * MIB + f.kernel);
	cr_expect_eq(f.ceiling[CEILING_GTT].need, f.device + f.kernel);
}
