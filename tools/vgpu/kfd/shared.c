/* A device that several processes share, as this process's driver sees it: what the daemon asks of
 * it, and the loan of the process lock that keeps two processes from waiting for each other.
 *
 * A process that allocates holds its process lock while the daemon makes room, for which another
 * process may have to stop its queues, for which that one needs its own process lock, which one of
 * its threads may hold for the same reason. The kernel has no such trouble, because it evicts under
 * the queue manager's lock alone. Here the waiting thread lends its lock.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drm/drm_file.h"
#include "share/share.h"

static pthread_mutex_t loan = PTHREAD_MUTEX_INITIALIZER;

void kfd_lock_lend(struct kfd_process *p)
{
	if (!share_active())
		return;
	pthread_mutex_lock(&loan);
	p->lent = true;
	pthread_mutex_unlock(&loan);
}

void kfd_lock_reclaim(struct kfd_process *p)
{
	if (!share_active())
		return;
	/* Waits for a borrower to finish. */
	pthread_mutex_lock(&loan);
	p->lent = false;
	pthread_mutex_unlock(&loan);
}

bool kfd_lock_borrow(struct kfd_process *p)
{
	const struct timespec nap = {.tv_nsec = 200000};

	if (!share_active()) {
		pthread_mutex_lock(&p->lock);
		return false;
	}
	while (pthread_mutex_trylock(&p->lock)) {
		pthread_mutex_lock(&loan);
		if (p->lent)
			return true;
		pthread_mutex_unlock(&loan);
		nanosleep(&nap, NULL);
	}
	return false;
}

void kfd_lock_return(struct kfd_process *p, bool borrowed)
{
	pthread_mutex_unlock(borrowed ? &loan : &p->lock);
}

/* ---- what others want to know --------------------------------------------- */

struct text {
	char *buf;
	size_t n, len;
};

/* Name and value, each with its zero. */
static void add_attr(void *ctx, const char *name)
{
	struct text *t = ctx;
	size_t k = strlen(name) + 1;
	char value[64];
	int v = kfd_proc_attr(name, value, sizeof(value));

	if (v < 0 || (size_t)v >= sizeof(value) || t->len + k + (size_t)v + 1 > t->n)
		return;
	memcpy(t->buf + t->len, name, k);
	memcpy(t->buf + t->len + k, value, (size_t)v + 1);
	t->len += k + (size_t)v + 1;
}

static int about(int what, char *buf, size_t n)
{
	struct text t = {buf, n, 0};

	if (what == SHARE_ABOUT_FDINFO)
		return vgpu_files.fdinfos(buf, n);
	kfd_proc_list(add_attr, &t);
	return (int)t.len;
}

/* ---- joining -------------------------------------------------------------- */

int kfd_shared_join(void)
{
	share_handlers = (struct share_handlers){
		.evict = kfd_evict_wanted,
		.mes = cp_mes_look,
		.reset_begin = kfd_reset_begun,
		.reset_end = kfd_reset_ended,
		.smi = smi_news,
		.about = about,
		.lost = kfd_device_lost,
	};
	return share_join();
}

void kfd_shared_after_fork(void)
{
	pthread_mutex_init(&loan, NULL);
}

int kfd_foreign(pid_t lead, struct kfd_process **out)
{
	struct kfd_process *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->lead = lead;
	p->mm = 0; /* no address space's */
	*out = p;
	return 0;
}

void kfd_release(struct kfd_process *p)
{
	if (p && !p->mm)
		free(p);
}

uint32_t kfd_shared_pasid(void)
{
	uint64_t a[SHARE_ARGS] = {0};

	share_call(SHARE_KFD_OPEN, a);
	return (uint32_t)a[0];
}

long kfd_shared_available(uint64_t *out)
{
	uint64_t a[SHARE_ARGS] = {0};
	int err = share_call(SHARE_AVAILABLE, a);

	if (!err)
		*out = a[0];
	return err;
}

int kfd_shared_compute(struct drm_file *f, bool on)
{
	uint64_t a[SHARE_ARGS] = {f->shared, on};

	return f->shared ? share_call(SHARE_FILE_COMPUTE, a) : 0;
}
