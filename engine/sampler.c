#include "engine/sampler.h"
#include "engine/gguf_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every rounding is where it is written. */
#pragma STDC FP_CONTRACT OFF

struct choice {
	float logit;
	int32_t id;
};

struct sampler {
	struct sampler_params p;
	uint32_t n_vocab;
	uint64_t state;
	struct choice *heap; /* n_vocab */
	struct choice *kept; /* n_vocab, most probable first */
	double *weight;      /* n_vocab */
};

int sampler_create(const struct sampler_params *p, uint32_t n_vocab, struct sampler **out,
		   char *err, size_t errlen)
{
	struct sampler *s;

	if (!isfinite(p->temp) || p->temp < 0.0f) {
		gguf_fail(err, errlen, "sampler: temperature is %g, want 0 (greedy) or more",
			  (double)p->temp);
		return -EINVAL;
	}
	if (!(p->top_p > 0.0f && p->top_p <= 1.0f)) {
		gguf_fail(err, errlen, "sampler: top-p is %g, want above 0 up to 1",
			  (double)p->top_p);
		return -EINVAL;
	}
	if (!n_vocab || n_vocab > INT32_MAX) {
		gguf_fail(err, errlen, "sampler: vocabulary of %u tokens, want 1 to %d", n_vocab,
			  INT32_MAX);
		return -EINVAL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		goto nomem;
	s->p = *p;
	s->n_vocab = n_vocab;
	s->state = p->seed;
	s->heap = malloc(n_vocab * sizeof(*s->heap));
	s->kept = malloc(n_vocab * sizeof(*s->kept));
	s->weight = malloc(n_vocab * sizeof(*s->weight));
	if (!s->heap || !s->kept || !s->weight)
		goto nomem;
	*out = s;
	return 0;
nomem:
	gguf_fail(err, errlen, "sampler: out of memory for %u tokens", n_vocab);
	sampler_free(s);
	return -ENOMEM;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	free(s->heap);
	free(s->kept);
	free(s->weight);
	free(s);
}

void sampler_reseed(struct sampler *s, uint64_t seed)
{
	s->state = seed;
}

/* SplitMix64. */
static uint64_t draw(struct sampler *s)
{
	uint64_t z = s->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* e^x for x <= 0, the same bits on every machine: x = k ln 2 + r, |r| <= ln 2 / 2, a Taylor sum to
 * r^13/13! (error below 2^-55), times 2^k. Under 2^-1000 it is 0. */
static double exp_neg(double x)
{
	static const double log2e = 0x1.71547652b82fep+0;
	static const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
	double k, r, sum = 1.0;

	if (x < -693.0)
		return 0.0;
	k = floor(x * log2e + 0.5);
	r = x - k * ln2_hi - k * ln2_lo;
	for (int i = 13; i >= 1; i--)
		sum = 1.0 + sum * r / i;
	return ldexp(sum, (int)k);
}

static int check_finite(const struct sampler *s, const float *logits, char *err, size_t errlen)
{
	uint32_t bad = 0, first = 0;

	for (uint32_t i = 0; i < s->n_vocab; i++)
		if (!isfinite(logits[i]) && !bad++)
			first = i;
	if (!bad)
		return 0;
	gguf_fail(err, errlen, "sampler: logit of token %u is %g; %u of %u logits are not finite",
		  first, (double)logits[first], bad, s->n_vocab);
	return -EDOM;
}

static bool better(const struct choice *a, const struct choice *b)
{
	return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static void sift_down(struct choice *h, uint32_t n, uint32_t i)
{
	struct choice c = h[i];
	uint32_t kid;

	while ((kid = 2 * i + 1) < n) {
		if (kid + 1 < n && better(&h[kid + 1], &h[kid]))
			kid++;
		if (!better(&h[kid], &c))
			break;
		h[i] = h[kid];
		i = kid;
	}
	h[i] = c;
}

static int32_t greedy(const struct sampler *s, const float *logits)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < s->n_vocab; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

/* Fills kept[] with the best top_k, best first; returns how many. A heap gives them in order
 * without sorting the rest of the vocabulary. */
static uint32_t keep_top_k(struct sampler *s, const float *logits)
{
	uint32_t n = s->n_vocab, k = s->p.top_k && s->p.top_k < n ? s->p.top_k : n;

	for (uint32_t i = 0; i < n; i++)
		s->heap[i] = (struct choice){logits[i], (int32_t)i};
	for (uint32_t i = n / 2; i-- > 0;)
		sift_down(s->heap, n, i);
	for (uint32_t i = 0; i < k; i++) {
		s->kept[i] = s->heap[0];
		s->heap[0] = s->heap[--n];
		sift_down(s->heap, n, 0);
	}
	return k;
}

/* weight[i] = e^((logit[i] - logit[0]) / temp); returns their sum. */
static double weigh(struct sampler *s, uint32_t k, double temp)
{
	double sum = 0.0;

	for (uint32_t i = 0; i < k; i++) {
		s->weight[i] =
			exp_neg(((double)s->kept[i].logit - (double)s->kept[0].logit) / temp);
		sum += s->weight[i];
	}
	return sum;
}

/* How many of the k best reach top_p of the probability. */
static uint32_t keep_top_p(struct sampler *s, uint32_t k)
{
	double want, have = 0.0;

	if (s->p.top_p >= 1.0f)
		return k;
	want = (double)s->p.top_p * weigh(s, k, 1.0);
	for (uint32_t i = 0; i < k; i++) {
		have += s->weight[i];
		if (have >= want)
			return i + 1;
	}
	return k;
}

int sampler_next(struct sampler *s, const float *logits, int32_t *id, char *err, size_t errlen)
{
	double at, sum;
	uint32_t k, i;
	int ret = check_finite(s, logits, err, errlen);

	if (ret < 0)
		return ret;
	if (s->p.temp == 0.0f) {
		*id = greedy(s, logits);
		return 0;
	}
	k = keep_top_p(s, keep_top_k(s, logits));
	sum = weigh(s, k, (double)s->p.temp);
	at = (double)(draw(s) >> 11) * 0x1p-53 * sum;
	for (i = 0; i + 1 < k; i++) {
		at -= s->weight[i];
		if (at < 0.0)
			break;
	}
	*id = s->kept[i].id;
	return 0;
}
