#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queues/internal.h"
#include "queues/sdma.h"
#include "queues/sdma_packet.h"

#define SPIN_NS     20000u
#define RECHECK_MS  1000u
#define TAIL_DWORDS (2 * SDMA_FENCE_DWORDS + SDMA_TRAP_DWORDS)

/* The kernel reads the activity counter from the 8 bytes behind the read pointer
 * (kfd_device_queue_manager.c:read_sdma_queue_counter). */
struct sdma_page {
	uint64_t rptr, activity;
	_Alignas(64) uint64_t wptr;
	_Alignas(64) uint32_t fence;
	_Alignas(64) struct {
		_Alignas(32) uint64_t ticks;
	} stamp[2];
};
_Static_assert(sizeof(struct sdma_page) <= SDMA_PAGE_BYTES, "one page");

struct sdma {
	struct queue_context *ctx;
	struct bo *ring_bo, *page_bo;
	uint32_t *ring;
	struct sdma_page *page;
	uint32_t bytes; /* of the ring */
	uint64_t put;   /* bytes written so far, never wraps */
	uint64_t rung;  /* of them the engine knows */
	uint64_t submissions;
	volatile uint64_t *doorbell;
	struct kfd_event event;
	bool have_event, live;
	uint32_t id;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sdma_free(struct sdma *s)
{
	bo_retire(s->page_bo);
	bo_retire(s->ring_bo);
	if (s->have_event)
		kfd_event_destroy(s->ctx->kfd, s->event.id);
	if (s->ctx)
		queue_context_put(s->ctx);
	free(s);
}

static int buffers(struct sdma *s)
{
	struct bo_desc d = {.owner = "sdma ring",
			    .size = s->bytes,
			    .placement = BO_GTT,
			    .coherence = BO_UNCACHED,
			    .grain = 256,
			    .host = true,
			    .uses = BO_HOST_WRITES | BO_DEVICE_READS | BO_DECLARED};
	int rc = bo_create(s->ctx->memory, &d, &s->ring_bo);

	if (rc < 0)
		return rc;
	d.owner = "sdma queue";
	d.uses |= BO_HOST_READS | BO_DEVICE_WRITES;
	d.size = SDMA_PAGE_BYTES;
	rc = bo_create(s->ctx->memory, &d, &s->page_bo);
	if (rc < 0)
		return rc;
	s->ring = bo_host(s->ring_bo);
	s->page = bo_host(s->page_bo);
	memset(s->ring, 0, s->bytes);
	memset(s->page, 0, sizeof(*s->page));
	return 0;
}

int sdma_create(struct kfd *kfd, struct memory *m, uint32_t ring_bytes, struct sdma **out)
{
	struct kfd_ioctl_create_queue_args a = {0};
	struct kfd_event_page page;
	struct sdma *s;
	int rc;

	if (!ring_bytes)
		ring_bytes = SDMA_RING_BYTES;
	if (ring_bytes & (ring_bytes - 1) || ring_bytes < 4096 || ring_bytes > 16u << 20) {
		kfd_reason_set(
			"SDMA queue refused: a ring of %u bytes; wanted: a power of two from "
			"4 KiB to 16 MiB",
			ring_bytes);
		return -EINVAL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->bytes = ring_bytes;
	rc = queue_context_get(kfd, m, &s->ctx);
	if (rc < 0)
		goto out;
	rc = kfd_event_create(kfd, KFD_IOC_EVENT_SIGNAL, true, &s->event);
	if (rc < 0)
		goto out;
	s->have_event = true;
	if (kfd_event_page_get(kfd, &page)) {
		rc = memory_adopt(m, "event page", page.va, page.bytes, page.handle);
		if (rc < 0)
			goto out;
	}
	rc = buffers(s);
	if (rc < 0)
		goto out;
	a.ring_base_address = bo_va(s->ring_bo);
	a.ring_size = ring_bytes;
	a.write_pointer_address = bo_va(s->page_bo) + offsetof(struct sdma_page, wptr);
	a.read_pointer_address = bo_va(s->page_bo) + offsetof(struct sdma_page, rptr);
	a.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
	a.queue_percentage = 100;
	a.queue_priority = 7;
	rc = kfd_queue_create(kfd, &a);
	if (rc < 0)
		goto out;
	s->live = true;
	s->id = a.queue_id;
	rc = queue_context_doorbells(s->ctx, a.doorbell_offset);
	if (rc < 0)
		goto out;
	s->doorbell = (volatile uint64_t *)((char *)s->ctx->doorbells +
					    (a.doorbell_offset & (KFD_DOORBELL_BYTES - 1)));
	*out = s;
	return 0;
out:
	if (s->live)
		kfd_queue_destroy(kfd, s->id, NULL);
	sdma_free(s);
	return rc;
}

int sdma_destroy(struct sdma *s)
{
	bool consumed;
	int rc;

	if (!s)
		return 0;
	rc = kfd_queue_destroy(s->ctx->kfd, s->id, &consumed);
	if (!consumed)
		return rc;
	sdma_free(s);
	return rc;
}

/* ---- the ring ------------------------------------------------------------------------- */

static uint64_t space(const struct sdma *s)
{
	/* pairs with the engine's store of the read pointer: what it has passed it no longer reads
	 */
	uint64_t read = __atomic_load_n(&s->page->rptr, __ATOMIC_ACQUIRE);

	return s->bytes - (s->put - read);
}

/* Bytes that n packets of `dwords` take at most: each may have to skip the rest of the ring, which
 * happens once a round. */
static bool fits(const struct sdma *s, uint64_t packets, uint32_t dwords)
{
	uint64_t need = packets * dwords * 4 + TAIL_DWORDS * 4 + 2 * SDMA_MAX_DWORDS * 4;

	return packets < s->bytes && need <= space(s);
}

/* A packet never crosses the ring's end: the rest is skipped with a NOP. */
static void put(struct sdma *s, const uint32_t *w, uint32_t dwords)
{
	uint32_t at = (uint32_t)(s->put % s->bytes) / 4, left = s->bytes / 4 - at;

	if (left < dwords) {
		sdma_encode_nop(s->ring + at, left);
		s->put += 4ull * left;
		at = 0;
	}
	memcpy(s->ring + at, w, 4ull * dwords);
	s->put += 4ull * dwords;
}

static uint64_t parts(uint64_t dst, uint64_t bytes)
{
	return bytes / SDMA_PACKET_BYTES + 2 + (dst % SDMA_PACKET_BYTES != 0);
}

int sdma_copy(struct sdma *s, uint64_t dst, uint64_t src, uint64_t bytes)
{
	uint32_t w[SDMA_MAX_DWORDS];

	if (!fits(s, parts(dst, bytes), SDMA_COPY_DWORDS))
		return -EAGAIN;
	while (bytes) {
		uint32_t n = sdma_part(dst, bytes);

		put(s, w, sdma_encode_copy(w, dst, src, n));
		dst += n;
		src += n;
		bytes -= n;
	}
	return 0;
}

int sdma_fill(struct sdma *s, uint64_t dst, uint32_t value, uint64_t bytes)
{
	uint32_t w[SDMA_MAX_DWORDS];

	if ((dst | bytes) & 3)
		return -EINVAL;
	if (!fits(s, parts(dst, bytes), SDMA_FILL_DWORDS))
		return -EAGAIN;
	while (bytes) {
		uint32_t n = sdma_part(dst, bytes);

		put(s, w, sdma_encode_fill(w, dst, value, n));
		dst += n;
		bytes -= n;
	}
	return 0;
}

static uint64_t page_va(const struct sdma *s, const volatile void *field)
{
	return bo_va(s->page_bo) + (uint64_t)((const volatile char *)field - (char *)s->page);
}

int sdma_timestamp(struct sdma *s, unsigned slot)
{
	uint32_t w[SDMA_MAX_DWORDS];

	if (slot > 1)
		return -EINVAL;
	if (!fits(s, 1, SDMA_TIMESTAMP_DWORDS))
		return -EAGAIN;
	put(s, w, sdma_encode_timestamp(w, page_va(s, &s->page->stamp[slot].ticks)));
	return 0;
}

uint64_t sdma_timestamp_get(const struct sdma *s, unsigned slot)
{
	return __atomic_load_n(&s->page->stamp[slot].ticks, __ATOMIC_ACQUIRE);
}

int64_t sdma_submit(struct sdma *s)
{
	uint32_t w[SDMA_MAX_DWORDS];

	if (!fits(s, 3, SDMA_FENCE_DWORDS))
		return -EAGAIN;
	s->submissions++;
	put(s, w, sdma_encode_fence(w, page_va(s, &s->page->fence), (uint32_t)s->submissions));
	/* The kernel looks for the event's id in its mailbox when the interrupt comes. */
	put(s, w, sdma_encode_fence(w, (uint64_t)(uintptr_t)s->event.mailbox, s->event.trigger));
	put(s, w, sdma_encode_trap(w, s->event.trigger));
	/* Packets before the pointer, the pointer before the doorbell: pairs with the engine's
	 * fetch of the pointer and then of the ring. */
	__atomic_store_n(&s->page->wptr, s->put, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*s->doorbell = s->put;
	s->rung = s->put;
	return (int64_t)s->submissions;
}

bool sdma_done(const struct sdma *s, int64_t submission)
{
	/* pairs with the engine's fence, which follows the data */
	uint32_t fence = __atomic_load_n(&s->page->fence, __ATOMIC_ACQUIRE);

	return (int32_t)(fence - (uint32_t)submission) >= 0;
}

static bool faulted(struct sdma *s, const struct kfd_event_data *e, char *why, size_t len)
{
	struct ledger_hit h;

	if (!e->memory.gpu_id)
		return false;
	if (memory_near(s->ctx->memory, e->memory.va, &h))
		snprintf(why, len,
			 "SDMA memory fault at page 0x%llx: %s\"%.40s\" (0x%" PRIx64
			 " bytes at 0x%" PRIx64 ", number %u%s)",
			 (unsigned long long)e->memory.va,
			 h.offset < h.size ? "in " : "past the end of ", h.owner, h.size, h.va,
			 h.generation, h.alive ? "" : ", freed");
	else
		snprintf(why, len, "SDMA memory fault at page 0x%llx: no buffer ever lived there",
			 (unsigned long long)e->memory.va);
	return true;
}

int sdma_wait(struct sdma *s, int64_t submission, uint64_t timeout_ns, char *why, size_t why_len)
{
	uint64_t start = now_ns(), now = start;
	uint64_t deadline =
		timeout_ns && timeout_ns < UINT64_MAX - start ? start + timeout_ns : UINT64_MAX;

	while (now - start < SPIN_NS) {
		if (sdma_done(s, submission))
			return 0;
		__builtin_ia32_pause();
		now = now_ns();
	}
	for (;;) {
		struct kfd_event_data e[2] = {{.event_id = s->event.id},
					      {.event_id = s->ctx->memory_event.id}};
		uint64_t ms = RECHECK_MS;
		int rc;

		if (sdma_done(s, submission))
			return 0;
		now = now_ns();
		if (now >= deadline)
			return -ETIMEDOUT;
		if (deadline != UINT64_MAX && (deadline - now + 999999) / 1000000 < ms)
			ms = (deadline - now + 999999) / 1000000;
		rc = kfd_events_wait(s->ctx->kfd, e, 2, false, (uint32_t)ms, NULL);
		if (rc < 0 && rc != -EINTR)
			return rc;
		if (rc == 0 && !sdma_done(s, submission) && faulted(s, &e[1], why, why_len))
			return -EFAULT;
	}
}
