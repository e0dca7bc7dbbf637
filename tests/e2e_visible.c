/* The visibility checker on a client with planted mistakes (tests/visible/client.c), and on what has
 * none. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <jansson.h>
#include <linux/userfaultfd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/json_file.h"
#include "tests/shell.h"

#define RUNS   12
#define CLIENT "build/tests/visible_client"

/* What the checker stands on: see tools/vgpu/check/pages.c. */
static bool possible(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), dev = -1;
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
	bool ok;

	if (fd < 0) {
		dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
		fd = dev < 0 ? -1 : ioctl(dev, _IO(0xaa, 0), O_CLOEXEC);
	}
	ok = fd >= 0 && !ioctl(fd, UFFDIO_API, &api);
	if (dev >= 0)
		close(dev);
	if (fd >= 0)
		close(fd);
	return ok;
}

static void needed(void)
{
	if (!possible())
		SKIP("e2e_visible", "no userfaultfd for shared memory (Linux 5.19, as root or with "
				    "/dev/userfaultfd)");
}

TestSuite(visible, .init = shell_setup, .fini = shell_teardown, .timeout = 600);

/* The device's own report of one run; *address is what the client says it touched. */
static json_t *run(const char *which, unsigned seed, char address[32])
{
	struct result r =
		shell("rm -f %s/v.json; VGPU_SET=check=visibility VGPU_CHECK=%s/v.json " BAREWAVE
		      " vgpu -- " CLIENT " %s %u 2>%s/said",
		      dir, dir, which, seed, dir);
	char path[256];
	json_t *o;

	cr_assert_eq(r.status, 0, "%s %u: status %d", which, seed, r.status);
	snprintf(address, 32, "%.*s", (int)strcspn(r.out, "\n"), r.out);
	free(r.out);
	snprintf(path, sizeof(path), "%s/v.json", dir);
	o = json_load_file(path, 0, NULL);
	cr_assert(o, "no report");
	cr_assert(json_is_true(json_object_get(o, "checked")));
	return o;
}

