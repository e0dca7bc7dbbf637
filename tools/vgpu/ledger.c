#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "ledger.h"
#include "memory/ledger_format.h"
#include "ownfd.h"
#include "vm/rawsys.h"

#define TRIES 64u

static int ledger_fd = -1;
static unsigned tries;

/* A descriptor of our own: the client closes its before it exits. */
void vgpu_ledger_look(void)
{
	static const char want[] = "/memfd:" LEDGER_NAME;

	if (__atomic_load_n(&ledger_fd, __ATOMIC_RELAXED) >= 0 ||
	    __atomic_fetch_add(&tries, 1, __ATOMIC_RELAXED) >= TRIES)
		return;
	for (int fd = 3; fd < 1024; fd++) {
		char path[32] = "/proc/self/fd/", target[64];
		char digits[8];
		unsigned n = 0, at = (unsigned)strlen(path);
		long r;

		for (int v = fd; v; v /= 10)
			digits[n++] = (char)('0' + v % 10);
		while (n)
			path[at++] = digits[--n];
		path[at] = 0;
		r = rawsys4(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target) - 1);
		if (r < (long)strlen(want) || strncmp(target, want, strlen(want)))
			continue;
		r = own_fd_copy(fd);
		if (r >= 0) {
			int none = -1;

			if (!__atomic_compare_exchange_n(&ledger_fd, &none, (int)r, false,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				own_fd_close((int)r);
		}
		return;
	}
}

struct owners {
	char (*name)[64];
	uint32_t n, cap;
};

static void owner_add(struct owners *o, const struct ledger_entry *e)
{
	if (e->kind == LEDGER_MORE)
		return; /* longer than is shown */
	if (o->n == o->cap) {
		uint32_t cap = o->cap ? 2 * o->cap : 64;
		void *p = realloc(o->name, cap * sizeof(*o->name));

		if (!p)
			return;
		o->name = p;
		o->cap = cap;
	}
	memset(o->name[o->n], 0, sizeof(o->name[0]));
	memcpy(o->name[o->n++], e->name, LEDGER_NAME_BYTES);
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool pread_all(int fd, void *to, uint64_t n, uint64_t at)
{
	while (n) {
		long r = rawsys4(SYS_pread64, fd, to, n, at);

		if (r <= 0)
			return false;
		to = (char *)to + r;
		at += (uint64_t)r;
		n -= (uint64_t)r;
	}
	return true;
}

struct vgpu_ledger {
	struct owners owners;
	uint64_t n;
	struct ledger_entry e[];
};

struct vgpu_ledger *vgpu_ledger_read(void)
{
	struct ledger_header h = {0};
	struct vgpu_ledger *l = NULL;
	int fd = __atomic_load_n(&ledger_fd, __ATOMIC_RELAXED);

	if (fd < 0 || !pread_all(fd, &h, sizeof(h), 0) || memcmp(h.magic, LEDGER_MAGIC, 8) ||
	    !h.version || h.version > LEDGER_VERSION || h.entry_bytes != sizeof(*l->e) ||
	    h.count > 1u << 24)
		return NULL;
	l = calloc(1, sizeof(*l) + h.count * sizeof(*l->e));
	if (!l || !pread_all(fd, l->e, h.count * sizeof(*l->e), h.header_bytes)) {
		free(l);
		return NULL;
	}
	l->n = h.count;
	for (uint64_t i = 0; i < l->n; i++)
		if (l->e[i].kind == LEDGER_OWNER || l->e[i].kind == LEDGER_MORE)
			owner_add(&l->owners, &l->e[i]);
	return l;
}

void vgpu_ledger_name(const struct vgpu_ledger *l, uint64_t va, uint64_t ns, char name[64])
{
	enum { ALLOC = 1, ADOPT = 5, IMPORT = 6 }; /* memory.h: enum ledger_kind */
	uint64_t best = ~0ull;

	for (uint64_t i = 0; i < l->n; i++) {
		const struct ledger_entry *e = &l->e[i];

		if ((e->kind != ALLOC && e->kind != ADOPT && e->kind != IMPORT) || e->va != va ||
		    e->owner >= l->owners.n || apart(e->ns, ns) > best)
			continue;
		best = apart(e->ns, ns);
		memcpy(name, l->owners.name[e->owner], sizeof(l->owners.name[0]));
		name[sizeof(l->owners.name[0]) - 1] = 0;
	}
}

void vgpu_ledger_free(struct vgpu_ledger *l)
{
	if (l)
		free(l->owners.name);
	free(l);
}

void vgpu_ledger_close(void)
{
	own_fd_close(ledger_fd);
	ledger_fd = -1;
}
