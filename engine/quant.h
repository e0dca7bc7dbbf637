/* GGML tensor types: block sizes, row sizes, and dequantisation to F32.
 *
 * Layouts are GGML's public ones (ggml-common.h block_q*): a row of ne[0] elements is ne[0]/block
 * blocks, little-endian, no padding between blocks or rows. Pure code; no allocation.
 */
#ifndef ENGINE_QUANT_H
#define ENGINE_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#define QUANT_MAX_BLOCK 256 /* elements of the largest block */

struct quant_type {
	const char *name; /* "Q4_K" */
	uint32_t block;   /* elements per block; 0 marks a number that is no GGML type */
	uint32_t bytes;   /* bytes per block */
	/* n elements (a multiple of block) to F32; NULL: known by size but not computed with here
	 */
	void (*dequant)(const void *src, float *dst, uint64_t n);
};

/* NULL when the number is no GGML type known here (or one that GGML retired). */
const struct quant_type *quant_type(uint32_t type);
/* "Q4_K", or "unknown". */
const char *quant_name(uint32_t type);
bool quant_supported(uint32_t type);
/* Bytes of n elements. -ENOTSUP unknown type, -EINVAL n is not whole blocks, -EOVERFLOW. */
int quant_bytes(uint32_t type, uint64_t n, uint64_t *bytes);
/* n elements to F32. -ENOTSUP when the type has no dequantiser, -EINVAL n is not whole blocks. */
int quant_dequant(uint32_t type, const void *src, float *dst, uint64_t n);

/* IEEE binary16 and bfloat16. To F16 and BF16 round to nearest even; NaN stays NaN. */
float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float f);
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float f);

#endif
