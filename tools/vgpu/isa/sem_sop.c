/* Scalar ALU, integers: SOP1, SOP2, SOPC, SOPK.
 *
 * Source: AMD "RDNA3.5 Instruction Set Architecture", chapters SOP2, SOPK, SOP1, SOPC. */
#include "isa/sem.h"

#define A32  isa_sread(x, in, in->src[0])
#define B32  isa_sread(x, in, in->src[1])
#define A64  isa_sread64(x, in, in->src[0])
#define B64  isa_sread64(x, in, in->src[1])
#define AS64 isa_sread_i64(x, in, in->src[0])
#define BS64 isa_sread_i64(x, in, in->src[1])

/* Signed 64-bit source: a literal is sign-extended. */
static uint64_t isa_sread_i64(const struct isa_exec *x, const struct isa_insn *in, unsigned code)
{
	if (code == OPR_LITERAL)
		return (uint64_t)(int64_t)(int32_t)in->literal;
	return isa_sread64(x, in, code);
}

/* ---- SOP2 ---------------------------------------------------------------- */

#define ARITH(name, result, carry)                                                                 \
	SEM(name)                                                                                  \
	{                                                                                          \
		uint32_t a = A32, b = B32, cin = x->w->scc, r;                                     \
                                                                                                   \
		(void)cin;                                                                         \
		r = (uint32_t)(result);                                                            \
		isa_swrite(x, in->dst, r);                                                         \
		x->w->scc = (carry);                                                               \
	}
ARITH(S_ADD_U32, a + b, r < a)
ARITH(S_SUB_U32, a - b, b > a)
ARITH(S_ADD_I32, a + b, ((~(a ^ b) & (a ^ r)) >> 31))
ARITH(S_SUB_I32, a - b, (((a ^ b) & (a ^ r)) >> 31))
ARITH(S_ADDC_U32, a + b + cin, ((uint64_t)a + b + cin) >> 32)
ARITH(S_SUBB_U32, a - b - cin, (uint64_t)b + cin > a)
/* The difference wraps before its sign is looked at. */
ARITH(S_ABSDIFF_I32, (int32_t)(a - b) < 0 ? b - a : a - b, r != 0)
ARITH(S_LSHL1_ADD_U32, (a << 1) + b, (((uint64_t)a << 1) + b) >> 32 != 0)
ARITH(S_LSHL2_ADD_U32, (a << 2) + b, (((uint64_t)a << 2) + b) >> 32 != 0)
ARITH(S_LSHL3_ADD_U32, (a << 3) + b, (((uint64_t)a << 3) + b) >> 32 != 0)
ARITH(S_LSHL4_ADD_U32, (a << 4) + b, (((uint64_t)a << 4) + b) >> 32 != 0)
ARITH(S_MIN_I32, (int32_t)a < (int32_t)b ? a : b, (int32_t)a < (int32_t)b)
ARITH(S_MIN_U32, a < b ? a : b, a < b)
ARITH(S_MAX_I32, (int32_t)a >= (int32_t)b ? a : b, (int32_t)a >= (int32_t)b)
ARITH(S_MAX_U32, a >= b ? a : b, a >= b)
ARITH(S_LSHL_B32, a << (b & 31), r != 0)
ARITH(S_LSHR_B32, a >> (b & 31), r != 0)
ARITH(S_ASHR_I32, (int32_t)a >> (b & 31), r != 0)
ARITH(S_AND_B32, a &b, r != 0)
ARITH(S_OR_B32, a | b, r != 0)
ARITH(S_XOR_B32, a ^ b, r != 0)
ARITH(S_NAND_B32, ~(a &b), r != 0)
ARITH(S_NOR_B32, ~(a | b), r != 0)
ARITH(S_XNOR_B32, ~(a ^ b), r != 0)
ARITH(S_AND_NOT1_B32, a & ~b, r != 0)
ARITH(S_OR_NOT1_B32, a | ~b, r != 0)

/* Without SCC. */
#define PLAIN(name, result)                                                                        \
	SEM(name)                                                                                  \
	{                                                                                          \
		uint32_t a = A32, b = B32;                                                         \
                                                                                                   \
		isa_swrite(x, in->dst, (uint32_t)(result));                                        \
	}
