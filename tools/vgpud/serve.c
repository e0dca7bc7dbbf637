/* The daemon's loop: connections, clients, requests, news. */
#include "vgpud.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define OUT_MAX       1000u         /* news that wait for a client to listen */
#define RESET_TIME_NS 500000000ull  /* MODE2 (soc21.c) */
#define ANSWER_NS     5000000000ull /* for a reset to begin in every client */
#define PROC_NS       1000000000ull
#define FIRST_NS      10000000000ull /* nobody came: end */
#define MAX_SDMA      8
#define DEVICE_QUEUES 4096 /* amdgpu.max_num_of_queues_per_device */

enum conn_kind { CONN_LISTEN, CONN_NEW, CONN_HOLD, CONN_QUICK, CONN_SLOW, CONN_NEWS, CONN_PID };

struct conn {
	struct conn *next;
	enum conn_kind kind;
	int fd;
	struct client *client;
};

struct client *clients;
struct share_page *page;
struct kfd_limits limits;
struct vgpud_totals totals;

static struct conn *conns;
static struct proc_wait *proc_waits;
static struct share_device device;
static int epoll_fd, page_fd;
static bool any_uid, stopping, staying;
static uint32_t next_client, next_pasid = 0x8000, sdma_used = 3, queue_count;
static uint64_t next_request;
static char scratch[SHARE_DATA_MAX], reply[SHARE_DATA_MAX];

static struct {
	enum { IDLE, BEGINNING, RUNNING } state;
	uint32_t seq;
	uint64_t deadline; /* real ns */
} reset;

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

static void flush_news(struct conn *k)
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

/* ---- connections and clients ---------------------------------------------- */

static struct conn *conn_new(int fd, enum conn_kind kind, struct client *c)
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

static void conn_free(struct conn *k)
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

static void reset_step(void);

static void client_drop(struct client *c)
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
	for (struct proc_wait **w = &proc_waits, *p; (p = *w);) {
		if (p->from != c && p->to != c) {
			w = &p->next;
			continue;
		}
		if (p->to == c) {
			struct share_msg m = {.op = SHARE_PROC, .err = -ENOENT};

			answer(p->from->quick, &m, NULL, 0);
		}
		*w = p->next;
		free(p);
	}
	places_drop(c);
	files_drop(c);
	memory_drop(c);
	sdma_used &= ~c->sdma;
	queue_count -= c->queues;
	page->smi_streams -= c->smi_streams;
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

static void join(struct conn *k, struct share_msg *m, int news)
{
	struct client *c = calloc(1, sizeof(*c));
	int fds[2] = {memory_fd(), page_fd}, pidfd;
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

static void slow(struct conn *k, struct share_msg *m)
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

/* ---- reset ---------------------------------------------------------------- */

static void reset_request(uint64_t source)
{
	uint64_t a[2] = {source, reset.seq + 1};

	if (reset.state != IDLE)
		return;
	reset.seq++;
	reset.state = BEGINNING;
	reset.deadline = real_ns() + ANSWER_NS;
	page->in_reset = 1;
	page->mes_dead = 0;
	totals.resets++;
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GPU reset begin!", vgpu_config.pci_bus);
	for (struct client *c = clients; c; c = c->next) {
		c->reset_pending = true;
		tell(c, SHARE_NEWS_RESET_BEGIN, a, NULL, 0);
	}
}

static void reset_step(void)
{
	uint64_t now = real_ns(), a[2] = {page->resets + 1, 0};
	bool pending = false;

	if (reset.state == BEGINNING) {
		for (struct client *c = clients; c; c = c->next)
			pending |= c->reset_pending && !c->gone;
		if (pending && now < reset.deadline)
			return;
		reset.state = RUNNING;
		reset.deadline = now + RESET_TIME_NS;
		if (vgpu_config.clock_virtual) {
			__atomic_fetch_add(&page->clock_ahead, RESET_TIME_NS, __ATOMIC_RELAXED);
			reset.deadline = now;
		}
	}
	if (reset.state != RUNNING || now < reset.deadline)
		return;
	reset.state = IDLE;
	page->in_reset = 0;
	page->resets++;
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GPU reset(%u) succeeded!", vgpu_config.pci_bus,
		 page->resets);
	for (struct client *c = clients; c; c = c->next)
		tell(c, SHARE_NEWS_RESET_END, a, NULL, 0);
}

