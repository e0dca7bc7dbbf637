/* barewave run: text from a model. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/gguf.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/tokenizer.h"
#include "tools/loading.h"
#include "tools/placement.h"
#include "tools/run_engine.h"
#include "tools/tool.h"

#define DEFAULT_TOKENS 128
#define MAX_FOOTPRINT  64

static const char help[] =
	"Usage: barewave run -m MODEL (-p PROMPT | --ids LIST) [OPTIONS]\n\n"
	"Runs a GGUF model: the prompt and the text it writes stream to stdout, then a table of\n"
	"bytes by owner (planned against measured) and the speed.\n\n"
	"  -m, --model FILE     GGUF v2 or v3, architecture qwen3\n"
	"  -p, --prompt TEXT    the prompt; <|im_start|> and the like are read as special tokens\n"
	"  --ids LIST           the prompt as token ids, comma separated, instead of text\n"
	"  -n, --tokens N       tokens to write (default 128); stops earlier at an end token\n"
	"  -c, --ctx N          context slots for prompt and text together (default: as many as\n"
	"                       are needed, at most what the model was trained for)\n"
	"  --temp T             temperature (default 0: always the most likely token)\n"
	"  --top-k K            sample among the K most likely (default 40, 0 all)\n"
	"  --top-p P            and among the most likely that make up P (default 0.95)\n"
	"  --seed S             of the sampler (default 1)\n"
	"  --ignore-eos         go on after an end token\n"
	"  --cpu                evaluate with the CPU reference; no device is opened\n"
	"  --kernels DIR        code objects NAME.co from DIR instead of the built-in ones\n"
	"  --disable NAME       leave a kernel (matmul_q8_0) or operation (matmul) to the CPU\n"
	"  --logits FILE        raw little-endian f32 logits of every evaluated "
	"position\n"
	"  --strict-footprint   fail on any allocation outside the plan\n"
	"  --budget MIB         of the whole process; below the weights some of them take turns,\n"
	"                       refilled from the file (slower); refused, with the smallest that\n"
	"                       works, when that is too low\n"
	"  --ledger FILE        save the ledger at the end, for 'barewave mem --ledger "
	"FILE'\n" TOOL_DEVICE_HELP TOOL_CHECK_HELP "  --json               the result as JSON\n"
	"  --help               this text\n" LOADING_HELP PLACEMENT_HELP;

struct run {
	struct run_options o;
	struct sampler_params sampling;
	const char *prompt, *ids_text, *logits_path, *check;
	uint64_t n_tokens;
	uint64_t ctx; /* 0: as needed */
	bool json, ignore_eos;

	struct gguf *gguf;
	struct model *model;
	struct tokenizer *tok;
	struct sampler *sampler;
	struct run_engine engine;
	int32_t *ids; /* prompt, then what was written */
	uint32_t n_ids;
	FILE *logits_file;
	/* text */
	struct tokenizer_stream stream;
	char *piece;
	size_t piece_cap;
	char *text; /* what was written, for --json */
	size_t text_len;
	/* result */
	const char *stop;
	uint64_t prompt_ns, write_ns, load_ns;
	uint32_t n_read; /* of the prompt: all, unless interrupted */
	uint32_t n_written;
	uint32_t n_steps; /* timed in write_ns; the first token comes from the prompt's logits */
};

/* ---- text ---- */

static int emit(struct run *r, int64_t len, bool written)
{
	if (len < 0)
		return tool_fail("token has no text: %s", strerror((int)-len));
	if (written && len) {
		char *t = realloc(r->text, r->text_len + (size_t)len + 1);

		if (!t)
			return tool_fail("out of memory");
		memcpy(t + r->text_len, r->piece, (size_t)len);
		r->text = t;
		r->text_len += (size_t)len;
		t[r->text_len] = '\0';
	}
	if (!r->json) {
		fwrite(r->piece, 1, (size_t)len, stdout);
		fflush(stdout);
	}
	return TOOL_OK;
}

static int emit_token(struct run *r, int32_t id, bool written)
{
	return emit(r,
		    tokenizer_stream_put(r->tok, &r->stream, id, !written, r->piece, r->piece_cap),
		    written);
}

