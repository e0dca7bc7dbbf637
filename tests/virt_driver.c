/* The driver on the (virtual) device: bring-up, buffers, queue, signals, packets, and
 * nothing left behind. Each test is a process of its own. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/virt_device.h"

/* ---- bring-up ---- */

Test(driver, bring_up)
{
	const struct topology_node *n;
	struct kfd_clocks a, b;

	open_device();
	n = kfd_node(dev.kfd);
	cr_expect_eq(n->gfx_target_version, 110501);
	cr_expect(kfd_minor(dev.kfd) >= 17);
	cr_expect_eq(kfd_apertures(dev.kfd)->lds_base, 0x1000000000000);
	cr_expect_eq(kfd_apertures(dev.kfd)->scratch_base, 0x2000000000000);
	cr_expect(queue_plan_of(dev.queue)->from_topology);
	cr_expect(queue_traps_reported(dev.queue));
	cr_expect_not(queue_plan_of(dev.queue)->formula_disagrees);
	cr_assert_eq(kfd_clocks_get(dev.kfd, &a), 0);
	cr_assert_eq(kfd_clocks_get(dev.kfd, &b), 0);
	cr_expect(b.gpu >= a.gpu && b.cpu_ns >= a.cpu_ns && a.system_hz == 1000000000);
	close_device();
	cr_expect_null(dev.kfd);
}

Test(driver, no_device)
{
	struct bw_device_opts o = {.kfd = {.device = "/dev/no-such-kfd"}};
	char why[512] = "";

	cr_expect_eq(bw_device_open(&o, &dev, why, sizeof(why)), -ENOENT);
	cr_expect_str_eq(why, "no compute device: /dev/no-such-kfd does not exist");
	o.kfd.device = "/dev/null";
	cr_expect_eq(bw_device_open(&o, &dev, why, sizeof(why)), -ENOTTY);
	cr_expect(strstr(why, "/dev/null is not a KFD device"), "%s", why);
	o.kfd.device = NULL;
	o.kfd.gpu_id = 1;
	cr_expect_eq(bw_device_open(&o, &dev, why, sizeof(why)), -ENODEV);
	cr_expect_null(dev.kfd);
}

/* Everything but the event page, which the kernel keeps, is given back; the kernel's own counters
 * say so. AVAILABLE_MEMORY is the least of three limits and may not show the page at all. */
Test(driver, reopen_and_memory_returned)
{
	struct bw_device_opts o = {.no_queue = true};
	struct kfd_heaps before, during, after;
	uint64_t free_before, free_after, tables = 0;
	char why[512] = "";

	cr_assert_eq(bw_device_open(&o, &dev, why, sizeof(why)), 0, "%s", why);
	free_before = dev.available_at_open;
	cr_assert(free_before > 0);
	cr_assert_eq(kfd_heaps_get(dev.kfd, &before), 0, "%s", kfd_reason());
	close_device();
	for (int i = 0; i < 3; i++) {
		open_device();
		cr_assert_eq(kfd_heaps_get(dev.kfd, &during), 0);
		cr_expect(during.gtt_used - before.gtt_used > queue_plan_of(dev.queue)->area_bytes);
		/* The process keeps its address space, and with it tables for parts of 2 MiB: not
		 * one more the next time. */
		cr_expect_gt(during.vram_used, before.vram_used);
		if (i)
			cr_expect_eq(during.vram_used, tables);
		tables = during.vram_used;
		close_device();
	}
	cr_assert_eq(bw_device_open(&o, &dev, why, sizeof(why)), 0, "%s", why);
	free_after = dev.available_at_open;
	cr_assert_eq(kfd_heaps_get(dev.kfd, &after), 0);
	cr_expect(free_before - free_after <= KFD_EVENT_PAGE_BYTES, "%llu bytes lost",
		  (unsigned long long)(free_before - free_after));
	/* and MES's page of the process */
	cr_expect_eq(after.gtt_used - before.gtt_used, KFD_EVENT_PAGE_BYTES + 4096);
	cr_expect_eq(after.vram_used, tables);
	close_device();
}

