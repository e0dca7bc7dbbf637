/* Groups: SVM, SMI, eviction, dma-buf, CRIU, mmap, limits, other configurations. */
#ifndef IOCTL_DEVICE_H
#define IOCTL_DEVICE_H

#include "harness.h"

static void group_svm(void)
{
	struct svm_call v = {0};
	struct kfd_ioctl_alloc_memory_of_gpu_args a, bo;
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d;
	char *mem = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const unsigned cmd1 = AMDKFD_IOC_SVM + (8 << 16), cmd3 = AMDKFD_IOC_SVM + (24 << 16);

#define SVM(err, cmd) check(__LINE__, "SVM", KFD_NR_SVM, ioctl(kfd, cmd, &v), err)
	acquire();
	v = (struct svm_call){(uintptr_t)mem, AREA, 0, 3, {{0}}};
	v.a[0] = (struct kfd_ioctl_svm_attribute){KFD_IOCTL_SVM_ATTR_ACCESS, gpu};
	v.a[1] = (struct kfd_ioctl_svm_attribute){KFD_IOCTL_SVM_ATTR_SET_FLAGS,
						  KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED};
	v.a[2] = (struct kfd_ioctl_svm_attribute){KFD_IOCTL_SVM_ATTR_GRANULARITY, 0xff};
	SVM(EINVAL, cmd1); /* the size does not cover the attributes */
	v.start_addr += 1;
	SVM(EINVAL, cmd3);
	v.start_addr = 0;
	SVM(EINVAL, cmd3);
	v.start_addr = (uintptr_t)mem;
	v.op = 7;
	SVM(EINVAL, cmd3);
	v.op = 0;
	v.a[0].value = 0x1234;
	SVM(EINVAL, cmd3);
	v.a[0].value = gpu;
	v.a[2].type = 8;
	SVM(EINVAL, cmd3);
	v.a[2].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	v.size = ~0xfffull;
	SVM(EOVERFLOW, cmd3);
	v.size = AREA;
	v.start_addr = BAD_PTR & ~0xfffull;
	SVM(EFAULT, cmd3);
	bo = mapped(4096, GTT);
	mmap((void *)bo.va_addr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	v.start_addr = bo.va_addr;
	v.size = 4096;
	SVM(EADDRINUSE, cmd3);
	v.start_addr = (uintptr_t)mem;
	v.size = AREA;
	SVM(0, cmd3);
	v.op = 1;
	v.a[1].type = KFD_IOCTL_SVM_ATTR_SET_FLAGS;
	SVM(0, cmd3);
	TRUE(v.a[0].type == KFD_IOCTL_SVM_ATTR_ACCESS);
	TRUE(v.a[1].value == 0x43 && v.a[2].value == 0x3f);
	v.a[0].type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
	SVM(EINVAL, cmd3);
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = (uintptr_t)mem, .size = 4096, .gpu_id = 0x1234, .flags = GTT};
	WANT(EADDRINUSE, ALLOC_MEMORY_OF_GPU, &a); /* before the gpu_id is looked at */
	/* a save area in SVM memory */
	q = queue_args();
	q.ctx_save_restore_address = (uintptr_t)mem;
	WANT(0, CREATE_QUEUE, &q);
	d.queue_id = q.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
	q.ctx_save_restore_size = CWSR + 4096; /* reaches behind the range */
	WANT(EINVAL, CREATE_QUEUE, &q);
}

static void group_no_svm(void)
{
	struct svm_call v = {.start_addr = 0x10000, .size = 4096};
	struct kfd_ioctl_set_xnack_mode_args x = {-1};

	acquire();
	WANT(EPERM, SVM, &v);
	WANT(EPERM, SET_XNACK_MODE, &x);
}

