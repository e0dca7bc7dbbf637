/* Failure at every point of a run: load, prompt, text, teardown. The program either gets by or says
 * in one line what is wrong; it leaves nothing on the device and nothing on the heap, and never
 * crashes.
 *
 * Every point is tried, or every Nth with INJECT_STRIDE=N. The count is printed.
 */
#include <jansson.h>

#include "tests/shell.h"

#define RUN                                                                                        \
	"run -m data/demo/story-4m-q4_k_m.gguf -p Once -n 2 --ledger %s/ledger --load pread "      \
	"--copy sdma --staging 1"

/* Runs this short are over before compiled code is worth its while. */
static void setup(void)
{
	setenv("VGPU_SET", "jit=0", 1);
	shell_setup();
}

TestSuite(inject, .init = setup, .fini = shell_teardown, .timeout = 3000);

struct counts {
	unsigned long alloc, map, ioctl, fired, outstanding;
};

static struct result attempt(const char *kind, unsigned long at, struct counts *c)
{
	char path[300];
	struct result r;
	FILE *f;

	/* The injector first: it stands between the program and the device. */
	r = shell("rm -f %s/report %s/stats; timeout 60 env"
		  " LD_PRELOAD=build/tests/libinject.so:build/libvgpu.so"
		  " INJECT_KIND=%s INJECT_AT=%lu INJECT_REPORT=%s/report VGPU_STATS=%s/stats"
		  " " BAREWAVE " " RUN " 2>&1 >%s/out",
		  dir, dir, kind, at, dir, dir, dir, dir);
	snprintf(path, sizeof(path), "%s/report", dir);
	f = fopen(path, "r");
	cr_assert(f, "%s %lu: no report; status %d: %s", kind, at, r.status, r.out);
	cr_assert_eq(fscanf(f, "alloc %lu map %lu ioctl %lu fired %lu outstanding %lu", &c->alloc,
			    &c->map, &c->ioctl, &c->fired, &c->outstanding),
		     5);
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

static void sweep(const char *kind, unsigned long n, const struct counts *base)
{
	const char *env = getenv("INJECT_STRIDE");
	unsigned long stride = env ? strtoul(env, NULL, 10) : 1;

	for (unsigned long at = 1; at <= n; at += stride ? stride : 1)
		try_point(kind, at, base);
}

Test(inject, every_point_of_a_run)
{
	struct counts base;
	struct result r = attempt("alloc", 0, &base);

	cr_assert_eq(r.status, 0, "%s", r.out);
	cr_assert_null(left_behind());
	cr_assert(base.alloc > 100 && base.ioctl > 50 && base.map > 10 && !base.fired);
	free(r.out);
	/* How often a wait is repeated depends on the moment: a few more than were counted. */
	sweep("ioctl", base.ioctl + 4, &base);
	sweep("map", base.map, &base);
	sweep("alloc", base.alloc, &base);
	fprintf(stderr,
		"inject: %u points tried of %lu (%lu allocations, %lu mappings, %lu ioctls): %u "
		"said why, %u got by\n",
		points, base.alloc + base.map + base.ioctl, base.alloc, base.map, base.ioctl,
		failed, survived);
	cr_expect(failed > survived);
}
