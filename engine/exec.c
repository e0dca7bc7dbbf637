#include "engine/exec.h"
#include "engine/draft.h"
#include "engine/programs.h"
#include "engine/ref.h"
#include "engine/refuse.h"
#include "engine/weights.h"
#include "engine/zones.h"
#include "kernels/kernargs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TIMEOUT (120ull * 1000000000ull)

/* One batch shape, ready to run. */
struct shape {
	struct graph *g;
	const struct plan_graph *pg;
	struct aql_dispatch *packets[PLAN_SLOTS]; /* n_nodes + 1 */
	void **buf[PLAN_SLOTS]; /* host addresses of the tensors, for nodes on the CPU */
};

#define MAX_SHAPES DRAFT_GRAPHS

struct engine {
	struct bw_device *dev;
	const struct model *m;
	struct shape shape[MAX_SHAPES]; /* one token; a batch */
	uint32_t n_shapes, batch, n_ctx;
	struct programs *programs;
	struct plan *plan;
	struct bo *bo[PLAN_BO_COUNT];
	struct weights_env lent; /* to the weights */
	struct weights *weights;
	struct mem_scope *model, *context; /* what the buffers live as long as */
	struct signal *signal;
	void *scratch; /* of the CPU reference */
	uint64_t step; /* number of the last step begun */
	uint64_t timeout_ns;
	bool dead;
};

static uint64_t io_va(const struct engine *e, uint64_t offset)
{
	return bo_va(e->bo[PLAN_IO]) + offset;
}

/* Only while no step is under way: see bo_publish(). */
static void *io_host(const struct engine *e, uint64_t offset)
{
	return bo_write(e->bo[PLAN_IO], offset);
}

/* Offset of a tensor in its buffer for a step block: inputs lie in both blocks. */
static uint64_t offset_of(const struct engine *e, const struct shape *s, uint32_t t, uint32_t slot)
{
	uint64_t o = s->pg->place[t].offset;

	if (s->g->tensors[t].kind == TENSOR_INPUT)
		o += e->plan->slot[slot] - e->plan->slot[0];
	return o;
}

/* ---- coming up ----------------------------------------------------------------- */

/* The draft's parts become the engine's. */
static int draft(struct engine *e, const struct engine_opts *o, char *err, size_t errlen)
{
	struct engine_draft d;
	int ret = engine_draft(e->m, o, queue_plan_of(e->dev->queue), &d, err, errlen);

	if (ret < 0)
		return ret;
	e->n_ctx = d.n_ctx;
	e->batch = d.batch;
	e->n_shapes = d.n_graphs;
	e->programs = d.programs;
	e->plan = d.plan;
	for (uint32_t i = 0; i < d.n_graphs; i++) {
		e->shape[i].g = d.graph[i];
		e->shape[i].pg = &e->plan->graphs[i];
	}
	return 0;
}

/* From here on the plan is all there may be. */
static int hold_to_plan(struct engine *e)
{
	struct mem_limit limits[PLAN_MAX_ROWS];

	for (uint32_t i = 0; i < e->plan->n_rows; i++)
		limits[i] = (struct mem_limit){e->plan->rows[i].owner, e->plan->rows[i].granted};
	return memory_limit(e->dev->memory, limits, e->plan->n_rows);
}

static int make_scopes(struct engine *e, char *err, size_t errlen)
{
	int ret = mem_scope_create(e->dev->memory, SCOPE_MODEL, NULL, &e->model);

	if (ret >= 0)
		ret = mem_scope_create(e->dev->memory, SCOPE_CONTEXT, e->model, &e->context);
	return ret < 0 ? refuse(err, errlen, ret, "%s", strerror(-ret)) : 0;
}

static int make_buffers(struct engine *e, const struct load_opts *o, char *err, size_t errlen)
{
	const bool copied = o->copy != LOAD_HOST;

	for (unsigned i = 0; i < PLAN_BO_COUNT; i++) {
		const struct plan_bo *b = &e->plan->bo[i];
		struct bo_desc d = {
			.owner = b->owner,
			.size = b->bytes,
			.align = b->align,
			.grain = b->grain,
			.placement = BO_GTT,
			.coherence = b->coherence,
			.readonly = b->readonly,
			.host = true,
			.scope = i == PLAN_WEIGHTS || i == PLAN_SLOT || i == PLAN_TABLES
					 ? e->model
					 : e->context,
			.uses = plan_uses(e->plan, i, copied),
		};
		int ret = b->bytes ? bo_create(e->dev->memory, &d, &e->bo[i]) : 0;

		if (ret < 0)
			return refuse(err, errlen, ret, "%s: %" PRIu64 " bytes: %s", b->owner,
				      b->bytes, kfd_reason()[0] ? kfd_reason() : strerror(-ret));
	}
	return 0;
}

