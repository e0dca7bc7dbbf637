/* One device, several processes: what is left when one of them, or the daemon, is gone. */
#pragma clang diagnostic ignored "-Wunused-function" /* the headers have more than this needs */
#include <criterion/criterion.h>

#include "tests/shared_device.h"

TestSuite(shared_death, .timeout = 600);

/* ---- death ----------------------------------------------------------------- */

static void waits_for_ever(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {0};
	struct kfd_ioctl_create_queue_args q;
	union drm_amdgpu_gem_create c = {.in = {.bo_size = 4096, .domains = AMDGPU_GEM_DOMAIN_GTT}};
	uint32_t hw;

	TRUE(freopen("/dev/null", "w", stderr) != NULL); /* it is told */
	acquire();
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	announce(0, 1);
	wait_hw(hw, 1);
	a.gpu_id = gpu;
	a.size = 4096;
	a.flags = GTT;
	a.va_addr = reserve(4096);
	WANT(ENODEV, ALLOC_MEMORY_OF_GPU, &a);
	DRM_CALL(ENODEV, DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE, RW, &c);
}

static void comes_late(void)
{
	TRUE(freopen("/dev/null", "w", stderr) != NULL);
	TRUE(open("/dev/kfd", O_RDWR) < 0 && errno == ENODEV);
}

/* The daemon dies: the device is lost, whoever waits hears of it, nothing hangs. */
Test(shared_death, death_of_the_daemon)
{
	char path[96];
	pid_t a;

	shared_start("");
	a = client("", waits_for_ever);
	await(0, 1);
	kill((pid_t)shared_number("pid"), SIGKILL);
	join_client(a);
	join_client(client("", comes_late));
	unlink(shared_socket);
	snprintf(path, sizeof(path), "%s.lock", shared_socket);
	unlink(path);
	rmdir(shared_dir);
}

static void halted_for_good(void)
{
	acquire();
	alloc(150 * MB, GTT);
	announce(0, 1);
	raise(SIGSTOP);
}

static void asks_in_vain(void)
{
	TRUE(freopen("/dev/null", "w", stderr) != NULL);
	device_open();
	announce(1, 1);
	gem_new(200 * MB, ENODEV);
}

/* Also for one that is waiting for its answer. */
Test(shared_death, death_of_the_daemon_in_a_call)
{
	char path[96];
	int status;
	pid_t a, b;

	shared_start("gtt=256M");
	a = client("", halted_for_good);
	await(0, 1);
	b = client("", asks_in_vain);
	await(1, 1);
	usleep(100000);
	kill((pid_t)shared_number("pid"), SIGKILL);
	join_client(b);
	kill(a, SIGKILL);
	waitpid(a, &status, 0);
	unlink(shared_socket);
	snprintf(path, sizeof(path), "%s.lock", shared_socket);
	unlink(path);
	rmdir(shared_dir);
}

/* Everything a client does, again and again, until it is killed. */
static void busy_life(void)
{
	for (;;) {
		struct bo_desc d = {
			.owner = "io", .size = 4 * MB, .placement = BO_GTT, .host = true};
		struct bo *io, *big = NULL, *copy = NULL;
		struct kfd_ioctl_smi_events_args a = {0};
		struct spin s;
		int fd = -1;

		if (device_client())
			_exit(1);
		kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		a.gpuid = kfd_gpu_id(dev.kfd);
		WANT(0, SMI_EVENTS, &a);
		bo_create(dev.memory, &d, &big);
		io = spin_buffer(false);
		spin_start(&s, bo_va(io));
		if (!bo_export(io, &fd))
			bo_import(dev.memory, fd, &d, &copy);
		spin_release(bo_host(io));
		spin_end(&s);
		bo_destroy(copy);
		bo_destroy(io);
		bo_destroy(big);
		close(fd);
		close((int)a.anon_fd);
		close(kfd);
		device_client_end();
		announce(0, 1);
	}
}

/* Killed at whatever moment, a client leaves nothing behind, and holds nobody up. */
Test(shared_death, death_of_a_client)
{
	unsigned seed = 1;

	shared_start("");
	for (unsigned i = 0; i < 40; i++) {
		pid_t a, b;
		int status;

		seed = seed * 1103515245u + 12345u;
		a = client("workers=1", busy_life);
		b = client("workers=1", busy_life);
		usleep(20000 + (seed >> 8) % 150000);
		kill(a, SIGKILL);
		waitpid(a, &status, 0);
		cr_assert(WIFSIGNALED(status), "0x%x", (unsigned)status);
		usleep(1000 + (seed >> 4) % 10000);
		kill(b, SIGKILL);
		waitpid(b, &status, 0);
		cr_assert(WIFSIGNALED(status), "0x%x", (unsigned)status);
	}
	shared_clean();
	shared_stop();
}

/* ---- another program, another user ----------------------------------------- */

static void becomes_another(void)
{
	acquire();
	alloc(100 * MB, GTT);
	mapped(4096, GTT);
	announce(0, 1);
	await(1, 1);
	execl("/bin/sleep", "sleep", "600", NULL);
	failures++;
}

/* exec() takes the address space away, and what the device had for it. */
Test(shared_death, exec_of_a_client)
{
	int status;
	pid_t a;

	shared_start("gtt=256M");
	a = client("", becomes_another);
	await(0, 1);
	cr_expect_gt(shared_number("gtt"), 100 * (long long)MB);
	announce(1, 1);
	cr_expect(UNTIL(!shared_number("clients")));
	cr_expect_eq(kill(a, 0), 0, "the process itself lives");
	shared_clean();
	kill(a, SIGKILL);
	waitpid(a, &status, 0);
	shared_stop();
}

static void halted(void)
{
	struct kfd_ioctl_create_queue_args q;

	acquire();
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	alloc(150 * MB, GTT);
	announce(0, 1);
	raise(SIGSTOP);
	/* Everything is where it was. */
	q.queue_id = 0;
	WANT(0, DESTROY_QUEUE, &(struct kfd_ioctl_destroy_queue_args){.queue_id = q.queue_id});
}

static void needs_its_memory(void)
{
	device_open();
	gem_close(gem_new(200 * MB, 0));
}

/* A process that a debugger holds cannot stop its queues, and its waves stand still anyway. */
Test(shared_death, halt_of_a_client)
{
	pid_t a;

	shared_start("gtt=256M");
	a = client("", halted);
	await(0, 1);
	join_client(client("", needs_its_memory));
	kill(a, SIGCONT);
	join_client(a);
	shared_clean();
	shared_stop();
}

static void as_nobody(void)
{
	TRUE(freopen("/dev/null", "w", stderr) != NULL);
	TRUE(!setgid(65534) && !setuid(65534));
	kfd = open("/dev/kfd", O_RDWR);
	common->word[0] = kfd < 0 ? (uint64_t)errno : 0;
}

static uint64_t answer_to_nobody(const char *act)
{
	shared_act = act;
	shared_start("");
	cr_assert_eq(chmod(shared_dir, 0711), 0);
	join_client(client("", as_nobody));
	shared_clean();
	shared_stop();
	strcpy(shared_dir + strlen(shared_dir) - 6, "XXXXXX");
	return common->word[0];
}

Test(shared_death, other_users)
{
	if (geteuid()) {
		fprintf(stderr, "SKIP: other_users: root alone can be another user\n");
		return;
	}
	cr_expect_eq(answer_to_nobody("--daemon"), ENODEV);
	cr_expect_eq(answer_to_nobody("--others --daemon"), 0);
}
