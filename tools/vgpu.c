/* barewave vgpu: any KFD client on the virtual gfx1151. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/prof.h"

static const char help[] =
	"Usage: barewave vgpu [OPTIONS] -- PROGRAM [ARGS]\n\n"
	"Runs PROGRAM, a dynamically linked KFD client, on the virtual gfx1151: its /dev/kfd,\n"
	"/dev/dri/renderD128, sysfs and procfs answers come from the library libvgpu.so, which\n"
	"lies beside this program and is preloaded.\n\n"
	"  --config FILE     'key = value' lines that describe the device (VGPU_CONFIG)\n"
	"  --set KEY=VALUE[,KEY=VALUE]\n"
	"                    single settings over the file's; may be repeated (VGPU_SET)\n"
	"  --trace FILE      writes every call the device answers (VGPU_TRACE)\n"
	"  --fidelity        at exit, prints on stderr what ran exactly, approximately, or not at "
	"all;\n"
	"                    everything is interpreted (docs/prof.md)\n"
	"  --check visibility\n"
	"                    finds host reads and writes that come before publication, and says "
	"so\n"
	"                    on stderr; everything is interpreted (docs/virtual-device.md)\n"
	"  --help            this text\n\n"
	"The exit status is PROGRAM's; 2 for wrong usage of this command, 1 if PROGRAM cannot be\n"
	"executed, or the check found something.\n";

static int set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		return tool_fail("%s: %s", name, strerror(errno));
	return TOOL_OK;
}

/* stdout is the program's: the report goes where messages go. */
static int run_reported(char *const *argv)
{
	json_t *reports, *one;
	size_t i;
	int rc = prof_run(argv, "VGPU_FIDELITY", false, &reports);

	fflush(stdout);
	if (reports && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
		json_array_foreach(reports, i, one)
		{
			prof_print_fidelity(one);
		}
	}
	json_decref(reports);
	return rc;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"set", required_argument, NULL, 's'},
		{"trace", required_argument, NULL, 't'},
		{"fidelity", no_argument, NULL, 'f'},
		{"check", required_argument, NULL, 'C'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int o, rc = TOOL_OK;
	const char *check = NULL;
	bool fidelity = false;

	/* '+': the first word that is no option ends ours */
	while ((o = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		switch (o) {
		case 'c':
			if (access(optarg, R_OK))
				return tool_fail("%s: %s", optarg, strerror(errno));
			rc = set_env("VGPU_CONFIG", optarg);
			break;
		case 's':
			if (!strchr(optarg, '='))
				return tool_usage(self, "--set '%s', wanted KEY=VALUE", optarg);
			rc = device_setting(optarg);
			break;
		case 't':
			rc = set_env("VGPU_TRACE", optarg);
			break;
		case 'f':
			fidelity = true;
			break;
		case 'C':
			if (strcmp(optarg, "visibility"))
				return tool_usage(self, "--check '%s', wanted visibility", optarg);
			check = optarg;
			break;
		case 'h':
			return tool_help(self);
		default:
			return tool_bad_option(self, o, argv);
		}
		if (rc)
			return rc;
	}
	if (optind >= argc)
		return tool_usage(self, "no program to run");
	if (fidelity && check)
		return tool_usage(self, "wanted one of --fidelity and --check");
	if (check)
		return check_run(argv + optind, check);
	if (fidelity)
		return run_reported(argv + optind);
	if (device_preload_virtual())
		return TOOL_FAILED;
	fflush(NULL);
	execvp(argv[optind], argv + optind);
	return tool_fail("%s: %s", argv[optind], strerror(errno));
}

const struct command cmd_vgpu = {
	"vgpu",
	"run any KFD client on the virtual gfx1151",
	help,
	run,
};
