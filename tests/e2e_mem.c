/* barewave mem and plan, and the promises of a run: as planned, once, returned. */
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/shell.h"

#define DEMO "data/demo/story-4m-q8_0.gguf"

/* Runs this short are over before compiled code is worth its while. */
static void setup(void)
{
	setenv("VGPU_SET", "jit=0", 1);
	shell_setup();
}

TestSuite(mem, .init = setup, .fini = shell_teardown, .timeout = 600);

static json_t *json_of(const struct result *r)
{
	json_error_t e;
	json_t *j = json_loads(r->out, 0, &e);

	cr_assert(j, "%s in: %s", e.text, r->out);
	return j;
}

static json_int_t number(const json_t *o, const char *key)
{
	cr_assert(json_is_integer(json_object_get(o, key)), "%s", key);
	return json_integer_value(json_object_get(o, key));
}

Test(mem, a_saved_ledger)
{
	struct result r = shell(BAREWAVE " run --device=virt -m " DEMO " -p Once -n 4 --ledger %s/l"
					 " 2>&1",
				dir);
	json_t *j, *l, *owner;
	size_t i;
	bool kv = false;

	cr_assert_eq(r.status, 0, "%s", r.out);
	free(r.out);
	r = shell(BAREWAVE " mem --ledger %s/l --json --svg %s/p.svg --html %s/p.html", dir, dir,
		  dir);
	cr_assert_eq(r.status, 0, "%s", r.out);
	j = json_of(&r);
	l = json_object_get(j, "ledger");
	cr_assert(l);
	cr_expect_gt(number(l, "things"), 40, "one for each weight");
	cr_expect_eq(number(l, "duplicate_count"), 0, "a weight is resident twice");
	json_array_foreach(json_object_get(l, "owners"), i, owner)
	{
		if (strcmp(json_string_value(json_object_get(owner, "owner")), "kv"))
			continue;
		kv = true;
		cr_expect(number(owner, "live") > 0 &&
			  number(owner, "peak") == number(owner, "live"));
		cr_expect_eq(number(owner, "written_never_read"), 0);
		cr_expect_eq(number(owner, "use_unknown"), 0);
	}
	cr_expect(kv);
	cr_expect_gt(json_array_size(json_object_get(l, "map")), 10);
	cr_expect_null(json_object_get(j, "kernel"));
	json_decref(j);
	free(r.out);
	expect(0, "xmlns=\"http://www.w3.org/2000/svg\"", "head -c 200 %s/p.svg", dir);
	expect(0, "transient:activations", "cat %s/p.html", dir);
	expect(0, "resident twice: 0 of ", BAREWAVE " mem --ledger %s/l", dir);
}

#define SMALLEST "the smallest budget that works with this context is "

/* The budget that a refusal names; 0 when the command was not refused. */
static unsigned long smallest(const char *what, unsigned long budget)
{
	struct result r = shell(BAREWAVE " %s --budget %lu 2>&1", what, budget);
	const char *at = strstr(r.out, SMALLEST);
	unsigned long mib = at ? strtoul(at + strlen(SMALLEST), NULL, 10) : 0;

	cr_assert_eq(r.status, at ? 1 : 0, "%s --budget %lu: %s", what, budget, r.out);
	if (at)
		cr_assert(strstr(r.out, "does not fit: budget has") &&
				  strstr(r.out, " for those of 5 blocks in turn + "),
			  "%s", r.out);
	free(r.out);
	return mib;
}

static json_t *by_va(const json_t *list, long long va)
{
	json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
	{
		const char *text = json_string_value(json_object_get(o, "va"));

		if (text && strtoll(text, NULL, 16) == va)
			return o;
	}
	return NULL;
}

/* What the ledger declares of every buffer against what the virtual device has counted. */
static unsigned declared_and_measured(const char *options, unsigned *unknown)
{
	struct result r = shell(BAREWAVE " prof --json -- " BAREWAVE " run --device=virt -m " DEMO
					 " -p Once -n 2 --ledger %s/l %s 2>/dev/null",
				dir, options);
	json_t *prof, *mem, *b, *counted, *uses;
	unsigned agree = 0;
	size_t i;

	cr_assert_eq(r.status, 0, "%s", options);
	prof = json_of(&r);
	counted = json_object_get(json_array_get(json_object_get(prof, "processes"), 0), "buffers");
	cr_assert(counted);
	r = shell(BAREWAVE " mem --ledger %s/l --json", dir);
	mem = json_of(&r);
	json_array_foreach(json_object_get(json_object_get(mem, "ledger"), "map"), i, b)
	{
		const char *owner = json_string_value(json_object_get(b, "owner"));
		json_t *c = by_va(counted, number(b, "va")), *says;

		uses = json_object_get(b, "uses");
		cr_assert(uses);
		for (unsigned w = 0; w < 2; w++) {
			says = json_object_get(uses, w ? "device_writes" : "device_reads");
			if (json_is_null(says)) {
				++*unknown;
				continue;
			}
			cr_assert(c, "%s is not among the counted", owner);
			cr_expect_eq(json_is_true(says),
				     !json_is_true(json_object_get(c, w ? "never_written"
									: "never_read")),
				     "%s (%s): %s declared %d", owner, options,
				     w ? "device writes" : "device reads", json_is_true(says));
			agree++;
		}
	}
	json_decref(prof);
	json_decref(mem);
	return agree;
}

