/* PM4: the compute subset that clients send, in PM4 queues and behind AQL vendor packets.
 *
 * Packet layouts as in the kernel's amdgpu/nvd.h and soc15d.h; shader registers by their dword
 * addresses (gc_11_0_0_offset.h, COMPUTE_* from 0x2e00).
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cp/internal.h"
#include "device.h"

enum {
	OP_NOP = 0x10,
	OP_DISPATCH_DIRECT = 0x15,
	OP_WRITE_DATA = 0x37,
	OP_WAIT_REG_MEM = 0x3c,
	OP_INDIRECT_BUFFER = 0x3f,
	OP_EVENT_WRITE = 0x46,
	OP_RELEASE_MEM = 0x49,
	OP_ACQUIRE_MEM = 0x58,
	OP_SET_SH_REG = 0x76,
};

#define SH_BASE  0x2c00u
#define SH_COUNT 0x400u
enum {
	COMPUTE_START_X = 0x2e04,
	COMPUTE_NUM_THREAD_X = 0x2e07,
	COMPUTE_PGM_LO = 0x2e0c,
	COMPUTE_PGM_HI = 0x2e0d,
	COMPUTE_SCRATCH_BASE_LO = 0x2e10,
	COMPUTE_SCRATCH_BASE_HI = 0x2e11,
	COMPUTE_PGM_RSRC1 = 0x2e12,
	COMPUTE_PGM_RSRC2 = 0x2e13,
	COMPUTE_TMPRING_SIZE = 0x2e18,
	COMPUTE_PGM_RSRC3 = 0x2e28,
	COMPUTE_USER_DATA_0 = 0x2e40,
};
/* BIF_BX_PF1_GPU_HDP_FLUSH_REQ and _DONE: 0x106, 0x107 of NBIO 7.11's third segment
 * (nbio_7_11_0_offset.h), which lies at 0xd20. */
#define HDP_FLUSH_REQ  0xe26u
#define HDP_FLUSH_DONE 0xe27u
#define MAX_PACKET     0x4000u /* count field of 14 bits, + 1 body dword */
#define MAX_DEPTH      3
#define SHADER_ENGINES 2u

struct cp_pm4 {
	uint32_t sh[SH_COUNT];
	/* Indirect buffers being executed: where each goes on. */
	unsigned depth;
	bool vendor; /* a buffer from elsewhere, an AQL vendor packet's or a job's, is under way */
	bool again;  /* the packet was begun before, and waited */
	struct {
		uint64_t va;
		uint32_t left;
	} ib[MAX_DEPTH];
	uint32_t packet[MAX_PACKET + 1];
};

enum step { NEXT, WAIT, FAILED };

int cp_pm4_open(struct cp_queue *q)
{
	q->pm4 = calloc(1, sizeof(*q->pm4));
	return q->pm4 ? 0 : -ENOMEM;
}

static uint32_t sh(const struct cp_pm4 *m, unsigned reg)
{
	return m->sh[reg - SH_BASE];
}

static enum step fault(struct cp_queue *q, const char *what)
{
	cp_queue_fault(q, &q->port.fault, "PM4 %s", what);
	return FAILED;
}

static enum step bad(struct cp_queue *q, unsigned ec, const char *what, uint64_t given,
		     const char *wanted)
{
	cp_queue_fail(q, ec, 256, "PM4 %s 0x%lx; wanted %s", what, given, wanted);
	return FAILED;
}

static uint64_t addr(const uint32_t *w)
{
	return w[0] | (uint64_t)w[1] << 32;
}

static enum step dispatch_direct(struct cp_queue *q, const uint32_t *w, unsigned n)
{
	enum { SHADER_EN = 1u << 0, USE_THREAD_DIMENSIONS = 1u << 5, CS_W32_EN = 1u << 15 };
	struct cp_pm4 *m = q->pm4;
	uint32_t tmpring = sh(m, COMPUTE_TMPRING_SIZE), start;
	struct cp_dispatch *d;
	uint64_t items = 1;

