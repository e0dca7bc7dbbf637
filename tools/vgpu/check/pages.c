/* The client's mappings, shut and opened page by page.
 *
 * A shut page has no entry in the client's page table; its bytes stay in the memfd, which the
 * device reaches by its alias. The first access then faults, and a userfaultfd registered for
 * missing, minor and write-protect faults on shared memory hands the fault to the thread here, with
 * the byte's address and the thread that wants it. A page that was only read is mapped read-only,
 * so that a later write stops as well. Nothing in the program runs meanwhile but other threads, no
 * signal is raised, and a system call that touches a shut page waits like any instruction (which is
 * why the userfaultfd is not one for user mode only).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "check/internal.h"
#include "cp/cp.h"
#include "device.h"
#include "ownfd.h"
#include "vm/rawsys.h"

#define FEATURES                                                                                   \
	(UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_WP_HUGETLBFS_SHMEM | \
	 UFFD_FEATURE_THREAD_ID | UFFD_FEATURE_EXACT_ADDRESS)
/* The thread that faulted may not have gone to sleep yet. */
#define LOOKS 2000
/* Long enough for the kernel side to get what it came for; else it comes again. */
#define KERNEL_MS 1

static int uffd = -1, quit = -1;
static pthread_t thread;

static uint64_t page_of(uint64_t a)
{
	return a & ~(VM_PAGE - 1ull);
}

/* ---- the userfaultfd -------------------------------------------------------- */

static bool watch(struct check_region *r)
{
	struct uffdio_register reg = {
		.range = {r->addr, r->size},
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR |
			UFFDIO_REGISTER_MODE_WP,
	};

	return uffd >= 0 && rawsys3(SYS_ioctl, uffd, UFFDIO_REGISTER, &reg) == 0 &&
	       reg.ioctls & 1ull << _UFFDIO_CONTINUE && reg.ioctls & 1ull << _UFFDIO_WRITEPROTECT;
}

