/* The tokenizer against published answers, and against its own definition where there are none. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "engine/pretoken.h"
#include "engine/tokenizer.h"
#include "engine/unicode.h"
#include "tests/gguf_build.h"
#include "tests/json_file.h"

static char err[512];

static struct tokenizer *open_tokenizer(const char *path)
{
	struct tokenizer *t = NULL;
	struct gguf *g = NULL;

	cr_assert_eq(gguf_open(path, &g, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(tokenizer_create(g, &t, err, sizeof(err)), 0, "%s", err);
	gguf_close(g);
	return t;
}

static struct tokenizer *mini_tokenizer(void)
{
	struct image im = mini_model(NULL);
	struct tokenizer *t = NULL;
	struct gguf *g = NULL;

	cr_assert_eq(gguf_parse(im.p, im.n, "mini", &g, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(tokenizer_create(g, &t, err, sizeof(err)), 0, "%s", err);
	gguf_close(g);
	free(im.p);
	return t;
}

/* Ids of all through the stream; the text must be freed. */
static char *decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool special,
		    size_t *len)
{
	struct tokenizer_stream s = {0};
	size_t cap = tokenizer_stream_cap(t), at = 0;
	char *out = malloc((n + 1) * cap + 1);
	int64_t made;

	for (size_t i = 0; i < n; i++) {
		made = tokenizer_stream_put(t, &s, ids[i], special, out + at, cap);
		cr_assert_geq(made, 0);
		at += (size_t)made;
	}
	made = tokenizer_stream_flush(&s, out + at, cap);
	cr_assert_geq(made, 0);
	*len = at + (size_t)made;
	out[*len] = 0;
	return out;
}

static void check_encode(const struct tokenizer *t, const json_t *text, const json_t *want)
{
	const char *s = json_string_value(text);
	size_t len = json_string_length(text), n_want, n, n_back;
	int32_t *ids = json_ids(want, &n_want), *got = malloc((len + 1) * sizeof(*got));
	char *back;

	cr_assert_eq(tokenizer_encode(t, s, len, TOKENIZER_SPECIAL, got, len + 1, &n), 0);
	for (size_t i = 0; i < n && i < n_want; i++)
		cr_assert_eq(got[i], ids[i], "\"%s\": id %zu is %d, want %d", s, i, got[i], ids[i]);
	cr_assert_eq(n, n_want, "\"%s\": %zu ids, want %zu", s, n, n_want);
	back = decode(t, got, n, true, &n_back);
	cr_assert(n_back == len && !memcmp(back, s, len), "\"%s\" came back as \"%s\"", s, back);
	free(back);
	free(got);
	free(ids);
}

Test(tokenizer, qwen3_vectors)
{
	json_t *j = json_testdata("tokenizer/qwen3_vectors.json");
	const char *path = testdata("tokenizer/qwen3-vocab.gguf");
	struct tokenizer *t;
	json_t *v;
	size_t i;

	if (!j || !path)
		SKIP("tokenizer.qwen3_vectors", "tokenizer/qwen3-vocab.gguf is not here");
	t = open_tokenizer(path);
	cr_assert_eq(tokenizer_n_vocab(t), 151669);
	cr_assert_eq(json_array_size(json_object_get(j, "vectors")), 186);
	json_array_foreach(json_object_get(j, "vectors"), i, v)
		check_encode(t, json_object_get(v, "text"), json_object_get(v, "ids"));
	cr_assert(tokenizer_is_end(t, 151645) && tokenizer_is_end(t, 151643));
	cr_assert_not(tokenizer_is_end(t, 151644));
	tokenizer_free(t);
	json_decref(j);
}

Test(tokenizer, demo_model)
{
	json_t *j = json_testdata("tokenizer/story-4m.json");
	struct tokenizer *t = open_tokenizer("data/demo/story-4m-q4_k_m.gguf");
	json_t *v;
	size_t i;

	cr_assert(j);
	cr_assert_eq(tokenizer_n_vocab(t), 2048);
	json_array_foreach(json_object_get(j, "encode"), i, v)
		check_encode(t, json_object_get(v, "text"), json_object_get(v, "ids"));
	json_array_foreach(json_object_get(j, "decode"), i, v)
	{
		const json_t *text = json_object_get(v, "text");
		size_t n, len;
		int32_t *ids = json_ids(json_object_get(v, "ids"), &n);
		char *got = decode(t, ids, n, true, &len);

		cr_assert_str_eq(got, json_string_value(text));
		free(got);
		free(ids);
	}
	cr_assert_eq(tokenizer_eos(t), 2047);
	cr_assert_not(tokenizer_adds_bos(t));
	tokenizer_free(t);
	json_decref(j);
}

