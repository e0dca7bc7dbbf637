/* sysfs and procfs text (kfd_topology.c, kfd_crat.c, amdgpu_gtt_mgr.c, amdgpu_vram_mgr.c). */
#include "sysfs.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kfd/vkfd.h"

#define KFD_DIR "sys/devices/virtual/kfd/kfd"

struct out {
	sysfs_emit emit;
	void *ctx;
	char text[8192];
	size_t len;
};

static void begin(struct out *o)
{
	o->len = 0;
	o->text[0] = 0;
}

static void add(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->text + o->len, sizeof(o->text) - o->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->len += (size_t)n;
	if (o->len >= sizeof(o->text))
		o->len = sizeof(o->text) - 1;
}

static void prop(struct out *o, const char *name, uint64_t v)
{
	add(o, "%s %llu\n", name, (unsigned long long)v);
}

static void end(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void end(struct out *o, const char *fmt, ...)
{
	char path[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	o->emit(o->ctx, SYSFS_FILE, path, o->text, o->len);
}

static void file(struct out *o, const char *path, const char *text)
{
	o->emit(o->ctx, SYSFS_FILE, path, text, strlen(text));
}

static void dir(struct out *o, const char *path)
{
	o->emit(o->ctx, SYSFS_DIR, path, NULL, 0);
}

static void link_to(struct out *o, const char *path, const char *target)
{
	o->emit(o->ctx, SYSFS_LINK, path, target, strlen(target));
}

/* ---- topology ------------------------------------------------------------- */

static unsigned cpu_mhz(void)
{
	char buf[32];
	unsigned khz = 0;
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");

	if (f) {
		if (fgets(buf, sizeof(buf), f) && sscanf(buf, "%u", &khz) != 1)
			khz = 0;
		fclose(f);
	}
	/* cpufreq_quick_get_max() is 0 where there is no cpufreq driver. */
	return khz / 1000;
}

/* ---- caches, in the order of the kernel's walk ---- */

struct cache_type {
	unsigned level, kib, line, type, shared;
};

enum { CACHE_DATA = 1, CACHE_INST = 2, CACHE_SIMD = 8 };

/* The table of GC 11.5.1 (kfd_crat.c:kfd_fill_gpu_cache_info_from_gfx_config). */
static const struct cache_type caches[] = {
	{1, 32, 128, CACHE_DATA | CACHE_SIMD, 1},   /* vector L1 of a CU */
	{1, 64, 128, CACHE_INST | CACHE_SIMD, 2},   /* instruction cache of a WGP */
	{1, 16, 64, CACHE_DATA | CACHE_SIMD, 2},    /* scalar data cache of a WGP */
	{1, 256, 128, CACHE_DATA | CACHE_SIMD, 10}, /* GL1 of a shader array */
	{2, 2048, 128, CACHE_DATA | CACHE_SIMD, 10},
	{3, 32768, 64, CACHE_DATA | CACHE_SIMD, 10}, /* MALL */
};

static void cache(struct out *o, unsigned k, const struct cache_type *t, unsigned processor,
		  const uint32_t *maps, unsigned n_maps)
{
	begin(o);
	prop(o, "processor_id_low", processor);
	prop(o, "level", t->level);
	prop(o, "size", t->kib);
	prop(o, "cache_line_size", t->line);
	prop(o, "cache_lines_per_tag", 0);
	prop(o, "association", 0);
	prop(o, "latency", 0);
	prop(o, "type", t->type);
	add(o, "sibling_map ");
	for (unsigned m = 0; m < n_maps; m++) {
		for (unsigned b = 0; b < 32; b++)
			add(o, "%u,", maps[m] >> b & 1);
	}
	o->text[o->len - 1] = '\n';
	end(o, KFD_DIR "/topology/nodes/1/caches/%u/properties", k);
}

/* Returns how many there are; o NULL only counts. */
static unsigned gpu_caches(struct out *o)
{
	const struct vgpu_props *p = &vgpu_props;
	const unsigned base = 0x80001000;
	unsigned k = 0;

	for (unsigned t = 0; t < sizeof(caches) / sizeof(caches[0]); t++) {
		const struct cache_type *c = &caches[t];
		uint32_t mask = c->shared < 32 ? (1u << c->shared) - 1 : ~0u;
		unsigned processor = base;

		if (c->level > 1) {
			uint32_t maps[4];
			unsigned n = 0;

			for (unsigned se = 0; se < p->ses; se++) {
				for (unsigned sh = 0; sh < p->shs_per_se; sh++)
					maps[n++] = p->cu_bitmap[se][sh] & mask;
			}
			/* The kernel puts the first map it found in front of the walk. */
			memmove(maps + 1, maps, (n - 1) * sizeof(maps[0]));
			if (o)
				cache(o, k, c, processor, maps, n);
			k++;
			continue;
		}
		for (unsigned s = 0; s < p->ses * p->shs_per_se; s++) {
			uint32_t cus = p->cu_bitmap[s / p->shs_per_se][s % p->shs_per_se];

			for (unsigned cu = 0; cu < p->cus_per_sh; cu += c->shared) {
				uint32_t map = cu < 32 ? cus >> cu & mask : 0;
				unsigned first = map ? (unsigned)__builtin_ctz(map) : 0;

				if (map) {
					map >>= first;
					if (o)
						cache(o, k, c, processor + first, &map, 1);
					k++;
				}
				processor += cu + c->shared <= p->cus_per_sh ? c->shared
									     : p->cus_per_sh - cu;
			}
		}
	}
	return k;
}

static void io_link(struct out *o, unsigned from, unsigned to)
{
	/* Strix Halo's root port does 32 GB/s estimated; both directions carry the SDMA mask. */
	begin(o);
	prop(o, "type", 2);
	prop(o, "version_major", 0);
	prop(o, "version_minor", 0);
	prop(o, "node_from", from);
	prop(o, "node_to", to);
	prop(o, "weight", 20);
	prop(o, "min_latency", 0);
	prop(o, "max_latency", 0);
	prop(o, "min_bandwidth", 312);
	prop(o, "max_bandwidth", 16000);
	prop(o, "recommended_transfer_size", 0);
	prop(o, "recommended_sdma_engine_id_mask", 1);
	/* Enabled; from the CPU's side non-coherent as well. */
	prop(o, "flags", from ? 1 : 3);
	end(o, KFD_DIR "/topology/nodes/%u/io_links/0/properties", from);
}

static void mem_bank(struct out *o, unsigned node, unsigned heap, uint64_t size, unsigned width,
		     unsigned mhz)
{
	begin(o);
	prop(o, "heap_type", heap);
	prop(o, "size_in_bytes", size);
	prop(o, "flags", 0);
	prop(o, "width", width);
	prop(o, "mem_clk_max", mhz);
	end(o, KFD_DIR "/topology/nodes/%u/mem_banks/0/properties", node);
}

static void node_properties(struct out *o, unsigned node)
{
	const struct vgpu_props *p = &vgpu_props;
	bool gpu = node != 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

#define G(v) (gpu ? (uint64_t)(v) : 0)
	begin(o);
	prop(o, "cpu_cores_count", gpu ? 0 : (uint64_t)(cpus > 0 ? cpus : 1));
	prop(o, "simd_count", G(p->cus * 2));
	prop(o, "mem_banks_count", 1);
	prop(o, "caches_count", G(gpu_caches(NULL)));
	prop(o, "io_links_count", vgpu_config.gpus);
	prop(o, "p2p_links_count", 0);
	prop(o, "cpu_core_id_base", 0);
	prop(o, "simd_id_base", G(0x80001000u));
	prop(o, "max_waves_per_simd", G(16));
	prop(o, "lds_size_in_kb", G(64));
	prop(o, "gds_size_in_kb", 0);
	prop(o, "num_gws", G(p->num_gws));
	prop(o, "wave_front_size", G(32));
	prop(o, "array_count", G(p->ses * p->shs_per_se));
	prop(o, "simd_arrays_per_engine", G(p->shs_per_se));
	prop(o, "cu_per_simd_array", G(p->cus_per_sh));
	prop(o, "simd_per_cu", G(2));
	prop(o, "max_slots_scratch_cu", G(32));
	prop(o, "gfx_target_version", G(p->gfx_target_version));
	prop(o, "vendor_id", G(p->vendor_id));
	prop(o, "device_id", G(p->device_id));
	prop(o, "location_id", G(p->location_id));
	prop(o, "domain", 0);
	prop(o, "drm_render_minor", G(vgpu_config.render_minor));
	prop(o, "hive_id", 0);
	prop(o, "num_sdma_engines", G(1));
	prop(o, "num_sdma_xgmi_engines", 0);
	prop(o, "num_sdma_queues_per_engine", G(6));
	prop(o, "num_cp_queues", G(8));
	prop(o, "cwsr_size", G(p->cwsr_size));
	prop(o, "ctl_stack_size", G(p->ctl_stack_size));
	if (gpu) {
		prop(o, "max_engine_clk_fcompute", 2900);
		prop(o, "local_mem_size", 0);
		prop(o, "fw_version", vgpu_config.mec_version);
		prop(o, "capability", p->capability);
		if (vgpu_kernel()->capability2)
			prop(o, "capability2", p->capability2);
		prop(o, "debug_prop", p->debug_prop);
		prop(o, "sdma_fw_version", vgpu_config.sdma_version);
		prop(o, "unique_id", 0);
		prop(o, "num_xcc", 1);
	}
	prop(o, "max_engine_clk_ccompute", cpu_mhz());
	end(o, KFD_DIR "/topology/nodes/%u/properties", node);
#undef G
}

static void node(struct out *o, unsigned n)
{
	static const char *const dirs[] = {"mem_banks", "caches", "io_links", "p2p_links", "perf"};
	char path[256];

	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), KFD_DIR "/topology/nodes/%u/%s", n, dirs[i]);
		dir(o, path);
	}
	begin(o);
	add(o, "%u\n", n ? vgpu_props.gpu_id : 0);
	end(o, KFD_DIR "/topology/nodes/%u/gpu_id", n);
	begin(o);
	add(o, "%s\n", n ? "ip discovery" : "");
	end(o, KFD_DIR "/topology/nodes/%u/name", n);
	node_properties(o, n);
	if (n)
		mem_bank(o, n, 1, vgpu_props.local_mem, 256, 1000);
	else
		mem_bank(o, n, 0, vgpu_config.ram_bytes, 0, 0);
	if (vgpu_config.gpus)
		io_link(o, n, !n);
	if (n)
		gpu_caches(o);
}

