#include "engine/footprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB         (1ull << 20)
#define HUGE_ORDER  9 /* 4 KiB << 9 is 2 MiB */
#define KFD_RESERVE (3ull << 29)
#define TRAP_BYTES  8192u /* KFD_CWSR_TBA_TMA_SIZE: first-level trap handler and its data */
/* MES's page for the process and one for each queue (kfd_process_queue_manager.c); the MQD comes
 * out of memory that the driver took at boot. */
#define MES_BYTES 4096u

uint64_t footprint_kfd_limit(uint64_t mem_total)
{
	uint64_t limit = mem_total - (mem_total >> 6);

	return limit < 2 * KFD_RESERVE ? limit >> 1 : limit - KFD_RESERVE;
}

static struct footprint_ceiling ceiling(const char *name, const char *rule,
					struct footprint_number limit, struct footprint_number used,
					uint64_t need)
{
	return (struct footprint_ceiling){
		.name = name,
		.rule = rule,
		.known = limit.known && used.known,
		.limit = limit.v,
		.used = used.v,
		.need = need,
	};
}

static uint64_t room(const struct footprint_ceiling *c)
{
	return c->limit > c->used ? c->limit - c->used : 0;
}

static const struct plan_row *row_of(const struct plan *p, const char *owner)
{
	static const struct plan_row none;

	for (uint32_t i = 0; i < p->n_rows; i++)
		if (!strcmp(p->rows[i].owner, owner))
			return &p->rows[i];
	return &none;
}

void footprint_compute(const struct plan *p, const struct footprint_machine *m,
		       const struct footprint_host *h, uint64_t budget, struct footprint *out)
{
	const struct footprint_number none = {true, 0};
	struct footprint_number kfd = {m->mem_total.known, footprint_kfd_limit(m->mem_total.v)};
	/* Scratch, which is VRAM too, is none of the plan's. */
	struct footprint f = {
		.device = p->total,
		.vram = plan_asked(p, BO_VRAM),
		.page_tables = p->tables_most,
		.page_tables_least = p->tables_least,
		.binds = -1,
		.refuses = -1,
	};
	uint32_t queues = 1 + row_of(p, "sdma queue")->count;

	f.kernel = TRAP_BYTES + MES_BYTES * (1 + queues);
	f.host = (struct footprint_number){h->now.known, h->now.v + h->later};
	f.process = (struct footprint_number){f.host.known,
					      f.device + f.page_tables + f.kernel + f.host.v};

	/* With more GTT than VRAM the kernel serves an APU's VRAM requests from GTT
	 * (amdkfd: adev->flags & AMD_IS_APU and the carve-out smaller than GTT). */
	f.ceiling[CEILING_VRAM] =
		ceiling("VRAM carve-out", "page tables, and what is asked for as VRAM",
			m->vram_total, m->vram_used, f.page_tables + f.vram);
	if (m->vram_total.known && m->gtt_total.known && m->gtt_total.v > m->vram_total.v)
		f.ceiling[CEILING_VRAM].need = f.page_tables;
	f.ceiling[CEILING_GTT] =
		ceiling("GTT", "mem_info_gtt_total, less what all processes have in it",
			m->gtt_total, m->gtt_used, f.device + f.kernel);
	/* User memory is in GTT while it is mapped, but TTM did not allocate it
	 * (amdgpu_ttm_tt_set_userptr: TTM_TT_FLAG_EXTERNAL). */
	f.ceiling[CEILING_TTM] = ceiling(
		"ttm.pages_limit", "pages TTM may hold for all devices, times 4096", m->pages_limit,
		m->gtt_used, f.device - plan_asked(p, BO_USERPTR) + f.kernel);
	f.ceiling[CEILING_KFD] = ceiling("KFD system limit",
					 "63/64 of RAM less 1.5 GiB, of all KFD processes together",
					 kfd, m->gtt_used, f.device);
	f.ceiling[CEILING_RAM] = ceiling("MemAvailable", "what Linux can free for new use",
					 m->mem_available, none, f.device + f.kernel + h->later);
	f.ceiling[CEILING_HUGE] =
		ceiling("free 2 MiB blocks",
			"unbroken memory, /proc/buddyinfo; beyond it compaction has to make more",
			m->huge_free, none, f.device);
	f.ceiling[CEILING_HUGE].advisory = true;
	f.ceiling[CEILING_BUDGET] =
		ceiling("budget", "--budget: the whole process, page cache not counted",
			(struct footprint_number){budget != 0, budget}, none, f.process.v);
	f.ceiling[CEILING_BUDGET].known &= f.process.known;

	for (int i = 0; i < CEILING_COUNT; i++) {
		const struct footprint_ceiling *c = &f.ceiling[i];
		const struct footprint_ceiling *b = f.binds < 0 ? NULL : &f.ceiling[f.binds];

		if (!c->known || c->advisory || !c->need)
			continue;
		if (!b || (int64_t)(room(c) - c->need) < (int64_t)(room(b) - b->need))
			f.binds = i;
		if (room(c) < c->need && f.refuses < 0)
			f.refuses = i;
	}
	/* Of several that are too low the one that is short of most. */
	if (f.refuses >= 0)
		f.refuses = f.binds;
	*out = f;
}

