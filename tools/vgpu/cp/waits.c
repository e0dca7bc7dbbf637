/* Reports of waits that are missing (VGPU_SET=waits=report): each place in the code once. */
#include <pthread.h>
#include <stdio.h>

#include "cp/internal.h"
#include "device.h"
#include "isa/delay.h"
#include "isa/regs.h"

enum { PLACES = 512 };

static struct {
	pthread_mutex_t lock;
	unsigned n;
	struct place {
		uint64_t pc, writer_pc;
	} seen[PLACES];
} W = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum news { OLD, NEW, LAST };

static enum news note(uint64_t pc, uint64_t writer_pc)
{
	enum news r = NEW;

	pthread_mutex_lock(&W.lock);
	for (unsigned i = 0; i < W.n && r == NEW; i++)
		if (W.seen[i].pc == pc && W.seen[i].writer_pc == writer_pc)
			r = OLD;
	if (r == NEW && W.n == PLACES)
		r = OLD;
	if (r == NEW) {
		W.seen[W.n++] = (struct place){pc, writer_pc};
		r = W.n == PLACES ? LAST : NEW;
	}
	pthread_mutex_unlock(&W.lock);
	return r;
}

void cp_missing_wait(struct isa_exec *x, const struct delay_missing *m)
{
	char at[240], writer[240], reg[16];
	enum news news = note(m->pc, m->writer_pc);

	CP_COUNT(missing_waits, 1);
	if (news == OLD)
		return;
	cp_wave_describe(x, x->group, x->w, m->pc, at, sizeof(at));
	cp_insn_text(x, m->writer_pc, writer, sizeof(writer));
	isa_reg_name(m->code, 1, reg, sizeof(reg));
	vgpu_report("missing wait: %s %s %s, which %s at PC 0x%lx writes; wanted: s_waitcnt "
		    "%scnt(%u) or less between them",
		    at, m->write ? "overwrites" : "reads", reg, writer, m->writer_pc,
		    m->lgkm ? "lgkm" : "vm", m->most);
	if (news == LAST)
		vgpu_report("missing wait: %u places have been reported, others will not be",
			    PLACES);
}
