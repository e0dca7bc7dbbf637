/* DRM_IOCTL_AMDGPU_INFO (amdgpu_kms.c:amdgpu_info_ioctl). */
#include "info.h"

#include <amdgpu_drm.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "drm_file.h"
#include "kfd/vkfd.h"

#ifndef AMDGPU_INFO_GPUVM_FAULT
#define AMDGPU_INFO_GPUVM_FAULT 0x23
#endif
#define FAMILY_GC_11_5_0 150
#define EXTERNAL_REV     0xc1
#define GB_ADDR_CONFIG   0x263e /* dword offset libdrm reads */
#define GB_ADDR_VALUE    0x00000545
#define VRAM_RESERVED    (8ull << 20) /* AMDGPU_VM_RESERVED_VRAM */

struct gpuvm_fault {
	uint64_t addr;
	uint32_t status, vmhub;
};

#define INFO_MAX_IBS 0x22

/* What drm_amdgpu_info_device got since Debian 12's header, for gfx11 (KiB, mall in bytes). */
struct device_tail {
	uint64_t min_engine_clock, min_memory_clock;
	uint32_t tcp, sqc_per_wgp, sqc_data, sqc_inst, gl1c, gl2c;
	uint64_t mall;
	uint32_t rb_mask_hi, shadow_size, shadow_alignment, csa_size, csa_alignment;
};
#define DEVICE_TAIL_AT (offsetof(struct drm_amdgpu_info_device, tcc_disabled_mask) + 8)

/* The kernel copies what the caller has room for. */
static long reply(const struct drm_amdgpu_info *a, const void *data, size_t n)
{
	return user_write(a->return_pointer, data, a->return_size < n ? a->return_size : n);
}

static long reply32(const struct drm_amdgpu_info *a, uint32_t v)
{
	return reply(a, &v, sizeof(v));
}

static long reply64(const struct drm_amdgpu_info *a, uint64_t v)
{
	return reply(a, &v, sizeof(v));
}

static long dev_info(const struct drm_amdgpu_info *a)
{
	/* Clocks at rest are not known. Caches as in the topology. */
	const struct device_tail tail = {.tcp = 32,
					 .sqc_per_wgp = 1,
					 .sqc_data = 16,
					 .sqc_inst = 64,
					 .gl1c = 256,
					 .gl2c = 2048,
					 .mall = 32ull << 20};
	const struct vgpu_props *p = &vgpu_props;
	uint8_t all[DEVICE_TAIL_AT + sizeof(tail)];
	struct drm_amdgpu_info_device d;

	memset(&d, 0, sizeof(d));
	d.device_id = p->device_id;
	d.external_rev = EXTERNAL_REV;
	d.pci_rev = p->pci_rev;
	d.family = FAMILY_GC_11_5_0;
	d.num_shader_engines = p->ses;
	d.num_shader_arrays_per_engine = p->shs_per_se;
	d.gpu_counter_freq = 100000; /* kHz */
	d.max_engine_clock = 2900000;
	d.max_memory_clock = 1000000;
	d.cu_active_number = p->cus;
	for (unsigned se = 0; se < p->ses; se++) {
		for (unsigned sh = 0; sh < p->shs_per_se; sh++) {
			d.cu_bitmap[se][sh] = p->cu_bitmap[se][sh];
			d.cu_ao_bitmap[se][sh] = p->cu_bitmap[se][sh];
		}
	}
	d.enabled_rb_pipes_mask = 0xffff;
	d.num_rb_pipes = 16;
	d.num_hw_gfx_contexts = 8;
	d.ids_flags = AMDGPU_IDS_FLAGS_FUSION | 0x8 /* CONFORMANT_TRUNC_COORD */;
	d.virtual_address_offset = 0x10000;
	d.virtual_address_max = 0x800000000000;
	d.virtual_address_alignment = 4096;
	d.pte_fragment_size = 4096 << 9;
	d.gart_page_size = 4096;
	d.vram_type = 12; /* LPDDR5 */
	d.vram_bit_width = 256;
	d.gc_double_offchip_lds_buf = 1;
	d.wave_front_size = 32;
	d.num_shader_visible_vgprs = 1536;
	d.num_cu_per_sh = p->cus_per_sh;
	d.num_tcc_blocks = 16;
	d.gs_vgt_table_depth = 32;
	d.gs_prim_buffer_depth = 1792;
	d.max_gs_waves_per_vgt = 32;
	d.high_va_offset = 0xffff800000000000;
	d.high_va_max = 0xffffffffffbf0000; /* below the CSA, seq64 and trap pages */
	memcpy(all, &d, DEVICE_TAIL_AT);
	memcpy(all + DEVICE_TAIL_AT, &tail, sizeof(tail));
	return reply(a, all, sizeof(all));
}

