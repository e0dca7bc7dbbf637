/* barewave plan: every byte a run will take, and whether it fits, before a device is opened. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "engine/tokenizer.h"
#include "tools/loading.h"
#include "tools/placement.h"
#include "tools/price.h"

static const char help[] =
	"Usage: barewave plan -m MODEL [OPTIONS]\n\n"
	"Bytes by owner of a run of MODEL, the kernel's rounding included, against every ceiling\n"
	"of the machine, with the one that binds. No device is opened. The exit status is 1 when\n"
	"it does not fit, with the arithmetic.\n\n"
	"  -m, --model FILE     GGUF v2 or v3, architecture qwen3\n"
	"  -c, --ctx N          context slots (default: what the model was trained for)\n"
	"  --batch N            tokens of a prompt that are taken in one step (default 32)\n"
	"  --all-logits         keep logits of every token of a step (run --logits)\n"
	"  --map                the address of every buffer, and of every tensor inside one, by "
	"the\n"
	"                       names that placement options take\n"
	"  --budget MIB         may the whole process take no more than this? (see run)\n"
	"  --kernels DIR        code objects NAME.co from DIR instead of the built-in ones\n"
	"  --disable NAME       leave a kernel or operation to the CPU\n"
	"  --root DIR           for the machine of which proc and sys under DIR are a copy\n"
	"  --topology DIR       for that of a copied /sys/class/kfd/kfd/topology; how much memory\n"
	"                       it has is unknown then\n" TOOL_DEVICE_HELP
	"  --json               everything, as JSON\n"
	"  --help               this text\n" LOADING_HELP PLACEMENT_HELP;

_Static_assert(ENGINE_BATCH == 32, "the help has it");

struct plan_command {
	const char *model_path, *device;
	struct price_machine other;
	struct engine_opts o;
	const char *disabled[16];
	struct bo_rules rules;
	uint64_t budget;
	bool json, map;
};

static const char *title(const struct footprint_ceiling *c)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s%s", c->name, c->advisory ? " (advice)" : "");
	return text;
}

static void text_ceilings(const struct footprint *f, const struct footprint_machine *m)
{
	printf("\n%-28s %16s %16s %16s\n", "ceiling", "free", "needed", "left");
	for (int i = 0; i < CEILING_COUNT; i++) {
		const struct footprint_ceiling *c = &f->ceiling[i];
		uint64_t has = c->limit > c->used ? c->limit - c->used : 0;

		if (i == CEILING_BUDGET && !c->limit)
			continue;
		printf("%-28s ", title(c));
		if (c->known)
			printf("%16" PRIu64 " %16" PRIu64 " %16" PRId64 "%s\n", has, c->need,
			       (int64_t)(has - c->need), i == f->binds ? "  <- binds" : "");
		else
			printf("%16s %16" PRIu64 " %16s\n", "unknown", c->need, "unknown");
	}
	if (m->huge_largest.known)
		printf("largest free block: %s\n", tool_bytes(m->huge_largest.v));
	else
		printf("largest free block: unknown\n");
}

/* ---- weights by layout, and the map ---- */

#define MAX_LAYOUTS 16

struct of_layout {
	const char *name;
	uint64_t bytes;
	uint32_t tensors;
};

static unsigned by_layout(const struct plan_part *parts, uint32_t n,
			  struct of_layout out[MAX_LAYOUTS])
{
	unsigned count = 0;

	for (uint32_t i = 0; i < n; i++) {
		unsigned k = 0;

		if (parts[i].bo != PLAN_WEIGHTS)
			continue;
		while (k < count && strcmp(out[k].name, parts[i].layout->name))
			k++;
		if (k == MAX_LAYOUTS)
			continue;
		if (k == count)
			out[count++] = (struct of_layout){.name = parts[i].layout->name};
		out[k].bytes += parts[i].bytes;
		out[k].tensors++;
	}
	return count;
}

static const struct plan_buffer *buffer_of(const struct plan *p, enum plan_bo_id id)
{
	for (uint32_t i = 0; i < p->n_buffers; i++)
		if (!strcmp(p->buffers[i].owner, p->bo[id].owner))
			return &p->buffers[i];
	return NULL;
}

static int by_va(const void *x, const void *y)
{
	const struct plan_buffer *a = *(const struct plan_buffer *const *)x,
				 *b = *(const struct plan_buffer *const *)y;

	return a->va < b->va ? -1 : a->va > b->va;
}

