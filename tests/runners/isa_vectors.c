/* Runs instruction vectors: isa_vectors [--jit|--lockstep|--delay MOST,SEED] [--part I/N] FILE...
 *
 * On the interpreter, or with the body compiled (--jit), or both at once, compared block by block
 * (--lockstep); pro and epi, which are the same for most, are interpreted. A vector whose body the
 * compiler refuses fails. --delay: interpreted with memory that answers up to MOST instructions late
 * (isa/delay.h); a vector that uses a register before it has waited for it fails. --part: every Nth
 * vector, from the Ith on.
 *
 * FILE is JSON: {"meta": {...}, "vectors": [{"id", "kind", "lanes", "pro", "body", "epi", "out",
 * "checked", "addr_dep", "exact", "tol", "out_reg"}]}. A vector is one workgroup of `lanes`
 * threads: wave32, program pro + body + epi, s[0:1] the address of 8 bytes that hold the address
 * of a zeroed output buffer, v0 the thread number, 64 KiB of zeroed LDS, 64 KiB of scratch per
 * lane, MODE 0xc0 (f32 denormals flushed) with DX10_CLAMP and IEEE. The dwords named in `checked`
 * must come out as in `out`: bit for bit where `exact`, else within `tol`.
 *
 * Our own files (tests/manual) have members more, all optional. Beside "vectors", "pro": that of the
 * vectors without one; "in": what the buffer holds from byte 65536 on. In a vector, "mode": its MODE;
 * "all": every dword of `out` is checked; "nans": dwords where one NaN (of f32 or of f16 halves) is as
 * good as another; "what": [dword, text] from which dword on whose results lie.
 *
 * Prints the vectors that fail and closes with "N passed, N failed". Exit status 1 if any failed.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/delay.h"
#include "isa/isa.h"
#include "isa/jit.h"
#include "vm/vm.h"

enum {
	LDS_BYTES = 64 << 10,
	SCRATCH_LANE = 64 << 10,
	NVGPR = 256,
	MAX_WAVES = 2,
	OUT_BYTES = 1 << 20,
	IN_AT = 64 << 10,
	IN_BYTES = 64 << 10,
	CODE_BYTES = 64 << 10,
	BUDGET = 1000000,
};

#define MODE         0x3c0u
#define CODE_VA      0x100000000ull
#define KERNARG_VA   0x200000000ull
#define OUT_VA       0x300000000ull
#define SCRATCH_VA   0x400000000ull
#define SHARED_BASE  0x1000000000000ull
#define PRIVATE_BASE 0x2000000000000ull

struct machine {
	struct vm *vm;
	uint8_t *code, *kernarg, *out;
	uint8_t *lds;
	struct vm_port vmem, smem, imem;
	struct isa_exec x;
	struct isa_wave *wave[MAX_WAVES];
	const char *pro; /* the file's; NULL: none */
	uint8_t in[IN_BYTES];
	unsigned in_bytes;
	uint32_t mode;
	unsigned most; /* --delay; 0: none */
	uint64_t seed;
};

static unsigned missing; /* waits */

static void on_missing(struct isa_exec *x, const struct delay_missing *d)
{
	(void)x;
	(void)d;
	missing++;
}

static uint8_t *place(struct vm *vm, uint64_t va, uint64_t size, unsigned perm)
{
	struct vm_bo *bo;

	if (vm_bo_alloc(VM_POOL_GTT, size, &bo) ||
	    vm_map(vm, gva(va), size, bo, 0, perm, VM_MTYPE_NC))
		return NULL;
	return vm_bo_kmap(bo);
}

static uint64_t realtime(struct isa_exec *x)
{
	return x->w->insns;
}

static bool machine_init(struct machine *m)
{
	memset(m, 0, sizeof(*m));
	if (vm_pools_init(16 << 20, 64 << 20) || vm_create(&m->vm))
		return false;
	m->code = place(m->vm, CODE_VA, CODE_BYTES, VM_X);
	m->kernarg = place(m->vm, KERNARG_VA, VM_PAGE, VM_W);
	m->out = place(m->vm, OUT_VA, OUT_BYTES, VM_W);
	if (!m->code || !m->kernarg || !m->out ||
	    !place(m->vm, SCRATCH_VA, (uint64_t)SCRATCH_LANE * 32 * MAX_WAVES, VM_W))
		return false;
	m->lds = aligned_alloc(128, LDS_BYTES);
	for (unsigned i = 0; i < MAX_WAVES; i++)
		m->wave[i] = aligned_alloc(
			128,
			(isa_wave_bytes(NVGPR, false) + 255 + sizeof(struct isa_delay)) & ~127ul);
	vm_port_init(&m->vmem, m->vm, VM_CLIENT_TCP);
	vm_port_init(&m->smem, m->vm, VM_CLIENT_SQC_DATA);
	vm_port_init(&m->imem, m->vm, VM_CLIENT_SQC_INST);
	m->x.vmem = &m->vmem;
	m->x.smem = &m->smem;
	m->x.imem = &m->imem;
	m->x.lds = m->lds;
	m->x.lds_size = LDS_BYTES;
	m->x.shared_base = SHARED_BASE;
	m->x.private_base = PRIVATE_BASE;
	m->x.realtime = realtime;
	m->x.missing = on_missing;
	return true;
}

