/* The virtual GPU's memory: buffer backing, page tables, and the one door through
 * which every agent (waves, command processor, SDMA) reaches memory.
 *
 * A GPU virtual address is gva_t, its own type: it is never cast to a CPU pointer.
 * Translation, permissions, TLBs, caches, delays, checks and counters all live behind
 * vm_access() / vm_copy_*(); nothing else turns an address into bytes.
 */
#ifndef VGPU_VM_H
#define VGPU_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
	uint64_t a;
} gva_t;

static inline gva_t gva(uint64_t a)
{
	return (gva_t){a};
}
static inline gva_t gva_add(gva_t v, uint64_t n)
{
	return (gva_t){v.a + n};
}

#define VM_PAGE  4096u
#define VM_LANES 32u

/* Who asks. Values are the UTCL2 client ids of GCVM_L2_PROTECTION_FAULT_STATUS[17:9]
 * (shared fault vectors; names as in Mesa's src/amd/common). */
enum vm_client {
	VM_CLIENT_CPF = 4,
	VM_CLIENT_CPC = 5,
	VM_CLIENT_TCP = 8,       /* vector memory of waves */
	VM_CLIENT_SQC_INST = 9,  /* instruction fetch */
	VM_CLIENT_SQC_DATA = 10, /* scalar loads */
	VM_CLIENT_SDMA0 = 13,
	VM_CLIENT_SDMA1 = 14,
};

/* PTE permissions; read is always granted (amdgpu_amdkfd_gpuvm.c:get_pte_flags). */
enum { VM_W = 1u << 0, VM_X = 1u << 1 };
/* PTE MTYPE on gfx11 (gmc_v11_0.c:gmc_v11_0_get_vm_pte). */
enum vm_mtype { VM_MTYPE_NC, VM_MTYPE_UC };

/* ---- backing ------------------------------------------------------------- */

enum vm_pool_id { VM_POOL_VRAM, VM_POOL_GTT, VM_POOL_COUNT };

/* Where a BO's bytes live. POOL memory is a range of one memfd that the device maps
 * once, privately (its alias), and that clients map through the render node.
 * USER memory is the client's own pages (userptr, SVM): same process, so plain. */
enum vm_backing_kind { VM_BACK_POOL, VM_BACK_USER };

struct vm_bo {
	enum vm_backing_kind kind;
	uint64_t size;     /* bytes, page multiple */
	uint64_t pool_off; /* POOL: offset in the pool's memfd, page aligned */
	enum vm_pool_id pool;
	uint64_t user_addr; /* USER: address in the client */
	uint32_t refs;      /* handle + mappings + CPU maps + dma-bufs; 0 frees the backing */
	uint32_t id;        /* stable number for reports */
	uint64_t shared;    /* POOL of a shared device: the daemon's number; else 0 */
};

/* One memfd for all pools; offsets are unique across pools.
 * Returns 0 or -errno. The fd is kept out of the client's way (>= 1000, CLOEXEC). */
/* -EBUSY when already there. A forked child starts without pools and without the parent's
 * device memory, and calls this again. */
int vm_pools_init(uint64_t vram_bytes, uint64_t gtt_bytes);
void vm_pools_fini(void);
int vm_pools_fd(void);
/* In a forked child: the parent's, while it is kept for what descriptors of the child refer to. */
int vm_pools_parent_fd(void);
void vm_pools_keep_parent(bool keep); /* asked in the child, before it comes to the pools */
/* Reserves and zeroes size bytes. -ENOMEM when the pool has no hole of that size. */
int vm_bo_alloc(enum vm_pool_id pool, uint64_t size, struct vm_bo **out);
/* A buffer of a shared device, number and offset from its daemon, which this side gives back. */
int vm_bo_adopt(enum vm_pool_id pool, uint64_t number, uint64_t offset, uint64_t size,
		struct vm_bo **out);
int vm_bo_user(uint64_t user_addr, uint64_t size, struct vm_bo **out);
void vm_bo_ref(struct vm_bo *bo);
void vm_bo_unref(struct vm_bo *bo);
uint64_t vm_pool_used(enum vm_pool_id pool);
/* The device's own mapping of all pools, and how long it is. NULL before vm_pools_init(). */
uint8_t *vm_pools_alias(uint64_t *bytes);
/* Bytes of VRAM that are page tables, of all address spaces (vm/tables.h). */
uint64_t vm_tables_used(void);
/* The device's own pointer to pool bytes: for kernel-side code (event page, CWSR header),
 * which in reality writes through its own kmap, not through the GPU page tables. */
void *vm_bo_kmap(struct vm_bo *bo);

