/* Queue creation with buffers that fit, nearly fit and do not. */
#include "compare.h"

#include <errno.h>
#include <string.h>

enum { QUEUES = 20000, SMALL = 9, AREAS = 3, BUFFERS = SMALL + AREAS };

/* Where and how large; the save areas are computed from the device's sizes. */
static struct buffer {
	uint64_t va, bytes, handle;
	bool twice;
} buffers[BUFFERS];

static void make_buffers(struct kfd_process *p)
{
	static const uint64_t pages[SMALL] = {1, 1, 1, 1, 2, 4, 16, 1, 4};
	const uint64_t area = vgpu_props.cwsr_area;
	const uint64_t areas[AREAS] = {area, area + 4096, area - 4096};

	for (unsigned i = 0; i < BUFFERS; i++) {
		struct buffer *b = &buffers[i];

		b->va = 0x100000000ull + i * 0x10000000ull;
		b->bytes = i < SMALL ? pages[i] * 4096 : areas[i - SMALL];
		b->twice = i == 7 || i == 8;
		b->handle = client_buffer(p, b->va, b->bytes * (b->twice ? 2 : 1),
					  b->twice ? KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM : 0);
		witness_vm_map(i, b->va, b->bytes, b->twice);
	}
}

/* An address in, at the edge of, or behind a buffer; sometimes nowhere. */
static uint64_t some_address(struct rng *r, unsigned first, unsigned n)
{
	static const uint64_t inside[] = {0, 0, 0, 0, 8, 64, 0x100, 4088, 4096, 8192};
	const struct buffer *b = &buffers[first + rng_below(r, n)];

	switch (rng_below(r, 24)) {
	case 0:
		return 0;
	case 1:
		return b->va - 4096;
	case 2:
		return b->va + b->bytes;
	case 3:
		return 0x7000000000ull;
	default:
		return b->va + inside[rng_below(r, COUNT_OF(inside))];
	}
}

static void some_queue(struct rng *r, struct kfd_ioctl_create_queue_args *a)
{
	static const uint32_t rings[] = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
	static const uint32_t eops[] = {0, 1, 2048, 4095, 4096, 4097, 8192, 16384, 32768};
	const struct vgpu_props *n = &vgpu_props;
	const uint32_t areas[] = {
		n->cwsr_size, n->cwsr_size - 1, n->cwsr_size + 1, n->cwsr_size + 4096, 0,
		0xffffffff};
	const uint32_t stacks[] = {n->ctl_stack_size, n->ctl_stack_size + 4096,
				   n->ctl_stack_size - 1, 0};

	/* One that fits, then up to three changes. */
	*a = (struct kfd_ioctl_create_queue_args){
		.ring_base_address = buffers[2].va,
		.write_pointer_address = buffers[0].va,
		.read_pointer_address = buffers[rng_below(r, 2)].va,
		.ring_size = 4096,
		.gpu_id = n->gpu_id,
		.queue_type = rng_below(r, 3),
		.queue_percentage = 100,
		.queue_priority = 7,
		.eop_buffer_address = buffers[3].va,
		.eop_buffer_size = 4096,
		.ctx_save_restore_address = buffers[SMALL].va,
		.ctx_save_restore_size = n->cwsr_size,
		.ctl_stack_size = n->ctl_stack_size,
	};
	for (unsigned i = rng_below(r, 4); i; i--) {
		switch (rng_below(r, 9)) {
		case 0:
			a->ring_base_address = some_address(r, 0, SMALL);
			break;
		case 1:
			a->write_pointer_address = some_address(r, 0, SMALL);
			break;
		case 2:
			a->read_pointer_address = some_address(r, 0, SMALL);
			break;
		case 3:
			a->eop_buffer_address = some_address(r, 0, SMALL);
			break;
		case 4:
			a->ctx_save_restore_address = some_address(r, SMALL, AREAS);
			break;
		case 5:
			a->ring_size = rings[rng_below(r, COUNT_OF(rings))];
			if (rng_below(r, 2))
				a->ring_base_address = buffers[rng_below(r, SMALL)].va;
			break;
		case 6:
			a->eop_buffer_size = eops[rng_below(r, COUNT_OF(eops))];
			break;
		case 7:
			a->ctx_save_restore_size = areas[rng_below(r, COUNT_OF(areas))];
			if (rng_below(r, 2))
				a->ctx_save_restore_address =
					buffers[SMALL + rng_below(r, AREAS)].va;
			break;
		default:
			a->ctl_stack_size = stacks[rng_below(r, COUNT_OF(stacks))];
			break;
		}
	}
}

static void say_queue(const struct kfd_ioctl_create_queue_args *a)
{
	asked("type %u, ring 0x%llx + %u, wptr 0x%llx, rptr 0x%llx, EOP 0x%llx + %llu, "
	      "save area 0x%llx + %u, stack %u",
	      a->queue_type, (unsigned long long)a->ring_base_address, a->ring_size,
	      (unsigned long long)a->write_pointer_address,
	      (unsigned long long)a->read_pointer_address,
	      (unsigned long long)a->eop_buffer_address, (unsigned long long)a->eop_buffer_size,
	      (unsigned long long)a->ctx_save_restore_address, a->ctx_save_restore_size,
	      a->ctl_stack_size);
}

/* While the queue lives its buffers cannot be unmapped, and only they. */
static void compare_held(struct kfd_process *p, const struct kfd_ioctl_create_queue_args *a)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		bool held = witness_queue_refs(i) != 0;
		long err = client_try_unmap(p, buffers[i].handle);

		same("unmapping while the queue lives", held ? -EBUSY : 0, err);
		say_queue(a);
		if (!err)
			client_map(p, buffers[i].handle);
	}
}

void compare_queues(struct kfd_process *p)
{
	struct rng r = {4711};

	make_buffers(p);
	for (unsigned i = 0; i < QUEUES; i++) {
		struct kfd_ioctl_create_queue_args a;
		struct witness_queue w;
		long kernel, ours;

		some_queue(&r, &a);
		w = (struct witness_queue){
			.sdma = a.queue_type == KFD_IOC_QUEUE_TYPE_SDMA,
			.aql = a.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
			.ring = a.ring_base_address,
			.wptr = a.write_pointer_address,
			.rptr = a.read_pointer_address,
			.eop = a.eop_buffer_address,
			.cwsr = a.ctx_save_restore_address,
			.ring_bytes = a.ring_size,
			.eop_bytes = (uint32_t)a.eop_buffer_size,
			.cwsr_bytes = a.ctx_save_restore_size,
			.ctl_stack_bytes = a.ctl_stack_size,
		};
		kernel = witness_queue_acquire(&w, vgpu_props.cus);
		ours = client_call(p, AMDKFD_IOC_CREATE_QUEUE, &a);
		same("CREATE_QUEUE", kernel, ours);
		say_queue(&a);
		/* Looking at every buffer is slow, and every accepted queue is alike. */
		if (!kernel && !ours && !rng_below(&r, 8))
			compare_held(p, &a);
		if (!kernel)
			witness_queue_release();
		if (!ours) {
			struct kfd_ioctl_destroy_queue_args d = {.queue_id = a.queue_id};

			same("DESTROY_QUEUE", 0, client_call(p, AMDKFD_IOC_DESTROY_QUEUE, &d));
		}
	}
	for (unsigned i = 0; i < BUFFERS; i++) {
		same("references after all queues", witness_queue_refs(i), 0);
		client_unmap(p, buffers[i].handle);
		client_free(p, buffers[i].handle);
	}
}
