/* What a kernel can reach: basic blocks of gfx1151 code, found by following direct branches. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/jit_internal.h"

#define MAX_BYTES (256u << 10) /* beyond this a kernel stays interpreted, */
#define MAX_INSNS 6000u        /* and beyond this too: compile time grows faster than size */

/* Dword states while exploring. */
enum { SEEN = 1, LEADER = 2, RESUME = 4 };

struct explore {
	int (*fetch)(void *ctx, uint64_t pc, void *dst, size_t n);
	void *ctx;
	uint64_t lo; /* window that offsets count from */
	uint8_t *mark;
	uint32_t *words;
	uint8_t *have; /* fetched 64-byte lines */
	uint32_t *work;
	uint32_t n_work;
};

static bool is_uncond(unsigned op)
{
	return op == ISA_S_BRANCH || op == ISA_S_ENDPGM || op == ISA_S_ENDPGM_SAVED ||
	       op == ISA_S_CODE_END || op == ISA_S_SETPC_B64 || op == ISA_S_SWAPPC_B64 ||
	       op == ISA_S_RFE_B64;
}

static bool is_direct(unsigned op)
{
	switch (op) {
	case ISA_S_BRANCH:
	case ISA_S_CBRANCH_SCC0:
	case ISA_S_CBRANCH_SCC1:
	case ISA_S_CBRANCH_VCCZ:
	case ISA_S_CBRANCH_VCCNZ:
	case ISA_S_CBRANCH_EXECZ:
	case ISA_S_CBRANCH_EXECNZ:
	case ISA_S_CBRANCH_CDBGUSER:
	case ISA_S_CBRANCH_CDBGSYS:
	case ISA_S_CBRANCH_CDBGSYS_OR_USER:
	case ISA_S_CBRANCH_CDBGSYS_AND_USER:
	case ISA_S_SUBVECTOR_LOOP_BEGIN:
	case ISA_S_SUBVECTOR_LOOP_END:
	case ISA_S_CALL_B64:
		return true;
	}
	return false;
}

/* Instructions after which a wave may have stopped, to resume behind them. */
static bool may_stop(unsigned op)
{
	switch (op) {
	case ISA_S_BARRIER:
	case ISA_S_SLEEP:
	case ISA_S_TRAP:
	case ISA_S_SETHALT:
	case ISA_S_ENDPGM:
		return true;
	}
	return false;
}

bool jit_leaves_the_wave(unsigned op)
{
	const char *n = isa_op_name(op);

	return strstr(n, "sendmsg") || strstr(n, "getreg") || strstr(n, "setreg") ||
	       strstr(n, "s_trap") || strstr(n, "s_sleep") || strstr(n, "round_mode") ||
	       strstr(n, "denorm_mode");
}

/* EXEC may have changed: the next instruction starts a block, so that it is specialised anew. */
static bool writes_exec(const struct isa_insn *in)
{
	const char *n = isa_op_name(in->op);

	return in->dst == OPR_EXEC_LO || in->dst == OPR_EXEC_HI || in->sdst == OPR_EXEC_LO ||
	       in->sdst == OPR_EXEC_HI || strstr(n, "subvector") || strstr(n, "saveexec") ||
	       strstr(n, "wrexec") || strstr(n, "cmpx");
}

/* A register number that is data defeats keeping registers out of memory; code that invalidates the
 * instruction cache may have changed itself. */
static bool needs_interpreter(const struct isa_insn *in)
{
	const char *n = isa_op_name(in->op);

	return strstr(n, "movrel") || strstr(n, "swaprel") || in->op == ISA_S_RFE_B64 ||
	       in->op == ISA_S_ICACHE_INV;
}

