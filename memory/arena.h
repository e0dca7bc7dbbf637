/* Arenas: parts of one buffer, placed with the same controls as buffers. Pure.
 *
 * Around each part lie red zones filled with a canary that depends on its address; so do the bytes
 * between a part's end and its red zone. arena_check() finds the first byte that changed. An arena
 * without host memory places and accounts but has no canaries and no poison.
 */
#ifndef MEMORY_ARENA_H
#define MEMORY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_GRANULE 16u /* of sizes inside; every part starts at a multiple of at least this */
#define ARENA_ALIGN   256u

struct arena;
struct bo_rules;

struct arena_opts {
	uint64_t align;   /* least, power of two from 16 to 1 GiB; 0 = ARENA_ALIGN */
	uint64_t redzone; /* bytes on each side, a multiple of 16 */
	/* By owner, over align, redzone and random, and the address itself; also poison, seed and
	 * quarantine bytes. Inside a buffer nothing is unmapped and all is of one memory, so guards
	 * and the rest of a place are the buffer's. NULL: none. */
	const struct bo_rules *rules;
	bool random; /* place by the rules' seed, not lowest first */
};

/* [va, va + size) with the host's view of it, NULL when there is none. 0, -EINVAL, -ENOMEM. opts
 * NULL: defaults. */
int arena_create(uint64_t va, uint64_t size, void *host, const struct arena_opts *opts,
		 struct arena **out);
void arena_destroy(struct arena *a);

/* align 0: the arena's. -EINVAL, -ENOSPC, -ENOMEM; -ERANGE or -EADDRINUSE when the rules want an
 * address that is not to be had. The owner's name is copied. */
int arena_alloc(struct arena *a, const char *owner, uint64_t bytes, uint64_t align, uint64_t *va);
/* -EINVAL when no part starts there. Needs no memory. */
int arena_free(struct arena *a, uint64_t va);

struct arena_damage {
	const char *owner;  /* of the part whose surroundings changed */
	uint64_t va, bytes; /* that part */
	uint64_t at;        /* the first changed byte */
	uint8_t found, wanted;
	uint64_t changed; /* bytes that changed around this part */
};
/* How many living parts have damaged surroundings; the lowest in *out (may be NULL). */
unsigned arena_check(const struct arena *a, struct arena_damage *out);

struct arena_part {
	const char *owner;
	uint64_t va, bytes;
	bool alive;
	uint32_t generation; /* counts allocations, from 1 */
};
/* The part, alive before dead, that holds or held va. */
bool arena_who(const struct arena *a, uint64_t va, struct arena_part *out);
uint64_t arena_used(const struct arena *a);  /* bytes asked, of living parts */
uint64_t arena_taken(const struct arena *a); /* with padding and red zones */
unsigned arena_count(const struct arena *a);

/* ---- red zones without an arena ---- */

/* The canary of the byte at va. Never 0 or 0xff: those are what is most often written by mistake, and a
 * write of the canary itself goes unnoticed. */
static inline uint8_t zone_byte(uint64_t va)
{
	uint8_t b = (uint8_t)((va * 0x9e3779b97f4a7c15u) >> 56);

	return b == 0 || b == 0xff ? 0xb5 : b;
}
void zone_fill(void *host, uint64_t va, uint64_t bytes);
/* Offset of the first changed byte, bytes when none did; *changed counts them (may be NULL). */
uint64_t zone_check(const void *host, uint64_t va, uint64_t bytes, uint64_t *changed);

#endif
