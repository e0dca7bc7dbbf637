/* An amdgpu code object as the loader sees it: program headers, dynamic segment, notes. Section
 * headers are not needed and not trusted.
 * Sources: ELF gABI; AMDGPUUsage, "ELF Code Object"; numbers in llvm/BinaryFormat/ELF.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gelf.h>
#include <libelf.h>

#include "codeobj/codeobj_internal.h"
#include "codeobj/descriptor.h"

#define OSABI_AMDGPU_HSA   64
#define NT_AMDGPU_METADATA 32
#define FLAG_MACH          0xffu
#define FLAG_XNACK_SHIFT   8
#define FLAG_SRAMECC_SHIFT 10
#define FLAG_GENERIC_SHIFT 24
#define ENTRY_ALIGN        256 /* SPI_SHADER_PGM_LO holds address bits 8 and up */
/* Ours: what a REL32 can span, and far more than any real code object. */
#define MAX_SPAN     (1ull << 31)
#define MAX_SEGMENTS 64

static const struct {
	uint8_t mach;
	const char *name;
} machs[] = {
	{0x20, "gfx600"},          {0x21, "gfx601"},          {0x22, "gfx700"},
	{0x23, "gfx701"},          {0x24, "gfx702"},          {0x25, "gfx703"},
	{0x26, "gfx704"},          {0x28, "gfx801"},          {0x29, "gfx802"},
	{0x2a, "gfx803"},          {0x2b, "gfx810"},          {0x2c, "gfx900"},
	{0x2d, "gfx902"},          {0x2e, "gfx904"},          {0x2f, "gfx906"},
	{0x30, "gfx908"},          {0x31, "gfx909"},          {0x32, "gfx90c"},
	{0x33, "gfx1010"},         {0x34, "gfx1011"},         {0x35, "gfx1012"},
	{0x36, "gfx1030"},         {0x37, "gfx1031"},         {0x38, "gfx1032"},
	{0x39, "gfx1033"},         {0x3a, "gfx602"},          {0x3b, "gfx705"},
	{0x3c, "gfx805"},          {0x3d, "gfx1035"},         {0x3e, "gfx1034"},
	{0x3f, "gfx90a"},          {0x40, "gfx940"},          {0x41, "gfx1100"},
	{0x42, "gfx1013"},         {0x43, "gfx1150"},         {0x44, "gfx1103"},
	{0x45, "gfx1036"},         {0x46, "gfx1101"},         {0x47, "gfx1102"},
	{0x48, "gfx1200"},         {0x4a, "gfx1151"},         {0x4b, "gfx941"},
	{0x4c, "gfx942"},          {0x4e, "gfx1201"},         {0x51, "gfx9-generic"},
	{0x52, "gfx10-1-generic"}, {0x53, "gfx10-3-generic"}, {0x54, "gfx11-generic"},
	{0x55, "gfx1152"},         {0x59, "gfx12-generic"},
};

const char *co_mach_name(uint32_t mach)
{
	for (size_t i = 0; i < sizeof(machs) / sizeof(machs[0]); i++)
		if (machs[i].mach == mach)
			return machs[i].name;
	return "unknown arch";
}

struct parse {
	const uint8_t *image;
	size_t n;
	Elf *elf;
	struct codeobj *co;
	struct co_meta meta;
	struct co_err e;
	GElf_Ehdr eh;
	uint64_t note_offset, note_bytes, note_align; /* PT_NOTE that holds the metadata */
	bool note;
	uint64_t dyn_offset, dyn_bytes; /* PT_DYNAMIC */
	bool dyn;
	/* from the dynamic segment, as ELF virtual addresses; 0 = absent */
	uint64_t symtab, strtab, strsz, hash, rela, relasz;
	Elf_Data *syms;
	const char *strings;
	uint32_t n_syms;
};

static bool in_image(const struct parse *p, uint64_t offset, uint64_t bytes)
{
	return offset <= p->n && bytes <= p->n - offset;
}

/* The segment that holds [va, va + bytes), counting only file bytes when file is set. */
static const struct co_segment *segment_of(const struct codeobj *co, uint64_t va, uint64_t bytes,
					   bool file)
{
	for (uint32_t i = 0; i < co->n_segments; i++) {
		const struct co_segment *s = &co->segments[i];
		uint64_t len = file ? s->filesz : s->memsz;

		if (va >= s->vaddr && va - s->vaddr <= len && bytes <= len - (va - s->vaddr))
			return s;
	}
	return NULL;
}

