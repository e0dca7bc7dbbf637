/* A client that talks nonsense to a shared device's daemon: it is answered or cut off, others are
 * served on, and nothing of it stays. */
#include <criterion/criterion.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "share/proto.h"

static char dir[] = "/tmp/barewave-talk-XXXXXX", path[64];

static void vgpud(const char *act)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "VGPU_SET= VGPU_CONFIG= build/vgpud --socket %s %s >%s/out",
		 path, act, dir);
	cr_assert_eq(system(cmd), 0, "%s", cmd);
}

static int connect_to(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	strcpy(to.sun_path, path);
	cr_assert(!connect(fd, (struct sockaddr *)&to, sizeof(to)));
	return fd;
}

static ssize_t say(int sock, const struct share_msg *m, const void *data, size_t n, int fd)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)m, sizeof(*m)}, {(void *)(uintptr_t)data, n}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr h = {.msg_iov = iov, .msg_iovlen = 2};
	struct cmsghdr *c = (struct cmsghdr *)control;

	if (fd >= 0) {
		h.msg_control = control;
		h.msg_controllen = sizeof(control);
		c->cmsg_len = CMSG_LEN(sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return sendmsg(sock, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void swallow(int sock)
{
	static char any[1 << 16];

	while (recv(sock, any, sizeof(any), MSG_DONTWAIT) > 0)
		;
}

/* Ours: [0] quick, [1] slow, [2] news. */
static void join(int c[3])
{
	struct share_msg m = {.op = SHARE_JOIN}, s = {.op = SHARE_SLOW};
	int sv[2];

	cr_assert(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv));
	c[0] = connect_to();
	c[1] = connect_to();
	c[2] = sv[0];
	say(c[0], &m, NULL, 0, sv[1]);
	close(sv[1]);
	cr_assert_geq(recv(c[0], &m, sizeof(m), 0), (ssize_t)sizeof(m));
	memcpy(s.a, m.a, sizeof(s.a));
	say(c[1], &s, NULL, 0, -1);
	cr_assert_geq(recv(c[1], &s, sizeof(s), 0), (ssize_t)sizeof(s));
	cr_assert_eq(s.err, 0);
}

static uint64_t rng = 1;

static uint64_t dice(uint64_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (rng >> 33) % n;
}

/* Mostly small numbers, which may mean something. */
static uint64_t argument(void)
{
	switch (dice(6)) {
	case 0:
		return 4096 * dice(1 << 16);
	case 1:
		return (uint64_t)0 - dice(5000);
	case 2:
		return rng;
	default:
		return dice(12);
	}
}

static long long number(const char *key)
{
	char file[80], want[40], *at;
	static char text[1 << 16];
	size_t n;
	FILE *f;

	vgpud("--status");
	snprintf(file, sizeof(file), "%s/out", dir);
	f = fopen(file, "r");
	cr_assert(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	snprintf(want, sizeof(want), "\"%s\": ", key);
	at = strstr(text, want);
	cr_assert(at, "%s in %s", key, text);
	return strtoll(at + strlen(want), NULL, 10);
}

TestSuite(vgpud_talk, .timeout = 600);

Test(vgpud_talk, nonsense)
{
	static const char *const zero[] = {
		"clients", "bos",      "gtt",   "vram",   "preempt", "evicted",    "system",
		"ttm",     "kfd_vram", "files", "queues", "sdma",    "mes_queues", "smi_streams"};
	static char data[SHARE_DATA_MAX];
	unsigned lives = 0, said = 0;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/gpu", dir);
	vgpud("--daemon");
	for (unsigned life = 0; life < 40; life++) {
		int c[3], peer[3];

		join(c);
		join(peer); /* somebody to have trouble with */
		for (unsigned i = 0; i < 500; i++) {
			struct share_msg m = {.op = (uint32_t)dice(SHARE_NEWS_PROC + 3)};
			int *who = dice(4) ? c : peer, fd = dice(8) ? -1 : dup(2);
			size_t n = dice(10) ? dice(64) * 4 : dice(sizeof(data));

			if (m.op == SHARE_STOP || m.op == SHARE_RESET)
				continue;
			for (unsigned k = 0; k < SHARE_ARGS; k++)
				m.a[k] = argument();
			for (unsigned k = 0; k < n && k < 256; k++)
				data[k] = (char)dice(256);
			if (dice(50))
				say(who[dice(20) ? (m.op == SHARE_BO_ALLOC) : dice(3)], &m, data, n,
				    fd);
			else
				send(who[0], data, dice(sizeof(m)), MSG_DONTWAIT | MSG_NOSIGNAL);
			said++;
			if (fd >= 0)
				close(fd);
			for (unsigned k = 0; k < 3; k++) {
				swallow(c[k]);
				swallow(peer[k]);
			}
		}
		lives++;
		for (unsigned k = 0; k < 3; k++) {
			close(c[k]);
			close(peer[k]);
		}
	}
	for (unsigned i = 0; i < 10000 && number("clients"); i++)
		usleep(10000);
	for (unsigned i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
		cr_expect_eq(number(zero[i]), 0, "%s: %lld", zero[i], number(zero[i]));
	fprintf(stderr, "%u messages in %u lives\n", said, lives);
	vgpud("--stop");
	snprintf(data, sizeof(data), "rm -rf %s", dir);
	cr_expect_eq(system(data), 0);
}
