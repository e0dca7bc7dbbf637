/* The KFD's files in sysfs: which there are, their modes, and the names and order of their lines.
 * A value is printed where every machine without a GPU has the same. */
#include "probe.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/sys/class/kfd/kfd/"

/* Properties that describe the machine, not the driver. */
static bool machine_value(const char *name)
{
	static const char *const names[] = {"cpu_cores_count", "size_in_bytes",   "platform_oem",
					    "platform_id",     "platform_rev",    "width",
					    "mem_clk_max",     "cpu_core_id_base"};

	for (unsigned i = 0; i < COUNT_OF(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static void show_file(const char *path, const char *shown, mode_t mode)
{
	char line[256], name[64];
	FILE *f = fopen(path, "re");

	observe("file", shown, f ? 0 : -1, errno, "mode %04o", mode & 07777);
	if (!f)
		return;
	for (unsigned n = 0; fgets(line, sizeof(line), f); n++) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%63s", name) == 1 && machine_value(name))
			observe("line", text("%s %u", shown, n), 0, 0, "%s = its own", name);
		else
			observe("line", text("%s %u", shown, n), 0, 0, "%s", line);
	}
	fclose(f);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void walk(const char *dir, unsigned depth)
{
	char *names[128];
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);

	if (!d) {
		observe("opendir", dir + strlen(ROOT), -1, errno, "%s", "");
		return;
	}
	while ((e = readdir(d)) && n < COUNT_OF(names))
		if (e->d_name[0] != '.')
			names[n++] = strdup(e->d_name);
	closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	for (unsigned i = 0; i < n; i++) {
		const char *path = text("%s/%s", dir, names[i]);
		char *own = strdup(path);
		struct stat st;

		if (!own || lstat(own, &st)) {
			observe("lstat", path + strlen(ROOT), -1, errno, "%s", "");
		} else if (S_ISDIR(st.st_mode)) {
			observe("directory", own + strlen(ROOT), 0, 0, "mode %04o",
				st.st_mode & 07777);
			if (depth < 5)
				walk(own, depth + 1);
		} else if (S_ISREG(st.st_mode)) {
			show_file(own, own + strlen(ROOT), st.st_mode);
		}
		free(own);
		free(names[i]);
	}
}

void section_sysfs(void)
{
	struct stat st;
	int fd = kfd_open();
	long r;

	walk(ROOT "topology", 0);
	errno = 0;
	r = stat(ROOT "dev", &st);
	observe("stat", "dev", r, errno, "mode %04o", st.st_mode & 07777);
	/* One directory per KFD process, while it lives. */
	r = stat(text(ROOT "proc/%d", (int)getpid()), &st);
	observe("stat", "proc/<own process>", r, errno, "%s",
		S_ISDIR(st.st_mode) ? "directory" : "");
	close(fd);
}
