#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/mem_external.h"

#define MAX_CLIENTS 64

static void unknown(struct mem_number *n, const char *what, int err)
{
	n->known = false;
	snprintf(n->why, sizeof(n->why), "%.60s: %.30s", what, strerror(err));
}

static void add(struct mem_number *n, uint64_t bytes)
{
	n->known = true;
	n->bytes += bytes;
}

/* "drm-memory-gtt:\t123 KiB" */
static bool value(const char *line, const char *key, uint64_t *out)
{
	size_t n = strlen(key);
	char unit[8] = "";
	uint64_t v;

	if (strncmp(line, key, n) || line[n] != ':')
		return false;
	if (sscanf(line + n + 1, "%" SCNu64 " %7s", &v, unit) < 1)
		return false;
	*out = !strcmp(unit, "KiB") ? v << 10 : !strcmp(unit, "MiB") ? v << 20 : v;
	return true;
}

struct fdinfo {
	bool amdgpu, has_id, has[3];
	uint64_t id, bytes[3];
};

static void fdinfo_line(struct fdinfo *f, const char *line)
{
	static const char *const keys[3][2] = {{"drm-memory-vram", "drm-resident-vram"},
					       {"drm-memory-gtt", "drm-resident-gtt"},
					       {"drm-memory-cpu", "drm-resident-cpu"}};
	uint64_t v;

	if (!strncmp(line, "drm-driver:", 11) && strstr(line, "amdgpu"))
		f->amdgpu = true;
	if (value(line, "drm-client-id", &f->id))
		f->has_id = true;
	for (unsigned i = 0; i < 3; i++) {
		/* Newer kernels print both; they agree, and the older key comes second. */
		for (unsigned k = 0; k < 2; k++) {
			if (value(line, keys[i][k], &v) && !f->has[i]) {
				f->has[i] = true;
				f->bytes[i] = v;
			}
		}
	}
}

static void read_fdinfo(const char *root, int pid, struct mem_external *out)
{
	struct mem_number *to[3] = {&out->vram, &out->gtt, &out->cpu};
	uint64_t seen[MAX_CLIENTS] = {0};
	char dir[256], path[600], line[256];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/proc/%d/fdinfo", root, pid);
	d = opendir(dir);
	for (unsigned i = 0; i < 3; i++)
		unknown(to[i], "no descriptor of amdgpu in fdinfo", d ? ENODATA : errno);
	if (!d)
		return;
	while ((e = readdir(d))) {
		struct fdinfo f = {0};
		bool again = false;
		FILE *in;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		in = fopen(path, "re");
		if (!in)
			continue;
		while (fgets(line, sizeof(line), in))
			fdinfo_line(&f, line);
		fclose(in);
		for (unsigned i = 0; i < out->drm_clients; i++)
			again |= seen[i] == f.id;
		if (!f.amdgpu || !f.has_id || again || out->drm_clients == MAX_CLIENTS)
			continue;
		seen[out->drm_clients++] = f.id;
		for (unsigned i = 0; i < 3; i++)
			if (f.has[i])
				add(to[i], f.bytes[i]);
	}
	closedir(d);
}

static void read_kfd(const char *root, int pid, struct mem_external *out)
{
	char dir[256], path[600];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/sys/class/kfd/kfd/proc/%d", root, pid);
	d = opendir(dir);
	unknown(&out->kfd_vram, "no KFD process in sysfs", d ? ENODATA : errno);
	if (!d)
		return;
	while ((e = readdir(d))) {
		uint64_t v;
		FILE *in;

		if (strncmp(e->d_name, "vram_", 5))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		in = fopen(path, "re");
		if (!in)
			continue;
		if (fscanf(in, "%" SCNu64, &v) == 1)
			add(&out->kfd_vram, v);
		fclose(in);
	}
	closedir(d);
	snprintf(path, sizeof(path), "%s/queues", dir);
	d = opendir(path);
	if (!d)
		return;
	out->kfd_known = true;
	while ((e = readdir(d)))
		out->kfd_queues += e->d_name[0] != '.';
	closedir(d);
}

