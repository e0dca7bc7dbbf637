/* LDS: the DS encoding.
 *
 * Source: AMD "RDNA3.5 Instruction Set Architecture", chapters "Data share operations" and DS.
 * Addresses are byte offsets into the workgroup's allocation; what lies outside reads 0 and is
 * not written. */
#include <immintrin.h>

#include "count/count.h"
#include "isa/sem.h"

struct ds {
	uint32_t mask;
	uint32_t off[VM_LANES];
	uint32_t data[4 * VM_LANES];
};

/* Lane addresses: VGPR plus a byte offset. */
static void address(struct isa_exec *x, const struct isa_insn *in, uint32_t offset, struct ds *d)
{
	v32u a = *isa_vgpr(x, in->src[0]) + offset;

	d->mask = isa_exec_mask(x);
	memcpy(d->off, &a, sizeof(a));
}

/* Registers code.. as they lie, when all dwords of them exist; else NULL. */
static uint32_t *direct(struct isa_exec *x, unsigned code, unsigned dwords)
{
	unsigned r = code - OPR_VGPR0;

	if (ISA_COMPILED || r + dwords > isa_nvgpr(x))
		return NULL;
	return (uint32_t *)&x->w->v[x->half * isa_nvgpr(x) + r];
}

static void load(struct isa_exec *x, const struct isa_insn *in, unsigned size, enum isa_part part)
{
	unsigned dwords = (size + 3) / 4;
	uint32_t *to;
	struct ds d;

	address(x, in, (uint16_t)in->imm, &d);
	to = part == PART_B32 ? direct(x, in->dst, dwords) : NULL;
	isa_lds_access(x, VM_LOAD, d.off, d.mask, size, to ? to : d.data);
	if (!to)
		isa_load_write(x, in->dst, d.mask, part, dwords, d.data);
}

static void store(struct isa_exec *x, const struct isa_insn *in, unsigned size, bool hi)
{
	unsigned dwords = (size + 3) / 4;
	uint32_t *from;
	struct ds d;

	address(x, in, (uint16_t)in->imm, &d);
	from = hi ? NULL : direct(x, in->src[1], dwords);
	if (!from)
		isa_store_data(x, in->src[1], dwords, hi, d.data);
	isa_lds_access(x, VM_STORE, d.off, d.mask, size, from ? from : d.data);
}

#define LOAD(name, size, part)                                                                     \
	SEM(name)                                                                                  \
	{                                                                                          \
		load(x, in, size, part);                                                           \
	}
LOAD(DS_LOAD_B32, 4, PART_B32)
LOAD(DS_LOAD_B64, 8, PART_B32)
LOAD(DS_LOAD_B96, 12, PART_B32)
LOAD(DS_LOAD_B128, 16, PART_B32)
LOAD(DS_LOAD_U8, 1, PART_U8)
LOAD(DS_LOAD_I8, 1, PART_I8)
LOAD(DS_LOAD_U16, 2, PART_U16)
LOAD(DS_LOAD_I16, 2, PART_I16)
LOAD(DS_LOAD_U8_D16, 1, PART_D16_U8)
LOAD(DS_LOAD_U8_D16_HI, 1, PART_D16_HI_U8)
LOAD(DS_LOAD_I8_D16, 1, PART_D16_I8)
LOAD(DS_LOAD_I8_D16_HI, 1, PART_D16_HI_I8)
LOAD(DS_LOAD_U16_D16, 2, PART_D16)
LOAD(DS_LOAD_U16_D16_HI, 2, PART_D16_HI)

#define STORE(name, size, hi)                                                                      \
	SEM(name)                                                                                  \
	{                                                                                          \
		store(x, in, size, hi);                                                            \
	}
STORE(DS_STORE_B8, 1, false)
STORE(DS_STORE_B16, 2, false)
STORE(DS_STORE_B32, 4, false)
STORE(DS_STORE_B64, 8, false)
STORE(DS_STORE_B96, 12, false)
STORE(DS_STORE_B128, 16, false)
STORE(DS_STORE_B8_D16_HI, 1, true)
STORE(DS_STORE_B16_D16_HI, 2, true)

/* ---- two addresses ------------------------------------------------------- */

/* offset0 and offset1 in units of an element, or of 64. */
static void address2(struct isa_exec *x, const struct isa_insn *in, unsigned i, unsigned unit,
		     struct ds *d)
{
	address(x, in, ((uint32_t)in->imm >> (8 * i) & 255) * unit, d);
}

