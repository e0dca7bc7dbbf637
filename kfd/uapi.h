/* The kernel's KFD interface, completed.
 *
 * <linux/kfd_ioctl.h> of the build machine may be as old as minor 11 (Linux 6.1); the driver asks
 * for minor 17. What an older header lacks is defined here under the kernel's own name. Two
 * structures grew in place and keep their old name in old headers, so they get a name of ours:
 * kfd_create_queue_args (96 bytes since 1.17) and kfd_wait_event (signal age since 1.14).
 * Source: include/uapi/linux/kfd_ioctl.h, Linux 6.12 and 7.3.
 */
#ifndef KFD_UAPI_H
#define KFD_UAPI_H

#include <linux/kfd_ioctl.h>
#include <stdint.h>

#ifndef AMDKFD_IOC_AVAILABLE_MEMORY
struct kfd_ioctl_get_available_memory_args {
	__u64 available;
	__u32 gpu_id;
	__u32 pad;
};
#define AMDKFD_IOC_AVAILABLE_MEMORY \
	AMDKFD_IOWR(0x23, struct kfd_ioctl_get_available_memory_args)
#endif

#ifndef AMDKFD_IOC_RUNTIME_ENABLE
struct kfd_ioctl_runtime_enable_args {
	__u64 r_debug;
	__u32 mode_mask;
	__u32 capabilities_mask;
};
#define AMDKFD_IOC_RUNTIME_ENABLE AMDKFD_IOWR(0x25, struct kfd_ioctl_runtime_enable_args)
#define KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK    1
#define KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK 2

/* Exception codes; bit (code - 1) of a queue's error word. */
enum kfd_dbg_trap_exception_code {
	EC_NONE = 0,
	EC_QUEUE_WAVE_ABORT = 1,
	EC_QUEUE_WAVE_TRAP = 2,
	EC_QUEUE_WAVE_MATH_ERROR = 3,
	EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION = 4,
	EC_QUEUE_WAVE_MEMORY_VIOLATION = 5,
	EC_QUEUE_WAVE_APERTURE_VIOLATION = 6,
	EC_QUEUE_PACKET_DISPATCH_DIM_INVALID = 16,
	EC_QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID = 17,
	EC_QUEUE_PACKET_DISPATCH_CODE_INVALID = 18,
	EC_QUEUE_PACKET_RESERVED = 19,
	EC_QUEUE_PACKET_UNSUPPORTED = 20,
	EC_QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID = 21,
	EC_QUEUE_PACKET_DISPATCH_REGISTER_INVALID = 22,
	EC_QUEUE_PACKET_VENDOR_UNSUPPORTED = 23,
	EC_QUEUE_PREEMPTION_ERROR = 30,
	EC_QUEUE_NEW = 31,
	EC_DEVICE_QUEUE_DELETE = 32,
	EC_DEVICE_MEMORY_VIOLATION = 33,
	EC_DEVICE_RAS_ERROR = 34,
	EC_DEVICE_FATAL_HALT = 35,
	EC_DEVICE_NEW = 36,
	EC_PROCESS_RUNTIME = 48,
	EC_PROCESS_DEVICE_REMOVE = 49,
	EC_MAX
};
#define KFD_EC_MASK(ecode) (1ULL << ((ecode) - 1))
#endif

#ifndef KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID
#define KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID 0x4
#endif
#ifndef KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT
#define KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT (1 << 24)
#endif
#ifndef KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS
#define KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS (1 << 23)
#endif

/* struct kfd_ioctl_create_queue_args as of 1.17. */
struct kfd_create_queue_args {
	__u64 ring_base_address;
	__u64 write_pointer_address;
	__u64 read_pointer_address;
	__u64 doorbell_offset; /* out */
	__u32 ring_size;       /* in; out: raised to 1024 */
	__u32 gpu_id;
	__u32 queue_type;
	__u32 queue_percentage;
	__u32 queue_priority;
	__u32 queue_id; /* out */
	__u64 eop_buffer_address;
	__u64 eop_buffer_size;
	__u64 ctx_save_restore_address;
	__u32 ctx_save_restore_size;
	__u32 ctl_stack_size;
	__u32 sdma_engine_id;
	__u32 metadata_ring_size; /* pad before 1.22 */
};
#define KFD_IOC_CREATE_QUEUE_96 AMDKFD_IOWR(0x02, struct kfd_create_queue_args)

/* struct kfd_event_data as of 1.14. */
struct kfd_wait_event {
	union {
		struct {
			__u32 not_present, read_only, no_execute, imprecise;
			__u64 va;
			__u32 gpu_id;
			__u32 error_type;
		} memory;
		struct {
			__u32 reset_type, reset_cause, memory_lost;
			__u32 gpu_id;
		} hw;
		__u64 last_event_age; /* in and out; 0 = not used */
	};
	__u64 ext;
	__u32 event_id;
	__u32 pad;
};

/* First bytes of a context save area (struct kfd_context_save_area_header). */
struct kfd_save_area_header {
	__u32 control_stack_offset, control_stack_size;
	__u32 wave_state_offset, wave_state_size;
	__u32 debug_offset, debug_size;
	__u64 err_payload_addr; /* the kernel ORs exception bits into this 64-bit word ... */
	__u32 err_event_id;	/* ... and sets this event */
	__u32 reserved1;
};

/* Byte offsets of mmap on /dev/kfd: type in 63:62, gpu_id in 61:46 (kfd_priv.h KFD_MMAP_*). */
#define KFD_OFFSET_TYPE_DOORBELL (3ULL << 62)
#define KFD_OFFSET_GPU_ID_SHIFT	 46
/* One process's doorbells on gfx11 with MES: 1024 of 8 bytes (kfd_doorbell.c). */
#define KFD_DOORBELL_BYTES 8192u

/* 4096 slots of 8 bytes (kfd_events.h KFD_SIGNAL_EVENT_LIMIT). */
#define KFD_EVENT_PAGE_BYTES 32768u

_Static_assert(sizeof(struct kfd_create_queue_args) == 96, "CREATE_QUEUE is 96 bytes");
_Static_assert(sizeof(struct kfd_wait_event) == 48, "event data is 48 bytes");
_Static_assert(sizeof(struct kfd_save_area_header) == 40, "save-area header is 40 bytes");
_Static_assert(sizeof(struct kfd_ioctl_runtime_enable_args) == 16, "RUNTIME_ENABLE is 16 bytes");

#endif
