/* The DRM core's part of a node's ioctls. */
#ifndef VGPU_DRM_CORE_H
#define VGPU_DRM_CORE_H

#include <stdbool.h>

struct drm_get_cap;

/* GET_CAP: 0, or -EINVAL for a number that is no capability. */
long drm_core_cap(struct drm_get_cap *c);
/* The core has this one, but not for render nodes (no DRM_RENDER_ALLOW): EACCES there. */
bool drm_core_primary_only(unsigned nr);

#endif