Test(driver, fork_starts_anew)
{
	int status;
	pid_t pid;

	open_device();
	pid = fork();
	cr_assert(pid >= 0);
	if (pid == 0) {
		struct bw_device child;
		uint64_t bytes;
		char why[512] = "";

		if (kfd_memory_available(dev.kfd, &bytes) != -EBADF)
			_exit(1);
		if (bw_device_open(NULL, &child, why, sizeof(why)) < 0) {
			dprintf(2, "child: %s\n", why);
			_exit(2);
		}
		_exit(bw_device_close(&child, NULL) == 0 ? 0 : 3);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child gave %d",
		  WEXITSTATUS(status));
	close_device();
}

/* What the counters at exit look like then: e2e_run reads them. */
Test(driver, leaves_all_behind)
{
	struct bo *b;

	open_device();
	cr_assert_eq(bo_create(dev.memory, &(struct bo_desc){.owner = "left", .size = 8192}, &b),
		     0);
}

/* ---- buffers ---- */

Test(bo, kinds_and_accounts)
{
	struct bo_desc d[] = {
		{.owner = "weights", .size = 5000, .placement = BO_VRAM, .host = true},
		{.owner = "kv",
		 .size = 1 << 20,
		 .align = 2 << 20,
		 .coherence = BO_FINE,
		 .host = true},
		{.owner = "code",
		 .size = 4096,
		 .executable = true,
		 .coherence = BO_UNCACHED,
		 .host = true},
		{.owner = "kv", .size = 3 << 20, .readonly = true},
	};
	struct bo *bo[4];
	struct memory_usage u[8];
	struct ledger_record r[64];
	uint64_t base, n, live;

	open_device();
	live = memory_live(dev.memory);
	base = memory_ledger(dev.memory, 0, NULL, 0);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(bo_create(dev.memory, &d[i], &bo[i]), 0, "%s", kfd_reason());
	cr_expect_eq(bo_size(bo[0]), 8192);
	cr_expect_eq(bo_va(bo[1]) & ((2 << 20) - 1), 0);
	cr_expect_null(bo_host(bo[3]));
	for (int i = 0; i < 3; i++) {
		unsigned char *p = bo_host(bo[i]);

		cr_assert_eq((uintptr_t)p, bo_va(bo[i]));
		cr_expect_eq(p[0] | p[bo_size(bo[i]) - 1], 0, "fresh memory is not zero");
		memset(p, 0x11 * (i + 1), bo_size(bo[i]));
	}
	cr_expect_eq(((unsigned char *)bo_host(bo[0]))[8191], 0x11);
	cr_expect_eq(memory_live(dev.memory) - live, 8192 + (1 << 20) + 4096 + (3 << 20));
	n = memory_usage(dev.memory, u, 8);
	for (uint64_t i = 0; i < n && i < 8; i++)
		if (!strcmp(u[i].owner, "kv"))
			cr_expect(u[i].live == 4 << 20 && u[i].count == 2);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(bo_destroy(bo[i]), 0, "%s", kfd_reason());
	cr_expect_eq(memory_live(dev.memory), live);
	n = memory_ledger(dev.memory, base, r, 64);
	cr_assert_eq(n - base, 16, "alloc, map, unmap, free of four");
	cr_expect_eq(r[0].kind, LEDGER_ALLOC);
	cr_expect_eq(r[1].kind, LEDGER_MAP);
	cr_expect_eq(r[15].kind, LEDGER_FREE);
	cr_expect_str_eq(r[15].owner, "kv");
	close_device();
}

Test(bo, who_lived_there)
{
	struct bo_desc d = {.owner = "first", .size = 65536};
	struct ledger_hit h;
	struct bo *a, *b;
	uint64_t va;

	open_device();
	cr_assert_eq(bo_create(dev.memory, &d, &a), 0);
	va = bo_va(a);
	cr_assert(memory_who(dev.memory, va + 0x1234, &h));
	cr_expect(h.alive && h.offset == 0x1234 && !strcmp(h.owner, "first"));
	bo_destroy(a);
	cr_assert(memory_who(dev.memory, va + 0x1234, &h));
	cr_expect(!h.alive && !strcmp(h.owner, "first"), "forgot the dead buffer");
	d.owner = "second", d.va = va, d.size = 4096;
	cr_assert_eq(bo_create(dev.memory, &d, &b), 0, "%s", kfd_reason());
	cr_expect_eq(bo_va(b), va);
	cr_assert(memory_who(dev.memory, va, &h));
	cr_expect(h.alive && !strcmp(h.owner, "second"));
	cr_assert(memory_who(dev.memory, va + 4096, &h));
	cr_expect(!h.alive && !strcmp(h.owner, "first"));
	cr_assert(memory_near(dev.memory, va + 65536 + 8192, &h));
	cr_expect_eq(h.offset - h.size, 8192);
	cr_expect_not(memory_who(dev.memory, 0x1000, &h));
	cr_expect_not(memory_near(dev.memory, 0x1000, &h));
	bo_destroy(b);
	close_device();
}

