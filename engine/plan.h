/* The plan: every buffer, offset, dispatch and byte of a run, before the device is touched.
 *
 * Pure: computed from graphs and options alone; the executor carries it out and adds nothing.
 * One graph per batch shape; all graphs of a plan share weights, KV, and the storage of
 * activations. Activations whose last reader is done give their storage to later ones, but only
 * across a barrier that is there anyway, so reuse never adds a wait.
 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include "engine/claim.h"
#include "engine/graph.h"
#include "engine/layout.h"
#include "memory/memory.h"
#include "memory/rules.h"
#include "queues/queues.h"

#define PLAN_PAGE  4096u        /* the kernel's granule for buffer objects */
#define PLAN_BIG   (2ull << 20) /* from here on a buffer is aligned to it: one page for the TLB */
#define PLAN_SLOTS 2u /* step blocks: values of the next step never overwrite those in use */

enum plan_bo_id {
	PLAN_WEIGHTS, /* read-only, one copy */
	PLAN_SLOT,    /* read-only: weights of one block at a time, when not all stay */
	PLAN_KV,
	PLAN_ACTIVATIONS,
	PLAN_IO,       /* uncached: step blocks, logits, the published step */
	PLAN_KERNARGS, /* uncached, read-only */
	PLAN_TABLES,   /* read-only: rotary tables */
	PLAN_BO_COUNT
};

struct plan_bo {
	const char *owner;
	uint64_t bytes;   /* used; 0: there is no such buffer */
	uint64_t granted; /* as the kernel rounds */
	uint64_t align;   /* of the VA: the largest of what lies inside, at least PLAN_PAGE */
	uint64_t grain;   /* of the first byte in its page: the same, at most PLAN_PAGE */
	enum bo_coherence coherence;
	bool readonly; /* for the device */
};

/* A red zone: bytes that nobody may write, beside a tensor. */
struct plan_zone {
	enum plan_bo_id bo;
	int32_t graph; /* whose activations it guards; -1: weights or KV, for good */
	uint64_t offset, bytes;
	const char *tensor;
};

/* Where a tensor lies. */
struct plan_place {
	int32_t bo; /* enum plan_bo_id; -1: not on the device (weights read only by the CPU) */
	uint64_t offset, bytes;
	uint32_t first, last;        /* nodes that write it first and touch it last */
	const struct layout *layout; /* weights */
};

/* A node, or (index n_nodes) the end of the step. */
struct plan_node {
	struct claim claim; /* claim.kernel empty: runs on the CPU, claim.reason says why */
	bool device;
	bool barrier;                 /* waits for the packets before it: a declared hazard */
	bool segment_first;           /* first packet after the host: acquires system scope */
	bool segment_last;            /* last packet before the host: releases it and signals */
	uint64_t kernarg[PLAN_SLOTS]; /* offsets in PLAN_KERNARGS */
	int32_t table;                /* rotary table, -1 */
	int32_t refill; /* the block whose weights have to be in the slot before this packet,
			 * the first of its segment; -1: any */
};

struct plan_graph {
	const struct graph *g;
	struct plan_place *place;                            /* per tensor */
	struct plan_node *node;                              /* n_nodes + 1 */
	uint32_t packets, barriers, device_nodes, cpu_nodes; /* nodes without the end */
};

struct plan_table {
	uint32_t hd;
	float theta;
	uint64_t offset, bytes; /* in PLAN_TABLES */
};

/* A line of the footprint. */
struct plan_row {
	const char *owner;
	uint64_t bytes, granted;
	uint32_t count; /* buffer objects */
};
#define PLAN_MAX_ROWS 32

/* One buffer object. */
struct plan_buffer {
	const char *owner;
	uint64_t bytes, align; /* align 0: as bo_create() likes it */
	uint64_t va;           /* where it will be; 0: the kernel decides (plan_tables()) */
};

#define PLAN_NAME_MAX 96
/* A tensor inside a buffer. */
struct plan_part {
	char name[PLAN_NAME_MAX]; /* as rules have it: "weights:output.weight" */
	enum plan_bo_id bo;
	uint32_t tokens; /* activations: of steps of so many tokens; else 0 */
	uint64_t offset, bytes;
	const struct layout *layout; /* weights */
	const struct tensor *tensor; /* of the first graph that has it */
};

