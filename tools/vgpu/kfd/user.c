/* Access to the client's memory that fails instead of crashing.
 *
 * The client is this process. process_vm_readv() on oneself is the one way to touch memory that
 * may be absent or protected without a signal handler the client could notice.
 */
#include "vkfd.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* x86-64 TASK_SIZE_MAX: the last page of the lower half is not usable. */
#define USER_MAX 0x7ffffffff000ull

static atomic_bool denied; /* a sandbox refuses the call: fall back to plain copies */

bool user_range_ok(uint64_t addr, uint64_t n)
{
	return addr <= USER_MAX && n <= USER_MAX - addr;
}

bool user_address_ok(uint64_t addr)
{
	return addr <= USER_MAX;
}

static int copy(bool to_user, uint64_t user, void *kernel, size_t n)
{
	struct iovec local = {kernel, n}, remote = {(void *)(uintptr_t)user, n};
	ssize_t r;

	if (!n)
		return 0;
	if (!user_range_ok(user, n))
		return -EFAULT;
	if (!atomic_load_explicit(&denied, memory_order_relaxed)) {
		r = to_user ? process_vm_writev(getpid(), &local, 1, &remote, 1, 0)
			    : process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
		if (r == (ssize_t)n)
			return 0;
		if (r >= 0 || (errno != ENOSYS && errno != EPERM))
			return -EFAULT;
		atomic_store(&denied, true);
	}
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