Test(mem, declared_uses_are_what_the_device_measures)
{
	static const char *const options[] = {"", "--copy sdma", "--copy kernel",
					      "--disable rmsnorm", "--redzone kv=64"};
	unsigned agree = 0, unknown = 0;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		agree += declared_and_measured(options[i], &unknown);
	/* And of weights that take turns: whoever loads writes the slot too. */
	for (size_t i = 0; i < 3; i++) {
		char run[128], budget[64];

		snprintf(run, sizeof(run),
			 "run --device=virt -m " DEMO " -p Once -n 2 --staging 1 %s", options[i]);
		snprintf(budget, sizeof(budget), "--staging 1 %s --budget %lu", options[i],
			 smallest(run, 8) + 1);
		agree += declared_and_measured(budget, &unknown);
		expect(0, "weights slot ", BAREWAVE " mem --ledger %s/l", dir);
	}
	cr_expect_gt(agree, 100);
	printf("declared and measured by the device: %u uses agree, %u are unknown\n", agree,
	       unknown);
}

/* A kernel of somebody else's: what it does with its arguments is unknown, not 0. */
Test(mem, a_stranger_kernel_declares_nothing)
{
	struct result r = shell(
		BAREWAVE " launch --device=virt tests/data/bench-kernels/vecadd.co vecadd --grid 16"
			 " --block 256 --arg zero:16384 --arg zero:16384 --arg out:16384:%s/o"
			 " --arg u32:4096 --ledger %s/l && " BAREWAVE " mem --ledger %s/l",
		dir, dir, dir);

	cr_assert_eq(r.status, 0, "%s", r.out);
	/* Of the third the host itself says that it reads what it once wrote. */
	for (unsigned i = 0; i < 3; i++) {
		char want[16];
		const char *line, *end;

		snprintf(want, sizeof(want), "\narg%u ", i);
		line = strstr(r.out, want);
		cr_assert(line, "%s", r.out);
		end = strchr(line + 1, '\n');
		want[0] = '\0';
		snprintf(want, sizeof(want), "%s", i < 2 ? "  unknown" : "  0");
		cr_expect(end && !strncmp(end - strlen(want), want, strlen(want)), "%.120s", line);
	}
	free(r.out);
}

Test(mem, not_a_ledger)
{
	refused("does not start with", BAREWAVE " mem --ledger " DEMO " 2>&1");
	refused("No such file", BAREWAVE " mem --ledger /no/such 2>&1");
	refused("no such process", BAREWAVE " mem --pid 4194304 2>&1");
	expect(2, "wanted one of --pid and --ledger", BAREWAVE " mem 2>&1");
	expect(2, "--trace needs --pid", BAREWAVE " mem --ledger x --trace 1 2>&1");
	refused("nothing to draw", BAREWAVE " mem --pid $$ --svg %s/x 2>&1", dir);
}

/* Any process has a view from outside; what is not there is unknown, not 0. */
Test(mem, a_process_without_a_ledger)
{
	struct result r = shell(BAREWAVE " mem --pid $$ --json");
	json_t *j = json_of(&r), *k = json_object_get(j, "kernel");

	cr_expect(json_is_null(json_object_get(j, "ledger")));
	cr_expect(json_is_null(json_object_get(k, "fdinfo_gtt")));
	cr_expect(json_is_null(json_object_get(k, "kfd_vram")));
	cr_expect(json_is_null(json_object_get(k, "traced_created")));
	json_decref(j);
	free(r.out);
	expect(0, "unknown", BAREWAVE " mem --pid $$");
}

