/* barewave launch: one dispatch of any gfx1151 kernel. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "codeobj/codeobj.h"
#include "memory/arena.h"
#include "queues/device.h"
#include "tools/code_file.h"
#include "tools/launch_args.h"
#include "tools/placement.h"
#include "tools/tool.h"

#define MAX_ARGS 64

static const char help[] =
	"Usage: barewave launch FILE KERNEL --grid X[,Y[,Z]] --block X[,Y[,Z]] [--arg FORM]...\n\n"
	"Loads a gfx1151 code object, or the one in an offload bundle, and dispatches one of its\n"
	"kernels once.\n\n"
	"  --grid X[,Y[,Z]]    workgroups in each dimension\n"
	"  --items X[,Y[,Z]]   instead of --grid: work-items in each dimension; a last workgroup\n"
	"                      may be partial\n"
	"  --block X[,Y[,Z]]   work-items of a workgroup\n"
	"  --arg FORM          the kernel's next explicit argument (hidden ones are filled from "
	"the\n"
	"                      metadata):\n"
	"      in:FILE               a buffer with the file's bytes\n"
	"      inout:FILE[:OUTFILE]  the same, written to OUTFILE afterwards\n"
	"      out:BYTES[:FILE]      a buffer filled with 0xa5, written to FILE afterwards\n"
	"      expect:FILE           a buffer of the file's size filled with 0xa5, compared byte "
	"by\n"
	"                            byte with the file afterwards\n"
	"      zero:BYTES            a buffer of zeros\n"
	"      fill:BYTES:HEXBYTE    a buffer of one byte value\n"
	"      u8: u16: u32: u64: i8: i16: i32: i64: f16: f32: f64:VALUE\n"
	"  --expect INDEX:FILE compare buffer argument INDEX (from 0) with FILE afterwards\n"
	"  --lds BYTES         dynamic LDS beside the kernel's own\n"
	"  --scratch BYTES     scratch per lane, when more than the metadata says\n"
	"  --arena BYTES       all buffer arguments inside one buffer of so many bytes\n"
	"  --ledger FILE       save the ledger at the end, for 'barewave mem --ledger FILE'\n"
	"  --timeout SECONDS   give up after this long (default 60, 0 "
	"never)\n" TOOL_DEVICE_HELP TOOL_CHECK_HELP "  --json              the result as JSON\n"
	"  --help              this text\n" PLACEMENT_HELP "\n"
	"Sizes take K, M or G (1024). The exit status is 1 when a comparison fails.\n";

struct launch {
	const char *file, *kernel;
	struct co_launch shape;
	uint32_t groups[3];
	struct launch_arg args[MAX_ARGS];
	unsigned n_args;
	uint32_t scratch;
	uint64_t timeout_ns;
	const char *device, *ledger;
	bool json;
	struct bo_rules rules;
	uint64_t arena_bytes; /* 0: every argument has a buffer of its own */
	/* parsed */
	struct code_file code;
	struct codeobj *co;
	const struct co_kernel *k;
	/* result */
	uint64_t ns, waves;
	struct launch_difference diff[MAX_ARGS];
	bool differs;
};

/* X[,Y[,Z]] with missing ones 1; returns the dimensions given, 0 when unreadable. */
static unsigned parse_triple(const char *text, uint64_t max, uint32_t out[3])
{
	char copy[64], *at = copy, *word;
	unsigned n = 0;

	if (strlen(text) >= sizeof(copy))
		return 0;
	strcpy(copy, text);
	out[0] = out[1] = out[2] = 1;
	while ((word = strsep(&at, ","))) {
		uint64_t v;

		if (n == 3 || !tool_u64(word, max, &v) || !v)
			return 0;
		out[n++] = (uint32_t)v;
	}
	return n;
}