static int words_at(struct explore *e, uint32_t off, uint32_t *w, unsigned n)
{
	uint32_t line;

	for (line = off / 64; line <= (off + 4 * n - 1) / 64; line++) {
		if (line >= MAX_BYTES / 64)
			return -E2BIG;
		if (e->have[line])
			continue;
		if (e->fetch(e->ctx, e->lo + 64ull * line, &e->words[line * 16], 64))
			return -EFAULT;
		e->have[line] = 1;
	}
	memcpy(w, &e->words[off / 4], 4 * n);
	return 0;
}

static int decode_at(struct explore *e, uint32_t off, struct isa_insn *in)
{
	uint32_t w[5];
	int n, r, want;

	/* Take no more words than the instruction has: the next page may not be mapped. */
	for (want = 1; want <= 5; want++) {
		r = words_at(e, off, w, (unsigned)want);
		if (r)
			return r;
		n = isa_decode(w, (unsigned)want, in);
		if (n != -ENODATA)
			return n;
	}
	return -EILSEQ;
}

static void push(struct explore *e, uint32_t off, uint8_t why)
{
	if (off >= MAX_BYTES)
		return;
	if (!(e->mark[off / 4] & LEADER))
		e->work[e->n_work++] = off;
	e->mark[off / 4] |= LEADER | why;
}

static int explore(struct explore *e, struct jit_cfg *cfg, uint32_t entry)
{
	struct isa_insn in;

	push(e, entry, RESUME);
	while (e->n_work) {
		uint32_t off = e->work[--e->n_work];

		for (;;) {
			int n;

			if (e->mark[off / 4] & SEEN)
				break;
			n = decode_at(e, off, &in);
			if (n < 0) {
				/* Not code, or not there: whoever arrives is interpreted. */
				if (n == -E2BIG)
					snprintf(cfg->refusal, sizeof(cfg->refusal),
						 "code reaches beyond %u bytes", MAX_BYTES);
				break;
			}
			e->mark[off / 4] |= SEEN;
			if (off + (uint32_t)n > cfg->bytes)
				cfg->bytes = off + (uint32_t)n;
			if (needs_interpreter(&in))
				snprintf(cfg->refusal, sizeof(cfg->refusal), "%s",
					 isa_op_name(in.op));
			if (is_direct(in.op)) {
				int64_t to = (int64_t)off + n + 4ll * in.imm;

				if (to >= 0)
					push(e, (uint32_t)to, to <= off ? RESUME : 0);
			}
			off += (uint32_t)n;
			/* What was called comes back here. */
			if (in.op == ISA_S_SWAPPC_B64 || in.op == ISA_S_CALL_B64)
				push(e, off, RESUME);
			if (is_uncond(in.op))
				break;
			if (is_direct(in.op) || writes_exec(&in))
				push(e, off, 0);
			if (may_stop(in.op) || jit_leaves_the_wave(in.op))
				push(e, off, RESUME);
		}
	}
	return 0;
}

static int compare_blocks(const void *a, const void *b)
{
	uint32_t x = ((const struct jit_block *)a)->off, y = ((const struct jit_block *)b)->off;

	return x < y ? -1 : x > y;
}

static int32_t block_at(const struct jit_cfg *c, int64_t off)
{
	struct jit_block key = {.off = (uint32_t)off}, *b;

	if (off < 0 || off >= MAX_BYTES)
		return -1;
	b = bsearch(&key, c->blocks, c->n_blocks, sizeof(*c->blocks), compare_blocks);
	return b ? (int32_t)(b - c->blocks) : -1;
}

