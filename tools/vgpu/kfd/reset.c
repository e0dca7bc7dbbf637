/* A scheduler that does not answer, and the reset of the GPU (kfd_device_queue_manager.c:
 * kfd_hws_hang, kfd_device.c:kgd2kfd_pre_reset and kgd2kfd_post_reset, amdgpu_device.c:
 * amdgpu_device_gpu_recover).
 *
 * The reset runs on the timer thread, as it runs from a workqueue in the kernel: pre-reset, then
 * the time the hardware takes, then post-reset. Between the two /dev/kfd refuses opens, MES is not
 * asked (EIO), and whoever frees memory waits. Processes that live through it stay evicted: nobody
 * gives the count of their SUSPEND back.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>

#include "drm/submit.h"
#include "share/share.h"

/* MODE2 (soc21.c:soc21_asic_reset_method for this part). */
#define RESET_TIME_NS (500 * 1000000ull)
/* Scheduler firmware from here on resets single queues (amdgpu_mes.c). */
#define MES_QUEUE_RESET 0x8c

static void begin_work(struct kfd_timer *t);
static void end_work(struct kfd_timer *t);

static struct kfd_timer begin_timer = {.fn = begin_work};
static struct kfd_timer end_timer = {.fn = end_work, .jump = true};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
/* Held from locked on until all processes are suspended: kfd_processes_mutex of kgd2kfd_suspend(). */
static pthread_mutex_t suspending = PTHREAD_MUTEX_INITIALIZER;
static bool scheduled; /* from the request on */
static bool telling;   /* it is over, which not all of its messages say yet */
static bool locked;    /* atomic: between pre- and post-reset */
static enum kfd_reset_source source;
static uint32_t resets;      /* adev->gpu_reset_counter, of all of it */
static uint32_t ring_resets; /* atomic: and of single rings */
static char hung_ring[32];   /* KFD_RESET_JOB: which */
static bool mes_dead;        /* atomic: it did not answer, and nobody may reset the GPU */

bool kfd_gpu_in_reset(void)
{
	/* Whoever comes in the middle finds the device locked. */
	return __atomic_load_n(&locked, __ATOMIC_ACQUIRE) ||
	       (share_active() && __atomic_load_n(&share_page->in_reset, __ATOMIC_ACQUIRE));
}

bool kfd_is_locked(void)
{
	bool yes;

	pthread_mutex_lock(&suspending);
	yes = kfd_gpu_in_reset();
	pthread_mutex_unlock(&suspending);
	return yes;
}

static int schedule(enum kfd_reset_source why)
{
	int err = 0;

	/* Only what the driver wants by itself is forbidden (amdgpu_device_should_recover_gpu). */
	if (why == KFD_RESET_MES && !vgpu_config.gpu_recovery) {
		vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GPU recovery disabled.",
			 vgpu_config.pci_bus);
		__atomic_store_n(&mes_dead, true, __ATOMIC_RELEASE);
		if (share_active()) {
			uint64_t a[SHARE_ARGS] = {0};

			share_call(SHARE_MES_DEAD, a);
		}
		return 0;
	}
	pthread_mutex_lock(&lock);
	if (!scheduled && share_active()) {
		uint64_t a[SHARE_ARGS] = {why};

		/* It is everybody's: it comes back as news. */
		err = share_call(SHARE_RESET, a);
		scheduled = !err;
	} else if (!scheduled) {
		source = why;
		err = timer_arm(&begin_timer, vgpu_clock_ns());
		scheduled = !err;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

uint32_t vgpu_resets(void)
{
	return __atomic_load_n(&resets, __ATOMIC_RELAXED) +
	       __atomic_load_n(&ring_resets, __ATOMIC_RELAXED);
}

void vgpu_ring_was_reset(void)
{
	__atomic_fetch_add(&ring_resets, 1, __ATOMIC_RELAXED);
}

bool vgpu_in_reset(void)
{
	return kfd_gpu_in_reset();
}

int vgpu_reset_for_job(const char *ring)
{
	snprintf(hung_ring, sizeof(hung_ring), "%s", ring);
	return schedule(KFD_RESET_JOB);
}

int kfd_mes_silent(const char *msg)
{
	if (!__atomic_load_n(&mes_dead, __ATOMIC_ACQUIRE) &&
	    !(share_active() && __atomic_load_n(&share_page->mes_dead, __ATOMIC_ACQUIRE)))
		return 0;
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: MES failed to respond to msg=%s",
		 vgpu_config.pci_bus, msg);
	return -ETIMEDOUT;
}

void kfd_gpu_reset_wait(void)
{
	pthread_mutex_lock(&lock);
	while (kfd_gpu_in_reset() && !(share_active() && share_lost()))
		pthread_cond_wait(&over, &lock);
	pthread_mutex_unlock(&lock);
}

