/* barewave mem: what a process has on the device, by its own ledger and by the kernel's counters.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "memory/ledger_view.h"
#include "tools/mem_external.h"
#include "tools/mem_picture.h"
#include "tools/tool.h"

#define MAX_DUPLICATES 256

static const char help[] =
	"Usage: barewave mem (--pid N | --ledger FILE) [OPTIONS]\n\n"
	"Live and peak bytes by owner, the map of the address space, buffers that are written and\n"
	"never read (or the other way round, or never touched), and everything that is resident\n"
	"twice, from the ledger of a running process or from one saved by 'barewave run --ledger\n"
	"FILE' (or launch). For a process, beside it what the kernel's own counters\n"
	"say: fdinfo (drm-*), KFD's sysfs and, as root, the amdgpu_bo_create tracepoint. What\n"
	"cannot be known is said to be unknown. Works for any process; one that does not use\n"
	"barewave has no ledger, and only the kernel's numbers are shown.\n\n"
	"  --pid N              of process N\n"
	"  --ledger FILE        of a saved ledger (docs/ledger.md)\n"
	"  --index N            the process's ledger number N (default 0: of its first device)\n"
	"  --inside             in the map, also what lies inside buffers: weights, arguments\n"
	"  --trace SECONDS      watch amdgpu_bo_create for so long (root)\n"
	"  --svg FILE           picture: footprint over time, address space\n"
	"  --html FILE          the same as a page, with the table\n"
	"  --root DIR           look for proc and sys under DIR: a copy from another machine\n"
	"  --json               everything, as JSON\n"
	"  --help               this text\n";

static const char *const placements[] = {"GTT", "VRAM", "userptr", "doorbell"};
static const char *const coherences[] = {"coarse", "fine", "uncached"};
static const char *const scopes[] = {"process", "model", "context", "request", "batch"};

struct mem {
	int pid; /* 0: from a file */
	const char *file, *root, *svg, *html;
	char outside[512]; /* what a virtual device shows of the process; empty: it has none */
	uint64_t index;
	double trace;
	bool json, inside;
	struct ledger_view *v; /* NULL: no ledger */
	char no_ledger[512];
	struct mem_external ext;
	struct view_duplicate dup[MAX_DUPLICATES];
	uint32_t n_dup;
};

static const char *word(const char *const *list, size_t n, unsigned i)
{
	return i < n ? list[i] : "unknown";
}
#define WORD(list, i) word(list, sizeof(list) / sizeof((list)[0]), i)

/* ---- text ---- */

/* How many of an owner's buffers, alive and dead, come to use. */
static uint32_t count_use(const struct ledger_view *v, uint32_t owner, enum view_use use)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n_bos; i++)
		n += v->bos[i].owner == owner && ledger_view_use(&v->bos[i]) == use;
	return n;
}

static void text_usage(const struct ledger_view *v)
{
	printf("%-24s %14s %14s %8s %8s  %s\n", "owner", "live", "peak", "buffers", "ever",
	       "written, never read");
	for (uint32_t i = 0; i < v->n_usage; i++) {
		const struct view_usage *u = &v->usage[i];
		uint32_t unknown = count_use(v, i, VIEW_UNKNOWN);

		if (!u->is_owner)
			continue;
		printf("%-24s %14" PRIu64 " %14" PRIu64 " %8" PRIu64 " %8" PRIu64, u->owner,
		       u->live, u->peak, u->count, u->allocs);
		if (unknown == u->allocs)
			printf("  unknown\n");
		else if (unknown)
			printf("  %u, %u unknown\n", count_use(v, i, VIEW_NEVER_READ), unknown);
		else
			printf("  %u\n", count_use(v, i, VIEW_NEVER_READ));
	}
	printf("%-24s %14" PRIu64 " %14" PRIu64 "\n", "in all", v->live, v->peak);
}

static int by_va(const void *a, const void *b)
{
	const struct view_bo *x = *(const struct view_bo *const *)a;
	const struct view_bo *y = *(const struct view_bo *const *)b;

	return x->va < y->va ? -1 : x->va > y->va;
}

