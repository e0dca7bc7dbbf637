/* The command processor: queues, packets and waves that are wrong, traps, scratch on demand. */
#include "vgpu_cp_client.h"

TestSuite(vgpu_cp_errors, .init = start, .fini = stop, .timeout = 600);

/* ---- amd_queue_t --------------------------------------------------------- */

Test(vgpu_cp_errors, every_queue_field_is_read)
{
	static const struct {
		unsigned off;
		uint32_t value;
		const char *name;
	} t[] = {
		{0x00, 3, "hsa_queue.type"},
		{0x04, 0, "hsa_queue.features"},
		{0x08, RING + 4096, "hsa_queue.base_address"},
		{0x10, 0, "hsa_queue.doorbell_signal"},
		{0x18, 32, "hsa_queue.size"},
		{0x1c, 1, "hsa_queue.reserved1"},
		{0x28, 2, "caps"},
		{0x30, 1, "reserved1"},
		{0x40, 0, "group_segment_aperture_base_hi"},
		{0x44, 0x10000, "private_segment_aperture_base_hi"},
		{0x48, 31, "max_cu_id"},
		{0x4c, 15, "max_wave_id"},
		{0x50, 1, "max_legacy_doorbell"},
		{0x58, 1, "legacy_doorbell_lock"},
		{0x60, 1, "reserved2"},
		{0x88, 0, "read_dispatch_id_field_base_byte_offset"},
		{0x8c, 1, "compute_tmpring_size"},
		{0xb0, 4, "scratch_wave64_lane_byte_size"},
		{0xb4, 0, "queue_properties"},
		{0xb4, 0x42, "queue_properties"},
		{0xc0, 0, "queue_inactive_signal"},
		{DOORBELL, 1, "doorbell_signal->kind"},
		{DOORBELL + 8, 0, "doorbell_signal->hardware_doorbell_ptr"},
		{DOORBELL + 0x30, 0, "doorbell_signal->queue_ptr"},
		{INACTIVE, 0, "queue_inactive_signal->kind"},
		{INACTIVE + 8, 1, "queue_inactive_signal->value"},
	};
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	write_packet(0, &p);
	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		/* First of all: the one that just was mapped may not have looked yet. */
		cp_queue_unmap(queue);
		cp_queue_destroy(queue);
		memset(page, 0, SIGNALS);
		fill_amd_queue();
		U32(t[i].off) = t[i].value;
		U64(0x38) = 1;
		cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
		cr_assert_eq(cp_queue_map(queue), 0);
		ring_bell(0);
		cr_assert_eq(irq(i)->kind, CP_IRQ_QUEUE_ERROR);
		cr_assert_eq(irq(i)->code, 22);
		cr_assert_not_null(strstr(irq(i)->text, t[i].name), "row %u: %s", i, irq(i)->text);
		cr_assert_not_null(strstr(irq(i)->text, "wanted"));
		cr_assert_eq(value(0), 1);
	}
	/* And with all of them right the same packet runs. */
	cp_queue_unmap(queue);
	cp_queue_destroy(queue);
	memset(page, 0, SIGNALS);
	fill_amd_queue();
	U64(0x38) = 1;
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	cr_assert_eq(cp_queue_map(queue), 0);
	cr_assert(WAIT_FOR(value(0) == 0), "mapping looks at the write pointer, without a ring");
}

/* ---- packets that are wrong ---------------------------------------------- */

