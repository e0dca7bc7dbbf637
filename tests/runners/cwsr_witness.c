/* The kernel's own trap handler as a witness for the save area.
 *
 *   cwsr_witness HANDLER.bin [GROUPS [SEED]]
 *
 * HANDLER.bin is the gfx11 code of amdkfd/cwsr_trap_handler.h, little endian. Random workgroups
 * are saved twice: by that code, run in the interpreter as the hardware enters it, and by the
 * device's own path. The two areas must agree in every byte, those that neither writes included.
 * Then random other waves are restored from the area twice, and must agree in all their state.
 * scripts/check-cwsr.sh takes the code out of Debian's source package.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cp/cwsr.h"
#include "vm/vm.h"

enum {
	TBA = 0x10000,
	CODE_BYTES = 1 << 16,
	AREA_BYTES = 4 << 20,
	MAX_WAVES = 8,
	CONTROLS = 100,
	LDS_MAX = 64 << 10,
	FILL = 0xee,
	MAX_INSNS = 1000000, /* of one workgroup; the largest takes 100000 */
	STATUS_PRIV = 1u << 5,
	STATUS_TRAP_EN = 1u << 6,
	STATUS_HALT = 1u << 13,
	TRAPSTS_SAVECTX = 1u << 10,
	TRAPSTS_EXCP = 0x71ff,
	/* These go to the second-level handler before anything is saved. */
	TRAPSTS_NON_MASKABLE = 1u << 8 | 1u << 11 | 1u << 17 | 1u << 18 | 1u << 20,
	MODE_EXCP_EN = 0x1ff << 12,
	MODE_BITS = 0x08bff7ff, /* that exist, without DEBUG_EN */
	MSG_RTN_SAVE_WAVE = 0x84,
	RESTORE = TBA + 4, /* the second word branches there */
};

static const uint64_t FIRST_WAVE = 1ull << 58;

static struct {
	struct vm *vm;
	struct vm_port vmem, smem, imem;
	struct isa_exec x;
	uint8_t *code, *area;
	uint64_t area_va;
	uint64_t rng;
	uint64_t init[MAX_WAVES]; /* what SPI says: block address, first wave */
	unsigned index;           /* of the wave that runs */
	struct isa_wave *ours[MAX_WAVES], *theirs[MAX_WAVES];
	uint8_t lds_ours[LDS_MAX], lds_theirs[LDS_MAX];
	uint64_t insns, bytes, waves, groups;
	bool quiet;
} T;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
	va_list ap;

	if (T.quiet)
		return;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
}

static uint64_t rnd(void)
{
	T.rng ^= T.rng << 13;
	T.rng ^= T.rng >> 7;
	T.rng ^= T.rng << 17;
	return T.rng;
}

static uint64_t below(uint64_t n)
{
	return (rnd() >> 11) % n;
}

static uint64_t on_msg(struct isa_exec *x, uint32_t msg)
{
	(void)x;
	return msg == MSG_RTN_SAVE_WAVE ? T.init[T.index] : 0;
}

static int place(uint64_t va, uint64_t size, unsigned perm, uint8_t **out)
{
	struct vm_bo *bo;
	int r = vm_bo_alloc(VM_POOL_GTT, size, &bo);

	if (!r)
		r = vm_map(T.vm, gva(va), size, bo, 0, perm, VM_MTYPE_NC);
	if (!r)
		*out = vm_bo_kmap(bo);
	return r;
}

static struct isa_wave *wave_new(unsigned nvgpr, bool wave64)
{
	size_t n = (isa_wave_bytes(nvgpr, wave64) + 127) & ~127ul;
	struct isa_wave *w = aligned_alloc(128, n);

	if (!w)
		abort();
	memset(w, 0, n);
	w->nvgpr = nvgpr;
	w->wave64 = wave64;
	return w;
}

