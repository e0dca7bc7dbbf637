/* The virtual GPU's memory: pools, page tables, the door, fault words. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <jansson.h>

#include "testdata.h"
#include "vm/vm.h"

#define MB (1ull << 20)
#define VA 0x100000000ull

static struct vm *vm;
static struct vm_bo *bo;
static struct vm_port port;
static uint64_t addr[VM_LANES];
static uint32_t data[16 * VM_LANES];

static void setup(void)
{
	cr_assert_eq(vm_pools_init(64 * MB, 256 * MB), 0);
	cr_assert_eq(vm_create(&vm), 0);
	cr_assert_eq(vm_bo_alloc(VM_POOL_GTT, 64 << 10, &bo), 0);
	cr_assert_eq(vm_map(vm, gva(VA), 64 << 10, bo, 0, VM_W, VM_MTYPE_NC), 0);
	vm_port_init(&port, vm, VM_CLIENT_TCP);
}

static void teardown(void)
{
	vm_destroy(vm);
	vm_bo_unref(bo);
	cr_assert_eq(vm_pool_used(VM_POOL_GTT), 0);
	cr_assert_eq(vm_pool_used(VM_POOL_VRAM), 0);
	cr_assert_eq(vm_tables_used(), 0);
	vm_pools_fini();
}

TestSuite(vgpu_vm, .init = setup, .fini = teardown, .timeout = 600);

static uint8_t *bytes(void)
{
	return vm_bo_kmap(bo);
}

/* ---- page tables as memory ---------------------------------------------------------------- */

static unsigned tables(void)
{
	cr_assert_eq(vm_tables_of(vm), vm_tables_used());
	return (unsigned)(vm_tables_of(vm) / VM_PAGE);
}

Test(vgpu_vm, tables_come_and_stay)
{
	struct vm_bo *big;
	unsigned n = tables();

	cr_expect_eq(n, 4, "a root, two directories, a table");
	cr_assert_eq(vm_bo_alloc(VM_POOL_GTT, 8 * MB, &big), 0);
	cr_assert_eq(vm_map(vm, gva(VA + 32 * MB), 8 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	cr_expect_eq(tables(), n, "entries of 2 MiB");
	cr_assert_eq(vm_map(vm, gva(VA + 64 * MB + 4096), 8 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	cr_expect_eq(tables(), n + 3, "in pieces of 4 MiB two of them are whole");
	cr_assert_eq(vm_unmap(vm, gva(VA + 64 * MB + 4096)), 0);
	cr_expect_eq(tables(), n + 2, "the parts at the ends, and not the middle");
	/* An entry of 2 MiB takes the place of the table that was there. */
	cr_assert_eq(vm_map(vm, gva(VA + 64 * MB), 8 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	cr_expect_eq(tables(), n + 1);
	/* Leaves alone are cleared without giving back. */
	vm_fragmented = true;
	cr_assert_eq(vm_map(vm, gva(VA + 128 * MB), 8 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	cr_expect_eq(tables(), n + 5);
	cr_assert_eq(vm_unmap_leaves(vm, gva(VA + 128 * MB)), 0);
	cr_expect_eq(tables(), n + 5);
	cr_assert_eq(vm_map(vm, gva(VA + 128 * MB), 8 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	cr_assert_eq(vm_unmap(vm, gva(VA + 128 * MB)), 0);
	cr_expect_eq(tables(), n + 1);
	vm_bo_unref(big);
}

/* VRAM is for tables and for buffers; what is full is full for both. */
Test(vgpu_vm, tables_can_run_out)
{
	struct vm_bo *big, *rest;
	unsigned n = tables();

	vm_fragmented = true;
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 64 * MB - (n + 3) * VM_PAGE, &rest), 0);
	cr_assert_eq(vm_bo_alloc(VM_POOL_GTT, 16 * MB, &big), 0);
	cr_expect_eq(vm_map(vm, gva(VA + 32 * MB), 16 * MB, big, 0, VM_W, VM_MTYPE_NC), -ENOMEM);
	cr_expect_null(vm_find(vm, gva(VA + 32 * MB)));
	cr_expect_eq(tables(), n + 3, "what was made stays");
	cr_expect_eq(vm_map(vm, gva(VA + 32 * MB), 6 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	vm_bo_unref(rest);
	cr_expect_eq(vm_map(vm, gva(VA + 64 * MB), 16 * MB, big, 0, VM_W, VM_MTYPE_NC), 0);
	cr_expect_eq(tables(), n + 11);
	cr_expect_eq(vm_bo_alloc(VM_POOL_VRAM, 64 * MB - (n + 10) * VM_PAGE, &rest), -ENOMEM);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 64 * MB - (n + 11) * VM_PAGE, &rest), 0);
	vm_bo_unref(rest);
	vm_bo_unref(big);
}

/* ---- pools --------------------------------------------------------------- */

Test(vgpu_vm, pool_accounts_and_reuses)
{
	struct vm_bo *a, *b, *c;

	cr_assert_eq(vm_pools_init(MB, MB), -EBUSY);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 100, &a), -EINVAL);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 0, &a), -EINVAL);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 65 * MB, &a), -ENOMEM);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 4096, &a), 0);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 32 * MB, &b), 0);
	cr_assert_eq(b->pool_off % (2 * MB), 0, "large buffers are 2 MiB aligned");
	cr_assert_eq(vm_pool_used(VM_POOL_VRAM), 32 * MB + 4096);
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 31 * MB, &c), -ENOMEM);
	/* Everything that is left, in two holes of which one starts unaligned. */
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 2 * MB - 4096, &c), 0);
	memset(vm_bo_kmap(c), 0xaa, 2 * MB - 4096);
	vm_bo_unref(c);
	vm_bo_unref(a);
	vm_bo_unref(b);
	cr_assert_eq(vm_pool_used(VM_POOL_VRAM), 0);
	/* All holes have merged again, and the memory is zero. */
	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 64 * MB - vm_tables_used(), &a), 0);
	for (size_t i = 0; i < 4 * MB; i += 512)
		cr_assert_eq(((uint8_t *)vm_bo_kmap(a))[i], 0);
	vm_bo_unref(a);
}

