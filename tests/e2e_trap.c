/* Programs that do not go through libc, on the virtual device behind seccomp: barewave vgpu --trap.
 *
 * The client (tests/trap) exists four times: linked statically, as a static PIE, without a libc, and
 * dynamically with system calls of its own. Each part of it is run three ways: under the trap, where
 * it must succeed; preloaded, and alone, where it must find no device. */
#include "tests/shell.h"

TestSuite(trap, .init = shell_setup, .fini = shell_teardown, .timeout = 900);

static const char *const clients[] = {"static", "pie", "bare", "raw"};

#define TRAP BAREWAVE " vgpu --trap -- "

/* One JSON object for each process that used the device, all clean. */
static void expect_clean(unsigned processes)
{
	char text[16384];
	size_t n = load("stats", text, sizeof(text) - 1);
	unsigned clean = 0;

	text[n] = 0;
	for (const char *s = text; (s = strstr(s, "\"clean\": true")); s++)
		clean++;
	cr_assert_eq(clean, processes, "%u clean of %u wanted: %s", clean, processes, text);
	cr_assert_eq(lines(text), processes, "%s", text);
}

static void part(const char *name, unsigned processes)
{
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		struct result r = shell("rm -f %s/stats; VGPU_STATS=%s/stats timeout 300 " TRAP
					"build/tests/trap_%s %s 2>&1",
					dir, dir, clients[i], name);

		cr_assert_eq(r.status, 0, "trap_%s %s: status %d: %s", clients[i], name, r.status,
			     r.out);
		cr_assert_eq(r.len, 0u, "trap_%s %s: %s", clients[i], name, r.out);
		free(r.out);
		expect_clean(processes);
		/* The device is the trap's doing. */
		expect(2, "no /dev/kfd", "build/tests/trap_%s %s 2>&1", clients[i], name);
	}
	/* Preloading reaches none that has no loader, or that goes around its libc. */
	expect(2, "no /dev/kfd", BAREWAVE " vgpu -- build/tests/trap_bare %s 2>&1", name);
	expect(2, "no /dev/kfd", BAREWAVE " vgpu -- build/tests/trap_static %s 2>&1", name);
	expect(2, "no /dev/kfd", BAREWAVE " vgpu -- build/tests/trap_raw %s 2>&1", name);
}

/* Topology, memory, queue, twenty dispatches with an event, teardown. */
Test(trap, dispatch)
{
	part("gpu", 1);
}

/* On stacks of one page, where the client makes its own. */
Test(trap, threads)
{
	part("threads", 1);
}

Test(trap, fork)
{
	part("fork", 2);
}

Test(trap, exec)
{
	part("exec", 4);
}

Test(trap, vfork)
{
	part("vfork", 2);
}

/* Interrupted and restarted waits, masks, SIGSYS of the client's own. */
Test(trap, signals)
{
	part("signals", 1);
}

Test(trap, alternate_stack)
{
	part("altstack", 1);
}

Test(trap, seccomp_of_the_client)
{
	part("seccomp", 1);
}

/* What a process finds out about itself is the same with the trap and without. */
Test(trap, self)
{
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		const char *c = clients[i];

		expect(0, "",
		       "build/tests/trap_%s self build/tests/trap_%s $PWD/build/tests/trap_%s 2>&1",
		       c, c, c);
		expect(0, "",
		       TRAP "build/tests/trap_%s self build/tests/trap_%s "
			    "$PWD/build/tests/trap_%s 2>&1",
		       c, c, c);
	}
}

/* Runs the command with and without; output and status must be the same. */
static void same(const char *command)
{
	struct result a, b;
	char cwd[2048];

	cr_assert(getcwd(cwd, sizeof(cwd)));
	/* The shell too, and all that it starts. */
	save("command", command, strlen(command));
	a = shell("cd %s && /bin/sh ./command 2>&1", dir);
	b = shell("cd %s && %s/" TRAP "/bin/sh ./command 2>&1", dir, cwd);
	cr_assert_eq(a.status, b.status, "%s: status %d, trapped %d: %s", command, a.status,
		     b.status, b.out);
	cr_assert_str_eq(a.out, b.out, "%s", command);
	free(a.out);
	free(b.out);
}

