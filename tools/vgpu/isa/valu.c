/* The slow half of the vector ALU plumbing: modifiers, DPP, denormal and rounding modes. */
#include "isa/valu.h"

/* ---- rounding -------------------------------------------------------------- */

void valu_set_round(struct valu *v, unsigned rnd)
{
	/* MODE: 0 nearest, 1 +inf, 2 -inf, 3 zero. MXCSR.RC: 0 nearest, 1 -inf, 2 +inf, 3 zero. */
	static const unsigned char rc[4] = {0, 2, 1, 3};

	_mm_setcsr((_mm_getcsr() & ~0x6000u) | (unsigned)rc[rnd & 3] << 13);
	v->csr_set = true;
}

/* The compiler does not know that arithmetic depends on MXCSR: what is computed under another
 * rounding mode passes through here first and last, so that it cannot leave the stretch between
 * valu_set_round() and valu_reset_round(). */
#define HOLD(v, value)                                                                             \
	do {                                                                                       \
		if ((v)->csr_set) {                                                                \
			__typeof__(value) held_ = (value); /* the asm sees this alone */           \
                                                                                                   \
			__asm__ volatile("" : "+m"(held_) : : "memory");                           \
			(value) = held_;                                                           \
		}                                                                                  \
	} while (0)

void valu_reset_round(struct valu *v)
{
	if (v->csr_set)
		_mm_setcsr(_mm_getcsr() & ~0x6000u);
	v->csr_set = false;
}

VALU_F32_TO_F16(f32_to_f16_up, _MM_FROUND_TO_POS_INF)
VALU_F32_TO_F16(f32_to_f16_down, _MM_FROUND_TO_NEG_INF)

v32u f32_to_f16_rnd(const v32f *a, unsigned rnd)
{
	switch (rnd & 3) {
	case 0:
		return f32_to_f16_rne(*a);
	case 1:
		return f32_to_f16_up(*a);
	case 2:
		return f32_to_f16_down(*a);
	}
	return f32_to_f16_rtz(*a);
}

/* ---- denormals ------------------------------------------------------------- */

static v32u flush32(v32u r)
{
	return usel((r & 0x7f800000u) == 0u, r & 0x80000000u, r);
}

static v32u flush16(v32u r)
{
	return usel((r & 0x7c00u) == 0u, r & 0x8000u, r);
}

static v32q flush64(v32q r)
{
	return (r & 0x7ff0000000000000ull) == 0ull ? r & 0x8000000000000000ull : r;
}

/* ---- sources --------------------------------------------------------------- */

uint32_t valu_scalar(const struct isa_exec *x, const struct isa_insn *in, unsigned code,
		     enum valu_kind kind)
{
	/* The half a packed f16 inline constant leaves empty is zero; integer kinds see the f32
	 * pattern (both checked on hardware by public suites: v_pk_mul_f16 v, v, 2.0 gives 0 in
	 * the high half, v_pk_add_u16 v, v, 2.0 adds 0x4000 there). */
	if (kind == K_F16 || kind == K_M16 || kind == K_PF16)
		return isa_sread16(x, in, code);
	if ((kind == K_BF16 || kind == K_PBF16) && code >= 240 && code <= 248)
		return isa_sread(x, in, code) >> 16;
	return isa_sread(x, in, code);
}

/* The source that DPP permutes. Integer reverse subtractions swap their operands before that, and
 * the permuted one is S1 (measured: LLVM's change 216835, Mesa's errata to the manuals). */
static unsigned dpp_source(const struct isa_insn *in)
{
	return in->op == ISA_V_SUBREV_NC_U32 || in->op == ISA_V_SUBREV_CO_U32 ||
	       in->op == ISA_V_SUBREV_CO_CI_U32;
}

