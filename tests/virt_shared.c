/* One device, several processes: limits that one runs into because of another, eviction of one by
 * another, turns on the hardware, resets, settings. */
#pragma clang diagnostic ignored "-Wunused-function" /* the headers have more than this needs */
#include <criterion/criterion.h>

#include "tests/shared_device.h"

TestSuite(shared, .timeout = 600);

/* ---- limits ---------------------------------------------------------------- */

static void half_taken(void)
{
	acquire();
	alloc(140 * MB, GTT);
	announce(0, 1);
	await(1, 1);
	for (;;)
		pause(); /* killed with it */
}

static void other_half(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a;
	uint64_t left;

	acquire();
	left = available();
	TRUE(left > 100 * MB && left < 120 * MB); /* 256 less the other's 140 */
	a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
		.va_addr = reserve(140 * MB), .size = 140 * MB, .gpu_id = gpu, .flags = GTT};
	WANT(ENOMEM, ALLOC_MEMORY_OF_GPU, &a);
	announce(1, 1);
	TRUE(UNTIL(available() >= 200 * MB));
	WANT(0, ALLOC_MEMORY_OF_GPU, &a);
}

/* The limits are the machine's: what one process has, another lacks, until the first is gone. */
Test(shared, limits_are_of_all_processes)
{
	pid_t a, b;
	int status;

	shared_start("gtt=256M");
	a = client("", half_taken);
	await(0, 1);
	cr_assert_eq(shared_number("gtt"), 140 * (long long)MB + 8192);
	b = client("", other_half);
	await(1, 1);
	kill(a, SIGKILL);
	waitpid(a, &status, 0);
	join_client(b);
	shared_clean();
	shared_stop();
}

/* ---- eviction -------------------------------------------------------------- */

/* Waves that wait for the host, through evictions. */
static void evicted(void)
{
	struct bo *io, *big = NULL;
	struct bo_desc d = {
		.owner = "weights", .size = 100 * MB, .placement = BO_GTT, .host = true};
	char want[64];
	struct spin s;
	int smi;

	if (device_client())
		return;
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	gpu = kfd_gpu_id(dev.kfd);
	smi = smi_stream(EVICTION | RESTORE);
	TRUE(!bo_create(dev.memory, &d, &big));
	*(uint64_t *)bo_host(big) = 0x1122334455667788;
	io = spin_buffer(false);
	spin_start(&s, bo_va(io));
	announce(0, 1);
	snprintf(want, sizeof(want), " -%d %x 2\n", getpid(), gpu); /* trigger TTM */
	TRUE(smi_wait(smi, want));
	TRUE(!strncmp(smi_got, "9 ", 2));
	snprintf(want, sizeof(want), " -%d %x 0\n", getpid(), gpu);
	TRUE(smi_wait(smi, want));
	TRUE(strstr(smi_got, "\na "));
	TRUE(evicted_ms(getpid()) >= 99);
	TRUE(*(uint64_t *)bo_host(big) == 0x1122334455667788);
	/* Once more, while the other keeps what it has: there is room, after it was moved. */
	announce(0, 2);
	await(1, 2);
	spin_release(bo_host(io));
	TRUE(!spin_end(&s));
	TRUE(*(uint32_t *)bo_host(io) == 64);
	bo_destroy(io);
	bo_destroy(big);
	close(smi);
	device_client_end();
}

static void evictor(void)
{
	uint32_t handle;
	uint64_t *p;

	device_open();
	await(0, 1);
	/* 256 MiB are not enough for both. */
	handle = gem_new(150 * MB, 0);
	p = gem_map(handle, 4096);
	TRUE(p[0] == 0);
	p[0] = 0x99;
	await(0, 2);
	TRUE(p[0] == 0x99); /* pushed out itself by then, and none the worse */
	munmap(p, 4096);
	gem_close(handle);
	announce(1, 2);
}

/* A graphics client's buffer needs GTT that a compute process has: its queues stop, with SMI events
 * and a counter, its buffers move out and, 100 ms later, back; its waves notice nothing. */
