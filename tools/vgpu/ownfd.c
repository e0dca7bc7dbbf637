/* Which descriptors are the device's own. */
#include "ownfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "vm/rawsys.h"

#ifndef USERFAULTFD_IOC_NEW /* Linux 6.1 */
#define USERFAULTFD_IOC_NEW _IO(0xaa, 0)
#endif

#define MAX_FD 65536u

static uint64_t bits[MAX_FD / 64];

void own_fd_mark(int fd)
{
	if (fd >= 0 && (unsigned)fd < MAX_FD)
		__atomic_fetch_or(&bits[fd / 64], 1ull << (fd % 64), __ATOMIC_RELAXED);
}

int own_fd_copy(int fd)
{
	long high = rawsys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, OWN_FD_FIRST);

	if (high == -EINVAL || high == -EMFILE)
		high = rawsys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
	own_fd_mark((int)high);
	return (int)high;
}

int own_fd(long fd)
{
	long high;

	if (fd < 0)
		return (int)fd;
	high = rawsys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, OWN_FD_FIRST);
	if (high < 0) {
		rawsys3(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
		high = fd;
	} else {
		rawsys1(SYS_close, fd);
	}
	own_fd_mark((int)high);
	return (int)high;
}

int own_fd_uffd(int flags, uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	long fd, dev;

	flags |= O_CLOEXEC | O_NONBLOCK;
	fd = rawsys1(SYS_userfaultfd, flags);
	if (fd < 0) {
		dev = rawsys4(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC, 0);
		if (dev < 0)
			return (int)fd;
		fd = rawsys3(SYS_ioctl, dev, USERFAULTFD_IOC_NEW, flags);
		rawsys1(SYS_close, dev);
		if (fd < 0)
			return (int)fd;
	}
	if (rawsys3(SYS_ioctl, fd, UFFDIO_API, &api) < 0) {
		rawsys1(SYS_close, fd);
		return -ENOTSUP;
	}
	return own_fd(fd);
}

void own_fd_close(int fd)
{
	if (fd < 0)
		return;
	if ((unsigned)fd < MAX_FD)
		__atomic_fetch_and(&bits[fd / 64], ~(1ull << (fd % 64)), __ATOMIC_RELAXED);
	rawsys1(SYS_close, fd);
}

bool own_fd_is(int fd)
{
	return fd >= 0 && (unsigned)fd < MAX_FD &&
	       __atomic_load_n(&bits[fd / 64], __ATOMIC_RELAXED) >> (fd % 64) & 1;
}

int own_fd_next(unsigned first)
{
	for (unsigned i = first / 64; i < MAX_FD / 64; i++) {
		uint64_t w = __atomic_load_n(&bits[i], __ATOMIC_RELAXED);

		if (i == first / 64)
			w &= ~0ull << (first % 64);
		if (w)
			return (int)(i * 64 + (unsigned)__builtin_ctzll(w));
	}
	return -1;
}
