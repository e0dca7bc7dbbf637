/* A KFD client without help: client PART. Built four ways (Makefile): linked statically, as a static
 * PIE, without any libc, and dynamically but entering the kernel by itself. tests/e2e_trap.c runs
 * it with and without the trap backend. Exit: 0, 1 when a check failed, 2 when there is no device. */
#include "gpu.h"

#include <elf.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static char **arguments, **environment;
static Elf64_auxv_t *auxiliary;

static uint64_t aux(uint64_t type)
{
	for (Elf64_auxv_t *a = auxiliary; a->a_type != AT_NULL; a++) {
		if (a->a_type == type)
			return a->a_un.a_val;
	}
	return 0;
}

/* ---- a dispatch ----------------------------------------------------------- */

static void part_gpu(void)
{
	struct gpu g;

	gpu_make(&g);
	for (unsigned i = 0; i < 20 && !failures; i++)
		gpu_run(&g);
	gpu_close(&g);
	IS(-EBADF, k_close(g.kfd));
}

/* ---- threads -------------------------------------------------------------- */

static struct gpu shared;

static void worker(void *arg)
{
	struct kfd_ioctl_get_version_args v = {0, 0};
	struct kfd_ioctl_destroy_event_args e = {shared.event, 0};
	struct buffer b;
	long dup;

	for (unsigned i = 0; i < 50; i++) {
		buffer_make(&shared, &b, PAGE, GTT);
		*(volatile uint64_t *)b.at = i;
		IS(i, *(volatile uint64_t *)b.at);
		buffer_drop(&shared, &b, 0);
		IS(0, k_ioctl(shared.kfd, AMDKFD_IOC_GET_VERSION, &v));
		dup = RAW(SYS_dup, shared.kfd, 0, 0, 0, 0, 0);
		TRUE(dup > 0);
		IS(0, k_ioctl(dup, AMDKFD_IOC_GET_VERSION, &v));
		IS(0, k_close(dup));
	}
	__atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
	IS(0, k_ioctl(shared.kfd, AMDKFD_IOC_SET_EVENT, &e));
}

static void part_threads(void)
{
	struct thread t[8];
	int done = 0;

	gpu_make(&shared);
	for (unsigned round = 0; round < 3; round++) {
		__atomic_store_n(&done, 0, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < 8; i++)
			TRUE(k_thread(&t[i], worker, &done) >= 0);
		/* Woken by a thread that may have come before: the next one comes too. */
		while (__atomic_load_n(&done, __ATOMIC_RELAXED) < 8)
			IS(0, gpu_wait(&shared, 100) & ~1);
		for (unsigned i = 0; i < 8; i++)
			k_join(&t[i]);
		gpu_run(&shared);
	}
	gpu_close(&shared);
}

/* ---- processes ------------------------------------------------------------ */

static void part_fork(void)
{
	struct kfd_ioctl_get_version_args v = {0, 0};
	struct gpu g, h;
	int status = 0;
	long pid;

	gpu_make(&g);
	pid = k_fork();
	if (!pid) {
		/* The parent's device is not the child's; its own is. */
		IS(-EBADF, k_ioctl(g.kfd, AMDKFD_IOC_GET_VERSION, &v));
		gpu_make(&h);
		gpu_run(&h);
		gpu_close(&h);
		k_exit(failures ? 1 : 42);
	}
	gpu_run(&g);
	IS(pid, k_wait(pid, &status));
	IS(42 << 8, status);
	gpu_run(&g);
	gpu_close(&g);
}

/* The call must be inline: a vfork child that returned would take the parent's frame along. */
__attribute__((noinline)) static long run_child(const char *path, char **argv, bool vfork)
{
	volatile long pid = RAW(vfork ? SYS_vfork : SYS_fork, 0, 0, 0, 0, 0, 0);
	int status = 0;

	if (!pid) {
		RAW(SYS_close, 0, 0, 0, 0, 0, 0);
		RAW(SYS_execve, path, argv, environment, 0, 0, 0);
		RAW(SYS_exit, 99, 0, 0, 0, 0, 0);
	}
	IS(pid, k_wait(pid, &status));
	return status;
}

