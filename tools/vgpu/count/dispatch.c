/* Dispatches, the kernels they belong to, and the contexts workers count in. */
#include <stdlib.h>
#include <string.h>

#include "count/internal.h"
#include "isa/jit_internal.h"
#include "ledger.h"

/* Dispatches reported one by one; the rest are in the sums of their kernels. */
#define KEEP 4096u

bool count_on;
struct count_state count_state = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.buffers_end = &count_state.buffers,
	.dispatches_end = &count_state.dispatches,
};

void count_init(void)
{
	const char *counters = getenv("VGPU_COUNTERS"), *fidelity = getenv("VGPU_FIDELITY");

	count_on = (counters && *counters) || (fidelity && *fidelity);
	if (!count_on)
		return;
	count_tables();
	vm_watch_all = &count_watch_others;
}

void count_forked(void)
{
	/* The parent's records stay where they are, unreachable: their locks may be held. */
	memset(&count_state, 0, sizeof(count_state));
	pthread_mutex_init(&count_state.lock, NULL);
	count_state.buffers_end = &count_state.buffers;
	count_state.dispatches_end = &count_state.dispatches;
}

void count_set_add(struct count_set *to, const struct count_set *from)
{
	uint64_t *t = (uint64_t *)to;
	const uint64_t *f = (const uint64_t *)from;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*t); i++)
		t[i] += f[i];
}

bool count_touch_add(struct count_touch **list, unsigned *n, unsigned *cap,
		     const struct count_touch *t)
{
	for (unsigned i = 0; i < *n; i++)
		if ((*list)[i].b == t->b) {
			(*list)[i].read += t->read;
			(*list)[i].written += t->written;
			return true;
		}
	if (*n == *cap) {
		unsigned more = *cap ? 2 * *cap : 8;
		struct count_touch *p = realloc(*list, more * sizeof(*p));

		if (!p)
			return false;
		*list = p;
		*cap = more;
	}
	(*list)[(*n)++] = *t;
	return true;
}

/* ---- kernels ------------------------------------------------------------- */

static int fetch(void *ctx, uint64_t pc, void *dst, size_t n)
{
	return vm_read(ctx, VM_FETCH, gva(pc), dst, n, 0);
}

