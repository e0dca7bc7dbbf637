/* `barewave run --cpu`: the reference implementation as an engine. No device is opened. */
#include <stdlib.h>

#include "engine/graph.h"
#include "engine/ref.h"
#include "tools/run_engine.h"

#define BATCH 32

struct cpu_engine {
	struct graph *graph;
	struct ref *ref;
};

static int step(void *self, const int32_t *ids, uint32_t n, uint32_t pos0, float *logits, char *err,
		size_t errlen)
{
	struct cpu_engine *e = self;

	return ref_step(e->ref, ids, n, pos0, logits, err, errlen);
}

static void census(void *self, uint32_t *on_device, uint32_t *on_cpu)
{
	struct cpu_engine *e = self;

	*on_device = 0;
	*on_cpu = e->graph->n_nodes;
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
		.footprint = footprint,
		.planned_bytes = unknown_bytes,
		.measured_peak = unknown_bytes,
		.close = engine_close,
	};
	return TOOL_OK;
}
