/* The interpreter's loop: fetch through a cache of decoded code, call the meaning, stop when the
 * wave has a reason to.
 *
 * Decoded code is kept per worker thread, a page at a time, with the bytes it was decoded from.
 * A page is looked at again when code may have changed: another mapping generation, or another
 * epoch (isa_icache_invalidate()); same bytes, same decode. Until then it may be stale, as an
 * instruction cache is. */
#include <errno.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#include "count/count.h"
#include "isa/delay.h"
#include "isa/operands.h"
#include "isa/shape.h"

#define PAGE_DWORDS (VM_PAGE / 4)
#define CACHE_PAGES 128

/* How the loop treats an instruction. */
enum slot_kind {
	SLOT_EMPTY,  /* not decoded yet */
	SLOT_SCALAR, /* once, whatever EXEC is */
	SLOT_VECTOR, /* per half, if any lane is active */
	SLOT_MASK,   /* per half, also without active lanes: it writes a scalar */
	SLOT_DUAL,   /* VOPD */
	SLOT_STOP,   /* has no meaning here */
	SLOT_ILLEGAL,
};

/* VOPD order: results may not reach the other half's operands. */
enum dual_order { DUAL_XY, DUAL_YX, DUAL_SWAP };

struct slot {
	isa_sem *fn;
	struct isa_insn *y; /* VOPD */
	struct isa_insn in;
	uint8_t kind;
	uint8_t order; /* VOPD */
	bool straddles;
};

struct code_page {
	uint64_t base; /* of the page; ~0: none */
	const struct vm *vm;
	uint64_t generation, epoch;
	bool straddlers; /* some slot's last dwords lie on the next page */
	uint32_t raw[PAGE_DWORDS];
	uint32_t filled[PAGE_DWORDS / 32];
	struct slot slot[PAGE_DWORDS];
};

struct isa_icache {
	struct code_page *page[CACHE_PAGES];
};

static uint64_t code_epoch = 1;

void isa_icache_invalidate(void)
{
	/* Release: whoever sees the new epoch sees the stores to code made before it. */
	__atomic_fetch_add(&code_epoch, 1, __ATOMIC_RELEASE);
}

uint64_t isa_code_epoch(void)
{
	return __atomic_load_n(&code_epoch, __ATOMIC_ACQUIRE);
}

/* Forgets what was decoded; with all false, only what reaches into the next page. */
static void page_clear(struct code_page *p, bool all)
{
	if (!all && !p->straddlers)
		return;
	for (unsigned i = 0; i < PAGE_DWORDS / 32; i++)
		for (uint32_t m = p->filled[i]; m; m &= m - 1) {
			unsigned bit = (unsigned)__builtin_ctz(m);
			struct slot *s = &p->slot[32 * i + bit];

			if (!all && !s->straddles)
				continue;
			free(s->y);
			memset(s, 0, sizeof(*s));
			p->filled[i] &= ~(1u << bit);
		}
	p->straddlers = false;
}

void isa_exec_fini(struct isa_exec *x)
{
	free(x->shadow);
	x->shadow = NULL;
	if (!x->icache)
		return;
	for (unsigned i = 0; i < CACHE_PAGES; i++) {
		if (x->icache->page[i])
			page_clear(x->icache->page[i], true);
		free(x->icache->page[i]);
	}
	free(x->icache);
	x->icache = NULL;
}

static void fetch_fault(struct isa_exec *x, struct vm_port *port)
{
	uint32_t w;

	/* The page was refused: ask for the instruction itself, so that the report names it. */
	vm_read(port, VM_FETCH, gva(x->w->pc), &w, sizeof(w), 0);
	port->fault.client = VM_CLIENT_SQC_INST;
	port->fault.lanes = 1;
	x->w->state = WAVE_HALTED;
	x->w->stop = STOP_FETCH_FAULT;
}