/* ---- requests ------------------------------------------------------------- */

static int status_json(char *buf, size_t n)
{
	unsigned resident, queues = places_count(&resident), kfd = 0;
	uint64_t bytes;
	unsigned bos = memory_count(&bytes);

	for (struct client *c = clients; c; c = c->next)
		kfd += c->kfd;
#define U(x) (unsigned long long)(x)
	return snprintf(buf, n,
			"{\"pid\": %d, \"clients\": %u, \"kfd_processes\": %u, \"bos\": %u, "
			"\"bo_bytes\": %llu, \"vram\": %llu, \"gtt\": %llu, \"evicted\": %llu, "
			"\"preempt\": %llu, \"system\": %llu, \"ttm\": %llu, \"kfd_vram\": %llu, "
			"\"files\": %u, \"mes_queues\": %u, \"on_hardware\": %u, \"queues\": %u, "
			"\"sdma\": %d, \"smi_streams\": %u, \"total\": {\"clients\": %llu, "
			"\"evictions\": %llu, \"moves\": %llu, \"resets\": %llu}}",
			(int)getpid(), page->clients, kfd, bos, U(bytes), U(page->placed_vram),
			U(page->placed_gtt), U(page->placed_system), U(page->placed_preempt),
			U(limits.sys_used), U(limits.ttm_used), U(limits.vram_used), files_count(),
			queues, resident, queue_count, __builtin_popcount(sdma_used) - 2,
			page->smi_streams, U(totals.clients), U(totals.evictions), U(totals.moves),
			U(totals.resets));
#undef U
}

static int sdma(struct client *c, struct share_msg *m)
{
	if (m->a[0] != ~0ull) {
		uint32_t bit = m->a[0] < MAX_SDMA ? 1u << m->a[0] : 0;

		if (!(c->sdma & bit))
			return -EINVAL;
		c->sdma &= ~bit;
		sdma_used &= ~bit;
		return 0;
	}
	for (uint32_t i = 0; i < MAX_SDMA; i++) {
		if (sdma_used & 1u << i)
			continue;
		sdma_used |= 1u << i;
		c->sdma |= 1u << i;
		m->a[0] = i;
		return 0;
	}
	return -ENOMEM;
}

static int count_queue(struct client *c, int64_t n)
{
	if (n < 0) {
		if (!c->queues)
			return -EINVAL;
		c->queues--;
		queue_count--;
		return 0;
	}
	if (queue_count >= DEVICE_QUEUES)
		return -EPERM;
	c->queues++;
	queue_count++;
	return 0;
}

static int smi_stream(struct client *c, int64_t n)
{
	if (n < 0 && !c->smi_streams)
		return -EINVAL;
	c->smi_streams += (uint32_t)n;
	page->smi_streams += (uint32_t)n;
	return 0;
}

static void smi(struct client *from, const struct share_msg *m, const char *text)
{
	for (struct client *c = clients; c; c = c->next) {
		if (c != from && c->smi_streams)
			tell(c, SHARE_NEWS_SMI, m->a, text, m->len);
	}
}

static size_t procs(pid_t *out, size_t max)
{
	size_t n = 0;

	for (struct client *c = clients; c && n < max; c = c->next) {
		if (c->kfd)
			out[n++] = c->pid;
	}
	return n * sizeof(*out);
}

/* Asks the process itself. 0: the answer comes later. */
static int proc(struct client *from, const struct share_msg *m)
{
	struct client *to = clients;
	uint64_t a[2] = {++next_request, m->a[1]};
	struct proc_wait *w;

	while (to && (to->pid != (pid_t)m->a[0] || to->gone))
		to = to->next;
	if (!to || to == from)
		return -ENOENT;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct proc_wait){proc_waits, a[0], real_ns() + PROC_NS, from, to};
	proc_waits = w;
	tell(to, SHARE_NEWS_PROC, a, NULL, 0);
	return 0;
}

