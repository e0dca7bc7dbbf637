/* Group: what the render node says about the device (AMDGPU_INFO), and what it refuses to say. */
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

static void group_drm(void)
{
	const size_t tail = offsetof(struct drm_amdgpu_info_device, tcc_disabled_mask) + 8;

	device_open();
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
