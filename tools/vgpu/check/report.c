/* What was found: a line for the person at the terminal when it happens, and all of it as JSON. One
 * object per process that used the device, one per line, appended: docs/virtual-device.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/internal.h"
#include "device.h"
#include "ledger.h"

/* Distinct ones; the rest are only counted. */
#define KEEP 256u

static unsigned kept;

void check_report_forked(void)
{
	kept = 0;
}

static bool same(const struct check_finding *a, const struct check_finding *b)
{
	return a->kind == b->kind && a->pc == b->pc && a->work.l.entry == b->work.l.entry &&
	       a->work.l.packet == b->work.l.packet && a->buffer_va == b->buffer_va;
}

static const char *work_name(const struct check_finding *f, char *out, size_t len)
{
	const struct check_launch *l = &f->work.l;

	switch (l->kind) {
	case CHECK_AQL:
		snprintf(out, len,
			 "dispatch packet %lu of queue %u (kernel object 0x%lx, code hash %016lx)",
			 l->index, l->queue, l->kernel_object, f->code.hash);
		break;
	case CHECK_PM4:
		snprintf(out, len,
			 "the dispatch at dword %lu of PM4 queue %u (code at 0x%lx, hash %016lx)",
			 l->index, l->queue, l->entry, f->code.hash);
		break;
	case CHECK_SDMA:
		snprintf(out, len, "SDMA %s at byte %lu of queue %u", l->packet, l->index,
			 l->queue);
		break;
	}
	return out;
}

static const char *where(const struct check_finding *f, char *out, size_t len)
{
	if (f->buffer_va)
		snprintf(out, len, "0x%lx, offset 0x%lx of %s%s%s (0x%lx bytes at 0x%lx)", f->va,
			 f->va - f->buffer_va, f->buffer[0] ? "\"" : "a buffer without a name",
			 f->buffer, f->buffer[0] ? "\"" : "", f->buffer_bytes, f->buffer_va);
	else
		snprintf(out, len, "0x%lx", f->addr);
	return out;
}

static const char *who(const struct check_finding *f, char *out, size_t len)
{
	if (f->syscall == -2 && !f->pc)
		snprintf(out, len, "an instruction that is not known");
	else
		snprintf(out, len, "thread %u at 0x%lx%s%s%s%s", f->tid, f->pc,
			 f->place[0] ? " (" : "", f->place, f->place[0] ? ")" : "",
			 f->syscall >= 0 ? ", in a system call"
			 : !f->exact_pc  ? ", the first to write to this page"
					 : "");
	return out;
}

