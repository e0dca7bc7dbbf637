// Programs for tests/vgpu_jit.c: each is run interpreted and compiled and must come out the same.
// t_*: as they are, f_*: ends in a fault or refusal, m_*: under several float modes; jit_kernels64.s
// holds those for wave64 (q_*). x_*: cannot be compiled, and must be refused.
// On entry s[0:1] is a 64 KiB buffer (upper half random), s[2:3] an unmapped address, v0 the lane,
// v1.. and s8.. random, LDS 4 KiB random, 256 bytes of scratch per lane.
	.text

	.macro entry name
	.p2align 8
	.globl \name
\name:
	.endm

	// v20 = byte offset of the lane's dword in the buffer
	.macro prologue
	v_lshlrev_b32_e32 v20, 2, v0
	.endm

entry t_int
	v_add_nc_u32_e32 v2, v1, v0
	v_mul_lo_u32 v3, v2, v1
	v_xad_u32 v4, v3, 0x12345, v2
	v_bfe_i32 v5, v3, 5, 11
	v_perm_b32 v6, v2, v3, v4
	v_alignbit_b32 v7, v2, v3, 13
	v_min3_i32 v8, v2, v3, v4
	v_bcnt_u32_b32 v9, v3, v2
	v_mbcnt_lo_u32_b32 v10, -1, v0
	v_mul_hi_u32 v11, v3, v4
	v_lshlrev_b64 v[12:13], 7, v[2:3]
	v_mad_u64_u32 v[14:15], vcc_lo, v2, v3, v[12:13]
	v_ffbh_u32_e32 v16, v3
	s_mul_i32 s10, s8, s9
	s_mul_hi_u32 s11, s8, s9
	s_add_u32 s12, s10, s11
	s_addc_u32 s13, s10, s12
	s_bfe_u32 s14, s10, 0x50003
	s_flbit_i32_b32 s15, s14
	s_lshl_b64 s[16:17], s[10:11], 9
	s_cselect_b32 s18, s10, s11
	v_add_nc_u32_e32 v17, s10, v16
	s_bitset1_b32 s18, 7
	s_pack_hl_b32_b16 s19, s10, s11
	s_endpgm

entry m_float
	v_cvt_f32_i32_e32 v2, v1
	v_mul_f32_e32 v3, v2, v1
	v_fma_f32 v4, v2, v3, v1
	v_add_f32_e64 v5, |v4|, -v3 clamp
	v_mul_f32_e64 v6, v2, v1 mul:4
	v_rcp_f32_e32 v7, v2
	v_sqrt_f32_e64 v8, |v2|
	v_exp_f32_e32 v9, v1
	v_max_f32_e32 v10, v1, v2
	v_med3_f32 v11, v1, v2, v3
	v_cvt_f16_f32_e32 v12, v2
	v_cvt_i32_f32_e32 v13, v3
	v_fmac_f32_e32 v14, v1, v2
	v_ldexp_f32 v15, v1, v0
	v_fract_f32_e32 v16, v2
	v_frexp_mant_f32_e32 v17, v1
	v_add_f64 v[18:19], v[2:3], v[4:5]
	v_fma_f64 v[20:21], v[2:3], v[4:5], v[18:19]
	v_cvt_f32_f64_e32 v22, v[20:21]
	v_pk_add_f16 v23, v1, v2
	v_pk_fma_f16 v24, v1, v2, v23 op_sel:[1,0,0] neg_lo:[0,1,0]
	v_fma_mix_f32 v25, v1, v2, v3 op_sel_hi:[1,0,1]
	v_add_f16_e32 v26, v1, v2
	v_mul_f16_e64 v31, v1, v2 clamp
	v_fma_f16 v32, v1, v2, v3 op_sel:[0,1,0,1]
	v_dot2_f32_f16 v27, v1, v2, v3
	v_div_scale_f32 v28, vcc_lo, v1, v2, v1
	v_div_fmas_f32 v29, v28, v2, v3
	v_div_fixup_f32 v30, v29, v2, v1
	v_cvt_pk_u8_f32 v33, v1, 2, v2
	v_pk_fmac_f16 v34, 0.5, v2
	v_pk_fmac_f16 v35, 2, v2
	s_add_f32 s10, s8, s9
	s_fmac_f32 s11, s8, s9
	s_cmp_lt_f32 s8, s9
	s_cselect_b32 s12, s8, s9
	s_endpgm

