/* splitmix64: no state but one word, the same everywhere. */
#include "probe.h"

uint32_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)((uint64_t)rng_next(r) * n >> 32);
}
