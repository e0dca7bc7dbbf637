/* Traps and exceptions of waves.
 *
 * What the kernel's first-level handler does before it reaches user code
 * (amdkfd/cwsr_trap_handler_gfx10.asm, built for gfx11) is done here directly: it keeps STATUS
 * in ttmp12, finds the second-level handler that SET_TRAP_HANDLER left, and jumps there with its
 * memory address in ttmp14:15. ttmp0:1 are the hardware's: PC, and the trap id in bits 23:16.
 *
 * PC is that of the s_trap or of the instruction that cannot be executed. After a memory violation
 * the hardware's is anywhere behind the access; ours is the access itself. After a watched access it
 * is there too; ours is the next instruction's.
 */
#include "cp/internal.h"

/* SQ_WAVE_STATUS, gfx11 (same file). */
enum {
	STATUS_SCC = 1u << 0,
	STATUS_SPI_PRIO = 3u << 1,
	STATUS_PRIV = 1u << 5,
	STATUS_EXECZ = 1u << 9,
	STATUS_VCCZ = 1u << 10,
	STATUS_HALT = 1u << 13,
	STATUS_ECC_ERR = 1u << 17,
};
enum { TTMP11_DEBUG_TRAP = 1u << 23 };

bool cp_trap_enter(const struct cp_dispatch *d, struct isa_wave *w, unsigned trap_id)
{
	uint32_t *ttmp = &w->s[OPR_TTMP0];
	uint64_t vcc = w->s[OPR_VCC_LO] | (w->wave64 ? (uint64_t)w->s[OPR_VCC_HI] << 32 : 0);
	uint64_t exec = w->wave64 ? w->exec : (uint32_t)w->exec;
	uint32_t status = w->status & ~(uint32_t)(STATUS_SPI_PRIO | STATUS_ECC_ERR | STATUS_SCC |
						  STATUS_EXECZ | STATUS_VCCZ);

	if (w->priv) /* a handler that traps has nobody left to ask */
		return false;
	if (!w->tba) {
		if (!trap_id) {
			w->status |= STATUS_HALT;
			/* The file's one rule for all generations: gfx10.1 could not save a wave
			 * halted at s_endpgm. */
			w->pc -= 8;
			return false;
		}
		w->pc += 4; /* an unhandled s_trap is stepped over */
		goto run;
	}
	status |= (w->scc ? STATUS_SCC : 0) | (exec ? 0 : STATUS_EXECZ) | (vcc ? 0 : STATUS_VCCZ);
	ttmp[0] = (uint32_t)w->pc;
	ttmp[1] = (uint32_t)(w->pc >> 32 & 0xffff) | trap_id << 16;
	ttmp[2] = (uint32_t)w->tba;
	ttmp[3] = (uint32_t)(w->tba >> 32);
	/* Whether a debugger is attached, for the second level to know. */
	ttmp[11] &= ~(uint32_t)TTMP11_DEBUG_TRAP;
	if (d->debug & CP_DBG_ATTACHED)
		ttmp[11] |= TTMP11_DEBUG_TRAP;
	ttmp[12] = status;
	ttmp[14] = (uint32_t)w->tma;
	ttmp[15] = (uint32_t)(w->tma >> 32);
	w->status |= STATUS_PRIV;
	w->priv = 1;
	w->pc = w->tba;
run:
	w->state = WAVE_RUN;
	w->stop = STOP_NONE;
	return true;
}

/* ---- what a debugger asked for ------------------------------------------- */

/* TRAPSTS, same file: none of these can be masked. */
enum {
	TRAPSTS_WAVE_START = 1u << 17,
	TRAPSTS_WAVE_END = 1u << 18,
	TRAPSTS_AFTER_INST = 1u << 20,
};
/* Maskable: point 0 is one of the nine exceptions, the others are EXCP_HI; all four go by its enable. */
enum { TRAPSTS_ADDR_WATCH_SHIFT = 7, TRAPSTS_EXCP_HI_SHIFT = 12 };
enum { MODE_DEBUG_EN = 1u << 11, MODE_EXCP_EN_ADDR_WATCH = 1u << 19 };

/* Enters the handler; without one the wave is halted. */
static void exception(const struct cp_dispatch *d, struct isa_wave *w, uint32_t why)
{
	w->trapsts |= why;
	if (cp_trap_enter(d, w, 0))
		return;
	w->state = WAVE_HALTED;
	w->stop = STOP_NONE;
}

void cp_trap_at_start(const struct cp_dispatch *d, struct isa_wave *w)
{
	enum { HALTED = 1 };

	if ((d->debug >> CP_DBG_LAUNCH_MODE_SHIFT & 3) == HALTED) {
		w->status |= STATUS_HALT;
		w->state = WAVE_HALTED;
		w->stop = STOP_NONE;
	} else if (d->debug & CP_DBG_TRAP_ON_START) {
		exception(d, w, TRAPSTS_WAVE_START);
	}
}

bool cp_trap_at_end(const struct cp_dispatch *d, struct isa_wave *w)
{
	/* Once: the handler returns to the same s_endpgm. */
	if (!(d->debug & CP_DBG_TRAP_ON_END) || w->priv || w->trapsts & TRAPSTS_WAVE_END)
		return false;
	w->pc -= 4;
	exception(d, w, TRAPSTS_WAVE_END);
	return true;
}

bool cp_trap_steps(const struct isa_wave *w)
{
	return w->mode & MODE_DEBUG_EN;
}

void cp_trap_after_step(const struct cp_dispatch *d, struct isa_wave *w)
{
	if (w->state == WAVE_RUN && !w->priv)
		exception(d, w, TRAPSTS_AFTER_INST);
}

void cp_trap_watched(const struct cp_dispatch *d, struct isa_wave *w, uint32_t points)
{
	uint32_t why = (points & 1) << TRAPSTS_ADDR_WATCH_SHIFT | (points >> 1)
									  << TRAPSTS_EXCP_HI_SHIFT;

	/* Faults are dealt with as such, and a handler is not interrupted. */
	if ((w->state == WAVE_RUN || w->state == WAVE_SLEEP) && !w->priv &&
	    w->mode & MODE_EXCP_EN_ADDR_WATCH)
		exception(d, w, why);
	else
		w->trapsts |= why;
}

const char *cp_exception_name(unsigned code)
{
	static const char *const names[] = {"nothing",
					    "an abort",
					    "a trap",
					    "a math error",
					    "an illegal instruction",
					    "a memory violation",
					    "an aperture violation"};

	return code < sizeof(names) / sizeof(*names) ? names[code] : "something unknown";
}
