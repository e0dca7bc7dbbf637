/* Scalar memory: s_load, s_buffer_load, invalidates.
 *
 * Source: AMD "RDNA3.5 Instruction Set Architecture", chapter "Scalar memory operations". */
#include "isa/sem.h"
#include "vm/door.h"

/* Writes n dwords to consecutive SGPRs (or VCC, or TTMPs). */
static void write_dwords(struct isa_exec *x, unsigned code, unsigned n, const uint32_t *v)
{
	if (code == OPR_NULL)
		return;
	if (code + n <= OPR_VCC_HI + 1) {
		memcpy(&x->w->s[code], v, 4 * n);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		isa_swrite(x, code + i, v[i]);
}

static uint64_t offset(const struct isa_exec *x, const struct isa_insn *in)
{
	uint64_t off = (uint64_t)(int64_t)in->imm;

	if (in->saddr != OPR_NULL)
		off += isa_sread(x, in, in->saddr);
	return off;
}

static void load(struct isa_exec *x, const struct isa_insn *in, unsigned n)
{
	/* The two low bits of every component are dropped. */
	uint64_t at = (isa_sread64(x, in, in->src[0]) & ~3ull) +
		      ((uint64_t)(int64_t)in->imm & ~3ull) +
		      (in->saddr == OPR_NULL ? 0 : isa_sread(x, in, in->saddr) & ~3u);
	uint32_t v[16];

	if (!vm_inline_read(x->smem, at, v, 4 * n) &&
	    vm_read(x->smem, VM_LOAD, gva(at), v, 4 * n, in->cache)) {
		isa_halt(x, in, STOP_MEM_FAULT);
		return;
	}
	write_dwords(x, in->dst, n, v);
}

/* Descriptor: base [47:0], stride [61:48], num_records in dword 2 (bytes, or records when there
 * is a stride). What lies beyond reads 0. */
static void buffer_load(struct isa_exec *x, const struct isa_insn *in, unsigned n)
{
	uint64_t lo = isa_sread64(x, in, in->src[0]);
	uint32_t records = in->src[0] == OPR_NULL ? 0 : isa_sread(x, in, in->src[0] + 2);
	uint32_t stride = (uint32_t)(lo >> 48) & 0x3fff;
	uint64_t bytes = stride ? (uint64_t)records * stride : records;
	uint64_t off = offset(x, in) & ~3ull, base = lo & 0xfffffffffffcull;
	uint32_t v[16] = {0};
	unsigned in_range = 0;

	while (in_range < n && off + 4 * in_range + 4 <= bytes)
		in_range++;
	if (in_range && vm_read(x->smem, VM_LOAD, gva(base + off), v, 4 * in_range, in->cache)) {
		isa_halt(x, in, STOP_MEM_FAULT);
		return;
	}
	write_dwords(x, in->dst, n, v);
}

#define SMEM(bits, n)                                                                              \
	SEM(S_LOAD_B##bits)                                                                        \
	{                                                                                          \
		load(x, in, n);                                                                    \
	}                                                                                          \
	SEM(S_BUFFER_LOAD_B##bits)                                                                 \
	{                                                                                          \
		buffer_load(x, in, n);                                                             \
	}
SMEM(32, 1)
SMEM(64, 2)
SMEM(128, 4)
SMEM(256, 8)
SMEM(512, 16)

SEM(S_DCACHE_INV)
{
	(void)in;
	isa_cache_inv(x, CACHE_SCALAR);
}

SEM(S_GL1_INV)
{
	(void)in;
	isa_cache_inv(x, CACHE_GL1);
}

/* A translation probe: brings the page into the translation cache, returns nothing. */
SEM(S_ATC_PROBE)
{
	(void)x;
	(void)in;
}

SEM(S_ATC_PROBE_BUFFER)
{
	(void)x;
	(void)in;
}
