/* VGPU_TRACE=FILE: one line for each call that concerns the device.
 *
 * Made to be compared between runs: fds appear as kfd0, drm0, smi0 in order of opening, addresses
 * as A0, A1, ... in order of first appearance, one name per mapped range (A3+0x1000 lies inside
 * A3), gpu_ids and sizes as they are, clocks and other values that differ by nature as "~".
 * Handles, queue and event ids are deterministic and printed plainly.
 */
#include "preload.h"

#include <drm.h>
#include <amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drm/drm_file.h"
#include "kfd/why.h"
#include "ownfd.h"
#include "vm/rawsys.h"

static int trace_fd = -2; /* not looked yet */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct name {
	uint64_t start, end;
};
static struct name *names;
static size_t n_names, cap_names;

static void trace_open(void)
{
	const char *path = getenv("VGPU_TRACE");
	long fd = -1;

	if (path && *path)
		fd = rawsys4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			     0644);
	fd = own_fd(fd);
	__atomic_store_n(&trace_fd, fd < 0 ? -1 : (int)fd, __ATOMIC_RELEASE);
}

bool trace_on(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (__builtin_expect(__atomic_load_n(&trace_fd, __ATOMIC_ACQUIRE) == -2, 0))
		pthread_once(&once, trace_open);
	return trace_fd >= 0;
}

void trace_line(const char *fmt, ...)
{
	char buf[1024];
	va_list ap;
	int n;

	if (!trace_on())
		return;
	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(buf) - 2)
		n = sizeof(buf) - 2;
	buf[n++] = '\n';
	rawsys3(SYS_write, trace_fd, buf, n);
}

static char *slot(void)
{
	static _Thread_local char ring[8][48];
	static _Thread_local unsigned next;

	return ring[next++ % 8];
}

static _Thread_local bool in_full; /* addresses as they are: for the log */

/* Names a range; an address inside a named range is that name plus its offset. */
static const char *name_range(uint64_t addr, uint64_t len)
{
	char *s = slot();
	size_t i;

	if (!addr)
		return "0";
	if (in_full) {
		snprintf(s, 48, "0x%llx", (unsigned long long)addr);
		return s;
	}
	pthread_mutex_lock(&lock);
	for (i = 0; i < n_names; i++) {
		if (addr >= names[i].start && addr < names[i].end)
			break;
	}
	if (i == n_names) {
		if (n_names == cap_names) {
			size_t cap = cap_names ? cap_names * 2 : 256;
			struct name *v = realloc(names, cap * sizeof(*v));

			if (!v) {
				pthread_mutex_unlock(&lock);
				return "?";
			}
			names = v;
			cap_names = cap;
		}
		names[n_names++] = (struct name){addr, addr + (len ? len : 1)};
	} else if (addr == names[i].start && addr + len > names[i].end) {
		names[i].end = addr + len;
	}
	if (addr == names[i].start)
		snprintf(s, 48, "A%zu", i);
	else
		snprintf(s, 48, "A%zu+0x%llx", i, (unsigned long long)(addr - names[i].start));
	pthread_mutex_unlock(&lock);
	return s;
}

const char *trace_addr(uint64_t addr)
{
	return name_range(addr, 0);
}

const char *trace_result(long ret)
{
	char *s = slot();

	if (ret < 0 && ret > -4096) {
		const char *e = ret == -KFD_ENOTSUPP ? "ENOTSUPP" : strerrorname_np((int)-ret);

		snprintf(s, 48, "-%s", e ? e : "?");
	} else {
		snprintf(s, 48, "%ld", ret);
	}
	return s;
}

const char *trace_file(const struct vfile *v)
{
	static const char *const kinds[] = {"kfd", "drm", "smi", "dmabuf"};
	char *s = slot();

	snprintf(s, 48, "%s%u", kinds[v->kind], v->serial);
	return s;
}

#define U(x) (unsigned long long)(x)

