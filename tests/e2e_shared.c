/* Several programs on one virtual device, as a person starts them: barewave vgpu --shared. */
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/shell.h"

#define SHARED BAREWAVE " vgpu --shared=%s/gpu"
#define STORY                                                                                      \
	BAREWAVE " run -m data/demo/story-4m-q8_0.gguf -p 'Once upon a time' -n 24 --temp 0 "      \
		 "2>/dev/null | head -1"

TestSuite(shared, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

static bool gone(const char *name)
{
	const struct timespec nap = {.tv_nsec = 10000000};
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (unsigned i = 0; i < 10000 && !access(path, F_OK); i++)
		nanosleep(&nap, NULL);
	return access(path, F_OK) != 0;
}

/* Three at once say what one alone says; the daemon comes with the first and goes with the last. */
Test(shared, the_demo_three_times_at_once)
{
	struct result alone = shell(BAREWAVE " vgpu -- sh -c \"%s\"", STORY), r;
	char socket[256];
	struct stat st;
	char *line, *save = NULL;
	unsigned n = 0;

	cr_assert_gt(strlen(alone.out), 40u);
	snprintf(socket, sizeof(socket), "%s/gpu", dir);
	r = shell("for i in 1 2 3; do " SHARED " -- sh -c \"test -S %s && %s\" & done; wait", dir,
		  socket, STORY);
	alone.out[strcspn(alone.out, "\n")] = '\0';
	for (line = strtok_r(r.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++)
		cr_expect_str_eq(line, alone.out);
	cr_expect_eq(n, 3u);
	cr_expect(gone("gpu"), "the daemon outlives its last client");
	cr_expect(stat(socket, &st));
	free(r.out);
	free(alone.out);
}

/* A program that begins by closing all descriptors there may be is a program of the device still. */
Test(shared, closes_everything_first)
{
	struct result r = shell(
		SHARED " -- bash -c 'for ((i = 3; i < 1100; i++)); do eval \"exec $i>&-\"; done;"
		       " sleep 0.3; exec " BAREWAVE " info' 2>&1",
		dir);

	cr_expect_eq(r.status, 0, "%s", r.out);
	cr_expect(strstr(r.out, "compute units                40\n"), "%s", r.out);
	free(r.out);
	cr_expect(gone("gpu"), "the daemon outlives its last client");
}

/* One to itself: the second program finds what the first one's settings made, and its memory. */
Test(shared, one_device)
{
	struct result a, b;

	expect(0, "", SHARED " --set cus=32 --daemon 2>&1", dir);
	a = shell("stat -c %%a %s/gpu", dir);
	cr_expect_str_eq(a.out, "600\n");
	free(a.out);
	a = shell(SHARED " -- " BAREWAVE " info", dir);
	cr_expect_eq(a.status, 0);
	cr_expect(strstr(a.out, "compute units                32\n"), "%s", a.out);
	free(a.out);
	expect(1, "the shared device has another value",
	       SHARED " --set cus=40 -- " BAREWAVE " info 2>&1", dir);
	/* A program that looks at another one. */
	b = shell(SHARED " -- sh -c '" BAREWAVE
			 " run -m data/demo/story-4m-q8_0.gguf -p Once -n 500 --temp 1 --seed 3"
			 " >/dev/null 2>&1 & run=$!;"
			 "while ! test -s /sys/class/kfd/kfd/proc/$run/queues/0/size; do"
			 " sleep 0.05; done;" BAREWAVE
			 " mem --pid $run; kill -9 $run; wait $run 2>/dev/null'",
		  dir);
	cr_expect(strstr(b.out, "fdinfo drm-memory-gtt "), "%s", b.out);
	cr_expect(strstr(b.out, "queues      KFD sysfs                             1\n"), "%s",
		  b.out);
	cr_expect_null(strstr(b.out, "unknown (no descriptor"), "%s", b.out);
	free(b.out);
	a = shell(SHARED " --status", dir);
	cr_expect(strstr(a.out, "\"clients\": 0, \"kfd_processes\": 0, \"bos\": 0"), "%s", a.out);
	free(a.out);
	expect(0, "", SHARED " --stop", dir);
	cr_expect(gone("gpu"));
}

Test(shared, refusals)
{
	refused("no daemon", SHARED " --status 2>&1", dir);
	refused("no daemon", SHARED " --stop 2>&1", dir);
	expect(2, "--status is for a device that is shared", BAREWAVE " vgpu --status 2>&1");
	expect(2, "runs no program", SHARED " --daemon -- true 2>&1", dir);
	expect(2, "no program to run", SHARED " 2>&1", dir);
	/* What is wrong with the description is said where it was given. */
	expect(1, "not a value for this key", SHARED " --set cus=1000 --daemon 2>&1", dir);
	expect(1, "cannot start the daemon", SHARED " --set cus=1000 -- true 2>&1", dir);
	expect(1, "nothing.here: ", SHARED " -- nothing.here 2>&1", dir);
	cr_expect(gone("gpu"));
	/* No daemon where one was expected. */
	expect(1, "no shared device at",
	       "VGPU_SHARED=%s/none " BAREWAVE " vgpu -- " BAREWAVE " info 2>&1", dir);
}
