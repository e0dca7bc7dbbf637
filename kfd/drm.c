/* The render node, through libdrm_amdgpu. */
#include <amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kfd/kfd_internal.h"

#ifndef AMDGPU_INFO_GPUVM_FAULT
#define AMDGPU_INFO_GPUVM_FAULT 0x23
#endif

int kfd_drm_open(const char *path, amdgpu_device_handle *out, char *why, size_t why_len)
{
	uint32_t major, minor;
	int fd, rc;

	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		rc = -errno;
		if (rc == -EACCES)
			snprintf(why, why_len,
				 "no permission to open %s: this user is not in its group (usually "
				 "\"render\")",
				 path);
		else
			snprintf(why, why_len, "cannot open the GPU's render node %s: %s", path,
				 strerror(-rc));
		return rc;
	}
	/* libdrm keeps a dup of the descriptor: the same open file, so ours may go. The VM and the
	 * right to mmap BOs belong to that open file, hence amdgpu_device_get_fd() everywhere. */
	rc = amdgpu_device_initialize(fd, &major, &minor, out);
	close(fd);
	if (rc) {
		rc = rc < 0 ? rc : -EIO;
		snprintf(why, why_len, "libdrm refuses the render node %s: %s", path,
			 strerror(-rc));
	}
	return rc;
}

int kfd_heaps_get(struct kfd *k, struct kfd_heaps *out)
{
	struct drm_amdgpu_memory_info m = {0};
	int rc = amdgpu_query_info(k->drm, AMDGPU_INFO_MEMORY, sizeof(m), &m);

	if (rc) {
		kfd_reason_set("AMDGPU_INFO_MEMORY on the render node: %s", strerror(-rc));
		return rc < 0 ? rc : -EIO;
	}
	out->vram_total = m.vram.total_heap_size;
	out->vram_used = m.vram.heap_usage;
	out->gtt_total = m.gtt.total_heap_size;
	out->gtt_used = m.gtt.heap_usage;
	return 0;
}

int kfd_fault_last(struct kfd *k, uint64_t *page, uint32_t *status)
{
	/* struct drm_amdgpu_info_gpuvm_fault of newer headers */
	struct {
		uint64_t addr;
		uint32_t status, vmhub;
	} f = {0};
	int rc = amdgpu_query_info(k->drm, AMDGPU_INFO_GPUVM_FAULT, sizeof(f), &f);

	if (rc)
		return rc < 0 ? rc : -EIO;
	if (!f.addr && !f.status)
		return -ENODATA;
	*page = f.addr;
	*status = f.status;
	return 0;
}

const char *kfd_marketing_name(const struct kfd *k)
{
	return amdgpu_get_marketing_name(k->drm);
}
