/* The KFD interface up to 1.23, with the kernel's names (include/uapi/linux/kfd_ioctl.h).
 *
 * Debian 12's linux-libc-dev stops at 1.11 and its header wants a drm/drm.h that the package does
 * not carry, so the device has the whole interface here; do not include both. Sizes and offsets
 * are checked below against the documented layout.
 */
#ifndef VGPU_KFD_ABI_H
#define VGPU_KFD_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "dbg_abi.h"

#define KFD_IOC_QUEUE_TYPE_COMPUTE        0
#define KFD_IOC_QUEUE_TYPE_SDMA           1
#define KFD_IOC_QUEUE_TYPE_COMPUTE_AQL    2
#define KFD_IOC_QUEUE_TYPE_SDMA_XGMI      3
#define KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID 4
#define KFD_MAX_QUEUE_PERCENTAGE          100
#define KFD_MAX_QUEUE_PRIORITY            15
#define KFD_MIN_QUEUE_RING_SIZE           1024

struct kfd_ioctl_get_version_args {
	uint32_t major_version, minor_version;
};

struct kfd_ioctl_create_queue_args {
	uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
	uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
	uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
	uint32_t ctx_save_restore_size, ctl_stack_size, sdma_engine_id;
	uint32_t metadata_ring_size; /* 1.22; padding before */
};

struct kfd_ioctl_destroy_queue_args {
	uint32_t queue_id, pad;
};

struct kfd_ioctl_update_queue_args {
	uint64_t ring_base_address;
	uint32_t queue_id, ring_size, queue_percentage, queue_priority;
};

struct kfd_ioctl_set_cu_mask_args {
	uint32_t queue_id, num_cu_mask;
	uint64_t cu_mask_ptr;
};

struct kfd_ioctl_get_queue_wave_state_args {
	uint64_t ctl_stack_address;
	uint32_t ctl_stack_used_size, save_area_used_size, queue_id, pad;
};

#define KFD_IOC_CACHE_POLICY_COHERENT    0
#define KFD_IOC_CACHE_POLICY_NONCOHERENT 1

struct kfd_ioctl_set_memory_policy_args {
	uint64_t alternate_aperture_base, alternate_aperture_size;
	uint32_t gpu_id, default_policy, alternate_policy, misc_process_flag;
};

struct kfd_ioctl_get_clock_counters_args {
	uint64_t gpu_clock_counter, cpu_clock_counter, system_clock_counter, system_clock_freq;
	uint32_t gpu_id, pad;
};

struct kfd_process_device_apertures {
	uint64_t lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	uint32_t gpu_id, pad;
};

#define NUM_OF_SUPPORTED_GPUS 7
struct kfd_ioctl_get_process_apertures_args {
	struct kfd_process_device_apertures process_apertures[NUM_OF_SUPPORTED_GPUS];
	uint32_t num_of_nodes, pad;
};

struct kfd_ioctl_get_process_apertures_new_args {
	uint64_t kfd_process_device_apertures_ptr;
	uint32_t num_of_nodes, pad;
};

struct kfd_ioctl_dbg_address_watch_args {
	uint64_t content_ptr;
	uint32_t gpu_id, buf_size_in_bytes;
};

#define KFD_IOC_EVENT_SIGNAL       0
#define KFD_IOC_EVENT_HW_EXCEPTION 3
#define KFD_IOC_EVENT_DEBUG_EVENT  5
#define KFD_IOC_EVENT_MEMORY       8
#define KFD_SIGNAL_EVENT_LIMIT     4096

#define KFD_IOC_WAIT_RESULT_COMPLETE 0
#define KFD_IOC_WAIT_RESULT_TIMEOUT  1
#define KFD_IOC_WAIT_RESULT_FAIL     2

struct kfd_ioctl_create_event_args {
	uint64_t event_page_offset;
	uint32_t event_trigger_data, event_type, auto_reset, node_id, event_id, event_slot_index;
};

struct kfd_ioctl_destroy_event_args {
	uint32_t event_id, pad;
};

struct kfd_memory_exception_failure {
	uint32_t NotPresent, ReadOnly, NoExecute, imprecise;
};

