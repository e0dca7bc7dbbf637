#include "engine/load.h"
#include "engine/load_reader.h"
#include "kernels/kernargs.h"
#include "queues/sdma.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNARG_BYTES 4096u /* at the end of the staging buffer: two blocks of arguments */

uint64_t load_staging(const struct load_opts *o)
{
	return o->staging ? o->staging : LOAD_STAGING;
}

/* What one step reads and repacks. */
static uint64_t part_bytes(const struct load_opts *o)
{
	return load_staging(o) / (o->copy == LOAD_HOST ? 2 : 4);
}

uint64_t load_host_bytes(const struct load_opts *o)
{
	return o->source == LOAD_MMAP ? 0 : 2 * (part_bytes(o) + 8192);
}

uint64_t load_staging_bytes(const struct load_opts *o)
{
	return o->copy == LOAD_HOST ? 0 : 2 * part_bytes(o) + KERNARG_BYTES;
}

/* Rows [row, row + rows) of an item. */
struct step {
	const struct load_item *item;
	uint64_t row, rows;
};

struct work {
	const struct load *l;
	struct step *steps;
	struct load_part *parts; /* of the file, one for each step */
	uint32_t n, cap;
	uint64_t total;
	struct load_reader *reader;
	struct bo *staging;
	struct sdma *sdma;
	int64_t submission; /* of the copy in flight, 0: none */
	bool kernel_flies;
	char *err;
	size_t errlen;
};

static uint64_t file_row(const struct load_item *i)
{
	return i->k / i->layout->block * i->layout->file_bytes;
}

static int by_file(const void *a, const void *b)
{
	const struct load_item *x = a, *y = b;

	return x->file < y->file ? -1 : x->file > y->file;
}

static int add_step(struct work *w, const struct load_item *item, uint64_t row, uint64_t rows)
{
	if (w->n == w->cap) {
		uint32_t cap = w->cap ? w->cap * 2 : 256;
		void *s = realloc(w->steps, cap * sizeof(*w->steps)), *p;

		if (!s)
			return -ENOMEM;
		w->steps = s;
		p = realloc(w->parts, cap * sizeof(*w->parts));
		if (!p)
			return -ENOMEM; /* both are load_run()'s to free */
		w->parts = p;
		w->cap = cap;
	}
	w->steps[w->n] = (struct step){item, row, rows};
	w->parts[w->n] =
		(struct load_part){(uint64_t)((const uint8_t *)item->file - w->l->m->gguf->base) +
					   row * file_row(item),
				   rows * file_row(item)};
	w->total += w->parts[w->n++].bytes;
	return 0;
}

static int cut(struct work *w, const struct load_item *items, uint32_t n)
{
	const uint64_t room = part_bytes(&w->l->o);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t row = layout_row_bytes(items[i].layout, items[i].k);
		uint64_t most = room / (row > file_row(&items[i]) ? row : file_row(&items[i]));

		if (!most) {
			snprintf(w->err, w->errlen,
				 "tensor %s: a row of %" PRIu64 " bytes; staging of %" PRIu64
				 " takes parts of %" PRIu64,
				 items[i].name, row, load_staging(&w->l->o), room);
			return -EINVAL;
		}
		for (uint64_t r = 0; r < items[i].rows; r += most) {
			uint64_t left = items[i].rows - r;
			int rc = add_step(w, &items[i], r, left < most ? left : most);

			if (rc < 0) {
				snprintf(w->err, w->errlen, "out of memory");
				return rc;
			}
		}
	}
	return 0;
}

/* ---- copies by the device ------------------------------------------------------------ */

static int device_open(struct work *w)
{
	const struct load *l = w->l;
	const struct bo_desc d = {
		.owner = "staging",
		.size = load_staging_bytes(&l->o),
		.placement = BO_GTT,
		.coherence = BO_COARSE,
		.grain = 4096,
		.host = true,
		.readonly = true,
		.uses = BO_HOST_WRITES | BO_DEVICE_READS | BO_DECLARED,
	};
	int rc;

	if (l->o.copy == LOAD_HOST)
		return 0;
	rc = bo_create(l->dev->memory, &d, &w->staging);
	if (rc == 0 && l->o.copy == LOAD_SDMA)
		rc = sdma_create(l->dev->kfd, l->dev->memory, 0, &w->sdma);
	if (rc < 0)
		snprintf(w->err, w->errlen, "%s", kfd_reason()[0] ? kfd_reason() : strerror(-rc));
	return rc;
}

/* The copy in flight, if any. */
static int device_wait(struct work *w)
{
	const struct load *l = w->l;
	struct queue_fault fault = {0};
	char why[256] = "";
	int rc = 0;

	if (w->submission)
		rc = sdma_wait(w->sdma, w->submission, l->timeout_ns, why, sizeof(why));
	else if (w->kernel_flies)
		rc = signal_wait(l->dev->queue, l->signal, 1, l->timeout_ns, &fault);
	w->submission = 0;
	w->kernel_flies = false;
	if (rc == 0 && w->staging)
		bo_publish(w->staging);
	if (rc < 0)
		snprintf(w->err, w->errlen, "copying weights: %s",
			 why[0]          ? why
			 : fault.text[0] ? fault.text
					 : strerror(-rc));
	return rc;
}

