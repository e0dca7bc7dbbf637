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

/* Address space that stays unmapped beside a BO. With a guard at the end and a bo_desc.grain the
 * buffer is end-flush: its bytes are shifted to the end of their last page as far as the grain
 * allows, so that the first access past them faults. Otherwise it starts with its first page. */
enum bo_guard { BO_GUARD_NONE = 0, BO_GUARD_START = 1, BO_GUARD_END = 2, BO_GUARD_BOTH = 3 };

/* What a BO lives as long as. For the account, and for mem_scope_end(). */
enum mem_scope_kind {
	SCOPE_PROCESS,
	SCOPE_MODEL,
	SCOPE_CONTEXT,
	SCOPE_REQUEST,
	SCOPE_BATCH,
};
struct mem_scope;

/* Where BOs live, for the CPU as for the GPU: the first choice, 1 TiB of it. */
#define MEM_WINDOW       0x200000000000ull
#define MEM_WINDOW_BYTES (1ull << 40)

/* What is ever done with a BO, for the ledger: by the device (waves, command processor, copy engine),
 * by the host. The last two say that the others are all there is of that side. */
enum bo_use {
	BO_DEVICE_READS = 1,
	BO_DEVICE_WRITES = 2,
	BO_HOST_READS = 4,
	BO_HOST_WRITES = 8,
	BO_DEVICE_DECLARED = 16,
	BO_HOST_DECLARED = 32,
};
#define BO_DECLARED (BO_DEVICE_DECLARED | BO_HOST_DECLARED)

struct bo_desc {
	const char *owner; /* "weights", "kv", "ring", "transient:logits", ...; kept by pointer:
			      static or outliving the BO */
	uint64_t size;     /* bytes asked; rounded up to 4 KiB */
	uint64_t align;    /* of the VA: power of two, 4 KiB .. 1 GiB; 0 = 4 KiB, and 2 MiB from
			      2 MiB on, where a whole 2 MiB then is one entry for the GPU's TLB */
	uint64_t va;       /* wanted VA (inside the window), 0 = chosen by the VA manager;
			    * of client memory: the pointer's own address, or 0 */
	enum bo_placement placement;
	enum bo_coherence coherence;
	bool executable, readonly;
	bool host;     /* map it for the CPU at the same address */
	void *userptr; /* BO_USERPTR: page-aligned client memory; NULL: memory of the process's own
			* that is made for the BO, at its VA */
	/* The following are 0 unless placement matters; memory_rules_set() may change them, as
	 * everything above but size, host and userptr, by owner. */
	enum bo_guard guard;
	uint64_t guard_bytes; /* on each guarded side, whole pages; 0 = 64 KiB */
	/* End-flush: the first byte lies at a multiple of this, a power of two up to 4 KiB; what is
	 * inside needs it, so rules may ask for more and not for less. 4096: never shifted; 0: not
	 * shifted unless the rules say so. */
	uint64_t grain;
	bool random;             /* anywhere in the window, by the rules' seed */
	struct mem_scope *scope; /* NULL: the process */
	unsigned uses;           /* enum bo_use, as far as known now; 0: nothing is */
};

int memory_create(struct kfd *kfd, struct memory **out);
/* Gives back what was deferred and is due. -EBUSY (and a list on stderr) while BOs are alive. */
int memory_destroy(struct memory *m);

/* What every later bo_create() is subject to (memory/rules.h). A copy is kept; NULL: no rules. */
struct bo_rules;
int memory_rules_set(struct memory *m, const struct bo_rules *r);
const struct bo_rules *memory_rules(const struct memory *m); /* NULL: none */

/* Allocates, maps to the GPU and, if asked, to the CPU. On failure nothing remains and *out is
 * untouched. -EINVAL for a bad desc, -ENOMEM, -ENOSPC/-EADDRINUSE/-ERANGE for a
 * VA that is not to be had, or the kernel's errno; kfd_reason() says why in words. */
int bo_create(struct memory *m, const struct bo_desc *d, struct bo **out);
/* Unmaps and frees. NULL is fine. -EBUSY if the kernel still uses it (a queue). */
int bo_destroy(struct bo *bo);

uint64_t bo_va(const struct bo *bo);   /* of the first byte asked for */
uint64_t bo_size(const struct bo *bo); /* granted bytes from there on */
void *bo_host(const struct bo *bo);    /* of the first byte; NULL unless desc.host */
uint64_t bo_base(const struct bo *bo); /* of the mapping: bo_va() unless shifted end-flush */
const char *bo_owner(const struct bo *bo);
uint64_t bo_handle(const struct bo *bo); /* the kernel's handle */

/* From now on a BO is refused (-EDQUOT) when it would take its owner's live bytes beyond these; an
 * owner not listed has 0. A copy is kept; n 0 lifts it. -ENOMEM. */
struct mem_limit {
	const char *owner;
	uint64_t bytes;
};
int memory_limit(struct memory *m, const struct mem_limit *limits, unsigned n);

/* ---- sharing ---- */

/* A dma-buf descriptor (O_CLOEXEC) of the BO's memory; the caller closes it. -errno. */
int bo_export(struct bo *bo, int *fd);
/* Maps the memory behind a dma-buf for the GPU. Of d count owner, align, va, guard, random and
 * scope; the size is the dma-buf's. Not mapped for the CPU. The descriptor stays the caller's. */
int bo_import(struct memory *m, int fd, const struct bo_desc *d, struct bo **out);