static void group_kfd(struct out *o)
{
	file(o, "dev/kfd", "");
	dir(o, "sys/class/kfd");
	dir(o, KFD_DIR "/proc");
	link_to(o, "sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd");
	file(o, KFD_DIR "/dev", "240:0\n");
	file(o, KFD_DIR "/uevent", "MAJOR=240\nMINOR=0\nDEVNAME=kfd\n");
	link_to(o, KFD_DIR "/subsystem", "../../../../class/kfd");
	/* One for the CPU, one more for the device. */
	file(o, KFD_DIR "/topology/generation_id", vgpu_config.gpus ? "2\n" : "1\n");
	begin(o);
	/* "ALASKA", "A M I " of the firmware's tables. */
	prop(o, "platform_oem", 71863690812481ull);
	prop(o, "platform_id", 35322348421185ull);
	prop(o, "platform_rev", 1);
	end(o, KFD_DIR "/topology/system_properties");
	node(o, 0);
	if (vgpu_config.gpus)
		node(o, 1);
}

/* ---- PCI and DRM ---------------------------------------------------------- */

const char *sysfs_pci_dir(void)
{
	static char path[96];

	if (!path[0])
		snprintf(path, sizeof(path), "sys/devices/pci0000:00/0000:00:08.1/0000:%02x:00.0",
			 vgpu_config.pci_bus);
	return path;
}