/* The pieces of a text, joined with '|'. */
static const char *split(const char *s)
{
	static char out[256];
	size_t n = strlen(s), at = 0;

	while (n) {
		size_t len = pretoken_qwen2(s, n);

		cr_assert(len >= 1 && len <= n);
		memcpy(out + at, s, len);
		at += len;
		s += len;
		n -= len;
		if (n)
			out[at++] = '|';
	}
	out[at] = 0;
	return out;
}

/* Answers from the regular expression itself (Python's regex module). */
Test(tokenizer, pretoken_alternatives)
{
	static const char *const cases[][2] = {
		{"I'll don't we'RE 'Very 'tis", "I|'ll| don|'t| we|'RE| '|Very| '|tis"},
		{"'sx'S'd'M've", "'s|x|'S|'d|'M|'ve"},
		{"'\xc5\xbfx", "'\xc5\xbf|x"},
		{"'l 'r '", "'l| '|r| '"},
		{"a  b   c", "a| | b|  | c"},
		{"a \n\n b \n", "a| \n\n| b| \n"},
		{" \r\n\t x", " \r\n|\t| x"},
		{"tail   ", "tail|   "},
		{"\t\tif(x){\n\n}", "\t|\tif|(x|){\n\n|}"},
		{"12345", "1|2|3|4|5"},
		{" 1 22", " |1| |2|2"},
		{"a--b !?\r\n", "a|--|b| !?\r\n"},
		{"x\xc2\xa0y\xe3\x80\x80z", "x|\xc2\xa0y|\xe3\x80\x80z"},
		{"\xce\xb1\xcc\x81\xce\xb2", "\xce\xb1|\xcc\x81\xce\xb2"},
		{"\xc2\xbd\xe2\x85\xa7", "\xc2\xbd|\xe2\x85\xa7"},
		{"a\xff\xfe"
		 "b",
		 "a|\xff\xfe|b"},
		{"\xf0\x9f\x98\x80x", "\xf0\x9f\x98\x80x"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(split(cases[i][0]), cases[i][1]);
}

Test(tokenizer, special_tokens)
{
	struct tokenizer *t = mini_tokenizer();
	const char *s = "hello<|im_end|><note>hell";
	int32_t ids[64], want[64];
	size_t n, n_want = 0;

	cr_assert_eq(tokenizer_encode(t, s, strlen(s), TOKENIZER_SPECIAL, ids, 64, &n), 0);
	cr_assert(n == 4 && ids[0] == 259 && ids[1] == 260 && ids[2] == 261 && ids[3] == 258);
	/* Without the flag a control token is its letters; a user token is still one. */
	cr_assert_eq(tokenizer_encode(t, s, strlen(s), 0, ids, 64, &n), 0);
	want[n_want++] = 259;
	for (const char *c = "<|im_end|>"; *c; c++)
		want[n_want++] = (unsigned char)*c;
	want[n_want++] = 261;
	want[n_want++] = 258;
	cr_assert(n == n_want && !memcmp(ids, want, n * sizeof(*ids)));
	n = 99;
	cr_assert_eq(tokenizer_encode(t, s, strlen(s), TOKENIZER_SPECIAL, ids, 3, &n), -ENOSPC);
	cr_assert_eq(n, 99, "output touched");
	cr_assert_eq(tokenizer_encode(t, "", 0, TOKENIZER_BOS, ids, 0, &n), 0);
	cr_assert_eq(n, 0);
	cr_assert(tokenizer_find(t, "hell", 4) == 258 && tokenizer_find(t, "<note>", 6) == 261);
	cr_assert_eq(tokenizer_find(t, "hel", 3), -1);
	cr_assert(tokenizer_kind(t, 260) == TOKEN_CONTROL && tokenizer_kind(t, 0) == TOKEN_NORMAL);
	cr_assert_null(tokenizer_piece(t, 262, &n));
	cr_assert_null(tokenizer_piece(t, -1, &n));
	cr_assert(tokenizer_is_end(t, 260) && !tokenizer_is_end(t, 261));
	tokenizer_free(t);
}

Test(tokenizer, streaming_holds_open_characters)
{
	static const struct {
		const char *in, *out; /* bytes fed one token each */
	} cases[] = {
		{"\xe4\xbd\xa0", "\xe4\xbd\xa0"},
		{"\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!"},
		{"\xe4\xbd", "\xef\xbf\xbd"},                     /* ends open: one replacement */
		{"\xe4\xbd!", "\xef\xbf\xbd!"},                   /* cut short by a letter */
		{"\xe4\xe4\xbd\xa0", "\xef\xbf\xbd\xe4\xbd\xa0"}, /* by another beginning */
		{"\x80\xbf", "\xef\xbf\xbd\xef\xbf\xbd"},         /* never began */
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},         /* overlong */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xf0\x9f\x98"
		 "a",
		 "\xef\xbf\xbd"
		 "a"},
	};
	struct tokenizer *t = mini_tokenizer();
	struct tokenizer_stream s = {0};
	char buf[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int32_t ids[16];
		size_t n = 0, len;
		char *got;

		for (const char *c = cases[i].in; *c; c++)
			ids[n++] = (unsigned char)*c;
		got = decode(t, ids, n, true, &len);
		cr_assert_str_eq(got, cases[i].out, "case %zu", i);
		free(got);
	}
	/* Nothing comes out before the character is whole, then all of it. */
	cr_assert_eq(tokenizer_stream_put(t, &s, 0xe4, true, buf, 64), 0);
	cr_assert_eq(tokenizer_stream_put(t, &s, 0xbd, true, buf, 64), 0);
	cr_assert_eq(tokenizer_stream_put(t, &s, 0xa0, true, buf, 1), -ENOSPC);
	cr_assert_eq(tokenizer_stream_put(t, &s, 0xa0, true, buf, 64), 3);
	cr_assert_eq(tokenizer_stream_put(t, &s, 260, true, buf, 64), 10);
	cr_assert_eq(tokenizer_stream_put(t, &s, 260, false, buf, 64), 0);
	cr_assert_eq(tokenizer_stream_put(t, &s, 261, false, buf, 64), 6);
	cr_assert_eq(tokenizer_stream_put(t, &s, 262, true, buf, 64), -EINVAL);
	tokenizer_free(t);
}

