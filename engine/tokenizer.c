/* The vocabulary: tokens as bytes, merges as pairs of ids, special tokens. */
#include "engine/tokenizer_internal.h"
#include "engine/gguf_internal.h"
#include "engine/unicode.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VOCAB  (1u << 24)
#define MAX_MERGES (1u << 24)

uint64_t tokenizer_hash(const void *p, size_t n)
{
	const unsigned char *u = p;
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a, then a finaliser for the low bits */

	for (size_t i = 0; i < n; i++)
		h = (h ^ u[i]) * 0x100000001b3;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93;
	return h ^ h >> 32;
}

/* GPT-2 writes the 256 bytes as printable characters: those that print stand for themselves, the
 * others take U+0100 and up in byte order. -1: the character stands for no byte. */
static int char_to_byte(uint32_t cp)
{
	static const uint8_t ranges[][2] = {{0x21, 0x7e}, {0xa1, 0xac}, {0xae, 0xff}};
	uint32_t next = 0x100;

	for (int i = 0; i < 3; i++)
		if (cp >= ranges[i][0] && cp <= ranges[i][1])
			return (int)cp;
	for (uint32_t b = 0; b < 256; b++) {
		bool prints = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;

		if (!prints && next++ == cp)
			return (int)b;
	}
	return -1;
}

struct loader {
	const struct gguf *g;
	struct tokenizer *t;
	int16_t to_byte[0x180]; /* char_to_byte() for every character it maps */
	bool *mergeable;        /* per token: its text is byte characters only */
	char *err;
	size_t errlen;
};

/* Mapped text to bytes in out (never longer than the text); -1 if a character maps to no byte. */
static int64_t text_to_bytes(const struct loader *l, struct gguf_str s, char *out)
{
	size_t n = 0;

	for (size_t at = 0; at < s.n;) {
		unsigned len;
		uint32_t cp = unicode_decode(s.p + at, s.n - at, &len);

		if (cp >= 0x180 || l->to_byte[cp] < 0)
			return -1;
		out[n++] = (char)l->to_byte[cp];
		at += len;
	}
	return (int64_t)n;
}

static const char *piece(const struct tokenizer *t, int32_t id, uint32_t *len)
{
	*len = t->off[id + 1] - t->off[id];
	return t->bytes + t->off[id];
}

/* Slot of a mergeable piece, or the empty slot where it would go. */
static uint32_t find_slot(const struct tokenizer *t, const char *p, size_t n)
{
	uint32_t i = (uint32_t)tokenizer_hash(p, n) & t->by_bytes_mask, len;

	for (;; i = (i + 1) & t->by_bytes_mask) {
		int32_t id = t->by_bytes[i];
		const char *q;

		if (id < 0)
			return i;
		q = piece(t, id, &len);
		if (len == n && !memcmp(p, q, n))
			return i;
	}
}

static uint32_t merge_slot(const struct tokenizer *t, int32_t left, int32_t right)
{
	int32_t key[2] = {left, right};
	uint32_t i = (uint32_t)tokenizer_hash(key, sizeof(key)) & t->merges_mask;

	while (t->merges[i].id >= 0 && (t->merges[i].left != left || t->merges[i].right != right))
		i = (i + 1) & t->merges_mask;
	return i;
}

const struct token_merge *tokenizer_merge(const struct tokenizer *t, int32_t left, int32_t right)
{
	const struct token_merge *m = &t->merges[merge_slot(t, left, right)];

	return m->id >= 0 ? m : NULL;
}

static uint32_t pow2_above(uint64_t n)
{
	uint32_t p = 16;

	while (p < n)
		p *= 2;
	return p;
}

static int no_memory(const struct loader *l)
{
	gguf_fail(l->err, l->errlen, "%s: out of memory", l->g->name);
	return -ENOMEM;
}

static int load_kinds(struct loader *l)
{
	const char *key = "tokenizer.ggml.token_type";
	const struct gguf_kv *kv = gguf_find(l->g, key);
	struct tokenizer *t = l->t;

	memset(t->kind, TOKEN_NORMAL, t->n_vocab);
	if (!kv)
		return 0;
	if (kv->type != GGUF_ARRAY || (kv->elem != GGUF_I32 && kv->elem != GGUF_U32) ||
	    kv->count != t->n_vocab) {
		gguf_fail(l->err, l->errlen, "%s: %s is %s of %llu %s, want an array of %u i32",
			  l->g->name, key, gguf_type_name(kv->type), (unsigned long long)kv->count,
			  gguf_type_name(kv->elem), t->n_vocab);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < t->n_vocab; i++) {
		int64_t v = gguf_array_int(kv, i);

		if (v < 0 || v > TOKEN_BYTE) {
			gguf_fail(l->err, l->errlen, "%s: %s[%u] is %lld, want 0 to %d", l->g->name,
				  key, i, (long long)v, TOKEN_BYTE);
			return -EINVAL;
		}
		t->kind[i] = v ? (uint8_t)v : TOKEN_NORMAL;
	}
	return 0;
}

