#include "engine/layout.h"

#include <errno.h>
#include <string.h>

/* Q8_0: blocks of f16 scale, 32 int8 -> all int8, then all scales. */
static void row_q8_0(const uint8_t *file, uint8_t *dev, uint64_t k)
{
	for (uint64_t b = 0; b < k / 32; b++, file += 34) {
		memcpy(dev + k + b * 2, file, 2);
		memcpy(dev + b * 32, file + 2, 32);
	}
}

/* Q4_0: blocks of f16 scale, 16 bytes of nibbles -> all nibbles, then all scales. */
static void row_q4_0(const uint8_t *file, uint8_t *dev, uint64_t k)
{
	for (uint64_t b = 0; b < k / 32; b++, file += 18) {
		memcpy(dev + k / 2 + b * 2, file, 2);
		memcpy(dev + b * 16, file + 2, 16);
	}
}

/* Q6_K: blocks of 128 ql, 64 qh, 16 scales, f16 d -> each of the four on its own. */
static void row_q6_k(const uint8_t *file, uint8_t *dev, uint64_t k)
{
	uint64_t nb = k / 256;

	for (uint64_t b = 0; b < nb; b++, file += 210) {
		memcpy(dev + b * 128, file, 128);
		memcpy(dev + nb * 128 + b * 64, file + 128, 64);
		memcpy(dev + nb * 192 + b * 16, file + 192, 16);
		memcpy(dev + nb * 208 + b * 2, file + 208, 2);
	}
}

/* Block sizes are GGML's (ggml-common.h block_q*). */
static const struct layout layouts[] = {
	{TYPE_F32, "f32", 1, 4, true, NULL},
	{TYPE_F16, "f16", 1, 2, true, NULL},
	{TYPE_BF16, "bf16", 1, 2, true, NULL},
	{TYPE_Q8_0, "q8_0", 32, 34, false, row_q8_0},
	{TYPE_Q4_0, "q4_0", 32, 18, false, row_q4_0},
	{TYPE_Q4_K, "q4_k", 256, 144, true, NULL},
	{TYPE_Q5_K, "q5_k", 256, 176, true, NULL},
	{TYPE_Q6_K, "q6_k", 256, 210, false, row_q6_k},
};

const struct layout *layout_of(enum ggml_type type)
{
	for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].type == type)
			return &layouts[i];
	return NULL;
}

static uint64_t file_row_bytes(const struct layout *l, uint64_t k)
{
	return k / l->block * l->file_bytes;
}

uint64_t layout_row_bytes(const struct layout *l, uint64_t k)
{
	return (file_row_bytes(l, k) + 15) & ~15ull;
}

int layout_bytes(const struct layout *l, uint64_t k, uint64_t rows, uint64_t *bytes)
{
	uint64_t all;

	if (!k || k % l->block)
		return -EINVAL;
	if (k > UINT32_MAX || __builtin_mul_overflow(layout_row_bytes(l, k), rows, &all))
		return -EOVERFLOW;
	*bytes = all;
	return 0;
}

void layout_store(const struct layout *l, const void *file, void *dev, uint64_t k, uint64_t rows)
{
	uint64_t from = file_row_bytes(l, k), to = layout_row_bytes(l, k);
	const uint8_t *src = file;
	uint8_t *dst = dev;

	if (!l->row && from == to) {
		memcpy(dst, src, rows * from);
		return;
	}
	for (uint64_t r = 0; r < rows; r++, src += from, dst += to) {
		if (l->row)
			l->row(src, dst, k);
		else
			memcpy(dst, src, from);
		memset(dst + from, 0, to - from);
	}
}
