/* What all vector memory semantics share: atomics, LDS bytes, partial registers. */
#include <immintrin.h>

#include "count/count.h"
#include "isa/sem.h"

#define ALL 0xffffffffu
#define FOR_LANES(l, mask)                                                                         \
	for (uint32_t m_ = (mask), l = 0; m_ && (l = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* ---- atomics ------------------------------------------------------------- */

/* Floats in LDS (RDNA3.5 ISA, chapter "Float memory atomics"): sums round to nearest; a signalling NaN
 * wins over everything and becomes quiet, a number wins over a quiet NaN; -0 < +0 for minimum and
 * maximum, -0 = +0 for compare-store. MODE's control of denormal inputs is for what is compared (the
 * winner is stored as it was), of both for a sum. f32 is worked on as f64, which holds it exactly. */
static bool snan(unsigned size, uint64_t v)
{
	if (size == 4)
		return (v & 0x7fffffff) > 0x7f800000 && !(v & 0x400000);
	return (v & 0x7fffffffffffffff) > 0x7ff0000000000000 && !(v & 0x8000000000000);
}

static uint64_t quiet(unsigned size, uint64_t v)
{
	return v | (size == 4 ? 0x400000 : 0x8000000000000);
}

static uint64_t flush(unsigned size, uint64_t v)
{
	if (size == 4)
		return v & 0x7f800000 ? v : v & 0x80000000;
	return v & 0x7ff0000000000000 ? v : v & 0x8000000000000000;
}

static double value(unsigned size, uint64_t v)
{
	uint32_t w = (uint32_t)v;
	double d;
	float f;

	if (size == 4) {
		memcpy(&f, &w, 4);
		return (double)f;
	}
	memcpy(&d, &v, 8);
	return d;
}

/* Whether a is on the wanted side of b; neither is signalling. */
static bool wins(unsigned size, uint64_t a, uint64_t b, bool max)
{
	double da = value(size, a), db = value(size, b);
	bool neg = a >> (8 * size - 1) & 1;

	if (db != db || da != da)
		return db != db;
	if (da == db)
		return max ? !neg : neg;
	return max ? da > db : da < db;
}

static uint64_t sum32(uint64_t old, uint64_t d)
{
	uint32_t a = (uint32_t)old, b = (uint32_t)d;
	float fa, fb;

	memcpy(&fa, &a, 4);
	memcpy(&fb, &b, 4);
	fa += fb;
	memcpy(&a, &fa, 4);
	return a;
}

static uint64_t float_op(enum vm_op op, unsigned size, unsigned denorm, uint64_t old, uint64_t d,
			 uint64_t c)
{
	uint64_t o = denorm & 1 ? old : flush(size, old), a = denorm & 1 ? d : flush(size, d), r;

	switch (op) {
	case VM_FADD: /* f32 alone has it */
		r = sum32(o, a);
		return denorm & 2 ? r : flush(4, r);
	case VM_FMIN:
	case VM_FMAX:
		if (snan(size, old))
			return quiet(size, old);
		if (snan(size, d))
			return quiet(size, d);
		return wins(size, a, o, op == VM_FMAX) ? d : old;
	default:
		c = denorm & 1 ? c : flush(size, c);
		return value(size, o) == value(size, c) ? a : old;
	}
}

uint64_t isa_atomic(enum vm_op op, unsigned size, unsigned denorm, uint64_t old, uint64_t d,
		    uint64_t c)
{
	int64_t so = size == 4 ? (int32_t)old : (int64_t)old;
	int64_t sd = size == 4 ? (int32_t)d : (int64_t)d;

	switch (op) {
	case VM_SWAP:
	case VM_STORE:
		return d;
	case VM_CMPSWAP:
		return old == c ? d : old;
	case VM_ADD:
		return old + d;
	case VM_SUB:
		return old - d;
	case VM_CSUB:
		return old < d ? 0 : old - d;
	case VM_SMIN:
		return sd < so ? d : old;
	case VM_SMAX:
		return sd > so ? d : old;
	case VM_UMIN:
		return d < old ? d : old;
	case VM_UMAX:
		return d > old ? d : old;
	case VM_AND:
		return old & d;
	case VM_OR:
		return old | d;
	case VM_XOR:
		return old ^ d;
	case VM_INC:
		return old >= d ? 0 : old + 1;
	case VM_DEC:
		return !old || old > d ? d : old - 1;
	case VM_FADD:
	case VM_FMIN:
	case VM_FMAX:
	case VM_FCMPSWAP:
		return float_op(op, size, denorm, old, d, c);
	case VM_LOAD:
	case VM_FETCH:
		break;
	}
	return old;
}

/* ---- LDS ----------------------------------------------------------------- */

static bool in_range(const struct isa_exec *x, uint32_t off, unsigned size)
{
	return off < x->lds_size && size <= x->lds_size - off;
}

static void lds_lane(struct isa_exec *x, enum vm_op op, uint32_t off, unsigned l, unsigned size,
		     uint32_t *data)
{
	unsigned dwords = (size + 3) / 4;
	uint8_t *at = x->lds + off;
	uint64_t old = 0, d, c = 0, r;

	if (op == VM_LOAD) {
		for (unsigned k = 0; k < dwords; k++) {
			unsigned n = size < 4 ? size : 4;
			uint32_t v = 0;

			/* a wide access that leaves LDS loses what lies outside */
			if (in_range(x, off + 4 * k, n))
				memcpy(&v, at + 4 * k, n);
			data[k * VM_LANES + l] = v;
		}
		return;
	}
	if (op == VM_STORE) {
		for (unsigned k = 0; k < dwords; k++) {
			unsigned n = size < 4 ? size : 4;

			if (in_range(x, off + 4 * k, n))
				memcpy(at + 4 * k, &data[k * VM_LANES + l], n);
		}
		return;
	}
	d = data[l];
	if (size == 8)
		d |= (uint64_t)data[VM_LANES + l] << 32;
	if (op == VM_CMPSWAP || op == VM_FCMPSWAP) {
		c = data[dwords * VM_LANES + l];
		if (size == 8)
			c |= (uint64_t)data[3 * VM_LANES + l] << 32;
	}
	if (in_range(x, off, size)) {
		memcpy(&old, at, size);
		r = isa_atomic(op, size, isa_mode(x) >> (size == 4 ? 4 : 6) & 3, old, d, c);
		memcpy(at, &r, size);
	}
	data[l] = (uint32_t)old;
	if (size == 8)
		data[VM_LANES + l] = (uint32_t)(old >> 32);
}

/* Dword loads of many lanes at once. */
static void lds_gather(const struct isa_exec *x, const uint32_t *off, uint32_t mask, unsigned size,
		       uint32_t *data)
{
	const int *base = (const int *)(const void *)x->lds;

	for (unsigned c = 0; c < size / 4; c++)
		for (unsigned g = 0; g < 4; g++) {
			__m256i a = _mm256_loadu_si256((const void *)(off + 8 * g));
			__m256i *d = (void *)(data + c * VM_LANES + 8 * g), v;

			a = _mm256_add_epi32(a, _mm256_set1_epi32((int)(4 * c)));
			if (mask == ALL) {
				v = _mm256_i32gather_epi32(base, a, 1);
			} else {
				__m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
				__m256i m = _mm256_set1_epi32((int)(mask >> (8 * g)));

				m = _mm256_cmpeq_epi32(_mm256_and_si256(m, bit), bit);
				v = _mm256_mask_i32gather_epi32(_mm256_loadu_si256(d), base, a, m,
								1);
			}
			_mm256_storeu_si256(d, v);
		}
}

/* Whether every lane of mask lies in LDS, and the lanes form one ascending run. */
static bool lds_all_in(const struct isa_exec *x, const uint32_t *off, uint32_t mask, unsigned size,
		       bool *run)
{
	v32u o, lane, first;
	v32i bad;

	if (x->lds_size < size)
		return false;
	memcpy(&o, off, sizeof(o));
	bad = (v32i)(o > x->lds_size - size) & isa_spread(mask);
	if (isa_gather(bad))
		return false;
	for (unsigned l = 0; l < 32; l++)
		lane[l] = l * size;
	first = (v32u){} + o[0];
	*run = mask == ALL && isa_gather((v32i)(o == first + lane)) == ALL;
	return true;
}

void isa_lds_access(struct isa_exec *x, enum vm_op op, const uint32_t *off, uint32_t mask,
		    unsigned size, uint32_t *data)
{
	bool run = false;

#ifndef ISA_JIT
	if (__builtin_expect(x->count != NULL, 0))
		count_lds(x->count, op, off, mask, size);
#endif
	if ((op == VM_LOAD || op == VM_STORE) && size >= 4 &&
	    lds_all_in(x, off, mask, size, &run)) {
		if (op == VM_LOAD) {
			if (run && size == 4)
				memcpy(data, x->lds + off[0], 128);
			else
				lds_gather(x, off, mask, size, data);
			return;
		}
		if (run && size == 4) {
			memcpy(x->lds + off[0], data, 128);
			return;
		}
		FOR_LANES(l, mask)
		for (unsigned c = 0; c < size / 4; c++)
			memcpy(x->lds + off[l] + 4 * c, &data[c * VM_LANES + l], 4);
		return;
	}
	FOR_LANES(l, mask)
	lds_lane(x, op, off[l], l, size, data);
}

/* ---- registers ----------------------------------------------------------- */

static v32u part(enum isa_part p, v32u v, v32u old)
{
	v32u lo = old & 0xffff0000u, hi = old & 0xffffu;

	switch (p) {
	case PART_B32:
		return v;
	case PART_U8:
		return v & 0xffu;
	case PART_I8:
		return (v32u)((v32i)(v << 24) >> 24);
	case PART_U16:
		return v & 0xffffu;
	case PART_I16:
		return (v32u)((v32i)(v << 16) >> 16);
	case PART_D16:
		return lo | (v & 0xffffu);
	case PART_D16_HI:
		return hi | v << 16;
	case PART_D16_U8:
		return lo | (v & 0xffu);
	case PART_D16_I8:
		return lo | ((v32u)((v32i)(v << 24) >> 24) & 0xffffu);
	case PART_D16_HI_U8:
		return hi | (v & 0xffu) << 16;
	case PART_D16_HI_I8:
		return hi | (v32u)((v32i)(v << 24) >> 24) << 16;
	}
	return v;
}

void isa_load_write(struct isa_exec *x, unsigned code, uint32_t mask, enum isa_part p,
		    unsigned dwords, const uint32_t *data)
{
	for (unsigned c = 0; c < dwords; c++) {
		v32u v;

		memcpy(&v, data + c * VM_LANES, sizeof(v));
		if (p != PART_B32)
			v = part(p, v, *isa_vgpr(x, code + c));
		isa_vwrite(x, code + c, mask, v);
	}
}

void isa_store_data(const struct isa_exec *x, unsigned code, unsigned dwords, bool hi,
		    uint32_t *data)
{
	for (unsigned c = 0; c < dwords; c++) {
		v32u v = *isa_vgpr(x, code + c);

		if (hi)
			v >>= 16;
		memcpy(data + c * VM_LANES, &v, sizeof(v));
	}
}
