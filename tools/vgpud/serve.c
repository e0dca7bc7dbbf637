/* The daemon's loop. */
#include "vgpud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_NS 10000000000ull /* nobody came: end */

struct share_page *page;
struct share_device device;

static int epoll_fd, page_fd;
static bool any_uid, stopping, staying;

uint64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return real_ns() - page->clock_base + __atomic_load_n(&page->clock_ahead, __ATOMIC_RELAXED);
}

/* A connection says what it is for. */
static void introduce(struct conn *k, struct share_msg *m, int fd)
{
	switch (m->op) {
	case SHARE_LOOK:
		answer(k->fd, m, &device, sizeof(device));
		break;
	case SHARE_IS_FILE:
		m->a[0] = m->a[0] ? file_kind(m->a[0]) : files_travel();
		m->err = m->a[0] ? 0 : -ENOENT;
		answer(k->fd, m, NULL, 0);
		break;
	case SHARE_HOLD:
		k->kind = CONN_HOLD;
		answer(k->fd, m, NULL, 0);
		break;
	case SHARE_JOIN:
		client_join(k, m, fd, page_fd);
		return;
	case SHARE_SLOW:
		client_slow(k, m);
		break;
	case SHARE_STATUS: {
		const char *text;
		int n = request_status(&text);

		answer(k->fd, m, text, (size_t)n);
		break;
	}
	case SHARE_STOP:
		stopping = true;
		answer(k->fd, m, NULL, 0);
		break;
	case SHARE_STAY:
		staying = true;
		answer(k->fd, m, NULL, 0);
		break;
	default:
		m->err = -EINVAL;
		answer(k->fd, m, NULL, 0);
		break;
	}
	if (fd >= 0)
		close(fd);
}

static void conn_ended(struct conn *k)
{
	if (k->client)
		client_gone(k->client);
	else
		conn_free(k);
}

static void conn_ready(struct conn *k, uint32_t events)
{
	struct share_msg m;
	int fd, r;

	if (k->kind == CONN_PID) {
		client_gone(k->client);
		return;
	}
	if (k->kind == CONN_NEWS && events & EPOLLOUT)
		conn_flush(k);
	r = conn_read(k, &m, &fd);
	if (!r && !(events & (EPOLLHUP | EPOLLERR)))
		return;
	if (r <= 0) {
		conn_ended(k);
		return;
	}
	switch (k->kind) {
	case CONN_QUICK:
		request(k->client, &m, fd);
		return;
	case CONN_SLOW:
		if (m.op == SHARE_BO_ALLOC || m.op == SHARE_VALIDATE)
			job_add(k->client, &m);
		break;
	case CONN_NEWS:
		news_answer(k->client, &m);
		break;
	default:
		introduce(k, &m, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
}

static void accept_one(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred u;
	socklen_t n = sizeof(u);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) ||
	    (!any_uid && u.uid != getuid() && u.uid != 0)) {
		close(fd);
		return;
	}
	conn_new(fd, CONN_NEW, NULL);
}

/* ---- loop ----------------------------------------------------------------- */

static bool lonely(void)
{
	for (struct conn *k = conns; k; k = k->next) {
		if (k->kind != CONN_LISTEN)
			return false;
	}
	return true;
}

static int listen_at(const char *path, bool others)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t old;
	int r;

	if (fd < 0 || strlen(path) >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	strcpy(at.sun_path, path);
	unlink(path); /* we hold the lock: whoever made it is dead */
	old = umask(others ? 0 : 0177);
	r = bind(fd, (struct sockaddr *)&at, sizeof(at));
	umask(old);
	if (r || listen(fd, 128))
		return -errno;
	return fd;
}

static int open_page(void)
{
	page_fd = memfd_create("vgpu-shared-page", MFD_CLOEXEC);
	if (page_fd < 0 || ftruncate(page_fd, SHARE_PAGE_SIZE))
		return -errno;
	page = mmap(NULL, SHARE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	page->clock_base = real_ns() - 1000000000u; /* as clock.c: up for a second */
	vgpu_clock_share(page->clock_base, &page->clock_ahead);
	return 0;
}

static int prepare(const char *path, bool others)
{
	struct conn *k;
	int fd, err = open_page();

	if (!err)
		err = memory_open();
	if (err)
		return err;
	device.version = SHARE_VERSION;
	device.config = vgpu_config;
	memcpy(device.rules, vgpu_rule_on, sizeof(device.rules));
	any_uid = others;
	epoll_fd = conn_open();
	if (epoll_fd < 0)
		return epoll_fd;
	fd = listen_at(path, others);
	if (fd < 0)
		return fd;
	k = conn_new(fd, CONN_LISTEN, NULL);
	return k ? 0 : -ENOMEM;
}

static void dispatch_event(const struct epoll_event *e)
{
	struct conn *k = conns;

	while (k && k != e->data.ptr)
		k = k->next;
	if (!k) {
		file_hung_up(e->data.ptr);
		memory_publish();
	} else if (k->kind == CONN_LISTEN) {
		accept_one(k->fd);
	} else {
		conn_ready(k, e->events);
	}
}

/* Everything that waits for time, and for nothing else. */
static int patience(void)
{
	if (requests_waiting())
		return 5;
	for (struct client *c = clients; c; c = c->next) {
		if (c->stopping)
			return 100;
	}
	return page->mes_waiting ? 1000 : -1;
}

int serve(const char *path, bool stay, bool others, int ready)
{
	int err = prepare(path, others);
	uint64_t start = real_ns();
	bool had = false;

	staying = stay;

	if (ready >= 0) {
		if (write(ready, &err, sizeof(err)) < 0)
			err = err ? err : -EPIPE;
		close(ready);
	}
	while (!err && !stopping) {
		struct epoll_event e;
		int wait = patience(), n;

		if (!staying && !had)
			wait = wait < 0 || wait > 100 ? 100 : wait;
		n = epoll_wait(epoll_fd, &e, 1, wait);
		if (n > 0)
			dispatch_event(&e);
		for (struct client *c = clients, *next; c; c = next) {
			next = c->next;
			if (c->gone)
				client_drop(c);
		}
		jobs_run();
		reset_step();
		proc_timeouts();
		had |= !lonely();
		if (!staying && lonely() && (had || real_ns() - start > FIRST_NS))
			break;
	}
	if (!err)
		unlink(path);
	return err;
}
