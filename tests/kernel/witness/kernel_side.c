/* The kernel's side: one process on one GC 11.5.1 device, and witness.h over the kernel's code. */
#include "kfd_priv.h"
#include "witness.h"

static struct amdgpu_device adev = {.vm_manager = {1ull << 36}, .asic_type = CHIP_IP_DISCOVERY};
static struct kfd_dev kfd;
static struct device_queue_manager dqm;
static struct kfd_node node = {.adev = &adev, .kfd = &kfd, .dqm = &dqm, .id = 1, .xcc_mask = 1};
static struct kfd_topology_device topology = {.gpu = &node};
static struct kfd_process_device pdd = {.process = &witness_process, .dev = &node};
static struct task_struct lead;
static struct amdgpu_task_info task_info;

struct kfd_process witness_process;
struct device *kfd_device;
int send_sigterm, kfd_processes_srcu;

/* ---- what other files of the driver would answer ------------------------------------------ */

struct kfd_process *kfd_lookup_process_by_pasid(u32 pasid)
{
	(void)pasid;
	return &witness_process;
}

void kfd_unref_process(struct kfd_process *p)
{
	(void)p;
}

int kfd_process_get_user_gpu_id(struct kfd_process *p, u32 id)
{
	(void)p;
	return (int)id;
}

struct kfd_process_device *kfd_get_process_device_data(struct kfd_node *dev, struct kfd_process *p)
{
	(void)dev;
	(void)p;
	return &pdd;
}

struct kfd_process_device *kfd_process_device_data_by_id(struct kfd_process *p, u32 id)
{
	(void)p;
	(void)id;
	return &pdd;
}

struct kfd_process_device *kfd_bind_process_to_device(struct kfd_node *dev, struct kfd_process *p)
{
	return kfd_get_process_device_data(dev, p);
}

struct kfd_process_device *kfd_create_process_device_data(struct kfd_node *dev,
							  struct kfd_process *p)
{
	return kfd_get_process_device_data(dev, p);
}

struct amdgpu_task_info *amdgpu_vm_get_task_info_pasid(struct amdgpu_device *dev, u32 pasid)
{
	(void)dev;
	(void)pasid;
	return &task_info;
}

void amdgpu_vm_put_task_info(struct amdgpu_task_info *info)
{
	(void)info;
}

int kfd_topology_enum_kfd_devices(u8 id, struct kfd_node **dev)
{
	*dev = &node;
	return id ? -1 : 0;
}

struct kfd_topology_device *kfd_topology_device_by_id(u32 id)
{
	(void)id;
	return &topology;
}

int kfd_devcgroup_check_permission(struct kfd_node *dev)
{
	(void)dev;
	return 0;
}

/* ---- sizes and apertures ------------------------------------------------------------------ */

static void set_cus(uint32_t cus)
{
	topology.node_props = (struct kfd_node_properties){
		.gfx_target_version = 110501,
		.simd_count = 2 * cus,
		.simd_per_cu = 2,
		.array_count = 4,
		.simd_arrays_per_engine = 2,
	};
	kfd_queue_ctx_save_restore_size(&topology);
}

void witness_sizes(uint32_t cus, struct witness_sizes *out)
{
	const struct kfd_node_properties *n = &topology.node_props;

	set_cus(cus);
	*out = (struct witness_sizes){n->cwsr_size, n->ctl_stack_size, n->debug_memory_size,
				      n->eop_buffer_size};
}

int witness_apertures(uint64_t gpuvm_size, struct witness_apertures *out)
{
	int err;

	kfd.shared_resources.gpuvm_size = gpuvm_size;
	err = kfd_init_apertures(&witness_process);
	*out = (struct witness_apertures){pdd.lds_base,      pdd.lds_limit,  pdd.scratch_base,
					  pdd.scratch_limit, pdd.gpuvm_base, pdd.gpuvm_limit};
	return err;
}

/* ---- queue buffers ------------------------------------------------------------------------ */

static struct amdgpu_vm vm;
static struct amdgpu_bo bos[WITNESS_BUFFERS];
static struct amdgpu_bo_va bo_vas[WITNESS_BUFFERS];
static struct amdgpu_bo_va_mapping mappings[2 * WITNESS_BUFFERS];
static unsigned n_mappings;
static struct queue_properties held;

struct amdgpu_vm *drm_priv_to_vm(void *drm_priv)
{
	(void)drm_priv;
	return &vm;
}

