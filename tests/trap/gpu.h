/* The device as a client sees it that has nothing but the kernel's interface: topology, memory, one
 * AQL queue, one kernel, one event. */
#ifndef TRAP_GPU_H
#define TRAP_GPU_H

#include "os.h"

#include "tests/clients/packets.h"
#include "tools/vgpu/kfd/abi.h"

#define PAGE       4096ul
#define EVENT_PAGE (4096ul * 8)
#define GTT                                                                                        \
	(KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |                          \
	 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED)

struct buffer {
	uint64_t handle, size;
	volatile char *at; /* the same address for both sides */
};

struct dispatch {
	uint16_t header, setup, group[3], reserved0;
	uint32_t grid[3], private_bytes, group_bytes;
	uint64_t kernel, kernarg, reserved2, signal;
};

struct completion {
	int64_t kind, value;
	uint64_t mailbox;
	uint32_t event_id, reserved1;
	uint64_t start, end, queue, reserved3;
};

struct gpu {
	long kfd, drm;
	uint32_t id, minor;
	uint64_t cwsr, ctl;
	struct buffer page, ring, pointers, eop, area, code, data;
	struct kfd_ioctl_create_queue_args q;
	volatile uint64_t *doorbells, *events;
	uint32_t event, slot;
	unsigned submitted;
};

static long read_file(const char *path, char *text, size_t n)
{
	long fd = k_open(path, O_RDONLY | O_CLOEXEC), r;

	text[0] = 0;
	if (fd < 0)
		return fd;
	r = k_read(fd, text, n - 1);
	if (r >= 0)
		text[r] = 0;
	k_close(fd);
	return r;
}

static void buffer_make(struct gpu *g, struct buffer *b, uint64_t size, uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.size = size, .gpu_id = g->id, .flags = flags};
	struct kfd_ioctl_map_memory_to_gpu_args m = {.n_devices = 1};
	long at = k_mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	a.va_addr = (uint64_t)at;
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a));
	IS(at,
	   k_mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, g->drm, a.mmap_offset));
	m.handle = a.handle;
	m.device_ids_array_ptr = (uintptr_t)&g->id;
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &m));
	IS(1, m.n_success);
	*b = (struct buffer){a.handle, size, (volatile char *)at};
}

static void buffer_drop(struct gpu *g, struct buffer *b, long want)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args m = {
		.handle = b->handle, .n_devices = 1, .device_ids_array_ptr = (uintptr_t)&g->id};
	struct kfd_ioctl_free_memory_of_gpu_args f = {b->handle};

	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &m));
	IS(0, k_munmap(b->at, b->size));
	IS(want, k_ioctl(g->kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &f));
}

static void gpu_open(struct gpu *g)
{
	char text[4096], render[] = "/dev/dri/renderD000";
	struct kfd_ioctl_get_version_args v = {0, 0};
	struct kfd_ioctl_acquire_vm_args vm;

	memset(g, 0, sizeof(*g));
	g->kfd = k_open("/dev/kfd", O_RDWR | O_CLOEXEC);
	TRUE(g->kfd >= 0);
	TRUE(read_file("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", text, sizeof(text)) > 0);
	g->id = (uint32_t)number_after(text, "");
	TRUE(g->id);
	TRUE(read_file("/sys/class/kfd/kfd/topology/nodes/1/properties", text, sizeof(text)) > 0);
	g->minor = (uint32_t)number_after(text, "drm_render_minor");
	g->cwsr = number_after(text, "cwsr_size");
	g->ctl = number_after(text, "ctl_stack_size");
	IS(110501, number_after(text, "gfx_target_version"));
	for (unsigned i = 3, m = g->minor; i; i--, m /= 10)
		render[15 + i] = (char)('0' + m % 10);
	g->drm = k_open(render, O_RDWR | O_CLOEXEC);
	TRUE(g->drm >= 0);
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_GET_VERSION, &v));
	IS(1, v.major_version);
	vm = (struct kfd_ioctl_acquire_vm_args){(uint32_t)g->drm, g->id};
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_ACQUIRE_VM, &vm));
}

