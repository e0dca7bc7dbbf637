/* A client's connections to the daemon of a shared device, and the thread that hears its news.
 *
 * The sockets are this address space's: a forked child closes its copies and joins anew when it
 * uses the device. All descriptors live above the numbers that programs use. The library's own
 * system calls go past libc, whose functions are hooked.
 */
#include "share/share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "ownfd.h"
#include "vm/rawsys.h"

bool share_joined;
const struct share_page *share_page;
uint64_t (*share_seats)[SHARE_SIMDS][SHARE_SLOTS];
uint32_t share_number;
struct share_handlers share_handlers;

static struct {
	pthread_mutex_t join, quick, slow;
	int quick_fd, slow_fd, news_fd, memory_fd;
	uint64_t memory_size;
	bool lost;                 /* atomic */
	char data[SHARE_DATA_MAX]; /* of the news thread */
} C = {
	.join = PTHREAD_MUTEX_INITIALIZER,
	.quick = PTHREAD_MUTEX_INITIALIZER,
	.slow = PTHREAD_MUTEX_INITIALIZER,
	.quick_fd = -1,
	.slow_fd = -1,
	.news_fd = -1,
	.memory_fd = -1,
};

static const char *socket_path(void)
{
	const char *path = getenv("VGPU_SHARED");

	return path && *path ? path : NULL;
}

bool share_on(void)
{
	return socket_path() != NULL;
}

bool share_lost(void)
{
	return __atomic_load_n(&C.lost, __ATOMIC_ACQUIRE);
}

static void close_fd(int *fd)
{
	own_fd_close(*fd);
	*fd = -1;
}

/* ---- messages ------------------------------------------------------------- */

static int send_msg(int sock, const struct share_msg *m, const void *data, int fd)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)m, sizeof(*m)},
			       {(void *)(uintptr_t)data, m->len}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr h = {.msg_iov = iov, .msg_iovlen = m->len ? 2 : 1};
	long r;

	if (fd >= 0) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		h.msg_control = control;
		h.msg_controllen = CMSG_LEN(sizeof(int));
		c->cmsg_len = CMSG_LEN(sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	do
		r = rawsys3(SYS_sendmsg, sock, &h, MSG_NOSIGNAL);
	while (r == -EINTR);
	return r < 0 ? (int)r : 0;
}

/* fds: room for two. Returns 0, or -errno; the end of the stream is -ENODEV. */
static int receive_msg(int sock, struct share_msg *m, void *data, size_t room, int fds[2])
{
	struct iovec iov[2] = {{m, sizeof(*m)}, {data, room}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct msghdr h = {
		.msg_iov = iov,
		.msg_iovlen = room ? 2 : 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = (struct cmsghdr *)control;
	long r;

	do
		r = rawsys3(SYS_recvmsg, sock, &h, MSG_CMSG_CLOEXEC);
	while (r == -EINTR);
	if (r < (long)sizeof(*m))
		return r < 0 && r != -ECONNRESET ? (int)r : -ENODEV;
	m->len = (uint32_t)(r - (long)sizeof(*m));
	if (h.msg_controllen >= CMSG_LEN(sizeof(int)) && c->cmsg_type == SCM_RIGHTS) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < n && i < 2; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (fds)
				fds[i] = own_fd(fd);
			else
				rawsys1(SYS_close, fd);
		}
	}
	return 0;
}

static int open_socket(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = socket_path();
	long fd, r;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return -EINVAL;
	strcpy(to.sun_path, path);
	fd = rawsys3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	r = rawsys3(SYS_connect, fd, &to, sizeof(to));
	if (r < 0) {
		rawsys1(SYS_close, fd);
		return (int)r;
	}
	return own_fd(fd);
}

static int transact(int sock, struct share_msg *m, int fd, const void *in, void *out, size_t *room,
		    int fds[2])
{
	uint32_t op = m->op;
	int err = send_msg(sock, m, in, fd);

	if (!err)
		err = receive_msg(sock, m, out, out ? *room : 0, fds);
	if (err)
		return err;
	if (m->op != op)
		return -EPROTO;
	if (out)
		*room = m->len;
	return m->err;
}

