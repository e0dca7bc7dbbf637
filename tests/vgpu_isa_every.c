/* Every memory opcode once, in every address space that has it: loads and stores of all sizes and
 * halves, atomics of both widths, typed buffer accesses. What must come out is computed here. */
#include "isa_machine.h"

static void setup(void)
{
	m_init(false);
}

TestSuite(vgpu_isa_every, .init = setup, .fini = m_fini);

enum { OLD = 0xaaaabbbb, F_F16X4 = 57, F_U32 = 20 };

static uint64_t rng = 88172645463325252ull;

static uint32_t rnd(void)
{
	static const uint32_t corner[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 5, 6, 7};

	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng >> 40 & 3 ? (uint32_t)(rng >> 16) : corner[rng & 7];
}

/* A raw buffer over all of memory in s[4:7]. */
static void descriptor(unsigned format)
{
	M.w->s[4] = (uint32_t)M_MEM;
	M.w->s[5] = (uint32_t)(M_MEM >> 32);
	M.w->s[6] = M_MEM_BYTES;
	M.w->s[7] = 4 | 5 << 3 | 6 << 6 | 7 << 9 | format << 12 | 3u << 28;
}

/* v1: byte offsets; v[2:3] the address of the same in memory. */
static void offsets(unsigned step)
{
	for (unsigned l = 0; l < 32; l++) {
		uint64_t va = M_MEM + step * l;

		m_v(1)[l] = step * l;
		m_v(2)[l] = (uint32_t)va;
		m_v(3)[l] = (uint32_t)(va >> 32);
	}
}

static void fill(unsigned r, uint32_t v)
{
	for (unsigned l = 0; l < 32; l++)
		m_v(r)[l] = v;
}

/* ---- loads and stores ------------------------------------------------------ */

enum space { LDS, FLAT, GLOBAL, SCRATCH, BUFFER, SPACES };

/* Where byte off of lane l lies. */
static uint8_t *at(enum space s, unsigned l, unsigned off)
{
	if (s == LDS)
		return M.lds + 20 * l + off;
	if (s == SCRATCH)
		return M.scratch + (off & ~3u) * 32 + 4 * l + (off & 3);
	return M.mem + 20 * l + off;
}

static void emit(enum space s, unsigned op, unsigned reg, bool store)
{
	switch (s) {
	case LDS:
		e_ds(op, store ? 0 : reg, 1, store ? reg : 0, 0, 3);
		break;
	case FLAT:
		e_flat(op, 0, store ? 0 : reg, 2, store ? reg : 0, M_NULL, 3, false);
		break;
	case GLOBAL:
		e_flat(op, 2, store ? 0 : reg, 2, store ? reg : 0, M_NULL, 3, false);
		break;
	case SCRATCH:
		e_scratch(op, store ? 0 : reg, 0, store ? reg : 0, M_NULL, 3, false);
		break;
	default:
		e_mubuf(op, reg, 1, 4, M_NULL, 3, E_OFFEN, false);
		break;
	}
}

/* signed, to the upper half, kept: what becomes of the loaded bytes */
enum { SIGNED = 1, HALF = 2, UPPER = 4 };

struct access {
	unsigned op[SPACES];
	unsigned bytes, how;
};

