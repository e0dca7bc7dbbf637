/* Synchronisation objects of the DRM core with submissions between them: binary ones and timelines. */
#include "cs_child.h"

#define ALL       DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL
#define SUBMITTED DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
#define AVAILABLE DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE

/* libdrm returns -1 with errno from these, or -errno. */
static int wait_for(uint32_t *h, unsigned n, uint64_t ns, unsigned flags, uint32_t *first)
{
	return result_of(
		amdgpu_cs_syncobj_wait(dev, h, n, ns ? (int64_t)(now_ns() + ns) : 0, flags, first));
}

static int wait_points(uint32_t *h, uint64_t *points, unsigned n, uint64_t ns, unsigned flags,
		       uint32_t *first)
{
	return result_of(amdgpu_cs_syncobj_timeline_wait(
		dev, h, points, n, ns ? (int64_t)(now_ns() + ns) : 0, flags, first));
}

/* A job of one wait for data.p[word], between objects. */
static int submit_between(unsigned word, unsigned in, const void *ins, size_t in_bytes,
			  unsigned out, const void *outs, size_t out_bytes, unsigned ring)
{
	struct drm_amdgpu_cs_chunk_ib b = {.ip_type = AMDGPU_HW_IP_COMPUTE, .ring = ring};
	struct drm_amdgpu_cs_chunk c[3] = {
		{.chunk_id = AMDGPU_CHUNK_ID_IB, .length_dw = sizeof(b) / 4}};
	uint64_t seq;
	int n = 1;

	b.va_start = ib.va + at * 4ull;
	put_wait(data.va + 4 * word, 1);
	b.ib_bytes = 28;
	c[0].chunk_data = (uintptr_t)&b;
	if (in)
		c[n++] = (struct drm_amdgpu_cs_chunk){in, (uint32_t)(in_bytes / 4), (uintptr_t)ins};
	if (out)
		c[n++] = (struct drm_amdgpu_cs_chunk){out, (uint32_t)(out_bytes / 4),
						      (uintptr_t)outs};
	return result_of(amdgpu_cs_submit_raw2(dev, ctx, 0, n, c, &seq));
}

IN_CHILD(objects, "")
{
	struct drm_syncobj_create c = {.flags = 2};
	struct drm_syncobj_destroy d = {.pad = 1};
	struct drm_syncobj_array a = {0};
	uint32_t h[3], first;

	client_open();
	GIVES(-EINVAL, ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &c));
	OK(amdgpu_cs_create_syncobj(dev, &h[0]));
	OK(amdgpu_cs_create_syncobj2(dev, DRM_SYNCOBJ_CREATE_SIGNALED, &h[1]));
	TRUE(h[0] == 1 && h[1] == 2);
	/* Without a fence there is nothing to wait for, but one to come. */
	GIVES(-EINVAL, wait_for(h, 1, NO_TIME, 0, &first));
	GIVES(-EINVAL, wait_for(h, 2, NO_TIME, 0, &first));
	GIVES(-ETIME, wait_for(h, 1, 20000000, SUBMITTED, &first));
	OK(wait_for(h, 2, NO_TIME, SUBMITTED, &first));
	TRUE(first == 1);
	GIVES(-ETIME, wait_for(h, 2, NO_TIME, SUBMITTED | ALL, &first));
	OK(wait_for(&h[1], 1, NO_TIME, 0, &first));
	TRUE(first == 0);
	OK(amdgpu_cs_syncobj_signal(dev, h, 1));
	OK(wait_for(h, 2, NO_TIME, ALL, &first));
	OK(amdgpu_cs_syncobj_reset(dev, h, 2));
	GIVES(-EINVAL, wait_for(h, 2, NO_TIME, 0, &first));
	OK(wait_for(h, 0, NO_TIME, 0, &first));
	GIVES(-EINVAL, wait_for(h, 1, NO_TIME, 16, &first));
	GIVES(-EINVAL, wait_for(h, 1, NO_TIME, AVAILABLE, &first)); /* a timeline's */
	h[2] = 99;
	GIVES(-ENOENT, wait_for(h, 3, NO_TIME, 0, &first));
	GIVES(-EFAULT, wait_for((void *)8, 1, NO_TIME, 0, &first));
	GIVES(-ENOENT, amdgpu_cs_syncobj_reset(dev, &h[2], 1));
	GIVES(-EINVAL, amdgpu_cs_syncobj_reset(dev, h, 0));
	GIVES(-EINVAL, amdgpu_cs_syncobj_signal(dev, h, 0));
	a = (struct drm_syncobj_array){.handles = (uintptr_t)h, .count_handles = 1, .pad = 1};
	GIVES(-EINVAL, ioctl(fd, DRM_IOCTL_SYNCOBJ_RESET, &a));
	GIVES(-EINVAL, ioctl(fd, DRM_IOCTL_SYNCOBJ_SIGNAL, &a));
	d.handle = h[0];
	GIVES(-EINVAL, ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &d));
	OK(amdgpu_cs_destroy_syncobj(dev, h[0]));
	GIVES(-EINVAL, amdgpu_cs_destroy_syncobj(dev, h[0]));
	GIVES(-EINVAL, amdgpu_cs_destroy_syncobj(dev, 0));
	client_close(); /* the other goes with the file */
}

