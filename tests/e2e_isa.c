/* The interpreter's runners, as somebody with a vector file would use them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "testdata.h"

static int run(const char *command, char *last, size_t n)
{
	char line[400];
	FILE *p = popen(command, "r");

	cr_assert(p);
	last[0] = 0;
	while (fgets(line, sizeof(line), p)) {
		line[strcspn(line, "\n")] = 0;
		snprintf(last, n, "%s", line);
	}
	return WEXITSTATUS(pclose(p));
}

Test(e2e_isa, public_vectors)
{
	const char *file = testdata("isa-vectors/gfx11-half.json");
	unsigned passed = 0, failed = 1;
	char command[4200], last[400];
	int rc;

	if (!file) {
		fprintf(stderr, "SKIP: e2e_isa: isa-vectors/gfx11-half.json is not here\n");
		cr_skip_test("no vectors");
	}
	snprintf(command, sizeof(command), "build/tests/isa_vectors '%s'", file);
	rc = run(command, last, sizeof(last));
	cr_assert(sscanf(last, "%u passed, %u failed", &passed, &failed) == 2, "%s", last);
	cr_assert(rc == 0 && failed == 0 && passed == 392, "%s", last);
}

/* Vectors out of the manual's pseudocode (tests/manual/vectors.py); some of them compiled and in lock
 * step, all of them in `make check-manual`. */
static void manual(const char *how, unsigned want)
{
	unsigned passed = 0, failed = 1;
	char command[400], last[400];
	int rc;

	snprintf(command, sizeof(command), "build/tests/isa_vectors %s tests/data/manual/alu.json",
		 how);
	rc = run(command, last, sizeof(last));
	cr_assert(sscanf(last, "%u passed, %u failed", &passed, &failed) == 2, "%s", last);
	cr_assert(rc == 0 && failed == 0 && passed == want, "%s", last);
}

Test(e2e_isa, manual_vectors)
{
	manual("", 157);
}

Test(e2e_isa, manual_vectors_compiled)
{
	manual("--jit --part 3/40", 4);
	manual("--lockstep --part 20/40", 4);
}

/* The same bodies compiled, half of them in each of two tests that run side by side. */
static void compiled(unsigned part)
{
	const char *file = testdata("isa-vectors/gfx11-half.json");
	unsigned passed = 0, failed = 1;
	char command[4200], last[400];
	int rc;

	if (!file) {
		fprintf(stderr, "SKIP: e2e_isa: isa-vectors/gfx11-half.json is not here\n");
		cr_skip_test("no vectors");
	}
	snprintf(command, sizeof(command), "build/tests/isa_vectors --jit --part %u/2 '%s'", part,
		 file);
	rc = run(command, last, sizeof(last));
	cr_assert(sscanf(last, "%u passed, %u failed", &passed, &failed) == 2, "%s", last);
	cr_assert(rc == 0 && failed == 0 && passed == 196, "%s", last);
}

Test(e2e_isa, public_vectors_compiled_even)
{
	compiled(0);
}

Test(e2e_isa, public_vectors_compiled_odd)
{
	compiled(1);
}

/* A vector that states something else than the instruction does must fail, with its id. */
Test(e2e_isa, wrong_vector_fails)
{
	static const char name[] = "build/tests/wrong.json";
	char last[400];
	FILE *f = fopen(name, "w");

	cr_assert(f);
	/* s_load_b64 s[2:3], s[0:1]; v1 = 3; wait; global_store_b32 v2, v1, s[2:3]; s_endpgm */
	fputs("{\"vectors\":[{\"id\":\"wrong\",\"kind\":\"wave32\",\"lanes\":1,\"pro\":\"\","
	      "\"body\":\"800004f4000000f88302027e07fc89bf8002047e00006adc02010200\","
	      "\"epi\":\"0000b0bf\",\"out\":\"04000000\",\"checked\":[0],\"addr_dep\":[],"
	      "\"exact\":true}]}",
	      f);
	fclose(f);
	cr_assert(run("build/tests/isa_vectors build/tests/wrong.json", last, sizeof(last)) == 1);
	cr_assert_str_eq(last, "0 passed, 1 failed");
	cr_assert(run("build/tests/isa_vectors build/tests/wrong.json | head -1", last,
		      sizeof(last)) == 0);
	cr_assert_str_eq(last, "wrong: dword 0 is 0x00000003, wanted 0x00000004");
	remove(name);
}

/* The compiler is started behind the client's back, and not through functions of the client's. */
Test(e2e_isa, client_with_a_clone_of_its_own)
{
	char last[400];
	int rc = run("env -u BXFI_MAP VGPU_JIT_CACHE= VGPU_JIT_LOG=1 VGPU_SET=jit=2 "
		     "build/barewave vgpu -- build/tests/virt_wave --color=never "
		     "--filter wave/store 2>&1 | grep -e compiled -e CRASH -e FAIL",
		     last, sizeof(last));

	cr_expect_eq(rc, 0);
	cr_expect(strstr(last, "compiled"), "%s", last);
}
