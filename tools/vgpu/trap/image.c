/* ELF files into memory, as fs/binfmt_elf.c does it. */
#include "trap/trap.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/rawsys.h"

#define MAX_PHDRS 64
#define PIE_BASE  0x555555554000ull /* ELF_ET_DYN_BASE without randomisation */
#define DOWN(x)   ((x) & ~4095ull)
#define UP(x)     (((x) + 4095) & ~4095ull)

static int read_headers(long fd, Elf64_Ehdr *eh, Elf64_Phdr *ph)
{
	long n = rawsys4(SYS_pread64, fd, eh, sizeof(*eh), 0);

	if (n < 0)
		return (int)n;
	if (n < (long)sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (eh->e_machine != EM_X86_64 || eh->e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOEXEC;
	if ((eh->e_type != ET_EXEC && eh->e_type != ET_DYN) || eh->e_phentsize != sizeof(*ph) ||
	    !eh->e_phnum || eh->e_phnum > MAX_PHDRS)
		return -ENOEXEC;
	n = (long)(eh->e_phnum * sizeof(*ph));
	return rawsys4(SYS_pread64, fd, ph, n, eh->e_phoff) == n ? 0 : -ENOEXEC;
}

static int open_image(const char *path)
{
	struct stat st = {0};
	long fd = rawsys4(SYS_faccessat, AT_FDCWD, path, X_OK, 0);

	if (fd < 0)
		return (int)fd;
	fd = rawsys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return (int)fd;
	if (rawsys2(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode)) {
		rawsys1(SYS_close, fd);
		return -EACCES;
	}
	return (int)fd;
}

static bool has_interpreter(long fd, const Elf64_Ehdr *eh, const Elf64_Phdr *ph, char *name,
			    size_t n)
{
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_INTERP)
			continue;
		if (!ph[i].p_filesz || ph[i].p_filesz > n)
			return false;
		if (rawsys4(SYS_pread64, fd, name, ph[i].p_filesz, ph[i].p_offset) !=
		    (long)ph[i].p_filesz)
			return false;
		name[ph[i].p_filesz - 1] = 0;
		return true;
	}
	return false;
}

int image_probe(const char *path, char *line, size_t n)
{
	Elf64_Phdr ph[MAX_PHDRS];
	Elf64_Ehdr eh = {0};
	char interp[256];
	int fd = open_image(path), r;
	long len;

	if (fd < 0)
		return fd;
	memset(line, 0, n);
	len = rawsys4(SYS_pread64, fd, line, n - 1, 0);
	if (len < 0) {
		r = (int)len;
		goto out;
	}
	if (len >= 2 && line[0] == '#' && line[1] == '!') {
		size_t end = strcspn(line, "\n");

		/* Without its end in sight a name may be cut. */
		r = -ENOEXEC;
		if (end == (size_t)len && (size_t)len == n - 1 &&
		    strcspn(line + 2 + strspn(line + 2, " \t"), " \t") ==
			    strlen(line + 2 + strspn(line + 2, " \t")))
			goto out;
		line[end] = 0;
		memmove(line, line + 2, end - 1);
		r = IMAGE_SCRIPT;
		goto out;
	}
	if (len >= (long)EI_NIDENT && !memcmp(line, ELFMAG, SELFMAG) &&
	    (line[EI_CLASS] != ELFCLASS64 || ((Elf64_Ehdr *)line)->e_machine != EM_X86_64)) {
		r = IMAGE_OTHER_ARCH;
		goto out;
	}
	r = read_headers(fd, &eh, ph);
	if (r)
		goto out;
	r = IMAGE_ELF;
	if (has_interpreter(fd, &eh, ph, interp, sizeof(interp))) {
		long err = rawsys3(SYS_faccessat, AT_FDCWD, interp, X_OK);

		if (err)
			r = (int)err;
	}
out:
	rawsys1(SYS_close, fd);
	return r;
}

/* fs/binfmt_script.c: the interpreter, at most one argument, the script. */
int image_script(char *line, const char **interp, const char **arg)
{
	char *s = line + strspn(line, " \t"), *e;

	*arg = NULL;
	if (!*s)
		return -ENOEXEC;
	*interp = s;
	e = s + strcspn(s, " \t");
	if (*e) {
		*e++ = 0;
		e += strspn(e, " \t");
		for (char *t = e + strlen(e); t > e && (t[-1] == ' ' || t[-1] == '\t');)
			*--t = 0;
		if (*e)
			*arg = e;
	}
	return 0;
}