struct kfd_hsa_memory_exception_data {
	struct kfd_memory_exception_failure failure;
	uint64_t va;
	uint32_t gpu_id, ErrorType;
};

#define KFD_HW_EXCEPTION_WHOLE_GPU_RESET 0
#define KFD_HW_EXCEPTION_GPU_HANG        0

struct kfd_hsa_hw_exception_data {
	uint32_t reset_type, reset_cause, memory_lost, gpu_id;
};

struct kfd_hsa_signal_event_data {
	uint64_t last_event_age;
};

struct kfd_event_data {
	union {
		struct kfd_hsa_memory_exception_data memory_exception_data;
		struct kfd_hsa_hw_exception_data hw_exception_data;
		struct kfd_hsa_signal_event_data signal_event_data;
	};
	uint64_t kfd_event_data_ext;
	uint32_t event_id, pad;
};

struct kfd_ioctl_wait_events_args {
	uint64_t events_ptr;
	uint32_t num_events, wait_for_all, timeout, wait_result;
};

struct kfd_ioctl_set_scratch_backing_va_args {
	uint64_t va_addr;
	uint32_t gpu_id, pad;
};

struct kfd_ioctl_get_tile_config_args {
	uint64_t tile_config_ptr, macro_tile_config_ptr;
	uint32_t num_tile_configs, num_macro_tile_configs, gpu_id, gb_addr_config, num_banks,
		num_ranks;
};

struct kfd_ioctl_set_trap_handler_args {
	uint64_t tba_addr, tma_addr;
	uint32_t gpu_id, pad;
};

struct kfd_ioctl_acquire_vm_args {
	uint32_t drm_fd, gpu_id;
};

#define KFD_IOC_ALLOC_MEM_FLAGS_VRAM          (1u << 0)
#define KFD_IOC_ALLOC_MEM_FLAGS_GTT           (1u << 1)
#define KFD_IOC_ALLOC_MEM_FLAGS_USERPTR       (1u << 2)
#define KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL      (1u << 3)
#define KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP    (1u << 4)
#define KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE      (1u << 31)
#define KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE    (1u << 30)
#define KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC        (1u << 29)
#define KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE (1u << 28)
#define KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM (1u << 27)
#define KFD_IOC_ALLOC_MEM_FLAGS_COHERENT      (1u << 26)
#define KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED      (1u << 25)
#define KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT  (1u << 24)
#define KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS    (1u << 23)

struct kfd_ioctl_alloc_memory_of_gpu_args {
	uint64_t va_addr, size, handle, mmap_offset;
	uint32_t gpu_id, flags;
};

struct kfd_ioctl_free_memory_of_gpu_args {
	uint64_t handle;
};

struct kfd_ioctl_get_available_memory_args {
	uint64_t available;
	uint32_t gpu_id, pad;
};

/* MAP and UNMAP have the same layout. */
struct kfd_ioctl_map_memory_to_gpu_args {
	uint64_t handle, device_ids_array_ptr;
	uint32_t n_devices, n_success;
};
#define kfd_ioctl_unmap_memory_from_gpu_args kfd_ioctl_map_memory_to_gpu_args

struct kfd_ioctl_alloc_queue_gws_args {
	uint32_t queue_id, num_gws, first_gws, pad;
};

struct kfd_ioctl_get_dmabuf_info_args {
	uint64_t size, metadata_ptr;
	uint32_t metadata_size, gpu_id, flags, dmabuf_fd;
};

struct kfd_ioctl_import_dmabuf_args {
	uint64_t va_addr, handle;
	uint32_t gpu_id, dmabuf_fd;
};

struct kfd_ioctl_export_dmabuf_args {
	uint64_t handle;
	uint32_t flags, dmabuf_fd;
};

