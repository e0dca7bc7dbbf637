/* The one place that enters the kernel, and the reasons it leaves behind. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "kfd/kfd_internal.h"

static _Thread_local char reason[512];

const char *kfd_reason(void)
{
	return reason;
}

void kfd_reason_set(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
}

int kfd_ioctl(int fd, unsigned long cmd, void *args)
{
	unsigned again = 0;

	/* MAP and UNMAP hand back how far they came, so repeating them continues. */
	for (;;) {
		if (ioctl(fd, cmd, args) == 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN && again++ < 64)
			continue;
		return -errno;
	}
}

int kfd_call(int fd, const struct kfd_facts *facts, unsigned long cmd, void *args)
{
	int rc = kfd_ioctl(fd, cmd, args);

	if (rc < 0)
		kfd_explain(_IOC_NR(cmd), args, -rc, facts, reason, sizeof(reason));
	return rc;
}

int kfd_call_release(int fd, const struct kfd_facts *facts, unsigned long cmd, void *args)
{
	int rc = kfd_call(fd, facts, cmd, args);

	for (int again = 0; rc == -ENOMEM && again < 3; again++)
		rc = kfd_call(fd, facts, cmd, args);
	return rc;
}
