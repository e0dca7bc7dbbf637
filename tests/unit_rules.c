/* Placement rules: what is read from a command line and what it does to a buffer. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "memory/rules.h"

static struct bo_rules r;
static char why[256];

static void add(const char *option, const char *value)
{
	cr_assert_eq(bo_rules_add(&r, option, value, why, sizeof(why)), 0, "%s", why);
}

static void refused(const char *option, const char *value)
{
	struct bo_rules before = r;

	why[0] = '\0';
	cr_assert_eq(bo_rules_add(&r, option, value, why, sizeof(why)), -EINVAL, "%s %s", option,
		     value);
	cr_assert(strstr(why, value) && strstr(why, "wanted"), "%s", why);
	cr_assert_eq(memcmp(&before, &r, sizeof(r)), 0, "changed by a refusal");
}

static struct bo_desc apply(const char *owner)
{
	struct bo_desc d = {.owner = owner, .size = 100, .placement = BO_GTT};

	bo_rules_apply(&r, &d);
	return d;
}

Test(rules, by_owner_and_pattern_the_last_wins)
{
	struct bo_desc d;

	add("align", "64K");
	add("align", "transient:*=2M");
	add("align", "transient:logits=4096");
	cr_expect_eq(apply("kv").align, 64u << 10);
	cr_expect_eq(apply("transient:act").align, 2u << 20);
	cr_expect_eq(apply("transient:logits").align, 4096);
	add("guard", "end");
	add("guard", "kv=none");
	cr_expect_eq(apply("ring").guard, BO_GUARD_END);
	cr_expect_eq(apply("ring").grain, 256);
	cr_expect_eq(apply("kv").guard, BO_GUARD_NONE);
	add("place", "kv=vram,fine,ro,exec,random");
	d = apply("kv");
	cr_expect(d.placement == BO_VRAM && d.coherence == BO_FINE && d.readonly && d.executable &&
		  d.random);
	add("place", "kv:gtt,uncached,rw,noexec,lowest,at:0x210000000000");
	d = apply("kv");
	cr_expect(d.placement == BO_GTT && d.coherence == BO_UNCACHED && !d.readonly &&
		  !d.executable && !d.random && d.va == 0x210000000000);
	cr_expect_eq(apply("ring").va, 0);
}

Test(rules, what_the_code_needs_is_not_lowered)
{
	struct bo_desc d = {.owner = "scratch", .size = 1, .align = 65536},
		       code = {.owner = "code", .size = 1, .grain = 4096};

	add("align", "4096");
	bo_rules_apply(&r, &d);
	cr_expect_eq(d.align, 65536);
	add("align", "256");
	add("guard", "end");
	bo_rules_apply(&r, &code);
	cr_expect_eq(code.grain, 4096, "code keeps its place in the page");
	code = (struct bo_desc){.owner = "trap handler", .size = 1, .grain = 256};
	add("align", "4");
	bo_rules_apply(&r, &code);
	cr_expect_eq(code.grain, 256, "what the hardware takes in units of 256");
	cr_expect_eq(apply("arg0").grain, 4);
	add("align", "1K");
	cr_expect_eq(apply("arg0").grain, 1024);
}

/* A rule that changes nothing is told apart from one that does. */
Test(rules, idle)
{
	struct bo_rules_seen seen = {0};

	add("align", "transient:partial_max=256");
	add("guard", "end");
	add("place", "kv:blk.0.cache_k=fine");
	add("redzone", "ring=64");
	add("redzone", "kv:*=64");
	bo_rules_see(&r, "ring", BO_TAKES_BUFFER, &seen);
	bo_rules_see(&r, "kv:blk.0.cache_k", BO_TAKES_PART, &seen);
	cr_expect_eq(bo_rules_idle(&r, &seen, 0, why, sizeof(why)), 0);
	cr_expect_str_eq(why, "--align 'transient:partial_max' changes nothing: no buffer has that "
			      "name, and nothing inside one");
	cr_expect_eq(bo_rules_idle(&r, &seen, 1, why, sizeof(why)), 2);
	cr_expect(strstr(why, "--place 'kv:blk.0.cache_k'") && strstr(why, "lies inside a buffer"),
		  "%s", why);
	cr_expect_eq(bo_rules_idle(&r, &seen, 3, why, sizeof(why)), 3);
	cr_expect(strstr(why, "--redzone 'ring'") && strstr(why, "nothing inside it"), "%s", why);
	cr_expect_eq(bo_rules_idle(&r, &seen, 4, why, sizeof(why)), -1);
	bo_rules_see(&r, "transient:partial_max", BO_TAKES_PART, &seen);
	cr_expect_eq(bo_rules_idle(&r, &seen, 0, why, sizeof(why)), 2);
}

