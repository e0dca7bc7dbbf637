#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kfd/topology.h"
#include "tools/price.h"

#define RING_PACKETS 1024u /* queue_opts' default */

static struct footprint_number number_file(const char *path, uint64_t unit)
{
	FILE *f = fopen(path, "re");
	struct footprint_number k = {0};

	if (!f)
		return k;
	k.known = fscanf(f, "%" SCNu64, &k.v) == 1;
	k.v *= unit;
	fclose(f);
	return k;
}

/* "Name:  123 kB" */
static struct footprint_number line_of(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	struct footprint_number k = {0};
	char line[256];
	size_t n = strlen(name);

	if (!f)
		return k;
	while (!k.known && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ':' &&
		    sscanf(line + n + 1, "%" SCNu64, &k.v) == 1) {
			k.known = true;
			k.v *= 1024;
		}
	fclose(f);
	return k;
}

struct footprint_number price_host_now(void)
{
	struct footprint_number anon = line_of("/proc/self/status", "RssAnon");
	struct footprint_number shmem = line_of("/proc/self/status", "RssShmem");

	return (struct footprint_number){anon.known && shmem.known, anon.v + shmem.v};
}

static struct footprint_number file_below(const char *root, const char *path, uint64_t unit)
{
	char whole[PATH_MAX];

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	return number_file(whole, unit);
}

static void read_heaps(const char *root, uint64_t minor, struct footprint_machine *m)
{
	const struct {
		const char *name;
		struct footprint_number *to;
	} files[] = {
		{"mem_info_vram_total", &m->vram_total},
		{"mem_info_vram_used", &m->vram_used},
		{"mem_info_gtt_total", &m->gtt_total},
		{"mem_info_gtt_used", &m->gtt_used},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[128];

		snprintf(path, sizeof(path), "/sys/class/drm/renderD%" PRIu64 "/device/%s", minor,
			 files[i].name);
		*files[i].to = file_below(root, path, 1);
	}
}

static void read_buddyinfo(const char *path, struct footprint_machine *m)
{
	FILE *f = fopen(path, "re");
	char text[8192];
	size_t n;

	if (!f)
		return;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	if (footprint_buddyinfo(text, &m->huge_free.v, &m->huge_largest.v))
		m->huge_free.known = m->huge_largest.known = true;
}

/* All that is not in the topology. */
static void read_memory(const char *root, uint64_t minor, struct footprint_machine *m)
{
	char meminfo[PATH_MAX], buddyinfo[PATH_MAX];

	snprintf(meminfo, sizeof(meminfo), "%s/proc/meminfo", root);
	snprintf(buddyinfo, sizeof(buddyinfo), "%s/proc/buddyinfo", root);
	read_heaps(root, minor, m);
	m->pages_limit = file_below(root, "/sys/module/ttm/parameters/pages_limit", 4096);
	m->mem_total = line_of(meminfo, "MemTotal");
	m->mem_available = line_of(meminfo, "MemAvailable");
	read_buddyinfo(buddyinfo, m);
}

static int read_machine(const struct price_machine *from, struct price *p)
{
	char below[PATH_MAX];
	const char *topology = from ? from->topology : NULL;
	struct topology *t = malloc(sizeof(*t));
	const struct topology_node *n = NULL;
	char why[512];
	int rc = TOOL_OK;

	if (!t)
		return tool_fail("out of memory");
	if (from && from->root) {
		snprintf(below, sizeof(below), "%s/sys/class/kfd/kfd/topology", from->root);
		topology = below;
	}
	if (topology_read(topology, t, why, sizeof(why))) {
		rc = tool_fail("%s%s", why,
			       from ? "" : "; --device=virt uses the virtual gfx1151 instead");
		goto out;
	}
	for (unsigned i = 0; i < t->count && !n; i++)
		if (t->nodes[i].gpu_id)
			n = &t->nodes[i];
	if (!n || queue_plan_compute(
			  &(struct queue_plan_in){
				  .gfx_target_version = (uint32_t)n->gfx_target_version,
				  .simd_count = (uint32_t)n->simd_count,
				  .simd_per_cu = (uint32_t)n->simd_per_cu,
				  .num_xcc = (uint32_t)n->num_xcc,
				  .cwsr_size = n->cwsr_size,
				  .ctl_stack_size = n->ctl_stack_size,
				  .ring_packets = RING_PACKETS,
			  },
			  &p->queue)) {
		rc = tool_fail("the topology lists no GPU whose queue sizes are known");
		goto out;
	}
	/* A topology alone says nothing of its machine's memory, and this one's is another's. */
	if (!from || from->root)
		read_memory(from ? from->root : "", n->drm_render_minor, &p->machine);
out:
	free(t);
	return rc;
}

/* What has a price, and where. */
struct asked {
	const struct model *m;
	const char *model_path;
	const struct engine_opts *o;
	uint64_t budget;
	/* Looked at once: what drafting again leaves on the heap is not the run's. */
	struct footprint_number host_now;
};

static int draft(struct price *p, const struct asked *a, uint32_t refilled)
{
	struct engine_opts o = *a->o;
	char err[512];

	o.refilled = refilled;
	engine_draft_free(&p->draft);
	if (engine_draft(a->m, &o, &p->queue, &p->draft, err, sizeof(err)))
		return tool_fail("%s: %s", a->model_path, err);
	return TOOL_OK;
}

static void add_up(struct price *p, const struct asked *a)
{
	const struct footprint_host h = {a->host_now, p->draft.host_bytes};

	footprint_compute(p->draft.plan, &p->machine, &h, a->budget, &p->footprint);
}

/* The price with the weights of so many blocks refilled, in place of the one there is. */
static int redraft(struct price *p, const struct asked *a, uint32_t refilled)
{
	int rc = draft(p, a, refilled);

	if (!rc)
		add_up(p, a);
	return rc;
}

/* As few blocks as the budget allows; when it is too low for any, as many as there are, for the
 * refusal. More of them never need more memory, but for the step from none to one. */
static int fit_budget(struct price *p, const struct asked *a)
{
	uint32_t low = 1, high = p->draft.plan->n_blocks; /* too few; enough */
	int rc;

	if (high < 2)
		return TOOL_OK;
	rc = redraft(p, a, high);
	if (rc || p->footprint.refuses == CEILING_BUDGET)
		return rc;
	while (!rc && high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		rc = redraft(p, a, middle);
		if (p->footprint.refuses == CEILING_BUDGET)
			low = middle;
		else
			high = middle;
	}
	if (!rc && p->draft.plan->refilled != high)
		rc = redraft(p, a, high);
	return rc;
}

int price_make(const struct model *m, const char *model_path, const struct engine_opts *o,
	       const struct price_machine *from, uint64_t budget, struct price *out)
{
	struct asked a = {.m = m, .model_path = model_path, .o = o, .budget = budget};
	struct price p = {0};
	int rc = read_machine(from, &p);

	if (!rc)
		rc = draft(&p, &a, o->refilled);
	if (rc)
		return rc;
	a.host_now = price_host_now();
	add_up(&p, &a);
	if (p.footprint.refuses == CEILING_BUDGET)
		rc = fit_budget(&p, &a);
	if (rc)
		price_free(&p);
	else
		*out = p;
	return rc;
}

void price_free(struct price *p)
{
	engine_draft_free(&p->draft);
}