/* A file by its descriptor: one that has a name, and one that never had. */
static void by_descriptor(void)
{
	char *argv[] = {"renamed", "gpu", NULL}, text[4096];
	long fd = k_open("/proc/self/exe", O_RDONLY | O_CLOEXEC), mem, n, pid;
	int status = 0;

	pid = RAW(SYS_fork, 0, 0, 0, 0, 0, 0);
	if (!pid) {
		RAW(SYS_execveat, fd, "", argv, environment, AT_EMPTY_PATH, 0);
		RAW(SYS_exit_group, 99, 0, 0, 0, 0, 0);
	}
	IS(pid, k_wait(pid, &status));
	IS(0, status);
	mem = RAW(SYS_memfd_create, "image", 1, 0, 0, 0, 0);
	TRUE(mem >= 0);
	while ((n = k_read(fd, text, sizeof(text))) > 0)
		IS(n, k_write(mem, text, (size_t)n));
	pid = RAW(SYS_fork, 0, 0, 0, 0, 0, 0);
	if (!pid) {
		RAW(SYS_execveat, mem, "", argv, environment, AT_EMPTY_PATH, 0);
		RAW(SYS_exit_group, 99, 0, 0, 0, 0, 0);
	}
	IS(pid, k_wait(pid, &status));
	IS(0, status);
	IS(0, k_close(mem));
	IS(0, k_close(fd));
}

static void part_exec(void)
{
	char *argv[] = {"renamed", "gpu", NULL}, *sh[] = {"sh", "-c", "exit 7", NULL};
	struct gpu g;

	gpu_make(&g);
	IS(0, run_child("/proc/self/exe", argv, false));
	IS(7 << 8, run_child("/bin/sh", sh, false));
	IS(99 << 8, run_child("/nonexistent", sh, false));
	IS(-ENOENT, k_exec("/nonexistent", sh, environment));
	IS(-EACCES, k_exec("/etc/passwd", sh, environment));
	IS(-EFAULT, k_exec("/bin/sh", (char **)8, environment));
	by_descriptor();
	gpu_run(&g);
	gpu_close(&g);
}

static void part_vfork(void)
{
	char *argv[] = {"renamed", "gpu", NULL}, *sh[] = {"sh", "-c", "exit 7", NULL};
	struct gpu g;

	gpu_make(&g);
	IS(0, run_child("/proc/self/exe", argv, true));
	IS(7 << 8, run_child("/bin/sh", sh, true));
	IS(99 << 8, run_child("/nonexistent", sh, true));
	gpu_run(&g);
	gpu_close(&g);
}

/* ---- signals -------------------------------------------------------------- */

typedef void handler(int, siginfo_t *, void *);

static volatile int caught, caught_sys;
static volatile uintptr_t caught_at;
static struct gpu *signalled;

static void on_signal(int sig, siginfo_t *info, void *uc)
{
	struct kfd_ioctl_get_version_args v = {0, 0};
	struct kfd_ioctl_destroy_event_args e = {signalled->event, 0};

	(void)info;
	(void)uc;
	caught++;
	caught_at = (uintptr_t)__builtin_frame_address(0);
	IS(0, k_ioctl(signalled->kfd, AMDKFD_IOC_GET_VERSION, &v));
	if (sig == SIGALRM)
		return;
	IS(0, k_ioctl(signalled->kfd, AMDKFD_IOC_SET_EVENT, &e));
}

static void on_sys(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	IS(SIGSYS, sig);
	IS(SI_TKILL, info->si_code);
	caught_sys++;
}

/* Once more every so often, if so asked: whoever is not waiting yet when it comes would wait for ever. */
static void alarm_in(unsigned ms, bool again)
{
	long us = (long)ms * 1000, t[4] = {0, again ? us : 0, 0, us};

	RAW(SYS_setitimer, 0, t, 0, 0, 0, 0);
}

struct poke {
	int tid;
	unsigned ms;
};

/* Sends USR1 to the main thread after a while. */
static void poker(void *arg)
{
	struct poke *p = arg;
	long t[2] = {0, (long)p->ms * 1000000};

	RAW(SYS_nanosleep, t, 0, 0, 0, 0, 0);
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), p->tid, SIGUSR1, 0, 0, 0);
}

