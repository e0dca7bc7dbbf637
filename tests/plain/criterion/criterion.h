/* Criterion's surface as far as the emulator's tests use it, in plain C: for builds under
 * ThreadSanitizer, whose address space has no room where Criterion's sandbox wants to be. Each test
 * runs in a child process; the child's exit status is the result, so a reported race fails it. */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct plain_options {
	void (*init)(void), (*fini)(void);
	double timeout;
	int signal;
	const char *description;
};

struct plain_test {
	const char *suite, *name;
	void (*run)(void); /* NULL: a suite's options */
	struct plain_options o;
	struct plain_test *next;
};

static struct plain_test *plain_tests, **plain_tail = &plain_tests;

static inline void plain_add(struct plain_test *t)
{
	*plain_tail = t;
	plain_tail = &t->next;
}

#define PLAIN_ADD(id, ...)                                                                         \
	static struct plain_test id = {__VA_ARGS__};                                               \
	__attribute__((constructor)) static void id##_add(void)                                    \
	{                                                                                          \
		plain_add(&id);                                                                    \
	}
#define Test(s, n, ...)                                                                            \
	static void s##_##n##_run(void);                                                           \
	PLAIN_ADD(s##_##n##_test, .suite = #s, .name = #n, .run = s##_##n##_run,                   \
		  .o = {__VA_ARGS__})                                                              \
	static void s##_##n##_run(void)
#define TestSuite(s, ...) PLAIN_ADD(s##_suite, .suite = #s, .o = {__VA_ARGS__})

__attribute__((format(printf, 5, 6))) static inline void
plain_check(bool ok, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	if (ok)
		return;
	fprintf(stderr, "[----] %s:%d: %s: ", file, line, what);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

#define cr_assert(c, ...)     plain_check(!!(c), __FILE__, __LINE__, #c, "" __VA_ARGS__)
#define cr_assert_not(c, ...) cr_assert(!(c), ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...)                                                                    \
	plain_check((a) == (b), __FILE__, __LINE__, #a " == " #b, "" __VA_ARGS__)
#define cr_assert_neq(a, b, ...)                                                                   \
	plain_check((a) != (b), __FILE__, __LINE__, #a " != " #b, "" __VA_ARGS__)
#define cr_assert_lt(a, b, ...)    cr_assert((a) < (b), ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...)    cr_assert((a) > (b), ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...)   cr_assert((a) >= (b), ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...)   cr_assert((a) <= (b), ##__VA_ARGS__)
#define cr_assert_null(a, ...)     cr_assert((a) == NULL, ##__VA_ARGS__)
#define cr_assert_not_null(a, ...) cr_assert((a) != NULL, ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)                                                                \
	plain_check(!strcmp(a, b), __FILE__, __LINE__, #a " is " #b, "" __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...)                                                             \
	plain_check(!memcmp(a, b, n), __FILE__, __LINE__, #a " is " #b, "" __VA_ARGS__)
#define cr_assert_fail(...) plain_check(false, __FILE__, __LINE__, "fail", "" __VA_ARGS__)
/* What Criterion notes and goes on from ends the test here. */
#define cr_expect              cr_assert
#define cr_expect_not          cr_assert_not
#define cr_expect_eq           cr_assert_eq
#define cr_expect_neq          cr_assert_neq
#define cr_expect_null(p, ...) cr_assert_eq(p, NULL, ##__VA_ARGS__)
#define cr_skip_test(...)                                                                          \
	do {                                                                                       \
		fprintf(stderr, "SKIP: " __VA_ARGS__);                                             \
		exit(0);                                                                           \
	} while (0)

static inline const struct plain_options *plain_suite(const struct plain_test *t)
{
	static const struct plain_options none;

	for (const struct plain_test *s = plain_tests; s; s = s->next)
		if (!s->run && !strcmp(s->suite, t->suite))
			return &s->o;
	return &none;
}

/* In the child. */
static inline void plain_run(const struct plain_test *t)
{
	const struct plain_options *s = plain_suite(t);
	void (*init)(void) = t->o.init ? t->o.init : s->init;
	void (*fini)(void) = t->o.fini ? t->o.fini : s->fini;

	alarm(300); /* sanitized code is slow: a test's own limit does not count here */
	if (init)
		init();
	t->run();
	if (fini)
		fini();
	exit(0);
}

/* Arguments are Criterion's and ignored. */
int main(void)
{
	unsigned tested = 0, failed = 0, crashed = 0;

	for (struct plain_test *t = plain_tests; t; t = t->next) {
		int status = 0;
		pid_t pid;

		if (!t->run)
			continue;
		tested++;
		fflush(NULL);
		pid = fork();
		if (!pid)
			plain_run(t);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			status = 1 << 8;
		if (t->o.signal && WIFSIGNALED(status) && WTERMSIG(status) == t->o.signal)
			status = 0;
		failed += WIFEXITED(status) && WEXITSTATUS(status);
		crashed += WIFSIGNALED(status);
		if (status)
			fprintf(stderr, "[FAIL] %s::%s: status 0x%x\n", t->suite, t->name,
				(unsigned)status);
	}
	fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n",
		tested, tested - failed - crashed, failed, crashed);
	return failed || crashed;
}

#endif
