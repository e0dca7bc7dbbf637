#include "engine/weights.h"
#include "engine/refuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What two loads of the same tensor of the same file have in common: the file's content is not
 * looked at, its place is. FNV-1a. */
static uint64_t identity_of(const struct gguf *g, const struct load_item *w)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (const char *c = g->name; *c; c++)
		h = (h ^ (uint8_t)*c) * 0x100000001b3u;
	h = (h ^ g->size) * 0x100000001b3u;
	h = (h ^ (uint64_t)((const uint8_t *)w->file - g->base)) * 0x100000001b3u;
	return (h ^ (uint64_t)w->layout->type) * 0x100000001b3u;
}

/* Each weight that has a place in bo, once. *out is for free(). */
static int list(const struct plan *p, enum plan_bo_id bo, struct load_item **out, uint32_t *n)
{
	uint32_t n_parts, count = 0;
	struct load_item *items;
	struct plan_part *parts;
	int ret = plan_parts(p, &parts, &n_parts);

	if (ret < 0)
		return ret;
	items = calloc(n_parts + 1, sizeof(*items));
	for (uint32_t i = 0; items && i < n_parts; i++) {
		const struct tensor *w = parts[i].tensor;

		if (parts[i].bo == bo)
			items[count++] = (struct load_item){
				.name = w->name,
				.file = w->file,
				.k = w->ne[0],
				.rows = w->ne[1] * w->ne[2] * w->ne[3],
				.layout = parts[i].layout,
				.offset = parts[i].offset,
			};
	}
	free(parts);
	if (!items)
		return -ENOMEM;
	*out = items;
	*n = count;
	return 0;
}

int weights_load(const struct weights_env *e, const struct load_opts *o, bool *stuck, char *err,
		 size_t errlen)
{
	struct load l = {
		.dev = e->dev,
		.m = e->m,
		.o = *o,
		.weights = e->bo[PLAN_WEIGHTS],
		.signal = e->signal,
		.timeout_ns = e->timeout_ns,
	};
	struct load_item *items = NULL;
	uint32_t n = 0;
	int ret;

	if (!l.weights)
		return 0;
	if (o->copy == LOAD_KERNEL) {
		struct programs_kernel k;

		programs_kernel(e->programs, LOAD_COPY_KERNEL, &k);
		l.kernel_object = k.object;
		l.private_bytes = k.private_bytes;
		l.group_bytes = k.group_bytes;
	}
	ret = list(e->plan, PLAN_WEIGHTS, &items, &n);
	if (ret < 0)
		return refuse(err, errlen, ret, "out of memory");
	ret = load_run(&l, items, n, err, errlen);
	*stuck = l.stuck;
	for (uint32_t i = 0; i < n && ret >= 0; i++) {
		const struct load_item *w = &items[i];
		uint64_t bytes = layout_row_bytes(w->layout, w->k) * w->rows;

		ret = memory_place(l.weights, w->name, bo_va(l.weights) + w->offset, bytes,
				   identity_of(e->m->gguf, w));
		if (ret < 0)
			refuse(err, errlen, ret, "%s", strerror(-ret));
	}
	free(items);
	return ret;
}

/* ---- the slot ------------------------------------------------------------------------- */

struct weights_slot {
	struct load l;
	struct load_item *items; /* by block */
	uint32_t n;
	int64_t block; /* whose weights are in it; -1: unknown */
};

static int by_block(const void *a, const void *b)
{
	const struct load_item *x = a, *y = b;
	int32_t bx = plan_block_of(x->name), by = plan_block_of(y->name);

	if (bx != by)
		return bx < by ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

int weights_slot_create(const struct weights_env *e, const struct load_opts *o,
			struct weights_slot **out, char *err, size_t errlen)
{
	struct weights_slot *s;
	int ret = -ENOMEM;

	if (!e->bo[PLAN_SLOT])
		return 0;
	s = calloc(1, sizeof(*s));
	if (s)
		ret = list(e->plan, PLAN_SLOT, &s->items, &s->n);
	if (ret < 0) {
		free(s);
		return refuse(err, errlen, ret, "out of memory");
	}
	qsort(s->items, s->n, sizeof(*s->items), by_block);
	s->block = -1;
	s->l = (struct load){
		.dev = e->dev,
		.m = e->m,
		.o = *o,
		.weights = e->bo[PLAN_SLOT],
		.signal = e->signal,
		.timeout_ns = e->timeout_ns,
	};
	/* The device is idle while the slot is refilled: there is nobody to copy beside. */
	if (o->copy != LOAD_HOST)
		s->l.o.staging = load_staging(o) / 2; /* parts as large as in the load */
	s->l.o.copy = LOAD_HOST;
	s->l.o.progress = NULL;
	*out = s;
	return 0;
}

int weights_slot_fill(struct weights_slot *s, uint32_t block, char *err, size_t errlen)
{
	uint32_t first = 0, n = 0;
	int ret;

	if (s->block == (int64_t)block)
		return 0;
	while (plan_block_of(s->items[first].name) != (int32_t)block)
		first++;
	while (first + n < s->n && plan_block_of(s->items[first + n].name) == (int32_t)block)
		n++;
	s->block = -1;
	/* The host's stores become the device's with the acquire of the packet that follows, which
	 * is the first of its segment (plan_schedule.c). */
	ret = load_run(&s->l, s->items + first, n, err, errlen);
	if (ret >= 0)
		s->block = block;
	return ret;
}

void weights_slot_free(struct weights_slot *s)
{
	if (!s)
		return;
	free(s->items);
	free(s);
}
