/* Events and WAIT_EVENTS (kfd_events.c).
 *
 * One lock per process guards events and waiters. A sleeper waits on a futex, and a device timer
 * ends finite waits: that way a signal handler restarts or interrupts the wait just as it does in the
 * kernel, where the sleep returns ERESTARTSYS. See wait_sleep().
 */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "carry.h"
#include "check/check.h"
#include "ownfd.h"
#include "vm/rawsys.h"

#define EVENT_PAGE_SIZE   (KFD_SIGNAL_EVENT_LIMIT * 8u)
#define TIMEOUT_IMMEDIATE 0u
#define TIMEOUT_INFINITE  0xffffffffu

struct wait;

struct waiter {
	struct waiter *next, **prev; /* on the event's list */
	struct kfd_event *event;     /* NULL once destroyed */
	struct wait *wait;
	bool activated, age_enabled;
};

struct wait {
	uint32_t futex; /* changes with every activation */
	struct kfd_timer timer;
	bool timed_out;
};

struct kfd_event {
	uint32_t id, type;
	bool auto_reset, signaled;
	uint32_t refs; /* the table's and every waiter's */
	uint64_t age;
	struct waiter *waiters;
	union {
		struct kfd_hsa_memory_exception_data memory;
		struct kfd_hsa_hw_exception_data hw;
	};
};

void kfd_event_process_init(struct kfd_process *p)
{
	pthread_mutex_init(&p->event_lock, NULL);
	p->signal_events.hint = 1; /* id 0 means "no id" in interrupts */
	p->signal_event_count = 1;
	p->signal_fd = -1;
}

static bool is_signal_type(uint32_t type)
{
	return type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG_EVENT;
}

static struct kfd_event *lookup(struct kfd_process *p, uint32_t id)
{
	if (id >= KFD_FIRST_NONSIGNAL_EVENT_ID)
		return idr_find(&p->other_events, id - KFD_FIRST_NONSIGNAL_EVENT_ID);
	return idr_find(&p->signal_events, id);
}

static void wait_kick(struct wait *w)
{
	__atomic_fetch_add(&w->futex, 1, __ATOMIC_RELEASE);
	rawsys3(SYS_futex, &w->futex, FUTEX_WAKE_PRIVATE, INT_MAX);
}

static void event_put(struct kfd_event *ev)
{
	if (!--ev->refs)
		free(ev);
}

/* Somebody sleeps on it. Waking takes a waiter off the kernel's queue at once, whenever it runs:
 * those that are activated do not count (wait.c:autoremove_wake_function). */
static bool event_awaited(const struct kfd_event *ev)
{
	for (const struct waiter *w = ev->waiters; w; w = w->next) {
		if (!w->activated)
			return true;
	}
	return false;
}

static void event_set(struct kfd_event *ev)
{
	ev->signaled = !ev->auto_reset || !event_awaited(ev);
	/* Ages 0 and 1 are "disabled" and "fresh": never come back to them. */
	if (!++ev->age)
		ev->age = 2;
	for (struct waiter *w = ev->waiters; w; w = w->next) {
		w->activated = true;
		wait_kick(w->wait);
		if (!vgpu_rule(RULE_event_wake_all) && ev->auto_reset)
			break;
	}
}

/* ---- the signal page ------------------------------------------------------ */

/* Kernel-allocated page of kernels that still have it: a memfd, so that the client can map it. */
static int kernel_page(struct kfd_process *p)
{
	int fd = own_fd(rawsys2(SYS_memfd_create, "kfd-event-page", MFD_CLOEXEC));
	long addr = -ENOMEM;

	if (fd < 0)
		return -ENOMEM;
	if (!rawsys2(SYS_ftruncate, fd, EVENT_PAGE_SIZE))
		addr = rawsys6(SYS_mmap, 0, EVENT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			       0);
	if (addr < 0 && addr > -4096) {
		own_fd_close(fd);
		return -ENOMEM;
	}
	p->signal_page = (uint64_t *)addr;
	p->signal_fd = fd;
	memset(p->signal_page, 0xff, EVENT_PAGE_SIZE);
	p->signal_mapped_size = 256 * 8; /* what the oldest clients expect */
	return 0;
}

int kfd_event_mmap(struct kfd_process *p, uint64_t len, int *fd)
{
	/* The order of the length is compared: 32 KiB at most. */
	if (len > EVENT_PAGE_SIZE || !p->signal_page || p->signal_fd < 0)
		return -EINVAL;
	p->signal_mapped_size = len;
	*fd = p->signal_fd;
	return 0;
}