/* ---- stopping ---- */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* The first SIGINT ends the text after the step under way: the report, the ledger and an orderly end
 * follow. The second one is the system's. A write that waits for its reader goes on: stdio drops what
 * an interrupted one has not written. */
static void catch_interrupt(void)
{
	const struct sigaction sa = {.sa_handler = note_interrupt,
				     .sa_flags = SA_RESETHAND | SA_RESTART};
	struct sigaction before;

	/* Not where somebody (nohup, a shell's background) wants it ignored. */
	if (!sigaction(SIGINT, NULL, &before) && before.sa_handler == SIG_DFL)
		sigaction(SIGINT, &sa, NULL);
}

/* ---- evaluation ---- */

/* Ids [from, to) through the engine; *last is the last position's row. */
static int evaluate(struct run *r, uint32_t from, uint32_t to, const float **last)
{
	const uint32_t vocab = r->model->hp.n_vocab;
	char err[512];

	while (from < to && !interrupted) {
		uint32_t n = to - from < r->engine.batch ? to - from : r->engine.batch;
		uint32_t rows = r->o.all_logits ? n : 1;
		const float *logits = NULL;
		int rc;

		err[0] = '\0';
		rc = r->engine.step(r->engine.self, r->ids + from, n, from, &logits, err,
				    sizeof(err));
		if (rc)
			return tool_fail("%s: position %u: %s", r->o.model_path, from,
					 err[0] ? err : strerror(-rc));
		if (r->logits_file &&
		    fwrite(logits, sizeof(float) * vocab, rows, r->logits_file) != rows)
			return tool_fail("%s: %s", r->logits_path, strerror(errno));
		*last = logits + (size_t)(rows - 1) * vocab;
		from += n;
		if (from <= r->o.n_prompt)
			r->n_read = from;
	}
	return TOOL_OK;
}

static int generate(struct run *r)
{
	const uint32_t n_prompt = r->o.n_prompt;
	const float *last = NULL;
	uint64_t start;
	char err[512];
	int rc = TOOL_OK;

	for (uint32_t i = 0; !rc && i < n_prompt; i++)
		rc = emit_token(r, r->ids[i], false);
	if (rc)
		return rc;
	start = tool_now_ns();
	rc = evaluate(r, 0, n_prompt, &last);
	r->prompt_ns = tool_now_ns() - start;
	start = tool_now_ns();
	r->stop = "length";
	while (!rc && !interrupted && r->n_written < r->n_tokens) {
		int32_t id;

		if (sampler_next(r->sampler, last, &id, err, sizeof(err))) {
			rc = tool_fail("%s: after %u tokens: %s", r->o.model_path, r->n_ids, err);
			break;
		}
		if (!r->ignore_eos && tokenizer_is_end(r->tok, id)) {
			r->stop = "end token";
			break;
		}
		r->ids[r->n_ids++] = id;
		r->n_written++;
		rc = emit_token(r, id, true);
		if (rc || r->n_written == r->n_tokens)
			break;
		if (r->n_ids > r->o.n_ctx) {
			r->stop = "context full";
			break;
		}
		rc = evaluate(r, r->n_ids - 1, r->n_ids, &last);
		r->n_steps++;
	}
	if (interrupted)
		r->stop = "interrupted";
	r->write_ns = tool_now_ns() - start;
	if (!rc)
		rc = emit(r, tokenizer_stream_flush(&r->stream, r->piece, r->piece_cap), true);
	if (!r->json)
		putchar('\n');
	return rc;
}

/* ---- report ---- */

