/* syscall(3): clients that number their system calls themselves.
 *
 * The entry looks at the number and jumps: to libc for everything that cannot concern the device
 * (clone and vfork must not find a C frame between them and their caller), to the hook of the same
 * meaning otherwise. Arguments stay where the caller put them.
 */
#include "preload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "vm/rawsys.h"

#ifndef VGPU_TRAP
long (*vgpu_real_syscall)(long nr, ...) __attribute__((visibility("hidden")));

__attribute__((constructor)) static void resolve(void)
{
	vgpu_real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

/* Numbers below 64 by a bit mask (read, write, open, close, stat, fstat, lstat, lseek, mmap,
 * mprotect, munmap, ioctl, access, mremap, madvise, dup, dup2), the others one by one. */
#define MASK                                                                                       \
	((1ull << SYS_read) | (1ull << SYS_write) | (1ull << SYS_open) | (1ull << SYS_close) |     \
	 (1ull << SYS_stat) | (1ull << SYS_fstat) | (1ull << SYS_lstat) | (1ull << SYS_lseek) |    \
	 (1ull << SYS_mmap) | (1ull << SYS_mprotect) | (1ull << SYS_munmap) |                      \
	 (1ull << SYS_ioctl) | (1ull << SYS_access) | (1ull << SYS_mremap) |                       \
	 (1ull << SYS_madvise) | (1ull << SYS_dup) | (1ull << SYS_dup2))

__asm__(".text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	cmpq $0, vgpu_real_syscall(%rip)\n"
	"	je 2f\n"
	"	cmpq $63, %rdi\n"
	"	ja 1f\n"
	"	btq %rdi, vgpu_syscall_mask(%rip)\n"
	"	jc 2f\n"
	"	jmp *vgpu_real_syscall(%rip)\n"
	"1:	cmpq $72, %rdi\n" /* fcntl */
	"	je 2f\n"
	"	cmpq $217, %rdi\n" /* getdents64 */
	"	je 2f\n"
	"	cmpq $89, %rdi\n" /* readlink */
	"	je 2f\n"
	"	cmpq $257, %rdi\n" /* openat */
	"	je 2f\n"
	"	cmpq $262, %rdi\n" /* newfstatat */
	"	je 2f\n"
	"	cmpq $267, %rdi\n" /* readlinkat */
	"	je 2f\n"
	"	cmpq $269, %rdi\n" /* faccessat */
	"	je 2f\n"
	"	cmpq $292, %rdi\n" /* dup3 */
	"	je 2f\n"
	"	cmpq $332, %rdi\n" /* statx */
	"	je 2f\n"
	"	cmpq $436, %rdi\n" /* close_range */
	"	je 2f\n"
	"	jmp *vgpu_real_syscall(%rip)\n"
	"2:	jmp vgpu_syscall\n"
	".size syscall, .-syscall\n");

_Static_assert(SYS_fcntl == 72 && SYS_getdents64 == 217 && SYS_readlink == 89 &&
		       SYS_openat == 257 && SYS_newfstatat == 262 && SYS_readlinkat == 267 &&
		       SYS_faccessat == 269 && SYS_dup3 == 292 && SYS_statx == 332 &&
		       SYS_close_range == 436,
	       "numbers in the entry");

__attribute__((visibility("hidden"))) const uint64_t vgpu_syscall_mask = MASK;

#endif

#define P(x) ((void *)(x))

/* The trap backend comes here with more numbers than syscall() does. */
long vgpu_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	long r;

	switch (nr) {
	case SYS_read:
		return read((int)a, P(b), (size_t)c);
	case SYS_write:
		return write((int)a, P(b), (size_t)c);
	case SYS_open:
		return open(P(a), (int)b, (mode_t)c);
	case SYS_openat:
		return openat((int)a, P(b), (int)c, (mode_t)d);
	case SYS_close:
		return close((int)a);
	case SYS_close_range:
		return close_range((unsigned)a, (unsigned)b, (int)c);
	case SYS_stat:
		return stat(P(a), P(b));
	case SYS_lstat:
		return lstat(P(a), P(b));
	case SYS_fstat:
		return fstat((int)a, P(b));
	case SYS_newfstatat:
		return fstatat((int)a, P(b), P(c), (int)d);
	case SYS_statx:
		return statx((int)a, P(b), (int)c, (unsigned)d, P(e));
	case SYS_lseek:
		return lseek((int)a, b, (int)c);
	case SYS_mmap:
		return (long)mmap(P(a), (size_t)b, (int)c, (int)d, (int)e, f);
	case SYS_mprotect:
		return mprotect(P(a), (size_t)b, (int)c);
	case SYS_munmap:
		return munmap(P(a), (size_t)b);
	case SYS_mremap:
		return (long)mremap(P(a), (size_t)b, (size_t)c, (int)d, P(e));
	case SYS_madvise:
		return madvise(P(a), (size_t)b, (int)c);
	case SYS_ioctl:
		return ioctl((int)a, (unsigned long)b, P(c));
	case SYS_access:
		return access(P(a), (int)b);
	case SYS_faccessat:
		return faccessat((int)a, P(b), (int)c, 0);
	case SYS_faccessat2:
		return faccessat((int)a, P(b), (int)c, (int)d);
	case SYS_creat:
		return creat(P(a), (mode_t)b);
	case SYS_truncate:
		return truncate(P(a), b);
	case SYS_chdir:
		return chdir(P(a));
	case SYS_getcwd:
		/* The kernel's returns the length with its end. */
		return getcwd(P(a), (size_t)b) ? (long)strlen(P(a)) + 1 : -1;
	case SYS_getxattr:
		return getxattr(P(a), P(b), P(c), (size_t)d);
	case SYS_lgetxattr:
		return lgetxattr(P(a), P(b), P(c), (size_t)d);
	case SYS_listxattr:
		return listxattr(P(a), P(b), (size_t)c);
	case SYS_llistxattr:
		return llistxattr(P(a), P(b), (size_t)c);
	case SYS_readv:
		return readv((int)a, P(b), (int)c);
	case SYS_writev:
		return writev((int)a, P(b), (int)c);
	case SYS_pread64:
		return pread((int)a, P(b), (size_t)c, d);
	case SYS_pwrite64:
		return pwrite((int)a, P(b), (size_t)c, d);
	case SYS_preadv:
		return preadv((int)a, P(b), (int)c, d);
	case SYS_pwritev:
		return pwritev((int)a, P(b), (int)c, d);
	case SYS_getdents64:
		return getdents64((int)a, P(b), (size_t)c);
	case SYS_statfs:
		return statfs(P(a), P(b));
	case SYS_fstatfs:
		return fstatfs((int)a, P(b));
	case SYS_msync:
		return msync(P(a), (size_t)b, (int)c);
	case SYS_dup:
		return dup((int)a);
	case SYS_dup2:
		return dup2((int)a, (int)b);
	case SYS_dup3:
		return dup3((int)a, (int)b, (int)c);
	case SYS_fcntl:
		return fcntl((int)a, (int)b, P(c));
	case SYS_readlink:
		return readlink(P(a), P(b), (size_t)c);
	case SYS_readlinkat:
		return readlinkat((int)a, P(b), P(c), (size_t)d);
	}
	r = rawsys(nr, a, b, c, d, e, f);
	if (r < 0 && r > -4096) {
		errno = (int)-r;
		return -1;
	}
	return r;
}
