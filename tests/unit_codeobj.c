/* Code objects: what good ones say, what bad ones are refused for, and that no image crashes. */
#include <criterion/criterion.h>

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codeobj/codeobj.h"
#include "codeobj/descriptor.h"
#include "tests/testdata.h"

struct file {
	uint8_t *p;
	size_t n;
};

static struct file slurp(const char *name)
{
	struct file f = {0};
	const char *path = testdata(name);
	FILE *in;
	long n;

	cr_assert(path, "%s is missing", name);
	in = fopen(path, "rb");
	cr_assert(in);
	cr_assert_eq(fseek(in, 0, SEEK_END), 0);
	n = ftell(in);
	cr_assert(n > 0 && fseek(in, 0, SEEK_SET) == 0);
	f.p = malloc((size_t)n);
	f.n = fread(f.p, 1, (size_t)n, in);
	cr_assert_eq(f.n, (size_t)n);
	fclose(in);
	return f;
}

static struct codeobj *good(const struct file *f)
{
	struct codeobj *co = NULL;
	char err[256] = "";
	int rc = co_parse(f->p, f->n, &co, err, sizeof(err));

	cr_assert_eq(rc, 0, "refused: %s", err);
	return co;
}

/* Values of the shipped manifest: independent of this reader (made by the kernels' own script). */
static const struct {
	const char *name, *file;
	uint64_t kd, entry;
	uint32_t lds, kernarg, rsrc1, rsrc2, props, vgprs, user_sgprs, wgp;
} bench[] = {
	{"vecadd", "vecadd", 1344, 5632, 0, 28, 0x60af0040, 0x84, 0x408, 8, 2, 1},
	{"sgemm", "sgemm", 1408, 5632, 8704, 36, 0x60af004b, 0x184, 0x408, 96, 2, 1},
	{"sgemm", "sgemm_cu", 1408, 5632, 8704, 36, 0x40af004b, 0x184, 0x408, 96, 2, 0},
	{"q8dot", "q8dot", 1344, 5632, 0, 28, 0x60af0043, 0x84, 0x408, 32, 2, 1},
	{"wmma_gemm", "wmma", 1408, 5632, 0, 36, 0x60af0049, 0x184, 0x408, 80, 2, 1},
};

static uint32_t field(const struct kd *kd, const char *name)
{
	for (unsigned i = 0; i < kd_n_fields; i++)
		if (!strcmp(kd_fields[i].name, name))
			return kd_field_get(kd, &kd_fields[i]);
	cr_assert_fail("no descriptor field %s", name);
	return 0;
}

Test(codeobj, bench_descriptors)
{
	for (size_t i = 0; i < sizeof(bench) / sizeof(bench[0]); i++) {
		char path[64];
		struct file f;
		struct codeobj *co;
		const struct co_kernel *k;
		struct kd kd;

		snprintf(path, sizeof(path), "bench-kernels/%s.co", bench[i].file);
		f = slurp(path);
		co = good(&f);
		cr_assert_eq(co->mach, CO_MACH_GFX1151);
		cr_assert_eq(co->version, 5u);
		cr_assert_str_eq(co->target, "amdgcn-amd-amdhsa--gfx1151");
		cr_assert_eq(co->n_kernels, 1u);
		k = co_find(co, bench[i].name);
		cr_assert(k);
		cr_assert_eq(k->kd_vaddr, bench[i].kd);
		cr_assert_eq(k->entry_vaddr, bench[i].entry);
		cr_assert_eq(k->group_bytes, bench[i].lds);
		cr_assert_eq(k->kernarg_bytes, bench[i].kernarg);
		cr_assert_eq(k->private_bytes, 0u);
		cr_assert_not(k->wave64);
		kd_decode(k->kd, &kd);
		cr_assert_eq(kd.rsrc1, bench[i].rsrc1);
		cr_assert_eq(kd.rsrc2, bench[i].rsrc2);
		cr_assert_eq(kd.properties, bench[i].props);
		cr_assert_eq(kd_vgprs(&kd), bench[i].vgprs);
		cr_assert_eq(kd_user_sgprs(&kd), bench[i].user_sgprs);
		cr_assert_eq(field(&kd, "wgp_mode"), bench[i].wgp);
		cr_assert(kd_reserved_zero(k->kd));
		for (int w = KD_RSRC1; w <= KD_PRELOAD; w++)
			cr_assert_eq(kd_reserved_bits(&kd, (enum kd_word)w), 0u);
		co_free(co);
		free(f.p);
	}
}

