/* GGUF files: what good ones hold, what bad ones are refused for, and that no image crashes. */
#include <criterion/criterion.h>

#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "engine/gguf.h"
#include "engine/graph.h"
#include "engine/model.h"
#include "engine/ref.h"
#include "engine/tokenizer.h"
#include "tests/gguf_build.h"

static char err[512];

static struct gguf *good(const struct image *im)
{
	struct gguf *g = NULL;
	int ret = gguf_parse(im->p, im->n, "t.gguf", &g, err, sizeof(err));

	cr_assert_eq(ret, 0, "refused: %s", err);
	return g;
}

/* Refused with this errno, in one line that holds each of the given words. */
static void says(int ret, int want, const char *a, const char *b)
{
	cr_assert_eq(ret, want, "%d, want %d: %s", ret, want, err);
	cr_assert(strstr(err, a) && strstr(err, b), "\"%s\" lacks \"%s\" or \"%s\"", err, a, b);
	cr_assert_not(strchr(err, '\n'), "more than one line: %s", err);
}

static void refused(int ret, int want, const char *a, const char *b)
{
	says(ret, want, a, b);
	cr_assert(strstr(err, "t.gguf: ") == err, "no file name: %s", err);
}

static void bad(const struct image *im, int want, const char *a, const char *b)
{
	struct gguf *g = (void *)1;

	refused(gguf_parse(im->p, im->n, "t.gguf", &g, err, sizeof(err)), want, a, b);
	cr_assert_eq(g, (void *)1, "output touched");
	free(im->p);
}

Test(gguf, every_value_type)
{
	struct image im;
	struct gguf *g;
	const struct gguf_kv *kv;
	struct gguf_str s;
	uint32_t u;
	uint64_t u64;
	float f;
	bool b;
	size_t cursor = 0;

	image_begin(&im, 2);
	kv_begin(&im, "u8", GGUF_U8), put_bytes(&im, "\xff", 1);
	kv_begin(&im, "i8", GGUF_I8), put_bytes(&im, "\xff", 1);
	kv_begin(&im, "u16", GGUF_U16), put_bytes(&im, "\x01\x80", 2);
	kv_begin(&im, "i16", GGUF_I16), put_bytes(&im, "\x01\x80", 2);
	kv_u32(&im, "u32", 0x80000001);
	kv_begin(&im, "i32", GGUF_I32), put32(&im, 7);
	kv_f32(&im, "f32", 0.5f);
	kv_begin(&im, "bool", GGUF_BOOL), put_bytes(&im, "\x01", 1);
	kv_str(&im, "str", "hello");
	kv_begin(&im, "u64", GGUF_U64), put64(&im, 1ull << 63 | 5);
	kv_begin(&im, "i64", GGUF_I64), put64(&im, 9);
	kv_begin(&im, "f64", GGUF_F64), put_bytes(&im, &(double){0.25}, 8);
	kv_array(&im, "strs", GGUF_STRING, 2), put_str(&im, "a", 1), put_str(&im, "", 0);
	kv_array(&im, "ints", GGUF_I16, 2), put_bytes(&im, "\xfe\xff\x03\x00", 4);
	kv_array(&im, "none", GGUF_U32, 0);
	g = good(&im);
	cr_assert_eq(g->version, 2);
	cr_assert_eq(g->alignment, 32);
	cr_assert_eq(g->n_kv, 15);
	cr_assert(!gguf_u32(g, "u8", &u, err, sizeof(err)) && u == 255);
	cr_assert(!gguf_u32(g, "u16", &u, err, sizeof(err)) && u == 0x8001);
	cr_assert(!gguf_u32(g, "u32", &u, err, sizeof(err)) && u == 0x80000001);
	cr_assert(!gguf_u32(g, "i32", &u, err, sizeof(err)) && u == 7);
	cr_assert(!gguf_u64(g, "u64", &u64, err, sizeof(err)) && u64 == (1ull << 63 | 5));
	cr_assert(!gguf_u64(g, "i64", &u64, err, sizeof(err)) && u64 == 9);
	cr_assert(!gguf_f32(g, "f32", &f, err, sizeof(err)) && f == 0.5f);
	cr_assert(!gguf_f32(g, "f64", &f, err, sizeof(err)) && f == 0.25f);
	cr_assert(!gguf_bool(g, "bool", &b, err, sizeof(err)) && b);
	cr_assert(!gguf_string(g, "str", &s, err, sizeof(err)) && gguf_str_eq(s, "hello"));
	cr_assert(!gguf_array(g, "strs", GGUF_STRING, &kv, err, sizeof(err)) && kv->count == 2);
	cr_assert(gguf_str_eq(gguf_array_str(kv, &cursor), "a"));
	cr_assert(gguf_str_eq(gguf_array_str(kv, &cursor), ""));
	cr_assert(!gguf_array(g, "ints", GGUF_I16, &kv, err, sizeof(err)));
	cr_assert_eq(gguf_array_int(kv, 0), -2);
	cr_assert_eq(gguf_array_int(kv, 1), 3);
	cr_assert(!gguf_array(g, "none", GGUF_U32, &kv, err, sizeof(err)) && kv->count == 0);

	u = 42;
	refused(gguf_u32(g, "absent", &u, err, sizeof(err)), -ENOENT, "absent", "missing");
	refused(gguf_u32(g, "i8", &u, err, sizeof(err)), -EINVAL, "i8", "-1");
	refused(gguf_u32(g, "i16", &u, err, sizeof(err)), -EINVAL, "i16", "-32767");
	refused(gguf_u32(g, "u64", &u, err, sizeof(err)), -EINVAL, "u64", "9223372036854775813");
	refused(gguf_u32(g, "f32", &u, err, sizeof(err)), -EINVAL, "f32", "integer");
	refused(gguf_f32(g, "u8", &f, err, sizeof(err)), -EINVAL, "u8", "f32");
	refused(gguf_bool(g, "u8", &b, err, sizeof(err)), -EINVAL, "u8", "bool");
	refused(gguf_string(g, "strs", &s, err, sizeof(err)), -EINVAL, "array of string",
		"want string");
	refused(gguf_array(g, "ints", GGUF_I32, &kv, err, sizeof(err)), -EINVAL, "i16", "i32");
	cr_assert_eq(u, 42, "output touched");
	gguf_close(g);
	free(im.p);
}

