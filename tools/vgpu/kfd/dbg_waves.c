/* What a debugger does to waves and queues: launch overrides and modes, suspending and resuming
 * (kfd_debug.c, amdgpu_amdkfd_gfx_v11.c, kfd_device_queue_manager.c:suspend_queues).
 *
 * The device reads dbg_state.device_sees, also when it is another process's: it lies in the memory
 * that both share. Another process's queues are stopped by that process (dbg_call.c).
 */
#include "dbg.h"

#include <errno.h>

#include "share/share.h"

enum {
	MASK_EXCEPTIONS = 0x1ff,            /* KFD_DBG_TRAP_MASK_FP_* to _DBG_MEMORY_VIOLATION */
	MASK_TRAP_ON_WAVE_START = 1u << 30, /* from GC 11.0.4 on */
	MASK_SUPPORTED = (int)(MASK_EXCEPTIONS | 3u << 30),
};
#define MASK_TRAP_ON_WAVE_END (1u << 31)
#define OVERRIDE_BITS                                                                              \
	(0x1ffu << CP_DBG_EXCP_EN_SHIFT | CP_DBG_EXCP_REPLACE | CP_DBG_TRAP_ON_START |             \
	 CP_DBG_TRAP_ON_END)
#define QUEUE_ERROR   (1u << 30)
#define QUEUE_INVALID (1u << 31)

static uint32_t waves(const struct dbg_state *d)
{
	return __atomic_load_n(&d->device_sees.waves, __ATOMIC_RELAXED);
}

/* Pairs with the acquire in cp_dispatch_inherit(). */
static void set_waves(struct dbg_state *d, uint32_t off, uint32_t on)
{
	__atomic_store_n(&d->device_sees.waves, (waves(d) & ~off) | on, __ATOMIC_RELEASE);
}

/* ---- watch points ---------------------------------------------------------- */

/* id ~0: one that is free, else that one given back. The device's, so a daemon's that several processes
 * share, who takes back what a process had when it ends. */
static int point_of_device(struct dbg_state *d, uint32_t id, uint32_t *out)
{
	uint64_t a[SHARE_ARGS] = {(uint32_t)d->subject, id == ~0u ? ~0ull : id};
	uint32_t free = ~d->points & ((1u << CP_WATCH_POINTS) - 1);
	int err;

	if (share_active()) {
		err = share_call(SHARE_WATCH, a);
		if (err)
			return err;
		*out = (uint32_t)a[0];
		return 0;
	}
	if (id == ~0u && !free)
		return -ENOMEM;
	*out = id == ~0u ? (uint32_t)__builtin_ctz(free) : id;
	return 0;
}

static int point_clear(struct dbg_state *d, uint32_t i)
{
	if (i >= CP_WATCH_POINTS || !(d->points & 1u << i))
		return -EINVAL;
	__atomic_fetch_and(&d->device_sees.watching, ~(1u << i), __ATOMIC_RELEASE);
	__atomic_store_n(&d->device_sees.watch[i].cntl, 0, __ATOMIC_RELEASE);
	point_of_device(d, i, &i);
	d->points &= ~(1u << i);
	return 0;
}

int dbg_watch_set(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	struct cp_watch_point *p;
	uint32_t id;
	int err;

	if (!d->devices || a->set_watch.gpu_id != vgpu_props.gpu_id)
		return -ENODEV;
	a->set_watch.id = ~0u;
	err = point_of_device(d, ~0u, &id);
	if (err)
		return err;
	a->set_watch.id = id;
	d->points |= 1u << id;
	p = &d->device_sees.watch[id];
	/* What does not fit a field is cut off. */
	p->addr = a->set_watch.address & ((1ull << 48) - 1);
	/* Pairs with the acquires in cp_watching() and lanes() of cp/watch.c. */
	__atomic_store_n(&p->cntl,
			 (a->set_watch.mask >> CP_WATCH_MASK_SHIFT & CP_WATCH_MASK) |
				 (a->set_watch.mode & 3) << CP_WATCH_MODE_SHIFT | CP_WATCH_VALID,
			 __ATOMIC_RELEASE);
	__atomic_fetch_or(&d->device_sees.watching, 1u << id, __ATOMIC_RELEASE);
	return 0;
}