#define ALL(ds, n)                                                                                 \
	{ISA_DS_LOAD_##ds, ISA_FLAT_LOAD_##n, ISA_GLOBAL_LOAD_##n, ISA_SCRATCH_LOAD_##n,           \
	 ISA_BUFFER_LOAD_##n}
#define STORES(ds, n)                                                                              \
	{ISA_DS_STORE_##ds, ISA_FLAT_STORE_##n, ISA_GLOBAL_STORE_##n, ISA_SCRATCH_STORE_##n,       \
	 ISA_BUFFER_STORE_##n}

static uint32_t loaded(const struct access *a, enum space s, unsigned l, unsigned dword)
{
	uint32_t v = 0;

	for (unsigned b = 4 * dword; b < a->bytes && b < 4 * dword + 4; b++)
		v |= (uint32_t)*at(s, l, 3 + b) << 8 * (b & 3);
	if (a->how & SIGNED && a->bytes < 4 && v >> (8 * a->bytes - 1))
		v |= ~0u << 8 * a->bytes;
	if (a->how & UPPER)
		return (OLD & 0xffffu) | v << 16;
	return a->how & HALF ? (OLD & 0xffff0000u) | (v & 0xffff) : v;
}

Test(vgpu_isa_every, load)
{
	static const struct access rows[] = {
		{ALL(U8, U8), 1, 0},
		{ALL(I8, I8), 1, SIGNED},
		{ALL(U16, U16), 2, 0},
		{ALL(I16, I16), 2, SIGNED},
		{ALL(B32, B32), 4, 0},
		{ALL(B64, B64), 8, 0},
		{ALL(B96, B96), 12, 0},
		{ALL(B128, B128), 16, 0},
		{ALL(U8_D16, D16_U8), 1, HALF},
		{ALL(I8_D16, D16_I8), 1, HALF | SIGNED},
		{ALL(U16_D16, D16_B16), 2, HALF},
		{ALL(U8_D16_HI, D16_HI_U8), 1, UPPER},
		{ALL(I8_D16_HI, D16_HI_I8), 1, UPPER | SIGNED},
		{ALL(U16_D16_HI, D16_HI_B16), 2, UPPER},
	};

	for (unsigned i = 0; i < 3000; i++)
		M.mem[i] = (uint8_t)(37 * i + 11);
	for (unsigned i = 0; i < 3000; i++)
		M.scratch[i] = (uint8_t)(91 * i + 5);
	for (unsigned i = 0; i < M_LDS_BYTES; i++)
		M.lds[i] = (uint8_t)(53 * i + 7);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (enum space s = 0; s < SPACES; s++) {
			descriptor(F_U32);
			offsets(20);
			for (unsigned r = 8; r < 12; r++)
				fill(r, OLD);
			M.w->exec = 0xffff7fff;
			emit(s, rows[i].op[s], 8, false);
			m_run_ok();
			cr_assert_eq(m_v(8)[15], (uint32_t)OLD, "an inactive lane");
			for (unsigned l = 0; l < 32; l++)
				for (unsigned d = 0; d < (rows[i].bytes + 3) / 4 && l != 15; d++)
					cr_assert_eq(m_v(8 + d)[l], loaded(&rows[i], s, l, d),
						     "%s lane %u dword %u: %#x, not %#x",
						     isa_op_name(rows[i].op[s]), l, d,
						     m_v(8 + d)[l], loaded(&rows[i], s, l, d));
		}
}

Test(vgpu_isa_every, store)
{
	static const struct access rows[] = {
		{STORES(B8, B8), 1, 0},
		{STORES(B16, B16), 2, 0},
		{STORES(B32, B32), 4, 0},
		{STORES(B64, B64), 8, 0},
		{STORES(B96, B96), 12, 0},
		{STORES(B128, B128), 16, 0},
		{STORES(B8_D16_HI, D16_HI_B8), 1, UPPER},
		{STORES(B16_D16_HI, D16_HI_B16), 2, UPPER},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (enum space s = 0; s < SPACES; s++) {
			memset(M.mem, 0x5a, 1024);
			memset(M.lds, 0x5a, 1024);
			memset(M.scratch, 0x5a, 4096);
			descriptor(F_U32);
			offsets(20);
			for (unsigned r = 8; r < 12; r++)
				for (unsigned l = 0; l < 32; l++)
					m_v(r)[l] = rnd();
			M.w->exec = 0xffff7fff;
			emit(s, rows[i].op[s], 8, true);
			m_run_ok();
			for (unsigned l = 0; l < 32; l++)
				for (unsigned b = 0; b < 17; b++) {
					unsigned sh = 8 * (b & 3) + (rows[i].how & UPPER ? 16 : 0);
					uint32_t want = 0x5a;

					if (l != 15 && b < rows[i].bytes)
						want = m_v(8 + b / 4)[l] >> sh & 255;
					cr_assert_eq(*at(s, l, 3 + b), want, "%s lane %u byte %u",
						     isa_op_name(rows[i].op[s]), l, b);
				}
		}
}

/* ---- atomics --------------------------------------------------------------- */

struct atomic {
	unsigned ds, rtn, flat, global, buffer; /* 0: has none */
	unsigned size;
	bool cmp, small; /* a comparand; operands are small floats */
	uint64_t (*ref)(uint64_t o, uint64_t d, uint64_t c);
};

#define S32(x) ((int32_t)(x))
#define S64(x) ((int64_t)(x))
#define U32(x) ((uint32_t)(x))
#define U64(x) (x)

static float fl(uint64_t u)
{
	uint32_t w = (uint32_t)u;
	float f;

	memcpy(&f, &w, 4);
	return f;
}

static double db(uint64_t u)
{
	double d;

	memcpy(&d, &u, 8);
	return d;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	float f = fl(a) + fl(b);
	uint32_t w;

	memcpy(&w, &f, 4);
	return w;
}

/* X(width suffix as in names, C suffix, size) of every integer operation */
/* clang-format off */
#define INTEGERS(X)                                                                                \
	X(ADD, U32, U32, 4, o + d)                                                                 \
	X(ADD, U64, U64, 8, o + d)                                                                 \
	X(SUB, U32, U32, 4, o - d)                                                                 \
	X(SUB, U64, U64, 8, o - d)                                                                 \
	X(INC, U32, U32, 4, U32(o) >= U32(d) ? 0 : o + 1)                                          \
	X(INC, U64, U64, 8, o >= d ? 0 : o + 1)                                                    \
	X(DEC, U32, U32, 4, !U32(o) || U32(o) > U32(d) ? d : o - 1)                                \
	X(DEC, U64, U64, 8, !o || o > d ? d : o - 1)                                               \
	X(MIN, I32, S32, 4, S32(d) < S32(o) ? d : o)                                               \
	X(MIN, I64, S64, 8, S64(d) < S64(o) ? d : o)                                               \
	X(MAX, I32, S32, 4, S32(d) > S32(o) ? d : o)                                               \
	X(MAX, I64, S64, 8, S64(d) > S64(o) ? d : o)                                               \
	X(MIN, U32, U32, 4, U32(d) < U32(o) ? d : o)                                               \
	X(MIN, U64, U64, 8, d < o ? d : o)                                                         \
	X(MAX, U32, U32, 4, U32(d) > U32(o) ? d : o)                                               \
	X(MAX, U64, U64, 8, d > o ? d : o)                                                         \
	X(AND, B32, U32, 4, o & d)                                                                 \
	X(AND, B64, U64, 8, o & d)                                                                 \
	X(OR, B32, U32, 4, o | d)                                                                  \
	X(OR, B64, U64, 8, o | d)                                                                  \
	X(XOR, B32, U32, 4, o ^ d)                                                                 \
	X(XOR, B64, U64, 8, o ^ d)
/* clang-format on */

#define REF(NAME, E)                                                                               \
	static uint64_t ref_##NAME(uint64_t o, uint64_t d, uint64_t c)                             \
	{                                                                                          \
		(void)o;                                                                           \
		(void)c;                                                                           \
		return (uint64_t)(E);                                                              \
	}
#define INT_REF(N, T, C, SIZE, E) REF(N##_##T, E)
INTEGERS(INT_REF)
REF(SWAP, d)
REF(CMP32, U32(o) == U32(c) ? d : o)
REF(CMP64, o == c ? d : o)
REF(RSUB, d - o)
REF(MSKOR, (o & ~d) | c)
REF(WRAP, U32(o) >= U32(d) ? o - d : o + c)
REF(CSUB, U32(o) < U32(d) ? 0 : o - d)
REF(FADD, sum(o, d))
REF(FMIN, fl(d) < fl(o) ? d : o)
REF(FMAX, fl(d) > fl(o) ? d : o)
REF(FCMP, fl(o) == fl(c) ? d : o)
REF(DMIN, db(d) < db(o) ? d : o)
REF(DMAX, db(d) > db(o) ? d : o)
REF(DCMP, db(o) == db(c) ? d : o)

#define VMEM(N, T)                                                                                 \
	ISA_FLAT_ATOMIC_##N##_##T, ISA_GLOBAL_ATOMIC_##N##_##T, ISA_BUFFER_ATOMIC_##N##_##T
#define BOTH(N, T)                ISA_DS_##N##_##T, ISA_DS_##N##_RTN_##T
#define INT_ROW(N, T, C, SIZE, E) {BOTH(N, T), VMEM(N, T), SIZE, false, false, ref_##N##_##T},

static const struct atomic atomics[] = {
	INTEGERS(INT_ROW){0, ISA_DS_STOREXCHG_RTN_B32, VMEM(SWAP, B32), 4, false, false, ref_SWAP},
	{0, ISA_DS_STOREXCHG_RTN_B64, VMEM(SWAP, B64), 8, false, false, ref_SWAP},
	{BOTH(CMPSTORE, B32), VMEM(CMPSWAP, B32), 4, true, false, ref_CMP32},
	{BOTH(CMPSTORE, B64), VMEM(CMPSWAP, B64), 8, true, false, ref_CMP64},
	{BOTH(RSUB, U32), 0, 0, 0, 4, false, false, ref_RSUB},
	{BOTH(RSUB, U64), 0, 0, 0, 8, false, false, ref_RSUB},
	{BOTH(MSKOR, B32), 0, 0, 0, 4, true, false, ref_MSKOR},
	{BOTH(MSKOR, B64), 0, 0, 0, 8, true, false, ref_MSKOR},
	{0, ISA_DS_WRAP_RTN_B32, 0, 0, 0, 4, true, false, ref_WRAP},
	{0, 0, 0, ISA_GLOBAL_ATOMIC_CSUB_U32, ISA_BUFFER_ATOMIC_CSUB_U32, 4, false, false,
	 ref_CSUB},
	{BOTH(ADD, F32), VMEM(ADD, F32), 4, false, true, ref_FADD},
	{BOTH(MIN, F32), VMEM(MIN, F32), 4, false, true, ref_FMIN},
	{BOTH(MAX, F32), VMEM(MAX, F32), 4, false, true, ref_FMAX},
	{BOTH(CMPSTORE, F32), VMEM(CMPSWAP, F32), 4, true, true, ref_FCMP},
	{BOTH(MIN, F64), 0, 0, 0, 8, false, true, ref_DMIN},
	{BOTH(MAX, F64), 0, 0, 0, 8, false, true, ref_DMAX},
	{BOTH(CMPSTORE, F64), 0, 0, 0, 8, true, true, ref_DCMP},
};

static uint64_t operand(const struct atomic *a)
{
	static const double some[] = {1, -1, 2.5, -2.5, 100, 0.125};
	double d = some[rnd() % 6];
	float f = (float)d;
	uint64_t u = 0;

	if (!a->small)
		return a->size == 4 ? rnd() : rnd() | (uint64_t)rnd() << 32;
	if (a->size == 4)
		memcpy(&u, &f, 4);
	else
		memcpy(&u, &d, 8);
	return u;
}

/* op on cells of 8 bytes, lane by lane, in the given space; glc: the old value comes back. */
static void check_atomic(const struct atomic *a, enum space s, unsigned op, bool glc)
{
	uint8_t *mem = s == LDS ? M.lds : M.mem;
	uint64_t o[32], d[32], c[32];
	unsigned n = a->size > 4 ? 2 : 1;

	descriptor(F_U32);
	offsets(8);
	for (unsigned l = 0; l < 32; l++) {
		o[l] = operand(a);
		d[l] = operand(a);
		c[l] = l & 1 ? o[l] : operand(a);
		memcpy(mem + 8 * l, &o[l], 8);
		for (unsigned k = 0; k < n; k++) {
			/* data in v8.., the comparand behind it; in LDS's data1 v12.. */
			m_v(8 + k)[l] = (uint32_t)(d[l] >> 32 * k);
			m_v((s == LDS ? 12 : 8 + n) + k)[l] = (uint32_t)(c[l] >> 32 * k);
			m_v(16 + k)[l] = OLD;
		}
	}
	M.w->exec = 0x7fffffff;
	if (s == LDS)
		e_ds(op, glc ? 16 : 0, 1, 8, a->cmp ? 12 : 0, 0);
	else if (s == BUFFER)
		e_mubuf(op, 8, 1, 4, M_NULL, 0, E_OFFEN, glc);
	else
		e_flat(op, s == FLAT ? 0 : 2, glc ? 16 : 0, 2, 8, M_NULL, 0, glc);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		uint64_t now, mask = a->size == 4 ? 0xffffffff : ~0ull, back = 0;
		uint64_t want = l < 31 ? a->ref(o[l], d[l], c[l]) & mask : o[l] & mask;

		memcpy(&now, mem + 8 * l, 8);
		cr_assert_eq(now & mask, want, "%s lane %u: (%#llx, %#llx, %#llx) %#llx, not %#llx",
			     isa_op_name(op), l, (unsigned long long)o[l], (unsigned long long)d[l],
			     (unsigned long long)c[l], (unsigned long long)(now & mask),
			     (unsigned long long)want);
		for (unsigned k = 0; k < n; k++)
			back |= (uint64_t)m_v((s == BUFFER ? 8 : 16) + k)[l] << 32 * k;
		if (glc && l < 31)
			cr_assert_eq(back, o[l] & mask, "%s lane %u: returned", isa_op_name(op), l);
	}
}

Test(vgpu_isa_every, atomic)
{
	for (unsigned i = 0; i < sizeof(atomics) / sizeof(*atomics); i++)
		for (unsigned turn = 0; turn < 8; turn++) {
			const struct atomic *a = &atomics[i];
			bool glc = turn & 1;

			if (a->ds && !glc)
				check_atomic(a, LDS, a->ds, false);
			if (a->rtn && glc)
				check_atomic(a, LDS, a->rtn, true);
			if (a->flat)
				check_atomic(a, FLAT, a->flat, glc);
			if (a->global) /* csub always returns */
				check_atomic(a, GLOBAL, a->global, glc || a->ref == ref_CSUB);
			if (a->buffer)
				check_atomic(a, BUFFER, a->buffer, glc || a->ref == ref_CSUB);
		}
}

/* Two exchanges in one instruction. */
Test(vgpu_isa_every, exchange_pairs)
{
	static const struct {
		unsigned op, dwords, unit;
	} rows[] = {
		{ISA_DS_STOREXCHG_2ADDR_RTN_B32, 1, 4},
		{ISA_DS_STOREXCHG_2ADDR_RTN_B64, 2, 8},
		{ISA_DS_STOREXCHG_2ADDR_STRIDE64_RTN_B32, 1, 256},
		{ISA_DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64, 2, 512},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		unsigned n = rows[i].dwords;

		for (unsigned b = 0; b < M_LDS_BYTES / 4; b++)
			memcpy(M.lds + 4 * b, &b, 4);
		fill(1, 8);
		for (unsigned r = 8; r < 16; r++)
			fill(r, 0x1000 + r);
		M.w->exec = 1;
		e_ds(rows[i].op, 16, 1, 8, 12, 1 | 3 << 8);
		m_run_ok();
		for (unsigned k = 0; k < 2; k++)
			for (unsigned j = 0; j < n; j++) {
				unsigned off = 8 + (k ? 3 : 1) * rows[i].unit + 4 * j;

				cr_assert_eq(m_v(16 + k * n + j)[0], off / 4);
				cr_assert_eq(m_lds32(off), 0x1000 + (k ? 12 : 8) + j);
			}
	}
}

/* ---- typed buffers --------------------------------------------------------- */

static const uint16_t half_of[4] = {0x3c00, 0xc000, 0x3800, 0x4400}; /* 1 -2 0.5 4 */
static const uint32_t float_of[4] = {0x3f800000, 0xc0000000, 0x3f000000, 0x40800000};

#define FOUR(P) {P##_X, P##_XY, P##_XYZ, P##_XYZW}
static const unsigned typed_loads[2][2][4] = {
	{FOUR(ISA_BUFFER_LOAD_FORMAT), FOUR(ISA_BUFFER_LOAD_D16_FORMAT)},
	{FOUR(ISA_TBUFFER_LOAD_FORMAT), FOUR(ISA_TBUFFER_LOAD_D16_FORMAT)}};
static const unsigned typed_stores[2][2][4] = {
	{FOUR(ISA_BUFFER_STORE_FORMAT), FOUR(ISA_BUFFER_STORE_D16_FORMAT)},
	{FOUR(ISA_TBUFFER_STORE_FORMAT), FOUR(ISA_TBUFFER_STORE_D16_FORMAT)}};

static void typed(bool t, unsigned op)
{
	descriptor(F_F16X4);
	offsets(8);
	if (t)
		e_mtbuf(op, 8, 1, 4, M_NULL, 0, E_OFFEN, F_F16X4);
	else
		e_mubuf(op, 8, 1, 4, M_NULL, 0, E_OFFEN, false);
	m_run_ok();
}

Test(vgpu_isa_every, typed_loads)
{
	for (unsigned l = 0; l < 32; l++)
		memcpy(M.mem + 8 * l, half_of, 8);
	for (unsigned i = 0; i < 16; i++) {
		unsigned t = i & 1, d16 = i >> 1 & 1, n = (i >> 2) + 1;

		for (unsigned r = 8; r < 12; r++)
			fill(r, OLD);
		typed(t, typed_loads[t][d16][n - 1]);
		for (unsigned k = 0; k < 4; k++) {
			uint32_t want = OLD;

			if (!d16 && k < n)
				want = float_of[k];
			for (unsigned h = 0; d16 && h < 2; h++)
				if (2 * k + h < n)
					want = (want & ~(0xffffu << 16 * h)) |
					       (uint32_t)half_of[2 * k + h] << 16 * h;
			cr_assert_eq(m_v(8 + k)[31], want, "%s register %u: %#x, not %#x",
				     isa_op_name(typed_loads[t][d16][n - 1]), k, m_v(8 + k)[31],
				     want);
		}
	}
	fill(8, OLD);
	typed(false, ISA_BUFFER_LOAD_D16_HI_FORMAT_X);
	cr_assert_eq(m_v(8)[3], 0x3c00bbbbu);
}

Test(vgpu_isa_every, typed_stores)
{
	for (unsigned i = 0; i < 16; i++) {
		unsigned t = i & 1, d16 = i >> 1 & 1, n = (i >> 2) + 1;

		for (unsigned k = 0; k < 4; k++)
			fill(8 + k, d16 && k < 2
					    ? half_of[2 * k] | (uint32_t)half_of[2 * k + 1] << 16
					    : float_of[k]);
		memset(M.mem, 0x5a, 512);
		typed(t, typed_stores[t][d16][n - 1]);
		for (unsigned k = 0; k < 4; k++) {
			uint16_t got;

			memcpy(&got, M.mem + 8 * 31 + 2 * k, 2);
			cr_assert_eq(got, k < n ? half_of[k] : 0, "%s component %u: %#x",
				     isa_op_name(typed_stores[t][d16][n - 1]), k, got);
		}
	}
	fill(8, 0x38001111);
	typed(false, ISA_BUFFER_STORE_D16_HI_FORMAT_X);
	cr_assert_eq(m_mem32(0) & 0xffff, 0x3800u);
}

/* A dword per lane in LDS, extended as the load says. */
Test(vgpu_isa_every, loads_to_lds)
{
	static const struct {
		unsigned op;
		uint32_t want;
	} rows[] = {
		{ISA_BUFFER_LOAD_LDS_U8, 0x83},        {ISA_BUFFER_LOAD_LDS_I8, 0xffffff83},
		{ISA_BUFFER_LOAD_LDS_U16, 0xc283},     {ISA_BUFFER_LOAD_LDS_I16, 0xffffc283},
		{ISA_BUFFER_LOAD_LDS_B32, 0x0001c283}, {ISA_BUFFER_LOAD_LDS_FORMAT_X, 0x0001c283},
	};
	const uint32_t v = 0x0001c283;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		for (unsigned l = 0; l < 32; l++)
			memcpy(M.mem + 8 * l, &v, 4);
		descriptor(F_U32);
		offsets(8);
		M.w->s[OPR_M0] = 64;
		e_mubuf(rows[i].op, 0, 1, 4, M_NULL, 0, E_OFFEN, false);
		m_run_ok();
		cr_assert_eq(m_lds32(64 + 4 * 31), rows[i].want, "%s", isa_op_name(rows[i].op));
	}
}

/* ---- the scalar side ------------------------------------------------------- */

Test(vgpu_isa_every, scalar_buffer_loads)
{
	static const struct {
		unsigned op, n;
	} rows[] = {{ISA_S_BUFFER_LOAD_B32, 1},
		    {ISA_S_BUFFER_LOAD_B64, 2},
		    {ISA_S_BUFFER_LOAD_B128, 4},
		    {ISA_S_BUFFER_LOAD_B256, 8},
		    {ISA_S_BUFFER_LOAD_B512, 16}};

	for (uint32_t i = 0; i < 64; i++)
		memcpy(M.mem + 4 * i, &i, 4);
	for (unsigned i = 0; i < 5; i++) {
		descriptor(F_U32);
		M.w->s[6] = 48; /* twelve dwords */
		M.w->s[8] = 8;
		memset(&M.w->s[16], 0xff, 4 * 20);
		e_smem(rows[i].op, 16, 4, 8, 4);
		m_run_ok();
		for (unsigned k = 0; k < 20; k++)
			cr_assert_eq(M.w->s[16 + k],
				     k >= rows[i].n ? ~0u
				     : 3 + k < 12   ? 3 + k
						    : 0,
				     "%s dword %u", isa_op_name(rows[i].op), k);
	}
}

Test(vgpu_isa_every, relative_moves_of_64_bits)
{
	m_set64(10, 0x1122334455667788);
	M.w->s[OPR_M0] = 4;
	e_sop1(ISA_S_MOVRELS_B64, 20, 6);
	e_sop1(ISA_S_MOVRELD_B64, 22, 10);
	m_run_ok();
	cr_assert(M.w->s[20] == 0x55667788 && M.w->s[21] == 0x11223344);
	cr_assert(M.w->s[26] == 0x55667788 && M.w->s[27] == 0x11223344);
}

/* STATUS's two debug conditions, alone and together. */
Test(vgpu_isa_every, debug_branches)
{
	static const unsigned op[4] = {ISA_S_CBRANCH_CDBGUSER, ISA_S_CBRANCH_CDBGSYS,
				       ISA_S_CBRANCH_CDBGSYS_OR_USER,
				       ISA_S_CBRANCH_CDBGSYS_AND_USER};

	for (unsigned state = 0; state < 4; state++)
		for (unsigned i = 0; i < 4; i++) {
			bool user = state & 1, sys = state & 2;
			bool taken = i == 0   ? user
				     : i == 1 ? sys
				     : i == 2 ? user || sys
					      : user && sys;

			M.w->status = state << 20;
			M.w->s[0] = 0;
			e_sopp(op[i], 1);
			e_sop1(ISA_S_MOV_B32, 0, 129);
			m_run_ok();
			cr_assert_eq(M.w->s[0], !taken, "%s in state %u", isa_op_name(op[i]),
				     state);
		}
}

static uint64_t answer(struct isa_exec *x, uint32_t msg)
{
	(void)x;
	return 0x1234567800000000ull | msg;
}

/* What ends or stops a wave, or asks somebody outside. */
Test(vgpu_isa_every, ends_and_messages)
{
	M.x.msg_rtn = answer;
	e_sop1(ISA_S_SENDMSG_RTN_B64, 10, 0x81); /* the field is the message */
	e_sop1(ISA_S_SENDMSG_RTN_B32, 12, 0x80);
	e_sopc(ISA_S_CMP_EQ_U32, 0, 0);
	e_sopp(ISA_S_CBRANCH_SCC0, 1);
	e_sop1(ISA_S_MOV_B32, 14, 129);
	e_sopc(ISA_S_CMP_LG_U32, 0, 0);
	e_sopp(ISA_S_CBRANCH_SCC0, 1);
	e_sop1(ISA_S_MOV_B32, 14, 130);
	e_sopp(ISA_S_SETKILL, 1);
	m_run();
	cr_assert(M.w->state == WAVE_ENDED && M.w->pc == M_CODE + 36);
	cr_assert(M.w->s[10] == 0x81 && M.w->s[11] == 0x12345678 && M.w->s[12] == 0x80,
		  "%#x %#x %#x", M.w->s[10], M.w->s[11], M.w->s[12]);
	cr_assert_eq(M.w->s[14], 1u, "one branch taken, one not");
	M.w->s[OPR_M0] = 7;
	e_sopp(ISA_S_SENDMSGHALT, 1);
	m_run();
	cr_assert(M.w->state == WAVE_HALTED && M.w->stop == STOP_NONE && M.msg == (1 | 7 << 16));
	e_sopp(ISA_S_CODE_END, 0);
	m_run();
	cr_assert(M.w->state == WAVE_HALTED && M.w->stop == STOP_ILLEGAL && M.w->pc == M_CODE);
}

/* What has no effect on registers, memory or the program counter. */
Test(vgpu_isa_every, hints)
{
	static const unsigned op[] = {
		ISA_S_NOP,          ISA_S_SET_INST_PREFETCH_DISTANCE,
		ISA_S_CLAUSE,       ISA_S_DELAY_ALU,
		ISA_S_WAIT_EVENT,   ISA_S_SINGLEUSE_VDST,
		ISA_S_WAKEUP,       ISA_S_SETPRIO,
		ISA_S_INCPERFLEVEL, ISA_S_DECPERFLEVEL,
		ISA_S_TTRACEDATA,   ISA_S_TTRACEDATA_IMM,
	};
	uint32_t s[ISA_SGPRS];
	v32u v[M_NVGPR];

	for (unsigned i = 0; i < 106; i++)
		M.w->s[i] = rnd();
	for (unsigned r = 0; r < M_NVGPR; r++)
		for (unsigned l = 0; l < 32; l++)
			m_v(r)[l] = rnd();
	memcpy(s, M.w->s, sizeof(s));
	memcpy(v, M.w->v, sizeof(v));
	for (unsigned i = 0; i < sizeof(op) / sizeof(*op); i++)
		e_sopp(op[i], 0);
	e_sopk(ISA_S_VERSION, 0, 0x1234);
	m_put(0x7e000000 | m_opcode(ISA_V_NOP) << 9);
	m_put(0x7e000000 | m_opcode(ISA_V_PIPEFLUSH) << 9);
	e_ds(ISA_DS_NOP, 0, 0, 0, 0, 0);
	e_smem(ISA_S_GL1_INV, 0, 0, M_NULL, 0);
	e_smem(ISA_S_DCACHE_INV, 0, 0, M_NULL, 0);
	e_smem(ISA_S_ATC_PROBE, 0, 0, M_NULL, 0);
	e_smem(ISA_S_ATC_PROBE_BUFFER, 0, 4, M_NULL, 0);
	e_mubuf(ISA_BUFFER_GL0_INV, 0, 0, 0, 0, 0, 0, false);
	e_mubuf(ISA_BUFFER_GL1_INV, 0, 0, 0, 0, 0, 0, false);
	m_run();
	cr_assert(M.w->state == WAVE_ENDED, "stopped at +0x%llx",
		  (unsigned long long)(M.w->pc - M_CODE));
	cr_assert(!memcmp(s, M.w->s, sizeof(s)) && !memcmp(v, M.w->v, sizeof(v)));
	e_sopp(ISA_S_ENDPGM_SAVED, 0);
	m_run();
	cr_assert(M.w->state == WAVE_ENDED && M.w->pc == M_CODE + 4);
}