static double rate(uint32_t n, uint64_t ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

static void print_bytes(bool known, uint64_t n)
{
	if (known)
		printf(" %14" PRIu64, n);
	else
		printf(" %14s", "unknown");
}

static void report_footprint(const struct run *r)
{
	struct run_footprint rows[MAX_FOOTPRINT];
	unsigned n = r->engine.footprint(r->engine.self, rows, MAX_FOOTPRINT);
	uint64_t planned = 0, measured = 0;
	bool p = r->engine.planned_bytes(r->engine.self, &planned);
	bool m = r->engine.measured_peak(r->engine.self, &measured);

	if (!n)
		return;
	printf("\n%-24s %14s %14s\n", "bytes by owner", "planned", "measured peak");
	for (unsigned i = 0; i < n && i < MAX_FOOTPRINT; i++) {
		printf("%-24s", rows[i].owner);
		print_bytes(rows[i].planned_known, rows[i].planned);
		print_bytes(rows[i].measured_known, rows[i].measured);
		putchar('\n');
	}
	printf("%-24s", "in all");
	print_bytes(p, planned);
	print_bytes(m, measured);
	putchar('\n');
}

static int report_text(const struct run *r)
{
	struct run_census c;
	const char *node, *reason;

	report_footprint(r);
	r->engine.census(r->engine.self, &c);
	printf("\nnodes of a step: %u in waves, %u on the CPU (%s)", c.on_device, c.on_cpu,
	       r->engine.where);
	if (c.packets_known)
		printf("; %u packets, %u of them wait for earlier ones", c.packets, c.barriers);
	putchar('\n');
	if (c.refilled)
		printf("weights of %u of %u blocks take turns (--budget): %s from the file in each "
		       "step\n",
		       c.refilled, c.blocks, tool_bytes(c.refill_bytes));
	for (unsigned i = 0; r->engine.declined(r->engine.self, i, &node, &reason); i++)
		printf("  on the CPU: %s: %s\n", node, reason);
	printf("load %.2f s; prompt %u tokens in %.2f s, %.1f tokens/s; text %u tokens in %.2f s",
	       (double)r->load_ns / 1e9, r->n_read, (double)r->prompt_ns / 1e9,
	       rate(r->n_read, r->prompt_ns), r->n_written, (double)r->write_ns / 1e9);
	if (r->n_steps)
		printf(", %.1f tokens/s", rate(r->n_steps, r->write_ns));
	printf("; stopped: %s\n", r->stop);
	if (fflush(stdout))
		return tool_fail("stdout: %s", strerror(errno));
	return TOOL_OK;
}

static json_t *json_ids(const int32_t *ids, uint32_t n)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(a, json_integer(ids[i]));
	return a;
}

static json_t *json_known(bool known, uint64_t n)
{
	return known ? json_integer((json_int_t)n) : json_null();
}

static int report_json(const struct run *r)
{
	struct run_footprint rows[MAX_FOOTPRINT];
	unsigned n = r->engine.footprint(r->engine.self, rows, MAX_FOOTPRINT);
	json_t *o = json_object(), *owners = json_array(), *declined = json_array(), *text;
	uint64_t planned = 0, measured = 0;
	bool p = r->engine.planned_bytes(r->engine.self, &planned);
	bool m = r->engine.measured_peak(r->engine.self, &measured);
	struct run_census c;
	const char *node, *reason;

	for (unsigned i = 0; i < n && i < MAX_FOOTPRINT; i++) {
		json_t *row = json_object();

		json_object_set_new(row, "owner", json_string(rows[i].owner));
		json_object_set_new(row, "planned_bytes",
				    json_known(rows[i].planned_known, rows[i].planned));
		json_object_set_new(row, "measured_peak_bytes",
				    json_known(rows[i].measured_known, rows[i].measured));
		json_array_append_new(owners, row);
	}
	r->engine.census(r->engine.self, &c);
	for (unsigned i = 0; r->engine.declined(r->engine.self, i, &node, &reason); i++)
		json_array_append_new(declined,
				      json_pack("{s:s s:s}", "node", node, "reason", reason));
	text = json_stringn(r->text ? r->text : "", r->text_len);
	json_object_set_new(o, "model", tool_json_text(r->o.model_path));
	json_object_set_new(o, "arch", json_string(r->model->arch_name));
	json_object_set_new(o, "engine", json_string(r->engine.where));
	json_object_set_new(o, "n_ctx", json_integer(r->o.n_ctx));
	json_object_set_new(o, "prompt_ids", json_ids(r->ids, r->o.n_prompt));
	json_object_set_new(o, "ids", json_ids(r->ids + r->o.n_prompt, r->n_written));
	json_object_set_new(o, "text", text ? text : json_null());
	json_object_set_new(o, "stopped", json_string(r->stop));
	json_object_set_new(o, "planned_bytes", json_known(p, planned));
	json_object_set_new(o, "measured_peak_bytes", json_known(m, measured));
	json_object_set_new(o, "footprint", owners);
	json_object_set_new(o, "nodes",
			    json_pack("{s:I s:I}", "device", (json_int_t)c.on_device, "cpu",
				      (json_int_t)c.on_cpu));
	json_object_set_new(o, "declined", declined);
	json_object_set_new(o, "packets_per_step", json_known(c.packets_known, c.packets));
	json_object_set_new(o, "barriers_per_step", json_known(c.packets_known, c.barriers));
	json_object_set_new(o, "blocks_refilled", json_integer(c.refilled));
	json_object_set_new(o, "refill_bytes_per_step", json_integer((json_int_t)c.refill_bytes));
	json_object_set_new(o, "load_seconds", json_real((double)r->load_ns / 1e9));
	json_object_set_new(o, "prompt_seconds", json_real((double)r->prompt_ns / 1e9));
	json_object_set_new(o, "text_seconds", json_real((double)r->write_ns / 1e9));
	json_object_set_new(o, "prompt_tokens_per_second",
			    json_real(rate(r->n_read, r->prompt_ns)));
	json_object_set_new(o, "tokens_per_second",
			    r->n_steps ? json_real(rate(r->n_steps, r->write_ns)) : json_null());
	return tool_print_json(o);
}