static int kernel_copy(struct work *w, uint64_t dst, uint32_t half, uint64_t bytes)
{
	const struct load *l = w->l;
	const uint64_t args = load_staging_bytes(&l->o) - KERNARG_BYTES + half * 64;
	struct ka_copy *a = (void *)((char *)bo_host(w->staging) + args);
	struct queue_batch b;
	int rc = queue_begin(l->dev->queue, 1, &b);

	if (rc < 0)
		return rc;
	*a = (struct ka_copy){
		.dst = dst,
		.src = bo_va(w->staging) + half * part_bytes(&l->o),
		.n = bytes / 16,
	};
	signal_set(l->signal, 1);
	queue_dispatch(&b, &(struct aql_dispatch){
				   .kernel_object = l->kernel_object,
				   .kernarg = bo_va(w->staging) + args,
				   .grid = {(uint32_t)((bytes / 16 + KA_COPY_GROUP - 1) /
						       KA_COPY_GROUP * KA_COPY_GROUP),
					    1, 1},
				   .group = {KA_COPY_GROUP, 1, 1},
				   .private_bytes = l->private_bytes,
				   .group_bytes = l->group_bytes,
				   .completion = l->signal,
				   .barrier = true,
				   .acquire_system = true,
				   .release_system = true,
			   });
	queue_commit(&b);
	w->kernel_flies = true;
	return 0;
}

/* Staging half -> dst, after the copy before it: the other half is then free to be filled. */
static int device_copy(struct work *w, uint64_t dst, uint32_t half, uint64_t bytes)
{
	const struct load *l = w->l;
	int rc = device_wait(w);

	if (rc < 0)
		return rc;
	bo_device_reads(w->staging, half * part_bytes(&l->o), bytes,
			&(struct bo_work){.what = "copy of weights"});
	if (l->o.copy == LOAD_KERNEL) {
		rc = kernel_copy(w, dst, half, bytes);
	} else {
		rc = sdma_copy(w->sdma, dst, bo_va(w->staging) + half * part_bytes(&l->o), bytes);
		if (rc == 0) {
			w->submission = sdma_submit(w->sdma);
			if (w->submission < 0) {
				rc = (int)w->submission;
				w->submission = 0;
			}
		}
	}
	if (rc < 0)
		snprintf(w->err, w->errlen, "copying weights: %s", strerror(-rc));
	return rc;
}

/* ---- the loop --------------------------------------------------------------------------- */

static int do_step(struct work *w, uint32_t i)
{
	const struct load *l = w->l;
	const struct step *s = &w->steps[i];
	const struct load_item *item = s->item;
	const uint64_t row = layout_row_bytes(item->layout, item->k);
	const uint64_t offset = item->offset + s->row * row;
	const uint8_t *data;
	int rc = load_reader_next(w->reader, l->o.stall_ns ? l->o.stall_ns : LOAD_STALL_NS, &data,
				  w->err, w->errlen);

	if (rc < 0)
		return rc;
	if (l->o.copy == LOAD_HOST) {
		layout_store(item->layout, data, (char *)bo_host(l->weights) + offset, item->k,
			     s->rows);
		return 0;
	}
	layout_store(item->layout, data, (char *)bo_host(w->staging) + (i & 1) * part_bytes(&l->o),
		     item->k, s->rows);
	return device_copy(w, bo_va(l->weights) + offset, i & 1, s->rows * row);
}

static int loop(struct work *w)
{
	const struct load_opts *o = &w->l->o;
	uint64_t done = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		int rc = do_step(w, i);

		if (rc < 0)
			return rc;
		done += w->parts[i].bytes;
		if (o->progress)
			o->progress(o->ctx, done, w->total);
	}
	return device_wait(w);
}

int load_run(struct load *l, struct load_item *items, uint32_t n, char *err, size_t errlen)
{
	struct work w = {.l = l, .err = err, .errlen = errlen};
	const struct gguf *g = l->m->gguf;
	struct load_reader *reader = NULL;
	int rc;

	if (!n)
		return 0;
	qsort(items, n, sizeof(*items), by_file);
	rc = cut(&w, items, n);
	if (rc == 0)
		rc = device_open(&w);
	if (rc == 0)
		rc = load_reader_start(
			&(const struct load_file){
				.image = g->base, .path = g->path, .dev = g->dev, .ino = g->ino},
			l->o.source, w.parts, w.n, &reader, err, errlen);
	if (rc == 0) {
		w.reader = reader;
		/* By the host it goes straight there. */
		if (l->o.copy != LOAD_HOST)
			bo_device_writes(l->weights, &(struct bo_work){.what = "copy of weights"});
		rc = loop(&w);
		if (rc == 0)
			bo_publish(l->weights);
	}
	load_reader_stop(reader);
	/* Whatever went wrong, a copy under way is waited for, in vain perhaps. */
	w.errlen = 0;
	if (w.kernel_flies)
		l->stuck = device_wait(&w) < 0;
	else if (rc == -ETIMEDOUT || rc == -EFAULT)
		l->stuck = l->o.copy == LOAD_KERNEL;
	/* A copy that never ended still reads staging: its queue goes first. */
	sdma_destroy(w.sdma);
	bo_retire(w.staging);
	free(w.steps);
	free(w.parts);
	return rc;
}
