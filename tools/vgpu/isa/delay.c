/* Delayed memory: see delay.h for the rules.
 *
 * An instruction that is issued leaves its operands here. When memory is to be accessed, its
 * meaning runs on a wave of the same shape that holds just these operands; what it leaves in that
 * wave's destination goes to the real one later. */
#include "isa/delay.h"

#include <stdlib.h>
#include <string.h>

#include "isa/decode.h"
#include "isa/regs.h"
#include "isa/sem.h"

#define EVERYWHERE UINT64_MAX

static uint64_t draw(struct isa_delay *d)
{
	/* splitmix64 */
	uint64_t z = d->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void isa_delay_init(struct isa_wave *w, uint64_t seed, uint32_t most, bool report)
{
	struct isa_delay *d = isa_delay_of(w);

	memset(d, 0, offsetof(struct isa_delay, op));
	d->rng = seed;
	d->most = most;
	d->report = report;
	d->next = UINT64_MAX;
	for (unsigned i = 0; i < DELAY_OPS; i++)
		d->order[i] = (uint8_t)i;
	w->delayed = 1;
}

static struct delay_op *at(struct isa_delay *d, unsigned i)
{
	return &d->op[d->order[i]];
}

static bool pending(const struct delay_op *o)
{
	return o->stage != DELAY_KNOWN;
}

static unsigned counter_of(const struct delay_op *o)
{
	return o->klass == DELAY_VM ? CNT_VM : o->klass == DELAY_VS ? CNT_VS : CNT_LGKM;
}

static void drop(struct isa_delay *d, unsigned i)
{
	uint8_t slot = d->order[i];

	d->n--;
	memmove(d->order + i, d->order + i + 1, d->n - i);
	d->order[d->n] = slot; /* the rest of the order is the free ones */
}

static void find_next(struct isa_delay *d)
{
	d->next = UINT64_MAX;
	for (unsigned i = 0; i < d->n; i++) {
		const struct delay_op *o = at(d, i);
		uint64_t when = o->stage == DELAY_ISSUED ? o->effect : o->end;

		if (pending(o) && when < d->next)
			d->next = when;
	}
}

/* ---- memory is accessed -------------------------------------------------- */

static struct isa_wave *shadow(struct isa_exec *x, const struct isa_wave *w)
{
	const size_t most = isa_wave_bytes(256, true);

	if (!x->shadow)
		x->shadow = aligned_alloc(128, (most + 127) & ~127ul);
	if (x->shadow)
		memcpy(x->shadow, w, sizeof(*w));
	return x->shadow;
}

/* Runs o on the operands it was issued with. False: it faulted, and w has halted at it. */
static bool run_op(struct isa_exec *x, struct delay_op *o)
{
	struct isa_wave *w = x->w, *s = shadow(x, w);
	isa_sem *fn = isa_sems[o->in.op];
	unsigned halves = w->wave64 ? 2 : 1, half = x->half;

	o->stage = DELAY_DONE;
	if (!s) {
		w->state = WAVE_HALTED;
		w->stop = STOP_UNSUPPORTED;
		return false;
	}
	s->exec = o->exec;
	s->pc = o->pc + o->in.len;
	s->flat_scratch = o->flat_scratch;
	s->s[OPR_M0] = o->m0;
	s->state = WAVE_RUN;
	s->delayed = 0;
	for (unsigned i = 0; i < o->nscalars; i++)
		s->s[o->scalar[i]] = o->scalar_value[i];
	for (unsigned h = 0; h < halves; h++) {
		x->half = h;
		for (unsigned c = 0; c < o->nresult && o->in.fmt > ISA_SMEM; c++) {
			v32u now = *isa_vgpr(x, o->in.dst + c);

			x->w = s;
			*isa_vgpr(x, o->in.dst + c) = now;
			x->w = w;
		}
	}
	x->w = s;
	for (unsigned h = 0; h < halves; h++) {
		x->half = h;
		for (unsigned i = 0; i < o->nsources; i++)
			*isa_vgpr(x, o->source[i]) = o->source_value[h][i];
	}
	x->half = 0;
	if (o->in.fmt <= ISA_SMEM || isa_flags[o->in.op] & OPF_ONCE) {
		fn(x, &o->in);
	} else {
		for (unsigned h = 0; h < halves && s->state == WAVE_RUN; h++) {
			x->half = h;
			if (isa_exec_mask(x))
				fn(x, &o->in);
		}
	}
	for (unsigned c = 0; c < o->nresult; c++) {
		if (o->in.fmt <= ISA_SMEM) {
			o->scalar_result[c] = s->s[o->in.dst + c];
			continue;
		}
		for (unsigned h = 0; h < halves; h++) {
			x->half = h;
			o->result_value[h][c] = *isa_vgpr(x, o->in.dst + c);
		}
	}
	x->w = w;
	x->half = half;
	if (s->state == WAVE_RUN)
		return true;
	w->state = s->state;
	w->stop = s->stop;
	w->pc = s->pc;
	return false;
}

static bool overlap(const struct delay_op *a, const struct delay_op *b)
{
	return a->lo < b->hi && b->lo < a->hi;
}

/* Has memory see op i, after those before it that it must not overtake. False: a fault; what
 * faulted is gone. */
static bool effect(struct isa_exec *x, unsigned i)
{
	struct isa_delay *d = isa_delay_of(x->w);
	struct delay_op *o = at(d, i);

	if (o->stage != DELAY_ISSUED)
		return true;
	for (unsigned k = 0; k < i; k++) {
		struct delay_op *before = at(d, k);
		bool ordered = before->path == o->path && o->path != DELAY_SMEM &&
			       (o->path == DELAY_DS || overlap(before, o));

		if (ordered && before->stage == DELAY_ISSUED && !effect(x, k))
			return false;
	}
	if (run_op(x, o))
		return true;
	drop(d, i);
	find_next(d);
	return false;
}

/* What result c leaves of its register: loads of 16 bits write halves. */
static uint32_t kept_bits(unsigned op, unsigned c)
{
	const char *name = isa_op_name(op), *d16 = strstr(name, "d16"), *format;

	if (!d16 || c >= isa_shapes[op].dst)
		return 0;
	format = strstr(d16, "format_xy");
	if (format) /* pairs; the odd one of three is by itself */
		return c == 1 && !strcmp(format, "format_xyz") ? 0xffff0000u : 0;
	return strstr(d16, "_hi") ? 0x0000ffffu : 0xffff0000u;
}

static void write_results(struct isa_exec *x, const struct delay_op *o)
{
	unsigned halves = x->w->wave64 ? 2 : 1, half = x->half;

	for (unsigned c = 0; c < o->nresult; c++) {
		uint32_t keep;

		if (o->in.fmt <= ISA_SMEM) {
			isa_swrite(x, o->in.dst + c, o->scalar_result[c]);
			continue;
		}
		keep = kept_bits(o->in.op, c);
		for (unsigned h = 0; h < halves; h++) {
			uint32_t mask = (uint32_t)(o->exec >> 32 * h);
			v32u v;

			x->half = h;
			v = o->result_value[h][c] & ~keep;
			v |= *isa_vgpr(x, o->in.dst + c) & keep;
			isa_vwrite(x, o->in.dst + c, mask, v);
		}
	}
	x->half = half;
}

/* Ends op i, which is the first of its class unless that has no order. False: a fault. */
static bool finish(struct isa_exec *x, unsigned i)
{
	struct isa_delay *d = isa_delay_of(x->w);
	uint8_t slot = d->order[i];
	struct delay_op *o = &d->op[slot];

	if (!effect(x, i))
		return false;
	write_results(x, o);
	if (d->report && o->nresult)
		o->stage = DELAY_KNOWN;
	else
		drop(d, i);
	return true;
}

/* ---- time ---------------------------------------------------------------- */

static bool advance(struct isa_exec *x)
{
	struct isa_delay *d = isa_delay_of(x->w);

	for (unsigned i = 0; i < d->n; i++)
		if (at(d, i)->effect <= d->now && !effect(x, i))
			return false;
	/* Ends are in order within a class. */
	for (unsigned i = 0; i < d->n;) {
		unsigned n = d->n;

		if (pending(at(d, i)) && at(d, i)->end <= d->now && !finish(x, i))
			return false;
		i += d->n == n;
	}
	find_next(d);
	return true;
}

void isa_delay_tick(struct isa_exec *x, struct isa_wave *w, unsigned instructions)
{
	struct isa_delay *d = isa_delay_of(w);

	x->w = w;
	x->half = 0;
	d->now += instructions;
	if (d->now >= d->next)
		advance(x);
}

void isa_delay_drain(struct isa_exec *x, struct isa_wave *w, bool gone)
{
	struct isa_delay *d = isa_delay_of(w);

	x->w = w;
	x->half = 0;
	while (d->n)
		if (gone || !pending(at(d, 0)))
			drop(d, 0);
		else
			gone = !finish(x, 0); /* a fault: it is the one to report */
	find_next(d);
}

/* ---- waiting ------------------------------------------------------------- */

static unsigned count(struct isa_delay *d, unsigned counter)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->n; i++)
		n += pending(at(d, i)) && counter_of(at(d, i)) == counter;
	return n;
}