	if (n < 5)
		return bad(q, EC_PACKET_RESERVED, "DISPATCH_DIRECT dwords", n, "5");
	start = sh(m, COMPUTE_START_X) | sh(m, COMPUTE_START_X + 1) | sh(m, COMPUTE_START_X + 2);
	if (start)
		return bad(q, EC_PACKET_UNSUPPORTED, "COMPUTE_START", start, "0");
	if (!(w[4] & SHADER_EN) || !w[1] || !w[2] || !w[3])
		return NEXT; /* nothing to start */
	if (!vgpu_config.isa)
		return bad(q, EC_WAVE_ILLEGAL, "dispatch with isa =", 0,
			   "the instruction set switched on");
	d = cp_dispatch_get(q);
	if (!d)
		return WAIT;
	for (unsigned i = 0; i < 3; i++) {
		d->wg[i] = sh(m, COMPUTE_NUM_THREAD_X + i) & 0xffff;
		items *= d->wg[i];
		d->grid[i] = w[1 + i];
	}
	if (!items || items > 1024)
		return bad(q, EC_GROUP_SIZE, "work-items in a workgroup", items, "1 to 1024");
	for (unsigned i = 0; i < 3 && !(w[4] & USE_THREAD_DIMENSIONS); i++)
		d->grid[i] *= d->wg[i];
	d->packet = 0;
	d->kernel_object = 0;
	d->signal = 0;
	d->release_system = false; /* RELEASE_MEM does */
	d->index = q->next;
	d->entry = (sh(m, COMPUTE_PGM_LO) | (uint64_t)sh(m, COMPUTE_PGM_HI) << 32) << 8 &
		   0xffffffffffff;
	d->rsrc1 = sh(m, COMPUTE_PGM_RSRC1);
	d->rsrc2 = sh(m, COMPUTE_PGM_RSRC2);
	d->rsrc3 = sh(m, COMPUTE_PGM_RSRC3);
	d->wave64 = !(w[4] & CS_W32_EN);
	d->nvgpr = ((d->rsrc1 & 63) + 1) * (d->wave64 ? 4 : 8);
	if (d->nvgpr > 256)
		return bad(q, EC_REGISTER, "VGPRs", d->nvgpr, "at most 256");
	d->lds_bytes = (d->rsrc2 >> 15 & 0x1ff) * 512;
	if (d->lds_bytes > 64u << 10)
		return bad(q, EC_GROUP_SEGMENT, "group memory", d->lds_bytes, "at most 64 KiB");
	cp_dispatch_inherit(d);
	d->user_sgprs = d->rsrc2 >> 1 & 31;
	memset(d->user, 0, sizeof(d->user));
	memcpy(d->user, &m->sh[COMPUTE_USER_DATA_0 - SH_BASE], 16 * 4);
	cp_dispatch_sizes(d);
	d->scratch_wave_bytes = 0;
	if (d->rsrc2 & 1) {
		d->scratch_base = (sh(m, COMPUTE_SCRATCH_BASE_LO) |
				   (uint64_t)sh(m, COMPUTE_SCRATCH_BASE_HI) << 32)
				  << 8;
		d->scratch_wave_bytes = (tmpring >> 12 & 0x7fff) * 256;
		d->scratch_slots = (tmpring & 0xfff) * SHADER_ENGINES;
		d->scratch_per_se = tmpring & 0xfff;
		if (d->scratch_slots > 64 * 64)
			d->scratch_slots = 64 * 64;
		if (!d->scratch_wave_bytes || d->scratch_slots < d->waves_full)
			return bad(q, EC_REGISTER, "COMPUTE_TMPRING_SIZE", tmpring,
				   "room for one workgroup's waves");
	}
	d->start_ts = vgpu_clock_gpu();
	d->active = true;
	q->in_flight++;
	CP_COUNT(dispatches, 1);
	cp_sched_add(d);
	return NEXT;
}

static enum step release_mem(struct cp_queue *q, const uint32_t *w, unsigned n)
{
	uint64_t va, data;
	int r = 0;

	if (n < 8)
		return bad(q, EC_PACKET_RESERVED, "RELEASE_MEM dwords", n, "8");
	if (q->in_flight)
		return WAIT; /* end of pipe: behind all waves before it */
	if (check_on)
		check_release();
	va = addr(&w[3]);
	data = addr(&w[5]);
	switch (w[2] >> 29) { /* DATA_SEL */
	case 0:
		break;
	case 1:
		r = vm_store32(&q->port, gva(va & ~3ull), (uint32_t)data);
		break;
	case 2:
		r = vm_store64(&q->port, gva(va & ~7ull), data);
		break;
	case 3:
	case 4:
		r = vm_store64(&q->port, gva(va & ~7ull), vgpu_clock_gpu());
		break;
	default:
		return bad(q, EC_PACKET_UNSUPPORTED, "RELEASE_MEM DATA_SEL", w[2] >> 29, "0 to 4");
	}
	if (r)
		return fault(q, "RELEASE_MEM");
	/* INT_SEL: 1 interrupt only, 2 interrupt after the write; 3 confirms the write alone. */
	if ((w[2] >> 24 & 7) == 1 || (w[2] >> 24 & 7) == 2)
		cp_event(q, w[7]);
	return NEXT;
}

