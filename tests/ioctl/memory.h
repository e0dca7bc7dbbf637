/* Groups: dispatch, process, memory, events, waits. */
#ifndef IOCTL_MEMORY_H
#define IOCTL_MEMORY_H

#include "harness.h"

static void group_dispatch(void)
{
	struct kfd_ioctl_get_version_args v = {0, 77};
	uint64_t big[32];
	void *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;
	int status;

	device_open();
	check(__LINE__, "nr 0", NR_ANY, ioctl(kfd, _IO('K', 0), NULL), ENOTTY);
	check(__LINE__, "nr 0x27", NR_ANY, ioctl(kfd, _IO('K', 0x27), NULL), ENOTTY);
	check(__LINE__, "nr 0x7f", NR_ANY, ioctl(kfd, _IO('K', 0x7f), NULL), ENOTTY);
	check(__LINE__, "short", NR_ANY, ioctl(kfd, _IOR('K', 1, uint32_t), &v), 0);
	TRUE(v.major_version == 1 && v.minor_version == 77);
	check(__LINE__, "type letter", NR_ANY, ioctl(kfd, _IOR('X', 1, uint64_t), &v), 0);
	TRUE(v.minor_version == 17);
	memset(big, 0xee, sizeof(big));
	check(__LINE__, "long", NR_ANY, ioctl(kfd, _IOC(_IOC_READ, 'K', 1, 64), big), 0);
	TRUE(big[1] == 0 && big[7] == 0 && big[8] == 0xeeeeeeeeeeeeeeee);
	WANT(EFAULT, GET_VERSION, NULL);
	WANT(EFAULT, GET_VERSION, (void *)BAD_PTR);
	WANT(EFAULT, GET_VERSION, (void *)KERNEL);
	WANT(EFAULT, GET_VERSION, ro);
	WANT(EFAULT, SET_EVENT, NULL);
	/* IOW does not copy back: a read-only argument is fine, and so its errno is the call's. */
	WANT(EINVAL, SET_EVENT, ro);
	TRUE(read(kfd, big, 8) < 0 && errno == EINVAL);
	TRUE(write(kfd, big, 8) < 0 && errno == EINVAL);
	TRUE(lseek(kfd, 0, SEEK_CUR) < 0 && errno == ESPIPE);
	pid = fork();
	if (!pid) {
		failures = 0;
		check(__LINE__, "child", NR_ANY, ioctl(kfd, AMDKFD_IOC_GET_VERSION, &v), EBADF);
		check(__LINE__, "child, bad pointer", NR_ANY,
		      ioctl(kfd, AMDKFD_IOC_GET_VERSION, NULL), EBADF);
		check(__LINE__, "child, bad nr", NR_ANY, ioctl(kfd, _IO('K', 0x7f), NULL), ENOTTY);
		close(kfd);
		kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		WANT(0, GET_VERSION, &v);
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	WANT(0, GET_VERSION, &v);
}

static void group_before_acquire(void)
{
	struct kfd_ioctl_create_queue_args q = {.gpu_id = 1, .queue_type = 2, .ring_size = 4096};
	struct kfd_ioctl_set_memory_policy_args pol = {0};
	struct kfd_ioctl_set_trap_handler_args trap = {0};
	struct kfd_ioctl_set_scratch_backing_va_args scr = {0};
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.va_addr = 0x10000, .size = 4096};
	struct kfd_ioctl_map_memory_to_gpu_args m = map_args(0);
	struct kfd_ioctl_import_dmabuf_args imp = {0};
	struct kfd_ioctl_free_memory_of_gpu_args f = {0};
	struct kfd_ioctl_create_event_args e = {0};
	struct kfd_ioctl_export_dmabuf_args ex = {0};
	struct kfd_ioctl_get_available_memory_args av = {0};
	struct svm_call svm = {0x10000, 4096, 0, 1, {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, 1}}};

	device_open();
	WANT(EINVAL, CREATE_QUEUE, &q);
	q.gpu_id = gpu;
	WANT(ESRCH, CREATE_QUEUE, &q);
	WANT(EINVAL, SET_MEMORY_POLICY, &pol);
	pol.gpu_id = gpu;
	WANT(ESRCH, SET_MEMORY_POLICY, &pol);
	WANT(EINVAL, SET_TRAP_HANDLER, &trap);
	trap.gpu_id = gpu;
	WANT(ESRCH, SET_TRAP_HANDLER, &trap);
	WANT(EINVAL, SET_SCRATCH_BACKING_VA, &scr);
	scr.gpu_id = gpu;
	WANT(ENODEV, SET_SCRATCH_BACKING_VA, &scr);
	a.flags = GTT;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a);
	a.gpu_id = gpu;
	WANT(ENODEV, ALLOC_MEMORY_OF_GPU, &a);
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	m.handle = (uint64_t)gpu << 32;
	WANT(ENODEV, MAP_MEMORY_TO_GPU, &m);
	WANT(ENOMEM, UNMAP_MEMORY_FROM_GPU, &m);
	WANT(EINVAL, IMPORT_DMABUF, &imp);
	imp.gpu_id = gpu;
	WANT(ENODEV, IMPORT_DMABUF, &imp);
	f.handle = (uint64_t)gpu << 32;
	WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
	ex.handle = f.handle;
	WANT(EINVAL, EXPORT_DMABUF, &ex);
	e.event_page_offset = 0x1234ull << 32;
	WANT(EINVAL, CREATE_EVENT, &e);
	e.event_page_offset = (uint64_t)gpu << 32;
	WANT(ENODEV, CREATE_EVENT, &e);
	check(__LINE__, "SVM", KFD_NR_SVM, ioctl(kfd, AMDKFD_IOC_SVM + (8 << 16), &svm), EINVAL);
	WANT(EINVAL, AVAILABLE_MEMORY, &av);
	av.gpu_id = gpu;
	WANT(0, AVAILABLE_MEMORY, &av);
	TRUE(av.available > 1ull << 30);
	/* The doorbells are the process's. */
	check(__LINE__, "doorbells", NR_MMAP,
	      mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
		   (off_t)(3ull << 62 | (uint64_t)gpu << 46)) == MAP_FAILED
		      ? -1
		      : 0,
	      0);
}

