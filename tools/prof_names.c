/* Names for the kernels of a report, from code objects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codeobj/codeobj.h"
#include "kernels/kernels.h"
#include "tools/code_file.h"
#include "tools/prof.h"

struct known {
	struct codeobj *co;
	struct code_file file; /* nothing: embedded */
};

struct prof_names {
	struct known *known;
	unsigned n;
};

static int add(struct prof_names *n, const void *image, size_t bytes, struct code_file file,
	       char *err, size_t errlen)
{
	struct known *p = realloc(n->known, (n->n + 1) * sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	n->known = p;
	r = co_parse(image, bytes, &p[n->n].co, err, errlen);
	if (r)
		return r;
	p[n->n++].file = file;
	return 0;
}

struct prof_names *prof_names_open(void)
{
	struct prof_names *n = calloc(1, sizeof(*n));
	char err[256];

	for (const struct kernels_embedded *k = kernels_embedded; n && k->name; k++)
		add(n, k->begin, (size_t)((const char *)k->end - (const char *)k->begin),
		    (struct code_file){0}, err, sizeof(err));
	return n;
}

int prof_names_add(struct prof_names *n, const char *path, char *err, size_t errlen)
{
	struct code_file c;
	int r = code_file_read(path, NULL, false, &c, err, errlen);

	if (r)
		return r;
	r = add(n, c.image, c.bytes, c, err, errlen);
	if (r)
		code_file_free(&c);
	return r;
}

void prof_names_close(struct prof_names *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n->n; i++) {
		co_free(n->known[i].co);
		code_file_free(&n->known[i].file);
	}
	free(n->known);
	free(n);
}

/* The file's bytes at an ELF virtual address, NULL unless all n are there. */
static const uint8_t *bytes_at(const struct codeobj *co, uint64_t va, uint64_t n)
{
	for (uint32_t i = 0; i < co->n_segments; i++) {
		const struct co_segment *s = &co->segments[i];

		if (va >= s->vaddr && va - s->vaddr <= s->filesz &&
		    n <= s->filesz - (va - s->vaddr))
			return (const uint8_t *)co->image + s->offset + (va - s->vaddr);
	}
	return NULL;
}

static bool same_code(const struct codeobj *co, const struct co_kernel *k, int64_t offset,
		      uint64_t n, uint64_t hash)
{
	const uint8_t *p = n ? bytes_at(co, k->entry_vaddr + (uint64_t)offset, n) : NULL;
	uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, as the device does it */

	if (!p)
		return false;
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h == hash;
}

void prof_name_kernel(const struct prof_names *n, json_t *kernel)
{
	const char *text = json_string_value(json_object_get(kernel, "code_hash"));
	uint64_t bytes = (uint64_t)json_integer_value(json_object_get(kernel, "code_bytes"));
	int64_t offset = json_integer_value(json_object_get(kernel, "code_offset"));
	uint64_t hash = text ? strtoull(text, NULL, 16) : 0;
	char name[512] = "";
	size_t at = 0;

	for (unsigned i = 0; i < n->n; i++)
		for (uint32_t j = 0; j < n->known[i].co->n_kernels; j++) {
			const struct co_kernel *k = &n->known[i].co->kernels[j];
			int w;

			if (!same_code(n->known[i].co, k, offset, bytes, hash))
				continue;
			w = snprintf(name + at, sizeof(name) - at, "%s%s", at ? "|" : "", k->name);
			if (w > 0 && (size_t)w < sizeof(name) - at)
				at += (size_t)w;
		}
	if (at)
		json_object_set_new(kernel, "name", tool_json_text(name));
	else
		json_object_set_new(kernel, "name", json_null());
}

void prof_name_kernels(const struct prof_names *n, json_t *report)
{
	json_t *k;
	size_t i;

	json_array_foreach(json_object_get(report, "kernels"), i, k)
	{
		prof_name_kernel(n, k);
	}
}
