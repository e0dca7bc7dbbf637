/* The loop: program flow, what stops a wave and where, wave64, code that changes. */
#include "isa_machine.h"

TestSuite(vgpu_isa_run, .fini = m_fini);

static void stopped(enum isa_stop why, unsigned at)
{
	cr_assert(M.w->state == WAVE_HALTED && M.w->stop == why && M.w->pc == M_CODE + at,
		  "state %u, stop %u at +0x%llx", M.w->state, M.w->stop,
		  (unsigned long long)(M.w->pc - M_CODE));
}

Test(vgpu_isa_run, branches)
{
	m_init(false);
	e_sopk(ISA_S_MOVK_I32, 0, 0);
	e_sopk(ISA_S_ADDK_I32, 0, 3); /* +4 */
	e_sopk(ISA_S_CMPK_LT_U32, 0, 30);
	e_sopp(ISA_S_CBRANCH_SCC1, (unsigned)-3);
	e_sop1(ISA_S_GETPC_B64, 2, 0);
	e_sopk(ISA_S_CALL_B64, 4, 1);
	e_sopk(ISA_S_MOVK_I32, 0, 99); /* after the return */
	e_sopp(ISA_S_BRANCH, 1);
	e_sop1(ISA_S_SETPC_B64, 0, 4); /* the callee */
	m_run();
	/* the callee sits one past the call: it is run, returns, then skipped */
	cr_assert(M.w->s[2] == (uint32_t)M_CODE + 20);
	cr_assert(M.w->s[4] == (uint32_t)M_CODE + 24 && M.w->s[5] == (uint32_t)(M_CODE >> 32));
}

Test(vgpu_isa_run, swappc)
{
	m_init(false);
	m_set64(0, M_CODE + 12);
	e_sop1(ISA_S_SWAPPC_B64, 2, 0);
	e_sopk(ISA_S_MOVK_I32, 6, 7);
	e_sopp(ISA_S_ENDPGM, 0);
	e_sopk(ISA_S_MOVK_I32, 7, 8); /* +12 */
	e_sop1(ISA_S_SETPC_B64, 0, 2);
	m_run_ok();
	cr_assert(M.w->s[6] == 7 && M.w->s[7] == 8 && M.w->s[2] == (uint32_t)M_CODE + 4);
}

Test(vgpu_isa_run, exec_zero)
{
	m_init(false);
	M.w->exec = 0;
	e_vop1(ISA_V_MOV_B32, 1, 129);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 2, 4, 0, M_NULL, 0, false); /* address 0: would fault */
	e_sopp(ISA_S_CBRANCH_EXECNZ, 1);
	e_sopk(ISA_S_MOVK_I32, 0, 5);
	e_sopp(ISA_S_CBRANCH_EXECZ, 1);
	e_sopk(ISA_S_MOVK_I32, 0, 6);
	M.w->s[OPR_VCC_LO] = ~0u;
	m_put(0x7c840080); /* v_cmp_eq_i32 vcc, 0, v0: writes no bits */
	m_run_ok();
	cr_assert(m_v(1)[0] == 0 && M.w->s[0] == 5);
	cr_assert(M.w->s[OPR_VCC_LO] == 0, "a compare clears the bits of inactive lanes");
}

