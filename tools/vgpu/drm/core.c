/* What the DRM core answers before, or instead of, a driver (drivers/gpu/drm/drm_ioctl.c of 6.12). */
#include "core.h"

#include <drm.h>
#include <errno.h>
#include <linux/types.h>

#ifndef DRM_CAP_ATOMIC_ASYNC_PAGE_FLIP
#define DRM_CAP_ATOMIC_ASYNC_PAGE_FLIP 0x15
#endif

/* Mode setting as amdgpu with DCN 3.5.1 has it: amdgpu_dm.c:amdgpu_dm_mode_config_init,
 * dcn351_resource.c. */
long drm_core_cap(struct drm_get_cap *c)
{
	c->value = 0;
	switch (c->capability) {
	case DRM_CAP_PRIME:
		c->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
		return 0;
	case DRM_CAP_DUMB_PREFERRED_DEPTH:
		c->value = 24;
		return 0;
	case DRM_CAP_CURSOR_WIDTH:
	case DRM_CAP_CURSOR_HEIGHT:
		c->value = 256;
		return 0;
	case DRM_CAP_DUMB_PREFER_SHADOW: /* asked for of display parts other than Hawaii's */
	case DRM_CAP_TIMESTAMP_MONOTONIC:
	case DRM_CAP_SYNCOBJ:
	case DRM_CAP_SYNCOBJ_TIMELINE:
	case DRM_CAP_DUMB_BUFFER:
	case DRM_CAP_VBLANK_HIGH_CRTC:
	case DRM_CAP_ASYNC_PAGE_FLIP:
	case DRM_CAP_ADDFB2_MODIFIERS:
	case DRM_CAP_CRTC_IN_VBLANK_EVENT:
	case DRM_CAP_ATOMIC_ASYNC_PAGE_FLIP:
		c->value = 1;
		return 0;
	case DRM_CAP_PAGE_FLIP_TARGET: /* atomic drivers have none */
		return 0;
	}
	return -EINVAL;
}

bool drm_core_primary_only(unsigned nr)
{
	switch (nr) {
	case 0x01: /* GET_UNIQUE */
	case 0x02: /* GET_MAGIC */
	case 0x05: /* GET_CLIENT */
	case 0x06: /* GET_STATS */
	case 0x07: /* SET_VERSION */
	case 0x0a: /* GEM_FLINK */
	case 0x0b: /* GEM_OPEN */
	case 0x0d: /* SET_CLIENT_CAP */
	case 0x10: /* SET_UNIQUE */
	case 0x11: /* AUTH_MAGIC */
	case 0x12: /* BLOCK */
	case 0x13: /* UNBLOCK */
	case 0x1e: /* SET_MASTER */
	case 0x1f: /* DROP_MASTER */
	case 0x27: /* ADD_DRAW */
	case 0x28: /* RM_DRAW */
	case 0x2c: /* FINISH */
	case 0x3a: /* WAIT_VBLANK */
	case 0x3b: /* CRTC_GET_SEQUENCE */
	case 0x3c: /* CRTC_QUEUE_SEQUENCE */
	case 0x3f: /* UPDATE_DRAW */
		return true;
	}
	/* Mode setting, leases; synchronisation objects between them are for everybody. */
	return (nr >= 0xa0 && nr <= 0xbe) || (nr >= 0xc6 && nr <= 0xc9) || nr == 0xce || nr == 0xd0;
}
