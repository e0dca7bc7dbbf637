/* The device file: open modes, the file operations it has, what belongs to the process. */
#include "probe.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void version_through(int fd, const char *input)
{
	struct kfd_ioctl_get_version_args v = {0};

	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, input, "%u.%u", v.major_version,
	    v.minor_version);
}

static void open_modes(void)
{
	static const struct {
		int flags;
		const char *name;
	} modes[] = {
		{O_RDWR, "O_RDWR"},
		{O_RDONLY, "O_RDONLY"},
		{O_WRONLY, "O_WRONLY"},
		{O_RDWR | O_NONBLOCK, "O_RDWR|O_NONBLOCK"},
		{O_RDWR | O_CREAT, "O_RDWR|O_CREAT"},
		{O_RDWR | O_TRUNC, "O_RDWR|O_TRUNC"},
		{O_RDWR | O_APPEND, "O_RDWR|O_APPEND"},
		{O_RDWR | O_CREAT | O_EXCL, "O_RDWR|O_CREAT|O_EXCL"},
		{O_RDWR | O_DIRECTORY, "O_RDWR|O_DIRECTORY"},
		{O_RDWR | O_NOFOLLOW, "O_RDWR|O_NOFOLLOW"},
		{O_RDWR | O_CLOEXEC, "O_RDWR|O_CLOEXEC"},
		{O_PATH, "O_PATH"},
	};

	char b[8] = "";
	long r;

	for (unsigned i = 0; i < COUNT_OF(modes); i++) {
		int fd;

		errno = 0;
		fd = open("/dev/kfd", modes[i].flags, 0600);
		observe("open", modes[i].name, fd < 0 ? -1 : 0, errno, "%s",
			fd < 0 ? ""
			       : text("F_GETFL 0x%x F_GETFD %d", fcntl(fd, F_GETFL),
				      fcntl(fd, F_GETFD)));
		if (fd < 0)
			continue;
		version_through(fd, text("on a descriptor opened %s", modes[i].name));
		errno = 0;
		r = read(fd, b, 8);
		observe("read", modes[i].name, r, errno, "%s", "");
		r = write(fd, b, 8);
		observe("write", modes[i].name, r, errno, "%s", "");
		close(fd);
	}
}

static void file_operations(void)
{
	struct pollfd p = {kfd_open(), POLLIN | POLLOUT, 0};
	struct stat st;
	char b[64] = "";
	struct iovec iov = {b, 8};
	int fd = p.fd;
	long r;

#define OP(name, expr)                                                                             \
	do {                                                                                       \
		errno = 0;                                                                         \
		r = (expr);                                                                        \
		observe(name, "", r, errno, "%s", "");                                             \
	} while (0)
	errno = 0;
	r = stat("/dev/kfd", &st);
	observe("stat", "", r, errno, "character device %d, minor %u, mode %04o",
		S_ISCHR(st.st_mode), minor(st.st_rdev), st.st_mode & 07777);
	r = fstat(fd, &st);
	observe("fstat", "", r, errno, "character device %d, minor %u", S_ISCHR(st.st_mode),
		minor(st.st_rdev));
	OP("access R_OK|W_OK", access("/dev/kfd", R_OK | W_OK));
	OP("access X_OK", access("/dev/kfd", X_OK));
	OP("read 8 bytes", read(fd, b, 8));
	OP("read 0 bytes", read(fd, b, 0));
	OP("write 8 bytes", write(fd, b, 8));
	OP("pread 8 bytes", pread(fd, b, 8, 0));
	OP("pwrite 8 bytes", pwrite(fd, b, 8, 0));
	OP("pread at -1", pread(fd, b, 8, -1));
	OP("readv", readv(fd, &iov, 1));
	OP("writev", writev(fd, &iov, 1));
	OP("preadv", preadv(fd, &iov, 1, 0));
	OP("pwritev", pwritev(fd, &iov, 1, 0));
	OP("lseek", lseek(fd, 0, SEEK_CUR));
	OP("ftruncate", ftruncate(fd, 4096));
	OP("fsync", fsync(fd));
	OP("isatty", isatty(fd));
#undef OP
	errno = 0;
	r = poll(&p, 1, 0);
	observe("poll", "POLLIN|POLLOUT, timeout 0", r, errno, "revents 0x%x", p.revents);
	close(fd);
}

static long int80(long nr, long b, long c, long d)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(nr), "b"(b), "c"(c), "d"(d)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)r;
}

/* A kernel without them (CONFIG_IA32_EMULATION) kills who tries. */
static bool has_int80(void)
{
	int pid = fork(), status = 0;

	if (!pid)
		_exit(int80(20, 0, 0, 0) <= 0); /* getpid */
	waitpid(pid, &status, 0);
	return status == 0;
}