/* ---- set-up ---- */

static int parse_ids(const struct command *self, struct run *r)
{
	char *copy = strdup(r->ids_text), *at = copy, *word;
	size_t room = strlen(r->ids_text) / 2 + 1;
	int rc = TOOL_OK;

	r->ids = calloc(room, sizeof(*r->ids));
	if (!copy || !r->ids)
		rc = tool_fail("out of memory");
	while (!rc && (word = strsep(&at, ","))) {
		uint64_t v;

		if (!tool_u64(word, INT32_MAX, &v))
			rc = tool_usage(self, "--ids: '%s' is no token id", word);
		else
			r->ids[r->n_ids++] = (int32_t)v;
	}
	free(copy);
	return rc;
}

static int encode_prompt(struct run *r)
{
	size_t len = strlen(r->prompt), n;
	int rc;

	r->ids = calloc(len + 1, sizeof(*r->ids));
	if (!r->ids)
		return tool_fail("out of memory");
	rc = tokenizer_encode(r->tok, r->prompt, len, TOKENIZER_SPECIAL | TOKENIZER_BOS, r->ids,
			      len + 1, &n);
	if (rc)
		return tool_fail("%s: prompt cannot be encoded: %s", r->o.model_path,
				 rc == -EILSEQ ? "the vocabulary lacks one of its bytes"
					       : strerror(-rc));
	r->n_ids = (uint32_t)n;
	return TOOL_OK;
}

/* Prompt, context and token count against each other and the model. */
static int fit_context(struct run *r)
{
	const struct model_hparams *hp = &r->model->hp;
	uint64_t need, most = r->ctx ? r->ctx : hp->n_ctx;

	if (!r->n_ids)
		return tool_fail("%s: prompt of 0 tokens, wanted at least 1", r->o.model_path);
	for (uint32_t i = 0; i < r->n_ids; i++)
		if ((uint32_t)r->ids[i] >= hp->n_vocab)
			return tool_fail("%s: prompt id %d, wanted below n_vocab %u",
					 r->o.model_path, r->ids[i], hp->n_vocab);
	if (r->ctx > hp->n_ctx)
		return tool_fail("%s: --ctx %" PRIu64 ", wanted at most %s.context_length %u",
				 r->o.model_path, r->ctx, r->model->arch_name, hp->n_ctx);
	if (r->n_ids > most)
		return tool_fail("%s: prompt of %u tokens, wanted at most %s %" PRIu64,
				 r->o.model_path, r->n_ids, r->ctx ? "--ctx" : "context_length",
				 most);
	/* the last token written is not evaluated; a context that fills up ends the text */
	need = r->n_ids + (r->n_tokens ? r->n_tokens - 1 : 0);
	r->o.n_ctx = (uint32_t)(r->ctx ? r->ctx : need < most ? need : most);
	r->o.n_prompt = r->n_ids;
	return TOOL_OK;
}

