/* Groups: queues. */
#ifndef IOCTL_QUEUE_H
#define IOCTL_QUEUE_H

#include "harness.h"

static void bad_queue(int line, struct kfd_ioctl_create_queue_args q, int want)
{
	check(line, "CREATE_QUEUE", KFD_NR_CREATE_QUEUE, ioctl(kfd, AMDKFD_IOC_CREATE_QUEUE, &q),
	      want);
}

#define BAD_QUEUE(err, ...)                                                                        \
	do {                                                                                       \
		struct kfd_ioctl_create_queue_args bq_ = queue_args();                             \
		struct kfd_ioctl_create_queue_args *bq = &bq_;                                     \
		__VA_ARGS__;                                                                       \
		bad_queue(__LINE__, bq_, err);                                                     \
	} while (0)

static void group_queue_args(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args two, user;
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_create_queue_args q;
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	acquire();
	two = mapped(8192, GTT);
	BAD_QUEUE(EINVAL, bq->queue_percentage = 101);
	BAD_QUEUE(EINVAL, bq->queue_priority = 16);
	BAD_QUEUE(EFAULT, bq->ring_base_address = KERNEL);
	BAD_QUEUE(EINVAL, bq->ring_size = 3000);
	BAD_QUEUE(EFAULT, bq->read_pointer_address = KERNEL);
	BAD_QUEUE(EFAULT, bq->write_pointer_address = KERNEL);
	BAD_QUEUE(EFAULT, bq->eop_buffer_address = KERNEL);
	BAD_QUEUE(EFAULT, bq->ctx_save_restore_address = KERNEL);
	BAD_QUEUE(KFD_ENOTSUPP, bq->queue_type = 9);
	BAD_QUEUE(EINVAL, bq->gpu_id = 0x1234);
	BAD_QUEUE(EINVAL,
		  (bq->queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, bq->sdma_engine_id = 1));
	BAD_QUEUE(EINVAL, bq->write_pointer_address = 0);
	BAD_QUEUE(EINVAL, bq->read_pointer_address = 0);
	BAD_QUEUE(EINVAL, bq->write_pointer_address = two.va_addr);
	BAD_QUEUE(EINVAL, bq->read_pointer_address = two.va_addr + 4096);
	BAD_QUEUE(EINVAL, bq->ring_size = 8192);
	BAD_QUEUE(EINVAL, bq->ring_base_address = two.va_addr);
	BAD_QUEUE(EINVAL, bq->ring_base_address = 0);
	BAD_QUEUE(EINVAL, bq->eop_buffer_size = 2048);
	BAD_QUEUE(EINVAL, bq->eop_buffer_size = 8192);
	BAD_QUEUE(EINVAL, bq->ctl_stack_size = 8192);
	BAD_QUEUE(EINVAL, bq->ctx_save_restore_size = CWSR - 4096);
	BAD_QUEUE(EINVAL, bq->ctx_save_restore_size = CWSR + 4096);
	BAD_QUEUE(EINVAL, bq->ctx_save_restore_address = 0);
	/* clamped, and the clamp comes back even though the call fails */
	q = queue_args();
	q.ring_size = 64;
	q.gpu_id = 0x1234;
	WANT(EINVAL, CREATE_QUEUE, &q);
	TRUE(q.ring_size == 1024);
	/* user pages cannot be pinned for the write pointer */
	user = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = (uintptr_t)anon,
		.size = 4096,
		.mmap_offset = (uintptr_t)anon,
		.gpu_id = gpu,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};
	WANT(0, ALLOC_MEMORY_OF_GPU, &user);
	m = map_args(user.handle);
	WANT(0, MAP_MEMORY_TO_GPU, &m);
	BAD_QUEUE(EPERM, bq->write_pointer_address = user.va_addr);
	/* nothing of all that stuck: everything can be unmapped */
	m = map_args(two.handle);
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
	m = map_args(user.handle);
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
}

