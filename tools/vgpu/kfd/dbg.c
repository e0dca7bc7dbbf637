/* RUNTIME_ENABLE, DBG_TRAP, CRIU_OP, PROFILER and what else belongs to debuggers.
 *
 * The checks and the state machine are the kernel's (kfd_chardev.c:kfd_ioctl_set_debug_trap,
 * kfd_debug.c); a process debugs itself or one that it traces. What is done to waves and queues is in
 * dbg_waves.c.
 */
#include "dbg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ownfd.h"
#include "vm/rawsys.h"

#define QUEUE_CODES_END  32 /* exception codes below are a queue's */
#define DEVICE_CODES_END 48
/* 1 to 6, 16 to 23, 30 and 31 of queues; 32 to 36 of devices; 48 and 49 of processes. */
#define KNOWN_CODES (0x607f803full | 0x1full << 31 | 3ull << 47)

KFD_HANDLER(dbg_deprecated)
{
	(void)p;
	(void)args;
	return -EPERM;
}

/* Tells a debugger of the runtime's coming or going and waits until it has taken notice. Process
 * lock held, given up meanwhile. */
static int runtime_event(struct kfd_process *p)
{
	struct dbg_state *d = p->dbg;
	int err;

	if (!d->retry)
		dbg_raise(p, NULL, KFD_EC_MASK(EC_PROCESS_RUNTIME), NULL);
	pthread_mutex_unlock(&p->lock);
	err = dbg_wait_release(d);
	pthread_mutex_lock(&p->lock);
	dbg_lock(d);
	dbg_abandoned(p, d);
	dbg_unlock(d);
	d->retry = err != 0;
	return err;
}

static int runtime_start(struct kfd_process *p, const struct kfd_ioctl_runtime_enable_args *a)
{
	struct dbg_state *d = p->dbg;

	if (!d->retry) {
		if (d->runtime.runtime_state != DEBUG_RUNTIME_STATE_DISABLED)
			return -EBUSY;
		if (p->pdd.queue_count && vgpu_rule(RULE_runtime_before_queues))
			return -EEXIST;
		d->runtime.runtime_state = DEBUG_RUNTIME_STATE_ENABLED;
		d->runtime.r_debug = a->r_debug;
		d->runtime.ttmp_setup =
			(a->mode_mask & KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK) != 0;
	}
	if (!d->enabled)
		return 0;
	if (!d->retry)
		dbg_activate(d);
	return runtime_event(p);
}

static int runtime_end(struct kfd_process *p)
{
	struct dbg_state *d = p->dbg;
	bool was_enabled = d->runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED;
	int err;

	d->runtime.runtime_state = DEBUG_RUNTIME_STATE_DISABLED;
	d->runtime.r_debug = 0;
	if (d->enabled && was_enabled)
		dbg_deactivate(p, d);
	err = d->enabled ? runtime_event(p) : 0;
	if (!err)
		d->runtime.ttmp_setup = 0;
	return err;
}

KFD_HANDLER(runtime_enable)
{
	struct kfd_ioctl_runtime_enable_args *a = args;
	long err;

	pthread_mutex_lock(&p->lock);
	err = a->mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK ? runtime_start(p, a)
								 : runtime_end(p);
	/* From here on a debugger may stop queues. */
	if (!err && kfd_runtime_enabled(p) && dbg_serve(p))
		vgpu_log("vgpu: no thread to serve a debugger of process %d", p->lead);
	pthread_mutex_unlock(&p->lock);
	return err;
}

bool kfd_runtime_enabled(const struct kfd_process *p)
{
	return p->dbg->runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED;
}

bool dbg_enabled(const struct kfd_process *p)
{
	return __atomic_load_n(&p->dbg->enabled, __ATOMIC_RELAXED);
}

void dbg_gws(struct kfd_process *p, bool has)
{
	p->dbg->gws = has;
}

const struct cp_debug *dbg_device_sees(const struct kfd_process *p)
{
	return &p->dbg->device_sees;
}

bool kfd_runtime_ttmps(const struct kfd_process *p)
{
	return p->dbg->runtime.ttmp_setup;
}

/* ---- queues and exceptions ------------------------------------------------ */

