#include <string.h>
#include <unistd.h>

#include "tools/loading.h"

#define BAR_CELLS 40
#define REDRAW_NS 50000000u

static int choose(const struct command *c, const char *option, const char *value,
		  const char *const words[3], int *out)
{
	for (int i = 0; i < 3; i++) {
		if (!strcmp(words[i], value)) {
			*out = i;
			return TOOL_OK;
		}
	}
	return tool_usage(c, "--%s '%s', wanted %s, %s or %s", option, value, words[0], words[1],
			  words[2]);
}

int loading_option(const struct command *c, int o, const char *value, struct load_opts *l)
{
	static const char *const sources[3] = {"mmap", "pread", "direct"};
	static const char *const copies[3] = {"host", "sdma", "kernel"};
	uint64_t v;
	double s;
	int i, rc;

	switch (o) {
	case LOADING_LOAD:
		rc = choose(c, "load", value, sources, &i);
		if (!rc)
			l->source = (enum load_source)i;
		return rc;
	case LOADING_COPY:
		rc = choose(c, "copy", value, copies, &i);
		if (!rc)
			l->copy = (enum load_copy)i;
		return rc;
	case LOADING_STAGING:
		if (!tool_u64(value, LOAD_STAGING_MAX >> 20, &v) || !v)
			return tool_usage(c, "--staging '%s', wanted 1 to 64 MiB", value);
		l->staging = v << 20;
		return TOOL_OK;
	default:
		if (!tool_f64(value, &s) || !(s > 0 && s < 1e6))
			return tool_usage(c, "--stall '%s', wanted seconds", value);
		l->stall_ns = (uint64_t)(s * 1e9);
		return TOOL_OK;
	}
}

static void draw(void *ctx, uint64_t done, uint64_t total)
{
	static uint64_t last;
	uint64_t now = tool_now_ns();
	unsigned cells = (unsigned)(total ? done * BAR_CELLS / total : BAR_CELLS);

	(void)ctx;
	if (done < total && now - last < REDRAW_NS)
		return;
	last = now;
	fprintf(stderr, "\rloading [%.*s%*s] %s of %s", (int)cells,
		"########################################", (int)(BAR_CELLS - cells), "",
		tool_bytes(done), tool_bytes(total));
	if (done == total)
		fputs("\r\033[K", stderr);
}

void loading_show(struct load_opts *l)
{
	if (isatty(STDERR_FILENO))
		l->progress = draw;
}