static void proc_answered(const struct share_msg *m, const void *data)
{
	struct proc_wait **pos = &proc_waits, *w;
	struct share_msg r = {.op = SHARE_PROC, .err = m->err};

	while ((w = *pos) && w->request != m->a[0])
		pos = &w->next;
	if (!w)
		return;
	*pos = w->next;
	answer(w->from->quick, &r, data, m->len);
	free(w);
}

static void proc_timeouts(void)
{
	uint64_t now = real_ns();

	for (struct proc_wait **pos = &proc_waits, *w; (w = *pos);) {
		struct share_msg r = {.op = SHARE_PROC, .err = -ETIMEDOUT};

		if (now < w->deadline) {
			pos = &w->next;
			continue;
		}
		*pos = w->next;
		answer(w->from->quick, &r, NULL, 0);
		free(w);
	}
}

static int bo_set(struct bo *bo, const struct share_msg *m, const void *data)
{
	if (m->len > sizeof(bo->meta))
		return -EINVAL;
	bo->cpu_access = m->a[1] != 0;
	bo->meta_flags = m->a[2];
	bo->tiling = m->a[3];
	bo->meta_size = m->len;
	memcpy(bo->meta, data, m->len);
	return 0;
}

static int bo_request(struct client *c, struct share_msg *m, const void *data, size_t *len)
{
	struct bo *bo = bo_find(m->a[0]);
	struct holder *h = bo ? bo->holders : NULL;

	/* Numbers are easily guessed: only those who were given a buffer may name it. */
	while (h && h->client != c)
		h = h->next;
	if (!h)
		return -ENOENT;
	switch (m->op) {
	case SHARE_BO_CHARGE:
		return bo_charge(bo, c, (uint32_t)m->a[1]);
	case SHARE_BO_PUT:
		return bo_put(bo, c);
	case SHARE_BO_KFD:
		h->kfd = true;
		return 0;
	case SHARE_BO_SET:
		return bo_set(bo, m, data);
	case SHARE_BO_GET:
		m->a[1] = bo->cpu_access;
		m->a[2] = bo->meta_flags;
		m->a[3] = bo->tiling;
		*len = bo->meta_size;
		memcpy(reply, bo->meta, bo->meta_size);
		return 0;
	}
	return -EINVAL;
}

static bool holds(const struct client *c, uint64_t number)
{
	const struct bo *bo = bo_find(number);
	const struct holder *h = bo ? bo->holders : NULL;

	while (h && h->client != c)
		h = h->next;
	return h != NULL;
}