static void group_acquire(void)
{
	struct kfd_ioctl_acquire_vm_args a = {0xffffffff, 0};
	int null = open("/dev/null", O_RDWR), dupfd, other;

	device_open();
	a.gpu_id = gpu;
	WANT(EINVAL, ACQUIRE_VM, &a);
	a.drm_fd = (uint32_t)drm;
	a.gpu_id = 0x1234;
	WANT(EINVAL, ACQUIRE_VM, &a);
	a.gpu_id = gpu;
	a.drm_fd = (uint32_t)null;
	WANT(EINVAL, ACQUIRE_VM, &a);
	a.drm_fd = (uint32_t)kfd;
	WANT(EINVAL, ACQUIRE_VM, &a);
	a.drm_fd = (uint32_t)drm;
	WANT(0, ACQUIRE_VM, &a);
	WANT(0, ACQUIRE_VM, &a);
	dupfd = fcntl(drm, F_DUPFD_CLOEXEC, 50);
	a.drm_fd = (uint32_t)dupfd;
	WANT(0, ACQUIRE_VM, &a);
	other = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	a.drm_fd = (uint32_t)other;
	WANT(EBUSY, ACQUIRE_VM, &a);
	a.drm_fd = (uint32_t)null;
	WANT(EBUSY, ACQUIRE_VM, &a);
	a.drm_fd = (uint32_t)open("/dev/null", O_PATH); /* no file behind it */
	WANT(EINVAL, ACQUIRE_VM, &a);
}