/* CREATE_EVENT with a buffer handle: that buffer becomes the page. Process lock held. */
static int user_page(struct kfd_process *p, uint64_t handle)
{
	struct kfd_pdd *pdd;
	struct kfd_bo *bo;
	void *mem;

	if (p->signal_page)
		return -EINVAL;
	pdd = kfd_pdd_by_id(p, (uint32_t)(handle >> 32));
	if (!pdd)
		return -EINVAL;
	if (!kfd_pdd_bound(pdd))
		return -ENODEV;
	bo = kfd_bo_by_handle(pdd, handle);
	if (!bo || (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR))
		return -EINVAL;
	mem = bo->gem->bo ? vm_bo_kmap(bo->gem->bo) : NULL;
	if (!mem || bo->gem->size < EVENT_PAGE_SIZE)
		return -EINVAL;
	memset(mem, 0xff, EVENT_PAGE_SIZE);
	gem_ref(bo->gem); /* pinned until the process ends */
	gem_pin(bo->gem, 1);
	pthread_mutex_lock(&p->event_lock);
	p->signal_gem = bo->gem;
	p->signal_mapped_size = bo->gem->size;
	p->signal_handle = handle;
	p->signal_page = mem;
	pthread_mutex_unlock(&p->event_lock);
	return 0;
}

/* ---- create, destroy, set, reset ------------------------------------------ */

static int create_signal(struct kfd_process *p, struct kfd_event *ev)
{
	int id;

	if (p->signal_mapped_size && p->signal_event_count == p->signal_mapped_size / 8)
		return -ENOSPC;
	if (!p->signal_page) {
		int err = vgpu_kernel()->event_page_mmap ? kernel_page(p) : -ENOMEM;

		if (err)
			return err;
	}
	id = idr_alloc(&p->signal_events, ev, (uint32_t)(p->signal_mapped_size / 8));
	if (id < 0)
		return id;
	ev->id = (uint32_t)id;
	__atomic_store_n(&p->signal_page[id], UNSIGNALED_EVENT_SLOT, __ATOMIC_RELEASE);
	p->signal_event_count++;
	return 0;
}

static int create_other(struct kfd_process *p, struct kfd_event *ev)
{
	int id = idr_alloc(&p->other_events, ev, INT_MAX - KFD_FIRST_NONSIGNAL_EVENT_ID);

	if (id < 0)
		return id;
	ev->id = (uint32_t)id + KFD_FIRST_NONSIGNAL_EVENT_ID;
	return 0;
}

KFD_HANDLER(create_event)
{
	struct kfd_ioctl_create_event_args *a = args;
	struct kfd_event *ev;
	int err;

	if (a->event_page_offset) {
		pthread_mutex_lock(&p->lock);
		err = user_page(p, a->event_page_offset);
		pthread_mutex_unlock(&p->lock);
		if (err)
			return err;
	}
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return -ENOMEM;
	ev->refs = 1;
	ev->type = a->event_type;
	ev->auto_reset = a->auto_reset != 0;
	ev->age = 1;
	a->event_page_offset = 0;
	pthread_mutex_lock(&p->event_lock);
	err = is_signal_type(ev->type) ? create_signal(p, ev) : create_other(p, ev);
	if (!err) {
		if (is_signal_type(ev->type)) {
			a->event_page_offset = KFD_MMAP_TYPE_EVENTS;
			a->event_slot_index = ev->id;
		}
		a->event_id = a->event_trigger_data = ev->id;
	}
	pthread_mutex_unlock(&p->event_lock);
	if (err)
		free(ev);
	return err;
}

KFD_HANDLER(destroy_event)
{
	struct kfd_ioctl_destroy_event_args *a = args;
	struct kfd_event *ev;

	pthread_mutex_lock(&p->event_lock);
	ev = lookup(p, a->event_id);
	if (ev) {
		struct waiter *next;

		/* One that is activated keeps the event, and its wait completes. */
		for (struct waiter *w = ev->waiters; w; w = next) {
			next = w->next;
			w->prev = NULL;
			if (w->activated)
				continue;
			w->event = NULL;
			ev->refs--; /* never the last: the table's own is still there */
			wait_kick(w->wait);
		}
		ev->waiters = NULL;
		if (is_signal_type(ev->type)) {
			p->signal_event_count--;
			idr_remove(&p->signal_events, ev->id);
		} else {
			idr_remove(&p->other_events, ev->id - KFD_FIRST_NONSIGNAL_EVENT_ID);
		}
		event_put(ev);
	}
	pthread_mutex_unlock(&p->event_lock);
	return ev ? 0 : -EINVAL;
}