/* Those that stay; the slot is filled by the steps. */
static int load_weights(struct engine *e, const struct load_opts *o, char *err, size_t errlen)
{
	int ret;

	e->lent = (struct weights_env){
		.dev = e->dev,
		.m = e->m,
		.plan = e->plan,
		.bo = e->bo,
		.programs = e->programs,
		.signal = e->signal,
		.timeout_ns = e->timeout_ns,
	};
	ret = weights_create(&e->lent, o, &e->weights, err, errlen);
	if (ret >= 0)
		ret = weights_load(e->weights, err, errlen);
	e->dead = weights_stuck(e->weights);
	return ret;
}

static void load_tables(struct engine *e)
{
	for (uint32_t i = 0; i < e->plan->n_tables; i++) {
		const struct plan_table *t = &e->plan->tables[i];

		claim_rope_table(t->hd, (double)t->theta,
				 (uint64_t *)((char *)bo_host(e->bo[PLAN_TABLES]) + t->offset));
	}
}

/* Kernel arguments and packets of one shape and step block: nothing in them changes again. */
static int prebuild(struct engine *e, struct shape *s, uint32_t slot)
{
	const struct graph *g = s->g;
	uint64_t *va = calloc(g->n_tensors, sizeof(*va));

	s->packets[slot] = calloc(g->n_nodes + 1, sizeof(*s->packets[slot]));
	s->buf[slot] = calloc(g->n_tensors, sizeof(*s->buf[slot]));
	if (!va || !s->packets[slot] || !s->buf[slot]) {
		free(va);
		return -ENOMEM;
	}
	for (uint32_t t = 0; t < g->n_tensors; t++) {
		uint64_t o = offset_of(e, s, t, slot);

		if (s->pg->place[t].bo < 0)
			continue;
		va[t] = bo_va(e->bo[s->pg->place[t].bo]) + o;
		if (g->tensors[t].kind != TENSOR_WEIGHT)
			s->buf[slot][t] = (char *)bo_host(e->bo[s->pg->place[t].bo]) + o;
	}
	for (uint32_t i = 0; i <= g->n_nodes; i++) {
		const struct plan_node *pn = &s->pg->node[i];
		const struct node *n = i < g->n_nodes ? &g->nodes[i] : NULL;
		struct claim_env env = {
			.va = va,
			.step = io_va(e, e->plan->slot[slot]),
			.done = io_va(e, e->plan->done),
		};
		struct programs_kernel k;

		if (!pn->device)
			continue;
		if (pn->table >= 0)
			env.freq = bo_va(e->bo[PLAN_TABLES]) + e->plan->tables[pn->table].offset;
		claim_kernargs(g, n, &pn->claim, &env,
			       (char *)bo_host(e->bo[PLAN_KERNARGS]) + pn->kernarg[slot]);
		programs_kernel(e->programs, pn->claim.kernel, &k);
		s->packets[slot][i] = (struct aql_dispatch){
			.kernel_object = k.object,
			.kernarg = bo_va(e->bo[PLAN_KERNARGS]) + pn->kernarg[slot],
			.grid = {pn->claim.grid[0], pn->claim.grid[1], pn->claim.grid[2]},
			.group = {pn->claim.group[0], pn->claim.group[1], pn->claim.group[2]},
			.private_bytes = k.private_bytes,
			.group_bytes = k.group_bytes,
			.completion = pn->segment_last ? e->signal : NULL,
			.barrier = pn->barrier,
			.acquire_system = pn->segment_first,
			.release_system = pn->segment_last,
		};
	}
	free(va);
	return 0;
}

