/* AMDGPU_CS (amdgpu_cs.c): what a submission says, checked chunk by chunk in the kernel's order, becomes
 * jobs. Nothing is submitted unless all of it is right. */
#include <amdgpu_drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drm_file.h"
#include "gem.h"
#include "kfd/vkfd.h"
#include "submit.h"
#include "syncobj.h"

#ifndef AMDGPU_IB_FLAGS_SECURE
#define AMDGPU_IB_FLAGS_SECURE (1 << 5)
#endif
#define CHUNK_CP_GFX_SHADOW 0x0a
#define MAX_IB_DWORDS       0xfffffu /* the packet's 20 bits: AMDGPU_GFX_SDMA_IB_PACKET_SIZE_MAX_DW */
#define IBS_COMPUTE         125      /* amdgpu_ring_max_ibs */
#define IBS_OTHER           49

/* struct drm_amdgpu_cs_chunk_cp_gfx_shadow of newer headers. */
struct gfx_shadow {
	uint64_t shadow_va, csa_va, gds_va, flags;
};

struct chunk {
	uint32_t id, dwords;
	void *data;
};

struct post {
	struct syncobj *sync;
	uint64_t point;
	struct fence *link; /* for the point; NULL: it is replaced */
};

struct parser {
	struct drm_file *file;
	struct cs_ctx *ctx;
	struct chunk *chunks;
	uint32_t n_chunks;
	struct drm_entity *entity[DRM_GANG];
	struct drm_job *job[DRM_GANG];
	unsigned ibs[DRM_GANG];
	unsigned gang, leader;
	struct gem *uf;
	uint32_t uf_offset;
	struct bo_list *list;
	struct fences deps;
	struct post *post;
	uint32_t n_post;
};

/* ---- first pass: the chunks, one after the other --------------------------- */

/* The index of the job that an IB goes to. With drm_lock(). */
static int job_index(struct parser *p, const struct drm_amdgpu_cs_chunk_ib *ib)
{
	struct drm_entity *e;
	unsigned i;
	int err = drm_ctx_entity(p->ctx, ib->ip_type, ib->ip_instance, ib->ring, &e);

	if (err)
		return err;
	/* An entity of rings that are not there can be named, and cannot be used. */
	if (!drm_rings(ib->ip_type))
		return -EINVAL;
	for (i = 0; i < p->gang; i++) {
		if (p->entity[i] == e)
			return (int)i;
	}
	if (i == DRM_GANG)
		return -EINVAL;
	p->entity[i] = e;
	p->gang++;
	return (int)i;
}

static int first_ib(struct parser *p, const struct drm_amdgpu_cs_chunk_ib *ib)
{
	unsigned most = ib->ip_type == AMDGPU_HW_IP_COMPUTE ? IBS_COMPUTE : IBS_OTHER;
	int i;

	drm_lock();
	i = job_index(p, ib);
	drm_unlock();
	if (i < 0)
		return i;
	if (p->ibs[i] >= most)
		return -EINVAL;
	p->ibs[i]++;
	p->leader = (unsigned)i;
	return 0;
}

static int first_fence(struct parser *p, const struct drm_amdgpu_cs_chunk_fence *c)
{
	if (p->uf)
		return -EINVAL;
	pthread_mutex_lock(&p->file->lock);
	p->uf = drm_gem_find(p->file, c->handle);
	if (p->uf)
		gem_ref(p->uf);
	pthread_mutex_unlock(&p->file->lock);
	if (!p->uf || p->uf->size != 4096 || c->offset > p->uf->size - 8)
		return -EINVAL;
	/* The client's own pages may go away under it. */
	if (p->uf->domain == GEM_PREEMPT)
		return -EINVAL;
	p->uf_offset = c->offset;
	return 0;
}