Test(vgpu_vm, client_maps_the_same_bytes)
{
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, vm_pools_fd(),
			  (off_t)bo->pool_off);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert_geq(vm_pools_fd(), 1000);
	p[7] = 99;
	cr_assert_eq(bytes()[7], 99);
	cr_assert_eq(vm_store64(&port, gva(VA + 8), 0x1122334455667788), 0);
	cr_assert_eq(p[8], 0x88);
	munmap(p, 4096);
}

/* ---- tables -------------------------------------------------------------- */

Test(vgpu_vm, map_refuses)
{
	cr_assert_eq(vm_map(vm, gva(VA + 1), 4096, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(VA), 4096, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(VA - 4096), 8192, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(VA + (60 << 10)), 8192, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva((1ull << 48) - 4096), 8192, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(1ull << 48), 4096, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(0x1000), 0, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(0x1000), 128 << 10, bo, 0, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_map(vm, gva(0x1000), 8192, bo, 60 << 10, VM_W, VM_MTYPE_NC), -EINVAL);
	cr_assert_eq(vm_unmap(vm, gva(VA + 4096)), -EINVAL);
	cr_assert_eq(bo->refs, 2);
}

Test(vgpu_vm, find_among_many)
{
	uint32_t v;

	for (unsigned i = 0; i < 1000; i++) /* odd pages, inserted in a scattered order */
		cr_assert_eq(vm_map(vm, gva(0x10000000 + (uint64_t)(i * 379 % 1000) * 8192), 4096,
				    bo, (i * 379 % 1000 % 16) * 4096, VM_W, VM_MTYPE_NC),
			     0);
	for (unsigned i = 0; i < 16; i++)
		memset(bytes() + i * 4096, (int)i, 4096);
	vm_lock(vm);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t va = 0x10000000 + (uint64_t)i * 8192;

		cr_assert_eq(vm_find(vm, gva(va + 4095))->start.a, va);
		cr_assert_null(vm_find(vm, gva(va + 4096)));
	}
	vm_unlock(vm);
	for (unsigned i = 0; i < 1000; i++) {
		cr_assert_eq(vm_load32(&port, gva(0x10000000 + (uint64_t)i * 8192), &v), 0);
		cr_assert_eq(v, i % 16 * 0x01010101);
		cr_assert_eq(vm_load32(&port, gva(0x10001000 + (uint64_t)i * 8192), &v), -EFAULT);
	}
	for (unsigned i = 0; i < 1000; i += 2)
		cr_assert_eq(vm_unmap(vm, gva(0x10000000 + (uint64_t)i * 8192)), 0);
	for (unsigned i = 0; i < 1000; i++)
		cr_assert_eq(vm_load32(&port, gva(0x10000000 + (uint64_t)i * 8192), &v),
			     i % 2 ? 0 : -EFAULT);
}

