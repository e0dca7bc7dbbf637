/* Group: the debugger: how waves begin, queues stopped and resumed, refusals of DBG_TRAP. */
#ifndef IOCTL_DEBUG_H
#define IOCTL_DEBUG_H

#include "harness.h"

/* How waves begin: what gfx11 can be asked for, and what it says was there before. */
static void debug_waves(struct kfd_ioctl_dbg_trap_args *t)
{
	const uint32_t start_end = 3u << 30, all = start_end | 0x1ff;

	memset(t->raw, 0, sizeof(t->raw));
	t->op = KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE;
	WANT(0, DBG_TRAP, t);
	t->raw[0] = 2;
	WANT(EINVAL, DBG_TRAP, t);
	t->op = KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE;
	t->launch_override.override_mode = 2;
	WANT(EPERM, DBG_TRAP, t);
	TRUE(t->launch_override.support_request_mask == all);
	t->launch_override.override_mode = 1;
	t->launch_override.support_request_mask = 1u << 9;
	WANT(EACCES, DBG_TRAP, t);
	t->launch_override.override_mode = 0;
	t->launch_override.enable_mask = all;
	t->launch_override.support_request_mask = 1u << 30 | 3;
	WANT(0, DBG_TRAP, t);
	TRUE(t->launch_override.enable_mask == 0);
	TRUE(t->launch_override.support_request_mask == all);
	/* Only what is named changes. */
	t->launch_override.enable_mask = 0;
	t->launch_override.support_request_mask = 2;
	WANT(0, DBG_TRAP, t);
	TRUE(t->launch_override.enable_mask == (1u << 30 | 3));
	t->launch_override.enable_mask = 0;
	t->launch_override.support_request_mask = all;
	WANT(0, DBG_TRAP, t);
	TRUE(t->launch_override.enable_mask == (1u << 30 | 1));
	memset(t->raw, 0, sizeof(t->raw));
	t->op = KFD_IOC_DBG_TRAP_SET_FLAGS;
	t->raw[0] = 1;
	WANT(EACCES, DBG_TRAP, t);
	TRUE(t->raw[0] == 0);
	t->raw[0] = 0x10; /* a bit that nobody looks at is kept */
	WANT(0, DBG_TRAP, t);
	TRUE(t->raw[0] == 0);
	t->raw[0] = 2;
	WANT(EACCES, DBG_TRAP, t);
	TRUE(t->raw[0] == 0x10);
	memset(t->raw, 0, sizeof(t->raw));
	t->op = KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH;
	t->set_watch.gpu_id = 0x1234;
	WANT(ENODEV, DBG_TRAP, t);
	t->set_watch.gpu_id = gpu;
	/* Four, whatever they watch and how; a fifth has no number. */
	for (uint32_t i = 0; i < 4; i++) {
		t->set_watch.mode = i + 2;
		WANT(0, DBG_TRAP, t);
		TRUE(t->set_watch.id == i);
	}
	WANT(ENOMEM, DBG_TRAP, t);
	TRUE(t->set_watch.id == ~0u);
	memset(t->raw, 0, sizeof(t->raw));
	t->op = KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH;
	WANT(ENODEV, DBG_TRAP, t);
	t->clear_watch.gpu_id = gpu;
	t->clear_watch.id = 4;
	WANT(EINVAL, DBG_TRAP, t);
	t->clear_watch.id = 1;
	WANT(0, DBG_TRAP, t);
	WANT(EINVAL, DBG_TRAP, t);
	/* The lowest is given again; the rest goes when the debugger does. */
	memset(t->raw, 0, sizeof(t->raw));
	t->op = KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH;
	t->set_watch.gpu_id = gpu;
	WANT(0, DBG_TRAP, t);
	TRUE(t->set_watch.id == 1);
}

static volatile int destroyed;

static pid_t destroyer;

