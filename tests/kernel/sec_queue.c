/* Queues: what is refused before the GPU is looked up, and unknown queue ids. */
#include "probe.h"

#include <unistd.h>

static uint64_t buffer[512] __attribute__((aligned(4096)));

struct create_case {
	const char *name;
	struct kfd_ioctl_create_queue_args a;
};

static void create(int fd, const char *name, const struct kfd_ioctl_create_queue_args *args)
{
	struct kfd_ioctl_create_queue_args a = *args;

	TRY("CREATE_QUEUE", fd, AMDKFD_IOC_CREATE_QUEUE, &a, name,
	    "ring %u, id %u, doorbell 0x%llx", a.ring_size, a.queue_id,
	    (unsigned long long)a.doorbell_offset);
}

static void creates(int fd)
{
	const uint64_t m = (uintptr_t)buffer;
	const struct kfd_ioctl_create_queue_args base = {
		.ring_base_address = m,
		.read_pointer_address = m,
		.write_pointer_address = m,
		.ring_size = 4096,
		.gpu_id = NO_GPU,
		.queue_percentage = 100,
		.queue_priority = 7,
	};
	const struct kfd_ioctl_create_queue_args zero = {0};
	struct kfd_ioctl_create_queue_args a;
	static const uint32_t sizes[] = {0,    1,    2,    3,    64,         512,       1023,
					 1024, 1025, 3000, 4096, 0x80000000, 0xffffffff};
	static const uint32_t percents[] = {0, 1, 100, 101, 255, 0x100, 0x164, 0x165, 0xffffff64};
	static const uint32_t priorities[] = {0, 15, 16, 0xffffffff};
	static const uint64_t addresses[] = {0,
					     1,
					     0x1000,
					     KERNEL_ADDRESS,
					     1ull << 47,
					     (1ull << 47) - 4097,
					     (1ull << 47) - 4096,
					     (1ull << 47) - 4095,
					     (1ull << 47) - 4,
					     ~0ull};

	create(fd, "all zero", &zero);
	for (uint32_t type = 0; type < 7; type++) {
		a = base;
		a.queue_type = type;
		create(fd, text("type %u", type), &a);
	}
	a = base;
	a.queue_type = 0xffffffff;
	create(fd, "type 0xffffffff", &a);
	for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
		a = base;
		a.ring_size = sizes[i];
		create(fd, text("ring size %u", sizes[i]), &a);
	}
	for (unsigned i = 0; i < COUNT_OF(percents); i++) {
		a = base;
		a.queue_percentage = percents[i];
		create(fd, text("percentage 0x%x", percents[i]), &a);
	}
	for (unsigned i = 0; i < COUNT_OF(priorities); i++) {
		a = base;
		a.queue_priority = priorities[i];
		create(fd, text("priority %u", priorities[i]), &a);
	}
	for (unsigned i = 0; i < COUNT_OF(addresses); i++) {
		const unsigned long long x = addresses[i];

		a = base;
		a.ring_base_address = x;
		create(fd, text("ring at 0x%llx", x), &a);
		a = base;
		a.read_pointer_address = x;
		create(fd, text("read pointer at 0x%llx", x), &a);
		a = base;
		a.write_pointer_address = x;
		create(fd, text("write pointer at 0x%llx", x), &a);
		a = base;
		a.eop_buffer_address = x;
		create(fd, text("EOP buffer at 0x%llx", x), &a);
		a = base;
		a.ctx_save_restore_address = x;
		create(fd, text("save area at 0x%llx", x), &a);
	}
	/* Which of two refusals comes first. */
	a = base;
	a.queue_percentage = 101;
	a.queue_type = 5;
	create(fd, "percentage 101 and type 5", &a);
	a = base;
	a.ring_base_address = KERNEL_ADDRESS;
	a.ring_size = 3000;
	create(fd, "ring in the kernel and size 3000", &a);
	a = base;
	a.ring_base_address = KERNEL_ADDRESS;
	a.queue_priority = 16;
	create(fd, "ring in the kernel and priority 16", &a);
	a = base;
	a.read_pointer_address = KERNEL_ADDRESS;
	a.ring_size = 3000;
	create(fd, "read pointer in the kernel and size 3000", &a);
	a = base;
	a.ctx_save_restore_address = KERNEL_ADDRESS;
	a.queue_type = 5;
	create(fd, "save area in the kernel and type 5", &a);
	a = base;
	a.metadata_ring_size = 3000;
	create(fd, "bytes behind the engine id set", &a);
	a = base;
	a.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
	a.sdma_engine_id = 99;
	create(fd, "SDMA engine 99", &a);
}