/* Somebody else's process: what may be seen of it is shown, the rest is unknown, and why. */
Test(mem, a_process_of_somebody_else)
{
	struct result r = shell("cp " BAREWAVE " %s/b && chmod 755 %s && as=; "
				"[ $(id -u) != 0 ] || as='setpriv --reuid=65534 --regid=65534 "
				"--clear-groups'; $as %s/b mem --pid 1 --json",
				dir, dir, dir);
	json_t *j;

	cr_assert_eq(r.status, 0, "%s", r.out);
	j = json_of(&r);
	cr_expect(json_is_null(json_object_get(j, "ledger")));
	cr_expect_str_eq(json_string_value(json_object_get(j, "no_ledger")),
			 "/proc/1/fd: Permission denied");
	cr_expect(json_is_object(json_object_get(j, "kernel")));
	json_decref(j);
	free(r.out);
}

/* The ledger of a running process is read while it runs. */
Test(mem, a_running_process)
{
	struct result r = shell("(" BAREWAVE " run --device=virt -m " DEMO
				" -p Once -n 500 --ignore-eos >/dev/null 2>&1 & echo $!; "
				"while kill -0 $!; do " BAREWAVE " mem --pid $! >%s/m && "
				"grep -q '^weights  *4751360' %s/m && break; sleep 0.05; done; "
				"kill $!; cat %s/m) 2>/dev/null",
				dir, dir, dir);

	cr_assert(strstr(r.out, "ledger of process") && strstr(r.out, "difference"), "%s", r.out);
	cr_assert(strstr(r.out, "weights"), "%s", r.out);
	free(r.out);
}

static json_int_t of_owner(const json_t *ledger, const char *name)
{
	json_t *owner;
	size_t i;

	json_array_foreach(json_object_get(ledger, "owners"), i, owner)
	{
		if (!strcmp(json_string_value(json_object_get(owner, "owner")), name))
			return number(owner, "live");
	}
	return 0;
}

/* A process on the virtual device is seen from outside as one on hardware would be: fdinfo, KFD's
 * sysfs and the ledger side by side. They differ by the kernel's own: its trap handler's two pages
 * in GTT, page tables in VRAM; and what was asked for as VRAM is in GTT. */
Test(mem, the_virtual_kernel_seen_from_outside)
{
	struct result r =
		shell(BAREWAVE " run --device=virt -m " DEMO
			       " -p Once -n 500 --ignore-eos --temp 0 >%s/out 2>&1 & p=$!; "
			       "until grep -q 'Once upon' %s/out; do kill -0 $p || break; "
			       "sleep 0.05; done; " BAREWAVE " mem --pid $p >%s/t; " BAREWAVE
			       " mem --pid $p --json; kill $p; wait $p 2>/dev/null",
		      dir, dir, dir);
	json_t *j = json_of(&r), *k = json_object_get(j, "kernel"),
	       *l = json_object_get(j, "ledger");
	json_int_t tables;

	cr_expect(json_is_true(json_object_get(k, "virtual")));
	cr_expect_eq(number(k, "drm_clients"), 1);
	cr_expect_eq(number(k, "kfd_queues"), 1);
	cr_expect_eq(number(k, "fdinfo_gtt"), number(l, "live") + 2 * 4096);
	cr_expect_eq(number(k, "kfd_vram"), of_owner(l, "eop"));
	tables = number(k, "fdinfo_vram");
	json_decref(j);
	free(r.out);
	expect(0, "the virtual gfx1151's kernel's view of process ", "cat %s/t", dir);
	/* Side by side: with what the ledger asked for, and what the kernel has beyond it. */
	expect(0, "12288", "grep 'fdinfo drm-memory-gtt ' %s/t", dir);
	expect(0, "what the kernel has beyond the ledger is its own", "cat %s/t", dir);
	/* As many tables as the plan says. */
	r = shell(BAREWAVE " plan --device=virt -m " DEMO " -c 501 --batch 16 --json");
	j = json_of(&r);
	cr_expect_eq(tables, number(j, "page_table_bytes_unbroken"));
	json_decref(j);
	free(r.out);
	/* Nothing stays behind: of a process that was killed, the next that has the device takes it away.
	 * While one does, others pass on. */
	expect(0, "gone",
	       "p=$(sed -n 's/.*process \\([0-9]*\\), from.*/\\1/p' %s/t); test -n \"$p\" && "
	       "for i in $(seq 600); do ls -d /dev/shm/vgpu-tree.$p.* >/dev/null 2>&1 || "
	       "{ echo gone; break; }; sleep 0.1; " BAREWAVE " info --device=virt >/dev/null; done",
	       dir);
}

