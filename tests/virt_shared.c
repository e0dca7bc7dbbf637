/* One device, several processes: limits that one runs into because of another, eviction of one by
 * another, buffers and files that travel, turns on the hardware, resets, and death. */
#pragma clang diagnostic ignored "-Wunused-function" /* the headers have more than this needs */
#include <criterion/criterion.h>

#include <amdgpu_drm.h>
#include <drm.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "tests/shared_device.h"

#define MB (1ull << 20)

#define DRM_CALL(err, nr, dir, args)                                                               \
	check(__LINE__, TEXT(nr), NR_ANY, ioctl(drm, _IOC(dir, 'd', nr, sizeof(*(args))), args),   \
	      err)
#define RW (_IOC_READ | _IOC_WRITE)

TestSuite(shared, .timeout = 120);

static uint64_t available(void)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = gpu};

	WANT(0, AVAILABLE_MEMORY, &a);
	return a.available;
}

static uint32_t gem_new(uint64_t size, int want)
{
	union drm_amdgpu_gem_create c = {
		.in = {.bo_size = size,
		       .domains = AMDGPU_GEM_DOMAIN_GTT,
		       .domain_flags = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED}};

	DRM_CALL(want, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE, RW, &c);
	return want ? 0 : c.out.handle;
}

static void gem_close(uint32_t handle)
{
	struct drm_gem_close c = {.handle = handle};

	DRM_CALL(0, 0x09, _IOC_WRITE, &c);
}

static void *gem_map(uint32_t handle, uint64_t size)
{
	union drm_amdgpu_gem_mmap m = {.in = {.handle = handle}};
	void *p;

	DRM_CALL(0, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP, RW, &m);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)m.out.addr_ptr);
	TRUE(p != MAP_FAILED);
	return p;
}

static long long attribute(pid_t pid, const char *name)
{
	char path[160];
	long long v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/%s", pid, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%lld", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

static long long evicted_ms(pid_t pid)
{
	char name[64];

	snprintf(name, sizeof(name), "stats_%u/evicted_ms", gpu);
	return attribute(pid, name);
}

/* ---- limits --------------------------------------------------------------- */

static void half_taken(void)
{
	acquire();
	alloc(140 * MB, GTT);
	announce(0, 1);
	await(1, 1);
	for (;;)
		pause(); /* killed with it */
}

static void other_half(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a;
	uint64_t left;

	acquire();
	left = available();
	TRUE(left > 100 * MB && left < 120 * MB); /* 256 less the other's 140 */
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = reserve(140 * MB), .size = 140 * MB, .gpu_id = gpu, .flags = GTT};
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	announce(1, 1);
	for (unsigned i = 0; i < 5000 && available() < 200 * MB; i++)
		usleep(1000);
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
}

/* The limits are the machine's: what one process has, another lacks, until the first is gone. */
Test(shared, limits_are_of_all_processes)
{
	pid_t a, b;
	int status;

	shared_start("gtt=256M");
	a = client("", half_taken);
	await(0, 1);
	cr_assert_eq(shared_number("gtt"), 140 * (long long)MB + 8192);
	b = client("", other_half);
	await(1, 1);
	kill(a, SIGKILL);
	waitpid(a, &status, 0);
	join_client(b);
	shared_clean();
	shared_stop();
}

/* ---- eviction ------------------------------------------------------------- */

static int smi_stream(uint64_t mask)
{
	struct kfd_ioctl_smi_events_args a = {.gpuid = gpu};

	WANT(0, SMI_EVENTS, &a);
	TRUE(write((int)a.anon_fd, &mask, 8) == 8);
	return (int)a.anon_fd;
}

static char smi_got[4096];

static bool smi_wait(int fd, const char *until)
{
	static size_t n;
	uint64_t end = now_ns() + 10000000000u;

	do {
		ssize_t r = read(fd, smi_got + n, sizeof(smi_got) - 1 - n);

		if (r > 0)
			n += (size_t)r;
		smi_got[n] = 0;
		if (strstr(smi_got, until))
			return true;
		usleep(1000);
	} while (now_ns() < end);
	fprintf(stderr, "SMI: no \"%s\" in \"%s\"\n", until, smi_got);
	return false;
}

enum { EVICTION = 1u << 8, RESTORE = 1u << 9, PRE = 1u << 2, POST = 1u << 3 };