static const char *const mem_info[] = {
	"mem_info_gtt_total",    "mem_info_gtt_used",       "mem_info_vram_total",
	"mem_info_vram_used",    "mem_info_vis_vram_total", "mem_info_vis_vram_used",
	"mem_info_preempt_used",
};

static int mem_info_text(unsigned i, char *buf, size_t n)
{
	struct vgpu_stats s = {0};
	uint64_t v;

	if (vgpu_device_alive())
		vgpu_stats(&s);
	v = i == 0             ? vgpu_config.gtt_bytes
	    : i == 1           ? s.gtt_used
	    : i == 2 || i == 4 ? vgpu_config.vram_bytes
	    : i == 3 || i == 5 ? s.vram_used
			       : s.preempt_used;
	return snprintf(buf, n, "%llu\n", (unsigned long long)v);
}

static void pci_config(struct out *o, const char *pci)
{
	const struct vgpu_props *p = &vgpu_props;
	uint8_t c[256] = {0};
	char path[160];

	c[0] = p->vendor_id & 0xff;
	c[1] = (uint8_t)(p->vendor_id >> 8);
	c[2] = p->device_id & 0xff;
	c[3] = (uint8_t)(p->device_id >> 8);
	c[4] = 0x07; /* I/O, memory, bus master */
	c[8] = (uint8_t)p->pci_rev;
	c[10] = 0x80; /* display controller, other */
	c[11] = 0x03;
	memcpy(c + 0x2c, &vgpu_config.subsystem, 4);
	snprintf(path, sizeof(path), "%s/config", pci);
	o->emit(o->ctx, SYSFS_FILE, path, (const char *)c, sizeof(c));
}