PLAIN(S_BFM_B32, ((1u << (a & 31)) - 1) << (b & 31))
PLAIN(S_MUL_I32, a *b)
PLAIN(S_MUL_HI_U32, (uint64_t)a *b >> 32)
PLAIN(S_MUL_HI_I32, (uint64_t)((int64_t)(int32_t)a *(int32_t)b) >> 32)
PLAIN(S_PACK_LL_B32_B16, (a & 0xffff) | b << 16)
PLAIN(S_PACK_LH_B32_B16, (a & 0xffff) | (b & 0xffff0000))
PLAIN(S_PACK_HH_B32_B16, a >> 16 | (b & 0xffff0000))
PLAIN(S_PACK_HL_B32_B16, a >> 16 | b << 16)

SEM(S_CSELECT_B32)
{
	isa_swrite(x, in->dst, x->w->scc ? A32 : B32);
}

SEM(S_CSELECT_B64)
{
	isa_swrite64(x, in->dst, x->w->scc ? A64 : B64);
}

#define LOGIC64(name, result)                                                                      \
	SEM(name)                                                                                  \
	{                                                                                          \
		uint64_t a = A64, b = B64, r = (result);                                           \
                                                                                                   \
		isa_swrite64(x, in->dst, r);                                                       \
		x->w->scc = r != 0;                                                                \
	}
LOGIC64(S_AND_B64, a &b)
LOGIC64(S_OR_B64, a | b)
LOGIC64(S_XOR_B64, a ^ b)
LOGIC64(S_NAND_B64, ~(a &b))
LOGIC64(S_NOR_B64, ~(a | b))
LOGIC64(S_XNOR_B64, ~(a ^ b))
LOGIC64(S_AND_NOT1_B64, a & ~b)
LOGIC64(S_OR_NOT1_B64, a | ~b)

#define SHIFT64(name, src, result)                                                                 \
	SEM(name)                                                                                  \
	{                                                                                          \
		uint64_t a = src, r;                                                               \
		uint32_t b = B32;                                                                  \
                                                                                                   \
		r = (uint64_t)(result);                                                            \
		isa_swrite64(x, in->dst, r);                                                       \
		x->w->scc = r != 0;                                                                \
	}
SHIFT64(S_LSHL_B64, A64, a << (b & 63))
SHIFT64(S_LSHR_B64, A64, a >> (b & 63))
SHIFT64(S_ASHR_I64, AS64, (int64_t)a >> (b & 63))

SEM(S_BFM_B64)
{
	isa_swrite64(x, in->dst, ((1ull << (A32 & 63)) - 1) << (B32 & 63));
}

/* Bits [off, off + width) of a; width 0 gives 0, what lies beyond the top is absent. */
static uint64_t field(uint64_t a, unsigned off, unsigned width)
{
	a >>= off;
	return width >= 64 ? a : a & ((1ull << width) - 1);
}

SEM(S_BFE_U32)
{
	uint32_t b = B32, r = (uint32_t)field(A32, b & 31, b >> 16 & 127);

	isa_swrite(x, in->dst, r);
	x->w->scc = r != 0;
}

/* Sign-extends the low width bits. */
static uint64_t extend(uint64_t v, unsigned width)
{
	if (!width)
		return 0;
	if (width >= 64)
		return v;
	return (uint64_t)((int64_t)(v << (64 - width)) >> (64 - width));
}

SEM(S_BFE_I32)
{
	uint32_t b = B32, width = b >> 16 & 127, off = b & 31, r;

	r = (uint32_t)extend(field((uint64_t)(int64_t)(int32_t)A32, off, width), width);
	isa_swrite(x, in->dst, r);
	x->w->scc = r != 0;
}

SEM(S_BFE_U64)
{
	uint32_t b = B32;
	uint64_t r = field(A64, b & 63, b >> 16 & 127);

	isa_swrite64(x, in->dst, r);
	x->w->scc = r != 0;
}

SEM(S_BFE_I64)
{
	uint32_t b = B32, width = b >> 16 & 127, off = b & 63;
	/* Bits above the top are copies of the sign. */
	uint64_t a = (uint64_t)((int64_t)AS64 >> off), r = extend(a, width);

	isa_swrite64(x, in->dst, r);
	x->w->scc = r != 0;
}

/* ---- SOP1 ---------------------------------------------------------------- */

SEM(S_MOV_B32)
{
	isa_swrite(x, in->dst, A32);
}

SEM(S_MOV_B64)
{
	isa_swrite64(x, in->dst, A64);
}

