/* The device's files as a program meets them that looks for devices: lists, patterns, file systems,
 * and what writing to them gives. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODE "/sys/class/kfd/kfd/topology/nodes/1/"

static void type_of(const char *name, unsigned char type, unsigned *seen)
{
	if (strcmp(name, "card0") && strcmp(name, "renderD128"))
		return;
	cr_expect_eq(type, DT_CHR, "%s has type %d", name, type);
	++*seen;
}

Test(files, nodes_are_character_devices_in_lists)
{
	_Alignas(8) char buf[4096];
	DIR *d = opendir("/dev/dri");
	struct dirent *e, **list;
	unsigned seen = 0;
	long n, fd;

	cr_assert(d);
	while ((e = readdir(d)))
		type_of(e->d_name, e->d_type, &seen);
	closedir(d);
	cr_expect_eq(seen, 2u);
	n = scandir("/dev/dri", &list, NULL, alphasort);
	for (long i = 0; i < n; i++)
		type_of(list[i]->d_name, list[i]->d_type, &seen);
	cr_expect_eq(seen, 4u);
	fd = open("/dev/dri", O_RDONLY | O_DIRECTORY);
	n = syscall(SYS_getdents64, fd, buf, sizeof(buf));
	cr_assert_gt(n, 0);
	for (long at = 0; at < n;) {
		struct dirent64 *g = (struct dirent64 *)(void *)(buf + at);

		type_of(g->d_name, g->d_type, &seen);
		at += g->d_reclen;
	}
	cr_expect_eq(seen, 6u);
	close((int)fd);
	/* Elsewhere a regular file stays one. */
	d = opendir(NODE);
	cr_assert(d);
	while ((e = readdir(d)))
		cr_expect(strcmp(e->d_name, "gpu_id") || e->d_type == DT_REG);
	closedir(d);
}

static void finds(const char *pattern, int flags, size_t n, const char *last)
{
	glob_t g = {0};

	cr_expect_eq(glob(pattern, flags, NULL, &g), 0, "%s", pattern);
	cr_expect_eq(g.gl_pathc, n, "%s", pattern);
	if (g.gl_pathc)
		cr_expect_str_eq(g.gl_pathv[g.gl_pathc - 1], last);
	cr_expect(!(g.gl_flags & GLOB_ALTDIRFUNC));
	globfree(&g);
}

Test(files, patterns)
{
	glob_t g;

	finds("/dev/dri/renderD*", 0, 1, "/dev/dri/renderD128");
	finds("/sys/class/kfd/kfd/topology/nodes/*/gpu_id", 0, 2,
	      "/sys/class/kfd/kfd/topology/nodes/1/gpu_id");
	finds("/sys/class/drm/{card,render}*/device/vendor", GLOB_BRACE, 2,
	      "/sys/class/drm/renderD128/device/vendor");
	finds("tests/virt_files.[c]", 0, 1, "tests/virt_files.c");
	finds("/etc/pass*d", 0, 1, "/etc/passwd");
	cr_expect_eq(glob("/dev/dri/nothing*", 0, NULL, &g), GLOB_NOMATCH);
}

Test(files, file_systems)
{
	struct statfs s;
	struct statvfs v;
	int fd = open(NODE "gpu_id", O_RDONLY);

	cr_assert_eq(statfs("/sys/class/kfd", &s), 0);
	cr_expect_eq(s.f_type, SYSFS_MAGIC);
	cr_expect_eq(s.f_blocks, 0u);
	cr_assert_eq(fstatfs(fd, &s), 0);
	cr_expect_eq(s.f_type, SYSFS_MAGIC);
	cr_assert_eq(statfs("/dev/kfd", &s), 0);
	cr_expect_eq(s.f_type, TMPFS_MAGIC);
	cr_assert_eq(statvfs("/sys/class/drm", &v), 0);
	cr_expect_eq(v.f_blocks, 0u);
	cr_expect(statfs(NODE "nothing", &s) < 0 && errno == ENOENT);
	close(fd);
}

static void no_file(const char *mode, int refused)
{
	FILE *f = fopen(NODE "gpu_id", mode);

	cr_expect(!f && errno == refused, "%s", mode);
	if (f)
		fclose(f);
}

