/* The kernel's KFD interface, as far as this driver uses it.
 *
 * Not <linux/kfd_ioctl.h>: Debian 12 ships minor 11 of it, whose #include <drm/drm.h> no package
 * provides, and the driver asks for minor 17. Names and layouts are the kernel's
 * (include/uapi/linux/kfd_ioctl.h, Linux 6.12 and 7.3), except where a union without names was
 * given some. Sizes and offsets are checked below.
 */
#ifndef KFD_UAPI_H
#define KFD_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>
#include <stddef.h>

#ifdef KFD_IOCTL_H_INCLUDED
#error "kfd/uapi.h stands in for <linux/kfd_ioctl.h>; include only one of them"
#endif
#define KFD_IOCTL_H_INCLUDED

/* ---- version, clocks, apertures ------------------------------------------------ */

struct kfd_ioctl_get_version_args {
	__u32 major_version, minor_version; /* out */
};

struct kfd_ioctl_get_clock_counters_args {
	__u64 gpu_clock_counter, cpu_clock_counter; /* out */
	__u64 system_clock_counter, system_clock_freq;
	__u32 gpu_id;
	__u32 pad;
};

struct kfd_process_device_apertures {
	__u64 lds_base, lds_limit;
	__u64 scratch_base, scratch_limit;
	__u64 gpuvm_base, gpuvm_limit;
	__u32 gpu_id;
	__u32 pad;
};

struct kfd_ioctl_get_process_apertures_new_args {
	__u64 kfd_process_device_apertures_ptr;
	__u32 num_of_nodes; /* in and out; 0 asks for the count */
	__u32 pad;
};

struct kfd_ioctl_acquire_vm_args {
	__u32 drm_fd;
	__u32 gpu_id;
};

#define KFD_IOC_CACHE_POLICY_COHERENT    0
#define KFD_IOC_CACHE_POLICY_NONCOHERENT 1

struct kfd_ioctl_set_memory_policy_args {
	__u64 alternate_aperture_base, alternate_aperture_size;
	__u32 gpu_id;
	__u32 default_policy, alternate_policy;
	__u32 misc_process_flag; /* pad before 1.18 */
};

struct kfd_ioctl_set_scratch_backing_va_args {
	__u64 va_addr;
	__u32 gpu_id;
	__u32 pad;
};

struct kfd_ioctl_set_trap_handler_args {
	__u64 tba_addr, tma_addr;
	__u32 gpu_id;
	__u32 pad;
};

struct kfd_ioctl_runtime_enable_args {
	__u64 r_debug;
	__u32 mode_mask;
	__u32 capabilities_mask;
};
#define KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK    1
#define KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK 2

/* ---- memory --------------------------------------------------------------------- */

struct kfd_ioctl_get_dmabuf_info_args {
	__u64 size;         /* out */
	__u64 metadata_ptr; /* buffer, or 0 */
	__u32 metadata_size;
	__u32 gpu_id; /* out */
	__u32 flags;  /* out: KFD_IOC_ALLOC_MEM_FLAGS_* */
	__u32 dmabuf_fd;
};

struct kfd_ioctl_import_dmabuf_args {
	__u64 va_addr;
	__u64 handle; /* out */
	__u32 gpu_id;
	__u32 dmabuf_fd;
};

struct kfd_ioctl_export_dmabuf_args {
	__u64 handle;
	__u32 flags;     /* O_CLOEXEC, O_RDWR */
	__u32 dmabuf_fd; /* out */
};

#define KFD_IOC_ALLOC_MEM_FLAGS_VRAM          (1u << 0)
#define KFD_IOC_ALLOC_MEM_FLAGS_GTT           (1u << 1)
#define KFD_IOC_ALLOC_MEM_FLAGS_USERPTR       (1u << 2)
#define KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL      (1u << 3)
#define KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP    (1u << 4)
#define KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS    (1u << 23)
#define KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT  (1u << 24)
#define KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED      (1u << 25)
#define KFD_IOC_ALLOC_MEM_FLAGS_COHERENT      (1u << 26)
#define KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM (1u << 27)
#define KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE (1u << 28)
#define KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC        (1u << 29)
#define KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE    (1u << 30)
#define KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE      (1u << 31)

