/* Packet bytes. */
#include <criterion/criterion.h>
#include <string.h>

#include "queues/packet.h"

Test(aql, dispatch_bytes)
{
	struct aql_packet p;
	uint32_t first;
	static const unsigned char want[64] = {
		0x01, 0x00, 0x03, 0x00, /* INVALID until committed; 3 dimensions */
		0x40, 0x00, 0x02, 0x00, 0x02, 0x00, 0x00, 0x00, /* workgroup 64 x 2 x 2 */
		0x00, 0x04, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, /* grid */
		0x00, 0x01, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, /* private 256, group 8192 */
		0x40, 0x11, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, /* kernel object */
		0x80, 0x22, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, /* kernarg */
		0,    0,    0,    0,    0,    0,    0,    0,    0xc0, 0x33, 0x00, 0x00,
		0x00, 0x20, 0x00, 0x00, /* completion */
	};

	memset(&p, 0xff, sizeof(p));
	first = aql_encode_dispatch(&p,
				    &(struct aql_dispatch_fields){.kernel_object = 0x200000001140,
								  .kernarg = 0x200000002280,
								  .completion = 0x2000000033c0,
								  .grid = {1024, 8, 4},
								  .group = {64, 2, 2},
								  .private_bytes = 256,
								  .group_bytes = 8192,
								  .barrier = true,
								  .acquire_system = true,
								  .release_system = true});
	cr_expect_arr_eq(&p, want, 64);
	/* type 2, barrier bit 8, acquire 10:9 system, release 12:11 system; setup 3 */
	cr_expect_eq(first, 0x00031502u, "0x%08x", first);
}

Test(aql, scopes)
{
	struct aql_packet p;
	struct aql_dispatch_fields f = {.grid = {1}, .group = {1}};

	cr_expect_eq(aql_encode_dispatch(&p, &f), 0x00010a02u);
	f.barrier = true;
	cr_expect_eq(aql_encode_dispatch(&p, &f), 0x00010b02u);
	f.barrier = false, f.acquire_system = true;
	cr_expect_eq(aql_encode_dispatch(&p, &f), 0x00010c02u);
	f.acquire_system = false, f.release_system = true;
	cr_expect_eq(aql_encode_dispatch(&p, &f), 0x00011202u);
}

Test(aql, dimensions)
{
	struct aql_packet p;

	cr_expect_eq(aql_encode_dispatch(
			     &p, &(struct aql_dispatch_fields){.grid = {64}, .group = {64}}) >>
			     16,
		     1);
	cr_expect_eq(p.dispatch.grid[1], 1);
	cr_expect_eq(p.dispatch.group[2], 1);
	cr_expect_eq(aql_encode_dispatch(&p, &(struct aql_dispatch_fields){.grid = {64, 2},
									   .group = {64, 1}}) >>
			     16,
		     2);
	cr_expect_eq(aql_encode_dispatch(&p, &(struct aql_dispatch_fields){.grid = {64, 1, 2},
									   .group = {64, 1, 1}}) >>
			     16,
		     3);
}

Test(aql, barrier_bytes)
{
	struct aql_packet p;
	const uint64_t dep[5] = {0x1000, 0, 0x3000, 0, 0x200000005000};
	uint32_t first;
	unsigned char want[64] = {0x01};

	want[8 + 1] = 0x10;
	want[24 + 1] = 0x30;
	want[40 + 1] = 0x50, want[40 + 5] = 0x20;
	want[56 + 1] = 0x77;
	memset(&p, 0xff, sizeof(p));
	first = aql_encode_barrier_and(&p, dep, 0x7700);
	cr_expect_arr_eq(&p, want, 64);
	cr_expect_eq(first, 0x00001503u, "0x%08x", first);
	cr_expect_eq(aql_header_type((uint16_t)first), AQL_BARRIER_AND);
	aql_encode_barrier_and(&p, NULL, 0);
	cr_expect_eq(p.barrier.dep[0] | p.barrier.completion, 0);
}
