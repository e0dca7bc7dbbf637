/* Start and end of the device in a process. */
#include "preload.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check/check.h"
#include "count/count.h"
#include "drm/gem.h"
#include "isa/jit.h"
#include "share/share.h"
#include "vm/rawsys.h"

static void holds_memory(int fd, struct vfile *v, void *ctx)
{
	(void)fd;
	if ((v->kind == VFILE_DRM && v->drm) || v->kind == VFILE_DMABUF)
		*(bool *)ctx = true;
}

static void forked(void)
{
	bool keep = false;

	/* Render nodes and dma-bufs stay usable in the child, with the parent's memory. */
	vfd_each_locked(holds_memory, &keep);
	vm_pools_keep_parent(keep && !share_on());
	if (keep && share_on())
		vfd_inherited();
	vma_after_fork();
	tree_after_fork();
	count_forked();
	check_forked();
}

static void start_once(void)
{
	vfd_init();
	pthread_atfork(kfd_mm_forking, kfd_mm_changed, forked);
}

void preload_started(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start_once);
}

/* One JSON object per process that used the device, appended: children do not overwrite. */
static void write_stats(void)
{
	const char *path = getenv("VGPU_STATS");
	char buf[2048];
	long fd;
	int n;

	if (!path || !*path || !(kfd_process_exists() || vgpu_device_alive()))
		return;
	n = vgpu_stats_json(buf, sizeof(buf) - 1);
	buf[n++] = '\n';
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	rawsys3(SYS_write, fd, buf, n);
	rawsys1(SYS_close, fd);
}

void preload_finish(void)
{
	static bool done;

	if (__atomic_exchange_n(&done, true, __ATOMIC_ACQ_REL))
		return;
	if (vgpu_device_alive()) {
		/* What the device has reported is in the log and in the counts, whoever is late. */
		vgpu_device_settle();
		write_stats();
		trace_line("exit");
		check_finish();
		jit_leave();
		vgpu_device_fini();
		count_finish();
	}
	tree_remove();
}

__attribute__((destructor)) static void at_exit(void)
{
	preload_finish();
}

/* Those who leave without exit handlers. A vfork child shares this memory but not the pid. */
HOOK void _exit(int status)
{
	if ((vgpu_device_alive() || tree_root_now()) && !vgpu_mm_borrowed())
		preload_finish();
	for (;;)
		rawsys1(SYS_exit_group, status);
}

HOOK void _Exit(int status)
{
	_exit(status);
}
