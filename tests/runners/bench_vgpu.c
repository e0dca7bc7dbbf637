/* What the virtual device must be able to do, measured: bench_vgpu [--repeats=N] [NAME...]
 *
 * Every figure with a bar is printed with its bar and PASS or FAIL. Figures that are ratios are
 * taken in turns within one run, the best of several on both sides, so that they say something on
 * a busy machine too. "Per core" is one thread, by its own processor time. Exit status: 0 all bars passed, 1 not, 2 a
 * measurement could not be made. NAMEs pick sections: fma wmma q8 five start models.
 */
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/fma.h"
#include "tests/bench/machine.h"
#include "tests/benchdata.h"

/* The best figure of other RDNA3 emulators on kernels of this set, wave instructions per second:
 * 0.20 to 0.98 million (a Rust one), 0.30 to 0.81 million (a Python/C one), two-core AVX2 machine.
 */
#define OTHERS_BEST 0.98e6

static char build[3000]; /* the build directory */
static unsigned failed, broken, repeats = 7;

static void bar(const char *what, double v, const char *unit, double want, bool at_most)
{
	bool ok = at_most ? v <= want : v >= want;

	printf("  %-52s %10.2f %-10s %s %-6g %s\n", what, v, unit, at_most ? "<=" : ">=", want,
	       ok ? "PASS" : "FAIL");
	fflush(stdout);
	failed += !ok;
}

static void note(const char *what, double v, const char *unit)
{
	printf("  %-52s %10.2f %s\n", what, v, unit);
}

static void cannot(const char *what, const char *why)
{
	printf("  %-52s cannot be measured: %s\n", what, why);
	fflush(stdout);
	broken++;
}

static const char *built(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", build, name);
	return path;
}

static double lower(double best, double t)
{
	return t >= 0 && (best <= 0 || t < best) ? t : best;
}

/* ---- arithmetic ---------------------------------------------------------- */

static void measure_fma(void)
{
	enum { ITEMS = 4096, STEPS = 2000 };
	const unsigned grid[2] = {ITEMS / 256, 1};
	double native = 0, compiled = 0, interpreted = 0, flops;
	uint64_t per_run, slow_run;
	float *x, *y, *out, *want;
	struct bm m;

	printf("FMA-bound kernel (%d chains, %d steps), the same C for both machines\n", FMA_CHAINS,
	       STEPS);
	if (!bm_open(&m, built("bench/fma.co"), "fma_chains"))
		return cannot("FMA", m.why);
	x = bm_buffer(&m, ITEMS * 4);
	y = bm_buffer(&m, ITEMS * 4);
	out = bm_buffer(&m, ITEMS * 4);
	bm_u32(&m, STEPS);
	want = calloc(ITEMS, sizeof(*want));
	for (unsigned i = 0; i < ITEMS; i++) {
		x[i] = 0.5f + (float)i / (2 * ITEMS); /* below 1: the chains converge */
		y[i] = 0.25f + (float)(i % 97) / 97;
	}
	if (bm_run(&m, grid, 256, true) < 0) /* compiles */
		return cannot("FMA", m.why);
	per_run = m.insns;
	for (unsigned i = 0; i < repeats; i++) {
		double t = bm_now();

		fma_native(x, y, want, ITEMS, STEPS);
		native = lower(native, bm_now() - t);
		compiled = lower(compiled, bm_run(&m, grid, 256, true));
	}
	if (memcmp(out, want, ITEMS * 4))
		cannot("FMA", "compiled results differ from the host's");
	memset(out, 0, ITEMS * 4);
	m.insns = 0;
	for (unsigned i = 0; i < (repeats + 1) / 2; i++)
		interpreted = lower(interpreted, bm_run(&m, grid, 256, false));
	slow_run = m.insns / ((repeats + 1) / 2);
	if (memcmp(out, want, ITEMS * 4))
		cannot("FMA", "interpreted results differ from the host's");
	flops = 2.0 * ITEMS * STEPS * FMA_CHAINS;
	note("native, clang -O3 -mavx2 -mfma", flops / native * 1e-9, "GFLOP/s per core");
	note("compiled", flops / compiled * 1e-9, "GFLOP/s per core");
	note("compiled", (double)per_run / compiled * 1e-6, "M wave instructions/s");
	note("interpreted", (double)slow_run / interpreted * 1e-6, "M wave instructions/s");
	bar("compiled / native", 100 * native / compiled, "%", 25, false);
	bar("compiled / interpreted", (double)per_run / compiled / ((double)slow_run / interpreted),
	    "x", 10, false);
	free(want);
	bm_close(&m);
}