static enum step wait_reg_mem(struct cp_queue *q, const uint32_t *w, unsigned n)
{
	uint32_t v;
	int ok;

	if (n < 7)
		return bad(q, EC_PACKET_RESERVED, "WAIT_REG_MEM dwords", n, "7");
	if (!(w[1] >> 4 & 1)) {
		/* Write to the first register, wait for the second: a flush of the HDP, which
		 * holds nothing back here. Its done bits are those that were asked for. */
		if ((w[1] >> 6 & 3) == 1 && w[2] == HDP_FLUSH_REQ && w[3] == HDP_FLUSH_DONE)
			return NEXT;
		return bad(q, EC_PACKET_UNSUPPORTED, "WAIT_REG_MEM register", w[2],
			   "memory, or a flush of the HDP: other registers are not modelled");
	}
	if (vm_load32(&q->port, gva(addr(&w[2]) & ~3ull), &v))
		return fault(q, "WAIT_REG_MEM");
	ok = cp_poll_compare(w[1] & 7, v & w[5], w[4]);
	if (ok < 0)
		return bad(q, EC_PACKET_RESERVED, "WAIT_REG_MEM function", 7, "0 to 6");
	if (ok)
		return NEXT;
	q->poll = true;
	return WAIT;
}

/* Performs the packet w of n dwords. An indirect buffer is left in *ib. */
static enum step perform(struct cp_queue *q, const uint32_t *w, unsigned n, uint64_t *ib_va,
			 uint32_t *ib_dwords)
{
	enum { WRITE_TO_MEMORY = 5, ONE_ADDRESS = 1u << 16, CS_PARTIAL_FLUSH = 7 };
	struct cp_pm4 *m = q->pm4;
	unsigned op = w[0] >> 8 & 0xff, reg;

	switch (op) {
	case OP_NOP:
		return NEXT;
	case OP_ACQUIRE_MEM: /* data caches are coherent here */
		if (check_on)
			check_acquire(&q->check, q->next);
		isa_icache_invalidate();
		return NEXT;
	case OP_DISPATCH_DIRECT:
		return dispatch_direct(q, w, n);
	case OP_RELEASE_MEM:
		return release_mem(q, w, n);
	case OP_WAIT_REG_MEM:
		return wait_reg_mem(q, w, n);
	case OP_EVENT_WRITE:
		if (n >= 2 && (w[1] & 63) == CS_PARTIAL_FLUSH && q->in_flight)
			return WAIT;
		return NEXT;
	case OP_SET_SH_REG:
		reg = n >= 3 ? w[1] & 0xffff : SH_COUNT;
		if (reg + (n - 2) > SH_COUNT)
			return bad(q, EC_PACKET_RESERVED, "SET_SH_REG offset", reg,
				   "registers below 0x3000");
		memcpy(&m->sh[reg], &w[2], (n - 2) * 4);
		return NEXT;
	case OP_WRITE_DATA:
		if (n < 5 || (w[1] >> 8 & 15) != WRITE_TO_MEMORY)
			return bad(q, EC_PACKET_UNSUPPORTED, "WRITE_DATA control", w[1],
				   "DST_SEL 5, memory");
		for (unsigned i = 4; i < n; i++) {
			uint64_t va =
				(addr(&w[2]) & ~3ull) + (w[1] & ONE_ADDRESS ? 0 : (i - 4) * 4ull);

			if (vm_store32(&q->port, gva(va), w[i]))
				return fault(q, "WRITE_DATA");
		}
		return NEXT;
	case OP_INDIRECT_BUFFER:
		if (n < 4)
			return bad(q, EC_PACKET_RESERVED, "INDIRECT_BUFFER dwords", n, "4");
		if (m->depth == MAX_DEPTH)
			return bad(q, EC_PACKET_RESERVED, "INDIRECT_BUFFER depth", m->depth + 1,
				   "3 at most");
		*ib_va = addr(&w[1]) & ~3ull;
		*ib_dwords = w[3] & 0xfffff;
		return NEXT;
	}
	return bad(q, EC_PACKET_UNSUPPORTED, "opcode", op,
		   "one of 10 15 37 3c 3f 46 49 58 76 (hex)");
}

static unsigned length(uint32_t header)
{
	unsigned count = header >> 16 & 0x3fff;

	if (header >> 30 == 2)
		return 1; /* type 2: filler */
	/* A NOP with all ones in its count is one dword long. */
	return (header >> 8 & 0xff) == OP_NOP && count == 0x3fff ? 1 : count + 2;
}