static int parse_shape(const struct command *self, struct launch *l, const char *grid,
		       const char *items, const char *block)
{
	uint32_t b[3];
	unsigned nb, ng;

	if (!block || !(grid || items) || (grid && items))
		return tool_usage(self, "wanted --block and one of --grid and --items");
	nb = parse_triple(block, UINT16_MAX, b);
	if (!nb)
		return tool_usage(self, "--block '%s', wanted X[,Y[,Z]] of 1 to 65535", block);
	ng = parse_triple(grid ? grid : items, UINT32_MAX, l->groups);
	if (!ng)
		return tool_usage(self, "%s '%s', wanted X[,Y[,Z]] of 1 to 4294967295",
				  grid ? "--grid" : "--items", grid ? grid : items);
	l->shape.dims = ng > nb ? ng : nb;
	for (unsigned d = 0; d < 3; d++) {
		uint64_t n = grid ? (uint64_t)l->groups[d] * b[d] : l->groups[d];

		/* the packet's grid_size fields are 32 bits of work-items */
		if (n > UINT32_MAX)
			return tool_usage(self,
					  "--grid '%s' of --block '%s' makes %" PRIu64
					  " work-items, wanted at most 4294967295 a dimension",
					  grid, block, n);
		l->shape.group[d] = (uint16_t)b[d];
		l->shape.grid[d] = (uint32_t)n;
		l->groups[d] = (uint32_t)((n + b[d] - 1) / b[d]);
	}
	return TOOL_OK;
}

static int load_image(struct launch *l)
{
	char err[1024];

	if (code_file_read(l->file, NULL, false, &l->code, err, sizeof(err)))
		return tool_fail("%s", err);
	if (co_parse(l->code.image, l->code.bytes, &l->co, err, sizeof(err)))
		return tool_fail("%s: %s", l->file, err);
	l->k = co_find(l->co, l->kernel);
	if (!l->k)
		return tool_fail("%s: no kernel '%s', wanted one of those 'barewave co %s' lists",
				 l->file, l->kernel, l->file);
	if (co_check_launch(l->k, &l->shape, err, sizeof(err)))
		return tool_fail("%s: %s", l->file, err);
	return launch_args_match(l->k, l->args, l->n_args);
}

/* Waves that the dispatch starts; a partial workgroup counts the items it has. */
static uint64_t count_waves(const struct launch *l)
{
	const struct co_launch *s = &l->shape;
	uint64_t lanes = l->k->wave64 ? 64 : 32, waves = 0;

	for (unsigned corner = 0; corner < 8; corner++) {
		uint64_t groups = 1, items = 1;

		for (unsigned d = 0; d < 3; d++) {
			uint32_t whole = s->grid[d] / s->group[d], rest = s->grid[d] % s->group[d];

			groups *= corner >> d & 1 ? rest != 0 : whole;
			items *= corner >> d & 1 ? rest : s->group[d];
		}
		waves += groups * ((items + lanes - 1) / lanes);
	}
	return waves;
}

/* Debug builds: the kernel may write to every buffer it was given. (Whether it does, nobody knows, so
 * the ledger is not told.) */
static void give(struct launch *l, struct bo *arena, bool to_device)
{
	const struct bo_work work = {.what = l->k->name};

	for (unsigned i = 0; i <= l->n_args; i++) {
		struct bo *bo = i < l->n_args ? l->args[i].bo : arena;

		if (bo && to_device)
			bo_device_writes(bo, &work);
		else if (bo)
			bo_publish(bo);
	}
}

static int dispatch(struct launch *l, struct bw_device *d, struct co_program *p, struct bo *arena,
		    void *kernarg, struct signal *done)
{
	const struct kfd_process_device_apertures *ap = kfd_apertures(d->kfd);
	const struct co_kernel *k = l->k;
	/* the LDS a kernel is given starts where its own ends; 16 bytes suit every type */
	uint32_t own_lds = (k->group_bytes + 15) & ~15u;
	struct aql_dispatch a = {
		.kernel_object = co_kernel_object(p, k->name),
		.kernarg = (uint64_t)(uintptr_t)kernarg,
		.private_bytes = l->scratch > k->private_bytes ? l->scratch : k->private_bytes,
		.group_bytes =
			l->shape.dynamic_lds ? own_lds + l->shape.dynamic_lds : k->group_bytes,
		.completion = done,
		.barrier = true,
		.acquire_system = true,
		.release_system = true,
	};
	struct queue_fault fault = {0};
	struct queue_batch b;
	uint64_t start;
	int rc;

	l->shape.shared_base = ap->lds_base;
	l->shape.private_base = ap->scratch_base;
	l->shape.queue_ptr = queue_va(d->queue);
	memset(kernarg, 0, k->kernarg_bytes);
	launch_args_write(k, l->args, own_lds, kernarg);
	co_fill_hidden(k, &l->shape, kernarg);
	memcpy(a.grid, l->shape.grid, sizeof(a.grid));
	memcpy(a.group, l->shape.group, sizeof(a.group));

	rc = queue_begin(d->queue, 1, &b);
	if (rc)
		return tool_fail("queue: %s", strerror(-rc));
	queue_dispatch(&b, &a);
	if (BO_DEBUG)
		give(l, arena, true);
	start = tool_now_ns();
	queue_commit(&b);
	rc = signal_wait(d->queue, done, 1, l->timeout_ns, &fault);
	l->ns = tool_now_ns() - start;
	l->waves = count_waves(l);
	if (rc == -ETIMEDOUT)
		return tool_fail("%s: not finished after %.1f s (--timeout)", k->name,
				 (double)l->ns / 1e9);
	if (rc)
		return tool_fail("%s: %s", k->name, fault.text[0] ? fault.text : strerror(-rc));
	if (BO_DEBUG)
		give(l, arena, false);
	return TOOL_OK;
}