void valu_src_slow(struct valu *v, unsigned i, enum valu_kind kind, unsigned half_bit)
{
	const struct isa_insn *in = v->in;
	unsigned code = in->src[i];
	v32u r;

	if (code >= OPR_VGPR0)
		r = *isa_vgpr(v->x, code);
	else
		r = splat(valu_scalar(v->x, in, code, kind));
	if (kind == K_RAW) {
		v->t[i] = r;
		return;
	}
	if (in->dpp_kind != DPP_NONE && i == dpp_source(in)) {
		uint32_t enabled;

		r = valu_dpp(in, r, v->x->half, isa_exec_mask(v->x), &enabled);
		v->exec &= enabled;
	}
	if (kind == K_B16 || kind == K_M16 || kind == K_F16 || kind == K_BF16) {
		if (in->op_sel >> half_bit & 1)
			r >>= 16;
		r &= 0xffffu;
	}
	if (kind == K_F32 || kind == K_M32) {
		if (in->abs >> i & 1)
			r &= 0x7fffffffu;
		if (in->neg >> i & 1)
			r ^= 0x80000000u;
		if (kind == K_F32 && !(valu_denorm32(v->x) & 1))
			r = flush32(r);
	} else if (kind == K_F16 || kind == K_M16 || kind == K_BF16) {
		if (in->abs >> i & 1)
			r &= 0x7fffu;
		if (in->neg >> i & 1)
			r ^= 0x8000u;
		if (kind == K_F16 && !(valu_denorm64(v->x) & 1))
			r = flush16(r);
	}
	v->t[i] = r;
	HOLD(v, v->t[i]);
}

v32q valu_src64_bits(struct valu *v, unsigned i)
{
	const struct isa_insn *in = v->in;
	unsigned code = in->src[i];
	v32q r;

	if (code >= OPR_VGPR0)
		r = q_join(*isa_vgpr(v->x, code), *isa_vgpr(v->x, code + 1));
	else
		r = (v32q)isa_sread_f64(v->x, in, code);
	if (in->abs >> i & 1)
		r &= 0x7fffffffffffffffull;
	if (in->neg >> i & 1)
		r ^= 0x8000000000000000ull;
	return r;
}

void valu_src64_slow(struct valu *v, unsigned i, bool is_float, v32q *out)
{
	unsigned code = v->in->src[i];

	if (is_float) {
		v32q r = valu_src64_bits(v, i);

		*out = valu_denorm64(v->x) & 1 ? r : flush64(r);
		HOLD(v, *out);
	} else if (code >= OPR_VGPR0) {
		*out = q_join(*isa_vgpr(v->x, code), *isa_vgpr(v->x, code + 1));
	} else {
		*out = (v32q)isa_sread64(v->x, v->in, code);
	}
}

/* ---- results --------------------------------------------------------------- */

/* omod has no effect where denormal results are kept or MODE.ieee is set (RDNA3.5 ISA, output
 * modifiers; a public suite found it ignored on hardware in the assembler's default mode). */
static float omod_factor(const struct valu *v, unsigned denorm)
{
	static const float f[4] = {1.0f, 2.0f, 4.0f, 0.5f};

	if ((denorm & 2) || valu_ieee(v->x))
		return 1.0f;
	return f[v->in->omod & 3];
}

static v32f clamp32(const struct valu *v, v32f r)
{
	v32f nan = isa_mode(v->x) & MODE_DX10 ? splatf(0.0f) : r;

	return fsel(r != r, nan, fsel(r > 0.0f, fsel(r < 1.0f, r, splatf(1.0f)), splatf(0.0f)));
}

v32f valu_clamp01_at(const struct valu *v, const v32f *r)
{
	return clamp32(v, *r);
}

/* With an output modifier no zero is negative. */
static v32u unsigned_zero32(v32u r)
{
	return usel(r == 0x80000000u, splat(0), r);
}

static void write_half(struct valu *v, v32u r)
{
	v32u *d = valu_dst(v);

	if (v->in->op_sel & 8)
		r = (*d & 0xffffu) | r << 16;
	else
		r = (*d & 0xffff0000u) | (r & 0xffffu);
	valu_write(d, v->exec, r);
}

