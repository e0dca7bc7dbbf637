/* vgpu-trap FILE ARGV0 ARGS...: the program FILE with the virtual device in its kernel.
 *
 * The kernel has laid out a stack with arguments, environment and auxiliary vector for this file;
 * the client gets the same one, without the first two words and with its own addresses in the
 * vector.
 */
#include "trap/trap.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isa/jit_server.h"
#include "preload/preload.h"
#include "share/share.h"
#include "vm/rawsys.h"

#define HWCAP2_FSGSBASE 2 /* asm/hwcap2.h */

char trap_self[PATH_MAX], trap_exe[PATH_MAX];
uint8_t trap_fsgsbase;

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "vgpu-trap: %s: %s\n", what, why);
	return 127;
}

/* What the device reads of the environment must not change under it: the client owns its own. */
static int keep_environment(char **envp)
{
	size_t n = 0, bytes = 0;
	char **copy, *text;

	for (; envp[n]; n++)
		bytes += strlen(envp[n]) + 1;
	copy = malloc((n + 1) * sizeof(*copy) + bytes);
	if (!copy)
		return -ENOMEM;
	text = (char *)(copy + n + 1);
	for (size_t i = 0; i < n; i++) {
		copy[i] = strcpy(text, envp[i]);
		text += strlen(text) + 1;
	}
	copy[n] = NULL;
	environ = copy;
	return 0;
}

static void patch_auxv(char **envp, const struct image *exe, uint64_t base, const char *name)
{
	Elf64_auxv_t *a;

	while (*envp)
		envp++;
	for (a = (Elf64_auxv_t *)(envp + 1); a->a_type != AT_NULL; a++) {
		switch (a->a_type) {
		case AT_PHDR:
			a->a_un.a_val = exe->phdr;
			break;
		case AT_PHENT:
			a->a_un.a_val = sizeof(Elf64_Phdr);
			break;
		case AT_PHNUM:
			a->a_un.a_val = exe->phnum;
			break;
		case AT_BASE:
			a->a_un.a_val = base;
			break;
		case AT_ENTRY:
			a->a_un.a_val = exe->entry;
			break;
		case AT_EXECFN:
			a->a_un.a_val = (uint64_t)(uintptr_t)name;
			break;
		}
	}
}

/* What our libc has registered for this thread; the client's registers its own. */
static void unregister_libc(void)
{
	struct rseq *rs = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	if (__rseq_size && !rawsys4(SYS_rseq, rs, sizeof(*rs), RSEQ_FLAG_UNREGISTER, RSEQ_SIG))
		rs->cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED;
	rawsys1(SYS_set_tid_address, 0);
	rawsys2(SYS_set_robust_list, 0, 24);
}

/* /proc/self/cmdline begins where the client's arguments do. Needs no privilege as long as the file
 * stays; where the kernel refuses, two words more are shown. */
static void hide_words(const char *argv0)
{
	struct prctl_mm_map m = {.exe_fd = (uint32_t)-1};
	char text[1024], *s;
	long fd = rawsys4(SYS_openat, AT_FDCWD, "/proc/self/stat", 0, 0), n;
	unsigned long long f[52] = {0};

	if (fd < 0)
		return;
	n = rawsys3(SYS_read, fd, text, sizeof(text) - 1);
	rawsys1(SYS_close, fd);
	if (n <= 0)
		return;
	text[n] = 0;
	s = strrchr(text, ')');
	if (!s || !s[1] || !s[2])
		return;
	s += 3; /* past the state: field 4 on */
	for (unsigned i = 4; i < 52 && *s; i++)
		f[i] = strtoull(s, &s, 10);
	/* proc_pid_stat(5): 26-28 code and stack, 45-51 data, brk, arguments, environment */
	m.start_code = f[26];
	m.end_code = f[27];
	m.start_stack = f[28];
	m.start_data = f[45];
	m.end_data = f[46];
	m.start_brk = f[47];
	m.brk = (uint64_t)rawsys1(SYS_brk, 0);
	m.arg_start = (uint64_t)(uintptr_t)argv0;
	m.arg_end = f[49];
	m.env_start = f[50];
	m.env_end = f[51];
	rawsys6(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &m, sizeof(m), 0, 0);
}

static void name_process(const char *path)
{
	const char *slash = strrchr(path, '/');

	prctl(PR_SET_NAME, slash ? slash + 1 : path, 0, 0, 0);
}

