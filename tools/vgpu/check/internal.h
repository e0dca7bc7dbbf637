/* Shared by the files of check/ only. Everything is under check.lock but for the arrays per dword and
 * per page, whose elements are relaxed atomics. The lock is taken inside a queue's, never around
 * one; with it held nothing touches the client's mappings. */
#ifndef VGPU_CHECK_INTERNAL_H
#define VGPU_CHECK_INTERNAL_H

#include <pthread.h>

#include "check/check.h"
#include "count/count.h"

#define CHECK_EVENTS 4096u

/* Of the pool's memory, one per page. */
struct check_page {
	/* The host that looks here sees so many works complete, and so many released. */
	uint32_t complete, released;
	uint32_t flag; /* the work that stored a flag here last, */
	uint16_t flag_dword;
	uint8_t uncached; /* MTYPE UC */
	uint8_t open;     /* client pages of it that are open */
};

/* A client's page that was touched since the last ring. */
struct check_open {
	struct check_open *next, **prev;
	uint64_t addr, off;                 /* client, pool */
	enum { SHUT, READABLE, OPEN } mode; /* SHUT: again, with its copy kept */
	bool kernel; /* opened for the device's kernel side: to be shut again soon */
	bool copied;
	uint8_t *copy;    /* of the page before the first write; NULL: it was all zero */
	uint32_t running; /* works from this one on may have written it since the copy */
	uint64_t first;   /* byte of that first write, judged when it came */
	uint64_t pc;
	int syscall;
	uint32_t tid;
};

struct check_region {
	uint64_t addr, size, off;
	bool watched;
	struct check_open **at; /* by page */
};

struct check_item {
	struct check_launch l;
	uint32_t number, ring;
	enum { GONE, RUNNING, COMPLETE } state;
	uint32_t order; /* of completion, from 1 */
	bool flag_seen; /* the host has read a flag that this work stored */
};

/* A host access, for works that have not done theirs yet. */
struct check_access {
	uint32_t ring;
	uint32_t wrote, read; /* works it has been judged against */
	bool write;
	bool beside; /* counted already */
	uint64_t off, addr, pc;
	int syscall;
	uint32_t tid;
};
#define CHECK_ACCESSES 8192u

/* Who wrote a page before a ring, for works that read it after. */
struct check_writer {
	uint64_t off, addr, pc; /* of the page */
	int syscall;
	uint32_t tid;
};
#define CHECK_WRITERS 4096u

enum check_kind { READ_EARLY, READ_UNRELEASED, WRITE_EARLY, UNACQUIRED, CHECK_KINDS };
extern const char *const check_kind_name[CHECK_KINDS];

/* Which byte, by whom, and what it came too early for. */
struct check_access_name {
	uint32_t tid, work;
	uint64_t addr;
};

struct check_finding {
	struct check_finding *next;
	enum check_kind kind;
	uint64_t count;
	struct check_access_name last; /* the latest that count counts */
	uint64_t addr, va;             /* of the client, 0 unknown; of the GPU, 0 unknown */
	uint64_t pool_off;
	struct check_item work;
	struct count_code code;
	uint64_t pc; /* 0 unknown */
	int syscall; /* -1: an instruction of the program, -2 unknown */
	uint32_t tid;
	bool exact_pc; /* the instruction itself; else the first one that wrote this page */
	char buffer[64];
	uint64_t buffer_va, buffer_bytes;
	char place[192]; /* function+offset in file, of pc */
};

struct check_state {
	pthread_mutex_t lock;
	bool ready, dead; /* arrays are there; it has been given up */
	char why[160];    /* why nothing is checked */
	/* per dword of the pool: the last work that wrote, read it; the ring by which the host had */
	uint32_t *wrote, *read, *host;
	struct check_page *page;
	uint8_t *alias;
	uint64_t bytes;

	uint32_t ring; /* now */
	/* works that are not published, oldest first: number base + i at (first + i) % cap */
	struct check_item *work;
	uint32_t base, n, first, cap;
	uint32_t oldest;                       /* none before it is under way */
	uint32_t complete, released;           /* so many are */
	uint32_t seen_complete, seen_released; /* as far as the host knows */
	uint32_t acquired;                     /* what the host wrote up to that ring */
	struct {
		uint32_t complete, released;
	} event[CHECK_EVENTS];

	struct check_region *region; /* sorted */
	size_t n_regions, cap_regions, unwatched;
	bool kernel; /* some page is open for the kernel side */
	struct check_open *open;
	struct check_access *access; /* ring buffer */
	uint64_t n_accesses;
	struct check_writer *writer; /* ring buffer */
	uint64_t n_writers;

	struct check_finding *findings, **findings_end;
	uint64_t found[CHECK_KINDS];
	uint64_t traps, works, rings, late, beside;
};
extern struct check_state check;

/* ---- judge.c: with the lock held ------------------------------------------ */
struct check_trap {
	uint64_t addr, off, pc;
	uint32_t tid;
	int syscall;
	bool write;
};
void check_judge(const struct check_trap *t);
/* What the host has changed in e's page since its copy, against works it has not seen complete;
 * mark: from the next ring on, it is what the host wrote. */
void check_settle(struct check_open *e, bool mark);
void check_observe(uint32_t complete, uint32_t released);
uint32_t check_running(void); /* the oldest work that is under way, or the next one */
void check_accesses_against(const struct check_item *w);
struct check_item *check_item(uint32_t number);

/* ---- pages.c: with the lock held ------------------------------------------ */
int check_pages_start(void);
void check_pages_stop(void);
void check_pages_forked(void);
/* Shuts all open pages; ring: and forgets them. */
void check_shut_all(bool ring);
void check_shut_page(uint64_t off);
/* Whether the client can look at a pool page without being seen. */
bool check_unseen(uint64_t off);

/* ---- map.c: where things are; a lock of its own --------------------------- */
bool check_arrays(void);
void check_map_add(const struct vm *vm, const struct vm_mapping *m);
void check_map_remove(const struct vm *vm, const struct vm_mapping *m);
/* The buffer's GPU address and size and the address of this byte, from a pool offset. */
bool check_map_find(uint64_t off, uint64_t *va, uint64_t *start, uint64_t *bytes);
void check_map_forked(void);

/* ---- watch.c: sees every port */
extern struct vm_watch check_watch;

/* ---- report.c -------------------------------------------------------------- */
void check_found(
	const struct check_finding *f); /* lock held; place, buffer, hash are filled here */
void check_report_write(void);
void check_report_forked(void);

/* ---- place.c: no lock, no libc that takes one ----------------------------- */
void check_place(uint64_t pc, char *out, size_t len);

#endif