enum kfd_smi_event {
	KFD_SMI_EVENT_NONE = 0,
	KFD_SMI_EVENT_VMFAULT = 1,
	KFD_SMI_EVENT_THERMAL_THROTTLE = 2,
	KFD_SMI_EVENT_GPU_PRE_RESET = 3,
	KFD_SMI_EVENT_GPU_POST_RESET = 4,
	KFD_SMI_EVENT_MIGRATE_START = 5,
	KFD_SMI_EVENT_MIGRATE_END = 6,
	KFD_SMI_EVENT_PAGE_FAULT_START = 7,
	KFD_SMI_EVENT_PAGE_FAULT_END = 8,
	KFD_SMI_EVENT_QUEUE_EVICTION = 9,
	KFD_SMI_EVENT_QUEUE_RESTORE = 10,
	KFD_SMI_EVENT_UNMAP_FROM_GPU = 11,
	KFD_SMI_EVENT_PROCESS_START = 12, /* newer than 6.12 */
	KFD_SMI_EVENT_PROCESS_END = 13,
	KFD_SMI_EVENT_ALL_PROCESS = 64
};
#define KFD_SMI_EVENT_MASK_FROM_INDEX(i) (1ull << ((i) - 1))

enum KFD_SMI_EVENT_TRIGGER_QUEUE_EVICTION {
	KFD_QUEUE_EVICTION_TRIGGER_SVM,
	KFD_QUEUE_EVICTION_TRIGGER_USERPTR,
	KFD_QUEUE_EVICTION_TRIGGER_TTM,
	KFD_QUEUE_EVICTION_TRIGGER_SUSPEND,
	KFD_QUEUE_EVICTION_CRIU_CHECKPOINT,
	KFD_QUEUE_EVICTION_CRIU_RESTORE
};

struct kfd_ioctl_smi_events_args {
	uint32_t gpuid, anon_fd;
};

#define KFD_IOCTL_SVM_FLAG_HOST_ACCESS       0x01
#define KFD_IOCTL_SVM_FLAG_COHERENT          0x02
#define KFD_IOCTL_SVM_FLAG_GPU_RO            0x08
#define KFD_IOCTL_SVM_FLAG_GPU_EXEC          0x10
#define KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED 0x40
#define KFD_IOCTL_SVM_FLAG_EXT_COHERENT      0x80

enum kfd_ioctl_svm_op { KFD_IOCTL_SVM_OP_SET_ATTR, KFD_IOCTL_SVM_OP_GET_ATTR };
enum { KFD_IOCTL_SVM_LOCATION_SYSMEM = 0, KFD_IOCTL_SVM_LOCATION_UNDEFINED = (int)0xffffffff };

enum kfd_ioctl_svm_attr_type {
	KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
	KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
	KFD_IOCTL_SVM_ATTR_ACCESS,
	KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
	KFD_IOCTL_SVM_ATTR_NO_ACCESS,
	KFD_IOCTL_SVM_ATTR_SET_FLAGS,
	KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
	KFD_IOCTL_SVM_ATTR_GRANULARITY
};

struct kfd_ioctl_svm_attribute {
	uint32_t type, value;
};

struct kfd_ioctl_svm_args {
	uint64_t start_addr, size;
	uint32_t op, nattr;
	struct kfd_ioctl_svm_attribute attrs[];
};

struct kfd_ioctl_set_xnack_mode_args {
	int32_t xnack_enabled;
};

enum kfd_criu_op {
	KFD_CRIU_OP_PROCESS_INFO,
	KFD_CRIU_OP_CHECKPOINT,
	KFD_CRIU_OP_UNPAUSE,
	KFD_CRIU_OP_RESTORE,
	KFD_CRIU_OP_RESUME,
};

struct kfd_ioctl_criu_args {
	uint64_t devices, bos, priv_data, priv_data_size;
	uint32_t num_devices, num_bos, num_objects, pid, op, pad;
};

#define KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK    1u
#define KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK 2u

struct kfd_ioctl_runtime_enable_args {
	uint64_t r_debug;
	uint32_t mode_mask, capabilities_mask;
};

struct kfd_ioctl_profiler_args {
	uint32_t op;
	union {
		uint32_t version;
		struct {
			uint32_t gpu_id, lock, perfcount_enable;
		} pmc;
		struct {
			uint32_t gpu_id, enable;
		} ptl;
	};
};

