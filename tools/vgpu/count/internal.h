/* Shared by the files of count/ only. */
#ifndef VGPU_COUNT_INTERNAL_H
#define VGPU_COUNT_INTERNAL_H

#include <pthread.h>

#include "count/count.h"
#include "isa/isa.h"

#define COUNT_LINE  128u /* of the last-level and L2 caches */
#define COUNT_TOUCH 32u

/* One mapping of a BO that waves, packets or DMA may reach. Never freed: it is the report. */
struct count_buffer {
	struct count_buffer *next; /* in order of appearance */
	const struct vm *vm;
	uint64_t va, size, map_ns;
	uint32_t bo, pool;
	bool user, writable, executable;
	bool live; /* mapped now */
	/* relaxed atomics */
	uint64_t read, written, atomics;    /* by waves; an atomic reads and writes */
	uint64_t other_read, other_written; /* by the command processor and DMA engines */
	bool fetched;
	/* Per line, the last dispatch that read or wrote it; made at the first touch. */
	uint32_t *line_read, *line_written;
	char name[64]; /* its owner in the client's ledger; "" unknown */
};

/* Bytes of one buffer, within a context or a dispatch. */
struct count_touch {
	struct count_buffer *b;
	uint64_t read, written;
};

struct count_kernel {
	struct count_kernel *next;
	uint64_t kernel_object, entry, hash;
	uint32_t code_bytes;
	int32_t code_offset; /* of the first byte reached, from entry */
	uint32_t rsrc1, rsrc2, rsrc3, nvgpr;
	bool wave64;
	uint64_t dispatches, unfinished;
	uint32_t lds_bytes, wg_items, waves_full; /* of the latest dispatch */
	struct count_set set;
	struct count_touch *touch;
	unsigned n_touch, cap_touch;
	double seconds[6]; /* estimates, summed over dispatches: enum count_bound, then the total */
	uint64_t bound[5];
};

struct count_dispatch {
	struct count_dispatch *next;
	pthread_mutex_t lock;
	struct count_kernel *kernel;
	uint32_t serial; /* from 1 */
	bool done;
	struct count_launch launch; /* without port */
	struct count_set set;
	struct count_touch *touch;
	unsigned n_touch, cap_touch;
};

struct count_ctx {
	struct vm_watch watch;
	struct count_ctx *next;
	struct count_dispatch *d;
	struct count_wave *waves;
	struct count_set set;
	struct count_touch touch[COUNT_TOUCH];
	unsigned n_touch;
	/* buffers found lately */
	uint64_t generation;
	const struct vm *vm;
	struct {
		uint64_t start, end;
		struct count_buffer *b;
	} seen[8];
	unsigned turn;
	uint64_t ops[ISA_OP_COUNT], approximated[ISA_OP_COUNT], refused[ISA_OP_COUNT];
};

/* Everything there is, under lock (taken last of all the device's locks). */
struct count_state {
	pthread_mutex_t lock;
	struct count_buffer *buffers, **buffers_end;
	struct count_buffer **live; /* mapped ones, sorted by (vm, va) */
	size_t n_live, cap_live;
	struct count_kernel *kernels;
	struct count_dispatch *dispatches, **dispatches_end; /* the ones kept, oldest first */
	uint64_t n_dispatches, kept;
	struct count_ctx *contexts;
	/* of contexts that are gone */
	uint64_t ops[ISA_OP_COUNT], approximated[ISA_OP_COUNT], refused[ISA_OP_COUNT];
};
extern struct count_state count_state;

void count_tables(void); /* insn.c: once */

/* dispatch.c: adds bytes to a growing list; false without memory. */
bool count_touch_add(struct count_touch **list, unsigned *n, unsigned *cap,
		     const struct count_touch *t);
void count_set_add(struct count_set *to, const struct count_set *from);

/* memory.c */
extern struct vm_watch count_watch_others; /* ports of the command processor and DMA */
struct count_buffer *count_buffer_at(const struct vm *vm, uint64_t va);

/* names.c: names the buffers by the client's ledger, and lets go of it. */
void count_ledger_names(void);

/* ---- model.c (pure): first-order time on gfx1151, docs/prof.md ------------ */

enum count_bound { BOUND_ISSUE, BOUND_LDS, BOUND_CACHE, BOUND_BANDWIDTH, BOUND_LATENCY };
#define BOUND_COUNT 5
extern const char *const count_bound_name[BOUND_COUNT];

struct count_occupancy {
	uint32_t waves_per_simd;   /* resident at most, of 16 */
	uint32_t by_vgprs, by_lds; /* what each limit alone would allow, 16 at most */
	const char *limit;         /* "vgprs", "lds", "slots" */
};
struct count_estimate {
	double seconds[BOUND_COUNT]; /* what each limit alone asks for */
	double total;                /* the largest */
	enum count_bound bound;
};
struct count_occupancy count_occupancy(uint32_t nvgpr, bool wave64, uint32_t lds_bytes,
				       uint32_t waves_full, bool wgp_mode);
struct count_estimate count_estimate(const struct count_set *s, const struct count_occupancy *o,
				     bool wgp_mode);

#endif