struct kfd_ioctl_alloc_memory_of_gpu_args {
	__u64 va_addr;
	__u64 size;
	__u64 handle;      /* out */
	__u64 mmap_offset; /* in: user pointer with USERPTR; out */
	__u32 gpu_id;
	__u32 flags;
};

struct kfd_ioctl_free_memory_of_gpu_args {
	__u64 handle;
};

struct kfd_ioctl_map_memory_to_gpu_args {
	__u64 handle;
	__u64 device_ids_array_ptr;
	__u32 n_devices;
	__u32 n_success; /* in and out, also on failure */
};

struct kfd_ioctl_unmap_memory_from_gpu_args {
	__u64 handle;
	__u64 device_ids_array_ptr;
	__u32 n_devices;
	__u32 n_success;
};

struct kfd_ioctl_get_available_memory_args {
	__u64 available; /* out */
	__u32 gpu_id;
	__u32 pad;
};

/* ---- queues ---------------------------------------------------------------------- */

#define KFD_IOC_QUEUE_TYPE_COMPUTE        0
#define KFD_IOC_QUEUE_TYPE_SDMA           1
#define KFD_IOC_QUEUE_TYPE_COMPUTE_AQL    2
#define KFD_IOC_QUEUE_TYPE_SDMA_XGMI      3
#define KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID 4

/* 96 bytes since 1.17. */
struct kfd_ioctl_create_queue_args {
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

struct kfd_ioctl_destroy_queue_args {
	__u32 queue_id;
	__u32 pad;
};

struct kfd_ioctl_update_queue_args {
	__u64 ring_base_address;
	__u32 queue_id;
	__u32 ring_size;
	__u32 queue_percentage;
	__u32 queue_priority;
};

struct kfd_ioctl_get_queue_wave_state_args {
	__u64 ctl_stack_address;
	__u32 ctl_stack_used_size; /* out */
	__u32 save_area_used_size; /* out */
	__u32 queue_id;
	__u32 pad;
};

/* First bytes of a context save area. */
struct kfd_context_save_area_header {
	struct {
		__u32 control_stack_offset, control_stack_size;
		__u32 wave_state_offset, wave_state_size;
	} wave_state;
	__u32 debug_offset, debug_size;
	__u64 err_payload_addr; /* the kernel ORs exception bits into this 64-bit word ... */
	__u32 err_event_id;     /* ... and sets this event */
	__u32 reserved1;
};

/* Exception codes; code c is bit (c - 1) of a queue's error word. */
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
};
#define KFD_EC_MASK(ecode) (1ULL << ((ecode) - 1))

/* ---- events ------------------------------------------------------------------------ */

#define KFD_IOC_EVENT_SIGNAL       0
#define KFD_IOC_EVENT_HW_EXCEPTION 3
#define KFD_IOC_EVENT_DEBUG        5
#define KFD_IOC_EVENT_MEMORY       8

#define KFD_IOC_WAIT_RESULT_COMPLETE 0
#define KFD_IOC_WAIT_RESULT_TIMEOUT  1
#define KFD_IOC_WAIT_RESULT_FAIL     2

struct kfd_ioctl_create_event_args {
	__u64 event_page_offset;  /* in: handle of the page's buffer, or 0; out */
	__u32 event_trigger_data; /* out */
	__u32 event_type;
	__u32 auto_reset;
	__u32 node_id;
	__u32 event_id;         /* out */
	__u32 event_slot_index; /* out; SIGNAL and DEBUG only */
};

struct kfd_ioctl_destroy_event_args {
	__u32 event_id;
	__u32 pad;
};

