/* `barewave run` on the device: the executor, and the ledger's view of what it took. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/exec.h"
#include "queues/device.h"
#include "tools/placement.h"
#include "tools/price.h"
#include "tools/run_engine.h"

#define MAX_OWNERS   64
#define MAX_DECLINES 1024

struct device_engine {
	struct bw_device dev;
	bool open;
	struct engine *engine;
	struct engine_decline *declines;
	unsigned n_declines;
	const char *ledger_path;
};

static int step(void *self, const int32_t *ids, uint32_t n, uint32_t pos0, const float **logits,
		char *err, size_t errlen)
{
	struct device_engine *e = self;

	return engine_step(e->engine, ids, n, pos0, logits, err, errlen);
}

static void census(void *self, struct run_census *out)
{
	struct device_engine *e = self;
	struct engine_census c;

	engine_census(e->engine, &c);
	*out = (struct run_census){
		.on_device = c.device,
		.on_cpu = c.cpu,
		.packets_known = true,
		.packets = c.packets,
		.barriers = c.barriers,
		.blocks = engine_plan(e->engine)->n_blocks,
		.refilled = engine_plan(e->engine)->refilled,
		.refill_bytes = engine_plan(e->engine)->refill_bytes,
	};
}

static bool declined(void *self, unsigned i, const char **node, const char **reason)
{
	struct device_engine *e = self;

	if (i >= e->n_declines)
		return false;
	*node = e->declines[i].node;
	*reason = e->declines[i].reason;
	return true;
}

/* The plan's rows in its order, each with the ledger's peak; then owners the plan does not know. */
static unsigned footprint(void *self, struct run_footprint *rows, unsigned n)
{
	struct device_engine *e = self;
	const struct plan *p = engine_plan(e->engine);
	struct memory_usage use[MAX_OWNERS];
	unsigned n_use = memory_usage(e->dev.memory, use, MAX_OWNERS), count = 0;
	bool taken[MAX_OWNERS] = {false};

	if (n_use > MAX_OWNERS)
		n_use = MAX_OWNERS;
	for (uint32_t i = 0; i < p->n_rows; i++) {
		struct run_footprint row = {
			.owner = p->rows[i].owner,
			.planned_known = true,
			.planned = p->rows[i].granted,
			.measured_known = true, /* an owner the ledger never saw took nothing */
		};

		for (unsigned j = 0; j < n_use; j++)
			if (!strcmp(use[j].owner, row.owner)) {
				row.measured = use[j].peak;
				taken[j] = true;
			}
		if (count < n)
			rows[count] = row;
		count++;
	}
	for (unsigned j = 0; j < n_use; j++) {
		if (taken[j])
			continue;
		if (count < n)
			rows[count] = (struct run_footprint){
				.owner = use[j].owner,
				.planned_known = true, /* the plan is complete: others planned 0 */
				.measured_known = true,
				.measured = use[j].peak,
			};
		count++;
	}
	return count;
}

static bool planned_bytes(void *self, uint64_t *bytes)
{
	struct device_engine *e = self;

	*bytes = engine_plan(e->engine)->total;
	return true;
}

static bool measured_peak(void *self, uint64_t *bytes)
{
	struct device_engine *e = self;

	*bytes = memory_peak(e->dev.memory);
	return true;
}

static int engine_close(void *self)
{
	struct device_engine *e = self;
	int rc = TOOL_OK, closed;

	if (e->open && e->ledger_path)
		rc = device_save_ledger(&e->dev, e->ledger_path);
	engine_destroy(e->engine);
	if (e->open) {
		closed = device_close(&e->dev);
		rc = rc ? rc : closed;
	}
	free(e->declines);
	free(e);
	return rc;
}

/* What cannot fit is refused here, before the device is opened. Without a topology there is no
 * price; then opening the device says what is missing. */
static int check_price(const struct run_options *o, const struct model *m, struct engine_opts *eo)
{
	char text[768];
	struct price p;
	int rc;

	if (access("/sys/class/kfd/kfd/topology/generation_id", R_OK))
		return TOOL_OK;
	rc = price_make(m, o->model_path, eo, NULL, o->budget, &p);
	if (rc)
		return rc;
	rc = placement_warn(p.draft.plan);
	if (!rc && p.footprint.refuses >= 0) {
		footprint_refusal(p.draft.plan, &p.footprint, text, sizeof(text));
		rc = tool_fail("%s: %s", o->model_path, text);
	}
	/* Under a budget that is too low for all weights some take turns. */
	eo->refilled = p.draft.plan->refilled;
	price_free(&p);
	return rc;
}

int run_engine_device(const struct run_options *o, const struct model *m, struct run_engine *out)
{
	const struct queue_opts q = {0};
	struct engine_opts eo = {
		.n_ctx = o->n_ctx,
		.batch = o->n_prompt < ENGINE_BATCH ? o->n_prompt : ENGINE_BATCH,
		.all_logits = o->all_logits,
		.kernels_dir = o->kernels_dir,
		.disabled = o->disabled,
		.n_disabled = o->n_disabled,
		.rules = &o->rules,
		.strict = o->strict,
		.load = o->load,
	};
	struct device_engine *e = calloc(1, sizeof(*e));
	char err[512];
	int rc;

	if (!e)
		return tool_fail("out of memory");
	e->ledger_path = o->ledger_path;
	e->declines = calloc(MAX_DECLINES, sizeof(*e->declines));
	if (!e->declines) {
		rc = tool_fail("out of memory");
		goto out;
	}
	rc = check_price(o, m, &eo);
	if (rc)
		goto out;
	rc = device_open_placed(o->device, &q, &o->rules, &e->dev);
	if (rc)
		goto out;
	e->open = true;
	if (engine_create(&e->dev, m, &eo, &e->engine, err, sizeof(err))) {
		rc = tool_fail("%s: %s", o->model_path, err);
		goto out;
	}
	e->n_declines = engine_declines(e->engine, e->declines, MAX_DECLINES);
	if (e->n_declines > MAX_DECLINES)
		e->n_declines = MAX_DECLINES;
	*out = (struct run_engine){
		.self = e,
		.where = "gfx1151",
		.batch = engine_batch(e->engine),
		.step = step,
		.census = census,
		.declined = declined,
		.footprint = footprint,
		.planned_bytes = planned_bytes,
		.measured_peak = measured_peak,
		.close = engine_close,
	};
	return TOOL_OK;
out:
	engine_close(e);
	return rc;
}
