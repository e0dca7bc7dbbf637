/* What a run will cost, before a device is opened: for `barewave plan` and for --budget. */
#ifndef TOOLS_PRICE_H
#define TOOLS_PRICE_H

#include "engine/draft.h"
#include "engine/footprint.h"
#include "tools/tool.h"

struct price {
	struct engine_draft draft;
	struct footprint_machine machine;
	struct footprint footprint;
	struct queue_plan queue;
};

/* Another machine: the directory that has a copy of its /proc and /sys, or its topology alone. */
struct price_machine {
	const char *root, *topology;
};

/* Reads the topology, drafts the engine and looks at the machine. from NULL: this one.
 * TOOL_OK, or TOOL_FAILED and said. price_free() when TOOL_OK. */
int price_make(const struct model *m, const char *model_path, const struct engine_opts *o,
	       const struct price_machine *from, uint64_t budget, struct price *out);
void price_free(struct price *p);
/* Anonymous and shared memory of this process now. */
struct footprint_number price_host_now(void);

#endif