static void measure_wmma(void)
{
	enum { GROUPS = 32, WAVES = 4, STEPS = 500 };
	const unsigned grid[2] = {GROUPS, 1};
	const double count = (double)GROUPS * WAVES * STEPS * 4;
	double compiled = 0, interpreted = 0;
	_Float16 *a;
	float *out;
	struct bm m;

	printf("WMMA f16 16x16x16, four accumulators in registers\n");
	if (!bm_open(&m, built("bench/wmma_rate.co"), "wmma_rate"))
		return cannot("WMMA", m.why);
	a = bm_buffer(&m, WAVES * 32 * 64);
	out = bm_buffer(&m, (size_t)GROUPS * WAVES * 32 * 4 * 32);
	bm_u32(&m, STEPS);
	/* Rows 16 to 31 of an operand repeat rows 0 to 15 (gfx11's layout). Small integers: sums
	 * are exact. */
	for (unsigned l = 0; l < WAVES * 32; l++)
		for (unsigned i = 0; i < 32; i++)
			a[32 * l + i] = (_Float16)((int)((l % 16 * 7 + i * 3) % 5) - 2);
	for (unsigned i = 0; i < repeats; i++) {
		double t = bm_run(&m, grid, WAVES * 32, true);

		if (t < 0)
			return cannot("WMMA", m.why);
		compiled = i ? lower(compiled, t) : 0; /* the first one compiles */
	}
	/* D[r][c] = steps * sum over k of A[r][k] B[c][k]; lane l has column l % 16, register r
	 * row 2 r + l / 16. Product j takes operands j & 1 and j >> 1. */
	for (unsigned l = 0; l < 32; l++)
		for (unsigned j = 0; j < 4; j++)
			for (unsigned r = 0; r < 8; r++) {
				unsigned row = 2 * r + l / 16;
				float want = 0;

				for (unsigned k = 0; k < 16; k++)
					want += (float)a[32 * row + 16 * (j & 1) + k] *
						(float)a[32 * (l % 16) + 16 * (j >> 1) + k];
				if (out[8 * (4 * l + j) + r] != want * STEPS) {
					cannot("WMMA", "results are wrong");
					bm_close(&m);
					return;
				}
			}
	for (unsigned i = 0; i < 3; i++)
		interpreted = lower(interpreted, bm_run(&m, grid, WAVES * 32, false));
	note("interpreted", count / interpreted * 1e-6, "M WMMA/s");
	bar("compiled, per core", count / compiled * 1e-6, "M WMMA/s", 4, false);
	bm_close(&m);
}

/* ---- memory -------------------------------------------------------------- */

static void measure_q8(void)
{
	enum { K = 4096, ROWS = 16384, ROW = K + K / 16 };
	const unsigned grid[2] = {ROWS / 16, 1};
	const size_t bytes = (size_t)ROWS * ROW;
	uint8_t *w, *x, *copy;
	double copied = 0, compiled = 0;
	uint32_t seed = 9;
	float *y;
	struct bm m;

	printf("streaming Q8_0 matrix x vector, %d x %d, %.0f MB of weights\n", ROWS, K,
	       (double)bytes * 1e-6);
	if (!bm_open(&m, built("bench/q8_stream.co"), "q8_stream"))
		return cannot("Q8_0", m.why);
	w = bm_buffer(&m, bytes);
	x = bm_buffer(&m, ROW);
	y = bm_buffer(&m, ROWS * 4);
	bm_u32(&m, K);
	/* Scales are 1/16, values -15 to 15: all sums are exact. */
	for (size_t r = 0; r <= ROWS; r++) {
		uint8_t *row = r < ROWS ? w + r * ROW : x;

		for (unsigned i = 0; i < K; i++)
			row[i] = (uint8_t)((int)(bench_step(&seed) >> 24) % 31 - 15);
		for (unsigned i = 0; i < K / 32; i++)
			((uint16_t *)(void *)(row + K))[i] = 0x2c00;
	}
	copy = malloc(bytes);
	memset(copy, 1, bytes);
	for (unsigned i = 0; i < repeats; i++) {
		double t = bm_now();

		memcpy(copy, w, bytes);
		__asm__ volatile("" ::"r"(copy) : "memory");
		copied = lower(copied, bm_now() - t);
		t = bm_run(&m, grid, 128, true);
		if (t < 0)
			return cannot("Q8_0", m.why);
		compiled = i ? lower(compiled, t) : 0;
	}
	for (unsigned r = 0; r < ROWS; r += 1021) {
		int sum = 0;

		for (unsigned i = 0; i < K; i++)
			sum += (int8_t)w[(size_t)r * ROW + i] * (int8_t)x[i];
		if (y[r] != (float)sum / 256) {
			cannot("Q8_0", "results are wrong");
			break;
		}
	}
	note("memcpy", (double)bytes / copied * 1e-9, "GB copied/s per core");
	note("compiled", (double)bytes / compiled * 1e-9, "GB of weights/s per core");
	bar("compiled / memcpy", 100 * copied / compiled, "%", 20, false);
	free(copy);
	bm_close(&m);
}

