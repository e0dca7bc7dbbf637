/* The sampler: greedy, the cuts, the generator, and what it refuses. */
#include <criterion/criterion.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/sampler.h"

static char err[256];

static struct sampler *make(float temp, uint32_t top_k, float top_p, uint64_t seed, uint32_t n)
{
	struct sampler_params p = {.temp = temp, .top_k = top_k, .top_p = top_p, .seed = seed};
	struct sampler *s = NULL;

	cr_assert_eq(sampler_create(&p, n, &s, err, sizeof(err)), 0, "%s", err);
	return s;
}

static int32_t next(struct sampler *s, const float *logits)
{
	int32_t id = -1;

	cr_assert_eq(sampler_next(s, logits, &id, err, sizeof(err)), 0, "%s", err);
	return id;
}

static void spread(float *logits, uint32_t n)
{
	uint32_t x = 1;

	for (uint32_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		logits[i] = (float)(x >> 16) / 65536.0f * 8.0f;
	}
}

Test(sampler, greedy_takes_the_largest_and_the_first_of_equals)
{
	float logits[] = {-1.0f, 3.0f, 2.0f, 3.0f, -5.0f};
	struct sampler *s = make(0.0f, 0, 1.0f, 1, 5);

	cr_assert_eq(next(s, logits), 1);
	logits[4] = 3.5f;
	cr_assert_eq(next(s, logits), 4);
	sampler_free(s);
}

/* The same draws computed by an independent program from the header's description. */
Test(sampler, draws_are_those_of_the_description)
{
	static const struct {
		float temp;
		uint32_t top_k;
		float top_p;
		uint64_t seed;
		int32_t ids[16];
	} cases[] = {
		{0.7f,
		 40,
		 0.95f,
		 1,
		 {52, 30, 6, 73, 73, 30, 49, 40, 15, 90, 41, 86, 73, 52, 73, 37}},
		{1.0f, 0, 1.0f, 7, {40, 68, 79, 65, 52, 15, 86, 73, 37, 40, 37, 63, 25, 6, 6, 91}},
		{1.5f,
		 0,
		 0.5f,
		 123456789,
		 {37, 15, 37, 41, 68, 73, 52, 40, 41, 41, 52, 41, 41, 37, 68, 68}},
		{0.7f,
		 5,
		 1.0f,
		 2,
		 {33, 15, 33, 15, 37, 37, 15, 15, 37, 15, 37, 37, 33, 37, 41, 68}},
	};
	float logits[100];

	spread(logits, 100);
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct sampler *s =
			make(cases[c].temp, cases[c].top_k, cases[c].top_p, cases[c].seed, 100);

		for (int again = 0; again < 2; again++) {
			for (int i = 0; i < 16; i++) {
				int32_t id = next(s, logits);

				cr_assert_eq(id, cases[c].ids[i], "case %zu draw %d: %d, want %d",
					     c, i, id, cases[c].ids[i]);
			}
			sampler_reseed(s, cases[c].seed);
		}
		sampler_free(s);
	}
}

Test(sampler, frequencies_follow_the_softmax)
{
	static const float logits[] = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f};
	struct sampler *s = make(2.0f, 0, 1.0f, 99, 5);
	unsigned count[5] = {0};
	double w[5], sum = 0.0, chi2 = 0.0;
	const int n = 50000;

	for (int i = 0; i < 5; i++)
		sum += w[i] = exp((double)logits[i] / 2.0);
	for (int i = 0; i < n; i++)
		count[next(s, logits)]++;
	for (int i = 0; i < 5; i++) {
		double want = n * w[i] / sum;

		chi2 += (count[i] - want) * (count[i] - want) / want;
	}
	/* Four degrees of freedom: above 18.5 once in a thousand seeds. */
	cr_assert_lt(chi2, 18.5, "chi2 %g", chi2);
	sampler_free(s);
}

Test(sampler, cuts)
{
	float logits[100];
	struct sampler *s;
	int32_t best = 0;

	spread(logits, 100);
	for (int32_t i = 1; i < 100; i++)
		if (logits[i] > logits[best])
			best = i;
	/* Only the best is left, whatever the temperature. */
	s = make(100.0f, 1, 1.0f, 5, 100);
	for (int i = 0; i < 50; i++)
		cr_assert_eq(next(s, logits), best);
	sampler_free(s);
	s = make(100.0f, 0, 1e-6f, 5, 100);
	for (int i = 0; i < 50; i++)
		cr_assert_eq(next(s, logits), best);
	sampler_free(s);
	/* 0.6 and 0.3 of the probability: 0.5 keeps the first, 0.7 both, never the third. */
	for (int round = 0; round < 2; round++) {
		float three[] = {logf(0.3f), logf(0.6f), logf(0.1f)};
		unsigned seen[3] = {0};

		s = make(1.0f, 0, round ? 0.7f : 0.5f, 3, 3);
		for (int i = 0; i < 400; i++)
			seen[next(s, three)]++;
		cr_assert(seen[1] > 0 && !seen[2] && (seen[0] > 0) == round);
		sampler_free(s);
	}
}

Test(sampler, not_finite_is_an_error)
{
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	float logits[100];

	for (int b = 0; b < 6; b++) {
		struct sampler *s = make(b < 3 ? 0.0f : 0.8f, 40, 0.9f, 4, 100);
		int32_t id = -7, first, after;

		spread(logits, 100);
		first = next(s, logits);
		sampler_reseed(s, 4);
		logits[63] = logits[71] = bad[b % 3];
		cr_assert_eq(sampler_next(s, logits, &id, err, sizeof(err)), -EDOM);
		cr_assert_eq(id, -7, "output touched");
		cr_assert(strstr(err, "token 63") && strstr(err, "2 of 100"), "%s", err);
		spread(logits, 100);
		after = next(s, logits);
		cr_assert_eq(after, first, "the refusal used up a draw");
		sampler_free(s);
	}
}

Test(sampler, extremes)
{
	static const float wide[] = {-3.4e38f, 3.4e38f, 0.0f}, same[] = {1.0f, 1.0f};
	struct sampler *s = make(1e-38f, 0, 1.0f, 1, 3);
	unsigned seen[2] = {0};

	for (int i = 0; i < 20; i++)
		cr_assert_eq(next(s, wide), 1);
	sampler_free(s);
	s = make(1.0f, 1000, 1.0f, 1, 2);
	for (int i = 0; i < 200; i++)
		seen[next(s, same)]++;
	cr_assert(seen[0] > 50 && seen[1] > 50);
	sampler_free(s);
	s = make(1.0f, 0, 1.0f, 1, 1);
	cr_assert_eq(next(s, same), 0);
	sampler_free(s);
}

static void refused(struct sampler_params p, uint32_t n, const char *what)
{
	struct sampler *s = NULL;

	cr_assert_eq(sampler_create(&p, n, &s, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, what) && !s, "%s", err);
}

Test(sampler, refusals)
{
	refused((struct sampler_params){.temp = -0.1f, .top_p = 1.0f}, 10, "temperature is -0.1");
	refused((struct sampler_params){.temp = NAN, .top_p = 1.0f}, 10, "temperature is nan");
	refused((struct sampler_params){.temp = 1.0f, .top_p = 0.0f}, 10, "top-p is 0");
	refused((struct sampler_params){.temp = 1.0f, .top_p = 1.1f}, 10, "top-p is 1.1");
	refused((struct sampler_params){.temp = 1.0f, .top_p = NAN}, 10, "top-p is nan");
	refused((struct sampler_params){.temp = 1.0f, .top_p = 1.0f}, 0, "vocabulary of 0");
}
