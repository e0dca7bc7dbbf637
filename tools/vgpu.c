/* barewave vgpu: any KFD client on the virtual gfx1151. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/prof.h"

static const char help[] =
	"Usage: barewave vgpu [OPTIONS] -- PROGRAM [ARGS]\n"
	"       barewave vgpu --shared[=NAME] --daemon|--status|--stop\n\n"
	"Runs PROGRAM, a KFD client, on the virtual gfx1151: its /dev/kfd, /dev/dri/renderD128,\n"
	"sysfs and procfs answers come from the library libvgpu.so, which lies beside this\n"
	"program and is preloaded into the dynamically linked PROGRAM, or, with --trap, from\n"
	"behind the system calls of any x86-64 PROGRAM.\n\n"
	"  --config FILE     'key = value' lines that describe the device (VGPU_CONFIG)\n"
	"  --set KEY=VALUE[,KEY=VALUE]\n"
	"                    single settings over the file's; may be repeated (VGPU_SET)\n"
	"  --trap            does without libc: for programs that are linked statically or enter\n"
	"                    the kernel by themselves; seccomp sends their calls to the device\n"
	"  --trace FILE      writes every call the device answers (VGPU_TRACE)\n"
	"  --log FILE        writes what dmesg would say, and why calls were refused (VGPU_LOG)\n"
	"  --fidelity        at exit, prints on stderr what ran exactly, approximately, or not at "
	"all;\n"
	"                    everything is interpreted (docs/prof.md)\n"
	"  --check visibility\n"
	"                    finds host reads and writes that come before publication, and says "
	"so\n"
	"                    on stderr; everything is interpreted (docs/virtual-device.md)\n"
	"  --shared[=NAME]   the device is shared with every other program that is run with this "
	"NAME\n"
	"                    (default: default; with a slash: the path of the socket). The first "
	"one\n"
	"                    starts a daemon that ends with the last one; the device is what the "
	"first\n"
	"                    one's settings say\n"
	"  --daemon          with --shared: starts the daemon, to stay until --stop\n"
	"  --status          with --shared: what the daemon holds for its clients, as JSON\n"
	"  --stop            with --shared: ends the daemon; its clients lose the device\n"
	"  --any-user        with --shared: other users' programs may use the device, too\n"
	"  --help            this text\n\n"
	"The exit status is PROGRAM's; 2 for wrong usage of this command, 1 if PROGRAM cannot be\n"
	"executed, or the check found something.\n";

static int set_env(const char *name, const char *value)
{
	if (setenv(name, value, 1))
		return tool_fail("%s: %s", name, strerror(errno));
	return TOOL_OK;
}

/* A file that the device will append to, from wherever the program is by then. A whole path stays as it
 * is: what /dev/stderr and a shell's >(...) stand for may have no other name. */
static int set_file(const char *option, const char *name, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), rc;
	char *whole = fd < 0 ? NULL : *path == '/' ? strdup(path) : realpath(path, NULL);

	rc = whole ? set_env(name, whole)
		   : tool_fail("%s %s: %s, wanted a file to write to", option, path,
			       strerror(errno));
	free(whole);
	if (fd >= 0)
		close(fd);
	return rc;
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

/* ---- a shared device: vgpud, beside this program, does it ------------------ */

/* The folder of sockets is this user's alone. */
static int shared_folder(char *path, size_t n)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (run && run[0] == '/')
		snprintf(path, n, "%s/barewave", run);
	else
		snprintf(path, n, "/tmp/barewave-%u", (unsigned)geteuid());
	if (mkdir(path, 0700) && errno != EEXIST)
		return tool_fail("%s: %s", path, strerror(errno));
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 0077))
		return tool_fail("%s: not a folder that is yours alone", path);
	return TOOL_OK;
}

static int shared_socket(const char *name, char *path, size_t n)
{
	int rc;

	if (strchr(name, '/')) {
		if (name[0] == '/')
			snprintf(path, n, "%s", name);
		else if (!getcwd(path, n - strlen(name) - 2))
			return tool_fail("the current folder: %s", strerror(errno));
		else
			strcat(strcat(path, "/"), name);
		return TOOL_OK;
	}
	rc = shared_folder(path, n);
	if (!rc)
		snprintf(path + strlen(path), n - strlen(path), "/%s.sock", name);
	return rc;
}

