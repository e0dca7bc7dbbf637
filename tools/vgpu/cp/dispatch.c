/* From a kernel dispatch packet and a kernel descriptor to waves.
 *
 * Layouts and the order of initial registers: LLVM's AMDGPUUsage, "Kernel Descriptor" and
 * "Initial Kernel Execution State", for gfx11 (architected flat scratch, packed work-item ids).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cp/internal.h"
#include "device.h"
#include "isa/delay.h"

struct descriptor {
	uint32_t group_fixed, private_fixed, kernarg_bytes, reserved0;
	int64_t entry;
	uint32_t reserved1[5];
	uint32_t rsrc3, rsrc1, rsrc2;
	uint16_t properties, preload;
	uint32_t reserved2;
};
_Static_assert(sizeof(struct descriptor) == 64, "kernel descriptors are 64 bytes");
_Static_assert(sizeof(struct cp_packet) == 64, "AQL packets are 64 bytes");

/* kernel_code_properties */
enum {
	KCP_PRIVATE_SEGMENT_BUFFER = 1u << 0,
	KCP_DISPATCH_PTR = 1u << 1,
	KCP_QUEUE_PTR = 1u << 2,
	KCP_KERNARG_PTR = 1u << 3,
	KCP_DISPATCH_ID = 1u << 4,
	KCP_FLAT_SCRATCH_INIT = 1u << 5,
	KCP_PRIVATE_SEGMENT_SIZE = 1u << 6,
	KCP_WAVE32 = 1u << 10,
	KCP_DYNAMIC_STACK = 1u << 11,
	KCP_KNOWN = 0x0c7f,
};
/* compute_pgm_rsrc1: PRIORITY, PRIV, DEBUG_MODE, BULKY, CDBG_USER must be 0 in a descriptor. */
#define RSRC1_MUST_BE_ZERO (3u << 10 | 1u << 20 | 1u << 22 | 1u << 24 | 1u << 25)
/* compute_pgm_rsrc2: ENABLE_TRAP_HANDLER, EXCEPTION_ADDRESS_WATCH, EXCEPTION_MEMORY,
 * GRANULATED_LDS_SIZE and bit 31 are the CP's to fill. */
#define RSRC2_MUST_BE_ZERO (1u << 6 | 3u << 13 | 0x1ffu << 15 | 1u << 31)

#define LDS_GRANULE 512u
/* Shader engines; COMPUTE_TMPRING_SIZE.WAVES counts per engine (clients.md 4.5). */
#define SHADER_ENGINES 2u
/* Error bits of queue_inactive_signal (ROCr's AqlQueue; clients.md 4.5). */
enum {
	INACTIVE_DIMS = 2,
	INACTIVE_GROUP_MEMORY = 4,
	INACTIVE_CODE = 8,
	INACTIVE_GROUP_SIZE = 64,
	INACTIVE_VGPRS = 128,
	INACTIVE_ILLEGAL = 0x40000000,
};

/* What never reached a register by rule holds this: real registers hold leftovers. */
#define LEFTOVER 0xbad0bad0u

static uint32_t lo(uint64_t v)
{
	return (uint32_t)v;
}
static uint32_t hi(uint64_t v)
{
	return (uint32_t)(v >> 32);
}

void cp_dispatch_sizes(struct cp_dispatch *d)
{
	unsigned lanes = d->wave64 ? 64 : 32;
	unsigned items = d->wg[0] * d->wg[1] * d->wg[2];

	d->total = 1;
	for (unsigned i = 0; i < 3; i++) {
		d->ngroups[i] = d->grid[i] / d->wg[i] + (d->grid[i] % d->wg[i] != 0);
		d->total *= d->ngroups[i];
	}
	d->waves_full = (items + lanes - 1) / lanes;
	d->regs = cp_place_regs(d->nvgpr, d->wave64);
	d->wgp_mode = d->rsrc1 >> 29 & 1;
	d->next = d->done = 0;
}