/* The blocks that a client picks packets and registers by, as amdgpu_discovery.c lays out the tree.
 * Its table comes from the device's own memory: of what no public text tells for this chip (the
 * other blocks, num_ips, base addresses) there is no file. NBIF's revision is the one between those
 * that the driver lists for the chip before and the one after. */
static void ip_discovery(struct out *o, const char *pci)
{
	static const struct {
		unsigned id, major, minor, revision;
		const char *name;
	} ip[] = {{11, 11, 5, 1, "GC"}, {42, 6, 1, 1, "SDMA0"}, {108, 7, 11, 1, "NBIF"}};
	static const char *const dirs[] = {"", "/die", "/die/0"};
	char at[160], path[200];

	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/ip_discovery%s", pci, dirs[i]);
		dir(o, path);
	}
	for (unsigned i = 0; i < sizeof(ip) / sizeof(ip[0]); i++) {
		const struct {
			const char *name;
			unsigned value;
		} f[] = {{"hw_id", ip[i].id},
			 {"num_instance", 0}, /* this instance's number */
			 {"major", ip[i].major},
			 {"minor", ip[i].minor},
			 {"revision", ip[i].revision}};

		snprintf(at, sizeof(at), "%s/ip_discovery/die/0/%u", pci, ip[i].id);
		dir(o, at);
		snprintf(path, sizeof(path), "%s/0", at);
		dir(o, path);
		for (unsigned k = 0; k < sizeof(f) / sizeof(f[0]); k++) {
			begin(o);
			add(o, "%u\n", f[k].value);
			end(o, "%s/0/%s", at, f[k].name);
		}
		begin(o);
		add(o, "0x0\n");
		end(o, "%s/0/harvest", at);
		snprintf(path, sizeof(path), "%s/ip_discovery/die/0/%s", pci, ip[i].name);
		snprintf(at, sizeof(at), "%u", ip[i].id);
		link_to(o, path, at);
	}
}