static void bystanders(const char *prefix)
{
	static const char *const commands[] = {
		"%s ls -l /proc/self/fd | %s wc -l",
		"%s seq 1 2000 | %s sort -r | %s head -n 20",
		"%s find /etc -maxdepth 1 -name 'host*' | %s sort",
		"%s tar cf - /etc/hostname 2>/dev/null | %s tar tf -",
		"%s sed -n '/root/p' /etc/passwd; %s grep -c : /etc/passwd",
		"%s dd if=/dev/zero bs=4096 count=50 2>/dev/null | %s md5sum",
		"%s mkdir -p a/b; %s touch a/b/c; %s cp -r a d; %s find d | %s sort; %s rm -r a d",
		"%s cat /etc/passwd | %s cut -d: -f1 | %s tr a-z A-Z",
		"%s stat -c %%F /dev/null; %s readlink /proc/self/cwd | %s wc -w",
		"%s sleep 0.05 & wait $!; echo $?",
		"%s env A=b %s printenv A; %s false; echo $?",
		"%s timeout 0.1 %s sleep 5; echo $?",
		"%s sh -c 'trap \"echo caught\" USR1; kill -USR1 $$; echo after; exit 3'; echo $?",
		"%s sh -c 'kill -9 $$'; echo $?",
		"%s sh -c '%s nonexistent_program'; echo $?",
		"echo 'echo script $1' > s; %s sh ./s word; %s id -u",
	};
	char command[512];

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		char *o = command;

		for (const char *s = commands[i]; *s; s++) {
			if (s[0] == '%' && s[1] == 's') {
				o += sprintf(o, "%s", prefix);
				s++;
			} else {
				if (s[0] == '%' && s[1] == '%')
					s++;
				*o++ = *s;
			}
		}
		*o = 0;
		same(command);
	}
}

/* Programs that use no GPU: dynamic ones, */
Test(trap, bystanders)
{
	bystanders("");
}

/* static ones, */
Test(trap, busybox)
{
	if (access("/bin/busybox", X_OK) && access("/usr/bin/busybox", X_OK)) {
		printf("SKIP: trap.busybox: no busybox (package busybox-static)\n");
		return;
	}
	bystanders("busybox");
}

/* and scripts, whose interpreters are started by name. */
Test(trap, scripts)
{
	same("printf '#!/bin/sh -e\\necho $0 $1 $2\\nfalse\\necho no\\n' > s; chmod +x s; ./s a b; "
	     "echo $?; printf '#!./s x\\n' > t; chmod +x t; ./t c; echo $?; printf '#!/none\\n' > "
	     "u; "
	     "chmod +x u; ./u; echo $?; echo plain > v; chmod +x v; ./v 2>/dev/null; echo $?");
	save("script", "#!/bin/sh\nls /dev/kfd; echo $0 $*\n", 34);
	expect(0, "/dev/kfd\n", "chmod +x %s/script && " TRAP "%s/script a b", dir, dir);
	expect(0, "/script a b\n", TRAP "%s/script a b", dir);
}

#define DEMO                                                                                       \
	"run --device=%s -m data/demo/story-4m-q8_0.gguf -p 'Once upon a time' -n 12 --seed 7 "    \
	"--temp 0.7 2>/dev/null"

/* The engine: preloaded and trapped, interpreted and compiled, the same words. */
Test(trap, demo)
{
	struct result a = shell(BAREWAVE " " DEMO, "virt"),
		      b = shell(TRAP BAREWAVE " " DEMO, "/dev/kfd"), c;

	cr_assert_eq(a.status, 0);
	cr_assert_eq(b.status, 0);
	/* The words; the sizes and times are below. */
	*strstr(a.out, "bytes by owner") = *strstr(b.out, "bytes by owner") = 0;
	cr_assert(strlen(a.out) > 20);
	cr_assert_str_eq(a.out, b.out);
	/* The compiler is executed under the filter too. */
	c = shell("VGPU_JIT_CACHE= VGPU_JIT_LOG=1 VGPU_SET=jit=1 " BAREWAVE
		  " vgpu --trap -- build/tests/trap_bare gpu 2>&1");
	cr_assert_eq(c.status, 0, "%s", c.out);
	c = shell("VGPU_JIT_CACHE= VGPU_JIT_LOG=1 VGPU_SET=jit=2 " BAREWAVE
		  " vgpu --trap -- build/tests/trap_bare gpu 2>&1");
	cr_assert_eq(c.status, 0, "%s", c.out);
	cr_assert(strstr(c.out, "compiled"), "%s", c.out);
	cr_assert(!strstr(c.out, "cannot be started"), "%s", c.out);
}