Test(shared, one_evicts_the_other)
{
	shared_start("gtt=256M");
	join_two("", evicted, evictor);
	cr_expect_geq(shared_number("evictions"), 1);
	cr_expect_geq(shared_number("moves"), 3, "out, the other out, and back");
	shared_clean();
	shared_stop();
}

/* The same on a clock that runs ahead for all of them. */
Test(shared, one_evicts_the_other_in_no_time)
{
	shared_start("gtt=256M,clock=virtual");
	join_two("", evicted, evictor);
	cr_expect_geq(shared_number("evictions"), 1);
	shared_clean();
	shared_stop();
}

static char said[512];

static void tell_story(void)
{
	int out = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	TRUE(out >= 0);
	if (out < 0)
		return;
	dup2(out, 1);
	execl("build/barewave", "barewave", "run", "-m", "data/demo/story-4m-q8_0.gguf", "-p",
	      "Once upon a time", "-n", "20", "--temp", "0", NULL);
	failures++;
}

static size_t story(char *text, size_t n)
{
	FILE *f = fopen(said, "r");
	size_t len;

	cr_assert(f);
	len = fread(text, 1, n - 1, f);
	fclose(f);
	unlink(said);
	text[len] = 0;
	return len;
}

/* GTT in use, of all processes. */
static unsigned long long gtt_used(void)
{
	FILE *f = fopen("/sys/class/drm/renderD128/device/mem_info_gtt_used", "re");
	unsigned long long n = 0;

	if (f && fscanf(f, "%llu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

/* Takes what the model has, over and over, for as long as it runs. */
static void press(void)
{
	device_open();
	/* A model that finds too little memory free when it comes is refused by its own plan. */
	while (!reached(7, 1) && gtt_used() < 20 * MB)
		usleep(1000);
	while (!reached(7, 1)) {
		gem_close(gem_new(60 * MB, 0));
		usleep(1000);
	}
}

/* A model whose buffers are pushed out every hundred milliseconds says what it says alone. */
Test(shared, a_model_under_pressure)
{
	char alone[8192], pressed[8192];
	pid_t a, b;

	shared_start("gtt=80M");
	snprintf(said, sizeof(said), "%s/said", shared_dir);
	join_client(client("", tell_story));
	cr_assert_gt(story(alone, sizeof(alone)), 100u);
	cr_assert_eq(shared_number("evictions"), 0);
	b = client("", press);
	a = client("", tell_story);
	join_client(a);
	announce(7, 1);
	join_client(b);
	story(pressed, sizeof(pressed));
	*strchr(alone, '\n') = *strchr(pressed, '\n') = 0;
	cr_expect_str_eq(pressed, alone);
	cr_expect_geq(shared_number("evictions"), 3, "%lld", shared_number("evictions"));
	fprintf(stderr, "%lld evictions\n", shared_number("evictions"));
	shared_clean();
	shared_stop();
}

/* No room is made for a process out of its own buffers: it gets the error. */
static void alone_and_full(void)
{
	acquire();
	alloc(200 * MB, GTT);
	gem_new(100 * MB, ENOMEM);
}

Test(shared, nobody_evicts_himself)
{
	shared_start("gtt=256M");
	join_client(client("", alone_and_full));
	cr_expect_eq(shared_number("evictions"), 0);
	shared_clean();
	shared_stop();
}

/* Two that hold their process locks while each waits for the other's queues to stop. */
static void pusher(unsigned me)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a;
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_free_memory_of_gpu_args f;

	acquire();
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	alloc(100 * MB, GTT);
	announce(me, 1);
	await(1 - me, 1);
	for (unsigned i = 0; i < 20; i++) {
		a = (struct kfd_ioctl_alloc_memory_of_gpu_args){
			.va_addr = reserve(60 * MB), .size = 60 * MB, .gpu_id = gpu, .flags = GTT};
		if (ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a)) {
			TRUE(errno == ENOMEM);
			continue;
		}
		f.handle = a.handle;
		WANT(0, FREE_MEMORY_OF_GPU, &f);
	}
}

static void pusher_0(void)
{
	pusher(0);
}

static void pusher_1(void)
{
	pusher(1);
}

Test(shared, two_push_each_other)
{
	/* Without KFD's own limit, which would refuse before anybody moves. */
	shared_start("gtt=256M,rule.limit_ttm=0");
	join_two("", pusher_0, pusher_1);
	cr_expect_geq(shared_number("evictions"), 1);
	shared_clean();
	shared_stop();
}

/* ---- places ---------------------------------------------------------------- */

enum { MANY = 12 };

/* Each waits for the one before it, on the GPU: the first one's waves can only end when the last
 * one's have had their turn. */
static void in_line(void)
{
	unsigned me = (unsigned)common->word[15];
	struct bo *io;
	struct spin s;
	uint32_t *w;

	if (device_client())
		return;
	io = spin_buffer(false);
	w = bo_host(io);
	spin_start(&s, bo_va(io));
	__atomic_add_fetch(&common->step[0], 1, __ATOMIC_ACQ_REL);
	await(0, MANY);
	/* All have waves on the way: the last may go first. */
	await(1, (int)(MANY - 1 - me));
	spin_release(w);
	TRUE(!spin_end(&s));
	TRUE(w[0] == 64);
	announce(1, (int)(MANY - me));
	bo_destroy(io);
	device_client_end();
}

/* Twelve processes with a busy queue each on eight places: MES gives turns, nobody is refused and
 * nobody starves. */
Test(shared, more_processes_than_places)
{
	pid_t pid[MANY];
	bool more = false;

	shared_start("");
	for (unsigned i = 0; i < MANY; i++) {
		common->word[15] = i;
		pid[i] = client("workers=1,jit=0", in_line);
		await(0, (int)i + 1);
	}
	for (unsigned k = 0; k < 50 && !more; k++)
		more = shared_number("on_hardware") <= 8;
	cr_expect(more);
	for (unsigned i = 0; i < MANY; i++)
		join_client(pid[i]);
	shared_clean();
	shared_stop();
}

/* ---- wave slots ------------------------------------------------------------- */

/* out[16 + group * 1024 + x] = HW_ID1, then waits until out[2] is not 0
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_getreg_b32 s8, hwreg(HW_REG_HW_ID1)
 *	v_and_b32 v1, 0x3ff, v0;  s_waitcnt lgkmcnt(0);  s_lshl_b32 s7, s2, 10
 *	v_add_nc_u32 v2, s7, v1;  v_lshlrev_b32 v2, 2, v2;  v_mov_b32 v3, s8
 *	global_store_b32 v2, v3, s[4:5] offset:64
 * L:	s_load_b32 s6, s[4:5], 0x8 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  s_endpgm */
static const uint32_t P_WHERE[] = {
	0xf4040100, 0xf8000000, 0xb888f817, 0x360200ff, 0x000003ff, 0xbf89fc07,
	0x84078a02, 0x4a040207, 0x30040482, 0x7e060208, 0xdc6a0040, 0x00040302,
	0xf4004182, 0xf8000008, 0xbf89fc07, 0xbf068006, 0xbfa2fffb, 0xbfb00000,
};
/* A workgroup of 32 waves fills a CU; 20 of them half the machine. */
enum { GROUPS = 20, WAVES = 32 * GROUPS, OUT_BYTES = 64 + GROUPS * 4096 };
static uint32_t (*where)[WAVES]; /* of each client */

static uint32_t *groups_start(struct spin *s, struct bo **out, unsigned n)
{
	struct bo_desc d = {.owner = "out",
			    .size = OUT_BYTES,
			    .placement = BO_GTT,
			    .coherence = BO_UNCACHED,
			    .host = true};
	uint32_t *io;

	TRUE(!bo_create(dev.memory, &d, out));
	io = bo_host(*out);
	memset(io, 0xff, OUT_BYTES);
	io[2] = 0;
	spin_code(s, P_WHERE, sizeof(P_WHERE), bo_va(*out), n, 1024);
	return io;
}

static void half_the_machine(void)
{
	unsigned me = __atomic_fetch_add(&common->word[0], 1, __ATOMIC_RELAXED) & 1;
	struct bo *out;
	struct spin s;
	uint32_t *io;

	if (device_client())
		return;
	io = groups_start(&s, &out, GROUPS);
	for (unsigned w = 0; w < WAVES; w++) {
		uint32_t *id = &io[16 + w * 32];

		TRUE(UNTIL(__atomic_load_n(id, __ATOMIC_ACQUIRE) != ~0u));
		where[me][w] = *id;
	}
	announce(me, 1);
	await(2, (int)me + 1);
	spin_release(io);
	TRUE(!spin_end(&s));
	bo_destroy(out);
	device_client_end();
}

/* A third, whose waves would end at once: they wait until there is room. After a second they would run
 * beside the others (cp/place.c): who came to look too late has to begin again. */
static void too_many(void)
{
	struct bo *out;
	struct spin s;
	uint32_t *io;
	bool waits = false;

	if (device_client())
		return;
	for (unsigned tries = 0; !waits && tries < 10; tries++) {
		uint64_t start = now_ns();

		io = groups_start(&s, &out, 1);
		spin_release(io);
		usleep(200000);
		waits = __atomic_load_n(&io[16], __ATOMIC_ACQUIRE) == ~0u;
		TRUE(waits || now_ns() - start > 1000000000u);
		if (waits)
			announce(2, 1); /* one half goes */
		TRUE(!spin_end(&s));
		TRUE(io[16] != ~0u);
		bo_destroy(out);
	}
	TRUE(waits);
	device_client_end();
}

static void machine_filled(pid_t pid[2])
{
	where = mmap(NULL, 2 * sizeof(*where), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	shared_start("");
	pid[0] = client("jit=0", half_the_machine);
	pid[1] = client("jit=0", half_the_machine);
	await(0, 1);
	await(1, 1);
}

/* Waves of two processes fill the machine, no slot twice. */
Test(shared, wave_slots_are_of_the_device)
{
	static uint8_t seen[1u << 19];
	pid_t pid[2];

	machine_filled(pid);
	for (unsigned i = 0; i < 2 * WAVES; i++) {
		uint32_t id = where[i / WAVES][i % WAVES] & ((1u << 19) - 1);

		cr_expect(!seen[id]++, "wave %u: slot 0x%x is another's", i, id);
	}
	cr_expect_eq(shared_number("waves"), 2 * WAVES);
	join_client(client("jit=0", too_many));
	announce(2, 2);
	join_client(pid[0]);
	join_client(pid[1]);
	shared_clean();
	shared_stop();
}

static void beside(void)
{
	uint64_t start;
	struct bo *out;
	struct spin s;

	if (device_client())
		return;
	start = now_ns();
	spin_release(groups_start(&s, &out, 1));
	TRUE(!spin_end(&s));
	TRUE(now_ns() - start > 900000000u);
	bo_destroy(out);
	device_client_end();
}

/* Who is kept from every slot for a second runs beside the others, one of whom is stopped; the slots of
 * the dead are free. */
Test(shared, wave_slots_of_the_stopped_and_the_dead)
{
	pid_t pid[2];
	int status;

	machine_filled(pid);
	kill(pid[0], SIGSTOP);
	join_client(client("jit=0", beside));
	for (unsigned i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], &status, 0);
	}
	shared_clean();
	shared_stop();
}

