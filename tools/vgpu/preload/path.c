/* Which paths are the device's, and where their files are instead. */
#include "preload.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drm/drm_file.h"
#include "drm/sysfs.h"
#include "share/share.h"
#include "vm/rawsys.h"

static const struct {
	const char *prefix;
	enum sysfs_group group;
} prefixes[] = {
	{"/sys/class/kfd", SYSFS_KFD},
	{"/sys/devices/virtual/kfd", SYSFS_KFD},
	{"/sys/class/drm", SYSFS_DRM},
	{"/sys/dev/char/226:", SYSFS_DRM},
	{"/sys/module/amdgpu", SYSFS_MODULE},
	{"/sys/module/ttm", SYSFS_MODULE},
	{"/dev/dri", SYSFS_DRM},
};

/* path begins with prefix and the prefix ends at a component (or is a partial one with ':'). */
static bool under(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	return !strncmp(path, prefix, n) && (!path[n] || path[n] == '/' || prefix[n - 1] == ':');
}

/* Doubled slashes and "." components go; ".." and a final slash stay, for links to be followed as
 * the caller means it. */
static bool normalise(const char *path, char *out)
{
	size_t n = 0;

	while (*path) {
		if (path[0] == '/' && path[1] == '/') {
			path++;
			continue;
		}
		if (path[0] == '/' && path[1] == '.' && (path[2] == '/' || !path[2])) {
			path += 2;
			continue;
		}
		if (n + 1 >= PATH_BUF)
			return false;
		out[n++] = *path++;
	}
	out[n] = 0;
	return true;
}

/* /proc/self/fdinfo/N or /proc/<own pid>/fdinfo/N: the fd, or -1. */
static int fdinfo_of(const char *path)
{
	int pid, fd, n = 0;

	if (sscanf(path, "/proc/self/fdinfo/%d%n", &fd, &n) == 1 && n && !path[n])
		return fd;
	if (sscanf(path, "/proc/%d/fdinfo/%d%n", &pid, &fd, &n) == 2 && n && !path[n] &&
	    pid == getpid())
		return fd;
	return -1;
}

/* Of another process of a shared device, which is asked for the text. */
static enum path_kind map_other_fdinfo(const char *path, char *buf)
{
	int pid, fd, n = 0, at = 0;
	uint64_t a[SHARE_ARGS] = {0, SHARE_ABOUT_FDINFO};
	const char *root = NULL, *found = NULL;
	size_t len = SHARE_DATA_MAX;
	char *text, rel[64];

	if (!share_on() || sscanf(path, "/proc/%d/fdinfo/%d%n", &pid, &fd, &n) != 2 || path[n] ||
	    pid == getpid() || vgpu_device_init())
		return PATH_OTHER;
	text = malloc(len);
	if (!text)
		return PATH_OTHER;
	a[0] = (uint64_t)pid;
	if (share_call_data(SHARE_PROC, a, -1, NULL, 0, text, &len))
		len = 0;
	while ((size_t)at < len && !found) {
		const char *number = text + at, *body = number + strlen(number) + 1;

		if (atoi(number) == fd)
			found = body;
		at = (int)(body + strlen(body) + 1 - text);
	}
	snprintf(rel, sizeof(rel), "proc/%d.fdinfo/%d", pid, fd);
	if (found)
		root = tree_root(-1);
	if (root && !tree_write(rel, found, strlen(found)))
		snprintf(buf, PATH_BUF, "%s/%s", root, rel);
	else
		root = NULL;
	free(text);
	return root ? PATH_MAPPED : PATH_OTHER;
}

static enum path_kind map_fdinfo(const char *path, char *buf)
{
	struct vfile *v;
	char rel[64], text[4096];
	const char *root;
	int fd, n;

	fd = fdinfo_of(path);
	if (fd < 0)
		return map_other_fdinfo(path, buf);
	if (!__atomic_load_n(&vfd_live, __ATOMIC_RELAXED))
		return PATH_OTHER;
	v = fd >= 0 ? vfd_get(fd) : NULL;
	if (!v)
		return PATH_OTHER;
	if (v->kind != VFILE_DRM || !v->drm) {
		vfile_put(v);
		return PATH_OTHER;
	}
	n = vfd_fdinfo(v, text, sizeof(text));
	vfile_put(v);
	root = tree_root(-1);
	snprintf(rel, sizeof(rel), "proc/fdinfo/%d", fd);
	if (!root || tree_write(rel, text, (size_t)n))
		return PATH_OTHER;
	snprintf(buf, PATH_BUF, "%s/%s", root, rel);
	return PATH_MAPPED;
}

/* For a process with the device open only: all others live on this machine and plan with its RAM.
 */
static enum path_kind map_meminfo(char *buf)
{
	char text[8192];
	const char *root;
	int n;

