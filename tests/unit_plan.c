/* Queue sizes against known-good vectors; the queue structure's layout; scratch. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "queues/layout.h"
#include "queues/queues.h"
#include "tests/testdata.h"

static uint32_t version_of(const char *gfx)
{
	static const struct {
		const char *name;
		uint32_t version;
	} t[] = {
		{"gfx1151", 110501}, {"gfx1030", 100300}, {"gfx1033", 100303}, {"gfx1012", 100102}};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (!strcmp(t[i].name, gfx))
			return t[i].version;
	cr_assert_fail("vector for unknown %s", gfx);
	return 0;
}

static uint64_t number(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	cr_assert(json_is_integer(v), "vector without %s", key);
	return (uint64_t)json_integer_value(v);
}

Test(plan, vectors)
{
	const char *path = testdata("vectors/queue-save-area.json");
	json_error_t error;
	json_t *root, *v;
	size_t i, by_formula = 0, by_topology = 0;

	cr_assert_not_null(path);
	root = json_load_file(path, 0, &error);
	cr_assert_not_null(root, "%s", error.text);
	json_array_foreach(json_object_get(root, "vectors"), i, v)
	{
		const char *gfx = json_string_value(json_object_get(v, "gfx"));
		const char *rule = json_string_value(json_object_get(v, "rule"));
		bool early = strcmp(rule, "current") != 0;
		uint32_t cus = (uint32_t)number(v, "cus");
		struct queue_plan_in in = {.gfx_target_version = version_of(gfx),
					   .simd_count = cus * 2,
					   .simd_per_cu = 2,
					   .num_xcc = 1,
					   .ring_packets = 1024};
		struct queue_plan p;

		/* Kernels that counted fewer VGPRs say so in the topology. */
		if (early) {
			in.cwsr_size = number(v, "cwsr");
			in.ctl_stack_size = number(v, "ctl_stack");
			by_topology++;
		} else {
			by_formula++;
		}
		cr_assert_eq(queue_plan_compute(&in, &p), 0);
		cr_expect_eq(p.cus, cus);
		cr_expect_eq(p.ctl_stack_bytes, number(v, "ctl_stack"), "%s %s", gfx, rule);
		cr_expect_eq(p.cwsr_bytes, number(v, "cwsr"), "%s %s", gfx, rule);
		cr_expect_eq(p.debug_bytes, number(v, "debug"), "%s %s", gfx, rule);
		cr_expect_eq(p.area_bytes, number(v, "area"), "%s %s", gfx, rule);
		cr_expect_eq(p.from_topology, early);
		cr_expect_eq(p.formula_disagrees, early);
	}
	cr_expect_eq(by_formula, 5);
	cr_expect_eq(by_topology, 1);
	json_decref(root);
}

Test(plan, strix_halo)
{
	struct queue_plan_in in = {110501, 80, 2, 1, 19185664, 16384, 1024};
	struct queue_plan p;

	cr_assert_eq(queue_plan_compute(&in, &p), 0);
	cr_expect_eq(p.ring_bytes, 65536);
	cr_expect_eq(p.eop_bytes, 4096);
	cr_expect_eq(p.wg_data_bytes, 0x1248000);
	cr_expect_eq(p.area_bytes, 0x1256000);
	cr_expect_eq(p.waves, 1280);
	cr_expect(p.from_topology);
	cr_expect_not(p.formula_disagrees);
}

Test(plan, refusals)
{
	const struct queue_plan_in good = {110501, 80, 2, 1, 0, 0, 64};
	struct queue_plan_in in = good;
	struct queue_plan p = {.cus = 7};

	in.ring_packets = 100;
	cr_expect_eq(queue_plan_compute(&in, &p), -EINVAL);
	in.ring_packets = 32;
	cr_expect_eq(queue_plan_compute(&in, &p), -EINVAL);
	in = good;
	in.simd_per_cu = 0;
	cr_expect_eq(queue_plan_compute(&in, &p), -EINVAL);
	in = good;
	in.gfx_target_version = 90010;
	cr_expect_eq(queue_plan_compute(&in, &p), -ENOTSUP);
	in = good;
	in.cwsr_size = 4096, in.ctl_stack_size = 16384;
	cr_expect_eq(queue_plan_compute(&in, &p), -EINVAL);
	cr_expect_eq(p.cus, 7, "output touched on failure");
	cr_expect_eq(queue_plan_compute(&good, &p), 0);
}

