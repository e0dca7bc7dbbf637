/* vgpud: the daemon of a shared virtual device, and the commands that start, ask and stop it.
 *
 *   vgpud --socket PATH [--others] -- PROGRAM [ARGS]   starts the daemon if there is none, runs PROGRAM
 *   vgpud --socket PATH [--others] --daemon            starts it, to stay
 *   vgpud --socket PATH --status | --stop
 *   vgpud --socket PATH --serve FD [--stay] [--others] the daemon itself
 *
 * A daemon holds a lock on PATH.lock as long as it lives; a socket without one is left over.
 */
#include "vgpud.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ownfd.h"

#define START_TRY 3000 /* times 20 ms: another one's start, on whatever machine */

static struct {
	const char *socket;
	bool daemon, stay, status, stop, others;
	int serve;
} opt = {.socket = "", .serve = -1};

static int fail(const char *what, int err)
{
	fprintf(stderr, "barewave: shared device %s: %s: %s\n", opt.socket, what, strerror(-err));
	return 1;
}

static int connect_daemon(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(opt.socket) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, opt.socket);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* 0 with the answer's text in buf, or -errno. */
static int ask(int fd, enum share_op op, char *buf, size_t n)
{
	struct share_msg m = {.op = op};
	struct iovec iov[2] = {{&m, sizeof(m)}, {buf, n - 1}};
	struct msghdr h = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t r = send(fd, &m, sizeof(m), MSG_NOSIGNAL);

	if (r == (ssize_t)sizeof(m))
		r = recvmsg(fd, &h, 0);
	if (r < (ssize_t)sizeof(m))
		return r < 0 ? -errno : -ECONNRESET;
	buf[r - (ssize_t)sizeof(m)] = 0;
	return m.err;
}

static int command(enum share_op op)
{
	static char text[SHARE_DATA_MAX];
	int fd = connect_daemon(), err;

	if (fd < 0)
		return fail("no daemon", fd);
	err = ask(fd, op, text, sizeof(text));
	if (!err && op == SHARE_STATUS)
		puts(text);
	/* Gone when it has closed its end. */
	if (!err && op == SHARE_STOP && recv(fd, text, sizeof(text), 0) < 0 && errno != ECONNRESET)
		err = -errno;
	close(fd);
	return err ? fail("no answer", err) : 0;
}

/* ---- starting ------------------------------------------------------------- */

static const char *lock_path(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s.lock", opt.socket);
	return path;
}

static int take_lock(void)
{
	const char *path = lock_path();
	struct stat st;
	int fd;

	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, opt.others ? 0666 : 0600);
	if (fd < 0)
		return -errno;
	/* One without a name is a daemon's that has just ended: its successor has another. */
	if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &st) || !st.st_nlink) {

		close(fd);
		return -EWOULDBLOCK;
	}
	return fd;
}

/* The daemon is this program again, without the preloads: it is no client. */
static void exec_daemon(int ready)
{
	char fd[16];
	char *argv[8] = {"vgpud", "--socket", (char *)(uintptr_t)opt.socket, "--serve", fd};
	unsigned n = 5;
	int null = open("/dev/null", O_RDWR);

	snprintf(fd, sizeof(fd), "%d", ready);
	if (opt.daemon)
		argv[n++] = "--stay";
	if (opt.others)
		argv[n++] = "--others";
	argv[n] = NULL;
	setsid();
	/* Whoever reads what the program writes must not wait for the daemon. */
	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	unsetenv("LD_PRELOAD");
	execv("/proc/self/exe", argv);
	_exit(127);
}

