/* Weights on the device: those that stay are loaded once; those that do not take turns in the plan's
 * slot, by the same loader, which then stays. */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "engine/load.h"
#include "engine/plan.h"
#include "engine/programs.h"

/* What an engine lends; must outlive what is made of it. */
struct weights_env {
	struct bw_device *dev;
	const struct model *m;
	const struct plan *plan;
	struct bo *const *bo; /* by enum plan_bo_id */
	struct programs *programs;
	struct signal *signal;
	uint64_t timeout_ns;
};

/* Whether the load's staging takes every weight of the plan. -EINVAL with the arithmetic, -ENOMEM. */
int weights_check(const struct plan *p, const struct load_opts *o, char *err, size_t errlen);

struct weights;
/* What loading needs: buffers, reader, copy queue. Nothing is loaded yet. Errors as load_open(). */
int weights_create(const struct weights_env *e, const struct load_opts *o, struct weights **out,
		   char *err, size_t errlen);
/* The one copy of each weight that stays, in its device layout, and its entry in the ledger. Where all of
 * them stay, what loading needed goes. Errors as load_run(). */
int weights_load(struct weights *w, char *err, size_t errlen);
/* Has the block's weights in the slot, unless they are there: from the file, by the same way as those that
 * stay. Nothing may be in flight that reads the slot. Allocates nothing. Errors as load_run(); the slot is
 * then known to hold nothing, and may be filled again unless weights_stuck(). */
int weights_fill(struct weights *w, uint32_t block, char *err, size_t errlen);
/* As load_stuck(). NULL: no. */
bool weights_stuck(const struct weights *w);
/* NULL is fine. */
void weights_free(struct weights *w);

#endif
