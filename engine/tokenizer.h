/* Byte-level BPE (tokenizer.ggml.model "gpt2") with the qwen2 pre-tokenizer.
 *
 * Text is UTF-8 of any length and may hold NUL and malformed bytes: a malformed byte counts as one
 * character that is neither letter, number nor space, and its byte value is kept. No Unicode
 * normalisation (Qwen's own tokenizer applies NFC; GGUF engines do not, and neither do we).
 * Encoding is O(n log n) in the bytes of the longest pre-token.
 */
#ifndef ENGINE_TOKENIZER_H
#define ENGINE_TOKENIZER_H

#include "engine/gguf.h"

struct tokenizer;

/* Token kinds (tokenizer.ggml.token_type). */
enum token_kind {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER = 4,
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
};

/* Everything is copied: the gguf may be closed afterwards. -ENOTSUP: another tokenizer model or
 * pre-tokenizer (named in err); -EINVAL: keys missing or inconsistent; -ENOMEM. */
int tokenizer_create(const struct gguf *g, struct tokenizer **out, char *err, size_t errlen);
void tokenizer_free(struct tokenizer *t);

uint32_t tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1 = the file names none */
int32_t tokenizer_eos(const struct tokenizer *t); /* -1 = the file names none */
/* Ends generation: eos, eot, or a control token named <|im_end|>, <|endoftext|> or <|eot_id|>. */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);
/* The file asks for bos before every prompt (tokenizer.ggml.add_bos_token). */
bool tokenizer_adds_bos(const struct tokenizer *t);
enum token_kind tokenizer_kind(const struct tokenizer *t, int32_t id);
/* Id of the token whose text is exactly this, -1 if none. Special tokens included. */
int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len);

/* "<|im_start|>" in the text is the token, not its letters. Concerns control tokens; user-defined
 * ones are part of the text's own vocabulary and always whole. At one place the longest token wins.
 */
#define TOKENIZER_SPECIAL 1u
#define TOKENIZER_BOS     2u /* put bos first if the file asks for it */

/* Ids of text. A token covers at least one byte, so len + 1 ids always suffice. After a failure
 * ids[] holds scratch and *n_ids is untouched.
 * -ENOSPC: more than cap ids; -EILSEQ: a byte the vocabulary has no token for; -ENOMEM. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned flags,
		     int32_t *ids, size_t cap, size_t *n_ids);

/* The bytes a token stands for (not NUL-terminated, owned by t). NULL when id is out of range. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len);

/* Streaming decode: a token may end inside a character; the open bytes wait for the next token.
 * Per-token path: no allocation, no system call. Zero-initialise. */
struct tokenizer_stream {
	unsigned char open[4];
	unsigned n_open;
};
/* Bytes of out that always suffice for one put or flush. */
size_t tokenizer_stream_cap(const struct tokenizer *t);
/* Appends token id; writes whole characters only and returns their bytes. Malformed UTF-8 comes out
 * as U+FFFD. Control tokens come out as their text if special, else as nothing.
 * -EINVAL: id out of range; -ENOSPC: cap too small (nothing consumed). */
int64_t tokenizer_stream_put(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
			     bool special, char *out, size_t cap);
/* End of text: open bytes come out as one U+FFFD. */
int64_t tokenizer_stream_flush(struct tokenizer_stream *s, char *out, size_t cap);

#endif
