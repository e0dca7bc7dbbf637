/* The device file through the other calls that take names and descriptors. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void version(int fd, const char *input)
{
	struct kfd_ioctl_get_version_args v = {0};

	TRY("GET_VERSION", fd, AMDKFD_IOC_GET_VERSION, &v, input, "%u.%u", v.major_version,
	    v.minor_version);
}

/* Opens by another name; the node must be the same one. */
static void opened(const char *input, int fd)
{
	int err = errno;

	observe("open", input, fd < 0 ? -1 : 0, err, "%s", "");
	if (fd < 0)
		return;
	version(fd, input);
	close(fd);
}

static void names(void)
{
	int dir = open("/dev", O_RDONLY | O_DIRECTORY), fd;
	int nowhere = 9999;
	char *absolute;
	FILE *f;

	if (dir < 0)
		probe_die("open /dev");
	errno = 0;
	opened("/dev/../dev/kfd", open("/dev/../dev/kfd", O_RDWR));
	opened("//dev//kfd", open("//dev//kfd", O_RDWR));
	opened("/dev/./kfd", open("/dev/./kfd", O_RDWR));
	opened("/dev/kfd/", open("/dev/kfd/", O_RDWR));
	opened("/dev/kfd/x", open("/dev/kfd/x", O_RDWR));
	opened("/dev/kfdx", open("/dev/kfdx", O_RDWR));
	opened("/dev/kfd1", open("/dev/kfd1", O_RDWR));
	opened("openat of /dev and kfd", openat(dir, "kfd", O_RDWR));
	opened("openat of /dev and ../dev/kfd", openat(dir, "../dev/kfd", O_RDWR));
	opened("openat of /dev and /dev/kfd", openat(dir, "/dev/kfd", O_RDWR));
	opened("openat of a closed descriptor and /dev/kfd", openat(nowhere, "/dev/kfd", O_RDWR));
	opened("openat of a closed descriptor and kfd", openat(nowhere, "kfd", O_RDWR));
	opened("creat", creat("/dev/kfd", 0600));
	if (!chdir("/dev"))
		opened("kfd, in /dev", open("kfd", O_RDWR));
	if (!chdir("/"))
		opened("dev/kfd, in /", open("dev/kfd", O_RDWR));
	unlink("/tmp/kfdprobe-link");
	if (!symlink("/dev/kfd", "/tmp/kfdprobe-link"))
		opened("a symbolic link to it", open("/tmp/kfdprobe-link", O_RDWR));
	unlink("/tmp/kfdprobe-link");
	fd = kfd_open();
	opened("/proc/self/fd/N", open(text("/proc/self/fd/%d", fd), O_RDWR));
	close(fd);
	f = fopen("/dev/kfd", "r+");
	observe("fopen", "r+", f ? 0 : -1, errno, "%s", "");
	if (f) {
		version(fileno(f), "fopen");
		fclose(f);
	}
	absolute = realpath("/dev/kfd", NULL);
	observe("realpath", "", absolute ? 0 : -1, errno, "%s", absolute ? absolute : "");
	free(absolute);
	close(dir);
}

static void name_calls(void)
{
	struct stat st;
	struct statx sx;
	char b[PATH_MAX];
	DIR *d;
	long r;

#define CALL(name, expr)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		r = (expr);                                                                        \
		observe(name, "/dev/kfd", r, errno, "%s", "");                                     \
	} while (0)
	CALL("access F_OK", access("/dev/kfd", F_OK));
	CALL("faccessat R_OK", faccessat(AT_FDCWD, "/dev/kfd", R_OK, 0));
	CALL("faccessat R_OK AT_EACCESS", faccessat(AT_FDCWD, "/dev/kfd", R_OK, AT_EACCESS));
	CALL("euidaccess W_OK", euidaccess("/dev/kfd", W_OK));
	CALL("readlink", readlink("/dev/kfd", b, sizeof(b)));
	CALL("truncate", truncate("/dev/kfd", 0));
	CALL("chdir", chdir("/dev/kfd"));
#undef CALL
	errno = 0;
	d = opendir("/dev/kfd");
	observe("opendir", "/dev/kfd", d ? 0 : -1, errno, "%s", "");
	r = lstat("/dev/kfd", &st);
	observe("lstat", "/dev/kfd", r, errno, "type 0%o, links %u", st.st_mode & S_IFMT,
		(unsigned)st.st_nlink);
	r = fstatat(AT_FDCWD, "/dev/kfd", &st, AT_SYMLINK_NOFOLLOW);
	observe("fstatat", "/dev/kfd", r, errno, "type 0%o, size %lld", st.st_mode & S_IFMT,
		(long long)st.st_size);
	r = statx(AT_FDCWD, "/dev/kfd", 0, STATX_BASIC_STATS, &sx);
	observe("statx", "/dev/kfd", r, errno, "type 0%o, minor %u, block size %u",
		sx.stx_mode & S_IFMT, sx.stx_rdev_minor, sx.stx_blksize);
}

