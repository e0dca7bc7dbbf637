/* mmap of /dev/kfd: types, lengths, the event page and what may be done with it. */
#include "probe.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RW (PROT_READ | PROT_WRITE)

static void *map(int fd, size_t len, int prot, int flags, uint64_t off)
{
	errno = 0;
	return mmap(NULL, len, prot, flags, fd, (off_t)off);
}

static void types(int fd)
{
	static const struct {
		uint64_t off;
		size_t len;
		const char *name;
	} c[] = {
		{KFD_MMAP_TYPE_EVENTS, 32768, "events, none made yet"},
		{KFD_MMAP_TYPE_MMIO, 4096, "MMIO, gpu 0"},
		{KFD_MMAP_TYPE_MMIO | KFD_MMAP_GPU_ID(NO_GPU), 4096, "MMIO, unknown gpu"},
		{KFD_MMAP_TYPE_DOORBELL, 8192, "doorbells, gpu 0"},
		{KFD_MMAP_TYPE_DOORBELL | KFD_MMAP_GPU_ID(NO_GPU), 8192, "doorbells, unknown gpu"},
		{KFD_MMAP_TYPE_RESERVED_MEM, 4096, "reserved, gpu 0"},
		{KFD_MMAP_TYPE_RESERVED_MEM | KFD_MMAP_GPU_ID(NO_GPU), 4096,
		 "reserved, unknown gpu"},
		{KFD_MMAP_TYPE_EVENTS | 0x123, 4096, "events, offset misaligned"},
		{KFD_MMAP_TYPE_EVENTS, 0, "events, length 0"},
	};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		void *p = map(fd, c[i].len, RW, MAP_SHARED, c[i].off);

		observe("mmap", c[i].name, p == MAP_FAILED ? -1 : 0, errno, "%s", "");
		if (p != MAP_FAILED)
			munmap(p, c[i].len);
	}
}

static void lengths(int fd)
{
	static const struct {
		size_t len;
		int prot, flags;
		uint64_t off;
		const char *name;
	} c[] = {
		{36864, RW, MAP_SHARED, 0, "9 pages"},
		{65536, RW, MAP_SHARED, 0, "16 pages"},
		{1, RW, MAP_SHARED, 0, "1 byte"},
		{4096, RW, MAP_SHARED, 0, "1 page"},
		{32768, PROT_READ, MAP_SHARED, 0, "8 pages, read"},
		{32768, PROT_NONE, MAP_SHARED, 0, "8 pages, none"},
		{32768, RW, MAP_PRIVATE, 0, "8 pages, private, write"},
		{32768, PROT_READ, MAP_PRIVATE, 0, "8 pages, private, read"},
		{32768, RW | PROT_EXEC, MAP_SHARED, 0, "8 pages, exec"},
		{32768, RW, MAP_SHARED, KFD_MMAP_GPU_ID(NO_GPU), "8 pages, gpu bits set"},
		{32768, RW, MAP_SHARED, 0x1000, "8 pages, page offset 1"},
		{20480, RW, MAP_SHARED, 0, "5 pages"},
		{32768, RW, MAP_SHARED, 0, "8 pages"},
	};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		uint64_t *p =
			map(fd, c[i].len, c[i].prot, c[i].flags, KFD_MMAP_TYPE_EVENTS | c[i].off);
		int err = errno;
		bool readable = p != MAP_FAILED && c[i].prot & PROT_READ;

		observe("mmap", text("events, %s", c[i].name), p == MAP_FAILED ? -1 : 0, err, "%s",
			readable ? text("slot 1 is 0x%llx", (unsigned long long)p[1]) : "");
		if (p != MAP_FAILED)
			munmap(p, c[i].len);
	}
}

static void slots(int fd, uint32_t id, uint64_t *s)
{
	struct kfd_ioctl_create_event_args b;
	unsigned set = 0;
	uint64_t *second;
	long r;

	for (unsigned i = 0; i < 4096; i++)
		set += s[i] == ~0ull;
	observe("event page", "after the first event", 0, 0, "%u of 4096 slots all ones", set);
	r = event_set(fd, id);
	observe("SET_EVENT", "page mapped", r, errno, "slot 0x%llx", (unsigned long long)s[id]);
	event_reset(fd, id);
	s[id] = 1;
	observe_wait("program stores 1 into the slot", wait_one(fd, id, 0));
	event_set(fd, id);
	observe_wait("then SET_EVENT", wait_one(fd, id, 0));
	observe("event page", "after that wait", 0, 0, "slot 0x%llx", (unsigned long long)s[id]);
	r = event_reset(fd, id);
	observe("RESET_EVENT", "slot 1", r, errno, "slot 0x%llx", (unsigned long long)s[id]);
	second = event_page_map(fd, 32768);
	observe("mmap", "events, a second time", second == MAP_FAILED ? -1 : 0, errno,
		"same page: %d", second != MAP_FAILED && second[id] == 1);
	event_destroy(fd, id);
	observe("event page", "after DESTROY_EVENT", 0, 0, "slot 0x%llx",
		(unsigned long long)s[id]);
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &b);
	observe("CREATE_EVENT", "reuse of the id", r, errno, "id %u, slot 0x%llx", b.event_id,
		(unsigned long long)s[b.event_slot_index & 4095]);
	if (second == MAP_FAILED)
		return;
	errno = 0;
	observe("mremap", "event page, grow",
		mremap(second, 32768, 65536, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0, errno, "%s",
		"");
}

