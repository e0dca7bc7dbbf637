/* The interrupt ring: what the device tells the kernel side, in order. */
#include <string.h>

#include "cp/internal.h"
#include "device.h"

#define DEPTH 1024

static struct {
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct cp_irq ring[DEPTH];
	unsigned head, n;
	bool open;
	uint64_t lost;
} R = {.lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER, .open = true};

void cp_irq_post(const struct cp_irq *irq)
{
	pthread_mutex_lock(&R.lock);
	if (R.n == DEPTH) {
		/* The kernel's own ring loses entries too when nobody drains it
		 * (kfd_interrupt.c: "Interrupt ring overflow, dropping interrupt"). */
		if (!R.lost++)
			vgpu_log("amdgpu: Interrupt ring overflow, dropping interrupt");
	} else {
		R.ring[(R.head + R.n++) % DEPTH] = *irq;
		pthread_cond_signal(&R.some);
	}
	pthread_mutex_unlock(&R.lock);
}

bool cp_irq_next(struct cp_irq *out)
{
	bool got = false;

	pthread_mutex_lock(&R.lock);
	while (!R.n && R.open)
		pthread_cond_wait(&R.some, &R.lock);
	if (R.n) {
		*out = R.ring[R.head];
		R.head = (R.head + 1) % DEPTH;
		R.n--;
		got = true;
	}
	pthread_mutex_unlock(&R.lock);
	return got;
}

void cp_irq_forget(const void *process)
{
	pthread_mutex_lock(&R.lock);
	for (unsigned i = 0; i < R.n; i++) {
		struct cp_irq *irq = &R.ring[(R.head + i) % DEPTH];

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
	R.head = R.n = 0;
	R.open = true;
	R.lost = 0;
}