static int make_scratch(struct engine *e)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < e->n_shapes; i++)
		if (ref_scratch_bytes(e->shape[i].g) > bytes)
			bytes = ref_scratch_bytes(e->shape[i].g);
	e->scratch = malloc(bytes);
	return e->scratch ? 0 : -ENOMEM;
}

static int bring_up(struct engine *e, const struct engine_opts *o, char *err, size_t errlen)
{
	int ret = draft(e, o, err, errlen);

	if (ret >= 0)
		ret = make_scopes(e, err, errlen);
	if (ret >= 0 && o->strict && hold_to_plan(e) < 0)
		ret = refuse(err, errlen, -ENOMEM, "out of memory");
	if (ret >= 0)
		ret = make_buffers(e, &o->load, err, errlen);
	if (ret >= 0)
		ret = programs_load(e->programs, e->dev->memory, err, errlen);
	if (ret < 0)
		return ret;
	ret = signal_create(e->dev->queue, 0, &e->signal);
	if (ret < 0)
		return refuse(err, errlen, ret, "signal: %s",
			      kfd_reason()[0] ? kfd_reason() : strerror(-ret));
	ret = load_weights(e, &o->load, err, errlen);
	if (ret < 0)
		return ret;
	if (e->bo[PLAN_TABLES])
		load_tables(e);
	zones_fill(e->plan, -1, e->bo);
	ret = make_scratch(e);
	for (uint32_t i = 0; i < e->n_shapes; i++)
		for (uint32_t s = 0; s < PLAN_SLOTS && ret >= 0; s++)
			ret = prebuild(e, &e->shape[i], s);
	return ret < 0 ? refuse(err, errlen, ret, "%s", strerror(-ret)) : 0;
}

int engine_create(struct bw_device *dev, const struct model *m, const struct engine_opts *opts,
		  struct engine **out, char *err, size_t errlen)
{
	static const struct engine_opts defaults;
	const struct engine_opts *o = opts ? opts : &defaults;
	struct engine *e;
	int ret;

	if (!dev->queue)
		return refuse(err, errlen, -EINVAL, "the device was opened without a queue");
	e = calloc(1, sizeof(*e));
	if (!e)
		return refuse(err, errlen, -ENOMEM, "out of memory");
	e->dev = dev;
	e->m = m;
	e->timeout_ns = o->timeout_ns ? o->timeout_ns : DEFAULT_TIMEOUT;
	ret = bring_up(e, o, err, errlen);
	if (ret < 0) {
		engine_destroy(e);
		return ret;
	}
	*out = e;
	return 0;
}

void engine_destroy(struct engine *e)
{
	if (!e)
		return;
	/* After a time-out or a fault the device may be writing still: to buffers that would be
	 * somebody else's next. */
	if (e->dead && e->dev->queue) {
		int rc = queue_destroy(e->dev->queue);

		if (rc == 0 || queue_gone(rc))
			e->dev->queue = NULL;
	}
	weights_free(e->weights);
	signal_destroy(e->signal);
	programs_close(e->programs);
	mem_scope_end(e->model);
	plan_free(e->plan);
	for (uint32_t i = 0; i < MAX_SHAPES; i++) {
		for (uint32_t s = 0; s < PLAN_SLOTS; s++) {
			free(e->shape[i].packets[s]);
			free(e->shape[i].buf[s]);
		}
		graph_free(e->shape[i].g);
	}
	free(e->scratch);
	free(e);
}

/* ---- a step: nothing below allocates; it locks and enters the kernel only to wait, and to refill
 * the slot where not all weights stay ------------------------------------------------------ */

static bool device_writes(enum plan_bo_id id)
{
	return id == PLAN_KV || id == PLAN_ACTIVATIONS || id == PLAN_IO;
}

