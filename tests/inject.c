/* Preloaded into a program: the Nth call of a kind that the program itself makes fails, as it does
 * when memory is gone. Calls from libraries (and from the virtual device, which is one) are let
 * through: what is tested is the program.
 *
 *   INJECT_KIND    alloc (malloc, calloc, realloc, strdup, strndup, aligned_alloc), map (mmap,
 *                  mremap, memfd_create, fallocate, pthread_create), ioctl or read (pread, and
 *                  madvise that reads a file)
 *   INJECT_AT      from 1; 0 or unset: only count
 *   INJECT_REPORT  file that gets "alloc N map N ioctl N read N fired N outstanding N" at exit;
 *                  outstanding: blocks the program allocated and did not free
 *   INJECT_TRACE   file that gets a line for each counted call: its kind, how often the program has
 *                  flushed its output before, and who called whom, as offsets in the program
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER ((uintptr_t)__builtin_return_address(0))
#define SLOTS  (1u << 18)
#define FRAMES 32
#define TRACED 4096

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void __libc_free(void *p);
extern void *__libc_memalign(size_t align, size_t n);

enum kind { ALLOC, MAP, IOCTL, READ, KINDS };
static const char *const names[KINDS] = {"alloc", "map", "ioctl", "read"};

static uintptr_t text_start, text_end, base;
static unsigned flushes;
static uint32_t traced;
static struct trace {
	int kind, n;
	unsigned flushes;
	void *frame[FRAMES];
} *trace;
static uint64_t count[KINDS], fired;
static int kind = -1;
static uint64_t at;
static uintptr_t blocks[SLOTS];
static bool ready;

static int find_text(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	/* The first one is the program. */
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
			base = info->dlpi_addr;
			text_start = info->dlpi_addr + p->p_vaddr;
			text_end = text_start + p->p_memsz;
		}
	}
	return 1;
}

__attribute__((constructor(101))) static void start(void)
{
	const char *k = getenv("INJECT_KIND"), *n = getenv("INJECT_AT");

	dl_iterate_phdr(find_text, NULL);
	for (int i = 0; k && i < KINDS; i++)
		if (!strcmp(k, names[i]))
			kind = i;
	at = n ? strtoull(n, NULL, 10) : 0;
	if (getenv("INJECT_TRACE")) {
		void *scrap[4];

		trace = __libc_calloc(TRACED, sizeof(*trace));
		backtrace(scrap, 4); /* loads what it needs the first time */
	}
	ready = true;
}

static void report_trace(void)
{
	const char *path = getenv("INJECT_TRACE");
	FILE *f = trace && path ? fopen(path, "we") : NULL;

	for (uint32_t i = 0; f && i < traced && i < TRACED; i++) {
		fprintf(f, "%s %u", names[trace[i].kind], trace[i].flushes);
		for (int j = 0; j < trace[i].n; j++)
			fprintf(f, " %lx", (uintptr_t)trace[i].frame[j] - base);
		fputc('\n', f);
	}
	if (f)
		fclose(f);
}

static void report(void)
{
	const char *path = getenv("INJECT_REPORT");
	uint64_t outstanding = 0;
	char text[160];
	int fd, n;

	ready = false;
	for (uint32_t i = 0; i < SLOTS; i++)
		outstanding += blocks[i] > 1;
	report_trace();
	if (!path)
		return;
	n = snprintf(text, sizeof(text),
		     "alloc %lu map %lu ioctl %lu read %lu fired %lu outstanding %lu\n",
		     count[ALLOC], count[MAP], count[IOCTL], count[READ], fired, outstanding);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd >= 0) {
		if (syscall(SYS_write, fd, text, n) != n)
			fd = -1;
		syscall(SYS_close, fd);
	}
}

__attribute__((destructor)) static void finish(void)
{
	report();
}

static bool ours(uintptr_t caller)
{
	return ready && caller >= text_start && caller < text_end;
}

/* Counts a call of the program; true when it is the one to fail. */
static bool fails(enum kind k, uintptr_t caller)
{
	if (!ours(caller))
		return false;
	if (trace) {
		uint32_t i = __atomic_fetch_add(&traced, 1, __ATOMIC_RELAXED);

		if (i < TRACED) {
			trace[i].kind = (int)k;
			trace[i].flushes = flushes;
			trace[i].n = backtrace(trace[i].frame, FRAMES);
		}
	}
	if (__atomic_add_fetch(&count[k], 1, __ATOMIC_RELAXED) != at || (int)k != kind)
		return false;
	fired++;
	return true;
}

/* ---- which blocks are the program's: 0 never used, 1 used once ---- */

static uint32_t slot_of(uintptr_t p)
{
	return (uint32_t)((p >> 4) * 0x9e3779b97f4a7c15u >> 32) % SLOTS;
}