/* The page that holds PC, up to date; NULL after halting the wave. */
static __attribute__((noinline)) struct code_page *page_get(struct isa_exec *x)
{
	struct vm_port *port = x->imem ? x->imem : x->smem;
	uint64_t base = x->w->pc & ~(uint64_t)(VM_PAGE - 1), epoch;
	unsigned at = (unsigned)(base / VM_PAGE ^ base / VM_PAGE / CACHE_PAGES) % CACHE_PAGES;
	uint32_t raw[PAGE_DWORDS];
	struct code_page *p;

	if (x->w->pc & 3) {
		x->w->state = WAVE_HALTED;
		x->w->stop = STOP_ILLEGAL;
		return NULL;
	}
	if (!x->icache)
		x->icache = calloc(1, sizeof(*x->icache));
	p = x->icache ? x->icache->page[at] : NULL;
	epoch = isa_code_epoch();
	/* One small fetch keeps the port's view of the mappings current. */
	if (vm_read(port, VM_FETCH, gva(x->w->pc), raw, 4, 0)) {
		fetch_fault(x, port);
		return NULL;
	}
	if (p && p->base == base && p->vm == port->vm && p->generation == port->generation &&
	    p->epoch == epoch)
		return p;
	if (vm_read(port, VM_FETCH, gva(base), raw, sizeof(raw), 0)) {
		fetch_fault(x, port);
		return NULL;
	}
	if (!p) {
		p = x->icache ? calloc(1, sizeof(*p)) : NULL;
		if (!p) { /* no memory for the cache: the wave cannot run */
			x->w->state = WAVE_HALTED;
			x->w->stop = STOP_UNSUPPORTED;
			return NULL;
		}
		x->icache->page[at] = p;
		p->base = ~0ull;
	}
	page_clear(p, p->base != base || memcmp(p->raw, raw, sizeof(raw)) != 0);
	memcpy(p->raw, raw, sizeof(raw));
	p->base = base;
	p->vm = port->vm;
	p->generation = port->generation;
	p->epoch = epoch;
	return p;
}

static bool reads(const uint16_t *src, unsigned n, unsigned reg)
{
	for (unsigned i = 0; i < n; i++)
		if (src[i] == reg)
			return true;
	return false;
}

/* A VOPD's second half as an instruction of its own. */
static bool split_dual(struct slot *s)
{
	struct isa_insn *y = calloc(1, sizeof(*y));

	if (!y)
		return false;
	*y = s->in;
	y->op = s->in.y_op;
	y->sem = s->in.y_sem;
	y->dst = s->in.y_dst;
	memcpy(y->src, s->in.y_src, sizeof(s->in.y_src));
	s->y = y;
	if (!reads(y->src, 3, s->in.dst))
		s->order = DUAL_XY;
	else if (!reads(s->in.src, 3, y->dst))
		s->order = DUAL_YX;
	else
		s->order = DUAL_SWAP;
	return true;
}

static bool writes_scalar(const struct isa_insn *in)
{
	return in->sdst != OPR_NONE || isa_home[in->op] == ISA_VOPC ||
	       in->op == ISA_V_DIV_SCALE_F32 || in->op == ISA_V_DIV_SCALE_F64;
}

/* Low half of the mask in a scalar register pair, replaced by *v if there is one. */
static uint32_t mask_low(struct isa_wave *w, int code, const uint32_t *v)
{
	uint32_t old = code == OPR_EXEC_LO ? (uint32_t)w->exec : w->s[code];

	if (v && code == OPR_EXEC_LO)
		w->exec = (w->exec & 0xffffffff00000000ull) | *v;
	else if (v)
		w->s[code] = *v;
	return old;
}

static __attribute__((noinline)) void slot_fill(struct isa_exec *x, struct code_page *p,
						struct slot *s)
{
	struct vm_port *port = x->imem ? x->imem : x->smem;
	unsigned at = (unsigned)(s - p->slot), here = PAGE_DWORDS - at, n = here < 5 ? here : 5;
	unsigned flags;
	uint32_t w[5];
	int len;

	p->filled[at / 32] |= 1u << at % 32;
	memcpy(w, p->raw + at, 4 * n);
	len = isa_decode(w, n, &s->in);
	while (len == -ENODATA && n < 5) {
		if (vm_read(port, VM_FETCH, gva(p->base + 4 * (at + n)), &w[n], 4, 0)) {
			fetch_fault(x, port);
			return;
		}
		s->straddles = p->straddlers = true;
		len = isa_decode(w, ++n, &s->in);
	}
	if (len < 0) {
		memset(&s->in, 0, sizeof(s->in));
		s->kind = SLOT_ILLEGAL;
		return;
	}
	flags = isa_flags[s->in.op];
	s->fn = s->in.sem;
	if (s->in.op == ISA_V_ILLEGAL)
		s->kind = SLOT_ILLEGAL;
	else if (!s->fn || (s->in.y_op && !s->in.y_sem))
		s->kind = SLOT_STOP;
	else if (s->in.y_op)
		s->kind = split_dual(s) ? SLOT_DUAL : SLOT_STOP;
	else if (s->in.fmt <= ISA_SMEM || flags & OPF_ONCE)
		s->kind = SLOT_SCALAR;
	else if (writes_scalar(&s->in))
		s->kind = SLOT_MASK;
	else
		s->kind = SLOT_VECTOR;
}

