/* Runs commands and looks at what they say, for the tests of whole programs. */
#ifndef TESTS_SHELL_H
#define TESTS_SHELL_H

#include <criterion/criterion.h>

#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAREWAVE "build/barewave"

struct result {
	int status; /* exit status, -1 when it died of a signal */
	char *out;  /* stdout and, with 2>&1 in the command, stderr */
	size_t len;
};

static inline struct result shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline struct result shell(const char *fmt, ...)
{
	struct result r = {0};
	char cmd[4096];
	size_t cap = 1 << 16, n;
	va_list ap;
	FILE *p;
	int st;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	p = popen(cmd, "r");
	cr_assert(p);
	r.out = malloc(cap + 1);
	while ((n = fread(r.out + r.len, 1, cap - r.len, p)) > 0) {
		r.len += n;
		if (r.len == cap) {
			cap *= 2;
			r.out = realloc(r.out, cap + 1);
			cr_assert(r.out);
		}
	}
	r.out[r.len] = '\0';
	st = pclose(p);
	r.status = WIFEXITED(st) ? WEXITSTATUS(st) : -1;
	return r;
}

static inline unsigned lines(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

/* Runs, wants this status and these words in the output. */
#define expect(want_status, words, ...)                                                            \
	do {                                                                                       \
		struct result r_ = shell(__VA_ARGS__);                                             \
		cr_assert_eq(r_.status, (want_status), "status %d of '%s': %s", r_.status,         \
			     #__VA_ARGS__, r_.out);                                                \
		cr_assert(strstr(r_.out, (words)), "no '%s' in: %s", (words), r_.out);             \
		free(r_.out);                                                                      \
	} while (0)

/* A refusal: exit 1, exactly one line on stderr, nothing on stdout. */
#define refused(words, ...)                                                                        \
	do {                                                                                       \
		struct result r_ = shell(__VA_ARGS__);                                             \
		cr_assert_eq(r_.status, 1, "status %d: %s", r_.status, r_.out);                    \
		cr_assert_eq(lines(r_.out), 1u, "not one line: %s", r_.out);                       \
		cr_assert_eq(strncmp(r_.out, "barewave: ", 10), 0, "%s", r_.out);                  \
		cr_assert(strstr(r_.out, (words)), "no '%s' in: %s", (words), r_.out);             \
		free(r_.out);                                                                      \
	} while (0)

/* A folder of this test alone: shell_setup makes it, shell_teardown removes it. */
static char dir[] = "/tmp/barewave-e2e-XXXXXX";

static inline void shell_setup(void)
{
	cr_assert(mkdtemp(dir));
}

static inline void shell_teardown(void)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	cr_assert_eq(system(cmd), 0);
}

static inline void save(const char *name, const void *data, size_t n)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	cr_assert(f);
	cr_assert_eq(fwrite(data, 1, n, f), n);
	cr_assert_eq(fclose(f), 0);
}

static inline size_t load(const char *name, void *data, size_t max)
{
	char path[256];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	cr_assert(f, "%s", path);
	n = fread(data, 1, max, f);
	fclose(f);
	return n;
}

/* vecadd.co with other first instructions, as NAME in this folder. */
static inline void save_patched(const char *name, const uint32_t *code, size_t bytes)
{
	unsigned char image[16384];
	FILE *f = fopen("tests/data/bench-kernels/vecadd.co", "rb");
	const Elf64_Ehdr *eh = (const void *)image;
	const Elf64_Shdr *sh;
	const char *names;
	size_t n;

	cr_assert(f);
	n = fread(image, 1, sizeof(image), f);
	fclose(f);
	cr_assert(n < sizeof(image));
	sh = (const void *)(image + eh->e_shoff);
	names = (const char *)image + sh[eh->e_shstrndx].sh_offset;
	while (strcmp(names + sh->sh_name, ".text"))
		sh++;
	memcpy(image + sh->sh_offset, code, bytes);
	save(name, image, n);
}

#endif
