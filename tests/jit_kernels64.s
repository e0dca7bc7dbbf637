// Programs for tests/vgpu_jit.c in wave64: see jit_kernels.s.
	.text

	.macro entry name
	.p2align 8
	.globl \name
\name:
	.endm

	.macro prologue
	v_lshlrev_b32_e32 v20, 2, v0
	.endm

entry q_int
	v_add_nc_u32_e32 v2, v1, v0
	v_mul_lo_u32 v3, v2, v1
	v_mad_u64_u32 v[14:15], vcc, v2, v3, v[12:13]
	v_mbcnt_lo_u32_b32 v10, s8, 0
	v_mbcnt_hi_u32_b32 v10, s9, v10
	v_readlane_b32 s10, v1, 45
	v_readfirstlane_b32 s11, v1
	v_writelane_b32 v4, s10, 63
	v_permlane64_b32 v5, v1
	v_mov_b32_dpp v6, v1 row_ror:3 row_mask:0xf bank_mask:0xf
	v_permlanex16_b32 v7, v1, s8, s9
	v_fma_f32 v8, v1, v2, v3
	s_endpgm

entry q_wmma_f32
	v_wmma_f32_16x16x16_f16 v[16:19], v[0:7], v[8:15], v[16:19]
	s_endpgm

entry q_wmma_i32
	v_wmma_i32_16x16x16_iu8 v[16:19], v[0:3], v[8:11], v[16:19]
	s_endpgm

// A mask whose destination is also a source: both halves read what was there before.
entry q_overlap
	v_cmp_lt_u32_e64 s[10:11], s10, v1
	v_cmp_gt_i32_e64 s[12:13], s13, v1
	v_cmp_lt_u32_e64 vcc, vcc_lo, v1
	v_cmp_lt_u64_e64 s[14:15], s[14:15], v[2:3]
	v_cmp_lt_f64_e64 vcc, vcc, v[2:3]
	v_add_co_ci_u32_e64 v4, s[16:17], v1, v2, s[16:17]
	v_add_co_u32 v5, s[18:19], s18, v1
	v_add_co_u32 v6, s[20:21], s21, v1
	v_mad_u64_u32 v[8:9], s[22:23], s22, v1, v[2:3]
	v_subrev_co_ci_u32_e32 v7, vcc, v1, v2, vcc
	v_div_scale_f32 v10, vcc, vcc_lo, v1, vcc_lo
	v_cmpx_lt_u32_e64 exec_lo, v1
	v_mov_b32_e32 v11, v1
	s_mov_b64 exec, -1
	v_cmpx_gt_i32_e64 v1, exec_lo
	v_mov_b32_e32 v12, v1
	s_mov_b64 exec, -1
	v_cmp_ne_u32_e64 exec, exec_lo, v1
	v_mov_b32_e32 v13, v1
	s_mov_b64 exec, -1
	v_cmpx_ne_u32_e32 5, v0
	v_cndmask_b32_e64 v14, v1, v2, s[10:11]
	s_endpgm

// A mask's register is even; an odd number has its low bit ignored.
entry q_odd
	.long 0xd44d000b, 0x00020300 // v_cmp_ne_u32_e64 s[11:12], v0, v1
	.long 0xd44d007d, 0x00020300 // v_cmp_ne_u32_e64 m0, v0, v1
	v_mov_b32_e32 v2, v1
	.long 0xd449007f, 0x0002020a // v_cmp_lt_u32_e64 exec_hi, s10, v1
	v_mov_b32_e32 v3, v1
	s_mov_b64 s[12:13], exec
	s_mov_b64 exec, -1
	v_mov_b32_e32 v4, v1
	.long 0xd7007f05, 0x00020501 // v_add_co_u32 v5, exec_hi, v1, v2
	v_mov_b32_e32 v6, v1
	s_mov_b64 s[14:15], exec
	s_mov_b64 exec, -1
	v_cndmask_b32_e64 v7, v1, v2, s[12:13]
	s_endpgm

entry q_diverge
	v_and_b32_e32 v2, 15, v1
	v_mov_b32_e32 v3, 0
	s_mov_b64 s[10:11], exec
1:	v_cmp_lt_u32_e32 vcc, v3, v2
	s_and_b64 exec, exec, vcc
	s_cbranch_execz 4f
	v_add_nc_u32_e32 v3, 1, v3
	v_cmp_eq_u32_e64 s[12:13], v3, v0
	s_and_saveexec_b64 s[14:15], s[12:13]
	s_cbranch_execz 2f
	v_add_nc_u32_e32 v4, v4, v3
2:	s_xor_b64 exec, exec, s[14:15]
	v_xor_b32_e32 v4, v4, v2
	s_or_b64 exec, exec, s[14:15]
	s_branch 1b
4:	s_mov_b64 exec, s[10:11]
	s_mov_b32 exec_hi, 0
	v_mov_b32_e32 v5, v4
	s_mov_b64 exec, s[10:11]
	s_mov_b32 exec_lo, 0
	v_mov_b32_e32 v6, v4
	v_cmp_eq_u32_e32 vcc, v0, v0
	s_mov_b64 exec, s[10:11]
	s_endpgm

entry q_subvector
	v_mov_b32_e32 v2, 0
	s_subvector_loop_begin s10, 2f
1:	v_add_nc_u32_e32 v2, v2, v1
	v_add_nc_u32_e32 v2, 3, v2
	s_subvector_loop_end s10, 1b
2:	v_mov_b32_e32 v3, v2
	s_endpgm

entry q_lds
	prologue
	ds_store_b32 v20, v1
	s_barrier
	ds_load_b32 v2, v20 offset:4
	ds_add_rtn_u32 v14, v20, v1 offset:1024
	ds_bpermute_b32 v21, v20, v1
	ds_append v26 offset:16
	global_load_b32 v3, v20, s[0:1]
	global_store_b32 v20, v2, s[0:1] offset:1024
	global_atomic_add_u32 v25, v20, v1, s[0:1] offset:2000 glc
	scratch_store_b32 off, v1, off offset:16
	scratch_load_b32 v4, off, off offset:16
	s_endpgm

entry q_fault
	v_lshl_add_u32 v20, v0, 2, 0xff40
	v_mov_b32_e32 v2, 1
	global_load_b32 v3, v20, s[0:1]
	v_mov_b32_e32 v4, 1
	s_endpgm
	.p2align 8