static int by_place(const void *a, const void *b)
{
	const struct view_thing *x = *(const struct view_thing *const *)a;
	const struct view_thing *y = *(const struct view_thing *const *)b;

	return x->va < y->va ? -1 : x->va > y->va;
}

static int text_inside(const struct ledger_view *v, const struct view_bo *b)
{
	const struct view_thing **in = calloc(v->n_things + 1, sizeof(const struct view_thing *));
	uint32_t n = 0;

	if (!in)
		return tool_fail("out of memory");
	for (uint32_t i = 0; i < v->n_things; i++)
		if (&v->bos[v->things[i].bo] == b)
			in[n++] = &v->things[i];
	qsort(in, n, sizeof(*in), by_place);
	for (uint32_t i = 0; i < n; i++)
		printf("    0x%012" PRIx64 " %12" PRIu64 "    %s\n", in[i]->va, in[i]->size,
		       v->usage[in[i]->name].owner);
	free(in);
	return TOOL_OK;
}

static void text_bo(const struct ledger_view *v, const struct view_bo *b)
{
	printf("  0x%012" PRIx64 " %14" PRIu64 "  %-22s #%u %s %s %s%s%s%s%s%s", b->va, b->size,
	       v->usage[b->owner].owner, b->generation, WORD(placements, b->placement),
	       WORD(coherences, b->coherence), WORD(scopes, b->scope),
	       b->flags & LEDGER_FLAG_READONLY ? " read-only" : "",
	       b->flags & LEDGER_FLAG_EXECUTABLE ? " executable" : "",
	       b->imported ? " imported" : "", b->adopted ? " the kernel's" : "",
	       b->exports ? " exported" : "");
	if (b->first)
		printf(", first byte at +0x%" PRIx64, b->first);
	putchar('\n');
}

/* With the holes between buffers: there guards are, and nothing that the device could reach. */
static int text_map(const struct mem *m)
{
	const struct ledger_view *v = m->v;
	const struct view_bo **live = calloc(v->n_bos + 1, sizeof(const struct view_bo *));
	uint32_t n = 0;
	int rc = TOOL_OK;

	if (!live)
		return tool_fail("out of memory");
	for (uint32_t i = 0; i < v->n_bos; i++)
		if (!v->bos[i].died_ns)
			live[n++] = &v->bos[i];
	qsort(live, n, sizeof(*live), by_va);
	printf("\nmap: %u living of %u buffers\n", n, v->n_bos);
	for (uint32_t i = 0; i < n && !rc; i++) {
		uint64_t end = i ? live[i - 1]->va + live[i - 1]->size : live[0]->va;

		if (live[i]->va > end)
			printf("  %14s %14" PRIu64 "  nothing mapped (%s)\n", "", live[i]->va - end,
			       tool_bytes(live[i]->va - end));
		text_bo(v, live[i]);
		if (m->inside)
			rc = text_inside(v, live[i]);
	}
	free(live);
	return rc;
}

static void text_use(const struct ledger_view *v, enum view_use use, const char *title)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n_bos; i++)
		n += ledger_view_use(&v->bos[i]) == use;
	printf("%s: %u\n", title, n);
	for (uint32_t i = 0; i < v->n_bos && use != VIEW_UNKNOWN; i++) {
		const struct view_bo *b = &v->bos[i];

		if (ledger_view_use(b) == use)
			printf("  %s #%u, %" PRIu64 " bytes at 0x%" PRIx64 "%s\n",
			       v->usage[b->owner].owner, b->generation, b->size, b->va,
			       b->died_ns ? ", freed" : "");
	}
}

static void text_uses(const struct ledger_view *v)
{
	printf("\nuse of all %u buffers, as declared by whoever uses them\n", v->n_bos);
	text_use(v, VIEW_NEVER_READ, "written, never read");
	text_use(v, VIEW_NEVER_WRITTEN, "read, never written");
	text_use(v, VIEW_UNTOUCHED, "never touched");
	text_use(v, VIEW_UNKNOWN, "unknown");
}

