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

/* hidden_queue_ptr, and what stands there as the queue's size. The builtin makes the compiler ask
 * for the argument; its own value is undefined in code object v5. */
__attribute__((amdgpu_kernel, visibility("protected"))) void queue(GLOBAL unsigned long *out)
{
	const CONST char *implicit = __builtin_amdgcn_implicitarg_ptr();
	const CONST char *ptr = *(const CONST char *const CONST *)(implicit + 200);

	out[0] = (unsigned long)ptr;
	out[1] = *(const CONST unsigned *)(ptr + 24);
	out[2] = (unsigned long)__builtin_amdgcn_queue_ptr();
}
