/* Host accesses against works whose end the host has not seen. */
#include <string.h>

#include "check/internal.h"

const char *const check_kind_name[CHECK_KINDS] = {
	[READ_EARLY] = "read_before_publication",
	[READ_UNRELEASED] = "read_without_release",
	[WRITE_EARLY] = "write_in_flight",
	[UNACQUIRED] = "write_without_acquire",
};

/* Whether the host knows that w is over: it may write what w has read. */
static bool seen(const struct check_item *w)
{
	return w->state == GONE || w->flag_seen ||
	       (w->state == COMPLETE && w->order <= check.seen_complete);
}

/* Whether what w wrote in such memory is published. */
static bool released(const struct check_item *w, bool uncached)
{
	if (w->state == GONE)
		return true;
	if (uncached || w->l.kind == CHECK_SDMA)
		return seen(w);
	return w->state == COMPLETE && w->order <= check.seen_released;
}

static void found(enum check_kind kind, const struct check_trap *t, const struct check_item *w,
		  bool exact)
{
	check_found(&(struct check_finding){
		.kind = kind,
		.addr = t->addr,
		.pool_off = t->off,
		.work = *w,
		.pc = t->pc,
		.syscall = t->syscall,
		.tid = t->tid,
		.exact_pc = exact,
	});
}

/* What a work wrote lies there, unpublished. */
static void against_write(const struct check_trap *t, const struct check_item *w)
{
	bool uc = __atomic_load_n(&check.page[t->off / VM_PAGE].uncached, __ATOMIC_RELAXED);

	if (released(w, uc))
		return;
	if (t->write && !seen(w))
		found(WRITE_EARLY, t, w, true);
	else if (!t->write)
		found(seen(w) ? READ_UNRELEASED : READ_EARLY, t, w, true);
}

/* A work has read there. */
static void against_read(const struct check_trap *t, const struct check_item *w)
{
	if (t->write && !seen(w))
		found(WRITE_EARLY, t, w, true);
}

/* Whether unpublished bytes lie behind the one that was read, in the page that is open now. */
static bool beside(uint64_t off)
{
	uint64_t end = (off | (VM_PAGE - 1)) / 4;
	bool uc = __atomic_load_n(&check.page[off / VM_PAGE].uncached, __ATOMIC_RELAXED);

	for (uint64_t i = off / 4; i <= end; i++) {
		const struct check_item *w =
			check_item(__atomic_load_n(&check.wrote[i], __ATOMIC_RELAXED));

		/* The byte itself: that is a finding, not a guess. */
		if (w && !released(w, uc))
			return i != off / 4;
	}
	return false;
}

/* A memcpy that starts before them reads them too, but nobody sees it do so. */
static void count_beside(struct check_access *a)
{
	if (a->write || a->beside || !beside(a->off))
		return;
	a->beside = true;
	check.beside++;
}

void check_judge(const struct check_trap *t)
{
	struct check_state *s = &check;
	struct check_page *p = &s->page[t->off / VM_PAGE];
	uint32_t wrote, read;
	struct check_access *a;
	struct check_item *w;

	/* Did it come to look? Then it knows, from here on. */
	check_observe(p->complete, p->released);
	if (p->flag && t->off % VM_PAGE / 4 == p->flag_dword && (w = check_item(p->flag)))
		w->flag_seen = true;
	wrote = __atomic_load_n(&s->wrote[t->off / 4], __ATOMIC_RELAXED);
	read = __atomic_load_n(&s->read[t->off / 4], __ATOMIC_RELAXED);
	w = check_item(wrote);
	if (w)
		against_write(t, w);
	w = check_item(read);
	if (w)
		against_read(t, w);
	/* Others are under way, and may get here yet. */
	a = &s->access[s->n_accesses++ % CHECK_ACCESSES];
	*a = (struct check_access){
		.ring = s->ring,
		.wrote = wrote,
		.read = read,
		.write = t->write,
		.off = t->off,
		.addr = t->addr,
		.pc = t->pc,
		.syscall = t->syscall,
		.tid = t->tid,
	};
	count_beside(a);
}

void check_accesses_against(const struct check_item *w)
{
	struct check_state *s = &check;
	uint64_t oldest = s->n_accesses > CHECK_ACCESSES ? s->n_accesses - CHECK_ACCESSES : 0;

	for (uint64_t i = s->n_accesses; s->access && i-- > oldest;) {
		struct check_access *a = &s->access[i % CHECK_ACCESSES];
		const struct check_trap t = {a->addr, a->off, a->pc, a->tid, a->syscall, a->write};

		if (a->ring < w->ring)
			return;
		if (a->wrote != w->number &&
		    __atomic_load_n(&s->wrote[a->off / 4], __ATOMIC_RELAXED) == w->number)
			against_write(&t, w);
		if (a->read != w->number &&
		    __atomic_load_n(&s->read[a->off / 4], __ATOMIC_RELAXED) == w->number)
			against_read(&t, w);
		count_beside(a);
	}
}

void check_settle(struct check_open *e, bool mark)
{
	static const uint8_t zeros[VM_PAGE];
	const uint32_t *now = (const uint32_t *)(check.alias + e->off);
	const uint32_t *was = (const uint32_t *)(e->copy ? e->copy : zeros);
	uint64_t first = e->off / 4;

	if (!memcmp(now, was, VM_PAGE))
		return;
	if (mark)
		check.writer[check.n_writers++ % CHECK_WRITERS] =
			(struct check_writer){e->off, e->addr, e->pc, e->syscall, e->tid};
	for (unsigned i = 0; i < VM_PAGE / 4; i++) {
		uint32_t by = __atomic_load_n(&check.wrote[first + i], __ATOMIC_RELAXED);
		const struct check_item *w;

		/* The device may have changed it. */
		if (__atomic_load_n(&now[i], __ATOMIC_RELAXED) == was[i] || by >= e->running)
			continue;
		w = check_item(__atomic_load_n(&check.read[first + i], __ATOMIC_RELAXED));
		if (w && !seen(w) && e->first / 4 != first + i) {
			const struct check_trap t = {e->addr + 4 * i, e->off + 4 * i, e->pc,
						     e->tid,          e->syscall,     true};

			found(WRITE_EARLY, &t, w, false);
		}
		if (mark)
			__atomic_store_n(&check.host[first + i], check.ring + 1, __ATOMIC_RELAXED);
	}
}
