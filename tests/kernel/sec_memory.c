/* Memory calls up to the look-up of the GPU, and the SVM call. */
#include "probe.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char page[65536] __attribute__((aligned(4096)));

static void acquire(int fd)
{
	int null = open("/dev/null", O_RDWR);
	const struct {
		uint32_t fd, gpu;
		const char *name;
	} c[] = {
		{(uint32_t)-1, NO_GPU, "fd -1"},
		{999, NO_GPU, "fd 999, closed"},
		{(uint32_t)null, NO_GPU, "fd of /dev/null"},
		{(uint32_t)null, 0, "fd of /dev/null, gpu 0"},
		{(uint32_t)fd, NO_GPU, "fd of /dev/kfd"},
	};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		struct kfd_ioctl_acquire_vm_args a = {c[i].fd, c[i].gpu};

		TRY("ACQUIRE_VM", fd, AMDKFD_IOC_ACQUIRE_VM, &a, c[i].name);
	}
	close(null);
}

static void alloc(int fd)
{
	static const struct {
		uint64_t va, size;
		uint32_t gpu, flags;
		const char *name;
	} c[] = {
		{0x100000000, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "VRAM"},
		{0x100000000, 4096, 0, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "VRAM, gpu 0"},
		{0x100000000, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_GTT, "GTT"},
		{0x100000000, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, "USERPTR"},
		{0x100000000, 8192, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, "DOORBELL 8192"},
		{0x100000000, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, "DOORBELL 4096"},
		{0x100000000, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, "MMIO_REMAP"},
		{0x100000000, 0, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "size 0"},
		{0x100000000, 0, 0, 0, "size 0, gpu 0, flags 0"},
		{0x100000000, 1, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "size 1"},
		{0x100000001, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "va misaligned"},
		{0x100000000, 4096, NO_GPU, 0, "flags 0"},
		{0x100000000, 4096, NO_GPU, 0xffffffff, "flags 0xffffffff"},
		{0, 4096, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "va 0"},
		{0, ~0ull, NO_GPU, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "size 2^64 - 1"},
	};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		struct kfd_ioctl_alloc_memory_of_gpu_args a = {
			c[i].va, c[i].size, 0x77, (uintptr_t)page, c[i].gpu, c[i].flags,
		};

		TRY("ALLOC_MEMORY_OF_GPU", fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a, c[i].name,
		    "handle 0x%llx, mmap_offset kept: %d", (unsigned long long)a.handle,
		    a.mmap_offset == (uintptr_t)page);
	}
}

static void map_unmap(int fd, const char *input, uint64_t handle, uint64_t ids, uint32_t n,
		      uint32_t done)
{
	struct kfd_ioctl_map_memory_to_gpu_args m = {handle, ids, n, done};
	struct kfd_ioctl_unmap_memory_from_gpu_args u = {handle, ids, n, done};

	TRY("MAP_MEMORY_TO_GPU", fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &m, input, "n_success %u",
	    m.n_success);
	TRY("UNMAP_MEMORY_FROM_GPU", fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &u, input,
	    "n_success %u", u.n_success);
}

static void handles(int fd)
{
	static const uint64_t h[] = {0, 1, (uint64_t)NO_GPU << 32 | 1, ~0ull};
	uint32_t ids[4] = {NO_GPU, 0, 1, 2};
	const uint64_t arr = (uintptr_t)ids;

	for (unsigned i = 0; i < COUNT_OF(h); i++) {
		struct kfd_ioctl_free_memory_of_gpu_args f = {h[i]};
		struct kfd_ioctl_export_dmabuf_args x = {.handle = h[i], .dmabuf_fd = 0x77};
		const char *in = text("handle 0x%llx", (unsigned long long)h[i]);

		TRY("FREE_MEMORY_OF_GPU", fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &f, in);
		map_unmap(fd, in, h[i], arr, 1, 0);
		TRY("EXPORT_DMABUF", fd, AMDKFD_IOC_EXPORT_DMABUF, &x, in, "fd 0x%x", x.dmabuf_fd);
	}
	map_unmap(fd, "0 devices", h[2], arr, 0, 0);
	map_unmap(fd, "0 devices, array NULL", h[2], 0, 0, 0);
	map_unmap(fd, "0 devices, n_success 1", h[2], arr, 0, 1);
	map_unmap(fd, "n_success 2 of 1", h[2], arr, 1, 2);
	map_unmap(fd, "n_success 1 of 1", h[2], arr, 1, 1);
	map_unmap(fd, "array NULL", h[2], 0, 1, 0);
	map_unmap(fd, "array in the kernel", h[2], KERNEL_ADDRESS, 1, 0);
	map_unmap(fd, "4 devices", h[2], arr, 4, 0);
	map_unmap(fd, "0xffffffff devices", h[2], arr, 0xffffffff, 0);
	map_unmap(fd, "0x10000000 devices", h[2], arr, 0x10000000, 0);
}