Test(bo, refusals)
{
	struct bo *none = (void *)1, *a;
	struct bo_desc d = {.owner = "x", .size = 4096, .align = 3};

	open_device();
	cr_expect_eq(bo_create(dev.memory, &d, &none), -EINVAL);
	cr_expect(strstr(kfd_reason(), "power of two"), "%s", kfd_reason());
	d.align = 0, d.size = 0;
	cr_expect_eq(bo_create(dev.memory, &d, &none), -EINVAL);
	d.size = 4096, d.owner = NULL;
	cr_expect_eq(bo_create(dev.memory, &d, &none), -EINVAL);
	d.owner = "x", d.va = 0x1000;
	cr_expect_eq(bo_create(dev.memory, &d, &none), -ERANGE);
	d.va = 0;
	cr_assert_eq(bo_create(dev.memory, &d, &a), 0);
	d.va = bo_va(a);
	cr_expect_eq(bo_create(dev.memory, &d, &none), -EADDRINUSE);
	/* More than there can be: refused by the kernel, with its limits named, and nothing kept.
	 */
	d.va = 0, d.size = 1ull << 39;
	cr_expect_eq(bo_create(dev.memory, &d, &none), -ENOMEM);
	cr_expect(strstr(kfd_reason(), "ALLOC_MEMORY_OF_GPU refused (ENOMEM)"), "%s", kfd_reason());
	cr_expect_eq(none, (void *)1);
	cr_expect_eq(memory_live_count(dev.memory), 1 + 5, "queue's four, trap handler, ours");
	bo_destroy(a);
	close_device();
}

Test(bo, alive_at_close)
{
	struct bo_desc d = {.owner = "leak", .size = 4096};
	struct bw_teardown left;
	struct bo *a;

	open_device();
	cr_assert_eq(bo_create(dev.memory, &d, &a), 0);
	cr_expect_eq(bw_device_close(&dev, &left), -EBUSY);
	cr_expect_eq(left.bos, 1);
	cr_expect_eq(left.bytes, 4096);
	cr_assert_not_null(dev.memory, "the device went away under a live buffer");
	cr_expect_eq(bo_destroy(a), 0);
	close_device();
}

Test(bo, userptr)
{
	struct bo_desc d = {.owner = "user", .size = 8192, .placement = BO_USERPTR};
	struct bo *a;

	open_device();
	d.userptr = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_eq(bo_create(dev.memory, &d, &a), 0, "%s", kfd_reason());
	cr_expect_eq(bo_va(a), (uintptr_t)d.userptr);
	cr_expect_eq(bo_host(a), d.userptr);
	cr_expect_eq(bo_destroy(a), 0);
	d.userptr = (char *)d.userptr + 1;
	cr_expect_eq(bo_create(dev.memory, &d, &a), -EINVAL);
	close_device();
}

/* ---- queues and signals ---- */

Test(queue, several)
{
	struct queue *q[8];
	struct queue_opts o = {.ring_packets = 64};

	open_device();
	for (int i = 0; i < 8; i++) {
		cr_assert_eq(queue_create(dev.kfd, dev.memory, &o, &q[i]), 0, "%s", kfd_reason());
		for (int j = 0; j < i; j++)
			cr_expect_neq(queue_id(q[i]), queue_id(q[j]));
		cr_expect_neq(q[i]->doorbell, dev.queue->doorbell);
	}
	cr_expect(kernel_queues() == 9 || kernel_queues() == -1);
	/* The kernel holds a live queue's buffers. */
	cr_expect_eq(bo_destroy(q[3]->ring_bo), -EBUSY);
	cr_expect(strstr(kfd_reason(), "queue uses"), "%s", kfd_reason());
	for (int i = 0; i < 8; i++)
		cr_assert_eq(queue_destroy(q[i]), 0, "%s", kfd_reason());
	close_device();
}

