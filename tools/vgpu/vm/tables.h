/* The page tables of a GPU address space, as bytes: what amdgpu allocates for them and when it gives
 * it back. Translation itself is vm.c's; this is the account.
 *
 * gfx11 has four levels of 512 entries over 48 bits (gmc_v11_0.c:gmc_v11_0_sw_init:
 * amdgpu_vm_adjust_size(adev, 256 * 1024, 9, 3, 48)); each directory and table is a page of its own
 * (amdgpu_vm_pt.c:amdgpu_vm_pt_size) and lies in VRAM, on this APU too: only is_app_apu parts have
 * them in GTT, and a kernel buffer has no second choice (amdgpu_vm_pt_create, amdgpu_bo_create).
 * So they are in mem_info_vram_used and, being in the VM's lists, in fdinfo's drm-memory-vram, and
 * in none of KFD's limits, which hold ESTIMATE_PT_SIZE back instead.
 */
#ifndef VGPU_TABLES_H
#define VGPU_TABLES_H

#include <stdbool.h>
#include <stdint.h>

struct vm_tables;

/* With its root. -ENOMEM: no VRAM for it, or no memory of ours. */
int vm_tables_create(struct vm_tables **out);
void vm_tables_destroy(struct vm_tables *t);
/* Makes what mapping [va, va + size) needs. Memory comes in pieces of `piece` bytes at most, a power
 * of two of pages, the larger ones first (ttm_pool.c:ttm_pool_alloc); within one a whole 2 MiB is an
 * entry of the directory above and needs no table (amdgpu_vm_ptes_update). A table that such an
 * entry replaces is freed. -ENOMEM: what was made stays, as it does there. */
int vm_tables_map(struct vm_tables *t, uint64_t va, uint64_t size, uint64_t piece);
/* Clearing a range frees the tables that it covers whole; one that others might share stays until
 * the address space goes. */
void vm_tables_unmap(struct vm_tables *t, uint64_t va, uint64_t size);
uint64_t vm_tables_bytes(const struct vm_tables *t);

#endif