/* What amdgpu keeps for itself at the top of each address space (amdgpu_vm.h: AMDGPU_VA_RESERVED_*):
 * 2 MiB that gfx11 leaves empty, 2 MiB of sequence numbers, 64 KiB that begin with the first-level
 * trap handler. */
#define VM_RESERVED_SEQ64_BYTES (2ull << 20)
#define VM_RESERVED_SEQ64       ((1ull << 48) - 2 * VM_RESERVED_SEQ64_BYTES)
#define VM_RESERVED_TRAP        (VM_RESERVED_SEQ64 - (64u << 10))

/* ---- page tables --------------------------------------------------------- */

struct vm_reader;
struct vm_tape;
struct vm_watch;
struct vm; /* one GPU address space: one per process that acquired a VM */

struct vm_mapping {
	gva_t start;
	uint64_t size;
	struct vm_bo *bo;
	uint64_t bo_off;
	unsigned perm; /* VM_W | VM_X */
	enum vm_mtype mtype;
	uint32_t queue_refs; /* queues that use it as a ring, EOP, ...: UNMAP says EBUSY */
	bool valid;          /* false: PTEs cleared (userptr invalidated), accesses fault */
};

int vm_create(struct vm **out); /* -ENOMEM: for want of memory, or of VRAM for its root table */
void vm_destroy(struct vm *vm); /* drops all mappings */
/* -EINVAL on misalignment, wrap, >= 2^48, or overlap; -ENOMEM. Takes a BO reference. */
int vm_map(struct vm *vm, gva_t va, uint64_t size, struct vm_bo *bo, uint64_t bo_off, unsigned perm,
	   enum vm_mtype mtype);
/* Exactly the mapping that starts at va; -EINVAL if none. Flushes every TLB of this vm:
 * when it returns, no agent can still reach the old pages. */
int vm_unmap(struct vm *vm, gva_t va);
/* The same, but page tables stay: SVM clears leaves without the lock that freeing them needs
 * (kfd_svm.c:svm_range_unmap_from_gpu, amdgpu_vm_ptes_update with params->unlocked). */
int vm_unmap_leaves(struct vm *vm, gva_t va);
/* Page tables for what the kernel itself maps at va: only the account, no translation. */
int vm_tables_reserve(struct vm *vm, uint64_t va, uint64_t size);
uint64_t vm_tables_of(struct vm *vm); /* bytes */
/* No two pages of memory lie together: the worst case for page tables. Set before any mapping. */
extern bool vm_fragmented;
/* Bytes of page tables that can be had, whatever VRAM is free: others were faster. */
extern uint64_t vm_tables_limit;
/* The mapping that contains va, or NULL. Valid while the caller holds vm_lock(). */
struct vm_mapping *vm_find(struct vm *vm, gva_t va);
/* Changes whenever a translation is withdrawn (unmap, invalidation). Whoever keeps something
 * derived from memory contents by address (decoded instructions) drops it on a new value. */
uint64_t vm_generation(struct vm *vm);
void vm_lock(struct vm *vm);
void vm_unlock(struct vm *vm);
/* Marks USER mappings that overlap the client range valid/invalid; returns how many changed. */
unsigned vm_user_invalidate(struct vm *vm, uint64_t addr, uint64_t size, bool valid);

/* ---- the door ------------------------------------------------------------ */

/* Cache control as the instruction encodes it. */
enum { VM_GLC = 1u << 0, VM_SLC = 1u << 1, VM_DLC = 1u << 2 };

enum vm_op {
	VM_LOAD,
	VM_STORE,
	VM_FETCH, /* instruction fetch: needs VM_X */
	/* Atomics: data in = operand(s), data out = value before. 4 or 8 bytes. */
	VM_SWAP,
	VM_CMPSWAP, /* data[0..n) = new value, data[n..2n) = compare */
	VM_ADD,
	VM_SUB,
	VM_CSUB, /* clamped subtract, u32 */
	VM_SMIN,
	VM_UMIN,
	VM_SMAX,
	VM_UMAX,
	VM_AND,
	VM_OR,
	VM_XOR,
	VM_INC, /* old >= data ? 0 : old + 1 */
	VM_DEC, /* old == 0 || old > data ? data : old - 1 */
	VM_FADD,
	VM_FMIN,
	VM_FMAX,
	VM_FCMPSWAP,
};

struct vm_fault {
	gva_t va;       /* exact byte address of the first faulting lane */
	uint32_t lanes; /* faulting lanes of this access */
	enum vm_client client;
	bool write;
	bool not_present; /* no mapping, or PTEs cleared */
	bool read_only;   /* store or atomic without VM_W */
	bool no_exec;     /* fetch without VM_X */
	bool misaligned;  /* atomic on an address that is not a multiple of its size */
};

