/* `barewave run --cpu`: the reference implementation as an engine. No device is opened. */
#include <stdlib.h>

#include "engine/graph.h"
#include "engine/ref.h"
#include "tools/run_engine.h"

#define BATCH 32

struct cpu_engine {
	struct graph *graph;
	struct ref *ref;
	uint32_t n_vocab;
	bool all_logits;
	float *logits; /* of one batch */
};

static int step(void *self, const int32_t *ids, uint32_t n, uint32_t pos0, const float **logits,
		char *err, size_t errlen)
{
	struct cpu_engine *e = self;
	int rc = ref_step(e->ref, ids, n, pos0, e->logits, err, errlen);

	if (rc)
		return rc;
	*logits = e->logits + (e->all_logits ? 0 : (size_t)(n - 1) * e->n_vocab);
	return 0;
}

static void census(void *self, struct run_census *out)
{
	struct cpu_engine *e = self;

	*out = (struct run_census){.on_cpu = e->graph->n_nodes};
}

static bool declined(void *self, unsigned i, const char **node, const char **reason)
{
	(void)self;
	(void)i;
	(void)node;
	(void)reason;
	return false; /* no device was asked */
}

static unsigned footprint(void *self, struct run_footprint *rows, unsigned n)
{
	(void)self;
	(void)rows;
	(void)n;
	return 0; /* nothing of it is device memory */
}

static bool unknown_bytes(void *self, uint64_t *bytes)
{
	(void)self;
	(void)bytes;
	return false;
}

static int engine_close(void *self)
{
	struct cpu_engine *e = self;

	ref_free(e->ref);
	graph_free(e->graph);
	free(e->logits);
	free(e);
	return TOOL_OK;
}

int run_engine_cpu(const struct run_options *o, const struct model *m, struct run_engine *out)
{
	struct cpu_engine *e = calloc(1, sizeof(*e));
	uint32_t batch = o->n_prompt < BATCH ? o->n_prompt : BATCH;
	char err[512];

	if (!e)
		return tool_fail("out of memory");
	e->n_vocab = m->hp.n_vocab;
	e->all_logits = o->all_logits;
	e->logits = malloc((size_t)batch * e->n_vocab * sizeof(*e->logits));
	if (!e->logits) {
		engine_close(e);
		return tool_fail("out of memory");
	}
	if (graph_build(m, batch, o->n_ctx, &e->graph, err, sizeof(err)) ||
	    ref_create(e->graph, &e->ref, err, sizeof(err))) {
		engine_close(e);
		return tool_fail("%s: %s", o->model_path, err);
	}
	*out = (struct run_engine){
		.self = e,
		.where = "CPU reference",
		.batch = batch,
		.step = step,
		.census = census,
		.declined = declined,
		.footprint = footprint,
		.planned_bytes = unknown_bytes,
		.measured_peak = unknown_bytes,
		.close = engine_close,
	};
	return TOOL_OK;
}