// MODE changes under way, and comes back.
entry t_mode
	v_mul_f32_e32 v2, v1, v3
	s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3
	v_mul_f32_e32 v4, v1, v3
	v_add_f32_e32 v5, v1, v3
	s_round_mode 0
	s_denorm_mode 0
	v_mul_f32_e32 v6, v1, v3
	s_getreg_b32 s10, hwreg(HW_REG_MODE)
	s_denorm_mode 15
	v_mul_f32_e32 v7, v1, v3
	s_movk_i32 s11, 0x2
	s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s11
	v_add_f32_e32 v8, v7, v3
	s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0
	v_add_f32_e32 v9, v7, v3
	s_endpgm

entry t_loop
	s_mov_b32 s10, 0
	v_mov_b32_e32 v2, 0
1:	v_add_nc_u32_e32 v2, v2, v1
	v_xor_b32_e32 v1, s10, v1
	s_mov_b32 s11, 0
2:	v_lshl_add_u32 v2, v2, 1, s11
	s_add_i32 s11, s11, 1
	s_cmp_lt_u32 s11, 5
	s_cbranch_scc1 2b
	s_add_i32 s10, s10, 1
	s_bitcmp1_b32 s10, 0
	s_cbranch_scc0 3f
	v_not_b32_e32 v2, v2
3:	s_cmp_lg_u32 s10, 23
	s_cbranch_scc1 1b
	s_endpgm

// Per-lane trip counts, nested ifs, a jump around nothing.
entry t_diverge
	v_and_b32_e32 v2, 15, v1
	v_mov_b32_e32 v3, 0
	s_mov_b32 s10, exec_lo
1:	v_cmp_lt_u32_e32 vcc_lo, v3, v2
	s_and_b32 exec_lo, exec_lo, vcc_lo
	s_cbranch_execz 4f
	v_add_nc_u32_e32 v3, 1, v3
	v_cmp_eq_u32_e64 s11, v3, v0
	s_and_saveexec_b32 s12, s11
	s_cbranch_execz 2f
	v_add_nc_u32_e32 v4, v4, v3
	v_readfirstlane_b32 s13, v4
2:	s_xor_b32 exec_lo, exec_lo, s12
	s_cbranch_execz 3f
	v_xor_b32_e32 v4, v4, v2
3:	s_or_b32 exec_lo, exec_lo, s12
	s_branch 1b
4:	s_mov_b32 exec_lo, s10
	v_cmp_gt_i32_e32 vcc_lo, 0, v4
	s_cbranch_vccz 5f
	v_cndmask_b32_e32 v5, v1, v4, vcc_lo
5:	s_cbranch_vccnz 6f
	v_mov_b32_e32 v5, 1
6:	v_cmpx_lt_u32_e32 7, v0
	v_mov_b32_e32 v6, v5
	v_cmpx_gt_f32_e64 v1, v0
	v_mov_b32_e32 v7, v5
	s_or_not1_saveexec_b32 s14, exec_lo
	v_mov_b32_e32 v8, v5
	s_mov_b32 exec_lo, s10
	s_endpgm

entry t_vopd
	v_dual_mov_b32 v2, v1 :: v_dual_add_nc_u32 v3, 5, v0
	v_dual_add_f32 v4, v1, v3 :: v_dual_mul_f32 v5, v2, v4
	v_dual_mov_b32 v6, v5 :: v_dual_mov_b32 v5, v4
	v_dual_mov_b32 v3, v4 :: v_dual_mov_b32 v4, v3
	v_dual_fmac_f32 v7, v1, v2 :: v_dual_cndmask_b32 v8, v3, v5
	v_dual_fmamk_f32 v9, v2, 0x41200000, v3 :: v_dual_lshlrev_b32 v10, 3, v9
	v_dual_add_f32 v11, 1.0, v10 :: v_dual_max_f32 v10, v11, v7
	s_endpgm

