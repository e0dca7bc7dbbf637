/* Code objects: ELF64 amdgpu v4-v6, kernel descriptors, metadata, loading.
 *
 * co_parse() is pure: it reads an image in memory and never trusts it. co_load() places the
 * segments into BOs and applies relocations.
 */
#ifndef CODEOBJ_H
#define CODEOBJ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

enum co_arg_kind {
	CO_ARG_BY_VALUE, CO_ARG_GLOBAL_BUFFER, CO_ARG_DYNAMIC_SHARED,
	/* hidden (AMDGPUUsage, code object v5 metadata) */
	CO_ARG_HIDDEN_BLOCK_COUNT_X, CO_ARG_HIDDEN_BLOCK_COUNT_Y, CO_ARG_HIDDEN_BLOCK_COUNT_Z,
	CO_ARG_HIDDEN_GROUP_SIZE_X, CO_ARG_HIDDEN_GROUP_SIZE_Y, CO_ARG_HIDDEN_GROUP_SIZE_Z,
	CO_ARG_HIDDEN_REMAINDER_X, CO_ARG_HIDDEN_REMAINDER_Y, CO_ARG_HIDDEN_REMAINDER_Z,
	CO_ARG_HIDDEN_GLOBAL_OFFSET_X, CO_ARG_HIDDEN_GLOBAL_OFFSET_Y, CO_ARG_HIDDEN_GLOBAL_OFFSET_Z,
	CO_ARG_HIDDEN_GRID_DIMS, CO_ARG_HIDDEN_DYNAMIC_LDS_SIZE, CO_ARG_HIDDEN_PRIVATE_BASE,
	CO_ARG_HIDDEN_SHARED_BASE, CO_ARG_HIDDEN_QUEUE_PTR, CO_ARG_HIDDEN_OTHER /* zero-filled */
};

struct co_arg {
	enum co_arg_kind kind;
	uint32_t offset, size;
	char name[64], type_name[64], value_kind[40]; /* empty when metadata has none */
};

struct co_kernel {
	char name[128];
	uint64_t kd_vaddr, entry_vaddr; /* ELF virtual addresses */
	uint32_t kernarg_bytes, kernarg_align, group_bytes, private_bytes;
	uint32_t sgprs, vgprs, sgpr_spills, vgpr_spills, max_group;
	bool wave64, dynamic_stack, uniform_work_group;
	uint8_t kd[64]; /* the descriptor, verbatim */
	struct co_arg *args;
	uint32_t n_args;
};

struct co_segment {
	uint64_t vaddr, offset, filesz, memsz;
	bool write, exec;
};
struct co_reloc {
	uint64_t offset;
	uint32_t type;
	int64_t addend;
	uint64_t sym_value;
};

struct codeobj {
	char target[64]; /* "amdgcn-amd-amdhsa--gfx1151" */
	uint32_t mach, abi_version; /* e_flags EF_AMDGPU_MACH, e_ident[EI_ABIVERSION] */
	uint32_t version;	    /* code object version 4..6 */
	struct co_kernel *kernels;
	uint32_t n_kernels;
	struct co_segment *segments;
	uint32_t n_segments;
	struct co_reloc *relocs;
	uint32_t n_relocs;
	uint64_t vaddr_end; /* bytes of address space needed */
	const void *image;
	size_t image_bytes;
};

/* Parses and checks; keeps a pointer to image. On failure err (errlen bytes) gets one line with
 * field, given and wanted value: -EILSEQ malformed, -ENOTSUP foreign arch or version, -ENOMEM. */
int co_parse(const void *image, size_t n, struct codeobj **out, char *err, size_t errlen);
/* As co_parse, but accepts any amdgpu arch (for listing). */
int co_parse_any(const void *image, size_t n, struct codeobj **out, char *err, size_t errlen);
void co_free(struct codeobj *co);
const struct co_kernel *co_find(const struct codeobj *co, const char *kernel);

struct co_program; /* loaded */
int co_load(struct memory *m, const struct codeobj *co, const char *owner, struct co_program **out,
	    char *err, size_t errlen);
void co_unload(struct co_program *p);
/* VA of a kernel's descriptor: aql_dispatch.kernel_object. 0 if there is no such kernel. */
uint64_t co_kernel_object(const struct co_program *p, const char *kernel);

/* Fills the hidden arguments of k into kernarg (kernarg_bytes long) for a dispatch. Pure. */
struct co_launch {
	uint32_t grid[3]; /* work-items */
	uint16_t group[3];
	uint32_t dims, dynamic_lds;
	uint64_t shared_base, private_base, queue_ptr;
};
void co_fill_hidden(const struct co_kernel *k, const struct co_launch *l, void *kernarg);

#endif