Test(vgpu_isa_run, states)
{
	m_init(false);
	e_sopp(ISA_S_BARRIER, 0);
	e_sopp(ISA_S_SLEEP, 10);
	e_sopp(ISA_S_SENDMSG, 3);
	e_sopp(ISA_S_SETHALT, 1);
	e_sopp(ISA_S_TRAP, 2);
	M.w->s[OPR_M0] = 7;
	m_run();
	cr_assert(M.w->state == WAVE_BARRIER && M.w->pc == M_CODE + 4);
	M.w->state = WAVE_RUN;
	isa_run(&M.x, M.w, 100);
	cr_assert(M.w->state == WAVE_SLEEP && M.w->pc == M_CODE + 8 &&
		  M.w->sleep_until > 10000 + 100);
	M.w->state = WAVE_RUN;
	isa_run(&M.x, M.w, 100);
	cr_assert(M.msg == (3 | 7u << 16));
	stopped(STOP_NONE, 16);
	M.w->state = WAVE_RUN;
	isa_run(&M.x, M.w, 100);
	stopped(STOP_TRAP, 16);
	cr_assert(M.w->trap_id == 2);
	/* the handler's own instructions */
	M.w->priv = 1;
	M.w->status = 0;
	M.w->s[OPR_TTMP0] = (uint32_t)M_CODE + 24;
	M.w->s[OPR_TTMP0 + 1] = 0x00020000 | (uint32_t)(M_CODE >> 32);
	e_sop1(ISA_S_MOV_B32, OPR_TTMP0 + 4, 133);
	e_sop1(ISA_S_RFE_B64, 0, OPR_TTMP0);
	m_put(0);
	m_put(0);
	m_put(0);
	m_put(0);
	e_sopk(ISA_S_MOVK_I32, 9, 9); /* +24 */
	m_run_ok();
	cr_assert(M.w->s[OPR_TTMP0 + 4] == 5 && M.w->s[9] == 9 && !M.w->priv);
	e_sop1(ISA_S_MOV_B32, OPR_TTMP0 + 4, 134);
	m_run_ok();
	cr_assert(M.w->s[OPR_TTMP0 + 4] == 5, "TTMPs are the handler's");
	/* a handler that halts the wave: from the return on */
	M.w->priv = 1;
	e_sopp(ISA_S_SETHALT, 1);
	e_sopp(ISA_S_NOP, 0);
	e_sop1(ISA_S_RFE_B64, 0, OPR_TTMP0);
	m_run();
	stopped(STOP_NONE, 24);
}

Test(vgpu_isa_run, refusals)
{
	m_init(false);
	e_sopp(ISA_S_NOP, 0);
	m_put(0xf0800f08); /* image_sample */
	m_put(0);
	m_run();
	stopped(STOP_UNSUPPORTED, 4);
	cr_assert(M.w->insns == 1);
	m_put(0);
	m_run();
	stopped(STOP_ILLEGAL, 0);
	m_put(0xbf9f0000); /* s_code_end */
	m_run();
	stopped(STOP_ILLEGAL, 0);
	m_put(0xffffffff);
	m_run();
	stopped(STOP_ILLEGAL, 0);
	e_sop1(ISA_S_RFE_B64, 0, 2); /* not in a handler */
	m_run();
	stopped(STOP_ILLEGAL, 0);
	M.w->state = WAVE_RUN;
	M.w->pc = M_MEM; /* mapped, not executable */
	isa_run(&M.x, M.w, 10);
	cr_assert(M.w->stop == STOP_FETCH_FAULT && M.w->pc == M_MEM);
	cr_assert(M.imem.fault.no_exec && M.imem.fault.va.a == M_MEM &&
		  M.imem.fault.client == VM_CLIENT_SQC_INST);
	M.w->state = WAVE_RUN;
	M.w->pc = M_CODE + 2;
	isa_run(&M.x, M.w, 10);
	cr_assert(M.w->stop == STOP_ILLEGAL, "misaligned PC");
}

Test(vgpu_isa_run, budget)
{
	uint64_t n;

	m_init(false);
	e_sopk(ISA_S_ADDK_I32, 0, 1);
	e_sopp(ISA_S_BRANCH, (unsigned)-2);
	M.w->pc = M_CODE;
	n = isa_run(&M.x, M.w, 1001);
	cr_assert(n == 1001 && M.w->insns == 1001 && M.w->s[0] == 501 && M.w->state == WAVE_RUN);
	M.n = 0;
}