static long memory_info(const struct drm_amdgpu_info *a)
{
	struct drm_amdgpu_memory_info m;
	struct vgpu_stats s;

	vgpu_stats(&s);
	memset(&m, 0, sizeof(m));
	m.vram.total_heap_size = vgpu_config.vram_bytes;
	m.vram.usable_heap_size = vgpu_config.vram_bytes - VRAM_RESERVED;
	m.vram.heap_usage = s.vram_used;
	m.vram.max_allocation = m.vram.usable_heap_size * 3 / 4;
	m.cpu_accessible_vram = m.vram;
	m.gtt.total_heap_size = vgpu_config.gtt_bytes;
	m.gtt.usable_heap_size = vgpu_config.gtt_bytes;
	m.gtt.heap_usage = s.gtt_used;
	m.gtt.max_allocation = m.gtt.usable_heap_size * 3 / 4;
	return reply(a, &m, sizeof(m));
}

static long vram_gtt(const struct drm_amdgpu_info *a)
{
	struct drm_amdgpu_info_vram_gtt v;

	memset(&v, 0, sizeof(v));
	v.vram_size = vgpu_config.vram_bytes - VRAM_RESERVED;
	v.vram_cpu_accessible_size = v.vram_size;
	v.gtt_size = vgpu_config.gtt_bytes;
	return reply(a, &v, sizeof(v));
}

static long read_registers(const struct drm_amdgpu_info *a)
{
	enum { ALL = 0xff, MAX_SE = 4, MAX_SH_PER_SE = 2 };
	uint32_t values[128], se = a->read_mmr_reg.instance & 0xff,
			      sh = a->read_mmr_reg.instance >> 8 & 0xff;

	if ((se != ALL && se >= MAX_SE) || (sh != ALL && sh >= MAX_SH_PER_SE))
		return -EINVAL;
	if (a->read_mmr_reg.count > 128)
		return -EINVAL;
	for (uint32_t i = 0; i < a->read_mmr_reg.count; i++) {
		uint32_t reg = a->read_mmr_reg.dword_offset + i;

		/* Only registers of the driver's allow-list can be read. */
		if (reg != GB_ADDR_CONFIG)
			return -EFAULT;
		values[i] = GB_ADDR_VALUE;
	}
	return reply(a, values, a->read_mmr_reg.count * sizeof(values[0]));
}

/* Versions that nobody here knows are 0: firmware of engines that no compute client asks. */
static long firmware(const struct drm_amdgpu_info *a)
{
	enum { FW_LAST = 0x1c, FW_NONE = 0x09, FW_TA = 0x13, FW_MES = 0x1a };
	enum { TA_XGMI = 2, TA_SECUREDISPLAY = 7 };
	struct drm_amdgpu_info_firmware fw;
	uint32_t type = a->query_fw.fw_type, index = a->query_fw.index;

	if (a->query_fw.ip_instance)
		return -EINVAL;
	memset(&fw, 0, sizeof(fw));
	if (!type || type > FW_LAST || type == FW_NONE)
		return -EINVAL;
	if (type == AMDGPU_INFO_FW_GFX_MEC) {
		if (index > 1)
			return -EINVAL;
		fw.ver = vgpu_config.mec_version;
	} else if (type == AMDGPU_INFO_FW_SDMA) {
		if (index)
			return -EINVAL;
		fw.ver = vgpu_config.sdma_version;
	} else if (type == FW_TA) {
		if (index < TA_XGMI || index > TA_SECUREDISPLAY)
			return -EINVAL;
	} else if (type == FW_MES) {
		fw.ver = vgpu_config.mes_version;
	}
	return reply(a, &fw, sizeof(fw));
}

/* As newer headers have it: the last word was padding. */
struct hw_ip {
	uint32_t major, minor;
	uint64_t capabilities;
	uint32_t start_alignment, size_alignment, rings, discovery;
};
_Static_assert(sizeof(struct hw_ip) == sizeof(struct drm_amdgpu_info_hw_ip),
	       "drm_amdgpu_info_hw_ip");

enum { HW_IP_TYPES = 10 }; /* of 6.12; up to VPE */

/* Versions are those of the driver's blocks (gfx_v11_0_ip_block, sdma_v6_0_ip_block), the last word
 * that of the hardware. What is not here has no block: this device has no media engines. */