/* Registers nobody has seen; what the launch fixes is the caller's. */
static void wave_random(struct isa_wave *w)
{
	for (unsigned r = 0; r < w->nvgpr * (w->wave64 ? 2 : 1); r++)
		for (unsigned l = 0; l < 32; l++)
			w->v[r][l] = (uint32_t)rnd();
	for (unsigned i = 0; i < OPR_NULL; i++)
		w->s[i] = (uint32_t)rnd();
	w->s[OPR_M0] = (uint32_t)rnd();
	if (!below(4))
		w->s[OPR_VCC_LO] = w->s[OPR_VCC_HI] = 0;
	w->pc = rnd() & 0xfffffffffffc;
	w->exec = below(8) ? rnd() : 0;
	if (!w->wave64 && below(2))
		w->exec = (uint32_t)w->exec;
	w->scc = below(2);
	w->mode = (uint32_t)rnd() & MODE_BITS;
	w->status = ((uint32_t)rnd() & (3u << 1 | 1u << 17 | 3u << 20 | 1u << 22 | 1u << 25)) |
		    STATUS_TRAP_EN | 1u << 16;
	w->trapsts = (uint32_t)rnd() & ~(uint32_t)(TRAPSTS_SAVECTX | 1u << 16);
	if (below(4)) {
		/* A wave that runs has no exception that would have stopped it. */
		w->trapsts &= ~(uint32_t)TRAPSTS_NON_MASKABLE;
		if (below(2))
			w->mode &= ~(uint32_t)MODE_EXCP_EN;
		else
			w->trapsts &= ~(uint32_t)TRAPSTS_EXCP;
	} else {
		w->status |= STATUS_HALT;
	}
	w->flat_scratch = rnd() & 0xffffffffffff;
}

static struct isa_wave *wave_copy(const struct isa_wave *w)
{
	struct isa_wave *c = wave_new(w->nvgpr, w->wave64);

	memcpy(c, w, isa_wave_bytes(w->nvgpr, w->wave64));
	return c;
}

/* Runs the group's waves in turns until each has ended or left the handler. */
static int run_group(struct isa_wave **w, unsigned n, uint8_t *lds, bool to_end)
{
	T.x.lds = lds;
	T.x.lds_size = w[0]->lds_size;
	for (uint64_t end = T.insns + MAX_INSNS;;) {
		unsigned barrier = 0, left = 0;

		for (unsigned i = 0; i < n; i++) {
			T.index = i;
			/* A restored wave must stop right where the handler leaves it. */
			while (w[i]->state == WAVE_RUN && w[i]->priv && T.insns < end)
				T.insns += isa_run(&T.x, w[i], to_end ? 1 + below(300) : 1);
			if (w[i]->state == WAVE_BARRIER) {
				barrier++;
				left++;
			} else if (w[i]->state == WAVE_HALTED && w[i]->priv) {
				char text[128];
				uint32_t words[4];

				memcpy(words, T.code + (w[i]->pc - TBA) % CODE_BYTES, 16);
				isa_disasm(words, 4, w[i]->pc, text, sizeof(text));
				say("wave %u stopped (%u) at handler + 0x%lx: %s\n", i, w[i]->stop,
				    w[i]->pc - TBA, text);
				return -EINVAL;
			} else if (to_end != (w[i]->state == WAVE_ENDED)) {
				say("wave %u: state %u, PC 0x%lx\n", i, w[i]->state, w[i]->pc);
				return -EINVAL;
			}
		}
		if (!left)
			return 0;
		if (barrier != left) {
			say("%u of %u waves at a barrier\n", barrier, left);
			return -EINVAL;
		}
		for (unsigned i = 0; i < n; i++)
			if (w[i]->state == WAVE_BARRIER)
				w[i]->state = WAVE_RUN;
	}
}

/* As the hardware enters the handler for a save. */
static void enter_save(struct isa_wave *w)
{
	w->s[OPR_TTMP0] = (uint32_t)w->pc;
	w->s[OPR_TTMP0 + 1] = (uint32_t)(w->pc >> 32);
	w->trapsts |= TRAPSTS_SAVECTX;
	w->status |= STATUS_PRIV;
	w->priv = 1;
	w->pc = TBA;
	w->state = WAVE_RUN;
	w->stop = STOP_NONE;
}

/* As SPI launches a wave to restore: registers of anybody, the block's address in EXEC. */
static void enter_restore(struct isa_wave *w, uint64_t init)
{
	w->exec = init;
	w->status |= STATUS_PRIV;
	w->status &= ~(uint32_t)STATUS_HALT;
	w->priv = 1;
	w->pc = RESTORE;
	w->state = WAVE_RUN;
	w->stop = STOP_NONE;
}

static const char *part_of(const struct isa_wave *w, uint32_t off, uint32_t *in)
{
	uint32_t v = cwsr_vgpr_bytes(w);

	*in = off;
	if (off < v)
		return "VGPRs";
	*in = off - v;
	if (*in < CWSR_HWREGS)
		return "SGPRs";
	*in -= CWSR_HWREGS;
	if (*in < CWSR_TTMPS - CWSR_HWREGS)
		return "hardware registers";
	*in -= CWSR_TTMPS - CWSR_HWREGS;
	if (*in < CWSR_LDS - CWSR_TTMPS)
		return "TTMPs";
	*in -= CWSR_LDS - CWSR_TTMPS;
	return "LDS";
}