/* Scratch for p out of what amd_queue_t offers. 1 ok, 0 more is needed, -1 failed. */
static int scratch_setup(struct cp_queue *q, const struct cp_packet *p, struct cp_dispatch *d,
			 uint32_t srd[4])
{
	unsigned lanes = d->wave64 ? 64 : 32;
	uint64_t base, bytes, slots;
	uint32_t tmpring, wave;

	d->scratch_wave_bytes = 0;
	if (vm_read(&q->port, VM_LOAD, gva(q->amd_queue + 0x90), srd, 16, 0) ||
	    vm_load32(&q->port, gva(q->amd_queue + 0x8c), &tmpring) ||
	    vm_load64(&q->port, gva(q->amd_queue + 0xa0), &base) ||
	    vm_load64(&q->port, gva(q->amd_queue + 0xa8), &bytes)) {
		cp_queue_fault(q, &q->port.fault, "scratch fields of amd_queue_t");
		return -1;
	}
	d->scratch_base = base;
	if (!p->private_bytes)
		return 1;
	wave = (tmpring >> 12 & 0x7fff) * 256;
	if (!base || (uint64_t)p->private_bytes * lanes > wave)
		return 0;
	slots = (uint64_t)(tmpring & 0xfff) * SHADER_ENGINES;
	if (slots > bytes / wave)
		slots = bytes / wave;
	if (slots > 64 * 64)
		slots = 64 * 64;
	if (slots < d->waves_full)
		return 0;
	d->scratch_wave_bytes = wave;
	d->scratch_slots = (uint32_t)slots;
	d->scratch_per_se = tmpring & 0xfff;
	return 1;
}

