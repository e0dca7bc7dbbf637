/* Between the decoder's files. */
#ifndef VGPU_ISA_DECODE_H
#define VGPU_ISA_DECODE_H

#include "isa/isa.h"
#include "isa/shape.h"

extern isa_sem *const isa_sems[ISA_OP_COUNT];
extern const uint16_t isa_by_opcode[ISA_FMT_COUNT][1024];
extern const uint16_t isa_vopd[19];

/* One decode in progress: dwords consumed so far, and the literal once seen. */
struct isa_dec {
	const uint32_t *words;
	unsigned n, used;
	bool has_literal;
	struct isa_insn *in;
};

/* Consumes the next dword. 0 or -ENODATA. */
int isa_dec_word(struct isa_dec *d, uint32_t *w);
int isa_dec_literal(struct isa_dec *d);
/* A scalar source field (0..255) of w dwords; consumes the literal it may name. */
int isa_dec_ssrc(struct isa_dec *d, unsigned code, unsigned w, uint16_t *out);
/* A scalar destination field (0..127) of w dwords. */
int isa_dec_sdst(unsigned code, unsigned w, uint16_t *out);
/* VGPR tuple of w dwords; w 0 is a field nobody reads. */
int isa_dec_vgpr(unsigned reg, unsigned w, uint16_t *out);

int isa_dec_vop12c(struct isa_dec *d, uint32_t w0);
int isa_dec_vop3(struct isa_dec *d, uint32_t w0);
int isa_dec_vop3p(struct isa_dec *d, uint32_t w0);
int isa_dec_vopd(struct isa_dec *d, uint32_t w0);

#endif
