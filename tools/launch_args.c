#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kfd/kfd.h"
#include "memory/arena.h"
#include "memory/memory.h"
#include "memory/rules.h"
#include "tools/launch_args.h"

/* A recognisable value that no kernel wrote: neither zero nor a likely result. */
#define UNWRITTEN 0xa5

static bool scalar_int(const char *text, unsigned bits, bool is_signed, uint64_t *out)
{
	uint64_t max = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
	bool negative = is_signed && text[0] == '-';

	if (is_signed)
		max = (max >> 1) + (negative ? 1 : 0);
	if (!tool_u64(text + negative, max, out))
		return false;
	if (negative)
		*out = 0 - *out;
	return true;
}

static int parse_scalar(const struct command *c, const char *type, const char *value,
			struct launch_arg *a)
{
	static const struct {
		const char *name;
		uint8_t bytes;
		char kind; /* u, i, f */
	} types[] = {
		{"u8", 1, 'u'},  {"u16", 2, 'u'}, {"u32", 4, 'u'}, {"u64", 8, 'u'},
		{"i8", 1, 'i'},  {"i16", 2, 'i'}, {"i32", 4, 'i'}, {"i64", 8, 'i'},
		{"f16", 2, 'f'}, {"f32", 4, 'f'}, {"f64", 8, 'f'},
	};
	double d;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		unsigned bytes = types[i].bytes;

		if (strcmp(type, types[i].name))
			continue;
		a->form = FORM_SCALAR;
		a->scalar_of = types[i].name;
		a->bytes = bytes;
		if (types[i].kind != 'f') {
			if (scalar_int(value, bytes * 8, types[i].kind == 'i', &a->scalar))
				return TOOL_OK;
			return tool_usage(c, "--arg %s: '%s' is no %s", a->spec, value, type);
		}
		if (!tool_f64(value, &d))
			return tool_usage(c, "--arg %s: '%s' is no number", a->spec, value);
		if (bytes == 8) {
			memcpy(&a->scalar, &d, 8);
		} else if (bytes == 4) {
			float f = (float)d;

			memcpy(&a->scalar, &f, 4);
		} else {
			_Float16 h = (_Float16)d;

			memcpy(&a->scalar, &h, 2);
		}
		return TOOL_OK;
	}
	return tool_usage(
		c,
		"--arg %s: wanted in:, out:, inout:, zero:, fill:, expect:, or a number type "
		"(u8 to u64, i8 to i64, f16, f32, f64)",
		a->spec);
}

static int read_data(const char *path, void **data, uint64_t *bytes)
{
	char err[512];
	size_t n;

	if (tool_read_file(path, data, &n, err, sizeof(err)))
		return tool_fail("%s", err);
	if (!n) {
		free(*data);
		*data = NULL;
		return tool_fail("%s: empty, wanted at least one byte for a buffer", path);
	}
	*bytes = n;
	return TOOL_OK;
}

/* BYTES[:REST]; *rest is NULL when there is none. The digits are copied to be terminated. */
static bool split_bytes(const char *text, uint64_t *bytes, const char **rest)
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	char digits[32];

	if (n >= sizeof(digits))
		return false;
	memcpy(digits, text, n);
	digits[n] = '\0';
	*rest = colon ? colon + 1 : NULL;
	return tool_u64(digits, (uint64_t)1 << 40, bytes) && *bytes;
}

/* FILE[:OUTFILE]: the storage that holds FILE alone is *owned. */
static int parse_inout(const struct command *c, const char *text, struct launch_arg *a)
{
	const char *colon = strchr(text, ':');
	char *path = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
	int rc;

	if (!path)
		return tool_fail("out of memory");
	a->save = colon ? colon + 1 : NULL;
	if (a->save && !*a->save)
		rc = tool_usage(c, "--arg %s: no output file after ':'", a->spec);
	else
		rc = read_data(path, &a->data, &a->bytes);
	free(path);
	return rc;
}

int launch_arg_parse(const struct command *c, const char *spec, struct launch_arg *out)
{
	const char *colon = strchr(spec, ':'), *v, *rest;
	char type[8] = "";
	uint64_t byte;

	*out = (struct launch_arg){.spec = spec};
	if (!colon || !colon[1] || (size_t)(colon - spec) >= sizeof(type))
		return tool_usage(c, "--arg '%s', wanted FORM:VALUE", spec);
	memcpy(type, spec, (size_t)(colon - spec));
	v = colon + 1;
	if (!strcmp(type, "in")) {
		out->form = FORM_IN;
		return read_data(v, &out->data, &out->bytes);
	}
	if (!strcmp(type, "inout")) {
		out->form = FORM_INOUT;
		return parse_inout(c, v, out);
	}
	if (!strcmp(type, "expect")) {
		out->form = FORM_EXPECT;
		out->pattern = UNWRITTEN;
		out->expect_path = v;
		return read_data(v, &out->expect, &out->bytes);
	}
	if (!strcmp(type, "out")) {
		out->form = FORM_OUT;
		out->pattern = UNWRITTEN;
		if (!split_bytes(v, &out->bytes, &rest) || (rest && !*rest))
			return tool_usage(c, "--arg %s: wanted out:BYTES[:FILE]", spec);
		out->save = rest;
		return TOOL_OK;
	}
	if (!strcmp(type, "zero")) {
		out->form = FORM_ZERO;
		if (!split_bytes(v, &out->bytes, &rest) || rest)
			return tool_usage(c, "--arg %s: wanted zero:BYTES", spec);
		return TOOL_OK;
	}
	if (!strcmp(type, "fill")) {
		char hex[8];

		out->form = FORM_FILL;
		if (!split_bytes(v, &out->bytes, &rest) || !rest || strlen(rest) > 2)
			return tool_usage(c, "--arg %s: wanted fill:BYTES:HEXBYTE", spec);
		snprintf(hex, sizeof(hex), "0x%s", rest);
		if (!tool_u64(hex, 255, &byte))
			return tool_usage(c, "--arg %s: '%s' is no hexadecimal byte", spec, rest);
		out->pattern = (uint8_t)byte;
		return TOOL_OK;
	}
	return parse_scalar(c, type, v, out);
}

