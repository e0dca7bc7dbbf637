/* Code object metadata: the msgpack map of note NT_AMDGPU_METADATA.
 * Source: AMDGPUUsage, "Code Object V3/V4/V5 Metadata". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

#include "codeobj/codeobj_internal.h"

/* Ours: real metadata nests four deep (map, kernels, kernel, args, arg). */
#define META_DEPTH 16

static const struct {
	const char *name;
	enum co_arg_kind kind;
} arg_kinds[] = {
	{"by_value", CO_ARG_BY_VALUE},
	{"global_buffer", CO_ARG_GLOBAL_BUFFER},
	{"dynamic_shared_pointer", CO_ARG_DYNAMIC_SHARED},
	{"hidden_block_count_x", CO_ARG_HIDDEN_BLOCK_COUNT_X},
	{"hidden_block_count_y", CO_ARG_HIDDEN_BLOCK_COUNT_Y},
	{"hidden_block_count_z", CO_ARG_HIDDEN_BLOCK_COUNT_Z},
	{"hidden_group_size_x", CO_ARG_HIDDEN_GROUP_SIZE_X},
	{"hidden_group_size_y", CO_ARG_HIDDEN_GROUP_SIZE_Y},
	{"hidden_group_size_z", CO_ARG_HIDDEN_GROUP_SIZE_Z},
	{"hidden_remainder_x", CO_ARG_HIDDEN_REMAINDER_X},
	{"hidden_remainder_y", CO_ARG_HIDDEN_REMAINDER_Y},
	{"hidden_remainder_z", CO_ARG_HIDDEN_REMAINDER_Z},
	{"hidden_global_offset_x", CO_ARG_HIDDEN_GLOBAL_OFFSET_X},
	{"hidden_global_offset_y", CO_ARG_HIDDEN_GLOBAL_OFFSET_Y},
	{"hidden_global_offset_z", CO_ARG_HIDDEN_GLOBAL_OFFSET_Z},
	{"hidden_grid_dims", CO_ARG_HIDDEN_GRID_DIMS},
	{"hidden_dynamic_lds_size", CO_ARG_HIDDEN_DYNAMIC_LDS_SIZE},
	{"hidden_private_base", CO_ARG_HIDDEN_PRIVATE_BASE},
	{"hidden_shared_base", CO_ARG_HIDDEN_SHARED_BASE},
	{"hidden_queue_ptr", CO_ARG_HIDDEN_QUEUE_PTR},
};

static uint64_t be(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *p++;
	return v;
}

/* Walks one msgpack object and returns its length, 0 if it does not fit in n bytes or nests too
 * deep. The library allocates what an array header claims before it reads the elements; after
 * this walk a claim cannot exceed the bytes that are there. Format: msgpack specification. */
static size_t vet(const uint8_t *p, size_t n, unsigned depth)
{
	static const uint8_t scalar[] = {/* cc..d3: u8 u16 u32 u64 i8 i16 i32 i64 */
					 1, 2, 4, 8, 1, 2, 4, 8};
	uint64_t items = 0, body = 0;
	size_t at = 1;
	uint8_t t;

	if (!n || depth > META_DEPTH)
		return 0;
	t = p[0];
	if (t <= 0x7f || t >= 0xe0 || t == 0xc0 || t == 0xc2 || t == 0xc3) {
		return 1;
	} else if (t <= 0x8f) {
		items = 2 * (uint64_t)(t & 15);
	} else if (t <= 0x9f) {
		items = t & 15;
	} else if (t <= 0xbf) {
		body = t & 31;
	} else if (t >= 0xcc && t <= 0xd3) {
		body = scalar[t - 0xcc];
	} else if (t == 0xca || t == 0xcb) {
		body = t == 0xca ? 4 : 8;
	} else if ((t >= 0xc4 && t <= 0xc6) || (t >= 0xd9 && t <= 0xdb)) { /* bin, str */
		unsigned w = 1u << (t >= 0xd9 ? t - 0xd9 : t - 0xc4);

		if (n < 1 + w)
			return 0;
		body = be(p + 1, w);
		at += w;
	} else if (t >= 0xdc && t <= 0xdf) { /* array16/32, map16/32 */
		unsigned w = t & 1 ? 4 : 2;

		if (n < 1 + w)
			return 0;
		items = be(p + 1, w) * (t >= 0xde ? 2 : 1);
		at += w;
	} else {
		return 0; /* ext types and 0xc1 have no place in this metadata */
	}
	if (body > n - at || items > n - at)
		return 0;
	at += body;
	while (items--) {
		size_t len = vet(p + at, n - at, depth + 1);

		if (!len)
			return 0;
		at += len;
	}
	return at;
}