int amdgpu_bo_reserve(struct amdgpu_bo *bo, bool nointr)
{
	(void)bo;
	(void)nointr;
	return 0;
}

void amdgpu_bo_unreserve(struct amdgpu_bo *bo)
{
	(void)bo;
}

struct amdgpu_bo *amdgpu_bo_ref(struct amdgpu_bo *bo)
{
	return bo;
}

void amdgpu_bo_unref(struct amdgpu_bo **bo)
{
	*bo = NULL;
}

struct amdgpu_bo_va_mapping *amdgpu_vm_bo_lookup_mapping(struct amdgpu_vm *v, u64 page)
{
	(void)v;
	for (unsigned i = 0; i < n_mappings; i++)
		if (mappings[i].start <= page && page <= mappings[i].last)
			return &mappings[i];
	return NULL;
}

struct amdgpu_bo_va *amdgpu_vm_bo_find(struct amdgpu_vm *v, struct amdgpu_bo *bo)
{
	(void)v;
	return &bo_vas[bo->index];
}

void witness_vm_clear(void)
{
	n_mappings = 0;
}

void witness_vm_map(unsigned buffer, uint64_t va, uint64_t bytes, bool twice)
{
	u64 start = va >> AMDGPU_GPU_PAGE_SHIFT, pages = bytes >> AMDGPU_GPU_PAGE_SHIFT;

	bos[buffer].index = buffer;
	bo_vas[buffer].base.bo = &bos[buffer];
	bo_vas[buffer].queue_refcount = 0;
	for (unsigned i = twice ? 2 : 1; i; i--, start += pages)
		mappings[n_mappings++] =
			(struct amdgpu_bo_va_mapping){start, start + pages - 1, &bo_vas[buffer]};
}

int witness_queue_acquire(const struct witness_queue *q, uint32_t cus)
{
	set_cus(cus);
	held = (struct queue_properties){
		.type = q->sdma ? KFD_QUEUE_TYPE_SDMA : KFD_QUEUE_TYPE_COMPUTE,
		.format = q->aql ? KFD_QUEUE_FORMAT_AQL : KFD_QUEUE_FORMAT_PM4,
		.queue_size = q->ring_bytes,
		.queue_address = q->ring,
		.read_ptr = (void *)q->rptr,
		.write_ptr = (void *)q->wptr,
		.eop_ring_buffer_address = q->eop,
		.eop_ring_buffer_size = q->eop_bytes,
		.ctx_save_restore_area_address = q->cwsr,
		.ctx_save_restore_area_size = q->cwsr_bytes,
		.ctl_stack_size = q->ctl_stack_bytes,
	};
	return kfd_queue_acquire_buffers(&pdd, &held);
}

void witness_queue_release(void)
{
	kfd_queue_unref_bo_vas(&pdd, &held);
	kfd_queue_release_buffers(&pdd, &held);
}

uint32_t witness_queue_refs(unsigned buffer)
{
	return bo_vas[buffer].queue_refcount;
}

/* ---- events ------------------------------------------------------------------------------- */

static void *event_page;
static uint64_t event_page_bytes;

void *kfd_process_device_translate_handle(struct kfd_process_device *device, u32 handle)
{
	(void)device;
	(void)handle;
	return event_page;
}

int amdgpu_amdkfd_gpuvm_map_gtt_bo_to_kernel(void *mem, void **address, u64 *size)
{
	*address = mem;
	*size = event_page_bytes;
	return 0;
}

void amdgpu_amdkfd_gpuvm_unmap_gtt_bo_from_kernel(void *mem)
{
	(void)mem;
}

int witness_events_start(void *page, uint64_t bytes)
{
	static bool started;

	if (started)
		kfd_event_free_process(&witness_process);
	started = true;
	witness_process = (struct kfd_process){.lead_thread = &lead};
	event_page = page;
	event_page_bytes = bytes;
	return kfd_event_init_process(&witness_process);
}

/* The address is the first member of a structure that only kfd_events.c knows. */
uint64_t *witness_event_page(void)
{
	return witness_process.signal_page ? *(uint64_t **)witness_process.signal_page : NULL;
}

/* As the ioctl does it: the page first, and nothing else if that fails. */
int witness_event_create(uint64_t page_handle, uint32_t type, bool auto_reset,
			 struct witness_event *out)
{
	int err = page_handle ? kfd_kmap_event_page(&witness_process, page_handle) : 0;

