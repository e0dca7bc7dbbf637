#include "engine/plan.h"
#include "tools/placement.h"

int placement_option(const struct command *c, int o, const char *value, struct bo_rules *r)
{
	static const struct option options[] = {PLACEMENT_OPTIONS};
	char why[256];

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].val == o &&
		    bo_rules_add(r, options[i].name, value, why, sizeof(why)))
			return tool_usage(c, "%s", why);
	return TOOL_OK;
}

void placement_say_idle(const struct bo_rules *r, const struct bo_rules_seen *seen,
			const char *names)
{
	char why[256];
	int i = -1;

	while ((i = bo_rules_idle(r, seen, (unsigned)(i + 1), why, sizeof(why))) >= 0)
		tool_say("%s; %s", why, names);
}

int placement_warn(const struct plan *p)
{
	struct bo_rules_seen seen;

	if (plan_rules_seen(p, &seen))
		return tool_fail("out of memory");
	placement_say_idle(p->rules, &seen, "'barewave plan --map' has the names");
	return TOOL_OK;
}