SEM(S_CMOV_B32)
{
	if (x->w->scc)
		isa_swrite(x, in->dst, A32);
}

SEM(S_CMOV_B64)
{
	if (x->w->scc)
		isa_swrite64(x, in->dst, A64);
}

SEM(S_BREV_B32)
{
	isa_swrite(x, in->dst, __builtin_bitreverse32(A32));
}

SEM(S_BREV_B64)
{
	isa_swrite64(x, in->dst, __builtin_bitreverse64(A64));
}

SEM(S_CTZ_I32_B32)
{
	uint32_t a = A32;

	isa_swrite(x, in->dst, a ? (uint32_t)__builtin_ctz(a) : ~0u);
}

SEM(S_CTZ_I32_B64)
{
	uint64_t a = A64;

	isa_swrite(x, in->dst, a ? (uint32_t)__builtin_ctzll(a) : ~0u);
}

SEM(S_CLZ_I32_U32)
{
	uint32_t a = A32;

	isa_swrite(x, in->dst, a ? (uint32_t)__builtin_clz(a) : ~0u);
}

SEM(S_CLZ_I32_U64)
{
	uint64_t a = A64;

	isa_swrite(x, in->dst, a ? (uint32_t)__builtin_clzll(a) : ~0u);
}

/* How many top bits equal the sign; ~0 if all do. */
SEM(S_CLS_I32)
{
	uint32_t a = A32, d = a ^ (uint32_t)((int32_t)a >> 31);

	isa_swrite(x, in->dst, d ? (uint32_t)__builtin_clz(d) : ~0u);
}

SEM(S_CLS_I32_I64)
{
	uint64_t a = AS64, d = a ^ (uint64_t)((int64_t)a >> 63);

	isa_swrite(x, in->dst, d ? (uint32_t)__builtin_clzll(d) : ~0u);
}

SEM(S_SEXT_I32_I8)
{
	isa_swrite(x, in->dst, (uint32_t)(int32_t)(int8_t)A32);
}

SEM(S_SEXT_I32_I16)
{
	isa_swrite(x, in->dst, (uint32_t)(int32_t)(int16_t)A32);
}

SEM(S_BITSET0_B32)
{
	isa_swrite(x, in->dst, isa_sread(x, in, in->dst) & ~(1u << (A32 & 31)));
}

SEM(S_BITSET1_B32)
{
	isa_swrite(x, in->dst, isa_sread(x, in, in->dst) | 1u << (A32 & 31));
}

SEM(S_BITSET0_B64)
{
	isa_swrite64(x, in->dst, isa_sread64(x, in, in->dst) & ~(1ull << (A32 & 63)));
}

SEM(S_BITSET1_B64)
{
	isa_swrite64(x, in->dst, isa_sread64(x, in, in->dst) | 1ull << (A32 & 63));
}

SEM(S_BITREPLICATE_B64_B32)
{
	uint64_t r = 0;
	uint32_t a = A32;

	for (unsigned i = 0; i < 32; i++)
		r |= (uint64_t)(a >> i & 1) * 3 << (2 * i);
	isa_swrite64(x, in->dst, r);
}

#define UNARY(name, type, expr)                                                                    \
	SEM(name)                                                                                  \
	{                                                                                          \
		type a = (type)(sizeof(type) == 8 ? A64 : A32);                                    \
		uint32_t r = (uint32_t)(expr);                                                     \
                                                                                                   \
		isa_swrite(x, in->dst, r);                                                         \
		x->w->scc = r != 0;                                                                \
	}
UNARY(S_ABS_I32, uint32_t, (int32_t)a < 0 ? 0u - a : a)
UNARY(S_BCNT0_I32_B32, uint32_t, 32 - __builtin_popcount(a))
UNARY(S_BCNT1_I32_B32, uint32_t, __builtin_popcount(a))
UNARY(S_BCNT0_I32_B64, uint64_t, 64 - __builtin_popcountll(a))
UNARY(S_BCNT1_I32_B64, uint64_t, __builtin_popcountll(a))
UNARY(S_NOT_B32, uint32_t, ~a)

/* Bit 0 of each group of four: any of them. */
static uint64_t quads(uint64_t a)
{
	return (a | a >> 1 | a >> 2 | a >> 3) & 0x1111111111111111ull;
}

static uint64_t quadmask(uint64_t a)
{
	uint64_t r = 0;

	a = quads(a);
	for (unsigned i = 0; i < 16; i++)
		r |= (a >> (4 * i) & 1) << i;
	return r;
}