static uint32_t handle_of_thread;
static void *signal_later(void *unused)
{
	struct timespec ts = {0, 20000000};

	(void)unused;
	nanosleep(&ts, NULL);
	/* There and away again: who waits has it all the same. */
	amdgpu_cs_syncobj_signal(dev, &handle_of_thread, 1);
	amdgpu_cs_syncobj_reset(dev, &handle_of_thread, 1);
	return NULL;
}

IN_CHILD(a_fence_to_come, "")
{
	uint32_t first;
	pthread_t t;

	client_open();
	OK(amdgpu_cs_create_syncobj(dev, &handle_of_thread));
	pthread_create(&t, NULL, signal_later, NULL);
	OK(wait_for(&handle_of_thread, 1, MINUTE, SUBMITTED, &first));
	pthread_join(t, NULL);
	client_close();
}

IN_CHILD(between_jobs, "")
{
	struct drm_amdgpu_cs_chunk_sem one, two;
	uint32_t h[2], first;

	client_open();
	OK(amdgpu_cs_create_syncobj(dev, &h[0]));
	OK(amdgpu_cs_create_syncobj(dev, &h[1]));
	one.handle = h[0];
	two.handle = h[1];
	at = 0;
	/* An object without a fence cannot be waited for by a job. */
	GIVES(-EINVAL, submit_between(0, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &one, 4, 0, NULL, 0, 0));
	one.handle = 99;
	GIVES(-ENOENT, submit_between(0, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &one, 4, 0, NULL, 0, 0));
	GIVES(-EINVAL, submit_between(0, 0, NULL, 0, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &one, 4, 0));
	GIVES(-EINVAL, submit_between(0, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &two, 4,
				      AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &two, 4, 0));
	one.handle = h[0];
	at = 0;
	OK(submit_between(0, 0, NULL, 0, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &one, 4, 0));
	OK(submit_between(1, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &one, 4, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &two,
			  4, 1));
	data.p[1] = 1;
	GIVES(-ETIME, wait_for(h, 2, 20000000, 0, &first));
	data.p[0] = 1;
	OK(wait_for(h, 2, MINUTE, ALL, &first));
	client_close();
}

