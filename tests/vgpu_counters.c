/* Counters: small programs whose every count is known. */
#include <jansson.h>

#include "count/internal.h"
#include "isa_machine.h"

static struct count_ctx *ctx;
static struct count_dispatch *d;
static struct count_wave outstanding[32];

static void begin(bool wave64)
{
	struct count_launch l = {0};

	setenv("VGPU_COUNTERS", "/dev/null", 1);
	count_init();
	cr_assert(count_on);
	m_init(wave64);
	ctx = count_ctx_new();
	M.x.count = ctx;
	M.vmem.watch = M.smem.watch = M.imem.watch = count_watch(ctx);
	l = (struct count_launch){
		.port = &M.imem,
		.entry = M_CODE,
		.kernel_object = 0x1000,
		.nvgpr = M_NVGPR,
		.wave64 = wave64,
		.grid = {32, 1, 1},
		.wg = {32, 1, 1},
		.waves_full = 1,
	};
	M.code[0] = 0xbfb00000; /* s_endpgm: what identifies the kernel */
	d = count_dispatch_begin(&l);
	cr_assert(d);
}

/* Runs what was assembled as one wave of the dispatch; its counts. */
static const struct count_set *counted(void)
{
	memset(outstanding, 0, sizeof(outstanding));
	count_enter(ctx, d, outstanding);
	count_group(ctx, 1);
	m_run_ok();
	count_leave(ctx);
	return &d->set;
}

static void end(void)
{
	count_dispatch_end(d);
	count_ctx_free(ctx);
	m_fini();
}

static uint64_t sum(const struct count_set *s)
{
	uint64_t n = 0;

	for (unsigned c = 0; c < CC_COUNT; c++)
		n += s->insns[c];
	return n;
}

