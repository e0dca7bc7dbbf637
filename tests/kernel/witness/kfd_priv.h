/* The driver's structures as far as its queue, event and aperture files touch them, and the
 * functions of other files that those call; kernel_side.c has them. Names are the kernel's. */
#ifndef TESTS_KERNEL_KFD_PRIV_H
#define TESTS_KERNEL_KFD_PRIV_H

#include "shim.h"

#if __has_include(<uapi/linux/kfd_ioctl.h>)
#include <uapi/linux/kfd_ioctl.h>
#else
/* For tools that read this without the kernel's source at hand: the same names. */
#include "kfd/abi.h"
#undef KFD_MMAP_TYPE_EVENTS
#endif

#define KFD_MMAP_TYPE_EVENTS   (0x2ull << 62)
#define KFD_CWSR_TBA_TMA_SIZE  (2 * PAGE_SIZE)
#define AMDGPU_GPU_PAGE_SHIFT  12
#define GET_GPU_ID(handle)     ((u32)((handle) >> 32))
#define GET_IDR_HANDLE(handle) ((u32)(handle))
#define IP_VERSION(a, b, c)    ((a) << 16 | (b) << 8 | (c))
#define NUM_XCC(mask)          ((u32)__builtin_popcount(mask))

enum { KFD_QUEUE_TYPE_COMPUTE, KFD_QUEUE_TYPE_SDMA, KFD_QUEUE_TYPE_HIQ };
enum { KFD_QUEUE_FORMAT_PM4, KFD_QUEUE_FORMAT_AQL };
/* Only the default branch is of interest: the parts before GFX9 have their own. */
enum {
	CHIP_KAVERI = 1,
	CHIP_HAWAII,
	CHIP_CARRIZO,
	CHIP_TONGA,
	CHIP_FIJI,
	CHIP_POLARIS10,
	CHIP_POLARIS11,
	CHIP_POLARIS12,
	CHIP_VEGAM,
	CHIP_IP_DISCOVERY
};

struct amdgpu_bo {
	unsigned index;
};

struct amdgpu_bo_va {
	struct {
		struct amdgpu_bo *bo;
	} base;
	u32 queue_refcount;
};

struct amdgpu_bo_va_mapping {
	u64 start, last; /* pages */
	struct amdgpu_bo_va *bo_va;
};

struct amdgpu_vm {
	struct {
		struct amdgpu_bo *bo;
	} root;
};

struct device;

struct amdgpu_device {
	struct {
		u64 max_pfn;
	} vm_manager;
	int asic_type;
	struct device *dev;
};

struct amdgpu_task_info {
	char process_name[16], task_name[16];
	int tgid, pid;
};

struct device_queue_manager {
	u32 detect_hang_count;
};

struct kfd_dev {
	struct {
		u64 gpuvm_size;
	} shared_resources;
};

struct kfd_node {
	struct amdgpu_device *adev;
	struct kfd_dev *kfd;
	struct device_queue_manager *dqm;
	u32 id, xcc_mask, reset_seq_num;
	atomic_t sram_ecc_flag;
	spinlock_t smi_lock;
	struct list_head smi_clients;
};

struct kfd_node_properties {
	u32 gfx_target_version, simd_count, simd_per_cu, array_count, simd_arrays_per_engine;
	u32 cwsr_size, ctl_stack_size, debug_memory_size, eop_buffer_size;
};

struct kfd_topology_device {
	struct kfd_node_properties node_props;
	struct kfd_node *gpu;
};

struct qcm_process_device {
	u64 cwsr_base, ib_base;
};

struct kfd_process_device {
	struct kfd_process *process;
	struct kfd_node *dev;
	void *drm_priv;
	struct qcm_process_device qpd;
	u64 lds_base, lds_limit, scratch_base, scratch_limit, gpuvm_base, gpuvm_limit;
	bool has_reset_queue;
};

struct kfd_signal_page;

struct kfd_process {
	struct mutex event_mutex;
	struct idr event_idr;
	struct kfd_signal_page *signal_page;
	size_t signal_mapped_size, signal_event_count;
	bool signal_event_limit_reached, is_32bit_user_mode;
	u64 signal_handle;
	struct task_struct *lead_thread;
	u32 pasid, n_pdds;
	struct kfd_process_device *pdds[1];
};

struct queue_properties {
	int type, format;
	u32 queue_id, vmid, queue_percent, doorbell_off;
	u64 queue_size, queue_address;
	void *read_ptr, *write_ptr, *doorbell_ptr;
	u64 eop_ring_buffer_address, ctx_save_restore_area_address;
	u32 eop_ring_buffer_size, ctx_save_restore_area_size, ctl_stack_size;
	struct amdgpu_bo *wptr_bo, *rptr_bo, *ring_bo, *eop_buf_bo, *cwsr_bo;
};

struct queue {
	struct queue_properties properties;
	void *mqd;
	u64 gart_mqd_addr;
	struct kfd_process *process;
	struct kfd_node *device;
};

struct kfd_vm_fault_info {
	u64 page_addr;
	bool prot_valid, prot_exec, prot_write;
};

/* Never used here: checkpoints. */
struct kfd_criu_event_priv_data {
	u32 object_type;
	u64 user_handle;
	u32 event_id, auto_reset, type, signaled;
	union {
		struct kfd_hsa_memory_exception_data memory_exception_data;
		struct kfd_hsa_hw_exception_data hw_exception_data;
	};
};
enum { KFD_CRIU_OBJECT_TYPE_EVENT = 1 };

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_flags;
	int vm_page_prot;
};
enum { VM_IO, VM_DONTCOPY, VM_DONTEXPAND, VM_NORESERVE, VM_DONTDUMP, VM_PFNMAP };
#define __pa(x)                                ((unsigned long)(x))
#define vm_flags_set(vma, flags)               ((void)(flags))
#define remap_pfn_range(vma, at, pfn, n, prot) 0

