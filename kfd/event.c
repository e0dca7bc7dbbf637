/* Events, and the page their slots live in. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kfd/kfd_internal.h"

/* Quietly: the reason of the failure that led here must stay. */
static void page_drop(struct kfd *k, const struct kfd_event_page *p)
{
	uint32_t gpu = k->node->gpu_id;
	struct kfd_ioctl_unmap_memory_from_gpu_args u = {
		.handle = p->handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};
	struct kfd_ioctl_free_memory_of_gpu_args f = {.handle = p->handle};

	kfd_ioctl(k->fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &u);
	kfd_ioctl(k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &f);
	munmap((void *)(uintptr_t)p->va, p->bytes);
}

/* Makes the event page BO (GPU VA == CPU VA), once per process: the kernel pins it, refuses to free
 * it (EPERM) and keeps it until the process ends. Called with the process state held. */
static int page_make(struct kfd *k, struct kfd_event_page *out)
{
	const uint32_t flags = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			       KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
			       KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED |
			       KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;
	uint64_t handle = 0, offset = 0;
	void *va, *page;
	int rc;

	va = mmap(NULL, KFD_EVENT_PAGE_BYTES, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (va == MAP_FAILED)
		return -errno;
	rc = kfd_memory_alloc(k, (uintptr_t)va, KFD_EVENT_PAGE_BYTES, flags, NULL, &handle,
			      &offset);
	if (rc < 0)
		goto out_va;
	*out = (struct kfd_event_page){
		.va = (uintptr_t)va, .handle = handle, .bytes = KFD_EVENT_PAGE_BYTES};
	rc = kfd_memory_map(k, handle);
	if (rc < 0)
		goto out_drop;
	page = mmap(va, KFD_EVENT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    k->render_fd, (off_t)offset);
	if (page == MAP_FAILED) {
		rc = -errno;
		kfd_reason_set("event page: mmap of %u bytes on the render node failed: %s",
			       KFD_EVENT_PAGE_BYTES, strerror(-rc));
		goto out_drop;
	}
	madvise(va, KFD_EVENT_PAGE_BYTES, MADV_DONTFORK);
	return 0;

out_drop:
	page_drop(k, out);
	out->va = 0;
	return rc;
out_va:
	munmap(va, KFD_EVENT_PAGE_BYTES);
	return rc;
}

int kfd_event_create(struct kfd *k, uint32_t type, bool auto_reset, struct kfd_event *out)
{
	struct kfd_ioctl_create_event_args a = {.event_type = type, .auto_reset = auto_reset};
	bool signal = type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG;
	struct kfd_process_state *s = kfd_process_get();
	struct kfd_event_page fresh = {0};
	int rc = 0;

	if (signal && !s->page.va) {
		rc = page_make(k, &fresh);
		if (rc < 0)
			goto out;
		a.event_page_offset = fresh.handle;
	}
	rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_CREATE_EVENT, &a);
	if (fresh.va) {
		/* The page may be installed although the event was not made; then the kernel will
		 * not give it back (EPERM), and it is the page from now on. */
		if (rc == 0 || kfd_ioctl(k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU,
					 &(struct kfd_ioctl_free_memory_of_gpu_args){
						 .handle = fresh.handle}) == -EPERM)
			s->page = fresh;
		else
			page_drop(k, &fresh);
	}
	if (rc < 0)
		goto out;
	*out = (struct kfd_event){
		.id = a.event_id,
		.trigger = a.event_trigger_data,
		.slot = signal ? a.event_slot_index : 0,
		.mailbox = signal ? (uint64_t *)(uintptr_t)s->page.va + a.event_slot_index : NULL,
	};
out:
	kfd_process_put();
	return rc;
}

int kfd_event_destroy(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_destroy_event_args a = {.event_id = id};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_DESTROY_EVENT, &a);
}

int kfd_event_set(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_set_event_args a = {.event_id = id};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_SET_EVENT, &a);
}

int kfd_event_reset(struct kfd *k, uint32_t id)
{
	struct kfd_ioctl_reset_event_args a = {.event_id = id};

	return kfd_call(k->fd, &k->facts, AMDKFD_IOC_RESET_EVENT, &a);
}

int kfd_events_wait(struct kfd *k, struct kfd_event_data *ev, uint32_t n, bool all,
		    uint32_t timeout_ms, uint32_t *left)
{
	struct kfd_ioctl_wait_events_args a = {.events_ptr = (uintptr_t)ev,
					       .num_events = n,
					       .wait_for_all = all,
					       .timeout = timeout_ms};
	int rc = ioctl(k->fd, AMDKFD_IOC_WAIT_EVENTS, &a) == 0 ? 0 : -errno;

	if (left)
		*left = a.timeout;
	if (rc == -EINTR)
		return rc;
	if (rc < 0) {
		char text[400];

		kfd_explain(_IOC_NR(AMDKFD_IOC_WAIT_EVENTS), &a, -rc, &k->facts, text,
			    sizeof(text));
		kfd_reason_set("%s", text);
		return rc;
	}
	return a.wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT;
}

bool kfd_event_page_get(const struct kfd *k, struct kfd_event_page *out)
{
	struct kfd_process_state *s = kfd_process_get();
	bool there = s->page.va != 0 && s->gpu_id == k->node->gpu_id;

	if (there)
		*out = s->page;
	kfd_process_put();
	return there;
}
