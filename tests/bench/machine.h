/* One core of the virtual device, driven directly: memory, one kernel, workgroup after workgroup.
 * For benchmarks: nothing between them and isa_run()/jit_run(). */
#ifndef TESTS_BENCH_MACHINE_H
#define TESTS_BENCH_MACHINE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codeobj/codeobj.h"
#include "isa/isa.h"
#include "isa/jit.h"
#include "vm/vm.h"

#define BM_CODE      0x100000000ull
#define BM_ARGS      0x200000000ull
#define BM_DATA      0x300000000ull
#define BM_QUANTUM   65536u
#define BM_MAX_WAVES 32u

struct bm {
	struct vm *vm;
	struct vm_port vmem, smem, imem;
	struct isa_exec x;
	struct isa_wave *wave[BM_MAX_WAVES];
	uint64_t entry, next; /* next: VA of the next buffer */
	uint32_t rsrc1, rsrc2, nvgpr, lds_bytes;
	uint8_t *kernarg;
	unsigned at; /* bytes of kernarg filled */
	uint64_t insns;
	char why[240]; /* of the last failure */
};

static inline double bm_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Time this thread ran: what others do on the machine counts for less than by the wall clock. */
static inline double bm_now(void)
{
	return bm_clock(CLOCK_THREAD_CPUTIME_ID);
}

static inline void *bm_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	void *p = NULL;
	long end;

	if (!f)
		return NULL;
	if (!fseek(f, 0, SEEK_END) && (end = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET)) {
		*n = (size_t)end;
		p = malloc(*n);
		if (p && fread(p, 1, *n, f) != *n) {
			free(p);
			p = NULL;
		}
	}
	fclose(f);
	return p;
}

static inline void *bm_place(struct bm *m, uint64_t va, uint64_t size, unsigned perm)
{
	struct vm_bo *bo;
	int r;

	size = (size + VM_PAGE - 1) & ~(uint64_t)(VM_PAGE - 1);
	if (vm_bo_alloc(VM_POOL_GTT, size, &bo))
		return NULL;
	r = vm_map(m->vm, gva(va), size, bo, 0, perm, VM_MTYPE_NC);
	vm_bo_unref(bo); /* the mapping keeps it */
	return r ? NULL : vm_bo_kmap(bo);
}

/* Everything but m->why. */
static inline void bm_close(struct bm *m)
{
	char why[sizeof(m->why)];

	memcpy(why, m->why, sizeof(why));
	isa_exec_fini(&m->x);
	for (unsigned i = 0; i < BM_MAX_WAVES; i++)
		free(m->wave[i]);
	free(m->x.lds);
	if (m->vm)
		vm_destroy(m->vm);
	memset(m, 0, sizeof(*m));
	memcpy(m->why, why, sizeof(why));
}

/* Loads kernel from the code object at path; true if it is there and of a kind this runs: wave32,
 * kernarg pointer as the only user data. Else m->why. */
static inline bool bm_open(struct bm *m, const char *path, const char *kernel)
{
	const struct co_kernel *k = NULL;
	struct codeobj *co = NULL;
	uint32_t rsrc[2];
	uint16_t props;
	char err[200];
	uint8_t *code;
	void *image;
	size_t n;

	memset(m, 0, sizeof(*m));
	image = bm_file(path, &n);
	if (!image) {
		snprintf(m->why, sizeof(m->why), "%s: cannot read", path);
		return false;
	}
	if (co_parse(image, n, &co, err, sizeof(err)))
		snprintf(m->why, sizeof(m->why), "%s: %s", path, err);
	else if (!(k = co_find(co, kernel)))
		snprintf(m->why, sizeof(m->why), "%s: no kernel %s", path, kernel);
	if (!k || vm_create(&m->vm))
		goto fail;
	memcpy(rsrc, k->kd + 48, sizeof(rsrc)); /* compute_pgm_rsrc1, 2 (AMDGPUUsage) */
	memcpy(&props, k->kd + 56, sizeof(props));
	if (k->wave64 || (props & 0x7f) != 8 || k->private_bytes) {
		snprintf(m->why, sizeof(m->why),
			 "%s: %s: wanted wave32, the kernarg pointer alone, no scratch", path,
			 kernel);
		goto fail;
	}
	code = bm_place(m, BM_CODE, co->vaddr_end + VM_PAGE, VM_X);
	m->kernarg = bm_place(m, BM_ARGS, VM_PAGE, VM_W);
	if (!code || !m->kernarg)
		goto fail;
	for (unsigned i = 0; i < co->n_segments; i++)
		memcpy(code + co->segments[i].vaddr,
		       (const uint8_t *)image + co->segments[i].offset, co->segments[i].filesz);
	m->entry = BM_CODE + k->entry_vaddr;
	m->rsrc1 = rsrc[0];
	m->rsrc2 = rsrc[1];
	m->nvgpr = ((m->rsrc1 & 63) + 1) * 8;
	m->lds_bytes = (k->group_bytes + 511) & ~511u;
	m->next = BM_DATA;
	vm_port_init(&m->vmem, m->vm, VM_CLIENT_TCP);
	vm_port_init(&m->smem, m->vm, VM_CLIENT_SQC_DATA);
	vm_port_init(&m->imem, m->vm, VM_CLIENT_SQC_INST);
	vm_port_bind(&m->vmem);
	vm_port_bind(&m->smem);
	m->x.vmem = &m->vmem;
	m->x.smem = &m->smem;
	m->x.imem = &m->imem;
	m->x.lds_size = m->lds_bytes;
	m->x.lds = m->lds_bytes ? aligned_alloc(128, m->lds_bytes) : NULL;
	for (unsigned i = 0; i < BM_MAX_WAVES; i++)
		m->wave[i] = aligned_alloc(128, isa_wave_bytes(m->nvgpr, false));
	co_free(co);
	free(image);
	return true;
fail:
	if (co)
		co_free(co);
	free(image);
	bm_close(m);
	return false;
}

