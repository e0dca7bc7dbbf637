/* Preemption through the driver interface: a queue switched off by UPDATE_QUEUE has its waves in
 * the save area, GET_QUEUE_WAVE_STATE says where, and what is changed there is what runs on. */
#include <errno.h>
#include <string.h>

#include "tests/virt_device.h"

/* spins until out[2] is not 0, then every lane adds 1 to out[0]
 *	s_load_b64 s[4:5], s[0:1], 0x0;  s_waitcnt lgkmcnt(0)
 * L:	s_load_b32 s6, s[4:5], 0x8 glc;  s_waitcnt lgkmcnt(0);  s_cmp_eq_u32 s6, 0
 *	s_cbranch_scc1 L;  v_mov_b32 v1, 0;  v_mov_b32 v2, 1
 *	global_atomic_add_u32 v1, v2, s[4:5];  s_endpgm */
static const uint32_t P_SPIN[] = {
	0xf4040100, 0xf8000000, 0xbf89fc07, 0xf4004182, 0xf8000008, 0xbf89fc07, 0xbf068006,
	0xbfa2fffb, 0x7e020280, 0x7e040281, 0xdcd60000, 0x00040201, 0xbfb00000,
};

static struct bo *buffer(uint64_t bytes, bool code)
{
	struct bo_desc d = {.owner = code ? "code" : "io",
			    .size = bytes,
			    .placement = BO_GTT,
			    .coherence = BO_UNCACHED,
			    .executable = code,
			    .host = true};
	struct bo *bo;

	cr_assert_eq(bo_create(dev.memory, &d, &bo), 0, "%s", kfd_reason());
	return bo;
}

static int percent(uint32_t value)
{
	struct queue *q = dev.queue;

	return kfd_queue_update(dev.kfd, queue_id(q), bo_va(q->ring_bo),
				(uint32_t)q->plan.ring_bytes, value, 7);
}

Test(cwsr, header_waves_and_an_edit, .timeout = 300)
{
	struct queue *q;
	struct bo *code, *io, *args;
	struct signal *done;
	struct queue_batch b;
	struct kfd_wave_state w = {0};
	uint8_t *area, *kernel, *block;
	uint32_t header[4], pc, *stack;

	open_device();
	q = dev.queue;
	code = buffer(4096, true);
	io = buffer(4096, false);
	args = buffer(4096, false);
	kernel = bo_host(code);
	memset(kernel, 0, 4096);
	*(int64_t *)(void *)(kernel + 16) = 256;
	*(uint32_t *)(void *)(kernel + 48) = 1 | 0xc0u << 12 | 1u << 21 | 1u << 23;
	*(uint32_t *)(void *)(kernel + 52) = 2 << 1 | 1 << 7;
	*(uint16_t *)(void *)(kernel + 56) = 0x400 | 8;
	memcpy(kernel + 256, P_SPIN, sizeof(P_SPIN));
	memset(bo_host(io), 0, 4096);
	*(uint64_t *)bo_host(args) = bo_va(io);
	cr_assert_eq(signal_create(q, 1, &done), 0);
	cr_assert_eq(queue_begin(q, 1, &b), 0);
	queue_dispatch(&b, &(struct aql_dispatch){.kernel_object = bo_va(code),
						  .kernarg = bo_va(args),
						  .grid = {64, 1, 1},
						  .group = {64, 1, 1},
						  .completion = done});
	queue_commit(&b);
	/* Until both waves are in their loop. */
	for (unsigned ms = 1; ms <= 300 && w.wave_state_size == 0; ms++) {
		usleep(1000 * ms);
		cr_assert_eq(percent(0), 0, "%s", kfd_reason());
		cr_assert_eq(kfd_queue_wave_state(dev.kfd, queue_id(q), &w, NULL, NULL), 0);
		if (!w.wave_state_size)
			cr_assert_eq(percent(100), 0);
	}
	cr_assert_eq(w.wave_state_size, 2 * (16 * 128 + 640));
	cr_assert_eq(w.wave_state_offset, q->plan.ctl_stack_bytes + w.wave_state_size);
	cr_assert_eq(w.control_stack_size, 4 * (2 + 2 + 2));
	cr_assert_eq(w.control_stack_offset + w.control_stack_size, q->plan.ctl_stack_bytes);
	area = bo_host(q->area_bo);
	/* Told by the ioctl; the header in the area is the client's to fill, and to read. */
	memcpy(header, area, sizeof(header));
	cr_assert_neq(header[3], w.wave_state_size, "the kernel does not touch it by itself");
	stack = (uint32_t *)(void *)(area + w.control_stack_offset);
	cr_assert_eq(stack[2] >> 31, 1, "a state");
	cr_assert_eq(stack[4] >> 12 & 1, 1, "the first wave");
	cr_assert_eq(stack[5] >> 29 & 1, 1, "the last");
	for (unsigned i = 0; i < 2; i++) {
		block = area + q->plan.ctl_stack_bytes + i * (16 * 128 + 640);
		memcpy(&pc, block + 16 * 128 + 512 + 4, 4);
		cr_assert(pc >= (uint32_t)bo_va(code) + 256 &&
				  pc < (uint32_t)bo_va(code) + 256 + 4 * 13,
			  "PC 0x%x", pc);
		/* Behind the loop, and with the lanes of one half only. */
		pc = (uint32_t)bo_va(code) + 256 + 4 * 8;
		memcpy(block + 16 * 128 + 512 + 4, &pc, 4);
		memcpy(&pc, block, 4); /* v0 of lane 0: the item */
		cr_assert_eq(pc, i ? 0 : 32);
		memset(block + 16 * 128 + 512 + 4 * 3, 0xff, 2);
		memset(block + 16 * 128 + 512 + 4 * 3 + 2, 0, 2);
		/* s[4:5] in case the loop had not loaded it yet */
		memcpy(block + 16 * 128 + 4 * 4, &(uint64_t){bo_va(io)}, 8);
	}
	cr_assert_eq(percent(100), 0);
	cr_assert_eq(signal_wait(q, done, 1, PATIENCE, &fault), 0, "%s", fault.text);
	cr_assert_eq(*(uint32_t *)bo_host(io), 32, "16 lanes of each");
	signal_destroy(done);
	bo_destroy(args);
	bo_destroy(io);
	bo_destroy(code);
	close_device();
}
