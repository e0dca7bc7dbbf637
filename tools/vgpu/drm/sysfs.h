/* Text of the sysfs and procfs files that belong to the device. */
#ifndef VGPU_SYSFS_H
#define VGPU_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sysfs_group {
	SYSFS_KFD,    /* sys/devices/virtual/kfd, sys/class/kfd, dev/kfd */
	SYSFS_DRM,    /* PCI device, sys/class/drm, sys/dev/char, dev/dri */
	SYSFS_MODULE, /* sys/module/amdgpu and ttm, proc/modules */
	SYSFS_CPU,    /* sys/devices/system/cpu/cpu<n>/cache, where the host has none */
	SYSFS_GROUPS
};

enum sysfs_kind { SYSFS_DIR, SYSFS_FILE, SYSFS_LINK };

/* Called parents first; path is relative to the tree's root, text the content or link target. */
typedef void (*sysfs_emit)(void *ctx, enum sysfs_kind kind, const char *path, const char *text,
			   size_t len);

/* Emits one group; the device must have been described. */
void sysfs_generate(enum sysfs_group group, sysfs_emit emit, void *ctx);

/* Files whose content moves: writes the present content of path (relative to the tree's root)
 * to buf and returns its length, or -1 when the file is not of that kind. */
int sysfs_dynamic(const char *path, char *buf, size_t n);
/* /proc/meminfo with the configured RAM instead of the host's: what a process that uses the device
 * must see, or GTT would be larger than the machine. -1 when there is none. */
int sysfs_meminfo(char *buf, size_t n);
/* Pure: the host's text with the lines that differ replaced; -1 when buf is too small. */
int meminfo_text(const char *host, uint64_t total, uint64_t available, char *buf, size_t n);
/* The caches of the CPUs (cpu_caches.c): all files of those that the host has, or of so many. */
#define CPU_DIR "sys/devices/system/cpu"
void cpu_caches_generate(sysfs_emit emit, void *ctx);
void cpu_caches_emit(unsigned cpus, sysfs_emit emit, void *ctx);
/* Pure: the CPU whose caches path is about, by either of its names, and what comes behind "cache";
 * NULL: it is about something else. */
const char *cpu_caches_path(const char *path, unsigned *cpu);
/* The PCI device's directory, relative to the tree's root. */
const char *sysfs_pci_dir(void);

#endif