/* File offset of an ELF virtual address range, -1 if no segment's file bytes hold it. */
static int64_t offset_of(const struct parse *p, uint64_t va, uint64_t bytes)
{
	const struct co_segment *s = segment_of(p->co, va, bytes, true);

	return s ? (int64_t)(s->offset + (va - s->vaddr)) : -1;
}

static int check_ident(const struct parse *p)
{
	const uint8_t *id = p->image;

	if (p->n >= 4 && !memcmp(id, "CCOB", 4))
		return co_refuse(&p->e, -ENOTSUP,
				 "a compressed offload bundle, wanted one code object: unbundle it "
				 "with clang-offload-bundler");
	if (p->n >= 24 && !memcmp(id, "__CLANG_OFFLOAD_BUNDLE__", 24))
		return co_refuse(&p->e, -ENOTSUP,
				 "an offload bundle, wanted one code object: unbundle it with "
				 "clang-offload-bundler");
	if (p->n < sizeof(Elf64_Ehdr))
		return co_refuse(&p->e, -EILSEQ,
				 "file size %zu, wanted at least %zu (ELF64 header)", p->n,
				 sizeof(Elf64_Ehdr));
	if (memcmp(id, ELFMAG, SELFMAG))
		return co_refuse(&p->e, -EILSEQ,
				 "e_ident magic %02x %02x %02x %02x, wanted 7f 45 4c 46 (ELF)",
				 id[0], id[1], id[2], id[3]);
	if (id[EI_CLASS] != ELFCLASS64)
		return co_refuse(&p->e, -ENOTSUP, "e_ident class %u, wanted 2 (ELF64)",
				 id[EI_CLASS]);
	if (id[EI_DATA] != ELFDATA2LSB)
		return co_refuse(&p->e, -ENOTSUP, "e_ident data %u, wanted 1 (little endian)",
				 id[EI_DATA]);
	return 0;
}

static int parse_header(struct parse *p, bool any)
{
	const uint8_t *id = p->image;
	struct codeobj *co = p->co;
	size_t phnum;

	if (!gelf_getehdr(p->elf, &p->eh))
		return co_refuse(&p->e, -EILSEQ, "ELF header: %s", elf_errmsg(-1));
	if (p->eh.e_machine != EM_AMDGPU)
		return co_refuse(&p->e, -ENOTSUP, "e_machine %u, wanted %u (AMDGPU)",
				 p->eh.e_machine, EM_AMDGPU);
	if (id[EI_OSABI] != OSABI_AMDGPU_HSA)
		return co_refuse(&p->e, -ENOTSUP, "e_ident OS ABI %u, wanted %u (AMDGPU HSA)",
				 id[EI_OSABI], OSABI_AMDGPU_HSA);
	co->abi_version = id[EI_ABIVERSION];
	if (co->abi_version < 2 || co->abi_version > 4)
		return co_refuse(&p->e, -ENOTSUP,
				 "e_ident ABI version %u, wanted 2 to 4 (code object v4 to v6)",
				 co->abi_version);
	co->version = co->abi_version + 2;
	if (p->eh.e_type != ET_DYN)
		return co_refuse(
			&p->e, -ENOTSUP,
			"e_type %u, wanted %u (shared object): link it with ld.lld -shared",
			p->eh.e_type, ET_DYN);
	co->mach = p->eh.e_flags & FLAG_MACH;
	co->xnack = p->eh.e_flags >> FLAG_XNACK_SHIFT & 3;
	co->sramecc = p->eh.e_flags >> FLAG_SRAMECC_SHIFT & 3;
	co->generic_version = co->version >= 6 ? p->eh.e_flags >> FLAG_GENERIC_SHIFT : 0;
	if (!any) {
		if (co->mach != CO_MACH_GFX1151 && co->mach != CO_MACH_GFX11_GENERIC)
			return co_refuse(&p->e, -ENOTSUP,
					 "e_flags mach 0x%02x (%s), wanted 0x%02x (%s)", co->mach,
					 co_mach_name(co->mach), CO_MACH_GFX1151,
					 co_mach_name(CO_MACH_GFX1151));
		if (co->xnack != CO_FEATURE_UNSUPPORTED || co->sramecc != CO_FEATURE_UNSUPPORTED)
			return co_refuse(&p->e, -ENOTSUP,
					 "e_flags xnack %u sramecc %u, wanted 0 and 0 (gfx1151 has "
					 "neither)",
					 co->xnack, co->sramecc);
	}
	if (p->eh.e_phentsize != sizeof(Elf64_Phdr))
		return co_refuse(&p->e, -EILSEQ, "e_phentsize %u, wanted %zu", p->eh.e_phentsize,
				 sizeof(Elf64_Phdr));
	if (!in_image(p, p->eh.e_phoff, (uint64_t)p->eh.e_phnum * sizeof(Elf64_Phdr)))
		return co_refuse(
			&p->e, -EILSEQ,
			"e_phoff 0x%llx with e_phnum %u, wanted within the file's %zu bytes",
			(unsigned long long)p->eh.e_phoff, p->eh.e_phnum, p->n);
	if (elf_getphdrnum(p->elf, &phnum) || phnum != p->eh.e_phnum || !phnum)
		return co_refuse(&p->e, -EILSEQ, "e_phnum %u, wanted at least one program header",
				 p->eh.e_phnum);
	return 0;
}

