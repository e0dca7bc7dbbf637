/* barewave prof: what a program's kernels do, counted on the virtual device. */
#include "tools/prof.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
	"Usage: barewave prof [OPTIONS] -- PROGRAM [ARGS]\n\n"
	"Runs PROGRAM, any KFD client, on the virtual gfx1151 with its counters on, and prints "
	"what\n"
	"its kernels executed and which memory they touched, what was read and written of every\n"
	"buffer, and a first estimate of the time on the machine itself. Counting interprets "
	"every\n"
	"instruction, so this is slower than barewave vgpu; the counts are exact.\n\n"
	"  --json            one JSON object on stdout; PROGRAM's stdout goes to stderr\n"
	"  --dispatches      every dispatch too\n"
	"  --fidelity        only what ran exactly, approximately, or not at all\n"
	"  --code FILE       a code object to find kernel names in; may be repeated. Barewave's "
	"own\n"
	"                    kernels are known; others are told apart by a hash of their code\n"
	"  --help            this text\n\n"
	"docs/prof.md says what each figure means and how the estimate is made.\n"
	"The exit status is PROGRAM's (128 + n if signal n ended it); 2 for wrong usage, 1 if "
	"there\n"
	"is no report.\n";

static int child(char *const *argv, bool quiet)
{
	if (quiet && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return TOOL_FAILED;
	execvp(argv[0], argv);
	tool_say("%s: %s", argv[0], strerror(errno));
	return 127;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return tool_fail("waiting for the program: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static json_t *read_reports(const char *path)
{
	FILE *f = fopen(path, "re");
	json_t *all = json_array(), *one;
	json_error_t err;

	/* One object per process, one after the other. */
	while (f && all && (one = json_loadf(f, JSON_DISABLE_EOF_CHECK, &err)))
		json_array_append_new(all, one);
	if (f)
		fclose(f);
	return all;
}

int prof_run(char *const *argv, const char *variable, bool quiet, json_t **reports)
{
	const char *tmp = getenv("TMPDIR");
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
	char path[4096];
	int fd, rc;
	pid_t pid;

	*reports = NULL;
	if (snprintf(path, sizeof(path), "%s/barewave-prof-XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
	    (int)sizeof(path))
		return tool_fail("TMPDIR: path too long");
	if (device_preload_virtual())
		return TOOL_FAILED;
	fd = mkstemp(path);
	if (fd < 0)
		return tool_fail("%s: %s", path, strerror(errno));
	close(fd);
	if (setenv(variable, path, 1)) {
		unlink(path);
		return tool_fail("out of memory");
	}
	/* What the terminal sends is for the program; its report is wanted all the same. */
	sigaction(SIGINT, &ignore, &old);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		sigaction(SIGINT, &old, NULL);
		_exit(child(argv, quiet));
	}
	rc = pid < 0 ? tool_fail("fork: %s", strerror(errno)) : wait_for(pid);
	sigaction(SIGINT, &old, NULL);
	if (pid > 0)
		*reports = read_reports(path);
	unlink(path);
	if (*reports && !json_array_size(*reports)) {
		json_decref(*reports);
		*reports = NULL;
		rc = rc ? rc
			: tool_fail("%s left no report: it has not used the device, or ended "
				    "without exit handlers",
				    argv[0]);
	}
	return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},     {"dispatches", no_argument, NULL, 'd'},
		{"fidelity", no_argument, NULL, 'f'}, {"code", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},     {NULL, 0, NULL, 0},
	};
	bool json = false, dispatches = false, fidelity = false;
	struct prof_names *names = prof_names_open();
	json_t *reports = NULL, *one;
	char why[512];
	size_t i;
	int o, rc = TOOL_OK;

	if (!names)
		return tool_fail("out of memory");
	while ((o = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		switch (o) {
		case 'j':
			json = true;
			break;
		case 'd':
			dispatches = true;
			break;
		case 'f':
			fidelity = true;
			break;
		case 'c':
			if (prof_names_add(names, optarg, why, sizeof(why))) {
				rc = tool_fail("%s", why);
				goto out;
			}
			break;
		case 'h':
			rc = tool_help(self);
			goto out;
		default:
			rc = tool_bad_option(self, o, argv);
			goto out;
		}
	}
	if (optind >= argc) {
		rc = tool_usage(self, "no program to run");
		goto out;
	}
	rc = prof_run(argv + optind, fidelity ? "VGPU_FIDELITY" : "VGPU_COUNTERS", json, &reports);
	if (!reports)
		goto out;
	json_array_foreach(reports, i, one)
	{
		prof_name_kernels(names, one);
		if (json)
			continue;
		if (!fidelity)
			prof_print(one, dispatches);
		prof_print_fidelity(one);
	}
	if (json) {
		json_t *all = json_pack("{s:O}", "processes", reports);

		if (tool_print_json(all) && !rc)
			rc = TOOL_FAILED;
	} else if (fflush(stdout) && !rc) {
		rc = tool_fail("stdout: %s", strerror(errno));
	}
out:
	json_decref(reports);
	prof_names_close(names);
	return rc;
}

const struct command cmd_prof = {
	"prof",
	"count what a program's kernels do on the virtual gfx1151",
	help,
	run,
};
