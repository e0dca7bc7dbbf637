/* The reader thread of a load: parts of a file, one ahead. Internal to engine/load.c. */
#ifndef ENGINE_LOAD_READER_H
#define ENGINE_LOAD_READER_H

#include "engine/load.h"

struct load_part {
	uint64_t at, bytes; /* of the file */
};

struct load_file {
	const uint8_t *image; /* mapped: LOAD_MMAP reads nothing else */
	const char *path;     /* for the others, which open it anew; NULL: none */
	uint64_t dev, ino;    /* what was mapped; ino 0: whatever has the path */
};

struct load_reader;

/* parts must outlive the reader. -ESTALE when another file has the path by now; what open(2) says. */
int load_reader_start(const struct load_file *file, enum load_source source,
		      const struct load_part *parts, uint32_t n, struct load_reader **out,
		      char *err, size_t errlen);
/* The next part's bytes, valid until the next call. -ETIMEDOUT when none arrive for stall_ns. */
int load_reader_next(struct load_reader *r, uint64_t stall_ns, const uint8_t **data, char *err,
		     size_t errlen);
/* File and memory are given back when it returns. Not after -ETIMEDOUT, nor when a part takes more than
 * two seconds to end: the thread then cleans up after itself when it wakes. */
void load_reader_stop(struct load_reader *r);

#endif