/* ---- one vector ---------------------------------------------------------- */

static unsigned from_hex(const char *s, uint8_t *out, unsigned max)
{
	unsigned n = 0, v;

	for (; n < max && sscanf(s, "%2x", &v) == 1; s += 2)
		out[n++] = (uint8_t)v;
	return n;
}

static void wave_start(struct machine *m, unsigned i, unsigned lanes)
{
	struct isa_wave *w = m->wave[i];
	unsigned here = lanes - 32 * i < 32 ? lanes - 32 * i : 32;

	memset(w, 0, isa_wave_bytes(NVGPR, false));
	w->pc = CODE_VA;
	w->exec = here == 32 ? 0xffffffffu : (1u << here) - 1;
	w->s[0] = (uint32_t)KERNARG_VA;
	w->s[1] = (uint32_t)(KERNARG_VA >> 32);
	w->mode = m->mode;
	w->flat_scratch = SCRATCH_VA + (uint64_t)i * SCRATCH_LANE * 32;
	w->scratch_lane_bytes = SCRATCH_LANE;
	w->lds_size = LDS_BYTES;
	w->wave_in_group = i;
	w->nvgpr = NVGPR;
	if (m->most)
		isa_delay_init(w, m->seed * MAX_WAVES + i, m->most, true);
	for (unsigned l = 0; l < 32; l++)
		w->v[0][l] = 32 * i + l;
}

/* The three parts of a program, each followed by an s_endpgm of ours. */
struct part {
	uint32_t start, end;
};

static const char *stopped(struct machine *m, const struct isa_wave *w, char *why, size_t n)
{
	static const char *const stops[] = {"halted",       "unsupported", "illegal instruction",
					    "memory fault", "fetch fault", "trap"};
	uint32_t words[4] = {0};
	char text[160];

	if (w->stop == STOP_DIFFERS)
		return jit_difference();
	vm_read(&m->imem, VM_FETCH, gva(w->pc), words, sizeof(words), 0);
	isa_disasm(words, 4, w->pc, text, sizeof(text));
	snprintf(why, n, "%s at +0x%llx: %s", stops[w->stop], (unsigned long long)(w->pc - CODE_VA),
		 text);
	return why;
}

/* Runs all waves to their end, barriers included. NULL, or why one stopped. */
static const char *run(struct machine *m, const struct part *part, unsigned lanes,
		       enum jit_mode mode, char *why, size_t n)
{
	const struct jit_shape shape = {.nvgpr = NVGPR, .mode = m->mode};
	struct jit_kernel *jit = NULL;
	unsigned waves = (lanes + 31) / 32, ended = 0, waiting = 0, at[MAX_WAVES] = {0};

	if (part[1].end > part[1].start)
		jit = jit_kernel_get(&m->imem, CODE_VA + part[1].start, &shape, mode);
	if (jit && jit_refusal(jit)[0]) {
		snprintf(why, n, "not compiled: %s", jit_refusal(jit));
		return why;
	}
	m->x.compiled = 0;
	missing = 0;
	for (unsigned i = 0; i < waves; i++)
		wave_start(m, i, lanes);
	while (ended < waves) {
		ended = waiting = 0;
		for (unsigned i = 0; i < waves; i++) {
			struct isa_wave *w = m->wave[i];

			if (w->state == WAVE_SLEEP)
				w->state = WAVE_RUN;
			if (w->state == WAVE_RUN &&
			    jit_run(at[i] == 1 ? jit : NULL, &m->x, w, BUDGET) >= BUDGET)
				return "does not end";
			if (w->state == WAVE_HALTED)
				return stopped(m, w, why, n);
			/* At the end of a part: on to the next. */
			while (w->state == WAVE_ENDED && at[i] < 2 &&
			       w->pc == CODE_VA + part[at[i]].end + 4) {
				w->pc = CODE_VA + part[++at[i]].start;
				w->state = WAVE_RUN;
			}
			ended += w->state == WAVE_ENDED;
			waiting += w->state == WAVE_BARRIER;
		}
		if (ended + waiting == waves)
			for (unsigned i = 0; i < waves; i++)
				if (m->wave[i]->state == WAVE_BARRIER)
					m->wave[i]->state = WAVE_RUN;
	}
	if (missing)
		return "a wait is missing";
	return jit && !m->x.compiled ? "nothing ran compiled" : NULL;
}