static uint64_t hash(const uint8_t *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

/* What tells a kernel from others wherever it is loaded: the bytes that direct branches reach. */
static void identify(struct vm_port *p, struct count_kernel *k)
{
	struct jit_cfg cfg;

	if (jit_cfg_build(fetch, p, k->entry, &cfg))
		return;
	k->hash = hash(cfg.code, cfg.bytes);
	k->code_bytes = cfg.bytes;
	k->code_offset = (int32_t)(cfg.base - k->entry);
	jit_cfg_free(&cfg);
}

struct count_code count_code(struct vm *vm, uint64_t entry)
{
	struct count_kernel k = {.entry = entry};
	struct vm_port port;

	vm_port_init(&port, vm, VM_CLIENT_SQC_INST);
	identify(&port, &k);
	return (struct count_code){k.hash, k.code_bytes, k.code_offset};
}

/* Whether k's code is still what is there: cheaper than following its branches again. */
static bool unchanged(struct vm_port *p, const struct count_kernel *k)
{
	uint8_t *code = malloc(k->code_bytes + 1);
	uint64_t at = k->entry + (uint64_t)(int64_t)k->code_offset;
	bool same =
		code && !fetch(p, at, code, k->code_bytes) && hash(code, k->code_bytes) == k->hash;

	free(code);
	return same;
}

static bool same_place(const struct count_kernel *k, const struct count_launch *l)
{
	return k->entry == l->entry && k->kernel_object == l->kernel_object &&
	       k->rsrc1 == l->rsrc1 && k->rsrc2 == l->rsrc2 && k->rsrc3 == l->rsrc3;
}

static struct count_kernel *kernel_get(const struct count_launch *l)
{
	struct count_kernel *k, *head, *twin;

	pthread_mutex_lock(&count_state.lock);
	head = count_state.kernels;
	pthread_mutex_unlock(&count_state.lock);
	/* The list only grows, at its head; what tells its members apart does not change. The port
	 * is watched, so memory is read without the lock. */
	for (k = head; k; k = k->next)
		if (same_place(k, l) && unchanged(l->port, k))
			return k;
	k = malloc(sizeof(*k));
	if (!k)
		return NULL;
	*k = (struct count_kernel){
		.kernel_object = l->kernel_object,
		.entry = l->entry,
		.rsrc1 = l->rsrc1,
		.rsrc2 = l->rsrc2,
		.rsrc3 = l->rsrc3,
		.nvgpr = l->nvgpr,
		.wave64 = l->wave64,
	};
	identify(l->port, k);
	pthread_mutex_lock(&count_state.lock);
	for (twin = count_state.kernels; twin != head; twin = twin->next)
		if (same_place(twin, l) && twin->hash == k->hash)
			break; /* another queue was faster */
	if (twin != head) {
		free(k);
		k = twin;
	} else {
		k->next = count_state.kernels;
		count_state.kernels = k;
	}
	pthread_mutex_unlock(&count_state.lock);
	return k;
}

/* ---- dispatches ---------------------------------------------------------- */

struct count_dispatch *count_dispatch_begin(const struct count_launch *l)
{
	struct count_dispatch *d = calloc(1, sizeof(*d));
	struct count_kernel *k = d ? kernel_get(l) : NULL;

	if (!k) {
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->lock, NULL);
	d->kernel = k;
	d->launch = *l;
	d->launch.port = NULL;
	pthread_mutex_lock(&count_state.lock);
	d->serial = (uint32_t)++count_state.n_dispatches;
	k->dispatches++;
	k->unfinished++;
	k->lds_bytes = l->lds_bytes;
	k->wg_items = l->wg[0] * l->wg[1] * l->wg[2];
	k->waves_full = l->waves_full;
	if (count_state.kept < KEEP) {
		count_state.kept++;
		*count_state.dispatches_end = d;
		count_state.dispatches_end = &d->next;
	}
	pthread_mutex_unlock(&count_state.lock);
	return d;
}

void count_dispatch_end(struct count_dispatch *d)
{
	struct count_kernel *k = d->kernel;
	bool wgp = k->rsrc1 >> 29 & 1;
	struct count_occupancy o = count_occupancy(k->nvgpr, k->wave64, d->launch.lds_bytes,
						   d->launch.waves_full, wgp);
	struct count_estimate e = count_estimate(&d->set, &o, wgp);
	bool kept;

	vgpu_ledger_look();
	pthread_mutex_lock(&count_state.lock);
	count_set_add(&k->set, &d->set);
	for (unsigned i = 0; i < d->n_touch; i++)
		count_touch_add(&k->touch, &k->n_touch, &k->cap_touch, &d->touch[i]);
	for (unsigned b = 0; b < BOUND_COUNT; b++)
		k->seconds[b] += e.seconds[b];
	k->seconds[BOUND_COUNT] += e.total;
	k->bound[e.bound]++;
	k->unfinished--;
	d->done = true;
	kept = d->serial <= KEEP;
	pthread_mutex_unlock(&count_state.lock);
	if (!kept) {
		free(d->touch);
		free(d);
	}
}

/* ---- contexts ------------------------------------------------------------ */

struct count_ctx *count_ctx_new(void)
{
	struct count_ctx *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	count_tables();
	pthread_mutex_lock(&count_state.lock);
	c->next = count_state.contexts;
	count_state.contexts = c;
	pthread_mutex_unlock(&count_state.lock);
	return c;
}

void count_ctx_free(struct count_ctx *c)
{
	struct count_state *s = &count_state;
	struct count_ctx **p;

	if (!c)
		return;
	pthread_mutex_lock(&s->lock);
	for (p = &s->contexts; *p && *p != c; p = &(*p)->next)
		;
	if (*p)
		*p = c->next;
	for (unsigned op = 0; op < ISA_OP_COUNT; op++) {
		s->ops[op] += c->ops[op];
		s->approximated[op] += c->approximated[op];
		s->refused[op] += c->refused[op];
	}
	pthread_mutex_unlock(&s->lock);
	free(c);
}

void count_enter(struct count_ctx *c, struct count_dispatch *d, struct count_wave *waves)
{
	c->d = d;
	c->waves = waves;
}

void count_leave(struct count_ctx *c)
{
	struct count_dispatch *d = c->d;

	if (d) {
		pthread_mutex_lock(&d->lock);
		count_set_add(&d->set, &c->set);
		for (unsigned i = 0; i < c->n_touch; i++)
			count_touch_add(&d->touch, &d->n_touch, &d->cap_touch, &c->touch[i]);
		pthread_mutex_unlock(&d->lock);
	}
	memset(&c->set, 0, sizeof(c->set));
	c->n_touch = 0;
	c->d = NULL;
	c->waves = NULL;
}

void count_group(struct count_ctx *c, unsigned waves)
{
	c->set.groups++;
	c->set.waves += waves;
}