/* ---- the five kernels ---------------------------------------------------- */

static void measure_five(void)
{
	double log_sum = 0;
	unsigned n = 0;

	printf("five kernels, beside the best of other emulators (%.2f M wave instructions/s)\n",
	       OTHERS_BEST * 1e-6);
	for (int i = 0; i < BENCH_COUNT; i++) {
		double slow = 0, fast = 0;
		bool exact = true;
		uint64_t insns;
		struct bench b;
		char path[300], what[80];
		uint8_t *out;
		struct bm m;

		bench_make(i, &b);
		snprintf(path, sizeof(path), "tests/data/bench-kernels/%s", b.file);
		if (!bm_open(&m, path, b.kernel)) {
			cannot(b.file, m.why);
			continue;
		}
		memcpy(bm_buffer(&m, b.a.bytes), b.a.data, b.a.bytes);
		memcpy(bm_buffer(&m, b.b.bytes), b.b.data, b.b.bytes);
		out = bm_buffer(&m, b.want.bytes);
		for (unsigned s = 0; s < b.scalars; s++)
			bm_u32(&m, b.scalar);
		for (unsigned r = 0; r <= repeats && exact; r++) {
			double t;

			memset(out, 0, b.want.bytes);
			m.insns = 0;
			t = bm_run(&m, b.grid, b.block, true);
			fast = r ? lower(fast, t) : 0;
			insns = m.insns;
			exact &= t >= 0 && !memcmp(out, b.want.data, b.want.bytes);
			if (r > 3)
				continue;
			memset(out, 0, b.want.bytes);
			m.insns = 0;
			t = bm_run(&m, b.grid, b.block, false);
			slow = lower(slow, t);
			exact &= t >= 0 && !memcmp(out, b.want.data, b.want.bytes) &&
				 m.insns == insns;
		}
		if (!exact || fast <= 0 || slow <= 0) {
			cannot(b.file,
			       m.why[0] ? m.why : "results or instruction counts are wrong");
			continue;
		}
		snprintf(what, sizeof(what), "%s (%s mode), interpreted", b.file,
			 m.rsrc1 >> 29 & 1 ? "WGP" : "CU");
		note(what, (double)insns / slow * 1e-6, "M/s, exact");
		snprintf(what, sizeof(what), "%s, compiled: %.1f M/s, times other's best", b.file,
			 (double)insns / fast * 1e-6);
		bar(what, (double)insns / fast / OTHERS_BEST, "x", 30, false);
		log_sum += log((double)insns / slow);
		n++;
		bench_free(&b);
		bm_close(&m);
	}
	if (n)
		bar("interpreter, geometric mean", exp(log_sum / n) * 1e-6, "M/s", 20, false);
}

/* ---- whole processes ----------------------------------------------------- */

/* Seconds from start to exit of argv, its output dropped; negative when it fails. *busy: its
 * processor time, kept if less than before. */
