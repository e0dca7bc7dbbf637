/* What the device is, computed from its configuration. Pure. */
#include "vkfd.h"

#include <string.h>

struct vgpu_props vgpu_props;

uint16_t vgpu_crc16(uint16_t crc, const void *data, size_t n)
{
	const uint8_t *b = data;

	while (n--) {
		crc ^= *b++;
		for (int i = 0; i < 8; i++)
			crc = crc & 1 ? (uint16_t)(crc >> 1 ^ 0xa001) : (uint16_t)(crc >> 1);
	}
	return crc;
}

static uint32_t align_up(uint32_t v, uint32_t a)
{
	return (v + a - 1) / a * a;
}

/* Save-area sizes as kfd_queue.c:kfd_queue_ctx_save_restore_size has them for GC 11.5.1. */
static void init_cwsr(struct vgpu_props *p)
{
	enum {
		WAVES_PER_CU = 32,
		VGPR_PER_CU = 0x60000,
		VGPR_PER_CU_BEFORE = 0x40000,
		SGPR_PER_CU = 0x4000,
		LDS_PER_CU = 0x10000,
		HWREG_PER_CU = 0x1000,
		CTL_STACK_PER_WAVE = 12,
		DEBUG_PER_WAVE = 32,
	};
	uint32_t vgprs = vgpu_rule(RULE_queue_cwsr_vgprs) ? VGPR_PER_CU : VGPR_PER_CU_BEFORE;
	uint32_t wg_data =
		align_up(p->cus * (vgprs + SGPR_PER_CU + LDS_PER_CU + HWREG_PER_CU), 4096);

	p->waves = p->cus * WAVES_PER_CU;
	p->ctl_stack_size = align_up((uint32_t)sizeof(struct kfd_context_save_area_header) +
					     p->waves * CTL_STACK_PER_WAVE + 8,
				     4096);
	p->cwsr_size = p->ctl_stack_size + wg_data;
	p->debug_memory_size = align_up(p->waves * DEBUG_PER_WAVE, 64);
	p->cwsr_area = align_up(p->cwsr_size + p->debug_memory_size, 4096);
	p->eop_size = 4096;
}

/* kfd_topology.c:kfd_generate_gpu_id: a hash of where and what the device is. */
static uint32_t make_gpu_id(const struct vgpu_props *p)
{
	uint32_t id, buf[8] = {
			     0, /* devfn */
			     vgpu_config.subsystem,
			     0, /* PCI domain */
			     p->device_id,
			     vgpu_config.pci_bus,
			     (uint32_t)p->local_mem,
			     (uint32_t)(p->local_mem >> 32),
			     1u << 16, /* first XCC 0, one of them */
		     };

	id = vgpu_crc16(0, buf, sizeof(buf));
	return id ? id : 1;
}

/* kfd_topology.c:kfd_topology_set_capabilities and include/uapi/linux/kfd_sysfs.h. */
static void init_capability(struct vgpu_props *p)
{
	enum {
		CAP_WATCH = 0x80,
		CAP_WATCH_LOG2_4 = 2 << 8,
		CAP_DOORBELL_2_0 = 2 << 12,
		CAP_TRAP_DEBUG = 0x8000,
		CAP_LAUNCH_OVERRIDE = 0x10000,
		CAP_LAUNCH_MODE = 0x20000,
		CAP_SVM = 0x08000000,
		CAP_DEBUG_FIRMWARE = 0x20000000,
		DBG_MASK_LO_GFX10 = 7,
		DBG_MASK_HI = 29 << 4,
		DBG_DISPATCH_VALID = 1 << 10,
	};

	p->capability = CAP_WATCH | CAP_WATCH_LOG2_4 | CAP_DOORBELL_2_0 | CAP_TRAP_DEBUG |
			CAP_LAUNCH_OVERRIDE | CAP_LAUNCH_MODE;
	if (p->svm)
		p->capability |= CAP_SVM;
	if (vgpu_config.mes_version >= 64)
		p->capability |= CAP_DEBUG_FIRMWARE;
	p->capability2 = 0;
	p->debug_prop = DBG_MASK_LO_GFX10 | DBG_MASK_HI;
	if (vgpu_config.mes_version >= 70)
		p->debug_prop |= DBG_DISPATCH_VALID;
	p->num_gws = vgpu_config.mes_version >= 68 ? 64 : 0;
}

void vgpu_props_init(struct vgpu_props *p)
{
	const struct vgpu_kernel *k = vgpu_kernel();
	uint32_t left;

	memset(p, 0, sizeof(*p));
	p->cus = vgpu_config.cus;
	p->ses = 2;
	p->shs_per_se = 2;
	p->cus_per_sh = 10;
	/* Harvesting takes whole WGPs, evenly over the shader arrays. */
	left = p->cus;
	for (unsigned wgp = 0; wgp < p->cus_per_sh / 2 && left; wgp++) {
		for (unsigned sh = 0; sh < p->shs_per_se && left; sh++) {
			for (unsigned se = 0; se < p->ses && left; se++, left -= 2)
				p->cu_bitmap[se][sh] |= 3u << wgp * 2;
		}
	}
	p->vendor_id = 0x1002;
	p->device_id = 0x1586;
	p->pci_rev = 0xc1;
	p->location_id = vgpu_config.pci_bus << 8;
	p->gfx_target_version = 110501;
	p->vram_is_gtt = k->vram_always_gtt || vgpu_config.vram_bytes < vgpu_config.gtt_bytes;
	p->local_mem = p->vram_is_gtt ? vgpu_config.gtt_bytes : vgpu_config.vram_bytes;
	p->svm = vgpu_rule(RULE_svm_api) && p->vram_is_gtt;
	p->gpu_id = make_gpu_id(p);
	/* kfd_flat_memory.c:kfd_init_apertures_v9; 64 KiB at the bottom stay reserved and user
	 * space gets the half below the canonical hole. */
	p->lds_base = 1ull << 48;
	p->lds_limit = p->lds_base | 0xffffffff;
	p->scratch_base = 2ull << 48;
	p->scratch_limit = p->scratch_base | 0xffffffff;
	p->gpuvm_base = 0x10000;
	p->gpuvm_limit = (1ull << 47) - 1;
	init_cwsr(p);
	init_capability(p);
}
