/* Lock step: compiled code and interpreter run the same instructions of the same wave.
 *
 * Compiled code goes first, on the real wave, up to the next place it can be entered again; what it
 * asks of memory and clocks is recorded. The interpreter then runs the same number of instructions
 * on a copy of the wave and of LDS from before, with the recording as its memory. Whatever differs
 * afterwards stops the wave: the state compared is all there is.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/jit_internal.h"
#include "vm/tape.h"

enum { ASK_SENDMSG, ASK_MSG_RTN, ASK_REALTIME };

struct lockstep {
	struct isa_exec x; /* what both run with */
	struct isa_exec *real;
	struct vm_tape tape;
	struct vm_front vmem, smem;
	size_t bytes;                /* of a wave */
	struct isa_wave *old, *copy; /* before, and the interpreter's */
	uint8_t *old_lds, *lds;
};

/* The questions go to the real context: its owner finds itself by it. */
static struct lockstep *of(struct isa_exec *x)
{
	return (struct lockstep *)x; /* x is the first member */
}

static void tape_sendmsg(struct isa_exec *x, uint32_t simm, uint32_t m0)
{
	struct lockstep *t = of(x);
	uint64_t status = 0;

	/* Giving the registers back shows in STATUS. */
	if (!t->tape.replay) {
		t->real->sendmsg(t->real, simm, m0);
		status = x->w->status;
	}
	vm_tape_ask(&t->tape, ASK_SENDMSG, simm, m0, &status);
	x->w->status = (uint32_t)status;
}

static uint64_t tape_msg_rtn(struct isa_exec *x, uint32_t msg)
{
	struct lockstep *t = of(x);
	uint64_t v = t->tape.replay ? 0 : t->real->msg_rtn(t->real, msg);

	vm_tape_ask(&t->tape, ASK_MSG_RTN, msg, 0, &v);
	return v;
}

static uint64_t tape_realtime(struct isa_exec *x)
{
	struct lockstep *t = of(x);
	uint64_t v = t->tape.replay ? 0 : t->real->realtime(t->real);

	vm_tape_ask(&t->tape, ASK_REALTIME, 0, 0, &v);
	return v;
}

static void finish(struct lockstep *t)
{
	t->real->icache = t->x.icache;
	vm_tape_fini(&t->tape);
	free(t->old);
	free(t->copy);
	free(t->old_lds);
	free(t->lds);
	free(t);
}

static struct lockstep *start(struct isa_exec *x, struct isa_wave *w)
{
	struct lockstep *t = aligned_alloc(128, (sizeof(*t) + 127) & ~127ul);
	size_t lds = ((size_t)x->lds_size + 128) & ~127ul;

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	t->x = *x;
	t->real = x;
	x->w = w;
	t->x.w = w;
	t->x.imem = x->imem ? x->imem : x->smem;
	vm_front_init(&t->vmem, x->vmem, &t->tape);
	vm_front_init(&t->smem, x->smem, &t->tape);
	t->x.vmem = &t->vmem.port;
	t->x.smem = &t->smem.port;
	t->x.sendmsg = x->sendmsg ? tape_sendmsg : NULL;
	t->x.msg_rtn = x->msg_rtn ? tape_msg_rtn : NULL;
	t->x.realtime = x->realtime ? tape_realtime : NULL;
	t->bytes = (isa_wave_bytes(w->nvgpr, w->wave64) + 127) & ~127ul;
	t->old = aligned_alloc(128, t->bytes);
	t->copy = aligned_alloc(128, t->bytes);
	t->old_lds = aligned_alloc(128, lds);
	t->lds = aligned_alloc(128, lds);
	if (t->old && t->copy && t->old_lds && t->lds)
		return t;
	finish(t);
	return NULL;
}

/* The interpreter's turn: n instructions from the state before. */
static void rewind_copy(struct lockstep *t)
{
	vm_tape_rewind(&t->tape);
	memcpy(t->copy, t->old, isa_wave_bytes(t->old->nvgpr, t->old->wave64));
	memcpy(t->lds, t->old_lds, t->real->lds_size);
	t->x.lds = t->lds;
}

/* ---- comparing ----------------------------------------------------------- */

static void say(char *why, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(char *why, size_t n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, n, fmt, ap);
	va_end(ap);
}

static void place(struct lockstep *t, uint64_t pc, char *buf, size_t n)
{
	uint32_t words[4];
	unsigned have = 4;
	char text[128] = "unreadable";

	while (have && vm_read(t->x.imem, VM_FETCH, gva(pc), words, 4 * have, 0))
		have--;
	if (have)
		isa_disasm(words, have, pc, text, sizeof(text));
	snprintf(buf, n, "PC 0x%" PRIx64 ": %s", pc, text);
}

