/* barewave: a table of subcommands. */
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

static const struct command *const commands[] = {
	&cmd_info, &cmd_plan, &cmd_run, &cmd_mem, &cmd_co, &cmd_launch, &cmd_vgpu, &cmd_prof,
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *to)
{
	fputs("Usage: barewave COMMAND [OPTIONS]\n\n"
	      "A user-space compute driver and LLM engine for AMD gfx1151 over raw KFD ioctls,\n"
	      "and a virtual gfx1151 to run it, or any other KFD client, on.\n\nCommands:\n",
	      to);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\nCommands that use a device take\n" TOOL_DEVICE_HELP
	      "\n'barewave COMMAND --help' describes a command.\n"
	      "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
	      to);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		print_help(stderr);
		return TOOL_USAGE;
	}
	/* --device=X before the command means the same after it */
	if (argc > 2 && !strncmp(argv[1], "--device=", 9)) {
		char *option = argv[1];

		argv[1] = argv[2];
		argv[2] = option;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return TOOL_OK;
	}
	c = command_find(argv[1]);
	if (!c) {
		fprintf(stderr, "barewave: unknown command '%s'\nTry 'barewave --help'.\n",
			argv[1]);
		return TOOL_USAGE;
	}
	device_remember(argc, argv);
	return c->run(c, argc - 1, argv + 1);
}
