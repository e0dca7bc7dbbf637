/* The name of an instruction: function + offset in file. Reads /proc/self/maps and the file's symbol
 * table itself: the loader's lock may be held by a thread that waits for us. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "check/internal.h"
#include "vm/rawsys.h"

struct image {
	const uint8_t *p;
	uint64_t bytes;
};

static const void *at(const struct image *m, uint64_t off, uint64_t n)
{
	return off <= m->bytes && n <= m->bytes - off ? m->p + off : NULL;
}

/* The address in the file's own terms of a file offset. */
static bool file_address(const struct image *m, const Elf64_Ehdr *h, uint64_t off, uint64_t *out)
{
	for (unsigned i = 0; i < h->e_phnum; i++) {
		const Elf64_Phdr *p = at(m, h->e_phoff + i * sizeof(*p), sizeof(*p));

		if (!p || p->p_type != PT_LOAD || off - p->p_offset >= p->p_filesz)
			continue;
		*out = p->p_vaddr + (off - p->p_offset);
		return true;
	}
	return false;
}

/* The function of one symbol table that holds addr. */
static const char *in_table(const struct image *m, const Elf64_Ehdr *h, const Elf64_Shdr *t,
			    uint64_t addr, uint64_t *start)
{
	const Elf64_Shdr *names = at(m, h->e_shoff + t->sh_link * sizeof(*t), sizeof(*t));
	const Elf64_Sym *s = at(m, t->sh_offset, t->sh_size);

	for (uint64_t i = 0; names && s && i < t->sh_size / sizeof(*s); i++) {
		const char *name;

		if (ELF64_ST_TYPE(s[i].st_info) != STT_FUNC || addr - s[i].st_value >= s[i].st_size)
			continue;
		name = at(m, names->sh_offset + s[i].st_name, 1);
		if (!name || s[i].st_name >= names->sh_size ||
		    !at(m, names->sh_offset, names->sh_size) ||
		    !memchr(name, 0, names->sh_size - s[i].st_name))
			return NULL;
		*start = s[i].st_value;
		return name;
	}
	return NULL;
}

static const char *function(const struct image *m, uint64_t off, uint64_t *into)
{
	const Elf64_Ehdr *h = at(m, 0, sizeof(*h));
	static const uint32_t kinds[] = {SHT_SYMTAB, SHT_DYNSYM};
	uint64_t addr, start;

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_shentsize != sizeof(Elf64_Shdr) || h->e_phentsize != sizeof(Elf64_Phdr) ||
	    !file_address(m, h, off, &addr))
		return NULL;
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < h->e_shnum; i++) {
			const Elf64_Shdr *t = at(m, h->e_shoff + i * sizeof(*t), sizeof(*t));
			const char *name = t && t->sh_type == kinds[k]
						   ? in_table(m, h, t, addr, &start)
						   : NULL;

			if (!name)
				continue;
			*into = addr - start;
			return name;
		}
	return NULL;
}

static void in_file(const char *path, uint64_t off, char *out, size_t len)
{
	long fd = rawsys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), p = -1;
	const char *base = strrchr(path, '/'), *name = NULL;
	struct image m = {0};
	uint64_t into = 0;
	struct stat st = {0};

	base = base ? base + 1 : path;
	if (fd >= 0 && !rawsys2(SYS_fstat, fd, &st) && st.st_size > 0) {
		m.bytes = (uint64_t)st.st_size;
		p = rawsys6(SYS_mmap, 0, m.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		m.p = (const uint8_t *)p;
	}
	if (p > 0 || p < -4095) {
		name = function(&m, off, &into);
		if (name)
			snprintf(out, len, "%.100s+0x%lx in %.60s", name, into, base);
		rawsys2(SYS_munmap, p, m.bytes);
	}
	if (!name)
		snprintf(out, len, "%.100s+0x%lx", base, off);
	if (fd >= 0)
		rawsys1(SYS_close, fd);
}

/* One line of maps: start-end perms offset dev inode path. */
static bool line_holds(const char *line, uint64_t pc, uint64_t *off, const char **path)
{
	char *end;
	uint64_t start = strtoull(line, &end, 16), stop, first;

	if (*end != '-')
		return false;
	stop = strtoull(end + 1, &end, 16);
	if (pc < start || pc >= stop || strlen(end) < 6)
		return false;
	first = strtoull(end + 6, &end, 16);
	*path = strchr(end, '/');
	*off = first + (pc - start);
	return *path != NULL;
}

void check_place(uint64_t pc, char *out, size_t len)
{
	long fd = rawsys4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), n;
	char text[8192], *line, *end;
	size_t have = 0;
	bool found = false;
	const char *path;
	uint64_t off;

	out[0] = '\0';
	while (fd >= 0 && !found &&
	       (n = rawsys3(SYS_read, fd, text + have, sizeof(text) - 1 - have)) > 0) {
		have += (size_t)n;
		text[have] = '\0';
		line = text;
		while (!found && (end = strchr(line, '\n'))) {
			*end = '\0';
			if (line_holds(line, pc, &off, &path)) {
				in_file(path, off, out, len);
				found = true;
			}
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
	}
	if (fd >= 0)
		rawsys1(SYS_close, fd);
}