Test(layout, queue_page)
{
	static struct queue_page p;
	const uint32_t *d = (const uint32_t *)&p;

	memset(&p, 0x5a, sizeof(p));
	queue_layout_fill(&p, &(struct queue_layout){.va = 0x200000001000,
						     .ring = 0x200000010000,
						     .packets = 1024,
						     .id = 3,
						     .lds_base = 0x1000000000000,
						     .scratch_base = 0x2000000000000,
						     .cus = 40,
						     .waves_per_simd = 16,
						     .simd_per_cu = 2,
						     .inactive_mailbox = 0x300000000018,
						     .inactive_event = 3});
	cr_expect_eq(d[0x00 / 4], 0);
	cr_expect_eq(d[0x04 / 4], 1);
	cr_expect_eq(p.queue.ring, 0x200000010000);
	cr_expect_eq(d[0x18 / 4], 1024);
	cr_expect_eq(d[0x28 / 4], 0);
	cr_expect_eq(d[0x40 / 4], 0x10000);
	cr_expect_eq(d[0x44 / 4], 0x20000);
	cr_expect_eq(d[0x48 / 4], 0x27);
	cr_expect_eq(d[0x4c / 4], 0x1f);
	cr_expect_eq(d[0x88 / 4], 0x80);
	cr_expect_eq(d[0x8c / 4], 0);
	cr_expect_eq(d[0x90 / 4], 0);
	cr_expect_eq(d[0x94 / 4], 0x40000000);
	cr_expect_eq(d[0x98 / 4], 0);
	cr_expect_eq(d[0x9c / 4], 0x20814fac);
	cr_expect_eq(d[0xb0 / 4], 0);
	cr_expect_eq(d[0xb4 / 4], 2);
	cr_expect_eq(p.queue.scratch_last_used_index, ~0ull);
	cr_expect_eq(p.queue.alt_scratch_last_used_index, ~0ull);
	cr_expect_eq(p.queue.doorbell_signal, 0x200000001100);
	cr_expect_eq(p.queue.queue_inactive_signal, 0x200000001140);
	cr_expect_eq(p.doorbell.kind, -1);
	cr_expect_eq(p.doorbell.queue, 0x200000001000);
	cr_expect_eq(p.inactive.event_mailbox, 0x300000000018);
	cr_expect_eq(p.error, 0);
}

/* Figures published for 40 CUs, 2 shader engines, 260 bytes per work-item. */
Test(layout, scratch)
{
	struct scratch_plan p;
	struct amd_queue q = {0};

	cr_assert_eq(scratch_plan_compute(260, 64, 40, 2, 32, 1, &p), 0);
	cr_expect_eq(p.lane_bytes, 260);
	cr_expect_eq(p.tmpring, 0x00041280);
	cr_expect_eq(p.bytes, 0x1450000);
	cr_expect_eq(p.wave64_lane_bytes, 0x104);
	cr_assert_eq(scratch_plan_compute(260, 32, 40, 2, 32, 1, &p), 0);
	cr_expect_eq(p.lane_bytes, 264);
	cr_expect_eq(p.tmpring, 0x00021280);
	cr_expect_eq(p.bytes, 0xa50000);
	cr_expect_eq(p.wave64_lane_bytes, 0x84);
	/* 512 bytes, all slots, waves of 64: 0x80280. */
	cr_assert_eq(scratch_plan_compute(512, 64, 40, 2, 32, 1, &p), 0);
	cr_expect_eq(p.tmpring, 0x00080280);
	cr_expect_eq(p.bytes, 0x2800000);
	cr_expect_eq(p.wave64_lane_bytes, 0x200);

	queue_layout_scratch(&q, &p, 0x212345670000);
	cr_expect_eq(q.scratch_resource_descriptor[0], 0x45670000);
	cr_expect_eq(q.scratch_resource_descriptor[1], 0x40002123);
	cr_expect_eq(q.scratch_resource_descriptor[2], 0x2800000);
	cr_expect_eq(q.scratch_backing_memory_location, 0x212345670000);
	cr_expect_eq(q.scratch_backing_memory_byte_size, 0x2800000);

	cr_expect_eq(scratch_plan_compute(0, 32, 40, 2, 32, 1, &p), -EINVAL);
	cr_expect_eq(scratch_plan_compute(262144, 32, 40, 2, 32, 1, &p), -EINVAL);
	cr_expect_eq(scratch_plan_compute(262108, 32, 40, 2, 32, 1, &p), 0);
	cr_expect_eq(scratch_plan_compute(64, 48, 40, 2, 32, 1, &p), -EINVAL);
	cr_expect_eq(scratch_plan_compute(64, 32, 2, 2, 32, 64, &p), -EINVAL);
}