static int open_model(struct run *r)
{
	char err[512];

	if (gguf_open(r->o.model_path, &r->gguf, err, sizeof(err)) ||
	    model_load(r->gguf, &r->model, err, sizeof(err)) ||
	    tokenizer_create(r->gguf, &r->tok, err, sizeof(err)))
		return tool_fail("%s", err);
	return TOOL_OK;
}

static int prepare(struct run *r)
{
	const uint32_t vocab = r->model->hp.n_vocab;
	char err[512];
	int32_t *grown;

	if (sampler_create(&r->sampling, vocab, &r->sampler, err, sizeof(err)))
		return tool_fail("%s", err);
	grown = realloc(r->ids, ((size_t)r->o.n_ctx + 2) * sizeof(*grown));
	if (!grown)
		return tool_fail("out of memory");
	r->ids = grown;
	r->piece_cap = tokenizer_stream_cap(r->tok);
	r->piece = malloc(r->piece_cap);
	if (!r->piece)
		return tool_fail("out of memory");
	if (r->logits_path) {
		r->logits_file = fopen(r->logits_path, "wbe");
		if (!r->logits_file)
			return tool_fail("%s: %s", r->logits_path, strerror(errno));
	}
	r->o.all_logits = r->logits_path != NULL;
	loading_show(&r->o.load);
	return r->o.cpu ? run_engine_cpu(&r->o, r->model, &r->engine)
			: run_engine_device(&r->o, r->model, &r->engine);
}

static void run_free(struct run *r)
{
	sampler_free(r->sampler);
	tokenizer_free(r->tok);
	model_free(r->model);
	gguf_close(r->gguf);
	free(r->ids);
	free(r->piece);
	free(r->text);
}

static int execute(const struct command *self, struct run *r)
{
	uint64_t start = tool_now_ns();
	int rc;

	if (r->ids_text) {
		rc = parse_ids(self, r);
		if (rc)
			return rc;
	}
	rc = r->o.ledger_path ? tool_writable(r->o.ledger_path) : TOOL_OK;
	if (!rc)
		rc = open_model(r);
	if (!rc && r->prompt)
		rc = encode_prompt(r);
	if (!rc)
		rc = fit_context(r);
	if (!rc)
		rc = prepare(r);
	r->load_ns = tool_now_ns() - start;
	if (!rc)
		rc = generate(r);
	if (!rc)
		rc = r->json ? report_json(r) : report_text(r);
	if (r->logits_file && fclose(r->logits_file) && !rc)
		rc = tool_fail("%s: %s", r->logits_path, strerror(errno));
	if (r->engine.self && r->engine.close(r->engine.self) && !rc)
		rc = TOOL_FAILED;
	return rc;
}

static int parse_number(const struct command *self, const char *name, const char *text,
			uint64_t max, uint64_t *out)
{
	if (tool_u64(text, max, out))
		return TOOL_OK;
	return tool_usage(self, "%s '%s', wanted a number up to %" PRIu64, name, text, max);
}

static int parse_float(const struct command *self, const char *name, const char *text, float *out)
{
	double d;

	if (!tool_f64(text, &d))
		return tool_usage(self, "%s '%s' is no number", name, text);
	*out = (float)d;
	return TOOL_OK;
}

