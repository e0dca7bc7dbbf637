/* What compiled code may call. */
#include <dlfcn.h>
#include <string.h>

#include "isa/jit_internal.h"

/* Of the device. */
static const struct {
	const char *name;
	void *addr;
} exports[] = {
	{"vm_access", (void *)vm_access},
	{"vm_read", (void *)vm_read},
	{"vm_write", (void *)vm_write},
	{"isa_icache_invalidate", (void *)isa_icache_invalidate},
};

/* The functions of libm and libc that sem code and LLVM's lowering may call. */
static const char *const libs[] = {
	"memcpy",     "memset",     "memmove",      "memcmp",        "sin",          "cos",
	"exp2",       "log2",       "sqrt",         "sinf",          "cosf",         "exp2f",
	"log2f",      "sqrtf",      "fma",          "fmaf",          "floor",        "floorf",
	"ceil",       "ceilf",      "trunc",        "truncf",        "rint",         "rintf",
	"nearbyint",  "nearbyintf", "ldexp",        "ldexpf",        "frexp",        "frexpf",
	"fmod",       "fmodf",      "fabs",         "fabsf",         "fmin",         "fminf",
	"fmax",       "fmaxf",      "roundeven",    "roundevenf",    "scalbn",       "scalbnf",
	"fegetround", "fesetround", "__truncsfhf2", "__extendhfsf2", "__truncdfhf2", "__truncsfbf2",
};

void *jit_export(const char *name)
{
	for (unsigned i = 0; i < sizeof(exports) / sizeof(*exports); i++)
		if (!strcmp(exports[i].name, name))
			return exports[i].addr;
	for (unsigned i = 0; i < sizeof(libs) / sizeof(*libs); i++)
		if (!strcmp(libs[i], name))
			return dlsym(RTLD_DEFAULT, name);
	return NULL;
}
