/* Synchronisation objects: see syncobj.h. Everything but the entry is under drm_lock(). */
#include "syncobj.h"

#include <drm.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drm_file.h"
#include "kfd/vkfd.h"
#include "submit.h"

/* Of newer headers. */
#ifndef DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE
#define DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE (1 << 3)
#endif

#define WAIT_ALL        DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL
#define WAIT_FOR_SUBMIT DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
#define WAIT_AVAILABLE  DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE
#define WAIT_DEADLINE   DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE
/* DRM_SYNCOBJ_WAIT_FOR_SUBMIT_TIMEOUT */
#define SUBMIT_TIMEOUT_NS 5000000000ull

struct syncobj {
	uint32_t refs;
	struct fence *fence;
	struct waiter *waiters; /* for a fence to come */
};

/* Somebody waits for a fence, or for a point, that is not there yet. */
struct waiter {
	struct waiter *next, **prev; /* prev NULL: not on a list */
	uint64_t point;
	struct fence *fence;
};

static uint64_t alive;

uint64_t drm_syncobjs_alive(void)
{
	return __atomic_load_n(&alive, __ATOMIC_RELAXED);
}

void drm_syncobjs_after_fork(void)
{
	alive = 0;
}

/* ---- the object ------------------------------------------------------------ */

static struct syncobj *new(struct fence *f)
{
	struct syncobj *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->refs = 1;
	s->fence = fence_get(f);
	__atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
	return s;
}

void drm_syncobj_put(struct syncobj *s)
{
	if (!s || --s->refs)
		return;
	fence_put(s->fence);
	free(s);
	__atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
}

struct syncobj *drm_syncobj_get(struct drm_file *f, uint32_t handle)
{
	struct syncobj *s = handle ? idr_find(&f->sub.syncobjs, handle - 1) : NULL;

	if (s)
		s->refs++;
	return s;
}

static int number(struct drm_file *f, struct syncobj *s, uint32_t *handle)
{
	int id = idr_alloc(&f->sub.syncobjs, s, INT32_MAX);

	if (id < 0)
		return id;
	s->refs++;
	*handle = (uint32_t)id + 1;
	return 0;
}

/* The fence that s has for a point, with a reference; a signaled one for a point long past. NULL: not
 * yet. */
static struct fence *at_point(struct syncobj *s, uint64_t point)
{
	struct fence *f = fence_get(s->fence);

	if (!f)
		return NULL;
	if (fence_find(&f, point)) {
		fence_put(f);
		return NULL;
	}
	return f ? f : fence_past();
}

static void unlist(struct waiter *w)
{
	if (!w->prev)
		return;
	*w->prev = w->next;
	if (w->next)
		w->next->prev = w->prev;
	w->prev = NULL;
}

static void enlist(struct syncobj *s, struct waiter *w)
{
	w->next = s->waiters;
	w->prev = &s->waiters;
	if (w->next)
		w->next->prev = &w->next;
	s->waiters = w;
}

/* Another fence: those who waited for it have it now, whatever comes next. */
static void changed(struct syncobj *s)
{
	struct waiter *next;

	for (struct waiter *w = s->waiters; w; w = next) {
		next = w->next;
		w->fence = at_point(s, w->point);
		if (w->fence)
			unlist(w);
	}
	drm_news();
}

static void replace(struct syncobj *s, struct fence *f)
{
	struct fence *old = s->fence;

	s->fence = fence_get(f);
	if (old != f)
		changed(s);
	fence_put(old);
}

/* Takes link, a new fence. */
static void add_point(struct syncobj *s, struct fence *f, uint64_t point, struct fence *link)
{
	fence_link(link, s->fence, f, point);
	s->fence = link;
	changed(s);
	/* Drops what has signaled. */
	for (f = fence_get(link); f; f = fence_walk(f))
		;
}

void drm_syncobj_post(struct syncobj *s, struct fence *f, uint64_t point, struct fence *link)
{
	if (link)
		add_point(s, f, point, link);
	else
		replace(s, f);
}

