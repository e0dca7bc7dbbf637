/* What every group of the ioctl conformance test uses: calls with the answer they must give. */
#ifndef IOCTL_HARNESS_H
#define IOCTL_HARNESS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef KFD_UAPI_H /* the driver's own, in tests that use the driver too */
#include "tools/vgpu/kfd/abi.h"
#endif

/* Pseudo numbers for calls that are no ioctl. */
enum { NR_MMAP = 0x100, NR_SMI_READ, NR_SMI_WRITE, NR_ANY, NR_DRM_MMAP };

enum {
	GTT = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
	      KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
	CWSR = 19185664,
	CTL = 16384,
	AREA = 19226624,
};
#define BAD_PTR 0xdead000ull
#define KERNEL  0xffff800000000000ull

static int report = -1; /* where a group's child writes what it saw */
static int failures;
static int kfd = -1, drm = -1;
static uint32_t gpu;
static uint64_t next_va = 0x7c0000000000;
/* Milliseconds for what the device is to do, rather a test's time-out than a limit that a busy machine
 * meets; fewer where it is known that it will not. */
static uint32_t patience = 100000;

struct seen {
	uint32_t nr, err;
};

static void record(uint32_t nr, int err)
{
	struct seen s = {nr, (uint32_t)err};

	if (write(report, &s, sizeof(s)) != sizeof(s))
		_exit(99);
}

static const char *errname(int e)
{
	return !e ? "0" : e == 524 ? "ENOTSUPP(524)" : strerrorname_np(e);
}

static void check(int line, const char *what, uint32_t nr, long r, int want)
{
	int got = r < 0 ? errno : 0;

	if (got == want) {
		record(nr, got);
		return;
	}
	failures++;
	fprintf(stderr, "line %d: %s: got %s, want %s\n", line, what, errname(got), errname(want));
}

#define TEXT(x) #x
#define WANT(err, CMD, args)                                                                       \
	check(__LINE__, TEXT(CMD), _IOC_NR(AMDKFD_IOC_##CMD), ioctl(kfd, AMDKFD_IOC_##CMD, args),  \
	      err)
#define TRUE(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			failures++;                                                                \
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond);                         \
		}                                                                                  \
	} while (0)

/* ---- set-up --------------------------------------------------------------- */

static void device_open(void)
{
	FILE *f;

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	f = fopen("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "re");
	if (f) {
		if (fscanf(f, "%u", &gpu) != 1)
			gpu = 0;
		fclose(f);
	}
	TRUE(kfd >= 0);
}

static void acquire(void)
{
	struct kfd_ioctl_acquire_vm_args a;

	device_open();
	a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)drm, gpu};
	WANT(0, ACQUIRE_VM, &a);
}

static uint64_t reserve(uint64_t size)
{
	uint64_t va = next_va;

	next_va += (size + 0x1fffff) & ~0xfffffull;
	return va;
}

static struct kfd_ioctl_alloc_memory_of_gpu_args alloc(uint64_t size, uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = reserve(size), .size = size, .gpu_id = gpu, .flags = flags};

	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	return a;
}

/* A number that the kernel has of this process in /sys/class/kfd/kfd/proc/<pid>/; ~0: no such file. */
static inline uint64_t proc_number(const char *fmt, unsigned a)
{
	char path[160];
	unsigned long long v = ~0ull;
	int n = snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/", getpid());
	FILE *f;

	snprintf(path + n, sizeof(path) - (size_t)n, fmt, a);
	f = fopen(path, "re");
	TRUE(f && fscanf(f, "%llu", &v) == 1);
	if (f)
		fclose(f);
	return v;
}

/* The process's own memory for the GPU, at its own address; flags: besides USERPTR. */
static inline struct kfd_ioctl_alloc_memory_of_gpu_args alloc_user(void *p, uint64_t size,
								   uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.va_addr = (uintptr_t)p,
						       .size = size,
						       .mmap_offset = (uintptr_t)p,
						       .gpu_id = gpu,
						       .flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR |
								flags};

	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
	return a;
}

static struct kfd_ioctl_map_memory_to_gpu_args map_args(uint64_t handle)
{
	return (struct kfd_ioctl_map_memory_to_gpu_args){
		.handle = handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};
}

static struct kfd_ioctl_alloc_memory_of_gpu_args mapped(uint64_t size, uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = alloc(size, flags);
	struct kfd_ioctl_map_memory_to_gpu_args m = map_args(a.handle);

	WANT(0, MAP_MEMORY_TO_GPU, &m);
	TRUE(m.n_success == 1);
	return a;
}

static struct kfd_ioctl_create_queue_args queue_args(void)
{
	static struct kfd_ioctl_alloc_memory_of_gpu_args ptrs, eop, cwsr, ring;

	if (!ptrs.handle) {
		ptrs = mapped(4096, GTT);
		eop = mapped(4096, GTT);
		cwsr = mapped(AREA, GTT);
		ring = mapped(4096, GTT);
	}
	return (struct kfd_ioctl_create_queue_args){
		.ring_base_address = ring.va_addr,
		.write_pointer_address = ptrs.va_addr + 64,
		.read_pointer_address = ptrs.va_addr + 128,
		.ring_size = 4096,
		.gpu_id = gpu,
		.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
		.queue_percentage = 100,
		.queue_priority = 7,
		.eop_buffer_address = eop.va_addr,
		.eop_buffer_size = 4096,
		.ctx_save_restore_address = cwsr.va_addr,
		.ctx_save_restore_size = CWSR,
		.ctl_stack_size = CTL,
	};
}

static uint32_t event_create(uint32_t type, bool auto_reset)
{
	struct kfd_ioctl_create_event_args e = {.event_type = type, .auto_reset = auto_reset};

	WANT(0, CREATE_EVENT, &e);
	return e.event_id;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Waits for cond, with that patience. */
#define UNTIL(cond)                                                                                \
	({                                                                                         \
		uint64_t until_ = now_ns() + patience * 1000000ull;                                \
		bool ok_;                                                                          \
		while (!(ok_ = (cond)) && now_ns() < until_)                                       \
			usleep(1000);                                                              \
		ok_;                                                                               \
	})

/* How often a thread of this process has gone to sleep, plus one; 0: it does not sleep now. */
static unsigned long sleeps(pid_t tid)
{
	char path[64], line[256], state = 0;
	unsigned long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "State: %c", &state);
		sscanf(line, "voluntary_ctxt_switches: %lu", &n);
	}
	if (f)
		fclose(f);
	return state == 'S' ? n + 1 : 0;
}

/* Waits until the thread that writes its number to tid sleeps and goes on sleeping: it is inside of
 * what it was to call. Whoever slept for a time instead would rely on it to be quick. */
static void until_asleep(const pid_t *tid)
{
	unsigned long last = 0, now;

	for (unsigned same = 0, i = 0; same < 60 && i < 60000; i++) {
		pid_t t = __atomic_load_n(tid, __ATOMIC_ACQUIRE);

		now = t ? sleeps(t) : 0;
		same = now && now == last ? same + 1 : 0;
		last = now;
		usleep(1000);
	}
}

#ifndef KFD_UAPI_H
/* kfd_ioctl_svm_args with room for its attributes. */
struct svm_call {
	uint64_t start_addr, size;
	uint32_t op, nattr;
	struct kfd_ioctl_svm_attribute a[4];
};
#endif

#endif
