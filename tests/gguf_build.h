/* Builds GGUF images in memory, good and bad ones, for the engine's tests. */
#ifndef TESTS_GGUF_BUILD_H
#define TESTS_GGUF_BUILD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"

struct image {
	uint8_t *p;
	size_t n, cap;
	size_t kv_count_at, tensor_count_at; /* where the header's counts are */
	uint64_t data;                       /* bytes of tensor data announced so far */
};

static inline void put_bytes(struct image *im, const void *p, size_t n)
{
	while (im->n + n > im->cap) {
		im->cap = im->cap ? im->cap * 2 : 4096;
		im->p = realloc(im->p, im->cap);
	}
	memcpy(im->p + im->n, p, n);
	im->n += n;
}

static inline void put32(struct image *im, uint32_t v)
{
	put_bytes(im, &v, 4);
}

static inline void put64(struct image *im, uint64_t v)
{
	put_bytes(im, &v, 8);
}

static inline void put_str(struct image *im, const char *s, size_t n)
{
	put64(im, n);
	put_bytes(im, s, n);
}

static inline void image_begin(struct image *im, uint32_t version)
{
	memset(im, 0, sizeof(*im));
	put_bytes(im, "GGUF", 4);
	put32(im, version);
	im->tensor_count_at = im->n;
	put64(im, 0);
	im->kv_count_at = im->n;
	put64(im, 0);
}

static inline void bump(struct image *im, size_t at)
{
	uint64_t v;

	memcpy(&v, im->p + at, 8);
	v++;
	memcpy(im->p + at, &v, 8);
}

static inline void kv_begin(struct image *im, const char *key, uint32_t type)
{
	bump(im, im->kv_count_at);
	put_str(im, key, strlen(key));
	put32(im, type);
}

static inline void kv_u32(struct image *im, const char *key, uint32_t v)
{
	kv_begin(im, key, GGUF_U32);
	put32(im, v);
}

static inline void kv_f32(struct image *im, const char *key, float v)
{
	kv_begin(im, key, GGUF_F32);
	put_bytes(im, &v, 4);
}

static inline void kv_str(struct image *im, const char *key, const char *v)
{
	kv_begin(im, key, GGUF_STRING);
	put_str(im, v, strlen(v));
}

static inline void kv_array(struct image *im, const char *key, uint32_t elem, uint64_t count)
{
	kv_begin(im, key, GGUF_ARRAY);
	put32(im, elem);
	put64(im, count);
}

/* Announce a tensor of the given size; data comes later, in the same order. */
static inline void tensor_info(struct image *im, const char *name, uint32_t type, unsigned n_dims,
			       const uint64_t *ne, uint64_t bytes)
{
	bump(im, im->tensor_count_at);
	put_str(im, name, strlen(name));
	put32(im, n_dims);
	for (unsigned i = 0; i < n_dims; i++)
		put64(im, ne[i]);
	put32(im, type);
	put64(im, im->data);
	im->data = (im->data + bytes + 31) / 32 * 32;
}

static inline void image_align(struct image *im)
{
	while (im->n % 32)
		put_bytes(im, "", 1);
}

/* What the small model can be asked to get wrong. */
struct mini {
	const char *arch;      /* "qwen3" */
	uint32_t norm_type;    /* type of blk.0.attn_norm.weight */
	uint32_t q_type;       /* type of blk.0.attn_q.weight */
	uint64_t up_rows;      /* rows of blk.0.ffn_up.weight: 64 */
	const char *leave_out; /* a tensor that is not written */
	const char *extra;     /* a tensor nobody asked for */
	const char *leave_key; /* a key that is not written, after "qwen3." */
};

#define MINI_VOCAB 262u
#define MINI_EMBD  32u

static inline void mini_u32(struct image *im, const struct mini *m, const char *key, uint32_t v)
{
	char full[96];

	if (m->leave_key && !strcmp(m->leave_key, key))
		return;
	snprintf(full, sizeof(full), "qwen3.%s", key);
	kv_u32(im, full, v);
}

static inline void mini_tensor(struct image *im, const struct mini *m, const char *name,
			       uint32_t type, uint64_t ne0, uint64_t ne1)
{
	uint64_t ne[2] = {ne0, ne1};

	if (m->leave_out && !strcmp(m->leave_out, name))
		return;
	tensor_info(im, name, type, ne1 ? 2 : 1, ne, ne0 * (ne1 ? ne1 : 1) * (type == 1 ? 2 : 4));
}