entry t_dpp
	v_mov_b32_dpp v2, v1 row_shl:3 row_mask:0xf bank_mask:0xf
	v_mov_b32_dpp v3, v1 row_ror:5 row_mask:0x5 bank_mask:0xf bound_ctrl:1
	v_add_nc_u32_dpp v4, v1, v2 quad_perm:[3,1,0,2] row_mask:0xf bank_mask:0x6
	v_mov_b32_dpp v5, v1 row_mirror row_mask:0xf bank_mask:0xf
	v_mov_b32_dpp v6, v1 row_half_mirror row_mask:0xf bank_mask:0xf
	v_mov_b32_dpp v7, v1 row_share:11 row_mask:0xf bank_mask:0xf
	v_mov_b32_dpp v8, v1 row_xmask:6 row_mask:0xf bank_mask:0xf fi:1
	v_mov_b32_dpp v9, v1 dpp8:[7,0,6,1,5,2,4,3]
	v_add_f32_dpp v10, v1, v2 dpp8:[1,1,2,2,3,3,4,4] fi:1
	v_fma_f32_e64_dpp v11, v1, v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_add_co_ci_u32_dpp v12, vcc_lo, v1, v2, vcc_lo row_shl:1 row_mask:0xf bank_mask:0xf
	v_cmp_lt_u32_e64_dpp s10, v1, v2 row_ror:1 row_mask:0xf bank_mask:0xf
	v_subrev_nc_u32_dpp v13, v1, v2 row_ror:2 row_mask:0xf bank_mask:0xf
	v_subrev_co_ci_u32_dpp v14, vcc_lo, v1, v2, vcc_lo dpp8:[3,2,1,0,7,6,5,4]
	v_subrev_f32_dpp v15, v1, v2 row_shr:2 row_mask:0xf bank_mask:0xb
	s_endpgm

entry t_lane
	v_readlane_b32 s10, v1, 5
	s_and_b32 s11, s10, 31
	v_readlane_b32 s12, v1, s11
	v_writelane_b32 v2, s12, 9
	v_writelane_b32 v2, s10, s11
	v_readfirstlane_b32 s13, v2
	v_permlane16_b32 v3, v1, s10, s12
	v_permlanex16_b32 v4, v1, s12, s10 op_sel:[1,0]
	v_mbcnt_hi_u32_b32 v5, s10, v1
	v_swap_b32 v3, v4
	s_endpgm

entry t_carry
	v_add_co_u32 v2, vcc_lo, v1, v3
	v_add_co_ci_u32_e32 v4, vcc_lo, v1, v3, vcc_lo
	v_sub_co_u32 v5, s10, v1, v3
	v_sub_co_ci_u32_e64 v6, s10, v1, v3, s10
	v_subrev_co_ci_u32_e32 v7, vcc_lo, v1, v3, vcc_lo
	v_mad_i64_i32 v[8:9], s11, v1, v3, v[2:3]
	v_cmp_class_f32_e64 s12, v1, 0x1f8
	v_cndmask_b32_e64 v10, v1, v3, s12
	v_cmp_eq_u64_e32 vcc_lo, v[2:3], v[2:3]
	v_div_scale_f64 v[12:13], vcc_lo, v[2:3], v[4:5], v[2:3]
	v_div_fmas_f64 v[14:15], v[12:13], v[2:3], v[4:5]
	s_endpgm

entry t_wmma_f32
	v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]
	s_endpgm

entry t_wmma_bf16
	v_wmma_f32_16x16x16_bf16 v[16:23], v[0:7], v[8:15], 1.0
	s_endpgm

entry t_wmma_i32
	v_wmma_i32_16x16x16_iu8 v[24:31], v[0:3], v[4:7], v[24:31] neg_lo:[1,0,0]
	v_wmma_i32_16x16x16_iu4 v[32:39], v[0:1], v[4:5], v[24:31] clamp
	s_endpgm

entry t_wmma_16
	v_wmma_f16_16x16x16_f16 v[32:39], v[0:7], v[8:15], v[32:39]
	v_wmma_bf16_16x16x16_bf16 v[32:39], v[0:7], v[8:15], v[32:39] op_sel:[0,0,1]
	s_endpgm

entry t_lds
	prologue
	ds_store_b32 v20, v1
	s_waitcnt lgkmcnt(0)
	s_barrier
	ds_load_b32 v2, v20 offset:4
	ds_store_b64 v20, v[1:2] offset:512
	ds_load_b128 v[4:7], v20 offset:516
	ds_store_2addr_b32 v20, v1, v2 offset0:200 offset1:201
	ds_load_2addr_b64 v[8:11], v20 offset0:3 offset1:77
	ds_load_2addr_stride64_b32 v[12:13], v20 offset0:1 offset1:3
	ds_add_u32 v20, v1 offset:1024
	ds_add_rtn_u32 v14, v20, v1 offset:1024
	ds_cmpstore_rtn_b32 v15, v20, v2, v1 offset:1028
	ds_max_rtn_f32 v16, v20, v1 offset:1400
	ds_load_u8 v17, v20 offset:3
	ds_load_i16 v18, v20 offset:6
	ds_load_u16_d16_hi v18, v20 offset:8
	ds_store_b8_d16_hi v20, v1 offset:77
	ds_bpermute_b32 v21, v20, v1
	ds_permute_b32 v22, v20, v1
	ds_swizzle_b32 v23, v1 offset:swizzle(BITMASK_PERM, "01pip")
	v_mov_b32_e32 v24, 0x7fff0000
	ds_store_b32 v24, v1
	ds_load_b32 v25, v24
	s_mov_b32 m0, 0x100
	ds_append v26 offset:16
	s_waitcnt lgkmcnt(0)
	s_barrier
	ds_load_b96 v[27:29], v20 offset:2048
	s_endpgm

