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

/* Each weight that has a place in bo, once, by its place in there. *out is for free(). */
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

int weights_check(const struct plan *p, const struct load_opts *o, char *err, size_t errlen)
{
	static const enum plan_bo_id where[] = {PLAN_WEIGHTS, PLAN_SLOT};
	int ret = 0;

	for (unsigned k = 0; k < 2 && ret >= 0; k++) {
		struct load_item *items;
		uint32_t n;

		ret = list(p, where[k], &items, &n);
		if (ret < 0)
			return refuse(err, errlen, ret, "out of memory");
		for (uint32_t i = 0; i < n && ret >= 0; i++)
			ret = load_check(o, &items[i], err, errlen);
		free(items);
	}
	return ret;
}

struct weights {
	const struct weights_env *e;
	struct load *load; /* NULL: everything that will ever be loaded is */
	/* Those that stay, by their places in the file; those of the slot by block, then the same. */
	struct load_item *stay, *turns;
	uint32_t n_stay, n_turns;
	int64_t block; /* whose weights are in the slot; -1: nobody's */
};

static int by_file(const void *a, const void *b)
{
	const struct load_item *x = a, *y = b;

	return x->file < y->file ? -1 : x->file > y->file;
}

static int by_block(const void *a, const void *b)
{
	const struct load_item *x = a, *y = b;
	int32_t bx = plan_block_of(x->name), by = plan_block_of(y->name);

	return bx != by ? (bx < by ? -1 : 1) : by_file(a, b);
}

int weights_create(const struct weights_env *e, const struct load_opts *o, struct weights **out,
		   char *err, size_t errlen)
{
	struct load_env le = {
		.dev = e->dev, .m = e->m, .signal = e->signal, .timeout_ns = e->timeout_ns};
	struct weights *w = calloc(1, sizeof(*w));
	int ret = -ENOMEM;

	if (w) {
		w->e = e;
		w->block = -1;
		ret = list(e->plan, PLAN_WEIGHTS, &w->stay, &w->n_stay);
	}
	if (ret >= 0)
		ret = list(e->plan, PLAN_SLOT, &w->turns, &w->n_turns);
	if (ret < 0) {
		weights_free(w);
		return refuse(err, errlen, ret, "out of memory");
	}
	qsort(w->stay, w->n_stay, sizeof(*w->stay), by_file);
	qsort(w->turns, w->n_turns, sizeof(*w->turns), by_block);
	if (o->copy == LOAD_KERNEL && (w->n_stay || w->n_turns)) {
		struct programs_kernel k;

		programs_kernel(e->programs, LOAD_COPY_KERNEL, &k);
		le.kernel_object = k.object;
		le.private_bytes = k.private_bytes;
		le.group_bytes = k.group_bytes;
	}
	if (w->n_stay || w->n_turns)
		ret = load_open(&le, o, &w->load, err, errlen);
	if (ret < 0) {
		weights_free(w);
		return ret;
	}
	*out = w;
	return 0;
}

int weights_load(struct weights *w, char *err, size_t errlen)
{
	struct bo *bo = w->e->bo[PLAN_WEIGHTS];
	int ret = 0;

	if (w->n_stay)
		ret = load_run(w->load, bo, w->stay, w->n_stay, true, err, errlen);
	for (uint32_t i = 0; i < w->n_stay && ret >= 0; i++) {
		const struct load_item *t = &w->stay[i];

		ret = memory_place(bo, t->name, bo_va(bo) + t->offset,
				   layout_row_bytes(t->layout, t->k) * t->rows,
				   identity_of(w->e->m->gguf, t));
		if (ret < 0)
			refuse(err, errlen, ret, "%s", strerror(-ret));
	}
	if (ret < 0)
		return ret; /* the loader goes with weights_free(): after the queue, if it is stuck */
	free(w->stay);
	w->stay = NULL;
	w->n_stay = 0;
	if (!w->n_turns) {
		load_close(w->load);
		w->load = NULL;
	}
	return 0;
}

int weights_fill(struct weights *w, uint32_t block, char *err, size_t errlen)
{
	uint32_t first = 0, n = 0;
	char why[512] = "";
	int ret;

	if (w->block == (int64_t)block)
		return 0;
	while (plan_block_of(w->turns[first].name) != (int32_t)block)
		first++;
	while (first + n < w->n_turns && plan_block_of(w->turns[first + n].name) == (int32_t)block)
		n++;
	/* Until all of it is there nothing is: what a failure leaves is never taken for anything. */
	w->block = -1;
	/* The stores become the device's with the acquire of the packet that follows, which is the
	 * first of its segment (plan_schedule.c). */
	ret = load_run(w->load, w->e->bo[PLAN_SLOT], w->turns + first, n, false, why, sizeof(why));
	if (ret < 0)
		return refuse(err, errlen, ret, "refilling the slot with block %u: %s", block, why);
	w->block = block;
	return 0;
}

bool weights_stuck(const struct weights *w)
{
	return w && w->load && load_stuck(w->load);
}

void weights_free(struct weights *w)
{
	if (!w)
		return;
	load_close(w->load);
	free(w->stay);
	free(w->turns);
	free(w);
}