/* A byte-level vocabulary: 256 bytes, he, ll, hell, o-space kinds and two special tokens. */
static inline void mini_vocab(struct image *im)
{
	static const char *const more[] = {"he", "ll", "hell", "hello", "<|im_end|>", "<note>"};
	static const char *const merges[] = {"h e", "l l", "he ll", "hell o"};
	uint32_t next = 0x100;

	kv_str(im, "tokenizer.ggml.model", "gpt2");
	kv_str(im, "tokenizer.ggml.pre", "qwen2");
	kv_array(im, "tokenizer.ggml.tokens", GGUF_STRING, MINI_VOCAB);
	for (uint32_t b = 0; b < 256; b++) {
		int prints = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
		uint32_t cp = prints ? b : next++;
		char s[2] = {(char)cp, 0};

		if (cp >= 0x80) {
			s[0] = (char)(0xc0 | cp >> 6);
			s[1] = (char)(0x80 | (cp & 0x3f));
		}
		put_str(im, s, cp >= 0x80 ? 2 : 1);
	}
	for (int i = 0; i < 6; i++)
		put_str(im, more[i], strlen(more[i]));
	kv_array(im, "tokenizer.ggml.token_type", GGUF_I32, MINI_VOCAB);
	for (uint32_t i = 0; i < MINI_VOCAB; i++)
		put32(im, i == 260 ? 3 : i == 261 ? 4 : 1);
	kv_array(im, "tokenizer.ggml.merges", GGUF_STRING, 4);
	for (int i = 0; i < 4; i++)
		put_str(im, merges[i], strlen(merges[i]));
	kv_u32(im, "tokenizer.ggml.eos_token_id", 260);
}

/* A whole qwen3 model of one layer, tied, about 70 KB; the last tensor ends with the image. */
static inline struct image mini_model(const struct mini *want)
{
	struct mini m = want ? *want : (struct mini){0};
	uint32_t seed = 1;
	struct image im;
	size_t end;

	m.arch = m.arch ? m.arch : "qwen3";
	m.up_rows = m.up_rows ? m.up_rows : 64;
	image_begin(&im, 3);
	kv_str(&im, "general.architecture", m.arch);
	mini_u32(&im, &m, "context_length", 16);
	mini_u32(&im, &m, "embedding_length", MINI_EMBD);
	mini_u32(&im, &m, "block_count", 1);
	mini_u32(&im, &m, "feed_forward_length", 64);
	mini_u32(&im, &m, "attention.head_count", 2);
	mini_u32(&im, &m, "attention.head_count_kv", 1);
	mini_u32(&im, &m, "attention.key_length", 16);
	if (!m.leave_key || strcmp(m.leave_key, "attention.layer_norm_rms_epsilon"))
		kv_f32(&im, "qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
	mini_vocab(&im);
	mini_tensor(&im, &m, "token_embd.weight", 0, MINI_EMBD, MINI_VOCAB);
	mini_tensor(&im, &m, "output_norm.weight", 0, 32, 0);
	mini_tensor(&im, &m, "blk.0.attn_norm.weight", m.norm_type, 32, 0);
	mini_tensor(&im, &m, "blk.0.attn_q.weight", m.q_type, 32, 32);
	mini_tensor(&im, &m, "blk.0.attn_k.weight", 0, 32, 16);
	mini_tensor(&im, &m, "blk.0.attn_v.weight", 0, 32, 16);
	mini_tensor(&im, &m, "blk.0.attn_output.weight", 0, 32, 32);
	mini_tensor(&im, &m, "blk.0.attn_q_norm.weight", 0, 16, 0);
	mini_tensor(&im, &m, "blk.0.attn_k_norm.weight", 0, 16, 0);
	mini_tensor(&im, &m, "blk.0.ffn_norm.weight", 0, 32, 0);
	mini_tensor(&im, &m, "blk.0.ffn_gate.weight", 0, 32, 64);
	mini_tensor(&im, &m, "blk.0.ffn_up.weight", 0, 32, m.up_rows);
	if (m.extra)
		mini_tensor(&im, &m, m.extra, 0, 32, 0);
	mini_tensor(&im, &m, "blk.0.ffn_down.weight", 0, 64, 32);
	image_align(&im);
	for (end = im.n + im.data; im.n < end;) {
		float f;

		seed = seed * 1664525 + 1013904223;
		f = (float)(int32_t)seed * 0x1p-33f;
		put_bytes(&im, &f, 4);
	}
	return im;
}

#endif
