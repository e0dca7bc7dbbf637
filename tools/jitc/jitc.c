/* vgpu-jitc: the virtual device's compiler. Reads kernels from the socket it was given and answers
 * with x86-64 objects. Started by libvgpu.so (tools/vgpu/isa/jit_server.c); nothing for people. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "isa/jit_internal.h"
#include "isa/jit_server.h"

struct code {
	uint64_t base;
	uint32_t bytes;
	uint8_t *p;
};

static int fetch(void *ctx, uint64_t pc, void *dst, size_t n)
{
	const struct code *c = ctx;
	uint64_t off = pc - c->base;
	size_t have;

	if (off >= c->bytes)
		return -EFAULT;
	have = c->bytes - off < n ? c->bytes - off : n;
	memcpy(dst, c->p + off, have);
	/* Behind what is reachable is no code: all ones are no instruction. */
	memset((uint8_t *)dst + have, 0xff, n - have);
	return 0;
}

static bool take(void *buf, size_t n)
{
	uint8_t *b = buf;

	while (n) {
		ssize_t k = read(JIT_SERVER_FD, b, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		b += k;
		n -= (size_t)k;
	}
	return true;
}

static bool give(const void *buf, size_t n)
{
	const uint8_t *b = buf;

	while (n) {
		ssize_t k = write(JIT_SERVER_FD, b, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		b += k;
		n -= (size_t)k;
	}
	return true;
}

/* Written beside and renamed: a reader sees a whole file or none. */
static void keep(char *path, const void *object, size_t bytes)
{
	char tmp[4200];
	int fd;

	for (char *s = path + 1; *s; s++)
		if (*s == '/') {
			*s = 0;
			mkdir(path, 0755);
			*s = '/';
		}
	snprintf(tmp, sizeof(tmp), "%s.%ld", path, (long)getpid());
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write(fd, object, bytes) != (ssize_t)bytes || close(fd) || rename(tmp, path))
		unlink(tmp);
}

static bool serve(void)
{
	char path[4096] = "";
	struct jit_request q;
	struct jit_reply a = {0};
	struct jit_cfg cfg = {0};
	struct code c = {0};
	void *object = NULL;
	size_t bytes = 0;
	bool on = false;

	if (!take(&q, sizeof(q)) || q.magic != JIT_SERVER_MAGIC || q.bytes > 1u << 20 ||
	    q.path_bytes >= sizeof(path))
		return false;
	c.base = q.base;
	c.bytes = q.bytes;
	c.p = malloc(q.bytes + 1);
	if (!c.p || !take(c.p, q.bytes) || !take(path, q.path_bytes))
		goto out;
	a.result = jit_cfg_build(fetch, &c, q.base, &cfg);
	if (!a.result && cfg.bytes != q.bytes) {
		a.result = -EILSEQ;
		snprintf(a.why, sizeof(a.why), "%u bytes of code, %u of them reachable", q.bytes,
			 cfg.bytes);
	}
	if (!a.result)
		a.result = jit_llvm_compile(&cfg, &q.shape, &object, &bytes, a.why, sizeof(a.why));
	if (!a.result)
		a.bytes = (uint32_t)bytes;
	/* Before the answer: the client may be gone by now, the next one will want it. */
	if (!a.result && path[0])
		keep(path, object, bytes);
	on = give(&a, sizeof(a)) && (a.result || give(object, bytes));
out:
	jit_cfg_free(&cfg);
	free(object);
	free(c.p);
	return on;
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	while (serve())
		;
	return 0;
}
