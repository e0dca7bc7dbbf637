/* Event calls by name. */
#include "probe.h"

#include <string.h>

long event_create(int fd, uint32_t type, uint32_t auto_reset,
		  struct kfd_ioctl_create_event_args *out)
{
	struct kfd_ioctl_create_event_args a = {.event_type = type, .auto_reset = auto_reset};
	long r = call(fd, AMDKFD_IOC_CREATE_EVENT, &a);

	if (out)
		*out = a;
	return r;
}

uint32_t event_new(int fd, bool auto_reset)
{
	struct kfd_ioctl_create_event_args a;

	if (event_create(fd, KFD_IOC_EVENT_SIGNAL, auto_reset, &a))
		probe_die("CREATE_EVENT");
	return a.event_id;
}

static long by_id(int fd, unsigned long cmd, uint32_t id)
{
	struct kfd_ioctl_destroy_event_args a = {.event_id = id};

	return call(fd, cmd, &a);
}

long event_set(int fd, uint32_t id)
{
	return by_id(fd, AMDKFD_IOC_SET_EVENT, id);
}

long event_reset(int fd, uint32_t id)
{
	return by_id(fd, AMDKFD_IOC_RESET_EVENT, id);
}

long event_destroy(int fd, uint32_t id)
{
	return by_id(fd, AMDKFD_IOC_DESTROY_EVENT, id);
}

void *event_page_map(int fd, size_t len)
{
	errno = 0;
	return mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)KFD_MMAP_TYPE_EVENTS);
}

struct waited wait_data(int fd, void *data, uint32_t n, uint32_t all, uint32_t timeout_ms)
{
	struct kfd_ioctl_wait_events_args a = {
		.events_ptr = (uintptr_t)data,
		.num_events = n,
		.wait_for_all = all,
		.timeout = timeout_ms,
		.wait_result = 0xdead,
	};
	struct waited w = {.timeout_in = timeout_ms};
	uint64_t start = now_ns();

	w.ret = call(fd, AMDKFD_IOC_WAIT_EVENTS, &a);
	w.err = errno;
	w.ns = now_ns() - start;
	w.result = a.wait_result;
	w.timeout_out = a.timeout;
	return w;
}

struct waited wait_ids(int fd, const uint32_t *ids, uint32_t n, uint32_t all, uint32_t timeout_ms)
{
	struct kfd_event_data d[64];

	memset(d, 0, sizeof(d));
	for (uint32_t i = 0; i < n && i < COUNT_OF(d); i++)
		d[i].event_id = ids[i];
	return wait_data(fd, d, n, all, timeout_ms);
}

struct waited wait_one(int fd, uint32_t id, uint32_t timeout_ms)
{
	const uint32_t ids[1] = {id};

	return wait_ids(fd, ids, 1, 0, timeout_ms);
}

const char *wait_result_name(uint32_t result)
{
	static const char *const names[] = {"COMPLETE", "TIMEOUT", "FAIL"};

	return result < COUNT_OF(names) ? names[result] : text("0x%x", result);
}

/* The timeout comes back as given or, after a signal, as what is left: a number of its own. */
static const char *timeout_back(struct waited w)
{
	if (w.timeout_out == w.timeout_in)
		return "as given";
	return w.timeout_out < w.timeout_in ? "less" : "more";
}

void observe_wait(const char *input, struct waited w)
{
	const char *length = "";

	if (!w.ret && w.result == KFD_IOC_WAIT_RESULT_TIMEOUT && w.timeout_in)
		length = w.ns >= w.timeout_in * 1000000ull ? ", not early" : ", EARLY";
	else if (!w.ret && w.result == KFD_IOC_WAIT_RESULT_COMPLETE && w.timeout_in >= 1000)
		length = w.ns < 900000000ull ? ", before the timeout" : ", LATE";
	observe("WAIT_EVENTS", input, w.ret, w.err, "result %s, timeout %s%s",
		wait_result_name(w.result), timeout_back(w), length);
}