static void compat_calls(int fd)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct kfd_ioctl_get_version_args *v = (void *)(low + 256);
	long r;

	if (low == MAP_FAILED)
		probe_die("mmap below 4 GiB");
	if (!has_int80()) {
		observe("open", "32-bit system call", -1, ENOSYS, "none here");
		observe("GET_VERSION", "32-bit system call on a descriptor opened 64-bit", -1,
			ENOSYS, "none here");
		goto out;
	}
	strcpy(low, "/dev/kfd");
	r = int80(5, (long)low, O_RDWR, 0);
	observe("open", "32-bit system call", r < 0 ? -1 : 0, r < 0 ? (int)-r : 0, "%s", "");
	r = int80(54, fd, (long)AMDKFD_IOC_GET_VERSION, (long)v);
	observe("GET_VERSION", "32-bit system call on a descriptor opened 64-bit", r < 0 ? -1 : 0,
		r < 0 ? (int)-r : 0, "%u.%u", v->major_version, v->minor_version);
out:
	munmap(low, 4096);
}

/* In a child, because the identity cannot be taken back. */
static void as_user(void)
{
	struct kfd_ioctl_create_event_args a = {0};
	struct kfd_ioctl_criu_args c = {.op = KFD_CRIU_OP_PROCESS_INFO};
	int pid = fork(), fd;
	long r;

	if (pid) {
		waitpid(pid, NULL, 0);
		return;
	}
	if (setgid(1000) || setuid(1000))
		probe_die("setuid(1000); the program wants to be root");
	errno = 0;
	fd = open("/dev/kfd", O_RDWR);
	observe("open", "as uid 1000, node mode 0666", fd < 0 ? -1 : 0, errno, "%s", "");
	r = event_create(fd, KFD_IOC_EVENT_SIGNAL, 0, &a);
	observe("CREATE_EVENT", "as uid 1000", r, errno, "id %u", a.event_id);
	TRY("CRIU_OP", fd, AMDKFD_IOC_CRIU_OP, &c, "as uid 1000, PROCESS_INFO");
	c.op = 99;
	TRY("CRIU_OP", fd, AMDKFD_IOC_CRIU_OP, &c, "as uid 1000, op 99");
	TRY("CRIU_OP", fd, AMDKFD_IOC_CRIU_OP, NULL, "as uid 1000, args NULL");
	_exit(0);
}

static void shared_state(void)
{
	struct kfd_ioctl_create_event_args a;
	int fa = kfd_open(), fb = kfd_open(), copy;
	uint32_t id = event_new(fa, false);

	observe("SET_EVENT", "event of descriptor A through B", event_set(fb, id), errno, "id %u",
		id);
	observe_wait("that event through A", wait_one(fa, id, 0));
	close(fa);
	observe("SET_EVENT", "A closed, through B", event_set(fb, id), errno, "%s", "");
	close(fb);
	fa = kfd_open();
	observe("SET_EVENT", "all closed and one reopened, old id", event_set(fa, id), errno,
		"id %u", id);
	observe("CREATE_EVENT", "all closed and one reopened",
		event_create(fa, KFD_IOC_EVENT_SIGNAL, 0, &a), errno, "id %u", a.event_id);
	observe("DESTROY_EVENT", "old id", event_destroy(fa, id), errno, "%s", "");
	copy = dup(fa);
	observe("SET_EVENT", "through dup()", event_set(copy, a.event_id), errno, "%s", "");
	close(fa);
	observe("SET_EVENT", "through dup(), original closed", event_set(copy, a.event_id), errno,
		"%s", "");
	close(copy);
	TRY("SET_EVENT", copy, AMDKFD_IOC_SET_EVENT, &a, "closed descriptor");
}

static void other_files(void)
{
	char b[64] = "";
	int pipes[2], null = open("/dev/null", O_RDWR);

	if (null < 0 || pipe(pipes))
		probe_die("a pipe and /dev/null");
	TRY("GET_VERSION", pipes[0], AMDKFD_IOC_GET_VERSION, b, "on a pipe");
	TRY("GET_VERSION", null, AMDKFD_IOC_GET_VERSION, b, "on /dev/null");
	TRY("GET_VERSION", -1, AMDKFD_IOC_GET_VERSION, b, "on descriptor -1");
	close(pipes[0]);
	close(pipes[1]);
	close(null);
}

void section_open(void)
{
	int fd;

	open_modes();
	file_operations();
	fd = kfd_open();
	compat_calls(fd);
	close(fd);
	as_user();
	shared_state();
	other_files();
}
