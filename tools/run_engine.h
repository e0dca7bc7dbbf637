/* What `barewave run` needs from whatever evaluates tokens: the device, or the CPU reference. */
#ifndef TOOLS_RUN_ENGINE_H
#define TOOLS_RUN_ENGINE_H

#include "engine/model.h"
#include "tools/tool.h"

struct run_options {
	const char *model_path, *device, *kernels_dir;
	uint32_t n_ctx; /* slots, prompt and generation together */
	uint32_t n_prompt;
	bool cpu;
};

/* Bytes of one owner; planned or measured may be unknown. */
struct run_footprint {
	char owner[64];
	bool planned_known, measured_known;
	uint64_t planned, measured; /* measured: peak */
};

struct run_engine {
	void *self;
	const char *where; /* "gfx1151 waves", "CPU reference" */
	uint32_t batch;    /* most tokens one step takes */
	/* n <= batch tokens at pos0 .. pos0+n-1 -> logits [n][n_vocab]. -errno, one line in err. */
	int (*step)(void *self, const int32_t *ids, uint32_t n, uint32_t pos0, float *logits,
		    char *err, size_t errlen);
	/* Nodes of one decode step by where they run. */
	void (*census)(void *self, uint32_t *on_device, uint32_t *on_cpu);
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
