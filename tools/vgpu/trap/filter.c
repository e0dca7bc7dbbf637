/* The seccomp filters: which calls of the client come to the handler.
 *
 * Filters cannot be taken back, and of several the strictest wins, so there is one from the start,
 * one from the moment the device is open, and one for each descriptor number that ever was the
 * device's. All of them let through what our own code asks (by its address), and answer a question
 * that no kernel knows, by which an image started by exec finds out what it inherited.
 */
#include "trap/trap.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "kfd/vkfd.h"
#include "ownfd.h"
#include "vm/rawsys.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#define MAX_INSNS 400

struct program {
	unsigned n;
	struct sock_filter f[MAX_INSNS];
};

#define DATA(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define ARG_LO(i)   (DATA(args) + 8u * (i))
#define ARG_HI(i)   (ARG_LO(i) + 4u)
#define RET_TRAP    (SECCOMP_RET_TRAP | TRAP_DATA)
#define RET_ANSWER  (SECCOMP_RET_ERRNO | TRAP_ANSWER)

static void put(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	p->f[p->n++] = (struct sock_filter){code, jt, jf, k};
}

#define LD(p, off)    put(p, BPF_LD | BPF_W | BPF_ABS, off, 0, 0)
#define RET(p, value) put(p, BPF_RET | BPF_K, value, 0, 0)
/* if (A == k) return value; */
static void ret_if(struct program *p, uint32_t k, uint32_t value)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
	RET(p, value);
}

#define LATER 0xff /* a jump to the look at the caller, which finish() appends */

static void want_if(struct program *p, uint32_t k)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, k, LATER, 0);
}

/* What every filter begins with. Leaves the number in A. */
static void begin(struct program *p, uint32_t ask)
{
	p->n = 0;
	LD(p, DATA(arch));
	put(p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	RET(p, SECCOMP_RET_ALLOW);
	LD(p, DATA(nr));
	ret_if(p, ask, RET_ANSWER);
}

/* Wanted calls trap unless they come from the window. The caller's address is looked at last: for a
 * number that is decided before, the kernel notes that it need not run the filter. */
static void finish(struct program *p)
{
	unsigned look;

	RET(p, SECCOMP_RET_ALLOW);
	look = p->n;
	for (unsigned i = 0; i < look; i++) {
		if (p->f[i].jt == LATER)
			p->f[i].jt = (uint8_t)(look - i - 1);
	}
	LD(p, DATA(instruction_pointer) + 4);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(TRAP_WINDOW >> 32), 0, 4);
	LD(p, DATA(instruction_pointer));
	put(p, BPF_ALU | BPF_AND | BPF_K, 0xc0000000u, 0, 0);
	ret_if(p, (uint32_t)TRAP_WINDOW, SECCOMP_RET_ALLOW);
	RET(p, RET_TRAP);
}

static int load(struct program *p)
{
	struct sock_fprog prog = {.filter = p->f};
	long r;

	finish(p);
	prog.len = (unsigned short)p->n;
	r = rawsys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
	/* The id of a thread that has filters of its own. */
	return r > 0 ? -EBUSY : (int)r;
}

static bool there(long ask)
{
	return rawsys0(ask) == -TRAP_ANSWER;
}

/* Calls that take a path, make or end threads and processes, would show or take away SIGSYS, or bring
 * a descriptor of the device to a process that has not opened it. */
static const uint16_t always[] = {
	SYS_open,        SYS_stat,          SYS_lstat,      SYS_access,       SYS_truncate,
	SYS_chdir,       SYS_creat,         SYS_readlink,   SYS_getcwd,       SYS_getxattr,
	SYS_lgetxattr,   SYS_listxattr,     SYS_llistxattr, SYS_openat,       SYS_newfstatat,
	SYS_readlinkat,  SYS_faccessat,     SYS_statx,      SYS_openat2,      SYS_faccessat2,
	SYS_execve,      SYS_execveat,      SYS_clone,      SYS_clone3,       SYS_fork,
	SYS_vfork,       SYS_exit,          SYS_exit_group, SYS_rt_sigaction, SYS_rt_sigprocmask,
	SYS_sigaltstack, SYS_rt_sigsuspend, SYS_brk,        SYS_seccomp,      SYS_recvmsg,
	SYS_statfs,      SYS_fstatfs,       SYS_getdents64,
};

/* Waits with a signal mask: only where there is one. */
static const struct {
	uint16_t nr, arg;
} with_mask[] = {
	{SYS_ppoll, 3},
	{SYS_pselect6, 5},
	{SYS_epoll_pwait, 4},
	{SYS_epoll_pwait2, 4},
};

