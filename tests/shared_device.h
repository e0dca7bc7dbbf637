/* A shared device in a test: a daemon of its own, processes that use it, steps they wait for. */
#ifndef TESTS_SHARED_DEVICE_H
#define TESTS_SHARED_DEVICE_H

#include <amdgpu_drm.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <drm.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "queues/device.h"

#include "ioctl/harness.h"

static struct bw_device dev;
static struct queue_fault fault;
static const char *shared_act = "--daemon";
static unsigned shared_fds; /* the daemon's, without clients */
static char shared_dir[] = "/tmp/barewave-shared-XXXXXX", shared_socket[64];
static struct {
	int step[8];
	uint64_t word[16];
} *common; /* memory of all processes of a test */

static int vgpud(const char *act, const char *set, char *out, size_t n)
{
	char cmd[512];
	size_t len = 0;
	FILE *p;

	snprintf(cmd, sizeof(cmd),
		 "LD_PRELOAD= VGPU_STATS= VGPU_SET='%s' build/vgpud --socket %s %s </dev/null", set,
		 shared_socket, act);
	p = popen(cmd, "r");
	cr_assert(p);
	if (out) {
		len = fread(out, 1, n - 1, p);
		out[len] = 0;
	}
	return pclose(p);
}

/* A number of the daemon's. */
static long long shared_number(const char *key)
{
	static char text[65536];
	char want[64], *at;

	cr_assert_eq(vgpud("--status", "", text, sizeof(text)), 0);
	snprintf(want, sizeof(want), "\"%s\": ", key);
	at = strstr(text, want);
	cr_assert(at, "no %s in %s", key, text);
	return strtoll(at + strlen(want), NULL, 10);
}

static bool asleep(long long pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%lld/stat", pid);
	f = fopen(path, "re");
	cr_assert(f);
	cr_assert_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'S';
}

/* Of a daemon that sleeps: it has one thread, and does so when it has dealt with all that it has heard,
 * the end of the look that asked for its number too. */
static unsigned shared_descriptors(void)
{
	long long pid = shared_number("pid");
	struct dirent *e;
	char path[64];
	unsigned n = 0;
	DIR *d;

	cr_assert(UNTIL(asleep(pid)));
	snprintf(path, sizeof(path), "/proc/%lld/fd", pid);
	d = opendir(path);
	cr_assert(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void common_new(void)
{
	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void shared_start(const char *set)
{
	cr_assert(mkdtemp(shared_dir));
	snprintf(shared_socket, sizeof(shared_socket), "%s/gpu", shared_dir);
	common_new();
	cr_assert_eq(vgpud(shared_act, set, NULL, 0), 0);
	shared_fds = shared_descriptors();
}

/* What is left when all are gone; processes that end are noticed a moment later. */
static void shared_clean(void)
{
	static const char *const zero[] = {"clients",     "kfd_processes", "bos",      "bo_bytes",
					   "vram",        "gtt",           "evicted",  "preempt",
					   "system",      "ttm",           "kfd_vram", "files",
					   "mes_queues",  "on_hardware",   "queues",   "sdma",
					   "smi_streams", "watch_points",  "waves"};

	cr_expect(UNTIL(!shared_number("clients")));
	(void)UNTIL(shared_descriptors() == shared_fds);
	cr_expect_eq(shared_descriptors(), shared_fds, "descriptors: %u, were %u",
		     shared_descriptors(), shared_fds);
	for (unsigned i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
		cr_expect_eq(shared_number(zero[i]), 0, "%s: %lld", zero[i],
			     shared_number(zero[i]));
}

static void shared_stop(void)
{
	cr_assert_eq(vgpud("--stop", "", NULL, 0), 0);
	cr_expect(access(shared_socket, F_OK), "the socket is gone with its daemon");
	cr_expect_eq(rmdir(shared_dir), 0, "something is left beside the socket");
}

/* Runs fn as a client; set: its own settings. */
static pid_t client(const char *set, void (*fn)(void))
{
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		setenv("VGPU_SHARED", shared_socket, 1);
		setenv("VGPU_SET", set, 1);
		report = open("/dev/null", O_WRONLY);
		fn();
		_exit(failures ? 1 : 0);
	}
	return pid;
}

static void join_client(pid_t pid)
{
	int status = -1;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0, "client %d: status 0x%x", pid, (unsigned)status);
}

/* Two clients side by side, both to their end; set is the first one's. */
static void join_two(const char *set, void (*one)(void), void (*other)(void))
{
	pid_t a = client(set, one), b = client("", other);

	join_client(a);
	join_client(b);
}

/* Steps: one process announces, others wait. */
static void announce(unsigned i, int step)
{
	__atomic_store_n(&common->step[i], step, __ATOMIC_RELEASE);
}

static bool reached(unsigned i, int step)
{
	return __atomic_load_n(&common->step[i], __ATOMIC_ACQUIRE) >= step;
}

static void await(unsigned i, int step)
{
	TRUE(UNTIL(reached(i, step)));
}

/* ---- descriptors over a socket --------------------------------------------- */

static void send_fd(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	TRUE(sendmsg(sock, &h, 0) == 1);
}

static int receive_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd = -1;

	TRUE(recvmsg(sock, &h, 0) == 1 && CMSG_FIRSTHDR(&h));
	if (CMSG_FIRSTHDR(&h))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(int));
	return fd;
}

