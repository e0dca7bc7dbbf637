/* Compares the virtual device with the kernel's own queue, event and aperture code. */
#include "compare.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drm/drm_file.h"

/* Shared with the children that the parts run in. */
static struct totals {
	unsigned long compared, different;
	unsigned shown;
} *totals;
static bool last_differed;

bool same(const char *what, long long kernel, long long ours)
{
	totals->compared++;
	last_differed = kernel != ours;
	if (!last_differed)
		return true;
	totals->different++;
	last_differed = totals->shown++ < 20;
	if (last_differed)
		printf("  %s | kernel: %lld (0x%llx) | virtual: %lld (0x%llx)\n", what, kernel,
		       kernel, ours, ours);
	return false;
}

void asked(const char *fmt, ...)
{
	va_list ap;

	if (!last_differed)
		return;
	va_start(ap, fmt);
	fputs("    ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
}

static void die(const char *what, long err)
{
	fprintf(stderr, "compare: %s: %s\n", what, strerror((int)-err));
	_exit(1);
}

/* ---- a client ----------------------------------------------------------------------------- */

/* The one descriptor that exists: the render node's. */
enum { RENDER_FD = 77 };
static struct drm_file *render;

static struct drm_file *drm_of(int fd)
{
	if (fd != RENDER_FD)
		return NULL;
	drm_get(render);
	return render;
}

static bool valid(int fd)
{
	return fd == RENDER_FD;
}

static bool no_device(uint64_t addr, uint64_t len)
{
	(void)addr;
	(void)len;
	return false;
}

long client_call(struct kfd_process *p, unsigned cmd, void *args)
{
	return kfd_ioctl(&p, cmd, args);
}

struct kfd_process *client_new(void)
{
	struct kfd_ioctl_acquire_vm_args a = {RENDER_FD, 0};
	struct kfd_process *p;
	long err;

	vgpu_files.drm_file = drm_of;
	vgpu_files.drm_file_put = drm_put;
	vgpu_files.fd_valid = valid;
	vgpu_files.vma_device = no_device;
	err = kfd_open(&p);
	if (err)
		die("open of /dev/kfd", err);
	err = drm_open(false, &render);
	if (err)
		die("open of the render node", err);
	a.gpu_id = vgpu_props.gpu_id;
	err = client_call(p, AMDKFD_IOC_ACQUIRE_VM, &a);
	if (err)
		die("ACQUIRE_VM", err);
	return p;
}

void client_map(struct kfd_process *p, uint64_t handle)
{
	uint32_t gpu = vgpu_props.gpu_id;
	struct kfd_ioctl_map_memory_to_gpu_args m = {handle, (uintptr_t)&gpu, 1, 0};
	long err = client_call(p, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &m);

	if (err)
		die("MAP_MEMORY_TO_GPU", err);
}

uint64_t client_buffer(struct kfd_process *p, uint64_t va, uint64_t bytes, uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = va,
		.size = bytes,
		.gpu_id = vgpu_props.gpu_id,
		.flags = flags | KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
	};
	long err = client_call(p, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);

	if (err)
		die("ALLOC_MEMORY_OF_GPU", err);
	client_map(p, a.handle);
	return a.handle;
}

long client_try_unmap(struct kfd_process *p, uint64_t handle)
{
	uint32_t gpu = vgpu_props.gpu_id;
	struct kfd_ioctl_unmap_memory_from_gpu_args m = {handle, (uintptr_t)&gpu, 1, 0};

	return client_call(p, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &m);
}

void client_unmap(struct kfd_process *p, uint64_t handle)
{
	long err = client_try_unmap(p, handle);

	if (err)
		die("UNMAP_MEMORY_FROM_GPU", err);
}

void client_free(struct kfd_process *p, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {handle};
	long err = client_call(p, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &a);

	if (err)
		die("FREE_MEMORY_OF_GPU", err);
}

/* ---- sizes and apertures ------------------------------------------------------------------ */

void compare_sizes(void)
{
	struct witness_apertures a;
	struct vgpu_props ours;

	for (uint32_t cus = 2; cus <= 40; cus += 2) {
		struct witness_sizes s;

		vgpu_config.cus = cus;
		vgpu_props_init(&ours);
		witness_sizes(cus, &s);
		same("cwsr_size", s.cwsr, ours.cwsr_size);
		asked("%u CUs", cus);
		same("ctl_stack_size", s.ctl_stack, ours.ctl_stack_size);
		asked("%u CUs", cus);
		same("debug_memory_size", s.debug_memory, ours.debug_memory_size);
		asked("%u CUs", cus);
		same("eop_buffer_size", s.eop, ours.eop_size);
		asked("%u CUs", cus);
	}
	same("kfd_init_apertures", witness_apertures(1ull << 47, &a), 0);
	same("lds_base", (long long)a.lds_base, (long long)ours.lds_base);
	same("lds_limit", (long long)a.lds_limit, (long long)ours.lds_limit);
	same("scratch_base", (long long)a.scratch_base, (long long)ours.scratch_base);
	same("scratch_limit", (long long)a.scratch_limit, (long long)ours.scratch_limit);
	same("gpuvm_base", (long long)a.gpuvm_base, (long long)ours.gpuvm_base);
	same("gpuvm_limit", (long long)a.gpuvm_limit, (long long)ours.gpuvm_limit);
}

/* ---- parts, each in a process of its own -------------------------------------------------- */

static void part_queues(void)
{
	compare_queues(client_new());
}

static void part_smi(void)
{
	compare_smi(client_new());
}

static int run(const char *name, void (*part)(void))
{
	unsigned long compared = totals->compared, different = totals->different;
	int pid, status;

	totals->shown = 0;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		part();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("%s: %lu answers compared, %lu different\n", name, totals->compared - compared,
	       totals->different - different);
	if (status)
		printf("%s: ended with status 0x%x\n", name, status);
	return status || totals->different != different || totals->compared == compared;
}

int main(void)
{
	int failed = 0;

	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (totals == MAP_FAILED || vgpu_config_load())
		return 2;
	failed |= run("save-area sizes and apertures", compare_sizes);
	failed |= run("queue buffers", part_queues);
	failed |= run("events", compare_events);
	failed |= run("SMI streams", part_smi);
	return failed;
}