static bool is_whole(const struct tokenizer *t, uint32_t id)
{
	return t->kind[id] == TOKEN_CONTROL || t->kind[id] == TOKEN_USER;
}

static int load_tokens(struct loader *l)
{
	struct tokenizer *t = l->t;
	const struct gguf_kv *kv;
	size_t cursor = 0, total = 0;
	uint32_t n;
	int ret = gguf_array(l->g, "tokenizer.ggml.tokens", GGUF_STRING, &kv, l->err, l->errlen);

	if (ret < 0)
		return ret;
	if (!kv->count || kv->count > MAX_VOCAB) {
		gguf_fail(l->err, l->errlen,
			  "%s: tokenizer.ggml.tokens has %llu entries, want 1 to %u", l->g->name,
			  (unsigned long long)kv->count, MAX_VOCAB);
		return -EINVAL;
	}
	n = t->n_vocab = (uint32_t)kv->count;
	for (uint32_t i = 0; i < n; i++)
		total += gguf_array_str(kv, &cursor).n;
	if (total > INT_MAX) {
		gguf_fail(l->err, l->errlen,
			  "%s: tokenizer.ggml.tokens holds %zu bytes; at most %d "
			  "are read",
			  l->g->name, total, INT_MAX);
		return -EINVAL;
	}
	t->by_bytes_mask = pow2_above(2 * (uint64_t)n) - 1;
	t->bytes = malloc(total + 1);
	t->off = calloc(n + 1, sizeof(*t->off));
	t->kind = malloc(n);
	t->by_bytes = malloc((t->by_bytes_mask + 1ul) * sizeof(*t->by_bytes));
	l->mergeable = calloc(n, sizeof(*l->mergeable));
	if (!t->bytes || !t->off || !t->kind || !t->by_bytes || !l->mergeable)
		return no_memory(l);
	memset(t->by_bytes, 0xff, (t->by_bytes_mask + 1ul) * sizeof(*t->by_bytes));
	memset(t->byte_id, 0xff, sizeof(t->byte_id));
	ret = load_kinds(l);
	if (ret < 0)
		return ret;
	cursor = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct gguf_str s = gguf_array_str(kv, &cursor);
		char *p = t->bytes + t->off[i];
		int64_t len = is_whole(t, i) ? -1 : text_to_bytes(l, s, p);

		l->mergeable[i] = len > 0;
		if (len < 0) {
			/* Not in byte characters: its text is what it stands for. */
			memcpy(p, s.p, s.n);
			len = (int64_t)s.n;
		}
		t->off[i + 1] = t->off[i] + (uint32_t)len;
		if (len > t->max_piece)
			t->max_piece = (uint32_t)len;
		if (l->mergeable[i]) {
			uint32_t slot = find_slot(t, p, (size_t)len);

			if (t->by_bytes[slot] < 0) /* of doubles the first counts */
				t->by_bytes[slot] = (int32_t)i;
			if (len == 1 && t->byte_id[(unsigned char)*p] < 0)
				t->byte_id[(unsigned char)*p] = (int32_t)i;
		}
	}
	return 0;
}

static int bad_merge(const struct loader *l, uint64_t rank, const char *why)
{
	gguf_fail(l->err, l->errlen, "%s: tokenizer.ggml.merges[%llu] %s", l->g->name,
		  (unsigned long long)rank, why);
	return -EINVAL;
}

