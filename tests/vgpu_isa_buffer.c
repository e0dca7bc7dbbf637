/* MUBUF and MTBUF: descriptors, bounds, swizzle, formats. */
#include "isa/buffer.h"
#include "isa_machine.h"

static void setup(void)
{
	m_init(false);
	for (unsigned i = 0; i < M_MEM_BYTES / 4; i++)
		memcpy(M.mem + 4 * i, &i, 4);
}

TestSuite(vgpu_isa_buffer, .init = setup, .fini = m_fini);

enum { STRUCTURED = 0, INDEX = 1, EMPTY = 2, RAW = 3 };

/* Descriptor in s[4:7]. extra: dword 3 besides the range rule; the format is 32 uint unless it names
 * another. */
#define FORMAT(n) ((uint32_t)(n) << 12)
#define UNBOUND   FORMAT(64)

static void desc(uint64_t base, unsigned stride, unsigned swizzle, uint32_t records, unsigned oob,
		 uint32_t extra)
{
	M.w->s[4] = (uint32_t)base;
	M.w->s[5] = (uint32_t)(base >> 32) | stride << 16 | swizzle << 30;
	M.w->s[6] = records;
	if (!(extra & FORMAT(63)))
		extra |= FORMAT(20);
	if (extra & UNBOUND)
		extra &= ~(UNBOUND | FORMAT(63));
	M.w->s[7] = extra | oob << 28;
}

static void ramp(unsigned r, uint32_t base, uint32_t step)
{
	for (unsigned l = 0; l < 32; l++)
		m_v(r)[l] = base + l * step;
}

Test(vgpu_isa_buffer, raw_bounds)
{
	desc(M_MEM + 1024, 0, 0, 100, RAW, 0);
	ramp(0, 0, 4);
	e_mubuf(ISA_BUFFER_LOAD_B32, 1, 0, 4, M_NULL, 8, E_OFFEN, false);
	e_mubuf(ISA_BUFFER_LOAD_B64, 2, 0, 4, M_NULL, 8, E_OFFEN, false);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		unsigned off = 4 * l + 8;

		cr_assert(m_v(1)[l] == (off + 4 <= 100 ? (1024 + off) / 4 : 0));
		cr_assert(m_v(2)[l] == (off + 4 <= 100 ? (1024 + off) / 4 : 0));
		cr_assert(m_v(3)[l] == (off + 8 <= 100 ? (1024 + off + 4) / 4 : 0),
			  "each dword is clipped by itself");
	}
	/* the scalar offset moves the address and shrinks the range */
	M.w->s[0] = 96;
	e_mubuf(ISA_BUFFER_LOAD_B32, 1, 0, 4, 0, 0, E_OFFEN, false);
	m_run_ok();
	cr_assert(m_v(1)[0] == (1024 + 96) / 4 && m_v(1)[1] == 0);
	ramp(2, 0x5555, 0);
	e_mubuf(ISA_BUFFER_STORE_B32, 2, 0, 4, M_NULL, 0, E_OFFEN, false);
	m_run_ok();
	cr_assert(m_mem32(1024 + 96) == 0x5555 && m_mem32(1024 + 100) == (1024 + 100) / 4);
}

Test(vgpu_isa_buffer, structured)
{
	desc(M_MEM, 16, 0, 10, STRUCTURED, 0);
	ramp(0, 0, 1); /* index */
	ramp(1, 4, 0); /* offset */
	e_mubuf(ISA_BUFFER_LOAD_B32, 2, 0, 4, M_NULL, 4, E_OFFEN | E_IDXEN, false);
	e_mubuf(ISA_BUFFER_LOAD_B64, 4, 0, 4, M_NULL, 8, E_OFFEN | E_IDXEN,
		false); /* 12..20 > 16 */
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		cr_assert(m_v(2)[l] == (l < 10 ? (16 * l + 8) / 4 : 0));
		cr_assert(m_v(4)[l] == (l < 10 ? (16 * l + 12) / 4 : 0) && m_v(5)[l] == 0,
			  "the second dword leaves the record");
	}
	desc(M_MEM, 16, 0, 10, INDEX, 0);
	e_mubuf(ISA_BUFFER_LOAD_B64, 4, 0, 4, M_NULL, 8, E_OFFEN | E_IDXEN, false);
	m_run_ok();
	cr_assert(m_v(4)[9] == (144 + 12) / 4 && m_v(5)[9] == (144 + 16) / 4 && m_v(4)[10] == 0);
	desc(M_MEM, 4, 0, 0, EMPTY, 0);
	e_mubuf(ISA_BUFFER_LOAD_B32, 2, 0, 4, M_NULL, 0, E_IDXEN, false);
	m_run_ok();
	cr_assert(m_v(2)[0] == 0);
	desc(M_MEM, 4, 0, 1, EMPTY, 1u << 23); /* add the lane number */
	e_mubuf(ISA_BUFFER_LOAD_B32, 2, 0, 4, M_NULL, 0, 0, false);
	m_run_ok();
	cr_assert(m_v(2)[31] == 31);
}

