/* Events: kinds, ids, what may be set, how many there can be. */
#include "probe.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const kinds[] = {"SIGNAL",       "NODECHANGE",  "DEVICESTATECHANGE",
				    "HW_EXCEPTION", "SYSTEM",      "DEBUG",
				    "PROFILE",      "QUEUE_EVENT", "MEMORY"};

static void show_create(const char *input, long r, int err,
			const struct kfd_ioctl_create_event_args *a)
{
	observe("CREATE_EVENT", input, r, err,
		"id 0x%x, trigger 0x%x, slot 0x%x, page 0x%llx, node 0x%x, auto_reset 0x%x",
		a->event_id, a->event_trigger_data, a->event_slot_index,
		(unsigned long long)a->event_page_offset, a->node_id, a->auto_reset);
}

static void create_all(int fd, uint32_t ids[18])
{
	static const uint32_t odd[] = {9, 0x80000000, 0xffffffff};
	struct kfd_ioctl_create_event_args a;

	for (uint32_t i = 0; i < 18; i++) {
		long r = event_create(fd, i / 2, i & 1, &a);

		show_create(text("%s, auto_reset %u", kinds[i / 2], i & 1), r, errno, &a);
		ids[i] = a.event_id;
	}
	for (unsigned i = 0; i < COUNT_OF(odd); i++) {
		long r = event_create(fd, odd[i], 0, &a);

		show_create(text("type 0x%x, which is none", odd[i]), r, errno, &a);
	}
}

static void create_odd(int fd)
{
	static const uint64_t offsets[] = {KFD_MMAP_TYPE_EVENTS, (uint64_t)NO_GPU << 32 | 1, 1,
					   ~0ull};
	struct kfd_ioctl_create_event_args a;
	long r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0xffffffff, &a);

	show_create("SIGNAL, auto_reset 0xffffffff", r, errno, &a);
	event_set(fd, a.event_id);
	observe_wait("that event, set", wait_one(fd, a.event_id, 0));
	observe_wait("that event, again", wait_one(fd, a.event_id, 0));
	for (uint32_t type = 0; type <= KFD_IOC_EVENT_MEMORY; type += KFD_IOC_EVENT_MEMORY) {
		memset(&a, 0xee, sizeof(a));
		a.event_page_offset = 0;
		a.event_type = type;
		r = call(fd, AMDKFD_IOC_CREATE_EVENT, &a);
		show_create(text("%s, the rest filled with 0xee", kinds[type]), r, errno, &a);
	}
	for (unsigned i = 0; i < COUNT_OF(offsets); i++)
		for (uint32_t type = 0; type <= KFD_IOC_EVENT_MEMORY;
		     type += KFD_IOC_EVENT_MEMORY) {
			a = (struct kfd_ioctl_create_event_args){.event_page_offset = offsets[i],
								 .event_type = type};
			r = call(fd, AMDKFD_IOC_CREATE_EVENT, &a);
			show_create(text("%s, page 0x%llx given", kinds[type],
					 (unsigned long long)offsets[i]),
				    r, errno, &a);
		}
}

static void bad_ids(int fd)
{
	static const uint32_t bad[] = {0,          200,        4095,       4096,      0x3fffffff,
				       0x40000100, 0x7fffffff, 0x80000000, 0xffffffff};

	for (unsigned i = 0; i < COUNT_OF(bad); i++) {
		const char *in = text("id 0x%x, never made", bad[i]);

		observe("SET_EVENT", in, event_set(fd, bad[i]), errno, "%s", "");
		observe("RESET_EVENT", in, event_reset(fd, bad[i]), errno, "%s", "");
		observe("DESTROY_EVENT", in, event_destroy(fd, bad[i]), errno, "%s", "");
		observe_wait(in, wait_one(fd, bad[i], 0));
	}
}