static void run_dual(struct isa_exec *x, const struct slot *s)
{
	v32u before, *xdst;

	switch (s->order) {
	case DUAL_XY:
		s->fn(x, &s->in);
		s->y->sem(x, s->y);
		break;
	case DUAL_YX:
		s->y->sem(x, s->y);
		s->fn(x, &s->in);
		break;
	case DUAL_SWAP: {
		v32u after;

		xdst = isa_vgpr(x, s->in.dst);
		before = *xdst;
		s->fn(x, &s->in);
		after = *xdst;
		*xdst = before;
		s->y->sem(x, s->y);
		*xdst = after;
		break;
	}
	}
}

/* Half 0, then half 1. Both read the scalars from before: what half 0 writes of a lane mask is put
 * aside while half 1 runs. */
static __attribute__((noinline)) void run_wave64(struct isa_exec *x, const struct slot *s)
{
	int mask = s->kind == SLOT_MASK ? isa_mask_dst(&s->in) : -1;
	uint32_t before = 0, after = 0;

	if (mask >= 0)
		before = mask_low(x->w, mask, NULL);
	for (unsigned h = 0; h < 2; h++) {
		if (h && mask >= 0)
			after = mask_low(x->w, mask, &before);
		x->half = h;
		if (s->kind == SLOT_MASK)
			s->fn(x, &s->in);
		else if (!isa_exec_mask(x))
			continue;
		else if (s->kind == SLOT_DUAL)
			continue; /* wave32's alone: a wave64 skips it (RDNA3.5 ISA, "Dual issue") */
		else
			s->fn(x, &s->in);
		if (x->w->state != WAVE_RUN)
			break;
	}
	if (mask >= 0)
		mask_low(x->w, mask, &after);
	x->half = 0;
}

static inline __attribute__((always_inline)) uint64_t run(struct isa_exec *x, struct isa_wave *w,
							  uint64_t budget, const bool counted,
							  const bool delayed)
{
	uint64_t exec = 0, approximated = 0;
	unsigned csr = _mm_getcsr();
	struct code_page *p = NULL;
	uint64_t base = 1, n = 0;

	x->w = w;
	x->half = 0;
	/* Meanings count on nearest-even without flushing; they see to MODE themselves. */
	_mm_setcsr(0x1f80);
	while (n < budget && w->state == WAVE_RUN) {
		uint64_t off = w->pc - base;
		struct slot *s;

		if (__builtin_expect(off >= VM_PAGE || off & 3, 0)) {
			p = page_get(x);
			if (!p)
				goto out; /* all n have run */
			base = p->base;
			off = w->pc - base;
		}
		if (!p)
			__builtin_unreachable(); /* pc is whole dwords, base starts as none */
		s = &p->slot[off / 4];
		if (__builtin_expect(s->kind == SLOT_EMPTY, 0)) {
			slot_fill(x, p, s);
			if (s->kind == SLOT_EMPTY)
				goto out;
		}
		if (counted) {
			exec = w->exec;
			approximated = x->approximated;
		}
		w->pc += s->in.len;
		if (delayed) {
			enum delay_step step = isa_delay_step(x, &s->in, s->kind < SLOT_STOP);

			if (step == DELAY_YIELD)
				goto out; /* all n have run */
			if (step == DELAY_TAKEN)
				goto ran;
		}
		switch (s->kind) {
		case SLOT_SCALAR:
			s->fn(x, &s->in);
			if (__builtin_expect(s->in.op == ISA_S_ICACHE_INV, 0))
				base = 1;
			break;
		case SLOT_VECTOR:
			if (__builtin_expect(w->wave64, 0))
				run_wave64(x, s);
			else if ((uint32_t)w->exec)
				s->fn(x, &s->in);
			break;
		case SLOT_MASK:
			if (__builtin_expect(w->wave64, 0))
				run_wave64(x, s);
			else
				s->fn(x, &s->in);
			break;
		case SLOT_DUAL:
			if (__builtin_expect(w->wave64, 0))
				run_wave64(x, s);
			else if ((uint32_t)w->exec)
				run_dual(x, s);
			break;
		case SLOT_STOP:
			isa_halt(x, &s->in, STOP_UNSUPPORTED);
			break;
		default:
			isa_halt(x, &s->in, STOP_ILLEGAL);
			break;
		}
	ran:
		if (counted && (w->state != WAVE_HALTED || w->stop == STOP_NONE))
			count_insn(x->count, w, &s->in, exec, x->approximated - approximated);
		n++;
	}
	if (w->state == WAVE_HALTED && n && w->stop != STOP_NONE)
		n--; /* the instruction it stopped at has not run */
out:
	w->insns += n;
	_mm_setcsr(csr);
	return n;
}

uint64_t isa_run(struct isa_exec *x, struct isa_wave *w, uint64_t budget)
{
	if (__builtin_expect(w->delayed, 0))
		return run(x, w, budget, x->count != NULL, true);
	return __builtin_expect(x->count != NULL, 0) ? run(x, w, budget, true, false)
						     : run(x, w, budget, false, false);
}
