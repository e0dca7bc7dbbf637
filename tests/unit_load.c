/* The reader of a load: what stalls is given up, what fails is said and may be asked again, and nothing is
 * left to when its thread has the time. No device. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/load_reader.h"

#define PATIENCE 60000000000ull
#define PARTS    5u
#define PART     10000u /* no whole number of pages */

static char err[512];
static char path[64];

/* ---- a file that fails as it is told to: this pread comes before the C library's ------------- */

static _Atomic int fail_in;  /* reads until one fails; 0: none will */
static _Atomic int fail_how; /* errno */
static _Atomic bool held;    /* reads wait */

static bool due(void)
{
	int n = atomic_load(&fail_in);

	while (n > 0 && !atomic_compare_exchange_weak(&fail_in, &n, n - 1))
		;
	return n == 1;
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	static ssize_t (*_Atomic real)(int, void *, size_t, off_t);

	if (!atomic_load(&real))
		atomic_store(&real,
			     (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread"));
	while (atomic_load(&held))
		usleep(1000);
	if (due()) {
		errno = atomic_load(&fail_how);
		return -1;
	}
	/* Never more than half a part at once, as a slow file would. */
	return atomic_load(&real)(fd, buf, n < PART / 2 ? n : PART / 2, off);
}

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 131 >> 3);
}

/* PARTS parts from offset 100 on, and no byte more. */
static int make_file(void)
{
	const uint64_t bytes = 100 + PARTS * PART;
	uint8_t *all = malloc(bytes);
	int fd;

	strcpy(path, "/tmp/barewave-load-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0);
	for (uint64_t i = 0; i < bytes; i++)
		all[i] = byte_at(i);
	cr_assert_eq(write(fd, all, bytes), (ssize_t)bytes);
	free(all);
	return fd;
}

static struct load_part part_of(uint32_t i)
{
	return (struct load_part){100 + i * PART, PART};
}

static struct load_reader *start(int fd, enum load_source source, void **image)
{
	struct load_file file = {.fd = fd, .path = path};
	struct load_reader *r = NULL;

	*image = mmap(NULL, 100 + PARTS * PART, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert(*image != MAP_FAILED);
	file.image = *image;
	cr_assert_eq(load_reader_start(&file, source, PART, &r, err, sizeof(err)), 0, "%s", err);
	return r;
}

/* All parts, asked one ahead; ends with the first failure. */
static int read_all(struct load_reader *r, uint64_t stall_ns)
{
	load_reader_ask(r, &(struct load_part){100, PART});
	for (uint32_t i = 0; i < PARTS; i++) {
		const struct load_part ahead = part_of(i + 1), p = part_of(i);
		const uint8_t *data;
		int rc;

		if (i + 1 < PARTS)
			load_reader_ask(r, &ahead);
		rc = load_reader_next(r, stall_ns, &data, err, sizeof(err));
		if (rc < 0)
			return rc;
		for (uint64_t k = 0; k < p.bytes; k++)
			cr_assert_eq(data[k], byte_at(p.at + k), "part %u, byte %lu", i, k);
	}
	return 0;
}

static void finish(struct load_reader *r, int fd, void *image)
{
	load_reader_stop(r);
	munmap(image, 100 + PARTS * PART);
	close(fd);
	unlink(path);
}

Test(load, parts_come_in_turn_again_and_again)
{
	for (int source = 0; source < 2; source++) {
		void *image;
		int fd = make_file();
		struct load_reader *r = start(fd, (enum load_source)source, &image);

		for (int again = 0; again < 4; again++)
			cr_expect_eq(read_all(r, PATIENCE), 0, "%s", err);
		finish(r, fd, image);
	}
}

/* Whichever read fails, the line has what was wanted and what came, and then all of it can be read. */
Test(load, a_failed_read_is_not_the_readers_end)
{
	void *image;
	int fd = make_file();
	struct load_reader *r = start(fd, LOAD_PREAD, &image);

	for (int at = 1; at <= (int)PARTS * 2; at++) {
		const uint32_t part = (uint32_t)(at - 1) / 2;
		char want[200];

		atomic_store(&fail_how, at & 1 ? EIO : ENOLINK);
		atomic_store(&fail_in, at);
		cr_expect_eq(read_all(r, PATIENCE), at & 1 ? -EIO : -ENOLINK);
		snprintf(want, sizeof(want), "reading %u bytes at offset %u, got %u: %s (%s)", PART,
			 100 + part * PART, at & 1 ? 0 : PART / 2, strerror(at & 1 ? EIO : ENOLINK),
			 path);
		cr_expect_str_eq(err, want);
		cr_expect_eq(atomic_load(&fail_in), 0);
		load_reader_drop(r);
		cr_expect_eq(read_all(r, PATIENCE), 0, "%s", err);
	}
	finish(r, fd, image);
}

/* While it stalls every attempt is given up; when it wakes, what it brings is not taken for what was asked
 * since. */
Test(load, a_file_that_wakes_is_read_on)
{
	void *image;
	int fd = make_file();
	struct load_reader *r = start(fd, LOAD_PREAD, &image);

	atomic_store(&held, true);
	for (int again = 0; again < 3; again++) {
		cr_expect_eq(read_all(r, 50000000), -ETIMEDOUT);
		cr_expect(strstr(err,
				 "no byte of the file at offset 100 for 0.1 s, got 0 of 10000 ("),
			  "%s", err);
		load_reader_drop(r);
	}
	atomic_store(&held, false);
	cr_expect_eq(read_all(r, PATIENCE), 0, "%s", err);
	finish(r, fd, image);
}

/* It ends in the middle of a page, of which the mapping has the rest as zeros. */
Test(load, a_file_that_became_shorter)
{
	for (int source = 0; source < 2; source++) {
		void *image;
		int fd = make_file();
		struct load_reader *r = start(fd, (enum load_source)source, &image);
		const off_t end = 100 + 3 * PART + 77, all = 100 + PARTS * PART;
		char want[200];

		cr_assert_eq(ftruncate(fd, end), 0);
		for (int again = 0; again < 2; again++) {
			cr_expect_eq(read_all(r, PATIENCE), -ENODATA, "%s", err);
			snprintf(want, sizeof(want),
				 "reading %u bytes at offset %u, got 77: the file ends there (%s)",
				 PART, 100 + 3 * PART, path);
			cr_expect_str_eq(err, want);
			load_reader_drop(r);
		}
		for (off_t at = end; at < all; at++) {
			const uint8_t b = byte_at((uint64_t)at);

			cr_assert_eq(pwrite(fd, &b, 1, at), 1);
		}
		cr_expect_eq(read_all(r, PATIENCE), 0, "%s", err);
		finish(r, fd, image);
	}
}

/* Memory that never arrives: the kernel asks a userfaultfd that nobody reads. */
Test(load, a_stalled_mapping_is_given_up, .timeout = 300)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	const struct load_part part = {0, 8192};
	struct load_reader *r;
	const uint8_t *data;
	uint8_t *p;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0) {
		fprintf(stderr, "SKIP: load.a_stalled_mapping_is_given_up: no userfaultfd\n");
		return;
	}
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (uintptr_t)p;
	reg.range.len = 8192;
	cr_assert_eq(ioctl(fd, UFFDIO_API, &api), 0);
	cr_assert_eq(ioctl(fd, UFFDIO_REGISTER, &reg), 0);
	cr_assert_eq(load_reader_start(&(struct load_file){.image = p, .fd = -1}, LOAD_MMAP, 8192,
				       &r, err, sizeof(err)),
		     0);
	load_reader_ask(r, &part);
	cr_expect_eq(load_reader_next(r, 300000000, &data, err, sizeof(err)), -ETIMEDOUT);
	cr_expect(strstr(err, "no byte of the file at offset 0 for 0.3 s"), "%s", err);
	load_reader_stop(r); /* does not wait for it */
	close(fd);
}