Test(counters, every_class_once)
{
	const struct count_set *s;

	begin(false);
	m_set64(0, M_MEM);
	m_set64(2, M_MEM);
	for (unsigned l = 0; l < 32; l++)
		m_v(1)[l] = 4 * l;
	e_sop1(ISA_S_MOV_B32, 10, 129); /* salu */
	e_sopp(ISA_S_NOP, 0);           /* hint */
	e_sopp(ISA_S_BRANCH, 0);        /* branch */
	e_smem(ISA_S_LOAD_B64, 12, 0, M_NULL, 0);
	e_sopp(ISA_S_WAITCNT, 0);
	e_vop2(ISA_V_ADD_F32, 2, 256 + 1, 1); /* valu */
	e_vop2(ISA_V_ADD_F16, 2, 256 + 1, 1); /* valu16 */
	e_vop1(ISA_V_EXP_F32, 3, 256 + 1);    /* trans */
	e_vop1(ISA_V_RCP_F64, 4, 256 + 2);    /* trans, f64 */
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 5, 1, 0, 2, 0, false);
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 1, 5, 2, 0, false);
	e_flat(ISA_GLOBAL_ATOMIC_ADD_U32, 2, 5, 1, 5, 2, 0, true);
	e_scratch(ISA_SCRATCH_STORE_B32, 0, 0, 5, M_NULL, 4, false);
	e_scratch(ISA_SCRATCH_LOAD_B32, 5, 0, 0, M_NULL, 4, false);
	e_ds(ISA_DS_STORE_B32, 0, 1, 5, 0, 0);
	e_ds(ISA_DS_LOAD_B32, 5, 1, 0, 0, 0);
	e_ds(ISA_DS_ADD_U32, 0, 1, 5, 0, 0);
	e_ds(ISA_DS_BPERMUTE_B32, 5, 1, 5, 0, 0);
	e_mubuf(ISA_BUFFER_GL0_INV, 0, 0, 0, 128, 0, 0, false);
	s = counted();
	cr_expect_eq(s->insns[CC_SALU], 1);
	cr_expect_eq(s->insns[CC_HINT], 1);
	cr_expect_eq(s->insns[CC_BRANCH], 2); /* s_endpgm too */
	cr_expect_eq(s->insns[CC_SMEM], 1);
	cr_expect_eq(s->insns[CC_WAITCNT], 1);
	cr_expect_eq(s->insns[CC_VALU], 1);
	cr_expect_eq(s->insns[CC_VALU16], 1);
	cr_expect_eq(s->insns[CC_TRANS], 2);
	cr_expect_eq(s->insns[CC_VMEM_LOAD], 1);
	cr_expect_eq(s->insns[CC_VMEM_STORE], 1);
	cr_expect_eq(s->insns[CC_VMEM_ATOMIC], 1);
	cr_expect_eq(s->insns[CC_SCRATCH_LOAD], 1);
	cr_expect_eq(s->insns[CC_SCRATCH_STORE], 1);
	cr_expect_eq(s->insns[CC_LDS_LOAD], 1);
	cr_expect_eq(s->insns[CC_LDS_STORE], 1);
	cr_expect_eq(s->insns[CC_LDS_ATOMIC], 1);
	cr_expect_eq(s->insns[CC_LDS_LANE], 1);
	cr_expect_eq(s->insns[CC_CACHE], 1);
	cr_expect_eq(sum(s), 20);
	cr_expect_eq(s->waves, 1);
	cr_expect_eq(s->groups, 1);
	cr_expect_eq(s->smem_read, 8);
	/* load, store, atomic, scratch: 128 bytes each */
	cr_expect_eq(s->vmem_read, 128 * 3);
	cr_expect_eq(s->vmem_written, 128 * 3);
	cr_expect_eq(s->atomics, 32);
	cr_expect_eq(s->lds_read, 256);
	cr_expect_eq(s->lds_written, 256);
	cr_expect_eq(s->lds_atomics, 32);
	cr_expect_eq(s->lanes[CC_VALU], 32);
	cr_expect_eq(s->passes[CC_VALU], 1);
	/* 1 for f32, 1 for f16, 4 for exp, 32 for the f64 reciprocal */
	cr_expect_eq(s->vector_cycles, 38);
	cr_expect_eq(ctx->approximated[ISA_V_EXP_F32], 1);
	cr_expect_eq(ctx->approximated[ISA_V_ADD_F32], 0);
	cr_expect_eq(ctx->ops[ISA_V_EXP_F32], 1);
	end();
}

Test(counters, lanes_follow_exec)
{
	const struct count_set *s;

	begin(false);
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, 135); /* three lanes */
	e_vop2(ISA_V_ADD_F32, 2, 256 + 1, 1);
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, 128); /* none: issued, does nothing */
	e_vop2(ISA_V_ADD_F32, 2, 256 + 1, 1);
	e_sop1(ISA_S_MOV_B32, OPR_EXEC_LO, 193); /* -1 */
	e_vop2(ISA_V_ADD_F32, 2, 256 + 1, 1);
	s = counted();
	cr_expect_eq(s->insns[CC_VALU], 3);
	cr_expect_eq(s->lanes[CC_VALU], 3 + 0 + 32);
	cr_expect_eq(s->passes[CC_VALU], 3);
	end();
}

Test(counters, wave64_counts_once_and_passes_twice)
{
	const struct count_set *s;

	begin(true);
	m_set64(2, M_MEM);
	for (unsigned l = 0; l < 32; l++) {
		m_v(1)[l] = 4 * l;
		m_v(M_NVGPR + 1)[l] = 128 + 4 * l;
	}
	e_vop2(ISA_V_ADD_F32, 2, 256 + 1, 1);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 5, 1, 0, 2, 0, false);
	s = counted();
	cr_expect_eq(s->insns[CC_VALU], 1);
	cr_expect_eq(s->lanes[CC_VALU], 64);
	cr_expect_eq(s->passes[CC_VALU], 2);
	cr_expect_eq(s->insns[CC_VMEM_LOAD], 1);
	cr_expect_eq(s->vmem_read, 256);
	cr_expect_eq(s->lines128, 2);
	cr_expect_eq(s->lines64, 4);
	cr_expect_eq(s->unique_read, 2);
	end();
}

