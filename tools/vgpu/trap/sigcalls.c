/* What the client sees of SIGSYS, and of its signals while the handler blocks them.
 *
 * The kernel must never find SIGSYS blocked or ignored when a call is trapped: it would kill the
 * client. So masks lose it on their way to the kernel, and its disposition is kept here. The handler
 * leaves through sigreturn, which sets the mask from the frame: the client's calls that change it
 * change the frame.
 */
#include "trap/trap.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "kfd/vkfd.h"
#include "vm/rawsys.h"

struct action {
	uint64_t handler, flags, restorer;
	kernel_sigset mask;
};

static struct action sigsys;     /* the client's */
static kernel_sigset sys_masked; /* signals whose handlers would block SIGSYS */
/* Handlers that want an alternate stack run on the normal one as long as the client has none; the
 * kernel, which has ours, is told only when the client's first comes. */
static kernel_sigset on_stack;
static bool has_stack;

static kernel_sigset *frame_mask(ucontext_t *uc)
{
	/* The kernel's set is 8 bytes; libc's has room for more, which the frame does not. */
	return (kernel_sigset *)&uc->uc_sigmask;
}

/* ---- dispositions --------------------------------------------------------- */

long call_sigaction(struct call *c)
{
	int sig = (int)c->a[0];
	struct action act = {0}, old = {0};
	long r;

	if (c->a[3] != sizeof(kernel_sigset))
		return CALL_PASS;
	if (c->a[1] && user_read(&act, (uint64_t)c->a[1], sizeof(act)))
		return -EFAULT;
	if (sig == SIGSYS) {
		old = sigsys;
		if (c->a[1] && !c->b->other)
			sigsys = act;
	} else {
		kernel_sigset bit = sig >= 1 && sig <= 64 ? SIGBIT(sig) : 0;
		bool masked = __atomic_load_n(&sys_masked, __ATOMIC_RELAXED) & bit;
		bool masks = act.mask & SIGBIT(SIGSYS);
		bool stacked = __atomic_load_n(&on_stack, __ATOMIC_RELAXED) & bit;
		bool stacks =
			!__atomic_load_n(&has_stack, __ATOMIC_RELAXED) && (act.flags & SA_ONSTACK);

		act.mask &= ~SIGBIT(SIGSYS);
		if (stacks)
			act.flags &= ~(uint64_t)SA_ONSTACK;
		r = rawsys4(SYS_rt_sigaction, sig, c->a[1] ? &act : NULL, c->a[2] ? &old : NULL,
			    sizeof(kernel_sigset));
		if (r)
			return r;
		if (masked)
			old.mask |= SIGBIT(SIGSYS);
		if (stacked)
			old.flags |= SA_ONSTACK;
		/* A vfork child has handlers of its own, and soon another image. */
		if (c->a[1] && masks != masked && !c->b->other)
			__atomic_fetch_xor(&sys_masked, bit, __ATOMIC_RELAXED);
		if (c->a[1] && stacks != stacked && !c->b->other)
			__atomic_fetch_xor(&on_stack, bit, __ATOMIC_RELAXED);
	}
	return c->a[2] && user_write((uint64_t)c->a[2], &old, sizeof(old)) ? -EFAULT : 0;
}

/* ---- masks ---------------------------------------------------------------- */

long call_sigprocmask(struct call *c)
{
	kernel_sigset *mask = frame_mask(c->uc), set, old = *mask, now = old;

	if (c->a[3] != sizeof(set))
		return -EINVAL;
	if (c->b->sys_blocked)
		old = now |= SIGBIT(SIGSYS);
	if (c->a[1]) {
		if (user_read(&set, (uint64_t)c->a[1], sizeof(set)))
			return -EFAULT;
		switch (c->a[0]) {
		case SIG_BLOCK:
			now |= set;
			break;
		case SIG_UNBLOCK:
			now &= ~set;
			break;
		case SIG_SETMASK:
			now = set;
			break;
		default:
			return -EINVAL;
		}
		now &= ~(SIGBIT(SIGKILL) | SIGBIT(SIGSTOP));
		c->b->sys_blocked = now & SIGBIT(SIGSYS);
		*mask = now & ~SIGBIT(SIGSYS);
	}
	return c->a[2] && user_write((uint64_t)c->a[2], &old, sizeof(old)) ? -EFAULT : 0;
}

long call_with_mask(struct call *c, unsigned arg)
{
	static const int regs[6] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
	kernel_sigset mask;
	struct post *p;

	if (user_read(&mask, (uint64_t)c->a[arg], sizeof(mask)) || !(mask & SIGBIT(SIGSYS)))
		return CALL_PASS;
	p = call_post(c, POST_REGISTERS);
	p->mask = mask & ~SIGBIT(SIGSYS);
	c->r[regs[arg]] = (greg_t)&p->mask;
	return CALL_DONE;
}

long call_pselect(struct call *c)
{
	kernel_sigset mask;
	uint64_t arg[2]; /* pointer, size */
	struct post *p;

	if (user_read(arg, (uint64_t)c->a[5], sizeof(arg)) || !arg[0] ||
	    user_read(&mask, arg[0], sizeof(mask)) || !(mask & SIGBIT(SIGSYS)))
		return CALL_PASS;
	p = call_post(c, POST_REGISTERS);
	p->mask = mask & ~SIGBIT(SIGSYS);
	p->mask_arg[0] = (uint64_t)&p->mask;
	p->mask_arg[1] = arg[1];
	c->r[REG_R9] = (greg_t)p->mask_arg;
	return CALL_DONE;
}

/* ---- alternate stacks ----------------------------------------------------- */

#define AUTODISARM         INT_MIN /* SS_AUTODISARM, bit 31 */
#define KERNEL_MINSIGSTKSZ 2048