static void by_id(int fd, uint32_t id)
{
	const uint64_t m = (uintptr_t)buffer;
	struct kfd_ioctl_destroy_queue_args d = {.queue_id = id};
	struct kfd_ioctl_update_queue_args u = {m, id, 4096, 0, 0};
	struct kfd_ioctl_get_queue_wave_state_args w = {.ctl_stack_address = m, .queue_id = id};
	struct kfd_ioctl_alloc_queue_gws_args g = {.queue_id = id, .num_gws = 1, .first_gws = 0x77};
	struct kfd_ioctl_set_cu_mask_args c = {id, 32, m};
	const char *in = text("queue %u", id);

	TRY("DESTROY_QUEUE", fd, AMDKFD_IOC_DESTROY_QUEUE, &d, in);
	TRY("UPDATE_QUEUE", fd, AMDKFD_IOC_UPDATE_QUEUE, &u, in);
	TRY("GET_QUEUE_WAVE_STATE", fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &w, in, "%u %u",
	    w.ctl_stack_used_size, w.save_area_used_size);
	TRY("ALLOC_QUEUE_GWS", fd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &g, in, "first 0x%x", g.first_gws);
	TRY("SET_CU_MASK", fd, AMDKFD_IOC_SET_CU_MASK, &c, in);
}

static void update(int fd, const char *name, uint64_t base, uint32_t size, uint32_t percentage,
		   uint32_t priority)
{
	struct kfd_ioctl_update_queue_args u = {base, 0, size, percentage, priority};

	TRY("UPDATE_QUEUE", fd, AMDKFD_IOC_UPDATE_QUEUE, &u, name, "ring %u", u.ring_size);
}

static void cu_mask(int fd, uint32_t n, uint64_t mask)
{
	struct kfd_ioctl_set_cu_mask_args c = {0, n, mask};
	const char *where = !mask ? "NULL" : mask == KERNEL_ADDRESS ? "kernel" : "buffer";

	TRY("SET_CU_MASK", fd, AMDKFD_IOC_SET_CU_MASK, &c, text("%u bits, %s", n, where), "%u",
	    c.num_cu_mask);
}

void section_queue(void)
{
	static const uint32_t ids[] = {0, 1, 1023, 1024, 0xffffffff};
	static const uint32_t bits[] = {0, 1, 31, 32, 33, 64, 1024, 1056, 65536, 0xffffffe0};
	const uint64_t m = (uintptr_t)buffer;
	int fd = kfd_open();

	creates(fd);
	TRY("CREATE_QUEUE", fd, AMDKFD_IOC_CREATE_QUEUE, NULL, "NULL");
	for (unsigned i = 0; i < COUNT_OF(ids); i++)
		by_id(fd, ids[i]);
	update(fd, "all zero", 0, 0, 0, 0);
	update(fd, "percentage 101", m, 4096, 101, 0);
	update(fd, "percentage 0x164", m, 4096, 0x164, 0);
	update(fd, "priority 16", m, 4096, 100, 16);
	update(fd, "ring size 3000", m, 3000, 100, 0);
	update(fd, "ring size 64", m, 64, 100, 0);
	update(fd, "ring in the kernel", KERNEL_ADDRESS, 4096, 100, 0);
	update(fd, "ring in the kernel, size 3000", KERNEL_ADDRESS, 3000, 100, 0);
	for (unsigned i = 0; i < COUNT_OF(bits); i++) {
		cu_mask(fd, bits[i], m);
		cu_mask(fd, bits[i], 0);
		cu_mask(fd, bits[i], KERNEL_ADDRESS);
	}
	close(fd);
}