static int first_chunk(struct parser *p, const struct chunk *c)
{
	size_t size = (size_t)c->dwords * 4;

	switch (c->id) {
	case AMDGPU_CHUNK_ID_IB:
		return size < sizeof(struct drm_amdgpu_cs_chunk_ib) ? -EINVAL
								    : first_ib(p, c->data);
	case AMDGPU_CHUNK_ID_FENCE:
		return size < sizeof(struct drm_amdgpu_cs_chunk_fence) ? -EINVAL
								       : first_fence(p, c->data);
	case AMDGPU_CHUNK_ID_BO_HANDLES:
		if (size < sizeof(struct drm_amdgpu_bo_list_in) || p->list)
			return -EINVAL;
		return drm_list_new(p->file, c->data, &p->list);
	case CHUNK_CP_GFX_SHADOW:
		return size < sizeof(struct gfx_shadow) ? -EINVAL : 0;
	case AMDGPU_CHUNK_ID_DEPENDENCIES:
	case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
	case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
	case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
	case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
	case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
		return 0;
	}
	return -EINVAL;
}

static int read_chunk(struct parser *p, uint64_t at)
{
	struct drm_amdgpu_cs_chunk user;
	struct chunk *c = &p->chunks[p->n_chunks];
	size_t size;

	if (user_read(&user, at, sizeof(user)))
		return -EFAULT;
	c->id = user.chunk_id;
	c->dwords = user.length_dw;
	size = (size_t)c->dwords * 4;
	if (size > DRM_MAX_ALLOC)
		return -ENOMEM;
	c->data = malloc(size + 8);
	if (!c->data)
		return -ENOMEM;
	p->n_chunks++;
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the parser's chunks go in clean() */
	return size && user_read(c->data, user.chunk_data, size) ? -EFAULT : first_chunk(p, c);
}

static int first_pass(struct parser *p, const struct drm_amdgpu_cs_in *in)
{
	size_t bytes = in->num_chunks * sizeof(uint64_t);
	uint64_t *at;
	int err;

	if (bytes > DRM_MAX_ALLOC)
		return -ENOMEM;
	at = malloc(bytes);
	p->chunks = calloc(in->num_chunks, sizeof(*p->chunks));
	err = !at || !p->chunks ? -ENOMEM : user_read(at, in->chunks, bytes);
	for (uint32_t i = 0; i < in->num_chunks && !err; i++)
		err = read_chunk(p, at[i]);
	free(at);
	if (err)
		return err;
	return p->gang ? 0 : -EINVAL;
}

/* ---- second pass: what they come to; with drm_lock() ----------------------- */

static int make_jobs(struct parser *p)
{
	for (unsigned i = 0; i < p->gang; i++) {
		p->job[i] = drm_job_new(p->file, p->entity[i], p->ibs[i]);
		if (!p->job[i])
			return -ENOMEM;
	}
	return 0;
}

static int second_ib(struct parser *p, const struct drm_amdgpu_cs_chunk_ib *ib)
{
	int i = job_index(p, ib);
	struct drm_job *j;

	if (i < 0)
		return i;
	if (ib->ib_bytes / 4 > MAX_IB_DWORDS)
		return -EINVAL;
	j = p->job[i];
	if (!j->n_ibs)
		j->secure = ib->flags & AMDGPU_IB_FLAGS_SECURE;
	j->ib[j->n_ibs++] = (struct cp_ib){ib->va_start, ib->ib_bytes / 4};
	return 0;
}

static int second_dep(struct parser *p, const struct drm_amdgpu_cs_chunk_dep *d, bool scheduled)
{
	const struct drm_amdgpu_fence u = {
		.ctx_id = d->ctx_id,
		.ip_type = d->ip_type,
		.ip_instance = d->ip_instance,
		.ring = d->ring,
		.seq_no = d->handle,
	};
	struct fence *f = NULL;
	int err = drm_ctx_lookup(p->file, &u, &f);

	if (!err && f)
		err = fences_add(&p->deps, scheduled ? f->scheduled : f);
	fence_put(f);
	return err;
}

static int second_wait(struct parser *p, uint32_t handle, uint64_t point, uint64_t flags)
{
	struct fence *f;
	int err = drm_syncobj_fence(p->file, handle, point, flags, &f);

	if (err)
		return err;
	err = fences_add(&p->deps, f);
	fence_put(f);
	return err;
}

