/* FMA-bound: FMA_CHAINS independent chains per item, steps links each. Compiled for gfx1151 (one
 * item per lane) and for the host (eight items at a time, so that both compilers see the same
 * expression with all its parallelism in the open). */
#include "tests/bench/fma.h"

#ifdef __AMDGCN__
typedef float item;
#define IN __attribute__((address_space(1)))
#else
typedef float item __attribute__((ext_vector_type(FMA_HOST_LANES), aligned(4)));
#define IN
#endif

static inline __attribute__((always_inline)) item chains(item x, item y, uint32_t steps)
{
	item acc[FMA_CHAINS], sum;

	for (int c = 0; c < FMA_CHAINS; c++)
		acc[c] = x * (float)(c + 1);
	for (uint32_t s = 0; s < steps; s++)
		for (int c = 0; c < FMA_CHAINS; c++)
			acc[c] = __builtin_elementwise_fma(acc[c], x, y);
	sum = acc[0];
	for (int c = 1; c < FMA_CHAINS; c++)
		sum += acc[c];
	return sum;
}

#ifdef __AMDGCN__
__attribute__((amdgpu_kernel, visibility("protected"))) void
fma_chains(IN const float *x, IN const float *y, IN float *out, uint32_t steps)
{
	uint32_t i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();

	out[i] = chains(x[i], y[i], steps);
}
#else
void fma_native(const float *x, const float *y, float *out, uint32_t items, uint32_t steps)
{
	for (uint32_t i = 0; i < items; i += FMA_HOST_LANES)
		*(item *)(out + i) = chains(*(const item *)(x + i), *(const item *)(y + i), steps);
}
#endif
