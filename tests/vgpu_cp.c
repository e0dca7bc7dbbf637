/* The command processor: dispatches, barriers, signals, preemption, and what idling costs. */
#include "vgpu_cp_client.h"

TestSuite(vgpu_cp, .init = start, .fini = stop, .timeout = 600);

/* ---- dispatch ------------------------------------------------------------ */

Test(vgpu_cp, a_dispatch_completes)
{
	struct packet p = packet(KERNEL(P_IDS), 1000, 64, sig(0, 1));
	struct cp_stats st;

	kernargs(DATA, 64);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned i = 0; i < 1000; i++)
		cr_assert_eq(data[i], (i / 64) << 16 | i % 64, "item %u is 0x%x", i, data[i]);
	cr_assert_eq(data[1000], 0, "the last workgroup is cut off at the grid's edge");
	cr_assert_eq(read_index(), 1);
	cr_assert_eq(*(uint16_t *)ring, 1, "a consumed header is INVALID");
	cp_stats(&st);
	cr_assert_eq(st.packets, 1);
	cr_assert_eq(st.dispatches, 1);
	cr_assert_eq(st.groups, 16);
	cr_assert_eq(st.waves, 32, "16 groups of 2, the last one of 40 items");
	cr_assert_eq(st.insns, 32 * 11);
	cr_assert_eq(nirqs, 0, "no mailbox, no interrupt");
}

Test(vgpu_cp, work_item_ids_of_three_dimensions)
{
	struct packet p = packet(KERNEL(P_IDS), 5, 4, sig(0, 1));

	/* 5 x 3 x 2 items in groups of 4 x 2 x 2: the cut-off ones are packed as they are. */
	p.setup = 3;
	p.grid[1] = 3, p.grid[2] = 2;
	p.wg[1] = p.wg[2] = 2;
	kernargs(DATA, 16);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	/* P_IDS stores by x alone: item x of the last lane that has it wins. Group 0,*: x 0..3. */
	for (unsigned x = 0; x < 4; x++)
		cr_assert_eq(data[x] & 0x3ff, x);
	cr_assert_eq(data[16] >> 16 & 15, 1, "group 1 has one column, x 0");
	cr_assert_eq(data[16] & 0x3ff, 0);
	cr_assert_eq(data[17], 0);
	cr_assert_eq(data[0] >> 20 & 0x3ff, 1, "z of the last lane");
}

Test(vgpu_cp, wave64)
{
	struct packet p = packet(kernel_at(P_COUNT, sizeof(P_COUNT), 0, 8), 100, 100, sig(0, 1));
	struct cp_stats st;

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 100);
	cp_stats(&st);
	cr_assert_eq(st.waves, 2);
}

Test(vgpu_cp, barrier_and_lds)
{
	struct packet p = packet(KERNEL(P_BARRIER), 128, 128, sig(0, 1));

	p.group_bytes = 512;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned i = 0; i < 128; i++)
		cr_assert_eq(data[i], 3 * (127 - i));
}

Test(vgpu_cp, many_packets_wrap_the_ring)
{
	uint64_t k = KERNEL(P_COUNT);

	kernargs(DATA, 0);
	sig(0, 500);
	for (unsigned i = 0; i < 500; i++) {
		struct packet p = packet(k, 64, 64, PAGE + SIGNALS);

		if (i % 3)
			p.header &= (uint16_t)~(1u << 8);
		cr_assert(WAIT_FOR(next_packet - read_index() < RING_BYTES / 64));
		submit(&p);
	}
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 500 * 64);
	cr_assert(WAIT_FOR(read_index() == 500));
	for (unsigned i = 0; i < RING_BYTES; i += 64)
		cr_assert_eq(*(uint16_t *)(ring + i), 1);
}

Test(vgpu_cp, one_bell_for_a_batch)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, 0);

	kernargs(DATA, 0);
	/* Mapping looks at the write pointer once: let that be over. */
	p.signal = sig(0, 1);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	p.signal = 0;
	for (unsigned i = 1; i < 10; i++)
		write_packet(i, &p);
	p.signal = sig(0, 1);
	write_packet(10, &p);
	__atomic_store_n(&U64(0x38), 11, __ATOMIC_RELEASE);
	usleep(20000);
	cr_assert_eq(data[0], 64, "nothing starts without a doorbell");
	ring_bell(10);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 11 * 64);
}