/* Blocks, the rings that are in them, and which of those this device has: its GFX block has no graphics
 * ring, as on parts that are for compute alone (adev->gfx.num_gfx_rings is 0 there). */
static const struct hw_ip *hw_ip(uint32_t type)
{
	static const struct hw_ip none,
		ips[] = {
			[AMDGPU_HW_IP_GFX] = {11, 0, 0, 32, 32, 0, 0x0b0501},
			[AMDGPU_HW_IP_COMPUTE] = {11, 0, 0, 32, 32, (1u << DRM_COMPUTE_RINGS) - 1,
						  0x0b0501},
			[AMDGPU_HW_IP_DMA] = {6, 0, 0, 256, 4, (1u << DRM_SDMA_RINGS) - 1,
					      0x060101},
		};

	return type < sizeof(ips) / sizeof(ips[0]) ? &ips[type] : type < HW_IP_TYPES ? &none : NULL;
}

static long gds_config(const struct drm_amdgpu_info *a)
{
	/* gfx_v11_0_set_gds_init */
	enum { GDS_SIZE = 0x1000, GWS_SIZE = 64, OA_SIZE = 16 };
	struct drm_amdgpu_info_gds g;

	memset(&g, 0, sizeof(g));
	g.compute_partition_size = g.gds_total_size = GDS_SIZE;
	g.gws_per_compute_partition = GWS_SIZE;
	g.oa_per_compute_partition = OA_SIZE;
	return reply(a, &g, sizeof(g));
}

/* amdgpu_ring_max_ibs, by HW_IP type as ring types are numbered. */
static long max_ibs(const struct drm_amdgpu_info *a)
{
	static const uint32_t n[HW_IP_TYPES] = {192, 125, 49, 49, 49, 49, 49, 49, 16, 49};

	return reply(a, n, sizeof(n));
}

long drm_info_ioctl(struct drm_file *f, struct drm_amdgpu_info *a)
{
	struct drm_amdgpu_info_vce_clock_table vce;
	const struct hw_ip *ip;
	struct vgpu_stats s;

	if (!a->return_size || !a->return_pointer)
		return -EINVAL;
	vgpu_stats(&s);
	switch (a->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		return reply32(a, 1);
	case AMDGPU_INFO_HW_IP_INFO:
		ip = a->query_hw_ip.ip_instance ? NULL : hw_ip(a->query_hw_ip.type);
		return ip ? reply(a, ip, sizeof(*ip)) : -EINVAL;
	case AMDGPU_INFO_HW_IP_COUNT:
		/* Of a block that is not there there is no number. */
		ip = hw_ip(a->query_hw_ip.type);
		return ip && ip->discovery ? reply32(a, 1) : -EINVAL;
	case AMDGPU_INFO_TIMESTAMP:
		return reply64(a, vgpu_clock_gpu());
	case AMDGPU_INFO_FW_VERSION:
		return firmware(a);
	case AMDGPU_INFO_NUM_BYTES_MOVED:
	case AMDGPU_INFO_NUM_EVICTIONS:
	case AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS:
		return reply64(a, 0);
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		return reply64(a, s.vram_used);
	case AMDGPU_INFO_GTT_USAGE:
		return reply64(a, s.gtt_used);
	case AMDGPU_INFO_GDS_CONFIG:
		return gds_config(a);
	case INFO_MAX_IBS:
		return max_ibs(a);
	case AMDGPU_INFO_NUM_HANDLES:
		/* Without a limit since long ago. */
		return a->query_hw_ip.type == AMDGPU_HW_IP_UVD ? -ENODATA : -EINVAL;
	case AMDGPU_INFO_VCE_CLOCK_TABLE:
		memset(&vce, 0, sizeof(vce));
		return reply(a, &vce, sizeof(vce));
	case AMDGPU_INFO_VRAM_GTT:
		return vram_gtt(a);
	case AMDGPU_INFO_MEMORY:
		return memory_info(a);
	case AMDGPU_INFO_READ_MMR_REG:
		return read_registers(a);
	case AMDGPU_INFO_DEV_INFO:
		return dev_info(a);
	case AMDGPU_INFO_VRAM_LOST_COUNTER:
		return reply32(a, 0);
	case AMDGPU_INFO_GPUVM_FAULT: {
		struct gpuvm_fault v = {f->fault_addr, f->fault_status, f->fault_vmhub};

		return reply(a, &v, sizeof(v));
	}
	}
	return -EINVAL;
}
