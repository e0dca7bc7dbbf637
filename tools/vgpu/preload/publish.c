/* What another process would find about this one in /proc and /sys if the device were the machine's:
 * written below `outside` in the tree, for `barewave mem --pid`. The hooks serve this process alone;
 * an outsider reads files, and these are as old as the last change. */
#include "preload.h"

#include <stdio.h>
#include <unistd.h>

static void write_fdinfo(int fd, struct vfile *v, void *ctx)
{
	char rel[64], text[4096];
	int n = vfd_fdinfo(v, text, sizeof(text));

	(void)ctx;
	snprintf(rel, sizeof(rel), "proc/%d/fdinfo/%d", (int)getpid(), fd);
	tree_outside_write(rel, text, (size_t)n);
}

static void write_attr(void *ctx, const char *name)
{
	char rel[160], text[64];
	int n = kfd_proc_attr(name, text, sizeof(text));

	(void)ctx;
	snprintf(rel, sizeof(rel), "sys/class/kfd/kfd/proc/%d/%s", (int)getpid(), name);
	if (n >= 0)
		tree_outside_write(rel, text, (size_t)n);
}

static void fill(void)
{
	vfd_each(VFILE_DRM, write_fdinfo, NULL);
	if (kfd_process_exists())
		kfd_proc_list(write_attr, NULL);
}

void publish(void)
{
	tree_outside(fill);
}