static const msgpack_object *map_get(const msgpack_object *map, const char *key)
{
	size_t n = strlen(key);

	for (uint32_t i = 0; i < map->via.map.size; i++) {
		const msgpack_object *k = &map->via.map.ptr[i].key;

		if (k->type == MSGPACK_OBJECT_STR && k->via.str.size == n &&
		    !memcmp(k->via.str.ptr, key, n))
			return &map->via.map.ptr[i].val;
	}
	return NULL;
}

static int want_type(const msgpack_object *o, msgpack_object_type type, const char *key,
		     const char *what, const struct co_err *e)
{
	if (!o)
		return co_refuse(e, -EILSEQ, "metadata %s missing, wanted %s", key, what);
	if (o->type != type)
		return co_refuse(e, -EILSEQ, "metadata %s has msgpack type %d, wanted %s", key,
				 (int)o->type, what);
	return 0;
}

/* optional: absent leaves *out alone. */
static int get_u32(const msgpack_object *map, const char *key, bool optional, uint32_t *out,
		   const struct co_err *e)
{
	const msgpack_object *o = map_get(map, key);
	int rc;

	if (!o && optional)
		return 0;
	rc = want_type(o, MSGPACK_OBJECT_POSITIVE_INTEGER, key, "an unsigned integer", e);
	if (rc)
		return rc;
	if (o->via.u64 > UINT32_MAX)
		return co_refuse(e, -EILSEQ, "metadata %s %llu, wanted at most 4294967295", key,
				 (unsigned long long)o->via.u64);
	*out = (uint32_t)o->via.u64;
	return 0;
}

/* A missing flag is false. */
static bool get_flag(const msgpack_object *map, const char *key)
{
	const msgpack_object *o = map_get(map, key);

	if (!o)
		return false;
	if (o->type == MSGPACK_OBJECT_BOOLEAN)
		return o->via.boolean;
	return o->type == MSGPACK_OBJECT_POSITIVE_INTEGER && o->via.u64;
}

/* For display: truncated to the field, "" when absent, control bytes as "?". */
static void get_text(const msgpack_object *map, const char *key, char *out, size_t n)
{
	const msgpack_object *o = map_get(map, key);
	size_t len;

	out[0] = '\0';
	if (!o || o->type != MSGPACK_OBJECT_STR)
		return;
	len = o->via.str.size < n - 1 ? o->via.str.size : n - 1;
	for (size_t i = 0; i < len; i++)
		out[i] = co_is_control(o->via.str.ptr[i]) ? '?' : o->via.str.ptr[i];
	out[len] = '\0';
}

static int get_string(const msgpack_object *map, const char *key, char **out,
		      const struct co_err *e)
{
	const msgpack_object *o = map_get(map, key);
	int rc = want_type(o, MSGPACK_OBJECT_STR, key, "a string", e);

	if (rc)
		return rc;
	if (!o->via.str.size)
		return co_refuse(e, -EILSEQ, "metadata %s is empty", key);
	for (uint32_t i = 0; i < o->via.str.size; i++)
		if (co_is_control(o->via.str.ptr[i]))
			return co_refuse(e, -EILSEQ, "metadata %s holds byte 0x%02x, wanted text",
					 key, (unsigned char)o->via.str.ptr[i]);
	*out = strndup(o->via.str.ptr, o->via.str.size);
	return *out ? 0 : co_refuse(e, -ENOMEM, "out of memory");
}