entry t_mem
	prologue
	global_load_b32 v2, v20, s[0:1]
	global_load_b64 v[4:5], v20, s[0:1] offset:32
	global_load_b96 v[6:8], v20, s[0:1] offset:1024
	global_load_b128 v[8:11], v20, s[0:1] offset:516
	global_load_u8 v12, v20, s[0:1] offset:3
	global_load_i8 v13, v20, s[0:1] offset:5
	global_load_i16 v14, v20, s[0:1] offset:7
	global_load_d16_hi_b16 v14, v20, s[0:1] offset:9
	global_load_d16_u8 v15, v20, s[0:1] offset:11
	s_waitcnt vmcnt(0)
	v_mul_u32_u24_e32 v21, 12, v0
	v_mov_b32_e32 v22, s0
	v_mov_b32_e32 v23, s1
	v_add_co_u32 v22, vcc_lo, v22, v21
	v_add_co_ci_u32_e32 v23, vcc_lo, 0, v23, vcc_lo
	global_load_b32 v16, v[22:23], off offset:40
	flat_load_b64 v[18:19], v[22:23] offset:48
	global_store_b32 v21, v2, s[0:1] offset:2048
	global_store_b8 v20, v2, s[0:1] offset:2049
	global_store_b128 v21, v[4:7], s[0:1] offset:-64
	s_movk_i32 s16, 0x3000
	v_mov_b32_e32 v24, 0x3000
	global_store_b32 v24, v2, s[0:1]
	v_lshl_add_u32 v24, v0, 4, v24
	global_store_b128 v24, v[8:11], s[0:1]
	global_store_d16_hi_b16 v24, v9, s[0:1] offset:1024
	global_atomic_add_u32 v25, v20, v1, s[0:1] offset:2000 glc
	global_atomic_add_u32 v20, v1, s[0:1] offset:2000
	global_atomic_cmpswap_b32 v26, v20, v[1:2], s[0:1] offset:2000 glc
	global_atomic_max_u64 v[28:29], v24, v[4:5], s[0:1] offset:2048 glc
	global_atomic_add_f32 v30, v20, v1, s[0:1] offset:1000 glc
	v_mov_b32_e32 v31, 0
	global_atomic_inc_u32 v32, v31, v1, s[0:1] glc
	s_load_b128 s[20:23], s[0:1], 0x40
	s_load_b512 s[36:51], s[0:1], 0x100
	s_movk_i32 s24, 0x10
	s_load_b64 s[26:27], s[0:1], s24 offset:0x20
	s_endpgm

entry t_scratch
	prologue
	scratch_store_b32 off, v1, off offset:16
	scratch_load_b32 v2, off, off offset:16
	v_and_b32_e32 v21, 60, v20
	scratch_store_b64 v21, v[1:2], off offset:64
	s_movk_i32 s10, 8
	scratch_load_b128 v[4:7], off, s10 offset:56
	scratch_load_u16 v8, v21, s10 offset:3
	scratch_store_b8 v21, v8, off offset:130
	s_mov_b64 s[10:11], src_private_base
	v_mov_b32_e32 v22, 16
	v_mov_b32_e32 v23, s11
	flat_load_b32 v9, v[22:23]
	flat_store_b32 v[22:23], v1 offset:4
	s_mov_b64 s[12:13], src_shared_base
	v_mov_b32_e32 v24, v20
	v_mov_b32_e32 v25, s13
	flat_store_b32 v[24:25], v1
	flat_load_b32 v10, v[24:25] offset:4
	flat_atomic_add_u32 v11, v[24:25], v1 glc
	s_endpgm