	if (err)
		return err;
	return kfd_event_create(NULL, &witness_process, type, auto_reset, 0, &out->id,
				&out->trigger, &out->page_offset, &out->slot);
}

int witness_event_destroy(uint32_t id)
{
	return kfd_event_destroy(&witness_process, id);
}

int witness_event_set(uint32_t id)
{
	return kfd_set_event(&witness_process, id);
}

int witness_event_reset(uint32_t id)
{
	return kfd_reset_event(&witness_process, id);
}

int witness_event_wait(void *data, uint32_t n, bool all, uint32_t *timeout_ms, uint32_t *result)
{
	return kfd_wait_on_events(&witness_process, n, data, all, timeout_ms, result);
}

void witness_event_interrupt(uint32_t id, uint32_t valid_bits)
{
	kfd_signal_event_interrupt(0, id, valid_bits);
}

void witness_event_vm_fault(const void *data)
{
	struct kfd_hsa_memory_exception_data d;

	memcpy(&d, data, sizeof(d));
	kfd_signal_vm_fault_event(&node, 0, NULL, &d);
}

void witness_event_gpu_reset(uint32_t gpu_id)
{
	node.id = gpu_id;
	kfd_signal_reset_event(&node);
}

/* ---- SMI streams -------------------------------------------------------------------------- */

enum { SMI_CLIENTS = 8 };
static struct task_struct caller;
static bool caller_admin;
static uint64_t smi_ns;
static const struct file_operations *smi_ops;
static struct file smi_files[SMI_CLIENTS];

struct task_struct *current = &caller;

bool capable(int capability)
{
	return capability == CAP_SYS_ADMIN && caller_admin;
}

u64 ktime_get_boottime_ns(void)
{
	return smi_ns;
}

int anon_inode_getfd(const char *name, const struct file_operations *ops, void *data, int flags)
{
	(void)name;
	(void)flags;
	smi_ops = ops;
	for (int i = 0; i < SMI_CLIENTS; i++) {
		if (!smi_files[i].private_data) {
			smi_files[i].private_data = data;
			return i;
		}
	}
	return -EMFILE;
}

void amdgpu_reset_get_desc(struct amdgpu_reset_context *context, char *to, size_t n)
{
	(void)context;
	if (n)
		*to = 0;
}

u64 amdgpu_dpm_get_thermal_throttling_counter(struct amdgpu_device *dev)
{
	(void)dev;
	return 0;
}

struct kfd_process *kfd_lookup_process_by_mm(const struct mm_struct *mm)
{
	(void)mm;
	return &witness_process;
}

void witness_smi_time(uint64_t ns)
{
	smi_ns = ns;
}

int witness_smi_open(int pid, bool admin)
{
	u32 fd;
	int err;

	if (!node.smi_clients.next)
		INIT_LIST_HEAD(&node.smi_clients);
	caller.pid = caller.tgid = pid;
	caller_admin = admin;
	err = kfd_smi_event_open(&node, &fd);
	return err ? err : (int)fd;
}

long witness_smi_write(int client, const void *buf, unsigned long n)
{
	return smi_ops->write(&smi_files[client], buf, n, NULL);
}

long witness_smi_read(int client, void *buf, unsigned long n)
{
	return smi_ops->read(&smi_files[client], buf, n, NULL);
}

bool witness_smi_readable(int client)
{
	return smi_ops->poll(&smi_files[client], NULL) & EPOLLIN;
}

void witness_smi_close(int client)
{
	smi_ops->release(NULL, &smi_files[client]);
	smi_files[client].private_data = NULL;
}

void witness_smi_vmfault(int pid, int tgid, const char *name)
{
	task_info = (struct amdgpu_task_info){.tgid = tgid, .pid = pid};
	snprintf(task_info.task_name, sizeof(task_info.task_name), "%s", name);
	kfd_smi_event_update_vmfault(&node, 0);
}

void witness_smi_evict(int pid, uint32_t gpu_id, uint32_t trigger)
{
	node.id = gpu_id;
	kfd_smi_event_queue_eviction(&node, pid, trigger);
}

void witness_smi_restore(int pid, uint32_t gpu_id)
{
	node.id = gpu_id;
	kfd_smi_event_queue_restore(&node, pid);
}
