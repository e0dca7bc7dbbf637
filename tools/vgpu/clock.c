/* The device's one clock. */
#include "device.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic uint64_t base; /* CLOCK_MONOTONIC when the device appeared, 0 = not yet */
static _Atomic uint64_t own_ahead;
static _Atomic uint64_t *ahead_at = &own_ahead; /* how far the clock has run ahead */

static uint64_t host_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t vgpu_clock_ns(void)
{
	uint64_t now = host_ns(), b = atomic_load_explicit(&base, memory_order_relaxed);

	if (!b) {
		uint64_t zero = 0;

		/* The machine was up for a second before anybody looked. */
		b = now > 1000000000u ? now - 1000000000u : 1;
		if (!atomic_compare_exchange_strong(&base, &zero, b))
			b = zero;
	}
	return now - b + atomic_load_explicit(ahead_at, memory_order_relaxed);
}

uint64_t vgpu_clock_gpu(void)
{
	return vgpu_clock_ns() / 10;
}

uint64_t vgpu_clock_ahead(void)
{
	return atomic_load_explicit(ahead_at, memory_order_relaxed);
}

void vgpu_clock_advance(uint64_t ns)
{
	uint64_t a = atomic_load(ahead_at), now = vgpu_clock_ns();

	/* A lost race means that somebody else moved the clock: look again. */
	while (now < ns && !atomic_compare_exchange_strong(ahead_at, &a, a + (ns - now)))
		now = vgpu_clock_ns();
}

void vgpu_clock_share(uint64_t zero, uint64_t *ahead)
{
	ahead_at = ahead ? (_Atomic uint64_t *)ahead : &own_ahead;
	if (ahead)
		atomic_store(&base, zero);
}