static double spawn(char *const *argv, const char *preload, double *busy)
{
	struct rusage u;
	posix_spawn_file_actions_t quiet;
	double t = bm_clock(CLOCK_MONOTONIC);
	int status, r;
	pid_t pid;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	r = posix_spawn(&pid, argv[0], &quiet, NULL, argv, environ);
	unsetenv("LD_PRELOAD");
	posix_spawn_file_actions_destroy(&quiet);
	if (r || wait4(pid, &status, 0, &u) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		return -1;
	t = bm_clock(CLOCK_MONOTONIC) - t;
	*busy = lower(*busy, (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
				     (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
	return t;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_start(void)
{
	enum { RUNS = 21 };
	char tool[3100], lib[3100];
	char *const info[] = {tool, "info", "--json", NULL};
	char *const idle[] = {tool, "--help", NULL};
	double with[RUNS], without[RUNS], busy[2] = {0};

	printf("start-up of the virtual device (barewave info on it against barewave --help, "
	       "best of %d each)\n",
	       RUNS);
	snprintf(tool, sizeof(tool), "%s", built("barewave"));
	snprintf(lib, sizeof(lib), "%s", built("libvgpu.so"));
	for (unsigned i = 0; i < RUNS; i++) {
		without[i] = spawn(idle, NULL, &busy[0]);
		with[i] = spawn(info, lib, &busy[1]);
		if (without[i] < 0 || with[i] < 0)
			return cannot("start-up", "barewave fails");
	}
	qsort(with, RUNS, sizeof(with[0]), by_value);
	qsort(without, RUNS, sizeof(without[0]), by_value);
	note("process that opens the device", with[0] * 1e3, "ms");
	note("process that does not", without[0] * 1e3, "ms");
	note("difference of their processor times", (busy[1] - busy[0]) * 1e3, "ms");
	bar("difference", (with[0] - without[0]) * 1e3, "ms", 20, true);
}

/* Decode speed that barewave run reports, negative when it fails. */
static double decode(const char *model, unsigned tokens, const char *prompt)
{
	char cmd[8000], *text;
	const size_t cap = 1 << 20;
	double v = -1;
	FILE *p;

	snprintf(cmd, sizeof(cmd),
		 "'%s/barewave' run --device=virt -m '%s' -p '%s' -n %u --ignore-eos --json "
		 "2>/dev/null",
		 build, model, prompt, tokens);
	p = popen(cmd, "r");
	text = malloc(cap);
	if (p && text) {
		const char *at;

		text[fread(text, 1, cap - 1, p)] = 0;
		at = strstr(text, "\"tokens_per_second\":");
		if (at)
			v = strtod(strchr(at, ':') + 1, NULL);
	}
	free(text);
	if (p && pclose(p))
		v = -1;
	return v;
}

static void measure_models(void)
{
	char path[3100], cmd[6400];
	double best = 0;

	printf("models, all cores (decode; the best of runs with compiled kernels on disk)\n");
	for (unsigned i = 0; i < 3; i++) {
		double v = decode("data/demo/story-4m-q4_k_m.gguf", 256, "Once upon a time");

		best = v > best ? v : best;
	}
	if (best > 0)
		bar("demo model, Q4_K_M", best, "tokens/s", 100, false);
	else
		cannot("demo model", "barewave run fails");
	snprintf(path, sizeof(path), "%s", built("bench/qwen3-0.6b.gguf"));
	if (access(path, R_OK)) {
		snprintf(cmd, sizeof(cmd), "'%s/tests/make_model' qwen3-0.6b '%s' >/dev/null",
			 build, path);
		if (system(cmd))
			return cannot("Qwen3-0.6B shape", "make_model fails");
	}
	best = 0;
	for (unsigned i = 0; i < 2; i++) {
		double v = decode(path, 24, "w");

		best = v > best ? v : best;
	}
	if (best > 0)
		bar("Qwen3-0.6B shape, Q4_K_M", best, "tokens/s", 6, false);
	else
		cannot("Qwen3-0.6B shape", "barewave run fails");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} sections[] = {
		{"fma", measure_fma},   {"wmma", measure_wmma},   {"q8", measure_q8},
		{"five", measure_five}, {"start", measure_start}, {"models", measure_models},
	};
	ssize_t n = readlink("/proc/self/exe", build, sizeof(build) - 1);
	bool any = false;
	char *slash;

	for (unsigned up = 0; n > 0 && up < 2; up++)
		if ((slash = strrchr(build, '/')))
			*slash = 0;
	for (int i = 1; i < argc; i++) {
		bool known = !strncmp(argv[i], "--repeats=", 10);

		if (known)
			repeats = (unsigned)atoi(argv[i] + 10);
		for (unsigned s = 0; s < sizeof(sections) / sizeof(*sections); s++)
			if (!strcmp(argv[i], sections[s].name))
				any = known = true;
		if (!known || repeats < 3) {
			fprintf(stderr, "usage: bench_vgpu [--repeats=N (3 or more)] "
					"[fma|wmma|q8|five|start|models]"
					"...\n");
			return 2;
		}
	}
	if (vm_pools_init(16 << 20, 512 << 20)) {
		fprintf(stderr, "bench_vgpu: no device memory\n");
		return 2;
	}
	for (unsigned s = 0; s < sizeof(sections) / sizeof(*sections); s++) {
		bool wanted = !any;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], sections[s].name);
		if (wanted)
			sections[s].run();
	}
	jit_fini();
	printf("%u bars missed, %u measurements not made\n", failed, broken);
	return broken ? 2 : failed != 0;
}
