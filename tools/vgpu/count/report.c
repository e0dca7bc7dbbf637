/* The counts as JSON. One object per process that used the device, one per line, appended: a
 * process and its children may share the file. docs/prof.md lists the members. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count/internal.h"
#include "cp/cp.h"
#include "device.h"
#include "isa/shape.h"
#include "vm/rawsys.h"

struct json {
	FILE *f;
	bool comma; /* the next member wants one before it */
};

static void key(struct json *j, const char *name)
{
	if (j->comma)
		fputs(", ", j->f);
	j->comma = true;
	if (name)
		fprintf(j->f, "\"%s\": ", name);
}

static void begin(struct json *j, const char *name, char bracket)
{
	key(j, name);
	fputc(bracket, j->f);
	j->comma = false;
}

static void end(struct json *j, char bracket)
{
	fputc(bracket, j->f);
	j->comma = true;
}

static void number(struct json *j, const char *name, uint64_t v)
{
	key(j, name);
	fprintf(j->f, "%llu", (unsigned long long)v);
}

static void truth(struct json *j, const char *name, bool v)
{
	key(j, name);
	fputs(v ? "true" : "false", j->f);
}

static void address(struct json *j, const char *name, uint64_t v)
{
	key(j, name);
	fprintf(j->f, "\"0x%llx\"", (unsigned long long)v);
}

static void seconds(struct json *j, const char *name, double v)
{
	key(j, name);
	fprintf(j->f, "%.9g", v);
}

/* Names come from the client: only what JSON takes as it is. "" is null. */
static void text(struct json *j, const char *name, const char *s)
{
	key(j, name);
	if (!*s) {
		fputs("null", j->f);
		return;
	}
	fputc('"', j->f);
	for (; *s; s++) {
		bool plain = *s >= ' ' && *s <= '~' && *s != '"' && *s != '\\';

		fputc(plain ? *s : '?', j->f);
	}
	fputc('"', j->f);
}

static uint64_t instructions(const struct count_set *s)
{
	uint64_t n = 0;

	for (unsigned c = 0; c < CC_COUNT; c++)
		n += s->insns[c];
	return n;
}

static void print_set(struct json *j, const struct count_set *s)
{
	number(j, "waves", s->waves);
	number(j, "workgroups", s->groups);
	number(j, "wave_instructions", instructions(s));
	begin(j, "instructions", '{');
	for (unsigned c = 0; c < CC_COUNT; c++)
		number(j, count_class_name[c], s->insns[c]);
	end(j, '}');
	begin(j, "lanes", '{');
	for (unsigned c = CC_VALU; c < CC_COUNT; c++) {
		if (!s->passes[c])
			continue;
		begin(j, count_class_name[c], '{');
		number(j, "active", s->lanes[c]);
		number(j, "of", 32 * s->passes[c]);
		end(j, '}');
	}
	end(j, '}');
	begin(j, "global", '{');
	number(j, "bytes_read", s->vmem_read);
	number(j, "bytes_written", s->vmem_written);
	number(j, "scalar_bytes_read", s->smem_read);
	number(j, "atomics", s->atomics);
	number(j, "lines_64", s->lines64);
	number(j, "lines_128", s->lines128);
	number(j, "distinct_lines_read", s->unique_read);
	number(j, "distinct_lines_written", s->unique_written);
	end(j, '}');
	begin(j, "lds", '{');
	number(j, "bytes_read", s->lds_read);
	number(j, "bytes_written", s->lds_written);
	number(j, "atomics", s->lds_atomics);
	number(j, "bank_clocks", s->lds_cycles);
	number(j, "bank_conflicts", s->lds_conflicts);
	end(j, '}');
	begin(j, "waits", '{');
	number(j, "loads", s->vmem_waits);
	number(j, "stores", s->store_waits);
	number(j, "scalar_loads", s->smem_waits);
	number(j, "lds", s->lds_waits);
	end(j, '}');
	number(j, "barriers", s->insns[CC_BARRIER]);
	number(j, "vector_clocks", s->vector_cycles);
}

static unsigned buffer_number(const struct count_buffer *b)
{
	unsigned n = 0;

	for (struct count_buffer *i = count_state.buffers; i && i != b; i = i->next)
		n++;
	return n;
}

static void print_touches(struct json *j, const struct count_touch *t, unsigned n)
{
	begin(j, "buffers", '[');
	for (unsigned i = 0; i < n; i++) {
		begin(j, NULL, '{');
		number(j, "buffer", buffer_number(t[i].b));
		number(j, "bytes_read", t[i].read);
		number(j, "bytes_written", t[i].written);
		end(j, '}');
	}
	end(j, ']');
}

static void print_occupancy(struct json *j, const struct count_occupancy *o)
{
	begin(j, "occupancy", '{');
	number(j, "waves_per_simd", o->waves_per_simd);
	number(j, "of", 16);
	text(j, "limit", o->limit);
	number(j, "by_vgprs", o->by_vgprs);
	number(j, "by_lds", o->by_lds);
	end(j, '}');
}

