/* DRM_IOCTL_AMDGPU_INFO. */
#ifndef VGPU_DRM_INFO_H
#define VGPU_DRM_INFO_H

struct drm_file;
struct drm_amdgpu_info;

long drm_info_ioctl(struct drm_file *f, struct drm_amdgpu_info *a);

#endif
