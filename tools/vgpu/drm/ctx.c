/* Contexts (amdgpu_ctx.c): priorities, resets, clocks, the fences behind numbers. */
#include <amdgpu_drm.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "drm_file.h"
#include "kfd/vkfd.h"
#include "submit.h"
#include "vm/rawsys.h"

#ifndef AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS
#define AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS (1 << 5)
#endif
#define MAX_CTXS 4095 /* AMDGPU_VM_MAX_NUM_CTX, without 0 */

static struct cs_ctx *pstate_owner; /* adev->pm.stable_pstate_ctx */
static uint32_t pstate;
static uint64_t alive;

void drm_ctx_after_fork(void)
{
	pstate_owner = NULL;
	pstate = AMDGPU_CTX_STABLE_PSTATE_NONE;
	alive = 0;
}

uint64_t drm_ctxs_alive(void)
{
	return __atomic_load_n(&alive, __ATOMIC_RELAXED);
}

uint32_t drm_entities(uint32_t ip)
{
	static const uint8_t n[DRM_HW_IPS] = {
		[AMDGPU_HW_IP_GFX] = 1,     [AMDGPU_HW_IP_COMPUTE] = 4, [AMDGPU_HW_IP_DMA] = 2,
		[AMDGPU_HW_IP_UVD] = 1,     [AMDGPU_HW_IP_VCE] = 1,     [AMDGPU_HW_IP_UVD_ENC] = 1,
		[AMDGPU_HW_IP_VCN_DEC] = 1, [AMDGPU_HW_IP_VCN_ENC] = 1, [AMDGPU_HW_IP_VCN_JPEG] = 1,
		[9 /* VPE */] = 1,
	};

	return ip < DRM_HW_IPS ? n[ip] : 0;
}

uint32_t drm_rings(uint32_t ip)
{
	return ip == AMDGPU_HW_IP_COMPUTE ? DRM_COMPUTE_RINGS
	       : ip == AMDGPU_HW_IP_DMA   ? DRM_SDMA_RINGS
					  : 0;
}

/* ---- entities -------------------------------------------------------------- */

int drm_ctx_entity(struct cs_ctx *c, uint32_t ip, uint32_t instance, uint32_t ring,
		   struct drm_entity **out)
{
	struct drm_entity *e;

	if (ip >= DRM_HW_IPS || instance || ring >= drm_entities(ip))
		return -EINVAL;
	e = c->entity[ip][ring];
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->ctx = c;
		e->ip = ip;
		e->context = fence_context();
		e->sequence = 1;
		e->tail = &e->queue;
		c->entity[ip][ring] = e;
	}
	if (e->last && e->last->error)
		return e->last->error;
	*out = e;
	return 0;
}

static int fence_of(struct drm_entity *e, uint64_t seq, struct fence **out)
{
	if (seq == ~0ull)
		seq = e->sequence - 1;
	if (seq >= e->sequence)
		return -EINVAL;
	*out = seq + DRM_SCHED_JOBS < e->sequence ? NULL
						  : fence_get(e->fences[seq % DRM_SCHED_JOBS]);
	return 0;
}

int drm_ctx_lookup(struct drm_file *f, const struct drm_amdgpu_fence *u, struct fence **out)
{
	struct cs_ctx *c = drm_ctx_get(f, u->ctx_id);
	struct drm_entity *e;
	int err;

	if (!c)
		return -EINVAL;
	err = drm_ctx_entity(c, u->ip_type, u->ip_instance, u->ring, &e);
	if (!err)
		err = fence_of(e, u->seq_no, out);
	drm_ctx_put(c);
	return err;
}

/* amdgpu_ctx_fence_time */
static uint64_t time_of(const struct fence *f)
{
	if (!f || !f->begun)
		return 0;
	return (f->signaled ? f->ended : vgpu_clock_ns()) - f->begun;
}

uint64_t drm_ctx_add_fence(struct drm_entity *e, struct fence *f)
{
	struct fence **at = &e->fences[e->sequence % DRM_SCHED_JOBS];

	e->ctx->spent[e->ip] += time_of(*at);
	fence_put(*at);
	*at = fence_get(f);
	return e->sequence++;
}

