/* Every refusal that our own arguments can cause names the field, the value and the rule. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "kfd/kfd.h"

struct mapping {
	uint64_t start, size;
};
static const struct mapping maps[] = {
	{0x10000, 65536},       /* ring */
	{0x30000, 4096},        /* pointers */
	{0x40000, 4096},        /* eop */
	{0x1000000, 0x1256000}, /* save area */
};

static bool lookup(const void *ctx, uint64_t va, uint64_t *start, uint64_t *size)
{
	(void)ctx;
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		if (va >= maps[i].start && va - maps[i].start < maps[i].size) {
			*start = maps[i].start;
			*size = maps[i].size;
			return true;
		}
	}
	return false;
}

static const struct kfd_facts facts = {
	.gpu_id = 3750,
	.minor = 17,
	.bound = true,
	.cwsr_size = 19185664,
	.ctl_stack_size = 16384,
	.debug_size = 40960,
	.eop_size = 4096,
	.sdma_engines = 1,
	.gpuvm_base = 0x10000,
	.gpuvm_limit = 0x7fffffffffff,
	.lookup = lookup,
};

static const struct kfd_ioctl_create_queue_args good = {
	.ring_base_address = 0x10000,
	.write_pointer_address = 0x30038,
	.read_pointer_address = 0x30080,
	.ring_size = 65536,
	.gpu_id = 3750,
	.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
	.queue_percentage = 100,
	.queue_priority = 7,
	.eop_buffer_address = 0x40000,
	.eop_buffer_size = 4096,
	.ctx_save_restore_address = 0x1000000,
	.ctx_save_restore_size = 19185664,
	.ctl_stack_size = 16384,
};

static void check(unsigned long cmd, const void *args, int err, const struct kfd_facts *f,
		  const char *want1, const char *want2)
{
	char text[512];

	cr_expect_eq(kfd_explain(_IOC_NR(cmd), args, err, f, text, sizeof(text)),
		     (int)strlen(text));
	cr_expect(strstr(text, want1) && strstr(text, want2), "wanted \"%s\" and \"%s\" in: %s",
		  want1, want2, text);
	cr_expect(strstr(text, " refused ("), "%s", text);
}

#define QUEUE(change, err, a, b)                                                                   \
	do {                                                                                       \
		struct kfd_ioctl_create_queue_args q = good;                                       \
		change;                                                                            \
		check(AMDKFD_IOC_CREATE_QUEUE, &q, err, &facts, a, b);                             \
	} while (0)

Test(explain, create_queue)
{
	QUEUE(q.queue_percentage = 101, EINVAL, "queue_percentage is 101", "0..100");
	QUEUE(q.queue_priority = 16, EINVAL, "queue_priority is 16", "0..15");
	QUEUE(q.ring_size = 3000, EINVAL, "ring_size is 3000", "power of two");
	QUEUE(q.ring_base_address = 1ull << 60, EFAULT, "ring_base_address", "user address");
	QUEUE(q.read_pointer_address = 1ull << 60, EFAULT, "read_pointer_address", "user address");
	QUEUE(q.ctx_save_restore_address = 1ull << 60, EFAULT, "ctx_save_restore_address",
	      "user address");
	QUEUE(q.queue_type = 9, 524, "queue_type is 9", "524");
	QUEUE(q.gpu_id = 1, EINVAL, "gpu_id is 1", "3750");
	QUEUE((void)q, ESRCH, "ACQUIRE_VM", "ESRCH");
	QUEUE(q.queue_type = 4; q.sdma_engine_id = 1, EINVAL, "sdma_engine_id is 1", "1 engines");
	QUEUE(q.write_pointer_address = 0x50000, EINVAL, "write_pointer_address",
	      "nothing is mapped");
	QUEUE(q.read_pointer_address = 0x10080, EINVAL, "read_pointer_address",
	      "mapping of 0x10000 bytes at 0x10000");
	QUEUE(q.ring_base_address = 0x11000, EINVAL, "ring_base_address", "exactly 0x10000 bytes");
	QUEUE(q.ring_size = 32768, EINVAL, "ring_base_address", "exactly 0x8000 bytes");
	QUEUE(q.eop_buffer_size = 2048, EINVAL, "eop_buffer_size is 2048", "4096");
	QUEUE(q.eop_buffer_size = 8192, EINVAL, "eop_buffer_address", "exactly 0x2000 bytes");
	QUEUE(q.ctl_stack_size = 8192, EINVAL, "ctl_stack_size is 8192", "exactly 16384");
	QUEUE(q.ctx_save_restore_size = 13942784, EINVAL, "ctx_save_restore_size is 13942784",
	      "19185664");
	QUEUE(q.ctx_save_restore_address = 0, EINVAL, "ctx_save_restore_address is 0", "save area");
	QUEUE(q.ctx_save_restore_size += 4096, EINVAL, "ctx_save_restore_address",
	      "exactly 0x1257000 bytes");
	QUEUE((void)q, ENOSPC, "127 queues", "ENOSPC");
	QUEUE((void)q, EPERM, "write_pointer_address 0x30038", "userptr");
	QUEUE((void)q, EBUSY, "doorbell", "EBUSY");
	QUEUE((void)q, EIO, "MES", "EIO");
	/* Nothing wrong with it: said so, no rule invented. */
	QUEUE((void)q, EINVAL, "no rule known", "EINVAL");
	/* An SDMA queue needs no save area. */
	QUEUE(q.queue_type = 1; q.ctx_save_restore_address = 0, EINVAL, "no rule known", "EINVAL");
}