static void *destroy_thread(void *arg)
{
	struct kfd_ioctl_destroy_queue_args d = {.queue_id = *(uint32_t *)arg};

	__atomic_store_n(&destroyer, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	destroyed = ioctl(kfd, AMDKFD_IOC_DESTROY_QUEUE, &d) ? -errno : 1;
	return NULL;
}

/* Suspends and resumes a queue that is no longer new, id, and one that is. */
static void debug_queues(struct kfd_ioctl_dbg_trap_args *t, uint32_t id)
{
	const uint32_t error = 1u << 30, invalid = 1u << 31;
	struct kfd_ioctl_create_queue_args q = queue_args(), sdma = queue_args();
	struct kfd_ioctl_destroy_queue_args d;
	struct kfd_ioctl_get_queue_wave_state_args ws = {0};
	struct kfd_queue_snapshot_entry entry[2];
	uint32_t ids[3], header[4];
	pthread_t thread;

	WANT(0, CREATE_QUEUE, &q);
	ids[0] = q.queue_id;
	ids[1] = id;
	ids[2] = 999;
	memset(t->raw, 0, sizeof(t->raw));
	t->op = KFD_IOC_DBG_TRAP_SUSPEND_QUEUES;
	t->suspend_queues.num_queues = 3;
	WANT(EINVAL, DBG_TRAP, t); /* no array */
	t->suspend_queues.queue_array_ptr = BAD_PTR;
	WANT(EFAULT, DBG_TRAP, t);
	t->suspend_queues.queue_array_ptr = (uintptr_t)ids;
	t->suspend_queues.num_queues = 1025;
	WANT(EINVAL, DBG_TRAP, t);
	t->suspend_queues.num_queues = 3;
	TRUE(ioctl(kfd, AMDKFD_IOC_DBG_TRAP, t) == 1);
	TRUE(ids[0] == (q.queue_id | invalid) && ids[1] == id && ids[2] == (999 | invalid));
	TRUE(!(ids[0] & error));
	/* It stands still, and its area says so; twice is once. */
	ws.queue_id = id;
	ws.ctl_stack_address = (uintptr_t)header;
	WANT(0, GET_QUEUE_WAVE_STATE, &ws);
	ids[0] = 998;
	ids[2] = 999;
	TRUE(ioctl(kfd, AMDKFD_IOC_DBG_TRAP, t) == 1);
	/* Whoever destroys it waits until it is let go. */
	destroyed = 0;
	TRUE(pthread_create(&thread, NULL, destroy_thread, &q.queue_id) == 0);
	pthread_join(thread, NULL);
	TRUE(destroyed == 1);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	t->op = KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT;
	memset(t->raw, 0, sizeof(t->raw));
	t->snapshot.exception_mask = ~0ull;
	t->snapshot.entry_size = sizeof(entry[0]);
	t->snapshot.snapshot_buf_ptr = (uintptr_t)entry;
	t->snapshot.num = 2;
	WANT(0, DBG_TRAP, t);
	/* The newest first. */
	TRUE(t->snapshot.num == 2);
	TRUE(entry[0].queue_id == q.queue_id && entry[1].queue_id == id);
	/* An SDMA queue is one, however its engine was chosen. */
	sdma.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
	WANT(0, CREATE_QUEUE, &sdma);
	t->snapshot.num = 1;
	WANT(0, DBG_TRAP, t);
	TRUE(t->snapshot.num == 3);
	TRUE(entry[0].queue_id == sdma.queue_id);
	TRUE(entry[0].queue_type == KFD_IOC_QUEUE_TYPE_SDMA);
	d.queue_id = sdma.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
	t->op = KFD_IOC_DBG_TRAP_SUSPEND_QUEUES;
	memset(t->raw, 0, sizeof(t->raw));
	ids[0] = q.queue_id;
	t->suspend_queues.num_queues = 1;
	t->suspend_queues.queue_array_ptr = (uintptr_t)ids;
	TRUE(ioctl(kfd, AMDKFD_IOC_DBG_TRAP, t) == 1);
	destroyed = 0;
	destroyer = 0;
	TRUE(pthread_create(&thread, NULL, destroy_thread, &q.queue_id) == 0);
	until_asleep(&destroyer);
	TRUE(destroyed == 0);
	d.queue_id = q.queue_id;
	WANT(EBUSY, DESTROY_QUEUE, &d);
	t->op = KFD_IOC_DBG_TRAP_RESUME_QUEUES;
	memset(t->raw, 0, sizeof(t->raw));
	TRUE(ioctl(kfd, AMDKFD_IOC_DBG_TRAP, t) == 2); /* all of them */
	pthread_join(thread, NULL);
	TRUE(destroyed == 1);
	WANT(EINVAL, GET_QUEUE_WAVE_STATE, &ws); /* running again */
}

static void group_debug(void)
{
	struct kfd_ioctl_runtime_enable_args rt = {0x1000, 0, 0x77};
	struct kfd_ioctl_dbg_trap_args t = {.pid = 999999};
	struct kfd_runtime_info info;
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_alloc_queue_gws_args gws = {.num_gws = 1};
	int pipefd[2];

	acquire();
	TRUE(pipe(pipefd) == 0);
	WANT(0, RUNTIME_ENABLE, &rt);
	rt.mode_mask = 3;
	WANT(0, RUNTIME_ENABLE, &rt);
	WANT(EBUSY, RUNTIME_ENABLE, &rt);
	TRUE(rt.capabilities_mask == 0x77);
	rt.mode_mask = 0;
	WANT(0, RUNTIME_ENABLE, &rt);

	WANT(ESRCH, DBG_TRAP, &t);
	t.pid = 1;
	WANT(ESRCH, DBG_TRAP, &t);
	t.pid = (uint32_t)getpid();
	t.op = KFD_IOC_DBG_TRAP_DISABLE;
	WANT(EINVAL, DBG_TRAP, &t);
	t.op = KFD_IOC_DBG_TRAP_ENABLE;
	t.enable.dbg_fd = 0xffffffff;
	t.enable.rinfo_size = sizeof(info);
	t.enable.rinfo_ptr = (uintptr_t)&info;
	WANT(EBADF, DBG_TRAP, &t);
	t.enable.dbg_fd = (uint32_t)pipefd[1];
	t.enable.rinfo_size = sizeof(info);
	t.enable.rinfo_ptr = BAD_PTR;
	WANT(EFAULT, DBG_TRAP, &t);
	t.enable.rinfo_ptr = (uintptr_t)&info;
	WANT(0, DBG_TRAP, &t);
	TRUE(t.enable.rinfo_size == 16 && info.runtime_state == 0);
	WANT(EALREADY, DBG_TRAP, &t);
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_SUSPEND_QUEUES;
	WANT(EPERM, DBG_TRAP, &t); /* the runtime is not enabled */
	t.op = KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT;
	WANT(EAGAIN, DBG_TRAP, &t);
	t.op = KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT;
	WANT(EINVAL, DBG_TRAP, &t);
	t.op = KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO;
	WANT(EINVAL, DBG_TRAP, &t);
	t.op = KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT;
	t.event.exception_mask = KFD_EC_MASK(EC_DEVICE_MEMORY_VIOLATION);
	WANT(ENODEV, DBG_TRAP, &t);
	t.op = 15;
	WANT(EINVAL, DBG_TRAP, &t);
	/* With a debugger there the runtime waits for its release, here given beforehand. */
	t.op = KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT;
	t.event.exception_mask = KFD_EC_MASK(EC_PROCESS_RUNTIME);
	WANT(0, DBG_TRAP, &t);
	rt.mode_mask = 1;
	WANT(0, RUNTIME_ENABLE, &rt);
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED;
	t.event.exception_mask = KFD_EC_MASK(EC_PROCESS_RUNTIME);
	WANT(0, DBG_TRAP, &t);
	TRUE(read(pipefd[0], t.raw, 1) == 1 && t.raw[0] == '.');
	t.op = KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO;
	memset(t.raw, 0, sizeof(t.raw));
	t.query_exception_info.info_ptr = (uintptr_t)&info;
	t.query_exception_info.info_size = sizeof(info);
	t.query_exception_info.exception_code = EC_PROCESS_RUNTIME;
	WANT(0, DBG_TRAP, &t);
	TRUE(info.runtime_state == DEBUG_RUNTIME_STATE_ENABLED && !info.ttmp_setup);
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT;
	t.event.exception_mask = KFD_EC_MASK(EC_PROCESS_RUNTIME);
	WANT(0, DBG_TRAP, &t);
	TRUE(t.event.exception_mask == KFD_EC_MASK(EC_PROCESS_RUNTIME));
	WANT(EAGAIN, DBG_TRAP, &t);
	debug_waves(&t);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	t.op = KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO;
	t.query_exception_info.info_ptr = (uintptr_t)&info;
	t.query_exception_info.info_size = sizeof(info);
	t.query_exception_info.source_id = q.queue_id;
	t.query_exception_info.exception_code = EC_QUEUE_WAVE_TRAP;
	WANT(ENODATA, DBG_TRAP, &t);
	/* Every queue begins as a new one. */
	t.query_exception_info.exception_code = EC_QUEUE_NEW;
	t.query_exception_info.clear_exception = 1;
	WANT(0, DBG_TRAP, &t);
	WANT(ENODATA, DBG_TRAP, &t);
	debug_queues(&t, q.queue_id);
	memset(t.raw, 0, sizeof(t.raw));
	t.op = KFD_IOC_DBG_TRAP_DISABLE;
	WANT(0, DBG_TRAP, &t);
	/* A process with GWS cannot be debugged, nor a debugged one have it. */
	gws.queue_id = q.queue_id;
	WANT(0, ALLOC_QUEUE_GWS, &gws);
	t.op = KFD_IOC_DBG_TRAP_ENABLE;
	t.enable.dbg_fd = (uint32_t)pipefd[1];
	WANT(EBUSY, DBG_TRAP, &t);
	gws.num_gws = 0;
	WANT(0, ALLOC_QUEUE_GWS, &gws);
	WANT(0, DBG_TRAP, &t);
	gws.num_gws = 1;
	WANT(EBUSY, ALLOC_QUEUE_GWS, &gws);
}

#endif