uint32_t isa_delay_status(struct isa_wave *w)
{
	struct isa_delay *d = isa_delay_of(w);
	unsigned lgkm = count(d, CNT_LGKM), vm = count(d, CNT_VM), vs = count(d, CNT_VS);

	return (lgkm < 63 ? lgkm : 63) << 4 | (vm < 63 ? vm : 63) << 10 | (vs < 63 ? vs : 63) << 26;
}

/* One of those of a counter that may end next, by lot; d->n if there is none. */
static unsigned candidate(struct isa_delay *d, unsigned counter)
{
	bool seen[DELAY_CLASSES] = {false};
	unsigned of[DELAY_OPS], n = 0;

	for (unsigned i = 0; i < d->n; i++) {
		const struct delay_op *o = at(d, i);

		if (!pending(o) || counter_of(o) != counter || seen[o->klass])
			continue;
		seen[o->klass] = o->klass != DELAY_ANY;
		of[n++] = i;
	}
	return n ? of[draw(d) % n] : d->n;
}

/* Whether the wave knows that o has ended once it has seen its counter at limit: with results in
 * order, the `limit` that may be missing are the last ones of the class at worst. */
static bool ended_at(const struct isa_delay *d, const struct delay_op *o, unsigned limit)
{
	return o->klass == DELAY_ANY ? !limit : d->issued[o->klass] - o->seq > limit;
}

