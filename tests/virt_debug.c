/* A debugger and the process it debugs, each a process of its own: whom it may debug, queues that it
 * stops and starts, watch points, its end. With a device for each process and with a shared one. */
#pragma clang diagnostic ignored "-Wunused-function" /* the headers have more than this needs */
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/shared_device.h"

TestSuite(debug, .timeout = 120);

/* ---- the interface, which the driver does not use --------------------------- */

enum {
	OP_ENABLE,
	OP_DISABLE,
	OP_SEND_RUNTIME_EVENT,
	OP_LAUNCH_OVERRIDE = 4,
	OP_SUSPEND = 6,
	OP_RESUME,
	OP_SET_WATCH,
	OP_CLEAR_WATCH,
	OP_QUERY_EVENT = 11,
	OP_QUEUE_SNAPSHOT = 13,
};

struct dbg_call {
	uint32_t pid, op;
	union {
		struct {
			uint64_t exception_mask, rinfo_ptr;
			uint32_t rinfo_size, dbg_fd;
		} enable;
		struct {
			uint64_t exception_mask;
			uint32_t gpu_id, queue_id;
		} event;
		struct {
			uint64_t exception_mask, ids;
			uint32_t n, grace;
		} suspend;
		struct {
			uint64_t ids;
			uint32_t n, pad;
		} resume;
		struct {
			uint32_t mode, enable, request, pad;
		} override;
		struct {
			uint64_t address;
			uint32_t mode, mask, gpu_id, id;
		} set_watch;
		struct {
			uint32_t gpu_id, id;
		} clear_watch;
		struct {
			uint64_t exception_mask, to;
			uint32_t n, entry;
		} snapshot;
	};
};

struct queue_entry {
	uint64_t exceptions, ring, wptr, rptr, area;
	uint32_t id, gpu_id, ring_size, type, area_size, reserved;
};

#define DBG_TRAP _IOWR('K', 0x26, struct dbg_call)
#define CALL(err, op_, ...)                                                                        \
	call(__LINE__, err, &(struct dbg_call){.pid = (uint32_t)subject, .op = op_, __VA_ARGS__})
enum { EC_WAVE_TRAP = 1u << 1 };
enum { MODE_READ, MODE_NONREAD, MODE_ATOMIC, MODE_ALL };

static pid_t subject;
static int event_pipe[2];

