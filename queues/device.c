#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "queues/device.h"

int bw_device_open(const struct bw_device_opts *opts, struct bw_device *out, char *why,
		   size_t why_len)
{
	static const struct bw_device_opts defaults;
	const struct bw_device_opts *o = opts ? opts : &defaults;
	struct bw_device d = {0};
	int rc;

	rc = kfd_open(&o->kfd, &d.kfd, why, why_len);
	if (rc < 0)
		return rc;
	rc = memory_create(d.kfd, &d.memory);
	if (rc < 0) {
		snprintf(why, why_len, "no address space for buffers: %s (ulimit -v?)",
			 strerror(-rc));
		goto out;
	}
	rc = memory_rules_set(d.memory, o->rules);
	if (rc < 0) {
		snprintf(why, why_len, "%s", strerror(-rc));
		goto out;
	}
	if (kfd_memory_available(d.kfd, &d.available_at_open) < 0)
		d.available_at_open = 0;
	if (!o->no_queue) {
		rc = queue_create(d.kfd, d.memory, &o->queue, &d.queue);
		if (rc < 0) {
			snprintf(why, why_len, "%s",
				 kfd_reason()[0] ? kfd_reason() : strerror(-rc));
			goto out;
		}
	}
	*out = d;
	return 0;
out:
	memory_destroy(d.memory);
	kfd_close(d.kfd);
	return rc;
}

int bw_device_close(struct bw_device *d, struct bw_teardown *t)
{
	struct bw_teardown left = {0};
	int rc = 0, queue_rc = 0;

	if (!d->kfd)
		goto out;
	queue_rc = queue_destroy(d->queue);
	if (queue_rc == 0 || queue_gone(queue_rc))
		d->queue = NULL;
	left.queues = d->queue != NULL;
	memory_reap(d->memory);
	left.bos = memory_live_count(d->memory);
	left.bytes = memory_live(d->memory) - memory_adopted(d->memory);
	rc = memory_destroy(d->memory);
	if (rc < 0)
		goto out;
	kfd_close(d->kfd);
	memset(d, 0, sizeof(*d));
	rc = queue_rc;
out:
	if (t)
		*t = left;
	return rc;
}

int kernarg_pool_create(struct memory *m, uint64_t bytes, struct kernarg_pool *out)
{
	struct bo *bo;
	int rc = bo_create(m,
			   &(struct bo_desc){.owner = "kernargs",
					     .size = bytes,
					     .placement = BO_GTT,
					     .coherence = BO_UNCACHED,
					     .grain = 256,
					     .host = true,
					     .uses = BO_HOST_WRITES | BO_HOST_DECLARED},
			   &bo);

	if (rc < 0)
		return rc;
	*out = (struct kernarg_pool){.bo = bo, .size = bo_size(bo)};
	return 0;
}

void kernarg_pool_destroy(struct kernarg_pool *p)
{
	bo_retire(p->bo);
	memset(p, 0, sizeof(*p));
}

void *kernarg_alloc(struct kernarg_pool *p, uint64_t bytes, uint64_t align)
{
	uint64_t at = (p->used + align - 1) & ~(align - 1);

	if (at > p->size || p->size - at < bytes)
		return NULL;
	p->used = at + bytes;
	return (char *)bo_host(p->bo) + at;
}

void kernarg_reset(struct kernarg_pool *p)
{
	p->used = 0;
}