/* The one buffer for all arguments, owner "args". */
static int make_arena(const struct launch *l, struct memory *m, struct bo **bo, struct arena **out)
{
	const struct bo_desc d = {
		.owner = "args",
		.size = l->arena_bytes,
		.placement = BO_GTT,
		.coherence = BO_COARSE,
		.guard = BO_GUARD_END,
		.align = 65536,
		.grain = 4096,
		.host = true,
		.uses = BO_HOST_WRITES | BO_HOST_READS | BO_HOST_DECLARED,
	};
	const struct arena_opts o = {.rules = &l->rules};
	int rc;

	if (!l->arena_bytes)
		return TOOL_OK;
	rc = bo_create(m, &d, bo);
	if (!rc)
		rc = arena_create(bo_va(*bo), bo_size(*bo), bo_host(*bo), &o, out);
	return rc ? tool_fail("arena of %" PRIu64 " bytes: %s", l->arena_bytes,
			      kfd_reason()[0] ? kfd_reason() : strerror(-rc))
		  : TOOL_OK;
}

/* Afterwards, wherever red zones are. */
static int check_zones(const struct launch *l, const struct arena *arena)
{
	int rc = launch_arena_check(arena);

	for (unsigned i = 0; !rc && i < l->n_args; i++)
		rc = launch_arena_check(l->args[i].zones);
	return rc;
}

/* Placement rules that have nothing to place. */
static void warn_idle_rules(const struct launch *l)
{
	static const char *const owners[] = {"code",  "kernargs",  "signals", "ring",        "eop",
					     "queue", "save area", "scratch", "trap handler"};
	struct bo_rules_seen seen = {0};
	char owner[16];

	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
		bo_rules_see(&l->rules, owners[i], BO_TAKES_BUFFER, &seen);
	if (l->arena_bytes)
		bo_rules_see(&l->rules, "args", BO_TAKES_BUFFER, &seen);
	for (unsigned i = 0; i < l->n_args; i++) {
		if (l->args[i].form == FORM_SCALAR)
			continue;
		snprintf(owner, sizeof(owner), "arg%u", i);
		bo_rules_see(&l->rules, owner,
			     l->arena_bytes ? BO_TAKES_PART | BO_TAKES(BO_RULE_RANDOM) |
						      BO_TAKES(BO_RULE_VA)
					    : BO_TAKES_BUFFER | BO_TAKES_PART,
			     &seen);
	}
	placement_say_idle(&l->rules, &seen,
			   l->arena_bytes ? "buffers are arg0 and so on inside args, code, "
					    "kernargs and the queue's"
					  : "buffers are arg0 and so on, code, kernargs and the "
					    "queue's");
}