static void reg_name(unsigned r, char *buf, size_t n)
{
	static const char *const special[] = {[OPR_VCC_LO] = "vcc_lo",
					      [OPR_VCC_HI] = "vcc_hi",
					      [OPR_NULL] = "null",
					      [OPR_M0] = "m0"};

	if (r < OPR_VCC_LO)
		snprintf(buf, n, "s%u", r);
	else if (r >= OPR_TTMP0 && r < OPR_NULL)
		snprintf(buf, n, "ttmp%u", r - OPR_TTMP0);
	else if (r < ISA_SGPRS && r < sizeof(special) / sizeof(*special) && special[r])
		snprintf(buf, n, "%s", special[r]);
	else
		snprintf(buf, n, "s[%u]", r);
}

/* A comparable piece of wave state, by number: first the fields, then SGPRs, then VGPRs. */
#define FIELDS(X)                                                                                  \
	X(pc)                                                                                      \
	X(exec)                                                                                    \
	X(scc)                                                                                     \
	X(mode)                                                                                    \
	X(status)                                                                                  \
	X(trapsts)                                                                                 \
	X(state)                                                                                   \
	X(stop)                                                                                    \
	X(priv)                                                                                    \
	X(trap_id)                                                                                 \
	X(flat_scratch)                                                                            \
	X(insns)                                                                                   \
	X(sleep_until)

static const char *const field_names[] = {
#define X(f) #f,
	FIELDS(X)
#undef X
};
enum { N_FIELDS = sizeof(field_names) / sizeof(*field_names) };

static uint64_t field(const struct isa_wave *w, unsigned i)
{
	const uint64_t v[] = {
#define X(f) w->f,
		FIELDS(X)
#undef X
	};

	return v[i];
}

static unsigned pieces(const struct isa_wave *w)
{
	return N_FIELDS + ISA_SGPRS + w->nvgpr * (w->wave64 ? 2 : 1);
}

/* The first lane in which piece i differs, -1: none. */
static int differs_in(const struct isa_wave *a, const struct isa_wave *b, unsigned i, bool exact)
{
	unsigned v = i - N_FIELDS - ISA_SGPRS;

	if (i < N_FIELDS)
		return field(a, i) != field(b, i) ? 0 : -1;
	if (i < N_FIELDS + ISA_SGPRS) {
		uint32_t p = a->s[i - N_FIELDS], q = b->s[i - N_FIELDS];

		return (exact ? p == q : vm_same_value(p, q)) ? -1 : 0;
	}
	if (!memcmp(&a->v[v], &b->v[v], sizeof(v32u)))
		return -1;
	for (int l = 0; l < 32; l++)
		if (exact ? a->v[v][l] != b->v[v][l] : !vm_same_value(a->v[v][l], b->v[v][l]))
			return l;
	return -1;
}

static void piece_text(const struct isa_wave *compiled, const struct isa_wave *interp, unsigned i,
		       char *buf, size_t n)
{
	int l = differs_in(compiled, interp, i, false);
	unsigned v = i - N_FIELDS - ISA_SGPRS;
	char name[16];

	if (i < N_FIELDS) {
		snprintf(buf, n, "%s is 0x%" PRIx64 " compiled, 0x%" PRIx64 " interpreted",
			 field_names[i], field(compiled, i), field(interp, i));
	} else if (i < N_FIELDS + ISA_SGPRS) {
		reg_name(i - N_FIELDS, name, sizeof(name));
		snprintf(buf, n, "%s is 0x%08x compiled, 0x%08x interpreted", name,
			 compiled->s[i - N_FIELDS], interp->s[i - N_FIELDS]);
	} else {
		snprintf(buf, n, "v%u lane %u is 0x%08x compiled, 0x%08x interpreted",
			 v % interp->nvgpr, (unsigned)l + 32 * (v / interp->nvgpr),
			 compiled->v[v][l], interp->v[v][l]);
	}
}

static uint32_t lds_at(const uint8_t *lds, uint32_t off)
{
	uint32_t v = 0;

	memcpy(&v, lds + off, 4);
	return v;
}

/* Offset of the first LDS dword that differs, -1: none. */
static int64_t lds_differs(const struct lockstep *t, const uint8_t *a, const uint8_t *b)
{
	uint32_t size = t->real->lds_size & ~3u;

	if (!memcmp(a, b, size))
		return -1;
	for (uint32_t o = 0; o < size; o += 4)
		if (!vm_same_value(lds_at(a, o), lds_at(b, o)))
			return o;
	return -1;
}

/* Finds the instruction: of the pieces that differ at the end, the one whose last interpreted
 * write is the earliest, and that write. A piece that the interpreter never wrote counts as of
 * the start. */
