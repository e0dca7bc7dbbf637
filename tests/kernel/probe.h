/* The conformance program: what a KFD answers, one TAB-separated line per observation.
 *
 * The same source runs statically linked in a guest of Debian's own kernel and dynamically on the
 * virtual device, and the two outputs are compared line by line (scripts/check-kernel.sh). So an
 * observation holds no time, process id, file descriptor or address: what varies from run to run
 * is printed as what it should be ("within 50 ms", "got fd").
 */
#ifndef TESTS_KERNEL_PROBE_H
#define TESTS_KERNEL_PROBE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

/* The virtual device's own definitions: what they claim is proved against the kernel here too. */
#include "kfd/abi.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* A gpu_id that no device has. */
#define NO_GPU 0x1234u
/* In the kernel's half of the address space: access_ok() refuses it. */
#define KERNEL_ADDRESS 0xffff888000000000ull

/* ---- observations (probe.c) ------------------------------------------------------------- */

/* section, call, input, ret, errno name ("-" unless ret < 0), outputs */
void observe(const char *call, const char *input, long ret, int err, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Formats into one of a few rotating buffers, for inputs and outputs that need numbers. */
const char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void probe_set_section(const char *name);
/* For what must succeed before anything can be observed: says so and ends the section. */
void probe_die(const char *what) __attribute__((noreturn));

static inline long call(int fd, unsigned long cmd, void *args)
{
	errno = 0;
	return ioctl(fd, cmd, args);
}

/* Calls and observes; the outputs are evaluated after the call. */
#define TRY(name, fd, cmd, args, input, ...)                                                       \
	do {                                                                                       \
		long try_ret = call(fd, cmd, args);                                                \
		int try_err = errno;                                                               \
		observe(name, input, try_ret, try_err, "" __VA_ARGS__);                            \
	} while (0)

int kfd_open(void); /* /dev/kfd, O_RDWR|O_CLOEXEC, or dies */
uint64_t now_ns(void);
void *pages(size_t bytes, int prot); /* private anonymous, or dies */

/* ---- events (events.c) ------------------------------------------------------------------ */

long event_create(int fd, uint32_t type, uint32_t auto_reset,
		  struct kfd_ioctl_create_event_args *out);
uint32_t event_new(int fd, bool auto_reset); /* a SIGNAL event, or dies */
long event_set(int fd, uint32_t id);
long event_reset(int fd, uint32_t id);
long event_destroy(int fd, uint32_t id);
void *event_page_map(int fd, size_t len); /* MAP_FAILED and errno on failure */

struct waited {
	long ret;
	int err;
	uint32_t result, timeout_in, timeout_out;
	uint64_t ns;
};
struct waited wait_data(int fd, void *data, uint32_t n, uint32_t all, uint32_t timeout_ms);
/* Up to 64 ids, ages zero. */
struct waited wait_ids(int fd, const uint32_t *ids, uint32_t n, uint32_t all, uint32_t timeout_ms);
struct waited wait_one(int fd, uint32_t id, uint32_t timeout_ms);
/* Says whether a wait that timed out was as long as asked, not how long it was. */
void observe_wait(const char *input, struct waited w);
const char *wait_result_name(uint32_t result);

/* ---- random numbers (random.c): the same sequence wherever the program runs -------------- */

struct rng {
	uint64_t state;
};
uint32_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n);

/* ---- sections --------------------------------------------------------------------------- */

void section_open(void);
void section_files(void);
void section_sysfs(void);
void section_dispatch(void);
void section_info(void);
void section_queue(void);
void section_memory(void);
void section_svm(void);
void section_mmap(void);
void section_event(void);
void section_limit(void);
void section_wait(void);
void section_age(void);
void section_thread(void);
void section_signal(void);
void section_fork(void);
void section_exec(void);
void section_exec_cloexec(void);
/* What the program does after section_exec() replaced it. */
void section_exec_after(int argc, char **argv);
void section_criu(void);
void section_debug(void);
void section_capacity(void);
void section_random_events(void);
void section_random_calls(void);
void section_random_mmap(void);

#endif
