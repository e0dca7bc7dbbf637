/* What all queues of a device share: events, the runtime, the trap handler, the doorbell page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/kernels.h"
#include "queues/internal.h"

/* HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED (uapi kfd_sysfs.h), bit 29. */
#define CAPABILITY_DEBUG_FIRMWARE (1u << 29)

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue_context *contexts;

static int event_make(struct queue_context *c, uint32_t type, struct kfd_event *e, bool *have)
{
	int rc = kfd_event_create(c->kfd, type, false, e);

	if (rc == 0)
		*have = true;
	return rc;
}

/* Our second-level handler: without one, the kernel's steps over s_trap and carries on. */
static int trap_install(struct queue_context *c)
{
	const struct kernels_embedded *k = kernels_embedded;
	const void *text;
	size_t len;
	int rc;

	while (k->name && strcmp(k->name, "trap"))
		k++;
	if (!k->name) {
		kfd_reason_set("the trap handler is not among the embedded code objects");
		return -ENOENT;
	}
	rc = trap_text(k->begin, (size_t)((const char *)k->end - (const char *)k->begin), &text,
		       &len);
	if (rc < 0) {
		kfd_reason_set("the embedded trap handler is not an ELF code object with a .text");
		return rc;
	}
	rc = bo_create(c->memory,
		       &(struct bo_desc){.owner = "trap handler",
					 .size = len,
					 .placement = BO_GTT,
					 .coherence = BO_UNCACHED,
					 .executable = true,
					 .grain = 256, /* SET_TRAP_HANDLER's rule */
					 .host = true,
					 .uses = BO_HOST_WRITES | BO_HOST_DECLARED},
		       &c->trap_bo);
	if (rc < 0)
		return rc;
	memcpy(bo_host(c->trap_bo), text, len);
	rc = kfd_trap_handler_set(c->kfd, bo_va(c->trap_bo), 0);
	if (rc == 0)
		c->trap = true;
	return rc;
}

static void context_destroy(struct queue_context *c)
{
	if (c->doorbells)
		munmap(c->doorbells, KFD_DOORBELL_BYTES);
	if (c->trap)
		kfd_trap_handler_set(c->kfd, 0, 0);
	bo_retire(c->trap_bo);
	if (c->runtime)
		kfd_runtime_disable(c->kfd);
	if (c->have_hw_event)
		kfd_event_destroy(c->kfd, c->hw_event.id);
	if (c->have_memory_event)
		kfd_event_destroy(c->kfd, c->memory_event.id);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static int context_create(struct kfd *kfd, struct memory *m, struct queue_context **out)
{
	struct queue_context *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->kfd = kfd;
	c->memory = m;
	pthread_mutex_init(&c->lock, NULL);
	rc = event_make(c, KFD_IOC_EVENT_MEMORY, &c->memory_event, &c->have_memory_event);
	if (rc < 0)
		goto out;
	rc = event_make(c, KFD_IOC_EVENT_HW_EXCEPTION, &c->hw_event, &c->have_hw_event);
	if (rc < 0)
		goto out;
	/* MES firmware without debugger support cannot forward exceptions; RUNTIME_ENABLE may even
	 * fail on it. Waves that trap then go on, as they do under the kernel's own handler. */
	if (kfd_node(kfd)->capability & CAPABILITY_DEBUG_FIRMWARE) {
		/* Before the first queue, or the kernel answers EEXIST; makes it forward queue
		 * exceptions through the save-area header and have the waves' TTMPs filled. */
		rc = kfd_runtime_enable(kfd, true);
		if (rc < 0)
			goto out;
		c->runtime = true;
		rc = trap_install(c);
		if (rc < 0)
			goto out;
	}
	*out = c;
	return 0;
out:
	context_destroy(c);
	return rc;
}

int queue_context_get(struct kfd *kfd, struct memory *m, struct queue_context **out)
{
	struct queue_context *c;
	int rc = 0;

	pthread_mutex_lock(&contexts_lock);
	for (c = contexts; c; c = c->next)
		if (c->kfd == kfd && c->memory == m)
			break;
	if (!c) {
		rc = context_create(kfd, m, &c);
		if (rc < 0)
			goto out;
		c->next = contexts;
		contexts = c;
	}
	c->refs++;
	*out = c;
out:
	pthread_mutex_unlock(&contexts_lock);
	return rc;
}

void queue_context_ref(struct queue_context *c)
{
	pthread_mutex_lock(&contexts_lock);
	c->refs++;
	pthread_mutex_unlock(&contexts_lock);
}

void queue_context_put(struct queue_context *c)
{
	struct queue_context **p;

	pthread_mutex_lock(&contexts_lock);
	if (--c->refs == 0) {
		for (p = &contexts; *p != c; p = &(*p)->next)
			;
		*p = c->next;
		context_destroy(c);
	}
	pthread_mutex_unlock(&contexts_lock);
}

int queue_context_doorbells(struct queue_context *c, uint64_t doorbell_offset)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (!c->doorbells) {
		void *p = mmap(NULL, KFD_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			       kfd_fd(c->kfd),
			       (off_t)(doorbell_offset & ~(KFD_DOORBELL_BYTES - 1ull)));

		if (p == MAP_FAILED) {
			rc = -errno;
			kfd_reason_set("doorbells: mmap of %u bytes of /dev/kfd at offset 0x%llx "
				       "failed: %s",
				       KFD_DOORBELL_BYTES, (unsigned long long)doorbell_offset,
				       strerror(-rc));
		} else {
			c->doorbells = p;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}
