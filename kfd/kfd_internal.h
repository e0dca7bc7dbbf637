/* What the files of kfd/ share. */
#ifndef KFD_INTERNAL_H
#define KFD_INTERNAL_H

#include <amdgpu.h>
#include <pthread.h>

#include "kfd/kfd.h"

struct kfd {
	int fd;
	int render_fd; /* libdrm's; not ours to close */
	amdgpu_device_handle drm;
	uint32_t minor;
	const struct topology_node *node;
	struct topology topology;
	struct kfd_process_device_apertures apertures;
	struct kfd_facts facts;
};

/* What the kernel binds to the process for good; kept across kfd_close() and kfd_open(). */
struct kfd_process_state {
	pid_t pid;
	amdgpu_device_handle drm; /* its VM is the process's compute VM */
	uint32_t gpu_id;
	struct kfd_event_page page; /* va 0: not made yet */
	uint64_t page_offset;       /* of its mmap on the render node */
	bool page_mapped;
	bool page_exposed; /* not mapped, and its address is not set aside either */
	unsigned opens;    /* struct kfd alive */
};
/* Locks and returns this process's state (a forked child gets a fresh one); kfd_process_put()
 * unlocks. */
struct kfd_process_state *kfd_process_get(void);
void kfd_process_put(void);

/* ioctl, repeated on EINTR (and a few times on EAGAIN, which MMU notifiers cause). -errno. */
int kfd_ioctl(int fd, unsigned long cmd, void *args);
/* The same, leaving the written reason behind on failure. facts may be NULL. */
int kfd_call(int fd, const struct kfd_facts *facts, unsigned long cmd, void *args);

/* For calls that give something back: a kernel that is out of memory for a moment must not turn into
 * something nobody can free any more, so -ENOMEM is tried a few times. */
int kfd_call_release(int fd, const struct kfd_facts *facts, unsigned long cmd, void *args);

/* event.c: takes the page off the GPU and the CPU; its address stays set aside. With the state
 * held. */
void kfd_event_page_unmap(struct kfd *k, struct kfd_process_state *s);

/* drm.c: opens the render node through libdrm. -errno with a sentence. */
int kfd_drm_open(const char *path, amdgpu_device_handle *out, char *why, size_t why_len);

#endif