/* Every byte string survives: encode, then the pieces one after another. */
Test(tokenizer, any_bytes_survive)
{
	struct tokenizer *t = open_tokenizer("data/demo/story-4m-q4_k_m.gguf");
	uint64_t seed = 42;

	for (int round = 0; round < 2000; round++) {
		char in[48], back[64];
		int32_t ids[49];
		size_t n, at = 0, len, k;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		k = seed >> 33 & 31;
		for (size_t i = 0; i < k; i++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			in[i] = (char)(seed >> 40);
			if (seed >> 60 & 1)
				in[i] = " \n'a1<\xe4\xbd"[seed >> 50 & 7];
		}
		cr_assert_eq(tokenizer_encode(t, in, k, 3, ids, k + 1, &n), 0);
		for (size_t i = 0; i < n; i++) {
			const char *p = tokenizer_piece(t, ids[i], &len);

			memcpy(back + at, p, len);
			at += len;
		}
		cr_assert(at == k && !memcmp(in, back, k), "round %d", round);
	}
	tokenizer_free(t);
}

/* One pre-token of half a megabyte. A quadratic merge would need 10^11 steps. */
Test(tokenizer, long_words_are_not_quadratic, .timeout = 60)
{
	struct tokenizer *t = open_tokenizer("data/demo/story-4m-q4_k_m.gguf");
	size_t n = 1 << 19, n_ids, len;
	char *s = malloc(n), *back;
	int32_t *ids = malloc((n + 1) * sizeof(*ids));

	for (size_t i = 0; i < n; i++)
		s[i] = "there"[i % 5];
	cr_assert_eq(tokenizer_encode(t, s, n, 0, ids, n + 1, &n_ids), 0);
	cr_assert(n_ids < n / 2);
	back = decode(t, ids, n_ids, false, &len);
	cr_assert(len == n && !memcmp(back, s, n));
	free(back);
	free(ids);
	free(s);
	tokenizer_free(t);
}