void kfd_events_free(struct kfd_process *p)
{
	struct idr *tables[] = {&p->signal_events, &p->other_events};

	for (unsigned t = 0; t < 2; t++) {
		for (uint32_t i = 0; i < tables[t]->n; i++)
			free(tables[t]->slot[i]);
		free(tables[t]->slot);
	}
}

/* ---- kept over exec ------------------------------------------------------- */

static void table_carry_out(struct carry *c, const struct idr *t)
{
	carry_put(c, t->used);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct kfd_event *ev = t->slot[i];

		if (!ev)
			continue;
		carry_put(c, i);
		carry_put(c, ev->type);
		carry_put(c, (unsigned)ev->auto_reset | (unsigned)ev->signaled << 1);
		carry_put(c, ev->age);
		carry_put_bytes(c, &ev->memory, sizeof(ev->memory));
	}
}

static void table_carry_in(struct carry *c, struct idr *t, uint32_t first)
{
	for (uint64_t n = carry_get(c); n && !c->bad; n--) {
		struct kfd_event *ev = calloc(1, sizeof(*ev)), dummy;
		uint32_t at = (uint32_t)carry_get(c), bits;
		struct kfd_event *to = ev ? ev : &dummy;

		to->type = (uint32_t)carry_get(c);
		bits = (uint32_t)carry_get(c);
		to->auto_reset = bits & 1;
		to->signaled = bits >> 1 & 1;
		to->age = carry_get(c);
		carry_get_bytes(c, &to->memory, sizeof(to->memory));
		to->refs = 1;
		to->id = first + at;
		if (!ev || idr_set(t, ev, at)) {
			free(ev);
			c->bad = true;
		}
	}
}

void kfd_events_carry_out(struct carry *c, struct kfd_process *p)
{
	pthread_mutex_lock(&p->event_lock);
	table_carry_out(c, &p->signal_events);
	table_carry_out(c, &p->other_events);
	carry_put(c, p->signal_event_count);
	carry_put(c, p->signal_mapped_size);
	carry_put(c, p->signal_handle);
	carry_put(c, (uint64_t)(int64_t)(p->signal_fd < 0 ? -1 : carry_fd(c, p->signal_fd)));
	carry_put(c, carry_number(c, CARRY_GEM, p->signal_gem));
	pthread_mutex_unlock(&p->event_lock);
}

void kfd_events_carry_in(struct carry *c, struct kfd_process *p)
{
	long at;

	table_carry_in(c, &p->signal_events, 0);
	table_carry_in(c, &p->other_events, KFD_FIRST_NONSIGNAL_EVENT_ID);
	p->signal_event_count = (uint32_t)carry_get(c);
	p->signal_mapped_size = carry_get(c);
	p->signal_handle = carry_get(c);
	p->signal_fd = (int)(int64_t)carry_get(c);
	p->signal_gem = carry_item(c, CARRY_GEM, carry_get(c));
	if (p->signal_gem) {
		gem_ref(p->signal_gem);
		p->signal_page = vm_bo_kmap(p->signal_gem->bo);
	} else if (p->signal_fd >= 0) {
		at = rawsys6(SYS_mmap, 0, EVENT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			     p->signal_fd, 0);
		if (at < 0 && at > -4096)
			c->bad = true;
		else
			p->signal_page = (uint64_t *)at;
	}
}

/* ---- set, reset ----------------------------------------------------------- */

int kfd_event_set(struct kfd_process *p, uint32_t id)
{
	struct kfd_event *ev;
	int err = -EINVAL;

	pthread_mutex_lock(&p->event_lock);
	ev = lookup(p, id);
	if (ev && ev->type == KFD_IOC_EVENT_SIGNAL) {
		event_set(ev);
		err = 0;
	}
	pthread_mutex_unlock(&p->event_lock);
	return err;
}

KFD_HANDLER(set_event)
{
	return kfd_event_set(p, ((struct kfd_ioctl_destroy_event_args *)args)->event_id);
}

