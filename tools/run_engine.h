/* What `barewave run` needs from whatever evaluates tokens: the device, or the CPU reference. */
#ifndef TOOLS_RUN_ENGINE_H
#define TOOLS_RUN_ENGINE_H

#include "engine/load.h"
#include "engine/model.h"
#include "memory/rules.h"
#include "tools/tool.h"

struct run_options {
	const char *model_path, *device, *kernels_dir;
	uint32_t n_ctx; /* slots, prompt and generation together */
	uint32_t n_prompt;
	bool all_logits; /* of every position, not only the last of a step */
	bool cpu;
	const char *disabled[16]; /* kernels or operations left to the CPU */
	unsigned n_disabled;
	struct bo_rules rules;
	bool strict;     /* no allocation outside the plan */
	uint64_t budget; /* bytes of the whole process; 0: none */
	struct load_opts load;
	const char *ledger_path; /* save the ledger here before anything is freed */
};

/* Bytes of one owner; planned or measured may be unknown. */
struct run_footprint {
	const char *owner;
	bool planned_known, measured_known;
	uint64_t planned, measured; /* granted bytes; measured: peak */
};

struct run_census {
	uint32_t on_device, on_cpu; /* nodes of a one-token step */
	bool packets_known;
	uint32_t packets, barriers; /* of that step */
	uint32_t blocks, refilled;  /* weights of so many blocks take turns; 0: all stay */
	uint64_t refill_bytes;      /* of them, brought from the file in each step */
};

struct run_engine {
	void *self;
	const char *where; /* "gfx1151 waves", "CPU reference" */
	uint32_t batch;    /* most tokens one step takes */
	/* n <= batch tokens at pos0 .. pos0+n-1. *logits, valid until the next step, has n rows
	 * with all_logits, else the last token's row. -errno, one line in err. */
	int (*step)(void *self, const int32_t *ids, uint32_t n, uint32_t pos0, const float **logits,
		    char *err, size_t errlen);
	void (*census)(void *self, struct run_census *out);
	/* Node i of those on the CPU though there is a device, and why; false when i is past them.
	 */
	bool (*declined)(void *self, unsigned i, const char **node, const char **reason);
	/* Fills up to n rows, returns how many there are. */
	unsigned (*footprint)(void *self, struct run_footprint *rows, unsigned n);
	/* Totals; false when unknown. */
	bool (*planned_bytes)(void *self, uint64_t *bytes);
	bool (*measured_peak)(void *self, uint64_t *bytes);
	/* Everything returned; TOOL_FAILED (said) when something was left behind. */
	int (*close)(void *self);
};

/* TOOL_OK, or TOOL_FAILED with a sentence already said. */
int run_engine_cpu(const struct run_options *o, const struct model *m, struct run_engine *out);
int run_engine_device(const struct run_options *o, const struct model *m, struct run_engine *out);

#endif
