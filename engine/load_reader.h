/* The reader thread of a load: parts of a file, one ahead. Internal to engine/load.c.
 *
 * The caller asks for a part before it works on the one before, so that the thread fetches it meanwhile:
 *
 *     ask 0; ask 1; next -> 0, work on it; ask 2; next -> 1, ...
 *
 * Nothing but start and stop allocates. What cannot be read is one failure, not the reader's end: after
 * load_reader_drop() it can be asked again.
 */
#ifndef ENGINE_LOAD_READER_H
#define ENGINE_LOAD_READER_H

#include "engine/load.h"

struct load_part {
	uint64_t at, bytes; /* of the file */
};

struct load_file {
	const uint8_t *image; /* mapped: LOAD_MMAP */
	int fd;               /* of it: LOAD_PREAD; LOAD_MMAP asks it how long it is. -1: no file */
	const char *path;     /* LOAD_DIRECT opens it anew; for messages. NULL: none */
	uint64_t dev, ino;    /* what was mapped; ino 0: whatever has the path */
};

struct load_reader;

/* For parts of at most so many bytes. file->path must outlive the reader. LOAD_DIRECT: -ESTALE when
 * another file has the path by now; what open(2) says. */
int load_reader_start(const struct load_file *file, enum load_source source, uint64_t most,
		      struct load_reader **out, char *err, size_t errlen);
/* At most two parts are asked for and not done with: taking one is the word that the one before is. */
void load_reader_ask(struct load_reader *r, const struct load_part *part);
/* The bytes of the part asked for first, valid until the next call of load_reader_ask(). -ETIMEDOUT when
 * none arrive for stall_ns; -ENODATA when the file ends before; or what reading it says. err: one line
 * with the bytes wanted, where, and how many came. */
int load_reader_next(struct load_reader *r, uint64_t stall_ns, const uint8_t **data, char *err,
		     size_t errlen);
/* Nobody wants any more what was asked for: after a failure, before asking again. Where the file has
 * stalled, the next part waits until it wakes. */
void load_reader_drop(struct load_reader *r);
/* File and memory are given back when it returns. Not while the file stalls, nor when a part takes more
 * than two seconds to end: the thread then cleans up after itself when it wakes. */
void load_reader_stop(struct load_reader *r);

#endif
