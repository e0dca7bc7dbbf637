/* Which device a command uses, and its way up and down.
 *
 * --device=virt is the same command executed again with the virtual device preloaded and the
 * option naming /dev/kfd: from there on the program does not know, and does what it would do on a
 * machine with the hardware. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/ledger_view.h"
#include "queues/device.h"
#include "tools/prof.h"

#define DEVICE_NODE    "/dev/kfd"
#define VIRTUAL_DEVICE "libvgpu.so"

static int given_argc;
static char **given_argv;

void device_remember(int argc, char **argv)
{
	given_argv = calloc((size_t)argc + 1, sizeof(*given_argv));
	if (!given_argv)
		return;
	given_argc = argc;
	memcpy(given_argv, argv, (size_t)argc * sizeof(*argv));
}

int device_preload_virtual(void)
{
	char self[4096], *slash, *value = NULL;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *old = getenv("LD_PRELOAD");
	int rc = TOOL_OK;

	if (n < 0)
		return tool_fail("/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash || (size_t)(slash + 1 - self) + sizeof(VIRTUAL_DEVICE) > sizeof(self))
		return tool_fail("the path of this program is too long");
	memcpy(slash + 1, VIRTUAL_DEVICE, sizeof(VIRTUAL_DEVICE));
	if (access(self, R_OK))
		return tool_fail("the virtual device %s: %s (it is built beside this program)",
				 self, strerror(errno));
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
	exit(check_run(given_argv, check));
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
		return tool_fail("%s; --device=virt uses the virtual gfx1151 instead", why);
	return TOOL_OK;
}

int device_save_ledger(const struct bw_device *d, const char *path)
{
	char self[64], why[512];
	void *image = NULL;
	size_t bytes;
	int rc = TOOL_OK;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", memory_ledger_fd(d->memory));
	/* What cannot be entered is unknown, no more. */
	memory_enter_uses(d->memory);
	if (ledger_view_read_file(self, &image, &bytes, why, sizeof(why)) ||
	    tool_write_file(path, image, bytes, why, sizeof(why)))
		rc = tool_fail("%s", why);
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
