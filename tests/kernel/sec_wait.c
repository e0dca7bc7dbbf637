/* WAIT_EVENTS: results, what is consumed and lost, ages. */
#include "probe.h"

#include <string.h>
#include <unistd.h>

/* The events every case uses: two manual, two auto-reset. */
struct four {
	int fd;
	uint32_t m, m2, a, a2;
};

static void single(const struct four *f)
{
	static const uint32_t timeouts[] = {0, 1, 2, 20, 150};

	for (unsigned i = 0; i < COUNT_OF(timeouts); i++)
		observe_wait(text("manual, not set, %u ms", timeouts[i]),
			     wait_one(f->fd, f->m, timeouts[i]));
	event_set(f->fd, f->m);
	observe_wait("manual, set, 0 ms", wait_one(f->fd, f->m, 0));
	observe_wait("manual, set, again", wait_one(f->fd, f->m, 0));
	observe_wait("manual, set, 1000 ms", wait_one(f->fd, f->m, 1000));
	observe_wait("manual, set, for ever", wait_one(f->fd, f->m, 0xffffffff));
	event_reset(f->fd, f->m);
	observe_wait("manual, reset", wait_one(f->fd, f->m, 0));
	event_set(f->fd, f->a);
	observe_wait("auto, set", wait_one(f->fd, f->a, 0));
	observe_wait("auto, again", wait_one(f->fd, f->a, 0));
	event_set(f->fd, f->a);
	event_set(f->fd, f->a);
	observe_wait("auto, set twice", wait_one(f->fd, f->a, 0));
	observe_wait("auto, set twice, again", wait_one(f->fd, f->a, 0));
	event_set(f->fd, f->a);
	event_reset(f->fd, f->a);
	observe_wait("auto, set and reset", wait_one(f->fd, f->a, 0));
}

static void counts(const struct four *f)
{
	static struct kfd_event_data big[5000];
	int fd = f->fd;

	observe_wait("0 events, any, 0 ms", wait_data(fd, NULL, 0, 0, 0));
	observe_wait("0 events, all, 0 ms", wait_data(fd, NULL, 0, 1, 0));
	observe_wait("0 events, any, 1000 ms", wait_data(fd, NULL, 0, 0, 1000));
	observe_wait("0 events, any, for ever", wait_data(fd, NULL, 0, 0, 0xffffffff));
	observe_wait("1 event, NULL", wait_data(fd, NULL, 1, 0, 0));
	observe_wait("1 event, kernel address", wait_data(fd, (void *)KERNEL_ADDRESS, 1, 0, 0));
	observe_wait("0x10000000 events, NULL", wait_data(fd, NULL, 0x10000000, 0, 0));
	observe_wait("0xffffffff events, NULL", wait_data(fd, NULL, 0xffffffff, 0, 0));
	for (unsigned i = 0; i < COUNT_OF(big); i++)
		big[i].event_id = f->m;
	observe_wait("4096 times one event", wait_data(fd, big, 4096, 0, 0));
	observe_wait("4097 times one event", wait_data(fd, big, 4097, 0, 0));
	observe_wait("5000 times one event", wait_data(fd, big, 5000, 0, 0));
	big[4999].event_id = 0x7777;
	observe_wait("5000 events, the last unknown", wait_data(fd, big, 5000, 0, 0));
	observe_wait("70000 events, 5000 readable", wait_data(fd, big, 70000, 0, 0));
}

static void pairs(const struct four *f)
{
	const uint32_t mm2[] = {f->m, f->m2}, mm[] = {f->m, f->m}, aa[] = {f->a, f->a};
	int fd = f->fd;

	event_set(fd, f->m);
	observe_wait("any {set, unset}", wait_ids(fd, mm2, 2, 0, 0));
	observe_wait("all {set, unset}", wait_ids(fd, mm2, 2, 1, 0));
	observe_wait("all {set, unset}, 20 ms", wait_ids(fd, mm2, 2, 1, 20));
	event_set(fd, f->m2);
	observe_wait("all {set, set}", wait_ids(fd, mm2, 2, 1, 0));
	observe_wait("wait_for_all 0xffffffff {set, set}", wait_ids(fd, mm2, 2, 0xffffffff, 0));
	event_reset(fd, f->m2);
	observe_wait("all {manual twice}, set", wait_ids(fd, mm, 2, 1, 0));
	event_reset(fd, f->m);
	observe_wait("any {manual twice}, unset", wait_ids(fd, mm, 2, 0, 0));
	event_set(fd, f->a);
	observe_wait("any {auto twice}, set once", wait_ids(fd, aa, 2, 0, 0));
	observe_wait("  then the auto event", wait_one(fd, f->a, 0));
	event_set(fd, f->a);
	observe_wait("all {auto twice}, set once, 20 ms", wait_ids(fd, aa, 2, 1, 20));
	observe_wait("  then the auto event", wait_one(fd, f->a, 0));
}

