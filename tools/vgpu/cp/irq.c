/* The interrupt ring: what the device tells the kernel side, in order. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cp/internal.h"
#include "device.h"

#define DEPTH 1024

static struct {
	pthread_mutex_t lock;
	pthread_cond_t some, served;
	struct cp_irq ring[DEPTH];
	uint64_t in, out;   /* all that ever were posted, and taken out: what lies between waits */
	bool open, serving; /* serving: what was taken out last is not over */
	uint64_t lost;
	bool rings; /* a CP_IRQ_RING was among what was lost */
} R = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.some = PTHREAD_COND_INITIALIZER,
	.served = PTHREAD_COND_INITIALIZER,
	.open = true,
};

void cp_irq_post(const struct cp_irq *irq)
{
	pthread_mutex_lock(&R.lock);
	if (R.in - R.out == DEPTH) {
		/* The kernel's own ring loses entries too when nobody drains it
		 * (kfd_interrupt.c: "Interrupt ring overflow, dropping interrupt"). */
		if (!R.lost++)
			vgpu_log("amdgpu: Interrupt ring overflow, dropping interrupt");
		/* A fence that nobody was told of is found by the driver's fallback timer
		 * (amdgpu_fence.c); here by whoever empties the ring. */
		R.rings |= irq->kind == CP_IRQ_RING;
	} else {
		R.ring[R.in++ % DEPTH] = *irq;
		pthread_cond_signal(&R.some);
	}
	pthread_mutex_unlock(&R.lock);
}

bool cp_irq_next(struct cp_irq *out)
{
	bool got = false;

	pthread_mutex_lock(&R.lock);
	R.serving = false;
	pthread_cond_broadcast(&R.served);
	while (R.in == R.out && !R.rings && R.open)
		pthread_cond_wait(&R.some, &R.lock);
	if (R.in != R.out) {
		*out = R.ring[R.out++ % DEPTH];
		R.serving = got = true;
	} else if (R.rings) {
		*out = (struct cp_irq){.kind = CP_IRQ_RING};
		R.rings = false;
		R.serving = got = true;
	}
	pthread_mutex_unlock(&R.lock);
	return got;
}

bool cp_irq_drain(uint64_t patience)
{
	struct timespec until = vgpu_timespec(cp_now() + patience);
	uint64_t last;
	bool over;

	pthread_mutex_lock(&R.lock);
	last = R.in;
	while (!(over = R.out > last || (R.out == last && !R.serving)))
		if (pthread_cond_clockwait(&R.served, &R.lock, CLOCK_MONOTONIC, &until) ==
		    ETIMEDOUT)
			break;
	pthread_mutex_unlock(&R.lock);
	return over;
}

void cp_irq_forget(const void *process)
{
	pthread_mutex_lock(&R.lock);
	for (uint64_t i = R.out; i != R.in; i++) {
		struct cp_irq *irq = &R.ring[i % DEPTH];

		if (irq->process == process)
			irq->process = NULL;
	}
	pthread_mutex_unlock(&R.lock);
}

void cp_irq_open(void)
{
	pthread_mutex_lock(&R.lock);
	R.open = true;
	pthread_mutex_unlock(&R.lock);
}

void cp_irq_close(void)
{
	pthread_mutex_lock(&R.lock);
	R.open = false;
	pthread_cond_broadcast(&R.some);
	pthread_mutex_unlock(&R.lock);
}

void cp_irq_reset(void)
{
	pthread_mutex_init(&R.lock, NULL);
	pthread_cond_init(&R.some, NULL);
	pthread_cond_init(&R.served, NULL);
	R.serving = R.rings = false;
	R.in = R.out = 0;
	R.open = true;
	R.lost = 0;
}
