#include "engine/gguf_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int gguf_open(const char *path, struct gguf **out, char *err, size_t errlen)
{
	struct gguf *g = NULL;
	void *map = MAP_FAILED;
	char *name = NULL;
	size_t size = 0;
	struct stat st;
	int fd, ret;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		gguf_fail(err, errlen, "%s: cannot open: %s", path, strerror(-ret));
		return ret;
	}
	if (fstat(fd, &st) < 0) {
		ret = -errno;
		gguf_fail(err, errlen, "%s: cannot stat: %s", path, strerror(-ret));
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		ret = -EINVAL;
		gguf_fail(err, errlen, "%s: not a regular file", path);
		goto out;
	}
	if (st.st_size == 0) {
		ret = -EINVAL;
		gguf_fail(err, errlen, "%s: file is empty; a GGUF header is 24 bytes", path);
		goto out;
	}
	size = (size_t)st.st_size;
	map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		ret = -errno;
		gguf_fail(err, errlen, "%s: cannot map %zu bytes: %s", path, size, strerror(-ret));
		goto out;
	}
	name = strdup(path);
	if (!name) {
		ret = -ENOMEM;
		gguf_fail(err, errlen, "%s: out of memory", path);
		goto out;
	}
	ret = gguf_parse(map, size, name, &g, err, errlen);
	if (ret < 0)
		goto out;
	g->path = name;
	g->fd = fd;
	g->dev = st.st_dev;
	g->ino = st.st_ino;
	*out = g;
	return 0;
out:
	free(name);
	if (map != MAP_FAILED)
		munmap(map, size);
	close(fd);
	return ret;
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	if (g->path)
		munmap((void *)(uintptr_t)g->base, g->size);
	if (g->fd >= 0)
		close(g->fd);
	free(g->path);
	gguf_free_tables(g);
	free(g);
}
