/* Which registers an instruction reads and writes. Pure. */
#ifndef VGPU_ISA_REGS_H
#define VGPU_ISA_REGS_H

#include "isa/isa.h"

enum { ISA_REGS = 16 };

/* n dwords from operand code on: SGPRs, VCC, TTMPs, M0, EXEC, or VGPRs. */
struct isa_reg {
	uint16_t code;
	uint8_t n;
	bool write;
};

/* The registers that in names and, of those it does not name, VCC and M0; at most ISA_REGS
 * entries, sources first. EXEC and SCC only where they are named. Registers that are picked by
 * number at run time (s_movrel, v_movrel) count as the ones the number starts from. */
unsigned isa_regs(const struct isa_insn *in, bool wave64, struct isa_reg out[ISA_REGS]);

/* "v3", "v[3:6]", "s4", "vcc_lo", ... */
void isa_reg_name(unsigned code, unsigned n, char *buf, unsigned len);

#endif
