/* The ledger: what happened to every byte, in order. Internal to memory/; no system call but those
 * that grow memory (a memfd: ledger_format.h) and the clock its caller reads.
 *
 * A step is entered in two halves: ledger_reserve() makes room before the kernel is asked, so that
 * ledger_enter() cannot fail once the kernel has acted.
 */
#ifndef MEMORY_LEDGER_H
#define MEMORY_LEDGER_H

#include "memory/memory.h"

struct ledger;

/* gpu_id is told to readers. 0, -ENOMEM, or what memfd_create() or mmap() said. */
int ledger_create(uint32_t gpu_id, struct ledger **out);
void ledger_destroy(struct ledger *l);

/* Room for n records and one new owner of a name as long as NAME_MAX. 0 or -ENOMEM. */
int ledger_reserve(struct ledger *l, unsigned n);
/* The ledger's own copy of a name, valid as long as the ledger. NULL without memory, or when the
 * name is longer than 255 bytes. */
const char *ledger_owner(struct ledger *l, const char *name);
void ledger_enter(struct ledger *l, const struct ledger_record *r);

uint64_t ledger_read(const struct ledger *l, uint64_t first, struct ledger_record *out, uint64_t n);
unsigned ledger_usage(const struct ledger *l, struct memory_usage *rows, unsigned n);
uint64_t ledger_live(const struct ledger *l);
/* owner: a name ledger_owner() gave. */
uint64_t ledger_live_of(const struct ledger *l, const char *owner);
uint64_t ledger_peak(const struct ledger *l);
int ledger_fd(const struct ledger *l);
/* The newest range that holds va, alive before dead; near also takes the closest below. */
bool ledger_find(const struct ledger *l, uint64_t va, bool near, struct ledger_hit *out);

#endif
