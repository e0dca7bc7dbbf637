/* What an engine will be, before any device is opened: its graphs, its kernels and its plan. */
#ifndef ENGINE_DRAFT_H
#define ENGINE_DRAFT_H

#include "engine/exec.h"
#include "engine/programs.h"

#define DRAFT_GRAPHS 2u /* one token; a batch */

struct engine_draft {
	struct graph *graph[DRAFT_GRAPHS];
	uint32_t n_graphs, batch, n_ctx;
	struct programs *programs;
	struct plan *plan;   /* with the queue's buffers */
	uint64_t host_bytes; /* heap that engine_create() takes beyond what the draft holds */
};

/* Everything engine_create() decides, from the model, the options and the sizes of its queue. The
 * plan is complete: every buffer the engine and its queue make, and no other. Errors as
 * engine_create(); nothing remains on failure. */
int engine_draft(const struct model *m, const struct engine_opts *o, const struct queue_plan *q,
		 struct engine_draft *out, char *err, size_t errlen);
void engine_draft_free(struct engine_draft *d);

#endif
