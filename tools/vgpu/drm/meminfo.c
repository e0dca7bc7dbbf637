/* /proc/meminfo as the machine has it that the device pretends to sit in. */
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "drm/sysfs.h"
#include "kfd/vkfd.h"

/* A kernel keeps some of its RAM for itself whatever happens. */
#define KERNEL_SHARE(ram) ((ram) >> 6)

int meminfo_text(const char *host, uint64_t total, uint64_t available, char *buf, size_t n)
{
	static const char *const ours[] = {"MemTotal:", "MemFree:", "MemAvailable:"};
	size_t len = 0;

	while (*host) {
		size_t line = strcspn(host, "\n");
		unsigned i = 0;
		int w;

		while (i < 3 && strncmp(host, ours[i], strlen(ours[i])) != 0)
			i++;
		if (i < 3)
			w = snprintf(buf + len, n - len, "%-16s%8llu kB\n", ours[i],
				     (unsigned long long)(i ? available : total) >> 10);
		else
			w = snprintf(buf + len, n - len, "%.*s\n", (int)line, host);
		if (w < 0 || (size_t)w >= n - len)
			return -1;
		len += (size_t)w;
		host += line + (host[line] == '\n');
	}
	return (int)len;
}

int sysfs_meminfo(char *buf, size_t n)
{
	uint64_t total = vgpu_config.ram_bytes, used = KERNEL_SHARE(total);
	struct vgpu_stats s = {0};
	char host[4096];
	size_t len;
	FILE *f = fopen("/proc/self/../meminfo", "re"); /* the hooks know it by another name */

	if (!f)
		return -1;
	len = fread(host, 1, sizeof(host) - 1, f);
	fclose(f);
	host[len] = 0;
	if (vgpu_device_alive())
		vgpu_stats(&s);
	used += s.gtt_used;
	return meminfo_text(host, total, used < total ? total - used : 0, buf, n);
}
