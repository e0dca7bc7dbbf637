/* A debugger and the process it debugs, each a process of its own: whom it may debug, queues that it
 * stops and starts, watch points, its end. With a device for each process and with a shared one. */
#pragma clang diagnostic ignored "-Wunused-function" /* the headers have more than this needs */
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/shared_device.h"
#include "tools/vgpu/kfd/dbg_abi.h"

TestSuite(debug, .timeout = 600);

#define CALL(err, op_, ...)                                                                        \
	call(__LINE__, err,                                                                        \
	     &(struct kfd_ioctl_dbg_trap_args){                                                    \
		     .pid = (uint32_t)subject, .op = KFD_IOC_DBG_TRAP_##op_, __VA_ARGS__})
enum { MODE_READ, MODE_NONREAD, MODE_ATOMIC, MODE_ALL };

static pid_t subject;
static int event_pipe[2];

/* The count or 0; a refusal must be -want. */
static long call(int line, int want, struct kfd_ioctl_dbg_trap_args *c)
{
	long r = ioctl(kfd, AMDKFD_IOC_DBG_TRAP, c);
	int got = r < 0 ? errno : 0;

	if (got != want) {
		failures++;
		fprintf(stderr, "line %d: op %u: got %s, want %s\n", line, c->op, errname(got),
			errname(want));
	}
	return r;
}

/* ---- the debugged process ---------------------------------------------------- */

/* A handler: tma[0] = TRAPSTS, reports a trap, returns
 *	v_mov_b32 v10, 0;  s_getreg_b32 ttmp4, hwreg(HW_REG_TRAPSTS);  v_mov_b32 v12, ttmp4
 *	global_store_b32 v10, v12, ttmp[14:15];  s_sendmsg_rtn_b32 ttmp4, 0x80
 *	s_waitcnt lgkmcnt(0);  s_or_b32 ttmp4, ttmp4, 0x800;  s_mov_b32 ttmp5, m0
 *	s_mov_b32 m0, ttmp4;  s_nop 0;  s_sendmsg sendmsg(MSG_INTERRUPT);  s_mov_b32 m0, ttmp5
 *	s_and_b32 ttmp1, ttmp1, 0xffff;  s_rfe_b64 ttmp[0:1] */
static const uint32_t P_REPORT[] = {
	0x7e140280, 0xb8f0f803, 0x7e180270, 0xdc6a0000, 0x007a0c0a, 0xbef04c80,
	0xbf89fc07, 0x8c70ff70, 0x00000800, 0xbef1007d, 0xbefd0070, 0xbf800000,
	0xbfb60001, 0xbefd0071, 0x8b6dff6d, 0x0000ffff, 0xbe804a6c,
};

enum { TRAPSTS, SEEN, SUBJECT, IO = 8 }; /* common->word; IO + round */

/* Waves that spin, with a handler of their own; step 0 says that they do, step 1 lets them go. Then
 * once more, for waves that begin when the debugger has its wishes. */
static void debugged(void)
{
	struct bo *io, *handler, *tma;
	struct spin s;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (device_client())
		return;
	handler = spin_buffer(true);
	tma = spin_buffer(false);
	memcpy(bo_host(handler), P_REPORT, sizeof(P_REPORT));
	TRUE(!kfd_trap_handler_set(dev.kfd, bo_va(handler), bo_va(tma)));
	for (int round = 1; round <= 2; round++) {
		io = spin_buffer(false);
		__atomic_store_n(&common->word[IO + round], bo_va(io), __ATOMIC_RELEASE);
		await(1, 2 * round - 1);
		spin_start(&s, bo_va(io));
		spin_runs(bo_host(io));
		announce(0, round);
		await(1, 2 * round);
		spin_release(bo_host(io));
		TRUE(!spin_end(&s));
		common->word[SEEN] = *(uint32_t *)bo_host(io);
		common->word[TRAPSTS] = *(uint32_t *)bo_host(tma);
		bo_destroy(io);
		announce(2, round);
	}
	await(1, 5);
	TRUE(!kfd_trap_handler_set(dev.kfd, 0, 0));
	bo_destroy(tma);
	bo_destroy(handler);
	device_client_end();
}

static void subject_start(void (*fn)(void))
{
	subject = fork();
	if (!subject) {
		fn();
		_exit(failures ? 1 : 0);
	}
}

/* Runs it, to its first spin. */
static void debugged_start(void)
{
	subject_start(debugged);
	announce(1, 1);
	await(0, 1);
}

static void debugged_end(void)
{
	int status = -1;

	announce(1, 5);
	TRUE(waitpid(subject, &status, 0) == subject);
	TRUE(status == 0);
}

/* ---- its debugger ------------------------------------------------------------ */

static void debugger_open(void)
{
	device_open();
	TRUE(pipe(event_pipe) == 0);
}

static void trace(void)
{
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
}

/* state: that of the runtime there. */
static void enable(uint64_t exceptions, uint32_t state)
{
	struct kfd_runtime_info info = {.runtime_state = 7};

	CALL(0, ENABLE,
	     .enable = {.exception_mask = exceptions,
			.rinfo_ptr = (uintptr_t)&info,
			.rinfo_size = sizeof(info),
			.dbg_fd = (uint32_t)event_pipe[1]});
	TRUE(info.runtime_state == state);
}

static void attach(void)
{
	debugger_open();
	trace();
	enable(KFD_EC_MASK(EC_QUEUE_WAVE_TRAP), DEBUG_RUNTIME_STATE_ENABLED);
}

/* ---- threads ----------------------------------------------------------------- */

static pid_t thread[256];
static unsigned threads;

static void list_threads(void)
{
	struct dirent *e;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", subject);
	d = opendir(path);
	TRUE(d);
	threads = 0;
	while (d && (e = readdir(d)) && threads < 256) {
		if (e->d_name[0] != '.')
			thread[threads++] = (pid_t)strtol(e->d_name, NULL, 10);
	}
	if (d)
		closedir(d);
}

static void stop_thread(pid_t t)
{
	int status;

	TRUE(ptrace(PTRACE_INTERRUPT, t, 0, 0) == 0);
	/* A signal would come first, and is not wanted. */
	do {
		TRUE(waitpid(t, &status, __WALL) == t && WIFSTOPPED(status));
	} while (status >> 16 != PTRACE_EVENT_STOP && !ptrace(PTRACE_CONT, t, 0, 0));
	TRUE(status >> 16 == PTRACE_EVENT_STOP);
}

/* ---- queues ------------------------------------------------------------------ */

static struct kfd_queue_snapshot_entry queue;

static void find_queue(void)
{
	struct kfd_queue_snapshot_entry entry[4] = {{0}};
	struct kfd_ioctl_dbg_trap_args c = {.pid = (uint32_t)subject,
					    .op = KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT};

	c.snapshot.exception_mask = ~0ull;
	c.snapshot.snapshot_buf_ptr = (uintptr_t)entry;
	c.snapshot.num = 4;
	c.snapshot.entry_size = sizeof(entry[0]);
	call(__LINE__, 0, &c);
	TRUE(c.snapshot.num >= 1);
	for (unsigned i = 0; i < c.snapshot.num && i < 4; i++) {
		if (entry[i].queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
			queue = entry[i];
	}
	TRUE(queue.ctx_save_restore_address && queue.gpu_id == gpu);
}

static long suspend(uint32_t *id)
{
	*id = queue.queue_id;
	return CALL(0, SUSPEND_QUEUES,
		    .suspend_queues = {.queue_array_ptr = (uintptr_t)id, .num_queues = 1});
}

static long resume(uint32_t *id)
{
	*id = queue.queue_id;
	return CALL(0, RESUME_QUEUES,
		    .resume_queues = {.queue_array_ptr = (uintptr_t)id, .num_queues = 1});
}

/* What the save area's head says of the waves. */
static uint32_t saved_bytes(void)
{
	uint32_t head[4] = {0};
	struct iovec local = {head, sizeof(head)},
		     remote = {(void *)queue.ctx_save_restore_address, sizeof(head)};

	TRUE(process_vm_readv(subject, &local, 1, &remote, 1, 0) == sizeof(head));
	return head[3];
}

static void queues(void)
{
	const uint32_t error = 1u << 30, invalid = 1u << 31;
	uint32_t id;

	find_queue();
	/* Its first thread is stopped, as a debugger has it; the waves are not. */
	stop_thread(subject);
	TRUE(suspend(&id) == 1 && id == queue.queue_id);
	TRUE(suspend(&id) == 1 && id == queue.queue_id); /* is once */
	TRUE(saved_bytes() == 2 * (16 * 128 + 640));
	id = 1000;
	TRUE(CALL(0, SUSPEND_QUEUES,
		  .suspend_queues = {.queue_array_ptr = (uintptr_t)&id, .num_queues = 1}) == 0);
	TRUE(id == (1000 | invalid));
	CALL(EINVAL, SUSPEND_QUEUES, .suspend_queues = {.num_queues = 1});
	CALL(EFAULT, SUSPEND_QUEUES,
	     .suspend_queues = {.queue_array_ptr = BAD_PTR, .num_queues = 1});
	TRUE(ptrace(PTRACE_CONT, subject, 0, 0) == 0);
	/* What they wait for comes, and they do not see it. */
	announce(1, 2);
	usleep(100000);
	TRUE(!reached(2, 1));
	TRUE(resume(&id) == 1 && id == queue.queue_id);
	await(2, 1);
	TRUE(common->word[SEEN] == 64);
	/* With all its threads the device stands still too, and its waves cannot be saved. */
	list_threads();
	for (unsigned i = 0; i < threads; i++) {
		if (thread[i] != subject)
			TRUE(ptrace(PTRACE_SEIZE, thread[i], 0, 0) == 0);
		stop_thread(thread[i]);
	}
	TRUE(suspend(&id) == 0 && id == (queue.queue_id | invalid | error));
	for (unsigned i = 0; i < threads; i++)
		TRUE(ptrace(PTRACE_DETACH, thread[i], 0, 0) == 0);
	/* Not traced any more, and still its debugger. */
	TRUE(suspend(&id) == 1 && id == queue.queue_id);
	/* An empty list resumes them all. */
	TRUE(CALL(0, RESUME_QUEUES, .resume_queues = {.num_queues = 0}) >= 1);
}

/* ---- watch points ------------------------------------------------------------- */

static void clear_watch(int want, uint32_t id)
{
	CALL(want, CLEAR_NODE_ADDRESS_WATCH, .clear_watch = {.gpu_id = gpu, .id = id});
}

static uint32_t set_watch(int want, uint64_t address, uint32_t mode)
{
	struct kfd_ioctl_dbg_trap_args c = {.pid = (uint32_t)subject,
					    .op = KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH};

	c.set_watch.address = address;
	c.set_watch.mode = mode;
	c.set_watch.mask = ~0u;
	c.set_watch.gpu_id = gpu;
	c.set_watch.id = 77;
	call(__LINE__, want, &c);
	return c.set_watch.id;
}

static void watches(void)
{
	struct kfd_ioctl_dbg_trap_args c = {.pid = (uint32_t)subject,
					    .op = KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT};
	uint64_t io = 0;
	char byte;

	CALL(0, SET_WAVE_LAUNCH_OVERRIDE,
	     .launch_override = {.enable_mask = 1u << 7, .support_request_mask = 1u << 7});
	CALL(ENODEV, SET_NODE_ADDRESS_WATCH, .set_watch = {.gpu_id = 0x1234});
	clear_watch(EINVAL, 0);
	clear_watch(EINVAL, 4);
	/* Four, all of the device. */
	for (uint32_t i = 0; i < 4; i++)
		TRUE(set_watch(0, 0x1000, MODE_ALL) == i);
	TRUE(set_watch(ENOMEM, 0x1000, MODE_ALL) == ~0u);
	clear_watch(0, 2);
	clear_watch(EINVAL, 2);
	/* Where the next waves will add is known before they run. */
	TRUE(UNTIL((io = __atomic_load_n(&common->word[IO + 2], __ATOMIC_ACQUIRE))));
	TRUE(set_watch(0, io, MODE_NONREAD) == 2);
	announce(1, 3);
	await(0, 2);
	announce(1, 4);
	await(2, 2);
	TRUE(common->word[SEEN] == 64);
	TRUE(common->word[TRAPSTS] == 1u << 13);
	TRUE(read(event_pipe[0], &byte, 1) == 1);
	c.event.exception_mask = KFD_EC_MASK(EC_QUEUE_WAVE_TRAP);
	call(__LINE__, 0, &c);
	TRUE(c.event.exception_mask & KFD_EC_MASK(EC_QUEUE_WAVE_TRAP) &&
	     c.event.queue_id == queue.queue_id);
	clear_watch(0, 2);
}

/* ---- a session ---------------------------------------------------------------- */

/* A device for each process. */
static void without_daemon(void (*fn)(void))
{
	pid_t pid;

	common_new();
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		report = open("/dev/null", O_WRONLY);
		fn();
		_exit(failures ? 1 : 0);
	}
	join_client(pid);
}

static void session(void)
{
	debugged_start();
	debugger_open();
	CALL(EPERM, DISABLE);
	CALL(EPERM, ENABLE);
	trace();
	CALL(EINVAL, DISABLE); /* nobody debugs it */
	enable(KFD_EC_MASK(EC_QUEUE_WAVE_TRAP), DEBUG_RUNTIME_STATE_ENABLED);
	CALL(EALREADY, ENABLE);
	/* By the number of any of its threads. */
	list_threads();
	TRUE(threads > 1);
	for (unsigned i = 0; i < threads; i++)
		call(__LINE__, EALREADY,
		     &(struct kfd_ioctl_dbg_trap_args){.pid = (uint32_t)thread[i],
						       .op = KFD_IOC_DBG_TRAP_ENABLE});
	queues();
	watches();
	CALL(0, DISABLE);
	CALL(EPERM, DISABLE); /* neither traced nor debugged */
	debugged_end();
}

Test(debug, of_another_process)
{
	without_daemon(session);
}

Test(debug, of_another_process_on_a_shared_device)
{
	shared_start("");
	join_client(client("", session));
	shared_clean();
	shared_stop();
}

/* Two debuggers, whose processes share the device and so its four points. */
static void three_points(void)
{
	debugged_start();
	attach();
	for (unsigned i = 0; i < 3; i++)
		set_watch(0, 0x1000, MODE_ALL);
	common->word[SUBJECT] = (uint64_t)subject;
	announce(3, 1);
	await(4, 1);
	/* They end with the process that they are of. */
	kill(subject, SIGKILL);
	waitpid(subject, NULL, 0);
	announce(3, 2);
}

static void one_point(void)
{
	struct kfd_ioctl_dbg_trap_args c = {.op = KFD_IOC_DBG_TRAP_DISABLE};

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	await(3, 1);
	/* Another's process. */
	c.pid = (uint32_t)common->word[SUBJECT];
	call(__LINE__, EPERM, &c);
	close(kfd);
	/* Its own steps. */
	common_new();
	debugged_start();
	attach();
	TRUE(set_watch(0, 0x1000, MODE_ALL) == 3);
	set_watch(ENOMEM, 0x1000, MODE_ALL);
	kill(subject, SIGKILL);
	waitpid(subject, NULL, 0);
}

Test(debug, points_are_of_the_device)
{
	pid_t a, b;

	shared_start("");
	a = client("", three_points);
	b = client("", one_point);
	join_client(b);
	cr_expect(UNTIL(shared_number("watch_points") == 3), "ends with its process");
	announce(4, 1);
	join_client(a);
	shared_clean();
	shared_stop();
}

/* The debugger is killed while a queue of its process stands still. */
static void dies(void)
{
	uint32_t id;

	attach();
	find_queue();
	TRUE(suspend(&id) == 1);
	set_watch(0, 0x1000, MODE_ALL);
	raise(SIGKILL);
}

static void survives(void)
{
	pid_t debugger;
	int status;

	debugged_start();
	debugger = fork();
	if (!debugger) {
		dies();
		_exit(1);
	}
	TRUE(waitpid(debugger, &status, 0) == debugger);
	TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	announce(1, 2);
	await(2, 1); /* resumed */
	attach();    /* nobody has it */
	TRUE(set_watch(0, 0x1000, MODE_ALL) == 0);
	CALL(0, DISABLE);
	announce(1, 4);
	debugged_end();
}

Test(debug, a_debugger_that_dies)
{
	without_daemon(survives);
}

/* A process that has not enabled its runtime yet, so that nobody in it looks after its debugger. */
static void enables_late(void)
{
	struct kfd_ioctl_runtime_enable_args a = {.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK};

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	announce(0, 1);
	await(1, 1);
	WANT(0, RUNTIME_ENABLE, &a);
	announce(2, 1);
}

static void attaches_and_dies(void)
{
	debugger_open();
	trace();
	enable(~0ull, DEBUG_RUNTIME_STATE_DISABLED);
	if (!failures)
		raise(SIGKILL);
	_exit(1);
}

/* Two debuggers die, one after the other, and nobody reaps them. */
static void outlives_two(void)
{
	pid_t debugger[2];
	int status = -1;

	subject_start(enables_late);
	await(0, 1);
	for (unsigned i = 0; i < 2; i++) {
		siginfo_t info = {0};

		debugger[i] = fork();
		if (!debugger[i])
			attaches_and_dies();
		TRUE(waitid(P_PID, (id_t)debugger[i], &info, WEXITED | WNOWAIT) == 0);
		TRUE(info.si_code == CLD_KILLED && info.si_status == SIGKILL);
	}
	announce(1, 1);
	await(2, 1); /* nobody has to be told of its runtime */
	if (!reached(2, 1))
		kill(subject, SIGKILL);
	TRUE(waitpid(subject, &status, 0) == subject && status == 0);
	for (unsigned i = 0; i < 2; i++)
		waitpid(debugger[i], NULL, 0);
}

Test(debug, debuggers_that_nobody_reaps)
{
	without_daemon(outlives_two);
}