static uint64_t mib_up(uint64_t bytes)
{
	return (bytes + MIB - 1) / MIB;
}

/* What copies by the device take: there is none of it where the host copies. */
static uint64_t copying(const struct plan *p)
{
	return row_of(p, "staging")->granted + row_of(p, "sdma ring")->granted +
	       row_of(p, "sdma queue")->granted;
}

int footprint_refusal(const struct plan *p, const struct footprint *f, char *text, size_t len)
{
	const struct footprint_ceiling *c = &f->ceiling[f->refuses];
	uint64_t has = room(c), copies = copying(p);
	int n;

	n = snprintf(text, len,
		     "does not fit: %s has %" PRIu64 " bytes (%" PRIu64 " less %" PRIu64
		     " in use), needed are %" PRIu64 ", %" PRIu64 " short; weights %" PRIu64,
		     c->name, has, c->limit, c->used, c->need, c->need - has,
		     p->bo[PLAN_WEIGHTS].granted);
	if (n > 0 && (size_t)n < len && p->refilled)
		n += snprintf(text + n, len - (size_t)n,
			      " + %" PRIu64 " for those of %u blocks in turn",
			      p->bo[PLAN_SLOT].granted, p->refilled);
	if (n > 0 && (size_t)n < len && copies)
		n += snprintf(text + n, len - (size_t)n, " + %" PRIu64 " to copy them through",
			      copies);
	if (n > 0 && (size_t)n < len)
		n += snprintf(text + n, len - (size_t)n,
			      " + kv %" PRIu64 " + transients %" PRIu64 " + the rest %" PRIu64
			      " on the device",
			      p->bo[PLAN_KV].granted, p->bo[PLAN_ACTIVATIONS].granted,
			      f->device - p->bo[PLAN_WEIGHTS].granted - p->bo[PLAN_SLOT].granted -
				      copies - p->bo[PLAN_KV].granted -
				      p->bo[PLAN_ACTIVATIONS].granted);
	if (n > 0 && (size_t)n < len && f->refuses == CEILING_BUDGET)
		n += snprintf(text + n, len - (size_t)n,
			      " + page tables and kernel %" PRIu64 " + host %" PRIu64
			      "; the smallest budget that works with this context is %" PRIu64
			      " MiB",
			      f->page_tables + f->kernel, f->host.v, mib_up(f->process.v));
	return n;
}

bool footprint_buddyinfo(const char *text, uint64_t *free_bytes, uint64_t *largest)
{
	uint64_t sum = 0, top = 0;
	bool any = false;

	/* "Node 0, zone   Normal   1 2 3 ..." : free blocks of order 0, 1, 2, ... */
	for (const char *line = text; line && *line;) {
		const char *end = strchr(line, '\n'), *at = strstr(line, "zone");
		unsigned order = 0;

		if (!end)
			end = line + strlen(line);
		if (at && at < end) {
			at += strlen("zone");
			while (at < end && *at == ' ')
				at++;
			while (at < end && *at != ' ')
				at++;
			while (at < end && order < 20) {
				char *next;
				uint64_t n = strtoull(at, &next, 10);

				if (next == at || next > end)
					break;
				at = next;
				any = true;
				if (order >= HUGE_ORDER && n) {
					sum += n << (12 + order);
					if (4096ull << order > top)
						top = 4096ull << order;
				}
				order++;
			}
		}
		line = *end ? end + 1 : NULL;
	}
	if (any) {
		*free_bytes = sum;
		*largest = top;
	}
	return any;
}
