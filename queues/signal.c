/* Signals: 64 bytes each, from UC pages of 64, one interrupt event each. */
#include <errno.h>
#include <stdlib.h>

#include "queues/internal.h"

#define SLAB_SIGNALS 64

struct signal_slab {
	struct signal_slab *next;
	struct bo *bo;
	uint64_t used; /* bit per signal */
};

/* With the context locked. */
static int slot_take(struct queue_context *c, struct signal_slab **slab, unsigned *slot)
{
	struct signal_slab *s;
	int rc;

	for (s = c->slabs; s && s->used == ~0ull; s = s->next)
		;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		rc = bo_create(c->memory,
			       &(struct bo_desc){.owner = "signals",
						 .size = SLAB_SIGNALS * sizeof(struct amd_signal),
						 .placement = BO_GTT,
						 .coherence = BO_UNCACHED,
						 .grain = 64, /* of struct amd_signal */
						 .host = true,
						 .uses = BO_HOST_READS | BO_HOST_WRITES |
							 BO_DEVICE_READS | BO_DEVICE_WRITES |
							 BO_DECLARED},
			       &s->bo);
		if (rc < 0) {
			free(s);
			return rc;
		}
		s->next = c->slabs;
		c->slabs = s;
	}
	*slot = (unsigned)__builtin_ctzll(~s->used);
	s->used |= 1ull << *slot;
	*slab = s;
	return 0;
}

static void slot_give(struct queue_context *c, struct signal_slab *slab, unsigned slot)
{
	struct signal_slab **p;

	slab->used &= ~(1ull << slot);
	if (slab->used)
		return;
	for (p = &c->slabs; *p != slab; p = &(*p)->next)
		;
	*p = slab->next;
	bo_retire(slab->bo);
	free(slab);
}

int signal_create(struct queue *q, int64_t initial, struct signal **out)
{
	struct queue_context *c = q->ctx;
	struct signal *s = calloc(1, sizeof(*s));
	unsigned slot;
	int rc;

	if (!s)
		return -ENOMEM;
	rc = kfd_event_create(c->kfd, KFD_IOC_EVENT_SIGNAL, true, &s->event);
	if (rc < 0)
		goto out_free;
	pthread_mutex_lock(&c->lock);
	rc = slot_take(c, &s->slab, &slot);
	pthread_mutex_unlock(&c->lock);
	if (rc < 0)
		goto out_event;
	s->ctx = c;
	queue_context_ref(c);
	atomic_init(&s->age, 1); /* a fresh event's age */
	s->s = (struct amd_signal *)bo_host(s->slab->bo) + slot;
	*s->s = (struct amd_signal){
		.kind = AMD_SIGNAL_KIND_USER,
		.value = initial,
		.event_mailbox = (uint64_t)(uintptr_t)s->event.mailbox,
		.event_id = s->event.trigger,
	};
	*out = s;
	return 0;

out_event:
	kfd_event_destroy(c->kfd, s->event.id);
out_free:
	free(s);
	return rc;
}

void signal_destroy(struct signal *s)
{
	struct queue_context *c;

	if (!s)
		return;
	c = s->ctx;
	kfd_event_destroy(c->kfd, s->event.id);
	pthread_mutex_lock(&c->lock);
	slot_give(c, s->slab, (unsigned)(s->s - (struct amd_signal *)bo_host(s->slab->bo)));
	pthread_mutex_unlock(&c->lock);
	free(s);
	queue_context_put(c);
}

void signal_set(struct signal *s, int64_t value)
{
	/* pairs with the command processor's read of the value when the packet is processed: the
	 * doorbell store that follows orders it */
	__atomic_store_n(&s->s->value, value, __ATOMIC_RELEASE);
}

int64_t signal_load(const struct signal *s)
{
	return signal_value_acquire(s->s);
}

uint64_t signal_va(const struct signal *s)
{
	return (uint64_t)(uintptr_t)s->s;
}
