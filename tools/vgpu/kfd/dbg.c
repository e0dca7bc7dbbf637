/* RUNTIME_ENABLE, DBG_TRAP, CRIU_OP, PROFILER and what else belongs to debuggers.
 *
 * A process may debug itself; the checks and the state machine are the kernel's
 * (kfd_chardev.c:kfd_ioctl_set_debug_trap, kfd_debug.c). Suspending and resuming queues, wave
 * launch control and watch points need the waves and are refused as an unsupported operation.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/rawsys.h"

#define QUEUE_CODES_END  32 /* exception codes below are a queue's */
#define DEVICE_CODES_END 48

KFD_HANDLER(dbg_deprecated)
{
	(void)p;
	(void)args;
	return -EPERM;
}

KFD_HANDLER(runtime_enable)
{
	struct kfd_ioctl_runtime_enable_args *a = args;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	if (a->mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK) {
		if (p->runtime.runtime_state != DEBUG_RUNTIME_STATE_DISABLED) {
			err = -EBUSY;
		} else if (p->pdd.queue_count && vgpu_rule(RULE_runtime_before_queues)) {
			err = -EEXIST;
		} else {
			p->runtime.runtime_state = DEBUG_RUNTIME_STATE_ENABLED;
			p->runtime.r_debug = a->r_debug;
			p->runtime.ttmp_setup =
				(a->mode_mask & KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK) != 0;
		}
	} else {
		p->runtime.runtime_state = DEBUG_RUNTIME_STATE_DISABLED;
		p->runtime.r_debug = 0;
		p->runtime.ttmp_setup = 0;
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* ---- DBG_TRAP ------------------------------------------------------------- */

bool dbg_raise(struct kfd_process *p, struct kfd_queue *q, uint64_t mask)
{
	q->exceptions |= mask;
	if (!p->debug_enabled || !(p->dbg_exceptions & mask))
		return false;
	rawsys3(SYS_write, p->dbg_fd, ".", 1);
	return true;
}

static int dbg_enable(struct kfd_process *p, struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t n = a->enable.rinfo_size;
	long fd;

	if (p->debug_enabled)
		return -EALREADY;
	if (n > sizeof(p->runtime))
		n = sizeof(p->runtime);
	fd = rawsys3(SYS_fcntl, (int)a->enable.dbg_fd, F_DUPFD_CLOEXEC, 1000);
	if (fd < 0)
		return -EBADF;
	a->enable.rinfo_size = sizeof(p->runtime);
	if (user_write(a->enable.rinfo_ptr, &p->runtime, n)) {
		rawsys1(SYS_close, fd);
		return -EFAULT;
	}
	p->dbg_fd = (int)fd;
	p->debug_enabled = true;
	p->dbg_exceptions = a->enable.exception_mask;
	return 0;
}

static int dbg_query_event(struct kfd_process *p, struct kfd_ioctl_dbg_trap_args *a)
{
	uint64_t clear = a->event.exception_mask;

	a->event.exception_mask = 0;
	a->event.queue_id = a->event.gpu_id = 0;
	for (unsigned i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++) {
		struct kfd_queue *q = p->queues[i];

		if (!q || !(q->exceptions & p->dbg_exceptions))
			continue;
		a->event.exception_mask = q->exceptions;
		a->event.queue_id = q->id;
		a->event.gpu_id = vgpu_props.gpu_id;
		q->exceptions &= ~clear;
		return 0;
	}
	return -EAGAIN;
}

static int dbg_query_info(struct kfd_process *p, struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t code = a->query_exception_info.exception_code;
	uint32_t n = a->query_exception_info.info_size;
	struct kfd_queue *q;

	if (!a->query_exception_info.info_ptr || !code || code > 64)
		return -EINVAL;
	if (code < QUEUE_CODES_END) {
		q = kfd_queue_by_id(p, a->query_exception_info.source_id);
		if (!q)
			return -EINVAL;
		if (!(q->exceptions & KFD_EC_MASK(code)))
			return -ENODATA;
		if (a->query_exception_info.clear_exception)
			q->exceptions &= ~KFD_EC_MASK(code);
		a->query_exception_info.info_size = 0;
		return 0;
	}
	if (code < DEVICE_CODES_END)
		return kfd_pdd_by_id(p, a->query_exception_info.source_id) ? -ENODATA : -EINVAL;
	if (code != EC_PROCESS_RUNTIME)
		return code == EC_PROCESS_DEVICE_REMOVE ? -ENODATA : -EINVAL;
	(void)n;
	return -ENODATA;
}

struct queue_snapshot {
	uint64_t exception_status, ring_base_address, write_pointer_address, read_pointer_address,
		ctx_save_restore_address;
	uint32_t queue_id, gpu_id, ring_size, queue_type, ctx_save_restore_area_size, reserved;
};
_Static_assert(sizeof(struct queue_snapshot) == 64, "kfd_queue_snapshot_entry");

static int dbg_queue_snapshot(struct kfd_process *p, struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t step = a->snapshot.entry_size, room = a->snapshot.num;
	uint64_t to = a->snapshot.snapshot_buf_ptr, clear = a->snapshot.exception_mask;

	a->snapshot.num = 0;
	if (!step)
		return -EINVAL;
	if (a->snapshot.entry_size > sizeof(struct queue_snapshot))
		a->snapshot.entry_size = sizeof(struct queue_snapshot);
	for (unsigned i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++) {
		struct kfd_queue *q = p->queues[i];

		if (!q)
			continue;
		if (a->snapshot.num < room) {
			struct queue_snapshot s = {
				.exception_status = q->exceptions,
				.ring_base_address = q->ring_va,
				.write_pointer_address = q->mqd.wptr.a,
				.read_pointer_address = q->mqd.rptr.a,
				.ctx_save_restore_address = q->cwsr_va,
				.queue_id = q->id,
				.gpu_id = vgpu_props.gpu_id,
				.ring_size = q->ring_size,
				.queue_type = q->user_type,
				.ctx_save_restore_area_size = q->cwsr_size,
			};

			q->exceptions &= ~clear;
			if (user_write(to, &s, a->snapshot.entry_size))
				return -EFAULT;
			to += step;
		}
		a->snapshot.num++;
	}
	return 0;
}

struct device_snapshot {
	uint64_t exception_status, lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base,
		gpuvm_limit;
	uint32_t gpu_id, location_id, vendor_id, device_id, revision_id, subsystem_vendor_id,
		subsystem_device_id, fw_version, gfx_target_version, simd_count, max_waves_per_simd,
		array_count, simd_arrays_per_engine, num_xcc, capability, debug_prop;
};

static int dbg_device_snapshot(struct kfd_process *p, struct kfd_ioctl_dbg_trap_args *a)
{
	const struct vgpu_props *n = &vgpu_props;
	struct device_snapshot s = {
		.lds_base = n->lds_base,
		.lds_limit = n->lds_limit,
		.scratch_base = n->scratch_base,
		.scratch_limit = n->scratch_limit,
		.gpuvm_base = n->gpuvm_base,
		.gpuvm_limit = n->gpuvm_limit,
		.gpu_id = n->gpu_id,
		.location_id = n->location_id,
		.vendor_id = n->vendor_id,
		.device_id = n->device_id,
		.revision_id = n->pci_rev,
		.subsystem_vendor_id = vgpu_config.subsystem & 0xffff,
		.subsystem_device_id = vgpu_config.subsystem >> 16,
		.fw_version = vgpu_config.mec_version,
		.gfx_target_version = n->gfx_target_version,
		.simd_count = n->cus * 2,
		.max_waves_per_simd = 16,
		.array_count = n->ses * n->shs_per_se,
		.simd_arrays_per_engine = n->shs_per_se,
		.num_xcc = 1,
		.capability = n->capability,
		.debug_prop = n->debug_prop,
	};
	uint32_t room = a->snapshot.num;

	if (!a->snapshot.snapshot_buf_ptr)
		return -EINVAL;
	a->snapshot.num = p->n_pdds;
	if (a->snapshot.entry_size > sizeof(s))
		a->snapshot.entry_size = sizeof(s);
	if (!room || !p->n_pdds)
		return 0;
	return user_write(a->snapshot.snapshot_buf_ptr, &s, a->snapshot.entry_size);
}

static int dbg_send_runtime_event(struct kfd_process *p, struct kfd_ioctl_dbg_trap_args *a)
{
	if (a->event.exception_mask & KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION)) {
		struct kfd_hsa_memory_exception_data data = {.gpu_id = vgpu_props.gpu_id};

		if (!kfd_pdd_by_id(p, a->event.gpu_id))
			return -ENODEV;
		kfd_process_evict_queues(p, -1);
		kfd_event_memory_exception(p, &data);
	}
	return 0;
}

KFD_HANDLER(dbg_trap)
{
	struct kfd_ioctl_dbg_trap_args *a = args;
	long err = 0;

	if (!a->pid || a->pid > INT32_MAX || (kill((pid_t)a->pid, 0) && errno == ESRCH))
		return -ESRCH;
	/* In this process there is one KFD process: its own. */
	if ((pid_t)a->pid != p->lead)
		return -ESRCH;
	pthread_mutex_lock(&p->lock);
	if (a->op != KFD_IOC_DBG_TRAP_ENABLE && !p->debug_enabled) {
		err = -EINVAL;
		goto out;
	}
	if (p->runtime.runtime_state != DEBUG_RUNTIME_STATE_ENABLED &&
	    a->op >= KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE &&
	    a->op <= KFD_IOC_DBG_TRAP_SET_FLAGS) {
		err = -EPERM;
		goto out;
	}
	switch (a->op) {
	case KFD_IOC_DBG_TRAP_ENABLE:
		err = dbg_enable(p, a);
		break;
	case KFD_IOC_DBG_TRAP_DISABLE:
		rawsys1(SYS_close, p->dbg_fd);
		p->dbg_fd = -1;
		p->debug_enabled = false;
		p->dbg_exceptions = 0;
		break;
	case KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT:
		err = dbg_send_runtime_event(p, a);
		break;
	case KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED:
		p->dbg_exceptions = a->event.exception_mask;
		break;
	case KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT:
		err = dbg_query_event(p, a);
		break;
	case KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO:
		err = dbg_query_info(p, a);
		break;
	case KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT:
		err = dbg_queue_snapshot(p, a);
		break;
	case KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT:
		err = dbg_device_snapshot(p, a);
		break;
	case KFD_IOC_DBG_TRAP_SET_FLAGS:
		/* Flag bits 0 and 1 need capabilities that this part lacks. */
		err = *(uint32_t *)a->raw & 3 ? -EACCES : 0;
		*(uint32_t *)a->raw = 0;
		break;
	case KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE:
	case KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE:
	case KFD_IOC_DBG_TRAP_SUSPEND_QUEUES:
	case KFD_IOC_DBG_TRAP_RESUME_QUEUES:
	case KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH:
	case KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH:
		err = -EOPNOTSUPP;
		break;
	default:
		err = -EINVAL;
	}
out:
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* ---- CRIU_OP -------------------------------------------------------------- */

/* The private blob that a checkpoint would have: a word per object is what we promise. */
#define CRIU_PRIV_OBJECT 64

static void criu_counts(struct kfd_process *p, struct kfd_ioctl_criu_args *a)
{
	uint32_t bos = 0;

	for (struct kfd_bo *bo = p->pdd.bo_list; bo; bo = bo->next)
		bos += !bo->va || bo->va > vgpu_props.gpuvm_base;
	a->num_devices = p->n_pdds;
	a->num_bos = bos;
	a->num_objects = p->n_queues + kfd_event_count(p) + svm_range_count(p);
	a->priv_data_size = CRIU_PRIV_OBJECT * (1ull + a->num_devices + bos + a->num_objects);
}

/* kfd_criu_process_priv_data, the blob's head, and the version it must have. */
struct criu_process_priv {
	uint32_t version, xnack_mode;
};
#define CRIU_PRIV_VERSION 1

static int criu_restore(const struct kfd_ioctl_criu_args *a)
{
	struct criu_process_priv head;

	if ((a->num_bos && !a->bos) || !a->devices || !a->priv_data || !a->priv_data_size ||
	    !a->num_devices || a->priv_data_size < sizeof(head))
		return -EINVAL;
	if (user_read(&head, a->priv_data, sizeof(head)))
		return -EFAULT;
	if (head.version != CRIU_PRIV_VERSION)
		return -EINVAL;
	if (head.xnack_mode)
		return -EPERM;
	/* No checkpoint of ours exists, so neither number nor identity of its devices can match. */
	return -EINVAL;
}

KFD_HANDLER(criu_op)
{
	struct kfd_ioctl_criu_args *a = args;
	long err = 0;

	pthread_mutex_lock(&p->lock);
	switch (a->op) {
	case KFD_CRIU_OP_PROCESS_INFO:
		if (!p->n_pdds) {
			err = -ENODEV;
			break;
		}
		if (!p->criu_paused)
			err = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
		if (err)
			break;
		p->criu_paused = true;
		a->pid = (uint32_t)p->lead;
		criu_counts(p, a);
		break;
	case KFD_CRIU_OP_UNPAUSE:
		if (!p->criu_paused) {
			err = -EINVAL;
			break;
		}
		err = kfd_process_restore_queues(p);
		p->criu_paused = err != 0;
		break;
	case KFD_CRIU_OP_CHECKPOINT:
		if (!a->devices || !a->bos || !a->priv_data) {
			err = -EINVAL;
		} else if (!p->n_pdds) {
			err = -ENODEV;
		} else {
			/* Nothing here can be written out yet: the refusal of a kernel whose
			 * queues are not paused. */
			err = -EINVAL;
		}
		break;
	case KFD_CRIU_OP_RESTORE:
		err = criu_restore(a);
		break;
	case KFD_CRIU_OP_RESUME:
		err = (pid_t)a->pid == p->lead ? 0 : -ESRCH;
		break;
	default:
		err = -EINVAL;
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* ---- newer interfaces ----------------------------------------------------- */

KFD_HANDLER(create_process)
{
	(void)p;
	(void)args;
	/* Secondary process objects are not offered: the kernel's answer when it cannot make one.
	 */
	return -ENOMEM;
}

static bool capable_perfmon(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	if (rawsys2(SYS_capget, &h, d))
		return false;
	return (d[0].effective >> CAP_SYS_ADMIN & 1) ||
	       (d[CAP_PERFMON / 32].effective >> CAP_PERFMON % 32 & 1);
}

KFD_HANDLER(profiler)
{
	enum { OP_PMC = 0, OP_VERSION = 2, OP_PTL = 3 };
	struct kfd_ioctl_profiler_args *a = args;

	switch (a->op) {
	case OP_VERSION:
		a->version = 1;
		return 0;
	case OP_PMC:
		if (!capable_perfmon())
			return -EPERM;
		if (!kfd_pdd_by_id(p, a->pmc.gpu_id) || a->pmc.lock > 1)
			return -EINVAL;
		/* One lock per device; in this process there is one that could hold it. */
		if (a->pmc.lock && p->profiler_lock)
			return -EALREADY;
		if (!a->pmc.lock && !p->profiler_lock)
			return -EINVAL;
		p->profiler_lock = a->pmc.lock != 0;
		return 0;
	case OP_PTL:
		return kfd_pdd_by_id(p, a->ptl.gpu_id) ? -EOPNOTSUPP : -EINVAL;
	}
	return -EINVAL;
}
