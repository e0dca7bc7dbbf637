/* Reports of waits that are missing, and the registers that they go by. */
#include <ctype.h>

#include "delay_programs.h"
#include "isa/regs.h"
#include "isa/shape.h"

static void setup(void)
{
	wave(false);
}

TestSuite(vgpu_waits, .init = setup, .fini = m_fini);

static void reported(void (*emit)(unsigned), unsigned how, uint32_t most)
{
	memset(&told, 0, sizeof(told));
	emit(how);
	end_code();
	fresh(false, 3, most, true);
	finish();
	cr_assert(M.w->state == WAVE_ENDED);
}

static void silent(void (*emit)(unsigned), unsigned how, uint32_t most)
{
	reported(emit, how, most);
	cr_assert(told.n == 0);
}

static void expect(unsigned pc, unsigned writer_pc, unsigned code, bool write, bool lgkm,
		   unsigned most)
{
	const struct delay_missing *m = &told.m[0];

	cr_assert(told.n == 1, "%u reports", told.n);
	cr_assert(m->pc == M_CODE + pc && m->writer_pc == M_CODE + writer_pc && m->code == code &&
			  m->write == write && m->lgkm == lgkm && m->most == most,
		  "+%llx +%llx %u %d %d %u", m->pc - M_CODE, m->writer_pc - M_CODE, m->code,
		  m->write, m->lgkm, m->most);
}

/* With delays and without: what is reported does not depend on what happens to be late. */
Test(vgpu_waits, reports)
{
	for (uint32_t most = 0; most <= MOST; most += MOST) {
		for (unsigned how = 0; how < 9; how++) {
			reported(one_load, how, most);
			if (how < 3)
				cr_assert(told.n == 0);
			else
				expect(how == 3 ? 8 : 12, 0, 256 + 8, false, false, 0);
		}
		silent(loads_in_order, 0, most);
		reported(loads_in_order, 1, most);
		expect(28, 0, 256 + 8, false, false, 2);
		silent(overwritten, 0, most);
		reported(overwritten, 1, most);
		expect(8, 0, 256 + 10, true, false, 0);
		silent(lds_in_order, 0, most);
		reported(lds_in_order, 1, most);
		expect(20, 0, 256 + 8, false, true, 1);
		silent(scalar_loads, 0, most);
		reported(scalar_loads, 1, most);
		expect(20, 0, 20, false, true, 0);
		reported(message, 1, most);
		expect(4, 0, 20, false, true, 0);
		silent(flat_memory, 0, most);
		silent(flat_memory, 1, most);
		reported(flat_memory, 2, most);
		expect(12, 0, 256 + 8, false, false, 0);
		silent(flat_lds, 1, most);
		reported(flat_lds, 2, most);
		expect(24, 12, 256 + 8, false, true, 0);
		for (unsigned how = 0; how < 4; how++) {
			silent(same_address, how, most);
		}
		silent(empty_load, 0, most);
	}
}

Test(vgpu_waits, report_operands)
{
	reported(used_as_address, 0, 0);
	expect(8, 0, 256 + 22, false, false, 0);
	reported(used_as_address, 1, 0);
	expect(8, 0, 256 + 23, false, false, 0);
	reported(used_as_address, 2, 0);
	expect(8, 0, 256 + 21, false, false, 0);
}

/* ---- footprints against LLVM's text --------------------------------------- */

enum { WORDS = 300000 };

static uint64_t rng = 0x243f6a8885a308d3u;

static uint32_t any(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 16);
}

/* A set of operand codes. */
struct set {
	uint64_t bit[8];
};

static void include(struct set *s, unsigned code, unsigned n)
{
	for (; n; n--, code++)
		s->bit[code / 64 & 7] |= 1ull << code % 64;
}

static void exclude(struct set *s, unsigned code)
{
	s->bit[code / 64] &= ~(1ull << code % 64);
}