static void text_duplicates(const struct mem *m)
{
	const struct ledger_view *v = m->v;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < m->n_dup && i < MAX_DUPLICATES; i++)
		bytes += m->dup[i].again->size;
	printf("\nresident twice: %u of %u things with an identity", m->n_dup, v->n_things);
	if (m->n_dup)
		printf(", %s%s", tool_bytes(bytes), m->n_dup > MAX_DUPLICATES ? " or more" : "");
	putchar('\n');
	for (uint32_t i = 0; i < m->n_dup && i < MAX_DUPLICATES; i++) {
		const struct view_duplicate *d = &m->dup[i];

		printf("  %s: 0x%" PRIx64 " in \"%s\" #%u and 0x%" PRIx64 " in \"%s\" #%u\n",
		       v->usage[d->first->name].owner, d->first->va,
		       v->usage[v->bos[d->first->bo].owner].owner, v->bos[d->first->bo].generation,
		       d->again->va, v->usage[v->bos[d->again->bo].owner].owner,
		       v->bos[d->again->bo].generation);
	}
}

static void live_by_placement(const struct ledger_view *v, uint64_t out[4])
{
	memset(out, 0, 4 * sizeof(*out));
	for (uint32_t i = 0; i < v->n_bos; i++)
		if (!v->bos[i].died_ns && v->bos[i].placement < 4)
			out[v->bos[i].placement] += v->bos[i].size;
}

static void side(const char *what, const char *source, const struct mem_number *kernel,
		 const uint64_t *ledger)
{
	char k[32] = "unknown", l[32] = "no ledger", d[32] = "unknown";

	if (kernel->known)
		snprintf(k, sizeof(k), "%" PRIu64, kernel->bytes);
	if (ledger)
		snprintf(l, sizeof(l), "%" PRIu64, *ledger);
	if (ledger && kernel->known)
		snprintf(d, sizeof(d), "%" PRId64, (int64_t)(kernel->bytes - *ledger));
	printf("  %-11s %-22s %16s %16s %16s%s%s%s\n", what, source, k, l, d,
	       kernel->known ? "" : "  (", kernel->known ? "" : kernel->why,
	       kernel->known ? "" : ")");
}

static struct mem_number sum(const struct mem_number *a, const struct mem_number *b)
{
	struct mem_number n = *(a->known ? b : a); /* the unknown one, with its reason */

	if (a->known && b->known)
		n.bytes = a->bytes + b->bytes;
	return n;
}

/* The kernel's numbers and the ledger's, side by side. */
static void text_external(const struct mem *m)
{
	const struct mem_external *x = &m->ext;
	const struct mem_number all = sum(&x->gtt, &x->vram);
	uint64_t by[4] = {0}, both = 0;

	if (m->outside[0])
		printf("\nthe virtual gfx1151's kernel's view of process %d, from %s\n", m->pid,
		       m->outside);
	else
		printf("\nthe kernel's view of process %d\n", m->pid);
	if (m->v)
		live_by_placement(m->v, by);
	both = by[BO_GTT] + by[BO_VRAM];
	printf("  %-34s %16s %16s %16s\n", "", "kernel", "ledger", "difference");
	side("GTT", "fdinfo drm-memory-gtt", &x->gtt, m->v ? &by[BO_GTT] : NULL);
	side("VRAM", "fdinfo drm-memory-vram", &x->vram, m->v ? &by[BO_VRAM] : NULL);
	side("both", "", &all, m->v ? &both : NULL);
	side("user memory", "fdinfo drm-memory-cpu", &x->cpu, m->v ? &by[BO_USERPTR] : NULL);
	side("VRAM asked", "KFD sysfs vram_*", &x->kfd_vram, m->v ? &by[BO_VRAM] : NULL);
	if (x->kfd_known)
		printf("  %-11s %-22s %16u\n", "queues", "KFD sysfs", x->kfd_queues);
	else
		printf("  %-11s %-22s %16s\n", "queues", "KFD sysfs", "unknown");
	if (x->created.known)
		printf("  %-11s %-22s %16" PRIu64 "  in %" PRIu64 " buffers, %.1f s\n", "created",
		       "amdgpu_bo_create", x->created.bytes, x->created_count, x->traced_seconds);
	else
		printf("  %-11s %-22s %16s  (%s)\n", "created", "amdgpu_bo_create", "unknown",
		       x->created.why);
	if (m->v && all.known)
		printf("what the kernel has beyond the ledger is its own: page tables in VRAM; in "
		       "GTT "
		       "its trap\nhandler and a page for the process and each queue. VRAM that was "
		       "asked for may be in GTT.\n");
}

