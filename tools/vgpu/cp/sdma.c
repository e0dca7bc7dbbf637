/* The SDMA engine, version 6: the packets that the thunk's tests and ROCr send.
 *
 * Layouts as in the kernel's amdgpu/sdma_v6_0_0_pkt_open.h. Ring, write and read pointer count
 * bytes and never wrap; the ring is indexed modulo its size.
 */
#include <string.h>

#include "cp/internal.h"
#include "device.h"

enum {
	SDMA_NOP = 0,
	SDMA_COPY = 1,
	SDMA_WRITE = 2,
	SDMA_FENCE = 5,
	SDMA_TRAP = 6,
	SDMA_POLL_REGMEM = 8,
	SDMA_ATOMIC = 10,
	SDMA_CONST_FILL = 11,
	SDMA_TIMESTAMP = 13,
	SDMA_GCR = 17,
};
#define CHUNK         (16u << 10)
#define ATOMIC_ADD_64 47u /* TC_OP_ATOMIC_ADD_RTN_64 */

enum step { NEXT, WAIT, FAILED };

static uint64_t addr(const uint32_t *w)
{
	return w[0] | (uint64_t)w[1] << 32;
}

static enum step fault(struct cp_queue *q, const char *what)
{
	cp_queue_fault(q, &q->port.fault, "SDMA %s, packet at byte %lu", what, q->next);
	return FAILED;
}

static enum step bad(struct cp_queue *q, const char *what, uint64_t given, const char *wanted)
{
	cp_queue_fail(q, EC_PACKET_UNSUPPORTED, 0, "SDMA %s 0x%lx; wanted %s", what, given, wanted);
	return FAILED;
}

static int fetch(struct cp_queue *q, uint64_t byte, uint32_t *w, unsigned dwords)
{
	uint32_t size = q->mqd.ring_bytes;

	for (unsigned i = 0; i < dwords; i++)
		if (vm_load32(&q->port, gva(q->mqd.ring.a + (byte + 4ul * i) % size), &w[i]))
			return -1;
	return 0;
}

static enum step copy(struct cp_queue *q, const uint32_t *w, bool broadcast)
{
	uint8_t buf[CHUNK];
	uint64_t n = (uint64_t)(w[1] & 0x3fffffff) + 1, src = addr(&w[3]), dst = addr(&w[5]);

	for (uint64_t done = 0; done < n;) {
		size_t part = n - done < CHUNK ? n - done : CHUNK;

		if (vm_read(&q->port, VM_LOAD, gva(src + done), buf, part, 0) ||
		    vm_write(&q->port, gva(dst + done), buf, part, 0) ||
		    (broadcast && vm_write(&q->port, gva(addr(&w[7]) + done), buf, part, 0)))
			return fault(q, "COPY_LINEAR");
		done += part;
	}
	return NEXT;
}

static enum step fill(struct cp_queue *q, const uint32_t *w)
{
	uint8_t buf[CHUNK];
	unsigned size = w[0] >> 30; /* 0 bytes, 2 dwords */
	uint64_t n = (uint64_t)(w[4] & 0x3fffffff) + 1, dst = addr(&w[1]);

	if (size != 0 && size != 2)
		return bad(q, "CONST_FILL size", size, "0 (bytes) or 2 (dwords)");
	if (size == 2) {
		n = (n + 3) & ~3ull;
		for (unsigned i = 0; i < CHUNK; i += 4)
			memcpy(buf + i, &w[3], 4);
	} else {
		memset(buf, (int)(w[3] & 0xff), CHUNK);
	}
	for (uint64_t done = 0; done < n;) {
		size_t part = n - done < CHUNK ? n - done : CHUNK;

		if (vm_write(&q->port, gva(dst + done), buf, part, 0))
			return fault(q, "CONST_FILL");
		done += part;
	}
	return NEXT;
}

static enum step poll_regmem(struct cp_queue *q, const uint32_t *w)
{
	uint32_t v;
	int ok;

	if (!(w[0] >> 31)) /* HDP flush request: an APU has nothing to flush */
		return NEXT;
	if (vm_load32(&q->port, gva(addr(&w[1]) & ~3ull), &v))
		return fault(q, "POLL_REGMEM");
	ok = cp_poll_compare(w[0] >> 28 & 7, v & w[4], w[3]);
	if (ok < 0)
		return bad(q, "POLL_REGMEM function", 7, "0 to 6");
	q->poll = !ok;
	return ok ? NEXT : WAIT;
}

/* Dwords of the packet that starts with header h and, for WRITE, has w3 as its count dword. */
static unsigned length(uint32_t h, uint32_t w3)
{
	switch (h & 0xff) {
	case SDMA_NOP:
		return 1 + (h >> 16 & 0x3fff);
	case SDMA_COPY:
		return h >> 27 & 1 ? 9 : 7;
	case SDMA_WRITE:
		return 4 + (w3 & 0xfffff) + 1;
	case SDMA_FENCE:
		return 4;
	case SDMA_TRAP:
		return 2;
	case SDMA_POLL_REGMEM:
		return 6;
	case SDMA_ATOMIC:
		return 8;
	case SDMA_CONST_FILL:
		return 5;
	case SDMA_TIMESTAMP:
		return 3;
	case SDMA_GCR:
		return 5;
	}
	return 0;
}

