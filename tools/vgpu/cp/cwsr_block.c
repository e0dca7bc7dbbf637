/* Waves to bytes and back. See cwsr.h. */
#include "cp/cwsr.h"

#include <errno.h>
#include <string.h>

/* SQ_WAVE_STATUS and SQ_WAVE_TRAPSTS, gfx11 (cwsr_trap_handler_gfx10.asm). */
enum {
	STATUS_SCC = 1u << 0,
	STATUS_SPI_PRIO = 3u << 1,
	STATUS_PRIV = 1u << 5,
	STATUS_EXECZ = 1u << 9,
	STATUS_VCCZ = 1u << 10,
	STATUS_HALT = 1u << 13,
	STATUS_ECC_ERR = 1u << 17,
	TRAPSTS_SAVECTX = 1u << 10,
	TRAPSTS_HOST_TRAP = 1u << 16,
	SGPRS = 108, /* with VCC */
};

static uint64_t live(const struct isa_wave *w, uint64_t mask)
{
	return w->wave64 ? mask : (uint32_t)mask;
}

/* STATUS as the handler reads it: it runs privileged, and clears what may not be set again. */
static uint32_t status_word(const struct isa_wave *w)
{
	uint64_t vcc = live(w, w->s[OPR_VCC_LO] | (uint64_t)w->s[OPR_VCC_HI] << 32);
	uint32_t s = w->status & ~(uint32_t)(STATUS_SCC | STATUS_SPI_PRIO | STATUS_EXECZ |
					     STATUS_VCCZ | STATUS_ECC_ERR);

	return s | STATUS_PRIV | (w->scc ? STATUS_SCC : 0) | (live(w, w->exec) ? 0 : STATUS_EXECZ) |
	       (vcc ? 0 : STATUS_VCCZ);
}

void cwsr_pack(const struct isa_wave *w, const uint8_t *lds, uint64_t va, uint8_t *block)
{
	unsigned halves = w->wave64 ? 2 : 1;
	uint32_t *sgpr = (uint32_t *)(void *)(block + cwsr_vgpr_bytes(w));
	uint32_t *hw = sgpr + CWSR_HWREGS / 4, *ttmp = sgpr + CWSR_TTMPS / 4;

	for (unsigned r = 0; r < w->nvgpr; r++)
		for (unsigned h = 0; h < halves; h++)
			memcpy(block + (r * halves + h) * 128, &w->v[h * w->nvgpr + r], 128);
	memset(sgpr, 0, CWSR_TTMPS + CWSR_TTMP_BYTES);
	memcpy(sgpr, w->s, SGPRS * 4);
	hw[CWSR_M0] = w->s[OPR_M0];
	hw[CWSR_PC_LO] = (uint32_t)w->pc;
	hw[CWSR_PC_HI] = (uint32_t)(w->pc >> 32) & 0xffff;
	hw[CWSR_EXEC_LO] = (uint32_t)w->exec;
	hw[CWSR_EXEC_HI] = (uint32_t)(w->exec >> 32);
	hw[CWSR_STATUS] = status_word(w);
	hw[CWSR_TRAPSTS] = w->trapsts & ~(uint32_t)TRAPSTS_SAVECTX;
	hw[CWSR_LEFTOVER] = (uint32_t)(va >> 32) & 0xffff;
	hw[CWSR_MODE] = w->mode;
	hw[CWSR_FLAT_SCRATCH_LO] = (uint32_t)w->flat_scratch;
	hw[CWSR_FLAT_SCRATCH_HI] = (uint32_t)(w->flat_scratch >> 32);
	memcpy(ttmp + 4, &w->s[OPR_TTMP0 + 4], 8 * 4);
	ttmp[13] = w->s[OPR_TTMP0 + 13];
	if (lds)
		memcpy(block + cwsr_vgpr_bytes(w) + CWSR_LDS, lds, w->lds_size);
}