/* Only one chunk may say what is to be signaled. */
static int second_post(struct parser *p, const struct chunk *c, bool timeline)
{
	const struct drm_amdgpu_cs_chunk_syncobj *t = c->data;
	const struct drm_amdgpu_cs_chunk_sem *s = c->data;
	uint32_t n = (uint32_t)(c->dwords * 4ull / (timeline ? sizeof(*t) : sizeof(*s)));

	if (p->post)
		return -EINVAL;
	p->post = calloc(n + 1ul, sizeof(*p->post));
	if (!p->post)
		return -ENOMEM;
	for (; p->n_post < n; p->n_post++) {
		struct post *to = &p->post[p->n_post];

		to->sync = drm_syncobj_get(p->file,
					   timeline ? t[p->n_post].handle : s[p->n_post].handle);
		if (!to->sync)
			return -EINVAL;
		if (!timeline || !t[p->n_post].point)
			continue;
		to->point = t[p->n_post].point;
		/* Now, so that nothing can fail once it is submitted. */
		to->link = fence_new(0);
		if (!to->link) {
			p->n_post++; /* clean()'s */
			return -ENOMEM;
		}
	}
	return 0;
}

static int second_chunk(struct parser *p, const struct chunk *c)
{
	const struct drm_amdgpu_cs_chunk_dep *deps = c->data;
	const struct drm_amdgpu_cs_chunk_sem *sems = c->data;
	const struct drm_amdgpu_cs_chunk_syncobj *points = c->data;
	size_t size = (size_t)c->dwords * 4;
	int err = 0;

	switch (c->id) {
	case AMDGPU_CHUNK_ID_IB:
		return second_ib(p, c->data);
	case AMDGPU_CHUNK_ID_DEPENDENCIES:
	case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
		for (size_t i = 0; i < size / sizeof(*deps) && !err; i++)
			err = second_dep(p, &deps[i],
					 c->id == AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES);
		return err;
	case AMDGPU_CHUNK_ID_SYNCOBJ_IN:
		for (size_t i = 0; i < size / sizeof(*sems) && !err; i++)
			err = second_wait(p, sems[i].handle, 0, 0);
		return err;
	case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT:
		for (size_t i = 0; i < size / sizeof(*points) && !err; i++)
			err = second_wait(p, points[i].handle, points[i].point, points[i].flags);
		return err;
	case AMDGPU_CHUNK_ID_SYNCOBJ_OUT:
		return second_post(p, c, false);
	case AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL:
		return second_post(p, c, true);
	case CHUNK_CP_GFX_SHADOW: /* for graphics rings; others take it and leave it */
		return ((const struct gfx_shadow *)c->data)->flags & ~1ull ? -EINVAL : 0;
	}
	return 0;
}

/* ---- submission ------------------------------------------------------------ */

/* The list that the call names, unless a chunk has brought one. */
static int take_list(struct parser *p, uint32_t handle)
{
	if (!handle)
		return 0;
	if (p->list)
		return -EINVAL;
	p->list = drm_list_get(p->file, handle);
	return p->list ? 0 : -ENOENT;
}

/* A number is known for 32 jobs, so no more may be under way. */
static int wait_for_slot(const struct drm_entity *e)
{
	struct fence *other = fence_get(e->fences[e->sequence % DRM_SCHED_JOBS]);
	int err = 0;

	while (other && !other->signaled && !err)
		err = drm_sleep(DRM_FOREVER);
	fence_put(other);
	return err;
}

/* Buffers that other address spaces' jobs use are waited for, unless they are to be left to the clients
 * (amdgpu_sync_resv, AMDGPU_SYNC_NE_OWNER and _EXPLICIT). */
static int sync_buffer(struct parser *p, struct gem *g)
{
	int err = 0;

	if (g->create_flags & AMDGPU_GEM_CREATE_EXPLICIT_SYNC)
		return 0;
	gem_busy(g);
	for (uint32_t i = 0; i < g->fences.n && !err; i++) {
		if (g->fences.at[i]->owner != p->file->client_id)
			err = fences_add(&p->deps, g->fences.at[i]);
	}
	return err;
}

