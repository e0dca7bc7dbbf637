#include "engine/load_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define BLOCK   4096u       /* O_DIRECT: of offsets, lengths and memory */
#define PIECE   (4u << 20)  /* of one read: between two looks at whether the load goes on */
#define STOP_NS 2000000000u /* for a part under way to end */

struct load_reader {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	unsigned refs; /* caller and thread */
	int fd;
	enum load_source source;
	const uint8_t *image;
	const struct load_part *parts;
	struct load_part part; /* the thread's copy of what it works on */
	uint32_t n;
	uint8_t *half[2];
	uint64_t half_bytes;
	uint32_t taken;   /* parts handed out */
	uint32_t ready;   /* parts read */
	uint64_t skip[2]; /* O_DIRECT: bytes before the part in its half */
	uint64_t bytes;   /* read so far: what a stall is told from */
	int error;
	bool stop, stalled;
};

static void unref(struct load_reader *r)
{
	bool last;

	pthread_mutex_lock(&r->lock);
	last = --r->refs == 0;
	pthread_cond_broadcast(&r->wake);
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	if (r->fd >= 0)
		close(r->fd);
	if (r->half[0])
		munmap(r->half[0], 2 * r->half_bytes);
	free(r);
}

/* False: nobody wants more. */
static bool note(struct load_reader *r, uint64_t bytes)
{
	bool more;

	pthread_mutex_lock(&r->lock);
	r->bytes += bytes;
	more = !r->stop;
	pthread_mutex_unlock(&r->lock);
	return more;
}

/* Has the kernel read and map the part, so that the caller meets no page fault. */
static int populate(struct load_reader *r, const struct load_part *p)
{
	uintptr_t start = ((uintptr_t)r->image + p->at) & ~(uintptr_t)(BLOCK - 1);
	uintptr_t end = (uintptr_t)r->image + p->at + p->bytes;

	if (madvise((void *)start, end - start, MADV_POPULATE_READ) == 0) {
		note(r, p->bytes);
		return 0;
	}
	/* The file became shorter, or cannot be read: touching it would be SIGBUS. */
	if (errno == EFAULT || errno == EHWPOISON)
		return -ENODATA;
	/* Nothing is mapped there any more when the load was given up while the file stalled: touching
	 * it would be SIGSEGV. */
	if (errno != EINVAL)
		return -errno;
	/* Before Linux 5.14 by hand. */
	for (uintptr_t a = start; a < end; a += BLOCK)
		(void)*(volatile const uint8_t *)a;
	note(r, p->bytes);
	return 0;
}

