/* Placement options, the same for every command that makes buffers (memory/rules.h). */
#ifndef TOOLS_PLACEMENT_H
#define TOOLS_PLACEMENT_H

#include <getopt.h>

#include "memory/rules.h"
#include "tools/tool.h"

#define PLACEMENT_HELP                                                                             \
	"placement, by owner (a pattern; without one, of every buffer; the last that fits "        \
	"wins):\n"                                                                                 \
	"  --align [OWNER=]N    alignment of the VA, 4K to 1G; below 4K: of tensors inside a\n"    \
	"                       buffer, and of an end-flush buffer's first byte. A tensor NAME\n"  \
	"                       goes by weights:NAME, kv:NAME or transient:NAME\n"                 \
	"  --guard [OWNER=]SIDE none, start, end or both: unmapped address space beside it; "      \
	"with\n"                                                                                   \
	"                       end, the last byte lies right before it\n"                         \
	"  --redzone [OWNER=]N  bytes with a canary around tensors, checked after each step\n"     \
	"  --place OWNER=WORDS  gtt vram userptr coarse fine uncached ro rw exec noexec\n"         \
	"                       random lowest at:VA, comma separated\n"                            \
	"  --va-seed N          random addresses for everything, by this seed\n"                   \
	"  --quarantine LIMIT   freed addresses stay unused: BYTES freed after them, SECONDSs, "   \
	"all\n"                                                                                    \
	"  --poison [WHEN=]B    fill with byte B at alloc, at free (WHEN), or both\n"

enum {
	PLACEMENT_FIRST = 1000,
	PLACEMENT_ALIGN = PLACEMENT_FIRST,
	PLACEMENT_GUARD,
	PLACEMENT_REDZONE,
	PLACEMENT_PLACE,
	PLACEMENT_VA_SEED,
	PLACEMENT_QUARANTINE,
	PLACEMENT_POISON,
	PLACEMENT_LAST = PLACEMENT_POISON,
};

/* Rows for getopt_long(). */
#define PLACEMENT_OPTIONS                                                                          \
	{"align", required_argument, NULL, PLACEMENT_ALIGN},                                       \
		{"guard", required_argument, NULL, PLACEMENT_GUARD},                               \
		{"redzone", required_argument, NULL, PLACEMENT_REDZONE},                           \
		{"place", required_argument, NULL, PLACEMENT_PLACE},                               \
		{"va-seed", required_argument, NULL, PLACEMENT_VA_SEED},                           \
		{"quarantine", required_argument, NULL, PLACEMENT_QUARANTINE},                     \
	{                                                                                          \
		"poison", required_argument, NULL, PLACEMENT_POISON                                \
	}

static inline bool placement_is(int o)
{
	return o >= PLACEMENT_FIRST && o <= PLACEMENT_LAST;
}
/* TOOL_OK or TOOL_USAGE, said. */
int placement_option(const struct command *c, int o, const char *value, struct bo_rules *r);

/* Says which rules were of no use, each with where names are to be found. */
void placement_say_idle(const struct bo_rules *r, const struct bo_rules_seen *seen,
			const char *names);
/* Says which of a plan's rules change nothing. TOOL_FAILED (said) when out of memory. */
struct plan;
int placement_warn(const struct plan *p);

#endif
