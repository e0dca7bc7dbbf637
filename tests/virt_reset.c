/* A scheduler that does not answer and the reset that follows: errors of the ioctls, SMI messages,
 * events, what a process can do during and after it.
 *
 * Each test is a child with a device of its own, as in virt_ioctl.c.
 */
#pragma clang diagnostic ignored "-Wunused-function" /* the harness has more than this needs */
#include <criterion/criterion.h>

#include "ioctl/harness.h"

/* Exit status of a body that had no core while what it was to see lasted: it looks again. */
enum { LATE = 2 };

static int run(const char *set, void (*fn)(void))
{
	int status = 0;

	for (unsigned tries = 0; tries < 5; tries++) {
		pid_t pid = fork();

		cr_assert_geq(pid, 0);
		if (!pid) {
			setenv("VGPU_SET", set, 1);
			report = open("/dev/null", O_WRONLY);
			fn();
			_exit(failures ? 1 : 0);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != LATE)
			break;
	}
	return status;
}

#define IN_CHILD(name, set)                                                                        \
	static void name##_body(void);                                                             \
	Test(virt_reset, name, .timeout = 600)                                                     \
	{                                                                                          \
		cr_assert_eq(run(set, name##_body), 0);                                            \
	}                                                                                          \
	static void name##_body(void)

static int smi_open(uint64_t mask)
{
	struct kfd_ioctl_smi_events_args a = {.gpuid = gpu};

	WANT(0, SMI_EVENTS, &a);
	TRUE(write((int)a.anon_fd, &mask, 8) == 8);
	return (int)a.anon_fd;
}

/* What has come; waits until `until` is in it. */
static const char *smi_text(int fd, const char *until)
{
	static char text[4096];
	static size_t n;
	uint64_t end = now_ns() + patience * 1000000ull;

	while (now_ns() < end) {
		ssize_t r = read(fd, text + n, sizeof(text) - 1 - n);

		if (r > 0)
			n += (size_t)r;
		text[n] = 0;
		if (strstr(text, until))
			return text;
		usleep(1000);
	}
	failures++;
	fprintf(stderr, "SMI: no \"%s\" in \"%s\"\n", until, text);
	return text;
}

static struct kfd_ioctl_create_queue_args queue_create(void)
{
	struct kfd_ioctl_create_queue_args q = queue_args();

	WANT(0, CREATE_QUEUE, &q);
	return q;
}

static struct kfd_ioctl_update_queue_args update_of(const struct kfd_ioctl_create_queue_args *q,
						    uint32_t percent)
{
	return (struct kfd_ioctl_update_queue_args){
		.ring_base_address = q->ring_base_address,
		.queue_id = q->queue_id,
		.ring_size = 4096,
		.queue_percentage = percent,
		.queue_priority = 7,
	};
}

static void wait_event(uint32_t id, uint32_t timeout, uint32_t want, struct kfd_event_data *out)
{
	struct kfd_event_data d = {.event_id = id};
	struct kfd_ioctl_wait_events_args w = {
		.events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = timeout};

	WANT(0, WAIT_EVENTS, &w);
	TRUE(w.wait_result == want);
	if (out)
		*out = d;
}

enum { PRE = 1u << 2, POST = 1u << 3, EVICTION = 1u << 8, RESTORE = 1u << 9 };

IN_CHILD(a_hung_queue, "hang=queue:0,clock=virtual")
{
	struct kfd_ioctl_create_queue_args q, other;
	struct kfd_ioctl_destroy_queue_args d;
	struct kfd_ioctl_update_queue_args u;
	struct kfd_event_data got;
	uint32_t hw, mem;
	const char *text;
	char want[64];
	int smi;

	acquire();
	smi = smi_open(PRE | POST | EVICTION | RESTORE);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	mem = event_create(KFD_IOC_EVENT_MEMORY, false);
	q = queue_create();
	other = queue_create();
	TRUE(q.queue_id == 0 && other.queue_id == 1);
	d = (struct kfd_ioctl_destroy_queue_args){.queue_id = q.queue_id};
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	wait_event(hw, patience, KFD_IOC_WAIT_RESULT_COMPLETE, &got);
	TRUE(got.hw_exception_data.reset_type == 0);
	TRUE(got.hw_exception_data.reset_cause == 0);
	TRUE(got.hw_exception_data.memory_lost == 1);
	TRUE(got.hw_exception_data.gpu_id == gpu);
	wait_event(mem, 0, KFD_IOC_WAIT_RESULT_TIMEOUT, NULL);
	text = smi_text(smi, "\n4 1 \n");
	TRUE(!strncmp(text, "3 1 MES hang\n", 13));
	snprintf(want, sizeof(want), " -%d %x 3\n", getpid(), gpu);
	TRUE(strstr(text, "\n9 ") && strstr(text, want));
	TRUE(!strstr(text, "\na ")); /* nobody restores them */
	/* Queues of the process can go, and be made, but do not change and never run. */
	u = update_of(&other, 50);
	WANT(EACCES, UPDATE_QUEUE, &u);
	d.queue_id = other.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
	/* The one that hung is being destroyed for ever, and keeps its number. */
	d.queue_id = q.queue_id;
	WANT(EBUSY, DESTROY_QUEUE, &d);
	q = queue_create();
	TRUE(q.queue_id == 1);
	d.queue_id = q.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
	WANT(EINVAL, DESTROY_QUEUE, &d);
}

IN_CHILD(an_update_meets_it_first, "hang=queue:0,clock=virtual")
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_update_queue_args u;
	struct kfd_ioctl_set_cu_mask_args m;
	uint32_t mask[2] = {~0u, 0xff};

	acquire();
	q = queue_create();
	u = update_of(&q, 0);
	WANT(EACCES, UPDATE_QUEUE, &u);
	m = (struct kfd_ioctl_set_cu_mask_args){
		.queue_id = q.queue_id, .num_cu_mask = 64, .cu_mask_ptr = (uintptr_t)mask};
	WANT(EACCES, SET_CU_MASK, &m);
}

/* On the clock of the wall: 2.1 s until MES is given up, then half a second locked. */
IN_CHILD(while_it_lasts, "hang=queue:0")
{
	struct kfd_ioctl_create_queue_args q, other;
	struct kfd_ioctl_destroy_queue_args d;
	struct kfd_ioctl_alloc_memory_of_gpu_args bo;
	struct kfd_ioctl_free_memory_of_gpu_args f;
	uint64_t start;
	int fd, smi;

	acquire();
	smi = smi_open(PRE | POST);
	bo = alloc(4096, GTT);
	q = queue_create();
	other = queue_create();
	d = (struct kfd_ioctl_destroy_queue_args){.queue_id = q.queue_id};
	start = now_ns();
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	TRUE(now_ns() - start >= 2100000000u);
	smi_text(smi, "3 1 MES hang\n");
	for (start = now_ns(); (fd = open("/dev/kfd", O_RDWR)) >= 0; close(fd)) {
		if (now_ns() - start > 5000000000u)
			_exit(LATE);
	}
	TRUE(errno == EINVAL);
	d.queue_id = other.queue_id; /* evicted: MES is not asked */
	WANT(0, DESTROY_QUEUE, &d);
	f.handle = bo.handle;
	WANT(0, FREE_MEMORY_OF_GPU, &f);
	TRUE(open("/dev/kfd", O_RDWR) >= 0); /* it has waited for the end */
	smi_text(smi, "4 1 \n");
	fd = open("/dev/kfd", O_RDWR);
	TRUE(fd >= 0);
}

IN_CHILD(eviction_finds_it_too, "hang=queue:0,clock=virtual,evict_ms=20")
{
	uint32_t hw;
	int smi;

	acquire();
	smi = smi_open(PRE | POST);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	queue_create();
	wait_event(hw, patience, KFD_IOC_WAIT_RESULT_COMPLETE, NULL);
	smi_text(smi, "4 1 \n");
}

IN_CHILD(without_the_event, "hang=queue:0,clock=virtual,rule.reset_hw_exception=0")
{
	struct kfd_ioctl_destroy_queue_args d;
	uint32_t hw;
	int smi;

	acquire();
	smi = smi_open(POST);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	d = (struct kfd_ioctl_destroy_queue_args){.queue_id = queue_create().queue_id};
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	smi_text(smi, "4 1 \n");
	wait_event(hw, 0, KFD_IOC_WAIT_RESULT_TIMEOUT, NULL);
}

IN_CHILD(without_eviction, "hang=queue:0,clock=virtual,rule.reset_evicts=0")
{
	struct kfd_ioctl_destroy_queue_args d;
	int smi;

	acquire();
	smi = smi_open(POST | EVICTION);
	d = (struct kfd_ioctl_destroy_queue_args){.queue_id = queue_create().queue_id};
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	TRUE(!strcmp(smi_text(smi, "4 1 \n"), "4 1 \n"));
}

IN_CHILD(without_the_lock, "hang=queue:0,rule.reset_locks_open=0")
{
	struct kfd_ioctl_destroy_queue_args d;
	int smi;

	acquire();
	smi = smi_open(PRE);
	d = (struct kfd_ioctl_destroy_queue_args){.queue_id = queue_create().queue_id};
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	smi_text(smi, "3 1 MES hang\n");
	TRUE(open("/dev/kfd", O_RDWR) >= 0);
}

/* amdgpu.gpu_recovery=0: nobody resets it, so nothing of it answers until somebody asks by hand. */
IN_CHILD(without_recovery, "hang=queue:0,clock=virtual,gpu_recovery=0")
{
	struct kfd_ioctl_create_queue_args q, other;
	struct kfd_ioctl_destroy_queue_args d;
	struct kfd_ioctl_update_queue_args u;
	char text[16] = "";
	uint32_t hw;
	FILE *f;
	int smi;

	acquire();
	smi = smi_open(PRE | POST);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_create();
	other = queue_create();
	f = fopen("/sys/module/amdgpu/parameters/gpu_recovery", "re");
	TRUE(f && fgets(text, sizeof(text), f) && !strcmp(text, "0\n"));
	if (f)
		fclose(f);
	d.queue_id = q.queue_id;
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	wait_event(hw, 200, KFD_IOC_WAIT_RESULT_TIMEOUT, NULL);
	TRUE(read(smi, text, sizeof(text)) < 0 && errno == EAGAIN);
	TRUE(open("/dev/kfd", O_RDWR) >= 0);
	u = update_of(&other, 50);
	WANT(EACCES, UPDATE_QUEUE, &u);
	q = queue_args();
	WANT(ETIMEDOUT, CREATE_QUEUE, &q);
	/* The administrator may. */
	if (geteuid() == 0) {
		f = fopen("/sys/kernel/debug/dri/0/amdgpu_gpu_recover", "re");
		TRUE(f != NULL);
		if (f)
			fclose(f);
		smi_text(smi, "4 1 \n");
		wait_event(hw, 0, KFD_IOC_WAIT_RESULT_COMPLETE, NULL);
	}
}

/* Newer kernels with newer firmware reset the queue alone. */
IN_CHILD(a_single_queue, "hang=queue:0,clock=virtual,kernel=7.3,mes_version=0x8c")
{
	struct kfd_ioctl_create_queue_args q, other;
	struct kfd_ioctl_destroy_queue_args d;
	struct kfd_ioctl_update_queue_args u;
	uint32_t hw;
	int smi;

	acquire();
	smi = smi_open(PRE | POST);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_create();
	other = queue_create();
	d = (struct kfd_ioctl_destroy_queue_args){.queue_id = q.queue_id};
	WANT(0, DESTROY_QUEUE, &d);
	wait_event(hw, patience, KFD_IOC_WAIT_RESULT_COMPLETE, NULL);
	u = update_of(&other, 50);
	WANT(EACCES, UPDATE_QUEUE, &u);
	usleep(100000);
	TRUE(read(smi, &(char){0}, 1) < 0 && errno == EAGAIN);
	TRUE(open("/dev/kfd", O_RDWR) >= 0);
}

/* debugfs, for root. */
IN_CHILD(by_hand, "clock=virtual")
{
	char text[16] = "";
	uint32_t hw;
	int fd, smi;

	if (geteuid()) {
		fprintf(stderr, "SKIP: by_hand: debugfs is root's\n");
		return;
	}
	acquire();
	smi = smi_open(PRE | POST);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	queue_create();
	TRUE(!access("/sys/kernel/debug/dri/0/amdgpu_gpu_recover", R_OK));
	TRUE(read(smi, text, 1) < 0); /* looking is not touching */
	fd = open("/sys/kernel/debug/dri/0/amdgpu_gpu_recover", O_RDONLY);
	TRUE(fd >= 0);
	TRUE(read(fd, text, sizeof(text)) == 2 && !strcmp(text, "0\n"));
	TRUE(!strcmp(smi_text(smi, "4 1 \n"), "3 1 user trigger\n4 1 \n"));
	wait_event(hw, 0, KFD_IOC_WAIT_RESULT_COMPLETE, NULL);
}

Test(virt_reset, a_hang_that_is_none)
{
	/* The value is read strictly: the device refuses to exist. */
	pid_t pid = fork();
	int status;

	if (!pid) {
		setenv("VGPU_SET", "hang=everything", 1);
		freopen("/dev/null", "w", stderr);
		_exit(open("/dev/kfd", O_RDWR) >= 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

/* Who asked for the reset finds all of its messages there when it is over, like a reader of the kernel's
 * file, which waits for the work as a whole. The first stream of many is served last. */
IN_CHILD(over_when_all_is_said, "clock=virtual")
{
	int smi;

	if (geteuid()) {
		fprintf(stderr, "SKIP: over_when_all_is_said: debugfs is root's\n");
		return;
	}
	acquire();
	smi = smi_open(POST);
	for (unsigned i = 0; i < 100; i++)
		smi_open(POST);
	for (unsigned i = 1; i <= 10; i++) {
		int fd = open("/sys/kernel/debug/dri/0/amdgpu_gpu_recover", O_RDONLY);
		char text[64] = "", want[64];

		TRUE(fd >= 0);
		close(fd);
		snprintf(want, sizeof(want), "4 %x \n", i);
		TRUE(read(smi, text, sizeof(text) - 1) > 0 && !strcmp(text, want));
	}
}

/* The newest stream of many is served first. */
static void leaves_at_once(void)
{
	char text[128];
	int smi = -1;

	acquire();
	for (unsigned i = 0; i < 100; i++)
		smi = smi_open(EVICTION);
	queue_create();
	while (read(smi, text, sizeof(text)) <= 0)
		; /* at once: no nap */
}

/* An eviction that a client has been told of is in the counts, however soon it leaves. */
Test(virt_reset, counted_before_it_is_said, .timeout = 600)
{
	char path[] = "/tmp/barewave-stats-XXXXXX", line[2048] = "", *at;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	setenv("VGPU_STATS", path, 1);
	cr_expect_eq(run("evict_ms=20", leaves_at_once), 0);
	unsetenv("VGPU_STATS");
	cr_assert_gt(read(fd, line, sizeof(line) - 1), 0);
	at = strstr(line, "\"evictions\": ");
	cr_assert(at, "%s", line);
	cr_expect_gt(strtol(at + 13, NULL, 10), 0, "%s", line);
	close(fd);
	unlink(path);
}