struct plan {
	struct plan_bo bo[PLAN_BO_COUNT];
	struct plan_graph *graphs;
	uint32_t n_graphs;
	struct plan_table *tables;
	uint32_t n_tables;
	/* Offsets in PLAN_IO. */
	uint64_t slot[PLAN_SLOTS], ids, pos; /* ids and pos relative to the slot */
	uint64_t done, logits;
	bool all_logits;
	struct plan_row rows[PLAN_MAX_ROWS];
	uint32_t n_rows;
	uint64_t total; /* granted bytes of all rows */
	struct plan_buffer *buffers;
	uint32_t n_buffers;
	/* Bytes of page tables when everything is mapped (memory/tables.h): where memory comes in
	 * pieces of 4 MiB, and where it comes page by page. */
	uint64_t tables_least, tables_most;
	struct plan_zone *zones;
	uint32_t n_zones;
	/* Bounded residency: the weights of the last `refilled` of n_blocks blocks take turns in the
	 * slot; a step reads refill_bytes of the file for them (of one block, the first step). */
	uint32_t n_blocks, refilled;
	uint64_t refill_bytes;
	uint64_t *slot_used;          /* by block */
	const struct bo_rules *rules; /* as given */
};

struct plan_opts {
	/* Of the last so many blocks ("blk.N." in the file) the weights do not stay: they share one
	 * slot, which is refilled from the file before each use. 0: all stay. */
	uint32_t refilled;
	bool all_logits; /* keep logits of every token of a batch, not of the last one */
	struct claim_kernels kernels;
	/* Alignment and red zones of tensors: a tensor NAME goes by "weights:NAME", "kv:NAME" or
	 * "transient:NAME"; an alignment below 4 KiB (or a red zone) given to a whole buffer
	 * ("transient:activations") holds for every tensor in it. With red zones activations keep
	 * their storage to themselves. NULL: LAYOUT_ALIGN and none. Must outlive the plan. */
	const struct bo_rules *rules;
};

/* graphs: at least one, of the same model and context. They must outlive the plan.
 * -EINVAL (err: one line), -ENOMEM, -EOVERFLOW. */
int plan_create(const struct graph *const *graphs, uint32_t n_graphs, const struct plan_opts *o,
		struct plan **out, char *err, size_t errlen);
/* What is done with buffer id, enum bo_use, all of it: by the nodes on the device and those on the CPU,
 * and by the load, whose weights the device copies or the host writes. */
unsigned plan_uses(const struct plan *p, enum plan_bo_id id, bool device_copies);
void plan_free(struct plan *p);

/* Adds count buffers of bytes each to the footprint under an owner (a string that stays). For
 * what others own: code objects, queue parts. -ENOSPC when there are too many owners, -ENOMEM. */
int plan_add(struct plan *p, const char *owner, uint64_t bytes, uint32_t count);
/* What one queue, its signals and its events need. */
int plan_add_queue(struct plan *p, const struct queue_plan *q);
/* Works out every buffer's address, tables_least and tables_most, from all buffers and the plan's
 * rules. -ENOMEM; -EINVAL, -ENOSPC, -EADDRINUSE, -ERANGE and one line in err when the rules leave no
 * room for a buffer. */
int plan_tables(struct plan *p, char *err, size_t errlen);
/* Bytes that are asked for in a placement: the end-of-pipe buffer as VRAM, and what rules place. */
uint64_t plan_asked(const struct plan *p, enum bo_placement placement);
/* The block a weight belongs to by its name, "blk.N."; -1: to none. */
int32_t plan_block_of(const char *weight);
/* All tensors with a place, by buffer and offset; *out is for free(). -ENOMEM. */
int plan_parts(const struct plan *p, struct plan_part **out, uint32_t *n);
/* Which of the plan's rules change anything: for bo_rules_idle(). The plan is complete. -ENOMEM. */
int plan_rules_seen(const struct plan *p, struct bo_rules_seen *out);

#endif