int dbg_watch_clear(struct dbg_state *d, const struct kfd_ioctl_dbg_trap_args *a)
{
	if (!d->devices || a->clear_watch.gpu_id != vgpu_props.gpu_id)
		return -ENODEV;
	return point_clear(d, a->clear_watch.id);
}

/* ---- waves ----------------------------------------------------------------- */

void dbg_activate(struct dbg_state *d)
{
	set_waves(d, OVERRIDE_BITS, CP_DBG_ATTACHED);
}

void dbg_deactivate(struct kfd_process *p, struct dbg_state *d)
{
	const struct kfd_ioctl_dbg_trap_args all = {0};

	if (p || d->call.server)
		dbg_resume_queues(p, d, &all);
	for (uint32_t i = 0; i < CP_WATCH_POINTS; i++)
		point_clear(d, i);
	d->flags = 0;
	set_waves(d, ~0u, 0);
}

static uint32_t override_to_hw(uint32_t mask)
{
	return (mask & MASK_EXCEPTIONS) << CP_DBG_EXCP_EN_SHIFT |
	       (mask & MASK_TRAP_ON_WAVE_START ? CP_DBG_TRAP_ON_START : 0) |
	       (mask & MASK_TRAP_ON_WAVE_END ? CP_DBG_TRAP_ON_END : 0);
}

static uint32_t override_from_hw(uint32_t hw)
{
	return (hw >> CP_DBG_EXCP_EN_SHIFT & MASK_EXCEPTIONS) |
	       (hw & CP_DBG_TRAP_ON_START ? MASK_TRAP_ON_WAVE_START : 0) |
	       (hw & CP_DBG_TRAP_ON_END ? MASK_TRAP_ON_WAVE_END : 0);
}

int dbg_launch_override(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	enum { OVERRIDE_OR, OVERRIDE_REPLACE };
	uint32_t request = a->launch_override.support_request_mask, mode, prev, now;

	mode = a->launch_override.override_mode;
	a->launch_override.support_request_mask = ~0u;
	if (!d->devices)
		return 0; /* nobody who could refuse, or have a previous mask */
	a->launch_override.support_request_mask = (uint32_t)MASK_SUPPORTED;
	if (mode > OVERRIDE_REPLACE)
		return -EPERM;
	if (request & ~(uint32_t)MASK_SUPPORTED)
		return -EACCES;
	prev = override_from_hw(waves(d));
	now = (a->launch_override.enable_mask & request) | (prev & ~request);
	set_waves(d, OVERRIDE_BITS,
		  override_to_hw(now) | (mode == OVERRIDE_REPLACE ? CP_DBG_EXCP_REPLACE : 0));
	a->launch_override.enable_mask = prev;
	return 0;
}

int dbg_launch_mode(struct dbg_state *d, uint32_t mode)
{
	enum { NORMAL = 0, HALT = 1, DEBUG = 3 };

	mode &= 0xff; /* an uint8_t on its way through the kernel */
	if (mode != NORMAL && mode != HALT && mode != DEBUG)
		return -EINVAL;
	set_waves(d, 3u << CP_DBG_LAUNCH_MODE_SHIFT, mode << CP_DBG_LAUNCH_MODE_SHIFT);
	return 0;
}

int dbg_set_flags(struct dbg_state *d, struct kfd_ioctl_dbg_trap_args *a)
{
	/* Precise memory and ALU operations, and since 1.21 LDS addresses: this part lacks them. */
	uint32_t lacking = vgpu_kernel()->kfd_minor < 21 ? 3 : 7;
	uint32_t *flags = (uint32_t *)a->raw, prev = d->flags;

	if (d->devices && *flags & lacking) {
		*flags = prev;
		return -EACCES;
	}
	d->flags = *flags;
	*flags = prev;
	return 0;
}

/* ---- queues ---------------------------------------------------------------- */

