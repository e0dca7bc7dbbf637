/* Loads what the compiler made: one x86-64 relocatable object, into memory of its own.
 *
 * The object is position-independent code with constants; it calls a handful of functions of this
 * library and of libm by name. Every allocated section is laid out behind the other, with a jump
 * and an address slot for each outside name at the end, so that 32-bit distances always reach.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "isa/jit_internal.h"
#include "vm/rawsys.h"

#define MAX_SECTIONS 4096
#define SLOT         16 /* ff 25 rel32: jmp *slot; then the address */

struct image {
	const uint8_t *obj;
	size_t size;
	const Elf64_Shdr *sh;
	unsigned nsh;
	const Elf64_Sym *sym;
	unsigned nsym;
	const char *str;
	size_t strsz;
	uint8_t *mem;
	size_t bytes, slots; /* whole, and where the slots begin */
	uint64_t at[MAX_SECTIONS];
	char *why;
	size_t whylen;
};

static int fail(struct image *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct image *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m->why, m->whylen, fmt, ap);
	va_end(ap);
	return -EILSEQ;
}

static bool inside(const struct image *m, uint64_t off, uint64_t n)
{
	return off <= m->size && n <= m->size - off;
}

static int headers(struct image *m)
{
	const Elf64_Ehdr *eh = (const void *)m->obj;

	if (m->size < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) ||
	    eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_type != ET_REL ||
	    eh->e_machine != EM_X86_64)
		return fail(m, "not an x86-64 relocatable object");
	if (eh->e_shentsize != sizeof(Elf64_Shdr) || eh->e_shnum > MAX_SECTIONS || !eh->e_shnum ||
	    eh->e_shoff % 8 || !inside(m, eh->e_shoff, (uint64_t)eh->e_shnum * sizeof(Elf64_Shdr)))
		return fail(m, "section headers outside the object");
	m->sh = (const void *)(m->obj + eh->e_shoff);
	m->nsh = eh->e_shnum;
	for (unsigned i = 0; i < m->nsh; i++) {
		const Elf64_Shdr *s = &m->sh[i];

		if (s->sh_type != SHT_NOBITS && !inside(m, s->sh_offset, s->sh_size))
			return fail(m, "section %u outside the object", i);
		if (s->sh_type != SHT_SYMTAB)
			continue;
		if (s->sh_link >= m->nsh || s->sh_offset % 8)
			return fail(m, "symbol table without strings");
		m->sym = (const void *)(m->obj + s->sh_offset);
		m->nsym = (unsigned)(s->sh_size / sizeof(Elf64_Sym));
		m->str = (const char *)m->obj + m->sh[s->sh_link].sh_offset;
		m->strsz = m->sh[s->sh_link].sh_size;
	}
	if (!m->sym || !m->strsz || m->str[m->strsz - 1])
		return fail(m, "no symbol table");
	return 0;
}

static bool wanted(const Elf64_Shdr *s)
{
	/* Unwind tables describe nothing anybody unwinds. */
	return s->sh_flags & SHF_ALLOC && s->sh_size && s->sh_type != SHT_X86_64_UNWIND &&
	       s->sh_type != SHT_NOTE;
}

static int lay_out(struct image *m)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < m->nsh; i++) {
		const Elf64_Shdr *s = &m->sh[i];
		uint64_t align = s->sh_addralign ? s->sh_addralign : 1;

		if (!wanted(s))
			continue;
		if (align & (align - 1) || align > 4096 || s->sh_size > 64u << 20)
			return fail(m, "section %u: alignment %lu, size %lu", i, align, s->sh_size);
		end = (end + align - 1) & ~(align - 1);
		m->at[i] = end;
		end += s->sh_size;
	}
	m->slots = (end + SLOT - 1) & ~(uint64_t)(SLOT - 1);
	m->bytes = (m->slots + (uint64_t)m->nsym * SLOT + 4095) & ~4095ul;
	if (m->bytes > 64u << 20)
		return fail(m, "%lu bytes of code", m->bytes);
	return 0;
}