static int read_part(struct load_reader *r, const struct load_part *p, uint32_t half)
{
	uint64_t at = p->at, want = p->bytes, got = 0;

	r->skip[half] = 0;
	if (r->source == LOAD_DIRECT) {
		r->skip[half] = at % BLOCK;
		at -= r->skip[half];
		want += r->skip[half];
	}
	while (got < want) {
		uint64_t ask = want - got;
		ssize_t n;

		if (ask > PIECE)
			ask = PIECE;
		if (r->source == LOAD_DIRECT)
			ask = (ask + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
		n = pread(r->fd, r->half[half] + got, ask, (off_t)(at + got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA; /* the file became shorter */
		got += (uint64_t)n;
		if (!note(r, (uint64_t)n))
			return -ECANCELED;
	}
	return 0;
}

static void *run(void *arg)
{
	struct load_reader *r = arg;

	for (;;) {
		uint32_t i;
		int rc;

		pthread_mutex_lock(&r->lock);
		/* One part ahead: the half before the last is free when the last was taken. */
		while (!r->stop && r->ready < r->n && r->ready > r->taken)
			pthread_cond_wait(&r->wake, &r->lock);
		i = r->ready;
		if (!r->stop && i < r->n)
			r->part = r->parts[i];
		rc = r->stop || i == r->n;
		pthread_mutex_unlock(&r->lock);
		if (rc)
			break;
		rc = r->source == LOAD_MMAP ? populate(r, &r->part) : read_part(r, &r->part, i & 1);
		pthread_mutex_lock(&r->lock);
		r->error = rc;
		r->ready += rc == 0;
		pthread_cond_broadcast(&r->wake);
		pthread_mutex_unlock(&r->lock);
		if (rc < 0)
			break;
	}
	unref(r);
	return NULL;
}

/* Weights of another model would pass for this one's: only their place in the file is known. */
static int check_same(int fd, const struct load_file *file, char *err, size_t errlen)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int rc = -errno;

		snprintf(err, errlen, "%s: %s", file->path, strerror(-rc));
		return rc;
	}
	if (!file->ino || (st.st_dev == file->dev && st.st_ino == file->ino))
		return 0;
	snprintf(err, errlen,
		 "%s: inode %" PRIu64 " by now, wanted the file that was opened, inode %" PRIu64,
		 file->path, (uint64_t)st.st_ino, file->ino);
	return -ESTALE;
}

static int open_file(struct load_reader *r, const struct load_file *file, char *err, size_t errlen)
{
	const char *path = file->path;
	int flags = r->source == LOAD_DIRECT ? O_DIRECT : 0;
	int rc;

	if (r->source == LOAD_MMAP)
		return 0;
	r->fd = path ? open(path, O_RDONLY | O_CLOEXEC | flags) : -1;
	if (r->fd < 0) {
		rc = path ? -errno : -EINVAL;
		snprintf(err, errlen, "%s: %s%s", path ? path : "model", strerror(-rc),
			 !path           ? " (it is no file; only mmap can load it)"
			 : rc == -EINVAL ? " (its file system knows no O_DIRECT)"
					 : "");
		return rc;
	}
	rc = check_same(r->fd, file, err, errlen);
	if (rc < 0)
		return rc;
	r->half[0] = mmap(NULL, 2 * r->half_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->half[0] == MAP_FAILED) {
		r->half[0] = NULL;
		snprintf(err, errlen, "no memory for %" PRIu64 " bytes of reading",
			 2 * r->half_bytes);
		return -ENOMEM;
	}
	r->half[1] = r->half[0] + r->half_bytes;
	return 0;
}

int load_reader_start(const struct load_file *file, enum load_source source,
		      const struct load_part *parts, uint32_t n, struct load_reader **out,
		      char *err, size_t errlen)
{
	struct load_reader *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;
	int rc;

	if (!r) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	r->fd = -1;
	r->refs = 1;
	r->source = source;
	r->image = file->image;
	r->parts = parts;
	r->n = n;
	for (uint32_t i = 0; i < n; i++)
		if (parts[i].bytes > r->half_bytes)
			r->half_bytes = parts[i].bytes;
	r->half_bytes = (r->half_bytes + 2 * BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->wake, &attr);
	pthread_condattr_destroy(&attr);
	rc = open_file(r, file, err, errlen);
	if (rc < 0)
		goto out;
	r->refs = 2;
	rc = -pthread_create(&r->thread, NULL, run, r);
	if (rc < 0) {
		r->refs = 1;
		snprintf(err, errlen, "reader thread: %s", strerror(-rc));
		goto out;
	}
	pthread_detach(r->thread);
	*out = r;
	return 0;
out:
	unref(r);
	return rc;
}

static struct timespec after(uint64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)(ns / 1000000000u);
	t.tv_nsec += (long)(ns % 1000000000u);
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

int load_reader_next(struct load_reader *r, uint64_t stall_ns, const uint8_t **data, char *err,
		     size_t errlen)
{
	const struct load_part *p = &r->parts[r->taken];
	uint64_t seen;
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	seen = r->bytes;
	while (r->ready == r->taken && !r->error) {
		struct timespec t = after(stall_ns);

		rc = pthread_cond_timedwait(&r->wake, &r->lock, &t);
		if (rc == ETIMEDOUT && r->bytes == seen && r->ready == r->taken && !r->error)
			break;
		seen = r->bytes;
		rc = 0;
	}
	if (rc == ETIMEDOUT) {
		rc = -ETIMEDOUT;
		r->stalled = true;
		snprintf(err, errlen, "no byte of the file at offset %" PRIu64 " for %.1f s", p->at,
			 (double)stall_ns / 1e9);
	} else if (r->ready == r->taken) {
		rc = r->error;
		snprintf(err, errlen, "reading %" PRIu64 " bytes at offset %" PRIu64 ": %s",
			 p->bytes, p->at, rc == -ENODATA ? "the file ends there" : strerror(-rc));
	} else {
		*data = r->source == LOAD_MMAP ? r->image + p->at
					       : r->half[r->taken & 1] + r->skip[r->taken & 1];
		r->taken++;
		pthread_cond_broadcast(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

void load_reader_stop(struct load_reader *r)
{
	struct timespec until;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	r->n = 0;
	pthread_cond_broadcast(&r->wake);
	/* The thread is late, or in the middle of a part, and what it holds is to be given back before
	 * the load is over. One that a file has stalled is not waited for. */
	until = after(STOP_NS);
	while (r->refs > 1 && !r->stalled &&
	       pthread_cond_timedwait(&r->wake, &r->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&r->lock);
	unref(r);
}