static void group_smi(void)
{
	struct kfd_ioctl_smi_events_args a = {0x1234, 0};
	uint64_t mask = ~0ull;
	struct pollfd p;
	char buf[64];
	int fd, status;
	pid_t pid;

	device_open();
	WANT(EINVAL, SMI_EVENTS, &a);
	a.gpuid = gpu;
	WANT(0, SMI_EVENTS, &a);
	fd = (int)a.anon_fd;
	check(__LINE__, "read", NR_SMI_READ, read(fd, buf, sizeof(buf)), EAGAIN);
	check(__LINE__, "short write", NR_SMI_WRITE, write(fd, &mask, 4), EFAULT);
	check(__LINE__, "bad write", NR_SMI_WRITE, write(fd, (void *)BAD_PTR, 8), EFAULT);
	check(__LINE__, "write", NR_SMI_WRITE, write(fd, &mask, 8) == 8 ? 0 : -1, 0);
	p = (struct pollfd){fd, POLLIN, 0};
	TRUE(poll(&p, 1, 0) == 0);
	TRUE(!(fcntl(fd, F_GETFD) & FD_CLOEXEC));
	/* no more fds */
	pid = fork();
	if (!pid) {
		failures = 0;
		kfd = open("/dev/kfd", O_RDWR);
		while (dup(0) >= 0)
			;
		WANT(EMFILE, SMI_EVENTS, &a);
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
}

static uint64_t evicted_ms(void)
{
	return proc_number("stats_%u/evicted_ms", gpu);
}

/* An eviction, seen in the stream: text, order, clock, and the process's own counters. */
static void group_eviction(void)
{
	struct kfd_ioctl_smi_events_args a = {0};
	struct kfd_ioctl_alloc_memory_of_gpu_args u = {0};
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_create_queue_args q;
	char *anon = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[512], want[64];
	uint64_t mask = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
			KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE);
	struct pollfd p;
	ssize_t n = 0, r;

	acquire();
	a.gpuid = gpu;
	WANT(0, SMI_EVENTS, &a);
	TRUE(write((int)a.anon_fd, &mask, 8) == 8);
	u = alloc_user(anon, 8192, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE);
	m = map_args(u.handle);
	WANT(0, MAP_MEMORY_TO_GPU, &m);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	TRUE(mprotect(anon, 4096, PROT_READ) == 0);
	TRUE(mprotect(anon, 4096, PROT_READ | PROT_WRITE) == 0);
	p = (struct pollfd){(int)a.anon_fd, POLLIN, 0};
	for (uint64_t end = now_ns() + patience * 1000000ull;
	     now_ns() < end && n < (ssize_t)sizeof(text) - 1;) {
		text[n] = 0;
		if (strstr(n ? text : "", " 0\n"))
			break;
		poll(&p, 1, 20);
		r = read((int)a.anon_fd, text + n, sizeof(text) - 1 - (size_t)n);
		n += r > 0 ? r : 0;
	}
	text[n] = 0;
	snprintf(want, sizeof(want), " -%d %x 1\n", getpid(), gpu);
	TRUE(!strncmp(text, "9 ", 2));
	TRUE(strstr(text, want) != NULL);
	snprintf(want, sizeof(want), " -%d %x 0\n", getpid(), gpu);
	TRUE(strstr(text, "\na ") && strstr(text, want));
	TRUE(evicted_ms() != ~0ull);
}

/* Somebody else wants the memory: trigger TTM, back after at least 100 ms, counted then. */
static void group_pressure(void)
{
	struct kfd_ioctl_smi_events_args a = {0};
	struct kfd_ioctl_create_queue_args q;
	uint64_t mask = ~0ull, start = now_ns();
	char text[512] = "", want[64];
	struct pollfd p;
	uint64_t ms;
	int n = 0;

	acquire();
	a.gpuid = gpu;
	WANT(0, SMI_EVENTS, &a);
	TRUE(write((int)a.anon_fd, &mask, 8) == 8);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	p = (struct pollfd){(int)a.anon_fd, POLLIN, 0};
	TRUE(poll(&p, 1, (int)patience) == 1);
	ms = evicted_ms();
	while (n < (int)sizeof(text) - 1 && now_ns() - start < patience * 1000000ull) {
		ssize_t r = read((int)a.anon_fd, text + n, sizeof(text) - 1 - (size_t)n);

		n += r > 0 ? (int)r : 0;
		text[n] = 0;
		if (strstr(text, "\na "))
			break;
		TRUE(ms == 0); /* it moves at the restore only */
		poll(&p, 1, 50);
	}
	TRUE(now_ns() - start >= 120000000);
	snprintf(want, sizeof(want), " -%d %x 2\n", getpid(), gpu);
	TRUE(!strncmp(text, "9 ", 2) && strstr(text, want));
	/* Said before it is done. */
	while (evicted_ms() < 100 && now_ns() - start < patience * 1000000ull)
		usleep(1000);
	TRUE(evicted_ms() >= 100);
}