struct kfd_ioctl_set_event_args {
	__u32 event_id;
	__u32 pad;
};

struct kfd_ioctl_reset_event_args {
	__u32 event_id;
	__u32 pad;
};

/* Signal age since 1.14. */
struct kfd_event_data {
	union {
		struct {
			__u32 not_present, read_only, no_execute, imprecise;
			__u64 va;
			__u32 gpu_id;
			__u32 error_type; /* 0 no RAS error, 1 ECC, 2 poison, 3 hang */
		} memory;                 /* out, MEMORY */
		struct {
			__u32 reset_type, reset_cause, memory_lost;
			__u32 gpu_id;
		} hw;                 /* out, HW_EXCEPTION */
		__u64 last_event_age; /* in and out, SIGNAL; 0 = not used */
	};
	__u64 kfd_event_data_ext;
	__u32 event_id;
	__u32 pad;
};

struct kfd_ioctl_wait_events_args {
	__u64 events_ptr;
	__u32 num_events;
	__u32 wait_for_all;
	__u32 timeout;     /* ms, in and out */
	__u32 wait_result; /* out */
};

struct kfd_ioctl_smi_events_args {
	__u32 gpuid;
	__u32 anon_fd; /* out */
};

/* ---- numbers ---------------------------------------------------------------------- */

#define AMDKFD_IOC_GET_VERSION        _IOR('K', 0x01, struct kfd_ioctl_get_version_args)
#define AMDKFD_IOC_CREATE_QUEUE       _IOWR('K', 0x02, struct kfd_ioctl_create_queue_args)
#define AMDKFD_IOC_DESTROY_QUEUE      _IOWR('K', 0x03, struct kfd_ioctl_destroy_queue_args)
#define AMDKFD_IOC_SET_MEMORY_POLICY  _IOW('K', 0x04, struct kfd_ioctl_set_memory_policy_args)
#define AMDKFD_IOC_GET_CLOCK_COUNTERS _IOWR('K', 0x05, struct kfd_ioctl_get_clock_counters_args)
#define AMDKFD_IOC_UPDATE_QUEUE       _IOW('K', 0x07, struct kfd_ioctl_update_queue_args)
#define AMDKFD_IOC_CREATE_EVENT       _IOWR('K', 0x08, struct kfd_ioctl_create_event_args)
#define AMDKFD_IOC_DESTROY_EVENT      _IOW('K', 0x09, struct kfd_ioctl_destroy_event_args)
#define AMDKFD_IOC_SET_EVENT          _IOW('K', 0x0a, struct kfd_ioctl_set_event_args)
#define AMDKFD_IOC_RESET_EVENT        _IOW('K', 0x0b, struct kfd_ioctl_reset_event_args)
#define AMDKFD_IOC_WAIT_EVENTS        _IOWR('K', 0x0c, struct kfd_ioctl_wait_events_args)
#define AMDKFD_IOC_SET_SCRATCH_BACKING_VA                                                          \
	_IOWR('K', 0x11, struct kfd_ioctl_set_scratch_backing_va_args)
#define AMDKFD_IOC_SET_TRAP_HANDLER _IOW('K', 0x13, struct kfd_ioctl_set_trap_handler_args)
#define AMDKFD_IOC_GET_PROCESS_APERTURES_NEW                                                       \
	_IOWR('K', 0x14, struct kfd_ioctl_get_process_apertures_new_args)
#define AMDKFD_IOC_ACQUIRE_VM          _IOW('K', 0x15, struct kfd_ioctl_acquire_vm_args)
#define AMDKFD_IOC_ALLOC_MEMORY_OF_GPU _IOWR('K', 0x16, struct kfd_ioctl_alloc_memory_of_gpu_args)
#define AMDKFD_IOC_FREE_MEMORY_OF_GPU  _IOW('K', 0x17, struct kfd_ioctl_free_memory_of_gpu_args)
#define AMDKFD_IOC_MAP_MEMORY_TO_GPU   _IOWR('K', 0x18, struct kfd_ioctl_map_memory_to_gpu_args)
#define AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU                                                           \
	_IOWR('K', 0x19, struct kfd_ioctl_unmap_memory_from_gpu_args)