static float half_to_float(uint16_t h)
{
	int e = h >> 10 & 31;
	float m = (float)(h & 1023), s = h & 0x8000 ? -1 : 1;

	if (e == 31)
		return m != 0 ? NAN : s * INFINITY;
	return s * (e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24));
}

static bool near(double a, double b, double tol)
{
	return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tol ||
	       fabs(a - b) <= tol * fabs(b);
}

/* The test's type is not told: the dword may be an f32, two f16, or half of an f64. */
static bool within(const uint32_t *got, const uint32_t *want, unsigned i, unsigned n, double tol)
{
	union {
		uint32_t u[2];
		float f;
		double d;
	} a = {.u = {got[i], 0}}, b = {.u = {want[i], 0}};

	if (got[i] == want[i] || near(a.f, b.f, tol))
		return true;
	if (near(half_to_float((uint16_t)got[i]), half_to_float((uint16_t)want[i]), tol) &&
	    near(half_to_float(got[i] >> 16), half_to_float(want[i] >> 16), tol))
		return true;
	/* lanes are next to each other, registers are not: a double lies `n` dwords apart */
	for (unsigned k = 0; k < 2; k++) {
		unsigned lo = k ? i - n : i, hi = k ? i : i + n;

		if (k && i < n)
			continue;
		memcpy(&a.u[0], &got[lo], 4);
		memcpy(&a.u[1], &got[hi], 4);
		memcpy(&b.u[0], &want[lo], 4);
		memcpy(&b.u[1], &want[hi], 4);
		if (a.d == a.d && fabs(b.d) > 1e-300 && near(a.d, b.d, tol))
			return true;
	}
	return false;
}

static double tolerance(json_t *v)
{
	json_t *tols = json_object_get(v, "tol"), *t;
	double worst = 0;
	size_t i;

	json_array_foreach(tols, i, t)
	{
		json_t *places = json_array_get(t, 0), *delta = json_array_get(t, 1);
		double d = json_is_number(delta)    ? json_number_value(delta)
			   : json_is_number(places) ? 0.5 * pow(10, -json_number_value(places))
						    : 1e-6;

		if (d > worst)
			worst = d;
	}
	return worst > 0 ? worst : 1e-6; /* an inequality: the value itself, rounding aside */
}

static bool f32_nan(uint32_t u)
{
	return (u & 0x7fffffff) > 0x7f800000;
}

static bool same_half(uint32_t a, uint32_t b)
{
	a &= 0xffff;
	b &= 0xffff;
	return a == b || ((a & 0x7fff) > 0x7c00 && (b & 0x7fff) > 0x7c00);
}

/* Equal, or NaN where NaN was wanted. */
static bool equal_or_nan(uint32_t a, uint32_t b)
{
	return (f32_nan(a) && f32_nan(b)) || (same_half(a, b) && same_half(a >> 16, b >> 16));
}

static bool contains(json_t *array, unsigned dword)
{
	json_t *e;
	size_t i;

	json_array_foreach(array, i, e) if (json_integer_value(e) == (json_int_t)dword) return true;
	return false;
}

/* Which instruction's result dword d is; "" unless the file says. */
static const char *what(json_t *v, unsigned d)
{
	json_t *list = json_object_get(v, "what"), *e;
	const char *name = "";
	size_t i;

	json_array_foreach(list, i, e)
	{
		if (json_integer_value(json_array_get(e, 0)) > (json_int_t)d)
			break;
		name = json_string_value(json_array_get(e, 1));
	}
	return name ? name : "";
}

/* NULL if dword d is as it should be. */
static const char *check(json_t *v, const uint32_t *got, const uint32_t *want, unsigned d,
			 unsigned lanes, char *why, size_t n)
{
	bool exact = json_is_true(json_object_get(v, "exact"));

	if (exact ? got[d] == want[d] : within(got, want, d, lanes, tolerance(v)))
		return NULL;
	if (equal_or_nan(got[d], want[d]) && contains(json_object_get(v, "nans"), d))
		return NULL;
	snprintf(why, n, "dword %u is 0x%08x, wanted 0x%08x%s%s%s", d, got[d], want[d],
		 exact ? "" : " within tolerance", what(v, d)[0] ? " " : "", what(v, d));
	return why;
}

