/* Generated kernels against the host: a fixed few hundred seeds interpreted, a few compiled and in
 * lock step. `make check-corpus` has thousands. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { CHUNK = 20, CHUNKS = 10, COMPILED = 6 };

/* The counts of the last line that names any; what is printed before goes to stderr. */
static int corpus(const char *arguments, unsigned *passed, unsigned *failed)
{
	char command[300], line[600];
	FILE *p;

	snprintf(command, sizeof(command), "scripts/corpus.sh %s 2>&1", arguments);
	p = popen(command, "r");
	cr_assert(p);
	*passed = *failed = 0;
	while (fgets(line, sizeof(line), p))
		if (sscanf(line, "%u passed, %u failed", passed, failed) != 2)
			fputs(line, stderr);
	return WEXITSTATUS(pclose(p));
}

ParameterizedTestParameters(e2e_corpus, interpreted)
{
	static int first[CHUNKS];

	for (int i = 0; i < CHUNKS; i++)
		first[i] = i * CHUNK;
	return cr_make_param_array(int, first, CHUNKS);
}

ParameterizedTest(int *first, e2e_corpus, interpreted)
{
	unsigned passed, failed;
	char arguments[60];
	int rc;

	snprintf(arguments, sizeof(arguments), "%d %d any 0", *first, CHUNK);
	rc = corpus(arguments, &passed, &failed);
	cr_assert(rc == 0 && passed == CHUNK && !failed, "%u passed, %u failed, exit %d", passed,
		  failed, rc);
}

Test(e2e_corpus, compiled)
{
	unsigned passed, failed;
	char arguments[60];
	int rc;

	snprintf(arguments, sizeof(arguments), "1000 %d 2 '0 2 3' small", COMPILED);
	rc = corpus(arguments, &passed, &failed);
	cr_assert(rc == 0 && passed == 3 * COMPILED && !failed, "%u passed, %u failed, exit %d",
		  passed, failed, rc);
}

/* The comparison notices: kernels of one seed against the host's of another. */
Test(e2e_corpus, notices_differences)
{
	static const char command[] =
		"d=build/tests/corpus; mkdir -p $d && "
		"for s in 1 2; do build/tests/corpus_gen $s 1 small | sed "
		"'s/KERNEL('$s',/KERNEL(1,/;s/K('$s')/K(1)/' > $d/n$s.c; done && "
		"clang-19 -std=gnu11 -w -O1 -ffp-contract=off -Xclang "
		"-ffloat16-excess-precision=none -march=x86-64-v3 -shared -fPIC -Itests/corpus "
		"$d/n1.c -o $d/n1.so && "
		"clang-19 -std=gnu11 -w -O1 -ffp-contract=off -target amdgcn-amd-amdhsa "
		"-mcpu=gfx1151 -nogpulib -ffreestanding -mcode-object-version=5 -Itests/corpus "
		"-c $d/n2.c -o $d/n2.o && ld.lld-19 -shared $d/n2.o -o $d/n2.co && "
		"build/barewave vgpu -- build/tests/corpus_run $d/n1.so $d/n2.co";
	char line[400], last[400] = "";
	FILE *p = popen(command, "r");

	cr_assert(p);
	while (fgets(line, sizeof(line), p))
		strcpy(last, line);
	cr_assert(WEXITSTATUS(pclose(p)) == 1);
	cr_assert_str_eq(last, "0 passed, 1 failed\n");
}