int launch_arg_expect(const struct command *c, const char *spec, struct launch_arg *args,
		      unsigned n)
{
	uint64_t index, bytes = 0;
	const char *path;
	struct launch_arg *a;
	const char *colon = strchr(spec, ':');
	char digits[16];

	if (!colon || (size_t)(colon - spec) >= sizeof(digits))
		return tool_usage(c, "--expect '%s', wanted INDEX:FILE", spec);
	memcpy(digits, spec, (size_t)(colon - spec));
	digits[colon - spec] = '\0';
	path = colon + 1;
	if (!tool_u64(digits, UINT32_MAX, &index) || !*path)
		return tool_usage(c, "--expect '%s', wanted INDEX:FILE", spec);
	if (index >= n || args[index].form == FORM_SCALAR)
		return tool_usage(c, "--expect %s: argument %llu is no buffer (%u --arg given)",
				  spec, (unsigned long long)index, n);
	a = &args[index];
	if (a->expect)
		return tool_usage(c, "--expect %s: argument %llu is compared already", spec,
				  (unsigned long long)index);
	if (read_data(path, &a->expect, &bytes))
		return TOOL_FAILED;
	a->expect_path = path;
	if (bytes != a->bytes)
		return tool_fail("%s: %llu bytes, wanted the %llu of argument %llu (%s)", path,
				 (unsigned long long)bytes, (unsigned long long)a->bytes,
				 (unsigned long long)index, a->spec);
	return TOOL_OK;
}

void launch_arg_free(struct launch_arg *a)
{
	free(a->data);
	free(a->expect);
	launch_arg_unplace(a);
	*a = (struct launch_arg){0};
}

static bool is_explicit(const struct co_arg *a)
{
	return a->kind == CO_ARG_BY_VALUE || a->kind == CO_ARG_GLOBAL_BUFFER;
}

int launch_args_match(const struct co_kernel *k, const struct launch_arg *args, unsigned n)
{
	unsigned want = 0;

	for (uint32_t i = 0; i < k->n_args; i++)
		want += is_explicit(&k->args[i]);
	if (n != want)
		return tool_fail("%s: %u --arg given, wanted %u (barewave co lists them)", k->name,
				 n, want);
	for (uint32_t i = 0, j = 0; i < k->n_args; i++) {
		const struct co_arg *ka = &k->args[i];
		const struct launch_arg *a = &args[j];
		bool buffer;

		if (!is_explicit(ka))
			continue;
		buffer = a->form != FORM_SCALAR;
		if (buffer != (ka->kind == CO_ARG_GLOBAL_BUFFER) || (buffer && ka->size != 8))
			return tool_fail("%s: argument %u is %s, wanted %s", k->name, j, a->spec,
					 ka->kind == CO_ARG_GLOBAL_BUFFER
						 ? "a buffer (global_buffer)"
						 : "a number (by_value)");
		if (!buffer && a->bytes != ka->size)
			return tool_fail("%s: argument %u is %s of %llu bytes, wanted %u bytes",
					 k->name, j, a->scalar_of, (unsigned long long)a->bytes,
					 ka->size);
		j++;
	}
	return TOOL_OK;
}

