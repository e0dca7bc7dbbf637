/* Long random sequences, the same ones wherever this runs. */
#include "probe.h"

#include <string.h>
#include <unistd.h>

/* ---- events ------------------------------------------------------------------------------- */

enum { LIVE = 24, STEPS = 20000, SEED = 20250611 };

struct event {
	uint32_t id;
	uint64_t age; /* what the last wait told */
};

struct pool {
	struct event e[LIVE];
	unsigned n;
	struct rng rng;
	int fd;
};

/* Now and then an event that does not exist. */
static struct event *pick(struct pool *p)
{
	static struct event unknown;

	if (p->n && rng_below(&p->rng, 40))
		return &p->e[rng_below(&p->rng, p->n)];
	unknown = (struct event){0x7777, 5};
	return &unknown;
}

static void random_create(struct pool *p)
{
	static const uint32_t types[] = {0, 0, 0, 0, 0, 3, 5, 8, 9};
	struct kfd_ioctl_create_event_args a = {0};
	uint32_t type = types[rng_below(&p->rng, COUNT_OF(types))], reset = rng_below(&p->rng, 2);
	long r;

	if (p->n == LIVE)
		return;
	r = event_create(p->fd, type, reset, &a);
	observe("CREATE_EVENT", text("type %u, auto_reset %u", type, reset), r, errno,
		"id 0x%x, slot %u", a.event_id, a.event_slot_index);
	if (!r)
		p->e[p->n++] = (struct event){a.event_id, 0};
}

static void random_destroy(struct pool *p)
{
	unsigned i;
	long r;

	if (p->n < LIVE / 2)
		return;
	i = rng_below(&p->rng, p->n);
	r = event_destroy(p->fd, p->e[i].id);
	observe("DESTROY_EVENT", text("id 0x%x", p->e[i].id), r, errno, "%s", "");
	p->e[i] = p->e[--p->n];
}

static void random_wait(struct pool *p)
{
	struct kfd_event_data d[6];
	struct event *from[6];
	uint32_t n = rng_below(&p->rng, COUNT_OF(d) + 1), all = rng_below(&p->rng, 2);
	char in[256] = "", out[256] = "";
	struct waited w;
	size_t k = 0;

	memset(d, 0, sizeof(d));
	for (uint32_t i = 0; i < n; i++) {
		struct event *e = from[i] = pick(p);
		uint64_t age = 0;

		if (rng_below(&p->rng, 2))
			age = rng_below(&p->rng, 4) ? e->age : rng_below(&p->rng, 6);
		d[i].event_id = e->id;
		d[i].signal_event_data.last_event_age = age;
		k += (size_t)snprintf(in + k, sizeof(in) - k, " 0x%x@%llu", e->id,
				      (unsigned long long)age);
	}
	w = wait_data(p->fd, d, n, all, 0);
	k = 0;
	for (uint32_t i = 0; i < n; i++) {
		k += (size_t)snprintf(out + k, sizeof(out) - k, " %llu",
				      (unsigned long long)d[i].signal_event_data.last_event_age);
		from[i]->age = d[i].signal_event_data.last_event_age;
	}
	observe("WAIT_EVENTS", text("%s%s", all ? "all" : "any", in), w.ret, w.err, "%s, ages%s",
		wait_result_name(w.result), out);
}

void section_random_events(void)
{
	struct pool p = {.rng = {SEED}, .fd = kfd_open()};

	for (unsigned i = 0; i < STEPS; i++) {
		uint32_t what = rng_below(&p.rng, 100), id;

		if (what < 8) {
			random_create(&p);
		} else if (what < 14) {
			random_destroy(&p);
		} else if (what < 44) {
			id = pick(&p)->id;
			observe("SET_EVENT", text("id 0x%x", id), event_set(p.fd, id), errno, "%s",
				"");
		} else if (what < 54) {
			id = pick(&p)->id;
			observe("RESET_EVENT", text("id 0x%x", id), event_reset(p.fd, id), errno,
				"%s", "");
		} else {
			random_wait(&p);
		}
	}
	close(p.fd);
}

/* ---- calls -------------------------------------------------------------------------------- */

/* At fixed addresses, so that arguments and results are the same everywhere. */
#define ARENA     0x200000000ull
#define ARENA_END (ARENA + 65536)

static uint64_t random_quad(struct rng *r)
{
	static const uint64_t quads[] = {0,
					 ARENA,
					 ARENA + 4096,
					 ARENA_END - 8,
					 ARENA_END,
					 KERNEL_ADDRESS,
					 (uint64_t)NO_GPU << 32 | 1,
					 ~0ull,
					 0x1000};
	static const uint32_t words[] = {0,      1,          2,      3,          4,         5,
					 7,      15,         16,     32,         100,       101,
					 0x1000, 0x10000000, NO_GPU, 0x80000000, 0xffffffff};

	if (rng_below(r, 3))
		return (uint64_t)words[rng_below(r, COUNT_OF(words))] << 32 |
		       words[rng_below(r, COUNT_OF(words))];
	return quads[rng_below(r, COUNT_OF(quads))];
}