static void part_signals(void)
{
	struct poke p = {(int)RAW(SYS_gettid, 0, 0, 0, 0, 0, 0), 30};
	struct act old = {0};
	struct thread t;
	uint64_t mask = 0, none = 0;
	struct gpu g;

	gpu_make(&g);
	signalled = &g;
	/* A wait without end is interrupted, */
	IS(0, k_sigaction(SIGALRM, on_signal, 0, 0, NULL));
	alarm_in(30, true);
	IS(-EINTR, gpu_wait(&g, ~0u));
	alarm_in(0, false);
	TRUE(caught >= 1);
	caught = 1;
	/* goes on after a handler that says so, whose own calls are the device's too, */
	IS(0, k_sigaction(SIGUSR1, on_signal, SA_RESTART, SET_ALL, NULL));
	TRUE(k_thread(&t, poker, &p) >= 0);
	IS(0, gpu_wait(&g, ~0u));
	IS(2, caught);
	k_join(&t);
	/* and is left alone by what is blocked or ignored. */
	IS(0, k_sigmask(SIG_BLOCK, BIT(SIGALRM), NULL));
	alarm_in(20, false);
	IS(1, gpu_wait(&g, 60));
	IS(2, caught);
	IS(0, k_sigmask(SIG_UNBLOCK, BIT(SIGALRM), NULL));
	IS(3, caught);
	IS(0, k_sigaction(SIGALRM, (handler *)(uintptr_t)SIG_IGN, 0, 0, NULL));
	alarm_in(20, false);
	IS(1, gpu_wait(&g, 60));

	/* All signals blocked, SIGSYS too: the device answers, and the mask reads back. */
	IS(0, k_sigmask(SIG_SETMASK, SET_ALL, &none));
	IS(0, none);
	gpu_run(&g);
	IS(0, RAW(SYS_rt_sigprocmask, SIG_SETMASK, 0, &mask, 8, 0, 0));
	IS(SET_ALL & ~BIT(SIGKILL) & ~BIT(SIGSTOP), mask);
	IS(0, k_sigmask(SIG_SETMASK, 0, NULL));
	/* A handler's own mask reads back with SIGSYS in it, and does not lame the handler. */
	IS(0, k_sigaction(SIGUSR1, on_signal, 0, SET_ALL, NULL));
	IS(0, RAW(SYS_rt_sigaction, SIGUSR1, 0, &old, 8, 0, 0));
	IS(SET_ALL & ~BIT(SIGKILL) & ~BIT(SIGSTOP), old.mask);
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), p.tid, SIGUSR1, 0, 0, 0);
	IS(4, caught);
	IS(0, gpu_wait(&g, 1000)); /* set by the handler */
	/* Waiting with all but USR1 blocked, which is blocked until then. */
	mask = SET_ALL & ~BIT(SIGUSR1);
	IS(0, k_sigmask(SIG_BLOCK, BIT(SIGUSR1), NULL));
	TRUE(k_thread(&t, poker, &p) >= 0);
	IS(-EINTR, RAW(SYS_rt_sigsuspend, &mask, 8, 0, 0, 0, 0));
	IS(5, caught);
	IS(SET_ALL & ~BIT(SIGUSR1), mask);
	IS(0, k_sigmask(SIG_UNBLOCK, BIT(SIGUSR1), NULL));
	k_join(&t);
	mask = SET_ALL;
	{
		long ts[2] = {0, 1000000};

		IS(0, RAW(SYS_ppoll, 0, 0, ts, &mask, 8, 0));
	}
	gpu_run(&g);

	/* SIGSYS is the client's as any other. */
	IS(0, k_sigaction(SIGSYS, on_sys, 0, 0, &old));
	IS(SIG_DFL, old.handler);
	IS(0, RAW(SYS_rt_sigaction, SIGSYS, 0, &old, 8, 0, 0));
	IS(on_sys, old.handler);
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), p.tid, SIGSYS, 0, 0, 0);
	IS(1, caught_sys);
	gpu_run(&g);
	IS(0, k_sigaction(SIGSYS, (handler *)(uintptr_t)SIG_IGN, 0, 0, NULL));
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), p.tid, SIGSYS, 0, 0, 0);
	IS(1, caught_sys);
	gpu_run(&g);
	gpu_close(&g);
}

