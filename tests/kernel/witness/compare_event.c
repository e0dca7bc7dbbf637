/* Random lives of events: calls, stores into slots, interrupts, faults, a reset. */
#include "compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 60000, LIVE = 200, WAITS = 6 };

struct life {
	struct kfd_process *p;
	struct rng rng;
	uint64_t handle, bytes;
	uint32_t ids[LIVE];
	unsigned n;
};

static uint32_t some_id(struct life *l)
{
	switch (rng_below(&l->rng, 40)) {
	case 0:
		return rng_below(&l->rng, 8300);
	case 1:
		return 0x40000000u + rng_below(&l->rng, 64);
	case 2:
		return 0;
	case 3:
		return 0xffffffff;
	default:
		return l->n ? l->ids[rng_below(&l->rng, l->n)] : 1;
	}
}

static void create(struct life *l, uint64_t handle)
{
	static const uint32_t types[] = {0, 0, 0, 0, 3, 5, 8, 9, 0xffffffff};
	uint32_t type = types[rng_below(&l->rng, COUNT_OF(types))], reset = rng_below(&l->rng, 2);
	struct kfd_ioctl_create_event_args a = {
		.event_page_offset = handle, .event_type = type, .auto_reset = reset};
	struct witness_event w = {0};
	int kernel = witness_event_create(handle, type, reset, &w);
	long ours = client_call(l->p, AMDKFD_IOC_CREATE_EVENT, &a);

	same("CREATE_EVENT", kernel, ours);
	asked("type %u, handle 0x%llx, %u live", type, (unsigned long long)handle, l->n);
	if (kernel || ours)
		return;
	same("event id", w.id, a.event_id);
	same("trigger", w.trigger, a.event_trigger_data);
	same("slot", w.slot, a.event_slot_index);
	same("page offset", (long long)w.page_offset, (long long)a.event_page_offset);
	if (l->n < LIVE)
		l->ids[l->n++] = w.id;
}

static void destroy(struct life *l)
{
	uint32_t id = some_id(l);
	struct kfd_ioctl_destroy_event_args a = {.event_id = id};

	same("DESTROY_EVENT", witness_event_destroy(id),
	     client_call(l->p, AMDKFD_IOC_DESTROY_EVENT, &a));
	asked("id 0x%x", id);
	for (unsigned i = 0; i < l->n; i++)
		if (l->ids[i] == id)
			l->ids[i--] = l->ids[--l->n];
}

static void set_or_reset(struct life *l, bool set)
{
	uint32_t id = some_id(l);
	struct kfd_ioctl_destroy_event_args a = {.event_id = id};

	same(set ? "SET_EVENT" : "RESET_EVENT",
	     set ? witness_event_set(id) : witness_event_reset(id),
	     client_call(l->p, set ? AMDKFD_IOC_SET_EVENT : AMDKFD_IOC_RESET_EVENT, &a));
	asked("id 0x%x", id);
}

static void wait_some(struct life *l)
{
	struct kfd_event_data kernel[WAITS], ours[WAITS];
	uint32_t n = rng_below(&l->rng, WAITS + 1), all = rng_below(&l->rng, 2), timeout = 0;
	uint32_t result = 0xdead;
	struct kfd_ioctl_wait_events_args a = {(uintptr_t)ours, n, all, 0, 0xdead};
	int err;

	memset(kernel, 0xee, sizeof(kernel));
	for (uint32_t i = 0; i < n; i++) {
		kernel[i].event_id = some_id(l);
		kernel[i].signal_event_data.last_event_age =
			rng_below(&l->rng, 2) ? rng_below(&l->rng, 12) : 0;
	}
	memcpy(ours, kernel, sizeof(ours));
	err = witness_event_wait(kernel, n, all, &timeout, &result);
	same("WAIT_EVENTS", err, client_call(l->p, AMDKFD_IOC_WAIT_EVENTS, &a));
	asked("%u events, all %u, first 0x%x", n, all, n ? kernel[0].event_id : 0);
	same("wait result", result, a.wait_result);
	asked("%u events, all %u, first 0x%x", n, all, n ? kernel[0].event_id : 0);
	same("timeout", timeout, a.timeout);
	same("event data", 0, memcmp(kernel, ours, sizeof(ours)));
	asked("%u events, all %u, ages %llu / %llu", n, all,
	      (unsigned long long)kernel[0].signal_event_data.last_event_age,
	      (unsigned long long)ours[0].signal_event_data.last_event_age);
}