static int protection(const Elf64_Phdr *p)
{
	return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
	       (p->p_flags & PF_X ? PROT_EXEC : 0);
}

static int map_segment(int fd, const Elf64_Phdr *p, uint64_t bias)
{
	uint64_t start = DOWN(bias + p->p_vaddr), file_end = bias + p->p_vaddr + p->p_filesz;
	uint64_t mem_end = UP(bias + p->p_vaddr + p->p_memsz), pad = p->p_vaddr & 4095;
	int prot = protection(p);
	long r;

	if (p->p_filesz) {
		r = rawsys6(SYS_mmap, start, UP(file_end) - start, prot, MAP_PRIVATE | MAP_FIXED,
			    fd, p->p_offset - pad);
		if (r < 0 && r > -4096)
			return (int)r;
		if (p->p_memsz > p->p_filesz && (prot & PROT_WRITE))
			memset((void *)file_end, 0, UP(file_end) - file_end);
		start = UP(file_end);
	}
	if (mem_end > start) {
		r = rawsys6(SYS_mmap, start, mem_end - start, prot,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (r < 0 && r > -4096)
			return (int)r;
	}
	return 0;
}

/* An address range for all segments; nothing of it is usable yet. */
static int reserve(const Elf64_Ehdr *eh, const Elf64_Phdr *ph, bool interpreter, struct image *out)
{
	uint64_t lo = UINT64_MAX, hi = 0, align = 4096, want, slack;
	long at;

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		if (DOWN(ph[i].p_vaddr) < lo)
			lo = DOWN(ph[i].p_vaddr);
		if (UP(ph[i].p_vaddr + ph[i].p_memsz) > hi)
			hi = UP(ph[i].p_vaddr + ph[i].p_memsz);
		if (ph[i].p_align > align && !(ph[i].p_align & (ph[i].p_align - 1)))
			align = ph[i].p_align;
	}
	if (hi <= lo)
		return -ENOEXEC;
	if (eh->e_type == ET_EXEC) {
		at = rawsys6(SYS_mmap, lo, hi - lo, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (at != (long)lo)
			return at < 0 && at > -4096 ? (int)at : -EEXIST;
		out->bias = 0;
		out->end = hi;
		return 0;
	}
	want = interpreter ? 0 : (PIE_BASE + align - 1) & ~(align - 1);
	slack = align > 4096 ? align : 0;
	at = rawsys6(SYS_mmap, want, hi - lo + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (at < 0 && at > -4096)
		return (int)at;
	want = ((uint64_t)at + align - 1) & ~(align - 1);
	if (want > (uint64_t)at)
		rawsys2(SYS_munmap, at, want - (uint64_t)at);
	if ((uint64_t)at + slack > want)
		rawsys2(SYS_munmap, want + hi - lo, (uint64_t)at + slack - want);
	out->bias = want - lo;
	out->end = want + hi - lo;
	return 0;
}

int image_map(const char *path, struct image *out, bool interpreter)
{
	Elf64_Phdr ph[MAX_PHDRS];
	Elf64_Ehdr eh = {0};
	int fd = open_image(path), r;

	if (fd < 0)
		return fd;
	memset(out, 0, sizeof(*out));
	r = read_headers(fd, &eh, ph);
	if (!r)
		r = reserve(&eh, ph, interpreter, out);
	for (unsigned i = 0; !r && i < eh.e_phnum; i++) {
		const Elf64_Phdr *p = &ph[i];

		if (p->p_type == PT_GNU_STACK)
			out->exec_stack = p->p_flags & PF_X;
		if (p->p_type == PT_PHDR)
			out->phdr = out->bias + p->p_vaddr;
		if (p->p_type != PT_LOAD)
			continue;
		r = map_segment(fd, p, out->bias);
		if (!out->phdr && eh.e_phoff >= p->p_offset &&
		    eh.e_phoff < p->p_offset + p->p_filesz)
			out->phdr = out->bias + p->p_vaddr + eh.e_phoff - p->p_offset;
	}
	if (!r) {
		has_interpreter(fd, &eh, ph, out->interp, sizeof(out->interp));
		out->phnum = eh.e_phnum;
		out->entry = out->bias + eh.e_entry;
	}
	rawsys1(SYS_close, fd);
	return r;
}