static void *remember(void *p, uintptr_t caller)
{
	if (!p || !ours(caller))
		return p;
	for (uint32_t i = slot_of((uintptr_t)p);; i = (i + 1) % SLOTS) {
		uintptr_t old = __atomic_load_n(&blocks[i], __ATOMIC_RELAXED);

		if (old <= 1 && __atomic_compare_exchange_n(&blocks[i], &old, (uintptr_t)p, false,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return p;
	}
}

static void forget(void *p)
{
	if (!p || !ready)
		return;
	for (uint32_t i = slot_of((uintptr_t)p), n = 0; n < SLOTS; i = (i + 1) % SLOTS, n++) {
		uintptr_t v = __atomic_load_n(&blocks[i], __ATOMIC_RELAXED);

		if (v == (uintptr_t)p)
			__atomic_store_n(&blocks[i], 1, __ATOMIC_RELAXED);
		if (v == 0 || v == (uintptr_t)p)
			return;
	}
}

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* ---- memory ---- */

EXPORT void *malloc(size_t n)
{
	return fails(ALLOC, CALLER) ? no_memory() : remember(__libc_malloc(n), CALLER);
}

EXPORT void *calloc(size_t n, size_t size)
{
	return fails(ALLOC, CALLER) ? no_memory() : remember(__libc_calloc(n, size), CALLER);
}

EXPORT void *realloc(void *p, size_t n)
{
	void *q;

	if (fails(ALLOC, CALLER))
		return no_memory();
	q = __libc_realloc(p, n);
	if (q || !n) {
		forget(p);
		remember(q, CALLER);
	}
	return q;
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
	return fails(ALLOC, CALLER) ? no_memory() : remember(__libc_memalign(align, n), CALLER);
}

EXPORT void free(void *p)
{
	forget(p);
	__libc_free(p);
}

EXPORT char *strndup(const char *s, size_t max)
{
	size_t n = strnlen(s, max);
	char *p = fails(ALLOC, CALLER) ? no_memory() : remember(__libc_malloc(n + 1), CALLER);

	if (p) {
		memcpy(p, s, n);
		p[n] = '\0';
	}
	return p;
}

EXPORT char *strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = fails(ALLOC, CALLER) ? no_memory() : remember(__libc_malloc(n), CALLER);

	return p ? memcpy(p, s, n) : NULL;
}

/* ---- the kernel ---- */

static void *next(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	static void *(*real)(void *, size_t, int, int, int, off_t);

	if (fails(MAP, CALLER)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (!real)
		real = next("mmap");
	return real(addr, len, prot, flags, fd, off);
}

EXPORT void *mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
	static void *(*real)(void *, size_t, size_t, int, ...);
	va_list ap;
	void *to;

	va_start(ap, flags);
	to = flags & MREMAP_FIXED ? va_arg(ap, void *) : NULL;
	va_end(ap);
	if (fails(MAP, CALLER)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (!real)
		real = next("mremap");
	return real(old, old_len, len, flags, to);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
	static int (*real)(const char *, unsigned);

	if (fails(MAP, CALLER)) {
		errno = ENOMEM;
		return -1;
	}
	if (!real)
		real = next("memfd_create");
	return real(name, flags);
}

EXPORT int fallocate(int fd, int mode, off_t off, off_t len)
{
	static int (*real)(int, int, off_t, off_t);

	if (fails(MAP, CALLER)) {
		errno = ENOSPC;
		return -1;
	}
	if (!real)
		real = next("fallocate");
	return real(fd, mode, off, len);
}

EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	static ssize_t (*real)(int, void *, size_t, off_t);

	if (fails(READ, CALLER)) {
		errno = EIO;
		return -1;
	}
	if (!real)
		real = next("pread");
	return real(fd, buf, n, off);
}

EXPORT int madvise(void *at_va, size_t n, int advice)
{
	static int (*real)(void *, size_t, int);

	if (advice == MADV_POPULATE_READ && fails(READ, CALLER)) {
		errno = EFAULT;
		return -1;
	}
	if (!real)
		real = next("madvise");
	return real(at_va, n, advice);
}

EXPORT int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (fails(MAP, CALLER))
		return EAGAIN;
	if (!real)
		real = next("pthread_create");
	return real(t, attr, run, arg);
}

EXPORT int fflush(FILE *f)
{
	static int (*real)(FILE *);

	if (!real)
		real = next("fflush");
	flushes += ours(CALLER) && f == stdout;
	return real(f);
}

EXPORT int ioctl(int fd, unsigned long cmd, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fails(IOCTL, CALLER)) {
		errno = ENOMEM;
		return -1;
	}
	if (!real)
		real = next("ioctl");
	return real(fd, cmd, arg);
}