static void pci_device(struct out *o)
{
	const struct vgpu_props *p = &vgpu_props;
	const char *pci = sysfs_pci_dir();
	char path[160];

#define AT(fmt, ...)                                                                               \
	do {                                                                                       \
		begin(o);                                                                          \
		add(o, fmt, __VA_ARGS__);                                                          \
	} while (0)
	AT("0x%04x\n", p->vendor_id);
	end(o, "%s/vendor", pci);
	AT("0x%04x\n", p->device_id);
	end(o, "%s/device", pci);
	AT("0x%04x\n", vgpu_config.subsystem & 0xffff);
	end(o, "%s/subsystem_vendor", pci);
	AT("0x%04x\n", vgpu_config.subsystem >> 16);
	end(o, "%s/subsystem_device", pci);
	AT("0x%02x\n", p->pci_rev);
	end(o, "%s/revision", pci);
	AT("0x%06x\n", 0x038000);
	end(o, "%s/class", pci);
	AT("%d\n", -1);
	end(o, "%s/numa_node", pci);
	AT("DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\n"
	   "PCI_SLOT_NAME=0000:%02x:00.0\n",
	   p->vendor_id, p->device_id, vgpu_config.subsystem & 0xffff, vgpu_config.subsystem >> 16,
	   vgpu_config.pci_bus);
	end(o, "%s/uevent", pci);
	AT("%s\n", "unknown");
	end(o, "%s/mem_info_vram_vendor", pci);
	AT("%d\n", 0);
	end(o, "%s/gpu_busy_percent", pci);
	for (unsigned i = 0; i < sizeof(mem_info) / sizeof(mem_info[0]); i++) {
		char buf[32];

		mem_info_text(i, buf, sizeof(buf));
		AT("%s", buf);
		end(o, "%s/%s", pci, mem_info[i]);
	}
	pci_config(o, pci);
	ip_discovery(o, pci);
	snprintf(path, sizeof(path), "%s/subsystem", pci);
	link_to(o, path, "../../../../bus/pci");
	snprintf(path, sizeof(path), "%s/driver", pci);
	link_to(o, path, "../../../../bus/pci/drivers/amdgpu");
	dir(o, "sys/bus/pci/drivers/amdgpu");
	dir(o, "sys/bus/pci/devices");
	snprintf(path, sizeof(path), "sys/bus/pci/devices/0000:%02x:00.0", vgpu_config.pci_bus);
	{
		char target[160];

		snprintf(target, sizeof(target), "../../../../%s", pci);
		link_to(o, path, target);
	}
#undef AT
}

static void drm_node(struct out *o, const char *name, unsigned minor)
{
	const char *pci = sysfs_pci_dir();
	char path[192], target[192];

	begin(o);
	add(o, "226:%u\n", minor);
	end(o, "%s/drm/%s/dev", pci, name);
	begin(o);
	add(o, "MAJOR=226\nMINOR=%u\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", minor, name);
	end(o, "%s/drm/%s/uevent", pci, name);
	snprintf(path, sizeof(path), "%s/drm/%s/device", pci, name);
	link_to(o, path, "../..");
	snprintf(path, sizeof(path), "%s/drm/%s/subsystem", pci, name);
	link_to(o, path, "../../../../../../class/drm");
	/* sys/... up from sys/class/drm */
	snprintf(target, sizeof(target), "../../%s/drm/%s", pci + 4, name);
	snprintf(path, sizeof(path), "sys/class/drm/%s", name);
	link_to(o, path, target);
	snprintf(path, sizeof(path), "sys/dev/char/226:%u", minor);
	link_to(o, path, target);
	snprintf(path, sizeof(path), "dev/dri/%s", name);
	file(o, path, "");
}

static void group_drm(struct out *o)
{
	char name[32];

	dir(o, "sys/class/drm");
	dir(o, "sys/dev/char");
	dir(o, "dev/dri");
	file(o, "sys/class/drm/version", "drm 1.1.0 20060810\n");
	if (!vgpu_config.gpus)
		return;
	pci_device(o);
	file(o, "sys/kernel/debug/dri/0/amdgpu_gpu_recover", "");
	drm_node(o, "card0", 0);
	snprintf(name, sizeof(name), "renderD%u", vgpu_config.render_minor);
	drm_node(o, name, vgpu_config.render_minor);
}