/* NULL if the vector passes, else what is wrong. */
static const char *vector(struct machine *m, json_t *v, enum jit_mode mode, char *why, size_t n)
{
	static uint32_t want[OUT_BYTES / 4], lanes64[64];
	unsigned lanes = (unsigned)json_integer_value(json_object_get(v, "lanes")), at = 0, dwords;
	const char *kind = json_string_value(json_object_get(v, "kind")), *stop;
	json_t *addr_dep = json_object_get(v, "addr_dep"), *e;
	static const uint32_t endpgm = 0xbfb00000;
	struct part part[3];
	const char *const parts[] = {"pro", "body", "epi"};
	const uint32_t *got = (const uint32_t *)(const void *)m->out;
	uint64_t out_va = OUT_VA;
	const char *bad;
	size_t i;

	if (!kind || !lanes || lanes > 32 * MAX_WAVES)
		return "malformed";
	memset(m->code, 0, CODE_BYTES);
	memset(m->out, 0, OUT_BYTES);
	memset(m->lds, 0, LDS_BYTES);
	memcpy(m->out + IN_AT, m->in, m->in_bytes);
	m->mode = json_object_get(v, "mode")
			  ? (uint32_t)json_integer_value(json_object_get(v, "mode"))
			  : MODE;
	memcpy(m->kernarg, &out_va, sizeof(out_va));
	for (unsigned k = 0; k < 3; k++) {
		const char *hex = json_string_value(json_object_get(v, parts[k]));

		if (!hex && !k)
			hex = m->pro;

		part[k].start = at;
		at += from_hex(hex ? hex : "", m->code + at, CODE_BYTES - 256 - at);
		part[k].end = at;
		memcpy(m->code + at, &endpgm, sizeof(endpgm));
		at = (at + 4 + 63) & ~63u;
	}
	dwords = from_hex(json_string_value(json_object_get(v, "out")), (uint8_t *)want,
			  sizeof(want)) /
		 4;
	isa_icache_invalidate();
	stop = run(m, part, lanes, mode, why, n);
	if (stop)
		return stop;
	if (!strcmp(kind, "lanes64")) {
		memcpy(lanes64, got, sizeof(lanes64));
		got = lanes64;
	}
	json_array_foreach(json_object_get(v, "checked"), i, e)
	{
		unsigned d = (unsigned)json_integer_value(e);

		if (d >= dwords || contains(addr_dep, d))
			continue;
		bad = check(v, got, want, d, lanes, why, n);
		if (bad)
			return bad;
	}
	for (unsigned d = 0; d < dwords && json_is_true(json_object_get(v, "all")); d++) {
		bad = check(v, got, want, d, lanes, why, n);
		if (bad)
			return bad;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned passed = 0, failed = 0;
	enum jit_mode mode = JIT_OFF;
	size_t which = 0, parts = 1;
	int first = 1;
	struct machine m;
	unsigned most = 0;
	unsigned long seed = 0;

	for (; first < argc && argv[first][0] == '-'; first++) {
		if (!strcmp(argv[first], "--jit"))
			mode = JIT_EAGER;
		else if (!strcmp(argv[first], "--lockstep"))
			mode = JIT_LOCKSTEP;
		else if (!strcmp(argv[first], "--delay") && first + 1 < argc &&
			 sscanf(argv[first + 1], "%u,%lu", &most, &seed) == 2)
			first++;
		else if (strcmp(argv[first], "--part") || ++first == argc ||
			 sscanf(argv[first], "%zu/%zu", &which, &parts) != 2 || !parts)
			first = argc;
	}
	if (first >= argc) {
		fprintf(stderr, "usage: isa_vectors [--jit|--lockstep|--delay MOST,SEED] "
				"[--part I/N] FILE...\n");
		return 2;
	}
	if (!machine_init(&m)) {
		fprintf(stderr, "isa_vectors: no memory for the machine\n");
		return 2;
	}
	m.most = most;
	m.seed = seed;
	for (int i = first; i < argc; i++) {
		json_error_t err;
		json_t *file = json_load_file(argv[i], 0, &err), *v;
		size_t k;

		if (!file) {
			fprintf(stderr, "isa_vectors: %s: %s\n", argv[i], err.text);
			return 2;
		}
		m.pro = json_string_value(json_object_get(file, "pro"));
		m.in_bytes = json_object_get(file, "in")
				     ? from_hex(json_string_value(json_object_get(file, "in")),
						m.in, sizeof(m.in))
				     : 0;
		json_array_foreach(json_object_get(file, "vectors"), k, v)
		{
			const char *bad;
			char why[600];

			if (!parts || k % parts != which)
				continue;
			bad = vector(&m, v, mode, why, sizeof(why));
			if (bad)
				printf("%s: %s\n", json_string_value(json_object_get(v, "id")),
				       bad);
			failed += bad != NULL;
			passed += !bad;
		}
		json_decref(file);
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}
