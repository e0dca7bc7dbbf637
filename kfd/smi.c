#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "kfd/kfd_internal.h"

int kfd_smi_open(struct kfd *k, uint64_t mask)
{
	struct kfd_ioctl_smi_events_args a = {.gpuid = k->node->gpu_id};
	int rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_SMI_EVENTS, &a);
	int fd, flags;

	if (rc < 0)
		return rc;
	/* The kernel hands it out without close-on-exec. */
	fd = (int)a.anon_fd;
	flags = fcntl(fd, F_GETFD);
	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0 ||
	    write(fd, &mask, sizeof(mask)) != (ssize_t)sizeof(mask)) {
		rc = -errno;
		kfd_reason_set("SMI_EVENTS: setting up the message stream (mask 0x%llx) failed: %s",
			       (unsigned long long)mask, strerror(-rc));
		close(fd);
		return rc;
	}
	return fd;
}