Test(codeobj, descriptor_fields_do_not_overlap)
{
	uint64_t seen[5] = {0};

	for (unsigned i = 0; i < kd_n_fields; i++) {
		uint64_t m = ((1ull << kd_fields[i].width) - 1) << kd_fields[i].lsb;

		cr_assert_eq(seen[kd_fields[i].word] & m, 0u, "%s", kd_fields[i].name);
		seen[kd_fields[i].word] |= m;
	}
}

Test(codeobj, descriptor_reserved)
{
	uint8_t raw[KD_BYTES] = {0};
	struct kd kd;

	cr_assert(kd_reserved_zero(raw));
	raw[30] = 1;
	cr_assert_not(kd_reserved_zero(raw));
	raw[30] = 0;
	raw[51] = 0x18; /* rsrc1 bits 27 and 28 */
	kd_decode(raw, &kd);
	cr_assert_eq(kd_reserved_bits(&kd, KD_RSRC1), 0x18000000u);
	cr_assert_eq(kd_vgprs(&kd), 4u, "wave64 granule");
}

Test(codeobj, vecadd_arguments)
{
	static const struct {
		enum co_arg_kind kind;
		uint32_t offset, size;
	} want[] = {
		{CO_ARG_GLOBAL_BUFFER, 0, 8},
		{CO_ARG_GLOBAL_BUFFER, 8, 8},
		{CO_ARG_GLOBAL_BUFFER, 16, 8},
		{CO_ARG_BY_VALUE, 24, 4},
	};
	struct file f = slurp("bench-kernels/vecadd.co");
	struct codeobj *co = good(&f);

	cr_assert_eq(co->kernels[0].n_args, 4u);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(co->kernels[0].args[i].kind, want[i].kind);
		cr_assert_eq(co->kernels[0].args[i].offset, want[i].offset);
		cr_assert_eq(co->kernels[0].args[i].size, want[i].size);
	}
	co_free(co);
	free(f.p);
}

Test(codeobj, versions)
{
	static const char *const names[] = {"codeobj/reloc-v4.co", "codeobj/reloc.co",
					    "codeobj/reloc-v6.co"};

	for (uint32_t v = 4; v <= 6; v++) {
		struct file f = slurp(names[v - 4]);
		struct codeobj *co = good(&f);

		cr_assert_eq(co->version, v);
		cr_assert_eq(co->abi_version, v - 2);
		co_free(co);
		free(f.p);
	}
}

Test(codeobj, relocations)
{
	struct file f = slurp("codeobj/reloc.co");
	struct codeobj *co = good(&f);
	const uint64_t base = 0x7f1234560000;
	uint8_t *mem = calloc(1, co->vaddr_end);
	uint64_t table[4], values = 0x38b0;
	char err[128];

	cr_assert_eq(co->n_relocs, 4u);
	for (uint32_t i = 0; i < co->n_segments; i++)
		memcpy(mem + co->segments[i].vaddr, f.p + co->segments[i].offset,
		       co->segments[i].filesz);
	cr_assert_eq(co_relocate(co, base, mem, err, sizeof(err)), 0);
	memcpy(table, mem + 0x38c8, sizeof(table));
	cr_assert_eq(table[0], base + values + 4);
	cr_assert_eq(table[1], base + 0x38c4);
	cr_assert_eq(table[2], base + values + 12);
	cr_assert_eq(table[3], base + 0x39e4);
	free(mem);
	co_free(co);
	free(f.p);
}

