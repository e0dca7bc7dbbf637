/* SMI streams: whose messages, their text, what is dropped, odd reads and writes. */
#include "compare.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 40000, CLIENTS = 4 };

struct stream {
	int kernel; /* the witness's number */
	struct smi_client *ours;
	int fd; /* of ours, for poll */
};

static struct stream opened;

static int install(struct smi_client *c, int fd)
{
	opened.ours = c;
	opened.fd = fd;
	return fd;
}

static void open_stream(struct kfd_process *p, struct stream *s)
{
	struct kfd_ioctl_smi_events_args a = {.gpuid = vgpu_props.gpu_id};
	long err = client_call(p, AMDKFD_IOC_SMI_EVENTS, &a);

	*s = opened;
	s->kernel = witness_smi_open(getpid(), !geteuid());
	same("SMI_EVENTS", s->kernel < 0 ? s->kernel : 0, err);
	if (s->kernel < 0 || err)
		_exit(1);
}

static void close_stream(struct stream *s)
{
	witness_smi_close(s->kernel);
	smi_release(s->ours);
	close(s->fd);
}

/* Times are compared by their length: the witness's are all sevens. */
static bool same_text(const char *kernel, const char *ours, long n)
{
	for (long i = 0; i < n; i++) {
		if (kernel[i] == ours[i])
			continue;
		if (kernel[i] != '7' || ours[i] < '0' || ours[i] > '9')
			return false;
	}
	return true;
}

static void read_stream(const struct stream *s, unsigned long n)
{
	char kernel[2048], ours[2048];
	long a, b;

	memset(kernel, 0x55, sizeof(kernel));
	memset(ours, 0x55, sizeof(ours));
	a = witness_smi_read(s->kernel, kernel, n);
	b = smi_read(s->ours, ours, n);
	same("read of a stream", a, b);
	asked("%lu bytes", n);
	same("text", true, same_text(kernel, ours, sizeof(kernel)));
	asked("kernel: %.*s    virtual: %.*s", (int)(a > 0 ? a : 0), kernel, (int)(b > 0 ? b : 0),
	      ours);
}

static void write_mask(struct rng *r, const struct stream *s)
{
	static const unsigned long sizes[] = {8, 8, 8, 8, 16, 7, 4, 1, 0};
	uint64_t mask[2] = {rng_next(r) & rng_next(r) & 0xfff, 0};
	unsigned long n = sizes[rng_below(r, COUNT_OF(sizes))];

	if (rng_below(r, 2))
		mask[0] |= KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_ALL_PROCESS);
	if (!rng_below(r, 4))
		mask[0] = ~0ull;
	same("write of a mask", witness_smi_write(s->kernel, mask, n), smi_write(s->ours, mask, n));
	asked("%lu bytes, 0x%llx", n, (unsigned long long)mask[0]);
}

/* Our process's messages, as the driver makes them; another's, by the streams' own entry. */
static void message(struct rng *r, struct kfd_process *p)
{
	uint32_t trigger = rng_below(r, 6), gpu = vgpu_props.gpu_id;

	switch (rng_below(r, 4)) {
	case 0:
		witness_smi_vmfault(p->acquire_tid, p->lead, p->acquire_comm);
		smi_vmfault(p);
		break;
	case 1:
		witness_smi_evict(p->lead, gpu, trigger);
		kfd_process_evict_queues(p, (int)trigger);
		break;
	case 2:
		witness_smi_restore(p->lead, gpu);
		kfd_process_restore_queues(p);
		break;
	default:
		witness_smi_vmfault(1, 1, "init");
		smi_event(1, KFD_SMI_EVENT_VMFAULT, "%x:%s\n", 1, "init");
		break;
	}
}

static uint64_t sevens(void)
{
	uint64_t v = 0;

	for (uint64_t now = kfd_boottime_ns(); now; now /= 10)
		v = v * 10 + 7;
	return v;
}

void compare_smi(struct kfd_process *p)
{
	static const unsigned long sizes[] = {0, 1, 7, 16, 96, 300, 1023, 1024, 1500, 2048};
	struct stream s[CLIENTS];
	struct rng r = {99};

	vgpu_files.install_smi = install;
	for (unsigned i = 0; i < CLIENTS; i++)
		open_stream(p, &s[i]);
	for (unsigned step = 0; step < STEPS; step++) {
		struct stream *one = &s[rng_below(&r, CLIENTS)];
		struct pollfd f = {one->fd, POLLIN, 0};

		witness_smi_time(sevens());
		switch (rng_below(&r, 8)) {
		case 0:
			write_mask(&r, one);
			break;
		case 1:
		case 2:
			read_stream(one, sizes[rng_below(&r, COUNT_OF(sizes))]);
			break;
		case 3:
			same("poll", witness_smi_readable(one->kernel), poll(&f, 1, 0) == 1);
			break;
		case 4:
			if (rng_below(&r, 32))
				break;
			close_stream(one);
			open_stream(p, one);
			break;
		default:
			message(&r, p);
			break;
		}
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		close_stream(&s[i]);
}