/* Loads of size bytes at lane * stride + first: lines touched, and distinct ones. */
static void check_lines(unsigned op, unsigned size, unsigned stride, unsigned first,
			unsigned lines64, unsigned lines128)
{
	const struct count_set *s;

	begin(false);
	m_set64(2, M_MEM);
	for (unsigned l = 0; l < 32; l++)
		m_v(1)[l] = first + stride * l;
	e_flat(op, 2, 8, 1, 0, 2, 0, false);
	e_flat(op, 2, 8, 1, 0, 2, 0, false); /* again: touched twice, no line new */
	s = counted();
	cr_expect_eq(s->vmem_read, 2 * 32 * size, "%u %u", size, stride);
	cr_expect_eq(s->lines64, 2 * lines64, "size %u stride %u: %lu", size, stride, s->lines64);
	cr_expect_eq(s->lines128, 2 * lines128, "size %u stride %u: %lu", size, stride,
		     s->lines128);
	cr_expect_eq(s->unique_read, lines128);
	cr_expect_eq(s->unique_written, 0);
	end();
}

Test(counters, cache_lines)
{
	check_lines(ISA_GLOBAL_LOAD_B32, 4, 4, 0, 2, 1);
	check_lines(ISA_GLOBAL_LOAD_B32, 4, 4, 64, 2, 2); /* half of two 128-byte lines */
	check_lines(ISA_GLOBAL_LOAD_B32, 4, 4, 62, 3, 2); /* one lane on two lines */
	check_lines(ISA_GLOBAL_LOAD_B32, 4, 0, 0, 1, 1);  /* all lanes the same word */
	check_lines(ISA_GLOBAL_LOAD_B32, 4, 64, 0, 32, 16);
	check_lines(ISA_GLOBAL_LOAD_B32, 4, 128, 0, 32, 32);
	check_lines(ISA_GLOBAL_LOAD_B128, 16, 16, 0, 8, 4);
	check_lines(ISA_GLOBAL_LOAD_B128, 16, 256, 120, 64, 64); /* each on two of both kinds */
	check_lines(ISA_GLOBAL_LOAD_U8, 1, 1, 0, 1, 1);
}

/* One LDS access with lane l at offset stride * l: clocks, and how many were conflicts. */
static void check_banks(unsigned op, unsigned stride, unsigned clocks, unsigned conflicts)
{
	const struct count_set *s;

	begin(false);
	for (unsigned l = 0; l < 32; l++)
		m_v(1)[l] = stride * l;
	e_ds(op, 8, 1, 5, 0, 0);
	s = counted();
	cr_expect_eq(s->lds_cycles, clocks, "stride %u: %lu clocks", stride, s->lds_cycles);
	cr_expect_eq(s->lds_conflicts, conflicts, "stride %u: %lu", stride, s->lds_conflicts);
	end();
}

Test(counters, lds_banks)
{
	check_banks(ISA_DS_LOAD_B32, 4, 1, 0);
	check_banks(ISA_DS_LOAD_B32, 0, 1, 0); /* one word for all: a broadcast */
	check_banks(ISA_DS_LOAD_B32, 8, 2, 1);
	check_banks(ISA_DS_LOAD_B32, 12, 1, 0); /* odd strides spread */
	check_banks(ISA_DS_LOAD_B32, 128, 32, 31);
	check_banks(ISA_DS_STORE_B32, 8, 2, 1);
	check_banks(ISA_DS_LOAD_B64, 8, 2, 0); /* two passes of 16 lanes */
	check_banks(ISA_DS_LOAD_B64, 16, 4, 2);
	check_banks(ISA_DS_LOAD_B128, 16, 4, 0);
	check_banks(ISA_DS_ADD_U32, 0, 32, 31); /* a change at a time */
	check_banks(ISA_DS_ADD_U32, 4, 1, 0);
	check_banks(ISA_DS_MSKOR_B32, 0, 32, 31);
}