Test(gguf, tensors_are_where_the_file_says)
{
	struct image im = mini_model(NULL);
	struct gguf *g = good(&im);
	const struct gguf_tensor *t = gguf_tensor(g, "token_embd.weight");

	cr_assert(t && t->type == 0 && t->n_dims == 2);
	cr_assert(t->ne[0] == MINI_EMBD && t->ne[1] == MINI_VOCAB && t->ne[2] == 1 &&
		  t->ne[3] == 1);
	cr_assert_eq(t->bytes, 4ull * MINI_EMBD * MINI_VOCAB);
	cr_assert_eq((const uint8_t *)t->data - im.p, (ptrdiff_t)t->offset);
	cr_assert_eq(t->offset, g->data_offset);
	t = gguf_tensor(g, "blk.0.ffn_down.weight");
	cr_assert_eq(t->offset + t->bytes, im.n);
	cr_assert_null(gguf_tensor(g, "blk.0.ffn_down.weigh"));
	cr_assert_null(gguf_find(g, ""));
	gguf_close(g);
	free(im.p);
}

Test(gguf, alignment_moves_the_data)
{
	struct image im;
	struct gguf *g;
	uint32_t v = 0x1234;

	image_begin(&im, 3);
	kv_u32(&im, "general.alignment", 256);
	tensor_info(&im, "a", 26, 1, (uint64_t[]){1}, 4);
	while (im.n % 256)
		put_bytes(&im, "", 1);
	put32(&im, v);
	g = good(&im);
	cr_assert_eq(g->data_offset, 256);
	cr_assert_eq(*(const uint32_t *)g->tensors[0].data, v);
	gguf_close(g);
	free(im.p);
}