/* ---- what the device is --------------------------------------------------- */

static int unreachable(int err)
{
	fprintf(stderr, "vgpu: no shared device at %s: %s (barewave vgpu --shared starts one)\n",
		socket_path(), strerror(-err));
	return -ENODEV;
}

static int wrong_version(const struct share_device *d, size_t n)
{
	if (n == sizeof(*d) && d->version == SHARE_VERSION)
		return 0;
	fprintf(stderr, "vgpu: the daemon at %s is of another version of this program\n",
		socket_path());
	return -ENODEV;
}

int share_describe(struct share_device *out)
{
	struct share_msg m = {.op = SHARE_LOOK};
	size_t n = sizeof(*out);
	int sock = open_socket(), err;

	if (sock < 0)
		return unreachable(sock);
	err = transact(sock, &m, -1, NULL, out, &n, NULL);
	own_fd_close(sock);
	if (err)
		return unreachable(err);
	return wrong_version(out, n);
}

enum share_kind share_file_kind(uint64_t inode)
{
	struct share_msg m = {.op = SHARE_IS_FILE, .a = {inode}};
	int sock = open_socket(), err;

	if (sock < 0)
		return SHARE_NO_FILE;
	err = transact(sock, &m, -1, NULL, NULL, NULL, NULL);
	own_fd_close(sock);
	return err ? SHARE_NO_FILE : (enum share_kind)m.a[0];
}

/* ---- joining -------------------------------------------------------------- */

static void lose(void)
{
	if (__atomic_exchange_n(&C.lost, true, __ATOMIC_ACQ_REL))
		return;
	/* Whoever waits for an answer gets the end of the stream by itself. */
	vgpu_report("the daemon of the shared device is gone: device lost");
	if (share_handlers.lost)
		share_handlers.lost();
}

static void answer(struct share_msg *m, size_t len)
{
	m->len = (uint32_t)len;
	send_msg(C.news_fd, m, C.data, -1);
}

static void hear(struct share_msg *m)
{
	const struct share_handlers *h = &share_handlers;
	int n;

	switch (m->op) {
	case SHARE_NEWS_EVICT:
		h->evict();
		answer(m, 0);
		break;
	case SHARE_NEWS_MES:
		h->mes();
		break;
	case SHARE_NEWS_RESET_BEGIN:
		h->reset_begin((int)m->a[0], (uint32_t)m->a[1]);
		answer(m, 0);
		break;
	case SHARE_NEWS_RESET_END:
		h->reset_end((uint32_t)m->a[0]);
		break;
	case SHARE_NEWS_SMI:
		h->smi((pid_t)m->a[0], (int)m->a[1], C.data, m->len);
		break;
	case SHARE_NEWS_PROC:
		n = h->about((int)m->a[1], C.data, sizeof(C.data));
		m->err = n < 0 ? n : 0;
		answer(m, n < 0 ? 0 : (size_t)n);
		break;
	}
}

static void *news_main(void *arg)
{
	struct share_msg m;

	(void)arg;
	while (!receive_msg(C.news_fd, &m, C.data, sizeof(C.data), NULL))
		hear(&m);
	lose();
	return NULL;
}

static void leave(void)
{
	close_fd(&C.quick_fd);
	close_fd(&C.slow_fd);
	close_fd(&C.news_fd);
	close_fd(&C.memory_fd);
	if (share_page)
		rawsys2(SYS_munmap, share_page, SHARE_PAGE_SIZE);
	share_page = NULL;
	share_seats = NULL;
	share_joined = false;
}

void share_after_fork(void)
{
	pthread_mutex_init(&C.join, NULL);
	pthread_mutex_init(&C.quick, NULL);
	pthread_mutex_init(&C.slow, NULL);
	vgpu_clock_share(0, NULL);
	leave();
	C.lost = false;
}

static int join_news(int *ours, int *theirs)
{
	int sv[2] = {-1, -1};
	long r = rawsys4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv);

	if (r < 0)
		return (int)r;
	*ours = own_fd(sv[0]);
	*theirs = sv[1];
	return 0;
}

