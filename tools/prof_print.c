/* A report of the virtual device's counters as tables. */
#include <inttypes.h>
#include <string.h>

#include "tools/prof.h"

static int64_t get(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static double real(const json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

static const json_t *sub(const json_t *o, const char *name)
{
	return json_object_get(o, name);
}

static const char *word(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

/* "12.3 M" */
static const char *count(int64_t n)
{
	static char ring[8][24];
	static unsigned at;
	char *s = ring[at++ % 8];

	if (n < 100000)
		snprintf(s, sizeof(ring[0]), "%" PRId64, n);
	else if (n < 100000000)
		snprintf(s, sizeof(ring[0]), "%.1f k", (double)n * 1e-3);
	else
		snprintf(s, sizeof(ring[0]), "%.1f M", (double)n * 1e-6);
	return s;
}

static const char *micros(double seconds)
{
	static char ring[4][24];
	static unsigned at;
	char *s = ring[at++ % 4];

	snprintf(s, sizeof(ring[0]), "%.1f us", seconds * 1e6);
	return s;
}

static const char *kernel_name(const json_t *k)
{
	static char unknown[64];

	if (*word(k, "name"))
		return word(k, "name");
	snprintf(unknown, sizeof(unknown), "unknown, code %.16s", word(k, "code_hash"));
	return unknown;
}

/* Of the bytes that the touched 64-byte lines hold, how many were asked for. */
static double line_use(const json_t *set)
{
	const json_t *g = sub(set, "global");
	double lines = (double)get(g, "lines_64") * 64;
	double asked = (double)(get(g, "bytes_read") + get(g, "bytes_written") +
				get(g, "scalar_bytes_read"));

	return lines > 0 ? 100 * asked / lines : 0;
}

/* What most dispatches of a kernel are bound by. */
static const char *bound(const json_t *estimate)
{
	const char *best = "", *name;
	int64_t most = 0;
	json_t *v;

	if (*word(estimate, "bound"))
		return word(estimate, "bound");
	json_object_foreach((json_t *)sub(estimate, "bound_by"), name, v)
	{
		if (json_integer_value(v) > most) {
			most = json_integer_value(v);
			best = name;
		}
	}
	return best;
}

static void print_classes(const json_t *set)
{
	const json_t *lanes = sub(set, "lanes");
	const char *name;
	json_t *v;

	printf("    wave instructions %s:", count(get(set, "wave_instructions")));
	json_object_foreach((json_t *)sub(set, "instructions"), name, v)
	{
		const json_t *l = sub(lanes, name);

		if (!json_integer_value(v))
			continue;
		printf(" %s %s", name, count(json_integer_value(v)));
		if (l && get(l, "active") != get(l, "of"))
			printf(" (%.0f%% lanes)",
			       100.0 * (double)get(l, "active") / (double)get(l, "of"));
	}
	putchar('\n');
}

static void print_memory(const json_t *set)
{
	const json_t *g = sub(set, "global"), *l = sub(set, "lds"), *w = sub(set, "waits");

	printf("    global: read %s, written %s, scalar %s, atomics %s; lines touched %s of 64 B "
	       "(%.0f%% used), %s of 128 B; distinct %s read, %s written\n",
	       tool_bytes((uint64_t)get(g, "bytes_read")),
	       tool_bytes((uint64_t)get(g, "bytes_written")),
	       tool_bytes((uint64_t)get(g, "scalar_bytes_read")), count(get(g, "atomics")),
	       count(get(g, "lines_64")), line_use(set), count(get(g, "lines_128")),
	       tool_bytes(128 * (uint64_t)get(g, "distinct_lines_read")),
	       tool_bytes(128 * (uint64_t)get(g, "distinct_lines_written")));
	if (get(l, "bank_clocks"))
		printf("    LDS: read %s, written %s, atomics %s; bank clocks %s, of these "
		       "conflicts %s\n",
		       tool_bytes((uint64_t)get(l, "bytes_read")),
		       tool_bytes((uint64_t)get(l, "bytes_written")), count(get(l, "atomics")),
		       count(get(l, "bank_clocks")), count(get(l, "bank_conflicts")));
	printf("    waits: loads %s, scalar loads %s, LDS %s, stores %s; barriers %s\n",
	       count(get(w, "loads")), count(get(w, "scalar_loads")), count(get(w, "lds")),
	       count(get(w, "stores")), count(get(set, "barriers")));
}

static void print_estimate(const json_t *set, const char *what)
{
	const json_t *e = sub(set, "estimate"), *o = sub(set, "occupancy");

	printf("    gfx1151 estimate%s: %s, bound by %s (issue %s, bandwidth %s, latency %s); "
	       "occupancy %" PRId64 " of 16 waves per SIMD, limited by %s\n",
	       what, micros(real(e, "seconds")), bound(e), micros(real(e, "issue")),
	       micros(real(e, "bandwidth")), micros(real(e, "latency")), get(o, "waves_per_simd"),
	       word(o, "limit"));
}

static void print_kernels(const json_t *report)
{
	const json_t *kernels = sub(report, "kernels");
	int64_t insns = 0;
	double all = 0;
	json_t *k;
	size_t i;

	json_array_foreach((json_t *)kernels, i, k)
	{
		all += real(sub(k, "estimate"), "seconds");
		insns += get(k, "wave_instructions");
	}
	printf("%zu kernels, %" PRId64
	       " dispatches, %s wave instructions; estimated %s on gfx1151\n\n",
	       json_array_size(kernels), get(report, "dispatches_in_all"), count(insns),
	       micros(all));
	json_array_foreach((json_t *)kernels, i, k)
	{
		printf("%s\n", kernel_name(k));
		printf("    %" PRId64 " dispatches%s, %s workgroups of %" PRId64
		       " items, %s waves of %" PRId64 ", %" PRId64 " VGPRs, %" PRId64
		       " bytes of LDS, %s mode\n",
		       get(k, "dispatches"), get(k, "unfinished") ? " (some unfinished)" : "",
		       count(get(k, "workgroups")), get(k, "workgroup_items"),
		       count(get(k, "waves")), get(k, "wave_size"), get(k, "vgprs"),
		       get(k, "lds_bytes"),
		       json_is_true(json_object_get(k, "wgp_mode")) ? "WGP" : "CU");
		print_classes(k);
		print_memory(k);
		print_estimate(k, " of all");
		putchar('\n');
	}
}

static void print_dispatches(const json_t *report)
{
	const json_t *list = sub(report, "dispatches"), *kernels = sub(report, "kernels");
	json_t *d;
	size_t i;

	printf("dispatches (%zu of %" PRId64 ")\n", json_array_size(list),
	       get(report, "dispatches_in_all"));
	json_array_foreach((json_t *)list, i, d)
	{
		const json_t *k = json_array_get(kernels, (size_t)get(d, "kernel"));
		const json_t *g = sub(d, "global"), *e = sub(d, "estimate");

		printf("  queue %" PRId64 " packet %-6" PRId64 " %-28.28s %10s insns  read %10s  "
		       "written %10s  %10s %s%s\n",
		       get(d, "queue"), get(d, "packet"), kernel_name(k),
		       count(get(d, "wave_instructions")),
		       tool_bytes((uint64_t)get(g, "bytes_read")),
		       tool_bytes((uint64_t)get(g, "bytes_written")), micros(real(e, "seconds")),
		       bound(e),
		       json_is_true(json_object_get(d, "finished")) ? "" : " (unfinished)");
	}
	putchar('\n');
}

static void buffer_label(const json_t *b, char *s, size_t n)
{
	if (*word(b, "name"))
		snprintf(s, n, "%s", word(b, "name"));
	else
		snprintf(s, n, "BO %" PRId64, get(b, "bo"));
}

static void print_buffers(const json_t *report)
{
	const json_t *buffers = sub(report, "buffers");
	static const char *const never[] = {"never_read", "never_written"};
	char label[80];
	json_t *b;
	size_t i;

	printf("buffers               address         bytes       waves read  of it distinct    "
	       "waves wrote  packets, DMA\n");
	json_array_foreach((json_t *)buffers, i, b)
	{
		buffer_label(b, label, sizeof(label));
		printf("  %-18.18s  %-14s %10s  %14s  %14s %14s  %s\n", label, word(b, "va"),
		       tool_bytes((uint64_t)get(b, "bytes")),
		       tool_bytes((uint64_t)get(b, "bytes_read")),
		       tool_bytes((uint64_t)get(b, "distinct_bytes_read")),
		       tool_bytes((uint64_t)get(b, "bytes_written")),
		       json_is_true(json_object_get(b, "executed"))       ? "executed"
		       : get(b, "others_read") + get(b, "others_written") ? "yes"
									  : "no");
	}
	for (unsigned n = 0; n < 2; n++) {
		printf("%s by the device:", n ? "never written" : "never read");
		json_array_foreach((json_t *)buffers, i, b)
		{
			if (!json_is_true(json_object_get(b, never[n])))
				continue;
			buffer_label(b, label, sizeof(label));
			printf(" %s (%s, %s)", label, word(b, "va"),
			       tool_bytes((uint64_t)get(b, "bytes")));
		}
		putchar('\n');
	}
	putchar('\n');
}

void prof_print(const json_t *report, bool dispatches)
{
	printf("process %" PRId64 " (%s): ", get(report, "pid"), word(report, "program"));
	print_kernels(report);
	if (dispatches)
		print_dispatches(report);
	print_buffers(report);
}

static void print_opcodes(const json_t *f, const char *name)
{
	json_t *o;
	size_t i;

	json_array_foreach((json_t *)sub(f, name), i, o)
	{
		printf("    %-32s %" PRId64 "\n", word(o, "opcode"), get(o, "count"));
	}
}

void prof_print_fidelity(const json_t *report)
{
	const json_t *f = sub(report, "fidelity");
	json_t *v;
	size_t i;

	printf("fidelity of process %" PRId64 " (%s): %" PRId64 " operations of %" PRId64
	       " opcodes\n",
	       get(report, "pid"), word(report, "program"), get(f, "operations"),
	       get(f, "opcodes"));
	printf("  exact                  %" PRId64 "\n", get(f, "exact"));
	printf("  within a tolerance     %" PRId64 "\n", get(f, "approximated"));
	print_opcodes(f, "approximated_opcodes");
	printf("  without effect here    %" PRId64 " (waits, hints, cache invalidates)\n",
	       get(f, "without_effect"));
	printf("  not executed           %" PRId64 "\n", get(f, "not_executed"));
	print_opcodes(f, "not_executed_opcodes");
	printf("  packets %" PRId64 ", dispatches %" PRId64 ", faults %" PRId64
	       ", unsupported %" PRId64 "\n",
	       get(f, "packets"), get(f, "dispatches"), get(f, "faults"), get(f, "unsupported"));
	puts("  not modelled");
	json_array_foreach((json_t *)sub(f, "not_modelled"), i, v)
	{
		printf("    %s\n", json_string_value(v));
	}
	putchar('\n');
}
