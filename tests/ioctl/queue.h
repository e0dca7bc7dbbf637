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
	struct kfd_ioctl_alloc_memory_of_gpu_args two, user, area;
	struct kfd_ioctl_map_memory_to_gpu_args m;
	struct kfd_ioctl_create_queue_args q;
	char *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	acquire();
	two = mapped(8192, GTT);
	area = mapped(AREA - 4096, GTT);
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
	/* too small though its mapping has exactly the size that goes with it */
	BAD_QUEUE(EINVAL, (bq->ctx_save_restore_size = CWSR - 4096,
			   bq->ctx_save_restore_address = area.va_addr));
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

/* An SDMA queue that the CPU sees: packets go in, the doorbell rings. */
struct sdma {
	uint32_t *ring;
	volatile uint64_t *rptr, *wptr, *doorbell;
	uint32_t id;
	uint32_t slot; /* the doorbell's place in the process's slice, bytes */
	uint64_t at;
};

static void *cpu_map(const struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	void *p = mmap((void *)a->va_addr, a->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		       drm, (off_t)a->mmap_offset);

	TRUE(p != MAP_FAILED);
	return p;
}

static struct sdma sdma_create(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args ring = mapped(4096, GTT);
	struct kfd_ioctl_alloc_memory_of_gpu_args ptrs = mapped(4096, GTT);
	struct kfd_ioctl_create_queue_args q = {
		.ring_base_address = ring.va_addr,
		.write_pointer_address = ptrs.va_addr + 64,
		.read_pointer_address = ptrs.va_addr,
		.ring_size = 4096,
		.gpu_id = gpu,
		.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
		.queue_percentage = 100,
		.queue_priority = 7,
	};
	struct sdma s = {.ring = cpu_map(&ring), .rptr = cpu_map(&ptrs)};
	char *page;

	s.wptr = s.rptr + 8;
	WANT(0, CREATE_QUEUE, &q);
	s.id = q.queue_id;
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
		    (off_t)(q.doorbell_offset & ~0x1fffull));
	TRUE(page != MAP_FAILED);
	s.slot = q.doorbell_offset & 0x1fff;
	s.doorbell = (volatile uint64_t *)(page + s.slot);
	return s;
}

static void sdma_send(struct sdma *s, const uint32_t *packet, unsigned dwords)
{
	memcpy((char *)s->ring + s->at % 4096, packet, dwords * 4);
	s->at += dwords * 4;
	__atomic_store_n(s->wptr, s->at, __ATOMIC_RELEASE);
	__atomic_store_n(s->doorbell, s->at, __ATOMIC_RELEASE);
}

static uint32_t wait_data(uint32_t id, uint32_t ms, struct kfd_event_data *d)
{
	struct kfd_ioctl_wait_events_args w = {(uintptr_t)d, 1, 0, ms, 77};

	*d = (struct kfd_event_data){.event_id = id};
	WANT(0, WAIT_EVENTS, &w);
	return w.wait_result;
}

/* Interrupts reach events; a fault stops the process's queues for good, tells every MEMORY event,
 * the SMI stream and the render node, and nobody else. */