static int load_merges(struct loader *l)
{
	struct tokenizer *t = l->t;
	const struct gguf_kv *kv;
	size_t cursor = 0, max = 0;
	char *text = NULL;
	int ret = gguf_array(l->g, "tokenizer.ggml.merges", GGUF_STRING, &kv, l->err, l->errlen);

	if (ret < 0)
		return ret;
	if (kv->count > MAX_MERGES) {
		gguf_fail(l->err, l->errlen,
			  "%s: tokenizer.ggml.merges has %llu entries; at most %u "
			  "are read",
			  l->g->name, (unsigned long long)kv->count, MAX_MERGES);
		return -EINVAL;
	}
	for (uint64_t i = 0; i < kv->count; i++) {
		struct gguf_str s = gguf_array_str(kv, &cursor);

		max = s.n > max ? s.n : max;
	}
	t->merges_mask = pow2_above(2 * kv->count) - 1;
	t->merges = malloc((t->merges_mask + 1ul) * sizeof(*t->merges));
	text = malloc(max + 1);
	if (!t->merges || !text) {
		ret = no_memory(l);
		goto out;
	}
	memset(t->merges, 0xff, (t->merges_mask + 1ul) * sizeof(*t->merges));
	cursor = 0;
	for (uint64_t i = 0; i < kv->count; i++) {
		struct gguf_str s = gguf_array_str(kv, &cursor), a, b;
		const char *space = s.n > 2 ? memchr(s.p + 1, ' ', s.n - 2) : NULL;
		int64_t na, nb;
		int32_t left, right, both;
		struct token_merge *m;

		if (!space) {
			ret = bad_merge(l, i, "is not two texts and a space between");
			goto out;
		}
		a = (struct gguf_str){s.p, (size_t)(space - s.p)};
		b = (struct gguf_str){space + 1, s.n - a.n - 1};
		na = text_to_bytes(l, a, text);
		nb = na < 0 ? -1 : text_to_bytes(l, b, text + na);
		if (nb < 0) {
			ret = bad_merge(l, i, "has a character that stands for no byte");
			goto out;
		}
		left = t->by_bytes[find_slot(t, text, (size_t)na)];
		right = t->by_bytes[find_slot(t, text + na, (size_t)nb)];
		both = t->by_bytes[find_slot(t, text, (size_t)(na + nb))];
		if (left < 0 || right < 0 || both < 0) {
			ret = bad_merge(l, i, "joins or makes a text that is no token");
			goto out;
		}
		m = &t->merges[merge_slot(t, left, right)];
		if (m->id < 0) /* of doubles the first, lower rank counts */
			*m = (struct token_merge){left, right, (int32_t)i, both};
	}
out:
	free(text);
	return ret;
}

static int special_cmp(const void *a, const void *b, void *arg)
{
	const struct tokenizer *t = arg;
	int32_t ia = *(const int32_t *)a, ib = *(const int32_t *)b;
	uint32_t na, nb;
	const unsigned char *pa = (const unsigned char *)piece(t, ia, &na);
	const unsigned char *pb = (const unsigned char *)piece(t, ib, &nb);

	if (pa[0] != pb[0])
		return pa[0] < pb[0] ? -1 : 1;
	if (na != nb)
		return na > nb ? -1 : 1;
	return (ia > ib) - (ia < ib);
}

static int load_specials(struct loader *l)
{
	struct tokenizer *t = l->t;
	uint32_t n = 0, at = 0, len;

	for (uint32_t i = 0; i < t->n_vocab; i++)
		n += is_whole(t, i) && t->off[i + 1] > t->off[i];
	t->special = calloc(n + 1, sizeof(*t->special));
	if (!t->special)
		return no_memory(l);
	for (uint32_t i = 0, k = 0; i < t->n_vocab; i++)
		if (is_whole(t, i) && t->off[i + 1] > t->off[i])
			t->special[k++] = (int32_t)i;
	qsort_r(t->special, n, sizeof(*t->special), special_cmp, t);
	for (unsigned c = 0; c < 256; c++) {
		t->special_at[c] = at;
		while (at < n && (unsigned char)*piece(t, t->special[at], &len) == c)
			at++;
	}
	t->special_at[256] = n;
	return 0;
}

/* A token id key: -1 when absent. */
static int load_id(const struct loader *l, const char *key, int32_t *out)
{
	uint32_t v;
	int ret;

	*out = -1;
	if (!gguf_find(l->g, key))
		return 0;
	ret = gguf_u32(l->g, key, &v, l->err, l->errlen);
	if (ret < 0)
		return ret;
	if (v >= l->t->n_vocab) {
		gguf_fail(l->err, l->errlen, "%s: %s is %u; the vocabulary has 0 to %u", l->g->name,
			  key, v, l->t->n_vocab - 1);
		return -EINVAL;
	}
	*out = (int32_t)v;
	return 0;
}

static void add_end(struct tokenizer *t, int32_t id)
{
	if (id < 0 || tokenizer_is_end(t, id))
		return;
	t->ends[t->n_ends++] = id;
}

