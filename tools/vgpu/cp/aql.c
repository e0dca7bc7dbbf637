/* The AQL packet processor.
 *
 * Reads everything through the door as client CPF. A packet's slot stays the client's to read
 * (kernels read their own dispatch packet through dispatch_ptr) until the packet has completed;
 * then its header becomes INVALID and read_dispatch_id moves on, in order, and only then is the
 * completion signal touched.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cp/internal.h"
#include "device.h"

enum { PKT_VENDOR, PKT_INVALID, PKT_DISPATCH, PKT_BARRIER_AND, PKT_AGENT, PKT_BARRIER_OR };
enum { HDR_BARRIER = 1u << 8, SCOPE_SYSTEM = 2 };
/* amd_aql_format of vendor packets: PM4 indirect buffer, barrier on a value. */
enum { AMD_PM4_IB = 1, AMD_BARRIER_VALUE = 2 };
/* queue_inactive_signal: what the packet processor asks for or complains of (clients.md 4.5). */
enum {
	INACTIVE_SCRATCH_WAVE64 = 1,
	INACTIVE_FORMAT = 32,
	INACTIVE_UNSUPPORTED = 256,
	INACTIVE_SCRATCH_WAVE32 = 0x400,
};

/* ---- amd_queue_t --------------------------------------------------------- */

struct amd_queue { /* clients.md 4.4 */
	uint32_t type, features;
	uint64_t base, doorbell_signal;
	uint32_t size, reserved0;
	uint64_t id;
	uint32_t caps, reserved1[3];
	uint64_t write_dispatch_id;
	uint32_t group_aperture_hi, private_aperture_hi;
	uint32_t max_cu_id, max_wave_id;
	uint64_t max_legacy_doorbell_dispatch_id_plus_1;
	uint32_t legacy_doorbell_lock, reserved2[9];
	uint64_t read_dispatch_id;
	uint32_t read_dispatch_id_field_base_byte_offset;
	uint32_t compute_tmpring_size, scratch_srd[4];
	uint64_t scratch_location, scratch_bytes;
	uint32_t scratch_wave64_lane_bytes, queue_properties;
	uint64_t scratch_last_used;
	uint64_t queue_inactive_signal;
	uint32_t reserved3[14];
};
_Static_assert(sizeof(struct amd_queue) == 0x100, "amd_queue_t is 256 bytes");

struct amd_signal {
	int64_t kind, value;
	uint64_t mailbox;
	uint32_t event_id, reserved1;
	uint64_t start_ts, end_ts, queue_ptr;
	uint32_t reserved3[2];
};
_Static_assert(sizeof(struct amd_signal) == 64, "amd_signal_t is 64 bytes");

static bool field(struct cp_queue *q, const char *name, uint64_t given, bool ok, uint64_t wanted,
		  const char *why)
{
	if (ok)
		return true;
	cp_queue_fail(q, EC_REGISTER, INACTIVE_FORMAT, "amd_queue_t.%s is 0x%lx; wanted 0x%lx (%s)",
		      name, given, wanted, why);
	return false;
}