void section_event(void)
{
	static const struct {
		unsigned long cmd;
		const char *name;
	} null[] = {
		{AMDKFD_IOC_CREATE_EVENT, "CREATE_EVENT"},
		{AMDKFD_IOC_DESTROY_EVENT, "DESTROY_EVENT"},
		{AMDKFD_IOC_SET_EVENT, "SET_EVENT"},
		{AMDKFD_IOC_RESET_EVENT, "RESET_EVENT"},
		{AMDKFD_IOC_WAIT_EVENTS, "WAIT_EVENTS"},
	};
	struct kfd_ioctl_create_event_args a;
	int fd = kfd_open();
	uint32_t ids[18];
	long r;

	create_all(fd, ids);
	create_odd(fd);
	for (unsigned i = 0; i < 18; i++) {
		const char *in = text("%s, auto_reset %u", kinds[i / 2], i & 1);

		observe("SET_EVENT", in, event_set(fd, ids[i]), errno, "%s", "");
		observe_wait(in, wait_one(fd, ids[i], 0));
		observe("RESET_EVENT", in, event_reset(fd, ids[i]), errno, "%s", "");
	}
	bad_ids(fd);
	for (unsigned i = 0; i < 18; i += 2)
		observe("DESTROY_EVENT", kinds[i / 2], event_destroy(fd, ids[i]), errno, "%s", "");
	observe("DESTROY_EVENT", "a second time", event_destroy(fd, ids[0]), errno, "%s", "");
	observe("SET_EVENT", "destroyed", event_set(fd, ids[0]), errno, "%s", "");
	for (unsigned i = 0; i < 3; i++) {
		r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
		show_create("SIGNAL after destroys", r, errno, &a);
		r = event_create(fd, KFD_IOC_EVENT_MEMORY, 0, &a);
		show_create("MEMORY after destroys", r, errno, &a);
	}
	for (unsigned i = 0; i < COUNT_OF(null); i++)
		TRY(null[i].name, fd, null[i].cmd, NULL, "NULL");
	close(fd);
}

static void map_page(int fd, size_t len, const char *input)
{
	void *p = event_page_map(fd, len);

	observe("mmap", input, p == MAP_FAILED ? -1 : 0, errno, "%s", "");
}

static void at_the_limit(int fd, size_t mapped)
{
	struct kfd_ioctl_create_event_args a;
	long r = event_create(fd, KFD_IOC_EVENT_DEBUG_EVENT, 0, &a);

	show_create("DEBUG at the limit", r, errno, &a);
	r = event_create(fd, KFD_IOC_EVENT_MEMORY, 0, &a);
	show_create("MEMORY at the limit", r, errno, &a);
	event_destroy(fd, 7);
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
	show_create("SIGNAL after destroying 7", r, errno, &a);
	if (!mapped) {
		map_page(fd, 32768, "events, 8 pages, at the limit of 256");
		r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
		show_create("SIGNAL after that mmap", r, errno, &a);
	} else if (mapped == 32768) {
		map_page(fd, 4096, "events, 1 page, with 4095 events");
		event_destroy(fd, 9);
		r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
		show_create("SIGNAL after that mmap and destroying 9", r, errno, &a);
		event_destroy(fd, 600);
		r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
		show_create("SIGNAL after destroying 600", r, errno, &a);
		observe("SET_EVENT", "id 4095", event_set(fd, 4095), errno, "%s", "");
		observe_wait("id 4095", wait_one(fd, 4095, 0));
	}
}

/* In a child: the events of this process stay until it ends. */
static void signal_limit(size_t mapped)
{
	struct kfd_ioctl_create_event_args a = {0};
	int pid = fork(), fd, made = 1;
	uint32_t last;
	long r;

	if (pid) {
		waitpid(pid, NULL, 0);
		return;
	}
	fd = kfd_open();
	last = event_new(fd, false);
	if (mapped && event_page_map(fd, mapped) == MAP_FAILED)
		probe_die("mmap of the event page");
	while (made < 10000 && !(r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a))) {
		made++;
		last = a.event_id;
	}
	observe("CREATE_EVENT", text("SIGNAL until refused, %zu bytes of the page mapped", mapped),
		r, errno, "%d made, last id %u", made, last);
	at_the_limit(fd, mapped);
	_exit(0);
}

void section_limit(void)
{
	struct kfd_ioctl_create_event_args a = {0};
	int fd, made = 0;
	long r = 0;

	signal_limit(0);
	signal_limit(4096);
	signal_limit(8192);
	signal_limit(32768);
	fd = kfd_open();
	while (made < 20000 && !(r = event_create(fd, KFD_IOC_EVENT_MEMORY, 0, &a)))
		made++;
	observe("CREATE_EVENT", "20000 MEMORY events", r, errno, "%d made, last id 0x%x", made,
		a.event_id);
	close(fd);
}