Test(vgpu_isa_run, code_changes)
{
	struct vm_bo *bo;
	uint8_t *other;

	m_init(false);
	e_sopk(ISA_S_MOVK_I32, 0, 1);
	m_run_ok();
	cr_assert(M.w->s[0] == 1);
	e_sopk(ISA_S_MOVK_I32, 0, 2);
	m_run_ok(); /* invalidates */
	cr_assert(M.w->s[0] == 2);
	/* other pages under the same address need no invalidate */
	cr_assert(!vm_unmap(M.vm, gva(M_CODE)));
	cr_assert(!vm_bo_alloc(VM_POOL_GTT, 8192, &bo));
	cr_assert(!vm_map(M.vm, gva(M_CODE), 8192, bo, 0, VM_X | VM_W, VM_MTYPE_NC));
	other = vm_bo_kmap(bo);
	M.code = (uint32_t *)(void *)other;
	e_sopk(ISA_S_MOVK_I32, 0, 3);
	e_sopp(ISA_S_ENDPGM, 0);
	M.n = 0;
	M.w->pc = M_CODE;
	M.w->state = WAVE_RUN;
	isa_run(&M.x, M.w, 10);
	cr_assert(M.w->s[0] == 3);
	/* a wave that rewrites its own code and invalidates sees it */
	M.w->s[4] = 0xb0000007; /* s_movk_i32 s0, 7 */
	m_set64(2, M_CODE + 28);
	M.w->exec = 1;
	e_vop1(ISA_V_MOV_B32, 0, 2);                                /* +0 */
	e_vop1(ISA_V_MOV_B32, 1, 3);                                /* +4 */
	e_vop1(ISA_V_MOV_B32, 2, 4);                                /* +8 */
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 0, 2, M_NULL, 0, false); /* +12 */
	e_sopp(ISA_S_ICACHE_INV, 0);                                /* +20 */
	e_sopp(ISA_S_NOP, 0);                                       /* +24 */
	e_sopk(ISA_S_MOVK_I32, 0, 6);                               /* +28 */
	m_run_ok();
	cr_assert(M.w->s[0] == 7);
}

Test(vgpu_isa_run, page_boundary)
{
	m_init(false);
	M.n = 1023;
	e_sop1(ISA_S_MOV_B32, 0, M_LIT); /* the literal is on the next page */
	m_put(0x12345678);
	e_sopp(ISA_S_ENDPGM, 0);
	M.w->pc = M_CODE + 4092;
	isa_run(&M.x, M.w, 10);
	cr_assert(M.w->state == WAVE_ENDED && M.w->s[0] == 0x12345678);
	M.code[1024] = 0x9abcdef0;
	isa_icache_invalidate();
	M.w->state = WAVE_RUN;
	M.w->pc = M_CODE + 4092;
	isa_run(&M.x, M.w, 10);
	cr_assert(M.w->s[0] == 0x9abcdef0);
	M.code[2047] = 0xbe8000ff; /* the next page is not there */
	M.w->state = WAVE_RUN;
	M.w->pc = M_CODE + 8188;
	isa_icache_invalidate();
	isa_run(&M.x, M.w, 10);
	cr_assert(M.w->stop == STOP_FETCH_FAULT);
	M.n = 0;
}

/* Both halves of a VOPD read before either writes. */
Test(vgpu_isa_run, dual_issue)
{
	m_init(false);
	m_v(2)[0] = 22;
	m_v(3)[0] = 33;
	m_put(0xca100103); /* v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2: a swap */
	m_put(0x02020102);
	m_run_ok();
	cr_assert(m_v(2)[0] == 33 && m_v(3)[0] == 22, "v2 %u v3 %u", m_v(2)[0], m_v(3)[0]);
	m_put(0xca100103); /* v2 = v3, v5 = v2 */
	m_put(0x02040102);
	m_run_ok();
	cr_assert(m_v(2)[0] == 22 && m_v(5)[0] == 33);
}