/* One process, one device. */
extern struct kfd_process witness_process;
extern struct device *kfd_device;
extern int send_sigterm, kfd_processes_srcu;
#define hash_for_each_rcu(table, bucket, p, member)                                                \
	for (p = &witness_process, bucket = 0; bucket < 1; bucket++)
#define KFD_GC_VERSION(dev) IP_VERSION(11, 5, 1)

extern struct task_struct *current;
bool capable(int capability);
u64 ktime_get_boottime_ns(void);
int anon_inode_getfd(const char *name, const struct file_operations *ops, void *data, int flags);
struct amdgpu_reset_context;
void amdgpu_reset_get_desc(struct amdgpu_reset_context *context, char *to, size_t n);
u64 amdgpu_dpm_get_thermal_throttling_counter(struct amdgpu_device *adev);

struct kfd_process *kfd_lookup_process_by_pasid(u32 pasid);
struct mm_struct;
struct kfd_process *kfd_lookup_process_by_mm(const struct mm_struct *mm);
void kfd_unref_process(struct kfd_process *p);
int kfd_process_get_user_gpu_id(struct kfd_process *p, u32 id);
struct kfd_process_device *kfd_get_process_device_data(struct kfd_node *dev, struct kfd_process *p);
struct kfd_process_device *kfd_process_device_data_by_id(struct kfd_process *p, u32 id);
struct kfd_process_device *kfd_bind_process_to_device(struct kfd_node *dev, struct kfd_process *p);
struct kfd_process_device *kfd_create_process_device_data(struct kfd_node *dev,
							  struct kfd_process *p);
void *kfd_process_device_translate_handle(struct kfd_process_device *pdd, u32 handle);
int amdgpu_amdkfd_gpuvm_map_gtt_bo_to_kernel(void *mem, void **address, u64 *size);
void amdgpu_amdkfd_gpuvm_unmap_gtt_bo_from_kernel(void *mem);
struct amdgpu_task_info *amdgpu_vm_get_task_info_pasid(struct amdgpu_device *adev, u32 pasid);
void amdgpu_vm_put_task_info(struct amdgpu_task_info *info);
int kfd_topology_enum_kfd_devices(u8 id, struct kfd_node **dev);
struct kfd_topology_device *kfd_topology_device_by_id(u32 id);
int kfd_devcgroup_check_permission(struct kfd_node *dev);
struct amdgpu_vm *drm_priv_to_vm(void *drm_priv);
int amdgpu_bo_reserve(struct amdgpu_bo *bo, bool nointr);
void amdgpu_bo_unreserve(struct amdgpu_bo *bo);
struct amdgpu_bo *amdgpu_bo_ref(struct amdgpu_bo *bo);
void amdgpu_bo_unref(struct amdgpu_bo **bo);
struct amdgpu_bo_va_mapping *amdgpu_vm_bo_lookup_mapping(struct amdgpu_vm *vm, u64 page);
struct amdgpu_bo_va *amdgpu_vm_bo_find(struct amdgpu_vm *vm, struct amdgpu_bo *bo);

/* What the files define and each other's headers declare. */
int kfd_init_apertures(struct kfd_process *process);
int kfd_event_init_process(struct kfd_process *p);
void kfd_event_free_process(struct kfd_process *p);
int kfd_kmap_event_page(struct kfd_process *p, u64 event_page_offset);
int kfd_event_create(struct file *devkfd, struct kfd_process *p, u32 event_type, bool auto_reset,
		     u32 node_id, u32 *event_id, u32 *event_trigger_data, u64 *event_page_offset,
		     u32 *event_slot_index);
int kfd_event_destroy(struct kfd_process *p, u32 event_id);
int kfd_set_event(struct kfd_process *p, u32 event_id);
int kfd_reset_event(struct kfd_process *p, u32 event_id);
int kfd_wait_on_events(struct kfd_process *p, u32 num_events, void *data, bool all,
		       u32 *user_timeout_ms, u32 *wait_result);
int kfd_get_num_events(struct kfd_process *p);
void kfd_signal_event_interrupt(u32 pasid, u32 partial_id, u32 valid_id_bits);
void kfd_signal_vm_fault_event(struct kfd_node *dev, u32 pasid, struct kfd_vm_fault_info *info,
			       struct kfd_hsa_memory_exception_data *data);
void kfd_signal_reset_event(struct kfd_node *dev);
int kfd_smi_event_open(struct kfd_node *dev, u32 *fd);
void kfd_smi_event_update_vmfault(struct kfd_node *dev, u16 pasid);
void kfd_smi_event_queue_eviction(struct kfd_node *node, pid_t pid, u32 trigger);
void kfd_smi_event_queue_restore(struct kfd_node *node, pid_t pid);
void kfd_queue_ctx_save_restore_size(struct kfd_topology_device *dev);
int kfd_queue_acquire_buffers(struct kfd_process_device *pdd, struct queue_properties *properties);
int kfd_queue_release_buffers(struct kfd_process_device *pdd, struct queue_properties *properties);
int kfd_queue_unref_bo_vas(struct kfd_process_device *pdd, struct queue_properties *properties);

#endif
