/* The barewave program: what its subcommands share.
 *
 * Exit codes: 0 done, 1 failed, 2 wrong usage. Results go to stdout, everything else to stderr;
 * progress appears on stderr only when that is a terminal.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

struct command {
	const char *name, *summary, *help;
	int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command cmd_info, cmd_plan, cmd_run, cmd_mem, cmd_co, cmd_launch, cmd_vgpu,
	cmd_prof;

/* "barewave: ..." and a newline on stderr. */
__attribute__((format(printf, 1, 2))) void tool_say(const char *fmt, ...);
/* The same, as the reason of a failure. */
#define tool_fail(...) (tool_say(__VA_ARGS__), TOOL_FAILED)
/* "barewave COMMAND: ..." and how to get help. */
__attribute__((format(printf, 2, 3))) void tool_say_usage(const struct command *c, const char *fmt,
							  ...);
#define tool_usage(...) (tool_say_usage(__VA_ARGS__), TOOL_USAGE)
/* Prints the command's help on stdout; returns TOOL_OK. */
int tool_help(const struct command *c);
/* What getopt_long answered '?' or ':' for, as a sentence; returns TOOL_USAGE. */
int tool_bad_option(const struct command *c, int answer, char **argv);

/* A whole file in memory; free() it. -errno, with one line in err. */
int tool_read_file(const char *path, void **data, size_t *n, char *err, size_t errlen);
int tool_write_file(const char *path, const void *data, size_t n, char *err, size_t errlen);
/* Removes a file that could not be written whole; devices and pipes stay. */
void tool_unfinished(const char *path);
/* Whether a file of that name can be written when the work is done; nothing is created. TOOL_FAILED is
 * said. */
int tool_writable(const char *path);

/* Numbers on the command line: whole string, in range, else false. Integers take 0x and may end in
 * K, M or G (powers of 1024). */
bool tool_u64(const char *text, uint64_t max, uint64_t *out);
bool tool_f64(const char *text, double *out);

/* A JSON string; null when s is not UTF-8, as names from files and paths need not be. */
json_t *tool_json_text(const char *s);
/* Prints and releases obj; returns TOOL_OK, or TOOL_FAILED when stdout does not take it. */
int tool_print_json(json_t *obj);
/* "12.3 MiB" into a static ring of buffers. */
const char *tool_bytes(uint64_t n);
uint64_t tool_now_ns(void); /* CLOCK_MONOTONIC */

/* ---- which device (tools/device.c) ---- */

#define TOOL_DEVICE_HELP                                                                           \
	"  --device=auto|virt|PATH  the machine's /dev/kfd (auto, the default), the virtual\n"     \
	"                           gfx1151 (virt), or another device node\n"

struct bw_device;
struct queue_opts;
struct bo_rules;

/* Remembers the command line as it was given: getopt reorders it. Called once by main(). */
void device_remember(int argc, char **argv);
/* text is the option's value as getopt gave it. For "virt" this replaces the process by the same
 * command on the virtual device, with the option replaced by --device=/dev/kfd; it returns only if
 * that fails. For anything else returns TOOL_OK at once. */
int device_select(const char *text);
#define TOOL_CHECK_HELP                                                                            \
	"  --check visibility   on the virtual device: find host reads and writes that come\n"     \
	"                       before publication; everything is interpreted\n"
/* device_select(), on a device that checks what it is given (NULL: nothing): the same command runs
 * in a process below, and the exit status of this one says what was found. */
int device_select_checked(const struct command *c, const char *text, const char *check);
/* Opens; prints one sentence and returns TOOL_FAILED when it cannot. q NULL: no queue. */
int device_open(const char *text, const struct queue_opts *q, struct bw_device *out);
/* The same with placement rules (NULL: none). */
int device_open_placed(const char *text, const struct queue_opts *q, const struct bo_rules *r,
		       struct bw_device *out);
/* The ledger as it is now, for 'barewave mem --ledger'. TOOL_FAILED is said. */
int device_save_ledger(const struct bw_device *d, const char *path);
/* Closes; TOOL_FAILED and a sentence when something was still alive. */
int device_close(struct bw_device *d);
/* Prepends libvgpu.so, found beside this program, to LD_PRELOAD. TOOL_FAILED with a sentence. */
int device_preload_virtual(void);
/* A directory with proc and sys of the virtual device that process pid has, as its kernel would show
 * them to others; as old as the last change of a buffer or queue. 0; -ENOENT: it has none; -errno. */
int device_outside(int pid, char *root, size_t n);
/* Adds KEY=VALUE to what the virtual device will be told (VGPU_SET): the last one wins. */
int device_setting(const char *setting);
/* The words that run argv under the loader of the trap backend, which puts the virtual device behind
 * the program's system calls; nothing is preloaded then. For the life of the process; NULL after a
 * message. */
char **device_trap_command(char *const *argv);

#endif
