/* The plumbing of vector ALU semantics: what surrounds the meaning of an opcode.
 *
 * A meaning is an expression over 32-lane vectors a, b, c (sources 0, 1, 2). The VOP_* macros
 * below wrap it into sem_NAME(): fetch (VGPR, SGPR, constants by operand kind, DPP, op_sel,
 * abs/neg, input denormal flush), the expression, and the write (omod, clamp, output denormal
 * flush, half-register merge, EXEC).
 *
 * Two paths. Plain: no modifier and a MODE that asks for round-to-nearest with denormals kept;
 * operands are then used where they lie. Otherwise the functions in valu.c do every step.
 * Both use the same expression, so there is one meaning.
 *
 * Float environment: isa_run() must hold MXCSR at its default (round to nearest, no DAZ/FTZ);
 * other MODE.round values change it around one instruction in valu_begin()/valu_out_*().
 * NaN results carry the host's payload rules: the first NaN source, quieted; 0xffc00000 where
 * none was NaN.
 *
 * Sources: AMD "RDNA3.5 Instruction Set Architecture"; where the public hardware-checked suites
 * disagree with the manual's pseudocode the code says so.
 */
#ifndef VGPU_VALU_H
#define VGPU_VALU_H

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#include "isa/operands.h"

typedef uint64_t v32q __attribute__((ext_vector_type(32)));
typedef int64_t v32l __attribute__((ext_vector_type(32)));
typedef double v32d __attribute__((ext_vector_type(32)));
typedef uint16_t v32h __attribute__((ext_vector_type(32)));
typedef uint32_t v8u __attribute__((ext_vector_type(8)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef uint16_t v8h __attribute__((ext_vector_type(8)));

#define valu_likely(e)   __builtin_expect(!!(e), 1)
#define valu_unlikely(e) __builtin_expect(!!(e), 0)

/* ---- kinds and modes ----------------------------------------------------- */

/* What a source or result is; decides inline constants, modifiers and flushing. */
enum valu_kind {
	K_B32, /* 32 bits, integer or untyped: no modifiers but DPP */
	K_M32, /* 32 bits, untyped, but neg/abs act on the sign bit (v_cndmask_b32) */
	K_F32,
	K_B16, /* low 16 bits significant; bits above are undefined in the plain path */
	K_M16, /* the same with neg/abs */
	K_F16,
	K_P16,   /* two 16-bit integers: raw dword, the op picks halves */
	K_PF16,  /* two f16 (inline floats are f16 in the low half) */
	K_BF16,  /* 16-bit with neg/abs; inline floats are bf16 */
	K_PBF16, /* two bf16 (inline floats are bf16 in the low half) */
	K_RAW,   /* the dword as stored: no modifier, not even DPP */
};

/* The modifier bytes of struct isa_insn as one word. */
#define MOD_BYTE(n, v) ((uint64_t)(v) << (8 * (n)))
#define MOD_NEG        MOD_BYTE(0, 0xff)
#define MOD_ABS        MOD_BYTE(1, 0xff)
#define MOD_NEG_HI     MOD_BYTE(2, 0xff)
#define MOD_OP_SEL     MOD_BYTE(3, 0xff)
#define MOD_OMOD       MOD_BYTE(5, 0xff)
#define MOD_CLAMP      MOD_BYTE(6, 0xff)
#define MOD_DPP        MOD_BYTE(7, 0xff)
#define MODS_INT       MOD_DPP
#define MODS_INT16     (MOD_DPP | MOD_OP_SEL)
/* f32 sources take neg and abs in the plain path too. */
#define MODS_F32   (MOD_OMOD | MOD_CLAMP | MOD_DPP)
#define MODS_FLT   (MOD_NEG | MOD_ABS | MOD_OMOD | MOD_CLAMP | MOD_DPP)
#define MODS_FLT16 (MODS_FLT | MOD_OP_SEL)

_Static_assert(offsetof(struct isa_insn, abs) == offsetof(struct isa_insn, neg) + 1 &&
		       offsetof(struct isa_insn, op_sel) == offsetof(struct isa_insn, neg) + 3 &&
		       offsetof(struct isa_insn, omod) == offsetof(struct isa_insn, neg) + 5 &&
		       offsetof(struct isa_insn, clamp) == offsetof(struct isa_insn, neg) + 6 &&
		       offsetof(struct isa_insn, dpp_kind) == offsetof(struct isa_insn, neg) + 7,
	       "modifier bytes are adjacent");

static inline uint64_t valu_mods(const struct isa_insn *in)
{
	uint64_t m;

	memcpy(&m, &in->neg, sizeof(m));
	return m;
}

/* MODE bits that must be set, and those that must be clear, for the plain path. */
#define MODE_F32_KEEP 0x30u
#define MODE_F32_RND  0x03u
#define MODE_F64_KEEP 0xc0u /* f64 and f16 share */
#define MODE_F64_RND  0x0cu
#define MODE_DX10     0x100u
#define MODE_IEEE     0x200u
#define MODE_F32      (MODE_F32_KEEP | MODE_F32_RND)
#define MODE_F64      (MODE_F64_KEEP | MODE_F64_RND)
#define MODE_KEEPS    (MODE_F32_KEEP | MODE_F64_KEEP)

/* Denormal control of a kind: bit 0 keeps denormal inputs, bit 1 denormal outputs. */
static inline unsigned valu_denorm32(const struct isa_exec *x)
{
	return isa_mode(x) >> 4 & 3;
}

static inline unsigned valu_denorm64(const struct isa_exec *x)
{
	return isa_mode(x) >> 6 & 3;
}

static inline unsigned valu_round32(const struct isa_exec *x)
{
	return isa_mode(x) & 3;
}

static inline unsigned valu_round64(const struct isa_exec *x)
{
	return isa_mode(x) >> 2 & 3;
}

/* ---- casts --------------------------------------------------------------- */

#define F(v) ((v32f)(v))
#define U(v) ((v32u)(v))
#define S(v) ((v32i)(v))

static inline v32u splat(uint32_t s)
{
	return (v32u)s;
}

static inline v32f splatf(float s)
{
	return (v32f)s;
}

static inline v32q to_q(v32u a)
{
	return __builtin_convertvector(a, v32q);
}

static inline v32l to_l(v32i a)
{
	return __builtin_convertvector(a, v32l);
}

static inline v32u q_lo(v32q a)
{
	return __builtin_convertvector(a, v32u);
}

static inline v32u q_hi(v32q a)
{
	return __builtin_convertvector(a >> 32, v32u);
}

static inline v32q q_join(v32u lo, v32u hi)
{
	return to_q(lo) | to_q(hi) << 32;
}

static inline v32i sext16(v32u a)
{
	return S(a << 16) >> 16;
}

static inline v32u zext16(v32u a)
{
	return a & 0xffffu;
}

static inline v32u usel(v32i m, v32u yes, v32u no)
{
	return m ? yes : no;
}

static inline v32f fsel(v32i m, v32f yes, v32f no)
{
	return m ? yes : no;
}

static inline bool valu_any(v32i m)
{
	typedef long long v4l __attribute__((ext_vector_type(4)));
	union {
		v32i v;
		v4l q[4];
	} u = {.v = m};
	__m256i o = (__m256i)(u.q[0] | u.q[1] | u.q[2] | u.q[3]);

	return !_mm256_testz_si256(o, o);
}

/* f16 in the low halves -> f32 (exact; signalling NaNs become quiet). */
static inline v32f f16_to_f32(v32u a)
{
	v32h h = __builtin_convertvector(a, v32h);
	union {
		v32h v;
		__m128i q[4];
	} i = {.v = h};
	union {
		v32f v;
		__m256 q[4];
	} o;

	for (unsigned k = 0; k < 4; k++)
		o.q[k] = _mm256_cvtph_ps(i.q[k]);
	return o.v;
}

/* The same, but a signalling NaN stays one. */
static inline v32f f16_widen(v32u a)
{
	v32i nan = (a & 0x7fffu) > 0x7c00u;

	return fsel(nan, F((a & 0x8000u) << 16 | 0x7f800000u | (a & 0x3ffu) << 13), f16_to_f32(a));
}

/* f32 -> f16 in the low half, zero above. rc: an immediate of the host instruction. */
#define VALU_F32_TO_F16(name, rc)                                                                  \
	static inline v32u name(v32f a)                                                            \
	{                                                                                          \
		union {                                                                            \
			v32f v;                                                                    \
			__m256 q[4];                                                               \
		} i = {.v = a};                                                                    \
		union {                                                                            \
			v32u v;                                                                    \
			__m256i q[4];                                                              \
		} o;                                                                               \
                                                                                                   \
		for (unsigned k = 0; k < 4; k++)                                                   \
			o.q[k] = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(i.q[k], rc));               \
		return o.v;                                                                        \
	}
VALU_F32_TO_F16(f32_to_f16_rne, _MM_FROUND_TO_NEAREST_INT)
VALU_F32_TO_F16(f32_to_f16_rtz, _MM_FROUND_TO_ZERO)

/* Output clamp to [0, 1]; NaN becomes 0 with MODE.dx10_clamp. */
struct valu;
v32f valu_clamp01_at(const struct valu *v, const v32f *r);

static inline v32f valu_clamp01(const struct valu *v, v32f r)
{
	return valu_clamp01_at(v, &r);
}

/* rnd: MODE's encoding: 0 nearest even, 1 up, 2 down, 3 to zero. */
v32u f32_to_f16_rnd(const v32f *a, unsigned rnd);

/* ---- one instruction ------------------------------------------------------ */

struct valu {
	struct isa_exec *x;
	const struct isa_insn *in;
	v32u *base; /* VGPR 0 of this half */
	unsigned nvgpr;
	uint32_t exec;  /* lanes to write; DPP may have cleared some */
	uint16_t signs; /* neg, abs << 8 */
	bool plain;
	bool csr_set; /* MXCSR holds another rounding mode */
	bool selects; /* the result is one of the sources: MODE does not flush it */
	v32u t[4];    /* operands that are not where they lie; [3]: what no register takes */
};

void valu_set_round(struct valu *v, unsigned rnd);
void valu_reset_round(struct valu *v);
uint32_t valu_scalar(const struct isa_exec *x, const struct isa_insn *in, unsigned code,
		     enum valu_kind kind);
void valu_src_slow(struct valu *v, unsigned i, enum valu_kind kind, unsigned half_bit);
void valu_src64_slow(struct valu *v, unsigned i, bool is_float, v32q *out);
void valu_out_slow(struct valu *v, enum valu_kind kind, const v32u *r);
void valu_out_f16_slow(struct valu *v, const v32f *r);
void valu_out64_slow(struct valu *v, bool is_float, const v32q *r);
/* Source lanes of a DPP control. Returns the permuted register; *enabled: lanes it lets write. */
v32u valu_dpp(const struct isa_insn *in, v32u s, unsigned half, uint32_t exec, uint32_t *enabled);

/* Lane i becomes lane from[i] & 31 of s. */
v32u valu_row_permute(v32u s, v32u from);
/* Lane i: whether bit lane[i] & 31 of mask is set. */
v32i valu_lane_bits(uint32_t mask, v32u lane);

/* mods: modifier bytes the op honours; mode: MODE bits that decide plain or not. rnd: which
 * rounding field governs host arithmetic: 0 none, 32, 64. */
static inline void valu_begin(struct valu *v, struct isa_exec *x, const struct isa_insn *in,
			      uint64_t mods, uint32_t mode, unsigned rnd)
{
	struct isa_wave *w = x->w;

	v->x = x;
	v->in = in;
	v->nvgpr = isa_nvgpr(x);
	v->base = w->v + (size_t)x->half * v->nvgpr;
	v->exec = isa_exec_mask(x);
	v->csr_set = false;
	v->selects = false;
	v->signs = (uint16_t)(in->neg | in->abs << 8);
	v->plain = !(valu_mods(in) & mods) && (isa_mode(x) & mode) == (mode & MODE_KEEPS);
	if (rnd && valu_unlikely(!v->plain)) {
		unsigned m = rnd == 32 ? valu_round32(x) : valu_round64(x);

		if (m)
			valu_set_round(v, m);
	}
}

/* A 32-bit source with abs and neg, without DPP and flushing. */
static inline void valu_src_sign(struct valu *v, unsigned i, enum valu_kind kind)
{
	unsigned code = v->in->src[i];
	v32u r = code >= OPR_VGPR0 ? *isa_vgpr(v->x, code)
				   : splat(valu_scalar(v->x, v->in, code, kind));

	r &= v->signs >> i & 0x100 ? 0x7fffffffu : ~0u;
	r ^= v->signs >> i & 1 ? 0x80000000u : 0u;
	v->t[i] = r;
}

/* Source i as a pointer to 32 dwords. half_bit: the op_sel bit that picks its half. */
static inline const v32u *valu_src_sel(struct valu *v, unsigned i, enum valu_kind kind,
				       unsigned half_bit)
{
	if (valu_likely(v->plain)) {
		unsigned code = v->in->src[i], r = code - OPR_VGPR0;

		if (kind == K_F32 || kind == K_M32) {
			if (valu_unlikely((v->signs >> i & 0x101) != 0)) {
				valu_src_sign(v, i, kind);
				return &v->t[i];
			}
		}
		if (valu_likely(r < v->nvgpr))
			return &v->base[r];
		if (code < OPR_NULL)
			v->t[i] = splat(v->x->w->s[code]);
		else if (code < OPR_VGPR0)
			v->t[i] = splat(valu_scalar(v->x, v->in, code, kind));
		else
			v->t[i] = v->base[0];
		return &v->t[i];
	}
	valu_src_slow(v, i, kind, half_bit);
	return &v->t[i];
}

static inline const v32u *valu_src(struct valu *v, unsigned i, enum valu_kind kind)
{
	return valu_src_sel(v, i, kind, i);
}

static inline v32q valu_src64(struct valu *v, unsigned i, bool is_float)
{
	unsigned r = v->in->src[i] - OPR_VGPR0;
	v32q q;

	if (valu_likely(v->plain && r + 1 < v->nvgpr && r < v->nvgpr))
		return q_join(v->base[r], v->base[r + 1]);
	valu_src64_slow(v, i, is_float, &q);
	return q;
}

/* A signed 64-bit source: a literal is sign-extended (RDNA3.5 ISA, "Literal expansion to 64 bits"). */
static inline v32l valu_src64_signed(struct valu *v, unsigned i)
{
	if (valu_unlikely(v->in->src[i] == OPR_LITERAL))
		return (v32l)(int64_t)(int32_t)v->in->literal;
	return (v32l)valu_src64(v, i, false);
}

/* f64 source with abs and neg, but no denormal flush. */
v32q valu_src64_bits(struct valu *v, unsigned i);

/* Lanes of mask m of a register. */
static inline void valu_write(v32u *d, uint32_t m, v32u r)
{
	if (!ISA_COMPILED && valu_likely(m == 0xffffffffu))
		*d = r;
	else
		*d = usel(isa_spread(m), r, *d);
}

/* A destination past the allocation is not written. */
static inline v32u *valu_dst(struct valu *v)
{
	unsigned r = v->in->dst - OPR_VGPR0;

	return valu_likely(r < v->nvgpr) ? &v->base[r] : &v->t[3];
}

/* 32-bit results, and 16-bit integer results (merged into the half op_sel[3] names). */
static inline void valu_out(struct valu *v, enum valu_kind kind, v32u r)
{
	if (valu_likely(v->plain)) {
		v32u *d = valu_dst(v);

		if (kind == K_B16)
			r = (*d & 0xffff0000u) | (r & 0xffffu);
		valu_write(d, v->exec, r);
	} else {
		valu_out_slow(v, kind, &r);
	}
}

/* An f16 result given in f32. It must be exact, rounded to odd, or need no second rounding. */
static inline void valu_out_f16(struct valu *v, v32f r)
{
	if (valu_likely(v->plain)) {
		v32u *d = valu_dst(v);

		valu_write(d, v->exec, (*d & 0xffff0000u) | f32_to_f16_rne(r));
	} else {
		valu_out_f16_slow(v, &r);
	}
}

/* The same rounded towards zero whatever MODE says. */
void valu_out_rtz16_at(struct valu *v, const v32f *r);

static inline void valu_out_rtz16(struct valu *v, v32f r)
{
	valu_out_rtz16_at(v, &r);
}

static inline void valu_out64(struct valu *v, bool is_float, v32q q)
{
	unsigned r = v->in->dst - OPR_VGPR0;

	if (valu_likely(v->plain && r + 1 < v->nvgpr && r < v->nvgpr)) {
		valu_write(&v->base[r], v->exec, q_lo(q));
		valu_write(&v->base[r + 1], v->exec, q_hi(q));
	} else {
		valu_out64_slow(v, is_float, &q);
	}
}

/* ---- shared meanings ------------------------------------------------------ */

/* min/max of the ISA: -0 < +0; a NaN loses against a number; with MODE.ieee a signalling NaN
 * wins and comes out quiet. */
v32f valu_minmax_nan(v32f a, v32f b, v32f r, bool ieee);

static inline v32f f32_max(v32f a, v32f b, bool ieee)
{
	v32f r = fsel(a == b, F(U(a) & U(b)), fsel(a > b, a, b));

	return valu_unlikely(valu_any((a != a) | (b != b))) ? valu_minmax_nan(a, b, r, ieee) : r;
}

static inline v32f f32_min(v32f a, v32f b, bool ieee)
{
	v32f r = fsel(a == b, F(U(a) | U(b)), fsel(a < b, a, b));

	return valu_unlikely(valu_any((a != a) | (b != b))) ? valu_minmax_nan(a, b, r, ieee) : r;
}

static inline bool valu_ieee(const struct isa_exec *x)
{
	return isa_mode(x) & MODE_IEEE;
}

v32f valu_med3_nan(v32f a, v32f b, v32f c, v32f r, bool ieee);

/* The larger of the two that are left without the maximum. Zeros of either sign are equal when that
 * is looked for, as in the manual. */
static inline v32f f32_med3(v32f a, v32f b, v32f c, bool ieee)
{
	v32f ab = f32_max(a, b, ieee), top = f32_max(ab, c, ieee);
	v32f r = fsel(top == a, f32_max(b, c, ieee), fsel(top == b, f32_max(a, c, ieee), ab));

	return valu_unlikely(valu_any((a != a) | (b != b) | (c != c)))
		       ? valu_med3_nan(a, b, c, r, ieee)
		       : r;
}

/* r = a + b rounded to nearest -> the same sum rounded to odd at 24 bits, so that one more
 * rounding to 11 bits in any direction is right. */
static inline v32f odd_fix(v32f r, v32f a, v32f b)
{
	/* The exact error of a + b (Knuth); meaningless for infinities, where r is kept. */
	v32f bb = r - a, e = (a - (r - bb)) + (b - bb);
	v32i inexact = (e != 0) & (e == e) & ((U(r) & 1u) == 0u);
	v32i away =
		(S(U(e) ^ U(r)) >> 31) == 0; /* error has r's sign: the odd neighbour is farther */

	return F(usel(inexact, usel(away, U(r) + 1u, U(r) - 1u), U(r)));
}

/* Whether f16 and f64 results round down: an exact zero sum is then -0 unless both terms are +0. */
static inline bool valu_down16(const struct valu *v)
{
	return valu_unlikely(!v->plain) && valu_round64(v->x) == 2;
}

static inline v32f f16_sum(v32f a, v32f b, bool down)
{
	v32f r = odd_fix(a + b, a, b);

	return down ? fsel(r == 0.0f, F((U(a) | U(b)) & 0x80000000u), r) : r;
}

/* a * b + c for f16 values held in f32: product exact, sum rounded to odd. */
static inline v32f f16_fma(v32f a, v32f b, v32f c, bool down)
{
	return f16_sum(a * b, c, down);
}

static inline v32f valu_fma(v32f a, v32f b, v32f c)
{
	return __builtin_elementwise_fma(a, b, c);
}

/* ---- wrappers -------------------------------------------------------------- */

#define VALU_SEM(NAME)                                                                             \
	void sem_##NAME(struct isa_exec *x, const struct isa_insn *in);                            \
	void sem_##NAME(struct isa_exec *x, const struct isa_insn *in)

#define VALU_SRCS(N, CAST, TYPE, K0, K1, K2)                                                       \
	const TYPE a = CAST(*valu_src(&v, 0, K0));                                                 \
	const TYPE b = (N) > 1 ? CAST(*valu_src(&v, 1, K1)) : a;                                   \
	const TYPE c = (N) > 2 ? CAST(*valu_src(&v, 2, K2)) : a;                                   \
	(void)b;                                                                                   \
	(void)c

/* 32-bit integers and bits. The expression honours in->clamp itself where the op has it. */
#define VOP_B32(NAME, N, ...)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_INT, 0, 0);                                             \
		VALU_SRCS(N, U, v32u, K_B32, K_B32, K_B32);                                        \
		valu_out(&v, K_B32, U(__VA_ARGS__));                                               \
	}