int drm_syncobj_of(struct drm_file *f, struct fence *fence, uint32_t *handle)
{
	struct syncobj *s = new (fence);
	int err = s ? number(f, s, handle) : -ENOMEM;

	drm_syncobj_put(s);
	return err;
}

/* ---- waiting --------------------------------------------------------------- */

int drm_syncobj_fence(struct drm_file *f, uint32_t handle, uint64_t point, uint64_t flags,
		      struct fence **out)
{
	struct syncobj *s = drm_syncobj_get(f, handle);
	struct waiter w = {.point = point};
	uint64_t end = drm_now() + SUBMIT_TIMEOUT_NS;
	int err = 0;

	if (!s)
		return -ENOENT;
	if (flags & ~(uint64_t)WAIT_FOR_SUBMIT) {
		err = -EINVAL;
		goto out;
	}
	w.fence = at_point(s, point);
	if (!w.fence && !(flags & WAIT_FOR_SUBMIT))
		err = -EINVAL;
	if (!w.fence && !err)
		enlist(s, &w);
	while (!w.fence && !err)
		err = drm_sleep(end);
	if (w.fence)
		err = 0;
	unlist(&w);
	*out = w.fence;
out:
	drm_syncobj_put(s);
	return err;
}

/* Whether entry i counts, and *first. */
static uint32_t count(struct waiter *w, uint32_t n, uint32_t flags, uint32_t *first)
{
	uint32_t got = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!w[i].fence || (!(flags & WAIT_AVAILABLE) && !fence_signaled(w[i].fence)))
			continue;
		if (!got++)
			*first = i;
	}
	return got;
}

/* drm_syncobj_array_wait_timeout: 0, -EINVAL for a fence that is not there, -ETIME, -EINTR, -ENOMEM. */
static int wait_array(struct syncobj **s, const uint64_t *points, uint32_t n, uint32_t flags,
		      uint64_t deadline, uint32_t *first)
{
	struct waiter *w = calloc(n, sizeof(*w));
	uint32_t wanted = flags & WAIT_ALL ? n : 1;
	int err = w ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !err; i++) {
		w[i].point = points[i];
		w[i].fence = at_point(s[i], points[i]);
		if (!w[i].fence && !(flags & (WAIT_FOR_SUBMIT | WAIT_AVAILABLE)))
			err = -EINVAL;
	}
	for (uint32_t i = 0; i < n && !err; i++) {
		if (!w[i].fence)
			enlist(s[i], &w[i]);
	}
	*first = ~0u;
	while (!err && count(w, n, flags, first) < wanted)
		err = drm_sleep(deadline);
	for (uint32_t i = 0; w && i < n; i++) {
		unlist(&w[i]);
		fence_put(w[i].fence);
	}
	free(w);
	return err;
}

/* ---- arrays ---------------------------------------------------------------- */

struct array {
	struct syncobj **s;
	uint64_t *points;
	uint32_t n;
};

static void array_free(struct array *a)
{
	for (uint32_t i = 0; a->s && i < a->n; i++)
		drm_syncobj_put(a->s[i]);
	free(a->s);
	free(a->points);
}

/* The objects of n handles and, where there are some, their points. -ENOMEM, -EFAULT, -ENOENT. */
static int array_find(struct drm_file *f, uint64_t handles, uint64_t points, uint32_t n,
		      struct array *a)
{
	uint32_t *h = NULL;
	int err = 0;

	*a = (struct array){.n = 0};
	if (n * 8ull > DRM_MAX_ALLOC)
		return -ENOMEM;
	h = calloc(n, sizeof(*h));
	a->s = calloc(n, sizeof(*a->s));
	a->points = calloc(n, sizeof(*a->points));
	if (!h || !a->s || !a->points)
		err = -ENOMEM;
	if (!err)
		err = user_read(h, handles, n * sizeof(*h));
	for (; !err && a->n < n; a->n += !err) {
		a->s[a->n] = drm_syncobj_get(f, h[a->n]);
		err = a->s[a->n] ? 0 : -ENOENT;
	}
	if (!err && points)
		err = user_read(a->points, points, n * sizeof(*a->points));
	free(h);
	if (err)
		array_free(a);
	return err;
}