KFD_HANDLER(reset_event)
{
	struct kfd_ioctl_destroy_event_args *a = args;
	struct kfd_event *ev;
	long err = -EINVAL;

	pthread_mutex_lock(&p->event_lock);
	ev = lookup(p, a->event_id);
	if (ev && ev->type == KFD_IOC_EVENT_SIGNAL) {
		ev->signaled = false;
		err = 0;
	}
	pthread_mutex_unlock(&p->event_lock);
	return err;
}

uint32_t kfd_event_count(struct kfd_process *p)
{
	return p->signal_events.used + p->other_events.used;
}

/* ---- signals from the device ---------------------------------------------- */

static bool slot_written(struct kfd_process *p, uint32_t id)
{
	/* Pairs with the release store that the device makes before it raises the interrupt. */
	return __atomic_load_n(&p->signal_page[id], __ATOMIC_ACQUIRE) != UNSIGNALED_EVENT_SLOT;
}

static void set_from_interrupt(struct kfd_process *p, struct kfd_event *ev)
{
	if (!ev || !is_signal_type(ev->type))
		return;
	if (vgpu_rule(RULE_event_slot_ack))
		__atomic_store_n(&p->signal_page[ev->id], UNSIGNALED_EVENT_SLOT, __ATOMIC_RELEASE);
	event_set(ev);
}

static struct kfd_event *lookup_partial(struct kfd_process *p, uint32_t id, unsigned bits)
{
	struct kfd_event *ev = NULL;

	if (id >= KFD_SIGNAL_EVENT_LIMIT)
		return NULL;
	if (bits > 31 || 1u << bits >= KFD_SIGNAL_EVENT_LIMIT)
		return slot_written(p, id) ? idr_find(&p->signal_events, id) : NULL;
	for (; id < KFD_SIGNAL_EVENT_LIMIT && !ev; id += 1u << bits) {
		if (slot_written(p, id))
			ev = idr_find(&p->signal_events, id);
	}
	return ev;
}

void kfd_event_signal_interrupt(struct kfd_process *p, uint32_t id, unsigned valid_bits)
{
	struct kfd_event *ev = NULL;

	pthread_mutex_lock(&p->event_lock);
	if (!p->signal_page)
		goto out;
	if (valid_bits)
		ev = lookup_partial(p, id, valid_bits);
	if (ev) {
		set_from_interrupt(p, ev);
	} else if (vgpu_rule(RULE_event_slot_scan)) {
		uint32_t n = p->signal_events.n;

		if (n > KFD_SIGNAL_EVENT_LIMIT)
			n = KFD_SIGNAL_EVENT_LIMIT;
		for (uint32_t i = 1; i < n; i++) {
			if (p->signal_events.slot[i] && slot_written(p, i))
				set_from_interrupt(p, p->signal_events.slot[i]);
		}
	}
out:
	pthread_mutex_unlock(&p->event_lock);
}

static void set_others(struct kfd_process *p, uint32_t type, const void *data, size_t n)
{
	pthread_mutex_lock(&p->event_lock);
	for (uint32_t i = 0; i < p->other_events.n; i++) {
		struct kfd_event *ev = p->other_events.slot[i];

		if (!ev || ev->type != type)
			continue;
		memcpy(&ev->memory, data, n);
		event_set(ev);
	}
	pthread_mutex_unlock(&p->event_lock);
}

void kfd_event_memory_exception(struct kfd_process *p,
				const struct kfd_hsa_memory_exception_data *data)
{
	set_others(p, KFD_IOC_EVENT_MEMORY, data, sizeof(*data));
}

void kfd_event_hw_exception(struct kfd_process *p, const struct kfd_hsa_hw_exception_data *data)
{
	set_others(p, KFD_IOC_EVENT_HW_EXCEPTION, data, sizeof(*data));
}

/* ---- WAIT_EVENTS ---------------------------------------------------------- */

static void wait_timeout(struct kfd_timer *t)
{
	struct wait *w = (struct wait *)((char *)t - offsetof(struct wait, timer));

	__atomic_store_n(&w->timed_out, true, __ATOMIC_RELEASE);
	wait_kick(w);
}