static void group_queues(void)
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d = {999, 0};
	struct kfd_ioctl_update_queue_args u;
	struct kfd_ioctl_set_cu_mask_args cu;
	struct kfd_ioctl_get_queue_wave_state_args ws = {0};
	struct kfd_ioctl_alloc_queue_gws_args gws = {0};
	struct kfd_ioctl_set_xnack_mode_args x = {0};
	struct kfd_ioctl_runtime_enable_args rt = {.mode_mask = 1};
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_alloc_memory_of_gpu_args ring;
	uint32_t mask[2] = {0xffffffff, 0xff}, header[4];
	void *db;

	acquire();
	WANT(EINVAL, DESTROY_QUEUE, &d);
	ring = mapped(65536, GTT);
	q = queue_args();
	q.ring_base_address = ring.va_addr;
	q.ring_size = 65536;
	WANT(0, CREATE_QUEUE, &q);
	TRUE(q.queue_id == 0);
	TRUE(q.doorbell_offset == (3ull << 62 | (uint64_t)gpu << 46));
	m = map_args(ring.handle);
	WANT(EBUSY, UNMAP_MEMORY_FROM_GPU, &m);
	db = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)q.doorbell_offset);
	check(__LINE__, "doorbells", NR_MMAP, db == MAP_FAILED ? -1 : 0, 0);
	check(__LINE__, "half of the doorbells", NR_MMAP,
	      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, (off_t)q.doorbell_offset) ==
			      MAP_FAILED
		      ? -1
		      : 0,
	      EINVAL);
	check(__LINE__, "doorbells of nobody", NR_MMAP,
	      mmap(NULL, 8192, PROT_READ, MAP_SHARED, kfd, (off_t)(3ull << 62 | 0x1234ull << 46)) ==
			      MAP_FAILED
		      ? -1
		      : 0,
	      ENODEV);
	WANT(EBUSY, SET_XNACK_MODE, &x);
	WANT(EEXIST, RUNTIME_ENABLE, &rt);

	u = (struct kfd_ioctl_update_queue_args){ring.va_addr, 999, 65536, 100, 7};
	WANT(EFAULT, UPDATE_QUEUE, &u);
	u.queue_id = 0;
	u.queue_percentage = 101;
	WANT(EINVAL, UPDATE_QUEUE, &u);
	u.queue_percentage = 100;
	u.queue_priority = 16;
	WANT(EINVAL, UPDATE_QUEUE, &u);
	u.queue_priority = 7;
	u.ring_size = 3000;
	WANT(EINVAL, UPDATE_QUEUE, &u);
	u.ring_size = 4096;
	WANT(EFAULT, UPDATE_QUEUE, &u); /* the mapping has another size */
	u.ring_size = 65536;
	u.ring_base_address = KERNEL;
	WANT(EFAULT, UPDATE_QUEUE, &u);
	u.ring_base_address = ring.va_addr;

	cu = (struct kfd_ioctl_set_cu_mask_args){999, 64, (uintptr_t)mask};
	WANT(EFAULT, SET_CU_MASK, &cu);
	cu.queue_id = 0;
	cu.num_cu_mask = 33;
	WANT(EINVAL, SET_CU_MASK, &cu);
	cu.num_cu_mask = 0;
	WANT(EINVAL, SET_CU_MASK, &cu);
	cu.num_cu_mask = 64;
	cu.cu_mask_ptr = BAD_PTR;
	WANT(EFAULT, SET_CU_MASK, &cu);
	cu.cu_mask_ptr = (uintptr_t)mask;
	WANT(0, SET_CU_MASK, &cu);
	mask[0] = 0xfffffffd; /* half a WGP */
	WANT(EINVAL, SET_CU_MASK, &cu);

	ws.ctl_stack_address = (uintptr_t)header;
	WANT(EINVAL, GET_QUEUE_WAVE_STATE, &ws); /* it is running */
	ws.queue_id = 999;
	WANT(EFAULT, GET_QUEUE_WAVE_STATE, &ws);
	ws.queue_id = 0;
	u.queue_percentage = 0;
	WANT(0, UPDATE_QUEUE, &u);
	WANT(0, GET_QUEUE_WAVE_STATE, &ws);
	ws.ctl_stack_address = BAD_PTR;
	WANT(EFAULT, GET_QUEUE_WAVE_STATE, &ws);

	gws.queue_id = 999;
	WANT(EINVAL, ALLOC_QUEUE_GWS, &gws);
	gws.queue_id = 0;
	WANT(EINVAL, ALLOC_QUEUE_GWS, &gws); /* none to give back */
	gws.num_gws = 1;
	WANT(0, ALLOC_QUEUE_GWS, &gws);
	WANT(EBUSY, ALLOC_QUEUE_GWS, &gws);

	d.queue_id = 0;
	WANT(0, DESTROY_QUEUE, &d);
	WANT(0, UNMAP_MEMORY_FROM_GPU, &m);
}

static void group_queue_limits(void)
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d = {0};
	static const uint32_t sdma[] = {0x808, 0x1808, 0x810, 0x1810, 0x818, 0x1818};

	acquire();
	for (unsigned i = 0; i < 6; i++) {
		q = queue_args();
		q.queue_type = i & 1 ? KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID : KFD_IOC_QUEUE_TYPE_SDMA;
		q.sdma_engine_id = 0;
		WANT(0, CREATE_QUEUE, &q);
		TRUE((q.doorbell_offset & 0x1fff) == (sdma[i] & 0x1fff));
	}
	q = queue_args();
	q.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
	WANT(ENOMEM, CREATE_QUEUE, &q);
	q.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
	WANT(ENOMEM, CREATE_QUEUE, &q);
	q.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
	WANT(ENOMEM, CREATE_QUEUE, &q);
	for (unsigned i = 6; i < 127; i++) {
		q = queue_args();
		q.queue_percentage = 0; /* the scheduler need not see them */
		WANT(0, CREATE_QUEUE, &q);
		if (q.queue_id != i || (q.doorbell_offset & 0x1fff) != (i - 6) * 8) {
			TRUE(q.queue_id == i);
			TRUE((q.doorbell_offset & 0x1fff) == (i - 6) * 8);
			break;
		}
	}
	q = queue_args();
	WANT(ENOSPC, CREATE_QUEUE, &q);
	d.queue_id = 50;
	WANT(0, DESTROY_QUEUE, &d);
	WANT(0, CREATE_QUEUE, &q);
	TRUE(q.queue_id == 50); /* the lowest free id */
}

#endif