void valu_out_slow(struct valu *v, enum valu_kind kind, const v32u *rp)
{
	v32u r = *rp;

	HOLD(v, r);
	valu_reset_round(v);
	if (kind == K_F32) {
		unsigned dn = valu_denorm32(v->x);
		float k = omod_factor(v, dn);

		if (k != 1.0f)
			r = U(F(r) * k);
		if (v->in->clamp)
			r = U(clamp32(v, F(r)));
		if (!(dn & 2) && (!v->selects || k != 1.0f))
			r = flush32(r);
		if (k != 1.0f)
			r = unsigned_zero32(r);
	}
	if (kind == K_B16)
		write_half(v, r);
	else
		valu_write(valu_dst(v), v->exec, r);
}

static void out_f16(struct valu *v, const v32f *rp, unsigned rnd)
{
	unsigned dn = valu_denorm64(v->x);
	float k = omod_factor(v, dn);
	v32f r = *rp;
	v32u h;

	valu_reset_round(v);
	if (k != 1.0f)
		r = r * k;
	if (v->in->clamp)
		r = clamp32(v, r);
	h = f32_to_f16_rnd(&r, rnd);
	if (!(dn & 2) && (!v->selects || k != 1.0f))
		h = flush16(h);
	if (k != 1.0f)
		h = usel(h == 0x8000u, splat(0), h);
	write_half(v, h);
}

void valu_out_f16_slow(struct valu *v, const v32f *r)
{
	out_f16(v, r, valu_round64(v->x));
}

void valu_out_rtz16_at(struct valu *v, const v32f *r)
{
	out_f16(v, r, 3);
}

void valu_out64_slow(struct valu *v, bool is_float, const v32q *rp)
{
	v32q r = *rp;

	HOLD(v, r);
	valu_reset_round(v);
	if (is_float) {
		unsigned dn = valu_denorm64(v->x);
		float k = omod_factor(v, dn);

		if (k != 1.0f)
			r = (v32q)((v32d)r * (double)k);
		if (v->in->clamp) {
			v32d d = (v32d)r;
			v32l isnan = d != d;
			v32d c = d > 0.0 ? d : (v32d)0.0;

			c = c < 1.0 ? c : (v32d)1.0;
			r = isnan ? (isa_mode(v->x) & MODE_DX10 ? (v32q)0ull : r) : (v32q)c;
		}
		if (!(dn & 2) && (!v->selects || k != 1.0f))
			r = flush64(r);
		if (k != 1.0f)
			r = r == 0x8000000000000000ull ? (v32q)0ull : r;
	}
	isa_vwrite(v->x, v->in->dst, v->exec, q_lo(r));
	isa_vwrite(v->x, v->in->dst + 1u, v->exec, q_hi(r));
}

/* ---- lanes of a row --------------------------------------------------------- */

static const v32u lane_id = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
			     16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

v32u valu_row_permute(v32u s, v32u from)
{
	union {
		v32u v;
		__m256i q[4];
	} in = {.v = s}, k = {.v = from}, out;

	for (unsigned i = 0; i < 4; i++) {
		/* Lane numbers count modulo 8 here; bit 3 picks the half of the row, bit 4 the row.
		 */
		__m256i bit3 = _mm256_slli_epi32(k.q[i], 28), bit4 = _mm256_slli_epi32(k.q[i], 27);
		__m256i r[4];

		for (unsigned j = 0; j < 4; j++)
			r[j] = _mm256_permutevar8x32_epi32(in.q[j], k.q[i]);
		for (unsigned j = 0; j < 2; j++)
			r[j] = (__m256i)_mm256_blendv_ps((__m256)r[2 * j], (__m256)r[2 * j + 1],
							 (__m256)bit3);
		out.q[i] = (__m256i)_mm256_blendv_ps((__m256)r[0], (__m256)r[1], (__m256)bit4);
	}
	return out.v;
}

