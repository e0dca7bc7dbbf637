/* The caches of the CPUs, for hosts whose kernel tells of none. A hypervisor that hides CPUID's leaves
 * about them leaves sysfs without (arch/x86/kernel/cpu/cacheinfo.c:init_cache_level), but no machine
 * with the GPU is one: clients take a node whose CPUs have no cache for a broken topology.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drm/sysfs.h"

enum { LINE = 64, CPU_MAX = 1024 };

/* Zen 5 (AMD's Software Optimization Guide, publication 58455) with Strix Halo's level 3: one for the
 * eight cores of a complex. Each CPU of the host counts as a core. */
static const struct {
	const char *type;
	unsigned level, kib, ways, cores;
} caches[] = {
	{"Data", 1, 48, 12, 1},
	{"Instruction", 1, 32, 8, 1},
	{"Unified", 2, 1024, 16, 1},
	{"Unified", 3, 32768, 16, 8},
};

/* lib/vsprintf.c:bitmap_string: groups of 32 CPUs, the highest first, without digits that no CPU has. */
static void map_text(unsigned first, unsigned last, unsigned cpus, char *buf, size_t n)
{
	size_t len = 0;

	for (unsigned group = (cpus - 1) / 32 + 1; group-- && len < n;) {
		unsigned width = cpus - group * 32 < 32 ? (cpus - group * 32 + 3) / 4 : 8;
		uint32_t bits = 0;

		for (unsigned cpu = first; cpu <= last; cpu++)
			bits |= cpu / 32 == group ? 1u << cpu % 32 : 0;
		len += (size_t)snprintf(buf + len, n - len, "%0*x%s", (int)width, bits,
					group ? "," : "\n");
	}
}

static void one(unsigned cpu, unsigned i, unsigned cpus, sysfs_emit emit, void *ctx)
{
	unsigned first = cpu - cpu % caches[i].cores, last = first + caches[i].cores - 1;
	char path[128], list[32], map[CPU_MAX / 32 * 9 + 1];
	const struct {
		const char *name;
		unsigned value;
	} numbers[] = {
		{"coherency_line_size", LINE},
		{"id", cpu / caches[i].cores},
		{"level", caches[i].level},
		{"number_of_sets", caches[i].kib * 1024 / caches[i].ways / LINE},
		{"physical_line_partition", 1},
		{"ways_of_associativity", caches[i].ways},
	};
	char size[16], type[16];
	const struct {
		const char *name, *text;
	} texts[] = {
		{"shared_cpu_list", list}, {"shared_cpu_map", map}, {"size", size}, {"type", type}};

	last = last < cpus ? last : cpus - 1;
	map_text(first, last, cpus, map, sizeof(map));
	snprintf(list, sizeof(list), first == last ? "%u\n" : "%u-%u\n", first, last);
	snprintf(size, sizeof(size), "%uK\n", caches[i].kib);
	snprintf(type, sizeof(type), "%s\n", caches[i].type);
	for (unsigned k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
		char text[16];
		int n = snprintf(text, sizeof(text), "%u\n", numbers[k].value);

		snprintf(path, sizeof(path), CPU_DIR "/cpu%u/cache/index%u/%s", cpu, i,
			 numbers[k].name);
		emit(ctx, SYSFS_FILE, path, text, (size_t)n);
	}
	for (unsigned k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
		snprintf(path, sizeof(path), CPU_DIR "/cpu%u/cache/index%u/%s", cpu, i,
			 texts[k].name);
		emit(ctx, SYSFS_FILE, path, texts[k].text, strlen(texts[k].text));
	}
}

void cpu_caches_emit(unsigned cpus, sysfs_emit emit, void *ctx)
{
	for (unsigned cpu = 0; cpu < cpus && cpus <= CPU_MAX; cpu++) {
		for (unsigned i = 0; i < sizeof(caches) / sizeof(caches[0]); i++)
			one(cpu, i, cpus, emit, ctx);
	}
}

void cpu_caches_generate(sysfs_emit emit, void *ctx)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	cpu_caches_emit(cpus > 0 ? (unsigned)cpus : 1, emit, ctx);
}

const char *cpu_caches_path(const char *path, unsigned *cpu)
{
	unsigned node;
	int n = 0;

	if (sscanf(path, "/" CPU_DIR "/cpu%u/cache%n", cpu, &n) != 1 || !n) {
		n = 0;
		if (sscanf(path, "/sys/devices/system/node/node%u/cpu%u/cache%n", &node, cpu, &n) !=
		    2)
			return NULL;
	}
	return n && (!path[n] || path[n] == '/') ? path + n : NULL;
}