static bool all_zero(const uint32_t *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static bool check_signals(struct cp_queue *q, const struct amd_queue *a, uint64_t base)
{
	struct amd_signal s;

	if (!field(q, "hsa_queue.doorbell_signal", a->doorbell_signal,
		   a->doorbell_signal && a->doorbell_signal % 64 == 0, 64,
		   "the address of a 64-byte aligned amd_signal_t"))
		return false;
	if (vm_read(&q->port, VM_LOAD, gva(a->doorbell_signal), &s, sizeof(s), 0)) {
		cp_queue_fault(q, &q->port.fault, "amd_queue_t.hsa_queue.doorbell_signal");
		return false;
	}
	if (!field(q, "hsa_queue.doorbell_signal->kind", (uint64_t)s.kind, s.kind == -1, ~0ull,
		   "AMD_SIGNAL_KIND_DOORBELL") ||
	    !field(q, "hsa_queue.doorbell_signal->hardware_doorbell_ptr", (uint64_t)s.value,
		   cp_doorbell_is_mapped_at(q->db, (uint64_t)s.value, q->mqd.doorbell),
		   q->mqd.doorbell * 8ul, "the mapped doorbell page plus this offset") ||
	    !field(q, "hsa_queue.doorbell_signal->queue_ptr", s.queue_ptr, s.queue_ptr == base,
		   base, "the queue itself"))
		return false;
	if (!field(q, "queue_inactive_signal", a->queue_inactive_signal,
		   a->queue_inactive_signal && a->queue_inactive_signal % 64 == 0, 64,
		   "the address of a 64-byte aligned amd_signal_t"))
		return false;
	if (vm_read(&q->port, VM_LOAD, gva(a->queue_inactive_signal), &s, sizeof(s), 0)) {
		cp_queue_fault(q, &q->port.fault, "amd_queue_t.queue_inactive_signal");
		return false;
	}
	q->inactive_signal = a->queue_inactive_signal;
	return field(q, "queue_inactive_signal->kind", (uint64_t)s.kind, s.kind == 1, 1,
		     "AMD_SIGNAL_KIND_USER") &&
	       field(q, "queue_inactive_signal->value", (uint64_t)s.value, s.value == 0, 0,
		     "no request is pending on a new queue");
}

static bool check_scratch(struct cp_queue *q, const struct amd_queue *a)
{
	uint64_t wave = (uint64_t)(a->compute_tmpring_size >> 12 & 0x7fff) * 256;
	uint64_t lane64 = (uint64_t)a->scratch_wave64_lane_bytes * 64;

	if (!a->compute_tmpring_size)
		return field(q, "scratch_wave64_lane_byte_size", a->scratch_wave64_lane_bytes,
			     !a->scratch_wave64_lane_bytes, 0, "compute_tmpring_size is 0");
	return field(q, "compute_tmpring_size", a->compute_tmpring_size,
		     wave && a->compute_tmpring_size >> 27 == 0 && a->compute_tmpring_size & 0xfff,
		     1u << 12 | 1, "WAVES [11:0] and WAVESIZE [26:12] both set, nothing above") &&
	       field(q, "scratch_wave64_lane_byte_size", a->scratch_wave64_lane_bytes,
		     lane64 <= wave && wave - lane64 < 256, wave / 64,
		     "WAVESIZE of compute_tmpring_size, per lane of a wave64") &&
	       field(q, "scratch_backing_memory_location", a->scratch_location,
		     a->scratch_location && a->scratch_location % 256 == 0, 256,
		     "an address, a multiple of 256") &&
	       field(q, "scratch_backing_memory_byte_size", a->scratch_bytes,
		     a->scratch_bytes >= wave, wave, "at least one wave") &&
	       field(q, "scratch_resource_descriptor[0]", a->scratch_srd[0],
		     a->scratch_srd[0] == (uint32_t)a->scratch_location,
		     (uint32_t)a->scratch_location, "low half of the scratch address") &&
	       field(q, "scratch_resource_descriptor[1]", a->scratch_srd[1] & 0xffff,
		     (a->scratch_srd[1] & 0xffff) == (a->scratch_location >> 32 & 0xffff),
		     a->scratch_location >> 32 & 0xffff, "high half of the scratch address");
}

/* Finds amd_queue_t from the read pointer, as the firmware does, and reads all of it. */
static bool check_queue(struct cp_queue *q)
{
	uint64_t rptr = q->mqd.rptr.a, base;
	struct amd_queue a;
	uint32_t off;

	if (vm_load32(&q->port, gva(rptr + 8), &off)) {
		cp_queue_fault(q, &q->port.fault, "amd_queue_t behind the read pointer");
		return false;
	}
	if (!field(q, "read_dispatch_id_field_base_byte_offset", off, off == 0x80, 0x80,
		   "where read_dispatch_id stands in amd_queue_t"))
		return false;
	base = rptr - off;
	if (vm_read(&q->port, VM_LOAD, gva(base), &a, sizeof(a), 0)) {
		cp_queue_fault(q, &q->port.fault, "amd_queue_t");
		return false;
	}
	if (!field(q, "(address)", base, base % 64 == 0, base & ~63ull, "64-byte aligned") ||
	    !field(q, "hsa_queue.type", a.type, a.type <= 2, 0,
		   "MULTI 0, SINGLE 1, COOPERATIVE 2") ||
	    !field(q, "hsa_queue.features", a.features, a.features & 1 && a.features <= 3, 1,
		   "KERNEL_DISPATCH") ||
	    !field(q, "hsa_queue.base_address", a.base, a.base == q->mqd.ring.a, q->mqd.ring.a,
		   "the ring given at CREATE_QUEUE") ||
	    !field(q, "hsa_queue.size", a.size, a.size == q->mqd.ring_bytes / 64,
		   q->mqd.ring_bytes / 64, "ring bytes / 64") ||
	    !field(q, "hsa_queue.reserved1", a.reserved0, !a.reserved0, 0, "reserved") ||
	    !field(q, "caps", a.caps, !(a.caps & ~1u), 0, "written by the packet processor") ||
	    !field(q, "reserved1", a.reserved1[0], all_zero(a.reserved1, 3), 0, "reserved") ||
	    !field(q, "write_dispatch_id (address)", base + 0x38, base + 0x38 == q->mqd.wptr.a,
		   q->mqd.wptr.a, "the write pointer given at CREATE_QUEUE") ||
	    !field(q, "group_segment_aperture_base_hi", a.group_aperture_hi,
		   a.group_aperture_hi == q->mqd.lds_base >> 32, q->mqd.lds_base >> 32,
		   "lds_base of GET_PROCESS_APERTURES_NEW >> 32") ||
	    !field(q, "private_segment_aperture_base_hi", a.private_aperture_hi,
		   a.private_aperture_hi == q->mqd.scratch_base >> 32, q->mqd.scratch_base >> 32,
		   "scratch_base of GET_PROCESS_APERTURES_NEW >> 32") ||
	    !field(q, "max_cu_id", a.max_cu_id, a.max_cu_id == vgpu_config.cus - 1,
		   vgpu_config.cus - 1, "CUs - 1") ||
	    !field(q, "max_wave_id", a.max_wave_id, a.max_wave_id == 31, 31,
		   "waves_per_simd * simd_per_cu - 1") ||
	    !field(q, "max_legacy_doorbell_dispatch_id_plus_1",
		   a.max_legacy_doorbell_dispatch_id_plus_1,
		   !a.max_legacy_doorbell_dispatch_id_plus_1, 0, "no legacy doorbell on gfx11") ||
	    !field(q, "legacy_doorbell_lock", a.legacy_doorbell_lock, !a.legacy_doorbell_lock, 0,
		   "no legacy doorbell on gfx11") ||
	    !field(q, "reserved2", a.reserved2[0], all_zero(a.reserved2, 9), 0, "reserved") ||
	    !field(q, "queue_properties", a.queue_properties,
		   a.queue_properties & 2 && a.queue_properties < 32, a.queue_properties | 2,
		   "IS_PTR64, and no bit above USE_SCRATCH_ONCE") ||
	    !check_signals(q, &a, base) || !check_scratch(q, &a))
		return false;
	q->properties = a.queue_properties;
	q->amd_queue = base;
	return true;
}

/* ---- packets ------------------------------------------------------------- */

static uint64_t slot_va(const struct cp_queue *q, uint64_t index)
{
	return q->mqd.ring.a + index % (q->mqd.ring_bytes / 64) * 64;
}

/* Marks packet `index` complete; hands back slots from the oldest on as far as they are. */
static bool retire(struct cp_queue *q, uint64_t index)
{
	q->window[index % CP_WINDOW].done = true;
	while (q->rptr < q->next && q->window[q->rptr % CP_WINDOW].done) {
		q->window[q->rptr % CP_WINDOW].done = false;
		if (vm_store16(&q->port, gva(slot_va(q, q->rptr)), PKT_INVALID) ||
		    vm_store64(&q->port, q->mqd.rptr, q->rptr + 1)) {
			cp_queue_fault(q, &q->port.fault, "retiring packet %lu", q->rptr);
			return false;
		}
		__atomic_store_n(&q->rptr, q->rptr + 1, __ATOMIC_RELAXED);
	}
	return true;
}

void cp_dispatch_complete(struct cp_dispatch *d)
{
	struct cp_queue *q = d->q;

	d->active = false;
	q->in_flight--;
	if (check_on && d->check)
		check_complete(d->check, d->release_system);
	/* Release: every store of the dispatch precedes its completion. Pairs with the waiter's
	 * acquire load of the signal. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (q->mqd.type != CP_AQL || !d->packet)
		return; /* PM4 has its own end-of-pipe packets */
	if (retire(q, d->index))
		cp_signal_done(q, d->signal, d->start_ts);
}

/* Whether the dependency signals of a barrier packet allow it to complete. -1: fault. */
static int barrier_met(struct cp_queue *q, const uint64_t dep[5], bool all)
{
	bool any = false;

	for (unsigned i = 0; i < 5; i++) {
		uint64_t v;

		if (!dep[i])
			continue;
		any = true;
		if (vm_load64(&q->port, gva(dep[i] + 8), &v)) {
			cp_queue_fault(q, &q->port.fault, "dependency %u of barrier packet %lu", i,
				       q->next);
			return -1;
		}
		if (all && v)
			return 0;
		if (!all && !v)
			return 1;
	}
	return all || !any;
}

struct barrier_value { /* hsa_amd_barrier_value_packet_t */
	uint32_t header, reserved0;
	uint64_t signal;
	int64_t value, mask;
	uint32_t cond, reserved1;
	uint64_t reserved2, reserved3, completion;
};
_Static_assert(sizeof(struct barrier_value) == 64, "AQL packets are 64 bytes");

static int value_met(struct cp_queue *q, const struct barrier_value *b)
{
	uint64_t raw;
	int64_t v;

	if (vm_load64(&q->port, gva(b->signal + 8), &raw)) {
		cp_queue_fault(q, &q->port.fault, "signal of barrier-value packet %lu", q->next);
		return -1;
	}
	v = (int64_t)raw & b->mask;
	switch (b->cond) { /* hsa_signal_condition_t */
	case 0:
		return v == b->value;
	case 1:
		return v != b->value;
	case 2:
		return v < b->value;
	case 3:
		return v >= b->value;
	}
	cp_queue_fail(
		q, EC_PACKET_RESERVED, INACTIVE_FORMAT,
		"barrier-value packet %lu: condition %u; wanted 0 to 3 (hsa_signal_condition_t)",
		q->next, b->cond);
	return -1;
}

/* A packet without waves: consumed at once. */
static bool consume(struct cp_queue *q, uint32_t header, uint64_t signal)
{
	uint64_t index = q->next++;

	if (check_on && (header >> 9 & 3) == SCOPE_SYSTEM)
		check_acquire(&q->check, index);
	if (check_on && (header >> 11 & 3) == SCOPE_SYSTEM)
		check_release();
	return retire(q, index) && cp_signal_done(q, signal, vgpu_clock_gpu());
}

static bool dispatch(struct cp_queue *q, const struct cp_packet *p)
{
	struct cp_dispatch *d;
	uint64_t v;

	if (q->scratch_wait) {
		/* The host answers a request by storing 0 into the inactive signal. */
		if (vm_load64(&q->port, gva(q->inactive_signal + 8), &v)) {
			cp_queue_fault(q, &q->port.fault, "queue_inactive_signal");
			return false;
		}
		if (v) {
			q->poll = true;
			return false;
		}
		q->scratch_wait = false;
		q->amd_queue = 0; /* its fields have changed: read all of it again */
		if (!check_queue(q))
			return false;
	}
	d = cp_dispatch_get(q);
	if (!d)
		return false; /* a completion runs the queue again */
	d->index = q->next;
	d->packet = slot_va(q, q->next);
	switch (cp_dispatch_decode(q, p, d)) {
	case 0:
		q->scratch_wait = true;
		q->poll = true;
		cp_signal_store(q, q->inactive_signal,
				d->wave64 ? INACTIVE_SCRATCH_WAVE64 : INACTIVE_SCRATCH_WAVE32);
		return false;
	case 1:
		break;
	default:
		return false;
	}
	d->release_system = (p->header >> 11 & 3) == SCOPE_SYSTEM;
	if (check_on && (p->header >> 9 & 3) == SCOPE_SYSTEM)
		check_acquire(&q->check, q->next);
	d->start_ts = vgpu_clock_gpu();
	d->active = true;
	q->in_flight++;
	q->next++;
	/* An acquire drops what waves may have kept; decoded code is all that is kept here. */
	if (p->header >> 9 & 3)
		isa_icache_invalidate();
	CP_COUNT(dispatches, 1);
	cp_sched_add(d);
	return true;
}

static bool vendor(struct cp_queue *q, const uint32_t w[16], uint64_t signal)
{
	unsigned format = w[0] >> 16 & 0xff;
	int met;

	if (format == AMD_BARRIER_VALUE) {
		met = value_met(q, (const struct barrier_value *)w);
		if (met == 0)
			q->poll = true;
		return met > 0 && consume(q, w[0], signal);
	}
	if (format != AMD_PM4_IB || w[5] != 10) {
		cp_queue_fail(
			q, EC_VENDOR_UNSUPPORTED, INACTIVE_UNSUPPORTED,
			"vendor packet %lu: format %u, %u dwords remain; wanted format 1 (PM4 "
			"indirect buffer) with 10, or 2 (barrier value)",
			q->next, format, w[5]);
		return false;
	}
	/* ib_jump_cmd is a PM4 INDIRECT_BUFFER packet. */
	if (!cp_pm4_ib(q, &w[1]))
		return false; /* waits, or has failed */
	return consume(q, w[0], signal);
}

/* One packet. False: cannot go on now. */
static bool step(struct cp_queue *q)
{
	uint32_t w[16];
	uint64_t va = slot_va(q, q->next), signal;
	unsigned type;
	int met;

	/* Acquire: pairs with the client's release store of the header. */
	if (vm_load32(&q->port, gva(va), &w[0])) {
		cp_queue_fault(q, &q->port.fault, "AQL packet %lu", q->next);
		return false;
	}
	type = w[0] & 0xff;
	if (type == PKT_INVALID) {
		q->poll = true; /* claimed, not yet written */
		return false;
	}
	if (w[0] & HDR_BARRIER && q->rptr != q->next)
		return false; /* the completion before it runs the queue again */
	if (vm_read(&q->port, VM_LOAD, gva(va + 4), &w[1], 60, 0)) {
		cp_queue_fault(q, &q->port.fault, "AQL packet %lu", q->next);
		return false;
	}
	if (w[0] >> 13 & 7 || (w[0] >> 9 & 3) == 3 || (w[0] >> 11 & 3) == 3) {
		cp_queue_fail(
			q, EC_PACKET_RESERVED, INACTIVE_FORMAT,
			"packet %lu: header 0x%04x; wanted fence scopes 0 to 2 and bits 15:13 0 "
			"(HSA AQL)",
			q->next, w[0] & 0xffff);
		return false;
	}
	signal = w[14] | (uint64_t)w[15] << 32;
	CP_COUNT(packets, !q->scratch_wait);
	switch (type) {
	case PKT_DISPATCH:
		return dispatch(q, (const struct cp_packet *)w);
	case PKT_BARRIER_AND:
	case PKT_BARRIER_OR:
		met = barrier_met(q, (const uint64_t *)&w[2], type == PKT_BARRIER_AND);
		if (met == 0)
			q->poll = true;
		return met > 0 && consume(q, w[0], signal);
	case PKT_VENDOR:
		return vendor(q, w, signal);
	case PKT_AGENT:
		cp_queue_fail(
			q, EC_PACKET_UNSUPPORTED, INACTIVE_UNSUPPORTED,
			"packet %lu: agent dispatch; wanted a kernel dispatch, barrier or vendor "
			"packet (a GPU queue)",
			q->next);
		return false;
	}
	cp_queue_fail(q, EC_PACKET_RESERVED, INACTIVE_FORMAT,
		      "packet %lu: type %u; wanted 0, 2, 3 or 5 (HSA AQL)", q->next, type);
	return false;
}

void cp_aql_run(struct cp_queue *q)
{
	q->poll = false;
	for (;;) {
		if (!cp_queue_more(q))
			return;
		if (!q->amd_queue && !check_queue(q))
			return;
		/* A producer may claim slots ahead of free space, and fills them only once the
		 * read index has moved: what is a whole ring ahead is not written yet. */
		if (q->next - q->rptr >= CP_WINDOW || q->next - q->rptr >= q->mqd.ring_bytes / 64)
			return;
		if (!step(q) || q->failed)
			return;
	}
}