IN_CHILD(timelines, "")
{
	struct drm_amdgpu_cs_chunk_syncobj in = {.point = 1}, out = {.point = 2};
	uint64_t p[2] = {1, 0}, point = 0;
	uint32_t h[2], first;

	client_open();
	OK(amdgpu_cs_create_syncobj(dev, &h[0]));
	OK(amdgpu_cs_create_syncobj(dev, &h[1]));
	in.handle = out.handle = h[0];
	OK(amdgpu_cs_syncobj_query(dev, h, &point, 1));
	TRUE(point == 0);
	GIVES(-EINVAL, wait_points(h, p, 1, NO_TIME, 0, &first));
	GIVES(-ETIME, wait_points(h, p, 1, NO_TIME, SUBMITTED, &first));
	GIVES(-ETIME, wait_points(h, p, 1, 20000000, AVAILABLE, &first));
	at = 0;
	/* A job that signals point 1, one that waits for it and signals 2. */
	out.point = 1;
	OK(submit_between(0, 0, NULL, 0, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &out, 16, 0));
	out.point = 2;
	OK(submit_between(1, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &in, 16,
			  AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &out, 16, 1));
	in.point = 7;
	GIVES(-EINVAL,
	      submit_between(2, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &in, 16, 0, NULL, 0, 2));
	in.flags = 1;
	GIVES(-EINVAL,
	      submit_between(2, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &in, 16, 0, NULL, 0, 2));
	OK(amdgpu_cs_syncobj_query2(dev, h, &point, 1, DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED));
	TRUE(point == 2);
	OK(amdgpu_cs_syncobj_query(dev, h, &point, 1));
	TRUE(point == 0);
	OK(wait_points(h, p, 1, NO_TIME, AVAILABLE, &first));
	GIVES(-ETIME, wait_points(h, p, 1, NO_TIME, 0, &first));
	p[0] = 3;
	GIVES(-EINVAL, wait_points(h, p, 1, NO_TIME, 0, &first));
	data.p[0] = 1;
	p[0] = 1;
	OK(wait_points(h, p, 1, MINUTE, 0, &first));
	OK(amdgpu_cs_syncobj_query(dev, h, &point, 1));
	TRUE(point == 1);
	data.p[1] = 1;
	p[0] = 2;
	OK(wait_points(h, p, 1, MINUTE, 0, &first));
	/* By hand: points, and 0 is the object as such. */
	p[0] = 5;
	OK(amdgpu_cs_syncobj_timeline_signal(dev, h, p, 1));
	OK(amdgpu_cs_syncobj_query(dev, h, &point, 1));
	TRUE(point == 5);
	p[0] = 4; /* long past */
	OK(wait_points(h, p, 1, NO_TIME, 0, &first));
	/* Out of order: the timeline does not go back. */
	p[0] = 3;
	OK(amdgpu_cs_syncobj_timeline_signal(dev, h, p, 1));
	OK(amdgpu_cs_syncobj_query(dev, h, &point, 1));
	TRUE(point == 5);
	GIVES(-EINVAL, amdgpu_cs_syncobj_timeline_signal(dev, h, p, 0));
	GIVES(-EINVAL, amdgpu_cs_syncobj_query(dev, h, &point, 0));
	GIVES(-EINVAL, amdgpu_cs_syncobj_query2(dev, h, &point, 1, 2));
	GIVES(-EFAULT, amdgpu_cs_syncobj_query(dev, h, (void *)8, 1));
	GIVES(-EFAULT, wait_points(h, (void *)8, 1, NO_TIME, 0, &first));
	GIVES(-EINVAL, wait_points(h, p, 1, NO_TIME, 16, &first));
	OK(wait_points(h, p, 0, NO_TIME, 0, &first));
	/* From one to the other. */
	GIVES(-EINVAL, amdgpu_cs_syncobj_transfer(dev, h[1], 0, h[0], 9, 0));
	GIVES(-ENOENT, amdgpu_cs_syncobj_transfer(dev, 99, 0, h[0], 1, 0));
	GIVES(-ENOENT, amdgpu_cs_syncobj_transfer(dev, h[1], 0, 99, 1, 0));
	GIVES(-EINVAL, amdgpu_cs_syncobj_transfer(dev, h[1], 0, h[0], 1, 4));
	OK(amdgpu_cs_syncobj_transfer(dev, h[1], 0, h[0], 5, 0));
	OK(wait_for(&h[1], 1, NO_TIME, 0, &first));
	OK(amdgpu_cs_syncobj_transfer(dev, h[1], 8, h[0], 5, 0));
	OK(amdgpu_cs_syncobj_query(dev, &h[1], &point, 1));
	TRUE(point == 8);
	client_close();
}

IN_CHILD(fences_as_handles, "")
{
	uint32_t h, first;

	client_open();
	at = 0;
	put_wait(data.va, 1);
	OK(SUBMIT(COMPUTE));
	OK(amdgpu_cs_fence_to_handle(dev, &last, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &h));
	GIVES(-ETIME, wait_for(&h, 1, NO_TIME, 0, &first));
	data.p[0] = 1;
	OK(wait_for(&h, 1, MINUTE, 0, &first));
	last.fence = 0; /* over long ago */
	OK(amdgpu_cs_fence_to_handle(dev, &last, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &h));
	OK(wait_for(&h, 1, NO_TIME, 0, &first));
	GIVES(-EINVAL, amdgpu_cs_fence_to_handle(dev, &last, 3, &h));
	last.fence = 9;
	GIVES(-EINVAL, amdgpu_cs_fence_to_handle(dev, &last, 0, &h));
	client_close();
}
