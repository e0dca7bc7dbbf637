/* Which device a command uses, and its way up and down.
 *
 * --device=virt is the same command executed again with the virtual device preloaded and the
 * option naming /dev/kfd: from there on the program does not know, and does what it would do on a
 * machine with the hardware. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/ledger_view.h"
#include "queues/device.h"
#include "tools/prof.h"

#define DEVICE_NODE    "/dev/kfd"
#define VIRTUAL_DEVICE "libvgpu.so"
#define TRAP_LOADER    "vgpu-trap"

static int given_argc;
static char **given_argv;
static bool trapped; /* the program brings the device along */

void device_remember(int argc, char **argv)
{
	given_argv = calloc((size_t)argc + 1, sizeof(*given_argv));
	if (!given_argv)
		return;
	given_argc = argc;
	memcpy(given_argv, argv, (size_t)argc * sizeof(*argv));
}

/* The file that is built beside this program. */
static int find_beside(const char *name, int mode, char *self, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", self, size - 1);
	char *slash;

	if (n < 0)
		return tool_fail("/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash || (size_t)(slash + 1 - self) + strlen(name) + 1 > size)
		return tool_fail("the path of this program is too long");
	strcpy(slash + 1, name);
	if (access(self, mode))
		return tool_fail("the virtual device %s: %s (it is built beside this program)",
				 self, strerror(errno));
	return TOOL_OK;
}

int device_preload_virtual(void)
{
	char self[4096], *value = NULL;
	const char *old = getenv("LD_PRELOAD");
	int rc;

	if (trapped)
		return TOOL_OK;
	rc = find_beside(VIRTUAL_DEVICE, R_OK, self, sizeof(self));
	if (rc)
		return rc;
	/* the loader splits LD_PRELOAD at spaces and colons and knows no quoting */
	if (strpbrk(self, " :"))
		return tool_fail(
			"the virtual device %s cannot be preloaded: its path has a space or "
			"a colon",
			self);
	if (asprintf(&value, "%s%s%s", self, old && *old ? ":" : "", old ? old : "") < 0)
		return tool_fail("out of memory");
	if (setenv("LD_PRELOAD", value, 1))
		rc = tool_fail("LD_PRELOAD: %s", strerror(errno));
	free(value);
	return rc;
}

int device_setting(const char *setting)
{
	const char *old = getenv("VGPU_SET");
	char *all;
	int rc = TOOL_OK;

	if (asprintf(&all, "%s%s%s", old ? old : "", old && *old ? "," : "", setting) < 0)
		return tool_fail("out of memory");
	if (setenv("VGPU_SET", all, 1))
		rc = tool_fail("VGPU_SET: %s", strerror(errno));
	free(all);
	return rc;
}

/* As execvp() looks. */
static int find_program(const char *name, char *path, size_t size)
{
	const char *dirs = getenv("PATH"), *end;
	int err = ENOENT;

	if (strchr(name, '/')) {
		snprintf(path, size, "%s", name);
		return access(path, X_OK) ? -errno : 0;
	}
	for (dirs = dirs ? dirs : "/bin:/usr/bin";; dirs = end + 1) {
		end = strchrnul(dirs, ':');
		if (snprintf(path, size, "%.*s%s%s", (int)(end - dirs), dirs, end > dirs ? "/" : "",
			     name) < (int)size) {
			if (!access(path, X_OK))
				return 0;
			if (errno == EACCES)
				err = EACCES;
		}
		if (!*end)
			return -err;
	}
}

char **device_trap_command(char *const *argv)
{
	char self[4096], path[4096];
	size_t n = 0;
	char **v;
	int err;

	if (find_beside(TRAP_LOADER, X_OK, self, sizeof(self)))
		return NULL;
	err = find_program(argv[0], path, sizeof(path));
	if (err) {
		tool_fail("%s: %s", argv[0], strerror(-err));
		return NULL;
	}
	while (argv[n])
		n++;
	v = calloc(n + 3, sizeof(*v));
	if (v) {
		v[0] = strdup(self);
		v[1] = strdup(path);
		memcpy(v + 2, argv, n * sizeof(*v));
	}
	if (!v || !v[0] || !v[1]) {
		tool_fail("out of memory");
		free(v);
		return NULL;
	}
	trapped = true;
	return v;
}

int device_select(const char *text)
{
	static char option[] = "--device=" DEVICE_NODE, node[] = DEVICE_NODE;

	if (!text || strcmp(text, "virt"))
		return TOOL_OK;
	for (int i = 1; i < given_argc; i++) {
		char *arg = given_argv[i];

		/* getopt points its value into the argument it came from */
		if (text >= arg && text <= arg + strlen(arg))
			given_argv[i] = text == arg ? node : option;
	}
	if (!given_argv)
		return tool_fail("out of memory");
	if (device_preload_virtual())
		return TOOL_FAILED;
	fflush(NULL);
	execv("/proc/self/exe", given_argv);
	return tool_fail("/proc/self/exe: %s", strerror(errno));
}

int device_select_checked(const struct command *c, const char *text, const char *check)
{
	const char *set = getenv("VGPU_SET");

	if (check && strcmp(check, "visibility"))
		return tool_usage(c, "--check '%s', wanted visibility", check);
	/* Below, where check_run() has said so. */
	if (!check || (set && strstr(set, CHECK_SETTING)))
		return device_select(text);
	if (!text || strcmp(text, "virt"))
		return tool_usage(c, "--check is done by the virtual device: wanted --device=virt");
	if (!given_argv)
		return tool_fail("out of memory");
	given_argv[0] = (char[]){"/proc/self/exe"};
	exit(check_run(given_argv, check, getenv("VGPU_CHECK")));
}

/* Another process that has the virtual device preloaded holds a directory with what the kernel would
 * say of it; the lock that shows that it lives is among its descriptors. */
int device_outside(int pid, char *root, size_t n)
{
	static const char mark[] = "/vgpu-tree.", lock[] = "/lock";
	char dir[64], path[128], link[512];
	struct dirent *e;
	int found = -ENOENT;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", pid);
	d = opendir(dir);
	if (!d)
		return -errno;
	while (found && (e = readdir(d))) {
		ssize_t len;

		if (snprintf(path, sizeof(path), "%s/%.32s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		len = readlink(path, link, sizeof(link) - 1);
		if (len <= (ssize_t)sizeof(lock))
			continue;
		link[len] = '\0';
		len -= (ssize_t)strlen(lock);
		if (strcmp(link + len, lock) || !strstr(link, mark))
			continue;
		link[len] = '\0';
		if (snprintf(root, n, "%s/outside", link) < (int)n && !access(root, R_OK | X_OK))
			found = 0;
	}
	closedir(d);
	return found;
}

int device_open(const char *text, const struct queue_opts *q, struct bw_device *out)
{
	return device_open_placed(text, q, NULL, out);
}

int device_open_placed(const char *text, const struct queue_opts *q, const struct bo_rules *r,
		       struct bw_device *out)
{
	struct bw_device_opts o = {.no_queue = !q, .rules = r};
	char why[512];

	if (text && strcmp(text, "auto"))
		o.kfd.device = text;
	if (q)
		o.queue = *q;
	if (bw_device_open(&o, out, why, sizeof(why)))
		return tool_fail("%s%s", why,
				 access(DEVICE_NODE, F_OK)
					 ? "; --device=virt uses the virtual gfx1151 instead"
					 : "");
	return TOOL_OK;
}

int device_save_ledger(const struct bw_device *d, const char *path)
{
	char self[64], why[512];
	void *image = NULL;
	size_t bytes;
	int rc;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", memory_ledger_fd(d->memory));
	/* What cannot be entered is unknown, no more. */
	memory_enter_uses(d->memory);
	rc = ledger_view_read_file(self, &image, &bytes, why, sizeof(why));
	if (!rc) {
		((struct ledger_header *)image)->saved_ns = tool_now_ns();
		rc = tool_write_file(path, image, bytes, why, sizeof(why));
	}
	rc = rc ? tool_fail("%s", why) : TOOL_OK;
	free(image);
	return rc;
}

int device_close(struct bw_device *d)
{
	struct bw_teardown t = {0};
	int rc = bw_device_close(d, &t);

	if (rc == -EBUSY)
		return tool_fail("left behind at exit: %llu buffers (%llu bytes), %llu queues",
				 (unsigned long long)t.bos, (unsigned long long)t.bytes,
				 (unsigned long long)t.queues);
	if (rc)
		return tool_fail("closing the device: %s (%s)", strerror(-rc), kfd_reason());
	return TOOL_OK;
}