Test(explain, other_queue_calls)
{
	struct kfd_ioctl_update_queue_args u = {.queue_id = 5,
						.ring_base_address = 0x10000,
						.ring_size = 65536,
						.queue_percentage = 100};
	struct kfd_ioctl_destroy_queue_args d = {.queue_id = 5};
	struct kfd_ioctl_get_queue_wave_state_args w = {.queue_id = 5};

	check(AMDKFD_IOC_UPDATE_QUEUE, &u, EFAULT, &facts, "queue_id is 5", "live queue");
	check(AMDKFD_IOC_UPDATE_QUEUE, &u, EACCES, &facts, "reset", "EACCES");
	u.ring_size = 32768;
	check(AMDKFD_IOC_UPDATE_QUEUE, &u, EFAULT, &facts, "ring_base_address", "exactly 0x8000");
	u.queue_percentage = 256;
	check(AMDKFD_IOC_UPDATE_QUEUE, &u, EINVAL, &facts, "queue_percentage is 256", "0..100");
	check(AMDKFD_IOC_DESTROY_QUEUE, &d, EINVAL, &facts, "queue_id is 5", "live queue");
	check(AMDKFD_IOC_DESTROY_QUEUE, &d, EIO, &facts, "queue 5", "gone");
	check(AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &w, EINVAL, &facts, "queue 5", "queue_percentage 0");
	check(AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &w, EFAULT, &facts, "queue_id is 5", "16 writable");
}

#define ALLOC(change, err, a, b)                                                                   \
	do {                                                                                       \
		struct kfd_ioctl_alloc_memory_of_gpu_args m = {                                    \
			.va_addr = 0x200000,                                                       \
			.size = 4096,                                                              \
			.gpu_id = 3750,                                                            \
			.flags = KFD_IOC_ALLOC_MEM_FLAGS_GTT,                                      \
		};                                                                                 \
		change;                                                                            \
		check(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &m, err, &facts, a, b);                      \
	} while (0)

Test(explain, memory)
{
	struct kfd_ioctl_free_memory_of_gpu_args fr = {.handle = 3750ull << 32 | 4};
	struct kfd_ioctl_map_memory_to_gpu_args map = {.handle = 3750ull << 32 | 4, .n_devices = 1};
	struct kfd_ioctl_unmap_memory_from_gpu_args un = {.handle = 3750ull << 32 | 4,
							  .n_devices = 1};

	ALLOC(m.size = 0, EINVAL, "size is 0", "1 byte");
	ALLOC(m.gpu_id = 9, EINVAL, "gpu_id is 9", "3750");
	ALLOC(m.flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, EINVAL, "size is 4096", "8192");
	ALLOC(m.flags = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;
	      m.size = 8192, EINVAL, "size is 8192", "exactly 4096");
	ALLOC(m.flags = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, EINVAL, "flags is 0x80000000",
	      "one of VRAM");
	ALLOC(m.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, EINVAL, "mmap_offset is 0",
	      "user pointer");
	ALLOC(m.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
	      m.mmap_offset = 0x7000, EFAULT, "0x7000", "writable memory");
	ALLOC((void)m, EADDRINUSE, "0x200000", "SVM");
	ALLOC((void)m, ENODEV, "ACQUIRE_VM", "ENODEV");
	ALLOC((void)m, ENOMEM, "4096 bytes of GTT", "limits");

	check(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &fr, EBUSY, &facts, "still mapped", "UNMAP");
	check(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &fr, EPERM, &facts, "event page", "EPERM");
	check(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &fr, EINVAL, &facts, "0xea600000004", "live buffer");
	fr.handle = 7ull << 32;
	check(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &fr, EINVAL, &facts, "gpu_id 7", "3750");
	check(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map, EINVAL, &facts, "overlaps", "4 KiB aligned");
	check(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map, ENOMEM, &facts, "0xea600000004", "page tables");
	map.n_success = 2;
	check(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map, EINVAL, &facts, "n_success is 2", "n_devices 1");
	map.n_devices = 0;
	check(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map, EINVAL, &facts, "n_devices is 0", "at least 1");
	check(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &un, EBUSY, &facts, "queue uses", "DESTROY_QUEUE");
	check(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &un, EINVAL, &facts, "not mapped", "0xea600000004");
}

