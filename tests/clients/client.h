/* What the clients share: checks that count, packets, a code object placed in memory.
 *
 * The clients use none of the driver's code: they are other people's view of the device.
 */
#ifndef TESTS_CLIENTS_CLIENT_H
#define TESTS_CLIENTS_CLIENT_H

#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned checks, failures;

/* Counts; says so on stderr when ok is false. Returns ok. */
static inline bool check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool check(bool ok, const char *fmt, ...)
{
	va_list ap;

	checks++;
	if (ok)
		return true;
	failures++;
	va_start(ap, fmt);
	fprintf(stderr, "FAIL: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	return false;
}

/* Ends the client when what follows cannot run without it. */
#define need(...)                                                                                  \
	do {                                                                                       \
		if (!check(__VA_ARGS__))                                                           \
			client_end();                                                              \
	} while (0)

static inline void client_end(void) __attribute__((noreturn));
static inline void client_end(void)
{
	printf("%u checks, %u failed\n", checks, failures);
	fflush(NULL);
	_exit(failures ? 1 : 0);
}

/* What kernel and packet processor read of a kernel descriptor (LLVM's AMDGPU documentation). */
struct kernel_descriptor {
	uint32_t group_bytes, private_bytes, kernarg_bytes, reserved0;
	int64_t entry;
	uint32_t reserved1[5], rsrc3, rsrc1, rsrc2;
	uint16_t properties, preload;
	uint32_t reserved2;
};
_Static_assert(sizeof(struct kernel_descriptor) == 64, "a kernel descriptor has 64 bytes");

/* The whole file, or NULL; the caller frees it. */
static inline void *read_file(const char *path, size_t *size)
{
	struct stat st;
	void *p = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st)) {
		p = malloc((size_t)st.st_size);
		if (p && read(fd, p, (size_t)st.st_size) != st.st_size) {
			free(p);
			p = NULL;
		}
		*size = (size_t)st.st_size;
	}
	close(fd);
	return p;
}

/* Bytes that a code object takes in memory. */
static inline uint64_t image_bytes(const void *elf)
{
	const Elf64_Ehdr *e = elf;
	const Elf64_Phdr *p = (const void *)((const char *)elf + e->e_phoff);
	uint64_t end = 0;

	for (unsigned i = 0; i < e->e_phnum; i++) {
		if (p[i].p_type == PT_LOAD && p[i].p_vaddr + p[i].p_memsz > end)
			end = p[i].p_vaddr + p[i].p_memsz;
	}
	return end;
}

/* Lays a code object without relocations out at to. Returns the offset of NAME.kd, 0 if absent. */
static inline uint64_t image_place(const void *elf, void *to, const char *kd)
{
	const char *b = elf;
	const Elf64_Ehdr *e = elf;
	const Elf64_Phdr *p = (const void *)(b + e->e_phoff);
	const Elf64_Shdr *s = (const void *)(b + e->e_shoff);

	for (unsigned i = 0; i < e->e_phnum; i++) {
		if (p[i].p_type == PT_LOAD)
			memcpy((char *)to + p[i].p_vaddr, b + p[i].p_offset, p[i].p_filesz);
	}
	for (unsigned i = 0; i < e->e_shnum; i++) {
		const Elf64_Sym *sym = (const void *)(b + s[i].sh_offset);
		const char *names;

		if (s[i].sh_type != SHT_DYNSYM)
			continue;
		names = b + s[s[i].sh_link].sh_offset;
		for (unsigned k = 0; k < s[i].sh_size / sizeof(*sym); k++) {
			if (!strcmp(names + sym[k].st_name, kd))
				return sym[k].st_value;
		}
	}
	return 0;
}

/* ---- AQL ---- */

struct aql_dispatch {
	uint16_t header, setup, group[3], reserved0;
	uint32_t grid[3], private_bytes, group_bytes;
	uint64_t kernel, kernarg, reserved2, signal;
};

struct aql_barrier {
	uint16_t header, reserved0;
	uint32_t reserved1;
	uint64_t dep[5], reserved2, signal;
};
_Static_assert(sizeof(struct aql_dispatch) == 64 && sizeof(struct aql_barrier) == 64, "64 bytes");

/* Type, barrier bit, both fences at system scope. */
#define AQL_HEADER(type) ((uint16_t)((type) | 1u << 8 | 2u << 9 | 2u << 11))
enum { AQL_INVALID = 1, AQL_DISPATCH = 2, AQL_BARRIER_AND = 3 };

struct amd_signal {
	int64_t kind, value;
	uint64_t mailbox;
	uint32_t event_id, reserved1;
	uint64_t start, end, queue, reserved3;
};
_Static_assert(sizeof(struct amd_signal) == 64, "a signal has 64 bytes");

#endif
