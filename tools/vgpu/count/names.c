/* Names for buffers. A client that keeps a ledger (memory/ledger_format.h) says in it what each
 * allocation is for; clients without one stay without names. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "count/internal.h"
#include "memory/ledger_format.h"
#include "vm/rawsys.h"

#define TRIES 64u

static int ledger_fd = -1;
static unsigned tries;

/* A descriptor of our own: the client closes its before it exits. */
void count_ledger_look(void)
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
		r = rawsys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 1000);
		if (r >= 0) {
			int none = -1;

			if (!__atomic_compare_exchange_n(&ledger_fd, &none, (int)r, false,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				rawsys1(SYS_close, r);
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

/* What was allocated at b's address about when b was mapped. */
static void name_buffer(struct count_buffer *b, const struct ledger_entry *e, uint64_t n,
			const struct owners *o)
{
	enum { ALLOC = 1, ADOPT = 5, IMPORT = 6 }; /* memory.h: enum ledger_kind */
	uint64_t best = ~0ull;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t k = e[i].kind;

		if ((k != ALLOC && k != ADOPT && k != IMPORT) || e[i].va != b->va ||
		    e[i].owner >= o->n || apart(e[i].ns, b->map_ns) >= best)
			continue;
		best = apart(e[i].ns, b->map_ns);
		memcpy(b->name, o->name[e[i].owner], sizeof(b->name));
		b->name[sizeof(b->name) - 1] = 0;
	}
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

void count_ledger_names(void)
{
	struct ledger_header h = {0};
	struct ledger_entry *e = NULL;
	struct owners o = {0};

	if (ledger_fd < 0)
		return;
	if (!pread_all(ledger_fd, &h, sizeof(h), 0) || memcmp(h.magic, LEDGER_MAGIC, 8) ||
	    h.version != LEDGER_VERSION || h.entry_bytes != sizeof(*e) || h.count > 1u << 24)
		goto out;
	e = calloc(h.count + 1, sizeof(*e));
	if (!e || !pread_all(ledger_fd, e, h.count * sizeof(*e), h.header_bytes))
		goto out;
	for (uint64_t i = 0; i < h.count; i++)
		if (e[i].kind == LEDGER_OWNER || e[i].kind == LEDGER_MORE)
			owner_add(&o, &e[i]);
	for (struct count_buffer *b = count_state.buffers; b; b = b->next)
		name_buffer(b, e, h.count, &o);
out:
	free(o.name);
	free(e);
	rawsys1(SYS_close, ledger_fd);
	ledger_fd = -1;
}