Test(vgpu_vm, unmapped_is_unreachable)
{
	uint64_t v, gen = vm_generation(vm);

	cr_assert_eq(vm_load64(&port, gva(VA), &v), 0);
	cr_assert_eq(vm_unmap(vm, gva(VA)), 0);
	cr_assert_neq(vm_generation(vm), gen);
	cr_assert_eq(vm_load64(&port, gva(VA), &v), -EFAULT);
	cr_assert(port.fault.not_present);
	/* A second mapping at the same address is seen at once. */
	cr_assert_eq(vm_map(vm, gva(VA), 4096, bo, 4096, VM_W, VM_MTYPE_NC), 0);
	bytes()[4096] = 5;
	cr_assert_eq(vm_load64(&port, gva(VA), &v), 0);
	cr_assert_eq(v, 5);
	cr_assert_eq(vm_load64(&port, gva(VA + 4096), &v), -EFAULT);
}

Test(vgpu_vm, user_pages)
{
	uint8_t *p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vm_bo *u;
	uint64_t v = 0;

	cr_assert_eq(vm_bo_user((uint64_t)p + 1, 4096, &u), -EINVAL);
	cr_assert_eq(vm_bo_user((uint64_t)p, 16384, &u), 0);
	cr_assert_eq(vm_map(vm, gva(0x200000), 8192, u, 4096, VM_W, VM_MTYPE_NC), 0);
	p[4096] = 42;
	cr_assert_eq(vm_add64(&port, gva(0x200000), 1, &v), 0);
	cr_assert_eq(v, 42);
	cr_assert_eq(p[4096], 43);
	cr_assert_eq(vm_user_invalidate(vm, (uint64_t)p, 4096, false), 0, "outside the mapping");
	cr_assert_eq(vm_user_invalidate(vm, (uint64_t)p + 8192, 4096, false), 1);
	cr_assert_eq(vm_load64(&port, gva(0x200000), &v), -EFAULT);
	cr_assert(port.fault.not_present);
	cr_assert_eq(vm_user_invalidate(vm, (uint64_t)p + 8192, 4096, true), 1);
	cr_assert_eq(vm_load64(&port, gva(0x200000), &v), 0);
	cr_assert_eq(vm_unmap(vm, gva(0x200000)), 0);
	cr_assert_eq(u->refs, 1);
	vm_bo_unref(u);
	munmap(p, 16384);
}

/* ---- loads and stores ---------------------------------------------------- */

enum pattern { CONTIG, STRIDED, UNIFORM, REVERSED, SCATTERED, PATTERNS };

static void addresses(enum pattern pat, unsigned size, unsigned skew)
{
	for (unsigned l = 0; l < VM_LANES; l++) {
		uint64_t i = pat == CONTIG     ? l
			     : pat == STRIDED  ? l * 5
			     : pat == UNIFORM  ? 3
			     : pat == REVERSED ? VM_LANES - 1 - l
					       : (l * 37 + 11) % 128;
		addr[l] = VA + skew + i * size;
	}
}