static int load_ids(struct loader *l)
{
	static const char *const names[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>"};
	struct tokenizer *t = l->t;
	int32_t eot;
	int ret;

	if ((ret = load_id(l, "tokenizer.ggml.bos_token_id", &t->bos)) < 0 ||
	    (ret = load_id(l, "tokenizer.ggml.eos_token_id", &t->eos)) < 0 ||
	    (ret = load_id(l, "tokenizer.ggml.eot_token_id", &eot)) < 0)
		return ret;
	add_end(t, t->eos);
	add_end(t, eot);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int32_t id = tokenizer_find(t, names[i], strlen(names[i]));

		if (id >= 0 && t->kind[id] == TOKEN_CONTROL)
			add_end(t, id);
	}
	if (!gguf_find(l->g, "tokenizer.ggml.add_bos_token"))
		return 0;
	ret = gguf_bool(l->g, "tokenizer.ggml.add_bos_token", &t->adds_bos, l->err, l->errlen);
	if (ret < 0)
		return ret;
	if (t->adds_bos && t->bos < 0) {
		gguf_fail(l->err, l->errlen,
			  "%s: tokenizer.ggml.add_bos_token is true, but "
			  "tokenizer.ggml.bos_token_id is missing",
			  l->g->name);
		return -EINVAL;
	}
	return 0;
}

static int unknown_name(const struct loader *l, const char *key, struct gguf_str s,
			const char *known)
{
	char shown[33];
	size_t n = s.n < 32 ? s.n : 32;

	for (size_t i = 0; i < n; i++)
		shown[i] = s.p[i] >= 0x20 && s.p[i] < 0x7f ? s.p[i] : '?';
	shown[n] = 0;
	gguf_fail(l->err, l->errlen, "%s: %s is \"%s\"; known here: %s", l->g->name, key, shown,
		  known);
	return -ENOTSUP;
}

static int check_names(struct loader *l)
{
	struct gguf_str s;
	int ret = gguf_string(l->g, "tokenizer.ggml.model", &s, l->err, l->errlen);

	if (ret < 0)
		return ret;
	if (!gguf_str_eq(s, "gpt2"))
		return unknown_name(l, "tokenizer.ggml.model", s, "gpt2");
	ret = gguf_string(l->g, "tokenizer.ggml.pre", &s, l->err, l->errlen);
	if (ret < 0)
		return ret;
	l->t->pretoken = pretoken_find(s.p, s.n);
	if (!l->t->pretoken)
		return unknown_name(l, "tokenizer.ggml.pre", s, pretoken_names);
	return 0;
}

int tokenizer_create(const struct gguf *g, struct tokenizer **out, char *err, size_t errlen)
{
	struct tokenizer *t = calloc(1, sizeof(*t));
	struct loader l = {.g = g, .t = t, .err = err, .errlen = errlen};
	int ret;

	if (!t)
		return no_memory(&l);
	for (uint32_t cp = 0; cp < 0x180; cp++)
		l.to_byte[cp] = (int16_t)char_to_byte(cp);
	if ((ret = check_names(&l)) < 0 || (ret = load_tokens(&l)) < 0 ||
	    (ret = load_merges(&l)) < 0 || (ret = load_specials(&l)) < 0 ||
	    (ret = load_ids(&l)) < 0)
		goto out;
	free(l.mergeable);
	*out = t;
	return 0;
out:
	free(l.mergeable);
	tokenizer_free(t);
	return ret == -ENOENT ? -EINVAL : ret;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	free(t->bytes);
	free(t->off);
	free(t->kind);
	free(t->by_bytes);
	free(t->merges);
	free(t->special);
	free(t);
}

uint32_t tokenizer_n_vocab(const struct tokenizer *t)
{
	return t->n_vocab;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->adds_bos;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
	for (uint32_t i = 0; i < t->n_ends; i++)
		if (t->ends[i] == id)
			return true;
	return false;
}

enum token_kind tokenizer_kind(const struct tokenizer *t, int32_t id)
{
	if (id < 0 || (uint32_t)id >= t->n_vocab)
		return TOKEN_UNKNOWN;
	return (enum token_kind)t->kind[id];
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len)
{
	uint32_t n;
	const char *p;

	if (id < 0 || (uint32_t)id >= t->n_vocab)
		return NULL;
	p = piece(t, id, &n);
	*len = n;
	return p;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len)
{
	unsigned char c;

	if (!len)
		return -1;
	c = (unsigned char)text[0];
	for (uint32_t i = t->special_at[c]; i < t->special_at[c + 1]; i++) {
		uint32_t n;
		const char *p = piece(t, t->special[i], &n);

		if (n == len && !memcmp(p, text, len))
			return t->special[i];
	}
	return t->by_bytes[find_slot(t, text, len)];
}
