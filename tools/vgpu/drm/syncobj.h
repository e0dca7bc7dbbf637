/* Synchronisation objects: the DRM core's containers of a fence (drm_syncobj.c). */
#ifndef VGPU_DRM_SYNCOBJ_H
#define VGPU_DRM_SYNCOBJ_H

#include <stdint.h>

struct drm_file;
struct fence;
struct syncobj;

/* The core's ioctls, by their numbers; but those that make descriptors of fences, or take them, are not
 * here. Takes drm_lock(). */
unsigned drm_syncobj_size(unsigned nr); /* of the arguments; 0: no such call */
long drm_syncobj_ioctl(struct drm_file *f, unsigned nr, void *arg);

/* The rest is called with drm_lock(). */
struct syncobj *drm_syncobj_get(struct drm_file *f, uint32_t handle); /* a reference, or NULL */
void drm_syncobj_put(struct syncobj *s);                              /* NULL is nothing */
/* The fence at a point, with a reference: 0, -ENOENT, -EINVAL, or with the flag to wait for it -ETIME
 * after 5 s and -EINTR. The lock is given up while it waits. */
int drm_syncobj_fence(struct drm_file *f, uint32_t handle, uint64_t point, uint64_t flags,
		      struct fence **out);
/* Work that is submitted: its fence becomes the object's or, with a link (a new fence, which it takes), a
 * point of its timeline. */
void drm_syncobj_post(struct syncobj *s, struct fence *f, uint64_t point, struct fence *link);
/* A new object with that fence. 0, -ENOMEM. */
int drm_syncobj_of(struct drm_file *f, struct fence *fence, uint32_t *handle);

#endif