entry t_buffer
	prologue
	s_mov_b32 s8, s0
	s_or_b32 s9, s1, 0x00100000
	s_movk_i32 s10, 24
	s_mov_b32 s11, 0x31014fac
	buffer_load_b32 v2, v0, s[8:11], 0 idxen
	buffer_load_b64 v[4:5], v0, s[8:11], 0 idxen offset:8
	buffer_store_b32 v1, v0, s[8:11], 0 idxen offset:4
	s_movk_i32 s12, 4
	buffer_load_b32 v6, v20, s[8:11], s12 offen
	buffer_load_u8 v7, off, s[8:11], s12 offset:7
	buffer_atomic_add_u32 v1, v0, s[8:11], 0 idxen glc
	s_movk_i32 s10, 256
	s_mov_b32 s9, s1
	buffer_load_b128 v[8:11], v20, s[8:11], 0 offen
	buffer_store_b32 v1, v20, s[8:11], 0 offen offset:200
	tbuffer_load_format_x v12, v20, s[8:11], 0 format:[BUF_FMT_32_FLOAT] offen
	s_buffer_load_b64 s[20:21], s[8:11], 0x8
	s_endpgm

entry t_call
	s_getpc_b64 s[10:11]
1:	s_add_u32 s10, s10, 2f-1b
	s_addc_u32 s11, s11, 0
	s_swappc_b64 s[12:13], s[10:11]
	v_add_nc_u32_e32 v2, v2, v1
	s_call_b64 s[14:15], 3f
	v_xor_b32_e32 v2, v2, v1
	s_swappc_b64 s[12:13], s[10:11]
	s_endpgm
2:	v_mul_lo_u32 v2, v1, v1
	s_call_b64 s[14:15], 3f
	v_add_nc_u32_e32 v2, 7, v2
	s_setpc_b64 s[12:13]
3:	v_not_b32_e32 v2, v2
	s_add_i32 s16, s16, 1
	s_setpc_b64 s[14:15]

	.p2align 8
8:	v_add_nc_u32_e32 v2, 3, v2
	s_add_i32 s10, s10, 1
	s_cmp_lt_u32 s10, 6
	s_cbranch_scc1 7f
	s_endpgm
9:	v_add_nc_u32_e32 v2, 11, v2
	s_setpc_b64 s[12:13]
// Conditional and unconditional ways to code in front of the entry.
entry t_back
	s_mov_b32 s10, 0
	v_mov_b32_e32 v2, v1
7:	v_lshlrev_b32_e32 v2, 1, v2
	s_call_b64 s[12:13], 9b
	v_sub_nc_u32_e32 v2, v2, v0
	s_bitcmp1_b32 s10, 1
	s_cbranch_scc1 8b
	v_xor_b32_e32 v2, 0x55, v2
	s_branch 8b

// A branch into the middle of an instruction: the literal is s_add_i32 s12, s12, 1 (0x810c810c).
entry t_overlap
	s_mov_b32 s12, 0
	s_mov_b32 s10, 0
1:	s_mov_b32 s11, 0x810c810c
	s_add_i32 s12, s12, 2
	s_add_i32 s10, s10, 1
	s_cmp_eq_u32 s10, 1
	s_cbranch_scc1 -5
	s_cmp_lt_u32 s10, 4
	s_cbranch_scc1 1b
	s_endpgm

// Every way a wave stops and goes on.
entry t_stops
	v_add_nc_u32_e32 v2, 1, v1
	s_barrier
	v_add_nc_u32_e32 v2, v2, v1
	s_sleep 3
	v_xor_b32_e32 v2, 5, v2
	s_mov_b32 m0, 77
	s_sendmsg 1
	v_lshlrev_b32_e32 v2, 1, v2
	s_sethalt 1
	s_add_i32 s10, s10, 5
	s_trap 2
	s_add_i32 s10, s10, 6
	s_sendmsg_rtn_b64 s[12:13], sendmsg(MSG_RTN_GET_REALTIME)
	s_getreg_b32 s14, hwreg(HW_REG_SHADER_CYCLES, 0, 20)
	s_getreg_b32 s15, hwreg(HW_REG_STATUS)
	s_trap 3
	s_sendmsghalt 1
	v_not_b32_e32 v2, v2
	s_setkill 1
	s_nop 0

// The same as the first of their blocks.
entry t_stops_halt
	s_sendmsghalt 1
	s_sendmsghalt 2
	s_endpgm

entry t_stops_trap
	s_trap 2
	s_sleep 3
	s_trap 3
	s_endpgm

