/* Rings of PM4 and SDMA packets, for clients that submit by hand. Layouts as the kernel's headers
 * have them (nvd.h, navi10_sdma_pkt_open.h). */
#ifndef TESTS_CLIENTS_PACKETS_H
#define TESTS_CLIENTS_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

/* SDMA counts its write pointer in bytes, PM4 in dwords. */
struct ring {
	uint32_t *base;
	uint32_t bytes;
	bool sdma;
	uint64_t put;  /* dwords written */
	uint64_t wptr; /* as last told to the engine */
	volatile uint64_t *doorbell, *write;
};

static inline void ring_init(struct ring *r, void *base, uint32_t bytes, bool sdma)
{
	*r = (struct ring){.base = base, .bytes = bytes, .sdma = sdma};
}

static inline void ring_attach(struct ring *r, void *doorbell, void *write)
{
	r->doorbell = doorbell;
	r->write = write;
}

static inline void put(struct ring *r, uint32_t v)
{
	r->base[r->put++ % (r->bytes / 4)] = v;
}

static inline void put_address(struct ring *r, const volatile void *p)
{
	put(r, (uint32_t)(uintptr_t)p);
	put(r, (uint32_t)((uintptr_t)p >> 32));
}

/* SDMA packets must not cross the ring's end. */
static inline void room(struct ring *r, unsigned dwords)
{
	unsigned size = r->bytes / 4;

	while (r->sdma && r->put % size + dwords > size)
		put(r, 0);
}

static inline void ring_go(struct ring *r)
{
	r->wptr = r->sdma ? r->put * 4 : r->put;
	__atomic_store_n(r->write, r->wptr, __ATOMIC_RELEASE);
	__atomic_store_n(r->doorbell, r->wptr, __ATOMIC_RELEASE);
}

static inline void sdma_copy(struct ring *r, void *to, const void *from, uint32_t bytes)
{
	room(r, 7);
	put(r, 1);
	put(r, bytes - 1);
	put(r, 0);
	put_address(r, from);
	put_address(r, to);
}

static inline void sdma_write(struct ring *r, void *to, uint32_t v)
{
	room(r, 5);
	put(r, 2);
	put_address(r, to);
	put(r, 0); /* one dword */
	put(r, v);
}

static inline void sdma_fill(struct ring *r, void *to, uint32_t v, uint32_t bytes)
{
	room(r, 5);
	put(r, 11 | 2u << 30); /* in dwords */
	put_address(r, to);
	put(r, v);
	put(r, bytes - 1);
}

static inline void sdma_fence(struct ring *r, volatile uint32_t *to, uint32_t v)
{
	room(r, 4);
	put(r, 5 | 3u << 16); /* MTYPE uncached */
	put_address(r, to);
	put(r, v);
}

static inline void sdma_trap(struct ring *r, uint32_t event)
{
	room(r, 2);
	put(r, 6);
	put(r, event);
}

/* Header of a PM4 packet with this many dwords behind it; compute's. */
static inline void pm4_header(struct ring *r, uint32_t op, uint32_t body)
{
	put(r, 3u << 30 | (body - 1) << 16 | op << 8 | 2);
}

static inline void pm4_write(struct ring *r, volatile uint32_t *to, uint32_t v)
{
	pm4_header(r, 0x37, 4);
	put(r, 5u << 8 | 1u << 20); /* memory, confirmed */
	put_address(r, to);
	put(r, v);
}

/* End of pipe: writes v; raises event unless it is 0. */
static inline void pm4_release_any(struct ring *r, volatile void *to, uint32_t data_sel, uint64_t v,
				   uint32_t event)
{
	pm4_header(r, 0x49, 7);
	put(r, 0x14 | 5u << 8);
	put(r, data_sel << 29 | (event ? 2u : 3u) << 24);
	put_address(r, to);
	put(r, (uint32_t)v);
	put(r, (uint32_t)(v >> 32));
	put(r, event);
}

static inline void pm4_release(struct ring *r, volatile uint32_t *to, uint32_t v, uint32_t event)
{
	pm4_release_any(r, to, 1, v, event);
}

static inline void pm4_stamp(struct ring *r, volatile uint64_t *to)
{
	pm4_release_any(r, to, 3, 0, 0);
}

static inline void pm4_wait(struct ring *r, volatile uint32_t *p, uint32_t v)
{
	pm4_header(r, 0x3c, 6);
	put(r, 3 | 1u << 4); /* equal, in memory */
	put_address(r, p);
	put(r, v);
	put(r, UINT32_MAX);
	put(r, 4);
}

static inline void pm4_acquire(struct ring *r)
{
	pm4_header(r, 0x58, 7);
	put(r, 0);
	put(r, UINT32_MAX);
	put(r, 0xff);
	put(r, 0);
	put(r, 0);
	put(r, 4);
	put(r, 0x4381);
}

static inline void pm4_sh(struct ring *r, uint32_t reg, unsigned n, const uint32_t *v)
{
	pm4_header(r, 0x76, n + 1);
	put(r, reg - 0x2c00);
	for (unsigned i = 0; i < n; i++)
		put(r, v[i]);
}

static inline void pm4_dispatch(struct ring *r, uint32_t x, uint32_t y, uint32_t z)
{
	pm4_header(r, 0x15, 4);
	put(r, x);
	put(r, y);
	put(r, z);
	put(r, 1 | 1u << 2 | 1u << 15); /* shader on, force start at 0, wave32 */
}

/* amd_queue_t: what the packet processor's firmware finds before the read pointer. */
struct amd_queue {
	uint32_t type, features;
	uint64_t ring, doorbell_signal;
	uint32_t size, reserved0;
	uint64_t id;
	uint32_t caps, reserved1[3];
	uint64_t write_id;
	uint32_t group_aperture_hi, private_aperture_hi, max_cu_id, max_wave_id;
	uint64_t legacy[6];
	uint64_t read_id;
	uint32_t read_id_offset, tmpring, srd[4];
	uint64_t scratch, scratch_bytes;
	uint32_t scratch_lane_bytes, properties;
	uint64_t scratch_last_used, inactive_signal;
	uint32_t reserved3[14];
};
_Static_assert(sizeof(struct amd_queue) == 0x100, "amd_queue_t has 256 bytes");

#endif
