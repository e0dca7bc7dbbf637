/* The command processor: PM4 and SDMA queues, the deterministic mode, processes that fork, machines
 * without userfaultfd. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vgpu_cp_client.h"

#include "cp/internal.h"

/* ---- other queues -------------------------------------------------------- */

TestSuite(vgpu_cp_other, .init = open_device, .timeout = 600);

static void other(enum cp_queue_type type)
{
	mqd.type = type;
	mqd.rptr = gva(PAGE + 0x80);
	mqd.wptr = gva(PAGE + 0x38);
	memset(page, 0, 4096);
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
}

static void put(const uint32_t *w, unsigned dwords, unsigned unit)
{
	uint64_t at = U64(0x38) * unit / 4;

	for (unsigned i = 0; i < dwords; i++)
		((uint32_t *)ring)[(at + i) % (RING_BYTES / 4)] = w[i];
	__atomic_store_n(&U64(0x38), U64(0x38) + dwords * 4 / unit, __ATOMIC_RELEASE);
	ring_bell(U64(0x38));
}

#define PKT3(op, n) (0xc0000000u | ((n) - 2u) << 16 | (op) << 8 | 2)

Test(vgpu_cp_other, pm4)
{
	uint64_t k = KERNEL(P_COUNT) + 256;
	uint32_t ib[] = {
		PKT3(0x76, 5),
		0x207,
		64,
		1,
		1, /* NUM_THREAD */
		PKT3(0x76, 4),
		0x20c,
		(uint32_t)(k >> 8),
		0, /* PGM */
		PKT3(0x76, 4),
		0x212,
		1 | 0xc0u << 12,
		2 << 1 | 1 << 7, /* RSRC1, 2 */
		PKT3(0x76, 4),
		0x240,
		ARGS,
		0, /* USER_DATA */
		PKT3(0x15, 5),
		256,
		1,
		1,
		0x8021, /* 256 threads */
		PKT3(0x10, 2),
		0,
	};
	uint32_t stream[] = {
		PKT3(0x58, 8),
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		PKT3(0x37, 5),
		5u << 8 | 1u << 20,
		DATA + 64,
		0,
		0x1234,
		PKT3(0x3f, 4),
		ARGS + 1024,
		0,
		sizeof(ib) / 4,
		0xffff1000u, /* one-dword NOP */
		PKT3(0x3c, 7),
		1u << 4 | 3,
		DATA + 128,
		0,
		1,
		0xffffffff,
		4,
		PKT3(0x3c, 7), /* flushes the HDP: written to the one, waited for in the other */
		1u << 6 | 3,
		0xe26,
		0xe27,
		0xffffffff,
		0xffffffff,
		4,
		PKT3(0x49, 8),
		0x514,
		2u << 24 | 1u << 29,
		DATA + 32,
		0,
		77,
		0,
		11,
	};

	other(CP_PM4);
	kernargs(DATA, 0);
	memcpy(args + 1024, ib, sizeof(ib));
	put(stream, sizeof(stream) / 4, 4);
	cr_assert(WAIT_FOR(data[0] == 256), "the dispatch runs, the stream waits behind it");
	cr_assert_eq(data[16], 0x1234);
	usleep(10000);
	cr_assert_eq(data[8], 0, "WAIT_REG_MEM holds");
	__atomic_store_n(&data[32], 1, __ATOMIC_RELEASE);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 11);
	cr_assert_eq(data[8], 77);
	cr_assert_eq(U32(0x80), sizeof(stream) / 4, "read pointer in dwords, before the interrupt");
	/* Around the ring's end. */
	for (unsigned i = 0; i < 400; i++) {
		uint32_t w[] = {PKT3(0x37, 5), 5u << 8, DATA + 256, 0, i};

		cr_assert(WAIT_FOR((U64(0x38) - U32(0x80)) % (RING_BYTES / 4) < 1000));
		put(w, 5, 4);
	}
	cr_assert(WAIT_FOR(data[64] == 399));
	put((uint32_t[]){PKT3(0x77, 2), 0}, 2, 4);
	cr_assert_eq(irq(1)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(1)->code, 20);
	stop();
}

/* Of registers there is no other to wait for, and the flush's two in that order. */
static void refused_wait(uint32_t how, uint32_t a, uint32_t b)
{
	other(CP_PM4);
	put((uint32_t[]){PKT3(0x3c, 7), how, a, b, 1, 1, 4}, 7, 4);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	stop();
}

Test(vgpu_cp_other, pm4_other_registers)
{
	refused_wait(1u << 6 | 3, 0xe27, 0xe26);
}

Test(vgpu_cp_other, pm4_flush_not_asked_for)
{
	refused_wait(3, 0xe26, 0xe27);
}