void dbg_queue_changed(struct kfd_process *p, const struct kfd_queue *q)
{
	struct dbg_state *d = p->dbg;
	struct kfd_queue_snapshot_entry *s = &d->queue[q->id].s;
	bool is_new;

	dbg_lock(d);
	is_new = !d->queue[q->id].live;
	d->queue[q->id].live = true;
	if (is_new)
		d->queue[q->id].born = ++d->births;
	*s = (struct kfd_queue_snapshot_entry){
		.exception_status = is_new ? KFD_EC_MASK(EC_QUEUE_NEW) : s->exception_status,
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
	dbg_unlock(d);
	if (is_new)
		dbg_raise(p, q, KFD_EC_MASK(EC_QUEUE_NEW), NULL);
}

void dbg_queue_gone(struct kfd_process *p, const struct kfd_queue *q)
{
	dbg_lock(p->dbg);
	p->dbg->queue[q->id].live = false;
	dbg_unlock(p->dbg);
}

int dbg_next_queue(const struct dbg_state *d, uint64_t *born)
{
	int best = -1;

	for (int i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++) {
		if (d->queue[i].live && d->queue[i].born < *born &&
		    (best < 0 || d->queue[i].born > d->queue[best].born))
			best = i;
	}
	if (best >= 0)
		*born = d->queue[best].born;
	return best;
}

bool dbg_raise(struct kfd_process *p, const struct kfd_queue *q, uint64_t mask,
	       const struct kfd_hsa_memory_exception_data *fault)
{
	struct dbg_state *d = p->dbg;
	bool taken = false;

	dbg_lock(d);
	if (d->enabled) {
		if (q)
			d->queue[q->id].s.exception_status |= mask;
		else if (mask < KFD_EC_MASK(DEVICE_CODES_END))
			d->device |= mask;
		else
			d->process |= mask;
		/* The first fault is the one that is kept. */
		if (fault && !d->fault_known) {
			d->fault = *fault;
			d->fault_known = true;
		}
		taken = d->wanted & mask && !dbg_abandoned(p, d);
		if (taken)
			dbg_wake(d);
	}
	dbg_unlock(d);
	return taken;
}

/* ---- DBG_TRAP ------------------------------------------------------------- */

static int dbg_enable(struct kfd_process *p, struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t n = a->enable.rinfo_size;
	long fd;

	if (d->enabled)
		return -EALREADY;
	/* No GWS for debugged processes on gfx11 (kfd_dbg_has_gws_support). */
	if (d->gws)
		return -EBUSY;
	if (n > sizeof(d->runtime))
		n = sizeof(d->runtime);
	fd = vgpu_files.fd_valid((int)a->enable.dbg_fd) ? own_fd_copy((int)a->enable.dbg_fd)
							: -EBADF;
	if (fd < 0)
		return -EBADF;
	if (d->runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED)
		dbg_activate(d);
	a->enable.rinfo_size = sizeof(d->runtime);
	if (user_write(a->enable.rinfo_ptr, &d->runtime, n)) {
		own_fd_close((int)fd);
		dbg_deactivate(p, d);
		return -EFAULT;
	}
	d->event_fd = (int)fd;
	d->debugger = getpid();
	d->wanted = a->enable.exception_mask;
	d->enabled = true;
	return 0;
}

/* Locked. */
static void dbg_disable(struct kfd_process *p, struct dbg_state *d)
{
	/* Where the runtime is not, there is nothing to undo; where it failed it may try again. */
	if (d->runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED)
		dbg_deactivate(p, d);
	else if (d->runtime.runtime_state != DEBUG_RUNTIME_STATE_DISABLED)
		d->runtime.runtime_state = DEBUG_RUNTIME_STATE_ENABLED;
	if (d->debugger == getpid())
		own_fd_close(d->event_fd);
	d->enabled = false;
	d->debugger = d->allowed = 0;
	d->wanted = d->process = d->device = 0;
	d->fault_known = false;
	for (unsigned i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++)
		d->queue[i].s.exception_status = 0;
}

bool dbg_abandoned(struct kfd_process *p, struct dbg_state *d)
{
	if (!d->enabled || d->debugger == getpid() || !dbg_is_gone(d->debugger))
		return false;
	dbg_disable(p, d);
	return true;
}

static void dbg_subscribe(struct dbg_state *d, uint64_t mask)
{
	uint64_t found = d->process | d->device;

	for (unsigned i = 0; i < KFD_MAX_QUEUES_PER_PROCESS; i++) {
		if (d->queue[i].live)
			found |= d->queue[i].s.exception_status;
	}
	if (found & mask)
		dbg_wake(d);
	d->wanted = mask;
}

static int dbg_query_event(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	uint64_t clear = a->event.exception_mask, born = ~0ull;
	int i;

	a->event.exception_mask = 0;
	a->event.queue_id = a->event.gpu_id = 0;
	while ((i = dbg_next_queue(d, &born)) >= 0) {
		struct kfd_queue_snapshot_entry *s = &d->queue[i].s;

		if (!(s->exception_status & d->wanted))
			continue;
		a->event.exception_mask = s->exception_status;
		a->event.queue_id = (uint32_t)i;
		a->event.gpu_id = vgpu_props.gpu_id;
		s->exception_status &= ~clear;
		return 0;
	}
	if (d->device & d->wanted) {
		a->event.exception_mask = d->device;
		a->event.gpu_id = vgpu_props.gpu_id;
		d->device &= ~clear;
		return 0;
	}
	if (d->process & d->wanted) {
		a->event.exception_mask = d->process;
		d->process &= ~clear;
		return 0;
	}
	return -EAGAIN;
}

/* What belongs to an exception, cut to the room that the caller has. */
static int copy_info(struct kfd_ioctl_dbg_trap_args *a, const void *info, uint32_t size)
{
	uint32_t room = a->query_exception_info.info_size;

	a->query_exception_info.info_size = size;
	return user_write(a->query_exception_info.info_ptr, info, size < room ? size : room);
}

static int dbg_query_info(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t code = a->query_exception_info.exception_code;
	uint32_t source = a->query_exception_info.source_id;
	uint64_t *status;
	int err = 0;

	if (!a->query_exception_info.info_ptr || !code || code > 64 ||
	    !(KFD_EC_MASK(code) & KNOWN_CODES))
		return -EINVAL;
	if (code < QUEUE_CODES_END) {
		if (source >= KFD_MAX_QUEUES_PER_PROCESS || !d->queue[source].live)
			return -EINVAL;
		status = &d->queue[source].s.exception_status;
	} else if (code < DEVICE_CODES_END) {
		if (!d->devices || source != vgpu_props.gpu_id)
			return -EINVAL;
		status = &d->device;
	} else if (code == EC_PROCESS_RUNTIME || code == EC_PROCESS_DEVICE_REMOVE) {
		status = &d->process;
	} else {
		return -EINVAL;
	}
	if (!(*status & KFD_EC_MASK(code)))
		return -ENODATA;
	if (code == EC_DEVICE_MEMORY_VIOLATION && d->fault_known)
		err = copy_info(a, &d->fault,
				vgpu_kernel()->fault_info_is_empty ? 0 : sizeof(d->fault));
	else if (code == EC_PROCESS_RUNTIME)
		err = copy_info(a, &d->runtime, sizeof(d->runtime));
	else
		a->query_exception_info.info_size = 0;
	if (err)
		return err;
	if (a->query_exception_info.clear_exception) {
		*status &= ~KFD_EC_MASK(code);
		d->fault_known &= code != EC_DEVICE_MEMORY_VIOLATION;
	}
	return 0;
}

static int dbg_queue_snapshot(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t step = a->snapshot.entry_size, room = a->snapshot.num;
	uint64_t to = a->snapshot.snapshot_buf_ptr, clear = a->snapshot.exception_mask;
	uint64_t born = ~0ull;
	int i;

	a->snapshot.num = 0;
	if (!step)
		return -EINVAL;
	if (a->snapshot.entry_size > sizeof(struct kfd_queue_snapshot_entry))
		a->snapshot.entry_size = sizeof(struct kfd_queue_snapshot_entry);
	while ((i = dbg_next_queue(d, &born)) >= 0) {
		struct kfd_queue_snapshot_entry s = d->queue[i].s;

		if (a->snapshot.num < room) {
			d->queue[i].s.exception_status &= ~clear;
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

static int dbg_device_snapshot(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	const struct vgpu_props *n = &vgpu_props;
	struct device_snapshot s = {
		.exception_status = d->device,
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
	a->snapshot.num = d->devices;
	if (a->snapshot.entry_size > sizeof(s))
		a->snapshot.entry_size = sizeof(s);
	if (!room || !d->devices)
		return 0;
	d->device &= ~a->snapshot.exception_mask;
	return user_write(a->snapshot.snapshot_buf_ptr, &s, a->snapshot.entry_size);
}

/* p: the process itself when it debugs itself, NULL when d is another's. */
static int dbg_send_runtime_event(struct kfd_process *p, struct dbg_state *d,
				  const struct kfd_ioctl_dbg_trap_args *a)
{
	uint64_t mask = a->event.exception_mask;
	uint32_t queue = a->event.queue_id;

	if (mask & KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION)) {
		if (!d->devices || a->event.gpu_id != vgpu_props.gpu_id)
			return -ENODEV;
		dbg_call(p, d, DBG_CALL_FAULT, NULL, 0, 0);
	}
	if (mask & KFD_EC_MASK(EC_PROCESS_RUNTIME))
		dbg_release(d);
	mask &= ~(KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION) | KFD_EC_MASK(EC_PROCESS_RUNTIME));
	/* What is left is a queue's. */
	if (mask)
		dbg_call(p, d, DBG_CALL_EXCEPTION, &queue, 1, mask);
	return 0;
}

static long dbg_op(struct kfd_process *p, struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	dbg_abandoned(p, d);
	if (a->op != KFD_IOC_DBG_TRAP_ENABLE && !d->enabled)
		return -EINVAL;
	if (d->runtime.runtime_state != DEBUG_RUNTIME_STATE_ENABLED &&
	    a->op >= KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE &&
	    a->op <= KFD_IOC_DBG_TRAP_SET_FLAGS)
		return -EPERM;
	switch (a->op) {
	case KFD_IOC_DBG_TRAP_ENABLE:
		if (!p)
			d->allowed = getpid();
		return dbg_enable(p, d, a);
	case KFD_IOC_DBG_TRAP_DISABLE:
		dbg_disable(p, d);
		return 0;
	case KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT:
		return dbg_send_runtime_event(p, d, a);
	case KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED:
		dbg_subscribe(d, a->event.exception_mask);
		return 0;
	case KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT:
		return dbg_query_event(d, a);
	case KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO:
		return dbg_query_info(d, a);
	case KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT:
		return dbg_queue_snapshot(d, a);
	case KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT:
		return dbg_device_snapshot(d, a);
	case KFD_IOC_DBG_TRAP_SET_FLAGS:
		return dbg_set_flags(d, a);
	case KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE:
		return dbg_launch_override(d, a);
	case KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE:
		return dbg_launch_mode(d, *(const uint32_t *)a->raw);
	case KFD_IOC_DBG_TRAP_SUSPEND_QUEUES:
		return dbg_suspend_queues(p, d, a);
	case KFD_IOC_DBG_TRAP_RESUME_QUEUES:
		return dbg_resume_queues(p, d, a);
	case KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH:
		return dbg_watch_set(d, a);
	case KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH:
		return dbg_watch_clear(d, a);
	}
	return -EINVAL;
}

KFD_HANDLER(dbg_trap)
{
	struct kfd_ioctl_dbg_trap_args *a = args;
	/* By any of its threads. */
	bool self = (pid_t)a->pid == p->lead ||
		    (a->pid && !rawsys3(SYS_tgkill, getpid(), (pid_t)a->pid, 0));
	struct dbg_state *d = p->dbg;
	long err;

	if (kfd_is_secondary(p))
		return -EOPNOTSUPP;
	if (!a->pid || a->pid > INT32_MAX || (kill((pid_t)a->pid, 0) && errno == ESRCH))
		return -ESRCH;
	if (!self) {
		err = dbg_state_find((pid_t)a->pid, a->op == KFD_IOC_DBG_TRAP_ENABLE, &d);
		if (err)
			return err;
	}
	pthread_mutex_lock(&p->lock);
	dbg_lock(d);
	if (!self)
		kfd_lock_lend(p);
	err = dbg_op(self ? p : NULL, d, a);
	if (!self)
		kfd_lock_reclaim(p);
	dbg_unlock(d);
	pthread_mutex_unlock(&p->lock);
	if (!self)
		dbg_state_close(d);
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

static int criu_restore(struct kfd_process *p, const struct kfd_ioctl_criu_args *a)
{
	struct criu_process_priv head;
	int err;

	if ((a->num_bos && !a->bos) || !a->devices || !a->priv_data || !a->priv_data_size ||
	    !a->num_devices)
		return -EINVAL;
	/* No new queue may run too early. What fails from here on leaves it so. */
	err = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_RESTORE);
	if (err)
		return err;
	if (a->priv_data_size < sizeof(head))
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
		err = criu_restore(p, a);
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

static bool capable_perfmon(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	if (rawsys2(SYS_capget, &h, d))
		return false;
	return (d[0].effective >> CAP_SYS_ADMIN & 1) ||
	       (d[CAP_PERFMON / 32].effective >> CAP_PERFMON % 32 & 1);
}

/* One lock per device. */
static int profiler_lock(struct kfd_process *p, bool want)
{
	int err = 0;

	pthread_mutex_lock(&kfd_device.lock);
	if (want && kfd_device.profiler)
		err = kfd_device.profiler == p ? -EALREADY : -EBUSY;
	else if (!want && kfd_device.profiler != p)
		err = -EINVAL;
	else
		kfd_device.profiler = want ? p : NULL;
	pthread_mutex_unlock(&kfd_device.lock);
	return err;
}

void kfd_profiler_drop(struct kfd_process *p)
{
	pthread_mutex_lock(&kfd_device.lock);
	if (kfd_device.profiler == p)
		kfd_device.profiler = NULL;
	pthread_mutex_unlock(&kfd_device.lock);
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
		return profiler_lock(p, a->pmc.lock);
	case OP_PTL:
		return kfd_pdd_by_id(p, a->ptl.gpu_id) ? -EOPNOTSUPP : -EINVAL;
	}
	return -EINVAL;
}