Test(vgpu_vm, loads_of_every_shape)
{
	static const unsigned sizes[] = {1, 2, 4, 8, 12, 16, 64};
	static const uint32_t masks[] = {0xffffffff, 1,          0x80000000,
					 0x0000ffff, 0xaaaaaaaa, 0x00f00f01};

	for (unsigned i = 0; i < 64 << 10; i++)
		bytes()[i] = (uint8_t)(i * 7 + (i >> 8) * 13);
	for (unsigned s = 0; s < 7; s++)
		for (unsigned pat = 0; pat < PATTERNS; pat++)
			for (unsigned skew = 0; skew < 4; skew += 3)
				for (unsigned k = 0; k < 6; k++) {
					unsigned size = sizes[s];

					addresses(pat, size, skew);
					for (unsigned l = 0; l < VM_LANES; l++)
						if (!(masks[k] >> l & 1))
							addr[l] = 0xdead0000; /* off: never looked
										 at */
					memset(data, 0xee, sizeof(data));
					cr_assert_eq(vm_access(&port, VM_LOAD, addr, masks[k], size,
							       0, data),
						     0);
					for (unsigned l = 0; l < VM_LANES; l++)
						for (unsigned c = 0; c < 16; c++) {
							uint32_t want = 0xeeeeeeee;

							if (masks[k] >> l & 1 &&
							    c < (size + 3) / 4) {
								want = 0;
								memcpy(&want,
								       bytes() + (addr[l] - VA) +
									       4 * c,
								       size < 4 ? size : 4);
							}
							cr_assert_eq(data[c * VM_LANES + l], want,
								     "size %u pattern %u mask %x "
								     "lane %u",
								     size, pat, masks[k], l);
						}
				}
}

Test(vgpu_vm, stores_of_every_shape)
{
	static const unsigned sizes[] = {1, 2, 4, 8, 12, 16, 64};
	static const uint32_t masks[] = {0xffffffff, 0x00ff00ff, 0x80000001};
	static uint8_t want[64 << 10];

	for (unsigned s = 0; s < 7; s++)
		for (unsigned pat = 0; pat < PATTERNS; pat++)
			for (unsigned skew = 0; skew < 4; skew += 3)
				for (unsigned k = 0; k < 3; k++) {
					unsigned size = sizes[s];

					memset(bytes(), 0x55, 64 << 10);
					memset(want, 0x55, sizeof(want));
					addresses(pat, size, skew);
					for (unsigned i = 0; i < 16 * VM_LANES; i++)
						data[i] = i * 0x9e3779b9u;
					/* In rising order: with equal addresses the last lane
					 * stays. */
					for (unsigned l = 0; l < VM_LANES; l++)
						for (unsigned b = 0; b < size && masks[k] >> l & 1;
						     b++)
							want[addr[l] - VA + b] =
								(uint8_t)(data[b / 4 * VM_LANES +
									       l] >>
									  b % 4 * 8);
					cr_assert_eq(vm_access(&port, VM_STORE, addr, masks[k],
							       size, 0, data),
						     0);
					cr_assert_arr_eq(bytes(), want, sizeof(want),
							 "size %u pattern %u", size, pat);
				}
}