static int run_on_device(struct launch *l)
{
	const struct co_kernel *k = l->k;
	struct queue_opts q = {0};
	struct bw_device d;
	struct co_program *p = NULL;
	struct kernarg_pool pool = {0};
	struct signal *done = NULL;
	struct arena *arena = NULL;
	struct bo *arena_bo = NULL;
	void *kernarg;
	char err[512];
	int rc, closed;

	warn_idle_rules(l);
	if (l->ledger && tool_writable(l->ledger))
		return TOOL_FAILED;
	if (device_open_placed(l->device, &q, &l->rules, &d))
		return TOOL_FAILED;
	rc = co_load(d.memory, l->co, "code", &p, err, sizeof(err));
	if (rc) {
		rc = tool_fail("%s: %s", l->file, err);
		goto out;
	}
	rc = kernarg_pool_create(d.memory, 2 * (uint64_t)k->kernarg_bytes + 8192, &pool);
	if (!rc)
		rc = signal_create(d.queue, 1, &done);
	if (rc) {
		rc = tool_fail("kernel arguments and signal: %s (%s)", strerror(-rc), kfd_reason());
		goto out;
	}
	kernarg = kernarg_alloc(&pool, k->kernarg_bytes ? k->kernarg_bytes : 1,
				k->kernarg_align > 64 ? k->kernarg_align : 64);
	if (!kernarg) {
		rc = tool_fail("%s: %u bytes of kernel arguments do not fit", k->name,
			       k->kernarg_bytes);
		goto out;
	}
	rc = make_arena(l, d.memory, &arena_bo, &arena);
	for (unsigned i = 0; !rc && i < l->n_args; i++)
		rc = launch_arg_place(d.memory, arena_bo, arena, &l->args[i], i);
	if (!rc)
		rc = dispatch(l, &d, p, arena_bo, kernarg, done);
	if (!rc)
		rc = check_zones(l, arena);
	for (unsigned i = 0; !rc && i < l->n_args; i++) {
		rc = launch_arg_finish(&l->args[i], &l->diff[i]);
		l->differs |= l->diff[i].compared && !l->diff[i].equal;
	}
out:
	if (l->ledger) {
		closed = device_save_ledger(&d, l->ledger);
		rc = rc ? rc : closed;
	}
	for (unsigned i = 0; i < l->n_args; i++)
		launch_arg_unplace(&l->args[i]);
	arena_destroy(arena);
	bo_destroy(arena_bo);
	signal_destroy(done);
	if (pool.bo)
		kernarg_pool_destroy(&pool);
	co_unload(p);
	closed = device_close(&d);
	return rc ? rc : closed;
}

static void report_text(const struct launch *l)
{
	printf("%s: %" PRIu64
	       " waves in %u x %u x %u workgroups, %.3f ms from doorbell to wake-up\n",
	       l->k->name, l->waves, l->groups[0], l->groups[1], l->groups[2], (double)l->ns / 1e6);
	for (unsigned i = 0; i < l->n_args; i++) {
		const struct launch_difference *d = &l->diff[i];
		const struct launch_arg *a = &l->args[i];

		if (a->save)
			printf("argument %u: %" PRIu64 " bytes written to %s\n", i, a->bytes,
			       a->save);
		if (!d->compared)
			continue;
		if (d->equal)
			printf("argument %u: %" PRIu64 " bytes equal to %s\n", i, a->bytes,
			       a->expect_path);
		else
			printf("argument %u: differs from %s at offset %" PRIu64
			       " (0x%02x, wanted 0x%02x), %" PRIu64 " of %" PRIu64
			       " bytes differ\n",
			       i, a->expect_path, d->offset, d->got, d->want, d->count, a->bytes);
	}
}

static int report_json(const struct launch *l)
{
	json_t *o, *list = json_array();

	for (unsigned i = 0; i < l->n_args; i++) {
		const struct launch_difference *d = &l->diff[i];
		json_t *c;

		if (!d->compared)
			continue;
		c = json_pack("{s:I s:o s:b s:I}", "argument", (json_int_t)i, "file",
			      tool_json_text(l->args[i].expect_path), "equal", (int)d->equal,
			      "bytes", (json_int_t)l->args[i].bytes);
		if (!d->equal) {
			json_object_set_new(c, "first_difference",
					    json_integer((json_int_t)d->offset));
			json_object_set_new(c, "bytes_different",
					    json_integer((json_int_t)d->count));
			json_object_set_new(c, "got", json_integer(d->got));
			json_object_set_new(c, "wanted", json_integer(d->want));
		}
		json_array_append_new(list, c);
	}
	o = json_pack("{s:o s:o s:[I,I,I] s:[I,I,I] s:I s:I}", "file", tool_json_text(l->file),
		      "kernel", tool_json_text(l->k->name), "workgroups", (json_int_t)l->groups[0],
		      (json_int_t)l->groups[1], (json_int_t)l->groups[2], "block",
		      (json_int_t)l->shape.group[0], (json_int_t)l->shape.group[1],
		      (json_int_t)l->shape.group[2], "waves", (json_int_t)l->waves, "nanoseconds",
		      (json_int_t)l->ns);
	json_object_set_new(o, "comparisons", list);
	return tool_print_json(o);
}