// Long straight code, so that budgets run out inside blocks.
entry t_long
	.rept 40
	v_mad_u32_u24 v2, v1, v2, v0
	s_add_i32 s10, s10, s8
	v_xor_b32_e32 v1, s10, v2
	.endr
	s_cbranch_scc0 1f
	s_mov_b32 exec_lo, -1
1:	v_mov_b32_e32 v3, v2
	s_endpgm

entry t_exec
	s_mov_b32 exec_lo, 0
	v_mov_b32_e32 v2, 3
	v_cmp_eq_u32_e32 vcc_lo, v0, v0
	v_readfirstlane_b32 s10, v1
	global_load_b32 v3, v[2:3], off
	s_not_b32 exec_lo, exec_lo
	v_mov_b32_e32 v4, 3
	s_mov_b32 exec_lo, 0xf0
	v_add_nc_u32_e32 v4, v4, v1
	s_mov_b32 exec_hi, 1
	v_add_nc_u32_e32 v4, v4, v1
	v_cmp_gt_u32_e64 exec_lo, 6, v0
	v_add_nc_u32_e32 v5, v4, v1
	v_cmpx_eq_u32_e32 99, v0
	v_mov_b32_e32 v6, 3
	s_mov_b32 exec_lo, -1
	s_mov_b32 exec_hi, 0
	v_add_co_u32 v7, exec_lo, v1, v1
	v_mov_b32_e32 v8, 3
	s_endpgm

// The upper half alone, which a wave of 32 lanes has too.
entry t_exec_hi
	v_cmp_le_u32_e64 exec_hi, 5, v0
	v_add_nc_u32_e32 v2, v1, v1
	s_mov_b32 s10, exec_hi
	s_mov_b32 exec_hi, 0
	v_add_co_u32 v3, exec_hi, v1, v1
	v_add_nc_u32_e32 v4, v1, v1
	s_mov_b32 s11, exec_hi
	s_endpgm

entry f_load
	prologue
	v_mov_b32_e32 v2, v1
	global_load_b32 v3, v20, s[0:1]
	v_add_nc_u32_e32 v2, 1, v2
	global_load_b32 v4, v20, s[2:3]
	v_add_nc_u32_e32 v2, 1, v2
	s_endpgm

entry f_store_edge
	v_lshl_add_u32 v20, v0, 2, 0xffc0
	s_mov_b32 s10, 0
1:	s_add_i32 s10, s10, 1
	global_store_b32 v20, v1, s[0:1]
	s_cmp_lt_u32 s10, 9
	s_cbranch_scc1 1b
	s_endpgm

entry f_smem
	s_add_i32 s10, s8, s9
	s_load_b64 s[12:13], s[2:3], 0x0
	s_add_i32 s10, s10, s9
	s_endpgm

entry f_atomic
	v_lshl_or_b32 v20, v0, 2, 1
	global_atomic_add_u32 v2, v20, v1, s[0:1] glc
	v_mov_b32_e32 v3, 1
	s_endpgm

entry f_illegal
	v_mov_b32_e32 v2, 1
	s_nop 0
	.long 0xbf7f0000
	v_mov_b32_e32 v3, 1
	s_endpgm

entry x_image
	v_mov_b32_e32 v2, 1
	image_load v[4:7], v[0:1], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_2D unorm
	s_endpgm

entry f_fetch
	v_mov_b32_e32 v2, 1
	s_setpc_b64 s[2:3]

entry f_code_end
	s_add_i32 s10, s10, 1
	s_code_end
	s_code_end

// Register numbers that are data: stays interpreted.
entry x_movrel
	s_mov_b32 m0, 3
	v_movrels_b32_e32 v2, v4
	v_add_nc_u32_e32 v2, v2, v1
	s_endpgm

// Writes the instruction behind s_icache_inv: v_mov_b32 v3, 1 becomes v_mov_b32 v3, 2.
entry x_selfmod
	v_mov_b32_e32 v5, 0
	s_getpc_b64 s[10:11]
	v_mov_b32_e32 v4, 0x7e060282
	global_store_b32 v5, v4, s[10:11] offset:20
	s_icache_inv
	v_mov_b32_e32 v3, 1
	v_mov_b32_e32 v4, 0x7e060281
	global_store_b32 v5, v4, s[10:11] offset:20
	s_icache_inv
	s_endpgm

entry x_swaprel
	s_mov_b32 m0, 0x20001
	v_swaprel_b32 v3, v4
	s_endpgm

	.p2align 8
