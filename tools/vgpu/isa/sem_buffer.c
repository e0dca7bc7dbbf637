/* Buffers: MUBUF and MTBUF.
 *
 * Source: AMD "RDNA3.5 Instruction Set Architecture", chapter "Vector memory buffer
 * instructions": descriptor, addressing, range checking; data formats as LLVM's
 * BUF_FMT_* numbers for gfx11. */
#include "isa/buffer.h"
#include "isa/sem.h"

#define FOR_LANES(l, mask)                                                                         \
	for (uint32_t m_ = (mask), l = 0; m_ && (l = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* ---- the descriptor ------------------------------------------------------ */

struct desc {
	uint64_t base;
	uint32_t stride, records;
	unsigned elem;         /* swizzle element in bytes, 0: linear */
	unsigned index_stride; /* swizzle: records that are interleaved */
	unsigned oob;          /* how the range is checked */
	unsigned format;
	uint8_t sel[4];
	bool add_tid;
	bool unbound; /* no format: loads give 0, stores go nowhere */
};

enum { OOB_STRUCTURED, OOB_INDEX, OOB_EMPTY, OOB_RAW };

static void desc_read(struct isa_exec *x, const struct isa_insn *in, struct desc *d)
{
	uint32_t w[4] = {0};
	unsigned swizzle;

	if (in->src[0] != OPR_NULL)
		for (unsigned i = 0; i < 4; i++)
			w[i] = isa_sread(x, in, in->src[0] + i);
	d->base = w[0] | (uint64_t)(w[1] & 0xffff) << 32;
	d->stride = w[1] >> 16 & 0x3fff;
	swizzle = w[1] >> 30;
	d->elem = swizzle ? 2u << swizzle : 0; /* 4, 8, 16 */
	d->records = w[2];
	for (unsigned i = 0; i < 4; i++)
		d->sel[i] = w[3] >> (3 * i) & 7;
	d->format = w[3] >> 12 & 63;
	d->index_stride = 8u << (w[3] >> 21 & 3);
	d->add_tid = w[3] >> 23 & 1;
	d->unbound = !d->format && !d->add_tid;
	d->oob = w[3] >> 28 & 3;
}

/* ---- addresses ----------------------------------------------------------- */

struct buf {
	struct desc d;
	uint64_t addr[VM_LANES];
	uint32_t offset[VM_LANES], index[VM_LANES];
	uint32_t soffset;
	uint32_t mask; /* active lanes */
	uint32_t data[5 * VM_LANES];
};

/* Lanes of which bytes [at, at + size) of the record lie in the buffer. */
static uint32_t in_range(const struct buf *b, uint32_t at, unsigned size)
{
	const struct desc *d = &b->d;
	uint32_t ok = 0;

	FOR_LANES(l, b->mask)
	{
		uint64_t end = (uint64_t)b->offset[l] + at + size;
		bool in = false;

		switch (d->oob == OOB_RAW && d->elem && d->stride ? OOB_STRUCTURED : d->oob) {
		case OOB_STRUCTURED:
			in = b->index[l] < d->records && end <= d->stride;
			break;
		case OOB_INDEX:
			in = b->index[l] < d->records;
			break;
		case OOB_EMPTY:
			in = d->records != 0;
			break;
		case OOB_RAW: /* an index still counts, times the stride */
			in = end + (uint64_t)b->index[l] * d->stride + b->soffset <= d->records;
			break;
		}
		ok |= (uint32_t)in << l;
	}
	return d->unbound ? 0 : ok;
}

static void addresses(struct isa_exec *x, const struct isa_insn *in, struct buf *b)
{
	unsigned reg = in->vaddr;

	desc_read(x, in, &b->d);
	b->mask = isa_exec_mask(x);
	b->soffset = isa_sread(x, in, in->saddr);
	for (unsigned l = 0; l < VM_LANES; l++) {
		b->index[l] = b->d.add_tid ? 32 * x->half + l : 0;
		b->offset[l] = (uint32_t)in->imm;
	}
	if (in->idxen) {
		const v32u v = *isa_vgpr(x, reg++);

		for (unsigned l = 0; l < VM_LANES; l++)
			b->index[l] += v[l];
	}
	if (in->offen) {
		const v32u v = *isa_vgpr(x, reg);

		for (unsigned l = 0; l < VM_LANES; l++)
			b->offset[l] += v[l];
	}
}

/* Address of byte `at` of each lane's record. */
static void place(struct buf *b, uint32_t at)
{
	const struct desc *d = &b->d;

	for (unsigned l = 0; l < VM_LANES; l++) {
		uint32_t off = b->offset[l] + at, i = b->index[l];
		uint64_t rel;

		if (!d->elem) {
			rel = (uint64_t)i * d->stride + off;
		} else {
			uint64_t msb = i / d->index_stride, lsb = i % d->index_stride;
			uint32_t omsb = off / d->elem * d->elem, olsb = off % d->elem;

			rel = (msb * d->stride + omsb) * d->index_stride + lsb * d->elem + olsb;
		}
		b->addr[l] = d->base + b->soffset + rel;
	}
}

/* Moves size bytes of each lane. Loads outside read 0. Dwords are placed one by one where a swizzled
 * buffer scatters them; they are checked one by one unless typed, where an element is all in range
 * or out of it (RDNA3.5 ISA, "Range checking"). */
static bool buf_access(struct isa_exec *x, const struct isa_insn *in, enum vm_op op, struct buf *b,
		       unsigned size, bool typed)
{
	bool singly = !typed && (b->d.oob == OOB_RAW || b->d.oob == OOB_STRUCTURED);
	unsigned step = b->d.elem || singly ? 4 : size, dwords = (size + 3) / 4;
	uint32_t all = in_range(b, 0, size);

	if (op == VM_LOAD)
		memset(b->data, 0, dwords * VM_LANES * 4);
	if (step >= size || (!b->d.elem && all == b->mask)) {
		place(b, 0);
		return !all || isa_vmem(x, in, op, b->addr, all, size, b->data);
	}
	for (unsigned c = 0; c < dwords; c++) {
		unsigned n = size - 4 * c < 4 ? size - 4 * c : 4;
		uint32_t mask = singly ? in_range(b, 4 * c, n) : all;

		place(b, 4 * c);
		if (mask && !isa_vmem(x, in, op, b->addr, mask, n, b->data + c * VM_LANES))
			return false;
	}
	return true;
}

/* ---- untyped ------------------------------------------------------------- */

/* TFE: one more register says whether the page was there; it was, or the wave has faulted. */
static void status_dword(struct isa_exec *x, const struct isa_insn *in, const struct buf *b,
			 unsigned dwords)
{
	if (in->tfe)
		isa_vwrite(x, in->dst + dwords, b->mask, (v32u){});
}

static void load(struct isa_exec *x, const struct isa_insn *in, unsigned size, enum isa_part part)
{
	unsigned dwords = (size + 3) / 4;
	struct buf b;

	addresses(x, in, &b);
	if (!buf_access(x, in, VM_LOAD, &b, size, false))
		return;
	isa_load_write(x, in->dst, b.mask, part, dwords, b.data);
	status_dword(x, in, &b, dwords);
}

static void store(struct isa_exec *x, const struct isa_insn *in, unsigned size, bool hi)
{
	struct buf b;

	addresses(x, in, &b);
	isa_store_data(x, in->vdata, (size + 3) / 4, hi, b.data);
	buf_access(x, in, VM_STORE, &b, size, false);
}

static void atomic(struct isa_exec *x, const struct isa_insn *in, enum vm_op op, unsigned size)
{
	bool cmp = op == VM_CMPSWAP || op == VM_FCMPSWAP;
	unsigned dwords = size / 4;
	struct buf b;
	uint32_t ok;

	addresses(x, in, &b);
	isa_store_data(x, in->vdata, cmp ? 2 * dwords : dwords, false, b.data);
	ok = in_range(&b, 0, size);
	place(&b, 0);
	if (ok && !isa_vmem(x, in, op, b.addr, ok, size, b.data))
		return;
	if (in->dst == OPR_NONE)
		return;
	for (unsigned c = 0; c < dwords; c++)
		FOR_LANES(l, b.mask & ~ok)
	b.data[c * VM_LANES + l] = 0;
	isa_load_write(x, in->dst, b.mask, PART_B32, dwords, b.data);
}

/* To LDS: M0 and the instruction's offset say where, a dword per lane. */
static void load_lds(struct isa_exec *x, const struct isa_insn *in, unsigned size,
		     enum isa_part part)
{
	uint32_t to[VM_LANES];
	struct buf b;
	v32u v;

	addresses(x, in, &b);
	if (!buf_access(x, in, VM_LOAD, &b, size, false))
		return;
	memcpy(&v, b.data, sizeof(v));
	if (part == PART_I8)
		v = (v32u)((v32i)(v << 24) >> 24);
	else if (part == PART_I16)
		v = (v32u)((v32i)(v << 16) >> 16);
	memcpy(b.data, &v, sizeof(v));
	for (unsigned l = 0; l < VM_LANES; l++)
		to[l] = (x->w->s[OPR_M0] & 0xffff) + (uint32_t)in->imm + 4 * (32 * x->half + l);
	isa_lds_access(x, VM_STORE, to, b.mask, 4, b.data);
}

#define LOAD(suffix, size, part)                                                                   \
	SEM(BUFFER_LOAD_##suffix)                                                                  \
	{                                                                                          \
		load(x, in, size, part);                                                           \
	}
#define STORE(suffix, size, hi)                                                                    \
	SEM(BUFFER_STORE_##suffix)                                                                 \
	{                                                                                          \
		store(x, in, size, hi);                                                            \
	}
#define ATOMIC(suffix, op, size)                                                                   \
	SEM(BUFFER_ATOMIC_##suffix)                                                                \
	{                                                                                          \
		atomic(x, in, op, size);                                                           \
	}
#include "isa/vmem.def"
ATOMIC(CSUB_U32, VM_CSUB, 4)

#define LOAD_LDS(suffix, size, part)                                                               \
	SEM(BUFFER_LOAD_LDS_##suffix)                                                              \
	{                                                                                          \
		load_lds(x, in, size, part);                                                       \
	}
LOAD_LDS(U8, 1, PART_U8)
LOAD_LDS(I8, 1, PART_I8)
LOAD_LDS(U16, 2, PART_U16)
LOAD_LDS(I16, 2, PART_I16)
LOAD_LDS(B32, 4, PART_B32)

SEM(BUFFER_GL0_INV)
{
	(void)in;
	isa_cache_inv(x, CACHE_GL0);
}

SEM(BUFFER_GL1_INV)
{
	(void)in;
	isa_cache_inv(x, CACHE_GL1);
}

/* ---- typed --------------------------------------------------------------- */

/* A component of the four as the selector asks; missing ones are 0, 0, 0, 1, of an element out of
 * range all 0. */
static uint32_t select_component(const struct buf_format *f, unsigned sel, const uint32_t c[4])
{
	if (sel == 1)
		return buf_one(f);
	return sel >= 4 ? c[sel - 4] : 0;
}

/* n: components the instruction names. how: registers of 32 bits, packed pairs of 16 bits, or
 * the one 16-bit component in the upper half. */
enum typed_regs { REGS_32, REGS_16, REGS_16_HI };

static bool fetch_typed(struct isa_exec *x, const struct isa_insn *in, struct buf *b,
			const struct buf_format **f)
{
	unsigned format;

	addresses(x, in, b);
	format = in->fmt == ISA_MTBUF ? in->format : b->d.format;
	if (b->d.unbound) /* nothing will be read of it: any format does */
		format = 1;
	*f = buf_format(format);
	if (!*f) { /* reserved: nothing to convert by */
		isa_halt(x, in, STOP_UNSUPPORTED);
		return false;
	}
	return true;
}

/* The four components of lane l's element. The instruction's own format goes with no selection: what
 * it has not is 0. */
static void components(const struct isa_insn *in, const struct buf *b, const struct buf_format *f,
		       uint32_t in_range_mask, unsigned l, uint32_t out[4])
{
	uint32_t raw[4], c[4] = {0};

	for (unsigned k = 0; k < 4; k++)
		raw[k] = 4 * k < buf_bytes(f) ? b->data[k * VM_LANES + l] : 0;
	if (in_range_mask >> l & 1)
		buf_unpack(f, raw, c);
	for (unsigned k = 0; k < 4; k++) {
		if (in->fmt == ISA_MTBUF)
			out[k] = k < f->n ? c[k] : 0;
		else
			out[k] = select_component(f, b->d.sel[k], c);
	}
}

static void load_typed(struct isa_exec *x, const struct isa_insn *in, unsigned n,
		       enum typed_regs how)
{
	uint32_t out[4 * VM_LANES] = {0}, ok;
	const struct buf_format *f;
	struct buf b;
	unsigned regs = how == REGS_32 ? n : (n + 1) / 2;

	if (!fetch_typed(x, in, &b, &f) || !buf_access(x, in, VM_LOAD, &b, buf_bytes(f), true))
		return;
	ok = in_range(&b, 0, buf_bytes(f));
	FOR_LANES(l, b.mask)
	{
		uint32_t c[4];

		components(in, &b, f, ok, l, c);
		for (unsigned k = 0; k < n; k++) {
			if (how == REGS_32)
				out[k * VM_LANES + l] = c[k];
			else
				out[k / 2 * VM_LANES + l] |= (uint32_t)buf_narrow(f, c[k])
							     << (k & 1 ? 16 : 0);
		}
	}
	if (how == REGS_32) {
		isa_load_write(x, in->dst, b.mask, PART_B32, regs, out);
	} else {
		/* An odd last component leaves the other half of its register alone. */
		isa_load_write(x, in->dst, b.mask, PART_B32, n / 2, out);
		if (n & 1)
			isa_load_write(x, in->dst + n / 2, b.mask,
				       how == REGS_16 ? PART_D16 : PART_D16_HI, 1,
				       out + n / 2 * VM_LANES);
	}
	status_dword(x, in, &b, regs);
}

static void store_typed(struct isa_exec *x, const struct isa_insn *in, unsigned n,
			enum typed_regs how)
{
	uint32_t from[4 * VM_LANES];
	const struct buf_format *f;
	struct buf b;

	if (!fetch_typed(x, in, &b, &f))
		return;
	isa_store_data(x, in->vdata, how == REGS_32 ? n : (n + 1) / 2, how == REGS_16_HI, from);
	FOR_LANES(l, b.mask)
	{
		uint32_t raw[4] = {0}, c[4] = {0};

		for (unsigned k = 0; k < n; k++)
			c[k] = how == REGS_32
				       ? from[k * VM_LANES + l]
				       : buf_widen(f, (uint16_t)(from[k / 2 * VM_LANES + l] >>
								 (k & 1 ? 16 : 0)));
		buf_pack(f, c, raw);
		for (unsigned k = 0; k < 4; k++)
			b.data[k * VM_LANES + l] = raw[k];
	}
	buf_access(x, in, VM_STORE, &b, buf_bytes(f), true);
}

#define TYPED(prefix)                                                                              \
	TYPED1(prefix, X, 1) TYPED1(prefix, XY, 2) TYPED1(prefix, XYZ, 3) TYPED1(prefix, XYZW, 4)
#define TYPED1(prefix, suffix, n)                                                                  \
	SEM(prefix##_LOAD_FORMAT_##suffix)                                                         \
	{                                                                                          \
		load_typed(x, in, n, REGS_32);                                                     \
	}                                                                                          \
	SEM(prefix##_LOAD_D16_FORMAT_##suffix)                                                     \
	{                                                                                          \
		load_typed(x, in, n, REGS_16);                                                     \
	}                                                                                          \
	SEM(prefix##_STORE_FORMAT_##suffix)                                                        \
	{                                                                                          \
		store_typed(x, in, n, REGS_32);                                                    \
	}                                                                                          \
	SEM(prefix##_STORE_D16_FORMAT_##suffix)                                                    \
	{                                                                                          \
		store_typed(x, in, n, REGS_16);                                                    \
	}
TYPED(BUFFER)
TYPED(TBUFFER)

SEM(BUFFER_LOAD_D16_HI_FORMAT_X)
{
	load_typed(x, in, 1, REGS_16_HI);
}

SEM(BUFFER_STORE_D16_HI_FORMAT_X)
{
	store_typed(x, in, 1, REGS_16_HI);
}

SEM(BUFFER_LOAD_LDS_FORMAT_X)
{
	const struct buf_format *f;
	uint32_t to[VM_LANES], ok;
	struct buf b;

	if (!fetch_typed(x, in, &b, &f) || !buf_access(x, in, VM_LOAD, &b, buf_bytes(f), true))
		return;
	ok = in_range(&b, 0, buf_bytes(f));
	FOR_LANES(l, b.mask)
	{
		uint32_t c[4];

		components(in, &b, f, ok, l, c);
		b.data[l] = c[0];
		to[l] = (x->w->s[OPR_M0] & 0xffff) + (uint32_t)in->imm + 4 * (32 * x->half + l);
	}
	isa_lds_access(x, VM_STORE, to, b.mask, 4, b.data);
}
