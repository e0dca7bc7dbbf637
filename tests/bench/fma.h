/* The FMA-bound kernel's shape, and one source for both machines. */
#ifndef TESTS_BENCH_FMA_H
#define TESTS_BENCH_FMA_H

#include <stdint.h>

/* Chains per item: enough to hide a latency of 4 at two results per cycle with some to spare. */
#define FMA_CHAINS 12
/* On the host an "item" is a vector of 8: clang has no other way to know that items are alike. */
#define FMA_HOST_LANES 8

void fma_native(const float *x, const float *y, float *out, uint32_t items, uint32_t steps);

#endif