/* One request of a client; fd came with it (or -1) and is taken over. */
static void request(struct client *c, struct share_msg *m, int fd)
{
	const char *why = "";
	size_t len = 0;
	int err = -EINVAL;

	switch (m->op) {
	case SHARE_KFD_OPEN:
		c->kfd = true;
		m->a[0] = ++next_pasid;
		err = 0;
		break;
	case SHARE_RESERVE:
		err = memory_reserve(c, (uint32_t)m->a[0], m->a[1], &why);
		if (err)
			len = (size_t)snprintf(reply, sizeof(reply), "%s", why) + 1;
		break;
	case SHARE_UNRESERVE:
		memory_unreserve(c, (uint32_t)m->a[0], m->a[1]);
		err = 0;
		break;
	case SHARE_AVAILABLE:
		m->a[0] = kfd_limits_available(&limits);
		err = 0;
		break;
	case SHARE_PLACED:
		err = memory_placed(c, (uint32_t)m->a[0], (int64_t)m->a[1]);
		break;
	case SHARE_BO_CHARGE:
	case SHARE_BO_PUT:
	case SHARE_BO_KFD:
	case SHARE_BO_SET:
	case SHARE_BO_GET:
		err = bo_request(c, m, scratch, &len);
		break;
	case SHARE_BO_AT:
		err = bo_at(m->a[0]) ? 0 : -ENOENT;
		break;
	case SHARE_FILE_ADD:
		err = m->a[0] == SHARE_DMABUF && !holds(c, m->a[2]) ? -ENOENT : file_add(c, m, fd);
		if (!err)
			fd = -1;
		break;
	case SHARE_FILE_FIND:
		err = file_find(c, m, (struct share_bo *)reply, &len);
		break;
	case SHARE_FILE_PUT:
		err = file_put(c, m->a[0]);
		break;
	case SHARE_HANDLE_ADD:
		err = holds(c, m->a[1]) ? file_handle(c, m, (struct share_bo *)reply, &len)
					: -ENOENT;
		break;
	case SHARE_HANDLE_PUT:
	case SHARE_HANDLE_FIND:
		err = file_handle(c, m, (struct share_bo *)reply, &len);
		break;
	case SHARE_FILE_COMPUTE:
		err = file_compute(m->a[0], m->a[1] != 0);
		break;
	case SHARE_SDMA:
		err = sdma(c, m);
		break;
	case SHARE_QUEUES:
		err = count_queue(c, (int64_t)m->a[0]);
		break;
	case SHARE_MES_ADD:
		err = place_add(c, m);
		break;
	case SHARE_MES_REMOVE:
		err = place_remove(c, (uint32_t)m->a[0]);
		break;
	case SHARE_MES_TICK:
		len = place_tick(c, (const struct share_need *)scratch,
				 m->len / sizeof(struct share_need), (struct share_turn *)reply,
				 sizeof(reply) / sizeof(struct share_turn)) *
		      sizeof(struct share_turn);
		err = 0;
		break;
	case SHARE_MES_LEFT:
		err = place_left(c, (uint32_t)m->a[0], m->a[1] != 0);
		break;
	case SHARE_RESET:
		reset_request(m->a[0]);
		err = 0;
		break;
	case SHARE_MES_DEAD:
		page->mes_dead = 1;
		err = 0;
		break;
	case SHARE_SMI_STREAM:
		err = smi_stream(c, (int64_t)m->a[0]);
		break;
	case SHARE_SMI:
		smi(c, m, scratch);
		err = 0;
		break;
	case SHARE_PROCS:
		len = procs((pid_t *)reply, sizeof(reply) / sizeof(pid_t));
		err = 0;
		break;
	case SHARE_PROC:
		err = proc(c, m);
		if (!err)
			return;
		break;
	}
	if (fd >= 0)
		close(fd);
	memory_publish();
	m->err = err;
	answer(c->quick, m, reply, len);
}

static void news_answer(struct client *c, const struct share_msg *m)
{
	switch (m->op) {
	case SHARE_NEWS_EVICT:
		if (c->stopping)
			c->stopped = true;
		c->stopping = false;
		break;
	case SHARE_NEWS_RESET_BEGIN:
		c->reset_pending = false;
		break;
	case SHARE_NEWS_PROC:
		proc_answered(m, scratch);
		break;
	}
}

/* A connection says what it is for. */
static void introduce(struct conn *k, struct share_msg *m, int fd)
{
	switch (m->op) {
	case SHARE_LOOK:
		answer(k->fd, m, &device, sizeof(device));
		break;
	case SHARE_IS_FILE:
		m->err = file_known(m->a[0]) ? 0 : -ENOENT;
		answer(k->fd, m, NULL, 0);
		break;
	case SHARE_HOLD:
		k->kind = CONN_HOLD;
		answer(k->fd, m, NULL, 0);
		break;
	case SHARE_JOIN:
		join(k, m, fd);
		return;
	case SHARE_SLOW:
		slow(k, m);
		break;
	case SHARE_STATUS: {
		int n = status_json(reply, sizeof(reply));

		/* The closing brace makes room for the list. */
		n += snprintf(reply + n - 1, sizeof(reply) - (size_t)n, ", \"places\": [") - 1;
		n += (int)places_json(reply + n, sizeof(reply) - (size_t)n - 8);
		n += snprintf(reply + n, 8, "]}");
		answer(k->fd, m, reply, (size_t)n);
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

/* 1: a message; 0: nothing there; -1: the end. */
static int read_msg(int sock, struct share_msg *m, int *fd)
{
	struct iovec iov[2] = {{m, sizeof(*m)}, {scratch, sizeof(scratch)}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr h = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

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
		flush_news(k);
	r = read_msg(k->fd, &m, &fd);
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
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
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
	if (reset.state != IDLE || proc_waits)
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
