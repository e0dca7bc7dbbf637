/* The ioctl dispatcher (kfd_chardev.c:kfd_ioctl). */
#include "internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share/share.h"
#include "vm/rawsys.h"

/* The process mutex makes every handler sleepable; only CRIU_OP carries a flag. */
#define FLAG_CHECKPOINT_RESTORE 1u

struct ioctl_desc {
	uint32_t cmd; /* the kernel's own encoding: its direction and size are used */
	kfd_handler fn;
	uint32_t flags;
};

#define DEF(NAME, fn) [KFD_NR_##NAME] = {AMDKFD_IOC_##NAME, kfd_ioctl_##fn, 0}
static const struct ioctl_desc ioctls[KFD_NR_END] = {
	DEF(GET_VERSION, get_version),
	DEF(CREATE_QUEUE, create_queue),
	DEF(DESTROY_QUEUE, destroy_queue),
	DEF(SET_MEMORY_POLICY, set_memory_policy),
	DEF(GET_CLOCK_COUNTERS, get_clock_counters),
	DEF(GET_PROCESS_APERTURES, get_process_apertures),
	DEF(UPDATE_QUEUE, update_queue),
	DEF(CREATE_EVENT, create_event),
	DEF(DESTROY_EVENT, destroy_event),
	DEF(SET_EVENT, set_event),
	DEF(RESET_EVENT, reset_event),
	DEF(WAIT_EVENTS, wait_events),
	DEF(DBG_REGISTER_DEPRECATED, dbg_deprecated),
	DEF(DBG_UNREGISTER_DEPRECATED, dbg_deprecated),
	DEF(DBG_ADDRESS_WATCH_DEPRECATED, dbg_deprecated),
	DEF(DBG_WAVE_CONTROL_DEPRECATED, dbg_deprecated),
	DEF(SET_SCRATCH_BACKING_VA, set_scratch_backing_va),
	DEF(GET_TILE_CONFIG, get_tile_config),
	DEF(SET_TRAP_HANDLER, set_trap_handler),
	DEF(GET_PROCESS_APERTURES_NEW, get_process_apertures_new),
	DEF(ACQUIRE_VM, acquire_vm),
	DEF(ALLOC_MEMORY_OF_GPU, alloc_memory_of_gpu),
	DEF(FREE_MEMORY_OF_GPU, free_memory_of_gpu),
	DEF(MAP_MEMORY_TO_GPU, map_memory_to_gpu),
	DEF(UNMAP_MEMORY_FROM_GPU, unmap_memory_from_gpu),
	DEF(SET_CU_MASK, set_cu_mask),
	DEF(GET_QUEUE_WAVE_STATE, get_queue_wave_state),
	DEF(GET_DMABUF_INFO, get_dmabuf_info),
	DEF(IMPORT_DMABUF, import_dmabuf),
	DEF(ALLOC_QUEUE_GWS, alloc_queue_gws),
	DEF(SMI_EVENTS, smi_events),
	DEF(SVM, svm),
	DEF(SET_XNACK_MODE, set_xnack_mode),
	[KFD_NR_CRIU_OP] = {AMDKFD_IOC_CRIU_OP, kfd_ioctl_criu_op, FLAG_CHECKPOINT_RESTORE},
	DEF(AVAILABLE_MEMORY, available_memory),
	DEF(EXPORT_DMABUF, export_dmabuf),
	DEF(RUNTIME_ENABLE, runtime_enable),
	DEF(DBG_TRAP, dbg_trap),
	[KFD_NR_CREATE_PROCESS] = {AMDKFD_IOC_CREATE_PROCESS, NULL,
				   0}, /* of the file, not of the process */
	DEF(PROFILER, profiler),
};
#undef DEF

static bool capable_checkpoint(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	if (rawsys2(SYS_capget, &h, d))
		return false;
	return (d[0].effective >> CAP_SYS_ADMIN & 1) ||
	       (d[CAP_CHECKPOINT_RESTORE / 32].effective >> CAP_CHECKPOINT_RESTORE % 32 & 1);
}

long kfd_ioctl(struct kfd_process **file, unsigned cmd, void *arg)
{
	/* Pairs with the release store in kfd_create_secondary(). */
	struct kfd_process *p = __atomic_load_n(file, __ATOMIC_ACQUIRE);
	unsigned nr = _IOC_NR(cmd), usize = _IOC_SIZE(cmd), asize, ksize;
	_Alignas(16) char stack[256];
	const struct ioctl_desc *d;
	char *kdata = stack;
	long ret;

	__atomic_fetch_add(&kfd_device.stats.ioctls, 1, __ATOMIC_RELAXED);
	/* Only the number selects; type letter and direction of the caller are not looked at. */
	if (!nr || nr >= vgpu_kernel()->nr_end)
		return -ENOTTY;
	d = &ioctls[nr];
	ksize = _IOC_SIZE(d->cmd);
	asize = usize > ksize ? usize : ksize;
	if (p->lead != getpid() && vgpu_rule(RULE_fork_ebadf))
		return -EBADF;
	if (share_active() && share_lost())
		return -ENODEV;
	if ((d->flags & FLAG_CHECKPOINT_RESTORE) && !capable_checkpoint())
		return -EACCES;
	if (asize > sizeof(stack)) {
		kdata = malloc(asize);
		if (!kdata)
			return -ENOMEM;
	}
again:
	/* A shorter struct reads as zeros behind its end; a longer one keeps its tail. */
	memset(kdata, 0, asize);
	if (_IOC_DIR(d->cmd) & _IOC_WRITE) {
		ret = user_read(kdata, (uintptr_t)arg, usize);
		if (ret)
			goto out;
	}
	if (nr == KFD_NR_SVM) {
		const struct kfd_ioctl_svm_args *a = (const void *)kdata;

		if (usize < sizeof(*a) + (uint64_t)a->nattr * sizeof(a->attrs[0])) {
			ret = -EINVAL;
			goto out;
		}
	}
	ret = d->fn ? d->fn(p, kdata) : kfd_create_secondary(p, file);
	/* Outputs go back whatever the result was. */
	if ((_IOC_DIR(d->cmd) & _IOC_READ) && user_write((uintptr_t)arg, kdata, usize))
		ret = -EFAULT;
	/* The client's handler has run: now the system call is restarted. */
	if (ret == -KFD_ERESTARTSYS)
		goto again;
out:
	if (kdata != stack)
		free(kdata);
	return ret;
}
