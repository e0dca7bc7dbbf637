#include "codeobj/descriptor.h"

/* AMDGPUUsage tables "compute_pgm_rsrc1 for GFX6-GFX12" (GFX11 column) and following. */
const struct kd_field kd_fields[] = {
	{KD_RSRC1, 0, 6, "granulated_workitem_vgpr_count"},
	{KD_RSRC1, 6, 4, "granulated_wavefront_sgpr_count"},
	{KD_RSRC1, 10, 2, "priority"},
	{KD_RSRC1, 12, 2, "float_round_mode_32"},
	{KD_RSRC1, 14, 2, "float_round_mode_16_64"},
	{KD_RSRC1, 16, 2, "float_denorm_mode_32"},
	{KD_RSRC1, 18, 2, "float_denorm_mode_16_64"},
	{KD_RSRC1, 20, 1, "priv"},
	{KD_RSRC1, 21, 1, "enable_dx10_clamp"},
	{KD_RSRC1, 22, 1, "debug_mode"},
	{KD_RSRC1, 23, 1, "enable_ieee_mode"},
	{KD_RSRC1, 24, 1, "bulky"},
	{KD_RSRC1, 25, 1, "cdbg_user"},
	{KD_RSRC1, 26, 1, "fp16_ovfl"},
	{KD_RSRC1, 29, 1, "wgp_mode"},
	{KD_RSRC1, 30, 1, "mem_ordered"},
	{KD_RSRC1, 31, 1, "fwd_progress"},
	{KD_RSRC2, 0, 1, "enable_private_segment"},
	{KD_RSRC2, 1, 5, "user_sgpr_count"},
	{KD_RSRC2, 6, 1, "enable_trap_handler"},
	{KD_RSRC2, 7, 1, "enable_sgpr_workgroup_id_x"},
	{KD_RSRC2, 8, 1, "enable_sgpr_workgroup_id_y"},
	{KD_RSRC2, 9, 1, "enable_sgpr_workgroup_id_z"},
	{KD_RSRC2, 10, 1, "enable_sgpr_workgroup_info"},
	{KD_RSRC2, 11, 2, "enable_vgpr_workitem_id"},
	{KD_RSRC2, 13, 1, "exception_address_watch"},
	{KD_RSRC2, 14, 1, "exception_memory"},
	{KD_RSRC2, 15, 9, "granulated_lds_size"},
	{KD_RSRC2, 24, 1, "exception_fp_invalid"},
	{KD_RSRC2, 25, 1, "exception_fp_denormal"},
	{KD_RSRC2, 26, 1, "exception_fp_div_zero"},
	{KD_RSRC2, 27, 1, "exception_fp_overflow"},
	{KD_RSRC2, 28, 1, "exception_fp_underflow"},
	{KD_RSRC2, 29, 1, "exception_fp_inexact"},
	{KD_RSRC2, 30, 1, "exception_int_div_zero"},
	{KD_RSRC3, 0, 4, "shared_vgpr_count"},
	{KD_RSRC3, 4, 6, "inst_pref_size"},
	{KD_RSRC3, 10, 1, "trap_on_start"},
	{KD_RSRC3, 11, 1, "trap_on_end"},
	{KD_RSRC3, 31, 1, "image_op"},
	{KD_PROPERTIES, 0, 1, "enable_sgpr_private_segment_buffer"},
	{KD_PROPERTIES, 1, 1, "enable_sgpr_dispatch_ptr"},
	{KD_PROPERTIES, 2, 1, "enable_sgpr_queue_ptr"},
	{KD_PROPERTIES, 3, 1, "enable_sgpr_kernarg_segment_ptr"},
	{KD_PROPERTIES, 4, 1, "enable_sgpr_dispatch_id"},
	{KD_PROPERTIES, 5, 1, "enable_sgpr_flat_scratch_init"},
	{KD_PROPERTIES, 6, 1, "enable_sgpr_private_segment_size"},
	{KD_PROPERTIES, 10, 1, "enable_wavefront_size32"},
	{KD_PROPERTIES, 11, 1, "uses_dynamic_stack"},
	{KD_PRELOAD, 0, 7, "kernarg_preload_length"},
	{KD_PRELOAD, 7, 9, "kernarg_preload_offset"},
};
const unsigned kd_n_fields = sizeof(kd_fields) / sizeof(kd_fields[0]);

static uint64_t le(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

void kd_decode(const uint8_t raw[KD_BYTES], struct kd *out)
{
	*out = (struct kd){
		.group_bytes = (uint32_t)le(raw, 4),
		.private_bytes = (uint32_t)le(raw + 4, 4),
		.kernarg_bytes = (uint32_t)le(raw + 8, 4),
		.entry_offset = (int64_t)le(raw + 16, 8),
		.rsrc3 = (uint32_t)le(raw + 44, 4),
		.rsrc1 = (uint32_t)le(raw + 48, 4),
		.rsrc2 = (uint32_t)le(raw + 52, 4),
		.properties = (uint16_t)le(raw + 56, 2),
		.kernarg_preload = (uint16_t)le(raw + 58, 2),
	};
}

uint32_t kd_word_get(const struct kd *kd, enum kd_word word)
{
	switch (word) {
	case KD_RSRC1:
		return kd->rsrc1;
	case KD_RSRC2:
		return kd->rsrc2;
	case KD_RSRC3:
		return kd->rsrc3;
	case KD_PROPERTIES:
		return kd->properties;
	case KD_PRELOAD:
		return kd->kernarg_preload;
	}
	return 0;
}

static uint32_t field_mask(const struct kd_field *f)
{
	return (uint32_t)(((uint64_t)1 << f->width) - 1) << f->lsb;
}

uint32_t kd_field_get(const struct kd *kd, const struct kd_field *f)
{
	return (kd_word_get(kd, f->word) & field_mask(f)) >> f->lsb;
}

uint32_t kd_reserved_bits(const struct kd *kd, enum kd_word word)
{
	uint32_t bits = kd_word_get(kd, word);

	for (unsigned i = 0; i < kd_n_fields; i++)
		if (kd_fields[i].word == word)
			bits &= ~field_mask(&kd_fields[i]);
	return bits;
}

bool kd_reserved_zero(const uint8_t raw[KD_BYTES])
{
	return !le(raw + 12, 4) && !le(raw + 24, 8) && !le(raw + 32, 8) && !le(raw + 40, 4) &&
	       !le(raw + 60, 4);
}

bool kd_wave32(const struct kd *kd)
{
	return kd->properties >> 10 & 1;
}

uint32_t kd_vgprs(const struct kd *kd)
{
	return ((kd->rsrc1 & 63) + 1) * (kd_wave32(kd) ? 8 : 4);
}

uint32_t kd_user_sgprs(const struct kd *kd)
{
	return kd->rsrc2 >> 1 & 31;
}