/* Every type against the formulas of AMDGPUUsage, on a hand-made object. */
Test(codeobj, relocation_arithmetic)
{
	const uint64_t base = 0x7f0000001000, s = base + 0x40 + 8, p = base + 16;
	static const struct {
		uint32_t type;
		int width;
	} t[] = {{1, 4}, {2, 4}, {3, 8}, {4, 4}, {5, 8}, {10, 4}, {11, 4}, {13, 8}};
	const uint64_t want[] = {(uint32_t)s,       s >> 32, s,
				 (uint32_t)(s - p), s - p,   (uint32_t)(s - p),
				 (s - p) >> 32,     base + 8};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct co_reloc r = {
			.offset = 16, .type = t[i].type, .addend = 8, .sym_value = 0x40};
		struct codeobj co = {.relocs = &r, .n_relocs = 1, .vaddr_end = 32};
		uint8_t mem[32] = {0};
		uint64_t got = 0;

		cr_assert_eq(co_relocate(&co, base, mem, NULL, 0), 0);
		memcpy(&got, mem + 16, (size_t)t[i].width);
		cr_assert_eq(got, want[i], "type %u: %llx", t[i].type, (unsigned long long)got);
		cr_assert_eq(mem[15], 0);
		cr_assert_eq(mem[16 + t[i].width], 0);
	}
}

Test(codeobj, relocation_out_of_reach)
{
	struct co_reloc r = {.offset = 0, .type = 6, .sym_value = 0};
	struct codeobj co = {.relocs = &r, .n_relocs = 1, .vaddr_end = 8};
	uint8_t mem[8] = {0};
	char err[128];

	cr_assert_eq(co_relocate(&co, 0x7f0000000000, mem, err, sizeof(err)), -ERANGE);
	cr_assert(strstr(err, "ABS32"), "%s", err);
	cr_assert_eq(co_relocate(&co, 0x1000, mem, err, sizeof(err)), 0);
	r.type = 4;
	r.addend = 1ll << 40;
	cr_assert_eq(co_relocate(&co, 0x1000, mem, err, sizeof(err)), -ERANGE);
	r.addend = -64;
	cr_assert_eq(co_relocate(&co, 0x1000, mem, err, sizeof(err)), 0);
}

Test(codeobj, hidden_arguments)
{
	struct file f = slurp("codeobj/hidden.co");
	struct codeobj *co = good(&f);
	const struct co_kernel *k = co_find(co, "hidden");
	struct co_launch l = {
		.grid = {1000, 21, 5}, .group = {64, 4, 2}, .dims = 3, .dynamic_lds = 512};
	uint8_t arg[264];
	uint32_t w;
	uint16_t h;

	cr_assert(k);
	cr_assert_eq(k->kernarg_bytes, 264u);
	memset(arg, 0xee, sizeof(arg));
	co_fill_hidden(k, &l, arg);
	for (int i = 0; i < 8; i++)
		cr_assert_eq(arg[i], 0xee, "explicit arguments are the caller's");
#define U32(o) (memcpy(&w, arg + (o), 4), w)
#define U16(o) (memcpy(&h, arg + (o), 2), h)
	cr_assert_eq(U32(8), 15u);
	cr_assert_eq(U32(12), 5u);
	cr_assert_eq(U32(16), 2u);
	cr_assert_eq(U16(20), 64);
	cr_assert_eq(U16(22), 4);
	cr_assert_eq(U16(24), 2);
	cr_assert_eq(U16(26), 1000 % 64);
	cr_assert_eq(U16(28), 1);
	cr_assert_eq(U16(30), 1);
	cr_assert_eq(U32(48), 0u);
	cr_assert_eq(U16(72), 3);
	cr_assert_eq(U32(88), 0u);
	co_free(co);
	free(f.p);
}

Test(codeobj, hidden_bases)
{
	struct co_arg a[] = {
		{.kind = CO_ARG_HIDDEN_PRIVATE_BASE, .offset = 0, .size = 4},
		{.kind = CO_ARG_HIDDEN_SHARED_BASE, .offset = 4, .size = 4},
		{.kind = CO_ARG_HIDDEN_QUEUE_PTR, .offset = 8, .size = 8},
		{.kind = CO_ARG_HIDDEN_DYNAMIC_LDS_SIZE, .offset = 16, .size = 4},
		{.kind = CO_ARG_HIDDEN_OTHER, .offset = 20, .size = 12},
	};
	struct co_kernel k = {.args = a, .n_args = 5, .kernarg_bytes = 32};
	struct co_launch l = {.dynamic_lds = 77,
			      .private_base = 0x2000000000000,
			      .shared_base = 0x1000000000000,
			      .queue_ptr = 0x1234567890};
	uint32_t w[8];

	memset(w, 0xff, sizeof(w));
	co_fill_hidden(&k, &l, w);
	cr_assert_eq(w[0], 0x20000u);
	cr_assert_eq(w[1], 0x10000u);
	cr_assert_eq(w[2], 0x34567890u);
	cr_assert_eq(w[3], 0x12u);
	cr_assert_eq(w[4], 77u);
	cr_assert(!w[5] && !w[6] && !w[7]);
}