/* The plan's buffers in address order; the one whose address is the kernel's first. free() it. */
static const struct plan_buffer **in_order(const struct plan *p)
{
	const struct plan_buffer **order =
		calloc(p->n_buffers + 1, sizeof(const struct plan_buffer *));

	for (uint32_t i = 0; order && i < p->n_buffers; i++)
		order[i] = &p->buffers[i];
	if (order)
		qsort(order, p->n_buffers, sizeof(*order), by_va);
	return order;
}

static int text_map(const struct plan *p, const struct plan_part *parts, uint32_t n)
{
	const struct plan_buffer **order = in_order(p);

	if (!order)
		return tool_fail("out of memory");
	printf("\n%-16s %14s  %s\n", "address", "bytes", "buffer, and what lies inside it");
	for (uint32_t i = 0; i < p->n_buffers; i++) {
		const struct plan_buffer *b = order[i];

		if (b->va)
			printf("0x%-14" PRIx64 " %14" PRIu64 "  %s\n", b->va, b->bytes, b->owner);
		else
			printf("%-16s %14" PRIu64 "  %s\n", "the kernel's", b->bytes, b->owner);
		for (uint32_t k = 0; k < n; k++) {
			const struct plan_part *a = &parts[k];

			if (buffer_of(p, a->bo) != b)
				continue;
			printf("  +0x%-11" PRIx64 " %14" PRIu64 "    %s", a->offset, a->bytes,
			       a->name);
			if (a->layout)
				printf(" (%s)", a->layout->name);
			if (a->bo == PLAN_SLOT)
				fputs(" (in turn)", stdout);
			if (a->tokens)
				printf(" (steps of %u)", a->tokens);
			putchar('\n');
		}
	}
	free(order);
	return TOOL_OK;
}

static json_t *json_map(const struct plan *p, const struct plan_part *parts, uint32_t n)
{
	json_t *map = json_array();

	for (uint32_t i = 0; i < p->n_buffers; i++) {
		const struct plan_buffer *b = &p->buffers[i];
		json_t *inside = json_array();

		for (uint32_t k = 0; k < n; k++) {
			const struct plan_part *a = &parts[k];

			if (buffer_of(p, a->bo) != b)
				continue;
			json_array_append_new(
				inside,
				json_pack("{s:s s:I s:I s:o s:o}", "name", a->name, "offset",
					  (json_int_t)a->offset, "bytes", (json_int_t)a->bytes,
					  "layout",
					  a->layout ? json_string(a->layout->name) : json_null(),
					  "step_tokens",
					  a->tokens ? json_integer(a->tokens) : json_null()));
		}
		json_array_append_new(
			map, json_pack("{s:s s:o s:I s:o}", "owner", b->owner, "va",
				       b->va ? json_integer((json_int_t)b->va) : json_null(),
				       "bytes", (json_int_t)b->bytes, "inside", inside));
	}
	return map;
}

static void report_text(const struct plan_command *c, const struct price *p,
			const struct plan_part *parts, uint32_t n_parts)
{
	struct of_layout layouts[MAX_LAYOUTS];
	const unsigned n_layouts = by_layout(parts, n_parts, layouts);
	const struct plan *plan = p->draft.plan;
	const struct footprint *f = &p->footprint;

	printf("%s, context %u, steps of at most %u tokens\n\n", c->model_path, p->draft.n_ctx,
	       p->draft.batch);
	printf("%-28s %16s %16s %8s\n", "bytes by owner", "asked", "granted", "buffers");
	for (uint32_t i = 0; i < plan->n_rows; i++) {
		printf("%-28s %16" PRIu64 " %16" PRIu64 " %8u\n", plan->rows[i].owner,
		       plan->rows[i].bytes, plan->rows[i].granted, plan->rows[i].count);
		for (unsigned k = 0; k < n_layouts && !strcmp(plan->rows[i].owner, "weights"); k++)
			printf("  %-8s %5u tensors %17" PRIu64 "\n", layouts[k].name,
			       layouts[k].tensors, layouts[k].bytes);
	}
	printf("%-28s %16s %16" PRIu64 "\n", "on the device", "", f->device);
	if (plan->refilled)
		printf("weights of %u of %u blocks take turns in the slot: %s from the file in "
		       "each "
		       "step\n",
		       plan->refilled, plan->n_blocks, tool_bytes(plan->refill_bytes));
	printf("%-28s %16s %16" PRIu64 "\n", "page tables, at most", "", f->page_tables);
	printf("%-28s %16s %16" PRIu64 "\n", "  in unbroken memory", "", f->page_tables_least);
	printf("%-28s %16s %16" PRIu64 "\n", "the kernel's own", "", f->kernel);
	if (f->host.known)
		printf("%-28s %16s %16" PRIu64 "\n%-28s %16s %16" PRIu64 "\n", "process, host side",
		       "", f->host.v, "whole process", "", f->process.v);
	else
		printf("%-28s %16s %16s\n", "process, host side", "", "unknown");
	text_ceilings(f, &p->machine);
}

