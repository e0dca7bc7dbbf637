/* Group: the render node: its objects, their addresses, what it says about the device. */
#ifndef IOCTL_DRM_H
#define IOCTL_DRM_H

#include <amdgpu_drm.h>
#include <drm.h>
#include <stddef.h>

#include "harness.h"

#define DRM_INFO _IOW('d', DRM_COMMAND_BASE + DRM_AMDGPU_INFO, struct drm_amdgpu_info)

static uint32_t info_words[256];

static void info(int line, int err, struct drm_amdgpu_info a)
{
	memset(info_words, 0xaa, sizeof(info_words));
	a.return_pointer = (uintptr_t)info_words;
	if (!a.return_size)
		a.return_size = sizeof(info_words);
	check(line, "INFO", NR_ANY, ioctl(drm, DRM_INFO, &a), err);
}
#define INFO(err, ...) info(__LINE__, err, (struct drm_amdgpu_info){__VA_ARGS__})

static void info_blocks(void)
{
	/* The driver's blocks, and which hardware they found. */
	INFO(0, .query = AMDGPU_INFO_HW_IP_INFO, .query_hw_ip = {AMDGPU_HW_IP_COMPUTE, 0});
	TRUE(info_words[0] == 11 && info_words[1] == 0 && info_words[6] == 0xf);
	TRUE(info_words[7] == 0x0b0501 && info_words[8] == 0xaaaaaaaa);
	INFO(0, .query = AMDGPU_INFO_HW_IP_INFO, .query_hw_ip = {AMDGPU_HW_IP_DMA, 0});
	TRUE(info_words[0] == 6 && info_words[1] == 0 && info_words[7] == 0x060101);
	INFO(0, .query = AMDGPU_INFO_HW_IP_INFO, .query_hw_ip = {9, 0}); /* VPE: none here */
	TRUE(info_words[0] == 0 && info_words[6] == 0);
	INFO(EINVAL, .query = AMDGPU_INFO_HW_IP_INFO, .query_hw_ip = {10, 0});
	INFO(EINVAL, .query = AMDGPU_INFO_HW_IP_INFO, .query_hw_ip = {AMDGPU_HW_IP_GFX, 1});
	INFO(0, .query = AMDGPU_INFO_HW_IP_COUNT, .query_hw_ip = {AMDGPU_HW_IP_DMA, 0});
	TRUE(info_words[0] == 1 && info_words[1] == 0xaaaaaaaa);
	INFO(EINVAL, .query = AMDGPU_INFO_HW_IP_COUNT, .query_hw_ip = {AMDGPU_HW_IP_UVD, 0});
	INFO(EINVAL, .query = AMDGPU_INFO_HW_IP_COUNT, .query_hw_ip = {99, 0});
	INFO(0, .query = 0x22); /* MAX_IBS */
	TRUE(info_words[0] == 192 && info_words[1] == 125 && info_words[8] == 16);
	TRUE(info_words[9] == 49 && info_words[10] == 0xaaaaaaaa);
	INFO(ENODATA, .query = AMDGPU_INFO_NUM_HANDLES, .query_hw_ip = {AMDGPU_HW_IP_UVD, 0});
	INFO(EINVAL, .query = AMDGPU_INFO_NUM_HANDLES, .query_hw_ip = {AMDGPU_HW_IP_VCE, 0});
}

static void info_firmware(void)
{
	INFO(0, .query = AMDGPU_INFO_FW_VERSION, .query_fw = {.fw_type = AMDGPU_INFO_FW_GFX_MEC});
	TRUE(info_words[0] == 32);
	INFO(EINVAL, .query = AMDGPU_INFO_FW_VERSION,
	     .query_fw = {.fw_type = AMDGPU_INFO_FW_GFX_MEC, .ip_instance = 1});
	INFO(EINVAL, .query = AMDGPU_INFO_FW_VERSION,
	     .query_fw = {.fw_type = AMDGPU_INFO_FW_GFX_MEC, .index = 2});
	INFO(EINVAL, .query = AMDGPU_INFO_FW_VERSION,
	     .query_fw = {.fw_type = AMDGPU_INFO_FW_SDMA, .index = 1});
	INFO(0, .query = AMDGPU_INFO_FW_VERSION, .query_fw = {.fw_type = 0x1b}); /* IMU */
	INFO(EINVAL, .query = AMDGPU_INFO_FW_VERSION, .query_fw = {.fw_type = 0x09});
	INFO(EINVAL, .query = AMDGPU_INFO_FW_VERSION, .query_fw = {.fw_type = 0x1d});
	INFO(EINVAL, .query = AMDGPU_INFO_FW_VERSION, .query_fw = {.fw_type = 0x13, .index = 8});
}

