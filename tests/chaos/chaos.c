/* Which thread naps when: chaos.h. */
#ifndef CHAOS /* linters read this file as it is */
#define CHAOS
#define CHAOS_NONE
#endif
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 64, STARTS = 256 };

static struct {
	bool on;
	unsigned long seed, every, us, late_ms;
	const char *late, *report;
	char text[512];
} C = {.every = 60, .us = 200, .late_ms = 20};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t passed, naps, early; /* atomic, but for `passed` of threads that never napped */

/* How many threads of a class there were. Names are start routines': literals. */
static struct {
	const char *name;
	unsigned n;
} classes[CLASSES];
static pthread_mutex_t classes_lock = PTHREAD_MUTEX_INITIALIZER;

__thread int chaos_left __attribute__((tls_model("initial-exec")));

static __thread __attribute__((tls_model("initial-exec"))) struct {
	bool known, late;
	int step;
	uint64_t rng;
} T;

/* A start on its way to its thread. Not from the heap: some programs count what they allocate. */
static struct start {
	unsigned taken; /* atomic */
	void *(*fn)(void *);
	void *arg;
	const char *name;
} starts[STARTS];

static bool key(const char *word, const char *name, const char **value)
{
	size_t n = strlen(name);

	if (strncmp(word, name, n) || word[n] != '=')
		return false;
	*value = word + n + 1;
	return true;
}

static void configure(void)
{
	const char *env = getenv("VGPU_CHAOS"), *v;
	char *save, *w;

	if (!env)
		return;
	snprintf(C.text, sizeof(C.text), "%s", env);
	for (w = strtok_r(C.text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		if (key(w, "seed", &v))
			C.seed = strtoul(v, NULL, 0);
		else if (key(w, "every", &v))
			C.every = strtoul(v, NULL, 0);
		else if (key(w, "us", &v))
			C.us = strtoul(v, NULL, 0);
		else if (key(w, "late_ms", &v))
			C.late_ms = strtoul(v, NULL, 0);
		else if (key(w, "late", &v))
			C.late = v;
		else if (key(w, "report", &v))
			C.report = v;
		else
			abort(); /* a word that nobody knows would test nothing */
	}
	C.on = true;
}

static uint64_t draw(void)
{
	T.rng = T.rng * 6364136223846793005u + 1442695040888963407u;
	return T.rng >> 33;
}

static uint64_t hash(uint64_t h, const char *s)
{
	while (*s)
		h = (h ^ (unsigned char)*s++) * 0x100000001b3u;
	return h;
}

static void snooze(uint64_t us)
{
	struct timespec ts = {.tv_sec = (time_t)(us / 1000000),
			      .tv_nsec = (long)(us % 1000000 * 1000)};

	rawsys2(SYS_nanosleep, &ts, NULL);
}

static void meet(const char *name)
{
	unsigned i, n = 0, tries = 0;

	pthread_once(&once, configure);
	if (!name) {
		name = program_invocation_short_name;
		if (strcmp(name, "vgpud") && strcmp(name, "vgpu-jitc"))
			name = "client";
	}
	/* A child of fork() may have been made while another thread held it. */
	while (pthread_mutex_trylock(&classes_lock) && tries++ < 1000)
		snooze(10);
	for (i = 0; i < CLASSES && classes[i].name && strcmp(classes[i].name, name); i++)
		;
	if (i < CLASSES) {
		classes[i].name = name;
		n = classes[i].n++;
	}
	pthread_mutex_unlock(&classes_lock);
	T.rng = hash(C.seed * 0x9e3779b97f4a7c15u + n + 1, name);
	T.late = C.late && !strcmp(C.late, name);
	T.known = true;
	draw();
}

void chaos_nap(void)
{
	uint64_t most = C.us;

	if (!T.known)
		meet(NULL);
	__atomic_fetch_add(&passed, (uint64_t)(T.step - chaos_left) / CHAOS_POINT,
			   __ATOMIC_RELAXED);
	if (!C.on) {
		chaos_left = T.step = INT_MAX / 2;
		return;
	}
	chaos_left = T.step = (int)(draw() % (2 * C.every * CHAOS_POINT) + 1);
	if (T.late)
		most = C.late_ms * 1000;
	else if (draw() % 64 == 0)
		most *= 20;
	__atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
	if (!T.late && draw() % 3 == 0)
		snooze(0);
	else
		snooze(draw() % (most + 1));
}

bool chaos_early(void)
{
	if (!T.known)
		meet(NULL);
	if (!C.on || draw() % 8)
		return false;
	__atomic_fetch_add(&early, 1, __ATOMIC_RELAXED);
	return true;
}

static void *began(void *arg)
{
	struct start *s = arg;
	void *(*fn)(void *) = s->fn;
	void *fn_arg = s->arg;

	meet(s->name);
	__atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
	if (C.on)
		chaos_nap();
	return fn(fn_arg);
}

int chaos_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		 const char *name)
{
	struct start *s = NULL;
	int err;

	chaos_point(CHAOS_POINT);
	for (unsigned i = 0; i < STARTS && !s; i++)
		if (!__atomic_exchange_n(&starts[i].taken, 1, __ATOMIC_ACQUIRE))
			s = &starts[i];
	if (!s)
		return pthread_create(t, attr, fn, arg);
	s->fn = fn;
	s->arg = arg;
	s->name = name;
	err = pthread_create(t, attr, began, s);
	if (err)
		__atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
	chaos_point(CHAOS_POINT);
	return err;
}

static bool futex_wait(long nr, long op)
{
	op &= FUTEX_CMD_MASK;
	return nr == SYS_futex && (op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET);
}

long chaos_rawsys(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

	chaos_point(CHAOS_POINT);
	/* futex(2): "spurious wake-ups" return 0. */
	if (futex_wait(nr, b) && chaos_early()) {
		chaos_nap();
		return 0;
	}
	ret = rawsys(nr, a, b, c, d, e, f);
	chaos_point(CHAOS_POINT);
	return ret;
}

static __attribute__((destructor)) void report(void)
{
	char line[256];
	int fd, n;

	if (!C.on || !C.report)
		return;
	fd = (int)rawsys4(SYS_openat, AT_FDCWD, C.report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			  0666);
	if (fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%s points %lu naps %lu early %lu\n",
		     program_invocation_short_name, (unsigned long)passed, (unsigned long)naps,
		     (unsigned long)early);
	rawsys3(SYS_write, fd, line, n);
	rawsys1(SYS_close, fd);
}
