/* What documents say of the program and of each other: man pages against --help, links, and no
 * word of anybody's machine. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shell.h"

TestSuite(docs, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

/* The options in a text, one per line, sorted: of --help, or of a page's .It lines. */
static char *options(const char *command)
{
	return shell("%s | grep -oE -- '-?-[a-z][a-z0-9-]+' | sed 's/^-*//' | sort -u", command)
		.out;
}

Test(docs, man_pages_have_the_options)
{
	struct result list = shell(BAREWAVE " --help | sed -n 's/^  \\([a-z][a-z]*\\)  .*/\\1/p'");
	unsigned n = 0;
	char *save = NULL;

	for (char *c = strtok_r(list.out, "\n", &save); c; c = strtok_r(NULL, "\n", &save), n++) {
		char command[256], *help, *page;

		/* options begin their lines there, or follow "-x, " */
		snprintf(command, sizeof(command),
			 BAREWAVE " %s --help | grep -oE '^  (-[a-z], )?--[a-z0-9-]+'", c);
		help = options(command);
		snprintf(command, sizeof(command),
			 "grep -oE '^\\.It Fl ([a-z] , )?-[a-z0-9-]+' docs/man/barewave-%s.1", c);
		page = options(command);
		cr_expect_str_eq(page, help, "docs/man/barewave-%s.1 has\n%s--help has\n%s", c,
				 page, help);
		cr_expect(strstr(help, "help\n"), "%s", help);
		expect(0, "1", "grep -c 'Xr barewave-%s 1' docs/man/barewave.1", c);
		free(help);
		free(page);
	}
	cr_assert_geq(n, 5u);
	free(list.out);
}

/* Every relative link of every Markdown file leads to a file. */
Test(docs, links_lead_somewhere)
{
	struct result r =
		shell("git ls-files '*.md' | while read -r f; do"
		      " grep -oE '\\]\\([^)#: ]+' \"$f\" | sed 's/^](//' |"
		      " while read -r l; do echo link;"
		      " test -e \"$(dirname \"$f\")/$l\" || echo \"BAD $f: $l\"; done; done");

	cr_assert(strstr(r.out, "link"), "%s", r.out);
	cr_assert_null(strstr(r.out, "BAD"), "%s", r.out);
	free(r.out);
}

Test(docs, make_help_lists_the_targets)
{
	static const char *const targets[] = {"demo", "check", "format", "lint", "clean", "help"};

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct result r = shell("make -s help | grep -cE '^%s +[a-z]'", targets[i]);

		cr_expect_eq(strtol(r.out, NULL, 10), 1, "%s", targets[i]);
		free(r.out);
	}
}