	if (!__atomic_load_n(&vfd_live, __ATOMIC_RELAXED))
		return PATH_OTHER;
	n = sysfs_meminfo(text, sizeof(text));
	root = tree_root(-1);
	if (n < 0 || !root || tree_write("proc/meminfo", text, (size_t)n))
		return PATH_OTHER;
	snprintf(buf, PATH_BUF, "%s/proc/meminfo", root);
	return PATH_MAPPED;
}

/* For the same processes, and only what the host's kernel leaves out of a CPU that it has. */
static enum path_kind map_cpu_caches(const char *path, char *buf)
{
	char host[64];
	unsigned cpu = 0;
	const char *rest, *root;

	if (!__atomic_load_n(&vfd_live, __ATOMIC_RELAXED))
		return PATH_OTHER;
	rest = cpu_caches_path(path, &cpu);
	snprintf(host, sizeof(host), "/" CPU_DIR "/cpu%u", cpu);
	if (!rest || rawsys3(SYS_faccessat, AT_FDCWD, host, F_OK))
		return PATH_OTHER;
	snprintf(host, sizeof(host), "/" CPU_DIR "/cpu%u/cache", cpu);
	if (!rawsys3(SYS_faccessat, AT_FDCWD, host, F_OK))
		return PATH_OTHER;
	root = tree_root(SYSFS_CPU);
	if (!root || snprintf(buf, PATH_BUF, "%s%s%s", root, host, rest) >= PATH_BUF)
		return PATH_OTHER;
	return PATH_MAPPED;
}

/* debugfs belongs to root. */
#define GPU_RECOVER "/sys/kernel/debug/dri/0/amdgpu_gpu_recover"

void path_opening(const char *mapped)
{
	size_t n = strlen(mapped), tail = sizeof(GPU_RECOVER) - 1;
	char text[16];
	int r;

	if (n < tail || strcmp(mapped + n - tail, GPU_RECOVER))
		return;
	/* The kernel resets when the file is read, which nobody opens it not to do. */
	r = kfd_gpu_recover();
	snprintf(text, sizeof(text), "%d\n", r);
	tree_write(&GPU_RECOVER[1], text, strlen(text));
}

/* Files whose content moves are written anew before the client opens them. */
static void refresh(const char *rel)
{
	char text[256];
	int n;

	/* The numbers are the device's: also for who only looks. */
	if (share_on() && (strstr(rel, "kfd/proc") || strstr(rel, "mem_info_")))
		vgpu_device_init();
	if (strstr(rel, "kfd/proc"))
		tree_refresh_proc();
	n = sysfs_dynamic(rel, text, sizeof(text));
	if (n < 0) {
		/* Through a link: by the file's own name. */
		const char *base = strstr(rel, "mem_info_");

		if (!base)
			return;
		n = sysfs_dynamic(base - 1, text, sizeof(text));
		if (n >= 0) {
			char pci[200];

			snprintf(pci, sizeof(pci), "%s/%s", sysfs_pci_dir(), base);
			tree_write(pci, text, (size_t)n);
		}
		return;
	}
	if (!strstr(rel, "kfd/proc"))
		tree_write(rel, text, (size_t)n);
}

/* The way down to the device exists on most machines; where it does not, it is ours too. */
static bool pci_parent(const char *path)
{
	static const char *const parents[] = {"/sys/devices/pci0000:00",
					      "/sys/devices/pci0000:00/0000:00:08.1"};

	for (unsigned i = 0; i < 2; i++) {
		if (!strcmp(path, parents[i]))
			return rawsys3(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
	}
	return false;
}

static bool pci_path(const char *path, char *pci)
{
	if (strncmp(path, "/sys/devices/pci0000:00/0000:00:08.1", 36) &&
	    strncmp(path, "/sys/bus/pci/devices/0000:", 26))
		return false;
	if (vgpu_device_describe())
		return false;
	snprintf(pci, 160, "/%s", sysfs_pci_dir());
	if (under(path, pci))
		return true;
	snprintf(pci, 160, "/sys/bus/pci/devices/0000:%02x:00.0", vgpu_config.pci_bus);
	return under(path, pci);
}

static enum path_kind map_node(const char *path, char *buf)
{
	const char *root = tree_root(!strcmp(path, "/dev/kfd") ? SYSFS_KFD : SYSFS_DRM);
	char render[32];

	/* A device that cannot be described is there all the same: its open says what is wrong. */
	if (!root && strcmp(path, "/dev/kfd") != 0)
		return PATH_OTHER;
	snprintf(buf, PATH_BUF, "%s%s", root ? root : "", path);
	if (!strcmp(path, "/dev/kfd"))
		return PATH_KFD;
	snprintf(render, sizeof(render), "/dev/dri/renderD%u", vgpu_config.render_minor);
	if (!vgpu_config.gpus)
		return PATH_MAPPED;
	if (!strcmp(path, render))
		return PATH_RENDER;
	return !strcmp(path, "/dev/dri/card0") ? PATH_CARD : PATH_MAPPED;
}

/* The directory is asked of the kernel, so that links, "..", relative names and doubled slashes
 * mean what they mean to it. */
enum path_kind path_alias(int dirfd, const char *path, char *buf)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) + 1 : 0; /* with the slash: "/" is the root */
	int saved = errno, fd = AT_FDCWD;
	char dir[PATH_BUF] = ".", link[40], at[8];
	ssize_t len;

	if (n >= sizeof(dir))
		return PATH_OTHER;
	if (n) {
		memcpy(dir, path, n);
		dir[n] = 0;
	}
	fd = (int)rawsys4(SYS_openat, dirfd, dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return PATH_OTHER;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = rawsys4(SYS_readlinkat, AT_FDCWD, link, at, sizeof(at));
	rawsys1(SYS_close, fd);
	errno = saved;
	return len == 4 && !memcmp(at, "/dev", 4) ? map_node("/dev/kfd", buf) : PATH_OTHER;
}