Test(rules, inside_a_buffer)
{
	cr_expect_eq(bo_rules_align(NULL, "kv", 256), 256);
	cr_expect_not(bo_rules_zoned(&r));
	add("align", "transient:partial_max=256");
	add("redzone", "transient:*=64");
	cr_expect_eq(bo_rules_align(&r, "transient:partial_max", 4096), 256);
	cr_expect_eq(bo_rules_align(&r, "transient:partial_sum", 4096), 4096);
	add("align", "1G");
	cr_expect_eq(bo_rules_align_inside(&r, "transient:x", 256), 256, "1G is about buffers");
	cr_expect_eq(bo_rules_align_inside(&r, "transient:partial_max", 4096), 256);
	add("align", "transient:*=1M");
	cr_expect_eq(bo_rules_align_inside(&r, "transient:partial_max", 4096), 1u << 20);
	add("align", "64");
	cr_expect_eq(bo_rules_align_inside(&r, "transient:x", 256), 64, "64 about all");
	cr_expect_eq(bo_rules_redzone(&r, "transient:x"), 64);
	cr_expect_eq(bo_rules_redzone(&r, "kv"), 0);
	cr_expect(bo_rules_zoned(&r));
}

Test(rules, the_rest)
{
	add("quarantine", "64M");
	cr_expect_eq(r.quarantine_bytes, 64u << 20);
	add("quarantine", "10s");
	cr_expect_eq(r.quarantine_ns, 10000000000);
	add("quarantine", "all");
	cr_expect_eq(r.quarantine_bytes, UINT64_MAX);
	add("poison", "0xcb");
	cr_expect(r.poison_alloc && r.poison_free && r.alloc_byte == 0xcb && r.free_byte == 0x34);
	add("poison", "free=7");
	cr_expect_eq(r.free_byte, 7);
	cr_expect_eq(r.alloc_byte, 0xcb);
	add("va-seed", "9");
	cr_expect(apply("anything").random);
	cr_expect_eq(r.seed, 9);
	cr_expect(bo_rules_knows("place") && !bo_rules_knows("seed"));
	cr_expect_eq(bo_rules_add(&r, "seed", "1", why, sizeof(why)), -EINVAL);
}

Test(rules, refusals)
{
	static const char *const bad[][2] = {
		{"align", "kv=3"},       {"align", "kv=2"},      {"align", "2G"},
		{"align", "kv="},        {"align", "=64"},       {"align", "64Q"},
		{"guard", "middle"},     {"guard", "kv=up"},     {"redzone", "7"},
		{"redzone", "2M"},       {"place", "kv"},        {"place", "kv=gtt,fast"},
		{"place", "kv=at:0x10"}, {"quarantine", "soon"}, {"quarantine", "0s"},
		{"poison", "256"},       {"poison", "later=1"},  {"va-seed", "x"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!strcmp(bad[i][1], "=64"))
			cr_expect_eq(bo_rules_add(&r, "align", "=64", why, sizeof(why)), -EINVAL);
		else
			refused(bad[i][0], bad[i][1]);
	for (unsigned i = 0; i < BO_RULES_MAX; i++)
		add("align", "kv=4096");
	cr_expect_eq(bo_rules_add(&r, "align", "kv=4096", why, sizeof(why)), -ENOSPC);
}