/* A copy of another machine's proc and sys: descriptors of one client count once. */
Test(mem, the_kernels_counters)
{
	struct result r = shell(
		"cd %s && mkdir -p proc/77/fd proc/77/fdinfo sys/class/kfd/kfd/proc/77/queues/0 && "
		"for i in 5 6; do printf 'pos:\\t0\\ndrm-driver:\\tamdgpu\\ndrm-client-id:\\t9\\n"
		"drm-memory-vram:\\t8 KiB\\ndrm-memory-gtt: \\t1024 KiB\\ndrm-memory-cpu: \\t0 "
		"KiB\\n'"
		" >proc/77/fdinfo/$i; done && printf 'drm-driver:\\tamdgpu\\ndrm-client-id:\\t10\\n"
		"drm-resident-gtt:\\t2 MiB\\ndrm-resident-vram:\\t0\\n' >proc/77/fdinfo/7 && "
		"printf 'drm-driver:\\ti915\\ndrm-client-id:\\t11\\ndrm-memory-gtt:\\t5 KiB\\n'"
		" >proc/77/fdinfo/8 && printf 4096 >sys/class/kfd/kfd/proc/77/vram_51200",
		dir);
	json_t *j, *k;

	cr_assert_eq(r.status, 0, "%s", r.out);
	free(r.out);
	r = shell(BAREWAVE " mem --pid 77 --root %s --json", dir);
	cr_assert_eq(r.status, 0);
	j = json_of(&r);
	k = json_object_get(j, "kernel");
	cr_expect_eq(number(k, "drm_clients"), 2);
	cr_expect_eq(number(k, "fdinfo_gtt"), (1 << 20) + (2 << 20));
	cr_expect_eq(number(k, "fdinfo_vram"), 8192);
	cr_expect_eq(number(k, "fdinfo_cpu"), 0, "a zero that the kernel says is known");
	cr_expect_eq(number(k, "kfd_vram"), 4096);
	cr_expect_eq(number(k, "kfd_queues"), 1);
	json_decref(j);
	free(r.out);
}

/* The tracepoint: every thread of the process is followed, those to come as well, and what was set up
 * for it is gone afterwards. An instance left by somebody who was killed is taken over. */
Test(mem, the_tracepoint)
{
	struct result r = shell(
		"cd %s && t=sys/kernel/tracing/instances/barewave-77 && "
		"mkdir -p proc/77/fd proc/77/fdinfo proc/77/task/77 proc/77/task/78 $t/options "
		"$t/events/amdgpu/amdgpu_bo_create && echo 5 >$t/set_event_pid && "
		"echo old: amdgpu_bo_create: bo=0, pages=100 >$t/trace && "
		"touch $t/options/event-fork $t/events/amdgpu/amdgpu_bo_create/enable; "
		"cd - >/dev/null; " BAREWAVE " mem --pid 77 --root %s --trace 500 --json & p=$!; "
		"cd %s; until grep -q 1 $t/events/amdgpu/amdgpu_bo_create/enable; do sleep 0.02; "
		"done; for n in 16 4; do echo \"x-78 [0] ..... 1.0: amdgpu_bo_create: bo=000, "
		"pages=$n, type=1\"; done >>$t/trace; kill -TERM $p; wait $p; "
		"cat $t/set_event_pid $t/options/event-fork >set",
		dir, dir, dir);
	json_t *j = json_of(&r), *k = json_object_get(j, "kernel");

	cr_expect_eq(number(k, "traced_created"), 20 * 4096);
	cr_expect_lt(json_real_value(json_object_get(k, "traced_seconds")), 500);
	json_decref(j);
	free(r.out);
	expect(0, "1 77 78", "echo $(sort -n %s/set)", dir);
	/* What was switched on is off again. */
	expect(0, "0",
	       "cat %s/sys/kernel/tracing/instances/barewave-77/events/amdgpu/amdgpu_bo_create/"
	       "enable",
	       dir);
}

/* A ledger that cannot be written is said before the work, and nothing half written stays. */
Test(mem, a_ledger_that_cannot_be_written)
{
	refused("/no/such/l: No such file or directory",
		BAREWAVE " run --device=virt -m " DEMO " --ids 1 -n 1 --ledger /no/such/l 2>&1");
	refused("barewave: /tmp: Is a directory",
		BAREWAVE " run --device=virt -m " DEMO " --ids 1 -n 1 --ledger /tmp 2>&1");
	refused("barewave: : No such file or directory",
		BAREWAVE " run --device=virt -m " DEMO " --ids 1 -n 1 --ledger '' 2>&1");
	refused("/no/such/l: No such file or directory",
		BAREWAVE " launch --device=virt tests/data/bench-kernels/vecadd.co vecadd --grid 16"
			 " --block 256 --arg zero:16384 --arg zero:16384 --arg zero:16384"
			 " --arg u32:4096 --ledger /no/such/l 2>&1");
	/* A disk that is full: a limit on the size of files is the same to the writer. */
	expect(0, "gone",
	       "(trap '' XFSZ; ulimit -f 8; " BAREWAVE " mem --ledger %s/none >/dev/null 2>&1; "
	       "exec " BAREWAVE " run --device=virt -m " DEMO
	       " --ids 1 -n 1 --ledger %s/l >/dev/null 2>&1); test -e %s/l || echo gone",
	       dir, dir, dir);
}

