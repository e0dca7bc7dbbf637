/* Fetching a ledger from another process or a file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/ledger_view.h"

#define MAX_BYTES (1ll << 32)

/* Grows while it is read: whole entries below the count of the first page are all that matters, and
 * those are there before the count is. */
static int read_all(int fd, void **image, size_t *bytes)
{
	struct stat st;
	size_t at = 0;
	char *p;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > MAX_BYTES)
		return -EINVAL;
	p = malloc((size_t)st.st_size + 1);
	if (!p)
		return -ENOMEM;
	while (at < (size_t)st.st_size) {
		ssize_t n = pread(fd, p + at, (size_t)st.st_size - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int rc = -errno;

			free(p);
			return rc;
		}
		if (n == 0)
			break;
		at += (size_t)n;
	}
	*image = p;
	*bytes = at;
	return 0;
}

int ledger_view_read_file(const char *path, void **image, size_t *bytes, char *why, size_t why_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	rc = fd < 0 ? -errno : read_all(fd, image, bytes);
	if (rc < 0)
		snprintf(why, why_len, "%s: %s", path,
			 rc == -EINVAL ? "not a file of at most 4 GiB" : strerror(-rc));
	if (fd >= 0)
		close(fd);
	return rc;
}

int ledger_view_read_pid(const char *proc, int pid, unsigned index, void **image, size_t *bytes,
			 char *why, size_t why_len)
{
	char dir[256], path[640], target[256];
	struct dirent *e;
	DIR *d;
	int rc = -ENOENT;

	snprintf(dir, sizeof(dir), "%s/%d/fd", proc, pid);
	d = opendir(dir);
	if (!d) {
		rc = -errno;
		snprintf(why, why_len, "%s: %s", dir,
			 rc == -ENOENT ? "no such process" : strerror(-rc));
		return rc == -ENOENT ? -ESRCH : rc;
	}
	snprintf(why, why_len, "process %d has no ledger: no descriptor of \"" LEDGER_NAME "\"",
		 pid);
	while ((e = readdir(d))) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, "/memfd:" LEDGER_NAME, strlen("/memfd:" LEDGER_NAME)) ||
		    index--)
			continue;
		rc = ledger_view_read_file(path, image, bytes, why, why_len);
		break;
	}
	closedir(d);
	return rc;
}