Test(vgpu_cp_other, sdma)
{
	uint32_t stream[] = {
		0, /* NOP */
		2,
		DATA,
		0,
		1,
		0xaaaa,
		0xbbbb, /* WRITE 2 dwords */
		11 | 2u << 30,
		DATA + 64,
		0,
		0x01020304,
		63, /* CONST_FILL */
		1,
		4095,
		0,
		DATA,
		0,
		DATA + 8192,
		0, /* COPY 4 KiB */
		13 | 2u << 8,
		DATA + 16384,
		0, /* TIMESTAMP */
		8 | 3u << 28 | 1u << 31,
		DATA + 16392,
		0,
		5,
		0xffffffff,
		0, /* POLL == 5 */
		17,
		0,
		0,
		0,
		0, /* GCR */
		10 | 47u << 25,
		PAGE + 0x308,
		0,
		0xffffffff,
		0xffffffff,
		0,
		0,
		0, /* ADD -1 */
		5,
		DATA + 16400,
		0,
		99, /* FENCE */
		6,
		12, /* TRAP */
	};

	other(CP_SDMA);
	sig(0, 1);
	put(stream, sizeof(stream) / 4, 1);
	cr_assert(WAIT_FOR(data[4096] != 0));
	cr_assert_eq(data[2048], 0xaaaa);
	cr_assert_eq(data[2049], 0xbbbb);
	cr_assert_eq(data[2048 + 16], 0x01020304);
	cr_assert_eq(data[2048 + 31], 0x01020304);
	cr_assert_eq(data[2048 + 32], 0);
	cr_assert_eq(value(0), 1, "POLL_REGMEM holds");
	__atomic_store_n(&data[4098], 5, __ATOMIC_RELEASE);
	cr_assert_eq(irq(0)->event_id, 12);
	cr_assert_eq(value(0), 0);
	cr_assert_eq(data[4100], 99);
	cr_assert_eq(U64(0x80), sizeof(stream), "read pointer in bytes, before the trap");
	put((uint32_t[]){1, 63, 0, 0x99000000, 0, DATA, 0}, 7, 1);
	cr_assert_eq(irq(1)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(1)->fault.client, VM_CLIENT_SDMA0);
	stop();
}

/* Both engines compare with the same seven functions; the eighth is an error of the packet. */
static void polls(enum cp_queue_type type)
{
	static const struct {
		uint32_t holds, passes; /* against 5; equal: nothing holds it */
	} f[] = {{9, 9}, {5, 4}, {6, 5}, {4, 5}, {5, 4}, {4, 5}, {5, 6}};
	unsigned unit = type == CP_SDMA ? 1 : 4;

	other(type);
	for (uint32_t i = 0; i <= 7; i++) {
		uint32_t pm4[] = {PKT3(0x3c, 7), 1u << 4 | i, DATA + 128, 0, 5,    0xff, 4,
				  PKT3(0x37, 5), 5u << 8,     DATA + 256, 0, i + 1};
		uint32_t sdma[] = {8 | i << 28 | 1u << 31,
				   DATA + 128,
				   0,
				   5,
				   0xff,
				   0,
				   2,
				   DATA + 256,
				   0,
				   0,
				   i + 1};

		/* Above the mask nothing counts. */
		__atomic_store_n(&data[32], (i < 7 ? f[i].holds : 5) | 0x100, __ATOMIC_RELEASE);
		if (type == CP_SDMA)
			put(sdma, sizeof(sdma) / 4, unit);
		else
			put(pm4, sizeof(pm4) / 4, unit);
		if (i == 7)
			break;
		if (f[i].holds != f[i].passes) {
			usleep(5000);
			cr_assert_eq(data[64], i, "function %u holds", i);
			__atomic_store_n(&data[32], f[i].passes | 0x200, __ATOMIC_RELEASE);
		}
		cr_assert(WAIT_FOR(data[64] == i + 1), "function %u passes", i);
	}
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(data[64], 7);
	stop();
}

Test(vgpu_cp_other, pm4_polls)
{
	polls(CP_PM4);
}

Test(vgpu_cp_other, sdma_polls)
{
	polls(CP_SDMA);
}

Test(vgpu_cp_other, deterministic_mode)
{
	struct packet p = packet(0, 32 * 100, 32, 0);

	vgpu_config.deterministic = true;
	vgpu_config.seed = 5;
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
	p.kernel = KERNEL(P_GRID);
	p.signal = sig(0, 1);
	kernargs(DATA, 100);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[1], 100);
	stop();
}

/* From here on this process is refused userfaultfd(2), as in many containers. */
static void refuse_userfaultfd(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		/* Nor by its device file. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xaa00 /* USERFAULTFD_IOC_NEW */, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(f) / sizeof(*f), f};

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	cr_assert_eq(syscall(SYS_userfaultfd, 0), -1);
	cr_assert_eq(errno, EPERM);
}

Test(vgpu_cp_other, without_userfaultfd_doorbells_are_polled)
{
	struct packet p = packet(0, 64, 64, 0);
	double t;

	refuse_userfaultfd();
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
	p.kernel = KERNEL(P_COUNT);
	kernargs(DATA, 0);
	for (unsigned i = 0; i < 20; i++) {
		p.signal = sig(0, 1);
		submit(&p);
		cr_assert(WAIT_FOR(value(0) == 0));
		usleep(i * 500);
	}
	cr_assert_eq(data[0], 20 * 64);
	t = idle_cost(1000000, 0.015);
	cr_assert_lt(t, 0.015, "an idle second of polling cost %.4f s", t);
	stop();
}

