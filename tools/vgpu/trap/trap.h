/* The trap backend: clients that enter the kernel without libc.
 *
 * The loader (main.c) puts the program into its own address space, installs a seccomp filter that
 * sends SIGSYS for the calls that may concern the device, and starts it. The handler (entry.S,
 * signal.c) runs on the client's thread: it takes a block (block.c), which has a stack and a thread
 * pointer of our libc's, and from there on is ordinary code that calls the same hooks that the
 * preloaded library has. A call that is not the device's is sent on from a gate (gate.c), where the
 * filter allows it: by the client itself, in its own context, so that signals, restarts, stacks and
 * thread pointers are as if nothing had happened.
 */
#ifndef VGPU_TRAP_H
#define VGPU_TRAP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <ucontext.h>

#include "preload/preload.h"
#include "trap/layout.h"

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code; asm-generic/siginfo.h */
#endif

typedef uint64_t kernel_sigset; /* the kernel's: 64 signals */
#define SIGBIT(sig) (1ull << ((sig) - 1))

/* What is undone or finished when a call that was sent on has returned. */
enum post_kind {
	POST_REGISTERS, /* arguments were replaced */
	POST_RECVMSG,   /* descriptors may have arrived */
	POST_VFORK,     /* the child is gone from this address space */
	POST_EXEC,      /* it failed */
	POST_CLONE,     /* it failed: the child's block is free */
};

struct post {
	enum post_kind kind;
	bool used;
	unsigned serial;
	uint64_t ret;         /* the client's next instruction */
	greg_t saved[6];      /* rdi, rsi, rdx, r10, r8, r9 */
	kernel_sigset mask;   /* stands in for the caller's */
	uint64_t mask_arg[2]; /* pselect6: pointer and size */
	void *mem;            /* POST_EXEC: the argument vector */
	size_t mem_bytes;
	int fd;              /* POST_EXEC: the image's, -1 if it has a name */
	struct block *child; /* POST_CLONE */
};

/* One for each thread of the client. The first members are entry.S's. */
struct block {
	uint64_t fs;        /* thread pointer of our libc's, lent by a thread that sleeps */
	uint64_t stack_top; /* for the handler */
	uint64_t client_fs;
	stack_t alt; /* where SIGSYS arrives while the client has no alternate stack */
	int tid;     /* 0: free */
	bool leaving;
	bool other;       /* of another process that shares memory with the client, */
	bool foreign;     /* but not descriptors: a vfork child */
	bool sys_blocked; /* what the client believes about SIGSYS */
	unsigned index;
	unsigned serial;
	struct post posts[TRAP_POSTS]; /* by stub; the first is clone's */
	struct block *next;            /* of the free ones */
	void *exec_mem;
	struct kept kept; /* what descriptors refer to, for the image that comes */
	size_t exec_bytes;
};

/* ---- entry.S -------------------------------------------------------------- */

void trap_entry(int sig, siginfo_t *info, void *uc);
void trap_restorer(void);
extern uint8_t trap_fsgsbase; /* the instructions exist: entry.S needs no system call */
extern const uint8_t trap_start_code[], trap_start_data[], trap_start_end[];
/* Leaves for the client: never comes back. */
void trap_go(uint64_t entry, uint64_t sp) __attribute__((noreturn));
void trap_set_fs(uint64_t fs);
uint64_t trap_get_fs(void);

/* ---- block.c -------------------------------------------------------------- */

#define TRAP_TIDS (1u << 22)       /* PID_MAX_LIMIT */
extern struct block **trap_blocks; /* by thread id */

int blocks_init(void);               /* and the calling thread's own; 0 or -errno */
struct block *block_adopt(long tid); /* entry.S: a thread that nobody announced. No TLS there */
struct block *block_take(void);      /* NULL when there is no memory */
struct block *block_by_index(unsigned i);
/* n more (or fewer) children will come without a block; false when there is no memory. */
bool blocks_expect(int n);
void block_give(struct block *b);     /* its thread never was or is no more */
void blocks_forked(struct block *me); /* in a forked child: the others are gone */
/* As many threads as the client started: exit() of the last one ends the process. */
extern int trap_threads;

