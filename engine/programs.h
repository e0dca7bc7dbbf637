/* The code objects the engine takes its kernels from: embedded, or files in their place. */
#ifndef ENGINE_PROGRAMS_H
#define ENGINE_PROGRAMS_H

#include "codeobj/codeobj.h"
#include "engine/plan.h"

struct programs;

/* dir NULL: all embedded. A code object DIR/NAME.co takes the place of the embedded NAME; a folder
 * with none of them is refused (-ENOENT). -errno with one line in err. */
int programs_open(const char *dir, struct programs **out, char *err, size_t errlen);
/* Unloads what is loaded. NULL is fine. */
void programs_close(struct programs *p);
/* For claim_kernels.kernarg_bytes; ctx is the struct programs. */
uint32_t programs_kernarg_bytes(void *ctx, const char *kernel);

/* Adds the buffers of the code objects that the plan's kernels come from. */
int programs_plan(struct programs *p, struct plan *plan);
/* Has the code object of one more kernel loaded and planned, if it is not already. -ENOENT. */
int programs_want(struct programs *p, struct plan *plan, const char *kernel);
/* Loads those same code objects. */
int programs_load(struct programs *p, struct memory *m, char *err, size_t errlen);
/* Packet fields of a loaded kernel; it must be one the plan uses. */
struct programs_kernel {
	uint64_t object;
	uint32_t private_bytes, group_bytes;
};
void programs_kernel(const struct programs *p, const char *kernel, struct programs_kernel *out);

#endif