Test(gguf, headers)
{
	struct image im;

	image_begin(&im, 3);
	im.p[0] = 'X';
	bad(&im, -EINVAL, "magic", "58 47 55 46");
	image_begin(&im, 1);
	bad(&im, -ENOTSUP, "version", "1;");
	image_begin(&im, 4);
	bad(&im, -ENOTSUP, "version", "4");
	image_begin(&im, __builtin_bswap32(3));
	bad(&im, -ENOTSUP, "big-endian", "version reads 3");
	image_begin(&im, 3);
	memset(im.p + im.tensor_count_at, 0xff, 8);
	bad(&im, -EINVAL, "tensor count", "18446744073709551615");
	image_begin(&im, 3);
	im.p[im.kv_count_at + 7] = 1;
	bad(&im, -EINVAL, "metadata count", "72057594037927936");
	/* A count that the limit allows but the file cannot hold. */
	image_begin(&im, 3);
	im.p[im.kv_count_at + 1] = 4;
	bad(&im, -EINVAL, "metadata count", "1024");
}

Test(gguf, metadata_refusals)
{
	struct image im;

	image_begin(&im, 3);
	kv_begin(&im, "some.key", 13), put64(&im, 0);
	bad(&im, -EINVAL, "some.key", "13");
	image_begin(&im, 3);
	kv_begin(&im, "", GGUF_U8), put64(&im, 0);
	bad(&im, -EINVAL, "key 0", "empty");
	image_begin(&im, 3);
	kv_begin(&im, "k", GGUF_BOOL), put_bytes(&im, "\x02", 1);
	bad(&im, -EINVAL, "k is 2", "bool");
	image_begin(&im, 3);
	kv_begin(&im, "k", GGUF_STRING), put64(&im, 1ull << 60);
	bad(&im, -EINVAL, "of k", "1152921504606846976");
	image_begin(&im, 3);
	kv_begin(&im, "k", GGUF_STRING), put64(&im, 100), put32(&im, 0);
	bad(&im, -EINVAL, "truncated", "100 bytes");
	image_begin(&im, 3);
	bump(&im, im.kv_count_at);
	put64(&im, 1ull << 40), put64(&im, 0);
	bad(&im, -EINVAL, "key 0", "1099511627776");
	image_begin(&im, 3);
	kv_array(&im, "k", GGUF_U64, UINT64_MAX / 8 + 1);
	bad(&im, -EINVAL, "count of k", "2305843009213693952");
	image_begin(&im, 3);
	kv_array(&im, "k", GGUF_U64, 50000000);
	bad(&im, -EINVAL, "of k", "400000000");
	image_begin(&im, 3);
	kv_array(&im, "k", GGUF_ARRAY, 1);
	bad(&im, -ENOTSUP, "element type of k", "9");
	image_begin(&im, 3);
	kv_array(&im, "k", 77, 1);
	bad(&im, -EINVAL, "element type of k", "77");
	image_begin(&im, 3);
	kv_u32(&im, "twin", 1), kv_u32(&im, "a", 1), kv_u32(&im, "twin", 2);
	bad(&im, -EINVAL, "twin", "twice");
	image_begin(&im, 3);
	kv_u32(&im, "general.alignment", 0);
	bad(&im, -EINVAL, "general.alignment", "is 0");
	image_begin(&im, 3);
	kv_u32(&im, "general.alignment", 48);
	bad(&im, -EINVAL, "general.alignment", "is 48");
	image_begin(&im, 3);
	kv_str(&im, "general.alignment", "32");
	bad(&im, -EINVAL, "general.alignment", "string");
}

/* One tensor "w" with these fields and 64 bytes of data. */
static struct image one_tensor(const char *name, uint32_t type, unsigned n_dims, const uint64_t *ne,
			       uint64_t offset)
{
	struct image im;
	char zero[64] = "";

	image_begin(&im, 3);
	tensor_info(&im, name, type, n_dims, ne, 0);
	memcpy(im.p + im.n - 8, &offset, 8);
	image_align(&im);
	put_bytes(&im, zero, sizeof(zero));
	return im;
}