/* A buffer of the render node with metadata, as a dma-buf. */
static int graphics_dmabuf(void)
{
	union {
		struct {
			uint64_t size, alignment, domains, flags;
		} in;
		uint32_t handle;
	} create = {{8192, 4096, 2 /* GTT */, 0}};
	struct {
		uint32_t handle, op; /* 1: set */
		uint64_t flags, tiling;
		uint32_t size, data[64];
	} metadata = {.op = 1, .size = 12, .data = {1, 2, 3}};
	struct {
		uint32_t handle, flags;
		int32_t fd;
	} prime = {0};

	TRUE(ioctl(drm, _IOWR('d', 0x40, create), &create) == 0);
	metadata.handle = prime.handle = create.handle;
	TRUE(ioctl(drm, _IOWR('d', 0x46, metadata), &metadata) == 0);
	TRUE(ioctl(drm, _IOWR('d', 0x2d, prime), &prime) == 0);
	return prime.fd;
}

/* The DRM core's own: capabilities, and calls that only the primary node has. */
static void drm_core(void)
{
	static const struct {
		uint64_t cap, value;
	} caps[] = {{1, 1}, {3, 24}, {5, 3}, {6, 1}, {8, 256}, {0x11, 0}, {0x13, 1}, {0x14, 1}};
	static const unsigned primary[] = {0x01, 0x05, 0x0a, 0x0d, 0x1e, 0x3a, 0xa0, 0xb2, 0xc6};
	struct {
		uint64_t cap, value;
	} c;
	char room[64] = "";

	for (unsigned i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		c.cap = caps[i].cap;
		c.value = 99;
		TRUE(ioctl(drm, _IOWR('d', 0x0c, c), &c) == 0 && c.value == caps[i].value);
	}
	c.cap = 0x0a; /* none */
	TRUE(ioctl(drm, _IOWR('d', 0x0c, c), &c) < 0 && errno == EINVAL);
	for (unsigned i = 0; i < sizeof(primary) / sizeof(primary[0]); i++)
		TRUE(ioctl(drm, _IOWR('d', primary[i], room), room) < 0 && errno == EACCES);
	TRUE(ioctl(drm, _IOWR('d', 0x01, room), NULL) < 0 && errno == EFAULT);
	TRUE(ioctl(drm, _IOWR('d', 0x20, room), room) < 0 && errno == EINVAL);
}

/* What a graphics driver left with its buffer. */
static void dmabuf_metadata(void)
{
	struct kfd_ioctl_get_dmabuf_info_args in = {.gpu_id = 77};
	uint32_t data[4] = {0};

	in.dmabuf_fd = (uint32_t)graphics_dmabuf();
	WANT(EINVAL, GET_DMABUF_INFO, &in);
	TRUE(in.metadata_size == 12 && in.size == 8192 && in.gpu_id == 77);
	in.metadata_ptr = BAD_PTR;
	WANT(EFAULT, GET_DMABUF_INFO, &in);
	in.metadata_ptr = (uintptr_t)data;
	in.metadata_size = sizeof(data);
	WANT(0, GET_DMABUF_INFO, &in);
	TRUE(in.metadata_size == 12 && data[2] == 3 && data[3] == 0 && in.gpu_id == gpu);
	in.metadata_ptr = 0;
	WANT(0, GET_DMABUF_INFO, &in);
	close((int)in.dmabuf_fd);
}

