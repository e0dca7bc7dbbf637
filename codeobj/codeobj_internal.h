/* Shared by the files of this room only. */
#ifndef CODEOBJ_INTERNAL_H
#define CODEOBJ_INTERNAL_H

#include <stdarg.h>
#include <stdio.h>

#include "codeobj/codeobj.h"

/* AMDGPUUsage, "Relocation Records"; elf.h does not have them. */
enum {
	R_AMDGPU_NONE = 0,
	R_AMDGPU_ABS32_LO = 1,
	R_AMDGPU_ABS32_HI = 2,
	R_AMDGPU_ABS64 = 3,
	R_AMDGPU_REL32 = 4,
	R_AMDGPU_REL64 = 5,
	R_AMDGPU_ABS32 = 6,
	R_AMDGPU_REL32_LO = 10,
	R_AMDGPU_REL32_HI = 11,
	R_AMDGPU_RELATIVE64 = 13,
};

/* Where a refusal is written; text may be NULL. */
struct co_err {
	char *text;
	size_t len;
};

static inline bool co_is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

__attribute__((format(printf, 2, 3))) static inline void co_say(const struct co_err *e,
								const char *fmt, ...)
{
	va_list ap;

	if (!e->text || !e->len)
		return;
	va_start(ap, fmt);
	vsnprintf(e->text, e->len, fmt, ap);
	va_end(ap);
	/* names come from the file: one line, and nothing a terminal would obey */
	for (char *c = e->text; *c; c++)
		if (co_is_control(*c))
			*c = '?';
}

/* Writes the refusal and is its errno: a macro, so that every reader, the static analyser too,
 * sees the value. */
#define co_refuse(e, rc, ...) (co_say((e), __VA_ARGS__), (rc))

/* What the metadata says of a kernel before its symbol is looked up. */
struct co_meta_kernel {
	struct co_kernel k;
	char *symbol; /* "NAME.kd" */
};

struct co_meta {
	char target[64];
	uint32_t version[2];
	struct co_meta_kernel *kernels;
	uint32_t n_kernels;
};

/* Reads an NT_AMDGPU_METADATA descriptor. m is zeroed by the caller and freed by co_meta_free
 * whatever the result. */
int co_meta_parse(const void *desc, size_t n, struct co_meta *m, const struct co_err *e);
void co_meta_free(struct co_meta *m);

#endif