/* Waves that wait for the host, through evictions. */
static void evicted(void)
{
	struct bo *io, *big = NULL;
	struct bo_desc d = {
		.owner = "weights", .size = 100 * MB, .placement = BO_GTT, .host = true};
	char want[64];
	struct spin s;
	int smi;

	if (device_client())
		return;
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	gpu = kfd_gpu_id(dev.kfd);
	smi = smi_stream(EVICTION | RESTORE);
	TRUE(!bo_create(dev.memory, &d, &big));
	*(uint64_t *)bo_host(big) = 0x1122334455667788;
	io = spin_buffer(false);
	spin_start(&s, bo_va(io));
	announce(0, 1);
	snprintf(want, sizeof(want), " -%d %x 2\n", getpid(), gpu); /* trigger TTM */
	TRUE(smi_wait(smi, want));
	TRUE(!strncmp(smi_got, "9 ", 2));
	snprintf(want, sizeof(want), " -%d %x 0\n", getpid(), gpu);
	TRUE(smi_wait(smi, want));
	TRUE(strstr(smi_got, "\na "));
	TRUE(evicted_ms(getpid()) >= 99);
	TRUE(*(uint64_t *)bo_host(big) == 0x1122334455667788);
	/* Once more, while the other keeps what it has: there is room, after it was moved. */
	announce(0, 2);
	await(1, 2);
	spin_release(bo_host(io));
	TRUE(!spin_end(&s));
	TRUE(*(uint32_t *)bo_host(io) == 64);
	bo_destroy(io);
	bo_destroy(big);
	close(smi);
	device_client_end();
}

static void evictor(void)
{
	uint32_t handle;
	uint64_t *p;

	device_open();
	await(0, 1);
	/* 256 MiB are not enough for both. */
	handle = gem_new(150 * MB, 0);
	p = gem_map(handle, 4096);
	TRUE(p[0] == 0);
	p[0] = 0x99;
	await(0, 2);
	TRUE(p[0] == 0x99); /* pushed out itself by then, and none the worse */
	munmap(p, 4096);
	gem_close(handle);
	announce(1, 2);
}

/* A graphics client's buffer needs GTT that a compute process has: its queues stop, with SMI events
 * and a counter, its buffers move out and, 100 ms later, back; its waves notice nothing. */
Test(shared, one_evicts_the_other)
{
	pid_t a, b;

	shared_start("gtt=256M");
	a = client("", evicted);
	b = client("", evictor);
	join_client(a);
	join_client(b);
	cr_expect_geq(shared_number("evictions"), 1);
	cr_expect_geq(shared_number("moves"), 3, "out, the other out, and back");
	shared_clean();
	shared_stop();
}

/* No room is made for a process out of its own buffers: it gets the error. */
static void alone_and_full(void)
{
	acquire();
	alloc(200 * MB, GTT);
	gem_new(100 * MB, ENOMEM);
}

Test(shared, nobody_evicts_himself)
{
	shared_start("gtt=256M");
	join_client(client("", alone_and_full));
	cr_expect_eq(shared_number("evictions"), 0);
	shared_clean();
	shared_stop();
}

/* Two that hold their process locks while each waits for the other's queues to stop. */
static void pusher(unsigned me)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a;
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_free_memory_of_gpu_args f;

	acquire();
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	alloc(100 * MB, GTT);
	announce(me, 1);
	await(1 - me, 1);
	for (unsigned i = 0; i < 20; i++) {
		a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
			.va_addr = reserve(60 * MB), .size = 60 * MB, .gpu_id = gpu, .flags = GTT};
		if (ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a)) {
			TRUE(errno == ENOMEM);
			continue;
		}
		f.handle = a.handle;
		WANT(0, FREE_MEMORY_OF_GPU, &f);
	}
}

static void pusher_0(void)
{
	pusher(0);
}

static void pusher_1(void)
{
	pusher(1);
}

Test(shared, two_push_each_other)
{
	pid_t a, b;

	/* Without KFD's own limit, which would refuse before anybody moves. */
	shared_start("gtt=256M,rule.limit_ttm=0");
	a = client("", pusher_0);
	b = client("", pusher_1);
	join_client(a);
	join_client(b);
	cr_expect_geq(shared_number("evictions"), 1);
	shared_clean();
	shared_stop();
}

/* ---- buffers that travel -------------------------------------------------- */

static int pair[2];