static void group_dmabuf(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args bo, u;
	struct kfd_ioctl_export_dmabuf_args ex = {0};
	struct kfd_ioctl_import_dmabuf_args im = {0};
	struct kfd_ioctl_get_dmabuf_info_args in = {0};
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_free_memory_of_gpu_args f;
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int null = open("/dev/null", O_RDWR), status;
	pid_t pid;

	acquire();
	dmabuf_metadata();
	drm_core();
	bo = alloc(65536, GTT);
	ex.handle = 0x1234ull << 32;
	WANT(EINVAL, EXPORT_DMABUF, &ex);
	ex.handle = (uint64_t)gpu << 32 | 77;
	WANT(EINVAL, EXPORT_DMABUF, &ex);
	u = alloc_user(anon, 4096, 0);
	ex.handle = u.handle;
	WANT(EPERM, EXPORT_DMABUF, &ex);
	ex.handle = bo.handle;
	ex.flags = O_CLOEXEC | O_RDWR;
	WANT(0, EXPORT_DMABUF, &ex);
	TRUE(lseek((int)ex.dmabuf_fd, 0, SEEK_END) == 65536);
	im.gpu_id = 0x1234;
	im.dmabuf_fd = ex.dmabuf_fd;
	WANT(EINVAL, IMPORT_DMABUF, &im);
	im.gpu_id = gpu;
	im.dmabuf_fd = 0xffffffff;
	WANT(EBADF, IMPORT_DMABUF, &im);
	im.dmabuf_fd = (uint32_t)null;
	WANT(EINVAL, IMPORT_DMABUF, &im);
	im.dmabuf_fd = (uint32_t)open("/dev/null", O_PATH);
	WANT(EBADF, IMPORT_DMABUF, &im);
	im.dmabuf_fd = ex.dmabuf_fd;
	im.va_addr = reserve(65536);
	WANT(0, IMPORT_DMABUF, &im);
	m = map_args(im.handle);
	WANT(0, MAP_MEMORY_TO_GPU, &m);
	in.dmabuf_fd = 0xffffffff;
	WANT(EBADF, GET_DMABUF_INFO, &in);
	in.dmabuf_fd = (uint32_t)null;
	WANT(EINVAL, GET_DMABUF_INFO, &in);
	in.dmabuf_fd = ex.dmabuf_fd;
	WANT(0, GET_DMABUF_INFO, &in);
	TRUE(in.size == 65536 && in.gpu_id == gpu && in.flags == KFD_IOC_ALLOC_MEM_FLAGS_GTT);
	pid = fork();
	if (!pid) {
		struct kfd_ioctl_acquire_vm_args av;

		failures = 0;
		kfd = open("/dev/kfd", O_RDWR);
		drm = open("/dev/dri/renderD128", O_RDWR);
		av = (struct kfd_ioctl_acquire_vm_args){(uint32_t)drm, gpu};
		WANT(0, ACQUIRE_VM, &av);
		bo = alloc(4096, GTT);
		ex.handle = bo.handle;
		while (dup(0) >= 0)
			;
		WANT(EMFILE, EXPORT_DMABUF, &ex);
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	/* the buffer outlives its first handle while others hold it */
	f.handle = bo.handle;
	WANT(0, FREE_MEMORY_OF_GPU, &f);
	close((int)ex.dmabuf_fd);
	f.handle = im.handle;
	WANT(EBUSY, FREE_MEMORY_OF_GPU, &f);
	m = map_args(im.handle);
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
	WANT(0, FREE_MEMORY_OF_GPU, &f);
}

static void group_criu(void)
{
	struct kfd_ioctl_criu_args c = {.op = 99};
	struct kfd_ioctl_get_queue_wave_state_args ws = {0};
	struct kfd_ioctl_create_queue_args q;
	uint32_t header[4] = {0};
	int status;
	pid_t pid;

	acquire();
	if (geteuid() == 0) {
		WANT(EINVAL, CRIU_OP, &c);
		c.op = KFD_CRIU_OP_UNPAUSE;
		WANT(EINVAL, CRIU_OP, &c);
		c.op = KFD_CRIU_OP_CHECKPOINT;
		WANT(EINVAL, CRIU_OP, &c);
		c.op = KFD_CRIU_OP_RESTORE;
		WANT(EINVAL, CRIU_OP, &c);
		c.op = KFD_CRIU_OP_RESUME;
		c.pid = 999999;
		WANT(ESRCH, CRIU_OP, &c);
		c.op = KFD_CRIU_OP_PROCESS_INFO;
		WANT(0, CRIU_OP, &c);
		TRUE(c.num_devices == 1 && c.pid == (uint32_t)getpid());
		c.op = KFD_CRIU_OP_UNPAUSE;
		WANT(0, CRIU_OP, &c);
		/* A restore stops the queues first, and they stay so when it fails. */
		q = queue_args();
		WANT(0, CREATE_QUEUE, &q);
		ws.queue_id = q.queue_id;
		ws.ctl_stack_address = (uintptr_t)header;
		WANT(EINVAL, GET_QUEUE_WAVE_STATE, &ws);
		c = (struct kfd_ioctl_criu_args){.op = KFD_CRIU_OP_RESTORE,
						 .devices = (uintptr_t)header,
						 .priv_data = (uintptr_t)header,
						 .priv_data_size = 4,
						 .num_devices = 1};
		WANT(EINVAL, CRIU_OP, &c);
		WANT(0, GET_QUEUE_WAVE_STATE, &ws);
	}
	pid = fork();
	if (!pid) {
		failures = 0;
		kfd = open("/dev/kfd", O_RDWR);
		if (geteuid() == 0 && seteuid(65534))
			_exit(0);
		WANT(EACCES, CRIU_OP, &c);
		WANT(EACCES, CRIU_OP, NULL); /* before the pointer is looked at */
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
}

static void group_mmap(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args mmio = {.size = 4096};
	volatile uint32_t *p;

#define MMAP(err, len, off)                                                                        \
	check(__LINE__, "mmap", NR_MMAP,                                                           \
	      mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)(off)) == MAP_FAILED \
		      ? -1                                                                         \
		      : 0,                                                                         \
	      err)
	acquire();
	mmio.va_addr = reserve(4096);
	mmio.gpu_id = gpu;
	mmio.flags = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
		     KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	WANT(0, ALLOC_MEMORY_OF_GPU, &mmio);
	TRUE(mmio.mmap_offset == (uint64_t)gpu << 46);
	MMAP(EINVAL, 8192, mmio.mmap_offset);
	MMAP(ENODEV, 4096, 0x1234ull << 46);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)mmio.mmap_offset);
	TRUE(p != MAP_FAILED);
	if (p != MAP_FAILED)
		p[0] = 1;                /* HDP flush */
	MMAP(EINVAL, 32768, 2ull << 62); /* no signal event yet */
	event_create(KFD_IOC_EVENT_SIGNAL, false);
	MMAP(EINVAL, 65536, 2ull << 62);
	MMAP(0, 32768, 2ull << 62);
	MMAP(ENODEV, 4096, 1ull << 62);
}

