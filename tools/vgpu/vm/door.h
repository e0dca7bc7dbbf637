/* The door's inline half: what a full wave does most, without a call.
 *
 * It is the same door: the same reader slot, generation check, TLB, permission bits and counters as
 * vm_access() in port.c, for loads and stores whose 32 lanes lie within 4 GiB above lane 0's
 * address and in one mapping. Whatever does not fit (a miss, a fault, a lane outside) returns false
 * with nothing done, and the caller goes through vm_access(). Whoever must see every access (a
 * tape, checks, exact counters) clears vm_port.reader, and nothing comes this way.
 *
 * Included by the opcode functions only; they are inlined into compiled kernels.
 */
#ifndef VGPU_VM_DOOR_H
#define VGPU_VM_DOOR_H

#include <string.h>

#include <immintrin.h>

#include "vm/internal.h"

typedef uint32_t vm_v32 __attribute__((ext_vector_type(32)));
typedef int32_t vm_i32 __attribute__((ext_vector_type(32)));
typedef uint32_t vm_v4 __attribute__((ext_vector_type(4)));
typedef uint32_t vm_v4b __attribute__((ext_vector_type(4), aligned(1)));
typedef uint32_t vm_v32b __attribute__((ext_vector_type(32), aligned(1)));

static inline unsigned vm_tlb_set(uint64_t va)
{
	uint64_t page = va >> 12;

	return (unsigned)(page ^ page >> 6 ^ page >> 12 ^ page >> 18) % VM_TLB_SETS;
}

static inline void vm_inline_leave(struct vm_port *p)
{
	/* Release: pairs with vm_grace(), as door_leave() does. */
	__atomic_store_n(&p->reader->seq, p->reader->seq + 1, __ATOMIC_RELEASE);
}

/* Enters the door. The host address of va if [va, va + room] lies in one mapping that grants
 * `need`; else NULL, and the door is left again. */
static inline uint8_t *vm_inline_enter(struct vm_port *p, uint64_t va, uint64_t size, unsigned need,
				       uint64_t *room)
{
	const struct vm_tlbe *e = &p->tlb[vm_tlb_set(va)];
	uint64_t at;

	if (__builtin_expect(!p->reader, 0))
		return NULL;
	__atomic_store_n(&p->reader->seq, p->reader->seq + 1, __ATOMIC_RELAXED);
	/* Pairs with the membarrier(2) of vm_grace(); without one, reader is never set. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	at = va - e->start;
	if (__builtin_expect(__atomic_load_n(&p->vm->generation, __ATOMIC_ACQUIRE) !=
					     p->generation ||
				     at >= e->end - e->start || e->end - va < size ||
				     (e->perm & need) != need,
			     0)) {
		vm_inline_leave(p);
		return NULL;
	}
	*room = e->end - va - size;
	p->accesses++;
	p->repeats += va == p->last;
	p->last = va;
	return e->host + at;
}

static inline vm_v32 vm_lane_numbers(void)
{
	return (vm_v32){0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
			16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
}

/* Whether any lane of a comparison result is true. */
static inline bool vm_any(vm_i32 m)
{
	return __builtin_reduce_or(m) != 0;
}

static inline bool vm_out_of(vm_v32 off, uint64_t room)
{
	uint32_t lim = room < 0xffffffffu ? (uint32_t)room : 0xffffffffu;

	return vm_any(off > (vm_v32){} + lim);
}

static inline void vm_transpose4(vm_v4 r[4])
{
	vm_v4 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
	vm_v4 b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
	vm_v4 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
	vm_v4 d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);

	r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
	r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
	r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
	r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* What follows a run of lanes is what the next turns of the loop, or the next wave, will want. A
 * row of weights is too short, and there are too many side by side, for the processor to see the
 * stream by itself: a quarter of a decode's time went into waiting for them. A page ahead: two waves
 * of four rows at 4 bits. Nothing is asked for that may not be: a prefetch cannot fault. */
#define VM_AHEAD 4096

static inline void vm_ahead(const uint8_t *host, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i += 64)
		__builtin_prefetch(host + VM_AHEAD + i);
}

/* 8 bytes per lane that follow each other. */
static inline void vm_load_run8(const uint8_t *host, uint32_t *data)
{
	const vm_v32b *h = (const vm_v32b *)host;
	const vm_v32 a = h[0], b = h[1];

#define VM_EACH_SECOND(c)                                                                          \
	__builtin_shufflevector(                                                                   \
		a, b, (c), (c) + 2, (c) + 4, (c) + 6, (c) + 8, (c) + 10, (c) + 12, (c) + 14,       \
		(c) + 16, (c) + 18, (c) + 20, (c) + 22, (c) + 24, (c) + 26, (c) + 28, (c) + 30,    \
		(c) + 32, (c) + 34, (c) + 36, (c) + 38, (c) + 40, (c) + 42, (c) + 44, (c) + 46,    \
		(c) + 48, (c) + 50, (c) + 52, (c) + 54, (c) + 56, (c) + 58, (c) + 60, (c) + 62)
	*(vm_v32 *)data = VM_EACH_SECOND(0);
	*(vm_v32 *)(data + VM_LANES) = VM_EACH_SECOND(1);
#undef VM_EACH_SECOND
}