int filter_install(void)
{
	struct program p;

	if (there(TRAP_ASK))
		return 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	begin(&p, TRAP_ASK);
	ret_if(&p, TRAP_CALL_BACK, RET_TRAP);
	for (unsigned i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		want_if(&p, always[i]);
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3);
	LD(&p, ARG_LO(0));
	want_if(&p, PR_SET_SECCOMP);
	RET(&p, SECCOMP_RET_ALLOW);
	for (unsigned i = 0; i < sizeof(with_mask) / sizeof(with_mask[0]); i++) {
		put(&p, BPF_JMP | BPF_JEQ | BPF_K, with_mask[i].nr, 0, 5);
		LD(&p, ARG_LO(with_mask[i].arg));
		put(&p, BPF_JMP | BPF_JSET | BPF_K, ~0u, LATER, 0);
		LD(&p, ARG_HI(with_mask[i].arg));
		put(&p, BPF_JMP | BPF_JSET | BPF_K, ~0u, LATER, 0);
		RET(&p, SECCOMP_RET_ALLOW);
	}
	return load(&p);
}

/* Mappings, and calls that put any number on a descriptor or take a range of them. */
static const uint16_t device[] = {
	SYS_mmap,   SYS_munmap, SYS_mprotect, SYS_madvise,     SYS_msync,
	SYS_mremap, SYS_dup2,   SYS_dup3,     SYS_close_range,
};

int filter_device(void)
{
	struct program p;

	if (there(TRAP_ASK_DEVICE))
		return 0;
	begin(&p, TRAP_ASK_DEVICE);
	for (unsigned i = 0; i < sizeof(device) / sizeof(device[0]); i++)
		want_if(&p, device[i]);
	/* Numbers where the device's own descriptors are. */
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 0, 2);
	LD(&p, ARG_LO(0));
	put(&p, BPF_JMP | BPF_JGE | BPF_K, OWN_FD_FIRST, LATER, 0);
	return load(&p);
}

/* Calls whose first argument is the descriptor. */
static const uint16_t of_fd[] = {
	SYS_read,   SYS_write,   SYS_readv,   SYS_writev,   SYS_pread64, SYS_pwrite64,
	SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek,   SYS_ioctl,
	SYS_close,  SYS_fstat,   SYS_dup,     SYS_fcntl,
};

#define FD_FILTERS 16 /* then one for all numbers */

/* fd < 0: any. */
static int load_fd(int fd)
{
	struct program p;

	begin(&p, fd < 0 ? TRAP_ASK_ANY_FD : (uint32_t)(TRAP_ASK_FD + fd));
	for (unsigned i = 0; i < sizeof(of_fd) / sizeof(of_fd[0]); i++) {
		if (fd < 0) {
			want_if(&p, of_fd[i]);
			continue;
		}
		put(&p, BPF_JMP | BPF_JEQ | BPF_K, of_fd[i], 0, 3);
		LD(&p, ARG_LO(0));
		want_if(&p, (uint32_t)fd);
		RET(&p, SECCOMP_RET_ALLOW);
	}
	return load(&p);
}

int filter_fd(int fd)
{
	static unsigned loaded;
	int err;

	if (there(TRAP_ASK_ANY_FD) || there(TRAP_ASK_FD + fd))
		return 0;
	err = load_fd(__atomic_load_n(&loaded, __ATOMIC_RELAXED) < FD_FILTERS ? fd : -1);
	if (!err)
		__atomic_add_fetch(&loaded, 1, __ATOMIC_RELAXED);
	return err;
}

/* The client's filter judges the client: calls from the gate, but not what the device does behind
 * them. Where both filters trap, the newer one's word arrives, which is the client's. */
long filter_client(unsigned flags, uint64_t prog)
{
	struct sock_fprog theirs, ours;
	struct sock_filter *f;
	size_t bytes;
	long r;

	if (user_read(&theirs, prog, sizeof(theirs)))
		return -EFAULT;
	/* A thread that has filters of its own gets none of ours any more: all of them first. */
	r = filter_device();
	if (!r && !there(TRAP_ASK_ANY_FD))
		r = load_fd(-1);
	if (r)
		return r;
	if (!theirs.len || theirs.len > BPF_MAXINSNS)
		return -EINVAL;
	bytes = theirs.len * sizeof(*f);
	f = malloc(bytes + 8 * sizeof(*f));
	if (!f)
		return -ENOMEM;
	/* The image, not the gates below it: their addresses differ in bit 28. */
	f[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					    DATA(instruction_pointer) + 4);
	f[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
					    (uint32_t)(TRAP_WINDOW >> 32), 0, 4);
	f[2] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DATA(instruction_pointer));
	f[3] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0000000u);
	f[4] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
					    (uint32_t)TRAP_IMAGE & 0xf0000000u, 0, 1);
	f[5] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[6] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
	r = -EFAULT;
	if (!user_read(&f[7], (uint64_t)(uintptr_t)theirs.filter, bytes)) {
		ours = (struct sock_fprog){.len = (unsigned short)(theirs.len + 7), .filter = f};
		r = rawsys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &ours);
	}
	free(f);
	return r;
}
