/* A one-wave machine for tests of instructions: assemble words with the e_* encoders, run them,
 * look at registers, LDS and memory. Encoders take opcodes by name and follow the public RDNA3
 * ISA manual's microcode formats.
 *
 * With ISA_MACHINE=lockstep in the environment programs are compiled too, and run in lock step with
 * the interpreter: the first difference halts the wave. */
#ifndef TESTS_ISA_MACHINE_H
#define TESTS_ISA_MACHINE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "isa/isa.h"
#include "isa/jit.h"
#include "vm/vm.h"

#define M_CODE    0x100000000ull
#define M_MEM     0x200000000ull
#define M_SCRATCH 0x300000000ull
#define M_SHARED  0x1000000000000ull
#define M_PRIVATE 0x2000000000000ull

enum {
	M_MEM_BYTES = 1 << 16,
	M_LDS_BYTES = 4096,
	M_LANE_BYTES = 256,
	M_NVGPR = 64,
	M_NULL = OPR_NULL,
	M_LIT = OPR_LITERAL,
};

struct machine {
	struct vm *vm;
	uint32_t *code;
	uint8_t *mem, *scratch;
	uint8_t lds[M_LDS_BYTES] __attribute__((aligned(128)));
	struct vm_port vmem, smem, imem;
	struct isa_exec x;
	struct isa_wave *w;
	unsigned n;   /* dwords of code so far */
	uint32_t msg; /* last s_sendmsg */
};

static struct machine M;

static inline void m_sendmsg(struct isa_exec *x, uint32_t simm, uint32_t m0)
{
	(void)x;
	M.msg = simm | m0 << 16;
}

static inline uint64_t m_realtime(struct isa_exec *x)
{
	return 1000 + x->w->insns;
}

static inline uint8_t *m_place(uint64_t va, uint64_t size, unsigned perm)
{
	struct vm_bo *bo;

	cr_assert(!vm_bo_alloc(VM_POOL_GTT, size, &bo));
	cr_assert(!vm_map(M.vm, gva(va), size, bo, 0, perm, VM_MTYPE_NC));
	return vm_bo_kmap(bo);
}

/* A fresh machine: everything zero, all lanes on, round to nearest, denormals kept. */
static inline void m_init(bool wave64)
{
	memset(&M, 0, sizeof(M));
	cr_assert(!vm_pools_init(1 << 20, 16 << 20));
	cr_assert(!vm_create(&M.vm));
	M.code = (uint32_t *)(void *)m_place(M_CODE, 8192, VM_X | VM_W);
	M.mem = m_place(M_MEM, M_MEM_BYTES, VM_W);
	M.scratch = m_place(M_SCRATCH, M_LANE_BYTES * 64, VM_W);
	vm_port_init(&M.vmem, M.vm, VM_CLIENT_TCP);
	vm_port_init(&M.smem, M.vm, VM_CLIENT_SQC_DATA);
	vm_port_init(&M.imem, M.vm, VM_CLIENT_SQC_INST);
	M.x.vmem = &M.vmem;
	M.x.smem = &M.smem;
	M.x.imem = &M.imem;
	M.x.lds = M.lds;
	M.x.lds_size = M_LDS_BYTES;
	M.x.shared_base = M_SHARED;
	M.x.private_base = M_PRIVATE;
	M.x.sendmsg = m_sendmsg;
	M.x.realtime = m_realtime;
	M.w = aligned_alloc(128, isa_wave_bytes(M_NVGPR, wave64));
	memset(M.w, 0, isa_wave_bytes(M_NVGPR, wave64));
	M.w->wave64 = wave64;
	M.w->exec = wave64 ? ~0ull : 0xffffffffull;
	M.w->nvgpr = M_NVGPR;
	M.w->mode = 0x3f0;
	M.w->flat_scratch = M_SCRATCH;
	M.w->scratch_lane_bytes = M_LANE_BYTES;
	M.w->lds_size = M_LDS_BYTES;
	M.w->pc = M_CODE;
}

static inline void m_fini(void)
{
	isa_exec_fini(&M.x);
	free(M.w);
	vm_destroy(M.vm);
	vm_pools_fini();
}

static inline void m_put(uint32_t word)
{
	M.code[M.n++] = word;
}

/* ---- encoders ------------------------------------------------------------ */

static inline uint32_t m_opcode(unsigned op)
{
	static const uint16_t opcode_of[ISA_OP_COUNT] = {
#define OP(name, fmt, opcode, flags) [ISA_##name] = opcode,
#include "isa/ops.def"
#undef OP
	};

	return opcode_of[op];
}

static inline void e_sop2(unsigned op, unsigned d, unsigned a, unsigned b)
{
	m_put(0x80000000 | m_opcode(op) << 23 | d << 16 | b << 8 | a);
}

static inline void e_sop1(unsigned op, unsigned d, unsigned a)
{
	m_put(0xbe800000 | d << 16 | m_opcode(op) << 8 | a);
}