Test(counters, append_is_one_lane)
{
	const struct count_set *s;

	begin(false);
	M.w->s[OPR_M0] = 0;
	e_ds(ISA_DS_APPEND, 8, 0, 0, 0, 0);
	s = counted();
	cr_expect_eq(s->insns[CC_LDS_ATOMIC], 1);
	cr_expect_eq(s->lds_atomics, 1);
	cr_expect_eq(s->lds_cycles, 1);
	end();
}

Test(counters, waits_that_wait)
{
	const struct count_set *s;
	enum { VM0 = 0x03f7, VM1 = 0x07f7, LGKM0 = 0xfc07 };

	begin(false);
	m_set64(0, M_MEM);
	m_set64(2, M_MEM);
	e_sopp(ISA_S_WAITCNT, 0); /* nothing outstanding */
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 5, 1, 0, 2, 0, false);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 6, 1, 0, 2, 0, false);
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 1, 5, 2, 0, false);
	e_sopp(ISA_S_WAITCNT, VM1); /* waits for the first */
	e_sopp(ISA_S_WAITCNT, VM1); /* one is left: no wait */
	e_sopp(ISA_S_WAITCNT, VM0);
	e_smem(ISA_S_LOAD_B64, 12, 0, M_NULL, 0);
	e_sopp(ISA_S_WAITCNT, VM0); /* not for this */
	e_sopp(ISA_S_WAITCNT, LGKM0);
	e_ds(ISA_DS_LOAD_B32, 5, 1, 0, 0, 0);
	e_sopp(ISA_S_WAITCNT, LGKM0);
	e_sopk(ISA_S_WAITCNT_VSCNT, M_NULL, 0); /* the store */
	e_sopk(ISA_S_WAITCNT_VSCNT, M_NULL, 0);
	s = counted();
	cr_expect_eq(s->insns[CC_WAITCNT], 9);
	cr_expect_eq(s->vmem_waits, 2);
	cr_expect_eq(s->store_waits, 1);
	cr_expect_eq(s->smem_waits, 1);
	cr_expect_eq(s->lds_waits, 1);
	end();
}

Test(counters, what_did_not_run_is_not_counted)
{
	const struct count_set *s;

	begin(false);
	m_set64(2, 0x7000000000ull); /* nothing there */
	e_vop2(ISA_V_ADD_F32, 2, 256 + 1, 1);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 5, 1, 0, 2, 0, false);
	count_enter(ctx, d, outstanding);
	m_run();
	count_leave(ctx);
	cr_assert_eq(M.w->stop, STOP_MEM_FAULT);
	s = &d->set;
	cr_expect_eq(s->insns[CC_VALU], 1);
	cr_expect_eq(s->insns[CC_VMEM_LOAD], 0);
	cr_expect_eq(M.w->insns, sum(s));
	end();
}

/* ---- buffers and the report ---------------------------------------------- */

static json_t *report(void)
{
	char *text = count_json();
	json_error_t err;
	json_t *j;

	cr_assert(text);
	j = json_loads(text, 0, &err);
	cr_assert(j, "line %d column %d: %s", err.line, err.column, err.text);
	free(text);
	return j;
}

static json_t *buffer_of(json_t *j, uint64_t va)
{
	char want[32];
	json_t *b;
	size_t i;

	snprintf(want, sizeof(want), "0x%llx", (unsigned long long)va);
	json_array_foreach(json_object_get(j, "buffers"), i, b)
	{
		if (!strcmp(json_string_value(json_object_get(b, "va")), want))
			return b;
	}
	cr_assert(false, "no buffer at %s", want);
	return NULL;
}

static long long member(json_t *j, const char *name)
{
	json_t *v = json_object_get(j, name);

	cr_assert(v, "no member %s", name);
	return json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
}

