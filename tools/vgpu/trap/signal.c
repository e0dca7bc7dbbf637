/* SIGSYS: from the client's registers to a call and back. */
#include "trap/trap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "preload/preload.h"
#include "vm/rawsys.h"

static const int arg_regs[6] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};

/* Sends the call on from the gate. Where there is no room in it, from here: signals then wait. */
static void pass(struct call *c)
{
	uint64_t slot = gate_slot((uint64_t)c->r[REG_RIP]);

	if (slot)
		c->r[REG_RIP] = (greg_t)slot;
	else
		c->r[REG_RAX] = rawsys(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
}

/* A handler that was left by a jump never comes back for what it had here: the oldest goes. */
static unsigned post_choose(struct block *b, enum post_kind kind)
{
	unsigned oldest = 1;

	/* Comes back when it fails only. */
	if (kind == POST_CLONE)
		return 0;
	for (unsigned i = 1; i < TRAP_POSTS; i++) {
		if (!b->posts[i].used)
			return i;
		if ((int)(b->posts[i].serial - b->posts[oldest].serial) < 0)
			oldest = i;
	}
	return oldest;
}

struct post *call_post(struct call *c, enum post_kind kind)
{
	unsigned i = post_choose(c->b, kind);
	struct post *p = &c->b->posts[i];

	*p = (struct post){.kind = kind,
			   .used = true,
			   .serial = c->b->serial++,
			   .ret = (uint64_t)c->r[REG_RIP]};
	for (unsigned k = 0; k < 6; k++)
		p->saved[k] = c->a[k];
	c->r[REG_RIP] = (greg_t)gate_post(c->b, i);
	return p;
}

/* Descriptors that arrived are the device's if they are an open file that we know. */
static void received(uint64_t msg)
{
	struct msghdr m;
	uint8_t control[4096];
	size_t n;

	if (user_read(&m, msg, sizeof(m)) || !m.msg_control)
		return;
	n = m.msg_controllen < sizeof(control) ? m.msg_controllen : sizeof(control);
	if (user_read(control, (uint64_t)(uintptr_t)m.msg_control, n))
		return;
	m.msg_control = control;
	m.msg_controllen = n;
	fds_received(&m);
}

/* The call has returned. A vfork child comes out of its parent's. */
static void post(struct block *b, greg_t *r, struct block *owner, unsigned i, long result)
{
	struct post *p = &owner->posts[i];

	r[REG_RIP] = (greg_t)p->ret;
	r[REG_RAX] = result;
	for (unsigned k = 0; k < 6; k++)
		r[arg_regs[k]] = p->saved[k];
	if (owner != b)
		return;
	p->used = false;
	switch (p->kind) {
	case POST_REGISTERS:
		break;
	case POST_RECVMSG:
		if (result >= 0)
			received((uint64_t)p->saved[1]);
		break;
	case POST_VFORK:
		blocks_expect(-1);
		if (result > 0 && (unsigned long)result < TRAP_TIDS && trap_blocks[result])
			block_give(trap_blocks[result]);
		break;
	case POST_EXEC:
		rawsys2(SYS_munmap, p->mem, p->mem_bytes);
		b->exec_mem = NULL;
		kept_end(&b->kept);
		if (p->fd >= 0)
			rawsys1(SYS_close, p->fd);
		break;
	case POST_CLONE:
		thread_failed(p->child);
		break;
	}
}

uint64_t trap_signal(struct block *b, siginfo_t *info, ucontext_t *uc)
{
	greg_t *r = uc->uc_mcontext.gregs;
	uint64_t ip = (uint64_t)r[REG_RIP];
	struct call c = {.b = b, .uc = uc, .r = r, .nr = info->si_syscall};
	unsigned whose, which;
	long result;

	if (info->si_code != SYS_SECCOMP || info->si_errno != TRAP_DATA)
		return sigsys_forward(b, info, uc);
	if (c.nr == TRAP_CALL_BACK) {
		if (gate_posted(ip, &whose, &which, &result))
			post(b, r, block_by_index(whose), which, result);
		else
			r[REG_RAX] = -ENOSYS;
		return 0;
	}
	for (unsigned i = 0; i < 6; i++)
		c.a[i] = (long)r[arg_regs[i]];
	result = call_dispatch(&c);
	if (result == CALL_PASS)
		pass(&c);
	else if (result != CALL_DONE)
		r[REG_RAX] = result;
	return 0;
}

struct kernel_sigaction {
	void (*handler)(int, siginfo_t *, void *);
	uint64_t flags;
	void (*restorer)(void);
	kernel_sigset mask;
};

#define SA_RESTORER 0x04000000

int trap_handler_install(void)
{
	struct kernel_sigaction act = {
		.handler = trap_entry,
		.flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
		.restorer = trap_restorer,
		.mask = ~0ull,
	};

	return (int)rawsys4(SYS_rt_sigaction, SIGSYS, &act, 0, sizeof(act.mask));
}