void isa_delay_wait(struct isa_exec *x, unsigned counters, unsigned limit)
{
	struct isa_delay *d = isa_delay_of(x->w);

	for (unsigned c = CNT_VM; c <= CNT_LGKM; c <<= 1) {
		if (!(counters & c))
			continue;
		for (unsigned n = count(d, c); n > limit; n--) {
			unsigned i = candidate(d, c);

			if (i == d->n || !finish(x, i))
				return;
		}
		for (unsigned i = 0; i < d->n;) {
			const struct delay_op *o = at(d, i);

			if (!pending(o) && counter_of(o) == c && ended_at(d, o, limit))
				drop(d, i);
			else
				i++;
		}
	}
	find_next(d);
}

/* ---- issue --------------------------------------------------------------- */

/* Puts a record of in at the end of the order, with its operands as they are. NULL: a fault while
 * room was made. */
static struct delay_op *record(struct isa_exec *x, const struct isa_insn *in,
			       enum delay_class klass, enum delay_path path)
{
	struct isa_wave *w = x->w;
	struct isa_delay *d = isa_delay_of(w);
	unsigned halves = w->wave64 ? 2 : 1, n;
	struct isa_reg reg[ISA_REGS];
	struct delay_op *o;

	if (d->n == DELAY_OPS) {
		if (pending(at(d, 0)) && !finish(x, 0))
			return NULL;
		if (d->n == DELAY_OPS)
			drop(d, 0);
	}
	o = at(d, d->n);
	o->in = *in;
	o->in.sem = o->in.y_sem = NULL;
	o->pc = w->pc - in->len;
	o->exec = w->wave64 ? w->exec : (uint32_t)w->exec;
	o->flat_scratch = w->flat_scratch;
	o->m0 = w->s[OPR_M0];
	o->lo = 0;
	o->hi = EVERYWHERE;
	o->klass = klass;
	o->path = path;
	o->stage = DELAY_ISSUED;
	o->told = false;
	o->nscalars = o->nsources = o->nresult = 0;
	n = isa_regs(in, w->wave64, reg);
	for (unsigned i = 0; i < n; i++) {
		for (unsigned c = 0; c < reg[i].n; c++) {
			unsigned code = reg[i].code + c;

			if (reg[i].write) {
				o->nresult++;
			} else if (code < ISA_SGPRS && code != OPR_M0) {
				o->scalar[o->nscalars] = code;
				o->scalar_value[o->nscalars++] = w->s[code];
			} else if (code >= OPR_VGPR0) {
				o->source[o->nsources] = code;
				for (unsigned h = 0; h < halves; h++) {
					x->half = h;
					o->source_value[h][o->nsources] = *isa_vgpr(x, code);
				}
				o->nsources++;
			}
		}
	}
	x->half = 0;
	return o;
}

