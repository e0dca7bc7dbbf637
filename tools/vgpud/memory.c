/* Memory of the device: one file for all clients, the KFD limits, and what TTM does when a place
 * is full.
 *
 * A buffer's bytes never move: its place (VRAM, GTT, system memory) is an account, and being moved
 * means that the queues which use it had to stop first and that it counts elsewhere. Offsets come
 * from the whole file, which is as large as all three places, so that a buffer keeps its offset
 * wherever it is accounted.
 */
#include "vgpud.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGN_BIG (2ull << 20)
#define BUCKETS   4096u
/* More than the 2.1 s that MES has to take queues off. */
#define STOP_PATIENCE_NS 5000000000ull

static int fd = -1;
static uint64_t file_size;
static uint64_t cap[PLACES];
static uint64_t used[PLACES];
static int64_t others[2]; /* VRAM and GTT that clients account for by themselves */
struct kfd_limits limits;
static struct bo *table[BUCKETS];
static struct bo *lru[PLACES], *mru[PLACES];
static uint64_t last_number;
static unsigned n_bos;
static struct job *jobs, **jobs_end = &jobs;

/* ---- the file ------------------------------------------------------------- */

static struct hole {
	uint64_t off, len;
} *holes; /* sorted by offset, never adjacent */
static size_t n_holes, cap_holes;

static int hole_insert(size_t at, uint64_t off, uint64_t len)
{
	if (n_holes == cap_holes) {
		size_t n = cap_holes ? cap_holes * 2 : 64;
		struct hole *h = realloc(holes, n * sizeof(*h));

		if (!h)
			return -ENOMEM;
		holes = h;
		cap_holes = n;
	}
	memmove(&holes[at + 1], &holes[at], (n_holes - at) * sizeof(*holes));
	holes[at] = (struct hole){off, len};
	n_holes++;
	return 0;
}

static void hole_remove(size_t at)
{
	n_holes--;
	memmove(&holes[at], &holes[at + 1], (n_holes - at) * sizeof(*holes));
}

static int range_take(uint64_t size, uint64_t align, uint64_t *out)
{
	for (size_t i = 0; i < n_holes; i++) {
		struct hole h = holes[i];
		uint64_t off = (h.off + align - 1) & ~(align - 1), head = off - h.off, tail;

		if (h.len < head || h.len - head < size)
			continue;
		tail = h.len - head - size;
		if (head && tail && hole_insert(i + 1, off + size, tail))
			return -ENOMEM;
		if (head)
			holes[i].len = head;
		else if (tail)
			holes[i] = (struct hole){off + size, tail};
		else
			hole_remove(i);
		*out = off;
		return 0;
	}
	return -ENOMEM;
}

static void range_give(uint64_t off, uint64_t size)
{
	size_t i = 0;
	bool before, behind;

	/* Punched before anybody else can have it: the next owner finds zeroes. */
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)size);
	while (i < n_holes && holes[i].off < off)
		i++;
	before = i && holes[i - 1].off + holes[i - 1].len == off;
	behind = i < n_holes && off + size == holes[i].off;
	if (before) {
		holes[i - 1].len += size + (behind ? holes[i].len : 0);
		if (behind)
			hole_remove(i);
	} else if (behind) {
		holes[i] = (struct hole){off, holes[i].len + size};
	} else {
		/* Without memory for the note the range stays unused: addresses, no bytes. */
		(void)hole_insert(i, off, size);
	}
}

int memory_open(void)
{
	cap[PLACE_VRAM] = vgpu_config.vram_bytes;
	cap[PLACE_GTT] = vgpu_config.gtt_bytes;
	cap[PLACE_SYSTEM] = vgpu_config.ram_bytes;
	for (unsigned i = 0; i < PLACES; i++)
		file_size += (cap[i] + ALIGN_BIG - 1) & ~(ALIGN_BIG - 1);
	fd = memfd_create("vgpu-shared-memory", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)file_size))
		return -errno;
	kfd_limits_init(&limits, vgpu_config.ram_bytes, vgpu_config.gtt_bytes);
	return hole_insert(0, 0, file_size);
}

int memory_fd(void)
{
	return fd;
}

void memory_publish(void)
{
	page->placed_vram = used[PLACE_VRAM] + (uint64_t)others[0];
	page->placed_gtt = used[PLACE_GTT] + (uint64_t)others[1];
	page->placed_system = used[PLACE_SYSTEM];
	page->sys_used = limits.sys_used;
	page->ttm_used = limits.ttm_used;
	page->kfd_vram_used = limits.vram_used;
}

