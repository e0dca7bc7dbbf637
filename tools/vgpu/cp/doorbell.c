/* Doorbell pages, and how a store to one is noticed.
 *
 * A doorbell is a store to memory; nothing else happens. The device must learn of it without
 * burning a core while nothing runs. When all queues are idle it write-protects the client's
 * mapping through a userfaultfd (user mode only, so no privilege is needed; WP on shared memory
 * needs Linux 5.19). The first store then stops in the kernel, the CP thread gets a message, opens
 * the page, the store completes, and the page stays open while stores keep coming. After arming,
 * the slots are looked at once more, so a store that came just before is not lost.
 *
 * Each slot holds CP_DOORBELL_IDLE except between a store and the device taking it with an
 * atomic exchange: equal values rung twice are two rings, and a first ring with value 0 is one.
 * (What a client reads back from a real doorbell is undefined.)
 *
 * Where a userfaultfd is refused, the CP thread polls, backing off from 50 us to 2 ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "cp/internal.h"
#include "device.h"
#include "ownfd.h"
#include "vm/rawsys.h"

/* One process's slice: 1024 doorbells of 8 bytes (kfd_doorbell.c:kfd_doorbell_process_slice). */
#define SLICE 8192u

struct region {
	struct region *next;
	uint64_t addr, size;
	bool watched; /* registered with the userfaultfd */
	bool device;  /* the GPU's mapping: never watched, see cp_doorbells_device_mapped() */
};

struct cp_doorbells {
	struct cp_doorbells *link;
	uint64_t *slots; /* device side */
	int fd;
	struct region *regions;
};

static struct {
	pthread_mutex_t lock;
	struct cp_doorbells *list;
	int uffd; /* -1 none */
	bool armed;
	unsigned unwatched; /* regions only polling sees */
} W = {.lock = PTHREAD_MUTEX_INITIALIZER, .uffd = -1};