static int collect(struct explore *e, struct jit_cfg *c)
{
	uint32_t i, n_insns = 0, words = (c->bytes + 3) / 4, behind = 0;

	for (i = 0; i < words; i++) {
		n_insns += !!(e->mark[i] & SEEN);
	}
	c->insns = calloc(n_insns ? n_insns : 1, sizeof(*c->insns));
	c->blocks = calloc(n_insns ? n_insns : 1, sizeof(*c->blocks));
	c->code = malloc(c->bytes ? c->bytes : 1);
	if (!c->insns || !c->blocks || !c->code)
		return -ENOMEM;
	memcpy(c->code, e->words, c->bytes);
	for (i = 0; i < words; i++) {
		struct jit_insn *j;
		struct jit_block *b;
		uint8_t m = e->mark[i];

		if (!(m & SEEN))
			continue;
		/* Code may be entered in the middle of an instruction: then the next one here is
		 * not the one that runs next. */
		if (m & LEADER || 4 * i != behind)
			c->blocks[c->n_blocks++] = (struct jit_block){
				.off = 4 * i,
				.first = c->n_insns,
				.next = {-1, -1},
				.entry = m & RESUME,
			};
		b = &c->blocks[c->n_blocks - 1];
		j = &c->insns[c->n_insns++];
		j->off = 4 * i;
		decode_at(e, 4 * i, &j->in);
		behind = 4 * i + j->in.len;
		b->n++;
	}
	for (i = 0; i < c->n_blocks; i++) {
		struct jit_block *b = &c->blocks[i];
		const struct jit_insn *last = &c->insns[b->first + b->n - 1];
		int64_t end = (int64_t)last->off + last->in.len;

		if (!is_uncond(last->in.op))
			b->next[0] = block_at(c, end);
		if (is_direct(last->in.op))
			b->next[1] = block_at(c, end + 4ll * last->in.imm);
	}
	return 0;
}

/* Where EXEC may have been written on the way from the start. What is reached in no way that is known
 * here counts too. */
static void find_some(struct jit_cfg *c)
{
	bool more = true;

	for (uint32_t i = 1; i < c->n_blocks; i++)
		c->blocks[i].some = true;
	for (uint32_t i = 0; i < c->n_blocks; i++)
		for (unsigned k = 0; k < 2; k++)
			if (c->blocks[i].next[k] >= 0)
				c->blocks[c->blocks[i].next[k]].some = false;
	while (more) {
		more = false;
		for (uint32_t i = 0; i < c->n_blocks; i++) {
			const struct jit_block *b = &c->blocks[i];
			bool some = b->some || writes_exec(&c->insns[b->first + b->n - 1].in);

			for (unsigned k = 0; k < 2 && some; k++) {
				struct jit_block *t =
					b->next[k] < 0 ? NULL : &c->blocks[b->next[k]];

				if (t && !t->some)
					t->some = more = true;
			}
		}
	}
}

int jit_cfg_build(int (*fetch)(void *ctx, uint64_t pc, void *dst, size_t n), void *ctx,
		  uint64_t entry, struct jit_cfg *out)
{
	struct jit_cfg c = {.base = entry};
	struct explore e = {.fetch = fetch, .ctx = ctx, .lo = entry};
	int r = -ENOMEM;

	e.mark = calloc(MAX_BYTES / 4 + 1, 1);
	e.words = calloc(MAX_BYTES / 4 + 16, 4);
	e.have = calloc(MAX_BYTES / 64 + 1, 1);
	e.work = calloc(MAX_BYTES / 4 + 1, 4);
	if (!e.mark || !e.words || !e.have || !e.work)
		goto out;
	r = explore(&e, &c, 0);
	if (!r)
		r = collect(&e, &c);
	if (!r)
		find_some(&c);
	if (!r && c.n_insns > MAX_INSNS && !c.refusal[0])
		snprintf(c.refusal, sizeof(c.refusal), "%u instructions, more than %u", c.n_insns,
			 MAX_INSNS);
	if (!r && !c.n_blocks && !c.refusal[0])
		snprintf(c.refusal, sizeof(c.refusal), "no code at the entry");
out:
	free(e.mark);
	free(e.words);
	free(e.have);
	free(e.work);
	if (r)
		jit_cfg_free(&c);
	else
		*out = c;
	return r;
}

void jit_cfg_free(struct jit_cfg *c)
{
	free(c->insns);
	free(c->blocks);
	free(c->code);
	memset(c, 0, sizeof(*c));
}
