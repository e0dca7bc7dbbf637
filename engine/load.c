#include "engine/load.h"
#include "engine/load_reader.h"
#include "engine/refuse.h"
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

static uint64_t file_row(const struct load_item *i)
{
	return i->k / i->layout->block * i->layout->file_bytes;
}

/* Rows of an item that one part holds, in the file's form and in the device's. */
static uint64_t rows_of_part(const struct load_opts *o, const struct load_item *i)
{
	const uint64_t row = layout_row_bytes(i->layout, i->k), from = file_row(i);

	return part_bytes(o) / (row > from ? row : from);
}

int load_check(const struct load_opts *o, const struct load_item *item, char *err, size_t errlen)
{
	if (rows_of_part(o, item))
		return 0;
	return refuse(err, errlen, -EINVAL,
		      "tensor %s: a row of %" PRIu64 " bytes; staging of %" PRIu64
		      " takes parts of %" PRIu64,
		      item->name, layout_row_bytes(item->layout, item->k), load_staging(o),
		      part_bytes(o));
}

struct load {
	struct load_env env;
	struct load_opts o;
	struct load_reader *reader;
	struct bo *staging;
	struct sdma *sdma;
	int64_t submission; /* of the copy in flight, 0: none */
	bool kernel_flies;
	bool stuck;
};

/* ---- copies by the device ------------------------------------------------------------ */

static int device_open(struct load *l, char *err, size_t errlen)
{
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
	struct memory *m = l->env.dev->memory;
	int rc;

	if (l->o.copy == LOAD_HOST)
		return 0;
	rc = bo_create(m, &d, &l->staging);
	if (rc == 0 && l->o.copy == LOAD_SDMA)
		rc = sdma_create(l->env.dev->kfd, m, 0, &l->sdma);
	if (rc < 0)
		refuse(err, errlen, rc, "%s", kfd_reason()[0] ? kfd_reason() : strerror(-rc));
	return rc;
}

static bool in_flight(const struct load *l)
{
	return l->submission || l->kernel_flies;
}

/* The copy in flight, if any. Whether it ended is known on success only: then nothing is in flight. */
static int device_wait(struct load *l, char *err, size_t errlen)
{
	struct queue_fault fault = {0};
	char why[256] = "";
	int rc = 0;

	if (l->submission)
		rc = sdma_wait(l->sdma, l->submission, l->env.timeout_ns, why, sizeof(why));
	else if (l->kernel_flies)
		rc = signal_wait(l->env.dev->queue, l->env.signal, 1, l->env.timeout_ns, &fault);
	if (rc < 0) {
		/* These two say that it did not, and asking again would not help. */
		l->stuck |= rc == -ETIMEDOUT || rc == -EFAULT;
		return refuse(err, errlen, rc, "copying weights: %s",
			      why[0]          ? why
			      : fault.text[0] ? fault.text
					      : strerror(-rc));
	}
	l->submission = 0;
	l->kernel_flies = false;
	if (l->staging)
		bo_publish(l->staging);
	return 0;
}

static int kernel_copy(struct load *l, uint64_t dst, uint32_t half, uint64_t bytes)
{
	const uint64_t args = load_staging_bytes(&l->o) - KERNARG_BYTES + half * 64;
	struct ka_copy *a = (void *)((char *)bo_host(l->staging) + args);
	struct queue_batch b;
	int rc = queue_begin(l->env.dev->queue, 1, &b);

	if (rc < 0)
		return rc;
	*a = (struct ka_copy){
		.dst = dst,
		.src = bo_va(l->staging) + half * part_bytes(&l->o),
		.n = bytes / 16,
	};
	signal_set(l->env.signal, 1);
	queue_dispatch(&b, &(struct aql_dispatch){
				   .kernel_object = l->env.kernel_object,
				   .kernarg = bo_va(l->staging) + args,
				   .grid = {(uint32_t)((bytes / 16 + KA_COPY_GROUP - 1) /
						       KA_COPY_GROUP * KA_COPY_GROUP),
					    1, 1},
				   .group = {KA_COPY_GROUP, 1, 1},
				   .private_bytes = l->env.private_bytes,
				   .group_bytes = l->env.group_bytes,
				   .completion = l->env.signal,
				   .barrier = true,
				   .acquire_system = true,
				   .release_system = true,
			   });
	queue_commit(&b);
	l->kernel_flies = true;
	return 0;
}

static int engine_copy(struct load *l, uint64_t dst, uint32_t half, uint64_t bytes)
{
	int64_t rc = sdma_copy(l->sdma, dst, bo_va(l->staging) + half * part_bytes(&l->o), bytes);

	if (rc < 0)
		return (int)rc;
	rc = sdma_submit(l->sdma);
	if (rc < 0) {
		l->stuck = true; /* what was put would run with the next submission */
		return (int)rc;
	}
	l->submission = rc;
	return 0;
}