static void group_new_kernel(void)
{
	struct kfd_ioctl_create_event_args e = {.event_type = KFD_IOC_EVENT_SIGNAL};
	struct kfd_ioctl_get_version_args v;
	struct kfd_ioctl_profiler_args p = {.op = 2};
	struct kfd_ioctl_wait_events_args w = {0, 4097, 0, 0, 0};
	int status;
	pid_t pid;

	acquire();
	WANT(0, GET_VERSION, &v);
	TRUE(v.minor_version == 23);
	WANT(ENOMEM, CREATE_EVENT, &e);
	WANT(ENOMEM, WAIT_EVENTS, &w);
	MMAP(EINVAL, 32768, 2ull << 62);
	MMAP(EINVAL, 4096, 1ull << 62 | (uint64_t)gpu << 46);
	WANT(0, PROFILER, &p);
	TRUE(p.version == 1);
	p = (struct kfd_ioctl_profiler_args){.op = 3};
	p.ptl.gpu_id = gpu;
	WANT(EOPNOTSUPP, PROFILER, &p);
	p.op = 1;
	WANT(EINVAL, PROFILER, &p);
	if (geteuid() == 0) {
		p = (struct kfd_ioctl_profiler_args){.op = 0};
		p.pmc.gpu_id = gpu;
		p.pmc.lock = 1;
		WANT(0, PROFILER, &p);
		WANT(EALREADY, PROFILER, &p);
	}
	pid = fork();
	if (!pid) {
		failures = 0;
		kfd = open("/dev/kfd", O_RDWR);
		if (geteuid() == 0 && seteuid(65534))
			_exit(0);
		p = (struct kfd_ioctl_profiler_args){.op = 0};
		WANT(EPERM, PROFILER, &p);
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	check(__LINE__, "nr 0x29", NR_ANY, ioctl(kfd, _IO('K', 0x29), NULL), ENOTTY);
	pid = fork();
	if (!pid) {
		failures = 0;
		MMAP(EBADF, 8192, 3ull << 62 | (uint64_t)gpu << 46);
		_exit(failures);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
}

static void group_no_gws(void)
{
	struct kfd_ioctl_alloc_queue_gws_args gws = {.num_gws = 1};
	struct kfd_ioctl_create_queue_args q;

	acquire();
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	gws.queue_id = q.queue_id;
	WANT(ENODEV, ALLOC_QUEUE_GWS, &gws);
}

static void group_no_gpu(void)
{
	struct kfd_ioctl_criu_args c = {.op = KFD_CRIU_OP_PROCESS_INFO};
	struct kfd_ioctl_get_process_apertures_new_args n = {0};
	struct kfd_ioctl_get_dmabuf_info_args in = {0};

	kfd = open("/dev/kfd", O_RDWR);
	WANT(0, GET_PROCESS_APERTURES_NEW, &n);
	TRUE(n.num_of_nodes == 0);
	WANT(EINVAL, GET_DMABUF_INFO, &in);
	if (geteuid() == 0)
		WANT(ENODEV, CRIU_OP, &c);
}

/* The limits, on a machine small enough to reach them. */
static void group_limits(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.flags = GTT};
	struct kfd_ioctl_get_available_memory_args av = {0};
	struct kfd_ioctl_free_memory_of_gpu_args f;
	struct svm_call v = {0, 200 << 20, 0, 1, {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, 1}}};
	char *mem = mmap(NULL, v.size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	acquire();
	a.gpu_id = av.gpu_id = gpu;
	WANT(0, AVAILABLE_MEMORY, &av);
	TRUE(av.available < 64 << 20);
	/* What page tables may take is not for VRAM buffers, though it would do for GTT ones. */
	a.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
	a.size = 58 << 20;
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	a.flags = GTT;
	/* One page below the GTT size is too much: the trap handler's pages are counted. */
	a.size = (64 << 20) - 4096;
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	a.size = av.available;
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	f.handle = a.handle;
	a.size = 32 << 20;
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	WANT(0, FREE_MEMORY_OF_GPU, &f);
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	a.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM; /* the same memory, counted as VRAM too */
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	/* SVM ranges count against the system limit: 126 MiB on a machine of 256 */
	v.start_addr = (uintptr_t)mem;
	check(__LINE__, "SVM", KFD_NR_SVM, ioctl(kfd, AMDKFD_IOC_SVM + (8 << 16), &v), ENOMEM);
}

/* A carve-out larger than GTT: both flags together are placed in it, and counted as GTT. */
static void group_carve_out(void)
{
	const uint32_t both = GTT | KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.size = 40 << 20, .flags = both};

	acquire();
	alloc(70 << 20, KFD_IOC_ALLOC_MEM_FLAGS_VRAM); /* more than all of GTT */
	alloc(40 << 20, both);
	a.gpu_id = gpu;
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
}

/* With the limit of queues switched off, doorbells run out before queue ids. */
static void group_doorbells(void)
{
	struct kfd_ioctl_create_queue_args q;
	unsigned n;

	acquire();
	for (n = 0; n < 734; n++) {
		q = queue_args();
		q.queue_percentage = 0;
		if (ioctl(kfd, AMDKFD_IOC_CREATE_QUEUE, &q))
			break;
	}
	TRUE(n == 734 && (q.doorbell_offset & 0x1fff) == 0x1ff8);
	q = queue_args();
	WANT(EBUSY, CREATE_QUEUE, &q);
}

#endif
