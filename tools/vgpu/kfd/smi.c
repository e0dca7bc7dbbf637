/* SMI event streams (kfd_smi_events.c).
 *
 * The FIFO is a pipe whose read end is the client's fd: reads, poll and epoll work by themselves.
 * Only write() (the event mask) and the end-of-file rules are the surface's business.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/memfd.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "carry.h"
#include "ownfd.h"
#include "share/share.h"
#include "vm/rawsys.h"

#define SMI_MSG_SIZE 96 /* KFD_SMI_EVENT_MSG_SIZE */

struct smi_client {
	struct smi_client *next;
	uint64_t *events; /* the mask, in memory that everybody with the descriptor shares */
	int events_fd;
	pid_t pid;
	bool suser;
	int wr; /* our end of the FIFO; -1 where nothing is reported to it */
	int rd; /* a private copy of the client's end, for its fill level and reads */
};

/* Guards the list and keeps messages whole. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t kfd_boottime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + vgpu_clock_ahead();
}

static bool capable_admin(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	if (rawsys2(SYS_capget, &h, d))
		return false;
	return d[0].effective >> CAP_SYS_ADMIN & 1;
}

static void count_stream(int n)
{
	uint64_t a[SHARE_ARGS] = {(uint64_t)(int64_t)n};

	if (share_active())
		share_call(SHARE_SMI_STREAM, a);
}

static int mask_map(struct smi_client *c)
{
	long at = rawsys6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c->events_fd, 0);

	if (at < 0 && at > -4096)
		return (int)at;
	c->events = (uint64_t *)at;
	return 0;
}

static int mask_create(struct smi_client *c)
{
	int fd = own_fd(rawsys2(SYS_memfd_create, "kfd-smi-mask", MFD_CLOEXEC)), err;

	if (fd < 0)
		return fd;
	c->events_fd = fd;
	err = (int)rawsys2(SYS_ftruncate, fd, 4096);
	if (!err)
		err = mask_map(c);
	if (err)
		own_fd_close(fd);
	return err;
}

static void mask_free(struct smi_client *c)
{
	rawsys2(SYS_munmap, c->events, 4096);
	own_fd_close(c->events_fd);
}

KFD_HANDLER(smi_events)
{
	struct kfd_ioctl_smi_events_args *a = args;
	struct smi_client *c;
	int fds[2] = {-1, -1}, err, fd;

	pthread_mutex_lock(&p->lock);
	err = kfd_pdd_by_id(p, a->gpuid) ? 0 : -EINVAL;
	pthread_mutex_unlock(&p->lock);
	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->pid = getpid();
	c->suser = capable_admin();
	c->rd = c->wr = -1;
	err = mask_create(c);
	if (err) {
		free(c);
		return err;
	}
	err = (int)rawsys2(SYS_pipe2, fds, O_NONBLOCK);
	if (err)
		goto out_free;
	/* Our ends live above the numbers that clients use. The client's has no O_CLOEXEC. */
	c->wr = own_fd(fds[1]);
	c->rd = own_fd_copy(fds[0]);
	if (c->rd < 0) {
		err = -EMFILE;
		goto out_close;
	}
	pthread_mutex_lock(&lock);
	c->next = kfd_device.smi;
	kfd_device.smi = c;
	kfd_device.stats.smi_clients++;
	pthread_mutex_unlock(&lock);
	count_stream(1);
	fd = vgpu_files.install_smi(c, fds[0]);
	if (fd < 0) {
		rawsys1(SYS_close, fds[0]);
		smi_release(c);
		return fd;
	}
	a->anon_fd = (uint32_t)fd;
	return 0;

out_close:
	rawsys1(SYS_close, fds[0]);
	own_fd_close(c->wr);
out_free:
	mask_free(c);
	free(c);
	return err;
}

ssize_t smi_write(struct smi_client *c, const void *buf, size_t n)
{
	uint64_t mask;

	if (n < sizeof(mask) || user_read(&mask, (uintptr_t)buf, sizeof(mask)))
		return -EFAULT;
	__atomic_store_n(c->events, mask, __ATOMIC_RELAXED);
	return sizeof(mask);
}

ssize_t smi_read(struct smi_client *c, void *buf, size_t n)
{
	char tmp[8192];
	long r;

	if (n > vgpu_kernel()->smi_fifo)
		n = vgpu_kernel()->smi_fifo;
	/* Never blocks, whatever O_NONBLOCK says; a read of nothing gets nothing, and says so. */
	r = n ? rawsys3(SYS_read, c->rd, tmp, n) : 0;
	if (r <= 0)
		return -EAGAIN;
	return user_write((uintptr_t)buf, tmp, (size_t)r) ? -EFAULT : r;
}