v32i valu_lane_bits(uint32_t mask, v32u lane)
{
	return (splat(mask) >> (lane & 31u) & 1u) != 0u;
}

/* ---- DPP ------------------------------------------------------------------- */

/* Source lane of every lane under a DPP16 control; outside its row where there is none. */
static v32u dpp16_lanes(unsigned ctrl)
{
	const v32u row = lane_id & ~15u, i = lane_id & 15u;
	unsigned n = ctrl & 15;

	if (ctrl < 0x100)
		return (lane_id & ~3u) | (splat(ctrl) >> ((lane_id & 3u) * 2u) & 3u);
	switch (ctrl & 0x1f0) {
	case 0x100: /* row_shl */
		return usel(i + n < 16u, lane_id + n, splat(~0u));
	case 0x110: /* row_shr */
		return usel(i >= splat(n), lane_id - n, splat(~0u));
	case 0x120: /* row_ror */
		return row | ((i - n) & 15u);
	case 0x140: /* row_mirror, row_half_mirror */
		if (n < 2)
			return n ? lane_id ^ 7u : row | (15u - i);
		/* row_bcast of gfx9, in no table since: the public suite has it read its own row's
		 * first lane. */
		return row;
	case 0x150: /* row_share */
		return row | splat(n);
	case 0x160: /* row_xmask */
		return lane_id ^ n;
	}
	return lane_id;
}

v32u valu_dpp(const struct isa_insn *in, v32u s, unsigned half, uint32_t exec, uint32_t *enabled)
{
	bool dpp8 = in->dpp_kind == DPP_DPP8;
	v32u from = dpp8 ? (lane_id & ~7u) | (splat(in->dpp8_sel) >> ((lane_id & 7u) * 3u) & 7u)
			 : dpp16_lanes(in->dpp_ctrl);
	v32i valid = from < 32u;
	uint32_t en = ~0u;

	if (!in->dpp_fi && exec != ~0u)
		valid &= valu_lane_bits(exec, from);
	s = valu_row_permute(s, from) & U(valid);
	/* Without bound_ctrl a lane whose source is not valid is not written; DPP8 has none and
	 * reads zero. */
	if (!dpp8 && !in->dpp_bound_ctrl)
		en = isa_gather(valid);
	if (!dpp8) {
		/* Rows 2 and 3 are the upper half of a wave64; a bank is every fourth quad. */
		uint32_t rows = in->dpp_row_mask >> (2 * half), banks = in->dpp_bank_mask;

		en &= ((rows & 1 ? 0xffffu : 0) | (rows & 2 ? 0xffff0000u : 0)) &
		      (0x000f000fu * (banks & 1) | 0x00f000f0u * (banks >> 1 & 1) |
		       0x0f000f00u * (banks >> 2 & 1) | 0xf000f000u * (banks >> 3 & 1));
	}
	*enabled = en;
	return s;
}

/* ---- NaN corners ----------------------------------------------------------- */

static v32i is_snan(v32f a)
{
	return (a != a) & ((U(a) & 0x400000u) == 0u);
}

v32f valu_minmax_nan(v32f a, v32f b, v32f r, bool ieee)
{
	r = fsel(a != a, b, r);
	r = fsel(b != b, a, r);
	if (ieee) {
		r = fsel(is_snan(b), F(U(b) | 0x400000u), r);
		r = fsel(is_snan(a), F(U(a) | 0x400000u), r);
	}
	return r;
}

/* With a NaN among the three, v_med3 is v_min3. */
v32f valu_med3_nan(v32f a, v32f b, v32f c, v32f r, bool ieee)
{
	v32i nan = (a != a) | (b != b) | (c != c);

	return fsel(nan, f32_min(f32_min(a, b, ieee), c, ieee), r);
}
