#include "engine/model_internal.h"
#include "engine/gguf_internal.h"
#include "engine/quant.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int (*load)(struct model_loader *l);
} archs[MODEL_ARCH_COUNT] = {
	[MODEL_QWEN3] = {"qwen3", model_load_qwen3},
};

static void full_key(const struct model_loader *l, const char *key, char *out, size_t outlen)
{
	snprintf(out, outlen, "%s.%s", l->m->arch_name, key);
}

bool model_has_key(const struct model_loader *l, const char *key)
{
	char full[96];

	full_key(l, key, full, sizeof(full));
	return gguf_find(l->g, full) != NULL;
}

int model_key_u32(struct model_loader *l, const char *key, uint32_t min, uint32_t max,
		  uint32_t *out)
{
	char full[96];
	uint32_t v;
	int ret;

	full_key(l, key, full, sizeof(full));
	ret = gguf_u32(l->g, full, &v, l->err, l->errlen);
	if (ret < 0)
		return ret;
	if (v < min || v > max) {
		gguf_fail(l->err, l->errlen, "%s: %s is %u, want %u to %u", l->g->name, full, v,
			  min, max);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

int model_key_u32_opt(struct model_loader *l, const char *key, uint32_t min, uint32_t max,
		      uint32_t *out)
{
	return model_has_key(l, key) ? model_key_u32(l, key, min, max, out) : 0;
}

int model_key_f32(struct model_loader *l, const char *key, float *out)
{
	char full[96];
	float v;
	int ret;

	full_key(l, key, full, sizeof(full));
	ret = gguf_f32(l->g, full, &v, l->err, l->errlen);
	if (ret < 0)
		return ret;
	if (!isfinite(v) || v <= 0.0f) {
		gguf_fail(l->err, l->errlen, "%s: %s is %g, want a positive number", l->g->name,
			  full, (double)v);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

static void shape_text(const uint64_t *ne, unsigned n, char *out, size_t outlen)
{
	size_t at = 0;

	for (unsigned i = 0; i < n && at < outlen; i++)
		at += (size_t)snprintf(out + at, outlen - at, "%s%llu", i ? ", " : "",
				       (unsigned long long)ne[i]);
}

static int bind(struct model_loader *l, int layer, const char *name, const uint64_t *ne,
		unsigned n_dims, const struct gguf_tensor **out)
{
	const struct gguf_tensor *t;
	char full[64], got[96], wanted[96];
	size_t index;

	if (layer < 0)
		snprintf(full, sizeof(full), "%s", name);
	else
		snprintf(full, sizeof(full), "blk.%d.%s", layer, name);
	t = gguf_tensor(l->g, full);
	if (!t) {
		gguf_fail(l->err, l->errlen, "%s: tensor %s is missing; %s needs it", l->g->name,
			  full, l->m->arch_name);
		return -ENOENT;
	}
	if (!quant_supported(t->type)) {
		gguf_fail(l->err, l->errlen,
			  "%s: type of tensor %s is %s (%u), not computed with here", l->g->name,
			  full, quant_name(t->type), t->type);
		return -ENOTSUP;
	}
	if (n_dims == 1 && t->type != 0) {
		gguf_fail(l->err, l->errlen, "%s: type of tensor %s is %s, want F32 for a vector",
			  l->g->name, full, quant_name(t->type));
		return -ENOTSUP;
	}
	for (unsigned i = 0; i < GGUF_MAX_DIMS; i++) {
		if (t->ne[i] == (i < n_dims ? ne[i] : 1))
			continue;
		shape_text(t->ne, t->n_dims, got, sizeof(got));
		shape_text(ne, n_dims, wanted, sizeof(wanted));
		gguf_fail(l->err, l->errlen,
			  "%s: shape of tensor %s is [%s], want [%s] from the "
			  "metadata",
			  l->g->name, full, got, wanted);
		return -EINVAL;
	}
	index = (size_t)(t - l->g->tensors);
	if (!l->bound[index]) {
		l->bound[index] = 1;
		l->n_bound++;
		l->m->weight_bytes += t->bytes; /* parts of one file: cannot overflow */
	}
	*out = t;
	return 0;
}

int model_bind_matrix(struct model_loader *l, int layer, const char *name, uint64_t ne0,
		      uint64_t ne1, const struct gguf_tensor **out)
{
	return bind(l, layer, name, (uint64_t[]){ne0, ne1}, 2, out);
}

int model_bind_vector(struct model_loader *l, int layer, const char *name, uint64_t ne0,
		      const struct gguf_tensor **out)
{
	return bind(l, layer, name, (uint64_t[]){ne0}, 1, out);
}

/* A tensor the graph would leave out changes the result without a word: refuse it by name. */
static int check_all_bound(const struct model_loader *l)
{
	const struct gguf *g = l->g;

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		if (l->bound[i])
			continue;
		gguf_fail(l->err, l->errlen, "%s: tensor %.*s is no part of %s as computed here",
			  g->name, (int)g->tensors[i].name.n, g->tensors[i].name.p,
			  l->m->arch_name);
		return -ENOTSUP;
	}
	return 0;
}

static int find_arch(const struct gguf *g, struct model *m, char *err, size_t errlen)
{
	struct gguf_str name;
	char known[64] = "";
	int ret = gguf_string(g, "general.architecture", &name, err, errlen);

	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < MODEL_ARCH_COUNT; i++) {
		if (gguf_str_eq(name, archs[i].name)) {
			m->arch = (enum model_arch)i;
			m->arch_name = archs[i].name;
			return 0;
		}
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", archs[i].name);
	}
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] < 0x21 || name.p[i] > 0x7e || i >= 64) {
			gguf_fail(err, errlen,
				  "%s: general.architecture is no plain name of at most "
				  "64 characters; computed here: %s",
				  g->name, known);
			return -ENOTSUP;
		}
	}
	gguf_fail(err, errlen, "%s: general.architecture is \"%.*s\"; computed here: %s", g->name,
		  (int)name.n, name.p, known);
	return -ENOTSUP;
}

int model_load(const struct gguf *g, struct model **out, char *err, size_t errlen)
{
	struct model *m = calloc(1, sizeof(*m));
	struct model_loader l = {.g = g, .m = m, .err = err, .errlen = errlen};
	int ret;

	l.bound = calloc(g->n_tensors + 1, 1);
	if (!m || !l.bound) {
		ret = -ENOMEM;
		gguf_fail(err, errlen, "%s: out of memory", g->name);
		goto out;
	}
	m->gguf = g;
	ret = find_arch(g, m, err, errlen);
	if (ret < 0)
		goto out;
	ret = archs[m->arch].load(&l);
	if (ret == -ENOENT)
		ret = -EINVAL; /* a missing key or tensor: the file is wrong, not absent */
	if (ret < 0)
		goto out;
	ret = check_all_bound(&l);
	if (ret < 0)
		goto out;
	free(l.bound);
	*out = m;
	return 0;
out:
	free(l.bound);
	model_free(m);
	return ret;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	free(m->layers);
	free(m);
}