static uint64_t boottime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void group_small(void)
{
	struct kfd_ioctl_get_clock_counters_args c = {.gpu_id = 0x1234};
	struct kfd_process_device_apertures ap[3];
	struct kfd_ioctl_get_process_apertures_new_args n = {0};
	struct kfd_ioctl_get_process_apertures_args old;
	struct kfd_ioctl_get_tile_config_args t = {.num_tile_configs = 64};
	struct kfd_ioctl_set_memory_policy_args pol = {.default_policy = 2};
	struct kfd_ioctl_set_trap_handler_args trap = {0x1000, 0x2000, 0, 0};
	struct kfd_ioctl_set_scratch_backing_va_args scr = {0x1000, 0, 0};
	struct kfd_ioctl_set_xnack_mode_args x = {-1};
	struct kfd_ioctl_get_available_memory_args before, after;
	struct kfd_ioctl_dbg_address_watch_args w = {0};
	uint64_t from;

	acquire();
	WANT(0, GET_CLOCK_COUNTERS, &c);
	TRUE(c.gpu_clock_counter == 0 && c.system_clock_freq == 1000000000);
	c.gpu_id = gpu;
	from = boottime_ns();
	WANT(0, GET_CLOCK_COUNTERS, &c);
	TRUE(from <= c.system_clock_counter && c.system_clock_counter <= boottime_ns());
	TRUE(c.gpu_clock_counter != 0);
	WANT(0, GET_PROCESS_APERTURES_NEW, &n);
	TRUE(n.num_of_nodes == 1);
	n.num_of_nodes = 3;
	n.kfd_process_device_apertures_ptr = (uintptr_t)ap;
	WANT(EINVAL, GET_PROCESS_APERTURES_NEW, &n);
	n.num_of_nodes = 2;
	WANT(0, GET_PROCESS_APERTURES_NEW, &n);
	TRUE(n.num_of_nodes == 1 && ap[0].gpu_id == gpu && ap[0].lds_base == 1ull << 48 &&
	     ap[0].scratch_base == 2ull << 48 && ap[0].gpuvm_limit == (1ull << 47) - 1);
	n.kfd_process_device_apertures_ptr = BAD_PTR;
	WANT(EFAULT, GET_PROCESS_APERTURES_NEW, &n);
	TRUE(n.num_of_nodes == 1);
	WANT(0, GET_PROCESS_APERTURES, &old);
	TRUE(old.num_of_nodes == 1 && old.process_apertures[0].gpu_id == gpu);
	WANT(EINVAL, GET_TILE_CONFIG, &t);
	t.gpu_id = gpu;
	WANT(EFAULT, GET_TILE_CONFIG, &t);
	TRUE(t.num_tile_configs == 0);
	WANT(EINVAL, SET_MEMORY_POLICY, &pol);
	pol = (struct kfd_ioctl_set_memory_policy_args){.alternate_policy = 9};
	WANT(EINVAL, SET_MEMORY_POLICY, &pol);
	pol = (struct kfd_ioctl_set_memory_policy_args){.gpu_id = gpu, .default_policy = 1};
	WANT(0, SET_MEMORY_POLICY, &pol);
	trap.gpu_id = gpu;
	WANT(0, SET_TRAP_HANDLER, &trap);
	scr.gpu_id = gpu;
	WANT(0, SET_SCRATCH_BACKING_VA, &scr);
	WANT(0, SET_XNACK_MODE, &x);
	TRUE(x.xnack_enabled == 0);
	x.xnack_enabled = 0;
	WANT(0, SET_XNACK_MODE, &x);
	x.xnack_enabled = 1;
	WANT(EPERM, SET_XNACK_MODE, &x);
	WANT(EPERM, DBG_REGISTER_DEPRECATED, &w);
	WANT(EPERM, DBG_UNREGISTER_DEPRECATED, &w);
	WANT(EPERM, DBG_ADDRESS_WATCH_DEPRECATED, &w);
	WANT(EPERM, DBG_WAVE_CONTROL_DEPRECATED, &w);
	before = after = (struct kfd_ioctl_get_available_memory_args){.gpu_id = gpu};
	WANT(0, AVAILABLE_MEMORY, &before);
	/* A VRAM allocation lowers all three terms of the minimum, a GTT one only two. */
	alloc(1 << 20, KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
	WANT(0, AVAILABLE_MEMORY, &after);
	TRUE(before.available - after.available == 1 << 20);
}

static void group_memory(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.gpu_id = gpu}, b, u;
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_free_memory_of_gpu_args f;
	uint32_t two[2] = {0, 0x1234};
	char *anon, *ro;
	volatile uint32_t *cpu;

	acquire();
	a.gpu_id = gpu;
	a.flags = GTT;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a); /* size 0 */
	a.size = 4096;
	a.flags = 0;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a); /* no placement */
	a.flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a); /* doorbells are 8192 bytes */
	a.flags = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;
	a.size = 8192;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a);
	a.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
	a.mmap_offset = 0;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a);
	a.flags = GTT | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;
	a.size = 1;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a);
	a.flags = GTT;
	a.size = 1ull << 45;
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	a.size = 4096;
	a.gpu_id = 0x1234;
	WANT(EINVAL, ALLOC_MEMORY_OF_GPU, &a);

	/* user pages */
	anon = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u = alloc_user(anon, 4 * 4096, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE);
	m = map_args(u.handle);
	WANT(0, MAP_MEMORY_TO_GPU, &m);
	a = u;
	a.mmap_offset = (uintptr_t)ro;
	a.size = 4096;
	WANT(EFAULT, ALLOC_MEMORY_OF_GPU, &a);
	a.mmap_offset = BAD_PTR & ~4095ull;
	WANT(EFAULT, ALLOC_MEMORY_OF_GPU, &a);

	/* map, unmap, free */
	b = alloc(4096, GTT);
	TRUE(b.handle >> 32 == gpu);
	m = map_args(b.handle);
	m.n_devices = 0;
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	WANT(EINVAL, UNMAP_MEMORY_FROM_GPU, &m);
	m = map_args(b.handle);
	m.n_success = 2;
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	m = map_args(b.handle);
	m.device_ids_array_ptr = BAD_PTR;
	WANT(EFAULT, MAP_MEMORY_TO_GPU, &m);
	WANT(EFAULT, UNMAP_MEMORY_FROM_GPU, &m);
	m.n_devices = 0xffffffff;
	WANT(ENOMEM, MAP_MEMORY_TO_GPU, &m);
	WANT(ENOMEM, UNMAP_MEMORY_FROM_GPU, &m);
	m = map_args((uint64_t)gpu << 32 | 0xffff);
	WANT(ENOMEM, MAP_MEMORY_TO_GPU, &m);
	WANT(ENOMEM, UNMAP_MEMORY_FROM_GPU, &m);
	m = map_args(0x1234ull << 32);
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	WANT(EINVAL, UNMAP_MEMORY_FROM_GPU, &m);
	m = map_args(b.handle);
	WANT(EINVAL, UNMAP_MEMORY_FROM_GPU, &m); /* not mapped */
	two[0] = gpu;
	m.device_ids_array_ptr = (uintptr_t)two;
	m.n_devices = 2;
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	TRUE(m.n_success == 1); /* the first one is done and stays so */
	m = map_args(b.handle);
	WANT(0, MAP_MEMORY_TO_GPU, &m); /* mapping again changes nothing */
	f.handle = b.handle;
	WANT(EBUSY, FREE_MEMORY_OF_GPU, &f);
	m.n_success = 0;
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
	WANT(0, FREE_MEMORY_OF_GPU, &f);
	WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
	f.handle = 0x1234ull << 32;
	WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
	/* VA 0 and misaligned VAs are stored; mapping them fails */
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){.size = 4096, .gpu_id = gpu, .flags = GTT};
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	m = map_args(a.handle);
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = 0x7b0000000800, .size = 4096, .gpu_id = gpu, .flags = GTT};
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	m = map_args(a.handle);
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	/* overlap */
	b = mapped(8192, GTT);
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = b.va_addr + 4096, .size = 8192, .gpu_id = gpu, .flags = GTT};
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	m = map_args(a.handle);
	WANT(EINVAL, MAP_MEMORY_TO_GPU, &m);
	/* the CPU's view: the render node of the VM, whole or in part, and nobody else's */
	cpu = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)b.mmap_offset);
	TRUE(cpu != MAP_FAILED && cpu[0] == 0);
	if (cpu != MAP_FAILED) {
		volatile uint32_t *half =
			mmap(NULL, 4096, PROT_READ, MAP_SHARED, drm, (off_t)b.mmap_offset + 4096);

		cpu[1024] = 0x12345678;
		TRUE(half != MAP_FAILED && half[0] == 0x12345678);
	}
	check(__LINE__, "beyond the buffer", NR_DRM_MMAP,
	      mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, drm, (off_t)b.mmap_offset) == MAP_FAILED
		      ? -1
		      : 0,
	      EINVAL);
	check(__LINE__, "another open", NR_DRM_MMAP,
	      mmap(NULL, 4096, PROT_READ, MAP_SHARED, open("/dev/dri/renderD128", O_RDWR),
		   (off_t)b.mmap_offset) == MAP_FAILED
		      ? -1
		      : 0,
	      EACCES);
	check(__LINE__, "user pages", NR_DRM_MMAP,
	      mmap(NULL, 4096, PROT_READ, MAP_SHARED, drm, (off_t)u.mmap_offset) == MAP_FAILED ? -1
											       : 0,
	      EPERM);
}