static inline void e_sopc(unsigned op, unsigned a, unsigned b)
{
	m_put(0xbf000000 | m_opcode(op) << 16 | b << 8 | a);
}

static inline void e_sopk(unsigned op, unsigned d, unsigned simm)
{
	m_put(0xb0000000 | m_opcode(op) << 23 | d << 16 | (simm & 0xffff));
}

static inline void e_sopp(unsigned op, unsigned simm)
{
	m_put(0xbf800000 | m_opcode(op) << 16 | (simm & 0xffff));
}

static inline void e_smem(unsigned op, unsigned d, unsigned base, unsigned soff, int off)
{
	m_put(0xf4000000 | m_opcode(op) << 18 | d << 6 | base / 2);
	m_put(soff << 25 | ((uint32_t)off & 0x1fffff));
}

static inline void e_ds(unsigned op, unsigned d, unsigned addr, unsigned d0, unsigned d1,
			unsigned off)
{
	m_put(0xd8000000 | m_opcode(op) << 18 | off);
	m_put(d << 24 | d1 << 16 | d0 << 8 | addr);
}

/* seg: 0 flat, 1 scratch, 2 global. */
static inline void e_flat(unsigned op, unsigned seg, unsigned d, unsigned addr, unsigned data,
			  unsigned saddr, int off, bool glc)
{
	m_put(0xdc000000 | m_opcode(op) << 18 | seg << 16 | (uint32_t)glc << 14 |
	      ((uint32_t)off & 0x1fff));
	m_put(d << 24 | saddr << 16 | data << 8 | addr);
}

enum { E_SVE = 1 << 23 }; /* scratch: the VGPR counts */

static inline void e_scratch(unsigned op, unsigned d, unsigned addr, unsigned data, unsigned saddr,
			     int off, bool vgpr)
{
	e_flat(op, 1, d, addr, data, saddr, off, false);
	if (vgpr)
		M.code[M.n - 1] |= E_SVE;
}

enum { E_OFFEN = 1 << 22, E_IDXEN = 1 << 23 };

static inline void e_mubuf(unsigned op, unsigned vdata, unsigned vaddr, unsigned srsrc,
			   unsigned soff, unsigned off, unsigned flags, bool glc)
{
	m_put(0xe0000000 | m_opcode(op) << 18 | (uint32_t)glc << 14 | off);
	m_put(soff << 24 | flags | srsrc / 4 << 16 | vdata << 8 | vaddr);
}

static inline void e_mtbuf(unsigned op, unsigned vdata, unsigned vaddr, unsigned srsrc,
			   unsigned soff, unsigned off, unsigned flags, unsigned format)
{
	m_put(0xe8000000 | format << 19 | m_opcode(op) << 15 | off);
	m_put(soff << 24 | flags | srsrc / 4 << 16 | vdata << 8 | vaddr);
}

static inline void e_vop1(unsigned op, unsigned d, unsigned src)
{
	m_put(0x7e000000 | d << 17 | m_opcode(op) << 9 | src);
}

static inline void e_vop2(unsigned op, unsigned d, unsigned src, unsigned b)
{
	m_put(m_opcode(op) << 25 | d << 17 | b << 9 | src);
}

static inline bool m_lockstep(void)
{
	const char *s = getenv("ISA_MACHINE");

	return s && !strcmp(s, "lockstep");
}

/* Runs what was assembled, from the start, then s_endpgm. Registers are kept. */
static inline void m_run(void)
{
	e_sopp(ISA_S_ENDPGM, 0);
	M.n = 0;
	M.w->pc = M_CODE;
	M.w->state = WAVE_RUN;
	isa_icache_invalidate();
	if (!m_lockstep()) {
		isa_run(&M.x, M.w, 100000);
		return;
	}
	struct jit_shape shape = {.nvgpr = M.w->nvgpr, .mode = M.w->mode, .wave64 = M.w->wave64};

	jit_run(jit_kernel_get(&M.imem, M_CODE, &shape, JIT_LOCKSTEP), &M.x, M.w, 100000);
	cr_assert(M.w->stop != STOP_DIFFERS, "%s", jit_difference());
}

static inline void m_run_ok(void)
{
	m_run();
	cr_assert(M.w->state == WAVE_ENDED, "wave state %u, stop %u at +0x%llx", M.w->state,
		  M.w->stop, (unsigned long long)(M.w->pc - M_CODE));
}

static inline uint32_t *m_v(unsigned r)
{
	return (uint32_t *)&M.w->v[r];
}

static inline uint32_t m_lds32(unsigned off)
{
	uint32_t v;

	memcpy(&v, M.lds + off, 4);
	return v;
}

static inline uint32_t m_mem32(unsigned off)
{
	uint32_t v;

	memcpy(&v, M.mem + off, 4);
	return v;
}

static inline void m_set64(unsigned s, uint64_t v)
{
	M.w->s[s] = (uint32_t)v;
	M.w->s[s + 1] = (uint32_t)(v >> 32);
}

#endif