Test(vgpu_isa_buffer, swizzled)
{
	/* elements of 4 bytes, 8 records interleaved, stride 16 */
	desc(M_MEM, 16, 1, 64, STRUCTURED, 0);
	ramp(0, 0, 1);
	e_mubuf(ISA_BUFFER_LOAD_B64, 2, 0, 4, M_NULL, 4, E_IDXEN, false);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		unsigned first = (l / 8 * 16 + 4) * 8 + l % 8 * 4;

		cr_assert(m_v(2)[l] == first / 4);
		cr_assert(m_v(3)[l] == (first + 32) / 4);
	}
}

Test(vgpu_isa_buffer, atomics_and_parts)
{
	desc(M_MEM, 0, 0, 64, RAW, 0);
	ramp(0, 60, 4);
	ramp(2, 5, 0);
	M.w->exec = 3;
	e_mubuf(ISA_BUFFER_ATOMIC_ADD_U32, 2, 0, 4, M_NULL, 0, E_OFFEN, true);
	m_run_ok();
	cr_assert(m_v(2)[0] == 15 && m_v(2)[1] == 0 && m_v(2)[2] == 5);
	cr_assert(m_mem32(60) == 20 && m_mem32(64) == 16);
	ramp(0, 0, 1);
	ramp(3, 0x11112222, 0);
	M.w->exec = ~0u;
	e_mubuf(ISA_BUFFER_LOAD_U8, 2, 0, 4, M_NULL, 4, E_OFFEN, false);
	e_mubuf(ISA_BUFFER_LOAD_D16_HI_B16, 3, 0, 4, M_NULL, 4, E_OFFEN, false);
	m_run_ok();
	cr_assert(m_v(2)[0] == 1 && m_v(2)[1] == 0 && m_v(2)[4] == 2);
	cr_assert(m_v(3)[0] == 0x00012222);
}

Test(vgpu_isa_buffer, to_lds)
{
	desc(M_MEM + 400, 0, 0, 4096, RAW, 0);
	M.w->s[OPR_M0] = 256;
	ramp(0, 0, 8);
	e_mubuf(ISA_BUFFER_LOAD_LDS_B32, 0, 0, 4, M_NULL, 0, E_OFFEN, false);
	m_run_ok();
	cr_assert(m_lds32(256) == 100 && m_lds32(256 + 4 * 31) == 100 + 62);
}

Test(vgpu_isa_buffer, typed)
{
	/* 8_8_8_8 unorm, identity selection */
	uint32_t px = 0xff804000, sel = 4 | 5 << 3 | 6 << 6 | 7 << 9;
	float v[4];

	memcpy(M.mem, &px, 4);
	desc(M_MEM, 0, 0, 4096, RAW, sel);
	e_mtbuf(ISA_TBUFFER_LOAD_FORMAT_XYZW, 4, 0, 4, M_NULL, 0, 0, 42);
	e_mtbuf(ISA_TBUFFER_LOAD_FORMAT_XYZW, 8, 0, 4, M_NULL, 0, 0, 20);   /* 32 uint */
	e_mtbuf(ISA_TBUFFER_STORE_FORMAT_XYZW, 4, 0, 4, M_NULL, 64, 0, 57); /* 4 x f16 */
	e_mtbuf(ISA_TBUFFER_STORE_FORMAT_XYZW, 4, 0, 4, M_NULL, 80, 0, 36); /* 2_10_10_10 unorm */
	e_mtbuf(ISA_TBUFFER_LOAD_D16_FORMAT_XY, 12, 0, 4, M_NULL, 0, 0, 42);
	M.w->exec = 1;
	m_run_ok();
	for (unsigned i = 0; i < 4; i++)
		memcpy(&v[i], &m_v(4 + i)[0], 4);
	cr_assert(v[0] == 0 && v[1] == 64 / 255.0f && v[2] == 128 / 255.0f && v[3] == 1);
	cr_assert(m_v(8)[0] == px && m_v(9)[0] == 0 && m_v(10)[0] == 0 && m_v(11)[0] == 0);
	cr_assert(m_mem32(64) == 0x34040000 && m_mem32(68) == 0x3c003804);
	cr_assert(m_mem32(80) == (0u | 257u << 10 | 514u << 20 | 3u << 30));
	cr_assert(m_v(12)[0] == 0x34040000);
	/* the descriptor's own format, components reversed and a constant one */
	desc(M_MEM, 0, 0, 4096, RAW, 7 | 1 << 3 | 0 << 6 | 4 << 9 | 46u << 12);
	e_mubuf(ISA_BUFFER_LOAD_FORMAT_XYZW, 4, 0, 4, M_NULL, 0, 0, false);
	m_run_ok();
	cr_assert(m_v(4)[0] == 0xff && m_v(5)[0] == 1 && m_v(6)[0] == 0 && m_v(7)[0] == 0);
}