static int parse(const struct command *self, struct run *r, int argc, char **argv)
{
	static const struct option options[] = {
		{"model", required_argument, NULL, 'm'},
		{"prompt", required_argument, NULL, 'p'},
		{"ids", required_argument, NULL, 'i'},
		{"tokens", required_argument, NULL, 'n'},
		{"ctx", required_argument, NULL, 'c'},
		{"temp", required_argument, NULL, 't'},
		{"top-k", required_argument, NULL, 'k'},
		{"top-p", required_argument, NULL, 'P'},
		{"seed", required_argument, NULL, 's'},
		{"ignore-eos", no_argument, NULL, 'e'},
		{"cpu", no_argument, NULL, 'C'},
		{"kernels", required_argument, NULL, 'K'},
		{"logits", required_argument, NULL, 'l'},
		{"device", required_argument, NULL, 'd'},
		{"disable", required_argument, NULL, 'D'},
		{"strict-footprint", no_argument, NULL, 'S'},
		{"ledger", required_argument, NULL, 'L'},
		{"budget", required_argument, NULL, 'B'},
		{"check", required_argument, NULL, 'V'},
		PLACEMENT_OPTIONS,
		LOADING_OPTIONS,
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	bool placed = false;
	uint64_t v;
	int o, rc = TOOL_OK;

	while (!rc && (o = getopt_long(argc, argv, ":m:p:n:c:h", options, NULL)) != -1) {
		switch (o) {
		case 'm':
			r->o.model_path = optarg;
			break;
		case 'p':
			r->prompt = optarg;
			break;
		case 'i':
			r->ids_text = optarg;
			break;
		case 'n':
			rc = parse_number(self, "-n", optarg, UINT32_MAX, &r->n_tokens);
			break;
		case 'c':
			rc = parse_number(self, "-c", optarg, UINT32_MAX, &r->ctx);
			break;
		case 't':
			rc = parse_float(self, "--temp", optarg, &r->sampling.temp);
			break;
		case 'k':
			rc = parse_number(self, "--top-k", optarg, UINT32_MAX, &v);
			r->sampling.top_k = (uint32_t)v;
			break;
		case 'P':
			rc = parse_float(self, "--top-p", optarg, &r->sampling.top_p);
			break;
		case 's':
			rc = parse_number(self, "--seed", optarg, UINT64_MAX, &r->sampling.seed);
			break;
		case 'e':
			r->ignore_eos = true;
			break;
		case 'C':
			r->o.cpu = true;
			break;
		case 'K':
			r->o.kernels_dir = optarg;
			break;
		case 'D':
			if (r->o.n_disabled == sizeof(r->o.disabled) / sizeof(r->o.disabled[0]))
				return tool_usage(self, "more than %u --disable", r->o.n_disabled);
			r->o.disabled[r->o.n_disabled++] = optarg;
			break;
		case 'l':
			r->logits_path = optarg;
			break;
		case 'd':
			r->o.device = optarg;
			break;
		case 'S':
			r->o.strict = true;
			break;
		case 'B':
			if (!tool_u64(optarg, UINT64_MAX >> 20, &r->o.budget) || !r->o.budget)
				return tool_usage(self, "--budget '%s', wanted MiB", optarg);
			r->o.budget <<= 20;
			break;
		case 'V':
			r->check = optarg;
			break;
		case 'L':
			r->o.ledger_path = optarg;
			break;
		case 'j':
			r->json = true;
			break;
		case 'h':
			exit(tool_help(self));
		default:
			placed = true;
			if (loading_is(o))
				rc = loading_option(self, o, optarg, &r->o.load);
			else if (!placement_is(o))
				return tool_bad_option(self, o, argv);
			else
				rc = placement_option(self, o, optarg, &r->o.rules);
		}
	}
	if (rc)
		return rc;
	if (optind < argc)
		return tool_usage(self, "unexpected word '%s'", argv[optind]);
	if (!r->o.model_path)
		return tool_usage(self, "no model given (-m)");
	if (!r->prompt == !r->ids_text)
		return tool_usage(self, "wanted one of -p and --ids");
	if (r->o.cpu && (r->o.device || r->o.kernels_dir || r->o.n_disabled || r->o.strict ||
			 r->o.budget || r->o.ledger_path || r->check || placed))
		return tool_usage(self,
				  "--cpu excludes --device, --kernels, --disable, --check, "
				  "--strict-footprint, --budget, --ledger, loading and placement");
	return device_select_checked(self, r->o.device, r->check);
}

static int run(const struct command *self, int argc, char **argv)
{
	struct run r = {
		.sampling = {.temp = 0, .top_k = 40, .top_p = 0.95f, .seed = 1},
		.n_tokens = DEFAULT_TOKENS,
	};
	int rc = parse(self, &r, argc, argv);

	if (!rc) {
		catch_interrupt();
		rc = execute(self, &r);
	}
	run_free(&r);
	/* Everything is returned; whoever waits for this process is told what ended it. */
	if (interrupted && !rc && !fflush(NULL)) {
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
	return rc;
}

const struct command cmd_run = {
	"run",
	"inference of a GGUF model",
	help,
	run,
};
