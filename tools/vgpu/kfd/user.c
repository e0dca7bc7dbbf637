/* Access to the client's memory that fails instead of crashing.
 *
 * The client is this process. process_vm_readv() on oneself is the one way to touch memory that
 * may be absent or protected without a signal handler the client could notice.
 */
#include "vkfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check/check.h"
#include "vm/rawsys.h"

/* x86-64 TASK_SIZE_MAX: the last page of the lower half is not usable. */
#define USER_MAX 0x7ffffffff000ull

static atomic_bool denied; /* a sandbox refuses the call */

bool user_range_ok(uint64_t addr, uint64_t n)
{
	return addr <= USER_MAX && n <= USER_MAX - addr;
}

bool user_address_ok(uint64_t addr)
{
	return addr <= USER_MAX;
}

/* Through a pipe, whose ends look at addresses as the kernel does, a page at most at a time so that it
 * never fills. 1: there is none to be had. */
static int copy_piped(bool to_user, uint64_t user, char *kernel, size_t n)
{
	int fds[2] = {-1, -1}, err = 0;

	if (rawsys2(SYS_pipe2, fds, O_CLOEXEC))
		return 1;
	for (size_t at = 0; !err && at < n;) {
		long part = n - at < 4096 ? (long)(n - at) : 4096;
		void *there = (void *)(uintptr_t)(user + at), *here = kernel + at;

		if (rawsys3(SYS_write, fds[1], to_user ? here : there, part) != part ||
		    rawsys3(SYS_read, fds[0], to_user ? there : here, part) != part)
			err = -EFAULT;
		at += (size_t)part;
	}
	rawsys1(SYS_close, fds[0]);
	rawsys1(SYS_close, fds[1]);
	return err;
}

static int copy(bool to_user, uint64_t user, void *kernel, size_t n)
{
	struct iovec local = {kernel, n}, remote = {(void *)(uintptr_t)user, n};
	ssize_t r;
	int err;

	if (!n)
		return 0;
	if (!user_range_ok(user, n))
		return -EFAULT;
	if (check_on && !to_user && check_read(user, kernel, n))
		return 0;
	if (!atomic_load_explicit(&denied, memory_order_relaxed)) {
		r = to_user ? process_vm_writev(getpid(), &local, 1, &remote, 1, 0)
			    : process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
		if (r == (ssize_t)n)
			return 0;
		if (r >= 0 || (errno != ENOSYS && errno != EPERM))
			return -EFAULT;
		atomic_store(&denied, true);
	}
	err = copy_piped(to_user, user, kernel, n);
	if (err <= 0)
		return err;
	if (user < 4096)
		return -EFAULT;
	if (to_user)
		memcpy((void *)(uintptr_t)user, kernel, n);
	else
		memcpy(kernel, (const void *)(uintptr_t)user, n);
	return 0;
}

int user_read(void *dst, uint64_t src, size_t n)
{
	int saved = errno, err = copy(false, src, dst, n);

	errno = saved;
	return err;
}

int user_write(uint64_t dst, const void *src, size_t n)
{
	int saved = errno, err = copy(true, dst, (void *)(uintptr_t)src, n);

	errno = saved;
	return err;
}
