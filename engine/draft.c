#include "engine/draft.h"
#include "engine/ref.h"
#include "engine/refuse.h"
#include "engine/weights.h"
#include "queues/sdma.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int build_graphs(struct engine_draft *d, const struct model *m, char *err, size_t errlen)
{
	const uint32_t tokens[DRAFT_GRAPHS] = {1, d->batch};

	while (d->n_graphs < (d->batch > 1 ? 2u : 1u)) {
		int ret = graph_build(m, tokens[d->n_graphs], d->n_ctx, &d->graph[d->n_graphs], err,
				      (unsigned)errlen);

		if (ret < 0)
			return ret;
		d->n_graphs++;
	}
	return 0;
}

static int check_ring(const struct plan *p, const struct queue_plan *q, char *err, size_t errlen)
{
	for (uint32_t i = 0; i < p->n_graphs; i++) {
		if (p->graphs[i].packets <= q->ring_bytes / 64)
			continue;
		snprintf(err, errlen, "a step has %u packets; the queue's ring holds %" PRIu64,
			 p->graphs[i].packets, q->ring_bytes / 64);
		return -ENOSPC;
	}
	return 0;
}

/* Where all weights stay staging is gone when the engine is there, but its peak counts. */
static int plan_load(struct engine_draft *d, const struct load_opts *o)
{
	int ret = 0;

	if (o->copy == LOAD_HOST ||
	    !(d->plan->bo[PLAN_WEIGHTS].bytes || d->plan->bo[PLAN_SLOT].bytes))
		return 0;
	/* What the device writes cannot be read-only for it. */
	d->plan->bo[PLAN_WEIGHTS].readonly = d->plan->bo[PLAN_SLOT].readonly = false;
	ret = plan_add(d->plan, "staging", load_staging_bytes(o), 1);
	if (ret >= 0 && o->copy == LOAD_KERNEL)
		ret = programs_want(d->programs, d->plan, LOAD_COPY_KERNEL);
	if (ret >= 0 && o->copy == LOAD_SDMA)
		ret = plan_add(d->plan, "sdma ring", SDMA_RING_BYTES, 1);
	if (ret >= 0 && o->copy == LOAD_SDMA)
		ret = plan_add(d->plan, "sdma queue", SDMA_PAGE_BYTES, 1);
	return ret;
}

/* A rule that makes them read-only would stop the first copy: in a step, where it is the slot's. */
static int check_writable(const struct plan *p, const struct engine_opts *o, char *err,
			  size_t errlen)
{
	static const enum plan_bo_id where[] = {PLAN_WEIGHTS, PLAN_SLOT};

	for (unsigned i = 0; i < 2 && o->load.copy != LOAD_HOST; i++) {
		struct bo_desc d = {.owner = p->bo[where[i]].owner};

		bo_rules_apply(o->rules, &d);
		if (d.readonly && p->bo[where[i]].bytes)
			return refuse(
				err, errlen, -EINVAL,
				"%s: placed read-only for the device (--place), which is to copy "
				"%" PRIu64 " bytes of weights there; wanted: rw, or copies by the "
				"host",
				d.owner, p->bo[where[i]].bytes);
	}
	return 0;
}

static int make_plan(struct engine_draft *d, const struct engine_opts *o,
		     const struct queue_plan *q, char *err, size_t errlen)
{
	const struct graph *graphs[DRAFT_GRAPHS] = {d->graph[0], d->graph[1]};
	const struct plan_opts po = {
		.all_logits = o->all_logits,
		.refilled = o->refilled,
		.rules = o->rules,
		.kernels =
			{
				.disabled = o->disabled,
				.n_disabled = o->n_disabled,
				.kernarg_bytes = programs_kernarg_bytes,
				.ctx = d->programs,
			},
	};
	int ret = plan_create(graphs, d->n_graphs, &po, &d->plan, err, errlen);

	if (ret >= 0)
		ret = weights_check(d->plan, &o->load, err, errlen);
	if (ret >= 0)
		ret = check_writable(d->plan, o, err, errlen);
	if (ret < 0)
		return ret;
	ret = programs_plan(d->programs, d->plan);
	if (ret >= 0)
		ret = plan_load(d, &o->load);
	if (ret >= 0)
		ret = plan_add_queue(d->plan, q);
	if (ret < 0) {
		snprintf(err, errlen, "plan: %s", strerror(-ret));
		return ret;
	}
	ret = plan_tables(d->plan, err, errlen);
	if (ret < 0)
		return ret;
	return check_ring(d->plan, q, err, errlen);
}

/* Packets, addresses and the CPU reference's scratch, as exec.c:prebuild() and make_scratch(). */
static uint64_t host_bytes(const struct engine_draft *d)
{
	uint64_t bytes = 0, scratch = 0;

	for (uint32_t i = 0; i < d->n_graphs; i++) {
		const struct graph *g = d->graph[i];

		bytes += PLAN_SLOTS * (g->n_nodes + 1) * sizeof(struct aql_dispatch);
		bytes += PLAN_SLOTS * g->n_tensors * sizeof(void *);
		if (ref_scratch_bytes(g) > scratch)
			scratch = ref_scratch_bytes(g);
	}
	return bytes + scratch;
}

int engine_draft(const struct model *m, const struct engine_opts *o, const struct queue_plan *q,
		 struct engine_draft *out, char *err, size_t errlen)
{
	struct engine_draft d = {
		.n_ctx = o->n_ctx ? o->n_ctx : m->hp.n_ctx,
		.batch = o->batch ? o->batch : ENGINE_BATCH,
	};
	int ret;

	if (o->load.staging &&
	    (o->load.staging < LOAD_STAGING_MIN || o->load.staging > LOAD_STAGING_MAX)) {
		snprintf(err, errlen, "staging of %" PRIu64 " bytes; wanted: %u to %u",
			 o->load.staging, LOAD_STAGING_MIN, LOAD_STAGING_MAX);
		return -EINVAL;
	}
	if (!o->batch && d.batch > d.n_ctx)
		d.batch = d.n_ctx;
	ret = build_graphs(&d, m, err, errlen);
	if (ret >= 0)
		ret = programs_open(o->kernels_dir, &d.programs, err, errlen);
	if (ret >= 0)
		ret = make_plan(&d, o, q, err, errlen);
	if (ret < 0) {
		engine_draft_free(&d);
		return ret;
	}
	d.host_bytes = host_bytes(&d) + load_host_bytes(&o->load);
	*out = d;
	return 0;
}

void engine_draft_free(struct engine_draft *d)
{
	plan_free(d->plan);
	programs_close(d->programs);
	for (uint32_t i = 0; i < DRAFT_GRAPHS; i++)
		graph_free(d->graph[i]);
	memset(d, 0, sizeof(*d));
}