static int parse(const struct command *self, struct launch *l, int argc, char **argv)
{
	static const struct option options[] = {
		{"grid", required_argument, NULL, 'g'},
		{"items", required_argument, NULL, 'i'},
		{"block", required_argument, NULL, 'b'},
		{"arg", required_argument, NULL, 'a'},
		{"expect", required_argument, NULL, 'e'},
		{"lds", required_argument, NULL, 'l'},
		{"scratch", required_argument, NULL, 's'},
		{"timeout", required_argument, NULL, 't'},
		{"device", required_argument, NULL, 'd'},
		{"arena", required_argument, NULL, 'A'},
		{"ledger", required_argument, NULL, 'L'},
		{"check", required_argument, NULL, 'V'},
		PLACEMENT_OPTIONS,
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *check = NULL, *grid = NULL, *items = NULL, *block = NULL, *specs[MAX_ARGS],
		   *expects[MAX_ARGS];
	unsigned n_specs = 0, n_expects = 0;
	uint64_t v;
	double seconds = 60;
	int o, rc;

	while ((o = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (o) {
		case 'g':
			grid = optarg;
			break;
		case 'i':
			items = optarg;
			break;
		case 'b':
			block = optarg;
			break;
		case 'a':
			if (n_specs == MAX_ARGS)
				return tool_usage(self, "more than %u --arg", MAX_ARGS);
			specs[n_specs++] = optarg;
			break;
		case 'e':
			if (n_expects == MAX_ARGS)
				return tool_usage(self, "more than %u --expect", MAX_ARGS);
			expects[n_expects++] = optarg;
			break;
		case 'l':
		case 's':
			if (!tool_u64(optarg, UINT32_MAX / 2, &v))
				return tool_usage(self, "'%s' is no number of bytes", optarg);
			if (o == 'l')
				l->shape.dynamic_lds = (uint32_t)v;
			else
				l->scratch = (uint32_t)v;
			break;
		case 't':
			if (!tool_f64(optarg, &seconds) || !(seconds >= 0 && seconds < 1e9))
				return tool_usage(self, "--timeout '%s', wanted seconds", optarg);
			break;
		case 'A':
			if (!tool_u64(optarg, 1ull << 40, &l->arena_bytes) || !l->arena_bytes)
				return tool_usage(self, "--arena '%s', wanted bytes", optarg);
			break;
		case 'd':
			l->device = optarg;
			break;
		case 'L':
			l->ledger = optarg;
			break;
		case 'V':
			check = optarg;
			break;
		case 'j':
			l->json = true;
			break;
		case 'h':
			exit(tool_help(self));
		default:
			if (!placement_is(o))
				return tool_bad_option(self, o, argv);
			if (placement_option(self, o, optarg, &l->rules))
				return TOOL_USAGE;
		}
	}
	if (argc - optind != 2)
		return tool_usage(self, "wanted FILE and KERNEL, got %d words", argc - optind);
	l->file = argv[optind];
	l->kernel = argv[optind + 1];
	l->timeout_ns = (uint64_t)(seconds * 1e9);
	rc = parse_shape(self, l, grid, items, block);
	/* after this the files are read: once, on the device that will be used */
	if (!rc)
		rc = device_select_checked(self, l->device, check);
	for (unsigned i = 0; !rc && i < n_specs; i++) {
		rc = launch_arg_parse(self, specs[i], &l->args[i]);
		l->n_args = i + 1;
	}
	for (unsigned i = 0; !rc && i < n_expects; i++)
		rc = launch_arg_expect(self, expects[i], l->args, l->n_args);
	return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct launch *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return tool_fail("out of memory");
	rc = parse(self, l, argc, argv);
	if (!rc)
		rc = load_image(l);
	if (!rc)
		rc = run_on_device(l);
	if (!rc && l->json)
		rc = report_json(l);
	else if (!rc)
		report_text(l);
	if (!rc && l->differs)
		rc = TOOL_FAILED;
	for (unsigned i = 0; i < l->n_args; i++)
		launch_arg_free(&l->args[i]);
	co_free(l->co);
	code_file_free(&l->code);
	free(l);
	return rc;
}

const struct command cmd_launch = {
	"launch",
	"dispatch any gfx1151 kernel with buffers from files",
	help,
	run,
};
