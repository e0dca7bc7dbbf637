/* y = W x: W in Q8_0 as the engine keeps it (a row of k int8, then k/32 f16 scales), x quantised
 * the same way. A wave takes a row, 512 weights at a time, 16 per lane. */
#include <stdint.h>

#define GLOBAL __attribute__((address_space(1)))
typedef uint32_t u4 __attribute__((ext_vector_type(4)));

#define AT(type, p, byte) (*(GLOBAL const type *)((GLOBAL const uint8_t *)(p) + (byte)))

__attribute__((amdgpu_kernel, visibility("protected"))) void
q8_stream(GLOBAL const uint8_t *w, GLOBAL const uint8_t *x, GLOBAL float *y, uint32_t k)
{
	uint32_t tid = __builtin_amdgcn_workitem_id_x(), lane = tid & 31;
	uint32_t wave = (uint32_t)__builtin_amdgcn_readfirstlane((int)(tid >> 5));
	uint32_t row = __builtin_amdgcn_workgroup_id_x() * 4 + wave;
	GLOBAL const uint8_t *r = w + (uint64_t)row * (k + k / 16);
	float acc = 0.0f;

	for (uint32_t c = 0; c < k; c += 512) {
		u4 a = AT(u4, r + c, lane * 16), b = AT(u4, x + c, lane * 16);
		float d = (float)AT(_Float16, r + k + c / 16, lane / 2 * 2) *
			  (float)AT(_Float16, x + k + c / 16, lane / 2 * 2);
		int s = 0;

		for (int i = 0; i < 4; i++)
			s = __builtin_amdgcn_sudot4(1, (int)a[i], 1, (int)b[i], s, 0);
		acc = __builtin_fmaf((float)s, d, acc);
	}
	for (uint32_t m = 16; m; m >>= 1)
		acc += __builtin_bit_cast(
			float, __builtin_amdgcn_ds_bpermute((int)((lane ^ m) << 2),
							    __builtin_bit_cast(int, acc)));
	if (lane == 0)
		y[row] = acc;
}
