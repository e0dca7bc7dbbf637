/* SDMA packets, dword by dword, and how transfers are cut. */
#include <criterion/criterion.h>
#include <string.h>

#include "queues/sdma_packet.h"

#define DST 0x0000200012345678ull
#define SRC 0x00002001ffffff01ull

/* Values as sdma_v6_0_0_pkt_open.h places them. */
Test(sdma, packets)
{
	static const uint32_t copy[] = {0x00000001, 0x001fffff, 0,         0xffffff01,
					0x00002001, 0x12345678, 0x00002000};
	static const uint32_t fill[] = {0x8000000b, 0x12345678, 0x00002000, 0xdeadbeef, 99};
	static const uint32_t fence[] = {0x00030005, 0x12345678, 0x00002000, 7};
	static const uint32_t stamp[] = {0x0000020d, 0x12345660, 0x00002000};
	static const uint32_t trap[] = {0x00000006, 0x00000105};
	static const uint32_t nop[] = {0x00030000, 0, 0, 0};
	uint32_t w[8];

	cr_assert_eq(sdma_encode_copy(w, DST, SRC, 2u << 20), 7);
	cr_expect_arr_eq(w, copy, sizeof(copy));
	cr_assert_eq(sdma_encode_fill(w, DST, 0xdeadbeef, 100), 5);
	cr_expect_arr_eq(w, fill, sizeof(fill));
	cr_assert_eq(sdma_encode_fence(w, DST, 7), 4);
	cr_expect_arr_eq(w, fence, sizeof(fence));
	cr_assert_eq(sdma_encode_timestamp(w, DST & ~31ull), 3);
	cr_expect_arr_eq(w, stamp, sizeof(stamp));
	cr_assert_eq(sdma_encode_trap(w, 0xf0000105), 2);
	cr_expect_arr_eq(w, trap, sizeof(trap));
	cr_assert_eq(sdma_encode_nop(w, 4), 4);
	cr_expect_arr_eq(w, nop, sizeof(nop));
}

Test(sdma, parts_cover_a_transfer_and_none_crosses_2_mib)
{
	const uint64_t starts[] = {0, 1, 4095, (2u << 20) - 1, (2u << 20) + 5, 0x200000001234};
	const uint64_t sizes[] = {1, 4096, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, 50u << 20};

	for (unsigned i = 0; i < 6; i++) {
		for (unsigned j = 0; j < 6; j++) {
			uint64_t at = starts[i], left = sizes[j];

			while (left) {
				uint32_t n = sdma_part(at, left);

				cr_assert(n && n <= SDMA_PACKET_BYTES && n <= left);
				cr_assert_eq(at / SDMA_PACKET_BYTES,
					     (at + n - 1) / SDMA_PACKET_BYTES);
				at += n;
				left -= n;
			}
			cr_expect_eq(at, starts[i] + sizes[j]);
		}
	}
}
