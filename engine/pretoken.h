/* Pre-tokenizers: where byte-pair merging must not cross. Pure. */
#ifndef ENGINE_PRETOKEN_H
#define ENGINE_PRETOKEN_H

#include <stddef.h>

/* Bytes of the pre-token at the start of s[0..n), n >= 1; at least 1. */
typedef size_t (*pretoken_fn)(const char *s, size_t n);

size_t pretoken_qwen2(const char *s, size_t n);

/* By tokenizer.ggml.pre; NULL when there is none of this name here. */
pretoken_fn pretoken_find(const char *name, size_t len);
/* "qwen2", for messages */
extern const char pretoken_names[];

#endif
