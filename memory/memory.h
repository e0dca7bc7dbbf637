/* Buffer objects: placed, tagged, accounted, returned.
 *
 * Every byte the driver owns on the device is a BO made here. A BO has a VA that we choose
 * (GPU VA == CPU VA when host-mapped), an owner tag, a coherence class and a lifetime; the ledger
 * records each step and never forgets a range. Nothing here is on the per-token path.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kfd;    /* kfd/kfd.h: an open device */
struct memory; /* one per open device */
struct bo;

enum bo_placement { BO_GTT, BO_VRAM, BO_USERPTR, BO_DOORBELL };

/* PTE MTYPE on gfx11: coarse = NC (may stay in GL2 until a release), fine and uncached = UC. */
enum bo_coherence { BO_COARSE, BO_FINE, BO_UNCACHED };

struct bo_desc {
	const char *owner; /* "weights", "kv", "ring", "transient:logits", ...; kept by pointer:
			      static or outliving the BO */
	uint64_t size;     /* bytes asked; rounded up to 4 KiB */
	uint64_t align;    /* of the VA: power of two, 4 KiB .. 1 GiB; 0 = 4 KiB */
	uint64_t va;       /* wanted VA (inside the window), 0 = chosen by the VA manager;
			    * BO_USERPTR: the pointer's own address, or 0 */
	enum bo_placement placement;
	enum bo_coherence coherence;
	bool executable, readonly;
	bool host;     /* map it for the CPU at the same address */
	void *userptr; /* BO_USERPTR: page-aligned client memory */
};

int memory_create(struct kfd *kfd, struct memory **out);
/* -EBUSY (and a list on stderr) while BOs are alive. */
int memory_destroy(struct memory *m);

/* Allocates, maps to the GPU and, if asked, to the CPU. On failure nothing remains and *out is
 * untouched. -EINVAL for a bad desc, -ENOMEM, -ENOSPC/-EADDRINUSE/-ERANGE for a
 * VA that is not to be had, or the kernel's errno; kfd_reason() says why in words. */
int bo_create(struct memory *m, const struct bo_desc *d, struct bo **out);
/* Unmaps and frees. NULL is fine. -EBUSY if the kernel still uses it (a queue). */
int bo_destroy(struct bo *bo);

uint64_t bo_va(const struct bo *bo);
uint64_t bo_size(const struct bo *bo); /* granted bytes */
void *bo_host(const struct bo *bo);    /* NULL unless desc.host */
const char *bo_owner(const struct bo *bo);
uint64_t bo_handle(const struct bo *bo); /* the kernel's handle */

/* Live and peak bytes by owner, as the ledger has them. */
struct memory_usage {
	const char *owner;
	uint64_t live, peak, count;
};
/* Fills up to n rows in order of first appearance; returns how many owners there are. */
unsigned memory_usage(const struct memory *m, struct memory_usage *rows, unsigned n);
uint64_t memory_live(const struct memory *m);
uint64_t memory_peak(const struct memory *m);

/* The BO (alive or dead) that owns or owned a VA: for naming faults. */
struct ledger_hit {
	const char *owner;
	uint64_t va, size, offset; /* offset of the asked address in it */
	bool alive;
	uint32_t generation;
};
bool memory_who(const struct memory *m, uint64_t va, struct ledger_hit *out);
/* As memory_who, else the BO (alive first) that ends closest below va: offset >= size says how far
 * past its end the address lies. False when nothing lies below. */
bool memory_near(const struct memory *m, uint64_t va, struct ledger_hit *out);
/* Live BOs of ours (what memory_destroy would refuse on). */
unsigned memory_live_count(const struct memory *m);

/* The ledger: every step, in order, never forgotten. Owner names are copies it keeps. */
enum ledger_kind { LEDGER_ALLOC, LEDGER_MAP, LEDGER_UNMAP, LEDGER_FREE, LEDGER_ADOPT };
struct ledger_record {
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t va, size, handle;
	const char *owner;
	uint32_t generation; /* of the BO: counts allocations, from 1 */
	enum ledger_kind kind;
};
/* Copies up to n records from `first` on; returns how many there are in all. */
uint64_t memory_ledger(const struct memory *m, uint64_t first, struct ledger_record *out,
		       uint64_t n);
/* Enters memory the kernel keeps until the process ends (the event page): counted, looked up, not
 * ours to free. Entering the same handle again changes nothing. 0 or -ENOMEM. */
int memory_adopt(struct memory *m, const char *owner, uint64_t va, uint64_t size, uint64_t handle);

#endif