Test(gguf, tensor_refusals)
{
	char longname[65];
	struct image im;

	memset(longname, 'n', 64);
	longname[64] = 0;
	im = one_tensor(longname, 0, 1, (uint64_t[]){1}, 0);
	bad(&im, -EINVAL, "name of tensor 0", "64 bytes");
	im = one_tensor("", 0, 1, (uint64_t[]){1}, 0);
	bad(&im, -EINVAL, "name of tensor 0", "empty");
	im = one_tensor("w", 0, 0, NULL, 0);
	bad(&im, -EINVAL, "dimension count of w", "0");
	im = one_tensor("w", 0, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0);
	bad(&im, -EINVAL, "dimension count of w", "5");
	im = one_tensor("w", 0, 2, (uint64_t[]){1, 0}, 0);
	bad(&im, -EINVAL, "dimension 1 of w", "0");
	im = one_tensor("w", 0, 2, (uint64_t[]){1ull << 33, 1ull << 33}, 0);
	bad(&im, -EINVAL, "w", "overflows");
	im = one_tensor("w", 0, 1, (uint64_t[]){UINT64_MAX}, 0);
	bad(&im, -EINVAL, "w", "18446744073709551615");
	im = one_tensor("w", 28, 1, (uint64_t[]){1ull << 62}, 0);
	bad(&im, -EINVAL, "w", "F64");
	im = one_tensor("w", 99, 1, (uint64_t[]){1}, 0);
	bad(&im, -ENOTSUP, "tensor w", "99");
	im = one_tensor("w", 4, 1, (uint64_t[]){1}, 0);
	bad(&im, -ENOTSUP, "tensor w", "4,");
	im = one_tensor("w", 12, 2, (uint64_t[]){128, 2}, 0);
	bad(&im, -EINVAL, "128", "Q4_K wants multiples of 256");
	im = one_tensor("w", 0, 1, (uint64_t[]){1}, 4);
	bad(&im, -EINVAL, "offset of tensor w is 4", "32");
	im = one_tensor("w", 0, 1, (uint64_t[]){17}, 0);
	bad(&im, -EINVAL, "tensor w", "68 bytes");
	im = one_tensor("w", 0, 1, (uint64_t[]){9}, 32);
	bad(&im, -EINVAL, "tensor w", "offset 32");
	im = one_tensor("w", 0, 1, (uint64_t[]){1}, UINT64_MAX - 31);
	bad(&im, -EINVAL, "tensor w", "18446744073709551584");
	image_begin(&im, 3);
	tensor_info(&im, "w", 0, 1, (uint64_t[]){1}, 4);
	tensor_info(&im, "w", 0, 1, (uint64_t[]){1}, 4);
	image_align(&im);
	put64(&im, 0), put64(&im, 0), put64(&im, 0), put64(&im, 0), put32(&im, 0);
	bad(&im, -EINVAL, "tensor w", "twice");
	image_begin(&im, 3);
	tensor_info(&im, "v", 0, 1, (uint64_t[]){9}, 0);
	tensor_info(&im, "w", 0, 1, (uint64_t[]){1}, 4);
	im.n -= 8, put64(&im, 32);
	image_align(&im);
	put64(&im, 0), put64(&im, 0), put64(&im, 0), put64(&im, 0), put32(&im, 0);
	bad(&im, -EINVAL, "offset of tensor w is 32", "inside tensor v (36 bytes at 0)");
}

Test(gguf, names_are_shown_fit_for_a_terminal)
{
	struct image im;

	image_begin(&im, 3);
	kv_begin(&im, "\x1b[31m\n", 200), put64(&im, 0);
	bad(&im, -EINVAL, "?[31m?", "200");
}

Test(gguf, every_truncation_is_refused)
{
	struct image im = mini_model(NULL);
	struct gguf *g = good(&im);
	size_t data = g->data_offset;

	gguf_close(g);
	for (size_t n = 0; n < im.n; n++) {
		/* In the metadata an exact copy, so that a byte too far is seen. */
		uint8_t *copy = n <= data ? malloc(n + !n) : NULL;
		int ret;

		if (copy)
			memcpy(copy, im.p, n);
		g = NULL;
		err[0] = 0;
		ret = gguf_parse(copy ? copy : im.p, n, "t.gguf", &g, err, sizeof(err));
		cr_assert_eq(ret, -EINVAL, "%zu of %zu bytes: %d", n, im.n, ret);
		cr_assert(err[0] && !g);
		free(copy);
	}
	free(im.p);
}

