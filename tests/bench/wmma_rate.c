/* Four independent 16x16x16 products per step, operands in registers: what one matrix
 * instruction costs. */
#include <stdint.h>

typedef _Float16 v16h __attribute__((ext_vector_type(16)));
typedef float v8f __attribute__((ext_vector_type(8)));
#define GLOBAL __attribute__((address_space(1)))

__attribute__((amdgpu_kernel, visibility("protected"))) void
wmma_rate(GLOBAL const v16h *a, GLOBAL v8f *out, uint32_t steps)
{
	uint32_t i = __builtin_amdgcn_workitem_id_x();
	v16h x[2] = {a[2 * i], a[2 * i + 1]};
	v8f acc[4] = {0};

	for (uint32_t s = 0; s < steps; s++)
		for (int j = 0; j < 4; j++)
			acc[j] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x[j & 1], x[j >> 1],
									    acc[j]);
	i += __builtin_amdgcn_workgroup_id_x() * 128;
	for (int j = 0; j < 4; j++)
		out[4 * i + j] = acc[j];
}
