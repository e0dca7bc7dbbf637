/* The interpreter alone, on one core: isa_bench MANIFEST [KERNEL...]
 *
 * MANIFEST is JSON: {name: {"co", "args": [{"file"|"out"|"u32"}], "expect": {"file"}, "grid",
 * "block", "descriptor": {"entry_vaddr", "lds", "rsrc1", "user_sgprs", "wg_id_xyz", "vgprs"}}},
 * files relative to it. Runs each kernel's whole grid, workgroup after workgroup, compares the
 * output byte for byte, and prints wave instructions per second. Exit status 1 on a difference.
 */
#include <elf.h>
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "isa/isa.h"
#include "vm/vm.h"

#define CODE_VA   0x100000000ull
#define ARGS_VA   0x200000000ull
#define DATA_VA   0x300000000ull
#define QUANTUM   4096u
#define MAX_WAVES 32u

struct machine {
	struct vm *vm;
	struct vm_port vmem, smem, imem;
	struct isa_exec x;
	struct isa_wave *wave[MAX_WAVES];
};

static char base_dir[512];

static void *slurp(const char *name, size_t *n)
{
	char path[800];
	FILE *f;
	void *p = NULL;
	long end;

	snprintf(path, sizeof(path), "%s/%s", base_dir, name);
	f = fopen(path, "rb");
	if (!f) {
		fprintf(stderr, "isa_bench: %s: cannot open\n", path);
		return NULL;
	}
	if (!fseek(f, 0, SEEK_END) && (end = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET)) {
		*n = (size_t)end;
		p = malloc(*n + 1);
		if (p && fread(p, 1, *n, f) != *n) {
			free(p);
			p = NULL;
		}
	}
	fclose(f);
	return p;
}

static void *place(struct vm *vm, uint64_t va, uint64_t size, unsigned perm)
{
	struct vm_bo *bo;

	size = (size + VM_PAGE - 1) & ~(uint64_t)(VM_PAGE - 1);
	if (vm_bo_alloc(VM_POOL_GTT, size, &bo) ||
	    vm_map(vm, gva(va), size, bo, 0, perm, VM_MTYPE_NC))
		return NULL;
	return vm_bo_kmap(bo);
}

static bool load_code(struct vm *vm, const uint8_t *elf, size_t n)
{
	const Elf64_Ehdr *e = (const void *)elf;
	const Elf64_Phdr *p = (const void *)(elf + e->e_phoff);
	uint64_t end = 0;
	uint8_t *to;

	for (unsigned i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_vaddr + p[i].p_memsz > end)
			end = p[i].p_vaddr + p[i].p_memsz;
	to = end ? place(vm, CODE_VA, end + VM_PAGE, VM_X) : NULL;
	if (!to)
		return false;
	for (unsigned i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_offset + p[i].p_filesz <= n)
			memcpy(to + p[i].p_vaddr, elf + p[i].p_offset, p[i].p_filesz);
	return true;
}

static uint64_t integer(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return json_is_string(v) ? strtoull(json_string_value(v), NULL, 0)
				 : (uint64_t)json_integer_value(v);
}

static unsigned dim(json_t *o, const char *key, unsigned i)
{
	return (unsigned)json_integer_value(json_array_get(json_object_get(o, key), i));
}

static void wave_start(struct isa_wave *w, json_t *k, unsigned i, const unsigned group[3],
		       unsigned threads, unsigned nvgpr)
{
	json_t *d = json_object_get(k, "descriptor");
	unsigned s = (unsigned)integer(d, "user_sgprs"), first = 32 * i;

	memset(w, 0, sizeof(*w));
	w->pc = CODE_VA + integer(d, "entry_vaddr");
	w->exec = threads - first >= 32 ? 0xffffffffu : (1u << (threads - first)) - 1;
	w->s[0] = (uint32_t)ARGS_VA;
	w->s[1] = (uint32_t)(ARGS_VA >> 32);
	for (unsigned c = 0; c < 3; c++)
		if (dim(d, "wg_id_xyz", c))
			w->s[s++] = group[c];
	w->mode = (uint32_t)(integer(d, "rsrc1") >> 12 & 0xff) | 3u << 8;
	w->nvgpr = nvgpr;
	for (unsigned l = 0; l < 32; l++)
		w->v[0][l] = first + l;
}