/* ---- the calls ------------------------------------------------------------- */

static long create(struct drm_file *f, struct drm_syncobj_create *a)
{
	struct fence *fence;
	int err;

	if (a->flags & ~(uint32_t)DRM_SYNCOBJ_CREATE_SIGNALED)
		return -EINVAL;
	fence = a->flags ? fence_past() : NULL;
	err = drm_syncobj_of(f, fence, &a->handle);
	fence_put(fence);
	return err;
}

static long destroy(struct drm_file *f, const struct drm_syncobj_destroy *a)
{
	struct syncobj *s;

	if (a->pad)
		return -EINVAL;
	s = a->handle ? idr_find(&f->sub.syncobjs, a->handle - 1) : NULL;
	if (!s)
		return -EINVAL;
	idr_remove(&f->sub.syncobjs, a->handle - 1);
	drm_syncobj_put(s);
	return 0;
}

static long wait_on(struct drm_file *f, uint64_t handles, uint64_t points, uint32_t n,
		    uint32_t flags, int64_t until, uint32_t *first_signaled)
{
	struct array s;
	uint32_t first;
	int err;

	if (!n)
		return 0;
	err = array_find(f, handles, points, n, &s);
	if (err)
		return err;
	err = wait_array(s.s, s.points, n, flags, drm_deadline((uint64_t)until, 1), &first);
	if (!err)
		*first_signaled = first;
	array_free(&s);
	return err;
}

static long wait_call(struct drm_file *f, struct drm_syncobj_wait *a)
{
	if (a->flags & ~(uint32_t)(WAIT_ALL | WAIT_FOR_SUBMIT | WAIT_DEADLINE))
		return -EINVAL;
	return wait_on(f, a->handles, 0, a->count_handles, a->flags, a->timeout_nsec,
		       &a->first_signaled);
}

static long timeline_wait(struct drm_file *f, struct drm_syncobj_timeline_wait *a)
{
	if (a->flags & ~(uint32_t)(WAIT_ALL | WAIT_FOR_SUBMIT | WAIT_AVAILABLE | WAIT_DEADLINE))
		return -EINVAL;
	return wait_on(f, a->handles, a->points, a->count_handles, a->flags, a->timeout_nsec,
		       &a->first_signaled);
}

static long reset_or_signal(struct drm_file *f, const struct drm_syncobj_array *a, bool signal)
{
	struct array s;
	int err;

	if (a->pad || !a->count_handles)
		return -EINVAL;
	err = array_find(f, a->handles, 0, a->count_handles, &s);
	if (err)
		return err;
	for (uint32_t i = 0; i < s.n; i++) {
		struct fence *fence = signal ? fence_past() : NULL;

		replace(s.s[i], fence);
		fence_put(fence);
	}
	array_free(&s);
	return 0;
}

static long timeline_signal(struct drm_file *f, const struct drm_syncobj_timeline_array *a)
{
	struct fence *past, *links = NULL, *link;
	struct array s;
	int err;

	if (a->flags || !a->count_handles)
		return -EINVAL;
	err = array_find(f, a->handles, a->points, a->count_handles, &s);
	if (err)
		return err;
	/* All there are, or none is used. */
	for (uint32_t i = 0; i < s.n && !err; i++) {
		link = fence_new(0);
		if (link) {
			link->prev = links;
			links = link;
		} else {
			err = -ENOMEM;
		}
	}
	past = fence_past();
	for (uint32_t i = 0; i < s.n && !err; i++) {
		link = links;
		links = link->prev;
		add_point(s.s[i], past, s.points[i], link);
	}
	fence_put(past);
	fence_put(links);
	array_free(&s);
	return err;
}