static int report_text(const struct mem *m)
{
	int rc = TOOL_OK;

	if (m->v) {
		printf("ledger of process %u, GPU %u, %.3f s long, %" PRIu64 " entries\n\n",
		       m->v->header.pid, m->v->header.gpu_id, (double)m->v->end_ns / 1e9,
		       m->v->header.count);
		text_usage(m->v);
		rc = text_map(m);
		text_uses(m->v);
		text_duplicates(m);
	} else {
		printf("%s\n", m->no_ledger);
	}
	if (m->pid)
		text_external(m);
	if (fflush(stdout))
		return tool_fail("stdout: %s", strerror(errno));
	return rc;
}

/* ---- JSON ---- */

static json_t *json_of(const struct mem_number *n)
{
	return n->known ? json_integer((json_int_t)n->bytes) : json_null();
}

/* True, false or, where not every use of that side was declared, null. */
static json_t *json_use(const struct view_bo *b, uint32_t use, uint32_t declared)
{
	return b->uses & use ? json_true() : b->uses & declared ? json_false() : json_null();
}

static json_t *json_uses(const struct view_bo *b)
{
	static const char *const whole[] = {"unknown", "used", "never_read", "never_written",
					    "never_touched"};
	const uint32_t device = LEDGER_USE_DEVICE_DECLARED, host = LEDGER_USE_HOST_DECLARED;

	return json_pack("{s:o s:o s:o s:o s:s}", "device_reads",
			 json_use(b, LEDGER_USE_DEVICE_READS, device), "device_writes",
			 json_use(b, LEDGER_USE_DEVICE_WRITES, device), "host_reads",
			 json_use(b, LEDGER_USE_HOST_READS, host), "host_writes",
			 json_use(b, LEDGER_USE_HOST_WRITES, host), "in_all",
			 whole[ledger_view_use(b)]);
}

static json_t *json_bo(const struct ledger_view *v, const struct view_bo *b)
{
	return json_pack("{s:s s:I s:I s:I s:I s:i s:b s:s s:s s:s s:b s:b s:b s:o s:f s:o}",
			 "owner", v->usage[b->owner].owner, "va", (json_int_t)b->va, "first_byte",
			 (json_int_t)(b->va + b->first), "bytes", (json_int_t)b->size, "asked",
			 (json_int_t)b->asked, "generation", (int)b->generation, "alive",
			 b->died_ns == 0, "placement", WORD(placements, b->placement), "coherence",
			 WORD(coherences, b->coherence), "scope", WORD(scopes, b->scope),
			 "readonly", (b->flags & LEDGER_FLAG_READONLY) != 0, "executable",
			 (b->flags & LEDGER_FLAG_EXECUTABLE) != 0, "imported", b->imported, "uses",
			 json_uses(b), "born_seconds", (double)b->born_ns / 1e9, "died_seconds",
			 b->died_ns ? json_real((double)b->died_ns / 1e9) : json_null());
}

