/* What one executed instruction, and one LDS access, add to the counts. */
#include "count/internal.h"

static uint8_t class_of[ISA_OP_COUNT], cycles_of[ISA_OP_COUNT];

static void tables(void)
{
	for (unsigned op = 1; op < ISA_OP_COUNT; op++) {
		class_of[op] = (uint8_t)count_class_of(op);
		cycles_of[op] = (uint8_t)count_cycles_of(op);
	}
}

void count_tables(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, tables);
}

/* ---- outstanding work ---------------------------------------------------- */

static void more(uint8_t *n)
{
	if (*n < 63)
		++*n;
}

/* A wait for at most `limit` outstanding: does it have to wait? */
static bool waits(uint8_t *n, unsigned limit)
{
	if (*n <= limit)
		return false;
	*n = (uint8_t)limit;
	return true;
}

static unsigned limit_of(const struct isa_wave *w, const struct isa_insn *in)
{
	unsigned base = in->src[0] < ISA_SGPRS && in->src[0] != OPR_NULL ? w->s[in->src[0]] : 0;

	return (base + (uint16_t)in->imm) & 63;
}

static void wait_vm(struct count_ctx *c, struct count_wave *o, unsigned limit)
{
	c->set.vmem_waits += waits(&o->loads, limit);
}

static void wait_vs(struct count_ctx *c, struct count_wave *o, unsigned limit)
{
	c->set.store_waits += waits(&o->stores, limit);
}

/* lgkmcnt counts scalar loads and LDS together; scalar loads return in any order, so only a wait
 * for none says that they are there. */
static void wait_lgkm(struct count_ctx *c, struct count_wave *o, unsigned limit)
{
	if (o->smem + o->lds <= limit)
		return;
	if (o->smem)
		c->set.smem_waits++;
	else
		c->set.lds_waits++;
	if (limit < o->lds)
		o->lds = (uint8_t)limit;
	if (!limit || o->smem + o->lds > limit)
		o->smem = (uint8_t)(limit > o->lds ? limit - o->lds : 0);
}

static void wait_for(struct count_ctx *c, struct count_wave *o, const struct isa_wave *w,
		     const struct isa_insn *in)
{
	switch (in->op) {
	case ISA_S_WAITCNT: /* gfx11: expcnt [2:0], lgkmcnt [9:4], vmcnt [15:10] */
		wait_lgkm(c, o, in->imm >> 4 & 63);
		wait_vm(c, o, in->imm >> 10 & 63);
		break;
	case ISA_S_WAITCNT_VMCNT:
		wait_vm(c, o, limit_of(w, in));
		break;
	case ISA_S_WAITCNT_VSCNT:
		wait_vs(c, o, limit_of(w, in));
		break;
	case ISA_S_WAITCNT_LGKMCNT:
		wait_lgkm(c, o, limit_of(w, in));
		break;
	case ISA_S_WAIT_IDLE:
		wait_lgkm(c, o, 0);
		wait_vm(c, o, 0);
		wait_vs(c, o, 0);
		break;
	default:
		break;
	}
}

static void goes_out(struct count_wave *o, enum count_class k, const struct isa_insn *in)
{
	switch (k) {
	case CC_SMEM:
		more(&o->smem);
		break;
	case CC_VMEM_LOAD:
	case CC_SCRATCH_LOAD:
		more(&o->loads);
		break;
	case CC_VMEM_STORE:
	case CC_SCRATCH_STORE:
		more(&o->stores);
		break;
	case CC_VMEM_ATOMIC: /* one that returns counts as a load */
		more(in->cache & VM_GLC ? &o->loads : &o->stores);
		break;
	case CC_LDS_LOAD:
	case CC_LDS_STORE:
	case CC_LDS_ATOMIC:
	case CC_LDS_LANE:
		more(&o->lds);
		break;
	default:
		break;
	}
}

/* ---- instructions -------------------------------------------------------- */

void count_insn(struct count_ctx *c, const struct isa_wave *w, const struct isa_insn *in,
		uint64_t exec, uint64_t approximated)
{
	unsigned op = in->op, passes = w->wave64 ? 2 : 1;
	enum count_class k = in->y_op ? CC_DUAL : (enum count_class)class_of[op];
	struct count_wave *o = c->waves ? &c->waves[w->wave_in_group] : NULL;

	c->ops[op]++;
	if (in->y_op)
		c->ops[in->y_op]++;
	if (approximated)
		c->approximated[op]++;
	c->set.insns[k]++;
	if (k == CC_WAITCNT) {
		if (o)
			wait_for(c, o, w, in);
		return;
	}
	if (o)
		goes_out(o, k, in);
	if (k < CC_VALU)
		return;
	c->set.passes[k] += passes;
	c->set.lanes[k] += (unsigned)__builtin_popcountll(w->wave64 ? exec : (uint32_t)exec);
	if (k == CC_DUAL)
		c->set.vector_cycles += passes;
	else
		c->set.vector_cycles += cycles_of[op] * (k == CC_WMMA ? 1u : passes);
}

void count_refused(struct count_ctx *c, unsigned op)
{
	c->refused[op < ISA_OP_COUNT ? op : 0]++;
}

/* ---- LDS ----------------------------------------------------------------- */

/* Clocks one pass takes: the most dwords that any of 32 banks has to give. Lanes that want the same
 * dword share it, unless they change it. */
static unsigned bank_clocks(const uint32_t *dword, unsigned n, bool shared)
{
	uint8_t load[32] = {0};
	unsigned worst = 0;

	for (unsigned i = 0; i < n; i++) {
		bool again = false;

		for (unsigned j = 0; shared && j < i && !again; j++)
			again = dword[j] == dword[i];
		if (!again && ++load[dword[i] % 32] > worst)
			worst = load[dword[i] % 32];
	}
	return worst;
}

void count_lds(struct count_ctx *c, enum vm_op op, const uint32_t *off, uint32_t mask,
	       unsigned size)
{
	unsigned lanes = (unsigned)__builtin_popcount(mask), dwords = (size + 3) / 4;
	/* A pass moves 32 dwords: 32 lanes of one dword, 16 of two, 8 of three or four. */
	unsigned per_pass = dwords <= 1 ? 32 : dwords == 2 ? 16 : 8;
	bool atomic = op != VM_LOAD && op != VM_STORE;
	uint64_t bytes = (uint64_t)lanes * size;

	if (op != VM_STORE)
		c->set.lds_read += bytes;
	if (op != VM_LOAD)
		c->set.lds_written += bytes;
	if (atomic)
		c->set.lds_atomics += lanes;
	for (unsigned first = 0; first < 32; first += per_pass) {
		uint32_t dword[32];
		unsigned n = 0, clocks;

		for (unsigned l = first; l < first + per_pass; l++)
			for (unsigned d = 0; mask >> l & 1 && d < dwords; d++)
				dword[n++] = off[l] / 4 + d;
		clocks = bank_clocks(dword, n, !atomic);
		c->set.lds_cycles += clocks;
		c->set.lds_conflicts += clocks > 1 ? clocks - 1 : 0;
	}
}