/* Address of symbol n; for one outside, of its jump. */
static int symbol(struct image *m, unsigned n, bool slot, uint64_t *out)
{
	const Elf64_Sym *s = &m->sym[n];
	uint8_t *stub = m->mem + m->slots + (size_t)n * SLOT;
	uint64_t addr;

	if (n >= m->nsym || s->st_name >= m->strsz)
		return fail(m, "symbol %u of %u", n, m->nsym);
	if (s->st_shndx == SHN_UNDEF) {
		void *p = jit_export(m->str + s->st_name);

		if (!p)
			return fail(m, "calls %s, which is not offered", m->str + s->st_name);
		addr = (uint64_t)(uintptr_t)p;
	} else if (s->st_shndx < m->nsh && wanted(&m->sh[s->st_shndx]) &&
		   s->st_value <= m->sh[s->st_shndx].sh_size) {
		addr = (uint64_t)(uintptr_t)m->mem + m->at[s->st_shndx] + s->st_value;
	} else {
		return fail(m, "symbol %u in section %u", n, s->st_shndx);
	}
	if (slot || s->st_shndx == SHN_UNDEF) {
		/* jmp *2(%rip); two bytes of nothing; the address */
		static const uint8_t jmp[8] = {0xff, 0x25, 0x02, 0, 0, 0, 0x90, 0x90};

		memcpy(stub, jmp, 8);
		memcpy(stub + 8, &addr, 8);
		addr = (uint64_t)(uintptr_t)(slot ? stub + 8 : stub);
	}
	*out = addr;
	return 0;
}

static int relocate(struct image *m, const Elf64_Shdr *rs)
{
	const Elf64_Rela *r = (const void *)(m->obj + rs->sh_offset);
	const Elf64_Shdr *ts = &m->sh[rs->sh_info];

	if (rs->sh_offset % 8)
		return fail(m, "relocations at %lu", rs->sh_offset);
	for (size_t i = 0; i < rs->sh_size / sizeof(*r); i++) {
		unsigned type = ELF64_R_TYPE(r[i].r_info), n = (unsigned)ELF64_R_SYM(r[i].r_info);
		bool got = type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
			   type == R_X86_64_REX_GOTPCRELX;
		unsigned size = type == R_X86_64_64 ? 8 : 4;
		uint8_t *p = m->mem + m->at[rs->sh_info] + r[i].r_offset;
		uint64_t s = 0, v;
		int ret = symbol(m, n, got, &s);

		if (ret)
			return ret;
		if (r[i].r_offset > ts->sh_size || size > ts->sh_size - r[i].r_offset)
			return fail(m, "relocation outside its section");
		v = s + (uint64_t)r[i].r_addend;
		switch (type) {
		case R_X86_64_64:
			memcpy(p, &v, 8);
			break;
		case R_X86_64_PC32:
		case R_X86_64_PLT32:
		case R_X86_64_GOTPCREL:
		case R_X86_64_GOTPCRELX:
		case R_X86_64_REX_GOTPCRELX: {
			int64_t d = (int64_t)(v - (uint64_t)(uintptr_t)p);
			int32_t d32 = (int32_t)d;

			if (d != d32)
				return fail(m, "a distance of %ld", d);
			memcpy(p, &d32, 4);
			break;
		}
		default:
			return fail(m, "relocation type %u", type);
		}
	}
	return 0;
}

int jit_elf_load(const void *object, size_t bytes, jit_fn **fn, char *why, size_t whylen)
{
	static _Thread_local struct image m;
	uint64_t entry = 0;
	long mem;
	int r;

	memset(&m, 0, sizeof(m));
	m.obj = object;
	m.size = bytes;
	m.why = why;
	m.whylen = whylen;
	r = headers(&m);
	if (!r)
		r = lay_out(&m);
	if (r)
		return r;
	mem = rawsys6(SYS_mmap, 0, m.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (mem < 0) {
		fail(&m, "no memory for %zu bytes of code", m.bytes);
		return -ENOMEM;
	}
	m.mem = (uint8_t *)mem;
	for (unsigned i = 0; i < m.nsh; i++)
		if (wanted(&m.sh[i]) && m.sh[i].sh_type != SHT_NOBITS)
			memcpy(m.mem + m.at[i], m.obj + m.sh[i].sh_offset, m.sh[i].sh_size);
	for (unsigned i = 0; !r && i < m.nsh; i++)
		if (m.sh[i].sh_type == SHT_RELA && m.sh[i].sh_info < m.nsh &&
		    wanted(&m.sh[m.sh[i].sh_info]))
			r = relocate(&m, &m.sh[i]);
	for (unsigned i = 0; !r && i < m.nsym; i++)
		if (m.sym[i].st_name < m.strsz && m.sym[i].st_shndx != SHN_UNDEF &&
		    !strcmp(m.str + m.sym[i].st_name, JIT_ENTRY))
			r = symbol(&m, i, false, &entry);
	if (!r && !entry)
		r = fail(&m, "no function " JIT_ENTRY);
	if (!r && rawsys3(SYS_mprotect, m.mem, m.bytes, PROT_READ | PROT_EXEC)) {
		fail(&m, "memory may not be made executable");
		r = -EACCES;
	}
	if (r)
		rawsys2(SYS_munmap, m.mem, m.bytes);
	else
		*fn = (jit_fn *)(uintptr_t)entry;
	return r;
}
