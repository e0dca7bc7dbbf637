/* Loading: weights from the file through bounded staging into their place.
 *
 * A reader thread fetches the next part of the file (mmap: has the kernel map it; pread, O_DIRECT:
 * into one of two halves of a host buffer) while the caller repacks the last. Repacked rows go
 * straight into the weights' buffer, or into staging memory that the copy engine or a kernel
 * empties while the other half is filled.
 *
 * What that needs (thread, host buffer, staging, copy queue) is made once by load_open() and serves any
 * number of runs: the one in which everything is loaded, and those that refill a slot. A run allocates
 * nothing.
 */
#ifndef ENGINE_LOAD_H
#define ENGINE_LOAD_H

#include "engine/layout.h"
#include "engine/model.h"
#include "queues/device.h"

enum load_source { LOAD_MMAP, LOAD_PREAD, LOAD_DIRECT };
enum load_copy { LOAD_HOST, LOAD_SDMA, LOAD_KERNEL };

#define LOAD_STAGING     (16u << 20) /* bytes in all, unless asked otherwise */
#define LOAD_STAGING_MIN (1u << 20)
#define LOAD_STAGING_MAX (64u << 20)
#define LOAD_STALL_NS    (60ull * 1000000000ull)
#define LOAD_COPY_KERNEL "copy_b128"

struct load_opts {
	enum load_source source;
	enum load_copy copy;
	uint64_t staging;  /* bytes, 0: LOAD_STAGING; split between reading and copying */
	uint64_t stall_ns; /* no byte of the file for so long is an error; 0: LOAD_STALL_NS */
	/* Called now and then from the loading thread; NULL: nobody wants to know. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
};

/* A tensor and where it goes. */
struct load_item {
	const char *name;
	const void *file; /* in the model's image */
	uint64_t k, rows;
	const struct layout *layout;
	uint64_t offset; /* in the buffer it goes to */
};

/* Bytes of staging as asked, or unless asked otherwise. */
uint64_t load_staging(const struct load_opts *o);
/* Bytes of host heap and of staging buffers (0 for LOAD_HOST) that a load takes. */
uint64_t load_host_bytes(const struct load_opts *o);
uint64_t load_staging_bytes(const struct load_opts *o);
/* Whether staging takes a row of it: 0, or -EINVAL with the arithmetic. */
int load_check(const struct load_opts *o, const struct load_item *item, char *err, size_t errlen);

/* What an engine lends; must outlive the load. */
struct load_env {
	struct bw_device *dev;
	const struct model *m;
	/* LOAD_KERNEL: the copy kernel's object, and the signal its packets complete. */
	uint64_t kernel_object;
	uint32_t private_bytes, group_bytes;
	struct signal *signal;
	uint64_t timeout_ns; /* of one device copy */
};

struct load;
/* -EINVAL: the model is no file, or its file system knows no O_DIRECT; -ESTALE: another file has its name
 * by now; -ENOMEM; or what open or the device said. err has one line, nothing remains. */
int load_open(const struct load_env *e, const struct load_opts *o, struct load **out, char *err,
	      size_t errlen);
/* Puts items, each passed by load_check(), best in the order of their places in the file, into their places
 * in a buffer. The device must be done with what they overwrite: whoever used it was waited for. When it
 * returns nothing is in flight, the reader is as new, and the host's or the copier's stores are the
 * device's with the next packet that acquires; but see load_stuck(). On failure the places' content is unknown, err has one line:
 * -ETIMEDOUT: the file or the copy stalled; -ENODATA: the file became shorter; or what pread or the device
 * said. */
int load_run(struct load *l, struct bo *to, const struct load_item *items, uint32_t n,
	     bool progress, char *err, size_t errlen);
/* A copy by the device never ended, or faulted: it may still be at it, nothing can be loaded any more, and
 * the queue has to go before the buffers. */
bool load_stuck(const struct load *l);
/* NULL is fine. */
void load_close(struct load *l);

#endif
