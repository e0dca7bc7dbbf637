/* The 64-byte kernel descriptor, decoded. Pure.
 * Source: AMDGPUUsage, "Kernel Descriptor" and compute_pgm_rsrc1/2/3 for GFX11. */
#ifndef CODEOBJ_DESCRIPTOR_H
#define CODEOBJ_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

#define KD_BYTES 64

struct kd {
	uint32_t group_bytes, private_bytes, kernarg_bytes; /* kernarg 0: not stated */
	int64_t entry_offset;                               /* from the descriptor to the code */
	uint32_t rsrc1, rsrc2, rsrc3;
	uint16_t properties, kernarg_preload;
};

void kd_decode(const uint8_t raw[KD_BYTES], struct kd *out);

enum kd_word { KD_RSRC1, KD_RSRC2, KD_RSRC3, KD_PROPERTIES, KD_PRELOAD };

/* Every named bit field of the five words, in order; bits no row names are reserved on GFX11. */
struct kd_field {
	enum kd_word word;
	uint8_t lsb, width;
	const char *name;
};
extern const struct kd_field kd_fields[];
extern const unsigned kd_n_fields;

uint32_t kd_word_get(const struct kd *kd, enum kd_word word);
uint32_t kd_field_get(const struct kd *kd, const struct kd_field *f);
/* Bits of a word that are set and that no field names. */
uint32_t kd_reserved_bits(const struct kd *kd, enum kd_word word);
/* True when all reserved bytes of the raw descriptor are zero. */
bool kd_reserved_zero(const uint8_t raw[KD_BYTES]);

bool kd_wave32(const struct kd *kd);
/* VGPRs per lane: granules of 8 for wave32, 4 for wave64 (GFX10+). */
uint32_t kd_vgprs(const struct kd *kd);
uint32_t kd_user_sgprs(const struct kd *kd);

#endif
