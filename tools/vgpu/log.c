/* The device log: what dmesg would say, and reports for the person at the terminal. */
#include "device.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ownfd.h"
#include "vm/rawsys.h"

static int log_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void log_open(void)
{
	const char *path = getenv("VGPU_LOG");
	int fd;

	if (!path || !*path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	log_fd = own_fd(fd);
}

static void emit(bool err, const char *fmt, va_list ap)
{
	char buf[1024];
	uint64_t t = vgpu_clock_ns();
	int head, n;

	pthread_once(&once, log_open);
	if (log_fd < 0 && !err)
		return;
	head = snprintf(buf, sizeof(buf), "[%5u.%06u] ", (unsigned)(t / 1000000000u),
			(unsigned)(t / 1000u % 1000000u));
	n = vsnprintf(buf + head, sizeof(buf) - (size_t)head - 1, fmt, ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(buf) - (size_t)head - 2)
		n = (int)(sizeof(buf) - (size_t)head - 2);
	if (!n || buf[head + n - 1] != '\n')
		buf[head + n++] = '\n';
	/* One write each: lines of several threads do not mix. A full disk loses log lines. */
	if (log_fd >= 0 && write(log_fd, buf, (size_t)(head + n)) < 0)
		log_fd = -1;
	if (err) {
		struct iovec iov[2] = {{(void *)(uintptr_t)"vgpu: ", 6}, {buf + head, (size_t)n}};

		rawsys3(SYS_writev, 2, iov, 2);
	}
}

bool vgpu_log_on(void)
{
	pthread_once(&once, log_open);
	return log_fd >= 0;
}

void vgpu_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(false, fmt, ap);
	va_end(ap);
}

void vgpu_report(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit(true, fmt, ap);
	va_end(ap);
}

void vgpu_append(const char *what, const char *path, char *s)
{
	long fd = s ? rawsys4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			      0644)
		    : -1;
	size_t n = s ? strlen(s) : 0, at = 0;

	while (fd >= 0 && at < n) {
		long r = rawsys3(SYS_write, fd, s + at, n - at);

		if (r <= 0)
			break;
		at += (size_t)r;
	}
	if (fd < 0 || at < n)
		vgpu_report("%s: cannot write %s", what, path);
	if (fd >= 0)
		rawsys1(SYS_close, fd);
	free(s);
}
