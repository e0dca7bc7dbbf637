/* Somebody outside may look: what changed is made public a moment later, by the timers' thread. */
#include "internal.h"

/* Calls come in bursts. */
#define DELAY_NS 20000000u

static struct kfd_timer timer;
static bool due; /* atomic */

static void work(struct kfd_timer *t)
{
	(void)t;
	/* First: a change from here on is seen now, or has its own turn. */
	__atomic_store_n(&due, false, __ATOMIC_SEQ_CST);
	vgpu_files.publish();
}

void vgpu_changed(void)
{
	/* A clock that runs ahead would wait for this, and a schedule must not depend on it. */
	if (!vgpu_files.publish || vgpu_config.clock_virtual || vgpu_config.deterministic)
		return;
	if (__atomic_exchange_n(&due, true, __ATOMIC_SEQ_CST))
		return;
	timer.fn = work;
	if (timer_arm(&timer, vgpu_clock_ns() + DELAY_NS))
		__atomic_store_n(&due, false, __ATOMIC_SEQ_CST);
}

void vgpu_changed_after_fork(void)
{
	memset(&timer, 0, sizeof(timer));
	due = false;
}
