/* Queue buffer sizes. Pure.
 *
 * The kernel compares each mapping with its own figures byte for byte (amdkfd/kfd_queue.c:
 * kfd_queue_ctx_save_restore_size, kfd_queue_acquire_buffers). It prints cwsr_size and
 * ctl_stack_size in the topology; older kernels do not, and then the formula must hit them.
 */
#include <errno.h>

#include "queues/queues.h"

#define SGPR_BYTES   0x4000u
#define LDS_BYTES    0x10000u
#define HWREG_BYTES  0x1000u
#define HEADER_BYTES 40u

static uint32_t vgpr_bytes(uint32_t gfx)
{
	switch (gfx) {
	case 110000:
	case 110001:
	case 110501:
	case 120000:
	case 120001:
		return 0x60000;
	default:
		return 0x40000;
	}
}

static uint64_t align_up(uint64_t v, uint64_t a)
{
	return (v + a - 1) & ~(a - 1);
}

int queue_plan_compute(const struct queue_plan_in *in, struct queue_plan *out)
{
	struct queue_plan p = {0};
	uint32_t packets = in->ring_packets, xcc = in->num_xcc ? in->num_xcc : 1;

	/* Before gfx10 waves are counted otherwise; after gfx12.4 again. */
	if (in->gfx_target_version < 100100 || in->gfx_target_version >= 120500)
		return -ENOTSUP;
	if (!in->simd_per_cu || in->simd_count / in->simd_per_cu / xcc == 0)
		return -EINVAL;
	/* 64 packets fill a page; beyond 64 MiB nobody has use for a ring. */
	if (packets < 64 || packets > 1u << 20 || packets & (packets - 1))
		return -EINVAL;

	p.cus = in->simd_count / in->simd_per_cu / xcc;
	p.waves = p.cus * 32;
	p.ring_bytes = (uint64_t)packets * 64;
	p.eop_bytes = 4096;
	p.debug_bytes = align_up((uint64_t)p.waves * 32, 64);

	p.formula_ctl = align_up(HEADER_BYTES + (uint64_t)p.waves * 12 + 8, 4096);
	if (in->gfx_target_version / 10000 == 10 && p.formula_ctl > 0x7000)
		p.formula_ctl = 0x7000;
	p.formula_cwsr =
		p.formula_ctl + align_up((uint64_t)p.cus * (vgpr_bytes(in->gfx_target_version) +
							    SGPR_BYTES + LDS_BYTES + HWREG_BYTES),
					 4096);

	p.from_topology = in->cwsr_size && in->ctl_stack_size;
	p.cwsr_bytes = p.from_topology ? in->cwsr_size : p.formula_cwsr;
	p.ctl_stack_bytes = p.from_topology ? in->ctl_stack_size : p.formula_ctl;
	p.formula_disagrees = p.from_topology && (p.cwsr_bytes != p.formula_cwsr ||
						  p.ctl_stack_bytes != p.formula_ctl);
	if (p.cwsr_bytes <= p.ctl_stack_bytes || p.cwsr_bytes > UINT32_MAX)
		return -EINVAL;
	p.wg_data_bytes = p.cwsr_bytes - p.ctl_stack_bytes;
	p.area_bytes = align_up((p.cwsr_bytes + p.debug_bytes) * xcc, 4096);
	*out = p;
	return 0;
}