/* Where the bytes begin, what lies beside and inside, and how long it was: for the eye. */
Test(mem, the_map_shows_guards_and_what_lies_inside)
{
	struct result r =
		shell(BAREWAVE " run --device=virt -m " DEMO
			       " -p Once -n 20 --guard end --ledger %s/l >/dev/null && " BAREWAVE
			       " mem --ledger %s/l --inside",
		      dir, dir);
	json_t *j, *l, *last;
	const char *kv;

	cr_assert_eq(r.status, 0, "%s", r.out);
	kv = strstr(r.out, "  io   ");
	cr_assert(kv && strstr(kv, ", first byte at +0x"), "%s", r.out);
	cr_expect(strstr(r.out, "65536  nothing mapped (64.0 KiB)"), "%s", r.out);
	cr_expect(strstr(r.out, "    token_embd.weight\n"), "%s", r.out);
	free(r.out);
	expect(0, "footprint over time, by owner",
	       BAREWAVE " mem --ledger %s/l --svg %s/p.svg >/dev/null && cat %s/p.svg", dir, dir,
	       dir);
	expect(0, "<title>weights</title>", "cat %s/p.svg", dir);
	/* The time of saving is the end, not the last buffer that was made: 20 steps are between. */
	r = shell(BAREWAVE " mem --ledger %s/l --json", dir);
	j = json_of(&r);
	l = json_object_get(j, "ledger");
	last = json_object_get(l, "footprint");
	last = json_array_get(last, json_array_size(last) - 1);
	cr_expect_gt(json_real_value(json_object_get(l, "seconds")),
		     json_real_value(json_array_get(last, 0)) + 0.005);
	json_decref(j);
	free(r.out);
}

/* ---- plan ---- */

/* Without --batch a plan is that of a run; the help and the page say the same number. */
Test(mem, plan_takes_the_steps_of_a_run)
{
	struct result r = shell(BAREWAVE " plan --device=virt -m " DEMO " -c 64 --json");
	json_t *plan = json_of(&r);
	long long batch = number(plan, "batch");
	char text[64];

	snprintf(text, sizeof(text), "taken in one step (default %lld)\n", batch);
	expect(0, text, BAREWAVE " plan --help");
	snprintf(text, sizeof(text), "taken in one step (%lld).\n", batch);
	expect(0, text, "cat docs/man/barewave-plan.1");
	json_decref(plan);
	/* Whose file it is, once. */
	expect(1, "barewave: " DEMO ": batch of 65 tokens asked; a context of 64 takes 1 to 64",
	       BAREWAVE " plan --device=virt -m " DEMO " -c 64 --batch 65 2>&1");
}

Test(mem, plan_and_run_agree_to_the_byte)
{
	static const char *const options[] = {"", "--align 'transient:*=4096'", "--redzone 64"};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct result p =
			shell(BAREWAVE " plan --device=virt -m " DEMO " -c 64 --batch 3 --json %s",
			      options[i]);
		struct result r = shell(BAREWAVE " run --device=virt -m " DEMO
						 " --ids 1,2,3 -n 8 -c 64 --json %s",
					options[i]);
		json_t *plan = json_of(&p), *ran = json_of(&r), *row, *other;
		size_t a, b;

		cr_expect_eq(number(plan, "device_bytes"), number(ran, "planned_bytes"));
		cr_expect_eq(number(ran, "planned_bytes"), number(ran, "measured_peak_bytes"));
		cr_expect_eq(json_array_size(json_object_get(plan, "owners")),
			     json_array_size(json_object_get(ran, "footprint")));
		json_array_foreach(json_object_get(plan, "owners"), a, row)
		{
			const char *name = json_string_value(json_object_get(row, "owner"));
			bool found = false;

			json_array_foreach(json_object_get(ran, "footprint"), b, other)
			{
				if (strcmp(name,
					   json_string_value(json_object_get(other, "owner"))))
					continue;
				found = true;
				cr_expect_eq(number(row, "granted"),
					     number(other, "measured_peak_bytes"), "%s", name);
			}
			cr_expect(found, "%s", name);
		}
		json_decref(plan);
		json_decref(ran);
		free(p.out);
		free(r.out);
	}
}