int cp_dispatch_decode(struct cp_queue *q, const struct cp_packet *p, struct cp_dispatch *d)
{
	unsigned dims = p->setup & 3, n = 0;
	uint64_t items = 1, queue = q->amd_queue;
	struct descriptor k;
	uint32_t srd[4];
	int r;

	if (p->setup & ~3u || p->reserved0 || p->reserved2) {
		cp_queue_fail(q, EC_PACKET_RESERVED, 32,
			      "dispatch packet %lu: setup 0x%x, reserved fields 0x%x and 0x%lx; "
			      "wanted 0 in all reserved bits (HSA AQL)",
			      d->index, p->setup, p->reserved0, p->reserved2);
		return -1;
	}
	if (!dims || !p->grid[0] || !p->grid[1] || !p->grid[2]) {
		cp_queue_fail(
			q, EC_DIM_INVALID, INACTIVE_DIMS,
			"dispatch packet %lu: %u dimensions, grid %u x %u x %u; wanted 1 to 3 "
			"dimensions and no size of 0 (HSA AQL)",
			d->index, dims, p->grid[0], p->grid[1], p->grid[2]);
		return -1;
	}
	for (unsigned i = 0; i < 3; i++) {
		items *= p->wg[i];
		d->grid[i] = p->grid[i];
		d->wg[i] = p->wg[i];
	}
	if (!items || items > 1024) {
		cp_queue_fail(q, EC_GROUP_SIZE, INACTIVE_GROUP_SIZE,
			      "dispatch packet %lu: workgroup of %u x %u x %u; wanted 1 to 1024 "
			      "work-items (gfx11)",
			      d->index, p->wg[0], p->wg[1], p->wg[2]);
		return -1;
	}
	if (p->group_bytes > CP_LDS_BYTES) {
		cp_queue_fail(
			q, EC_GROUP_SEGMENT, INACTIVE_GROUP_MEMORY,
			"dispatch packet %lu: %u bytes of group memory; wanted at most %u (gfx11)",
			d->index, p->group_bytes, CP_LDS_BYTES);
		return -1;
	}
	if (!p->kernel_object || p->kernel_object % 64) {
		cp_queue_fail(
			q, EC_CODE_INVALID, INACTIVE_CODE,
			"dispatch packet %lu: kernel object 0x%lx; wanted the 64-byte aligned "
			"address of a kernel descriptor (AMDGPUUsage)",
			d->index, p->kernel_object);
		return -1;
	}
	if (vm_read(&q->port, VM_LOAD, gva(p->kernel_object), &k, sizeof(k), 0)) {
		cp_queue_fault(q, &q->port.fault, "kernel descriptor of packet %lu", d->index);
		return -1;
	}
	d->entry = p->kernel_object + (uint64_t)k.entry;
	if (k.reserved0 || k.reserved1[0] || k.reserved1[1] || k.reserved1[2] || k.reserved1[3] ||
	    k.reserved1[4] || k.reserved2 || k.preload || k.properties & ~KCP_KNOWN ||
	    k.rsrc1 & RSRC1_MUST_BE_ZERO || k.rsrc2 & RSRC2_MUST_BE_ZERO || d->entry % 256) {
		cp_queue_fail(
			q, EC_CODE_INVALID, INACTIVE_CODE,
			"kernel descriptor 0x%lx: rsrc1 0x%x rsrc2 0x%x properties 0x%x preload "
			"0x%x entry 0x%lx; wanted reserved bits and preload 0, entry at a multiple "
			"of 256 (AMDGPUUsage, gfx11)",
			p->kernel_object, k.rsrc1, k.rsrc2, k.properties, k.preload, d->entry);
		return -1;
	}
	d->wave64 = !(k.properties & KCP_WAVE32);
	d->nvgpr = ((k.rsrc1 & 63) + 1) * (d->wave64 ? 4 : 8);
	if (d->nvgpr > 256) {
		cp_queue_fail(q, EC_REGISTER, INACTIVE_VGPRS,
			      "kernel descriptor 0x%lx: %u VGPRs; wanted at most 256 (gfx11)",
			      p->kernel_object, d->nvgpr);
		return -1;
	}
	if (!vgpu_config.isa) {
		cp_queue_fail(
			q, EC_WAVE_ILLEGAL, INACTIVE_ILLEGAL,
			"dispatch packet %lu: the instruction set is switched off (isa = 0), no "
			"wave can run",
			d->index);
		return -1;
	}
	d->kernel_object = p->kernel_object;
	d->kernarg = p->kernarg;
	d->signal = p->signal;
	d->rsrc1 = k.rsrc1;
	d->rsrc2 = k.rsrc2;
	d->rsrc3 = k.rsrc3;
	cp_dispatch_inherit(d);
	d->lds_bytes = (p->group_bytes + LDS_GRANULE - 1) & ~(LDS_GRANULE - 1);
	cp_dispatch_sizes(d);
	r = scratch_setup(q, p, d, srd);
	if (r <= 0)
		return r;

	d->user_sgprs = k.rsrc2 >> 1 & 31;
	for (unsigned i = 0; i < 32; i++)
		d->user[i] = LEFTOVER;
#define USER(v) (n < 32 ? (void)(d->user[n] = (v)) : (void)0, n++)
	if (k.properties & KCP_PRIVATE_SEGMENT_BUFFER)
		for (unsigned i = 0; i < 4; i++)
			USER(srd[i]);
	if (k.properties & KCP_DISPATCH_PTR)
		USER(lo(d->packet)), USER(hi(d->packet));
	if (k.properties & KCP_QUEUE_PTR)
		USER(lo(queue)), USER(hi(queue));
	if (k.properties & KCP_KERNARG_PTR)
		USER(lo(p->kernarg)), USER(hi(p->kernarg));
	if (k.properties & KCP_DISPATCH_ID)
		USER(lo(d->index)), USER(hi(d->index));
	if (k.properties & KCP_FLAT_SCRATCH_INIT)
		USER(lo(d->scratch_base)), USER(hi(d->scratch_base));
	if (k.properties & KCP_PRIVATE_SEGMENT_SIZE)
		USER(p->private_bytes);
#undef USER
	if (n > d->user_sgprs) {
		cp_queue_fail(q, EC_CODE_INVALID, INACTIVE_CODE,
			      "kernel descriptor 0x%lx: USER_SGPR_COUNT %u; wanted at least the %u "
			      "that its properties 0x%x enable (AMDGPUUsage)",
			      p->kernel_object, d->user_sgprs, n, k.properties);
		return -1;
	}
	return 1;
}

/* ---- workgroups ---------------------------------------------------------- */

