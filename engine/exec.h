/* The executor: a model on the device, one step at a time.
 *
 * engine_create() carries out the plan: buffers, weights in their device layout (read from the
 * file once, resident once), kernel arguments, packets. A step then writes a few words (ids,
 * positions, its number) into one of two step blocks, puts the prebuilt packets into the ring,
 * rings the doorbell once, and waits. engine_step() neither allocates nor locks, and enters the
 * kernel only inside the final wait. A node that no kernel claims runs on the CPU reference between
 * two segments of packets.
 *
 * The last kernel of a step publishes the step's number beside the logits; logits with another
 * number, or with a NaN or infinity among them, are an error and never handed out.
 *
 * Not thread-safe: one thread per engine, and the device's queue is the engine's while it lives.
 */
#ifndef ENGINE_EXEC_H
#define ENGINE_EXEC_H

#include "engine/load.h"
#include "engine/model.h"
#include "engine/plan.h"
#include "queues/device.h"

#define ENGINE_BATCH 32u /* tokens per step of a prompt, unless asked otherwise */

struct engine;

struct engine_opts {
	uint32_t n_ctx;  /* context slots; 0: as many as the model was trained for */
	uint32_t batch;  /* most tokens of one step; 0: ENGINE_BATCH, less if the context is smaller
			  */
	bool all_logits; /* logits of every token of a step, not only of the last */
	const char *kernels_dir;     /* DIR/NAME.co in place of the embedded code object NAME */
	const char *const *disabled; /* kernels or operations left to the CPU, by name */
	unsigned n_disabled;
	uint64_t timeout_ns; /* of one wait; 0: 120 s */
	/* How tensors lie inside their buffers; red zones are checked after each step (-EBADF
	 * names the tensor). What the buffers themselves are subject to is the device's business
	 * (bw_device_opts). Must outlive the engine; NULL: none. */
	const struct bo_rules *rules;
	bool strict; /* an allocation outside the plan fails */
	/* The weights of the last so many blocks do not stay on the device: they take turns in one
	 * buffer, refilled from the file before each use, by the way that `load` says. Slower, and a
	 * step then locks and enters the kernel for each refill; its results are the same. 0: all
	 * stay. */
	uint32_t refilled;
	struct load_opts load;
};

/* dev and m must outlive the engine; dev needs a queue. opts NULL: all defaults. On failure nothing
 * remains and err has one line. -EINVAL, -ENOTSUP, -ENOMEM, -ENOENT (kernels_dir), -ENOSPC (ring
 * too small), or what the kernel said. */
int engine_create(struct bw_device *dev, const struct model *m, const struct engine_opts *opts,
		  struct engine **out, char *err, size_t errlen);
/* Gives everything back. NULL is fine. After a step that failed on the device the queue goes first,
 * because it may still be writing: dev->queue is NULL then. */
void engine_destroy(struct engine *e);

/* n tokens, 1 <= n <= engine_batch(), at positions pos0 .. pos0+n-1; all earlier positions must
 * have been stepped. *logits is valid until the next step: [n][n_vocab] with all_logits, else
 * [n_vocab] of the last token. -EINVAL: n, a position or an id out of range (nothing was run).
 * -EFAULT: the device faulted. -ETIMEDOUT. -EBADMSG: the device did not publish this step. -EDOM:
 * NaN or infinity in the logits. -EBADF: a red zone was written. After any of the last five every
 * further step is refused with -EIO. err: one line.
 *
 * Where weights take turns, a step also fails when the file does: -ENODATA: it became shorter; -ETIMEDOUT:
 * no byte of it for load.stall_ns; or what reading it says (-EIO, ...). err then has the file, the offset
 * and the bytes wanted and got. The engine is as before that step, *logits and what the step before handed
 * out too; the step may be tried again. Not survived are failures of the device that copies: a copy by the
 * copy engine or by a kernel that faults, or does not end in timeout_ns, or that cannot be waited for
 * twice in a row. It may write to the slot at any time, and neither queue can be told to forget it. */
int engine_step(struct engine *e, const int32_t *ids, uint32_t n, uint32_t pos0,
		const float **logits, char *err, size_t errlen);

uint32_t engine_batch(const struct engine *e);
const struct plan *engine_plan(const struct engine *e); /* footprint, census, reasons */

/* Where the nodes of a one-token step run. */
struct engine_census {
	uint32_t device, cpu;
	uint32_t packets, barriers;
};
void engine_census(const struct engine *e, struct engine_census *out);
/* "blk.0.attn_q: kernel matmul_q8_0 is disabled" for each node on the CPU: fills up to n lines,
 * returns how many there are. */
struct engine_decline {
	const char *node, *reason;
};
unsigned engine_declines(const struct engine *e, struct engine_decline *out, unsigned n);

#endif