/* ---- modules -------------------------------------------------------------- */

static void group_module(struct out *o)
{
	const struct {
		const char *name, *value;
	} params[] = {
		{"emu_mode", "0"},
		{"cwsr_enable", "1"},
		{"sched_policy", "0"},
		{"noretry", "-1"},
		{"gpu_recovery", vgpu_config.gpu_recovery ? "-1" : "0"},
		{"mes", "0"},
		{"send_sigterm", "0"},
		{"debug_evictions", "N"},
		{"no_system_mem_limit", "N"},
		{"halt_if_hws_hang", "0"},
		{"no_queue_eviction_on_vm_fault", "0"},
		{"hws_max_conc_proc", "-1"},
		{"max_num_of_queues_per_device", "4096"},
		{"queue_preemption_timeout_ms", "9000"},
		{"gttsize", "-1"},
		{"svm_default_granularity", "9"},
		{"vm_fragment_size", "-1"},
	};
	FILE *f;

	file(o, "sys/module/amdgpu/initstate", "live\n");
	file(o, "sys/module/amdgpu/refcnt", "1\n");
	file(o, "sys/module/amdgpu/coresize", "18280448\n");
	file(o, "sys/module/amdgpu/taint", "\n");
	dir(o, "sys/module/amdgpu/holders");
	for (unsigned i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		begin(o);
		add(o, "%s\n", params[i].value);
		end(o, "sys/module/amdgpu/parameters/%s", params[i].name);
	}
	file(o, "sys/module/ttm/initstate", "live\n");
	file(o, "sys/module/ttm/refcnt", "1\n");
	file(o, "sys/module/ttm/coresize", "110592\n");
	/* lsmod lists who holds a module from here. */
	link_to(o, "sys/module/ttm/holders/amdgpu", "../../amdgpu");
	begin(o);
	add(o, "%llu\n", (unsigned long long)(vgpu_config.gtt_bytes / 4096));
	end(o, "sys/module/ttm/parameters/pages_limit");
	begin(o);
	add(o, "amdgpu 18280448 1 - Live 0x0000000000000000\n"
	       "ttm 110592 1 amdgpu, Live 0x0000000000000000\n");
	/* What the machine really has comes after it, as far as it fits. */
	f = fopen("/proc/self/../modules", "re");
	if (f) {
		char line[512];

		while (fgets(line, sizeof(line), f)) {
			if (strncmp(line, "amdgpu ", 7) && strncmp(line, "ttm ", 4) &&
			    o->len + strlen(line) < sizeof(o->text))
				add(o, "%s", line);
		}
		fclose(f);
	}
	end(o, "proc/modules");
}

void sysfs_generate(enum sysfs_group group, sysfs_emit emit, void *ctx)
{
	struct out o = {.emit = emit, .ctx = ctx};

	switch (group) {
	case SYSFS_KFD:
		group_kfd(&o);
		break;
	case SYSFS_DRM:
		group_drm(&o);
		break;
	case SYSFS_MODULE:
		group_module(&o);
		break;
	case SYSFS_CPU:
		cpu_caches_generate(emit, ctx);
		break;
	case SYSFS_GROUPS:
		break;
	}
}

int sysfs_dynamic(const char *path, char *buf, size_t n)
{
	const char *base = strrchr(path, '/');
	unsigned pid;
	int used = 0;

	if (!base)
		return -1;
	base++;
	if (!strncmp(base, "mem_info_", 9)) {
		for (unsigned i = 0; i < sizeof(mem_info) / sizeof(mem_info[0]); i++) {
			if (!strcmp(base, mem_info[i]))
				return mem_info_text(i, buf, n);
		}
		return -1;
	}
	if (sscanf(path, KFD_DIR "/proc/%u/%n", &pid, &used) == 1 && used &&
	    (pid_t)pid == kfd_process_pid())
		return kfd_proc_attr(path + used, buf, n);
	return -1;
}
