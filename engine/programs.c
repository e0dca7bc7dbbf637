#include "engine/programs.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OWNER    "code"
#define MAX_FILE (64l << 20) /* bytes of a code object file */

struct program {
	const char *name;
	struct codeobj *co;
	void *file; /* image read from a file, NULL for embedded */
	struct co_program *loaded;
	bool used;
};

struct programs {
	struct program *prog;
	uint32_t n;
};

static int read_stream(FILE *f, void **out, size_t *size)
{
	struct stat st;
	void *p;

	if (fstat(fileno(f), &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
		return -EINVAL;
	p = malloc((size_t)st.st_size + 1);
	if (!p)
		return -ENOMEM;
	if (fread(p, 1, (size_t)st.st_size, f) != (size_t)st.st_size) {
		free(p);
		return -EIO;
	}
	*out = p;
	*size = (size_t)st.st_size;
	return 0;
}

/* -ENOENT is for the caller to judge; anything else is said in err. */
static int read_file(const char *path, void **out, size_t *size, char *err, size_t errlen)
{
	FILE *f = fopen(path, "rbe");
	int ret = f ? read_stream(f, out, size) : -errno;

	if (f)
		fclose(f);
	if (ret < 0 && ret != -ENOENT)
		snprintf(err, errlen, "%s: %s", path,
			 ret == -EINVAL ? "not a file of at most 64 MiB" : strerror(-ret));
	return ret;
}

/* 1: taken from dir, 0: embedded. */
static int open_one(struct program *p, const struct kernels_embedded *k, const char *dir, char *err,
		    size_t errlen)
{
	const void *image = k->begin;
	size_t size = (size_t)((const char *)k->end - (const char *)k->begin);
	char path[4096], why[512];
	int ret = -ENOENT;

	snprintf(path, sizeof(path), "embedded %s", k->name);
	if (dir) {
		if (snprintf(path, sizeof(path), "%s/%s.co", dir, k->name) >= (int)sizeof(path)) {
			snprintf(err, errlen, "%.64s...: path too long", dir);
			return -ENAMETOOLONG;
		}
		ret = read_file(path, &p->file, &size, err, errlen);
		if (ret < 0 && ret != -ENOENT)
			return ret;
		if (ret == 0)
			image = p->file;
	}
	p->name = k->name;
	if (co_parse(image, size, &p->co, why, sizeof(why)) < 0) {
		snprintf(err, errlen, "%s: %s", path, why);
		return -EINVAL;
	}
	return p->file != NULL;
}

int programs_open(const char *dir, struct programs **out, char *err, size_t errlen)
{
	struct programs *p = calloc(1, sizeof(*p));
	uint32_t n = 0, from_dir = 0;
	int ret = -ENOMEM;

	while (kernels_embedded[n].name)
		n++;
	if (p)
		p->prog = calloc(n + 1, sizeof(*p->prog));
	if (!p || !p->prog) {
		snprintf(err, errlen, "out of memory");
		goto out;
	}
	for (uint32_t i = 0; i < n; i++) {
		/* The trap handler is the queue's, not a kernel. */
		if (!strcmp(kernels_embedded[i].name, "trap"))
			continue;
		ret = open_one(&p->prog[p->n++], &kernels_embedded[i], dir, err, errlen);
		if (ret < 0)
			goto out;
		from_dir += (uint32_t)ret;
	}
	if (dir && !from_dir) {
		snprintf(err, errlen, "%s: has none of the code objects %s.co, ...", dir,
			 p->n ? p->prog[0].name : "?");
		ret = -ENOENT;
		goto out;
	}
	*out = p;
	return 0;
out:
	programs_close(p);
	return ret;
}

void programs_close(struct programs *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; p->prog && i < p->n; i++) {
		co_unload(p->prog[i].loaded);
		co_free(p->prog[i].co);
		free(p->prog[i].file);
	}
	free(p->prog);
	free(p);
}

static struct program *find(const struct programs *p, const char *kernel,
			    const struct co_kernel **k)
{
	for (uint32_t i = 0; i < p->n; i++) {
		*k = co_find(p->prog[i].co, kernel);
		if (*k)
			return &p->prog[i];
	}
	return NULL;
}

uint32_t programs_kernarg_bytes(void *ctx, const char *kernel)
{
	const struct co_kernel *k;

	return find(ctx, kernel, &k) ? k->kernarg_bytes : 0;
}

int programs_plan(struct programs *p, struct plan *plan)
{
	const struct co_kernel *k;
	int ret = 0;

	for (uint32_t g = 0; g < plan->n_graphs; g++) {
		for (uint32_t i = 0; i <= plan->graphs[g].g->n_nodes; i++) {
			const struct plan_node *pn = &plan->graphs[g].node[i];

			if (pn->device)
				find(p, pn->claim.kernel, &k)->used = true;
		}
	}
	for (uint32_t i = 0; i < p->n && ret >= 0; i++)
		if (p->prog[i].used)
			ret = plan_add(plan, OWNER, p->prog[i].co->vaddr_end, 1);
	return ret;
}

int programs_want(struct programs *p, struct plan *plan, const char *kernel)
{
	const struct co_kernel *k;
	struct program *g = find(p, kernel, &k);

	if (!g)
		return -ENOENT;
	if (g->used)
		return 0;
	g->used = true;
	return plan_add(plan, OWNER, g->co->vaddr_end, 1);
}

int programs_load(struct programs *p, struct memory *m, char *err, size_t errlen)
{
	char why[512];

	for (uint32_t i = 0; i < p->n; i++) {
		struct program *g = &p->prog[i];
		int ret = g->used ? co_load(m, g->co, OWNER, &g->loaded, why, sizeof(why)) : 0;

		if (ret < 0) {
			snprintf(err, errlen, "code object %s: %s", g->name, why);
			return ret;
		}
	}
	return 0;
}

void programs_kernel(const struct programs *p, const char *kernel, struct programs_kernel *out)
{
	const struct co_kernel *k;
	const struct program *g = find(p, kernel, &k);

	out->object = co_kernel_object(g->loaded, kernel);
	out->private_bytes = k->private_bytes;
	out->group_bytes = k->group_bytes;
}