/* Staging half -> dst, after the copy before it: the other half is then free to be filled. */
static int device_copy(struct load *l, uint64_t dst, uint32_t half, uint64_t bytes, char *err,
		       size_t errlen)
{
	int rc = device_wait(l, err, errlen);

	if (rc < 0)
		return rc;
	bo_device_reads(l->staging, half * part_bytes(&l->o), bytes,
			&(struct bo_work){.what = "copy of weights"});
	rc = l->o.copy == LOAD_KERNEL ? kernel_copy(l, dst, half, bytes)
				      : engine_copy(l, dst, half, bytes);
	if (rc < 0)
		refuse(err, errlen, rc, "copying weights: %s", strerror(-rc));
	return rc;
}

/* ---- one run ---------------------------------------------------------------------------- */

/* Rows [row, row + rows) of an item. */
struct step {
	const struct load_item *item;
	uint64_t row, rows;
};

struct run {
	struct bo *to;
	const struct load_item *items;
	uint32_t n;
	struct step next; /* to be asked for: item NULL when there is none */
};

/* The step to be asked for is asked for, and the one after it is the next. */
static struct step ask(struct load *l, struct run *r)
{
	const struct load_item *item = r->next.item;
	struct step s = r->next;
	uint64_t most;

	if (!item)
		return s;
	most = rows_of_part(&l->o, item);
	s.rows = item->rows - s.row < most ? item->rows - s.row : most;
	load_reader_ask(l->reader, &(struct load_part){(uint64_t)((const uint8_t *)item->file -
								  l->env.m->gguf->base) +
							       s.row * file_row(item),
						       s.rows * file_row(item)});
	r->next.row += s.rows;
	if (r->next.row == item->rows)
		r->next = (struct step){++item < r->items + r->n ? item : NULL, 0, 0};
	return s;
}

static int do_step(struct load *l, struct bo *to, const struct step *s, uint32_t half, char *err,
		   size_t errlen)
{
	const struct load_item *item = s->item;
	const uint64_t row = layout_row_bytes(item->layout, item->k);
	const uint64_t offset = item->offset + s->row * row;
	const uint8_t *data;
	int rc = load_reader_next(l->reader, l->o.stall_ns ? l->o.stall_ns : LOAD_STALL_NS, &data,
				  err, errlen);

	if (rc < 0)
		return rc;
	if (l->o.copy == LOAD_HOST) {
		layout_store(item->layout, data, (char *)bo_host(to) + offset, item->k, s->rows);
		return 0;
	}
	layout_store(item->layout, data, (char *)bo_host(l->staging) + half * part_bytes(&l->o),
		     item->k, s->rows);
	return device_copy(l, bo_va(to) + offset, half, s->rows * row, err, errlen);
}

static int loop(struct load *l, struct run *r, bool progress, char *err, size_t errlen)
{
	struct step now = ask(l, r);
	uint64_t done = 0, total = 0;

	for (uint32_t i = 0; i < r->n; i++)
		total += r->items[i].rows * file_row(&r->items[i]);
	for (uint32_t half = 0; now.item; half ^= 1) {
		/* The reader is at it while this one is repacked. */
		struct step ahead = ask(l, r);
		int rc = do_step(l, r->to, &now, half, err, errlen);

		if (rc < 0)
			return rc;
		done += now.rows * file_row(now.item);
		if (progress && l->o.progress)
			l->o.progress(l->o.ctx, done, total);
		now = ahead;
	}
	return device_wait(l, err, errlen);
}

int load_run(struct load *l, struct bo *to, const struct load_item *items, uint32_t n,
	     bool progress, char *err, size_t errlen)
{
	struct run r = {.to = to, .items = items, .n = n, .next = {n ? items : NULL, 0, 0}};
	int rc;

	if (l->stuck)
		return refuse(err, errlen, -EIO, "an earlier copy of weights never ended");
	/* By the host it goes straight there. */
	if (l->o.copy != LOAD_HOST)
		bo_device_writes(to, &(struct bo_work){.what = "copy of weights"});
	rc = loop(l, &r, progress, err, errlen);
	if (rc < 0)
		load_reader_drop(l->reader);
	/* Whatever went wrong, a copy under way is waited for; where the wait is what went wrong, once
	 * more. What is in flight after that may write at any time. */
	if (in_flight(l) && !l->stuck)
		l->stuck = device_wait(l, NULL, 0) < 0;
	if (l->o.copy != LOAD_HOST && !l->stuck) {
		bo_publish(l->staging);
		bo_publish(to);
	}
	return rc;
}

/* ---- from the first to the last --------------------------------------------------------- */

int load_open(const struct load_env *e, const struct load_opts *o, struct load **out, char *err,
	      size_t errlen)
{
	const struct gguf *g = e->m->gguf;
	const struct load_file file = {
		.image = g->base, .fd = g->fd, .path = g->path, .dev = g->dev, .ino = g->ino};
	struct load *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return refuse(err, errlen, -ENOMEM, "out of memory");
	l->env = *e;
	l->o = *o;
	rc = device_open(l, err, errlen);
	if (rc == 0)
		rc = load_reader_start(&file, o->source, part_bytes(o), &l->reader, err, errlen);
	if (rc < 0) {
		load_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

bool load_stuck(const struct load *l)
{
	return l->stuck;
}

void load_close(struct load *l)
{
	if (!l)
		return;
	load_reader_stop(l->reader);
	/* A copy that never ended still reads staging: its queue goes first. */
	sdma_destroy(l->sdma);
	bo_retire(l->staging);
	free(l);
}
