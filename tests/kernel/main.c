/* kfdprobe SECTION...: runs the sections named, or lists them. */
#include "probe.h"

#include <string.h>

static const struct section {
	const char *name;
	void (*run)(void);
} sections[] = {
	{"open", section_open},
	{"files", section_files},
	{"sysfs", section_sysfs},
	{"dispatch", section_dispatch},
	{"info", section_info},
	{"queue", section_queue},
	{"memory", section_memory},
	{"svm", section_svm},
	{"mmap", section_mmap},
	{"event", section_event},
	{"limit", section_limit},
	{"wait", section_wait},
	{"age", section_age},
	{"thread", section_thread},
	{"signal", section_signal},
	{"fork", section_fork},
	{"exec", section_exec},
	{"exec-cloexec", section_exec_cloexec},
	{"criu", section_criu},
	{"debug", section_debug},
	{"capacity", section_capacity},
	{"random-events", section_random_events},
	{"random-calls", section_random_calls},
	{"random-mmap", section_random_mmap},
};

int main(int argc, char **argv)
{
	if (argc < 2) {
		for (unsigned i = 0; i < COUNT_OF(sections); i++)
			puts(sections[i].name);
		return 0;
	}
	if (!strcmp(argv[1], "--after-exec")) {
		section_exec_after(argc - 2, argv + 2);
		return 0;
	}
	for (unsigned i = 0; i < COUNT_OF(sections); i++) {
		if (strcmp(sections[i].name, argv[1]))
			continue;
		probe_set_section(argv[1]);
		sections[i].run();
		return 0;
	}
	fprintf(stderr, "kfdprobe: no section \"%s\"; without arguments it lists them\n", argv[1]);
	return 2;
}
