/* Events, and the page their slots live in. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kfd/kfd_internal.h"

/* At a multiple of its size, so that it never lies in two of the GPU's page tables. */
static void *reserve_somewhere(void)
{
	const uint64_t size = KFD_EVENT_PAGE_BYTES;
	char *p =
		mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *va = (char *)(((uintptr_t)p + size - 1) & ~(size - 1));

	if (p == MAP_FAILED)
		return p;
	/* What cannot be given back stays reserved: addresses, no memory. */
	if (va > p)
		munmap(p, (size_t)(va - p));
	if (p + size > va)
		munmap(va + size, (size_t)(p + size - va));
	return va;
}

static void *reserve(void *va, int how)
{
	return mmap(va, KFD_EVENT_PAGE_BYTES, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1, 0);
}

/* These two ask the kernel quietly: the reason of the failure that led here must stay. */
static void gpu_unmap(struct kfd *k, uint64_t handle)
{
	uint32_t gpu = k->node->gpu_id;
	struct kfd_ioctl_unmap_memory_from_gpu_args u = {
		.handle = handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};

	for (int again = 0;
	     kfd_ioctl(k->fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &u) == -ENOMEM && again < 3;
	     again++)
		; /* as kfd_call_release() */
}

static int gpu_free(struct kfd *k, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args f = {.handle = handle};

	int rc = -ENOMEM;

	for (int again = 0; rc == -ENOMEM && again < 4; again++)
		rc = kfd_ioctl(k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &f);
	return rc;
}

static int page_map(struct kfd *k, struct kfd_process_state *s)
{
	void *va = (void *)(uintptr_t)s->page.va;
	int rc = kfd_memory_map(k, s->page.handle);

	if (rc < 0)
		return rc;
	if (mmap(va, KFD_EVENT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_SHARED | (s->page_exposed ? MAP_FIXED_NOREPLACE : MAP_FIXED), k->render_fd,
		 (off_t)s->page_offset) == MAP_FAILED) {
		rc = -errno;
		kfd_reason_set("event page: mmap of %u bytes on the render node failed: %s",
			       KFD_EVENT_PAGE_BYTES, strerror(-rc));
		gpu_unmap(k, s->page.handle);
		return rc;
	}
	madvise(va, KFD_EVENT_PAGE_BYTES, MADV_DONTFORK);
	s->page_mapped = true;
	s->page_exposed = false;
	return 0;
}

void kfd_event_page_unmap(struct kfd *k, struct kfd_process_state *s)
{
	if (!s->page_mapped)
		return;
	/* If the address cannot be set aside it is let go, and may be somebody else's next time. */
	if (reserve((void *)(uintptr_t)s->page.va, MAP_FIXED) == MAP_FAILED) {
		munmap((void *)(uintptr_t)s->page.va, KFD_EVENT_PAGE_BYTES);
		s->page_exposed = true;
	}
	gpu_unmap(k, s->page.handle);
	s->page_mapped = false;
}

/* Makes the event page BO (GPU VA == CPU VA), once per process: from the first SIGNAL event on the
 * kernel pins it, refuses to free it (EPERM) and keeps it until the process ends. */
static int page_make(struct kfd *k, struct kfd_process_state *s)
{
	const uint32_t flags = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			       KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
			       KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED |
			       KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;
	void *va = reserve_somewhere();
	uint64_t handle = 0;
	int rc;

	if (va == MAP_FAILED)
		return -errno;
	rc = kfd_memory_alloc(k, (uintptr_t)va, KFD_EVENT_PAGE_BYTES, flags, NULL, &handle,
			      &s->page_offset);
	if (rc < 0)
		goto out;
	s->page = (struct kfd_event_page){
		.va = (uintptr_t)va, .handle = handle, .bytes = KFD_EVENT_PAGE_BYTES};
	rc = page_map(k, s);
	if (rc == 0)
		return 0;
	gpu_free(k, handle);
	s->page.va = 0;
out:
	munmap(va, KFD_EVENT_PAGE_BYTES);
	return rc;
}

/* After a CREATE_EVENT that was to install the page and failed: it may be installed all the same,
 * and then it is the page from now on. */
static void page_give_up(struct kfd *k, struct kfd_process_state *s)
{
	if (gpu_free(k, s->page.handle) == -EPERM)
		return;
	kfd_event_page_unmap(k, s);
	gpu_free(k, s->page.handle);
	munmap((void *)(uintptr_t)s->page.va, s->page.bytes);
	s->page.va = 0;
}

int kfd_event_create(struct kfd *k, uint32_t type, bool auto_reset, struct kfd_event *out)
{
	struct kfd_ioctl_create_event_args a = {.event_type = type, .auto_reset = auto_reset};
	bool signal = type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG;
	struct kfd_process_state *s = kfd_process_get();
	bool fresh = signal && !s->page.va;
	int rc = 0;

	if (fresh)
		rc = page_make(k, s);
	else if (signal && !s->page_mapped)
		rc = page_map(k, s);
	if (rc < 0)
		goto out;
	if (fresh)
		a.event_page_offset = s->page.handle;
	rc = kfd_call(k->fd, &k->facts, AMDKFD_IOC_CREATE_EVENT, &a);
	if (rc < 0) {
		if (fresh)
			page_give_up(k, s);
		goto out;
	}
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

	return kfd_call_release(k->fd, &k->facts, AMDKFD_IOC_DESTROY_EVENT, &a);
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