Test(counters, buffers)
{
	json_t *j, *b, *k;

	begin(false);
	m_set64(2, M_MEM);
	m_set64(4, M_SCRATCH);
	for (unsigned l = 0; l < 32; l++)
		m_v(1)[l] = 4 * l;
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 5, 1, 0, 2, 0, false);
	e_flat(ISA_GLOBAL_LOAD_B32, 2, 5, 1, 0, 2, 0, false);
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 1, 5, 4, 0, false);
	counted();
	count_dispatch_end(d);
	j = report();
	b = buffer_of(j, M_MEM);
	cr_expect_eq(member(b, "bytes_read"), 256);
	cr_expect_eq(member(b, "bytes_written"), 0);
	cr_expect_eq(member(b, "distinct_bytes_read"), 128);
	cr_expect_eq(member(b, "bytes"), M_MEM_BYTES);
	cr_expect_eq(member(b, "never_read"), 0);
	cr_expect_eq(member(b, "never_written"), 1);
	b = buffer_of(j, M_SCRATCH);
	cr_expect_eq(member(b, "bytes_written"), 128);
	cr_expect_eq(member(b, "never_read"), 1);
	cr_expect_eq(member(b, "never_written"), 0);
	b = buffer_of(j, M_CODE);
	cr_expect_eq(member(b, "executed"), 1);
	cr_expect_eq(member(b, "never_read"), 0);
	k = json_array_get(json_object_get(j, "kernels"), 0);
	cr_expect_eq(member(k, "dispatches"), 1);
	cr_expect_eq(member(k, "unfinished"), 0);
	cr_expect_eq(member(k, "wave_instructions"), 4);
	cr_expect_eq(json_array_size(json_object_get(k, "buffers")), 2);
	cr_expect_eq(json_array_size(json_object_get(j, "dispatches")), 1);
	json_decref(j);
	count_ctx_free(ctx);
	m_fini();
}

Test(counters, fidelity)
{
	json_t *j, *f, *o;

	begin(false);
	e_vop1(ISA_V_EXP_F32, 3, 256 + 1);
	e_vop1(ISA_V_EXP_F32, 3, 256 + 1);
	e_vop1(ISA_V_MOV_B32, 3, 256 + 1);
	e_sopp(ISA_S_NOP, 0);
	counted();
	count_refused(ctx, ISA_S_TTRACEDATA);
	end();
	j = report();
	f = json_object_get(j, "fidelity");
	cr_expect_eq(member(f, "operations"), 5);
	cr_expect_eq(member(f, "exact"), 2); /* v_mov_b32 and s_endpgm */
	cr_expect_eq(member(f, "approximated"), 2);
	cr_expect_eq(member(f, "without_effect"), 1);
	cr_expect_eq(member(f, "not_executed"), 1);
	o = json_array_get(json_object_get(f, "approximated_opcodes"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(o, "opcode")), "v_exp_f32");
	cr_expect_eq(member(o, "count"), 2);
	o = json_array_get(json_object_get(f, "not_executed_opcodes"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(o, "opcode")), "s_ttracedata");
	json_decref(j);
}

/* ---- pure parts ---------------------------------------------------------- */

