/* VA manager: a window of addresses, its live ranges and its holes. Pure.
 *
 * Holes are kept sorted and always merged. Giving a range back needs no memory (room for the
 * hole is set aside when the range is handed out), so a failed allocation can never lose VA.
 * Not thread-safe; memory/ holds the lock.
 */
#ifndef MEMORY_VA_H
#define MEMORY_VA_H

#include <stdint.h>

#define VA_ALIGN_MIN 4096ull
#define VA_ALIGN_MAX (1ull << 30)

struct va_range {
	uint64_t start, size;
};
struct va_space;

/* [base, base + size), both multiples of 4 KiB. 0, -EINVAL, -ENOMEM. */
int va_space_create(uint64_t base, uint64_t size, struct va_space **out);
/* The same with another granule than 4 KiB for sizes and the least alignment: a power of two up to
 * 4 KiB. For suballocation inside a buffer. */
int va_space_create_granule(uint64_t base, uint64_t size, uint64_t granule, struct va_space **out);
void va_space_destroy(struct va_space *s);

/* The lowest fitting address. size > 0 and a multiple of 4 KiB; align a power of two, 4 KiB to
 * 1 GiB. -EINVAL, -ENOSPC (no hole fits), -ENOMEM. */
int va_alloc(struct va_space *s, uint64_t size, uint64_t align, uint64_t *out);
/* With `before` bytes in front of it and `after` behind it that belong to the range and to nobody
 * else (both multiples of the granule): the range is [*out - before, *out + size + after) and
 * va_free() takes its start. rng NULL: the lowest fitting address; otherwise each aligned address
 * that fits is equally likely, drawn from *rng, which moves on. Errors as va_alloc(). */
struct va_want {
	uint64_t size, align, before, after;
};
int va_alloc_placed(struct va_space *s, const struct va_want *w, uint64_t *rng, uint64_t *out);
/* SplitMix64: the same numbers from the same seed everywhere. */
uint64_t va_random(uint64_t *rng);
/* Exactly this range. -ERANGE outside the window, -EADDRINUSE when any of it is live. */
int va_alloc_at(struct va_space *s, uint64_t start, uint64_t size);
/* The start of a live range; returns its size, or -EINVAL. */
int va_free(struct va_space *s, uint64_t start);

uint64_t va_free_bytes(const struct va_space *s);
uint64_t va_largest_hole(const struct va_space *s);
unsigned va_live_count(const struct va_space *s);
unsigned va_hole_count(const struct va_space *s);
/* Holes and live ranges in address order; NULL beyond the last. */
const struct va_range *va_hole(const struct va_space *s, unsigned i);
const struct va_range *va_live(const struct va_space *s, unsigned i);

#endif