Test(vgpu_isa_run, wave64)
{
	uint32_t *hi;

	m_init(true);
	hi = (uint32_t *)&M.w->v[M_NVGPR + 1];
	M.w->exec = 0xffff0000ffff0000ull;
	for (unsigned l = 0; l < 32; l++) {
		m_v(0)[l] = l;
		((uint32_t *)&M.w->v[M_NVGPR])[l] = 32 + l;
	}
	e_vop2(ISA_V_ADD_NC_U32, 1, 129, 0);
	m_put(0x7c9800b0); /* v_cmp_gt_u32 vcc, 48, v0 */
	e_sopp(ISA_S_CBRANCH_VCCZ, 1);
	e_sopk(ISA_S_MOVK_I32, 0, 1);
	e_ds(ISA_DS_APPEND, 2, 0, 0, 0, 0);
	m_run_ok();
	cr_assert(m_v(1)[0] == 0 && m_v(1)[16] == 17 && hi[15] == 0 && hi[16] == 49);
	cr_assert(M.w->s[OPR_VCC_LO] == 0xffff0000 && M.w->s[OPR_VCC_HI] == 0);
	cr_assert(M.w->s[0] == 1);
	cr_assert(m_lds32(0) == 32, "one count for the whole wave");
}

Test(vgpu_isa_run, subvector_loop)
{
	m_init(true);
	/* the body runs for the low half, then for the high one */
	e_sopk(ISA_S_SUBVECTOR_LOOP_BEGIN, 4, 2);
	e_sopk(ISA_S_ADDK_I32, 0, 1);
	e_sopk(ISA_S_SUBVECTOR_LOOP_END, 4, (unsigned)-2);
	m_run_ok();
	cr_assert(M.w->s[0] == 2 && M.w->exec == ~0ull);
}

Test(vgpu_isa_run, names_and_text)
{
	uint32_t word = 0xbf850003;
	char text[80];

	cr_assert_str_eq(isa_op_name(ISA_V_ADD_F32), "v_add_f32");
	cr_assert_str_eq(isa_op_name(ISA_EXPORT), "exp");
	isa_disasm(&word, 1, M_CODE, text, sizeof(text));
	cr_assert(!strncmp(text, "s_", 2), "%s", text);
	m_init(false); /* for the suite's fini */
}

/* Both halves of a wave64 read the scalars from before: the mask that half 0 writes into a source of
 * half 1 does not count. */
Test(vgpu_isa_run, wave64_masks_over_their_sources)
{
	m_init(true);
	for (unsigned l = 0; l < 64; l++)
		((uint32_t *)&M.w->v[l / 32 * M_NVGPR + 1])[l % 32] = l;
	M.w->s[10] = 20;
	m_set64(12, 0x0000000f00000001); /* carries in: lane 0, and lanes 32 to 35 */
	m_set64(14, 0x500000000);
	m_put(0xd449000a); /* v_cmp_lt_u32 s[10:11], s10, v1: which lanes are above 20 */
	m_put(0x0002020a);
	m_put(0xd5200c02); /* v_add_co_ci_u32 v2, s[12:13], -1, v1, s[12:13] */
	m_put(0x003202c1);
	m_put(0xd7000e03); /* v_add_co_u32 v3, s[14:15], s15, v1 */
	m_put(0x0002020f);
	m_put(0xd449007e); /* v_cmp_lt_u32 exec, exec_lo, v1: no lane is above all ones */
	m_put(0x0002027e);
	m_run_ok();
	cr_assert(M.w->s[10] == 0xffe00000 && M.w->s[11] == 0xffffffff, "0x%08x 0x%08x", M.w->s[10],
		  M.w->s[11]);
	/* -1 + l + carry: out unless l is 0 without a carry */
	cr_assert(M.w->s[12] == 0xffffffff && M.w->s[13] == 0xffffffff);
	for (unsigned l = 0; l < 64; l++) {
		unsigned carry = l == 0 || (l >= 32 && l < 36);

		cr_assert(((uint32_t *)&M.w->v[l / 32 * M_NVGPR + 2])[l % 32] == l - 1 + carry,
			  "lane %u", l);
		cr_assert(((uint32_t *)&M.w->v[l / 32 * M_NVGPR + 3])[l % 32] == l + 5, "lane %u",
			  l);
	}
	cr_assert(M.w->s[14] == 0 && M.w->s[15] == 0);
	cr_assert(M.w->exec == 0, "0x%lx", M.w->exec);
}