/* Packets first .. the segment's last; waits for them. Returns the node after them. */
static int run_segment(struct engine *e, const struct shape *s, uint32_t slot, uint32_t first,
		       char *err, size_t errlen)
{
	uint32_t last = first;
	/* Named by its last kernel. */
	struct bo_work work = {.number = e->step};
	struct queue_fault fault;
	struct queue_batch b;
	int ret;

	while (!s->pg->node[last].segment_last)
		last++;
	work.what = s->pg->node[last].claim.kernel;
	ret = queue_begin(e->dev->queue, last - first + 1, &b);
	if (ret < 0)
		return refuse(err, errlen, ret, "the ring has no room for %u packets: %s",
			      last - first + 1, strerror(-ret));
	signal_set(e->signal, 1);
	for (uint32_t i = first; i <= last; i++)
		queue_dispatch(&b, &s->packets[slot][i]);
	for (unsigned i = 0; i < PLAN_BO_COUNT; i++) {
		if (e->bo[i] && device_writes(i))
			bo_device_writes(e->bo[i], &work);
		else if (BO_DEBUG && e->bo[i])
			bo_device_reads(e->bo[i], 0, bo_size(e->bo[i]), &work);
	}
	queue_commit(&b);
	/* The acquire of this wait is what makes the device's stores readable below. */
	ret = signal_wait(e->dev->queue, e->signal, 1, e->timeout_ns, &fault);
	if (ret == -ETIMEDOUT)
		return refuse(err, errlen, ret, "the device did not finish %u packets in %.1f s",
			      last - first + 1, (double)e->timeout_ns / 1e9);
	if (ret < 0)
		return refuse(err, errlen, ret, "%s", ret == -EFAULT ? fault.text : strerror(-ret));
	for (unsigned i = 0; i < PLAN_BO_COUNT; i++)
		if (e->bo[i] && (BO_DEBUG || device_writes(i)))
			bo_publish(e->bo[i]);
	return (int)last + 1;
}

/* A node no kernel claimed. What it reads was acquired by the wait of the segment before it; what
 * it writes is released with the headers of the packets after it, the first of which acquires. */
static int run_cpu(struct engine *e, const struct shape *s, uint32_t slot, uint32_t i, uint32_t n,
		   uint32_t first, char *err, size_t errlen)
{
	const struct graph *g = s->g;
	const struct node *node = &g->nodes[i];
	void **buf = s->buf[slot];
	size_t shift[5] = {0};
	int ret;

	/* Logits start at column `first`, and are written from the buffer's start. */
	if (node->dst != g->t_logits)
		first = 0;
	for (int k = 0; k < 5; k++) {
		int t = node->src[k];

		if (t >= 0 && g->tensors[t].kind == TENSOR_ACTIVATION)
			shift[k] = first * g->tensors[t].ne[0] * sizeof(float);
		if (shift[k])
			buf[t] = (char *)buf[t] + shift[k];
	}
	ret = ref_op(g, node, buf, n - first, e->scratch);
	for (int k = 0; k < 5; k++)
		if (shift[k])
			buf[node->src[k]] = (char *)buf[node->src[k]] - shift[k];
	if (ret < 0)
		return refuse(err, errlen, ret, "node %s (%s) on the CPU: %s", node->name,
			      graph_op_name(node->op), strerror(-ret));
	return 0;
}

/* *dies: whether a failure is the engine's end. */
static int run_nodes(struct engine *e, const struct shape *s, uint32_t slot,
		     const struct ka_step *step, bool *dies, char *err, size_t errlen)
{
	uint32_t i = 0;

	while (i <= s->g->n_nodes) {
		int ret;

		/* Nothing is in flight: a refill begins a segment. */
		if (s->pg->node[i].refill >= 0) {
			ret = weights_fill(e->weights, (uint32_t)s->pg->node[i].refill, err,
					   errlen);
			if (ret < 0) {
				/* Every segment so far was waited for: unless the copy itself is
				 * still at it, the device is idle and the step has left nothing
				 * but KV and activations that the next one writes again. */
				*dies = weights_stuck(e->weights);
				return ret;
			}
		}
		if (s->pg->node[i].device) {
			ret = run_segment(e, s, slot, i, err, errlen);
			if (ret < 0)
				return ret;
			i = (uint32_t)ret;
			continue;
		}
		if (i < s->g->n_nodes) {
			ret = run_cpu(e, s, slot, i, step->n, step->first, err, errlen);
			if (ret < 0)
				return ret;
		} else {
			struct ka_done *done = io_host(e, e->plan->done);

			*done = (struct ka_done){.step = step->step, .n = step->n};
		}
		i++;
	}
	return 0;
}