Test(codeobj, launch_limits)
{
	struct co_kernel k = {.name = (char[]){"k"}, .group_bytes = 60000, .max_group = 256};
	struct co_launch l = {.grid = {256, 1, 1}, .group = {256, 1, 1}, .dims = 1};
	char err[160];

	cr_assert_eq(co_check_launch(&k, &l, err, sizeof(err)), 0);
	l.dynamic_lds = 5536;
	cr_assert_eq(co_check_launch(&k, &l, err, sizeof(err)), 0);
	l.dynamic_lds = 5537;
	cr_assert_eq(co_check_launch(&k, &l, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "65537") && strstr(err, "65536"), "%s", err);
	l.dynamic_lds = 0;
	l.group[1] = 2;
	cr_assert_eq(co_check_launch(&k, &l, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "512") && strstr(err, "256"), "%s", err);
	l.group[1] = 0;
	cr_assert_eq(co_check_launch(&k, &l, err, sizeof(err)), -EINVAL);
}

Test(codeobj, foreign_arch)
{
	struct file f = slurp("vecadd-gfx1100.co");
	struct codeobj *co = NULL;
	char err[256];

	cr_assert_eq(co_parse(f.p, f.n, &co, err, sizeof(err)), -ENOTSUP);
	cr_assert_str_eq(err, "e_flags mach 0x41 (gfx1100), wanted 0x4a (gfx1151)");
	cr_assert_null(co, "outputs stay untouched");
	cr_assert_eq(co_parse_any(f.p, f.n, &co, err, sizeof(err)), 0);
	cr_assert_eq(co->mach, 0x41u);
	cr_assert_eq(co->n_kernels, 1u);
	cr_assert_str_eq(co->target, "amdgcn-amd-amdhsa--gfx1100");
	co_free(co);
	free(f.p);
}