static void blame(struct lockstep *t, const struct isa_wave *compiled, uint64_t n, char *why,
		  size_t len)
{
	unsigned total = pieces(compiled), best = total;
	struct isa_wave *end = aligned_alloc(128, t->bytes), *prev = aligned_alloc(128, t->bytes);
	uint64_t *pc = calloc(total, sizeof(*pc)), *when = calloc(total, sizeof(*when));
	size_t wave = isa_wave_bytes(compiled->nvgpr, compiled->wave64);
	char at[200], what[120];

	if (!end || !prev || !pc || !when) {
		say(why, len, "and no memory to find out where");
		goto out;
	}
	memcpy(end, t->copy, wave);
	rewind_copy(t);
	for (uint64_t i = 1; i <= n && t->copy->state == WAVE_RUN; i++) {
		uint64_t here = t->copy->pc;

		memcpy(prev, t->copy, wave);
		isa_run(&t->x, t->copy, 1);
		for (unsigned p = 0; p < total; p++)
			if (differs_in(prev, t->copy, p, true) >= 0) {
				when[p] = i;
				pc[p] = here;
			}
	}
	/* PC and the instruction count are consequences: named when nothing else differs. */
	for (unsigned p = 0; p < total; p++)
		if (differs_in(compiled, end, p, false) >= 0 &&
		    (best == total || when[p] < when[best]) &&
		    !(p < N_FIELDS &&
		      (!strcmp(field_names[p], "pc") || !strcmp(field_names[p], "insns"))))
			best = p;
	for (unsigned p = 0; p < N_FIELDS && best == total; p++)
		if (field(compiled, p) != field(end, p))
			best = p;
	if (best == total)
		goto out;
	piece_text(compiled, end, best, what, sizeof(what));
	place(t, when[best] ? pc[best] : t->old->pc, at, sizeof(at));
	say(why, len, "%s%s: %s", when[best] ? "" : "somewhere behind ", at, what);
out:
	free(end);
	free(prev);
	free(pc);
	free(when);
}

/* True if the interpreter agrees with what compiled code made of the wave in n instructions. */
static bool agrees(struct lockstep *t, const struct isa_wave *w, uint64_t n, char *why, size_t len)
{
	unsigned total = pieces(w);
	char at[200];
	int64_t off;

	/* A stopping instruction is not counted, but must be reached. */
	n += w->state == WAVE_HALTED && w->stop != STOP_NONE;
	rewind_copy(t);
	isa_run(&t->x, t->copy, n);
	if (t->tape.differs) {
		place(t, t->copy->pc, at, sizeof(at));
		say(why, len, "%s: %s (recorded: compiled, replay: interpreted)", at, t->tape.why);
		return false;
	}
	for (unsigned p = 0; p < total; p++)
		if (differs_in(w, t->copy, p, false) >= 0) {
			blame(t, w, n, why, len);
			return false;
		}
	place(t, t->old->pc, at, sizeof(at));
	if (!vm_tape_over(&t->tape)) {
		say(why, len, "somewhere behind %s: %s (recorded: compiled, replay: interpreted)",
		    at, t->tape.why);
		return false;
	}
	off = lds_differs(t, t->real->lds, t->lds);
	if (off >= 0) {
		say(why, len,
		    "somewhere behind %s: LDS dword at byte %" PRId64
		    " is 0x%08x compiled, 0x%08x interpreted",
		    at, off, lds_at(t->real->lds, (uint32_t)off), lds_at(t->lds, (uint32_t)off));
		return false;
	}
	return true;
}

uint64_t jit_lockstep(jit_fn *fn, uint64_t base, struct isa_exec *x, struct isa_wave *w,
		      uint64_t budget, uint64_t *compiled, char *why, size_t whylen)
{
	struct lockstep *t = start(x, w);
	size_t wave = isa_wave_bytes(w->nvgpr, w->wave64);
	uint64_t done = 0, n;

	*compiled = 0;
	why[0] = 0;
	if (!t)
		return isa_run(x, w, budget); /* no memory to watch with */
	while (w->state == WAVE_RUN && done < budget) {
		memcpy(t->old, w, wave);
		memcpy(t->old_lds, x->lds, x->lds_size);
		vm_tape_record(&t->tape);
		t->x.lds = x->lds;
		t->x.w = w;
		t->x.half = 0;
		t->x.approximated = 0;
		n = w->priv ? 0 : fn(&t->x, w, base, 1);
		x->approximated += t->x.approximated;
		if (!n && w->state == WAVE_RUN) {
			x->icache = t->x.icache;
			done += isa_run(x, w, 1);
			t->x.icache = x->icache;
			continue;
		}
		done += n;
		*compiled += n;
		if (t->tape.differs) {
			say(why, whylen, "%s", t->tape.why);
		} else if (agrees(t, w, n, why, whylen)) {
			continue;
		}
		w->state = WAVE_HALTED;
		w->stop = STOP_DIFFERS;
	}
	finish(t);
	return done;
}
