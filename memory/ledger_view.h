/* Reading a ledger (ledger_format.h): what lives, what lived, how much at what time. Pure, except
 * for the two functions at the end that fetch the bytes.
 *
 * The input may be another process's memory at any moment, or a file that somebody changed: every
 * number in it is checked before it is used.
 */
#ifndef MEMORY_LEDGER_VIEW_H
#define MEMORY_LEDGER_VIEW_H

#include "memory/ledger_format.h"
#include "memory/memory.h"

struct view_bo {
	uint32_t owner; /* index into usage */
	uint32_t generation;
	uint64_t va, size, asked, handle; /* va and size: of the mapping */
	uint64_t first;                   /* offset of the first byte asked for */
	uint64_t born_ns, died_ns;        /* died 0: alive */
	uint32_t maps, exports;
	uint32_t uses;                              /* LEDGER_USE_* */
	uint8_t placement, coherence, scope, flags; /* LEDGER_FLAG_* */
	bool imported, adopted;
};

/* Something with an identity inside a BO. */
struct view_thing {
	uint32_t name; /* index into usage */
	uint32_t bo;   /* index into bos */
	uint64_t va, size, identity;
};

struct view_usage {
	char *owner;
	uint64_t live, peak, count;
	uint64_t allocs; /* ever */
	bool is_owner;   /* of a BO; else only a name of things */
};

struct view_point {
	uint64_t ns, live; /* after a step; ns since the ledger began */
	uint32_t owner;    /* whose bytes changed, */
	int64_t change;    /* by so many */
};

struct ledger_view {
	struct ledger_header header;
	struct view_usage *usage;
	uint32_t n_usage;
	struct view_bo *bos; /* in order of birth */
	uint32_t n_bos;
	struct view_thing *things;
	uint32_t n_things;
	struct view_point *points;
	uint32_t n_points;
	uint64_t live, peak;
	uint64_t end_ns; /* since the ledger began: when it was saved, else the last entry */
};

/* 0; -EINVAL with what is wrong and where in why; -ENOMEM. */
int ledger_view_parse(const void *image, size_t bytes, struct ledger_view **out, char *why,
		      size_t why_len);
void ledger_view_free(struct ledger_view *v);

/* What the declared uses of a BO come to. Unknown: not all of them were declared, or it is shared. */
enum view_use { VIEW_UNKNOWN, VIEW_USED, VIEW_NEVER_READ, VIEW_NEVER_WRITTEN, VIEW_UNTOUCHED };
enum view_use ledger_view_use(const struct view_bo *b);

/* Things of one identity that live in more than one place: fills up to n with pairs (the first of
 * them, and each further one); returns how many there are. */
struct view_duplicate {
	const struct view_thing *first, *again;
};
uint32_t ledger_view_duplicates(const struct ledger_view *v, struct view_duplicate *out,
				uint32_t n);

/* The ledger of a process, or of a file, as bytes to free(). proc: where /proc is. -ENOENT: the
 * process has none; otherwise -errno with a sentence. A process that has several open devices has
 * several ledgers; index counts them from 0. */
int ledger_view_read_pid(const char *proc, int pid, unsigned index, void **image, size_t *bytes,
			 char *why, size_t why_len);
int ledger_view_read_file(const char *path, void **image, size_t *bytes, char *why, size_t why_len);

#endif
