/* Wave matrix multiply-accumulate, 16 x 16 x 16.
 *
 * gfx11 layout, in dwords of a register:
 *	A	lane m (0..15) holds row m: f16/bf16 k = 2r, 2r + 1 in register r (8 registers); iu8
 *		k = 4r .. 4r + 3 (4); iu4 k = 8r .. 8r + 7 (2)
 *	B	lane n holds column n the same way
 *	C, D	wave32: register r (8), lane l: row 2r + l / 16, column l % 16
 *		wave64: register r (4), lane l: row 4r + l / 16, column l % 16
 * A and B are repeated in every group of 16 lanes; only the first is read here. EXEC plays no part.
 *
 * Float sums start with C and add the products k = 0 .. 15 in order, each step an fma rounded to
 * f32 (the products of f16 and of bf16 are exact there); f16 and bf16 results are rounded once at
 * the end. The manual leaves order and inner precision open: counted as approximated. Sums whose
 * every partial value f32 holds come out the same in any order.
 *
 * Loops that walk over registers are unrolled: compiled code keeps registers out of memory only if
 * no address of one is computed.
 */
#include "isa/valu.h"

#define EACH_REGISTER _Pragma("clang loop unroll(full)")

#define N 16

struct wmma {
	struct isa_exec *x;
	const struct isa_insn *in;
	v32u *half[2];
	bool wave64; /* read once: a store in between might be to it, for all a compiler knows */
};

static inline void wmma_begin(struct wmma *m, struct isa_exec *x, const struct isa_insn *in)
{
	m->x = x;
	m->in = in;
	m->half[0] = x->w->v;
	m->wave64 = x->w->wave64;
	m->half[1] = x->w->v + (m->wave64 ? isa_nvgpr(x) : 0);
}

/* Register code + i of a half; past the allocation v0, as everywhere. */
static inline v32u *reg(const struct wmma *m, unsigned half, unsigned code)
{
	unsigned r = code - OPR_VGPR0;

	return &m->half[half][r < isa_nvgpr(m->x) ? r : 0];
}

/* Where row `row` of C or D lies: 16 dwords. */
static inline uint32_t *row_at(const struct wmma *m, unsigned code, unsigned row)
{
	v32u *v = m->wave64 ? reg(m, row / 2 % 2, code + row / 4) : reg(m, 0, code + row / 2);

	return (uint32_t *)v + row % 2 * 16;
}

/* 16 dwords of lanes 0..15. */
static inline void lanes16(const v32u *v, __m256i out[2])
{
	out[0] = _mm256_loadu_si256((const __m256i *)v);
	out[1] = _mm256_loadu_si256((const __m256i *)v + 1);
}

/* Low or high 16 bits of 16 dwords, packed in lane order. */
static inline __m256i pack_halves(const __m256i d[2], bool hi)
{
	const __m256i mask = _mm256_set1_epi32(0xffff);
	__m256i a = hi ? _mm256_srli_epi32(d[0], 16) : _mm256_and_si256(d[0], mask);
	__m256i b = hi ? _mm256_srli_epi32(d[1], 16) : _mm256_and_si256(d[1], mask);

	return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
}

/* ---- floats ------------------------------------------------------------------------- */

static inline void widen_f16(__m256i h, __m256 out[2])
{
	out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(h));
	out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1));
}

static inline void widen_bf16(__m256i h, __m256 out[2])
{
	out[0] = _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(h)), 16));
	out[1] = _mm256_castsi256_ps(
		_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(h, 1)), 16));
}

/* Source i (A or B) as f32, k-major: t[k][lane]. neg acts on even k, neg_hi on odd k. */
static inline void load_ab(const struct wmma *m, unsigned i, bool bf16, float t[N][N])
{
	EACH_REGISTER
	for (unsigned r = 0; r < 8; r++) {
		__m256i d[2];

		lanes16(reg(m, 0, m->in->src[i] + r), d);
		for (unsigned odd = 0; odd < 2; odd++) {
			__m256i h = pack_halves(d, odd);
			__m256 f[2];

			if ((odd ? m->in->neg_hi : m->in->neg) >> i & 1)
				h = _mm256_xor_si256(h, _mm256_set1_epi16(-0x8000));
			if (bf16)
				widen_bf16(h, f);
			else
				widen_f16(h, f);
			_mm256_store_ps(&t[2 * r + odd][0], f[0]);
			_mm256_store_ps(&t[2 * r + odd][8], f[1]);
		}
	}
}