/* The budget named is the smallest: it works, and one MiB less does not. A few pages that the process
 * has this time and not the next may lie on both sides of a whole MiB: then the answers are those of
 * the neighbour, and once more it is asked. */
Test(mem, a_budget_is_refused_with_the_smallest_that_works)
{
	static const char *const what[] = {
		"run --device=virt -m " DEMO " --ids 1,2,3 -n 8",
		"run --device=virt -m " DEMO " --ids 1,2,3 -n 8 --copy sdma --staging 4",
		"plan --device=virt -m " DEMO " -c 64",
	};

	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		unsigned long mib = 0, above = 1, below = 0;

		for (int again = 0; again < 4 && (above || !below); again++) {
			mib = smallest(what[i], 8);
			cr_assert_gt(mib, 8, "%s", what[i]);
			above = smallest(what[i], mib);
			below = smallest(what[i], mib - 1);
		}
		cr_expect(above == 0 && below == mib,
			  "%s: %lu MiB named; with it %lu, with one less %lu", what[i], mib, above,
			  below);
	}
}

#define TURNS "run --device=virt -m " DEMO " -p 'Once upon a time there was a frog' -n 12 --json"

/* Under a budget that is too low for all weights some take turns: the same tokens, the bytes that were
 * planned, within the budget; from the smallest that works to the first that needs no turns. Returns the
 * smallest. */
static json_int_t take_turns(const char *how, const json_t *want)
{
	char run[256];
	json_int_t refilled = 0, more = INT64_MAX, least, mib;
	struct result r;
	json_t *got;

	snprintf(run, sizeof(run), TURNS " %s --strict-footprint", how);
	mib = least = (json_int_t)smallest(run, 8);
	cr_assert_gt(least, 8);
	do {
		r = shell(BAREWAVE " %s --budget %lld", run, (long long)mib);
		/* A few pages more than when it was asked may make it the next MiB. */
		if (r.status && mib == least) {
			free(r.out);
			r = shell(BAREWAVE " %s --budget %lld", run, (long long)++mib);
		}
		cr_assert_eq(r.status, 0, "%s", r.out);
		got = json_of(&r);
		cr_expect(json_equal(json_object_get(got, "ids"), json_object_get(want, "ids")),
			  "%s, %lld MiB", how, (long long)mib);
		cr_expect_eq(number(got, "planned_bytes"), number(got, "measured_peak_bytes"));
		cr_expect_leq(number(got, "measured_peak_bytes"), mib << 20);
		refilled = number(got, "blocks_refilled");
		cr_expect_leq(refilled, more, "more blocks in turn with a larger budget");
		cr_expect_eq(refilled > 0, number(got, "refill_bytes_per_step") > 0);
		more = refilled;
		json_decref(got);
		free(r.out);
	} while (refilled && ++mib < least + 16);
	cr_expect_eq(refilled, 0);
	cr_expect_gt(mib, least + 1, "none had to take turns");
	return least;
}

Test(mem, weights_take_turns_under_a_budget)
{
	struct result r = shell(BAREWAVE " " TURNS);
	json_t *want = json_of(&r);
	json_int_t least, copied;

	cr_expect_eq(number(want, "blocks_refilled"), 0);
	free(r.out);
	least = take_turns("", want);
	/* By the device it takes staging for as long as the engine lives. */
	copied = take_turns("--copy sdma --staging 4", want);
	cr_expect_geq(copied, least + 2);
	take_turns("--copy kernel --load pread --staging 1", want);
	json_decref(want);
	refused(" for those of 5 blocks in turn + 2170880 to copy them through + kv ",
		BAREWAVE " " TURNS " --copy sdma --staging 4 --budget %lld 2>&1",
		(long long)copied - 1);
	refused("weights slot: placed read-only for the device (--place), which is to copy ",
		BAREWAVE " " TURNS " --copy kernel --staging 1 --place 'weights slot=ro' "
			 "--budget %lld 2>&1",
		(long long)least + 1);
	expect(0, "blocks take turns in the slot",
	       BAREWAVE " plan --device=virt -m " DEMO " -c 64 --budget %lld",
	       (long long)least + 2);
	expect(0, "blocks take turns (--budget)",
	       BAREWAVE " run --device=virt -m " DEMO " --ids 1,2 -n 2 --budget %lld",
	       (long long)least + 1);
	refused("red zones around weights that take turns",
		BAREWAVE " run --device=virt -m " DEMO
			 " --ids 1,2 -n 2 --redzone weights:*=64 --budget %lld 2>&1",
		(long long)least + 1);
}