#define DRM_RW(nr, type) _IOWR('d', DRM_COMMAND_BASE + (nr), type)
#define DRM(err, nr, a)                                                                            \
	check(__LINE__, TEXT(nr), NR_ANY, ioctl(drm, DRM_RW(nr, __typeof__(*(a))), a), err)

static uint32_t gem_made(int line, int err, uint64_t size, uint64_t domains, uint64_t flags)
{
	union drm_amdgpu_gem_create c = {.in = {size, 65536, domains, flags}};

	check(line, "GEM_CREATE", NR_ANY,
	      ioctl(drm, DRM_RW(DRM_AMDGPU_GEM_CREATE, union drm_amdgpu_gem_create), &c), err);
	return err ? 0 : c.out.handle;
}
#define GEM(err, size, domains, flags) gem_made(__LINE__, err, size, domains, flags)

static void objects(void)
{
	struct drm_amdgpu_gem_create_in in = {0};
	struct drm_amdgpu_gem_op op = {.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
				       .value = (uintptr_t)&in};
	struct drm_amdgpu_gem_metadata m = {.op = AMDGPU_GEM_METADATA_OP_SET_METADATA};
	union drm_amdgpu_gem_mmap map = {{0}};

	GEM(EINVAL, 4096, 2, 1u << 30);
	GEM(EINVAL, 4096, 2, AMDGPU_GEM_CREATE_ENCRYPTED);
	GEM(EINVAL, 4096, 0x40, 0); /* doorbells */
	GEM(EINVAL, 4096, 0x80, 0);
	GEM(EINVAL, 4096, AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_GTT, 0);
	GEM(EINVAL, 4096, AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_OA, 0);
	GEM(EINVAL, 4096, AMDGPU_GEM_DOMAIN_GDS, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID);
	TRUE(GEM(0, 4096, 0, 0)); /* system memory */
	op.handle = GEM(0, 5000, AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_NO_CPU_ACCESS);
	DRM(0, DRM_AMDGPU_GEM_OP, &op);
	TRUE(in.bo_size == 8192 && in.alignment == 65536 && in.domains == AMDGPU_GEM_DOMAIN_GTT);
	TRUE(in.domain_flags == (AMDGPU_GEM_CREATE_NO_CPU_ACCESS | AMDGPU_GEM_CREATE_VRAM_CLEARED));
	map.in.handle = op.handle;
	DRM(EPERM, DRM_AMDGPU_GEM_MMAP, &map);
	op.op = AMDGPU_GEM_OP_SET_PLACEMENT;
	op.value = 7;
	DRM(0, DRM_AMDGPU_GEM_OP, &op);
	op.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO;
	op.value = (uintptr_t)&in;
	DRM(0, DRM_AMDGPU_GEM_OP, &op);
	TRUE(in.domains == 7);
	op.value = BAD_PTR;
	DRM(EFAULT, DRM_AMDGPU_GEM_OP, &op);
	op.op = 9;
	DRM(EINVAL, DRM_AMDGPU_GEM_OP, &op);
	op.handle = 999;
	DRM(ENOENT, DRM_AMDGPU_GEM_OP, &op);
	/* Metadata: flags come and go with it, and an unknown operation is none. */
	m.handle = map.in.handle;
	m.data.flags = 5;
	m.data.tiling_info = 6;
	m.data.data_size_bytes = 8;
	DRM(0, DRM_AMDGPU_GEM_METADATA, &m);
	m.data.flags = 7;
	m.data.data_size_bytes = 0;
	DRM(0, DRM_AMDGPU_GEM_METADATA, &m);
	m.data.data_size_bytes = 257;
	DRM(EINVAL, DRM_AMDGPU_GEM_METADATA, &m);
	m.op = 9;
	DRM(0, DRM_AMDGPU_GEM_METADATA, &m);
	m.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
	DRM(0, DRM_AMDGPU_GEM_METADATA, &m);
	TRUE(m.data.flags == 5 && m.data.tiling_info == 6 && m.data.data_size_bytes == 0);
}

static struct drm_amdgpu_gem_va va_args;

static void va(int line, int err, uint32_t op, uint64_t at, uint64_t size)
{
	struct drm_amdgpu_gem_va a = va_args;

	a.operation = op;
	a.va_address = at;
	a.map_size = size;
	check(line, "GEM_VA", NR_ANY,
	      ioctl(drm, DRM_RW(DRM_AMDGPU_GEM_VA, struct drm_amdgpu_gem_va), &a), err);
}
#define VA(err, op, at, size) va(__LINE__, err, AMDGPU_VA_OP_##op, at, size)