static void fd_is_ours(int fd)
{
	int err = filter_device();

	if (!err)
		err = filter_fd(fd);
	if (err)
		vgpu_report("vgpu-trap: descriptor %d: seccomp: %s: calls on it are not trapped",
			    fd, strerror(-err));
}

/* The same again with the interpreter. */
static int run_script(const char *interp, const char *arg, int argc, char **argv)
{
	const char **v = calloc((size_t)argc + 4, sizeof(*v)), **w = v;

	if (!v)
		return fail(argv[1], strerror(ENOMEM));
	*w++ = trap_self;
	*w++ = interp;
	*w++ = interp;
	if (arg)
		*w++ = arg;
	*w++ = argv[1];
	memcpy(w, argv + 3, (size_t)(argc - 3) * sizeof(*w));
	execv(trap_self, (char **)(uintptr_t)v);
	free(v);
	return fail(trap_self, strerror(errno));
}

int main(int argc, char **argv, char **envp)
{
	struct image exe, interp = {0};
	kernel_sigset all = ~0ull, mask = 0;
	struct block *me;
	char line[256];
	ssize_t n;
	int r;

	if (argc < 3) {
		fprintf(stderr, "Usage: vgpu-trap FILE ARGV0 [ARGS]\n"
				"Started by 'barewave vgpu --trap'.\n");
		return 2;
	}
	n = readlink("/proc/self/exe", trap_self, sizeof(trap_self) - 1);
	if (n < 0)
		return fail("/proc/self/exe", strerror(errno));
	if (!realpath(argv[1], trap_exe)) {
		/* A file that has no name any more, or never had: what the kernel calls it. */
		n = readlink(argv[1], trap_exe, sizeof(trap_exe) - 1);
		if (n < 0)
			return fail(argv[1], strerror(errno));
	}
	trap_fsgsbase = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE ? 1 : 0;
	if (keep_environment(envp))
		return fail(argv[1], strerror(ENOMEM));
	r = image_probe(argv[1], line, sizeof(line));
	if (r == IMAGE_SCRIPT) {
		const char *interp_name, *arg;

		r = image_script(line, &interp_name, &arg);
		if (r)
			return fail(argv[1], strerror(-r));
		return run_script(interp_name, arg, argc, argv);
	}
	if (r == IMAGE_OTHER_ARCH)
		return fail(argv[1], "not an x86-64 program");
	if (r == IMAGE_ELF)
		r = image_map(argv[1], &exe, false);
	if (r)
		return fail(argv[1], strerror(-r));
	if (exe.interp[0]) {
		r = image_map(exe.interp, &interp, true);
		if (r)
			return fail(exe.interp, strerror(-r));
	}
	if (!strcmp(argv[0], TRAP_CLOSE_FILE))
		close(atoi(strrchr(argv[1], '/') + 1));
	/* From here on everything runs as it will in the handler. */
	rawsys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof(all));
	vgpu_is_static = true;
	jit_server_via = trap_self;
	vfd_installed = fd_is_ours;
	sleep_init();
	brk_init(exe.end);
	r = gate_init();
	if (!r)
		r = blocks_init();
	if (r)
		return fail(argv[1], strerror(-r));
	me = trap_blocks[rawsys0(SYS_gettid)];
	me->sys_blocked = mask & SIGBIT(SIGSYS);
	mask &= ~SIGBIT(SIGSYS);
	if (exe.exec_stack)
		rawsys3(SYS_mprotect, (uintptr_t)argv & ~4095ull, 4096,
			PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN);
	patch_auxv(envp, &exe, interp.bias, argv[1]);
	name_process(argv[1]);
	hide_words(argv[2]);
	unregister_libc();
	rawsys2(SYS_sigaltstack, &me->alt, 0);
	r = trap_handler_install();
	if (!r)
		r = filter_install();
	/* Descriptors of other processes may come before the device is opened here. */
	if (!r && share_on())
		r = filter_device();
	if (r)
		return fail("seccomp", strerror(-r));
	kept_attach();
	/* argc's word moves up by the two that go: the stack stays aligned. */
	*(uint64_t *)&argv[1] = (uint64_t)argc - 2;
	rawsys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof(mask));
	trap_go(interp.entry ? interp.entry : exe.entry, (uint64_t)(uintptr_t)&argv[1]);
}