static int parse_arg(const msgpack_object *o, const struct co_kernel *k, struct co_arg *a,
		     const struct co_err *e)
{
	int rc = want_type(o, MSGPACK_OBJECT_MAP, ".args[]", "a map", e);

	if (!rc)
		rc = get_u32(o, ".offset", false, &a->offset, e);
	if (!rc)
		rc = get_u32(o, ".size", false, &a->size, e);
	if (rc)
		return rc;
	if ((uint64_t)a->offset + a->size > k->kernarg_bytes)
		return co_refuse(e, -EILSEQ,
				 "kernel %s: argument at offset %u size %u, wanted within the %u "
				 "bytes of .kernarg_segment_size",
				 k->name, a->offset, a->size, k->kernarg_bytes);
	get_text(o, ".name", a->name, sizeof(a->name));
	get_text(o, ".type_name", a->type_name, sizeof(a->type_name));
	get_text(o, ".value_kind", a->value_kind, sizeof(a->value_kind));
	if (!a->value_kind[0])
		return co_refuse(e, -EILSEQ, "kernel %s: argument at offset %u has no .value_kind",
				 k->name, a->offset);
	a->kind = strncmp(a->value_kind, "hidden_", 7) ? CO_ARG_BY_VALUE : CO_ARG_HIDDEN_OTHER;
	for (size_t i = 0; i < sizeof(arg_kinds) / sizeof(arg_kinds[0]); i++)
		if (!strcmp(a->value_kind, arg_kinds[i].name))
			a->kind = arg_kinds[i].kind;
	return 0;
}

static int parse_args(const msgpack_object *map, struct co_kernel *k, const struct co_err *e)
{
	const msgpack_object *args = map_get(map, ".args");
	int rc;

	if (!args) /* a kernel without arguments */
		return 0;
	rc = want_type(args, MSGPACK_OBJECT_ARRAY, ".args", "an array", e);
	if (rc || !args->via.array.size)
		return rc;
	k->args = calloc(args->via.array.size, sizeof(*k->args));
	if (!k->args)
		return co_refuse(e, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < args->via.array.size; i++) {
		rc = parse_arg(&args->via.array.ptr[i], k, &k->args[i], e);
		if (rc)
			return rc;
		k->n_args = i + 1;
	}
	return 0;
}

static int parse_kernel(const msgpack_object *o, struct co_meta_kernel *mk, const struct co_err *e)
{
	struct co_kernel *k = &mk->k;
	uint32_t wave = 0;
	int rc = want_type(o, MSGPACK_OBJECT_MAP, "amdhsa.kernels[]", "a map", e);

	if (!rc)
		rc = get_string(o, ".name", &k->name, e);
	if (!rc)
		rc = get_string(o, ".symbol", &mk->symbol, e);
	const struct {
		const char *key;
		bool optional;
		uint32_t *to;
	} words[] = {
		{".kernarg_segment_size", false, &k->kernarg_bytes},
		{".kernarg_segment_align", false, &k->kernarg_align},
		{".group_segment_fixed_size", false, &k->group_bytes},
		{".private_segment_fixed_size", false, &k->private_bytes},
		{".wavefront_size", false, &wave},
		{".sgpr_count", false, &k->sgprs},
		{".vgpr_count", false, &k->vgprs},
		{".sgpr_spill_count", true, &k->sgpr_spills},
		{".vgpr_spill_count", true, &k->vgpr_spills},
		{".max_flat_workgroup_size", false, &k->max_group},
	};
	for (size_t i = 0; !rc && i < sizeof(words) / sizeof(words[0]); i++)
		rc = get_u32(o, words[i].key, words[i].optional, words[i].to, e);
	if (rc)
		return rc;
	if (wave != 32 && wave != 64)
		return co_refuse(e, -EILSEQ, "kernel %s: .wavefront_size %u, wanted 32 or 64",
				 k->name, wave);
	if (!k->kernarg_align || k->kernarg_align & (k->kernarg_align - 1) ||
	    k->kernarg_align > 4096)
		return co_refuse(e, -EILSEQ,
				 "kernel %s: .kernarg_segment_align %u, wanted a power of two up "
				 "to 4096",
				 k->name, k->kernarg_align);
	k->wave64 = wave == 64;
	k->dynamic_stack = get_flag(o, ".uses_dynamic_stack");
	k->uniform_work_group = get_flag(o, ".uniform_work_group_size");
	return parse_args(o, k, e);
}

