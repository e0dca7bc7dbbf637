/* Golden logits: files of raw f32, and how far from them something is. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/testdata.h"

/* n values of a test data file; free() them. */
static inline float *golden(const char *name, size_t n)
{
	const char *path = testdata(name);
	float *f = malloc(n * sizeof(*f));
	FILE *in;

	cr_assert(path, "%s is missing", name);
	in = fopen(path, "rb");
	cr_assert(in);
	cr_assert_eq(fread(f, sizeof(*f), n, in), n, "%s is short", name);
	fclose(in);
	return f;
}

static inline double max_diff(const float *a, const float *b, size_t n)
{
	double max = 0.0;

	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)a[i] - (double)b[i]);

		if (!(d <= max)) /* a NaN sticks */
			max = d;
	}
	return max;
}

#endif