/* Exception codes; a mask bit is 1 << (code - 1). */
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
#define KFD_EC_MASK(ec) (1ull << ((ec) - 1))

/* First bytes of a save area. */
struct kfd_context_save_area_header {
	struct {
		uint32_t control_stack_offset, control_stack_size, wave_state_offset,
			wave_state_size;
	} wave_state;
	uint32_t debug_offset, debug_size;
	uint64_t err_payload_addr;
	uint32_t err_event_id, reserved1;
};

/* mmap offsets on /dev/kfd (kfd_priv.h). */
#define KFD_MMAP_TYPE_DOORBELL     (3ull << 62)
#define KFD_MMAP_TYPE_EVENTS       (2ull << 62)
#define KFD_MMAP_TYPE_RESERVED_MEM (1ull << 62)
#define KFD_MMAP_TYPE_MMIO         (0ull << 62)
#define KFD_MMAP_TYPE_MASK         (3ull << 62)
#define KFD_MMAP_GPU_ID(id)        ((uint64_t)(id) << 46)
#define KFD_MMAP_GET_GPU_ID(off)   ((uint32_t)((off) >> 46 & 0xffff))

/* nr: what the dispatcher selects by. */
enum kfd_nr {
	KFD_NR_GET_VERSION = 0x01,
	KFD_NR_CREATE_QUEUE,
	KFD_NR_DESTROY_QUEUE,
	KFD_NR_SET_MEMORY_POLICY,
	KFD_NR_GET_CLOCK_COUNTERS,
	KFD_NR_GET_PROCESS_APERTURES,
	KFD_NR_UPDATE_QUEUE,
	KFD_NR_CREATE_EVENT,
	KFD_NR_DESTROY_EVENT,
	KFD_NR_SET_EVENT,
	KFD_NR_RESET_EVENT,
	KFD_NR_WAIT_EVENTS,
	KFD_NR_DBG_REGISTER_DEPRECATED,
	KFD_NR_DBG_UNREGISTER_DEPRECATED,
	KFD_NR_DBG_ADDRESS_WATCH_DEPRECATED,
	KFD_NR_DBG_WAVE_CONTROL_DEPRECATED,
	KFD_NR_SET_SCRATCH_BACKING_VA,
	KFD_NR_GET_TILE_CONFIG,
	KFD_NR_SET_TRAP_HANDLER,
	KFD_NR_GET_PROCESS_APERTURES_NEW,
	KFD_NR_ACQUIRE_VM,
	KFD_NR_ALLOC_MEMORY_OF_GPU,
	KFD_NR_FREE_MEMORY_OF_GPU,
	KFD_NR_MAP_MEMORY_TO_GPU,
	KFD_NR_UNMAP_MEMORY_FROM_GPU,
	KFD_NR_SET_CU_MASK,
	KFD_NR_GET_QUEUE_WAVE_STATE,
	KFD_NR_GET_DMABUF_INFO,
	KFD_NR_IMPORT_DMABUF,
	KFD_NR_ALLOC_QUEUE_GWS,
	KFD_NR_SMI_EVENTS,
	KFD_NR_SVM,
	KFD_NR_SET_XNACK_MODE,
	KFD_NR_CRIU_OP,
	KFD_NR_AVAILABLE_MEMORY,
	KFD_NR_EXPORT_DMABUF,
	KFD_NR_RUNTIME_ENABLE,
	KFD_NR_DBG_TRAP,
	KFD_NR_CREATE_PROCESS,
	KFD_NR_PROFILER,
	KFD_NR_END
};

#define AMDKFD_R(nr, t)  _IOR('K', nr, struct t)
#define AMDKFD_W(nr, t)  _IOW('K', nr, struct t)
#define AMDKFD_RW(nr, t) _IOWR('K', nr, struct t)

