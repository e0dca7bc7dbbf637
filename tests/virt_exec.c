/* Descriptors that change hands: over exec, into spawned and forked children, through sockets.
 *
 * Another image of this program is told by its arguments what to check (image()); its exit status is
 * the number of checks that failed.
 */
#pragma clang diagnostic ignored "-Wunused-function" /* the harness has more than this needs */
#include <criterion/criterion.h>
#include <dirent.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "ioctl/harness.h"

union gem_create {
	struct {
		uint64_t size, alignment, domains, flags;
	} in;
	uint32_t handle;
};
union gem_mmap {
	uint32_t handle;
	uint64_t offset;
};
struct prime {
	uint32_t handle, flags;
	int32_t fd;
};
#define GEM_CREATE  _IOWR('d', 0x40, union gem_create)
#define GEM_MMAP    _IOWR('d', 0x41, union gem_mmap)
#define PRIME_OUT   _IOWR('d', 0x2d, struct prime)
#define PRIME_IN    _IOWR('d', 0x2e, struct prime)
#define DRM_VERSION _IOWR('d', 0x00, char[64])

static uint32_t gem_new(void)
{
	union gem_create c = {{65536, 4096, 2 /* GTT */, 0}};

	TRUE(ioctl(drm, GEM_CREATE, &c) == 0);
	return c.handle;
}

static volatile uint32_t *gem_map(uint32_t handle)
{
	union gem_mmap m = {handle};
	void *p;

	if (ioctl(drm, GEM_MMAP, &m))
		return NULL;
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)m.offset);
	return p == MAP_FAILED ? NULL : p;
}

static int gem_export(uint32_t handle, uint32_t flags)
{
	struct prime p = {handle, flags, -1};

	TRUE(ioctl(drm, PRIME_OUT, &p) == 0);
	return p.fd;
}

static volatile uint32_t *dmabuf_map(int fd)
{
	void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	TRUE(d);
	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* ., .., the directory's own */
}

/* ---- the other image ------------------------------------------------------ */

static long arg(char **argv, unsigned i)
{
	return strtol(argv[i], NULL, 0);
}

/* A buffer over pages that went with the old image: still there, as the kernel has it, mapped and
 * unmapped without them, freed once. */
static void user_pages(uint64_t handle)
{
	struct kfd_ioctl_map_memory_to_gpu_args m = map_args(handle);
	struct kfd_ioctl_free_memory_of_gpu_args f = {handle};

	WANT(0, MAP_MEMORY_TO_GPU, &m);
	TRUE(m.n_success == 1);
	WANT(EBUSY, FREE_MEMORY_OF_GPU, &f);
	m.n_success = 0;
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
	WANT(0, FREE_MEMORY_OF_GPU, &f);
	WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
}