/* The registers that LLVM's text names. */
static struct set named(const char *text)
{
	static const struct {
		const char *name;
		unsigned code, n;
	} special[] = {
		{"vcc_lo", OPR_VCC_LO, 1},   {"vcc_hi", OPR_VCC_HI, 1},   {"vcc", OPR_VCC_LO, 2},
		{"exec_lo", OPR_EXEC_LO, 1}, {"exec_hi", OPR_EXEC_HI, 1}, {"exec", OPR_EXEC_LO, 2},
		{"m0", OPR_M0, 1},
	};
	static const struct {
		const char *name;
		unsigned code;
	} file[] = {{"ttmp", OPR_TTMP0}, {"s", 0}, {"v", OPR_VGPR0}};
	struct set s = {0};
	const char *t = strchr(text, ' ');

	while (t && *t) {
		unsigned a, b;
		size_t n = 0;

		while (*t && !isalnum((unsigned char)*t) && *t != '_')
			t++;
		while (isalnum((unsigned char)t[n]) || t[n] == '_')
			n++;
		for (unsigned i = 0; i < sizeof(special) / sizeof(*special); i++)
			if (strlen(special[i].name) == n && !strncmp(special[i].name, t, n))
				include(&s, special[i].code, special[i].n);
		for (unsigned i = 0; i < 3; i++) {
			size_t k = strlen(file[i].name);

			if (strncmp(file[i].name, t, k))
				continue;
			if (n > k && strspn(t + k, "0123456789") == n - k)
				include(&s, file[i].code + (unsigned)atoi(t + k), 1);
			else if (n == k && sscanf(t + k, "[%u:%u]", &a, &b) == 2)
				include(&s, file[i].code + a, b - a + 1);
		}
		t += n;
	}
	return s;
}

/* Names that LLVM leaves out, or says although nobody reads them. */
static bool unsaid(const struct isa_insn *in, unsigned code)
{
	bool vcc = code == OPR_VCC_LO || code == OPR_VCC_HI;

	return code == OPR_M0 ||
	       (vcc && (in->op == ISA_V_DIV_FMAS_F32 || in->op == ISA_V_DIV_FMAS_F64 ||
			in->op == ISA_S_CBRANCH_VCCZ || in->op == ISA_S_CBRANCH_VCCNZ ||
			in->fmt == ISA_VOPD));
}

/* The first word of opcode op in its own encoding, or in VOP3's; other fields random. */
static uint32_t first_word(unsigned op, bool vop3)
{
	static const struct {
		uint32_t top, fields;
		unsigned shift;
	} row[ISA_FMT_COUNT] = {
		[ISA_SOP1] = {0xbe800000, 0x007f00ff, 8},
		[ISA_SOP2] = {0x80000000, 0x007fffff, 23},
		[ISA_SOPK] = {0xb0000000, 0x007fffff, 23},
		[ISA_SOPC] = {0xbf000000, 0x0000ffff, 16},
		[ISA_SOPP] = {0xbf800000, 0x0000ffff, 16},
		[ISA_SMEM] = {0xf4000000, 0x0003ffff, 18},
		[ISA_VOP1] = {0x7e000000, 0x01fe01ff, 9},
		[ISA_VOP2] = {0x00000000, 0x01ffffff, 25},
		[ISA_VOPC] = {0x7c000000, 0x0001ffff, 17},
		[ISA_VOP3] = {0xd4000000, 0x0000ffff, 16},
		[ISA_VOP3SD] = {0xd4000000, 0x0000ffff, 16},
		[ISA_VOP3P] = {0xcc000000, 0x0000ffff, 16},
		[ISA_DS] = {0xd8000000, 0x0001ffff, 18},
		[ISA_FLAT] = {0xdc000000, 0x0000ffff, 18},
		[ISA_SCRATCH] = {0xdc010000, 0x0000ffff, 18},
		[ISA_GLOBAL] = {0xdc020000, 0x0000ffff, 18},
		[ISA_MUBUF] = {0xe0000000, 0x0003ffff, 18},
		[ISA_MTBUF] = {0xe8000000, 0x03f87fff, 15},
	};
	static const uint16_t add[ISA_FMT_COUNT] = {[ISA_VOP1] = 0x180, [ISA_VOP2] = 0x100};
	unsigned fmt = isa_home[op], opcode = m_opcode(op);
	uint32_t w;

	if (vop3 && (fmt == ISA_VOP1 || fmt == ISA_VOP2 || fmt == ISA_VOPC)) {
		opcode += add[fmt];
		fmt = ISA_VOP3;
	}
	if (fmt == ISA_VOPD || !row[fmt].fields) /* duals come by themselves */
		return 0xc8000000 | (any() & 0x03ffffff);
	w = row[fmt].top | opcode << row[fmt].shift | (any() & row[fmt].fields);
	/* without modifiers, every other one */
	return fmt >= ISA_VOP3 && fmt <= ISA_VOP3P && any() & 1 ? w & ~0xff00u : w;
}