static int compare_block(const struct isa_wave *w, unsigned i, bool first, const uint8_t *theirs,
			 const uint8_t *ours)
{
	uint32_t n = cwsr_wave_bytes(w, first);

	T.bytes += n;
	for (uint32_t b = 0; b < n; b++) {
		uint32_t in;
		const char *part;

		if (theirs[b] == ours[b])
			continue;
		part = part_of(w, b & ~3u, &in);
		say("wave %u (wave%u, %u VGPRs, %u bytes of LDS): %s + 0x%x: handler "
		    "0x%08x, device 0x%08x\n",
		    i, w->wave64 ? 64 : 32, w->nvgpr, w->lds_size, part, in,
		    *(const uint32_t *)(const void *)(theirs + (b & ~3u)),
		    *(const uint32_t *)(const void *)(ours + (b & ~3u)));
		return -EINVAL;
	}
	return 0;
}

static bool same_sgprs(const struct isa_wave *a, const struct isa_wave *b)
{
	bool same = !memcmp(a->s, b->s, OPR_TTMP0 * 4) && a->s[OPR_M0] == b->s[OPR_M0];

	for (unsigned i = 4; i < 14; i++)
		if (i != 12)
			same &= a->s[OPR_TTMP0 + i] == b->s[OPR_TTMP0 + i];
	return same;
}

static int compare_wave(const struct isa_wave *t, const struct isa_wave *o, unsigned i)
{
	const uint32_t mirrored = 1u | 1u << 9 | 1u << 10; /* kept elsewhere */
	const char *what = NULL;

	if (t->pc != o->pc)
		what = "PC";
	else if (t->exec != o->exec)
		what = "EXEC";
	else if (t->scc != o->scc)
		what = "SCC";
	else if ((t->status & ~mirrored) != (o->status & ~mirrored))
		what = "STATUS";
	else if (t->trapsts != o->trapsts)
		what = "TRAPSTS";
	else if (t->mode != o->mode)
		what = "MODE";
	else if (t->flat_scratch != o->flat_scratch)
		what = "FLAT_SCRATCH";
	else if (t->priv != o->priv)
		what = "PRIV";
	else if (t->state != o->state)
		what = "run state";
	else if (!same_sgprs(t, o))
		what = "SGPRs";
	else if (memcmp(t->v, o->v, sizeof(v32u) * t->nvgpr * (t->wave64 ? 2 : 1)))
		what = "VGPRs";
	if (!what)
		return 0;
	say("restored wave %u: %s differ; handler PC 0x%lx EXEC 0x%lx STATUS 0x%x TRAPSTS 0x%x "
	    "MODE 0x%x state %u, device 0x%lx 0x%lx 0x%x 0x%x 0x%x %u\n",
	    i, what, t->pc, t->exec, t->status, t->trapsts, t->mode, t->state, o->pc, o->exec,
	    o->status, o->trapsts, o->mode, o->state);
	return -EINVAL;
}

