/* The kernel's page tables for a GPU address space, as bytes, from addresses alone. Pure.
 *
 * amdgpu on gfx11: a root, then directories for 512 GiB and 1 GiB and tables for 2 MiB, a page of
 * 4 KiB each, in VRAM (amdgpu_vm_pt.c: amdgpu_vm_pt_size, amdgpu_vm_pt_create; the levels are set in
 * gmc_v11_0.c:gmc_v11_0_sw_init). A table is spared where 2 MiB of addresses lie in one piece of
 * memory: the directory's entry then maps them itself (amdgpu_vm_ptes_update). How large the pieces
 * are is the machine's affair: system memory comes in powers of two of pages, the larger first, 4 MiB
 * at most (ttm_pool.c:ttm_pool_alloc), and on a fragmented machine page by page.
 *
 * Unmapping gives back the tables that a range covers whole. One that it covers in part stays until
 * the address space goes, because others might use it.
 */
#ifndef MEMORY_TABLES_H
#define MEMORY_TABLES_H

#include <stdint.h>

#define MEM_TABLE_SPAN    (2ull << 20)
#define MEM_PIECE_LARGEST (4ull << 20) /* MAX_PAGE_ORDER: an unbroken machine */
#define MEM_PIECE_LEAST   4096ull      /* a fragmented one */

/* What amdgpu maps at the top of every address space: its sequence numbers when the render node is
 * opened, the first-level trap handler with ACQUIRE_VM (amdgpu_vm.h: AMDGPU_VA_RESERVED_*). */
#define MEM_TOP_SEQ64       0xffffffc00000ull
#define MEM_TOP_SEQ64_BYTES (2ull << 20)
#define MEM_TOP_TRAP        0xffffffbf0000ull
#define MEM_TOP_TRAP_BYTES  8192ull

struct mem_tables;

/* An address space as a process has it after ACQUIRE_VM. piece: the largest piece of memory, one of
 * the two above, or another power of two from a page on. 0, -EINVAL or -ENOMEM. */
int mem_tables_create(uint64_t piece, struct mem_tables **out);
void mem_tables_destroy(struct mem_tables *t);
/* va and size in whole pages. 0 or -ENOMEM. */
int mem_tables_map(struct mem_tables *t, uint64_t va, uint64_t size);
void mem_tables_unmap(struct mem_tables *t, uint64_t va, uint64_t size);
uint64_t mem_tables_bytes(const struct mem_tables *t);

#endif