static void print_kernel(struct json *j, const struct count_kernel *k)
{
	bool wgp = k->rsrc1 >> 29 & 1;
	struct count_occupancy o =
		count_occupancy(k->nvgpr, k->wave64, k->lds_bytes, k->waves_full, wgp);

	begin(j, NULL, '{');
	address(j, "kernel_object", k->kernel_object);
	address(j, "entry", k->entry);
	key(j, "code_hash");
	fprintf(j->f, "\"%016llx\"", (unsigned long long)k->hash);
	number(j, "code_bytes", k->code_bytes);
	key(j, "code_offset");
	fprintf(j->f, "%d", k->code_offset);
	number(j, "wave_size", k->wave64 ? 64 : 32);
	truth(j, "wgp_mode", wgp);
	number(j, "vgprs", k->nvgpr);
	number(j, "lds_bytes", k->lds_bytes);
	number(j, "workgroup_items", k->wg_items);
	number(j, "dispatches", k->dispatches);
	number(j, "unfinished", k->unfinished);
	print_occupancy(j, &o);
	print_set(j, &k->set);
	begin(j, "estimate", '{');
	seconds(j, "seconds", k->seconds[BOUND_COUNT]);
	for (unsigned b = 0; b < BOUND_COUNT; b++)
		seconds(j, count_bound_name[b], k->seconds[b]);
	begin(j, "bound_by", '{');
	for (unsigned b = 0; b < BOUND_COUNT; b++)
		number(j, count_bound_name[b], k->bound[b]);
	end(j, '}');
	end(j, '}');
	print_touches(j, k->touch, k->n_touch);
	end(j, '}');
}

static void print_dispatch(struct json *j, struct count_dispatch *d)
{
	const struct count_launch *l = &d->launch;
	struct count_kernel *k = d->kernel;
	bool wgp = k->rsrc1 >> 29 & 1;
	struct count_occupancy o =
		count_occupancy(k->nvgpr, k->wave64, l->lds_bytes, l->waves_full, wgp);
	struct count_estimate e = count_estimate(&d->set, &o, wgp);
	unsigned n = 0;

	for (struct count_kernel *i = count_state.kernels; i != k; i = i->next)
		n++;
	begin(j, NULL, '{');
	number(j, "kernel", n);
	number(j, "queue", l->queue);
	number(j, "packet", l->index);
	truth(j, "finished", d->done);
	begin(j, "grid", '[');
	for (unsigned i = 0; i < 3; i++)
		number(j, NULL, l->grid[i]);
	end(j, ']');
	begin(j, "workgroup", '[');
	for (unsigned i = 0; i < 3; i++)
		number(j, NULL, l->wg[i]);
	end(j, ']');
	number(j, "lds_bytes", l->lds_bytes);
	print_occupancy(j, &o);
	print_set(j, &d->set);
	begin(j, "estimate", '{');
	seconds(j, "seconds", e.total);
	for (unsigned b = 0; b < BOUND_COUNT; b++)
		seconds(j, count_bound_name[b], e.seconds[b]);
	text(j, "bound", count_bound_name[e.bound]);
	end(j, '}');
	print_touches(j, d->touch, d->n_touch);
	end(j, '}');
}

static uint64_t visited(const uint32_t *lines, uint64_t n)
{
	uint64_t v = 0;

	for (uint64_t i = 0; lines && i < n; i++)
		v += lines[i] != 0;
	return v;
}

static void print_buffer(struct json *j, const struct count_buffer *b, unsigned n)
{
	uint64_t lines = b->size / COUNT_LINE;

	begin(j, NULL, '{');
	number(j, "buffer", n);
	text(j, "name", b->name);
	address(j, "va", b->va);
	number(j, "bytes", b->size);
	number(j, "bo", b->bo);
	text(j, "memory", b->user ? "user" : b->pool == VM_POOL_VRAM ? "vram" : "gtt");
	truth(j, "writable", b->writable);
	truth(j, "executable", b->executable);
	truth(j, "mapped_at_end", b->live);
	number(j, "bytes_read", b->read);
	number(j, "bytes_written", b->written);
	number(j, "atomics", b->atomics);
	number(j, "distinct_bytes_read", visited(b->line_read, lines) * COUNT_LINE);
	number(j, "distinct_bytes_written", visited(b->line_written, lines) * COUNT_LINE);
	number(j, "others_read", b->other_read);
	number(j, "others_written", b->other_written);
	truth(j, "executed", b->fetched);
	truth(j, "never_read", !b->read && !b->other_read && !b->fetched);
	truth(j, "never_written", !b->written && !b->other_written);
	end(j, '}');
}

/* ---- fidelity ------------------------------------------------------------ */

struct ops {
	uint64_t done[ISA_OP_COUNT], approximated[ISA_OP_COUNT], refused[ISA_OP_COUNT];
};