/* ---- clocks ---------------------------------------------------------------- */

/* Nothing here runs at another speed for it; who may set it, and what is answered, is the kernel's. */
static int set_pstate(struct cs_ctx *c, uint32_t wanted)
{
	if (pstate_owner && pstate_owner != c)
		return -EBUSY;
	if (pstate == wanted)
		return 0;
	if (!pstate_owner) {
		pstate_owner = c;
		c->pstate = pstate;
	}
	pstate = wanted;
	return 0;
}

/* ---- lifetime -------------------------------------------------------------- */

void drm_ctx_unref(struct cs_ctx *c)
{
	if (!--c->refs)
		free(c);
}

/* Jobs that are queued are waited for (drm_sched_entity_destroy); their fences live on. */
void drm_ctx_put(struct cs_ctx *c)
{
	if (--c->users)
		return;
	for (unsigned i = 0; i < DRM_HW_IPS; i++) {
		for (unsigned k = 0; k < DRM_MAX_ENTITIES; k++) {
			struct drm_entity *e = c->entity[i][k];

			if (!e)
				continue;
			drm_entity_flush(e);
			for (unsigned n = 0; n < DRM_SCHED_JOBS; n++) {
				c->spent[i] += time_of(e->fences[n]);
				fence_put(e->fences[n]);
			}
			fence_put(e->last);
			free(e);
			c->entity[i][k] = NULL;
		}
	}
	if (pstate_owner == c) {
		pstate = c->pstate;
		pstate_owner = NULL;
	}
	__atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
	drm_ctx_unref(c);
}

void drm_ctxs_close(struct drm_file *f)
{
	for (uint32_t i = 0; i < f->sub.ctxs.n; i++) {
		struct cs_ctx *c = f->sub.ctxs.slot[i];

		if (c) {
			idr_remove(&f->sub.ctxs, i);
			drm_ctx_put(c);
		}
	}
	free(f->sub.ctxs.slot);
	memset(&f->sub.ctxs, 0, sizeof(f->sub.ctxs));
}

static struct cs_ctx *find(struct drm_file *f, uint32_t id)
{
	return id ? idr_find(&f->sub.ctxs, id - 1) : NULL;
}

struct cs_ctx *drm_ctx_get(struct drm_file *f, uint32_t id)
{
	struct cs_ctx *c = find(f, id);

	if (c)
		c->users++;
	return c;
}

/* ---- the call -------------------------------------------------------------- */

static bool priority_known(int32_t p)
{
	switch (p) {
	case AMDGPU_CTX_PRIORITY_VERY_LOW:
	case AMDGPU_CTX_PRIORITY_LOW:
	case AMDGPU_CTX_PRIORITY_NORMAL:
	case AMDGPU_CTX_PRIORITY_HIGH:
	case AMDGPU_CTX_PRIORITY_VERY_HIGH:
		return true;
	}
	return false;
}

static bool may_be_nice(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {0};

	return !rawsys2(SYS_capget, &h, d) && d[0].effective >> CAP_SYS_NICE & 1;
}

/* *id is 0 where the number was there and the context was not to be. */
static int alloc(struct drm_file *f, int32_t priority, uint32_t *id)
{
	struct cs_ctx *c = calloc(1, sizeof(*c));
	int n;

	if (!c)
		return -ENOMEM;
	n = idr_alloc(&f->sub.ctxs, c, MAX_CTXS);
	if (n < 0) {
		free(c);
		return n;
	}
	*id = (uint32_t)n + 1;
	if (priority > AMDGPU_CTX_PRIORITY_NORMAL && !may_be_nice()) {
		idr_remove(&f->sub.ctxs, (uint32_t)n);
		free(c);
		*id = 0;
		return -EACCES;
	}
	c->refs = c->users = 1;
	c->spent = f->sub.spent;
	c->priority = priority;
	c->reset_counter = c->reset_counter_query = vgpu_resets();
	__atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
	return 0;
}