/* Nothing is opened that was not paid for: a budget of a run in which weights alone are more. */
Test(mem, a_budget_below_the_weights_is_refused_before_the_device_is_opened)
{
	refused("does not fit: budget has",
		"rm -f %s/stats; VGPU_STATS=%s/stats " BAREWAVE " run --device=virt -m " DEMO
		" --ids 1,2,3 -n 8 --budget 4 2>&1",
		dir, dir);
	expect(0, "never opened",
	       "grep -q '\"ioctls\": [1-9]' %s/stats 2>/dev/null || echo never opened", dir);
}

/* The ledger's buffer that a planned one became; NULL: there is none, or more than one. */
static json_t *became(const json_t *ledger, const json_t *planned)
{
	const char *owner = json_string_value(json_object_get(planned, "owner"));
	json_t *b, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(ledger, "map"), i, b)
	{
		if (number(b, "va") != number(planned, "va") ||
		    strcmp(json_string_value(json_object_get(b, "owner")), owner))
			continue;
		if (found)
			return NULL;
		found = b;
	}
	return found;
}

/* How many weights lie in the buffer where the plan has them: offsets are from its first byte. */
static size_t weights_in_place(const json_t *ledger, const json_t *planned, const json_t *buffer)
{
	json_t *thing, *t;
	size_t i, k, n = 0;

	json_array_foreach(json_object_get(planned, "inside"), i, thing)
	{
		const char *name = json_string_value(json_object_get(thing, "name"));

		if (strncmp(name, "weights:", 8))
			continue;
		json_array_foreach(json_object_get(ledger, "inside"), k, t) n +=
			!strcmp(json_string_value(json_object_get(t, "name")), name + 8) &&
			number(t, "bytes") == number(thing, "bytes") &&
			number(t, "va") == number(buffer, "first_byte") + number(thing, "offset");
	}
	return n;
}

/* plan --map says where everything will be; the ledger, where it came to be. */
Test(mem, the_planned_addresses_are_the_real_ones)
{
	static const char *const options[] = {
		"",
		"--align 1G",
		"--va-seed 11 --guard both",
		"--guard end --align 4 --align weights:blk.0.attn_q.weight=1M",
		"--place kv=at:0x208000000000,vram --align 'transient:*=4096'",
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct result p = shell(BAREWAVE " plan --device=virt -m " DEMO
						 " -c 64 --batch 3 --map --json %s",
					options[i]);
		json_t *plan = json_of(&p), *planned, *real, *ledger, *b;
		size_t a, inside = 0;

		free(p.out);
		p = shell(BAREWAVE " run --device=virt -m " DEMO " --ids 1,2,3 -n 1 -c 64 %s"
				   " --ledger %s/l >/dev/null && " BAREWAVE
				   " mem --ledger %s/l --json",
			  options[i], dir, dir);
		cr_assert_eq(p.status, 0, "%s: %s", options[i], p.out);
		real = json_of(&p);
		ledger = json_object_get(real, "ledger");
		json_array_foreach(json_object_get(plan, "map"), a, planned)
		{
			if (json_is_null(json_object_get(planned, "va")))
				continue; /* the kernel's choice */
			b = became(ledger, planned);
			cr_assert(b, "%s: %s is not where it was planned", options[i],
				  json_string_value(json_object_get(planned, "owner")));
			inside += weights_in_place(ledger, planned, b);
		}
		cr_expect_eq((json_int_t)inside, number(ledger, "things"), "%s", options[i]);
		json_array_foreach(json_object_get(ledger, "inside"), a, b)
			cr_expect(!strstr(options[i], "attn_q.weight=1M") ||
				  strcmp(json_string_value(json_object_get(b, "name")),
					 "blk.0.attn_q.weight") ||
				  number(b, "va") % (1 << 20) == 0);
		json_decref(plan);
		json_decref(real);
		free(p.out);
	}
	expect(0, "weights:token_embd.weight (", BAREWAVE " plan --device=virt -m " DEMO " --map");
	expect(0, "tensors", BAREWAVE " plan --device=virt -m " DEMO " | grep -A1 '^weights'");
	expect(0, "transient:partial_max' changes nothing: no buffer has that name",
	       BAREWAVE " plan --device=virt -m " DEMO " --align transient:partial_max=256 2>&1");
	expect(0, "transient:partial_max' changes nothing: no buffer has that name",
	       BAREWAVE " run --device=virt -m " DEMO " --ids 1 -n 1 --guard end"
			" --align transient:partial_max=256 2>&1");
	refused("buffer \"kv\" of 0x", BAREWAVE " run --device=virt -m " DEMO
						" --ids 1 -n 1 --place kv=at:0x210000000000 2>&1");
	refused("that is outside the window",
		BAREWAVE " plan --device=virt -m " DEMO " --place kv=at:0x210000000000 2>&1");
	refused("something else is there by then",
		BAREWAVE " plan --device=virt -m " DEMO " --place kv=at:0x208000000000"
			 " --place weights=at:0x208000000000 2>&1");
	expect(2, "--budget '0', wanted MiB", BAREWAVE " run -m x -p x --budget 0 2>&1");
}