/* The number in sysfs is the node's. */
static void numbers(void)
{
	unsigned major_ = 0, minor_ = 0;
	struct stat st = {0};
	FILE *f = fopen("/sys/class/kfd/kfd/dev", "re");
	int n = f ? fscanf(f, "%u:%u", &major_, &minor_) : 0;

	if (f)
		fclose(f);
	stat("/dev/kfd", &st);
	observe("sysfs dev", "", n == 2 ? 0 : -1, 0, "same major %d, same minor %d",
		major(st.st_rdev) == major_, minor(st.st_rdev) == minor_);
}

static void descriptor_calls(void)
{
	char b[PATH_MAX] = "", path[64];
	int fd = kfd_open(), other;
	struct epoll_event e = {.events = EPOLLIN};
	struct flock lock = {.l_type = F_WRLCK};
	fd_set set;
	long r;

#define CALL(name, expr)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		r = (expr);                                                                        \
		observe(name, "", r, errno, "%s", "");                                             \
	} while (0)
	other = epoll_create1(EPOLL_CLOEXEC);
	CALL("epoll_ctl ADD", epoll_ctl(other, EPOLL_CTL_ADD, fd, &e));
	close(other);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL("select for reading", select(fd + 1, &set, NULL, NULL, &(struct timeval){0}));
	CALL("fcntl F_SETFL O_NONBLOCK", fcntl(fd, F_SETFL, O_NONBLOCK));
	CALL("fcntl F_GETFL", fcntl(fd, F_GETFL));
	CALL("fcntl F_SETFL O_ASYNC", fcntl(fd, F_SETFL, O_ASYNC));
	CALL("fcntl F_GETOWN", fcntl(fd, F_GETOWN));
	CALL("fcntl F_GETPIPE_SZ", fcntl(fd, F_GETPIPE_SZ));
	CALL("fcntl F_GET_SEALS", fcntl(fd, F_GET_SEALS));
	CALL("fcntl F_SETLK", fcntl(fd, F_SETLK, &lock));
	CALL("flock", flock(fd, LOCK_EX | LOCK_NB));
	CALL("fallocate", fallocate(fd, 0, 0, 4096));
	CALL("posix_fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
	CALL("fdatasync", fdatasync(fd));
	CALL("sync_file_range", sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
	CALL("fchdir", fchdir(fd));
	CALL("ioctl FIONREAD", ioctl(fd, 0x541b, b));
	CALL("copy_file_range", copy_file_range(fd, NULL, fd, NULL, 8, 0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	memset(b, 0, sizeof(b));
	CALL("readlink /proc/self/fd/N", readlink(path, b, sizeof(b) - 1));
	observe("readlink", "/proc/self/fd/N", 0, 0, "%s", b);
	CALL("access /proc/self/fd/N", access(path, R_OK));
	other = fcntl(fd, F_DUPFD_CLOEXEC, 200);
	observe("fcntl F_DUPFD_CLOEXEC", "200", other < 0 ? -1 : 0, errno, "at least 200: %d",
		other >= 200);
	version(other, "through F_DUPFD_CLOEXEC");
	CALL("close_range", close_range((unsigned)other, (unsigned)other, 0));
	version(other, "after close_range");
	CALL("dup2", dup2(fd, 201) - 201);
	version(201, "through dup2");
	CALL("dup3 onto itself", dup3(fd, fd, 0));
	close(fd);
	version(fd, "original closed");
	version(201, "through dup2, original closed");
	close(201);
#undef CALL
}

static int pass(int by, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = "", c = 0;
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	return (int)sendmsg(by, &m, 0);
}

static int take(int by)
{
	char control[CMSG_SPACE(sizeof(int))] = "", c = 0;
	struct iovec iov = {&c, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *h;
	int fd = -1;

	if (recvmsg(by, &m, MSG_CMSG_CLOEXEC) < 0)
		return -1;
	h = CMSG_FIRSTHDR(&m);
	if (h)
		memcpy(&fd, CMSG_DATA(h), sizeof(fd));
	return fd;
}

/* A descriptor sent to oneself works; to another process it does not (EBADF). */
static void passed(void)
{
	int pair[2], fd = kfd_open(), got, pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		probe_die("socketpair");
	pass(pair[0], fd);
	got = take(pair[1]);
	observe("recvmsg", "own descriptor", got < 0 ? -1 : 0, errno, "%s", "");
	version(got, "received from oneself");
	close(got);
	pid = fork();
	if (!pid) {
		close(fd);
		got = take(pair[1]);
		version(got, "received from the parent");
		_exit(0);
	}
	pass(pair[0], fd);
	waitpid(pid, NULL, 0);
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

void section_files(void)
{
	names();
	name_calls();
	numbers();
	descriptor_calls();
	passed();
}