/* Gives o its place in time. False: it ended at once, in a fault. */
static bool issue(struct isa_exec *x, struct delay_op *o)
{
	struct isa_delay *d = isa_delay_of(x->w);
	uint64_t end = d->now, wait;

	o->seq = d->issued[o->klass]++;
	d->n++;
	if (!d->most)
		return finish(x, d->n - 1u);
	wait = 1 + draw(d) % d->most;
	o->effect = end + draw(d) % (wait + 1);
	end += wait;
	if (o->klass != DELAY_ANY) {
		if (end < d->end[o->klass])
			end = d->end[o->klass];
		d->end[o->klass] = end;
	}
	o->end = end;
	if (o->stage == DELAY_ISSUED && o->effect < d->next)
		d->next = o->effect;
	if (o->end < d->next)
		d->next = o->end;
	return true;
}

/* Which bytes a vector access may touch; everything, where that takes more than an addition. */
static void bound(struct isa_exec *x, struct delay_op *o)
{
	const struct isa_insn *in = &o->in;
	const struct isa_wave *w = x->w;
	uint64_t base = (uint64_t)(int64_t)in->imm, lo = UINT64_MAX, hi = 0;

	if (in->fmt == ISA_SCRATCH) {
		o->lo = w->flat_scratch;
		o->hi = o->lo + (uint64_t)w->scratch_lane_bytes * (w->wave64 ? 64 : 32);
		return;
	}
	if ((in->fmt != ISA_FLAT && in->fmt != ISA_GLOBAL) || in->vaddr == OPR_NONE)
		return;
	if (in->saddr != OPR_NONE)
		base += isa_sread64(x, in, in->saddr);
	for (unsigned l = 0; l < 64; l++) {
		uint64_t a;

		if (!(o->exec >> l & 1))
			continue;
		a = base + o->source_value[l / 32][0][l % 32];
		if (in->saddr == OPR_NONE)
			a += (uint64_t)o->source_value[l / 32][1][l % 32] << 32;
		if (x->private_base && a >> 32 == x->private_base >> 32)
			return; /* scratch, by another name */
		lo = a < lo ? a : lo;
		hi = a + 16 > hi ? a + 16 : hi;
	}
	o->lo = lo;
	o->hi = hi;
}