static int map_page(int fd)
{
	struct share_page *p;
	long r = rawsys6(SYS_mmap, 0, SHARE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if ((unsigned long)r > -4096ul)
		return (int)r;
	p = (struct share_page *)r;
	share_page = p;
	share_seats = p->seat;
	vgpu_clock_share(p->clock_base, &p->clock_ahead);
	return 0;
}

static int join_locked(void)
{
	struct share_msg m = {.op = SHARE_JOIN}, s = {.op = SHARE_SLOW};
	struct share_device d;
	size_t n = sizeof(d);
	int fds[2] = {-1, -1}, theirs = -1, err;
	struct stat st = {0};
	pthread_t thread;
	sigset_t all, old;

	C.quick_fd = open_socket();
	if (C.quick_fd < 0)
		return unreachable(C.quick_fd);
	err = join_news(&C.news_fd, &theirs);
	if (err)
		goto out;
	err = transact(C.quick_fd, &m, theirs, NULL, &d, &n, fds);
	if (err)
		goto out;
	err = wrong_version(&d, n);
	if (err)
		goto out;
	C.memory_fd = fds[0];
	fds[0] = -1;
	if (rawsys2(SYS_fstat, C.memory_fd, &st))
		err = -EINVAL;
	C.memory_size = (uint64_t)st.st_size;
	if (!err)
		err = map_page(fds[1]);
	if (err)
		goto out;
	C.slow_fd = open_socket();
	if (C.slow_fd < 0) {
		err = C.slow_fd;
		goto out;
	}
	s.a[0] = m.a[0];
	share_number = (uint32_t)m.a[0];
	s.a[1] = m.a[1];
	err = transact(C.slow_fd, &s, -1, NULL, NULL, NULL, NULL);
	if (err)
		goto out;
	C.lost = false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&thread, NULL, news_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		goto out;
	pthread_setname_np(thread, "vgpu-news");
	pthread_detach(thread);
	share_joined = true;
out:
	close_fd(&theirs);
	close_fd(&fds[0]);
	close_fd(&fds[1]);
	if (err) {
		vgpu_clock_share(0, NULL);
		leave();
		return unreachable(err);
	}
	return 0;
}

int share_join(void)
{
	static bool atfork;
	int err = 0;

	pthread_mutex_lock(&C.join);
	if (!atfork) {
		pthread_atfork(NULL, NULL, share_after_fork);
		atfork = true;
	}
	if (!share_joined)
		err = join_locked();
	pthread_mutex_unlock(&C.join);
	return err;
}

int share_memory_fd(uint64_t *size)
{
	*size = C.memory_size;
	return C.memory_fd;
}

/* ---- calls ---------------------------------------------------------------- */

int share_call_data(enum share_op op, uint64_t a[SHARE_ARGS], int fd, const void *in, size_t in_len,
		    void *out, size_t *out_len)
{
	bool slow = op == SHARE_BO_ALLOC || op == SHARE_VALIDATE;
	pthread_mutex_t *lock = slow ? &C.slow : &C.quick;
	struct share_msg m = {.op = op, .len = (uint32_t)in_len};
	int err;

	if (!share_joined || share_lost())
		return -ENODEV;
	memcpy(m.a, a, sizeof(m.a));
	pthread_mutex_lock(lock);
	err = transact(slow ? C.slow_fd : C.quick_fd, &m, fd, in, out, out_len, NULL);
	pthread_mutex_unlock(lock);
	if (err == -EPIPE)
		err = -ENODEV;
	/* The answer's words come with errors, too. */
	if (err != -ENODEV)
		memcpy(a, m.a, sizeof(m.a));
	return err;
}

int share_call(enum share_op op, uint64_t a[SHARE_ARGS])
{
	return share_call_data(op, a, -1, NULL, 0, NULL, NULL);
}

int share_bo_alloc(uint32_t domain, uint64_t size, uint64_t *number, uint64_t *offset)
{
	uint64_t a[SHARE_ARGS] = {domain, size};
	int err = share_call(SHARE_BO_ALLOC, a);

	if (err)
		return err;
	*number = a[0];
	*offset = a[1];
	return 0;
}

void share_bo_put(uint64_t number)
{
	uint64_t a[SHARE_ARGS] = {number};

	share_call(SHARE_BO_PUT, a);
}