static const char *text(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

static long long number(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

struct planted {
	const char *which, *kind, *buffer, *place;
};

/* One finding, of this kind, with the buffer, the byte, the work and the function. */
static bool is_found(const json_t *o, const struct planted *p, const char *address)
{
	const json_t *all = json_object_get(o, "findings"), *f = json_array_get(all, 0);
	const json_t *work = json_object_get(f, "work");

	return number(o, "found") == 1 && json_array_size(all) == 1 &&
	       !strcmp(text(f, "kind"), p->kind) && !strcmp(text(f, "buffer"), p->buffer) &&
	       !strcmp(text(f, "host_address"), address) && !strcmp(text(f, "va"), address) &&
	       strstr(text(f, "place"), p->place) &&
	       (json_object_get(work, "operation") || *text(work, "code_hash"));
}

Test(visible, planted_mistakes_are_found_by_name)
{
	static const struct planted planted[] = {
		{"early-read", "read_before_publication", "sum", "look"},
		{"early-read-uncached", "read_before_publication", "sum", "look"},
		{"early-read-system-call", "read_before_publication", "sum", ""},
		{"early-read-copy", "read_before_publication", "sum", "look"},
		{"early-write", "write_in_flight", "left", "put"},
		{"early-write-uncached", "write_in_flight", "left", "put"},
		{"early-write-second", "write_in_flight", "left", "put"},
		{"no-release", "read_without_release", "sum", "look"},
		{"no-acquire", "write_without_acquire", "left", "put"},
	};
	const unsigned n = sizeof(planted) / sizeof(planted[0]);
	unsigned all = 0;
	char address[32];

	needed();
	for (unsigned i = 0; i < n; i++) {
		unsigned found = 0;

		for (unsigned s = 0; s < RUNS; s++) {
			json_t *o = run(planted[i].which, s, address);
			bool ok = is_found(o, &planted[i], address);
			char *dump = ok ? NULL : json_dumps(o, 0);

			cr_expect(ok, "%s %u at %s: %s", planted[i].which, s, address, dump);
			free(dump);
			found += ok;
			json_decref(o);
		}
		printf("%s: found in %u of %u runs\n", planted[i].which, found, RUNS);
		all += found;
	}
	/* Clopper and Pearson's lower limit when every run succeeds. */
	if (all == n * RUNS)
		printf("planted mistakes found by kind, buffer, byte and function: %u of %u runs, "
		       "100 %% (95 %% interval: %.1f to 100 %%)\n",
		       all, n * RUNS, 100 * pow(0.025, 1.0 / (n * RUNS)));
}

Test(visible, correct_clients_are_not_accused)
{
	static const char *const right[] = {
		"right",         "right-uncached", "right-index",        "right-copy",
		"right-counter", "right-beside",   "no-release-uncached"};
	unsigned runs = 0;
	char address[32];

	needed();
	for (unsigned i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		for (unsigned s = 0; s < RUNS; s++, runs++) {
			json_t *o = run(right[i], s, address);
			char *dump = json_dumps(o, 0);

			cr_expect_eq(number(o, "found"), 0, "%s %u: %s", right[i], s, dump);
			cr_expect_gt(number(o, "traps"), 0);
			cr_expect_gt(number(o, "works"), 0);
			free(dump);
			json_decref(o);
		}
	printf("correct clients: 0 findings in %u runs\n", runs);
}

/* What cannot be seen is counted. */
Test(visible, reads_that_may_go_on)
{
	char address[32];
	json_t *o;

	needed();
	o = run("read-beside", 1, address);
	cr_expect_eq(number(o, "found"), 0);
	cr_expect_eq(number(o, "reads_beside"), 1);
	json_decref(o);
	o = run("right", 1, address);
	cr_expect_eq(number(o, "reads_beside"), 0);
	json_decref(o);
}

Test(visible, the_demo_has_none)
{
	needed();
	/* staging by copy engine and by kernel, a node on the CPU: all ways to share memory */
	expect(0, "visibility, findings: 0;",
	       BAREWAVE " run --device=virt --check visibility -m data/demo/story-4m-q4_k_m.gguf"
			" -n 3 -p Once 2>&1");
	expect(0, "visibility, findings: 0;",
	       BAREWAVE " run --device=virt --check=visibility -m data/demo/story-4m-q8_0.gguf"
			" -n 2 -p Once --copy sdma --staging 1 --disable rmsnorm 2>&1");
	expect(0, "visibility, findings: 0;",
	       BAREWAVE " run --device=virt --check visibility -m data/demo/story-4m-q8_0.gguf"
			" -n 2 -p Once --copy kernel --staging 1 2>&1");
}

Test(visible, from_the_command_line)
{
	struct result r;

	needed();
	r = shell(BAREWAVE " vgpu --check visibility -- " CLIENT " early-read 1 2>&1");
	cr_assert_eq(r.status, 1, "%d: %s", r.status, r.out);
	cr_expect(strstr(r.out, "host read before publication: 0x"), "%s", r.out);
	cr_expect(strstr(r.out, "of \"sum\" (0x4000 bytes at 0x"), "%s", r.out);
	cr_expect(strstr(r.out, "dispatch packet 0 of queue 0"), "%s", r.out);
	cr_expect(strstr(r.out, " (look+0x"), "%s", r.out);
	cr_expect(strstr(r.out, "visibility, findings: 1;"), "%s", r.out);
	free(r.out);
	/* and where the report goes can still be said: with the kernel's name in it */
	expect(0, "\"kind\": \"read_before_publication\"",
	       "VGPU_CHECK=%s/mine " BAREWAVE " vgpu --check visibility -- " CLIENT
	       " early-read 1 >/dev/null 2>&1; cat %s/mine",
	       dir, dir);
	expect(0, "findings: 0;",
	       BAREWAVE " launch --device=virt --check visibility "
			"tests/data/bench-kernels/vecadd.co vecadd --grid 16 --block 256"
			" --arg zero:16384 --arg zero:16384 --arg zero:16384 --arg u32:4096 2>&1");
}

Test(visible, refusals)
{
	expect(2, "wanted --device=virt",
	       BAREWAVE " run --check visibility -m data/demo/story-4m-q8_0.gguf -p x 2>&1");
	expect(2, "wanted visibility",
	       BAREWAVE
	       " run --device=virt --check races -m data/demo/story-4m-q8_0.gguf -p x 2>&1");
	expect(2, "wanted visibility", BAREWAVE " vgpu --check races -- true 2>&1");
	refused("has not used the device", BAREWAVE " vgpu --check visibility -- true 2>&1");
	expect(0, "check = races",
	       "VGPU_SET=check=races " BAREWAVE
	       " vgpu -- sh -c 'exec 3</dev/kfd; true' 2>&1; true");
}
