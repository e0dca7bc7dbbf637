/* The context save area of a compute queue, byte by byte. Pure: no memory of the client's, no
 * locks.
 *
 * Sources
 *   one wave's block      what the kernel's gfx11 trap handler stores and loads
 *                         (amdkfd/cwsr_trap_handler_gfx10.asm, CHIP_PLUM_BONITO)
 *   the control stack     what ROCm's debugger library reads out of it (ROCdbgapi,
 *                         architecture.cpp: gfx10/gfx11 control_stack_iterate, cwsr_record_t)
 *
 * A queue's area: header, control stack growing down from ctl_stack_bytes, wave blocks growing up
 * from there. The stack is read from its low end, the blocks from their high end, so what is saved
 * last is launched first. A workgroup's first wave is launched first: it was saved last, and its
 * block ends with the workgroup's LDS.
 *
 *   0               VGPRs, all lanes of v0, then of v1, ...  (nvgpr * lanes * 4 bytes)
 *   + 0             SGPRs: s0..s105, VCC; 20 dwords of 0     (512)
 *   + 512           M0, PC low, PC high, EXEC low, EXEC high, STATUS, TRAPSTS, a leftover, MODE,
 *                   FLAT_SCRATCH low, high; 5 dwords of 0    (64)
 *   + 576           ttmp4..ttmp11 and ttmp13 at their numbers, 0 elsewhere; the last two dwords are
 *                   not written                              (64)
 *   + 640           LDS, of a first wave
 *
 * The leftover is where older parts have XNACK_MASK; the gfx11 handler stores the register that
 * holds bits 47:32 of the block's own address.
 */
#ifndef VGPU_CP_CWSR_H
#define VGPU_CP_CWSR_H

#include "isa/isa.h"

enum {
	CWSR_SGPRS = 0, /* offsets behind the VGPRs */
	CWSR_HWREGS = 512,
	CWSR_TTMPS = 576,
	CWSR_LDS = 640,
	CWSR_TTMP_BYTES = 14 * 4, /* of 64: what is written */
	CWSR_LDS_UNIT = 512,
	CWSR_STACK_HEAD = 2, /* dwords at the low end that are no relaunch words */
};

enum cwsr_hwreg {
	CWSR_M0,
	CWSR_PC_LO,
	CWSR_PC_HI,
	CWSR_EXEC_LO,
	CWSR_EXEC_HI,
	CWSR_STATUS,
	CWSR_TRAPSTS,
	CWSR_LEFTOVER,
	CWSR_MODE,
	CWSR_FLAT_SCRATCH_LO,
	CWSR_FLAT_SCRATCH_HI,
	CWSR_NHWREGS = 16,
};

static inline uint32_t cwsr_vgpr_bytes(const struct isa_wave *w)
{
	return w->nvgpr * (w->wave64 ? 256 : 128);
}

/* Bytes of w's block; first: with the workgroup's LDS. */
static inline uint32_t cwsr_wave_bytes(const struct isa_wave *w, bool first)
{
	return cwsr_vgpr_bytes(w) + CWSR_LDS + (first ? w->lds_size : 0);
}

/* Fills a block that is to lie at va. lds: of a first wave, else NULL. What the handler does not
 * write is not touched. */
void cwsr_pack(const struct isa_wave *w, const uint8_t *lds, uint64_t va, uint8_t *block);
/* Takes over what the handler loads: everything but ttmp0-3, 12, 14, 15 and the bits of TRAPSTS
 * that ask for a save. A wave whose STATUS says HALT is halted, any other runs. */
void cwsr_unpack(struct isa_wave *w, uint8_t *lds, const uint8_t *block);
/* What is left in the registers and the LDS of a machine that others have used since. */
void cwsr_scrub(struct isa_wave *w, uint8_t *lds);

/* A relaunch of one wave as the control stack has it. */
struct cwsr_relaunch {
	uint32_t nvgpr, lds_bytes;
	bool wave64;
	bool first, last; /* of its workgroup */
	bool scratch;
	uint32_t scratch_slot; /* within its shader engine */
	uint32_t se;
};

/* Two words of state, in words[0..1], and one of the wave. */
void cwsr_state_words(const struct cwsr_relaunch *r, uint32_t words[2]);
uint32_t cwsr_wave_word(const struct cwsr_relaunch *r);
/* The two words at the low end of a stack of n relaunch words. */
void cwsr_head_words(unsigned n, uint32_t words[CWSR_STACK_HEAD]);
/* Reads the next wave of a stack of n words from *at on, which moves behind it; state is what the
 * words before said, 0 at first. 1, 0 at the end, -EINVAL for a wave without state. */
int cwsr_next(const uint32_t *stack, unsigned n, unsigned *at, uint32_t state[2],
	      struct cwsr_relaunch *r);

#endif
