/* Which descriptors are the device's own. */
#include "ownfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "vm/rawsys.h"

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