#define VM_TLB_SETS 64

/* One per agent that issues accesses (a worker thread, the CP, an SDMA engine): its TLB
 * and its identity. Not shared between threads. */
struct vm_port {
	struct vm *vm;
	/* The owning thread's slot: lets full-wave accesses take the inline half (vm/door.h). NULL:
	 * every access goes through vm_access(), for whoever must see them all. */
	struct vm_reader *reader;
	enum vm_client client;
	uint64_t generation; /* of vm when the TLB was filled */
	struct vm_tlbe {
		uint64_t start, end; /* covered VA range; end == 0: empty */
		uint8_t *host;       /* alias of start; private to vm/ */
		unsigned perm;
	} tlb[VM_TLB_SETS];
	struct vm_fault fault; /* set by the access that returned faulting lanes */
	uint64_t bytes_read, bytes_written, accesses;
	/* Accesses whose (first) address was that of the access before: near `accesses` in a loop
	 * that polls a word, near 0 in one that computes. */
	uint64_t repeats, last;
	/* Not NULL: a front port (vm/tape.h); what is asked of it is recorded or replayed. */
	struct vm_tape *tape;
	struct vm_watch *watch; /* NULL: nobody looks */
};

/* Sees every access of a port that is not bound (vm_port_bind), before it is done, on the thread
 * that does it; and every mapping, with the table's lock held. Any function may be NULL. */
struct vm_watch {
	struct vm_watch *next; /* who else looks */
	void (*lanes)(struct vm_watch *w, const struct vm_port *p, enum vm_op op,
		      const uint64_t *addr, uint32_t mask, unsigned size, unsigned cache);
	void (*span)(struct vm_watch *w, const struct vm_port *p, enum vm_op op, uint64_t va,
		     size_t n, unsigned cache);
	void (*mapped)(struct vm_watch *w, struct vm *vm, const struct vm_mapping *m);
	void (*unmapped)(struct vm_watch *w, struct vm *vm, const struct vm_mapping *m);
};
/* Given to every port at its initialisation, and told of mappings. Set before either exists. */
extern struct vm_watch *vm_watch_all;

void vm_port_init(struct vm_port *p, struct vm *vm, enum vm_client client);
/* Binds p to the calling thread, the only one to use it from now on. Unbound after init. */
void vm_port_bind(struct vm_port *p);

/* Lane access. For every set bit l of mask: size bytes (1, 2, 4, 8, 12, 16; 64 for bulk) at
 * addr[l]. data is component-major, data[c * VM_LANES + l], c counting dwords (1- and 2-byte
 * accesses use the low bits of component 0; loads zero-extend). Unset lanes are not touched.
 * Returns the lanes that faulted (0: all done); their data reads as 0, their stores are
 * dropped, p->fault says why. An access is done lane by lane in rising order. */
uint32_t vm_access(struct vm_port *p, enum vm_op op, const uint64_t addr[VM_LANES], uint32_t mask,
		   unsigned size, unsigned cache, uint32_t *data);

/* Uniform access of n contiguous bytes (scalar loads, fetch, CP, SDMA). 0 or -EFAULT. */
int vm_read(struct vm_port *p, enum vm_op op, gva_t va, void *dst, size_t n, unsigned cache);
int vm_write(struct vm_port *p, gva_t va, const void *src, size_t n, unsigned cache);
/* 64-bit release store / acquire load / fetch-add, for rings and signals. 0 or -EFAULT. */
int vm_load64(struct vm_port *p, gva_t va, uint64_t *v);
int vm_store64(struct vm_port *p, gva_t va, uint64_t v);
int vm_add64(struct vm_port *p, gva_t va, int64_t delta, uint64_t *before);
int vm_store16(struct vm_port *p, gva_t va, uint16_t v); /* packet headers */
int vm_load32(struct vm_port *p, gva_t va, uint32_t *v);
int vm_store32(struct vm_port *p, gva_t va, uint32_t v);

/* The fields of GCVM_L2_PROTECTION_FAULT_STATUS, and the word they make (pure). */
struct vm_fault_fields {
	unsigned more, walker, permission, mapping, client, write, vmid;
};
uint32_t vm_fault_status_pack(const struct vm_fault_fields *f);
/* GCVM_L2_PROTECTION_FAULT_STATUS word for a fault (pure). */
uint32_t vm_fault_status(const struct vm_fault *f, unsigned vmid);

#endif
