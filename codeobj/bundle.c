/* Offload bundles: a table of entries, possibly behind a compressed header. */
#include "codeobj/bundle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "codeobj/codeobj_internal.h"

#define MAGIC      "__CLANG_OFFLOAD_BUNDLE__"
#define MAGIC_LEN  24
#define CCOB       "CCOB"
#define MAX_PLAIN  (1ull << 32)
#define MAX_COUNT  1024
#define METHOD_STD 1 /* zstd; 0 is zlib */

static uint64_t word(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	memcpy(&v, p, bytes);
	return v;
}

static bool is_plain(const void *file, size_t n)
{
	return n >= MAGIC_LEN && !memcmp(file, MAGIC, MAGIC_LEN);
}

static bool is_compressed(const void *file, size_t n)
{
	return n >= 4 && !memcmp(file, CCOB, 4);
}

bool co_is_bundle(const void *file, size_t n)
{
	return is_plain(file, n) || is_compressed(file, n);
}

/* Header: magic, version and method (16 bits each), sizes (32 bits; 64 from version 3 on; that of the
 * file is new in version 2), 64 bits of a hash. */
static int unpack(const uint8_t *file, size_t n, void **out, size_t *bytes,
		  const struct co_err *err)
{
	unsigned version = n >= 8 ? (unsigned)word(file + 4, 2) : 0;
	unsigned method = n >= 8 ? (unsigned)word(file + 6, 2) : 0;
	unsigned width = version >= 3 ? 8 : 4, head = 8 + (version >= 2 ? 2 : 1) * width + 8;
	uint64_t total, plain;
	size_t got;

	if (n < 8 || version < 1 || version > 3)
		return co_refuse(err, -ENOTSUP, "compressed bundle of version %u, wanted 1 to 3",
				 version);
	if (method != METHOD_STD)
		return co_refuse(
			err, -ENOTSUP,
			"compressed bundle with method %u (%s), wanted 1 (zstd): unbundle it with "
			"clang-offload-bundler",
			method, method ? "unknown" : "zlib");
	if (n < head)
		return co_refuse(err, -EILSEQ,
				 "compressed bundle of %zu bytes, wanted at least %u (header)", n,
				 head);
	total = version >= 2 ? word(file + 8, width) : n;
	plain = word(file + 8 + (version >= 2 ? width : 0), width);
	if (total < head || total > n || plain < MAGIC_LEN || plain > MAX_PLAIN)
		return co_refuse(
			err, -EILSEQ,
			"compressed bundle says %llu bytes, %llu unpacked; wanted at most the %zu "
			"of the file, and 24 bytes to 4 GiB",
			(unsigned long long)total, (unsigned long long)plain, n);
	*out = malloc(plain);
	if (!*out)
		return co_refuse(err, -ENOMEM, "no memory for %llu bytes",
				 (unsigned long long)plain);
	got = ZSTD_decompress(*out, plain, file + head, total - head);
	if (ZSTD_isError(got) || got != plain || !is_plain(*out, plain)) {
		free(*out);
		return co_refuse(err, -EILSEQ,
				 "compressed bundle: %s, wanted %llu bytes of a bundle",
				 ZSTD_isError(got) ? ZSTD_getErrorName(got) : "other content",
				 (unsigned long long)plain);
	}
	*bytes = plain;
	return 0;
}

static int read_entry(const uint8_t *file, size_t n, size_t *at, struct co_bundle_entry *e)
{
	uint64_t offset, size, len;

	if (n - *at < 24)
		return -EILSEQ;
	offset = word(file + *at, 8);
	size = word(file + *at + 8, 8);
	len = word(file + *at + 16, 8);
	*at += 24;
	if (len > n - *at || offset > n || size > n - offset)
		return -EILSEQ;
	snprintf(e->id, sizeof(e->id), "%.*s", (int)(len < 127 ? len : 127), file + *at);
	for (char *c = e->id; *c; c++)
		if (co_is_control(*c))
			*c = '?';
	e->image = file + offset;
	e->bytes = size;
	*at += len;
	return 0;
}

int co_bundle_open(const void *file, size_t n, struct co_bundle *out, char *err, size_t errlen)
{
	const struct co_err e = {err, errlen};
	struct co_bundle b = {0};
	const uint8_t *p = file;
	size_t at = MAGIC_LEN + 8;
	uint64_t count;
	int r = 0;

	if (is_compressed(file, n)) {
		r = unpack(file, n, &b.plain, &n, &e);
		if (r)
			return r;
		p = b.plain;
	}
	if (!is_plain(p, n) || n < at) {
		r = co_refuse(&e, -EILSEQ, "%zu bytes, wanted a bundle's magic and count (32)", n);
		goto out;
	}
	count = word(p + MAGIC_LEN, 8);
	if (!count || count > MAX_COUNT) {
		r = co_refuse(&e, -EILSEQ, "bundle of %llu entries, wanted 1 to %d",
			      (unsigned long long)count, MAX_COUNT);
		goto out;
	}
	b.entries = calloc(count, sizeof(*b.entries));
	if (!b.entries) {
		r = co_refuse(&e, -ENOMEM, "no memory for %llu entries", (unsigned long long)count);
		goto out;
	}
	for (b.n = 0; b.n < count; b.n++) {
		r = read_entry(p, n, &at, &b.entries[b.n]);
		if (r) {
			co_say(&e, "bundle entry %u lies outside of its %zu bytes, wanted inside",
			       b.n, n);
			goto out;
		}
	}
	*out = b;
	return 0;
out:
	co_bundle_free(&b);
	return r;
}

void co_bundle_free(struct co_bundle *b)
{
	free(b->entries);
	free(b->plain);
	*b = (struct co_bundle){0};
}

/* The arch of an id: from the last "-gfx" to the features' ':'. */
static bool is_for(const struct co_bundle_entry *e, const char *arch)
{
	const char *at = NULL;
	size_t n = strlen(arch);

	for (const char *p = e->id; (p = strstr(p, "-gfx")); p++)
		at = p + 1;
	return at && e->bytes && !strncmp(at, arch, n) && (!at[n] || at[n] == ':');
}

const struct co_bundle_entry *co_bundle_find(const struct co_bundle *b, const char *arch)
{
	static const char *const ours[] = {"gfx1151", "gfx11-generic"};
	unsigned last = arch ? 1 : 2;

	for (unsigned k = 0; k < last; k++)
		for (uint32_t i = 0; i < b->n; i++)
			if (is_for(&b->entries[i], arch ? arch : ours[k]))
				return &b->entries[i];
	return NULL;
}

void co_bundle_ids(const struct co_bundle *b, char *text, size_t len)
{
	size_t at = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < b->n && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%s", i ? ", " : "",
				       b->entries[i].id);
}
