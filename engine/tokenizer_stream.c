/* Ids to text, as they come. Per-token path: no allocation, no system call. */
#include "engine/tokenizer_internal.h"
#include "engine/unicode.h"

#include <errno.h>
#include <string.h>

static size_t put_replacement(char *out)
{
	return unicode_encode(0xfffd, out);
}

/* Bytes of the malformed sequence at s that one U+FFFD stands for: the longest part that could have
 * begun a character (Unicode 15, section 3.9, maximal subparts). */
static size_t bad_len(const char *s, size_t n)
{
	size_t k = 1;

	while (k < n && k < 3 && unicode_is_prefix(s, k + 1))
		k++;
	return k;
}

size_t tokenizer_stream_cap(const struct tokenizer *t)
{
	/* Three bytes of U+FFFD for each byte that waits or comes, at worst. */
	return 3 * (sizeof(((struct tokenizer_stream *)0)->open) + (size_t)t->max_piece);
}

int64_t tokenizer_stream_flush(struct tokenizer_stream *s, char *out, size_t cap)
{
	if (!s->n_open)
		return 0;
	if (cap < 3)
		return -ENOSPC;
	s->n_open = 0;
	return (int64_t)put_replacement(out);
}

/* The waiting bytes together with enough of p to settle them. Returns how many of p were used. */
static size_t settle_open(struct tokenizer_stream *s, const char *p, size_t n, char *out,
			  size_t *made)
{
	char c[8];
	size_t have = s->n_open, take = n < 4 ? n : 4, len;
	unsigned ulen;

	memcpy(c, s->open, have);
	memcpy(c + have, p, take);
	if (unicode_decode(c, have + take, &ulen) != UNICODE_BAD) {
		memcpy(out, c, ulen);
		*made = ulen;
		s->n_open = 0;
		return ulen - have;
	}
	if (have + take < 4 && unicode_is_prefix(c, have + take)) {
		memcpy(s->open, c, have + take);
		s->n_open = (unsigned)(have + take);
		*made = 0;
		return take;
	}
	len = bad_len(c, have + take);
	*made = put_replacement(out);
	s->n_open = 0;
	/* The waiting bytes were a prefix, so the malformed part covers them all. */
	return len - have;
}

int64_t tokenizer_stream_put(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
			     bool special, char *out, size_t cap)
{
	size_t n, at = 0, made = 0;
	const char *p = tokenizer_piece(t, id, &n);

	if (!p)
		return -EINVAL;
	if (cap < 3 * (n + s->n_open))
		return -ENOSPC;
	if (t->kind[id] == TOKEN_CONTROL && !special)
		return tokenizer_stream_flush(s, out, cap);
	if (s->n_open && n)
		at = settle_open(s, p, n, out, &made);
	while (at < n) {
		unsigned len;

		if (unicode_decode(p + at, n - at, &len) != UNICODE_BAD) {
			memcpy(out + made, p + at, len);
			made += len;
			at += len;
		} else if (unicode_is_prefix(p + at, n - at)) {
			s->n_open = (unsigned)(n - at);
			memcpy(s->open, p + at, n - at);
			at = n;
		} else {
			at += bad_len(p + at, n - at);
			made += put_replacement(out + made);
		}
	}
	return (int64_t)made;
}
