/* Weights on the device: those that stay are loaded once; those that do not take turns in the plan's
 * slot. */
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

/* The one copy of each weight that stays, in its device layout, and its entry in the ledger. Errors as
 * load_run(); *stuck: the queue may still be at a copy. */
int weights_load(const struct weights_env *e, const struct load_opts *o, bool *stuck, char *err,
		 size_t errlen);

struct weights_slot;
/* *out NULL when all weights stay. -ENOMEM. */
int weights_slot_create(const struct weights_env *e, const struct load_opts *o,
			struct weights_slot **out, char *err, size_t errlen);
/* Has the block's weights in the slot: by the host, from the file, unless they are there. Nothing may be
 * in flight that reads the slot. Errors as load_run(); the slot's content is then unknown. */
int weights_slot_fill(struct weights_slot *s, uint32_t block, char *err, size_t errlen);
void weights_slot_free(struct weights_slot *s);

#endif