static json_t *json_ceilings(const struct footprint *f)
{
	json_t *a = json_array();

	for (int i = 0; i < CEILING_COUNT; i++) {
		const struct footprint_ceiling *c = &f->ceiling[i];

		if (i == CEILING_BUDGET && !c->limit)
			continue;
		json_array_append_new(
			a, json_pack("{s:s s:s s:o s:o s:I s:b s:b}", "name", c->name, "rule",
				     c->rule, "limit",
				     c->known ? json_integer((json_int_t)c->limit) : json_null(),
				     "used",
				     c->known ? json_integer((json_int_t)c->used) : json_null(),
				     "needed", (json_int_t)c->need, "advisory", c->advisory,
				     "binds", i == f->binds));
	}
	return a;
}

static int report_json(const struct price *p, const char *refusal, const struct plan_part *parts,
		       uint32_t n_parts)
{
	struct of_layout layouts[MAX_LAYOUTS];
	const unsigned n_layouts = by_layout(parts, n_parts, layouts);
	json_t *weights = json_array();
	const struct plan *plan = p->draft.plan;
	const struct footprint *f = &p->footprint;
	json_t *o = json_object(), *rows = json_array();

	for (uint32_t i = 0; i < plan->n_rows; i++)
		json_array_append_new(rows,
				      json_pack("{s:s s:I s:I s:i}", "owner", plan->rows[i].owner,
						"bytes", (json_int_t)plan->rows[i].bytes, "granted",
						(json_int_t)plan->rows[i].granted, "buffers",
						(int)plan->rows[i].count));
	json_object_set_new(o, "n_ctx", json_integer(p->draft.n_ctx));
	json_object_set_new(o, "batch", json_integer(p->draft.batch));
	json_object_set_new(o, "owners", rows);
	for (unsigned i = 0; i < n_layouts; i++)
		json_array_append_new(weights, json_pack("{s:s s:i s:I}", "layout", layouts[i].name,
							 "tensors", (int)layouts[i].tensors,
							 "bytes", (json_int_t)layouts[i].bytes));
	json_object_set_new(o, "weights_by_layout", weights);
	json_object_set_new(o, "map", json_map(plan, parts, n_parts));
	json_object_set_new(o, "blocks", json_integer(plan->n_blocks));
	json_object_set_new(o, "blocks_refilled", json_integer(plan->refilled));
	json_object_set_new(o, "refill_bytes_per_step",
			    json_integer((json_int_t)plan->refill_bytes));
	json_object_set_new(o, "device_bytes", json_integer((json_int_t)f->device));
	json_object_set_new(o, "page_table_bytes_at_most",
			    json_integer((json_int_t)f->page_tables));
	json_object_set_new(o, "page_table_bytes_unbroken",
			    json_integer((json_int_t)f->page_tables_least));
	json_object_set_new(o, "kernel_bytes", json_integer((json_int_t)f->kernel));
	json_object_set_new(o, "host_bytes",
			    f->host.known ? json_integer((json_int_t)f->host.v) : json_null());
	json_object_set_new(o, "process_bytes",
			    f->process.known ? json_integer((json_int_t)f->process.v)
					     : json_null());
	json_object_set_new(o, "ceilings", json_ceilings(f));
	json_object_set_new(o, "fits", json_boolean(f->refuses < 0));
	json_object_set_new(o, "refusal", refusal ? json_string(refusal) : json_null());
	return tool_print_json(o);
}

