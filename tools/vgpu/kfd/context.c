/* The process objects of this address space: the primary, and the secondary ones that
 * CREATE_PROCESS makes of descriptors (7.3's kfd_process.c, kfd_chardev.c:kfd_ioctl_create_process).
 *
 * The primary lives as long as the address space. A secondary lives as long as its file: its
 * descriptors and the mappings made through them. Whoever is not called through a file (timers,
 * interrupts, statistics) finds processes in the list, under its lock, which is taken outside
 * kfd_process.lock.
 */
#include "internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "carry.h"
#include "drm/drm_file.h"
#include "ownfd.h"
#include "vm/rawsys.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct kfd_process *first; /* the primary; NULL: none yet */

/* Dead ones are kept for a while: an interrupt that was taken out of the ring before its process
 * went must not meet another at the same address. */
static struct kfd_process *grave[64];
static unsigned buried;

struct kfd_process *kfd_process_current(void)
{
	struct kfd_process *p = __atomic_load_n(&first, __ATOMIC_ACQUIRE);

	return p && p->mm == vgpu_mm_generation() ? p : NULL;
}

void kfd_contexts_begin(struct kfd_process *primary)
{
	primary->context = KFD_CONTEXT_PRIMARY;
	pthread_rwlock_wrlock(&lock);
	__atomic_store_n(&first, primary, __ATOMIC_RELEASE);
	pthread_rwlock_unlock(&lock);
}

void kfd_contexts_after_fork(void)
{
	pthread_rwlock_init(&lock, NULL);
	for (struct kfd_process *p = first; p; p = p->next) {
		pthread_mutex_init(&p->lock, NULL);
		pthread_mutex_init(&p->event_lock, NULL);
	}
}

void kfd_process_each(void (*fn)(struct kfd_process *p, void *ctx), void *ctx)
{
	pthread_rwlock_rdlock(&lock);
	for (struct kfd_process *p = kfd_process_current(); p; p = p->next)
		fn(p, ctx);
	pthread_rwlock_unlock(&lock);
}

bool kfd_process_with(struct kfd_process *it, void (*fn)(struct kfd_process *p, void *ctx),
		      void *ctx)
{
	struct kfd_process *p;

	pthread_rwlock_rdlock(&lock);
	for (p = kfd_process_current(); p && p != it; p = p->next)
		;
	if (p)
		fn(p, ctx);
	pthread_rwlock_unlock(&lock);
	return p != NULL;
}

/* ---- secondary ones ------------------------------------------------------- */

/* The lowest free id, -ENOSPC if all are taken; *end is where the list ends. With the lock. */
static int free_context(struct kfd_process ***end)
{
	static uint32_t used[KFD_CONTEXT_PRIMARY / 32 + 1];
	struct kfd_process **pos = &first->next;

	memset(used, 0, sizeof(used));
	for (; *pos; pos = &(*pos)->next)
		used[(*pos)->context / 32] |= 1u << (*pos)->context % 32;
	*end = pos;
	for (unsigned i = 0; i < KFD_CONTEXT_PRIMARY; i++) {
		if (!(used[i / 32] & 1u << i % 32))
			return (int)i;
	}
	return -ENOSPC;
}

long kfd_create_secondary(struct kfd_process *p, struct kfd_process **file)
{
	struct kfd_process *s, **end;
	int id, err;

	if (p->context != KFD_CONTEXT_PRIMARY)
		return -EINVAL;
	err = kfd_process_new(&s);
	if (err)
		return err;
	err = dbg_state_private(s);
	if (err)
		goto out_free;
	pthread_rwlock_wrlock(&lock);
	id = free_context(&end);
	/* Somebody else was faster with this descriptor. */
	if (__atomic_load_n(file, __ATOMIC_RELAXED) != p)
		id = -EINVAL;
	if (id >= 0) {
		s->context = (uint16_t)id;
		s->files = 1;
		*end = s;
		__atomic_store_n(file, s, __ATOMIC_RELEASE);
	}
	pthread_rwlock_unlock(&lock);
	if (id >= 0)
		return 0;
	err = id;
	dbg_state_close(s->dbg);
out_free:
	free(s);
	return err;
}

static void free_events(struct kfd_process *p)
{
	kfd_events_free(p);
	if (p->signal_gem)
		gem_unref(p->signal_gem);
	if (p->signal_fd >= 0) {
		rawsys2(SYS_munmap, p->signal_page, KFD_SIGNAL_EVENT_LIMIT * 8);
		own_fd_close(p->signal_fd);
	}
}

