/* Compiled code against the interpreter: whole programs (jit_kernels*.s) that must leave the same
 * registers, LDS, memory, stops and counts, however often they are left and entered again; and that
 * lock step notices when they do not. */
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <unistd.h>

#include "isa_machine.h"
#include <criterion/parameterized.h>

#include "isa/jit.h"
#include "isa/jit_internal.h"
#include "vm/tape.h"

#define J_TEXT     0x500000000ull
#define J_UNMAPPED 0x600000000ull

enum { TEXT_BYTES = 1 << 16, MAX_EVENTS = 64, MAX_KERNELS = 128 };

static struct {
	uint8_t *text;
	uint64_t clock;
	unsigned n_events;
	uint32_t events[MAX_EVENTS];
} J;

/* ---- the programs -------------------------------------------------------- */

struct kernel {
	char name[32];
	uint32_t off;
	bool wave64;
};

static void beside(char *path, size_t n, const char *name)
{
	char *slash;
	ssize_t r = readlink("/proc/self/exe", path, n - 64);

	cr_assert(r > 0);
	path[r] = 0;
	slash = strrchr(path, '/');
	strcpy(slash + 1, name);
}

static unsigned load_object(const char *name, struct kernel *k, unsigned max, uint8_t *text)
{
	char path[4096];
	unsigned n = 0;
	size_t shstr;
	Elf_Scn *s = NULL;
	Elf *e;
	int fd;

	beside(path, sizeof(path), name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	elf_version(EV_CURRENT);
	e = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (!e || elf_getshdrstrndx(e, &shstr)) {
		fprintf(stderr, "%s: no programs\n", path);
		exit(2);
	}
	while ((s = elf_nextscn(e, s))) {
		GElf_Shdr h;
		Elf_Data *d = elf_getdata(s, NULL);
		const char *sec;

		gelf_getshdr(s, &h);
		sec = elf_strptr(e, shstr, h.sh_name);
		if (!strcmp(sec, ".text") && text) {
			cr_assert(d->d_size <= TEXT_BYTES);
			memcpy(text, d->d_buf, d->d_size);
		}
		if (h.sh_type != SHT_SYMTAB)
			continue;
		for (unsigned i = 0; i < d->d_size / sizeof(Elf64_Sym); i++) {
			const char *sym;
			GElf_Sym y;

			gelf_getsym(d, (int)i, &y);
			sym = elf_strptr(e, h.sh_link, y.st_name);
			if (GELF_ST_BIND(y.st_info) != STB_GLOBAL || !y.st_shndx || n == max)
				continue;
			snprintf(k[n].name, sizeof(k[n].name), "%s", sym);
			k[n].off = (uint32_t)y.st_value;
			k[n].wave64 = strstr(name, "64") != NULL;
			n++;
		}
	}
	elf_end(e);
	close(fd);
	return n;
}

/* ---- one run ------------------------------------------------------------- */

struct result {
	struct isa_wave *w;
	uint8_t lds[M_LDS_BYTES], mem[M_MEM_BYTES], scratch[M_LANE_BYTES * 64];
	struct vm_fault fault;
	unsigned n_events;
	uint32_t events[MAX_EVENTS];
};

static uint32_t rng_state;

static uint32_t rng(void)
{
	rng_state = rng_state * 1664525 + 1013904223;
	return rng_state >> 8 ^ rng_state << 12;
}

/* Random bits, floats that are ordinary, and floats that are not. */
static uint32_t any_value(void)
{
	static const uint32_t odd[] = {0,          0x80000000, 0x7f800000, 0xff800000,
				       0x7fc00001, 0x00000001, 0x807fffff, 0x3f800000,
				       0x7f7fffff, 0x7c003c00, 0xffffffff, 0x00010001};
	uint32_t r = rng();

	switch (r & 3) {
	case 0:
		return odd[r / 4 % (sizeof(odd) / sizeof(*odd))];
	case 1:
		return 0x3f000000 + (r >> 4 & 0x03ffffff);
	default:
		return rng();
	}
}

static void event(uint32_t e)
{
	if (J.n_events < MAX_EVENTS)
		J.events[J.n_events++] = e;
}

static void j_sendmsg(struct isa_exec *x, uint32_t simm, uint32_t m0)
{
	(void)x;
	event(simm << 16 | m0);
}

static uint64_t j_realtime(struct isa_exec *x)
{
	(void)x;
	return J.clock += 17;
}

static void reset(const struct kernel *k, uint32_t mode, uint64_t exec)
{
	struct isa_wave *w = M.w;

	rng_state = 12345;
	memset(w, 0, isa_wave_bytes(M_NVGPR, k->wave64));
	w->pc = J_TEXT + k->off;
	w->exec = exec;
	w->mode = mode;
	w->nvgpr = M_NVGPR;
	w->wave64 = k->wave64;
	w->flat_scratch = M_SCRATCH;
	w->scratch_lane_bytes = M_LANE_BYTES;
	w->lds_size = M_LDS_BYTES;
	for (unsigned i = 0; i < 106; i++)
		w->s[i] = any_value();
	w->s[OPR_VCC_LO] = rng();
	w->s[OPR_VCC_HI] = rng();
	m_set64(0, M_MEM);
	m_set64(2, J_UNMAPPED);
	for (unsigned r = 0; r < M_NVGPR * (k->wave64 ? 2u : 1u); r++)
		for (unsigned l = 0; l < 32; l++)
			w->v[r][l] = r % M_NVGPR ? any_value() : l + r / M_NVGPR * 32;
	for (unsigned i = 0; i < sizeof(M.lds); i++)
		M.lds[i] = (uint8_t)rng();
	for (unsigned i = 0; i < M_MEM_BYTES; i++)
		M.mem[i] = i < M_MEM_BYTES / 4 ? 0 : (uint8_t)rng();
	for (unsigned i = 0; i < M_LANE_BYTES * 64; i++)
		M.scratch[i] = (uint8_t)rng();
	J.clock = 1000;
	J.n_events = 0;
	memset(&M.vmem.fault, 0, sizeof(M.vmem.fault));
	memset(&M.smem.fault, 0, sizeof(M.smem.fault));
	M.x.compiled = 0;
}

enum how { INTERPRET, COMPILED, ALTERNATE };

/* Runs to the end as a dispatcher would: barriers pass, sleepers wake, traps return behind. */
static void go(struct jit_kernel *j, enum how how, uint64_t budget)
{
	struct isa_wave *w = M.w;
	unsigned turn = 0;

	for (unsigned guard = 0; guard < 100000; guard++) {
		if (w->state == WAVE_RUN) {
			if (how == INTERPRET || (how == ALTERNATE && turn % 2))
				isa_run(&M.x, w, how == ALTERNATE ? turn / 2 % 5 + 1 : budget);
			else
				jit_run(j, &M.x, w, budget);
			turn++;
			continue;
		}
		if (w->state == WAVE_ENDED)
			return;
		event(w->state << 8 | w->stop | (uint32_t)(w->pc - J_TEXT) << 12);
		if (w->state == WAVE_HALTED && w->stop == STOP_TRAP)
			w->pc += 4;
		else if (w->state == WAVE_HALTED && w->stop != STOP_NONE)
			return;
		w->state = WAVE_RUN;
	}
	cr_assert_fail("does not end");
}

static void take(struct result *r)
{
	size_t bytes = isa_wave_bytes(M_NVGPR, M.w->wave64);

	free(r->w);
	r->w = aligned_alloc(128, bytes);
	memcpy(r->w, M.w, bytes);
	memcpy(r->lds, M.lds, sizeof(r->lds));
	memcpy(r->mem, M.mem, sizeof(r->mem));
	memcpy(r->scratch, M.scratch, sizeof(r->scratch));
	r->fault = M.vmem.fault.lanes ? M.vmem.fault : M.smem.fault;
	memcpy(r->events, J.events, sizeof(r->events));
	r->n_events = J.n_events;
}

static void same_bytes(const char *what, const void *a, const void *b, size_t n, const char *who)
{
	const uint32_t *p = a, *q = b;

	for (size_t i = 0; i < n / 4; i++)
		cr_assert(vm_same_value(p[i], q[i]), "%s: %s[0x%zx] is 0x%08x, interpreted 0x%08x",
			  who, what, 4 * i, p[i], q[i]);
}

static void same(const struct result *got, const struct result *want, const char *who)
{
	const struct isa_wave *g = got->w, *w = want->w;

	cr_assert(g->state == w->state && g->stop == w->stop, "%s: state %u/%u, wanted %u/%u", who,
		  g->state, g->stop, w->state, w->stop);
	cr_assert(g->pc == w->pc, "%s: pc +0x%x, wanted +0x%x", who, (unsigned)(g->pc - J_TEXT),
		  (unsigned)(w->pc - J_TEXT));
	cr_assert(g->exec == w->exec && g->scc == w->scc && g->mode == w->mode &&
			  g->status == w->status && g->trapsts == w->trapsts &&
			  g->trap_id == w->trap_id && g->sleep_until == w->sleep_until,
		  "%s: exec 0x%lx scc %u mode 0x%x, wanted 0x%lx %u 0x%x", who, g->exec, g->scc,
		  g->mode, w->exec, w->scc, w->mode);
	cr_assert(g->insns == w->insns, "%s: %lu instructions, wanted %lu", who, g->insns,
		  w->insns);
	same_bytes("s", g->s, w->s, sizeof(g->s), who);
	same_bytes("v", g->v, w->v, sizeof(v32u) * M_NVGPR * (w->wave64 ? 2 : 1), who);
	same_bytes("lds", got->lds, want->lds, sizeof(got->lds), who);
	same_bytes("memory", got->mem, want->mem, sizeof(got->mem), who);
	same_bytes("scratch", got->scratch, want->scratch, sizeof(got->scratch), who);
	cr_assert(got->n_events == want->n_events &&
			  !memcmp(got->events, want->events, 4 * want->n_events),
		  "%s: other stops or messages", who);
	cr_assert(got->fault.va.a == want->fault.va.a && got->fault.lanes == want->fault.lanes,
		  "%s: fault at 0x%lx lanes 0x%x, wanted 0x%lx 0x%x", who, got->fault.va.a,
		  got->fault.lanes, want->fault.va.a, want->fault.lanes);
}

static void machine(bool wave64)
{
	setenv("VGPU_JIT_CACHE", "", 1);
	m_init(wave64);
	M.x.sendmsg = j_sendmsg;
	M.x.realtime = j_realtime;
	J.text = m_place(J_TEXT, TEXT_BYTES, VM_X | VM_W);
}

static struct jit_kernel *get(const struct kernel *k, uint32_t mode, bool whole, enum jit_mode how)
{
	struct jit_shape shape = {
		.nvgpr = M_NVGPR, .mode = mode, .wave64 = k->wave64, .whole = whole};
	struct jit_kernel *j = jit_kernel_get(&M.imem, J_TEXT + k->off, &shape, how);

	cr_assert(j);
	return j;
}

/* whole: compiled for waves that begin with all lanes on. Others are then right too, interpreted. */
static void check(const struct kernel *k, uint32_t mode, bool whole)
{
	static const uint64_t masks[] = {~0ull, 0x5a5a00ff0ff0a5e7ull, 0x0000100000000000ull};
	bool refused = k->name[0] == 'x';
	static struct result want, got;
	struct jit_kernel *j;
	char who[100];

	j = get(k, mode, whole, JIT_EAGER);
	cr_assert(refused == (jit_refusal(j)[0] != 0), "%s: \"%s\"", k->name, jit_refusal(j));
	for (unsigned m = 0; m < 3; m++) {
		uint64_t exec = masks[m];

		if (!k->wave64)
			exec = m == 2 ? exec >> 32 : (uint32_t)exec;
		snprintf(who, sizeof(who), "%s%s, exec 0x%lx", k->name, whole ? " (whole)" : "",
			 exec);
		reset(k, mode, exec);
		go(NULL, INTERPRET, 1000);
		take(&want);
		for (uint64_t budget = 1; budget <= 100000; budget = budget * 7 + 3) {
			reset(k, mode, exec);
			go(j, COMPILED, budget);
			take(&got);
			same(&got, &want, who);
			cr_assert(refused || (whole && m) || M.x.compiled > 0,
				  "%s: nothing ran compiled", who);
		}
		reset(k, mode, exec);
		go(j, ALTERNATE, 1);
		take(&got);
		same(&got, &want, who);
		if (refused)
			continue;
		reset(k, mode, exec);
		go(get(k, mode, whole, JIT_LOCKSTEP), COMPILED, 1000);
		cr_assert_str_eq(jit_difference(), "", "%s: %s", who, jit_difference());
		cr_assert((whole && m) || M.x.compiled > 0);
		take(&got);
		same(&got, &want, who);
		get(k, mode, whole, JIT_EAGER);
	}
}

ParameterizedTestParameters(vgpu_jit, program)
{
	static struct kernel k[MAX_KERNELS];
	unsigned n = load_object("jit_kernels.o", k, MAX_KERNELS, NULL);

	n += load_object("jit_kernels64.o", k + n, MAX_KERNELS - n, NULL);
	return cr_make_param_array(struct kernel, k, n);
}

ParameterizedTest(struct kernel *k, vgpu_jit, program)
{
	static const uint32_t modes[] = {0x3f0, 0x3c0, 0x0ff, 0x305};
	static struct kernel all[MAX_KERNELS];

	machine(k->wave64);
	load_object(k->wave64 ? "jit_kernels64.o" : "jit_kernels.o", all, MAX_KERNELS, J.text);
	for (unsigned i = 0; i < (k->name[0] == 'm' ? 4 : 1); i++)
		check(k, modes[i], false);
	check(k, modes[0], true);
	jit_fini();
	m_fini();
}

/* ---- lock step notices --------------------------------------------------- */

static struct {
	unsigned n; /* instructions that pass for compiled code, interpreted */
	void (*spoil)(struct isa_exec *x, struct isa_wave *w);
} fake;

static uint64_t fake_fn(struct isa_exec *x, struct isa_wave *w, uint64_t base, uint64_t budget)
{
	uint64_t n = isa_run(x, w, fake.n);

	(void)base;
	(void)budget;
	if (fake.spoil)
		fake.spoil(x, w);
	return n;
}

static const char *lockstep(unsigned n, void (*spoil)(struct isa_exec *, struct isa_wave *))
{
	static char why[512];
	uint64_t compiled;

	fake.n = n;
	fake.spoil = spoil;
	M.n = 0;
	e_vop1(ISA_V_MOV_B32, 2, 256 + 1);
	e_vop2(ISA_V_ADD_NC_U32, 3, 129, 2);
	e_ds(ISA_DS_STORE_B32, 0, 4, 3, 0, 0);
	e_sop2(ISA_S_ADD_I32, 8, 8, 129);
	e_flat(ISA_GLOBAL_STORE_B32, 2, 0, 4, 3, 0, 0, false);
	e_sopp(ISA_S_ENDPGM, 0);
	memset(M.w, 0, isa_wave_bytes(M_NVGPR, false));
	M.w->pc = M_CODE;
	M.w->exec = 0xffffffff;
	M.w->nvgpr = M_NVGPR;
	M.w->mode = 0x3f0;
	m_set64(0, M_MEM);
	for (unsigned l = 0; l < 32; l++)
		M.w->v[4][l] = 4 * l;
	isa_icache_invalidate();
	jit_lockstep(fake_fn, M_CODE, &M.x, M.w, 100, &compiled, why, sizeof(why));
	return why;
}

static void spoil_vgpr(struct isa_exec *x, struct isa_wave *w)
{
	(void)x;
	if (w->insns == 4)
		w->v[3][7] ^= 1;
}

static void spoil_sgpr(struct isa_exec *x, struct isa_wave *w)
{
	(void)x;
	if (w->insns == 4)
		w->s[8] = 9;
}

static void spoil_lds(struct isa_exec *x, struct isa_wave *w)
{
	(void)w;
	x->lds[8] ^= 4;
}

static void spoil_extra(struct isa_exec *x, struct isa_wave *w)
{
	uint64_t addr[VM_LANES];
	uint32_t data[VM_LANES];

	(void)w;
	addr[3] = M_MEM;
	vm_access(x->vmem, VM_LOAD, addr, 8, 4, 0, data);
}

static void spoil_store(struct isa_exec *x, struct isa_wave *w)
{
	(void)x;
	if (w->insns == 4)
		w->v[3][5] = 77;
}

static void spoil_nan(struct isa_exec *x, struct isa_wave *w)
{
	(void)x;
	/* The interpreter has 1 there; equal NaNs are another matter. */
	w->v[9][0] = 0x7fc00000;
}

static void spoil_untouched(struct isa_exec *x, struct isa_wave *w)
{
	(void)x;
	w->v[40][31] = 5;
}

static void spoil_scc(struct isa_exec *x, struct isa_wave *w)
{
	(void)x;
	w->scc ^= 1;
}

static void said(const char *why, const char *const *parts)
{
	for (; *parts; parts++)
		cr_assert(strstr(why, *parts), "\"%s\" does not say \"%s\"", why, *parts);
	cr_assert(M.w->state == WAVE_HALTED && M.w->stop == STOP_DIFFERS);
}

#define SAID(n, spoil, ...) said(lockstep(n, spoil), (const char *const[]){__VA_ARGS__, NULL})

Test(vgpu_jit, lockstep_agrees, .fini = m_fini)
{
	m_init(false);
	for (unsigned n = 1; n < 8; n++) {
		cr_assert_str_eq(lockstep(n, NULL), "");
		cr_assert(M.w->state == WAVE_ENDED && M.w->insns == 6 && m_mem32(12) == 1);
	}
}

Test(vgpu_jit, lockstep_notices, .fini = m_fini)
{
	m_init(false);
	SAID(4, spoil_vgpr, "PC 0x100000004", "v_add_nc_u32", "v3 lane 7 is 0x00000000 compiled",
	     "0x00000001 interpreted");
	SAID(4, spoil_sgpr, "PC 0x100000010", "s_add_i32", "s8 is 0x00000009 compiled",
	     "0x00000001 interpreted");
	SAID(4, spoil_lds, "somewhere behind PC 0x100000000", "LDS dword at byte 8",
	     "0x00000005 compiled", "0x00000001 interpreted");
	SAID(2, spoil_extra, "somewhere behind PC 0x100000000", "goes on with load of 4 bytes");
	SAID(6, spoil_untouched, "somewhere behind PC 0x100000000", "v40 lane 31 is 0x00000005");
	SAID(6, spoil_nan, "v9 lane 0 is 0x7fc00000 compiled, 0x00000000 interpreted");
	SAID(4, spoil_scc, "somewhere behind PC 0x100000000",
	     "scc is 0x1 compiled, 0x0 interpreted");
	SAID(4, spoil_store, "PC 0x100000004", "v3 lane 5 is 0x0000004d compiled");
}

/* A store with other data is caught at the store. */
static uint64_t other_store(struct isa_exec *x, struct isa_wave *w, uint64_t base, uint64_t budget)
{
	(void)base;
	(void)budget;
	isa_run(x, w, 4);
	w->v[3][5] = 77;
	isa_run(x, w, 1);
	w->v[3][5] = 1;
	return 5;
}

Test(vgpu_jit, lockstep_notices_stores, .fini = m_fini)
{
	char why[512];
	uint64_t compiled;

	m_init(false);
	lockstep(10, NULL);
	memset(M.w->s, 0, sizeof(M.w->s));
	m_set64(0, M_MEM);
	M.w->pc = M_CODE;
	M.w->state = WAVE_RUN;
	jit_lockstep(other_store, M_CODE, &M.x, M.w, 5, &compiled, why, sizeof(why));
	said(why, (const char *const[]){"PC 0x100000014", "global_store_b32",
					"store: lane 5's dword 0 of data is 0x00000001 in replay, "
					"0x0000004d recorded",
					NULL});
}

Test(vgpu_jit, same_values)
{
	cr_assert(vm_same_value(1, 1) && !vm_same_value(1, 2));
	cr_assert(vm_same_value(0x7fc00000, 0xffc00001), "two f32 NaNs");
	cr_assert(!vm_same_value(0x7fc00000, 0x7f800000), "NaN and infinity");
	cr_assert(vm_same_value(0x7e003c00, 0xfe013c00), "two f16 NaNs, and an equal half");
	cr_assert(!vm_same_value(0x7e003c00, 0xfe013c01));
	cr_assert(!vm_same_value(0, 0x80000000), "zeros have a sign");
}
