/* barewave info: what device is there, what it offers, and which limit binds. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "kfd/kfd.h"
#include "queues/device.h"
#include "tools/tool.h"

static const char help[] =
	"Usage: barewave info [OPTIONS]\n\n"
	"Prints topology, the sizes a compute queue needs, kernel and firmware versions, and "
	"every\n"
	"memory ceiling with the one that binds. Allocates nothing on the "
	"device.\n\n" TOOL_DEVICE_HELP
	"  --topology DIR           read a copy of /sys/class/kfd/kfd/topology instead; no device\n"
	"                           is opened and what only a device knows stays unknown\n"
	"  --json                   everything, as JSON\n"
	"  --help                   this text\n";

/* A number that may be unknown. */
struct known {
	bool is;
	uint64_t v;
};

struct report {
	struct utsname uts;
	const struct topology_node *gpu;
	const struct kfd *kfd; /* NULL: from a topology copy */
	const char *marketing;
	struct queue_plan plan;
	bool planned;
	struct known vram_total, vram_used, gtt_total, gtt_used, available, pages_limit, mem_total,
		mem_available;
};

#define KNOWN(n, name) ((struct known){topology_known(n, TOPOLOGY_##name), (n)->name})

/* "Name:   123 kB" of /proc/meminfo, in bytes. */
static struct known meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "re");
	struct known k = {0};
	char line[256];
	size_t n = strlen(name);

	if (!f)
		return k;
	while (!k.is && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ':' &&
		    sscanf(line + n + 1, "%" SCNu64, &k.v) == 1) {
			k.is = true;
			k.v *= 1024;
		}
	fclose(f);
	return k;
}

static struct known number_file(const char *path)
{
	FILE *f = fopen(path, "re");
	struct known k = {0};

	if (!f)
		return k;
	k.is = fscanf(f, "%" SCNu64, &k.v) == 1;
	fclose(f);
	return k;
}

static void collect_memory(struct report *r, struct kfd *kfd)
{
	struct kfd_heaps h;
	uint64_t n;

	if (!kfd_heaps_get(kfd, &h)) {
		r->vram_total = (struct known){true, h.vram_total};
		r->vram_used = (struct known){true, h.vram_used};
		r->gtt_total = (struct known){true, h.gtt_total};
		r->gtt_used = (struct known){true, h.gtt_used};
	}
	if (!kfd_memory_available(kfd, &n))
		r->available = (struct known){true, n};
	r->mem_total = meminfo("MemTotal");
	r->mem_available = meminfo("MemAvailable");
	r->pages_limit = number_file("/sys/module/ttm/parameters/pages_limit");
	if (r->pages_limit.is)
		r->pages_limit.v *= 4096; /* ttm counts 4 KiB pages */
}

static void collect_plan(struct report *r)
{
	const struct topology_node *n = r->gpu;
	struct queue_plan_in in = {
		.gfx_target_version = (uint32_t)n->gfx_target_version,
		.simd_count = (uint32_t)n->simd_count,
		.simd_per_cu = (uint32_t)n->simd_per_cu,
		.num_xcc = (uint32_t)n->num_xcc,
		.cwsr_size = topology_known(n, TOPOLOGY_cwsr_size) ? n->cwsr_size : 0,
		.ctl_stack_size =
			topology_known(n, TOPOLOGY_ctl_stack_size) ? n->ctl_stack_size : 0,
		.ring_packets = 1024,
	};

	r->planned = queue_plan_compute(&in, &r->plan) == 0;
}

/* The smallest of what the kernel would still give and what Linux has to give it. */
static const char *binding(const struct report *r, struct known *limit)
{
	const struct {
		struct known k;
		const char *name;
	} all[] = {
		{r->available, "AVAILABLE_MEMORY (KFD's limit for all processes)"},
		{{r->gtt_total.is && r->gtt_used.is, r->gtt_total.v - r->gtt_used.v},
		 "GTT size less GTT in use"},
		{r->mem_available, "MemAvailable (RAM Linux can free)"},
	};
	const char *name = NULL;

	*limit = (struct known){0};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].k.is && (!limit->is || all[i].k.v < limit->v)) {
			*limit = all[i].k;
			name = all[i].name;
		}
	return name;
}

static void line(const char *label, struct known k, bool bytes, const char *unit)
{
	printf("  %-28s ", label);
	if (!k.is)
		printf("unknown\n");
	else if (bytes)
		printf("%" PRIu64 " (%s)\n", k.v, tool_bytes(k.v));
	else
		printf("%" PRIu64 "%s\n", k.v, unit);
}

static void firmware_line(const char *label, struct known k)
{
	printf("  %-28s ", label);
	if (k.is)
		printf("%" PRIu64 " (0x%" PRIx64 ")\n", k.v, k.v);
	else
		printf("unknown\n");
}

