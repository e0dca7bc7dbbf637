/* Shared by the pure parser (gguf.c) and the file opener (gguf_file.c). */
#ifndef ENGINE_GGUF_INTERNAL_H
#define ENGINE_GGUF_INTERNAL_H

#include "engine/gguf.h"

/* One line into err (which may be NULL). */
__attribute__((format(printf, 3, 4))) void gguf_fail(char *err, size_t errlen, const char *fmt,
						     ...);
/* Frees the tables of a view, not its image. */
void gguf_free_tables(struct gguf *g);

#endif
