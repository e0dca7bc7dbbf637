/* Where workgroups are: SPI's books of the machine's WGPs.
 *
 * A WGP is two CUs; a CU has two SIMDs, each with 16 wave slots and a register file of 1536
 * registers of 32 lanes, and 64 KiB of LDS. A workgroup of CU mode lives in one CU, one of WGP mode
 * uses the four SIMDs of its WGP. The WGPs are dealt out in the order that the kernel deals them to
 * a CU mask (kfd_mqd_manager.c:mqd_symmetrically_map_cu_mask): engine by engine, then array by
 * array, so that number k lies on shader engine k & 1, array k >> 1 & 1.
 *
 * All of it belongs to the scheduler's lock.
 */
#include <string.h>

#include "cp/internal.h"
#include "device.h"

enum { WGPS_MAX = 20, SIMDS = 4, SLOTS = 16, REGS = 1536, REG_UNIT = 24 };

static struct {
	struct wgp {
		uint16_t slots[SIMDS]; /* taken */
		uint16_t regs[SIMDS];  /* taken */
		uint32_t lds[2];       /* taken */
		uint8_t next_wg;
	} wgp[WGPS_MAX];
	unsigned cursor;
} P;

void cp_place_reset(void)
{
	memset(&P, 0, sizeof(P));
}

unsigned cp_place_regs(unsigned nvgpr, bool wave64)
{
	unsigned regs = nvgpr * (wave64 ? 2 : 1);

	return (regs + REG_UNIT - 1) / REG_UNIT * REG_UNIT;
}

/* Waves of so many registers that an empty SIMD takes. */
static unsigned simd_waves(unsigned regs)
{
	unsigned n = regs ? REGS / regs : SLOTS;

	return n > SLOTS ? SLOTS : n;
}

bool cp_place_possible(const struct cp_dispatch *d)
{
	return d->waves_full <= simd_waves(d->regs) * (d->wgp_mode ? SIMDS : SIMDS / 2);
}

static unsigned room(const struct wgp *w, unsigned simd, unsigned regs)
{
	unsigned slots = SLOTS - (unsigned)__builtin_popcount(w->slots[simd]);
	unsigned n = regs ? (unsigned)(REGS - w->regs[simd]) / regs : slots;

	return n < slots ? n : slots;
}

/* The waves go round the SIMDs from first on, each to the next that has room. */
static void seat(struct wgp *w, struct isa_group *g, unsigned first, unsigned n)
{
	const struct cp_dispatch *d = g->d;
	unsigned simd = first;

	for (unsigned i = 0; i < d->waves_full; i++) {
		unsigned slot;

		while (!room(w, simd, d->regs))
			simd = first + (simd - first + 1) % n;
		slot = (unsigned)__builtin_ctz(~(unsigned)w->slots[simd]);
		w->slots[simd] |= (uint16_t)(1u << slot);
		w->regs[simd] = (uint16_t)(w->regs[simd] + d->regs);
		g->at.seat[i] = (uint8_t)(simd << 4 | slot);
		simd = first + (simd - first + 1) % n;
	}
}

static bool take_in(struct wgp *w, struct isa_group *g, unsigned first, unsigned n, unsigned half)
{
	const struct cp_dispatch *d = g->d;
	unsigned sum = 0;

	for (unsigned s = first; s < first + n; s++)
		sum += room(w, s, d->regs);
	if (sum < d->waves_full || w->lds[half] + d->lds_bytes > CP_LDS_BYTES)
		return false;
	seat(w, g, first, n);
	w->lds[half] += d->lds_bytes;
	g->at.half = (uint8_t)half;
	g->at.wg = w->next_wg++ & 31;
	return true;
}

static bool take_wgp(struct wgp *w, struct isa_group *g)
{
	if (g->d->wgp_mode) {
		unsigned half = w->lds[1] < w->lds[0];

		return take_in(w, g, 0, SIMDS, half);
	}
	/* The emptier CU first. */
	for (unsigned i = 0, cu = w->lds[1] + w->regs[2] + w->regs[3] <
				  w->lds[0] + w->regs[0] + w->regs[1];
	     i < 2; i++, cu ^= 1) {
		if (take_in(w, g, 2 * cu, SIMDS / 2, cu))
			return true;
	}
	return false;
}

bool cp_place_take(struct isa_group *g)
{
	const struct cp_mqd *m = &g->d->q->mqd;
	unsigned n = vgpu_config.cus / 2;
	uint32_t allowed = m->masked && vgpu_rule(RULE_cu_mask) ? m->wgp_mask : ~0u;

	g->at.held = false;
	for (unsigned i = 0; i < n; i++) {
		unsigned k = (P.cursor + i) % n;

		if (!(allowed >> k & 1))
			continue;
		if (!cp_place_possible(g->d)) {
			/* No machine takes it; the compiler's limits see to that it is never asked.
			 * Here it runs, on seats that it shares. */
			for (unsigned w = 0; w < g->d->waves_full; w++)
				g->at.seat[w] = (uint8_t)(w & 63);
		} else if (!take_wgp(&P.wgp[k], g)) {
			continue;
		} else {
			g->at.held = true;
		}
		g->at.wgp = (uint8_t)k;
		P.cursor = (k + 1) % n;
		return true;
	}
	return false;
}

void cp_place_give(struct isa_group *g)
{
	struct wgp *w = &P.wgp[g->at.wgp];

	if (!g->at.held)
		return;
	g->at.held = false;
	for (unsigned i = 0; i < g->d->waves_full; i++) {
		unsigned simd = g->at.seat[i] >> 4;

		w->slots[simd] &= (uint16_t)~(1u << (g->at.seat[i] & 15));
		w->regs[simd] = (uint16_t)(w->regs[simd] - g->d->regs);
	}
	w->lds[g->at.half] -= g->d->lds_bytes;
}

/* HW_ID1: wave slot [4:0], SIMD [9:8], WGP within the array [13:10], array 16, engine [20:18].
 * HW_ID2: queue [3:0], pipe [5:4], ME [9:8] (1: the compute engine), workgroup [20:16],
 * VMID [27:24]. RDNA3 ISA, "Hardware registers". */
void cp_place_wave(const struct isa_group *g, unsigned i, struct isa_wave *w)
{
	const struct cp_queue *q = g->d->q;
	unsigned k = g->at.wgp;

	w->hw_id1 = (g->at.seat[i] & 15) | (uint32_t)(g->at.seat[i] >> 4) << 8 | k >> 2 << 10 |
		    (k >> 1 & 1) << 16 | (k & 1) << 18;
	w->hw_id2 = (q->hqd >> 2) | (q->hqd & 3) << 4 | 1u << 8 | (uint32_t)g->at.wg << 16 |
		    q->vmid << 24;
}