#define AMDKFD_IOC_GET_QUEUE_WAVE_STATE _IOWR('K', 0x1b, struct kfd_ioctl_get_queue_wave_state_args)
#define AMDKFD_IOC_GET_DMABUF_INFO      _IOWR('K', 0x1c, struct kfd_ioctl_get_dmabuf_info_args)
#define AMDKFD_IOC_IMPORT_DMABUF        _IOWR('K', 0x1d, struct kfd_ioctl_import_dmabuf_args)
#define AMDKFD_IOC_EXPORT_DMABUF        _IOWR('K', 0x24, struct kfd_ioctl_export_dmabuf_args)
#define AMDKFD_IOC_SMI_EVENTS           _IOWR('K', 0x1f, struct kfd_ioctl_smi_events_args)
#define AMDKFD_IOC_AVAILABLE_MEMORY     _IOWR('K', 0x23, struct kfd_ioctl_get_available_memory_args)
#define AMDKFD_IOC_RUNTIME_ENABLE       _IOWR('K', 0x25, struct kfd_ioctl_runtime_enable_args)

/* Byte offsets of mmap on /dev/kfd: type in 63:62, gpu_id in 61:46 (kfd_priv.h KFD_MMAP_*). */
#define KFD_OFFSET_TYPE_DOORBELL (3ULL << 62)
#define KFD_OFFSET_GPU_ID_SHIFT  46
/* One process's doorbells on gfx11 with MES: 1024 of 8 bytes (kfd_doorbell.c). */
#define KFD_DOORBELL_BYTES 8192u

/* 4096 slots of 8 bytes (kfd_events.h KFD_SIGNAL_EVENT_LIMIT). */
#define KFD_EVENT_PAGE_BYTES 32768u

_Static_assert(AMDKFD_IOC_CREATE_QUEUE == 0xc0604b02, "CREATE_QUEUE");
_Static_assert(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU == 0xc0284b16, "ALLOC_MEMORY_OF_GPU");
_Static_assert(AMDKFD_IOC_MAP_MEMORY_TO_GPU == 0xc0184b18, "MAP_MEMORY_TO_GPU");
_Static_assert(AMDKFD_IOC_GET_DMABUF_INFO == 0xc0204b1c, "GET_DMABUF_INFO");
_Static_assert(AMDKFD_IOC_IMPORT_DMABUF == 0xc0184b1d, "IMPORT_DMABUF");
_Static_assert(AMDKFD_IOC_EXPORT_DMABUF == 0xc0104b24, "EXPORT_DMABUF");
_Static_assert(AMDKFD_IOC_SET_MEMORY_POLICY == 0x40204b04, "SET_MEMORY_POLICY");
_Static_assert(AMDKFD_IOC_CREATE_EVENT == 0xc0204b08, "CREATE_EVENT");
_Static_assert(AMDKFD_IOC_WAIT_EVENTS == 0xc0184b0c, "WAIT_EVENTS");
_Static_assert(AMDKFD_IOC_GET_QUEUE_WAVE_STATE == 0xc0184b1b, "GET_QUEUE_WAVE_STATE");
_Static_assert(AMDKFD_IOC_RUNTIME_ENABLE == 0xc0104b25, "RUNTIME_ENABLE");
_Static_assert(sizeof(struct kfd_process_device_apertures) == 56, "apertures");
_Static_assert(sizeof(struct kfd_event_data) == 48, "event data");
_Static_assert(offsetof(struct kfd_event_data, event_id) == 40, "event id");
_Static_assert(sizeof(struct kfd_context_save_area_header) == 40, "save-area header");

#endif