/* The count or 0; a refusal must be -want. */
static long call(int line, int want, struct dbg_call *c)
{
	long r = ioctl(kfd, DBG_TRAP, c);
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

/* Runs it, at its first spin. */
static void debugged_start(void)
{
	subject = fork();
	if (!subject) {
		debugged();
		_exit(failures ? 1 : 0);
	}
	announce(1, 1);
	await(0, 1);
	device_open();
	TRUE(pipe(event_pipe) == 0);
}

static void debugged_end(void)
{
	int status = -1;

	announce(1, 5);
	TRUE(waitpid(subject, &status, 0) == subject);
	TRUE(status == 0);
}

static void attach(void)
{
	uint32_t info[4] = {0};

	CALL(0, OP_ENABLE,
	     .enable = {.exception_mask = EC_WAVE_TRAP,
			.rinfo_ptr = (uintptr_t)info,
			.rinfo_size = sizeof(info),
			.dbg_fd = (uint32_t)event_pipe[1]});
	TRUE(info[2] == 1); /* the runtime is enabled */
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

static struct queue_entry queue;

static void find_queue(void)
{
	struct queue_entry entry[4] = {{0}};
	struct dbg_call c = {.pid = (uint32_t)subject, .op = OP_QUEUE_SNAPSHOT};

	c.snapshot.exception_mask = ~0ull;
	c.snapshot.to = (uintptr_t)entry;
	c.snapshot.n = 4;
	c.snapshot.entry = sizeof(entry[0]);
	call(__LINE__, 0, &c);
	TRUE(c.snapshot.n >= 1);
	for (unsigned i = 0; i < c.snapshot.n && i < 4; i++) {
		if (entry[i].type == 2) /* AQL */
			queue = entry[i];
	}
	TRUE(queue.area && queue.gpu_id == gpu);
}

static long suspend(uint32_t *id)
{
	*id = queue.id;
	return CALL(0, OP_SUSPEND, .suspend = {.ids = (uintptr_t)id, .n = 1});
}

static long resume(uint32_t *id)
{
	*id = queue.id;
	return CALL(0, OP_RESUME, .resume = {.ids = (uintptr_t)id, .n = 1});
}

/* What the save area's head says of the waves. */
static uint32_t saved_bytes(void)
{
	uint32_t head[4] = {0};
	struct iovec local = {head, sizeof(head)}, remote = {(void *)queue.area, sizeof(head)};

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
	TRUE(suspend(&id) == 1 && id == queue.id);
	TRUE(suspend(&id) == 1 && id == queue.id); /* is once */
	TRUE(saved_bytes() == 2 * (16 * 128 + 640));
	id = 1000;
	TRUE(CALL(0, OP_SUSPEND, .suspend = {.ids = (uintptr_t)&id, .n = 1}) == 0);
	TRUE(id == (1000 | invalid));
	CALL(EINVAL, OP_SUSPEND, .suspend = {.n = 1});
	CALL(EFAULT, OP_SUSPEND, .suspend = {.ids = BAD_PTR, .n = 1});
	TRUE(ptrace(PTRACE_CONT, subject, 0, 0) == 0);
	/* What they wait for comes, and they do not see it. */
	announce(1, 2);
	usleep(100000);
	TRUE(!reached(2, 1));
	TRUE(resume(&id) == 1 && id == queue.id);
	await(2, 1);
	TRUE(common->word[SEEN] == 64);
	/* With all its threads the device stands still too, and its waves cannot be saved. */
	list_threads();
	for (unsigned i = 0; i < threads; i++) {
		if (thread[i] != subject)
			TRUE(ptrace(PTRACE_SEIZE, thread[i], 0, 0) == 0);
		stop_thread(thread[i]);
	}
	TRUE(suspend(&id) == 0 && id == (queue.id | invalid | error));
	for (unsigned i = 0; i < threads; i++)
		TRUE(ptrace(PTRACE_DETACH, thread[i], 0, 0) == 0);
	/* Not traced any more, and still its debugger. */
	TRUE(suspend(&id) == 1 && id == queue.id);
	/* An empty list resumes them all. */
	TRUE(CALL(0, OP_RESUME, .resume = {.n = 0}) >= 1);
}

/* ---- watch points ------------------------------------------------------------- */

static void clear_watch(int want, uint32_t id)
{
	CALL(want, OP_CLEAR_WATCH, .clear_watch = {.gpu_id = gpu, .id = id});
}

static uint32_t set_watch(int want, uint64_t address, uint32_t mode)
{
	struct dbg_call c = {.pid = (uint32_t)subject, .op = OP_SET_WATCH};

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
	struct dbg_call c = {.pid = (uint32_t)subject, .op = OP_QUERY_EVENT};
	uint64_t io = 0;
	char byte;

	CALL(0, OP_LAUNCH_OVERRIDE, .override = {.enable = 1u << 7, .request = 1u << 7});
	CALL(ENODEV, OP_SET_WATCH, .set_watch = {.gpu_id = 0x1234});
	clear_watch(EINVAL, 0);
	clear_watch(EINVAL, 4);
	/* Four, all of the device. */
	for (uint32_t i = 0; i < 4; i++)
		TRUE(set_watch(0, 0x1000, MODE_ALL) == i);
	TRUE(set_watch(ENOMEM, 0x1000, MODE_ALL) == ~0u);
	clear_watch(0, 2);
	clear_watch(EINVAL, 2);
	/* Where the next waves will add is known before they run. */
	for (unsigned i = 0; i < 10000 && !io; i++, usleep(1000))
		io = __atomic_load_n(&common->word[IO + 2], __ATOMIC_ACQUIRE);
	TRUE(set_watch(0, io, MODE_NONREAD) == 2);
	announce(1, 3);
	await(0, 2);
	announce(1, 4);
	await(2, 2);
	TRUE(common->word[SEEN] == 64);
	TRUE(common->word[TRAPSTS] == 1u << 13);
	TRUE(read(event_pipe[0], &byte, 1) == 1);
	c.event.exception_mask = EC_WAVE_TRAP;
	call(__LINE__, 0, &c);
	TRUE(c.event.exception_mask & EC_WAVE_TRAP && c.event.queue_id == queue.id);
	clear_watch(0, 2);
}

/* ---- a session ---------------------------------------------------------------- */

static void session(void)
{
	debugged_start();
	CALL(EPERM, OP_DISABLE);
	CALL(EPERM, OP_ENABLE);
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
	CALL(EINVAL, OP_DISABLE); /* nobody debugs it */
	attach();
	CALL(EALREADY, OP_ENABLE);
	/* By the number of any of its threads. */
	list_threads();
	TRUE(threads > 1);
	for (unsigned i = 0; i < threads; i++)
		call(__LINE__, EALREADY,
		     &(struct dbg_call){.pid = (uint32_t)thread[i], .op = OP_ENABLE});
	queues();
	watches();
	CALL(0, OP_DISABLE);
	CALL(EPERM, OP_DISABLE); /* neither traced nor debugged */
	debugged_end();
}

Test(debug, of_another_process)
{
	pid_t pid;

	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		report = open("/dev/null", O_WRONLY);
		session();
		_exit(failures ? 1 : 0);
	}
	join_client(pid);
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
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
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
	struct dbg_call c = {.op = OP_DISABLE};

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	await(3, 1);
	/* Another's process. */
	c.pid = (uint32_t)common->word[SUBJECT];
	call(__LINE__, EPERM, &c);
	close(kfd);
	/* Its own steps. */
	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	debugged_start();
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
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
	for (unsigned i = 0; i < 1000 && shared_number("watch_points") != 3; i++)
		usleep(10000);
	cr_expect_eq(shared_number("watch_points"), 3, "ends with its process");
	announce(4, 1);
	join_client(a);
	shared_clean();
	shared_stop();
}

/* The debugger is killed while a queue of its process stands still. */
static void dies(void)
{
	uint32_t id;

	device_open();
	TRUE(pipe(event_pipe) == 0);
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
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

	subject = fork();
	if (!subject) {
		debugged();
		_exit(failures ? 1 : 0);
	}
	announce(1, 1);
	await(0, 1);
	debugger = fork();
	if (!debugger) {
		dies();
		_exit(1);
	}
	TRUE(waitpid(debugger, &status, 0) == debugger);
	TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	announce(1, 2);
	await(2, 1); /* resumed */
	device_open();
	TRUE(pipe(event_pipe) == 0);
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
	attach(); /* nobody has it */
	TRUE(set_watch(0, 0x1000, MODE_ALL) == 0);
	CALL(0, OP_DISABLE);
	announce(1, 4);
	debugged_end();
}

Test(debug, a_debugger_that_dies)
{
	pid_t pid;

	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		report = open("/dev/null", O_WRONLY);
		survives();
		_exit(failures ? 1 : 0);
	}
	join_client(pid);
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
	uint32_t info[4] = {7, 7, 7, 7};

	device_open();
	TRUE(pipe(event_pipe) == 0);
	TRUE(ptrace(PTRACE_SEIZE, subject, 0, 0) == 0);
	CALL(0, OP_ENABLE,
	     .enable = {.exception_mask = ~0ull,
			.rinfo_ptr = (uintptr_t)info,
			.rinfo_size = sizeof(info),
			.dbg_fd = (uint32_t)event_pipe[1]});
	TRUE(info[2] == 0);
	if (!failures)
		raise(SIGKILL);
	_exit(1);
}

/* Two debuggers die, one after the other, and nobody reaps them. */
static void outlives_two(void)
{
	pid_t debugger[2];
	int status = -1;

	subject = fork();
	if (!subject) {
		enables_late();
		_exit(failures ? 1 : 0);
	}
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
	pid_t pid;

	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		report = open("/dev/null", O_WRONLY);
		outlives_two();
		_exit(failures ? 1 : 0);
	}
	join_client(pid);
}