Test(gguf, files)
{
	char path[] = "/tmp/unit_gguf_XXXXXX";
	struct image im = mini_model(NULL);
	struct gguf *g = NULL;
	int fd = mkstemp(path);

	cr_assert_eq(gguf_open("/nonexistent/m.gguf", &g, err, sizeof(err)), -ENOENT);
	cr_assert(strstr(err, "/nonexistent/m.gguf: cannot open: No such file"), "%s", err);
	cr_assert_eq(gguf_open("/tmp", &g, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "/tmp: not a regular file"), "%s", err);
	cr_assert_eq(gguf_open(path, &g, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "empty"), "%s", err);
	cr_assert_eq(write(fd, im.p, im.n), (ssize_t)im.n);
	cr_assert_eq(gguf_open(path, &g, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(g->n_tensors, 13);
	gguf_close(g);
	g = NULL;
	cr_assert_eq(ftruncate(fd, (off_t)im.n - 1), 0);
	cr_assert_eq(gguf_open(path, &g, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, path) && strstr(err, "truncated: tensor blk.0.ffn_down.weight"), "%s",
		  err);
	cr_assert_null(g);
	close(fd);
	unlink(path);
	free(im.p);
}

/* model_load() of a variant of the small model; frees everything. */
static int load_mini(const struct mini *m)
{
	struct image im = mini_model(m);
	struct gguf *g = good(&im);
	struct model *mo = NULL;
	int ret = model_load(g, &mo, err, sizeof(err));

	model_free(mo);
	gguf_close(g);
	free(im.p);
	return ret;
}

Test(model, good)
{
	struct image im = mini_model(NULL);
	struct gguf *g = good(&im);
	struct model *m = NULL;

	cr_assert_eq(model_load(g, &m, err, sizeof(err)), 0, "%s", err);
	cr_assert(m->tied && m->output == m->token_embd);
	cr_assert(m->hp.n_vocab == MINI_VOCAB && m->hp.n_embd == 32 && m->hp.n_layer == 1);
	cr_assert(m->hp.n_head == 2 && m->hp.n_head_kv == 1 && m->hp.head_dim == 16);
	cr_assert(m->hp.rope_theta == 10000.0f && m->hp.n_ctx == 16 && m->hp.n_ff == 64);
	/* embedding, 3 norms of 32, 2 of 16, q k v o, gate up down */
	cr_assert_eq(m->weight_bytes,
		     4ull * (262 * 32 + 3 * 32 + 2 * 16 + 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64));
	model_free(m);
	gguf_close(g);
	free(im.p);
}

Test(model, refusals)
{
	refused(load_mini(&(struct mini){.arch = "mamba"}), -ENOTSUP, "\"mamba\"", "qwen3");
	refused(load_mini(&(struct mini){.arch = "a\nb"}), -ENOTSUP, "architecture", "plain");
	refused(load_mini(&(struct mini){.q_type = 26}), -ENOTSUP, "blk.0.attn_q.weight",
		"I32 (26)");
	refused(load_mini(&(struct mini){.norm_type = 1}), -ENOTSUP, "blk.0.attn_norm.weight",
		"F16");
	refused(load_mini(&(struct mini){.up_rows = 65}), -EINVAL, "blk.0.ffn_up.weight",
		"[32, 65], want [32, 64]");
	refused(load_mini(&(struct mini){.leave_out = "blk.0.attn_k_norm.weight"}), -EINVAL,
		"blk.0.attn_k_norm.weight", "missing");
	refused(load_mini(&(struct mini){.leave_out = "token_embd.weight"}), -EINVAL,
		"token_embd.weight", "missing");
	refused(load_mini(&(struct mini){.extra = "blk.0.attn_q.bias"}), -ENOTSUP,
		"blk.0.attn_q.bias", "no part");
	refused(load_mini(&(struct mini){.leave_key = "block_count"}), -EINVAL, "qwen3.block_count",
		"missing");
	refused(load_mini(&(struct mini){.leave_key = "attention.layer_norm_rms_epsilon"}), -EINVAL,
		"qwen3.attention.layer_norm_rms_epsilon", "missing");
	/* Without a key/value head count there are as many as query heads: another shape. */
	refused(load_mini(&(struct mini){.leave_key = "attention.head_count_kv"}), -EINVAL,
		"blk.0.attn_k.weight", "[32, 16], want [32, 32]");
}

Test(graph, refusals)
{
	struct image im = mini_model(NULL);
	struct gguf *g = good(&im);
	struct graph *gr = NULL;
	struct model *m = NULL;

	cr_assert_eq(model_load(g, &m, err, sizeof(err)), 0, "%s", err);
	/* Whoever asks knows of which file. */
	says(graph_build(m, 1, 17, &gr, err, sizeof(err)), -EINVAL, "17", "16");
	says(graph_build(m, 0, 8, &gr, err, sizeof(err)), -EINVAL, "batch of 0", "8");
	says(graph_build(m, 9, 8, &gr, err, sizeof(err)), -EINVAL, "batch of 9", "8");
	cr_assert_null(gr);
	model_free(m);
	gguf_close(g);
	free(im.p);
}

static uint64_t rng_state = 12345;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

/* Everything the engine does with a file that parsed. */
static unsigned use(const struct gguf *g)
{
	struct tokenizer *t = NULL;
	struct graph *gr = NULL;
	struct model *m = NULL;
	struct ref *r = NULL;
	unsigned reached = 0;

	for (uint32_t i = 0; i < g->n_kv; i++) {
		size_t cursor = 0;

		for (uint64_t k = 0; k < g->kv[i].count; k++) {
			if (g->kv[i].elem == GGUF_STRING)
				reached += gguf_array_str(&g->kv[i], &cursor).n > 1u << 30;
			else
				reached += isnan(gguf_array_float(&g->kv[i], k)) && k > 1u << 30;
		}
	}
	if (tokenizer_create(g, &t, err, sizeof(err)) == 0) {
		const char text[] = "hello, hell<|im_end|>o \xff <note>";
		int32_t ids[sizeof(text)];
		size_t n;

		if (tokenizer_encode(t, text, sizeof(text), 3, ids, sizeof(text), &n) == 0)
			reached |= 1;
	}
	if (model_load(g, &m, err, sizeof(err)) == 0 &&
	    graph_build(m, 1, 2, &gr, err, sizeof(err)) == 0 &&
	    ref_create(gr, &r, err, sizeof(err)) == 0 &&
	    ref_step(r, (int32_t[]){1}, 1, 0, NULL, err, sizeof(err)) == 0)
		reached |= 2;
	ref_free(r);
	graph_free(gr);
	model_free(m);
	tokenizer_free(t);
	return reached;
}

Test(gguf, mutations_never_crash)
{
	static const uint64_t odd[] = {0,          1,         0x7f,       0xff,
				       0x7fff,     0xffff,    0x7fffffff, 0x80000000,
				       0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 31,
				       1ull << 40};
	struct image im = mini_model(NULL);
	struct gguf *g = good(&im);
	size_t meta = g->data_offset;
	unsigned parsed = 0, refusals = 0, encoded = 0, stepped = 0;
	uint8_t *copy = malloc(im.n);

	gguf_close(g);
	for (int round = 0; round < 6000; round++) {
		unsigned changes = 1 + (unsigned)(rng() % 3), reached;

		memcpy(copy, im.p, im.n);
		for (unsigned i = 0; i < changes; i++) {
			size_t at = (size_t)(rng() % meta), width = 1u << rng() % 4;
			uint64_t v =
				rng() % 2 ? odd[rng() % (sizeof(odd) / sizeof(odd[0]))] : rng();

			/* Half of them in the first kilobyte, where the counts and sizes are. */
			if (rng() % 2)
				at %= 1024;
			memcpy(copy + at, &v, at + width <= meta ? width : 1);
		}
		g = NULL;
		err[0] = 0;
		if (gguf_parse(copy, im.n, "t.gguf", &g, err, sizeof(err)) < 0) {
			cr_assert(err[0] && !g);
			refusals++;
			continue;
		}
		parsed++;
		reached = use(g);
		encoded += reached & 1;
		stepped += reached >> 1 & 1;
		gguf_close(g);
	}
	/* The loop means something only if it reaches every stage, and every refusal. */
	cr_assert(refusals > 500 && parsed > 500 && encoded > 50 && stepped > 50,
		  "%u refused, %u parsed, %u encoded, %u stepped", refusals, parsed, encoded,
		  stepped);
	free(copy);
	free(im.p);
}
