#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "kfd/kfd_internal.h"

int kfd_memory_alloc(struct kfd *k, uint64_t va, uint64_t size, uint32_t flags, void *userptr,
		     uint64_t *handle, uint64_t *mmap_offset)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = va,
		.size = size,
		.mmap_offset = flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR ? (uintptr_t)userptr : 0,
		.gpu_id = k->node->gpu_id,
		.flags = flags,
	};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);

	if (rc < 0)
		return rc;
	*handle = a.handle;
	if (mmap_offset)
		*mmap_offset = a.mmap_offset;
	return 0;
}

int kfd_memory_free(struct kfd *k, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {.handle = handle};

	return kfd_call_release(k->fd, &k->facts, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &a);
}

int kfd_memory_map(struct kfd *k, uint64_t handle)
{
	uint32_t gpu = k->node->gpu_id;
	struct kfd_ioctl_map_memory_to_gpu_args a = {
		.handle = handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &a);

	/* The kernel may have mapped some devices, or mapped all and failed in the flush that
	 * follows: n_success says so even then. Nothing may stay mapped after a failure. */
	if (rc < 0 && a.n_success) {
		struct kfd_ioctl_unmap_memory_from_gpu_args u = {
			.handle = handle,
			.device_ids_array_ptr = (uintptr_t)&gpu,
			.n_devices = a.n_success,
		};

		kfd_ioctl(k->fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &u);
	}
	return rc;
}

int kfd_memory_unmap(struct kfd *k, uint64_t handle)
{
	uint32_t gpu = k->node->gpu_id;
	struct kfd_ioctl_unmap_memory_from_gpu_args a = {
		.handle = handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};

	return kfd_call_release(k->fd, &k->facts, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &a);
}

int kfd_memory_available(struct kfd *k, uint64_t *bytes)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = k->node->gpu_id};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_AVAILABLE_MEMORY, &a);

	if (rc == 0)
		*bytes = a.available;
	return rc;
}

int kfd_memory_export(struct kfd *k, uint64_t handle)
{
	struct kfd_ioctl_export_dmabuf_args a = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_EXPORT_DMABUF, &a);

	return rc < 0 ? rc : (int)a.dmabuf_fd;
}

int kfd_dmabuf_size(struct kfd *k, int fd, uint64_t *bytes)
{
	struct kfd_ioctl_get_dmabuf_info_args a = {.dmabuf_fd = (uint32_t)fd};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_GET_DMABUF_INFO, &a);

	if (rc == 0)
		*bytes = a.size;
	return rc;
}

int kfd_memory_import(struct kfd *k, int fd, uint64_t va, uint64_t *handle)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = va, .gpu_id = k->node->gpu_id, .dmabuf_fd = (uint32_t)fd};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_IMPORT_DMABUF, &a);

	if (rc == 0)
		*handle = a.handle;
	return rc;
}
