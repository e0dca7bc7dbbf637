/* What differs between kernels, as data. Sources: linux 6.12.117 (read), 7.3.4 (digest). */
#include "vkfd.h"

#include <string.h>

static const struct vgpu_kernel kernels[] = {
	{
		.name = "6.12",
		.release = "6.12.117",
		.kfd_minor = 17,
		.nr_end = KFD_NR_CREATE_PROCESS,
		.drm_minor = 59,
		.smi_fifo = 1024,
		/* Not checked: kcalloc() of 56-byte waiters fails above 4 MiB. */
		.wait_events_max = (4u << 20) / 56,
		.event_page_mmap = true,
		.mmap_by_mm = true,
		.vram_always_gtt = true,
		.vram_reserve_check = true,
		.smi_all_needs_bit = true,
		.smi_vmfault_to_all = true,
		.sysfs_pasid = true,
		.queue_type_xgmi_is_4 = true,
		.fault_info_is_empty = true,
		.free_lowers_vram_usage = true,
	},
	{
		.name = "7.3",
		.release = "7.3.4",
		.kfd_minor = 23,
		.nr_end = KFD_NR_END,
		.drm_minor = 64,
		.smi_fifo = 8192,
		.wait_events_max = KFD_SIGNAL_EVENT_LIMIT,
		.ring_counts_metadata = true,
		.smi_process_events = true,
		.cu_occupancy = true,
		.capability2 = true,
		.evict_stops_at_first = true,
		.evicted_ms_from_start = true,
		.fdinfo_regions = true,
		.secondary_processes = true,
		.queue_reset = true,
		.profiler = true,
	},
};

const struct vgpu_kernel *vgpu_kernel(void)
{
	for (unsigned i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		if (!strcmp(kernels[i].name, vgpu_config.kernel))
			return &kernels[i];
	}
	return &kernels[0];
}
