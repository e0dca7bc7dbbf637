/* Submission: contexts, their entities, jobs and rings (amdgpu_ctx.c, amdgpu_cs.c, amdgpu_job.c,
 * scheduler/). Everything is under drm_lock() (fence.h).
 */
#ifndef VGPU_DRM_SUBMIT_H
#define VGPU_DRM_SUBMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cp/cp.h"
#include "drm/fence.h"
#include "kfd/idr.h"

struct drm_file;
struct gem;
struct drm_amdgpu_fence;
union drm_amdgpu_ctx;
union drm_amdgpu_bo_list;
union drm_amdgpu_cs;
union drm_amdgpu_wait_cs;
union drm_amdgpu_wait_fences;
union drm_amdgpu_fence_to_handle;
struct drm_amdgpu_bo_list_in;

/* What a file has of it: ids are one more than the index. */
struct drm_submissions {
	struct idr ctxs, lists, syncobjs;
	uint64_t spent[10]; /* ns on rings, by hw_ip, of fences that are no longer known */
};

/* Rings as clients name them (amdgpu_ctx.c:amdgpu_ctx_num_entities), and those that are here: what
 * INFO HW_IP_INFO reports. Compute and SDMA only: there is no graphics and no media engine. */
#define DRM_HW_IPS        10
#define DRM_MAX_ENTITIES  4
#define DRM_COMPUTE_RINGS 4
#define DRM_SDMA_RINGS    1
uint32_t drm_entities(uint32_t ip); /* 0 for an unknown ip */
uint32_t drm_rings(uint32_t ip);    /* that exist */

#define DRM_SCHED_JOBS 32        /* amdgpu.sched_jobs: a number's fence is known for so long */
#define DRM_GANG       4         /* AMDGPU_CS_GANG_SIZE */
#define DRM_MAX_ALLOC  INT32_MAX /* of kvmalloc() */

/* One ring of one context: jobs in order (struct amdgpu_ctx_entity and drm_sched_entity). */
struct drm_entity {
	struct drm_entity *link; /* of those that have jobs queued */
	struct cs_ctx *ctx;
	uint32_t ip;
	uint64_t context;  /* of its fences */
	uint64_t sequence; /* the next job's number, from 1 on */
	struct fence *fences[DRM_SCHED_JOBS];
	struct fence *last; /* of the job given to a ring last */
	struct drm_job *queue, **tail;
	struct drm_ring *ring; /* NULL: not chosen yet, or there is none */
};

struct cs_ctx {
	uint64_t *spent; /* the file's; its users end before it does */
	uint32_t users;  /* the file, calls in progress: without any it has no entities */
	uint32_t refs;   /* users, all together, and jobs */
	bool guilty;     /* a job of it made the device reset itself */
	uint32_t reset_counter, reset_counter_query;
	int32_t priority;
	uint32_t pstate; /* what it found, if it owns the clocks */
	struct drm_entity *entity[DRM_HW_IPS][DRM_MAX_ENTITIES];
};

struct drm_job {
	struct drm_job *next; /* in its entity's queue, or on its ring */
	struct cp_job cp;
	struct drm_entity *entity; /* NULL once a ring has it */
	struct cs_ctx *ctx;
	struct drm_ring *ring;
	struct drm_file *file;
	struct fence *finished;
	struct fences deps;
	struct gem *uf; /* what cp.fence lies in */
	uint64_t order;
	int error; /* of the fence, if the ring gets through it all the same */
	bool secure;
	unsigned n_ibs, max_ibs;
	struct cp_ib ib[];
};

struct bo_list {
	uint32_t refs;
	uint32_t n;
	struct gem *gem[];
};

/* ---- ctx.c ------------------------------------------------------------------ */

long drm_ctx_ioctl(struct drm_file *f, union drm_amdgpu_ctx *a);
struct cs_ctx *drm_ctx_get(struct drm_file *f, uint32_t id); /* one more user, or NULL */
void drm_ctx_put(struct cs_ctx *c);
void drm_ctx_unref(struct cs_ctx *c); /* a job's */
/* The entity behind three numbers: 0, -EINVAL, -ENOMEM, or the error of its last job. */
int drm_ctx_entity(struct cs_ctx *c, uint32_t ip, uint32_t instance, uint32_t ring,
		   struct drm_entity **out);
/* The fence that five numbers mean, with a reference in *out, or NULL: over too long ago to be known.
 * -EINVAL: a number not given out yet, or what drm_ctx_entity() says. ~0 is the last one. */
int drm_ctx_lookup(struct drm_file *f, const struct drm_amdgpu_fence *u, struct fence **out);
uint64_t drm_ctx_add_fence(struct drm_entity *e, struct fence *f); /* its number */
void drm_ctxs_close(struct drm_file *f);
/* The lines of fdinfo that say how long jobs of an engine ran (amdgpu_fdinfo.c). */
int drm_ctxs_fdinfo(struct drm_file *f, char *buf, size_t n);
uint64_t drm_ctxs_alive(void);
void drm_ctx_after_fork(void);

/* ---- bo_list.c -------------------------------------------------------------- */

long drm_bo_list_ioctl(struct drm_file *f, union drm_amdgpu_bo_list *a);
/* A list of what in says. 0, -EINVAL, -EFAULT, -ENOENT, -ENOMEM. Takes the file's lock. */
int drm_list_new(struct drm_file *f, const struct drm_amdgpu_bo_list_in *in, struct bo_list **out);
struct bo_list *drm_list_get(struct drm_file *f, uint32_t handle); /* or NULL */
void drm_list_put(struct bo_list *l);
void drm_lists_close(struct drm_file *f);
uint64_t drm_lists_alive(void);
void drm_lists_after_fork(void);

/* ---- cs.c, wait.c ------------------------------------------------------------ */

long drm_cs_ioctl(struct drm_file *f, union drm_amdgpu_cs *a);
long drm_wait_cs_ioctl(struct drm_file *f, union drm_amdgpu_wait_cs *a);
long drm_wait_fences_ioctl(struct drm_file *f, union drm_amdgpu_wait_fences *a);
long drm_fence_to_handle_ioctl(struct drm_file *f, union drm_amdgpu_fence_to_handle *a);

/* ---- syncobj.c ---------------------------------------------------------------- */

void drm_syncobjs_close(struct drm_file *f);
void drm_syncobjs_after_fork(void);
uint64_t drm_syncobjs_alive(void);

/* ---- job.c ------------------------------------------------------------------- */

/* Room for max_ibs buffers, with a fence of the entity's. NULL: no memory. */
struct drm_job *drm_job_new(struct drm_file *f, struct drm_entity *e, unsigned max_ibs);
void drm_job_free(struct drm_job *j);                   /* its fence goes on without it */
int drm_job_depend(struct drm_job *j, struct fence *f); /* takes a reference of its own; -ENOMEM */
void drm_job_push(struct drm_entity *e, struct drm_job *j);
int drm_rings_open(void); /* before the first job */
/* All jobs of e are with a ring, or over. */
void drm_entity_flush(struct drm_entity *e);
/* What a file that is closed has under way: see there. */
void drm_jobs_close(struct drm_file *f);
void drm_jobs_after_fork(void);
/* An interrupt of a ring, on the interrupt thread. */
void drm_ring_irq(const struct cp_irq *irq);
/* The GPU's reset, before and behind the hardware's part. */
void drm_rings_stop(void);
void drm_rings_start(void);

/* All of it, when a file is closed for good. */
void drm_submissions_close(struct drm_file *f);
void drm_submissions_after_fork(void);

#endif
