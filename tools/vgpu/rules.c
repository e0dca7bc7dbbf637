/* The named rules and their switches. */
#include "device.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name, *text;
} rules[] = {
#define RULE(name, def, text) {#name, text},
#include "rules.def"
#undef RULE
};

bool vgpu_rule_on[RULE_COUNT] = {
#define RULE(name, def, text) [RULE_##name] = def,
#include "rules.def"
#undef RULE
};

int vgpu_rule_set(const char *name, bool on)
{
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (!strcmp(rules[i].name, name)) {
			vgpu_rule_on[i] = on;
			return 0;
		}
	}
	return -ENOENT;
}

const char *vgpu_rule_name(enum vgpu_rule r)
{
	return rules[r].name;
}

const char *vgpu_rule_text(enum vgpu_rule r)
{
	return rules[r].text;
}