/* Lanes of a flat access that lie in LDS. */
static uint64_t lanes_in_lds(const struct isa_exec *x, const struct delay_op *o)
{
	uint64_t lds = 0;

	for (unsigned l = 0; x->shared_base && l < 64; l++) {
		uint64_t a;

		if (!(o->exec >> l & 1))
			continue;
		a = o->source_value[l / 32][0][l % 32] |
		    (uint64_t)o->source_value[l / 32][1][l % 32] << 32;
		a += (uint64_t)(int64_t)o->in.imm;
		if (a >> 32 == x->shared_base >> 32)
			lds |= 1ull << l;
	}
	return lds;
}

static bool is_load(const struct isa_insn *in)
{
	/* A load to LDS has neither a destination nor data. */
	return in->dst != OPR_NONE || !isa_shapes[in->op].src[1];
}

static bool issue_vector(struct isa_exec *x, const struct isa_insn *in)
{
	struct delay_op *o = record(x, in, is_load(in) ? DELAY_VM : DELAY_VS, DELAY_VMEM);
	uint64_t lds = 0, exec;

	if (!o)
		return false;
	exec = o->exec;
	if (in->fmt == ISA_FLAT) {
		lds = lanes_in_lds(x, o);
		o->exec &= ~lds;
	}
	bound(x, o);
	if (!issue(x, o))
		return false;
	if (in->fmt != ISA_FLAT)
		return true;
	/* The other half of a flat instruction: what it does in LDS, if only to be counted there. */
	o = record(x, in, DELAY_LDS, DELAY_DS);
	if (!o)
		return false;
	o->exec = exec & lds;
	return issue(x, o);
}

/* A message that returns something: answered at once, written late. */
static bool issue_message(struct isa_exec *x, const struct isa_insn *in)
{
	struct delay_op *o = record(x, in, DELAY_ANY, DELAY_NOWHERE);

	if (!o)
		return false;
	if (in->op == ISA_S_SENDMSG)
		o->stage = DELAY_DONE; /* gone out already */
	else if (!run_op(x, o))
		return false;
	return issue(x, o);
}

enum { NOT_MEMORY, FAULTED, ISSUED };

static int issue_any(struct isa_exec *x, const struct isa_insn *in)
{
	struct delay_op *o;
	bool ok;

	switch (in->fmt) {
	case ISA_SMEM:
		if (in->dst == OPR_NONE)
			return NOT_MEMORY; /* invalidates and probes */
		o = record(x, in, DELAY_ANY, DELAY_SMEM);
		ok = o && issue(x, o);
		break;
	case ISA_DS:
		if (in->op == ISA_DS_NOP)
			return NOT_MEMORY;
		o = record(x, in, DELAY_LDS, DELAY_DS);
		ok = o && issue(x, o);
		break;
	case ISA_MUBUF:
	case ISA_MTBUF:
		if (in->src[0] == OPR_NONE)
			return NOT_MEMORY; /* invalidates */
		ok = issue_vector(x, in);
		break;
	case ISA_FLAT:
	case ISA_GLOBAL:
	case ISA_SCRATCH:
		ok = issue_vector(x, in);
		break;
	case ISA_SOP1:
		if (in->op != ISA_S_SENDMSG_RTN_B32 && in->op != ISA_S_SENDMSG_RTN_B64)
			return NOT_MEMORY;
		ok = issue_message(x, in);
		break;
	default:
		return NOT_MEMORY;
	}
	return ok ? ISSUED : FAULTED;
}

/* ---- reports ------------------------------------------------------------- */

