/* Picks the next token from logits: greedy, or top-k, top-p and temperature with a seed.
 *
 * Order (as llama.cpp's usual chain): keep the top_k largest logits; of their softmax keep the
 * smallest set of most probable tokens that reaches top_p; divide the logits by temp; draw. Ties go
 * to the lower id. temp == 0 is greedy: the largest logit, nothing drawn.
 *
 * The generator is SplitMix64 (Steele, Lea, Flood 2014): state += 0x9e3779b97f4a7c15, then its
 * finaliser; the top 53 bits times 2^-53 are the uniform in [0,1). The initial state is the seed;
 * one draw per sampled token. exp() is computed here from IEEE additions and multiplications in a
 * fixed order without contraction, so the same logits and seed give the same tokens on any machine.
 *
 * sampler_next() is on the per-token path: no allocation, no system call.
 */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct sampler_params {
	float temp;     /* 0 = greedy; finite, >= 0 */
	uint32_t top_k; /* 0 = all */
	float top_p;    /* (0, 1]; 1 = all */
	uint64_t seed;
};

struct sampler;

/* -EINVAL with one line in err for a parameter out of range; -ENOMEM. */
int sampler_create(const struct sampler_params *p, uint32_t n_vocab, struct sampler **out,
		   char *err, size_t errlen);
void sampler_free(struct sampler *s);
/* logits[n_vocab] -> *id. -EDOM when any logit is NaN or infinite: err names the first and counts
 * them; *id and the generator are untouched. */
int sampler_next(struct sampler *s, const float *logits, int32_t *id, char *err, size_t errlen);
/* Back to the first draw of a seed. */
void sampler_reseed(struct sampler *s, uint64_t seed);

#endif
