/* How many opens and processes there can be. */
#include "probe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 300 };

static void many_opens(void)
{
	int fds[MANY], n = 0;

	errno = 0;
	while (n < MANY && (fds[n] = open("/dev/kfd", O_RDWR)) >= 0)
		n++;
	observe("open", text("%d in one process", MANY), n == MANY ? 0 : -1, errno, "%d opened", n);
	while (n)
		close(fds[--n]);
}

static void many_processes(void)
{
	static int pids[MANY];
	int n = 0, err = 0, pipes[2];

	if (pipe(pipes))
		probe_die("pipe");
	while (n < MANY && !err) {
		int pid = fork();

		if (!pid) {
			int fd = open("/dev/kfd", O_RDWR);

			err = fd < 0 ? errno : 0;
			if (write(pipes[1], &err, sizeof(err)) != sizeof(err))
				_exit(1);
			pause();
			_exit(0);
		}
		if (pid < 0)
			probe_die("fork");
		pids[n++] = pid;
		if (read(pipes[0], &err, sizeof(err)) != sizeof(err))
			probe_die("a child's answer");
	}
	observe("open", text("%d living processes", MANY), err ? -1 : 0, err, "%d", n);
	for (int i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < n; i++)
		waitpid(pids[i], NULL, 0);
}

void section_capacity(void)
{
	many_opens();
	many_processes();
}
