/* Connections of clients: messages in and out, and who comes and goes. */
#include "vgpud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OUT_MAX 1000u /* news that wait for a client to listen */

struct client *clients;
struct conn *conns;
char incoming[SHARE_DATA_MAX];

static int epoll_fd;
static uint32_t next_client;

int conn_open(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd < 0 ? -errno : epoll_fd;
}

/* ---- sending -------------------------------------------------------------- */

static int send_fds(int sock, const struct share_msg *m, const void *data, const int *fds,
		    unsigned n, int flags)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)m, sizeof(*m)},
			       {(void *)(uintptr_t)data, m->len}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct msghdr h = {.msg_iov = iov, .msg_iovlen = m->len ? 2 : 1};

	if (n) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		h.msg_control = control;
		h.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return sendmsg(sock, &h, MSG_NOSIGNAL | flags) < 0 ? -errno : 0;
}

/* Whoever asked waits for it, so there is room in the socket; one who does not is cut off. */
void answer(int sock, struct share_msg *m, const void *data, size_t len)
{
	m->len = (uint32_t)len;
	send_fds(sock, m, data, NULL, 0, MSG_DONTWAIT);
}

static int watch_events(int fd, void *who, uint32_t events, int op)
{
	struct epoll_event e = {.events = events, .data.ptr = who};

	return epoll_ctl(epoll_fd, op, fd, &e) ? -errno : 0;
}

int watch_fd(int fd, void *who)
{
	return watch_events(fd, who, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD);
}

int watch_end(int fd, void *who)
{
	return watch_events(fd, who, EPOLLRDHUP, EPOLL_CTL_ADD);
}

static struct conn *conn_of(const struct client *c, enum conn_kind kind)
{
	struct conn *k = conns;

	while (k && (k->client != c || k->kind != kind))
		k = k->next;
	return k;
}

void tell(struct client *c, enum share_op op, const uint64_t a[2], const void *data, size_t len)
{
	struct share_msg m = {.op = op, .len = (uint32_t)len, .a = {a[0], a[1]}};
	struct out_msg *o;
	struct conn *k;

	if (c->gone)
		return;
	if (!c->out && !send_fds(c->news, &m, data, NULL, 0, MSG_DONTWAIT))
		return;
	/* Events that nobody reads are lost, as a full FIFO loses them; orders are not. */
	if (c->out_n >= OUT_MAX && (op == SHARE_NEWS_SMI || op == SHARE_NEWS_MES))
		return;
	o = calloc(1, sizeof(*o) + len);
	k = conn_of(c, CONN_NEWS);
	if (!o || !k) {
		free(o);
		client_gone(c);
		return;
	}
	o->m = m;
	if (len)
		memcpy(o->data, data, len);
	if (!c->out)
		c->out_end = &c->out;
	*c->out_end = o;
	c->out_end = &o->next;
	c->out_n++;
	watch_events(c->news, k, EPOLLIN | EPOLLRDHUP | EPOLLOUT, EPOLL_CTL_MOD);
}

void conn_flush(struct conn *k)
{
	struct client *c = k->client;
	struct out_msg *o;

	while ((o = c->out) && !send_fds(c->news, &o->m, o->data, NULL, 0, MSG_DONTWAIT)) {
		c->out = o->next;
		c->out_n--;
		free(o);
	}
	if (!c->out)
		watch_events(c->news, k, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD);
}

/* 1: a message; 0: nothing there; -1: the end. */
int conn_read(struct conn *k, struct share_msg *m, int *fd)
{
	struct iovec iov[2] = {{m, sizeof(*m)}, {incoming, sizeof(incoming)}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr h = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	ssize_t n = recvmsg(k->fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	*fd = -1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	c = CMSG_FIRSTHDR(&h);
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len >= CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	if (n < (ssize_t)sizeof(*m)) {
		if (*fd >= 0)
			close(*fd);
		return -1;
	}
	m->len = (uint32_t)(n - (ssize_t)sizeof(*m));
	m->err = 0;
	return 1;
}

/* ---- connections and clients ---------------------------------------------- */

struct conn *conn_new(int fd, enum conn_kind kind, struct client *c)
{
	struct conn *k = calloc(1, sizeof(*k));

	if (!k || watch_fd(fd, k)) {
		free(k);
		close(fd);
		return NULL;
	}
	*k = (struct conn){conns, kind, fd, c};
	conns = k;
	return k;
}

void conn_free(struct conn *k)
{
	struct conn **pos = &conns;

	while (*pos != k)
		pos = &(*pos)->next;
	*pos = k->next;
	close(k->fd);
	free(k);
}

void client_gone(struct client *c)
{
	c->gone = true;
}

void client_drop(struct client *c)
{
	struct client **pos = &clients;
	struct out_msg *o;

	for (struct conn *k = conns, *next; k; k = next) {
		next = k->next;
		if (k->client == c)
			conn_free(k);
	}
	while (*pos != c)
		pos = &(*pos)->next;
	*pos = c->next;
	places_drop(c);
	files_drop(c);
	memory_drop(c);
	requests_drop(c);
	page->clients--;
	while ((o = c->out)) {
		c->out = o->next;
		free(o);
	}
	vgpu_log("vgpud: process %d is gone: its memory and queues are free", (int)c->pid);
	free(c);
	memory_publish();
	reset_step();
}

static struct client *client_of(uint32_t number, uint64_t key)
{
	for (struct client *c = clients; c; c = c->next) {
		if (c->number == number && c->key == key)
			return c;
	}
	return NULL;
}

static pid_t peer_pid(int fd)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) ? 0 : u.pid;
}

void client_join(struct conn *k, struct share_msg *m, int news, int fd_of_page)
{
	struct client *c = calloc(1, sizeof(*c));
	int fds[2] = {memory_fd(), fd_of_page}, pidfd;
	struct conn *n;

	if (!c || news < 0 || getrandom(&c->key, sizeof(c->key), 0) != sizeof(c->key)) {
		m->err = -EINVAL;
		answer(k->fd, m, NULL, 0);
		free(c);
		if (news >= 0)
			close(news);
		return;
	}
	c->number = ++next_client;
	c->pid = peer_pid(k->fd);
	c->quick = k->fd;
	c->slow = -1;
	c->news = news;
	c->next = clients;
	clients = c;
	page->clients++;
	totals.clients++;
	k->kind = CONN_QUICK;
	k->client = c;
	n = conn_new(news, CONN_NEWS, c);
	/* A process is gone when it is, even if a child has copies of its sockets. */
	pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (pidfd >= 0)
		conn_new(pidfd, CONN_PID, c);
	if (!n) {
		client_gone(c);
		return;
	}
	m->a[0] = c->number;
	m->a[1] = c->key;
	m->len = sizeof(device);
	send_fds(k->fd, m, &device, fds, 2, MSG_DONTWAIT);
	vgpu_log("vgpud: process %d joins", (int)c->pid);
}

void client_slow(struct conn *k, struct share_msg *m)
{
	struct client *c = client_of((uint32_t)m->a[0], m->a[1]);

	m->err = c && c->slow < 0 ? 0 : -EINVAL;
	if (!m->err) {
		c->slow = k->fd;
		k->kind = CONN_SLOW;
		k->client = c;
	}
	answer(k->fd, m, NULL, 0);
}
