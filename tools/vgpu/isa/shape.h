/* What an opcode's operands are, for whoever needs more than one decoded instruction: the
 * decoder, its test, the register footprint. Rows are in shapes.def; they state facts of the
 * instruction set as LLVM 19 encodes gfx1151. */
#ifndef VGPU_ISA_SHAPE_H
#define VGPU_ISA_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

/* What a source may be. */
enum isa_class {
	ICL_A, /* anything its field can name */
	ICL_V, /* VGPR only */
	ICL_S, /* scalar register or constant, no VGPR */
	ICL_C, /* VGPR or inline constant (WMMA's C) */
	ICL_M, /* lane mask: SGPRs, VCC, NULL or M0; no EXEC, no constant */
	ICL_R, /* scalar register, no constant */
};

/* Other forms of the row. */
enum {
	F_E64 = 1u << 0,   /* VOP1/VOP2/VOPC row with a VOP3 form */
	F_DPP32 = 1u << 1, /* DPP16 and DPP8 behind the 32-bit form */
	F_DPP64 = 1u << 2, /* DPP16 and DPP8 behind the VOP3 form */
	F_TFE = 1u << 3,   /* MUBUF that may ask for a fault status dword */
	F_GDS = 1u << 4,   /* DS that needs the GDS bit */
	F_NOGDS = 1u << 5, /* DS that refuses it */
	F_BARE = 1u << 6,  /* no operand fields: they must be zero */
};

struct isa_shape {
	uint8_t dst;    /* dwords */
	uint8_t src[3]; /* dwords */
	uint8_t cls[3]; /* enum isa_class */
	uint8_t half;   /* 16-bit operands of 32-bit forms: 1 << source, 8 destination */
	uint16_t fixed; /* VOP3 bits that must be 0: [4:0] = dword 1 [31:27], [12:5] = dword 0
			   [15:8] */
	uint8_t forms;
};

extern const struct isa_shape isa_shapes[];
extern const uint16_t isa_flags[]; /* OPF_* */
extern const uint8_t isa_home[];   /* enum isa_fmt of the ops.def row */

/* wave64: the register pair whose low and high dwords are the lane mask that in writes (VOPC and
 * carries), by its low register; v_cmpx: OPR_EXEC_LO. -1: it writes none. Both halves read the
 * scalars from before either writes its dword. */
int isa_mask_dst(const struct isa_insn *in);

#endif