static void json_ledger(const struct mem *m, json_t *o)
{
	json_t *owners = json_array(), *map = json_array(), *dup = json_array(),
	       *curve = json_array(), *inside = json_array();
	const struct ledger_view *v = m->v;

	for (uint32_t i = 0; i < v->n_usage; i++) {
		const struct view_usage *u = &v->usage[i];
		uint32_t unknown = count_use(v, i, VIEW_UNKNOWN);

		if (!u->is_owner)
			continue;
		json_array_append_new(
			owners, json_pack("{s:s s:I s:I s:I s:I s:o s:i}", "owner", u->owner,
					  "live", (json_int_t)u->live, "peak", (json_int_t)u->peak,
					  "buffers", (json_int_t)u->count, "allocations",
					  (json_int_t)u->allocs, "written_never_read",
					  unknown ? json_null()
						  : json_integer(count_use(v, i, VIEW_NEVER_READ)),
					  "use_unknown", (int)unknown));
	}
	for (uint32_t i = 0; i < v->n_bos; i++)
		json_array_append_new(map, json_bo(v, &v->bos[i]));
	for (uint32_t i = 0; i < v->n_things; i++)
		json_array_append_new(inside,
				      json_pack("{s:s s:I s:I s:i s:b}", "name",
						v->usage[v->things[i].name].owner, "va",
						(json_int_t)v->things[i].va, "bytes",
						(json_int_t)v->things[i].size, "generation",
						(int)v->bos[v->things[i].bo].generation, "alive",
						v->bos[v->things[i].bo].died_ns == 0));
	for (uint32_t i = 0; i < m->n_dup && i < MAX_DUPLICATES; i++)
		json_array_append_new(dup, json_pack("{s:s s:I s:I s:I}", "name",
						     v->usage[m->dup[i].first->name].owner, "va",
						     (json_int_t)m->dup[i].first->va, "again_va",
						     (json_int_t)m->dup[i].again->va, "bytes",
						     (json_int_t)m->dup[i].again->size));
	for (uint32_t i = 0; i < v->n_points; i++)
		json_array_append_new(curve, json_pack("[f,I]", (double)v->points[i].ns / 1e9,
						       (json_int_t)v->points[i].live));
	json_object_set_new(o, "pid", json_integer(v->header.pid));
	json_object_set_new(o, "gpu_id", json_integer(v->header.gpu_id));
	json_object_set_new(o, "live", json_integer((json_int_t)v->live));
	json_object_set_new(o, "peak", json_integer((json_int_t)v->peak));
	json_object_set_new(o, "owners", owners);
	json_object_set_new(o, "map", map);
	json_object_set_new(o, "inside", inside);
	json_object_set_new(o, "seconds", json_real((double)v->end_ns / 1e9));
	json_object_set_new(o, "things", json_integer(v->n_things));
	json_object_set_new(o, "duplicates", dup);
	json_object_set_new(o, "duplicate_count", json_integer(m->n_dup));
	json_object_set_new(o, "footprint", curve);
}

static int report_json(const struct mem *m)
{
	json_t *o = json_object(), *ledger = json_object(), *x;

	if (m->v) {
		json_ledger(m, ledger);
		json_object_set_new(o, "ledger", ledger);
	} else {
		json_decref(ledger);
		json_object_set_new(o, "ledger", json_null());
		json_object_set_new(o, "no_ledger", tool_json_text(m->no_ledger));
	}
	if (m->pid) {
		x = json_object();
		json_object_set_new(x, "drm_clients", json_integer(m->ext.drm_clients));
		json_object_set_new(x, "fdinfo_gtt", json_of(&m->ext.gtt));
		json_object_set_new(x, "fdinfo_vram", json_of(&m->ext.vram));
		json_object_set_new(x, "fdinfo_cpu", json_of(&m->ext.cpu));
		json_object_set_new(x, "kfd_vram", json_of(&m->ext.kfd_vram));
		json_object_set_new(x, "kfd_queues",
				    m->ext.kfd_known ? json_integer(m->ext.kfd_queues)
						     : json_null());
		json_object_set_new(x, "traced_created", json_of(&m->ext.created));
		json_object_set_new(x, "traced_seconds", json_real(m->ext.traced_seconds));
		json_object_set_new(x, "virtual", json_boolean(m->outside[0] != '\0'));
		json_object_set_new(o, "kernel", x);
	}
	return tool_print_json(o);
}

/* ---- the whole ---- */

static int draw(const struct ledger_view *v, const char *path,
		bool (*picture)(const struct ledger_view *v, FILE *out))
{
	FILE *out = fopen(path, "we");
	bool ok;

	if (!out)
		return tool_fail("%s: %s", path, strerror(errno));
	ok = picture(v, out);
	if (!fclose(out) && ok)
		return TOOL_OK;
	tool_say("%s: %s", path, ok ? strerror(errno) : "out of memory");
	tool_unfinished(path);
	return TOOL_FAILED;
}