/* SDMA queues are six, whoever has them. */
static void sdma_queues(void)
{
	struct kfd_ioctl_create_queue_args q;

	acquire();
	for (unsigned i = 0; i < 3; i++) {
		q = queue_args();
		q.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
		WANT(0, CREATE_QUEUE, &q);
	}
	if (!reached(0, 1)) {
		announce(0, 1);
		await(1, 1);
		return;
	}
	WANT(ENOMEM, CREATE_QUEUE, &q);
	announce(1, 1);
}

Test(shared, sdma_queues_are_of_the_device)
{
	pid_t a, b;

	shared_start("");
	a = client("", sdma_queues);
	await(0, 1);
	b = client("", sdma_queues);
	join_client(a);
	join_client(b);
	shared_clean();
	shared_stop();
}

/* ---- the whole device ------------------------------------------------------ */

static void hangs(void)
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d;
	uint32_t hw;

	acquire();
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	await(1, 1);
	d.queue_id = q.queue_id;
	WANT(ETIMEDOUT, DESTROY_QUEUE, &d);
	wait_hw(hw, 1);
}

static void bystander(void)
{
	struct kfd_ioctl_create_queue_args q;
	struct kfd_ioctl_destroy_queue_args d;
	char want[64];
	uint32_t hw;
	int smi;

	acquire();
	smi = smi_stream(PRE | POST | EVICTION | RESTORE);
	hw = event_create(KFD_IOC_EVENT_HW_EXCEPTION, false);
	q = queue_args();
	WANT(0, CREATE_QUEUE, &q);
	announce(1, 1);
	wait_hw(hw, 1);
	TRUE(smi_wait(smi, "4 1 \n"));
	TRUE(!strncmp(smi_got, "3 1 MES hang\n", 13));
	snprintf(want, sizeof(want), " -%d %x 3\n", getpid(), gpu);
	TRUE(strstr(smi_got, "\n9 ") && strstr(smi_got, want));
	TRUE(!strstr(smi_got, "\na "));
	d.queue_id = q.queue_id;
	WANT(0, DESTROY_QUEUE, &d);
}