/* 0: it listens. -EWOULDBLOCK: another one is being started. */
static int start_daemon(void)
{
	int p[2], err = -EIO, status;
	pid_t pid;

	/* What is wrong with the device's description is said here, on the terminal. */
	err = vgpu_config_load();
	if (err)
		return err;
	err = -EIO;
	if (pipe(p))
		return -errno;
	pid = fork();
	if (!pid) {
		close(p[0]);
		/* Twice, so that it is no child of the program's. */
		if (!fork())
			exec_daemon(p[1]);
		_exit(0);
	}
	close(p[1]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (read(p[0], &err, sizeof(err)) != (ssize_t)sizeof(err))
		err = -EIO;
	close(p[0]);
	return err;
}

/* A connection that keeps the daemon alive. */
static int hold(void)
{
	char none[16];
	int err = 0, fd;

	for (unsigned i = 0; i < START_TRY; i++) {
		const struct timespec nap = {.tv_nsec = 20000000};

		fd = connect_daemon();
		if (fd >= 0) {
			/* It may be on its way out: then there is another one to start. */
			if (!ask(fd, SHARE_HOLD, none, sizeof(none)))
				return fd;
			close(fd);
		} else if (fd != -ENOENT && fd != -ECONNREFUSED) {
			return fd;
		}
		err = start_daemon();
		if (err && err != -EWOULDBLOCK)
			return err;
		if (err)
			nanosleep(&nap, NULL);
	}
	return err ? err : -ETIMEDOUT;
}

static int run_program(char **argv)
{
	int fd = hold(), high;
	char number[16];

	if (fd < 0)
		return fail("cannot start the daemon", fd);
	/* Stays open over the exec, above the numbers that programs use: the daemon lives as long as
	 * the program and what it starts, client or not. */
	high = fcntl(fd, F_DUPFD, OWN_FD_FIRST);
	if (high < 0)
		fcntl(fd, F_SETFD, 0);
	else
		close(fd);
	snprintf(number, sizeof(number), "%d", high);
	if (setenv("VGPU_SHARED", opt.socket, 1) || setenv("VGPU_SHARED_HOLD", number, 1))
		return fail("VGPU_SHARED", -errno);
	execvp(argv[0], argv);
	fprintf(stderr, "barewave: %s: %s\n", argv[0], strerror(errno));
	return 1;
}

static int run_daemon(void)
{
	int lock, err = 0;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	lock = take_lock();
	if (lock < 0)
		err = lock;
	if (!err)
		err = vgpu_config_load();
	if (!err)
		vgpu_props_init(&vgpu_props);
	if (err) {
		if (write(opt.serve, &err, sizeof(err)) < 0)
			return 1;
		return 1;
	}
	fcntl(opt.serve, F_SETFD, FD_CLOEXEC);
	err = serve(opt.socket, opt.stay, opt.others, opt.serve);
	unlink(lock_path());
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, 's'}, {"daemon", no_argument, NULL, 'd'},
		{"stay", no_argument, NULL, 'y'},         {"status", no_argument, NULL, 'q'},
		{"stop", no_argument, NULL, 'x'},         {"others", no_argument, NULL, 'o'},
		{"serve", required_argument, NULL, 'v'},  {NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (o) {
		case 's':
			opt.socket = optarg;
			break;
		case 'd':
			opt.daemon = true;
			break;
		case 'y':
			opt.stay = true;
			break;
		case 'q':
			opt.status = true;
			break;
		case 'x':
			opt.stop = true;
			break;
		case 'o':
			opt.others = true;
			break;
		case 'v':
			opt.serve = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	if (!*opt.socket) {
		fputs("vgpud: --socket PATH is missing; barewave vgpu --shared gives it\n", stderr);
		return 2;
	}
	/* A daemon describes the device; it does not ask one. */
	if (opt.serve >= 0 || opt.daemon || optind < argc)
		unsetenv("VGPU_SHARED");
	if (opt.serve >= 0)
		return run_daemon();
	if (opt.status)
		return command(SHARE_STATUS);
	if (opt.stop)
		return command(SHARE_STOP);
	if (opt.daemon) {
		char none[16];
		int fd = hold(), err = fd < 0 ? fd : 0;

		/* One that would have ended with its last client stays, too. */
		if (!err)
			err = ask(fd, SHARE_STAY, none, sizeof(none));
		return err ? fail("cannot start the daemon", err) : 0;
	}
	if (optind < argc)
		return run_program(argv + optind);
	return 2;
}