#define AMDKFD_IOC_GET_VERSION                  AMDKFD_R(0x01, kfd_ioctl_get_version_args)
#define AMDKFD_IOC_CREATE_QUEUE                 AMDKFD_RW(0x02, kfd_ioctl_create_queue_args)
#define AMDKFD_IOC_DESTROY_QUEUE                AMDKFD_RW(0x03, kfd_ioctl_destroy_queue_args)
#define AMDKFD_IOC_SET_MEMORY_POLICY            AMDKFD_W(0x04, kfd_ioctl_set_memory_policy_args)
#define AMDKFD_IOC_GET_CLOCK_COUNTERS           AMDKFD_RW(0x05, kfd_ioctl_get_clock_counters_args)
#define AMDKFD_IOC_GET_PROCESS_APERTURES        AMDKFD_R(0x06, kfd_ioctl_get_process_apertures_args)
#define AMDKFD_IOC_UPDATE_QUEUE                 AMDKFD_W(0x07, kfd_ioctl_update_queue_args)
#define AMDKFD_IOC_CREATE_EVENT                 AMDKFD_RW(0x08, kfd_ioctl_create_event_args)
#define AMDKFD_IOC_DESTROY_EVENT                AMDKFD_W(0x09, kfd_ioctl_destroy_event_args)
#define AMDKFD_IOC_SET_EVENT                    AMDKFD_W(0x0a, kfd_ioctl_destroy_event_args)
#define AMDKFD_IOC_RESET_EVENT                  AMDKFD_W(0x0b, kfd_ioctl_destroy_event_args)
#define AMDKFD_IOC_WAIT_EVENTS                  AMDKFD_RW(0x0c, kfd_ioctl_wait_events_args)
#define AMDKFD_IOC_DBG_REGISTER_DEPRECATED      AMDKFD_W(0x0d, kfd_ioctl_destroy_event_args)
#define AMDKFD_IOC_DBG_UNREGISTER_DEPRECATED    AMDKFD_W(0x0e, kfd_ioctl_destroy_event_args)
#define AMDKFD_IOC_DBG_ADDRESS_WATCH_DEPRECATED AMDKFD_W(0x0f, kfd_ioctl_dbg_address_watch_args)
#define AMDKFD_IOC_DBG_WAVE_CONTROL_DEPRECATED  AMDKFD_W(0x10, kfd_ioctl_dbg_address_watch_args)
#define AMDKFD_IOC_SET_SCRATCH_BACKING_VA       AMDKFD_RW(0x11, kfd_ioctl_set_scratch_backing_va_args)
#define AMDKFD_IOC_GET_TILE_CONFIG              AMDKFD_RW(0x12, kfd_ioctl_get_tile_config_args)
#define AMDKFD_IOC_SET_TRAP_HANDLER             AMDKFD_W(0x13, kfd_ioctl_set_trap_handler_args)
#define AMDKFD_IOC_GET_PROCESS_APERTURES_NEW                                                       \
	AMDKFD_RW(0x14, kfd_ioctl_get_process_apertures_new_args)
#define AMDKFD_IOC_ACQUIRE_VM            AMDKFD_W(0x15, kfd_ioctl_acquire_vm_args)
#define AMDKFD_IOC_ALLOC_MEMORY_OF_GPU   AMDKFD_RW(0x16, kfd_ioctl_alloc_memory_of_gpu_args)
#define AMDKFD_IOC_FREE_MEMORY_OF_GPU    AMDKFD_W(0x17, kfd_ioctl_free_memory_of_gpu_args)
#define AMDKFD_IOC_MAP_MEMORY_TO_GPU     AMDKFD_RW(0x18, kfd_ioctl_map_memory_to_gpu_args)
#define AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU AMDKFD_RW(0x19, kfd_ioctl_unmap_memory_from_gpu_args)
#define AMDKFD_IOC_SET_CU_MASK           AMDKFD_W(0x1a, kfd_ioctl_set_cu_mask_args)
#define AMDKFD_IOC_GET_QUEUE_WAVE_STATE  AMDKFD_RW(0x1b, kfd_ioctl_get_queue_wave_state_args)
#define AMDKFD_IOC_GET_DMABUF_INFO       AMDKFD_RW(0x1c, kfd_ioctl_get_dmabuf_info_args)
#define AMDKFD_IOC_IMPORT_DMABUF         AMDKFD_RW(0x1d, kfd_ioctl_import_dmabuf_args)
#define AMDKFD_IOC_ALLOC_QUEUE_GWS       AMDKFD_RW(0x1e, kfd_ioctl_alloc_queue_gws_args)
#define AMDKFD_IOC_SMI_EVENTS            AMDKFD_RW(0x1f, kfd_ioctl_smi_events_args)
#define AMDKFD_IOC_SVM                   AMDKFD_RW(0x20, kfd_ioctl_svm_args)
#define AMDKFD_IOC_SET_XNACK_MODE        AMDKFD_RW(0x21, kfd_ioctl_set_xnack_mode_args)
#define AMDKFD_IOC_CRIU_OP               AMDKFD_RW(0x22, kfd_ioctl_criu_args)
#define AMDKFD_IOC_AVAILABLE_MEMORY      AMDKFD_RW(0x23, kfd_ioctl_get_available_memory_args)
#define AMDKFD_IOC_EXPORT_DMABUF         AMDKFD_RW(0x24, kfd_ioctl_export_dmabuf_args)
#define AMDKFD_IOC_RUNTIME_ENABLE        AMDKFD_RW(0x25, kfd_ioctl_runtime_enable_args)
#define AMDKFD_IOC_CREATE_PROCESS        _IO('K', 0x27)
#define AMDKFD_IOC_PROFILER              AMDKFD_RW(0x28, kfd_ioctl_profiler_args)