static struct ops *all_ops(void)
{
	struct count_state *s = &count_state;
	struct ops *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	memcpy(o->done, s->ops, sizeof(o->done));
	memcpy(o->approximated, s->approximated, sizeof(o->approximated));
	memcpy(o->refused, s->refused, sizeof(o->refused));
	for (struct count_ctx *c = s->contexts; c; c = c->next)
		for (unsigned i = 0; i < ISA_OP_COUNT; i++) {
			o->done[i] += c->ops[i];
			o->approximated[i] += c->approximated[i];
			o->refused[i] += c->refused[i];
		}
	return o;
}

/* Operations whose effect on results is none here: time and caches are not modelled. */
static bool no_effect(unsigned op)
{
	enum count_class c = count_class_of(op);

	return c == CC_HINT || c == CC_WAITCNT || c == CC_CACHE;
}

static void print_ops(struct json *j, const char *name, const uint64_t *which, const uint64_t *of)
{
	begin(j, name, '[');
	for (unsigned i = 1; i < ISA_OP_COUNT; i++) {
		if (!which[i])
			continue;
		begin(j, NULL, '{');
		text(j, "opcode", isa_op_name(i));
		number(j, "count", which[i]);
		if (of)
			number(j, "of", of[i]);
		end(j, '}');
	}
	end(j, ']');
}

static void print_fidelity(struct json *j)
{
	uint64_t done = 0, approximated = 0, idle = 0, refused = 0, kinds = 0;
	struct ops *o = all_ops();
	struct cp_stats cp = {0};

	cp_stats(&cp);
	for (unsigned i = 0; o && i < ISA_OP_COUNT; i++) {
		done += o->done[i];
		approximated += o->approximated[i];
		refused += o->refused[i];
		kinds += !!o->done[i];
		if (o->done[i] && no_effect(i))
			idle += o->done[i];
	}
	begin(j, "fidelity", '{');
	number(j, "operations", done);
	number(j, "opcodes", kinds);
	number(j, "exact", done - approximated - idle);
	number(j, "approximated", approximated);
	number(j, "without_effect", idle);
	number(j, "not_executed", refused);
	if (o) {
		print_ops(j, "approximated_opcodes", o->approximated, o->done);
		print_ops(j, "not_executed_opcodes", o->refused, NULL);
	}
	number(j, "packets", cp.packets);
	number(j, "dispatches", cp.dispatches);
	number(j, "faults", cp.faults);
	number(j, "unsupported", cp.unsupported);
	begin(j, "not_modelled", '[');
	text(j, NULL, "time: instructions take none, s_sleep and clocks follow the host");
	text(j, NULL, "caches: memory is coherent and in order, nothing is ever stale");
	text(j, NULL, "placement: hardware ids, priorities and which CU runs what are invented");
	end(j, ']');
	end(j, '}');
	free(o);
}

static void print_head(struct json *j, const char *what)
{
	char comm[17] = "";
	long fd = rawsys4(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);

	if (fd >= 0) {
		long n = rawsys3(SYS_read, fd, comm, sizeof(comm) - 1);

		comm[n > 0 ? n : 0] = 0;
		comm[strcspn(comm, "\n")] = 0;
		rawsys1(SYS_close, fd);
	}
	begin(j, NULL, '{');
	text(j, "report", what);
	number(j, "version", 1);
	number(j, "pid", (uint64_t)getpid());
	text(j, "program", comm);
}

static char *finished(struct json *j, char **buf)
{
	end(j, '}');
	fputc('\n', j->f);
	if (fclose(j->f)) {
		free(*buf);
		return NULL;
	}
	return *buf;
}

char *count_json(void)
{
	struct count_state *s = &count_state;
	struct json j = {0};
	char *buf = NULL;
	size_t size;
	unsigned n = 0;

	j.f = open_memstream(&buf, &size);
	if (!j.f)
		return NULL;
	print_head(&j, "counters");
	number(&j, "dispatches_in_all", s->n_dispatches);
	begin(&j, "kernels", '[');
	for (struct count_kernel *k = s->kernels; k; k = k->next)
		print_kernel(&j, k);
	end(&j, ']');
	begin(&j, "dispatches", '[');
	for (struct count_dispatch *d = s->dispatches; d; d = d->next)
		print_dispatch(&j, d);
	end(&j, ']');
	begin(&j, "buffers", '[');
	for (struct count_buffer *b = s->buffers; b; b = b->next)
		print_buffer(&j, b, n++);
	end(&j, ']');
	print_fidelity(&j);
	return finished(&j, &buf);
}

static char *fidelity_json(void)
{
	struct json j = {0};
	char *buf = NULL;
	size_t size;

	j.f = open_memstream(&buf, &size);
	if (!j.f)
		return NULL;
	print_head(&j, "fidelity");
	print_fidelity(&j);
	return finished(&j, &buf);
}

void count_finish(void)
{
	const char *counters = getenv("VGPU_COUNTERS"), *fidelity = getenv("VGPU_FIDELITY");

	if (!count_on)
		return;
	count_ledger_names();
	if (counters && *counters)
		vgpu_append("counters", counters, count_json());
	if (fidelity && *fidelity)
		vgpu_append("fidelity", fidelity, fidelity_json());
}
