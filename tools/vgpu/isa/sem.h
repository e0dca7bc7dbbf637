/* What the scalar and memory semantics share. */
#ifndef VGPU_ISA_SEM_H
#define VGPU_ISA_SEM_H

#include "isa/operands.h"

/* Defines the meaning of one opcode; x is the execution, in the instruction. */
#define SEM(name)                                                                                  \
	isa_sem sem_##name;                                                                        \
	void sem_##name(struct isa_exec *x, const struct isa_insn *in)

/* Every wait for outstanding memory goes through here, with the counter's limit (0 waits for
 * all). Nothing is outstanding but where memory is delayed (isa/delay.h). */
enum isa_counter { CNT_VM = 1, CNT_VS = 2, CNT_LGKM = 4, CNT_EXP = 8 };
void isa_wait(struct isa_exec *x, unsigned counters, unsigned limit);

/* Cache invalidates of the wave: buffer_gl0_inv, buffer_gl1_inv, s_gl1_inv, s_dcache_inv. */
enum isa_cache { CACHE_GL0 = 1, CACHE_GL1 = 2, CACHE_SCALAR = 4 };
void isa_cache_inv(struct isa_exec *x, unsigned caches);

/* A vector memory access at 64-bit addresses; flat apertures are resolved by the caller. Halts
 * the wave on a fault and returns false. */
static inline bool isa_vmem(struct isa_exec *x, const struct isa_insn *in, enum vm_op op,
			    const uint64_t *addr, uint32_t mask, unsigned size, uint32_t *data)
{
	if (__builtin_expect(vm_access(x->vmem, op, addr, mask, size, in->cache, data) != 0, 0)) {
		isa_halt(x, in, STOP_MEM_FAULT);
		return false;
	}
	return true;
}

/* ---- LDS ----------------------------------------------------------------- */

/* One lane's atomic on LDS: what the new value is. data in d (and for compare-store the comparand in
 * c). size 4 or 8. denorm: MODE's two bits for floats of that size. */
uint64_t isa_atomic(enum vm_op op, unsigned size, unsigned denorm, uint64_t old, uint64_t d,
		    uint64_t c);

/* Lane access to LDS at byte offsets, same data layout as vm_access(). Bytes out of range read 0
 * and are not written. */
void isa_lds_access(struct isa_exec *x, enum vm_op op, const uint32_t *off, uint32_t mask,
		    unsigned size, uint32_t *data);

/* ---- loads of less than a register ---------------------------------------- */

enum isa_part {
	PART_B32, /* whole dwords */
	PART_U8,
	PART_I8,
	PART_U16,
	PART_I16,
	PART_D16, /* u16 into the low half, the high half kept */
	PART_D16_HI,
	PART_D16_U8,
	PART_D16_I8,
	PART_D16_HI_U8,
	PART_D16_HI_I8,
};

/* Writes the loaded component c of the lanes in mask to VGPR code + c, in the form part asks for.
 */
void isa_load_write(struct isa_exec *x, unsigned code, uint32_t mask, enum isa_part part,
		    unsigned dwords, const uint32_t *data);
/* Fetches dwords of store data. hi: a 16-bit store of the upper half. */
void isa_store_data(const struct isa_exec *x, unsigned code, unsigned dwords, bool hi,
		    uint32_t *data);

#endif
