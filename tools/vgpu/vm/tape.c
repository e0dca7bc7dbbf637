/* Recording and replaying what a wave asks for. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/tape.h"

enum { T_LANES, T_SPAN, T_ASK };

struct entry {
	uint32_t kind, op, mask, size, cache;
	uint32_t bytes_in, bytes_out; /* follow: what was asked with, what was answered */
	uint32_t faulted;
	struct vm_port *real;
	struct vm_fault fault;
};

void vm_front_init(struct vm_front *f, struct vm_port *real, struct vm_tape *t)
{
	memset(f, 0, sizeof(*f));
	/* The front port's TLB stays empty and nobody binds it: nothing goes past the tape. */
	vm_port_init(&f->port, real->vm, real->client);
	f->port.tape = t;
	f->real = real;
}

void vm_tape_record(struct vm_tape *t)
{
	t->replay = t->differs = false;
	t->n = t->at = 0;
	t->why[0] = 0;
}

void vm_tape_rewind(struct vm_tape *t)
{
	t->replay = true;
	t->differs = false;
	t->at = 0;
	t->why[0] = 0;
}

void vm_tape_fini(struct vm_tape *t)
{
	free(t->bytes);
	memset(t, 0, sizeof(*t));
}

static void differs(struct vm_tape *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void differs(struct vm_tape *t, const char *fmt, ...)
{
	va_list ap;

	if (t->differs)
		return;
	t->differs = true;
	va_start(ap, fmt);
	vsnprintf(t->why, sizeof(t->why), fmt, ap);
	va_end(ap);
}

static void append(struct vm_tape *t, const void *p, size_t n)
{
	if (t->n + n > t->cap) {
		size_t cap = 2 * t->cap + n + 4096;
		uint8_t *b = realloc(t->bytes, cap);

		if (!b) {
			differs(t, "no memory for a tape of %zu bytes", cap);
			return;
		}
		t->bytes = b;
		t->cap = cap;
	}
	memcpy(t->bytes + t->n, p, n);
	t->n += n;
}

static const char *op_name(unsigned op)
{
	static const char *const names[] = {"load", "store", "fetch",   "swap", "cmpswap", "add",
					    "sub",  "csub",  "smin",    "umin", "smax",    "umax",
					    "and",  "or",    "xor",     "inc",  "dec",     "fadd",
					    "fmin", "fmax",  "fcmpswap"};

	return op < sizeof(names) / sizeof(*names) ? names[op] : "?";
}

static void describe(const struct entry *e, char *buf, size_t n)
{
	if (e->kind == T_ASK)
		snprintf(buf, n, "a question of kind %u", e->op);
	else if (e->kind == T_SPAN)
		snprintf(buf, n, "%s of %u contiguous bytes", op_name(e->op), e->size);
	else
		snprintf(buf, n, "%s of %u bytes by lanes 0x%08x", op_name(e->op), e->size,
			 e->mask);
}

/* The recorded entry that answers e, or NULL after saying how they differ. */
static const struct entry *match(struct vm_tape *t, const struct entry *e)
{
	const struct entry *r = (const struct entry *)(const void *)(t->bytes + t->at);
	char asked[80], wanted[80];

	if (t->differs)
		return NULL;
	describe(e, asked, sizeof(asked));
	if (t->at >= t->n) {
		differs(t, "replay asks for %s, the recording had ended", asked);
		return NULL;
	}
	if (r->kind == e->kind && r->op == e->op && r->mask == e->mask && r->size == e->size &&
	    r->cache == e->cache && r->real == e->real && r->bytes_in == e->bytes_in) {
		t->at += sizeof(*r) + r->bytes_in + r->bytes_out;
		return r;
	}
	describe(r, wanted, sizeof(wanted));
	differs(t, "replay asks for %s, recorded is %s%s", asked, wanted,
		r->real != e->real     ? " through another port"
		: r->cache != e->cache ? " with other cache bits"
				       : "");
	return NULL;
}

/* Copies (or compares) keep entries a multiple of 8 bytes long. */
static size_t round8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

bool vm_tape_over(struct vm_tape *t)
{
	char left[80];

	if (!t->differs && t->at < t->n) {
		describe((const struct entry *)(const void *)(t->bytes + t->at), left,
			 sizeof(left));
		differs(t, "the recording goes on with %s, replay does not ask for it", left);
	}
	return !t->differs;
}

/* ---- values -------------------------------------------------------------- */

static bool nan16(uint32_t h)
{
	return (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
}

static bool nan32(uint32_t v)
{
	return (v & 0x7f800000) == 0x7f800000 && (v & 0x7fffff);
}

static bool inf32(uint32_t v)
{
	return (v & 0x7fffffff) == 0x7f800000;
}

bool vm_same_value(uint32_t a, uint32_t b)
{
	uint32_t al = a & 0xffff, bl = b & 0xffff, ah = a >> 16, bh = b >> 16;

	if (a == b || (nan32(a) && nan32(b)))
		return true;
	if (inf32(a) || inf32(b)) /* the upper half alone would pass for a NaN */
		return false;
	return (al == bl || (nan16(al) && nan16(bl))) && (ah == bh || (nan16(ah) && nan16(bh)));
}

/* ---- lanes --------------------------------------------------------------- */

static unsigned dwords_in(enum vm_op op, unsigned size)
{
	unsigned n = (size + 3) / 4;

	if (op == VM_LOAD)
		return 0;
	return op == VM_CMPSWAP || op == VM_FCMPSWAP ? 2 * n : n;
}

static uint32_t record_lanes(struct vm_tape *t, struct entry *e, struct vm_port *real,
			     const uint64_t *addr, uint32_t *data)
{
	unsigned in = dwords_in(e->op, e->size), out = e->op == VM_STORE ? 0 : (e->size + 3) / 4;
	size_t head = t->n;

	e->bytes_out = (uint32_t)round8(4ul * VM_LANES * out);
	append(t, e, sizeof(*e));
	append(t, addr, 8 * VM_LANES);
	append(t, data, 4ul * VM_LANES * in);
	e->faulted = vm_access(real, e->op, addr, e->mask, e->size, e->cache, data);
	e->fault = real->fault;
	append(t, data, 4ul * VM_LANES * out);
	if (!t->differs)
		memcpy(t->bytes + head, e, sizeof(*e));
	return e->faulted;
}

static uint32_t replay_lanes(struct vm_tape *t, const struct entry *r, struct vm_port *p,
			     const uint64_t *addr, uint32_t *data)
{
	const uint64_t *raddr = (const uint64_t *)(r + 1);
	const uint32_t *rin = (const uint32_t *)(raddr + VM_LANES);
	unsigned in = dwords_in(r->op, r->size), out = r->op == VM_STORE ? 0 : (r->size + 3) / 4;
	const uint32_t *rout = rin + (size_t)VM_LANES * in;
	uint32_t part = r->size == 1 ? 0xff : r->size == 2 ? 0xffff : ~0u;

	for (uint32_t m = r->mask; m; m &= m - 1) {
		unsigned l = (unsigned)__builtin_ctz(m);

		if (addr[l] != raddr[l]) {
			differs(t, "%s: lane %u's address is 0x%llx in replay, 0x%llx recorded",
				op_name(r->op), l, (unsigned long long)addr[l],
				(unsigned long long)raddr[l]);
			return r->mask;
		}
		for (unsigned c = 0; c < in; c++) {
			uint32_t a = data[c * VM_LANES + l] & part,
				 b = rin[c * VM_LANES + l] & part;

			if (vm_same_value(a, b))
				continue;
			differs(t,
				"%s: lane %u's dword %u of data is 0x%08x in replay, 0x%08x "
				"recorded",
				op_name(r->op), l, c, a, b);
			return r->mask;
		}
	}
	for (unsigned c = 0; c < out; c++)
		for (uint32_t m = r->mask; m; m &= m - 1) {
			unsigned i = c * VM_LANES + (unsigned)__builtin_ctz(m);

			data[i] = rout[i];
		}
	p->fault = r->fault;
	return r->faulted;
}

uint32_t vm_tape_access(struct vm_port *p, enum vm_op op, const uint64_t *addr, uint32_t mask,
			unsigned size, unsigned cache, uint32_t *data)
{
	struct vm_port *real = ((struct vm_front *)p)->real;
	struct vm_tape *t = p->tape;
	struct entry e = {
		.kind = T_LANES,
		.op = op,
		.mask = mask,
		.size = size,
		.cache = cache,
		.bytes_in = (uint32_t)(8 * VM_LANES + 4 * VM_LANES * dwords_in(op, size)),
		.real = real,
	};
	const struct entry *r;

	if (!t->replay)
		return record_lanes(t, &e, real, addr, data);
	r = match(t, &e);
	return r ? replay_lanes(t, r, p, addr, data) : mask;
}

/* ---- contiguous bytes, and the rest -------------------------------------- */

int vm_tape_span(struct vm_port *p, enum vm_op op, uint64_t va, void *buf, size_t n, unsigned cache)
{
	struct vm_port *real = ((struct vm_front *)p)->real;
	struct vm_tape *t = p->tape;
	bool write = op == VM_STORE;
	static const uint8_t zero[8];
	struct entry e = {
		.kind = T_SPAN,
		.op = op,
		.size = (uint32_t)n,
		.cache = cache,
		.bytes_in = (uint32_t)(8 + (write ? round8(n) : 0)),
		.real = real,
	};
	const struct entry *r;
	const uint8_t *data;
	int ret;

	if (!t->replay) {
		ret = write ? vm_write(real, gva(va), buf, n, cache)
			    : vm_read(real, op, gva(va), buf, n, cache);
		e.faulted = ret != 0;
		e.fault = real->fault;
		e.bytes_out = write ? 0 : (uint32_t)round8(n);
		append(t, &e, sizeof(e));
		append(t, &va, 8);
		append(t, buf, n);
		append(t, zero, round8(n) - n);
		return ret;
	}
	r = match(t, &e);
	if (!r)
		return -EFAULT;
	data = (const uint8_t *)(r + 1) + 8;
	if (memcmp(r + 1, &va, 8)) {
		differs(t, "%s of %zu bytes: the address is 0x%llx in replay, 0x%llx recorded",
			op_name(op), n, (unsigned long long)va,
			(unsigned long long)*(const uint64_t *)(r + 1));
		return -EFAULT;
	}
	if (write && memcmp(data, buf, n)) {
		differs(t, "%s of %zu bytes at 0x%llx: the data differ", op_name(op), n,
			(unsigned long long)va);
		return -EFAULT;
	}
	if (!write)
		memcpy(buf, data, n);
	p->fault = r->fault;
	return r->faulted ? -EFAULT : 0;
}

void vm_tape_ask(struct vm_tape *t, unsigned kind, uint64_t a, uint64_t b, uint64_t *answer)
{
	struct entry e = {.kind = T_ASK, .op = kind, .bytes_in = 16, .bytes_out = 8};
	const uint64_t args[2] = {a, b}, *r;
	const struct entry *m;

	if (!t->replay) {
		append(t, &e, sizeof(e));
		append(t, args, sizeof(args));
		append(t, answer, sizeof(*answer));
		return;
	}
	m = match(t, &e);
	*answer = 0;
	if (!m)
		return;
	r = (const uint64_t *)(m + 1);
	if (r[0] != a || r[1] != b)
		differs(t, "question %u with 0x%llx, 0x%llx in replay, 0x%llx, 0x%llx recorded",
			kind, (unsigned long long)a, (unsigned long long)b,
			(unsigned long long)r[0], (unsigned long long)r[1]);
	*answer = r[2];
}