static void gfx_name(uint64_t version, char out[32])
{
	/* decimal MMmmss: major, minor, stepping; the name prints the stepping in hex */
	snprintf(out, 32, "gfx%" PRIu64 "%" PRIu64 "%" PRIx64, version / 10000, version / 100 % 100,
		 version % 100);
}

static void print_text(const struct report *r)
{
	const struct topology_node *n = r->gpu;
	struct known limit;
	const char *why = binding(r, &limit);
	char gfx[32];

	gfx_name(n->gfx_target_version, gfx);
	printf("device\n");
	printf("  %-28s %s%s%s%s\n", "name", r->marketing ? r->marketing : "unknown",
	       n->name[0] ? " (" : "", n->name, n->name[0] ? ")" : "");
	printf("  %-28s %s\n", "arch", gfx);
	printf("  %-28s %u (0x%04x), topology node %u\n", "gpu id", n->gpu_id, n->gpu_id, n->index);
	line("render minor", KNOWN(n, drm_render_minor), false, "");
	printf("kernel\n");
	if (r->kfd) {
		printf("  %-28s %s %s\n", "release", r->uts.sysname, r->uts.release);
		printf("  %-28s 1.%u\n", "KFD interface", kfd_minor(r->kfd));
	} else {
		printf("  %-28s unknown\n  %-28s unknown\n", "release", "KFD interface");
	}
	firmware_line("MEC firmware", KNOWN(n, fw_version));
	firmware_line("SDMA firmware", KNOWN(n, sdma_fw_version));
	printf("compute\n");
	line("compute units", (struct known){topology_cus(n) != 0, topology_cus(n)}, false, "");
	line("shader engines",
	     (struct known){topology_shader_engines(n) != 0, topology_shader_engines(n)}, false,
	     "");
	line("SIMDs per compute unit", KNOWN(n, simd_per_cu), false, "");
	line("waves per SIMD", KNOWN(n, max_waves_per_simd), false, "");
	line("wave size", KNOWN(n, wave_front_size), false, " lanes");
	line("LDS per workgroup", KNOWN(n, lds_size_in_kb), false, " KiB");
	line("scratch slots per unit", KNOWN(n, max_slots_scratch_cu), false, "");
	line("compute queues", KNOWN(n, num_cp_queues), false, "");
	line("SDMA engines", KNOWN(n, num_sdma_engines), false, "");
	line("top clock", KNOWN(n, max_engine_clk_fcompute), false, " MHz");
	printf("one compute queue\n");
	if (r->planned) {
		const struct queue_plan *p = &r->plan;

		line("ring", (struct known){true, p->ring_bytes}, true, "");
		line("end-of-pipe buffer", (struct known){true, p->eop_bytes}, true, "");
		line("control stack", (struct known){true, p->ctl_stack_bytes}, true, "");
		line("context save", (struct known){true, p->cwsr_bytes}, true, "");
		line("debug area", (struct known){true, p->debug_bytes}, true, "");
		line("save area in all", (struct known){true, p->area_bytes}, true, "");
		printf("  %-28s %s\n", "sizes come from",
		       p->from_topology ? "the kernel's topology" : "the formula");
		if (p->formula_disagrees)
			printf("  %-28s context save %" PRIu64 ", control stack %" PRIu64 "\n",
			       "the formula says", p->formula_cwsr, p->formula_ctl);
	} else {
		printf("  no rule gives the sizes for this device\n");
	}
	printf("memory\n");
	line("VRAM (carve-out)", r->vram_total, true, "");
	line("VRAM in use", r->vram_used, true, "");
	line("GTT", r->gtt_total, true, "");
	line("GTT in use", r->gtt_used, true, "");
	line("topology bank", (struct known){n->mem_known, n->mem_bytes}, true, "");
	line("AVAILABLE_MEMORY", r->available, true, "");
	line("ttm.pages_limit", r->pages_limit, true, "");
	line("MemTotal", r->mem_total, true, "");
	line("MemAvailable", r->mem_available, true, "");
	printf("  %-28s ", "what binds now");
	if (limit.is)
		printf("%" PRIu64 " (%s): %s\n", limit.v, tool_bytes(limit.v), why);
	else
		printf("unknown\n");
}

static json_t *j(struct known k)
{
	return k.is ? json_integer((json_int_t)k.v) : json_null();
}