/* Another machine's numbers, as people report them: ttm.pages_limit of 25165824 pages and the GTT that
 * came of it. What was not copied is unknown; nothing of this machine's is taken for it. */
Test(mem, plan_for_another_machine)
{
	struct result r;
	json_t *j, *c;
	size_t i;

	expect(0, "",
	       "cd %s && mkdir -p sys/class/kfd/kfd sys/class/drm/renderD128/device "
	       "sys/module/ttm/parameters proc && echo 25165824 >sys/module/ttm/parameters/"
	       "pages_limit && cd sys/class/drm/renderD128/device && "
	       "echo 103079215104 >mem_info_gtt_total && echo 103000000000 >mem_info_gtt_used && "
	       "echo 4294967296 >mem_info_vram_total && echo 0 >mem_info_vram_used && cd - "
	       ">/dev/null && printf 'Node 0, zone   Normal 0 0 0 0 0 0 0 0 0 3 2\\n' "
	       ">%s/proc/buddyinfo",
	       dir, dir);
	expect(0, "", BAREWAVE " vgpu -- cp -r /sys/class/kfd/kfd/topology %s/sys/class/kfd/kfd/",
	       dir);
	r = shell(BAREWAVE " plan --root %s -m " DEMO " -c 64 --json", dir);
	cr_assert_eq(r.status, 0, "%s", r.out);
	j = json_of(&r);
	json_array_foreach(json_object_get(j, "ceilings"), i, c)
	{
		const char *name = json_string_value(json_object_get(c, "name"));

		if (!strcmp(name, "GTT") || !strcmp(name, "ttm.pages_limit"))
			cr_expect_eq(number(c, "limit"), 103079215104, "%s", name);
		else if (!strcmp(name, "VRAM carve-out"))
			cr_expect_eq(number(c, "limit"), 4294967296);
		else if (!strcmp(name, "free 2 MiB blocks"))
			cr_expect_eq(number(c, "limit"), 3 * (2 << 20) + 2 * (4 << 20));
		else
			cr_expect(json_is_null(json_object_get(c, "limit")), "%s", name);
	}
	json_decref(j);
	free(r.out);
	/* 75 MiB are left there: the demo fits, with a gigabyte-sized alignment it does not. */
	expect(1, "does not fit: GTT has 79215104 bytes (103079215104 less 103000000000 in use)",
	       BAREWAVE " plan --root %s -m " DEMO " -c 64 --align 'weights:*=64M' 2>&1", dir);
	r = shell(BAREWAVE " plan --topology %s/sys/class/kfd/kfd/topology -m " DEMO
			   " -c 64 --json",
		  dir);
	cr_assert_eq(r.status, 0, "%s", r.out);
	j = json_of(&r);
	json_array_foreach(json_object_get(j, "ceilings"), i, c)
		cr_expect(json_is_null(json_object_get(c, "limit")), "of a topology alone");
	json_decref(j);
	free(r.out);
	refused("no/such", BAREWAVE " plan --root /no/such -m " DEMO " 2>&1");
	expect(2, "exclude each other", BAREWAVE " plan --root x --topology y -m z 2>&1");
}

Test(mem, plan_names_the_ceiling_that_is_too_low)
{
	expect(1, "does not fit: GTT has 16777216 bytes (16777216 less 0 in use), needed are ",
	       BAREWAVE " vgpu --set gtt=16M -- " BAREWAVE " plan -m " DEMO " -c 64 2>&1");
	expect(1, "does not fit: GTT has",
	       BAREWAVE " vgpu --set gtt=16M -- " BAREWAVE " run -m " DEMO " --ids 1 -n 1 2>&1");
	expect(2, "no model given", BAREWAVE " plan 2>&1");
	refused("wanted at most qwen3.context_length",
		BAREWAVE " plan --device=virt -m " DEMO " -c 100000 2>&1");
	refused("cannot read", BAREWAVE " plan --topology /no/such -m " DEMO " 2>&1");
}