/* ---- gate.c --------------------------------------------------------------- */

int gate_init(void);
void gate_forked(void);
/* The slot for calls that return to ret, or 0 when there are no more. */
uint64_t gate_slot(uint64_t ret);
/* The i-th of b's calls that come back. */
uint64_t gate_post(const struct block *b, unsigned i);
/* Is this one coming back? Whose (the block's index), which, and with what. */
bool gate_posted(uint64_t ip, unsigned *block, unsigned *i, long *result);
/* Code that makes clone() and starts b's thread; the parent goes on at ret, or, when it failed, as a
 * call of its that comes back. */
uint64_t gate_start(const struct block *b, uint64_t ret, uint64_t failed);

/* ---- filter.c ------------------------------------------------------------- */

int filter_install(void); /* 0 or -errno; nothing when it is inherited */
int filter_device(void);  /* the device is open: mappings matter */
int filter_fd(int fd);    /* fd is the device's, or was */
/* A filter of the client's own, made blind for this file's code. 0 or -errno. */
long filter_client(unsigned flags, uint64_t prog);

/* ---- signal.c ------------------------------------------------------------- */

/* entry.S: 0, or the client's own handler to go on with. */
uint64_t trap_signal(struct block *b, siginfo_t *info, ucontext_t *uc);
int trap_handler_install(void);

struct call {
	struct block *b;
	ucontext_t *uc;
	greg_t *r;
	long nr;
	long a[6];
};

/* What a call answers besides its result. */
enum {
	CALL_PASS = -0x10000, /* send it on as it is */
	CALL_DONE = -0x10001, /* the context says it all */
};

long call_dispatch(struct call *c);
/* Sends the call on, to come back; the caller fills in what the kind needs. */
struct post *call_post(struct call *c, enum post_kind kind);

/* ---- sigcalls.c ----------------------------------------------------------- */

long call_sigaction(struct call *c);
long call_sigprocmask(struct call *c);
long call_sigaltstack(struct call *c);
/* The mask that the call waits with, by the number of its argument. */
long call_with_mask(struct call *c, unsigned arg);
long call_pselect(struct call *c);
/* Our handler met a SIGSYS that is none of ours. */
uint64_t sigsys_forward(struct block *b, siginfo_t *info, ucontext_t *uc);
/* A signal waits that the client would take now, had the handler not blocked it. */
bool signal_waits(void);
bool signal_restarts(const struct call *c); /* ... and asks for the call to be made again */
/* The client's mask, for the two above: from the frame. */
void signal_client_mask(ucontext_t *uc);
void sleep_init(void);

/* ---- process.c ------------------------------------------------------------ */

long call_clone(struct call *c);
void thread_failed(struct block *child); /* clone() did */
long call_exec(struct call *c, int dirfd, uint64_t path, uint64_t argv, uint64_t envp, int flags);
long call_exit(struct call *c);
long call_exit_group(struct call *c);
long call_brk(struct call *c);
void brk_init(uint64_t start);

/* ---- image.c, main.c ------------------------------------------------------ */

struct image {
	uint64_t bias, entry, phdr, end;
	unsigned phnum;
	char interp[256];
	bool dynamic_base, exec_stack;
};

enum image_kind { IMAGE_ELF, IMAGE_SCRIPT, IMAGE_OTHER_ARCH };
/* What the file is, or why it cannot be executed: -errno as execve() has it. */
int image_probe(const char *path, char *line, size_t n);
/* Takes the first line of a script apart, in place. */
int image_script(char *line, const char **interp, const char **arg);
int image_map(const char *path, struct image *out, bool interpreter);

/* argv[0] of this loader when the file it is given is a descriptor to close. */
#define TRAP_CLOSE_FILE "vgpu-trap: close"
extern char trap_self[]; /* this file */
extern char trap_exe[];  /* the client's */

/* A string of the client's: its length or -EFAULT, -ENAMETOOLONG. */
long user_string(char *out, size_t n, uint64_t from);

#endif
