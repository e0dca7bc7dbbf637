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
