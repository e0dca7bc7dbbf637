/* First-order time of a dispatch on gfx1151. docs/prof.md explains the model; every constant's
 * source stands beside it here. Nothing of this was measured on the machine. */
#include "count/internal.h"

const char *const count_bound_name[BOUND_COUNT] = {"issue", "lds", "cache", "bandwidth", "latency"};

/* 40 CUs of two SIMDs at up to 2.9 GHz, 256-bit LPDDR5X-8000: AMD's product page of the Ryzen AI
 * Max+ 395 (Radeon 8060S); simd_count, simd_per_cu and max_engine_clk_fcompute in the topology. */
#define CUS       40.0
#define SIMDS     80.0
#define CLOCK     2.9e9
#define BANDWIDTH 256e9
/* A SIMD's file holds 1536 registers of 32 lanes, given out in units of 24 (LLVM: 1.5 times
 * gfx10's file on gfx1151), and it has 16 wave slots (topology: max_waves_per_simd). */
#define REGISTERS     1536u
#define REGISTER_UNIT 24u
#define SLOTS         16u
/* LDS: 128 KiB per WGP, 64 KiB of it per CU (RDNA3.5 ISA, "Local data share"). */
#define LDS_CU (64u << 10)
/* Clocks from issue to result, LLVM's GFX11SpeedModel (SISchedule.td): vector memory 320, scalar
 * memory 20, LDS 20. It states them as estimates. */
#define LATENCY_VMEM 320.0
#define LATENCY_SMEM 20.0
#define LATENCY_LDS  20.0
/* The vector L0 gives 64 bytes per clock and CU (AMD's RDNA white paper). */

static double at_most(double a, double b)
{
	return a < b ? a : b;
}

struct count_occupancy count_occupancy(uint32_t nvgpr, bool wave64, uint32_t lds_bytes,
				       uint32_t waves_full, bool wgp_mode)
{
	uint32_t regs = nvgpr * (wave64 ? 2 : 1), simds = wgp_mode ? 4 : 2;
	uint32_t room = wgp_mode ? 2 * LDS_CU : LDS_CU;
	struct count_occupancy o = {.by_lds = SLOTS, .limit = "slots"};

	regs = (regs + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
	o.by_vgprs = regs ? REGISTERS / regs : SLOTS;
	if (o.by_vgprs > SLOTS)
		o.by_vgprs = SLOTS;
	if (lds_bytes) {
		/* whole workgroups, spread over the SIMDs that share this LDS */
		o.by_lds = (room / lds_bytes * waves_full + simds - 1) / simds;
		if (o.by_lds > SLOTS)
			o.by_lds = SLOTS;
	}
	o.waves_per_simd = SLOTS;
	if (o.by_vgprs < o.waves_per_simd) {
		o.waves_per_simd = o.by_vgprs;
		o.limit = "vgprs";
	}
	if (o.by_lds < o.waves_per_simd) {
		o.waves_per_simd = o.by_lds;
		o.limit = "lds";
	}
	return o;
}

struct count_estimate count_estimate(const struct count_set *s, const struct count_occupancy *o,
				     bool wgp_mode)
{
	double waves = (double)s->waves, groups = (double)s->groups;
	double simds = at_most(SIMDS, waves > 1 ? waves : 1);
	/* A workgroup stays on its CU, or on the two of its WGP. */
	double cus = at_most(CUS, (groups > 1 ? groups : 1) * (wgp_mode ? 2 : 1));
	double scalar = 0, memory = 0, issue, wave, rounds, all = 0;
	struct count_estimate e = {0};

	for (unsigned c = 0; c < CC_COUNT; c++) {
		all += (double)s->insns[c];
		switch (c) {
		case CC_SALU:
		case CC_BRANCH:
		case CC_BARRIER:
		case CC_WAITCNT:
		case CC_CONTROL:
		case CC_HINT:
		case CC_SMEM:
			scalar += (double)s->insns[c];
			break;
		case CC_VMEM_LOAD:
		case CC_VMEM_STORE:
		case CC_VMEM_ATOMIC:
		case CC_SCRATCH_LOAD:
		case CC_SCRATCH_STORE:
			memory += (double)s->passes[c];
			break;
		default:
			break;
		}
	}
	/* A SIMD starts one instruction of each kind per clock, from different waves. */
	issue = (double)s->vector_cycles;
	issue = issue > scalar ? issue : scalar;
	issue = issue > memory ? issue : memory;
	e.seconds[BOUND_ISSUE] = issue / at_most(simds, 2 * cus) / CLOCK;
	e.seconds[BOUND_LDS] = (double)s->lds_cycles / cus / CLOCK;
	e.seconds[BOUND_CACHE] = (double)s->lines64 / cus / CLOCK;
	e.seconds[BOUND_BANDWIDTH] =
		(double)(s->unique_read + s->unique_written) * COUNT_LINE / BANDWIDTH;
	/* One wave alone: its instructions one after the other, and every wait in full. As many
	 * waves as fit do so at the same time. */
	wave = waves > 0 ? (all - (double)s->insns[CC_HINT] + (double)s->vmem_waits * LATENCY_VMEM +
			    (double)s->smem_waits * LATENCY_SMEM +
			    (double)s->lds_waits * LATENCY_LDS) /
				   waves
			 : 0;
	rounds = waves / (SIMDS * (o->waves_per_simd ? o->waves_per_simd : 1));
	e.seconds[BOUND_LATENCY] = wave * (rounds > 1 ? rounds : 1) / CLOCK;
	for (unsigned b = 0; b < BOUND_COUNT; b++)
		if (e.seconds[b] > e.total) {
			e.total = e.seconds[b];
			e.bound = (enum count_bound)b;
		}
	return e;
}