static void dmabufs(int fd)
{
	int null = open("/dev/null", O_RDWR);
	const struct {
		uint32_t fd;
		const char *name;
	} c[] = {{(uint32_t)-1, "fd -1"},
		 {999, "fd 999, closed"},
		 {(uint32_t)null, "fd of /dev/null"}};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		struct kfd_ioctl_get_dmabuf_info_args g = {.size = 0x77, .dmabuf_fd = c[i].fd};
		struct kfd_ioctl_import_dmabuf_args m = {0x100000000, 0x77, NO_GPU, c[i].fd};

		TRY("GET_DMABUF_INFO", fd, AMDKFD_IOC_GET_DMABUF_INFO, &g, c[i].name, "size 0x%llx",
		    (unsigned long long)g.size);
		TRY("IMPORT_DMABUF", fd, AMDKFD_IOC_IMPORT_DMABUF, &m, c[i].name, "handle 0x%llx",
		    (unsigned long long)m.handle);
	}
	close(null);
}

void section_memory(void)
{
	int fd = kfd_open();

	acquire(fd);
	alloc(fd);
	handles(fd);
	dmabufs(fd);
	close(fd);
}

void section_svm(void)
{
	static struct {
		const char *name;
		unsigned start, size, op, nattr, bytes;
	} c[] = {
		{"SET_ATTR, no attribute", 0, 4096, 0, 0, 24},
		{"SET_ATTR, one", 0, 4096, 0, 1, 32},
		{"GET_ATTR, one", 0, 4096, 1, 1, 32},
		{"two attributes, size of one", 0, 4096, 0, 2, 32},
		{"0xffffffff attributes, size of one", 0, 4096, 0, 0xffffffff, 32},
		{"0x20000000 attributes, size of one", 0, 4096, 0, 0x20000000, 32},
		{"size 16", 0, 4096, 0, 0, 16},
		{"size 0", 0, 4096, 0, 0, 0},
		{"start misaligned", 1, 4096, 0, 1, 32},
		{"length misaligned", 0, 100, 0, 1, 32},
		{"length 0", 0, 0, 0, 1, 32},
		{"op 7", 0, 4096, 7, 1, 32},
	};
	uint64_t anon = (uintptr_t)pages(1 << 20, PROT_READ | PROT_WRITE);
	int fd = kfd_open();

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		union {
			struct kfd_ioctl_svm_args a;
			uint32_t w[16];
		} u = {{anon + c[i].start, c[i].size, c[i].op, c[i].nattr}};

		u.w[6] = KFD_IOCTL_SVM_ATTR_SET_FLAGS;
		u.w[7] = 3;
		u.w[8] = KFD_IOCTL_SVM_ATTR_GRANULARITY;
		u.w[9] = 9;
		TRY("SVM", fd, _IOC(3, 'K', 0x20, c[i].bytes), &u, c[i].name, "%u 0x%x %u 0x%x",
		    u.w[6], u.w[7], u.w[8], u.w[9]);
	}
	TRY("SVM", fd, AMDKFD_IOC_SVM, NULL, "NULL");
	close(fd);
}