static void exporter(void)
{
	struct bo *io;
	uint32_t *w;
	int fd;

	if (device_client())
		return;
	io = spin_buffer(false);
	w = bo_host(io);
	w[5] = 0xabcd;
	TRUE(!bo_export(io, &fd));
	TRUE(lseek(fd, 0, SEEK_END) == 4096);
	send_fd(pair[0], fd);
	close(fd);
	/* The other's waves wait for this word and count in the first. */
	await(1, 1);
	spin_release(w);
	await(1, 2);
	TRUE(w[0] == 64);
	TRUE(w[6] == 0x1234);
	bo_destroy(io);
	device_client_end();
	announce(0, 3);
}

static void importer(void)
{
	struct bo_desc d = {.owner = "io"};
	struct bo *io = NULL;
	uint32_t *w;
	struct spin s;
	int fd;

	if (device_client())
		return;
	fd = receive_fd(pair[1]);
	TRUE(!bo_import(dev.memory, fd, &d, &io));
	w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(w != MAP_FAILED);
	TRUE(w[5] == 0xabcd);
	close(fd);
	spin_start(&s, bo_va(io));
	announce(1, 1);
	TRUE(!spin_end(&s));
	TRUE(w[0] == 64);
	w[6] = 0x1234;
	announce(1, 2);
	/* It outlives the one who made it. */
	await(0, 3);
	TRUE(w[6] == 0x1234);
	munmap(w, 4096);
	bo_destroy(io);
	device_client_end();
}

/* The same memory in both, for CPU and GPU, counted once, alive as long as one has it. */
Test(shared, dma_buf_of_another_process)
{
	pid_t a, b;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	a = client("", exporter);
	b = client("", importer);
	join_client(a);
	join_client(b);
	shared_clean();
	shared_stop();
}

static void export_and_die(void)
{
	struct bo *io;
	int fd;

	if (device_client())
		return;
	io = spin_buffer(false);
	((uint32_t *)bo_host(io))[0] = 0xfeed;
	TRUE(!bo_export(io, &fd));
	send_fd(pair[0], fd);
	kill(getpid(), SIGKILL);
}

static void import_late(void)
{
	uint32_t *w;
	int fd;

	device_open();
	fd = receive_fd(pair[1]);
	w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRUE(w != MAP_FAILED && w[0] == 0xfeed);
}

/* On its way through a socket when its maker dies. */
Test(shared, dma_buf_in_flight)
{
	int status;
	pid_t a;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	a = client("", export_and_die);
	waitpid(a, &status, 0);
	for (unsigned i = 0; i < 500 && shared_number("clients"); i++)
		usleep(10000);
	cr_expect_eq(shared_number("bos"), 1);
	cr_expect_eq(shared_number("gtt"), 4096);
	cr_expect_eq(shared_number("ttm"), 4096, "still charged");
	join_client(client("", import_late));
	/* The test's own copies of the pair are empty now. */
	shared_clean();
	shared_stop();
}

/* ---- files that travel ---------------------------------------------------- */

static void sender(void)
{
	uint32_t handle, second;
	uint32_t *p;

	acquire();
	handle = gem_new(8192, 0);
	p = gem_map(handle, 8192);
	p[0] = 0xc0ffee;
	common->word[0] = handle;
	send_fd(pair[0], kfd);
	send_fd(pair[0], drm);
	await(1, 1);
	TRUE(p[1] == 0xbeef);
	/* Made there, known here: it is one file. */
	second = (uint32_t)common->word[1];
	TRUE(second && second != handle);
	p = gem_map(second, 4096);
	TRUE(p[0] == 0x5ec0);
	gem_close(second);
	announce(0, 2);
	await(1, 3);
}

static void receiver(void)
{
	struct kfd_ioctl_get_version_args v;
	union drm_amdgpu_gem_mmap m;
	uint32_t handle;
	uint32_t *p;
	void *db;

	kfd = receive_fd(pair[1]);
	drm = receive_fd(pair[1]);
	/* /dev/kfd is its opener's. */
	WANT(EBADF, GET_VERSION, &v);
	db = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)(3ull << 62));
	TRUE(db == MAP_FAILED && errno == EINVAL);
	/* A render node's file is whoever's has it: handles, buffers, offsets. */
	p = gem_map((uint32_t)common->word[0], 8192);
	TRUE(p[0] == 0xc0ffee);
	p[1] = 0xbeef;
	handle = gem_new(4096, 0);
	common->word[1] = handle;
	p = gem_map(handle, 4096);
	p[0] = 0x5ec0;
	announce(1, 1);
	await(0, 2);
	m = (union drm_amdgpu_gem_mmap){.in = {.handle = handle}};
	DRM_CALL(ENOENT, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP, RW, &m); /* closed there */
	TRUE(p[0] == 0x5ec0); /* the mapping is our own */
	announce(1, 3);
}

