#include "kfd/kfd_internal.h"

int kfd_clocks_get(struct kfd *k, struct kfd_clocks *out)
{
	struct kfd_ioctl_get_clock_counters_args a = {.gpu_id = k->node->gpu_id};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_GET_CLOCK_COUNTERS, &a);

	if (rc < 0)
		return rc;
	out->gpu = a.gpu_clock_counter;
	out->cpu_ns = a.cpu_clock_counter;
	out->system_ns = a.system_clock_counter;
	out->system_hz = a.system_clock_freq;
	return 0;
}
