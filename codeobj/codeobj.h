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
	CO_ARG_BY_VALUE,
	CO_ARG_GLOBAL_BUFFER,
	CO_ARG_DYNAMIC_SHARED,
	/* hidden (AMDGPUUsage, code object v5 metadata) */
	CO_ARG_HIDDEN_BLOCK_COUNT_X,
	CO_ARG_HIDDEN_BLOCK_COUNT_Y,
	CO_ARG_HIDDEN_BLOCK_COUNT_Z,
	CO_ARG_HIDDEN_GROUP_SIZE_X,
	CO_ARG_HIDDEN_GROUP_SIZE_Y,
	CO_ARG_HIDDEN_GROUP_SIZE_Z,
	CO_ARG_HIDDEN_REMAINDER_X,
	CO_ARG_HIDDEN_REMAINDER_Y,
	CO_ARG_HIDDEN_REMAINDER_Z,
	CO_ARG_HIDDEN_GLOBAL_OFFSET_X,
	CO_ARG_HIDDEN_GLOBAL_OFFSET_Y,
	CO_ARG_HIDDEN_GLOBAL_OFFSET_Z,
	CO_ARG_HIDDEN_GRID_DIMS,
	CO_ARG_HIDDEN_DYNAMIC_LDS_SIZE,
	CO_ARG_HIDDEN_PRIVATE_BASE,
	CO_ARG_HIDDEN_SHARED_BASE,
	CO_ARG_HIDDEN_QUEUE_PTR,
	CO_ARG_HIDDEN_OTHER /* zero-filled */
};

struct co_arg {
	enum co_arg_kind kind;
	uint32_t offset, size;
	char name[64], type_name[64]; /* for display; empty when metadata has none */
	char value_kind[40];
};

struct co_kernel {
	char *name; /* owned by the codeobj; no control bytes; C++ names have no useful bound */
	uint64_t kd_vaddr, entry_vaddr; /* ELF virtual addresses */
	uint32_t kernarg_bytes, kernarg_align, group_bytes, private_bytes;
	uint32_t sgprs, vgprs, sgpr_spills, vgpr_spills, max_group;
	bool wave64, dynamic_stack, uniform_work_group;
	uint8_t kd[64]; /* the descriptor, verbatim */
	struct co_arg *args;
	uint32_t n_args;
};

/* Relation of e_flags' xnack and sramecc fields to the target ID (AMDGPUUsage, "ELF Code Object",
 * EF_AMDGPU_FEATURE_*_V4). gfx1151 has neither feature. */
enum co_feature { CO_FEATURE_UNSUPPORTED, CO_FEATURE_ANY, CO_FEATURE_OFF, CO_FEATURE_ON };

/* PT_LOAD in ascending order without overlap; offset + filesz lies in the image. */
struct co_segment {
	uint64_t vaddr, offset, filesz, memsz;
	bool write, exec;
};
/* R_AMDGPU_* against a resolved symbol; the patched field lies within one segment. */
struct co_reloc {
	uint64_t offset; /* ELF virtual address of the field */
	uint32_t type;
	int64_t addend;
	uint64_t sym_value;
};

struct codeobj {
	char target[64];            /* "amdgcn-amd-amdhsa--gfx1151" */
	uint32_t mach, abi_version; /* e_flags EF_AMDGPU_MACH, e_ident[EI_ABIVERSION] */
	uint32_t version;           /* code object version 4..6 */
	uint32_t xnack, sramecc;    /* enum co_feature */
	uint32_t generic_version;   /* of a generic arch (v6), 0 otherwise */
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

/* EF_AMDGPU_MACH values this driver runs: gfx1151 and the family's generic arch. */
#define CO_MACH_GFX1151       0x4a
#define CO_MACH_GFX11_GENERIC 0x54
/* "gfx1100", or "unknown arch". Source: llvm/BinaryFormat/ELF.h. */
const char *co_mach_name(uint32_t mach);

/* Parses and checks; keeps a pointer to image. On failure err (errlen bytes) gets one line with
 * field, given and wanted value: -EILSEQ malformed, -ENOTSUP foreign arch or version, -ENOMEM. */
int co_parse(const void *image, size_t n, struct codeobj **out, char *err, size_t errlen);
/* As co_parse, but accepts any amdgpu arch (for listing). */
int co_parse_any(const void *image, size_t n, struct codeobj **out, char *err, size_t errlen);
void co_free(struct codeobj *co);
const struct co_kernel *co_find(const struct codeobj *co, const char *kernel);

struct co_program; /* loaded */
/* One executable, host-visible BO of vaddr_end bytes, so that PC-relative references hold. The
 * program keeps a pointer to co. The first dispatch of a batch that uses it must acquire at agent
 * or system scope, which also drops the instruction caches. -errno of bo_create, -ENOMEM, or
 * -ERANGE when a 32-bit relocation does not reach. */
int co_load(struct memory *m, const struct codeobj *co, const char *owner, struct co_program **out,
	    char *err, size_t errlen);
void co_unload(struct co_program *p);
/* VA of a kernel's descriptor: aql_dispatch.kernel_object. 0 if there is no such kernel. */
uint64_t co_kernel_object(const struct co_program *p, const char *kernel);

/* Load address of ELF virtual address 0, and the bytes its BO holds (4 KiB granularity). */
uint64_t co_program_base(const struct co_program *p);
uint64_t co_program_bytes(const struct co_program *p);
/* The relocation arithmetic of co_load, pure: patches memory that holds the segments of co as they
 * will be seen at VA base. mem has co->vaddr_end bytes. -ERANGE as co_load. */
int co_relocate(const struct codeobj *co, uint64_t base, void *mem, char *err, size_t errlen);

/* Fills the hidden arguments of k into kernarg (kernarg_bytes long) for a dispatch. Pure. */
struct co_launch {
	uint32_t grid[3]; /* work-items */
	uint16_t group[3];
	uint32_t dims, dynamic_lds;
	uint64_t shared_base, private_base, queue_ptr;
};
void co_fill_hidden(const struct co_kernel *k, const struct co_launch *l, void *kernarg);
/* 0, or -EINVAL with the field, the value and the limit: group size against the kernel's maximum
 * and the hardware's 1024 work-items, grid of zero, LDS over 64 KiB (ISA: LDS_SIZE). Pure. */
int co_check_launch(const struct co_kernel *k, const struct co_launch *l, char *err, size_t errlen);

#endif
