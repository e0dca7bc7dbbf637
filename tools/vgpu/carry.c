/* Files that go along into another image. */
#include "carry.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "vm/rawsys.h"

int carry_fd(struct carry *c, int fd)
{
	long to;

	for (unsigned i = 0; i < c->n_fds; i++) {
		if (c->from[i] == fd)
			return c->to[i];
	}
	if (c->n_fds == CARRY_FDS)
		return -1;
	to = rawsys3(SYS_fcntl, fd, F_DUPFD, CARRY_FIRST_FD);
	if (to < 0)
		return -1;
	c->from[c->n_fds] = fd;
	c->to[c->n_fds++] = (int)to;
	return (int)to;
}
