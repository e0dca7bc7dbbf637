/* Shared by the files of vm/ only (and inlined through door.h). */
#ifndef VGPU_VM_INTERNAL_H
#define VGPU_VM_INTERNAL_H

#include <pthread.h>

#include "vm/vm.h"

/* Two locks. `lock` (recursive) is held by whoever changes the set of mappings and may be held
 * across a grace period. `pt` guards the table itself for the length of one look-up or one edit
 * and is the only one the door takes, so a waiting unmap never blocks the access it waits for. */
struct vm_tables;

struct vm {
	pthread_mutex_t lock;
	pthread_mutex_t pt;
	struct vm_mapping **map; /* sorted by start, disjoint */
	size_t n, cap;
	uint64_t generation;      /* bumped (release) whenever a translation is withdrawn */
	struct vm_tables *tables; /* guarded by lock */
};

/* Looks va up and fills e, or returns false (no mapping, or PTEs cleared). Takes vm->pt. */
bool vm_walk(struct vm *vm, uint64_t va, struct vm_tlbe *e);

/* A page of VRAM for a page table: false when there is none left. Before there are pools (tests of
 * vm/ alone) there always is. */
bool vm_table_take(void);
void vm_table_give(void);

/* Grace periods. Every thread that goes through the door owns one slot; seq is odd while it is
 * inside. vm_grace() returns once no access that could have used a withdrawn translation runs. */
struct vm_reader {
	_Alignas(64) uint64_t seq;
	struct vm_reader *next;
	uint32_t taken;
};
extern bool vm_reader_fences; /* no membarrier(2): the reader side pays for a fence */
struct vm_reader *vm_reader_self(void);
void vm_grace(void);
void vm_readers_forked(void);

#endif