void cwsr_unpack(struct isa_wave *w, uint8_t *lds, const uint8_t *block)
{
	const uint32_t keep = TRAPSTS_SAVECTX | TRAPSTS_HOST_TRAP;
	unsigned halves = w->wave64 ? 2 : 1;
	const uint32_t *sgpr = (const uint32_t *)(const void *)(block + cwsr_vgpr_bytes(w));
	const uint32_t *hw = sgpr + CWSR_HWREGS / 4, *ttmp = sgpr + CWSR_TTMPS / 4;

	for (unsigned r = 0; r < w->nvgpr; r++)
		for (unsigned h = 0; h < halves; h++)
			memcpy(&w->v[h * w->nvgpr + r], block + (r * halves + h) * 128, 128);
	memcpy(w->s, sgpr, SGPRS * 4);
	w->s[OPR_M0] = hw[CWSR_M0];
	w->pc = hw[CWSR_PC_LO] | (uint64_t)(hw[CWSR_PC_HI] & 0xffff) << 32;
	w->exec = hw[CWSR_EXEC_LO] | (uint64_t)hw[CWSR_EXEC_HI] << 32;
	w->scc = hw[CWSR_STATUS] & STATUS_SCC;
	w->status = hw[CWSR_STATUS] &
		    ~(uint32_t)(STATUS_SCC | STATUS_PRIV | STATUS_EXECZ | STATUS_VCCZ);
	w->trapsts = (w->trapsts & keep) | (hw[CWSR_TRAPSTS] & ~keep);
	w->mode = hw[CWSR_MODE];
	w->flat_scratch = hw[CWSR_FLAT_SCRATCH_LO] | (uint64_t)hw[CWSR_FLAT_SCRATCH_HI] << 32;
	memcpy(&w->s[OPR_TTMP0 + 4], ttmp + 4, 8 * 4);
	w->s[OPR_TTMP0 + 13] = ttmp[13];
	if (lds)
		memcpy(lds, block + cwsr_vgpr_bytes(w) + CWSR_LDS, w->lds_size);
	w->priv = 0;
	if (w->status & STATUS_HALT) {
		w->state = WAVE_HALTED;
	} else {
		w->state = WAVE_RUN;
		w->stop = STOP_NONE;
	}
}

void cwsr_scrub(struct isa_wave *w, uint8_t *lds)
{
	const uint32_t leftover = 0xbad0bad0;
	v32u v = (v32u){} + leftover;

	for (unsigned r = 0; r < w->nvgpr * (w->wave64 ? 2 : 1); r++)
		w->v[r] = v;
	for (unsigned i = 0; i < OPR_NULL; i++)
		w->s[i] = leftover;
	w->s[OPR_M0] = leftover;
	w->pc = 0;
	w->exec = 0;
	w->scc = w->status = w->trapsts = w->mode = 0;
	w->flat_scratch = 0;
	if (lds)
		for (uint32_t i = 0; i + 4 <= w->lds_size; i += 4)
			memcpy(lds + i, &leftover, 4);
}

/* ---- the control stack ---------------------------------------------------- */

/* Of a state word: VGPRs [5:0] in units of 8 (wave32) or 4, LDS [17:10] in 512 bytes, wave32 24,
 * bit 31. Of a wave word: scratch slot [9:0], scratch 11, first wave 12, SE [26:24], last wave 29;
 * bits 30 (an event) and 31 are 0. */
enum {
	STATE_W32 = 1u << 24,
	IS_EVENT = 1u << 30,
	IS_STATE = 1u << 31,
	WAVE_SCRATCH = 1u << 11,
	WAVE_FIRST = 1u << 12,
	WAVE_LAST = 1u << 29,
};

void cwsr_state_words(const struct cwsr_relaunch *r, uint32_t words[2])
{
	words[0] = IS_STATE | (r->nvgpr / (r->wave64 ? 4 : 8) - 1) |
		   r->lds_bytes / CWSR_LDS_UNIT << 10 | (r->wave64 ? 0 : STATE_W32);
	/* Readers step over the second word; what the firmware keeps in it is not public. */
	words[1] = IS_STATE;
}

uint32_t cwsr_wave_word(const struct cwsr_relaunch *r)
{
	return (r->scratch ? WAVE_SCRATCH | (r->scratch_slot & 0x3ff) : 0) | r->se << 24 |
	       (r->first ? WAVE_FIRST : 0) | (r->last ? WAVE_LAST : 0);
}

void cwsr_head_words(unsigned n, uint32_t words[CWSR_STACK_HEAD])
{
	enum { PKT3 = 3u << 30, NOP = 0x10 << 8 };

	/* "Two PM4 packets", says the reader, and skips them. A type-3 NOP header over the rest. */
	words[0] = PKT3 | NOP | (n & 0x3fff) << 16;
	words[1] = n;
}

int cwsr_next(const uint32_t *stack, unsigned n, unsigned *at, uint32_t state[2],
	      struct cwsr_relaunch *r)
{
	for (unsigned i = *at; i < n; i++) {
		uint32_t word = stack[i];

		if (word & IS_EVENT)
			continue;
		if (word & IS_STATE) {
			if (i + 1 >= n)
				return -EINVAL;
			state[0] = word;
			state[1] = stack[++i];
			continue;
		}
		if (!state[0])
			return -EINVAL;
		r->wave64 = !(state[0] & STATE_W32);
		r->nvgpr = ((state[0] & 63) + 1) * (r->wave64 ? 4 : 8);
		r->lds_bytes = (state[0] >> 10 & 0xff) * CWSR_LDS_UNIT;
		r->first = word & WAVE_FIRST;
		r->last = word & WAVE_LAST;
		r->scratch = word & WAVE_SCRATCH;
		r->scratch_slot = word & 0x3ff;
		r->se = word >> 24 & 7;
		*at = i + 1;
		return 1;
	}
	*at = n;
	return 0;
}