static void say(const struct check_finding *f)
{
	static const char *const text[CHECK_KINDS] = {
		[READ_EARLY] = "host read before publication: %s is written by %s, whose end the "
			       "host has not seen; read by %s. Wait for its completion with "
			       "acquire, then read",
		[READ_UNRELEASED] =
			"host read without a release: %s is written by %s, which the host has seen "
			"complete, but no packet since has released to system scope; read by %s. "
			"Give the last packet a release fence of system scope",
		[WRITE_EARLY] =
			"host write too early: %s is used by %s, whose end the host has not "
			"seen; written by %s. Wait for its completion, then write",
		[UNACQUIRED] =
			"host write without an acquire: %s is read by %s, and no packet since "
			"the host wrote it has acquired from system scope; written by %s. "
			"Give the first packet an acquire fence of system scope",
	};
	char a[256], b[192], c[320], all[960];

	/* Each text is one of ours, with three strings in it. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wformat-nonliteral"
	snprintf(all, sizeof(all), text[f->kind], where(f, a, sizeof(a)),
		 work_name(f, b, sizeof(b)), who(f, c, sizeof(c)));
#pragma clang diagnostic pop
	vgpu_report("check: %s", all);
}

static void name_buffer(struct check_finding *f)
{
	struct vgpu_ledger *l;

	vgpu_ledger_look();
	l = vgpu_ledger_read();
	if (!l)
		return;
	vgpu_ledger_name(l, f->buffer_va, ~0ull, f->buffer);
	vgpu_ledger_free(l);
}

/* A thread that was let go stops again if its page was shut before it got there: the same access. */
static bool again(const struct check_access_name *a, const struct check_access_name *b)
{
	return a->tid == b->tid && a->work == b->work && a->addr == b->addr;
}

void check_found(const struct check_finding *one)
{
	struct check_state *s = &check;
	struct check_finding f = *one, *p;

	f.last = (struct check_access_name){f.tid, f.work.number, f.addr};
	check_map_find(f.pool_off, &f.va, &f.buffer_va, &f.buffer_bytes);
	for (p = s->findings; p && !same(p, &f); p = p->next)
		;
	if (p && again(&p->last, &f.last))
		return;
	s->found[f.kind]++;
	if (p) {
		p->last = f.last;
		p->count++;
		return;
	}
	if (kept >= KEEP || !(p = malloc(sizeof(*p))))
		return;
	kept++;
	name_buffer(&f);
	if (f.pc)
		check_place(f.pc, f.place, sizeof(f.place));
	if (f.work.l.kind != CHECK_SDMA)
		f.code = count_code(f.work.l.vm, f.work.l.entry);
	f.count = 1;
	f.next = NULL;
	*p = f;
	*s->findings_end = p;
	s->findings_end = &p->next;
	say(p);
}

/* ---- JSON ------------------------------------------------------------------- */

/* Names come from the client: only what JSON takes as it is. "" is null. */
static void text_member(FILE *out, const char *name, const char *s)
{
	fprintf(out, ", \"%s\": ", name);
	if (!*s) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (; *s; s++)
		fputc(*s >= ' ' && *s <= '~' && *s != '"' && *s != '\\' ? *s : '?', out);
	fputc('"', out);
}

static void address_member(FILE *out, const char *name, uint64_t v)
{
	if (v)
		fprintf(out, ", \"%s\": \"0x%lx\"", name, v);
	else
		fprintf(out, ", \"%s\": null", name);
}

static void print_finding(FILE *out, const struct check_finding *f)
{
	static const char *const kinds[] = {"aql", "pm4", "sdma"};
	const struct check_launch *l = &f->work.l;

	fprintf(out, "{\"kind\": \"%s\", \"count\": %lu", check_kind_name[f->kind], f->count);
	text_member(out, "buffer", f->buffer);
	address_member(out, "buffer_va", f->buffer_va);
	fprintf(out, ", \"buffer_bytes\": %lu", f->buffer_bytes);
	address_member(out, "va", f->va);
	address_member(out, "host_address", f->addr);
	fprintf(out, ", \"work\": {\"type\": \"%s\", \"queue\": %u, \"packet\": %lu",
		kinds[l->kind], l->queue, l->index);
	address_member(out, "kernel_object", l->kernel_object);
	address_member(out, "entry", l->entry);
	if (f->code.bytes)
		fprintf(out, ", \"code_hash\": \"%016lx\", \"code_bytes\": %u, \"code_offset\": %d",
			f->code.hash, f->code.bytes, f->code.offset);
	if (l->packet)
		text_member(out, "operation", l->packet);
	fprintf(out, "}, \"thread\": %u", f->tid);
	address_member(out, "pc", f->pc);
	text_member(out, "place", f->place);
	if (f->syscall >= 0)
		fprintf(out, ", \"system_call\": %d", f->syscall);
	fprintf(out, ", \"exact_pc\": %s}", f->pc && f->exact_pc ? "true" : "false");
}

static char *json(void)
{
	struct check_state *s = &check;
	uint64_t found = 0;
	char *buf = NULL;
	size_t size;
	FILE *out = open_memstream(&buf, &size);

	if (!out)
		return NULL;
	for (unsigned i = 0; i < CHECK_KINDS; i++)
		found += s->found[i];
	fprintf(out, "{\"report\": \"visibility\", \"version\": 1, \"pid\": %d, \"checked\": %s",
		getpid(), s->dead ? "false" : "true");
	text_member(out, "why_not", s->why);
	fprintf(out,
		", \"rings\": %lu, \"rings_seen_late\": %lu, \"works\": %lu, \"traps\": %lu, "
		"\"mappings_not_watched\": %zu"
		", \"reads_beside\": %lu"
		", \"found\": %lu",
		s->rings, s->late, s->works, s->traps, s->unwatched, s->beside, found);
	for (unsigned i = 0; i < CHECK_KINDS; i++)
		fprintf(out, ", \"%s\": %lu", check_kind_name[i], s->found[i]);
	fputs(", \"findings\": [", out);
	for (const struct check_finding *f = s->findings; f; f = f->next) {
		print_finding(out, f);
		fputs(f->next ? ", " : "", out);
	}
	fputs("]}\n", out);
	if (fclose(out)) {
		free(buf);
		return NULL;
	}
	return buf;
}

void check_finish(void)
{
	const char *path = getenv("VGPU_CHECK");

	if (!check_on)
		return;
	check_pages_stop();
	if (path && *path)
		vgpu_append("check", path, json());
}