Test(vgpu_vm, across_mappings)
{
	struct vm_bo *b2;
	uint8_t buf[8192], back[8192];

	cr_assert_eq(vm_bo_alloc(VM_POOL_VRAM, 8192, &b2), 0);
	cr_assert_eq(vm_map(vm, gva(VA + (64 << 10)), 4096, b2, 4096, VM_W, VM_MTYPE_NC), 0);
	for (unsigned i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 31 + (i >> 8));
	cr_assert_eq(vm_write(&port, gva(VA + (60 << 10)), buf, sizeof(buf), 0), 0);
	cr_assert_arr_eq(bytes() + (60 << 10), buf, 4096);
	cr_assert_arr_eq((uint8_t *)vm_bo_kmap(b2) + 4096, buf + 4096, 4096);
	cr_assert_eq(vm_read(&port, VM_LOAD, gva(VA + (60 << 10)), back, sizeof(back), 0), 0);
	cr_assert_arr_eq(back, buf, sizeof(buf));
	/* Lanes on both sides, lane 8 split by the border. */
	for (unsigned l = 0; l < VM_LANES; l++)
		addr[l] = VA + (64 << 10) - 34 + 4 * l;
	cr_assert_eq(vm_access(&port, VM_LOAD, addr, ~0u, 4, 0, data), 0);
	for (unsigned l = 0; l < VM_LANES; l++)
		cr_assert_eq(memcmp(&data[l], buf + 4096 - 34 + 4 * l, 4), 0, "lane %u", l);
	for (unsigned l = 0; l < VM_LANES; l++)
		data[l] = l * 0x01020304;
	cr_assert_eq(vm_access(&port, VM_STORE, addr, ~0u, 4, 0, data), 0);
	cr_assert_eq(vm_read(&port, VM_LOAD, gva(VA + (64 << 10) - 34), back, 128, 0), 0);
	cr_assert_arr_eq(back, data, 128);
	/* Atomics never straddle: their address is a multiple of their size. */
	data[0] = 1;
	addr[0] = VA + (64 << 10) - 2;
	cr_assert_eq(vm_access(&port, VM_ADD, addr, 1, 4, 0, data), 1);
	cr_assert(port.fault.misaligned);
	vm_unmap(vm, gva(VA + (64 << 10)));
	vm_bo_unref(b2);
}

/* ---- faults -------------------------------------------------------------- */

Test(vgpu_vm, faulting_lanes)
{
	addresses(CONTIG, 4, 0);
	memset(bytes(), 0x11, 4096);
	addr[5] = 0x7000000004;
	addr[9] = VA + (64 << 10) - 2; /* second half outside */
	memset(data, 0xee, sizeof(data));
	cr_assert_eq(vm_access(&port, VM_LOAD, addr, ~0u, 4, 0, data), 1u << 5 | 1u << 9);
	cr_assert_eq(port.fault.va.a, 0x7000000004);
	cr_assert_eq(port.fault.lanes, 1u << 5 | 1u << 9);
	cr_assert_eq(port.fault.client, VM_CLIENT_TCP);
	cr_assert(port.fault.not_present && !port.fault.write && !port.fault.read_only);
	cr_assert_eq(data[4], 0x11111111);
	cr_assert_eq(data[5], 0);
	cr_assert_eq(data[9], 0);
	cr_assert_eq(vm_fault_status(&port.fault, 8), 0x00801030);
	/* The store that straddles the end writes nothing at all. */
	cr_assert_eq(vm_access(&port, VM_STORE, addr, 1u << 9, 4, 0, data), 1u << 9);
	cr_assert_eq(port.fault.va.a, VA + (64 << 10), "first byte that is missing");
	cr_assert(port.fault.write);
	cr_assert_eq(bytes()[(64 << 10) - 1], 0);
	cr_assert_eq(vm_fault_status(&port.fault, 8), 0x00841050);
	/* Addresses beyond 48 bits are not wrapped. */
	addr[0] = VA | 1ull << 48;
	cr_assert_eq(vm_access(&port, VM_LOAD, addr, 1, 4, 0, data), 1);
	addr[0] = ~0ull;
	cr_assert_eq(vm_access(&port, VM_LOAD, addr, 1, 4, 0, data), 1);
	cr_assert_eq(vm_access(&port, VM_LOAD, addr, 0, 4, 0, data), 0, "no lane, no fault");
}

