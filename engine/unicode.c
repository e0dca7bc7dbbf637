#include "engine/unicode.h"

static bool in_ranges(const struct unicode_range *r, unsigned n, uint32_t cp)
{
	unsigned lo = 0, hi = n;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (cp > r[mid].last)
			lo = mid + 1;
		else if (cp < r[mid].first)
			hi = mid;
		else
			return true;
	}
	return false;
}

bool unicode_is_letter(uint32_t cp)
{
	if (cp < 0x80)
		return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
	return in_ranges(unicode_letter, unicode_letter_count, cp);
}

bool unicode_is_number(uint32_t cp)
{
	if (cp < 0x80)
		return cp >= '0' && cp <= '9';
	return in_ranges(unicode_number, unicode_number_count, cp);
}

bool unicode_is_space(uint32_t cp)
{
	if (cp < 0x80)
		return cp == ' ' || (cp >= 0x9 && cp <= 0xd);
	return in_ranges(unicode_space, unicode_space_count, cp);
}

/* Bytes a lead byte announces; 0 = never leads. C0, C1 and F5.. could only begin overlong or
 * too large values. */
static unsigned lead_len(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	if (c >= 0xf0 && c <= 0xf4)
		return 4;
	return 0;
}

/* The second byte carries the remaining rules: no overlong forms, no surrogates, no value above
 * U+10FFFF (Unicode 15, table 3-7). */
static bool second_ok(unsigned char lead, unsigned char c)
{
	unsigned char lo = 0x80, hi = 0xbf;

	if (lead == 0xe0)
		lo = 0xa0;
	else if (lead == 0xed)
		hi = 0x9f;
	else if (lead == 0xf0)
		lo = 0x90;
	else if (lead == 0xf4)
		hi = 0x8f;
	return c >= lo && c <= hi;
}

uint32_t unicode_decode(const char *s, size_t n, unsigned *len)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned want = lead_len(u[0]);
	uint32_t cp;

	*len = 1;
	if (want == 1)
		return u[0];
	if (want == 0 || want > n || !second_ok(u[0], u[1]))
		return UNICODE_BAD;
	cp = u[0] & (0x7fu >> want);
	for (unsigned i = 1; i < want; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return UNICODE_BAD;
		cp = cp << 6 | (u[i] & 0x3f);
	}
	*len = want;
	return cp;
}

unsigned unicode_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

bool unicode_is_prefix(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned want;

	if (n == 0)
		return false;
	want = lead_len(u[0]);
	if (want < 2 || n >= want)
		return false;
	if (n >= 2 && !second_ok(u[0], u[1]))
		return false;
	return n < 3 || (u[2] & 0xc0) == 0x80;
}