static void load2(struct isa_exec *x, const struct isa_insn *in, unsigned size, unsigned unit)
{
	unsigned dwords = size / 4;
	struct ds d[2];

	/* both addresses before either result: the destination may hold the address */
	for (unsigned i = 0; i < 2; i++)
		address2(x, in, i, unit, &d[i]);
	for (unsigned i = 0; i < 2; i++) {
		isa_lds_access(x, VM_LOAD, d[i].off, d[i].mask, size, d[i].data);
		isa_load_write(x, in->dst + i * dwords, d[i].mask, PART_B32, dwords, d[i].data);
	}
}

static void store2(struct isa_exec *x, const struct isa_insn *in, unsigned size, unsigned unit)
{
	struct ds d;

	for (unsigned i = 0; i < 2; i++) {
		address2(x, in, i, unit, &d);
		isa_store_data(x, in->src[1 + i], size / 4, false, d.data);
		isa_lds_access(x, VM_STORE, d.off, d.mask, size, d.data);
	}
}

static void swap2(struct isa_exec *x, const struct isa_insn *in, unsigned size, unsigned unit)
{
	unsigned dwords = size / 4;
	struct ds d[2];

	for (unsigned i = 0; i < 2; i++) {
		address2(x, in, i, unit, &d[i]);
		isa_store_data(x, in->src[1 + i], dwords, false, d[i].data);
	}
	for (unsigned i = 0; i < 2; i++) {
		isa_lds_access(x, VM_SWAP, d[i].off, d[i].mask, size, d[i].data);
		isa_load_write(x, in->dst + i * dwords, d[i].mask, PART_B32, dwords, d[i].data);
	}
}

#define TWO(name, fn, size, unit)                                                                  \
	SEM(name)                                                                                  \
	{                                                                                          \
		fn(x, in, size, unit);                                                             \
	}
TWO(DS_LOAD_2ADDR_B32, load2, 4, 4)
TWO(DS_LOAD_2ADDR_B64, load2, 8, 8)
TWO(DS_LOAD_2ADDR_STRIDE64_B32, load2, 4, 256)
TWO(DS_LOAD_2ADDR_STRIDE64_B64, load2, 8, 512)
TWO(DS_STORE_2ADDR_B32, store2, 4, 4)
TWO(DS_STORE_2ADDR_B64, store2, 8, 8)
TWO(DS_STORE_2ADDR_STRIDE64_B32, store2, 4, 256)
TWO(DS_STORE_2ADDR_STRIDE64_B64, store2, 8, 512)
TWO(DS_STOREXCHG_2ADDR_RTN_B32, swap2, 4, 4)
TWO(DS_STOREXCHG_2ADDR_RTN_B64, swap2, 8, 8)
TWO(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B32, swap2, 4, 256)
TWO(DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64, swap2, 8, 512)

/* ---- atomics ------------------------------------------------------------- */

static void atomic(struct isa_exec *x, const struct isa_insn *in, enum vm_op op, unsigned size)
{
	unsigned dwords = size / 4;
	struct ds d;

	address(x, in, (uint16_t)in->imm, &d);
	isa_store_data(x, in->src[1], dwords, false, d.data);
	if (in->src[2] != OPR_NONE) /* compare-store: data1 is the comparand */
		isa_store_data(x, in->src[2], dwords, false, d.data + dwords * VM_LANES);
	isa_lds_access(x, op, d.off, d.mask, size, d.data);
	if (in->dst != OPR_NONE)
		isa_load_write(x, in->dst, d.mask, PART_B32, dwords, d.data);
}

