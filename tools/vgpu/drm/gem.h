/* GEM objects: what a handle, a CPU mapping, a dma-buf or a KFD buffer refers to.
 *
 * One reference per holder; the last one returns the backing and the KFD accounting
 * (amdgpu_amdkfd.c:amdgpu_amdkfd_release_notify).
 */
#ifndef VGPU_GEM_H
#define VGPU_GEM_H

#include <stdbool.h>
#include <stdint.h>

#include "drm/fence.h"
#include "vm/vm.h"

struct drm_file;
struct fence;

/* amdgpu_drm.h AMDGPU_GEM_DOMAIN_* values, and what has no domain. */
enum gem_domain {
	GEM_CPU = 1,
	GEM_GTT = 2,
	GEM_VRAM = 4,
	GEM_DOORBELL = 0x40,
	GEM_PREEMPT = 0x100
};

struct gem {
	uint32_t refs;
	uint32_t generation;    /* which process of a chain of forks made it */
	enum gem_domain domain; /* preferred, and where it is */
	uint64_t size;
	struct vm_bo *bo; /* NULL for doorbell and MMIO objects */
	bool foreign;     /* its memory is in another device's file */
	int file_fd;      /* foreign: that file, which stays open */
	uint64_t file_off;
	uint64_t mmap_offset; /* fake offset on the render node; 0: none yet */
	uint32_t kfd_flags;   /* charged against the KFD limits with these; 0: not charged */
	bool cpu_access;      /* created with CPU access: PUBLIC in GET_DMABUF_INFO */
	bool kernel;          /* made by the kernel for itself */
	bool by_ioctl;        /* GEM_CREATE's, with what it was told, or the default of others */
	uint32_t create_flags, create_domains;
	uint64_t alignment;
	struct gem *heir; /* of an inherited copy */
	uint32_t dmabufs; /* dma-buf fds alive */
	uint64_t metadata_flags, tiling;
	uint32_t metadata_size;
	uint32_t metadata[64];
	/* Jobs that use it, of each fence context the last (its dma_resv); drm_lock(). */
	struct fences fences;
	struct gem_allow {
		struct drm_file *file;
		uint32_t count;
	} allow[4];               /* drm_vma_node_allow() */
	struct gem *next, **prev; /* all objects */
};

/* Charges nothing against the KFD limits. 0, -ENOMEM. The object has one reference. */
int gem_create(enum gem_domain domain, uint64_t size, struct gem **out);
/* Over memory of this process: the client's (PREEMPT), or the device's doorbell or MMIO page. */
int gem_create_user(enum gem_domain domain, uint64_t addr, uint64_t size, struct gem **out);
/* Over [off, off+size) of another device's memory file. */
int gem_create_file(enum gem_domain domain, int fd, uint64_t off, uint64_t size, struct gem **out);
/* The file and the place in it where a client maps the object, or -1: it has none. */
int gem_file(const struct gem *g, uint64_t *off);
/* An object that a forked child has inherited as a copy: one of its own over the same memory, with
 * a reference, or NULL. The first call for an object makes it. */
struct gem *gem_inherited(struct gem *g);
bool gem_is_inherited(const struct gem *g);
void gem_ref(struct gem *g);
void gem_unref(struct gem *g);
/* It is charged against the KFD limits with these flags: given back with it. */
void gem_charge(struct gem *g, uint32_t kfd_flags);
uint64_t gem_mmap_offset(struct gem *g);          /* allocates it */
int gem_allow(struct gem *g, struct drm_file *f); /* -ENOMEM */
void gem_revoke(struct gem *g, struct drm_file *f);
bool gem_allowed(const struct gem *g, const struct drm_file *f);
/* mmap of [off, off + len) of the object. 0, -EINVAL, -EPERM. */
struct vma_backing;
int gem_mmap(struct gem *g, uint64_t len, uint64_t off, struct vma_backing *out);
/* The object at a fake offset, with a reference, or NULL; *start is the object's own offset. */
struct gem *gem_by_offset(uint64_t offset, uint64_t *start);
/* On a shared device: the object of a buffer that this process holds since b was got, one per
 * buffer, with a reference; or NULL and the buffer is given back. */
struct share_bo;
struct gem *gem_import(const struct share_bo *b);
/* A job that uses the object is under way. -ENOMEM. With drm_lock(), as is the next. */
int gem_add_fence(struct gem *g, struct fence *f);
/* One that has not signaled, or NULL; those that have are forgotten. */
struct fence *gem_busy(struct gem *g);
void gem_publish(struct gem *g); /* CPU access and metadata, for other processes */
void gem_refresh(struct gem *g); /* metadata as other processes left it */
void gem_used_by_queues(struct gem *g);
void gem_pin(struct gem *g, int n); /* +1, -1; what is left goes with the object */
/* A buffer that is another process's is at this offset. */
bool gem_elsewhere(uint64_t offset);
void gem_after_fork(void);

#endif
