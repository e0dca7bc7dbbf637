/* Waiting for submissions by their numbers: WAIT_CS, WAIT_FENCES, FENCE_TO_HANDLE (amdgpu_cs.c). */
#include <amdgpu_drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drm_file.h"
#include "kfd/vkfd.h"
#include "submit.h"
#include "syncobj.h"

/* 1: it has signaled; 0: not in time; -EINTR; or the job's error. */
static int wait_for(struct fence *f, uint64_t deadline)
{
	int err = 0;

	while (!fence_signaled(f) && !err)
		err = drm_sleep(deadline);
	if (fence_signaled(f))
		return f->error ? f->error : 1;
	return err == -ETIME ? 0 : err;
}

long drm_wait_cs_ioctl(struct drm_file *f, union drm_amdgpu_wait_cs *a)
{
	const struct drm_amdgpu_fence u = {
		.ctx_id = a->in.ctx_id,
		.ip_type = a->in.ip_type,
		.ip_instance = a->in.ip_instance,
		.ring = a->in.ring,
		.seq_no = a->in.handle,
	};
	uint64_t deadline = drm_deadline(a->in.timeout, 0);
	struct fence *fence = NULL;
	int r;

	drm_lock();
	r = drm_ctx_lookup(f, &u, &fence);
	if (!r)
		r = fence ? wait_for(fence, deadline) : 1;
	fence_put(fence);
	drm_unlock();
	if (r < 0)
		return r;
	memset(a, 0, sizeof(*a));
	a->out.status = r == 0;
	return 0;
}

/* One after the other, each with the whole of the time. */
static int wait_all(struct drm_file *f, const struct drm_amdgpu_fence *u, uint32_t n,
		    uint64_t deadline)
{
	int r = 1;

	for (uint32_t i = 0; i < n && r > 0; i++) {
		struct fence *fence = NULL;
		int err = drm_ctx_lookup(f, &u[i], &fence);

		if (err)
			return err;
		if (fence)
			r = wait_for(fence, deadline);
		fence_put(fence);
	}
	return r;
}

/* As wait_for(); *first is the one that had signaled, ~0 if none. */
static int wait_any(struct fence **all, uint32_t n, uint64_t deadline, uint32_t *first)
{
	int err = 0;

	*first = ~0u;
	while (!err) {
		for (uint32_t i = 0; i < n; i++) {
			if (!fence_signaled(all[i]))
				continue;
			*first = i;
			return 1;
		}
		err = drm_sleep(deadline);
	}
	return err == -ETIME ? 0 : err;
}

/* What has been forgotten counts at once, and those behind it are not looked at any more. */
static int look_up_any(struct drm_file *f, const struct drm_amdgpu_fence *u, uint32_t n,
		       struct fence **all, uint32_t *known)
{
	for (*known = 0; *known < n; ++*known) {
		int err = drm_ctx_lookup(f, &u[*known], &all[*known]);

		if (err || !all[*known])
			return err;
	}
	return 0;
}

long drm_wait_fences_ioctl(struct drm_file *f, union drm_amdgpu_wait_fences *a)
{
	uint32_t n = a->in.fence_count, first = 0, known = 0;
	size_t bytes = n * sizeof(struct drm_amdgpu_fence);
	uint64_t deadline = drm_deadline(a->in.timeout_ns, 0);
	bool all = a->in.wait_all;
	struct drm_amdgpu_fence *u;
	struct fence **fences;
	int r, err = 0;

	if (bytes > DRM_MAX_ALLOC)
		return -ENOMEM;
	u = calloc(n + 1ul, sizeof(*u));
	fences = calloc(n + 1ul, sizeof(*fences));
	r = !u || !fences ? -ENOMEM : bytes ? user_read(u, a->in.fences, bytes) : 0;
	if (r)
		goto out;
	drm_lock();
	if (all) {
		r = wait_all(f, u, n, deadline);
	} else {
		r = look_up_any(f, u, n, fences, &known);
		first = known;
		if (!r)
			r = known < n ? 1 : n ? wait_any(fences, n, deadline, &first) : -EINVAL;
		/* It is answered, and the error besides. */
		if (r > 0 && known == n)
			err = fences[first]->error;
	}
	for (uint32_t i = 0; i < known; i++)
		fence_put(fences[i]);
	drm_unlock();
	if (r >= 0) {
		memset(a, 0, sizeof(*a));
		a->out.status = r > 0;
		a->out.first_signaled = all ? 0 : first;
		r = err;
	}
out:
	free(u);
	free(fences);
	return r;
}

long drm_fence_to_handle_ioctl(struct drm_file *f, union drm_amdgpu_fence_to_handle *a)
{
	uint32_t what = a->in.what;
	struct fence *fence = NULL;
	long r;

	drm_lock();
	r = drm_ctx_lookup(f, &a->in.fence, &fence);
	if (!r && !fence)
		fence = fence_past();
	if (!r && what == AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ)
		r = drm_syncobj_of(f, fence, &a->out.handle);
	else if (!r)
		r = -EINVAL;
	fence_put(fence);
	drm_unlock();
	if (what == AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD ||
	    what == AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD)
		vgpu_log("vgpu: FENCE_TO_HANDLE: descriptors of fences are not modelled; "
			 "wanted AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ");
	return r;
}
