/* An open of the render node: one DRM client with its own GPU address space. */
#ifndef VGPU_DRM_FILE_H
#define VGPU_DRM_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "drm/submit.h"
#include "kfd/idr.h"
#include "vm/vm.h"

struct gem;

struct drm_file {
	uint32_t refs; /* open file description + whoever acquired the VM */
	uint64_t mm;   /* address space that opened it */
	uint64_t client_id;
	uint64_t shared; /* the daemon's number of this file, on a shared device */
	uint32_t pasid;
	struct vm *vm;
	bool compute; /* ACQUIRE_VM made it a compute VM */
	bool primary; /* opened as card0 */
	pthread_mutex_t lock;
	struct idr handles; /* GEM handle - 1 -> struct gem */
	struct gem_va {
		struct gem_va *next;
		uint64_t va, size, off;
		unsigned perm;
		enum vm_mtype mtype;
		struct gem *gem;
	} *vas;                     /* mappings made by GEM_VA */
	struct drm_submissions sub; /* under drm_lock() */
	bool vmid_reserved;
	/* Last fault of this VM (INFO GPUVM_FAULT). */
	uint64_t fault_addr;
	uint32_t fault_status, fault_vmhub;
};

int drm_open(bool primary, struct drm_file **out);
/* Another process's open file, as the daemon knows it. */
int drm_open_shared(uint64_t number, bool compute, struct drm_file **out);
void drm_name(struct drm_file *f, uint64_t number);
void drm_get(struct drm_file *f);
/* Before anything is done to a file in a forked child that has inherited it: makes it one of the
 * child's device, with its handles; the GPU mappings and the compute VM stay the parent's. */
void drm_inherited(struct drm_file *f);
void drm_put(struct drm_file *f);
/* The object behind a GEM handle, or NULL. With the file's lock, as long as it is held. */
struct gem *drm_gem_find(struct drm_file *f, uint32_t handle);
bool drm_has(unsigned nr); /* an ioctl of this number is one of the device's */
long drm_ioctl(struct drm_file *f, unsigned cmd, void *arg);

/* GEM_VA (va.c), with the file's lock: g is the handle's object or NULL. */
struct drm_amdgpu_gem_va;
long drm_va_ioctl(struct drm_file *f, struct drm_amdgpu_gem_va *a, struct gem *g);
void drm_va_remove(struct drm_file *f, struct gem_va *v);

struct vma_backing;
/* mmap of [off, off+len) of the render node. 0, -EACCES, -EINVAL, -EPERM. */
int drm_mmap(struct drm_file *f, uint64_t len, uint64_t off, struct vma_backing *out);

/* Text of /proc/<pid>/fdinfo/<fd>, after the lines every fd has. */
int drm_fdinfo(struct drm_file *f, char *buf, size_t n);

#endif