/* The driver's own tests, some with kernels that fail: they fork, and say what went wrong. Without
 * what this test's own sandbox leaves in the environment. */
Test(trap, driver)
{
	expect(0, "Failing: 0 | Crashing: 0",
	       "env -u BXFI_MAP " TRAP "build/tests/virt_driver --color=never 2>&1");
	expect(0, "Failing: 0 | Crashing: 0",
	       "env -u BXFI_MAP " TRAP "build/tests/virt_wave --color=never 2>&1");
	expect(0, "Failing: 0 | Crashing: 0",
	       "env -u BXFI_MAP " TRAP "build/tests/virt_files --color=never 2>&1");
	/* A child that has not opened the device gets descriptors of it; one of vfork() has its own, and the
	 * device has some that are nobody else's. */
	expect(0, "Tested: 3 | Passing: 3",
	       "env -u BXFI_MAP " TRAP "build/tests/virt_exec --color=never "
	       "--filter '*/@(through_a_socket|vfork_has_its_own|closes_all*)' 2>&1");
}

/* Runs as it would, and the log says that it sees no device. */
Test(trap, other_architecture)
{
	struct result r = shell("build/tests/trap_i386; echo $?");

	if (strcmp(r.out, "7\n")) {
		printf("SKIP: trap.other_architecture: this kernel runs no i386 programs\n");
		free(r.out);
		return;
	}
	free(r.out);
	expect(7, "", "VGPU_LOG=%s/log " TRAP "sh -c build/tests/trap_i386", dir);
	expect(0, "trap_i386: not x86-64, runs without the virtual device", "cat %s/log", dir);
	expect(127, "not an x86-64 program", TRAP "build/tests/trap_i386 2>&1");
}

/* One device for a static program and a preloaded one. */
Test(trap, shared)
{
	expect(0, "", BAREWAVE " vgpu --shared=%s/socket --trap -- build/tests/trap_bare fork 2>&1",
	       dir);
	expect(0, "0x85e3",
	       BAREWAVE " vgpu --shared=%s/socket --trap -- sh -c 'build/tests/trap_static gpu && "
			"build/tests/trap_bare fork && " BAREWAVE " info' 2>&1",
	       dir);
}

Test(trap, refusals)
{
	refused("nonexistent_program: No such file",
		BAREWAVE " vgpu --trap -- nonexistent_program 2>&1");
	refused("/etc/passwd: Permission denied", BAREWAVE " vgpu --trap -- /etc/passwd 2>&1");
	save("text", "not a program\n", 14);
	expect(127, "text: Exec format error", "chmod +x %s/text; " TRAP "%s/text 2>&1", dir, dir);
	expect(2, "Usage: vgpu-trap", "build/vgpu-trap 2>&1");
}

/* ---- a client with ThreadSanitizer ------------------------------------------- */

static void sanitized(const char *how, const char *name, int status, const char *says)
{
	struct result r = shell("%s timeout 300 " BAREWAVE " vgpu %s build/tests/trap_tsan %s 2>&1",
				strchr(how, '=') ? how : "", strchr(how, '=') ? "--" : how, name);

	cr_assert_eq(!!r.status, status, "%s %s: status %d: %s", how, name, r.status, r.out);
	if (says)
		cr_assert(strstr(r.out, says), "%s %s: %s", how, name, r.out);
	else
		cr_assert_eq(r.len, 0u, "%s %s: %s", how, name, r.out);
	free(r.out);
}

/* Nothing to report of the device's threads; a forked child may have them if the sanitizer lets it. */
Test(trap, client_with_thread_sanitizer)
{
	static const char *const parts[] = {"gpu", "exec", "signals"};

	for (unsigned i = 0; i < 3; i++) {
		sanitized("--", parts[i], 0, NULL);
		sanitized("--trap --", parts[i], 0, NULL);
	}
	sanitized("--", "fork", 1,
		  "TSAN_OPTIONS=die_after_fork=0, or run the program with barewave "
		  "vgpu --trap");
	sanitized("TSAN_OPTIONS=die_after_fork=0", "fork", 0, NULL);
	sanitized("--trap --", "fork", 0, NULL);
}