static int waiter_init(struct kfd_process *p, struct waiter *w, const struct kfd_event_data *d)
{
	struct kfd_event *ev = lookup(p, d->event_id);
	uint64_t age = d->signal_event_data.last_event_age;

	if (!ev)
		return -EINVAL;
	w->event = ev;
	ev->refs++;
	w->activated = ev->signaled;
	/* Consumed here already, and lost if the wait ends without completing. */
	ev->signaled = ev->signaled && !ev->auto_reset;
	if (ev->type == KFD_IOC_EVENT_SIGNAL && age) {
		w->age_enabled = true;
		if (ev->age != age)
			w->activated = true;
	}
	if (!w->activated) {
		w->next = ev->waiters;
		w->prev = &ev->waiters;
		if (w->next)
			w->next->prev = &w->next;
		ev->waiters = w;
	}
	return 0;
}

static uint32_t condition(bool all, uint32_t n, const struct waiter *w)
{
	uint32_t active = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!w[i].event)
			return KFD_IOC_WAIT_RESULT_FAIL;
		if (w[i].activated) {
			if (!all)
				return KFD_IOC_WAIT_RESULT_COMPLETE;
			active++;
		}
	}
	return active == n ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
}

static bool some_activated(uint32_t n, const struct waiter *w)
{
	for (uint32_t i = 0; i < n; i++) {
		if (w[i].activated)
			return true;
	}
	return false;
}

static int copy_out(uint32_t n, const struct waiter *w, uint64_t user)
{
	for (uint32_t i = 0; i < n; i++, user += sizeof(struct kfd_event_data)) {
		const struct kfd_event *ev = w[i].event;
		int err = 0;

		if (!ev)
			return -EINVAL;
		if (!w[i].activated)
			continue;
		if (ev->type == KFD_IOC_EVENT_MEMORY)
			err = user_write(user, &ev->memory, sizeof(ev->memory));
		else if (ev->type == KFD_IOC_EVENT_HW_EXCEPTION)
			err = user_write(user, &ev->hw, sizeof(ev->hw));
		else if (ev->type == KFD_IOC_EVENT_SIGNAL && w[i].age_enabled)
			err = user_write(user, &ev->age, sizeof(ev->age));
		if (err)
			return err;
	}
	return 0;
}

static void waiters_remove(uint32_t n, struct waiter *w, bool undo)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!w[i].event)
			continue;
		if (w[i].prev) {
			*w[i].prev = w[i].next;
			if (w[i].next)
				w[i].next->prev = w[i].prev;
			w[i].prev = NULL;
		}
		if (undo && w[i].activated && w[i].event->auto_reset)
			event_set(w[i].event);
		event_put(w[i].event);
	}
}

/* Jiffies, rounded up, plus one: never shorter than asked. */
static uint64_t timeout_ns(uint32_t ms)
{
	uint64_t jiffy = 1000000000u / vgpu_config.hz;
	uint64_t ns = (uint64_t)(ms > INT32_MAX ? INT32_MAX : ms) * 1000000u;

	if (!vgpu_rule(RULE_wait_jiffies))
		return ns;
	return (ns + jiffy - 1) / jiffy * jiffy + jiffy;
}

long (*vgpu_sleep)(uint32_t *futex, uint32_t seen, uint64_t ns);

/* What becomes of a sleep that a signal interrupts, as far as the client's handlers say. */
enum restarts {
	RESTARTS_NEVER,  /* no handler has SA_RESTART */
	RESTARTS_ALWAYS, /* all have */
	RESTARTS_MIXED,
};

static enum restarts restarts(void)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} sa;
	bool with = false, without = false;

	for (int sig = 1; sig <= 64; sig++) {
		memset(&sa, 0, sizeof(sa));
		if (rawsys4(SYS_rt_sigaction, sig, NULL, &sa, sizeof(sa.mask)) ||
		    (uintptr_t)sa.handler <= 1) /* SIG_DFL, SIG_IGN */
			continue;
		if (sa.flags & SA_RESTART)
			with = true;
		else
			without = true;
	}
	return !with ? RESTARTS_NEVER : !without ? RESTARTS_ALWAYS : RESTARTS_MIXED;
}

bool vgpu_restarts(void)
{
	return restarts() == RESTARTS_ALWAYS;
}

/* Sleeps until something changed. Event lock held on entry and exit. -EINTR on a signal.
 *
 * A sleep with a time limit ends with every signal that has a handler; one without goes on by itself
 * behind handlers that want restarts. The limit is none: the device's timer ends waits. */