Test(vgpu_cp, unwritten_packets_are_waited_for)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, sig(0, 2));

	/* Packet 1 is there and rung first; packet 0's producer is late. */
	kernargs(DATA, 0);
	write_packet(1, &p);
	__atomic_store_n(&U64(0x38), 2, __ATOMIC_RELEASE);
	ring_bell(1);
	usleep(20000);
	cr_assert_eq(value(0), 2);
	write_packet(0, &p);
	cr_assert(WAIT_FOR(value(0) == 0), "the header is polled: no second ring is needed");
	cr_assert_eq(data[0], 128);
}

Test(vgpu_cp, a_grid_may_spin_on_itself)
{
	/* More workgroups than workers, each waiting for all: they must all become resident. */
	struct packet p = packet(KERNEL(P_GRID), 32 * 100, 32, sig(0, 1));

	kernargs(DATA, 100);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 100);
	cr_assert_eq(data[1], 100);
}

Test(vgpu_cp, a_spinning_queue_does_not_stop_another)
{
	struct packet spin = packet(KERNEL(P_SPIN), 32 * 8, 32, sig(0, 1));
	struct packet count = packet(KERNEL(P_COUNT), 64, 64, sig(1, 1));

	/* Without the barrier bit the second dispatch may start while the first one spins. */
	kernargs(DATA, 0);
	count.header &= (uint16_t)~(1u << 8);
	count.kernarg = ARGS + 64;
	*(uint64_t *)(args + 64) = DATA + 4096;
	submit(&spin);
	submit(&count);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(value(0), 1);
	cr_assert_eq(read_index(), 0, "slots come back in order");
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 8 * 32);
	cr_assert(WAIT_FOR(read_index() == 2));
}

/* What they wait for may need the core. One wave, whatever the number of workers. */
Test(vgpu_cp, a_wave_that_polls_leaves_the_core)
{
	struct packet spin = packet(KERNEL(P_SPIN), 32, 32, sig(0, 1));
	double used;

	kernargs(DATA, 0);
	submit(&spin);
	cr_assert(WAIT_FOR(cp_queue_waves(queue) > 0));
	used = idle_cost(500000, 0.25);
	cr_assert_lt(used, 0.25, "%.3f s of a core in half a second", used);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 32);
}

Test(vgpu_cp, barrier_bit_orders)
{
	struct packet spin = packet(KERNEL(P_SPIN), 32, 32, sig(0, 1));
	struct packet count = packet(KERNEL(P_COUNT), 64, 64, sig(1, 1));

	kernargs(DATA, 0);
	submit(&spin);
	submit(&count);
	usleep(50000);
	cr_assert_eq(value(1), 1);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(value(0), 0);
}

Test(vgpu_cp, sleepers_wake)
{
	struct packet p = packet(KERNEL(P_SLEEP), 32 * 4, 32, sig(0, 1));

	kernargs(DATA, 0);
	submit(&p);
	usleep(20000);
	cr_assert_eq(value(0), 1);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* ---- barrier packets, signals, interrupts -------------------------------- */

struct barrier {
	uint16_t header, reserved0;
	uint32_t reserved1;
	uint64_t dep[5], reserved2, signal;
};

Test(vgpu_cp, barrier_and_waits_for_all)
{
	struct barrier b = {.header = 3, .dep = {sig(1, 1), 0, sig(2, 1)}, .signal = sig(0, 1)};

	submit(&b);
	usleep(10000);
	sig(1, 0);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	sig(2, 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(read_index(), 1);
}

Test(vgpu_cp, barrier_or_waits_for_one)
{
	struct barrier b = {.header = 5, .dep = {sig(1, 1), 0, sig(2, 1)}, .signal = sig(0, 1)};
	struct barrier none = {.header = 5, .signal = sig(3, 1)};

	submit(&b);
	submit(&none);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	sig(2, 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert(WAIT_FOR(value(3) == 0));
}

Test(vgpu_cp, barrier_on_a_value)
{
	struct {
		uint32_t header, reserved0;
		uint64_t signal;
		int64_t value, mask;
		uint32_t cond, reserved1;
		uint64_t reserved[2], completion;
	} b = {.header = 2u << 16,
	       .signal = sig(1, 5),
	       .value = 7,
	       .mask = 0xff,
	       .cond = 3,
	       .completion = sig(0, 1)};

	submit(&b);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	sig(1, 0x107);
	cr_assert(WAIT_FOR(value(0) == 0), "7 under the mask is not below 7");
}

Test(vgpu_cp, mailbox_raises_an_interrupt)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, sig(0, 1));

	kernargs(DATA, 0);
	*(uint64_t *)(page + SIGNALS + 0x10) = PAGE + MAILBOX;
	*(uint32_t *)(page + SIGNALS + 0x18) = 17;
	*(uint64_t *)(page + MAILBOX) = ~0ull;
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 17);
	cr_assert_eq(irq(0)->queue_id, 1);
	cr_assert_eq(value(0), 0, "the value is down before the interrupt");
	cr_assert_eq(*(uint64_t *)(page + MAILBOX), 17);
	cr_assert_eq(read_index(), 1);
	cr_assert_eq(*(uint64_t *)(page + SIGNALS + 0x20), 0, "times only where profiling is on");
}

