/* DRM_IOCTL_AMDGPU_INFO (amdgpu_kms.c:amdgpu_info_ioctl). */
#include "info.h"

#include <amdgpu_drm.h>
#include <errno.h>
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
	const struct vgpu_props *p = &vgpu_props;
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
	d.ids_flags = AMDGPU_IDS_FLAGS_FUSION | 0x8 /* GANG_SUBMIT */;
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
	return reply(a, &d, sizeof(d));
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
	uint32_t values[128];

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

static long firmware(const struct drm_amdgpu_info *a)
{
	struct drm_amdgpu_info_firmware fw;

	memset(&fw, 0, sizeof(fw));
	switch (a->query_fw.fw_type) {
	case AMDGPU_INFO_FW_GFX_MEC:
		if (a->query_fw.index > 1)
			return -EINVAL;
		fw.ver = vgpu_config.mec_version;
		break;
	case AMDGPU_INFO_FW_SDMA:
		if (a->query_fw.index)
			return -EINVAL;
		fw.ver = vgpu_config.sdma_version;
		break;
	case 0x1a: /* AMDGPU_INFO_FW_MES */
		fw.ver = vgpu_config.mes_version;
		break;
	case AMDGPU_INFO_FW_VCE:
	case AMDGPU_INFO_FW_UVD:
	case AMDGPU_INFO_FW_GMC:
	case AMDGPU_INFO_FW_GFX_ME:
	case AMDGPU_INFO_FW_GFX_PFP:
	case AMDGPU_INFO_FW_GFX_CE:
	case AMDGPU_INFO_FW_GFX_RLC:
	case AMDGPU_INFO_FW_SMC:
		break;
	default:
		return -EINVAL;
	}
	return reply(a, &fw, sizeof(fw));
}

static bool hw_ip(uint32_t type, struct drm_amdgpu_info_hw_ip *ip)
{
	memset(ip, 0, sizeof(*ip));
	switch (type) {
	case AMDGPU_HW_IP_GFX:
	case AMDGPU_HW_IP_COMPUTE:
		ip->hw_ip_version_major = 11;
		ip->hw_ip_version_minor = 5;
		ip->ib_start_alignment = 32;
		ip->ib_size_alignment = 32;
		ip->available_rings = type == AMDGPU_HW_IP_GFX ? 1 : 0xf;
		return true;
	case AMDGPU_HW_IP_DMA:
		ip->hw_ip_version_major = 6;
		ip->hw_ip_version_minor = 1;
		ip->ib_start_alignment = 256;
		ip->ib_size_alignment = 4;
		ip->available_rings = 1;
		return true;
	default:
		return type < AMDGPU_HW_IP_NUM;
	}
}

long drm_info_ioctl(struct drm_file *f, struct drm_amdgpu_info *a)
{
	struct drm_amdgpu_info_hw_ip ip;
	struct vgpu_stats s;

	if (!a->return_size || !a->return_pointer)
		return -EINVAL;
	vgpu_stats(&s);
	switch (a->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		return reply32(a, 1);
	case AMDGPU_INFO_HW_IP_INFO:
		if (!hw_ip(a->query_hw_ip.type, &ip) || a->query_hw_ip.ip_instance)
			return -EINVAL;
		return reply(a, &ip, sizeof(ip));
	case AMDGPU_INFO_HW_IP_COUNT:
		if (!hw_ip(a->query_hw_ip.type, &ip))
			return -EINVAL;
		return reply32(a, ip.available_rings ? 1 : 0);
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