Test(files, sysfs_takes_no_writes)
{
	int refused = geteuid() ? EACCES : EINVAL, fd;
	char text[32] = "", again[32] = "";
	FILE *f;

	fd = open(NODE "gpu_id", O_RDONLY);
	cr_assert_gt(read(fd, text, sizeof(text)), 1);
	close(fd);
	cr_expect(open(NODE "gpu_id", O_RDWR) < 0 && errno == refused);
	cr_expect(open(NODE "gpu_id", O_WRONLY | O_CREAT | O_TRUNC, 0644) < 0 && errno == refused);
	cr_expect(creat(NODE "gpu_id", 0644) < 0 && errno == refused);
	no_file("w", refused);
	no_file("r+", refused);
	no_file("a", refused);
	cr_expect(open(NODE "new", O_RDWR | O_CREAT, 0644) < 0 && errno == EACCES);
	cr_expect(open(NODE "gpu_id", O_RDONLY | O_CREAT | O_EXCL, 0644) < 0 && errno == EEXIST);
	cr_expect(open(NODE, O_RDWR | O_CREAT, 0644) < 0 && errno == EISDIR);
	f = fopen(NODE "gpu_id", "r");
	cr_assert(f);
	cr_expect(fgets(again, sizeof(again), f) && !strcmp(text, again));
	fclose(f);
}

#define CPU0 "/sys/devices/system/cpu/cpu0"

/* Past the hooks. */
static bool host_has(const char *path)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(SYS_access), "D"(path), "S"(F_OK)
			 : "rcx", "r11", "memory");
	return !r;
}

static unsigned entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += !strncmp(e->d_name, "index", 5);
	closedir(d);
	return n;
}

/* Clients count them, and many virtual machines have none to count. */
Test(files, cpus_have_caches_for_who_uses_the_device)
{
	bool host = host_has(CPU0 "/cache");
	char real[PATH_MAX], text[16] = "";
	int fd, file;

	cr_expect_eq(entries(CPU0 "/cache") > 0, host);
	fd = open("/dev/kfd", O_RDWR);
	cr_assert_geq(fd, 0);
	cr_expect_gt(entries(CPU0 "/cache"), 0u);
	cr_expect_eq(entries("/sys/devices/system/node/node0/cpu0/cache"), entries(CPU0 "/cache"));
	file = open("/sys/devices/system/node/node0/cpu0/cache/index0/level", O_RDONLY);
	cr_expect_gt(read(file, text, sizeof(text)), 0);
	cr_expect_str_eq(text, "1\n");
	close(file);
	cr_assert(realpath("/sys/devices/system/node/node0/cpu0/cache/index1", real));
	cr_expect_str_eq(real, CPU0 "/cache/index1");
	/* A CPU that is not there has nothing, and what else it has is the host's. */
	cr_expect(access("/sys/devices/system/cpu/cpu999/cache", F_OK) < 0 && errno == ENOENT);
	cr_expect_eq(access(CPU0 "/uevent", R_OK), 0);
	close(fd);
	cr_expect_eq(entries(CPU0 "/cache") > 0, host);
}

/* What processes left that were killed while they made or removed their files: no lock tells of them, but
 * their age. */
Test(files, what_the_killed_left_is_swept)
{
	const char *dead = "/dev/shm/vgpu-tree.1.dead", *young = "/dev/shm/vgpu-tree.1.young";
	struct timespec t[2];
	int status = -1;
	pid_t pid;

	cr_assert_eq(mkdir(dead, 0700), 0);
	cr_assert_eq(mkdir("/dev/shm/vgpu-tree.1.dead/dev", 0700), 0);
	cr_assert_eq(mkdir(young, 0700), 0);
	clock_gettime(CLOCK_REALTIME, &t[0]);
	t[0].tv_sec -= 120;
	t[1] = t[0];
	cr_assert_eq(utimensat(AT_FDCWD, dead, t, 0), 0);
	pid = fork();
	if (!pid)
		_exit(access(NODE "gpu_id", R_OK) ? 1 : 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect(access(dead, F_OK) && errno == ENOENT);
	cr_expect_eq(access(young, F_OK), 0);
	rmdir("/dev/shm/vgpu-tree.1.dead/dev");
	rmdir(dead);
	rmdir(young);
}
