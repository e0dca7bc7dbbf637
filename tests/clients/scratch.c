/* A kernel that needs private memory: an array indexed by what only the work-item knows. */
typedef unsigned u32;

#define WORDS 65u

__attribute__((amdgpu_kernel, visibility("protected"))) void
scratch(__attribute__((address_space(1))) u32 *out)
{
	u32 i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
	volatile u32 a[WORDS];
	u32 sum = 0;

	for (u32 k = 0; k < WORDS; k++)
		a[k] = i * 31 + k * k;
	for (u32 k = 0; k < WORDS; k++)
		sum = sum * 3 + a[(k * 7 + i) % WORDS];
	out[i] = sum;
}
