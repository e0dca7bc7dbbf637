/* A program on the virtual device with its visibility checker on. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/prof.h"

static uint64_t number(const json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

/* The device said each when it happened; here the kernels get their names. */
static void say_kernels(const struct prof_names *names, const json_t *report)
{
	json_t *one, *work;
	size_t i;

	json_array_foreach(json_object_get(report, "findings"), i, one)
	{
		const char *name, *buffer = json_string_value(json_object_get(one, "buffer"));

		work = json_object_get(one, "work");
		if (!json_object_get(work, "code_hash"))
			continue;
		prof_name_kernel(names, work);
		name = json_string_value(json_object_get(work, "name"));
		if (name)
			tool_say("check: %s: %s of \"%s\", %" PRIu64 " times",
				 json_string_value(json_object_get(one, "kind")), name,
				 buffer ? buffer : "?", number(one, "count"));
	}
}

static bool say_report(const struct prof_names *names, const json_t *report)
{
	const char *why = json_string_value(json_object_get(report, "why_not"));
	uint64_t found = number(report, "found"), blind = number(report, "mappings_not_watched");

	say_kernels(names, report);
	if (!json_is_true(json_object_get(report, "checked"))) {
		tool_say("check: process %" PRIu64 " was not checked: %s", number(report, "pid"),
			 why ? why : "the device does not say why");
		return false;
	}
	tool_say("check: process %" PRIu64 ": visibility, findings: %" PRIu64 "; %" PRIu64
		 " rings, %" PRIu64 " dispatches and copies, %" PRIu64 " accesses looked at",
		 number(report, "pid"), found, number(report, "rings"), number(report, "works"),
		 number(report, "traps"));
	if (number(report, "reads_beside"))
		tool_say("check: %" PRIu64
			 " reads began before unpublished bytes of the same page; "
			 "whether they went on to them is not seen",
			 number(report, "reads_beside"));
	if (blind)
		tool_say("check: %" PRIu64 " mappings could not be watched", blind);
	return !found && !blind;
}

/* Who has said where reports go (VGPU_CHECK) shall have them there. */
static int hand_on(const json_t *report, const char *path)
{
	FILE *f = path && *path ? fopen(path, "ae") : NULL;
	bool ok = f && !json_dumpf(report, f, 0) && fputc('\n', f) != EOF;

	if (f && fclose(f))
		ok = false;
	return !path || !*path || ok ? TOOL_OK : tool_fail("%s: %s", path, strerror(errno));
}

int check_run(char *const *argv, const char *what, const char *asked)
{
	struct prof_names *names = prof_names_open();
	/* The variable is about to change. */
	char *path = asked ? strdup(asked) : NULL;
	json_t *reports = NULL, *one;
	char setting[64];
	bool clean = true;
	size_t i;
	int rc;

	if (!names || (asked && !path)) {
		prof_names_close(names);
		free(path);
		return tool_fail("out of memory");
	}
	snprintf(setting, sizeof(setting), "check=%s", what);
	rc = device_setting(setting);
	if (!rc)
		rc = prof_run(argv, "VGPU_CHECK", false, &reports);
	json_array_foreach(reports, i, one)
	{
		clean &= say_report(names, one);
		clean &= !hand_on(one, path);
	}
	if (!rc && !clean)
		rc = TOOL_FAILED;
	json_decref(reports);
	prof_names_close(names);
	free(path);
	return rc;
}