/* 16 bytes per lane that follow each other: every fourth dword of 64 is a component of 16 lanes. */
static inline void vm_load_run16(const uint8_t *host, uint32_t *data)
{
	typedef uint32_t v64 __attribute__((ext_vector_type(64)));
	typedef uint32_t v64b __attribute__((ext_vector_type(64), aligned(1)));
	typedef uint32_t v16 __attribute__((ext_vector_type(16), aligned(4)));

	for (unsigned h = 0; h < 2; h++) {
		const v64 w = *(const v64b *)(host + 256 * h);
		uint32_t *d = data + 16 * h;

#define VM_COMPONENT(c)                                                                            \
	*(v16 *)(d + (c) * VM_LANES) = __builtin_shufflevector(                                    \
		w, w, (c), (c) + 4, (c) + 8, (c) + 12, (c) + 16, (c) + 20, (c) + 24, (c) + 28,     \
		(c) + 32, (c) + 36, (c) + 40, (c) + 44, (c) + 48, (c) + 52, (c) + 56, (c) + 60)
		VM_COMPONENT(0);
		VM_COMPONENT(1);
		VM_COMPONENT(2);
		VM_COMPONENT(3);
#undef VM_COMPONENT
	}
}

/* Up to 4 bytes per lane, aligned to each other, all within 32: scales of quantised blocks. */
static inline void vm_load_near(const uint8_t *host, vm_v32 off, unsigned size, uint32_t *data)
{
	__m256i w = _mm256_loadu_si256((const void *)host);
	union {
		vm_v32 v;
		__m256i q[4];
	} at, r;

	at.v = off >> 2;
	for (unsigned k = 0; k < 4; k++)
		r.q[k] = _mm256_permutevar8x32_epi32(w, at.q[k]);
	if (size < 4)
		r.v = r.v >> (off & 3u) * 8u & ((1u << 8 * size) - 1);
	memcpy(data, &r.v, sizeof(r.v));
}

/* Loads size (1, 2, 4, 8, 16) bytes per lane from va + off[lane] into data, component-major as
 * vm_access() has it. All lanes active. */
static inline bool vm_inline_load(struct vm_port *p, uint64_t va, vm_v32 off, unsigned size,
				  uint32_t *data)
{
	uint32_t o[VM_LANES];
	uint64_t room;
	uint8_t *host = vm_inline_enter(p, va, size, 0, &room);

	if (!host)
		return false;
	if (__builtin_expect(vm_out_of(off, room), 0)) {
		vm_inline_leave(p);
		return false;
	}
	p->bytes_read += size * VM_LANES;
	if (size == 4 && !vm_any(off != vm_lane_numbers() * 4u)) {
		vm_ahead(host, 4 * VM_LANES);
		*(vm_v32 *)data = *(const vm_v32b *)host;
		vm_inline_leave(p);
		return true;
	}
	if (size <= 4 && room + size >= 32 &&
	    !vm_any((vm_i32)(off > 32u - size) | (vm_i32)((off & (size - 1)) != 0u))) {
		vm_load_near(host, off, size, data);
		vm_inline_leave(p);
		return true;
	}
	if (size == 8 && !vm_any(off != vm_lane_numbers() * 8u)) {
		vm_ahead(host, 8 * VM_LANES);
		vm_load_run8(host, data);
		vm_inline_leave(p);
		return true;
	}
	if (size == 16 && !vm_any(off != vm_lane_numbers() * 16u)) {
		vm_ahead(host, 16 * VM_LANES);
		vm_load_run16(host, data);
		vm_inline_leave(p);
		return true;
	}
	memcpy(o, &off, sizeof(o));
	if (size < 4) {
		for (unsigned l = 0; l < VM_LANES; l++) {
			uint32_t v = 0;

			memcpy(&v, host + o[l], size);
			data[l] = v;
		}
	} else if (size == 4) {
		for (unsigned l = 0; l < VM_LANES; l++)
			memcpy(&data[l], host + o[l], 4);
	} else if (size == 8) {
		for (unsigned l = 0; l < VM_LANES; l++) {
			uint64_t q; /* one piece: an aligned quadword must not tear */

			memcpy(&q, host + o[l], 8);
			data[l] = (uint32_t)q;
			data[VM_LANES + l] = (uint32_t)(q >> 32);
		}
	} else {
		for (unsigned l = 0; l < VM_LANES; l += 4) {
			vm_v4 r[4];

			for (unsigned i = 0; i < 4; i++)
				r[i] = *(const vm_v4b *)(host + o[l + i]);
			vm_transpose4(r);
			for (unsigned c = 0; c < 4; c++)
				memcpy(&data[c * VM_LANES + l], &r[c], 16);
		}
	}
	vm_inline_leave(p);
	return true;
}

/* Stores 4 bytes per lane. */
static inline bool vm_inline_store(struct vm_port *p, uint64_t va, vm_v32 off, const uint32_t *data)
{
	uint32_t o[VM_LANES];
	uint64_t room;
	uint8_t *host = vm_inline_enter(p, va, 4, VM_W, &room);

	if (!host)
		return false;
	if (__builtin_expect(vm_out_of(off, room), 0)) {
		vm_inline_leave(p);
		return false;
	}
	p->bytes_written += 4 * VM_LANES;
	if (!vm_any(off != vm_lane_numbers() * 4u)) {
		*(vm_v32b *)host = *(const vm_v32 *)data;
	} else {
		memcpy(o, &off, sizeof(o));
		for (unsigned l = 0; l < VM_LANES; l++)
			memcpy(host + o[l], &data[l], 4);
	}
	vm_inline_leave(p);
	return true;
}

/* Reads n contiguous bytes (a scalar load). */
static inline bool vm_inline_read(struct vm_port *p, uint64_t va, void *dst, size_t n)
{
	uint64_t room;
	uint8_t *host = vm_inline_enter(p, va, n, 0, &room);

	if (!host)
		return false;
	p->bytes_read += n;
	memcpy(dst, host, n);
	vm_inline_leave(p);
	return true;
}

#endif
