/* Where workgroups are: SPI's books of the machine's WGPs.
 *
 * A WGP is two CUs; a CU has two SIMDs, each with 16 wave slots and a register file of 1536
 * registers of 32 lanes, and 64 KiB of LDS. A workgroup of CU mode lives in one CU, one of WGP mode
 * uses the four SIMDs of its WGP. The WGPs are dealt out in the order that the kernel deals them to
 * a CU mask (kfd_mqd_manager.c:mqd_symmetrically_map_cu_mask): engine by engine, then array by
 * array, so that number k lies on shader engine k & 1, array k >> 1 & 1.
 *
 * All of it belongs to the scheduler's lock. The books of a device that several processes share lie in
 * memory that they share, without a lock (share/proto.h): who takes slots looks again afterwards, and
 * gives them back if two at once took more registers or LDS than there are.
 */
#include <string.h>

#include "cp/internal.h"
#include "device.h"
#include "share/share.h"

enum { WGPS_MAX = 20, SIMDS = 4, SLOTS = 16, REGS = 1536, REG_UNIT = 24 };

static struct {
	struct wgp {
		uint16_t slots[SIMDS]; /* taken */
		uint16_t regs[SIMDS];  /* taken */
		uint32_t lds[2];       /* taken */
		uint8_t next_wg;
	} wgp[WGPS_MAX];
	unsigned cursor;
	unsigned held; /* workgroups */
	/* Since when nothing of ours has a place, though it wants one (0: it has), and the last look. */
	uint64_t starved, looked;
	bool said;
} P;

#define LDS_UNIT   512u
#define STARVED_NS 1000000000u
_Static_assert((int)WGPS_MAX == SHARE_WGPS && (int)SIMDS == SHARE_SIMDS &&
		       (int)SLOTS == SHARE_SLOTS,
	       "one machine");

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

/* Seats that others may have, too. */
static void share_a_seat(struct isa_group *g)
{
	for (unsigned w = 0; w < g->d->waves_full; w++)
		g->at.seat[w] = (uint8_t)(w & 63);
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

/* ---- the shared books ------------------------------------------------------ */

/* WGP k as it is now. False: more is taken than it has. */
static bool look(unsigned k, struct wgp *w)
{
	bool fits = true;

	w->lds[0] = w->lds[1] = 0;
	for (unsigned simd = 0; simd < SIMDS; simd++) {
		unsigned regs = 0;

		w->slots[simd] = 0;
		for (unsigned i = 0; i < SLOTS; i++) {
			/* Acquire: pairs with the release of who left it. */
			uint64_t s = __atomic_load_n(&share_seats[k][simd][i], __ATOMIC_ACQUIRE);

			if (!s)
				continue;
			w->slots[simd] |= (uint16_t)(1u << i);
			regs += s >> SHARE_SEAT_REGS & 0x7ff;
			w->lds[s >> SHARE_SEAT_HALF & 1] += (s >> SHARE_SEAT_LDS & 0xff) * LDS_UNIT;
		}
		fits &= regs <= REGS;
		w->regs[simd] = (uint16_t)regs;
	}
	return fits && w->lds[0] <= CP_LDS_BYTES && w->lds[1] <= CP_LDS_BYTES;
}

static uint64_t *shared_seat(unsigned k, uint8_t seat)
{
	return &share_seats[k][seat >> 4][seat & 15];
}

/* Gives back the seats of the first n waves. */
static void shared_give(unsigned k, const struct isa_group *g, unsigned n)
{
	while (n--)
		__atomic_store_n(shared_seat(k, g->at.seat[n]), 0, __ATOMIC_RELEASE);
}

static bool shared_claim(unsigned k, const struct isa_group *g)
{
	const struct cp_dispatch *d = g->d;
	uint64_t lds = (d->lds_bytes + LDS_UNIT - 1) / LDS_UNIT;
	struct wgp now;

	for (unsigned i = 0; i < d->waves_full; i++) {
		uint64_t none = 0, mine = share_number | (uint64_t)d->regs << SHARE_SEAT_REGS;

		if (!i)
			mine |= lds << SHARE_SEAT_LDS | (uint64_t)g->at.half << SHARE_SEAT_HALF;
		if (__atomic_compare_exchange_n(shared_seat(k, g->at.seat[i]), &none, mine, false,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		shared_give(k, g, i);
		return false;
	}
	/* Of two who take at once at least one sees the other's seats, and goes. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (look(k, &now))
		return true;
	shared_give(k, g, d->waves_full);
	return false;
}

static bool shared_take(unsigned k, struct isa_group *g)
{
	struct wgp w = {.next_wg = P.wgp[k].next_wg};

	if (!look(k, &w) || !take_wgp(&w, g) || !shared_claim(k, g))
		return false;
	P.wgp[k].next_wg = w.next_wg;
	return true;
}

/* Whether others have kept every place from us for so long that waves run beside theirs after all:
 * the machine's would end some time, but a process that is stopped has its own stopped too. */
static bool starved(void)
{
	uint64_t now;

	if (!share_active() || P.held)
		return false;
	now = cp_now();
	/* Looked for without a break. */
	if (!P.starved || now - P.looked > STARVED_NS / 10)
		P.starved = now;
	P.looked = now;
	if (now - P.starved < STARVED_NS)
		return false;
	if (!P.said)
		vgpu_log("vgpu: no wave slots for a second: other processes' waves have all and do "
			 "not end; these run beside them");
	P.said = true;
	return true;
}

bool cp_place_take(struct isa_group *g)
{
	bool shared = share_active() && share_seats;
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
			share_a_seat(g);
		} else if (shared ? !shared_take(k, g) : !take_wgp(&P.wgp[k], g)) {
			continue;
		} else {
			g->at.held = true;
			g->at.shared = shared;
			P.held++;
			P.starved = 0;
		}
		g->at.wgp = (uint8_t)k;
		P.cursor = (k + 1) % n;
		return true;
	}
	if (!allowed || !starved())
		return false;
	share_a_seat(g);
	g->at.wgp = (uint8_t)__builtin_ctz(allowed);
	return true;
}

void cp_place_give(struct isa_group *g)
{
	struct wgp *w = &P.wgp[g->at.wgp];

	if (!g->at.held)
		return;
	g->at.held = false;
	P.held--;
	if (g->at.shared) {
		if (share_seats)
			shared_give(g->at.wgp, g, g->d->waves_full);
		return;
	}
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