static enum step indirect(struct cp_queue *q)
{
	struct cp_pm4 *m = q->pm4;

	while (m->depth) {
		unsigned top = m->depth - 1, n;
		uint64_t va = m->ib[top].va, ib_va = 0;
		uint32_t ib_dwords = 0;
		enum step r;

		if (!m->ib[top].left) {
			m->depth--;
			continue;
		}
		if (vm_load32(&q->port, gva(va), &m->packet[0]))
			return fault(q, "indirect buffer");
		n = length(m->packet[0]);
		if (n > m->ib[top].left || (m->packet[0] >> 30 != 3 && m->packet[0] >> 30 != 2))
			return bad(q, EC_PACKET_RESERVED, "header", m->packet[0],
				   "a type 2 or 3 packet that ends within its buffer");
		if (vm_read(&q->port, VM_LOAD, gva(va), m->packet, n * 4ul, 0))
			return fault(q, "indirect buffer");
		r = m->packet[0] >> 30 == 2 ? NEXT : perform(q, m->packet, n, &ib_va, &ib_dwords);
		if (r != NEXT)
			return r;
		m->ib[top].va += n * 4ul;
		m->ib[top].left -= n;
		if (ib_dwords) {
			m->ib[m->depth].va = ib_va;
			m->ib[m->depth++].left = ib_dwords;
		}
	}
	return NEXT;
}

bool cp_pm4_ib(struct cp_queue *q, const uint32_t words[4])
{
	struct cp_pm4 *m = q->pm4;
	uint64_t va = 0;
	uint32_t dwords = 0;

	if (!m->vendor) {
		if (words[0] >> 30 != 3 || (words[0] >> 8 & 0xff) != OP_INDIRECT_BUFFER) {
			bad(q, EC_VENDOR_UNSUPPORTED, "ib_jump_cmd", words[0], "INDIRECT_BUFFER");
			return false;
		}
		if (perform(q, words, 4, &va, &dwords) != NEXT)
			return false;
	}
	return cp_pm4_buffer(q, va, dwords);
}

bool cp_pm4_buffer(struct cp_queue *q, uint64_t va, uint32_t dwords)
{
	struct cp_pm4 *m = q->pm4;

	if (!m->vendor) {
		m->depth = dwords ? 1 : 0;
		m->ib[0].va = va & ~3ull;
		m->ib[0].left = dwords;
		m->vendor = true;
	}
	if (indirect(q) != NEXT)
		return false;
	m->vendor = false;
	return true;
}

void cp_pm4_forget(struct cp_queue *q)
{
	memset(q->pm4, 0, offsetof(struct cp_pm4, packet));
}

void cp_pm4_run(struct cp_queue *q)
{
	struct cp_pm4 *m = q->pm4;
	uint32_t size = q->mqd.ring_bytes / 4;

	q->poll = false;
	for (;;) {
		uint64_t ib_va = 0;
		uint32_t ib_dwords = 0;
		unsigned n;

		if (indirect(q) != NEXT || q->failed)
			return;
		if (!cp_queue_more(q))
			return;
		n = 1;
		for (unsigned i = 0; i < n; i++) {
			if (vm_load32(&q->port, gva(q->mqd.ring.a + (q->next + i) % size * 4),
				      &m->packet[i])) {
				fault(q, "ring");
				return;
			}
			if (i == 0)
				n = length(m->packet[0]);
			if (m->packet[0] >> 30 < 2 || n > q->wptr - q->next || n > size) {
				bad(q, EC_PACKET_RESERVED, "header", m->packet[0],
				    "a type 2 or 3 packet that ends at the write pointer");
				return;
			}
		}
		/* Counted before anything shows: who sees it may leave at once. */
		CP_COUNT(packets, !m->again);
		m->again = true;
		/* The read pointer passes the packet before its fence or interrupt is seen: a host
		 * that gets the interrupt counts the slot as free. */
		if (vm_store32(&q->port, q->mqd.rptr, (uint32_t)((q->next + n) % size))) {
			fault(q, "read pointer");
			return;
		}
		if (m->packet[0] >> 30 == 3 && perform(q, m->packet, n, &ib_va, &ib_dwords) != NEXT)
			return; /* performed again from here when there is news */
		m->again = false;
		q->next += n;
		q->rptr = q->next;
		if (ib_dwords) {
			m->ib[0].va = ib_va;
			m->ib[0].left = ib_dwords;
			m->depth = 1;
		}
	}
}