/* STATUS bits a compute wave starts with (gfx11). */
enum {
	STATUS_TRAP_EN = 1u << 6, /* the first-level handler is always there */
	STATUS_IN_TG = 1u << 11,
	STATUS_VALID = 1u << 16,
	STATUS_SCRATCH_EN = 1u << 29,
};

static int arena(uint8_t **p, size_t *cap, size_t want)
{
	if (want <= *cap)
		return 0;
	free(*p);
	*cap = 0;
	*p = aligned_alloc(128, (want + 127) & ~127ul);
	if (!*p)
		return -ENOMEM;
	*cap = want;
	return 0;
}

static void fill(uint32_t *p, size_t words)
{
	for (size_t i = 0; i < words; i++)
		p[i] = LEFTOVER;
}

void cp_dispatch_inherit(struct cp_dispatch *d)
{
	const struct cp_mqd *m = &d->q->mqd;

	d->vm = m->vm;
	d->tba = m->tba;
	d->tma = m->tma;
	d->ttmp_setup = m->ttmp_setup;
	d->lds_aperture = m->lds_base;
	d->scratch_aperture = m->scratch_base;
	d->debug = m->debug ? __atomic_load_n(&m->debug->waves, __ATOMIC_ACQUIRE) : 0;
}

uint32_t cp_wave_mode(const struct cp_dispatch *d)
{
	enum { DEBUG_EN = 1u << 11, STEPPING = 3 };
	uint32_t excp = d->rsrc2 >> 24 & 0x7f, wish = d->debug >> CP_DBG_EXCP_EN_SHIFT & 0x1ff;
	bool step = (d->debug >> CP_DBG_LAUNCH_MODE_SHIFT & 3) == STEPPING;

	excp = d->debug & CP_DBG_EXCP_REPLACE ? wish : excp | wish;
	return (d->rsrc1 >> 12 & 0xff) | (d->rsrc1 >> 21 & 1) << 8 | (d->rsrc1 >> 23 & 1) << 9 |
	       (d->rsrc1 >> 26 & 1) << 23 | excp << 12 | (step ? DEBUG_EN : 0);
}

static void wave_init(struct isa_wave *w, const struct isa_group *g, const struct cp_dispatch *d,
		      unsigned index, const uint32_t id[3], const uint32_t size[3])
{
	unsigned lanes = d->wave64 ? 64 : 32, items = size[0] * size[1] * size[2];
	unsigned first = index * lanes, active = items - first < lanes ? items - first : lanes;
	unsigned n = d->user_sgprs, ids = d->rsrc2 >> 11 & 3;
	unsigned x, y, z;

	memset(w, 0, sizeof(*w));
	fill(w->s, 106);
	fill((uint32_t *)w->v, (size_t)d->nvgpr * (lanes / 32) * 32);
	w->pc = d->entry;
	w->exec = active == 64 ? ~0ull : (1ull << active) - 1;
	memcpy(w->s, d->user, sizeof(d->user));
	for (unsigned i = n; i < 32; i++)
		w->s[i] = LEFTOVER;
	for (unsigned i = 0; i < 3; i++)
		if (d->rsrc2 >> (7 + i) & 1)
			w->s[n++] = id[i];
	if (d->rsrc2 >> 10 & 1) /* first wave, threadgroup size in waves */
		w->s[n++] = (index == 0 ? 1u << 31 : 0) | g->nwaves;
	w->s[OPR_VCC_LO] = w->s[OPR_VCC_HI] = LEFTOVER;
	w->s[OPR_M0] = LEFTOVER;
	/* FLOAT_MODE, DX10_CLAMP, IEEE, FP16_OVFL and the exception enables. */
	w->mode = cp_wave_mode(d);
	w->status = STATUS_VALID | STATUS_TRAP_EN | (g->nwaves > 1 ? STATUS_IN_TG : 0);
	cp_place_wave(g, index, w);
	w->tba = d->tba;
	w->tma = d->tma;
	if (d->scratch_wave_bytes) {
		w->status |= STATUS_SCRATCH_EN;
		w->flat_scratch =
			d->scratch_base + (uint64_t)g->scratch_slot[index] * d->scratch_wave_bytes;
		w->scratch_lane_bytes = d->scratch_wave_bytes / lanes;
	}
	w->lds_size = d->lds_bytes;
	w->wave64 = d->wave64;
	w->state = WAVE_RUN;
	w->wave_in_group = index;
	w->nvgpr = d->nvgpr;
	for (unsigned i = 0; i < 3; i++)
		w->group_id[i] = id[i];
	/* What SPI leaves for debuggers when RUNTIME_ENABLE asked for it: the packet's index, the
	 * workgroup, the wave's place in it. Without, the trap registers start at 0. */
	if (d->ttmp_setup) {
		uint32_t *t = &w->s[OPR_TTMP0];

		t[6] = (uint32_t)d->index & 0x1ffffff;
		for (unsigned i = 0; i < 3; i++)
			t[8 + i] = id[i];
		t[11] = index & 63;
	}
	/* v0: the work-item id, 10 bits each; ENABLE_VGPR_WORKITEM_ID says how many. A workgroup
	 * cut off by the grid's edge is packed as one of its own smaller size. */
	x = first % size[0];
	y = first / size[0] % size[1];
	z = first / size[0] / size[1];
	for (unsigned l = 0; l < active; l++) {
		w->v[l / 32 * d->nvgpr][l % 32] =
			x | (ids > 0 ? y << 10 : 0) | (ids > 1 ? z << 20 : 0);
		if (++x == size[0]) {
			x = 0;
			if (++y == size[1]) {
				y = 0;
				z++;
			}
		}
	}
}