static void stack_appeared(void)
{
	struct action a = {0};
	kernel_sigset all;

	if (__atomic_exchange_n(&has_stack, true, __ATOMIC_RELAXED))
		return;
	all = __atomic_exchange_n(&on_stack, 0, __ATOMIC_RELAXED);
	for (int sig = 1; sig <= 64; sig++) {
		if (!(all & SIGBIT(sig)) ||
		    rawsys4(SYS_rt_sigaction, sig, 0, &a, sizeof(kernel_sigset)))
			continue;
		a.flags |= SA_ONSTACK;
		rawsys4(SYS_rt_sigaction, sig, &a, 0, sizeof(kernel_sigset));
	}
}

/* kernel/signal.c:do_sigaltstack(). While the client has none, the kernel has ours. */
long call_sigaltstack(struct call *c)
{
	stack_t *now = &c->uc->uc_stack, old = *now, set;
	uint64_t sp = (uint64_t)c->r[REG_RSP], base = (uint64_t)now->ss_sp;
	bool ours = now->ss_sp == c->b->alt.ss_sp, on;
	int mode;
	long r;

	on = !ours && !(now->ss_flags & AUTODISARM) && sp > base && sp - base <= now->ss_size;
	if (ours)
		old = (stack_t){.ss_flags = SS_DISABLE};
	else
		old.ss_flags = (now->ss_size ? on ? SS_ONSTACK : 0 : SS_DISABLE) |
			       (now->ss_flags & AUTODISARM);
	if (c->a[0]) {
		if (user_read(&set, (uint64_t)c->a[0], sizeof(set)))
			return -EFAULT;
		mode = set.ss_flags & ~AUTODISARM;
		if (on)
			return -EPERM;
		if (mode != SS_DISABLE && mode != SS_ONSTACK && mode)
			return -EINVAL;
		if (mode == SS_DISABLE)
			set = c->b->alt;
		else if (set.ss_size < KERNEL_MINSIGSTKSZ)
			return -ENOMEM;
		/* Sigreturn sets it from the frame, unless it runs on the old one. */
		r = rawsys2(SYS_sigaltstack, &set, 0);
		if (r)
			return r;
		*now = set;
		if (mode != SS_DISABLE)
			stack_appeared();
	}
	return c->a[1] && user_write((uint64_t)c->a[1], &old, sizeof(old)) ? -EFAULT : 0;
}

/* ---- SIGSYS of others ----------------------------------------------------- */

uint64_t sigsys_forward(struct block *b, siginfo_t *info, ucontext_t *uc)
{
	struct action a = sigsys, dfl = {0};
	kernel_sigset mask = *frame_mask(uc);
	/* What a filter of the client's raises cannot be blocked or ignored. */
	bool forced = info->si_code == SYS_SECCOMP;

	if (a.handler == (uint64_t)SIG_IGN && !forced)
		return 0;
	if (a.handler <= 1 || (forced && b->sys_blocked)) {
		kernel_sigset none = ~SIGBIT(SIGSYS);

		rawsys4(SYS_rt_sigaction, SIGSYS, &dfl, 0, sizeof(mask));
		rawsys3(SYS_tgkill, rawsys0(SYS_getpid), rawsys0(SYS_gettid), SIGSYS);
		rawsys4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof(none));
		rawsys1(SYS_exit_group, 128 + SIGSYS);
	}
	if (a.flags & SA_RESETHAND)
		sigsys.handler = 0;
	mask |= a.mask & ~SIGBIT(SIGSYS);
	rawsys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof(mask));
	return a.handler;
}

/* ---- signals that arrive while a call of the device waits ------------------ */

static _Thread_local kernel_sigset client_mask; /* of the thread that runs the handler */

void signal_client_mask(ucontext_t *uc)
{
	client_mask = *frame_mask(uc);
}

static bool ignored(int sig, const struct action *a)
{
	return a->handler == (uint64_t)SIG_IGN ||
	       (!a->handler &&
		(sig == SIGCHLD || sig == SIGURG || sig == SIGWINCH || sig == SIGCONT));
}

/* The first one that the kernel will deliver, or 0. */
static int first_waiting(struct action *a)
{
	kernel_sigset pending = 0;

	if (rawsys2(SYS_rt_sigpending, &pending, sizeof(pending)))
		return 0;
	pending &= ~client_mask;
	for (int sig = 1; sig <= 64; sig++) {
		if (!(pending & SIGBIT(sig)))
			continue;
		if (!rawsys4(SYS_rt_sigaction, sig, 0, a, sizeof(kernel_sigset)) &&
		    !ignored(sig, a))
			return sig;
	}
	return 0;
}

bool signal_waits(void)
{
	struct action a;

	return first_waiting(&a) != 0;
}

bool signal_restarts(const struct call *c)
{
	struct action a;

	(void)c;
	return !first_waiting(&a) || !a.handler || (a.flags & SA_RESTART);
}

#define SLICE_NS 4000000 /* how late a signal may be noticed */

/* The device's waits: the handler has all signals blocked, so the kernel interrupts nothing. */
static long sleep_sliced(uint32_t *futex, uint32_t seen, uint64_t ns)
{
	struct timespec slice = {0, SLICE_NS};
	long r;

	do {
		if (signal_waits())
			return -EINTR;
		if (ns < SLICE_NS)
			slice.tv_nsec = (long)ns;
		r = rawsys6(SYS_futex, futex, FUTEX_WAIT_PRIVATE, seen, &slice, NULL, 0);
		ns -= ns == UINT64_MAX ? 0 : (uint64_t)slice.tv_nsec;
	} while (r == -ETIMEDOUT && ns);
	return r;
}

void sleep_init(void)
{
	vgpu_sleep = sleep_sliced;
}
