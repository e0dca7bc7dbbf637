#include "engine/pretoken.h"
#include "engine/unicode.h"

#include <string.h>

/* One character: class and length. */
struct chr {
	uint32_t cp;
	unsigned len;
};

static struct chr chr_at(const char *s, size_t n, size_t at)
{
	struct chr c = {0, 0};

	if (at < n)
		c.cp = unicode_decode(s + at, n - at, &c.len);
	return c;
}

static bool is_newline(uint32_t cp)
{
	return cp == '\r' || cp == '\n';
}

/* [^\s\p{L}\p{N}] */
static bool is_other(uint32_t cp)
{
	return !unicode_is_space(cp) && !unicode_is_letter(cp) && !unicode_is_number(cp);
}

static size_t skip_letters(const char *s, size_t n, size_t at)
{
	struct chr c;

	while ((c = chr_at(s, n, at)).len && unicode_is_letter(c.cp))
		at += c.len;
	return at;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d); 0 when there is none. U+017F folds to s in Unicode; no other
 * character outside ASCII folds to one of these letters. */
static size_t contraction(const char *s, size_t n)
{
	char a, b;

	if (n < 2 || s[0] != '\'')
		return 0;
	if (n >= 3 && !memcmp(s + 1, "\xc5\xbf", 2))
		return 3;
	a = s[1] | 0x20;
	if (s[1] >= 'A' && (a == 's' || a == 't' || a == 'm' || a == 'd'))
		return 2;
	if (n < 3 || s[1] < 'A' || s[2] < 'A')
		return 0;
	b = s[2] | 0x20;
	if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
		return 3;
	return 0;
}

/* \s*[\r\n]+ | \s+(?!\S) | \s+ over the white space at the start of s, of which there is some. */
static size_t white_space(const char *s, size_t n)
{
	size_t at = 0, last = 0, after_newline = 0;
	struct chr c;

	while ((c = chr_at(s, n, at)).len && unicode_is_space(c.cp)) {
		last = at;
		at += c.len;
		if (is_newline(c.cp))
			after_newline = at;
	}
	/* Greedy \s* gives back until a line end follows: up to the last one of the run. */
	if (after_newline)
		return after_newline;
	/* Before something that is no space, \s+(?!\S) leaves the last one to it. */
	if (at < n && last > 0)
		return last;
	return at;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+   , the alternatives tried in this order. */
size_t pretoken_qwen2(const char *s, size_t n)
{
	size_t at = contraction(s, n);
	struct chr first = chr_at(s, n, 0), c;

	if (at)
		return at;
	if (unicode_is_letter(first.cp))
		return skip_letters(s, n, first.len);
	if (unicode_is_number(first.cp))
		return first.len;
	c = chr_at(s, n, first.len);
	if (!is_newline(first.cp) && c.len && unicode_is_letter(c.cp))
		return skip_letters(s, n, first.len + c.len);
	if (is_other(first.cp))
		at = first.len;
	else if (first.cp == ' ' && c.len && is_other(c.cp))
		at = first.len + c.len;
	else
		return white_space(s, n);
	while ((c = chr_at(s, n, at)).len && is_other(c.cp))
		at += c.len;
	while (at < n && is_newline((unsigned char)s[at]))
		at++;
	return at;
}

static const struct {
	const char *name;
	pretoken_fn fn;
} pretokenizers[] = {
	{"qwen2", pretoken_qwen2},
};

const char pretoken_names[] = "qwen2";

pretoken_fn pretoken_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(pretokenizers) / sizeof(pretokenizers[0]); i++)
		if (strlen(pretokenizers[i].name) == len &&
		    !memcmp(pretokenizers[i].name, name, len))
			return pretokenizers[i].fn;
	return NULL;
}