static int check_step(const struct engine *e, const int32_t *ids, uint32_t n, uint32_t pos0,
		      char *err, size_t errlen)
{
	if (e->dead)
		return refuse(err, errlen, -EIO,
			      "an earlier step failed; the engine is of no further use");
	if (!n || n > e->batch)
		return refuse(err, errlen, -EINVAL, "step of %u tokens; this engine takes 1 to %u",
			      n, e->batch);
	if (pos0 > e->n_ctx || n > e->n_ctx - pos0)
		return refuse(err, errlen, -EINVAL,
			      "positions %u to %" PRIu64 "; the context has %u slots", pos0,
			      (uint64_t)pos0 + n - 1, e->n_ctx);
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] < 0 || (uint32_t)ids[i] >= e->m->hp.n_vocab)
			return refuse(err, errlen, -EINVAL,
				      "token id %d; the vocabulary has 0 to %u", ids[i],
				      e->m->hp.n_vocab - 1);
	return 0;
}

/* What came back: of this step, and numbers. */
static int check_result(const struct engine *e, const struct ka_step *step, const float *logits,
			char *err, size_t errlen)
{
	const struct ka_done *done = io_host(e, e->plan->done);
	uint64_t n = (uint64_t)(step->n - step->first) * e->m->hp.n_vocab;

	if (done->step != step->step || done->n != step->n)
		return refuse(err, errlen, -EBADMSG,
			      "the device published step %" PRIu64 " of %u tokens; step %" PRIu64
			      " of %u was asked",
			      done->step, done->n, step->step, step->n);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &logits[i], sizeof(bits));
		if ((bits & 0x7f800000u) == 0x7f800000u)
			return refuse(err, errlen, -EDOM,
				      "logit %" PRIu64 " of token %" PRIu64 " is %f",
				      i % e->m->hp.n_vocab, step->first + i / e->m->hp.n_vocab,
				      (double)logits[i]);
	}
	return 0;
}

int engine_step(struct engine *e, const int32_t *ids, uint32_t n, uint32_t pos0,
		const float **logits, char *err, size_t errlen)
{
	const struct shape *s = n == 1 || e->n_shapes == 1 ? &e->shape[0] : &e->shape[1];
	int ret = check_step(e, ids, n, pos0, err, errlen);
	struct ka_step step = {.n = n};
	bool dies = true;
	int32_t *pos, *in;
	uint32_t slot;

	if (ret < 0)
		return ret;
	step.step = ++e->step;
	step.first = e->plan->all_logits ? 0 : n - 1;
	slot = (uint32_t)(step.step % PLAN_SLOTS);
	in = io_host(e, e->plan->slot[slot] + e->plan->ids);
	pos = io_host(e, e->plan->slot[slot] + e->plan->pos);
	for (uint32_t i = 0; i < n; i++) {
		in[i] = ids[i];
		pos[i] = (int32_t)(pos0 + i);
	}
	memcpy(io_host(e, e->plan->slot[slot]), &step, sizeof(step));
	zones_fill(e->plan, (int32_t)(s - e->shape), e->bo);
	ret = run_nodes(e, s, slot, &step, &dies, err, errlen);
	if (ret >= 0)
		ret = zones_check(e->plan, (int32_t)(s - e->shape), e->bo, err, errlen);
	if (ret >= 0)
		ret = check_result(e, &step, io_host(e, e->plan->logits), err, errlen);
	if (ret < 0) {
		e->dead = dies;
		return ret;
	}
	*logits = io_host(e, e->plan->logits);
	return 0;
}

/* ---- questions ----------------------------------------------------------------------- */

uint32_t engine_batch(const struct engine *e)
{
	return e->batch;
}

const struct plan *engine_plan(const struct engine *e)
{
	return e->plan;
}

void engine_census(const struct engine *e, struct engine_census *out)
{
	const struct plan_graph *pg = e->shape[0].pg;

	out->device = pg->device_nodes;
	out->cpu = pg->cpu_nodes;
	out->packets = pg->packets;
	out->barriers = pg->barriers;
}

unsigned engine_declines(const struct engine *e, struct engine_decline *out, unsigned n)
{
	const struct shape *s = &e->shape[0];
	unsigned found = 0;

	for (uint32_t i = 0; i < s->g->n_nodes; i++) {
		if (s->pg->node[i].device)
			continue;
		if (found < n) {
			out[found].node = s->g->nodes[i].name;
			out[found].reason = s->pg->node[i].claim.reason;
		}
		found++;
	}
	return found;
}
