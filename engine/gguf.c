/* The parser. Pure: reads an image in memory, never writes to it, makes no system call. */
#include "engine/gguf_internal.h"
#include "engine/quant.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	const struct gguf *g;
	size_t pos;
	char *err;
	size_t errlen;
};

/* A name from the file made fit for a terminal: printable ASCII, at most 64 bytes of it. */
struct shown {
	char s[72];
};

static const struct {
	const char *name;
	unsigned size; /* 0: variable */
} value_types[GGUF_TYPE_COUNT] = {
	[GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
	[GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
	[GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
	[GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
	[GGUF_F64] = {"f64", 8},
};

void gguf_fail(char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	if (!err || !errlen)
		return;
	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
}

const char *gguf_type_name(enum gguf_type type)
{
	return (unsigned)type < GGUF_TYPE_COUNT ? value_types[type].name : "unknown";
}

static struct shown show(struct gguf_str s)
{
	struct shown out;
	size_t n = s.n < 64 ? s.n : 64, i;

	for (i = 0; i < n; i++)
		out.s[i] = s.p[i] >= 0x20 && s.p[i] < 0x7f ? s.p[i] : '?';
	if (s.n > n) {
		memcpy(out.s + i, "...", 3);
		i += 3;
	}
	out.s[i] = 0;
	return out;
}

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return le64toh(v);
}

/* The next n bytes, or NULL with a line that says what was being read. */
static const uint8_t *take(struct reader *r, uint64_t n, const char *what, const char *of)
{
	size_t left = r->g->size - r->pos;
	const uint8_t *p = r->g->base + r->pos;

	if (n > left) {
		gguf_fail(
			r->err, r->errlen,
			"%s: truncated: %s%s%s at byte %zu needs %llu bytes, the file has %zu more",
			r->g->name, what, *of ? " of " : "", of, r->pos, (unsigned long long)n,
			left);
		return NULL;
	}
	r->pos += n;
	return p;
}

static int read32(struct reader *r, const char *what, const char *of, uint32_t *out)
{
	const uint8_t *p = take(r, 4, what, of);

	if (!p)
		return -EINVAL;
	*out = load32(p);
	return 0;
}

static int read64(struct reader *r, const char *what, const char *of, uint64_t *out)
{
	const uint8_t *p = take(r, 8, what, of);

	if (!p)
		return -EINVAL;
	*out = load64(p);
	return 0;
}

static int read_str(struct reader *r, const char *what, const char *of, uint64_t max,
		    struct gguf_str *out)
{
	const uint8_t *p;
	uint64_t n;
	int ret = read64(r, what, of, &n);

	if (ret < 0)
		return ret;
	if (n > max) {
		gguf_fail(r->err, r->errlen, "%s: %s%s%s is %llu bytes long; at most %llu are read",
			  r->g->name, what, *of ? " of " : "", of, (unsigned long long)n,
			  (unsigned long long)max);
		return -EINVAL;
	}
	p = take(r, n, what, of);
	if (!p)
		return -EINVAL;
	out->p = (const char *)p;
	out->n = (size_t)n;
	return 0;
}

static int str_cmp(struct gguf_str a, struct gguf_str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int kv_cmp(const void *a, const void *b, void *arg)
{
	const struct gguf_kv *kv = arg;

	return str_cmp(kv[*(const uint32_t *)a].key, kv[*(const uint32_t *)b].key);
}

static int tensor_cmp(const void *a, const void *b, void *arg)
{
	const struct gguf_tensor *t = arg;

	return str_cmp(t[*(const uint32_t *)a].name, t[*(const uint32_t *)b].name);
}

static int read_header(struct reader *r, struct gguf *g, uint64_t *n_tensors, uint64_t *n_kv)
{
	const uint8_t *magic = take(r, 4, "magic", "");
	int ret;

	if (!magic)
		return -EINVAL;
	if (memcmp(magic, "GGUF", 4)) {
		gguf_fail(r->err, r->errlen,
			  "%s: magic is %02x %02x %02x %02x, want 47 47 55 46 (\"GGUF\")", g->name,
			  magic[0], magic[1], magic[2], magic[3]);
		return -EINVAL;
	}
	ret = read32(r, "version", "", &g->version);
	if (ret < 0)
		return ret;
	if (g->version != 2 && g->version != 3) {
		uint32_t swapped = __builtin_bswap32(g->version);

		if (swapped >= 1 && swapped <= 3)
			gguf_fail(r->err, r->errlen,
				  "%s: version reads %u in big-endian byte order; little-endian "
				  "files are read here",
				  g->name, swapped);
		else
			gguf_fail(r->err, r->errlen, "%s: version is %u; 2 and 3 are read here",
				  g->name, g->version);
		return -ENOTSUP;
	}
	ret = read64(r, "tensor count", "", n_tensors);
	if (ret < 0)
		return ret;
	ret = read64(r, "metadata count", "", n_kv);
	if (ret < 0)
		return ret;
	/* The smallest tensor info is 33 bytes (8+1 name, 4 dimensions, 8 extent, 4 type, 8
	 * offset), the smallest pair 14 (8+1 key, 4 type, 1 value): a count the rest of the file
	 * could not hold is refused before anything is allocated for it. */
	if (*n_tensors > GGUF_MAX_TENSORS || *n_tensors > (g->size - r->pos) / 33) {
		gguf_fail(r->err, r->errlen,
			  "%s: tensor count is %llu; the %zu bytes after it hold at most %zu and "
			  "%u is the limit",
			  g->name, (unsigned long long)*n_tensors, g->size - r->pos,
			  (g->size - r->pos) / 33, GGUF_MAX_TENSORS);
		return -EINVAL;
	}
	if (*n_kv > GGUF_MAX_KV || *n_kv > (g->size - r->pos) / 14) {
		gguf_fail(r->err, r->errlen,
			  "%s: metadata count is %llu; the %zu bytes after it hold at most %zu and "
			  "%u is the limit",
			  g->name, (unsigned long long)*n_kv, g->size - r->pos,
			  (g->size - r->pos) / 14, GGUF_MAX_KV);
		return -EINVAL;
	}
	return 0;
}

/* Length of one value of a fixed or string type at r->pos; arrays do not nest here. */
static int skip_values(struct reader *r, enum gguf_type type, uint64_t count, const char *key)
{
	const uint8_t *p;

	if (type == GGUF_STRING) {
		for (uint64_t i = 0; i < count; i++) {
			struct gguf_str s;
			int ret = read_str(r, "string", key, GGUF_MAX_STRING, &s);

			if (ret < 0)
				return ret;
		}
		return 0;
	}
	/* count <= GGUF_MAX_ARRAY, size <= 8: no overflow. */
	p = take(r, count * value_types[type].size, "value", key);
	if (!p)
		return -EINVAL;
	for (uint64_t i = 0; type == GGUF_BOOL && i < count; i++) {
		if (p[i] > 1) {
			gguf_fail(r->err, r->errlen, "%s: %s is %u, want a bool (0 or 1)",
				  r->g->name, key, p[i]);
			return -EINVAL;
		}
	}
	return 0;
}

static int read_kv(struct reader *r, struct gguf_kv *kv, uint32_t index)
{
	uint32_t type, elem;
	struct shown key;
	char what[32];
	int ret;

	snprintf(what, sizeof(what), "key %u", index);
	ret = read_str(r, what, "", GGUF_MAX_KEY, &kv->key);
	if (ret < 0)
		return ret;
	if (!kv->key.n) {
		gguf_fail(r->err, r->errlen, "%s: key %u is empty", r->g->name, index);
		return -EINVAL;
	}
	key = show(kv->key);
	ret = read32(r, "type", key.s, &type);
	if (ret < 0)
		return ret;
	if (type >= GGUF_TYPE_COUNT) {
		gguf_fail(r->err, r->errlen, "%s: type of %s is %u; GGUF defines 0 to %u",
			  r->g->name, key.s, type, GGUF_TYPE_COUNT - 1);
		return -EINVAL;
	}
	kv->type = kv->elem = (enum gguf_type)type;
	kv->count = 1;
	if (type == GGUF_ARRAY) {
		ret = read32(r, "element type", key.s, &elem);
		if (ret < 0)
			return ret;
		if (elem >= GGUF_TYPE_COUNT || elem == GGUF_ARRAY) {
			gguf_fail(r->err, r->errlen,
				  "%s: element type of %s is %u; scalars and strings are read here",
				  r->g->name, key.s, elem);
			return elem == GGUF_ARRAY ? -ENOTSUP : -EINVAL;
		}
		kv->elem = (enum gguf_type)elem;
		ret = read64(r, "count", key.s, &kv->count);
		if (ret < 0)
			return ret;
		if (kv->count > GGUF_MAX_ARRAY) {
			gguf_fail(r->err, r->errlen, "%s: count of %s is %llu; at most %u are read",
				  r->g->name, key.s, (unsigned long long)kv->count, GGUF_MAX_ARRAY);
			return -EINVAL;
		}
	}
	kv->data = r->g->base + r->pos;
	return skip_values(r, kv->elem, kv->count, key.s);
}

/* Everything but where the data is: that needs the end of the infos. */
static int read_tensor(struct reader *r, struct gguf_tensor *t, uint32_t index)
{
	const struct quant_type *qt;
	struct shown name;
	uint64_t n = 1;
	char what[32];
	int ret;

	snprintf(what, sizeof(what), "name of tensor %u", index);
	ret = read_str(r, what, "", GGUF_MAX_NAME, &t->name);
	if (ret < 0)
		return ret;
	if (!t->name.n || memchr(t->name.p, 0, t->name.n)) {
		gguf_fail(r->err, r->errlen, "%s: name of tensor %u is %s", r->g->name, index,
			  t->name.n ? "not text: it holds a NUL byte" : "empty");
		return -EINVAL;
	}
	name = show(t->name);
	ret = read32(r, "dimension count", name.s, &t->n_dims);
	if (ret < 0)
		return ret;
	if (!t->n_dims || t->n_dims > GGUF_MAX_DIMS) {
		gguf_fail(r->err, r->errlen, "%s: dimension count of %s is %u, want 1 to %u",
			  r->g->name, name.s, t->n_dims, GGUF_MAX_DIMS);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
		t->ne[i] = 1;
	for (uint32_t i = 0; i < t->n_dims; i++) {
		ret = read64(r, "dimension", name.s, &t->ne[i]);
		if (ret < 0)
			return ret;
		if (!t->ne[i]) {
			gguf_fail(r->err, r->errlen, "%s: dimension %u of %s is 0", r->g->name, i,
				  name.s);
			return -EINVAL;
		}
		/* Signed 63 bits, as every reader of the format computes. */
		if (t->ne[i] > INT64_MAX || __builtin_mul_overflow(n, t->ne[i], &n) ||
		    n > INT64_MAX) {
			gguf_fail(r->err, r->errlen,
				  "%s: dimension %u of %s is %llu: the element count overflows",
				  r->g->name, i, name.s, (unsigned long long)t->ne[i]);
			return -EINVAL;
		}
	}
	ret = read32(r, "type", name.s, &t->type);
	if (ret < 0)
		return ret;
	qt = quant_type(t->type);
	if (!qt) {
		gguf_fail(r->err, r->errlen, "%s: type of tensor %s is %u, no GGML type known here",
			  r->g->name, name.s, t->type);
		return -ENOTSUP;
	}
	if (t->ne[0] % qt->block) {
		gguf_fail(r->err, r->errlen,
			  "%s: rows of tensor %s are %llu long; %s wants multiples of %u",
			  r->g->name, name.s, (unsigned long long)t->ne[0], qt->name, qt->block);
		return -EINVAL;
	}
	if (quant_bytes(t->type, n, &t->bytes) < 0) {
		gguf_fail(r->err, r->errlen,
			  "%s: size of tensor %s (%llu elements of %s) overflows", r->g->name,
			  name.s, (unsigned long long)n, qt->name);
		return -EINVAL;
	}
	return read64(r, "offset", name.s, &t->offset);
}

/* t->offset comes in relative to the data section and goes out relative to the file. */
static int place_tensor(struct reader *r, const struct gguf *g, struct gguf_tensor *t)
{
	struct shown name = show(t->name);
	uint64_t room = g->size - g->data_offset;

	if (t->offset % g->alignment) {
		gguf_fail(r->err, r->errlen,
			  "%s: offset of tensor %s is %llu, not a multiple of the alignment %u",
			  g->name, name.s, (unsigned long long)t->offset, g->alignment);
		return -EINVAL;
	}
	if (t->offset > room || t->bytes > room - t->offset) {
		gguf_fail(r->err, r->errlen,
			  "%s: truncated: tensor %s wants %llu bytes at offset %llu, the data "
			  "section has %llu",
			  g->name, name.s, (unsigned long long)t->bytes,
			  (unsigned long long)t->offset, (unsigned long long)room);
		return -EINVAL;
	}
	t->offset += g->data_offset;
	t->data = g->base + t->offset;
	return 0;
}

static int offset_cmp(const void *a, const void *b, void *arg)
{
	const struct gguf_tensor *t = arg;
	uint64_t oa = t[*(const uint32_t *)a].offset, ob = t[*(const uint32_t *)b].offset;

	return (oa > ob) - (oa < ob);
}

/* Two names for the same bytes would make one weight of two. order: room for n_tensors indices. */
static int check_overlap(struct reader *r, const struct gguf *g, uint32_t *order)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		order[i] = i;
	qsort_r(order, g->n_tensors, sizeof(*order), offset_cmp, g->tensors);
	for (uint32_t i = 1; i < g->n_tensors; i++) {
		const struct gguf_tensor *a = &g->tensors[order[i - 1]], *b = &g->tensors[order[i]];

		if (b->offset - a->offset < a->bytes) {
			gguf_fail(r->err, r->errlen,
				  "%s: offset of tensor %s is %llu, inside tensor %s (%llu bytes "
				  "at %llu)",
				  g->name, show(b->name).s,
				  (unsigned long long)(b->offset - g->data_offset), show(a->name).s,
				  (unsigned long long)a->bytes,
				  (unsigned long long)(a->offset - g->data_offset));
			return -EINVAL;
		}
	}
	return 0;
}

static int sort_names(struct reader *r, struct gguf *g)
{
	for (uint32_t i = 0; i < g->n_kv; i++)
		g->kv_sorted[i] = i;
	for (uint32_t i = 0; i < g->n_tensors; i++)
		g->tensors_sorted[i] = i;
	qsort_r(g->kv_sorted, g->n_kv, sizeof(uint32_t), kv_cmp, g->kv);
	qsort_r(g->tensors_sorted, g->n_tensors, sizeof(uint32_t), tensor_cmp, g->tensors);
	for (uint32_t i = 1; i < g->n_kv; i++) {
		struct gguf_str k = g->kv[g->kv_sorted[i]].key;

		if (!str_cmp(k, g->kv[g->kv_sorted[i - 1]].key)) {
			gguf_fail(r->err, r->errlen, "%s: key %s appears twice", g->name,
				  show(k).s);
			return -EINVAL;
		}
	}
	for (uint32_t i = 1; i < g->n_tensors; i++) {
		struct gguf_str n = g->tensors[g->tensors_sorted[i]].name;

		if (!str_cmp(n, g->tensors[g->tensors_sorted[i - 1]].name)) {
			gguf_fail(r->err, r->errlen, "%s: tensor %s appears twice", g->name,
				  show(n).s);
			return -EINVAL;
		}
	}
	return 0;
}

static int read_alignment(struct reader *r, struct gguf *g)
{
	uint32_t a = 32; /* GGUF_DEFAULT_ALIGNMENT */
	int ret;

	if (gguf_find(g, "general.alignment")) {
		ret = gguf_u32(g, "general.alignment", &a, r->err, r->errlen);
		if (ret < 0)
			return ret;
	}
	if (a < 8 || a > GGUF_MAX_ALIGN || (a & (a - 1))) {
		gguf_fail(r->err, r->errlen,
			  "%s: general.alignment is %u, want a power of two from 8 to %u", g->name,
			  a, GGUF_MAX_ALIGN);
		return -EINVAL;
	}
	g->alignment = a;
	return 0;
}

void gguf_free_tables(struct gguf *g)
{
	free(g->kv);
	free(g->tensors);
	free(g->kv_sorted);
	free(g->tensors_sorted);
}

int gguf_parse(const void *image, size_t size, const char *name, struct gguf **out, char *err,
	       size_t errlen)
{
	struct gguf *g = calloc(1, sizeof(*g));
	struct reader r = {.g = g, .err = err, .errlen = errlen};
	uint64_t n_tensors, n_kv, aligned;
	uint32_t *order = NULL;
	int ret;

	if (!g) {
		gguf_fail(err, errlen, "%s: out of memory", name);
		return -ENOMEM;
	}
	g->name = name;
	g->fd = -1;
	g->base = image;
	g->size = size;
	ret = read_header(&r, g, &n_tensors, &n_kv);
	if (ret < 0)
		goto out;
	/* One more than needed, so that empty tables are no special case. */
	g->kv = calloc(n_kv + 1, sizeof(*g->kv));
	g->kv_sorted = calloc(n_kv + 1, sizeof(*g->kv_sorted));
	g->tensors = calloc(n_tensors + 1, sizeof(*g->tensors));
	g->tensors_sorted = calloc(n_tensors + 1, sizeof(*g->tensors_sorted));
	order = calloc(n_tensors + 1, sizeof(*order));
	if (!order || !g->kv || !g->kv_sorted || !g->tensors || !g->tensors_sorted) {
		ret = -ENOMEM;
		gguf_fail(err, errlen, "%s: out of memory", name);
		goto out;
	}
	for (; g->n_kv < n_kv; g->n_kv++) {
		ret = read_kv(&r, &g->kv[g->n_kv], g->n_kv);
		if (ret < 0)
			goto out;
	}
	for (; g->n_tensors < n_tensors; g->n_tensors++) {
		ret = read_tensor(&r, &g->tensors[g->n_tensors], g->n_tensors);
		if (ret < 0)
			goto out;
	}
	ret = sort_names(&r, g);
	if (ret < 0)
		goto out;
	ret = read_alignment(&r, g);
	if (ret < 0)
		goto out;
	/* A file without tensors may end before the padding does. */
	aligned = ((uint64_t)r.pos + g->alignment - 1) & ~(uint64_t)(g->alignment - 1);
	g->data_offset = aligned < size ? aligned : size;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		ret = place_tensor(&r, g, &g->tensors[i]);
		if (ret < 0)
			goto out;
	}
	ret = check_overlap(&r, g, order);
	if (ret < 0)
		goto out;
	free(order);
	*out = g;
	return 0;
out:
	free(order);
	gguf_free_tables(g);
	free(g);
	return ret;
}

bool gguf_str_eq(struct gguf_str s, const char *lit)
{
	return s.n == strlen(lit) && !memcmp(s.p, lit, s.n);
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
	struct gguf_str k = {key, strlen(key)};
	uint32_t lo = 0, hi = g->n_kv;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int c = str_cmp(k, g->kv[g->kv_sorted[mid]].key);

		if (!c)
			return &g->kv[g->kv_sorted[mid]];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
	struct gguf_str k = {name, strlen(name)};
	uint32_t lo = 0, hi = g->n_tensors;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int c = str_cmp(k, g->tensors[g->tensors_sorted[mid]].name);

		if (!c)
			return &g->tensors[g->tensors_sorted[mid]];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static const struct gguf_kv *want(const struct gguf *g, const char *key, char *err, size_t errlen)
{
	const struct gguf_kv *kv = gguf_find(g, key);

	if (!kv)
		gguf_fail(err, errlen, "%s: key %s is missing", g->name, key);
	return kv;
}

static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *wanted, char *err,
		      size_t errlen)
{
	gguf_fail(err, errlen, "%s: %s is of type %s%s%s, want %s", g->name, show(kv->key).s,
		  gguf_type_name(kv->type), kv->type == GGUF_ARRAY ? " of " : "",
		  kv->type == GGUF_ARRAY ? gguf_type_name(kv->elem) : "", wanted);
	return -EINVAL;
}

static bool is_int(enum gguf_type t)
{
	return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

int64_t gguf_array_int(const struct gguf_kv *kv, uint64_t i)
{
	const uint8_t *p = kv->data + i * value_types[kv->elem].size;

	switch (kv->elem) {
	case GGUF_U8:
	case GGUF_BOOL:
		return *p;
	case GGUF_I8:
		return (int8_t)*p;
	case GGUF_U16:
		return (uint16_t)(p[0] | p[1] << 8);
	case GGUF_I16:
		return (int16_t)(uint16_t)(p[0] | p[1] << 8);
	case GGUF_U32:
		return load32(p);
	case GGUF_I32:
		return (int32_t)load32(p);
	case GGUF_U64:
	case GGUF_I64:
		return (int64_t)load64(p);
	default:
		return 0;
	}
}

double gguf_array_float(const struct gguf_kv *kv, uint64_t i)
{
	const uint8_t *p = kv->data + i * value_types[kv->elem].size;

	if (kv->elem == GGUF_F32) {
		uint32_t bits = load32(p);
		float f;

		memcpy(&f, &bits, 4);
		return (double)f;
	}
	if (kv->elem == GGUF_F64) {
		uint64_t bits = load64(p);
		double d;

		memcpy(&d, &bits, 8);
		return d;
	}
	return (double)gguf_array_int(kv, i);
}

struct gguf_str gguf_array_str(const struct gguf_kv *kv, size_t *cursor)
{
	/* Bounds were checked when the file was parsed. */
	struct gguf_str s = {(const char *)kv->data + *cursor + 8,
			     (size_t)load64(kv->data + *cursor)};

	*cursor += 8 + s.n;
	return s;
}

int gguf_u64(const struct gguf *g, const char *key, uint64_t *out, char *err, size_t errlen)
{
	const struct gguf_kv *kv = want(g, key, err, errlen);
	int64_t v;

	if (!kv)
		return -ENOENT;
	if (!is_int(kv->type))
		return wrong_type(g, kv, "an integer", err, errlen);
	v = gguf_array_int(kv, 0);
	if (v < 0 && kv->type != GGUF_U64) {
		gguf_fail(err, errlen, "%s: %s is %lld, want no negative number", g->name, key,
			  (long long)v);
		return -EINVAL;
	}
	*out = (uint64_t)v;
	return 0;
}

int gguf_u32(const struct gguf *g, const char *key, uint32_t *out, char *err, size_t errlen)
{
	uint64_t v;
	int ret = gguf_u64(g, key, &v, err, errlen);

	if (ret < 0)
		return ret;
	if (v > UINT32_MAX) {
		gguf_fail(err, errlen, "%s: %s is %llu, want at most %u", g->name, key,
			  (unsigned long long)v, UINT32_MAX);
		return -EINVAL;
	}
	*out = (uint32_t)v;
	return 0;
}

int gguf_f32(const struct gguf *g, const char *key, float *out, char *err, size_t errlen)
{
	const struct gguf_kv *kv = want(g, key, err, errlen);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_F32 && kv->type != GGUF_F64)
		return wrong_type(g, kv, "f32", err, errlen);
	*out = (float)gguf_array_float(kv, 0);
	return 0;
}

int gguf_bool(const struct gguf *g, const char *key, bool *out, char *err, size_t errlen)
{
	const struct gguf_kv *kv = want(g, key, err, errlen);

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_BOOL)
		return wrong_type(g, kv, "bool", err, errlen);
	*out = kv->data[0] != 0;
	return 0;
}

int gguf_string(const struct gguf *g, const char *key, struct gguf_str *out, char *err,
		size_t errlen)
{
	const struct gguf_kv *kv = want(g, key, err, errlen);
	size_t cursor = 0;

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_STRING)
		return wrong_type(g, kv, "string", err, errlen);
	*out = gguf_array_str(kv, &cursor);
	return 0;
}

int gguf_array(const struct gguf *g, const char *key, enum gguf_type elem,
	       const struct gguf_kv **out, char *err, size_t errlen)
{
	const struct gguf_kv *kv = want(g, key, err, errlen);
	char wanted[32];

	if (!kv)
		return -ENOENT;
	if (kv->type != GGUF_ARRAY || kv->elem != elem) {
		snprintf(wanted, sizeof(wanted), "array of %s", gguf_type_name(elem));
		return wrong_type(g, kv, wanted, err, errlen);
	}
	*out = kv;
	return 0;
}