static void page_calls(uint64_t *s)
{
	static const struct {
		int advice;
		const char *name;
	} advices[] = {
		{MADV_NORMAL, "NORMAL"},
		{MADV_RANDOM, "RANDOM"},
		{MADV_SEQUENTIAL, "SEQUENTIAL"},
		{MADV_WILLNEED, "WILLNEED"},
		{MADV_DONTNEED, "DONTNEED"},
		{MADV_FREE, "FREE"},
		{MADV_REMOVE, "REMOVE"},
		{MADV_DONTFORK, "DONTFORK"},
		{MADV_DOFORK, "DOFORK"},
		{MADV_MERGEABLE, "MERGEABLE"},
		{MADV_UNMERGEABLE, "UNMERGEABLE"},
		{MADV_DONTDUMP, "DONTDUMP"},
		{MADV_DODUMP, "DODUMP"},
		{MADV_WIPEONFORK, "WIPEONFORK"},
		{MADV_KEEPONFORK, "KEEPONFORK"},
		{MADV_COLD, "COLD"},
		{MADV_PAGEOUT, "PAGEOUT"},
		{MADV_POPULATE_READ, "POPULATE_READ"},
		{MADV_POPULATE_WRITE, "POPULATE_WRITE"},
	};
	long r;

#define ON_PAGE(name, expr)                                                                        \
	do {                                                                                       \
		errno = 0;                                                                         \
		r = (expr);                                                                        \
		observe(name, "event page", r, errno, "%s", "");                                   \
	} while (0)
	ON_PAGE("msync SYNC", msync(s, 32768, MS_SYNC));
	ON_PAGE("msync ASYNC", msync(s, 32768, MS_ASYNC));
	ON_PAGE("msync INVALIDATE", msync(s, 32768, MS_INVALIDATE));
	ON_PAGE("msync SYNC|ASYNC", msync(s, 32768, MS_SYNC | MS_ASYNC));
	ON_PAGE("msync SYNC, misaligned", msync((char *)s + 1, 4096, MS_SYNC));
	ON_PAGE("mlock", mlock(s, 4096));
	ON_PAGE("munlock", munlock(s, 4096));
	for (unsigned i = 0; i < COUNT_OF(advices); i++)
		ON_PAGE(text("madvise %s", advices[i].name), madvise(s, 4096, advices[i].advice));
	ON_PAGE("msync SYNC, none", msync(s, 0, MS_SYNC));
	ON_PAGE("mprotect READ", mprotect(s, 4096, PROT_READ));
	ON_PAGE("mprotect EXEC", mprotect(s, 4096, PROT_READ | PROT_EXEC));
	ON_PAGE("mprotect READ|WRITE", mprotect(s, 4096, RW));
	ON_PAGE("munmap of one page", munmap((char *)s + 28672, 4096));
#undef ON_PAGE
}

void section_mmap(void)
{
	struct kfd_ioctl_create_event_args a;
	int fd = kfd_open();
	uint64_t *s;
	void *p;
	long r;

	types(fd);
	r = event_create(fd, KFD_IOC_EVENT_MEMORY, 0, &a);
	observe("CREATE_EVENT", "MEMORY", r, errno, "id 0x%x, page 0x%llx, slot %u, trigger 0x%x",
		a.event_id, (unsigned long long)a.event_page_offset, a.event_slot_index,
		a.event_trigger_data);
	p = event_page_map(fd, 32768);
	observe("mmap", "events, only a MEMORY event made", p == MAP_FAILED ? -1 : 0, errno, "%s",
		"");
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
	observe("CREATE_EVENT", "first SIGNAL", r, errno, "id %u, page 0x%llx, slot %u, trigger %u",
		a.event_id, (unsigned long long)a.event_page_offset, a.event_slot_index,
		a.event_trigger_data);
	lengths(fd);
	s = event_page_map(fd, 32768);
	if (s == MAP_FAILED)
		probe_die("mmap of the event page");
	slots(fd, a.event_id, s);
	close(fd);
	s[300] = 7;
	observe("event page", "descriptor closed", 0, 0, "slot 300 is %llu",
		(unsigned long long)s[300]);
	page_calls(s);
}
