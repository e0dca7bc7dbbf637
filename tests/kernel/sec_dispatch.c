/* The dispatcher: numbers, sizes, directions, arguments that cannot be read or written. */
#include "probe.h"

#include <string.h>
#include <unistd.h>

static void numbers(int fd)
{
	for (unsigned nr = 0; nr < 256; nr++) {
		char args[256] = "";

		/* Below the first missing number only those that zeroed arguments leave alone. */
		if (nr && nr < 0x24)
			continue;
		TRY("ioctl", fd, _IOC(3, 'K', nr, 64), args, text("nr 0x%02x, zeroed", nr));
	}
	for (unsigned nr = 1; nr < 0x27; nr++)
		TRY("ioctl", fd, _IOC(3, 'K', nr, 64), NULL, text("nr 0x%02x, NULL", nr));
}

static void version_sized(int fd, unsigned long cmd, const char *input)
{
	uint32_t w[64];

	memset(w, 0xee, sizeof(w));
	TRY("GET_VERSION", fd, cmd, w, input, "%08x %08x %08x %08x, [31] %08x [32] %08x", w[0],
	    w[1], w[2], w[3], w[31], w[32]);
}

static void sizes(int fd)
{
	struct kfd_ioctl_create_queue_args q = {.ring_size = 4096, .gpu_id = NO_GPU};
	uint8_t *big = pages(65536, PROT_READ | PROT_WRITE);

	version_sized(fd, AMDKFD_IOC_GET_VERSION, "as defined");
	version_sized(fd, _IOC(2, 'X', 1, 8), "type letter X");
	version_sized(fd, _IOC(0, 'K', 1, 0), "no direction, size 0");
	version_sized(fd, _IOC(1, 'K', 1, 8), "direction W");
	version_sized(fd, _IOC(2, 'K', 1, 1), "size 1");
	version_sized(fd, _IOC(2, 'K', 1, 4), "size 4");
	version_sized(fd, _IOC(2, 'K', 1, 6), "size 6");
	version_sized(fd, _IOC(2, 'K', 1, 64), "size 64");
	version_sized(fd, _IOC(2, 'K', 1, 128), "size 128, the stack buffer's");
	version_sized(fd, _IOC(2, 'K', 1, 132), "size 132, allocated");
	version_sized(fd, AMDKFD_IOC_GET_VERSION | 0xffffffff00000000ul, "high half of cmd set");
	memset(big, 0xee, 65536);
	TRY("GET_VERSION", fd, _IOC(2, 'K', 1, 0x3fff), big, "size 0x3fff",
	    "%02x %02x, [0x3ffe] %02x [0x3fff] %02x", big[0], big[4], big[0x3ffe], big[0x3fff]);
	TRY("CREATE_QUEUE", fd, _IOC(3, 'K', 2, 88), &q, "size 88, as before 1.17");
	TRY("CREATE_QUEUE", fd, _IOC(3, 'K', 2, 96), &q, "size 96");
	TRY("CREATE_QUEUE", fd, _IOC(3, 'K', 2, 40), &q, "size 40");
	munmap(big, 65536);
}

static void bad_pointers(int fd)
{
	struct kfd_ioctl_create_event_args a;
	char *readonly = pages(4096, PROT_READ), *none = pages(4096, PROT_NONE);
	char *edge = pages(8192, PROT_READ | PROT_WRITE);
	long r;

	munmap(edge + 4096, 4096);
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, NULL, "NULL");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, (void *)0x1000, "unmapped");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, (void *)KERNEL_ADDRESS, "kernel address");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, (void *)(1ul << 63), "non-canonical");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, readonly, "read-only page");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, none, "PROT_NONE page");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, edge + 4092, "last 4 bytes before a hole",
	    "%08x", *(uint32_t *)(edge + 4092));
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, edge + 4088, "last 8 bytes before a hole");
	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, edge + 1, "misaligned");
	TRY("SET_EVENT", fd, AMDKFD_IOC_SET_EVENT, readonly, "W: read-only page, id 0");
	TRY("SET_EVENT", fd, AMDKFD_IOC_SET_EVENT, edge + 4092, "W: last 4 bytes before a hole");
	TRY("CREATE_EVENT", fd, AMDKFD_IOC_CREATE_EVENT, readonly, "RW: read-only page");
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
	observe("CREATE_EVENT", "after that EFAULT", r, errno, "id %u", a.event_id);
	observe("SET_EVENT", "the id the EFAULT call took", event_set(fd, a.event_id - 1), errno,
		"%s", "");
	munmap(readonly, 4096);
	munmap(none, 4096);
	munmap(edge, 4096);
}

/* The type letter is ignored, so terminal calls land in KFD's table by number. */
static void foreign_numbers(int fd)
{
	static const struct {
		unsigned long cmd;
		const char *name;
	} c[] = {
		{0x5401, "TCGETS, nr 0x01"},
		{0x5402, "TCSETS, nr 0x02"},
		{0x5413, "TIOCGWINSZ, nr 0x13"},
		{0x5414, "TIOCSWINSZ, nr 0x14"},
		{0x5408, "TCSETAF, nr 0x08"},
		{0x541b, "FIONREAD, nr 0x1b"},
		{0x5421, "FIONBIO"},
		{0x5451, "FIOCLEX"},
		{0x5450, "FIONCLEX"},
		{0x5452, "FIOASYNC"},
		{0x1, "FIBMAP, nr 0x01"},
		{0x2, "FIGETBSZ"},
		{0x5460, "FIOQSIZE"},
		{0xc020660b, "FS_IOC_FIEMAP, nr 0x0b"},
		{0x40049409, "FICLONE, nr 0x09"},
		{0x80086601, "FS_IOC_GETFLAGS, nr 0x01"},
		{0x40086602, "FS_IOC_SETFLAGS, nr 0x02"},
		{0x801c581f, "FS_IOC_FSGETXATTR, nr 0x1f"},
		{0x540f, "TIOCGPGRP, nr 0x0f"},
		{0x80081272, "BLKGETSIZE64, nr 0x72"},
	};

	for (unsigned i = 0; i < COUNT_OF(c); i++) {
		uint32_t w[64] = {0};

		TRY("ioctl", fd, c[i].cmd, w, c[i].name);
	}
}

void section_dispatch(void)
{
	int fd = kfd_open();

	numbers(fd);
	sizes(fd);
	bad_pointers(fd);
	foreign_numbers(fd);
	close(fd);
}