static int put(const char *dir, const char *name, const char *text, int how)
{
	char path[600];
	int fd, rc = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC | how);
	if (fd < 0)
		return -errno;
	if (*text && write(fd, text, strlen(text)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* The filter is one of threads, not of processes: all there are, and (event-fork) those to come. */
static int follow(const char *dir, const char *root, int pid)
{
	char tasks[256];
	struct dirent *e;
	DIR *d;
	int rc = put(dir, "options/event-fork", "1", 0);

	/* Emptied first: an instance may be left of somebody who was killed. */
	if (rc == 0)
		rc = put(dir, "set_event_pid", "", O_TRUNC);
	if (rc < 0)
		return rc;
	snprintf(tasks, sizeof(tasks), "%s/proc/%d/task", root, pid);
	d = opendir(tasks);
	if (!d)
		return -errno;
	while (rc == 0 && (e = readdir(d))) {
		char text[32];

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(text, sizeof(text), "%.20s\n", e->d_name);
		rc = put(dir, "set_event_pid", text, O_APPEND);
	}
	closedir(d);
	return rc;
}

/* "... amdgpu_bo_create: bo=..., pages=16, type=..., ..." (amdgpu_trace.h) */
static void count_trace(const char *dir, struct mem_external *out)
{
	char path[600], line[1024];
	FILE *in;

	snprintf(path, sizeof(path), "%s/trace", dir);
	in = fopen(path, "re");
	if (!in) {
		unknown(&out->created, path, errno);
		return;
	}
	out->created.known = true;
	while (fgets(line, sizeof(line), in)) {
		const char *p = strstr(line, "amdgpu_bo_create:");
		uint64_t pages;

		p = p ? strstr(p, "pages=") : NULL;
		if (p && sscanf(p + 6, "%" SCNu64, &pages) == 1) {
			out->created.bytes += pages * 4096;
			out->created_count++;
		}
	}
	fclose(in);
}

static void wake(int sig)
{
	(void)sig;
}

/* An instance of its own: whatever else is being traced goes on undisturbed. Signals wait until the
 * tracing does (unblocked: the mask to wait with). */
static void trace(const char *dir, const char *root, int pid, double seconds,
		  const sigset_t *unblocked, struct mem_external *out)
{
	static const char event[] = "events/amdgpu/amdgpu_bo_create/enable";
	const struct timespec t = {(time_t)seconds,
				   (long)((seconds - (double)(time_t)seconds) * 1e9)};
	uint64_t start;
	int rc = follow(dir, root, pid);

	if (rc == 0)
		rc = put(dir, "trace", "", O_TRUNC);
	if (rc == 0)
		rc = put(dir, event, "1", 0);
	if (rc < 0) {
		unknown(&out->created, "tracepoint amdgpu_bo_create", -rc);
		return;
	}
	start = tool_now_ns();
	pselect(0, NULL, NULL, NULL, &t, unblocked);
	out->traced_seconds = (double)(tool_now_ns() - start) / 1e9;
	put(dir, event, "0", 0);
	count_trace(dir, out);
}

/* For so long, or until somebody wants to stop: what was made for tracing goes in any case. It is named
 * by the process that is watched. */
static void read_trace(const char *root, int pid, double seconds, struct mem_external *out)
{
	const struct sigaction stop = {.sa_handler = wake};
	struct sigaction before[2];
	sigset_t signals, mask;
	char dir[256];

	if (seconds <= 0) {
		snprintf(out->created.why, sizeof(out->created.why),
			 "not traced (--trace SECONDS)");
		return;
	}
	snprintf(dir, sizeof(dir), "%s/sys/kernel/tracing/instances/barewave-%d", root, pid);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	sigaction(SIGINT, &stop, &before[0]);
	sigaction(SIGTERM, &stop, &before[1]);
	if (mkdir(dir, 0700) && errno != EEXIST) {
		unknown(&out->created, "tracing needs root and tracefs", errno);
	} else {
		trace(dir, root, pid, seconds, &mask, out);
		rmdir(dir);
	}
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

void mem_external_read(const char *root, int pid, double trace_seconds, struct mem_external *out)
{
	*out = (struct mem_external){0};
	read_fdinfo(root, pid, out);
	read_kfd(root, pid, out);
	read_trace(root, pid, trace_seconds, out);
}