Test(vgpu_cp, profiling_writes_times)
{
	struct packet p = packet(KERNEL(P_COUNT), 64, 64, sig(0, 1));
	uint64_t t = vgpu_clock_gpu(), *ts = (uint64_t *)(page + SIGNALS + 0x20);

	U32(0xb4) |= 8;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert(t <= ts[0] && ts[0] <= ts[1] && ts[1] <= vgpu_clock_gpu());
}

Test(vgpu_cp, waves_send_interrupts)
{
	struct packet p = packet(KERNEL(P_MSG), 32, 32, sig(0, 1));

	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 5);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* ---- map and unmap ------------------------------------------------------- */

Test(vgpu_cp, preempted_waves_go_on)
{
	struct packet p = packet(KERNEL(P_SPIN), 32 * 50, 32, sig(0, 1));
	struct cp_wave_state ws;
	struct cp_stats before, after;

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(cp_queue_waves(queue) > 0));
	cr_assert_eq(cp_queue_wave_state(queue, &ws), -EINVAL, "only of an unmapped queue");
	for (unsigned i = 0; i < 20; i++) {
		cr_assert_eq(cp_queue_unmap(queue), 0);
		cr_assert_eq(cp_queue_unmap(queue), -EINVAL);
		cr_assert_eq(cp_queue_wave_state(queue, &ws), 0);
		cr_assert_gt(ws.saved_waves, 0);
		cr_assert_eq(ws.control_stack_size, 0);
		cr_assert_eq(ws.control_stack_offset, 0x4000);
		cr_assert_eq(cp_queue_map(queue), 0);
		cr_assert_eq(cp_queue_map(queue), -EBUSY);
		usleep(2000);
	}
	cr_assert_eq(cp_queue_unmap(queue), 0);
	cp_stats(&before);
	__atomic_store_n(&data[2], 1, __ATOMIC_RELEASE);
	usleep(20000);
	cp_stats(&after);
	cr_assert_eq(before.groups, after.groups);
	cr_assert_eq(data[0], 0, "nothing runs while the queue is away");
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 50 * 32);
}

Test(vgpu_cp, rung_while_unmapped)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	cr_assert_eq(cp_queue_unmap(queue), 0);
	submit(&p);
	usleep(10000);
	cr_assert_eq(value(0), 1);
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0));
}

/* ---- cost ---------------------------------------------------------------- */

Test(vgpu_cp, idle_costs_nothing)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));
	double t;

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	t = idle_cost(1000000, 0.01);
	cr_assert_lt(t, 0.01, "an idle second cost %.4f s", t);
	/* And the next ring is noticed. */
	p.signal = sig(1, 1);
	submit(&p);
	cr_assert(WAIT_FOR(value(1) == 0));
}

Test(vgpu_cp, no_ring_is_lost)
{
	struct packet p = packet(KERNEL(P_MSG), 32, 32, 0);

	/* Rings at all distances from the moment the pages are protected again. */
	for (unsigned i = 0; i < 400; i++) {
		uint64_t t = now_ns() + i * 331 % 120000;

		p.signal = sig(0, 1);
		submit(&p);
		cr_assert(WAIT_FOR(value(0) == 0), "ring %u", i);
		while (now_ns() < t)
			;
	}
}

/* ---- vendor packets ------------------------------------------------------ */

#define PKT3(op, n) (0xc0000000u | ((n) - 2u) << 16 | (op) << 8 | 2)

Test(vgpu_cp, vendor_packet_runs_pm4)
{
	uint32_t ib[] = {PKT3(0x37, 5), 5u << 8, DATA + 64, 0, 0x77};
	uint32_t w[16] = {1u << 16, PKT3(0x3f, 4), ARGS + 512, 0, 5, 10};
	uint64_t s = sig(0, 1);

	memcpy(args + 512, ib, sizeof(ib));
	memcpy(&w[14], &s, 8);
	submit(w);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[16], 0x77);
}