/* 16-bit integers; a, b, c carry rubbish above bit 15, as may the result. */
#define VOP_B16(NAME, N, ...)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_INT16, 0, 0);                                           \
		VALU_SRCS(N, U, v32u, K_B16, K_B16, K_B16);                                        \
		valu_out(&v, K_B16, U(__VA_ARGS__));                                               \
	}

/* f32 arithmetic: rounding by MODE.round[1:0]. */
#define VOP_F32(NAME, N, ...)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_F32, MODE_F32, 32);                                     \
		VALU_SRCS(N, F, v32f, K_F32, K_F32, K_F32);                                        \
		valu_out(&v, K_F32, U(__VA_ARGS__));                                               \
	}

/* The same for what picks one of its sources. Denormals obey the control of inputs alone (RDNA3.5
 * ISA, notes on V_MIN_F32). */
#define VOP_F32_PICK(NAME, N, ...)                                                                 \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_F32, MODE_F32, 0);                                      \
		v.selects = true;                                                                  \
		VALU_SRCS(N, F, v32f, K_F32, K_F32, K_F32);                                        \
		valu_out(&v, K_F32, U(__VA_ARGS__));                                               \
	}

/* f16 arithmetic in f32; the result as valu_out_f16() wants it. */
#define VOP_F16(NAME, N, ...)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT16, MODE_F64, 0);                                    \
		VALU_SRCS(N, f16_to_f32, v32f, K_F16, K_F16, K_F16);                               \
		valu_out_f16(&v, __VA_ARGS__);                                                     \
	}

/* f64 arithmetic: rounding by MODE.round[3:2]. */
#define VOP_F64(NAME, N, ...)                                                                      \
	VALU_SEM(NAME)                                                                             \
	{                                                                                          \
		struct valu v;                                                                     \
                                                                                                   \
		valu_begin(&v, x, in, MODS_FLT, MODE_F64, 64);                                     \
		const v32d a = (v32d)valu_src64(&v, 0, true);                                      \
		const v32d b = (N) > 1 ? (v32d)valu_src64(&v, 1, true) : a;                        \
		const v32d c = (N) > 2 ? (v32d)valu_src64(&v, 2, true) : a;                        \
		(void)b;                                                                           \
		(void)c;                                                                           \
		valu_out64(&v, true, (v32q)(__VA_ARGS__));                                         \
	}

#endif