/* A buffer of its own; with red zones it is an arena of one part. */
static int place_alone(struct memory *m, struct launch_arg *a, const char *owner)
{
	const struct bo_rules *r = memory_rules(m);
	struct arena_opts o = {
		.align = bo_rules_align(r, owner, ARENA_ALIGN),
		.redzone = bo_rules_redzone(r, owner),
	};
	struct bo_desc d = {
		.owner = owner,
		.size = a->bytes,
		/* an access past the end faults instead of hitting a neighbour */
		.guard = BO_GUARD_END,
		.placement = BO_GTT,
		.coherence = BO_COARSE,
		.host = true,
		/* What the kernel does with it is its own affair. */
		.uses = BO_HOST_WRITES | BO_HOST_DECLARED |
			(a->save || a->expect || o.redzone ? BO_HOST_READS : 0),
	};
	int rc;

	if (o.align < ARENA_GRANULE)
		o.align = ARENA_GRANULE;
	if (o.redzone) {
		d.size = ((o.redzone + o.align - 1) & ~(o.align - 1)) + o.redzone +
			 ((a->bytes + ARENA_GRANULE - 1) & ~(uint64_t)(ARENA_GRANULE - 1));
		d.grain = o.align < 4096 ? o.align : 4096;
	}
	rc = bo_create(m, &d, &a->bo);
	if (rc)
		return tool_fail("argument %s (%s): buffer of %llu bytes: %s", owner + 3, a->spec,
				 (unsigned long long)d.size,
				 kfd_reason()[0] ? kfd_reason() : strerror(-rc));
	a->va = bo_va(a->bo);
	if (o.redzone) {
		rc = arena_create(a->va, d.size & ~(uint64_t)(ARENA_GRANULE - 1), bo_host(a->bo),
				  &o, &a->zones);
		if (!rc)
			rc = arena_alloc(a->zones, owner, a->bytes, 0, &a->va);
		if (rc)
			return tool_fail("argument %s (%s): red zones: %s", owner + 3, a->spec,
					 strerror(-rc));
	}
	return TOOL_OK;
}

int launch_arg_place(struct memory *m, struct bo *arena_bo, struct arena *arena,
		     struct launch_arg *a, unsigned index)
{
	char owner[16];
	int rc;

	if (a->form == FORM_SCALAR)
		return TOOL_OK;
	snprintf(owner, sizeof(owner), "arg%u", index);
	if (arena) {
		const struct bo_rules *r = memory_rules(m);

		rc = arena_alloc(arena, owner, a->bytes, 0, &a->va);
		if (rc)
			return tool_fail(
				"argument %u (%s): %llu bytes, aligned to %llu, with red zones of "
				"%llu, in the arena 0x%llx + %llu, of which %llu are taken: %s",
				index, a->spec, (unsigned long long)a->bytes,
				(unsigned long long)bo_rules_align(r, owner, ARENA_ALIGN),
				(unsigned long long)bo_rules_redzone(r, owner),
				(unsigned long long)bo_va(arena_bo),
				(unsigned long long)bo_size(arena_bo),
				(unsigned long long)arena_taken(arena), strerror(-rc));
		/* An address is nobody else's: an identity. */
		rc = memory_place(arena_bo, owner, a->va, a->bytes, a->va);
		if (rc)
			return tool_fail("argument %u: %s", index, strerror(-rc));
	} else {
		rc = place_alone(m, a, owner);
		if (rc)
			return rc;
	}
	/* host memory of a buffer is at its device address */
	a->host = (void *)(uintptr_t)a->va;
	memset(a->host, a->pattern, a->bytes);
	if (a->data)
		memcpy(a->host, a->data, a->bytes);
	return TOOL_OK;
}

void launch_arg_unplace(struct launch_arg *a)
{
	arena_destroy(a->zones);
	bo_destroy(a->bo);
	a->zones = NULL;
	a->bo = NULL;
}

int launch_arena_check(const struct arena *arena)
{
	struct arena_damage d;

	if (!arena || !arena_check(arena, &d))
		return TOOL_OK;
	return tool_fail("red zone of \"%s\" (%llu bytes at 0x%llx): %llu bytes were written, the "
			 "first %lld bytes from its start: 0x%02x, wanted 0x%02x",
			 d.owner, (unsigned long long)d.bytes, (unsigned long long)d.va,
			 (unsigned long long)d.changed, (long long)(d.at - d.va), d.found,
			 d.wanted);
}

void launch_args_write(const struct co_kernel *k, const struct launch_arg *args, uint32_t lds,
		       void *kernarg)
{
	for (uint32_t i = 0; i < k->n_args; i++) {
		const struct co_arg *ka = &k->args[i];
		uint64_t v;

		if (ka->kind == CO_ARG_DYNAMIC_SHARED) {
			v = lds;
		} else if (is_explicit(ka)) {
			v = args->host ? args->va : args->scalar;
			args++;
		} else {
			continue;
		}
		memcpy((char *)kernarg + ka->offset, &v, ka->size < 8 ? ka->size : 8);
	}
}

static void compare(const uint8_t *got, const uint8_t *want, uint64_t n,
		    struct launch_difference *d)
{
	*d = (struct launch_difference){.compared = true, .equal = true};
	for (uint64_t i = 0; i < n; i++) {
		if (got[i] == want[i])
			continue;
		if (d->equal) {
			d->equal = false;
			d->offset = i;
			d->got = got[i];
			d->want = want[i];
		}
		d->count++;
	}
}

int launch_arg_finish(const struct launch_arg *a, struct launch_difference *d)
{
	char err[512];

	*d = (struct launch_difference){0};
	if (!a->host)
		return TOOL_OK;
	if (a->save && tool_write_file(a->save, a->host, a->bytes, err, sizeof(err)))
		return tool_fail("%s", err);
	if (a->expect)
		compare(a->host, a->expect, a->bytes, d);
	return TOOL_OK;
}