/* ---- lifetimes ---- */

/* parent NULL: the process. A scope lives at most as long as its parent. */
int mem_scope_create(struct memory *m, enum mem_scope_kind kind, struct mem_scope *parent,
		     struct mem_scope **out);
/* Ends the scopes inside it, retires its BOs, and is gone. 0; 1 when some of them wait, as after
 * bo_retire(). NULL is fine. */
int mem_scope_end(struct mem_scope *s);

/* When the device is done with a BO. ctx must stay valid until then. */
struct bo_fence {
	bool (*done)(const void *ctx);
	const void *ctx;
};
/* The last use of the BO so far; done NULL: it is in no use. */
void bo_fence_set(struct bo *bo, const struct bo_fence *f);
/* bo_destroy(), as soon as the fence is done and the kernel lets go: 0 now, 1 later, with
 * memory_reap() or memory_destroy(). The handle is no longer the caller's either way. */
int bo_retire(struct bo *bo);
/* Frees what is due; returns how many still wait. */
unsigned memory_reap(struct memory *m);

/* ---- host visibility ---- */

/* The host may read what the device writes only after bo_publish(), which follows the wait that
 * acquired it (signal_wait). Between bo_device_writes(), which precedes the doorbell, and
 * bo_publish(), bo_read() and bo_write() fail an assertion (NDEBUG: they do not look). None of the
 * four allocates, locks or enters the kernel.
 *
 * A debug build (make DEBUG=1) also catches the plain pointer: a BO the host has mapped is
 * inaccessible in between, and one the device reads (bo_device_reads) is read-only there; a load or
 * store that comes too early ends the process with the buffer, the byte, the work and what to call.
 * Not caught: system calls on such memory (they fail with EFAULT), the kernel's and other
 * processes' accesses, user memory (BO_USERPTR: to protect it would make the kernel stop the
 * queues), and, of a range that is read, pages that lie only partly in it. There, both calls enter
 * the kernel. */
struct bo_work {
	const char *what; /* "step, up to kernel finish": static, or outliving the work */
	uint64_t number;
};
#ifdef BAREWAVE_DEBUG
#define BO_DEBUG 1
#else
#define BO_DEBUG 0
#endif
void bo_device_writes(struct bo *bo, const struct bo_work *by); /* by NULL: unnamed */
/* The device will read [offset, offset + bytes) until bo_publish(). Nothing but the debug build looks
 * at it. */
void bo_device_reads(struct bo *bo, uint64_t offset, uint64_t bytes, const struct bo_work *by);
void bo_publish(struct bo *bo);
const void *bo_read(const struct bo *bo, uint64_t offset);
void *bo_write(struct bo *bo, uint64_t offset);
bool bo_published(const struct bo *bo);

/* ---- uses, for the ledger ---- */

/* Enters what is new in uses (enum bo_use). 0 or -ENOMEM. The functions above enter theirs when the
 * BO goes, or with memory_enter_uses(): none of them waits for memory. */
int bo_declare(struct bo *bo, unsigned uses);
unsigned bo_uses(const struct bo *bo); /* so far */
int memory_enter_uses(struct memory *m);

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
enum ledger_kind {
	LEDGER_ALLOC = 1,
	LEDGER_MAP,
	LEDGER_UNMAP,
	LEDGER_FREE,
	LEDGER_ADOPT,
	LEDGER_IMPORT, /* as ALLOC, of somebody else's memory */
	LEDGER_EXPORT,
	LEDGER_PLACE, /* something with an identity lies inside a BO: a tensor */
	LEDGER_USE,   /* what is done with a BO: more than was known */
};
struct ledger_record {
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t va, size, handle;
	const char *owner;
	uint32_t generation; /* of the BO: counts allocations, from 1 */
	enum ledger_kind kind;
	uint64_t asked;    /* bytes, before rounding */
	uint64_t identity; /* PLACE: equal for equal content */
	uint64_t first;    /* ALLOC, IMPORT: where in the mapping the bytes asked for begin */
	uint8_t placement, coherence, scope;
	bool readonly, executable, host;
	uint8_t uses; /* USE: enum bo_use, all of them so far */
};
/* Copies up to n records from `first` on; returns how many there are in all. */
uint64_t memory_ledger(const struct memory *m, uint64_t first, struct ledger_record *out,
		       uint64_t n);
/* Enters that `name` (a copy is kept) with an identity lies at [va, va + size) inside bo: resident
 * twice when two live BOs hold the same identity. 0 or -ENOMEM. */
int memory_place(struct bo *bo, const char *name, uint64_t va, uint64_t size, uint64_t identity);
/* The ledger's shared mapping (docs/ledger.md): a memfd of this process. */
int memory_ledger_fd(const struct memory *m);
/* Calls fn with every record as it is entered, under the lock (asking is allowed, making buffers is
 * not). fn NULL: no more. */
void memory_watch(struct memory *m, void (*fn)(void *ctx, const struct ledger_record *r),
		  void *ctx);
/* Bytes of address space given to nobody because they were freed a short while ago. */
uint64_t memory_quarantined(const struct memory *m);
/* Enters memory the kernel keeps until the process ends (the event page): counted, looked up, not
 * ours to free. Entering the same handle again changes nothing. 0 or -ENOMEM. */
int memory_adopt(struct memory *m, const char *owner, uint64_t va, uint64_t size, uint64_t handle);
uint64_t memory_adopted(const struct memory *m); /* bytes of all that */

#endif
