/* What the files of memory/ share. */
#ifndef MEMORY_INTERNAL_H
#define MEMORY_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kfd/kfd.h"
#include "memory/ledger.h"
#include "memory/memory.h"
#include "memory/rules.h"
#include "memory/va.h"

#define BO_PAGE 4096ull

struct bo {
	struct memory *m;
	struct bo *prev, *next;      /* among the living; next also among the quarantined */
	const char *owner;           /* the ledger's copy */
	uint64_t base, size, handle; /* the mapping */
	uint64_t asked, shift;       /* bytes asked for start at base + shift */
	uint64_t range, range_size;  /* of the window: the mapping and its guards; size 0: none */
	void *host;                  /* of base */
	uint32_t generation;
	enum bo_placement placement;
	enum bo_coherence coherence;
	bool readonly, executable;
	bool cpu_mapped, gpu_mapped;
	bool own_memory;     /* BO_USERPTR of memory that was made for it */
	atomic_bool dirty;   /* the device may be writing */
	atomic_uint uses;    /* enum bo_use */
	unsigned uses_known; /* of them the ledger has these */
	struct mem_scope *scope;
	struct bo *scope_next;
	struct bo_fence fence;
	bool retired;
	uint64_t freed_ns; /* quarantine */
};

struct memory {
	struct kfd *kfd;
	pthread_mutex_t lock;
	struct va_space *va;
	struct ledger *ledger;
	uint64_t window, window_size;
	struct bo *bos; /* alive */
	unsigned nbos;
	unsigned nscopes; /* alive */
	uint32_t generation;
	uint64_t adopted[8];
	unsigned nadopted;
	uint64_t adopted_bytes;
	struct bo_rules *rules;   /* NULL: none */
	struct mem_limit *limits; /* owners are the ledger's copies */
	unsigned nlimits;
	uint64_t rng;
	void (*watch)(void *ctx, const struct ledger_record *r);
	void *watch_ctx;
	/* Freed ranges that wait, oldest first. */
	struct bo *quarantine, **quarantine_end;
	uint64_t quarantined; /* bytes */
};

static inline void memory_lock(const struct memory *m)
{
	/* The lock is not part of what a caller sees as constant. */
	pthread_mutex_lock(&((struct memory *)(uintptr_t)m)->lock);
}

static inline void memory_unlock(const struct memory *m)
{
	pthread_mutex_unlock(&((struct memory *)(uintptr_t)m)->lock);
}

uint64_t memory_now_ns(void);
/* Address space only; MAP_FIXED and the like in how. MAP_FAILED and errno. */
void *memory_reserve_cpu(uint64_t va, uint64_t size, int how);
/* Room in the ledger for the rest of every life, and for n more records. */
int memory_ledger_room(struct memory *m, unsigned n);
void memory_enter(struct memory *m, const struct ledger_record *r);
/* -EDQUOT with a reason. */
int memory_limit_check(const struct memory *m, const char *owner, uint64_t bytes);
void bo_enter(const struct bo *b, enum ledger_kind kind);

/* guard.c, debug builds only: the host's mapping while the device works on it. */
void bo_guard_close(struct bo *b, uint64_t offset, uint64_t bytes, bool readable,
		    const struct bo_work *by);
void bo_guard_open(struct bo *b);
/* With the lock held: enters the uses that the ledger does not have. Room was made. */
void bo_enter_uses(struct bo *b);

/* With the lock held: takes quarantined ranges back that are due, all of them when now is
 * UINT64_MAX. */
void memory_quarantine_release(struct memory *m, uint64_t now);
/* With the lock held. */
int bo_destroy_locked(struct bo *b);
enum mem_scope_kind mem_scope_kind_of(const struct mem_scope *s);
void mem_scope_attach(struct mem_scope *s, struct bo *b);
void mem_scope_detach(struct bo *b);

#endif