static int add_segment(struct parse *p, unsigned i, const GElf_Phdr *ph)
{
	struct codeobj *co = p->co;
	struct co_segment *s = &co->segments[co->n_segments];

	if (!in_image(p, ph->p_offset, ph->p_filesz))
		return co_refuse(
			&p->e, -EILSEQ,
			"program header %u: p_offset 0x%llx p_filesz 0x%llx, wanted within "
			"the file's %zu bytes",
			i, (unsigned long long)ph->p_offset, (unsigned long long)ph->p_filesz,
			p->n);
	if (ph->p_memsz < ph->p_filesz)
		return co_refuse(
			&p->e, -EILSEQ,
			"program header %u: p_memsz 0x%llx, wanted at least p_filesz 0x%llx", i,
			(unsigned long long)ph->p_memsz, (unsigned long long)ph->p_filesz);
	if (ph->p_vaddr > MAX_SPAN || ph->p_memsz > MAX_SPAN - ph->p_vaddr)
		return co_refuse(&p->e, -EILSEQ,
				 "program header %u: p_vaddr 0x%llx p_memsz 0x%llx, wanted to end "
				 "by 0x%llx",
				 i, (unsigned long long)ph->p_vaddr,
				 (unsigned long long)ph->p_memsz, MAX_SPAN);
	if (ph->p_vaddr < co->vaddr_end)
		return co_refuse(
			&p->e, -EILSEQ,
			"program header %u: p_vaddr 0x%llx, wanted at or after 0x%llx, the "
			"end of the segment before it",
			i, (unsigned long long)ph->p_vaddr, (unsigned long long)co->vaddr_end);
	*s = (struct co_segment){
		.vaddr = ph->p_vaddr,
		.offset = ph->p_offset,
		.filesz = ph->p_filesz,
		.memsz = ph->p_memsz,
		.write = ph->p_flags & PF_W,
		.exec = ph->p_flags & PF_X,
	};
	co->n_segments++;
	co->vaddr_end = ph->p_vaddr + ph->p_memsz;
	return 0;
}

