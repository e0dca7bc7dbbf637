/* Topology text. Pure. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kfd/topology.h"

static const struct {
	const char *name;
	size_t offset;
} properties[] = {
#define X(name) {#name, offsetof(struct topology_node, name)},
#include "kfd/topology.def"
#undef X
};
_Static_assert(TOPOLOGY_PROPERTY_COUNT <= 64, "one bit each in topology_node.known");

/* Decimal, to the end of [p, end). */
static int parse_decimal(const char *p, const char *end, uint64_t *out)
{
	uint64_t v = 0;

	if (p == end)
		return -EINVAL;
	for (; p < end; p++) {
		uint64_t d = (uint64_t)(*p - '0');

		if (*p < '0' || *p > '9')
			return -EINVAL;
		if (v > (UINT64_MAX - d) / 10)
			return -ERANGE;
		v = v * 10 + d;
	}
	*out = v;
	return 0;
}

int topology_parse_properties(const char *text, size_t len, struct topology_node *n, char *why,
			      size_t why_len)
{
	struct topology_node node = *n;
	const char *p = text, *end = text + len;
	unsigned line = 0;

	node.known = 0;
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		const char *stop = eol ? eol : end;
		const char *space = memchr(p, ' ', (size_t)(stop - p));
		uint64_t value;
		size_t name_len;

		line++;
		if (stop == p) { /* an empty line says nothing */
			p = stop + 1;
			continue;
		}
		/* A number may have been cut off with the newline; "19185" of 19185664 would be
		 * taken for a size. */
		if (!eol) {
			snprintf(why, why_len, "properties line %u ends without newline: \"%.*s\"",
				 line, (int)(stop - p > 60 ? 60 : stop - p), p);
			return -EINVAL;
		}
		if (!space || space == p || parse_decimal(space + 1, stop, &value) < 0) {
			snprintf(why, why_len,
				 "properties line %u is \"%.*s\"; wanted: a name, a space, a "
				 "decimal number",
				 line, (int)(stop - p > 60 ? 60 : stop - p), p);
			return -EINVAL;
		}
		name_len = (size_t)(space - p);
		for (unsigned i = 0; i < TOPOLOGY_PROPERTY_COUNT; i++) {
			if (strlen(properties[i].name) == name_len &&
			    !memcmp(properties[i].name, p, name_len)) {
				memcpy((char *)&node + properties[i].offset, &value, sizeof(value));
				node.known |= 1ull << i;
				break;
			}
		}
		p = stop + 1;
	}
	*n = node;
	return 0;
}

int topology_parse_number(const char *text, size_t len, uint64_t *out)
{
	if (!len || text[len - 1] != '\n')
		return -EINVAL;
	return parse_decimal(text, text + len - 1, out) < 0 ? -EINVAL : 0;
}

int topology_check_gpu(const struct topology_node *n, char *why, size_t why_len)
{
	static const enum topology_property wanted[] = {
		TOPOLOGY_simd_count,         TOPOLOGY_simd_per_cu,
		TOPOLOGY_array_count,        TOPOLOGY_simd_arrays_per_engine,
		TOPOLOGY_max_waves_per_simd, TOPOLOGY_gfx_target_version,
		TOPOLOGY_drm_render_minor,   TOPOLOGY_max_slots_scratch_cu,
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		uint64_t v;

		memcpy(&v, (const char *)n + properties[wanted[i]].offset, sizeof(v));
		if (!topology_known(n, wanted[i]) || v == 0) {
			snprintf(why, why_len, "topology node %u (gpu_id %u): %s is %s", n->index,
				 n->gpu_id, properties[wanted[i]].name,
				 topology_known(n, wanted[i]) ? "0" : "missing");
			return -ENODATA;
		}
	}
	return 0;
}

uint32_t topology_cus(const struct topology_node *n)
{
	uint64_t xcc = topology_known(n, TOPOLOGY_num_xcc) && n->num_xcc ? n->num_xcc : 1;

	return n->simd_per_cu ? (uint32_t)(n->simd_count / n->simd_per_cu / xcc) : 0;
}

uint32_t topology_shader_engines(const struct topology_node *n)
{
	return n->simd_arrays_per_engine ? (uint32_t)(n->array_count / n->simd_arrays_per_engine)
					 : 0;
}