unsigned memory_count(uint64_t *bytes)
{
	*bytes = used[PLACE_VRAM] + used[PLACE_GTT] + used[PLACE_SYSTEM];
	return n_bos;
}

/* ---- limits --------------------------------------------------------------- */

int memory_reserve(struct client *c, uint32_t flags, uint64_t size, const char **why)
{
	struct kfd_charge charge = kfd_limits_charge(flags, size, vgpu_props.vram_is_gtt);
	struct reservation *r = calloc(1, sizeof(*r));
	int err;

	*why = "daemon's own memory";
	if (!r)
		return -ENOMEM;
	err = kfd_limits_reserve(&limits, &charge, why);
	if (err) {
		free(r);
		return err;
	}
	*r = (struct reservation){c->reserved, flags, size};
	c->reserved = r;
	return 0;
}

/* What the client never reserved it cannot give back. */
static bool reservation_take(struct client *c, uint32_t flags, uint64_t size)
{
	struct reservation **pos = &c->reserved, *r;

	while ((r = *pos) && (r->flags != flags || r->size != size))
		pos = &r->next;
	if (!r)
		return false;
	*pos = r->next;
	free(r);
	return true;
}

void memory_unreserve(struct client *c, uint32_t flags, uint64_t size)
{
	struct kfd_charge charge = kfd_limits_charge(flags, size, vgpu_props.vram_is_gtt);

	if (reservation_take(c, flags, size))
		kfd_limits_release(&limits, &charge);
}

static uint64_t room(unsigned place)
{
	uint64_t in = used[place] + (place < 2 ? (uint64_t)others[place] : 0);

	return in < cap[place] ? cap[place] - in : 0;
}

/* What is no buffer of ours: page tables, user memory. */
int memory_placed(struct client *c, uint32_t domain, int64_t bytes)
{
	unsigned i = domain == GEM_VRAM ? PLACE_VRAM : domain == GEM_GTT ? PLACE_GTT : 2;

	if (i < 2 && bytes > 0 && room(i) < (uint64_t)bytes)
		return -ENOMEM;
	if (bytes < 0 && c->placed[i] < -bytes)
		return -EINVAL;
	c->placed[i] += bytes;
	if (i < 2)
		others[i] += bytes;
	else
		page->placed_preempt += (uint64_t)bytes;
	return 0;
}

/* ---- buffers -------------------------------------------------------------- */

static void lru_remove(struct bo *bo)
{
	*(bo->older ? &bo->older->newer : &lru[bo->place]) = bo->newer;
	*(bo->newer ? &bo->newer->older : &mru[bo->place]) = bo->older;
	used[bo->place] -= bo->size;
}

static void lru_add(struct bo *bo, unsigned place)
{
	bo->place = place;
	bo->older = mru[place];
	bo->newer = NULL;
	*(bo->older ? &bo->older->newer : &lru[place]) = bo;
	mru[place] = bo;
	used[place] += bo->size;
}

struct bo *bo_find(uint64_t number)
{
	struct bo *bo = table[number % BUCKETS];

	while (bo && bo->number != number)
		bo = bo->hash;
	return bo;
}

struct bo *bo_at(uint64_t offset)
{
	for (unsigned i = 0; i < PLACES; i++) {
		for (struct bo *bo = lru[i]; bo; bo = bo->newer) {
			if (offset >= bo->offset && offset - bo->offset < bo->size)
				return bo;
		}
	}
	return NULL;
}

static struct holder *holder_of(struct bo *bo, const struct client *c)
{
	struct holder *h = bo->holders;

	while (h && h->client != c)
		h = h->next;
	return h;
}

struct holder *bo_hold(struct bo *bo, struct client *c)
{
	struct holder *h = holder_of(bo, c);

	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		h->client = c;
		h->next = bo->holders;
		bo->holders = h;
	}
	h->refs++;
	return h;
}

void bo_release(struct bo *bo)
{
	struct bo **pos = &table[bo->number % BUCKETS];

	if (bo->holders || bo->files)
		return;
	while (*pos != bo)
		pos = &(*pos)->hash;
	*pos = bo->hash;
	for (struct job *j = jobs; j; j = j->next) {
		if (j->moving == bo)
			j->moving = NULL;
	}
	lru_remove(bo);
	n_bos--;
	kfd_limits_release(&limits, &bo->charge);
	range_give(bo->offset, bo->size);
	free(bo);
}

