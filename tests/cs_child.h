/* Tests of submission: each is a child with a device of its own, which must have nothing left when it
 * ends.
 */
#ifndef TESTS_CS_CHILD_H
#define TESTS_CS_CHILD_H

#include <criterion/criterion.h>

#include "cs_client.h"

/* The child's exit status, and whether its statistics say clean. */
static int run(const char *set, void (*fn)(void))
{
	char stats[] = "/tmp/virt_cs.XXXXXX", text[4096] = "";
	int status = 0, sfd = mkstemp(stats);
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid) {
		setenv("VGPU_SET", set, 1);
		setenv("VGPU_STATS", stats, 1);
		fn();
		fflush(stderr);
		exit(failures ? 1 : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_geq(read(sfd, text, sizeof(text) - 1), 0);
	close(sfd);
	unlink(stats);
	/* Behind --trap the settings are those that the program began with, and nothing is written. */
	if (strstr(getenv("LD_PRELOAD") ?: "", "libvgpu"))
		cr_expect(strstr(text, "\"clean\": true"), "left behind: %s", text);
	return status;
}

#define IN_CHILD(name, set)                                                                        \
	static void name##_body(void);                                                             \
	Test(submit, name, .timeout = 300)                                                         \
	{                                                                                          \
		cr_assert_eq(run(set, name##_body), 0);                                            \
	}                                                                                          \
	static void name##_body(void)

#endif
