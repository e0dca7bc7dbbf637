/* Fences: what work that was submitted comes to, and who waits for it (dma-fence.c,
 * dma-fence-chain.c, scheduler/sched_fence.c).
 *
 * All state of submission, which is contexts, jobs, fences, buffer lists and synchronisation objects of
 * all files, is under one lock, drm_lock(). It is taken inside a file's lock and outside cp/'s. Whoever
 * sleeps gives it up.
 */
#ifndef VGPU_DRM_FENCE_H
#define VGPU_DRM_FENCE_H

#include <stdbool.h>
#include <stdint.h>

struct fence {
	uint32_t refs; /* under the lock, like everything here */
	bool signaled;
	int error;        /* 0 or -errno; of a fence that has signaled */
	uint64_t context; /* fences of one context signal in order */
	uint64_t owner;   /* the VM whose job it is (drm_file.client_id); 0: nobody's */
	/* of a job that is over: its other fence, which signals when it is given to a ring */
	struct fence *scheduled;
	uint64_t begun, ended; /* vgpu_clock_ns(); 0: not yet */
	/* a link of a timeline */
	bool chain;
	uint64_t seqno, prev_seqno;
	struct fence *prev, *contained;
};

/* References on some; all 0: none. */
struct fences {
	struct fence **at;
	uint32_t n;
};

void drm_lock(void);
void drm_unlock(void);

/* One reference; NULL: no memory. */
struct fence *fence_new(uint64_t context);
uint64_t fence_context(void); /* a new one */
/* The one that signaled long ago (dma_fence_get_stub), never NULL. */
struct fence *fence_past(void);
struct fence *fence_get(struct fence *f);
void fence_put(struct fence *f); /* NULL is nothing */
bool fence_signaled(struct fence *f);
int fences_add(struct fences *all, struct fence *f); /* a reference of its own; -ENOMEM */
void fences_drop(struct fences *all);
/* Ends it with an error of its own or, if err is not 0, with that. Tells who waits. */
void fence_signal(struct fence *f, int err);

/* The next link down a timeline that has not signaled, as dma_fence_chain_walk() has it: what has
 * signaled is dropped on the way. Takes the reference on f, returns one; NULL at the end. */
struct fence *fence_walk(struct fence *f);
/* Moves *f to the link that signals point; *f is NULL when that has signaled long ago. -EINVAL: no
 * timeline, or it has not come that far; *f is the caller's still. */
int fence_find(struct fence **f, uint64_t point);
/* Makes a new fence a link with seqno behind prev (whose reference it takes, or NULL), holding contained. */
void fence_link(struct fence *link, struct fence *prev, struct fence *contained, uint64_t seqno);

/* ---- waiting --------------------------------------------------------------- */

/* Something that somebody may wait for has changed. */
void drm_news(void);
/* CLOCK_MONOTONIC in ns. */
uint64_t drm_now(void);
#define DRM_FOREVER UINT64_MAX
/* Sleeps until there is news, at most until the deadline (drm_now()). Lock held on entry and exit. 0:
 * look again; -ETIME; -EINTR: a signal, and not all handlers want restarts. */
int drm_sleep(uint64_t deadline);
/* When a wait that is to end at `abs` ns ends by jiffies: extra of them are added (0 for amdgpu's calls,
 * which round down; 1 for the core's). Past, or less than one: 0, which is only a look. */
uint64_t drm_deadline(uint64_t abs, unsigned extra);

void drm_fences_after_fork(void);
uint64_t drm_fences_alive(void);

#endif
