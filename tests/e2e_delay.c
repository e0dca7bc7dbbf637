/* Delayed memory, as a person turns it on: programs that wait are not changed by it, programs that do
 * not are, and are named. `make check-delay` has more seeds. */
#include <criterion/criterion.h>

#include "tests/shell.h"

TestSuite(e2e_delay, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

#define MODEL                                                                                      \
	"run --device=virt -m data/demo/story-4m-q8_0.gguf -p 'Once upon a time' -n 24 --temp "    \
	"0.7 "                                                                                     \
	"--seed 7"

/* The text alone. */
static char *text(const char *set)
{
	struct result r = shell("VGPU_SET=%s " BAREWAVE " " MODEL " 2>%s/err", set, dir);

	char *report = strstr(r.out, "bytes by owner");

	cr_assert_eq(r.status, 0, "%s: %d %s", set, r.status, r.out);
	cr_assert(report);
	*report = 0;
	return r.out;
}

static bool told(const char *words)
{
	struct result r = shell("grep -c '%s' %s/err", words, dir);
	bool any = atoi(r.out) > 0;

	free(r.out);
	return any;
}

Test(e2e_delay, model)
{
	char *plain = text("jit=0"), *late = text("delay=64,seed=1,waits=report"), *moved;
	bool clean = !told("missing wait");

	moved = text("delay=300,seed=2,evict_ms=40");

	cr_assert(strlen(plain) > 60, "%s", plain);
	cr_assert_str_eq(late, plain);
	/* Evicted, all that is on its way arrives first. */
	cr_assert_str_eq(moved, plain);
	cr_assert(clean);
	free(plain);
	free(late);
	free(moved);
}

/* Generated kernels (tests/corpus), small ones, with what sed makes of their assembler text. */
static void kernels(const char *edit)
{
	struct result r = shell(
		"d=%s && f='-std=gnu11 -w -O1 -ffp-contract=off -Itests/corpus' && "
		"g='-target amdgcn-amd-amdhsa -mcpu=gfx1151 -mcode-object-version=5' && "
		"build/tests/corpus_gen 1 6 small >$d/k.c && "
		"clang-19 $f -Xclang -ffloat16-excess-precision=none -march=x86-64-v3 -shared "
		"-fPIC $d/k.c -o $d/k.so && clang-19 $f $g -nogpulib -ffreestanding -S $d/k.c -o "
		"$d/k.s && "
		"sed -i '%s' $d/k.s && clang-19 $g -c $d/k.s -o $d/k.o && "
		"ld.lld-19 -shared $d/k.o -o $d/k.co 2>&1",
		dir, edit);

	cr_assert_eq(r.status, 0, "%s", r.out);
	free(r.out);
}

static unsigned failures(const char *set)
{
	struct result r = shell("VGPU_SET=%s VGPU_STATS=%s/stats " BAREWAVE
				" vgpu -- build/tests/corpus_run %s/k.so %s/k.co 2>%s/err",
				set, dir, dir, dir, dir);
	unsigned passed = 0, failed = 0;
	const char *last = strstr(r.out, " passed, ");

	while (last && last > r.out && last[-1] != '\n')
		last--;
	cr_assert(last && sscanf(last, "%u passed, %u failed", &passed, &failed) == 2, "%s", r.out);
	free(r.out);
	return failed;
}

Test(e2e_delay, kernels_that_wait)
{
	kernels("");
	cr_assert_eq(failures("delay=64,seed=1"), 0);
	cr_assert_eq(failures("delay=64,seed=2,waits=report"), 0);
	cr_assert(!told("missing wait"));
	expect(0, "\"missing_waits\": 0,", "cat %s/stats", dir);
}

/* Without their waits, the same kernels are right where memory answers at once, and only there. */
Test(e2e_delay, kernels_that_do_not)
{
	kernels("/s_waitcnt/d");
	cr_assert_eq(failures("jit=0"), 0);
	cr_assert(failures("delay=64,seed=1") > 0);
	/* The report does not need what it warns of to happen. */
	cr_assert_eq(failures("waits=report"), 0);
	cr_assert(
		told("missing wait: PC 0x.*; group .* wave 0 reads s[0-9]*, which s_load_.* at PC "
		     "0x.* writes; wanted: s_waitcnt lgkmcnt(0) or less"));
	cr_assert(told("reads v.*, which global_load_.* writes; wanted: s_waitcnt vmcnt("));
	expect(0, "\"missing_waits\": ", "grep -v '\"missing_waits\": 0,' %s/stats", dir);
}

/* One kind of wait missing at a time. */
Test(e2e_delay, each_counter)
{
	static const char *const edits[] = {
		"s/vmcnt([0-9]*)//;/s_waitcnt *$/d",
		"s/lgkmcnt([0-9]*)//;/s_waitcnt *$/d",
	};

	for (unsigned i = 0; i < 2; i++) {
		kernels(edits[i]);
		cr_assert(failures("delay=64,seed=1,waits=report") > 0, "%s", edits[i]);
		cr_assert(told(i ? "lgkmcnt(" : "vmcnt("));
		cr_assert(!told(i ? " vmcnt(" : "lgkmcnt("));
	}
}

Test(e2e_delay, settings)
{
	expect(1, "VGPU_SET:1: waits = loud: not a value for this key",
	       "VGPU_SET=waits=loud " BAREWAVE " info --device=virt 2>&1; exit 1");
	expect(1, "VGPU_SET:1: delay = -1: not a value for this key",
	       "VGPU_SET=delay=-1 " BAREWAVE " info --device=virt 2>&1; exit 1");
}