static int sync_rings(struct parser *p)
{
	int err = wait_for_slot(p->entity[p->leader]);

	for (uint32_t i = 0; p->list && i < p->list->n && !err; i++)
		err = sync_buffer(p, p->list->gem[i]);
	if (!err && p->uf)
		err = sync_buffer(p, p->uf);
	for (uint32_t i = 0; i < p->deps.n; i++) {
		for (unsigned k = 0; k < p->gang && !err; k++)
			err = drm_job_depend(p->job[k], p->deps.at[i]);
	}
	/* The leader begins when all others have. */
	for (unsigned k = 0; k < p->gang && !err; k++) {
		if (k != p->leader)
			err = drm_job_depend(p->job[p->leader], p->job[k]->finished->scheduled);
	}
	return err;
}

static int mark_buffers(struct parser *p)
{
	int err = 0;

	for (unsigned k = 0; k < p->gang; k++) {
		for (uint32_t i = 0; p->list && i < p->list->n && !err; i++)
			err = gem_add_fence(p->list->gem[i], p->job[k]->finished);
		if (!err && p->uf)
			err = gem_add_fence(p->uf, p->job[k]->finished);
	}
	return err;
}

static int submit(struct parser *p, uint64_t *seq)
{
	struct drm_job *leader = p->job[p->leader];
	int err = mark_buffers(p);

	if (err)
		return err;
	*seq = drm_ctx_add_fence(p->entity[p->leader], leader->finished);
	for (uint32_t i = 0; i < p->n_post; i++) {
		drm_syncobj_post(p->post[i].sync, leader->finished, p->post[i].point,
				 p->post[i].link);
		p->post[i].link = NULL;
	}
	if (p->uf) {
		/* Through the driver's own address, whatever the client has mapped. */
		leader->cp.fence =
			(uint64_t *)((char *)vm_bo_kmap(p->uf->bo) + (p->uf_offset & ~7u));
		leader->cp.fence_value = *seq;
		leader->uf = p->uf;
		p->uf = NULL;
	}
	for (unsigned k = 0; k < p->gang; k++) {
		drm_job_push(p->entity[k], p->job[k]);
		p->job[k] = NULL;
	}
	return 0;
}

/* With drm_lock(). */
static void clean(struct parser *p)
{
	for (uint32_t i = 0; i < p->n_post; i++) {
		drm_syncobj_put(p->post[i].sync);
		fence_put(p->post[i].link);
	}
	free(p->post);
	fences_drop(&p->deps);
	for (unsigned k = 0; k < p->gang; k++) {
		if (!p->job[k])
			continue;
		/* A buffer that was marked before memory ran out is not to wait for it. */
		fence_signal(p->job[k]->finished, -ECANCELED);
		drm_job_free(p->job[k]);
	}
	drm_list_put(p->list);
	if (p->uf)
		gem_unref(p->uf);
	for (uint32_t i = 0; i < p->n_chunks; i++)
		free(p->chunks[i].data);
	free(p->chunks);
	if (p->ctx)
		drm_ctx_put(p->ctx);
}

long drm_cs_ioctl(struct drm_file *f, union drm_amdgpu_cs *a)
{
	struct parser p = {.file = f};
	uint64_t seq;
	int err = 0;

	if (!a->in.num_chunks)
		return -EINVAL;
	drm_lock();
	p.ctx = drm_ctx_get(f, a->in.ctx_id);
	if (!p.ctx)
		err = -EINVAL;
	else if (p.ctx->guilty)
		err = -ECANCELED;
	else
		err = drm_rings_open();
	drm_unlock();
	if (!err)
		err = first_pass(&p, &a->in);
	drm_lock();
	if (!err)
		err = make_jobs(&p);
	for (uint32_t i = 0; i < p.n_chunks && !err; i++)
		err = second_chunk(&p, &p.chunks[i]);
	if (!err)
		err = take_list(&p, a->in.bo_list_handle);
	if (!err)
		err = sync_rings(&p);
	if (!err)
		err = submit(&p, &seq);
	clean(&p);
	drm_unlock();
	if (!err)
		a->out.handle = seq;
	return err;
}
