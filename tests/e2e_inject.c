/* Failure at every point of a run: load, prompt, text, teardown. The program either gets by or says
 * in one line what is wrong; it leaves nothing on the device and nothing on the heap, and never
 * crashes.
 *
 * Every point is tried, or every Nth with INJECT_STRIDE=N. The count is printed.
 */
#include <jansson.h>

#include "tests/shell.h"

/* A prompt of two steps: thirty-two tokens and one. */
#define PROMPT 33
#define RUN                                                                                        \
	"run -m data/demo/story-4m-q4_k_m.gguf --ids "                                             \
	"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,"  \
	"33 -n 2 --ledger %s/ledger --load pread --copy sdma --staging 1"

/* Runs this short are over before compiled code is worth its while. */
static void setup(void)
{
	setenv("VGPU_SET", "jit=0", 1);
	shell_setup();
}

TestSuite(inject, .init = setup, .fini = shell_teardown, .timeout = 3000);

static const char *more = ""; /* options of the run */

struct counts {
	unsigned long alloc, map, ioctl, read, fired, outstanding;
};

static struct result attempt(const char *kind, unsigned long at, struct counts *c)
{
	char path[300];
	struct result r;
	FILE *f;

	/* The injector first: it stands between the program and the device. */
	r = shell("rm -f %s/report %s/stats; timeout 300 env"
		  " LD_PRELOAD=build/tests/libinject.so:build/libvgpu.so"
		  " INJECT_KIND=%s INJECT_AT=%lu INJECT_REPORT=%s/report VGPU_STATS=%s/stats"
		  " " BAREWAVE " " RUN "%s 2>&1 >%s/out",
		  dir, dir, kind, at, dir, dir, dir, more, dir);
	snprintf(path, sizeof(path), "%s/report", dir);
	f = fopen(path, "r");
	cr_assert(f, "%s %lu: no report; status %d: %s", kind, at, r.status, r.out);
	cr_assert_eq(fscanf(f, "alloc %lu map %lu ioctl %lu read %lu fired %lu outstanding %lu",
			    &c->alloc, &c->map, &c->ioctl, &c->read, &c->fired, &c->outstanding),
		     6);
	fclose(f);
	return r;
}

/* What the virtual kernel still held at exit: a word for the first of it, or NULL. */
static const char *left_behind(void)
{
	static char text[128];
	char path[300];
	json_t *o, *v;
	const char *k;

	snprintf(path, sizeof(path), "%s/stats", dir);
	o = json_load_file(path, 0, NULL);
	if (!o)
		return NULL; /* the device was never opened */
	text[0] = '\0';
	json_object_foreach(json_object_get(o, "live"), k, v)
	{
		if (json_integer_value(v))
			snprintf(text, sizeof(text), "%s %lld", k, json_integer_value(v));
	}
	json_decref(o);
	return text[0] ? text : NULL;
}

static unsigned failed, survived, points;

static void try_point(const char *kind, unsigned long at, const struct counts *base)
{
	struct counts c;
	struct result r = attempt(kind, at, &c);
	const char *left = left_behind();

	points++;
	cr_expect(r.status == 0 || r.status == 1, "%s %lu: status %d: %s", kind, at, r.status,
		  r.out);
	cr_expect_null(left, "%s %lu: left behind: %s; %s", kind, at, left, r.out);
	cr_expect(c.outstanding <= base->outstanding,
		  "%s %lu: %lu blocks were not freed, not %lu: %s", kind, at, c.outstanding,
		  base->outstanding, r.out);
	if (r.status == 0) {
		survived++;
	} else {
		failed++;
		cr_expect(lines(r.out) >= 1 && !strncmp(r.out, "barewave: ", 10),
			  "%s %lu: no reason given: '%s'", kind, at, r.out);
	}
	free(r.out);
}

static void sweep(const char *kind, unsigned long first, unsigned long last, unsigned long every,
		  const struct counts *base)
{
	const char *env = getenv("INJECT_STRIDE");
	unsigned long stride = env ? strtoul(env, NULL, 10) : 1;

	for (unsigned long at = first; at <= last; at += stride > every ? stride : every)
		try_point(kind, at, base);
}

/* ---- which part of the run a point belongs to ---------------------------------------------- */

