/* The engine's plan, layouts and claims: pure, no device. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "engine/model.h"
#include "engine/plan.h"
#include "engine/quant.h"
#include "kernels/kernargs.h"
#include "tests/json_file.h"

static char err[512];

/* ---- the device's view of weights, compiled for the host ------------------------ */

#define KERNELS_DEVICE_H
#define GLOBAL
#define INLINE static inline
#define LOAD(type, p, byte)                                                                        \
	({                                                                                         \
		type load_;                                                                        \
		memcpy(&load_, (const u8 *)(p) + (byte), sizeof(load_));                           \
		load_;                                                                             \
	})
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef _Float16 f16;
typedef float f4 __attribute__((ext_vector_type(4)));
typedef u32 u4 __attribute__((ext_vector_type(4)));
typedef u32 u2 __attribute__((ext_vector_type(2)));
typedef f16 h8 __attribute__((ext_vector_type(8)));
INLINE u32 opaque(u32 v)
{
	return v;
}
#include "kernels/blocks.h"

static const struct {
	enum ggml_type type;
	enum wtype w;
} types[] = {
	{TYPE_F32, W_F32},   {TYPE_F16, W_F16},   {TYPE_BF16, W_BF16}, {TYPE_Q8_0, W_Q8_0},
	{TYPE_Q4_0, W_Q4_0}, {TYPE_Q4_K, W_Q4_K}, {TYPE_Q5_K, W_Q5_K}, {TYPE_Q6_K, W_Q6_K},
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static uint64_t rng_state = 88172645463325252ull;

static uint32_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 20);
}

/* Random bytes in which every f16 at a scale's place is a modest number. */
static void random_weights(enum ggml_type type, uint8_t *p, uint64_t n)
{
	const struct quant_type *q = quant_type(type);

	for (uint64_t b = 0; b < n / q->block; b++, p += q->bytes) {
		uint16_t d = quant_f32_to_f16((float)(rng() % 1000 + 1) / 4096.0f);
		uint16_t m = quant_f32_to_f16((float)(rng() % 1000) / 4096.0f);
		float f = (float)(int32_t)(rng() % 2001 - 1000) / 500.0f;
		uint16_t h = type == TYPE_F16 ? quant_f32_to_f16(f) : quant_f32_to_bf16(f);

		for (uint32_t i = 0; i < q->bytes; i++)
			p[i] = (uint8_t)rng();
		if (type == TYPE_F32)
			memcpy(p, &f, 4);
		else if (type == TYPE_F16 || type == TYPE_BF16)
			memcpy(p, &h, 2);
		else if (type == TYPE_Q6_K)
			memcpy(p + 208, &d, 2);
		else
			memcpy(p, &d, 2);
		if (type == TYPE_Q4_K || type == TYPE_Q5_K)
			memcpy(p + 2, &m, 2);
	}
}