static int parse_root(const msgpack_object *root, struct co_meta *m, const struct co_err *e)
{
	const msgpack_object *v, *ks;
	int rc = want_type(root, MSGPACK_OBJECT_MAP, "root", "a map", e);

	if (rc)
		return rc;
	v = map_get(root, "amdhsa.version");
	rc = want_type(v, MSGPACK_OBJECT_ARRAY, "amdhsa.version", "an array of two integers", e);
	if (rc)
		return rc;
	if (v->via.array.size != 2 || v->via.array.ptr[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
	    v->via.array.ptr[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
		return co_refuse(e, -EILSEQ, "metadata amdhsa.version is not two integers");
	m->version[0] = (uint32_t)v->via.array.ptr[0].via.u64;
	m->version[1] = (uint32_t)v->via.array.ptr[1].via.u64;
	if (m->version[0] != 1)
		return co_refuse(e, -ENOTSUP, "metadata amdhsa.version %u.%u, wanted 1.x",
				 m->version[0], m->version[1]);
	get_text(root, "amdhsa.target", m->target, sizeof(m->target));

	ks = map_get(root, "amdhsa.kernels");
	rc = want_type(ks, MSGPACK_OBJECT_ARRAY, "amdhsa.kernels", "an array", e);
	if (rc || !ks->via.array.size)
		return rc;
	m->kernels = calloc(ks->via.array.size, sizeof(*m->kernels));
	if (!m->kernels)
		return co_refuse(e, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < ks->via.array.size; i++) {
		m->n_kernels = i + 1; /* a half-read kernel is freed too */
		rc = parse_kernel(&ks->via.array.ptr[i], &m->kernels[i], e);
		if (rc)
			return rc;
	}
	return 0;
}

int co_meta_parse(const void *desc, size_t n, struct co_meta *m, const struct co_err *e)
{
	msgpack_unpacked u;
	size_t at = 0, len = vet(desc, n, 0);
	msgpack_unpack_return got;
	int rc;

	if (!len)
		return co_refuse(e, -EILSEQ,
				 "metadata note of %zu bytes is not one complete msgpack object",
				 n);
	msgpack_unpacked_init(&u);
	got = msgpack_unpack_next(&u, desc, len, &at);
	if (got == MSGPACK_UNPACK_NOMEM_ERROR)
		rc = co_refuse(e, -ENOMEM, "out of memory");
	else if (got != MSGPACK_UNPACK_SUCCESS)
		rc = co_refuse(e, -EILSEQ, "metadata note: msgpack error %d at byte %zu", (int)got,
			       at);
	else
		rc = parse_root(&u.data, m, e);
	msgpack_unpacked_destroy(&u);
	return rc;
}

void co_meta_free(struct co_meta *m)
{
	for (uint32_t i = 0; i < m->n_kernels; i++) {
		free(m->kernels[i].k.name);
		free(m->kernels[i].k.args);
		free(m->kernels[i].symbol);
	}
	free(m->kernels);
	m->kernels = NULL;
	m->n_kernels = 0;
}