/* A buffer argument; its bytes as the host sees them. */
static inline void *bm_buffer(struct bm *m, size_t bytes)
{
	void *p = bm_place(m, m->next, bytes, VM_W);

	if (!p) {
		fprintf(stderr, "no device memory for %zu bytes\n", bytes);
		exit(2);
	}
	m->at = (m->at + 7) & ~7u;
	memcpy(m->kernarg + m->at, &m->next, 8);
	m->at += 8;
	m->next += (bytes + (2u << 20)) & ~(uint64_t)((1u << 20) - 1);
	return p;
}

static inline void bm_u32(struct bm *m, uint32_t v)
{
	memcpy(m->kernarg + m->at, &v, 4);
	m->at += 4;
}

static inline void bm_wave_start(struct bm *m, unsigned i, const unsigned group[3],
				 unsigned threads)
{
	unsigned s = m->rsrc2 >> 1 & 31, first = 32 * i;
	struct isa_wave *w = m->wave[i];

	memset(w, 0, sizeof(*w));
	w->pc = m->entry;
	w->exec = threads - first >= 32 ? 0xffffffffu : (1u << (threads - first)) - 1;
	w->s[0] = (uint32_t)BM_ARGS;
	w->s[1] = (uint32_t)(BM_ARGS >> 32);
	for (unsigned c = 0; c < 3; c++)
		if (m->rsrc2 >> (7 + c) & 1)
			w->s[s++] = group[c];
	/* FLOAT_MODE, DX10_CLAMP, IEEE, as at a real launch */
	w->mode = (m->rsrc1 >> 12 & 0xff) | (m->rsrc1 >> 21 & 1) << 8 | (m->rsrc1 >> 23 & 1) << 9;
	w->nvgpr = m->nvgpr;
	w->lds_size = m->lds_bytes;
	w->wave_in_group = i;
	for (unsigned l = 0; l < 32; l++)
		w->v[0][l] = first + l;
}

static inline bool bm_group(struct bm *m, struct jit_kernel *jit, unsigned waves)
{
	unsigned ended;

	do {
		unsigned waiting = 0;

		ended = 0;
		for (unsigned i = 0; i < waves; i++) {
			struct isa_wave *w = m->wave[i];

			while (w->state == WAVE_RUN)
				m->insns += jit_run(jit, &m->x, w, BM_QUANTUM);
			if (w->state == WAVE_HALTED) {
				uint32_t words[4] = {0};
				char text[160];

				vm_read(&m->imem, VM_FETCH, gva(w->pc), words, sizeof(words), 0);
				isa_disasm(words, 4, w->pc, text, sizeof(text));
				snprintf(m->why, sizeof(m->why), "wave stopped (%u) at +0x%llx: %s",
					 w->stop, (unsigned long long)(w->pc - BM_CODE), text);
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

/* The whole grid, compiled or interpreted. Seconds it took, negative on failure (m->why); the
 * wave instructions it took are added to m->insns. */
static inline double bm_run(struct bm *m, const unsigned grid[2], unsigned threads, bool compiled)
{
	struct jit_shape shape = {
		.nvgpr = m->nvgpr,
		.mode = (m->rsrc1 >> 12 & 0xff) | (m->rsrc1 >> 21 & 1) << 8 |
			(m->rsrc1 >> 23 & 1) << 9,
	};
	struct jit_kernel *jit =
		jit_kernel_get(&m->imem, m->entry, &shape, compiled ? JIT_EAGER : JIT_OFF);
	unsigned waves = (threads + 31) / 32, group[3] = {0};
	double t = bm_now();

	if (compiled && !jit_ready(jit)) {
		snprintf(m->why, sizeof(m->why), "not compiled: %s",
			 jit ? jit_refusal(jit) : "no record");
		return -1;
	}
	for (group[1] = 0; group[1] < grid[1]; group[1]++)
		for (group[0] = 0; group[0] < grid[0]; group[0]++) {
			for (unsigned i = 0; i < waves; i++)
				bm_wave_start(m, i, group, threads);
			if (!bm_group(m, jit, waves))
				return -1;
		}
	return bm_now() - t;
}

#endif
