/* What compiled code may call. */
#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "device.h"
#include "isa/jit_internal.h"

/* Of the device. */
static const struct export
{
	const char *name;
	void *addr;
}
exports[] = {
	{"vm_access", (void *)vm_access},
	{"vm_read", (void *)vm_read},
	{"vm_write", (void *)vm_write},
	{"isa_icache_invalidate", (void *)isa_icache_invalidate},
};

/* The functions of libm and libc that sem code and LLVM's lowering may call: by address, because a
 * statically linked device (trap/) has nobody to ask. */
#define F(name) {#name, (void *)name}
static const struct export libs[] = {
	F(memcpy),     F(memset),     F(memmove),   F(memcmp),     F(sin),    F(cos),
	F(exp2),       F(log2),       F(sqrt),      F(sinf),       F(cosf),   F(exp2f),
	F(log2f),      F(sqrtf),      F(fma),       F(fmaf),       F(floor),  F(floorf),
	F(ceil),       F(ceilf),      F(trunc),     F(truncf),     F(rint),   F(rintf),
	F(nearbyint),  F(nearbyintf), F(ldexp),     F(ldexpf),     F(frexp),  F(frexpf),
	F(fmod),       F(fmodf),      F(fabs),      F(fabsf),      F(fmin),   F(fminf),
	F(fmax),       F(fmaxf),      F(roundeven), F(roundevenf), F(scalbn), F(scalbnf),
	F(fegetround), F(fesetround),
};
#undef F

/* libgcc's, where the client's process has it. */
static const char *const others[] = {"__truncsfhf2", "__extendhfsf2", "__truncdfhf2",
				     "__truncsfbf2"};

static void *look_up(const struct export *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return list[i].addr;
	return NULL;
}

void *jit_export(const char *name)
{
	void *p = look_up(exports, sizeof(exports) / sizeof(*exports), name);

	if (!p)
		p = look_up(libs, sizeof(libs) / sizeof(*libs), name);
	for (unsigned i = 0; !vgpu_is_static && !p && i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(others[i], name))
			p = dlsym(RTLD_DEFAULT, name);
	return p;
}
