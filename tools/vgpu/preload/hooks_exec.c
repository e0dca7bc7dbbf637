/* Hooks of exec and spawn: what inheritable descriptors of the device refer to goes along. */
#include "preload.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The trap backend sees the system calls. */
#ifndef VGPU_TRAP

/* call: an exec that returns only when it fails; in_place: of this process. */
#define WITH_KEPT(in_place, type, call)                                                            \
	({                                                                                         \
		struct kept kept_;                                                                 \
		bool any_ = kept_begin(&kept_, in_place);                                          \
		type r_ = (call);                                                                  \
		int saved_ = errno;                                                                \
		if (__builtin_expect(any_, 0))                                                     \
			kept_end(&kept_);                                                          \
		errno = saved_;                                                                    \
		r_;                                                                                \
	})

HOOK int execve(const char *path, char *const argv[], char *const envp[])
{
	return WITH_KEPT(true, int, REAL(execve)(path, argv, envp));
}

HOOK int execv(const char *path, char *const argv[])
{
	return WITH_KEPT(true, int, REAL(execv)(path, argv));
}

HOOK int execvp(const char *file, char *const argv[])
{
	return WITH_KEPT(true, int, REAL(execvp)(file, argv));
}

HOOK int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return WITH_KEPT(true, int, REAL(execvpe)(file, argv, envp));
}

HOOK int fexecve(int fd, char *const argv[], char *const envp[])
{
	return WITH_KEPT(true, int, REAL(fexecve)(fd, argv, envp));
}

HOOK int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
	return WITH_KEPT(true, int, REAL(execveat)(dirfd, path, argv, envp, flags));
}

/* The arguments up to the NULL, on the caller's stack as libc has them. */
#define COLLECT(argv, first, ap)                                                                   \
	size_t n_ = 1;                                                                             \
	va_start(ap, first);                                                                       \
	while (va_arg(ap, char *))                                                                 \
		n_++;                                                                              \
	va_end(ap);                                                                                \
	char **argv = __builtin_alloca((n_ + 1) * sizeof(*argv));                                  \
	argv[0] = (char *)(uintptr_t)first;                                                        \
	va_start(ap, first);                                                                       \
	for (size_t i_ = 1; i_ <= n_; i_++)                                                        \
	argv[i_] = va_arg(ap, char *)

HOOK int execl(const char *path, const char *arg, ...)
{
	va_list ap;

	COLLECT(argv, arg, ap);
	va_end(ap);
	return execv(path, argv);
}

HOOK int execlp(const char *file, const char *arg, ...)
{
	va_list ap;

	COLLECT(argv, arg, ap);
	va_end(ap);
	return execvp(file, argv);
}

HOOK int execle(const char *path, const char *arg, ...)
{
	char *const *envp;
	va_list ap;

	COLLECT(argv, arg, ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

/* The child is made and replaced within libc: the list has to be there before. */
HOOK int posix_spawn(pid_t *restrict pid, const char *restrict path,
		     const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *restrict attr, char *const argv[restrict],
		     char *const envp[restrict])
{
	return WITH_KEPT(false, int, REAL(posix_spawn)(pid, path, actions, attr, argv, envp));
}

HOOK int posix_spawnp(pid_t *restrict pid, const char *restrict file,
		      const posix_spawn_file_actions_t *actions,
		      const posix_spawnattr_t *restrict attr, char *const argv[restrict],
		      char *const envp[restrict])
{
	return WITH_KEPT(false, int, REAL(posix_spawnp)(pid, file, actions, attr, argv, envp));
}

HOOK int system(const char *command)
{
	return WITH_KEPT(false, int, REAL(system)(command));
}

HOOK FILE *popen(const char *command, const char *mode)
{
	return WITH_KEPT(false, FILE *, REAL(popen)(command, mode));
}

#endif
