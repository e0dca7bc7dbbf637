/* barewave prof: a program on the virtual device with its counters on, and their report. */
#ifndef TOOLS_PROF_H
#define TOOLS_PROF_H

#include "tools/tool.h"

/* Runs argv on the virtual device with variable (VGPU_COUNTERS, VGPU_FIDELITY, VGPU_CHECK) naming a file of
 * our own; *reports is a JSON array of what the device wrote, one object per process. quiet: the
 * program's stdout goes to stderr. Returns the program's exit status (128 + n after signal n), or
 * TOOL_FAILED with a sentence and *reports NULL. */
int prof_run(char *const *argv, const char *variable, bool quiet, json_t **reports);

/* Code objects to find kernel names in: the embedded ones, and files given by the user. */
struct prof_names;
struct prof_names *prof_names_open(void);
/* 0, or -errno with a sentence in err. */
int prof_names_add(struct prof_names *n, const char *path, char *err, size_t errlen);
void prof_names_close(struct prof_names *n);
/* Adds "name" to every kernel of a report whose code is known: a kernel is known by the bytes that
 * its branches reach. Kernels with the same code get all their names. */
void prof_name_kernel(const struct prof_names *n, json_t *kernel);
void prof_name_kernels(const struct prof_names *n, json_t *report);

/* The same as prof_run() with the visibility checker on (tools/check.c); its findings go to stderr.
 * TOOL_FAILED also when there are any, or nothing could be checked. what: "visibility". asked: where the
 * reports shall go besides (VGPU_CHECK), or NULL. */
int check_run(char *const *argv, const char *what, const char *asked);
#define CHECK_SETTING "check=visibility"

/* Tables on stdout. */
void prof_print(const json_t *report, bool dispatches);
void prof_print_fidelity(const json_t *report);

#endif