/* kfd drm id other-id dmabuf gem-handle smi: of the process that exec has replaced */
static void image_in_place(char **argv)
{
	struct kfd_ioctl_get_version_args v = {0};
	struct kfd_ioctl_destroy_event_args d = {.event_id = (uint32_t)arg(argv, 2)};
	struct kfd_ioctl_create_event_args e = {.event_type = KFD_IOC_EVENT_SIGNAL};
	struct kfd_event_data data = {.event_id = d.event_id};
	struct kfd_ioctl_wait_events_args w = {(uintptr_t)&data, 1, 0, 0, 77};
	struct kfd_ioctl_acquire_vm_args a;
	struct kfd_ioctl_free_memory_of_gpu_args f;
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_get_dmabuf_info_args in = {0};
	struct kfd_ioctl_create_queue_args q;
	volatile uint32_t *p;
	int dmabuf = (int)arg(argv, 4), smi = (int)arg(argv, 6), old, again;
	char text[128];
	uint64_t mask = 0;

	kfd = (int)arg(argv, 0);
	drm = (int)arg(argv, 1);
	gpu = (uint32_t)arg(argv, 7);
	/* the object behind the descriptor is the one from before */
	WANT(0, GET_VERSION, &v);
	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE); /* set before exec, auto-reset */
	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT);
	WANT(0, CREATE_EVENT, &e);
	TRUE(e.event_id == d.event_id + 1);
	TRUE(mmap(NULL, 32768, PROT_READ, MAP_SHARED, kfd, (off_t)(2ull << 62)) == MAP_FAILED &&
	     errno == EINVAL); /* 6.12 looks for the process of the new address space */
	/* its VM and its buffers */
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)drm, gpu};
	WANT(0, ACQUIRE_VM, &a);
	a.drm_fd = (uint32_t)open("/dev/dri/renderD128", O_RDWR);
	WANT(EBUSY, ACQUIRE_VM, &a);
	f.handle = (uint64_t)gpu << 32;
	WANT(EBUSY, FREE_MEMORY_OF_GPU, &f); /* still mapped */
	m = map_args(f.handle);
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, drm, (off_t)strtoull(argv[8], NULL, 0));
	TRUE(p != MAP_FAILED && p[3] == 0x1234);
	WANT(0, FREE_MEMORY_OF_GPU, &f);
	WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
	/* the render node's handles */
	p = gem_map((uint32_t)arg(argv, 5));
	TRUE(p && p[0] == 0xabcd);
	TRUE(gem_new() == (uint32_t)arg(argv, 5) + 1);
	/* the dma-buf is the same memory */
	TRUE(lseek(dmabuf, 0, SEEK_END) == 65536);
	in.dmabuf_fd = (uint32_t)dmabuf;
	WANT(0, GET_DMABUF_INFO, &in);
	TRUE(in.size == 65536 && in.flags == KFD_IOC_ALLOC_MEM_FLAGS_GTT);
	TRUE(dmabuf_map(dmabuf) && dmabuf_map(dmabuf)[0] == 0xabcd);
	dmabuf_map(dmabuf)[1] = 0x77;
	TRUE(p && p[1] == 0x77);
	/* the stream has what was not read, and its mask */
	TRUE(read(smi, text, sizeof(text)) > 0 && !strncmp(text, "9 ", 2));
	TRUE(read(smi, text, sizeof(text)) < 0 && errno == EAGAIN);
	TRUE(write(smi, &mask, 8) == 8);
	user_pages(arg(argv, 9));
	/* A new open is a new process; both are there. */
	old = kfd;
	again = open("/dev/kfd", O_RDWR);
	kfd = again;
	e = (struct kfd_ioctl_create_event_args){.event_type = KFD_IOC_EVENT_SIGNAL};
	WANT(0, CREATE_EVENT, &e);
	TRUE(e.event_id == 1);
	d.event_id = 2;
	WANT(EINVAL, SET_EVENT, &d);
	q = (struct kfd_ioctl_create_queue_args){.queue_type = 2, .ring_size = 4096, .gpu_id = gpu};
	WANT(ESRCH, CREATE_QUEUE, &q);
	kfd = old;
	WANT(0, SET_EVENT, &d);
}

/* kfd drm gem-handle dmabuf: of the parent */
static void image_of_child(char **argv)
{
	struct kfd_ioctl_get_version_args v;
	volatile uint32_t *p;
	struct prime in = {0};

	kfd = (int)arg(argv, 0);
	drm = (int)arg(argv, 1);
	WANT(EBADF, GET_VERSION, &v);
	check(__LINE__, "bad number", NR_ANY, ioctl(kfd, _IO('K', 0x7f), NULL), ENOTTY);
	p = gem_map((uint32_t)arg(argv, 2));
	TRUE(p && p[0] == 0xabcd);
	if (p)
		__atomic_add_fetch(&p[1], 1, __ATOMIC_SEQ_CST);
	p = dmabuf_map((int)arg(argv, 3));
	TRUE(p && p[0] == 0xabcd);
	if (p)
		__atomic_add_fetch(&p[1], 1, __ATOMIC_SEQ_CST);
	/* the same object under the same handle */
	in.fd = (int32_t)arg(argv, 3);
	TRUE(ioctl(drm, PRIME_IN, &in) == 0 && in.handle == (uint32_t)arg(argv, 2));
	kfd = open("/dev/kfd", O_RDWR);
	WANT(0, GET_VERSION, &v);
}

/* fd n: it is closed, and n descriptors are open */
static void image_closed(char **argv)
{
	TRUE(fcntl((int)arg(argv, 0), F_GETFD) < 0 && errno == EBADF);
	TRUE(descriptors() == (unsigned)arg(argv, 1));
}