/* The page of the slots is ours, so that the device's firmware reaches it too. */
static void gpu_event(struct gpu *g)
{
	struct kfd_ioctl_create_event_args e = {.event_type = KFD_IOC_EVENT_SIGNAL,
						.auto_reset = 1};

	buffer_make(g, &g->page, EVENT_PAGE, GTT);
	e.event_page_offset = g->page.handle;
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_CREATE_EVENT, &e));
	g->events = (volatile uint64_t *)g->page.at;
	g->event = e.event_id;
	g->slot = e.event_slot_index;
}

/* s_load_b64 s[2:3], s[0:1], 0; s_waitcnt; v0:1 = s2:3; v2 = 0x1234; global_store_b32 v[0:1], v2 */
static const uint32_t store_code[] = {0xf4040080, 0xf8000000, 0xbf89fc07, 0x7e000202,
				      0x7e020203, 0x7e0402ff, 0x1234,     0xdc6a0000,
				      0x007c0200, 0xbc7c0000, 0xbfb00000};

/* A kernel descriptor (LLVM AMDGPUUsage) and its code. */
static void gpu_code(struct gpu *g)
{
	volatile uint32_t *dw;

	buffer_make(g, &g->code, PAGE, GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE);
	dw = (volatile uint32_t *)g->code.at;
	dw[2] = 8;           /* kernarg size */
	dw[4] = 256;         /* entry */
	dw[12] = 0x60af0000; /* float mode, IEEE, WGP, mem ordered */
	dw[13] = 2 << 1 | 1 << 7;
	dw[14] = 1 << 3 | 1 << 10; /* kernarg pointer, wave32 */
	for (unsigned i = 0; i < 11; i++)
		dw[64 + i] = store_code[i];
	for (unsigned i = 11; i < 75; i++)
		dw[64 + i] = 0xbf9f0000; /* the prefetcher reads on */
}

static void gpu_queue(struct gpu *g)
{
	struct kfd_process_device_apertures ap;
	struct kfd_ioctl_get_process_apertures_new_args pa = {(uintptr_t)&ap, 1, 0};
	struct completion *s;
	struct amd_queue *p;
	uint64_t area = (g->cwsr + 32 * 40 * 32 + PAGE - 1) & ~(PAGE - 1);
	long at;

	buffer_make(g, &g->ring, PAGE, GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE);
	buffer_make(g, &g->pointers, PAGE, GTT);
	buffer_make(g, &g->eop, PAGE, GTT);
	buffer_make(g, &g->area, area, GTT);
	buffer_make(g, &g->data, PAGE, GTT);
	for (unsigned i = 0; i < PAGE / 64; i++)
		*(volatile uint16_t *)(g->ring.at + 64 * i) = 1; /* invalid */
	p = (struct amd_queue *)g->pointers.at;
	s = (struct completion *)(g->pointers.at + sizeof(*p));
	s[0].kind = -1;
	s[0].queue = (uintptr_t)p;
	s[1].kind = 1;
	p->features = 1; /* kernel dispatch */
	p->ring = (uintptr_t)g->ring.at;
	p->doorbell_signal = (uintptr_t)&s[0];
	p->inactive_signal = (uintptr_t)&s[1];
	p->size = PAGE / 64;
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &pa));
	p->group_aperture_hi = (uint32_t)(ap.lds_base >> 32);
	p->private_aperture_hi = (uint32_t)(ap.scratch_base >> 32);
	p->srd[1] = 0x40000000;
	p->srd[3] = 0x20814fac;
	p->max_cu_id = 39;
	p->max_wave_id = 31;
	p->read_id_offset = offsetof(struct amd_queue, read_id);
	p->properties = 2;
	g->q = (struct kfd_ioctl_create_queue_args){
		.ring_base_address = (uintptr_t)g->ring.at,
		.write_pointer_address = (uintptr_t)&p->write_id,
		.read_pointer_address = (uintptr_t)&p->read_id,
		.ring_size = PAGE,
		.gpu_id = g->id,
		.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
		.queue_percentage = 100,
		.queue_priority = 7,
		.eop_buffer_address = (uintptr_t)g->eop.at,
		.eop_buffer_size = PAGE,
		.ctx_save_restore_address = (uintptr_t)g->area.at,
		.ctx_save_restore_size = (uint32_t)g->cwsr,
		.ctl_stack_size = (uint32_t)g->ctl,
	};
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_CREATE_QUEUE, &g->q));
	at = k_mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, g->kfd,
		    g->q.doorbell_offset & ~8191ull);
	TRUE(at > 0);
	g->doorbells = (volatile uint64_t *)at;
	s[0].value = (int64_t)(uintptr_t)&g->doorbells[(g->q.doorbell_offset & 8191) / 8];
}