static const char *const kfd_names[KFD_NR_END] = {
#define N(x) [KFD_NR_##x] = #x
	N(GET_VERSION),
	N(CREATE_QUEUE),
	N(DESTROY_QUEUE),
	N(SET_MEMORY_POLICY),
	N(GET_CLOCK_COUNTERS),
	N(GET_PROCESS_APERTURES),
	N(UPDATE_QUEUE),
	N(CREATE_EVENT),
	N(DESTROY_EVENT),
	N(SET_EVENT),
	N(RESET_EVENT),
	N(WAIT_EVENTS),
	N(DBG_REGISTER_DEPRECATED),
	N(DBG_UNREGISTER_DEPRECATED),
	N(DBG_ADDRESS_WATCH_DEPRECATED),
	N(DBG_WAVE_CONTROL_DEPRECATED),
	N(SET_SCRATCH_BACKING_VA),
	N(GET_TILE_CONFIG),
	N(SET_TRAP_HANDLER),
	N(GET_PROCESS_APERTURES_NEW),
	N(ACQUIRE_VM),
	N(ALLOC_MEMORY_OF_GPU),
	N(FREE_MEMORY_OF_GPU),
	N(MAP_MEMORY_TO_GPU),
	N(UNMAP_MEMORY_FROM_GPU),
	N(SET_CU_MASK),
	N(GET_QUEUE_WAVE_STATE),
	N(GET_DMABUF_INFO),
	N(IMPORT_DMABUF),
	N(ALLOC_QUEUE_GWS),
	N(SMI_EVENTS),
	N(SVM),
	N(SET_XNACK_MODE),
	N(CRIU_OP),
	N(AVAILABLE_MEMORY),
	N(EXPORT_DMABUF),
	N(RUNTIME_ENABLE),
	N(DBG_TRAP),
	N(CREATE_PROCESS),
	N(PROFILER),
#undef N
};