/* Before criterion: this is another image if the arguments say so. */
__attribute__((constructor)) static void image(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "--image"))
		return;
	report = open("/dev/null", O_WRONLY);
	if (!strcmp(argv[2], "in-place"))
		image_in_place(argv + 3);
	else if (!strcmp(argv[2], "child"))
		image_of_child(argv + 3);
	else
		image_closed(argv + 3);
	_exit(failures);
}

/* ---- the runner ----------------------------------------------------------- */

static char words[16][24];
static char *image_argv[20] = {(char *)"virt_exec", (char *)"--image"};
static unsigned n_words;

static void say(const char *fmt, unsigned long long v)
{
	snprintf(words[n_words], sizeof(words[0]), fmt, v);
	image_argv[3 + n_words] = words[n_words];
	image_argv[4 + ++n_words] = NULL;
}

static int run(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		report = open("/dev/null", O_WRONLY | O_CLOEXEC);
		fn();
		_exit(failures ? 1 : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

#define IN_CHILD(name)                                                                             \
	static void name##_body(void);                                                             \
	Test(virt_exec, name, .timeout = 300)                                                      \
	{                                                                                          \
		cr_assert_eq(run(name##_body), 0);                                                 \
	}                                                                                          \
	static void name##_body(void)

static void open_inheritable(void)
{
	device_open();
	TRUE(fcntl(kfd, F_SETFD, 0) == 0 && fcntl(drm, F_SETFD, 0) == 0);
}

static void ended_well(pid_t pid, const char *what)
{
	int status = -1;

	if (pid <= 0 || waitpid(pid, &status, 0) != pid || status) {
		failures++;
		fprintf(stderr, "%s: status 0x%x\n", what, status);
	}
}

IN_CHILD(exec_in_place)
{
	struct kfd_ioctl_acquire_vm_args a;
	struct kfd_ioctl_alloc_memory_of_gpu_args bo;
	struct kfd_ioctl_smi_events_args smi;
	struct kfd_ioctl_destroy_event_args d = {0};
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile uint32_t *p;
	uint64_t mask = 1ull << 8;
	struct kfd_ioctl_alloc_memory_of_gpu_args user;
	uint32_t gem;

	open_inheritable();
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)drm, gpu};
	WANT(0, ACQUIRE_VM, &a);
	bo = mapped(4096, GTT);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, drm, (off_t)bo.mmap_offset);
	p[3] = 0x1234;
	gem = gem_new();
	p = gem_map(gem);
	p[0] = 0xabcd;
	smi.gpuid = gpu;
	WANT(0, SMI_EVENTS, &smi);
	TRUE(write((int)smi.anon_fd, &mask, 8) == 8);
	/* an eviction by a page of the user's that goes */
	user = alloc_user(anon, 4096, 0);
	TRUE(mprotect(anon, 4096, PROT_READ) == 0);
	d.event_id = event_create(KFD_IOC_EVENT_SIGNAL, true);
	WANT(0, SET_EVENT, &d);
	image_argv[2] = (char *)"in-place";
	say("%llu", (unsigned)kfd);
	say("%llu", (unsigned)drm);
	say("%llu", d.event_id);
	say("%llu", 0);
	say("%llu", (unsigned)gem_export(gem, O_RDWR));
	say("%llu", gem);
	say("%llu", smi.anon_fd);
	say("%llu", gpu);
	say("%#llx", bo.mmap_offset);
	say("%#llx", user.handle);
	if (failures)
		return;
	execve("/proc/self/exe", image_argv, environ);
	failures++;
}

/* What an exec that fails leaves behind is what was there. */
IN_CHILD(exec_that_fails)
{
	struct kfd_ioctl_get_version_args v;
	unsigned n;

	open_inheritable();
	n = descriptors();
	TRUE(execl("/nonexistent", "x", (char *)NULL) < 0 && errno == ENOENT);
	TRUE(execlp("/nonexistent", "x", (char *)NULL) < 0 && errno == ENOENT);
	TRUE(execle("/nonexistent", "x", (char *)NULL, environ) < 0 && errno == ENOENT);
	TRUE(descriptors() == n);
	WANT(0, GET_VERSION, &v);
}

static volatile uint32_t *family(void)
{
	uint32_t gem;
	volatile uint32_t *p;

	open_inheritable();
	gem = gem_new();
	p = gem_map(gem);
	p[0] = 0xabcd;
	image_argv[2] = (char *)"child";
	say("%llu", (unsigned)kfd);
	say("%llu", (unsigned)drm);
	say("%llu", gem);
	say("%llu", (unsigned)gem_export(gem, O_RDWR));
	return p;
}

IN_CHILD(children_with_images)
{
	volatile uint32_t *p = family();
	char command[160];
	pid_t pid;

	pid = fork();
	if (!pid) {
		execv("/proc/self/exe", image_argv);
		_exit(99);
	}
	ended_well(pid, "fork and exec");
	TRUE(p[1] == 2);
	/* NOLINTNEXTLINE(*-unsafe-functions, clang-analyzer-*): vfork is what is asked about */
	pid = vfork();
	if (!pid) {
		execve("/proc/self/exe", image_argv, environ);
		_exit(99);
	}
	ended_well(pid, "vfork and exec");
	TRUE(p[1] == 4);
	TRUE(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, image_argv, environ) == 0);
	ended_well(pid, "posix_spawn");
	TRUE(p[1] == 6);
	snprintf(command, sizeof(command), "exec /proc/%d/exe --image child %s %s %s %s", getpid(),
		 words[0], words[1], words[2], words[3]);
	TRUE(system(command) == 0);
	TRUE(p[1] == 8);
}

