/* The footprint: a plan's bytes against every ceiling of the machine. Pure.
 *
 * On this APU "device memory" is system memory under several names, and each name has a limit of
 * its own; the smallest remainder binds. What is not known is not counted as a limit, and said.
 */
#ifndef ENGINE_FOOTPRINT_H
#define ENGINE_FOOTPRINT_H

#include "engine/plan.h"

struct footprint_number {
	bool known;
	uint64_t v; /* bytes */
};

/* What the machine says. */
struct footprint_machine {
	struct footprint_number vram_total, vram_used, gtt_total,
		gtt_used;                                 /* mem_info_* of the GPU */
	struct footprint_number pages_limit;              /* ttm.pages_limit * 4096 */
	struct footprint_number mem_total, mem_available; /* /proc/meminfo */
	/* Free memory in blocks of 2 MiB and more, and the largest block: /proc/buddyinfo. */
	struct footprint_number huge_free, huge_largest;
};

/* What the process has besides. */
struct footprint_host {
	struct footprint_number now; /* anonymous and shared memory of the process already */
	uint64_t later;              /* what it will still take */
};

enum footprint_id {
	CEILING_VRAM,
	CEILING_GTT,
	CEILING_TTM,
	CEILING_KFD,
	CEILING_RAM,
	CEILING_HUGE,
	CEILING_BUDGET,
	CEILING_COUNT
};

struct footprint_ceiling {
	const char *name, *rule;
	bool known;
	bool advisory; /* slower beyond it, not refused */
	uint64_t limit, used, need;
};

struct footprint {
	uint64_t device;                 /* the plan's total */
	uint64_t vram;                   /* of it, asked for as VRAM */
	uint64_t page_tables;            /* the kernel's, in VRAM: at most, and where memory */
	uint64_t page_tables_least;      /* comes in pieces of 4 MiB */
	uint64_t kernel;                 /* other buffers of the kernel's, in GTT */
	struct footprint_number host;    /* the process's own memory, page cache not counted */
	struct footprint_number process; /* all of it */
	struct footprint_ceiling ceiling[CEILING_COUNT];
	int binds;   /* the known ceiling with the least room; -1: none is known */
	int refuses; /* the first that is too low; -1: it fits */
};

/* Bytes KFD would give in all of system memory, of total RAM
 * (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_init_mem_limits): 63/64 of it, less 1.5 GiB; half of
 * it when that would be less than 1.5 GiB. */
uint64_t footprint_kfd_limit(uint64_t mem_total);

/* budget 0: none. */
void footprint_compute(const struct plan *p, const struct footprint_machine *m,
		       const struct footprint_host *h, uint64_t budget, struct footprint *out);
/* The refusal in words: what is needed, what there is, what is short, what it is made of. Length.
 */
int footprint_refusal(const struct plan *p, const struct footprint *f, char *text, size_t len);

/* /proc/buddyinfo's text: free bytes in blocks of 2 MiB and more, and the largest. False when it
 * has no such line. */
bool footprint_buddyinfo(const char *text, uint64_t *free_bytes, uint64_t *largest);

#endif
