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
#define BLOCK 4096u /* O_DIRECT: of offsets, lengths and memory */
/* Of one read, or mapped at a time: between two looks at whether the load goes on, so that a slow file is
 * seen to move, and a failure says how far it came. */
#define PIECE   (4u << 20)
#define STOP_NS 2000000000u /* for a part under way to end */

struct load_reader {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	unsigned refs; /* caller and thread */
	int fd;
	enum load_source source;
	const uint8_t *image;
	const char *path; /* the caller's */
	uint8_t *half[2];
	uint64_t half_bytes;
	struct load_part part[2]; /* number i in part[i & 1] */
	uint32_t asked, ready, taken;
	uint32_t round;      /* counts drops */
	uint64_t skip[2];    /* O_DIRECT: bytes before the part in its half */
	uint64_t bytes;      /* read so far: what a stall is told from */
	uint64_t got;        /* of the part under way, or that failed */
	int error;           /* of part number `ready` */
	bool busy;           /* at a part */
	uint32_t busy_round; /* of which round */
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

/* -ECANCELED: the reader stops, and what it reads from may be gone. */
static int note(struct load_reader *r, uint64_t bytes)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	r->bytes += bytes;
	r->got += bytes;
	rc = r->stop ? -ECANCELED : 0;
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/* Whether the file still has all of the part; where it does not, how much of it. */
static int check_length(struct load_reader *r, const struct load_part *p)
{
	struct stat st;

	if (r->fd < 0)
		return 0;
	if (fstat(r->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size >= p->at + p->bytes)
		return 0;
	pthread_mutex_lock(&r->lock);
	r->got = (uint64_t)st.st_size > p->at ? (uint64_t)st.st_size - p->at : 0;
	pthread_mutex_unlock(&r->lock);
	return -ENODATA;
}

static int populate_range(uintptr_t start, uintptr_t end)
{
	if (madvise((void *)start, end - start, MADV_POPULATE_READ) == 0)
		return 0;
	/* The file cannot be read there, or became shorter: touching it would be SIGBUS. */
	if (errno == EFAULT || errno == EHWPOISON)
		return -EIO;
	/* Nothing is mapped there any more when the load was given up while the file stalled: touching
	 * it would be SIGSEGV. */
	if (errno != EINVAL)
		return -errno;
	/* Before Linux 5.14 by hand. */
	for (uintptr_t a = start; a < end; a += BLOCK)
		(void)*(volatile const uint8_t *)a;
	return 0;
}

/* Has the kernel read and map the part, so that the caller meets no page fault. */
static int populate(struct load_reader *r, const struct load_part *p)
{
	const uintptr_t image = (uintptr_t)r->image, last = image + p->at + p->bytes;
	uintptr_t at = image + p->at;
	int rc = check_length(r, p);

	while (rc == 0 && at < last) {
		uintptr_t start = at & ~(uintptr_t)(BLOCK - 1);
		uintptr_t end = last - start > PIECE ? start + PIECE : last;

		rc = populate_range(start, end);
		if (rc == 0)
			rc = note(r, end - at);
		at = end;
	}
	/* Once more: the rest of the page in which a file ends is zeros, which nobody would miss. */
	if (rc == 0 || rc == -EIO) {
		int length = check_length(r, p);

		rc = length ? length : rc;
	}
	return rc;
}

static int read_part(struct load_reader *r, const struct load_part *p, uint32_t half)
{
	const uint64_t skip = r->source == LOAD_DIRECT ? p->at % BLOCK : 0;
	const uint64_t at = p->at - skip, want = p->bytes + skip;
	uint64_t got = 0, useful = 0;

	r->skip[half] = skip;
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
		/* What lies before and behind the part in its blocks is none of it. */
		n = (ssize_t)((got < want ? got : want) - (got < skip ? got : skip) - useful);
		useful += (uint64_t)n;
		if (note(r, (uint64_t)n) < 0)
			return -ECANCELED;
		/* Only at its end does a file yield less, and from there O_DIRECT knows no offset. */
		if (got < want && r->source == LOAD_DIRECT && got % BLOCK)
			return -ENODATA;
	}
	return 0;
}

static void *run(void *arg)
{
	struct load_reader *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct load_part part;
		uint32_t half;
		int rc;

		/* Two are asked for at most, so the half before the last is free. After a failure
		 * nothing is read until the caller knows. */
		while (!r->stop && (r->ready == r->asked || r->error))
			pthread_cond_wait(&r->wake, &r->lock);
		if (r->stop)
			break;
		half = r->ready & 1;
		part = r->part[half];
		r->busy = true;
		r->busy_round = r->round;
		r->got = 0;
		pthread_mutex_unlock(&r->lock);
		rc = r->source == LOAD_MMAP ? populate(r, &part) : read_part(r, &part, half);
		pthread_mutex_lock(&r->lock);
		r->busy = false;
		r->stalled = false;
		if (r->busy_round == r->round) {
			r->error = rc;
			r->ready += rc == 0;
		}
		pthread_cond_broadcast(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
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

/* A descriptor of the reader's own: where the file stalls it outlives the caller's. -errno. */
static int descriptor(enum load_source source, const struct load_file *file)
{
	int fd;

	if (source == LOAD_DIRECT)
		fd = file->path ? open(file->path, O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
	else
		fd = file->fd >= 0 ? fcntl(file->fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (fd >= 0)
		return fd;
	return (source == LOAD_DIRECT ? file->path != NULL : file->fd >= 0) ? -errno : -EINVAL;
}

static int open_file(struct load_reader *r, const struct load_file *file, char *err, size_t errlen)
{
	const bool direct = r->source == LOAD_DIRECT;
	int rc = descriptor(r->source, file);

	/* An image in memory has none, and needs none. */
	if (rc < 0 && (r->source != LOAD_MMAP || file->fd >= 0)) {
		snprintf(err, errlen, "%s: %s%s", file->path ? file->path : "model", strerror(-rc),
			 rc != -EINVAL          ? ""
			 : direct && file->path ? " (its file system knows no O_DIRECT)"
						: " (it is no file; only mmap can load it)");
		return rc;
	}
	r->fd = rc < 0 ? -1 : rc;
	if (r->source == LOAD_MMAP)
		return 0;
	rc = direct ? check_same(rc, file, err, errlen) : 0;
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

int load_reader_start(const struct load_file *file, enum load_source source, uint64_t most,
		      struct load_reader **out, char *err, size_t errlen)
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
	r->path = file->path;
	/* A part begins and ends anywhere in a block. */
	r->half_bytes = (most + 2 * BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
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

void load_reader_ask(struct load_reader *r, const struct load_part *part)
{
	pthread_mutex_lock(&r->lock);
	r->part[r->asked++ & 1] = *part;
	pthread_cond_broadcast(&r->wake);
	pthread_mutex_unlock(&r->lock);
}

/* With the lock. Of the part asked for first; one that nobody wants any more may be under way. */
static uint64_t came(const struct load_reader *r)
{
	return r->error || (r->busy && r->busy_round == r->round) ? r->got : 0;
}

int load_reader_next(struct load_reader *r, uint64_t stall_ns, const uint8_t **data, char *err,
		     size_t errlen)
{
	const char *path = r->path ? r->path : "model";
	struct load_part p;
	uint64_t seen;
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	p = r->part[r->taken & 1];
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
		snprintf(err, errlen,
			 "no byte of the file at offset %" PRIu64 " for %.1f s, got %" PRIu64
			 " of %" PRIu64 " (%s)",
			 p.at, (double)stall_ns / 1e9, came(r), p.bytes, path);
	} else if (r->ready == r->taken) {
		rc = r->error;
		snprintf(err, errlen,
			 "reading %" PRIu64 " bytes at offset %" PRIu64 ", got %" PRIu64
			 ": %s (%s)",
			 p.bytes, p.at, came(r),
			 rc == -ENODATA ? "the file ends there" : strerror(-rc), path);
	} else {
		*data = r->source == LOAD_MMAP ? r->image + p.at
					       : r->half[r->taken & 1] + r->skip[r->taken & 1];
		r->taken++;
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

void load_reader_drop(struct load_reader *r)
{
	pthread_mutex_lock(&r->lock);
	r->round++;
	r->asked = r->ready = r->taken = 0;
	r->error = 0;
	pthread_mutex_unlock(&r->lock);
}

void load_reader_stop(struct load_reader *r)
{
	struct timespec until;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
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
