/* System calls without libc.
 *
 * libvgpu.so replaces libc's mmap, close, read and so on for its client. The device's own calls
 * must neither meet those replacements (they would look for a device file, and may hold its
 * locks) nor change the caller's errno, so they enter the kernel directly. x86-64 only.
 */
#ifndef VGPU_VM_RAWSYS_H
#define VGPU_VM_RAWSYS_H

#include <stdint.h>
#include <sys/syscall.h>

/* The kernel's return value: negative errno on failure. */
static inline long rawsys(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#define rawsys0(nr)             rawsys(nr, 0, 0, 0, 0, 0, 0)
#define rawsys1(nr, a)          rawsys(nr, (long)(a), 0, 0, 0, 0, 0)
#define rawsys2(nr, a, b)       rawsys(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define rawsys3(nr, a, b, c)    rawsys(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define rawsys4(nr, a, b, c, d) rawsys(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define rawsys6(nr, a, b, c, d, e, f)                                                              \
	rawsys(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Between two looks at what another thread is about to do; tries: 0 at first. A few pauses, then
 * sleeps, 20 us to 1.3 ms. Never sched_yield: since Linux 6.6 each one moves the caller's deadline on
 * by a slice, so that who yields in a loop may stand far behind all others afterwards. */
static inline void raw_nap(unsigned *tries)
{
	long ts[2] = {0, 20000};

	if ((*tries)++ < 50) {
		__builtin_ia32_pause();
		return;
	}
	ts[1] <<= *tries < 110 ? (*tries - 50) / 10 : 6;
	rawsys2(SYS_nanosleep, ts, 0);
}

#endif
