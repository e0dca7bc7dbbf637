/* Observations: formatting and printing. */
#include "probe.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *section = "?";

void probe_set_section(const char *name)
{
	section = name;
}

static const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);

	/* The kernel's ENOTSUPP has no name in libc. */
	return err == KFD_ENOTSUPP ? "524" : name ? name : text("%d", err);
}

void observe(const char *name, const char *input, long ret, int err, const char *fmt, ...)
{
	char out[2048], line[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(out, sizeof(out), fmt, ap);
	va_end(ap);
	n = snprintf(line, sizeof(line), "%s\t%s\t%s\t%ld\t%s\t%s\n", section, name, input, ret,
		     ret < 0 ? errno_name(err) : "-", out);
	if (n >= (int)sizeof(line))
		n = sizeof(line) - 1;
	/* One write: children and threads observe too. */
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(3);
}

const char *text(const char *fmt, ...)
{
	static _Thread_local char buf[8][512];
	static _Thread_local unsigned next;
	char *s = buf[next++ % COUNT_OF(buf)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof(buf[0]), fmt, ap);
	va_end(ap);
	return s;
}

void probe_die(const char *what)
{
	observe("probe", what, -1, errno, "the section ends here");
	_exit(1);
}

int kfd_open(void)
{
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		probe_die("open /dev/kfd");
	return fd;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *pages(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		probe_die("mmap of private memory");
	return p;
}