/* Data: the word the kernel writes at 0, its argument at 64, the signal at 128. */
static void gpu_submit(struct gpu *g)
{
	struct amd_queue *p = (struct amd_queue *)g->pointers.at;
	volatile char *slot = g->ring.at + 64 * (g->submitted % (PAGE / 64));
	struct completion *done = (struct completion *)(g->data.at + 128);
	struct dispatch d = {
		.setup = 1,
		.group = {32, 1, 1},
		.grid = {32, 1, 1},
		.kernel = (uintptr_t)g->code.at,
		.kernarg = (uintptr_t)g->data.at + 64,
		.signal = (uintptr_t)done,
	};

	*(volatile uint32_t *)g->data.at = 0;
	*(volatile uint64_t *)(g->data.at + 64) = (uintptr_t)g->data.at;
	done->kind = 1;
	done->value = 1;
	done->mailbox = (uintptr_t)&g->events[g->slot];
	done->event_id = g->event;
	memcpy((char *)slot + 4, (char *)&d + 4, 60);
	__atomic_store_n((uint32_t *)slot, 2u | 1u << 8 | 2u << 9 | 2u << 11 | 1u << 16,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&p->write_id, ++g->submitted, __ATOMIC_RELEASE);
	g->doorbells[(g->q.doorbell_offset & 8191) / 8] = g->submitted - 1;
}

static long gpu_wait(struct gpu *g, uint32_t ms)
{
	struct kfd_event_data d = {.event_id = g->event};
	struct kfd_ioctl_wait_events_args w = {
		.events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = ms};
	long r = k_ioctl(g->kfd, AMDKFD_IOC_WAIT_EVENTS, &w);

	return r ? r : (long)w.wait_result;
}

static void gpu_run(struct gpu *g)
{
	struct completion *done = (struct completion *)(g->data.at + 128);

	gpu_submit(g);
	while (__atomic_load_n(&done->value, __ATOMIC_ACQUIRE) && !failures)
		IS(0, gpu_wait(g, 100000));
	IS(0x1234, *(volatile uint32_t *)g->data.at);
}

static void gpu_close(struct gpu *g)
{
	struct kfd_ioctl_destroy_queue_args d = {g->q.queue_id, 0};
	struct kfd_ioctl_destroy_event_args e = {g->event, 0};
	struct buffer *all[] = {&g->ring, &g->pointers, &g->eop, &g->area, &g->code, &g->data};

	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_DESTROY_QUEUE, &d));
	IS(0, k_ioctl(g->kfd, AMDKFD_IOC_DESTROY_EVENT, &e));
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		buffer_drop(g, all[i], 0);
	buffer_drop(g, &g->page, -EPERM); /* the process's for good */
	IS(0, k_munmap(g->doorbells, 8192));
	IS(0, k_close(g->drm));
	IS(0, k_close(g->kfd));
}

static void gpu_make(struct gpu *g)
{
	gpu_open(g);
	gpu_event(g);
	gpu_code(g);
	gpu_queue(g);
}

#endif