/* LLVM wants zeros in fields that an opcode does not use: some bytes are, and a flat address has no
 * scalar part. */
static uint32_t second_word(unsigned fmt)
{
	uint32_t w = any(), keep = any();

	for (unsigned i = 0; i < 4; i++)
		if (!(keep >> i & 1))
			w &= ~(0xffu << 8 * i);
	if (fmt == ISA_FLAT || (fmt == ISA_GLOBAL && keep & 16))
		w = (w & 0xff00ffff) | OPR_NULL << 16;
	return w;
}

Test(vgpu_waits, registers_are_llvms)
{
	static bool tried[ISA_OP_COUNT];
	const uint32_t nop = 0xbf800000;
	unsigned ops = 0, compared = 0;
	char text[600], raw[12];

	isa_disasm(&nop, 1, 0, text, sizeof(text));
	if (strncmp(text, "s_nop 0", 7) != 0)
		cr_skip("SKIP: registers_are_llvms: no libLLVM-19");
	for (unsigned n = 0; n < WORDS; n++) {
		unsigned op = 1 + n % (ISA_OP_COUNT - 1);
		uint32_t w[4] = {first_word(op, any() & 1), second_word(isa_home[op]), any(),
				 any()};
		struct isa_reg r[ISA_REGS];
		struct set theirs, ours = {0};
		struct isa_insn in;
		unsigned count;
		int len = isa_decode(w, 4, &in);

		/* Upper halves of 16-bit operands are another register to LLVM 19 (vgpu_decode). */
		if (len <= 0 || in.op_sel)
			continue;
		if (in.tfe && in.dst == OPR_NONE) /* a store has no status to return */
			continue;
		isa_disasm(w, 4, 0, text, sizeof(text));
		/* What LLVM refuses is given as words. */
		snprintf(raw, sizeof(raw), " %08x", w[0]);
		if (strstr(text, raw) || strstr(text, "Invalid") || strstr(text, "not supported"))
			continue;
		theirs = named(text);
		count = isa_regs(&in, false, r);
		cr_assert(count <= ISA_REGS);
		for (unsigned i = 0; i < count; i++)
			include(&ours, r[i].code, r[i].n);
		for (unsigned c = 0; c < 512; c++)
			if (unsaid(&in, c)) {
				exclude(&ours, c);
				exclude(&theirs, c);
			}
		cr_assert(!memcmp(&ours, &theirs, sizeof(ours)),
			  "%08x %08x %s: ours %lx %lx, %lx %lx %lx %lx, LLVM's %lx %lx, %lx %lx "
			  "%lx %lx",
			  w[0], w[1], text, ours.bit[0], ours.bit[1], ours.bit[4], ours.bit[5],
			  ours.bit[6], ours.bit[7], theirs.bit[0], theirs.bit[1], theirs.bit[4],
			  theirs.bit[5], theirs.bit[6], theirs.bit[7]);
		compared++;
		ops += !tried[in.op];
		tried[in.op] = true;
	}
	printf("registers of %u instructions with %u opcodes: as LLVM names them\n", compared, ops);
	cr_assert(ops > 1000, "only %u opcodes", ops);
}