/* One workgroup to its end. */
static bool run_group(struct machine *m, unsigned waves)
{
	unsigned ended;

	do {
		unsigned waiting = 0;

		ended = 0;
		for (unsigned i = 0; i < waves; i++) {
			struct isa_wave *w = m->wave[i];

			while (w->state == WAVE_RUN)
				isa_run(&m->x, w, QUANTUM);
			if (w->state == WAVE_HALTED) {
				uint32_t words[4] = {0};
				char text[160];

				vm_read(&m->imem, VM_FETCH, gva(w->pc), words, sizeof(words), 0);
				isa_disasm(words, 4, w->pc, text, sizeof(text));
				fprintf(stderr, "isa_bench: wave stopped (%u) at +0x%llx: %s\n",
					w->stop, (unsigned long long)(w->pc - CODE_VA), text);
				return false;
			}
			ended += w->state == WAVE_ENDED;
			waiting += w->state == WAVE_BARRIER;
		}
		if (ended + waiting == waves)
			for (unsigned i = 0; i < waves; i++)
				if (m->wave[i]->state == WAVE_BARRIER)
					m->wave[i]->state = WAVE_RUN;
	} while (ended < waves);
	return true;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Argument buffers and the kernarg block. Returns the output buffer. */
static uint8_t *arguments(struct vm *vm, json_t *args)
{
	uint8_t *kernarg = place(vm, ARGS_VA, VM_PAGE, VM_W), *out = NULL;
	uint64_t va = DATA_VA;
	unsigned at = 0;
	json_t *a;
	size_t i;

	if (!kernarg)
		return NULL;
	json_array_foreach(args, i, a)
	{
		const char *file = json_string_value(json_object_get(a, "file"));
		uint64_t bytes = integer(a, "bytes");
		uint8_t *p;

		if (!bytes) {
			uint32_t v = (uint32_t)integer(a, "u32");

			memcpy(kernarg + at, &v, 4);
			at += 4;
			continue;
		}
		p = place(vm, va, bytes, VM_W);
		if (!p)
			return NULL;
		if (file) {
			size_t n;
			void *data = slurp(file, &n);

			if (data && n == bytes)
				memcpy(p, data, n);
			else
				p = NULL;
			free(data);
			if (!p)
				return NULL;
		} else {
			out = p;
		}
		at = (at + 7) & ~7u;
		memcpy(kernarg + at, &va, 8);
		at += 8;
		va += (bytes + (1 << 20)) & ~(uint64_t)(VM_PAGE - 1);
	}
	return out;
}

/* Wave instructions per second, 0 on failure. */
static double bench(const char *name, json_t *k)
{
	json_t *d = json_object_get(k, "descriptor"), *expect = json_object_get(k, "expect");
	unsigned threads = dim(k, "block", 0) * dim(k, "block", 1) * dim(k, "block", 2);
	unsigned waves = (threads + 31) / 32, nvgpr = (unsigned)integer(d, "vgprs"), group[3];
	uint64_t lds = integer(d, "lds"), insns = 0;
	struct machine m = {0};
	uint8_t *out, *code = NULL;
	double t = 0;
	size_t n;
	void *want = NULL;
	bool ok = false;

	if (waves > MAX_WAVES || vm_create(&m.vm))
		return 0;
	code = slurp(json_string_value(json_object_get(k, "co")), &n);
	if (!code || !load_code(m.vm, code, n))
		goto out;
	out = arguments(m.vm, json_object_get(k, "args"));
	want = slurp(json_string_value(json_object_get(expect, "file")), &n);
	if (!out || !want)
		goto out;
	vm_port_init(&m.vmem, m.vm, VM_CLIENT_TCP);
	vm_port_init(&m.smem, m.vm, VM_CLIENT_SQC_DATA);
	vm_port_init(&m.imem, m.vm, VM_CLIENT_SQC_INST);
	m.x.vmem = &m.vmem;
	m.x.smem = &m.smem;
	m.x.imem = &m.imem;
	m.x.lds_size = (uint32_t)((lds + 511) & ~511ull);
	m.x.lds = lds ? aligned_alloc(128, m.x.lds_size) : NULL;
	for (unsigned i = 0; i < waves; i++)
		m.wave[i] = aligned_alloc(128, isa_wave_bytes(nvgpr, false));
	ok = true;
	t = now();
	for (group[2] = 0; group[2] < dim(k, "grid", 2); group[2]++)
		for (group[1] = 0; group[1] < dim(k, "grid", 1); group[1]++)
			for (group[0] = 0; ok && group[0] < dim(k, "grid", 0); group[0]++) {
				for (unsigned i = 0; i < waves; i++)
					wave_start(m.wave[i], k, i, group, threads, nvgpr);
				ok = run_group(&m, waves);
				for (unsigned i = 0; i < waves; i++)
					insns += m.wave[i]->insns;
			}
	t = now() - t;
	ok = ok && !memcmp(out, want, n);
	printf("%-10s %12llu wave instructions %8.3f s %7.2f M/s %s\n", name,
	       (unsigned long long)insns, t, (double)insns / t / 1e6, ok ? "exact" : "WRONG");
	isa_exec_fini(&m.x);
	for (unsigned i = 0; i < waves; i++)
		free(m.wave[i]);
	free(m.x.lds);
out:
	free(want);
	free(code);
	vm_destroy(m.vm);
	return ok ? (double)insns / t : 0;
}

int main(int argc, char **argv)
{
	double log_sum = 0;
	unsigned n = 0, failed = 0;
	json_error_t err;
	const char *name;
	json_t *all, *k;

	if (argc < 2) {
		fprintf(stderr, "usage: isa_bench MANIFEST [KERNEL...]\n");
		return 2;
	}
	all = json_load_file(argv[1], 0, &err);
	if (!all) {
		fprintf(stderr, "isa_bench: %s: %s\n", argv[1], err.text);
		return 2;
	}
	snprintf(base_dir, sizeof(base_dir), "%s", dirname(argv[1]));
	if (vm_pools_init(16 << 20, 256 << 20))
		return 2;
	json_object_foreach(all, name, k)
	{
		bool wanted = argc == 2;
		double rate;

		for (int i = 2; i < argc; i++)
			wanted |= !strcmp(argv[i], name);
		if (!wanted)
			continue;
		rate = bench(name, k);
		if (rate > 0) {
			log_sum += log(rate);
			n++;
		} else {
			failed++;
		}
	}
	if (n)
		printf("geometric mean of %u: %.2f M wave instructions per second on one core\n", n,
		       exp(log_sum / n) / 1e6);
	return failed != 0;
}