Test(layout, kernels_read_back_every_weight)
{
	const uint64_t k = 768, rows = 3;
	float *want = malloc(k * rows * sizeof(*want));

	for (unsigned i = 0; i < N_TYPES; i++) {
		const struct layout *l = layout_of(types[i].type);
		uint64_t file_bytes, dev_bytes, row_bytes = layout_row_bytes(l, k);
		uint8_t *file, *dev;

		cr_assert_eq(quant_bytes(types[i].type, k * rows, &file_bytes), 0);
		cr_assert_eq(layout_bytes(l, k, rows, &dev_bytes), 0);
		cr_assert(dev_bytes == row_bytes * rows && row_bytes % 16 == 0);
		cr_assert(dev_bytes >= file_bytes && dev_bytes - file_bytes < 16 * rows);
		file = malloc(file_bytes);
		dev = malloc(dev_bytes);
		random_weights(types[i].type, file, k * rows);
		cr_assert_eq(quant_dequant(types[i].type, file, want, k * rows), 0);
		layout_store(l, file, dev, k, rows);
		for (uint64_t r = 0; r < rows; r++) {
			const uint8_t *row = dev + r * row_bytes;
			unsigned seen[768] = {0};

			for (uint32_t e = 0; e < k; e++) {
				float w = want[r * k + e];
				float got = weight_at(types[i].w, row, (u32)k, e);

				cr_assert_float_eq(got, w, fabsf(w) * 1e-6f + 1e-6f,
						   "%s row %llu element %u: %g, not %g", l->name,
						   (unsigned long long)r, e, (double)got,
						   (double)w);
			}
			for (uint32_t c = 0; c < k; c += CHUNK) {
				for (uint32_t lane = 0; lane < 32; lane++) {
					struct frag f = frag_load(types[i].w, row, (u32)k, c, lane);

					for (uint32_t e = 0; e < 8; e++) {
						uint32_t at = c + (e & 3) +
							      (e < 4 ? frag_off0(types[i].w, lane)
								     : frag_off1(types[i].w, lane));
						float w = want[r * k + at], got;

						got = f.w[e] * (e < 4 ? f.a0 : f.a1) +
						      (e < 4 ? f.b0 : f.b1);
						seen[at]++;
						/* The scales are multiplied in another order. */
						cr_assert_float_eq(
							got, w, 2e-5f * (1 + fabsf(w)),
							"%s lane %u element %u: %g, not %g",
							l->name, lane, at, (double)got, (double)w);
					}
				}
			}
			for (uint32_t e = 0; e < k; e++)
				cr_assert_eq(seen[e], 1, "%s: element %u taken %u times", l->name,
					     e, seen[e]);
		}
		free(file);
		free(dev);
	}
	free(want);
}

Test(layout, refuses_what_is_not_whole_blocks)
{
	uint64_t bytes = 7;

	cr_assert_null(layout_of(TYPE_MXFP4));
	cr_assert_null(layout_of(TYPE_I32));
	cr_assert_eq(layout_bytes(layout_of(TYPE_Q4_K), 128, 1, &bytes), -EINVAL);
	cr_assert_eq(layout_bytes(layout_of(TYPE_Q8_0), 0, 1, &bytes), -EINVAL);
	cr_assert_eq(layout_bytes(layout_of(TYPE_F32), 1ull << 31, 1ull << 60, &bytes), -EOVERFLOW);
	cr_assert_eq(bytes, 7, "the output was touched by a failure");
}

/* ---- the plan --------------------------------------------------------------------- */

struct fixture {
	struct gguf *gguf;
	struct model *m;
	struct graph *g[2];
	struct plan *p;
};

static uint32_t refilled; /* of every plan that is made */