static int wait_sleep(struct kfd_process *p, struct wait *wait, bool limit)
{
	static const struct timespec hour = {3600, 0};
	uint32_t seen = __atomic_load_n(&wait->futex, __ATOMIC_ACQUIRE);
	long r;

	/* The timer takes no lock: its kick may have been counted just now, after the caller looked.
	 * Pairs with the release in wait_timeout(), which comes before that kick. */
	if (__atomic_load_n(&wait->timed_out, __ATOMIC_ACQUIRE))
		return 0;
	pthread_mutex_unlock(&p->event_lock);
	if (vgpu_sleep)
		r = vgpu_sleep(&wait->futex, seen, UINT64_MAX);
	else
		r = rawsys6(SYS_futex, &wait->futex, FUTEX_WAIT_PRIVATE, seen, limit ? &hour : NULL,
			    NULL, 0);
	pthread_mutex_lock(&p->event_lock);
	return r == -EINTR ? -EINTR : 0;
}

/* What is left for a restarted wait: whole jiffies, the one that was added taken off. */
static uint32_t timeout_left(uint64_t deadline)
{
	uint64_t jiffy = 1000000000u / vgpu_config.hz, now = vgpu_clock_ns();
	uint64_t left = deadline > now ? (deadline - now + jiffy - 1) / jiffy : 0;

	return left > 1 ? (uint32_t)((left - 1) * 1000 / vgpu_config.hz) : 0;
}

KFD_HANDLER(wait_events)
{
	struct kfd_ioctl_wait_events_args *a = args;
	struct waiter small[8], *w = small;
	struct wait wait = {.timer = {.fn = wait_timeout, .locked = true}};
	enum restarts after = RESTARTS_NEVER;
	uint64_t deadline = 0;
	bool all = a->wait_for_all != 0, finite;
	int err = 0;

	finite = a->timeout != TIMEOUT_IMMEDIATE && a->timeout != TIMEOUT_INFINITE;
	if (a->num_events > vgpu_kernel()->wait_events_max) {
		a->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
		return -ENOMEM;
	}
	if (a->num_events > sizeof(small) / sizeof(small[0])) {
		w = calloc(a->num_events, sizeof(*w));
		if (!w) {
			a->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
			return -ENOMEM;
		}
	} else {
		memset(small, 0, sizeof(small));
	}
	pthread_mutex_lock(&p->event_lock);
	for (uint32_t i = 0; i < a->num_events && !err; i++) {
		struct kfd_event_data d;

		w[i].wait = &wait;
		err = user_read(&d, a->events_ptr + (uint64_t)i * sizeof(d), sizeof(d));
		if (!err)
			err = waiter_init(p, &w[i], &d);
	}
	if (err)
		goto out;
	a->wait_result = condition(all, a->num_events, w);
	if (a->wait_result == KFD_IOC_WAIT_RESULT_COMPLETE) {
		err = copy_out(a->num_events, w, a->events_ptr);
		goto out;
	}
	if (finite) {
		deadline = vgpu_clock_ns() + timeout_ns(a->timeout);
		err = timer_arm(&wait.timer, deadline);
		if (err)
			goto out;
	}
	/* Only then is a restart seen: by the time that it leaves in the arguments, or by the ages of
	 * events that were consumed and are set again. */
	if (!vgpu_sleep && (finite || some_activated(a->num_events, w)))
		after = restarts();
	while (a->wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT && a->timeout != TIMEOUT_IMMEDIATE &&
	       !__atomic_load_n(&wait.timed_out, __ATOMIC_ACQUIRE)) {
		err = wait_sleep(p, &wait, after == RESTARTS_ALWAYS);
		if (err) {
			/* The kernel looks for signals before it looks at the events. */
			if (finite)
				a->timeout = timeout_left(deadline);
			if (after == RESTARTS_ALWAYS)
				err = -KFD_ERESTARTSYS;
			break;
		}
		a->wait_result = condition(all, a->num_events, w);
	}
	if (!err && a->wait_result == KFD_IOC_WAIT_RESULT_COMPLETE)
		err = copy_out(a->num_events, w, a->events_ptr);
	if (finite)
		timer_cancel(&wait.timer);
out:
	for (uint32_t i = 0; check_on && !err && i < a->num_events; i++)
		if (w[i].event && w[i].activated)
			check_event_seen(w[i].event->id);
	waiters_remove(a->num_events, w, err == -EINTR || err == -KFD_ERESTARTSYS);
	pthread_mutex_unlock(&p->event_lock);
	if (w != small)
		free(w);
	if (err)
		a->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
	else if (a->wait_result == KFD_IOC_WAIT_RESULT_FAIL)
		err = -EIO;
	return err;
}
