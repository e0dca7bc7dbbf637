/* Shared by the vocabulary (tokenizer.c), encoding and streaming. */
#ifndef ENGINE_TOKENIZER_INTERNAL_H
#define ENGINE_TOKENIZER_INTERNAL_H

#include "engine/pretoken.h"
#include "engine/tokenizer.h"

/* Open-addressed, power-of-two, load below one half. An empty slot has id -1. */
struct token_merge {
	int32_t left, right; /* token ids */
	int32_t rank;        /* line of the merge list: lower merges first */
	int32_t id;          /* the token both become */
};

struct tokenizer {
	uint32_t n_vocab;
	char *bytes;   /* all pieces, one after another */
	uint32_t *off; /* n_vocab + 1 */
	uint8_t *kind; /* enum token_kind */
	uint32_t max_piece;
	int32_t byte_id[256]; /* token of a single byte, -1 = none */

	int32_t *by_bytes; /* hash of mergeable pieces: token id or -1 */
	uint32_t by_bytes_mask;
	struct token_merge *merges;
	uint32_t merges_mask;

	/* Tokens matched as a whole in the text: grouped by first byte, longest first. */
	int32_t *special;
	uint32_t special_at[257];

	pretoken_fn pretoken;
	int32_t bos, eos;
	int32_t ends[8];
	uint32_t n_ends;
	bool adds_bos;
};

uint64_t tokenizer_hash(const void *p, size_t n);
/* The merge of two tokens, NULL if none. */
const struct token_merge *tokenizer_merge(const struct tokenizer *t, int32_t left, int32_t right);

#endif