static int parse_segments(struct parse *p)
{
	int rc = 0;

	if (p->eh.e_phnum > MAX_SEGMENTS)
		return co_refuse(&p->e, -EILSEQ, "e_phnum %u, wanted at most %u", p->eh.e_phnum,
				 MAX_SEGMENTS);
	p->co->segments = calloc(p->eh.e_phnum, sizeof(*p->co->segments));
	if (!p->co->segments)
		return co_refuse(&p->e, -ENOMEM, "out of memory");
	for (unsigned i = 0; !rc && i < p->eh.e_phnum; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(p->elf, (int)i, &ph))
			return co_refuse(&p->e, -EILSEQ, "program header %u: %s", i,
					 elf_errmsg(-1));
		if (ph.p_type == PT_LOAD) {
			rc = add_segment(p, i, &ph);
			continue;
		}
		if (ph.p_type != PT_NOTE && ph.p_type != PT_DYNAMIC)
			continue;
		if (!in_image(p, ph.p_offset, ph.p_filesz))
			return co_refuse(
				&p->e, -EILSEQ,
				"program header %u: p_offset 0x%llx p_filesz 0x%llx, wanted "
				"within the file's %zu bytes",
				i, (unsigned long long)ph.p_offset, (unsigned long long)ph.p_filesz,
				p->n);
		if (ph.p_type == PT_NOTE && !p->note) {
			p->note = true;
			p->note_offset = ph.p_offset;
			p->note_bytes = ph.p_filesz;
			p->note_align = ph.p_align;
		} else if (ph.p_type == PT_DYNAMIC) {
			p->dyn = true;
			p->dyn_offset = ph.p_offset;
			p->dyn_bytes = ph.p_filesz;
		}
	}
	if (!rc && !p->co->n_segments)
		rc = co_refuse(&p->e, -EILSEQ, "no PT_LOAD program header, wanted at least one");
	return rc;
}