/* The arguments as they are after the call; the caller's memory may be anything. */
static void kfd_args(unsigned nr, uint64_t arg, unsigned size, char *out, size_t n)
{
	union {
		char raw[512];
		struct kfd_ioctl_get_version_args version;
		struct kfd_ioctl_create_queue_args queue;
		struct kfd_ioctl_update_queue_args update;
		struct kfd_ioctl_create_event_args event;
		struct kfd_ioctl_destroy_event_args id;
		struct kfd_ioctl_wait_events_args wait;
		struct kfd_ioctl_alloc_memory_of_gpu_args alloc;
		struct kfd_ioctl_map_memory_to_gpu_args map;
		struct kfd_ioctl_free_memory_of_gpu_args free;
		struct kfd_ioctl_acquire_vm_args acquire;
		struct kfd_ioctl_set_memory_policy_args policy;
		struct kfd_ioctl_set_trap_handler_args trap;
		struct kfd_ioctl_set_scratch_backing_va_args scratch;
		struct kfd_ioctl_runtime_enable_args runtime;
		struct kfd_ioctl_get_available_memory_args avail;
		struct kfd_ioctl_smi_events_args smi;
		struct kfd_ioctl_svm_args svm;
		struct kfd_ioctl_get_process_apertures_new_args apertures;
		struct kfd_ioctl_get_queue_wave_state_args wave;
	} a;

	memset(&a, 0, sizeof(a));
	out[0] = 0;
	if (!size || user_read(&a, arg, size < sizeof(a) ? size : sizeof(a)))
		return;
	switch (nr) {
	case KFD_NR_GET_VERSION:
		snprintf(out, n, "%u.%u", a.version.major_version, a.version.minor_version);
		break;
	case KFD_NR_CREATE_QUEUE:
		snprintf(out, n,
			 "type=%u ring=%s size=0x%x rptr=%s wptr=%s eop=%s/0x%llx cwsr=%s/0x%x "
			 "ctl=0x%x pct=%u prio=%u gpu=%u id=%u doorbell=0x%llx",
			 a.queue.queue_type, trace_addr(a.queue.ring_base_address),
			 a.queue.ring_size, trace_addr(a.queue.read_pointer_address),
			 trace_addr(a.queue.write_pointer_address),
			 trace_addr(a.queue.eop_buffer_address), U(a.queue.eop_buffer_size),
			 trace_addr(a.queue.ctx_save_restore_address),
			 a.queue.ctx_save_restore_size, a.queue.ctl_stack_size,
			 a.queue.queue_percentage, a.queue.queue_priority, a.queue.gpu_id,
			 a.queue.queue_id, U(a.queue.doorbell_offset));
		break;
	case KFD_NR_UPDATE_QUEUE:
		snprintf(out, n, "id=%u ring=%s size=0x%x pct=%u prio=%u", a.update.queue_id,
			 trace_addr(a.update.ring_base_address), a.update.ring_size,
			 a.update.queue_percentage, a.update.queue_priority);
		break;
	case KFD_NR_CREATE_EVENT:
		snprintf(out, n, "type=%u auto=%u id=%u slot=%u page=0x%llx", a.event.event_type,
			 a.event.auto_reset, a.event.event_id, a.event.event_slot_index,
			 U(a.event.event_page_offset));
		break;
	case KFD_NR_DESTROY_QUEUE:
	case KFD_NR_DESTROY_EVENT:
	case KFD_NR_SET_EVENT:
	case KFD_NR_RESET_EVENT:
		snprintf(out, n, "id=%u", a.id.event_id);
		break;
	case KFD_NR_WAIT_EVENTS:
		snprintf(out, n, "n=%u all=%u result=%u", a.wait.num_events, a.wait.wait_for_all,
			 a.wait.wait_result);
		break;
	case KFD_NR_ALLOC_MEMORY_OF_GPU:
		snprintf(out, n,
			 "va=%s size=0x%llx flags=0x%08x gpu=%u handle=0x%llx offset=0x%llx",
			 name_range(a.alloc.va_addr, a.alloc.size), U(a.alloc.size), a.alloc.flags,
			 a.alloc.gpu_id, U(a.alloc.handle), U(a.alloc.mmap_offset));
		break;
	case KFD_NR_MAP_MEMORY_TO_GPU:
	case KFD_NR_UNMAP_MEMORY_FROM_GPU:
		snprintf(out, n, "handle=0x%llx n=%u success=%u", U(a.map.handle), a.map.n_devices,
			 a.map.n_success);
		break;
	case KFD_NR_FREE_MEMORY_OF_GPU:
		snprintf(out, n, "handle=0x%llx", U(a.free.handle));
		break;
	case KFD_NR_ACQUIRE_VM: {
		struct vfile *v = vfd_get((int)a.acquire.drm_fd);

		snprintf(out, n, "fd=%s gpu=%u", v ? trace_file(v) : "other", a.acquire.gpu_id);
		if (v)
			vfile_put(v);
		break;
	}
	case KFD_NR_SET_MEMORY_POLICY:
		snprintf(out, n, "gpu=%u default=%u alternate=%u", a.policy.gpu_id,
			 a.policy.default_policy, a.policy.alternate_policy);
		break;
	case KFD_NR_SET_TRAP_HANDLER:
		snprintf(out, n, "gpu=%u tba=%s tma=%s", a.trap.gpu_id, trace_addr(a.trap.tba_addr),
			 trace_addr(a.trap.tma_addr));
		break;
	case KFD_NR_SET_SCRATCH_BACKING_VA:
		snprintf(out, n, "gpu=%u va=%s", a.scratch.gpu_id, trace_addr(a.scratch.va_addr));
		break;
	case KFD_NR_RUNTIME_ENABLE:
		snprintf(out, n, "mode=0x%x r_debug=%s", a.runtime.mode_mask,
			 a.runtime.r_debug ? "set" : "0");
		break;
	case KFD_NR_AVAILABLE_MEMORY:
		snprintf(out, n, "gpu=%u available=%llu", a.avail.gpu_id, U(a.avail.available));
		break;
	case KFD_NR_GET_CLOCK_COUNTERS:
		snprintf(out, n, "~");
		break;
	case KFD_NR_SMI_EVENTS:
		snprintf(out, n, "gpu=%u", a.smi.gpuid);
		break;
	case KFD_NR_SVM:
		snprintf(out, n, "start=%s size=0x%llx op=%u n=%u",
			 name_range(a.svm.start_addr, a.svm.size), U(a.svm.size), a.svm.op,
			 a.svm.nattr);
		break;
	case KFD_NR_GET_PROCESS_APERTURES_NEW:
		snprintf(out, n, "nodes=%u", a.apertures.num_of_nodes);
		break;
	case KFD_NR_GET_QUEUE_WAVE_STATE:
		snprintf(out, n, "id=%u ctl_used=0x%x save_used=0x%x", a.wave.queue_id,
			 a.wave.ctl_stack_used_size, a.wave.save_area_used_size);
		break;
	}
}