Test(queue, refused_with_reason)
{
	struct queue_opts o = {.ring_packets = 100};
	struct queue *q = NULL;

	open_device();
	cr_expect_eq(queue_create(dev.kfd, dev.memory, &o, &q), -EINVAL);
	cr_expect(strstr(kfd_reason(), "ring_packets 100"), "%s", kfd_reason());
	o.ring_packets = 64, o.priority = 16;
	cr_expect_eq(queue_create(dev.kfd, dev.memory, &o, &q), -EINVAL);
	cr_expect_null(q);
	cr_expect_eq(memory_live_count(dev.memory), 5);
	close_device();
}

Test(signal, create_wait_destroy)
{
	struct signal *s[130];
	struct timespec a, b;

	open_device();
	for (int i = 0; i < 130; i++)
		cr_assert_eq(signal_create(dev.queue, i, &s[i]), 0, "%s", kfd_reason());
	for (int i = 0; i < 130; i++)
		cr_expect_eq(signal_load(s[i]), i);
	cr_expect_eq(signal_wait(dev.queue, s[0], 1, 0, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	cr_expect_eq(signal_wait(dev.queue, s[1], 1, 30000000, &fault), -ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &b);
	cr_expect((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 30000000);
	signal_set(s[1], 0);
	cr_expect_eq(signal_wait(dev.queue, s[1], 1, 1, NULL), 0);
	for (int i = 0; i < 130; i++)
		signal_destroy(s[i]);
	close_device();
}

Test(queue, barrier_packets_wrap_the_ring)
{
	struct queue_opts o = {.ring_packets = 64};
	struct queue_batch b;
	struct queue *q;
	struct signal *s;

	open_device();
	cr_assert_eq(queue_create(dev.kfd, dev.memory, &o, &q), 0, "%s", kfd_reason());
	cr_assert_eq(signal_create(q, 0, &s), 0);
	for (int i = 0; i < 10; i++) {
		signal_set(s, 1);
		cr_assert_eq(queue_begin(q, 50, &b), 0);
		for (int k = 0; k < 49; k++)
			queue_barrier(&b, NULL, NULL);
		queue_barrier(&b, NULL, s);
		/* Nothing runs before commit. */
		cr_expect_eq(q->ring[(b.next - 1) & q->mask].barrier.header, AQL_INVALID);
		queue_commit(&b);
		cr_assert_eq(signal_wait(q, s, 1, PATIENCE, &fault), 0, "%s", fault.text);
	}
	cr_expect_eq(queue_write_index(q), 500);
	cr_expect(queue_idle(q));
	cr_expect_eq(queue_begin(q, 65, &b), -ENOSPC);
	signal_destroy(s);
	cr_assert_eq(queue_destroy(q), 0);
	close_device();
}

Test(queue, full_ring)
{
	struct queue_opts o = {.ring_packets = 64};
	struct signal *gate, *s;
	struct queue_batch b;
	struct queue *q;

	open_device();
	cr_assert_eq(queue_create(dev.kfd, dev.memory, &o, &q), 0);
	cr_assert_eq(signal_create(q, 1, &gate), 0);
	cr_assert_eq(signal_create(q, 1, &s), 0);
	cr_assert_eq(queue_begin(q, 64, &b), 0);
	queue_barrier(&b, (struct signal *[5]){gate}, NULL);
	for (int k = 0; k < 62; k++)
		queue_barrier(&b, NULL, NULL);
	queue_barrier(&b, NULL, s);
	queue_commit(&b);
	cr_expect_eq(queue_begin(q, 1, &b), -ENOSPC, "a full ring gave a slot");
	cr_expect_eq(signal_wait(q, s, 1, 20000000, &fault), -ETIMEDOUT, "ran past its dependency");
	signal_set(gate, 0);
	cr_assert_eq(signal_wait(q, s, 1, PATIENCE, &fault), 0, "%s", fault.text);
	cr_expect_eq(queue_begin(q, 64, &b), 0);
	signal_destroy(s);
	signal_destroy(gate);
	cr_assert_eq(queue_destroy(q), 0);
	close_device();
}

struct waiter {
	struct queue *q;
	struct signal *s;
	int rc;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->rc = signal_wait(w->q, w->s, 1, PATIENCE, NULL);
	return NULL;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Four threads wait for a signal. How long it took them to hear of it, ns; *cpu: what 100 ms of waiting
 * cost, the device's own threads included. The least of some: who had no core for a while still has to go
 * to sleep when the first begins. */
static uint64_t four_wait(uint64_t *cpu)
{
	struct signal *gate, *s;
	struct queue_batch b;
	struct waiter w[4];
	pthread_t t[4];
	uint64_t set;

	cr_assert_eq(signal_create(dev.queue, 1, &gate), 0);
	cr_assert_eq(signal_create(dev.queue, 1, &s), 0);
	cr_assert_eq(queue_begin(dev.queue, 1, &b), 0);
	queue_barrier(&b, (struct signal *[5]){gate}, s);
	queue_commit(&b);
	for (int i = 0; i < 4; i++) {
		w[i] = (struct waiter){dev.queue, s, 1};
		cr_assert_eq(pthread_create(&t[i], NULL, wait_thread, &w[i]), 0);
	}
	usleep(50000);
	*cpu = ~0ull;
	for (int i = 0; i < 10 && *cpu >= 50000000; i++) {
		uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

		usleep(100000);
		used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used;
		if (used < *cpu)
			*cpu = used;
	}
	set = clock_ns(CLOCK_MONOTONIC);
	signal_set(gate, 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		cr_expect_eq(w[i].rc, 0);
	}
	set = clock_ns(CLOCK_MONOTONIC) - set;
	signal_destroy(s);
	signal_destroy(gate);
	return set;
}

/* Several threads wait for one signal: the interrupt wakes all of them, at once, and the waiting
 * costs nothing. */
Test(signal, many_waiters)
{
	unsigned woken = 0, late = 0;
	uint64_t cpu, took;

	open_device();
	while (woken < 5 + 3 * late && late < 10) {
		took = four_wait(&cpu);
		cr_expect(cpu < 50000000, "%llu us of CPU in 100 ms of waiting",
			  (unsigned long long)cpu / 1000);
		/* Sooner than the once-a-second look around: the interrupt did it. On a busy machine
		 * a thread may be that late, but not often. */
		if (took < 500000000)
			woken++;
		else
			late++;
	}
	cr_expect_lt(late, 10, "late %u times of %u, at last %llu us", late, late + woken,
		     (unsigned long long)took / 1000);
	close_device();
}

/* ---- the remaining calls ---- */

Test(kfd, queue_update_and_wave_state)
{
	struct kfd_wave_state w = {0};
	struct queue *q;

	open_device();
	q = dev.queue;
	cr_expect_eq(kfd_queue_wave_state(dev.kfd, queue_id(q), &w, NULL, NULL), -EINVAL);
	cr_expect(strstr(kfd_reason(), "queue_percentage 0"), "%s", kfd_reason());
	cr_assert_eq(kfd_queue_update(dev.kfd, queue_id(q), bo_va(q->ring_bo),
				      (uint32_t)q->plan.ring_bytes, 0, 7),
		     0, "%s", kfd_reason());
	cr_assert_eq(kfd_queue_wave_state(dev.kfd, queue_id(q), &w, NULL, NULL), 0, "%s",
		     kfd_reason());
	/* An idle queue has saved nothing: both stacks start at the end of the control stack. */
	cr_expect_eq(w.control_stack_size, 0);
	cr_expect_eq(w.wave_state_size, 0);
	cr_expect_eq(w.wave_state_offset, q->plan.ctl_stack_bytes);
	cr_assert_eq(kfd_queue_update(dev.kfd, queue_id(q), bo_va(q->ring_bo),
				      (uint32_t)q->plan.ring_bytes, 100, 7),
		     0);
	cr_expect_eq(kfd_queue_update(dev.kfd, queue_id(q), bo_va(q->ring_bo), 3000, 100, 7),
		     -EINVAL);
	cr_expect(strstr(kfd_reason(), "ring_size is 3000"), "%s", kfd_reason());
	cr_expect_eq(kfd_queue_update(dev.kfd, 999, 0, 4096, 100, 7), -EFAULT);
	cr_expect_eq(kfd_queue_destroy(dev.kfd, 999, NULL), -EINVAL);
	cr_expect(strstr(kfd_reason(), "queue_id is 999"), "%s", kfd_reason());
	close_device();
}

Test(kfd, events)
{
	struct kfd_event e, m;
	struct kfd_event_data d = {0};

	open_device();
	cr_assert_eq(kfd_event_create(dev.kfd, KFD_IOC_EVENT_SIGNAL, true, &e), 0);
	cr_expect(e.id > 0 && e.id < 4096 && e.slot == e.id);
	cr_expect_eq(*e.mailbox, ~0ull);
	d.event_id = e.id;
	cr_expect_eq(kfd_events_wait(dev.kfd, &d, 1, true, 0, NULL), 1);
	cr_assert_eq(kfd_event_set(dev.kfd, e.id), 0);
	cr_expect_eq(kfd_events_wait(dev.kfd, &d, 1, true, 1000, NULL), 0);
	cr_expect_eq(kfd_events_wait(dev.kfd, &d, 1, true, 0, NULL), 1, "auto-reset did not");
	/* The age catches what auto-reset took away. */
	d.last_event_age = 1;
	cr_expect_eq(kfd_events_wait(dev.kfd, &d, 1, true, 1000, NULL), 0);
	cr_expect_eq(d.last_event_age, 2);
	cr_assert_eq(kfd_event_set(dev.kfd, e.id), 0);
	cr_assert_eq(kfd_event_reset(dev.kfd, e.id), 0);
	cr_assert_eq(kfd_event_create(dev.kfd, KFD_IOC_EVENT_MEMORY, false, &m), 0);
	cr_expect(m.id >= 0x40000000 && !m.mailbox);
	cr_expect_eq(kfd_event_set(dev.kfd, m.id), -EINVAL);
	cr_expect(strstr(kfd_reason(), "not a SIGNAL event"), "%s", kfd_reason());
	cr_assert_eq(kfd_event_destroy(dev.kfd, m.id), 0);
	cr_assert_eq(kfd_event_destroy(dev.kfd, e.id), 0);
	cr_expect_eq(kfd_event_destroy(dev.kfd, e.id), -EINVAL);
	close_device();
}

Test(kfd, order_and_refusals)
{
	uint64_t handle = 0, offset, bytes = 0;
	struct kfd_heaps heaps;

	open_device();
	cr_expect_eq(kfd_runtime_enable(dev.kfd, true), -EBUSY);
	cr_expect_eq(kfd_trap_handler_set(dev.kfd, 0x12345, 0), -EINVAL);
	cr_expect(strstr(kfd_reason(), "256-byte"), "%s", kfd_reason());
	cr_expect_eq(kfd_memory_policy_set(dev.kfd, KFD_IOC_CACHE_POLICY_NONCOHERENT,
					   KFD_IOC_CACHE_POLICY_COHERENT, 0x10000, 0x7ffffffeffff),
		     0);
	cr_expect_eq(kfd_memory_policy_set(dev.kfd, 7, 0, 0, 0), -EINVAL);
	cr_expect_eq(kfd_memory_available(dev.kfd, &bytes), 0);
	cr_expect(bytes > 1 << 30);
	cr_expect_eq(kfd_memory_alloc(dev.kfd, 0x300000000000, 4096, 0, NULL, &handle, &offset),
		     -EINVAL);
	cr_expect(strstr(kfd_reason(), "one of VRAM, GTT"), "%s", kfd_reason());
	cr_expect_eq(handle, 0);
	cr_expect_eq(kfd_memory_free(dev.kfd, 1), -EINVAL);
	cr_assert_eq(kfd_memory_alloc(dev.kfd, 0x300000000000, 4096, KFD_IOC_ALLOC_MEM_FLAGS_GTT,
				      NULL, &handle, &offset),
		     0);
	cr_expect_eq(kfd_memory_unmap(dev.kfd, handle), -EINVAL);
	cr_assert_eq(kfd_memory_map(dev.kfd, handle), 0);
	cr_expect_eq(kfd_memory_free(dev.kfd, handle), -EBUSY);
	cr_expect(strstr(kfd_reason(), "still mapped"), "%s", kfd_reason());
	cr_assert_eq(kfd_memory_unmap(dev.kfd, handle), 0);
	cr_assert_eq(kfd_memory_free(dev.kfd, handle), 0);
	if (kfd_heaps_get(dev.kfd, &heaps) == 0)
		cr_expect(heaps.gtt_total > 0 && heaps.gtt_used <= heaps.gtt_total);
	close_device();
}

Test(kfd, smi_stream)
{
	char text[256];
	int fd;

	open_device();
	fd = kfd_smi_open(dev.kfd, ~0ull >> 1);
	cr_assert(fd >= 0, "%s", kfd_reason());
	cr_expect_eq(read(fd, text, sizeof(text)), -1);
	cr_expect_eq(errno, EAGAIN);
	close(fd);
	close_device();
}