Test(vgpu_vm, permissions)
{
	uint32_t w;

	cr_assert_eq(vm_map(vm, gva(0x400000), 4096, bo, 0, 0, VM_MTYPE_NC), 0);
	cr_assert_eq(vm_map(vm, gva(0x500000), 4096, bo, 0, VM_X, VM_MTYPE_NC), 0);
	memset(bytes(), 0x77, 4096);
	cr_assert_eq(vm_load32(&port, gva(0x400000), &w), 0);
	cr_assert_eq(w, 0x77777777);
	cr_assert_eq(vm_store32(&port, gva(0x400010), 1), -EFAULT);
	cr_assert(port.fault.read_only && port.fault.write && !port.fault.not_present);
	cr_assert_eq(port.fault.va.a, 0x400010);
	cr_assert_eq(vm_fault_status(&port.fault, 8), 0x00841040);
	cr_assert_eq(bytes()[0x10], 0x77);
	data[0] = 1;
	addr[0] = 0x400020;
	cr_assert_eq(vm_access(&port, VM_ADD, addr, 1, 4, 0, data), 1);
	cr_assert(port.fault.read_only);
	cr_assert_eq(data[0], 0, "a faulting atomic returns 0");
	cr_assert_eq(vm_read(&port, VM_FETCH, gva(0x500000), &w, 4, 0), 0);
	cr_assert_eq(vm_read(&port, VM_FETCH, gva(0x400000), &w, 4, 0), -EFAULT);
	cr_assert(port.fault.no_exec && !port.fault.not_present);
	cr_assert_eq(port.fault.client, VM_CLIENT_SQC_INST);
	cr_assert_eq(vm_read(&port, VM_FETCH, gva(0x600000), &w, 4, 0), -EFAULT);
	cr_assert(port.fault.not_present && !port.fault.no_exec);
}

Test(vgpu_vm, fault_words_of_public_logs)
{
	const char *path = testdata("vectors/fault-status.json");
	json_t *root = path ? json_load_file(path, 0, NULL) : NULL;
	json_t *list, *v;
	size_t i;

	cr_assert_not_null(root, "tests/data/vectors/fault-status.json is missing or no JSON");
	list = json_object_get(root, "vectors");
	cr_assert_geq(json_array_size(list), 8);
	json_array_foreach(list, i, v)
	{
#define N(k) ((unsigned)json_integer_value(json_object_get(v, k)))
		struct vm_fault_fields f = {N("more"),   N("walker"), N("permission"), N("mapping"),
					    N("client"), N("write"),  N("vmid")};

		cr_assert_eq(vm_fault_status_pack(&f),
			     strtoul(json_string_value(json_object_get(v, "word")), NULL, 16),
			     "vector %zu", i);
	}
	json_decref(root);
}

/* ---- atomics ------------------------------------------------------------- */

struct rmw {
	enum vm_op op;
	uint64_t old, in, cmp, new32, new64;
};

Test(vgpu_vm, atomics)
{
#define M1 (~0ull)
#define F(x)                                                                                       \
	((union {                                                                                  \
		 float f;                                                                          \
		 uint32_t u;                                                                       \
	 }){x}                                                                                     \
		 .u)
#define D(x)                                                                                       \
	((union {                                                                                  \
		 double f;                                                                         \
		 uint64_t u;                                                                       \
	 }){x}                                                                                     \
		 .u)
	static const struct rmw t[] = {
		{VM_SWAP, 1, 2, 0, 2, 2},
		{VM_CMPSWAP, 1, 2, 1, 2, 2},
		{VM_CMPSWAP, 1, 2, 3, 1, 1},
		{VM_ADD, 0xffffffff, 2, 0, 1, 0x100000001},
		{VM_SUB, 1, 2, 0, 0xffffffff, M1},
		{VM_CSUB, 1, 2, 0, 0, 0},
		{VM_CSUB, 5, 2, 0, 3, 3},
		{VM_SMIN, M1, 1, 0, 0xffffffff, M1},
		{VM_UMIN, M1, 1, 0, 1, 1},
		{VM_SMAX, M1, 1, 0, 1, 1},
		{VM_UMAX, M1, 1, 0, 0xffffffff, M1},
		{VM_AND, 6, 3, 0, 2, 2},
		{VM_OR, 6, 3, 0, 7, 7},
		{VM_XOR, 6, 3, 0, 5, 5},
		{VM_INC, 6, 7, 0, 7, 7},
		{VM_INC, 7, 7, 0, 0, 0},
		{VM_DEC, 6, 7, 0, 5, 5},
		{VM_DEC, 0, 7, 0, 7, 7},
		{VM_DEC, 9, 7, 0, 7, 7},
	};

	for (unsigned size = 4; size <= 8; size += 4)
		for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
			uint64_t mem = t[i].old, want = size == 4 ? t[i].new32 : t[i].new64;
			uint64_t old = size == 4 ? (uint32_t)t[i].old : t[i].old;

			for (unsigned l = 0; l < VM_LANES; l++) {
				unsigned n = size / 4;

				addr[l] = VA + 256 + l * size;
				memcpy(bytes() + 256 + l * size, &mem, size);
				data[l] = (uint32_t)t[i].in;
				if (size == 8)
					data[VM_LANES + l] = (uint32_t)(t[i].in >> 32);
				data[n * VM_LANES + l] = (uint32_t)t[i].cmp;
				if (size == 8)
					data[3 * VM_LANES + l] = (uint32_t)(t[i].cmp >> 32);
			}
			cr_assert_eq(vm_access(&port, t[i].op, addr, 0x7fffffff, size, 0, data), 0);
			for (unsigned l = 0; l < VM_LANES; l++) {
				uint64_t now = 0, got = data[l];

				memcpy(&now, bytes() + 256 + l * size, size);
				if (size == 8)
					got |= (uint64_t)data[VM_LANES + l] << 32;
				if (l == 31) {
					cr_assert_eq(now, size == 4 ? (uint32_t)mem : mem);
					continue;
				}
				cr_assert_eq(now, want, "op %d size %u row %u: %lx", t[i].op, size,
					     i, now);
				cr_assert_eq(got, old, "op %d size %u row %u: %lx", t[i].op, size,
					     i, got);
			}
		}
}