/* RDNA3.5 ISA, "Range checking" and "Buffer data": what a range is, by rule and kind of access. */
Test(vgpu_isa_buffer, ranges_by_the_manual)
{
	/* raw and swizzled with a stride: records and the record's length, each dword by itself */
	desc(M_MEM, 16, 1, 2, RAW, 0);
	ramp(0, 0, 1);
	e_mubuf(ISA_BUFFER_LOAD_B64, 2, 0, 4, M_NULL, 12, E_IDXEN, false);
	m_run_ok();
	for (unsigned l = 0; l < 32; l++) {
		cr_assert(m_v(2)[l] == (l < 2 ? (12 * 8 + l * 4) / 4 : 0));
		cr_assert(m_v(3)[l] == 0, "16..20 leaves the record");
	}
	/* typed: an element that is not wholly inside is not there at all */
	desc(M_MEM + 4, 0, 0, 12, RAW, 4 | 5 << 3 | 6 << 6 | 1 << 9 | FORMAT(61));
	ramp(0, 0, 4);
	e_mubuf(ISA_BUFFER_LOAD_FORMAT_XYZW, 4, 0, 4, M_NULL, 0, E_OFFEN, false);
	e_mtbuf(ISA_TBUFFER_LOAD_FORMAT_XYZ, 8, 0, 4, M_NULL, 0, E_OFFEN, 58); /* three dwords */
	m_run_ok();
	cr_assert(m_v(4)[0] == 0 && m_v(5)[0] == 0 && m_v(6)[0] == 0, "16 of 12 bytes");
	cr_assert(m_v(7)[0] == 1, "a selected one is one even there");
	cr_assert(m_v(8)[0] == 1 && m_v(9)[0] == 2 && m_v(10)[0] == 3);
	cr_assert(m_v(8)[1] == 0 && m_v(9)[1] == 0 && m_v(10)[1] == 0);
	/* a descriptor without format is bound to nothing */
	desc(M_MEM, 0, 0, 4096, RAW, UNBOUND);
	ramp(2, 0x77, 0);
	e_mubuf(ISA_BUFFER_LOAD_B32, 3, 0, 4, M_NULL, 64, E_OFFEN, false);
	e_mubuf(ISA_BUFFER_LOAD_FORMAT_X, 4, 0, 4, M_NULL, 64, E_OFFEN, false);
	e_mubuf(ISA_BUFFER_STORE_B32, 2, 0, 4, M_NULL, 64, E_OFFEN, false);
	m_run_ok();
	cr_assert(m_v(3)[0] == 0 && m_v(4)[0] == 0 && m_mem32(64) == 16);
}

/* 16 bits: f32 is cut off where other formats are rounded, an odd last half keeps its neighbour. */
Test(vgpu_isa_buffer, sixteen_bit_components)
{
	const uint32_t f[3] = {0x3f800fff, 0x3f801000, 0xbf800fff};

	memcpy(M.mem, f, sizeof(f));
	desc(M_MEM, 0, 0, 4096, RAW, 0);
	ramp(4, 0xaaaabbbb, 0);
	ramp(5, 0xccccdddd, 0);
	e_mtbuf(ISA_TBUFFER_LOAD_D16_FORMAT_XYZ, 4, 0, 4, M_NULL, 0, 0, 60); /* 3 x f32 */
	m_run_ok();
	cr_assert(m_v(4)[0] == 0x3c003c00 && m_v(5)[0] == 0xccccbc00, "%08x %08x", m_v(4)[0],
		  m_v(5)[0]);
	ramp(6, 0x11112222, 0);
	e_mtbuf(ISA_TBUFFER_LOAD_D16_FORMAT_X, 6, 0, 4, M_NULL, 4, 0, 22);
	m_run_ok();
	cr_assert(m_v(6)[0] == 0x11113c00);
}

/* Every format: what was packed comes back, and saturates. */
Test(vgpu_isa_buffer, formats_round_trip)
{
	unsigned known = 0;

	for (unsigned i = 0; i < 128; i++) {
		const struct buf_format *f = buf_format(i);
		uint32_t raw[4], c[4], again[4];

		if (!f)
			continue;
		known++;
		for (unsigned k = 0; k < 4; k++)
			raw[k] = 0x39124501 + k * 0x01010101;
		if (f->kind == BUF_SNORM) /* -128 and -127 are the same value */
			raw[0] &= 0x3f3f3f3f;
		for (unsigned k = buf_bytes(f); k < 16; k++)
			((uint8_t *)raw)[k] = 0;
		buf_unpack(f, raw, c);
		buf_pack(f, c, again);
		cr_assert(!memcmp(raw, again, 16), "format %u: %08x %08x", i, raw[0], again[0]);
	}
	cr_assert(known == 63);
}
