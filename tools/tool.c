#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "memory/rules.h"
#include "tools/tool.h"

void tool_say(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("barewave: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void tool_say_usage(const struct command *c, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "barewave %s: ", c->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry 'barewave %s --help'.\n", c->name);
}

int tool_help(const struct command *c)
{
	fputs(c->help, stdout);
	return TOOL_OK;
}

int tool_bad_option(const struct command *c, int answer, char **argv)
{
	const char *arg = argv[optind - 1];

	if (answer == ':')
		return tool_usage(c, "option '%s' needs a value", arg);
	return tool_usage(c, "unknown option '%s'", arg);
}

int tool_read_file(const char *path, void **data, size_t *n, char *err, size_t errlen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	struct stat st;
	char *p = NULL;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st) < 0) {
		rc = -errno;
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
		goto out;
	}
	p = malloc((size_t)st.st_size + 1);
	if (!p) {
		rc = -ENOMEM;
		goto out;
	}
	while (got < (size_t)st.st_size) {
		ssize_t r = read(fd, p + got, (size_t)st.st_size - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			rc = -errno;
		if (r <= 0)
			break; /* a file that shrank is as long as what was read */
		got += (size_t)r;
	}
	if (rc)
		goto out;
	*data = p;
	*n = got;
	p = NULL;
out:
	if (rc)
		snprintf(err, errlen, "%s: %s", path, strerror(-rc));
	free(p);
	if (fd >= 0)
		close(fd);
	return rc;
}

int tool_write_file(const char *path, const void *data, size_t n, char *err, size_t errlen)
{
	FILE *f = fopen(path, "wbe");
	int rc = 0;

	if (!f || fwrite(data, 1, n, f) != n)
		rc = -errno;
	if (f && fclose(f) && !rc)
		rc = -errno;
	if (rc)
		snprintf(err, errlen, "%s: %s", path, strerror(-rc));
	if (rc && f)
		tool_unfinished(path);
	return rc;
}

void tool_unfinished(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && S_ISREG(st.st_mode))
		unlink(path);
}

int tool_writable(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	char *dir;
	int rc;

	/* Neither is a name that a file could have. */
	if (!*path || (!stat(path, &st) && S_ISDIR(st.st_mode)))
		return tool_fail("%s: %s", path, strerror(*path ? EISDIR : ENOENT));
	if (!access(path, F_OK))
		return access(path, W_OK) ? tool_fail("%s: %s", path, strerror(errno)) : TOOL_OK;
	dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	if (!dir)
		return tool_fail("out of memory");
	rc = access(dir, W_OK | X_OK) ? tool_fail("%s: %s", path, strerror(errno)) : TOOL_OK;
	free(dir);
	return rc;
}

bool tool_u64(const char *text, uint64_t max, uint64_t *out)
{
	uint64_t v;

	if (!mem_bytes_parse(text, &v) || v > max)
		return false;
	*out = v;
	return true;
}

bool tool_f64(const char *text, double *out)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || *end || errno == ERANGE)
		return false;
	*out = v;
	return true;
}

json_t *tool_json_text(const char *s)
{
	json_t *o = json_string(s);

	return o ? o : json_null();
}

int tool_print_json(json_t *obj)
{
	int rc = json_dumpf(obj, stdout,
			    JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));

	json_decref(obj);
	if (rc || putchar('\n') == EOF || fflush(stdout))
		return tool_fail("stdout: %s", strerror(errno));
	return TOOL_OK;
}

const char *tool_bytes(uint64_t n)
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	static _Thread_local char ring[8][32];
	static _Thread_local unsigned next;
	char *s = ring[next++ % 8];
	double v = (double)n;
	unsigned u = 0;

	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	snprintf(s, sizeof(ring[0]), u ? "%.1f %s" : "%.0f %s", v, unit[u]);
	return s;
}

uint64_t tool_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