static void refused(struct image *im, int want, const char *a, const char *b)
{
	struct tokenizer *t = NULL;
	struct gguf *g = NULL;

	cr_assert_eq(gguf_parse(im->p, im->n, "t.gguf", &g, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(tokenizer_create(g, &t, err, sizeof(err)), want, "%s", err);
	cr_assert(strstr(err, "t.gguf: ") == err && strstr(err, a) && strstr(err, b), "%s", err);
	cr_assert_null(t);
	gguf_close(g);
	free(im->p);
}

static struct image vocab(const char *model, const char *pre, const char *merge, uint32_t kinds,
			  uint32_t eos)
{
	struct image im;

	image_begin(&im, 3);
	if (model)
		kv_str(&im, "tokenizer.ggml.model", model);
	kv_str(&im, "tokenizer.ggml.pre", pre);
	kv_array(&im, "tokenizer.ggml.tokens", GGUF_STRING, 2);
	put_str(&im, "a", 1);
	put_str(&im, "b", 1);
	kv_array(&im, "tokenizer.ggml.token_type", GGUF_I32, kinds);
	for (uint32_t i = 0; i < kinds; i++)
		put32(&im, 1);
	kv_array(&im, "tokenizer.ggml.merges", GGUF_STRING, merge ? 1 : 0);
	if (merge)
		put_str(&im, merge, strlen(merge));
	kv_u32(&im, "tokenizer.ggml.eos_token_id", eos);
	return im;
}

Test(tokenizer, refusals)
{
	struct image im = vocab(NULL, "qwen2", NULL, 2, 0);
	struct tokenizer *t = NULL;
	struct gguf *g = NULL;
	int32_t ids[4];
	size_t n = 9;

	refused(&im, -EINVAL, "tokenizer.ggml.model", "missing");
	im = vocab("llama", "qwen2", NULL, 2, 0);
	refused(&im, -ENOTSUP, "\"llama\"", "gpt2");
	im = vocab("gpt2", "llama-bpe", NULL, 2, 0);
	refused(&im, -ENOTSUP, "\"llama-bpe\"", "qwen2");
	im = vocab("gpt2", "qwen2", "a b", 2, 0);
	refused(&im, -EINVAL, "merges[0]", "no token");
	im = vocab("gpt2", "qwen2", "ab", 2, 0);
	refused(&im, -EINVAL, "merges[0]", "space");
	im = vocab("gpt2", "qwen2", NULL, 3, 0);
	refused(&im, -EINVAL, "token_type", "of 3 i32, want an array of 2");
	im = vocab("gpt2", "qwen2", NULL, 2, 2);
	refused(&im, -EINVAL, "eos_token_id is 2", "0 to 1");

	im = vocab("gpt2", "qwen2", NULL, 2, 1);
	cr_assert_eq(gguf_parse(im.p, im.n, "t", &g, err, sizeof(err)), 0);
	cr_assert_eq(tokenizer_create(g, &t, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(tokenizer_encode(t, "abc", 3, 0, ids, 4, &n), -EILSEQ);
	cr_assert_eq(n, 9, "output touched");
	cr_assert_eq(tokenizer_encode(t, "ab", 2, 0, ids, 4, &n), 0);
	cr_assert(n == 2 && ids[0] == 0 && ids[1] == 1);
	tokenizer_free(t);
	gguf_close(g);
	free(im.p);
}

Test(unicode, classes_and_codec)
{
	static const uint32_t good[] = {0,      0x7f,   0x80,   0x7ff,   0x800,
					0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff};
	unsigned len;
	char b[4];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		unsigned n = unicode_encode(good[i], b);

		cr_assert(unicode_decode(b, n, &len) == good[i] && len == n);
		for (unsigned k = 1; k < n; k++) {
			cr_assert(unicode_decode(b, k, &len) == UNICODE_BAD && len == 1);
			cr_assert(unicode_is_prefix(b, k));
		}
		cr_assert_not(unicode_is_prefix(b, n));
	}
	cr_assert(unicode_is_letter('z') && unicode_is_letter(0x4e2d) && unicode_is_letter(0xaa));
	cr_assert(!unicode_is_letter(0x301) && !unicode_is_letter('_') && !unicode_is_letter('@'));
	cr_assert(unicode_is_number('0') && unicode_is_number(0xbd) && unicode_is_number(0x2167));
	cr_assert(!unicode_is_number('a') && !unicode_is_number(UNICODE_BAD));
	cr_assert(unicode_is_space(0x85) && unicode_is_space(0x3000) && unicode_is_space('\v'));
	cr_assert(!unicode_is_space(0x200b) && !unicode_is_space(0x1c) &&
		  !unicode_is_space(0x180e));
}