/* A queue of one process hangs: the reset is everybody's. */
Test(shared, a_reset_is_everybodys)
{
	shared_start("");
	join_two("hang=queue:0", hangs, bystander);
	cr_expect_eq(shared_number("resets"), 1);
	shared_clean();
	shared_stop();
}

/* ---- what a client may have for itself ------------------------------------- */

static void other_size(void)
{
	TRUE(freopen("/dev/null", "w", stderr) != NULL);
	TRUE(open("/dev/kfd", O_RDWR) < 0 && errno == EINVAL);
}

static void own_threads(void)
{
	struct kfd_ioctl_get_clock_counters_args c = {0};

	acquire();
	c.gpu_id = gpu;
	WANT(0, GET_CLOCK_COUNTERS, &c);
	/* One counter for all: later calls read more. */
	TRUE(c.gpu_clock_counter > common->word[0]);
	common->word[0] = c.gpu_clock_counter;
}

/* A child that opens the device is a client by itself; what its parent has is not its. */
static void forks(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a;
	struct kfd_ioctl_free_memory_of_gpu_args f;
	pid_t pid, parent = getpid();
	int status, old;

	acquire();
	a = alloc(30 * MB, GTT);
	pid = fork();
	if (!pid) {
		old = kfd;
		failures = 0;
		f.handle = a.handle;
		WANT(EBADF, FREE_MEMORY_OF_GPU, &f);
		acquire();
		TRUE(kfd != old);
		WANT(EINVAL, FREE_MEMORY_OF_GPU, &f);
		TRUE(available() < 240 * MB); /* its parent's count */
		alloc(20 * MB, GTT);
		TRUE(attribute(parent, "pasid") > 0);
		TRUE(attribute(getpid(), "pasid") > attribute(parent, "pasid"));
		_exit(failures ? 1 : 0);
	}
	TRUE(waitpid(pid, &status, 0) == pid && status == 0);
	TRUE(UNTIL(available() > 225 * MB));
	TRUE(available() < 240 * MB);
	f.handle = a.handle;
	WANT(0, FREE_MEMORY_OF_GPU, &f);
}

Test(shared, a_forked_child_is_another_client)
{
	shared_start("gtt=256M");
	join_client(client("", forks));
	cr_expect_eq(shared_number("clients"), 0);
	shared_clean();
	shared_stop();
}

Test(shared, settings_of_device_and_process)
{
	shared_start("cus=32");
	join_client(client("cus=40", other_size));
	join_client(client("cus=32,workers=1", own_threads));
	join_client(client("workers=2", own_threads));
	shared_clean();
	shared_stop();
}