static void part_altstack(void)
{
	static char area[32768];
	stack_t s = {.ss_sp = area, .ss_size = sizeof(area)}, old = {0};
	stack_t small = {.ss_sp = area, .ss_size = 100};
	struct act act = {0};
	int tid = (int)RAW(SYS_gettid, 0, 0, 0, 0, 0, 0);
	struct gpu g;

	gpu_make(&g);
	signalled = &g;
	IS(0, RAW(SYS_sigaltstack, 0, &old, 0, 0, 0, 0));
	IS(SS_DISABLE, old.ss_flags);
	/* Without one, the handler is where the stack is. */
	IS(0, k_sigaction(SIGUSR2, on_signal, SA_ONSTACK, 0, NULL));
	IS(0, RAW(SYS_rt_sigaction, SIGUSR2, 0, &act, 8, 0, 0));
	TRUE(act.flags & SA_ONSTACK);
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), tid, SIGUSR2, 0, 0, 0);
	IS(1, caught);
	TRUE((uintptr_t)&g - caught_at < 65536);
	IS(0, gpu_wait(&g, 1000));
	IS(-ENOMEM, RAW(SYS_sigaltstack, &small, 0, 0, 0, 0, 0));
	IS(0, RAW(SYS_sigaltstack, &s, &old, 0, 0, 0, 0));
	IS(SS_DISABLE, old.ss_flags);
	IS(0, RAW(SYS_sigaltstack, 0, &old, 0, 0, 0, 0));
	IS(area, old.ss_sp);
	IS(0, old.ss_flags);
	gpu_run(&g);
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), tid, SIGUSR2, 0, 0, 0);
	IS(2, caught);
	TRUE(caught_at - (uintptr_t)area < sizeof(area));
	IS(0, gpu_wait(&g, 1000));
	s.ss_flags = SS_DISABLE;
	IS(0, RAW(SYS_sigaltstack, &s, &old, 0, 0, 0, 0));
	IS(area, old.ss_sp);
	IS(0, RAW(SYS_sigaltstack, 0, &old, 0, 0, 0, 0));
	IS(SS_DISABLE, old.ss_flags);
	RAW(SYS_tgkill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), tid, SIGUSR2, 0, 0, 0);
	IS(3, caught);
	gpu_run(&g);
	gpu_close(&g);
}

/* ---- what a process knows about itself -------------------------------------- */

extern char __ehdr_start[] __attribute__((weak, visibility("hidden")));

static void part_self(void)
{
	char text[4096], comm[16] = "", want[4096];
	const Elf64_Phdr *ph = (const Elf64_Phdr *)aux(AT_PHDR);
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)__ehdr_start;
	const char *name;
	size_t n, at = 0;
	long r, heap;

	/* Our own headers, found by their own word. */
	TRUE(ph && aux(AT_PHNUM) == eh->e_phnum && aux(AT_PHENT) == sizeof(*ph));
	IS((const char *)eh + eh->e_phoff, ph);
	IS(eh->e_type == ET_EXEC ? eh->e_entry : (uintptr_t)eh + eh->e_entry, aux(AT_ENTRY));
	TRUE(aux(AT_RANDOM) && aux(AT_SYSINFO_EHDR) && aux(AT_PAGESZ) == PAGE);
	TRUE(text_equal((const char *)aux(AT_EXECFN), arguments[2]));
	/* The file, by every name. */
	r = k_readlink("/proc/self/exe", text, sizeof(text) - 1);
	TRUE(r > 0);
	text[r > 0 ? r : 0] = 0;
	TRUE(text_equal(text, arguments[3]));
	r = k_open("/proc/self/exe", O_RDONLY);
	TRUE(r >= 0);
	IS(64, k_read(r, text, 64));
	TRUE(text[0] == 0x7f && *(uint64_t *)(text + 24) == eh->e_entry);
	k_close(r);
	name = arguments[3];
	for (const char *s = name; *s; s++) {
		if (*s == '/')
			name = s + 1;
	}
	RAW(SYS_prctl, PR_GET_NAME, comm, 0, 0, 0, 0);
	for (unsigned i = 0; i < 15 && (name[i] || comm[i]); i++)
		IS(name[i], comm[i]);
	for (char **a = arguments; *a; a++) {
		n = text_len(*a) + 1;
		memcpy(want + at, *a, n);
		at += n;
	}
	r = k_open("/proc/self/cmdline", O_RDONLY);
	IS(at, k_read(r, text, sizeof(text)));
	k_close(r);
	for (size_t i = 0; i < at; i++) {
		if (text[i] != want[i]) {
			IS(want[i], text[i]);
			break;
		}
	}
	/* The heap is one, and where it was. */
	heap = k_brk_grow(0);
	IS(heap, k_brk_grow(100000));
	for (long i = 0; i < 100000; i += 1000)
		*(volatile char *)(heap + i) = 1;
	IS(heap + 100000, k_brk_grow(-50000));
	IS(heap + 50000, k_brk_grow(0));
	IS(-ENOMEM, k_brk_grow(1l << 47));
	IS(1, *(volatile char *)(heap + 49000));
}

/* ---- a filter of the client's own ------------------------------------------- */