static int query(struct drm_file *f, uint32_t id, union drm_amdgpu_ctx_out *out)
{
	struct cs_ctx *c = find(f, id);
	uint32_t resets = vgpu_resets();

	if (!c)
		return -EINVAL;
	out->state.flags = 0;
	out->state.hangs = 0;
	out->state.reset_status =
		c->reset_counter_query == resets ? AMDGPU_CTX_NO_RESET : AMDGPU_CTX_UNKNOWN_RESET;
	c->reset_counter_query = resets;
	return 0;
}

/* VRAMLOST never: MODE2 leaves memory as it is (amdgpu_device_check_vram_lost). */
static int query2(struct drm_file *f, uint32_t id, union drm_amdgpu_ctx_out *out)
{
	struct cs_ctx *c = find(f, id);

	if (!c)
		return -EINVAL;
	out->state.flags = 0;
	out->state.hangs = 0;
	if (c->reset_counter != vgpu_resets())
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_RESET;
	if (c->guilty)
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_GUILTY;
	if (vgpu_in_reset())
		out->state.flags |= AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS;
	return 0;
}

static long act(struct drm_file *f, union drm_amdgpu_ctx *a)
{
	uint32_t op = a->in.op, flags = a->in.flags, id = a->in.ctx_id;
	int32_t priority =
		priority_known(a->in.priority) ? a->in.priority : AMDGPU_CTX_PRIORITY_NORMAL;
	struct cs_ctx *c;
	long r;

	if (op == AMDGPU_CTX_OP_SET_STABLE_PSTATE) {
		if (flags & ~(uint32_t)AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK ||
		    flags > AMDGPU_CTX_STABLE_PSTATE_PEAK)
			return -EINVAL;
		c = find(f, id);
		return c ? set_pstate(c, flags) : -EINVAL;
	}
	if (op < AMDGPU_CTX_OP_ALLOC_CTX || op > AMDGPU_CTX_OP_GET_STABLE_PSTATE || flags)
		return -EINVAL;
	switch (op) {
	case AMDGPU_CTX_OP_ALLOC_CTX:
		r = alloc(f, priority, &id);
		a->out.alloc.ctx_id = id;
		return r;
	case AMDGPU_CTX_OP_QUERY_STATE:
		return query(f, id, &a->out);
	case AMDGPU_CTX_OP_QUERY_STATE2:
		return query2(f, id, &a->out);
	}
	c = find(f, id);
	if (!c)
		return -EINVAL;
	if (op == AMDGPU_CTX_OP_FREE_CTX) {
		idr_remove(&f->sub.ctxs, id - 1);
		drm_ctx_put(c);
	} else {
		a->out.pstate.flags = pstate;
	}
	return 0;
}

long drm_ctx_ioctl(struct drm_file *f, union drm_amdgpu_ctx *a)
{
	long r;

	drm_lock();
	r = act(f, a);
	drm_unlock();
	return r;
}

int drm_ctxs_fdinfo(struct drm_file *f, char *buf, size_t n)
{
	static const char *const names[DRM_HW_IPS] = {
		[AMDGPU_HW_IP_COMPUTE] = "compute", [AMDGPU_HW_IP_DMA] = "dma"};
	int len = 0;

	drm_lock();
	for (unsigned ip = 0; ip < DRM_HW_IPS; ip++) {
		uint64_t ns = f->sub.spent[ip];

		for (uint32_t i = 0; i < f->sub.ctxs.n; i++) {
			const struct cs_ctx *c = f->sub.ctxs.slot[i];

			for (unsigned k = 0; c && k < DRM_MAX_ENTITIES; k++) {
				for (unsigned j = 0; c->entity[ip][k] && j < DRM_SCHED_JOBS; j++)
					ns += time_of(c->entity[ip][k]->fences[j]);
			}
		}
		if (ns && names[ip] && (size_t)len < n)
			len += snprintf(buf + len, n - (size_t)len, "drm-engine-%s:\t%llu ns\n",
					names[ip], (unsigned long long)ns);
	}
	drm_unlock();
	return len;
}