/* What the device does: it writes the slots of some events, then interrupts. */
static void interrupt(struct life *l)
{
	static const uint32_t bits[] = {0, 0, 1, 4, 8, 11, 12, 16, 23, 31, 32};
	uint64_t *page = witness_event_page();
	uint32_t id = 0, valid = bits[rng_below(&l->rng, COUNT_OF(bits))];

	same("there is a page", page != NULL, l->p->signal_page != NULL);
	if (!page || !l->p->signal_page)
		return;
	for (unsigned i = rng_below(&l->rng, 4); i; i--) {
		id = some_id(l);
		if (id >= 4096)
			continue;
		page[id] = l->p->signal_page[id] = rng_below(&l->rng, 3);
	}
	if (!rng_below(&l->rng, 4))
		id = rng_below(&l->rng, 5000);
	if (valid && valid < 32 && rng_below(&l->rng, 2))
		id &= (1u << valid) - 1;
	witness_event_interrupt(id, valid);
	kfd_event_signal_interrupt(l->p, id, valid);
	for (unsigned i = 0; i < 4096; i++)
		if (page[i] != l->p->signal_page[i]) {
			same("slot after an interrupt", (long long)page[i],
			     (long long)l->p->signal_page[i]);
			asked("slot %u, interrupt id %u with %u bits", i, id, valid);
			return;
		}
	same("slots after an interrupt", 0, 0);
}

static void fault(struct life *l)
{
	struct kfd_hsa_memory_exception_data d = {
		.failure = {rng_below(&l->rng, 2), rng_below(&l->rng, 2), rng_below(&l->rng, 2), 0},
		.va = (uint64_t)rng_next(&l->rng) << 12,
		.gpu_id = vgpu_props.gpu_id,
	};

	witness_event_vm_fault(&d);
	kfd_event_memory_exception(l->p, &d);
}

static void gpu_reset(struct life *l)
{
	struct kfd_hsa_hw_exception_data d = {.memory_lost = 1, .gpu_id = vgpu_props.gpu_id};

	witness_event_gpu_reset(vgpu_props.gpu_id);
	kfd_event_hw_exception(l->p, &d);
}

/* page_bytes 0: the kernel makes the page itself. */
static void live(uint64_t page_bytes)
{
	struct life l = {.p = client_new(), .rng = {page_bytes + 1}, .bytes = page_bytes};
	void *page;

	if (page_bytes)
		l.handle = client_buffer(l.p, 0x100000000ull, page_bytes, 0);
	page = calloc(1, page_bytes + 1);
	if (!page || witness_events_start(page, page_bytes))
		_exit(1);
	if (page_bytes)
		create(&l, l.handle);
	for (unsigned i = 0; i < STEPS; i++) {
		uint32_t what = rng_below(&l.rng, 100);

		/* Long stretches with few and with many events: the scan has two ways. */
		if (what < 10 && (i / 8192 & 1 || l.n < 20))
			create(&l, 0);
		else if (what < 18)
			destroy(&l);
		else if (what < 36)
			set_or_reset(&l, true);
		else if (what < 44)
			set_or_reset(&l, false);
		else if (what < 76)
			wait_some(&l);
		else if (what < 94)
			interrupt(&l);
		else if (what < 97)
			fault(&l);
		else if (what < 98)
			gpu_reset(&l);
		else if (what < 99)
			create(&l, l.handle);
	}
}

void compare_events(void)
{
	static const uint64_t pages[] = {0, 16384, 32768, 65536, 1 << 20};

	for (unsigned i = 0; i < COUNT_OF(pages); i++) {
		int pid, status;

		fflush(stdout);
		pid = fork();
		if (!pid) {
			live(pages[i]);
			fflush(stdout);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		same("a life ends well", 0, status);
	}
}