Test(explain, events_and_process)
{
	struct kfd_ioctl_set_event_args set = {.event_id = 0x40000001};
	struct kfd_ioctl_wait_events_args wait = {.num_events = 5000};
	struct kfd_ioctl_create_event_args create = {.event_page_offset = 3750ull << 32};
	struct kfd_ioctl_acquire_vm_args vm = {.drm_fd = 9, .gpu_id = 3750};
	struct kfd_ioctl_set_memory_policy_args pol = {.gpu_id = 3750, .default_policy = 3};
	struct kfd_ioctl_runtime_enable_args run = {.mode_mask = 1};
	struct kfd_ioctl_smi_events_args smi = {.gpuid = 1};

	check(AMDKFD_IOC_SET_EVENT, &set, EINVAL, &facts, "0x40000001", "SIGNAL");
	check(AMDKFD_IOC_DESTROY_EVENT, &set, EINVAL, &facts, "1073741825", "live event");
	check(AMDKFD_IOC_WAIT_EVENTS, &wait, ENOMEM, &facts, "5000", "4096");
	check(AMDKFD_IOC_WAIT_EVENTS, &wait, EIO, &facts, "destroyed", "EIO");
	check(AMDKFD_IOC_CREATE_EVENT, &create, EINVAL, &facts, "event_page_offset", "32768");
	check(AMDKFD_IOC_CREATE_EVENT, &create, ENOSPC, &facts, "4095", "ENOSPC");
	check(AMDKFD_IOC_ACQUIRE_VM, &vm, EBUSY, &facts, "another open", "same open file");
	check(AMDKFD_IOC_ACQUIRE_VM, &vm, EINVAL, &facts, "drm_fd 9", "render node");
	check(AMDKFD_IOC_SET_MEMORY_POLICY, &pol, EINVAL, &facts, "default_policy is 3", "wanted");
	check(AMDKFD_IOC_RUNTIME_ENABLE, &run, EEXIST, &facts, "already has queues",
	      "before the first");
	check(AMDKFD_IOC_RUNTIME_ENABLE, &run, EBUSY, &facts, "already enabled", "EBUSY");
	check(AMDKFD_IOC_SMI_EVENTS, &smi, EINVAL, &facts, "gpu_id is 1", "3750");
	check(AMDKFD_IOC_WAIT_EVENTS, &wait, EBADF, &facts, "fork", "EBADF");
	check(AMDKFD_IOC_RUNTIME_ENABLE, &run, ENOTTY, NULL, "does not know", "ENOTTY");
}

Test(explain, short_buffers)
{
	struct kfd_ioctl_create_queue_args q = good;
	char text[24];

	q.ring_size = 3000;
	for (size_t n = 1; n <= sizeof(text); n++) {
		memset(text, 'x', sizeof(text));
		kfd_explain(_IOC_NR(AMDKFD_IOC_CREATE_QUEUE), &q, EINVAL, &facts, text, n);
		cr_expect(memchr(text, 0, n), "no terminator in %zu bytes", n);
	}
	cr_expect_eq(kfd_explain(_IOC_NR(AMDKFD_IOC_CREATE_QUEUE), &q, EINVAL, &facts, text, 0), 0);
}