enum phase { OPEN, LOAD, PREFILL, DECODE, TEARDOWN, PHASES };
enum kind { ALLOC, MAP, IOCTL, READ };
static const char *const kinds[] = {"alloc", "map", "ioctl", "read"};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
static const char *const phases[PHASES] = {"opening", "load", "prefill", "decode", "teardown"};

/* Where the program has a function: [start, end). */
static void find_function(const char *name, uint64_t range[2])
{
	struct result r = shell("nm -S " BAREWAVE " | grep -E ' [tT] %s$'", name);
	unsigned long long start, size;

	cr_assert_eq(sscanf(r.out, "%llx %llx", &start, &size), 2, "%s: %s", name, r.out);
	range[0] = start;
	range[1] = start + size;
	free(r.out);
}

static unsigned long within_steps[KINDS]; /* points with engine_step() on the stack */

/* Counts the points of each part, of a run that was only watched: by who is on the stack, and by
 * what was written. Parts follow each other. */
static void count_phases(unsigned long by[PHASES][KINDS])
{
	static const char *const marks[] = {"engine_create", "engine_step", "engine_destroy"};
	uint64_t range[3][2];
	enum phase now = OPEN;
	char path[300], line[1024];
	FILE *f;

	for (unsigned i = 0; i < 3; i++)
		find_function(marks[i], range[i]);
	snprintf(path, sizeof(path), "%s/trace", dir);
	f = fopen(path, "r");
	cr_assert(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned flushes = 0, kind = 0;
		char word[16];
		int used = 0;

		cr_assert_eq(sscanf(line, "%15s %u%n", word, &flushes, &used), 2, "%s", line);
		while (kind < KINDS && strcmp(kinds[kind], word))
			kind++;
		cr_assert_lt(kind, KINDS, "%s", line);
		for (char *at = line + used, *end;; at = end) {
			uint64_t pc = strtoull(at, &end, 16);

			if (at == end)
				break;
			for (unsigned i = 0; i < 3; i++) {
				static const enum phase begins[] = {LOAD, PREFILL, TEARDOWN};

				if (pc < range[i][0] || pc >= range[i][1])
					continue;
				within_steps[kind] += begins[i] == PREFILL;
				if (now < begins[i])
					now = begins[i];
			}
		}
		if (now == PREFILL && flushes > PROMPT)
			now = DECODE;
		by[now][kind]++;
	}
	fclose(f);
}

/* A run that is only watched. */
static void watch(struct counts *base, unsigned long by[PHASES][KINDS])
{
	struct result r;
	char path[300];

	snprintf(path, sizeof(path), "%s/trace", dir);
	setenv("INJECT_TRACE", path, 1);
	r = attempt("alloc", 0, base);
	unsetenv("INJECT_TRACE");
	cr_assert_eq(r.status, 0, "%s", r.out);
	cr_assert_null(left_behind());
	cr_assert(base->alloc > 100 && base->ioctl > 50 && base->map > 10 && !base->fired);
	free(r.out);
	count_phases(by);
}

static unsigned long in_phase(unsigned long by[PHASES][KINDS], enum phase p)
{
	return by[p][ALLOC] + by[p][MAP] + by[p][IOCTL] + by[p][READ];
}

Test(inject, every_point_of_a_run)
{
	unsigned long by[PHASES][KINDS] = {0};
	struct counts base;

	watch(&base, by);
	for (int p = 0; p < PHASES; p++)
		cr_expect_gt(in_phase(by, p), 0, "no point in %s", phases[p]);
	/* How often a wait is repeated depends on the moment: a few more than were counted. */
	sweep("ioctl", 1, base.ioctl + 4, 1, &base);
	sweep("map", 1, base.map, 1, &base);
	sweep("read", 1, base.read, 1, &base);
	sweep("alloc", 1, base.alloc, 1, &base);
	fprintf(stderr,
		"inject: %u points tried of %lu (%lu allocations, %lu mappings, %lu ioctls, %lu "
		"reads of the file): %u said why, %u got by; of the points counted %lu are in "
		"opening, %lu in load, %lu "
		"in prefill, %lu in decode, %lu in teardown\n",
		points, base.alloc + base.map + base.ioctl + base.read, base.alloc, base.map,
		base.ioctl, base.read, failed, survived, in_phase(by, OPEN), in_phase(by, LOAD),
		in_phase(by, PREFILL), in_phase(by, DECODE), in_phase(by, TEARDOWN));
	cr_expect(failed > survived);
}