void smi_release(struct smi_client *c)
{
	pthread_mutex_lock(&lock);
	for (struct smi_client **p = &kfd_device.smi; *p; p = &(*p)->next) {
		if (*p == c) {
			*p = c->next;
			kfd_device.stats.smi_clients--;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	count_stream(-1);
	own_fd_close(c->wr);
	own_fd_close(c->rd);
	mask_free(c);
	free(c);
}

void smi_carry_out(struct carry *c, const struct smi_client *s)
{
	carry_put(c, (uint64_t)s->pid);
	carry_put(c, s->suser);
	carry_put(c, (uint64_t)(int64_t)carry_fd(c, s->events_fd));
}

struct smi_client *smi_carry_in(struct carry *c, int fd)
{
	pid_t pid = (pid_t)carry_get(c);
	bool suser = carry_get(c) != 0;
	int mask = (int)(int64_t)carry_get(c);

	return smi_kept(pid, suser, mask, fd);
}

struct smi_client *smi_kept(pid_t pid, bool suser, int events_fd, int fd)
{
	struct smi_client *s = calloc(1, sizeof(*s));
	char path[64];
	long wr = -1;

	if (!s)
		return NULL;
	s->pid = pid;
	s->suser = suser;
	s->events_fd = events_fd;
	s->wr = -1;
	s->rd = own_fd_copy(fd);
	if (s->rd < 0 || (events_fd < 0 ? mask_create(s) : mask_map(s))) {
		own_fd_close(s->rd);
		free(s);
		return NULL;
	}
	if (pid != getpid())
		return s; /* what there is to report is reported where it happens */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	wr = rawsys4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (wr >= 0)
		s->wr = own_fd(wr);
	pthread_mutex_lock(&lock);
	if (s->wr >= 0) {
		s->next = kfd_device.smi;
		kfd_device.smi = s;
		kfd_device.stats.smi_clients++;
	}
	pthread_mutex_unlock(&lock);
	return s;
}

static bool wants(const struct smi_client *c, pid_t pid, enum kfd_smi_event event)
{
	uint64_t events = __atomic_load_n(c->events, __ATOMIC_RELAXED);

	if (pid && c->pid != pid) {
		if (!c->suser)
			return false;
		if (vgpu_kernel()->smi_all_needs_bit &&
		    !(events & KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_ALL_PROCESS)))
			return false;
	}
	return events & KFD_SMI_EVENT_MASK_FROM_INDEX(event);
}

static void deliver(pid_t pid, enum kfd_smi_event event, const char *msg, int len)
{
	pthread_mutex_lock(&lock);
	for (struct smi_client *c = kfd_device.smi; c; c = c->next) {
		int fill = 0;

		if (!wants(c, pid, event))
			continue;
		/* A message that does not fit whole is dropped. */
		rawsys3(SYS_ioctl, c->rd, FIONREAD, &fill);
		if ((uint32_t)(fill + len) <= vgpu_kernel()->smi_fifo)
			rawsys3(SYS_write, c->wr, msg, len);
	}
	pthread_mutex_unlock(&lock);
}

void smi_news(pid_t pid, int event, const char *text, size_t len)
{
	deliver(pid, (enum kfd_smi_event)event, text, (int)len);
}

void smi_event(pid_t pid, enum kfd_smi_event event, const char *fmt, ...)
{
	bool others = share_active() && share_page->smi_streams > kfd_device.stats.smi_clients;
	char msg[SMI_MSG_SIZE];
	int len;
	va_list ap;

	if (!kfd_device.smi && !others)
		return;
	len = snprintf(msg, sizeof(msg), "%x ", event);
	va_start(ap, fmt);
	len += vsnprintf(msg + len, sizeof(msg) - (size_t)len, fmt, ap);
	va_end(ap);
	if (len > (int)sizeof(msg) - 1)
		len = sizeof(msg) - 1;
	deliver(pid, event, msg, len);
	/* Of no process: every process says it by itself. */
	if (others && pid) {
		uint64_t a[SHARE_ARGS] = {(uint64_t)pid, event};

		share_call_data(SHARE_SMI, a, -1, msg, (size_t)len, NULL, NULL);
	}
}

void smi_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

void smi_vmfault(struct kfd_process *p)
{
	/* The task recorded at ACQUIRE_VM is the one that is named. */
	smi_event(p->lead, KFD_SMI_EVENT_VMFAULT, "%x:%s\n", p->acquire_tid, p->acquire_comm);
}