Test(shared, files_of_another_process)
{
	pid_t a, b;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	a = client("", sender);
	b = client("", receiver);
	join_client(a);
	join_client(b);
	shared_clean();
	shared_stop();
}

static void prime_exporter(void)
{
	struct drm_prime_handle h = {.flags = DRM_CLOEXEC | DRM_RDWR};
	struct drm_amdgpu_gem_metadata d = {.op = AMDGPU_GEM_METADATA_OP_SET_METADATA};
	uint32_t *p;

	device_open();
	h.handle = gem_new(8192, 0);
	p = gem_map(h.handle, 8192);
	p[0] = 7;
	d.handle = h.handle;
	d.data.data_size_bytes = 8;
	d.data.data[1] = 0x55;
	DRM_CALL(0, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA, RW, &d);
	DRM_CALL(0, 0x2d, RW, &h);
	send_fd(pair[0], h.fd);
	await(1, 1);
	TRUE(p[0] == 8);
}

static void prime_importer(void)
{
	struct drm_prime_handle h = {0}, again = {0};
	struct kfd_ioctl_get_dmabuf_info_args i = {0};
	struct drm_amdgpu_gem_metadata d = {.op = AMDGPU_GEM_METADATA_OP_GET_METADATA};
	uint32_t *p, text[2] = {0};

	device_open();
	h.fd = again.fd = receive_fd(pair[1]);
	DRM_CALL(0, 0x2e, RW, &h);
	DRM_CALL(0, 0x2e, RW, &again);
	TRUE(h.handle && h.handle == again.handle);
	p = gem_map(h.handle, 8192);
	TRUE(p[0] == 7);
	d.handle = h.handle;
	DRM_CALL(0, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA, RW, &d);
	TRUE(d.data.data_size_bytes == 8 && d.data.data[1] == 0x55);
	i.dmabuf_fd = (uint32_t)h.fd;
	i.metadata_ptr = (uintptr_t)text;
	i.metadata_size = sizeof(text);
	WANT(0, GET_DMABUF_INFO, &i);
	TRUE(i.size == 8192 && i.gpu_id == gpu && i.metadata_size == 8 && text[1] == 0x55);
	TRUE(i.flags == (KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC));
	p[0] = 8;
	announce(1, 1);
}

Test(shared, prime_of_another_process)
{
	pid_t a, b;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	a = client("", prime_exporter);
	b = client("", prime_importer);
	join_client(a);
	join_client(b);
	shared_clean();
	shared_stop();
}

/* ---- isolation ------------------------------------------------------------ */

static void drop_admin(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	TRUE(!syscall(SYS_capset, &h, d));
}

static void secretive(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a;
	struct kfd_ioctl_create_queue_args q;
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	acquire();
	a = mapped(65536, GTT);
	common->word[0] = a.handle;
	common->word[1] = a.mmap_offset;
	common->word[2] = gpu;
	common->word[3] = (uint64_t)getpid();
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	announce(0, 1);
	await(1, 1);
	/* Something for the streams: an eviction by userptr. */
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){.va_addr = (uintptr_t)anon,
							.size = 4096,
							.mmap_offset = (uintptr_t)anon,
							.gpu_id = gpu,
							.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR |
								 KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	mprotect(anon, 4096, PROT_READ);
	mprotect(anon, 4096, PROT_READ | PROT_WRITE);
	announce(0, 2);
	await(1, 2);
}

static void curious(void)
{
	struct kfd_ioctl_free_memory_of_gpu_args f;
	char want[64], text[8];
	int smi, all;
	void *p;

	acquire();
	all = smi_stream(EVICTION | 1ull << 63); /* of all processes: root's privilege */
	drop_admin();
	smi = smi_stream(EVICTION | 1ull << 63);
	await(0, 1);
	TRUE(gpu == common->word[2]);
	f.handle = common->word[0];
	WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, drm, (off_t)common->word[1]);
	TRUE(p == MAP_FAILED && errno == EACCES);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, drm, (off_t)(common->word[1] + (1ull << 30)));
	TRUE(p == MAP_FAILED && errno == EINVAL);
	/* sysfs is everybody's. */
	TRUE(attribute((pid_t)common->word[3], "queues/0/size") == 4096);
	TRUE(attribute((pid_t)common->word[3], "queues/1/size") == -1);
	announce(1, 1);
	await(0, 2);
	if (!geteuid()) {
		snprintf(want, sizeof(want), " -%d %x 1\n", (pid_t)common->word[3], gpu);
		TRUE(smi_wait(all, want));
	}
	TRUE(read(smi, text, sizeof(text)) < 0 && errno == EAGAIN);
	announce(1, 2);
}

