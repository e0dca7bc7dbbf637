/* Scalar operands off the fast path. */
#include "isa/operands.h"

const uint32_t isa_inline_f32[9] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
				    0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
const uint16_t isa_inline_f16[9] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000,
				    0xc000, 0x4400, 0xc400, 0x3118};
const uint64_t isa_inline_f64[9] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
				    0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
				    0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};

enum { SRC_VCCZ = 251, SRC_EXECZ = 252 };

uint64_t isa_sread64_slow(const struct isa_exec *x, unsigned code, uint32_t literal)
{
	const struct isa_wave *w = x->w;
	uint64_t live = w->wave64 ? ~0ull : 0xffffffffull;

	if (code < OPR_NULL || code == OPR_M0)
		return w->s[code];
	if (code >= 128 && code <= 192)
		return code - 128;
	if (code > 192 && code <= 208)
		return (uint64_t)(int64_t)(192 - (int)code);
	if (code >= 240 && code <= 248)
		return isa_inline_f64[code - 240];
	switch (code) {
	case OPR_EXEC_LO:
		return w->exec;
	case OPR_EXEC_HI:
		return w->exec >> 32;
	case OPR_LITERAL:
		return literal;
	case OPR_SHARED_BASE:
		return x->shared_base;
	case OPR_SHARED_LIMIT:
		return x->shared_base | 0xffffffffull;
	case OPR_PRIVATE_BASE:
		return x->private_base;
	case OPR_PRIVATE_LIMIT:
		return x->private_base | 0xffffffffull;
	case SRC_VCCZ:
		return !((w->s[OPR_VCC_LO] | (uint64_t)w->s[OPR_VCC_HI] << 32) & live);
	case SRC_EXECZ:
		return !(w->exec & live);
	case OPR_SCC:
		return w->scc;
	}
	return 0; /* NULL, POPS_EXITING_WAVE_ID */
}

uint32_t isa_sread_slow(const struct isa_exec *x, unsigned code, uint32_t literal)
{
	if (code >= 240 && code <= 248)
		return isa_inline_f32[code - 240];
	/* A 32-bit read of an aperture is its high half: the low half is known. */
	if (code >= OPR_SHARED_BASE && code <= OPR_PRIVATE_LIMIT)
		return (uint32_t)(isa_sread64_slow(x, code, literal) >> 32);
	return (uint32_t)isa_sread64_slow(x, code, literal);
}