/* Whether lanes only see themselves, so that registers of lanes that are off do not matter. */
static bool lanewise(const struct isa_insn *in)
{
	if (in->dpp_kind != DPP_NONE || in->fmt <= ISA_SMEM)
		return false;
	switch (in->op) {
	case ISA_V_READLANE_B32:
	case ISA_V_READFIRSTLANE_B32:
	case ISA_V_WRITELANE_B32:
	case ISA_V_PERMLANE16_B32:
	case ISA_V_PERMLANEX16_B32:
	case ISA_V_PERMLANE64_B32:
	case ISA_DS_PERMUTE_B32:
	case ISA_DS_BPERMUTE_B32:
	case ISA_DS_SWIZZLE_B32:
		return false;
	}
	return in->fmt != ISA_VOP3P || isa_shapes[in->op].dst <= 2;
}

/* Which class of results in would write its registers with: those of one class keep their order. */
static int class_of(const struct isa_insn *in)
{
	switch (in->fmt) {
	case ISA_GLOBAL:
	case ISA_SCRATCH:
	case ISA_MUBUF:
	case ISA_MTBUF:
		return DELAY_VM;
	case ISA_DS:
		return DELAY_LDS;
	}
	return -1;
}

static void look(struct isa_exec *x, const struct isa_insn *in, struct delay_op *o,
		 const struct isa_reg *r)
{
	const struct isa_delay *d = isa_delay_of(x->w);
	struct delay_missing m;
	unsigned first = r->code > o->in.dst ? r->code : o->in.dst;

	if (o->told || r->code >= o->in.dst + o->nresult || o->in.dst >= r->code + r->n)
		return;
	if (r->code >= OPR_VGPR0 && !(o->exec & (lanewise(in) ? x->w->exec : ~0ull)))
		return;
	if (r->write && class_of(in) == o->klass)
		return;
	m = (struct delay_missing){
		.pc = x->w->pc - in->len,
		.writer_pc = o->pc,
		.in = *in,
		.writer = o->in,
		.code = (uint16_t)first,
		.write = r->write,
		.lgkm = counter_of(o) == CNT_LGKM,
		.most = o->klass == DELAY_ANY ? 0 : (unsigned)(d->issued[o->klass] - o->seq - 1),
	};
	o->told = true; /* what follows from it is no news */
	if (x->missing)
		x->missing(x, &m);
}

static void check(struct isa_exec *x, const struct isa_insn *in)
{
	struct isa_delay *d = isa_delay_of(x->w);
	struct isa_reg reg[ISA_REGS];
	unsigned n;

	if (!d->n)
		return;
	n = isa_regs(in, x->w->wave64, reg);
	for (unsigned i = 0; i < d->n; i++)
		for (unsigned k = 0; at(d, i)->nresult && k < n; k++)
			look(x, in, at(d, i), &reg[k]);
}

/* ---- a step -------------------------------------------------------------- */

static bool ends(const struct isa_insn *in)
{
	return in->op == ISA_S_ENDPGM || in->op == ISA_S_ENDPGM_SAVED ||
	       (in->op == ISA_S_SETKILL && in->imm & 1);
}

enum delay_step isa_delay_step(struct isa_exec *x, const struct isa_insn *in, bool runs)
{
	struct isa_wave *w = x->w;
	struct isa_delay *d = isa_delay_of(w);

	if (++d->now >= d->next && !advance(x))
		return DELAY_YIELD;
	if (!runs)
		return DELAY_RUN;
	if (d->report)
		check(x, in);
	if (ends(in)) {
		while (d->n && !pending(at(d, 0)))
			drop(d, 0);
		if (!d->n)
			return DELAY_RUN;
		/* The registers are gone, the stores are not: let others run between them. */
		if (finish(x, 0)) {
			w->pc -= in->len;
			find_next(d);
		}
		return DELAY_YIELD;
	}
	switch (issue_any(x, in)) {
	case FAULTED:
		return DELAY_YIELD;
	case ISSUED:
		return DELAY_TAKEN;
	}
	if (in->op == ISA_S_SENDMSG && !issue_message(x, in))
		return DELAY_YIELD;
	return DELAY_RUN;
}