int kfd_gpu_recover(void)
{
	int err = vgpu_device_init();

	if (!err)
		err = schedule(KFD_RESET_USER);
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	/* The kernel's file waits for all of the work. */
	while (scheduled || telling)
		pthread_cond_wait(&over, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void hw_exception(struct kfd_process *p)
{
	const struct kfd_hsa_hw_exception_data data = {
		.reset_type = KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
		.reset_cause = KFD_HW_EXCEPTION_GPU_HANG,
		.memory_lost = 1,
		.gpu_id = vgpu_props.gpu_id,
	};

	if (vgpu_rule(RULE_reset_hw_exception))
		kfd_event_hw_exception(p, &data);
}

static void smi_reset(enum kfd_smi_event event, const char *cause)
{
	smi_event(0, event, "%x %s\n", kfd_device.reset_seq, cause);
}

static void reset_one(struct kfd_process *p, void *ctx)
{
	bool borrowed = kfd_lock_borrow(p);
	struct kfd_queue *q;

	(void)ctx;
	/* After a hang all of the device's queues count as reset (kfd_hws_hang). */
	if (source == KFD_RESET_MES && p->n_queues)
		p->pdd.has_reset_queue = true;
	if (vgpu_rule(RULE_reset_evicts))
		kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_TRIGGER_SUSPEND);
	for (unsigned i = 0; (q = kfd_queue_next(p, &i));)
		cp_queue_reset(q->cp);
	kfd_lock_return(p, borrowed);
	if (p->n_pdds)
		hw_exception(p);
}

static void pre_reset(void)
{
	static const char *const causes[] = {"MES hang", "user trigger", "job hang on ring:"};
	char cause[64];

	/* Another process's ring has no name here. */
	snprintf(cause, sizeof(cause), "%s%s", causes[source],
		 source == KFD_RESET_JOB ? hung_ring : "");
	smi_reset(KFD_SMI_EVENT_GPU_PRE_RESET, cause);
	pthread_mutex_lock(&suspending);
	__atomic_store_n(&locked, true, __ATOMIC_RELEASE);
	kfd_process_each(reset_one, NULL);
	pthread_mutex_unlock(&suspending);
	drm_rings_stop();
	__atomic_store_n(&mes_dead, false, __ATOMIC_RELEASE);
}

static void begin_work(struct kfd_timer *t)
{
	(void)t;
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GPU reset begin!", vgpu_config.pci_bus);
	kfd_device.reset_seq++;
	pre_reset();
	resets++;
	if (timer_arm(&end_timer, vgpu_clock_ns() + RESET_TIME_NS))
		end_work(NULL);
}

void kfd_reset_begun(int why, uint32_t seq)
{
	source = (enum kfd_reset_source)why;
	kfd_device.reset_seq = seq;
	pthread_mutex_lock(&lock);
	scheduled = true;
	pthread_mutex_unlock(&lock);
	pre_reset();
}

static void post_reset(void)
{
	drm_rings_start();
	pthread_mutex_lock(&lock);
	__atomic_store_n(&locked, false, __ATOMIC_RELEASE);
	scheduled = false;
	telling = true;
	pthread_cond_broadcast(&over);
	pthread_mutex_unlock(&lock);
	smi_reset(KFD_SMI_EVENT_GPU_POST_RESET, "");
	pthread_mutex_lock(&lock);
	telling = false;
	pthread_cond_broadcast(&over);
	pthread_mutex_unlock(&lock);
}

void kfd_reset_ended(uint32_t count)
{
	resets = count;
	post_reset();
}

/* The daemon is gone and the device with it: what a reset does to a process, for good. */
void kfd_device_lost(void)
{
	pre_reset();
	drm_rings_start();
	pthread_mutex_lock(&lock);
	scheduled = false;
	pthread_cond_broadcast(&over);
	pthread_mutex_unlock(&lock);
}

static void end_work(struct kfd_timer *t)
{
	(void)t;
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: MODE2 reset", vgpu_config.pci_bus);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GPU reset succeeded, trying to resume",
		 vgpu_config.pci_bus);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: GPU reset(%u) succeeded!", vgpu_config.pci_bus,
		 resets);
	post_reset();
}

int kfd_hws_hang(struct kfd_queue *q)
{
	struct kfd_process *p = q->process;
	unsigned bus = vgpu_config.pci_bus;

	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE", bus);
	p->pdd.has_reset_queue = true;
	if (vgpu_kernel()->queue_reset && vgpu_config.mes_version >= MES_QUEUE_RESET &&
	    vgpu_config.gpu_recovery) {
		vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: queue id 0x%0x at pasid %d is reset", bus,
			 q->id, p->lead);
		vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: Queues reset on process %s tid %d thread "
			 "%s pid %d",
			 bus, p->comm, p->lead, p->acquire_comm, p->acquire_tid);
		cp_queue_reset(q->cp);
		q->is_reset = true;
		resets++;
		hw_exception(p);
		return 0;
	}
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: failed to remove hardware queue from MES, "
		 "doorbell=0x%x",
		 bus, q->mqd.doorbell * 2);
	vgpu_log("amdgpu 0000:%02x:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU "
		 "reset",
		 bus);
	schedule(KFD_RESET_MES);
	return -ETIMEDOUT;
}

void kfd_reset_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&suspending, NULL);
	pthread_cond_init(&over, NULL);
	begin_timer.armed = end_timer.armed = false;
	scheduled = telling = locked = mes_dead = false;
	resets = ring_resets = 0;
}
