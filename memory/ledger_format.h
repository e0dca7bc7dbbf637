/* The ledger as other processes see it: the memfd "barewave-ledger" of a process that uses the
 * driver, found through /proc/PID/fd. docs/ledger.md is the same in prose.
 *
 * A header page, then entries of 64 bytes in the order things happened. Append only: an entry below
 * `count` never changes. No pointers; native byte order; the file grows, it never shrinks. A reader
 * loads `count` with acquire (pairs with the writer's release in ledger.c:append), then reads that
 * many entries, mapping more of the file when `count` has passed what it mapped.
 */
#ifndef MEMORY_LEDGER_FORMAT_H
#define MEMORY_LEDGER_FORMAT_H

#include <stdint.h>

#define LEDGER_NAME         "barewave-ledger"
#define LEDGER_MAGIC        "BWLEDGER"
#define LEDGER_VERSION      3u /* 2: kind USE; 3: saved_ns, first */
#define LEDGER_HEADER_BYTES 4096u
#define LEDGER_NAME_BYTES   56u

struct ledger_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes; /* where entries start */
	uint32_t entry_bytes;  /* a later version may have longer ones; the first 64 stay */
	uint32_t pid;
	uint32_t gpu_id; /* 0: unknown */
	uint32_t reserved;
	uint64_t start_ns;      /* CLOCK_MONOTONIC, as all times here */
	uint64_t start_real_ns; /* CLOCK_REALTIME at the same moment */
	uint64_t count;         /* entries, written with release */
	uint64_t live, peak;    /* bytes, of ALLOC, IMPORT and ADOPT less FREE */
	uint64_t saved_ns;      /* of a copy in a file: when it was taken; else 0 */
};
_Static_assert(sizeof(struct ledger_header) <= LEDGER_HEADER_BYTES, "header is one page");

/* Kinds are enum ledger_kind (memory.h), and: */
#define LEDGER_OWNER 0u   /* defines the next owner, numbered from 0, by name */
#define LEDGER_MORE  255u /* goes on with the name of that owner */

#define LEDGER_FLAG_READONLY   1u
#define LEDGER_FLAG_EXECUTABLE 2u
#define LEDGER_FLAG_HOST       4u

#define LEDGER_USE_DEVICE_READS    1u
#define LEDGER_USE_DEVICE_WRITES   2u
#define LEDGER_USE_HOST_READS      4u
#define LEDGER_USE_HOST_WRITES     8u
#define LEDGER_USE_DEVICE_DECLARED 16u /* the device does nothing else with it */
#define LEDGER_USE_HOST_DECLARED   32u

struct ledger_entry {
	uint32_t kind;
	uint32_t owner; /* its number */
	union {
		struct {
			uint64_t ns;
			uint64_t va, size; /* of the mapping, whole pages; PLACE: of the thing */
			uint64_t handle;   /* the kernel's */
			uint64_t asked;    /* bytes asked for, before rounding */
			union {
				uint64_t identity; /* PLACE: equal for equal content */
				uint64_t uses;     /* USE: LEDGER_USE_*, all of them so far */
				uint64_t first;    /* ALLOC, IMPORT: of the bytes asked for, the
						    * first one's offset in the mapping */
			}; /* else 0 */
			uint32_t generation;
			uint8_t placement, coherence, scope, flags;
		};
		char name[LEDGER_NAME_BYTES]; /* OWNER, MORE; NUL-padded, full when it goes on */
	};
};
_Static_assert(sizeof(struct ledger_entry) == 64, "a ledger entry is 64 bytes");

#endif