/* What a child of vfork() does to its descriptors is not its parent's, whose memory it is in. */
IN_CHILD(vfork_has_its_own)
{
	struct kfd_ioctl_get_version_args v = {0};
	char byte;
	int status = 0, copy;
	pid_t pid;

	acquire();
	TRUE(kfd >= 0);
	copy = kfd < 0 ? -1 : dup(kfd);
	/* NOLINTBEGIN(*-unsafe-functions, clang-analyzer-*): vfork is what is asked about */
	pid = vfork();
	if (!pid) {
		close(kfd);
		if (ioctl(kfd, AMDKFD_IOC_GET_VERSION, &v) != -1 || errno != EBADF)
			_exit(1);
		if (dup2(0, drm) < 0 || fcntl(0, F_DUPFD, copy + 1) < 0)
			_exit(2);
		close_range((unsigned)copy, ~0u, 0);
		_exit(3);
	}
	/* NOLINTEND(*-unsafe-functions, clang-analyzer-*) */
	TRUE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
	WANT(0, GET_VERSION, &v);
	TRUE(ioctl(copy, AMDKFD_IOC_GET_VERSION, &v) == 0);
	TRUE(read(drm, &byte, 1) < 0 && errno == EINVAL);
	alloc(4096, GTT);
	TRUE(access("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", R_OK) == 0);
}

/* Whose parent has done nothing else with the device than to open it. */
static void vforks_at_once(void)
{
	struct kfd_ioctl_get_version_args v = {0};
	struct stat st;
	int status = 0;
	pid_t pid;

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	/* NOLINTBEGIN(*-unsafe-functions, clang-analyzer-*): vfork is what is asked about */
	pid = vfork();
	if (!pid) {
		close(kfd);
		_exit(3);
	}
	/* NOLINTEND(*-unsafe-functions, clang-analyzer-*) */
	TRUE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
	WANT(0, GET_VERSION, &v);
	TRUE(stat("/dev/kfd", &st) == 0 && S_ISCHR(st.st_mode));
}

/* Also when that parent is itself a forked child: of one that has the device, and of one that has not. */
IN_CHILD(vfork_of_a_forked_child_has_its_own)
{
	for (int opened = 0; opened < 2; opened++) {
		pid_t pid;

		if (opened)
			TRUE(close(open("/dev/kfd", O_RDWR)) == 0);
		pid = fork();
		if (!pid) {
			vforks_at_once();
			exit(failures ? 1 : 0);
		}
		ended_well(pid, opened ? "child of one that has it" : "child of one that has not");
	}
}

/* A daemon closes all that it does not know: the device's own descriptors are not among them. */
IN_CHILD(closes_all_it_does_not_know)
{
	volatile uint32_t *p;
	char lowest[32];
	int fd;
	uint32_t gem;

	acquire();
	/* The harness's own pipe is below; what the device has is above. */
	snprintf(lowest, sizeof(lowest), "/proc/self/fd/%d", 1000);
	TRUE(access(lowest, F_OK) == 0);
	for (fd = 900; fd < 2000; fd++)
		close(fd);
	TRUE(close_range(900, ~0u, 0) == 0);
	closefrom(900);
	TRUE(access(lowest, F_OK) == 0);
	fd = dup2(0, 1000);
	TRUE(fd < 0 && errno == EBUSY);
	gem = gem_new();
	p = gem_map(gem);
	TRUE(p != NULL);
	if (p)
		p[0] = 1;
	alloc(4096, GTT);
	/* What it opened itself closes as ever. */
	fd = fcntl(0, F_DUPFD, 1015);
	TRUE(fd >= 1015 && close(fd) == 0);
	TRUE(close(fd) < 0 && errno == EBADF);
}