enum path_kind path_of_fd(const char *path, char *buf)
{
	enum path_kind kind = PATH_OTHER;
	char name[32] = "/dev/kfd";
	int fd, pid, n = 0;
	struct vfile *v;

	if (!__atomic_load_n(&vfd_live, __ATOMIC_RELAXED) || !path)
		return PATH_OTHER;
	if (!((sscanf(path, "/proc/self/fd/%d%n", &fd, &n) == 1 ||
	       sscanf(path, "/dev/fd/%d%n", &fd, &n) == 1) &&
	      !path[n]) &&
	    !(sscanf(path, "/proc/%d/fd/%d%n", &pid, &fd, &n) == 2 && !path[n] && pid == getpid()))
		return PATH_OTHER;
	v = vfd_get(fd);
	if (!v)
		return PATH_OTHER;
	if (v->kind == VFILE_DRM)
		snprintf(name, sizeof(name), v->primary ? "/dev/dri/card0" : "/dev/dri/renderD%u",
			 vgpu_config.render_minor);
	if (v->kind == VFILE_KFD || v->kind == VFILE_DRM)
		kind = map_node(name, buf);
	vfile_put(v);
	return kind;
}

enum path_kind path_slow(const char *in, char *buf)
{
	char path[PATH_BUF] = "", pci[160] = "";
	const char *root;

	/* Second letters: /dev, /sys, /proc; the device's names lie a fixed distance in. */
	if (strncmp(in, "/dev", 4) && strncmp(in, "/sys", 4) && strncmp(in, "/proc", 5))
		return PATH_OTHER;
	if (!normalise(in, path))
		return PATH_OTHER;
	if (path[1] == 'p') {
		if (!strcmp(path, "/proc/modules")) {
			root = tree_root(SYSFS_MODULE);
			if (!root)
				return PATH_OTHER;
			snprintf(buf, PATH_BUF, "%s/proc/modules", root);
			return PATH_MAPPED;
		}
		if (!strcmp(path, "/proc/meminfo"))
			return map_meminfo(buf);
		return strstr(path, "/fdinfo/") ? map_fdinfo(path, buf) : PATH_OTHER;
	}
	if (!strcmp(path, "/dev/kfd") || !strncmp(path, "/dev/dri/", 9))
		return map_node(path, buf);
	/* Below a node there is nothing (ENOTDIR), as below its placeholder. */
	if (under(path, "/dev/kfd")) {
		root = tree_root(SYSFS_KFD);
		if (!root || snprintf(buf, PATH_BUF, "%s%s", root, path) >= PATH_BUF)
			return PATH_OTHER;
		return PATH_MAPPED;
	}
	for (unsigned i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (!under(path, prefixes[i].prefix))
			continue;
		root = tree_root((int)prefixes[i].group);
		if (!root || snprintf(buf, PATH_BUF, "%s%s", root, path) >= PATH_BUF)
			return PATH_OTHER;
		refresh(path + 1);
		return PATH_MAPPED;
	}
	if (!strncmp(path, "/sys/devices/system/", 20))
		return map_cpu_caches(path, buf);
	if (!strcmp(path, GPU_RECOVER) && !rawsys0(SYS_geteuid)) {
		root = tree_root(SYSFS_DRM);
		if (!root || !vgpu_config.gpus)
			return PATH_OTHER;
		snprintf(buf, PATH_BUF, "%s" GPU_RECOVER, root);
		return PATH_MAPPED;
	}
	if (pci_path(path, pci) || pci_parent(path)) {
		root = tree_root(SYSFS_DRM);
		if (!root || snprintf(buf, PATH_BUF, "%s%s", root, path) >= PATH_BUF)
			return PATH_OTHER;
		refresh(path + 1);
		return PATH_MAPPED;
	}
	return PATH_OTHER;
}

char *path_unmap(char *path)
{
	const char *root = tree_root_now();
	size_t n = root ? strlen(root) : 0;

	if (n && !strncmp(path, root, n) && (path[n] == '/' || !path[n]))
		memmove(path, path[n] ? path + n : "/", strlen(path + n) + 1);
	return path;
}