static void addresses(void)
{
	const uint64_t at = 0x100000000;
	uint32_t one = GEM(0, 65536, AMDGPU_GEM_DOMAIN_GTT, 0);
	uint32_t two = GEM(0, 65536, AMDGPU_GEM_DOMAIN_GTT, 0);

	va_args.handle = one;
	va_args.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE;
	VA(EINVAL, MAP, 0xf000, 4096);
	VA(EINVAL, MAP, 1ull << 47, 4096);
	VA(EINVAL, MAP, 0xffffffffffbf0000, 4096); /* what the driver keeps at the top */
	VA(EINVAL, MAP, at, 0);
	VA(EINVAL, MAP, at + 1, 4096);
	VA(EINVAL, MAP, at, 65536 + 4096);
	va(__LINE__, EINVAL, 0, at, 4096);
	va(__LINE__, EINVAL, 5, at, 4096);
	va_args.flags |= AMDGPU_VM_PAGE_PRT;
	VA(EINVAL, MAP, at, 4096);
	va_args.flags &= ~(uint32_t)AMDGPU_VM_PAGE_PRT;
	VA(0, MAP, 0xffff800000000000, 4096); /* the upper half */
	VA(0, UNMAP, 0xffff800000000000, 0);
	VA(0, MAP, at, 65536);
	VA(EINVAL, MAP, at + 4096, 4096);
	va_args.handle = two;
	VA(ENOENT, UNMAP, at, 0); /* the other object's */
	/* In the middle of it: two parts are left, and the new one. */
	VA(0, REPLACE, at + 16384, 16384);
	VA(0, UNMAP, at + 16384, 0);
	va_args.handle = one;
	VA(0, UNMAP, at, 0);
	VA(ENOENT, UNMAP, at, 0);
	VA(EINVAL, MAP, at + 32768, 4096);
	/* From the middle of what is left to far behind it. */
	VA(EINVAL, CLEAR, at, 0);
	VA(0, CLEAR, at + 40960, 1ull << 30);
	VA(0, MAP, at + 40960, 4096);
	VA(0, UNMAP, at + 32768, 0);
	VA(0, UNMAP, at + 40960, 0);
	va_args.handle = 999;
	VA(ENOENT, MAP, at, 4096);
	VA(0, CLEAR, at, 4096);
}

static void group_drm(void)
{
	const size_t tail = offsetof(struct drm_amdgpu_info_device, tcc_disabled_mask) + 8;

	device_open();
	objects();
	addresses();
	INFO(EINVAL, .query = 0x7f);
	check(__LINE__, "INFO", NR_ANY, ioctl(drm, DRM_INFO, &(struct drm_amdgpu_info){0}), EINVAL);
	info_blocks();
	info_firmware();
	INFO(0, .query = AMDGPU_INFO_GDS_CONFIG);
	TRUE(info_words[0] == 0 && info_words[1] == 0x1000);
	TRUE(info_words[2] == 0x1000 && info_words[4] == 64 && info_words[6] == 16);
	INFO(0, .query = AMDGPU_INFO_VCE_CLOCK_TABLE);
	TRUE(info_words[18] == 0);
	/* All of the kernel's structure, whatever the header of whoever asks; cut where he has no
	 * more room. */
	INFO(0, .query = AMDGPU_INFO_DEV_INFO);
	TRUE(info_words[tail / 4 + 4] == 32 && info_words[tail / 4 + 9] == 2048);
	TRUE(info_words[tail / 4 + 18] == 0xaaaaaaaa);
	INFO(0, .query = AMDGPU_INFO_DEV_INFO, .return_size = 4);
	TRUE(info_words[0] == 0x1586 && info_words[1] == 0xaaaaaaaa);
	/* Registers: which instance, then how many, then which. */
	INFO(0, .query = AMDGPU_INFO_READ_MMR_REG, .read_mmr_reg = {0x263e, 1, 0xffff, 0});
	TRUE(info_words[0] && info_words[1] == 0xaaaaaaaa);
	INFO(EINVAL, .query = AMDGPU_INFO_READ_MMR_REG, .read_mmr_reg = {0x263e, 1, 0xff04, 0});
	INFO(EINVAL, .query = AMDGPU_INFO_READ_MMR_REG, .read_mmr_reg = {0x263e, 1, 0x02ff, 0});
	INFO(EINVAL, .query = AMDGPU_INFO_READ_MMR_REG, .read_mmr_reg = {0x263e, 129, 0xffff, 0});
	INFO(EFAULT, .query = AMDGPU_INFO_READ_MMR_REG, .read_mmr_reg = {0x1, 1, 0xffff, 0});
}

#endif
