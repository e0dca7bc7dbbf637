// Second-level trap handler for gfx1151.
//
// A wave that traps, aborts, meets an illegal instruction, a bad address or an enabled math
// exception is stopped where it is and reported: the kernel ORs the exception into the error word
// of the queue's save area and sets the queue's error event. Without this handler the kernel's own
// steps over s_trap and goes on.
//
// How we get here (amdkfd/cwsr_trap_handler_gfx10.asm, first level): the kernel's handler found a
// trap id or an exception that is not a context save, fetched our address and jumped.
//   ttmp0, ttmp1[15:0]   PC as the hardware saved it. s_trap: the s_trap itself (the kernel's own
//                        way past one is to add 4). Illegal instruction: that instruction. Memory
//                        violation: some instruction at or behind the access, which was not waited
//                        for.
//   ttmp1[23:16]         trap id, 0 for an exception
//   ttmp1[24]            host trap
//   ttmp2..ttmp5         free
//   ttmp6..ttmp11, 13    the dispatcher's debug data; ttmp11[31:24] is unused by it
//   ttmp12               STATUS on entry, to be restored by us
//   ttmp14, ttmp15       second-level TMA (0: we use none)
//
// What we tell the kernel (amdkfd/kfd_int_process_v11.c): m0[9:0] the doorbell id, m0[23:10] the
// exception mask, sent as an interrupt from privileged code.
//
// What a reader of saved waves finds: PC as it came (from gfx10.3 on a wave may be halted at its
// s_endpgm and still be saved, so nothing has to be moved out of its way), and in ttmp11[31:24]:
//   bits 30:25  exception mask: abort, trap, math, illegal instruction, memory, aperture
//   bit 31      stopped by this handler

	.amdgcn_target "amdgcn-amd-amdhsa--gfx1151"

	.set STATUS_HALT, 0x2000
	.set TRAP_ID_ABORT, 2
	.set TRAP_ID_DEBUG, 3
	.set EXC_ABORT, 1
	.set EXC_TRAP, 2
	.set EXC_MATH, 4
	.set EXC_ILLEGAL, 8
	.set EXC_MEMORY, 16
	.set EXC_APERTURE, 32
	.set DOORBELL_ID_MASK, 0x3ff
	.set EXC_SHIFT, 10
	.set TRAPSTS_MATH, 0x7f
	.set TRAPSTS_MEM_VIOL_BIT, 8
	.set TRAPSTS_ILLEGAL_BIT, 11
	.set TRAPSTS_XNACK_ERROR_BIT, 28
	.set MODE_EXCP_EN_SHIFT, 12

	.text
	.globl trap_handler
	.p2align 8
	.type trap_handler,@function
trap_handler:
	// A host trap asks nothing of us.
	s_bitcmp1_b32 ttmp1, 24
	s_cbranch_scc1 .Lreturn

	// ttmp2 collects the exception mask.
	s_mov_b32 ttmp2, 0
	s_bfe_u32 ttmp3, ttmp1, 0x80010		// trap id: 8 bits from 16
	s_cbranch_scc0 .Lexceptions

	// debugtrap without a debugger: go on behind it. An exception beside it brings us back here.
	s_cmp_eq_u32 ttmp3, TRAP_ID_DEBUG
	s_cbranch_scc1 .Lskip
	s_cmp_eq_u32 ttmp3, TRAP_ID_ABORT
	s_cselect_b32 ttmp2, EXC_ABORT, EXC_TRAP

.Lexceptions:
	s_getreg_b32 ttmp3, hwreg(HW_REG_TRAPSTS)
	// A page without a mapping or a right sets both bits; an address in no aperture, or one that
	// is not aligned as its instruction wants it, only MEM_VIOL.
	s_bitcmp1_b32 ttmp3, TRAPSTS_MEM_VIOL_BIT
	s_cbranch_scc0 .Lno_memory
	s_bitcmp1_b32 ttmp3, TRAPSTS_XNACK_ERROR_BIT
	s_cselect_b32 ttmp4, EXC_MEMORY, EXC_APERTURE
	s_or_b32 ttmp2, ttmp2, ttmp4
.Lno_memory:
	s_bitcmp1_b32 ttmp3, TRAPSTS_ILLEGAL_BIT
	s_cbranch_scc0 .Lno_illegal
	s_or_b32 ttmp2, ttmp2, EXC_ILLEGAL
.Lno_illegal:
	// Math exceptions count only where MODE enables them.
	s_getreg_b32 ttmp4, hwreg(HW_REG_MODE)
	s_lshr_b32 ttmp4, ttmp4, MODE_EXCP_EN_SHIFT
	s_and_b32 ttmp4, ttmp4, ttmp3
	s_and_b32 ttmp4, ttmp4, TRAPSTS_MATH
	s_cbranch_scc0 .Lno_math
	s_or_b32 ttmp2, ttmp2, EXC_MATH
.Lno_math:
	// Neither: wave start or end, single step, address watch. Nobody asked for those.
	s_cmp_eq_u32 ttmp2, 0
	s_cbranch_scc1 .Lreturn

	s_lshl_b32 ttmp3, ttmp2, 25
	s_and_b32 ttmp11, ttmp11, 0x00ffffff
	s_or_b32 ttmp11, ttmp11, ttmp3
	s_bitset1_b32 ttmp11, 31

	s_sendmsg_rtn_b32 ttmp3, sendmsg(MSG_RTN_GET_DOORBELL)
	s_waitcnt lgkmcnt(0)
	s_and_b32 ttmp3, ttmp3, DOORBELL_ID_MASK
	s_lshl_b32 ttmp2, ttmp2, EXC_SHIFT
	s_or_b32 ttmp3, ttmp3, ttmp2
	s_mov_b32 ttmp2, m0
	s_mov_b32 m0, ttmp3
	s_nop 0
	s_sendmsg sendmsg(MSG_INTERRUPT)
	s_waitcnt lgkmcnt(0)			// the message has read m0
	s_mov_b32 m0, ttmp2

	// Halted when we return; the wave can still be context-saved, and is found there.
	s_or_b32 ttmp12, ttmp12, STATUS_HALT
	s_branch .Lreturn

.Lskip:
	s_add_u32 ttmp0, ttmp0, 4
	s_addc_u32 ttmp1, ttmp1, 0

.Lreturn:
	s_and_b32 ttmp1, ttmp1, 0xffff
	// EXECZ and VCCZ cannot be written; they follow from these.
	s_and_b64 exec, exec, exec
	s_and_b64 vcc, vcc, vcc
	s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
	s_rfe_b64 ttmp[0:1]
	// The instruction prefetcher reads on: give it something decodable.
	.fill 16, 4, 0xbf9f0000			// s_code_end
.Lend:
	.size trap_handler, .Lend-trap_handler