static int group(void)
{
	bool wave64 = below(2);
	unsigned n = 1 + (unsigned)below(MAX_WAVES);
	unsigned nvgpr = (1 + (unsigned)below(wave64 ? 64 : 32)) * (wave64 ? 4 : 8);
	uint32_t lds = below(3) ? (uint32_t)(1 + below(below(4) ? 8 : 128)) * 512 : 0;
	uint64_t at = T.area_va + below(64) * 4;
	uint8_t *ours = malloc(AREA_BYTES);
	int r = 0;

	if (!ours)
		return -ENOMEM;
	memset(T.area, FILL, AREA_BYTES);
	memset(ours, FILL, AREA_BYTES);
	for (unsigned i = 0; i < lds; i++)
		T.lds_ours[i] = (uint8_t)rnd();
	memcpy(T.lds_theirs, T.lds_ours, lds);
	/* Saved in falling order: the first wave's block is the highest. */
	for (unsigned i = n; i-- > 0;) {
		struct isa_wave *w = wave_new(nvgpr, wave64);

		wave_random(w);
		w->lds_size = lds;
		T.ours[i] = w;
		T.theirs[i] = wave_copy(w);
		enter_save(T.theirs[i]);
		T.init[i] = at | (i ? 0 : FIRST_WAVE);
		cwsr_pack(w, i ? NULL : T.lds_ours, at, ours + (at - T.area_va));
		at += cwsr_wave_bytes(w, !i);
	}
	r = run_group(T.theirs, n, T.lds_theirs, true);
	for (unsigned i = 0; i < n && !r; i++) {
		uint64_t off = (T.init[i] & 0xffffffffffff) - T.area_va;

		r = compare_block(T.ours[i], i, !i, T.area + off, ours + off);
	}
	if (!r && memcmp(T.area, ours, AREA_BYTES)) {
		say("the handler wrote outside its blocks\n");
		r = -EINVAL;
	}
	/* Back into machines that somebody else has used. */
	for (unsigned i = 0; i < n && !r; i++) {
		uint64_t off = (T.init[i] & 0xffffffffffff) - T.area_va;

		wave_random(T.ours[i]);
		memcpy(T.theirs[i], T.ours[i], isa_wave_bytes(nvgpr, wave64));
		cwsr_unpack(T.ours[i], i ? NULL : T.lds_ours, T.area + off);
		enter_restore(T.theirs[i], T.init[i]);
	}
	if (!r) {
		memset(T.lds_theirs, FILL, lds);
		r = run_group(T.theirs, n, T.lds_theirs, false);
	}
	for (unsigned i = 0; i < n && !r; i++)
		r = compare_wave(T.theirs[i], T.ours[i], i);
	if (!r && memcmp(T.lds_theirs, T.lds_ours, lds)) {
		say("restored LDS differs\n");
		r = -EINVAL;
	}
	for (unsigned i = 0; i < n; i++) {
		free(T.ours[i]);
		free(T.theirs[i]);
	}
	free(ours);
	T.waves += n;
	T.groups++;
	return r;
}

/* A wrong handler must be noticed. Many of its bits matter to nobody here: code that leads to the
 * second-level handler, cache hints, wait counts. */
static int controls(unsigned code)
{
	unsigned noticed = 0;

	T.quiet = true;
	for (unsigned i = 0; i < CONTROLS; i++) {
		unsigned at = (unsigned)below(code), bit = 1u << below(8), r = 0;

		T.code[at] ^= bit;
		isa_icache_invalidate();
		for (unsigned g = 0; g < 4 && !r; g++)
			r = group() != 0;
		noticed += r;
		T.code[at] ^= bit;
	}
	isa_icache_invalidate();
	printf("%u of %u handlers with one bit flipped are noticed\n", noticed, (unsigned)CONTROLS);
	return noticed < CONTROLS / 4 ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	unsigned groups = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 200;
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
	size_t code = 0;
	int r;

	T.rng = argc > 3 ? strtoull(argv[3], NULL, 0) * 2 + 1 : 0x9e3779b97f4a7c15;
	if (!f) {
		fprintf(stderr, "usage: cwsr_witness HANDLER.bin [GROUPS [SEED]]\n");
		return 2;
	}
	T.area_va = 0x7f1200000000 + 0x10000;
	r = vm_pools_init(1 << 20, 16 << 20);
	if (!r)
		r = vm_create(&T.vm);
	if (!r)
		r = place(TBA, CODE_BYTES, VM_X, &T.code);
	if (!r)
		r = place(T.area_va, AREA_BYTES, VM_W, &T.area);
	if (!r)
		code = fread(T.code, 1, CODE_BYTES, f);
	fclose(f);
	if (r || code < 1024) {
		fprintf(stderr, "cwsr_witness: no handler of at least 1024 bytes in %s (%d)\n",
			argv[1], r);
		return 2;
	}
	vm_port_init(&T.vmem, T.vm, VM_CLIENT_TCP);
	vm_port_init(&T.smem, T.vm, VM_CLIENT_SQC_DATA);
	vm_port_init(&T.imem, T.vm, VM_CLIENT_SQC_INST);
	T.x.vmem = &T.vmem;
	T.x.smem = &T.smem;
	T.x.imem = &T.imem;
	T.x.msg_rtn = on_msg;
	for (unsigned i = 0; i < groups && !r; i++)
		r = group();
	if (!r) {
		printf("%lu groups, %lu waves saved and restored by the kernel's handler (%zu "
		       "bytes, %lu instructions) and by the device: %lu bytes and all registers "
		       "equal\n",
		       T.groups, T.waves, code, T.insns, T.bytes);
		r = controls((unsigned)code);
	} else {
		fprintf(stderr, "group %lu differs\n", T.groups);
	}
	isa_exec_fini(&T.x);
	return r ? 1 : 0;
}