static void holder_remove(struct bo *bo, struct client *c)
{
	struct holder **pos = &bo->holders, *h;

	while ((h = *pos) && h->client != c)
		pos = &h->next;
	if (!h)
		return;
	*pos = h->next;
	free(h);
}

int bo_put(struct bo *bo, struct client *c)
{
	struct holder *h = holder_of(bo, c);

	if (!h)
		return -EINVAL;
	if (!--h->refs)
		holder_remove(bo, c);
	bo_release(bo);
	return 0;
}

int bo_charge(struct bo *bo, struct client *c, uint32_t flags)
{
	if (bo->kfd_flags || !reservation_take(c, flags, bo->size))
		return -EINVAL;
	bo->charge = kfd_limits_charge(flags, bo->size, vgpu_props.vram_is_gtt);
	bo->kfd_flags = flags;
	holder_of(bo, c)->kfd = true;
	return 0;
}

void bo_describe(const struct bo *bo, struct share_bo *out)
{
	*out = (struct share_bo){
		.number = bo->number,
		.offset = bo->offset,
		.size = bo->size,
		.domain = bo->home == PLACE_VRAM ? GEM_VRAM : GEM_GTT,
		.kfd_flags = bo->kfd_flags,
		.cpu_access = bo->cpu_access,
		.evicted = bo->place != bo->home,
	};
}

static int bo_create(struct client *c, unsigned place, uint64_t size, struct bo **out)
{
	struct bo *bo = calloc(1, sizeof(*bo));
	int err;

	if (!bo)
		return -ENOMEM;
	err = size >= ALIGN_BIG ? range_take(size, ALIGN_BIG, &bo->offset) : -ENOMEM;
	if (err)
		err = range_take(size, VM_PAGE, &bo->offset);
	if (!err && !bo_hold(bo, c)) {
		range_give(bo->offset, size);
		err = -ENOMEM;
	}
	if (err) {
		free(bo);
		return err;
	}
	bo->number = ++last_number;
	bo->size = size;
	bo->home = place;
	bo->hash = table[bo->number % BUCKETS];
	table[bo->number % BUCKETS] = bo;
	lru_add(bo, place);
	n_bos++;
	*out = bo;
	return 0;
}

/* ---- eviction (ttm_bo.c:ttm_bo_evict, amdgpu_ttm.c) ------------------------ */

enum { DONE, WAITING };

/* What MES and the kernel itself look at stays (amdgpu_bo_pin()). */
static bool pinned(const struct bo *bo)
{
	for (const struct holder *h = bo->holders; h; h = h->next) {
		if (h->pins)
			return true;
	}
	return false;
}

int bo_pin(struct bo *bo, struct holder *h, int64_t n)
{
	if (n < 0 && !h->pins)
		return -EINVAL;
	h->pins += n < 0 ? -1u : 1u;
	/* Where it belongs; a place that is full keeps it where it is. */
	if (n > 0 && bo->place != bo->home && room(bo->home) >= bo->size) {
		lru_remove(bo);
		lru_add(bo, bo->home);
		totals.moves++;
	}
	return 0;
}

/* Whoever asks is not put out of memory for himself (amdgpu_ttm_bo_eviction_valuable). */
static struct bo *victim(unsigned place, const struct client *self)
{
	for (struct bo *bo = lru[place]; bo; bo = bo->newer) {
		const struct holder *h = holder_of(bo, self);

		if ((!h || !h->kfd) && !pinned(bo))
			return bo;
	}
	return NULL;
}

/* Every process whose queues use bo is asked to stop. DONE: all have. */
static int stop_users(struct bo *bo)
{
	static const uint64_t none[2];
	int r = DONE;

	for (struct holder *h = bo->holders; h; h = h->next) {
		struct client *c = h->client;

		if (!h->kfd || c->stopped || c->gone)
			continue;
		/* A process that is halted from outside runs no waves either. */
		if (c->stopping && real_ns() >= c->stop_deadline) {
			c->stopped = true;
			continue;
		}
		r = WAITING;
		if (!c->stopping) {
			c->stopping = true;
			c->stop_deadline = real_ns() + STOP_PATIENCE_NS;
			totals.evictions++;
			tell(c, SHARE_NEWS_EVICT, none, NULL, 0);
		}
	}
	return r;
}