Test(vgpu_vm, float_atomics)
{
	static const struct {
		enum vm_op op;
		float old, in, cmp, want;
	} t[] = {
		{VM_FADD, 1.5f, 2.25f, 0, 3.75f},
		{VM_FMIN, 1.5f, -2.0f, 0, -2.0f},
		{VM_FMAX, 1.5f, -2.0f, 0, 1.5f},
		{VM_FMIN, 0.0f, -0.0f, 0, -0.0f},
		{VM_FMAX, -0.0f, 0.0f, 0, 0.0f},
		{VM_FMIN, __builtin_nanf(""), 3.0f, 0, 3.0f},
		{VM_FMAX, 3.0f, __builtin_nanf(""), 0, 3.0f},
		{VM_FCMPSWAP, -0.0f, 4.0f, 0.0f, 4.0f},
		{VM_FCMPSWAP, 1.0f, 4.0f, 2.0f, 1.0f},
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		addr[3] = VA + 12;
		memcpy(bytes() + 12, &t[i].old, 4);
		data[3] = F(t[i].in);
		data[VM_LANES + 3] = F(t[i].cmp);
		cr_assert_eq(vm_access(&port, t[i].op, addr, 8, 4, 0, data), 0);
		cr_assert_eq(memcmp(bytes() + 12, &t[i].want, 4), 0, "row %u", i);
		cr_assert_eq(data[3], F(t[i].old));

		double old = (double)t[i].old, want = (double)t[i].want;
		uint64_t in = D((double)t[i].in), cmp = D((double)t[i].cmp);

		addr[3] = VA + 16;
		memcpy(bytes() + 16, &old, 8);
		data[3] = (uint32_t)in, data[VM_LANES + 3] = (uint32_t)(in >> 32);
		data[2 * VM_LANES + 3] = (uint32_t)cmp;
		data[3 * VM_LANES + 3] = (uint32_t)(cmp >> 32);
		cr_assert_eq(vm_access(&port, t[i].op, addr, 8, 8, 0, data), 0);
		cr_assert_eq(memcmp(bytes() + 16, &want, 8), 0, "row %u", i);
	}
}

Test(vgpu_vm, same_address_atomics_add_up)
{
	addresses(UNIFORM, 4, 0);
	for (unsigned l = 0; l < VM_LANES; l++)
		data[l] = 1;
	memset(bytes(), 0, 64);
	cr_assert_eq(vm_access(&port, VM_ADD, addr, ~0u, 4, 0, data), 0);
	for (unsigned l = 0; l < VM_LANES; l++)
		cr_assert_eq(data[l], l);
	cr_assert_eq(bytes()[12], 32);
}