/* vgpud with these options in front of the program and its arguments; NULL: said why. */
static char **shared_argv(const char *name, const char *act, bool any_user, char **program)
{
	static char daemon[4096], socket[4096];
	ssize_t len = readlink("/proc/self/exe", daemon, sizeof(daemon) - 8);
	static char **argv; /* until the exec */
	size_t n = 0, k = 0;
	char *slash;

	daemon[len > 0 ? len : 0] = '\0';
	slash = strrchr(daemon, '/');
	if (!slash) {
		tool_fail("/proc/self/exe: %s", strerror(errno));
		return NULL;
	}
	strcpy(slash + 1, "vgpud");
	if (access(daemon, X_OK)) {
		tool_fail("the daemon %s: %s (it is built beside this program)", daemon,
			  strerror(errno));
		return NULL;
	}
	if (strlen(name) > 100) {
		tool_fail("--shared=%s: longer than the path of a socket may be", name);
		return NULL;
	}
	if (shared_socket(name, socket, sizeof(socket)))
		return NULL;
	while (program[n])
		n++;
	argv = calloc(n + 8, sizeof(*argv));
	if (!argv) {
		tool_fail("out of memory");
		return NULL;
	}
	argv[k++] = daemon;
	argv[k++] = (char *)"--socket";
	argv[k++] = socket;
	if (any_user)
		argv[k++] = (char *)"--others";
	argv[k++] = (char *)(act ? act : "--");
	for (size_t i = 0; i < n; i++)
		argv[k++] = program[i];
	return argv;
}

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'}, {"set", required_argument, NULL, 's'},
		{"trace", required_argument, NULL, 't'},  {"log", required_argument, NULL, 'l'},
		{"fidelity", no_argument, NULL, 'f'},     {"check", required_argument, NULL, 'C'},
		{"help", no_argument, NULL, 'h'},         {"shared", optional_argument, NULL, 'S'},
		{"daemon", no_argument, NULL, 'D'},       {"status", no_argument, NULL, 'Q'},
		{"stop", no_argument, NULL, 'X'},         {"any-user", no_argument, NULL, 'U'},
		{"trap", no_argument, NULL, 'T'},         {NULL, 0, NULL, 0},
	};
	const char *shared = NULL, *act = NULL;
	int o, rc = TOOL_OK;
	bool fidelity = false, trap = false, any_user = false;
	const char *check = NULL;

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
			rc = set_file("--trace", "VGPU_TRACE", optarg);
			break;
		case 'l':
			rc = set_file("--log", "VGPU_LOG", optarg);
			break;
		case 'f':
			fidelity = true;
			break;
		case 'C':
			if (strcmp(optarg, "visibility"))
				return tool_usage(self, "--check '%s', wanted visibility", optarg);
			check = optarg;
			break;
		case 'S':
			shared = optarg && *optarg ? optarg : "default";
			break;
		case 'D':
			act = "--daemon";
			break;
		case 'Q':
			act = "--status";
			break;
		case 'X':
			act = "--stop";
			break;
		case 'U':
			any_user = true;
			break;
		case 'T':
			trap = true;
			break;
		case 'h':
			return tool_help(self);
		default:
			return tool_bad_option(self, o, argv);
		}
		if (rc)
			return rc;
	}
	if ((act || any_user) && !shared)
		return tool_usage(self, "%s is for a device that is shared: --shared",
				  act ? act : "--any-user");
	if (act && optind < argc)
		return tool_usage(self, "%s runs no program", act);
	if (!act && optind >= argc)
		return tool_usage(self, "no program to run");
	if (fidelity && check)
		return tool_usage(self, "wanted one of --fidelity and --check");
	argv += optind;
	if (trap && !act) {
		argv = device_trap_command(argv);
		if (!argv)
			return TOOL_FAILED;
	}
	if (shared) {
		argv = shared_argv(shared, act, any_user, argv);
		if (!argv)
			return TOOL_FAILED;
	}
	if (check && !act)
		return check_run(argv, check, getenv("VGPU_CHECK"));
	if (fidelity && !act)
		return run_reported(argv);
	if (!act && device_preload_virtual())
		return TOOL_FAILED;
	fflush(NULL);
	execvp(argv[0], argv);
	return tool_fail("%s: %s", argv[0], strerror(errno));
}

const struct command cmd_vgpu = {
	"vgpu",
	"run any KFD client on the virtual gfx1151",
	help,
	run,
};
