/* Text to ids: special tokens out, the rest into pre-tokens, each merged by rank. */
#include "engine/tokenizer_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a pre-token as a list of tokens that merge into their neighbours. */
struct symbol {
	int32_t id;         /* -1: merged away */
	int32_t prev, next; /* -1: none */
};

/* A merge that was possible when it was queued. */
struct candidate {
	int32_t rank, at;    /* left symbol */
	int32_t left, right; /* ids then: gone stale if they differ now */
	int32_t id;
};

struct encoder {
	const struct tokenizer *t;
	int32_t *ids;
	size_t n_ids, cap;
	struct symbol *sym;
	struct candidate *heap; /* 3 per byte: n-1 to begin with, two more for each merge */
	size_t n_heap, cap_bytes;
};

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct encoder *e, struct candidate c)
{
	size_t i = e->n_heap++;

	while (i && before(&c, &e->heap[(i - 1) / 2])) {
		e->heap[i] = e->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	e->heap[i] = c;
}

static struct candidate heap_pop(struct encoder *e)
{
	struct candidate top = e->heap[0], last = e->heap[--e->n_heap];
	size_t i = 0, kid;

	while ((kid = 2 * i + 1) < e->n_heap) {
		if (kid + 1 < e->n_heap && before(&e->heap[kid + 1], &e->heap[kid]))
			kid++;
		if (!before(&e->heap[kid], &last))
			break;
		e->heap[i] = e->heap[kid];
		i = kid;
	}
	e->heap[i] = last;
	return top;
}

static void consider(struct encoder *e, int32_t at)
{
	const struct token_merge *m;
	int32_t next;

	if (at < 0 || (next = e->sym[at].next) < 0)
		return;
	m = tokenizer_merge(e->t, e->sym[at].id, e->sym[next].id);
	if (m)
		heap_push(e, (struct candidate){m->rank, at, m->left, m->right, m->id});
}

static int put(struct encoder *e, int32_t id)
{
	if (e->n_ids == e->cap)
		return -ENOSPC;
	e->ids[e->n_ids++] = id;
	return 0;
}

static int reserve(struct encoder *e, size_t n)
{
	size_t cap = e->cap_bytes ? e->cap_bytes : 64;
	void *p;

	if (n <= e->cap_bytes)
		return 0;
	while (cap < n)
		cap *= 2;
	p = realloc(e->sym, cap * sizeof(*e->sym));
	if (!p)
		return -ENOMEM;
	e->sym = p;
	p = realloc(e->heap, 3 * cap * sizeof(*e->heap));
	if (!p)
		return -ENOMEM;
	e->heap = p;
	e->cap_bytes = cap;
	return 0;
}

/* The merges of one pre-token, lowest rank first, leftmost among equals. */
static int encode_word(struct encoder *e, const char *s, size_t n)
{
	int ret;

	if (!n)
		return 0;
	ret = reserve(e, n);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < n; i++) {
		int32_t id = e->t->byte_id[(unsigned char)s[i]];

		if (id < 0)
			return -EILSEQ;
		e->sym[i] = (struct symbol){id, (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
	}
	e->n_heap = 0;
	for (size_t i = 0; i + 1 < n; i++)
		consider(e, (int32_t)i);
	while (e->n_heap) {
		struct candidate c = heap_pop(e);
		struct symbol *a = &e->sym[c.at], *b;

		if (a->id != c.left || a->next < 0)
			continue;
		b = &e->sym[a->next];
		if (b->id != c.right)
			continue;
		b->id = -1;
		a->id = c.id;
		a->next = b->next;
		if (a->next >= 0)
			e->sym[a->next].prev = c.at;
		consider(e, a->prev);
		consider(e, c.at);
	}
	for (int32_t i = 0; i >= 0 && ret >= 0; i = e->sym[i].next)
		ret = put(e, e->sym[i].id);
	return ret;
}

static int encode_plain(struct encoder *e, const char *s, size_t n)
{
	int ret = 0;

	while (n && ret >= 0) {
		size_t len = e->t->pretoken(s, n);

		ret = encode_word(e, s, len);
		s += len;
		n -= len;
	}
	return ret;
}

/* The longest special token that starts s[0..n); -1 if none. Tokens of kind USER are part of the
 * text itself, so they count even where control tokens do not. */
static int32_t special_at(const struct tokenizer *t, const char *s, size_t n, bool control)
{
	unsigned char c = (unsigned char)s[0];

	for (uint32_t i = t->special_at[c]; i < t->special_at[c + 1]; i++) {
		int32_t id = t->special[i];
		uint32_t len = t->off[id + 1] - t->off[id];

		if (t->kind[id] == TOKEN_CONTROL && !control)
			continue;
		if (len <= n && !memcmp(t->bytes + t->off[id], s, len))
			return id;
	}
	return -1;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags,
		     int32_t *ids, size_t cap, size_t *n_ids)
{
	struct encoder e = {.t = t, .ids = ids, .cap = cap};
	size_t start = 0, at = 0;
	int ret = 0;

	if (len > INT32_MAX / 2)
		return -EINVAL;
	if ((flags & TOKENIZER_BOS) && t->adds_bos)
		ret = put(&e, t->bos);
	while (at < len && ret >= 0) {
		int32_t id = special_at(t, text + at, len - at, flags & TOKENIZER_SPECIAL);

		if (id < 0) {
			at++;
			continue;
		}
		ret = encode_plain(&e, text + start, at - start);
		if (ret >= 0)
			ret = put(&e, id);
		at += t->off[id + 1] - t->off[id];
		start = at;
	}
	if (ret >= 0)
		ret = encode_plain(&e, text + start, len - start);
	free(e.sym);
	free(e.heap);
	if (ret < 0)
		return ret;
	*n_ids = e.n_ids;
	return 0;
}