static int print_json(const struct report *r)
{
	const struct topology_node *n = r->gpu;
	json_t *o = json_object(), *props = json_object(), *mem = json_object(), *q = json_null();
	struct known limit;
	const char *why = binding(r, &limit);
	char gfx[32];

	gfx_name(n->gfx_target_version, gfx);
	json_object_set_new(o, "name", r->marketing ? json_string(r->marketing) : json_null());
	json_object_set_new(o, "arch", json_string(gfx));
	json_object_set_new(o, "gpu_id", json_integer(n->gpu_id));
	json_object_set_new(o, "node", json_integer(n->index));
	json_object_set_new(o, "kernel", r->kfd ? json_string(r->uts.release) : json_null());
	json_object_set_new(o, "kfd_minor", r->kfd ? json_integer(kfd_minor(r->kfd)) : json_null());
	json_object_set_new(o, "compute_units",
			    topology_cus(n) ? json_integer(topology_cus(n)) : json_null());
#define X(name) json_object_set_new(props, #name, j(KNOWN(n, name)));
#include "kfd/topology.def"
#undef X
	json_object_set_new(o, "properties", props);
	if (r->planned) {
		const struct queue_plan *p = &r->plan;

		q = json_pack("{s:I s:I s:I s:I s:I s:I s:b s:b s:I s:I}", "ring_bytes",
			      (json_int_t)p->ring_bytes, "eop_bytes", (json_int_t)p->eop_bytes,
			      "ctl_stack_bytes", (json_int_t)p->ctl_stack_bytes, "cwsr_bytes",
			      (json_int_t)p->cwsr_bytes, "debug_bytes", (json_int_t)p->debug_bytes,
			      "area_bytes", (json_int_t)p->area_bytes, "from_topology",
			      (int)p->from_topology, "formula_disagrees", (int)p->formula_disagrees,
			      "formula_cwsr", (json_int_t)p->formula_cwsr, "formula_ctl",
			      (json_int_t)p->formula_ctl);
	}
	json_object_set_new(o, "queue", q);
	json_object_set_new(mem, "vram_total", j(r->vram_total));
	json_object_set_new(mem, "vram_used", j(r->vram_used));
	json_object_set_new(mem, "gtt_total", j(r->gtt_total));
	json_object_set_new(mem, "gtt_used", j(r->gtt_used));
	json_object_set_new(mem, "topology_bank", j((struct known){n->mem_known, n->mem_bytes}));
	json_object_set_new(mem, "available", j(r->available));
	json_object_set_new(mem, "pages_limit_bytes", j(r->pages_limit));
	json_object_set_new(mem, "mem_total", j(r->mem_total));
	json_object_set_new(mem, "mem_available", j(r->mem_available));
	json_object_set_new(mem, "binding_bytes", j(limit));
	json_object_set_new(mem, "binding_rule", limit.is ? json_string(why) : json_null());
	json_object_set_new(o, "memory", mem);
	return tool_print_json(o);
}

static int print(struct report *r, bool json)
{
	collect_plan(r);
	if (json)
		return print_json(r);
	print_text(r);
	if (fflush(stdout))
		return tool_fail("stdout: %s", strerror(errno));
	return TOOL_OK;
}

static int from_copy(const char *dir, bool json)
{
	struct topology *t = malloc(sizeof(*t));
	struct report r = {0};
	char why[512];
	int rc;

	if (!t)
		return tool_fail("out of memory");
	if (topology_read(dir, t, why, sizeof(why))) {
		rc = tool_fail("%s", why);
		goto out;
	}
	for (unsigned i = 0; i < t->count && !r.gpu; i++)
		if (t->nodes[i].gpu_id)
			r.gpu = &t->nodes[i];
	rc = r.gpu ? print(&r, json) : tool_fail("%s: no node has a gpu_id", dir);
out:
	free(t);
	return rc;
}

static int from_device(const char *device, bool json)
{
	struct bw_device d;
	struct report r = {0};
	int rc, closed;

	rc = device_open(device, NULL, &d);
	if (rc)
		return rc;
	r.kfd = d.kfd;
	r.gpu = kfd_node(d.kfd);
	r.marketing = kfd_marketing_name(d.kfd);
	uname(&r.uts);
	collect_memory(&r, d.kfd);
	rc = print(&r, json);
	closed = device_close(&d);
	return rc ? rc : closed;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"topology", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *device = NULL, *topology = NULL;
	bool json = false;
	int o;

	while ((o = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (o) {
		case 'd':
			device = optarg;
			break;
		case 't':
			topology = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			return tool_help(self);
		default:
			return tool_bad_option(self, o, argv);
		}
	}
	if (optind < argc)
		return tool_usage(self, "unexpected word '%s'", argv[optind]);
	if (topology && device)
		return tool_usage(self, "--topology and --device exclude each other");
	if (topology)
		return from_copy(topology, json);
	if (device_select(device))
		return TOOL_FAILED;
	return from_device(device, json);
}

const struct command cmd_info = {
	"info",
	"what device is there, what it offers, what binds",
	help,
	run,
};