static void part_seccomp(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_access, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {8, f};
	struct gpu g;

	gpu_make(&g);
	IS(-EFAULT, RAW(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 8, 0, 0, 0));
	IS(-EINVAL, RAW(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &(struct sock_fprog){0}, 0, 0, 0));
	RAW(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
	IS(0, RAW(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog, 0, 0, 0));
	IS(-EXDEV, RAW(SYS_getppid, 0, 0, 0, 0, 0, 0));
	IS(-EXDEV, RAW(SYS_access, "/tmp", 0, 0, 0, 0, 0));
	gpu_run(&g);
	gpu_close(&g);
}

/* ---- how much a call costs -------------------------------------------------- */

static uint64_t now(void)
{
	long t[2] = {0, 0};

	RAW(SYS_clock_gettime, 1, t, 0, 0, 0, 0);
	return (uint64_t)t[0] * 1000000000u + (uint64_t)t[1];
}

/* The best of many short runs: what a busy machine does in between does not count. */
#define TIME(name, call)                                                                           \
	do {                                                                                       \
		uint64_t best_ = UINT64_MAX;                                                       \
		for (unsigned j_ = 0; j_ < 400; j_++) {                                            \
			uint64_t t_ = now();                                                       \
			for (unsigned i_ = 0; i_ < 50; i_++)                                       \
				call;                                                              \
			t_ = now() - t_;                                                           \
			best_ = t_ < best_ ? t_ : best_;                                           \
		}                                                                                  \
		say(name ": ");                                                                    \
		say_number((long)(best_ / 50));                                                    \
		say(" ns\n");                                                                      \
	} while (0)

static void part_cost(void)
{
	struct kfd_ioctl_get_version_args v = {0, 0};
	long mask = 0, fd = k_open("/dev/zero", O_RDONLY);
	char c;

	TIME("getppid, not trapped", RAW(SYS_getppid, 0, 0, 0, 0, 0, 0));
	TIME("read of another file, not trapped", RAW(SYS_read, fd, &c, 1, 0, 0, 0));
	TIME("access of another path", RAW(SYS_access, "/tmp", 0, 0, 0, 0, 0));
	TIME("rt_sigprocmask", RAW(SYS_rt_sigprocmask, 0, 0, &mask, 8, 0, 0));
	k_close(fd);
	fd = k_open("/dev/kfd", O_RDWR);
	if (fd < 0)
		return;
	TIME("ioctl of the device", RAW(SYS_ioctl, fd, AMDKFD_IOC_GET_VERSION, &v, 0, 0, 0));
	TIME("munmap of other memory", RAW(SYS_munmap, 4096, 4096, 0, 0, 0, 0));
	TIME("getppid with the device open", RAW(SYS_getppid, 0, 0, 0, 0, 0, 0));
	k_close(fd);
}

/* ------------------------------------------------------------------------- */

/* part self wants two more: the name it is executed by, and the file's own. */
static const struct {
	const char *name;
	void (*fn)(void);
} parts[] = {
	{"gpu", part_gpu},           {"threads", part_threads}, {"fork", part_fork},
	{"exec", part_exec},         {"vfork", part_vfork},     {"signals", part_signals},
	{"altstack", part_altstack}, {"self", part_self},       {"seccomp", part_seccomp},
	{"cost", part_cost},
};

static int run(int argc, char **argv, char **envp)
{
	long fd;

	arguments = argv;
	environment = envp;
	while (*envp)
		envp++;
	auxiliary = (Elf64_auxv_t *)(envp + 1);
	if (argc < 2)
		return 1;
	if (!text_equal(argv[1], "self") && !text_equal(argv[1], "cost")) {
		fd = k_open("/dev/kfd", O_RDWR | O_CLOEXEC);
		if (fd == -ENOENT) {
			say("no /dev/kfd\n");
			return 2;
		}
		k_close(fd);
	}
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (text_equal(parts[i].name, argv[1])) {
			parts[i].fn();
			return failures ? 1 : 0;
		}
	}
	return 1;
}

#ifdef BARE
__attribute__((used)) static void start(long *sp)
{
	long argc = sp[0];
	char **argv = (char **)(sp + 1);

	/* The only thread: exit is the process's. */
	RAW(SYS_exit, run((int)argc, argv, argv + argc + 1), 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n"
	"_start:\n"
	"	xorl %ebp, %ebp\n"
	"	movq %rsp, %rdi\n"
	"	andq $-16, %rsp\n"
	"	call start\n");
#else
int main(int argc, char **argv, char **envp)
{
	return run(argc, argv, envp);
}
#endif