UNARY(S_QUADMASK_B32, uint32_t, quadmask(a))
UNARY(S_WQM_B32, uint32_t, quads(a) * 15)

#define UNARY64(name, expr)                                                                        \
	SEM(name)                                                                                  \
	{                                                                                          \
		uint64_t a = A64, r = (expr);                                                      \
                                                                                                   \
		isa_swrite64(x, in->dst, r);                                                       \
		x->w->scc = r != 0;                                                                \
	}
UNARY64(S_NOT_B64, ~a)
UNARY64(S_QUADMASK_B64, quadmask(a))
UNARY64(S_WQM_B64, quads(a) * 15)

/* EXEC = op(source, EXEC); the destination gets EXEC from before (SAVEEXEC) or after (WREXEC). */
#define SAVEEXEC(op, expr)                                                                         \
	SEM(S_##op##_SAVEEXEC_B32)                                                                 \
	{                                                                                          \
		uint32_t a = A32, e = (uint32_t)x->w->exec, r = (uint32_t)(expr);                  \
                                                                                                   \
		isa_swrite(x, in->dst, e);                                                         \
		isa_swrite(x, OPR_EXEC_LO, r);                                                     \
		x->w->scc = r != 0;                                                                \
	}                                                                                          \
	SEM(S_##op##_SAVEEXEC_B64)                                                                 \
	{                                                                                          \
		uint64_t a = A64, e = x->w->exec, r = (expr);                                      \
                                                                                                   \
		isa_swrite64(x, in->dst, e);                                                       \
		x->w->exec = r;                                                                    \
		x->w->scc = r != 0;                                                                \
	}
SAVEEXEC(AND, a &e)
SAVEEXEC(OR, a | e)
SAVEEXEC(XOR, a ^ e)
SAVEEXEC(NAND, ~(a &e))
SAVEEXEC(NOR, ~(a | e))
SAVEEXEC(XNOR, ~(a ^ e))
SAVEEXEC(AND_NOT0, ~a &e)
SAVEEXEC(OR_NOT0, ~a | e)
SAVEEXEC(AND_NOT1, a & ~e)
SAVEEXEC(OR_NOT1, a | ~e)

#define WREXEC(op, expr)                                                                           \
	SEM(S_##op##_WREXEC_B32)                                                                   \
	{                                                                                          \
		uint32_t a = A32, e = (uint32_t)x->w->exec, r = (uint32_t)(expr);                  \
                                                                                                   \
		isa_swrite(x, OPR_EXEC_LO, r);                                                     \
		isa_swrite(x, in->dst, r);                                                         \
		x->w->scc = r != 0;                                                                \
	}                                                                                          \
	SEM(S_##op##_WREXEC_B64)                                                                   \
	{                                                                                          \
		uint64_t a = A64, e = x->w->exec, r = (expr);                                      \
                                                                                                   \
		x->w->exec = r;                                                                    \
		isa_swrite64(x, in->dst, r);                                                       \
		x->w->scc = r != 0;                                                                \
	}
WREXEC(AND_NOT0, ~a &e)
WREXEC(AND_NOT1, a & ~e)

/* Relative moves: M0 is added to the register number. VCC belongs to the file (the kernel's trap
 * handler saves it so); out of it: register 0, as the hardware's bounds check does. */
static unsigned relative(unsigned code, uint32_t add, unsigned dwords)
{
	uint64_t r = (uint64_t)code + add;

	return r + dwords <= OPR_TTMP0 ? (unsigned)r : 0;
}

SEM(S_MOVRELS_B32)
{
	isa_swrite(x, in->dst, isa_sread(x, in, relative(in->src[0], x->w->s[OPR_M0], 1)));
}

SEM(S_MOVRELS_B64)
{
	isa_swrite64(x, in->dst, isa_sread64(x, in, relative(in->src[0], x->w->s[OPR_M0], 2)));
}

SEM(S_MOVRELD_B32)
{
	isa_swrite(x, relative(in->dst, x->w->s[OPR_M0], 1), A32);
}

SEM(S_MOVRELD_B64)
{
	isa_swrite64(x, relative(in->dst, x->w->s[OPR_M0], 2), A64);
}

SEM(S_MOVRELSD_2_B32)
{
	uint32_t m0 = x->w->s[OPR_M0];
	uint32_t v = isa_sread(x, in, relative(in->src[0], m0 & 0x3ff, 1));

	isa_swrite(x, relative(in->dst, m0 >> 16 & 0x3ff, 1), v);
}

/* ---- SOPC ---------------------------------------------------------------- */

#define COMPARE(name, type, get_a, get_b, expr)                                                    \
	SEM(name)                                                                                  \
	{                                                                                          \
		type a = (type)get_a, b = (type)get_b;                                             \
                                                                                                   \
		x->w->scc = (expr);                                                                \
	}
COMPARE(S_CMP_EQ_I32, int32_t, A32, B32, a == b)
COMPARE(S_CMP_LG_I32, int32_t, A32, B32, a != b)
COMPARE(S_CMP_GT_I32, int32_t, A32, B32, a > b)
COMPARE(S_CMP_GE_I32, int32_t, A32, B32, a >= b)
COMPARE(S_CMP_LT_I32, int32_t, A32, B32, a < b)
COMPARE(S_CMP_LE_I32, int32_t, A32, B32, a <= b)
COMPARE(S_CMP_EQ_U32, uint32_t, A32, B32, a == b)
COMPARE(S_CMP_LG_U32, uint32_t, A32, B32, a != b)
COMPARE(S_CMP_GT_U32, uint32_t, A32, B32, a > b)
COMPARE(S_CMP_GE_U32, uint32_t, A32, B32, a >= b)
COMPARE(S_CMP_LT_U32, uint32_t, A32, B32, a < b)
COMPARE(S_CMP_LE_U32, uint32_t, A32, B32, a <= b)
COMPARE(S_BITCMP0_B32, uint32_t, A32, B32, !(a >> (b & 31) & 1))
COMPARE(S_BITCMP1_B32, uint32_t, A32, B32, a >> (b & 31) & 1)
COMPARE(S_BITCMP0_B64, uint64_t, A64, B32, !(a >> (b & 63) & 1))
COMPARE(S_BITCMP1_B64, uint64_t, A64, B32, a >> (b & 63) & 1)
COMPARE(S_CMP_EQ_U64, uint64_t, A64, B64, a == b)
COMPARE(S_CMP_LG_U64, uint64_t, A64, B64, a != b)

/* ---- SOPK ---------------------------------------------------------------- */

SEM(S_MOVK_I32)
{
	isa_swrite(x, in->dst, (uint32_t)in->imm);
}

SEM(S_CMOVK_I32)
{
	if (x->w->scc)
		isa_swrite(x, in->dst, (uint32_t)in->imm);
}

SEM(S_VERSION)
{
	(void)x;
	(void)in;
}

#define COMPAREK(name, type, imm_type, expr)                                                       \
	SEM(name)                                                                                  \
	{                                                                                          \
		type a = (type)A32, b = (type)(imm_type)in->imm;                                   \
                                                                                                   \
		x->w->scc = (expr);                                                                \
	}
COMPAREK(S_CMPK_EQ_I32, int32_t, int16_t, a == b)
COMPAREK(S_CMPK_LG_I32, int32_t, int16_t, a != b)
COMPAREK(S_CMPK_GT_I32, int32_t, int16_t, a > b)
COMPAREK(S_CMPK_GE_I32, int32_t, int16_t, a >= b)
COMPAREK(S_CMPK_LT_I32, int32_t, int16_t, a < b)
COMPAREK(S_CMPK_LE_I32, int32_t, int16_t, a <= b)
COMPAREK(S_CMPK_EQ_U32, uint32_t, uint16_t, a == b)
COMPAREK(S_CMPK_LG_U32, uint32_t, uint16_t, a != b)
COMPAREK(S_CMPK_GT_U32, uint32_t, uint16_t, a > b)
COMPAREK(S_CMPK_GE_U32, uint32_t, uint16_t, a >= b)
COMPAREK(S_CMPK_LT_U32, uint32_t, uint16_t, a < b)
COMPAREK(S_CMPK_LE_U32, uint32_t, uint16_t, a <= b)

SEM(S_ADDK_I32)
{
	uint32_t a = A32, b = (uint32_t)in->imm, r = a + b;

	isa_swrite(x, in->dst, r);
	x->w->scc = (~(a ^ b) & (a ^ r)) >> 31;
}

SEM(S_MULK_I32)
{
	isa_swrite(x, in->dst, A32 * (uint32_t)in->imm);
}