Test(vgpu_cp_errors, bad_packets)
{
	uint64_t k = KERNEL(P_COUNT), big = kernel_at(P_COUNT, sizeof(P_COUNT), 0, 0x408);
	uint64_t reserved = kernel_at(P_COUNT, sizeof(P_COUNT), 1 << 6, 0x408);
	struct {
		const char *what;
		uint32_t code;
		int64_t inactive;
		struct packet p;
	} t[] = {
		{"no dimensions", 16, 2, packet(k, 32, 32, 0)},
		{"empty grid", 16, 2, packet(k, 0, 32, 0)},
		{"empty group", 21, 64, packet(k, 32, 0, 0)},
		{"group of 1025", 21, 64, packet(k, 1025, 1025, 0)},
		{"group memory", 17, 4, packet(k, 32, 32, 0)},
		{"kernel 0", 18, 8, packet(0, 32, 32, 0)},
		{"kernel not aligned", 18, 8, packet(k + 4, 32, 32, 0)},
		{"VGPRs", 22, 128, packet(big, 32, 32, 0)},
		{"reserved rsrc2", 18, 8, packet(reserved, 32, 32, 0)},
		{"reserved header", 19, 32, packet(k, 32, 32, 0)},
		{"fence scope 3", 19, 32, packet(k, 32, 32, 0)},
		{"reserved field", 19, 32, packet(k, 32, 32, 0)},
		{"agent dispatch", 20, 256, packet(k, 32, 32, 0)},
		{"type 9", 19, 32, packet(k, 32, 32, 0)},
		{"vendor format", 23, 256, packet(k, 32, 32, 0)},
	};

	*(uint32_t *)(code + (big - CODE) + 48) |= 63;
	t[0].p.setup = 0;
	t[4].p.group_bytes = 65537;
	t[9].p.header |= 1 << 14;
	t[10].p.header |= 3 << 9;
	t[11].p.reserved2 = 1;
	t[12].p.header = 4;
	t[13].p.header = 9;
	t[14].p.header = 0;
	t[14].p.setup = 77;
	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		cp_queue_unmap(queue);
		cp_queue_destroy(queue);
		memset(page, 0, SIGNALS);
		fill_amd_queue();
		cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
		cr_assert_eq(cp_queue_map(queue), 0);
		next_packet = 0;
		submit(&t[i].p);
		cr_assert_eq(irq(i)->kind, CP_IRQ_QUEUE_ERROR);
		cr_assert_eq(irq(i)->code, t[i].code, "%s: code %u, %s", t[i].what, irq(i)->code,
			     irq(i)->text);
		cr_assert_eq(*(int64_t *)(page + INACTIVE + 8), t[i].inactive, "%s", t[i].what);
		/* The queue is down: a good packet behind it does not run. */
		cr_assert_eq(read_index(), 0);
	}
	cr_assert_eq(data[0], 0);
}

Test(vgpu_cp_errors, without_an_instruction_set_nothing_runs)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, sig(0, 1));

	vgpu_config.isa = false;
	kernargs(DATA, 0);
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 4);
	cr_assert_not_null(strstr(irq(0)->text, "switched off"));
	cr_assert_eq(data[0], 0);
	cr_assert_eq(value(0), 1);
}

/* A client that sees its inactive signal may end at once: what the log says must be there by then. */
Test(vgpu_cp_errors, said_before_the_client_can_know)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, 0);
	volatile int64_t *inactive = (volatile int64_t *)(page + INACTIVE + 8);
	char said[512] = "";
	int fd = memfd_create("said", MFD_CLOEXEC), old = dup(2);

	cr_assert(fd >= 0 && old >= 0);
	vgpu_config.isa = false;
	kernargs(DATA, 0);
	dup2(fd, 2);
	submit(&p);
	while (!*inactive)
		;
	cr_assert_gt(pread(fd, said, sizeof(said) - 1, 0), 0);
	dup2(old, 2);
	cr_assert_not_null(strstr(said, "switched off"), "%s", said);
	close(old);
	close(fd);
}

/* ---- waves that go wrong ------------------------------------------------- */

Test(vgpu_cp_errors, memory_fault)
{
	struct packet p = packet(KERNEL(P_STORE), 32, 32, sig(0, 1));

	kernargs(0x7000001234, 0);
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.va.a, 0x7000001234);
	cr_assert_eq(irq(0)->fault.client, VM_CLIENT_TCP);
	cr_assert_eq(irq(0)->fault.lanes, 0x20);
	cr_assert(irq(0)->fault.write && irq(0)->fault.not_present);
	cr_assert_not_null(strstr(irq(0)->text, "global_store_b32"), "%s", irq(0)->text);
	cr_assert_eq(cp_queue_unmap(queue), 0, "a faulted queue can be taken off");
	cr_assert_eq(value(0), 1, "its dispatch never completes");
	cr_assert_eq(cp_queue_map(queue), 0);
	usleep(20000);
	cr_assert_eq(nirqs, 1, "and does not start again");
}

Test(vgpu_cp_errors, fetch_fault)
{
	uint64_t k = KERNEL(P_COUNT);
	struct packet p = packet(k, 32, 32, sig(0, 1));

	*(int64_t *)(code + (k - CODE) + 16) = (int64_t)(DATA - k); /* not executable */
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.client, VM_CLIENT_SQC_INST);
	cr_assert(irq(0)->fault.no_exec);
	cr_assert_eq(irq(0)->fault.va.a, DATA);
}

Test(vgpu_cp_errors, packet_processor_faults)
{
	struct packet p = packet(KERNEL(P_COUNT), 32, 32, 0x666000);

	kernargs(DATA, 0);
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_VM_FAULT);
	cr_assert_eq(irq(0)->fault.client, VM_CLIENT_CPF);
	cr_assert_eq(irq(0)->fault.va.a, 0x666008);
	cr_assert_eq(data[0], 32);
}