/* Who eats the signal of an auto-reset event. */
static void losses(const struct four *f)
{
	const uint32_t am[] = {f->a, f->m}, ab[] = {f->a, 0x7777}, ba[] = {0x7777, f->a},
		       both[] = {f->a, f->a2};
	struct kfd_ioctl_wait_events_args *args;
	struct kfd_event_data *data;
	int fd = f->fd;

	event_set(fd, f->a);
	observe_wait("all {auto set, manual unset}, 20 ms", wait_ids(fd, am, 2, 1, 20));
	observe_wait("  then the auto event", wait_one(fd, f->a, 0));
	event_set(fd, f->a);
	observe_wait("any {auto set, unknown}", wait_ids(fd, ab, 2, 0, 0));
	observe_wait("  then the auto event", wait_one(fd, f->a, 0));
	event_set(fd, f->a);
	observe_wait("any {unknown, auto set}", wait_ids(fd, ba, 2, 0, 0));
	observe_wait("  then the auto event", wait_one(fd, f->a, 0));
	event_set(fd, f->a);
	event_set(fd, f->a2);
	observe_wait("any {auto set, auto set}", wait_ids(fd, both, 2, 0, 0));
	observe_wait("  then the first", wait_one(fd, f->a, 0));
	observe_wait("  then the second", wait_one(fd, f->a2, 0));

	args = pages(4096, PROT_READ | PROT_WRITE);
	data = (void *)((char *)args + 256);
	event_set(fd, f->a);
	data->event_id = f->a;
	args->events_ptr = (uintptr_t)data;
	args->num_events = 1;
	mprotect(args, 4096, PROT_READ);
	TRY("WAIT_EVENTS", fd, AMDKFD_IOC_WAIT_EVENTS, args, "arguments read-only, auto set");
	observe_wait("  then the auto event", wait_one(fd, f->a, 0));
}

void section_wait(void)
{
	struct four f = {.fd = kfd_open()};
	struct kfd_ioctl_create_event_args memory, hw;
	uint32_t three[3];

	f.m = event_new(f.fd, false);
	f.a = event_new(f.fd, true);
	f.m2 = event_new(f.fd, false);
	f.a2 = event_new(f.fd, true);
	single(&f);
	counts(&f);
	pairs(&f);
	losses(&f);
	event_create(f.fd, KFD_IOC_EVENT_MEMORY, 0, &memory);
	event_create(f.fd, KFD_IOC_EVENT_HW_EXCEPTION, 0, &hw);
	three[0] = memory.event_id;
	three[1] = hw.event_id;
	three[2] = f.m;
	observe_wait("any {MEMORY, HW_EXCEPTION, manual}, 5 ms", wait_ids(f.fd, three, 3, 0, 5));
	event_set(f.fd, f.m);
	observe_wait("any {MEMORY, HW_EXCEPTION, manual set}", wait_ids(f.fd, three, 3, 0, 5));
	close(f.fd);
}

static void aged(int fd, struct kfd_event_data *d, uint32_t id, uint64_t age, const char *input)
{
	struct waited w;
	unsigned touched = 0;

	memset(d, 0, sizeof(*d));
	d->event_id = id;
	d->signal_event_data.last_event_age = age;
	d->kfd_event_data_ext = 0x5555;
	w = wait_data(fd, d, 1, 0, 0);
	for (unsigned i = 8; i < 32; i++)
		touched += ((const uint8_t *)d)[i] != 0;
	observe("WAIT_EVENTS", input, w.ret, w.err, "result %s, age %llu, other bytes touched %u",
		wait_result_name(w.result), (unsigned long long)d->signal_event_data.last_event_age,
		touched + (d->kfd_event_data_ext != 0x5555));
}

void section_age(void)
{
	static const uint64_t ages[] = {0, 1, 2, 3, 77, ~0ull};
	struct kfd_ioctl_create_event_args debug;
	struct kfd_event_data d;
	int fd = kfd_open();

	for (unsigned kind = 0; kind < 2; kind++) {
		uint32_t id = event_new(fd, kind);
		const char *name = kind ? "auto" : "manual";

		for (unsigned sets = 0; sets < 3; sets++) {
			if (sets)
				event_set(fd, id);
			for (unsigned i = 0; i < COUNT_OF(ages); i++)
				aged(fd, &d, id, ages[i],
				     text("%s, set %u times, age %lld", name, sets,
					  (long long)ages[i]));
		}
		event_reset(fd, id);
		aged(fd, &d, id, 3, text("%s, reset, the current age", name));
		aged(fd, &d, id, 2, text("%s, reset, an old age", name));
	}
	event_create(fd, KFD_IOC_EVENT_DEBUG_EVENT, 0, &debug);
	aged(fd, &d, debug.event_id, 77, "DEBUG, age 77");
	event_create(fd, KFD_IOC_EVENT_MEMORY, 0, &debug);
	aged(fd, &d, debug.event_id, 77, "MEMORY, age 77");
	close(fd);
}
