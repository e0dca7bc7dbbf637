/* FLAT, GLOBAL, SCRATCH.
 *
 * Source: AMD "RDNA3.5 Instruction Set Architecture", chapter "Flat memory instructions"; scratch
 * layout as LLVM's AMDGPUUsage, "Private segment": dwords of the lanes interleaved. */
#include "isa/sem.h"
#include "vm/door.h"

struct flat {
	uint64_t addr[VM_LANES];
	uint32_t mask;
	uint32_t data[4 * VM_LANES] __attribute__((aligned(128)));
};

#define FOR_LANES(l, mask)                                                                         \
	for (uint32_t m_ = (mask), l = 0; m_ && (l = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)

static uint32_t *direct(struct isa_exec *x, unsigned code, unsigned dwords)
{
	unsigned r = code - OPR_VGPR0;

	if (ISA_COMPILED || r + dwords > isa_nvgpr(x))
		return NULL;
	return (uint32_t *)&x->w->v[x->half * isa_nvgpr(x) + r];
}

/* ---- scratch ------------------------------------------------------------- */

/* Byte at offset off of lane l's scratch. */
static uint64_t swizzle(const struct isa_exec *x, uint32_t off, unsigned l)
{
	unsigned lanes = x->w->wave64 ? 64 : 32, lane = 32 * x->half + l;

	return x->w->flat_scratch + (uint64_t)(off & ~3u) * lanes + 4 * lane + (off & 3);
}

/* Accesses scratch at byte offsets, a dword (or less) at a time, as it is interleaved. */
static bool scratch_access(struct isa_exec *x, const struct isa_insn *in, enum vm_op op,
			   const uint32_t *off, uint32_t mask, unsigned size, uint32_t *data)
{
	unsigned piece = size < 4 ? size : 4;
	uint64_t addr[VM_LANES];
	bool crosses = false;

	FOR_LANES(l, mask)
	{
		if (off[l] & (piece - 1))
			crosses = true;
		if (off[l] >= x->w->scratch_lane_bytes ||
		    size > x->w->scratch_lane_bytes - off[l]) {
			/* outside the lane's segment lies another wave's */
			x->vmem->fault = (struct vm_fault){
				.va = gva(swizzle(x, off[l], l)),
				.lanes = 1u << l,
				.client = x->vmem->client,
				.write = op != VM_LOAD,
				.not_present = true,
			};
			isa_halt(x, in, STOP_MEM_FAULT);
			return false;
		}
	}
	if (op != VM_LOAD && op != VM_STORE) {
		/* An atomic's bytes lie together only within a dword. */
		if (size != 4 || crosses) {
			isa_halt(x, in, STOP_UNSUPPORTED);
			return false;
		}
		FOR_LANES(l, mask)
		addr[l] = swizzle(x, off[l], l);
		return isa_vmem(x, in, op, addr, mask, size, data);
	}
	if (crosses) { /* misaligned: byte by byte */
		uint32_t byte[VM_LANES];

		for (unsigned b = 0; b < size; b++) {
			uint32_t *d = data + b / 4 * VM_LANES;

			FOR_LANES(l, mask)
			{
				addr[l] = swizzle(x, off[l] + b, l);
				byte[l] = d[l] >> (b & 3) * 8 & 0xff;
			}
			if (!isa_vmem(x, in, op, addr, mask, 1, byte))
				return false;
			if (op != VM_LOAD)
				continue;
			FOR_LANES(l, mask)
			d[l] = ((b & 3) ? d[l] : 0) | byte[l] << (b & 3) * 8;
		}
		return true;
	}
	for (unsigned c = 0; c < (size + 3) / 4; c++) {
		FOR_LANES(l, mask)
		addr[l] = swizzle(x, off[l] + 4 * c, l);
		if (!isa_vmem(x, in, op, addr, mask, piece, data + c * VM_LANES))
			return false;
	}
	return true;
}

static void scratch_offsets(struct isa_exec *x, const struct isa_insn *in, uint32_t *off)
{
	v32u o = (v32u){} + (uint32_t)in->imm;

	if (in->saddr != OPR_NONE)
		o += isa_sread(x, in, in->saddr);
	if (in->vaddr != OPR_NONE)
		o += *isa_vgpr(x, in->vaddr);
	memcpy(off, &o, sizeof(o));
}

/* ---- addresses ----------------------------------------------------------- */

static void pair(const struct isa_exec *x, unsigned code, uint64_t add, uint64_t *addr)
{
	const uint32_t *lo = (const uint32_t *)isa_vgpr(x, code);
	const uint32_t *hi = (const uint32_t *)isa_vgpr(x, code + 1);

	for (unsigned l = 0; l < VM_LANES; l++)
		addr[l] = (lo[l] | (uint64_t)hi[l] << 32) + add;
}

static void addresses(struct isa_exec *x, const struct isa_insn *in, struct flat *f)
{
	uint64_t base = (uint64_t)(int64_t)in->imm;

	f->mask = isa_exec_mask(x);
	if (in->saddr == OPR_NONE) {
		pair(x, in->vaddr, base, f->addr);
	} else {
		const uint32_t *v = (const uint32_t *)isa_vgpr(x, in->vaddr);

		base += isa_sread64(x, in, in->saddr);
		for (unsigned l = 0; l < VM_LANES; l++)
			f->addr[l] = base + v[l];
	}
}

/* ---- one access ---------------------------------------------------------- */

/* Flat: lanes whose address lies in an aperture are LDS or scratch, the rest memory. */
static bool flat_access(struct isa_exec *x, const struct isa_insn *in, enum vm_op op,
			struct flat *f, unsigned size, uint32_t *data)
{
	uint32_t shared_hi = (uint32_t)(x->shared_base >> 32), off[VM_LANES];
	uint32_t private_hi = (uint32_t)(x->private_base >> 32);
	uint32_t lds = 0, scratch = 0;

	/* The aperture is judged by the whole address, offset included. */
	for (unsigned l = 0; l < VM_LANES; l++) {
		uint32_t hi = (uint32_t)(f->addr[l] >> 32);

		lds |= (uint32_t)(hi == shared_hi) << l;
		scratch |= (uint32_t)(hi == private_hi) << l;
	}
	lds = x->shared_base ? lds & f->mask : 0;
	scratch = x->private_base ? scratch & f->mask : 0;
	if (__builtin_expect(!(lds | scratch), 1))
		return isa_vmem(x, in, op, f->addr, f->mask, size, data);
	for (unsigned l = 0; l < VM_LANES; l++)
		off[l] = (uint32_t)f->addr[l];
	if (lds)
		isa_lds_access(x, op, off, lds, size, data);
	if (scratch && !scratch_access(x, in, op, off, scratch, size, data))
		return false;
	f->mask &= ~(lds | scratch);
	if (f->mask && !isa_vmem(x, in, op, f->addr, f->mask, size, data))
		return false;
	f->mask |= lds | scratch;
	return true;
}

static inline bool move(struct isa_exec *x, const struct isa_insn *in, enum vm_op op,
			struct flat *f, unsigned size, uint32_t *data)
{
	if (in->fmt == ISA_FLAT)
		return flat_access(x, in, op, f, size, data);
	if (in->fmt == ISA_SCRATCH) {
		uint32_t off[VM_LANES];

		f->mask = isa_exec_mask(x);
		scratch_offsets(x, in, off);
		return scratch_access(x, in, op, off, f->mask, size, data);
	}
	return isa_vmem(x, in, op, f->addr, f->mask, size, data);
}

/* The addresses of a full wave as lane 0's and distances from it. False: not all lanes are on, or
 * they are further apart than 32 bits say. (Apertures are never mapped, so flat is no different.)
 */
static inline bool near(struct isa_exec *x, const struct isa_insn *in, uint64_t *va, v32u *off)
{
	v32u v = *isa_vgpr(x, in->vaddr), hi;

	if (in->fmt == ISA_SCRATCH || isa_exec_mask(x) != 0xffffffffu)
		return false;
	*va = (uint64_t)(int64_t)in->imm + v[0];
	*off = v - v[0];
	if (in->saddr != OPR_NONE) {
		*va += isa_sread64(x, in, in->saddr);
		return true;
	}
	hi = *isa_vgpr(x, in->vaddr + 1);
	*va += (uint64_t)hi[0] << 32;
	return !isa_gather((v32i)(hi != hi[0]));
}

static void load(struct isa_exec *x, const struct isa_insn *in, unsigned size, enum isa_part part)
{
	unsigned dwords = (size + 3) / 4;
	uint32_t *to = part == PART_B32 ? direct(x, in->dst, dwords) : NULL;
	struct flat f;
	uint64_t va;
	v32u off;

	if (size != 12 && near(x, in, &va, &off) &&
	    vm_inline_load(x->vmem, va, off, size, f.data)) {
		isa_load_write(x, in->dst, 0xffffffffu, part, dwords, f.data);
		return;
	}
	if (in->fmt != ISA_SCRATCH)
		addresses(x, in, &f);
	else
		f.mask = isa_exec_mask(x);
	/* Dwords go straight to the registers. Lanes that fault read 0, as the manual has it. */
	if (!move(x, in, VM_LOAD, &f, size, to ? to : f.data) && in->fmt == ISA_SCRATCH)
		return;
	if (!to)
		isa_load_write(x, in->dst, f.mask, part, dwords, f.data);
}

static void store(struct isa_exec *x, const struct isa_insn *in, unsigned size, bool hi)
{
	unsigned dwords = (size + 3) / 4;
	uint32_t *from = hi ? NULL : direct(x, in->vdata, dwords);
	struct flat f;
	uint64_t va;
	v32u off;

	if (!from)
		isa_store_data(x, in->vdata, dwords, hi, f.data);
	if (size == 4 && near(x, in, &va, &off) &&
	    vm_inline_store(x->vmem, va, off, from ? from : f.data))
		return;
	if (in->fmt != ISA_SCRATCH)
		addresses(x, in, &f);
	move(x, in, VM_STORE, &f, size, from ? from : f.data);
}

static void atomic(struct isa_exec *x, const struct isa_insn *in, enum vm_op op, unsigned size)
{
	unsigned dwords = size / 4;
	bool cmp = op == VM_CMPSWAP || op == VM_FCMPSWAP;
	struct flat f;

	addresses(x, in, &f);
	/* compare-swap: data first, comparand behind it */
	isa_store_data(x, in->vdata, cmp ? 2 * dwords : dwords, false, f.data);
	if (move(x, in, op, &f, size, f.data) && in->dst != OPR_NONE)
		isa_load_write(x, in->dst, f.mask, PART_B32, dwords, f.data);
}

/* ---- opcodes ------------------------------------------------------------- */

#define LOAD(suffix, size, part)                                                                   \
	SEM(FLAT_LOAD_##suffix)                                                                    \
	{                                                                                          \
		load(x, in, size, part);                                                           \
	}                                                                                          \
	SEM(GLOBAL_LOAD_##suffix)                                                                  \
	{                                                                                          \
		load(x, in, size, part);                                                           \
	}                                                                                          \
	SEM(SCRATCH_LOAD_##suffix)                                                                 \
	{                                                                                          \
		load(x, in, size, part);                                                           \
	}
#define STORE(suffix, size, hi)                                                                    \
	SEM(FLAT_STORE_##suffix)                                                                   \
	{                                                                                          \
		store(x, in, size, hi);                                                            \
	}                                                                                          \
	SEM(GLOBAL_STORE_##suffix)                                                                 \
	{                                                                                          \
		store(x, in, size, hi);                                                            \
	}                                                                                          \
	SEM(SCRATCH_STORE_##suffix)                                                                \
	{                                                                                          \
		store(x, in, size, hi);                                                            \
	}
#define ATOMIC1(space, suffix, op, size)                                                           \
	SEM(space##_ATOMIC_##suffix)                                                               \
	{                                                                                          \
		atomic(x, in, op, size);                                                           \
	}
#define ATOMIC(suffix, op, size) ATOMIC1(FLAT, suffix, op, size) ATOMIC1(GLOBAL, suffix, op, size)
#include "isa/vmem.def"
ATOMIC1(GLOBAL, CSUB_U32, VM_CSUB, 4)

/* The lane number makes the address. */
static void addtid(struct isa_exec *x, const struct isa_insn *in, struct flat *f)
{
	uint64_t base = (uint64_t)(int64_t)in->imm;

	if (in->saddr != OPR_NONE)
		base += isa_sread64(x, in, in->saddr);
	f->mask = isa_exec_mask(x);
	for (unsigned l = 0; l < VM_LANES; l++)
		f->addr[l] = base + 4 * (32 * x->half + l);
}

SEM(GLOBAL_LOAD_ADDTID_B32)
{
	struct flat f;

	addtid(x, in, &f);
	if (isa_vmem(x, in, VM_LOAD, f.addr, f.mask, 4, f.data))
		isa_load_write(x, in->dst, f.mask, PART_B32, 1, f.data);
}

SEM(GLOBAL_STORE_ADDTID_B32)
{
	struct flat f;

	addtid(x, in, &f);
	isa_store_data(x, in->vdata, 1, false, f.data);
	isa_vmem(x, in, VM_STORE, f.addr, f.mask, 4, f.data);
}