static struct fixture make(const char *path, uint32_t batch, bool all_logits,
			   const char *const *disabled, unsigned n_disabled)
{
	struct plan_opts o = {
		.all_logits = all_logits,
		.refilled = refilled,
		.kernels = {.disabled = disabled, .n_disabled = n_disabled},
	};
	struct fixture f = {0};

	cr_assert_eq(gguf_open(path, &f.gguf, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(model_load(f.gguf, &f.m, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(graph_build(f.m, 1, 128, &f.g[0], err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(graph_build(f.m, batch, 128, &f.g[1], err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(plan_create((const struct graph *const *)f.g, 2, &o, &f.p, err, sizeof(err)),
		     0, "%s", err);
	return f;
}

static void drop(struct fixture *f)
{
	plan_free(f->p);
	graph_free(f->g[0]);
	graph_free(f->g[1]);
	model_free(f->m);
	gguf_close(f->gguf);
}

static const char *const demos[] = {
	"data/demo/story-4m-f16.gguf",
	"data/demo/story-4m-q8_0.gguf",
	"data/demo/story-4m-q4_k_m.gguf",
};

static bool overlap(const struct plan_place *a, const struct plan_place *b)
{
	return a->bo == b->bo && a->bo >= 0 && a->offset < b->offset + b->bytes &&
	       b->offset < a->offset + a->bytes;
}

Test(plan, live_tensors_never_share_storage)
{
	for (unsigned d = 0; d < 3; d++) {
		struct fixture f = make(demos[d], 16, true, NULL, 0);
		unsigned reused = 0;

		for (unsigned s = 0; s < 2; s++) {
			const struct plan_graph *pg = &f.p->graphs[s];

			for (uint32_t i = 0; i < pg->g->n_tensors; i++) {
				const struct plan_place *a = &pg->place[i];
				const struct tensor *t = &pg->g->tensors[i];

				cr_assert(a->bo >= 0, "%s has no place", t->name);
				cr_assert(a->offset + a->bytes <= f.p->bo[a->bo].bytes, "%s",
					  t->name);
				if (t->kind != TENSOR_INPUT) /* the second follows the first */
					cr_assert_eq(a->offset % LAYOUT_ALIGN, 0, "%s", t->name);
				for (uint32_t j = 0; j < i; j++) {
					const struct plan_place *b = &pg->place[j];

					if (!overlap(a, b))
						continue;
					reused++;
					cr_assert(a->bo == PLAN_ACTIVATIONS, "%s and %s", t->name,
						  pg->g->tensors[j].name);
					cr_assert(a->first > b->last || b->first > a->last,
						  "%s and %s live at once", t->name,
						  pg->g->tensors[j].name);
				}
			}
		}
		cr_assert(reused > 0, "no storage is ever used twice");
		/* 85 activations of 16 x 1 KiB to 3 KiB: far less than all of them at once. */
		cr_assert(f.p->bo[PLAN_ACTIVATIONS].bytes <= 16 * 4 * (768 * 4 + 256 * 8),
			  "%llu bytes", (unsigned long long)f.p->bo[PLAN_ACTIVATIONS].bytes);
		drop(&f);
	}
}

/* Every two nodes of which one writes what the other touches have a barrier or the host between. */
static void check_order(const struct plan_graph *pg)
{
	const struct graph *g = pg->g;

	for (uint32_t j = 0; j < g->n_nodes; j++) {
		for (uint32_t i = 0; i < j; i++) {
			const struct node *a = &g->nodes[i], *b = &g->nodes[j];
			bool conflict = overlap(&pg->place[a->dst], &pg->place[b->dst]);
			bool ordered = false;

			for (int s = 0; s < 5; s++) {
				if (b->src[s] >= 0)
					conflict |=
						overlap(&pg->place[a->dst], &pg->place[b->src[s]]);
				if (a->src[s] >= 0)
					conflict |=
						overlap(&pg->place[a->src[s]], &pg->place[b->dst]);
			}
			for (uint32_t k = i + 1; k <= j; k++)
				ordered |= pg->node[k].barrier || !pg->node[k].device ||
					   pg->node[k].segment_first;
			ordered |= !pg->node[i].device;
			cr_assert(!conflict || ordered, "%s and %s may run at once", a->name,
				  b->name);
		}
	}
}

/* Segments: the first packet acquires, the last waits for the rest and signals. */
static void check_segments(const struct plan_graph *pg)
{
	bool open = false;

	for (uint32_t i = 0; i <= pg->g->n_nodes; i++) {
		const struct plan_node *n = &pg->node[i];

		if (!n->device) {
			cr_assert(!open && !n->segment_first && !n->segment_last && !n->barrier);
			continue;
		}
		cr_assert_eq(n->segment_first, !open, "node %u", i);
		open = !n->segment_last;
		if (n->segment_last && !n->segment_first)
			cr_assert(n->barrier, "the last packet of a segment waits for the others");
	}
	cr_assert(!open);
}

Test(plan, hazards_have_barriers_and_others_have_none)
{
	static const char *const some[] = {"silu_mul", "attn", "rmsnorm"};

	for (unsigned d = 0; d < 2; d++) {
		struct fixture f = make(demos[2], 16, true, d ? some : NULL, d ? 3 : 0);

		for (unsigned s = 0; s < 2; s++) {
			const struct plan_graph *pg = &f.p->graphs[s];

			check_order(pg);
			check_segments(pg);
			cr_assert_eq(pg->device_nodes + pg->cpu_nodes, pg->g->n_nodes);
			cr_assert_eq(pg->packets, pg->device_nodes + 1);
			cr_assert_eq(pg->cpu_nodes, d ? 5 + 5 + 11 : 0);
			if (d)
				continue;
			/* Per layer: norm | q k v | rope rope store-v | store-k | attn | out | add
			 * | norm | gate up | silu | down | add: twelve waits for seventeen packets.
			 */
			cr_assert(pg->barriers < pg->packets * 3 / 4, "%u barriers, %u packets",
				  pg->barriers, pg->packets);
			for (uint32_t i = 0; i < pg->g->n_nodes; i++) {
				const char *name = pg->g->nodes[i].name;

				if (strstr(name, "attn_k") == name + strlen(name) - 6 ||
				    strstr(name, "attn_v") || strstr(name, "ffn_up"))
					cr_assert(!pg->node[i].barrier, "%s waits for nothing",
						  name);
			}
		}
		drop(&f);
	}
}

/* Walks a graph as the executor does: whatever a packet reads of the slot is in it by then, and the slot
 * changes only with nothing in flight. */
static void check_slot(const struct plan_graph *pg)
{
	int32_t block = -1;
	bool flies = false;

	for (uint32_t i = 0; i <= pg->g->n_nodes; i++) {
		const struct plan_node *pn = &pg->node[i];

		if (pn->refill >= 0) {
			cr_assert(!flies && pn->segment_first, "node %u", i);
			block = pn->refill;
		}
		flies = pn->device && !pn->segment_last;
		for (int s = 0; i < pg->g->n_nodes && pn->device && s < 5; s++) {
			int t = pg->g->nodes[i].src[s];

			if (t >= 0 && pg->place[t].bo == PLAN_SLOT)
				cr_assert_eq(plan_block_of(pg->g->tensors[t].name), block, "%s",
					     pg->g->tensors[t].name);
		}
	}
}

/* Weights of one block lie side by side in the slot, those of different blocks in turn. */
static unsigned check_slot_places(const struct plan *p, const struct plan_graph *pg)
{
	const struct graph *g = pg->g;
	unsigned in_slot = 0;
	uint64_t file = 0;

	for (uint32_t t = 0; t < g->n_tensors; t++) {
		const struct plan_place *a = &pg->place[t];
		int32_t block = plan_block_of(g->tensors[t].name);

		if (g->tensors[t].kind != TENSOR_WEIGHT)
			continue;
		cr_assert_eq(a->bo == PLAN_SLOT,
			     block >= 0 && (uint32_t)block >= p->n_blocks - p->refilled, "%s",
			     g->tensors[t].name);
		in_slot += a->bo == PLAN_SLOT;
		file += a->bo == PLAN_SLOT ? g->tensors[t].bytes : 0;
		cr_assert(a->offset + a->bytes <= p->bo[a->bo].bytes &&
			  a->offset % LAYOUT_ALIGN == 0);
		for (uint32_t u = 0; u < t; u++)
			cr_assert(!overlap(a, &pg->place[u]) ||
					  block != plan_block_of(g->tensors[u].name),
				  "%s and %s", g->tensors[t].name, g->tensors[u].name);
	}
	cr_assert_eq(p->refill_bytes, file, "bytes of the file, not of the device");
	return in_slot;
}

Test(plan, weights_take_turns_in_a_slot)
{
	uint64_t before = UINT64_MAX;

	cr_assert_eq(plan_block_of("blk.12.attn_q.weight"), 12);
	cr_assert_eq(plan_block_of("blk.x"), -1);
	cr_assert_eq(plan_block_of("blk.3"), -1);
	cr_assert_eq(plan_block_of("output.weight"), -1);
	for (refilled = 0; refilled <= 5; refilled++) {
		struct fixture f = make(demos[2], 16, true, NULL, 0);

		cr_assert(f.p->n_blocks == 5 && f.p->refilled == refilled);
		for (unsigned s = 0; s < 2; s++) {
			check_order(&f.p->graphs[s]);
			check_segments(&f.p->graphs[s]);
			check_slot(&f.p->graphs[s]);
			cr_assert_eq(check_slot_places(f.p, &f.p->graphs[s]), 11 * refilled);
		}
		/* From one on, which saves nothing yet, every further block does. */
		if (refilled > 1)
			cr_assert_lt(f.p->total, before, "%u blocks", refilled);
		before = f.p->total;
		drop(&f);
	}
}

Test(plan, a_slot_that_cannot_be)
{
	struct bo_rules r = {0};
	struct plan_opts o = {.refilled = 6};
	struct plan *p = NULL;
	struct fixture f;

	refilled = 0;
	f = make(demos[2], 16, true, NULL, 0);
	cr_expect_eq(plan_create((const struct graph *const *)f.g, 2, &o, &p, err, sizeof(err)),
		     -EINVAL);
	cr_expect(strstr(err, "weights of 6 blocks to be refilled; the model has 5"), "%s", err);
	o.refilled = 2;
	o.rules = &r;
	cr_assert_eq(bo_rules_add(&r, "redzone", "weights:*=64", err, sizeof(err)), 0);
	cr_expect_eq(plan_create((const struct graph *const *)f.g, 2, &o, &p, err, sizeof(err)),
		     -ENOTSUP);
	cr_expect(strstr(err, "red zones around weights that take turns"), "%s", err);
	cr_expect_null(p);
	drop(&f);
}

Test(plan, weights_are_resident_once)
{
	for (unsigned d = 0; d < 3; d++) {
		struct fixture f = make(demos[d], 16, false, NULL, 0);
		const struct plan_graph *a = &f.p->graphs[0], *b = &f.p->graphs[1];
		uint64_t sum = 0, file = 0;

		for (uint32_t i = 0; i < a->g->n_tensors; i++) {
			const struct tensor *t = &a->g->tensors[i];

			if (t->kind != TENSOR_WEIGHT)
				continue;
			sum += (a->place[i].bytes + LAYOUT_ALIGN - 1) / LAYOUT_ALIGN * LAYOUT_ALIGN;
			file += t->bytes;
			for (uint32_t j = 0; j < b->g->n_tensors; j++)
				if (b->g->tensors[j].kind == TENSOR_WEIGHT &&
				    b->g->tensors[j].file == t->file)
					cr_assert(b->place[j].offset == a->place[i].offset &&
							  b->place[j].layout == a->place[i].layout,
						  "%s lies in two places", t->name);
		}
		cr_assert(f.m->tied);
		cr_assert_eq(file, f.m->weight_bytes);
		cr_assert(f.p->bo[PLAN_WEIGHTS].bytes <= sum);
		cr_assert(f.p->bo[PLAN_WEIGHTS].bytes <= file * 102 / 100,
			  "%llu for %llu in the file",
			  (unsigned long long)f.p->bo[PLAN_WEIGHTS].bytes,
			  (unsigned long long)file);
		cr_assert_eq(f.p->bo[PLAN_KV].bytes, 5 * 2 * 128 * 128 * 4);
		drop(&f);
	}
}

Test(plan, kernel_arguments_have_room_and_addresses)
{
	struct fixture f = make(demos[1], 16, true, NULL, 0);
	uint8_t *used = calloc(1, f.p->bo[PLAN_KERNARGS].bytes);
	uint64_t va[512];

	for (unsigned i = 0; i < 512; i++)
		va[i] = 0x100000000ull + i * 0x100000ull;
	for (unsigned s = 0; s < 2; s++) {
		const struct plan_graph *pg = &f.p->graphs[s];
		struct claim_env env = {.va = va, .step = 0x7000, .done = 0x8000, .freq = 0x9000};

		cr_assert(pg->g->n_tensors <= 512);
		for (uint32_t i = 0; i <= pg->g->n_nodes; i++) {
			const struct plan_node *pn = &pg->node[i];
			uint64_t args[8] = {0};

			for (unsigned slot = 0; slot < PLAN_SLOTS; slot++) {
				cr_assert(pn->kernarg[slot] % 64 == 0 &&
					  pn->kernarg[slot] + pn->claim.kernarg_bytes <=
						  f.p->bo[PLAN_KERNARGS].bytes);
				for (uint32_t b = 0; b < pn->claim.kernarg_bytes; b++)
					cr_assert_eq(used[pn->kernarg[slot] + b]++, 0);
			}
			claim_kernargs(pg->g, i < pg->g->n_nodes ? &pg->g->nodes[i] : NULL,
				       &pn->claim, &env, args);
			cr_assert_eq(args[0], env.step, "%s", pn->claim.kernel);
			for (int w = 0; w < 3; w++)
				cr_assert(pn->claim.grid[w] && pn->claim.group[w]);
			cr_assert_eq(pn->claim.grid[0] % pn->claim.group[0], 0, "partial groups");
		}
	}
	free(used);
	drop(&f);
}

Test(plan, bytes_by_owner_add_up)
{
	struct fixture f = make(demos[0], 16, true, NULL, 0);
	struct queue_plan q = {.ring_bytes = 65536, .eop_bytes = 4096, .area_bytes = 5000000};
	uint64_t sum = 0, bo = 0, before;

	for (unsigned i = 0; i < PLAN_BO_COUNT; i++) {
		cr_assert(f.p->bo[i].granted % 4096 == 0 &&
			  f.p->bo[i].granted >= f.p->bo[i].bytes &&
			  f.p->bo[i].granted < f.p->bo[i].bytes + 4096);
		bo += f.p->bo[i].granted;
	}
	cr_assert_eq(f.p->total, bo);
	cr_assert_eq(plan_add(f.p, "code", 4097, 2), 0);
	cr_assert_eq(f.p->total, bo + 2 * 8192);
	before = f.p->total;
	cr_assert_eq(plan_add_queue(f.p, &q), 0);
	cr_assert(f.p->total >= before + 65536 + 4096 + 5001216);
	for (uint32_t i = 0; i < f.p->n_rows; i++)
		sum += f.p->rows[i].granted;
	cr_assert_eq(sum, f.p->total);
	/* Logits of sixteen tokens, two step blocks, the published step. */
	cr_assert(f.p->bo[PLAN_IO].bytes >= 16 * 2048 * 4 &&
		  f.p->bo[PLAN_IO].bytes < 16 * 2048 * 4 + 2048);
	drop(&f);
}

Test(plan, too_many_owners_are_refused)
{
	static char names[PLAN_MAX_ROWS][8];
	struct fixture f = make(demos[0], 4, false, NULL, 0);
	int ret = 0;

	for (unsigned i = 0; i < PLAN_MAX_ROWS && ret == 0; i++) {
		snprintf(names[i], sizeof(names[i]), "own%u", i);
		ret = plan_add(f.p, names[i], 1, 1);
	}
	cr_assert_eq(ret, -ENOSPC);
	cr_assert_eq(f.p->n_rows, PLAN_MAX_ROWS);
	drop(&f);
}

Test(plan, weights_only_the_cpu_reads_stay_in_the_file)
{
	static const char *const some[] = {"matmul", "embed"};
	struct fixture f = make(demos[2], 16, false, some, 2);

	for (uint32_t i = 0; i < f.g[0]->n_tensors; i++) {
		const struct tensor *t = &f.g[0]->tensors[i];

		if (t->kind == TENSOR_WEIGHT)
			cr_assert_eq(f.p->graphs[0].place[i].bo, t->ne[1] > 1 ? -1 : PLAN_WEIGHTS,
				     "%s", t->name);
	}
	drop(&f);
}

/* ---- claims -------------------------------------------------------------------------- */

static uint32_t wrong_size(void *ctx, const char *kernel)
{
	return strcmp(kernel, ctx) ? 48 : 0;
}

Test(claim, says_why_not)
{
	struct tensor t[] = {
		{.name = "w", .kind = TENSOR_WEIGHT, .type = TYPE_MXFP4, .ne = {64, 64, 1, 1}},
		{.name = "x", .kind = TENSOR_ACTIVATION, .type = TYPE_F32, .ne = {64, 1, 1, 1}},
		{.name = "y", .kind = TENSOR_ACTIVATION, .type = TYPE_F32, .ne = {64, 1, 1, 1}},
		{.name = "k", .kind = TENSOR_KV, .type = TYPE_F32, .ne = {96, 8, 1, 1}},
	};
	struct graph g = {.tensors = t,
			  .n_tensors = 4,
			  .n_tokens = 1,
			  .n_ctx = 8,
			  .t_ids = -1,
			  .t_pos = -1,
			  .t_logits = -1};
	struct node mm = {.op = OP_MATMUL, .dst = 2, .src = {0, 1, -1, -1, -1}};
	struct node attn = {.op = OP_ATTN, .dst = 2, .src = {1, 3, 3, 1, -1}, .u = {1, 1, 96}};
	struct node norm = {.op = OP_RMSNORM, .dst = 2, .src = {1, 0, -1, -1, -1}};
	const char *off[] = {"matmul_q8_0"};
	struct claim_kernels all = {0}, disabled = {.disabled = off, .n_disabled = 1};
	char missing[] = "matmul_f32";
	struct claim_kernels wrong = {.kernarg_bytes = wrong_size, .ctx = missing};
	struct claim c;

	claim_node(&g, &mm, &all, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "MXFP4"), "%s", c.reason);
	claim_node(&g, &attn, &all, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "96"), "%s", c.reason);
	claim_node(&g, &norm, &all, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "MXFP4"), "%s", c.reason);
	t[0].type = TYPE_Q8_0;
	claim_node(&g, &mm, &all, &c);
	cr_assert_str_eq(c.kernel, "matmul_q8_0");
	cr_assert_eq(c.grid[0], 64 / 16 * 128);
	claim_node(&g, &mm, &disabled, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "disabled"), "%s", c.reason);
	claim_node(&g, &mm, &wrong, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "48 argument bytes"), "%s", c.reason);
	t[0].type = TYPE_F32;
	claim_node(&g, &mm, &wrong, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "no kernel matmul_f32"), "%s", c.reason);
	t[0].ne[0] = 60;
	claim_node(&g, &mm, &all, &c);
	cr_assert(!c.kernel[0] && strstr(c.reason, "60"), "%s", c.reason);
}

Test(claim, rope_table_is_the_turn_per_position)
{
	uint64_t f[64];

	claim_rope_table(128, 1e6, f);
	for (uint32_t i = 0; i < 64; i++) {
		double want = pow(1e6, -2.0 * i / 128) / 6.283185307179586;

		cr_assert_float_eq(ldexp((double)f[i], -64), want, 1e-15 * want + 0x1p-63,
				   "pair %u", i);
	}
}

Test(plan, refuses_graphs_it_cannot_bind)
{
	struct tensor t[] = {
		{.name = "ids", .kind = TENSOR_INPUT, .alias_of = -1},
		{.name = "other", .kind = TENSOR_INPUT, .alias_of = -1},
		{.name = "logits", .kind = TENSOR_OUTPUT, .alias_of = -1, .ne = {4, 1, 1, 1}},
	};
	struct graph g = {
		.tensors = t, .n_tensors = 3, .n_tokens = 1, .t_ids = 0, .t_pos = 0, .t_logits = 2};
	const struct graph *gs = &g;
	struct plan_opts o = {0};
	struct plan *p = NULL;

	cr_assert_eq(plan_create(&gs, 1, &o, &p, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "other"), "%s", err);
	cr_assert_eq(plan_create(&gs, 0, &o, &p, err, sizeof(err)), -EINVAL);
	cr_assert_null(p);
}