Test(vgpu_vm, words)
{
	uint64_t v;
	uint32_t w;

	cr_assert_eq(vm_store64(&port, gva(VA + 8), 5), 0);
	cr_assert_eq(vm_add64(&port, gva(VA + 8), -7, &v), 0);
	cr_assert_eq(v, 5);
	cr_assert_eq(vm_load64(&port, gva(VA + 8), &v), 0);
	cr_assert_eq((int64_t)v, -2);
	cr_assert_eq(vm_store32(&port, gva(VA + 8), 0x12345678), 0);
	cr_assert_eq(vm_store16(&port, gva(VA + 8), 0xabcd), 0);
	cr_assert_eq(vm_load32(&port, gva(VA + 8), &w), 0);
	cr_assert_eq(w, 0x1234abcd);
	v = 77;
	cr_assert_eq(vm_load64(&port, gva(VA + 4), &v), -EFAULT);
	cr_assert(port.fault.misaligned);
	cr_assert_eq(v, 77, "outputs stay untouched on failure");
}

/* ---- threads ------------------------------------------------------------- */

static volatile bool stop;
static uint64_t reached, refused;

/* Reads a page that keeps being mapped and unmapped. The owner writes 'dead' into it as soon as
 * unmap returns; nobody may ever read that through the address. */
static void *reader(void *arg)
{
	struct vm_port p;
	uint64_t ok = 0, no = 0;

	(void)arg;
	vm_port_init(&p, vm, VM_CLIENT_TCP);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t a[VM_LANES];
		uint32_t d[VM_LANES], f;

		for (unsigned l = 0; l < VM_LANES; l++)
			a[l] = 0x900000 + 4 * l;
		f = vm_access(&p, VM_LOAD, a, ~0u, 4, 0, d);
		/* The page may appear between two lanes, so some may fault and some not. */
		for (unsigned l = 0; l < VM_LANES; l++)
			cr_assert_eq(d[l], f >> l & 1 ? 0 : 0x600d600d);
		if (f)
			no++;
		else
			ok++;
	}
	__atomic_add_fetch(&reached, ok, __ATOMIC_RELAXED);
	__atomic_add_fetch(&refused, no, __ATOMIC_RELAXED);
	return NULL;
}

Test(vgpu_vm, unmap_is_final_for_running_readers)
{
	pthread_t t[3];
	uint32_t *page = (uint32_t *)(bytes() + 4096);

	for (unsigned i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, reader, NULL);
	for (unsigned round = 0; round < 2000; round++) {
		for (unsigned i = 0; i < 1024; i++)
			page[i] = 0x600d600d;
		cr_assert_eq(vm_map(vm, gva(0x900000), 4096, bo, 4096, 0, VM_MTYPE_NC), 0);
		if (round % 8 == 0)
			usleep(1);
		cr_assert_eq(vm_unmap(vm, gva(0x900000)), 0);
		for (unsigned i = 0; i < 1024; i++)
			__atomic_store_n(&page[i], 0xdeaddead, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	cr_assert_gt(reached + refused, 0);
}

static void *adder(void *arg)
{
	struct vm_port p;

	(void)arg;
	vm_port_init(&p, vm, VM_CLIENT_TCP);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t a[VM_LANES];
		uint32_t d[VM_LANES];

		for (unsigned l = 0; l < VM_LANES; l++)
			a[l] = VA + 4 * (l % 4), d[l] = 1;
		cr_assert_eq(vm_access(&p, VM_ADD, a, ~0u, 4, 0, d), 0);
	}
	return NULL;
}

Test(vgpu_vm, device_and_host_atomics_meet)
{
	pthread_t t[2];
	uint32_t *w = (uint32_t *)bytes();

	for (unsigned i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, adder, NULL);
	for (unsigned i = 0; i < 100000; i++)
		__atomic_add_fetch(&w[i % 4], 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(w[i], 25000 + 2 * 2000 * 8);
}