/* ---- a wave that waits, then adds ------------------------------------------- */

/* Every lane of 64 adds 1 to out[64], spins until out[2] is not 0, then adds 1 to out[0]
 *	s_load_b64 s[4:5], s[0:1], 0x0;  v_mov_b32 v1, 0;  v_mov_b32 v2, 1;  s_waitcnt lgkmcnt(0)
 *	global_atomic_add_u32 v1, v2, s[4:5] offset:256
 * L:	s_load_b32 s6, s[4:5], 0x8 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  global_atomic_add_u32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_SPIN[] = {
	0xf4040100, 0xf8000000, 0x7e020280, 0x7e040281, 0xbf89fc07,
	0xdcd60100, 0x00040201, 0xf4004182, 0xf8000008, 0xbf89fc07,
	0xbf068006, 0xbfa2fffb, 0xdcd60000, 0x00040201, 0xbfb00000,
};

struct spin {
	struct bo *code, *args;
	struct signal *done;
};

static struct bo *spin_buffer(bool code)
{
	struct bo_desc d = {.owner = code ? "code" : "io",
			    .size = 4096,
			    .placement = BO_GTT,
			    .coherence = BO_UNCACHED,
			    .executable = code,
			    .host = true};
	struct bo *bo = NULL;

	TRUE(!bo_create(dev.memory, &d, &bo));
	return bo;
}

/* Dispatches code[bytes] of one argument, va, in `groups` workgroups of `items` work items. */
static void spin_code(struct spin *s, const uint32_t *code, size_t bytes, uint64_t va,
		      uint32_t groups, uint16_t items)
{
	struct queue_batch b;
	uint8_t *kernel;

	s->code = spin_buffer(true);
	s->args = spin_buffer(false);
	kernel = bo_host(s->code);
	*(int64_t *)(void *)(kernel + 16) = 256;
	*(uint32_t *)(void *)(kernel + 48) = 1 | 0xc0u << 12 | 1u << 21 | 1u << 23;
	*(uint32_t *)(void *)(kernel + 52) = 2 << 1 | 1 << 7;
	*(uint16_t *)(void *)(kernel + 56) = 0x400 | 8;
	memcpy(kernel + 256, code, bytes);
	*(uint64_t *)bo_host(s->args) = va;
	TRUE(!signal_create(dev.queue, 1, &s->done));
	TRUE(!queue_begin(dev.queue, 1, &b));
	queue_dispatch(&b, &(struct aql_dispatch){.kernel_object = bo_va(s->code),
						  .kernarg = bo_va(s->args),
						  .grid = {groups * items, 1, 1},
						  .group = {items, 1, 1},
						  .completion = s->done});
	queue_commit(&b);
}

/* P_SPIN on the words at va. */
static void spin_start(struct spin *s, uint64_t va)
{
	spin_code(s, P_SPIN, sizeof(P_SPIN), va, 1, 64);
}

/* Until all of them do. */
static void spin_runs(uint32_t *io)
{
	TRUE(UNTIL(__atomic_load_n(&io[64], __ATOMIC_ACQUIRE) == 64));
}

static int spin_end(struct spin *s)
{
	int rc = signal_wait(dev.queue, s->done, 1, patience * 1000000ull, &fault);

	if (rc)
		fprintf(stderr, "wave: %s\n", fault.text);
	signal_destroy(s->done);
	bo_destroy(s->args);
	bo_destroy(s->code);
	return rc;
}

static void spin_release(uint32_t *io)
{
	__atomic_store_n(&io[2], 1, __ATOMIC_RELEASE);
}

static int device_client(void)
{
	char why[512] = "";
	int rc = bw_device_open(NULL, &dev, why, sizeof(why));

	if (rc)
		fprintf(stderr, "device: %s\n", why);
	TRUE(!rc);
	return rc;
}

static void device_client_end(void)
{
	struct bw_teardown left;

	TRUE(!bw_device_close(&dev, &left));
}

/* ---- plain calls ----------------------------------------------------------- */

#define MB (1ull << 20)

#define DRM_CALL(err, nr, dir, args)                                                               \
	check(__LINE__, TEXT(nr), NR_ANY, ioctl(drm, _IOC(dir, 'd', nr, sizeof(*(args))), args),   \
	      err)
#define RW (_IOC_READ | _IOC_WRITE)

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
	uint64_t end = now_ns() + patience * 1000000ull;

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

static void wait_hw(uint32_t id, uint32_t cause_lost)
{
	struct kfd_event_data d = {.event_id = id};
	struct kfd_ioctl_wait_events_args w = {
		.events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = patience};

	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(d.hw.memory_lost == cause_lost);
}

#endif
