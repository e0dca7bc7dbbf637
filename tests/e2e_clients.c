/* The scripts that judge other people's clients. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/shell.h"

TestSuite(clients, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

Test(clients, verdicts_of_a_log)
{
	static const char quiet[] = "test_a (test.test_os.A.test_a) ... ok\n"
				    "testB (test.test_os.A.testB)\n"
				    "What it is about. ... skipped 'no @test_17_tmp here'\n"
				    "== test_c passed in 3 sec\n"
				    "test_c (test.test_os.A.test_c) ... FAIL\n";
	static const char busy[] = "test_a (test.test_os.A.test_a) ... Executing <Task running at "
				   "test_os.py:3436> took 0.130 seconds\n"
				   "ok\n"
				   "testB (test.test_os.A.testB)\n"
				   "What it is about. ... skipped 'no @test_4242_tmp here'\n"
				   "ok\n"
				   "test_c (test.test_os.A.test_c) ... one line\n"
				   "another ... FAIL\n";
	static const char want[] = "test_a (test.test_os.A.test_a) ok\n"
				   "testB (test.test_os.A.testB) skipped 'no @test_N_tmp here'\n"
				   "test_c (test.test_os.A.test_c) FAIL\n";

	save("quiet", quiet, strlen(quiet));
	save("busy", busy, strlen(busy));
	expect(0, want, "awk -f tests/clients/verdicts.awk %s/quiet", dir);
	expect(0, want, "awk -f tests/clients/verdicts.awk %s/busy", dir);
}
