/* The implicit arguments as the kernel finds them (AMDGPUUsage, code object v5): one work-item
 * writes the first 32 words of the block. */
#define GLOBAL __attribute__((address_space(1)))
#define CONST  __attribute__((address_space(4)))

__attribute__((amdgpu_kernel, visibility("protected"))) void hidden(GLOBAL unsigned *out)
{
	const CONST unsigned *implicit = __builtin_amdgcn_implicitarg_ptr();

	for (unsigned i = 0; i < 32; i++)
		out[i] = implicit[i];
}