/* Nothing of another process but what the kernel shows everybody. */
Test(shared, isolation)
{
	pid_t a, b;

	shared_start("");
	a = client("", secretive);
	b = client("", curious);
	join_client(a);
	join_client(b);
	shared_clean();
	shared_stop();
}

/* ---- places --------------------------------------------------------------- */

enum { MANY = 12 };

/* Each waits for the one before it, on the GPU: the first one's waves can only end when the last
 * one's have had their turn. */
static void in_line(void)
{
	unsigned me = (unsigned)common->word[15];
	struct bo *io;
	struct spin s;
	uint32_t *w;

	if (device_client())
		return;
	io = spin_buffer(false);
	w = bo_host(io);
	spin_start(&s, bo_va(io));
	__atomic_add_fetch(&common->step[0], 1, __ATOMIC_ACQ_REL);
	await(0, MANY);
	/* All have waves on the way: the last may go first. */
	await(1, (int)(MANY - 1 - me));
	spin_release(w);
	TRUE(!spin_end(&s));
	TRUE(w[0] == 64);
	announce(1, (int)(MANY - me));
	bo_destroy(io);
	device_client_end();
}

/* Twelve processes with a busy queue each on eight places: MES gives turns, nobody is refused and
 * nobody starves. */
Test(shared, more_processes_than_places)
{
	pid_t pid[MANY];
	bool more = false;

	shared_start("");
	for (unsigned i = 0; i < MANY; i++) {
		common->word[15] = i;
		pid[i] = client("workers=1,jit=0", in_line);
		for (unsigned k = 0; k < 10000 && !reached(0, (int)i + 1); k++)
			usleep(1000);
	}
	for (unsigned k = 0; k < 50 && !more; k++)
		more = shared_number("on_hardware") <= 8;
	cr_expect(more);
	for (unsigned i = 0; i < MANY; i++)
		join_client(pid[i]);
	shared_clean();
	shared_stop();
}

/* SDMA queues are six, whoever has them. */
static void sdma_queues(void)
{
	struct kfd_ioctl_create_queue_args q;

	acquire();
	for (unsigned i = 0; i < 3; i++) {
		q = queue_args();
		q.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
		WANT(0, CREATE_QUEUE, &q);
	}
	if (!reached(0, 1)) {
		announce(0, 1);
		await(1, 1);
		return;
	}
	WANT(ENOMEM, CREATE_QUEUE, &q);
	announce(1, 1);
}

Test(shared, sdma_queues_are_of_the_device)
{
	pid_t a, b;

	shared_start("");
	a = client("", sdma_queues);
	await(0, 1);
	b = client("", sdma_queues);
	join_client(a);
	join_client(b);
	shared_clean();
	shared_stop();
}

/* ---- the whole device ----------------------------------------------------- */

static void wait_hw(uint32_t id, uint32_t cause_lost)
{
	struct kfd_event_data d = {.event_id = id};
	struct kfd_ioctl_wait_events_args w = {
		.events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = 20000};

	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(d.hw.memory_lost == cause_lost);
}

static void hangs(void)
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d;
	uint32_t hw;

	acquire();
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	await(1, 1);
	d.queue_id = q.queue_id;
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	wait_hw(hw, 1);
}

static void bystander(void)
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d;
	char want[64];
	uint32_t hw;
	int smi;

	acquire();
	smi = smi_stream(PRE | POST | EVICTION | RESTORE);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	announce(1, 1);
	wait_hw(hw, 1);
	TRUE(smi_wait(smi, "4 1 \n"));
	TRUE(!strncmp(smi_got, "3 1 MES hang\n", 13));
	snprintf(want, sizeof(want), " -%d %x 3\n", getpid(), gpu);
	TRUE(strstr(smi_got, "\n9 ") && strstr(smi_got, want));
	TRUE(!strstr(smi_got, "\na "));
	d.queue_id = q.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
}

/* A queue of one process hangs: the reset is everybody's. */
Test(shared, a_reset_is_everybodys)
{
	pid_t a, b;

	shared_start("");
	a = client("hang=queue:0", hangs);
	b = client("", bystander);
	join_client(a);
	join_client(b);
	cr_expect_eq(shared_number("resets"), 1);
	shared_clean();
	shared_stop();
}