static int execute(const struct plan_command *c)
{
	struct gguf *gguf = NULL;
	struct model *model = NULL;
	struct tokenizer *tok = NULL;
	struct plan_part *parts = NULL;
	uint32_t n_parts = 0;
	struct price p;
	char err[512], refusal[768] = "";
	int rc;

	if (gguf_open(c->model_path, &gguf, err, sizeof(err)) ||
	    model_load(gguf, &model, err, sizeof(err))) {
		rc = tool_fail("%s", err);
		goto out;
	}
	if (c->o.n_ctx > model->hp.n_ctx) {
		rc = tool_fail("%s: --ctx %u, wanted at most %s.context_length %u", c->model_path,
			       c->o.n_ctx, model->arch_name, model->hp.n_ctx);
		goto out;
	}
	/* A run has its tokenizer in memory; a file without one still has a plan. */
	if (tokenizer_create(gguf, &tok, err, sizeof(err)))
		tok = NULL;
	rc = price_make(model, c->model_path, &c->o,
			c->other.root || c->other.topology ? &c->other : NULL, c->budget, &p);
	if (rc)
		goto out;
	if (p.footprint.refuses >= 0)
		footprint_refusal(p.draft.plan, &p.footprint, refusal, sizeof(refusal));
	if (plan_parts(p.draft.plan, &parts, &n_parts))
		rc = tool_fail("out of memory");
	else
		rc = placement_warn(p.draft.plan);
	if (!rc && c->json) {
		rc = report_json(&p, refusal[0] ? refusal : NULL, parts, n_parts);
	} else if (!rc) {
		report_text(c, &p, parts, n_parts);
		if (c->map)
			rc = text_map(p.draft.plan, parts, n_parts);
	}
	if (fflush(stdout))
		rc = tool_fail("stdout: %s", strerror(errno));
	if (refusal[0])
		rc = tool_fail("%s: %s", c->model_path, refusal);
	free(parts);
	price_free(&p);
out:
	tokenizer_free(tok);
	model_free(model);
	gguf_close(gguf);
	return rc;
}

static int parse_u32(const struct command *self, const char *name, const char *text, uint32_t *out)
{
	uint64_t v;

	if (!tool_u64(text, UINT32_MAX, &v) || !v)
		return tool_usage(self, "%s '%s', wanted a number from 1", name, text);
	*out = (uint32_t)v;
	return TOOL_OK;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"model", required_argument, NULL, 'm'},
		{"ctx", required_argument, NULL, 'c'},
		{"batch", required_argument, NULL, 'b'},
		{"all-logits", no_argument, NULL, 'a'},
		{"budget", required_argument, NULL, 'B'},
		{"kernels", required_argument, NULL, 'K'},
		{"disable", required_argument, NULL, 'D'},
		{"topology", required_argument, NULL, 't'},
		{"root", required_argument, NULL, 'r'},
		{"device", required_argument, NULL, 'd'},
		PLACEMENT_OPTIONS,
		LOADING_OPTIONS,
		{"map", no_argument, NULL, 'M'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static struct plan_command c;
	int o, rc = TOOL_OK;

	c.o.disabled = c.disabled;
	c.o.rules = &c.rules;
	while (!rc && (o = getopt_long(argc, argv, ":m:c:h", options, NULL)) != -1) {
		switch (o) {
		case 'm':
			c.model_path = optarg;
			break;
		case 'c':
			rc = parse_u32(self, "-c", optarg, &c.o.n_ctx);
			break;
		case 'b':
			rc = parse_u32(self, "--batch", optarg, &c.o.batch);
			break;
		case 'a':
			c.o.all_logits = true;
			break;
		case 'B':
			if (!tool_u64(optarg, UINT64_MAX >> 20, &c.budget) || !c.budget)
				return tool_usage(self, "--budget '%s', wanted MiB", optarg);
			c.budget <<= 20;
			break;
		case 'K':
			c.o.kernels_dir = optarg;
			break;
		case 'D':
			if (c.o.n_disabled == sizeof(c.disabled) / sizeof(c.disabled[0]))
				return tool_usage(self, "more than %u --disable", c.o.n_disabled);
			c.disabled[c.o.n_disabled++] = optarg;
			break;
		case 't':
			c.other.topology = optarg;
			break;
		case 'r':
			c.other.root = optarg;
			break;
		case 'd':
			c.device = optarg;
			break;
		case 'M':
			c.map = true;
			break;
		case 'j':
			c.json = true;
			break;
		case 'h':
			return tool_help(self);
		default:
			if (loading_is(o))
				rc = loading_option(self, o, optarg, &c.o.load);
			else if (!placement_is(o))
				return tool_bad_option(self, o, argv);
			else
				rc = placement_option(self, o, optarg, &c.rules);
		}
	}
	if (rc)
		return rc;
	if (optind < argc)
		return tool_usage(self, "unexpected word '%s'", argv[optind]);
	if (!c.model_path)
		return tool_usage(self, "no model given (-m)");
	if (!!c.other.topology + !!c.other.root + !!c.device > 1)
		return tool_usage(self, "--topology, --root and --device exclude each other");
	rc = device_select(c.device);
	return rc ? rc : execute(&c);
}

const struct command cmd_plan = {
	"plan",
	"every byte of a run, and what binds, before it starts",
	help,
	run,
};
