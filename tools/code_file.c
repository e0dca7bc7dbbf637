/* A file that holds a code object, by itself or in an offload bundle. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/code_file.h"
#include "tools/tool.h"

/* The one entry that is not the host's, if there is just one. */
static const struct co_bundle_entry *only_device(const struct co_bundle *b)
{
	const struct co_bundle_entry *found = NULL;

	for (uint32_t i = 0; i < b->n; i++) {
		if (!b->entries[i].bytes || !strstr(b->entries[i].id, "-gfx"))
			continue;
		if (found)
			return NULL;
		found = &b->entries[i];
	}
	return found;
}

static int choose(const char *path, const char *target, bool any, struct code_file *c, char *err,
		  size_t errlen)
{
	const struct co_bundle_entry *e;
	char why[256], ids[512];
	int rc = co_bundle_open(c->file, c->bytes, &c->bundle, why, sizeof(why));

	if (rc) {
		snprintf(err, errlen, "%s: %s", path, why);
		return rc;
	}
	e = co_bundle_find(&c->bundle, target);
	if (!e && any && !target)
		e = only_device(&c->bundle);
	if (!e) {
		co_bundle_ids(&c->bundle, ids, sizeof(ids));
		snprintf(err, errlen, "%s: a bundle of %s; wanted an entry for %s%s", path, ids,
			 target ? target : "gfx1151 or gfx11-generic",
			 any && !target ? ", or --target" : "");
		return -ENOENT;
	}
	c->entry = e;
	c->image = e->image;
	c->bytes = e->bytes;
	return 0;
}

int code_file_read(const char *path, const char *target, bool any, struct code_file *out, char *err,
		   size_t errlen)
{
	struct code_file c = {0};
	int rc = tool_read_file(path, &c.file, &c.bytes, err, errlen);

	if (rc)
		return rc;
	c.image = c.file;
	if (co_is_bundle(c.file, c.bytes)) {
		rc = choose(path, target, any, &c, err, errlen);
	} else if (target) {
		snprintf(err, errlen, "%s: one code object, wanted an offload bundle for --target",
			 path);
		rc = -EINVAL;
	}
	if (rc)
		code_file_free(&c);
	else
		*out = c;
	return rc;
}

void code_file_free(struct code_file *c)
{
	co_bundle_free(&c->bundle);
	free(c->file);
	*c = (struct code_file){0};
}