/* VRAM goes to GTT if there is room, everything else to system memory. */
static void move_out(struct bo *bo)
{
	unsigned to = bo->place == PLACE_VRAM && used[PLACE_GTT] + bo->size <= cap[PLACE_GTT]
			      ? PLACE_GTT
			      : PLACE_SYSTEM;

	lru_remove(bo);
	lru_add(bo, to);
	totals.moves++;
}

/* Makes room. 0, -ENOMEM, or WAITING (1) for users of j->moving. */
static int make_room(struct job *j, unsigned place, uint64_t size)
{
	if (size > cap[place])
		return -ENOMEM;
	while (room(place) < size) {
		struct bo *bo = j->moving && j->moving->place == place && !pinned(j->moving)
					? j->moving
					: victim(place, j->client);

		if (!bo)
			return -ENOMEM;
		j->moving = bo;
		if (stop_users(bo) == WAITING)
			return WAITING;
		j->moving = NULL;
		move_out(bo);
	}
	return 0;
}

static int run_alloc(struct job *j)
{
	unsigned place = j->msg.a[0] == GEM_VRAM ? PLACE_VRAM : PLACE_GTT;
	uint64_t size = j->msg.a[1];
	struct bo *bo;
	int r;

	if (!size || size % VM_PAGE || size > file_size)
		return -EINVAL;
	r = make_room(j, place, size);
	if (r)
		return r;
	r = bo_create(j->client, place, size, &bo);
	if (r)
		return r;
	j->msg.a[0] = bo->number;
	j->msg.a[1] = bo->offset;
	return 0;
}

/* All buffers of the process back (amdgpu_amdkfd_gpuvm_restore_process_bos). */
static int run_validate(struct job *j)
{
	for (unsigned place = PLACE_GTT; place < PLACES; place++) {
		for (struct bo *bo = lru[place], *next; bo; bo = next) {
			const struct holder *h = holder_of(bo, j->client);
			int r;

			next = bo->newer;
			if (!h || !h->kfd || bo->place == bo->home)
				continue;
			r = make_room(j, bo->home, bo->size);
			/* VRAM may be had from GTT instead; there it stays. */
			if (r == -ENOMEM && bo->home == PLACE_VRAM) {
				if (bo->place == PLACE_GTT)
					continue;
				r = make_room(j, PLACE_GTT, bo->size);
				if (!r) {
					lru_remove(bo);
					lru_add(bo, PLACE_GTT);
					totals.moves++;
					return run_validate(j);
				}
			}
			if (r)
				return r;
			lru_remove(bo);
			lru_add(bo, bo->home);
			totals.moves++;
			/* Room was made: the lists have changed. */
			return run_validate(j);
		}
	}
	j->client->stopped = false;
	return 0;
}

void job_add(struct client *c, const struct share_msg *m)
{
	struct job *j = calloc(1, sizeof(*j));
	struct share_msg no = *m;

	if (!j) {
		no.err = -ENOMEM;
		answer(c->slow, &no, NULL, 0);
		return;
	}
	j->client = c;
	j->msg = *m;
	*jobs_end = j;
	jobs_end = &j->next;
}

/* In their order; the first one that waits holds up the others, as TTM's own lock would. */
void jobs_run(void)
{
	while (jobs) {
		struct job *j = jobs;
		int r = j->msg.op == SHARE_BO_ALLOC ? run_alloc(j) : run_validate(j);

		if (r == WAITING)
			return;
		j->msg.err = r;
		memory_publish();
		answer(j->client->slow, &j->msg, NULL, 0);
		jobs = j->next;
		if (!jobs)
			jobs_end = &jobs;
		free(j);
	}
}

void memory_drop(struct client *c)
{
	for (struct job **pos = &jobs, *j; (j = *pos);) {
		if (j->client != c) {
			pos = &j->next;
			continue;
		}
		*pos = j->next;
		free(j);
	}
	for (jobs_end = &jobs; *jobs_end;)
		jobs_end = &(*jobs_end)->next;
	for (unsigned i = 0; i < PLACES; i++) {
		for (struct bo *bo = lru[i], *next; bo; bo = next) {
			next = bo->newer;
			if (!holder_of(bo, c))
				continue;
			holder_remove(bo, c);
			bo_release(bo);
		}
	}
	while (c->reserved)
		memory_unreserve(c, c->reserved->flags, c->reserved->size);
	others[0] -= c->placed[0];
	others[1] -= c->placed[1];
	page->placed_preempt -= (uint64_t)c->placed[2];
}