static int collect(struct mem *m)
{
	char proc[PATH_MAX], why[400];
	void *image = NULL;
	size_t bytes;
	int rc;

	snprintf(proc, sizeof(proc), "%s/proc", m->root);
	rc = m->file ? ledger_view_read_file(m->file, &image, &bytes, m->no_ledger,
					     sizeof(m->no_ledger))
		     : ledger_view_read_pid(proc, m->pid, (unsigned)m->index, &image, &bytes,
					    m->no_ledger, sizeof(m->no_ledger));
	/* Somebody else's process: its descriptors are not ours to see, KFD's sysfs is. */
	if (rc < 0 && (m->file || (rc != -ENOENT && rc != -EACCES)))
		return tool_fail("%s", m->no_ledger);
	if (rc == 0) {
		rc = ledger_view_parse(image, bytes, &m->v, why, sizeof(why));
		free(image);
		if (rc < 0)
			return tool_fail("%s: %s", m->file ? m->file : "ledger", why);
		/* A living process's goes on until now; the clock is this machine's. */
		if (m->pid && !m->root[0] && tool_now_ns() > m->v->header.start_ns)
			m->v->end_ns = tool_now_ns() - m->v->header.start_ns;
		m->n_dup = ledger_view_duplicates(m->v, m->dup, MAX_DUPLICATES);
	}
	/* Not in a copy of another machine's files, nor where the real kernel is asked to trace. */
	if (m->pid && !m->root[0] && m->trace <= 0 &&
	    device_outside(m->pid, m->outside, sizeof(m->outside)))
		m->outside[0] = '\0';
	if (m->pid)
		mem_external_read(m->outside[0] ? m->outside : m->root, m->pid, m->trace, &m->ext);
	return TOOL_OK;
}

static int execute(struct mem *m)
{
	int rc = collect(m);

	if (!rc && (m->svg || m->html) && !m->v)
		rc = tool_fail("%s: nothing to draw", m->no_ledger);
	if (!rc && m->svg)
		rc = draw(m->v, m->svg, mem_picture_svg);
	if (!rc && m->html)
		rc = draw(m->v, m->html, mem_picture_html);
	if (!rc)
		rc = m->json ? report_json(m) : report_text(m);
	ledger_view_free(m->v);
	return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"pid", required_argument, NULL, 'p'},
		{"ledger", required_argument, NULL, 'l'},
		{"index", required_argument, NULL, 'i'},
		{"trace", required_argument, NULL, 't'},
		{"svg", required_argument, NULL, 's'},
		{"html", required_argument, NULL, 'H'},
		{"root", required_argument, NULL, 'r'},
		{"inside", no_argument, NULL, 'I'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static struct mem m = {.root = ""};
	uint64_t v;
	int o;

	while ((o = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (o) {
		case 'p':
			if (!tool_u64(optarg, INT_MAX, &v) || !v)
				return tool_usage(self, "--pid '%s', wanted a process id", optarg);
			m.pid = (int)v;
			break;
		case 'l':
			m.file = optarg;
			break;
		case 'i':
			if (!tool_u64(optarg, 1000, &m.index))
				return tool_usage(self, "--index '%s', wanted a number", optarg);
			break;
		case 't':
			if (!tool_f64(optarg, &m.trace) || !(m.trace > 0 && m.trace < 86400))
				return tool_usage(self, "--trace '%s', wanted seconds", optarg);
			break;
		case 's':
			m.svg = optarg;
			break;
		case 'H':
			m.html = optarg;
			break;
		case 'r':
			m.root = optarg;
			break;
		case 'I':
			m.inside = true;
			break;
		case 'j':
			m.json = true;
			break;
		case 'h':
			return tool_help(self);
		default:
			return tool_bad_option(self, o, argv);
		}
	}
	if (optind < argc)
		return tool_usage(self, "unexpected word '%s'", argv[optind]);
	if (!m.pid == !m.file)
		return tool_usage(self, "wanted one of --pid and --ledger");
	if (m.json && m.inside)
		return tool_usage(self, "--json has what lies inside in any case");
	if (m.file && m.trace > 0)
		return tool_usage(self, "--trace needs --pid");
	return execute(&m);
}

const struct command cmd_mem = {
	"mem",
	"what a process has on the device, by ledger and by kernel",
	help,
	run,
};
