/* The door's inline half gives what the whole door gives, or nothing. */
#include <criterion/criterion.h>

/* Vectors never leave this file: their calling convention does not matter. */
#pragma clang diagnostic ignored "-Wpsabi"
#include "vm/door.h"

#define BASE  0x200000000ull
#define BYTES (2 * VM_PAGE)

static struct vm *vm;
static struct vm_port fast, slow;
static uint8_t *mem;
static uint32_t rng = 1;

static uint32_t rnd(void)
{
	return rng = rng * 1664525u + 1013904223u;
}

static void setup(void)
{
	struct vm_bo *bo;

	cr_assert(!vm_pools_init(1 << 20, 16 << 20));
	cr_assert(!vm_create(&vm));
	cr_assert(!vm_bo_alloc(VM_POOL_GTT, BYTES, &bo));
	cr_assert(!vm_map(vm, gva(BASE), BYTES, bo, 0, VM_W, VM_MTYPE_NC));
	mem = vm_bo_kmap(bo);
	for (unsigned i = 0; i < BYTES; i++)
		mem[i] = (uint8_t)(rnd() >> 24);
	vm_port_init(&fast, vm, VM_CLIENT_TCP);
	vm_port_init(&slow, vm, VM_CLIENT_TCP);
	vm_port_bind(&fast);
	if (!fast.reader)
		cr_skip_test("SKIP: door: no membarrier(2) here, no inline half");
}

static void teardown(void)
{
	vm_destroy(vm);
	vm_pools_fini();
}

TestSuite(door, .init = setup, .fini = teardown);

/* Whether the inline half took it; its data is then the door's. */
static bool same(uint64_t va, vm_v32 off, unsigned size)
{
	uint32_t a[4 * VM_LANES] __attribute__((aligned(128))), b[4 * VM_LANES];
	uint64_t addr[VM_LANES];
	unsigned dwords = (size + 3) / 4;
	bool taken;

	memset(a, 0xee, sizeof(a));
	memset(b, 0, sizeof(b));
	for (unsigned l = 0; l < VM_LANES; l++)
		addr[l] = va + off[l];
	/* the first access fills the TLB, which only the whole door does */
	vm_load32(&fast, gva(va & ~3ull), a);
	taken = vm_inline_load(&fast, va, off, size, a);
	if (vm_access(&slow, VM_LOAD, addr, 0xffffffffu, size, 0, b)) {
		cr_assert(!taken, "size %u at +0x%llx faults", size,
			  (unsigned long long)(va - BASE));
		return false;
	}
	for (unsigned i = 0; taken && i < dwords * VM_LANES; i++)
		cr_assert_eq(a[i], b[i], "size %u at +0x%llx dword %u lane %u: 0x%x, wanted 0x%x",
			     size, (unsigned long long)(va - BASE), i / VM_LANES, i % VM_LANES,
			     a[i], b[i]);
	return taken;
}

static vm_v32 offsets(unsigned range, unsigned align)
{
	vm_v32 off;

	for (unsigned l = 0; l < VM_LANES; l++)
		off[l] = rnd() % range / align * align;
	off[0] = 0; /* distances from lane 0 */
	return off;
}

Test(door, lanes_within_32_bytes)
{
	for (unsigned n = 0; n < 2000; n++)
		for (unsigned size = 1; size <= 4; size *= 2) {
			uint64_t va = BASE + rnd() % (BYTES - 64);

			cr_assert(same(va, offsets(33 - size, size), size));
			same(va, offsets(40, 1), size);
			cr_assert(same(va, offsets(48, 1), size));
		}
}

Test(door, runs)
{
	for (unsigned n = 0; n < 2000; n++)
		for (unsigned size = 1; size <= 16; size *= 2)
			cr_assert(
				same(BASE + rnd() % (BYTES - 512), vm_lane_numbers() * size, size));
}

Test(door, anything)
{
	for (unsigned n = 0; n < 2000; n++)
		for (unsigned size = 1; size <= 16; size *= 2)
			cr_assert(same(BASE + rnd() % VM_PAGE, offsets(VM_PAGE - 16, 1), size));
}

/* The last bytes of a mapping: less than 32 are left, and some lanes may be beyond. */
Test(door, end_of_the_mapping)
{
	unsigned taken = 0;

	for (unsigned left = 1; left < 64; left++)
		for (unsigned size = 1; size <= 16; size *= 2)
			for (unsigned n = 0; n < 20; n++) {
				taken += same(BASE + BYTES - left, offsets(left, size), size);
				same(BASE + BYTES - left, vm_lane_numbers() * size, size);
			}
	cr_assert(taken > 1000, "%u", taken);
}