static void group_events(void)
{
	struct kfd_ioctl_create_event_args e = {0};
	struct kfd_ioctl_destroy_event_args d = {12345, 0};
	struct kfd_ioctl_alloc_memory_of_gpu_args page, small, user;
	struct kfd_ioctl_free_memory_of_gpu_args f;
	uint32_t memory, id;
	volatile uint64_t *slots;
	char *anon = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	acquire();
	WANT(EINVAL, SET_EVENT, &d);
	WANT(EINVAL, RESET_EVENT, &d);
	WANT(EINVAL, DESTROY_EVENT, &d);
	small = mapped(4096, GTT);
	e.event_page_offset = small.handle;
	WANT(EINVAL, CREATE_EVENT, &e);
	user = alloc_user(anon, 32768, 0);
	e.event_page_offset = user.handle;
	WANT(EINVAL, CREATE_EVENT, &e);
	e.event_page_offset = (uint64_t)gpu << 32 | 0xffff;
	WANT(EINVAL, CREATE_EVENT, &e);
	page = mapped(32768, GTT);
	slots = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)page.mmap_offset);
	e.event_page_offset = page.handle;
	WANT(0, CREATE_EVENT, &e);
	TRUE(e.event_id == 1 && e.event_slot_index == 1 && e.event_page_offset == 2ull << 62);
	TRUE(slots != MAP_FAILED && slots[1] == UINT64_MAX && slots[4095] == UINT64_MAX);
	e.event_page_offset = page.handle;
	WANT(EINVAL, CREATE_EVENT, &e); /* only once */
	f.handle = page.handle;
	WANT(EPERM, FREE_MEMORY_OF_GPU, &f);
	for (unsigned i = 2; i < 4096; i++) {
		id = event_create(KFD_IOC_EVENT_SIGNAL, false);
		if (id != i) {
			TRUE(id == i);
			break;
		}
	}
	e = (struct kfd_ioctl_create_event_args){.event_type = KFD_IOC_EVENT_SIGNAL};
	WANT(ENOSPC, CREATE_EVENT, &e);
	memory = event_create(KFD_IOC_EVENT_MEMORY, false);
	TRUE(memory >= 0x40000000);
	TRUE(event_create(0xffffffff, false) == memory + 1);
	d.event_id = memory;
	WANT(EINVAL, SET_EVENT, &d);
	WANT(EINVAL, RESET_EVENT, &d);
	WANT(0, DESTROY_EVENT, &d);
	d.event_id = 7;
	WANT(0, SET_EVENT, &d);
	TRUE(slots[7] == UINT64_MAX); /* the CPU's set does not touch the slot */
	WANT(0, RESET_EVENT, &d);
	WANT(0, DESTROY_EVENT, &d);
	TRUE(event_create(KFD_IOC_EVENT_DEBUG_EVENT, false) == 7);
	WANT(EINVAL, SET_EVENT, &d); /* a debug event */
}