/* ---- death ---------------------------------------------------------------- */

static void waits_for_ever(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {0};
	struct kfd_ioctl_create_queue_args q;
	union drm_amdgpu_gem_create c = {.in = {.bo_size = 4096, .domains = AMDGPU_GEM_DOMAIN_GTT}};
	uint32_t hw;

	TRUE(freopen("/dev/null", "w", stderr) != NULL); /* it is told */
	acquire();
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	announce(0, 1);
	wait_hw(hw, 1);
	a.gpu_id = gpu;
	a.size = 4096;
	a.flags = GTT;
	a.va_addr = reserve(4096);
	WANT(ENODEV, ALLOC_MEMORY_OF_GPU, &a);
	DRM_CALL(ENODEV, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE, RW, &c);
}

static void comes_late(void)
{
	TRUE(freopen("/dev/null", "w", stderr) != NULL);
	TRUE(open("/dev/kfd", O_RDWR) < 0 && errno == ENODEV);
}

/* The daemon dies: the device is lost, whoever waits hears of it, nothing hangs. */
Test(shared, death_of_the_daemon)
{
	char path[96];
	pid_t a;

	shared_start("");
	a = client("", waits_for_ever);
	await(0, 1);
	kill((pid_t)shared_number("pid"), SIGKILL);
	join_client(a);
	join_client(client("", comes_late));
	unlink(shared_socket);
	snprintf(path, sizeof(path), "%s.lock", shared_socket);
	unlink(path);
	rmdir(shared_dir);
}

/* Everything a client does, again and again, until it is killed. */
static void busy_life(void)
{
	for (;;) {
		struct bo_desc d = {
			.owner = "io", .size = 4 * MB, .placement = BO_GTT, .host = true};
		struct bo *io, *big = NULL, *copy = NULL;
		struct kfd_ioctl_smi_events_args a = {0};
		struct spin s;
		int fd = -1;

		if (device_client())
			_exit(1);
		kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		a.gpuid = kfd_gpu_id(dev.kfd);
		WANT(0, SMI_EVENTS, &a);
		bo_create(dev.memory, &d, &big);
		io = spin_buffer(false);
		spin_start(&s, bo_va(io));
		if (!bo_export(io, &fd))
			bo_import(dev.memory, fd, &d, &copy);
		spin_release(bo_host(io));
		spin_end(&s);
		bo_destroy(copy);
		bo_destroy(io);
		bo_destroy(big);
		close(fd);
		close((int)a.anon_fd);
		close(kfd);
		device_client_end();
		announce(0, 1);
	}
}

/* Killed at whatever moment, a client leaves nothing behind, and holds nobody up. */
Test(shared, death_of_a_client)
{
	unsigned seed = 1;

	shared_start("");
	for (unsigned i = 0; i < 40; i++) {
		pid_t a, b;
		int status;

		seed = seed * 1103515245u + 12345u;
		a = client("workers=1", busy_life);
		b = client("workers=1", busy_life);
		usleep(20000 + (seed >> 8) % 150000);
		kill(a, SIGKILL);
		waitpid(a, &status, 0);
		cr_assert(WIFSIGNALED(status), "0x%x", (unsigned)status);
		usleep(1000 + (seed >> 4) % 10000);
		kill(b, SIGKILL);
		waitpid(b, &status, 0);
		cr_assert(WIFSIGNALED(status), "0x%x", (unsigned)status);
	}
	shared_clean();
	shared_stop();
}

/* ---- what a client may have for itself ------------------------------------- */

static void other_size(void)
{
	TRUE(freopen("/dev/null", "w", stderr) != NULL);
	TRUE(open("/dev/kfd", O_RDWR) < 0 && errno == EINVAL);
}

static void own_threads(void)
{
	struct kfd_ioctl_get_clock_counters_args c = {0};

	acquire();
	c.gpu_id = gpu;
	WANT(0, GET_CLOCK_COUNTERS, &c);
	/* One counter for all: later calls read more. */
	TRUE(c.gpu_clock_counter > common->word[0]);
	common->word[0] = c.gpu_clock_counter;
}

Test(shared, settings_of_device_and_process)
{
	shared_start("cus=32");
	join_client(client("cus=40", other_size));
	join_client(client("cus=32,workers=1", own_threads));
	join_client(client("workers=2", own_threads));
	shared_clean();
	shared_stop();
}