IN_CHILD(closed_on_exec)
{
	pid_t pid;

	device_open();
	close(drm);
	image_argv[2] = (char *)"closed";
	say("%llu", (unsigned)kfd);
	pid = fork();
	if (!pid) {
		/* 0 to 2; the report is O_CLOEXEC */
		for (int fd = 3; fd < 900; fd++) {
			if (fd != kfd)
				fcntl(fd, F_SETFD, FD_CLOEXEC);
		}
		say("%llu", 4); /* and the report of the other image */
		execv("/proc/self/exe", image_argv);
		_exit(99);
	}
	ended_well(pid, "exec");
}

/* A forked child has the parent's render node with its handles, and nothing of its KFD. */
IN_CHILD(forked)
{
	volatile uint32_t *p = family();
	pid_t pid = fork();

	if (!pid) {
		failures = 0;
		image_of_child(&image_argv[3]);
		_exit(failures);
	}
	ended_well(pid, "fork");
	TRUE(p[1] == 2);
}

/* ---- sockets -------------------------------------------------------------- */

static void send_fds(int s, const int *fds, unsigned n)
{
	char room[CMSG_SPACE(4 * sizeof(int))] = {0}, byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(h), fds, n * sizeof(int));
	TRUE(sendmsg(s, &m, 0) == 1);
}

static void receive_fds(int s, int *fds, unsigned n)
{
	char room[CMSG_SPACE(4 * sizeof(int))] = {0}, byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof(room)};
	struct cmsghdr *h;

	TRUE(recvmsg(s, &m, 0) == 1);
	h = CMSG_FIRSTHDR(&m);
	TRUE(h && h->cmsg_len == CMSG_LEN(n * sizeof(int)));
	if (h)
		memcpy(fds, CMSG_DATA(h), n * sizeof(int));
}

/* The client's own owner of asynchronous input, in both forms. */
static void owned(int fd)
{
	struct f_owner_ex o = {F_OWNER_PID, 77};

	TRUE(fcntl(fd, F_GETOWN_EX, &o) == 0 && o.pid == 0 && o.type == F_OWNER_TID);
	TRUE(fcntl(fd, F_SETOWN, getpid()) == 0);
	TRUE(fcntl(fd, F_GETOWN_EX, &o) == 0 && o.pid == getpid() && o.type == F_OWNER_PID);
	o = (struct f_owner_ex){F_OWNER_PGRP, getpgrp()};
	TRUE(fcntl(fd, F_SETOWN_EX, &o) == 0 && fcntl(fd, F_GETOWN) == -getpgrp());
	memset(&o.type, 7, sizeof(o.type)); /* none of them */
	TRUE(fcntl(fd, F_SETOWN_EX, &o) < 0 && errno == EINVAL);
	o = (struct f_owner_ex){F_OWNER_TID, 0};
	TRUE(fcntl(fd, F_SETOWN_EX, &o) == 0 && fcntl(fd, F_GETOWN) == 0);
}

