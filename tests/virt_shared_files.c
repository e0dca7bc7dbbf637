/* One device, several processes: buffers and files that go from one to another, and what stays
 * hidden. */
#pragma clang diagnostic ignored "-Wunused-function" /* the headers have more than this needs */
#include <criterion/criterion.h>

#include <linux/capability.h>
#include <sys/syscall.h>

#include "tests/shared_device.h"

TestSuite(shared_files, .timeout = 600);

/* ---- buffers that travel --------------------------------------------------- */

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
Test(shared_files, dma_buf_of_another_process)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	join_two("", exporter, importer);
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
Test(shared_files, dma_buf_in_flight)
{
	int status;
	pid_t a;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	a = client("", export_and_die);
	waitpid(a, &status, 0);
	cr_expect(UNTIL(!shared_number("clients")));
	cr_expect_eq(shared_number("bos"), 1);
	cr_expect_eq(shared_number("gtt"), 4096);
	cr_expect_eq(shared_number("ttm"), 4096, "still charged");
	join_client(client("", import_late));
	/* The test's own copies of the pair are empty now. */
	shared_clean();
	shared_stop();
}

/* ---- files that travel ----------------------------------------------------- */

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

Test(shared_files, files_of_another_process)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	join_two("", sender, receiver);
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

Test(shared_files, prime_of_another_process)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	shared_start("");
	join_two("", prime_exporter, prime_importer);
	shared_clean();
	shared_stop();
}

/* ---- isolation ------------------------------------------------------------- */

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
	common->word[4] = (uint64_t)drm;
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
	char want[64], text[8], path[64], line[128];
	bool seen = false;
	int smi, all, kib = 0;
	void *p;
	FILE *in;

	acquire();
	all = smi_stream(EVICTION | 1ull << 63); /* of all processes: root's privilege */
	await(0, 1);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (pid_t)common->word[3],
		 (int)common->word[4]);
	memset(line, 0, sizeof(line));
	TRUE(readlink(path, line, sizeof(line) - 1) > 0 && !strcmp(line, "/dev/dri/renderD128"));
	drop_admin();
	smi = smi_stream(EVICTION | 1ull << 63);
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
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (pid_t)common->word[3],
		 (int)common->word[4]);
	in = fopen(path, "re");
	TRUE(in != NULL);
	while (in && fgets(line, sizeof(line), in)) {
		seen |= !strcmp(line, "drm-driver:\tamdgpu\n");
		if (sscanf(line, "drm-memory-gtt: %d", &kib) == 1)
			TRUE(kib >= 64);
	}
	TRUE(seen && kib);
	if (in)
		fclose(in);
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
Test(shared_files, isolation)
{
	shared_start("");
	join_two("", secretive, curious);
	shared_clean();
	shared_stop();
}

/* ---- what is inherited ------------------------------------------------------ */

/* A descriptor of the render node in a forked child and in another program: the same open file. */
static void parent_of_heirs(void)
{
	struct drm_prime_handle h = {.flags = DRM_RDWR};
	char dma[16], node[16], handle[16];
	uint32_t *p;
	int status;
	pid_t pid;

	device_open();
	TRUE((fcntl(drm, F_GETFL) & O_ACCMODE) == O_RDWR);
	h.handle = gem_new(8192, 0);
	p = gem_map(h.handle, 8192);
	p[0] = 1;
	DRM_CALL(0, 0x2d, RW, &h);
	pid = fork();
	if (!pid) {
		union drm_amdgpu_gem_mmap m = {.in = {.handle = h.handle}};

		failures = 0;
		DRM_CALL(0, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP, RW, &m);
		p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, drm,
			 (off_t)m.out.addr_ptr);
		TRUE(p != MAP_FAILED && p[0] == 1);
		p[0] = 2;
		p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, h.fd, 0);
		TRUE(p != MAP_FAILED && p[0] == 2);
		_exit(failures ? 1 : 0);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	TRUE(p[0] == 2);
	/* Over exec, this process's own memory of them gone. */
	snprintf(dma, sizeof(dma), "%d", h.fd);
	snprintf(node, sizeof(node), "%d", drm);
	snprintf(handle, sizeof(handle), "%u", h.handle);
	fcntl(drm, F_SETFD, 0);
	execl("/proc/self/exe", "virt_shared_files", "--heir", dma, node, handle, NULL);
	failures++;
}

static int heir(char **argv)
{
	union drm_amdgpu_gem_mmap m = {.in = {.handle = (uint32_t)atoi(argv[2])}};
	struct drm_gem_close c = {.handle = m.in.handle};
	int dma = atoi(argv[0]);
	uint32_t *p;

	report = open("/dev/null", O_WRONLY);
	drm = atoi(argv[1]);
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, dma, 0);
	TRUE(p != MAP_FAILED && p[0] == 2);
	TRUE(lseek(dma, 0, SEEK_END) == 8192);
	DRM_CALL(0, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP, RW, &m);
	p[0] = 3;
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)m.out.addr_ptr);
	TRUE(p != MAP_FAILED && p[0] == 3);
	DRM_CALL(0, 0x09, _IOC_WRITE, &c);
	DRM_CALL(EINVAL, 0x09, _IOC_WRITE, &c);
	return failures ? 1 : 0;
}

/* Before Criterion looks at the arguments. */
__attribute__((constructor)) static void be_heir(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "--heir"))
		_exit(heir(argv + 2));
}

Test(shared_files, inherited)
{
	shared_start("");
	join_client(client("", parent_of_heirs));
	shared_clean();
	shared_stop();
}