/* Where weights take turns, steps read the file and wait for copies, and make nothing: their points, of a
 * run under a budget. Reads are another thread's, and those of the first step may come before anything is
 * known of it: they are tried from the load's on. */
Test(inject, every_point_of_steps_that_refill)
{
	static const char smallest[] = "the smallest budget that works with this context is ";
	struct result r = shell(BAREWAVE " " RUN " --device=virt --budget 8 2>&1 >/dev/null", dir);
	unsigned long by[PHASES][KINDS] = {0}, before, ioctls;
	const char *at = strstr(r.out, smallest);
	struct counts base;
	char budget[64];

	cr_assert(at, "%s", r.out);
	/* One more than the smallest: a point that gets by may have cost a page. */
	snprintf(budget, sizeof(budget), " --budget %lu",
		 strtoul(at + strlen(smallest), NULL, 10) + 1);
	free(r.out);
	more = budget;
	watch(&base, by);
	cr_expect_eq(within_steps[ALLOC], 0, "%lu allocations in steps", within_steps[ALLOC]);
	cr_expect_eq(within_steps[MAP], 0, "%lu mappings in steps", within_steps[MAP]);
	for (int p = PREFILL; p <= DECODE; p++) {
		cr_expect_eq(by[p][MAP], 0, "mappings in %s", phases[p]);
		cr_expect_gt(by[p][READ], 5, "no refills in %s", phases[p]);
	}
	before = by[OPEN][IOCTL] + by[LOAD][IOCTL];
	ioctls = by[PREFILL][IOCTL] + by[DECODE][IOCTL];
	/* One part of a block is as another: every fourth, which is another tensor in each block. */
	sweep("ioctl", before + 1, before + ioctls, 4, &base);
	sweep("read", 1, base.read, 4, &base);
	fprintf(stderr,
		"inject: %u points tried of steps that refill, and of their load (%lu ioctls of "
		"the "
		"steps, %lu reads, %lu of them in prefill, %lu in decode): %u said why, %u got "
		"by\n",
		points, ioctls, base.read, by[PREFILL][READ], by[DECODE][READ], failed, survived);
	cr_expect(failed > survived);
}

/* The same for what the program does not allocate itself: page tables. There are n of them to be had,
 * from one to as many as the run needs; with single pages every 2 MiB needs one. Nobody can know
 * before: VRAM is free when the run is priced, and somebody else takes it. */
Test(inject, every_page_table_of_a_run)
{
	unsigned n, refused_by_name = 0;
	struct counts c, base;
	struct result r;

	setenv("VGPU_SET", "jit=0,fragmented=1", 1);
	r = attempt("alloc", 0, &base);
	cr_assert_eq(r.status, 0, "%s", r.out);
	free(r.out);
	for (n = 1; n < 100; n++) {
		char set[64];
		const char *left;
		int status;

		snprintf(set, sizeof(set), "jit=0,fragmented=1,tables=%u", n);
		setenv("VGPU_SET", set, 1);
		r = attempt("alloc", 0, &c);
		left = left_behind();
		status = r.status;
		cr_expect(status == 0 || status == 1, "%u tables: status %d: %s", n, status, r.out);
		cr_expect_null(left, "%u tables: left behind: %s; %s", n, left, r.out);
		cr_expect(c.outstanding <= base.outstanding, "%u tables: %lu blocks: %s", n,
			  c.outstanding, r.out);
		if (status)
			cr_expect(!strncmp(r.out, "barewave: ", 10), "%u tables: '%s'", n, r.out);
		refused_by_name += strstr(r.out, "page tables") != NULL;
		free(r.out);
		if (!status)
			break;
	}
	fprintf(stderr, "inject: 1 to %u page tables: %u runs failed, %u of them named it\n", n,
		n - 1, refused_by_name);
	cr_expect(n > 20 && n < 100, "%u", n);
	cr_expect_geq(refused_by_name, n / 2);
}