Test(vgpu_cp_errors, illegal_and_unsupported)
{
	struct packet p = packet(KERNEL(P_ILLEGAL), 32, 32, sig(0, 1));

	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 4);
	cr_assert_not_null(strstr(irq(0)->text, "illegal instruction"), "%s", irq(0)->text);
	cp_queue_unmap(queue);
	cp_queue_destroy(queue);
	cr_assert_eq(cp_queue_create(&mqd, bells, &queue), 0);
	memset(page, 0, SIGNALS);
	fill_amd_queue();
	cr_assert_eq(cp_queue_map(queue), 0);
	next_packet = 0;
	p = packet(KERNEL(P_EXPORT), 32, 32, sig(0, 1));
	submit(&p);
	cr_assert_eq(irq(1)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(1)->code, 4);
	cr_assert_not_null(strstr(irq(1)->text, "does not implement"), "%s", irq(1)->text);
	cr_assert_not_null(strstr(irq(1)->text, "exp"), "%s", irq(1)->text);
}

Test(vgpu_cp_errors, trap_without_handler_is_stepped_over)
{
	struct packet p = packet(KERNEL(P_TRAP), 32, 32, sig(0, 1));

	kernargs(DATA, 0);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 9);
}

Test(vgpu_cp_errors, trap_handler_runs)
{
	struct packet p = packet(KERNEL(P_TRAP), 32, 32, sig(0, 1));
	uint64_t h = KERNEL(P_HANDLER) + 256;

	kernargs(DATA, 0);
	cp_queue_set_trap_handler(queue, h, DATA + 4096);
	submit(&p);
	cr_assert(WAIT_FOR(value(0) == 0));
	cr_assert_eq(data[0], 9, "the wave went on behind the trap");
	cr_assert_eq(data[1024], 3u << 16, "trap id 3, upper PC 0");
	cr_assert_eq(data[1025], BELL);
	cr_assert_eq(irq(0)->kind, CP_IRQ_QUEUE_ERROR);
	cr_assert_eq(irq(0)->code, 2, "bit 1 of the exception mask");
}

/* ---- scratch ------------------------------------------------------------- */

static void give_scratch(uint32_t lane_bytes, unsigned waves_per_se)
{
	uint32_t wave = lane_bytes * 32;

	U32(0x8c) = waves_per_se | wave / 256 << 12;
	U32(0x90) = SCRATCH;
	U32(0x98) = wave * waves_per_se * 2;
	U64(0xa0) = SCRATCH;
	U64(0xa8) = (uint64_t)wave * waves_per_se * 2;
	U32(0xb0) = wave / 64;
}

Test(vgpu_cp_errors, scratch_handshake)
{
	struct packet p = packet(KERNEL(P_SCRATCH), 32 * 200, 64, sig(0, 1));
	int64_t *inactive = (int64_t *)(page + INACTIVE + 8);

	p.wg[0] = 32;
	p.private_bytes = 260;
	*(uint64_t *)(page + INACTIVE + 0x10) = PAGE + MAILBOX;
	*(uint32_t *)(page + INACTIVE + 0x18) = 9;
	kernargs(DATA, 0);
	/* s_lshl_b32 s6, s2, 8 in P_SCRATCH strides by 64 items: fewer groups, same idea. */
	submit(&p);
	cr_assert_eq(irq(0)->kind, CP_IRQ_EVENT);
	cr_assert_eq(irq(0)->event_id, 9);
	cr_assert_eq(*inactive, 0x400, "a wave32 kernel asks with 0x400");
	cr_assert_eq(value(0), 1);
	give_scratch(264, 4);
	__atomic_store_n(inactive, 0, __ATOMIC_RELEASE);
	cr_assert(WAIT_FOR(value(0) == 0));
	for (unsigned g = 0; g < 200; g++)
		for (unsigned i = 0; i < 32; i++)
			cr_assert_eq(data[g * 64 + i], 5 * i, "group %u lane %u", g, i);
	/* Offset 16 of every lane lies behind offsets 0..15 of all lanes. */
	cr_assert_eq(*(uint32_t *)(scratch + 16 * 32 + 4 * 31), 5 * 31);
	/* A second dispatch needs no handshake. */
	p.signal = sig(1, 1);
	submit(&p);
	cr_assert(WAIT_FOR(value(1) == 0));
	cr_assert_eq(nirqs, 1);
}