#define ATOMIC(op, type, code, size)                                                               \
	SEM(DS_##op##_##type)                                                                      \
	{                                                                                          \
		atomic(x, in, code, size);                                                         \
	}                                                                                          \
	SEM(DS_##op##_RTN_##type)                                                                  \
	{                                                                                          \
		atomic(x, in, code, size);                                                         \
	}
#define ATOMICS(op, t, code) ATOMIC(op, t##32, code, 4) ATOMIC(op, t##64, code, 8)
ATOMICS(ADD, U, VM_ADD)
ATOMICS(SUB, U, VM_SUB)
ATOMICS(INC, U, VM_INC)
ATOMICS(DEC, U, VM_DEC)
ATOMICS(MIN, I, VM_SMIN)
ATOMICS(MAX, I, VM_SMAX)
ATOMICS(MIN, U, VM_UMIN)
ATOMICS(MAX, U, VM_UMAX)
ATOMICS(AND, B, VM_AND)
ATOMICS(OR, B, VM_OR)
ATOMICS(XOR, B, VM_XOR)
ATOMICS(CMPSTORE, B, VM_CMPSWAP)
ATOMICS(CMPSTORE, F, VM_FCMPSWAP)
ATOMICS(MIN, F, VM_FMIN)
ATOMICS(MAX, F, VM_FMAX)
ATOMIC(ADD, F32, VM_FADD, 4)

SEM(DS_STOREXCHG_RTN_B32)
{
	atomic(x, in, VM_SWAP, 4);
}

SEM(DS_STOREXCHG_RTN_B64)
{
	atomic(x, in, VM_SWAP, 8);
}

/* Operations LDS alone has: what each lane's new value is. */
static uint64_t rsub(uint64_t old, uint64_t a, uint64_t b)
{
	(void)b;
	return a - old;
}

static uint64_t mskor(uint64_t old, uint64_t a, uint64_t b)
{
	return (old & ~a) | b;
}

static uint64_t wrap(uint64_t old, uint64_t a, uint64_t b)
{
	return old >= a ? old - a : old + b;
}

/* Each dword is exchanged if the top bit of its data says so. */
static uint64_t condxchg(uint64_t old, uint64_t a, uint64_t b)
{
	uint64_t r = old;

	(void)b;
	if (a >> 31 & 1)
		r = (r & 0xffffffff00000000ull) | (a & 0x7fffffff);
	if (a >> 63)
		r = (r & 0xffffffffull) | (a & 0x7fffffff00000000ull);
	return r;
}

static void special(struct isa_exec *x, const struct isa_insn *in, unsigned size, uint32_t align,
		    uint64_t (*fn)(uint64_t old, uint64_t a, uint64_t b))
{
	unsigned dwords = size / 4;
	uint32_t old[2 * VM_LANES] = {0};
	struct ds d;

	address(x, in, (uint16_t)in->imm, &d);
	isa_store_data(x, in->src[1], dwords, false, d.data);
	if (in->src[2] != OPR_NONE)
		isa_store_data(x, in->src[2], dwords, false, d.data + 2 * VM_LANES);
#ifndef ISA_JIT
	if (__builtin_expect(x->count != NULL, 0))
		count_lds(x->count, VM_SWAP, d.off, d.mask, size);
#endif
	/* lanes in rising order: each sees what those below it did */
	for (unsigned l = 0; l < VM_LANES; l++) {
		uint64_t o = 0, a = d.data[l], b = 0, r;

		d.off[l] &= ~(align - 1);
		if (!(d.mask >> l & 1) || x->lds_size < size || d.off[l] > x->lds_size - size)
			continue;
		if (in->src[2] != OPR_NONE)
			b = d.data[2 * VM_LANES + l];
		if (size == 8) {
			a |= (uint64_t)d.data[VM_LANES + l] << 32;
			if (in->src[2] != OPR_NONE)
				b |= (uint64_t)d.data[3 * VM_LANES + l] << 32;
		}
		memcpy(&o, x->lds + d.off[l], size);
		r = fn(o, a, b);
		memcpy(x->lds + d.off[l], &r, size);
		old[l] = (uint32_t)o;
		old[VM_LANES + l] = (uint32_t)(o >> 32);
	}
	if (in->dst != OPR_NONE)
		isa_load_write(x, in->dst, d.mask, PART_B32, dwords, old);
}

#define SPECIAL(name, size, fn)                                                                    \
	SEM(name)                                                                                  \
	{                                                                                          \
		special(x, in, size, 1, fn);                                                       \
	}
SPECIAL(DS_RSUB_U32, 4, rsub)
SPECIAL(DS_RSUB_RTN_U32, 4, rsub)
SPECIAL(DS_RSUB_U64, 8, rsub)
SPECIAL(DS_RSUB_RTN_U64, 8, rsub)
SPECIAL(DS_MSKOR_B32, 4, mskor)
SPECIAL(DS_MSKOR_RTN_B32, 4, mskor)
SPECIAL(DS_MSKOR_B64, 8, mskor)
SPECIAL(DS_MSKOR_RTN_B64, 8, mskor)
SPECIAL(DS_WRAP_RTN_B32, 4, wrap)

SEM(DS_CONDXCHG32_RTN_B64)
{
	special(x, in, 8, 8, condxchg); /* its address is rounded down to 8 */
}

SEM(DS_NOP)
{
	(void)x;
	(void)in;
}

/* ---- the wave's own address ----------------------------------------------- */

/* One counter for the whole wave: add or subtract the number of active lanes, return the value
 * before. */
static void count(struct isa_exec *x, const struct isa_insn *in, int sign)
{
	struct isa_wave *w = x->w;
	uint64_t exec = w->wave64 ? w->exec : (uint32_t)w->exec;
	uint32_t off = (w->s[OPR_M0] & 0xffff) + (uint16_t)in->imm, old = 0, new;

#ifndef ISA_JIT
	if (__builtin_expect(x->count != NULL, 0))
		count_lds(x->count, VM_ADD, &off, 1, 4);
#endif
	if (x->lds_size >= 4 && off <= x->lds_size - 4) {
		memcpy(&old, x->lds + off, 4);
		new = old + (uint32_t)(sign * __builtin_popcountll(exec));
		memcpy(x->lds + off, &new, 4);
	}
	isa_vwrite(x, in->dst, isa_exec_mask(x), (v32u){} + old);
	if (w->wave64) {
		x->half = 1;
		isa_vwrite(x, in->dst, isa_exec_mask(x), (v32u){} + old);
		x->half = 0;
	}
}

SEM(DS_APPEND)
{
	count(x, in, 1);
}

SEM(DS_CONSUME)
{
	count(x, in, -1);
}

static void addtid(struct isa_exec *x, const struct isa_insn *in, struct ds *d)
{
	d->mask = isa_exec_mask(x);
	for (unsigned l = 0; l < VM_LANES; l++)
		d->off[l] = (x->w->s[OPR_M0] & 0xffff) + (uint16_t)in->imm + 4 * (32 * x->half + l);
}

SEM(DS_LOAD_ADDTID_B32)
{
	struct ds d;

	addtid(x, in, &d);
	isa_lds_access(x, VM_LOAD, d.off, d.mask, 4, d.data);
	isa_load_write(x, in->dst, d.mask, PART_B32, 1, d.data);
}

SEM(DS_STORE_ADDTID_B32)
{
	struct ds d;

	addtid(x, in, &d);
	isa_store_data(x, in->src[1], 1, false, d.data);
	isa_lds_access(x, VM_STORE, d.off, d.mask, 4, d.data);
}

/* ---- lane exchange: no memory -------------------------------------------- */

/* Lane l takes the value of lane from[l] & 31 if that one is active, else 0. */
static void exchange(struct isa_exec *x, const struct isa_insn *in, unsigned src, v32u from)
{
	union {
		v32u v;
		__m256i q[4];
	} s, f, r;
	uint32_t exec = isa_exec_mask(x);

	s.v = *isa_vgpr(x, src) & (v32u)isa_spread(exec);
	f.v = from & 31u;
	for (unsigned d = 0; d < 4; d++) {
		__m256i quarter = _mm256_srli_epi32(f.q[d], 3);

		r.q[d] = _mm256_permutevar8x32_epi32(s.q[0], f.q[d]);
		for (int k = 1; k < 4; k++)
			r.q[d] = _mm256_blendv_epi8(
				r.q[d], _mm256_permutevar8x32_epi32(s.q[k], f.q[d]),
				_mm256_cmpeq_epi32(quarter, _mm256_set1_epi32(k)));
	}
	isa_vwrite(x, in->dst, exec, r.v);
}

SEM(DS_BPERMUTE_B32)
{
	exchange(x, in, in->src[1], (*isa_vgpr(x, in->src[0]) + (uint16_t)in->imm) >> 2);
}

SEM(DS_PERMUTE_B32)
{
	v32u a = (*isa_vgpr(x, in->src[0]) + (uint16_t)in->imm) >> 2;
	v32u v = *isa_vgpr(x, in->src[1]), r = {};
	uint32_t exec = isa_exec_mask(x);

	/* of several lanes that send to one, the highest wins */
	for (unsigned l = 0; l < VM_LANES; l++)
		if (exec >> l & 1)
			r[a[l] & 31] = v[l];
	isa_vwrite(x, in->dst, exec, r);
}

static unsigned reverse5(unsigned i)
{
	return __builtin_bitreverse32(i) >> 27;
}

static unsigned swizzle_from(unsigned off, unsigned l)
{
	if (off >= 0xe000) { /* FFT */
		unsigned mask = off & 31;

		return ((reverse5(l) >> __builtin_popcount(mask)) | (l & mask)) & 31;
	}
	if (off >= 0xc000) { /* rotate within groups */
		unsigned mask = off & 31, n = off >> 5 & 31;

		return (l & mask) | ((off >> 10 & 1 ? l - n : l + n) & ~mask & 31);
	}
	if (off & 0x8000) /* any lane of the quad */
		return (l & ~3u) | (off >> (2 * (l & 3)) & 3);
	return ((l & off & 31) | (off >> 5 & 31)) ^ (off >> 10 & 31);
}

SEM(DS_SWIZZLE_B32)
{
	v32u from;

	for (unsigned l = 0; l < VM_LANES; l++)
		from[l] = swizzle_from((uint16_t)in->imm, l);
	exchange(x, in, in->src[0], from);
}
