#include <errno.h>
#include <sys/ioctl.h>

#include "kfd/kfd_internal.h"

int kfd_queue_create(struct kfd *k, struct kfd_ioctl_create_queue_args *args)
{
	struct kfd_ioctl_create_queue_args a = *args;
	int rc;

	a.gpu_id = k->node->gpu_id;
	rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_CREATE_QUEUE, &a);
	if (rc == 0)
		*args = a;
	return rc;
}

int kfd_queue_update(struct kfd *k, uint32_t queue_id, uint64_t ring, uint32_t ring_size,
		     uint32_t percentage, uint32_t priority)
{
	struct kfd_ioctl_update_queue_args a = {
		.ring_base_address = ring,
		.queue_id = queue_id,
		.ring_size = ring_size,
		.queue_percentage = percentage,
		.queue_priority = priority,
	};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_UPDATE_QUEUE, &a);
}

int kfd_queue_destroy(struct kfd *k, uint32_t queue_id, bool *consumed)
{
	struct kfd_ioctl_destroy_queue_args a = {.queue_id = queue_id};
	int rc = kfd_call_release(k->fd, &k->facts, AMDKFD_IOC_DESTROY_QUEUE, &a);

	/* kfd_process_queue_manager.c:pqm_destroy_queue: a queue the hardware did not give back is
	 * dropped all the same, and the error returned. */
	if (consumed)
		*consumed = rc == 0 || rc == -ETIME || rc == -ETIMEDOUT || rc == -EIO;
	return rc;
}

int kfd_queue_wave_state(struct kfd *k, uint32_t queue_id, struct kfd_wave_state *out,
			 uint32_t *ctl_stack_used, uint32_t *save_area_used)
{
	struct kfd_wave_state state = {0};
	struct kfd_ioctl_get_queue_wave_state_args a = {.ctl_stack_address = (uintptr_t)&state,
							.queue_id = queue_id};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &a);

	if (rc < 0)
		return rc;
	*out = state;
	if (ctl_stack_used)
		*ctl_stack_used = a.ctl_stack_used_size;
	if (save_area_used)
		*save_area_used = a.save_area_used_size;
	return 0;
}