/* In a child that was there before the device was opened: kfd, render node, stream, dma-buf. */
static void receiver(int s)
{
	struct kfd_ioctl_get_version_args v;
	struct kfd_ioctl_acquire_vm_args a;
	struct kfd_ioctl_import_dmabuf_args im = {0};
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct prime in = {0};
	char text[128];
	int fds[4] = {-1, -1, -1, -1};
	volatile uint32_t *p;

	receive_fds(s, fds, 4);
	kfd = fds[0];
	drm = fds[1];
	WANT(EBADF, GET_VERSION, &v);
	TRUE(read(fds[0], text, 1) < 0 && errno == EINVAL);
	TRUE(fcntl(fds[0], F_GETSIG) == 0 && fcntl(fds[0], F_GETOWN) == 0);
	owned(fds[0]);
	memset(text, 0, sizeof(text));
	TRUE(ioctl(drm, _IOWR('d', 0, char[64]), text) == 0); /* version */
	TRUE(*(int *)text == 3);
	TRUE(read(fds[2], text, sizeof(text)) > 0 && !strncmp(text, "9 ", 2));
	TRUE(read(fds[2], text, sizeof(text)) < 0 && errno == EAGAIN);
	TRUE(fds[3] >= 0 && lseek(fds[3], 0, SEEK_END) == 65536);
	p = dmabuf_map(fds[3]);
	TRUE(p && p[0] == 0xabcd);
	if (p)
		p[1] = 0x55;
	/* imported, it is memory of both devices */
	device_open();
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)drm, gpu};
	WANT(0, ACQUIRE_VM, &a);
	im.gpu_id = gpu;
	im.dmabuf_fd = (uint32_t)fds[3];
	im.va_addr = reserve(65536);
	WANT(0, IMPORT_DMABUF, &im);
	m = map_args(im.handle);
	WANT(0, MAP_MEMORY_TO_GPU, &m);
	in.fd = fds[3];
	TRUE(ioctl(drm, PRIME_IN, &in) == 0);
	p = gem_map(in.handle);
	TRUE(p && p[0] == 0xabcd && p[1] == 0x55);
	_exit(failures);
}

IN_CHILD(through_a_socket)
{
	struct kfd_ioctl_acquire_vm_args a;
	struct kfd_ioctl_smi_events_args smi = {0};
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile uint32_t *p;
	uint64_t mask = 1ull << 8;
	int s[2], fds[4];
	uint32_t gem;
	pid_t pid;

	TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
	pid = fork();
	if (!pid) {
		failures = 0;
		receiver(s[1]);
	}
	device_open();
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)drm, gpu};
	WANT(0, ACQUIRE_VM, &a);
	smi.gpuid = gpu;
	WANT(0, SMI_EVENTS, &smi);
	TRUE(write((int)smi.anon_fd, &mask, 8) == 8);
	alloc_user(anon, 4096, 0);
	TRUE(mprotect(anon, 4096, PROT_READ) == 0);
	gem = gem_new();
	p = gem_map(gem);
	p[0] = 0xabcd;
	fds[0] = kfd;
	fds[1] = drm;
	fds[2] = (int)smi.anon_fd;
	fds[3] = gem_export(gem, O_RDWR);
	send_fds(s[0], fds, 4);
	ended_well(pid, "receiver");
	TRUE(p[1] == 0x55);
}

/* ---- dma-bufs as files ----------------------------------------------------- */

IN_CHILD(dmabuf_file)
{
	struct {
		uint64_t flags;
	} sync = {3};
	uint32_t gem;
	int fd, ro;
	char byte;

	device_open();
	gem = gem_new();
	fd = gem_export(gem, O_RDWR);
	ro = gem_export(gem, 0);
	TRUE(lseek(fd, 0, SEEK_END) == 65536 && lseek(fd, 0, SEEK_SET) == 0);
	TRUE(lseek(fd, 1, SEEK_SET) < 0 && errno == EINVAL);
	TRUE(lseek(fd, 0, SEEK_CUR) < 0 && errno == EINVAL);
	TRUE(read(fd, &byte, 1) < 0 && errno == EINVAL);
	TRUE(write(fd, &byte, 1) < 0 && errno == EINVAL);
	TRUE(ioctl(fd, _IOW('b', 0, uint64_t), &sync) == 0);
	sync.flags = 8;
	TRUE(ioctl(fd, _IOW('b', 0, uint64_t), &sync) < 0 && errno == EINVAL);
	TRUE(ioctl(fd, _IOW('b', 1, uint64_t), "a name") == 0);
	TRUE(ioctl(fd, _IOW('b', 1, uint64_t),
		   "a name that is much too long for what the kernel keeps of it") < 0 &&
	     errno == EINVAL);
	TRUE(ioctl(fd, _IO('b', 77), 0) < 0 && errno == ENOTTY);
	TRUE(dmabuf_map(fd) != NULL);
	TRUE(!dmabuf_map(ro) && errno == EACCES);
	TRUE(mmap(NULL, 65536 + 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED &&
	     errno == EINVAL);
	TRUE(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 65536) == MAP_FAILED && errno == EINVAL);
}
