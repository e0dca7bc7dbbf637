/* Writes a GGUF file with the shape of a real model and random weights: enough to measure
 * footprint, load time and speed where the real weights are not to be had.
 *
 *   make_model SHAPE OUT [SEED]
 *
 * Quantised tensors are drawn block by block in their stored form: scales are chosen so that the
 * dequantised weights are about uniform with a standard deviation of 1/sqrt(k), which keeps
 * activations finite through any number of layers. The type of each tensor follows the Q4_K_M
 * recipe as published files show it: Q6_K for the embedding and for attn_v and ffn_down in the
 * first and last eighth of the layers and every third one between, Q4_K for the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
	const char *name;
	uint32_t layers, d, heads, kv_heads, head_dim, ff, vocab, ctx;
	float theta;
};

static const struct shape shapes[] = {
	/* From the models' published config.json. */
	{"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6f},
	{"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, 40960, 1e6f},
	{"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 40960, 1e6f},
	/* Same architecture, seconds to make and to run: for tests. */
	{"qwen3-mini", 4, 256, 4, 2, 64, 768, 2048, 2048, 1e6f},
};

enum { T_F32 = 0, T_Q4_K = 12, T_Q6_K = 14 };

struct tensor {
	char name[64];
	uint32_t type, n_dims;
	uint64_t ne[2], bytes, offset;
};

struct out {
	FILE *f;
	uint64_t pos;
};

static uint64_t rng;

static uint32_t rnd(void)
{
	/* SplitMix64: one multiply chain per draw, good enough for filler and the same everywhere.
	 */
	uint64_t z = (rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)(z >> 32);
}

static float rnd_unit(void)
{
	return (float)(rnd() >> 8) * 0x1p-24f;
}

static void put(struct out *o, const void *p, size_t n)
{
	if (fwrite(p, 1, n, o->f) != n) {
		perror("make_model: write");
		exit(1);
	}
	o->pos += n;
}
static void put32(struct out *o, uint32_t v)
{
	put(o, &v, 4);
}
static void put64(struct out *o, uint64_t v)
{
	put(o, &v, 8);
}
static void put_str(struct out *o, const char *s)
{
	put64(o, strlen(s));
	put(o, s, strlen(s));
}
static void kv_u32(struct out *o, const char *k, uint32_t v)
{
	put_str(o, k);
	put32(o, 4);
	put32(o, v);
}
static void kv_f32(struct out *o, const char *k, float v)
{
	put_str(o, k);
	put32(o, 6);
	put(o, &v, 4);
}
static void kv_str(struct out *o, const char *k, const char *v)
{
	put_str(o, k);
	put32(o, 8);
	put_str(o, v);
}

static uint16_t half_of(float x)
{
	_Float16 h = (_Float16)x;
	uint16_t u;

	memcpy(&u, &h, 2);
	return u;
}

/* Token text of the byte-level alphabet: printable bytes stand for themselves, the others are
 * moved up to U+0100 and on, as GPT-2's table has it. */
static void byte_token(unsigned b, char *s)
{
	unsigned cp, i, n = 0;

	if ((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174) {
		cp = b;
	} else {
		for (i = 0; i < b; i++)
			n += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
		cp = 256 + n;
	}
	if (cp < 128) {
		s[0] = (char)cp;
		s[1] = 0;
	} else {
		s[0] = (char)(0xc0 | cp >> 6);
		s[1] = (char)(0x80 | (cp & 63));
		s[2] = 0;
	}
}

static void put_vocab(struct out *o, uint32_t vocab)
{
	char s[32];
	uint32_t i;

	kv_str(o, "tokenizer.ggml.model", "gpt2");
	kv_str(o, "tokenizer.ggml.pre", "qwen2");
	put_str(o, "tokenizer.ggml.tokens");
	put32(o, 9);
	put32(o, 8);
	put64(o, vocab);
	for (i = 0; i < vocab; i++) {
		if (i < 256)
			byte_token(i, s);
		else if (i == 256)
			snprintf(s, sizeof(s), "w2"); /* what the one merge makes */
		else if (i == vocab - 1)
			snprintf(s, sizeof(s), "<|endoftext|>");
		else
			snprintf(s, sizeof(s), "w%u", i);
		put_str(o, s);
	}
	put_str(o, "tokenizer.ggml.token_type");
	put32(o, 9);
	put32(o, 5);
	put64(o, vocab);
	for (i = 0; i < vocab; i++)
		put32(o, i == vocab - 1 ? 3 : 1); /* control, normal */
	put_str(o, "tokenizer.ggml.merges");
	put32(o, 9);
	put32(o, 8);
	put64(o, 1);
	put_str(o, "w 2");
	kv_u32(o, "tokenizer.ggml.eos_token_id", vocab - 1);
}

static void fill_q4_k(uint8_t *p, uint64_t blocks, float sd)
{
	uint64_t b;
	unsigned i;

	/* w = d * sc * q - dmin * m; with sc, m = 32 for all eight sub-blocks, dmin = 7.5 d centres
	 * q in 0..15, whose spread is 4.61. */
	for (b = 0; b < blocks; b++, p += 144) {
		float d = sd / (32 * 4.61f);
		uint16_t h[2] = {half_of(d), half_of(7.5f * d)};

		memcpy(p, h, 4);
		/* 6-bit scales and mins of sub-blocks 0-3 in bytes 0-7, 4-7 packed in 8-11 with
		 * their top bits borrowed from bytes 0-7. 32 = 0b100000: low nibble 0, top 2. */
		for (i = 0; i < 8; i++)
			p[4 + i] = 32 | 2 << 6;
		memset(p + 12, 0, 4);
		for (i = 0; i < 128; i += 4) {
			uint32_t r = rnd();

			memcpy(p + 16 + i, &r, 4);
		}
	}
}

static void fill_q6_k(uint8_t *p, uint64_t blocks, float sd)
{
	uint64_t b;
	unsigned i;

	/* w = d * sc * (q - 32), q in 0..63: spread 18.5. */
	for (b = 0; b < blocks; b++, p += 210) {
		uint16_t h = half_of(sd / (32 * 18.5f));

		for (i = 0; i < 192; i += 4) {
			uint32_t r = rnd();

			memcpy(p + i, &r, 4);
		}
		memset(p + 192, 32, 16);
		memcpy(p + 208, &h, 2);
	}
}

static void add(struct tensor *t, unsigned *n, uint32_t type, uint64_t k, uint64_t rows,
		const char *fmt, unsigned layer)
{
	struct tensor *x = &t[(*n)++];

	/* cppcheck-suppress wrongPrintfScanfArgNum ; the tensors of no layer need none */
	snprintf(x->name, sizeof(x->name), fmt, layer);
	x->type = type;
	x->n_dims = rows ? 2 : 1;
	x->ne[0] = k;
	x->ne[1] = rows ? rows : 1;
	x->bytes = type == T_F32 ? x->ne[0] * x->ne[1] * 4
				 : x->ne[0] / 256 * x->ne[1] * (type == T_Q4_K ? 144 : 210);
}

static unsigned tensors_of(const struct shape *s, struct tensor *t)
{
	unsigned n = 0, l;
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;

	add(t, &n, T_Q6_K, s->d, s->vocab, "token_embd.weight", 0);
	for (l = 0; l < s->layers; l++) {
		bool more =
			l < s->layers / 8 || l >= 7 * s->layers / 8 || (l - s->layers / 8) % 3 == 2;
		uint32_t v = more ? T_Q6_K : T_Q4_K;

		add(t, &n, T_F32, s->d, 0, "blk.%u.attn_norm.weight", l);
		add(t, &n, T_Q4_K, s->d, q, "blk.%u.attn_q.weight", l);
		add(t, &n, T_Q4_K, s->d, kv, "blk.%u.attn_k.weight", l);
		add(t, &n, v, s->d, kv, "blk.%u.attn_v.weight", l);
		add(t, &n, T_F32, s->head_dim, 0, "blk.%u.attn_q_norm.weight", l);
		add(t, &n, T_F32, s->head_dim, 0, "blk.%u.attn_k_norm.weight", l);
		add(t, &n, T_Q4_K, q, s->d, "blk.%u.attn_output.weight", l);
		add(t, &n, T_F32, s->d, 0, "blk.%u.ffn_norm.weight", l);
		add(t, &n, T_Q4_K, s->d, s->ff, "blk.%u.ffn_gate.weight", l);
		add(t, &n, T_Q4_K, s->d, s->ff, "blk.%u.ffn_up.weight", l);
		add(t, &n, v, s->ff, s->d, "blk.%u.ffn_down.weight", l);
	}
	add(t, &n, T_F32, s->d, 0, "output_norm.weight", 0);
	return n;
}

static void put_data(struct out *o, const struct tensor *t)
{
	void *buf = malloc(t->bytes);
	float *f = buf;
	uint64_t i, n = t->ne[0] * t->ne[1];
	float sd = 1.0f / sqrtf((float)t->ne[0]);
	static const uint8_t zero[32];

	if (!buf) {
		fprintf(stderr, "make_model: %s: no memory for %" PRIu64 " bytes\n", t->name,
			t->bytes);
		exit(1);
	}
	if (t->type == T_F32)
		for (i = 0; i < n; i++)
			f[i] = 0.9f + 0.2f * rnd_unit(); /* norm gains near one */
	else if (t->type == T_Q4_K)
		fill_q4_k(buf, n / 256, sd);
	else
		fill_q6_k(buf, n / 256, sd);
	put(o, buf, t->bytes);
	put(o, zero, -t->bytes & 31);
	free(buf);
}

int main(int argc, char **argv)
{
	const struct shape *s = NULL;
	static struct tensor t[1024];
	struct out o = {0};
	static const uint8_t zero[32];
	unsigned i, n;
	uint64_t off = 0;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: make_model SHAPE OUT [SEED]\nshapes:");
		for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
			fprintf(stderr, " %s", shapes[i].name);
		fputc('\n', stderr);
		return 2;
	}
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (!strcmp(argv[1], shapes[i].name))
			s = &shapes[i];
	if (!s) {
		fprintf(stderr, "make_model: no shape '%s'\n", argv[1]);
		return 2;
	}
	rng = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	o.f = fopen(argv[2], "wb");
	if (!o.f) {
		fprintf(stderr, "make_model: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	n = tensors_of(s, t);
	put(&o, "GGUF", 4);
	put32(&o, 3);
	put64(&o, n);
	put64(&o, 12 + 6); /* the keys below, then those of put_vocab() */
	kv_str(&o, "general.architecture", "qwen3");
	kv_str(&o, "general.name", s->name);
	kv_u32(&o, "qwen3.block_count", s->layers);
	kv_u32(&o, "qwen3.context_length", s->ctx);
	kv_u32(&o, "qwen3.embedding_length", s->d);
	kv_u32(&o, "qwen3.feed_forward_length", s->ff);
	kv_u32(&o, "qwen3.attention.head_count", s->heads);
	kv_u32(&o, "qwen3.attention.head_count_kv", s->kv_heads);
	kv_u32(&o, "qwen3.attention.key_length", s->head_dim);
	kv_u32(&o, "qwen3.attention.value_length", s->head_dim);
	kv_f32(&o, "qwen3.rope.freq_base", s->theta);
	kv_f32(&o, "qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
	put_vocab(&o, s->vocab);
	for (i = 0; i < n; i++) {
		put_str(&o, t[i].name);
		put32(&o, t[i].n_dims);
		put64(&o, t[i].ne[0]);
		if (t[i].n_dims > 1)
			put64(&o, t[i].ne[1]);
		put32(&o, t[i].type);
		t[i].offset = off;
		put64(&o, off);
		off += (t[i].bytes + 31) & ~UINT64_C(31);
	}
	put(&o, zero, -o.pos & 31);
	for (i = 0; i < n; i++)
		put_data(&o, &t[i]);
	if (fclose(o.f)) {
		perror("make_model: close");
		return 1;
	}
	printf("%s: %u tensors, %" PRIu64 " bytes\n", argv[2], n, o.pos);
	return 0;
}