/* c += a b, four rows at a time: eight sums in registers. */
static inline void mac(float c[N][N], float a[N][N], float b[N][N])
{
	for (unsigned m = 0; m < N; m += 4) {
		__m256 s[4][2];

		for (unsigned r = 0; r < 4; r++) {
			s[r][0] = _mm256_load_ps(&c[m + r][0]);
			s[r][1] = _mm256_load_ps(&c[m + r][8]);
		}
		for (unsigned k = 0; k < N; k++) {
			__m256 b0 = _mm256_load_ps(&b[k][0]), b1 = _mm256_load_ps(&b[k][8]);

#pragma clang loop unroll(full)
			for (unsigned r = 0; r < 4; r++) {
				__m256 ar = _mm256_broadcast_ss(&a[k][m + r]);

				s[r][0] = _mm256_fmadd_ps(ar, b0, s[r][0]);
				s[r][1] = _mm256_fmadd_ps(ar, b1, s[r][1]);
			}
		}
		for (unsigned r = 0; r < 4; r++) {
			_mm256_store_ps(&c[m + r][0], s[r][0]);
			_mm256_store_ps(&c[m + r][8], s[r][1]);
		}
	}
}

/* C's modifiers: neg is neg, neg_hi is abs. */
static inline void c_mods(const struct wmma *m, float c[N][N])
{
	bool neg = m->in->neg & 4, abs = m->in->neg_hi & 4;

	if (valu_likely(!neg && !abs))
		return;
	for (unsigned i = 0; i < N * N; i++) {
		float f = (&c[0][0])[i];

		if (abs)
			f = __builtin_fabsf(f);
		(&c[0][0])[i] = neg ? -f : f;
	}
}

static inline void fill(float c[N][N], float f)
{
	for (unsigned i = 0; i < N * N; i++)
		(&c[0][0])[i] = f;
}

#define TILE _Alignas(64) float

/* f32 C and D. */
static inline void wmma_f32(struct isa_exec *x, const struct isa_insn *in, bool bf16)
{
	TILE a[N][N];
	TILE b[N][N];
	TILE c[N][N];
	struct wmma m;

	wmma_begin(&m, x, in);
	load_ab(&m, 0, bf16, a);
	load_ab(&m, 1, bf16, b);
	if (in->src[2] < OPR_VGPR0) {
		uint32_t s = isa_sread(x, in, in->src[2]);
		float f;

		memcpy(&f, &s, sizeof(f));
		fill(c, f);
	} else {
		EACH_REGISTER
		for (unsigned r = 0; r < N; r++)
			memcpy(c[r], row_at(&m, in->src[2], r), sizeof(c[r]));
	}
	c_mods(&m, c);
	mac(c, a, b);
	EACH_REGISTER
	for (unsigned r = 0; r < N; r++)
		memcpy(row_at(&m, in->dst, r), c[r], sizeof(c[r]));
	x->approximated++;
}

VALU_SEM(V_WMMA_F32_16X16X16_F16)
{
	wmma_f32(x, in, false);
}

VALU_SEM(V_WMMA_F32_16X16X16_BF16)
{
	wmma_f32(x, in, true);
}

/* f32 -> bf16, to nearest even. */
static inline uint32_t to_bf16(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	if (f != f)
		return u >> 16 | 0x40;
	return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

static inline uint32_t to_f16(float f)
{
	return (uint16_t)_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT),
					   0);
}

static inline float from16(uint32_t h, bool bf16)
{
	uint32_t u = h << 16;
	float f;

	if (!bf16)
		return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128((int)(h & 0xffff))));
	memcpy(&f, &u, sizeof(f));
	return f;
}

/* 16-bit C and D: op_sel[2] says which half of the registers; the other half of D stays. */
static inline void wmma_16(struct isa_exec *x, const struct isa_insn *in, bool bf16)
{
	unsigned shift = in->op_sel & 4 ? 16 : 0;
	TILE a[N][N];
	TILE b[N][N];
	TILE c[N][N];
	_Alignas(64) uint32_t d[N][N];
	struct wmma m;

	wmma_begin(&m, x, in);
	load_ab(&m, 0, bf16, a);
	load_ab(&m, 1, bf16, b);
	if (in->src[2] < OPR_VGPR0) {
		/* A bf16 inline float is the upper half of the f32 pattern. */
		uint32_t s = bf16 ? isa_sread(x, in, in->src[2]) : isa_sread16(x, in, in->src[2]);
		bool isf = in->src[2] >= 240 && in->src[2] <= 248;

		fill(c, from16(bf16 && isf ? s >> 16 : s, bf16));
	} else {
		EACH_REGISTER
		for (unsigned r = 0; r < N; r++)
			memcpy(d[r], row_at(&m, in->src[2], r), sizeof(d[r]));
		for (unsigned i = 0; i < N * N; i++)
			(&c[0][0])[i] = from16((&d[0][0])[i] >> shift & 0xffff, bf16);
	}
	c_mods(&m, c);
	mac(c, a, b);
	EACH_REGISTER
	for (unsigned r = 0; r < N; r++)
		memcpy(d[r], row_at(&m, in->dst, r), sizeof(d[r]));
	for (unsigned i = 0; i < N * N; i++) {
		float f = (&c[0][0])[i];
		uint32_t h = bf16 ? to_bf16(f) : to_f16(f), *p = &(&d[0][0])[i];

		*p = (*p & ~(0xffffu << shift)) | h << shift;
	}
	EACH_REGISTER
	for (unsigned r = 0; r < N; r++)
		memcpy(row_at(&m, in->dst, r), d[r], sizeof(d[r]));
	x->approximated++;
}

