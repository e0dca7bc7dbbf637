/* DBG_TRAP with the kernel's names (include/uapi/linux/kfd_ioctl.h): the part of abi.h that the
 * driver's kfd/uapi.h has nothing of, for tests that use the driver, too. */
#ifndef VGPU_KFD_DBG_ABI_H
#define VGPU_KFD_DBG_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum kfd_dbg_runtime_state {
	DEBUG_RUNTIME_STATE_DISABLED,
	DEBUG_RUNTIME_STATE_ENABLED,
	DEBUG_RUNTIME_STATE_ENABLED_BUSY,
	DEBUG_RUNTIME_STATE_ENABLED_ERROR,
};

struct kfd_runtime_info {
	uint64_t r_debug;
	uint32_t runtime_state, ttmp_setup;
};

enum kfd_dbg_trap_operations {
	KFD_IOC_DBG_TRAP_ENABLE = 0,
	KFD_IOC_DBG_TRAP_DISABLE = 1,
	KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT = 2,
	KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED = 3,
	KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE = 4,
	KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE = 5,
	KFD_IOC_DBG_TRAP_SUSPEND_QUEUES = 6,
	KFD_IOC_DBG_TRAP_RESUME_QUEUES = 7,
	KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH = 8,
	KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH = 9,
	KFD_IOC_DBG_TRAP_SET_FLAGS = 10,
	KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT = 11,
	KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO = 12,
	KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT = 13,
	KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT = 14,
};

struct kfd_ioctl_dbg_trap_args {
	uint32_t pid, op;
	union {
		struct {
			uint64_t exception_mask, rinfo_ptr;
			uint32_t rinfo_size, dbg_fd;
		} enable;
		struct {
			uint64_t exception_mask;
			uint32_t gpu_id, queue_id;
		} event; /* SEND_RUNTIME_EVENT, SET_EXCEPTIONS_ENABLED, QUERY_DEBUG_EVENT */
		struct {
			uint64_t queue_array_ptr;
			uint32_t num_queues, pad;
		} resume_queues;
		struct {
			uint64_t exception_mask, queue_array_ptr;
			uint32_t num_queues, grace_period;
		} suspend_queues;
		struct {
			uint32_t override_mode, enable_mask, support_request_mask, pad;
		} launch_override;
		struct {
			uint64_t address;
			uint32_t mode, mask, gpu_id, id;
		} set_watch;
		struct {
			uint32_t gpu_id, id;
		} clear_watch;
		struct {
			uint64_t info_ptr;
			uint32_t info_size, source_id, exception_code, clear_exception;
		} query_exception_info;
		struct {
			uint64_t exception_mask, snapshot_buf_ptr;
			uint32_t num, entry_size;
		} snapshot; /* of queues and of devices */
		uint8_t raw[24];
	};
};

struct kfd_queue_snapshot_entry {
	uint64_t exception_status, ring_base_address, write_pointer_address, read_pointer_address,
		ctx_save_restore_address;
	uint32_t queue_id, gpu_id, ring_size, queue_type, ctx_save_restore_area_size, reserved;
};

#define AMDKFD_IOC_DBG_TRAP _IOWR('K', 0x26, struct kfd_ioctl_dbg_trap_args)

_Static_assert(AMDKFD_IOC_DBG_TRAP == 0xc0204b26, "DBG_TRAP");
_Static_assert(sizeof(struct kfd_queue_snapshot_entry) == 64 &&
		       offsetof(struct kfd_queue_snapshot_entry, queue_id) == 40 &&
		       offsetof(struct kfd_queue_snapshot_entry, queue_type) == 52,
	       "kfd_queue_snapshot_entry");

#endif
