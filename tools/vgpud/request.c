/* What clients ask for, one request after the other; resets, which are everybody's. */
#include "vgpud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESET_TIME_NS 500000000ull  /* MODE2 (soc21.c) */
#define ANSWER_NS     5000000000ull /* for a reset to begin in every client */
#define PROC_NS       5000000000ull /* for a process to tell about itself */
#define MAX_SDMA      8
#define DEVICE_QUEUES 4096 /* amdgpu.max_num_of_queues_per_device */

struct vgpud_totals totals;

static struct proc_wait *proc_waits;
static uint32_t next_pasid = 0x8000, sdma_used = 3, watch_used, queue_count;
static uint64_t next_request;
static char reply[SHARE_DATA_MAX];

static struct {
	enum { IDLE, BEGINNING, RUNNING } state;
	uint32_t seq;
	uint64_t deadline; /* real ns */
} reset;

bool requests_waiting(void)
{
	return reset.state != IDLE || proc_waits;
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

void reset_step(void)
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
			"\"sdma\": %d, \"watch_points\": %d, \"waves\": %u, \"smi_streams\": %u, "
			"\"total\": {\"clients\": %llu, "
			"\"evictions\": %llu, \"moves\": %llu, \"resets\": %llu}}",
			(int)getpid(), page->clients, kfd, bos, U(bytes), U(page->placed_vram),
			U(page->placed_gtt), U(page->placed_system), U(page->placed_preempt),
			U(limits.sys_used), U(limits.ttm_used), U(limits.vram_used), files_count(),
			queues, resident, queue_count, __builtin_popcount(sdma_used) - 2,
			__builtin_popcount(watch_used), seats_count(), page->smi_streams,
			U(totals.clients), U(totals.evictions), U(totals.moves), U(totals.resets));
#undef U
}

int request_status(const char **text)
{
	int n = status_json(reply, sizeof(reply));

	/* The closing brace makes room for the list. */
	n += snprintf(reply + n - 1, sizeof(reply) - (size_t)n, ", \"places\": [") - 1;
	n += (int)places_json(reply + n, sizeof(reply) - (size_t)n - 8);
	n += snprintf(reply + n, 8, "]}");
	*text = reply;
	return n;
}

/* A debugger asks for the process that it debugs, whose they are. */
static int watch_point(struct share_msg *m)
{
	struct client *c = clients;
	uint32_t bit, free = ~watch_used & ((1u << CP_WATCH_POINTS) - 1);

	while (c && (c->gone || (uint64_t)c->pid != m->a[0]))
		c = c->next;
	if (!c)
		return -ESRCH;
	if (m->a[1] != ~0ull) {
		bit = m->a[1] < CP_WATCH_POINTS ? 1u << m->a[1] : 0;
		if (!(c->watch & bit))
			return -EINVAL;
		c->watch &= ~bit;
		watch_used &= ~bit;
		m->a[0] = m->a[1];
		return 0;
	}
	if (!free)
		return -ENOMEM;
	m->a[0] = (uint64_t)__builtin_ctz(free);
	c->watch |= 1u << m->a[0];
	watch_used |= 1u << m->a[0];
	return 0;
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

void proc_timeouts(void)
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

/* What c had of the device beside memory, files and places; whoever waits for its words. */
void requests_drop(struct client *c)
{
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
	sdma_used &= ~c->sdma;
	watch_used &= ~c->watch;
	queue_count -= c->queues;
	page->smi_streams -= c->smi_streams;
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
	case SHARE_BO_PIN:
		return bo_pin(bo, h, (int64_t)m->a[1]);
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
void request(struct client *c, struct share_msg *m, int fd)
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
	case SHARE_BO_PIN:
	case SHARE_BO_SET:
	case SHARE_BO_GET:
		err = bo_request(c, m, incoming, &len);
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
	case SHARE_WATCH:
		err = watch_point(m);
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
		len = place_tick(c, (const struct share_need *)incoming,
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
		smi(c, m, incoming);
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

void news_answer(struct client *c, const struct share_msg *m)
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
		proc_answered(m, incoming);
		break;
	}
}