/* A load that was given up leaves its thread with an image that may be gone when the file wakes. */
Test(load, an_image_that_is_gone)
{
	const struct load_part part = {0, 8192};
	struct load_reader *r;
	const uint8_t *data;
	uint8_t *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(p != MAP_FAILED);
	cr_assert_eq(munmap(p, 8192), 0);
	cr_assert_eq(load_reader_start(&(struct load_file){.image = p, .fd = -1}, LOAD_MMAP, 8192,
				       &r, err, sizeof(err)),
		     0);
	load_reader_ask(r, &part);
	cr_expect_eq(load_reader_next(r, PATIENCE, &data, err, sizeof(err)), -ENOMEM);
	cr_expect(strstr(err, "reading 8192 bytes at offset 0, got 0"), "%s", err);
	load_reader_stop(r);
}

/* Given up before the reader begins, and in the middle of a part: its file and memory are not left to when
 * its thread has the time. The next descriptor tells whether the file is closed. */
Test(load, what_is_given_up_is_given_back, .timeout = 300)
{
	const struct load_part part = {0, 256 << 20};
	int fd, before, after;
	struct load_reader *r;

	strcpy(path, "/tmp/barewave-load-XXXXXX");
	fd = mkstemp(path);
	before = dup(0);
	cr_assert(fd >= 0 && before >= 0);
	cr_assert_eq(ftruncate(fd, 256 << 20), 0);
	close(before);
	for (unsigned ms = 0; ms < 200; ms += 40) {
		cr_assert_eq(load_reader_start(&(struct load_file){.fd = fd, .path = path},
					       LOAD_PREAD, part.bytes, &r, err, sizeof(err)),
			     0, "%s", err);
		load_reader_ask(r, &part);
		usleep(1000 * ms);
		load_reader_stop(r);
		after = dup(0);
		cr_expect_eq(after, before, "after %u ms", ms);
		close(after);
	}
	close(fd);
	unlink(path);
}

/* A file that is no file, and one whose name is another's by the time it is opened anew. */
Test(load, what_cannot_be_read_at_all)
{
	struct load_file file = {.fd = -1};
	struct load_reader *r;

	cr_expect_eq(load_reader_start(&file, LOAD_PREAD, 4096, &r, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "only mmap can load it"), "%s", err);
	cr_expect_eq(load_reader_start(&file, LOAD_DIRECT, 4096, &r, err, sizeof(err)), -EINVAL);
	cr_expect(strstr(err, "only mmap can load it"), "%s", err);
	file.path = "Makefile";
	file.ino = 1;
	cr_expect_eq(load_reader_start(&file, LOAD_DIRECT, 4096, &r, err, sizeof(err)), -ESTALE);
	cr_expect(strstr(err, "wanted the file that was opened, inode 1"), "%s", err);
}

/* What a part takes of a row, in the longer of its two forms. */
Test(load, a_row_that_staging_does_not_take)
{
	struct load_opts o = {.copy = LOAD_SDMA, .staging = 1 << 20};
	struct load_item item = {
		.name = "wide", .k = 65536, .rows = 2, .layout = layout_of(TYPE_F32)};

	cr_expect_eq(load_check(&o, &item, err, sizeof(err)), 0);
	item.k++;
	cr_expect_eq(load_check(&o, &item, err, sizeof(err)), -EINVAL);
	cr_expect_str_eq(err,
			 "tensor wide: a row of 262160 bytes; staging of 1048576 takes parts of "
			 "262144");
	o.copy = LOAD_HOST;
	cr_expect_eq(load_check(&o, &item, err, sizeof(err)), 0);
}