static void group_faults(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args page, db;
	struct kfd_ioctl_create_event_args e = {.event_type = KFD_IOC_EVENT_SIGNAL,
						.auto_reset = 1};
	struct kfd_ioctl_smi_events_args smi = {0};
	struct kfd_event_data d;
	struct drm_info {
		uint64_t pointer;
		uint32_t size, query;
		uint64_t more[2];
	} info;
	struct {
		uint64_t addr;
		uint32_t status, vmhub;
	} fault = {0, 0, 77};
	uint64_t mask = ~0ull, *slots;
	uint32_t memory, memory2, other;
	const uint64_t hole = 0x7a0000001000;
	struct sdma s, b;
	char text[512], want[64];
	uint64_t slot;
	ssize_t n;

	acquire();
	smi.gpuid = gpu;
	WANT(0, SMI_EVENTS, &smi);
	TRUE(write((int)smi.anon_fd, &mask, 8) == 8);
	page = mapped(32768, GTT);
	slots = cpu_map(&page);
	e.event_page_offset = page.handle;
	WANT(0, CREATE_EVENT, &e);
	other = event_create(KFD_IOC_EVENT_SIGNAL, true);
	memory = event_create(KFD_IOC_EVENT_MEMORY, false);
	memory2 = event_create(KFD_IOC_EVENT_MEMORY, true);
	s = sdma_create();

	/* FENCE writes the slot, TRAP raises the interrupt: one event, and the slot is taken back
	 */
	sdma_send(&s,
		  (uint32_t[]){5, (uint32_t)(page.va_addr + e.event_id * 8),
			       (uint32_t)((page.va_addr + e.event_id * 8) >> 32), 1},
		  4);
	sdma_send(&s, (uint32_t[]){6, e.event_id}, 2);
	TRUE(wait_data(e.event_id, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(slots[e.event_id] == UINT64_MAX);
	TRUE(wait_data(other, 0, &d) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	/* An id that is not there: every written slot is served instead. */
	slots[other] = 1;
	sdma_send(&s, (uint32_t[]){6, 3000}, 2);
	TRUE(wait_data(other, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);

	/* A doorbell rung by the device: queue s writes queue b's through a GPU mapping. */
	db = mapped(8192, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE);
	b = sdma_create();
	memcpy(b.ring, (uint32_t[]){6, 3000}, 8);
	slots[other] = 1;
	*b.wptr = 8;
	/* Not from the CPU's pointer: mmap aligns the slice to a page, which is half of it. */
	slot = db.va_addr + b.slot;
	usleep(20000); /* idle: the device looks at doorbells only when they are touched */
	sdma_send(&s, (uint32_t[]){2, (uint32_t)slot, (uint32_t)(slot >> 32), 1, 8, 0}, 6);
	TRUE(wait_data(other, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);

	/* COPY from where nothing is mapped */
	sdma_send(&s,
		  (uint32_t[]){1, 63, 0, (uint32_t)hole + 0x123, (uint32_t)(hole >> 32),
			       (uint32_t)page.va_addr, (uint32_t)(page.va_addr >> 32)},
		  7);
	TRUE(wait_data(memory, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(d.memory_exception_data.failure.NotPresent == 1 &&
	     d.memory_exception_data.failure.ReadOnly == 0);
	TRUE(d.memory_exception_data.va == hole && d.memory_exception_data.gpu_id == gpu);
	TRUE(wait_data(memory2, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	/* Said behind the event (event_interrupt_wq_v11). */
	for (uint64_t end = now_ns() + patience * 1000000ull;
	     (n = read((int)smi.anon_fd, text, sizeof(text) - 1)) <= 0 && now_ns() < end;)
		usleep(1000);
	text[n > 0 ? n : 0] = 0;
	snprintf(want, sizeof(want), "1 %x:", getpid());
	TRUE(!strncmp(text, want, strlen(want)) && text[strlen(text) - 1] == '\n');
	TRUE(!strstr(text, "\n9 ")); /* no eviction message */
	info = (struct drm_info){(uintptr_t)&fault, sizeof(fault), 0x23, {0}};
	TRUE(ioctl(drm, _IOW('d', 0x45, struct drm_info), &info) == 0);
	TRUE(fault.addr == hole && fault.status != 0 && fault.vmhub == 0);
	/* The queue is dead: nothing more runs, the calls still answer. */
	sdma_send(&s, (uint32_t[]){6, e.event_id}, 2);
	slots[e.event_id] = 1;
	TRUE(wait_data(e.event_id, 200, &d) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	WANT(0, DESTROY_QUEUE, &(struct kfd_ioctl_destroy_queue_args){.queue_id = s.id});
	/* So are new ones. */
	s = sdma_create();
	sdma_send(&s, (uint32_t[]){6, e.event_id}, 2);
	TRUE(wait_data(e.event_id, 200, &d) == KFD_IOC_WAIT_RESULT_TIMEOUT);
}

static void *by_thread(void *arg)
{
	struct kfd_ioctl_dbg_trap_args t = {.op = KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT};

	t.pid = (uint32_t)gettid();
	*(int *)arg = ioctl(kfd, AMDKFD_IOC_DBG_TRAP, &t) ? errno : 0;
	return NULL;
}

/* The same with a debugger: what it passes on, what it is told of queues and faults. */
static void runtime_debugged(uint32_t queue, uint32_t event, volatile uint64_t *word)
{
	const uint64_t mask =
		KFD_EC_MASK(EC_DEVICE_QUEUE_DELETE) | KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION);
	struct kfd_ioctl_dbg_trap_args t = {.pid = (uint32_t)getpid()};
	struct kfd_ioctl_destroy_queue_args d = {.queue_id = queue};
	struct kfd_runtime_info info;
	struct kfd_event_data data;
	char fault[32];
	pthread_t thread;
	struct sdma s;
	int fds[2], err = -1;

	TRUE(pipe(fds) == 0);
	t.op = KFD_IOC_DBG_TRAP_ENABLE;
	t.enable.exception_mask = mask;
	t.enable.rinfo_ptr = (uintptr_t)&info;
	t.enable.rinfo_size = sizeof(info);
	t.enable.dbg_fd = (uint32_t)open("/dev/null", O_PATH);
	WANT(EBADF, DBG_TRAP, &t);
	t.enable.dbg_fd = (uint32_t)fds[1];
	WANT(0, DBG_TRAP, &t);
	TRUE(pthread_create(&thread, NULL, by_thread, &err) == 0);
	pthread_join(thread, NULL);
	TRUE(err == EAGAIN); /* a thread's id means its process */
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT;
	t.event.exception_mask = KFD_EC_MASK(EC_QUEUE_WAVE_ABORT);
	t.event.queue_id = 999;
	WANT(0, DBG_TRAP, &t);
	TRUE(wait_data(event, 0, &data) == KFD_IOC_WAIT_RESULT_TIMEOUT);
	t.event.queue_id = queue;
	WANT(0, DBG_TRAP, &t);
	TRUE(wait_data(event, 0, &data) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(*word & KFD_EC_MASK(EC_QUEUE_WAVE_ABORT));
	/* A number that is no exception's is no question, whatever the queue has seen. */
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO;
	t.query_exception_info.info_ptr = (uintptr_t)fault;
	t.query_exception_info.info_size = sizeof(fault);
	t.query_exception_info.source_id = queue;
	t.query_exception_info.exception_code = 7;
	WANT(EINVAL, DBG_TRAP, &t);
	t.query_exception_info.exception_code = EC_QUEUE_WAVE_TRAP;
	WANT(ENODATA, DBG_TRAP, &t);
	WANT(0, DESTROY_QUEUE, &d);
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT;
	t.event.exception_mask = ~0ull;
	WANT(0, DBG_TRAP, &t);
	TRUE(t.event.exception_mask == KFD_EC_MASK(EC_DEVICE_QUEUE_DELETE) &&
	     t.event.gpu_id == gpu);
	/* A fault is told, and kept; what it was, this kernel forgets to say. */
	s = sdma_create();
	sdma_send(&s, (uint32_t[]){5, 0x123000, 0x7a00, 1}, 4);
	TRUE(read(fds[0], fault, 1) == 1 && read(fds[0], fault, 1) == 1);
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO;
	t.query_exception_info.info_ptr = (uintptr_t)fault;
	t.query_exception_info.info_size = sizeof(fault);
	t.query_exception_info.source_id = gpu;
	t.query_exception_info.exception_code = EC_DEVICE_MEMORY_VIOLATION;
	WANT(0, DBG_TRAP, &t);
	TRUE(t.query_exception_info.info_size == 0);
}

/* A packet that no engine knows: the runtime, which has asked for such news, finds the reason in the
 * word and at the event that the queue's save area names. */
static void group_runtime(void)
{
	struct kfd_ioctl_runtime_enable_args rt = {.mode_mask = 1};
	struct kfd_ioctl_alloc_memory_of_gpu_args ring, ptrs, area;
	struct kfd_context_save_area_header *header;
	struct kfd_ioctl_create_queue_args q;
	struct kfd_event_data d;
	uint32_t id;
	uint64_t *words;
	char *page;

	acquire();
	WANT(0, RUNTIME_ENABLE, &rt);
	id = event_create(KFD_IOC_EVENT_SIGNAL, true);
	q = queue_args();
	ring = mapped(4096, GTT);
	ptrs = mapped(4096, GTT);
	area = mapped(AREA, GTT);
	words = cpu_map(&ptrs);
	header = cpu_map(&area);
	header->err_payload_addr = (uintptr_t)&words[100];
	header->err_event_id = id;
	*(uint32_t *)cpu_map(&ring) = 3u << 30 | 0xff << 8; /* type 3, opcode 0xff */
	q.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE;
	q.ring_base_address = ring.va_addr;
	q.read_pointer_address = ptrs.va_addr;
	q.write_pointer_address = ptrs.va_addr + 64;
	q.ctx_save_restore_address = area.va_addr;
	WANT(0, CREATE_QUEUE, &q);
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
		    (off_t)(q.doorbell_offset & ~0x1fffull));
	TRUE(page != MAP_FAILED);
	__atomic_store_n(&words[8], 2, __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)(page + (q.doorbell_offset & 0x1fff)), 2, __ATOMIC_RELEASE);
	TRUE(wait_data(id, patience, &d) == KFD_IOC_WAIT_RESULT_COMPLETE);
	TRUE(words[100] &
	     (KFD_EC_MASK(EC_QUEUE_PACKET_UNSUPPORTED) | KFD_EC_MASK(EC_QUEUE_PACKET_RESERVED)));
	runtime_debugged(q.queue_id, id, &words[100]);
}

/* Whether all of it was done while the reset lasted. */
static bool while_hung(void)
{
	struct kfd_ioctl_create_queue_args q, other, third;
	struct kfd_ioctl_destroy_queue_args d;
	struct kfd_ioctl_update_queue_args u;
	int fd;

	acquire();
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	other = queue_args();
	WANT(0, CREATE_QUEUE, &other);
	third = queue_args();
	WANT(0, CREATE_QUEUE, &third);
	d.queue_id = q.queue_id;
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	for (uint64_t end = now_ns() + patience * 1000000ull; now_ns() < end;) {
		fd = open("/dev/kfd", O_RDWR);
		if (fd < 0)
			break;
		close(fd);
		usleep(500);
	}
	d.queue_id = third.queue_id;
	WANT(EIO, DESTROY_QUEUE, &d);
	WANT(EINVAL, DESTROY_QUEUE, &d);
	q = queue_args();
	WANT(EIO, CREATE_QUEUE, &q);
	u = (struct kfd_ioctl_update_queue_args){.ring_base_address = other.ring_base_address,
						 .queue_id = other.queue_id,
						 .ring_size = 4096,
						 .queue_percentage = 50};
	WANT(EACCES, UPDATE_QUEUE, &u);
	d.queue_id = other.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
	fd = open("/dev/kfd", O_RDWR);
	return fd < 0;
}

/* MES gives up after 2.1 s, then a reset keeps the device for half a second. With evictions left
 * out, what asks MES in that time is told so. A process that has no core in that time asks again. */
static void group_hang(void)
{
	enum { LATE = 2 };
	int status = 0;

	for (unsigned tries = 0; tries < 5; tries++) {
		pid_t pid = fork();

		if (!pid)
			_exit(!while_hung() ? LATE : failures ? 1 : 0);
		TRUE(pid > 0 && waitpid(pid, &status, 0) == pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != LATE)
			break;
	}
	TRUE(status == 0);
}

#endif
