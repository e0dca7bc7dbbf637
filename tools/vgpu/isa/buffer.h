/* Buffer data formats: raw bytes to components and back. Pure. */
#ifndef VGPU_ISA_BUFFER_H
#define VGPU_ISA_BUFFER_H

#include <stdint.h>

enum buf_kind { BUF_UNORM, BUF_SNORM, BUF_USCALED, BUF_SSCALED, BUF_UINT, BUF_SINT, BUF_FLOAT };

struct buf_format {
	uint8_t n;       /* components */
	uint8_t bits[4]; /* of each, from the low end of the element */
	uint8_t kind;
};

/* gfx11's unified format number; NULL for invalid and reserved ones. */
const struct buf_format *buf_format(unsigned number);
/* Bytes of an element. */
unsigned buf_bytes(const struct buf_format *f);
/* The value 1 of the format's register type. */
uint32_t buf_one(const struct buf_format *f);
/* Element to four 32-bit register values: f32, or integers for UINT and SINT; absent components
 * are 0, the fourth 1. */
void buf_unpack(const struct buf_format *f, const uint32_t raw[4], uint32_t c[4]);
void buf_pack(const struct buf_format *f, const uint32_t c[4], uint32_t raw[4]);
/* A register value to and from its 16-bit form (f16 or the low half of an integer). */
uint16_t buf_narrow(const struct buf_format *f, uint32_t v);
uint32_t buf_widen(const struct buf_format *f, uint16_t v);

#endif
