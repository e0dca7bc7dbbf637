/* Offload bundles: plain and compressed, what is chosen, and what is refused. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "codeobj/bundle.h"

struct text {
	uint8_t b[4096];
	size_t n;
};

static void put(struct text *t, uint64_t v, unsigned bytes)
{
	memcpy(t->b + t->n, &v, bytes);
	t->n += bytes;
}

/* Entries whose content is their id. */
static struct text bundle(const char *const *ids, unsigned n)
{
	struct text t = {.n = 24};
	size_t at = 32;

	memcpy(t.b, "__CLANG_OFFLOAD_BUNDLE__", 24);
	put(&t, n, 8);
	for (unsigned i = 0; i < n; i++)
		at += 24 + strlen(ids[i]);
	for (unsigned i = 0; i < n; i++) {
		put(&t, at, 8);
		put(&t, strlen(ids[i]), 8);
		put(&t, strlen(ids[i]), 8);
		memcpy(t.b + t.n, ids[i], strlen(ids[i]));
		t.n += strlen(ids[i]);
		at += strlen(ids[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		memcpy(t.b + t.n, ids[i], strlen(ids[i]));
		t.n += strlen(ids[i]);
	}
	return t;
}

static struct text compressed(const struct text *plain, unsigned version, unsigned method)
{
	struct text t = {.n = 4};
	uint8_t packed[4096];
	size_t n = ZSTD_compress(packed, sizeof(packed), plain->b, plain->n, 3);
	unsigned width = version == 3 ? 8 : 4;

	cr_assert(!ZSTD_isError(n));
	memcpy(t.b, "CCOB", 4);
	put(&t, version, 2);
	put(&t, method, 2);
	if (version > 1)
		put(&t, 8 + 2 * width + 8 + n, width);
	put(&t, plain->n, width);
	put(&t, 0x1234, 8); /* the hash, which nobody compares */
	memcpy(t.b + t.n, packed, n);
	t.n += n;
	return t;
}

static const char *const usual[] = {
	"host-x86_64-unknown-linux--", "hipv4-amdgcn-amd-amdhsa--gfx11-generic",
	"hipv4-amdgcn-amd-amdhsa--gfx1100", "hipv4-amdgcn-amd-amdhsa--gfx1151",
	"hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"};

static void found(const struct co_bundle *b, const char *arch, unsigned entry)
{
	const struct co_bundle_entry *e = co_bundle_find(b, arch);

	cr_assert(e, "%s", arch ? arch : "ours");
	cr_expect_str_eq(e->id, usual[entry]);
	cr_expect_eq(e->bytes, strlen(usual[entry]));
	cr_expect_eq(memcmp(e->image, usual[entry], e->bytes), 0);
}

static void all_found(const struct text *t)
{
	struct co_bundle b;
	char err[256] = "", ids[400];

	cr_assert(co_is_bundle(t->b, t->n));
	cr_assert_eq(co_bundle_open(t->b, t->n, &b, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(b.n, 5u);
	found(&b, NULL, 3);
	found(&b, "gfx1100", 2);
	found(&b, "gfx11-generic", 1);
	found(&b, "gfx90a", 4);
	cr_expect_null(co_bundle_find(&b, "gfx90"));
	cr_expect_null(co_bundle_find(&b, "gfx11"));
	co_bundle_ids(&b, ids, sizeof(ids));
	cr_expect(strstr(ids, "gfx1100, hipv4"), "%s", ids);
	co_bundle_ids(&b, ids, 10);
	cr_expect_eq(strlen(ids), 9u);
	co_bundle_free(&b);
}

Test(bundle, plain_and_compressed)
{
	struct text plain = bundle(usual, 5);

	all_found(&plain);
	for (unsigned version = 1; version <= 3; version++) {
		struct text t = compressed(&plain, version, 1);

		all_found(&t);
	}
}

Test(bundle, generic_when_there_is_no_other)
{
	struct text t = bundle(usual, 3);
	struct co_bundle b;
	char err[256];

	cr_assert_eq(co_bundle_open(t.b, t.n, &b, err, sizeof(err)), 0);
	found(&b, NULL, 1);
	co_bundle_free(&b);
	t = bundle(usual, 1);
	cr_assert_eq(co_bundle_open(t.b, t.n, &b, err, sizeof(err)), 0);
	cr_expect_null(co_bundle_find(&b, NULL));
	co_bundle_free(&b);
}

static void refused(const struct text *t, int want, const char *says)
{
	struct co_bundle b = {.n = 77};
	char err[256] = "";

	cr_expect_eq(co_bundle_open(t->b, t->n, &b, err, sizeof(err)), want, "%s", err);
	cr_expect(strstr(err, says), "%s", err);
	cr_expect_eq(b.n, 77u, "outputs are untouched on failure");
}

Test(bundle, refusals)
{
	struct text plain = bundle(usual, 5), t;

	t = compressed(&plain, 4, 1);
	refused(&t, -ENOTSUP, "version 4, wanted 1 to 3");
	t = compressed(&plain, 2, 0);
	refused(&t, -ENOTSUP, "zlib");
	t = compressed(&plain, 2, 1);
	t.n--;
	refused(&t, -EILSEQ, "of the file");
	t = compressed(&plain, 1, 1);
	t.n--;
	refused(&t, -EILSEQ, "compressed bundle:");
	t = plain;
	t.b[24] = 0;
	refused(&t, -EILSEQ, "0 entries");
	t = plain;
	t.b[32 + 7] = 0xff; /* the first entry's offset */
	refused(&t, -EILSEQ, "entry 0 lies outside");
	t = plain;
	t.b[32 + 23] = 0xff; /* the length of its id */
	refused(&t, -EILSEQ, "entry 0 lies outside");
}

/* No cut and no flipped byte is read past the end of; sanitizers look. */
Test(bundle, damage)
{
	struct text plain = bundle(usual, 5), packed = compressed(&plain, 2, 1);
	const struct text *both[] = {&plain, &packed};

	for (unsigned k = 0; k < 2; k++) {
		for (size_t i = 0; i < both[k]->n; i++) {
			uint8_t *copy = malloc(both[k]->n);
			struct co_bundle b;
			char err[256];

			memcpy(copy, both[k]->b, both[k]->n);
			if (!co_bundle_open(copy, i, &b, err, sizeof(err)))
				co_bundle_free(&b);
			copy[i] ^= 0x81;
			if (co_is_bundle(copy, both[k]->n) &&
			    !co_bundle_open(copy, both[k]->n, &b, err, sizeof(err)))
				co_bundle_free(&b);
			free(copy);
		}
	}
}