/* How far a timeline has come: the last point that has signaled, or was submitted. */
static uint64_t progress(struct fence *f, bool submitted)
{
	struct fence *last, *at;
	uint64_t point;

	if (!f || !f->chain)
		return 0;
	if (submitted)
		return f->seqno;
	last = fence_get(f);
	for (at = fence_get(f); at; at = fence_walk(at)) {
		/* Points out of order begin a timeline of their own. */
		if (at->context != f->context) {
			fence_put(at);
			break;
		}
		fence_put(last);
		last = fence_get(at);
	}
	/* A fence that is no link signals no point: what is behind it has none. */
	point = fence_signaled(last) ? last->seqno : last->prev_seqno;
	fence_put(last);
	return point;
}

static long query(struct drm_file *f, const struct drm_syncobj_timeline_array *a)
{
	struct array s;
	int err;

	if (a->flags & ~(uint32_t)DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED || !a->count_handles)
		return -EINVAL;
	err = array_find(f, a->handles, 0, a->count_handles, &s);
	if (err)
		return err;
	for (uint32_t i = 0; i < s.n && !err; i++) {
		uint64_t point = progress(s.s[i]->fence, a->flags != 0);

		err = user_write(a->points + i * sizeof(point), &point, sizeof(point));
	}
	array_free(&s);
	return err;
}

static long transfer(struct drm_file *f, const struct drm_syncobj_transfer *a)
{
	struct fence *fence, *link = NULL;
	struct syncobj *to;
	int err;

	if (a->pad)
		return -EINVAL;
	to = drm_syncobj_get(f, a->dst_handle);
	if (!to)
		return -ENOENT;
	err = drm_syncobj_fence(f, a->src_handle, a->src_point, a->flags, &fence);
	if (!err) {
		/* What is in links becomes what is in one link (dma_fence_unwrap_merge). */
		while (fence->chain && !fence->prev) {
			struct fence *held = fence_get(fence->contained);

			fence_put(fence);
			fence = held;
		}
		if (a->dst_point && !(link = fence_new(0)))
			err = -ENOMEM;
		else
			drm_syncobj_post(to, fence, a->dst_point, link);
		fence_put(fence);
	}
	drm_syncobj_put(to);
	return err;
}

unsigned drm_syncobj_size(unsigned nr)
{
	switch (nr) {
	case 0xbf:
		return sizeof(struct drm_syncobj_create);
	case 0xc0:
		return sizeof(struct drm_syncobj_destroy);
	case 0xc3:
		/* The deadline came with 6.6. */
		return sizeof(struct drm_syncobj_wait) + 8;
	case 0xc4:
	case 0xc5:
		return sizeof(struct drm_syncobj_array);
	case 0xca:
		return sizeof(struct drm_syncobj_timeline_wait) + 8;
	case 0xcb:
	case 0xcd:
		return sizeof(struct drm_syncobj_timeline_array);
	case 0xcc:
		return sizeof(struct drm_syncobj_transfer);
	}
	return 0;
}

static long act(struct drm_file *f, unsigned nr, void *a)
{
	switch (nr) {
	case 0xbf:
		return create(f, a);
	case 0xc0:
		return destroy(f, a);
	case 0xc3:
		return wait_call(f, a);
	case 0xc4:
	case 0xc5:
		return reset_or_signal(f, a, nr == 0xc5);
	case 0xca:
		return timeline_wait(f, a);
	case 0xcb:
		return query(f, a);
	case 0xcc:
		return transfer(f, a);
	case 0xcd:
		return timeline_signal(f, a);
	}
	return -EINVAL;
}

long drm_syncobj_ioctl(struct drm_file *f, unsigned nr, void *a)
{
	long r;

	drm_lock();
	r = act(f, nr, a);
	drm_unlock();
	return r;
}

void drm_syncobjs_close(struct drm_file *f)
{
	for (uint32_t i = 0; i < f->sub.syncobjs.n; i++)
		drm_syncobj_put(f->sub.syncobjs.slot[i]);
	free(f->sub.syncobjs.slot);
	memset(&f->sub.syncobjs, 0, sizeof(f->sub.syncobjs));
}
