/* KFD's memory accounting (amdgpu_amdkfd_gpuvm.c). Pure; callers hold the device lock. */
#include "internal.h"

#define RESERVE_MEM_LIMIT (3ull << 29) /* 1.5 GiB: AMDGPU_RESERVE_MEM_LIMIT */
#define MIN_PT_RESERVE    (8ull << 20)

void kfd_limits_init(struct kfd_limits *l, uint64_t ram, uint64_t ttm)
{
	uint64_t sys = ram - (ram >> 6);

	memset(l, 0, sizeof(*l));
	l->sys_max = sys < 2 * RESERVE_MEM_LIMIT ? sys >> 1 : sys - RESERVE_MEM_LIMIT;
	l->ttm_max = ttm;
}

struct kfd_charge kfd_limits_charge(uint32_t flags, uint64_t size, bool vram_is_gtt)
{
	/* GTT is looked at before VRAM: both together are placed as VRAM and counted as GTT. */
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT)
		return (struct kfd_charge){size, size, 0};
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		return vram_is_gtt ? (struct kfd_charge){size, size, size}
				   : (struct kfd_charge){0, 0, size};
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return (struct kfd_charge){size, 0, 0};
	return (struct kfd_charge){0, 0, 0};
}

/* Page tables for everything KFD may allocate: ESTIMATE_PT_SIZE of RAM plus VRAM. */
static uint64_t pt_reserve(void)
{
	uint64_t r = (vgpu_config.ram_bytes + vgpu_config.vram_bytes) >> 14;

	return r > MIN_PT_RESERVE ? r : MIN_PT_RESERVE;
}

static uint64_t vram_size(void)
{
	return vgpu_props.vram_is_gtt ? vgpu_config.gtt_bytes : vgpu_config.vram_bytes;
}

int kfd_limits_reserve(struct kfd_limits *l, const struct kfd_charge *c, const char **why)
{
	uint64_t vram = vram_size(), pt = pt_reserve();

	if (vgpu_rule(RULE_limit_system) && l->sys_used + c->sys > l->sys_max) {
		*why = "system memory limit";
		return -ENOMEM;
	}
	if (vgpu_rule(RULE_limit_ttm) && l->ttm_used + c->ttm > l->ttm_max) {
		*why = "TTM memory limit";
		return -ENOMEM;
	}
	if (vgpu_rule(RULE_limit_vram) && c->vram &&
	    (vgpu_kernel()->vram_reserve_check || !vgpu_props.vram_is_gtt) &&
	    l->vram_used + c->vram + pt > vram) {
		*why = "VRAM limit less page tables";
		return -ENOMEM;
	}
	l->sys_used += c->sys;
	l->ttm_used += c->ttm;
	l->vram_used += c->vram;
	l->vram_used_aligned +=
		vgpu_props.vram_is_gtt ? c->vram : (c->vram + (2u << 20) - 1) & ~((2ull << 20) - 1);
	return 0;
}

void kfd_limits_release(struct kfd_limits *l, const struct kfd_charge *c)
{
	l->sys_used -= c->sys;
	l->ttm_used -= c->ttm;
	l->vram_used -= c->vram;
	l->vram_used_aligned -=
		vgpu_props.vram_is_gtt ? c->vram : (c->vram + (2u << 20) - 1) & ~((2ull << 20) - 1);
}

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

uint64_t kfd_limits_available(const struct kfd_limits *l)
{
	int64_t vram = (int64_t)(vram_size() - l->vram_used_aligned), avail;

	if (vgpu_kernel()->vram_reserve_check || !vgpu_props.vram_is_gtt)
		vram -= (int64_t)pt_reserve();
	if (!vgpu_props.vram_is_gtt) {
		avail = vram < 0 ? 0 : vram & ~((2ll << 20) - 1);
		return (uint64_t)avail;
	}
	avail = min64((int64_t)(l->sys_max - l->sys_used), (int64_t)(l->ttm_max - l->ttm_used));
	avail = min64(avail, vram);
	return avail < 0 ? 0 : (uint64_t)avail & ~4095ull;
}