Test(counters, classes)
{
	static const struct {
		unsigned op, class, cycles;
	} want[] = {
		{ISA_S_SETPC_B64, CC_BRANCH, 0},
		{ISA_S_WAITCNT_VSCNT, CC_WAITCNT, 0},
		{ISA_S_BARRIER, CC_BARRIER, 0},
		{ISA_S_SENDMSG_RTN_B32, CC_CONTROL, 0},
		{ISA_S_DCACHE_INV, CC_CACHE, 0},
		{ISA_V_PK_FMA_F16, CC_VALU16, 1},
		{ISA_V_FMA_F64, CC_VALU64, 16},
		{ISA_V_LSHLREV_B64, CC_VALU64, 4},
		{ISA_V_MUL_LO_U32, CC_VALU, 4},
		{ISA_V_FMA_F32, CC_VALU, 1},
		{ISA_V_DOT4_I32_IU8, CC_DOT, 1},
		{ISA_V_DOT2ACC_F32_F16, CC_DOT, 1},
		{ISA_V_SIN_F16, CC_TRANS, 4},
		{ISA_V_WMMA_F32_16X16X16_F16, CC_WMMA, 32},
		{ISA_V_WMMA_I32_16X16X16_IU4, CC_WMMA, 16},
		{ISA_BUFFER_ATOMIC_ADD_U32, CC_VMEM_ATOMIC, 0},
		{ISA_TBUFFER_STORE_FORMAT_X, CC_VMEM_STORE, 0},
		{ISA_DS_STOREXCHG_RTN_B32, CC_LDS_ATOMIC, 0},
		{ISA_DS_STORE_2ADDR_B32, CC_LDS_STORE, 0},
		{ISA_DS_SWIZZLE_B32, CC_LDS_LANE, 0},
	};

	for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++) {
		cr_expect_eq(count_class_of(want[i].op), want[i].class, "%s: class %s",
			     isa_op_name(want[i].op), count_class_name[count_class_of(want[i].op)]);
		cr_expect_eq(count_cycles_of(want[i].op), want[i].cycles, "%s: %u clocks",
			     isa_op_name(want[i].op), count_cycles_of(want[i].op));
	}
}

Test(counters, occupancy)
{
	struct count_occupancy o = count_occupancy(24, false, 0, 1, false);

	cr_expect_eq(o.waves_per_simd, 16);
	cr_expect_str_eq(o.limit, "slots");
	o = count_occupancy(256, false, 0, 1, false); /* 264 registers: 5 times */
	cr_expect_eq(o.waves_per_simd, 5);
	cr_expect_str_eq(o.limit, "vgprs");
	o = count_occupancy(256, true, 0, 1, false);
	cr_expect_eq(o.waves_per_simd, 2);
	/* three workgroups of 4 waves in 64 KiB: 12 waves on two SIMDs */
	o = count_occupancy(32, false, 20 << 10, 4, false);
	cr_expect_eq(o.waves_per_simd, 6);
	cr_expect_str_eq(o.limit, "lds");
	/* six in 128 KiB on four */
	o = count_occupancy(32, false, 20 << 10, 4, true);
	cr_expect_eq(o.waves_per_simd, 6);
}

Test(counters, estimate_names_what_binds)
{
	struct count_occupancy o = count_occupancy(32, false, 0, 8, false);
	struct count_set s = {.waves = 80000, .groups = 10000};
	struct count_estimate e;

	s.insns[CC_VALU] = s.vector_cycles = 80ull * 2900000; /* a millisecond of every SIMD */
	s.passes[CC_VALU] = s.insns[CC_VALU];
	e = count_estimate(&s, &o, false);
	cr_expect_eq(e.bound, BOUND_ISSUE);
	cr_expect(e.total > 0.99e-3 && e.total < 1.01e-3, "%g", e.total);
	s.unique_read = 1000000000 / 128; /* a gigabyte at 256 GB/s */
	e = count_estimate(&s, &o, false);
	cr_expect_eq(e.bound, BOUND_BANDWIDTH);
	cr_expect(e.total > 3.8e-3 && e.total < 4.0e-3, "%g", e.total);
	/* one wave that waits a thousand times for memory */
	s = (struct count_set){.waves = 1, .groups = 1, .vmem_waits = 1000};
	s.insns[CC_VMEM_LOAD] = s.passes[CC_VMEM_LOAD] = 1000;
	s.lines64 = 2000;
	e = count_estimate(&s, &o, false);
	cr_expect_eq(e.bound, BOUND_LATENCY);
	cr_expect(e.total > 321e3 / 2.9e9 * 0.99 && e.total < 321e3 / 2.9e9 * 1.01, "%g", e.total);
}
