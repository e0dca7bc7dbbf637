/* Descriptors that the device itself has in its client's table.
 *
 * They lie above the numbers that programs use, do not survive exec, and are not the client's to
 * close: a daemon that closes all it does not know goes on with the device, as it does where the
 * device is the kernel's.
 */
#ifndef VGPU_OWNFD_H
#define VGPU_OWNFD_H

#include <stdbool.h>
#include <stdint.h>

#define OWN_FD_FIRST 1000

/* Takes fd over: the number it has from now on; errors (negative) pass through. Stays where it is
 * when the limit of open files leaves no higher number. */
int own_fd(long fd);
/* The same for a copy of fd, which stays the caller's. -errno when there is no number for it. */
int own_fd_copy(int fd);
/* A userfaultfd that does not block, with these further flags and features: by the system call or, where
 * that is refused, by /dev/userfaultfd, for whoever may open it. -errno; -ENOTSUP: a kernel without the
 * features. */
int own_fd_uffd(int flags, uint64_t features);
/* Marks a number that is to stay as it is, inherited by every program. */
void own_fd_mark(int fd);
/* Closes what own_fd() or own_fd_copy() gave; negative numbers are nothing. */
void own_fd_close(int fd);

bool own_fd_is(int fd);
/* The lowest one from first on, or -1. */
int own_fd_next(unsigned first);

#endif
