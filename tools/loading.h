/* How weights are loaded, as options of run and plan; and the progress bar. */
#ifndef TOOLS_LOADING_H
#define TOOLS_LOADING_H

#include <getopt.h>

#include "engine/load.h"
#include "tools/tool.h"

#define LOADING_HELP                                                                               \
	"loading:\n"                                                                               \
	"  --load HOW           mmap (default), pread or direct (O_DIRECT)\n"                      \
	"  --copy BY            host (default), sdma or kernel: who moves repacked weights into\n" \
	"                       place\n"                                                           \
	"  --staging MIB        buffers of a load together, 1 to 64 (default 16)\n"                \
	"  --stall SECONDS      give up when no byte of the file comes for so long (default 60)\n"

enum { LOADING_LOAD = 1100, LOADING_COPY, LOADING_STAGING, LOADING_STALL };

#define LOADING_OPTIONS                                                                            \
	{"load", required_argument, NULL, LOADING_LOAD},                                           \
		{"copy", required_argument, NULL, LOADING_COPY},                                   \
		{"staging", required_argument, NULL, LOADING_STAGING},                             \
	{                                                                                          \
		"stall", required_argument, NULL, LOADING_STALL                                    \
	}

static inline bool loading_is(int o)
{
	return o >= LOADING_LOAD && o <= LOADING_STALL;
}
/* TOOL_OK or TOOL_USAGE, said. */
int loading_option(const struct command *c, int o, const char *value, struct load_opts *l);
/* Has progress drawn on stderr if that is a terminal. */
void loading_show(struct load_opts *l);

#endif