static void drm_args(unsigned nr, uint64_t arg, unsigned size, char *out, size_t n)
{
	struct drm_amdgpu_info info;

	out[0] = 0;
	if (nr != DRM_COMMAND_BASE + DRM_AMDGPU_INFO || size < sizeof(info) ||
	    user_read(&info, arg, sizeof(info)))
		return;
	snprintf(out, n, "INFO query=0x%x size=%u", info.query, info.return_size);
}

void trace_ioctl(const struct vfile *v, unsigned cmd, const void *arg, long ret)
{
	unsigned nr = _IOC_NR(cmd);
	char args[512];

	if (!trace_on())
		return;
	if (v->kind == VFILE_KFD) {
		const char *name = nr < KFD_NR_END ? kfd_names[nr] : NULL;

		kfd_args(nr, (uintptr_t)arg, _IOC_SIZE(cmd), args, sizeof(args));
		trace_line("ioctl %s %s(0x%08x) %s = %s", trace_file(v), name ? name : "?", cmd,
			   args, trace_result(ret));
		return;
	}
	drm_args(nr, (uintptr_t)arg, _IOC_SIZE(cmd), args, sizeof(args));
	trace_line("ioctl %s 0x%02x(0x%08x) %s = %s", trace_file(v), nr, cmd, args,
		   trace_result(ret));
}

/* Calls that were interrupted, or found nothing yet, are not refused. */
static bool is_refusal(long ret)
{
	return ret < 0 && ret > -4096 && ret != -EINTR && ret != -EAGAIN;
}

void log_refused_ioctl(const struct vfile *v, unsigned cmd, const void *arg, long ret)
{
	unsigned nr = _IOC_NR(cmd);
	const char *name = NULL, *why = NULL;
	char args[512] = "", number[16];

	if (!is_refusal(ret) || !vgpu_log_on())
		return;
	if (v->kind == VFILE_KFD) {
		name = nr < KFD_NR_END ? kfd_names[nr] : NULL;
		why = kfd_why(nr, (int)-ret);
		in_full = true;
		kfd_args(nr, (uintptr_t)arg, _IOC_SIZE(cmd), args, sizeof(args));
		in_full = false;
	} else if (v->kind == VFILE_DRM) {
		drm_args(nr, (uintptr_t)arg, _IOC_SIZE(cmd), args, sizeof(args));
		if (!drm_has(nr))
			why = "this device has the render node's buffers (GEM, PRIME, VA), INFO, "
			      "submission to compute and SDMA rings, and synchronisation objects "
			      "without descriptors";
	}
	snprintf(number, sizeof(number), "0x%02x", nr);
	vgpu_log("refused: ioctl %s %s %s: %s%s%s", trace_file(v), name ? name : number, args,
		 trace_result(ret), why ? ": " : "", why ? why : "");
}

void log_refused_mmap(const struct vfile *v, size_t len, int prot, int64_t off, int err)
{
	if (!vgpu_log_on())
		return;
	vgpu_log("refused: mmap %s, %zu bytes, protection %d, offset 0x%llx: %s%s%s", trace_file(v),
		 len, prot, (unsigned long long)off, trace_result(-err),
		 v->kind == VFILE_KFD ? ": " : "",
		 v->kind == VFILE_KFD ? kfd_why_mmap((uint64_t)off) : "");
}
