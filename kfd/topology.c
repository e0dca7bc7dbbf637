/* Reading the topology tree. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd/topology.h"

/* A whole small file; the length, or -errno. */
static ssize_t read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t at = 0;

	if (fd < 0)
		return -errno;
	while (at < size) {
		ssize_t n = read(fd, buf + at, size - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			n = -errno;
			close(fd);
			return n;
		}
		if (n == 0)
			break;
		at += (size_t)n;
	}
	close(fd);
	return at == size ? -EFBIG : (ssize_t)at;
}

static int read_number(const char *path, uint64_t *out, char *why, size_t why_len)
{
	char text[64];
	ssize_t n = read_file(path, text, sizeof(text));

	if (n < 0) {
		snprintf(why, why_len, "cannot read %s: %s", path, strerror((int)-n));
		return (int)n;
	}
	if (topology_parse_number(text, (size_t)n, out) < 0) {
		snprintf(why, why_len, "%s holds \"%.*s\"; wanted: one decimal number", path,
			 n > 40 ? 40 : (int)n, text);
		return -EINVAL;
	}
	return 0;
}

static void read_banks(const char *dir, struct topology_node *node)
{
	char path[PATH_MAX], text[1024];
	uint64_t sum = 0;

	for (uint64_t i = 0; i < node->mem_banks_count; i++) {
		char *p;
		ssize_t n;

		snprintf(path, sizeof(path), "%s/mem_banks/%llu/properties", dir,
			 (unsigned long long)i);
		n = read_file(path, text, sizeof(text) - 1);
		if (n < 0)
			return;
		text[n] = 0;
		p = strstr(text, "size_in_bytes ");
		if (!p)
			return;
		sum += strtoull(p + strlen("size_in_bytes "), NULL, 10);
	}
	node->mem_bytes = sum;
	node->mem_known = node->mem_banks_count != 0;
}

static int read_node(const char *root, unsigned index, struct topology_node *node, char *why,
		     size_t why_len)
{
	char dir[PATH_MAX - 64], path[PATH_MAX], text[8192];
	uint64_t id;
	ssize_t n;
	int rc;

	memset(node, 0, sizeof(*node));
	node->index = index;
	snprintf(dir, sizeof(dir), "%s/nodes/%u", root, index);
	snprintf(path, sizeof(path), "%s/gpu_id", dir);
	rc = read_number(path, &id, why, why_len);
	if (rc == -EPERM || rc == -EACCES) {
		node->denied = true; /* kfd-side device cgroup */
		return 0;
	}
	if (rc < 0)
		return rc;
	if (id > UINT16_MAX) {
		snprintf(why, why_len, "%s is %llu; wanted: at most 65535", path,
			 (unsigned long long)id);
		return -EINVAL;
	}
	node->gpu_id = (uint32_t)id;

	snprintf(path, sizeof(path), "%s/name", dir);
	n = read_file(path, text, sizeof(text));
	if (n > 0) {
		int len = (int)strcspn(text, "\n");

		snprintf(node->name, sizeof(node->name), "%.*s", len < n ? len : (int)n, text);
	}

	snprintf(path, sizeof(path), "%s/properties", dir);
	n = read_file(path, text, sizeof(text));
	if (n < 0) {
		snprintf(why, why_len, "cannot read %s: %s", path, strerror((int)-n));
		return (int)n;
	}
	rc = topology_parse_properties(text, (size_t)n, node, why, why_len);
	if (rc < 0) {
		char line[256];

		snprintf(line, sizeof(line), "%s", why);
		snprintf(why, why_len, "nodes/%u/%s", index, line);
		return rc;
	}
	read_banks(dir, node);
	return 0;
}

static int count_nodes(const char *root, char *why, size_t why_len)
{
	char path[PATH_MAX];
	struct dirent *e;
	int count = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/nodes", root);
	d = opendir(path);
	if (!d) {
		int rc = -errno;

		snprintf(why, why_len, "cannot read %s: %s", path, strerror(-rc));
		return rc;
	}
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			count++;
	closedir(d);
	if (count > TOPOLOGY_MAX_NODES) {
		snprintf(why, why_len, "%s has %d nodes; at most %d are supported", path, count,
			 TOPOLOGY_MAX_NODES);
		return -E2BIG;
	}
	return count;
}

int topology_read(const char *root, struct topology *out, char *why, size_t why_len)
{
	char path[PATH_MAX];
	struct topology *t;
	int rc = -EAGAIN;

	if (!root)
		root = "/sys/class/kfd/kfd/topology";
	t = malloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/generation_id", root);
	for (int try = 0; try < 10; try++) {
		uint64_t after;

		memset(t, 0, sizeof(*t));
		rc = read_number(path, &t->generation, why, why_len);
		if (rc < 0)
			goto out;
		rc = count_nodes(root, why, why_len);
		if (rc < 0)
			goto out;
		t->count = (unsigned)rc;
		rc = 0;
		for (unsigned i = 0; i < t->count && rc == 0; i++)
			rc = read_node(root, i, &t->nodes[i], why, why_len);
		/* A node may vanish under us; the generation tells that from a broken tree. */
		if (read_number(path, &after, why, rc ? 0 : why_len) < 0) {
			rc = rc ? rc : -EINVAL;
			goto out;
		}
		if (after == t->generation) {
			if (rc == 0)
				*out = *t;
			goto out;
		}
		rc = -EAGAIN;
	}
	snprintf(why, why_len, "%s kept changing while the topology was read", path);
out:
	free(t);
	return rc;
}
