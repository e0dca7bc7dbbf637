#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

#include "memory/ledger.h"
#include "memory/ledger_format.h"

#define FIRST_BYTES    (64u << 10)
#define NAME_MAX_BYTES 255u
/* Entries one owner's name may take. */
#define NAME_ENTRIES ((NAME_MAX_BYTES + LEDGER_NAME_BYTES - 1) / LEDGER_NAME_BYTES)

struct owner {
	char *name;
	uint64_t live, peak, count;
	bool owns; /* a BO once; other names are of things inside one */
};

/* One BO, alive or dead: what a fault is looked up in. */
struct life {
	const char *owner;
	uint64_t va, size, handle;
	uint32_t generation;
	bool alive;
};

struct ledger {
	int fd;
	struct ledger_header *map; /* and the entries behind it */
	uint64_t bytes;            /* of map */
	uint64_t nrecords;         /* entries that are not names */
	struct life *lives;        /* indexed by generation - 1 */
	uint64_t nlives, lives_cap;
	struct owner *owners;
	unsigned nowners, owners_cap;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Memory first, size after it: a page that cannot be had must be an error here, not SIGBUS when it
 * is written. */
static int file_grow(int fd, uint64_t bytes)
{
	int rc;

	do
		rc = fallocate(fd, 0, 0, (off_t)bytes) ? -errno : 0;
	while (rc == -EINTR);
	return rc == -ENOSPC ? -ENOMEM : rc;
}

int ledger_create(uint32_t gpu_id, struct ledger **out)
{
	struct ledger *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return -ENOMEM;
	l->map = MAP_FAILED;
	l->bytes = FIRST_BYTES;
	l->fd = memfd_create(LEDGER_NAME, MFD_CLOEXEC);
	if (l->fd < 0) {
		rc = -errno;
		goto out;
	}
	rc = file_grow(l->fd, l->bytes);
	if (rc < 0)
		goto out;
	l->map = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (l->map == MAP_FAILED) {
		rc = -errno;
		goto out;
	}
	*l->map = (struct ledger_header){
		.version = LEDGER_VERSION,
		.header_bytes = LEDGER_HEADER_BYTES,
		.entry_bytes = sizeof(struct ledger_entry),
		.pid = (uint32_t)getpid(),
		.gpu_id = gpu_id,
		.start_ns = clock_ns(CLOCK_MONOTONIC),
		.start_real_ns = clock_ns(CLOCK_REALTIME),
	};
	/* Last: a reader that finds the magic finds the rest. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(l->map->magic, LEDGER_MAGIC, sizeof(l->map->magic));
	*out = l;
	return 0;
out:
	ledger_destroy(l);
	return rc;
}

void ledger_destroy(struct ledger *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < l->nowners; i++)
		free(l->owners[i].name);
	free(l->owners);
	free(l->lives);
	if (l->map != MAP_FAILED)
		munmap(l->map, l->bytes);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

static struct ledger_entry *entries(const struct ledger *l)
{
	return (struct ledger_entry *)((char *)l->map + LEDGER_HEADER_BYTES);
}

static void append(struct ledger *l, const struct ledger_entry *e)
{
	uint64_t at = l->map->count;

	entries(l)[at] = *e;
	/* pairs with the acquire load of count in a reader, who then finds the entry whole */
	__atomic_store_n(&l->map->count, at + 1, __ATOMIC_RELEASE);
}

static int grow(void **p, uint64_t *cap, uint64_t want, size_t size)
{
	uint64_t c = *cap ? *cap : 64;
	void *v;

	if (want <= *cap)
		return 0;
	while (c < want)
		c *= 2;
	v = realloc(*p, c * size);
	if (!v)
		return -ENOMEM;
	*p = v;
	*cap = c;
	return 0;
}

int ledger_reserve(struct ledger *l, unsigned n)
{
	uint64_t want = LEDGER_HEADER_BYTES +
			(l->map->count + n + NAME_ENTRIES) * sizeof(struct ledger_entry);
	uint64_t bytes = l->bytes;
	void *p;
	int rc;

	while (bytes < want)
		bytes *= 2;
	if (bytes != l->bytes) {
		rc = file_grow(l->fd, bytes);
		if (rc < 0)
			return rc;
		p = mremap(l->map, l->bytes, bytes, MREMAP_MAYMOVE);
		if (p == MAP_FAILED)
			return -errno;
		l->map = p;
		l->bytes = bytes;
	}
	return grow((void **)&l->lives, &l->lives_cap, l->nlives + 1, sizeof(*l->lives));
}

static void append_name(struct ledger *l, unsigned owner, const char *name)
{
	size_t left = strlen(name);
	struct ledger_entry e = {.kind = LEDGER_OWNER, .owner = owner};

	do {
		size_t n = left < sizeof(e.name) ? left : sizeof(e.name);

		memset(e.name, 0, sizeof(e.name));
		memcpy(e.name, name, n);
		append(l, &e);
		name += n;
		left -= n;
		e.kind = LEDGER_MORE;
	} while (left);
}

const char *ledger_owner(struct ledger *l, const char *name)
{
	struct owner *o;

	for (unsigned i = 0; i < l->nowners; i++)
		if (!strcmp(l->owners[i].name, name))
			return l->owners[i].name;
	if (strlen(name) > NAME_MAX_BYTES)
		return NULL;
	if (l->nowners == l->owners_cap) {
		unsigned cap = l->owners_cap ? l->owners_cap * 2 : 16;

		o = realloc(l->owners, cap * sizeof(*o));
		if (!o)
			return NULL;
		l->owners = o;
		l->owners_cap = cap;
	}
	o = &l->owners[l->nowners];
	*o = (struct owner){.name = strdup(name)};
	if (!o->name)
		return NULL;
	append_name(l, l->nowners, name);
	l->nowners++;
	return o->name;
}

static struct owner *owner_of(const struct ledger *l, const char *name)
{
	for (unsigned i = 0; i < l->nowners; i++)
		if (l->owners[i].name == name)
			return &l->owners[i];
	return NULL;
}

/* The accounts before the entry: a reader that sees the entry sees totals no older than it. */
static void account(struct ledger *l, struct owner *o, int64_t bytes, int count)
{
	uint64_t live = l->map->live + (uint64_t)bytes;

	o->owns = true;
	o->live += (uint64_t)bytes;
	o->count += (uint64_t)count;
	if (o->live > o->peak)
		o->peak = o->live;
	__atomic_store_n(&l->map->live, live, __ATOMIC_RELAXED);
	if (live > l->map->peak)
		__atomic_store_n(&l->map->peak, live, __ATOMIC_RELAXED);
}

void ledger_enter(struct ledger *l, const struct ledger_record *r)
{
	struct owner *o = owner_of(l, r->owner);

	switch (r->kind) {
	case LEDGER_ALLOC:
	case LEDGER_IMPORT:
	case LEDGER_ADOPT:
		l->lives[l->nlives++] =
			(struct life){r->owner, r->va, r->size, r->handle, r->generation, true};
		account(l, o, (int64_t)r->size, 1);
		break;
	case LEDGER_FREE:
		l->lives[r->generation - 1].alive = false;
		account(l, o, -(int64_t)r->size, -1);
		break;
	case LEDGER_MAP:
	case LEDGER_UNMAP:
	case LEDGER_EXPORT:
	case LEDGER_PLACE:
	case LEDGER_USE:
		break;
	}
	append(l, &(struct ledger_entry){
			  .kind = r->kind,
			  .owner = (uint32_t)(o - l->owners),
			  .ns = r->ns,
			  .va = r->va,
			  .size = r->size,
			  .handle = r->handle,
			  .asked = r->asked,
			  .identity = r->kind == LEDGER_USE     ? r->uses
				      : r->kind == LEDGER_PLACE ? r->identity
								: r->first,
			  .generation = r->generation,
			  .placement = r->placement,
			  .coherence = r->coherence,
			  .scope = r->scope,
			  .flags = (uint8_t)((r->readonly ? LEDGER_FLAG_READONLY : 0) |
					     (r->executable ? LEDGER_FLAG_EXECUTABLE : 0) |
					     (r->host ? LEDGER_FLAG_HOST : 0)),
		  });
	l->nrecords++;
}

uint64_t ledger_read(const struct ledger *l, uint64_t first, struct ledger_record *out, uint64_t n)
{
	uint64_t at = 0;

	for (uint64_t i = 0; out && i < l->map->count && at < first + n; i++) {
		const struct ledger_entry *e = &entries(l)[i];

		if (e->kind == LEDGER_OWNER || e->kind == LEDGER_MORE)
			continue;
		if (at++ < first)
			continue;
		out[at - 1 - first] = (struct ledger_record){
			.ns = e->ns,
			.va = e->va,
			.size = e->size,
			.handle = e->handle,
			.owner = l->owners[e->owner].name,
			.generation = e->generation,
			.kind = (enum ledger_kind)e->kind,
			.asked = e->asked,
			.identity = e->kind == LEDGER_PLACE ? e->identity : 0,
			.first = e->kind == LEDGER_ALLOC || e->kind == LEDGER_IMPORT ? e->first : 0,
			.uses = e->kind == LEDGER_USE ? (uint8_t)e->uses : 0,
			.placement = e->placement,
			.coherence = e->coherence,
			.scope = e->scope,
			.readonly = e->flags & LEDGER_FLAG_READONLY,
			.executable = e->flags & LEDGER_FLAG_EXECUTABLE,
			.host = e->flags & LEDGER_FLAG_HOST,
		};
	}
	return l->nrecords;
}

unsigned ledger_usage(const struct ledger *l, struct memory_usage *rows, unsigned n)
{
	unsigned found = 0;

	for (unsigned i = 0; i < l->nowners; i++) {
		const struct owner *o = &l->owners[i];

		if (!o->owns)
			continue;
		if (found < n)
			rows[found] = (struct memory_usage){o->name, o->live, o->peak, o->count};
		found++;
	}
	return found;
}

uint64_t ledger_live(const struct ledger *l)
{
	return l->map->live;
}

uint64_t ledger_live_of(const struct ledger *l, const char *owner)
{
	const struct owner *o = owner_of(l, owner);

	return o ? o->live : 0;
}

uint64_t ledger_peak(const struct ledger *l)
{
	return l->map->peak;
}

int ledger_fd(const struct ledger *l)
{
	return l->fd;
}

bool ledger_find(const struct ledger *l, uint64_t va, bool near, struct ledger_hit *out)
{
	const struct life *best = NULL;
	bool inside;

	/* Newest first: the same address may have had several lives, the last one counts. */
	for (uint64_t i = l->nlives; i-- > 0;) {
		const struct life *f = &l->lives[i];

		if (va < f->va || va - f->va >= f->size)
			continue;
		if (!best || (f->alive && !best->alive))
			best = f;
	}
	inside = best != NULL;
	for (uint64_t i = l->nlives; !inside && near && i-- > 0;) {
		const struct life *f = &l->lives[i];

		if (va < f->va)
			continue;
		/* The closest end below va; of equally close ones the living. */
		if (!best || f->va + f->size > best->va + best->size ||
		    (f->va + f->size == best->va + best->size && f->alive && !best->alive))
			best = f;
	}
	if (!best)
		return false;
	*out = (struct ledger_hit){
		.owner = best->owner,
		.va = best->va,
		.size = best->size,
		.offset = va - best->va,
		.alive = best->alive,
		.generation = best->generation,
	};
	return true;
}
