/* Pointers in a data segment: R_AMDGPU_RELATIVE64 to hidden symbols, R_AMDGPU_ABS64 to a visible
 * one. out[lane] = *table[i] + lane. */
#define GLOBAL __attribute__((address_space(1)))
__attribute__((visibility("default"))) GLOBAL int values[4] = {10, 20, 30, 40};
static GLOBAL int secret[2] = {7, 8};
static GLOBAL int cleared[64];
GLOBAL int *GLOBAL table[4] = {&values[1], &secret[1], &values[3], &cleared[63]};

__attribute__((amdgpu_kernel, visibility("protected"))) void pick(GLOBAL int *out, unsigned i)
{
	unsigned lane = __builtin_amdgcn_workitem_id_x();

	out[lane] = *table[i] + (int)lane;
}
