/* Placement rules: what a person asks of buffers by owner. Pure.
 *
 * A rule is a pattern of owner names (fnmatch: "*" and "?") and one property. Later rules win over
 * earlier ones, and all win over what the code that makes the buffer asked for. Rules also say how
 * things inside a buffer lie: a tensor NAME among the transients goes by "transient:NAME".
 */
#ifndef MEMORY_RULES_H
#define MEMORY_RULES_H

#include "memory/memory.h"

#define BO_RULES_MAX 64

enum bo_property {
	BO_RULE_ALIGN,
	BO_RULE_GUARD,
	BO_RULE_REDZONE,
	BO_RULE_PLACEMENT,
	BO_RULE_COHERENCE,
	BO_RULE_READONLY,
	BO_RULE_EXECUTABLE,
	BO_RULE_RANDOM,
	BO_RULE_VA,
};

struct bo_rule {
	char owner[64]; /* pattern */
	enum bo_property what;
	uint64_t value;
};

struct bo_rules {
	struct bo_rule rule[BO_RULES_MAX];
	unsigned n;
	uint64_t seed; /* of random placement */
	/* Freed ranges are given out again only when more than so many bytes have been freed after
	 * them, or after so many nanoseconds. 0: at once. */
	uint64_t quarantine_bytes, quarantine_ns;
	bool poison_alloc, poison_free;
	uint8_t alloc_byte, free_byte;
};

/* One option as on a command line, without its dashes:
 *   align [OWNER=]BYTES            of the VA, 4 KiB .. 1 GiB; below 4 KiB: of what lies inside a
 *                                  buffer, and of an end-flush buffer's first byte
 *   guard [OWNER=]SIDE             none, start, end or both
 *   redzone [OWNER=]BYTES          canaries around what lies inside a buffer
 *   place OWNER=WORD[,WORD...]     gtt vram userptr coarse fine uncached ro rw exec noexec random lowest
 *                                  at:VA
 *   quarantine BYTES|SECONDSs|all
 *   va-seed N                      random placement of everything, by this seed
 *   poison [alloc=|free=]BYTE      fill at alloc, at free, or both (at free with its complement)
 * 0; -EINVAL with one line in why: value given, wanted. -ENOSPC: too many. */
int bo_rules_add(struct bo_rules *r, const char *option, const char *value, char *why,
		 size_t why_len);
/* Whether option is one of the above. */
bool bo_rules_knows(const char *option);

void bo_rules_apply(const struct bo_rules *r, struct bo_desc *d);

/* Which rules came to anything. One that changes nothing is most likely a mistake in its pattern, and
 * whoever compares two runs must hear of it. A bit for each rule. */
struct bo_rules_seen {
	uint64_t named; /* its pattern fits something */
	uint64_t used;  /* that takes what it asks for */
};
#define BO_TAKES(what) (1u << (what))
/* What a buffer takes, and what lies inside one. */
#define BO_TAKES_BUFFER (~BO_TAKES(BO_RULE_REDZONE))
#define BO_TAKES_PART   (BO_TAKES(BO_RULE_ALIGN) | BO_TAKES(BO_RULE_REDZONE))
/* There is something of this name, which takes these properties. */
void bo_rules_see(const struct bo_rules *r, const char *name, unsigned takes,
		  struct bo_rules_seen *seen);
/* The first rule, from number `from` on, that was of no use, with one line in why; -1: none. */
int bo_rules_idle(const struct bo_rules *r, const struct bo_rules_seen *seen, unsigned from,
		  char *why, size_t why_len);

/* The address range a BO wants, its guards included. size, align and guard of d are valid. */
struct va_want;
void bo_want(const struct bo_desc *d, struct va_want *out);
/* Alignment and red zone of something inside a buffer; fallback when no rule names it. r may be
 * NULL. */
uint64_t bo_rules_align(const struct bo_rules *r, const char *owner, uint64_t fallback);
/* The same for NAME of BUFFER:NAME. Whole pages reach it only by a pattern with a colon: "*=1G" is about
 * buffers. */
uint64_t bo_rules_align_inside(const struct bo_rules *r, const char *name, uint64_t fallback);
uint64_t bo_rules_redzone(const struct bo_rules *r, const char *owner);
/* Whether any rule asks for red zones at all. */
bool bo_rules_zoned(const struct bo_rules *r);

/* Bytes as people write them: decimal or 0x, with K, M or G (powers of 1024); the whole text. */
bool mem_bytes_parse(const char *text, uint64_t *out);

#endif