/* A wave's delays depend on which one it is, not on when and where it runs. */
static uint64_t delay_seed(const struct cp_dispatch *d, uint64_t group, unsigned wave)
{
	uint64_t h = vgpu_config.seed;

	h = (h ^ d->index) * 0x9e3779b97f4a7c15u;
	h = (h ^ h >> 29 ^ group) * 0xbf58476d1ce4e5b9u;
	return (h ^ h >> 32 ^ wave) * 0x94d049bb133111ebu;
}

int cp_group_init(struct isa_group *g, struct cp_dispatch *d, uint64_t index)
{
	unsigned lanes = d->wave64 ? 64 : 32;
	uint32_t id[3], size[3];
	uint64_t rest = index;

	g->nwaves = g->live = 0; /* not what an earlier one left */
	g->stride = (isa_wave_bytes(d->nvgpr, d->wave64) + 127) & ~127ul;
	if (cp_delayed())
		g->stride += (sizeof(struct isa_delay) + 127) & ~127ul;
	if (arena(&g->waves, &g->waves_cap, g->stride * d->waves_full) ||
	    arena(&g->lds, &g->lds_cap, d->lds_bytes ? d->lds_bytes : 4)) {
		vgpu_report("queue %u: no host memory for a workgroup of %u waves",
			    d->q->mqd.queue_id, d->waves_full);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < 3; i++) {
		id[i] = (uint32_t)(rest % d->ngroups[i]);
		rest /= d->ngroups[i];
		size[i] = d->grid[i] - id[i] * d->wg[i];
		if (size[i] > d->wg[i])
			size[i] = d->wg[i];
	}
	g->nwaves = (size[0] * size[1] * size[2] + lanes - 1) / lanes;
	g->live = g->nwaves;
	g->insns = 0;
	g->spinning = 0;
	memset(g->count, 0, sizeof(g->count));
	fill((uint32_t *)g->lds, d->lds_bytes / 4);
	for (unsigned i = 0; i < g->nwaves; i++) {
		wave_init(group_wave(g, i), g, d, i, id, size);
		if (__builtin_expect(d->debug != 0, 0))
			cp_trap_at_start(d, group_wave(g, i));
	}
	if (cp_delayed())
		for (unsigned i = 0; i < g->nwaves; i++)
			isa_delay_init(group_wave(g, i), delay_seed(d, index, i), vgpu_config.delay,
				       vgpu_config.waits);
	return 0;
}
