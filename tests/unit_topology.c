/* The topology reader on whole, partial and broken trees. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "kfd/topology.h"
#include "tests/testdata.h"

static struct topology t; /* large */
static char why[400];

static int parse(const char *text, struct topology_node *n)
{
	why[0] = 0;
	return topology_parse_properties(text, strlen(text), n, why, sizeof(why));
}

Test(topology, whole_tree)
{
	const struct topology_node *n = &t.nodes[1];

	cr_assert_eq(topology_read(testdata("topology/strix-halo"), &t, why, sizeof(why)), 0, "%s",
		     why);
	cr_expect_eq(t.generation, 2);
	cr_assert_eq(t.count, 2);
	cr_expect_eq(t.nodes[0].gpu_id, 0);
	cr_expect_str_eq(t.nodes[0].name, "");
	cr_expect_eq(t.nodes[0].cpu_cores_count, 32);
	cr_expect_eq(n->gpu_id, 3750);
	cr_expect_str_eq(n->name, "ip discovery");
	cr_expect_eq(n->gfx_target_version, 110501);
	cr_expect_eq(n->cwsr_size, 19185664);
	cr_expect_eq(n->ctl_stack_size, 16384);
	cr_expect_eq(n->drm_render_minor, 128);
	cr_expect_eq(n->capability, 671326848);
	cr_expect_eq(n->max_engine_clk_ccompute, 5187);
	cr_expect(n->mem_known);
	cr_expect_eq(n->mem_bytes, 120259084288);
	cr_expect_eq(topology_cus(n), 40);
	cr_expect_eq(topology_shader_engines(n), 2);
	cr_expect(topology_known(n, TOPOLOGY_unique_id));
	/* Linux 6.12 does not print it: unknown, not 0. */
	cr_expect_not(topology_known(n, TOPOLOGY_capability2));
	cr_expect_eq(topology_check_gpu(n, why, sizeof(why)), 0);
}

Test(topology, cut_file)
{
	cr_expect_eq(topology_read(testdata("topology/cut"), &t, why, sizeof(why)), -EINVAL);
	cr_expect(strstr(why, "nodes/1") && strstr(why, "\"cwsr_size 19185\""), "%s", why);
}

Test(topology, missing_property)
{
	cr_assert_eq(topology_read(testdata("topology/no-simd-per-cu"), &t, why, sizeof(why)), 0);
	cr_expect_eq(topology_check_gpu(&t.nodes[1], why, sizeof(why)), -ENODATA);
	cr_expect(strstr(why, "simd_per_cu is missing"), "%s", why);
	cr_expect_eq(topology_cus(&t.nodes[1]), 0);
	cr_expect_not(t.nodes[1].mem_known);
}

Test(topology, bad_gpu_id)
{
	t.count = 77;
	cr_expect_eq(topology_read(testdata("topology/bad-gpu-id"), &t, why, sizeof(why)), -EINVAL);
	cr_expect(strstr(why, "gpu_id") && strstr(why, "0x3a6"), "%s", why);
	cr_expect_eq(t.count, 77, "output touched on failure");
}

Test(topology, no_tree)
{
	cr_expect_eq(topology_read("/nonexistent", &t, why, sizeof(why)), -ENOENT);
	cr_expect(strstr(why, "/nonexistent/generation_id"), "%s", why);
}

Test(topology, lines)
{
	struct topology_node n = {.index = 3};

	cr_expect_eq(parse("simd_count 80\nno_such_property 5\n\nnum_xcc 1\n", &n), 0);
	cr_expect_eq(n.simd_count, 80);
	cr_expect_eq(n.num_xcc, 1);
	cr_expect_eq(n.index, 3);
	cr_expect_eq(n.known, 1ull << TOPOLOGY_simd_count | 1ull << TOPOLOGY_num_xcc);
	cr_expect_eq(parse("", &n), 0);
	cr_expect_eq(n.known, 0);
	cr_expect_eq(parse("unique_id 18446744073709551615\n", &n), 0);
	cr_expect_eq(n.unique_id, UINT64_MAX);
}

Test(topology, broken_lines)
{
	static const char *const bad[] = {
		"simd_count\n",
		"simd_count \n",
		" 80\n",
		"simd_count 80x\n",
		"simd_count -1\n",
		"simd_count 8 0\n",
		"simd_count 0x50\n",
		"simd_count 80\r\n",
		"simd_count 18446744073709551616\n",
		"num_xcc 1\nsimd_count 80",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct topology_node n = {.simd_count = 9, .known = 5};

		cr_expect_eq(parse(bad[i], &n), -EINVAL, "taken: %s", bad[i]);
		cr_expect(strstr(why, "line "), "%s", why);
		cr_expect(n.simd_count == 9 && n.known == 5, "output touched on failure");
	}
}

Test(topology, numbers)
{
	uint64_t v = 7;

	cr_expect_eq(topology_parse_number("3750\n", 5, &v), 0);
	cr_expect_eq(v, 3750);
	cr_expect_eq(topology_parse_number("3750", 4, &v), -EINVAL);
	cr_expect_eq(topology_parse_number("\n", 1, &v), -EINVAL);
	cr_expect_eq(topology_parse_number("", 0, &v), -EINVAL);
	cr_expect_eq(topology_parse_number("37 50\n", 6, &v), -EINVAL);
	cr_expect_eq(v, 3750);
}