static enum step execute(struct cp_queue *q, const uint32_t *w, unsigned n)
{
	unsigned sub = w[0] >> 8 & 0xff;

	switch (w[0] & 0xff) {
	case SDMA_COPY:
		if (sub)
			return bad(q, "COPY sub-operation", sub, "0 (linear)");
		return copy(q, w, n == 9);
	case SDMA_WRITE:
		if (sub)
			return bad(q, "WRITE sub-operation", sub, "0 (linear)");
		for (unsigned i = 4; i < n; i++) {
			uint32_t v;

			if (fetch(q, q->next + 4ul * i, &v, 1) ||
			    vm_store32(&q->port, gva((addr(&w[1]) & ~3ull) + 4ul * (i - 4)), v))
				return fault(q, "WRITE");
		}
		return NEXT;
	case SDMA_FENCE:
		return vm_store32(&q->port, gva(addr(&w[1]) & ~3ull), w[3]) ? fault(q, "FENCE")
									    : NEXT;
	case SDMA_TRAP:
		cp_event(q, w[1] & 0xfffffff);
		return NEXT;
	case SDMA_POLL_REGMEM:
		return poll_regmem(q, w);
	case SDMA_ATOMIC:
		if (w[0] >> 25 != ATOMIC_ADD_64)
			return bad(q, "ATOMIC operation", w[0] >> 25, "47 (64-bit add)");
		return vm_add64(&q->port, gva(addr(&w[1])), (int64_t)addr(&w[3]), NULL)
			       ? fault(q, "ATOMIC")
			       : NEXT;
	case SDMA_CONST_FILL:
		return fill(q, w);
	case SDMA_TIMESTAMP:
		if (sub != 2)
			return bad(q, "TIMESTAMP sub-operation", sub, "2 (global)");
		return vm_store64(&q->port, gva(addr(&w[1]) & ~7ull), vgpu_clock_gpu())
			       ? fault(q, "TIMESTAMP")
			       : NEXT;
	}
	return NEXT; /* NOP; GCR: caches are coherent here */
}

/* What moves data is work of its own; fences and traps tell the host. */
static enum step perform(struct cp_queue *q, const uint32_t *w, unsigned n)
{
	struct check_launch l = {
		.kind = CHECK_SDMA,
		.vm = q->mqd.vm,
		.queue = q->mqd.queue_id,
		.index = q->next,
		.packet = (w[0] & 0xff) == SDMA_COPY    ? "COPY_LINEAR"
			  : (w[0] & 0xff) == SDMA_WRITE ? "WRITE_LINEAR"
							: "CONST_FILL",
	};
	unsigned op = w[0] & 0xff;
	uint32_t work;
	enum step r;

	if (!check_on || q->ring || (op != SDMA_COPY && op != SDMA_WRITE && op != SDMA_CONST_FILL))
		return execute(q, w, n);
	work = check_begin(&q->check, &l);
	check_enter(work);
	r = execute(q, w, n);
	check_enter(0);
	check_complete(work, false);
	return r;
}

void cp_sdma_run(struct cp_queue *q)
{
	q->poll = false;
	for (;;) {
		uint32_t w[9] = {0};
		unsigned n, head, op;
		enum step r;
		bool first;

		if (!cp_queue_more(q))
			return;
		head = (unsigned)((q->wptr - q->next) / 4);
		if (fetch(q, q->next, w, head < 9 ? head : 9)) {
			fault(q, "ring");
			return;
		}
		n = length(w[0], head > 3 ? w[3] : 0);
		if (!n) {
			bad(q, "operation", w[0] & 0xff, "one of 0 1 2 5 6 8 10 11 13 17");
			return;
		}
		if (n > head) {
			bad(q, "packet dwords", n, "a packet that ends at the write pointer");
			return;
		}
		/* The read pointer goes ahead of what tells the host: who sees a fence or a trap counts
		 * the space as free. It comes behind copies and fills: who waits for it alone
		 * (kfdtest's Wait4PacketConsumption) finds their bytes. */
		op = w[0] & 0xff;
		first = op == SDMA_POLL_REGMEM || op == SDMA_COPY || op == SDMA_CONST_FILL;
		/* Counted before anything shows: who sees it may leave at once. What polls, once. */
		if (op != SDMA_POLL_REGMEM)
			CP_COUNT(packets, 1);
		r = first ? perform(q, w, n) : NEXT;
		if (r != NEXT)
			return;
		if (op == SDMA_POLL_REGMEM)
			CP_COUNT(packets, 1);
		if (!q->ring && vm_store64(&q->port, q->mqd.rptr, q->next + 4ul * n)) {
			fault(q, "read pointer");
			return;
		}
		if (!first && perform(q, w, n) != NEXT)
			return;
		q->next += 4ul * n;
		q->rptr = q->next;
	}
}

/* A buffer is a ring that is full once. */
bool cp_sdma_buffer(struct cp_queue *q, uint64_t va, uint32_t dwords)
{
	struct cp_ring *r = q->ring;

	if (!r->open) {
		q->mqd.ring = gva(va);
		q->mqd.ring_bytes = dwords * 4;
		q->next = q->rptr = 0;
		q->wptr = q->mqd.ring_bytes;
		r->open = true;
	}
	cp_sdma_run(q);
	if (q->failed || q->next != q->wptr)
		return false;
	r->open = false;
	return true;
}