/* The kernel's errno for "unknown queue type": it has no name in libc. */
#define KFD_ENOTSUPP 524

_Static_assert(AMDKFD_IOC_CREATE_QUEUE == 0xc0604b02, "CREATE_QUEUE");
_Static_assert(AMDKFD_IOC_SET_MEMORY_POLICY == 0x40204b04, "SET_MEMORY_POLICY");
_Static_assert(AMDKFD_IOC_GET_CLOCK_COUNTERS == 0xc0284b05, "GET_CLOCK_COUNTERS");
_Static_assert(AMDKFD_IOC_GET_PROCESS_APERTURES == 0x81904b06, "GET_PROCESS_APERTURES");
_Static_assert(AMDKFD_IOC_UPDATE_QUEUE == 0x40184b07, "UPDATE_QUEUE");
_Static_assert(AMDKFD_IOC_CREATE_EVENT == 0xc0204b08, "CREATE_EVENT");
_Static_assert(AMDKFD_IOC_WAIT_EVENTS == 0xc0184b0c, "WAIT_EVENTS");
_Static_assert(AMDKFD_IOC_GET_TILE_CONFIG == 0xc0284b12, "GET_TILE_CONFIG");
_Static_assert(AMDKFD_IOC_SET_TRAP_HANDLER == 0x40184b13, "SET_TRAP_HANDLER");
_Static_assert(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU == 0xc0284b16, "ALLOC_MEMORY_OF_GPU");
_Static_assert(AMDKFD_IOC_MAP_MEMORY_TO_GPU == 0xc0184b18, "MAP_MEMORY_TO_GPU");
_Static_assert(AMDKFD_IOC_GET_QUEUE_WAVE_STATE == 0xc0184b1b, "GET_QUEUE_WAVE_STATE");
_Static_assert(AMDKFD_IOC_GET_DMABUF_INFO == 0xc0204b1c, "GET_DMABUF_INFO");
_Static_assert(AMDKFD_IOC_IMPORT_DMABUF == 0xc0184b1d, "IMPORT_DMABUF");
_Static_assert(AMDKFD_IOC_SVM == 0xc0184b20, "SVM");
_Static_assert(AMDKFD_IOC_CRIU_OP == 0xc0384b22, "CRIU_OP");
_Static_assert(AMDKFD_IOC_PROFILER == 0xc0104b28, "PROFILER");
_Static_assert(sizeof(struct kfd_event_data) == 48, "kfd_event_data");
_Static_assert(offsetof(struct kfd_event_data, event_id) == 40, "kfd_event_data.event_id");
_Static_assert(sizeof(struct kfd_process_device_apertures) == 56, "apertures");
_Static_assert(sizeof(struct kfd_context_save_area_header) == 40, "save area header");

#endif
