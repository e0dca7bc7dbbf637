/* The few calls that the trap tests' client makes, in two ways: through libc, or by itself (RAW),
 * for a program that has no libc at all (BARE) and for one that goes around the one it has. Results
 * are the kernel's: negative errno on failure. */
#ifndef TRAP_OS_H
#define TRAP_OS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SET_ALL  (~0ull)
#define BIT(sig) (1ull << ((sig) - 1))

static inline long raw(long nr, long a, long b, long c, long d, long e, long f)
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

#define RAW(nr, a, b, c, d, e, f)                                                                  \
	raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* The kernel's struct sigaction. */
struct act {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};
#define ACT_RESTORER 0x04000000ul

void act_restorer(void);
__asm__(".text\n"
	".globl act_restorer\n"
	"act_restorer:\n"
	"	movl $15, %eax\n"
	"	syscall\n");

static inline long k_sigaction(int sig, void (*fn)(int, siginfo_t *, void *), unsigned long flags,
			       uint64_t mask, struct act *old)
{
	struct act a = {fn, flags | SA_SIGINFO | ACT_RESTORER, act_restorer, mask};

	return RAW(SYS_rt_sigaction, sig, &a, old, 8, 0, 0);
}

static inline long k_sigmask(int how, uint64_t set, uint64_t *old)
{
	return RAW(SYS_rt_sigprocmask, how, &set, old, 8, 0, 0);
}

#ifdef USE_RAW

#define k_open(path, flags)           RAW(SYS_openat, AT_FDCWD, path, flags, 0, 0, 0)
#define k_close(fd)                   RAW(SYS_close, fd, 0, 0, 0, 0, 0)
#define k_read(fd, p, n)              RAW(SYS_read, fd, p, n, 0, 0, 0)
#define k_write(fd, p, n)             RAW(SYS_write, fd, p, n, 0, 0, 0)
#define k_ioctl(fd, cmd, p)           RAW(SYS_ioctl, fd, cmd, p, 0, 0, 0)
#define k_mmap(a, n, prot, fl, fd, o) RAW(SYS_mmap, a, n, prot, fl, fd, o)
#define k_munmap(a, n)                RAW(SYS_munmap, a, n, 0, 0, 0, 0)
#define k_readlink(path, p, n)        RAW(SYS_readlink, path, p, n, 0, 0, 0)
#define k_fork()                      RAW(SYS_fork, 0, 0, 0, 0, 0, 0)
#define k_wait(pid, status)           RAW(SYS_wait4, pid, status, 0, 0, 0, 0)
#define k_exec(path, argv, envp)      RAW(SYS_execve, path, argv, envp, 0, 0, 0)
#define k_brk_grow(n)                 raw_sbrk(n)
#define k_exit(code)                  RAW(SYS_exit_group, code, 0, 0, 0, 0, 0)

static inline long raw_sbrk(long n)
{
	long now = RAW(SYS_brk, 0, 0, 0, 0, 0, 0);

	return RAW(SYS_brk, now + n, 0, 0, 0, 0, 0) == now + n ? now : -ENOMEM;
}

/* A thread on a stack of one page. */
struct thread {
	int tid;
	void (*fn)(void *);
	void *arg;
};

__attribute__((naked, noinline)) static long thread_clone(long flags __attribute__((unused)),
							  void *sp __attribute__((unused)),
							  int *tid __attribute__((unused)),
							  int *ctid __attribute__((unused)),
							  struct thread *t __attribute__((unused)))
{
	__asm__("movq %rcx, %r10\n"
		"	movq %r8, %r9\n"
		"	movl $56, %eax\n"
		"	syscall\n"
		"	testq %rax, %rax\n"
		"	jz 1f\n"
		"	ret\n"
		"1:	movq 16(%r9), %rdi\n"
		"	call *8(%r9)\n"
		"	xorl %edi, %edi\n"
		"	movl $60, %eax\n"
		"	syscall\n");
}

static inline long k_thread(struct thread *t, void (*fn)(void *), void *arg)
{
	long stack = k_mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	k_mmap(stack, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	t->fn = fn;
	t->arg = arg;
	return thread_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
				    CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
			    (void *)(stack + 8192), &t->tid, &t->tid, t);
}