static int parse_note(struct parse *p)
{
	Elf_Data *d;
	GElf_Nhdr nh;
	size_t at = 0, next, name, desc;

	if (!p->note)
		return co_refuse(&p->e, -EILSEQ,
				 "no PT_NOTE program header, wanted one with "
				 "AMDGPU metadata");
	d = elf_getdata_rawchunk(p->elf, (int64_t)p->note_offset, p->note_bytes,
				 p->note_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	if (!d)
		return co_refuse(&p->e, -EILSEQ, "PT_NOTE: %s", elf_errmsg(-1));
	while (at < d->d_size && (next = gelf_getnote(d, at, &nh, &name, &desc)) > 0) {
		const char *buf = d->d_buf;

		if (nh.n_type == NT_AMDGPU_METADATA && nh.n_namesz == sizeof("AMDGPU") &&
		    !memcmp(buf + name, "AMDGPU", sizeof("AMDGPU")))
			return co_meta_parse(buf + desc, nh.n_descsz, &p->meta, &p->e);
		at = next;
	}
	return co_refuse(&p->e, -EILSEQ,
			 "no note of type %u named AMDGPU in the %llu bytes of PT_NOTE",
			 NT_AMDGPU_METADATA, (unsigned long long)p->note_bytes);
}

static int parse_dynamic(struct parse *p)
{
	Elf_Data *d;
	uint64_t syment = sizeof(Elf64_Sym), relaent = sizeof(Elf64_Rela);

	if (!p->dyn)
		return co_refuse(&p->e, -EILSEQ, "no PT_DYNAMIC program header, wanted one");
	d = elf_getdata_rawchunk(p->elf, (int64_t)p->dyn_offset, p->dyn_bytes, ELF_T_DYN);
	if (!d)
		return co_refuse(&p->e, -EILSEQ, "PT_DYNAMIC: %s", elf_errmsg(-1));
	for (int i = 0; (size_t)i < d->d_size / sizeof(Elf64_Dyn); i++) {
		GElf_Dyn dyn;

		if (!gelf_getdyn(d, i, &dyn) || dyn.d_tag == DT_NULL)
			break;
		switch (dyn.d_tag) {
		case DT_SYMTAB:
			p->symtab = dyn.d_un.d_ptr;
			break;
		case DT_STRTAB:
			p->strtab = dyn.d_un.d_ptr;
			break;
		case DT_STRSZ:
			p->strsz = dyn.d_un.d_val;
			break;
		case DT_SYMENT:
			syment = dyn.d_un.d_val;
			break;
		case DT_HASH:
			p->hash = dyn.d_un.d_ptr;
			break;
		case DT_RELA:
			p->rela = dyn.d_un.d_ptr;
			break;
		case DT_RELASZ:
			p->relasz = dyn.d_un.d_val;
			break;
		case DT_RELAENT:
			relaent = dyn.d_un.d_val;
			break;
		case DT_REL:
		case DT_JMPREL:
			return co_refuse(&p->e, -ENOTSUP,
					 "dynamic tag %lld, wanted relocations in DT_RELA alone",
					 (long long)dyn.d_tag);
		default:
			break;
		}
	}
	if (syment != sizeof(Elf64_Sym) || relaent != sizeof(Elf64_Rela))
		return co_refuse(&p->e, -EILSEQ,
				 "DT_SYMENT %llu DT_RELAENT %llu, wanted %zu and %zu",
				 (unsigned long long)syment, (unsigned long long)relaent,
				 sizeof(Elf64_Sym), sizeof(Elf64_Rela));
	if (!p->symtab || !p->strtab || !p->strsz || !p->hash)
		return co_refuse(&p->e, -EILSEQ,
				 "dynamic segment lacks %s, wanted DT_SYMTAB, DT_STRTAB, DT_STRSZ, "
				 "DT_HASH",
				 !p->symtab   ? "DT_SYMTAB"
				 : !p->strtab ? "DT_STRTAB"
				 : !p->strsz  ? "DT_STRSZ"
					      : "DT_HASH");
	return 0;
}

/* The symbol count is nchain of DT_HASH: nbucket, nchain, buckets, chains, all 32-bit. */
static int parse_symbols(struct parse *p)
{
	int64_t strings = offset_of(p, p->strtab, p->strsz);
	int64_t hash = offset_of(p, p->hash, 8);
	int64_t symtab;
	uint64_t n;

	if (strings < 0 || p->image[(uint64_t)strings + p->strsz - 1] != '\0')
		return co_refuse(&p->e, -EILSEQ,
				 "DT_STRTAB 0x%llx DT_STRSZ %llu, wanted file bytes of a segment "
				 "that end in NUL",
				 (unsigned long long)p->strtab, (unsigned long long)p->strsz);
	if (hash < 0)
		return co_refuse(&p->e, -EILSEQ, "DT_HASH 0x%llx, wanted file bytes of a segment",
				 (unsigned long long)p->hash);
	p->strings = (const char *)p->image + strings;
	memcpy(&p->n_syms, p->image + hash + 4, 4);
	n = (uint64_t)p->n_syms * sizeof(Elf64_Sym);
	symtab = n ? offset_of(p, p->symtab, n) : -1;
	if (symtab < 0)
		return co_refuse(&p->e, -EILSEQ,
				 "DT_SYMTAB 0x%llx with %u symbols (DT_HASH nchain), wanted file "
				 "bytes of a segment",
				 (unsigned long long)p->symtab, p->n_syms);
	p->syms = elf_getdata_rawchunk(p->elf, symtab, n, ELF_T_SYM);
	if (!p->syms)
		return co_refuse(&p->e, -EILSEQ, "DT_SYMTAB: %s", elf_errmsg(-1));
	return 0;
}

static const char *symbol_name(const struct parse *p, const GElf_Sym *s)
{
	return s->st_name < p->strsz ? p->strings + s->st_name : "";
}

static bool symbol_find(const struct parse *p, const char *name, GElf_Sym *out)
{
	for (uint32_t i = 0; i < p->n_syms; i++)
		if (gelf_getsym(p->syms, (int)i, out) && out->st_shndx != SHN_UNDEF &&
		    !strcmp(symbol_name(p, out), name))
			return true;
	return false;
}

/* Width of the patched field, 0 for a type that has no place in a linked code object. */
static unsigned reloc_width(uint32_t type)
{
	switch (type) {
	case R_AMDGPU_ABS64:
	case R_AMDGPU_REL64:
	case R_AMDGPU_RELATIVE64:
		return 8;
	case R_AMDGPU_ABS32:
	case R_AMDGPU_ABS32_LO:
	case R_AMDGPU_ABS32_HI:
	case R_AMDGPU_REL32:
	case R_AMDGPU_REL32_LO:
	case R_AMDGPU_REL32_HI:
		return 4;
	default:
		return 0;
	}
}

static int parse_reloc(struct parse *p, uint64_t i, const GElf_Rela *ra)
{
	struct co_reloc r = {
		.offset = ra->r_offset,
		.type = (uint32_t)GELF_R_TYPE(ra->r_info),
		.addend = ra->r_addend,
	};
	uint64_t sym = GELF_R_SYM(ra->r_info);
	unsigned width = reloc_width(r.type);
	GElf_Sym s;

	if (r.type == R_AMDGPU_NONE)
		return 0;
	if (!width)
		return co_refuse(&p->e, -ENOTSUP,
				 "relocation %llu: type %u, wanted an ABS, REL or RELATIVE64 type",
				 (unsigned long long)i, r.type);
	if (!segment_of(p->co, r.offset, width, false))
		return co_refuse(&p->e, -EILSEQ,
				 "relocation %llu: r_offset 0x%llx, wanted %u bytes of a segment",
				 (unsigned long long)i, (unsigned long long)r.offset, width);
	if (r.type != R_AMDGPU_RELATIVE64) {
		if (sym >= p->n_syms || !gelf_getsym(p->syms, (int)sym, &s))
			return co_refuse(&p->e, -EILSEQ,
					 "relocation %llu: symbol %llu, wanted below %u",
					 (unsigned long long)i, (unsigned long long)sym, p->n_syms);
		if (sym && s.st_shndx == SHN_UNDEF)
			return co_refuse(
				&p->e, -ENOTSUP,
				"relocation %llu: symbol %s is undefined, wanted defined in "
				"this code object",
				(unsigned long long)i, symbol_name(p, &s));
		if (s.st_value > p->co->vaddr_end)
			return co_refuse(&p->e, -EILSEQ,
					 "relocation %llu: symbol %s at 0x%llx, wanted within the "
					 "0x%llx bytes of the segments",
					 (unsigned long long)i, symbol_name(p, &s),
					 (unsigned long long)s.st_value,
					 (unsigned long long)p->co->vaddr_end);
		r.sym_value = s.st_value;
	}
	p->co->relocs[p->co->n_relocs++] = r;
	return 0;
}

static int parse_relocs(struct parse *p)
{
	uint64_t n = p->relasz / sizeof(Elf64_Rela);
	int64_t at;
	Elf_Data *d;
	int rc = 0;

	if (!p->rela || !p->relasz)
		return 0;
	at = offset_of(p, p->rela, p->relasz);
	if (at < 0 || p->relasz % sizeof(Elf64_Rela))
		return co_refuse(&p->e, -EILSEQ,
				 "DT_RELA 0x%llx DT_RELASZ %llu, wanted file bytes of a segment in "
				 "units of %zu",
				 (unsigned long long)p->rela, (unsigned long long)p->relasz,
				 sizeof(Elf64_Rela));
	d = elf_getdata_rawchunk(p->elf, at, p->relasz, ELF_T_RELA);
	if (!d)
		return co_refuse(&p->e, -EILSEQ, "DT_RELA: %s", elf_errmsg(-1));
	p->co->relocs = calloc(n, sizeof(*p->co->relocs));
	if (!p->co->relocs)
		return co_refuse(&p->e, -ENOMEM, "out of memory");
	for (uint64_t i = 0; !rc && i < n; i++) {
		GElf_Rela ra;

		if (!gelf_getrela(d, (int)i, &ra))
			return co_refuse(&p->e, -EILSEQ, "relocation %llu: %s",
					 (unsigned long long)i, elf_errmsg(-1));
		rc = parse_reloc(p, i, &ra);
	}
	return rc;
}

static int place_kernel(struct parse *p, struct co_meta_kernel *mk)
{
	struct co_kernel *k = &mk->k;
	const struct co_segment *code;
	GElf_Sym s;
	struct kd kd;
	int64_t at;

	if (!symbol_find(p, mk->symbol, &s))
		return co_refuse(&p->e, -EILSEQ,
				 "kernel %s: .symbol %s, wanted a defined dynamic symbol", k->name,
				 mk->symbol);
	at = offset_of(p, s.st_value, KD_BYTES);
	if (at < 0 || s.st_value % KD_BYTES)
		return co_refuse(
			&p->e, -EILSEQ,
			"kernel %s: descriptor at 0x%llx, wanted 64 file bytes of a segment "
			"aligned to 64",
			k->name, (unsigned long long)s.st_value);
	k->kd_vaddr = s.st_value;
	memcpy(k->kd, p->image + at, KD_BYTES);
	kd_decode(k->kd, &kd);
	k->entry_vaddr = k->kd_vaddr + (uint64_t)kd.entry_offset;
	code = segment_of(p->co, k->entry_vaddr, 4, true);
	if (!code || !code->exec || k->entry_vaddr % ENTRY_ALIGN)
		return co_refuse(&p->e, -EILSEQ,
				 "kernel %s: entry at 0x%llx, wanted in an executable segment, "
				 "aligned to %u",
				 k->name, (unsigned long long)k->entry_vaddr, ENTRY_ALIGN);
	if (kd_wave32(&kd) == k->wave64)
		return co_refuse(&p->e, -EILSEQ,
				 "kernel %s: descriptor says wave%u, metadata .wavefront_size %u",
				 k->name, kd_wave32(&kd) ? 32 : 64, k->wave64 ? 64 : 32);
	/* The packet carries these; whichever of the two claims more is what the code may use. */
	if (kd.group_bytes > k->group_bytes)
		k->group_bytes = kd.group_bytes;
	if (kd.private_bytes > k->private_bytes)
		k->private_bytes = kd.private_bytes;
	if (kd.kernarg_bytes > k->kernarg_bytes)
		k->kernarg_bytes = kd.kernarg_bytes;
	return 0;
}

static int place_kernels(struct parse *p)
{
	struct codeobj *co = p->co;
	int rc = 0;

	if (!p->meta.n_kernels)
		return 0;
	co->kernels = calloc(p->meta.n_kernels, sizeof(*co->kernels));
	if (!co->kernels)
		return co_refuse(&p->e, -ENOMEM, "out of memory");
	for (uint32_t i = 0; !rc && i < p->meta.n_kernels; i++) {
		rc = place_kernel(p, &p->meta.kernels[i]);
		if (rc)
			break;
		/* the names and arguments change owner */
		co->kernels[co->n_kernels++] = p->meta.kernels[i].k;
		p->meta.kernels[i].k.name = NULL;
		p->meta.kernels[i].k.args = NULL;
	}
	return rc;
}

static int parse(const void *image, size_t n, bool any, struct codeobj **out,
		 const struct co_err *e)
{
	struct parse p = {.image = image, .n = n, .e = *e};
	int rc = check_ident(&p);

	if (rc)
		return rc;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return co_refuse(e, -ENOTSUP, "libelf: %s", elf_errmsg(-1));
	p.co = calloc(1, sizeof(*p.co));
	if (!p.co)
		return co_refuse(e, -ENOMEM, "out of memory");
	p.co->image = image;
	p.co->image_bytes = n;
	/* libelf opens memory read-only: the cast does not let it write */
	p.elf = elf_memory((char *)(uintptr_t)image, n);
	if (!p.elf) {
		rc = co_refuse(e, -EILSEQ, "libelf: %s", elf_errmsg(-1));
		goto out;
	}
	rc = parse_header(&p, any);
	if (!rc)
		rc = parse_segments(&p);
	if (!rc)
		rc = parse_note(&p);
	if (!rc)
		rc = parse_dynamic(&p);
	if (!rc)
		rc = parse_symbols(&p);
	if (!rc)
		rc = parse_relocs(&p);
	if (!rc)
		rc = place_kernels(&p);
	if (rc)
		goto out;
	if (p.meta.target[0])
		memcpy(p.co->target, p.meta.target, sizeof(p.co->target));
	else
		snprintf(p.co->target, sizeof(p.co->target), "amdgcn-amd-amdhsa--%s",
			 co_mach_name(p.co->mach));
	*out = p.co;
	p.co = NULL;
out:
	co_meta_free(&p.meta);
	if (p.elf)
		elf_end(p.elf);
	co_free(p.co);
	return rc;
}

int co_parse(const void *image, size_t n, struct codeobj **out, char *err, size_t errlen)
{
	return parse(image, n, false, out, &(struct co_err){err, errlen});
}

int co_parse_any(const void *image, size_t n, struct codeobj **out, char *err, size_t errlen)
{
	return parse(image, n, true, out, &(struct co_err){err, errlen});
}

void co_free(struct codeobj *co)
{
	if (!co)
		return;
	for (uint32_t i = 0; i < co->n_kernels; i++) {
		free(co->kernels[i].name);
		free(co->kernels[i].args);
	}
	free(co->kernels);
	free(co->segments);
	free(co->relocs);
	free(co);
}

const struct co_kernel *co_find(const struct codeobj *co, const char *kernel)
{
	for (uint32_t i = 0; i < co->n_kernels; i++)
		if (!strcmp(co->kernels[i].name, kernel))
			return &co->kernels[i];
	return NULL;
}