/* One wrong field each: its errno and a word of the sentence. */
Test(codeobj, wrong_fields)
{
	enum { PH1 = 64 + 56, PH3 = 64 + 3 * 56, DYN = 64 + 4 * 56, NOTE = 64 + 7 * 56 };
	static const struct {
		const char *what;
		unsigned at, bytes;
		uint64_t value;
		int rc;
		const char *says;
	} t[] = {
		{"magic", 0, 1, 0, -EILSEQ, "magic"},
		{"class", EI_CLASS, 1, 1, -ENOTSUP, "class 1"},
		{"data", EI_DATA, 1, 2, -ENOTSUP, "data 2"},
		{"osabi", EI_OSABI, 1, 0, -ENOTSUP, "OS ABI 0"},
		{"abi version", EI_ABIVERSION, 1, 1, -ENOTSUP, "ABI version 1"},
		{"abi version", EI_ABIVERSION, 1, 5, -ENOTSUP, "ABI version 5"},
		{"type", 16, 2, ET_REL, -ENOTSUP, "e_type 1"},
		{"machine", 18, 2, EM_X86_64, -ENOTSUP, "e_machine 62"},
		{"mach", 48, 1, 0x48, -ENOTSUP, "gfx1200"},
		{"mach", 48, 1, 0xfe, -ENOTSUP, "unknown arch"},
		{"xnack", 49, 1, 3, -ENOTSUP, "xnack 3"},
		{"sramecc", 49, 1, 8, -ENOTSUP, "sramecc 2"},
		{"phoff", 32, 8, 1ull << 40, -EILSEQ, "e_phoff"},
		{"phoff", 32, 8, UINT64_MAX - 8, -EILSEQ, "e_phoff"},
		{"phentsize", 54, 2, 32, -EILSEQ, "e_phentsize"},
		{"phnum", 56, 2, 0xfff0, -EILSEQ, "e_phnum"},
		{"phnum", 56, 2, 0, -EILSEQ, "e_phnum"},
		{"filesz", PH1 + 32, 8, 1ull << 62, -EILSEQ, "p_filesz"},
		{"offset", PH1 + 8, 8, UINT64_MAX - 3, -EILSEQ, "p_offset"},
		{"memsz", PH1 + 40, 8, 1, -EILSEQ, "p_memsz 0x1"},
		{"memsz", PH1 + 40, 8, 1ull << 40, -EILSEQ, "p_memsz"},
		{"vaddr", PH1 + 16, 8, UINT64_MAX - 1, -EILSEQ, "p_vaddr"},
		{"order", PH3 + 16, 8, 0x100, -EILSEQ, "before it"},
		{"dynamic", DYN + 8, 8, 1ull << 33, -EILSEQ, "p_offset"},
		{"dynamic", DYN, 4, PT_NULL, -EILSEQ, "PT_DYNAMIC"},
		{"dynamic", DYN + 32, 8, 0x20, -EILSEQ, "dynamic segment lacks"},
		{"note", NOTE, 4, PT_NULL, -EILSEQ, "PT_NOTE"},
		{"note", NOTE + 32, 8, 16, -EILSEQ, "note"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct file f = slurp("bench-kernels/sgemm.co");
		struct codeobj *co = NULL;
		char err[256] = "";
		int rc;

		memcpy(f.p + t[i].at, &t[i].value, t[i].bytes);
		rc = co_parse(f.p, f.n, &co, err, sizeof(err));
		cr_assert_eq(rc, t[i].rc, "%s (row %zu): rc %d, %s", t[i].what, i, rc, err);
		cr_assert(strstr(err, t[i].says), "%s (row %zu): %s", t[i].what, i, err);
		cr_assert_null(co);
		free(f.p);
	}
}

static size_t find(const struct file *f, const char *text, size_t n)
{
	const uint8_t *at = memmem(f->p, f->n, text, n);

	cr_assert(at, "%s not in the image", text);
	return (size_t)(at - f->p);
}

Test(codeobj, wrong_metadata)
{
	static const struct {
		const char *key;
		uint8_t value;
		const char *says;
	} t[] = {
		{".kernarg_segment_size", 0xc0, "msgpack type"}, /* nil */
		{".kernarg_segment_size", 8, "wanted within the 8 bytes"},
		{".kernarg_segment_align", 3, "power of two"},
		{".wavefront_size", 16, "wanted 32 or 64"},
		{".wavefront_size", 64, "descriptor says wave32"},
		{"amdhsa.version", 0x91, "not one complete"}, /* one element, then a stray */
		{"amdhsa.kernels", 0xc2, "not one complete"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct file f = slurp("bench-kernels/sgemm.co");
		struct codeobj *co = NULL;
		char err[256] = "";
		size_t at = find(&f, t[i].key, strlen(t[i].key)) + strlen(t[i].key);
		int rc;

		f.p[at] = t[i].value;
		rc = co_parse(f.p, f.n, &co, err, sizeof(err));
		if (i >= 5) /* what follows decides which rule notices; a refusal is owed */
			cr_assert_eq(rc, -EILSEQ, "row %zu: %d %s", i, rc, err);
		else
			cr_assert(rc == -EILSEQ && strstr(err, t[i].says), "row %zu: %d %s", i, rc,
				  err);
		cr_assert_null(co);
		free(f.p);
	}
}

Test(codeobj, names_are_fit_for_a_terminal)
{
	struct file f = slurp("bench-kernels/sgemm.co");
	struct codeobj *co = NULL;
	char err[256];
	size_t at = find(&f, ".name\xa5sgemm", 11) + 6;

	f.p[at] = 0x1b; /* escape */
	cr_assert_eq(co_parse(f.p, f.n, &co, err, sizeof(err)), -EILSEQ);
	cr_assert(strstr(err, "metadata .name holds byte 0x1b"), "%s", err);
	free(f.p);
}

Test(codeobj, absurd_metadata_count)
{
	/* array32 that claims 4G kernels: must be refused before anything is allocated for it */
	struct file f = slurp("bench-kernels/sgemm.co");
	struct codeobj *co = NULL;
	char err[256];
	size_t at = find(&f, "amdhsa.kernels", 14) + 14;

	memcpy(f.p + at, "\xdd\xff\xff\xff\xff", 5);
	cr_assert_eq(co_parse(f.p, f.n, &co, err, sizeof(err)), -EILSEQ);
	cr_assert(strstr(err, "not one complete msgpack object"), "%s", err);
	free(f.p);
}

Test(codeobj, bundles)
{
	char err[256];
	struct codeobj *co = NULL;
	static const char plain[64] = "__CLANG_OFFLOAD_BUNDLE__", packed[64] = "CCOB";

	cr_assert_eq(co_parse(plain, 64, &co, err, sizeof(err)), -ENOTSUP);
	cr_assert(strstr(err, "bundle"));
	cr_assert_eq(co_parse(packed, 64, &co, err, sizeof(err)), -ENOTSUP);
	cr_assert(strstr(err, "compressed"));
}

/* The image ends where a page without access begins, so that a read past it is seen even in
 * code that no sanitizer built. */
static uint8_t *guard_new(size_t max, size_t *room)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p;

	*room = (max + page - 1) / page * page;
	p = mmap(NULL, *room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(mprotect(p + *room, page, PROT_NONE), 0);
	return p;
}

/* Parses, and uses what a parsed object promises to be usable. */
static int exercise(const uint8_t *p, size_t n)
{
	struct codeobj *co = NULL;
	char err[256] = "";
	int rc = co_parse_any(p, n, &co, err, sizeof(err));
	uint64_t sum = 0;

	if (rc) {
		cr_assert(rc == -EILSEQ || rc == -ENOTSUP, "rc %d: %s", rc, err);
		cr_assert(err[0], "a refusal without a reason");
		cr_assert_null(strchr(err, '\n'));
		return rc;
	}
	for (uint32_t i = 0; i < co->n_segments; i++)
		for (uint64_t j = 0; j < co->segments[i].filesz; j++)
			sum += p[co->segments[i].offset + j];
	for (uint32_t i = 0; i < co->n_kernels; i++) {
		uint8_t *arg = calloc(1, (size_t)co->kernels[i].kernarg_bytes + 1);
		struct co_launch l = {.grid = {64, 1, 1}, .group = {64, 1, 1}, .dims = 1};

		sum += strlen(co->kernels[i].name);
		if (arg)
			co_fill_hidden(&co->kernels[i], &l, arg);
		free(arg);
	}
	if (co->vaddr_end < 1 << 20) {
		uint8_t *mem = calloc(1, co->vaddr_end + 1);

		co_relocate(co, 0x10000, mem, err, sizeof(err));
		free(mem);
	}
	co_free(co);
	return (int)(sum & 1);
}

static const char *const images[] = {"bench-kernels/vecadd.co", "codeobj/reloc.co",
				     "codeobj/hidden.co"};

Test(codeobj, truncated_at_every_byte)
{
	for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
		struct file f = slurp(images[i]);
		size_t room, loaded = 0;
		uint8_t *g = guard_new(f.n, &room);

		for (size_t n = 0; n < f.n; n++) {
			uint8_t *p = g + room - n;

			memcpy(p, f.p, n);
			loaded += exercise(p, n) >= 0;
		}
		/* sections and .symtab after the last segment are not needed to load it */
		cr_assert_lt(loaded, f.n / 2, "%zu truncations accepted", loaded);
		free(f.p);
	}
}

Test(codeobj, mutated)
{
	uint32_t x = 1151;

	for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
		struct file f = slurp(images[i]);
		size_t room, refused = 0;
		uint8_t *g = guard_new(f.n, &room), *p = g + room - f.n;

		for (unsigned round = 0; round < 4000; round++) {
			memcpy(p, f.p, f.n);
			for (unsigned k = 0; k < 1 + round % 4; k++) {
				x = x * 1664525 + 1013904223;
				/* the first 1.5 KiB hold headers, notes and the dynamic tables */
				size_t at = (x >> 8) % (round & 1 ? 1500 : f.n);

				x = x * 1664525 + 1013904223;
				p[at] = x & 0x1000 ? (uint8_t)(x >> 24)
						   : (uint8_t)(p[at] ^ 1 << (x >> 29));
			}
			refused += exercise(p, f.n) < 0;
		}
		cr_assert_gt(refused, 1000u, "%zu refused", refused);
		free(f.p);
	}
}