static inline void k_join(struct thread *t)
{
	int tid;

	while ((tid = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE)))
		RAW(SYS_futex, &t->tid, FUTEX_WAIT, tid, 0, 0, 0);
}

#else

#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERR(x)                                                                                     \
	({                                                                                         \
		long r_ = (long)(x);                                                               \
		r_ == -1 ? -(long)errno : r_;                                                      \
	})
#define k_open(path, flags)           ERR(open(path, flags))
#define k_close(fd)                   ERR(close((int)(fd)))
#define k_read(fd, p, n)              ERR(read((int)(fd), p, n))
#define k_write(fd, p, n)             ERR(write((int)(fd), p, n))
#define k_ioctl(fd, cmd, p)           ERR(ioctl((int)(fd), cmd, p))
#define k_mmap(a, n, prot, fl, fd, o) ERR(mmap((void *)(a), n, prot, fl, (int)(fd), (off_t)(o)))
#define k_munmap(a, n)                ERR(munmap((void *)(a), n))
#define k_readlink(path, p, n)        ERR(readlink(path, p, n))
#define k_fork()                      ERR(fork())
#define k_wait(pid, status)           ERR(waitpid((pid_t)(pid), status, 0))
#define k_exec(path, argv, envp)      ERR(execve(path, argv, envp))
#define k_brk_grow(n)                 ERR(sbrk(n))
#define k_exit(code)                  _exit(code)

struct thread {
	pthread_t id;
	void (*fn)(void *);
	void *arg;
};

static void *thread_main(void *p)
{
	struct thread *t = p;

	t->fn(t->arg);
	return NULL;
}

static inline long k_thread(struct thread *t, void (*fn)(void *), void *arg)
{
	t->fn = fn;
	t->arg = arg;
	return -pthread_create(&t->id, NULL, thread_main, t);
}

static inline void k_join(struct thread *t)
{
	pthread_join(t->id, NULL);
}

#endif

/* ---- without libc --------------------------------------------------------- */

#ifdef BARE

void *memset(void *p, int c, size_t n)
{
	for (unsigned char *b = p; n--; b++) {
		*b = (unsigned char)c;
		__asm__ volatile("" : : : "memory"); /* no call of itself */
	}
	return p;
}

void *memcpy(void *restrict p, const void *restrict q, size_t n)
{
	unsigned char *to = p;

	for (const unsigned char *from = q; n--;) {
		*to++ = *from++;
		__asm__ volatile("" : : : "memory");
	}
	return p;
}

#else
#include <string.h>
#endif

static inline size_t text_len(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static inline bool text_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static inline void say(const char *s)
{
	RAW(SYS_write, 2, s, text_len(s), 0, 0, 0);
}

static inline void say_number(long v)
{
	char buf[24], *p = buf + sizeof(buf) - 1;
	unsigned long u = v < 0 ? -(unsigned long)v : (unsigned long)v;

	*p = 0;
	do
		*--p = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0)
		*--p = '-';
	say(p);
}

static inline unsigned long number_after(const char *text, const char *key)
{
	size_t n = text_len(key);
	unsigned long v = 0;

	for (; *text; text++) {
		size_t i = 0;

		while (i < n && text[i] == key[i])
			i++;
		if (i < n)
			continue;
		for (text += n; *text == ' '; text++)
			;
		while (*text >= '0' && *text <= '9')
			v = v * 10 + (unsigned long)(*text++ - '0');
		return v;
	}
	return 0;
}

static int failures;

static inline void check_at(int line, const char *what, long got, long want)
{
	if (got == want)
		return;
	__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
	say("line ");
	say_number(line);
	say(": ");
	say(what);
	say(": got ");
	say_number(got);
	say(", want ");
	say_number(want);
	say("\n");
}

#define IS(want, got) check_at(__LINE__, #got, (long)(got), (long)(want))
#define TRUE(cond)    check_at(__LINE__, #cond, !!(cond), 1)

#endif