Test(vgpu_cp_other, a_forked_child_starts_its_own)
{
	int status;
	pid_t pid;

	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	pthread_create(&irq_thread, NULL, collect, NULL);
	pid = fork();
	if (!pid) {
		struct packet p = packet(0, 64, 64, 0);

		code_used = 0;
		next_packet = 0;
		open_device();
		if (cp_queue_create(&mqd, bells, &queue) || cp_queue_map(queue))
			_exit(2);
		p.kernel = KERNEL(P_COUNT);
		p.signal = sig(0, 1);
		kernargs(DATA, 0);
		submit(&p);
		_exit(WAIT_FOR(value(0) == 0) && data[0] == 64 ? 0 : 3);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	stop();
}

/* Who waits for the read pointer alone finds what was copied. */
Test(vgpu_cp_other, sdma_copies_before_the_read_pointer)
{
	enum { BYTES = 256 << 10, FROM = DATA, TO = DATA + (512 << 10) };
	const uint32_t copy[] = {1, BYTES - 1, 0, FROM, 0, TO, 0};
	volatile uint32_t *last = &data[(512 << 10) / 4 + BYTES / 4 - 1];

	other(CP_SDMA);
	for (uint32_t i = 1; i <= 200; i++) {
		data[BYTES / 4 - 1] = i;
		put(copy, 7, 1);
		while (__atomic_load_n(&U64(0x80), __ATOMIC_ACQUIRE) != i * sizeof(copy))
			;
		cr_assert_eq(*last, i);
	}
	stop();
}

/* Who sees the read pointer or what a packet did, and leaves, leaves with the packet counted. */
static void counted(enum cp_queue_type type, const uint32_t *w, unsigned dwords)
{
	time_t start = time(NULL);
	uint32_t p[8];
	struct cp_stats s;

	other(type);
	memcpy(p, w, dwords * 4);
	/* Thousands of rounds are a moment, unless threads are made late; then a few tell. */
	for (uint32_t i = 1; i <= 4000 && (i <= 50 || time(NULL) - start < 4); i++) {
		uint32_t was = U32(0x80);

		p[dwords - 1] = i;
		put(p, dwords, type == CP_PM4 ? 4 : 1);
		while (__atomic_load_n(&U32(0x80), __ATOMIC_ACQUIRE) == was)
			;
		cp_stats(&s);
		cr_assert_eq(s.packets, i);
		while (__atomic_load_n(&data[0], __ATOMIC_ACQUIRE) != i)
			;
	}
	stop();
}

Test(vgpu_cp_other, sdma_counts_first)
{
	counted(CP_SDMA, (uint32_t[]){5, DATA, 0, 0}, 4); /* FENCE */
}

Test(vgpu_cp_other, pm4_counts_first)
{
	counted(CP_PM4, (uint32_t[]){PKT3(0x37, 5), 5u << 8 | 1u << 20, DATA, 0, 0}, 5);
}

/* ---- interrupts ------------------------------------------------------------ */

static void *serve_one(void *arg)
{
	struct cp_irq irq;

	cp_irq_next(&irq);
	cp_irq_next(&irq); /* which says that the first one is served; none follows */
	return arg;
}

/* Whoever ends waits for interrupts that nobody has taken, and for the one being served. */
Test(vgpu_cp_other, drained_when_all_are_served)
{
	const uint64_t some = 5000000, long_enough = 60000000000u;
	struct cp_irq irq = {.kind = CP_IRQ_EVENT};
	pthread_t t;

	cr_assert(cp_irq_drain(0), "nothing was posted");
	cp_irq_post(&irq);
	cr_assert_not(cp_irq_drain(some), "nobody takes it");
	cr_assert(cp_irq_next(&irq));
	cr_assert_not(cp_irq_drain(some), "it is still being served");
	cp_irq_post(&irq);
	pthread_create(&t, NULL, serve_one, NULL);
	cr_assert(cp_irq_drain(long_enough));
	cp_irq_close();
	pthread_join(t, NULL);
	cp_irq_open();
}

/* ---- kicks ----------------------------------------------------------------- */

static bool kicking;

static void *kick_on(void *arg)
{
	(void)arg;
	while (__atomic_load_n(&kicking, __ATOMIC_RELAXED))
		cp_kick();
	return NULL;
}

/* No kick is lost, however many come at once: the last is that of cp_stop(), which waits for the
 * thread it woke. */
Test(vgpu_cp_other, every_kick_wakes)
{
	pthread_t t[3];

	for (unsigned round = 0; round < 200; round++) {
		kicking = true;
		for (unsigned i = 0; i < 3; i++)
			pthread_create(&t[i], NULL, kick_on, NULL);
		usleep(500);
		__atomic_store_n(&kicking, false, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < 3; i++)
			pthread_join(t[i], NULL);
		usleep(200); /* asleep again */
		cp_stop();
		cr_assert_eq(cp_start(1), 0);
	}
}