static void free_pdd(struct kfd_process *p)
{
	struct kfd_pdd *pdd = &p->pdd;

	if (pdd->cwsr_kernel)
		gem_unref(pdd->cwsr_kernel);
	if (pdd->proc_ctx)
		gem_unref(pdd->proc_ctx);
	if (pdd->doorbell_alias)
		rawsys2(SYS_munmap, pdd->doorbell_alias, KFD_DOORBELL_SLICE);
	if (pdd->doorbells)
		cp_doorbells_destroy(pdd->doorbells);
	free(pdd->bos.slot);
	if (!pdd->drm)
		return;
	if (vgpu_kernel()->smi_process_events)
		smi_event(p->lead, KFD_SMI_EVENT_PROCESS_END, "%x %s\n", p->lead, p->comm);
	/* The file may serve another process now. */
	kfd_shared_compute(pdd->drm, false);
	pdd->drm->compute = false;
	drm_put(pdd->drm);
}

/* Nobody can find it any more, no call is inside it (kfd_process.c:kfd_process_wq_release). */
static void teardown(struct kfd_process *p)
{
	struct kfd_process **pos = &first;
	unsigned i;

	pthread_rwlock_wrlock(&lock);
	while (*pos != p)
		pos = &(*pos)->next;
	*pos = p->next;
	pthread_rwlock_unlock(&lock);
	kfd_gpu_reset_wait();
	pthread_mutex_lock(&p->lock);
	kfd_queues_destroy(p);
	kfd_bos_free(p);
	pthread_mutex_unlock(&p->lock);
	cp_irq_forget(p);
	kfd_profiler_drop(p);
	free_events(p);
	free_pdd(p);
	dbg_state_close(p->dbg);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->event_lock);
	pthread_rwlock_wrlock(&lock);
	i = buried++ % (sizeof(grave) / sizeof(grave[0]));
	free(grave[i]);
	grave[i] = p;
	pthread_rwlock_unlock(&lock);
}

/* Copied by a fork: the original's holders are not here. */
static bool counted(const struct kfd_process *p)
{
	return p->context != KFD_CONTEXT_PRIMARY && !p->outlived && p->mm == vgpu_mm_generation();
}

void kfd_process_file_get(struct kfd_process *p)
{
	if (counted(p))
		__atomic_fetch_add(&p->files, 1, __ATOMIC_RELAXED);
}

void kfd_process_file_put(struct kfd_process *p)
{
	if (counted(p) && !__atomic_sub_fetch(&p->files, 1, __ATOMIC_ACQ_REL))
		teardown(p);
}

/* ---- kept over exec ------------------------------------------------------- */

/* The kernel's object outlives its address space as long as a descriptor refers to it: found by
 * nothing else, but with its events, buffers and VM. In another process it answers nobody. */
void kfd_carry_out(struct carry *c, struct kfd_process *p)
{
	bool all = c->in_place && p->lead == getpid() && p->mm == vgpu_mm_generation();

	carry_put(c, (uint64_t)p->lead);
	carry_put(c, all);
	if (!all)
		return;
	carry_put(c, p->context);
	carry_put(c, p->pasid);
	carry_put_bytes(c, p->comm, sizeof(p->comm));
	pthread_mutex_lock(&p->lock);
	carry_put(c, carry_number(c, CARRY_DRM, p->pdd.drm));
	carry_put(c, p->pdd.vram_usage);
	kfd_bos_carry_out(c, p);
	kfd_events_carry_out(c, p);
	pthread_mutex_unlock(&p->lock);
}

struct kfd_process *kfd_carry_in(struct carry *c)
{
	struct kfd_process *p;
	int err = vgpu_device_init();

	if (!err)
		err = kfd_process_new(&p);
	if (err)
		return NULL;
	err = dbg_state_private(p);
	if (err) {
		free(p);
		return NULL;
	}
	p->context = KFD_CONTEXT_PRIMARY;
	p->outlived = true;
	p->lead = (pid_t)carry_get(c);
	if (!carry_get(c)) {
		p->mm = 0;
		return p;
	}
	p->context = (uint16_t)carry_get(c);
	p->pasid = (uint32_t)carry_get(c);
	carry_get_bytes(c, p->comm, sizeof(p->comm));
	p->pdd.drm = carry_item(c, CARRY_DRM, carry_get(c));
	if (p->pdd.drm) {
		drm_get(p->pdd.drm);
		p->pdd.vm = p->pdd.drm->vm;
	}
	p->pdd.vram_usage = carry_get(c);
	kfd_bos_carry_in(c, p);
	kfd_events_carry_in(c, p);
	return p;
}

struct kfd_process *kfd_process_own(void)
{
	return kfd_process_current();
}

struct kfd_process *kfd_process_of_another(pid_t lead)
{
	struct kfd_process *p;

	if (vgpu_device_init() || kfd_process_new(&p))
		return NULL;
	if (dbg_state_private(p)) {
		free(p);
		return NULL;
	}
	p->context = KFD_CONTEXT_PRIMARY;
	p->outlived = true;
	p->lead = lead;
	p->mm = 0;
	return p;
}
