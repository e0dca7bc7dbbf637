/* The virtual device against the kernel's own code: shared by the comparing files. */
#ifndef TESTS_KERNEL_COMPARE_H
#define TESTS_KERNEL_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kfd/internal.h"
#include "witness.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

struct rng {
	uint64_t state;
};
uint32_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n);

/* One answer compared; a difference is printed, the first few of each kind. */
bool same(const char *what, long long kernel, long long ours);
/* Says what was asked, after a difference. */
void asked(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A process of the virtual device with an acquired VM. */
struct kfd_process *client_new(void);
long client_call(struct kfd_process *p, unsigned cmd, void *args);
/* A GTT buffer mapped at va; its handle. Ends the program on failure. */
uint64_t client_buffer(struct kfd_process *p, uint64_t va, uint64_t bytes, uint32_t flags);
void client_unmap(struct kfd_process *p, uint64_t handle);
long client_try_unmap(struct kfd_process *p, uint64_t handle);
void client_map(struct kfd_process *p, uint64_t handle);
void client_free(struct kfd_process *p, uint64_t handle);

void compare_sizes(void);
void compare_queues(struct kfd_process *p);
void compare_events(void);
void compare_smi(struct kfd_process *p);

#endif