static void protect(uint64_t page, bool on)
{
	struct uffdio_writeprotect w = {{page, VM_PAGE}, on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

	rawsys3(SYS_ioctl, uffd, UFFDIO_WRITEPROTECT, &w);
}

static void wake(uint64_t page)
{
	struct uffdio_range r = {page, VM_PAGE};

	rawsys3(SYS_ioctl, uffd, UFFDIO_WAKE, &r);
}

/* Maps the page that is in the memfd by now, without letting the thread go yet. */
static void map(uint64_t page)
{
	struct uffdio_continue c = {.range = {page, VM_PAGE},
				    .mode = UFFDIO_CONTINUE_MODE_DONTWAKE};

	/* EEXIST: another thread's fault came first. Others: the mapping went away, and the thread
	 * is woken to find out. */
	rawsys3(SYS_ioctl, uffd, UFFDIO_CONTINUE, &c);
}

/* ---- shutting ------------------------------------------------------------------ */

static void count_open(const struct check_open *e, int n)
{
	uint8_t *open = &check.page[e->off / VM_PAGE].open;

	__atomic_store_n(open, (uint8_t)(*open + n), __ATOMIC_RELAXED);
}

static struct check_region *region_at(uint64_t addr)
{
	struct check_state *s = &check;
	size_t lo = 0, hi = s->n_regions;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (s->region[mid].addr + s->region[mid].size <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n_regions && s->region[lo].addr <= addr ? &s->region[lo] : NULL;
}

static void forget(struct check_open *e)
{
	struct check_region *r = region_at(e->addr);

	if (e->mode != SHUT)
		count_open(e, -1);
	*e->prev = e->next;
	if (e->next)
		e->next->prev = e->prev;
	if (r)
		r->at[(e->addr - r->addr) / VM_PAGE] = NULL;
	free(e->copy);
	free(e);
}

static void shut(struct check_open *e)
{
	if (e->mode == SHUT)
		return;
	rawsys3(SYS_madvise, e->addr, VM_PAGE, MADV_DONTNEED);
	count_open(e, -1);
	e->mode = SHUT;
}

void check_shut_all(bool ring)
{
	struct check_open *e, *next;

	for (e = check.open; e;) {
		/* New ones are put in front: a walk through memory lies here backwards. */
		uint64_t end = e->addr + VM_PAGE, start = e->addr;
		struct check_open *last = e;

		while (last->mode != SHUT && last->next && last->next->mode != SHUT &&
		       last->next->addr == start - VM_PAGE) {
			last = last->next;
			start = last->addr;
		}
		if (last == e) {
			shut(e);
		} else {
			rawsys3(SYS_madvise, start, end - start, MADV_DONTNEED);
			for (struct check_open *i = e;; i = i->next) {
				count_open(i, -1);
				i->mode = SHUT;
				if (i == last)
					break;
			}
		}
		e = last->next;
	}
	for (e = check.open; e; e = next) {
		next = e->next;
		if (ring && e->copied)
			check_settle(e, true);
		if (ring || !e->copied)
			forget(e);
	}
}

void check_shut_page(uint64_t off)
{
	if (!check.page[off / VM_PAGE].open)
		return;
	for (size_t i = 0; i < check.n_regions; i++) {
		struct check_region *r = &check.region[i];

		if (off - r->off < r->size && r->at[(off - r->off) / VM_PAGE])
			shut(r->at[(off - r->off) / VM_PAGE]);
	}
}

bool check_unseen(uint64_t off)
{
	for (size_t i = 0; check.unwatched && i < check.n_regions; i++)
		if (!check.region[i].watched && off - check.region[i].off < check.region[i].size)
			return true;
	return false;
}

/* ---- opening ------------------------------------------------------------------- */

static struct check_open *entry(struct check_region *r, uint64_t page)
{
	struct check_open **at = &r->at[(page - r->addr) / VM_PAGE], *e = *at;

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->addr = page;
	e->off = r->off + (page - r->addr);
	e->mode = SHUT;
	e->next = check.open;
	if (e->next)
		e->next->prev = &e->next;
	e->prev = &check.open;
	check.open = e;
	*at = e;
	return e;
}

/* Before the first write since a ring. */
static void keep_copy(struct check_open *e, const struct check_trap *t)
{
	static const uint8_t zeros[VM_PAGE];
	const uint8_t *now = check.alias + e->off;

	if (e->copied)
		return;
	if (memcmp(now, zeros, VM_PAGE)) {
		e->copy = malloc(VM_PAGE);
		if (!e->copy)
			return;
		memcpy(e->copy, now, VM_PAGE);
	}
	e->copied = true;
	e->running = check_running();
	e->first = t->off;
	e->pc = t->pc;
	e->syscall = t->syscall;
	e->tid = t->tid;
}

/* Arguments of ioctls and the like, read and written for the kernel the device plays (kfd/user.c). It
 * sees nothing on the host's behalf. */
static bool by_kernel(const struct check_trap *t)
{
	return t->syscall == SYS_process_vm_readv || t->syscall == SYS_process_vm_writev;
}

/* What was opened for it is shut, so that the host's next access is looked at. */
static void shut_kernel(void)
{
	pthread_mutex_lock(&check.lock);
	for (struct check_open *e = check.open; e; e = e->next)
		if (e->kernel) {
			shut(e);
			e->kernel = false;
		}
	check.kernel = false;
	pthread_mutex_unlock(&check.lock);
}

static void trapped(struct check_trap *t, bool protected)
{
	const bool kernel = by_kernel(t);
	uint64_t page = page_of(t->addr);
	struct check_region *r;
	struct check_open *e;

	pthread_mutex_lock(&check.lock);
	check.traps++;
	r = region_at(t->addr);
	if (!r || !r->watched)
		goto out; /* unmapped meanwhile */
	t->off = r->off + (t->addr - r->addr);
	if (!kernel)
		check_judge(t);
	e = entry(r, page);
	if (e && t->write)
		keep_copy(e, t);
	if (e)
		e->kernel = kernel && e->mode == SHUT;
	check.kernel |= e && e->kernel;
	if (e && e->mode == SHUT)
		count_open(e, 1);
	if (e)
		e->mode = t->write ? OPEN : e->mode == OPEN ? OPEN : READABLE;
	if (!protected) {
		/* So that it is in the memfd. */
		(void)*(volatile uint8_t *)(check.alias + (t->off & ~(VM_PAGE - 1ull)));
		map(page);
	}
	protect(page, e && e->mode != OPEN);
out:
	wake(page);
	pthread_mutex_unlock(&check.lock);
}

/* Where thread tid stands: "-1 SP PC" when an instruction faulted, "NR ARGS SP PC" within a system
 * call (proc_pid_syscall). */
static void locate(struct check_trap *t)
{
	char path[48], text[256] = "", *end;
	unsigned tries = 0;
	long fd, n = 0;

	t->syscall = -2;
	snprintf(path, sizeof(path), "/proc/self/task/%u/syscall", t->tid);
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	for (unsigned i = 0; i < LOOKS; i++) {
		n = rawsys4(SYS_pread64, fd, text, sizeof(text) - 1, 0);
		if (n <= 0 || text[0] != 'r') /* running */
			break;
		raw_nap(&tries);
	}
	rawsys1(SYS_close, fd);
	if (n <= 0 || text[0] == 'r')
		return;
	text[n] = '\0';
	t->syscall = (int)strtol(text, NULL, 10);
	end = strrchr(text, ' ');
	if (end)
		t->pc = strtoull(end + 1, NULL, 16);
}

static void *loop(void *arg)
{
	struct uffd_msg msg = {0};

	(void)arg;
	for (;;) {
		struct pollfd fd[2] = {{.fd = uffd, .events = POLLIN},
				       {.fd = quit, .events = POLLIN}};

		if (!rawsys3(SYS_poll, fd, 2, check.kernel ? KERNEL_MS : -1))
			shut_kernel();
		if (fd[1].revents)
			return NULL;
		while (rawsys3(SYS_read, uffd, &msg, sizeof(msg)) == (long)sizeof(msg)) {
			struct check_trap t = {
				.addr = msg.arg.pagefault.address,
				.tid = msg.arg.pagefault.feat.ptid,
				.write = msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE,
			};

			if (msg.event != UFFD_EVENT_PAGEFAULT)
				continue;
			locate(&t);
			trapped(&t, msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP);
		}
	}
}

/* ---- mappings ------------------------------------------------------------------ */

static void give_up(const char *why)
{
	check.dead = true;
	snprintf(check.why, sizeof(check.why), "%s", why);
	vgpu_report("visibility is not checked: %s", why);
}

int check_pages_start(void)
{
	sigset_t all, old;
	int r;

	if (uffd >= 0 || check.dead)
		return uffd >= 0 ? 0 : -ENOTSUP;
	if (!check_arrays()) {
		give_up("no address space for one word per dword of the device's memory");
		return -ENOMEM;
	}
	check.access = calloc(CHECK_ACCESSES, sizeof(*check.access));
	r = own_fd_uffd(0, FEATURES);
	check.writer = calloc(CHECK_WRITERS, sizeof(*check.writer));
	if (r < 0 || !check.access || !check.writer) {
		give_up("it needs userfaultfd for shared memory, Linux 5.19, as root or with "
			"access to /dev/userfaultfd");
		return -ENOTSUP;
	}
	uffd = r;
	quit = own_fd(rawsys2(SYS_eventfd2, 0, EFD_CLOEXEC));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = quit < 0 ? EMFILE : pthread_create(&thread, NULL, loop, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		own_fd_close(uffd);
		uffd = -1;
		give_up("no thread for it");
		return -r;
	}
	pthread_setname_np(thread, "vgpu-check");
	return 0;
}

void check_pages_stop(void)
{
	uint64_t one = 1;

	if (uffd < 0)
		return;
	rawsys3(SYS_write, quit, &one, sizeof(one));
	pthread_join(thread, NULL);
	own_fd_close(quit);
	own_fd_close(uffd); /* unregisters, and lets waiting threads go */
	quit = uffd = -1;
}

void check_pages_forked(void)
{
	own_fd_close(uffd);
	own_fd_close(quit);
	uffd = quit = -1;
}

static bool insert(uint64_t addr, uint64_t len, uint64_t off)
{
	struct check_state *s = &check;
	struct check_region r = {.addr = addr, .size = len, .off = off};
	size_t i = 0;

	if (s->n_regions == s->cap_regions) {
		size_t cap = s->cap_regions ? 2 * s->cap_regions : 64;
		struct check_region *p = realloc(s->region, cap * sizeof(*p));

		if (!p)
			return false;
		s->region = p;
		s->cap_regions = cap;
	}
	r.at = calloc(len / VM_PAGE, sizeof(struct check_open *));
	r.watched = r.at && watch(&r);
	/* MAP_POPULATE may have opened it. */
	if (r.watched)
		rawsys3(SYS_madvise, addr, len, MADV_DONTNEED);
	s->unwatched += !r.watched;
	while (i < s->n_regions && s->region[i].addr < addr)
		i++;
	memmove(&s->region[i + 1], &s->region[i], (s->n_regions - i) * sizeof(r));
	s->region[i] = r;
	s->n_regions++;
	return true;
}

void check_mapped(uint64_t addr, uint64_t len, uint64_t pool_off)
{
	pthread_mutex_lock(&check.lock);
	if (!check_pages_start())
		insert(addr, len, pool_off);
	pthread_mutex_unlock(&check.lock);
}

bool check_read(uint64_t addr, void *to, size_t n)
{
	const struct check_region *r;
	bool ours;

	pthread_mutex_lock(&check.lock);
	r = region_at(addr);
	ours = r && r->watched && n <= r->addr + r->size - addr;
	if (ours)
		memcpy(to, check.alias + r->off + (addr - r->addr), n);
	pthread_mutex_unlock(&check.lock);
	return ours;
}

/* Takes [addr, addr + len) out of region i, which stays in up to two parts. */
static void cut(size_t i, uint64_t addr, uint64_t len)
{
	struct check_state *s = &check;
	struct check_region old = s->region[i];
	uint64_t end = old.addr + old.size, stop = addr + len;

	for (uint64_t p = 0; old.at && p < old.size / VM_PAGE; p++)
		if (old.at[p]) {
			shut(old.at[p]);
			forget(old.at[p]);
		}
	free(old.at);
	s->unwatched -= !old.watched;
	s->n_regions--;
	memmove(&s->region[i], &s->region[i + 1], (s->n_regions - i) * sizeof(old));
	if (old.addr < addr)
		insert(old.addr, addr - old.addr, old.off);
	if (stop < end)
		insert(stop, end - stop, old.off + (stop - old.addr));
}

void check_unmapped(uint64_t addr, uint64_t len)
{
	pthread_mutex_lock(&check.lock);
	for (size_t i = 0; i < check.n_regions; i++) {
		const struct check_region *r = &check.region[i];

		if (r->addr >= addr + len || r->addr + r->size <= addr)
			continue;
		/* What the host has written there so far counts. */
		for (struct check_open *e = check.open; e; e = e->next)
			if (e->copied && e->addr - addr < len)
				check_settle(e, true);
		cut(i, addr, len);
		i = (size_t)-1; /* from the start: few */
	}
	pthread_mutex_unlock(&check.lock);
}