VALU_SEM(V_WMMA_F16_16X16X16_F16)
{
	wmma_16(x, in, false);
}

VALU_SEM(V_WMMA_BF16_16X16X16_BF16)
{
	wmma_16(x, in, true);
}

/* ---- integers ------------------------------------------------------------------------ */

/* Element k of a lane's row or column. */
static inline int32_t element(const uint32_t *lane, unsigned k, unsigned bits, bool sign)
{
	unsigned per = 32 / bits;
	uint32_t e = lane[k / per * 32] >> (k % per * bits) & ((1u << bits) - 1);

	return sign && e >> (bits - 1) ? (int32_t)(e | ~0u << bits) : (int32_t)e;
}

/* 16-bit pairs (k, k + 1): t[k / 2][lane]. The four registers lie one after the other. */
static inline void load_pairs(const struct wmma *m, unsigned i, unsigned bits, uint32_t t[N / 2][N])
{
	unsigned regs = bits / 2;
	bool sign = m->in->neg >> i & 1;
	_Alignas(64) uint32_t d[4 * 32];

	EACH_REGISTER
	for (unsigned r = 0; r < 4; r++)
		if (r < regs)
			memcpy(&d[r * 32], reg(m, 0, m->in->src[i] + r), 128);
	for (unsigned k = 0; k < N; k += 2)
		for (unsigned l = 0; l < N; l++)
			t[k / 2][l] = (uint32_t)(element(&d[l], k, bits, sign) & 0xffff) |
				      (uint32_t)element(&d[l], k + 1, bits, sign) << 16;
}

static inline __m256i add_sat(__m256i p, __m256i c, bool clamp)
{
	__m256i r = _mm256_add_epi32(p, c);
	__m256i over = _mm256_andnot_si256(_mm256_xor_si256(p, c), _mm256_xor_si256(p, r));
	__m256i bound = _mm256_xor_si256(_mm256_srai_epi32(c, 31), _mm256_set1_epi32(0x7fffffff));

	return clamp ? _mm256_blendv_epi8(r, bound, _mm256_srai_epi32(over, 31)) : r;
}

/* The sixteen products are summed exactly; only the addition of C wraps or saturates. */
static inline void wmma_int(struct isa_exec *x, const struct isa_insn *in, unsigned bits)
{
	_Alignas(64) uint32_t a[N / 2][N];
	_Alignas(64) uint32_t b[N / 2][N];
	_Alignas(64) uint32_t d[N][N];
	_Alignas(64) uint32_t c[N][N];
	struct wmma m;

	wmma_begin(&m, x, in);
	EACH_REGISTER
	for (unsigned r = 0; r < N; r++) {
		if (in->src[2] >= OPR_VGPR0)
			memcpy(c[r], row_at(&m, in->src[2], r), sizeof(c[r]));
		else
			for (unsigned n = 0; n < N; n++)
				c[r][n] = isa_sread(x, in, in->src[2]);
	}
	load_pairs(&m, 0, bits, a);
	load_pairs(&m, 1, bits, b);
	for (unsigned r = 0; r < N; r++) {
		__m256i s[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};

		for (unsigned k = 0; k < N / 2; k++) {
			__m256i ar = _mm256_set1_epi32((int)a[k][r]);

			for (unsigned j = 0; j < 2; j++)
				s[j] = _mm256_add_epi32(
					s[j],
					_mm256_madd_epi16(
						ar, _mm256_load_si256((__m256i *)&b[k][8 * j])));
		}
		for (unsigned j = 0; j < 2; j++)
			_mm256_store_si256((__m256i *)&d[r][8 * j],
					   add_sat(s[j], _mm256_load_si256((__m256i *)&c[r][8 * j]),
						   in->clamp));
	}
	EACH_REGISTER
	for (unsigned r = 0; r < N; r++)
		memcpy(row_at(&m, in->dst, r), d[r], sizeof(d[r]));
}

VALU_SEM(V_WMMA_I32_16X16X16_IU8)
{
	wmma_int(x, in, 8);
}

VALU_SEM(V_WMMA_I32_16X16X16_IU4)
{
	wmma_int(x, in, 4);
}