/* What would not end, would kill the kernel, or answers with times. */
static bool harmless(unsigned nr, unsigned size, uint64_t *q)
{
	struct kfd_ioctl_wait_events_args *w = (void *)q;
	struct kfd_ioctl_criu_args *c = (void *)q;
	struct kfd_ioctl_dbg_trap_args *d = (void *)q;

	switch (nr) {
	case KFD_NR_GET_CLOCK_COUNTERS:
		return false;
	case KFD_NR_WAIT_EVENTS:
		w->timeout = 0;
		return true;
	case KFD_NR_CRIU_OP:
		return c->op != KFD_CRIU_OP_RESUME;
	case KFD_NR_DBG_TRAP:
		/* An enabled debugger makes RUNTIME_ENABLE wait for it; 0 to 5 may be processes. */
		d->pid = d->pid == NO_GPU ? (uint32_t)getpid() : 999999;
		return size >= 8 && d->op != KFD_IOC_DBG_TRAP_ENABLE;
	default:
		return true;
	}
}

static void random_call(int fd, struct rng *r)
{
	static const unsigned sizes[] = {0, 4, 8, 16, 24, 32, 40, 56, 64, 96, 128, 160};
	unsigned nr = 1 + rng_below(r, 0x27), size = sizes[rng_below(r, COUNT_OF(sizes))];
	bool at_end = !rng_below(r, 8);
	uint64_t *q = (void *)(at_end ? ARENA_END - 64 : ARENA + 8192), before[20] = {0};
	unsigned quads = at_end ? 8 : 20;
	char in[512] = "", out[512] = "";
	size_t k = 0;
	long ret;
	int err;

	for (unsigned i = 0; i < quads; i++)
		q[i] = random_quad(r);
	if (!harmless(nr, size, q))
		return;
	memcpy(before, q, quads * 8);
	for (unsigned i = 0; i < size / 8 && i < quads; i++) {
		uint64_t v = q[i];

		if (nr == KFD_NR_DBG_TRAP && !i && (uint32_t)v == (uint32_t)getpid())
			v = (v & ~0xffffffffull) | NO_GPU;
		k += (size_t)snprintf(in + k, sizeof(in) - k, " %llx", (unsigned long long)v);
	}
	ret = call(fd, _IOC(3, 'K', nr, size), q);
	err = errno;
	k = 0;
	for (unsigned i = 0; i < quads; i++)
		if (q[i] != before[i])
			k += (size_t)snprintf(out + k, sizeof(out) - k, " [%u] %llx", i,
					      (unsigned long long)q[i]);
	observe(text("nr 0x%02x", nr), text("size %u%s:%s", size, at_end ? " at the end" : "", in),
		ret, err, "%s", out);
}

void section_random_calls(void)
{
	struct rng r = {SEED + 1};
	void *arena = mmap((void *)ARENA, ARENA_END - ARENA, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int fd = kfd_open();

	if (arena != (void *)ARENA)
		probe_die("memory at a fixed address");
	for (unsigned i = 0; i < STEPS; i++)
		random_call(fd, &r);
	close(fd);
}

/* ---- mmap --------------------------------------------------------------------------------- */

void section_random_mmap(void)
{
	static const size_t lengths[] = {0,     1,     4096,  4097,  8192,
					 16384, 32768, 32769, 65536, 1 << 20};
	struct rng r = {SEED + 2};
	int fd = kfd_open();

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t off = (uint64_t)rng_below(&r, 4) << 62;
		size_t len = lengths[rng_below(&r, COUNT_OF(lengths))];
		int prot = (int)rng_below(&r, 8),
		    flags = rng_below(&r, 4) ? MAP_SHARED : MAP_PRIVATE;
		void *p;

		if (i == 300) /* until here no event page exists */
			event_new(fd, false);
		if (rng_below(&r, 2))
			off |= KFD_MMAP_GPU_ID(NO_GPU);
		if (!rng_below(&r, 4))
			off |= (uint64_t)rng_below(&r, 64) << 12;
		if (!rng_below(&r, 16))
			off |= rng_below(&r, 4096);
		errno = 0;
		p = mmap(NULL, len, prot, flags, fd, (off_t)off);
		observe("mmap",
			text("0x%llx, %zu bytes, prot %d, %s", (unsigned long long)off, len, prot,
			     flags == MAP_SHARED ? "shared" : "private"),
			p == MAP_FAILED ? -1 : 0, errno, "%s", "");
		if (p != MAP_FAILED)
			munmap(p, len);
	}
	close(fd);
}