/* *out: n ids, or NULL if the caller gave none. */
static int get_ids(uint64_t user, uint32_t n, uint32_t **out)
{
	uint32_t *ids;

	*out = NULL;
	if (!user)
		return n ? -EINVAL : 0;
	if (n > KFD_MAX_QUEUES_PER_PROCESS)
		return -EINVAL;
	ids = malloc((n ? n : 1) * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	if (user_read(ids, user, n * sizeof(*ids))) {
		free(ids);
		return -EFAULT;
	}
	for (uint32_t i = 0; i < n; i++)
		ids[i] |= QUEUE_INVALID;
	*out = ids;
	return 0;
}

static uint32_t *find(uint32_t *ids, uint32_t n, uint32_t id)
{
	for (uint32_t i = 0; i < n; i++) {
		if ((ids[i] & ~QUEUE_INVALID) == id)
			return &ids[i];
	}
	return NULL;
}

/* The first words of a save area say where its waves are, as GET_QUEUE_WAVE_STATE does. */
static void describe_areas(struct kfd_process *p)
{
	const struct kfd_queue *q;

	for (unsigned i = 0; (q = kfd_queue_next(p, &i));) {
		struct cp_wave_state s;

		if (!q->sdma && !q->is_active && !cp_queue_wave_state(q->cp, &s))
			user_write(q->cwsr_va, &s, 4 * sizeof(uint32_t));
	}
}

int dbg_suspend(struct kfd_process *p, struct dbg_state *d, uint32_t *ids, uint32_t n,
		uint64_t clear)
{
	uint64_t born = ~0ull;
	int total = 0, err, i;

	while (ids && (i = dbg_next_queue(d, &born)) >= 0) {
		uint32_t *id = find(ids, n, (uint32_t)i);

		if (!id)
			continue;
		/* A queue that the debugger has not seen yet stays as it is, and its id invalid. */
		err = kfd_queue_suspend(p->queues[i],
					d->queue[i].s.exception_status & KFD_EC_MASK(EC_QUEUE_NEW));
		if (!err) {
			*id &= ~QUEUE_INVALID;
			d->queue[i].s.exception_status &= ~clear;
			total++;
		} else if (err != -EBUSY) {
			*id |= QUEUE_ERROR;
			break;
		}
	}
	if (total)
		describe_areas(p);
	return total;
}

int dbg_resume(struct kfd_process *p, uint32_t *ids, uint32_t n)
{
	uint64_t born = ~0ull;
	int total = 0, i;

	while ((i = dbg_next_queue(p->dbg, &born)) >= 0) {
		uint32_t *id = ids ? find(ids, n, (uint32_t)i) : NULL;
		int err;

		if (ids && !id)
			continue;
		err = kfd_queue_resume(p->queues[i]);
		if (err && id) {
			*id |= QUEUE_ERROR;
			break;
		}
		if (id)
			*id &= ~QUEUE_INVALID;
		total += !err;
	}
	return total;
}

/* As if the queues could not be preempted. */
static int nobody(uint32_t *ids, uint32_t n, int err)
{
	if (err != -EIO)
		return err;
	for (uint32_t i = 0; ids && i < n; i++)
		ids[i] |= QUEUE_ERROR;
	return 0;
}

int dbg_suspend_queues(struct kfd_process *p, struct dbg_state *d,
		       const struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t *ids, n = a->suspend_queues.num_queues;
	uint64_t clear = a->suspend_queues.exception_mask;
	int total = get_ids(a->suspend_queues.queue_array_ptr, n, &ids);

	if (total)
		return total;
	if (!ids)
		return 0;
	total = nobody(ids, n, dbg_call(p, d, DBG_CALL_SUSPEND, ids, n, clear));
	user_write(a->suspend_queues.queue_array_ptr, ids, n * sizeof(*ids));
	free(ids);
	return total;
}

int dbg_resume_queues(struct kfd_process *p, struct dbg_state *d,
		      const struct kfd_ioctl_dbg_trap_args *a)
{
	uint32_t *ids = NULL, n = a->resume_queues.num_queues;
	int total = 0;

	if (a->resume_queues.queue_array_ptr)
		total = get_ids(a->resume_queues.queue_array_ptr, n, &ids);
	if (total)
		return total;
	total = nobody(ids, n, dbg_call(p, d, DBG_CALL_RESUME, ids, n, 0));
	if (ids)
		user_write(a->resume_queues.queue_array_ptr, ids, n * sizeof(*ids));
	free(ids);
	return total;
}