static uint32_t wait_ids(const uint32_t *ids, unsigned n, bool all, uint32_t ms, int want)
{
	struct kfd_event_data d[8] = {0};
	struct kfd_ioctl_wait_events_args w = {(uintptr_t)d, n, all, ms, 77};

	for (unsigned i = 0; i < n; i++)
		d[i].event_id = ids[i];
	WANT(want, WAIT_EVENTS, &w);
	return w.wait_result;
}

static pid_t leader; /* the thread that waits */

static void *destroy_later(void *arg)
{
	struct kfd_ioctl_destroy_event_args d = {*(uint32_t *)arg, 0};

	until_asleep(&leader);
	ioctl(kfd, AMDKFD_IOC_DESTROY_EVENT, &d);
	return NULL;
}

static void *set_later(void *arg)
{
	struct kfd_ioctl_destroy_event_args d = {*(uint32_t *)arg, 0};

	until_asleep(&leader);
	ioctl(kfd, AMDKFD_IOC_SET_EVENT, &d);
	return NULL;
}

struct waits {
	uint32_t id;
	pid_t tid;
};

static void *wait_for_it(void *arg)
{
	struct waits *it = arg;
	struct kfd_event_data d = {.event_id = it->id};
	struct kfd_ioctl_wait_events_args w = {(uintptr_t)&d, 1, 0, patience, 77};

	__atomic_store_n(&it->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	return (void *)(uintptr_t)(ioctl(kfd, AMDKFD_IOC_WAIT_EVENTS, &w) ? 100 : w.wait_result);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static bool alarmed; /* atomic */

static void *alarm_it(void *arg)
{
	until_asleep(&leader);
	syscall(SYS_tgkill, getpid(), leader, SIGALRM);
	__atomic_store_n(&alarmed, true, __ATOMIC_RELEASE);
	return arg;
}

/* A wait during which a signal comes. False: it was over before. */
static bool wait_alarmed(int want, struct kfd_ioctl_wait_events_args *w)
{
	pthread_t t;
	bool in_time;

	alarmed = false;
	TRUE(pthread_create(&t, NULL, alarm_it, NULL) == 0);
	check(__LINE__, "WAIT_EVENTS", KFD_NR_WAIT_EVENTS, ioctl(kfd, AMDKFD_IOC_WAIT_EVENTS, w),
	      want);
	in_time = __atomic_load_n(&alarmed, __ATOMIC_ACQUIRE);
	pthread_join(t, NULL);
	return in_time;
}

/* The age of a signal event, which is consumed if it was set. */
static uint64_t wait_age(uint32_t id)
{
	struct kfd_event_data d = {.event_id = id};
	struct kfd_ioctl_wait_events_args w = {(uintptr_t)&d, 1, 0, 0, 77};

	d.signal_event_data.last_event_age = ~0ull;
	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	return d.signal_event_data.last_event_age;
}

static void group_waits(void)
{
	enum { TRIES = 10 }; /* where the signal has to come in time */
	struct kfd_event_data d = {0}, two[2];
	struct kfd_ioctl_wait_events_args w = {0};
	struct kfd_ioctl_destroy_event_args s = {0};
	struct sigaction sa = {.sa_handler = on_alarm};
	uint32_t man, aut, bad[2], pair[2];
	struct waits three[3];
	pthread_t t[3];
	uint64_t start, age = 0;
	void *r;

	leader = (pid_t)syscall(SYS_gettid);
	device_open();
	man = event_create(KFD_IOC_EVENT_SIGNAL, false);
	aut = event_create(KFD_IOC_EVENT_SIGNAL, true);
	TRUE(wait_ids(&man, 1, false, 0, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	start = now_ns();
	TRUE(wait_ids(&man, 1, false, 20, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	TRUE(now_ns() - start >= 20000000);
	/* a jiffy of 4 ms, rounded up, and one more */
	start = now_ns();
	TRUE(wait_ids(&man, 1, false, 1, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	TRUE(now_ns() - start >= 8000000);
	s.event_id = man;
	WANT(0, SET_EVENT, &s);
	TRUE(wait_ids(&man, 1, false, 0xffffffff, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(wait_ids(&man, 1, false, 0, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
	s.event_id = aut;
	WANT(0, SET_EVENT, &s);
	TRUE(wait_ids(&aut, 1, false, 0, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(wait_ids(&aut, 1, false, 0, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	/* a failing wait has consumed what came before */
	WANT(0, SET_EVENT, &s);
	bad[0] = aut;
	bad[1] = 4000;
	TRUE(wait_ids(bad, 2, false, 0, EINVAL) == KFD_IOC_WAIT_RESULT_FAIL);
	TRUE(wait_ids(&aut, 1, false, 0, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	pair[0] = man;
	pair[1] = aut;
	TRUE(wait_ids(pair, 2, false, 0, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(wait_ids(pair, 2, true, 0, 0) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	w = (struct kfd_ioctl_wait_events_args){0, 1, 0, 0, 77};
	WANT(EFAULT, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_FAIL);
	w = (struct kfd_ioctl_wait_events_args){0, 0x10000000, 0, 0, 77};
	WANT(ENOMEM, WAIT_EVENTS, &w);
	w = (struct kfd_ioctl_wait_events_args){0, 0, 0, 0xffffffff, 77};
	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	/* ages: an older one completes at once and is brought up to date */
	d.event_id = aut;
	d.signal_event_data.last_event_age = 1;
	w = (struct kfd_ioctl_wait_events_args){(uintptr_t)&d, 1, 0, 0, 77};
	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(d.signal_event_data.last_event_age == 3);
	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT);
	/* one set wakes all waiters of an auto-reset event */
	for (int i = 0; i < 3; i++) {
		three[i] = (struct waits){aut, 0};
		pthread_create(&t[i], NULL, wait_for_it, &three[i]);
	}
	for (int i = 0; i < 3; i++)
		until_asleep(&three[i].tid);
	s.event_id = aut;
	WANT(0, SET_EVENT, &s);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], &r);
		TRUE(r == (void *)KFD_IOC_WAIT_RESULT_COMPLETE);
	}
	/* other threads' calls go on while one waits */
	s.event_id = man;
	WANT(0, RESET_EVENT, &s);
	pthread_create(&t[0], NULL, set_later, &man);
	TRUE(wait_ids(&man, 1, false, 0xffffffff, 0) == KFD_IOC_WAIT_RESULT_COMPLETE);
	pthread_join(t[0], NULL);
	WANT(0, RESET_EVENT, &s);
	pthread_create(&t[0], NULL, destroy_later, &man);
	TRUE(wait_ids(&man, 1, false, patience, EIO) == KFD_IOC_WAIT_RESULT_FAIL);
	pthread_join(t[0], NULL);
	/* a signal: EINTR with what is left of the time, or a restart */
	sigaction(SIGALRM, &sa, NULL);
	d = (struct kfd_event_data){.event_id = aut};
	w = (struct kfd_ioctl_wait_events_args){(uintptr_t)&d, 1, 0, 1000000, 77};
	wait_alarmed(EINTR, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_FAIL && w.timeout < 1000000 && w.timeout > 1000);
	sa.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &sa, NULL);
	w = (struct kfd_ioctl_wait_events_args){(uintptr_t)&d, 1, 0, 500, 77};
	start = now_ns();
	wait_alarmed(0, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT && now_ns() - start >= 500000000);
	/* With no handler left that wants it otherwise, the time at the last restart is seen. */
	for (int i = 1; i < 64; i++) {
		if (i != SIGALRM)
			signal(i, SIG_DFL);
	}
	for (unsigned i = 0; i < TRIES; i++) {
		w = (struct kfd_ioctl_wait_events_args){(uintptr_t)&d, 1, 0, 3000, 77};
		start = now_ns();
		if (wait_alarmed(0, &w))
			break;
	}
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT && now_ns() - start >= 3000000000);
	/* It had slept for 60 ms and more. */
	TRUE(w.timeout > 0 && w.timeout <= 2944 && w.timeout % 4 == 0);
	/* What it had consumed is set again by each restart: two waits, one age more. */
	s.event_id = aut;
	WANT(0, SET_EVENT, &s);
	man = event_create(KFD_IOC_EVENT_SIGNAL, false);
	memset(two, 0, sizeof(two));
	two[0].event_id = aut;
	two[1].event_id = man;
	for (unsigned i = 0; i < TRIES; i++) {
		age = wait_age(aut);
		WANT(0, SET_EVENT, &s);
		w = (struct kfd_ioctl_wait_events_args){(uintptr_t)two, 2, 1, 2000, 77};
		if (wait_alarmed(0, &w))
			break;
	}
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT);
	TRUE(wait_age(aut) == age + 2);
}

#endif