int cp_doorbells_create(struct vm *vm, struct cp_doorbells **out, int *memfd, uint64_t *memfd_off)
{
	struct cp_doorbells *d = calloc(1, sizeof(*d));
	long r;

	(void)vm;
	if (!d)
		return -ENOMEM;
	d->fd = -1;
	r = rawsys2(SYS_memfd_create, "vgpu-doorbells", MFD_CLOEXEC);
	if (r < 0)
		goto out;
	d->fd = own_fd(r);
	r = rawsys2(SYS_ftruncate, d->fd, SLICE);
	if (r < 0)
		goto out;
	r = rawsys6(SYS_mmap, 0, SLICE, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	if (r < 0 && r > -4096)
		goto out;
	d->slots = (uint64_t *)r;
	for (unsigned i = 0; i < SLICE / 8; i++)
		d->slots[i] = CP_DOORBELL_IDLE;
	pthread_mutex_lock(&W.lock);
	d->link = W.list;
	W.list = d;
	pthread_mutex_unlock(&W.lock);
	*out = d;
	*memfd = d->fd;
	*memfd_off = 0;
	return 0;
out:
	own_fd_close(d->fd);
	free(d);
	return (int)r;
}

void cp_doorbells_destroy(struct cp_doorbells *d)
{
	struct cp_doorbells **p;
	struct region *r;

	pthread_mutex_lock(&W.lock);
	for (p = &W.list; *p && *p != d; p = &(*p)->link)
		;
	if (*p)
		*p = d->link;
	while ((r = d->regions)) {
		d->regions = r->next;
		W.unwatched -= !r->watched;
		/* The client's mapping may outlive the device's side: let it be written. */
		if (r->watched && W.uffd >= 0) {
			struct uffdio_range range = {r->addr, r->size};

			rawsys3(SYS_ioctl, W.uffd, UFFDIO_UNREGISTER, &range);
		}
		free(r);
	}
	pthread_mutex_unlock(&W.lock);
	rawsys2(SYS_munmap, d->slots, SLICE);
	own_fd_close(d->fd);
	free(d);
}

uint64_t *cp_doorbell_slot(struct cp_doorbells *d, uint32_t index)
{
	return index < SLICE / 8 ? &d->slots[index] : NULL;
}

bool cp_doorbell_is_mapped_at(struct cp_doorbells *d, uint64_t addr, uint32_t index)
{
	bool found = false;

	pthread_mutex_lock(&W.lock);
	for (struct region *r = d->regions; r; r = r->next)
		found |= addr == r->addr + 8ull * index && 8ull * index < r->size;
	pthread_mutex_unlock(&W.lock);
	return found;
}

/* ---- the watch ----------------------------------------------------------- */

static bool watch_region(struct region *r)
{
	struct uffdio_register reg = {
		.range = {r->addr, r->size},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return !r->device && W.uffd >= 0 &&
	       rawsys3(SYS_ioctl, W.uffd, UFFDIO_REGISTER, &reg) == 0 &&
	       (reg.ioctls & 1ull << _UFFDIO_WRITEPROTECT);
}

static bool protect(struct region *r, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = {r->addr, r->size},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return rawsys3(SYS_ioctl, W.uffd, UFFDIO_WRITEPROTECT, &wp) == 0;
}

static void add_region(struct cp_doorbells *d, void *addr, uint64_t size, bool device)
{
	struct region *r = calloc(1, sizeof(*r));

	if (!r)
		return; /* the slots are still looked at whenever the CP thread is awake */
	r->addr = (uint64_t)addr;
	r->size = size;
	r->device = device;
	pthread_mutex_lock(&W.lock);
	r->watched = watch_region(r);
	W.unwatched += !r->watched;
	/* The first ring shall stop as well. */
	if (check_on && r->watched)
		protect(r, true);
	W.armed = false; /* the new region is open */
	r->next = d->regions;
	d->regions = r;
	pthread_mutex_unlock(&W.lock);
	cp_kick();
}

void cp_doorbells_mapped(struct cp_doorbells *d, void *addr, uint64_t size)
{
	add_region(d, addr, size, false);
}

void cp_doorbells_device_mapped(struct cp_doorbells *d, void *addr, uint64_t size)
{
	add_region(d, addr, size, true);
}

void cp_doorbells_unmapped(struct cp_doorbells *d, void *addr, uint64_t size)
{
	struct region **p, *r;

	(void)size;
	pthread_mutex_lock(&W.lock);
	for (p = &d->regions; (r = *p); p = &r->next)
		if (r->addr == (uint64_t)addr) {
			*p = r->next;
			W.unwatched -= !r->watched;
			free(r);
			break;
		}
	pthread_mutex_unlock(&W.lock);
}

int cp_watch_open(void)
{
	int fd;

	pthread_mutex_lock(&W.lock);
	if (W.uffd >= 0)
		goto out;
	W.uffd = own_fd_uffd(UFFD_USER_MODE_ONLY, UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
	if (W.uffd < 0)
		goto out;
	/* Pages mapped before the device's threads ran. */
	for (struct cp_doorbells *d = W.list; d; d = d->link)
		for (struct region *g = d->regions; g; g = g->next)
			if (!g->watched && (g->watched = watch_region(g))) {
				W.unwatched--;
				if (check_on)
					protect(g, true);
			}
out:
	if (W.uffd < 0)
		vgpu_log("vgpu: no userfaultfd for doorbells, polling them");
	fd = W.uffd;
	pthread_mutex_unlock(&W.lock);
	return fd;
}

void cp_watch_close(void)
{
	pthread_mutex_lock(&W.lock);
	if (W.uffd >= 0)
		own_fd_close(W.uffd); /* unregisters, and lets waiting writers go */
	W.uffd = -1;
	W.armed = false;
	W.unwatched = 0;
	for (struct cp_doorbells *d = W.list; d; d = d->link)
		for (struct region *g = d->regions; g; g = g->next) {
			g->watched = false;
			W.unwatched++;
		}
	pthread_mutex_unlock(&W.lock);
}

static void open_all(void)
{
	for (struct cp_doorbells *d = W.list; d; d = d->link)
		for (struct region *r = d->regions; r; r = r->next)
			if (r->watched)
				protect(r, false);
	W.armed = false;
}

void cp_watch_drain(void)
{
	struct uffd_msg msg = {0};
	bool any = false;

	pthread_mutex_lock(&W.lock);
	if (W.uffd >= 0)
		while (rawsys3(SYS_read, W.uffd, &msg, sizeof(msg)) == (long)sizeof(msg))
			any |= msg.event == UFFD_EVENT_PAGEFAULT;
	if (any)
		open_all();
	pthread_mutex_unlock(&W.lock);
}

bool cp_watch_armed(void)
{
	bool armed;

	pthread_mutex_lock(&W.lock);
	armed = W.armed;
	pthread_mutex_unlock(&W.lock);
	return armed;
}

void cp_watch_arm(void)
{
	pthread_mutex_lock(&W.lock);
	for (struct cp_doorbells *d = W.list; d; d = d->link)
		for (struct region *r = d->regions; r; r = r->next)
			if (r->watched && !protect(r, true)) {
				/* Unmapped or remapped behind our back. */
				r->watched = false;
				W.unwatched++;
			}
	W.armed = W.uffd >= 0;
	pthread_mutex_unlock(&W.lock);
}

bool cp_watch_blind(void)
{
	bool blind;

	pthread_mutex_lock(&W.lock);
	blind = W.uffd < 0 || W.unwatched;
	pthread_mutex_unlock(&W.lock);
	return blind;
}

void cp_watch_reset(void)
{
	pthread_mutex_init(&W.lock, NULL);
	own_fd_close(W.uffd);
	W.uffd = -1;
	W.armed = false;
	W.unwatched = 0;
	W.list = NULL; /* the parent's */
}
